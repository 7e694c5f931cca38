/* passes/legalize_tensor.c: rules of legalize.def: indexing, parts, attributes and dtypes of tensors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/legalize.h"

static bool is_sequence(const fx_arg *a)
{
    return a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE;
}

/* A dim of a tensor made non-negative; false when it has none such. */
static bool wrap_dim(fx_lg *l, const fx_type *t, const fx_arg *dim, int *out)
{
    int64_t d = dim->kind == FX_ARG_INT ? dim->i : INT64_MAX;
    if (d < 0)
        d += t->rank;
    if (d < 0 || d >= t->rank) {
        fx_lg_refuse(l, "%s: expected a dim of a tensor of rank %d", l->at->target, t->rank);
        return false;
    }
    *out = (int)d;
    return true;
}

/* ---- indexing ------------------------------------------------------------------------------------------------------------ */

typedef struct indexing {
    const fx_arg *x;        /* so far */
    fx_opid op;             /* the call that waits: the last one becomes the node itself */
    int n;
    const fx_arg *args[5];
} indexing;

static const char *index_suffix(fx_opid op)
{
    return op == FX_OP_select_int ? "select" : op == FX_OP_slice_Tensor ? "slice" : "unsqueeze";
}

/* Makes the call that waits, so that the next can wait. */
static void flush(fx_lg *l, indexing *ix)
{
    if (ix->op != FX_OP_NONE)
        ix->x = fx_lg_emit(l, index_suffix(ix->op), ix->op, ix->n, ix->args);
    ix->op = FX_OP_NONE;
}

static void wait(fx_lg *l, indexing *ix, fx_opid op, const fx_arg *dim, const fx_arg *a, const fx_arg *b, const fx_arg *c)
{
    flush(l, ix);
    const fx_arg *args[5] = {ix->x, dim, a, b, c};
    ix->op = op;
    ix->n = op == FX_OP_slice_Tensor ? 5 : op == FX_OP_select_int ? 3 : 2;
    memcpy(ix->args, args, sizeof args);
}

static bool is_bound(const fx_arg *a)
{
    return a->kind == FX_ARG_NONE || a->kind == FX_ARG_INT || a->kind == FX_ARG_SYM;
}

/* x[:] is x. */
static bool slice(fx_lg *l, indexing *ix, const fx_arg *s, int dim)
{
    const fx_arg *start = s->items[0], *stop = s->items[1], *step = s->items[2];
    if (!is_bound(start) || !is_bound(stop) || !is_bound(step)) {
        fx_lg_refuse(l, "expected a slice's bounds to be integers, got %s", fx_arg_kind_name((!is_bound(start) ? start : !is_bound(stop) ? stop : step)->kind));
        return false;
    }
    bool whole = (start->kind == FX_ARG_NONE || (start->kind == FX_ARG_INT && start->i == 0)) && stop->kind == FX_ARG_NONE &&
                 (step->kind == FX_ARG_NONE || (step->kind == FX_ARG_INT && step->i == 1));
    if (!whole)
        wait(l, ix, FX_OP_slice_Tensor, fx_lg_int(l, dim), start, stop, step->kind == FX_ARG_NONE ? fx_lg_int(l, 1) : step);
    return true;
}

/* As eager does it: item by item, each on the dim where it stands. */
static bool index_tensor(fx_lg *l, const fx_arg *by, indexing *ix)
{
    const fx_arg *const *items = is_sequence(by) ? by->items : &by;
    int n = by->kind == FX_ARG_TUPLE ? by->n : 1, dim = 0, used = 0;
    const fx_type *t = fx_lg_type(l, ix->x);
    bool ellipsis = false;
    if (by->kind == FX_ARG_LIST) {
        fx_lg_refuse(l, "indexing with a list is not supported");
        return false;
    }
    for (int i = 0; i < n; i++)
        used += items[i]->kind != FX_ARG_NONE && items[i]->kind != FX_ARG_ELLIPSIS;
    if (used > t->rank) {
        fx_lg_refuse(l, "expected at most %d indices, got %d", t->rank, used);
        return false;
    }
    for (int i = 0; i < n; i++) {
        const fx_arg *a = items[i];
        switch (a->kind) {
        case FX_ARG_INT:
        case FX_ARG_SYM: wait(l, ix, FX_OP_select_int, fx_lg_int(l, dim), a, NULL, NULL); break;
        case FX_ARG_SLICE:
            if (!slice(l, ix, a, dim++))
                return false;
            break;
        case FX_ARG_NONE: wait(l, ix, FX_OP_unsqueeze, fx_lg_int(l, dim++), NULL, NULL, NULL); break;
        case FX_ARG_ELLIPSIS:
            if (ellipsis) {
                fx_lg_refuse(l, "expected one ... at most");
                return false;
            }
            ellipsis = true;
            dim += t->rank - used;
            break;
        default:
            fx_lg_refuse(l, "indexing with %s is not supported", a->kind == FX_ARG_NODE ? "a tensor" : fx_arg_kind_name(a->kind));
            return false;
        }
    }
    return l->status == FX_OK;
}

