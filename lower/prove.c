/* lower/prove.c: the prove pass: each access of each loop within its buffer, what runs at once apart, kernels' preconditions, lives of buffers.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <string.h>
#include <time.h>

#include "fxcc/prove.h"
#include "lower/nest_key.h"
#include "lower/prove.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one statement -------------------------------------------------------------------------------------------------------- */

typedef struct nest {
    fx_prover *r;
    fx_prove_scope scope;
    int accesses, parallel;       /* how many were proved */
    const char *at_once;          /* hint or variable of the first loop whose iterations run at once */
    /* of the block of threads being looked at */
    const fx_stmt *block, *thread[3]; /* its loop (the outermost over blocks); the loops over threads around, by axis */
    int divergent;                /* guards, checks and other loops at once around, within the threads */
    /* of the grid being looked at */
    const fx_stmt *grid[FX_MAX_LOOPS]; /* its loops, outermost first */
    int n_grid;
    int guards;                   /* guards and checks around, aligned loops within the grid */
} nest;

static void unproved(nest *n, const char *text)
{
    if (!n->r->missing)
        n->r->missing = text;
}

static void access(nest *n, int buf, const fx_affine *index, const char *what)
{
    fx_prover *r = n->r;
    const char *text;
    n->accesses++;
    if (r->missing || fx_prove_within(r, &n->scope, index, r->p->bufs[buf].numel, &text))
        return;
    fx_text t;
    fx_text_init(&t, r->arena);
    fx_dim_print(&t, r->p->bufs[buf].numel);
    unproved(n, fx_arena_printf(r->arena, "the %s '%s' is not proved to be within its %s elements%s", what, r->p->bufs[buf].name, t.data, text));
}

static void expression(nest *n, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        access(n, e->buf, &e->index, "load of");
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        expression(n, e->arg[k]);
}

static void statements(nest *n, const fx_stmt *s, bool list);

static void ranged(nest *n, int var, const fx_stmt *s)
{
    if (fx_dim_known(s->extent) && s->extent.value <= 0)
        return; /* never runs */
    if (n->scope.n == FX_PROVE_DEPTH) {
        unproved(n, "too many loops");
        return;
    }
    n->scope.v[n->scope.n++] = (fx_prove_var){var, s->extent};
    statements(n, s->body, true);
    n->scope.n--;
}

/* ---- barriers --------------------------------------------------------------------------------------------------------------- */

static bool any_thread(const nest *n)
{
    return n->thread[0] || n->thread[1] || n->thread[2];
}

/* Every loop over threads of the list runs over as many as those around the barrier: none of the block's threads is missing there. */
static const fx_stmt *missing_threads(const nest *n, const fx_stmt *s)
{
    for (; s; s = s->next) {
        bool thread = s->kind == FX_ST_LOOP && s->loop == FX_LOOP_THREAD && s->axis >= 0 && s->axis < 3;
        if (thread && !(n->thread[s->axis] && fx_dim_equal(s->extent, n->thread[s->axis]->extent)))
            return s;
        const fx_stmt *inner = missing_threads(n, s->body);
        if (inner)
            return inner;
    }
    return NULL;
}

/* All threads of the block come to it, as often as the others. */
static void barrier(nest *n)
{
    const fx_stmt *other = n->block ? missing_threads(n, n->block->body) : NULL;
    if (!any_thread(n) || !n->block)
        unproved(n, "a barrier outside the threads of a block");
    else if (n->divergent)
        unproved(n, "a barrier that not all threads of the block need reach: it is inside a guard, a check or another loop that runs at once");
    else if (other)
        unproved(n, fx_arena_printf(n->r->arena, "a barrier that not all threads of the block reach: loop v%d runs over others", other->var));
}

/* All threads of the block, or of the warp where warps are rows of the block, come to the reduction equally often, and no others are launched beside
 * them: what is around the innermost loop over the grid is the same for them all, and nothing inside it is decided by one of them. */
