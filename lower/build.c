/* lower/build.c: the build pass, a table of contents: groups and homes are decided, then each group becomes a step, in the
 * order of the graph.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lower/build_rows.h"

fx_dim fx_type_count(fx_context *ctx, const fx_type *t)
{
    fx_dim n = fx_dim_of(1);
    for (int i = 0; i < t->rank; i++)
        n = fx_dim_mul(ctx, n, t->dims[i]);
    return n;
}

fx_symbols fx_build_symbols(const fx_build *b)
{
    return fx_program_symbols(b->p);
}

bool fx_build_at_least(fx_build *b, fx_dim d, int64_t v)
{
    return d.sym ? fx_dim_at_least(b->ctx, fx_build_symbols(b), d, v) : d.value >= v;
}

/* The module path names a layer when only one group has it; else the op is added: "layer1.0" + "add". */
const char *fx_build_name(fx_build *b, const fx_node *n)
{
    const char *path = n->loc.module;
    if (path && *path && b->path_uses[n->id] == 1)
        return path;
    const char *op = n->op ? n->op->name : n->name;
    const char *dot = strchr(op, '.');
    if (dot && n->op)
        op = dot + 1;
    int len = (int)strcspn(op, ".");
    if (path && *path)
        return fx_arena_printf(b->piece, "%s_%.*s", path, len, op);
    return n->name;
}

const char *fx_build_dims(fx_build *b, int rank, const fx_dim *dims)
{
    fx_text s;
    fx_text_init(&s, b->piece);
    for (int i = 0; i < rank; i++) {
        bool sum = dims[i].sym && dims[i].sym->kind != FX_SYM_SYMBOL;
        fx_puts(&s, i ? "x" : "");
        fx_puts(&s, sum ? "(" : "");
        fx_dim_print(&s, dims[i]);
        fx_puts(&s, sum ? ")" : "");
    }
    return rank ? s.data : "scalar";
}

static const char *dims_text(fx_build *b, const fx_type *t)
{
    return fx_build_dims(b, t->rank, t->dims);
}

/* Sizes of the operands (constants aside) and of the result. */
static const char *step_shapes(fx_build *b, fx_node *root)
{
    fx_text s;
    fx_text_init(&s, b->piece);
    fx_node *at = b->group[root->id].anchor ? b->group[root->id].anchor : root;
    int shown = 0;
    for (int i = 0; i < at->n_operands && shown < 4; i++) {
        const fx_node *d = at->operands[i].def;
        if (!fx_build_is_constant(d) && d->type && d->type->kind == FX_TYPE_TENSOR)
            fx_printf(&s, "%s%s", shown++ ? ", " : "", dims_text(b, d->type));
    }
    const fx_type *t = root->type;
    if (t->kind == FX_TYPE_TUPLE)
        t = t->items[0];
    fx_printf(&s, "%s%s", shown ? " -> " : "-> ", dims_text(b, t));
    return fx_arena_dup(b->p->arena, s.data, s.size + 1);
}

fx_step *fx_build_step(fx_build *b, fx_node *at, const char *what)
{
    fx_node *named = b->group[at->id].anchor ? b->group[at->id].anchor : at;
    fx_step *s = fx_program_step(b->p, fx_build_name(b, named));
    s->loc = named->loc;
    const char *path = named->loc.module && *named->loc.module ? named->loc.module : named->name;
    s->title = fx_arena_printf(b->p->arena, "%s: %s", path, what);
    s->shapes = step_shapes(b, at);
    s->flops = fx_node_flops(named);
    b->n_vars = b->n_locals = 0;
    return s;
}

/* ---- symbols --------------------------------------------------------------------------------------------- */

static bool is_identifier(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    while (isalnum((unsigned char)*s) || *s == '_')
        s++;
    return !*s;
}