/* Items of a call that gives several results. */
static const fx_arg *tuple_item(fx_lg *l, const fx_arg *tuple, int64_t i)
{
    return FX_LG_EMIT(l, fx_arena_printf(l->scratch, "%lld", (long long)i), FX_OP_getitem, tuple, fx_lg_int(l, i));
}

static void tuple_getitem(fx_lg *l, const fx_type *t, const fx_arg *by)
{
    if (by->kind == FX_ARG_INT) {
        int64_t i = by->i < 0 ? by->i + t->n : by->i;
        if (i < 0 || i >= t->n)
            fx_lg_refuse(l, "expected an item of %d, got number %lld", t->n, (long long)by->i);
        FX_LG_BECOME(l, FX_OP_getitem, l->bound[0], fx_lg_int(l, i));
        return;
    }
    bool plain = by->kind == FX_ARG_SLICE && by->items[2]->kind == FX_ARG_NONE;
    int64_t bounds[2] = {0, t->n};
    for (int k = 0; plain && k < 2; k++) {
        const fx_arg *a = by->items[k];
        plain = a->kind == FX_ARG_NONE || a->kind == FX_ARG_INT;
        if (a->kind == FX_ARG_INT)
            bounds[k] = a->i < 0 ? a->i + t->n : a->i;
        bounds[k] = bounds[k] < 0 ? 0 : bounds[k] > t->n ? t->n : bounds[k];
    }
    if (!plain) {
        fx_lg_refuse(l, "taking items of several results by %s is not supported", fx_arg_kind_name(by->kind));
        return;
    }
    int n = bounds[1] > bounds[0] ? (int)(bounds[1] - bounds[0]) : 0;
    const fx_arg **items = FX_NEW_ARRAY(l->scratch, const fx_arg *, n + 1);
    for (int i = 0; i < n; i++)
        items[i] = tuple_item(l, l->bound[0], bounds[0] + i);
    fx_lg_value(l, fx_arg_seq(l->ctx, FX_ARG_TUPLE, n, items));
}

/* Of a tuple in the arguments themselves, which may hold nodes. */
static void literal_getitem(fx_lg *l, const fx_arg *of, const fx_arg *by)
{
    if (of->kind == FX_ARG_DICT && by->kind == FX_ARG_STR)
        for (int i = 0; i < of->n; i++)
            if (strcmp(of->keys[i], by->s) == 0) {
                fx_lg_same(l, of->items[i]);
                return;
            }
    int64_t i = by->kind == FX_ARG_INT ? by->i < 0 ? by->i + of->n : by->i : -1;
    if (!is_sequence(of) || i < 0 || i >= of->n)
        fx_lg_refuse(l, "expected an item of %s by a constant, got %s", fx_arg_kind_name(of->kind), fx_arg_kind_name(by->kind));
    else
        fx_lg_same(l, of->items[i]);
}

void fx_lg_getitem(fx_lg *l)
{
    const fx_node *n = fx_lg_node(l, l->bound[0]);
    if (!n) {
        literal_getitem(l, l->bound[0], l->bound[1]);
        return;
    }
    if (n->type->kind == FX_TYPE_TUPLE) {
        tuple_getitem(l, n->type, l->bound[1]);
        return;
    }
    if (n->type->kind != FX_TYPE_TENSOR) {
        fx_lg_refuse(l, "expected a tensor or a tuple to index");
        return;
    }
    indexing ix = {.x = l->bound[0]};
    if (!index_tensor(l, l->bound[1], &ix))
        return;
    if (ix.op == FX_OP_NONE)
        FX_LG_BECOME(l, FX_OP_alias, ix.x);
    else
        fx_lg_become(l, ix.op, ix.n, ix.args);
}

