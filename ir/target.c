/* ir/target.c: what code is generated for: presets, and files of `key = value` lines.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "ir/ir.h"

/* Machine code for the architecture, and PTX that later ones translate: `cuda` runs on all that CUDA 13 knows. A tile of 1 x 1 packs weights as
 * dense matrices. */
#define GPU(n, arch)                                                                                                                    \
    {.name = n, .cflags = "-arch=sm_" #arch, .lanes = 1, .fma = true, .mr = 1, .nr = 1, .l1 = 65536, .l2 = 4194304, .pointer_bits = 64, \
     .isa = "cuda", .sm = arch, .threads = 256}

/* Register tiles leave room for a row of weights and a broadcast: mr * nr / lanes accumulators of 16 (SSE, scalar VFP), of 16
 * (AVX2), of 32 (AVX-512, NEON) registers. */
static const fx_target presets[] = {
    {.name = "generic", .cflags = "", .lanes = 1, .fma = false, .mr = 4, .nr = 4, .l1 = 32768, .l2 = 262144, .pointer_bits = 64,
     .isa = "generic"},
    {.name = "x86_64-avx2", .cflags = "-mavx2 -mfma", .lanes = 8, .fma = true, .mr = 6, .nr = 16, .l1 = 32768, .l2 = 524288,
     .pointer_bits = 64, .isa = "avx2"},
    {.name = "x86_64-avx512", .cflags = "-mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx2 -mfma", .lanes = 16, .fma = true,
     .mr = 12, .nr = 32, .l1 = 32768, .l2 = 1048576, .pointer_bits = 64, .isa = "avx512"},
    {.name = "aarch64", .cflags = "", .lanes = 4, .fma = true, .mr = 8, .nr = 8, .l1 = 32768, .l2 = 524288, .pointer_bits = 64,
     .isa = "neon"},
    {.name = "cortex-m4", .cflags = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16", .lanes = 1, .fma = true,
     .mr = 2, .nr = 4, .l1 = 4096, .l2 = 4096, .pointer_bits = 32, .isa = "generic"},
    GPU("cuda", 75), GPU("cuda-sm_75", 75), GPU("cuda-sm_80", 80), GPU("cuda-sm_86", 86), GPU("cuda-sm_89", 89), GPU("cuda-sm_90", 90),
    GPU("cuda-sm_100", 100), GPU("cuda-sm_120", 120),
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

static const fx_target *preset(const char *name)
{
    for (int i = 0; i < N_PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    }
    return NULL;
}

/* The preset that fits the machine fxcc runs on. */
static const char *native_name(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
        return "x86_64-avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "x86_64-avx2";
    return "generic";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "generic";
#endif
}

/* The file form: one row a key. Numbers are checked against [min, max]. */
typedef enum key_kind { KEY_TEXT, KEY_BOOL, KEY_INT, KEY_INT64, KEY_TYPES } key_kind;

static const struct key {
    const char *name;
    key_kind kind;
    size_t at;
    int64_t min, max;
} keys[] = {
    {"name", KEY_TEXT, offsetof(fx_target, name), 0, 0},
    {"cflags", KEY_TEXT, offsetof(fx_target, cflags), 0, 0},
    {"lanes", KEY_INT, offsetof(fx_target, lanes), 1, 64},
    {"fma", KEY_BOOL, offsetof(fx_target, fma), 0, 0},
    {"mr", KEY_INT, offsetof(fx_target, mr), 1, 32},
    {"nr", KEY_INT, offsetof(fx_target, nr), 1, 128},
    {"l1", KEY_INT64, offsetof(fx_target, l1), 1024, INT64_C(1) << 30},
    {"l2", KEY_INT64, offsetof(fx_target, l2), 1024, INT64_C(1) << 36},
    {"pointer_bits", KEY_INT, offsetof(fx_target, pointer_bits), 16, 64},
    {"isa", KEY_TEXT, offsetof(fx_target, isa), 0, 0},
    {"sm", KEY_INT, offsetof(fx_target, sm), 0, 999},
    {"threads", KEY_INT, offsetof(fx_target, threads), 0, 1024},
    {"types", KEY_TYPES, offsetof(fx_target, lacks), 0, 0},
};

enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* "all", or the types that exist: "f32, i32, bool". */
static void print_types(fx_text *t, unsigned lacks)
{
    bool any = false;
    for (int d = 0; d < FX_DTYPE_COUNT && lacks; d++) {
        if (lacks >> d & 1)
            continue;
        fx_printf(t, "%s%s", any ? ", " : "", fx_dtype_short((fx_dtype)d));
        any = true;
    }
    if (!lacks)
        fx_puts(t, "all");
}

static bool parse_types(const char *s, size_t n, unsigned *lacks)
{
    unsigned there = 0;
    if (n == 3 && memcmp(s, "all", 3) == 0) {
        *lacks = 0;
        return true;
    }
    for (const char *end = s + n; s < end;) {
        const char *comma = memchr(s, ',', (size_t)(end - s)), *stop = comma ? comma : end, *next = comma ? comma + 1 : end;
        while (s < stop && *s == ' ')
            s++;
        while (stop > s && stop[-1] == ' ')
            stop--;
        int d = 0;
        while (d < FX_DTYPE_COUNT &&
               !(strlen(fx_dtype_short((fx_dtype)d)) == (size_t)(stop - s) && memcmp(fx_dtype_short((fx_dtype)d), s, (size_t)(stop - s)) == 0))
            d++;
        if (d == FX_DTYPE_COUNT)
            return false;
        there |= 1u << d;
        s = next;
    }
    *lacks = ~there & ((1u << FX_DTYPE_COUNT) - 1);
    return there != 0;
}

bool fx_target_is_gpu(const fx_target *target)
{
    return target->sm > 0;
}

size_t fx_target_products_workspace(const fx_target *target)
{
    enum { MIB = 1 << 20 };
    return target->sm >= 90 ? 32 * (size_t)MIB : 8 * (size_t)MIB;
}

void fx_target_print(fx_text *t, const fx_target *target)
{
    for (int i = 0; i < N_KEYS; i++) {
        const char *field = (const char *)target + keys[i].at;
        if ((keys[i].at == offsetof(fx_target, sm) || keys[i].at == offsetof(fx_target, threads)) && !fx_target_is_gpu(target))
            continue;
        fx_printf(t, "%s = ", keys[i].name);
        switch (keys[i].kind) {
        case KEY_TEXT: {
            const char *s = *(const char *const *)field;
            fx_puts(t, s ? s : "");
            break;
        }
        case KEY_BOOL:
            fx_puts(t, *(const bool *)field ? "true" : "false");
            break;
        case KEY_INT:
            fx_printf(t, "%d", *(const int *)field);
            break;
        case KEY_INT64:
            fx_printf(t, "%lld", (long long)*(const int64_t *)field);
            break;
        case KEY_TYPES:
            print_types(t, *(const unsigned *)field);
            break;
        }
        fx_putn(t, "\n", 1);
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Names and flags end up in Makefiles, symbols and comments, so only harmless characters are taken. */
static bool plain_text(const char *s, size_t n, bool flags)
{
    for (size_t i = 0; i < n; i++) {
        bool word = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') ||
                    strchr("_-.+", s[i]) != NULL;
        if (s[i] == 0 || (!word && !(flags && strchr(" =,/:", s[i]))))
            return false;
    }
    return true;
}

static fx_status parse_value(fx_context *ctx, const fx_loc *loc, int line, const struct key *k, const char *s, size_t n, fx_target *out)
{
    char *field = (char *)out + k->at;
    const char *shown = fx_intern_n(ctx, s, n < 80 ? n : 80);
    if (k->kind == KEY_TEXT) {
        bool flags = strcmp(k->name, "cflags") == 0;
        if (n > 400 || (n == 0 && !flags) || !plain_text(s, n, flags))
            return fx_fail(ctx, FX_ERR_FORMAT, loc, "line %d: %s: expected %s, got '%s'", line, k->name,
                           flags ? "compiler flags without quotes or shell characters" : "letters, digits, '-', '_', '.'", shown);
        *(const char **)field = fx_intern_n(ctx, s, n);
        return FX_OK;
    }
    if (k->kind == KEY_BOOL) {
        bool yes = n == 4 && memcmp(s, "true", 4) == 0;
        if (!yes && !(n == 5 && memcmp(s, "false", 5) == 0))
            return fx_fail(ctx, FX_ERR_FORMAT, loc, "line %d: %s: expected true or false, got '%s'", line, k->name, shown);
        *(bool *)field = yes;
        return FX_OK;
    }
    if (k->kind == KEY_TYPES) {
        if (!parse_types(s, n, (unsigned *)field))
            return fx_fail(ctx, FX_ERR_FORMAT, loc, "line %d: types: expected all, or dtypes with commas between, as f32, i32, i64, bool, got '%s'", line,
                           shown);
        return FX_OK;
    }
    int64_t v = 0;
    bool good = n > 0 && n < 19;
    for (size_t i = 0; good && i < n; i++) {
        good = s[i] >= '0' && s[i] <= '9';
        v = v * 10 + (s[i] - '0');
    }
    if (!good || v < k->min || v > k->max)
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "line %d: %s: expected a number from %lld to %lld, got '%s'", line, k->name,
                       (long long)k->min, (long long)k->max, shown);
    if (k->kind == KEY_INT)
        *(int *)field = (int)v;
    else
        *(int64_t *)field = v;
    return FX_OK;
}

/* Checks that span keys. */
static fx_status check_target(fx_context *ctx, const fx_loc *loc, const fx_target *t)
{
    if (t->lanes & (t->lanes - 1))
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "lanes: expected a power of two, got %d", t->lanes);
    if (t->nr % t->lanes != 0)
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "nr: expected a multiple of lanes (%d), got %d", t->lanes, t->nr);
    if (t->pointer_bits != 16 && t->pointer_bits != 32 && t->pointer_bits != 64)
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "pointer_bits: expected 16, 32 or 64, got %d", t->pointer_bits);
    if (fx_target_is_gpu(t) && (t->threads < 32 || t->threads % 32 != 0))
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "threads: expected a multiple of 32, the threads of a warp, for a GPU (sm = %d), got %d", t->sm, t->threads);
    if (!fx_target_is_gpu(t) && t->threads)
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "threads: expected none without sm, the architecture of a GPU, got %d", t->threads);
    if (t->l2 < t->l1)
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "l2: expected at least l1 (%lld), got %lld", (long long)t->l1, (long long)t->l2);
    return FX_OK;
}

