/* ir/weight_rows.c: weights that are made of others row by row: scaled by what follows them, or put below one another. They are made when they are needed,
 * and who needs rows in another order makes them one by one, so that the whole never lies in memory twice.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ir.h"

/* Eight at a time: compilers make vectors of a count they know. */
static inline __attribute__((always_inline)) void scale_any(float *restrict to, const float *restrict from, int64_t n, double scale)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            to[i + k] = (float)(from[i + k] * scale);
    for (; i < n; i++)
        to[i] = (float)(from[i] * scale);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void scale_avx2(float *restrict to, const float *restrict from, int64_t n, double scale)
{
    scale_any(to, from, n, scale);
}
#endif

static void scale_row(float *restrict to, const float *restrict from, int64_t n, double scale)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        scale_avx2(to, from, n, scale);
        return;
    }
#endif
    scale_any(to, from, n, scale);
}

/* The piece that row `from` is of, *from then counts within it. */
static const fx_row_piece *piece_at(const fx_weight_rows *r, int64_t *from)
{
    const fx_row_piece *p = r->pieces;
    for (; *from >= p->rows; p++)
        *from -= p->rows;
    return p;
}

const float *fx_weight_rows_at(const fx_weight_rows *r, int64_t from, int64_t n)
{
    const fx_row_piece *p = piece_at(r, &from);
    return !r->scale && !r->turned && from + n <= p->rows ? (const float *)fx_tensor_peek(&p->t) + from * r->width : NULL;
}

void fx_weight_rows_make(const fx_weight_rows *r, int64_t from, int64_t n, float *to)
{
    if (r->turned) {
        const float *data = (const float *)fx_tensor_peek(&r->pieces[0].t) + from;
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < r->width; k++)
                *to++ = data[k * r->turned + i];
        return;
    }
    const double *scale = r->scale ? r->scale + from : NULL;
    for (const fx_row_piece *p = piece_at(r, &from); n > 0; p++, from = 0) {
        int64_t count = n < p->rows - from ? n : p->rows - from;
        const float *data = (const float *)fx_tensor_peek(&p->t) + from * r->width;
        if (scale)
            for (int64_t i = 0; i < count; i++)
                scale_row(to + i * r->width, data + i * r->width, r->width, *scale++);
        else
            memcpy(to, data, (size_t)(count * r->width) * sizeof *to);
        to += count * r->width;
        n -= count;
    }
}

/* Behind a storage whose rows are not made yet. */
typedef struct later {
    fx_weight_rows rows;
    void *memory;
} later;

static fx_status make_all(fx_storage *st)
{
    later *l = st->user;
    for (int i = 0; i < l->rows.n_pieces; i++)
        FX_TRY(fx_tensor_touch(st->ctx, &l->rows.pieces[i].t));
    st->data = l->memory = fx_storage_memory(st, st->nbytes);
    fx_weight_rows_make(&l->rows, 0, l->rows.n, st->data);
    return FX_OK;
}

static void release(fx_storage *st)
{
    fx_storage_memory_free(st, ((later *)st->user)->memory);
}

fx_status fx_weight_rows_later(fx_context *ctx, const fx_weight_rows *r, int rank, const int64_t *sizes, fx_tensor *out)
{
    *out = (fx_tensor){.dtype = FX_F32, .rank = rank};
    int64_t stride = 1;
    for (int i = rank; i-- > 0; stride *= sizes[i]) {
        out->sizes[i] = sizes[i];
        out->strides[i] = stride;
    }
    size_t pieces = (size_t)r->n_pieces * sizeof *r->pieces, scale = r->scale ? (size_t)r->n * sizeof *r->scale : 0;
    char *behind;
    out->storage = fx_storage_lazy_room(ctx, (size_t)stride * sizeof(float), make_all, release, sizeof(later) + pieces + scale, (void **)&behind);
    later *l = (later *)(void *)behind;
    l->rows = *r;
    l->rows.pieces = memcpy(behind + sizeof *l, r->pieces, pieces);
    l->rows.scale = scale ? memcpy(behind + sizeof *l + pieces, r->scale, scale) : NULL;
    for (int i = 0; i < r->n_pieces; i++)
        if (!fx_tensor_peek(&r->pieces[i].t))
            FX_TRY(fx_tensor_touch(ctx, &l->rows.pieces[i].t));
    return FX_OK;
}

fx_status fx_weight_rows_of(fx_context *ctx, fx_arena *arena, const fx_tensor *t, fx_weight_rows *out)
{
    fx_storage *st = t->storage;
    if (st && !st->data && st->touch == make_all && !t->data && (size_t)fx_tensor_numel(t) * sizeof(float) == st->nbytes && fx_tensor_is_contiguous(t)) {
        *out = ((later *)st->user)->rows;
        return FX_OK;
    }
    fx_row_piece *p = FX_NEW(arena, fx_row_piece);
    *p = (fx_row_piece){.t = *t, .rows = t->rank ? t->sizes[0] : 1};
    if (t->rank == 2 && t->strides[0] == 1 && t->strides[1] >= t->sizes[0] && fx_tensor_peek(t) && !fx_tensor_is_contiguous(t)) {
        *out = (fx_weight_rows){.n = p->rows, .width = t->sizes[1], .n_pieces = 1, .pieces = p, .turned = t->strides[1]};
        return FX_OK;
    }
    if (!fx_tensor_is_contiguous(t) || !fx_tensor_peek(t))
        FX_TRY(fx_tensor_contiguous(ctx, t, &p->t));
    *out = (fx_weight_rows){.n = p->rows, .width = p->rows ? fx_tensor_numel(t) / p->rows : 0, .n_pieces = 1, .pieces = p};
    return FX_OK;
}
