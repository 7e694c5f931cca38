/* tests/fuzz/sizes.c: a graph at other sizes, and with a symbol for a size.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "tests/fuzz/fuzz.h"

/* Sizes from[i] become to[i], all at once. */
typedef struct change {
    fx_context *ctx;
    int n;
    const int64_t *from;
    const fx_dim *to;
} change;

static fx_dim changed(const change *s, int64_t size)
{
    for (int i = 0; i < s->n; i++)
        if (s->from[i] == size)
            return s->to[i];
    return fx_dim_of(size);
}

static const fx_arg *change_leaf(void *user, const fx_arg *leaf)
{
    change *s = user;
    if (leaf->kind != FX_ARG_INT)
        return leaf;
    fx_dim to = changed(s, leaf->i);
    return to.sym ? fx_arg_sym(s->ctx, to.sym) : to.value != leaf->i ? fx_arg_int(s->ctx, to.value) : leaf;
}

/* The arguments with what may be a size changed: symbols are for SymInt and Scalar, and int is a number. */
static const fx_arg *change_sizes(const fx_node *n, change *s)
{
    const fx_schema *schema = fx_op_schema(s->ctx, n->op);
    const fx_arg **args = FX_NEW_ARRAY(fx_context_arena(s->ctx), const fx_arg *, n->args->n + 1);
    for (int i = 0; i < n->args->n; i++) {
        const fx_param *p = i < schema->n ? &schema->params[i] : NULL;
        bool able = p && (p->symbolic || p->kind == FX_PARAM_SCALAR);
        args[i] = able ? fx_arg_map(s->ctx, n->args->items[i], change_leaf, s) : n->args->items[i];
    }
    return fx_arg_seq(s->ctx, n->args->kind, n->args->n, args);
}

static void set_sizes(fx_graph *g, change *s)
{
    FX_FOR_NODES(g, n) {
        if (n->opcode == FX_PLACEHOLDER) {
            fx_dim dims[FX_MAX_RANK];
            for (int i = 0; i < n->type->rank; i++)
                dims[i] = n->type->dims[i].sym ? n->type->dims[i] : changed(s, n->type->dims[i].value);
            n->type = fx_type_tensor(g->ctx, n->type->dtype, n->type->rank, dims, NULL);
            continue;
        }
        fx_node *operands[256];
        for (int i = 0; i < n->n_operands; i++)
            operands[i] = n->operands[i].def;
        n->type = NULL;
        bool sizes = n->op && (n->op->id == FX_OP_view || n->op->id == FX_OP_reshape || n->op->id == FX_OP__unsafe_view || n->op->id == FX_OP_expand ||
                               n->op->id == FX_OP_unflatten_int || n->op->cls == FX_CLASS_CREATE);
        if (sizes)
            fx_node_assign(n, change_sizes(n, s), n->kwargs, n->n_operands, operands);
    }
}

void fz_set_size(fx_graph *g, int64_t from, fx_dim to)
{
    set_sizes(g, &(change){g->ctx, 1, &from, &to});
}

static fx_tensor resized(const change *s, const fx_tensor *t)
{
    fx_tensor out;
    int64_t sizes[FX_MAX_RANK], at[FX_MAX_RANK] = {0};
    for (int i = 0; i < t->rank; i++)
        sizes[i] = changed(s, t->sizes[i]).value;
    if (fx_tensor_create(s->ctx, t->dtype, t->rank, sizes, &out) != FX_OK)
        fx_out_of_memory(s->ctx);
    size_t size = fx_dtype_size(t->dtype);
    for (int64_t k = 0; k < fx_tensor_numel(&out); k++) { /* elements are repeated, or left out */
        int64_t offset = 0;
        for (int i = 0; i < t->rank; i++)
            offset += at[i] % (t->sizes[i] ? t->sizes[i] : 1) * t->strides[i];
        memcpy((char *)out.data + (size_t)k * size, (const char *)t->data + offset * (int64_t)size, size);
        for (int i = t->rank - 1; i >= 0 && ++at[i] == sizes[i]; i--)
            at[i] = 0;
    }
    return out;
}