static int symbol_of(const fx_build *b, const char *name)
{
    for (size_t i = 0; i < b->p->n_symbols; i++)
        if (b->p->symbols[i].name == name || strcmp(b->p->symbols[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Sizes of inputs that are a symbol, or linear in one (2*s + 1), tell its value: those symbols are the program's. */
static fx_status add_symbol(fx_build *b, const fx_node *n, fx_dim d)
{
    int64_t factor, rest;
    const char *name = fx_dim_linear(d, NULL, &factor, &rest);
    if (!name || symbol_of(b, name) >= 0)
        return FX_OK;
    if (!is_identifier(name))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "dynamic size '%s': expected a name that is an identifier in C", name);
    fx_sym_range range = {.name = name, .min = 0, .max = INT64_MAX};
    for (size_t i = 0; i < b->g->n_symbols; i++)
        if (strcmp(b->g->symbols[i].name, name) == 0)
            range = b->g->symbols[i];
    range.name = name;
    range.min = range.min < 0 ? 0 : range.min;
    FX_PUSH(b->p->arena, b->p->symbols, b->p->n_symbols, b->p->cap_symbols) = range;
    return FX_OK;
}

static fx_status known_symbols(fx_build *b, const fx_node *n, const fx_sym *s)
{
    if (s->kind == FX_SYM_OPAQUE || (s->kind == FX_SYM_SYMBOL && symbol_of(b, s->name) < 0)) {
        fx_text t;
        fx_text_init(&t, b->piece);
        fx_sym_print(&t, s);
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "'%s': its size names %s, which no input's size tells: expected one that is %s, or a multiple of it plus a number", n->name, t.data, t.data);
    }
    for (int i = 0; s->kind != FX_SYM_INT && s->kind != FX_SYM_SYMBOL && i < s->n; i++)
        FX_TRY(known_symbols(b, n, s->args[i]));
    return FX_OK;
}

/* The one symbol that s names: 1; none: 0; several: 2. */
static int only_symbol(const fx_sym *s, const char **name)
{
    if (s->kind == FX_SYM_INT)
        return 0;
    if (s->kind == FX_SYM_SYMBOL) {
        int several = *name && strcmp(*name, s->name) ? 2 : 1;
        *name = s->name;
        return several;
    }
    int most = 0;
    for (int i = 0; i < s->n; i++) {
        int k = only_symbol(s->args[i], name);
        most = k > most ? k : most;
    }
    return most;
}

/* Eager refuses sizes below 0, and kernels' results of no rows: the range of a symbol ends where d would be less than `least`. Sizes grow or
 * shrink with their symbol all the way, so ends are found by halving. */
static void narrow(fx_build *b, fx_dim d, int64_t least)
{
    enum { FAR = 1 << 30 };
    const char *name = NULL;
    if (!d.sym || only_symbol(d.sym, &name) != 1 || fx_build_at_least(b, d, least))
        return;
    fx_sym_range *r = &b->p->symbols[symbol_of(b, name)], all = *r, one = *r;
    fx_symbols symbols = {1, &one};
    int64_t lo = all.min, hi = all.max < FAR ? all.max : FAR, low, high;
    if (lo > hi || !fx_dim_eval(symbols, &lo, d, &low) || !fx_dim_eval(symbols, &hi, d, &high) || (low >= least) == (high >= least))
        return;
    bool grows = high >= least;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2, v;
        if (!fx_dim_eval(symbols, &mid, d, &v))
            return;
        if ((v >= least) == grows)
            hi = mid;
        else
            lo = mid;
    }
    if (grows)
        r->min = hi;
    else
        r->max = lo;
}

/* gather(x, dim, index), scatter(x, dim, index, src): index is no larger than x but along dim, nor than src. */
static void narrow_indexed(fx_build *b, const fx_node *n)
{
    const fx_node *x = fx_node_input(n, 0), *index = fx_node_input(n, 2), *src = n->op->id == FX_OP_scatter_value ? NULL : fx_node_input(n, 3);
    int64_t dim = fx_node_int(n, 1);
    for (int i = 0; i < index->type->rank && i < x->type->rank; i++) {
        if (i != (dim < 0 ? dim + x->type->rank : dim))
            narrow(b, fx_dim_sub(b->ctx, x->type->dims[i], index->type->dims[i]), 0);
        if (src && i < src->type->rank)
            narrow(b, fx_dim_sub(b->ctx, src->type->dims[i], index->type->dims[i]), 0);
    }
}

/* slice(x, dim, start, end, step): every element lies in x. */
static void narrow_sliced(fx_build *b, const fx_node *n)
{
    const fx_type *t = fx_node_input(n, 0)->type;
    int64_t dim = fx_node_int(n, 1), step = fx_node_int(n, 4);
    int d = (int)(dim < 0 ? dim + t->rank : dim);
    fx_dim size = t->dims[d], start = fx_node_is_none(n, 2) ? fx_dim_of(0) : fx_build_size(n, 2, 0), length = n->type->dims[d];
    if (fx_dim_known(start) && start.value < 0)
        start = fx_dim_plus(b->ctx, size, start.value);
    narrow(b, start, 0);
    if (fx_dim_known(length) && length.value > 0)
        narrow(b, fx_dim_sub(b->ctx, size, fx_dim_plus(b->ctx, start, (length.value - 1) * step + 1)), 0);
}

/* What an op asks of the sizes of its operands, for the graph's types to be right. */
static void narrow_by_op(fx_build *b, const fx_node *n)
{
    fx_dim more;
    switch (n->op->id) {
    case FX_OP_gather:
    case FX_OP_scatter_src:
    case FX_OP_scatter_value:
    case FX_OP_scatter_add:
        narrow_indexed(b, n);
        return;
    case FX_OP_slice_Tensor:
        narrow_sliced(b, n);
        return;
    case FX_OP_view: /* as many elements under both sizes */
        more = fx_dim_sub(b->ctx, fx_type_count(b->ctx, fx_node_input(n, 0)->type), fx_type_count(b->ctx, n->type));
        narrow(b, more, 0);
        narrow(b, fx_dim_scale(b->ctx, more, -1), 0);
        return;
    default:
        return;
    }
}

static fx_status build_symbols(fx_build *b)
{
    FX_FOR_NODES(b->g, n)
    if (n->opcode == FX_PLACEHOLDER && n->type && n->type->kind == FX_TYPE_TENSOR)
        for (int i = 0; i < n->type->rank; i++)
            if (n->type->dims[i].sym)
                FX_TRY(add_symbol(b, n, n->type->dims[i]));
    for (size_t i = 0; i < b->g->n_limits; i++)
        FX_PUSH(b->p->arena, b->p->limits, b->p->n_limits, b->p->cap_limits) = (fx_limit){b->g->limits[i].value, b->g->limits[i].text};
    FX_FOR_NODES(b->g, n)
    {
        const fx_type *t = n->type;
        if (b->p->n_symbols && n->opcode == FX_CALL_FUNCTION)
            narrow_by_op(b, n);
        int count = t && t->kind == FX_TYPE_TUPLE ? t->n : t ? 1 : 0;
        for (int k = 0; k < count; k++) {
            const fx_type *one = t->kind == FX_TYPE_TUPLE ? t->items[k] : t;
            for (int i = 0; one->kind == FX_TYPE_TENSOR && i < one->rank; i++)
                if (one->dims[i].sym) {
                    FX_TRY(known_symbols(b, n, one->dims[i].sym));
                    bool kernel = n->opcode == FX_CALL_FUNCTION && (n->op->id == FX_OP_convolution || n->op->cls == FX_CLASS_POOL);
                    narrow(b, one->dims[i], kernel);
                }
        }
    }
    return FX_OK;
}

/* The values that a buffer has in the model's file are a weight. */
static fx_status build_initial(fx_build *b, const fx_node *n, const fx_window *v, int *id)
{
    fx_attr *a = fx_attr_find(b->g, fx_state_of(n));
    if (!a)
        return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "attribute '%s' is missing", fx_state_of(n));
    fx_tensor dense;
    FX_TRY(fx_tensor_touch(b->ctx, &a->tensor));
    FX_TRY(fx_tensor_contiguous(b->ctx, &a->tensor, &dense));
    *id = fx_program_buf(b->p, FX_BUF_WEIGHT, fx_arena_printf(b->piece, "%s_initial", n->name), v->dtype, v->rank, v->dims);
    b->p->bufs[*id].data = dense.data;
    b->p->bufs[*id].loc = n->loc;
    return FX_OK;
}

