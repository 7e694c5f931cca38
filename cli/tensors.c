/* cli/tensors.c: NumPy files in and out.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "fxcc/module.h"

const char *shape_text(const fx_tensor *t, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, "%s[", fx_dtype_name(t->dtype));

    for (int d = 0; d < t->rank && n < size; d++)
        n += (size_t)snprintf(buf + n, size - n, d ? ", %" PRId64 : "%" PRId64, t->sizes[d]);
    if (n < size)
        snprintf(buf + n, size - n, "]");
    return buf;
}

fx_status tensor_like(fx_context *ctx, const fx_tensor *t, const void *data, fx_tensor *out)
{
    const fx_tensor of = *t;
    fx_status status = fx_tensor_create(ctx, of.dtype, of.rank, of.sizes, out);
    if (status == FX_OK && data)
        memcpy(out->data, data, (size_t)fx_tensor_numel(out) * fx_dtype_size(of.dtype));
    return status;
}

/* *out: t itself, or a dense copy of it. */
static fx_status make_dense(fx_context *ctx, const fx_tensor *t, fx_tensor *out)
{
    int64_t index[FX_MAX_RANK] = {0}, numel = fx_tensor_numel(t);
    size_t size = fx_dtype_size(t->dtype);

    *out = *t;
    if (fx_tensor_is_contiguous(t))
        return FX_OK;
    fx_status status = tensor_like(ctx, t, NULL, out);
    if (status != FX_OK)
        return status;
    for (int64_t i = 0; i < numel; i++) {
        int64_t from = 0;
        for (int d = 0; d < t->rank; d++)
            from += index[d] * t->strides[d];
        memcpy((char *)out->data + (size_t)i * size, (const char *)t->data + from * (int64_t)size, size);
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->sizes[d]; d--)
            index[d] = 0;
    }
    return FX_OK;
}

/* last (NULL: not asked for): the names in the last file where that is a .npz, else NULL. */
static fx_status read_all(fx_context *ctx, int n_files, char *const *files, size_t *count, fx_tensor **tensors, const char ***last)
{
    size_t n = 0;
    fx_tensor *all = NULL;

    for (int f = 0; f < n_files; f++) {
        fx_tensor one, *some = &one;
        const char **names = NULL;
        size_t k = 1;
        fx_status status = has_suffix(files[f], ".npz") ? fx_npz_read(ctx, files[f], &k, &some, &names)
                                                        : fx_npy_read(ctx, files[f], &one);
        fx_tensor *grown = status == FX_OK ? realloc(all, (n + k + 1) * sizeof *all) : NULL;
        if (!grown) {
            free(all);
            return status != FX_OK ? status : FX_ERR_NOMEM;
        }
        all = grown;
        if (last)
            *last = names;
        for (size_t i = 0; i < k; i++)
            if ((status = make_dense(ctx, &some[i], &all[n++])) != FX_OK) {
                free(all);
                return status;
            }
    }
    *count = n;
    *tensors = all;
    return FX_OK;
}

fx_status read_tensors(fx_context *ctx, int n_files, char *const *files, size_t *count, fx_tensor **tensors)
{
    return read_all(ctx, n_files, files, count, tensors, NULL);
}

/* The input that has this name; n: none. */
static size_t input_named(const fx_graph *graph, size_t n, const char *name)
{
    size_t i = 0;
    for (fx_value_info info; i < n; i++)
        if (fx_graph_input_info(graph, i, &info) == FX_OK && info.name && !strcmp(info.name, name))
            break;
    return i;
}

fx_status read_inputs(fx_context *ctx, const fx_graph *graph, int n_files, char *const *files, size_t *count, fx_tensor **tensors)
{
    const char **names = NULL;
    size_t said = fx_diag_count(ctx), n = fx_graph_input_count(graph), named = 0;
    fx_status status = read_all(ctx, n_files, files, count, tensors, &names);
    if (status != FX_OK || n_files != 1 || !names || *count != n)
        return status;
    fx_tensor *placed = malloc((n + 1) * sizeof *placed);
    bool *taken = calloc(n + 1, sizeof *taken);
    for (size_t i = 0, at; placed && taken && i < n && (at = input_named(graph, n, names[i])) < n && !taken[at]; i++) {
        placed[at] = (*tensors)[i];
        taken[at] = true;
        named++;
    }
    if (placed && taken && named == n)
        memcpy(*tensors, placed, n * sizeof *placed);
    status = placed && taken ? FX_OK : FX_ERR_NOMEM;
    fx_diag_truncate(ctx, said); /* an input whose type is not known has no info */
    free(placed);
    free(taken);
    return status;
}

fx_status write_tensors(fx_context *ctx, const char *path, size_t count, const fx_tensor *tensors)
{
    size_t size = strlen(path) + 32;
    char *temporary = malloc(size);
    fx_status status;

    if (!temporary)
        return FX_ERR_NOMEM;
    snprintf(temporary, size, "%s.%ld.tmp", path, (long)getpid());
    if (has_suffix(path, ".npz")) {
        char (*text)[32] = malloc((count + 1) * sizeof *text);
        const char **names = malloc((count + 1) * sizeof *names);
        status = FX_ERR_NOMEM;
        if (text && names) {
            for (size_t i = 0; i < count; i++) {
                snprintf(text[i], sizeof text[i], "output%zu", i);
                names[i] = text[i];
            }
            status = fx_npz_write(ctx, temporary, count, tensors, names);
        }
        free(text);
        free(names);
    } else {
        status = fx_npy_write(ctx, temporary, tensors);
    }
    if (status == FX_OK && rename(temporary, path) != 0) {
        complain("fxcc run", "%s: expected to write this file: %s", path, strerror(errno));
        status = FX_ERR_IO;
    }
    if (status != FX_OK)
        unlink(temporary);
    free(temporary);
    return status;
}

fx_status call_types(fx_graph *graph, size_t n_in, const fx_tensor *in, size_t n_out, size_t n_changes, const fx_written *changes, fx_tensor *types)
{
    fx_status status = fx_graph_shapes_for(graph, n_in, in, types);

    for (size_t i = 0; i < n_changes && status == FX_OK; i++) {
        if (changes[i].buffer)
            status = fx_graph_tensor(graph, changes[i].buffer, &types[n_out + i]);
        else
            types[n_out + i] = in[changes[i].input];
    }
    return status;
}
