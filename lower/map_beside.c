/* lower/map_beside.c: nests that run one after another and need not become one launch: parts of a concatenation or of a roll, copies of one input.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A launch takes longer than such a part. Nests of a step, and of steps that follow one another, are beside one another where what they store to is
 * apart from all the others touch, as both the prover and the program's verifier say, and where blocks of one size are not mostly idle in any. */
#include <stdint.h>

#include "lower/map_gpu.h"

enum { MOST = 16, WARP = 32 };

typedef struct group {
    fx_gpu_map *m;
    fx_stmt *nest[MOST + 1];
    int n;
    int threads[3];               /* of a block */
} group;

static bool is_grid(const fx_stmt *s)
{
    return s && s->kind == FX_ST_LOOP && s->loop == FX_LOOP_GRID;
}

static bool reduces(const fx_stmt *s)
{
    for (; s; s = s->next)
        if (s->kind == FX_ST_REDUCE || reduces(s->body))
            return true;
    return false;
}

/* Blocks whose threads reduce are as large as that needs. */
static bool is_free(const fx_stmt *s)
{
    return is_grid(s) && !reduces(s->body);
}

static bool has_axis(const fx_stmt *nest, int axis)
{
    for (; is_grid(nest); nest = nest->body)
        if (nest->axis == axis)
            return true;
    return false;
}

static int threads_along(const fx_stmt *nest, int axis)
{
    int n = 1;
    for (; is_grid(nest); nest = nest->body)
        n = nest->axis == axis ? n * nest->threads : n;
    return n;
}

static int threads_of(const fx_stmt *nest)
{
    return threads_along(nest, 0) * threads_along(nest, 1) * threads_along(nest, 2);
}

/* Iterations of the nest, and threads that blocks of this size would have for them; sizes that are open count as whole blocks. */
static double filled(const group *g, const fx_stmt *nest, double *all)
{
    double iterations = 1, threads = 1;
    for (; is_grid(nest); nest = nest->body) {
        int of_block = g->threads[nest->axis];
        double n = fx_dim_known(nest->extent) ? (double)nest->extent.value : 1024.0 * of_block;
        double blocks = (double)(int64_t)((n + of_block - 1) / of_block);
        iterations *= n;
        threads *= blocks * of_block;
    }
    *all += threads;
    return iterations;
}

/* Blocks that suit all nests: as wide as the widest, with as many rows as they have room for. */
static bool choose_block(group *g)
{
    int most = 0;
    bool rows = true;
    g->threads[0] = 1;
    for (int i = 0; i < g->n; i++) {
        int x = threads_along(g->nest[i], 0), all = threads_of(g->nest[i]);
        if (!has_axis(g->nest[i], 0))
            return false;
        rows &= has_axis(g->nest[i], 1);
        g->threads[0] = x > g->threads[0] ? x : g->threads[0];
        most = all > most ? all : most;
    }
    g->threads[1] = rows && most > g->threads[0] ? most / g->threads[0] : 1;
    g->threads[2] = 1;
    double all = 0, used = 0, blocks = 0;
    for (int i = 0; i < g->n; i++)
        used += filled(g, g->nest[i], &all);
    int block = g->threads[0] * g->threads[1];
    blocks = all / block;
    return (block >= WARP || block >= most) && used * 2 >= all && blocks < INT32_MAX;
}

static bool apart_from_all(const group *g, const fx_stmt *s)
{
    const char *text;
    for (int i = 0; i < g->n; i++)
        if (!fx_nests_apart(g->m->p, g->nest[i], s) || !fx_prove_apart(&g->m->r, g->nest[i], s, &text))
            return false;
    return true;
}

/* Whether the nests of a group may be in one launch with more: n of them are added. */
static bool may_add(group *g, int n, fx_stmt *const *more)
{
    if (g->n == 0 || g->n + n > MOST)
        return false;
    for (int i = 0; i < n; i++)
        if (!apart_from_all(g, more[i]))
            return false;
    for (int i = 0; i < n; i++)
        g->nest[g->n++] = more[i];
    if (choose_block(g))
        return true;
    g->n -= n;
    (void)choose_block(g);
    return false;
}

static void set_blocks(const group *g)
{
    if (g->n < 2)
        return;
    for (int i = 0; i < g->n; i++) {
        g->nest[i]->beside = i > 0;
        for (fx_stmt *s = g->nest[i]; is_grid(s); s = s->body)
            s->threads = g->threads[s->axis];
    }
}

