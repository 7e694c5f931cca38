/* ir/infer.c: shape and dtype inference: nodes, arguments, dimension arithmetic. The rules of the rows are in infer_*.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>

#include "ir/ops.h"

/* ---- messages --------------------------------------------------------------------------------------------------- */

const char *fx_infer_text(const fx_infer *c, const fx_type *t)
{
    fx_text text;
    fx_text_init(&text, fx_context_arena(c->ctx));
    if (!t)
        return "an unknown type";
    fx_type_print(&text, t);
    return text.data ? text.data : "";
}

static fx_status fail(const fx_infer *c, fx_status status, const char *fmt, va_list ap)
{
    char *message = fx_arena_vprintf(fx_context_arena(c->ctx), fmt, ap);
    return fx_fail(c->ctx, status, &c->node->loc, "%s: %s", c->node->target, message);
}

fx_status fx_infer_fail(const fx_infer *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fx_status status = fail(c, FX_ERR_TYPE, fmt, ap);
    va_end(ap);
    return status;
}

fx_status fx_infer_refuse(const fx_infer *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fx_status status = fail(c, FX_ERR_UNSUPPORTED, fmt, ap);
    va_end(ap);
    return status;
}

static const char *param_name(const fx_infer *c, int param)
{
    const fx_schema *s = fx_op_schema(c->ctx, c->node->op);
    return param < s->n ? s->params[param].name : "?";
}

/* ---- dimensions --------------------------------------------------------------------------------------------------- */

bool fx_dim_same(fx_dim a, fx_dim b)
{
    return a.sym == b.sym && a.value == b.value;
}

bool fx_dim_differ(fx_dim a, fx_dim b)
{
    return !a.sym && !b.sym && a.value != b.value;
}

/* ---- arguments ---------------------------------------------------------------------------------------------------- */

const fx_type *fx_infer_operand(const fx_infer *c, int operand)
{
    const fx_infer_run *run = (const fx_infer_run *)c;
    if (operand < 0 || operand >= c->node->n_operands)
        return NULL;
    return run->types ? run->types[operand] : c->node->operands[operand].def->type;
}

static const fx_type *tensor_type(const fx_infer *c, const fx_arg *a)
{
    const fx_type *t = a->kind == FX_ARG_NODE ? fx_infer_operand(c, (int)a->i) : NULL;
    return t && t->kind == FX_TYPE_TENSOR ? t : NULL;
}

fx_status fx_infer_tensor(const fx_infer *c, int param, const fx_type **t)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    *t = tensor_type(c, a);
    if (*t)
        return FX_OK;
    fx_text seen;
    fx_text_init(&seen, fx_context_arena(c->ctx));
    if (a->kind == FX_ARG_NODE && fx_infer_operand(c, (int)a->i))
        fx_type_print(&seen, fx_infer_operand(c, (int)a->i));
    else
        fx_arg_print(&seen, a, c->node);
    return fx_infer_fail(c, "argument '%s': expected a tensor, got %s", param_name(c, param), seen.data ? seen.data : "nothing");
}

fx_status fx_infer_optional(const fx_infer *c, int param, const fx_type **t)
{
    *t = NULL;
    return fx_node_is_none(c->node, param) ? FX_OK : fx_infer_tensor(c, param, t);
}

fx_status fx_infer_tensors(const fx_infer *c, int param, const fx_type **t, int max, int *n)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    if (a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE)
        return fx_infer_fail(c, "argument '%s': expected a list of tensors", param_name(c, param));
    if (a->n > max)
        return fx_infer_refuse(c, "argument '%s': expected at most %d tensors, got %d", param_name(c, param), max, a->n);
    for (int i = 0; i < a->n; i++) {
        t[i] = tensor_type(c, a->items[i]);
        if (!t[i])
            return fx_infer_fail(c, "argument '%s': expected a tensor as item %d", param_name(c, param), i);
    }
    *n = a->n;
    return FX_OK;
}

