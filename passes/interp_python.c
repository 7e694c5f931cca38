/* passes/interp_python.c: what a captured graph computes with Python's numbers, tuples and shapes, for the interpreter.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "passes/interp.h"

typedef struct python {
    fx_context *ctx;
    const fx_node *n;
    int n_args;
    const fx_arg *args[3];
    const fx_run_value *const *values; /* of the FX_ARG_NODE numbers */
} python;

typedef fx_status python_function(const python *p, const fx_arg **out);

static bool is_number(const fx_arg *a)
{
    return a->kind == FX_ARG_BOOL || a->kind == FX_ARG_INT || a->kind == FX_ARG_FLOAT;
}

static bool is_sequence(const fx_arg *a)
{
    return a->kind == FX_ARG_TUPLE || a->kind == FX_ARG_LIST;
}

static int64_t int_of(const fx_arg *a)
{
    return a->kind == FX_ARG_BOOL ? a->b : a->i;
}

static double float_of(const fx_arg *a)
{
    return a->kind == FX_ARG_FLOAT ? a->f : (double)int_of(a);
}

static fx_status overflow(const python *p)
{
    return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->n->loc, "%s: an integer of more than 64 bits", p->n->target);
}

static fx_status give_int(const python *p, bool overflows, int64_t v, const fx_arg **out)
{
    if (overflows)
        return overflow(p);
    *out = fx_arg_int(p->ctx, v);
    return FX_OK;
}

static fx_status give_float(const python *p, double v, const fx_arg **out)
{
    *out = fx_arg_float(p->ctx, v);
    return FX_OK;
}

static fx_status give_bool(const python *p, bool v, const fx_arg **out)
{
    *out = fx_arg_bool(p->ctx, v);
    return FX_OK;
}

/* ---- two numbers --------------------------------------------------------------------------------------------------------- */

static bool both_int(const python *p)
{
    return p->args[0]->kind != FX_ARG_FLOAT && p->args[1]->kind != FX_ARG_FLOAT;
}

static bool two_numbers(const python *p)
{
    return p->n_args == 2 && is_number(p->args[0]) && is_number(p->args[1]);
}

#define ARITHMETIC(name, overflowing, sign)                                                            \
    static fx_status name(const python *p, const fx_arg **out)                                         \
    {                                                                                                  \
        int64_t v = 0;                                                                                 \
        if (!two_numbers(p))                                                                           \
            return FX_OK;                                                                              \
        if (!both_int(p))                                                                              \
            return give_float(p, float_of(p->args[0]) sign float_of(p->args[1]), out);                 \
        bool over = overflowing(int_of(p->args[0]), int_of(p->args[1]), &v);                           \
        return give_int(p, over, v, out);                                                              \
    }
ARITHMETIC(add_numbers, __builtin_add_overflow, +)
ARITHMETIC(py_sub, __builtin_sub_overflow, -)
ARITHMETIC(py_mul, __builtin_mul_overflow, *)

static fx_status py_add(const python *p, const fx_arg **out)
{
    if (p->n_args != 2 || !is_sequence(p->args[0]) || p->args[1]->kind != p->args[0]->kind)
        return add_numbers(p, out);
    int n = p->args[0]->n, m = p->args[1]->n;
    const fx_arg **items = FX_NEW_ARRAY(fx_context_arena(p->ctx), const fx_arg *, n + m + 1);
    if (n)
        memcpy(items, p->args[0]->items, (size_t)n * sizeof *items);
    if (m)
        memcpy(items + n, p->args[1]->items, (size_t)m * sizeof *items);
    *out = fx_arg_seq(p->ctx, p->args[0]->kind, n + m, items);
    return FX_OK;
}

static fx_status divisor(const python *p, bool *ok)
{
    *ok = two_numbers(p);
    return *ok && float_of(p->args[1]) == 0 ? fx_fail(p->ctx, FX_ERR_TYPE, &p->n->loc, "%s: division by zero", p->n->target) : FX_OK;
}

static fx_status py_truediv(const python *p, const fx_arg **out)
{
    bool ok;
    FX_TRY(divisor(p, &ok));
    return ok ? give_float(p, float_of(p->args[0]) / float_of(p->args[1]), out) : FX_OK;
}

/* Python rounds down, and a remainder has the divisor's sign. */
static fx_status py_floordiv(const python *p, const fx_arg **out)
{
    bool ok;
    FX_TRY(divisor(p, &ok));
    if (!ok)
        return FX_OK;
    if (!both_int(p))
        return give_float(p, floor(float_of(p->args[0]) / float_of(p->args[1])), out);
    int64_t a = int_of(p->args[0]), b = int_of(p->args[1]);
    if (b == -1)
        return give_int(p, a == INT64_MIN, a == INT64_MIN ? 0 : -a, out);
    return give_int(p, false, a / b - (a % b != 0 && (a % b < 0) != (b < 0)), out);
}

