/* runtime/cuda/attention.h against sums in double, over the random descriptors of the CPU kernels' test: three types, head dims up to 300, grouped
 * heads, in place, masks that hide all, special values; each barrier taken away in turn.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "cuda_values.h"

#ifdef FXCU_HOST
#define __syncthreads() barrier(__FILE__, __LINE__)
#endif
#include "../../runtime/cuda/reduce.h"
#include "../../runtime/cuda/gemm_tile.h"
#include "../../runtime/cuda/attention.h"
#ifdef FXCU_HOST
#undef __syncthreads
#endif

/* A matrix [b][h][rows][cols] in one of the orders models leave it in: b h r c, b r h c (heads split off a row), or with gaps. */
struct matrix {
    int32_t b, h, r;
    size_t size;
};

static matrix draw_matrix(int batch, int heads, int rows, int cols) {
    const int gap = random_int(0, 1) ? random_int(0, 5) : 0;
    matrix m;
    if (random_int(0, 1)) {
        m.r = cols + gap;
        m.h = m.r * rows + random_int(0, 3);
        m.b = m.h * heads;
    } else {
        m.h = cols + gap;
        m.r = m.h * heads + random_int(0, 3);
        m.b = m.r * rows;
    }
    m.size = rows > 0 && cols > 0 ? static_cast<size_t>((batch - 1) * m.b + (heads - 1) * m.h + (rows - 1) * m.r + cols) : 0;
    return m;
}

template <class T> static std::vector<T> fill_matrix(const matrix &m, int batch, int heads, int rows, int cols, float scale) {
    std::vector<T> to = nothing<T>(m.size);
    for (int b = 0; b < batch; b++) {
        for (int h = 0; h < heads; h++) {
            for (int r = 0; r < rows; r++) {
                for (int c = 0; c < cols; c++) {
                    to[static_cast<size_t>(b * m.b + h * m.h + r * m.r + c)] = static_cast<T>(random_float() * scale);
                }
            }
        }
    }
    return to;
}

/* Half of the time at most 9, else up to `most`; now and then a size at which tiles end. */
static int draw_size(int most) {
    static const int edges[] = {1, 16, 17, 32, 33, 48, 64, 65, 96, 97, 128, 129};
    if (random_int(0, 3) == 0) {
        const int e = edges[random_int(0, static_cast<int>(sizeof edges / sizeof *edges) - 1)];
        return e <= most ? e : most;
    }
    return random_int(0, 1) ? random_int(1, 9) : random_int(1, most);
}

/* M: bias and mask. */
template <class T, class M = T> struct problem {
    fxrt_attention_desc d;
    std::vector<T> q, k, v;
    std::vector<M> bias, mask;
    matrix out;
    bool has_bias, has_mask, in_place;
};

/* Each under 7 + 7 schedules; told of each access, they run a hundred times longer. */
#ifdef FXCU_RACES
constexpr int cases = 2;
#else
constexpr int cases = 10;
#endif

enum { NUMBERS, HIDDEN, LOWEST }; /* what a mask has */

constexpr float lowest = -3.40282346638528859812e38f;

/* In bfloat16 `lowest` is an infinity; in float16 the lowest number stands for it where scores are spelled out. */
template <class M> static M mask_value(int kind) {
    if (kind == NUMBERS) {
        return static_cast<M>(random_float() * 3.0f);
    }
    return static_cast<M>(random_int(0, 2) ? 0.0f : kind == HIDDEN ? -INFINITY : sizeof(M) == 2 ? -65504.0f : lowest);
}

/* What is added to scores: strides of keys, queries, heads and batch, 0 where one number serves all; at times columns are dense. */
template <class T> static std::vector<T> draw_mask(const fxrt_attention_desc &d, bool there, int32_t *const (&stride)[4], int kind) {
    const int32_t count[] = {d.n, d.m, d.heads, d.batch};
    const int turned = random_int(0, 1);
    int32_t at = 1;
    size_t size = there && d.n > 0;
    for (int k = 0; k < 4 && size > 0; k++) {
        const int i = k < 2 && turned ? 1 - k : k;
        *stride[i] = random_int(0, 2) ? at : 0;
        size += static_cast<size_t>((count[i] - 1) * *stride[i]);
        at *= *stride[i] ? count[i] : 1;
    }
    std::vector<T> mask(size);
    for (T &one : mask) {
        one = mask_value<T>(kind);
    }
    return mask;
}