/* An int, a symbolic int, or a node that yields one. In a run with values of the symbols all are numbers. */
static bool dim_arg(const fx_infer *c, const fx_arg *a, fx_dim *out)
{
    const fx_type *t;
    const fx_binding *bound = ((const fx_infer_run *)c)->bound;
    switch (a->kind) {
    case FX_ARG_INT:
        *out = fx_dim_of(a->i);
        return true;
    case FX_ARG_SYM:
        *out = fx_dim_sym(a->sym);
        if (bound && out->sym) {
            int64_t v;
            if (!fx_dim_eval(bound->symbols, bound->values, *out, &v))
                return false;
            *out = fx_dim_of(v);
        }
        return true;
    case FX_ARG_NODE:
        t = fx_infer_operand(c, (int)a->i);
        if (!t || t->kind != FX_TYPE_INT)
            return false;
        *out = t->value;
        if (!out->sym && c->node->operands[a->i].def->opcode == FX_PLACEHOLDER && t->value.value == 0)
            *out = (fx_dim){.sym = fx_sym_symbol(c->ctx, c->node->operands[a->i].def->name)};
        return true;
    default:
        return false;
    }
}

bool fx_infer_is_size(const fx_infer *c, int param)
{
    fx_dim size;
    return dim_arg(c, fx_node_arg(c->node, param), &size);
}

fx_status fx_infer_dim(const fx_infer *c, int param, fx_dim *out)
{
    if (!dim_arg(c, fx_node_arg(c->node, param), out))
        return fx_infer_fail(c, "argument '%s': expected an integer", param_name(c, param));
    return FX_OK;
}

fx_status fx_infer_dims(const fx_infer *c, int param, fx_dim *out, int max, int *n)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    if (a->kind == FX_ARG_INT || a->kind == FX_ARG_SYM || a->kind == FX_ARG_NODE) {
        *n = 1;
        return fx_infer_dim(c, param, out);
    }
    if (a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE)
        return fx_infer_fail(c, "argument '%s': expected a list of integers", param_name(c, param));
    if (a->n > max)
        return fx_infer_fail(c, "argument '%s': expected at most %d integers, got %d", param_name(c, param), max, a->n);
    for (int i = 0; i < a->n; i++)
        if (!dim_arg(c, a->items[i], &out[i]))
            return fx_infer_fail(c, "argument '%s': expected an integer as item %d", param_name(c, param), i);
    *n = a->n;
    return FX_OK;
}

fx_status fx_infer_ints(const fx_infer *c, int param, int64_t *out, int list_size)
{
    int n = fx_node_ints(c->node, param, out, list_size);
    if (n == 1)
        for (int i = 1; i < list_size; i++)
            out[i] = out[0];
    else if (n != list_size)
        return fx_infer_fail(c, "argument '%s': expected %d integers", param_name(c, param), list_size);
    return FX_OK;
}

fx_status fx_infer_axis(const fx_infer *c, int64_t v, int rank, int *out)
{
    int64_t n = rank ? rank : 1;
    if (v < -n || v >= n)
        return fx_infer_fail(c, "expected a dim from %" PRId64 " to %" PRId64 ", got %" PRId64, -n, n - 1, v);
    *out = (int)(v < 0 ? v + n : v);
    return FX_OK;
}

fx_status fx_infer_axes(const fx_infer *c, int param, int rank, bool all, uint32_t *mask)
{
    int64_t v[FX_MAX_RANK];
    int n = fx_node_is_none(c->node, param) ? 0 : fx_node_ints(c->node, param, v, FX_MAX_RANK);
    if (n < 0 || n > FX_MAX_RANK)
        return fx_infer_fail(c, "argument '%s': expected a list of dims", param_name(c, param));
    *mask = n || !all ? 0 : (1u << rank) - 1;
    for (int i = 0; i < n; i++) {
        int axis;
        FX_TRY(fx_infer_axis(c, v[i], rank, &axis));
        if (*mask & (1u << axis))
            return fx_infer_fail(c, "argument '%s': dim %d appears twice", param_name(c, param), axis);
        *mask |= 1u << axis;
    }
    return FX_OK;
}

fx_dtype fx_infer_dtype(const fx_infer *c, int param, fx_dtype otherwise)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    return a->kind == FX_ARG_DTYPE ? (fx_dtype)a->i : otherwise;
}