static void reduction(nest *n, const fx_stmt *s)
{
    enum { WARP = 32 };
    const fx_stmt *lanes = n->n_grid ? n->grid[n->n_grid - 1] : NULL;
    int64_t others = 1, threads = lanes ? lanes->threads : 0;
    for (int i = 0; i + 1 < n->n_grid; i++)
        others *= n->grid[i]->threads;
    if (!lanes)
        unproved(n, fx_arena_printf(n->r->arena, "a reduction of t%d outside a grid", s->local));
    else if (lanes->axis != 0 || !fx_dim_is(lanes->extent, threads) || threads < WARP || (threads & (threads - 1)) != 0 || (threads > WARP && others > 1))
        unproved(n, fx_arena_printf(n->r->arena, "a reduction of t%d that not only the threads of a warp or of a block reach: loop v%d runs over others", s->local,
                                    lanes->var));
    else if (n->guards)
        unproved(n, fx_arena_printf(n->r->arena, "a reduction of t%d that not all threads need reach: it is inside a guard, a check or another loop that runs at once",
                                    s->local));
}

/* ---- loops ------------------------------------------------------------------------------------------------------------------ */

static void loop(nest *n, const fx_stmt *s)
{
    const char *text;
    const fx_stmt *block = n->block, *around = NULL;
    int divergent = n->divergent;
    bool thread = s->loop == FX_LOOP_THREAD && s->axis >= 0 && s->axis < 3;
    if (s->loop != FX_LOOP_SERIAL && s->loop != FX_LOOP_UNROLLED && !n->r->missing) {
        n->parallel++;
        if (!n->at_once)
            n->at_once = s->hint ? s->hint : fx_arena_printf(n->r->arena, "v%d", s->var);
        if (!fx_prove_parallel(n->r, &n->scope, s, &text))
            unproved(n, text);
    }
    if (thread) {
        around = n->thread[s->axis];
        n->thread[s->axis] = s;
    }
    if (around)
        unproved(n, fx_arena_printf(n->r->arena, "loop v%d runs over the threads that loop v%d runs over already", s->var, around->var));
    else if (s->loop == FX_LOOP_BLOCK && !n->block)
        n->block = s;
    n->divergent += s->loop == FX_LOOP_PARALLEL || s->loop == FX_LOOP_VECTOR || s->loop == FX_LOOP_GRID;
    bool grid = s->loop == FX_LOOP_GRID && n->n_grid < FX_MAX_LOOPS, at_once = s->loop == FX_LOOP_PARALLEL || s->loop == FX_LOOP_VECTOR;
    if (grid)
        n->grid[n->n_grid++] = s;
    n->guards += at_once;
    ranged(n, s->var, s);
    n->guards -= at_once;
    n->n_grid -= grid;
    n->block = block;
    n->divergent = divergent;
    if (thread)
        n->thread[s->axis] = around;
}

