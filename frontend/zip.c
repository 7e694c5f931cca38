/* frontend/zip.c: archives. minizip reads the directory (zip64 too) over the mapped bytes; the data is then taken from the
 * mapping itself, so that stored weights are never copied. The central directory is what counts: torch writes local
 * headers with zero sizes and checksums.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>
#include <minizip/unzip.h>
#include <zlib.h>

#include "frontend/pt2.h"

/* minizip's view of a mapped file. */
typedef struct stream {
    const unsigned char *data;
    size_t size, at;
} stream;

static voidpf ZCALLBACK stream_open(voidpf opaque, const void *name, int mode)
{
    (void)name;
    (void)mode;
    return opaque;
}

static uLong ZCALLBACK stream_read(voidpf opaque, voidpf handle, void *buf, uLong size)
{
    stream *s = handle;
    (void)opaque;
    size_t left = s->at < s->size ? s->size - s->at : 0;
    size_t n = size < left ? size : left;
    if (n)
        memcpy(buf, s->data + s->at, n);
    s->at += n;
    return (uLong)n;
}

static uLong ZCALLBACK stream_write(voidpf opaque, voidpf handle, const void *buf, uLong size)
{
    (void)opaque;
    (void)handle;
    (void)buf;
    (void)size;
    return 0;
}

static ZPOS64_T ZCALLBACK stream_tell(voidpf opaque, voidpf handle)
{
    (void)opaque;
    return ((stream *)handle)->at;
}

static long ZCALLBACK stream_seek(voidpf opaque, voidpf handle, ZPOS64_T offset, int origin)
{
    stream *s = handle;
    (void)opaque;
    uint64_t base = origin == ZLIB_FILEFUNC_SEEK_SET ? 0 : origin == ZLIB_FILEFUNC_SEEK_CUR ? s->at : s->size;
    uint64_t at = base + offset;
    if (at < base || at > s->size)
        return -1;
    s->at = (size_t)at;
    return 0;
}

static int ZCALLBACK stream_close(voidpf opaque, voidpf handle)
{
    (void)opaque;
    (void)handle;
    return 0;
}

static int ZCALLBACK stream_error(voidpf opaque, voidpf handle)
{
    (void)opaque;
    (void)handle;
    return 0;
}

static void close_unzip(void *arg)
{
    unzFile *u = arg;
    if (*u)
        unzClose(*u);
    *u = NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const fx_zip_entry *)a)->name, ((const fx_zip_entry *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const fx_zip_entry *x = *(const fx_zip_entry *const *)a, *y = *(const fx_zip_entry *const *)b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1) : (x->packed > y->packed) - (x->packed < y->packed);
}

/* The entry minizip stands on. */
static fx_status read_entry(fx_zip *zip, unzFile u, char *name, size_t name_size, const fx_loc *archive)
{
    fx_context *ctx = zip->ctx;
    unz_file_info64 info;
    if (unzGetCurrentFileInfo64(u, &info, name, (uLong)name_size, NULL, 0, NULL, 0) != UNZ_OK)
        return fx_fail(ctx, FX_ERR_FORMAT, archive, "corrupt zip: the directory ends early at entry %zu", zip->n);
    name[name_size - 1] = 0;
    if (info.size_filename >= name_size || strlen(name) != info.size_filename)
        return fx_fail(ctx, FX_ERR_FORMAT, archive, "corrupt zip: the name of entry %zu holds a zero byte", zip->n);
    fx_zip_entry e = {.name = fx_intern(ctx, name), .packed = info.compressed_size, .size = info.uncompressed_size,
                      .crc = (uint32_t)info.crc, .deflated = info.compression_method == Z_DEFLATED};
    fx_loc loc = {.file = archive->file, .entry = e.name};
    if (info.flag & 1)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc, "encrypted zip entries are not read");
    if (info.compression_method != 0 && !e.deflated)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc, "expected a stored or deflated zip entry, got method %lu",
                       (unsigned long)info.compression_method);
    if (unzOpenCurrentFile2(u, NULL, NULL, 1) != UNZ_OK)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the entry's local header contradicts the directory");
    e.offset = unzGetCurrentFileZStreamPos64(u);
    unzCloseCurrentFile(u);
    if (!e.deflated && e.packed != e.size)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: a stored entry of %llu bytes says it holds %llu",
                       (unsigned long long)e.packed, (unsigned long long)e.size);
    if (e.offset > zip->file->size || e.packed > zip->file->size - e.offset)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the entry's %llu bytes at offset %llu reach past the end of the file (%zu bytes)",
                       (unsigned long long)e.packed, (unsigned long long)e.offset, zip->file->size);
    FX_PUSH(fx_context_arena(ctx), zip->entries, zip->n, zip->cap) = e;
    return FX_OK;
}