/* Sets a tensor result after checking that it can exist: no negative size, at most 2^60 elements. */
/* Arithmetic that leaves 64 bits is kept as text; without a symbol in it, it was of numbers. */
static bool overflowed(fx_infer *c, fx_dim d)
{
    if (!d.sym)
        return false;
    fx_text t;
    fx_text_init(&t, fx_context_arena(c->ctx));
    fx_sym_print(&t, d.sym);
    return t.data[strspn(t.data, "0123456789+-*/%() ")] == 0;
}

fx_status fx_infer_set(fx_infer *c, fx_dtype dtype, int rank, const fx_dim *dims)
{
    if (rank > FX_MAX_RANK)
        return fx_infer_refuse(c, "expected a result of rank at most %d, got %d", FX_MAX_RANK, rank);
    int64_t numel = 1;
    for (int i = 0; i < rank; i++) {
        if (overflowed(c, dims[i]))
            return fx_infer_fail(c, "the result's number of elements overflows");
        if (dims[i].sym || dims[i].value == 0)
            continue;
        if (dims[i].value < 0)
            return fx_infer_fail(c, "expected sizes of at least 0, but the result's dim %d is %" PRId64, i, dims[i].value);
        if (__builtin_mul_overflow(numel, dims[i].value, &numel) || numel > INT64_C(1) << 56)
            return fx_infer_fail(c, "the result's number of elements overflows");
    }
    c->result = fx_type_tensor(c->ctx, dtype, rank, dims, NULL);
    return FX_OK;
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------- */

bool fx_dtype_is_int(fx_dtype d)
{
    return d >= FX_I8 && d <= FX_BOOL;
}

bool fx_dtype_is_complex(fx_dtype d)
{
    return d == FX_C64 || d == FX_C128;
}

/* torch.promote_types: bool < integers < floats < complex; u8 with a signed type widens. */
fx_dtype fx_promote_types(fx_dtype a, fx_dtype b)
{
    if (a == b)
        return a;
    if (fx_dtype_is_complex(a) || fx_dtype_is_complex(b))
        return a == FX_C128 || b == FX_C128 || a == FX_F64 || b == FX_F64 ? FX_C128 : FX_C64;
    bool fa = fx_dtype_is_float(a), fb = fx_dtype_is_float(b);
    if (fa && fb) {
        if (a == FX_F64 || b == FX_F64)
            return FX_F64;
        return FX_F32; /* f16 with bf16, or f32 with either */
    }
    if (fa || fb)
        return fa ? a : b;
    if (a == FX_BOOL || b == FX_BOOL)
        return a == FX_BOOL ? b : a;
    if (a == FX_U8 || b == FX_U8) {
        fx_dtype other = a == FX_U8 ? b : a;
        return other == FX_I8 ? FX_I16 : other;
    }
    return a > b ? a : b; /* I8 < I16 < I32 < I64 in the enumeration */
}

fx_promote fx_promote_begin(void)
{
    return (fx_promote){-1, -1, -1};
}

static void promote_in(int *slot, fx_dtype dtype)
{
    *slot = *slot < 0 ? (int)dtype : (int)fx_promote_types((fx_dtype)*slot, dtype);
}

void fx_promote_tensor(fx_promote *p, fx_dtype dtype, int rank)
{
    promote_in(rank ? &p->dim : &p->zero_dim, dtype);
}

void fx_promote_number(fx_promote *p, fx_arg_kind kind)
{
    promote_in(&p->wrapped, kind == FX_ARG_BOOL      ? FX_BOOL
                            : kind == FX_ARG_FLOAT   ? FX_F32
                            : kind == FX_ARG_COMPLEX ? FX_C64
                                                     : FX_I64);
}

/* ATen's combine_categories: a higher category keeps its width unless the lower one is of a higher kind. */
static int combine(int higher, int lower)
{
    if (higher < 0 || lower < 0)
        return higher < 0 ? lower : higher;
    fx_dtype h = (fx_dtype)higher, l = (fx_dtype)lower;
    if (fx_dtype_is_complex(h))
        return higher;
    if (fx_dtype_is_float(h))
        return fx_dtype_is_complex(l) ? (h == FX_F64 ? FX_C128 : FX_C64) : higher;
    if (h == FX_BOOL || !fx_dtype_is_int(l))
        return fx_promote_types(h, l);
    return higher;
}

fx_dtype fx_promote_end(const fx_promote *p)
{
    int d = combine(p->dim, combine(p->zero_dim, p->wrapped));
    return d < 0 ? FX_F32 : (fx_dtype)d;
}

fx_status fx_infer_promote(const fx_infer *c, int param, fx_promote *p, const fx_type **t)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    const fx_type *type = a->kind == FX_ARG_NODE ? fx_infer_operand(c, (int)a->i) : NULL;
    *t = NULL;
    if (a->kind == FX_ARG_BOOL || a->kind == FX_ARG_INT || a->kind == FX_ARG_FLOAT || a->kind == FX_ARG_COMPLEX)
        fx_promote_number(p, a->kind);
    else if (a->kind == FX_ARG_SYM || (type && type->kind == FX_TYPE_INT))
        fx_promote_number(p, FX_ARG_INT);
    else if (type && type->kind == FX_TYPE_FLOAT)
        fx_promote_number(p, FX_ARG_FLOAT);
    else if (type && type->kind == FX_TYPE_BOOL)
        fx_promote_number(p, FX_ARG_BOOL);
    else {
        FX_TRY(fx_infer_tensor(c, param, t));
        fx_promote_tensor(p, (*t)->dtype, (*t)->rank);
    }
    return FX_OK;
}