/* x[i] = v writes into a view of x; its value is None. */
void fx_lg_setitem(fx_lg *l)
{
    indexing ix = {.x = l->bound[0]};
    const fx_arg *v = l->bound[2];
    bool number = v->kind == FX_ARG_INT || v->kind == FX_ARG_FLOAT || v->kind == FX_ARG_BOOL;
    if (!index_tensor(l, l->bound[1], &ix))
        return;
    flush(l, &ix);
    if (!number && !fx_lg_type(l, v))
        fx_lg_refuse(l, "expected a number or a tensor to assign, got %s", fx_arg_kind_name(v->kind));
    fx_lg_write(l, "write", number ? FX_OP_fill_Scalar : FX_OP_copy, 2, (const fx_arg *[]){ix.x, v});
    fx_lg_value(l, fx_arg_none(l->ctx));
}

/* ---- parts ------------------------------------------------------------------------------------------------------------------ */

void fx_lg_split(fx_lg *l)
{
    const fx_arg *by = fx_lg_arg(l, "split_size_or_sections"), *dim = fx_lg_arg(l, "dim");
    if (is_sequence(by))
        FX_LG_BECOME(l, FX_OP_split_with_sizes, l->bound[0], by, dim);
    else
        FX_LG_BECOME(l, FX_OP_split_Tensor, l->bound[0], by, dim);
}

void fx_lg_unbind(fx_lg *l)
{
    const fx_type *t = fx_lg_type(l, l->bound[0]);
    int dim;
    if (!t || !wrap_dim(l, t, fx_lg_arg(l, "dim"), &dim))
        return;
    if (t->dims[dim].sym || t->dims[dim].value > 4096) {
        fx_lg_refuse(l, "%s: expected a known size of at most 4096", l->at->target);
        return;
    }
    int n = (int)t->dims[dim].value;
    const fx_arg **items = FX_NEW_ARRAY(l->scratch, const fx_arg *, n + 1);
    for (int i = 0; i < n; i++)
        items[i] = FX_LG_EMIT(l, fx_arena_printf(l->scratch, "%d", i), FX_OP_select_int, l->bound[0], fx_lg_int(l, dim), fx_lg_int(l, i));
    fx_lg_value(l, fx_arg_seq(l->ctx, FX_ARG_TUPLE, n, items));
}

