/* tests/fuzz/rows.c: arguments for a call of any row of op.def. Most rows are drawn by their schema: each parameter by its kind and
 * name, and shape inference says whether the draw fits. A class of rows whose operands must fit each other has a function here.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/fuzz/fuzz.h"

enum { FLOATS = 1 << FX_F32 | 1 << FX_F64 | 1 << FX_F16 | 1 << FX_BF16, INTS = 1 << FX_I8 | 1 << FX_I16 | 1 << FX_I32 | 1 << FX_I64 | 1 << FX_U8 };

/* Rows that are not drawn, and why. test_fuzz_rows checks the list against op.def: a row is either drawn or here. */
static const struct {
    fx_opid id;
    const char *why;
} excluded[] = {
    {FX_OP_getitem, "drawn with the calls that give several results"},
    {FX_OP_sym_size_int, "its result is a number, not a tensor"},
    {FX_OP_sym_numel, "its result is a number, not a tensor"},
    {FX_OP_sym_max, "arithmetic on sizes: its result is a number, not a tensor"},
    {FX_OP_sym_min, "arithmetic on sizes: its result is a number, not a tensor"},
    {FX_OP_sym_sum, "arithmetic on sizes: its result is a number, not a tensor"},
    {FX_OP_sym_constrain_range, "a guard: has no result"},
    {FX_OP_sym_constrain_range_for_size, "a guard: has no result"},
    {FX_OP__assert_scalar, "a guard: has no result"},
    {FX_OP__assert_tensor_metadata, "has no result"},
    {FX_OP_attention, "what lowering makes of attention that is spelled out; models do not call it"},
    {FX_OP_conv_weight_grad, "what lowering makes of convolution_backward; models do not call it"},
    {FX_OP__batch_norm_with_update, "writes its running statistics: tests/ops, tests/training"},
    {FX_OP_conv3d, "refused by name: convolutions over 1 or 2 dims can be compiled"},
    {FX_OP_to_device, "asks for a device; the same as to.dtype"},
    {FX_OP_new_empty, "its elements have no defined value"},
    {FX_OP_empty_memory_format, "its elements have no defined value"},
    {FX_OP_empty_like, "its elements have no defined value"},
    {FX_OP_empty_strided, "its elements have no defined value"},
    {FX_OP_empty_permuted, "its elements have no defined value"},
    {FX_OP_new_empty_strided, "its elements have no defined value"},
};

const char *fz_row_excluded(fx_opid id)
{
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++)
        if (excluded[i].id == id)
            return excluded[i].why;
    return fz_loss_excluded(id);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------ */

static const fx_arg *draw_scalar(fz_gen *g, bool integral)
{
    static const double f[] = {0.5, -0.25, 1, 2, -1, 0, -0.0, 3, 0.1, 1e-3, 6, -3, 2.5, 6e4}; /* the largest is one of float16 too: torch refuses others there */
    if (integral || fz_one_in(g->rng, 3))
        return fx_arg_int(g->ctx, fz_one_in(g->rng, 10) ? fz_in(g->rng, -300, 300) : fz_in(g->rng, -3, 7));
    return fx_arg_float(g->ctx, f[fz_below(g->rng, sizeof f / sizeof f[0])]);
}

static const fx_arg *draw_dims(fz_gen *g, int rank)
{
    int64_t v[FX_MAX_RANK];
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (fz_one_in(g->rng, 2))
            v[n++] = fz_one_in(g->rng, 3) ? i - rank : i;
    for (int i = n - 1; i > 0; i--) {
        int k = (int)fz_below(g->rng, i + 1);
        int64_t t = v[i];
        v[i] = v[k];
        v[k] = t;
    }
    return fx_arg_ints(g->ctx, n, v);
}

/* ---- by schema -------------------------------------------------------------------------------------------------------------- */

typedef struct draw {
    fz_gen *g;
    const fx_op *op;
    fx_call call;
    fx_node *self;               /* the first tensor */
} draw;

static bool is_named(const fx_param *p, const char *words)
{
    size_t n = strlen(p->name);
    for (const char *f = words; (f = strstr(f, p->name)); f += n)
        if ((f == words || f[-1] == ' ') && (f[n] == ' ' || f[n] == 0))
            return true;
    return false;
}

/* Integer quotients and remainders, which eager refuses for divisors of 0. */
static bool is_quotient(const draw *d)
{
    return d->self && !fx_dtype_is_float(d->self->type->dtype) &&
           (strstr(d->op->name, ".div.") || strstr(d->op->name, "floor_divide") || strstr(d->op->name, "fmod") || strstr(d->op->name, "remainder"));
}

/* Bounds that float16 cannot hold, which eager refuses. */
static bool is_too_large(const draw *d, const fx_param *p)
{
    return d->self->type->dtype == FX_F16 && is_named(p, "lambd");
}

static fx_node *draw_divisor(draw *d)
{
    fz_shape s = fz_one_in(d->g->rng, 4) ? (fz_shape){0} : fz_shape_of(d->self);
    return fz_indices(d->g, &s, 1, 9);
}