/* NumPy's rule. Of two symbolic sizes that may differ the first stands: torch.export has guarded that they agree. */
fx_status fx_infer_broadcast(const fx_infer *c, int *rank, fx_dim *dims, const fx_type *t)
{
    int r = *rank > t->rank ? *rank : t->rank;
    for (int i = r - 1; i >= 0; i--) {
        int ia = i - (r - *rank), ib = i - (r - t->rank);
        fx_dim a = ia >= 0 ? dims[ia] : fx_dim_of(1), b = ib >= 0 ? t->dims[ib] : fx_dim_of(1), d = a;
        if (fx_dim_is(a, 1) || (a.sym && !b.sym && b.value != 1))
            d = b;
        else if (fx_dim_differ(a, b) && b.value != 1)
            return fx_infer_fail(c, "sizes %" PRId64 " and %" PRId64 " of dim %d (of %d) do not broadcast", a.value, b.value, i, r);
        dims[i] = d; /* at or behind the place read, from the back: nothing unread is overwritten */
    }
    *rank = r;
    return FX_OK;
}

/* ---- nodes -------------------------------------------------------------------------------------------------------- */

/* The result of an in-place call is its first argument, whose shape and dtype must be able to take the values. */
static fx_status infer_inplace(fx_infer *c)
{
    const fx_type *self;
    FX_TRY(fx_infer_tensor(c, 0, &self));
    const fx_type *r = c->result;
    if (c->node->op->cls == FX_CLASS_VIEW && c->node->op->id != FX_OP_detach)
        return fx_infer_refuse(c, "changing a tensor's shape in place is not supported");
    if (r && r->kind == FX_TYPE_TENSOR) {
        bool ok = r->rank == self->rank;
        for (int i = 0; ok && i < r->rank; i++)
            ok = !fx_dim_differ(r->dims[i], self->dims[i]);
        if (!ok)
            return fx_infer_fail(c, "expected a result of the shape of %s to store in place, got %s", fx_infer_text(c, self),
                                 fx_infer_text(c, r));
        if ((fx_dtype_is_float(r->dtype) && fx_dtype_is_int(self->dtype)) ||
            (self->dtype == FX_BOOL && r->dtype != FX_BOOL && c->node->op->id != FX_OP_copy))
            return fx_infer_fail(c, "a result of type %s cannot be stored in place in %s", fx_dtype_name(r->dtype),
                                 fx_dtype_name(self->dtype));
    }
    c->result = self;
    return FX_OK;
}

fx_status fx_infer_call(const fx_node *n, const fx_type *const *types, const fx_binding *bound, const fx_type **result)
{
    fx_infer_run run = {.base = {.ctx = n->graph->ctx, .node = n}, .types = types, .bound = bound};
    *result = NULL;
    if (!n->op)
        return FX_OK;
    for (int i = 0; i < n->n_operands; i++)
        if (!fx_infer_operand(&run.base, i))
            return FX_OK;
    FX_TRY(n->op->infer(&run.base));
    if (fx_node_is_inplace(n))
        FX_TRY(infer_inplace(&run.base));
    *result = run.base.result;
    return FX_OK;
}

