/* tests/unit/test_jit_cache.c: the cache of compiled objects: entries damaged at every place and in every way, folders that cannot be written, full
 * disks, processes at once, the size it may have.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "jit/cache.h"
#include "tests/unit/fixture.h"
#include "tests/unit/jit.h"

static char folder[] = "/tmp/fxcc-cache-XXXXXX", inner[64];

static void make_folder(void)
{
    set_up();
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(inner, sizeof inner, "%s/jit", folder);
}

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char at[512];
        struct stat st;
        snprintf(at, sizeof at, "%s/%s", path, e->d_name);
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || lstat(at, &st))
            continue;
        if (S_ISDIR(st.st_mode))
            remove_tree(at);
        else
            unlink(at);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

static void remove_folder(void)
{
    remove_tree(folder);
    tear_down();
}

/* The path of the only entry. */
static const char *entry(void)
{
    static char path[512];
    DIR *d = opendir(inner);
    int n = 0;
    ck_assert(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        if (*e->d_name != '.') {
            snprintf(path, sizeof path, "%s/%s", inner, e->d_name);
            n++;
        }
    closedir(d);
    ck_assert_int_eq(n, 1);
    return path;
}

/* Compiles with the cache, and calls; whether the object was kept from before. */
static bool cached(fx_context *c, const char *text, const char *where)
{
    fx_graph *g = unit_parse(c, text);
    fx_function *f = jit_compile(g, &(fx_jit_options){.cache = where});
    fx_tensor in[2] = {jit_tensor(c, FX_F32, 2, (int64_t[]){3, 4}, 1), jit_tensor(c, FX_F32, 1, (int64_t[]){4}, 2)}, out;
    jit_outputs(c, f, 2, in, &out);
    jit_call(f, 2, in, &out);
    jit_judge(g, 2, in, &out);
    bool kept = fx_function_cached(f);
    fx_function_free(f);
    return kept;
}

START_TEST(objects_are_kept)
{
    ck_assert(!cached(ctx, JIT_SMALL, inner)); /* makes the folder */
    ck_assert(cached(ctx, JIT_SMALL, inner));
    fx_context *other = fx_context_create();
    ck_assert(cached(other, JIT_SMALL, inner));
    fx_context_free(other);
    /* another level, other threads are other code */
    fx_function *f = jit_compile(unit_parse(ctx, JIT_SMALL), &(fx_jit_options){.cache = inner, .level = 2});
    ck_assert(!fx_function_cached(f));
    fx_function_free(f);
    fx_jit_cache_info info;
    char path[300];
    ck_assert_int_eq(fx_jit_cache(ctx, inner, false, &info, path, sizeof path), FX_OK);
    ck_assert(info.entries == 2 && info.bytes > 1000 && !strcmp(path, inner));
    ck_assert_int_eq(fx_jit_cache(ctx, inner, true, &info, NULL, 0), FX_OK);
    ck_assert_uint_eq(info.entries, 2);
    ck_assert_int_eq(fx_jit_cache(ctx, inner, false, &info, NULL, 0), FX_OK);
    ck_assert(info.entries == 0 && info.bytes == 0);
    ck_assert(!cached(ctx, JIT_SMALL, inner));
}
END_TEST

/* ---- damage ------------------------------------------------------------------------------------------------------------------ */

/* Every bit of an entry, and every length it may be cut to. */
START_TEST(every_bit_counts)
{
    static const char key_text[] = "the key of it", object[] = "an object that would be run if nobody looked";
    const fx_cache_key key = {key_text, sizeof key_text};
    ck_assert(fx_cache_put(inner, &key, object, sizeof object, 1 << 20));
    int fd = open(entry(), O_RDWR);
    char whole[512];
    ssize_t size = read(fd, whole, sizeof whole);
    ck_assert_int_eq(size, (ssize_t)(32 + sizeof key_text + sizeof object));
    void *got;
    size_t n;
    for (ssize_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            char wrong = (char)(whole[at] ^ (1 << bit));
            ck_assert(pwrite(fd, &wrong, 1, at) == 1);
            ck_assert_msg(!fx_cache_get(inner, &key, &got, &n), "byte %zd, bit %d", at, bit);
            ck_assert(pwrite(fd, whole + at, 1, at) == 1);
        }
    for (ssize_t cut = 0; cut <= size + 3; cut++) {
        ck_assert(ftruncate(fd, cut) == 0);
        ck_assert(pwrite(fd, whole, (size_t)(cut < size ? cut : size), 0) >= 0);
        bool found = fx_cache_get(inner, &key, &got, &n);
        ck_assert_msg(found == (cut == size), "cut to %zd", cut);
        if (found) {
            ck_assert(n == sizeof object && !memcmp(got, object, n));
            free(got);
        }
    }
    close(fd);
    /* two keys of one hash: the file's name is not all that counts */
    const fx_cache_key other = {"another key !", sizeof key_text};
    char named[512];
    snprintf(named, sizeof named, "%s", entry());
    ck_assert(fx_cache_put(folder, &other, object, sizeof object, 1 << 20));
    ck_assert(!fx_cache_get(inner, &other, &got, &n));
}
END_TEST

typedef enum damage { TRUNCATED, FLIPPED_OBJECT, FLIPPED_END, FOREIGN, OTHER_VERSION, EMPTY, IS_FOLDER, IS_FULL_FOLDER, IS_LINK_TO_NOTHING, IS_FIFO, UNREADABLE,
                      ANYBODYS, N_DAMAGES } damage;

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    unsigned char byte;
    ck_assert(pread(fd, &byte, 1, at) == 1);
    byte ^= 4;
    ck_assert(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static void do_damage(damage kind, const char *path)
{
    struct stat st;
    ck_assert(stat(path, &st) == 0);
    int fd;
    switch (kind) {
    case TRUNCATED: ck_assert(truncate(path, st.st_size / 2) == 0); break;
    case FLIPPED_OBJECT: flip(path, st.st_size - 1500); break;
    case FLIPPED_END: flip(path, st.st_size - 1); break;
    case OTHER_VERSION: flip(path, 7); break;
    case EMPTY: ck_assert(truncate(path, 0) == 0); break;
    case UNREADABLE: ck_assert(chmod(path, 0) == 0); break;
    case ANYBODYS: ck_assert(chmod(path, 0666) == 0); break;
    default:
        ck_assert(unlink(path) == 0);
        if (kind == FOREIGN) {
            fd = open(path, O_WRONLY | O_CREAT, 0600);
            for (int i = 0; i < 100; i++)
                ck_assert(write(fd, "\x7f" "ELF: not one of ours\n", 22) == 22);
            close(fd);
        } else if (kind == IS_LINK_TO_NOTHING) {
            ck_assert(symlink("/nonexistent/file", path) == 0);
        } else if (kind == IS_FIFO) {
            ck_assert(mkfifo(path, 0600) == 0);
        } else {
            ck_assert(mkdir(path, 0700) == 0);
        }
        if (kind == IS_FULL_FOLDER) {
            char in_it[600];
            snprintf(in_it, sizeof in_it, "%s/x", path);
            close(open(in_it, O_WRONLY | O_CREAT, 0600));
        }
    }
}

START_TEST(damaged_entries_are_compiled_anew)
{
    ck_assert(!cached(ctx, JIT_SMALL, inner));
    char path[512];
    snprintf(path, sizeof path, "%s", entry());
    for (damage kind = TRUNCATED; kind < N_DAMAGES; kind++) {
        do_damage(kind, path);
        bool root_reads = kind == UNREADABLE && geteuid() == 0; /* root reads what has no mode */
        ck_assert_msg(cached(ctx, JIT_SMALL, inner) == root_reads, "damage %d", (int)kind);
        bool folder_stays = kind == IS_FOLDER || kind == IS_FULL_FOLDER; /* somebody's: not ours to remove */
        ck_assert_msg(cached(ctx, JIT_SMALL, inner) == !folder_stays, "damage %d", (int)kind);
        if (folder_stays)
            remove_tree(path);
        if (folder_stays || root_reads)
            cached(ctx, JIT_SMALL, inner);
        entry(); /* nothing half-written is left */
    }
}
END_TEST

/* ---- folders -------------------------------------------------------------------------------------------------------------------- */

static bool remarked(const char *says)
{
    for (size_t i = 0; i < fx_diag_count(ctx); i++)
        if (fx_diag_get(ctx, i)->severity == FX_REMARK && strstr(fx_diag_get(ctx, i)->message, says))
            return true;
    return false;
}

START_TEST(folders_that_cannot_be)
{
    char file[80], below[80], name[5000];
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(below, sizeof below, "%s/file/jit", folder);
    close(open(file, O_WRONLY | O_CREAT, 0600));
    memset(name, 'a', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = 0;
    const char *const bad[] = {file, below, "/proc/none/jit", "/dev/null/x", name};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fx_diag_clear(ctx);
        ck_assert(!cached(ctx, JIT_SMALL, bad[i]));
        ck_assert(!cached(ctx, JIT_SMALL, bad[i]));
        ck_assert_msg(remarked("the compiled model is not kept"), "%s", bad[i]);
    }
    ck_assert(!cached(ctx, JIT_SMALL, ""));
    /* relative, and made with all above it */
    ck_assert(chdir(folder) == 0);
    ck_assert(!cached(ctx, JIT_SMALL, "a/b/c"));
    ck_assert(cached(ctx, JIT_SMALL, "a/b/c/"));
}
END_TEST

START_TEST(full_disk)
{
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR); /* a write beyond the limit then fails with EFBIG */
    fx_graph *g = unit_parse(ctx, JIT_SMALL);
    for (rlim_t most = 0; most <= 4000; most += 500) {
        fx_function *f[2] = {NULL, NULL};
        fx_diag_clear(ctx);
        /* Check writes files too: nothing of it while the limit holds */
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, RLIM_INFINITY});
        fx_status first = fx_jit_compile(g, &(fx_jit_options){.cache = inner}, &f[0]), second = fx_jit_compile(g, &(fx_jit_options){.cache = inner}, &f[1]);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
        ck_assert(first == FX_OK && second == FX_OK);
        ck_assert(!fx_function_cached(f[0]) && !fx_function_cached(f[1]) && remarked("is not kept"));
        ck_assert_uint_eq(fx_cache_look(inner, false).entries, 0);
        ck_assert_int_eq(rmdir(inner), 0); /* it would not go if something were left in it */
        fx_function_free(f[0]);
        fx_function_free(f[1]);
    }
}
END_TEST

