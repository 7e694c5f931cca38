/* frontend/zip_write.c: archives of stored entries, zip64 where sizes ask for it. Entries are written from where they lie.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>
#include <zlib.h>

#include "frontend/pt2.h"

/* APPNOTE.TXT 4.3; what a 32-bit field holds when zip64 has the value; 1 January 1980. */
enum { LOCAL = 30, ALIGNMENT = 64, VERSION = 20, VERSION64 = 45, DATE = 0x21 };
#define ELSEWHERE UINT32_MAX

typedef struct fx_zip_written {
    const char *name;
    uint64_t header, size;
    uint32_t crc;
} fx_zip_written;

/* A record put together. */
typedef struct record {
    unsigned char bytes[256];
    size_t n;
} record;

static void put(record *r, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        r->bytes[r->n++] = (unsigned char)(v >> 8 * i);
}

static uint64_t narrow(uint64_t v)
{
    return v >= ELSEWHERE ? ELSEWHERE : v;
}

static uint32_t checksum(const void *data, uint64_t size)
{
    const unsigned char *p = data;
    uLong crc = crc32(0, NULL, 0);
    while (size > 0) {
        uInt n = size > 1u << 30 ? 1u << 30 : (uInt)size;
        crc = crc32(crc, p, n);
        p += n;
        size -= n;
    }
    return (uint32_t)crc;
}

/* What local and central headers share, from the version on. */
static void put_common(record *r, const fx_zip_written *e, bool big)
{
    put(r, big ? VERSION64 : VERSION, 2);
    put(r, 1 << 11, 2); /* names are UTF-8 */
    put(r, 0, 2);       /* stored */
    put(r, 0, 2);
    put(r, DATE, 2);
    put(r, e->crc, 4);
    put(r, big ? ELSEWHERE : e->size, 4);
    put(r, big ? ELSEWHERE : e->size, 4);
    put(r, strlen(e->name), 2);
}

fx_status fx_zip_add(fx_zip_out *z, const char *name, const void *data, uint64_t size)
{
    fx_zip_written e = {.name = name, .header = z->o->size, .size = size, .crc = checksum(data, size)};
    size_t length = strlen(name);
    bool big = size >= ELSEWHERE;
    if (length > UINT16_MAX) {
        fx_loc loc = {.file = z->o->path};
        return fx_fail(z->o->ctx, FX_ERR_UNSUPPORTED, &loc, "the name of an entry has %zu bytes, more than a zip holds", length);
    }
    record r = {.n = 0};
    put(&r, 0x04034b50, 4);
    put_common(&r, &e, big);
    size_t extra = big ? 20 : 0, at = (size_t)((e.header + LOCAL + length + extra + 4) % ALIGNMENT), padding = (ALIGNMENT - at) % ALIGNMENT;
    put(&r, extra + 4 + padding, 2);
    FX_TRY(fx_output_write(z->o, r.bytes, r.n));
    FX_TRY(fx_output_write(z->o, name, length));
    r.n = 0;
    if (big) {
        put(&r, 1, 2);
        put(&r, 16, 2);
        put(&r, size, 8);
        put(&r, size, 8);
    }
    put(&r, 0x4246, 2); /* "FB": torch's own padding */
    put(&r, padding, 2);
    for (size_t i = 0; i < padding; i++)
        put(&r, 'Z', 1);
    FX_TRY(fx_output_write(z->o, r.bytes, r.n));
    for (uint64_t done = 0; done < size;) {
        size_t n = size - done > 1u << 30 ? 1u << 30 : (size_t)(size - done);
        FX_TRY(fx_output_write(z->o, (const char *)data + done, n));
        done += n;
    }
    FX_PUSH(z->arena, z->entries, z->n, z->cap) = e;
    return FX_OK;
}

static fx_status put_central(fx_zip_out *z, const fx_zip_written *e)
{
    bool big = e->size >= ELSEWHERE, far = e->header >= ELSEWHERE;
    record r = {.n = 0};
    put(&r, 0x02014b50, 4);
    put(&r, big || far ? VERSION64 : VERSION, 2);
    put_common(&r, e, big);
    size_t extra = (size_t)(big ? 16 : 0) + (far ? 8 : 0);
    put(&r, extra ? extra + 4 : 0, 2);
    put(&r, 0, 2 + 2 + 2); /* comment, disk, internal attributes */
    put(&r, 0, 4);
    put(&r, narrow(e->header), 4);
    FX_TRY(fx_output_write(z->o, r.bytes, r.n));
    FX_TRY(fx_output_write(z->o, e->name, strlen(e->name)));
    r.n = 0;
    if (extra) {
        put(&r, 1, 2);
        put(&r, extra, 2);
        if (big) {
            put(&r, e->size, 8);
            put(&r, e->size, 8);
        }
        if (far)
            put(&r, e->header, 8);
    }
    return fx_output_write(z->o, r.bytes, r.n);
}

fx_status fx_zip_end(fx_zip_out *z)
{
    uint64_t at = z->o->size;
    for (size_t i = 0; i < z->n; i++)
        FX_TRY(put_central(z, &z->entries[i]));
    uint64_t size = z->o->size - at, end = z->o->size;
    record r = {.n = 0};
    if (z->n >= UINT16_MAX || at >= ELSEWHERE || size >= ELSEWHERE) {
        put(&r, 0x06064b50, 4);
        put(&r, 44, 8);
        put(&r, VERSION64, 2);
        put(&r, VERSION64, 2);
        put(&r, 0, 8);
        put(&r, z->n, 8);
        put(&r, z->n, 8);
        put(&r, size, 8);
        put(&r, at, 8);
        put(&r, 0x07064b50, 4);
        put(&r, 0, 4);
        put(&r, end, 8);
        put(&r, 1, 4);
    }
    uint64_t n = z->n >= UINT16_MAX ? UINT16_MAX : z->n;
    put(&r, 0x06054b50, 4);
    put(&r, 0, 4);
    put(&r, n, 2);
    put(&r, n, 2);
    put(&r, narrow(size), 4);
    put(&r, narrow(at), 4);
    put(&r, 0, 2);
    return fx_output_write(z->o, r.bytes, r.n);
}
