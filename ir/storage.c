/* ir/storage.c: host tensors and the memory under them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/context.h"

/* ---- storages ------------------------------------------------------------------------------------------------ */

enum { ALIGN = 64 };

/* A storage with `room` bytes behind it. */
static fx_storage *add_storage(fx_context *ctx, size_t nbytes, size_t room)
{
    fx_storage *st = ctx->alloc(ctx->user, sizeof *st + room);
    if (!st)
        fx_out_of_memory(ctx);
    st->ctx = ctx;
    st->nbytes = nbytes;
    st->serial = ctx->serial++;
    st->next = ctx->storages;
    if (st->next)
        st->next->prev = st;
    ctx->storages = st;
    return st;
}

fx_storage *fx_storage_new(fx_context *ctx, size_t nbytes)
{
    if (nbytes > PTRDIFF_MAX - ALIGN - sizeof(fx_storage))
        fx_out_of_memory(ctx);
    fx_storage *st = add_storage(ctx, nbytes, nbytes + ALIGN);
    char *behind = (char *)(st + 1);
    st->data = behind + (ALIGN - (uintptr_t)behind % ALIGN) % ALIGN; /* also of no bytes: NULL would say "not there yet" */
    return st;
}

fx_storage *fx_storage_lazy(fx_context *ctx, size_t nbytes, fx_status (*touch)(fx_storage *), void (*release)(fx_storage *),
                            void *user, const char *name)
{
    fx_storage *st = add_storage(ctx, nbytes, 0);
    st->readonly = true;
    st->touch = touch;
    st->release = release;
    st->user = user;
    st->name = name ? fx_intern(ctx, name) : NULL;
    return st;
}

fx_storage *fx_storage_lazy_room(fx_context *ctx, size_t nbytes, fx_status (*touch)(fx_storage *), void (*release)(fx_storage *), size_t room, void **user)
{
    fx_storage *st = add_storage(ctx, nbytes, room);
    st->readonly = true;
    st->touch = touch;
    st->release = release;
    *user = st->user = st + 1;
    return st;
}

/* In front of it: where it was allocated. */
void *fx_storage_memory(fx_storage *st, size_t nbytes)
{
    char *p = nbytes <= PTRDIFF_MAX - 2 * ALIGN ? st->ctx->alloc(st->ctx->user, nbytes + 2 * ALIGN) : NULL;
    if (!p)
        fx_out_of_memory(st->ctx);
    char *at = p + sizeof p + (ALIGN - (uintptr_t)(p + sizeof p) % ALIGN) % ALIGN;
    memcpy(at - sizeof p, &p, sizeof p);
    return at;
}

void fx_storage_memory_free(fx_storage *st, void *memory)
{
    char *p;
    if (!memory)
        return;
    memcpy(&p, (char *)memory - sizeof p, sizeof p);
    st->ctx->dealloc(st->ctx->user, p);
}

void fx_storage_free(fx_storage *st)
{
    if (!st)
        return;
    fx_context *ctx = st->ctx;
    if (st->release)
        st->release(st);
    if (st->prev)
        st->prev->next = st->next;
    else
        ctx->storages = st->next;
    if (st->next)
        st->next->prev = st->prev;
    ctx->dealloc(ctx->user, st);
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const void *const *)a, y = (uintptr_t) * (const void *const *)b;
    return (x > y) - (x < y);
}

void fx_context_keep_storages(fx_context *ctx, size_t n, const void **used)
{
    qsort(used, n, sizeof *used, by_address);
    for (fx_storage *st = ctx->storages, *next; st; st = next) {
        uintptr_t from = (uintptr_t)st->data;
        size_t low = 0, high = n; /* the first address at or behind its start */
        next = st->next;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if ((uintptr_t)used[middle] < from)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == n || (uintptr_t)used[low] - from > st->nbytes)
            fx_storage_free(st);
    }
}

/* Before the first touch data is an offset, and offsets are smaller than any address of mapped memory. */
static void *in_storage(const fx_tensor *t, const void *data)
{
    uintptr_t at = (uintptr_t)t->data, base = (uintptr_t)data;
    return at < base || at - base > t->storage->nbytes ? (void *)(base + at) : t->data;
}

const void *fx_tensor_peek(const fx_tensor *t)
{
    if (!t->storage)
        return t->data;
    const void *data = t->storage->data ? t->storage->data : t->storage->unchecked;
    return data ? in_storage(t, data) : NULL;
}