/* Parameters of the graph become the program's inputs. */
static fx_status build_inputs(fx_build *b)
{
    FX_FOR_NODES(b->g, n)
    {
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        if (!n->type || n->type->kind != FX_TYPE_TENSOR)
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "input '%s' is not a tensor", n->name);
        fx_window *v = &b->value[n->id];
        *v = (fx_window){.dtype = n->type->dtype, .rank = n->type->rank};
        memcpy(v->dims, n->type->dims, sizeof(fx_dim) * (size_t)v->rank);
        fx_window_set_dense(b, v);
        bool state = fx_state_of(n) != NULL;
        int initial = -1;
        if (state)
            FX_TRY(build_initial(b, n, v, &initial));
        v->buf = fx_program_buf(b->p, state ? FX_BUF_STATE : FX_BUF_INPUT, n->name, v->dtype, v->rank, v->dims);
        fx_buf *buf = &b->p->bufs[v->buf];
        buf->io = (int)(state ? b->p->n_states : b->p->n_inputs);
        buf->loc = n->loc;
        fx_io io = {.name = buf->name, .label = n->target, .buf = v->buf, .dtype = v->dtype, .rank = v->rank};
        memcpy(io.dims, v->dims, sizeof io.dims);
        buf->initial = initial;
        if (state)
            FX_PUSH(b->p->arena, b->p->states, b->p->n_states, b->p->cap_states) = io;
        else
            FX_PUSH(b->p->arena, b->p->inputs, b->p->n_inputs, b->p->cap_inputs) = io;
    }
    return FX_OK;
}

