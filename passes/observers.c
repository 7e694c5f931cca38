/* passes/observers.c: calls of observers where FX's quantisation puts them (prepare_fx), and which values those are.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "passes/prune.h"
#include "passes/quantize.h"

/* ---- which values ---------------------------------------------------------------------------------------------------------- */

static fx_module_id class_of(const fx_node *n)
{
    const fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(n->graph, n->target) : NULL;
    const fx_class *c = m ? fx_class_find(m->class_name) : NULL;
    return c ? c->id : FX_MODULE_NONE;
}

bool fx_module_is_observer(const fx_module *m)
{
    static const char space[] = "torch.ao.quantization.";
    return m && m->class_name && !strncmp(m->class_name, space, sizeof space - 1) && strstr(m->class_name, "Observer") != NULL;
}

static bool is_observed(const fx_node *n)
{
    return n->opcode == FX_CALL_MODULE && fx_module_is_observer(fx_module_find(n->graph, n->target));
}

/* What is fused with a convolution, so that only its end is quantised. */
static bool is_tail(const fx_node *n)
{
    const fx_op *op = fx_node_row(n, NULL);
    switch (op ? op->id : FX_OP_NONE) {
    case FX_OP_batch_norm: case FX_OP_relu: case FX_OP_relu6: case FX_OP_hardtanh:
        return true;
    default:
        break;
    }
    switch (class_of(n)) {
    case FX_MODULE_BatchNorm1d: case FX_MODULE_BatchNorm2d: case FX_MODULE_BatchNorm3d: case FX_MODULE_ReLU: case FX_MODULE_ReLU6:
    case FX_MODULE_Hardtanh:
        return true;
    default:
        return false;
    }
}

static bool is_float_tensor(const fx_node *n)
{
    return !n->type || (n->type->kind == FX_TYPE_TENSOR && n->type->dtype == FX_F32);
}

static bool is_activation(const fx_node *n)
{
    bool turned = false;
    return n->opcode != FX_GET_ATTR && !fx_matrix_of(n, &turned) && is_float_tensor(n);
}

typedef enum quantizable { NOT, CONTRACTION, JOIN } quantizable;

/* Sums and products of two tensors, concatenations: only where the types say that it is tensors of float. */
static quantizable kind_of(const fx_node *n)
{
    fx_weight w;
    const fx_op *op = fx_node_row(n, NULL);
    if (fx_weight_of(n, &w))
        return is_float_tensor(n) ? CONTRACTION : NOT;
    switch (op ? op->id : FX_OP_NONE) {
    case FX_OP_bmm: case FX_OP_matmul:
        return is_float_tensor(n) ? CONTRACTION : NOT;
    case FX_OP_add_Tensor: case FX_OP_mul_Tensor: case FX_OP_cat:
        break;
    default:
        return NOT;
    }
    for (int i = 0; i < n->n_operands; i++)
        if (!n->operands[i].def->type || !is_activation(n->operands[i].def))
            return NOT;
    return n->type && is_float_tensor(n) && n->n_operands > 1 ? JOIN : NOT;
}

