/* cuBLAS and cuBLASLt: every transpose, order, type, batch and epilogue against a plain loop, and what they refuse.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define CHECK_BLAS(call) check_blas(call, CUBLAS_STATUS_SUCCESS, #call, __FILE__, __LINE__)
static void check_blas(cublasStatus_t got, cublasStatus_t want, const char *what, const char *file, int line) {
    if (got != want) {
        fprintf(stderr, "%s:%d: %s gives %s, not %s\n", file, line, what, cublasGetStatusName(got), cublasGetStatusName(want));
        exit(1);
    }
}

static void test_sgemm() {
    const int m = 7, n = 5, k = 9, batches = 3, lda = 12, ldb = 11, ldc = 10; /* larger than any side */
    const std::vector<float> a = numbers(lda * lda * batches, 1), b = numbers(ldb * ldb * batches, 2), c = numbers(ldc * n * batches, 3);
    buffer<float> da(a), db(b);
    cublasHandle_t handle;
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_BLAS(cublasCreate(&handle));
    CHECK_BLAS(cublasSetStream(handle, stream));
    const float alpha = 2.0f;
    for (int which = 0; which < 8; which++) {
        const bool ta = which & 1, tb = which & 2;
        const float beta = which & 4 ? 0.5f : 0.0f;
        buffer<float> dc(c);
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK_BLAS(cublasSgemmStridedBatched(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha, da.at,
                                             lda, lda * lda, db.at, ldb, ldb * ldb, &beta, dc.at, ldc, ldc * n, batches));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        const std::vector<float> got = dc.get();
        for (int l = 0; l < batches; l++) {
            for (int j = 0; j < n; j++) {
                for (int i = 0; i < ldc; i++) {
                    float sum = 0.0f;
                    for (int p = 0; i < m && p < k; p++) {
                        sum += a[static_cast<size_t>(l * lda * lda + (ta ? p + i * lda : i + p * lda))] *
                               b[static_cast<size_t>(l * ldb * ldb + (tb ? j + p * ldb : p + j * ldb))];
                    }
                    const float before = c[static_cast<size_t>(l * ldc * n + j * ldc + i)];
                    CHECK(got[static_cast<size_t>(l * ldc * n + j * ldc + i)] == (i < m ? alpha * sum + beta * before : before));
                }
            }
        }
    }
    CHECK_BLAS(cublasDestroy(handle));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

template <class T> struct type_of;
template <> struct type_of<float> {
    static constexpr cudaDataType value = CUDA_R_32F;
    static float in(float x) { return x; }
    static float out(float x) { return x; }
};
template <> struct type_of<__half> {
    static constexpr cudaDataType value = CUDA_R_16F;
    static __half in(float x) { return __float2half(x); }
    static float out(__half x) { return __half2float(x); }
};
template <> struct type_of<__nv_bfloat16> {
    static constexpr cudaDataType value = CUDA_R_16BF;
    static __nv_bfloat16 in(float x) { return __float2bfloat16(x); }
    static float out(__nv_bfloat16 x) { return __bfloat162float(x); }
};

/* A layer as it is emitted: rows of x times rows of w, so that D in columns is the output in rows; bias and activation as the epilogue. */
struct layer {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    size_t workspace;