/* The last results are new values of inputs: the order of the note says of which. */
static fx_status build_writes(fx_build *b)
{
    const fx_arg *names = fx_state_writes(b->g);
    size_t n = names ? (size_t)names->n : 0;
    if (n > b->n_outputs)
        return fx_fail(b->ctx, FX_INTERNAL, NULL, "%zu inputs are written, of %zu results", n, b->n_outputs);
    b->n_outputs -= n;
    b->writes = FX_NEW_ARRAY(b->scratch, struct fx_write_back, n + 1);
    for (size_t i = 0; i < n; i++) {
        fx_node *to = b->g->first;
        while (to && !(to->opcode == FX_PLACEHOLDER && strcmp(to->target, names->items[i]->s) == 0))
            to = to->next;
        if (!to || !fx_type_same_tensor(to->type, b->outputs[b->n_outputs + i]->type))
            return fx_fail(b->ctx, FX_INTERNAL, NULL, "'%s' is written, but no input of the value's type", names->items[i]->s);
        b->writes[b->n_writes++] = (struct fx_write_back){to, b->outputs[b->n_outputs + i]};
        fx_buf *buf = &b->p->bufs[b->value[to->id].buf];
        buf->changed = buf->kind == FX_BUF_INPUT;
    }
    return FX_OK;
}

/* Leaves of the output's argument tree in order. */
static fx_status collect_outputs(fx_build *b, const fx_node *out, const fx_arg *a)
{
    switch (a->kind) {
    case FX_ARG_NODE: {
        fx_node *n = out->operands[a->i].def;
        if (!n->type || n->type->kind != FX_TYPE_TENSOR)
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "output '%s' is not a tensor", n->name);
        b->outputs[b->n_outputs++] = n;
        return FX_OK;
    }
    case FX_ARG_LIST:
    case FX_ARG_TUPLE:
    case FX_ARG_DICT:
        for (int i = 0; i < a->n; i++)
            FX_TRY(collect_outputs(b, out, a->items[i]));
        return FX_OK;
    case FX_ARG_NONE:
        return FX_OK;
    default:
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &out->loc, "an output is a number or text, not a tensor");
    }
}

static int count_leaves(const fx_arg *a)
{
    if (a->kind == FX_ARG_NODE)
        return 1;
    int n = 0;
    for (int i = 0; i < a->n; i++)
        n += count_leaves(a->items[i]);
    return n;
}

