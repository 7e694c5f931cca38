/* lower/map_rows.c: code that reduces rows, for the threads of a warp or of a block a row.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A row's code is a list of passes, loops which fold elements into locals or store them, and of what is between: results a row. Around it a loop over
 * the threads is put, the last one of the grid: they stride through each pass, combine by FX_ST_REDUCE what a pass has folded, and do all that is between,
 * each for itself; the first one stores results a row. No thread reads what another one has stored: that is proved, or all is mapped as if this file
 * were not there. */
#include <math.h>
#include <string.h>

#include "lower/map_rows.h"

enum { WARP = 32, WARP_MOST = 1024, SHORTEST = 16, UNROLLED_MOST = 32 };

/* ---- which code is a row's ------------------------------------------------------------------------------------------------------ */

static bool sets(const fx_stmt *s, int local)
{
    for (; s; s = s->next)
        if ((s->kind == FX_ST_SET && s->local == local) || sets(s->body, local))
            return true;
    return false;
}

/* Whether a loop of the list sets a local of the list. */
static bool is_row(const fx_stmt *list)
{
    for (const fx_stmt *s = list; s; s = s->next)
        for (const fx_stmt *l = list; s->kind == FX_ST_LOOP && l != s; l = l->next)
            if (l->kind == FX_ST_LOCAL && sets(s->body, l->local))
                return true;
    return false;
}

/* From the outside inwards. */
static bool find_row(fx_row_code *w, const fx_stmt *list)
{
    while (!is_row(list)) {
        while (list && (list->kind == FX_ST_COMMENT || list->kind == FX_ST_LOCAL))
            list = list->next;
        if (!list || list->next || list->kind != FX_ST_LOOP || w->n_outer == FX_MAX_LOOPS)
            return false;
        w->outer[w->n_outer++] = list;
        list = list->body;
    }
    w->list = list;
    return true;
}

/* ---- folds ------------------------------------------------------------------------------------------------------------------------ */

static bool names_local(const fx_sexpr *x, int local)
{
    if (!x)
        return false;
    bool names = x->op == FX_S_LOCAL && x->local == local;
    for (int i = 0; i < fx_sop_arity(x->op) && !names; i++)
        names = names_local(x->arg[i], local);
    return names;
}

static bool is_local(const fx_sexpr *x, int local)
{
    return x->op == FX_S_LOCAL && x->local == local;
}

/* How often the list names the local, but for one statement. */
static bool named_elsewhere(const fx_stmt *s, int local, const fx_stmt *but)
{
    for (; s; s = s->next)
        if ((s != but && (names_local(s->value, local) || (s->kind == FX_ST_SET && s->local == local))) || (s->kind == FX_ST_CHECK && s->local == local) ||
            named_elsewhere(s->body, local, but))
            return true;
    return false;
}

static const fx_stmt *local_of(const fx_stmt *list, int local)
{
    for (; list; list = list->next) {
        if (list->kind == FX_ST_LOCAL && list->local == local)
            return list;
        const fx_stmt *inner = local_of(list->body, local);
        if (inner)
            return inner;
    }
    return NULL;
}

static int64_t extreme(fx_dtype d, bool highest)
{
    int bits = 8 * (int)fx_dtype_size(d);
    if (d == FX_BOOL)
        return highest;
    if (d == FX_U8)
        return highest ? UINT8_MAX : 0;
    return highest ? (int64_t)(UINT64_MAX >> (65 - bits)) : -(int64_t)(UINT64_MAX >> (65 - bits)) - 1;
}

/* Whether a thread without elements leaves the others' as they are when it begins with x. */
static bool is_neutral(fx_sop op, const fx_sexpr *x)
{
    bool real = fx_dtype_is_float(x->dtype);
    if (x->op != FX_S_CONST)
        return false;
    switch (op) {
    case FX_S_add: return real ? x->imm == 0 : x->ival == 0;
    case FX_S_mul: return real ? x->imm == 1 : x->ival == 1;
    case FX_S_max: return real ? x->imm == -INFINITY : x->ival == extreme(x->dtype, false);
    case FX_S_min: return real ? x->imm == INFINITY : x->ival == extreme(x->dtype, true);
    case FX_S_or: return x->ival == 0;
    case FX_S_and: return x->ival == (x->dtype == FX_BOOL ? 1 : x->dtype == FX_U8 ? UINT8_MAX : -1);
    default: return false;
    }
}