/* ---- size ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(what_was_not_used_goes)
{
    char object[1000] = {0};
    char text[8][8];
    fx_cache_key key[8];
    void *got;
    size_t n;
    const uint64_t each = 32 + 8 + sizeof object;
    for (int i = 0; i < 8; i++) {
        snprintf(text[i], sizeof text[i], "key %d", i);
        key[i] = (fx_cache_key){text[i], 8};
        ck_assert(fx_cache_put(inner, &key[i], object, sizeof object, 5 * each));
        usleep(12000); /* clocks of file systems tick every 4 to 10 ms */
        if (i == 4) {
            ck_assert(fx_cache_get(inner, &key[0], &got, &n)); /* used */
            free(got);
            usleep(12000);
        }
    }
    static const bool there[8] = {true, false, false, false, true, true, true, true};
    for (int i = 0; i < 8; i++) {
        bool found = fx_cache_get(inner, &key[i], &got, &n);
        ck_assert_msg(found == there[i], "entry %d", i);
        if (found)
            free(got);
    }
    ck_assert_uint_eq(fx_cache_look(inner, false).bytes, 5 * each);
    ck_assert(!fx_cache_put(inner, &key[1], object, sizeof object, 500)); /* alone larger than all may be */
    ck_assert_uint_eq(fx_cache_look(inner, false).entries, 5);
    fx_function *f = jit_compile(unit_parse(ctx, JIT_SMALL), &(fx_jit_options){.cache = inner, .cache_most = 100});
    ck_assert(remarked("is not kept"));
    fx_function_free(f);
}
END_TEST

