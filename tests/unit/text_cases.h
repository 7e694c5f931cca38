/* tests/unit/text_cases.h: text cases: a graph in, passes, a graph or a loop program out, or an error. Every case that gives one is also run
 * before and after, and against eager PyTorch's values where the case has them; a program's text must parse back. A test includes this, has a function that runs the passes, and calls cases_main.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A file holds cases:
 *     == what it shows
 *     passes: decompose fold
 *     sizes: s0=3 s1=5           (for graphs with symbols; each such line is a run)
 *     off: fuse layout           (optional: parts of lowering to leave out)
 *     -- in
 *     the graph, as fx_graph_print writes it, or a loop program, as fx_program_print does
 *     -- eager: 1.0 2.0 ...      (optional: all outputs, flat, for the inputs input_value() makes)
 *     -- out                     (or: -- error, then a part of the message a line)
 *     the graph or program; what the test adds to it (job.more)
 * FXCC_BLESS=1 writes what came out into the file. It runs in the root of the repository (or FXCC_ROOT). */
#ifndef FXCC_TEXT_CASES_H
#define FXCC_TEXT_CASES_H

#include <dirent.h>
#include <math.h>

#include "fxcc/module.h"
#include "ir/ops.h"
#include "ir/program.h"
#include "tests/unit/unit.h"

enum { MAX_CASES = 400, MAX_OUT = 8 };

typedef struct test_case {
    char *head, *in, *eager, *want; /* head: up to "-- in" */
    bool error;
} test_case;

/* Small numbers of both signs, exact in float, different for every input. */
static double input_value(size_t input, int64_t i)
{
    return (double)((i * 37 + (int64_t)input * 11 + 5) % 41 - 20) / 8;
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *text = malloc((size_t)size + 1);
    ck_assert_uint_eq(fread(text, 1, (size_t)size, f), (size_t)size);
    text[size] = 0;
    fclose(f);
    return text;
}

static char *piece(const char *from, const char *to)
{
    char *s = malloc((size_t)(to - from) + 1);
    memcpy(s, from, (size_t)(to - from));
    s[to - from] = 0;
    return s;
}

static const char *line_after(const char *s)
{
    const char *nl = strchr(s, '\n');
    return nl ? nl + 1 : s + strlen(s);
}

/* The first line at or after s that starts with mark; the end when there is none before `end`. */
static const char *find_line(const char *s, const char *end, const char *mark)
{
    while (s < end && strncmp(s, mark, strlen(mark)))
        s = line_after(s);
    return s;
}

static size_t split_cases(const char *text, char **preamble, test_case *cases)
{
    const char *end = text + strlen(text), *s = find_line(text, end, "== ");
    size_t n = 0;
    *preamble = piece(text, s);
    while (s < end) {
        ck_assert_uint_lt(n, MAX_CASES);
        const char *next = find_line(line_after(s), end, "== ");
        const char *in = find_line(s, next, "-- in"), *eager = find_line(s, next, "-- eager:");
        const char *out = find_line(s, next, "-- out"), *error = find_line(s, next, "-- error");
        const char *want = out < next ? out : error;
        cases[n].head = piece(s, in);
        cases[n].error = error < next;
        cases[n].in = in < next ? piece(line_after(in), eager < next ? eager : want) : NULL;
        cases[n].eager = eager < next ? piece(eager + 9, strchr(eager, '\n')) : NULL;
        cases[n].want = want < next ? piece(line_after(want), next) : piece(next, next);
        ck_assert_msg(cases[n].in != NULL, "case without '-- in': %.60s", s);
        n++;
        s = next;
    }
    return n;
}

/* The same but for blank lines at the end. */
static bool same_text(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n && a[n - 1] == '\n')
        n--;
    while (m && b[m - 1] == '\n')
        m--;
    return n == m && !memcmp(a, b, n);
}

typedef struct values {
    size_t n;
    double *v;
} values;

typedef struct job {
    fx_context *ctx;
    const char *file, *what;
    test_case *c;
    const char *got; /* text of graph or errors */
    bool failed;
    fx_program *program; /* what the passes made of the graph, or what the case holds; NULL: a graph */
    bool planned;
    const char *more; /* text behind the program's, NULL: none */
    bool only_more;   /* which is all that the case shows */
} job;

/* The rest of the case's first line that starts with mark, or NULL; freed by the caller. */
static inline char *head_line(const job *j, const char *mark)
{
    const char *end = j->c->head + strlen(j->c->head), *line = find_line(j->c->head, end, mark);
    return line == end ? NULL : piece(line + strlen(mark), line_after(line));
}

