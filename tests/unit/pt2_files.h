/* tests/unit/pt2_files.h: fixtures in memory, taken apart and put together again with other contents.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TESTS_PT2_FILES_H
#define FXCC_TESTS_PT2_FILES_H

#include <stdio.h>
#include <zlib.h>

#include "frontend/frontend.h"
#include "frontend/pt2.h"
#include "tests/unit/unit.h"

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static inline bytes read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    bytes b = {NULL, 0};
    fseek(f, 0, SEEK_END);
    b.size = (size_t)ftell(f);
    rewind(f);
    b.data = malloc(b.size);
    ck_assert_uint_eq(fread(b.data, 1, b.size, f), b.size);
    fclose(f);
    return b;
}

static inline const char *fixture_path(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/tests/frontend/fixtures/%s.pt2", FXCC_SOURCE_DIR, name);
    return path;
}

/* One entry of a zip to write. */
typedef struct part {
    char *name;
    unsigned char *data;
    size_t size, pad;   /* pad: bytes of extra field, to align or misalign the data */
    bool deflate;
    uint32_t crc_xor;   /* spoils the checksum */
} part;

typedef struct parts {
    part *items;
    size_t n;
    bool zip64; /* sizes and offsets in 64-bit fields, as archives above 4 GB have them */
} parts;

/* All entries of an archive. */
static inline parts take_apart(bytes zip)
{
    fx_context *ctx = fx_context_create();
    fx_zip *z = NULL;
    ck_assert_int_eq(fx_zip_open(ctx, fx_file_memory(ctx, "fixture", zip.data, zip.size), &z), FX_OK);
    parts p = {calloc(z->n + 8, sizeof *p.items), z->n, false};
    for (size_t i = 0; i < z->n; i++) {
        const fx_zip_entry *e = &z->entries[i];
        size_t n = strlen(e->name) + 1;
        p.items[i] = (part){.name = malloc(n), .data = malloc((size_t)e->size + 1), .size = (size_t)e->size};
        memcpy(p.items[i].name, e->name, n);
        memcpy(p.items[i].data, zip.data + e->offset, (size_t)e->size);
        p.items[i].data[e->size] = 0;
    }
    fx_context_free(ctx);
    return p;
}

static inline void free_parts(parts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->items[i].name);
        free(p->items[i].data);
    }
    free(p->items);
}

static inline part *find_part(parts *p, const char *ending)
{
    for (size_t i = 0; i < p->n; i++) {
        size_t n = strlen(p->items[i].name), m = strlen(ending);
        if (n >= m && !strcmp(p->items[i].name + n - m, ending))
            return &p->items[i];
    }
    ck_abort_msg("no entry %s", ending);
    return NULL;
}

/* Replaces the first `from` in the entry by `to`. */
static inline void replace(part *e, const char *from, const char *to)
{
    char *at = strstr((char *)e->data, from);
    ck_assert_msg(at != NULL, "no '%s' in %s", from, e->name);
    size_t before = (size_t)(at - (char *)e->data), n = strlen(from), m = strlen(to);
    unsigned char *data = malloc(e->size - n + m + 1);
    memcpy(data, e->data, before);
    memcpy(data + before, to, m);
    memcpy(data + before + m, e->data + before + n, e->size - before - n + 1);
    free(e->data);
    e->data = data;
    e->size = e->size - n + m;
}

static inline void put(bytes *out, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        out->data[out->size++] = i < 8 ? (unsigned char)(v >> (8 * i)) : 0;
}

static inline void put_bytes(bytes *out, const void *data, size_t n)
{
    if (n)
        memcpy(out->data + out->size, data, n);
    out->size += n;
}

/* Writes them as a zip, with local headers like torch's (zero sizes, flag 8). */
static inline bytes put_together(const parts *p)
{
    size_t room = 1024;
    for (size_t i = 0; i < p->n; i++)
        room += compressBound((uLong)p->items[i].size) + p->items[i].size + 2 * strlen(p->items[i].name) + p->items[i].pad + 256;
    bytes out = {malloc(room), 0}, directory = {malloc(room), 0};
    for (size_t i = 0; i < p->n; i++) {
        const part *e = &p->items[i];
        size_t name = strlen(e->name), offset = out.size, packed = e->size;
        uint32_t crc = (uint32_t)crc32(0, e->data, (uInt)e->size) ^ e->crc_xor;
        unsigned char *deflated = NULL;
        if (e->deflate) {
            uLong bound = compressBound((uLong)e->size) + 64;
            deflated = malloc(bound);
            z_stream z = {0};
            ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
            z.next_in = e->data;
            z.avail_in = (uInt)e->size;
            z.next_out = deflated;
            z.avail_out = (uInt)bound;
            ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
            packed = z.total_out;
            deflateEnd(&z);
        }
        int method = e->deflate ? 8 : 0;
        put(&out, 0x04034b50, 4), put(&out, 0, 2), put(&out, 8, 2), put(&out, (uint64_t)method, 2), put(&out, 0, 16);
        put(&out, name, 2), put(&out, e->pad, 2), put_bytes(&out, e->name, name);
        for (size_t k = 0; k < e->pad; k++)
            put(&out, 0, 1);
        put_bytes(&out, deflated ? deflated : e->data, packed);
        free(deflated);
        put(&directory, 0x02014b50, 4), put(&directory, 0, 4), put(&directory, 8, 2), put(&directory, (uint64_t)method, 2);
        put(&directory, 0, 4), put(&directory, crc, 4);
        put(&directory, p->zip64 ? UINT32_MAX : packed, 4), put(&directory, p->zip64 ? UINT32_MAX : e->size, 4), put(&directory, name, 2);
        put(&directory, p->zip64 ? 28 : 0, 2), put(&directory, 0, 10), put(&directory, p->zip64 ? UINT32_MAX : offset, 4);
        put_bytes(&directory, e->name, name);
        if (p->zip64)
            put(&directory, 1, 2), put(&directory, 24, 2), put(&directory, e->size, 8), put(&directory, packed, 8), put(&directory, offset, 8);
    }
    size_t start = out.size;
    put_bytes(&out, directory.data, directory.size);
    if (p->zip64) {
        size_t record = out.size;
        put(&out, 0x06064b50, 4), put(&out, 44, 8), put(&out, 0, 4), put(&out, 0, 8), put(&out, p->n, 8), put(&out, p->n, 8);
        put(&out, directory.size, 8), put(&out, start, 8);
        put(&out, 0x07064b50, 4), put(&out, 0, 4), put(&out, record, 8), put(&out, 1, 4);
    }
    put(&out, 0x06054b50, 4), put(&out, 0, 4), put(&out, p->n, 2), put(&out, p->n, 2), put(&out, directory.size, 4), put(&out, start, 4);
    put(&out, 0, 2);
    free(directory.data);
    return out;
}

#endif
