/* gemm.h: products of matrices by cuBLASLt, y = act(x w + b + r) as fxrt_gemm_desc has them; w is a plain matrix, whatever its strides.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * cuBLASLt thinks in columns, so y^T = w^T x^T is what it is asked for: the features of a row of y are then the rows of its result, along which
 * its epilogues add a bias. What it may do in one call depends on the shape; a plan says what that is, and what is left for a kernel:
 *   1. the product, bias and act (none, relu, tanh-gelu) in the epilogue, the residual as the matrix C that is added;
 *   2. the product with the residual as C, and the rest (bias, another act, a residual whose rows overlap) by fxrt_cuda_gemm_tail;
 *   3. where it has no answer (strides that are no leading dimension, a type or an alignment it does not know), and for short sums of floats that end in
 *      an act that is no epilogue: fxrt_cuda_gemm_tile does all.
 * Plans are made when the program starts (calls while `planning`) and lie in a table; run finds them there. Only a shape that nobody planned is
 * planned while running. Nothing is allocated on the device, ever; the workspace is the caller's. */

/* ---- the kernels of our own --------------------------------------------------------------------------------------- */

/* A block makes 16 R rows by 64 columns of one matrix of the batch, sums and tail in float. */
template <class T, int R>
static __global__ void __launch_bounds__(FXRT_CUDA_TILE_THREADS, 3) /* ptxas spills a little on sm_90 where it may choose */
    fxrt_cuda_gemm_tile(fxrt_gemm_desc d, const T *x, const T *w, const T *b, const T *r, T *y)
{
    __shared__ fxrt_cuda_tile_stage<R> stage;
    const unsigned across = static_cast<unsigned>((d.n + FXRT_CUDA_TILE_COLS - 1) / FXRT_CUDA_TILE_COLS),
                   down = static_cast<unsigned>((d.m + 16 * R - 1) / (16 * R));
    const int column = static_cast<int>(blockIdx.x % across) * FXRT_CUDA_TILE_COLS,
              row = static_cast<int>(blockIdx.x / across % down) * 16 * R;
    const ptrdiff_t batch = blockIdx.x / across / down;
    const fxrt_cuda_tile_side<T> rows = {fxrt_cuda_tile_at(x, batch * d.x_b + static_cast<ptrdiff_t>(row) * d.x_m), d.x_m, 1, d.m - row};
    const fxrt_cuda_tile_side<T> columns = {fxrt_cuda_tile_at(w, batch * d.w_b + static_cast<ptrdiff_t>(column) * d.w_n), d.w_n, d.w_k,
                                            d.n - column};
    float acc[R][4] = {};
    fxrt_cuda_tile_product(stage, rows, columns, d.k, acc);
    FXRT_UNROLL
    for (int i = 0; i < R; i++) {
        const int at = row + fxrt_cuda_tile_row(R) + i;
        if (at < d.m) {
            FXRT_UNROLL
            for (int j = 0; j < 4; j++) {
                const int to = column + fxrt_cuda_tile_column(j);
                if (to < d.n) {
                    acc[i][j] += b ? static_cast<float>(b[to]) : 0.0f;
                    acc[i][j] += r ? static_cast<float>(r[batch * d.r_b + static_cast<ptrdiff_t>(at) * d.r_m + to]) : 0.0f;
                }
            }
            fxrt_cuda_act(acc[i], d.act, d.act_a, d.act_b);
            FXRT_UNROLL
            for (int j = 0; j < 4; j++) {
                const int to = column + fxrt_cuda_tile_column(j);
                if (to < d.n) {
                    y[batch * d.y_b + static_cast<ptrdiff_t>(at) * d.y_m + to] = static_cast<T>(acc[i][j]);
                }
            }
        }
    }
}

enum { FXRT_CUDA_TAIL_ROWS = 4, FXRT_CUDA_TAIL_COLS = 64 }; /* of threads; each has 4 columns of a row */