    layer(cudaDataType type, int rows, int in, int out, cublasLtEpilogue_t epilogue, size_t workspace_bytes) : workspace(workspace_bytes) {
        CHECK_BLAS(cublasLtCreate(&handle));
        CHECK_BLAS(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        const int32_t transposed = CUBLAS_OP_T;
        CHECK_BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
        CHECK_BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
        CHECK_BLAS(cublasLtMatrixLayoutCreate(&w, type, static_cast<uint64_t>(in), static_cast<uint64_t>(out), in));
        CHECK_BLAS(cublasLtMatrixLayoutCreate(&x, type, static_cast<uint64_t>(in), static_cast<uint64_t>(rows), in));
        CHECK_BLAS(cublasLtMatrixLayoutCreate(&y, type, static_cast<uint64_t>(out), static_cast<uint64_t>(rows), out));
        CHECK_BLAS(cublasLtMatmulPreferenceCreate(&preference));
        CHECK_BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
        int found = 0;
        CHECK_BLAS(cublasLtMatmulAlgoGetHeuristic(handle, desc, w, x, y, y, preference, 1, &result, &found));
        CHECK(found == 1);
    }
    layer(const layer &) = delete;
    layer &operator=(const layer &) = delete;
    ~layer() {
        CHECK_BLAS(cublasLtMatmulPreferenceDestroy(preference));
        CHECK_BLAS(cublasLtMatrixLayoutDestroy(w));
        CHECK_BLAS(cublasLtMatrixLayoutDestroy(x));
        CHECK_BLAS(cublasLtMatrixLayoutDestroy(y));
        CHECK_BLAS(cublasLtMatmulDescDestroy(desc));
        CHECK_BLAS(cublasLtDestroy(handle));
    }
    cublasStatus_t run(const void *wp, const void *xp, void *yp, const void *bias, void *scratch, size_t scratch_bytes) {
        const float one = 1.0f, zero = 0.0f;
        if (bias) {
            CHECK_BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
        }
        return cublasLtMatmul(handle, desc, &one, wp, w, xp, x, &zero, yp, y, yp, y, &result.algo, scratch, scratch_bytes, nullptr);
    }
};

template <class T> static void test_layers() {
    const int rows = 6, in = 16, out = 8;
    const std::vector<float> w = numbers(out * in, 4), x = numbers(rows * in, 5), bias = numbers(out, 6);
    std::vector<T> tw, tx, tbias;
    for (float v : w) {
        tw.push_back(type_of<T>::in(v));
    }
    for (float v : x) {
        tx.push_back(type_of<T>::in(v));
    }
    for (float v : bias) {
        tbias.push_back(type_of<T>::in(v));
    }
    buffer<T> dw(tw), dx(tx), dbias(tbias), dy(rows * out);
    buffer<char> scratch(1 << 20);
    for (cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS,
                                        CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}) {
        layer l(type_of<T>::value, rows, in, out, epilogue, 1 << 20);
        const bool with_bias = epilogue & CUBLASLT_EPILOGUE_BIAS;
        CHECK_BLAS(l.run(dw.at, dx.at, dy.at, with_bias ? dbias.at : nullptr, scratch.at, 1 << 20));
        const std::vector<T> y = dy.get();
        for (int r = 0; r < rows; r++) {
            for (int o = 0; o < out; o++) {
                double sum = with_bias ? static_cast<double>(bias[static_cast<size_t>(o)]) : 0.0;
                for (int i = 0; i < in; i++) {
                    sum += static_cast<double>(x[static_cast<size_t>(r * in + i)]) * static_cast<double>(w[static_cast<size_t>(o * in + i)]);
                }
                if (epilogue & CUBLASLT_EPILOGUE_RELU) {
                    sum = sum > 0.0 ? sum : 0.0;
                } else if (epilogue & CUBLASLT_EPILOGUE_GELU) {
                    sum = 0.5 * sum * (1.0 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
                }
                const double got = static_cast<double>(type_of<T>::out(y[static_cast<size_t>(r * out + o)]));
                const double tolerance = sizeof(T) == 4 ? 1e-5 : type_of<T>::value == CUDA_R_16F ? 1e-3 : 8e-3;
                CHECK(fabs(got - sum) <= tolerance * (1.0 + fabs(sum)));
            }
        }
    }
}

/* Matrices in rows, and batches with an offset. */
static void test_rows() {
    const int m = 4, n = 3, k = 5, batches = 2;
    const std::vector<float> a = numbers(m * k * batches, 7), b = numbers(k * n * batches, 8);
    buffer<float> da(a), db(b), dd(m * n * batches);
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t la, lb, ld;
    CHECK_BLAS(cublasLtCreate(&handle));
    CHECK_BLAS(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK_BLAS(cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, m, k, k));
    CHECK_BLAS(cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, k, n, n));
    CHECK_BLAS(cublasLtMatrixLayoutCreate(&ld, CUDA_R_32F, m, n, n));
    const int64_t offsets[] = {m * k, k * n, m * n};
    const cublasLtMatrixLayout_t all[] = {la, lb, ld};
    for (int i = 0; i < 3; i++) {
        const int32_t order = CUBLASLT_ORDER_ROW, many = batches;
        CHECK_BLAS(cublasLtMatrixLayoutSetAttribute(all[i], CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
        CHECK_BLAS(cublasLtMatrixLayoutSetAttribute(all[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &many, sizeof many));
        CHECK_BLAS(cublasLtMatrixLayoutSetAttribute(all[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offsets[i], sizeof offsets[i]));
    }
    const float one = 1.0f, zero = 0.0f;
    CHECK_BLAS(cublasLtMatmul(handle, desc, &one, da.at, la, db.at, lb, &zero, dd.at, ld, dd.at, ld, nullptr, nullptr, 0, nullptr));
    const std::vector<float> d = dd.get();
    for (int l = 0; l < batches; l++) {
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < n; j++) {
                float sum = 0.0f;
                for (int p = 0; p < k; p++) {
                    sum += a[static_cast<size_t>(l * m * k + i * k + p)] * b[static_cast<size_t>(l * k * n + p * n + j)];
                }
                CHECK(d[static_cast<size_t>(l * m * n + i * n + j)] == sum);
            }
        }
    }
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(la));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(lb));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(ld));
    CHECK_BLAS(cublasLtMatmulDescDestroy(desc));
    CHECK_BLAS(cublasLtDestroy(handle));
}