static bool draw_param(draw *d, const fx_param *p)
{
    fz_gen *g = d->g;
    fz_rng *r = g->rng;
    int rank = d->self ? d->self->type->rank : 0;
    if (p->optional && p->kind != FX_PARAM_STR && !is_named(p, "dim min max start end") && fz_below(r, 3)) {
        fx_call_arg(&d->call, p->def ? p->def : fx_arg_none(g->ctx));
        return true;
    }
    switch (p->kind) {
    case FX_PARAM_TENSOR:
        if (!d->self)
            d->self = fz_any(g, is_named(p, "condition mask") ? 1 << FX_BOOL : strstr(d->op->name, "bitwise") ? INTS | 1 << FX_BOOL
                                : strstr(d->op->name, "hypot")                     ? FLOATS
                                                                                   : 0, 0, 6);
        fx_call_node(&d->call, d->call.n_operands == 0 ? d->self
                               : is_quotient(d) && !fz_one_in(r, 8) ? draw_divisor(d)
                               : is_named(p, "value")               ? fz_value(g, d->self->type->dtype, &(fz_shape){0})
                               : is_named(p, "mask condition") ? fz_broadcast(g, d->self, FX_BOOL)
                                                               : fz_broadcast(g, d->self, d->self->type->dtype == FX_BOOL || fz_one_in(r, 6)
                                                                                              ? FX_DTYPE_COUNT : d->self->type->dtype));
        return d->self != NULL;
    case FX_PARAM_SCALAR:
        fx_call_arg(&d->call, p->optional && fz_one_in(r, 4) ? fx_arg_none(g->ctx)
                              : p->def && fz_one_in(r, 2)    ? p->def
                              : is_named(p, "correction")    ? fx_arg_int(g->ctx, fz_below(r, 2))
                              : is_quotient(d)               ? fx_arg_int(g->ctx, fz_one_in(r, 4) ? -fz_in(r, 1, 5) : fz_in(r, 1, 9))
                              : is_named(p, "ord p")         ? fx_arg_float(g->ctx, (double)fz_in(r, 0, 3))
                                                             : draw_scalar(g, d->self && (!fx_dtype_is_float(d->self->type->dtype) || is_too_large(d, p))));
        return true;
    case FX_PARAM_INT:
        if (p->optional && fz_one_in(r, 4))
            fx_call_arg(&d->call, fx_arg_none(g->ctx));
        else if (!strncmp(p->name, "dim", 3) || is_named(p, "axis start_dim end_dim"))
            fx_call_int(&d->call, rank ? fz_in(r, -rank, rank - 1) : 0);
        else if (is_named(p, "padding_idx"))
            fx_call_int(&d->call, -1);
        else
            fx_call_int(&d->call, fz_in(r, is_named(p, "diagonal offset shifts") ? -3 : 0, 4));
        return true;
    case FX_PARAM_INTS:
        if (p->optional && fz_one_in(r, 4))
            fx_call_arg(&d->call, fx_arg_none(g->ctx));
        else
            fx_call_arg(&d->call, draw_dims(g, rank));
        return true;
    case FX_PARAM_FLOAT:
        fx_call_float(&d->call, is_named(p, "eps") ? 1e-5 : (double)fz_in(r, 1, 16) / 8);
        return true;
    case FX_PARAM_BOOL:
        fx_call_bool(&d->call, !is_named(p, "train training half_to_float non_blocking") && fz_one_in(r, 2));
        return true;
    case FX_PARAM_STR: {
        static const char *const approximate[] = {"none", "tanh"}, *const rounding[] = {"floor", "trunc"};
        if (is_named(p, "approximate"))
            fx_call_arg(&d->call, fx_arg_text(g->ctx, FX_ARG_STR, fx_intern(g->ctx, approximate[fz_below(r, 2)])));
        else if (is_named(p, "rounding_mode"))
            fx_call_arg(&d->call, fz_one_in(r, 4) ? fx_arg_none(g->ctx)
                                                  : fx_arg_text(g->ctx, FX_ARG_STR, fx_intern(g->ctx, rounding[fz_below(r, 2)])));
        else if (p->def)
            fx_call_arg(&d->call, p->def);
        else
            return false;
        return true;
    }
    case FX_PARAM_DTYPE:
        fx_call_arg(&d->call, p->optional && fz_one_in(r, 2) ? fx_arg_none(g->ctx) : fx_arg_dtype(g->ctx, fz_draw_dtype(g)));
        return true;
    default:
        if (!p->def && !p->optional)
            return false;
        fx_call_arg(&d->call, p->def ? p->def : fx_arg_none(g->ctx));
        return true;
    }
}

static fx_node *by_schema(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    draw d = {.g = g, .op = op, .call = fx_call_begin(g->g, op->id)};
    for (int i = 0; i < s->n; i++)
        if (!draw_param(&d, &s->params[i]))
            return NULL;
    return fx_call_end(&d.call, NULL);
}

/* ---- rows whose operands must fit -------------------------------------------------------------------------------------------- */

/* Weights of contractions are mostly constants. */
static fx_node *weight(fz_gen *g, fx_dtype dtype, const fz_shape *s)
{
    return fz_one_in(g->rng, 4) ? fz_value(g, dtype, s) : fz_constant(g, dtype, s, (fz_style)fz_below(g->rng, 2));
}

static fx_node *vector(fz_gen *g, fx_dtype dtype, int64_t n)
{
    return fz_one_in(g->rng, 3) ? NULL : weight(g, dtype, &(fz_shape){1, {n}});
}

static void ints(fz_gen *g, fx_call *c, int n, int64_t lo, int64_t hi, int64_t *out)
{
    for (int i = 0; i < n; i++)
        out[i] = fz_in(g->rng, lo, hi);
    fx_call_ints(c, n, out);
}

static int64_t divisor(fz_gen *g, int64_t n)
{
    int64_t d = fz_one_in(g->rng, 2) ? 1 : fz_in(g->rng, 1, n);
    while (n % d)
        d--;
    return d;
}

/* All forms of convolution: parameters by name, weights to fit. */
static fx_node *convolution(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    int spatial = strstr(op->name, "1d") ? 1 : 2;
    bool general = op->id == FX_OP_convolution, transposed = strstr(op->name, "transpose") || (general && fz_one_in(g->rng, 4));
    if (general && fz_one_in(g->rng, 4))
        spatial = 1;
    fx_node *x = fz_any(g, FLOATS, general ? spatial + 2 : spatial + 1, spatial + 2);
    int64_t channels = x->type->dims[x->type->rank - spatial - 1].value, groups, out, v[2];
    if (channels == 0)
        return NULL;
    groups = fz_one_in(g->rng, 6) ? channels : divisor(g, channels);
    out = fz_in(g->rng, 1, 5);
    fz_shape w = {spatial + 2, {transposed ? channels : out * groups, transposed ? out : channels / groups}};
    for (int i = 0; i < spatial; i++)
        w.dims[2 + i] = fz_one_in(g->rng, 8) ? 5 : fz_in(g->rng, 1, 3);
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < s->n; i++) {
        const char *name = s->params[i].name;
        if (i == 0)
            fx_call_node(&c, x);
        else if (!strcmp(name, "weight"))
            fx_call_node(&c, weight(g, x->type->dtype, &w));
        else if (!strcmp(name, "bias"))
            fx_call_node(&c, vector(g, x->type->dtype, out * groups));
        else if (!strcmp(name, "stride"))
            ints(g, &c, spatial, 1, fz_in(g->rng, 1, 3), v);
        else if (!strcmp(name, "dilation"))
            ints(g, &c, spatial, 1, fz_one_in(g->rng, 4) ? 2 : 1, v);
        else if (!strcmp(name, "output_padding"))
            ints(g, &c, spatial, 0, transposed && fz_one_in(g->rng, 4), v);
        else if (s->params[i].kind == FX_PARAM_STR)
            fx_call_arg(&c, fx_arg_text(g->ctx, FX_ARG_STR, fx_intern(g->ctx, fz_one_in(g->rng, 2) ? "same" : "valid")));
        else if (!strcmp(name, "padding"))
            ints(g, &c, spatial, 0, fz_in(g->rng, 0, 2), v);
        else if (!strcmp(name, "transposed"))
            fx_call_bool(&c, transposed);
        else if (!strcmp(name, "groups"))
            fx_call_int(&c, groups);
        else
            return NULL;
    }
    return fx_call_end(&c, NULL);
}

static fx_node *linear(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, FLOATS, 1, 4);
    int64_t k = x->type->dims[x->type->rank - 1].value, n = fz_in(g->rng, 1, 20);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_node(&c, weight(g, x->type->dtype, &(fz_shape){2, {n, k}}));
    fx_call_node(&c, vector(g, x->type->dtype, n));
    return fx_call_end(&c, NULL);
}