/* Output buffers are dense row-major, whatever layout values have inside. */
static fx_status build_output_buffers(fx_build *b)
{
    for (size_t i = 0; i < b->n_outputs; i++) {
        const fx_node *n = b->outputs[i];
        const fx_dim *dims = n->type->dims;
        const char *name = b->n_outputs == 1 ? "output" : fx_arena_printf(b->piece, "output%zu", i);
        int id = fx_program_buf(b->p, FX_BUF_OUTPUT, name, n->type->dtype, n->type->rank, dims);
        b->p->bufs[id].io = (int)i;
        b->p->bufs[id].loc = n->loc;
        fx_io io = {.name = b->p->bufs[id].name, .label = n->name, .buf = id, .dtype = n->type->dtype, .rank = n->type->rank};
        memcpy(io.dims, dims, sizeof(fx_dim) * (size_t)io.rank);
        FX_PUSH(b->p->arena, b->p->outputs, b->p->n_outputs, b->p->cap_outputs) = io;
    }
    return FX_OK;
}

/* Whatever was not computed right into its output buffer is copied there. */
static fx_status build_output_copies(fx_build *b)
{
    for (size_t i = 0; i < b->n_outputs; i++) {
        fx_node *n = b->outputs[i];
        const fx_io *io = &b->p->outputs[i];
        fx_window v;
        FX_TRY(fx_build_value(b, n, &v));
        if (v.buf == io->buf)
            continue;
        fx_window dst = {.buf = io->buf, .dtype = io->dtype, .rank = io->rank};
        memcpy(dst.dims, io->dims, sizeof dst.dims);
        fx_window_set_dense(b, &dst);
        FX_TRY(fx_build_copy(b, fx_arena_printf(b->piece, "write_%s", io->name),
                             fx_arena_printf(b->piece, "%s: result to the caller's layout", n->name), n, &v, &dst));
    }
    return FX_OK;
}

fx_status fx_build_results(fx_build *b, fx_node *n)
{
    fx_window *results = b->results[n->id] = FX_NEW_ARRAY(b->scratch, fx_window, n->type->n);
    for (int k = 0; k < n->type->n; k++)
        results[k].buf = -1;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        int64_t k = u->user->opcode == FX_CALL_FUNCTION ? fx_node_int(u->user, 1) : -1;
        if (k >= 0 && k < n->type->n && results[k].buf < 0)
            FX_TRY(fx_build_place(b, u->user, NULL, &results[k]));
    }
    return FX_OK;
}

static bool is_written(const fx_build *b, int buf)
{
    return b->p->bufs[buf].changed || b->p->bufs[buf].kind == FX_BUF_STATE;
}

/* New values of inputs and state are stored when everything is computed. Those that lie where others are stored (two buffers that change
 * places, one that is turned round) are copied before the first is. */
static fx_status build_write_backs(fx_build *b)
{
    fx_window *from = FX_NEW_ARRAY(b->scratch, fx_window, b->n_writes + 1);
    for (size_t i = 0; i < b->n_writes; i++) {
        fx_node *n = b->writes[i].value;
        const fx_window *to = &b->value[b->writes[i].input->id];
        FX_TRY(fx_build_value(b, n, &from[i]));
        bool same = from[i].buf == to->buf && fx_dim_is(from[i].offset, 0) && fx_window_is_dense(b, &from[i]);
        if (same || !is_written(b, from[i].buf))
            continue;
        fx_window old = from[i];
        const char *name = fx_arena_printf(b->piece, "%s_before", n->name);
        FX_TRY(fx_build_new(b, n, name, old.dtype, NULL, &from[i]));
        FX_TRY(fx_build_copy(b, name, fx_arena_printf(b->piece, "%s: kept while it is overwritten", n->name), n, &old, &from[i]));
    }
    for (size_t i = 0; i < b->n_writes; i++) {
        const fx_node *input = b->writes[i].input;
        const fx_window *to = &b->value[input->id];
        if (from[i].buf != to->buf)
            FX_TRY(fx_build_copy(b, fx_arena_printf(b->piece, "write_%s", input->name),
                                 fx_arena_printf(b->piece, "%s: its new value, %s", input->name, b->writes[i].value->name),
                                 b->writes[i].value, &from[i], to));
    }
    return FX_OK;
}

static bool writes_by_index(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && (n->op->id == FX_OP_index_put || n->op->id == FX_OP_scatter_src || n->op->id == FX_OP_scatter_value ||
                                             n->op->id == FX_OP_scatter_add);
}