template <class T, class M = T> static problem<T, M> draw(int m, int n, int dk, int dv) {
    problem<T, M> t = {};
    fxrt_attention_desc &d = t.d;
    t.has_bias = random_int(0, 2) == 0;
    t.has_mask = random_int(0, 1);
    d.batch = random_int(1, 2);
    d.kv_heads = random_int(1, 2);
    d.heads = d.kv_heads * random_int(1, 3);
    d.m = m;
    d.n = n;
    d.dk = dk;
    d.dv = dv;
    d.causal = random_int(0, 2) == 0;
    d.zero_empty = random_int(0, 1);
    d.fill = random_int(0, 1);
    d.slots = 1;
    d.scale = random_int(0, 1) ? 1.0f / sqrtf(static_cast<float>(dk) + 1.0f) : sizeof(T) == 4 ? 1.75f : 0.5f;
    const matrix q = draw_matrix(d.batch, d.heads, m, dk), k = draw_matrix(d.batch, d.kv_heads, n, dk), v = draw_matrix(d.batch, d.kv_heads, n, dv);
    t.in_place = dk == dv && random_int(0, 1);
    t.out = t.in_place ? q : draw_matrix(d.batch, d.heads, m, dv);
    d.q_b = q.b, d.q_h = q.h, d.q_m = q.r;
    d.k_b = k.b, d.k_h = k.h, d.k_n = k.r;
    d.v_b = v.b, d.v_h = v.h, d.v_n = v.r;
    d.o_b = t.out.b, d.o_h = t.out.h, d.o_m = t.out.r;
    const float wide = 16.0f / (16.0f + static_cast<float>(dk)); /* long products stay as small as short ones */
    t.q = fill_matrix<T>(q, d.batch, d.heads, m, dk, (random_int(0, 3) ? 2.0f : 8.0f) * wide);
    t.k = fill_matrix<T>(k, d.batch, d.kv_heads, n, dk, 2.0f);
    t.v = fill_matrix<T>(v, d.batch, d.kv_heads, n, dv, 1.0f);
    int32_t *const bias[] = {&d.bias_n, &d.bias_m, &d.bias_h, &d.bias_b}, *const mask[] = {&d.mask_n, &d.mask_m, &d.mask_h, &d.mask_b};
    t.bias = draw_mask<M>(d, t.has_bias, bias, NUMBERS);
    const int kind = random_int(NUMBERS, LOWEST); /* -65504 and scores have few digits in common: which numbers a hidden row has, float's rounding decides */
    t.mask = draw_mask<M>(d, t.has_mask, mask, sizeof(M) == 2 && d.zero_empty && kind == LOWEST ? HIDDEN : kind);
    return t;
}

template <class T> static double at(const std::vector<T> &v, int b, int h, int r, int c) { return number(v[static_cast<size_t>(b + h + r + c)]); }