/* The next "sizes:" line of the case at or after *at: the symbols it names and their values. false when there is none. */
enum { MAX_SYMBOLS = 8 };
static bool next_sizes(job *j, const char **at, fx_sym_range *symbol, int64_t *value, size_t *n)
{
    const char *end = j->c->head + strlen(j->c->head), *line = find_line(*at, end, "sizes:");
    *n = 0;
    if (line == end)
        return false;
    *at = line_after(line);
    for (line += 6; line < *at && *line != '\n';) {
        char name[40];
        int used = 0;
        long long v;
        ck_assert_msg(*n < MAX_SYMBOLS && sscanf(line, " %39[^= \n]=%lld%n", name, &v, &used) == 2, "%s: sizes: expected NAME=VALUE ...", j->what);
        symbol[*n] = (fx_sym_range){ .name = fx_intern(j->ctx, name), .max = INT64_MAX };
        value[(*n)++] = v;
        line += used;
    }
    return true;
}

enum { MAX_IN = 16 };

static fx_status make_input(job *j, const char *name, fx_dtype dtype, int rank, const fx_dim *sizes, fx_symbols symbols, const int64_t *value, size_t *n_in,
                            fx_tensor *in)
{
    ck_assert_uint_lt(*n_in, MAX_IN);
    fx_dim dims[FX_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int64_t v;
        ck_assert_msg(fx_dim_eval(symbols, value, sizes[i], &v), "%s: the sizes do not tell those of input %s", j->what, name);
        dims[i] = fx_dim_of(v);
    }
    FX_TRY(fx_tensor_like(j->ctx, dtype, fx_type_tensor(j->ctx, dtype, rank, dims, NULL), &in[*n_in]));
    for (int64_t i = 0; i < fx_tensor_numel(&in[*n_in]); i++)
        fx_tensor_set(&in[*n_in], i, input_value(*n_in, i));
    ++*n_in;
    return FX_OK;
}

/* A note of what pass state made of a graph (lower/lower.h). */
static const fx_arg *note(const fx_node *n, const char *key)
{
    const fx_meta *m = n->meta;
    while (m && strcmp(m->key, key))
        m = m->next;
    return m ? m->value : NULL;
}

/* Inputs for a graph's placeholders; buffers that became some have their own values. Of a case that holds a program (g NULL), for its own. */
static fx_status make_inputs(job *j, fx_graph *g, fx_symbols symbols, const int64_t *value, size_t *n_in, fx_tensor *in)
{
    *n_in = 0;
    for (size_t i = 0; !g && i < j->program->n_inputs; i++) {
        const fx_io *io = &j->program->inputs[i];
        FX_TRY(make_input(j, io->name, io->dtype, io->rank, io->dims, symbols, value, n_in, in));
    }
    if (!g)
        return FX_OK;
    FX_FOR_NODES(g, n)
        if (n->opcode == FX_PLACEHOLDER && !note(n, "fxcc.state"))
            FX_TRY(make_input(j, n->name, n->type->dtype, n->type->rank, n->type->dims, symbols, value, n_in, in));
    return FX_OK;
}

static void add_values(size_t n, const fx_tensor *t, values *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t count = (size_t)fx_tensor_numel(&t[i]);
        out->v = realloc(out->v, (out->n + count + 1) * sizeof *out->v);
        for (size_t k = 0; k < count; k++)
            out->v[out->n++] = fx_tensor_get(&t[i], (int64_t)k);
    }
}

/* Runs a copy of the graph, whose buffers may change. After pass state the last results are what inputs become. */
static fx_status interpret(fx_graph *original, size_t n_in, fx_tensor *in, size_t *n_out, fx_tensor **result)
{
    fx_graph *g = fx_graph_copy(original);
    const fx_arg *writes = note(g->last, "fxcc.writes");
    size_t states = 0, user = n_in;
    FX_FOR_NODES(g, n) {
        const fx_arg *path = n->opcode == FX_PLACEHOLDER ? note(n, "fxcc.state") : NULL;
        if (path)
            FX_TRY(fx_graph_tensor(g, path->s, &in[user + states++]));
    }
    FX_TRY(fx_graph_interpret(g, user + states, in, n_out, result));
    for (int i = 0; writes && i < writes->n; i++) {
        size_t at = 0;
        FX_FOR_NODES(g, n) {
            if (n->opcode == FX_PLACEHOLDER && !note(n, "fxcc.state") && !strcmp(n->target, writes->items[i]->s))
                fx_tensor_assign(&in[at], &(*result)[*n_out - (size_t)writes->n + (size_t)i]);
            at += n->opcode == FX_PLACEHOLDER;
        }
    }
    *n_out -= writes ? (size_t)writes->n : 0;
    return FX_OK;
}