/* Halves round after each operation, which only extremes do not. */
static bool can_reduce(fx_sop op, fx_dtype d)
{
    bool half = d == FX_F16 || d == FX_BF16, real = half || d == FX_F32 || d == FX_F64;
    return op == FX_S_max || op == FX_S_min || (!half && (op == FX_S_add || op == FX_S_mul)) || (!real && (op == FX_S_and || op == FX_S_or));
}

/* v beats best: v > best, or it is the first NaN. */
static bool is_better(const fx_sexpr *x, int best, fx_sop *extreme_of)
{
    const fx_sexpr *wins = x->op == FX_S_or ? x->arg[0] : x, *nan = x->op == FX_S_or ? x->arg[1] : NULL;
    if ((wins->op != FX_S_gt && wins->op != FX_S_lt) || wins->arg[0]->op != FX_S_LOCAL || !is_local(wins->arg[1], best))
        return false;
    int v = wins->arg[0]->local;
    *extreme_of = wins->op == FX_S_gt ? FX_S_max : FX_S_min;
    if (!nan)
        return !fx_dtype_is_float(wins->arg[1]->dtype);
    const fx_sexpr *is_nan = nan->arg[0], *before = nan->arg[1];
    return nan->op == FX_S_and && is_nan->op == FX_S_ne && is_local(is_nan->arg[0], v) && is_local(is_nan->arg[1], v) && before->op == FX_S_eq &&
           is_local(before->arg[0], best) && is_local(before->arg[1], best);
}

/* place = better ? i : place; best = better ? v : best: the two statements, and no other names either. */
static bool find_extreme(fx_row_code *w, int at, const fx_stmt *set)
{
    const fx_row_pass *p = &w->pass[at];
    const fx_stmt *second = set->next;
    const fx_sexpr *a = set->value, *b = second && second->kind == FX_ST_SET ? second->value : NULL;
    if (p->n != 1 || a->op != FX_S_select || !b || b->op != FX_S_select || a->arg[0]->op != FX_S_LOCAL || !is_local(b->arg[0], a->arg[0]->local))
        return false;
    int place = set->local, best = second->local;
    const fx_stmt *body = p->loop[0]->body, *take = local_of(body, a->arg[0]->local);
    const fx_stmt *first_place = local_of(w->list, place), *first_best = local_of(w->list, best);
    const fx_sexpr *here = a->arg[1];
    fx_sop op;
    if (!take || !is_better(take->value, best, &op) || !first_place || !first_best || !is_neutral(op, first_best->value) || first_place->value->op != FX_S_CONST ||
        first_place->value->ival != 0 || first_place->value->dtype != FX_I64)
        return false;
    const fx_sexpr *wins = take->value->op == FX_S_or ? take->value->arg[0] : take->value;
    bool counted = here->op == FX_S_INDEX && here->index.n == 1 && here->index.var[0] == p->loop[0]->var && fx_dim_is(here->index.coef[0], 1) &&
                   fx_dim_is(here->index.base, 0);
    if (!counted || !is_local(a->arg[2], place) || !is_local(b->arg[1], wins->arg[0]->local) || !is_local(b->arg[2], best))
        return false;
    for (const fx_stmt *s = body; s; s = s->next)
        if (s->body || (s != set && s != second && (s->kind != FX_ST_LOCAL || names_local(s->value, place) || (s != take && names_local(s->value, best)))))
            return false;
    w->fold[w->n_folds++] = (fx_row_folded){.pass = at, .local = best, .dtype = first_best->value->dtype, .op = op, .place = place};
    return true;
}