template <class T, class M> static wanted expect(const problem<T, M> &t) {
    const fxrt_attention_desc &d = t.d;
    wanted want(t.out.size);
    std::vector<double> s(static_cast<size_t>(d.n));
    for (int b = 0; b < d.batch; b++) {
        for (int h = 0; h < d.heads; h++) {
            for (int i = 0; i < d.m; i++) {
                const int g = h / (d.heads / d.kv_heads);
                double max = -INFINITY, sum = 0.0;
                for (int j = 0; j < d.n; j++) {
                    double x = 0.0;
                    for (int p = 0; p < d.dk; p++) {
                        x += at(t.q, b * d.q_b, h * d.q_h, i * d.q_m, p) * at(t.k, b * d.k_b, g * d.k_h, j * d.k_n, p);
                    }
                    x *= static_cast<double>(d.scale);
                    x += t.has_bias ? at(t.bias, b * d.bias_b, h * d.bias_h, i * d.bias_m, j * d.bias_n) : 0.0;
                    if (t.has_mask) {
                        double m = at(t.mask, b * d.mask_b, h * d.mask_h, i * d.mask_m, j * d.mask_n);
                        m = sizeof(M) == 2 && !d.zero_empty && m == -65504.0 ? static_cast<double>(lowest) : m;
                        x = d.fill && m < -1e30 ? m : static_cast<double>(static_cast<float>(x + m));
                    }
                    s[static_cast<size_t>(j)] = d.causal && j > i ? -INFINITY : x;
                    max = fmax(max, s[static_cast<size_t>(j)]);
                }
                const bool empty = isinf(max) && max < 0.0; /* exp(-inf - -inf) is NaN */
                for (double &x : s) {
                    x = exp(x - max);
                    sum += x;
                }
                for (int c = 0; c < d.dv; c++) {
                    double v = 0.0;
                    for (int j = 0; j < d.n; j++) {
                        v += s[static_cast<size_t>(j)] / sum * at(t.v, b * d.v_b, g * d.v_h, j * d.v_n, c);
                    }
                    want.value[static_cast<size_t>(b * t.out.b + h * t.out.h + i * t.out.r + c)] = empty && d.zero_empty ? 0.0 : v;
                }
            }
        }
    }
    return want;
}

template <class T, class M> static bool run(const problem<T, M> &t, bool tell = true) {
    const fxrt_attention_desc &d = t.d;
    const buffer<T> q(t.q), k(t.k), v(t.v), apart(nothing<T>(t.out.size));
    const buffer<M> bias(t.bias), mask(t.mask);
    const buffer<T> &o = t.in_place ? q : apart;
    cudaError_t e = fxrt_cuda_attention<T, M>(&d, q.at, k.at, v.at, t.has_bias ? bias.at : nullptr, t.has_mask ? mask.at : nullptr, o.at, nullptr);
    e = e ? e : cudaDeviceSynchronize();
    char what[240];
    snprintf(what, sizeof what, "%dx%d(%d) %dx%d by %d, %d, causal %d, bias %d, mask %d, zero %d, fill %d, in place %d", d.batch, d.heads, d.kv_heads, d.m, d.n,
             d.dk, d.dv, d.causal, t.has_bias, t.has_mask, d.zero_empty, d.fill, t.in_place);
    if (tell) {
        check_cuda(e, cudaSuccess, what, __FILE__, __LINE__);
    }
    return e == cudaSuccess && expect(t).right(o.get(), sizeof(T) == 4 ? 1e-4 : tolerance_of<T>, tell ? what : nullptr);
}

template <class T, class M = T> static void test_random() {
    for (int i = 0; i < cases; i++) {
        const int n = random_int(0, 20) ? draw_size(140) : 0, dk = random_int(0, 30) ? draw_size(40) : 0;
        CHECK(run(draw<T, M>(draw_size(110), n, dk, random_int(0, 2) ? draw_size(50) : dk ? dk : 1)));
    }
}

/* Each count of columns a thread may have, odd ones, and more than a block does; few queries and many. */
static void test_dims() {
    const int dims[] = {40, 64, 80, 127, 128, 129, 256, 257, 300};
    for (int dim : dims) {
        problem<float> t = draw<float>(random_int(0, 1) ? random_int(1, 16) : 40, 70, dim, dim);
        if (dim > 256 && t.in_place) { /* refused: blocks for other columns read q again */
            const buffer<float> q(t.q);
            CHECK(fxrt_cuda_attention<float>(&t.d, q.at, q.at, q.at, nullptr, nullptr, q.at, nullptr) == cudaErrorNotSupported);
            t.in_place = false;
        }
        CHECK(run(t));
    }
}

