/* jit/cache.c: objects that were compiled before, in files.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include "jit/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct header {
    char magic[8];
    uint64_t key_size, object_size, hash; /* hash: of the object */
} header;

#define MAGIC "FXCCOBJ1"
#define SUFFIX ".fxobj"
enum { PATH_SIZE = 4096 };

bool fx_cache_folder(char *path, size_t size)
{
    const char *own = getenv("FXCC_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (own)
        n = snprintf(path, size, "%s", own);
    else if (xdg && *xdg)
        n = snprintf(path, size, "%s/fxcc/jit", xdg);
    else if (home && *home)
        n = snprintf(path, size, "%s/.cache/fxcc/jit", home);
    else
        return false;
    return n > 0 && (size_t)n < size;
}

static bool entry_path(const char *folder, const fx_cache_key *key, char *path)
{
    uint64_t a = fx_hash_block(1, key->data, key->size), b = fx_hash_block(2, key->data, key->size);
    int n = snprintf(path, PATH_SIZE, "%s/%016llx%016llx" SUFFIX, folder, (unsigned long long)a, (unsigned long long)b);
    return n > 0 && n < PATH_SIZE;
}

static bool read_all(int fd, void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, (char *)data + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, (const char *)data + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* The entry behind fd: its object, when it is one of this key and whole, and nobody else can have written it: it will be run. */
static bool read_entry(int fd, const fx_cache_key *key, void **object, size_t *size)
{
    header h;
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) || !read_all(fd, &h, sizeof h) || memcmp(h.magic, MAGIC, 8) != 0 || h.key_size != key->size ||
        h.object_size == 0 || h.object_size > (uint64_t)st.st_size || (uint64_t)st.st_size != sizeof h + h.key_size + h.object_size)
        return false;
    char *data = malloc((size_t)(h.key_size + h.object_size));
    if (!data)
        return false;
    if (!read_all(fd, data, (size_t)(h.key_size + h.object_size)) || memcmp(data, key->data, key->size) != 0 ||
        fx_hash_block(3, data + h.key_size, h.object_size) != h.hash) {
        free(data);
        return false;
    }
    memmove(data, data + h.key_size, (size_t)h.object_size);
    *object = data;
    *size = (size_t)h.object_size;
    return true;
}

bool fx_cache_get(const char *folder, const fx_cache_key *key, void **object, size_t *size)
{
    char path[PATH_SIZE];
    if (!entry_path(folder, key, path))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = read_entry(fd, key, object, size);
    close(fd);
    if (good)
        utimensat(AT_FDCWD, path, NULL, 0);
    return good;
}

static void make_folders(const char *folder)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s", folder);
    for (char *c = path + 1; *c; c++)
        if (*c == '/') {
            *c = 0;
            mkdir(path, 0700);
            *c = '/';
        }
    mkdir(path, 0700);
}

/* ---- all entries -------------------------------------------------------------------------------------------------------- */

typedef struct entry {
    struct timespec used;
    uint64_t size;
    char name[64];
} entry;

static int oldest_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Entries of the folder, and what other processes left half-written an hour ago; NULL: none. */
static entry *list(DIR *dir, size_t *n)
{
    entry *entries = NULL;
    size_t cap = 0;
    time_t now = time(NULL);
    *n = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        size_t length = strlen(d->d_name), end = strlen(SUFFIX);
        bool whole = length > end && strcmp(d->d_name + length - end, SUFFIX) == 0, part = strstr(d->d_name, SUFFIX ".") != NULL;
        if ((!whole && !part) || length >= sizeof entries->name || fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (part) {
            if (st.st_mtime < now - 3600)
                unlinkat(dirfd(dir), d->d_name, 0);
            continue;
        }
        if (*n == cap) {
            entry *more = realloc(entries, (cap = cap ? 2 * cap : 64) * sizeof *entries);
            if (!more)
                break;
            entries = more;
        }
        entries[*n].used = st.st_mtim;
        entries[*n].size = (uint64_t)st.st_size;
        memcpy(entries[(*n)++].name, d->d_name, length + 1);
    }
    return entries;
}

static void shrink(const char *folder, uint64_t most)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    size_t n;
    entry *entries = list(dir, &n);
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += entries[i].size;
    if (total > most)
        qsort(entries, n, sizeof *entries, oldest_first);
    for (size_t i = 0; i < n && total > most; i++)
        if (unlinkat(dirfd(dir), entries[i].name, 0) == 0 || errno == ENOENT)
            total -= entries[i].size;
    free(entries);
    closedir(dir);
}

bool fx_cache_put(const char *folder, const fx_cache_key *key, const void *object, size_t size, uint64_t most)
{
    char path[PATH_SIZE], part[PATH_SIZE + 16];
    if (!entry_path(folder, key, path) || size > most)
        return false;
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0) {
        make_folders(folder);
        snprintf(part, sizeof part, "%s.XXXXXX", path);
        fd = mkostemp(part, O_CLOEXEC);
    }
    if (fd < 0)
        return false;
    header h = {.key_size = key->size, .object_size = size, .hash = fx_hash_block(3, object, size)};
    memcpy(h.magic, MAGIC, 8);
    bool good = write_all(fd, &h, sizeof h) && write_all(fd, key->data, key->size) && write_all(fd, object, size);
    good &= close(fd) == 0;
    if (!good || rename(part, path) != 0) {
        unlink(part);
        return false;
    }
    shrink(folder, most);
    return true;
}

fx_cache_info fx_cache_look(const char *folder, bool clear)
{
    fx_cache_info info = {0, 0};
    DIR *dir = opendir(folder);
    if (!dir)
        return info;
    size_t n;
    entry *entries = list(dir, &n);
    for (size_t i = 0; i < n; i++) {
        if (clear && unlinkat(dirfd(dir), entries[i].name, 0) != 0)
            continue;
        info.entries++;
        info.bytes += entries[i].size;
    }
    free(entries);
    closedir(dir);
    return info;
}
