/* passes/prune_channels.c: removes the output channels of least L1 norm, with everything that depends on them (prune_track.c).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The result computes what the graph would with the weights that read the removed channels set to zero. */
#include <math.h>
#include <string.h>

#include "passes/prune.h"

typedef struct removal {
    fx_pass_run *run;
    fx_tracker t;
    bool *removed;           /* by root */
    double *norms;           /* by root: sum over its filters ... */
    int *filters;            /* ... and how many there are */
} removal;

static bool is_removed(const removal *r, int id)
{
    return r->removed[fx_channel_root(&r->t, id)];
}

static int kept(const removal *r, int n, const int *ids)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += !is_removed(r, ids[i]);
    return count;
}

/* ---- choosing -------------------------------------------------------------------------------------------------------------- */

static fx_status measure(removal *r)
{
    for (size_t s = 0; s < r->t.n_sources; s++) {
        const fx_channel_source *source = &r->t.sources[s];
        fx_tensor dense;
        FX_TRY(fx_tensor_contiguous(r->run->ctx, &source->attr->tensor, &dense));
        int64_t inner = 1, outer = 1, k = 0;
        for (int i = 0; i < dense.rank; i++) {
            outer *= i < source->dim ? dense.sizes[i] : 1;
            inner *= i > source->dim ? dense.sizes[i] : 1;
        }
        for (int c = 0; c < source->n; c++)
            r->filters[fx_channel_root(&r->t, source->ids[c])]++;
        for (int64_t o = 0; o < outer; o++)
            for (int c = 0; c < source->n; c++) {
                double sum = 0;
                for (int64_t i = 0; i < inner; i++, k++)
                    sum += fabs(dense.dtype == FX_F32 ? (double)((const float *)dense.data)[k] : fx_tensor_get(&dense, k));
                r->norms[fx_channel_root(&r->t, source->ids[c])] += sum;
            }
    }
    return FX_OK;
}

static int family_root(int *parent, int s)
{
    while (parent[s] != s)
        s = parent[s] = parent[parent[s]];
    return s;
}

/* Filters whose channels are tied make a family; of each family's channels a share goes, those of the least mean norm. */
static void choose(removal *r, double amount)
{
    fx_arena *arena = r->run->scratch;
    const fx_tracker *t = &r->t;
    int n_sources = (int)t->n_sources;
    int *parent = FX_NEW_ARRAY(arena, int, n_sources + 1), *owner = FX_NEW_ARRAY(arena, int, t->n_ids + 1);
    size_t *count = FX_NEW_ARRAY(arena, size_t, n_sources + 1), *first = FX_NEW_ARRAY(arena, size_t, n_sources + 2), total = 0;
    size_t *free_count = FX_NEW_ARRAY(arena, size_t, n_sources + 1);
    for (int s = 0; s < n_sources; s++) {
        parent[s] = s;
        for (int i = 0; i < t->sources[s].n; i++) {
            int root = fx_channel_root(t, t->sources[s].ids[i]);
            if (owner[root])
                parent[family_root(parent, s)] = family_root(parent, owner[root] - 1);
            else
                owner[root] = s + 1;
        }
    }
    for (size_t id = 0; id < t->n_ids; id++)
        if (owner[id]) { /* a root with filters */
            int f = family_root(parent, owner[id] - 1);
            count[f]++;
            free_count[f] += !t->pinned[id];
            total++;
        }
    int *roots = FX_NEW_ARRAY(arena, int, total + 1);
    double *norms = FX_NEW_ARRAY(arena, double, total + 1);
    bool *chosen = FX_NEW_ARRAY(arena, bool, total + 1);
    for (int f = 0; f < n_sources; f++)
        first[f + 1] = first[f] + free_count[f];
    for (size_t id = 0; id < t->n_ids; id++)
        if (owner[id] && !t->pinned[id]) {
            size_t at = first[family_root(parent, owner[id] - 1)]++;
            roots[at] = (int)id;
            norms[at] = r->norms[id] / r->filters[id];
        }
    for (int f = 0; f < n_sources; f++) {
        size_t from = first[f] - free_count[f], want = (size_t)rint(amount * (double)count[f]);
        fx_choose_smallest(free_count[f], norms + from, want < free_count[f] ? want : free_count[f], chosen + from);
        for (size_t i = from; i < first[f]; i++)
            r->removed[roots[i]] = chosen[i];
    }
}

/* No tensor loses all of a dim: the channel of greatest norm comes back. */
static void keep_one(removal *r, int n, const int *ids)
{
    int best = -1;
    if (n == 0 || kept(r, n, ids))
        return;
    for (int i = 0; i < n; i++) {
        int root = fx_channel_root(&r->t, ids[i]);
        if (best < 0 || (r->norms[root] / r->filters[root]) > r->norms[best] / r->filters[best])
            best = root;
    }
    r->removed[best] = false;
}