/* mm, bmm, addmm, baddbmm, matmul: the tensors by position, ranks by the row. */
static fx_node *product(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    int lo = op->id == FX_OP_matmul ? 1 : strstr(op->name, "bmm") ? 3 : 2, hi = op->id == FX_OP_matmul ? 4 : lo;
    fx_node *x = fz_any(g, g->dtypes & ~(1u << FX_BOOL), lo, hi);
    fz_shape a = fz_shape_of(x), b = a, out = a;
    int64_t n = fz_in(g->rng, 1, 17);
    b.dims[b.rank - 1] = n;
    if (b.rank == 1)
        b = (fz_shape){2, {a.dims[0], n}};
    else
        b.dims[b.rank - 2] = a.dims[a.rank - 1];
    out.dims[out.rank - 1] = n;
    if (op->id == FX_OP_matmul && fz_one_in(g->rng, 3))
        b = b.rank > 2 ? (fz_shape){2, {a.dims[a.rank - 1], n}} : (fz_shape){1, {a.dims[a.rank - 1]}};
    else if (op->id == FX_OP_matmul && b.rank > 2 && fz_one_in(g->rng, 3))
        b.dims[0] = 1;
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0, tensors = s->params[0].kind == FX_PARAM_TENSOR && s->params[2 < s->n ? 2 : 0].kind == FX_PARAM_TENSOR && s->n > 2 ? -1 : 0;
         i < s->n; i++) {
        if (s->params[i].kind != FX_PARAM_TENSOR)
            fx_call_arg(&c, fz_one_in(g->rng, 3) ? fx_arg_int(g->ctx, fz_in(g->rng, 0, 2)) : s->params[i].def);
        else if (tensors++ < 0)
            fx_call_node(&c, fz_one_in(g->rng, 2) ? fz_value(g, x->type->dtype, &(fz_shape){1, {n}}) : fz_value(g, x->type->dtype, &out));
        else
            fx_call_node(&c, tensors == 1 ? x : weight(g, x->type->dtype, &b));
    }
    return fx_call_end(&c, NULL);
}

static fx_node *pool(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    int spatial = strstr(op->name, "1d") ? 1 : 2;
    fx_node *x = fz_any(g, FLOATS, spatial + 1, spatial + 2);
    int64_t k[2] = {0}, v[2];
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    for (int i = 1; i < s->n; i++) {
        const char *name = s->params[i].name;
        if (!strcmp(name, "kernel_size"))
            ints(g, &c, spatial, 1, 3, k);
        else if (!strcmp(name, "output_size"))
            ints(g, &c, spatial, 1, 6, v);
        else if (!strcmp(name, "stride") && fz_one_in(g->rng, 3))
            fx_call_ints(&c, 0, v);
        else if (!strcmp(name, "stride"))
            ints(g, &c, spatial, 1, 3, v);
        else if (!strcmp(name, "padding"))
            ints(g, &c, spatial, 0, k[0] < 2 || (spatial > 1 && k[1] < 2) ? 0 : 1, v);
        else if (!strcmp(name, "dilation"))
            ints(g, &c, spatial, 1, fz_one_in(g->rng, 4) ? 2 : 1, v);
        else if (!strcmp(name, "divisor_override"))
            fx_call_arg(&c, fz_one_in(g->rng, 3) ? fx_arg_int(g->ctx, fz_in(g->rng, 1, 5)) : fx_arg_none(g->ctx));
        else if (s->params[i].kind == FX_PARAM_BOOL)
            fx_call_bool(&c, fz_one_in(g->rng, 2));
        else
            return NULL;
    }
    return fx_call_end(&c, NULL);
}

static fx_node *upsample(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, FLOATS, 4, 4);
    bool by_size = fz_one_in(g->rng, 2);
    int64_t v[2];
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    for (int i = 1; i < s->n; i++) {
        const char *name = s->params[i].name;
        bool vec = s->params[i].kind == FX_PARAM_FLOATS;
        if (!strcmp(name, "output_size") && (by_size || !s->params[i].optional))
            ints(g, &c, 2, 1, 9, v);
        else if (vec && !by_size) {
            const fx_arg *f[] = {fx_arg_float(g->ctx, (double)fz_in(g->rng, 2, 10) / 4), fx_arg_float(g->ctx, (double)fz_in(g->rng, 2, 10) / 4)};
            fx_call_arg(&c, fx_arg_seq(g->ctx, FX_ARG_LIST, 2, f));
        } else if (s->params[i].kind == FX_PARAM_BOOL)
            fx_call_bool(&c, fz_one_in(g->rng, 2));
        else
            fx_call_arg(&c, fx_arg_none(g->ctx));
    }
    return fx_call_end(&c, NULL);
}

