/* passes/manager.c: runs pipelines of passes: reads the text, copies, checks, logs, times; passes only change.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "passes/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the table -------------------------------------------------------------------------------------------------- */

#define PARAM(name, type, def, doc) {#name, type, def, doc},
#define GRAPH_PASS(name, after, idempotent, doc, ...) static const fx_pass_param params_of_##name[] = {__VA_ARGS__ {0}};
#include "passes/pass.def"
#undef GRAPH_PASS
#undef PARAM

typedef struct row {
    fx_graph_pass pass;
    fx_status (*run)(fx_pass_run *run);
} row;

static const row rows[] = {
#define GRAPH_PASS(name, after, idempotent, doc, ...) \
    {{#name, doc, sizeof params_of_##name / sizeof(fx_pass_param) - 1, params_of_##name, after, idempotent}, fx_gpass_##name},
#include "passes/pass.def"
#undef GRAPH_PASS
};

enum { N_ROWS = sizeof rows / sizeof *rows };

const fx_graph_pass *fx_graph_pass_get(size_t i)
{
    return i < N_ROWS ? &rows[i].pass : NULL;
}

/* ---- the nearest name ---------------------------------------------------------------------------------------------- */

/* Insertions, deletions and replacements that lead from a to b; long words are far from everything. */
static size_t distance(const char *a, const char *b)
{
    enum { MOST = 64 };
    size_t n = strlen(a), m = strlen(b), line[MOST + 1];
    if (n > MOST || m > MOST)
        return MOST;
    for (size_t k = 0; k <= m; k++)
        line[k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = line[0];
        line[0] = i;
        for (size_t k = 1; k <= m; k++) {
            size_t replaced = diagonal + (a[i - 1] != b[k - 1]), best = line[k] < line[k - 1] ? line[k] + 1 : line[k - 1] + 1;
            diagonal = line[k];
            line[k] = replaced < best ? replaced : best;
        }
    }
    return line[m];
}

const char *fx_nearest(const char *word, size_t n, const char *(*name)(const void *of, size_t i), const void *of)
{
    const char *best = NULL;
    size_t least = strlen(word) / 2 + 1;
    for (size_t i = 0; i < n; i++) {
        const char *candidate = name(of, i);
        size_t d = strstr(candidate, word) && strlen(word) > 2 ? 1 : distance(word, candidate);
        if (d < least) {
            least = d;
            best = candidate;
        }
    }
    return best;
}

static const char *pass_name(const void *of, size_t i)
{
    (void)of;
    return rows[i].pass.name;
}

static const char *param_name(const void *of, size_t i)
{
    return ((const fx_graph_pass *)of)->params[i].name;
}

/* ---- pipelines as text ------------------------------------------------------------------------------------------------ */

typedef struct option {
    const char *text;   /* as given or by default */
    double f;
    int64_t i;
} option;

typedef struct step {
    const row *row;
    option *options;    /* one for each of the pass's parameters */
} step;

typedef struct reader {
    fx_context *ctx;
    fx_arena *arena;
    const char *text, *at;
    step *steps;
    size_t n, cap;
} reader;

static void blanks(reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static fx_status expected(reader *r, const char *what)
{
    size_t n = strcspn(r->at, ",()= \t\r\n");
    if (*r->at)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "pipeline, column %d: expected %s, got '%.*s'", (int)(r->at - r->text) + 1, what,
                       n ? (int)(n < 40 ? n : 40) : 1, r->at);
    return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "pipeline, column %d: expected %s, got the end", (int)(r->at - r->text) + 1, what);
}

static const char *word(reader *r)
{
    size_t n = 0;
    blanks(r);
    while ((r->at[n] >= 'a' && r->at[n] <= 'z') || (r->at[n] >= 'A' && r->at[n] <= 'Z') || (r->at[n] >= '0' && r->at[n] <= '9') ||
           r->at[n] == '_')
        n++;
    const char *w = n ? fx_arena_printf(r->arena, "%.*s", (int)(n < 1000 ? n : 1000), r->at) : NULL;
    r->at += n;
    return w;
}

/* A value: up to the next comma or closing bracket, or in quotes. */
static fx_status value_text(reader *r, const char **out)
{
    blanks(r);
    if (*r->at == '"') {
        const char *after;
        *out = fx_parse_quoted(r->ctx, r->at, r->at + strlen(r->at), &after);
        if (!*out)
            return expected(r, "text in double quotes");
        r->at = after;
        return FX_OK;
    }
    size_t n = strcspn(r->at, ",)"), end = n;
    while (end > 0 && strchr(" \t\r\n", r->at[end - 1]))
        end--;
    if (end == 0)
        return expected(r, "a value");
    *out = fx_intern_n(r->ctx, r->at, end);
    r->at += n;
    return FX_OK;
}

/* Whether the text is of the parameter's type. */
static bool convert(const fx_pass_param *p, option *o)
{
    const char *after;
    char *end;
    if (!strcmp(p->type, "str"))
        return true;
    if (!strcmp(p->type, "bool")) {
        static const char *const yes[] = {"true", "True", "1", "yes"}, *const no[] = {"false", "False", "0", "no"};
        for (int k = 0; k < 4; k++) {
            if (!strcmp(o->text, yes[k]) || !strcmp(o->text, no[k])) {
                o->i = !strcmp(o->text, yes[k]);
                return true;
            }
        }
        return false;
    }
    if (!strcmp(p->type, "int")) {
        errno = 0;
        o->i = strtoll(o->text, &end, 10);
        o->f = (double)o->i;
        return end != o->text && !*end && !errno;
    }
    o->f = fx_parse_double(o->text, &after);
    return after != o->text && !*after;
}

static fx_status one_option(reader *r, step *s)
{
    const fx_graph_pass *pass = &s->row->pass;
    const char *name = word(r), *value;
    size_t i = 0;
    if (!name)
        return expected(r, "the name of an option");
    while (i < pass->n_params && strcmp(pass->params[i].name, name))
        i++;
    if (i == pass->n_params) {
        const char *near = fx_nearest(name, pass->n_params, param_name, pass);
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "pass %s has no option '%s'%s%s%s", pass->name, name,
                       near ? "; did you mean '" : pass->n_params ? "" : "; it takes none", near ? near : "", near ? "'?" : "");
    }
    blanks(r);
    if (*r->at != '=')
        return expected(r, "'='");
    r->at++;
    FX_TRY(value_text(r, &value));
    if (s->options[i].text)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "pass %s: option '%s' is given twice", pass->name, name);
    s->options[i].text = value;
    if (!convert(&pass->params[i], &s->options[i]))
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "pass %s: option '%s': expected %s, got '%s'", pass->name, name,
                       !strcmp(pass->params[i].type, "bool") ? "true or false" : !strcmp(pass->params[i].type, "int") ? "an integer" : "a number",
                       value);
    return FX_OK;
}