/* All outputs, for all sizes; then what the graph leaves in its inputs, which its caller sees. The program's once there is one. */
static fx_status run_graph(job *j, fx_graph *g, values *out)
{
    fx_tensor in[MAX_IN], *result;
    size_t n_in, n_out, n_symbols;
    fx_sym_range symbol[MAX_SYMBOLS];
    int64_t value[MAX_SYMBOLS];
    const char *at = j->c->head;
    bool more = next_sizes(j, &at, symbol, value, &n_symbols);
    out->n = 0;
    do {
        FX_TRY(make_inputs(j, g, (fx_symbols){ n_symbols, symbol }, value, &n_in, in));
        if (j->program)
            FX_TRY(fx_program_run(j->program, j->planned, n_in, in, &n_out, &result));
        else
            FX_TRY(interpret(g, n_in, in, &n_out, &result));
        add_values(n_out, result, out);
        add_values(n_in, in, out);
        more = more && next_sizes(j, &at, symbol, value, &n_symbols);
    } while (more);
    return FX_OK;
}

/* The text of a program must be one of an equal program. */
static fx_status check_text(job *j, const char *text)
{
    fx_program *again;
    fx_text t;
    FX_TRY(fx_program_parse(j->ctx, j->file, text, strlen(text), &again));
    fx_text_init(&t, fx_context_arena(j->ctx));
    fx_program_print(&t, again);
    fx_arena_free(again->arena);
    if (strcmp(t.data, text)) {
        fprintf(stderr, "%s: the program's text parses to\n%s\n", j->what, t.data);
        j->failed = true;
    }
    return FX_OK;
}

static bool close_to(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 2e-5 * (1 + fabs(b));
}

/* The test's: runs the passes of the list (may be changed) on *g (NULL: the case holds a program, job.program) and puts the graph that comes out
 * in its place. `before` gets the values of what was there before, by run_graph, unless before->v is set or the passes are not to keep values. */
static fx_status apply_passes(job *j, char *list, fx_graph **g, values *before);

static fx_status run_case(void *arg)
{
    job *j = arg;
    fx_graph *g = NULL;
    values before = { 0 }, after = { 0 };
    if (!strncmp(j->c->in, "program ", 8))
        FX_TRY(fx_program_parse(j->ctx, j->file, j->c->in, strlen(j->c->in), &j->program));
    else
        FX_TRY(fx_graph_parse(j->ctx, j->file, j->c->in, strlen(j->c->in), &g));
    if (g && g->stage != FX_STAGE_CAPTURED)
        FX_FOR_NODES(g, n)
            if (n->opcode == FX_CALL_FUNCTION && n->op && fx_node_normalize(n) != FX_OK)
                return FX_ERR_TYPE;
    char *list = strdup(strstr(j->c->head, "passes:") + 7);
    *strchr(list, '\n') = 0;
    fx_status status = apply_passes(j, list, &g, &before);
    free(list);
    FX_TRY(status);
    bool compare = !j->c->error && before.v;
    fx_text t;
    fx_text_init(&t, fx_context_arena(j->ctx));
    if (j->program) {
        fx_program_print(&t, j->program);
        FX_TRY(check_text(j, t.data));
    } else {
        fx_graph_print(&t, g);
    }
    if (j->only_more)
        t.size = 0;
    if (j->more)
        fx_puts(&t, j->more);
    j->got = t.size ? t.data : "";
    if (strstr(j->c->head, "(not run)")) /* a title that says so: the case has what cannot be run here */
        return FX_OK;
    FX_TRY(run_graph(j, g, &after));
    for (size_t i = 0; compare && (before.n != after.n || i < before.n); i++)
        if (before.n != after.n || !close_to(after.v[i], before.v[i])) {
            fprintf(stderr, "%s: output %zu was %.9g and is now %.9g\n", j->what, i, before.v[i], after.v[i]);
            j->failed = true;
            break;
        }
    if (j->c->eager) {
        char *s = j->c->eager;
        for (size_t i = 0; i < after.n; i++) {
            char *end;
            double v = strtod(s, &end);
            if (end == s && i > 0)
                break; /* values beyond the outputs: what the inputs hold */
            s = end;
            if (!close_to(after.v[i], v)) {
                fprintf(stderr, "%s: output %zu: eager PyTorch gives %.9g, the graph %.9g\n", j->what, i, v, after.v[i]);
                j->failed = true;
                break;
            }
        }
    }
    free(before.v);
    free(after.v);
    return FX_OK;
}

