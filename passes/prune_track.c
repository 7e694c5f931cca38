/* passes/prune_track.c: follows channels through a graph, from the filters that make them to the weights that mix them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Each channel has an id. What must keep equal channels (sums, products, batch norm, depthwise convolutions) unites ids, a concatenation
 * joins lists of them, a flattening repeats them. What is not understood pins the ids it sees: they stay. Works on operators of any
 * spelling and on calls of torch.nn's modules; types help where there are some, and are not needed. */
#include <string.h>

#include "passes/prune.h"

enum { UNKNOWN = -1, LAST = -1 };

/* ---- ids ----------------------------------------------------------------------------------------------------------------- */

int fx_channel_root(const fx_tracker *t, int id)
{
    while (t->parent[id] != id) {
        t->parent[id] = t->parent[t->parent[id]];
        id = t->parent[id];
    }
    return id;
}

static void unite(fx_tracker *t, int a, int b)
{
    a = fx_channel_root(t, a);
    b = fx_channel_root(t, b);
    int root = a < b ? a : b;
    t->pinned[root] = t->pinned[a] || t->pinned[b];
    t->parent[a < b ? b : a] = root;
}

static void unite_all(fx_tracker *t, int n, const int *a, const int *b)
{
    for (int i = 0; i < n; i++)
        unite(t, a[i], b[i]);
}

static void pin_ids(fx_tracker *t, int n, const int *ids)
{
    for (int i = 0; i < n; i++)
        t->pinned[fx_channel_root(t, ids[i])] = true;
}

static int *fresh_ids(fx_tracker *t, int n)
{
    int *ids = FX_NEW_ARRAY(t->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        ids[i] = (int)t->n_ids;
        size_t at = t->n_ids;
        t->pinned = fx_arena_grow(t->arena, t->pinned, at, &t->cap_pinned, sizeof *t->pinned);
        t->pinned[at] = false;
        FX_PUSH(t->arena, t->parent, t->n_ids, t->cap_ids) = ids[i];
    }
    return ids;
}

static fx_channels *channels(fx_tracker *t, int rank, int axis, int n, const int *ids)
{
    fx_channels *c = FX_NEW(t->arena, fx_channels);
    *c = (fx_channels){.rank = rank, .axis = axis, .n = n, .ids = ids};
    return c;
}

/* Each id `times` over: what flattening makes of channels. */
static const int *repeat(fx_tracker *t, int n, const int *ids, int times)
{
    if (times == 1)
        return ids;
    int *out = FX_NEW_ARRAY(t->arena, int, (size_t)n * (size_t)times + 1);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < times; k++)
            out[i * times + k] = ids[i];
    return out;
}

/* ---- what nodes read ------------------------------------------------------------------------------------------------------ */

static fx_attr *attr_of(const fx_node *n)
{
    fx_attr *a = n && n->opcode == FX_GET_ATTR ? fx_attr_find(n->graph, n->target) : NULL;
    return a ? fx_tied_first(a) : NULL;
}

static void freeze(fx_tracker *t, fx_attr *a)
{
    fx_map_put(t->arena, &t->frozen, a, a);
}

static void pin(fx_tracker *t, const fx_node *n)
{
    const fx_channels *c = n ? t->of[n->id] : NULL;
    if (c)
        pin_ids(t, c->n, c->ids);
    for (int i = 0; n && i < t->n_items[n->id]; i++)
        if (t->items[n->id][i])
            pin_ids(t, t->items[n->id][i]->n, t->items[n->id][i]->ids);
    bool turned = false;
    fx_attr *a = n ? fx_matrix_of(n, &turned) : NULL;
    if (a)
        freeze(t, fx_tied_first(a));
}

static void pin_operands(fx_tracker *t, const fx_node *n)
{
    for (int i = 0; i < n->n_operands; i++)
        pin(t, n->operands[i].def);
}

/* A dim of a parameter follows ids; one that did so already: those ids go together. */
static void follow(fx_tracker *t, fx_attr *a, int dim, int n, const int *ids)
{
    size_t first = (size_t)(uintptr_t)fx_map_get(&t->dims_of, a);
    for (size_t i = first; i; i = t->dims[i - 1].next)
        if (t->dims[i - 1].dim == dim) {
            unite_all(t, n, t->dims[i - 1].ids, ids);
            return;
        }
    FX_PUSH(t->arena, t->dims, t->n_dims, t->cap_dims) = (fx_channel_dim){a, dim, n, ids, first};
    fx_map_put(t->arena, &t->dims_of, a, (void *)(uintptr_t)t->n_dims);
}

