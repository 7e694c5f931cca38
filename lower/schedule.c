/* lower/schedule.c: plain loop nests reordered and tiled by isl where that pays.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The cost of an order is the cache lines that its innermost loop fetches: per access and iteration min(1, |stride| / line); where the lines of
 * all its iterations stay in the first-level cache, the stride of the loop around counts instead, if smaller. Three things make it smaller, each
 * asked of isl only when it does, of nests whose data does not fit the first-level cache anyway:
 *   interchange   another loop innermost
 *   tiling        one access is dense in one loop, another in another: squares of both that stay in the first-level cache
 *   sinking       a reduction strides through memory along its own loop and is dense along a kept one: so many of the kept loop's iterations
 *                 at once, their accumulators in an array, the dense loop innermost
 * Each element is computed by the same operations in the same order: results are the same bits. */
#include <stdlib.h>
#include <string.h>

#include "lower/nest_edit.h"
#include "lower/schedule.h"

enum { LINE = 64, LEAST = 8 };

/* ---- cost ---------------------------------------------------------------------------------------------------------------- */

static int64_t stride_of(const fx_isl_group *g, const fx_isl_access *a, int var)
{
    fx_dim c = fx_affine_coef(a->index, var);
    int64_t bytes = c.value * (int64_t)fx_dtype_size(g->p->bufs[a->buf].dtype);
    return bytes < 0 ? -bytes : bytes;
}

/* Hundredths of a line. */
static int64_t lines(int64_t stride)
{
    return stride >= LINE ? 100 : stride * 100 / LINE;
}

/* Of the accesses of all items with `var` innermost. */
static int64_t cost_of(const fx_isl_group *g, int var)
{
    int64_t sum = 0;
    for (int k = 0; k < g->n_accesses; k++)
        if (g->access[k].buf >= 0)
            sum += lines(stride_of(g, &g->access[k], var));
    return sum;
}

/* How many lines so far apart the first-level cache holds at once. Its sets repeat every 4096 bytes, a page, in nearly all of them: strides that share
 * a large power of two with that meet in few sets. */
static int64_t held(int64_t l1, int64_t stride)
{
    int64_t step = stride & -stride, ways = l1 / 4096 > 1 ? l1 / 4096 : 1, all = l1 / LINE;
    step = step < LINE ? LINE : step > 4096 ? 4096 : step;
    return 4096 / step * ways < all ? 4096 / step * ways : all;
}

/* The same of the source's order: an access whose lines stay in the first-level cache throughout the innermost loop costs no more than it
 * does in the loop around. */
static int64_t cost_now(const fx_isl_group *g, const fx_stmt *inner, const fx_stmt *around, int64_t l1)
{
    int64_t sum = 0;
    for (int k = 0; k < g->n_accesses; k++) {
        const fx_isl_access *a = &g->access[k];
        if (a->buf < 0)
            continue;
        int64_t stride = stride_of(g, a, inner->var), cost = lines(stride), out = around ? lines(stride_of(g, a, around->var)) : cost;
        bool stays = stride >= LINE ? inner->extent.value <= held(l1, stride) / 2 : inner->extent.value <= l1 / 4 / (stride + 1);
        sum += stays && out < cost ? out : cost;
    }
    return sum;
}

/* The side of tiles of a loop: all of it when it is short, else its largest divisor up to most; without one of at least LEAST, most (what is
 * left over then runs in the source's order: cut_edges). */
static int64_t side_of(int64_t extent, int64_t most)
{
    if (extent <= most)
        return extent;
    for (int64_t d = most; d >= LEAST; d--)
        if (extent % d == 0)
            return d;
    return most;
}