static fx_status py_mod(const python *p, const fx_arg **out)
{
    bool ok;
    FX_TRY(divisor(p, &ok));
    if (!ok)
        return FX_OK;
    if (!both_int(p)) {
        double b = float_of(p->args[1]), r = fmod(float_of(p->args[0]), b);
        return give_float(p, r != 0 && (r < 0) != (b < 0) ? r + b : r, out);
    }
    int64_t a = int_of(p->args[0]), b = int_of(p->args[1]), r = b == -1 ? 0 : a % b;
    return give_int(p, false, r != 0 && (r < 0) != (b < 0) ? r + b : r, out);
}

static fx_status py_pow(const python *p, const fx_arg **out)
{
    if (!two_numbers(p))
        return FX_OK;
    if (!both_int(p) || int_of(p->args[1]) < 0)
        return give_float(p, pow(float_of(p->args[0]), float_of(p->args[1])), out);
    int64_t v = 1, a = int_of(p->args[0]), n = int_of(p->args[1]);
    bool over = false;
    if (a == 0 || a == 1 || a == -1)
        v = n == 0 ? 1 : a == -1 && n % 2 == 0 ? 1 : a;
    else
        for (int64_t i = 0; i < n && !over; i++)
            over = __builtin_mul_overflow(v, a, &v);
    return give_int(p, over, v, out);
}

#define COMPARISON(name, sign)                                                                   \
    static fx_status name(const python *p, const fx_arg **out)                                   \
    {                                                                                            \
        if (!two_numbers(p))                                                                     \
            return FX_OK;                                                                        \
        return give_bool(p, both_int(p) ? int_of(p->args[0]) sign int_of(p->args[1])             \
                                        : float_of(p->args[0]) sign float_of(p->args[1]), out);  \
    }
COMPARISON(eq_numbers, ==)
COMPARISON(py_lt, <)
COMPARISON(py_le, <=)
COMPARISON(py_gt, >)
COMPARISON(py_ge, >=)

/* Also of what is no number: constants are interned. */
static fx_status py_eq(const python *p, const fx_arg **out)
{
    FX_TRY(eq_numbers(p, out));
    if (!*out && p->n_args == 2 && p->args[0]->kind != FX_ARG_NODE && p->args[1]->kind != FX_ARG_NODE)
        return give_bool(p, p->args[0] == p->args[1], out);
    return FX_OK;
}

static fx_status py_ne(const python *p, const fx_arg **out)
{
    FX_TRY(py_eq(p, out));
    return *out ? give_bool(p, !(*out)->b, out) : FX_OK;
}

static fx_status py_max(const python *p, const fx_arg **out)
{
    const fx_arg *greater = NULL;
    FX_TRY(py_gt(p, &greater));
    *out = greater ? p->args[greater->b ? 0 : 1] : NULL;
    return FX_OK;
}

static fx_status py_min(const python *p, const fx_arg **out)
{
    const fx_arg *less = NULL;
    FX_TRY(py_lt(p, &less));
    *out = less ? p->args[less->b ? 0 : 1] : NULL;
    return FX_OK;
}

/* ---- one number ---------------------------------------------------------------------------------------------------------- */

static bool one_number(const python *p)
{
    return p->n_args == 1 && is_number(p->args[0]);
}

static fx_status py_neg(const python *p, const fx_arg **out)
{
    if (!one_number(p))
        return FX_OK;
    if (p->args[0]->kind == FX_ARG_FLOAT)
        return give_float(p, -p->args[0]->f, out);
    int64_t v = 0;
    bool over = __builtin_sub_overflow(0, int_of(p->args[0]), &v);
    return give_int(p, over, v, out);
}

static fx_status py_abs(const python *p, const fx_arg **out)
{
    if (one_number(p) && float_of(p->args[0]) < 0)
        return py_neg(p, out);
    *out = !one_number(p) ? NULL : p->args[0]->kind == FX_ARG_BOOL ? fx_arg_int(p->ctx, p->args[0]->b) : p->args[0];
    return FX_OK;
}

static fx_status to_int(const python *p, double v, const fx_arg **out)
{
    if (!(v >= -0x1p63 && v < 0x1p63))
        return overflow(p);
    return give_int(p, false, (int64_t)v, out);
}

static fx_status py_int(const python *p, const fx_arg **out)
{
    if (!one_number(p))
        return FX_OK;
    return p->args[0]->kind == FX_ARG_FLOAT ? to_int(p, p->args[0]->f, out) : give_int(p, false, int_of(p->args[0]), out);
}

