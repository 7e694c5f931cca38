/* ir/npz_write.c: several tensors into one NumPy .npz (a zip of .npy entries, stored).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include <minizip/zip.h>

#include "ir/ir.h"

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

    for (size_t i = 0; i < job->count; i++) {
        fx_text unused;
        fx_text_init(&unused, arena);
        if (!fx_npy_header(&unused, &job->tensors[i]))
            return fx_fail(job->ctx, FX_ERR_UNSUPPORTED, &loc, "expected a dtype that NumPy has, got %s",
                           fx_dtype_name(job->tensors[i].dtype));
    }
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
        fx_npy_header(&header, &dense);
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
