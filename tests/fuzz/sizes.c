/* tests/fuzz/sizes.c: a graph at other sizes, and with a symbol for a size.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "tests/fuzz/fuzz.h"

typedef struct change {
    fx_context *ctx;
    int64_t from;
    fx_dim to;
} change;

static const fx_arg *change_leaf(void *user, const fx_arg *leaf)
{
    change *s = user;
    if (leaf->kind != FX_ARG_INT || leaf->i != s->from)
        return leaf;
    return s->to.sym ? fx_arg_sym(s->ctx, s->to.sym) : fx_arg_int(s->ctx, s->to.value);
}

void fz_set_size(fx_graph *g, int64_t from, fx_dim to)
{
    change s = {g->ctx, from, to};
    FX_FOR_NODES(g, n) {
        if (n->opcode == FX_PLACEHOLDER) {
            fx_dim dims[FX_MAX_RANK];
            for (int i = 0; i < n->type->rank; i++)
                dims[i] = n->type->dims[i].value == from && !n->type->dims[i].sym ? to : n->type->dims[i];
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
            fx_node_assign(n, fx_arg_map(g->ctx, n->args, change_leaf, &s), n->kwargs, n->n_operands, operands);
    }
}

fx_tensor fz_resized(fx_context *ctx, const fx_tensor *t, int64_t from, int64_t to)
{
    fx_tensor out;
    int64_t sizes[FX_MAX_RANK], at[FX_MAX_RANK] = {0};
    for (int i = 0; i < t->rank; i++)
        sizes[i] = t->sizes[i] == from ? to : t->sizes[i];
    if (fx_tensor_create(ctx, t->dtype, t->rank, sizes, &out) != FX_OK)
        fx_out_of_memory(ctx);
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

static fx_status infer_all(fx_graph *g)
{
    FX_FOR_NODES(g, n)
        if (!n->type)
            FX_TRY(fx_node_infer(n));
    return FX_OK;
}

/* The graph with `to` for a size; NULL when its types do not agree then. */
static fx_graph *at_size(fz_case *c, fx_dim to)
{
    fx_graph *g = fx_graph_copy(c->g);
    size_t said = fx_diag_count(c->ctx);
    fz_set_size(g, c->symbol_from, to);
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

/* The same case at another size, with its own reference; NULL when there is none. */
static fz_case *variant(fz_case *c, int64_t size)
{
    fx_graph *g = at_size(c, fx_dim_of(size));
    if (!g || !small(g))
        return NULL;
    fz_case *v = FX_NEW(fx_context_arena(c->ctx), fz_case);
    *v = (fz_case){.seed = c->seed, .ctx = c->ctx, .g = g, .n_in = c->n_in, .settings = c->settings, .size = size};
    for (size_t i = 0; i < c->n_in; i++)
        v->in[i] = fz_resized(c->ctx, &c->in[i], c->symbol_from, size);
    size_t said = fx_diag_count(c->ctx);
    fx_status status = fz_reference(v);
    fx_diag_truncate(c->ctx, said);
    return status == FX_OK ? v : NULL;
}

typedef struct probe_args {
    fz_case *c;
    fx_graph *g;
    int64_t size;
} probe_args;

static fx_status probe(void *arg)
{
    probe_args *a = arg;
    fx_tensor in[FZ_MAX_INPUTS], *out;
    size_t n_out;
    for (size_t i = 0; i < a->c->n_in; i++)
        in[i] = fz_resized(a->c->ctx, &a->c->in[i], a->c->symbol_from, a->size);
    return fx_graph_interpret(fx_graph_copy(a->g), a->c->n_in, in, &n_out, &out);
}

static bool same_type_at(const fx_type *a, const fx_type *b, fx_symbols symbols, int64_t size)
{
    if (a->kind == FX_TYPE_TUPLE) {
        for (int i = 0; i < a->n; i++)
            if (!same_type_at(a->items[i], b->items[i], symbols, size))
                return false;
        return true;
    }
    for (int i = 0; i < a->rank || a->rank != b->rank; i++) {
        int64_t v;
        if (a->rank != b->rank || !fx_dim_eval(symbols, &size, a->dims[i], &v) || v != b->dims[i].value)
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

/* Whether the graph runs at this size, and its sizes are then what the expressions in g say: what torch.export's guards ask. */
static bool runs_at(fz_case *c, const fx_graph *g, int64_t size)
{
    probe_args a = {c, at_size(c, fx_dim_of(size)), size};
    size_t said = fx_diag_count(c->ctx);
    bool good = a.g && small(a.g);
    const fx_node *x = g->first, *y = a.g ? a.g->first : NULL;
    for (; good && x && y; x = x->next, y = y->next)
        good = x->opcode == FX_OUTPUT || (same_type_at(x->type, y->type, (fx_symbols){1, g->symbols}, size) && !ruled_out(y));
    good = good && probe(&a) == FX_OK;
    fx_diag_truncate(c->ctx, said);
    return good;
}

/* The least size and one far above symbol_from between which the graph runs; unbounded half of the time. False: a constant bounds the size
 * from above, or equals it, which is no symbol then. */
static bool find_range(fz_case *c, fx_graph *g, int64_t far, fz_rng *r)
{
    int64_t lo = c->symbol_from;
    for (int64_t s = c->symbol_from; s <= far; s++)
        if (!runs_at(c, g, s))
            return false;
    while (lo > 2 && runs_at(c, g, lo - 1))
        lo--;
    g->symbols[0] = (fx_sym_range){fx_intern(c->ctx, "s0"), lo, fz_one_in(r, 2) ? INT64_MAX : far};
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

void fz_make_symbolic(fz_case *c)
{
    fz_rng r = {c->seed ^ 0x2545f4914f6cdd1du};
    c->symbolic = NULL;
    c->n_variants = 0;
    c->size = c->symbol_from;
    fx_graph *g = at_size(c, fx_dim_sym(fx_sym_symbol(c->ctx, fx_intern(c->ctx, "s0"))));
    if (!g)
        return;
    FX_FOR_NODES(g, n)
        if (n->opcode != FX_OUTPUT && !is_known(n->type))
            return;
    int64_t far = 2 * c->symbol_from + 12;
    FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = (fx_sym_range){fx_intern(c->ctx, "s0"), 2, INT64_MAX};
    if (has_zero_size(g) || !find_range(c, g, far, &r)) /* tensors without elements are constants, which have fixed sizes */
        return;
    const int64_t sizes[] = {g->symbols[0].min, fz_in(&r, g->symbols[0].min, far), far};
    for (int i = 0; i < 3; i++) {
        fz_case *v = sizes[i] != c->symbol_from && (i == 0 || sizes[i] != sizes[i - 1]) ? variant(c, sizes[i]) : NULL;
        if (v)
            c->variants[c->n_variants++] = v;
    }
    size_t said = fx_diag_count(c->ctx);
    if (c->n_variants && fx_graph_verify(g, FX_STAGE_IMPORTED, "naming a size") == FX_OK)
        c->symbolic = g;
    fx_diag_truncate(c->ctx, said);
}

int64_t fz_draw_symbol(const fz_case *c)
{
    fz_rng r = {c->seed ^ 0x94d049bb133111ebu};
    int64_t found[64];
    int n = 0;
    for (size_t i = 0; i < c->n_in; i++)
        for (int d = 0; d < c->in[i].rank && n < 64; d++)
            if (c->in[i].sizes[d] >= 2)
                found[n++] = c->in[i].sizes[d];
    return n ? found[fz_below(&r, n)] : 0;
}
