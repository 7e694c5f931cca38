/* lower/isl.c: isl's context and budget; systems of conditions; index maps as access functions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <time.h>

#include <isl/point.h>

#include "lower/isl_inner.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void close_isl(void *arg)
{
    fx_isl *i = arg;
    isl_ctx_free(i->isl);
    i->isl = NULL;
}

fx_isl *fx_isl_open(fx_context *ctx)
{
    fx_isl *i = FX_NEW(fx_arena_scratch(ctx), fx_isl);
    i->ctx = ctx;
    i->isl = isl_ctx_alloc();
    if (!i->isl)
        fx_out_of_memory(ctx);
    fx_defer(ctx, close_isl, i);
    isl_options_set_on_error(i->isl, ISL_ON_ERROR_CONTINUE);
    isl_options_set_tile_scale_tile_loops(i->isl, 0);
    isl_options_set_tile_shift_point_loops(i->isl, 1);
    fx_isl_budget(i, FX_ISL_OPERATIONS);
    return i;
}

void fx_isl_budget(fx_isl *i, unsigned long operations)
{
    isl_ctx_set_max_operations(i->isl, operations);
}

double fx_isl_seconds(const fx_isl *i)
{
    return i->seconds;
}

int fx_isl_queries(const fx_isl *i, int *unknown)
{
    if (unknown)
        *unknown = i->unknown;
    return i->queries;
}

void fx_isl_begin(fx_isl *i)
{
    isl_ctx_reset_error(i->isl);
    isl_ctx_reset_operations(i->isl);
    i->queries++;
    i->started = now();
}

fx_isl_answer fx_isl_end(fx_isl *i, fx_isl_answer answer)
{
    i->seconds += now() - i->started;
    if (isl_ctx_last_error(i->isl) == isl_error_alloc)
        fx_out_of_memory(i->ctx);
    if (isl_ctx_last_error(i->isl) != isl_error_none)
        answer = FX_ISL_UNKNOWN;
    i->unknown += answer == FX_ISL_UNKNOWN;
    return answer;
}

fx_isl_answer fx_isl_bool(isl_bool b)
{
    return b == isl_bool_error ? FX_ISL_UNKNOWN : b ? FX_ISL_YES : FX_ISL_NO;
}

isl_aff *fx_isl_aff(isl_space *space, int64_t constant, int n, const int64_t *coef)
{
    isl_ctx *ctx = isl_space_get_ctx(space);
    isl_aff *a = isl_aff_zero_on_domain(isl_local_space_from_space(space));
    a = isl_aff_set_constant_val(a, isl_val_int_from_si(ctx, (long)constant));
    for (int k = 0; k < n; k++)
        if (coef[k])
            a = isl_aff_set_coefficient_val(a, isl_dim_in, k, isl_val_int_from_si(ctx, (long)coef[k]));
    return a;
}

isl_basic_set *fx_isl_nonneg(isl_aff *a)
{
    return isl_basic_set_from_constraint(isl_inequality_from_aff(a));
}

/* ---- systems of conditions -------------------------------------------------------------------------------------- */

fx_isl_answer fx_isl_empty(fx_isl *i, int n_vars, int n_rows, const fx_isl_row *rows, int64_t *point)
{
    fx_isl_begin(i);
    isl_space *space = isl_space_set_alloc(i->isl, 0, (unsigned)n_vars);
    isl_basic_set *set = isl_basic_set_universe(isl_space_copy(space));
    for (int r = 0; r < n_rows; r++) {
        isl_aff *a = fx_isl_aff(isl_space_copy(space), rows[r].constant, n_vars, rows[r].coef);
        isl_basic_set *half = rows[r].equal ? isl_aff_zero_basic_set(a) : fx_isl_nonneg(a);
        set = isl_basic_set_intersect(set, half);
    }
    isl_space_free(space);
    isl_point *p = isl_basic_set_sample_point(set);
    fx_isl_answer answer = fx_isl_bool(isl_point_is_void(p));
    for (int k = 0; answer == FX_ISL_NO && point && k < n_vars; k++) {
        isl_val *v = isl_point_get_coordinate_val(p, isl_dim_set, k);
        point[k] = isl_val_get_num_si(v);
        isl_val_free(v);
    }
    isl_point_free(p);
    return fx_isl_end(i, answer);
}