/* No two iterations at one element: each stride spans what the smaller ones do. */
static bool one_to_one(const fx_isl_group *g, const fx_isl_access *a)
{
    const fx_isl_item *it = &g->item[a->item];
    int64_t coef[FX_MAX_LOOPS], extent[FX_MAX_LOOPS], span = 0;
    int n = 0;
    for (int k = 0; k < it->n; k++) {
        int64_t e = it->loop[k]->extent.value, c = fx_affine_coef(a->index, it->loop[k]->var).value;
        if (e <= 1)
            continue;
        int at = n++;
        for (c = c < 0 ? -c : c; at > 0 && coef[at - 1] > c; at--) {
            coef[at] = coef[at - 1];
            extent[at] = extent[at - 1];
        }
        coef[at] = c;
        extent[at] = e;
    }
    for (int k = 0; k < n; k++) {
        if (coef[k] <= span || __builtin_mul_overflow(coef[k], extent[k] - 1, &coef[k]))
            return false;
        span += coef[k];
    }
    return true;
}

static int place_of(const fx_program *p, int buf)
{
    while (p->bufs[buf].overlay >= 0 && p->bufs[buf].overlay < buf)
        buf = p->bufs[buf].overlay;
    return buf;
}

/* Known without isl: nothing passes from one iteration to another. What is stored is touched at one index only, by one iteration each, and
 * locals are the body's own. */
static bool iterations_apart(const fx_isl_group *g, int depth)
{
    for (int w = 0; w < g->n_accesses; w++) {
        const fx_isl_access *a = &g->access[w];
        if (a->buf < 0 && a->depth < depth)
            return false;
        if (a->buf < 0 || !a->write)
            continue;
        if (!one_to_one(g, a))
            return false;
        for (int k = 0; k < g->n_accesses; k++) {
            const fx_isl_access *b = &g->access[k];
            if (b->buf < 0)
                continue;
            if (place_of(g->p, a->buf) == place_of(g->p, b->buf) && !fx_affine_equal(a->index, b->index))
                return false;
        }
    }
    return true;
}

/* ---- what to do ------------------------------------------------------------------------------------------------------------ */

/* How many loops all items share. */
static int shared_depth(const fx_isl_group *g)
{
    int d = 0;
    for (;; d++)
        for (int s = 0; s < g->n; s++)
            if (d == g->item[s].n || g->item[s].loop[d] != g->item[0].loop[d])
                return d;
}

static int64_t extent_of(const fx_isl_group *g, int k)
{
    return g->item[0].loop[k]->extent.value;
}

/* All statements are in the innermost body: interchange, or tiles. */
static const char *plan_perfect(const fx_scheduler *s, const fx_isl_group *g, int depth, fx_isl_tiling *t)
{
    int inner = depth - 1, best = inner;
    int64_t l1 = s->p->target.l1 > 0 ? s->p->target.l1 : 32768;
    const fx_stmt *const *loop = g->item[0].loop;
    int64_t now = cost_now(g, loop[inner], inner ? loop[inner - 1] : NULL, l1), least = now;
    for (int k = 0; k < inner; k++) {
        int64_t then = cost_of(g, loop[k]->var);
        if (extent_of(g, k) >= LEAST && then < least) {
            best = k;
            least = then;
        }
    }
    if (best != inner && least * 2 <= now) {
        for (int k = best; k < inner; k++)
            t->order[k] = k + 1;
        t->order[inner] = best;
        return "interchanged";
    }
    /* An access that strides in the innermost loop and is dense in another; its lines are gone before they are used again. */
    for (int k = 0; k < inner; k++)
        for (int a = 0; a < g->n_accesses; a++) {
            const fx_isl_access *x = &g->access[a];
            if (x->buf < 0)
                continue;
            int64_t in = stride_of(g, x, g->item[0].loop[inner]->var), out = stride_of(g, x, g->item[0].loop[k]->var);
            if (in < LINE || out == 0 || out * LEAST > LINE * 2 || extent_of(g, k) < LEAST || extent_of(g, inner) <= held(l1, in) / 2)
                continue;
            int64_t side = 32;
            while (side > LEAST && side * side * 8 > l1)
                side /= 2;
            t->size[k] = side_of(extent_of(g, k), side);
            t->size[inner] = side_of(extent_of(g, inner), side);
            return "tiled";
        }
    return NULL;
}