static void count_setting(fx_tracker *t, fx_module *m, const char *setting, int n, const int *ids)
{
    FX_PUSH(t->arena, t->counts, t->n_counts, t->cap_counts) = (fx_channel_count){.module = m, .setting = setting, .n = n, .ids = ids};
}

static void count_argument(fx_tracker *t, fx_node *n, int param, int item, int count, const int *ids)
{
    FX_PUSH(t->arena, t->counts, t->n_counts, t->cap_counts) = (fx_channel_count){n, param, item, NULL, NULL, count, ids};
}

static const fx_type *tensor_type(const fx_node *n)
{
    return n && n->type && n->type->kind == FX_TYPE_TENSOR ? n->type : NULL;
}

/* ---- a call, of an operator or of a module ------------------------------------------------------------------------------------ */

typedef struct call {
    fx_tracker *t;
    fx_node *n;
    fx_call_args args;       /* of an operator */
    fx_module *module;       /* of a module */
    const fx_class *class;
    fx_node *x;              /* the first input */
    const fx_channels *in;   /* its channels, or NULL */
} call;

static fx_node *operand(const call *c, int param)
{
    const fx_arg *a = c->args.args[param];
    return a->kind == FX_ARG_NODE ? c->n->operands[a->i].def : NULL;
}

static fx_attr *module_attr(const call *c, const char *name)
{
    for (size_t i = 0; i < c->module->n_attrs; i++)
        if (!strcmp(c->module->attrs[i]->name, name))
            return fx_tied_first(c->module->attrs[i]);
    return NULL;
}

static fx_attr *parameter(const call *c, int param, const char *name)
{
    return c->module ? module_attr(c, name) : attr_of(operand(c, param));
}

static bool setting_int(const call *c, const char *key, int64_t *v)
{
    const fx_arg *a = fx_module_config(c->module, key);
    *v = a && a->kind == FX_ARG_INT ? a->i : 0;
    return a && a->kind == FX_ARG_INT;
}

/* Everything it reads stays as it is. */
static void give_up(call *c)
{
    pin_operands(c->t, c->n);
    for (size_t i = 0; c->module && i < c->module->n_attrs; i++)
        freeze(c->t, fx_tied_first(c->module->attrs[i]));
}

static void yield(call *c, int rank, int axis, int n, const int *ids)
{
    c->t->of[c->n->id] = channels(c->t, rank, axis, n, ids);
}

/* The same channels at another place. */
static void yield_at(call *c, int rank, int axis)
{
    yield(c, rank, axis, c->in->n, c->in->ids);
    c->t->of[c->n->id]->flat = c->in->flat;
}

static void pass_through(call *c)
{
    if (c->in)
        c->t->of[c->n->id] = (fx_channels *)c->in;
}

static bool at_last(const fx_channels *c)
{
    return c->axis == LAST || (c->rank != UNKNOWN && c->axis == c->rank - 1);
}

/* A vector parameter by channel, if there is one. */
static bool follow_vector(call *c, int param, const char *name, int n, const int *ids)
{
    fx_attr *a = parameter(c, param, name);
    if (!a) {
        if (c->module || !operand(c, param))
            return true; /* None */
        pin(c->t, operand(c, param));
        return false;
    }
    if (a->tensor.rank != 1 || a->tensor.sizes[0] != n) {
        freeze(c->t, a);
        return false;
    }
    follow(c->t, a, 0, n, ids);
    return true;
}

/* ---- contractions -------------------------------------------------------------------------------------------------------------- */

/* The features of an input as a weight counts them; NULL when they are not followed. */
static const int *input_ids(call *c, int64_t features)
{
    const fx_channels *in = c->in;
    if (!in)
        return NULL;
    if (in->n == features && !in->flat)
        return in->ids;
    if (in->flat && features % in->n == 0)
        return repeat(c->t, in->n, in->ids, (int)(features / in->n));
    return NULL;
}

static void contraction(call *c, const fx_weight *w, int in_dim, const int *in_ids, int bias_param, int rank, int axis)
{
    fx_tracker *t = c->t;
    fx_attr *a = fx_tied_first(w->attr);
    int out = (int)a->tensor.sizes[w->out_dim], in = (int)a->tensor.sizes[in_dim];
    const int *ids = fresh_ids(t, out);
    if (in_ids)
        follow(t, a, in_dim, in, in_ids);
    else
        pin(t, c->x);
    follow(t, a, w->out_dim, out, ids);
    FX_PUSH(t->arena, t->sources, t->n_sources, t->cap_sources) = (fx_channel_source){c->n, a, w->out_dim, out, ids};
    if ((bias_param >= 0 || c->module) && !follow_vector(c, bias_param, "bias", out, ids))
        pin_ids(t, out, ids);
    yield(c, rank, axis, out, ids);
}

