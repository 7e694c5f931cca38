/* gemm_tile.h: a tile of a product of two matrices through shared memory: gemm.h's where cuBLASLt has no answer, attention.h's scores.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * 16 x 16 threads make 16 R rows by 64 columns. Thread (tx, ty) has the rows R ty to R ty + R - 1 and the columns 2 tx, 2 tx + 1, 2 tx + 32 and
 * 2 tx + 33, so that a warp reads 16 neighbouring pairs of columns at once, and the same row for all of them. While one stage of 16 steps is
 * multiplied, the next one is on its way into registers and then into the other half of shared memory: one barrier a stage. */
enum { FXRT_CUDA_TILE_THREADS = 256, FXRT_CUDA_TILE_COLS = 64, FXRT_CUDA_TILE_STEPS = 16 };

/* The column of v[..][j] in a tile. */
FXRT_DEVICE int fxrt_cuda_tile_column(int j) { return static_cast<int>(threadIdx.x) % 16 * 2 + j % 2 + j / 2 * 32; }
FXRT_DEVICE int fxrt_cuda_tile_row(int rows) { return static_cast<int>(threadIdx.x) / 16 * rows; }

/* Pairs of rows (of a) and columns (of b) by steps. The odd pair at the end keeps transposed writes off each other's banks. */
template <int R> struct fxrt_cuda_tile_stage {
    float2 a[2][FXRT_CUDA_TILE_STEPS][8 * R + 1], b[2][FXRT_CUDA_TILE_STEPS][FXRT_CUDA_TILE_COLS / 2 + 1];
};

/* One side of the product: element (i, step) lies at at[i * line + step * step_by]. Lines past the last count as zeros. */
template <class T> struct fxrt_cuda_tile_side {
    const T *at;
    ptrdiff_t line, step_by;
    int lines;
};

/* p + offset; null stays null (an operand that is not there, or has no elements). */
template <class T> FXRT_DEVICE T *fxrt_cuda_tile_at(T *p, ptrdiff_t offset) { return p ? p + offset : nullptr; }

/* Which of 16 N lines by 16 steps are thread t's: neighbours go along what is dense in memory. */
template <int N> FXRT_DEVICE void fxrt_cuda_tile_place(bool steps_dense, int j, int *line, int *step)
{
    const int t = static_cast<int>(threadIdx.x);
    *line = steps_dense ? t / 16 + 16 * j : t % (16 * N);
    *step = steps_dense ? t % 16 : t / (16 * N) + 16 / N * j;
}

template <int N, class T> FXRT_DEVICE void fxrt_cuda_tile_fetch(const fxrt_cuda_tile_side<T> &side, int from, int steps, float (&to)[N])
{
    FXRT_UNROLL
    for (int j = 0; j < N; j++) {
        int line, step;
        fxrt_cuda_tile_place<N>(side.step_by == 1, j, &line, &step);
        step += from;
        to[j] = line < side.lines && step < steps ? static_cast<float>(side.at[line * side.line + step * side.step_by]) : 0.0f;
    }
}

/* `pairs`: of a row of the stage. */
template <int N> FXRT_DEVICE void fxrt_cuda_tile_put(float2 *stage, int pairs, bool steps_dense, const float (&from)[N])
{
    FXRT_UNROLL
    for (int j = 0; j < N; j++) {
        int line, step;
        fxrt_cuda_tile_place<N>(steps_dense, j, &line, &step);
        reinterpret_cast<float *>(stage + step * pairs)[line] = from[j];
    }
}

/* R neighbouring numbers of a row of pairs. */
template <int R> FXRT_DEVICE void fxrt_cuda_tile_rows(const float2 *row, int first, float (&to)[R])
{
    if constexpr (R == 1) {
        to[0] = reinterpret_cast<const float *>(row)[first];
    } else {
        FXRT_UNROLL
        for (int i = 0; i < R; i += 2) {
            const float2 two = row[(first + i) / 2];
            to[i] = two.x;
            to[i + 1] = two.y;
        }
    }
}

/* acc += a b^T over the steps. All threads of the block come here; the stage is free again when they leave. */
template <int R, class A, class B>
FXRT_DEVICE void fxrt_cuda_tile_product(fxrt_cuda_tile_stage<R> &stage, const fxrt_cuda_tile_side<A> &a, const fxrt_cuda_tile_side<B> &b,
                                        int steps, float (&acc)[R][4])
{
    constexpr int a_pairs = 8 * R + 1, b_pairs = FXRT_CUDA_TILE_COLS / 2 + 1;
    const int row = fxrt_cuda_tile_row(R), pair = static_cast<int>(threadIdx.x) % 16;
    float next_a[R], next_b[4];
    fxrt_cuda_tile_fetch(a, 0, steps, next_a);
    fxrt_cuda_tile_fetch(b, 0, steps, next_b);
    fxrt_cuda_tile_put(stage.a[0][0], a_pairs, a.step_by == 1, next_a);
    fxrt_cuda_tile_put(stage.b[0][0], b_pairs, b.step_by == 1, next_b);
    __syncthreads();
    for (int from = 0, half = 0; from < steps; from += FXRT_CUDA_TILE_STEPS, half ^= 1) {
        const bool more = from + FXRT_CUDA_TILE_STEPS < steps;
        if (more) {
            fxrt_cuda_tile_fetch(a, from + FXRT_CUDA_TILE_STEPS, steps, next_a);
            fxrt_cuda_tile_fetch(b, from + FXRT_CUDA_TILE_STEPS, steps, next_b);
        }
        FXRT_UNROLL
        for (int step = 0; step < FXRT_CUDA_TILE_STEPS; step++) {
            float x[R];
            fxrt_cuda_tile_rows(stage.a[half][step], row, x);
            const float2 left = stage.b[half][step][pair], right = stage.b[half][step][pair + 16];
            FXRT_UNROLL
            for (int i = 0; i < R; i++) {
                acc[i][0] = fmaf(x[i], left.x, acc[i][0]);
                acc[i][1] = fmaf(x[i], left.y, acc[i][1]);
                acc[i][2] = fmaf(x[i], right.x, acc[i][2]);
                acc[i][3] = fmaf(x[i], right.y, acc[i][3]);
            }
        }
        if (more) { /* nobody reads the other half any more: the barrier before this stage saw to that */
            fxrt_cuda_tile_put(stage.a[half ^ 1][0], a_pairs, a.step_by == 1, next_a);
            fxrt_cuda_tile_put(stage.b[half ^ 1][0], b_pairs, b.step_by == 1, next_b);
        }
        __syncthreads();
    }
}
