/* passes/prune.c: magnitude pruning: the smallest weights, or whole output channels, become zero. Shapes stay.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "passes/prune.h"

/* ---- attributes that are one tensor -------------------------------------------------------------------------------------- */

static bool same_tensor(const fx_tensor *a, const fx_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->data == b->data &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) == 0 &&
           memcmp(a->strides, b->strides, (size_t)a->rank * sizeof *a->strides) == 0;
}

fx_attr *fx_tied_first(fx_attr *a)
{
    fx_attr *one = (fx_attr *)fx_attr_first_alias(a), *first = one;
    do {
        if (same_tensor(&one->tensor, &a->tensor))
            return one;
        one = one->alias;
    } while (one && one != first);
    return a;
}

void fx_tied_set(fx_attr *a, const fx_tensor *t)
{
    for (fx_attr *one = a->alias, *next; one && one != a; one = next) {
        next = one->alias;
        if (same_tensor(&one->tensor, &a->tensor))
            fx_attr_set_tensor(one, t);
    }
    fx_attr_set_tensor(a, t);
}

/* ---- weights ------------------------------------------------------------------------------------------------------------- */

fx_attr *fx_matrix_of(const fx_node *n, bool *turned)
{
    for (int depth = 0; n && depth < 8; depth++) {
        fx_call_args c;
        if (n->opcode == FX_GET_ATTR)
            return fx_attr_find(n->graph, n->target);
        if (!fx_call_view(n, &c) || c.inplace || c.args[0]->kind != FX_ARG_NODE)
            return NULL;
        bool swaps = c.op->id == FX_OP_t || c.op->id == FX_OP_transpose_int ||
                     (c.op->id == FX_OP_permute && c.args[1]->n == 2 && c.args[1]->items[0]->kind == FX_ARG_INT &&
                      (c.args[1]->items[0]->i == 1 || c.args[1]->items[0]->i == -1));
        if (!swaps && c.op->id != FX_OP_detach && c.op->id != FX_OP_alias)
            return NULL;
        *turned ^= swaps;
        n = n->operands[c.args[0]->i].def;
    }
    return NULL;
}

static bool weight_of_module(const fx_node *n, fx_weight *out)
{
    const fx_module *m = fx_module_find(n->graph, n->target);
    m = m ? fx_module_layer(m) : NULL;
    const fx_class *class = m ? fx_module_class_of(m) : NULL;
    switch (class ? class->id : FX_MODULE_NONE) {
    case FX_MODULE_ConvTranspose1d: case FX_MODULE_ConvTranspose2d: case FX_MODULE_ConvTranspose3d:
        out->transposed = true;
        out->out_dim = 1;
        break;
    case FX_MODULE_Conv1d: case FX_MODULE_Conv2d: case FX_MODULE_Conv3d: case FX_MODULE_Linear:
        break;
    default:
        return false;
    }
    for (size_t i = 0; i < m->n_attrs; i++)
        if (!strcmp(m->attrs[i]->name, "weight"))
            out->attr = m->attrs[i];
    return out->attr != NULL;
}

bool fx_weight_of(const fx_node *n, fx_weight *out)
{
    fx_call_args c;
    bool turned = false;
    int at = 1;
    *out = (fx_weight){.node = n};
    if (n->opcode == FX_CALL_MODULE)
        return weight_of_module(n, out);
    if (!fx_call_view(n, &c))
        return false;
    switch (c.op->id) {
    case FX_OP_conv1d: case FX_OP_conv2d: case FX_OP_conv3d: case FX_OP_conv1d_padding: case FX_OP_conv2d_padding: case FX_OP_linear:
        break;
    case FX_OP_conv_transpose1d: case FX_OP_conv_transpose2d_input:
        out->transposed = true;
        break;
    case FX_OP_convolution:
        out->transposed = c.args[6]->kind == FX_ARG_BOOL && c.args[6]->b;
        break;
    case FX_OP_addmm: /* input times matrix: output channels are its columns */
        at = 2;
        turned = true;
        break;
    case FX_OP_mm: case FX_OP_matmul:
        turned = true;
        break;
    default:
        return false;
    }
    if (c.args[at]->kind != FX_ARG_NODE)
        return false;
    out->attr = fx_matrix_of(n->operands[c.args[at]->i].def, &turned);
    out->out_dim = turned || out->transposed;
    return out->attr && out->attr->tensor.rank >= 2;
}

/* ---- choosing ------------------------------------------------------------------------------------------------------------ */

/* Magnitudes are not negative, so their bits are in their order: the k-th is found a byte at a time. NaN is the greatest. */
static uint64_t bits_of(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return isnan(v) ? UINT64_MAX : u & ~(UINT64_C(1) << 63);
}

void fx_choose_smallest(size_t n, const double *magnitudes, size_t k, bool *chosen)
{
    uint64_t prefix = 0, mask = 0;
    size_t left = k;
    memset(chosen, 0, n * sizeof *chosen);
    if (k == 0)
        return;
    for (int shift = 56; shift >= 0 && k < n; shift -= 8) {
        size_t counts[256] = {0};
        int byte = 0;
        for (size_t i = 0; i < n; i++) {
            uint64_t u = bits_of(magnitudes[i]);
            if ((u & mask) == prefix)
                counts[u >> shift & 255]++;
        }
        while (left > counts[byte])
            left -= counts[byte++];
        prefix |= (uint64_t)byte << shift;
        mask |= UINT64_C(255) << shift;
    }
    /* prefix is the k-th; `left` of its equals are in */
    for (size_t i = 0; i < n; i++) {
        uint64_t u = bits_of(magnitudes[i]);
        chosen[i] = k >= n || u < prefix || (u == prefix && left > 0 && left--);
    }
}

