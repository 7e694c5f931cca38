/* attention.h: softmax(scale q k^T + bias + mask) v without the matrix of scores, as fxrt_attention_desc has it (flash attention: Dao et al.,
 * arXiv:2205.14135). Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A block has 16 R queries of one head and goes over the keys, 64 at a time. Scores are a tile of gemm_tile.h; each thread has R rows of them, 16
 * neighbouring threads a row together, so that maxima are combined by shuffles among these and stay in registers, as do the sums of exponentials
 * and the results so far, which a new maximum scales down. The exponentials pass through shared memory, turned over, to meet the rows of v, which
 * come in stages beside them, the next one underway while one is multiplied. All arithmetic is in float, whatever T is;
 * bias and mask are of T or float.
 *
 * A thread keeps 2 C columns of R results: 32 C columns of v. Where v has more than 256, other blocks do them, with the scores once more. */
enum { FXRT_CUDA_ATTENTION_KEYS = 64 };

template <int R, int C> struct fxrt_cuda_attention_shared {
    union {
        fxrt_cuda_tile_stage<R> scores;
        float2 values[2][FXRT_CUDA_ATTENTION_KEYS / C][16 * C]; /* rows of v: 16 KB for every C */
    };
    float2 weights[FXRT_CUDA_ATTENTION_KEYS][8 * R + 1]; /* the exponentials, [key][query] */
};

/* What one block is about. */
template <class T, class M> struct fxrt_cuda_attention_block {
    const T *q, *k, *v; /* of its head; q, bias and mask from its first query on, v and o from its first column on */
    const M *bias, *mask;
    T *o;
    int first, rows, columns, keys; /* queries first to first + rows - 1; keys: those that some of its queries see */
};

template <class T, class M, int R, int C>
FXRT_DEVICE fxrt_cuda_attention_block<T, M> fxrt_cuda_attention_place(const fxrt_attention_desc &d, const T *q, const T *k, const T *v,
                                                                      const M *bias, const M *mask, T *o)
{
    const int tiles = (d.m + 16 * R - 1) / (16 * R), parts = (d.dv + 32 * C - 1) / (32 * C);
    int at = static_cast<int>(blockIdx.x);
    const int tile = tiles - 1 - at % tiles; /* where queries see only what is before them, the last have most to do: they begin */
    at /= tiles;
    const int part = at % parts;
    at /= parts;
    const ptrdiff_t h = at % d.heads, b = at / d.heads, kv = h / (d.heads / d.kv_heads), column = part * 32 * C, first = tile * 16 * R;
    fxrt_cuda_attention_block<T, M> x;
    x.first = static_cast<int>(first);
    x.rows = min(16 * R, d.m - x.first);
    x.columns = min(32 * C, d.dv - static_cast<int>(column));
    x.keys = d.causal ? min(d.n, x.first + x.rows) : d.n;
    x.q = fxrt_cuda_tile_at(q, b * d.q_b + h * d.q_h + first * d.q_m);
    x.k = fxrt_cuda_tile_at(k, b * d.k_b + kv * d.k_h);
    x.v = fxrt_cuda_tile_at(v, b * d.v_b + kv * d.v_h + column);
    x.o = fxrt_cuda_tile_at(o, b * d.o_b + h * d.o_h + first * d.o_m + column);
    x.bias = fxrt_cuda_tile_at(bias, b * d.bias_b + h * d.bias_h + first * d.bias_m);
    x.mask = fxrt_cuda_tile_at(mask, b * d.mask_b + h * d.mask_h + first * d.mask_m);
    return x;
}

/* Where scores are spelled out in float16, its lowest number and a score sum to itself (below 16), as float's lowest does here: a row that is hidden
 * throughout has equal weights. scaled_dot_product_attention sums in float. No bfloat16 is that number. */
template <class M> FXRT_DEVICE float fxrt_cuda_attention_hidden(const fxrt_attention_desc &d, float m)
{
    return sizeof(M) == 2 && !d.zero_empty && m == -65504.0f ? -3.40282346638528859812e38f : m;
}

/* scale * s with bias, mask and what causality hides, of query `row` of the block and key `key`. */
template <class T, class M>
FXRT_DEVICE float fxrt_cuda_attention_score(const fxrt_attention_desc &d, const fxrt_cuda_attention_block<T, M> &x, float s, int row, int key)
{
    if (row >= x.rows || key >= x.keys || (d.causal && key > x.first + row)) {
        return -INFINITY;
    }
    s *= d.scale;
    if (x.bias) {
        s += static_cast<float>(x.bias[static_cast<ptrdiff_t>(row) * d.bias_m + static_cast<ptrdiff_t>(key) * d.bias_n]);
    }
    if (x.mask) {
        const float m = fxrt_cuda_attention_hidden<M>(
            d, static_cast<float>(x.mask[static_cast<ptrdiff_t>(row) * d.mask_m + static_cast<ptrdiff_t>(key) * d.mask_n]));
        s = d.fill && m < -1e30f ? m : s + m;
    }
    return s;
}