/* Some statements have loops of their own inside the shared ones. */
static const char *plan_sink(const fx_isl_group *g, int depth, fx_isl_tiling *t)
{
    int kept = depth - 1;
    int64_t now = 0, then = 0;
    for (int a = 0; a < g->n_accesses; a++) {
        const fx_isl_access *x = &g->access[a];
        const fx_isl_item *it = &g->item[x->item];
        if (x->buf < 0 || it->n == depth)
            continue;
        now += lines(stride_of(g, x, it->loop[it->n - 1]->var));
        then += lines(stride_of(g, x, it->loop[kept]->var));
    }
    if (extent_of(g, kept) < LEAST || then * 2 > now)
        return NULL;
    for (int s = 0; s < g->n; s++)
        if (g->item[s].n_cond)
            return NULL;
    /* A line's worth where the tiles are what runs at once. */
    bool at_once = kept == 0 && g->item[0].loop[0]->loop == FX_LOOP_PARALLEL;
    t->size[kept] = side_of(extent_of(g, kept), at_once ? 16 : 128);
    if (extent_of(g, kept) % t->size[kept])
        return NULL;
    t->sink = true;
    return "sunk";
}

/* ---- statements of the new order --------------------------------------------------------------------------------------------- */

typedef struct writer {
    fx_scheduler *s;
    const fx_isl_group *g;
    const fx_isl_tree *tree;
    const fx_isl_tiling *t;
    int first_var;                /* of loop 0 of the tree */
    bool parallel;                /* the source ran iterations at once */
    fx_nest_edit edit;            /* locals that are arrays now */
    int64_t array_size;
} writer;

static fx_affine affine_of(const writer *w, const fx_isl_form *f)
{
    fx_affine a = fx_affine_const(f->base);
    for (int k = 0; k < w->tree->n_loops; k++)
        if (f->coef[k])
            fx_affine_add(w->s->p->ctx, &a, w->first_var + k, fx_dim_of(f->coef[k]));
    return a;
}

/* The number of a local within its tile: the loop inside the tile that runs over the kept one. */
static fx_affine point_index(const writer *w, const fx_isl_form *arg)
{
    fx_isl_form point = {0};
    for (int k = 0; k < w->tree->n_loops; k++)
        if (arg->coef[k] == 1 && w->array_size > 1)
            point.coef[k] = 1;
    return affine_of(w, &point);
}

static fx_stmt *write_stmt(writer *w, const fx_isl_node *n)
{
    const fx_isl_item *it = &w->g->item[n->item];
    fx_affine to[FX_MAX_LOOPS], index = {0};
    fx_nest_edit e = w->edit;
    e.n_vars = it->n;
    for (int k = 0; k < it->n; k++) {
        to[k] = affine_of(w, &n->arg[k]);
        e.var[k] = it->loop[k]->var;
        e.to[k] = &to[k];
    }
    if (e.n_arrays) {
        index = point_index(w, &n->arg[w->t->depth - 1]);
        e.index = &index;
    }
    fx_stmt one = fx_stmt_alone(it->stmt);
    return fx_nest_copy(&e, &one); /* the guards around it are in isl's tree */
}

/* Loops that isl leaves innermost over shared ones are vectors: no dependence is between their iterations. */
static bool innermost(const writer *w, int at)
{
    for (at = w->tree->node[at].child; at >= 0; at = w->tree->node[at].next)
        if (w->tree->node[at].kind != FX_ISL_STMT)
            return false;
    return true;
}

