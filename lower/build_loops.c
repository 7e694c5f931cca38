/* lower/build_loops.c: loop nests over accesses.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/build.h"

/* Loops of at least so many iterations are worth several threads. */
enum { PARALLEL_FROM = 1 << 15 };

/* Accesses of a nest: what a region reads, and its result. */
enum { MAX_ACCESSES = FX_MAX_REGION_READS + 1 };

const char *fx_build_axis(int rank, int dim)
{
    static const char *const nchw[] = {"n", "c", "h", "w"}, *const rest[] = {"i", "j", "k", "l", "m", "o", "p", "q", "r", "s", "t", "u", "v", "x", "y", "z"};
    return rank == 4 ? nchw[dim] : rest[dim];
}

fx_nest fx_nest_make(fx_build *b, int rank, const fx_dim *dims, const int *order, int n_accesses, fx_nest_access *accesses)
{
    fx_nest nest = {0};
    fx_dim merged[MAX_ACCESSES][FX_NEST_DIMS];
    for (int i = 0; i < rank; i++) {
        int d = order[i];
        if (fx_dim_is(dims[d], 1))
            continue;
        int last = nest.n - 1;
        bool merges = last >= 0;
        for (int a = 0; merges && a < n_accesses; a++)
            merges = fx_dim_equal(merged[a][last], fx_dim_mul(b->ctx, accesses[a].strides[d], dims[d]));
        if (merges) {
            nest.extent[last] = fx_dim_mul(b->ctx, nest.extent[last], dims[d]);
            nest.hint[last] = "i";
        } else {
            last = nest.n++;
            nest.extent[last] = dims[d];
            nest.hint[last] = fx_build_axis(rank, d);
        }
        for (int a = 0; a < n_accesses; a++)
            merged[a][last] = accesses[a].strides[d];
    }
    for (int i = 0; i < nest.n; i++) {
        nest.var[i] = b->n_vars++;
        for (int a = 0; a < n_accesses; a++)
            accesses[a].strides[i] = merged[a][i];
    }
    return nest;
}

fx_affine fx_nest_index(fx_build *b, const fx_nest *nest, const fx_nest_access *a)
{
    fx_affine f = fx_affine_dim(a->offset);
    for (int i = 0; i < nest->n; i++)
        if (!fx_dim_is(a->strides[i], 0))
            fx_affine_add(b->ctx, &f, nest->var[i], a->strides[i]);
    return f;
}

bool fx_build_is_large(fx_build *b, int rank, const fx_dim *dims)
{
    fx_dim count = fx_dim_of(1);
    for (int i = 0; i < rank; i++)
        count = fx_dim_mul(b->ctx, count, dims[i]);
    int64_t least, most;
    fx_dim_bounds(fx_build_symbols(b), count, &least, &most);
    return most >= PARALLEL_FROM;
}

fx_stmt *fx_nest_wrap(fx_build *b, const fx_nest *nest, fx_stmt *body)
{
    bool large = fx_build_is_large(b, nest->n, nest->extent);
    for (int i = nest->n - 1; i >= 0; i--) {
        fx_stmt *loop = fx_stmt_new(b->p, FX_ST_LOOP);
        loop->var = nest->var[i];
        loop->extent = nest->extent[i];
        loop->hint = nest->hint[i];
        loop->loop = i == 0 && large ? FX_LOOP_PARALLEL : i == nest->n - 1 ? FX_LOOP_VECTOR : FX_LOOP_SERIAL;
        loop->body = body;
        body = loop;
    }
    return body;
}