/* One query a head, many heads to one of keys. */
static void test_groups() {
    for (int heads : {2, 8, 40}) {
        for (int kv_heads : {1, 2}) {
            problem<float> t = draw<float>(1, 20, 8, 8);
            fxrt_attention_desc &d = t.d;
            d.heads = heads;
            d.kv_heads = kv_heads;
            d.batch = 1;
            d.causal = 0;
            const matrix q = draw_matrix(1, heads, 1, 8), k = draw_matrix(1, kv_heads, 20, 8);
            t.q = fill_matrix<float>(q, 1, heads, 1, 8, 2.0f);
            t.k = fill_matrix<float>(k, 1, kv_heads, 20, 8, 2.0f);
            t.v = fill_matrix<float>(k, 1, kv_heads, 20, 8, 1.0f);
            t.out = q;
            d.q_h = d.o_h = q.h;
            d.q_m = d.o_m = q.r;
            d.k_h = d.v_h = k.h;
            d.k_n = d.v_n = k.r;
            t.has_bias = false;
            t.has_mask = true;
            d.mask_n = 1;
            d.mask_h = 20;
            t.mask = random_values<float>(static_cast<size_t>(heads) * 20, 2.0f);
            CHECK(run(t));
        }
    }
}

static fxrt_attention_desc small(int m, int n, int dim) {
    fxrt_attention_desc d = {};
    d.batch = d.heads = d.kv_heads = d.slots = 1;
    d.m = m;
    d.n = n;
    d.dk = d.dv = d.q_m = d.k_n = d.v_n = d.o_m = dim;
    d.scale = 1.0f;
    return d;
}

/* With `fill` a masked score does not matter, whatever it is. */
static void test_fill() {
    enum { M = 5, N = 70, D = 3 };
    for (int per_query = 0; per_query < 2; per_query++) {
        fxrt_attention_desc d = small(M, N, D);
        d.mask_n = 1;
        d.mask_m = per_query ? N : 0;
        d.fill = 1;
        std::vector<float> k = random_values<float>(N * D, 1.0f), hide(per_query ? M * N : N);
        for (size_t i = 7; i < hide.size(); i += N) {
            hide[i] = -INFINITY;
        }
        k[7 * D] = NAN;
        const buffer<float> q(random_values<float>(M * D, 1.0f)), dk(k), v(random_values<float>(N * D, 1.0f)), mask(hide), o(M * D);
        CHECK_CUDA(fxrt_cuda_attention<float>(&d, q.at, dk.at, v.at, nullptr, mask.at, o.at, nullptr));
        for (float x : o.get()) {
            CHECK(fabsf(x) <= 1.0f);
        }
    }
}

/* NaN and infinities of scores and values go where eager has them: into the whole row of the query. */
static void test_special() {
    enum { M = 20, N = 70, D = 3 };
    const fxrt_attention_desc d = small(M, N, D);
    for (int round = 0; round < 2; round++) {
        std::vector<float> q = random_values<float>(M * D, 1.0f), v = random_values<float>(N * D, 1.0f);
        q[2 * D] = round ? NAN : INFINITY;                              /* its scores: NaN, or both infinities */
        v[static_cast<size_t>(random_int(0, N - 1) * D + 1)] = NAN; /* the second column of all results */
        const buffer<float> dq(q), k(random_values<float>(N * D, 1.0f)), dv(v), o(M * D);
        CHECK_CUDA(fxrt_cuda_attention<float>(&d, dq.at, k.at, dv.at, nullptr, nullptr, o.at, nullptr));
        const std::vector<float> got = o.get();
        for (size_t i = 0; i < M; i++) {
            for (size_t c = 0; c < D; c++) {
                CHECK(!isnan(got[i * D + c]) == (i != 2 && c != 1));
            }
        }
    }
}

int main() {
    each_schedule("attention of float", test_random<float>);
    each_schedule("attention of half", test_random<__half>);
    each_schedule("attention of bfloat16", test_random<__nv_bfloat16>);
    each_schedule("attention of half, masks of float", test_random<__half, float>);
    each_schedule("attention of bfloat16, masks of float", test_random<__nv_bfloat16, float>);
    each_schedule("head dims", test_dims);
    each_schedule("grouped heads", test_groups);
    each_schedule("fill", test_fill);
    each_schedule("special values", test_special);
#ifdef FXCU_HOST
    each_barrier_missing("attention", 4, [] {
        problem<float> t = draw<float>(20, 130, 40, 64); /* several tiles of keys, several stages of each product */
        t.d.causal = 0;
        return run(t, !missing_barrier.file);
    });
#endif
    return 0;
}
