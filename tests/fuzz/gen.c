/* tests/fuzz/gen.c: drawing a graph: values, operands, outputs. What a row's arguments are is in rows.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <float.h>
#include <math.h>

#include "tests/fuzz/fuzz.h"

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

static double wild_float(fz_rng *r, fx_dtype dtype)
{
    static const double f32[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-45, -1e-40, FLT_MIN, FLT_MAX, -FLT_MAX, 1, -1, 0.5, 16777216, 2147483648.0,
                                 -2147483904.0, 255, 256, 1e-7, 88.8, -104};
    static const double f16[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 6e-8, 65504, -65504, 30000, 200, 0.5, 1, 2049};
    static const double f64[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 5e-324, DBL_MAX, 1e300, 9.2e18, -9.3e18, 0.1, 4503599627370497.5};
    return dtype == FX_F16   ? f16[fz_below(r, sizeof f16 / sizeof f16[0])]
           : dtype == FX_F64 ? f64[fz_below(r, sizeof f64 / sizeof f64[0])]
                             : f32[fz_below(r, sizeof f32 / sizeof f32[0])];
}

static int64_t wild_int(fz_rng *r, fx_dtype dtype)
{
    int bits = 8 * (int)fx_dtype_size(dtype);
    int64_t max = dtype == FX_U8 ? 255 : (int64_t)(((uint64_t)1 << (bits - 1)) - 1), min = dtype == FX_U8 ? 0 : -max - 1;
    switch (fz_below(r, 5)) {
    case 0: return max - fz_below(r, 3);
    case 1: return min + fz_below(r, 3);
    case 2: return (int64_t)fz_next(r) >> fz_below(r, 64);
    default: return fz_in(r, -3, 3);
    }
}

void fz_fill(fz_rng *r, fz_style style, fx_tensor *t)
{
    int64_t n = fx_tensor_numel(t);
    for (int64_t i = 0; i < n; i++) {
        bool wild = style == FZ_WILD && fz_one_in(r, 4);
        if (t->dtype == FX_BOOL)
            fx_tensor_set_int(t, i, fz_below(r, 2));
        else if (!fx_dtype_is_float(t->dtype))
            fx_tensor_set_int(t, i, wild ? wild_int(r, t->dtype) : t->dtype == FX_U8 ? fz_below(r, 12) : fz_in(r, -9, 9));
        else if (wild)
            fx_tensor_set(t, i, wild_float(r, t->dtype));
        else if (style == FZ_PLAIN)
            fx_tensor_set(t, i, (double)fz_in(r, -32, 32) / 8);
        else
            fx_tensor_set(t, i, (double)fz_in(r, -3000000, 3000000) / 1e6);
    }
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------------ */

fz_shape fz_shape_of(const fx_node *n)
{
    fz_shape s = {.rank = n->type->rank};
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = n->type->dims[i].value;
    return s;
}

int64_t fz_numel(const fz_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

fz_shape fz_draw_shape(fz_gen *g, int rank)
{
    static const int ranks[] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 6};
    static const int64_t dims[] = {1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 11, 13, 16, 17};
    fz_shape s = {.rank = rank >= 0 ? rank : ranks[fz_below(g->rng, sizeof ranks / sizeof ranks[0])]};
    int64_t n = 1;
    for (int i = s.rank - 1; i >= 0; i--) {
        int64_t d = fz_one_in(g->rng, 60) ? 0 : dims[fz_below(g->rng, sizeof dims / sizeof dims[0])];
        while (d > 1 && n * d > FZ_MAX_NUMEL / 3)
            d /= 2;
        n *= d ? d : 1;
        s.dims[i] = d;
    }
    return s;
}

fx_dtype fz_draw_dtype(fz_gen *g)
{
    if ((g->dtypes >> g->favourite & 1) && fz_below(g->rng, 5) < 3)
        return g->favourite;
    for (;;) {
        fx_dtype d = (fx_dtype)fz_below(g->rng, FX_DTYPE_COUNT);
        if (g->dtypes >> d & 1)
            return d;
    }
}

/* ---- operands ---------------------------------------------------------------------------------------------------------------- */

static fx_tensor new_tensor(fz_gen *g, fx_dtype dtype, const fz_shape *s)
{
    fx_tensor t;
    if (fx_tensor_create(g->ctx, dtype, s->rank, s->dims, &t) != FX_OK)
        fx_out_of_memory(g->ctx);
    return t;
}