static const fx_arg *shape_of(fx_lg *l, const fx_type *t)
{
    const fx_arg *items[FX_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        items[i] = t->dims[i].sym ? fx_arg_sym(l->ctx, t->dims[i].sym) : fx_lg_int(l, t->dims[i].value);
    return fx_arg_seq(l->ctx, FX_ARG_LIST, t->rank, items);
}

void fx_lg_reshape_as(fx_lg *l)
{
    FX_LG_BECOME(l, FX_OP_reshape, l->bound[0], shape_of(l, fx_lg_type(l, l->bound[1])));
}

/* Sizes, or pairs of a name and a size for named tensors, whose names are of no use here. */
void fx_lg_unflatten(fx_lg *l)
{
    const fx_arg *sizes = fx_lg_arg(l, "unflattened_size");
    const fx_arg *items[FX_MAX_RANK];
    if (!sizes || !is_sequence(sizes) || sizes->n > FX_MAX_RANK) {
        fx_lg_refuse(l, "expected sizes to unflatten to");
        return;
    }
    for (int i = 0; i < sizes->n; i++)
        items[i] = is_sequence(sizes->items[i]) && sizes->items[i]->n == 2 ? sizes->items[i]->items[1] : sizes->items[i];
    FX_LG_BECOME(l, FX_OP_unflatten_int, l->bound[0], fx_lg_arg(l, "dim"), fx_arg_seq(l->ctx, FX_ARG_LIST, sizes->n, items));
}

/* shape, dtype and the like are numbers of Python's (fx_lg_python). */
void fx_lg_getattr(fx_lg *l)
{
    const char *name = fx_lg_arg(l, "name")->s;
    const fx_type *t = fx_lg_type(l, l->bound[0]);
    if ((!strcmp(name, "T") && t->rank == 2) || (!strcmp(name, "mT") && t->rank >= 2)) {
        FX_LG_BECOME(l, FX_OP_transpose_int, l->bound[0], fx_lg_int(l, -2), fx_lg_int(l, -1));
    } else if (!strcmp(name, "T")) {
        int64_t dims[FX_MAX_RANK];
        for (int i = 0; i < t->rank; i++)
            dims[i] = t->rank - 1 - i;
        FX_LG_BECOME(l, FX_OP_permute, l->bound[0], fx_arg_ints(l->ctx, t->rank, dims));
    } else if (!strcmp(name, "data")) {
        FX_LG_BECOME(l, FX_OP_detach, l->bound[0]);
    } else {
        fx_lg_refuse(l, "the attribute '%.60s' of a tensor is not supported", name);
    }
}

/* ---- arithmetic ---------------------------------------------------------------------------------------------------------------- */

void fx_lg_floor_divide(fx_lg *l)
{
    FX_LG_BECOME(l, FX_OP_div_Tensor_mode, l->bound[0], l->bound[1], fx_arg_text(l->ctx, FX_ARG_STR, fx_intern(l->ctx, "floor")));
}

/* Python's two ways: unbiased, or correction. */
static const fx_arg *correction(fx_lg *l)
{
    const fx_arg *given = fx_lg_arg(l, "correction");
    return given && given->kind != FX_ARG_NONE ? given : fx_lg_int(l, fx_lg_true(l, "unbiased"));
}

void fx_lg_var(fx_lg *l)
{
    FX_LG_BECOME(l, FX_OP_var_correction, l->bound[0], fx_lg_arg(l, "dim"), correction(l), fx_lg_arg(l, "keepdim"));
}

void fx_lg_std(fx_lg *l)
{
    const fx_arg *var = FX_LG_EMIT(l, "var", FX_OP_var_correction, l->bound[0], fx_lg_arg(l, "dim"), correction(l), fx_lg_arg(l, "keepdim"));
    FX_LG_BECOME(l, FX_OP_sqrt, var);
}

void fx_lg_zero(fx_lg *l)
{
    l->inplace = true;
    FX_LG_BECOME(l, FX_OP_fill_Scalar, l->bound[0], fx_lg_int(l, 0));
}

/* ---- dtypes ----------------------------------------------------------------------------------------------------------------------- */

/* To the dtype it has already, a tensor is itself. */
static void cast(fx_lg *l, fx_dtype dtype, bool copy, const fx_arg *format)
{
    if (fx_lg_type(l, l->bound[0])->dtype == dtype && !copy)
        fx_lg_same(l, l->bound[0]);
    else
        FX_LG_BECOME(l, FX_OP_to_dtype, l->bound[0], fx_arg_dtype(l->ctx, dtype), fx_lg_bool(l, false), fx_lg_bool(l, copy), format);
}

void fx_lg_cast(fx_lg *l)
{
    static const struct { const char *name; fx_dtype dtype; } methods[] = {{"float", FX_F32}, {"double", FX_F64}, {"half", FX_F16},
        {"bfloat16", FX_BF16}, {"int", FX_I32}, {"long", FX_I64}, {"bool", FX_BOOL}};
    const char *dot = strrchr(l->at->target, '.'), *name = dot ? dot + 1 : l->at->target;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0)
            cast(l, methods[i].dtype, false, NULL);
}

void fx_lg_type_as(fx_lg *l)
{
    cast(l, fx_lg_type(l, l->bound[1])->dtype, false, NULL);
}

/* x.to(dtype), x.to(device), x.to(device, dtype), x.to(other), each with non_blocking and copy behind: what each argument is tells its kind.
 * Everything is on the CPU. */
void fx_lg_to(fx_lg *l)
{
    fx_dtype dtype = fx_lg_type(l, l->bound[0])->dtype;
    const fx_arg *given = fx_lg_arg(l, "dtype");
    bool copy = fx_lg_true(l, "copy");
    int flags = 0;
    for (int i = 1; i <= 4; i++) {
        const fx_arg *a = l->bound[i];
        const fx_type *other = fx_lg_type(l, a);
        if (a->kind == FX_ARG_DTYPE) {
            dtype = (fx_dtype)a->i;
        } else if (other) {
            dtype = other->dtype;
        } else if (a->kind == FX_ARG_BOOL) {
            copy |= flags++ == 1 && a->b;
        } else if (a->kind != FX_ARG_DEVICE && a->kind != FX_ARG_STR && a->kind != FX_ARG_NONE) {
            fx_lg_refuse(l, "expected a dtype, device or tensor to convert to, got %s", fx_arg_kind_name(a->kind));
            return;
        }
    }
    if (given && given->kind == FX_ARG_DTYPE)
        dtype = (fx_dtype)given->i;
    cast(l, dtype, copy, fx_lg_arg(l, "memory_format"));
}
