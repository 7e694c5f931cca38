/* lower/build_groups.c: which nodes become one step, and where results are put.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "lower/build.h"

bool fx_build_act(const fx_node *n, int *act, float *a, float *b)
{
    *a = *b = 0;
    if (n->opcode != FX_CALL_FUNCTION)
        return false;
    switch (n->op->id) {
    case FX_OP_relu:
        *act = FXRT_ACT_RELU;
        return true;
    case FX_OP_hardtanh:
        *act = FXRT_ACT_CLAMP;
        *a = (float)fx_node_float(n, 1);
        *b = (float)fx_node_float(n, 2);
        return !isnan(*a) && !isnan(*b);
    case FX_OP_clamp:
        *act = FXRT_ACT_CLAMP;
        *a = fx_node_is_none(n, 1) ? -INFINITY : (float)fx_node_float(n, 1);
        *b = fx_node_is_none(n, 2) ? INFINITY : (float)fx_node_float(n, 2);
        return !isnan(*a) && !isnan(*b);
    case FX_OP_leaky_relu:
        *act = FXRT_ACT_LEAKY_RELU;
        *a = (float)fx_node_float(n, 1);
        return true;
    case FX_OP_elu:
        if (fx_node_float(n, 3) != 1) /* the kernels' has no scale inside */
            return false;
        *act = FXRT_ACT_ELU;
        *a = (float)fx_node_float(n, 1);
        *b = (float)fx_node_float(n, 2);
        return true;
    case FX_OP_sigmoid:
        *act = FXRT_ACT_SIGMOID;
        return true;
    case FX_OP_tanh:
        *act = FXRT_ACT_TANH;
        return true;
    case FX_OP_silu:
        *act = FXRT_ACT_SILU;
        return true;
    case FX_OP_hardswish:
        *act = FXRT_ACT_HARDSWISH;
        return true;
    case FX_OP_hardsigmoid:
        *act = FXRT_ACT_HARDSIGMOID;
        return true;
    case FX_OP_gelu:
        *act = strcmp(fx_node_arg(n, 1)->s, "tanh") == 0 ? FXRT_ACT_GELU_TANH : FXRT_ACT_GELU;
        return true;
    case FX_OP_softplus:
        *act = FXRT_ACT_SOFTPLUS;
        *a = (float)fx_node_float(n, 1);
        *b = (float)fx_node_float(n, 2);
        return true;
    case FX_OP_mish:
        *act = FXRT_ACT_MISH;
        return true;
    default:
        return false;
    }
}

static bool is_contraction(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && n->op->cls == FX_CLASS_CONTRACTION;
}

bool fx_build_is_pointwise(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && (n->op->cls == FX_CLASS_POINTWISE || n->op->id == FX_OP_clone);
}

/* Whether a matrix product can add t to each of its results of type x: rows of t are whole or there is one for several. */
static bool broadcasts(const fx_type *t, const fx_type *x)
{
    int shift = x->rank - t->rank;
    if (shift < 0 || t->rank == 0 || !fx_dim_equal(t->dims[t->rank - 1], x->dims[x->rank - 1]))
        return false;
    for (int i = 0; i < t->rank - 1; i++)
        if (!fx_dim_is(t->dims[i], 1) && !fx_dim_equal(t->dims[i], x->dims[i + shift]))
            return false;
    return true;
}

/* The other operand when n is x + other of x's shape (or, for matrix products, broadcast to it) and no scaling, else NULL. */
static fx_node *plain_addend(const fx_node *n, const fx_node *x)
{
    if (n->opcode != FX_CALL_FUNCTION || n->op->id != FX_OP_add_Tensor || fx_node_float(n, 2) != 1)
        return NULL;
    fx_node *a = fx_node_input(n, 0), *c = fx_node_input(n, 1);
    if (!a || !c || a == c)
        return NULL;
    fx_node *other = a == x ? c : a;
    if (other->type->dtype != x->type->dtype || !fx_type_same_shape(n->type, x->type))
        return NULL;
    bool image = x->op->id == FX_OP_convolution;
    if (image ? !fx_type_same_shape(other->type, x->type) : !broadcasts(other->type, x->type))
        return NULL;
    return other;
}