/* y = act(y + b + r), where the product already lies in y. */
template <class T>
static __global__ void __launch_bounds__(FXRT_CUDA_TAIL_ROWS *FXRT_CUDA_TAIL_COLS)
    fxrt_cuda_gemm_tail(fxrt_gemm_desc d, const T *b, const T *r, T *y)
{
    const int column = static_cast<int>(blockIdx.x) * 4 * FXRT_CUDA_TAIL_COLS + static_cast<int>(threadIdx.x);
    const ptrdiff_t rows = static_cast<ptrdiff_t>(d.batch) * d.m;
    for (ptrdiff_t row = static_cast<ptrdiff_t>(blockIdx.y) * FXRT_CUDA_TAIL_ROWS + threadIdx.y; row < rows;
         row += static_cast<ptrdiff_t>(gridDim.y) * FXRT_CUDA_TAIL_ROWS) {
        T *const to = y + (row / d.m * d.y_b + row % d.m * d.y_m);
        const T *const from = fxrt_cuda_tile_at(r, row / d.m * d.r_b + row % d.m * d.r_m);
        float v[4] = {};
        FXRT_UNROLL
        for (int j = 0; j < 4; j++) {
            const int at = column + j * FXRT_CUDA_TAIL_COLS;
            if (at < d.n) {
                v[j] = static_cast<float>(to[at]) + (b ? static_cast<float>(b[at]) : 0.0f) + (from ? static_cast<float>(from[at]) : 0.0f);
            }
        }
        fxrt_cuda_act(v, d.act, d.act_a, d.act_b);
        FXRT_UNROLL
        for (int j = 0; j < 4; j++) {
            if (column + j * FXRT_CUDA_TAIL_COLS < d.n) {
                to[column + j * FXRT_CUDA_TAIL_COLS] = static_cast<T>(v[j]);
            }
        }
    }
}

#ifndef __CUDACC_RTC__ /* the rest is the host's */

/* ---- plans -------------------------------------------------------------------------------------------------------- */

#ifndef FXRT_CUDA_GEMM_PLANS
#define FXRT_CUDA_GEMM_PLANS 64 /* emitted files say how many they need */
#endif

/* What a plan is for. Compared as bytes: all fields have 4, and there are no gaps. */
typedef struct fxrt_cuda_gemm_key {
    fxrt_gemm_desc d;
    int32_t type;                               /* cudaDataType */
    int32_t bias, residual;                     /* whether they are there */
    int32_t align_x, align_w, align_r, align_y; /* of the pointers, in bytes, at most 16 */
} fxrt_cuda_gemm_key;

typedef struct fxrt_cuda_gemm_plan {
    fxrt_cuda_gemm_key key;
    int32_t used, tile;                     /* tile: no cuBLASLt, one kernel does all */
    int32_t tail, tail_bias, tail_residual; /* a kernel after cuBLASLt, and what it adds */
    int32_t add;                            /* the residual is C */
    fxrt_gemm_desc d;                       /* with the batch folded into the rows where that is the same */
    cublasLtMatmulDescOpaque_t op;
    cublasLtMatrixLayoutOpaque_t w, x, r, y;
    cublasLtMatmulAlgo_t algo;
} fxrt_cuda_gemm_plan;

/* One for each instance of a program. */
typedef struct fxrt_cuda_products {
    cublasLtHandle_t lt;
    size_t workspace; /* bytes that run may use */
    int tf32;         /* float32 may be rounded to TF32 */
    int planning;     /* calls plan, and start nothing */
    unsigned evicted; /* plans that had to go for others */
    fxrt_cuda_gemm_plan plans[FXRT_CUDA_GEMM_PLANS];
} fxrt_cuda_products;

/* cuBLAS's status as the CUDA error that says the same. */
FXRT_HOST cudaError_t fxrt_cuda_blas_error(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return cudaSuccess;
    case CUBLAS_STATUS_NOT_INITIALIZED: return cudaErrorInitializationError;
    case CUBLAS_STATUS_ALLOC_FAILED: return cudaErrorMemoryAllocation;
    case CUBLAS_STATUS_INVALID_VALUE: return cudaErrorInvalidValue;
    case CUBLAS_STATUS_ARCH_MISMATCH: return cudaErrorNoKernelImageForDevice;
    case CUBLAS_STATUS_EXECUTION_FAILED: return cudaErrorLaunchFailure;
    case CUBLAS_STATUS_NOT_SUPPORTED: return cudaErrorNotSupported;
    default: return cudaErrorUnknown;
    }
}

FXRT_HOST cudaError_t fxrt_cuda_products_create(fxrt_cuda_products *p, size_t workspace, int tf32)
{
    memset(p, 0, sizeof *p);
    p->workspace = workspace;
    p->tf32 = tf32;
    return fxrt_cuda_blas_error(cublasLtCreate(&p->lt));
}

FXRT_HOST cudaError_t fxrt_cuda_products_destroy(fxrt_cuda_products *p)
{
    const cudaError_t e = p->lt ? fxrt_cuda_blas_error(cublasLtDestroy(p->lt)) : cudaSuccess;
    p->lt = nullptr;
    return e;
}

