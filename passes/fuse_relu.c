/* passes/fuse_relu.c: a convolution or linear layer and the ReLU after it become one module, as torch.ao.quantization.fuse_modules makes them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The module at the layer's path becomes a ConvReLU2d with the layer as "0" and the ReLU as "1": "conv.weight" is "conv.0.weight" then, the same
 * memory. A layer that is called more than once, whose tensors or value something else reads too, or on which more hangs than weight and bias,
 * is left alone. */
#include <string.h>

#include "passes/passes.h"

typedef struct fuse {
    fx_pass_run *run;
    fx_graph *g;
    fx_refs *refs;
    fx_attr **moved;    /* their old places, to be taken out of the tree at the end */
    size_t n_moved, cap_moved;
    size_t n_operators; /* pairs that are calls of operators */
} fuse;

static fx_module_id fused_class(fx_module_id layer)
{
    switch (layer) {
    case FX_MODULE_Conv1d: return FX_MODULE_ConvReLU1d;
    case FX_MODULE_Conv2d: return FX_MODULE_ConvReLU2d;
    case FX_MODULE_Conv3d: return FX_MODULE_ConvReLU3d;
    case FX_MODULE_Linear: return FX_MODULE_LinearReLU;
    default: return FX_MODULE_NONE;
    }
}

static bool is_layer_op(const fx_op *op)
{
    switch (op ? op->id : FX_OP_NONE) {
    case FX_OP_conv1d: case FX_OP_conv2d: case FX_OP_conv3d: case FX_OP_conv1d_padding: case FX_OP_conv2d_padding: case FX_OP_convolution:
    case FX_OP_linear:
        return true;
    default:
        return false;
    }
}

/* F.relu(x, inplace=...), which takes more than the operator. */
static bool is_functional_relu(const fx_node *n, bool *inplace)
{
    const fx_arg *given = n->args->n == 2 ? n->args->items[1] : NULL;
    if (n->opcode != FX_CALL_FUNCTION || strcmp(n->target, "torch.nn.functional.relu") || n->args->n > 2)
        return false;
    for (int i = 0; i < n->kwargs->n; i++) {
        if (!strcmp(n->kwargs->keys[i], "inplace"))
            given = n->kwargs->items[i];
        else if (strcmp(n->kwargs->keys[i], "input"))
            return false;
    }
    *inplace = given && given->kind == FX_ARG_BOOL && given->b;
    return !given || given->kind == FX_ARG_BOOL;
}

/* A ReLU in any spelling: its module or, of a call, NULL; what it takes. */
static bool read_relu(const fx_node *n, fx_module **module, fx_node **x, bool *inplace)
{
    fx_call_args call;
    *module = NULL;
    if (n->n_operands != 1)
        return false;
    *x = n->operands[0].def;
    if (n->opcode == FX_CALL_MODULE) {
        fx_module *m = *module = fx_target_module(n);
        const fx_class *c = m && !m->body ? fx_module_class_of(m) : NULL;
        return c && c->id == FX_MODULE_ReLU && m->n_children == 0 && m->n_attrs == 0;
    }
    if (is_functional_relu(n, inplace))
        return true;
    if (!fx_call_view(n, &call) || call.op->id != FX_OP_relu)
        return false;
    *inplace = call.inplace;
    return true;
}

/* The module of a layer that can take the ReLU in. */
static fx_module *read_layer(const fuse *f, const fx_node *x, fx_module_id *fused)
{
    fx_module *m = x->opcode == FX_CALL_MODULE ? fx_target_module(x) : NULL;
    const fx_class *c = m && m->parent && !m->body ? fx_module_class_of(m) : NULL;
    *fused = c ? fused_class(c->id) : FX_MODULE_NONE;
    if (*fused == FX_MODULE_NONE || x->n_operands != 1 || m->n_children || fx_refs_of_module(f->refs, m) != 1)
        return NULL;
    for (size_t i = 0; i < m->n_attrs; i++)
        if (strcmp(m->attrs[i]->name, "weight") && strcmp(m->attrs[i]->name, "bias"))
            return NULL;
    return m;
}

/* What m was hangs one level deeper, at "0", and the ReLU at "1". */
static void make_pair(fuse *f, fx_module *m, fx_module_id fused, const fx_module *relu, bool inplace)
{
    fx_graph *g = f->g;
    fx_context *ctx = g->ctx;
    fx_module *layer = fx_module_make(g, fx_intern_f(ctx, "%s.0", m->path));
    layer->class_name = m->class_name;
    layer->config = m->config;
    layer->meta = m->meta;
    for (size_t i = 0; i < m->n_attrs; i++) {
        fx_attr_copy_to(g, fx_intern_f(ctx, "%s.%s", layer->path, m->attrs[i]->name), m->attrs[i]);
        FX_PUSH(f->run->scratch, f->moved, f->n_moved, f->cap_moved) = m->attrs[i];
    }
    const char *path = fx_intern_f(ctx, "%s.1", m->path);
    if (relu) {
        fx_module_copy_to(g, path, relu);
    } else {
        fx_module *made = fx_module_make(g, path);
        made->class_name = fx_intern(ctx, fx_classes[FX_MODULE_ReLU].name);
        made->config = fx_arg_dict(ctx, 0, NULL, NULL);
        if (inplace)
            fx_module_put_config(made, "inplace", fx_arg_bool(ctx, true));
    }
    m->class_name = fx_intern(ctx, fx_classes[fused].name);
    m->config = fx_arg_dict(ctx, 0, NULL, NULL);
    m->meta = NULL;
}

/* Notes on the value that the layer gives from now on are the ReLU's. */
static fx_status fuse_one(fuse *f, fx_node *n)
{
    fx_module *relu, *m;
    fx_module_id fused;
    fx_node *x;
    bool inplace = false;
    if (!read_relu(n, &relu, &x, &inplace) || x->n_uses != 1)
        return FX_OK;
    if (is_layer_op(fx_node_row(x, NULL)))
        f->n_operators++;
    if (!f->refs)
        f->refs = fx_refs_count(f->g, f->run->scratch);
    m = read_layer(f, x, &fused);
    if (!m)
        return FX_OK;
    make_pair(f, m, fused, relu, inplace);
    const char *name = relu ? relu->path : n->name;
    if (relu)
        fx_refs_drop_module(f->refs, relu);
    if (n->type)
        x->type = n->type;
    if (n->meta)
        x->meta = n->meta;
    fx_node_replace_uses(n, x);
    FX_TRY(fx_node_erase(n));
    fx_pass_note(f->run, x, "'%s' and the ReLU '%s' became one %s", m->path, name, fx_classes[fused].short_name);
    return FX_OK;
}

fx_status fx_gpass_fuse_conv_relu(fx_pass_run *run)
{
    fuse f = {.run = run, .g = run->graph};
    for (fx_node *n = f.g->first, *next; n; n = next) {
        next = n->next;
        FX_TRY(fuse_one(&f, n));
    }
    if (f.n_moved)
        fx_tree_delete(f.g, 0, NULL, f.n_moved, f.moved);
    if (run->n_changes)
        fx_refs_remove_dropped(f.refs);
    if (f.n_operators)
        fx_pass_tell(run, NULL, "layers with a ReLU that are calls of operators and have no module to fuse: %zu; nothing to do, lowering makes one "
                     "kernel of each", f.n_operators);
    return FX_OK;
}