/* ---- the pass ------------------------------------------------------------------------------------------------------------ */

typedef struct pruned {
    fx_attr *attr;
    const fx_node *node;
    int out_dim;
    fx_tensor dense;
    int64_t inner, outer;    /* elements below out_dim, above it */
    size_t n, first;         /* magnitudes, and the first of them in all */
} pruned;

typedef struct job {
    fx_pass_run *run;
    bool structured;
    pruned *list;
    size_t n, cap, total;
    double *magnitudes;
    bool *chosen;
} job;

static fx_status gather(job *j)
{
    fx_map seen = {0};
    FX_FOR_NODES(j->run->graph, n) {
        fx_weight w;
        if (!fx_weight_of(n, &w) || !fx_dtype_is_float(w.attr->tensor.dtype))
            continue;
        fx_attr *a = fx_tied_first(w.attr);
        if (fx_map_get(&seen, a))
            continue;
        fx_map_put(j->run->scratch, &seen, a, a);
        pruned p = {.attr = a, .node = n, .out_dim = w.out_dim, .inner = 1, .outer = 1, .first = j->total};
        FX_TRY(fx_tensor_contiguous(j->run->ctx, &a->tensor, &p.dense));
        for (int i = 0; i < p.dense.rank; i++) {
            p.outer *= i < p.out_dim ? p.dense.sizes[i] : 1;
            p.inner *= i > p.out_dim ? p.dense.sizes[i] : 1;
        }
        p.n = (size_t)(j->structured ? p.dense.sizes[p.out_dim] : fx_tensor_numel(&p.dense));
        j->total += p.n;
        FX_PUSH(j->run->scratch, j->list, j->n, j->cap) = p;
    }
    return FX_OK;
}

static double element(const fx_tensor *t, int64_t i)
{
    return t->dtype == FX_F32 ? (double)((const float *)t->data)[i] : fx_tensor_get(t, i);
}

/* Of elements |w|; of channels the L1 norm. */
static void measure(const job *j, const pruned *p)
{
    double *m = j->magnitudes + p->first;
    int64_t channels = p->dense.sizes[p->out_dim], k = 0;
    if (!j->structured) {
        for (size_t i = 0; i < p->n; i++)
            m[i] = fabs(element(&p->dense, (int64_t)i));
        return;
    }
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < p->inner; i++)
                m[c] += fabs(element(&p->dense, k++));
}

static fx_status zero(job *j, const pruned *p)
{
    const bool *chosen = j->chosen + p->first;
    int64_t count = 0, changed = 0, elements = fx_tensor_numel(&p->dense), channels = p->dense.sizes[p->out_dim];
    fx_tensor t;
    for (size_t i = 0; i < p->n; i++)
        count += chosen[i];
    for (int64_t i = 0; i < elements; i++)
        changed += chosen[j->structured ? i / p->inner % channels : i] && element(&p->dense, i) != 0;
    if (!changed)
        return FX_OK;
    FX_TRY(fx_tensor_create(j->run->ctx, p->dense.dtype, p->dense.rank, p->dense.sizes, &t));
    size_t size = fx_dtype_size(t.dtype);
    for (int64_t i = 0; i < elements; i++)
        if (!chosen[j->structured ? i / p->inner % channels : i])
            memcpy((char *)t.data + (size_t)i * size, (const char *)p->dense.data + (size_t)i * size, size);
    fx_tied_set(p->attr, &t);
    fx_pass_note(j->run, p->node, "'%s': %lld of %zu %s zeroed", p->attr->path, (long long)count, p->n,
                 j->structured ? "output channels" : "elements");
    return FX_OK;
}

/* As torch.nn.utils.prune: round(amount * n), half to even. */
static size_t share(double amount, size_t n)
{
    double k = rint(amount * (double)n);
    return k < (double)n ? (size_t)k : n;
}

fx_status fx_gpass_prune(fx_pass_run *run)
{
    double amount = fx_pass_float(run, "amount");
    bool global = fx_pass_bool(run, "global");
    job j = {.run = run, .structured = fx_pass_bool(run, "structured")};
    if (!(amount >= 0 && amount <= 1))
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "prune: expected an amount from 0 to 1, got %g", amount);
    if (strcmp(fx_pass_str(run, "by"), "magnitude"))
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "prune: expected by=magnitude, got '%s'", fx_pass_str(run, "by"));
    if (global && j.structured)
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "prune: global is for single elements: channels of different tensors do not compare");
    FX_TRY(gather(&j));
    j.magnitudes = FX_NEW_ARRAY(run->scratch, double, j.total + 1);
    j.chosen = FX_NEW_ARRAY(run->scratch, bool, j.total + 1);
    for (size_t i = 0; i < j.n; i++) {
        const pruned *p = &j.list[i];
        measure(&j, p);
        if (!global)
            fx_choose_smallest(p->n, j.magnitudes + p->first, share(amount, p->n), j.chosen + p->first);
    }
    if (global)
        fx_choose_smallest(j.total, j.magnitudes, share(amount, j.total), j.chosen);
    for (size_t i = 0; i < j.n; i++)
        FX_TRY(zero(&j, &j.list[i]));
    return FX_OK;
}