/* local = op(local, element), and nothing else in the pass names the local; before the pass it is what leaves the others' as they are. */
static bool find_fold(fx_row_code *w, int at, const fx_stmt *set)
{
    const fx_stmt *first = local_of(w->list, set->local), *loop = w->pass[at].loop[0];
    const fx_sexpr *x = set->value;
    if (!first || fx_sop_arity(x->op) != 2 || !can_reduce(x->op, x->dtype) || !is_neutral(x->op, first->value))
        return false;
    bool left = is_local(x->arg[0], set->local);
    if ((!left && !is_local(x->arg[1], set->local)) || names_local(x->arg[left ? 1 : 0], set->local) || named_elsewhere(loop->body, set->local, set))
        return false;
    w->fold[w->n_folds++] = (fx_row_folded){.pass = at, .local = set->local, .dtype = x->dtype, .op = x->op, .place = -1};
    return true;
}

static bool find_folds(fx_row_code *w, int at, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_SET && !local_of(w->pass[at].loop[0]->body, s->local)) {
            if (w->n_folds == FX_ROW_FOLDS)
                return false;
            if (find_extreme(w, at, s))
                s = s->next;
            else if (!find_fold(w, at, s))
                return false;
        } else if (!find_folds(w, at, s->body)) {
            return false;
        }
    }
    return true;
}

/* Nobody else sets what a pass folds. */
static bool folds_once(const fx_row_code *w)
{
    for (int f = 0; f < w->n_folds; f++)
        for (const fx_stmt *s = w->list; s; s = s->next) {
            bool own = s == w->pass[w->fold[f].pass].loop[0], sets_it = s->kind == FX_ST_SET && s->local == w->fold[f].local;
            if (!own && (sets_it || sets(s->body, w->fold[f].local) || (w->fold[f].place >= 0 && sets(s->body, w->fold[f].place))))
                return false;
        }
    return true;
}

/* ---- passes ------------------------------------------------------------------------------------------------------------------------- */

typedef struct counted {
    fx_row_code *w;
    fx_map seen;
    int var, n;                   /* accesses that are dense along the variable; a store counts twice */
} counted;

static bool is_array(const fx_row_code *w, int buf)
{
    return w->m->p->bufs[buf].kind == FX_BUF_LOCAL;
}

static int dense(const counted *c, int buf, const fx_affine *index)
{
    fx_dim along = fx_affine_coef(index, c->var);
    return !is_array(c->w, buf) && (fx_dim_is(along, 1) || fx_dim_is(along, -1));
}

static void count_value(counted *c, const fx_sexpr *x)
{
    if (!x || fx_map_get(&c->seen, x))
        return;
    fx_map_put(c->w->m->l->piece, &c->seen, x, c);
    if (x->op == FX_S_LOAD)
        c->n += dense(c, x->buf, &x->index);
    for (int i = 0; i < fx_sop_arity(x->op); i++)
        count_value(c, x->arg[i]);
}

static void count(counted *c, const fx_stmt *s)
{
    for (; s; s = s->next) {
        count_value(c, s->value);
        if (s->kind == FX_ST_STORE)
            c->n += 2 * dense(c, s->buf, &s->index);
        count(c, s->body);
    }
}

static int density(fx_row_code *w, const fx_row_pass *p, int var)
{
    counted c = {.w = w, .var = var};
    count(&c, p->loop[0]->body);
    return c.n;
}

static int64_t most(const fx_row_code *w, fx_dim extent)
{
    return fx_map_most(w->m, extent);
}

/* A pass over the same elements as another one is shared likewise, so that a thread finds what it has stored. */
static bool same_loops(const fx_row_pass *a, const fx_row_pass *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = fx_dim_equal(a->loop[i]->extent, b->loop[i]->extent);
    return same;
}

/* The loop that the threads share: of those long enough the densest, and then the longest. */
static void choose_loop(fx_row_code *w, fx_row_pass *p)
{
    p->at = -1;
    for (int i = 0; i < w->n_passes; i++)
        if (same_loops(&w->pass[i], p)) {
            p->at = w->pass[i].at;
            p->density = density(w, p, p->loop[p->at]->var);
            return;
        }
    for (int i = 0; i < p->n; i++) {
        int64_t n = most(w, p->loop[i]->extent);
        int d = density(w, p, p->loop[i]->var);
        if (n >= SHORTEST && (p->at < 0 || d > p->density || (d == p->density && n > most(w, p->loop[p->at]->extent)))) {
            p->at = i;
            p->density = d;
        }
    }
}

