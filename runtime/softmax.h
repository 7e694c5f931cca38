/* softmax.h: softmax and its logarithm over the middle of [outer][n][inner].
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

enum { FXRT_SOFTMAX_COLUMNS = 64 };

/* Up to FXRT_SOFTMAX_COLUMNS neighbouring columns, n rows that are `inner` apart. */
static inline void fxrt_softmax_columns(const int log_of, const float *x, float *y, int n, ptrdiff_t inner, int columns)
{
    float max[FXRT_SOFTMAX_COLUMNS], sum[FXRT_SOFTMAX_COLUMNS];
    for (int j = 0; j < columns; j++) {
        max[j] = -INFINITY;
        sum[j] = 0;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        for (int j = 0; j < columns; j++)
            max[j] = fxrt_max(max[j], x[i * inner + j]);
    for (ptrdiff_t i = 0; i < n; i++)
        for (int j = 0; j < columns; j++) {
            const float t = x[i * inner + j] - max[j], e = fxrt_exp(t);
            y[i * inner + j] = log_of ? t : e;
            sum[j] += e;
        }
    for (int j = 0; j < columns; j++)
        sum[j] = log_of ? logf(sum[j]) : sum[j];
    for (ptrdiff_t i = 0; i < n; i++)
        for (int j = 0; j < columns; j++)
            y[i * inner + j] = log_of ? y[i * inner + j] - sum[j] : y[i * inner + j] / sum[j];
}

/* The same for one dense row. */
static inline void fxrt_softmax_row(const int log_of, const float *x, float *y, int n)
{
    float max = -INFINITY;
    for (int i = 0; i < n; i++)
        max = fxrt_max(max, x[i]);
    float sum = 0;
    for (int at = 0; at < n; at += FXRT_SOFTMAX_COLUMNS) { /* by blocks, so that sums are exact enough and loops vectorise */
        float part[FXRT_SOFTMAX_COLUMNS], s = 0;
        const int m = fxrt_min_int(FXRT_SOFTMAX_COLUMNS, n - at);
        for (int i = 0; i < m; i++)
            part[i] = fxrt_exp(x[at + i] - max);
        for (int i = 0; i < m; i++)
            s += part[i];
        sum += s;
        for (int i = 0; i < m; i++)
            y[at + i] = log_of ? x[at + i] - max : part[i];
    }
    const float scale = log_of ? logf(sum) : sum;
    for (int i = 0; i < n; i++)
        y[i] = log_of ? y[i] - scale : y[i] / scale;
}

static inline void fxrt_softmax_all(const int log_of, const fxrt_softmax_desc *d, const float *x, float *y)
{
    for (ptrdiff_t o = 0; o < d->outer; o++) {
        const ptrdiff_t at = o * d->n * d->inner;
        if (d->inner == 1)
            fxrt_softmax_row(log_of, x + at, y + at, d->n);
        else
            for (int j = 0; j < d->inner; j += FXRT_SOFTMAX_COLUMNS)
                fxrt_softmax_columns(log_of, x + at + j, y + at + j, d->n, d->inner,
                                     fxrt_min_int(FXRT_SOFTMAX_COLUMNS, d->inner - j));
    }
}

FXRT_KERNEL void fxrt_softmax(const fxrt_softmax_desc *d, const float *x, float *y) { fxrt_softmax_all(0, d, x, y); }
FXRT_KERNEL void fxrt_log_softmax(const fxrt_softmax_desc *d, const float *x, float *y) { fxrt_softmax_all(1, d, x, y); }