static fx_status py_floor(const python *p, const fx_arg **out)
{
    return one_number(p) ? to_int(p, floor(float_of(p->args[0])), out) : FX_OK;
}

static fx_status py_ceil(const python *p, const fx_arg **out)
{
    return one_number(p) ? to_int(p, ceil(float_of(p->args[0])), out) : FX_OK;
}

static fx_status py_sqrt(const python *p, const fx_arg **out)
{
    return one_number(p) ? give_float(p, sqrt(float_of(p->args[0])), out) : FX_OK;
}

static fx_status py_float(const python *p, const fx_arg **out)
{
    return one_number(p) ? give_float(p, float_of(p->args[0]), out) : FX_OK;
}

static fx_status py_bool(const python *p, const fx_arg **out)
{
    return one_number(p) ? give_bool(p, float_of(p->args[0]) != 0, out) : FX_OK;
}

static fx_status py_not(const python *p, const fx_arg **out)
{
    return one_number(p) ? give_bool(p, float_of(p->args[0]) == 0, out) : FX_OK;
}

/* ---- sequences ----------------------------------------------------------------------------------------------------------- */

/* A bound of a slice of n items, as slice.indices gives it; d: what None stands for. */
static bool bound(const fx_arg *a, int n, bool down, int64_t d, int64_t *v)
{
    *v = d;
    if (a->kind == FX_ARG_NONE)
        return true;
    if (a->kind != FX_ARG_INT)
        return false;
    *v = a->i < -(int64_t)n ? -1 : a->i < 0 ? a->i + n : a->i;
    int64_t low = down ? -1 : 0, high = down ? n - 1 : n;
    *v = *v < low ? low : *v > high ? high : *v;
    return true;
}

static fx_status slice_of(const python *p, const fx_arg *s, const fx_arg *by, const fx_arg **out)
{
    int64_t start, stop, step = by->items[2]->kind == FX_ARG_INT ? by->items[2]->i : 1;
    if (step == 0)
        return fx_fail(p->ctx, FX_ERR_TYPE, &p->n->loc, "%s: a slice's step cannot be 0", p->n->target);
    bool down = step < 0;
    if (!bound(by->items[0], s->n, down, down ? s->n - 1 : 0, &start) || !bound(by->items[1], s->n, down, down ? -1 : s->n, &stop))
        return FX_OK;
    const fx_arg **items = FX_NEW_ARRAY(fx_context_arena(p->ctx), const fx_arg *, s->n + 1);
    int count = 0;
    for (int64_t i = start; down ? i > stop : i < stop; i += step) {
        items[count++] = s->items[i];
        if (step > s->n || step < -s->n)
            break;
    }
    *out = fx_arg_seq(p->ctx, s->kind, count, items);
    return FX_OK;
}

static fx_status py_getitem(const python *p, const fx_arg **out)
{
    if (p->n_args != 2 || !is_sequence(p->args[0]))
        return FX_OK;
    const fx_arg *s = p->args[0], *i = p->args[1];
    if (i->kind == FX_ARG_SLICE)
        return slice_of(p, s, i, out);
    if (i->kind != FX_ARG_INT)
        return FX_OK;
    if (i->i >= s->n || i->i < -(int64_t)s->n)
        return fx_fail(p->ctx, FX_ERR_TYPE, &p->n->loc, "%s: expected an index below %d, got %lld", p->n->target, s->n, (long long)i->i);
    *out = s->items[i->i < 0 ? i->i + s->n : i->i];
    return FX_OK;
}

/* ---- tensors' shapes and dtypes ------------------------------------------------------------------------------------------ */

static const fx_type *tensor_type(const python *p)
{
    const fx_type *t = p->n_args && p->args[0]->kind == FX_ARG_NODE ? p->values[p->args[0]->i]->type : NULL;
    return t && t->kind == FX_TYPE_TENSOR ? t : NULL;
}

static fx_status py_len(const python *p, const fx_arg **out)
{
    const fx_type *t = tensor_type(p);
    if (p->n_args == 1 && is_sequence(p->args[0]))
        return give_int(p, false, p->args[0]->n, out);
    return p->n_args == 1 && t && t->rank ? give_int(p, false, t->dims[0].value, out) : FX_OK;
}

static fx_status py_dim(const python *p, const fx_arg **out)
{
    const fx_type *t = tensor_type(p);
    return t && p->n_args == 1 ? give_int(p, false, t->rank, out) : FX_OK;
}

static fx_status py_numel(const python *p, const fx_arg **out)
{
    const fx_type *t = tensor_type(p);
    return t && p->n_args == 1 ? give_int(p, false, fx_type_numel(t), out) : FX_OK;
}

static fx_status py_is_floating_point(const python *p, const fx_arg **out)
{
    const fx_type *t = tensor_type(p);
    return t && p->n_args == 1 ? give_bool(p, fx_dtype_is_float(t->dtype), out) : FX_OK;
}