/* The larger one; a NaN only where both are. */
struct fxrt_cuda_attention_more {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/* A stage of v on its way: 8 numbers a thread, from key `from` on; what v does not have is zero. */
template <int C, class T, class M>
FXRT_DEVICE void fxrt_cuda_attention_fetch(const fxrt_attention_desc &d, const fxrt_cuda_attention_block<T, M> &x, int from, float (&to)[8])
{
    FXRT_UNROLL
    for (int j = 0; j < 8; j++) {
        const int at = static_cast<int>(threadIdx.x) + FXRT_CUDA_TILE_THREADS * j, column = at % (32 * C), key = from + at / (32 * C);
        to[j] = column < x.columns && key < x.keys ? static_cast<float>(x.v[static_cast<ptrdiff_t>(key) * d.v_n + column]) : 0.0f;
    }
}
FXRT_DEVICE void fxrt_cuda_attention_put(float2 *stage, const float (&from)[8])
{
    FXRT_UNROLL
    for (int j = 0; j < 8; j++) {
        reinterpret_cast<float *>(stage)[static_cast<int>(threadIdx.x) + FXRT_CUDA_TILE_THREADS * j] = from[j];
    }
}

/* out += weights v over one tile of keys. `next` has the first stage. All is free again when the threads leave. */
template <class T, class M, int R, int C>
FXRT_DEVICE void fxrt_cuda_attention_values(fxrt_cuda_attention_shared<R, C> &shared, const fxrt_attention_desc &d,
                                            const fxrt_cuda_attention_block<T, M> &x, int key, float (&next)[8], float (&out)[R][2 * C])
{
    constexpr int stage = FXRT_CUDA_ATTENTION_KEYS / C;
    const int row = fxrt_cuda_tile_row(R), pair = static_cast<int>(threadIdx.x) % 16, keys = min(FXRT_CUDA_ATTENTION_KEYS, x.keys - key);
    fxrt_cuda_attention_put(shared.values[0][0], next);
    __syncthreads();
    for (int from = 0, half = 0; from < keys; from += stage, half ^= 1) {
        const bool more = from + stage < keys;
        if (more) {
            fxrt_cuda_attention_fetch<C>(d, x, key + from + stage, next);
        }
        for (int step = 0; step < stage; step++) {
            float w[R];
            fxrt_cuda_tile_rows(shared.weights[from + step], row, w);
            FXRT_UNROLL
            for (int c = 0; c < C; c++) {
                const float2 v = shared.values[half][step][pair + 16 * c];
                FXRT_UNROLL
                for (int i = 0; i < R; i++) {
                    out[i][2 * c] = fmaf(w[i], v.x, out[i][2 * c]);
                    out[i][2 * c + 1] = fmaf(w[i], v.y, out[i][2 * c + 1]);
                }
            }
        }
        if (more) {
            fxrt_cuda_attention_put(shared.values[half ^ 1][0], next);
        }
        __syncthreads();
    }
}

/* Blocks a multiprocessor that ptxas makes room for: with more, it spills on some architectures. */
template <class T, class M, int R, int C>
static __global__ void __launch_bounds__(FXRT_CUDA_TILE_THREADS, R == 1 ? 2 : 1)
    fxrt_cuda_attention_kernel(fxrt_attention_desc d, const T *q, const T *k, const T *v, const M *bias, const M *mask, T *o)
{
    __shared__ fxrt_cuda_attention_shared<R, C> shared;
    const fxrt_cuda_attention_block<T, M> x = fxrt_cuda_attention_place<T, M, R, C>(d, q, k, v, bias, mask, o);
    const fxrt_cuda_tile_side<T> queries = {x.q, d.q_m, 1, x.rows};
    const int row = fxrt_cuda_tile_row(R);
    float out[R][2 * C] = {}, most[R], sum[R] = {}; /* sum: of this thread's keys */
    FXRT_UNROLL
    for (int i = 0; i < R; i++) {
        most[i] = -3.40282346638528859812e38f; /* the maximum of none is finite, so that rows of -inf give zeros and no NaN */
    }
    for (int key = 0; key < x.keys; key += FXRT_CUDA_ATTENTION_KEYS) {
        const fxrt_cuda_tile_side<T> keys = {fxrt_cuda_tile_at(x.k, static_cast<ptrdiff_t>(key) * d.k_n), d.k_n, 1, x.keys - key};
        float scores[R][4] = {}, next[8];
        fxrt_cuda_tile_product(shared.scores, queries, keys, d.dk, scores);
        fxrt_cuda_attention_fetch<C>(d, x, key, next);
        FXRT_UNROLL
        for (int i = 0; i < R; i++) {
            float top = most[i];
            FXRT_UNROLL
            for (int j = 0; j < 4; j++) {
                scores[i][j] = fxrt_cuda_attention_score(d, x, scores[i][j], row + i, key + fxrt_cuda_tile_column(j));
                top = fmaxf(top, scores[i][j]); /* a NaN is passed over here, and comes out of expf */
            }
            top = fxrt_cuda_warp(fxrt_cuda_attention_more{}, top, 16);
            const float fade = expf(most[i] - top); /* what was summed so far is worth */
            most[i] = top;
            sum[i] *= fade;
            FXRT_UNROLL
            for (int j = 0; j < 4; j++) {
                scores[i][j] = expf(scores[i][j] - top);
                sum[i] += scores[i][j];
                reinterpret_cast<float *>(shared.weights[fxrt_cuda_tile_column(j)])[row + i] = scores[i][j];
            }
            FXRT_UNROLL
            for (int c = 0; c < 2 * C; c++) {
                out[i][c] *= fade;
            }
        }
        fxrt_cuda_attention_values<T, M, R, C>(shared, d, x, key, next, out);
    }
    FXRT_UNROLL
    for (int i = 0; i < R; i++) {
        const float all = fxrt_cuda_warp(fxrt_cuda_add{}, sum[i], 16);
        const float factor = x.keys == 0 || (d.zero_empty && all == 0.0f) ? 0.0f : 1.0f / all;
        T *const to = x.o + static_cast<ptrdiff_t>(row + i) * d.o_m;
        FXRT_UNROLL
        for (int c = 0; c < 2 * C; c++) {
            const int column = fxrt_cuda_tile_column(c);
            if (row + i < x.rows && column < x.columns) {
                to[column] = static_cast<T>(out[i][c] * factor);
            }
        }
    }
}

/* ---- the call ----------------------------------------------------------------------------------------------------- */

/* One query a head, and heads that share keys: these heads are the queries of one, and their keys and values are read once. */
FXRT_HOST fxrt_attention_desc fxrt_cuda_attention_groups(const fxrt_attention_desc *d)
{
    fxrt_attention_desc g = *d;
    const int group = d->heads / d->kv_heads;
    if (d->m != 1 || group == 1 || d->causal) {
        return g;
    }
    g.heads = d->kv_heads;
    g.m = group;
    g.q_m = d->q_h;
    g.o_m = d->o_h;
    g.bias_m = d->bias_h;
    g.mask_m = d->mask_h;
    if (d->kv_heads > 1) {
        g.q_h *= group;
        g.o_h *= group;
        g.bias_h *= group;
        g.mask_h *= group;
    }
    return g;
}

template <class T, class M, int R, int C>
FXRT_HOST cudaError_t fxrt_cuda_attention_launch(const fxrt_attention_desc *d, const T *q, const T *k, const T *v, const M *bias,
                                                 const M *mask, T *o, cudaStream_t stream)
{
    const long long tiles = (d->m + 16LL * R - 1) / (16 * R), parts = (d->dv + 32LL * C - 1) / (32 * C),
                    blocks = tiles * parts * d->heads * d->batch;
    if (blocks > INT32_MAX) {
        return cudaErrorInvalidConfiguration;
    }
    return FXCC_LAUNCH((fxrt_cuda_attention_kernel<T, M, R, C>), static_cast<unsigned>(blocks), FXRT_CUDA_TILE_THREADS, 0, stream, *d, q, k, v,
                       bias, mask, o);
}

/* A type that is told and not found by an argument, which may be nullptr. */
template <class M> struct fxrt_cuda_attention_told {
    using type = M;
};

/* bias and mask, of T or float, may be null; o may be q where v has at most 256 columns. No workspace. */
template <class T, class M = T>
FXRT_HOST cudaError_t fxrt_cuda_attention(const fxrt_attention_desc *call, const T *q, const T *k, const T *v,
                                          const typename fxrt_cuda_attention_told<M>::type *bias,
                                          const typename fxrt_cuda_attention_told<M>::type *mask, T *o, cudaStream_t stream)
{
    if (call->batch <= 0 || call->heads <= 0 || call->m <= 0 || call->dv <= 0) {
        return cudaSuccess;
    }
    if (call->dv > 256 && static_cast<const T *>(o) == q) {
        return cudaErrorNotSupported; /* blocks that do other columns read q again */
    }
    const fxrt_attention_desc groups = fxrt_cuda_attention_groups(call), *const d = &groups;
#define FXRT_CUDA_ATTENTION_OF(C)                                                                                                          \
    (d->m <= 16 ? fxrt_cuda_attention_launch<T, M, 1, C>(d, q, k, v, bias, mask, o, stream)                                                   \
                : fxrt_cuda_attention_launch<T, M, 4, C>(d, q, k, v, bias, mask, o, stream))
    return d->dv <= 32    ? FXRT_CUDA_ATTENTION_OF(1)
           : d->dv <= 64  ? FXRT_CUDA_ATTENTION_OF(2)
           : d->dv <= 128 ? FXRT_CUDA_ATTENTION_OF(4)
                          : FXRT_CUDA_ATTENTION_OF(8);
#undef FXRT_CUDA_ATTENTION_OF
}
