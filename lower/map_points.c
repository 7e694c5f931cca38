/* lower/map_points.c: nests as grids, a thread an element: pointwise code, gathers, copies, and whatever else runs at once at its outer loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The outer loops that may run at once become at most three axes of a grid. Loops that step through every access as one loop would are one axis;
 * the axis along which most accesses are dense is x, since neighbouring threads are neighbours along x. What is left stays in the thread.
 * Where all accesses are dense along x or do not depend on it, and begin where they may, a thread takes 16 bytes of neighbours. */
#include <string.h>

#include "lower/map_gpu.h"

enum { AXES = 3, BYTES = 16, MOST_BLOCKS = 65535, MOST_THREADS_Z = 64 };

/* An outer loop that may run at once, or several that step as one. */
typedef struct points_loop {
    const fx_stmt *loop;          /* the innermost of them */
    fx_dim extent;                /* of them together */
    bool merged;                  /* several */
    int axis;                     /* -1: it stays in the thread */
} points_loop;

typedef struct points {
    fx_gpu_map *m;
    fx_map seen;                  /* expressions that were looked at */
    const fx_affine **affines; size_t n_affines, cap_affines;       /* all in the nest */
    struct access { int buf; bool write; const fx_affine *index; } *accesses; size_t n_accesses, cap_accesses;
    int *set; size_t n_set, cap_set;                                /* locals that are SET */
    const fx_stmt *chain[FX_MAX_LOOPS]; int n_chain;                /* the outer loops that may run at once, outermost first */
    points_loop loops[FX_MAX_LOOPS]; int n_loops;                   /* the same, merged */
    fx_map copies;                /* from an expression to its copy */
    int n_inside;                 /* loops */
    int width, width_var, x_var;  /* neighbours a thread takes along x, and the loop over them */
    const fx_stmt *inner;         /* what is inside that loop */
} points;

/* ---- what the nest touches ------------------------------------------------------------------------------------------------- */

static void add_affine(points *w, const fx_affine *a)
{
    FX_PUSH(w->m->l->piece, w->affines, w->n_affines, w->cap_affines) = a;
}

static void add_access(points *w, int buf, bool write, const fx_affine *index)
{
    add_affine(w, index);
    FX_PUSH(w->m->l->piece, w->accesses, w->n_accesses, w->cap_accesses) = (struct access){buf, write, index};
}

static void look_at_value(points *w, const fx_sexpr *x)
{
    if (!x || fx_map_get(&w->seen, x))
        return;
    fx_map_put(w->m->l->piece, &w->seen, x, w);
    if (x->op == FX_S_LOAD)
        add_access(w, x->buf, false, &x->index);
    else if (x->op == FX_S_INDEX)
        add_affine(w, &x->index);
    for (int i = 0; i < fx_sop_arity(x->op); i++)
        look_at_value(w, x->arg[i]);
}

static void look_at(points *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        look_at_value(w, s->value);
        if (s->kind == FX_ST_STORE)
            add_access(w, s->buf, true, &s->index);
        if (s->kind == FX_ST_SET)
            FX_PUSH(w->m->l->piece, w->set, w->n_set, w->cap_set) = s->local;
        for (int i = 0; i < s->n_cond; i++)
            add_affine(w, &s->cond[i]);
        w->n_inside += s->kind == FX_ST_LOOP;
        look_at(w, s->body);
    }
}

/* ---- loops that may run at once ---------------------------------------------------------------------------------------------- */

static bool is_written(const points *w, int buf)
{
    for (size_t i = 0; i < w->n_accesses; i++)
        if (w->accesses[i].write && fx_prove_same_place(&w->m->r, buf, w->accesses[i].buf))
            return true;
    return false;
}

static bool reads_written(const points *w, const fx_sexpr *x)
{
    if (!x)
        return false;
    bool reads = x->op == FX_S_LOAD && is_written(w, x->buf);
    for (int i = 0; i < fx_sop_arity(x->op) && !reads; i++)
        reads = reads_written(w, x->arg[i]);
    return reads;
}

/* Whether each thread may compute the local for itself: it is one value throughout the nest. */
static bool is_constant(const points *w, const fx_stmt *local)
{
    for (size_t i = 0; i < w->n_set; i++)
        if (w->set[i] == local->local)
            return false;
    return !reads_written(w, local->value);
}

