/* tests/fuzz/main.c: the command of the random-graph test.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

/* Cases in a translation unit; kinds of failures that are shrunk. */
enum { UNIT = 100, MOST_KEPT = 100 };

typedef struct options {
    uint64_t seed;
    int64_t count, only;         /* only: that one case, -1: all */
    bool emit_c, jit, rows, all_rows, verbose;
    const char *keep, *row, *target, *emit_cuda;
    uint32_t dtypes;
    fx_fault fault;
} options;

typedef struct tally_of {
    char kind[160];
    uint64_t count;
} tally_of;

typedef struct session {
    options o;
    fz_rows rows;
    fz_counts counts;
    fz_menu menu;
    fz_tally tally;
    uint64_t cases, compiled, refused, failed, undrawn;
    tally_of refusals[64], symbol_refusals[64];
    int n_refusals, n_symbol_refusals;
    uint64_t symbolic, refused_symbols, wrong;
    fz_failure kept[MOST_KEPT];
    int n_kept;
    bool clang, avx2;
    char folder[300];            /* for emitted files */
} session;

/* ---- failures ---------------------------------------------------------------------------------------------------------------------- */

static void count(tally_of *list, int *n, const char *kind)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(list[i].kind, kind)) {
            list[i].count++;
            return;
        }
    if (*n < 64) {
        snprintf(list[*n].kind, sizeof list[0].kind, "%s", kind);
        list[(*n)++].count = 1;
    }
}

/* Whether a case fails as the first did: what shrinking asks. */
typedef struct likeness {
    session *s;
    const fz_build *build;
    fz_failure first;
} likeness;

/* A drawn case up to the stage `last`; false: f says where it ended. */
static bool run_to(session *s, const fz_build *b, fz_case *c, fz_stage last, fz_tally *tally, fz_failure *f)
{
    if (!fz_case_lower(c, f)) {
        if (!c->symbolic || f->stage != FZ_REFUSED || last == FZ_REFUSED)
            return false;
        /* not with symbolic sizes: as it is, then */
        s->refused_symbols++;
        count(s->symbol_refusals, &s->n_symbol_refusals, f->kind);
        fx_diag_truncate(c->ctx, 0);
        c->symbolic = NULL;
        c->sizes = (fz_sizes){0};
        *f = (fz_failure){.stage = FZ_OK};
        if (!fz_case_lower(c, f))
            return false;
    }
    s->symbolic += c->symbolic && tally;
    s->wrong += c->wrong && tally;
    if (last <= FZ_LOWER)
        return true;
    if (!fz_case_run(c, tally, f))
        return false;
    if (s->o.jit && last >= FZ_PLANNED && !fz_case_jit(c, f))
        return false;
    if (last < FZ_CODEGEN)
        return true;
    char folder[400];
    snprintf(folder, sizeof folder, "%s/one", s->folder);
    fz_unit_run(folder, b, 1, &c, tally, f);
    return f->stage == FZ_OK;
}

static bool fails_alike(void *user, fz_case *c)
{
    likeness *l = user;
    fz_failure f = {.stage = FZ_OK};
    if (fz_reference(c) != FX_OK) {
        fz_fail(&f, FZ_REFERENCE, c->ctx, "%s", "");
        return l->first.stage == FZ_REFERENCE && !strcmp(f.kind, l->first.kind);
    }
    return l->first.stage != FZ_REFERENCE && !run_to(l->s, l->build, c, l->first.stage, NULL, &f) && f.stage == l->first.stage && !strcmp(f.kind, l->first.kind);
}