static fx_stmt *write_list(writer *w, int at, bool outermost)
{
    fx_stmt *first = NULL, **tail = &first;
    for (; at >= 0; at = w->tree->node[at].next) {
        const fx_isl_node *n = &w->tree->node[at];
        fx_stmt *s;
        if (n->kind == FX_ISL_STMT) {
            s = write_stmt(w, n);
        } else {
            s = fx_stmt_new(w->s->p, n->kind == FX_ISL_FOR ? FX_ST_LOOP : FX_ST_IF);
            if (n->kind == FX_ISL_FOR) {
                bool shared = n->origin >= 0 && n->origin < w->t->depth;
                s->var = w->first_var + n->loop;
                s->extent = fx_dim_of(n->extent);
                s->hint = n->origin >= 0 ? w->g->item[0].loop[n->origin < w->g->item[0].n ? n->origin : 0]->hint : NULL;
                if (n->tile || (n->origin >= w->g->item[0].n))
                    s->hint = n->tile && s->hint ? fx_intern_f(w->s->p->ctx, "%s_tile", s->hint) : NULL;
                s->loop = shared && outermost && w->parallel ? FX_LOOP_PARALLEL : shared && innermost(w, at) ? FX_LOOP_VECTOR : FX_LOOP_SERIAL;
            } else {
                s->n_cond = 1;
                s->cond[0] = affine_of(w, &n->cond);
            }
            s->body = write_list(w, n->child, false);
        }
        *tail = s;
        tail = &s->next;
    }
    return first;
}

/* Locals of a sunk nest become arrays, declared where the tile begins. */
static void make_arrays(writer *w)
{
    fx_program *p = w->s->p;
    w->array_size = w->t->size[w->t->depth - 1];
    for (int k = 0; k < w->g->n; k++) {
        const fx_stmt *s = w->g->item[k].stmt;
        if (s->kind != FX_ST_LOCAL)
            continue;
        fx_dim n = fx_dim_of(w->array_size);
        int at = w->edit.n_arrays++;
        w->edit.local[at] = s->local;
        w->edit.array[at] = fx_program_buf(p, FX_BUF_LOCAL, fx_arena_printf(w->s->l->scratch, "t%d_tile", s->local), s->value->dtype, 1, &n);
    }
}

static fx_stmt *declare_arrays(writer *w, fx_stmt *body)
{
    /* Inside the loops over what is not in the tile: behind the last loop that has a tile's number or the whole of a shared loop. */
    fx_stmt **at = &body;
    while (*at && (*at)->kind == FX_ST_LOOP && !(*at)->next && (*at)->body) {
        const fx_isl_node *n = NULL;
        for (int k = 0; k < w->tree->n; k++)
            if (w->tree->node[k].kind == FX_ISL_FOR && w->first_var + w->tree->node[k].loop == (*at)->var)
                n = &w->tree->node[k];
        bool point = n && n->origin == w->t->depth - 1 && !n->tile;
        if (!n || n->origin < 0 || n->origin >= w->t->depth || point)
            break;
        at = &(*at)->body;
    }
    for (int k = w->edit.n_arrays - 1; k >= 0; k--) {
        fx_stmt *s = fx_stmt_new(w->s->p, FX_ST_ARRAY);
        s->buf = w->edit.array[k];
        s->next = *at;
        *at = s;
    }
    return body;
}

/* ---- a nest ---------------------------------------------------------------------------------------------------------------- */

/* What was found for nests of one key. */
typedef struct verdict {
    const char *what;             /* NULL: source order */
    fx_isl_tiling t;
    fx_isl_tree *tree;
} verdict;

static bool any_parallel(const fx_stmt *s)
{
    for (; s; s = s->next)
        if ((s->kind == FX_ST_LOOP && s->loop == FX_LOOP_PARALLEL) || any_parallel(s->body))
            return true;
    return false;
}

/* Tiles cover the loops of *nest as far as whole ones go; what is left over becomes nests of its own behind it, in the source's order. The
 * shared loops carry no dependences, so all parts may run in any order. */