/* Follows the nest inwards as long as iterations of its loops may run at once, through guards, checks and locals that may as well be inside. */
static void find_chain(points *w, const fx_stmt *s)
{
    fx_prove_scope scope = {0};
    while (s && w->n_chain < FX_MAX_LOOPS) {
        while (s && (s->kind == FX_ST_COMMENT || (s->kind == FX_ST_LOCAL && is_constant(w, s))))
            s = s->next;
        if (!s || s->next)
            return;
        const char *text;
        if (s->kind == FX_ST_LOOP) {
            bool marked = s->loop == FX_LOOP_PARALLEL || s->loop == FX_LOOP_VECTOR;
            if (!marked && !fx_prove_parallel(&w->m->r, &scope, s, &text))
                return;
            w->chain[w->n_chain++] = s;
            scope.v[scope.n++] = (fx_prove_var){s->var, s->extent};
        } else if (s->kind == FX_ST_CHECK && scope.n < FX_PROVE_DEPTH) {
            scope.v[scope.n++] = (fx_prove_var){FX_VAR_LOCAL(s->local), s->extent};
        } else if (s->kind == FX_ST_IF && scope.n_cond + s->n_cond <= FX_PROVE_DEPTH) {
            for (int i = 0; i < s->n_cond; i++)
                scope.cond[scope.n_cond++] = &s->cond[i];
        } else {
            return;
        }
        s = s->body;
    }
}

/* Whether a step of the outer loop is as far as all of the inner one, everywhere. */
static bool steps_as_one(const points *w, int outer, const points_loop *inner)
{
    for (size_t i = 0; i < w->n_affines; i++) {
        fx_dim far = fx_dim_mul(w->m->p->ctx, inner->extent, fx_affine_coef(w->affines[i], inner->loop->var));
        if (!fx_dim_equal(far, fx_affine_coef(w->affines[i], outer)))
            return false;
    }
    return true;
}

/* From the innermost outwards; w->loops holds the innermost first. Loops of one iteration go. */
static void merge_chain(points *w)
{
    for (int i = w->n_chain - 1; i >= 0; i--) {
        const fx_stmt *s = w->chain[i];
        points_loop *inner = w->n_loops ? &w->loops[w->n_loops - 1] : NULL;
        if (fx_dim_is(s->extent, 1))
            continue;
        if (inner && steps_as_one(w, s->var, inner)) {
            inner->extent = fx_dim_mul(w->m->p->ctx, inner->extent, s->extent);
            inner->merged = true;
        } else {
            w->loops[w->n_loops++] = (points_loop){.loop = s, .extent = s->extent, .axis = -1};
        }
    }
}

/* ---- axes ------------------------------------------------------------------------------------------------------------------- */

static int64_t most_iterations(const points *w, fx_dim extent)
{
    int64_t lo, hi;
    fx_dim_bounds(fx_program_symbols(w->m->p), extent, &lo, &hi);
    return hi;
}

/* How well threads that are neighbours along the loop read and write: together, the same element, or apart. */
static int density(const points *w, const points_loop *l)
{
    int sum = 0;
    for (size_t i = 0; i < w->n_accesses; i++) {
        fx_dim c = fx_affine_coef(w->accesses[i].index, l->loop->var);
        int one = fx_dim_is(c, 1) || fx_dim_is(c, -1) ? 2 : fx_dim_is(c, 0) ? 1 : 0;
        sum += w->accesses[i].write ? 2 * one : one;
    }
    return sum;
}

static int threads_for(int64_t iterations, int most)
{
    int n = 1;
    while (n < most && n < iterations)
        n *= 2;
    return n < most ? n : most;
}

/* More than y and z take blocks, whatever the threads. */
static bool is_long(const points_loop *l)
{
    return fx_dim_known(l->extent) && l->extent.value > MOST_BLOCKS;
}

/* x is the axis of the densest loop, but for one that is too long for the others; y and z are the longest of the rest. */
static void choose_axes(points *w)
{
    points_loop *axis[AXES] = {NULL};
    for (int i = 0; i < w->n_loops; i++) {
        points_loop *l = &w->loops[i];
        if (!axis[0] || is_long(l) > is_long(axis[0]) || (is_long(l) == is_long(axis[0]) && density(w, l) > density(w, axis[0])))
            axis[0] = l;
    }
    for (int a = 1; a < AXES; a++)
        for (int i = 0; i < w->n_loops; i++) {
            points_loop *l = &w->loops[i];
            bool taken = l == axis[0] || (a == 2 && l == axis[1]) || is_long(l);
            if (!taken && (!axis[a] || most_iterations(w, l->extent) > most_iterations(w, axis[a]->extent)))
                axis[a] = l;
        }
    for (int a = 0; a < AXES; a++)
        if (axis[a])
            axis[a]->axis = a;
}