static bool find_pass(fx_row_code *w, const fx_stmt *s)
{
    if (w->n_passes == FX_ROW_PASSES)
        return false;
    fx_row_pass *p = &w->pass[w->n_passes];
    *p = (fx_row_pass){.n = 0};
    for (const fx_stmt *l = s; l && l->kind == FX_ST_LOOP && !(l != s && l->next) && p->n < FX_MAX_LOOPS; l = l->body)
        p->loop[p->n++] = l;
    choose_loop(w, p);
    if (p->at < 0)
        return false;
    return find_folds(w, w->n_passes++, s->body);
}

static bool touches_array(const fx_row_code *w, const fx_sexpr *x)
{
    bool touches = x && x->op == FX_S_LOAD && is_array(w, x->buf);
    for (int i = 0; x && i < fx_sop_arity(x->op) && !touches; i++)
        touches = touches_array(w, x->arg[i]);
    return touches;
}

static bool find_passes(fx_row_code *w)
{
    for (const fx_stmt *s = w->list; s; s = s->next) {
        bool array = touches_array(w, s->value) || (s->kind == FX_ST_STORE && is_array(w, s->buf));
        if (array || s->kind == FX_ST_IF || s->kind == FX_ST_CHECK || s->kind == FX_ST_CALL || s->kind == FX_ST_BARRIER || s->kind == FX_ST_REDUCE)
            return false;
        if (s->kind == FX_ST_LOOP && !find_pass(w, s))
            return false;
        if (s->kind == FX_ST_ARRAY) {
            if (w->n_arrays == FX_ROW_ARRAYS)
                return false;
            w->array[w->n_arrays++] = s->buf;
        }
    }
    return w->n_folds > 0 && folds_once(w);
}

/* Saturates. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static void measure(fx_row_code *w)
{
    w->n_rows = 1;
    for (int i = 0; i < w->n_passes; i++) {
        int64_t elements = 1;
        for (int k = 0; k < w->pass[i].n; k++)
            elements = times(elements, most(w, w->pass[i].loop[k]->extent));
        w->n_elements = elements > w->n_elements ? elements : w->n_elements;
        w->along += w->pass[i].density;
    }
    for (int i = 0; i < w->n_outer; i++) {
        int d = 0;
        w->n_rows = times(w->n_rows, most(w, w->outer[i]->extent));
        for (int k = 0; k < w->n_passes; k++)
            d += density(w, &w->pass[k], w->outer[i]->var);
        w->across = d > w->across ? d : w->across;
    }
}

bool fx_row_code_find(fx_gpu_map *m, const fx_stmt *list, fx_row_code *w)
{
    *w = (fx_row_code){.m = m};
    if (!find_row(w, list) || !find_passes(w))
        return false;
    measure(w);
    return true;
}

/* Whether threads that share a row do better than a thread a row: elements of a row are neighbours, or there are few rows. */
static bool is_better_shared(const fx_row_code *w)
{
    enum { FEW = 2048, LONG = 128 };
    return w->along >= w->across || (w->n_rows < FEW && w->n_elements >= LONG);
}

/* A warp takes rows of up to 1,024 elements, a block longer ones. */
static void choose_threads(fx_row_code *w)
{
    int64_t longest = 0;
    for (int i = 0; i < w->n_passes; i++) {
        int64_t n = most(w, w->pass[i].loop[w->pass[i].at]->extent);
        longest = n > longest ? n : longest;
    }
    int block = w->m->p->target.threads;
    w->threads = longest <= WARP_MOST || block < WARP || (block & (block - 1)) ? WARP : block;
}

/* ---- the code of a thread --------------------------------------------------------------------------------------------------------------- */