static void convolution(call *c, const fx_weight *w, int64_t groups, int groups_param)
{
    fx_tracker *t = c->t;
    const fx_tensor *weight = &w->attr->tensor;
    const fx_type *type = tensor_type(c->n);
    int rank = type ? type->rank : weight->rank, axis = rank - weight->rank + 1; /* without types: batched */
    bool placed = c->in && c->in->axis == axis && c->in->rank == rank && !c->in->flat;
    if (axis < 0) {
        give_up(c);
    } else if (groups == 1) {
        int in_dim = 1 - w->out_dim;
        const int *ids = placed && c->in->n == weight->sizes[in_dim] ? c->in->ids : NULL;
        contraction(c, w, in_dim, ids, 2, rank, axis);
        if (c->module) {
            count_setting(t, c->module, "out_channels", t->of[c->n->id]->n, t->of[c->n->id]->ids);
            if (ids)
                count_setting(t, c->module, "in_channels", c->in->n, ids);
        }
    } else if (placed && !w->transposed && groups == c->in->n && weight->sizes[0] == groups && weight->sizes[1] == 1) {
        follow(t, fx_tied_first(w->attr), 0, c->in->n, c->in->ids); /* depthwise: channels stay apart */
        if (!follow_vector(c, 2, "bias", c->in->n, c->in->ids))
            pin(t, c->x);
        if (c->module) {
            static const char *const settings[] = {"in_channels", "out_channels", "groups"};
            for (int i = 0; i < 3; i++)
                count_setting(t, c->module, settings[i], c->in->n, c->in->ids);
        } else {
            count_argument(t, c->n, groups_param, -1, c->in->n, c->in->ids);
        }
        yield_at(c, rank, axis);
    } else {
        give_up(c);
    }
}

static void linear(call *c, const fx_weight *w, int bias_param)
{
    const fx_type *type = tensor_type(c->n);
    int in_dim = 1 - w->out_dim, rank = type ? type->rank : c->in ? c->in->rank : UNKNOWN;
    if (w->attr->tensor.rank != 2) {
        give_up(c);
        return;
    }
    const int *ids = c->in && at_last(c->in) ? input_ids(c, w->attr->tensor.sizes[in_dim]) : NULL;
    contraction(c, w, in_dim, ids, bias_param, rank, rank == UNKNOWN ? LAST : rank - 1);
    if (c->module) {
        const fx_channels *out = c->t->of[c->n->id];
        count_setting(c->t, c->module, "out_features", out->n, out->ids);
        if (ids)
            count_setting(c->t, c->module, "in_features", (int)w->attr->tensor.sizes[in_dim], ids);
    }
}

static void batch_norm(call *c, const int params[4], bool tuple)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    fx_tracker *t = c->t;
    if (!c->in || c->in->axis != 1 || c->in->flat) {
        give_up(c);
        return;
    }
    for (int i = 0; i < 4; i++)
        if (!follow_vector(c, params ? params[i] : 0, names[i], c->in->n, c->in->ids))
            pin(t, c->x);
    if (c->module)
        count_setting(t, c->module, "num_features", c->in->n, c->in->ids);
    if (tuple) {
        t->n_items[c->n->id] = 3;
        t->items[c->n->id] = FX_NEW_ARRAY(t->arena, fx_channels *, 3);
        t->items[c->n->id][0] = (fx_channels *)c->in;
    } else {
        pass_through(c);
    }
}

/* ---- pointwise ----------------------------------------------------------------------------------------------------------------- */

/* A parameter broadcast to the result along with channels. */
static bool broadcast_attr(call *c, fx_attr *a, const fx_channels *out)
{
    int d = out->axis == LAST ? a->tensor.rank - 1 : out->rank == UNKNOWN ? -1 : out->axis - (out->rank - a->tensor.rank);
    if (fx_tensor_numel(&a->tensor) == 1 || (d < 0 && (out->axis == LAST || out->rank != UNKNOWN)) || (d >= 0 && a->tensor.sizes[d] == 1))
        return true;
    if (d < 0 || a->tensor.sizes[d] != out->n || out->flat)
        return false;
    follow(c->t, a, d, out->n, out->ids);
    return true;
}