/* ---- neighbours --------------------------------------------------------------------------------------------------------------- */

/* Whether the variable is gone: that of a loop which another one counts for, or of one iteration. */
static bool is_gone(const points *w, int var)
{
    bool chained = false;
    for (int i = 0; i < w->n_chain; i++)
        chained |= w->chain[i]->var == var;
    for (int i = 0; i < w->n_loops; i++)
        if (w->loops[i].loop->var == var)
            return false;
    return chained;
}

static bool is_stored(const points *w, int buf)
{
    for (size_t i = 0; i < w->n_accesses; i++)
        if (w->accesses[i].write && w->accesses[i].buf == buf)
            return true;
    return false;
}

/* Whether so many neighbours of the access along x are one piece of memory, or one element. */
static bool is_piece(const points *w, const struct access *a, int var, int width)
{
    fx_context *ctx = w->m->p->ctx;
    fx_dim along = fx_affine_coef(a->index, var), rest, by = fx_dim_of(width);
    if (fx_dim_is(along, 0))
        return !a->write;
    bool piece = fx_dim_is(along, 1) && fx_dim_divide(ctx, a->index->base, by, &rest);
    for (int i = 0; i < a->index->n && piece; i++)
        piece = a->index->var[i] == var || is_gone(w, a->index->var[i]) || fx_dim_divide(ctx, a->index->coef[i], by, &rest);
    return piece && (size_t)width * fx_dtype_size(w->m->p->bufs[a->buf].dtype) <= BYTES;
}

static bool depends_on(points *w, fx_map *seen, const fx_sexpr *x, int var)
{
    if (!x || fx_map_get(seen, x))
        return false;
    fx_map_put(w->m->l->piece, seen, x, w);
    bool depends = (x->op == FX_S_LOAD || x->op == FX_S_INDEX) && !fx_dim_is(fx_affine_coef(&x->index, var), 0);
    for (int i = 0; i < fx_sop_arity(x->op) && !depends; i++)
        depends = depends_on(w, seen, x->arg[i], var);
    return depends;
}

/* The innermost list, of stores and locals alone, which only locals, checks and guards that do not depend on the variable are around; NULL: there is none. */
static const fx_stmt *inner_list(points *w, const fx_stmt *s, int var)
{
    fx_map seen = {0};
    for (const fx_stmt *list = s; s; s = s->next) {
        bool around = s->kind == FX_ST_LOOP || s->kind == FX_ST_CHECK || s->kind == FX_ST_IF;
        if (around && s->next)
            return NULL;
        for (int i = 0; i < s->n_cond; i++)
            if (!fx_dim_is(fx_affine_coef(&s->cond[i], var), 0))
                return NULL;
        for (const fx_stmt *l = list; around && l != s; l = l->next)
            if (l->kind == FX_ST_STORE || depends_on(w, &seen, l->value, var))
                return NULL;
        if (around)
            return inner_list(w, s->body, var);
        if (s->kind != FX_ST_STORE && s->kind != FX_ST_LOCAL && s->kind != FX_ST_COMMENT)
            return NULL;
        if (!s->next)
            return list;
    }
    return NULL;
}

/* As many neighbours as the widest elements allow. */
static void choose_width(points *w, const fx_stmt *nest)
{
    points_loop *x = NULL;
    int in_thread = w->n_inside - w->n_chain;
    for (int i = 0; i < w->n_loops; i++) {
        in_thread += w->loops[i].axis < 0;
        x = w->loops[i].axis == 0 ? &w->loops[i] : x;
    }
    if (!x || in_thread || !(w->inner = inner_list(w, nest, x->loop->var)))
        return;
    for (size_t i = 0; i < w->n_accesses; i++)
        if (!w->accesses[i].write && is_stored(w, w->accesses[i].buf))
            return;
    for (int width = BYTES; width > 1; width /= 2) {
        fx_dim extent;
        bool fits = fx_dim_divide(w->m->p->ctx, x->extent, fx_dim_of(width), &extent);
        for (size_t i = 0; i < w->n_accesses && fits; i++)
            fits = is_piece(w, &w->accesses[i], x->loop->var, width);
        if (!fits)
            continue;
        w->width = width;
        w->x_var = x->loop->var;
        w->width_var = w->m->next_var++;
        x->extent = extent;
        return;
    }
}

/* ---- the grid ------------------------------------------------------------------------------------------------------------------ */