FXRT_HOST int32_t fxrt_cuda_gemm_type(const float *) { return CUDA_R_32F; }
FXRT_HOST int32_t fxrt_cuda_gemm_type(const __half *) { return CUDA_R_16F; }
FXRT_HOST int32_t fxrt_cuda_gemm_type(const __nv_bfloat16 *) { return CUDA_R_16BF; }

FXRT_HOST int32_t fxrt_cuda_gemm_align(const void *at)
{
    const size_t address = reinterpret_cast<size_t>(at) | 16;
    return static_cast<int32_t>(address & (~address + 1));
}

/* Matrices that follow each other without a gap are one with more rows: every product with constant weights. */
FXRT_HOST fxrt_gemm_desc fxrt_cuda_gemm_fold(const fxrt_cuda_gemm_key *k)
{
    fxrt_gemm_desc d = k->d;
    const long long m = d.m, all = m * d.batch;
    if (d.batch > 1 && m == 1) { /* a row a matrix: how far its rows lie apart says nothing */
        d.x_m = d.x_b;
        d.y_m = d.y_b;
        d.r_m = d.r_b;
    }
    if (d.batch > 1 && d.w_b == 0 && d.x_b == m * d.x_m && d.y_b == m * d.y_m && (!k->residual || d.r_b == m * d.r_m) && all <= INT32_MAX) {
        d.m = static_cast<int32_t>(all);
        d.batch = 1;
    }
    return d;
}

/* A matrix of `columns` columns, ld apart, and its place in the batch. */
FXRT_HOST cublasStatus_t fxrt_cuda_gemm_layout(cublasLtMatrixLayoutOpaque_t *to, int32_t type, int32_t rows, int32_t columns, int64_t ld,
                                               int32_t batch, int64_t offset)
{
    cublasStatus_t s =
        cublasLtMatrixLayoutInit(to, static_cast<cudaDataType>(type), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), ld);
    if (s == CUBLAS_STATUS_SUCCESS && batch > 1) {
        s = cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
        if (s == CUBLAS_STATUS_SUCCESS) {
            s = cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof offset);
        }
    }
    return s;
}

/* Whether rows of a matrix, `stride` apart, can be cuBLAS's columns; *ld is then their leading dimension. One row may have any stride. */
FXRT_HOST bool fxrt_cuda_gemm_ld(int32_t dense, int32_t rows, int32_t stride, int64_t *ld)
{
    *ld = rows > 1 ? stride : dense;
    return *ld >= dense;
}

/* Asks the heuristic for one way of doing it, with these parts of the tail as epilogue. False: it has none. */
FXRT_HOST bool fxrt_cuda_gemm_ask(const fxrt_cuda_products *p, fxrt_cuda_gemm_plan *plan, int32_t transposed, const int64_t *ld,
                                  uint32_t epilogue)
{
    const fxrt_gemm_desc *const d = &plan->d;
    const int32_t type = plan->key.type, op_w = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasComputeType_t compute = type == CUDA_R_32F && p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const uint32_t aligned[] = {static_cast<uint32_t>(plan->key.align_w), static_cast<uint32_t>(plan->key.align_x),
                                static_cast<uint32_t>(plan->add ? plan->key.align_r : plan->key.align_y),
                                static_cast<uint32_t>(plan->key.align_y)};
    const cublasLtMatmulPreferenceAttributes_t names[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulPreferenceOpaque_t wish;
    cublasLtMatmulHeuristicResult_t answer;
    int found = 0;
    bool ok =
        cublasLtMatmulDescInit(&plan->op, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulDescSetAttribute(&plan->op, CUBLASLT_MATMUL_DESC_TRANSA, &op_w, sizeof op_w) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulDescSetAttribute(&plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) == CUBLAS_STATUS_SUCCESS &&
        fxrt_cuda_gemm_layout(&plan->w, type, transposed ? d->k : d->n, transposed ? d->n : d->k, ld[0], d->batch, d->w_b) ==
            CUBLAS_STATUS_SUCCESS &&
        fxrt_cuda_gemm_layout(&plan->x, type, d->k, d->m, ld[1], d->batch, d->x_b) == CUBLAS_STATUS_SUCCESS &&
        fxrt_cuda_gemm_layout(&plan->y, type, d->n, d->m, ld[2], d->batch, d->y_b) == CUBLAS_STATUS_SUCCESS &&
        fxrt_cuda_gemm_layout(&plan->r, type, d->n, d->m, plan->add ? ld[3] : ld[2], d->batch, plan->add ? d->r_b : d->y_b) ==
            CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulPreferenceInit(&wish) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p->workspace, sizeof p->workspace) ==
            CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 4 && ok; i++) {
        ok = cublasLtMatmulPreferenceSetAttribute(&wish, names[i], &aligned[i], sizeof aligned[i]) == CUBLAS_STATUS_SUCCESS;
    }
    ok = ok &&
         cublasLtMatmulAlgoGetHeuristic(p->lt, &plan->op, &plan->w, &plan->x, &plan->r, &plan->y, &wish, 1, &answer, &found) ==
             CUBLAS_STATUS_SUCCESS &&
         found == 1 && answer.state == CUBLAS_STATUS_SUCCESS && answer.workspaceSize <= p->workspace;
    if (ok) {
        plan->algo = answer.algo;
    }
    return ok;
}

