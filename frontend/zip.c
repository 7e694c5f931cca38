/* frontend/zip.c: archives, read from the mapped bytes so that stored weights are never copied. The central directory is what counts:
 * torch writes local headers with zero sizes and checksums. A reader of our own because minizip 1.1, which Debian 12 has, compares
 * 32-bit fields with a 64-bit -1 and so takes no zip64 sizes and offsets: it cannot read archives above 4 GB.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "frontend/pt2.h"

/* Sizes of records without what varies (APPNOTE.TXT 4.3), and what a 32-bit field holds when zip64 has the value. */
enum { LOCAL = 30, CENTRAL = 46, END = 22, END64 = 56, LOCATOR64 = 20, MAX_COMMENT = 65535 };
#define ELSEWHERE UINT32_MAX

static uint64_t get(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

static bool is(const unsigned char *p, const char *signature)
{
    return memcmp(p, signature, 4) == 0;
}

/* Where the directory is. */
typedef struct directory {
    uint64_t at, size, n;
} directory;

/* The record that ends the file, after which only its own comment may follow; NULL if there is none. */
static const unsigned char *find_end(const fx_file *f)
{
    for (size_t comment = 0; comment <= MAX_COMMENT && comment + END <= f->size; comment++) {
        const unsigned char *p = f->data + (f->size - END - comment);
        if (is(p, "PK\5\6") && get(p + 20, 2) == comment)
            return p;
    }
    return NULL;
}

static fx_status find_directory(fx_context *ctx, const fx_file *f, directory *d)
{
    fx_loc loc = {.file = f->name};
    const unsigned char *end = find_end(f);
    if (!end)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt or truncated zip: expected its end record at the end");
    uint64_t limit = (uint64_t)(end - f->data);
    *d = (directory){.n = get(end + 10, 2), .size = get(end + 12, 4), .at = get(end + 16, 4)};
    if (get(end + 4, 2) != 0 || get(end + 6, 2) != 0 || get(end + 8, 2) != d->n)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc, "zips of several volumes are not read");
    if (limit >= LOCATOR64 && is(end - LOCATOR64, "PK\6\7")) {
        uint64_t at = get(end - LOCATOR64 + 8, 8);
        if (limit < LOCATOR64 + END64 || at > limit - LOCATOR64 - END64 || !is(f->data + at, "PK\6\6"))
            return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: expected a zip64 end record at offset %llu", (unsigned long long)at);
        const unsigned char *p = f->data + at;
        *d = (directory){.n = get(p + 32, 8), .size = get(p + 40, 8), .at = get(p + 48, 8)};
        limit = at;
    }
    if (d->at > limit || d->size > limit - d->at || d->n > d->size / CENTRAL)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: a directory of %llu entries in %llu bytes at offset %llu does not lie in the file",
                       (unsigned long long)d->n, (unsigned long long)d->size, (unsigned long long)d->at);
    return FX_OK;
}

/* Values that do not fit 32 bits stand in an extra field, in this order, each only if it does not fit. */
static bool read_zip64(const unsigned char *extra, size_t n, uint64_t *size, uint64_t *packed, uint64_t *at)
{
    uint64_t *values[3] = {size, packed, at};
    bool missing = *size == ELSEWHERE || *packed == ELSEWHERE || *at == ELSEWHERE;
    while (missing && n >= 4) {
        size_t field = (size_t)get(extra + 2, 2);
        if (field > n - 4)
            return false;
        if (get(extra, 2) == 1) {
            const unsigned char *p = extra + 4, *end = p + field;
            for (int i = 0; i < 3; i++)
                if (*values[i] == ELSEWHERE) {
                    if (end - p < 8)
                        return false;
                    *values[i] = get(p, 8);
                    p += 8;
                }
            return true;
        }
        extra += 4 + field;
        n -= 4 + field;
    }
    return !missing;
}

/* The local header tells only where the data begin; its name must be the directory's. */
static bool find_data(const fx_zip *zip, fx_zip_entry *e, const unsigned char *name, size_t name_size, uint64_t limit)
{
    if (e->header > limit || limit - e->header < LOCAL)
        return false;
    const unsigned char *p = zip->file->data + e->header;
    uint64_t n = get(p + 26, 2), extra = get(p + 28, 2), room = limit - e->header - LOCAL;
    if (!is(p, "PK\3\4") || n != name_size || n + extra > room || memcmp(p + LOCAL, name, name_size) != 0)
        return false;
    e->offset = e->header + LOCAL + n + extra;
    return e->packed <= limit - e->offset;
}