static bool in_own_dtype(const fx_build *b, const fx_node *contraction)
{
    return fx_lower_takes(b->opt, FX_K_matmul, contraction->type->dtype);
}

/* Gives a contraction its tail: an addition, then an activation, as long as each result has one user. The step is emitted
 * at the last node's place, where the residual is there too. Of two contractions that meet in an addition, the later one in
 * the graph takes it. */
static void grow_tail(fx_build *b, fx_node *c, const uint32_t *position)
{
    fx_group g = {.anchor = c, .tail = ""};
    fx_node *last = c;
    /* what a kernel computes in its own dtype: there a tail of 16 bits is rounded once, not after each op; plain loops take no tail */
    bool grows = in_own_dtype(b, c) && c->op->id != FX_OP_conv_weight_grad && !(b->opt->off & FX_OFF(FUSE)) && fx_build_has_kernel(c);
    if (grows && last->n_uses == 1) {
        fx_node *user = last->first_use->user, *other = plain_addend(user, last);
        bool later = other && is_contraction(other) && other->n_uses == 1 && position[other->id] > position[c->id];
        if (other && !later && !b->root[user->id]) {
            g.residual = other;
            g.tail = " + add";
            last = user;
        }
    }
    if (grows && last->n_uses == 1) {
        fx_node *user = last->first_use->user;
        if (!b->root[user->id] && user->type && user->type->dtype == c->type->dtype && fx_build_act(user, &g.act, &g.act_a, &g.act_b)) {
            const char *name = strchr(user->op->name, '.') + 1;
            g.tail = fx_arena_printf(b->scratch, "%s + %.*s", g.tail, (int)strcspn(name, "."), name);
            last = user;
        }
    }
    for (fx_node *n = c;; n = n->first_use->user) {
        b->root[n->id] = last;
        if (n == last)
            break;
    }
    b->group[last->id] = g;
}

/* Pointwise nodes join their users' region when all users are in one and have the same shape: then the value is a scalar
 * in the region's loop and never stored. */
static fx_node *common_region(const fx_build *b, const fx_node *n)
{
    fx_node *region = NULL;
    if (b->opt->off & FX_OFF(FUSE))
        return NULL;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        if (!fx_build_is_pointwise(u->user) || !fx_type_same_shape(u->user->type, n->type))
            return NULL;
        fx_node *r = b->root[u->user->id];
        if (!r || b->group[r->id].anchor || b->group[r->id].rows || (region && r != region))
            return NULL;
        region = r;
    }
    if (region && (b->group[region->id].n_reads + n->n_operands - 1 > FX_MAX_REGION_READS ||
                   b->group[region->id].n_nodes >= FX_MAX_REGION_NODES))
        return NULL;
    return region;
}

/* Ops that cost no more than loading an element does. */
static bool is_cheap(const fx_node *n)
{
    switch (n->op->id) {
    case FX_OP_add_Tensor: case FX_OP_sub_Tensor: case FX_OP_mul_Tensor: case FX_OP_neg: case FX_OP_abs: case FX_OP_relu: case FX_OP_maximum:
    case FX_OP_minimum: case FX_OP_clamp: case FX_OP_hardtanh: case FX_OP__to_copy: case FX_OP_where_self: case FX_OP_eq_Tensor:
    case FX_OP_eq_Scalar: case FX_OP_ne_Tensor: case FX_OP_ne_Scalar: case FX_OP_lt_Tensor: case FX_OP_lt_Scalar: case FX_OP_le_Tensor:
    case FX_OP_le_Scalar: case FX_OP_gt_Tensor: case FX_OP_gt_Scalar: case FX_OP_ge_Tensor: case FX_OP_ge_Scalar: case FX_OP_logical_not:
    case FX_OP_logical_and: case FX_OP_logical_or: case FX_OP_bitwise_not:
        return true;
    default:
        return false;
    }
}

