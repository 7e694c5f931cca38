/* ir/type.c: interned value types, and the table of element types.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

const char *fx_dtype_name(fx_dtype dtype)
{
    static const char *const names[] = {
#define FX_X(e, name, c, bytes) name,
        FX_DTYPES(FX_X)
#undef FX_X
    };
    return (unsigned)dtype < FX_DTYPE_COUNT ? names[dtype] : "unknown dtype";
}

size_t fx_dtype_size(fx_dtype dtype)
{
    static const size_t sizes[] = {
#define FX_X(e, name, c, bytes) bytes,
        FX_DTYPES(FX_X)
#undef FX_X
    };
    return (unsigned)dtype < FX_DTYPE_COUNT ? sizes[dtype] : 0;
}

bool fx_dtype_is_float(fx_dtype dtype)
{
    return dtype == FX_F32 || dtype == FX_F64 || dtype == FX_F16 || dtype == FX_BF16;
}

const char *fx_dtype_short(fx_dtype dtype)
{
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "bool", "c64", "c128"};
    _Static_assert(sizeof names == FX_DTYPE_COUNT * sizeof *names, "a spelling for each dtype");
    return (unsigned)dtype < FX_DTYPE_COUNT ? names[dtype] : "?";
}

/* ---- interning ---------------------------------------------------------------------------------------------- */

static bool same_dims(int n, const fx_dim *a, const fx_dim *b)
{
    if (!a != !b)
        return false;
    for (int i = 0; a && i < n; i++)
        if (a[i].value != b[i].value || a[i].sym != b[i].sym)
            return false;
    return true;
}

static bool same_type(const void *entry, const void *key)
{
    const fx_type *a = entry, *b = key;
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank && same_dims(a->rank, a->dims, b->dims) &&
           same_dims(a->rank, a->strides, b->strides) && a->n == b->n &&
           (a->n == 0 || memcmp(a->items, b->items, (size_t)a->n * sizeof *a->items) == 0) &&
           same_dims(1, &a->value, &b->value);
}

static uint64_t hash_dims(uint64_t h, int n, const fx_dim *d)
{
    for (int i = 0; d && i < n; i++)
        h = fx_mix_ptr(fx_mix(h, (uint64_t)d[i].value), d[i].sym);
    return fx_mix(h, d != NULL);
}

static const fx_type *intern_type(fx_context *ctx, fx_type t)
{
    uint64_t h = fx_mix(fx_mix((uint64_t)t.kind + 1, (uint64_t)t.dtype), (uint64_t)t.rank);
    h = hash_dims(h, t.rank, t.dims);
    h = hash_dims(h, t.rank, t.strides);
    h = hash_dims(h, 1, &t.value);
    for (int i = 0; i < t.n; i++)
        h = fx_mix_ptr(h, t.items[i]);
    fx_type *found = fx_set_find(&ctx->types, h, same_type, &t);
    if (found)
        return found;
    if (t.dims)
        t.dims = fx_arena_dup(ctx->arena, t.dims, (size_t)t.rank * sizeof *t.dims);
    if (t.strides)
        t.strides = fx_arena_dup(ctx->arena, t.strides, (size_t)t.rank * sizeof *t.strides);
    if (t.n)
        t.items = fx_arena_dup(ctx->arena, t.items, (size_t)t.n * sizeof *t.items);
    found = fx_arena_dup(ctx->arena, &t, sizeof t);
    fx_set_add(ctx->arena, &ctx->types, h, found);
    return found;
}

/* A number written as an expression is a number. */
static fx_dim plain_dim(fx_dim d)
{
    if (d.sym && d.sym->kind == FX_SYM_INT)
        return (fx_dim){.value = d.sym->value};
    return d.sym ? (fx_dim){.sym = d.sym} : d;
}

static const fx_dim *plain_dims(fx_context *ctx, int n, const fx_dim *d, fx_dim *room, int max)
{
    static const fx_dim none;
    if (n == 0)
        return &none;
    fx_dim *out = n <= max ? room : FX_NEW_ARRAY(ctx->arena, fx_dim, n);
    for (int i = 0; i < n; i++)
        out[i] = plain_dim(d[i]);
    return out;
}