/* A cache in which a run replaces a few rows: they are written where it lies, when nobody reads what it was before. The same for several such
 * writes one after another. */
static void find_in_input(fx_build *b)
{
    if (b->opt->off & FX_OFF(INPLACE))
        return;
    for (size_t i = 0; i < b->n_writes; i++) {
        fx_node *value = b->writes[i].value, *input = b->writes[i].input, *n = value;
        while (writes_by_index(n) && (n == value || n->n_uses == 1))
            n = fx_node_input(n, 0);
        if (n != input || input->n_uses != 1)
            continue;
        for (n = value; n != input; n = fx_node_input(n, 0))
            b->in_input[n->id] = true;
    }
}

/* One result of several. */
static fx_status build_getitem(fx_build *b, fx_node *n)
{
    fx_node *from = fx_node_input(n, 0);
    int64_t k = fx_node_int(n, 1);
    const fx_window *results = from ? b->results[from->id] : NULL;
    if (!from || k < 0 || (results ? k >= from->type->n || results[k].buf < 0 : k != 0))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "result %lld of %s cannot be compiled yet", (long long)k, from ? from->target : "?");
    b->value[n->id] = results ? results[k] : b->value[from->id];
    return FX_OK;
}

static fx_status build_node(fx_build *b, fx_node *n)
{
    switch (n->opcode) {
    case FX_PLACEHOLDER:
    case FX_GET_ATTR:
    case FX_OUTPUT:
        return FX_OK;
    case FX_CALL_FUNCTION:
        break;
    default:
        return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "%s in core form", fx_opcode_name((fx_opcode)n->opcode));
    }
    if (b->root[n->id] != n)
        return FX_OK;
    const fx_type *result = n->type->kind == FX_TYPE_TUPLE && n->op->cls == FX_CLASS_NORM ? n->type->items[0] : n->type;
    if (result->kind == FX_TYPE_TENSOR && fx_dim_is(fx_type_count(b->ctx, result), 0))
        return fx_build_place(b, n, NULL, &b->value[n->id]); /* of nothing, nothing is computed */
    if (b->group[n->id].rows)
        return fx_build_rows(b, n);
    if (b->group[n->id].anchor)
        return fx_build_contraction(b, n);
    switch (n->op->id) {
    case FX_OP_getitem:
        return build_getitem(b, n);
    case FX_OP_cat:
        return fx_build_cat(b, n);
    case FX_OP_constant_pad_nd:
        return fx_build_pad(b, n);
    case FX_OP_flip:
        return fx_build_view(b, n);
    case FX_OP_clone:
    case FX_OP_full:
        return fx_build_pointwise(b, n);
    default:
        break;
    }
    switch (n->op->cls) {
    case FX_CLASS_POINTWISE:
        return fx_build_pointwise(b, n);
    case FX_CLASS_VIEW:
        return fx_build_view(b, n);
    case FX_CLASS_POOL:
        return fx_build_pool(b, n);
    case FX_CLASS_NORM:
        return fx_build_norm(b, n);
    case FX_CLASS_GATHER:
    case FX_CLASS_CREATE:
        return fx_build_gather(b, n);
    default: /* reductions but extremes with their places are in regions of rows */
        return fx_build_order(b, n);
    }
}

/* Whether a node opens a step of its own; *named is the node that gives the step its name. */
static bool makes_step(const fx_build *b, fx_node *n, fx_node **named)
{
    const fx_rows *rows = b->group[n->id].rows;
    if (n->opcode != FX_CALL_FUNCTION || b->root[n->id] != n)
        return false;
    if (rows) {
        *named = rows->named;
        return rows->named->loc.module != NULL;
    }
    if (!n->loc.module || n->op->cls == FX_CLASS_VIEW || n->op->id == FX_OP_getitem)
        return false;
    *named = b->group[n->id].anchor ? b->group[n->id].anchor : n;
    return (*named)->loc.module != NULL;
}

static int by_path(const void *a, const void *b)
{
    const char *x = (*(fx_node *const *)a)->loc.module, *y = (*(fx_node *const *)b)->loc.module;
    return (x > y) - (x < y); /* interned: equal text, equal pointer */
}

