/* passes/fuse_bn.c: batch norm in evaluation mode goes into the weights of the convolution or linear layer before it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Layers may be modules (call_module of Conv2d, BatchNorm2d) or calls on attributes (aten.conv2d, torch.conv2d), mixed too. A layer whose value
 * something else reads is left alone: that reader must go on seeing it. Weights that only this layer uses are replaced where they hang; shared
 * ones (a module called twice, tied parameters, two get_attr) stay as they are, and the layer gets weights of its own. */
#include <string.h>

#include "passes/passes.h"
#include "passes/scaling.h"

enum { WEIGHT, BIAS, MEAN, VAR, N_TENSORS };

typedef struct layer {
    fx_node *node;
    fx_module *module;            /* of a call_module, else NULL */
    int at[N_TENSORS];            /* parameters of the call the tensors are; -1: none */
    fx_attr *attr[N_TENSORS];
    fx_node *get[N_TENSORS];      /* the get_attr nodes of a call */
    bool transposed;
    int64_t groups;
    double eps;
    int batched_rank;             /* of x when dim 1 is its channels; 0: whatever it is */
    fx_call_args call;            /* of a layer without module, else not set */
} layer;

/* f->refs is there from the first fused layer on. */
typedef struct fuse {
    fx_pass_run *run;
    fx_graph *g;
    fx_refs *refs;
    const char *names[N_TENSORS]; /* of a module's tensors, interned */
    bool asked;
    fx_map written;               /* storages that the graph writes */
} fuse;

/* ---- reading layers ------------------------------------------------------------------------------------------------- */

static fx_node *operand_of(const layer *l, int param)
{
    const fx_arg *a = param >= 0 && param < l->call.n ? l->call.args[param] : NULL;
    return a && a->kind == FX_ARG_NODE ? l->node->operands[a->i].def : NULL;
}

static double number(const fx_arg *a)
{
    return !a ? 0 : a->kind == FX_ARG_FLOAT ? a->f : a->kind == FX_ARG_INT ? (double)a->i : a->kind == FX_ARG_BOOL ? a->b : 0;
}

/* The tensors of a call: all attributes, or it is none of ours. */
static bool read_tensors(layer *l, int weight, int bias, int mean, int var)
{
    const int at[N_TENSORS] = {weight, bias, mean, var};
    for (int i = 0; i < N_TENSORS; i++) {
        l->at[i] = at[i];
        l->get[i] = operand_of(l, at[i]);
        if (at[i] < 0 || (!l->get[i] && l->call.args[at[i]]->kind == FX_ARG_NONE))
            continue;
        if (!l->get[i] || l->get[i]->opcode != FX_GET_ATTR)
            return false;
        l->attr[i] = fx_target_attr(l->get[i]);
        if (!l->attr[i])
            return false;
    }
    return true;
}

static void read_module(const fuse *f, layer *l)
{
    const fx_module *m = l->module;
    for (size_t i = 0; i < m->n_attrs; i++)
        for (int k = 0; k < N_TENSORS; k++)
            if (m->attrs[i]->name == f->names[k])
                l->attr[k] = m->attrs[i];
}

static bool is_true(const fx_arg *a)
{
    return a && a->kind == FX_ARG_BOOL && a->b;
}

static bool is_training(const fx_module *m)
{
    for (int i = 0; m->config && i < m->config->n; i++)
        if (fx_same_key(m->config->keys[i], "training"))
            return is_true(m->config->items[i]);
    return false;
}

static fx_module_id open_module(fx_node *n, layer *l)
{
    fx_module *m = n->opcode == FX_CALL_MODULE ? fx_target_module(n) : NULL;
    const fx_class *c = m ? fx_module_class_of(m) : NULL;
    if (!c || n->n_operands != 1)
        return FX_MODULE_NONE;
    l->module = m;
    return c->id;
}