static fx_stmt *cut_edges(fx_scheduler *s, const fx_step *step, fx_stmt *nest, const fx_isl_tiling *t)
{
    fx_nest_edit e = {.p = s->p, .load = -1};
    fx_stmt *rest = NULL, *loop = nest;
    int shift = fx_nest_next_var(step->body), locals = fx_nest_next_local(step->body);
    for (int k = 0; k < t->depth; k++, loop = loop->body) {
        int64_t size = t->size[k] && !t->sink ? t->size[k] : 1, left = loop->extent.value % size, done = loop->extent.value - left;
        if (left == 0)
            continue;
        fx_affine moved = fx_affine_const(done);
        fx_nest_edit edge = e;
        edge.shift_vars = shift * (k + 1);
        edge.shift_locals = locals * (k + 1);
        fx_affine_add(s->p->ctx, &moved, loop->var + edge.shift_vars, fx_dim_of(1));
        edge.n_vars = 1;
        edge.var[0] = loop->var;
        edge.to[0] = &moved;
        fx_stmt *copy = fx_nest_copy(&edge, nest), *at = copy;
        for (int j = 0; j < k; j++)
            at = at->body;
        at->extent = fx_dim_of(left);
        copy->next = rest;
        rest = copy;
        loop->extent = fx_dim_of(done);
    }
    return rest;
}

/* A copy of the one statement, which may be changed. */
static fx_stmt *copy_of(const fx_scheduler *s, const fx_stmt *nest)
{
    fx_nest_edit e = {.p = s->p, .load = -1};
    fx_stmt one = fx_stmt_alone(nest);
    return fx_nest_copy(&e, &one);
}

static void ask(fx_scheduler *s, const fx_step *step, const fx_stmt *nest, verdict *v)
{
    if (!v->t.apart && s->tilings++ >= FX_SCHEDULE_QUESTIONS) {
        fx_remark(s->p->ctx, &step->loc, "step %s: source order: this model's %d questions to isl are spent", step->name, FX_SCHEDULE_QUESTIONS);
        v->what = NULL;
        return;
    }
    fx_isl_group *g = FX_NEW(s->l->piece, fx_isl_group);
    fx_stmt *whole = copy_of(s, nest);
    cut_edges(s, step, whole, &v->t);
    v->tree = FX_NEW(s->l->scratch, fx_isl_tree);
    fx_isl_answer answer = fx_isl_collect(g, s->p, whole) ? fx_isl_tile(s->isl, g, &v->t, v->tree) : FX_ISL_UNKNOWN;
    if (answer == FX_ISL_YES)
        return;
    fx_remark(s->p->ctx, &step->loc, "step %s: source order: %s", step->name,
              answer == FX_ISL_NO ? "dependences forbid another" : "isl did not decide within its budget");
    v->what = NULL;
}

/* The bytes that the nest's accesses span: each between the ends of its loops, as if all were different. */
static bool fits_cache(const fx_scheduler *s, const fx_isl_group *g)
{
    int64_t bytes = 0, l1 = s->p->target.l1 > 0 ? s->p->target.l1 : 32768;
    for (int a = 0; a < g->n_accesses && bytes <= l1; a++) {
        const fx_isl_access *x = &g->access[a];
        const fx_isl_item *it = &g->item[x->item];
        int64_t elements = 1;
        for (int k = 0; x->buf >= 0 && k < it->n && elements <= l1; k++)
            if (stride_of(g, x, it->loop[k]->var))
                elements *= it->loop[k]->extent.value > 0 ? it->loop[k]->extent.value : 1;
        bytes += x->buf >= 0 ? elements * (int64_t)fx_dtype_size(s->p->bufs[x->buf].dtype) : 0;
    }
    return bytes <= l1;
}