/* How many steps carry each module path. */
static void count_paths(fx_build *b)
{
    fx_node **named = FX_NEW_ARRAY(b->scratch, fx_node *, b->g->n_nodes);
    size_t n_named = 0;
    FX_FOR_NODES(b->g, n)
    n_named += makes_step(b, n, &named[n_named]);
    qsort(named, n_named, sizeof *named, by_path);
    for (size_t i = 0, j; i < n_named; i = j) {
        for (j = i; j < n_named && named[j]->loc.module == named[i]->loc.module; j++)
            continue;
        for (size_t k = i; k < j; k++)
            b->path_uses[named[k]->id] = (int)(j - i);
    }
}

fx_status fx_pass_build(fx_lower *l)
{
    fx_graph *g = l->graph;
    size_t ids = g->n_ids;
    fx_arena *s = l->scratch;
    const fx_target *t = &l->opt->target;
    fx_build b = {.ctx = l->ctx, .g = g, .scratch = s, .piece = l->piece, .opt = l->opt, .threads = l->opt->threads > 0 ? l->opt->threads : 1};
    b.last_fill = &b.fills;
    b.tile = (fxrt_tile){.lanes = t->lanes, .mr = t->mr, .nr = t->nr};
    b.p = fx_program_new(l->ctx, g->name, t);
    b.p->file = g->file;
    /* Rarely more of each than nodes: the lists do not grow, and what of them is not used is never touched. */
    b.p->cap_bufs = b.p->cap_steps = g->n_nodes;
    b.p->bufs = FX_NEW_ARRAY(b.p->arena, fx_buf, b.p->cap_bufs);
    b.p->steps = FX_NEW_ARRAY(b.p->arena, fx_step, b.p->cap_steps);
    b.root = FX_NEW_ARRAY(s, fx_node *, ids);
    b.group = FX_NEW_ARRAY(s, fx_group, ids);
    b.value = FX_NEW_ARRAY(s, fx_window, ids);
    b.results = FX_NEW_ARRAY(s, fx_window *, ids);
    b.lazy = FX_NEW_ARRAY(s, const fx_lazy *, ids);
    b.seen = FX_NEW_ARRAY(s, fx_node *, ids);
    b.nhwc = FX_NEW_ARRAY(s, fx_window *, ids);
    b.dense = FX_NEW_ARRAY(s, fx_window *, ids);
    b.turned = FX_NEW_ARRAY(s, fx_window *, ids);
    b.home = FX_NEW_ARRAY(s, fx_home, ids);
    b.made = FX_NEW_ARRAY(s, const fx_sexpr *, ids);
    b.made_in = FX_NEW_ARRAY(s, int, ids);
    b.passed = FX_NEW_ARRAY(s, bool, ids);
    b.again = FX_NEW_ARRAY(s, bool, ids);
    b.in_input = FX_NEW_ARRAY(s, bool, ids);
    b.path_uses = FX_NEW_ARRAY(s, int, ids);
    for (size_t i = 0; i < ids; i++) {
        b.value[i].buf = -1;
        b.home[i].output = -1;
    }
    fx_node *out = fx_graph_output_node(g);
    b.outputs = FX_NEW_ARRAY(s, fx_node *, count_leaves(out->args) + 1);
    FX_TRY(build_symbols(&b));
    FX_TRY(collect_outputs(&b, out, out->args));
    FX_TRY(build_inputs(&b));
    FX_TRY(build_writes(&b));
    FX_TRY(build_output_buffers(&b));
    b.channels_last = fx_build_prefers_channels_last(&b);
    fx_build_groups(&b);
    fx_build_homes(&b);
    find_in_input(&b);
    count_paths(&b);
    FX_FOR_NODES(g, n) {
        FX_TRY(build_node(&b, n));
        fx_arena_reset(b.piece);
    }
    FX_TRY(build_output_copies(&b));
    FX_TRY(build_write_backs(&b));
    fx_build_drop_impossible(&b);
    FX_TRY(fx_build_fill(&b));
    l->program = b.p;
    return FX_OK;
}