/* Where an operand's channels lie in the result, for operands of known and of unknown rank. */
static int aligned(const fx_channels *c, int rank)
{
    return c->axis == LAST || c->rank == UNKNOWN || rank == UNKNOWN ? c->axis : rank - (c->rank - c->axis);
}

static void pointwise(call *c)
{
    fx_tracker *t = c->t;
    const fx_type *type = tensor_type(c->n);
    fx_channels *out = NULL;
    int rank = type ? type->rank : UNKNOWN;
    bool ok = true;
    for (int i = 0; !type && i < c->n->n_operands; i++) {
        const fx_channels *in = t->of[c->n->operands[i].def->id];
        rank = in && in->rank > rank ? in->rank : rank;
    }
    for (int i = 0; i < c->n->n_operands; i++) {
        const fx_channels *in = t->of[c->n->operands[i].def->id];
        if (!in || (in->n == 1 && out))
            continue;
        if (!out || out->n == 1)
            out = channels(t, rank, aligned(in, rank), in->n, in->ids);
        out->flat = in->flat;
    }
    if (!out) { /* nothing followed among them */
        pin_operands(t, c->n);
        return;
    }
    for (int i = 0; i < c->n->n_operands; i++) {
        const fx_node *def = c->n->operands[i].def;
        const fx_channels *in = t->of[def->id];
        const fx_type *said = tensor_type(def);
        fx_attr *a = attr_of(def);
        if (in && in->n == 1 && out->n != 1) {
            pin(t, def);
        } else if (in) {
            bool same = in->n == out->n && in->flat == out->flat && aligned(in, rank) == out->axis;
            ok = ok && same;
            if (same)
                unite_all(t, in->n, in->ids, out->ids);
        } else if (a) {
            bool fits = broadcast_attr(c, a, out);
            ok = ok && fits;
            if (!fits)
                freeze(t, a);
        } else if (said) { /* a tensor not followed: must not have the channels */
            int d = out->axis == LAST || rank == UNKNOWN ? -2 : out->axis - (rank - said->rank);
            ok = ok && (said->rank == 0 || (d != -2 && (d < 0 || (!said->dims[d].sym && said->dims[d].value == 1))));
        } else {
            ok = ok && def->type; /* a number */
        }
    }
    if (ok)
        t->of[c->n->id] = out;
    else
        pin_operands(t, c->n);
}

/* ---- shapes ---------------------------------------------------------------------------------------------------------------------- */

static int wrap(int64_t d, int rank)
{
    return rank == UNKNOWN ? (d >= 0 ? (int)d : -100) : (int)(d < 0 ? d + rank : d);
}

static bool int_at(const call *c, int param, int64_t *v)
{
    const fx_arg *a = c->args.args[param];
    *v = a->kind == FX_ARG_INT ? a->i : 0;
    return a->kind == FX_ARG_INT;
}

static void flatten(call *c, int64_t start, int64_t end)
{
    const fx_channels *in = c->in;
    const fx_type *type = tensor_type(c->x);
    if (!in || in->axis == LAST || in->flat) {
        give_up(c);
        return;
    }
    int from = wrap(start, in->rank), to = end == -1 && in->rank == UNKNOWN ? 99 : wrap(end, in->rank);
    int merged = in->rank == UNKNOWN ? UNKNOWN : to - from;
    if (from > in->axis) {
        yield_at(c, in->rank == UNKNOWN ? UNKNOWN : in->rank - merged, in->axis);
    } else if (from == in->axis && type && fx_type_is_static(type)) {
        int64_t times = 1;
        for (int i = from + 1; i <= to; i++)
            times *= type->dims[i].value;
        if (times < 1 || times > INT32_MAX / in->n)
            give_up(c);
        else
            yield(c, in->rank - merged, in->axis, in->n * (int)times, repeat(c->t, in->n, in->ids, (int)times));
    } else if (from == in->axis && to > from) {
        yield_at(c, in->rank == UNKNOWN ? UNKNOWN : in->rank - merged, in->axis);
        c->t->of[c->n->id]->flat = true;
    } else {
        give_up(c);
    }
}

