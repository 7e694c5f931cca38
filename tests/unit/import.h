/* tests/unit/import.h: files for the tests of readers and writers: a folder of their own, contents written and read.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_IMPORT_H
#define FXCC_UNIT_IMPORT_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "unit.h"

static fx_context *ctx;
static char folder[] = "/tmp/fxcc-unit-XXXXXX";

static inline const char *in_folder(const char *name)
{
    static char path[4][512];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static inline void write_bytes(const char *name, const void *data, size_t size)
{
    FILE *f = fopen(in_folder(name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static inline unsigned char *read_bytes(const char *name, size_t *size)
{
    FILE *f = fopen(in_folder(name), "rb");
    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(*size + 1);
    ck_assert_uint_eq(fread(data, 1, *size, f), *size);
    data[*size] = 0;
    fclose(f);
    return data;
}

static inline int files_there(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static inline void import_set_up(void)
{
    strcpy(folder, "/tmp/fxcc-unit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ctx = fx_context_create();
}

static inline void import_tear_down(void)
{
    fx_context_free(ctx);
    ctx = NULL;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(folder);
}

static inline const char *all_messages(const fx_context *c)
{
    static char buf[8192];
    size_t n = 0;
    buf[0] = 0;
    for (size_t i = 0; i < fx_diag_count(c) && n < sizeof buf - 512; i++) {
        n += fx_diag_format(fx_diag_get(c, i), buf + n, 500);
        n = n < sizeof buf ? n : sizeof buf - 1;
        buf[n++] = '\n';
        buf[n] = 0;
    }
    return buf;
}

static inline fx_graph *loaded(const char *name)
{
    fx_graph *g = NULL;
    fx_status status = fx_load(ctx, in_folder(name), &g);
    ck_assert_msg(status == FX_OK, "%s: %s", name, all_messages(ctx));
    return g;
}

static inline fx_graph *parsed(const char *text)
{
    fx_graph *g = NULL;
    fx_status status = fx_load_memory(ctx, "test.fx", text, strlen(text), &g);
    ck_assert_msg(status == FX_OK, "%s\n%s", all_messages(ctx), text);
    return g;
}

/* Equal but for the first line, which names the file. */
static inline void assert_same_text(const fx_graph *a, const fx_graph *b)
{
    char *s = unit_text(a), *t = unit_text(b), *rest_s = strchr(s, '\n'), *rest_t = strchr(t, '\n');
    ck_assert_msg(rest_s && rest_t && strcmp(rest_s, rest_t) == 0, "%s\n---\n%s", s, t);
    free(s);
    free(t);
}

#endif