/* Joins what was inferred with what the file says. Numbers win over expressions, the file's expressions over ours (they are
 * spelled alike in the whole file), and the file's strides are kept. NULL when the two contradict each other. */
static const fx_type *merge(fx_context *ctx, const fx_type *ours, const fx_type *file)
{
    if (ours == file || ours->kind == FX_TYPE_OTHER || file->kind == FX_TYPE_NONE)
        return file;
    if (ours->kind != file->kind)
        return NULL;
    if (ours->kind == FX_TYPE_TENSOR) {
        fx_dim dims[FX_MAX_RANK];
        if (ours->dtype != file->dtype || ours->rank != file->rank)
            return NULL;
        for (int i = 0; i < ours->rank; i++) {
            if (fx_dim_differ(ours->dims[i], file->dims[i]))
                return NULL;
            dims[i] = file->dims[i].sym && !ours->dims[i].sym ? ours->dims[i] : file->dims[i];
        }
        return fx_type_tensor(ctx, ours->dtype, ours->rank, dims, file->strides);
    }
    if (ours->kind == FX_TYPE_TUPLE) {
        if (ours->n != file->n)
            return NULL;
        const fx_type **items = FX_NEW_ARRAY(fx_context_arena(ctx), const fx_type *, ours->n ? ours->n : 1);
        for (int i = 0; i < ours->n; i++) {
            items[i] = ours->items[i] && file->items[i] ? merge(ctx, ours->items[i], file->items[i])
                       : ours->items[i]                 ? ours->items[i]
                                                        : file->items[i];
            if (!items[i] && (ours->items[i] || file->items[i]))
                return NULL;
        }
        return fx_type_tuple(ctx, ours->n, items);
    }
    if (ours->kind == FX_TYPE_INT)
        return file->value.sym ? file : ours;
    return ours;
}

static const fx_type *arg_type(const fx_node *n, const fx_arg *a)
{
    fx_context *ctx = n->graph->ctx;
    switch (a->kind) {
    case FX_ARG_NODE: {
        const fx_type *t = n->operands[a->i].def->type;
        return t ? t : fx_type_scalar(ctx, FX_TYPE_OTHER);
    }
    case FX_ARG_NONE: return fx_type_scalar(ctx, FX_TYPE_NONE);
    case FX_ARG_BOOL: return fx_type_scalar(ctx, FX_TYPE_BOOL);
    case FX_ARG_INT: return fx_type_int(ctx, fx_dim_of(a->i));
    case FX_ARG_SYM: return fx_type_int(ctx, fx_dim_sym(a->sym));
    case FX_ARG_FLOAT: return fx_type_scalar(ctx, FX_TYPE_FLOAT);
    case FX_ARG_STR: return fx_type_scalar(ctx, FX_TYPE_STR);
    case FX_ARG_LIST:
    case FX_ARG_TUPLE: {
        const fx_type **items = FX_NEW_ARRAY(fx_context_arena(ctx), const fx_type *, a->n ? a->n : 1);
        for (int i = 0; i < a->n; i++)
            items[i] = arg_type(n, a->items[i]);
        return fx_type_tuple(ctx, a->n, items);
    }
    default: return fx_type_scalar(ctx, FX_TYPE_OTHER);
    }
}

fx_status fx_node_infer(fx_node *n)
{
    fx_context *ctx = n->graph->ctx;
    const fx_type *t = NULL;
    switch (n->opcode) {
    case FX_GET_ATTR: {
        const fx_attr *a = fx_attr_find(n->graph, n->target);
        t = a ? a->type : NULL;
        break;
    }
    case FX_OUTPUT:
        n->type = n->args->n ? arg_type(n, n->args->items[0]) : fx_type_scalar(ctx, FX_TYPE_NONE);
        return FX_OK;
    case FX_CALL_FUNCTION:
        FX_TRY(fx_infer_call(n, NULL, NULL, &t));
        break;
    default: /* a placeholder's type is given; modules and methods are not known here */
        break;
    }
    if (!t)
        return FX_OK;
    if (n->type) {
        const fx_type *both = merge(ctx, t, n->type);
        if (!both) {
            fx_infer c = {.ctx = ctx, .node = n};
            return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "%s: expected %s by its arguments, but the model says %s", n->target,
                           fx_infer_text(&c, t), fx_infer_text(&c, n->type));
        }
        t = both;
    }
    n->type = t;
    return FX_OK;
}

