/* softmax.h: softmax and its logarithm over the middle of [outer][n][inner].
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * y may be x: elements are read before they are written, and nothing else is read after that but y itself. A NaN, or a maximum
 * that is infinite, makes NaN of all n elements by way of the sum, as in PyTorch. */

/* nv vectors of neighbouring columns, of which `columns` elements count; n rows that are `inner` apart. */
FXRT_INLINE void fxrt_softmax_columns(const int log_of, const int nv, const float *x, float *y, int n, ptrdiff_t inner, int columns)
{
    const int full = columns >= nv * FXRT_LANES;
    fxrt_v max[4], sum[4];
#define FXRT_AT(p, i, v) (full ? fxrt_v_load((p) + (i) * inner + (v) * FXRT_LANES)                                       \
                               : fxrt_v_load_some((p) + (i) * inner + (v) * FXRT_LANES, columns - (v) * FXRT_LANES))
#define FXRT_PUT(i, v, a)                                                                                               \
    do {                                                                                                                \
        if (full)                                                                                                       \
            fxrt_v_store(y + (i) * inner + (v) * FXRT_LANES, a);                                                        \
        else                                                                                                            \
            fxrt_v_store_some(y + (i) * inner + (v) * FXRT_LANES, a, columns - (v) * FXRT_LANES);                       \
    } while (0)
    for (int v = 0; v < nv; v++) {
        max[v] = fxrt_v_set1(-INFINITY);
        sum[v] = fxrt_v_set1(0.0f);
    }
    for (ptrdiff_t i = 0; i < n; i++)
        for (int v = 0; v < nv; v++)
            max[v] = fxrt_v_max(max[v], FXRT_AT(x, i, v));
    for (ptrdiff_t i = 0; i < n; i++)
        for (int v = 0; v < nv; v++) {
            const fxrt_v t = fxrt_v_sub(FXRT_AT(x, i, v), max[v]), e = fxrt_v_exp_neg(t);
            sum[v] = fxrt_v_add(sum[v], e);
            FXRT_PUT(i, v, log_of ? t : e);
        }
    if (log_of)
        for (int v = 0; v < nv; v++) {
            float lanes[FXRT_LANES];
            fxrt_v_store(lanes, sum[v]);
            for (int i = 0; i < FXRT_LANES; i++)
                lanes[i] = logf(lanes[i]);
            sum[v] = fxrt_v_load(lanes);
        }
    for (ptrdiff_t i = 0; i < n; i++)
        for (int v = 0; v < nv; v++)
            FXRT_PUT(i, v, log_of ? fxrt_v_sub(FXRT_AT(y, i, v), sum[v]) : fxrt_v_div(FXRT_AT(y, i, v), sum[v]));
#undef FXRT_PUT
#undef FXRT_AT
}

/* The same for one dense row, two vectors at a time. */
static inline void fxrt_softmax_row(const int log_of, const float *x, float *y, int n)
{
    const int pairs = n / (2 * FXRT_LANES) * (2 * FXRT_LANES);
    fxrt_v m0 = fxrt_v_set1(-INFINITY), m1 = m0, s0 = fxrt_v_set1(0.0f), s1 = s0;
    float max = -INFINITY, tail = 0, lanes[FXRT_LANES];
    for (int i = 0; i < pairs; i += 2 * FXRT_LANES) {
        m0 = fxrt_v_max(m0, fxrt_v_load(x + i));
        m1 = fxrt_v_max(m1, fxrt_v_load(x + i + FXRT_LANES));
    }
    fxrt_v_store(lanes, fxrt_v_max(m0, m1));
    for (int i = 0; i < FXRT_LANES; i++)
        max = lanes[i] > max ? lanes[i] : max;
    for (int i = pairs; i < n; i++)
        max = x[i] > max ? x[i] : max;
    const fxrt_v top = fxrt_v_set1(max);
    for (int i = 0; i < pairs; i += 2 * FXRT_LANES) {
        const fxrt_v t0 = fxrt_v_sub(fxrt_v_load(x + i), top), t1 = fxrt_v_sub(fxrt_v_load(x + i + FXRT_LANES), top);
        const fxrt_v e0 = fxrt_v_exp_neg(t0), e1 = fxrt_v_exp_neg(t1);
        s0 = fxrt_v_add(s0, e0);
        s1 = fxrt_v_add(s1, e1);
        fxrt_v_store(y + i, log_of ? t0 : e0);
        fxrt_v_store(y + i + FXRT_LANES, log_of ? t1 : e1);
    }
    for (int i = pairs; i < n; i += FXRT_LANES) { /* at most two more vectors */
        const int count = fxrt_min_int(FXRT_LANES, n - i);
        const fxrt_v t = fxrt_v_sub(fxrt_v_load_some(x + i, count), top), e = fxrt_v_exp_neg(t);
        fxrt_v_store(lanes, e);
        for (int j = 0; j < count; j++)
            tail += lanes[j];
        fxrt_v_store_some(y + i, log_of ? t : e, count);
    }
    const float sum = fxrt_v_sum(fxrt_v_add(s0, s1)) + tail;
    const fxrt_v scale = fxrt_v_set1(log_of ? logf(sum) : sum);
    for (int i = 0; i < n; i += FXRT_LANES) {
        const fxrt_v v = fxrt_v_load_some(y + i, n - i);
        fxrt_v_store_some(y + i, log_of ? fxrt_v_sub(v, scale) : fxrt_v_div(v, scale), n - i);
    }
}

static inline void fxrt_softmax_all(const int log_of, const fxrt_softmax_desc *d, const float *x, float *y)
{
    enum { BLOCK = 4 * FXRT_LANES };
#ifdef _OPENMP
    const double work = (double)d->outer * d->n * d->inner;
    _Pragma("omp parallel for schedule(static) if (work > 3e4)")
#endif
    for (ptrdiff_t o = 0; o < d->outer; o++) {
        const float *from = x + o * d->n * d->inner;
        float *to = y + o * d->n * d->inner;
        int j = 0;
        if (d->inner == 1) {
            fxrt_softmax_row(log_of, from, to, d->n);
            continue;
        }
        for (; j + BLOCK <= d->inner; j += BLOCK)
            fxrt_softmax_columns(log_of, 4, from + j, to + j, d->n, d->inner, BLOCK);
        for (; j < d->inner; j += FXRT_LANES)
            fxrt_softmax_columns(log_of, 1, from + j, to + j, d->n, d->inner, d->inner - j);
    }
}

FXRT_KERNEL void fxrt_softmax(const fxrt_softmax_desc *d, const float *x, float *y) { fxrt_softmax_all(0, d, x, y); }
FXRT_KERNEL void fxrt_log_softmax(const fxrt_softmax_desc *d, const float *x, float *y) { fxrt_softmax_all(1, d, x, y); }
