/* frontend/file.c: the bytes of a model file, mapped.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/pt2.h"

static void drop_deferred(void *arg)
{
    fx_file_drop(arg);
}

static fx_file *new_file(fx_context *ctx, const char *name, const void *data, size_t size, bool mapped)
{
    fx_file *f = FX_NEW(fx_context_arena(ctx), fx_file);
    *f = (fx_file){.ctx = ctx, .name = fx_intern(ctx, name), .data = data, .size = size, .mapped = mapped, .holders = 1};
    fx_defer(ctx, drop_deferred, f);
    return f;
}

static fx_status io_error(fx_context *ctx, const char *path, const char *doing, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0)
        reason[0] = 0;
    fx_loc loc = {.file = fx_intern(ctx, path)};
    return fx_fail(ctx, FX_ERR_IO, &loc, "%s: %s", doing, reason);
}

/* A descriptor that is closed also when memory runs out. */
static void close_deferred(void *arg)
{
    int *fd = arg;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

fx_status fx_file_map(fx_context *ctx, const char *path, fx_file **out)
{
    int *fd = FX_NEW(fx_context_arena(ctx), int);
    *fd = -1;
    fx_defer(ctx, close_deferred, fd);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return io_error(ctx, path, "cannot open", errno);
    struct stat st;
    if (fstat(*fd, &st) != 0)
        return io_error(ctx, path, "cannot stat", errno);
    fx_loc loc = {.file = fx_intern(ctx, path)};
    if (!S_ISREG(st.st_mode))
        return fx_fail(ctx, FX_ERR_IO, &loc, "expected a regular file, got %s", S_ISDIR(st.st_mode) ? "a folder" : "something else");
    if (st.st_size == 0)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "the file is empty");
    if ((uintmax_t)st.st_size > SIZE_MAX / 2)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc, "the file is too large for this machine's address space");
    /* Made before the mapping, so that nothing can unwind between mmap and the structure that undoes it. */
    fx_file *f = new_file(ctx, path, NULL, (size_t)st.st_size, false);
    void *data = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, *fd, 0);
    if (data == MAP_FAILED)
        return io_error(ctx, path, "cannot map", errno);
    f->data = data;
    f->mapped = true;
    close_deferred(fd);
    *out = f;
    return FX_OK;
}

fx_file *fx_file_memory(fx_context *ctx, const char *name, const void *data, size_t size)
{
    return new_file(ctx, name, data, size, false);
}

void fx_file_hold(fx_file *file)
{
    file->holders++;
}

void fx_file_drop(fx_file *file)
{
    if (--file->holders == 0 && file->mapped) {
        munmap((void *)(uintptr_t)file->data, file->size);
        file->data = NULL;
        file->mapped = false;
    }
}