static fx_status check_entries(fx_zip *zip, fx_arena *arena)
{
    if (zip->n == 0)
        return FX_OK;
    qsort(zip->entries, zip->n, sizeof *zip->entries, by_name);
    for (size_t i = 1; i < zip->n; i++)
        if (zip->entries[i].name == zip->entries[i - 1].name) {
            fx_loc loc = {.file = zip->file->name, .entry = zip->entries[i].name};
            return fx_fail(zip->ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the entry is there twice");
        }
    const fx_zip_entry **order = FX_NEW_ARRAY(arena, const fx_zip_entry *, zip->n);
    for (size_t i = 0; i < zip->n; i++)
        order[i] = &zip->entries[i];
    qsort(order, zip->n, sizeof *order, by_offset);
    for (size_t i = 1; i < zip->n; i++)
        if (order[i]->offset < order[i - 1]->offset + order[i - 1]->packed) {
            fx_loc loc = {.file = zip->file->name, .entry = order[i]->name};
            return fx_fail(zip->ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the entry overlaps '%s'", order[i - 1]->name);
        }
    return FX_OK;
}

/* minizip looks for the end record backwards and takes what it finds; it must be the last thing in the file. */
static bool ends_well(const fx_file *file, size_t comment)
{
    enum { END_RECORD = 22 };
    return file->size >= END_RECORD && comment <= file->size - END_RECORD &&
           !memcmp(file->data + (file->size - END_RECORD - comment), "PK\5\6", 4);
}

fx_status fx_zip_open(fx_context *ctx, fx_file *file, fx_zip **out)
{
    enum { NAME_SIZE = 65537 }; /* a name has at most 65535 bytes */
    fx_arena *keep = fx_context_arena(ctx);
    fx_loc loc = {.file = file->name};
    fx_zip *zip = FX_NEW(keep, fx_zip);
    *zip = (fx_zip){.ctx = ctx, .file = file};
    stream *s = FX_NEW(keep, stream);
    *s = (stream){.data = file->data, .size = file->size};
    unzFile *u = FX_NEW(keep, unzFile);
    fx_defer(ctx, close_unzip, u);
    zlib_filefunc64_def functions = {.zopen64_file = stream_open, .zread_file = stream_read, .zwrite_file = stream_write,
                                     .ztell64_file = stream_tell, .zseek64_file = stream_seek, .zclose_file = stream_close,
                                     .zerror_file = stream_error, .opaque = s};
    *u = unzOpen2_64(file->name, &functions);
    if (!*u)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt or truncated zip: it has no directory at its end");
    fx_arena *tmp = fx_arena_create(ctx);
    char *name = fx_arena_alloc(tmp, NAME_SIZE);
    unz_global_info64 global = {0};
    fx_status status = FX_OK;
    if (unzGetGlobalInfo64(*u, &global) != UNZ_OK || !ends_well(file, global.size_comment))
        status = fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt or truncated zip: expected the end record at its end");
    int at = status == FX_OK && global.number_entry > 0 ? unzGoToFirstFile(*u) : UNZ_END_OF_LIST_OF_FILE;
    while (status == FX_OK && at == UNZ_OK) {
        status = read_entry(zip, *u, name, NAME_SIZE, &loc);
        at = unzGoToNextFile(*u);
    }
    if (status == FX_OK && (at != UNZ_END_OF_LIST_OF_FILE || zip->n != global.number_entry))
        status = fx_fail(ctx, FX_ERR_FORMAT, &loc, "corrupt zip: the directory promises %llu entries, %zu can be read",
                         (unsigned long long)global.number_entry, zip->n);
    if (status == FX_OK)
        status = check_entries(zip, tmp);
    fx_arena_free(tmp);
    close_unzip(u);
    FX_TRY(status);
    *out = zip;
    return FX_OK;
}

const fx_zip_entry *fx_zip_find(const fx_zip *zip, const char *name)
{
    fx_zip_entry key = {.name = name};
    return zip->n ? bsearch(&key, zip->entries, zip->n, sizeof *zip->entries, by_name) : NULL;
}

static void end_inflate(void *arg)
{
    inflateEnd(arg);
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
    end_inflate(z);
    if (rc != Z_STREAM_END || done != e->size)
        return fx_fail(zip->ctx, FX_ERR_FORMAT, loc, "corrupt zip: the entry does not inflate to its %llu bytes",
                       (unsigned long long)e->size);
    return FX_OK;
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
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t i = 0; i < e->size;) {
        uint64_t left = e->size - i;
        uInt n = left > 1u << 30 ? 1u << 30 : (uInt)left;
        crc = crc32(crc, data + i, n);
        i += n;
    }
    if ((uint32_t)crc != e->crc)
        return fx_fail(zip->ctx, FX_ERR_FORMAT, &loc, "checksum differs: the directory says %08x, the data gives %08x",
                       (unsigned)e->crc, (unsigned)crc);
    if (!e->deflated && (uintptr_t)data % alignment != 0)
        data = fx_arena_dup(arena, data, (size_t)e->size);
    *out = data;
    return FX_OK;
}