static bool read_layer(const fuse *f, fx_node *n, bool linear, layer *l)
{
    memset(l, 0, offsetof(layer, call));
    l->node = n;
    l->groups = 1;
    switch (open_module(n, l)) {
    case FX_MODULE_Linear:
        if (linear)
            read_module(f, l);
        return l->attr[WEIGHT];
    case FX_MODULE_ConvTranspose1d:
    case FX_MODULE_ConvTranspose2d:
    case FX_MODULE_ConvTranspose3d: l->transposed = true; /* fall through */
    case FX_MODULE_Conv1d:
    case FX_MODULE_Conv2d:
    case FX_MODULE_Conv3d:
        if (linear)
            return false;
        read_module(f, l);
        l->groups = (int64_t)number(fx_module_config(l->module, "groups"));
        return l->attr[WEIGHT] && l->groups > 0;
    case FX_MODULE_NONE: break;
    default: return false;
    }
    if (n->opcode == FX_CALL_MODULE || !fx_call_view(n, &l->call) || l->call.inplace)
        return false;
    switch (l->call.op->id) {
    case FX_OP_linear: return linear && read_tensors(l, 1, 2, -1, -1);
    case FX_OP_conv_transpose1d:
    case FX_OP_conv_transpose2d_input: /* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
        l->transposed = true;
        l->groups = (int64_t)number(l->call.args[6]);
        break;
    case FX_OP_conv1d:
    case FX_OP_conv2d:
    case FX_OP_conv3d:
    case FX_OP_conv1d_padding:
    case FX_OP_conv2d_padding: break;
    case FX_OP_convolution: /* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
        l->transposed = is_true(l->call.args[6]);
        l->groups = (int64_t)number(l->call.args[8]);
        break;
    default: return false;
    }
    return !linear && l->groups > 0 && read_tensors(l, 1, 2, -1, -1) && l->attr[WEIGHT];
}

static bool read_norm(const fuse *f, fx_node *n, layer *l)
{
    memset(l, 0, offsetof(layer, call));
    l->node = n;
    switch (open_module(n, l)) {
    case FX_MODULE_BatchNorm2d: l->batched_rank = 4; break;
    case FX_MODULE_BatchNorm3d: l->batched_rank = 5; break;
    case FX_MODULE_BatchNorm1d:
    case FX_MODULE_SyncBatchNorm:
    case FX_MODULE_NONE: break;
    default: return false;
    }
    if (l->module) {
        read_module(f, l);
        l->eps = number(fx_module_config(l->module, "eps"));
        return !is_training(l->module) && l->attr[MEAN] && l->attr[VAR];
    }
    if (n->opcode == FX_CALL_MODULE || !fx_call_view(n, &l->call) || l->call.inplace)
        return false;
    switch (l->call.op->id) {
    case FX_OP_batch_norm: /* (input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled) */
        if (is_true(l->call.args[5]))
            return false;
        l->eps = number(l->call.args[7]);
        break;
    case FX_OP__native_batch_norm_legit_no_training: l->eps = number(l->call.args[6]); break;
    default: return false;
    }
    return read_tensors(l, 1, 2, 3, 4) && l->attr[MEAN] && l->attr[VAR];
}

/* Whether dim 1 of x, what the norm reads, is the layer's channels: not so for a single sample, or rows of rows of a linear layer. */
static bool channels_are_dim_1(const fx_node *x, const layer *l, const layer *norm, bool linear)
{
    int rank = linear ? 2 : l->attr[WEIGHT]->tensor.rank;
    if (x->type && x->type->kind == FX_TYPE_TENSOR)
        return x->type->rank == rank;
    return norm->batched_rank == rank;
}

static bool is_vector(const fx_attr *a, int64_t n)
{
    return !a || (a->tensor.rank == 1 && a->tensor.sizes[0] == n && fx_dtype_is_float(a->tensor.dtype));
}

static int64_t channels_of(const layer *l)
{
    const fx_tensor *w = &l->attr[WEIGHT]->tensor;
    if (w->rank < 2 || !fx_dtype_is_float(w->dtype) || (l->transposed && w->sizes[0] % l->groups))
        return -1;
    int64_t n = l->transposed ? w->sizes[1] * l->groups : w->sizes[0];
    return is_vector(l->attr[BIAS], n) ? n : -1;
}

/* ---- who else sees a tensor ---------------------------------------------------------------------------------------------- */

static const void *memory_of(const fx_attr *a)
{
    return a->tensor.storage ? (const void *)a->tensor.storage : a->tensor.data;
}

/* Whether any of the layer's tensors may be written while the graph runs; then they are no constants. */
static bool is_written(fuse *f, const layer *l)
{
    if (!f->asked) {
        /* Without a get_attr only a module can write, its own buffers: a norm in training mode. */
        bool writes = false, reads = false;
        FX_FOR_NODES(f->g, n)
            reads = reads || n->opcode == FX_GET_ATTR;
        for (fx_node *n = reads ? f->g->first : NULL; n && !writes; n = n->next)
            writes = fx_node_effects(n) & (FX_EFFECT_WRITES | FX_EFFECT_UNKNOWN);
        fx_alias *alias = writes ? fx_alias_new(f->g, f->run->scratch) : NULL;
        for (fx_node *n = alias ? f->g->first : NULL; n; n = n->next) {
            fx_attr *a = n->opcode == FX_GET_ATTR ? fx_target_attr(n) : NULL;
            if (a && memory_of(a) && fx_alias_written(alias, n, NULL, NULL))
                fx_map_put(f->run->scratch, &f->written, memory_of(a), a);
        }
        f->asked = true;
    }
    for (int i = 0; f->written.n && i < N_TENSORS; i++)
        if (l->attr[i] && memory_of(l->attr[i]) && fx_map_get(&f->written, memory_of(l->attr[i])))
            return true;
    return false;
}