static fx_dim share(const fx_row_code *w, fx_dim n)
{
    fx_context *ctx = w->m->p->ctx;
    return fx_dim_floordiv(ctx, fx_dim_plus(ctx, n, w->threads - 1), fx_dim_of(w->threads));
}

/* The element of the thread's own part of an array over the row, for an index in a copy of the pass: in the same order, without the others' elements. Where
 * the index does not go through the loops' iterations without gaps, none. */
static fx_affine own_index(fx_row_code *w, const fx_row_pass *p, int round, const fx_affine *a)
{
    fx_affine own = fx_affine_const(0);
    int order[FX_MAX_LOOPS], n = 0;
    int64_t coef[FX_MAX_LOOPS], expected = 1, stride = 1;
    w->failed |= !fx_dim_is(a->base, 0);
    for (int i = 0; i < p->n; i++) {
        fx_dim c = fx_affine_coef(a, i == p->at ? w->x_var : p->loop[i]->var);
        w->failed |= !fx_dim_known(c) || !fx_dim_known(p->loop[i]->extent);
        coef[i] = c.value;
        int at = n++;
        for (; at > 0 && coef[order[at - 1]] > coef[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < n && !w->failed; i++) {
        const fx_stmt *loop = p->loop[order[i]];
        bool shared = order[i] == p->at;
        w->failed |= coef[order[i]] != expected;
        int64_t rounds = shared ? share(w, loop->extent).value : loop->extent.value;
        if (rounds > 1)
            fx_affine_add(w->m->p->ctx, &own, shared ? round : loop->var, fx_dim_of(stride));
        expected *= loop->extent.value;
        stride *= rounds;
    }
    return own;
}

static void own_loads(fx_row_code *w, fx_map *seen, const fx_row_pass *p, int round, const fx_sexpr *x)
{
    if (!x || fx_map_get(seen, x))
        return;
    fx_map_put(w->m->l->piece, seen, x, w);
    if (x->op == FX_S_LOAD && is_array(w, x->buf))
        ((fx_sexpr *)(uintptr_t)x)->index = own_index(w, p, round, &x->index); /* of the copy, which is ours */
    for (int i = 0; i < fx_sop_arity(x->op); i++)
        own_loads(w, seen, p, round, x->arg[i]);
}

static void own_arrays(fx_row_code *w, fx_map *seen, const fx_row_pass *p, int round, fx_stmt *s)
{
    for (; s; s = s->next) {
        own_loads(w, seen, p, round, s->value);
        if (s->kind == FX_ST_STORE && is_array(w, s->buf))
            s->index = own_index(w, p, round, &s->index);
        own_arrays(w, seen, p, round, s->body);
    }
}

static fx_stmt *guarded(fx_row_code *w, const fx_affine *cond, fx_stmt *body)
{
    fx_stmt *s = fx_stmt_new(w->m->p, FX_ST_IF);
    s->n_cond = 1;
    s->cond[0] = *cond;
    s->body = body;
    return s;
}

/* Element i of the loop that the threads share is that of round i / threads of thread i % threads. */
static fx_stmt *pass_code(fx_row_code *w, const fx_row_pass *p)
{
    fx_program *prog = w->m->p;
    fx_context *ctx = prog->ctx;
    const fx_stmt *shared = p->loop[p->at];
    int round = w->m->next_var++;
    fx_dim rounds = share(w, shared->extent);
    bool once = fx_dim_is(rounds, 1);
    fx_affine at = fx_affine_const(0), left = fx_affine_dim(fx_dim_plus(ctx, shared->extent, -1));
    fx_map copies = {0}, seen = {0};
    fx_affine_add(ctx, &at, w->x_var, fx_dim_of(1));
    fx_affine_add(ctx, &left, w->x_var, fx_dim_of(-1));
    if (!once) {
        fx_affine_add(ctx, &at, round, fx_dim_of(w->threads));
        fx_affine_add(ctx, &left, round, fx_dim_of(-w->threads));
    }
    fx_nest_edit edit = {.p = prog, .n_vars = 1, .var = {shared->var}, .to = {&at}, .load = -1, .copies = &copies, .copies_in = w->m->l->piece};
    bool whole = fx_dim_known(shared->extent) && shared->extent.value % w->threads == 0;
    fx_stmt *code = fx_nest_copy(&edit, shared->body);
    if (w->n_arrays)
        own_arrays(w, &seen, p, round, code);
    if (!whole)
        code = guarded(w, &left, code);
    for (int i = p->n - 1; i >= 0; i--) {
        if (i > p->at || (i == p->at && once))
            continue; /* in the copy, or a round */
        fx_stmt *s = fx_stmt_copy(prog, p->loop[i]);
        s->loop = FX_LOOP_SERIAL;
        s->body = code;
        if (i == p->at) {
            s->var = round;
            s->extent = rounds;
            s->hint = "k";
            if (w->n_arrays && p->n == 1 && fx_dim_known(s->extent) && s->extent.value <= UNROLLED_MOST)
                s->loop = FX_LOOP_UNROLLED; /* so that the arrays are registers */
        }
        code = s;
    }
    return code;
}

/* A list. */
static fx_stmt **append(fx_stmt **tail, fx_stmt *s)
{
    *tail = s;
    while (*tail)
        tail = &(*tail)->next;
    return tail;
}

static fx_stmt **append_reduce(fx_row_code *w, fx_stmt **tail, int local, fx_sop op)
{
    fx_stmt *s = fx_stmt_new(w->m->p, FX_ST_REDUCE);
    s->local = local;
    s->op = op;
    return append(tail, s);
}

/* The first place of the extreme: the least of those whose threads found it. */
static fx_stmt **append_place(fx_row_code *w, fx_stmt **tail, const fx_row_folded *f)
{
    fx_program *p = w->m->p;
    fx_stmt *mine = fx_stmt_new(p, FX_ST_LOCAL), *set = fx_stmt_new(p, FX_ST_SET);
    const fx_sexpr *best = fx_s_local(p, f->local, f->dtype), *own;
    mine->local = w->m->next_local++;
    mine->value = best;
    own = fx_s_local(p, mine->local, f->dtype);
    tail = append_reduce(w, append(tail, mine), f->local, f->op);
    const fx_sexpr *found = fx_s_op(p, FX_S_eq, FX_BOOL, own, best, NULL);
    if (fx_dtype_is_float(f->dtype))
        found = fx_s_op(p, FX_S_or, FX_BOOL, found, fx_s_op(p, FX_S_ne, FX_BOOL, own, own, NULL), NULL);
    set->local = f->place;
    set->value = fx_s_op(p, FX_S_select, FX_I64, found, fx_s_local(p, f->place, FX_I64), fx_s_int(p, FX_I64, INT64_MAX));
    return append_reduce(w, append(tail, set), f->place, FX_S_min);
}

static fx_stmt *thread_code(fx_row_code *w)
{
    fx_program *p = w->m->p;
    fx_stmt *first = NULL, **tail = &first;
    fx_affine alone = fx_affine_const(0);
    fx_affine_add(p->ctx, &alone, w->x_var, fx_dim_of(-1));
    int at = 0;
    for (const fx_stmt *s = w->list; s; s = s->next) {
        if (s->kind == FX_ST_LOOP) {
            tail = append(tail, pass_code(w, &w->pass[at]));
            for (int f = 0; f < w->n_folds; f++)
                if (w->fold[f].pass == at)
                    tail = w->fold[f].place < 0 ? append_reduce(w, tail, w->fold[f].local, w->fold[f].op) : append_place(w, tail, &w->fold[f]);
            at++;
            continue;
        }
        fx_stmt *copy = fx_stmt_copy(p, s);
        tail = append(tail, s->kind == FX_ST_STORE ? guarded(w, &alone, copy) : copy);
    }
    return first;
}

/* Elements of an array over the row that are a thread's own, as the loops of the passes are shared; 0: passes differ, or sizes are open. */
static int64_t own_elements(const fx_row_code *w)
{
    const fx_row_pass *like = &w->pass[0];
    int64_t n = 1;
    for (int k = 0; k < like->n; k++) {
        fx_dim extent = k == like->at ? share(w, like->loop[k]->extent) : like->loop[k]->extent;
        n = fx_dim_known(extent) ? times(n, extent.value) : 0;
    }
    for (int i = 1; i < w->n_passes; i++)
        n = same_loops(like, &w->pass[i]) ? n : 0;
    return n;
}

fx_stmt *fx_row_code_around(const fx_row_code *w, const fx_stmt *list, fx_stmt *code)
{
    fx_stmt *first = NULL, **tail = &first;
    if (list == w->list)
        return code;
    for (; list; list = list->next) {
        fx_stmt *s = fx_stmt_copy(w->m->p, list);
        s->body = list->body ? fx_row_code_around(w, list->body, code) : NULL;
        tail = append(tail, s);
    }
    return first;
}

/* Rows of the block's threads along y: so that few rows are spread over many multiprocessors. */
static int rows_of_block(const fx_row_code *w, int64_t n_rows)
{
    enum { FEW = 1024, SMALL = 4 };
    int most = w->m->p->target.threads / w->threads;
    return most > SMALL && n_rows < FEW ? SMALL : most > 1 ? most : 1;
}

/* The threads of a row along x; the most rows along y, the others along z. NULL: threads or rows may meet, or a loop has more iterations than a grid takes. */
static fx_stmt *grid_of(fx_row_code *w, const fx_stmt *nest)
{
    fx_map_nest g = {.m = w->m, .nest = nest};
    fx_map_loop *y = NULL;
    fx_map_look(&g);
    if (!g.threads)
        return NULL;
    for (int i = 0; i < g.n_loops; i++) {
        fx_map_loop *l = &g.loops[i];
        if (l->loop == g.threads)
            l->axis = 0;
        else if (!y || most(w, l->extent) > most(w, y->extent))
            y = l;
    }
    int threads = 1;
    if (y) {
        int64_t n = most(w, y->extent);
        y->axis = 1;
        threads = rows_of_block(w, n);
        threads = n < threads ? (n > 0 ? (int)n : 1) : threads;
        if (fx_dim_known(y->extent) && n > (int64_t)FX_MOST_BLOCKS * threads)
            return NULL;
    }
    fx_map_choose_z(&g);
    fx_stmt *grid = fx_map_body(&g, nest);
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < g.n_loops; i++) {
            const fx_map_loop *l = &g.loops[i];
            if (l->axis != a)
                continue;
            fx_stmt *s = fx_stmt_new(w->m->p, FX_ST_LOOP);
            s->var = l->loop->var;
            s->extent = l->extent;
            s->hint = l->merged ? "row" : l->loop->hint;
            s->loop = FX_LOOP_GRID;
            s->axis = a;
            s->threads = a == 0 ? w->threads : a == 1 ? threads : 1;
            if (a)
                fx_program_limit(w->m->p, fx_dim_of((int64_t)FX_MOST_BLOCKS * s->threads), l->extent, "a grid has 65535 blocks along y and z");
            s->body = grid;
            grid = s;
        }
    return grid;
}

fx_stmt *fx_map_rows(fx_gpu_map *m, const fx_stmt *list)
{
    fx_row_code *w = FX_NEW(m->l->piece, fx_row_code);
    if (!fx_row_code_find(m, list, w) || !is_better_shared(w))
        return NULL;
    choose_threads(w);
    w->x_var = m->next_var++;
    int64_t own = own_elements(w);
    fx_stmt *threads = fx_stmt_new(m->p, FX_ST_LOOP), *mapped;
    threads->var = w->x_var;
    threads->extent = fx_dim_of(w->threads);
    threads->loop = FX_LOOP_GRID;
    threads->threads = w->threads;
    threads->hint = "lane";
    threads->body = thread_code(w);
    if (w->failed || (w->n_arrays && !own) || !(mapped = grid_of(w, fx_row_code_around(w, list, threads))))
        return NULL;
    for (int i = 0; i < w->n_arrays; i++)
        m->p->bufs[w->array[i]].numel = m->p->bufs[w->array[i]].dims[0] = fx_dim_of(own);
    return mapped;
}