static void failed(session *s, int64_t i, const fz_build *b, fz_case *c, const fz_failure *f)
{
    enum { MOST_IN_PROCESS = 3000, MOST_COMPILED = 250 };
    s->failed++;
    printf("FAILED case %lld of seed %llu (%s, off %#x, %d threads; %s %s%s): %s: %s\n", (long long)i, (unsigned long long)s->o.seed, c->settings.target,
           c->settings.off, c->settings.threads, b->compiler, b->level, b->link_runtime ? " --link-runtime" : "", fz_stage_name(f->stage), f->text);
    fflush(stdout);
    if (!s->o.keep)
        return;
    for (int k = 0; k < s->n_kept; k++)
        if (s->kept[k].stage == f->stage && !strcmp(s->kept[k].kind, f->kind) && strcmp(f->kind, "values") != 0)
            return; /* one of a kind is enough */
    if (s->n_kept < MOST_KEPT)
        s->kept[s->n_kept++] = *f;
    likeness l = {s, b, *f};
    fz_case small;
    if (!fz_case_copy(c, &small))
        return;
    size_t nodes = small.g->n_nodes;
    int steps = fz_shrink(&small, fails_alike, &l, f->stage >= FZ_CODEGEN ? MOST_COMPILED : MOST_IN_PROCESS);
    fz_failure now = *f;
    fx_diag_truncate(small.ctx, 0);
    if (fz_reference(&small) == FX_OK && !run_to(s, b, &small, f->stage, NULL, &now))
        printf("  %zu nodes, %zu after %d steps: %s\n", nodes, small.g->n_nodes, steps, now.text);
    char name[60];
    snprintf(name, sizeof name, "fuzz_%llu_%lld", (unsigned long long)s->o.seed, (long long)i);
    if (!fz_keep(&small, s->o.keep, name, &now, b))
        printf("  cannot be written to %s\n", s->o.keep);
    else
        printf("  written to %s/%s.fx\n", s->o.keep, name);
    fflush(stdout);
    fz_case_free(&small);
}

/* ---- units ------------------------------------------------------------------------------------------------------------------------- */

static fz_build draw_build(const session *s, int64_t unit, const char **target)
{
    static const char *const targets[] = {"generic", "native", "native", "x86_64-avx2"}, *const levels[] = {"-O0", "-O0", "-O1", "-O3"};
    fz_rng r = {fz_case_seed(s->o.seed ^ 0xabcdef, unit)};
    fz_build b = {.compiler = s->clang && fz_one_in(&r, 2) ? "clang" : "gcc", .level = levels[fz_below(&r, 4)], .link_runtime = fz_one_in(&r, 4)};
    if (s->o.emit_cuda) {
        *target = s->o.target ? s->o.target : "cuda";
        b = (fz_build){.compiler = s->clang && fz_one_in(&r, 2) ? "clang++" : "g++", .level = fz_one_in(&r, 2) ? "-O0" : "-O1", .cuda = s->o.emit_cuda};
        return b;
    }
    *target = s->o.target ? s->o.target : targets[fz_below(&r, s->avx2 ? 4 : 3)];
    return b;
}

/* Cases first .. first + n - 1: in process one by one, then as one translation unit. */
static void run_unit(session *s, int64_t first, int n)
{
    static fz_case cases[UNIT];
    static fz_failure failures[UNIT];
    fz_case *ready[UNIT];
    int64_t number[UNIT];
    size_t k = 0;
    const char *target;
    fz_build b = draw_build(s, first / UNIT, &target);
    for (int i = 0; i < n; i++) {
        fz_case *c = &cases[i];
        fz_failure f;
        s->cases++;
        bool drawn = fz_case_make(c, fz_case_seed(s->o.seed, first + i), &s->menu, &f);
        c->settings.target = target;
        c->settings.fault = s->o.fault;
        if (drawn)
            fz_survey(&s->counts, c->g);
        if (s->o.verbose && c->g) {
            fx_text t;
            fx_text_init(&t, fx_context_arena(c->ctx));
            fx_graph_print(&t, c->g);
            fputs(t.data, stdout);
        }
        if (!drawn && fx_diag_count(c->ctx) && f.stage == FZ_REFERENCE && strstr(f.text, "without in-place ops gives another")) {
            failed(s, first + i, &b, c, &f);
        } else if (!drawn) {
            s->undrawn++;
            count(s->refusals, &s->n_refusals, f.kind);
        } else if (run_to(s, &b, c, FZ_PLANNED, &s->tally, &f)) {
            number[k] = first + i;
            ready[k++] = c;
        } else if (f.stage == FZ_REFUSED) {
            s->refused++;
            count(s->refusals, &s->n_refusals, f.kind);
        } else {
            failed(s, first + i, &b, c, &f);
        }
    }
    if ((s->o.emit_c || s->o.emit_cuda) && k) {
        char folder[400];
        snprintf(folder, sizeof folder, "%s/unit", s->folder);
        fz_unit_run(folder, &b, k, ready, NULL, failures);
    }
    for (size_t i = 0; i < k; i++) {
        bool emitted = s->o.emit_c || s->o.emit_cuda;
        if (emitted && failures[i].stage == FZ_REFUSED) {
            s->refused++;
            count(s->refusals, &s->n_refusals, failures[i].kind);
        } else if (emitted && failures[i].stage != FZ_OK) {
            failed(s, number[i], &b, ready[i], &failures[i]);
        } else {
            s->compiled++;
        }
    }
    for (int i = 0; i < n; i++)
        fz_case_free(&cases[i]);
}