/* A cheap value that several regions read is computed in each of them when that moves less memory: `regions` loads of each operand
 * against loading the operands once, a store, and a load in each region. */
static bool computed_again(fx_build *b, const fx_node *n)
{
    enum { MOST_REGIONS = 4 };
    fx_node *region[MOST_REGIONS];
    int regions = 0, operands = 0;
    if (!fx_build_is_pointwise(n) || !is_cheap(n) || (b->opt->off & FX_OFF(FUSE)))
        return false;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        fx_node *r = b->root[u->user->id];
        if (!fx_build_is_pointwise(u->user) || !fx_type_same_shape(u->user->type, n->type) || !r || b->group[r->id].anchor)
            return false;
        int k = 0;
        while (k < regions && region[k] != r)
            k++;
        if (k == MOST_REGIONS)
            return false;
        if (k == regions)
            region[regions++] = r;
    }
    for (int i = 0; i < n->n_operands; i++) {
        const fx_node *d = n->operands[i].def;
        operands += fx_type_same_shape(d->type, n->type);
    }
    if (regions < 2 || regions * operands >= operands + 1 + regions)
        return false;
    for (int k = 0; k < regions; k++)
        if (b->group[region[k]->id].n_reads + n->n_operands - 1 > FX_MAX_REGION_READS)
            return false;
    for (int k = 0; k < regions; k++)
        b->group[region[k]->id].n_reads += n->n_operands - 1;
    return true;
}

void fx_build_groups(fx_build *b)
{
    uint32_t *position = FX_NEW_ARRAY(b->scratch, uint32_t, b->g->n_ids), at = 0;
    FX_FOR_NODES(b->g, n)
    position[n->id] = at++;
    FX_FOR_NODES(b->g, n)
    if (is_contraction(n) && !b->root[n->id])
        grow_tail(b, n, position);
    if (fx_target_is_gpu(&b->p->target) && !(b->opt->off & FX_OFF(FUSE)))
        fx_build_conv_groups(b);
    fx_build_row_groups(b, position);
    for (fx_node *n = b->g->last; n; n = n->prev) {
        if (n->opcode != FX_CALL_FUNCTION || b->root[n->id])
            continue;
        fx_node *r = fx_build_is_pointwise(n) ? common_region(b, n) : NULL;
        if (!r && computed_again(b, n)) {
            b->again[n->id] = true;
            continue;
        }
        b->root[n->id] = r ? r : n;
        fx_group *g = &b->group[b->root[n->id]->id];
        g->first = n;
        g->n_reads += r ? n->n_operands - 1 : n->n_operands;
        g->n_nodes++;
    }
}

/* ---- homes ---------------------------------------------------------------------------------------------------- */

/* Whether the step that makes n can write into a slice along dim d of a concatenation, which lies channels-last or row-major. Loops
 * write any slice. Kernels for images write slices of channels-last images. Matrix products and layer norm write rows with one stride
 * between them: slices of the last dim, or of the first where whole matrices follow one another. */
static bool writes_slices(const fx_build *b, fx_node *n, int d, bool images)
{
    if (n->opcode != FX_CALL_FUNCTION || b->root[n->id] != n || n->type->kind != FX_TYPE_TENSOR)
        return false;
    const fx_node *anchor = b->group[n->id].anchor;
    if (anchor && anchor->op->id == FX_OP_conv_weight_grad)
        return n->type->dtype != FX_F32; /* others are converted into any slice */
    if (anchor && in_own_dtype(b, n)) {
        if (anchor->op->id == FX_OP_convolution)
            return images;
        if (images)
            return false;
        bool batch = anchor->op->id == FX_OP_bmm;
        return batch || d == 0 || d == n->type->rank - 1;
    }
    if (anchor)
        return true;
    switch (n->op->cls) {
    case FX_CLASS_POINTWISE:
        return true;
    case FX_CLASS_POOL:
        return images;
    default:
        return n->op->id == FX_OP_cat || n->op->id == FX_OP_constant_pad_nd || n->op->id == FX_OP_clone;
    }
}