static const char *all_errors(fx_context *ctx)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (size_t i = 0; i < fx_diag_count(ctx); i++) {
        char line[1000];
        fx_diag_format(fx_diag_get(ctx, i), line, sizeof line);
        fx_printf(&t, "%s\n", line);
    }
    return t.data ? t.data : "";
}

/* Whether every line wanted is a part of the text. */
static bool lines_within(const char *want, const char *text)
{
    while (*want) {
        const char *end = line_after(want);
        char *line = piece(want, end[-1] == '\n' ? end - 1 : end);
        bool found = strstr(text, line) != NULL;
        free(line);
        if (!found)
            return false;
        want = end;
    }
    return true;
}

static const char *cases_folder;

static const char *path_of(const char *name)
{
    static char path[1000];
    const char *root = getenv("FXCC_ROOT");
    snprintf(path, sizeof path, "%s%s%s/%s", root ? root : "", root ? "/" : "", cases_folder, name);
    return path;
}

static void run_file(const char *name)
{
    static test_case cases[MAX_CASES];
    bool bless = getenv("FXCC_BLESS") != NULL;
    const char *path = path_of(name);
    char *preamble, *text = read_file(path);
    size_t n = split_cases(text, &preamble, cases), failures = 0;
    FILE *out = NULL;
    if (bless) {
        out = fopen(path, "wb");
        fputs(preamble, out);
    }
    for (size_t i = 0; i < n; i++) {
        fx_context *ctx = fx_context_create();
        char what[200];
        snprintf(what, sizeof what, "%s: %.*s", name, (int)(strchr(cases[i].head, '\n') - cases[i].head - 3), cases[i].head + 3);
        job j = { .ctx = ctx, .file = name, .what = what, .c = &cases[i] };
        fx_status status = fx_protect(ctx, run_case, &j);
        const char *got = status == FX_OK ? j.got : all_errors(ctx);
        bool as_wanted = (status == FX_OK) != cases[i].error &&
                         (cases[i].error ? lines_within(cases[i].want, got) : bless || same_text(got, cases[i].want));
        if (!as_wanted || j.failed) {
            fprintf(stderr, "%s: %s\n%s\n", what, status == FX_OK ? "got" : "failed", got);
            failures++;
        }
        if (out) {
            bool keep = cases[i].error || status != FX_OK;
            fprintf(out, "%s-- in\n%s", cases[i].head, cases[i].in);
            if (cases[i].eager)
                fprintf(out, "-- eager:%s\n", cases[i].eager);
            fprintf(out, "-- %s\n%s", cases[i].error ? "error" : "out", keep ? cases[i].want : got);
            if (i + 1 < n && !keep)
                fprintf(out, "\n");
        }
        if (j.program)
            fx_arena_free(j.program->arena);
        fx_context_free(ctx);
        free(cases[i].head);
        free(cases[i].in);
        free(cases[i].eager);
        free(cases[i].want);
    }
    if (out)
        fclose(out);
    free(preamble);
    free(text);
    ck_assert_msg(failures == 0, "%s: %zu of %zu cases failed", name, failures, n);
}

static char *files[64];
static int n_files;

START_TEST(text_cases)
{
    run_file(files[_i]);
}
END_TEST

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void add_cases(TCase *t)
{
    tcase_add_loop_test(t, text_cases, 0, n_files);
}

/* add: add_cases, or a function that calls it and adds tests of its own. */
static int cases_main(const char *suite, const char *folder, void (*add)(TCase *t))
{
    cases_folder = folder;
    DIR *dir = opendir(path_of(""));
    if (!dir) {
        fprintf(stderr, "cannot open %s: run in the root of the repository\n", path_of(""));
        return 1;
    }
    for (struct dirent *e; (e = readdir(dir)) && n_files < 64;) {
        size_t size = strlen(e->d_name);
        if (size > 5 && !strcmp(e->d_name + size - 5, ".test"))
            files[n_files++] = strdup(e->d_name);
    }
    closedir(dir);
    qsort(files, (size_t)n_files, sizeof *files, by_name);
    int failed = unit_run(suite, 120, NULL, NULL, add);
    for (int i = 0; i < n_files; i++)
        free(files[i]);
    return failed;
}

#endif