/* ---- the command -------------------------------------------------------------------------------------------------------------------- */

static uint64_t fresh_seed(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    fz_rng r = {(uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec + (uint64_t)getpid()};
    return fz_next(&r) % 1000000000;
}

static bool has_avx2(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

static int usage(void)
{
    fputs("fuzz [--seed S] [--count N] [--only I] [--emit-c] [--emit-cuda LIBFXCU.A] [--jit] [--keep DIR] [--row NAME] [--target NAME] [--dtypes float32,int8,...] [--rows] [--all-rows] [--verbose]\n", stderr);
    return 2;
}

static bool number(const char *s, int64_t *v)
{
    char *end;
    errno = 0;
    *v = strtoll(s, &end, 10);
    return errno == 0 && *s && !*end && *v >= 0;
}

/* "float32,int8" */
static bool dtypes(const char *s, uint32_t *mask)
{
    *mask = 0;
    while (*s) {
        size_t n = strcspn(s, ",");
        int d = 0;
        while (d < FX_DTYPE_COUNT && (strlen(fx_dtype_name((fx_dtype)d)) != n || strncmp(fx_dtype_name((fx_dtype)d), s, n)))
            d++;
        if (d == FX_DTYPE_COUNT)
            return false;
        *mask |= 1u << d;
        s += n + (s[n] == ',');
    }
    return *mask != 0;
}

static bool parse(int argc, char **argv, options *o)
{
    int64_t v;
    *o = (options){.seed = fresh_seed(), .count = 500, .only = -1, .dtypes = FZ_DTYPES};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(a, "--emit-c"))
            o->emit_c = true;
        else if (!strcmp(a, "--emit-cuda") && *next)
            o->emit_cuda = argv[++i];
        else if (!strcmp(a, "--jit"))
            o->jit = true;
        else if (!strcmp(a, "--rows"))
            o->rows = true;
        else if (!strcmp(a, "--all-rows"))
            o->all_rows = true;
        else if (!strcmp(a, "--verbose"))
            o->verbose = true;
        else if (!strcmp(a, "--keep") && *next)
            o->keep = argv[++i];
        else if (!strcmp(a, "--target") && *next)
            o->target = argv[++i];
        else if (!strcmp(a, "--dtypes") && dtypes(next, &o->dtypes))
            i++;
        else if (!strcmp(a, "--row") && *next)
            o->row = argv[++i];
        else if (!strcmp(a, "--seed") && number(next, &v))
            o->seed = (uint64_t)v, i++;
        else if (!strcmp(a, "--count") && number(next, &v))
            o->count = v, i++;
        else if (!strcmp(a, "--only") && number(next, &v))
            o->only = v, i++;
        else
            return false;
    }
    return true;
}