const fx_type *fx_type_tensor(fx_context *ctx, fx_dtype dtype, int rank, const fx_dim *dims, const fx_dim *strides)
{
    fx_dim d[FX_MAX_RANK], s[FX_MAX_RANK];
    fx_type t = {.kind = FX_TYPE_TENSOR, .dtype = dtype, .rank = rank};
    t.dims = plain_dims(ctx, rank, dims, d, FX_MAX_RANK);
    t.strides = strides ? plain_dims(ctx, rank, strides, s, FX_MAX_RANK) : NULL;
    return intern_type(ctx, t);
}

const fx_type *fx_type_tensor_static(fx_context *ctx, fx_dtype dtype, int rank, const int64_t *sizes)
{
    fx_dim room[FX_MAX_RANK];
    fx_dim *d = rank <= FX_MAX_RANK ? room : FX_NEW_ARRAY(ctx->arena, fx_dim, rank);
    for (int i = 0; i < rank; i++)
        d[i] = (fx_dim){.value = sizes[i]};
    return fx_type_tensor(ctx, dtype, rank, d, NULL);
}

const fx_type *fx_type_tuple(fx_context *ctx, int n, const fx_type *const *items)
{
    return intern_type(ctx, (fx_type){.kind = FX_TYPE_TUPLE, .n = n, .items = items});
}

const fx_type *fx_type_scalar(fx_context *ctx, fx_type_kind kind)
{
    return intern_type(ctx, (fx_type){.kind = kind});
}

const fx_type *fx_type_int(fx_context *ctx, fx_dim value)
{
    return intern_type(ctx, (fx_type){.kind = FX_TYPE_INT, .value = plain_dim(value)});
}

/* ---- questions ---------------------------------------------------------------------------------------------- */

bool fx_type_is_static(const fx_type *t)
{
    if (!t || t->kind != FX_TYPE_TENSOR)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].sym)
            return false;
    return true;
}

int64_t fx_type_numel(const fx_type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i].value;
    return n;
}

bool fx_type_same_shape(const fx_type *a, const fx_type *b)
{
    return a && b && a->kind == FX_TYPE_TENSOR && b->kind == FX_TYPE_TENSOR && a->rank == b->rank &&
           same_dims(a->rank, a->dims, b->dims);
}

bool fx_type_same_tensor(const fx_type *a, const fx_type *b)
{
    return fx_type_same_shape(a, b) && a->dtype == b->dtype;
}

static void print_dim(fx_text *t, fx_dim d)
{
    if (d.sym)
        fx_sym_print(t, d.sym);
    else
        fx_printf(t, "%lld", (long long)d.value);
}

void fx_type_print(fx_text *t, const fx_type *type)
{
    if (!type) {
        fx_puts(t, "?");
        return;
    }
    switch (type->kind) {
    case FX_TYPE_NONE: fx_puts(t, "None"); break;
    case FX_TYPE_FLOAT: fx_puts(t, "float"); break;
    case FX_TYPE_BOOL: fx_puts(t, "bool"); break;
    case FX_TYPE_STR: fx_puts(t, "str"); break;
    case FX_TYPE_OTHER: fx_puts(t, "other"); break;
    case FX_TYPE_INT:
        fx_puts(t, "int");
        if (type->value.sym || type->value.value) {
            fx_puts(t, "(");
            print_dim(t, type->value);
            fx_puts(t, ")");
        }
        break;
    case FX_TYPE_TENSOR:
        fx_printf(t, "%s[", fx_dtype_short(type->dtype));
        for (int i = 0; i < type->rank; i++) {
            fx_puts(t, i ? ", " : "");
            print_dim(t, type->dims[i]);
        }
        fx_puts(t, "]");
        break;
    case FX_TYPE_TUPLE:
        fx_puts(t, "(");
        for (int i = 0; i < type->n; i++) {
            fx_puts(t, i ? ", " : "");
            fx_type_print(t, type->items[i]);
        }
        fx_puts(t, type->n == 1 ? ",)" : ")");
        break;
    }
}