static fx_status parse_target(fx_context *ctx, const fx_loc *loc, const char *text, size_t size, fx_target *out)
{
    fx_target t = presets[0];
    bool seen[N_KEYS] = {false};
    int line = 0;
    for (const char *s = text, *end = text + size; s < end;) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        if (!eol)
            eol = end;
        line++;
        const char *stop = eol, *hash = memchr(s, '#', (size_t)(eol - s));
        if (hash)
            stop = hash;
        while (s < stop && is_space(*s))
            s++;
        while (stop > s && is_space(stop[-1]))
            stop--;
        if (s < stop) {
            const char *eq = memchr(s, '=', (size_t)(stop - s));
            if (!eq)
                return fx_fail(ctx, FX_ERR_FORMAT, loc, "line %d: expected key = value, got '%s'", line,
                               fx_intern_n(ctx, s, (size_t)(stop - s) < 80 ? (size_t)(stop - s) : 80));
            const char *key_end = eq, *value = eq + 1;
            while (key_end > s && is_space(key_end[-1]))
                key_end--;
            while (value < stop && is_space(*value))
                value++;
            size_t n = (size_t)(key_end - s);
            int k = 0;
            while (k < N_KEYS && !(strlen(keys[k].name) == n && memcmp(keys[k].name, s, n) == 0))
                k++;
            if (k == N_KEYS)
                return fx_fail(ctx, FX_ERR_FORMAT, loc,
                               "line %d: unknown key '%s', expected name, cflags, lanes, fma, mr, nr, l1, l2, pointer_bits, isa, sm, threads or types",
                               line, fx_intern_n(ctx, s, n < 80 ? n : 80));
            if (seen[k])
                return fx_fail(ctx, FX_ERR_FORMAT, loc, "line %d: %s is given twice", line, keys[k].name);
            seen[k] = true;
            FX_TRY(parse_value(ctx, loc, line, &keys[k], value, (size_t)(stop - value), &t));
        }
        s = eol < end ? eol + 1 : end;
    }
    if (!seen[0])
        return fx_fail(ctx, FX_ERR_FORMAT, loc, "expected a line 'name = ...', there is none");
    FX_TRY(check_target(ctx, loc, &t));
    *out = t;
    return FX_OK;
}