/* ---- processes --------------------------------------------------------------------------------------------------------------------- */

START_TEST(processes_share_a_folder)
{
    enum { N = 4, TIMES = 12 };
    pid_t child[N];
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        ck_assert(child[i] >= 0);
        if (child[i])
            continue;
        for (int k = 0; k < TIMES; k++) {
            fx_context *c = fx_context_create();
            cached(c, JIT_SMALL, inner);
            if (i == 0) {
                fx_jit_cache_info info;
                ck_assert_int_eq(fx_jit_cache(c, inner, true, &info, NULL, 0), FX_OK);
            }
            fx_context_free(c);
        }
        _exit(0);
    }
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert(waitpid(child[i], &status, 0) == child[i]);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    cached(ctx, JIT_SMALL, inner);
    ck_assert(cached(ctx, JIT_SMALL, inner));
    entry();
}
END_TEST

START_TEST(where_it_is)
{
    char path[300];
    setenv("FXCC_CACHE", "/one", 1);
    ck_assert(fx_cache_folder(path, sizeof path) && !strcmp(path, "/one"));
    setenv("FXCC_CACHE", "", 1);
    ck_assert(!fx_cache_folder(path, sizeof path));
    unsetenv("FXCC_CACHE");
    setenv("XDG_CACHE_HOME", "/two", 1);
    ck_assert(fx_cache_folder(path, sizeof path) && !strcmp(path, "/two/fxcc/jit"));
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/three", 1);
    ck_assert(fx_cache_folder(path, sizeof path) && !strcmp(path, "/three/.cache/fxcc/jit"));
    ck_assert(!fx_cache_folder(path, 10));
    unsetenv("HOME");
    ck_assert(!fx_cache_folder(path, sizeof path));
    fx_jit_cache_info info;
    ck_assert_int_eq(fx_jit_cache(ctx, NULL, false, &info, NULL, 0), FX_ERR_ARGUMENT);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, objects_are_kept);
    tcase_add_test(t, every_bit_counts);
    tcase_add_test(t, damaged_entries_are_compiled_anew);
    tcase_add_test(t, folders_that_cannot_be);
    tcase_add_test(t, full_disk);
    tcase_add_test(t, what_was_not_used_goes);
    tcase_add_test(t, processes_share_a_folder);
    tcase_add_test(t, where_it_is);
}

int main(void)
{
    return unit_run("jit_cache", 300, make_folder, remove_folder, add);
}