/* Whether the layer's tensors are its own, so that new ones may take their places. */
static bool is_sole_owner(fuse *f, const layer *l)
{
    if (!f->refs)
        f->refs = fx_refs_count(f->g, f->run->scratch);
    if (l->module)
        return fx_refs_of_module(f->refs, l->module) == 1;
    for (int i = WEIGHT; i <= BIAS; i++)
        if (l->attr[i] && (fx_refs_of_attr(f->refs, l->attr[i]) != 1 || l->get[i]->n_uses != 1))
            return false;
    return true;
}

/* ---- the new weights --------------------------------------------------------------------------------------------------------- */

static const char *free_path(fx_graph *g, const char *path)
{
    const char *p = fx_intern_f(g->ctx, "%s_fused", path);
    for (size_t i = 1; fx_map_get(&g->modules_by_path, p) || fx_map_get(&g->attrs_by_path, p); i++)
        p = fx_intern_f(g->ctx, "%s_fused_%zu", path, i);
    return p;
}

static void set_module_tensors(fuse *f, layer *l, const fx_tensor *weight, const fx_tensor *bias)
{
    fx_graph *g = f->g;
    if (!is_sole_owner(f, l)) {
        const char *path = free_path(g, l->module->path);
        fx_refs_drop_module(f->refs, l->module);
        fx_module_copy_to(g, path, l->module);
        l->module = fx_module_find(g, path);
        l->node->target = path;
        read_module(f, l);
    }
    fx_attr *w = l->attr[WEIGHT], *b = l->attr[BIAS];
    fx_attr_set_tensor(w, weight);
    if (b) {
        fx_attr_set_tensor(b, bias);
    } else {
        fx_attr_put(g, fx_intern_f(g->ctx, "%s.bias", l->module->path), bias);
        fx_module_put_config(l->module, "bias", fx_arg_bool(g->ctx, true));
    }
}

/* A get_attr of a new attribute before the layer. */
static fx_node *new_get_attr(fuse *f, const layer *l, const char *path, const fx_tensor *t)
{
    fx_graph *g = f->g;
    g->insert_before = l->node;
    fx_node *n = fx_graph_constant(g, path, t);
    g->insert_before = NULL;
    fx_target_attr(n)->is_parameter = true;
    const char *name = n->name;
    n->loc = l->node->loc;
    n->loc.node = name;
    return n;
}

/* The call with other nodes as weight and bias; a keyword stays a keyword. */
static void set_call_tensors(fuse *f, layer *l, const fx_tensor *weight, const fx_tensor *bias)
{
    fx_graph *g = f->g;
    fx_node *n = l->node;
    const char *weight_path = l->attr[WEIGHT]->path, *dot = strrchr(weight_path, '.');
    bool sole = is_sole_owner(f, l);
    if (sole)
        fx_attr_set_tensor(l->attr[WEIGHT], weight);
    else
        fx_node_set_operand(n, l->call.args[l->at[WEIGHT]]->i, new_get_attr(f, l, free_path(g, weight_path), weight));
    if (l->attr[BIAS] && sole) {
        fx_attr_set_tensor(l->attr[BIAS], bias);
    } else if (l->attr[BIAS]) {
        fx_node_set_operand(n, l->call.args[l->at[BIAS]]->i, new_get_attr(f, l, free_path(g, l->attr[BIAS]->path), bias));
    } else {
        const char *path = fx_intern_f(g->ctx, "%.*sbias", dot ? (int)(dot + 1 - weight_path) : 0, weight_path);
        fx_node *b = new_get_attr(f, l, path, bias);
        fx_node_put_argument(n, l->at[BIAS], l->call.schema->params[l->at[BIAS]].name, b);
    }
}

/* ---- the pass ---------------------------------------------------------------------------------------------------------------------- */