static fx_status py_size(const python *p, const fx_arg **out)
{
    const fx_type *t = tensor_type(p);
    const fx_arg *items[FX_MAX_RANK];
    if (!t || p->n_args > 2)
        return FX_OK;
    if (p->n_args == 2) {
        int64_t i = p->args[1]->kind == FX_ARG_INT ? p->args[1]->i : INT64_MAX;
        if (i >= t->rank || i < -t->rank)
            return fx_fail(p->ctx, FX_ERR_TYPE, &p->n->loc, "%s: expected a dim of a tensor of rank %d", p->n->target, t->rank);
        return give_int(p, false, t->dims[i < 0 ? i + t->rank : i].value, out);
    }
    for (int i = 0; i < t->rank; i++)
        items[i] = fx_arg_int(p->ctx, t->dims[i].value);
    *out = fx_arg_seq(p->ctx, FX_ARG_TUPLE, t->rank, items);
    return FX_OK;
}

static fx_status py_getattr(const python *p, const fx_arg **out)
{
    const fx_type *t = tensor_type(p);
    if (!t || p->n_args != 2 || p->args[1]->kind != FX_ARG_STR)
        return FX_OK;
    const char *name = p->args[1]->s;
    python one = *p;
    one.n_args = 1;
    if (!strcmp(name, "shape"))
        return py_size(&one, out);
    if (!strcmp(name, "ndim"))
        return py_dim(&one, out);
    if (!strcmp(name, "dtype"))
        *out = fx_arg_dtype(p->ctx, t->dtype);
    else if (!strcmp(name, "device"))
        *out = fx_arg_text(p->ctx, FX_ARG_DEVICE, "cpu");
    else if (!strcmp(name, "is_cuda") || !strcmp(name, "is_sparse") || !strcmp(name, "is_quantized"))
        return give_bool(p, false, out);
    return FX_OK;
}

/* ---- by name ------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    python_function *f;
    bool method;             /* of a tensor; else a function of operator, builtins, math, torch */
} table[] = {
    {"add", py_add, false}, {"iadd", py_add, false}, {"sub", py_sub, false}, {"isub", py_sub, false}, {"mul", py_mul, false},
    {"imul", py_mul, false}, {"truediv", py_truediv, false}, {"itruediv", py_truediv, false}, {"floordiv", py_floordiv, false},
    {"ifloordiv", py_floordiv, false}, {"mod", py_mod, false}, {"pow", py_pow, false}, {"eq", py_eq, false}, {"ne", py_ne, false},
    {"lt", py_lt, false}, {"le", py_le, false}, {"gt", py_gt, false}, {"ge", py_ge, false}, {"max", py_max, false},
    {"min", py_min, false}, {"neg", py_neg, false}, {"abs", py_abs, false}, {"not_", py_not, false}, {"int", py_int, false},
    {"float", py_float, false}, {"bool", py_bool, false}, {"floor", py_floor, false}, {"ceil", py_ceil, false}, {"sqrt", py_sqrt, false},
    {"getitem", py_getitem, false}, {"len", py_len, false}, {"getattr", py_getattr, false}, {"numel", py_numel, false},
    {"is_floating_point", py_is_floating_point, false},
    {"size", py_size, true}, {"dim", py_dim, true}, {"ndimension", py_dim, true}, {"numel", py_numel, true}, {"nelement", py_numel, true},
    {"is_floating_point", py_is_floating_point, true},
};

fx_status fx_run_python(fx_interpreter *in, const fx_node *n, const fx_arg *args, const fx_arg *kwargs, const fx_run_value *const *values,
                        const fx_arg **out)
{
    static const char *const spaces[] = {"_operator.", "operator.", "builtins.", "math.", "torch."};
    python p = {.ctx = in->ctx, .n = n, .n_args = args->n, .values = values};
    const char *name = n->target;
    *out = NULL;
    if (args->n > 3 || args->n < 1 || kwargs->n > 1 || (n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD))
        return FX_OK;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces && n->opcode == FX_CALL_FUNCTION; i++)
        if (!strncmp(name, spaces[i], strlen(spaces[i]))) {
            name += strlen(spaces[i]);
            break;
        }
    for (int i = 0; i < args->n; i++)
        p.args[i] = args->items[i];
    if (kwargs->n) { /* x.size(dim=0) */
        if (strcmp(kwargs->keys[0], "dim") || args->n != 1)
            return FX_OK;
        p.args[p.n_args++] = kwargs->items[0];
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].method == (n->opcode == FX_CALL_METHOD) && !strcmp(table[i].name, name))
            return table[i].f(&p, out);
    return FX_OK;
}