/* One entry of the directory at p, before end; *next gets where the following one begins. */
static fx_status read_entry(fx_zip *zip, const directory *d, const unsigned char *p, const unsigned char *end, const unsigned char **next)
{
    fx_context *ctx = zip->ctx;
    fx_loc loc = {.file = zip->file->name};
    size_t left = (size_t)(end - p);
    size_t name = left < CENTRAL ? 0 : (size_t)get(p + 28, 2), extra = left < CENTRAL ? 0 : (size_t)get(p + 30, 2);
    size_t comment = left < CENTRAL ? 0 : (size_t)get(p + 32, 2);
    if (left < CENTRAL || !is(p, "PK\1\2") || left - CENTRAL < name + extra + comment)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: expected entry %zu of the directory at offset %llu", zip->n,
                       (unsigned long long)(p - zip->file->data));
    if (!name || memchr(p + CENTRAL, 0, name))
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the name of entry %zu is empty or holds a zero byte", zip->n);
    unsigned flags = (unsigned)get(p + 8, 2), method = (unsigned)get(p + 10, 2);
    fx_zip_entry e = {.name = fx_intern_n(ctx, (const char *)p + CENTRAL, name), .crc = (uint32_t)get(p + 16, 4), .packed = get(p + 20, 4),
                      .size = get(p + 24, 4), .header = get(p + 42, 4), .deflated = method == Z_DEFLATED};
    loc.entry = e.name;
    if (flags & 1)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc, "encrypted zip entries are not read");
    if (method != 0 && !e.deflated)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc, "expected a stored or deflated zip entry, got method %u", method);
    if (!read_zip64(p + CENTRAL + name, extra, &e.size, &e.packed, &e.header))
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: expected the entry's size in a zip64 field");
    if (!e.deflated && e.packed != e.size)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: a stored entry of %llu bytes says it holds %llu", (unsigned long long)e.packed,
                       (unsigned long long)e.size);
    if (!find_data(zip, &e, p + CENTRAL, name, d->at))
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: expected a local header and %llu bytes at offset %llu, before the directory at %llu",
                       (unsigned long long)e.packed, (unsigned long long)e.header, (unsigned long long)d->at);
    FX_PUSH(fx_context_arena(ctx), zip->entries, zip->n, zip->cap) = e;
    *next = p + CENTRAL + name + extra + comment;
    return FX_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const fx_zip_entry *)a)->name, ((const fx_zip_entry *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const fx_zip_entry *x = *(const fx_zip_entry *const *)a, *y = *(const fx_zip_entry *const *)b;
    return x->header != y->header ? (x->header < y->header ? -1 : 1) : (x->packed > y->packed) - (x->packed < y->packed);
}

/* No name twice, no byte in two entries. */
static fx_status check_entries(fx_zip *zip, const fx_zip_entry **order)
{
    if (zip->n == 0)
        return FX_OK;
    qsort(zip->entries, zip->n, sizeof *zip->entries, by_name);
    for (size_t i = 1; i < zip->n; i++)
        if (zip->entries[i].name == zip->entries[i - 1].name) {
            fx_loc loc = {.file = zip->file->name, .entry = zip->entries[i].name};
            return fx_fail(zip->ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the entry is there twice");
        }
    for (size_t i = 0; i < zip->n; i++)
        order[i] = &zip->entries[i];
    qsort(order, zip->n, sizeof *order, by_offset);
    for (size_t i = 1; i < zip->n; i++)
        if (order[i]->header < order[i - 1]->offset + order[i - 1]->packed) {
            fx_loc loc = {.file = zip->file->name, .entry = order[i]->name};
            return fx_fail(zip->ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the entry overlaps '%s'", order[i - 1]->name);
        }
    return FX_OK;
}

fx_status fx_zip_open(fx_context *ctx, fx_file *file, fx_zip **out)
{
    fx_zip *zip = FX_NEW(fx_context_arena(ctx), fx_zip);
    *zip = (fx_zip){.ctx = ctx, .file = file};
    directory d = {0};
    FX_TRY(find_directory(ctx, file, &d));
    const unsigned char *p = file->data + d.at, *end = p + d.size;
    for (uint64_t i = 0; i < d.n; i++)
        FX_TRY(read_entry(zip, &d, p, end, &p));
    if (p != end) {
        fx_loc loc = {.file = file->name};
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: its directory goes on after its %llu entries", (unsigned long long)d.n);
    }
    fx_arena *tmp = fx_arena_create(ctx);
    fx_status status = check_entries(zip, FX_NEW_ARRAY(tmp, const fx_zip_entry *, zip->n));
    fx_arena_free(tmp);
    FX_TRY(status);
    *out = zip;
    return FX_OK;
}

const fx_zip_entry *fx_zip_find(const fx_zip *zip, const char *name)
{
    fx_zip_entry key = {.name = name};
    return zip->n ? bsearch(&key, zip->entries, zip->n, sizeof *zip->entries, by_name) : NULL;
}

/* Inflates into memory that the caller sized by the directory; anything longer or shorter is an error. */
static fx_status inflate_entry(const fx_zip *zip, const fx_zip_entry *e, unsigned char *out, const fx_loc *loc)
{
    z_stream *z = FX_NEW(fx_context_arena(zip->ctx), z_stream);
    int rc = inflateInit2(z, -MAX_WBITS);
    if (rc == Z_MEM_ERROR)
        fx_out_of_memory(zip->ctx);
    uint64_t in = 0, done = 0;
    while (rc == Z_OK) {
        uint64_t can_read = e->packed - in, can_write = e->size - done;
        z->next_in = (Bytef *)(uintptr_t)(zip->file->data + e->offset + in);
        z->avail_in = can_read > 1u << 30 ? 1u << 30 : (uInt)can_read;
        z->next_out = out + done;
        z->avail_out = can_write > 1u << 30 ? 1u << 30 : (uInt)can_write;
        uInt in0 = z->avail_in, out0 = z->avail_out;
        rc = inflate(z, Z_NO_FLUSH);
        in += in0 - z->avail_in;
        done += out0 - z->avail_out;
        if (rc == Z_OK && in0 == z->avail_in && out0 == z->avail_out)
            rc = Z_BUF_ERROR;
    }
    inflateEnd(z);
    if (rc != Z_STREAM_END || done != e->size)
        return fx_fail(zip->ctx, FX_ERR_FORMAT, loc, "corrupt zip: the entry does not inflate to its %llu bytes",
                       (unsigned long long)e->size);
    return FX_OK;
}

const unsigned char *fx_zip_peek(const fx_zip *zip, const fx_zip_entry *e, size_t alignment)
{
    const unsigned char *data = zip->file->data + e->offset;
    return e->deflated || (uintptr_t)data % alignment != 0 ? NULL : data;
}

fx_status fx_zip_check(const fx_zip *zip, const fx_zip_entry *e, uint32_t crc)
{
    fx_loc loc = {.file = zip->file->name, .entry = e->name};
    if (crc == e->crc)
        return FX_OK;
    return fx_fail(zip->ctx, FX_ERR_FORMAT, &loc, "checksum differs: the directory says %08x, the data gives %08x", (unsigned)e->crc, (unsigned)crc);
}

fx_status fx_zip_read(const fx_zip *zip, const fx_zip_entry *e, fx_arena *arena, size_t alignment, const unsigned char **out)
{
    fx_loc loc = {.file = zip->file->name, .entry = e->name};
    const unsigned char *data = zip->file->data + e->offset;
    if (e->deflated) {
        /* Deflate cannot do better than 1032 to 1: a greater size is a lie that would only exhaust memory. */
        if (e->size / 1032 > e->packed)
            return fx_fail(zip->ctx, FX_ERR_FORMAT, &loc, "corrupt zip: %llu deflated bytes cannot give %llu",
                           (unsigned long long)e->packed, (unsigned long long)e->size);
        unsigned char *buf = fx_arena_alloc(arena, e->size ? (size_t)e->size : 1);
        FX_TRY(inflate_entry(zip, e, buf, &loc));
        data = buf;
    }
    FX_TRY(fx_zip_check(zip, e, fx_crc32(0, data, (size_t)e->size)));
    if (!e->deflated && (uintptr_t)data % alignment != 0)
        data = fx_arena_dup(arena, data, (size_t)e->size);
    *out = data;
    return FX_OK;
}
