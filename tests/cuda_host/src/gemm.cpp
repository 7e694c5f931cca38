/* The arithmetic of products: operands to float (double for 64-bit ones) in columns, sums there, then scale, bias, tail and rounding.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "blas.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#ifdef FXCU_OPENBLAS
#include <cblas.h>
#endif

namespace fxcu {

template <class Real> static Real load(const void *at, cudaDataType type, int64_t i) {
    switch (type) {
    case CUDA_R_64F:
        return static_cast<Real>(static_cast<const double *>(at)[i]);
    case CUDA_R_16F:
        return from_f16(static_cast<const uint16_t *>(at)[i]);
    case CUDA_R_16BF:
        return from_bf16(static_cast<const uint16_t *>(at)[i]);
    default:
        return static_cast<Real>(static_cast<const float *>(at)[i]);
    }
}
static void store(void *at, cudaDataType type, int64_t i, double value) {
    switch (type) {
    case CUDA_R_64F:
        static_cast<double *>(at)[i] = value;
        break;
    case CUDA_R_16F:
        static_cast<uint16_t *>(at)[i] = to_f16(static_cast<float>(value));
        break;
    case CUDA_R_16BF:
        static_cast<uint16_t *>(at)[i] = to_bf16(static_cast<float>(value));
        break;
    default:
        static_cast<float *>(at)[i] = static_cast<float>(value);
    }
}

/* TF32 keeps 10 bits of the fraction: an accidental use shows in the result here, too. */
static float to_tf32(float value) {
    const uint32_t bits = same_bits<uint32_t>(value);
    return value != value || (bits & 0x7f800000) == 0x7f800000 ? value : same_bits<float>((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}

template <class Real> static std::vector<Real> in_columns(const matrix &m, int64_t batch, cublasComputeType_t compute) {
    std::vector<Real> to(static_cast<size_t>(m.rows * m.columns));
    for (int64_t j = 0; j < m.columns; j++) {
        for (int64_t i = 0; i < m.rows; i++) {
            Real value = load<Real>(m.at, m.type, i * m.row + j * m.column + batch * m.batch);
            if (compute == CUBLAS_COMPUTE_32F_FAST_TF32 && m.type == CUDA_R_32F) {
                value = to_tf32(static_cast<float>(value));
            } else if (compute == CUBLAS_COMPUTE_32F_FAST_16F) {
                value = from_f16(to_f16(static_cast<float>(value)));
            } else if (compute == CUBLAS_COMPUTE_32F_FAST_16BF) {
                value = from_bf16(to_bf16(static_cast<float>(value)));
            }
            to[static_cast<size_t>(j * m.rows + i)] = value;
        }
    }
    return to;
}

/* sum += a b, all in columns. */
template <class Real> static void multiply(const Real *a, const Real *b, Real *__restrict sum, int64_t m, int64_t n, int64_t k) {
#ifdef FXCU_OPENBLAS
    const int lda = static_cast<int>(m), ldb = static_cast<int>(k);
    if constexpr (sizeof(Real) == 4) {
        cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, lda, static_cast<int>(n), ldb, 1.0f, a, lda, b, ldb, 1.0f, sum, lda);
    } else {
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, lda, static_cast<int>(n), ldb, 1.0, a, lda, b, ldb, 1.0, sum, lda);
    }
#else
    constexpr int64_t panel = 256; /* of a that stays in the cache for all columns */
    for (int64_t top = 0; top < m; top += panel) {
        const int64_t rows = m - top < panel ? m - top : panel;
        for (int64_t j = 0; j < n; j++) {
            Real *column = sum + j * m + top;
            int64_t l = 0;
            for (; l + 4 <= k; l += 4) {
                const Real *from = a + l * m + top, b0 = b[j * k + l], b1 = b[j * k + l + 1], b2 = b[j * k + l + 2], b3 = b[j * k + l + 3];
                for (int64_t i = 0; i < rows; i++) {
                    column[i] += from[i] * b0 + from[m + i] * b1 + from[2 * m + i] * b2 + from[3 * m + i] * b3;
                }
            }
            for (; l < k; l++) {
                for (int64_t i = 0; i < rows; i++) {
                    column[i] += a[l * m + top + i] * b[j * k + l];
                }
            }
        }
    }
#endif
}

template <class Real> static void compute_as(const product &p) {
    const int64_t m = p.d.rows, n = p.d.columns, k = p.a.columns;
    for (int64_t batch = 0; batch < p.batches; batch++) {
        const std::vector<Real> a = in_columns<Real>(p.a, batch, p.compute), b = in_columns<Real>(p.b, batch, p.compute);
        std::vector<Real> sum(static_cast<size_t>(m * n));
        multiply(a.data(), b.data(), sum.data(), m, n, k);
        for (int64_t j = 0; j < n; j++) {
            for (int64_t i = 0; i < m; i++) {
                Real value = static_cast<Real>(p.alpha) * sum[static_cast<size_t>(j * m + i)];
                if (p.beta != 0.0) { /* otherwise c is not read */
                    value += static_cast<Real>(p.beta) * load<Real>(p.c.at, p.c.type, i * p.c.row + j * p.c.column + batch * p.c.batch);
                }
                if (p.bias) {
                    value += load<Real>(p.bias, p.bias_type, i);
                }
                if (p.tail == product::relu) {
                    value = value > 0 ? value : value != value ? value : 0;
                } else if (p.tail == product::gelu) { /* by tanh, as cuBLASLt's */
                    const double x = static_cast<double>(value);
                    value = static_cast<Real>(0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
                }
                store(const_cast<void *>(p.d.at), p.d.type, i * p.d.row + j * p.d.column + batch * p.d.batch, static_cast<double>(value));
            }
        }
    }
}

void compute_product(const product &p) {
    if (p.workspace) {
        memset(p.workspace, 0xff, p.workspace_bytes);
    }
    if (p.d.type == CUDA_R_64F) {
        compute_as<double>(p);
    } else {
        compute_as<float>(p);
    }
    counts.gemms++;
}

} // namespace fxcu