/* Norms: vectors over channels, or over the last dims. */
static fx_node *norm(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    bool layer = strstr(op->name, "layer_norm") || strstr(op->name, "rms_norm"), batch = strstr(op->name, "batch_norm") != NULL;
    fx_node *x = fz_any(g, FLOATS, layer ? 1 : 2, 4);
    fz_shape a = fz_shape_of(x), w = {1, {layer ? 0 : a.dims[1]}};
    fx_dtype dtype = x->type->dtype;
    int64_t rest = 1, groups = layer ? 1 : divisor(g, a.dims[1] ? a.dims[1] : 1);
    for (int i = 2; i < a.rank; i++)
        rest *= a.dims[i];
    if (layer) {
        int first = fz_one_in(g->rng, 3) ? (int)fz_below(g->rng, a.rank) : a.rank - 1;
        w.rank = a.rank - first;
        memcpy(w.dims, a.dims + first, (size_t)w.rank * sizeof *w.dims);
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    for (int i = 1; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        if (p->kind == FX_PARAM_TENSOR && batch && !strcmp(p->name, "running_var")) {
            fx_node *v = fz_constant(g, dtype, &w, FZ_PLAIN);
            fx_tensor *t = &fx_attr_find(g->g, v->target)->tensor;
            for (int64_t k = 0; k < fx_tensor_numel(t); k++)
                fx_tensor_set(t, k, fx_tensor_get(t, k) * fx_tensor_get(t, k) + 0.125);
            fx_call_node(&c, v);
        } else if (p->kind == FX_PARAM_TENSOR)
            fx_call_node(&c, !batch && fz_one_in(g->rng, 3) ? NULL : batch ? fz_constant(g, dtype, &w, FZ_REAL) : weight(g, dtype, &w));
        else if (p->kind == FX_PARAM_INTS)
            fx_call_ints(&c, w.rank, w.dims);
        else if (p->kind == FX_PARAM_FLOAT && !strcmp(p->name, "eps") && p->optional && fz_one_in(g->rng, 3))
            fx_call_arg(&c, fx_arg_none(g->ctx));
        else if (p->kind == FX_PARAM_FLOAT)
            fx_call_float(&c, fz_one_in(g->rng, 2) ? 1e-5 : 1e-3);
        else if (p->kind == FX_PARAM_BOOL)
            fx_call_bool(&c, false);
        else if (p->kind == FX_PARAM_INT)
            fx_call_int(&c, !strcmp(p->name, "N") ? a.dims[0] : !strcmp(p->name, "C") ? a.dims[1] : !strcmp(p->name, "HxW") ? rest : groups);
        else
            return NULL;
    }
    return fx_call_end(&c, NULL);
}

static fx_node *join(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, 0, op->id == FX_OP_stack ? 0 : 1, 5), *parts[4];
    fz_shape s = fz_shape_of(x);
    int n = (int)fz_in(g->rng, 1, 4), dim = s.rank ? (int)fz_below(g->rng, s.rank) : 0;
    for (int i = 0; i < n; i++) {
        fz_shape t = s;
        if (op->id != FX_OP_stack && fz_one_in(g->rng, 2))
            t.dims[dim] = fz_in(g->rng, 0, 4);
        parts[i] = i == 0 ? x : fz_value(g, x->type->dtype, &t);
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_nodes(&c, n, parts);
    fx_call_int(&c, fz_one_in(g->rng, 3) ? dim - s.rank - (op->id == FX_OP_stack) : dim);
    return fx_call_end(&c, NULL);
}

static fx_node *padding(fz_gen *g, const fx_op *op)
{
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    fx_node *x = fz_any(g, 0, 1, 4);
    int64_t v[8];
    bool general = op->id == FX_OP_pad;
    const char *mode = general ? modes[fz_below(g->rng, 4)] : modes[0];
    bool constant = !strcmp(mode, "constant");
    int n = constant ? (int)fz_in(g->rng, 1, x->type->rank) : x->type->rank > 2 ? x->type->rank - 2 : 1;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    ints(g, &c, 2 * n, constant && fz_one_in(g->rng, 3) ? -1 : 0, 2, v);
    if (general)
        fx_call_arg(&c, fx_arg_text(g->ctx, FX_ARG_STR, fx_intern(g->ctx, mode)));
    if (!constant || (general && fz_one_in(g->rng, 2)))
        fx_call_arg(&c, fx_arg_none(g->ctx));
    else if (general)
        fx_call_float(&c, (double)fz_in(g->rng, -4, 4) / 4);
    else
        fx_call_arg(&c, draw_scalar(g, !fx_dtype_is_float(x->type->dtype)));
    return fx_call_end(&c, NULL);
}

static fx_node *create(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fz_shape shape = fz_draw_shape(g, -1);
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        if (p->kind == FX_PARAM_TENSOR)
            fx_call_node(&c, fz_any(g, 0, 0, 6));
        else if (p->kind == FX_PARAM_INTS)
            fx_call_ints(&c, shape.rank, shape.dims);
        else if (p->kind == FX_PARAM_DTYPE)
            fx_call_arg(&c, fz_one_in(g->rng, 3) ? fx_arg_none(g->ctx) : fx_arg_dtype(g->ctx, fz_draw_dtype(g)));
        else if (p->kind == FX_PARAM_INT)
            fx_call_int(&c, fz_in(g->rng, 0, 7));
        else if (!strcmp(p->name, "end"))
            fx_call_int(&c, fz_in(g->rng, 4, 17));
        else if (!strcmp(p->name, "step"))
            fx_call_arg(&c, fz_one_in(g->rng, 3) ? fx_arg_float(g->ctx, 0.75) : fx_arg_int(g->ctx, fz_in(g->rng, 1, 3)));
        else if (p->kind == FX_PARAM_SCALAR)
            fx_call_arg(&c, draw_scalar(g, fz_one_in(g->rng, 2)));
        else
            fx_call_arg(&c, p->def ? p->def : fx_arg_none(g->ctx));
    }
    return fx_call_end(&c, NULL);
}

/* Sizes with the same number of elements. */
static int factor(fz_gen *g, int64_t numel, int64_t *out)
{
    int n = (int)fz_in(g->rng, numel == 1 ? 0 : 1, 5);
    for (int i = 0; i < n; i++) {
        int64_t d = i + 1 == n ? numel : numel == 0 ? fz_in(g->rng, 0, 3) : divisor(g, numel < 30 ? numel : 30);
        while (numel && numel % d)
            d--;
        out[i] = d;
        numel = d ? numel / d : numel;
    }
    return n;
}

static fx_node *reshape(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, 0, 0, 6);
    fz_shape s = fz_shape_of(x);
    int64_t v[FX_MAX_RANK];
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    int dim = s.rank ? (int)fz_below(g->rng, s.rank) : 0, n = factor(g, op->id == FX_OP_unflatten_int && s.rank ? s.dims[dim] : fz_numel(&s), v);
    if (op->id == FX_OP_unflatten_int)
        fx_call_int(&c, dim);
    if (op->id == FX_OP_view_as) {
        fz_shape t = {.rank = n};
        memcpy(t.dims, v, sizeof t.dims);
        fx_call_node(&c, fz_value(g, FX_DTYPE_COUNT, &t));
        return fx_call_end(&c, NULL);
    }
    if (n && fz_numel(&s) && fz_one_in(g->rng, 4))
        v[fz_below(g->rng, n)] = -1;
    fx_call_ints(&c, n, v);
    return fx_call_end(&c, NULL);
}

static fx_node *permute(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, 0, 0, 6);
    int n = x->type->rank;
    int64_t v[FX_MAX_RANK];
    for (int i = 0; i < n; i++) {
        int k = (int)fz_below(g->rng, i + 1);
        v[i] = v[k];
        v[k] = i;
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_ints(&c, n, v);
    return fx_call_end(&c, NULL);
}

static fx_node *expand(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, 0, 0, 4);
    fz_shape s = fz_shape_of(x), t = {.rank = s.rank + (int)fz_below(g->rng, 3)};
    int more = t.rank - s.rank;
    for (int i = 0; i < t.rank; i++)
        t.dims[i] = i < more || (s.dims[i - more] == 1 && fz_one_in(g->rng, 2)) ? fz_in(g->rng, 1, 4)
                    : op->id == FX_OP_expand && fz_one_in(g->rng, 4)            ? -1
                                                                                : s.dims[i - more];
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    if (op->id == FX_OP_expand_as)
        fx_call_node(&c, fz_value(g, FX_DTYPE_COUNT, &t));
    else
        fx_call_ints(&c, t.rank, t.dims);
    return fx_call_end(&c, NULL);
}

/* slice, select, split, chunk: positions along a dim. */
static fx_node *part(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, 0, 1, 6);
    int dim = (int)fz_below(g->rng, x->type->rank);
    int64_t n = x->type->dims[dim].value, v[4], left = n;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    for (int i = 1; i < s->n; i++) {
        const char *name = s->params[i].name;
        if (!strcmp(name, "dim"))
            fx_call_int(&c, fz_one_in(g->rng, 3) ? dim - x->type->rank : dim);
        else if (!strcmp(name, "start") || !strcmp(name, "end"))
            fx_call_arg(&c, fz_one_in(g->rng, 4) ? fx_arg_none(g->ctx)
                            : fx_arg_int(g->ctx, name[0] == 's'           ? fz_in(g->rng, -n - 1, n / 2)
                                                     : fz_one_in(g->rng, 6) ? INT64_MAX
                                                                            : fz_in(g->rng, n / 2, n + 1)));
        else if (!strcmp(name, "step"))
            fx_call_int(&c, fz_one_in(g->rng, 2) ? 1 : fz_in(g->rng, 1, 3));
        else if (!strcmp(name, "index"))
            fx_call_int(&c, n ? fz_in(g->rng, -n, n - 1) : 0);
        else if (!strcmp(name, "split_sizes")) {
            int k = 0;
            for (; k < 3 && left; k++)
                left -= v[k] = fz_in(g->rng, 0, left);
            v[k++] = left;
            fx_call_ints(&c, k, v);
        } else
            fx_call_int(&c, fz_in(g->rng, 1, n < 6 ? 6 : n)); /* chunks, split_size, size */
    }
    return fx_call_end(&c, NULL);
}

