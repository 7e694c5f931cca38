/* tests/fuzz/case.c: a case from its seed to the values of its loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <ctype.h>

#include "fxcc/compile.h"
#include "ir/ops.h"
#include "tests/fuzz/fuzz.h"

const char *fz_stage_name(fz_stage s)
{
    static const char *const names[] = {"ok", "draw", "reference", "refused", "lower", "run", "planned", "jit", "codegen", "compile", "emitted"};
    return names[s];
}

/* The text without quoted names and numbers: what failures of one kind have in common. */
static void generalise(const char *text, char *kind, size_t size)
{
    size_t n = 0;
    for (const char *s = text; *s && n + 1 < size; s++) {
        if (*s == '\'' && strchr(s + 1, '\'')) {
            s = strchr(s + 1, '\'');
            kind[n++] = '_';
        } else if (isdigit((unsigned char)*s)) {
            if (!n || kind[n - 1] != '#')
                kind[n++] = '#';
        } else {
            kind[n++] = *s;
        }
    }
    kind[n] = 0;
}

void fz_fail(fz_failure *f, fz_stage stage, fx_context *ctx, const char *fmt, ...)
{
    va_list ap;
    f->stage = stage;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    size_t n = ctx ? fx_diag_count(ctx) : 0, shown = 0;
    generalise(f->text, f->kind, sizeof f->kind);
    for (size_t i = 0; i < n && shown < 3; i++) {
        char line[400];
        if (fx_diag_get(ctx, i)->severity != FX_ERROR)
            continue;
        if (shown++ == 0)
            generalise(fx_diag_get(ctx, i)->message, f->kind, sizeof f->kind);
        fx_diag_format(fx_diag_get(ctx, i), line, sizeof line);
        snprintf(f->text + strlen(f->text), sizeof f->text - strlen(f->text), "%s%s", *f->text ? "\n" : "", line);
    }
}

static void draw_settings(fz_case *c)
{
    fz_rng r = {c->seed ^ 0x517cc1b727220a95u};
    c->settings = (fz_settings){.target = "generic", .threads = fz_one_in(&r, 2) ? 1 : (int)fz_in(&r, 2, 8)};
    if (fz_one_in(&r, 2))
        c->settings.off = (unsigned)fz_next(&r) & ((1u << FX_PART_COUNT) - 1) & (unsigned)fz_next(&r);
}

bool fz_case_make(fz_case *c, uint64_t seed, const fz_menu *menu, fz_failure *f)
{
    *c = (fz_case){.seed = seed, .ctx = fx_context_create()};
    *f = (fz_failure){.stage = FZ_OK};
    draw_settings(c);
    if (fz_draw(c, menu) != FX_OK) {
        fz_fail(f, FZ_DRAW, c->ctx, "%s", "");
        return false;
    }
    fz_rng r = {seed ^ 0x9e3779b97f4a7c15u};
    if (menu->symbols && fz_one_in(&r, 3))
        fz_draw_sizes(c);
    c->spoil = menu->wrong;
    if (fz_reference(c) != FX_OK) {
        fz_fail(f, FZ_REFERENCE, c->ctx, "%s", "");
        return false;
    }
    return true;
}

typedef struct lower_args {
    fz_case *c;
    fx_status status;
} lower_args;

static fx_status lower(void *arg)
{
    fz_case *c = ((lower_args *)arg)->c;
    fx_lower_options o = {.threads = c->settings.threads, .off = c->settings.off, .fault = c->settings.fault};
    FX_TRY(fx_target_get(c->ctx, c->settings.target, &o.target));
    return fx_lower_run(fx_graph_copy(c->symbolic ? c->symbolic : c->g), &o, &c->program);
}

bool fz_case_lower(fz_case *c, fz_failure *f)
{
    lower_args a = {c, FX_OK};
    c->program = NULL;
    fx_status status = fx_protect(c->ctx, lower, &a);
    if (status == FX_OK && c->program)
        return true;
    fz_fail(f, status == FX_ERR_UNSUPPORTED ? FZ_REFUSED : FZ_LOWER, c->ctx, "%s", "");
    return false;
}

typedef struct run_args {
    fx_program *program;
    const fz_case *c;
    bool planned;
    size_t n_out;
    fx_tensor *out, own[FZ_MAX_INPUTS]; /* the inputs, which may change */
} run_args;

static fx_status run(void *arg)
{
    run_args *a = arg;
    memcpy(a->own, a->c->in, sizeof a->own);
    for (size_t k = 0; k < a->c->n_changed; k++)
        FX_TRY(fx_tensor_copy(a->c->ctx, &a->c->in[a->c->changed[k]], &a->own[a->c->changed[k]]));
    return fx_program_run(a->program, a->planned, a->c->n_in, a->own, &a->n_out, &a->out);
}