/* The dims before the channels stay, the channels alone or with all that follows become one. */
static void view(call *c)
{
    const fx_channels *in = c->in;
    const fx_arg *sizes = c->args.args[1];
    const fx_type *from = tensor_type(c->x), *to = tensor_type(c->n);
    if (!in || in->flat || in->axis == LAST || sizes->kind != FX_ARG_LIST || sizes->n <= in->axis) {
        give_up(c);
        return;
    }
    int64_t times = 0;
    const fx_arg *said = sizes->items[in->axis];
    int rank = sizes->n;
    if (from && to) {
        bool same = true;
        for (int i = 0; same && i < in->axis; i++)
            same = from->dims[i].sym ? from->dims[i].sym == to->dims[i].sym : !to->dims[i].sym && from->dims[i].value == to->dims[i].value;
        if (same && !to->dims[in->axis].sym && to->dims[in->axis].value % in->n == 0)
            times = to->dims[in->axis].value / in->n;
        if (times > 1 && rank != in->axis + 1)
            times = 0; /* what follows is merged only in part */
    } else if (rank == 2 && in->axis == 1 && in->rank > 2) { /* x.view(n, -1) of images */
        if (said->kind == FX_ARG_INT && said->i > 0 && said->i % in->n == 0) {
            times = said->i / in->n;
        } else if (said->kind == FX_ARG_INT && said->i == -1) {
            yield_at(c, 2, 1);
            c->t->of[c->n->id]->flat = true;
            return;
        }
    }
    if (times < 1 || times > INT32_MAX / in->n || said->kind != FX_ARG_INT) {
        give_up(c);
        return;
    }
    const int *ids = repeat(c->t, in->n, in->ids, (int)times);
    if (said->i > 0)
        count_argument(c->t, c->n, 1, in->axis, in->n * (int)times, ids);
    yield(c, rank, in->axis, in->n * (int)times, ids);
}

static void permute(call *c)
{
    const fx_arg *dims = c->args.args[1];
    int rank = c->in ? c->in->rank : UNKNOWN;
    for (int i = 0; c->in && !c->in->flat && rank == dims->n && i < rank; i++)
        if (dims->items[i]->kind == FX_ARG_INT && wrap(dims->items[i]->i, rank) == c->in->axis)
            yield_at(c, rank, i);
    if (!c->t->of[c->n->id])
        give_up(c);
}

static void transpose(call *c, int64_t a, int64_t b)
{
    if (!c->in || c->in->rank == UNKNOWN || c->in->flat) {
        give_up(c);
        return;
    }
    int x = wrap(a, c->in->rank), y = wrap(b, c->in->rank), axis = c->in->axis;
    yield_at(c, c->in->rank, axis == x ? y : axis == y ? x : axis);
}

static void unsqueeze(call *c, int64_t dim)
{
    if (!c->in || c->in->rank == UNKNOWN || c->in->flat) {
        give_up(c);
        return;
    }
    yield_at(c, c->in->rank + 1, c->in->axis + (wrap(dim, c->in->rank + 1) <= c->in->axis));
}

static void squeeze(call *c, int64_t dim)
{
    const fx_type *from = tensor_type(c->x), *to = tensor_type(c->n);
    if (!c->in || !from || !to || c->in->rank == UNKNOWN || wrap(dim, c->in->rank) == c->in->axis) {
        give_up(c);
        return;
    }
    yield_at(c, to->rank, c->in->axis - (to->rank < from->rank && wrap(dim, c->in->rank) < c->in->axis));
}

/* mean, sum, amax over other dims. */
static void reduce(call *c)
{
    const fx_arg *dims = c->args.args[1], *keep = c->args.args[2];
    if (!c->in || c->in->rank == UNKNOWN || c->in->flat || dims->kind != FX_ARG_LIST || !dims->n) {
        give_up(c);
        return;
    }
    int below = 0;
    bool keeps = keep->kind == FX_ARG_BOOL && keep->b;
    for (int i = 0; i < dims->n; i++) {
        int d = dims->items[i]->kind == FX_ARG_INT ? wrap(dims->items[i]->i, c->in->rank) : c->in->axis;
        if (d == c->in->axis) {
            give_up(c);
            return;
        }
        below += d < c->in->axis;
    }
    yield_at(c, keeps ? c->in->rank : c->in->rank - dims->n, keeps ? c->in->axis : c->in->axis - below);
}

static void pad(call *c)
{
    const fx_arg *list = c->args.args[1];
    if (c->in && c->in->rank != UNKNOWN && list->kind == FX_ARG_LIST && list->n / 2 < c->in->rank - c->in->axis)
        pass_through(c);
    else
        give_up(c);
}

static void softmax(call *c)
{
    int64_t dim;
    if (c->in && c->in->rank != UNKNOWN && int_at(c, 1, &dim) && wrap(dim, c->in->rank) != c->in->axis)
        pass_through(c);
    else
        give_up(c);
}