static fx_node *shuffle(fz_gen *g, const fx_op *op)
{
    fz_shape s = fz_draw_shape(g, 4);
    int64_t k = fz_in(g->rng, 1, 2);
    s.dims[1] = k * k * fz_in(g->rng, 1, 3);
    s.dims[2] = s.dims[2] > 4 ? 3 : s.dims[2];
    s.dims[3] = s.dims[3] > 4 ? 2 : s.dims[3];
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, fz_value(g, FX_DTYPE_COUNT, &s));
    fx_call_int(&c, k);
    return fx_call_end(&c, NULL);
}

static fx_node *strided(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, 0, 0, 4);
    fz_shape s = fz_shape_of(x);
    int64_t v[FX_MAX_RANK], strides[FX_MAX_RANK], stride = 1;
    int n = factor(g, fz_numel(&s), v);
    for (int i = n - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= v[i];
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_ints(&c, n, v);
    fx_call_ints(&c, n, strides);
    return fx_call_end(&c, NULL);
}

/* Indices that differ along dim (all of them when dim < 0): a run of numbers from a drawn one on, around the end. */
static void distinct(fz_gen *g, const fx_node *index, int dim, int64_t n)
{
    fx_tensor *t = index->opcode == FX_GET_ATTR ? &fx_attr_find(g->g, index->target)->tensor : NULL;
    size_t i = 0;
    for (const fx_node *x = g->g->first; x && !t; x = x->next)
        if (x->opcode == FX_PLACEHOLDER) {
            if (x == index)
                t = &g->c->in[i];
            i++;
        }
    int64_t start = n ? fz_below(g->rng, n) : 0, step = 1;
    for (int d = t->rank - 1; d > dim; d--)
        step *= dim < 0 ? 1 : t->sizes[d];
    for (int64_t k = 0; k < fx_tensor_numel(t); k++)
        fx_tensor_set_int(t, k, (start + (dim < 0 ? k : k / step % t->sizes[dim])) % n);
}

/* Rows that take indices: of the shape the row asks for, all within. */
static fx_node *gather(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    bool embedding = op->id == FX_OP_embedding;
    fx_node *x = fz_any(g, 0, embedding ? 2 : 1, embedding ? 2 : 4);
    fz_shape a = fz_shape_of(x), shape = {1, {fz_in(g->rng, 0, 6)}};
    int dim = embedding ? 0 : (int)fz_below(g->rng, a.rank);
    bool like = !strncmp(op->name, "aten.gather", 11) || !strncmp(op->name, "aten.scatter", 12), flat = false;
    if (op->id == FX_OP_take_along_dim) { /* sizes but that of dim broadcast; without dim both are flat */
        flat = fz_one_in(g->rng, 4);
        shape = a;
        for (int i = 0; i < a.rank; i++)
            shape.dims[i] = i == dim ? fz_in(g->rng, 0, 4) : fz_one_in(g->rng, 4) ? 1 : a.dims[i];
    } else if (like) {
        shape = a;
        for (int i = 0; i < a.rank; i++)
            shape.dims[i] = i == dim ? fz_in(g->rng, 0, 4) : fz_in(g->rng, a.dims[i] ? 1 : 0, a.dims[i]);
    } else if (embedding && fz_one_in(g->rng, 2)) {
        shape = (fz_shape){2, {fz_in(g->rng, 1, 3), fz_in(g->rng, 1, 4)}};
    }
    if (!strncmp(op->name, "aten.scatter.", 13) && shape.dims[dim] > a.dims[dim])
        shape.dims[dim] = a.dims[dim];
    fx_node *index = fz_indices(g, &shape, 0, flat ? fz_numel(&a) : a.dims[dim]);
    if (!index || (op->id == FX_OP_take_along_dim && index->type->dtype != FX_I64))
        return NULL;
    if (!strncmp(op->name, "aten.scatter.", 13)) /* which of two values written to one place stays is not defined */
        distinct(g, index, dim, a.dims[dim]);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    for (int i = 1; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        if (!strcmp(p->name, "dim") && flat)
            fx_call_arg(&c, fx_arg_none(g->ctx));
        else if (!strcmp(p->name, "dim"))
            fx_call_int(&c, dim);
        else if (!strcmp(p->name, "index") || !strcmp(p->name, "indices"))
            fx_call_node(&c, index);
        else if (p->kind == FX_PARAM_TENSOR)
            fx_call_node(&c, fz_value(g, x->type->dtype, &shape));
        else if (p->kind == FX_PARAM_SCALAR)
            fx_call_arg(&c, draw_scalar(g, !fx_dtype_is_float(x->type->dtype)));
        else if (p->def)
            fx_call_arg(&c, p->def);
        else
            return NULL;
    }
    return fx_call_end(&c, NULL);
}

/* index, index_put: index tensors for some of the first dims; now and then a mask. */
static fx_node *indexing(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, 0, 1, 4), *list[4] = {NULL};
    fz_shape a = fz_shape_of(x), shape = fz_draw_shape(g, (int)fz_in(g->rng, 0, 2)), out = {0};
    int n = (int)fz_in(g->rng, 1, a.rank), given = 0, first = -1, last = -1;
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = shape.dims[i] > 4 ? 3 : shape.dims[i];
    for (int i = 0; i < n; i++) {
        if (i + 1 < n && fz_one_in(g->rng, 3))
            continue;
        list[i] = fz_indices(g, &shape, 0, a.dims[i]);
        if (!list[i])
            return NULL;
        first = first < 0 ? i : first;
        last = i;
        given++;
    }
    if (strstr(op->name, "index_put") && fz_numel(&shape) > a.dims[last])
        return NULL;
    if (strstr(op->name, "index_put"))
        distinct(g, list[last], -1, a.dims[last]);
    /* where the indices' dims go: to the front when indices are apart, else to their place */
    bool apart = last - first + 1 != given;
    for (int i = 0; i <= a.rank; i++) {
        if (i == (apart ? 0 : first))
            for (int k = 0; k < shape.rank; k++)
                out.dims[out.rank++] = shape.dims[k];
        if (i < a.rank && !(i < n && list[i]))
            out.dims[out.rank++] = a.dims[i];
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_nodes(&c, n, list);
    if (strstr(op->name, "index_put")) {
        fx_call_node(&c, fz_one_in(g->rng, 2) ? fz_value(g, x->type->dtype, &out) : fz_value(g, x->type->dtype, &(fz_shape){0}));
        fx_call_bool(&c, fz_one_in(g->rng, 2));
    }
    return fx_call_end(&c, NULL);
}