fx_status fx_tensor_touch(fx_context *ctx, fx_tensor *t)
{
    fx_storage *st = t->storage;
    if (!st)
        return FX_OK;
    if (!st->data && st->touch) {
        FX_TRY(st->touch(st));
        st->touch = NULL;
    }
    if (!st->data) {
        if (st->nbytes == 0)
            return FX_OK; /* an empty tensor has no element to read */
        fx_loc loc = {.entry = st->name};
        return fx_fail(ctx, FX_INTERNAL, &loc, "a storage of %zu bytes has no data", st->nbytes);
    }
    t->data = in_storage(t, st->data);
    return FX_OK;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

int64_t fx_tensor_numel(const fx_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->sizes[i];
    return n;
}

bool fx_tensor_is_contiguous(const fx_tensor *t)
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->sizes[i] == 0)
            return true;
        if (t->sizes[i] != 1 && t->strides[i] != step)
            return false;
        step *= t->sizes[i];
    }
    return true;
}

const char *fx_tensor_text(const fx_tensor *t, char *buf, size_t size)
{
    int n = (unsigned)t->dtype < FX_DTYPE_COUNT ? snprintf(buf, size, "%s[", fx_dtype_name(t->dtype)) : snprintf(buf, size, "dtype %d[", (int)t->dtype);
    if (t->rank < 0 || t->rank > FX_MAX_RANK) {
        snprintf(buf + n, size - (size_t)n, "rank %d]", t->rank);
        return buf;
    }
    for (int d = 0; d < t->rank && (size_t)n < size; d++)
        n += snprintf(buf + n, size - (size_t)n, d ? ", %lld" : "%lld", (long long)t->sizes[d]);
    if ((size_t)n < size)
        snprintf(buf + n, size - (size_t)n, "]");
    return buf;
}

/* Row-major strides, and the bytes needed; false when these overflow. */
static bool lay_out(fx_tensor *t, size_t *nbytes)
{
    int64_t step = 1, n = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->strides[i] = step;
        if (t->sizes[i] > 1 && __builtin_mul_overflow(step, t->sizes[i], &step))
            return false;
        n = t->sizes[i] == 0 ? 0 : n;
    }
    n = n ? step : 0;
    return !__builtin_mul_overflow((size_t)n, fx_dtype_size(t->dtype), nbytes) && *nbytes <= PTRDIFF_MAX / 2;
}

typedef struct request {
    fx_context *ctx;
    fx_dtype dtype;
    int rank;
    const int64_t *sizes;
    fx_tensor *out;
} request;

static fx_status create(void *arg)
{
    const request *r = arg;
    fx_tensor t = {.dtype = r->dtype, .rank = r->rank};
    size_t nbytes;
    if ((unsigned)r->dtype >= FX_DTYPE_COUNT)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "a tensor's dtype must be below %d, got %d", FX_DTYPE_COUNT, (int)r->dtype);
    if (r->rank < 0 || r->rank > FX_MAX_RANK)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "a tensor's rank must be 0 to %d, got %d", FX_MAX_RANK, r->rank);
    for (int i = 0; i < r->rank; i++) {
        t.sizes[i] = r->sizes[i];
        if (t.sizes[i] < 0)
            return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "a tensor's size must not be negative, got %lld in dimension %d",
                           (long long)t.sizes[i], i);
    }
    if (!lay_out(&t, &nbytes))
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "the size in bytes of a tensor overflows");
    t.storage = fx_storage_new(r->ctx, nbytes);
    t.data = t.storage->data;
    *r->out = t;
    return FX_OK;
}

fx_status fx_tensor_create(fx_context *ctx, fx_dtype dtype, int rank, const int64_t *sizes, fx_tensor *out)
{
    request r = {ctx, dtype, rank, sizes, out};
    return fx_protect(ctx, create, &r);
}

fx_status fx_tensor_like(fx_context *ctx, fx_dtype dtype, const fx_type *type, fx_tensor *out)
{
    int64_t sizes[FX_MAX_RANK];
    if (!fx_type_is_static(type) || type->rank > FX_MAX_RANK)
        return fx_fail(ctx, FX_ERR_TYPE, NULL, "expected a tensor with known dims, at most %d of them", FX_MAX_RANK);
    for (int i = 0; i < type->rank; i++)
        sizes[i] = type->dims[i].value;
    return fx_tensor_create(ctx, dtype, type->rank, sizes, out);
}

fx_status fx_tensor_contiguous(fx_context *ctx, const fx_tensor *t, fx_tensor *out)
{
    fx_tensor from = *t;
    FX_TRY(fx_tensor_touch(ctx, &from));
    if (fx_tensor_is_contiguous(&from)) {
        *out = from;
        return FX_OK;
    }
    FX_TRY(fx_tensor_create(ctx, t->dtype, t->rank, t->sizes, out));
    /* Odometer over all but the last dimension; contiguous implies rank 0, so there is a last one. */
    size_t size = fx_dtype_size(t->dtype);
    int last = t->rank - 1;
    int64_t index[FX_MAX_RANK] = {0}, rows = fx_tensor_numel(t) / t->sizes[last];
    char *to = out->data;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = 0;
        for (int i = 0; i < last; i++)
            at += index[i] * from.strides[i];
        const char *p = (const char *)from.data + at * (int64_t)size;
        if (from.strides[last] == 1) {
            memcpy(to, p, (size_t)t->sizes[last] * size);
            to += (size_t)t->sizes[last] * size;
        } else {
            for (int64_t i = 0; i < t->sizes[last]; i++, to += size)
                memcpy(to, p + i * from.strides[last] * (int64_t)size, size);
        }
        for (int i = last - 1; i >= 0 && ++index[i] == t->sizes[i]; i--)
            index[i] = 0;
    }
    return FX_OK;
}