/* Loops of the chain that are not in the thread any more. */
static bool is_taken(const points *w, const fx_stmt *s)
{
    bool chained = false;
    for (int i = 0; i < w->n_chain; i++)
        chained |= w->chain[i] == s;
    for (int i = 0; i < w->n_loops; i++)
        if (w->loops[i].loop == s && w->loops[i].axis < 0)
            return false;
    return chained;
}

static fx_affine copy_affine(points *w, const fx_affine *a)
{
    fx_affine r = fx_affine_dim(a->base);
    for (int i = 0; i < a->n; i++)
        if (w->width && a->var[i] == w->x_var) {
            fx_affine_add(w->m->p->ctx, &r, w->x_var, fx_dim_scale(w->m->p->ctx, a->coef[i], w->width));
            fx_affine_add(w->m->p->ctx, &r, w->width_var, a->coef[i]);
        } else if (a->var[i] < 0 || !is_gone(w, a->var[i])) {
            fx_affine_add(w->m->p->ctx, &r, a->var[i], a->coef[i]);
        }
    return r;
}

/* What several users share is still one expression. */
static const fx_sexpr *copy_value(points *w, const fx_sexpr *x)
{
    if (!x)
        return NULL;
    fx_sexpr *c = fx_map_get(&w->copies, x);
    if (c)
        return c;
    c = fx_s_copy(w->m->p, x);
    if (x->op == FX_S_LOAD || x->op == FX_S_INDEX)
        c->index = copy_affine(w, &x->index);
    for (int i = 0; i < fx_sop_arity(x->op); i++)
        c->arg[i] = copy_value(w, x->arg[i]);
    fx_map_put(w->m->l->piece, &w->copies, x, c);
    return c;
}

static fx_stmt *neighbours_of(points *w, fx_stmt *body)
{
    fx_stmt *s = fx_stmt_new(w->m->p, FX_ST_LOOP);
    s->var = w->width_var;
    s->extent = fx_dim_of(w->width);
    s->loop = FX_LOOP_VECTOR;
    s->aligned = true;
    s->hint = "k";
    s->body = body;
    return s;
}

static fx_stmt *copy_body(points *w, const fx_stmt *s)
{
    const bool inner = w->width && s == w->inner;
    fx_stmt *first = NULL, **tail = &first;
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP && is_taken(w, s)) {
            *tail = copy_body(w, s->body);
        } else {
            fx_stmt *c = *tail = fx_stmt_copy(w->m->p, s);
            c->value = copy_value(w, s->value);
            if (s->kind == FX_ST_STORE)
                c->index = copy_affine(w, &s->index);
            for (int i = 0; i < s->n_cond; i++)
                c->cond[i] = copy_affine(w, &s->cond[i]);
            for (int i = 0; s->kind == FX_ST_LOOP && i < w->n_loops; i++)
                if (w->loops[i].loop == s)
                    c->extent = w->loops[i].extent;
            c->body = copy_body(w, s->body);
        }
        while (*tail)
            tail = &(*tail)->next;
    }
    return inner ? neighbours_of(w, first) : first;
}

static fx_stmt *grid_of(points *w, fx_stmt *body)
{
    int budget = w->m->p->target.threads;
    fx_stmt *grid = body;
    for (int a = 0; a < AXES; a++)
        for (int i = 0; i < w->n_loops; i++) {
            const points_loop *l = &w->loops[i];
            if (l->axis != a)
                continue;
            fx_stmt *s = fx_stmt_new(w->m->p, FX_ST_LOOP);
            s->var = l->loop->var;
            s->extent = l->extent;
            s->hint = l->merged ? "i" : l->loop->hint;
            s->loop = FX_LOOP_GRID;
            s->axis = a;
            s->threads = threads_for(most_iterations(w, l->extent), a == 2 && budget > MOST_THREADS_Z ? MOST_THREADS_Z : budget);
            budget /= s->threads;
            if (a)
                fx_program_limit(w->m->p, fx_dim_of((int64_t)MOST_BLOCKS * s->threads), l->extent, "a grid has 65535 blocks along y and z");
            s->body = grid;
            grid = s;
        }
    return grid == body ? fx_map_one_thread(w->m, body) : grid; /* nothing runs at once */
}

fx_stmt *fx_map_points(fx_gpu_map *m, const fx_stmt *nest)
{
    points w = {.m = m};
    look_at(&w, nest);
    find_chain(&w, nest);
    merge_chain(&w);
    choose_axes(&w);
    choose_width(&w, nest);
    return grid_of(&w, copy_body(&w, nest));
}