fx_tensor fz_resized(fx_context *ctx, const fx_tensor *t, int64_t from, int64_t to)
{
    fx_dim d = fx_dim_of(to);
    return resized(&(change){ctx, 1, &from, &d}, t);
}

static fx_status infer_all(fx_graph *g)
{
    FX_FOR_NODES(g, n)
        if (!n->type)
            FX_TRY(fx_node_infer(n));
    return FX_OK;
}

/* The change of c's sizes to expressions over the symbols (values NULL), or to what these are at values of the symbols. */
static change change_of(const fz_case *c, const int64_t *values)
{
    const fz_sizes *z = &c->sizes;
    fx_arena *a = fx_context_arena(c->ctx);
    int64_t *from = FX_NEW_ARRAY(a, int64_t, z->n + 1);
    fx_dim *to = FX_NEW_ARRAY(a, fx_dim, z->n + 1);
    for (int i = 0; i < z->n; i++) {
        const fz_size *s = &z->v[i];
        from[i] = s->from;
        if (values)
            to[i] = fx_dim_of(s->times * values[s->symbol] + s->plus);
        else
            to[i] = fx_dim_plus(c->ctx, fx_dim_scale(c->ctx, fx_dim_sym(fx_sym_symbol(c->ctx, fx_intern(c->ctx, s->symbol ? "s1" : "s0"))), s->times), s->plus);
    }
    return (change){c->ctx, z->n, from, to};
}

/* The graph with these sizes; NULL when its types do not agree then. */
static fx_graph *at_sizes(fz_case *c, const int64_t *values)
{
    fx_graph *g = fx_graph_copy(c->g);
    size_t said = fx_diag_count(c->ctx);
    change s = change_of(c, values);
    for (int i = 0; values && i < s.n; i++)
        if (s.to[i].value < 0)
            return NULL;
    set_sizes(g, &s);
    fx_status status = infer_all(g);
    fx_diag_truncate(c->ctx, said);
    return status == FX_OK ? g : NULL;
}

static bool is_known(const fx_type *t)
{
    if (t && t->kind == FX_TYPE_TUPLE) {
        for (int i = 0; i < t->n; i++)
            if (!is_known(t->items[i]))
                return false;
        return true;
    }
    return t && t->kind == FX_TYPE_TENSOR;
}

static bool small(const fx_graph *g)
{
    FX_FOR_NODES(g, n)
        if (n->opcode != FX_OUTPUT && n->type && n->type->kind == FX_TYPE_TENSOR && (!fx_type_is_static(n->type) || fx_type_numel(n->type) > 8000))
            return false;
    return true;
}

/* The same case at other sizes, with its own reference; NULL when there is none. */
static fz_case *variant(fz_case *c, const int64_t *values)
{
    fx_graph *g = at_sizes(c, values);
    if (!g || !small(g))
        return NULL;
    fz_case *v = FX_NEW(fx_context_arena(c->ctx), fz_case);
    *v = (fz_case){.seed = c->seed, .ctx = c->ctx, .g = g, .n_in = c->n_in, .settings = c->settings};
    v->sizes.n_symbols = c->sizes.n_symbols;
    memcpy(v->sizes.value, values, sizeof v->sizes.value);
    change s = change_of(c, values);
    for (size_t i = 0; i < c->n_in; i++)
        v->in[i] = resized(&s, &c->in[i]);
    size_t said = fx_diag_count(c->ctx);
    fx_status status = fz_reference(v);
    fx_diag_truncate(c->ctx, said);
    return status == FX_OK ? v : NULL;
}

typedef struct probe_args {
    fz_case *c;
    fx_graph *g;
    const int64_t *values;
} probe_args;

static fx_status probe(void *arg)
{
    probe_args *a = arg;
    fx_tensor in[FZ_MAX_INPUTS], *out;
    size_t n_out;
    change s = change_of(a->c, a->values);
    for (size_t i = 0; i < a->c->n_in; i++)
        in[i] = resized(&s, &a->c->in[i]);
    return fx_graph_interpret(fx_graph_copy(a->g), a->c->n_in, in, &n_out, &out);
}