/* The first of the ways above that works. */
FXRT_HOST void fxrt_cuda_gemm_make(const fxrt_cuda_products *p, const fxrt_cuda_gemm_key *key, fxrt_cuda_gemm_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->key = *key;
    plan->used = 1;
    plan->d = fxrt_cuda_gemm_fold(key);
    const fxrt_gemm_desc *const d = &plan->d;
    int64_t ld[4];
    /* w^T in columns: [n][k] with k dense is that transposed, [k][n] with n dense is it as it lies */
    const int32_t transposed = (d->w_k == 1 || d->k == 1) && fxrt_cuda_gemm_ld(d->k, d->n, d->w_n, &ld[0]);
    const bool w_fits = transposed || ((d->w_n == 1 || d->n == 1) && fxrt_cuda_gemm_ld(d->n, d->k, d->w_k, &ld[0]));
    plan->add = key->residual && fxrt_cuda_gemm_ld(d->n, d->m, d->r_m, &ld[3]);
    plan->tile = !w_fits || d->k == 0 || !fxrt_cuda_gemm_ld(d->k, d->m, d->x_m, &ld[1]) || !fxrt_cuda_gemm_ld(d->n, d->m, d->y_m, &ld[2]);
    if (plan->tile) {
        return;
    }
    plan->tail_residual = key->residual && !plan->add;
    /* A tail reads and writes the result once more: with so few multiply-adds an element, that and a launch are reckoned to cost more than what cuBLAS is faster by. */
    enum { SHORT_SUM = 128 };
    const bool has_epilogue = d->act == FXRT_ACT_NONE || d->act == FXRT_ACT_RELU || d->act == FXRT_ACT_GELU_TANH;
    if (d->k <= SHORT_SUM && !has_epilogue && key->type == CUDA_R_32F) {
        plan->tile = 1;
        return;
    }
    const bool in_epilogue = !plan->tail_residual && (d->act == FXRT_ACT_RELU || d->act == FXRT_ACT_GELU_TANH);
    const uint32_t act = !in_epilogue ? 0u : d->act == FXRT_ACT_RELU ? uint32_t(CUBLASLT_EPILOGUE_RELU) : uint32_t(CUBLASLT_EPILOGUE_GELU);
    const uint32_t whole = act | (key->bias ? uint32_t(CUBLASLT_EPILOGUE_BIAS) : 0u);
    if (fxrt_cuda_gemm_ask(p, plan, transposed, ld, whole ? whole : uint32_t(CUBLASLT_EPILOGUE_DEFAULT))) {
        plan->tail = plan->tail_residual || (d->act != FXRT_ACT_NONE && !in_epilogue);
        return;
    }
    if (whole && fxrt_cuda_gemm_ask(p, plan, transposed, ld, CUBLASLT_EPILOGUE_DEFAULT)) {
        plan->tail = 1;
        plan->tail_bias = key->bias;
        return;
    }
    plan->tile = 1;
}

/* The table's plan for a key, made now if need be. A key has 8 places, beginning where its bytes say; if others have them all, one goes. */
FXRT_HOST fxrt_cuda_gemm_plan *fxrt_cuda_gemm_find(fxrt_cuda_products *p, const fxrt_cuda_gemm_key *key)
{
    enum { PLACES = FXRT_CUDA_GEMM_PLANS < 8 ? FXRT_CUDA_GEMM_PLANS : 8 };
    uint32_t words[sizeof *key / sizeof(uint32_t)], hash = 2166136261u;
    memcpy(words, key, sizeof words);
    for (uint32_t word : words) {
        hash = (hash ^ word) * 16777619u;
        hash ^= hash >> 15;
    }
    fxrt_cuda_gemm_plan *plan = nullptr;
    for (unsigned i = 0; i < PLACES; i++) {
        plan = &p->plans[(hash + i) % FXRT_CUDA_GEMM_PLANS];
        if (!plan->used) {
            break;
        }
        if (memcmp(&plan->key, key, sizeof *key) == 0) {
            return plan;
        }
    }
    if (plan->used) {
        plan = &p->plans[(hash + p->evicted++ % PLACES) % FXRT_CUDA_GEMM_PLANS];
    }
    fxrt_cuda_gemm_make(p, key, plan);
    return plan;
}