static void add_to_pool(fz_gen *g, fx_node *n)
{
    if (g->n_pool < (int)(sizeof g->pool / sizeof g->pool[0]))
        g->pool[g->n_pool++] = n;
}

/* Placeholders stand before all else. */
static fx_node *add_input(fz_gen *g, const fx_tensor *t)
{
    fz_case *c = g->c;
    if (c->n_in == FZ_MAX_INPUTS)
        return NULL;
    fx_node *first = g->g->first;
    while (first && first->opcode == FX_PLACEHOLDER)
        first = first->next;
    g->g->insert_before = first;
    fx_node *n = fx_node_new(g->g, FX_PLACEHOLDER, fx_intern_f(g->ctx, "x%zu", c->n_in), NULL, NULL, 0, NULL, NULL);
    g->g->insert_before = NULL;
    n->type = fx_type_tensor_static(g->ctx, t->dtype, t->rank, t->sizes);
    c->in[c->n_in++] = *t;
    return n;
}

fx_node *fz_constant(fz_gen *g, fx_dtype dtype, const fz_shape *s, fz_style style)
{
    fx_tensor t = new_tensor(g, dtype, s);
    fz_fill(g->rng, style, &t);
    fx_node *n = fx_graph_constant(g->g, fx_intern_f(g->ctx, "w%d", g->n_consts++), &t);
    add_to_pool(g, n);
    return n;
}

fx_node *fz_input(fz_gen *g, fx_dtype dtype, const fz_shape *s, fz_style style)
{
    fx_tensor t = new_tensor(g, dtype, s);
    fz_fill(g->rng, style, &t);
    fx_node *n = add_input(g, &t);
    if (!n)
        return fz_constant(g, dtype, s, style);
    add_to_pool(g, n);
    return n;
}

fx_node *fz_fresh(fz_gen *g, fx_dtype dtype, const fz_shape *s)
{
    fz_style style = (fz_style)(fz_one_in(g->rng, 3) ? FZ_WILD : fz_below(g->rng, 2));
    return fz_one_in(g->rng, 4) ? fz_constant(g, dtype, s, style) : fz_input(g, dtype, s, style);
}

/* A value of the pool that fits, late ones first; NULL when there is none or by chance. */
static fx_node *from_pool(fz_gen *g, uint32_t dtypes, int rank_lo, int rank_hi, const fz_shape *s)
{
    int step = (int)fz_in(g->rng, 1, 3);
    for (int i = g->n_pool - 1; i >= 0; i -= (int)fz_in(g->rng, 1, step)) {
        fx_node *n = g->pool[i];
        if ((dtypes && !(dtypes >> n->type->dtype & 1)) || n->type->rank < rank_lo || n->type->rank > rank_hi)
            continue;
        if (s) {
            fz_shape t = fz_shape_of(n);
            if (t.rank != s->rank || memcmp(t.dims, s->dims, (size_t)t.rank * sizeof *t.dims) != 0)
                continue;
        }
        return n;
    }
    return NULL;
}

fx_node *fz_value(fz_gen *g, fx_dtype dtype, const fz_shape *s)
{
    fx_node *n = fz_one_in(g->rng, 6) ? NULL : from_pool(g, dtype == FX_DTYPE_COUNT ? 0 : 1u << dtype, s->rank, s->rank, s);
    return n ? n : fz_fresh(g, dtype == FX_DTYPE_COUNT ? fz_draw_dtype(g) : dtype, s);
}

fx_node *fz_any(fz_gen *g, uint32_t dtypes, int rank_lo, int rank_hi)
{
    fx_node *n = fz_one_in(g->rng, 12) ? NULL : from_pool(g, dtypes, rank_lo, rank_hi, NULL);
    if (n)
        return n;
    fz_shape s = fz_draw_shape(g, -1);
    if (s.rank < rank_lo || s.rank > rank_hi)
        s = fz_draw_shape(g, (int)fz_in(g->rng, rank_lo, rank_hi < 5 ? rank_hi : 5));
    fx_dtype d = fz_draw_dtype(g);
    for (int i = 0; i < 50 && dtypes && !(dtypes >> d & 1); i++)
        d = fz_draw_dtype(g);
    if (dtypes && !(dtypes >> d & 1))
        for (d = 0; !(dtypes >> d & 1);)
            d++;
    return fz_fresh(g, d, &s);
}