/* ---- elements ------------------------------------------------------------------------------------------------------- */

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float fx_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1F, mantissa = h & 0x3FF;
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact */
        float f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    if (exponent == 31)
        return float_of(sign | 0x7F800000 | mantissa << 13);
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* Rounds to nearest, ties to even; NaN stays NaN with the upper bits of its payload. */
uint16_t fx_float_to_half(float f)
{
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
    if (magnitude >= 0x477FF000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7C00);
    if (magnitude < 0x38800000) { /* below 2^-14: a count of 2^-24, an exact product, rounded once */
        float scaled = float_of(magnitude) * 0x1p24f;
        return (uint16_t)(sign | (uint32_t)rintf(scaled));
    }
    uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
}

float fx_bf16_to_float(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t fx_float_to_bf16(float f)
{
    uint32_t u = float_bits(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static char *element(const fx_tensor *t, int64_t linear)
{
    int64_t at = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        at += linear % t->sizes[i] * t->strides[i];
        linear /= t->sizes[i];
    }
    return (char *)t->data + at * (int64_t)fx_dtype_size(t->dtype);
}

#define LOADER(T)                          \
    static T load_##T(const void *p)       \
    {                                      \
        T v;                               \
        memcpy(&v, p, sizeof v);           \
        return v;                          \
    }
LOADER(float)
LOADER(double)
LOADER(uint16_t)
LOADER(int8_t)
LOADER(int16_t)
LOADER(int32_t)
LOADER(int64_t)
LOADER(uint8_t)

/* C leaves a float out of an integer's range undefined; here it is what x86-64 and torch give: the lowest value. */
static int64_t to_int64(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

double fx_tensor_get(const fx_tensor *t, int64_t linear)
{
    const char *p = element(t, linear);
    switch (t->dtype) {
    case FX_F32:
    case FX_C64: return load_float(p);
    case FX_F64:
    case FX_C128: return load_double(p);
    case FX_F16: return fx_half_to_float(load_uint16_t(p));
    case FX_BF16: return fx_bf16_to_float(load_uint16_t(p));
    default: return (double)fx_tensor_get_int(t, linear);
    }
}

int64_t fx_tensor_get_int(const fx_tensor *t, int64_t linear)
{
    const char *p = element(t, linear);
    switch (t->dtype) {
    case FX_I8: return load_int8_t(p);
    case FX_I16: return load_int16_t(p);
    case FX_I32: return load_int32_t(p);
    case FX_I64: return load_int64_t(p);
    case FX_U8: return load_uint8_t(p);
    case FX_BOOL: return load_uint8_t(p) != 0;
    default: return to_int64(fx_tensor_get(t, linear));
    }
}

#define STORE(T, value)              \
    do {                             \
        T store_ = (T)(value);       \
        memcpy(p, &store_, sizeof store_); \
    } while (0)

/* A double becomes half by way of float, as in torch. */
void fx_tensor_set(fx_tensor *t, int64_t linear, double v)
{
    char *p = element(t, linear);
    switch (t->dtype) {
    case FX_F32: STORE(float, v); break;
    case FX_F64: STORE(double, v); break;
    case FX_F16: STORE(uint16_t, fx_float_to_half((float)v)); break;
    case FX_BF16: STORE(uint16_t, fx_float_to_bf16((float)v)); break;
    case FX_BOOL: STORE(uint8_t, v != 0); break;
    case FX_C64: {
        float pair[2] = {(float)v, 0};
        memcpy(p, pair, sizeof pair);
        break;
    }
    case FX_C128: {
        double pair[2] = {v, 0};
        memcpy(p, pair, sizeof pair);
        break;
    }
    default: fx_tensor_set_int(t, linear, to_int64(v)); break;
    }
}

void fx_tensor_set_int(fx_tensor *t, int64_t linear, int64_t v)
{
    char *p = element(t, linear);
    switch (t->dtype) {
    case FX_I8: STORE(int8_t, v); break;
    case FX_I16: STORE(int16_t, v); break;
    case FX_I32: STORE(int32_t, v); break;
    case FX_I64: STORE(int64_t, v); break;
    case FX_U8: STORE(uint8_t, v); break;
    case FX_BOOL: STORE(uint8_t, v != 0); break;
    case FX_F32: STORE(float, v); break;
    default: fx_tensor_set(t, linear, (double)v); break;
    }
}