fx_status fx_graph_infer(fx_graph *g)
{
    FX_FOR_NODES(g, n)
        FX_TRY(fx_node_infer(n));
    return FX_OK;
}

/* ---- rows that are about values rather than numbers --------------------------------------------------------------- */

fx_status infer_getitem(fx_infer *c)
{
    const fx_arg *a = fx_node_arg(c->node, 0);
    const fx_type *t = a->kind == FX_ARG_NODE ? fx_infer_operand(c, (int)a->i) : NULL;
    if (!t || t->kind != FX_TYPE_TUPLE)
        return fx_infer_fail(c, "expected a tuple of results, got %s", fx_infer_text(c, t));
    int64_t i = fx_node_int(c->node, 1), k = i < 0 ? i + t->n : i;
    if (k < 0 || k >= t->n)
        return fx_infer_fail(c, "expected an index below %d, got %" PRId64, t->n, i);
    c->result = t->items[k];
    return FX_OK;
}

fx_status infer_sym(fx_infer *c)
{
    const fx_type *x;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (c->node->op->id == FX_OP_sym_numel) {
        fx_dim n = fx_dim_of(1);
        for (int i = 0; i < x->rank; i++)
            n = fx_dim_mul(c->ctx, n, x->dims[i]);
        c->result = fx_type_int(c->ctx, n);
        return FX_OK;
    }
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    if (!x->rank)
        return fx_infer_fail(c, "expected a tensor with dims, got %s", fx_infer_text(c, x));
    c->result = fx_type_int(c->ctx, x->dims[axis]);
    return FX_OK;
}

/* sym_max, sym_min, sym_sum */
fx_status infer_sym_of_sizes(fx_infer *c)
{
    fx_dim v[64], r = fx_dim_of(0);
    int n;
    if (c->node->op->id == FX_OP_sym_sum) {
        FX_TRY(fx_infer_dims(c, 0, v, 64, &n));
        for (int i = 0; i < n; i++)
            r = fx_dim_add(c->ctx, r, v[i]);
    } else {
        for (int i = 0; i < 2; i++)
            FX_TRY(fx_infer_dim(c, i, &v[i]));
        r = c->node->op->id == FX_OP_sym_max ? fx_dim_max(c->ctx, v[0], v[1])
                                             : fx_dim_scale(c->ctx, fx_dim_max(c->ctx, fx_dim_scale(c->ctx, v[0], -1), fx_dim_scale(c->ctx, v[1], -1)), -1);
        if (c->node->op->id == FX_OP_sym_min && r.sym) { /* spelled as torch does */
            const fx_sym *args[2] = {fx_dim_as_sym(c->ctx, v[0]), fx_dim_as_sym(c->ctx, v[1])};
            r = fx_dim_sym(fx_sym_make(c->ctx, FX_SYM_MIN, 2, args));
        }
    }
    c->result = fx_type_int(c->ctx, r);
    return FX_OK;
}

/* Conditions on sizes: checked when the sizes are known. */
fx_status infer_guard(fx_infer *c)
{
    c->result = fx_type_scalar(c->ctx, FX_TYPE_NONE);
    return FX_OK;
}

/* What export has checked of a tensor; it must hold of ours too. */
fx_status infer_assert(fx_infer *c)
{
    const fx_type *x;
    fx_dim size[FX_MAX_RANK];
    int n = -1;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    fx_dtype dtype = fx_infer_dtype(c, 3, x->dtype);
    if (!fx_node_is_none(c->node, 1))
        FX_TRY(fx_infer_dims(c, 1, size, FX_MAX_RANK, &n));
    bool ok = dtype == x->dtype && (n < 0 || n == x->rank);
    for (int i = 0; ok && i < n; i++)
        ok = !fx_dim_differ(size[i], x->dims[i]);
    if (!ok)
        return fx_infer_fail(c, "expected %s of dtype %s and rank %d", fx_infer_text(c, x), fx_dtype_name(dtype), n < 0 ? x->rank : n);
    c->result = fx_type_scalar(c->ctx, FX_TYPE_NONE);
    return FX_OK;
}