typedef struct get_args {
    fx_context *ctx;
    const char *name;
    fx_target *out;
} get_args;

static fx_status get_target(void *arg)
{
    enum { LARGEST = 65536 };
    get_args *a = arg;
    const char *name = strcmp(a->name, "native") == 0 ? native_name() : a->name;
    const fx_target *found = preset(name);
    if (found) {
        *a->out = *found;
        return FX_OK;
    }
    char *text = fx_arena_alloc(fx_context_arena(a->ctx), LARGEST + 1);
    fx_loc loc = {.file = fx_intern(a->ctx, name)};
    FILE *f = fopen(name, "rb");
    if (!f)
        return fx_fail(a->ctx, FX_ERR_ARGUMENT, &loc,
                       "expected a target (generic, x86_64-avx2, x86_64-avx512, native, aarch64, cortex-m4, cuda, cuda-sm_75, ..., cuda-sm_120) or a readable file: %s",
                       strerror(errno));
    size_t n = fread(text, 1, LARGEST + 1, f);
    bool bad = ferror(f) != 0;
    fclose(f);
    if (bad)
        return fx_fail(a->ctx, FX_ERR_IO, &loc, "the target file cannot be read");
    if (n > LARGEST)
        return fx_fail(a->ctx, FX_ERR_FORMAT, &loc, "expected a target file of at most %d bytes, got more", LARGEST);
    return parse_target(a->ctx, &loc, text, n, a->out);
}

fx_status fx_target_get(fx_context *ctx, const char *name_or_file, fx_target *out)
{
    get_args a = {ctx, name_or_file ? name_or_file : "native", out};
    return fx_protect(ctx, get_target, &a);
}