static bool same_type_at(const fx_type *a, const fx_type *b, fx_symbols symbols, const int64_t *values)
{
    if (a->kind == FX_TYPE_TUPLE) {
        for (int i = 0; i < a->n; i++)
            if (!same_type_at(a->items[i], b->items[i], symbols, values))
                return false;
        return true;
    }
    for (int i = 0; i < a->rank || a->rank != b->rank; i++) {
        int64_t v;
        if (a->rank != b->rank || !fx_dim_eval(symbols, values, a->dims[i], &v) || v != b->dims[i].value)
            return false;
    }
    return true;
}

/* What a graph with symbols rules out, and torch.export by its guards: slices that begin before the start. */
static bool ruled_out(const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION || !n->op || n->op->id != FX_OP_slice_Tensor || fx_node_is_none(n, 2))
        return false;
    const fx_type *t = n->operands[0].def->type;
    int64_t dim = fx_node_int(n, 1);
    return fx_node_int(n, 2) + t->dims[dim < 0 ? dim + t->rank : dim].value < 0;
}

/* Whether the graph runs at these sizes, and its types are then what the expressions in g say: what torch.export's guards ask. */
static bool runs_at(fz_case *c, const fx_graph *g, const int64_t *values)
{
    probe_args a = {c, at_sizes(c, values), values};
    size_t said = fx_diag_count(c->ctx);
    bool good = a.g && small(a.g);
    const fx_node *x = g->first, *y = a.g ? a.g->first : NULL;
    for (; good && x && y; x = x->next, y = y->next)
        good = x->opcode == FX_OUTPUT || (same_type_at(x->type, y->type, (fx_symbols){c->sizes.n_symbols, g->symbols}, values) && !ruled_out(y));
    good = good && probe(&a) == FX_OK;
    fx_diag_truncate(c->ctx, said);
    return good;
}

/* For one symbol, the others as they are: the least value and one far above from the least to which the graph runs; unbounded half of the time.
 * False: a constant bounds the size from above, or equals it, which is no symbol then. */
static bool find_range(fz_case *c, fx_graph *g, int symbol, int64_t *far, fz_rng *r)
{
    int64_t values[FZ_MAX_SYMBOLS], base = c->sizes.value[symbol], lo = base;
    memcpy(values, c->sizes.value, sizeof values);
    *far = 2 * base + (c->sizes.n_symbols > 1 ? 3 : 12);
    for (values[symbol] = base; values[symbol] <= *far; values[symbol]++)
        if (!runs_at(c, g, values))
            return false;
    for (; lo > 1; lo--) {
        values[symbol] = lo - 1;
        if ((lo == 2 && c->sizes.plain[symbol]) || !runs_at(c, g, values))
            break;
    }
    g->symbols[symbol] = (fx_sym_range){fx_intern(c->ctx, symbol ? "s1" : "s0"), lo, fz_one_in(r, 2) ? INT64_MAX : *far};
    return true;
}

static bool has_zero_size(const fx_graph *g)
{
    FX_FOR_NODES(g, n)
        for (int i = 0; n->opcode != FX_OUTPUT && n->type->kind == FX_TYPE_TENSOR && i < n->type->rank; i++)
            if (fx_dim_is(n->type->dims[i], 0))
                return true;
    return false;
}

/* Ranges of all symbols, within whose corners the graph runs. */
static bool find_ranges(fz_case *c, fx_graph *g, int64_t (*ends)[2], fz_rng *r)
{
    const fz_sizes *z = &c->sizes;
    for (int i = 0; i < z->n_symbols; i++) {
        if (!find_range(c, g, i, &ends[i][1], r))
            return false;
        ends[i][0] = g->symbols[i].min;
    }
    for (int k = 0; z->n_symbols > 1 && k < 4; k++)
        if (!runs_at(c, g, (int64_t[FZ_MAX_SYMBOLS]){ends[0][k & 1], ends[1][k >> 1]}))
            return false;
    return true;
}