template <class T>
FXRT_HOST fxrt_cuda_gemm_key fxrt_cuda_gemm_key_of(const fxrt_gemm_desc *d, const T *x, const T *w, const T *b, const T *r, const T *y)
{
    return {*d,
            fxrt_cuda_gemm_type(y),
            b != nullptr,
            r != nullptr,
            fxrt_cuda_gemm_align(x),
            fxrt_cuda_gemm_align(w),
            r ? fxrt_cuda_gemm_align(r) : 0,
            fxrt_cuda_gemm_align(y)};
}
static_assert(sizeof(fxrt_cuda_gemm_key) == sizeof(fxrt_gemm_desc) + 7 * sizeof(int32_t), "keys are compared as bytes");

/* ---- the calls ---------------------------------------------------------------------------------------------------- */

template <class T, int R>
FXRT_HOST cudaError_t fxrt_cuda_gemm_run_tile(const fxrt_gemm_desc *d, const T *x, const T *w, const T *b, const T *r, T *y,
                                              cudaStream_t stream)
{
    const long long across = (d->n + FXRT_CUDA_TILE_COLS - 1LL) / FXRT_CUDA_TILE_COLS, down = (d->m + 16LL * R - 1) / (16 * R),
                    blocks = across * down * d->batch;
    if (blocks > INT32_MAX) {
        return cudaErrorInvalidConfiguration;
    }
    return FXCC_LAUNCH((fxrt_cuda_gemm_tile<T, R>), static_cast<unsigned>(blocks), FXRT_CUDA_TILE_THREADS, 0, stream, *d, x, w, b, r, y);
}

/* y = act(x w + b + r) on the stream; b and r may be null, y may be r. ws has the bytes that fxrt_cuda_products_create was told of.
 * Where products are only planned, nothing starts: of the pointers their alignment counts then, and whether b and r are there. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_gemm(fxrt_cuda_products *p, const fxrt_gemm_desc *desc, const T *x, const T *w, const T *b, const T *r,
                                     T *y, void *ws, cudaStream_t stream)
{
    if (desc->batch <= 0 || desc->m <= 0 || desc->n <= 0) {
        return cudaSuccess;
    }
    const fxrt_cuda_gemm_key key = fxrt_cuda_gemm_key_of(desc, x, w, b, r, y);
    fxrt_cuda_gemm_plan *const plan = fxrt_cuda_gemm_find(p, &key);
    if (p->planning) {
        return cudaSuccess;
    }
    const fxrt_gemm_desc *const d = &plan->d;
    if (plan->tile) { /* few rows: a tile of 16 leaves fewer threads idle */
        return d->m <= 16 ? fxrt_cuda_gemm_run_tile<T, 1>(d, x, w, b, r, y, stream)
                          : fxrt_cuda_gemm_run_tile<T, 4>(d, x, w, b, r, y, stream);
    }
    const float one = 1.0f, add = plan->add ? 1.0f : 0.0f;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (b && !plan->tail_bias) {
        s = cublasLtMatmulDescSetAttribute(&plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &b, sizeof b);
    }
    if (s == CUBLAS_STATUS_SUCCESS) {
        s = cublasLtMatmul(p->lt, &plan->op, &one, w, &plan->w, x, &plan->x, &add, plan->add ? r : y, &plan->r, y, &plan->y, &plan->algo,
                           ws, p->workspace, stream);
    }
    if (s != CUBLAS_STATUS_SUCCESS || !plan->tail) {
        return fxrt_cuda_blas_error(s);
    }
    const long long rows = static_cast<long long>(d->batch) * d->m, down = (rows + FXRT_CUDA_TAIL_ROWS - 1) / FXRT_CUDA_TAIL_ROWS;
    const dim3 grid((static_cast<unsigned>(d->n) + 4 * FXRT_CUDA_TAIL_COLS - 1) / (4 * FXRT_CUDA_TAIL_COLS),
                    static_cast<unsigned>(down < 65535 ? down : 65535));
    return FXCC_LAUNCH(fxrt_cuda_gemm_tail<T>, grid, dim3(FXRT_CUDA_TAIL_COLS, FXRT_CUDA_TAIL_ROWS), 0, stream, *d,
                       plan->tail_bias ? b : nullptr, plan->tail_residual ? r : nullptr, y);
}
#endif