/* The step's nests in groups; the last group is left as it is, since the next step's may be added. */
static void group_step(group *g, fx_step *step)
{
    for (fx_stmt *s = step->body; s; s = s->next) {
        if (s->kind == FX_ST_COMMENT)
            continue;
        if (is_free(s) && may_add(g, 1, &s))
            continue;
        set_blocks(g);
        g->n = 0;
        if (is_free(s))
            g->nest[g->n++] = s;
    }
}

/* The step's nests if they are all there is in it and one group; their number, 0: they are not. */
static int whole_group(fx_gpu_map *m, const fx_step *step, fx_stmt **nest)
{
    group g = {.m = m};
    for (fx_stmt *s = step->body; s; s = s->next) {
        if (s->kind == FX_ST_COMMENT)
            continue;
        if (!is_free(s) || (g.n && !may_add(&g, 1, &s)))
            return 0;
        if (!g.n)
            g.nest[g.n++] = s;
    }
    for (int i = 0; i < g.n; i++)
        nest[i] = g.nest[i];
    return g.n;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------- */

typedef struct shift {
    fx_gpu_map *m;
    fx_map seen;                  /* expressions that were changed: several statements may share one */
    int vars, locals;
} shift;

static void shift_affine(const shift *h, fx_affine *a)
{
    fx_affine r = fx_affine_dim(a->base);
    for (int i = 0; i < a->n; i++)
        fx_affine_add(h->m->p->ctx, &r, a->var[i] < 0 ? FX_VAR_LOCAL(FX_VAR_LOCAL(a->var[i]) + h->locals) : a->var[i] + h->vars, a->coef[i]);
    *a = r;
}

/* The mapping's own copies, which nothing else uses. */
static void shift_value(shift *h, const fx_sexpr *value)
{
    fx_sexpr *x = (fx_sexpr *)(uintptr_t)value;
    if (!x || fx_map_get(&h->seen, x))
        return;
    fx_map_put(h->m->l->piece, &h->seen, x, x);
    if (x->op == FX_S_LOAD || x->op == FX_S_INDEX)
        shift_affine(h, &x->index);
    x->local += x->op == FX_S_LOCAL ? h->locals : 0;
    for (int i = 0; i < fx_sop_arity(x->op); i++)
        shift_value(h, x->arg[i]);
}

static void shift_list(shift *h, fx_stmt *s)
{
    for (; s; s = s->next) {
        shift_value(h, s->value);
        if (s->kind == FX_ST_LOOP)
            s->var += h->vars;
        if (s->kind == FX_ST_STORE)
            shift_affine(h, &s->index);
        if (s->kind == FX_ST_LOCAL || s->kind == FX_ST_SET || s->kind == FX_ST_CHECK)
            s->local += h->locals;
        for (int i = 0; i < s->n_cond; i++)
            shift_affine(h, &s->cond[i]);
        shift_list(h, s->body);
    }
}

/* ---- steps --------------------------------------------------------------------------------------------------------------------- */

static void shift_step(fx_gpu_map *m, fx_step *step, int vars, int locals)
{
    shift h = {.m = m, .vars = vars, .locals = locals};
    shift_list(&h, step->body);
}

/* Whether the step's nests are added to the group, which the other step ends with; its statements then go behind those of that step, under numbers
 * that are not used there. */
static bool append_step(group *g, fx_step *to, fx_step *from)
{
    fx_stmt *nest[MOST], **tail = &to->body;
    bool same_stream = to->region == from->region && to->stream == from->stream;
    int n = g->n && same_stream ? whole_group(g->m, from, nest) : 0, vars, locals;
    if (!n || g->n + n > MOST)
        return false;
    vars = fx_nest_next_var(to->body);
    locals = fx_nest_next_local(to->body);
    shift_step(g->m, from, vars, locals);
    if (!may_add(g, n, nest)) {
        shift_step(g->m, from, -vars, -locals);
        return false;
    }
    while (*tail)
        tail = &(*tail)->next;
    *tail = from->body;
    to->flops += from->flops;
    if (to->title && from->title)
        to->title = fx_arena_printf(g->m->p->arena, "%s; %s", to->title, from->title);
    return true;
}

void fx_map_beside(fx_gpu_map *m)
{
    fx_program *p = m->p;
    group g = {.m = m};
    size_t n = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        if (n == 0 || !append_step(&g, &p->steps[n - 1], &p->steps[i])) {
            set_blocks(&g);
            g.n = 0;
            p->steps[n++] = p->steps[i];
            group_step(&g, &p->steps[n - 1]);
        }
        fx_arena_reset(m->l->piece);
    }
    set_blocks(&g);
    p->n_steps = n;
}