static fx_node *attention(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    bool flash = strstr(op->name, "flash") != NULL, gqa = !flash && fz_one_in(g->rng, 5), causal = fz_one_in(g->rng, 3);
    int64_t b = fz_in(g->rng, 1, 2), h = gqa ? 2 : fz_in(g->rng, 1, 2), l = fz_in(g->rng, 1, 7), k = fz_in(g->rng, 1, 7), e = fz_in(g->rng, 1, 9);
    fz_shape q = {4, {b, h, l, e}}, kv = {4, {b, gqa ? 1 : h, k, e}}, v = kv, mask = {fz_one_in(g->rng, 2) ? 2 : 4, {b, h, l, k}};
    fx_dtype d = fz_one_in(g->rng, 4) ? fz_draw_dtype(g) : FX_F32;
    if (!flash)
        v.dims[3] = fz_in(g->rng, 1, 9);
    if (mask.rank == 2)
        mask = (fz_shape){2, {l, k}};
    else if (fz_one_in(g->rng, 2))
        mask.dims[1] = 1;
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < s->n; i++) {
        const char *name = s->params[i].name;
        if (i < 3)
            fx_call_node(&c, fz_value(g, d, i == 0 ? &q : i == 1 ? &kv : &v));
        else if (!strcmp(name, "attn_mask"))
            fx_call_node(&c, causal || fz_one_in(g->rng, 2) ? NULL : fz_value(g, !flash && fz_one_in(g->rng, 2) ? FX_BOOL : d, &mask));
        else if (!strcmp(name, "is_causal"))
            fx_call_bool(&c, causal);
        else if (!strcmp(name, "enable_gqa"))
            fx_call_bool(&c, gqa);
        else if (!strcmp(name, "scale") && fz_one_in(g->rng, 3))
            fx_call_float(&c, 0.3);
        else
            fx_call_arg(&c, s->params[i].def);
    }
    return fx_call_end(&c, NULL);
}

/* Shifts by less than the width; quantised values. */
static fx_node *shift(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, INTS, 0, 4);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    if (strstr(op->name, "Scalar")) {
        fx_call_int(&c, fz_in(g->rng, 0, 7));
    } else {
        fz_shape s = fz_shape_of(x);
        fx_node *by = fz_indices(g, &s, 0, 8);
        fx_call_node(&c, by);
    }
    return fx_call_end(&c, NULL);
}

static fx_node *quantised(fz_gen *g, const fx_op *op)
{
    static const fx_dtype types[] = {FX_I8, FX_U8, FX_I16, FX_I32};
    bool to = op->id == FX_OP_quantize_per_tensor;
    fx_dtype d = types[fz_below(g->rng, 4)];
    if (!(g->dtypes >> d & 1))
        return NULL;
    fx_node *x = to ? fz_any(g, 1 << FX_F32, 0, 4) : fz_any(g, 1u << d, 0, 4);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_float(&c, (double)fz_in(g->rng, 1, 9) / 16);
    fx_call_int(&c, fz_in(g->rng, 0, 5));
    fx_call_int(&c, d == FX_U8 ? 0 : -100);
    fx_call_int(&c, 120);
    fx_call_arg(&c, fx_arg_dtype(g->ctx, to ? d : x->type->dtype));
    return fx_call_end(&c, NULL);
}

/* select_scatter, slice_scatter: a value of the shape that the part has. */
static fx_node *overwrite(fz_gen *g, const fx_op *op)
{
    bool slice = op->id == FX_OP_slice_scatter;
    fx_node *x = fz_any(g, 0, 1, 4);
    fz_shape s = fz_shape_of(x), part = s;
    int dim = (int)fz_below(g->rng, s.rank);
    int64_t n = s.dims[dim], start = n ? fz_below(g->rng, n) : 0, step = fz_in(g->rng, 1, 2), end = fz_in(g->rng, start, n);
    if (!n && !slice)
        return NULL;
    part.dims[dim] = (end - start + step - 1) / step;
    if (!slice) {
        memmove(part.dims + dim, part.dims + dim + 1, (size_t)(s.rank - dim - 1) * sizeof *part.dims);
        part.rank--;
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_node(&c, fz_value(g, x->type->dtype, &part));
    fx_call_int(&c, dim);
    fx_call_int(&c, start);
    if (slice) {
        fx_call_int(&c, end);
        fx_call_int(&c, step);
    }
    return fx_call_end(&c, NULL);
}

/* index_copy, index_add, index_fill: places along a dim; those of a copy differ. */
static fx_node *along(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, 0, 1, 4);
    fz_shape s = fz_shape_of(x), source = s, at = {1, {0}};
    int dim = (int)fz_below(g->rng, s.rank);
    at.dims[0] = source.dims[dim] = op->id == FX_OP_index_copy ? (s.dims[dim] ? 1 : 0) : s.dims[dim] ? fz_in(g->rng, 1, 4) : 0;
    fx_node *index = fz_indices(g, &at, 0, s.dims[dim]);
    if (!index)
        return NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_int(&c, dim);
    fx_call_node(&c, index);
    if (op->id == FX_OP_index_fill_int_Scalar)
        fx_call_arg(&c, draw_scalar(g, !fx_dtype_is_float(x->type->dtype)));
    else
        fx_call_node(&c, fz_value(g, x->type->dtype, &source));
    if (op->id == FX_OP_index_add && fz_one_in(g->rng, 3))
        fx_call_int(&c, 2);
    return fx_call_end(&c, NULL);
}

static fx_node *einsum(fz_gen *g, const fx_op *op)
{
    static const char *const equations[] = {"ij,jk->ik", "bij,bjk->bik", "ij->ji", "i,j->ij", "bhid,bhjd->bhij", "bij,kj->bik", "ij,ij->i", "ijk->k", "i,i->"};
    const char *e = equations[fz_below(g->rng, sizeof equations / sizeof equations[0])];
    fx_dtype d = fz_one_in(g->rng, 3) ? fz_draw_dtype(g) : FX_F32;
    if (d == FX_BOOL)
        d = FX_F32;
    int64_t size[26];
    for (int i = 0; i < 26; i++)
        size[i] = fz_in(g->rng, 1, 7);
    fx_node *x[2];
    int n = 0;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_arg(&c, fx_arg_text(g->ctx, FX_ARG_STR, fx_intern(g->ctx, e)));
    for (const char *s = e; *s && *s != '-'; s += *s == ',') {
        fz_shape t = {0};
        for (; *s && *s != ',' && *s != '-'; s++)
            t.dims[t.rank++] = size[*s - 'a'];
        x[n++] = fz_value(g, d, &t);
    }
    fx_call_nodes(&c, n, x);
    return fx_call_end(&c, NULL);
}

/* addmv, addbmm */
static fx_node *added_product(fz_gen *g, const fx_op *op)
{
    fx_dtype d = fz_one_in(g->rng, 3) ? fz_draw_dtype(g) : FX_F32;
    if (d == FX_BOOL)
        d = FX_F32;
    bool vector = op->id == FX_OP_addmv;
    int64_t b = fz_in(g->rng, 1, 3), m = fz_in(g->rng, 1, 6), k = fz_in(g->rng, 1, 6), n = fz_in(g->rng, 1, 6);
    fz_shape self = {2, {m, n}}, one = {3, {b, m, k}}, two = {3, {b, k, n}};
    if (vector) {
        self = (fz_shape){1, {m}};
        one = (fz_shape){2, {m, k}};
        two = (fz_shape){1, {k}};
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, fz_value(g, d, &self));
    fx_call_node(&c, fz_value(g, d, &one));
    fx_call_node(&c, fz_value(g, d, &two));
    if (fz_one_in(g->rng, 2)) {
        fx_call_int(&c, fz_in(g->rng, 0, 2));
        fx_call_int(&c, fz_in(g->rng, 1, 3));
    }
    return fx_call_end(&c, NULL);
}

