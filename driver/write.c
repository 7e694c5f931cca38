/* driver/write.c: writing the files of a compile, all or none: beside under temporary names, then renamed.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include "driver/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static fx_status io_error(fx_context *ctx, const char *path, const char *what)
{
    fx_loc loc = {.file = fx_intern(ctx, path)};
    return fx_fail(ctx, FX_ERR_IO, &loc, "cannot %s: %s", what, strerror(errno));
}

/* Makes the folder and those above it that are missing, and notes which. */
static fx_status make_folders(fx_context *ctx, const char *folder, fx_write *w)
{
    fx_arena *arena = fx_context_arena(ctx);
    size_t depth = 1;
    for (const char *c = folder; *c; c++)
        depth += *c == '/';
    w->folders = FX_NEW_ARRAY(arena, char *, depth);
    char *path = fx_arena_dup(arena, folder, strlen(folder) + 1);
    for (char *c = path;; c++) {
        if (*c && (*c != '/' || c == path))
            continue;
        char end = *c;
        *c = 0;
        if (mkdir(path, 0777) == 0)
            w->folders[w->n_folders++] = fx_arena_dup(arena, path, strlen(path) + 1);
        else if (errno != EEXIST && errno != EISDIR)
            return io_error(ctx, path, "make the folder");
        *c = end;
        if (!end)
            break;
    }
    struct stat st;
    if (stat(folder, &st) != 0)
        return io_error(ctx, folder, "open the folder");
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return io_error(ctx, folder, "write into it");
    }
    return FX_OK;
}

static bool write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

/* Small parts and the zeros between parts are gathered; large parts go to the system from where they are. */
typedef struct gather {
    int fd;
    size_t n;
    char data[1 << 16];
} gather;

static bool put(gather *g, const void *data, size_t size)
{
    if (g->n + size > sizeof g->data) {
        if (!write_all(g->fd, g->data, g->n))
            return false;
        g->n = 0;
        if (size > sizeof g->data / 2)
            return write_all(g->fd, data, size);
    }
    memcpy(g->data + g->n, data, size);
    g->n += size;
    return true;
}

static bool put_zeros(gather *g, size_t size)
{
    static const char zeros[4096];
    bool good = true;
    for (; good && size > sizeof zeros; size -= sizeof zeros)
        good = put(g, zeros, sizeof zeros);
    return good && put(g, zeros, size);
}

static bool put_parts(fx_arena *arena, int fd, const fx_file *f)
{
    gather *g = fx_arena_block(arena, 1, sizeof *g);
    g->fd = fd;
    size_t at = 0;
    bool good = true;
    for (size_t i = 0; good && i < f->n_parts; i++) {
        good = put_zeros(g, f->parts[i].at - at) && put(g, f->parts[i].data, f->parts[i].size);
        at = f->parts[i].at + f->parts[i].size;
    }
    good = good && put_zeros(g, f->size - at) && write_all(fd, g->data, g->n);
    fx_arena_unblock(arena, g);
    return good;
}

static fx_status write_one(fx_context *ctx, const char *path, const fx_file *f)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return io_error(ctx, path, "create the file");
    if (!(f->data ? write_all(fd, f->data, f->size) : put_parts(fx_context_arena(ctx), fd, f))) {
        fx_status status = io_error(ctx, path, "write");
        close(fd);
        return status;
    }
    if (close(fd) != 0)
        return io_error(ctx, path, "write");
    return FX_OK;
}

fx_status fx_write_files(fx_context *ctx, const char *folder, size_t n, const fx_file *files, fx_write *w)
{
    fx_arena *arena = fx_context_arena(ctx);
    w->temps = FX_NEW_ARRAY(arena, char *, n + 1);
    w->finals = FX_NEW_ARRAY(arena, char *, n + 1);
    FX_TRY(make_folders(ctx, *folder ? folder : ".", w));
    for (size_t i = 0; i < n; i++) {
        w->finals[i] = fx_arena_printf(arena, "%s/%s", *folder ? folder : ".", files[i].name);
        struct stat st;
        if (stat(w->finals[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            errno = EISDIR;
            return io_error(ctx, w->finals[i], "replace it");
        }
    }
    for (size_t i = 0; i < n; i++) {
        w->temps[i] = fx_arena_printf(arena, "%s/.%s.%ld.tmp", *folder ? folder : ".", files[i].name, (long)getpid());
        w->n_temps = i + 1;
        FX_TRY(write_one(ctx, w->temps[i], &files[i]));
    }
    for (; w->n_done < n; w->n_done++)
        if (rename(w->temps[w->n_done], w->finals[w->n_done]) != 0)
            return io_error(ctx, w->finals[w->n_done], "write");
    return FX_OK;
}

void fx_write_undo(fx_write *w)
{
    for (size_t i = 0; i < w->n_done; i++)
        unlink(w->finals[i]);
    for (size_t i = w->n_done; i < w->n_temps; i++)
        unlink(w->temps[i]);
    while (w->n_folders > 0)
        rmdir(w->folders[--w->n_folders]); /* stays when others put something into it meanwhile */
    w->n_done = w->n_temps = 0;
}