/* Joined along channels: their lists one after another. A tensor not followed keeps its channels. */
static void cat(call *c)
{
    fx_tracker *t = c->t;
    const fx_arg *list = c->args.args[0];
    const fx_channels *first = NULL;
    int64_t dim;
    bool ok = list->kind == FX_ARG_LIST && int_at(c, 1, &dim);
    int total = 0;
    for (int i = 0; ok && i < list->n; i++)
        if (list->items[i]->kind == FX_ARG_NODE && !first)
            first = t->of[c->n->operands[list->items[i]->i].def->id];
    ok = ok && first && !first->flat && first->axis != LAST && (first->rank != UNKNOWN || dim >= 0);
    bool along = ok && wrap(dim, first->rank) == first->axis;
    const int **ids = FX_NEW_ARRAY(t->arena, const int *, list->n + 1);
    int *counts = FX_NEW_ARRAY(t->arena, int, list->n + 1);
    for (int i = 0; ok && i < list->n; i++) {
        const fx_node *def = list->items[i]->kind == FX_ARG_NODE ? c->n->operands[list->items[i]->i].def : NULL;
        const fx_channels *in = def ? t->of[def->id] : NULL;
        const fx_type *type = tensor_type(def);
        if (in) {
            ok = in->rank == first->rank && in->axis == first->axis && !in->flat && (along || in->n == first->n);
            ids[i] = in->ids;
            counts[i] = in->n;
        } else {
            ok = along && type && !attr_of(def) && first->axis < type->rank && !type->dims[first->axis].sym && type->dims[first->axis].value < INT32_MAX;
            counts[i] = ok ? (int)type->dims[first->axis].value : 0;
            ids[i] = fresh_ids(t, counts[i]);
            pin_ids(t, counts[i], ids[i]);
        }
        ok = ok && counts[i] <= INT32_MAX - total;
        total += counts[i];
    }
    if (!ok) {
        give_up(c);
        return;
    }
    if (!along) {
        for (int i = 0; i < list->n; i++)
            unite_all(t, first->n, first->ids, ids[i]);
        yield(c, first->rank, first->axis, first->n, first->ids);
        return;
    }
    int *joined = FX_NEW_ARRAY(t->arena, int, total + 1), at = 0;
    for (int i = 0; i < list->n; at += counts[i++])
        memcpy(joined + at, ids[i], (size_t)counts[i] * sizeof *joined);
    yield(c, first->rank, first->axis, total, joined);
}

/* chunk, split: pieces of the list, or the whole of it in each piece. */
static void split(call *c)
{
    fx_tracker *t = c->t;
    const fx_arg *by = c->args.args[1];
    int64_t dim, n, each;
    if (!c->in || c->in->rank == UNKNOWN || c->in->flat || !int_at(c, 2, &dim)) {
        give_up(c);
        return;
    }
    bool along = wrap(dim, c->in->rank) == c->in->axis, sizes = by->kind == FX_ARG_LIST;
    each = by->kind == FX_ARG_INT && by->i > 0 ? c->args.op->id == FX_OP_chunk ? (c->in->n + by->i - 1) / by->i : by->i : 0;
    n = sizes ? by->n : along ? (each ? (c->in->n + each - 1) / each : 0) : c->n->type && c->n->type->kind == FX_TYPE_TUPLE ? c->n->type->n : 0;
    if (n < 1 || n > c->in->n + 1) {
        give_up(c);
        return;
    }
    fx_channels **items = FX_NEW_ARRAY(t->arena, fx_channels *, n);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        int64_t size = !along ? c->in->n : sizes ? (by->items[i]->kind == FX_ARG_INT ? by->items[i]->i : -1) : each;
        size = along && !sizes && size > c->in->n - at ? c->in->n - at : size;
        if (size < 1 || (along && size > c->in->n - at)) {
            give_up(c);
            return;
        }
        items[i] = channels(t, c->in->rank, c->in->axis, (int)size, c->in->ids + (along ? at : 0));
        at += size;
    }
    t->items[c->n->id] = items;
    t->n_items[c->n->id] = (int)n;
    if (along)
        FX_PUSH(t->arena, t->splits, t->n_splits, t->cap_splits) = (fx_channel_split){c->n, (int)n, items};
}

static void getitem(call *c)
{
    int64_t i;
    int n = c->x ? c->t->n_items[c->x->id] : 0;
    if (n && int_at(c, 1, &i) && i < n && i >= -n)
        c->t->of[c->n->id] = c->t->items[c->x->id][i < 0 ? i + n : i];
    else
        give_up(c);
}