void fz_make_symbolic(fz_case *c)
{
    fz_rng r = {c->seed ^ 0x2545f4914f6cdd1du};
    const fz_sizes *z = &c->sizes;
    int64_t ends[FZ_MAX_SYMBOLS][2] = {{0}};
    c->symbolic = NULL;
    c->n_variants = 0;
    fx_graph *g = at_sizes(c, NULL);
    if (!g)
        return;
    FX_FOR_NODES(g, n)
        if (n->opcode != FX_OUTPUT && !is_known(n->type))
            return;
    for (int i = 0; i < z->n_symbols; i++)
        FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = (fx_sym_range){fx_intern(c->ctx, i ? "s1" : "s0"), 2, INT64_MAX};
    if (has_zero_size(g) || !find_ranges(c, g, ends, &r)) /* tensors without elements are constants, which have fixed sizes */
        return;
    for (int i = 0; i < FZ_MAX_VARIANTS; i++) { /* both ends, and between; with two symbols the ends of one with any of the other */
        int64_t values[FZ_MAX_SYMBOLS] = {0};
        for (int k = 0; k < z->n_symbols; k++)
            values[k] = i == 1 ? fz_in(&r, ends[k][0], ends[k][1]) : ends[k][k ? fz_below(&r, 2) : i == 2];
        fz_case *v = memcmp(values, z->value, sizeof values) != 0 ? variant(c, values) : NULL;
        if (v)
            c->variants[c->n_variants++] = v;
    }
    size_t said = fx_diag_count(c->ctx);
    if (c->n_variants && fx_graph_verify(g, FX_STAGE_IMPORTED, "naming a size") == FX_OK)
        c->symbolic = g;
    fx_diag_truncate(c->ctx, said);
}

/* ---- drawing --------------------------------------------------------------------------------------------------------------- */

static void add_size(fz_sizes *z, int64_t from, int symbol, int64_t times, int64_t plus)
{
    for (int i = 0; i < z->n; i++)
        if (z->v[i].from == from)
            return;
    if (z->n == FZ_MAX_SIZES)
        return;
    z->v[z->n++] = (fz_size){from, symbol, times, plus};
    z->plain[symbol] |= times == 1 && plus == 0;
}

/* `from` as times * s + plus of a symbol that there is. */
static bool relate(fz_rng *r, fz_sizes *z, int64_t from)
{
    int symbol = (int)fz_below(r, z->n_symbols);
    for (int64_t times = 1; times <= 3; times++) {
        int64_t plus = from - times * z->value[symbol];
        if (plus >= -1 && plus <= 2 && (times > 1 || plus)) {
            add_size(z, from, symbol, times, plus);
            return true;
        }
    }
    return false;
}

/* A symbol for `from`, mostly by itself. */
static void name(fz_rng *r, fz_sizes *z, int64_t from)
{
    int64_t times = fz_one_in(r, 6) && from % 2 == 0 && from > 2 ? 2 : 1, plus = times == 1 && from > 2 && fz_one_in(r, 6) ? 1 : 0;
    z->value[z->n_symbols] = (from - plus) / times;
    add_size(z, from, z->n_symbols++, times, plus);
}

void fz_draw_sizes(fz_case *c)
{
    fz_rng r = {c->seed ^ 0x94d049bb133111ebu};
    fz_sizes *z = &c->sizes;
    int64_t found[64];
    int n = 0;
    for (size_t i = 0; i < c->n_in; i++)
        for (int d = 0; d < c->in[i].rank && n < 64; d++)
            if (c->in[i].sizes[d] >= 2)
                found[n++] = c->in[i].sizes[d];
    *z = (fz_sizes){0};
    if (!n)
        return;
    name(&r, z, found[fz_below(&r, n)]);
    bool several = fz_one_in(&r, 3);
    for (int i = 0; i < n && several; i++) {
        bool there = false;
        for (int k = 0; k < z->n; k++)
            there |= z->v[k].from == found[i];
        if (there || fz_one_in(&r, 3) || relate(&r, z, found[i]))
            continue;
        if (z->n_symbols < FZ_MAX_SYMBOLS)
            name(&r, z, found[i]);
    }
}

const char *fz_sizes_text(const fz_case *c, char *text, size_t size)
{
    const fz_sizes *z = &c->sizes;
    text[0] = 0;
    for (int i = 0; i < z->n_symbols; i++)
        snprintf(text + strlen(text), size - strlen(text), "%ss%d = %lld%s", i ? ", " : "", i, (long long)z->value[i], i + 1 == z->n_symbols ? ": " : "");
    return text;
}
