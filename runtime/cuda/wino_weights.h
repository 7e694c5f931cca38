/* wino_weights.h: the weights of a 3 x 3 convolution as conv2d_wino.h takes them, made once by the compiler. Plain C; follows conv_wino.h. Emitted files
 * do not have it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* Floats of [36][oc][ic]. */
static inline size_t fxrt_cuda_wino_weights_size(const fxrt_conv2d_desc *d) { return (size_t)FXRT_WINO_POINTS * (size_t)d->oc * (size_t)d->ic; }

/* t = G g, for three numbers that lie `step` apart: the polynomial of g at each point, divided by what the interpolation needs. */
static inline void fxrt_cuda_wino_weight_line(const double *g, int step, double t[FXRT_WINO_IN])
{
    const double a = (double)FXRT_WINO_A, b = (double)FXRT_WINO_B, at_a = 2 * a * a * (a * a - b * b), at_b = 2 * b * b * (b * b - a * a);
    const double g0 = g[0], g1 = g[step], g2 = g[2 * step];
    t[0] = g0 / (a * a * b * b);
    t[1] = (g0 + a * g1 + a * a * g2) / at_a;
    t[2] = (g0 - a * g1 + a * a * g2) / at_a;
    t[3] = (g0 + b * g1 + b * b * g2) / at_b;
    t[4] = (g0 - b * g1 + b * b * g2) / at_b;
    t[5] = g2;
}

/* From `rows` of PyTorch's w[oc][ic][3][3], the first of which is `first`, to their places in [36][oc][ic]: G g G^T in double and rounded once. */
static inline void fxrt_cuda_wino_weights(const fxrt_conv2d_desc *d, int64_t first, int64_t rows, const float *w, float *to)
{
    const size_t pairs = (size_t)d->oc * (size_t)d->ic, count = (size_t)rows * (size_t)d->ic;
    to += (size_t)first * (size_t)d->ic;
    for (size_t pair = 0; pair < count; pair++) {
        double g[9], lines[3][FXRT_WINO_IN], columns[FXRT_WINO_IN];
        for (int i = 0; i < 9; i++)
            g[i] = (double)w[9 * pair + (size_t)i];
        for (int i = 0; i < 3; i++)
            fxrt_cuda_wino_weight_line(g + 3 * i, 1, lines[i]);
        for (int j = 0; j < FXRT_WINO_IN; j++) {
            fxrt_cuda_wino_weight_line(&lines[0][j], FXRT_WINO_IN, columns);
            for (int i = 0; i < FXRT_WINO_IN; i++)
                to[(size_t)(i * FXRT_WINO_IN + j) * pairs + pair] = (float)columns[i];
        }
    }
}