/* ---- index maps -------------------------------------------------------------------------------------------------- */

/* An index expression over the dims of `space` (kept): floors and remainders are isl's. NULL when a coefficient is no number. */
static isl_aff *aff_of_ix(isl_space *space, const fx_ix *x)
{
    isl_ctx *ctx = isl_space_get_ctx(space);
    if (!fx_dim_known(x->base))
        return NULL;
    isl_aff *sum = fx_isl_aff(isl_space_copy(space), x->base.value, 0, NULL);
    for (int k = 0; k < x->n; k++) {
        const fx_ix_term *t = &x->term[k];
        isl_aff *a = NULL;
        if (fx_dim_known(t->coef) && fx_dim_known(t->div) && fx_dim_known(t->mod)) {
            if (t->var >= 0) {
                a = isl_aff_var_on_domain(isl_local_space_from_space(isl_space_copy(space)), isl_dim_set, (unsigned)t->var);
            } else {
                a = aff_of_ix(space, t->of);
                a = isl_aff_floor(isl_aff_scale_down_val(a, isl_val_int_from_si(ctx, (long)t->div.value)));
                if (t->mod.value)
                    a = isl_aff_mod_val(a, isl_val_int_from_si(ctx, (long)t->mod.value));
            }
            a = isl_aff_scale_val(a, isl_val_int_from_si(ctx, (long)t->coef.value));
        }
        sum = isl_aff_add(sum, a);
    }
    return sum;
}

/* The map as one function, defined where there is a source; pieces are pieces of its domain. */
static isl_pw_multi_aff *function_of(fx_isl *i, const fx_imap *map)
{
    isl_space *domain = isl_space_set_alloc(i->isl, 0, (unsigned)map->rank);
    int rank = 0;
    for (int k = 0; k < map->n; k++)
        rank = map->piece[k].source >= 0 ? map->piece[k].rank : rank;
    isl_space *space = isl_space_alloc(i->isl, 0, (unsigned)map->rank, (unsigned)rank);
    isl_pw_multi_aff *f = isl_pw_multi_aff_empty(isl_space_copy(space));
    for (int k = 0; k < map->n; k++) {
        const fx_imap_piece *p = &map->piece[k];
        if (p->source < 0)
            continue;
        isl_set *box = isl_set_universe(isl_space_copy(domain));
        for (int d = 0; d < map->rank; d++) {
            bool known = fx_dim_known(p->lo[d]) && fx_dim_known(p->hi[d]);
            box = known ? isl_set_lower_bound_si(box, isl_dim_set, (unsigned)d, (int)p->lo[d].value) : isl_set_free(box);
            box = known ? isl_set_upper_bound_si(box, isl_dim_set, (unsigned)d, (int)p->hi[d].value - 1) : box;
        }
        isl_multi_aff *m = isl_multi_aff_zero(isl_space_copy(space));
        for (int d = 0; d < p->rank; d++)
            m = isl_multi_aff_set_aff(m, d, aff_of_ix(domain, p->index[d]));
        f = isl_pw_multi_aff_union_add(f, isl_pw_multi_aff_alloc(box, m));
    }
    isl_space_free(space);
    isl_space_free(domain);
    return f;
}

fx_isl_answer fx_isl_composes(fx_isl *i, const fx_imap *outer, const fx_imap *inner, const fx_imap *composed, double *seconds)
{
    fx_isl_begin(i);
    isl_pw_multi_aff *f = function_of(i, outer), *g = function_of(i, inner), *h = function_of(i, composed);
    double start = now();
    isl_pw_multi_aff *both = isl_pw_multi_aff_pullback_pw_multi_aff(g, f);
    both = isl_pw_multi_aff_gist(both, isl_pw_multi_aff_domain(isl_pw_multi_aff_copy(both)));
    *seconds = now() - start;
    /* Gist left out what the domain says: put it back to compare. */
    isl_set *domain = isl_pw_multi_aff_domain(isl_pw_multi_aff_copy(h));
    both = isl_pw_multi_aff_intersect_domain(both, domain);
    isl_map *a = isl_map_from_pw_multi_aff(both), *b = isl_map_from_pw_multi_aff(h);
    fx_isl_answer answer = fx_isl_bool(isl_map_is_equal(a, b));
    isl_map_free(a);
    isl_map_free(b);
    return fx_isl_end(i, answer);
}