/* The value of the norm: of _native_batch_norm_legit_no_training the first result; NULL when the others are used. */
static fx_node *result_of(fx_node *n)
{
    if (!n->op || n->op->id != FX_OP__native_batch_norm_legit_no_training)
        return n;
    fx_node *item = NULL;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        const fx_node *user = u->user;
        if (user->opcode != FX_CALL_FUNCTION || !user->op || user->op->id != FX_OP_getitem || item || user->args->n != 2 ||
            user->args->items[1]->kind != FX_ARG_INT || user->args->items[1]->i != 0)
            return NULL;
        item = u->user;
    }
    return item;
}

static fx_status fuse_one(fuse *f, fx_node *n, bool linear)
{
    fx_pass_run *run = f->run;
    layer norm, l;
    if (n->n_operands == 0 || !read_norm(f, n, &norm))
        return FX_OK;
    fx_node *x = norm.module ? n->operands[0].def : operand_of(&norm, 0), *result = result_of(n);
    if (!x || x->n_uses != 1 || !result || !read_layer(f, x, linear, &l))
        return FX_OK;
    if (!channels_are_dim_1(x, &l, &norm, linear)) {
        if (!x->type)
            fx_remark(run->ctx, &n->loc, "not fused into '%s': whether dim 1 is its channels is not known without types; the pass infer gives them",
                      x->name);
        return FX_OK;
    }
    int64_t channels = channels_of(&l);
    if (channels < 0 || !is_vector(norm.attr[WEIGHT], channels) || !is_vector(norm.attr[BIAS], channels) ||
        !is_vector(norm.attr[MEAN], channels) || !is_vector(norm.attr[VAR], channels) || is_written(f, &l) || is_written(f, &norm))
        return FX_OK;

    const fx_tensor *t[N_TENSORS];
    for (int i = 0; i < N_TENSORS; i++)
        t[i] = norm.attr[i] ? &norm.attr[i]->tensor : NULL;
    fx_scaling a;
    fx_tensor weight, bias;
    FX_TRY(fx_scaling_of_batch_norm(run->ctx, run->scratch, channels, t[WEIGHT], t[BIAS], t[MEAN], t[VAR], norm.eps, &a));
    if (!fx_scaling_is_finite(&a))
        return FX_OK;
    FX_TRY(fx_scaled_weight(run->ctx, run->scratch, &l.attr[WEIGHT]->tensor, l.transposed, l.groups, &a, &weight));
    FX_TRY(fx_scaled_bias(run->ctx, l.attr[BIAS] ? &l.attr[BIAS]->tensor : NULL, weight.dtype, channels, &a, &bias));
    const fx_type *type = x->type;
    if (l.module)
        set_module_tensors(f, &l, &weight, &bias);
    else
        set_call_tensors(f, &l, &weight, &bias);
    x->type = type; /* its shape has not changed */
    fx_pass_note(run, x, "fused batch norm '%s' into its weights", norm.module ? norm.module->path : n->name);

    fx_node_replace_uses(result, x);
    if (result != n)
        FX_TRY(fx_node_erase(result));
    FX_TRY(fx_node_erase(n));
    for (int i = 0; i < N_TENSORS; i++)
        if (norm.get[i] && !norm.get[i]->erased && norm.get[i]->n_uses == 0) { /* the same may be mean and variance */
            FX_TRY(fx_node_erase(norm.get[i]));
            fx_refs_drop_attr(f->refs, norm.attr[i]);
        }
    if (norm.module)
        fx_refs_drop_module(f->refs, norm.module);
    for (int i = 0; i < 2; i++) /* a shared weight that nobody uses any more */
        if (l.get[i] && !l.get[i]->erased && l.get[i]->n_uses == 0) {
            FX_TRY(fx_node_erase(l.get[i]));
            fx_refs_drop_attr(f->refs, l.attr[i]);
        }
    return FX_OK;
}

static fx_status fuse_all(fx_pass_run *run, bool linear)
{
    static const char *const names[N_TENSORS] = {"weight", "bias", "running_mean", "running_var"};
    fuse f = {.run = run, .g = run->graph};
    for (int i = 0; i < N_TENSORS; i++)
        f.names[i] = fx_intern(run->ctx, names[i]);
    for (fx_node *n = run->graph->first, *next; n; n = next) {
        next = n->next;
        if (n->opcode == FX_CALL_MODULE || n->opcode == FX_CALL_FUNCTION)
            FX_TRY(fuse_one(&f, n, linear));
        while (next && next->erased)
            next = next->next;
    }
    if (f.refs)
        fx_refs_remove_dropped(f.refs);
    return FX_OK;
}

fx_status fx_gpass_fuse_conv_bn(fx_pass_run *run)
{
    return fuse_all(run, false);
}

fx_status fx_gpass_fuse_linear_bn(fx_pass_run *run)
{
    return fuse_all(run, true);
}