fx_node *fz_broadcast(fz_gen *g, const fx_node *like, fx_dtype dtype)
{
    fz_shape s = fz_shape_of(like);
    if (fz_one_in(g->rng, 3))
        for (int i = 0; i < s.rank; i++) /* some dims of size 1, or left out from the front */
            if (fz_one_in(g->rng, 2))
                s.dims[i] = 1;
    while (s.rank && fz_one_in(g->rng, 5)) {
        memmove(s.dims, s.dims + 1, (size_t)(s.rank - 1) * sizeof *s.dims);
        s.rank--;
    }
    return fz_value(g, dtype, &s);
}

fx_node *fz_indices(fz_gen *g, const fz_shape *s, int64_t lo, int64_t hi)
{
    fx_tensor t = new_tensor(g, (g->dtypes >> FX_I32 & 1) && fz_one_in(g->rng, 4) ? FX_I32 : FX_I64, s);
    int64_t n = fx_tensor_numel(&t);
    if (hi <= lo && n)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        fx_tensor_set_int(&t, i, fz_in(g->rng, lo, hi - 1));
    if (fz_one_in(g->rng, 5))
        return fx_graph_constant(g->g, fx_intern_f(g->ctx, "w%d", g->n_consts++), &t);
    return add_input(g, &t);
}

/* ---- the graph ---------------------------------------------------------------------------------------------------------------- */

/* Results of ops that give several: some of them, as values. */
static void take_results(fz_gen *g, fx_node *n)
{
    int count = n->type->n;
    for (int i = 0; i < count; i++) {
        if (n->type->items[i]->kind == FX_TYPE_NONE) /* a gradient that is not asked for */
            continue;
        bool later = n->op->cls != FX_CLASS_VIEW && i > 0; /* indices, means: rarely asked for */
        if (i && fz_one_in(g->rng, later ? 2 : 4))
            continue;
        fx_call c = fx_call_begin(g->g, FX_OP_getitem);
        fx_call_node(&c, n);
        fx_call_int(&c, i);
        fx_node *one = fx_call_end(&c, NULL);
        if (one)
            add_to_pool(g, one);
    }
}