static verdict *decide(fx_scheduler *s, const fx_step *step, const fx_stmt *nest)
{
    verdict *v = FX_NEW(s->l->scratch, verdict);
    fx_isl_group *g = FX_NEW(s->l->piece, fx_isl_group);
    if (!fx_isl_collect(g, s->p, nest) || g->n == 0)
        return v;
    int depth = shared_depth(g);
    bool same = true;
    if (depth == 0 || fits_cache(s, g))
        return v;
    v->t.depth = depth;
    for (int k = 0; k < depth; k++)
        v->t.order[k] = k;
    for (int k = 0; k < g->n; k++)
        same &= g->item[k].n == depth;
    v->what = same ? plan_perfect(s, g, depth, &v->t) : plan_sink(g, depth, &v->t);
    v->t.apart = same && iterations_apart(g, depth);
    if (v->what)
        ask(s, step, nest, v);
    return v;
}

/* Whether a store goes to the place of a buffer that is loaded here: the verifier and the proofs want one index for both, so such a nest
 * stays in one piece. */
static bool in_place(const fx_isl_group *g)
{
    for (int w = 0; w < g->n_accesses; w++)
        for (int k = 0; k < g->n_accesses; k++)
            if (g->access[w].write && g->access[w].buf >= 0 && g->access[k].buf >= 0 && !g->access[k].write &&
                g->p->bufs[g->access[w].buf].overlay == g->access[k].buf)
                return true;
    return false;
}

static void schedule_nest(fx_scheduler *s, fx_step *step, fx_stmt **at)
{
    fx_stmt *next = (*at)->next, alone = fx_stmt_alone(*at);
    void **known = fx_nest_keys_find(s->keys, s->p, &alone, NULL, NULL);
    if (!*known)
        *known = decide(s, step, &alone);
    verdict *v = *known;
    if (!v->what)
        return;
    fx_stmt *whole = copy_of(s, &alone), *rest = cut_edges(s, step, whole, &v->t);
    fx_isl_group *g = FX_NEW(s->l->piece, fx_isl_group);
    if (!fx_isl_collect(g, s->p, whole) || (rest && in_place(g)))
        return;
    int first_var = fx_nest_next_var(step->body);
    if (fx_nest_next_var(rest) > first_var)
        first_var = fx_nest_next_var(rest);
    writer w = {.s = s, .g = g, .tree = v->tree, .t = &v->t, .first_var = first_var, .parallel = any_parallel(whole)};
    w.edit = (fx_nest_edit){.p = s->p, .load = -1};
    if (v->t.sink)
        make_arrays(&w);
    fx_stmt *body = write_list(&w, v->tree->root, true);
    if (v->t.sink)
        body = declare_arrays(&w, body);
    fx_stmt **tail = &body;
    while (*tail)
        tail = &(*tail)->next;
    *tail = rest;
    while (*tail)
        tail = &(*tail)->next;
    *tail = next;
    *at = body;
    fx_remark(s->p->ctx, &step->loc, "step %s: loops %s", step->name, v->what);
}

fx_status fx_pass_schedule(fx_lower *l)
{
    if (l->opt->off & FX_OFF(SCHEDULE))
        return FX_OK;
    fx_scheduler s = {.l = l, .p = l->program, .keys = fx_nest_keys_new(l->scratch), .pairs = fx_nest_keys_new(l->scratch)};
    s.isl = fx_lower_isl(l);
    fx_schedule_fuse(&s);
    if (fx_target_is_gpu(&l->program->target))
        return FX_OK; /* orders and tiles are for caches */
    for (size_t i = 0; i < l->program->n_steps; i++) {
        fx_step *step = &l->program->steps[i];
        for (fx_stmt **at = &step->body; *at;) {
            fx_stmt *next = (*at)->next;
            if ((*at)->kind == FX_ST_LOOP)
                schedule_nest(&s, step, at);
            fx_arena_reset(l->piece);
            while (*at != next)
                at = &(*at)->next;
        }
    }
    return FX_OK;
}