static void report(const session *s)
{
    uint64_t all = s->tally.exact + s->tally.bounded + s->tally.unknown;
    printf("%llu graphs: %llu right, %llu failed, %llu refused, %llu not drawn\n", (unsigned long long)s->cases, (unsigned long long)s->compiled,
           (unsigned long long)s->failed, (unsigned long long)s->refused, (unsigned long long)s->undrawn);
    printf("%llu with a symbolic size, %llu refused with one and done without; %llu run with a wrong number too\n", (unsigned long long)s->symbolic,
           (unsigned long long)s->refused_symbols, (unsigned long long)s->wrong);
    if (all)
        printf("%llu elements: %.1f%% bit for bit, %.1f%% within a bound, %.1f%% unknown\n", (unsigned long long)all,
               100.0 * (double)s->tally.exact / (double)all, 100.0 * (double)s->tally.bounded / (double)all, 100.0 * (double)s->tally.unknown / (double)all);
    for (int i = 0; i < s->n_refusals; i++)
        printf("  %6llu x %s\n", (unsigned long long)s->refusals[i].count, s->refusals[i].kind);
    for (int i = 0; i < s->n_symbol_refusals; i++)
        printf("  %6llu x with a symbolic size: %s\n", (unsigned long long)s->symbol_refusals[i].count, s->symbol_refusals[i].kind);
}

/* Draws the graphs of a run, and no more: what they are made of. */
static int list_rows(session *s)
{
    for (int64_t i = 0; i < s->o.count; i++) {
        fz_case c = {.seed = fz_case_seed(s->o.seed, i), .ctx = fx_context_create()};
        if (fz_draw(&c, &s->menu) == FX_OK)
            fz_survey(&s->counts, c.g);
        fz_case_free(&c);
    }
    printf("%llu graphs of seed %llu; in so many:\n", (unsigned long long)s->counts.graphs, (unsigned long long)s->o.seed);
    for (int id = 1; id < FX_OP_COUNT; id++)
        if (s->rows.able[id])
            printf("%8llu %s\n", (unsigned long long)s->counts.row[id], fx_ops[id].name);
    printf("not drawn:\n");
    for (int id = 1; id < FX_OP_COUNT; id++)
        if (!s->rows.able[id])
            printf("         %s: %s\n", fx_ops[id].name, s->rows.why[id]);
    printf("of the graphs have:\n");
    for (int i = 0; i < FZ_HAS_COUNT; i++)
        if (s->counts.has[i])
            printf("%7.1f%% %s\n", 100.0 * (double)s->counts.has[i] / (double)s->counts.graphs, fz_has_name(i));
    return 0;
}

/* Whether a run has drawn every row that it can. */
static bool drew_all(const session *s)
{
    bool all = true;
    for (int id = 1; id < FX_OP_COUNT; id++)
        if (s->rows.able[id] && !s->counts.row[id]) {
            printf("FAILED: never drawn: %s\n", fx_ops[id].name);
            all = false;
        }
    return all;
}

int main(int argc, char **argv)
{
    static session s;
    if (!parse(argc, argv, &s.o))
        return usage();
    s.menu = (fz_menu){.dtypes = s.o.dtypes, .writes = true};
    fz_probe(&s.menu, &s.rows);
    s.menu.able = s.rows.able;
    s.menu.symbols = true;
    s.menu.wrong = true;
    if (s.o.row) {
        const fx_op *op = fx_op_find(s.o.row, NULL);
        if (!op)
            return usage();
        s.menu.only = op->id;
    }
    if (s.o.rows)
        return list_rows(&s);
    printf("seed %llu, %lld graphs\n", (unsigned long long)s.o.seed, (long long)(s.o.only >= 0 ? 1 : s.o.count));
    fflush(stdout);
    const char *tmp = getenv("TMPDIR");
    snprintf(s.folder, sizeof s.folder, "%s/fxcc-fuzz-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(s.folder)) {
        perror(s.folder);
        return 2;
    }
    s.clang = (s.o.emit_c || s.o.emit_cuda) && system("clang --version >/dev/null 2>&1") == 0;
    s.avx2 = has_avx2();
    if (s.o.keep)
        mkdir(s.o.keep, 0777);
    if (s.o.only >= 0)
        run_unit(&s, s.o.only, 1);
    else
        for (int64_t i = 0; i < s.o.count; i += UNIT)
            run_unit(&s, i, (int)(s.o.count - i < UNIT ? s.o.count - i : UNIT));
    report(&s);
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", s.folder);
    if (system(command) != 0)
        perror(s.folder);
    return s.failed || (s.o.all_rows && !drew_all(&s)) ? 1 : 0;
}