fx_status fx_quantize_values(const fx_quantizer *q)
{
    fx_graph *g = q->g;
    uint32_t n_ids = g->n_ids;
    bool *all = FX_NEW_ARRAY(q->scratch, bool, n_ids + 1), *wanted = FX_NEW_ARRAY(q->scratch, bool, n_ids + 1);
    bool *quantized = FX_NEW_ARRAY(q->scratch, bool, n_ids + 1);
    FX_FOR_NODES(g, n) {
        quantizable kind = kind_of(n);
        if (kind == NOT)
            continue;
        quantized[n->id] = true;
        for (int i = 0; i < n->n_operands; i++)
            wanted[n->operands[i].def->id] |= is_activation(n->operands[i].def);
        const fx_node *end = n;
        while (end->n_uses == 1 && is_tail(end->first_use->user))
            end = end->first_use->user;
        all[end->id] = true;
    }
    fx_node *last_input = NULL;
    FX_FOR_NODES(g, n)
        last_input = n->opcode == FX_PLACEHOLDER ? n : last_input;
    for (fx_node *v = g->first, *next; v; v = next) {
        next = v->next;
        bool observed = false;
        for (const fx_use *u = v->first_use; u && !observed; u = u->next)
            observed = is_observed(u->user);
        if (v->id >= n_ids || (!all[v->id] && !wanted[v->id]) || is_observed(v) || observed)
            continue;
        fx_status status = FX_OK;
        g->insert_before = v->opcode == FX_PLACEHOLDER ? last_input->next : next;
        fx_node *by = q->make(q->user, v, &status);
        g->insert_before = NULL;
        if (!by)
            return status;
        for (fx_use *u = v->first_use, *then; u; u = then) {
            then = u->next;
            if (u->user->id < n_ids && (all[v->id] || quantized[u->user->id]))
                fx_node_set_operand(u->user, (int)(u - u->user->operands), by);
        }
    }
    return FX_OK;
}

/* ---- the pass -------------------------------------------------------------------------------------------------------------- */

typedef struct preparing {
    fx_pass_run *run;
    const char *class_name;
    int next;                /* number of the next observer */
} preparing;

static fx_status add_limit(fx_graph *g, const char *path, const char *name, float v)
{
    fx_tensor t;
    FX_TRY(fx_tensor_create(g->ctx, FX_F32, 0, NULL, &t));
    *(float *)t.data = v;
    fx_attr_add(g, fx_intern_f(g->ctx, "%s.%s", path, name), &t, false);
    return FX_OK;
}

static fx_node *add_observer(void *user, fx_node *value, fx_status *status)
{
    preparing *p = user;
    fx_graph *g = p->run->graph;
    const char *path;
    do
        path = fx_intern_f(g->ctx, "activation_post_process_%d", p->next++);
    while (fx_module_find(g, path) || fx_attr_find(g, path));
    fx_module *m = fx_module_make(g, path);
    m->class_name = p->class_name;
    m->config = fx_arg_dict(g->ctx, 0, NULL, NULL);
    *status = add_limit(g, path, "min_val", INFINITY);
    if (*status == FX_OK)
        *status = add_limit(g, path, "max_val", -INFINITY);
    if (*status != FX_OK)
        return NULL;
    const fx_arg *x = fx_arg_operand(g->ctx, 0);
    fx_node *n = fx_node_new(g, FX_CALL_MODULE, path, fx_arg_seq(g->ctx, FX_ARG_TUPLE, 1, &x), NULL, 1, &value, path);
    n->type = value->type;
    n->loc.module = value->loc.module;
    n->loc.frame = value->loc.frame;
    fx_pass_note(p->run, value, "observed by '%s'", path);
    return n;
}

fx_status fx_gpass_insert_observers(fx_pass_run *run)
{
    static const struct {
        const char *name, *class_name;
    } observers[] = {
        {"histogram", "torch.ao.quantization.observer.HistogramObserver"},
        {"minmax", "torch.ao.quantization.observer.MinMaxObserver"},
        {"moving_average", "torch.ao.quantization.observer.MovingAverageMinMaxObserver"},
    };
    preparing p = {.run = run};
    const char *want = fx_pass_str(run, "observer");
    for (size_t i = 0; i < sizeof observers / sizeof *observers; i++)
        if (!strcmp(observers[i].name, want))
            p.class_name = fx_intern(run->ctx, observers[i].class_name);
    if (!p.class_name)
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "insert_observers: expected observer=histogram, minmax or moving_average, got '%s'", want);
    if (run->graph->stage > FX_STAGE_IMPORTED) /* calls of modules are none of the stages above */
        run->graph->stage = FX_STAGE_IMPORTED;
    return fx_quantize_values(&(fx_quantizer){run->graph, run->scratch, add_observer, &p});
}