/* Whether eager has the op in place too. */
static bool has_in_place(const fx_op *op)
{
    static const char *const none[] = {"aten._", "aten.to", "aten.is", "aten.max", "aten.min", "aten.rsub", "aten.where", "aten.prelu", "quantized"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (!strncmp(op->name, none[i], strlen(none[i])))
            return false;
    if (strstr(op->name, "_backward."))
        return false;
    return op->cls == FX_CLASS_POINTWISE || op->id == FX_OP_copy || op->id == FX_OP_fill_Scalar || op->id == FX_OP_fill_Tensor;
}

/* Whether elements of a view may be the same memory: eager refuses to write there. */
static bool overlaps(const fx_node *n)
{
    for (; n->op && n->n_operands; n = n->operands[0].def) {
        if (strstr(n->op->name, "unfold") || strstr(n->op->name, "meshgrid") || n->op->id == FX_OP_expand || n->op->id == FX_OP_expand_as)
            return true;
        if (n->op->cls != FX_CLASS_VIEW && n->op->id != FX_OP_getitem)
            break;
    }
    return false;
}

/* The same call in place, where its first operand is what a call gave, an input or a constant. */
static fx_node *write_in_place(fz_gen *g, fx_node *n)
{
    const char *name = n->op->name, *dot = strrchr(name, '.');
    fx_node *self = n->n_operands ? n->operands[0].def : NULL;
    bool inplace;
    if (!has_in_place(n->op) || !self || overlaps(self) || !dot || fx_node_input(n, 0) != self || !fx_type_same_tensor(self->type, n->type))
        return n;
    const char *target = fx_intern_f(g->ctx, "%.*s_%s", (int)(dot - name), name, dot);
    const fx_op *op = fx_op_find(target, &inplace);
    if (op != n->op || !inplace)
        return n;
    fx_node *operands[32];
    if (n->n_operands > 32)
        return n;
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = n->operands[i].def;
    fx_node *w = fx_node_new(g->g, FX_CALL_FUNCTION, target, n->args, NULL, n->n_operands, operands, NULL);
    if (fx_node_normalize(w) != FX_OK || fx_node_infer(w) != FX_OK) {
        fx_node_erase(w);
        return n;
    }
    fx_node_erase(n);
    return w;
}

static bool usable(const fx_type *t)
{
    if (t->kind == FX_TYPE_TUPLE) {
        for (int i = 0; i < t->n; i++)
            if (t->items[i]->kind != FX_TYPE_NONE && !usable(t->items[i]))
                return false;
        return t->n > 0 && t->n <= 16;
    }
    return t->kind == FX_TYPE_TENSOR && t->rank <= 6 && fx_type_is_static(t) && fx_type_numel(t) <= FZ_MAX_NUMEL;
}

/* Whether all numbers of a call lie in [0, 100]: what every integer type holds. */
static bool small_numbers(const fx_node *n)
{
    for (int i = 0; i < n->args->n; i++)
        if ((n->args->items[i]->kind == FX_ARG_INT || n->args->items[i]->kind == FX_ARG_FLOAT) &&
            (fx_node_float(n, i) < 0 || fx_node_float(n, i) > 100))
            return false;
    return true;
}

/* What eager refuses and shape inference does not: differences and running sums of bools, limits that an integer type cannot hold. */
static bool eager_refuses(const fx_node *n)
{
    if (n->op->id == FX_OP_hardtanh || strstr(n->op->name, "clamp") || strstr(n->op->name, "threshold"))
        return n->type->kind == FX_TYPE_TENSOR && !fx_dtype_is_float(n->type->dtype) && !strstr(n->op->name, "Tensor") && !small_numbers(n);
    bool sums = strstr(n->op->name, "aten.cum") || n->op->cls == FX_CLASS_CONTRACTION || strstr(n->op->name, "index_add");
    if (sums && n->type->kind == FX_TYPE_TENSOR && n->type->dtype == FX_BOOL)
        return true;
    if (n->op->id == FX_OP_masked_fill_Tensor || n->op->id == FX_OP_fill_Tensor)
        return n->operands[n->n_operands - 1].def->type->rank != 0;
    if (n->op->cls == FX_CLASS_CONTRACTION || strstr(n->op->name, "lerp") || strstr(n->op->name, "tensordot"))
        for (int i = 1; i < n->n_operands; i++)
            if (n->operands[i].def->type->dtype != n->operands[0].def->type->dtype)
                return true;
    if (n->op->cls == FX_CLASS_CONTRACTION && strstr(n->op->name, "conv") && fx_type_numel(n->operands[0].def->type) == 0)
        return true; /* over nothing: a border of zeros alone */
    if (n->op->cls == FX_CLASS_POOL && fx_type_numel(n->operands[0].def->type) == 0)
        return true;
    if (strstr(n->op->name, "aten.topk") && n->operands[0].def->type->rank == 0)
        return true;
    if (strstr(n->op->name, "instance_norm") && fx_type_numel(n->operands[0].def->type) == 0)
        return true;
    if (n->op->id == FX_OP_addbmm && (n->type->dtype == FX_F16 || n->type->dtype == FX_BF16))
        return true; /* rounds after each matrix of the batch */
    if (!strstr(n->op->name, "sub.") && n->op->id != FX_OP_neg)
        return false;
    for (int i = 0; i < n->n_operands; i++)
        if (n->operands[i].def->type->dtype == FX_BOOL)
            return true;
    return false;
}

static bool draw_row(fz_gen *g, const fz_menu *menu, const fx_op *op)
{
    fx_node *n = fz_row(g, op);
    if (!n)
        return false;
    if (!n->type || !usable(n->type) || eager_refuses(n)) {
        fx_node_erase(n);
        return false;
    }
    if (menu->writes && fz_one_in(g->rng, 8))
        n = write_in_place(g, n);
    if (n->type->kind == FX_TYPE_TUPLE)
        take_results(g, n);
    else
        add_to_pool(g, n);
    return true;
}

static const fx_op *pick_row(fz_gen *g, const fz_menu *menu)
{
    if (menu->only)
        return &fx_ops[menu->only];
    for (;;) {
        const fx_op *op = &fx_ops[1 + fz_below(g->rng, FX_OP_COUNT - 1)];
        if (g->views && op->cls != FX_CLASS_VIEW && !fz_one_in(g->rng, 8))
            continue;
        if (!fz_row_excluded(op->id) && (!menu->able || menu->able[op->id]) && (op->cls != FX_CLASS_POINTWISE || fz_one_in(g->rng, 2)))
            return op;
    }
}

/* A value that may raise. */
static fx_node *draw_raising(fz_gen *g)
{
    fx_node *found[8];
    int n = 0;
    for (int i = 0; i < g->n_pool && n < 8; i++)
        if (fz_raises(g->pool[i]))
            found[n++] = g->pool[i];
    return n ? found[fz_below(g->rng, n)] : NULL;
}

/* What nobody reads is mostly an output; now and then something else too, also an input, or one twice, and mostly one that may raise. */
static void draw_outputs(fz_gen *g, bool wrong)
{
    const fx_arg *items[FZ_MAX_OUTPUTS];
    fx_node *outs[FZ_MAX_OUTPUTS];
    int n = 0, want = 1 + (int)fz_below(g->rng, 4);
    for (int i = g->n_pool - 1; i >= 0 && n < want; i--)
        if (!g->pool[i]->n_uses && g->pool[i]->opcode == FX_CALL_FUNCTION)
            outs[n++] = g->pool[i];
    if (!n || (n < FZ_MAX_OUTPUTS && fz_one_in(g->rng, 4)))
        outs[n++] = g->pool[fz_below(g->rng, g->n_pool)];
    fx_node *raising = wrong && n < FZ_MAX_OUTPUTS && fz_one_in(g->rng, 2) ? draw_raising(g) : NULL;
    if (raising)
        outs[n++] = raising;
    for (int i = 0; i < n; i++)
        items[i] = fx_arg_operand(g->ctx, i);
    const fx_arg *tuple = fx_arg_seq(g->ctx, FX_ARG_TUPLE, n, items);
    fx_node_new(g->g, FX_OUTPUT, "output", fx_arg_seq(g->ctx, FX_ARG_TUPLE, 1, &tuple), NULL, n, outs, NULL);
}

/* Inputs that only failed draws asked for. */
static void drop_unused(fz_gen *g)
{
    size_t k = 0, i = 0;
    for (fx_node *n = g->g->first, *next; n; n = next) {
        next = n->next;
        if (n->opcode == FX_GET_ATTR && !n->n_uses) {
            fx_attr *a = fx_attr_find(g->g, n->target);
            fx_node_erase(n);
            fx_attr_remove(a);
        }
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        fx_tensor t = g->c->in[i++];
        if (n->n_uses || fz_one_in(g->rng, 10))
            g->c->in[k++] = t;
        else
            fx_node_erase(n);
    }
    g->c->n_in = k;
}

typedef struct draw_args {
    fz_case *c;
    const fz_menu *menu;
} draw_args;

static fx_status draw(void *arg)
{
    draw_args *a = arg;
    fz_case *c = a->c;
    fz_rng rng = {c->seed};
    fz_gen g = {.ctx = c->ctx, .rng = &rng, .c = c, .dtypes = a->menu->dtypes};
    g.favourite = FX_F32;
    if (fz_one_in(&rng, 3))
        g.favourite = fz_draw_dtype(&g);
    g.views = fz_one_in(&rng, 6);
    g.g = c->g = fx_graph_new(c->ctx, "fuzz");
    c->g->stage = FX_STAGE_IMPORTED;
    size_t said = fx_diag_count(c->ctx);
    int want = a->menu->only ? 1 : (int)fz_in(&rng, 1, fz_one_in(&rng, 4) ? 24 : 10);
    for (int tries = 0, done = 0; done < want && tries < 6 * want + 20; tries++)
        done += draw_row(&g, a->menu, pick_row(&g, a->menu));
    fx_diag_truncate(c->ctx, said);
    if (!g.n_pool)
        fz_any(&g, 0, 0, 4);
    draw_outputs(&g, a->menu->wrong);
    drop_unused(&g);
    return fx_graph_verify(c->g, FX_STAGE_IMPORTED, "drawing");
}

fx_status fz_draw(fz_case *c, const fz_menu *menu)
{
    return fx_protect(c->ctx, draw, &(draw_args){c, menu});
}