static void keep_some(removal *r)
{
    for (size_t i = 0; i < r->t.n_dims; i++)
        keep_one(r, r->t.dims[i].n, r->t.dims[i].ids);
    for (size_t i = 0; i < r->t.n_splits; i++)
        for (int k = 0; k < r->t.splits[i].n; k++)
            keep_one(r, r->t.splits[i].pieces[k]->n, r->t.splits[i].pieces[k]->ids);
}

/* ---- parameters -------------------------------------------------------------------------------------------------------------- */

/* The indices of each dim that stay; NULL where all do. */
static fx_status gather(removal *r, fx_attr *a, const int64_t *sizes, int64_t *const *indices)
{
    fx_tensor from, to;
    FX_TRY(fx_tensor_contiguous(r->run->ctx, &a->tensor, &from));
    FX_TRY(fx_tensor_create(r->run->ctx, from.dtype, from.rank, sizes, &to));
    int last = from.rank - 1;
    size_t size = fx_dtype_size(from.dtype);
    int64_t at[FX_MAX_RANK] = {0}, rows = fx_tensor_numel(&to) / sizes[last];
    char *out = to.data;
    for (int64_t row = 0; row < rows; row++) {
        int64_t offset = 0;
        for (int d = 0; d < last; d++)
            offset += (indices[d] ? indices[d][at[d]] : at[d]) * from.strides[d];
        const char *in = (const char *)from.data + (size_t)offset * size;
        if (!indices[last])
            memcpy(out, in, (size_t)sizes[last] * size);
        for (int64_t i = 0; indices[last] && i < sizes[last]; i++)
            memcpy(out + (size_t)i * size, in + (size_t)indices[last][i] * size, size);
        out += (size_t)sizes[last] * size;
        for (int d = last - 1; d >= 0 && ++at[d] == sizes[d]; d--)
            at[d] = 0;
    }
    fx_tied_set(a, &to);
    return FX_OK;
}

static fx_status cut_attributes(removal *r)
{
    const fx_tracker *t = &r->t;
    for (size_t i = 0; i < t->n_dims; i++) {
        fx_attr *a = t->dims[i].attr;
        int64_t *indices[FX_MAX_RANK] = {0}, sizes[FX_MAX_RANK];
        bool cut = false;
        if (fx_map_get(&t->dims_of, a) != (void *)(uintptr_t)(i + 1))
            continue; /* all dims of an attribute at once, with its last */
        memcpy(sizes, a->tensor.sizes, sizeof sizes);
        for (size_t k = i + 1; k; k = t->dims[k - 1].next) {
            const fx_channel_dim *dim = &t->dims[k - 1];
            int n = 0, left = kept(r, dim->n, dim->ids);
            if (left == dim->n)
                continue;
            cut = true;
            sizes[dim->dim] = left;
            indices[dim->dim] = FX_NEW_ARRAY(r->run->scratch, int64_t, left + 1);
            for (int c = 0; c < dim->n; c++)
                if (!is_removed(r, dim->ids[c]))
                    indices[dim->dim][n++] = c;
        }
        if (cut)
            FX_TRY(gather(r, a, sizes, indices));
    }
    return FX_OK;
}

/* ---- numbers that count channels ------------------------------------------------------------------------------------------------ */

static const fx_arg *with_item(fx_context *ctx, const fx_arg *list, int i, const fx_arg *v, fx_arena *scratch)
{
    const fx_arg **items = FX_NEW_ARRAY(scratch, const fx_arg *, list->n + 1);
    memcpy(items, list->items, (size_t)list->n * sizeof *items);
    items[i] = v;
    return list->kind == FX_ARG_DICT ? fx_arg_dict(ctx, list->n, list->keys, items) : fx_arg_seq(ctx, list->kind, list->n, items);
}

static void assign(fx_node *n, const fx_arg *args, const fx_arg *kwargs, fx_arena *scratch)
{
    fx_node **operands = FX_NEW_ARRAY(scratch, fx_node *, n->n_operands + 1);
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = n->operands[i].def;
    fx_node_assign(n, args, kwargs, n->n_operands, operands);
}

/* The argument where the user put it: by position, by name, as an item of a list, or among sizes given one by one. */
static fx_status set_argument(removal *r, const fx_channel_count *c, int64_t v)
{
    fx_context *ctx = r->run->ctx;
    fx_arena *scratch = r->run->scratch;
    fx_node *n = c->node;
    fx_call_args view;
    const fx_arg *number = fx_arg_int(ctx, v);
    if (c->param < n->args->n) {
        const fx_arg *a = n->args->items[c->param];
        bool spread = c->item >= 0 && a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE;
        const fx_arg *by = c->item >= 0 && !spread ? with_item(ctx, a, c->item, number, scratch) : number;
        assign(n, with_item(ctx, n->args, c->param + (spread ? c->item : 0), by, scratch), n->kwargs, scratch);
        return FX_OK;
    }
    for (int i = 0; fx_call_view(n, &view) && i < n->kwargs->n; i++)
        if (!strcmp(n->kwargs->keys[i], view.schema->params[c->param].name)) {
            const fx_arg *by = c->item >= 0 ? with_item(ctx, n->kwargs->items[i], c->item, number, scratch) : number;
            assign(n, n->args, with_item(ctx, n->kwargs, i, by, scratch), scratch);
            return FX_OK;
        }
    return fx_fail(ctx, FX_INTERNAL, &n->loc, "%s: argument %d is not there to be changed", n->target, c->param);
}

