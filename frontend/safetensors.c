/* frontend/safetensors.c: .safetensors files: eight bytes of length, a JSON header that tells each tensor's dtype, shape and place, then the
 * elements. Whatever the bytes are, what is read lies in the file.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "frontend/pt2.h"

enum { LENGTH = 8, MAX_HEADER = 100 * 1000 * 1000, ALIGNMENT = 64 };

static const struct {
    const char *name;
    int dtype; /* fx_dtype, -1: not supported */
} dtypes[] = {
    {"F64", FX_F64}, {"F32", FX_F32}, {"F16", FX_F16}, {"BF16", FX_BF16}, {"I64", FX_I64}, {"I32", FX_I32}, {"I16", FX_I16}, {"I8", FX_I8},
    {"U8", FX_U8},   {"BOOL", FX_BOOL}, {"C64", FX_C64}, {"U16", -1}, {"U32", -1}, {"U64", -1}, {"F8_E4M3", -1}, {"F8_E5M2", -1},
};

static fx_status read_dtype(const fx_json *r, const char *name, fx_dtype *out)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) != 0)
            continue;
        if (dtypes[i].dtype < 0)
            return fx_fail(r->ctx, FX_ERR_UNSUPPORTED, &r->loc, "dtype %s is not supported", name);
        *out = (fx_dtype)dtypes[i].dtype;
        return FX_OK;
    }
    return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected a dtype such as F32, got '%.40s'", name);
}

static const char *dtype_name(fx_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == (int)dtype)
            return dtypes[i].name;
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* "shape" and the bytes it stands for. */
static fx_status read_shape(const fx_json *r, const fx_json_value *entry, fx_safetensor *t, uint64_t *bytes)
{
    const fx_json_value *shape;
    FX_TRY(fx_json_array(r, entry, "shape", &shape));
    size_t rank = fx_json_size(shape);
    if (rank > FX_MAX_RANK)
        return fx_fail(r->ctx, FX_ERR_UNSUPPORTED, &r->loc, "expected at most %d dimensions, got %zu", FX_MAX_RANK, rank);
    t->rank = (int)rank;
    int64_t n = (int64_t)fx_dtype_size(t->dtype);
    bool empty = false, overflow = false;
    for (size_t i = 0; i < rank; i++) {
        const fx_json_value *size = fx_json_at(shape, i);
        FX_TRY(fx_json_expect(r, size, FX_JSON_INT, "shape"));
        if (size->i < 0)
            return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected sizes of at least 0, got %lld", (long long)size->i);
        t->sizes[i] = size->i;
        empty |= size->i == 0;
        overflow |= __builtin_mul_overflow(n, size->i ? size->i : 1, &n);
    }
    if (overflow)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "the size of a tensor in bytes overflows 64 bits");
    *bytes = empty ? 0 : (uint64_t)n;
    return FX_OK;
}

static fx_status read_entry(const fx_json *r, const fx_json_value *entry, uint64_t size, fx_safetensor *t)
{
    const char *dtype;
    const fx_json_value *at;
    uint64_t bytes = 0;
    FX_TRY(fx_json_string(r, entry, "dtype", &dtype));
    FX_TRY(read_dtype(r, dtype, &t->dtype));
    FX_TRY(read_shape(r, entry, t, &bytes));
    FX_TRY(fx_json_array(r, entry, "data_offsets", &at));
    const fx_json_value *begin = fx_json_at(at, 0), *end = fx_json_at(at, 1);
    if (fx_json_size(at) != 2 || !fx_json_is(begin, FX_JSON_INT) || !fx_json_is(end, FX_JSON_INT) || fx_json_size(entry) != 3)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected dtype, shape and data_offsets of two integers, and no more");
    if (begin->i < 0 || end->i < begin->i || (uint64_t)end->i > size)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "data_offsets [%lld, %lld] do not lie in the %llu bytes of data", (long long)begin->i,
                       (long long)end->i, (unsigned long long)size);
    t->begin = (uint64_t)begin->i;
    t->end = (uint64_t)end->i;
    if (t->end - t->begin != bytes)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "dtype and shape make %llu bytes, data_offsets [%lld, %lld] are %llu",
                       (unsigned long long)bytes, (long long)begin->i, (long long)end->i, (unsigned long long)(t->end - t->begin));
    return FX_OK;
}

