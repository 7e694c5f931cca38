/* ir/npz_write.c: several tensors into one NumPy .npz (a zip of .npy entries, stored).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <string.h>

#include <minizip/zip.h>

#include "ir/ir.h"

/* NumPy's name of an element type in files, NULL where NumPy has none (bfloat16). */
static const char *npy_descr(fx_dtype dtype)
{
    switch (dtype) {
    case FX_F32: return "<f4";
    case FX_F64: return "<f8";
    case FX_F16: return "<f2";
    case FX_I8: return "|i1";
    case FX_I16: return "<i2";
    case FX_I32: return "<i4";
    case FX_I64: return "<i8";
    case FX_U8: return "|u1";
    case FX_BOOL: return "|b1";
    case FX_C64: return "<c8";
    case FX_C128: return "<c16";
    default: return NULL;
    }
}

/* Magic, version 1.0 and the dict, padded with spaces so that the data begins at a multiple of 64. */
static void put_header(fx_text *t, const fx_tensor *x)
{
    fx_text dict;

    fx_text_init(&dict, t->arena);
    fx_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_descr(x->dtype));
    for (int d = 0; d < x->rank; d++)
        fx_printf(&dict, d ? ", %" PRId64 : "%" PRId64, x->sizes[d]);
    fx_puts(&dict, x->rank == 1 ? ",), }" : "), }");
    size_t pad = 63 - (10 + dict.size) % 64;
    fx_printf(&dict, "%*s\n", (int)pad, "");
    char prefix[10] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(dict.size & 0xff), (char)(dict.size >> 8)};
    fx_putn(t, prefix, sizeof prefix);
    fx_putn(t, dict.data, dict.size);
}

typedef struct npz_job {
    fx_context *ctx;
    const char *path;
    size_t count;
    const fx_tensor *tensors;
    const char *const *names;
} npz_job;

static void close_zip(void *zip)
{
    zipFile *z = zip;

    if (*z)
        zipClose(*z, NULL);
}

static bool write_all(zipFile z, const char *data, size_t size)
{
    while (size) {
        unsigned n = size < (1u << 30) ? (unsigned)size : 1u << 30;
        if (zipWriteInFileInZip(z, data, n) != ZIP_OK)
            return false;
        data += n;
        size -= n;
    }
    return true;
}

static fx_status write_npz(void *arg)
{
    npz_job *job = arg;
    fx_loc loc = {.file = job->path};
    fx_arena *arena = fx_context_arena(job->ctx);
    zipFile *zip = FX_NEW(arena, zipFile);

    for (size_t i = 0; i < job->count; i++)
        if (!npy_descr(job->tensors[i].dtype))
            return fx_fail(job->ctx, FX_ERR_UNSUPPORTED, &loc, "expected a dtype that NumPy has, got %s",
                           fx_dtype_name(job->tensors[i].dtype));
    *zip = zipOpen64(job->path, APPEND_STATUS_CREATE);
    if (!*zip)
        return fx_fail(job->ctx, FX_ERR_IO, &loc, "expected to create the file: no such folder, or not writable");
    fx_defer(job->ctx, close_zip, zip);
    for (size_t i = 0; i < job->count; i++) {
        const char *entry = fx_arena_printf(arena, "%s.npy", job->names[i]);
        zip_fileinfo info = {.tmz_date = {.tm_mday = 1, .tm_year = 1980}}; /* the same bytes each time */
        fx_tensor dense;
        fx_text header;

        FX_TRY(fx_tensor_contiguous(job->ctx, &job->tensors[i], &dense));
        fx_text_init(&header, arena);
        put_header(&header, &dense);
        size_t size = (size_t)fx_tensor_numel(&dense) * fx_dtype_size(dense.dtype);
        if (zipOpenNewFileInZip64(*zip, entry, &info, NULL, 0, NULL, 0, NULL, 0, 0, size >= UINT32_MAX - 4096) != ZIP_OK ||
            !write_all(*zip, header.data, header.size) || !write_all(*zip, dense.data, size) || zipCloseFileInZip(*zip) != ZIP_OK)
            return fx_fail(job->ctx, FX_ERR_IO, &loc, "expected to write entry %s: disk full?", entry);
    }
    int rc = zipClose(*zip, NULL);
    *zip = NULL;
    if (rc != ZIP_OK)
        return fx_fail(job->ctx, FX_ERR_IO, &loc, "expected to write the archive's directory: disk full?");
    return FX_OK;
}

fx_status fx_npz_write(fx_context *ctx, const char *path, size_t count, const fx_tensor *tensors, const char *const *names)
{
    npz_job job = {ctx, path, count, tensors, names};

    return fx_protect(ctx, write_npz, &job);
}