static void statements(nest *n, const fx_stmt *s, bool list)
{
    for (; s; s = list ? s->next : NULL) {
        const char *text;
        switch (s->kind) {
        case FX_ST_LOOP:
            loop(n, s);
            break;
        case FX_ST_CHECK:
            n->divergent++;
            n->guards++;
            ranged(n, FX_VAR_LOCAL(s->local), s);
            n->guards--;
            n->divergent--;
            break;
        case FX_ST_IF: {
            int before = n->scope.n_cond;
            n->divergent++;
            n->guards++;
            for (int k = 0; k < s->n_cond && n->scope.n_cond < FX_PROVE_DEPTH; k++)
                n->scope.cond[n->scope.n_cond++] = &s->cond[k];
            statements(n, s->body, true);
            n->scope.n_cond = before;
            n->guards--;
            n->divergent--;
            break;
        }
        case FX_ST_STORE:
            expression(n, s->value);
            access(n, s->buf, &s->index, "store to");
            break;
        case FX_ST_LOCAL: case FX_ST_SET:
            expression(n, s->value);
            break;
        case FX_ST_CALL:
            if (!n->r->missing && !fx_prove_call(n->r, s, &text))
                unproved(n, text);
            break;
        case FX_ST_BARRIER:
            barrier(n);
            break;
        case FX_ST_REDUCE:
            reduction(n, s);
            break;
        case FX_ST_ARRAY: case FX_ST_COMMENT:
            break;
        }
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------ */

/* What was found for statements of one key. */
typedef struct found {
    const char *step, *what, *missing, *loop;
    unsigned by;
} found;

static const char *loops_text(fx_prover *r, const fx_stmt *s)
{
    static const char *const kinds[] = {"", " parallel", " vector", " unrolled", " grid", " blocks", " threads"};
    fx_text t;
    fx_text_init(&t, r->kept);
    if (s->kind == FX_ST_CALL) {
        fx_printf(&t, "call %s", fx_kernel_get(s->call->kernel)->name);
        return t.data;
    }
    if (s->kind != FX_ST_LOOP)
        return "statement";
    fx_puts(&t, "for ");
    for (bool first = true; s && s->kind == FX_ST_LOOP; first = false) {
        fx_puts(&t, first ? "" : ", ");
        fx_dim_print(&t, s->extent);
        if (s->hint)
            fx_printf(&t, " %s%s", s->hint, kinds[s->loop]);
        else
            fx_printf(&t, " v%d%s", s->var, kinds[s->loop]);
        const fx_stmt *inner = s->body; /* behind comments and arrays the next loop, if it is alone */
        while (inner && (inner->kind == FX_ST_COMMENT || inner->kind == FX_ST_ARRAY))
            inner = inner->next;
        s = inner && !inner->next ? inner : NULL;
    }
    return t.data;
}

static const char *by_text(fx_prover *r, unsigned by)
{
    static const char *const names[] = {"intervals", "symbols' ranges", "guards", "checks", "isl", "strides", "order", "footprint"};
    fx_text t;
    fx_text_init(&t, r->kept);
    for (unsigned k = 0; k < sizeof names / sizeof *names; k++)
        if (by >> k & 1)
            fx_printf(&t, "%s%s", t.size ? ", " : "", names[k]);
    return t.size ? t.data : "nothing to prove";
}

static const char *what_text(const nest *n, const fx_stmt *s)
{
    fx_arena *a = n->r->kept;
    if (s->kind == FX_ST_CALL)
        return "arguments within their buffers, preconditions";
    const char *accesses = fx_arena_printf(a, "%d access%s within %s buffer%s", n->accesses, n->accesses == 1 ? "" : "es",
                                           n->accesses == 1 ? "its" : "their", n->accesses == 1 ? "" : "s");
    if (!n->parallel)
        return accesses;
    return fx_arena_printf(a, n->parallel > 1 ? "%s, iterations of %s and %d more loops apart" : "%s, iterations of %s apart", accesses, n->at_once,
                           n->parallel - 1);
}

typedef struct proofs {
    fx_prover r;
    fx_lower *l;
    fx_nest_keys *keys;
    size_t unproved;
    double started;
} proofs;

static void line(proofs *q, const fx_proof *proof)
{
    fx_loc none = {0};
    const fx_loc *loc = q->r.step >= 0 ? &q->r.p->steps[q->r.step].loc : &none;
    if (q->l->opt->proof)
        q->l->opt->proof(q->l->opt->proof_user, proof);
    if (proof->proved)
        return;
    q->unproved++;
    if (q->l->opt->unproved_warn)
        fx_warn(q->r.ctx, loc, "not proved: step %s: %s", proof->step, proof->missing);
    else
        fx_fail(q->r.ctx, FX_INTERNAL, loc, "not proved: step %s: %s", proof->step, proof->missing);
}

static bool same_place(void *user, int a, int b)
{
    return fx_prove_same_place(user, a, b);
}

/* The nests of a launch that are before this one in it. */
static void prove_beside(proofs *q, const fx_step *step, const fx_stmt *s)
{
    fx_prover *r = &q->r;
    double start = now();
    const fx_stmt *first = NULL;
    const char *text = "no loop over a grid before it";
    bool apart = true;
    int n = 0;
    for (const fx_stmt *t = step->body; t != s; t = t->next)
        first = first && (t->kind == FX_ST_COMMENT || t->beside) ? first : t;
    r->by = 0;
    for (const fx_stmt *t = first; t && t != s && apart; t = t->next)
        if (t->kind != FX_ST_COMMENT) {
            apart = t->kind == FX_ST_LOOP && fx_prove_apart(r, t, s, &text);
            n++;
        }
    fx_proof proof = {.step = step->name, .loop = loops_text(r, s), .what = fx_arena_printf(r->kept, "apart from the %d nests before it in its launch", n),
                      .seconds = now() - start, .proved = n && apart, .by = by_text(r, r->by),
                      .missing = n && apart ? NULL : fx_arena_printf(r->kept, "%s", text)};
    line(q, &proof);
    fx_arena_reset(r->arena);
}

static void prove_statement(proofs *q, const fx_step *step, const fx_stmt *s)
{
    double start = now();
    fx_prover *r = &q->r;
    r->by = 0;
    r->missing = NULL;
    void **known = fx_nest_keys_find(q->keys, r->p, s, same_place, r);
    found *f = *known;
    bool again = f && !f->missing;
    if (!again) {
        nest n = {.r = r};
        statements(&n, s, false);
        f = FX_NEW(r->kept, found);
        *f = (found){step->name, what_text(&n, s), r->missing ? fx_arena_printf(r->kept, "%s", r->missing) : NULL, NULL, r->by};
        *known = f;
    }
    fx_proof proof = {.step = step->name, .what = f->what, .seconds = now() - start, .proved = !f->missing, .missing = f->missing};
    if (q->l->opt->proof) {
        proof.loop = loops_text(r, s);
        proof.by = again ? fx_arena_printf(r->kept, "as %s", f->step) : by_text(r, f->by);
    }
    line(q, &proof);
    fx_arena_reset(r->arena);
}

static void overlap(void *user, const char *step, const char *text)
{
    proofs *q = user;
    line(q, &(fx_proof){.step = step, .loop = "arena", .what = "lives of buffers", .by = "nothing", .seconds = now() - q->started,
                        .missing = text});
}

static void prove_memory(proofs *q)
{
    fx_prover *r = &q->r;
    q->started = now();
    r->step = -1;
    r->by = 0;
    size_t before = q->unproved;
    int n = fx_prove_memory(r, overlap, q);
    if (q->unproved > before)
        return;
    line(q, &(fx_proof){.step = "arena", .loop = "lives", .what = fx_arena_printf(r->kept, "%d buffers: those that live at once lie apart", n),
                        .by = by_text(r, r->by | (n ? FX_BY_INTERVALS : 0)), .seconds = now() - q->started, .proved = true});
}

static void beside(void *user, const char *step, const char *text)
{
    proofs *q = user;
    line(q, &(fx_proof){.step = step, .loop = "streams", .what = "steps that run at once", .by = "nothing", .seconds = now() - q->started, .missing = text});
}

static void prove_streams(proofs *q)
{
    fx_prover *r = &q->r;
    q->started = now();
    r->step = -1;
    r->by = 0;
    size_t before = q->unproved;
    int n = fx_prove_streams(r, beside, q);
    if (n == 0 || q->unproved > before)
        return;
    line(q, &(fx_proof){.step = "streams", .loop = "regions", .what = fx_arena_printf(r->kept, "%d regions: what one stream writes, no other one touches", n),
                        .by = by_text(r, r->by | FX_BY_STRIDES), .seconds = now() - q->started, .proved = true});
}

fx_status fx_pass_prove(fx_lower *l)
{
    fx_program *p = l->program;
    proofs q = {.l = l, .r = {.ctx = l->ctx, .p = p, .symbols = fx_program_symbols(p), .isl = fx_lower_isl(l), .arena = l->piece, .kept = l->scratch}};
    q.keys = fx_nest_keys_new(l->scratch);
    for (size_t i = 0; i < p->n_steps; i++) {
        q.r.step = (int)i;
        for (const fx_stmt *s = p->steps[i].body; s; s = s->next)
            if (s->kind != FX_ST_COMMENT && s->kind != FX_ST_ARRAY) {
                prove_statement(&q, &p->steps[i], s);
                if (s->beside)
                    prove_beside(&q, &p->steps[i], s);
            }
    }
    prove_memory(&q);
    prove_streams(&q);
    return q.unproved && !l->opt->unproved_warn ? FX_INTERNAL : FX_OK;
}