static fx_status one_step(reader *r)
{
    const char *name = word(r);
    size_t i = 0;
    if (!name)
        return expected(r, "the name of a pass");
    while (i < N_ROWS && strcmp(rows[i].pass.name, name))
        i++;
    if (i == N_ROWS) {
        const char *near = fx_nearest(name, N_ROWS, pass_name, NULL);
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "there is no pass '%s'%s%s%s", name, near ? "; did you mean '" : "; see 'fxcc passes'",
                       near ? near : "", near ? "'?" : "");
    }
    const fx_graph_pass *pass = &rows[i].pass;
    step s = {&rows[i], FX_NEW_ARRAY(r->arena, option, pass->n_params + 1)};
    blanks(r);
    if (*r->at == '(') {
        do {
            r->at++;
            blanks(r);
            if (*r->at != ')')
                FX_TRY(one_option(r, &s));
            blanks(r);
        } while (*r->at == ',');
        if (*r->at != ')')
            return expected(r, "',' or ')'");
        r->at++;
    }
    for (size_t k = 0; k < pass->n_params; k++) {
        if (s.options[k].text)
            continue;
        s.options[k].text = pass->params[k].def;
        if (!s.options[k].text)
            return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "pass %s needs the option '%s': %s", pass->name, pass->params[k].name,
                           pass->params[k].doc);
        if (!convert(&pass->params[k], &s.options[k]))
            return fx_fail(r->ctx, FX_INTERNAL, NULL, "pass.def: the default of option '%s' of %s is not of its type",
                           pass->params[k].name, pass->name);
    }
    FX_PUSH(r->arena, r->steps, r->n, r->cap) = s;
    return FX_OK;
}

/* Whether `name` is one of the space separated names in list. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; (p = strstr(p, name)) != NULL; p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

/* What a pass wants before it stands before it, when it stands anywhere. */
static fx_status check_order(const reader *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const fx_graph_pass *pass = &r->steps[i].row->pass;
        for (size_t k = i + 1; *pass->after && k < r->n; k++) {
            const fx_graph_pass *late = &r->steps[k].row->pass;
            bool before = late == pass || !listed(pass->after, late->name);
            for (size_t j = 0; !before && j < i; j++)
                before = r->steps[j].row == r->steps[k].row;
            if (!before)
                return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "pass %s must stand after %s, which follows it here", pass->name, late->name);
        }
    }
    return FX_OK;
}

static fx_status read_pipeline(reader *r)
{
    blanks(r);
    if (!*r->at)
        return FX_OK; /* nothing to do */
    for (;;) {
        FX_TRY(one_step(r));
        blanks(r);
        if (!*r->at)
            return check_order(r);
        if (*r->at != ',')
            return expected(r, "',' between passes");
        r->at++;
    }
}

/* ---- what passes call ---------------------------------------------------------------------------------------------------- */

struct fx_pass_log {
    const step *step;
    bool wanted;         /* by the caller: there is a report */
    struct changes {
        fx_change *list;
        size_t n, cap;
    } changes, notes;
};

static void write_down(const fx_pass_run *run, struct changes *in, const fx_node *n, const char *fmt, va_list ap)
{
    fx_arena *arena = fx_context_arena(run->ctx);
    if (run->log->wanted) {
        const char *what = fx_arena_vprintf(arena, fmt, ap);
        FX_PUSH(arena, in->list, in->n, in->cap) = (fx_change){run->name, n ? n->name : NULL, what};
    }
}