static int by_place(const void *a, const void *b)
{
    const fx_safetensor *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* Side by side from the first byte to the last, as the format asks. */
static fx_status check_places(const fx_json *r, const fx_safetensors *s, uint64_t size)
{
    uint64_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        const fx_safetensor *t = &s->tensors[i];
        fx_loc loc = {.file = r->loc.file, .entry = t->name};
        if (t->begin != at)
            return fx_fail(r->ctx, FX_ERR_FORMAT, &loc, "%s: expected data at %llu, got %llu", t->begin < at ? "the tensor overlaps another" :
                           "there is a gap before the tensor", (unsigned long long)at, (unsigned long long)t->begin);
        at = t->end;
    }
    if (at != size)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected the tensors to fill the %llu bytes of data, got %llu", (unsigned long long)size,
                       (unsigned long long)at);
    return FX_OK;
}

static uint64_t little_endian(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = LENGTH; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

static fx_status read_header(fx_json *r, fx_arena *tmp, fx_safetensors *s)
{
    fx_context *ctx = r->ctx;
    const fx_file *f = s->file;
    const fx_json_value *header;
    uint64_t length = f->size >= LENGTH ? little_endian(f->data) : 0;
    if (f->size < LENGTH || length > f->size - LENGTH || length > MAX_HEADER)
        return fx_fail(ctx, FX_ERR_FORMAT, &r->loc, "expected a header of at most %llu bytes, got %llu: not a .safetensors, or a truncated one",
                       (unsigned long long)(f->size < LENGTH ? 0 : f->size - LENGTH), (unsigned long long)length);
    FX_TRY(fx_json_parse(r, tmp, (const char *)f->data + LENGTH, (size_t)length, &header));
    FX_TRY(fx_json_expect(r, header, FX_JSON_OBJECT, "header"));
    s->data = LENGTH + length;
    s->tensors = FX_NEW_ARRAY(fx_context_arena(ctx), fx_safetensor, fx_json_size(header));
    for (size_t i = 0; i < fx_json_size(header); i++) {
        const fx_json_value *entry = &header->items[i];
        if (strcmp(entry->key, "__metadata__") == 0) {
            FX_TRY(fx_json_expect(r, entry, FX_JSON_OBJECT, entry->key));
            continue;
        }
        fx_safetensor *t = &s->tensors[s->n++];
        t->name = r->loc.entry = fx_intern(ctx, entry->key);
        FX_TRY(read_entry(r, entry, f->size - s->data, t));
    }
    r->loc.entry = NULL;
    if (s->n)
        qsort(s->tensors, s->n, sizeof *s->tensors, by_place);
    for (size_t i = 0; i < s->n; i++)
        fx_map_put(fx_context_arena(ctx), &s->by_name, s->tensors[i].name, &s->tensors[i]);
    return check_places(r, s, f->size - s->data);
}

static void free_arena(void *arg)
{
    fx_arena_free(arg);
}

fx_status fx_safetensors_open(fx_context *ctx, fx_file *file, fx_safetensors **out)
{
    fx_arena *tmp = fx_arena_create(ctx);
    fx_defer(ctx, free_arena, tmp);
    fx_safetensors *s = FX_NEW(fx_context_arena(ctx), fx_safetensors);
    fx_json r = {.ctx = ctx, .loc = {.file = file->name}};
    s->file = file;
    FX_TRY(read_header(&r, tmp, s));
    *out = s;
    return FX_OK;
}

const fx_safetensor *fx_safetensors_find(const fx_safetensors *s, const char *name)
{
    return fx_map_get(&s->by_name, fx_intern(s->file->ctx, name));
}

/* What a storage of the file needs to be brought in. */
typedef struct source {
    fx_file *file;
    uint64_t offset, size;
    size_t alignment;
} source;

static fx_status touch(fx_storage *st)
{
    const source *s = st->user;
    const unsigned char *data = s->file->data + s->offset;
    if ((uintptr_t)data % s->alignment != 0)
        data = fx_arena_dup(fx_context_arena(st->ctx), data, (size_t)s->size);
    st->data = (void *)(uintptr_t)data;
    return FX_OK;
}

static void release(fx_storage *st)
{
    const source *s = st->user;
    fx_file_drop(s->file);
}

void fx_safetensors_bind(const fx_safetensors *s, const fx_safetensor *t, size_t alignment, fx_storage *st)
{
    fx_context *ctx = s->file->ctx;
    source *from = FX_NEW(fx_context_arena(ctx), source);
    *from = (source){.file = s->file, .offset = s->data + t->begin, .size = t->end - t->begin, .alignment = alignment};
    fx_file_hold(s->file);
    st->user = from;
    st->touch = touch;
    st->release = release;
    st->nbytes = (size_t)from->size;
    st->readonly = true;
}

/* ---- writing --------------------------------------------------------------------------------------------------------- */

/* Larger elements first: then each tensor is aligned for its own. */
static int by_element(const void *a, const void *b)
{
    const fx_safetensor_source *x = *(fx_safetensor_source *const *)a, *y = *(fx_safetensor_source *const *)b;
    size_t m = fx_dtype_size(x->is.dtype), n = fx_dtype_size(y->is.dtype);
    return m != n ? (m > n ? -1 : 1) : strcmp(x->is.name, y->is.name);
}

static fx_status put_entry(fx_output *o, fx_text *header, fx_safetensor_source *t, uint64_t *at)
{
    fx_loc loc = {.file = o->path, .entry = t->is.name};
    const char *dtype = dtype_name(t->is.dtype);
    if (!dtype)
        return fx_fail(o->ctx, FX_ERR_UNSUPPORTED, &loc, "a .safetensors cannot hold dtype %s", fx_dtype_name(t->is.dtype));
    if (!fx_json_put(header, t->is.name))
        return fx_fail(o->ctx, FX_ERR_UNSUPPORTED, &loc, "the tensor's name is not valid UTF-8");
    uint64_t bytes = fx_dtype_size(t->is.dtype);
    fx_printf(header, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (int i = 0; i < t->is.rank; i++) {
        fx_printf(header, "%s%lld", i ? "," : "", (long long)t->is.sizes[i]);
        bytes *= (uint64_t)t->is.sizes[i];
    }
    t->is.begin = *at;
    t->is.end = *at += bytes;
    fx_printf(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->is.begin, (unsigned long long)t->is.end);
    return FX_OK;
}

fx_status fx_safetensors_write(fx_output *o, size_t n, fx_safetensor_source **tensors)
{
    fx_arena *tmp = fx_arena_create(o->ctx);
    fx_defer(o->ctx, free_arena, tmp);
    fx_text header;
    fx_text_init(&header, tmp);
    uint64_t at = 0;
    if (n)
        qsort(tensors, n, sizeof *tensors, by_element);
    fx_puts(&header, "{");
    for (size_t i = 0; i < n; i++) {
        fx_puts(&header, i ? "," : "");
        FX_TRY(put_entry(o, &header, tensors[i], &at));
    }
    fx_puts(&header, "}");
    while ((header.size + LENGTH) % ALIGNMENT)
        fx_puts(&header, " ");
    unsigned char length[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        length[i] = (unsigned char)(header.size >> 8 * i);
    FX_TRY(fx_output_write(o, length, sizeof length));
    FX_TRY(fx_output_text(o, &header));
    for (size_t i = 0; i < n; i++) {
        fx_tensor whole = {.dtype = FX_U8, .storage = tensors[i]->storage};
        FX_TRY(fx_tensor_touch(o->ctx, &whole));
        if (tensors[i]->is.end > tensors[i]->is.begin)
            FX_TRY(fx_output_write(o, (const char *)tensors[i]->storage->data + tensors[i]->offset,
                                   (size_t)(tensors[i]->is.end - tensors[i]->is.begin)));
    }
    return FX_OK;
}