#ifdef FXCU_HOST
#define EXPECT(call, want, part)                                                                                                               \
    (check_blas(call, want, #call, __FILE__, __LINE__), CHECK(strstr(fxcu_message(), part) != nullptr), printf("%s\n", fxcu_message()))
static void test_refusals() {
    fxcu_reset();
    fxcu_quiet(1);
    const int rows = 6, in = 16, out = 8;
    float *w, *x, *y, *scratch, host[4] = {};
    for (float **p : {&w, &x, &y, &scratch}) {
        CHECK_CUDA(cudaMalloc(p, 1 << 20));
    }
    {
        layer l(CUDA_R_32F, rows, in, out, CUBLASLT_EPILOGUE_BIAS, 1 << 20);
        EXPECT(l.run(host, x, y, w, scratch, 1 << 20), CUBLAS_STATUS_INVALID_VALUE, "cublasLtMatmul: A is");
        EXPECT(l.run(w, x, y, host, scratch, 1 << 20), CUBLAS_STATUS_INVALID_VALUE, "the bias is 0x");
        EXPECT(l.run(w, x + 1, y, w, scratch, 1 << 20), CUBLAS_STATUS_INVALID_VALUE, "B is 0x");
        EXPECT(l.run(w, x, y, w, scratch, 100), CUBLAS_STATUS_INVALID_VALUE, "100 bytes of workspace, where the algorithm takes 65536");
        EXPECT(l.run(w, x, y + (1 << 18) - 64, w, scratch, 1 << 20), CUBLAS_STATUS_SUCCESS, "");
        const cublasLtEpilogue_t other = CUBLASLT_EPILOGUE_RELU_BIAS;
        CHECK_BLAS(cublasLtMatmulDescSetAttribute(l.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &other, sizeof other));
        EXPECT(l.run(w, x, y, w, scratch, 1 << 20), CUBLAS_STATUS_INVALID_VALUE, "the algorithm was chosen for another product");
        EXPECT(cublasLtMatmulDescSetAttribute(l.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &other, 1), CUBLAS_STATUS_INVALID_VALUE, "1 bytes at");
    }
    {
        layer l(CUDA_R_32F, rows, in, out, CUBLASLT_EPILOGUE_DEFAULT, 0);
        CHECK(l.result.workspaceSize == 0); /* none was allowed */
        int found;
        cublasLtMatrixLayout_t mixed;
        CHECK_BLAS(cublasLtMatrixLayoutCreate(&mixed, CUDA_R_16F, in, out, in));
        EXPECT(cublasLtMatmulAlgoGetHeuristic(l.handle, l.desc, mixed, l.x, l.y, l.y, l.preference, 1, &l.result, &found),
               CUBLAS_STATUS_NOT_SUPPORTED, "types 2 x 0");
        EXPECT(cublasLtMatmulAlgoGetHeuristic(l.handle, l.desc, l.w, l.w, l.y, l.y, l.preference, 1, &l.result, &found),
               CUBLAS_STATUS_INVALID_VALUE, "(8 x 16) (16 x 8) + (8 x 6)");
        CHECK_BLAS(cublasLtMatrixLayoutDestroy(mixed));
    }
    cublasHandle_t handle;
    const float one = 1.0f, zero = 0.0f;
    CHECK_BLAS(cublasCreate(&handle));
    EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, w, 3, x, 4, &zero, y, 4), CUBLAS_STATUS_INVALID_VALUE,
           "leading dimensions 3, 4, 4 are too small");
    EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, w, 4, x, 4, &zero, host, 4), CUBLAS_STATUS_INVALID_VALUE,
           "cublasSgemm: D is 0x");
    EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, nullptr, w, 4, x, 4, &zero, y, 4), CUBLAS_STATUS_INVALID_VALUE,
           "alpha at (nil)");
    EXPECT(cublasSgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, w, 4, x, 4, &zero, y, 4), CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
    EXPECT(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, w, CUDA_R_32F, 4, x, CUDA_R_16F, 4, &zero, y, CUDA_R_32F, 4,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
           CUBLAS_STATUS_NOT_SUPPORTED, "types 0 x 2 + 0 to 0");
    /* TF32 only where it is asked for: 1 + 2^-12 loses its last bit. */
    const float fine = 1.0f + 0x1p-12f;
    float got[2];
    CHECK_CUDA(cudaMemcpy(w, &fine, sizeof fine, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(x, &one, sizeof one, cudaMemcpyHostToDevice));
    for (int tf32 = 0; tf32 < 2; tf32++) {
        CHECK_BLAS(cublasSetMathMode(handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
        CHECK_BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, w, 1, x, 1, &zero, y, 1));
        CHECK_CUDA(cudaMemcpy(&got[tf32], y, sizeof(float), cudaMemcpyDeviceToHost));
    }
    CHECK(got[0] == fine && got[1] == 1.0f);
    CHECK(fxcu_alive() == 5); /* four buffers and the handle */
    CHECK_BLAS(cublasDestroy(handle));
    fxcu_quiet(0);
    fxcu_reset();
}
#endif

int main() {
    each_schedule("products", test_sgemm);
    each_schedule("layers of float", test_layers<float>);
    each_schedule("layers of half", test_layers<__half>);
    each_schedule("layers of bfloat16", test_layers<__nv_bfloat16>);
    each_schedule("matrices in rows", test_rows);
#ifdef FXCU_HOST
    test_refusals();
#endif
    return 0;
}