/* dot, mv, outer, inner, addr, tensordot: sizes that meet. */
static fx_node *vectors(fz_gen *g, const fx_op *op)
{
    fx_dtype d = fz_draw_dtype(g);
    if (d == FX_BOOL)
        d = FX_F32;
    int64_t n = fz_in(g->rng, 1, 7), k = fz_in(g->rng, 1, 9), m = fz_in(g->rng, 1, 7), at[2] = {1, 0}, to[2] = {0, 1};
    fz_shape a = {1, {k}}, b = {1, {k}}, self = {2, {n, m}};
    bool whole = op->id == FX_OP_tensordot || op->id == FX_OP_inner;
    if (op->id == FX_OP_mv || whole)
        a = (fz_shape){2, {n, k}};
    if (whole)
        b = op->id == FX_OP_inner ? (fz_shape){2, {m, k}} : (fz_shape){3, {k, n, m}};
    if (op->id == FX_OP_outer || op->id == FX_OP_addr) {
        a.dims[0] = n;
        b.dims[0] = m;
    }
    fx_call c = fx_call_begin(g->g, op->id);
    if (op->id == FX_OP_addr)
        fx_call_node(&c, fz_value(g, d, &self));
    fx_call_node(&c, fz_value(g, d, &a));
    fx_call_node(&c, fz_value(g, d, &b));
    if (op->id == FX_OP_addr) {
        fx_call_int(&c, fz_in(g->rng, 0, 2));
        fx_call_int(&c, fz_in(g->rng, 1, 3));
    } else if (op->id == FX_OP_tensordot) {
        int count = (int)fz_in(g->rng, 1, 2);
        fx_call_ints(&c, count, at);
        fx_call_ints(&c, count, to);
    }
    return fx_call_end(&c, NULL);
}

/* glu, pixel_unshuffle: sizes that can be divided. */
static fx_node *divisible(fz_gen *g, const fx_op *op)
{
    bool glu = op->id == FX_OP_glu;
    fz_shape s = fz_draw_shape(g, glu ? -1 : 4);
    if (!s.rank)
        return NULL;
    int dim = (int)fz_below(g->rng, s.rank);
    int64_t by = fz_in(g->rng, 1, 3);
    for (int i = glu ? dim : 2; i < (glu ? dim + 1 : 4); i++)
        s.dims[i] = glu ? 2 * ((s.dims[i] + 1) / 2) : by * fz_in(g->rng, 1, 3);
    fx_dtype d = fz_draw_dtype(g);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, fz_value(g, glu && !fx_dtype_is_float(d) ? FX_F32 : d, &s));
    fx_call_int(&c, glu ? dim : by);
    return fx_call_end(&c, NULL);
}

static fx_node *instance_norm(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, FLOATS, 3, 4);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    for (int k = 0; k < 2; k++)
        fx_call_node(&c, vector(g, x->type->dtype, x->type->dims[1].value));
    for (int k = 0; k < 2; k++)
        fx_call_node(&c, NULL);
    fx_call_bool(&c, true);
    fx_call_float(&c, 0.1);
    fx_call_float(&c, fz_one_in(g->rng, 2) ? 1e-5 : 1e-3);
    fx_call_bool(&c, false);
    return fx_call_end(&c, NULL);
}

static fx_node *meshgrid(fz_gen *g, const fx_op *op)
{
    fx_node *x[3];
    int n = (int)fz_in(g->rng, 1, 3);
    fx_dtype d = fz_draw_dtype(g);
    for (int i = 0; i < n; i++)
        x[i] = fz_value(g, d, &(fz_shape){1, {fz_in(g->rng, 1, 4)}});
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_nodes(&c, n, x);
    if (op->id == FX_OP_meshgrid_indexing)
        fx_call_arg(&c, fx_arg_text(g->ctx, FX_ARG_STR, fx_intern(g->ctx, fz_one_in(g->rng, 2) ? "ij" : "xy")));
    return fx_call_end(&c, NULL);
}

static fx_node *one_hot(fz_gen *g, const fx_op *op)
{
    fz_shape s = fz_draw_shape(g, (int)fz_in(g->rng, 0, 2));
    int64_t classes = fz_in(g->rng, 1, 6);
    fx_node *index = fz_indices(g, &s, 0, classes);
    if (!index || index->type->dtype != FX_I64)
        return NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, index);
    fx_call_int(&c, classes);
    return fx_call_end(&c, NULL);
}

/* repeat, tile, roll, movedim: lists as long as there are dims. */
static fx_node *rearrange(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, 0, 1, 4);
    int rank = x->type->rank, n = op->id == FX_OP_repeat ? rank + (int)fz_below(g->rng, 2) : (int)fz_in(g->rng, 1, rank);
    int64_t v[FX_MAX_RANK], from[FX_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int k = (int)fz_below(g->rng, i + 1);
        from[i] = from[k];
        from[k] = i;
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    for (int i = 1; i < s->n; i++) {
        if (!strcmp(s->params[i].name, "repeats") || op->id == FX_OP_tile) {
            ints(g, &c, n, 1, 3, v);
        } else if (!strcmp(s->params[i].name, "shifts")) {
            ints(g, &c, n, -4, 4, v);
        } else if (!strcmp(s->params[i].name, "destination")) {
            for (int k = 0; k < n; k++)
                v[k] = from[n - 1 - k];
            fx_call_ints(&c, n, v);
        } else {
            fx_call_ints(&c, n, from);
        }
    }
    return fx_call_end(&c, NULL);
}

/* searchsorted, bucketize: among sorted values. */
static fx_node *search_sorted(fz_gen *g, const fx_op *op)
{
    fx_dtype d = fz_one_in(g->rng, 2) ? FX_F32 : FX_I64;
    if (!(g->dtypes >> d & 1))
        return NULL;
    fz_shape s = {1, {fz_in(g->rng, 0, 9)}}, v = fz_draw_shape(g, (int)fz_in(g->rng, 0, 3));
    fx_node *sorted = fz_constant(g, d, &s, FZ_PLAIN), *x = fz_value(g, d, &v);
    fx_tensor *t = &fx_attr_find(g->g, sorted->target)->tensor;
    for (int64_t i = 1; i < fx_tensor_numel(t); i++)
        for (int64_t k = i; k > 0 && fx_tensor_get(t, k - 1) > fx_tensor_get(t, k); k--) {
            double a = fx_tensor_get(t, k);
            fx_tensor_set(t, k, fx_tensor_get(t, k - 1));
            fx_tensor_set(t, k - 1, a);
        }
    bool bucketize = strstr(op->name, "bucketize") != NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, bucketize ? x : sorted);
    fx_call_node(&c, bucketize ? sorted : x);
    fx_call_bool(&c, fz_one_in(g->rng, 2));
    fx_call_bool(&c, fz_one_in(g->rng, 2));
    return fx_call_end(&c, NULL);
}