/* ---- by operator, by class -------------------------------------------------------------------------------------------------------- */

static void track_operator(call *c)
{
    static const int of_batch_norm[] = {1, 2, 3, 4};
    int64_t a, b;
    fx_weight w;
    bool weight = fx_weight_of(c->n, &w), turned = false;
    if (fx_matrix_of(c->n, &turned))
        return; /* a weight seen otherwise: what reads it decides */
    switch (c->args.op->id) {
    case FX_OP_conv1d: case FX_OP_conv2d: case FX_OP_conv3d: case FX_OP_conv1d_padding: case FX_OP_conv2d_padding:
    case FX_OP_conv_transpose1d: case FX_OP_conv_transpose2d_input: case FX_OP_convolution: {
        int groups = c->args.op->id == FX_OP_convolution ? 8 : 6;
        if (weight && int_at(c, groups, &a))
            convolution(c, &w, a, groups);
        else
            give_up(c);
        return;
    }
    case FX_OP_linear:
        weight ? linear(c, &w, 2) : give_up(c);
        return;
    case FX_OP_addmm:
        c->x = operand(c, 1);
        c->in = c->x ? c->t->of[c->x->id] : NULL;
        weight ? linear(c, &w, 0) : give_up(c);
        return;
    case FX_OP_mm: case FX_OP_matmul:
        weight ? linear(c, &w, -1) : give_up(c);
        return;
    case FX_OP_batch_norm:
        batch_norm(c, of_batch_norm, false);
        return;
    case FX_OP__native_batch_norm_legit_no_training:
        batch_norm(c, of_batch_norm, true);
        return;
    case FX_OP_prelu:
        if (c->in && c->in->axis == 1 && attr_of(operand(c, 1)) &&
            (fx_tensor_numel(&attr_of(operand(c, 1))->tensor) == 1 || follow_vector(c, 1, NULL, c->in->n, c->in->ids)))
            pass_through(c);
        else
            give_up(c);
        return;
    case FX_OP_max_pool2d: case FX_OP_max_pool1d: case FX_OP_avg_pool2d: case FX_OP_avg_pool1d: case FX_OP_adaptive_avg_pool2d:
    case FX_OP__adaptive_avg_pool2d: case FX_OP_adaptive_avg_pool1d: case FX_OP_upsample_nearest2d: case FX_OP_upsample_nearest2d_vec:
    case FX_OP_upsample_bilinear2d: case FX_OP_upsample_bilinear2d_vec:
        if (c->in && (c->in->rank == UNKNOWN || c->in->axis < c->in->rank - 1) && c->in->axis != LAST && c->in->axis <= 1)
            pass_through(c);
        else
            give_up(c);
        return;
    case FX_OP_dropout: case FX_OP_feature_dropout: case FX_OP_clone: case FX_OP_contiguous: case FX_OP_alias: case FX_OP_detach:
        c->in ? pass_through(c) : give_up(c);
        return;
    case FX_OP_flatten_using_ints:
        int_at(c, 1, &a) && int_at(c, 2, &b) ? flatten(c, a, b) : give_up(c);
        return;
    case FX_OP_view: case FX_OP_reshape: case FX_OP__unsafe_view:
        view(c);
        return;
    case FX_OP_permute:
        permute(c);
        return;
    case FX_OP_transpose_int:
        int_at(c, 1, &a) && int_at(c, 2, &b) ? transpose(c, a, b) : give_up(c);
        return;
    case FX_OP_unsqueeze:
        int_at(c, 1, &a) ? unsqueeze(c, a) : give_up(c);
        return;
    case FX_OP_squeeze_dim:
        int_at(c, 1, &a) ? squeeze(c, a) : give_up(c);
        return;
    case FX_OP_mean_dim: case FX_OP_sum_dim_IntList:
        reduce(c);
        return;
    case FX_OP_constant_pad_nd:
        pad(c);
        return;
    case FX_OP__softmax: case FX_OP_softmax_int:
        softmax(c);
        return;
    case FX_OP_cat:
        cat(c);
        return;
    case FX_OP_chunk: case FX_OP_split_Tensor: case FX_OP_split_with_sizes:
        split(c);
        return;
    case FX_OP_getitem:
        getitem(c);
        return;
    case FX_OP_sym_size_int: /* a size other than the channels' */
        if (!c->in || c->in->rank == UNKNOWN || !int_at(c, 1, &a) || wrap(a, c->in->rank) == c->in->axis)
            give_up(c);
        return;
    default:
        c->args.op->cls == FX_CLASS_POINTWISE ? pointwise(c) : give_up(c);
        return;
    }
}