static int cat_dim(const fx_node *n)
{
    int64_t d = fx_node_int(n, 1);
    return (int)(d < 0 ? d + n->type->rank : d);
}

/* Output i is where n is computed. The first result of a norm is the norm's own; and what a view shows in the same order lies as the view does, so
 * that this is computed there. */
static void claim_output(fx_build *b, fx_node *n, int i)
{
    fx_node *at = n;
    while (at->opcode == FX_CALL_FUNCTION && fx_build_is_resize(at))
        at = fx_node_input(at, 0);
    bool computed = at->opcode == FX_CALL_FUNCTION && at->op->cls != FX_CLASS_VIEW;
    const fx_node *last = computed ? at : n;
    for (fx_node *part = n;; part = fx_node_input(part, 0)) {
        fx_home *h = &b->home[part->id];
        if (h->cat || h->output >= 0)
            return;
        h->output = i;
        if (part == last)
            break;
    }
    fx_node *from = computed && at->op->id == FX_OP_getitem && fx_node_int(at, 1) == 0 ? fx_node_input(at, 0) : NULL;
    if (from && from->opcode == FX_CALL_FUNCTION && from->op->cls == FX_CLASS_NORM)
        b->home[from->id].output = i;
}

/* Concatenations are not copied where the parts can be computed in place. Later ones claim first: in a dense block every
 * concatenation is then the beginning of the last one. Outputs are computed in place likewise. */
void fx_build_homes(fx_build *b)
{
    if (b->opt->off & FX_OFF(INPLACE))
        return;
    for (fx_node *n = b->g->last; n; n = n->prev) {
        if (n->opcode != FX_CALL_FUNCTION || n->op->id != FX_OP_cat || n->type->rank == 0)
            continue;
        fx_node **parts = FX_NEW_ARRAY(b->scratch, fx_node *, n->n_operands + 1);
        int count = fx_node_inputs(n, 0, parts, n->n_operands), d = cat_dim(n);
        if (count < 1)
            continue;
        /* All parts already lie side by side in a later concatenation: so does this one. */
        const fx_home *first = &b->home[parts[0]->id];
        fx_dim offset = first->offset;
        bool together = first->cat && first->dim == d && !b->home[n->id].cat;
        for (int i = 0; together && i < count; i++) {
            const fx_home *h = &b->home[parts[i]->id];
            together = h->cat == first->cat && fx_dim_equal(h->offset, offset) && parts[i]->type->rank == n->type->rank;
            if (together)
                offset = fx_dim_add(b->ctx, offset, parts[i]->type->dims[d]);
        }
        if (together) {
            b->home[n->id] = *first;
            continue;
        }
        bool images = fx_build_cat_of_images(b, n), all = true, none = true;
        for (int i = 0; i < count; i++) {
            if (parts[i]->type->rank != n->type->rank)
                continue;
            bool here = !b->home[parts[i]->id].cat && writes_slices(b, parts[i], d, images);
            all = all && here;
            none = none && !here;
        }
        if (!all && b->home[n->id].output < 0 && !b->home[n->id].cat && (none ? fx_build_copies_read(b, n) : fx_build_only_loops_read(b, n)))
            continue; /* not stored at all: see build_read.c */
        offset = fx_dim_of(0);
        for (int i = 0; i < count; i++) {
            if (parts[i]->type->rank != n->type->rank)
                continue; /* an empty vector, which cat skips */
            fx_home *h = &b->home[parts[i]->id];
            if (!h->cat && writes_slices(b, parts[i], d, images))
                *h = (fx_home){.cat = n, .dim = d, .offset = offset, .output = -1};
            offset = fx_dim_add(b->ctx, offset, parts[i]->type->dims[d]);
        }
    }
    for (size_t i = 0; i < b->n_outputs; i++)
        claim_output(b, b->outputs[i], (int)i);
}