/* The program on the inputs of c, which is the case or one of its variants. */
static bool run_one(fx_program *program, const fz_case *c, bool planned, fz_tally *tally, fz_failure *f)
{
    fz_stage stage = planned ? FZ_PLANNED : FZ_RUN;
    run_args a = {.program = program, .c = c, .planned = planned};
    size_t said = fx_diag_count(c->ctx);
    fx_status status = fx_protect(c->ctx, run, &a);
    if (c->refuses && status == FX_ERR_ARGUMENT) {
        fx_diag_truncate(c->ctx, said);
        return true;
    }
    if (status == FX_OK && c->refuses) {
        fz_fail(f, stage, NULL, "a wrong number for %s is not refused", c->refuses);
        return false;
    }
    if (status != FX_OK) {
        fz_fail(f, stage, c->ctx, "%s", "");
        return false;
    }
    if (a.n_out != c->n_out) {
        fz_fail(f, stage, NULL, "%zu outputs, expected %zu", a.n_out, c->n_out);
        return false;
    }
    for (size_t i = 0; i < c->n_out + c->n_changed; i++) {
        char text[300];
        if (fz_compare(c, i, i < c->n_out ? &a.out[i] : &a.own[c->changed[i - c->n_out]], planned ? NULL : tally, text, sizeof text))
            continue;
        char sizes[80];
        fz_fail(f, stage, NULL, "%s%s", fz_sizes_text(c, sizes, sizeof sizes), text);
        snprintf(f->kind, sizeof f->kind, "values");
        return false;
    }
    return true;
}

/* Lowering may narrow ranges: where an op's sizes are only known for larger symbols, a run at smaller ones is refused. */
static bool in_range(const fx_program *p, const fz_case *c)
{
    for (size_t i = 0; i < p->n_symbols; i++) {
        int64_t v = c->sizes.value[p->symbols[i].name[1] - '0'];
        if (v < p->symbols[i].min || v > p->symbols[i].max)
            return false;
    }
    return true;
}

int fz_runs(fz_case *c, fz_case **runs)
{
    int n = 0;
    runs[n++] = c;
    for (int v = 0; c->symbolic && v < c->n_variants; v++)
        if (in_range(c->program, c->variants[v]))
            runs[n++] = c->variants[v];
    if (c->wrong)
        runs[n++] = c->wrong;
    return n;
}

bool fz_case_run(fz_case *c, fz_tally *tally, fz_failure *f)
{
    fz_case *runs[FZ_MAX_RUNS];
    int n = fz_runs(c, runs);
    for (int planned = 0; planned < 2; planned++)
        for (int i = 0; i < n; i++)
            if (!run_one(c->program, runs[i], planned, tally, f))
                return false;
    return true;
}

void fz_case_free(fz_case *c)
{
    if (c->ctx)
        fx_context_free(c->ctx);
    c->ctx = NULL;
}

typedef struct copy_args {
    const fz_case *from;
    fz_case *to;
    const char *text;
    size_t size;
} copy_args;

/* By its text, so that what is kept is what was tried; constants are taken from the graph itself. */
static fx_status print_graph(void *arg)
{
    copy_args *a = arg;
    fx_text t;
    fx_text_init(&t, fx_context_arena(a->from->ctx));
    fx_graph_print(&t, a->from->g);
    a->text = t.data;
    a->size = t.size;
    return FX_OK;
}

static fx_status copy(void *arg)
{
    copy_args *a = arg;
    const fz_case *from = a->from;
    fz_case *to = a->to;
    FX_TRY(fx_graph_parse(to->ctx, "fuzz.fx", a->text, a->size, &to->g));
    for (size_t i = 0; i < from->g->n_attrs; i++) {
        const fx_attr *was = from->g->attrs[i];
        fx_attr *is = fx_attr_find(to->g, was->path);
        fx_tensor t;
        if (!is)
            continue;
        FX_TRY(fx_tensor_create(to->ctx, was->tensor.dtype, was->tensor.rank, was->tensor.sizes, &t));
        fx_tensor_assign(&t, &was->tensor);
        fx_attr_set_tensor(is, &t);
    }
    FX_TRY(fx_graph_complete(to->g));
    for (size_t i = 0; i < from->n_in; i++) {
        FX_TRY(fx_tensor_create(to->ctx, from->in[i].dtype, from->in[i].rank, from->in[i].sizes, &to->in[i]));
        fx_tensor_assign(&to->in[i], &from->in[i]);
    }
    return FX_OK;
}

bool fz_case_copy(const fz_case *c, fz_case *to)
{
    copy_args a = {.from = c, .to = to};
    *to = (fz_case){.seed = c->seed, .settings = c->settings, .sizes = c->sizes, .spoil = c->spoil, .n_in = c->n_in, .ctx = fx_context_create()};
    if (fx_protect(c->ctx, print_graph, &a) == FX_OK && fx_protect(to->ctx, copy, &a) == FX_OK)
        return true;
    fz_case_free(to);
    return false;
}