static bool is_pointwise_class(const fx_class *class)
{
    switch (class->id) {
    case FX_MODULE_GLU: case FX_MODULE_PReLU: case FX_MODULE_Softmax: case FX_MODULE_Softmin: case FX_MODULE_LogSoftmax:
    case FX_MODULE_Softmax2d: case FX_MODULE_MultiheadAttention:
        return false;
    default:
        return strstr(class->name, ".activation.") != NULL || strstr(class->name, ".dropout.") != NULL || class->id == FX_MODULE_Identity;
    }
}

static bool is_spatial_class(const fx_class *class)
{
    return strstr(class->name, ".pooling.") != NULL || strstr(class->name, ".padding.") != NULL || strstr(class->name, ".upsampling.") != NULL;
}

static void track_module(call *c)
{
    int64_t a, b;
    fx_weight w;
    const fx_arg *flag;
    bool one_input = c->n->n_operands == 1 && c->n->args->n == 1 && c->x;
    if (!c->class || !one_input || c->module->body) {
        give_up(c);
        return;
    }
    switch (c->class->id) {
    case FX_MODULE_Conv1d: case FX_MODULE_Conv2d: case FX_MODULE_Conv3d: case FX_MODULE_ConvTranspose1d:
    case FX_MODULE_ConvTranspose2d: case FX_MODULE_ConvTranspose3d:
        fx_weight_of(c->n, &w) && setting_int(c, "groups", &a) ? convolution(c, &w, a, -1) : give_up(c);
        return;
    case FX_MODULE_Linear:
        fx_weight_of(c->n, &w) ? linear(c, &w, -1) : give_up(c);
        return;
    case FX_MODULE_BatchNorm1d: case FX_MODULE_BatchNorm2d: case FX_MODULE_BatchNorm3d:
        batch_norm(c, NULL, false);
        return;
    case FX_MODULE_Flatten:
        setting_int(c, "start_dim", &a) && setting_int(c, "end_dim", &b) ? flatten(c, a, b) : give_up(c);
        return;
    default:
        break;
    }
    flag = fx_module_config(c->module, "return_indices");
    bool indices = flag && flag->kind == FX_ARG_BOOL && flag->b;
    bool image = c->in && c->in->axis >= 0 && c->in->axis <= 1 && (c->in->rank == UNKNOWN || c->in->axis < c->in->rank - 1);
    if (c->in && (is_pointwise_class(c->class) || (is_spatial_class(c->class) && image && !indices)))
        pass_through(c);
    else
        give_up(c);
}

static void track_node(fx_tracker *t, fx_node *n)
{
    call c = {.t = t, .n = n};
    const fx_arg *first = n->args->n ? n->args->items[0] : NULL;
    switch (n->opcode) {
    case FX_PLACEHOLDER: case FX_GET_ATTR:
        return;
    case FX_CALL_MODULE:
        c.module = fx_module_find(n->graph, n->target);
        c.module = c.module ? fx_module_layer(c.module) : NULL; /* a ReLU after it keeps the channels */
        c.class = c.module ? fx_module_class_of(c.module) : NULL;
        c.x = first && first->kind == FX_ARG_NODE ? n->operands[first->i].def : NULL;
        c.in = c.x ? t->of[c.x->id] : NULL;
        if (c.module)
            track_module(&c);
        else
            give_up(&c);
        return;
    case FX_CALL_FUNCTION: case FX_CALL_METHOD:
        if (fx_call_view(n, &c.args) && c.args.n) {
            c.x = operand(&c, 0);
            c.in = c.x ? t->of[c.x->id] : NULL;
            track_operator(&c);
            return;
        }
        give_up(&c);
        return;
    default:
        give_up(&c);
        return;
    }
}

void fx_track_channels(fx_tracker *t, fx_graph *g, fx_arena *arena)
{
    *t = (fx_tracker){.g = g, .ctx = g->ctx, .arena = arena};
    t->of = FX_NEW_ARRAY(arena, fx_channels *, g->n_ids + 1);
    t->items = FX_NEW_ARRAY(arena, fx_channels **, g->n_ids + 1);
    t->n_items = FX_NEW_ARRAY(arena, int, g->n_ids + 1);
    FX_FOR_NODES(g, n)
        track_node(t, n);
    for (size_t i = 0; i < t->n_dims; i++)
        if (fx_map_get(&t->frozen, t->dims[i].attr))
            pin_ids(t, t->dims[i].n, t->dims[i].ids);
}
