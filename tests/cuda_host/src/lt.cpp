/* cuBLASLt: descriptions, the heuristic's answer, and matmul with its epilogues. An algorithm is good for the product it was asked for, and no
 * other: a result that was cached for another shape is refused. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 */
#include "blas.h"

#include <new>

struct cublasLtContext {};
namespace fxcu {

/* What lies in the opaque structures. */
struct operation {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transa, transb, pointer_mode;
    uint32_t epilogue;
    const void *bias;
    int32_t bias_type; /* -1: that of D */
};
struct layout {
    uint32_t type;
    int32_t order;
    uint64_t rows, columns;
    int64_t ld;
    int32_t batches;
    int64_t batch_offset;
};
struct preference {
    uint64_t workspace;
    uint32_t alignments[4];
    uint32_t search_mode;
};
static operation *inside(cublasLtMatmulDesc_t desc) { return reinterpret_cast<operation *>(desc); }
static layout *inside(cublasLtMatrixLayout_t desc) { return reinterpret_cast<layout *>(desc); }
static preference *inside(cublasLtMatmulPreference_t desc) { return reinterpret_cast<preference *>(desc); }

constexpr size_t wanted_workspace = 64 << 10;

static cublasStatus_t set(const char *call, void *to, size_t want, const void *value, size_t bytes) {
    if (value == nullptr || bytes != want) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: %zu bytes at %p, where the attribute has %zu", call, bytes, value, want);
    }
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
#define FXCU_SET(call, field) set(call, &(field), sizeof(field), value, bytes)

/* What an algorithm is for: a mark of types, shapes and layouts. */
static uint64_t mark(const operation &desc, const layout *const (&layouts)[4]) {
    uint64_t hash = 14695981039346656037u;
    const auto add = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
    for (int value :
         {static_cast<int>(desc.compute), static_cast<int>(desc.scale), desc.transa, desc.transb, static_cast<int>(desc.epilogue)}) {
        add(static_cast<uint64_t>(value));
    }
    for (const layout *l : layouts) {
        for (uint64_t value :
             {uint64_t(l->type), uint64_t(l->order), l->rows, l->columns, uint64_t(l->ld), uint64_t(l->batches), uint64_t(l->batch_offset)}) {
            add(value);
        }
    }
    return hash;
}

static bool make_matrix(const void *at, const layout &l, bool transposed, matrix *to) {
    const int64_t rows = static_cast<int64_t>(l.rows), columns = static_cast<int64_t>(l.columns),
                  row = l.order == CUBLASLT_ORDER_ROW ? l.ld : 1, column = l.order == CUBLASLT_ORDER_ROW ? 1 : l.ld;
    *to = {at, static_cast<cudaDataType>(l.type), rows, columns, row, column, l.batches > 1 ? l.batch_offset : 0};
    if (transposed) {
        std::swap(to->rows, to->columns);
        std::swap(to->row, to->column);
    }
    return l.ld >= (l.order == CUBLASLT_ORDER_ROW ? columns : rows);
}

static cublasStatus_t describe_product(const char *call, const operation &desc, const void *a, const void *b, const void *c,
                                       const void *d, const layout *const (&l)[4], product *p) {
    *p = {};
    if (!make_matrix(a, *l[0], desc.transa != CUBLAS_OP_N, &p->a) || !make_matrix(b, *l[1], desc.transb != CUBLAS_OP_N, &p->b) ||
        !make_matrix(c, *l[2], false, &p->c) || !make_matrix(d, *l[3], false, &p->d)) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: a leading dimension is too small: %ld, %ld, %ld, %ld", call, l[0]->ld, l[1]->ld,
                          l[2]->ld, l[3]->ld);
    }
    p->batches = l[3]->batches;
    for (const layout *one : l) {
        if (one->batches != p->batches) {
            return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: %d batches, where D has %ld", call, one->batches, p->batches);
        }
    }
    p->compute = desc.compute;
    switch (desc.epilogue & ~uint32_t(CUBLASLT_EPILOGUE_BIAS)) {
    case 0:
    case CUBLASLT_EPILOGUE_DEFAULT:
        p->tail = product::plain;
        break;
    case CUBLASLT_EPILOGUE_RELU:
        p->tail = product::relu;
        break;
    case CUBLASLT_EPILOGUE_GELU:
        p->tail = product::gelu;
        break;
    default:
        return blas_error(CUBLAS_STATUS_NOT_SUPPORTED, "%s: epilogue %u", call, desc.epilogue);
    }
    if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT && l[3]->order != CUBLASLT_ORDER_COL) {
        return blas_error(CUBLAS_STATUS_NOT_SUPPORTED, "%s: epilogue %u with D in rows", call, desc.epilogue);
    }
    p->bias_type = desc.bias_type < 0 ? p->d.type : static_cast<cudaDataType>(desc.bias_type);
    if ((desc.epilogue & CUBLASLT_EPILOGUE_BIAS) && p->bias_type != p->d.type) {
        return blas_error(CUBLAS_STATUS_NOT_SUPPORTED, "%s: a bias of type %d, where D has %d", call, p->bias_type, p->d.type);
    }
    return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque, class T> static cublasStatus_t init(const char *call, Opaque *to, const T &from) {
    static_assert(sizeof(T) <= sizeof(Opaque) && alignof(T) <= alignof(Opaque), "a description has cuBLASLt's size");
    if (to == nullptr) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: no place for it", call);
    }
    new (to) T(from);
    return CUBLAS_STATUS_SUCCESS;
}
template <class Opaque, class... From> static cublasStatus_t make(const char *call, Opaque **to, const From &...from) {
    entry e;
    if (to == nullptr) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: no place for it", call);
    }
    if (fail_this_allocation()) {
        return blas_error(CUBLAS_STATUS_ALLOC_FAILED, "%s: no memory", call);
    }
    *to = new Opaque();
    live_blas++;
    if constexpr (sizeof...(From) > 0) {
        return init(call, *to, from...);
    }
    return CUBLAS_STATUS_SUCCESS;
}
template <class T> static cublasStatus_t destroy(T *one) {
    entry e;
    if (one == nullptr) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    delete one;
    live_blas--;
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace fxcu

using namespace fxcu;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    entry e;
    return e.failed || device_error() ? CUBLAS_STATUS_NOT_INITIALIZED : make("cublasLtCreate", handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

static operation new_operation(cublasComputeType_t compute, cudaDataType_t scale) {
    return {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLAS_POINTER_MODE_HOST, CUBLASLT_EPILOGUE_DEFAULT, nullptr, -1};
}
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t compute, cudaDataType_t scale) {
    return init("cublasLtMatmulDescInit", desc, new_operation(compute, scale));
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale) {
    return make("cublasLtMatmulDescCreate", desc, new_operation(compute, scale));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes) {
    const char *const call = "cublasLtMatmulDescSetAttribute";
    switch (desc ? attribute : static_cast<cublasLtMatmulDescAttributes_t>(-1)) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return FXCU_SET(call, inside(desc)->transa);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return FXCU_SET(call, inside(desc)->transb);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return FXCU_SET(call, inside(desc)->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return FXCU_SET(call, inside(desc)->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return FXCU_SET(call, inside(desc)->bias_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        return FXCU_SET(call, inside(desc)->pointer_mode);
    default:
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: attribute %d", call, static_cast<int>(attribute));
    }
}

static layout new_layout(cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld) {
    return {static_cast<uint32_t>(type), CUBLASLT_ORDER_COL, rows, columns, ld, 1, 0};
}
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld) {
    return init("cublasLtMatrixLayoutInit", layout, new_layout(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld) {
    return make("cublasLtMatrixLayoutCreate", layout, new_layout(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
    const char *const call = "cublasLtMatrixLayoutSetAttribute";
    switch (layout ? attribute : static_cast<cublasLtMatrixLayoutAttribute_t>(-1)) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
        return FXCU_SET(call, inside(layout)->type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return FXCU_SET(call, inside(layout)->order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
        return FXCU_SET(call, inside(layout)->rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
        return FXCU_SET(call, inside(layout)->columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
        return FXCU_SET(call, inside(layout)->ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return FXCU_SET(call, inside(layout)->batches);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return FXCU_SET(call, inside(layout)->batch_offset);
    default:
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: attribute %d", call, static_cast<int>(attribute));
    }
}

constexpr preference new_preference = {0, {256, 256, 256, 256}, 0};
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
    return init("cublasLtMatmulPreferenceInit", preference, new_preference);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    return make("cublasLtMatmulPreferenceCreate", preference, new_preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    const char *const call = "cublasLtMatmulPreferenceSetAttribute";
    switch (preference ? attribute : static_cast<cublasLtMatmulPreferenceAttributes_t>(-1)) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
        return FXCU_SET(call, inside(preference)->search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return FXCU_SET(call, inside(preference)->workspace);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return FXCU_SET(call, inside(preference)->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
    default:
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: attribute %d", call, static_cast<int>(attribute));
    }
}

/* Algorithm 0 uses the workspace that the preference allows, algorithm 1 none. The alignments promised go along, and are held to. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t results[],
                                              int *found) {
    entry e;
    const char *const call = "cublasLtMatmulAlgoGetHeuristic";
    if (handle == nullptr) {
        return blas_error(CUBLAS_STATUS_NOT_INITIALIZED, "%s: no handle", call);
    }
    if (!desc || !a || !b || !c || !d || !preference || asked < 1 || !results || !found) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: a part is missing", call);
    }
    *found = 0;
    const layout *const layouts[4] = {inside(a), inside(b), inside(c), inside(d)};
    const fxcu::operation &what = *inside(desc);
    const fxcu::preference &promised = *inside(preference);
    product p;
    if (cublasStatus_t failed = describe_product(call, what, nullptr, nullptr, nullptr, nullptr, layouts, &p)) {
        return failed;
    }
    if (cublasStatus_t failed = check_product(call, p)) {
        return failed;
    }
    const int refused = fxcu_get_device().lt_refuses;
    if (refused > 1 || (refused == 1 && what.epilogue != CUBLASLT_EPILOGUE_DEFAULT)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    for (int i = promised.workspace >= wanted_workspace ? 0 : 1; i < 2 && *found < asked; i++) {
        cublasLtMatmulHeuristicResult_t *r = &results[(*found)++];
        *r = {};
        r->workspaceSize = i == 0 ? wanted_workspace : 0;
        r->wavesCount = 1.0f;
        r->algo.data[0] = mark(what, layouts);
        r->algo.data[1] = r->workspaceSize;
        for (int k = 0; k < 4; k++) {
            r->algo.data[2 + k] = promised.alignments[k];
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t adesc, const void *b, cublasLtMatrixLayout_t bdesc, const void *beta, const void *c,
                              cublasLtMatrixLayout_t cdesc, void *d, cublasLtMatrixLayout_t ddesc, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    entry e;
    const char *const call = "cublasLtMatmul";
    if (handle == nullptr) {
        return blas_error(CUBLAS_STATUS_NOT_INITIALIZED, "%s: no handle", call);
    }
    if (e.failed) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (!desc || !adesc || !bdesc || !cdesc || !ddesc) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: a description is missing", call);
    }
    const fxcu::operation &what = *inside(desc);
    if (what.pointer_mode != CUBLAS_POINTER_MODE_HOST) {
        return blas_error(CUBLAS_STATUS_NOT_SUPPORTED, "%s: scales on the device are not supported here", call);
    }
    const layout *const layouts[4] = {inside(adesc), inside(bdesc), inside(cdesc), inside(ddesc)};
    product p;
    if (cublasStatus_t failed = describe_product(call, what, a, b, c, d, layouts, &p)) {
        return failed;
    }
    if (!read_scale(alpha, what.scale, &p.alpha) || !read_scale(beta, what.scale, &p.beta)) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: alpha at %p and beta at %p of type %d", call, alpha, beta, what.scale);
    }
    if (what.epilogue & CUBLASLT_EPILOGUE_BIAS) {
        p.bias = what.bias;
    }
    if (algo != nullptr) {
        if (algo->data[0] != mark(what, layouts)) {
            return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: the algorithm was chosen for another product", call);
        }
        if (workspace_bytes < algo->data[1] || (algo->data[1] > 0 && workspace == nullptr)) {
            return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: %zu bytes of workspace, where the algorithm takes %zu", call, workspace_bytes,
                              static_cast<size_t>(algo->data[1]));
        }
        const void *const operands[4] = {a, b, c, d};
        for (int i = 0; i < 4; i++) {
            if ((i != 2 || p.beta != 0.0) && reinterpret_cast<uintptr_t>(operands[i]) % algo->data[2 + i] != 0) {
                return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: %c is %p, where an alignment of %zu was promised to the heuristic", call,
                                  "ABCD"[i], operands[i], static_cast<size_t>(algo->data[2 + i]));
            }
        }
        if (algo->data[1] > 0) {
            p.workspace = workspace;
            p.workspace_bytes = algo->data[1];
        }
    }
    return run_product(call, p, stream);
}