static fx_node *prelu(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, FLOATS, 1, 4);
    fz_shape w = {1, {x->type->rank > 1 && fz_one_in(g->rng, 2) ? x->type->dims[1].value : 1}};
    if (op->id != FX_OP_prelu) { /* already broadcast */
        w.rank = x->type->rank;
        for (int i = 1; i < w.rank; i++)
            w.dims[i] = i == 1 && fz_one_in(g->rng, 2) ? x->type->dims[1].value : 1;
        w.dims[0] = 1;
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_node(&c, weight(g, x->type->dtype, &w));
    return fx_call_end(&c, NULL);
}

static fx_node *where(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, 0, 0, 5);
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < s->n; i++) {
        if (s->params[i].kind == FX_PARAM_SCALAR)
            fx_call_arg(&c, draw_scalar(g, !fx_dtype_is_float(x->type->dtype)));
        else
            fx_call_node(&c, i == 0 ? fz_broadcast(g, x, FX_BOOL) : fz_one_in(g->rng, 2) ? x : fz_broadcast(g, x, x->type->dtype));
    }
    return fx_call_end(&c, NULL);
}

static const struct {
    fx_opid id;
    fx_node *(*draw)(fz_gen *g, const fx_op *op);
} makers[] = {
    {FX_OP_convolution, convolution}, {FX_OP_conv1d, convolution}, {FX_OP_conv2d, convolution}, {FX_OP_conv1d_padding, convolution},
    {FX_OP_conv2d_padding, convolution}, {FX_OP_conv_transpose1d, convolution}, {FX_OP_conv_transpose2d_input, convolution},
    {FX_OP_linear, linear}, {FX_OP_mm, product}, {FX_OP_bmm, product}, {FX_OP_addmm, product}, {FX_OP_matmul, product},
    {FX_OP_max_pool2d, pool}, {FX_OP_max_pool2d_with_indices, pool}, {FX_OP_max_pool1d, pool}, {FX_OP_avg_pool2d, pool}, {FX_OP_avg_pool1d, pool},
    {FX_OP_adaptive_avg_pool2d, pool}, {FX_OP__adaptive_avg_pool2d, pool}, {FX_OP_adaptive_avg_pool1d, pool}, {FX_OP_adaptive_max_pool2d, pool},
    {FX_OP_upsample_nearest2d, upsample}, {FX_OP_upsample_nearest2d_vec, upsample}, {FX_OP_upsample_bilinear2d, upsample},
    {FX_OP_upsample_bilinear2d_vec, upsample}, {FX_OP__native_batch_norm_legit_no_training, norm}, {FX_OP_batch_norm, norm},
    {FX_OP_native_layer_norm, norm}, {FX_OP_layer_norm, norm}, {FX_OP_native_group_norm, norm}, {FX_OP_group_norm, norm},
    {FX_OP_cat, join}, {FX_OP_stack, join}, {FX_OP_constant_pad_nd, padding}, {FX_OP_pad, padding},
    {FX_OP_full, create}, {FX_OP_full_like, create}, {FX_OP_zeros, create}, {FX_OP_ones, create}, {FX_OP_zeros_like, create},
    {FX_OP_ones_like, create}, {FX_OP_arange_start_step, create}, {FX_OP_arange, create}, {FX_OP_arange_start, create}, {FX_OP_scalar_tensor, create},
    {FX_OP_view, reshape}, {FX_OP_reshape, reshape}, {FX_OP__unsafe_view, reshape}, {FX_OP_unflatten_int, reshape}, {FX_OP_view_as, reshape},
    {FX_OP_permute, permute}, {FX_OP_expand, expand}, {FX_OP_expand_as, expand}, {FX_OP_slice_Tensor, part}, {FX_OP_select_int, part},
    {FX_OP_chunk, part}, {FX_OP_split_Tensor, part}, {FX_OP_split_with_sizes, part}, {FX_OP_channel_shuffle, shuffle}, {FX_OP_pixel_shuffle, shuffle},
    {FX_OP_as_strided, strided}, {FX_OP_embedding, gather}, {FX_OP_index_select, gather}, {FX_OP_prelu, prelu}, {FX_OP__prelu_kernel, prelu},
    {FX_OP__fused_rms_norm, norm}, {FX_OP_rms_norm, norm}, {FX_OP_scaled_dot_product_attention, attention},
    {FX_OP__scaled_dot_product_flash_attention_for_cpu, attention}, {FX_OP_gather, gather}, {FX_OP_scatter_src, gather}, {FX_OP_scatter_value, gather},
    {FX_OP_scatter_add, gather}, {FX_OP_index_Tensor, indexing}, {FX_OP__unsafe_index_Tensor, indexing}, {FX_OP_index_put, indexing}, {FX_OP__unsafe_index_put, indexing},
    {FX_OP_bitwise_left_shift_Tensor, shift}, {FX_OP_bitwise_right_shift_Tensor, shift}, {FX_OP_bitwise_left_shift_Tensor_Scalar, shift},
    {FX_OP_bitwise_right_shift_Tensor_Scalar, shift}, {FX_OP_quantize_per_tensor, quantised}, {FX_OP_dequantize_per_tensor, quantised},
    {FX_OP_select_scatter, overwrite}, {FX_OP_slice_scatter, overwrite}, {FX_OP_index_copy, along}, {FX_OP_index_add, along}, {FX_OP_index_fill_int_Scalar, along}, {FX_OP_take_along_dim, gather}, {FX_OP_einsum, einsum},
    {FX_OP_dot, vectors}, {FX_OP_mv, vectors}, {FX_OP_outer, vectors}, {FX_OP_inner, vectors}, {FX_OP_addr, vectors}, {FX_OP_tensordot, vectors},
    {FX_OP_glu, divisible}, {FX_OP_pixel_unshuffle, divisible}, {FX_OP_instance_norm, instance_norm}, {FX_OP_addmv, added_product}, {FX_OP_addbmm, added_product}, {FX_OP_baddbmm, product}, {FX_OP_meshgrid, meshgrid},
    {FX_OP_meshgrid_indexing, meshgrid}, {FX_OP_one_hot, one_hot}, {FX_OP_repeat, rearrange}, {FX_OP_tile, rearrange}, {FX_OP_roll, rearrange},
    {FX_OP_movedim_intlist, rearrange}, {FX_OP_new_zeros, create}, {FX_OP_new_ones, create}, {FX_OP_new_full, create}, {FX_OP_eye, create},
    {FX_OP_eye_m, create}, {FX_OP_linspace, create},
    {FX_OP_searchsorted_Tensor, search_sorted}, {FX_OP_bucketize_Tensor, search_sorted},
    {FX_OP_where_self, where}, {FX_OP_where_ScalarOther, where}, {FX_OP_where_ScalarSelf, where}, {FX_OP_where_Scalar, where},
};

fx_node *fz_row(fz_gen *g, const fx_op *op)
{
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (makers[i].id == op->id)
            return makers[i].draw(g, op);
    fz_maker *gradient = fz_grad_maker(op->id) ? fz_grad_maker(op->id) : fz_loss_maker(op->id);
    return gradient ? gradient(g, op) : by_schema(g, op);
}