static void set_setting(removal *r, const fx_channel_count *c, int64_t v)
{
    fx_context *ctx = r->run->ctx;
    const fx_arg *config = c->module->config, *number = fx_arg_int(ctx, v);
    for (int i = 0; config && i < config->n; i++)
        if (!strcmp(config->keys[i], c->setting))
            c->module->config = with_item(ctx, config, i, number, r->run->scratch);
}

static fx_status set_counts(removal *r)
{
    for (size_t i = 0; i < r->t.n_counts; i++) {
        const fx_channel_count *c = &r->t.counts[i];
        int left = kept(r, c->n, c->ids);
        if (left == c->n)
            continue;
        if (c->module)
            set_setting(r, c, left);
        else
            FX_TRY(set_argument(r, c, left));
    }
    return FX_OK;
}

/* chunk(x, 2, 1) of 8 channels, of which 5 are left, is split_with_sizes(x, [3, 2], 1). */
static void set_split(removal *r, const fx_channel_split *s)
{
    fx_context *ctx = r->run->ctx;
    fx_node *n = s->node;
    fx_call_args c;
    int64_t *sizes = FX_NEW_ARRAY(r->run->scratch, int64_t, s->n + 1);
    bool same = true;
    for (int i = 0; i < s->n; i++) {
        sizes[i] = kept(r, s->pieces[i]->n, s->pieces[i]->ids);
        same = same && sizes[i] == s->pieces[i]->n;
    }
    if (same || !fx_call_view(n, &c))
        return;
    const fx_arg *args[] = {c.args[0], fx_arg_ints(ctx, s->n, sizes), c.args[2]};
    assign(n, fx_arg_seq(ctx, FX_ARG_TUPLE, 3, args), NULL, r->run->scratch);
    n->opcode = FX_CALL_FUNCTION;
    n->target = fx_intern(ctx, fx_ops[FX_OP_split_with_sizes].name);
    n->op = &fx_ops[FX_OP_split_with_sizes];
}

/* Types that depended on what was cut are inferred anew; a captured graph's are forgotten. */
static fx_status set_types(removal *r)
{
    fx_graph *g = r->run->graph;
    bool *stale = FX_NEW_ARRAY(r->run->scratch, bool, g->n_ids + 1);
    FX_FOR_NODES(g, n) {
        fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(g, n->target) : NULL;
        stale[n->id] = !n->type && n->op && g->stage != FX_STAGE_CAPTURED;
        for (int i = 0; i < n->n_operands; i++)
            stale[n->id] |= stale[n->operands[i].def->id];
        if (a && n->type) {
            stale[n->id] = n->type != a->type;
            n->type = a->type;
        } else if (stale[n->id] && (n->op || n->opcode == FX_OUTPUT || g->stage == FX_STAGE_CAPTURED)) {
            bool typed = n->type != NULL;
            n->type = NULL;
            if (g->stage != FX_STAGE_CAPTURED && (typed || n->op))
                FX_TRY(fx_node_infer(n));
        }
    }
    return FX_OK;
}

fx_status fx_gpass_prune_channels(fx_pass_run *run)
{
    double amount = fx_pass_float(run, "amount");
    removal r = {.run = run};
    if (!(amount >= 0 && amount < 1))
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "prune_channels: expected an amount from 0 to below 1, got %g", amount);
    fx_track_channels(&r.t, run->graph, run->scratch);
    r.removed = FX_NEW_ARRAY(run->scratch, bool, r.t.n_ids + 1);
    r.norms = FX_NEW_ARRAY(run->scratch, double, r.t.n_ids + 1);
    r.filters = FX_NEW_ARRAY(run->scratch, int, r.t.n_ids + 1);
    FX_TRY(measure(&r));
    choose(&r, amount);
    keep_some(&r);
    for (size_t i = 0; i < r.t.n_sources; i++) {
        const fx_channel_source *s = &r.t.sources[i];
        int left = kept(&r, s->n, s->ids);
        if (left < s->n)
            fx_pass_note(run, s->node, "'%s': %d of %d output channels removed", s->attr->path, s->n - left, s->n);
    }
    FX_TRY(cut_attributes(&r));
    FX_TRY(set_counts(&r));
    for (size_t i = 0; i < r.t.n_splits; i++)
        set_split(&r, &r.t.splits[i]);
    return run->n_changes ? set_types(&r) : FX_OK;
}
