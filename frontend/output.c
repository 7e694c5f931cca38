/* frontend/output.c: files written beside their place and moved there whole.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/pt2.h"

enum { BUFFER = 1 << 16 };

static fx_status io_error(const fx_output *o, const char *doing, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0)
        reason[0] = 0;
    fx_loc loc = {.file = o->path};
    return fx_fail(o->ctx, FX_ERR_IO, &loc, "cannot %s: %s", doing, reason);
}

static void drop_deferred(void *arg)
{
    fx_output *o = arg;
    if (o->fd >= 0)
        close(o->fd);
    if (o->there)
        unlink(o->temp);
    o->fd = -1;
    o->there = false;
}

fx_status fx_output_open(fx_context *ctx, const char *path, fx_output **out)
{
    fx_arena *arena = fx_context_arena(ctx);
    fx_output *o = FX_NEW(arena, fx_output);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    *o = (fx_output){.ctx = ctx, .path = fx_intern(ctx, path), .fd = -1};
    /* Two threads of one process may write one path: the structure's address tells them apart. */
    o->temp = fx_intern_f(ctx, "%.*s.%s.%ld-%zx.tmp", (int)(name - path), path, name, (long)getpid(), (size_t)(uintptr_t)o >> 4);
    o->buffer = fx_arena_alloc(arena, BUFFER);
    fx_defer(ctx, drop_deferred, o);
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) /* asked now: of two files none is moved when the other could not be */
        return io_error(o, "replace it", EISDIR);
    o->fd = open(o->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (o->fd < 0)
        return io_error(o, "create the file", errno);
    o->there = true;
    *out = o;
    return FX_OK;
}

static fx_status put(fx_output *o, const unsigned char *data, size_t n)
{
    while (n > 0) {
        ssize_t done = write(o->fd, data, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return io_error(o, "write", errno);
        data += done;
        n -= (size_t)done;
    }
    return FX_OK;
}

static fx_status flush(fx_output *o)
{
    size_t n = o->n;
    o->n = 0;
    return put(o, o->buffer, n);
}

fx_status fx_output_write(fx_output *o, const void *data, size_t n)
{
    o->size += n;
    if (n > BUFFER - o->n)
        FX_TRY(flush(o));
    if (n >= BUFFER)
        return put(o, data, n);
    if (n)
        memcpy(o->buffer + o->n, data, n);
    o->n += n;
    return FX_OK;
}

fx_status fx_output_text(fx_output *o, const fx_text *t)
{
    return fx_output_write(o, t->data, t->size);
}

fx_status fx_output_close(fx_output *o)
{
    FX_TRY(flush(o));
    int fd = o->fd;
    o->fd = -1;
    return close(fd) == 0 ? FX_OK : io_error(o, "write", errno);
}

fx_status fx_output_commit(fx_output *o)
{
    if (rename(o->temp, o->path) != 0)
        return io_error(o, "replace the file", errno);
    o->there = false;
    return FX_OK;
}