void fx_pass_note(fx_pass_run *run, const fx_node *n, const char *fmt, ...)
{
    va_list ap;
    run->n_changes++;
    va_start(ap, fmt);
    write_down(run, &run->log->changes, n, fmt, ap);
    va_end(ap);
}

void fx_pass_tell(fx_pass_run *run, const fx_node *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_down(run, &run->log->notes, n, fmt, ap);
    va_end(ap);
}

static const option none = {"", 0, 0};

static const option *option_of(const fx_pass_run *run, const char *name)
{
    const step *s = run->log->step;
    for (size_t i = 0; i < s->row->pass.n_params; i++)
        if (!strcmp(s->row->pass.params[i].name, name))
            return &s->options[i];
    return &none; /* a pass that asks for what its row does not have */
}

double fx_pass_float(const fx_pass_run *run, const char *name)
{
    return option_of(run, name)->f;
}

int64_t fx_pass_int(const fx_pass_run *run, const char *name)
{
    return option_of(run, name)->i;
}

bool fx_pass_bool(const fx_pass_run *run, const char *name)
{
    return option_of(run, name)->i != 0;
}

const char *fx_pass_str(const fx_pass_run *run, const char *name)
{
    return option_of(run, name)->text;
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

typedef struct job {
    fx_graph *given, *graph;
    const char *pipeline;
    const fx_pass_options *options;
    fx_pass_report *wanted, report;
    fx_arena *arena, *scratch; /* of the run, of a pass */
    fx_snapshot *before;    /* of a graph changed in place */
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a pass breaks is our fault, not that of the file the graph came from. */
static fx_status check(const job *j, const char *where, bool ours)
{
    if (j->options->no_lint)
        return FX_OK;
    fx_status status = fx_graph_verify(j->graph, j->graph->stage, where);
    return status == FX_OK || status == FX_ERR_NOMEM || status == FX_ERR_CANCELLED ? status : ours ? FX_INTERNAL : FX_ERR_ARGUMENT;
}

static fx_status run_all(void *arg)
{
    job *j = arg;
    fx_context *ctx = j->given->ctx;
    j->arena = fx_arena_create(ctx);
    j->scratch = fx_arena_create(ctx);
    reader r = {ctx, j->arena, j->pipeline, j->pipeline, NULL, 0, 0};
    FX_TRY(read_pipeline(&r));
    j->graph = j->given;
    FX_TRY(check(j, "before the passes", false));
    if (j->options->in_place)
        j->before = fx_snapshot_take(j->given, j->arena);
    else
        j->graph = fx_graph_copy(j->given);

    struct fx_pass_log log = {.wanted = j->wanted != NULL};
    fx_pass_time *times = j->wanted ? FX_NEW_ARRAY(fx_context_arena(ctx), fx_pass_time, r.n + 1) : NULL;
    for (size_t i = 0; i < r.n; i++) {
        const fx_graph_pass *pass = &r.steps[i].row->pass;
        fx_node *insert_before = j->graph->insert_before; /* the user's, of a graph changed in place */
        j->graph->insert_before = NULL;
        fx_pass_run run = {.ctx = ctx, .graph = j->graph, .scratch = j->scratch, .name = pass->name, .log = &log};
        log.step = &r.steps[i];
        double start = times ? now() : 0;
        FX_TRY(r.steps[i].row->run(&run));
        if (times)
            times[i] = (fx_pass_time){pass->name, now() - start, run.n_changes, j->graph->n_nodes};
        fx_arena_reset(j->scratch);
        j->graph->insert_before = insert_before && insert_before->erased ? NULL : insert_before;
        FX_TRY(check(j, pass->name, true));
        if (j->options->check)
            FX_TRY(j->options->check(j->options->user, pass->name, j->graph));
    }
    j->report = (fx_pass_report){log.changes.n, log.changes.list, times ? r.n : 0, times, log.notes.n, log.notes.list};
    return FX_OK;
}

fx_status fx_graph_run_passes(fx_graph *graph, const char *pipeline, const fx_pass_options *options, fx_graph **out, fx_pass_report *report)
{
    static const fx_pass_options defaults = {0};
    if (!graph)
        return FX_ERR_ARGUMENT;
    job j = {.given = graph, .pipeline = pipeline, .options = options ? options : &defaults, .wanted = report};
    if (!pipeline || (!out && !j.options->in_place))
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, "fx_graph_run_passes: expected %s, got NULL",
                       pipeline ? "a place for the result" : "a pipeline");
    fx_status status = fx_protect(graph->ctx, run_all, &j);
    if (status != FX_OK && j.before)
        fx_snapshot_restore(j.before);
    if (status != FX_OK && j.graph && j.graph != graph)
        fx_arena_free(j.graph->arena);
    if (j.scratch)
        fx_arena_free(j.scratch);
    if (j.arena)
        fx_arena_free(j.arena);
    if (status != FX_OK)
        return status;
    if (out)
        *out = j.graph;
    if (report)
        *report = j.report;
    return FX_OK;
}
