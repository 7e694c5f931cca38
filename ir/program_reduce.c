/* ir/program_reduce.c: the verifier's part about reductions over threads.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/program_check.h"

enum { WARP = 32, MOST_THREADS = 1024 };

static bool is_power(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* The innermost loop over the grid is the threads that reduce, all of them: what is launched is neither more nor less. */
static void check_threads(fx_check *c, const fx_stmt *s)
{
    const fx_stmt *lanes = NULL;
    int others = 1;
    for (int i = 0; i < c->n_vars; i++) {
        if (c->vars[i].kind == FX_LOOP_VECTOR)
            fx_check_bad(c, "t%d is reduced inside the vector loop v%d", s->local, c->vars[i].var);
        if (c->vars[i].kind != FX_LOOP_GRID)
            continue;
        others *= lanes ? lanes->threads : 1;
        lanes = c->vars[i].at;
    }
    if (!lanes) {
        fx_check_bad(c, "t%d is reduced outside any grid loop", s->local);
        return;
    }
    bool all = fx_dim_is(lanes->extent, lanes->threads) && is_power(lanes->threads) && lanes->threads >= WARP && lanes->threads <= MOST_THREADS;
    if (lanes->axis != 0 || !all)
        fx_check_bad(c, "t%d is reduced over the grid loop v%d: expected one along x over a block's threads, 32 to 1024 and a power of two", s->local,
                     lanes->var);
    else if (lanes->threads > WARP && others > 1)
        fx_check_bad(c, "t%d is reduced over %d threads of a block that has %d times as many", s->local, lanes->threads, others);
    if (c->guarded)
        fx_check_bad(c, "t%d is reduced inside a guard, which some threads may skip", s->local);
}

static bool is_combination(fx_sop op)
{
    return op == FX_S_add || op == FX_S_mul || op == FX_S_max || op == FX_S_min || op == FX_S_and || op == FX_S_or;
}

void fx_check_reduce(fx_check *c, const fx_stmt *s)
{
    const fx_check_local *l = fx_check_find_local(c, s->local);
    if (!is_combination(s->op))
        fx_check_bad(c, "t%d is reduced by %s: expected add, mul, max, min, and, or", s->local, (unsigned)s->op < FX_S_COUNT ? fx_sop_name(s->op) : "?");
    else if (!l)
        fx_check_bad(c, "t%d is reduced where it is not defined", s->local);
    else if (!fx_check_op_takes(s->op, l->dtype) || (!fx_sop_is_exact(s->op) && (l->dtype == FX_F16 || l->dtype == FX_BF16)))
        fx_check_bad(c, "t%d of %s cannot be reduced by %s", s->local, fx_dtype_short(l->dtype), fx_sop_name(s->op));
    else if (l->parallel_depth != c->parallel_depth)
        fx_check_bad(c, "t%d is reduced inside a loop over threads that shares it", s->local);
    check_threads(c, s);
}
