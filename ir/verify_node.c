/* ir/verify_node.c: what a node must hold beyond the structure of lists and uses: its opcode's, its stage's, its operator's demands.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"
#include "ir/verify.h"

/* ---- opcodes ------------------------------------------------------------------------------------------------------------------ */

/* The longest part of a path, before its end, that is a tensor: no path leads on from there. */
static const fx_attr *tensor_on_the_way(fx_verifier *v, const char *path)
{
    const fx_attr *a = NULL;
    for (const char *p = path; *p && !a; p++)
        if (*p == '.')
            a = fx_attr_find(v->g, fx_intern_n(v->ctx, path, (size_t)(p - path)));
    return a;
}

static void check_missing(fx_verifier *v, const fx_node *n)
{
    const fx_attr *a = tensor_on_the_way(v, n->target);
    if (a)
        fx_found(v, n, "%s of '%s' leads through '%s', which is no module but a tensor", fx_opcode_name(n->opcode), n->target, a->path);
    else
        fx_found(v, n, "%s of '%s', which does not exist", fx_opcode_name(n->opcode), n->target);
}

static void check_attribute(fx_verifier *v, const fx_node *n)
{
    const fx_attr *a = fx_attr_find(v->g, n->target);
    if (!a) {
        /* A module's value: graphs of control flow. */
        if (!fx_module_find(v->g, n->target))
            check_missing(v, n);
        return;
    }
    if (n->n_operands || n->args->n || n->kwargs->n)
        fx_found(v, n, "a get_attr node takes no arguments, got %d", n->args->n + n->kwargs->n);
    const fx_tensor *t = &a->tensor;
    const fx_type *type = a->type;
    bool same = type && type->kind == FX_TYPE_TENSOR && type->dtype == t->dtype && type->rank == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = !type->dims[i].sym && type->dims[i].value == t->sizes[i];
    if (!same)
        fx_found(v, n, "the attribute '%s' has type %s, but its tensor is %s", n->target, fx_verify_type_text(v, type),
              fx_verify_type_text(v, fx_type_tensor_static(v->ctx, t->dtype, t->rank, t->sizes)));
    else if (n->type && (n->type->kind != FX_TYPE_TENSOR || n->type->dtype != t->dtype || !fx_type_same_shape(n->type, type)))
        fx_found(v, n, "its type is %s, expected that of the attribute, %s", fx_verify_type_text(v, n->type), fx_verify_type_text(v, type));
}

/* The inputs of a module made of a part of a graph. */
static void check_body(fx_verifier *v, const fx_node *n, const fx_graph *body)
{
    int count = 0, given = 0;
    FX_FOR_NODES(body, p) {
        if (p->opcode != FX_PLACEHOLDER)
            continue;
        bool by_name = false;
        for (int i = 0; i < n->kwargs->n; i++)
            by_name = by_name || n->kwargs->keys[i] == p->target;
        given += by_name;
        if (count < n->args->n && by_name)
            fx_found(v, n, "the input '%s' of module '%s' is given twice", p->target, n->target);
        if (count >= n->args->n && !by_name && !p->args->n)
            fx_found(v, n, "module '%s' needs a value for its input '%s'", n->target, p->target);
        count++;
    }
    if (n->args->n > count)
        fx_found(v, n, "module '%s' has %d inputs, got %d", n->target, count, n->args->n);
    else if (given < n->kwargs->n)
        fx_found(v, n, "module '%s' has no input of a keyword given to it, '%s' or another", n->target, n->kwargs->keys[0]);
}

static void check_call_module(fx_verifier *v, const fx_node *n)
{
    const fx_module *m = fx_module_find(v->g, n->target);
    if (!m && fx_attr_find(v->g, n->target)) {
        fx_found(v, n, "call_module of '%s', which is no module but a tensor", n->target);
        return;
    }
    if (!m) {
        check_missing(v, n);
        return;
    }
    if (v->where)
        return; /* what is asked of users' graphs only */
    const fx_class *c = m->body ? NULL : fx_module_class_of(m);
    if (m->body)
        check_body(v, n, m->body);
    else if (!m->class_name)
        fx_found(v, n, "call_module of '%s', a plain module, which cannot be called", n->target);
    else if (c && c->flags & FX_MODULE_CONTAINER)
        fx_found(v, n, "call_module of '%s', a %s, which cannot be called", n->target, c->short_name);
}

static void check_placeholder(fx_verifier *v, const fx_node *n)
{
    if (v->past_inputs)
        fx_found(v, n, "a placeholder stands after other nodes");
    if (n->n_operands)
        fx_found(v, n, "a placeholder takes no operands, got %d", n->n_operands);
    else if (n->args->n > 1 || n->kwargs->n)
        fx_found(v, n, "a placeholder takes a default at most, got %d arguments", n->args->n + n->kwargs->n);
    const fx_node *other = fx_map_get(&v->inputs, n->target);
    if (other)
        fx_found(v, n, "its target '%s' is that of the placeholder '%s' too", n->target, other->name);
    else
        fx_map_put(v->scratch, &v->inputs, n->target, (void *)n);
}

static void check_output(fx_verifier *v, const fx_node *n)
{
    v->n_outputs++;
    if (n->next)
        fx_found(v, n, "the output is not the last node: '%s' follows", n->next->name);
    if (n->args->n != 1 || n->kwargs->n)
        fx_found(v, n, "the output takes one argument, got %d", n->args->n + n->kwargs->n);
}

static void look_for_node(void *user, int64_t operand)
{
    (void)operand;
    *(bool *)user = true;
}

static void check_notes(fx_verifier *v, const fx_node *n)
{
    for (const fx_meta *m = n->meta; m; m = m->next) {
        bool holds = false;
        fx_arg_operands(m->value, look_for_node, &holds);
        if (holds)
            fx_found(v, n, "its note '%s' holds a node", m->key);
    }
}

void fx_verify_opcode(fx_verifier *v, const fx_node *n)
{
    if (!n->target || !*n->target) {
        fx_found(v, n, "the node has no target");
        return;
    }
    switch (n->opcode) {
    case FX_PLACEHOLDER: check_placeholder(v, n); break;
    case FX_GET_ATTR: check_attribute(v, n); break;
    case FX_CALL_FUNCTION:
        if (n->op != fx_op_lookup(v->ctx, n->target, NULL))
            fx_found(v, n, "its row is %s, expected that of its target '%s'", n->op ? n->op->name : "missing", n->target);
        break;
    case FX_CALL_METHOD:
        if (!n->n_operands || !n->args->n || n->args->items[0]->kind != FX_ARG_NODE)
            fx_found(v, n, "a call_method needs the node it is called on as its first argument");
        break;
    case FX_CALL_MODULE: check_call_module(v, n); break;
    case FX_OUTPUT: check_output(v, n); break;
    default: fx_found(v, n, "the opcode is %d, expected 0 to %d", n->opcode, FX_OUTPUT); break;
    }
    /* get_attr may come first: parameters are lifted in front of user inputs. */
    if (n->opcode != FX_PLACEHOLDER && n->opcode != FX_GET_ATTR)
        v->past_inputs = true;
    if (n->opcode != FX_CALL_FUNCTION && n->op)
        fx_found(v, n, "a %s node has a row of op.def", fx_opcode_name(n->opcode));
    check_notes(v, n);
}

void fx_verify_attr(fx_verifier *v, const fx_attr *a)
{
    if (!v->where && !fx_tensor_in_storage(&a->tensor))
        fx_found(v, NULL, "the tensor '%s' reaches past its storage of %zu bytes", a->path,
                 a->tensor.storage ? a->tensor.storage->nbytes : (size_t)0);
}

/* ---- stages ------------------------------------------------------------------------------------------------------------------------- */

/* A call of a row has the arguments of its schema, as fx_node_normalize leaves them. */
static bool check_arguments(fx_verifier *v, const fx_node *n)
{
    const fx_schema *s = fx_op_schema(v->ctx, n->op);
    int before = v->n_findings;
    if (n->kwargs->n)
        fx_found(v, n, "%s is not normalised: it has the keyword '%s'", n->op->name, n->kwargs->keys[0]);
    if (n->args->n != s->n) {
        fx_found(v, n, "%s is not normalised: it has %d arguments, expected %d", n->op->name, n->args->n, s->n);
        return false;
    }
    for (int i = 0; i < s->n; i++) {
        const char *got;
        const fx_arg *a = n->args->items[i], *normal = fx_param_convert(v->ctx, n->op, i, a, &got);
        if (normal != a)
            fx_found(v, n, "argument '%s' of %s is %s: expected %s, got %s", s->params[i].name, n->op->name,
                  normal ? "not normalised" : "wrong", s->params[i].type, got);
    }
    return v->n_findings == before;
}

/* Numbers are equal; expressions for one size may be spelled in several ways: equal for some values of the symbols at least. */
static bool same_size(const fx_verifier *v, fx_dim a, fx_dim b)
{
    if ((!a.sym && !b.sym) || fx_dim_equal(a, b))
        return fx_dim_equal(a, b);
    int64_t least, most;
    fx_dim_bounds(fx_graph_symbols(v->g), fx_dim_sub(v->ctx, a, b), &least, &most);
    return least <= 0 && most >= 0;
}

static bool same_value_type(const fx_verifier *v, const fx_type *a, const fx_type *b)
{
    if (a == b)
        return true;
    if (!a || !b || a->kind != b->kind)
        return false;
    if (a->kind == FX_TYPE_TENSOR) {
        bool same = a->dtype == b->dtype && a->rank == b->rank;
        for (int i = 0; same && i < a->rank; i++)
            same = same_size(v, a->dims[i], b->dims[i]);
        return same;
    }
    if (a->kind != FX_TYPE_TUPLE)
        return a->kind != FX_TYPE_INT; /* INT: its value */
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = same_value_type(v, a->items[i], b->items[i]);
    return same;
}

/* The type noted on a node is what inference says; the hint of strides aside. */
static void check_type(fx_verifier *v, const fx_node *n)
{
    const fx_type *t = NULL;
    if (!n->type) {
        fx_found(v, n, "the node has no type");
    } else if (n->op) {
        if (fx_infer_call(n, NULL, NULL, &t) != FX_OK)
            fx_found(v, n, "its type cannot be inferred");
        else if (!same_value_type(v, t, n->type))
            fx_found(v, n, "its type is %s, expected %s", fx_verify_type_text(v, n->type), fx_verify_type_text(v, t));
    }
}

/* ---- what lint asks for: arguments by schema, types by inference ---------------------------------------------------------------------- */

/* Modules of torch.nn take one input; those that take more are left to whoever runs them. */
static void lint_module_call(fx_verifier *v, const fx_node *n)
{
    const fx_module *m = fx_module_find(v->g, n->target);
    const fx_class *c = m && !m->body ? fx_module_class_of(m) : NULL;
    if (!c)
        return;
    const fx_schema *s = fx_class_schema(v->ctx, c);
    for (int i = 0; m->config && i < m->config->n; i++) {
        const char *key = m->config->keys[i], *got = NULL;
        bool known = strcmp(key, "training") == 0;
        for (int k = 0; k < s->n && !known; k++) {
            known = strcmp(s->params[k].name, key) == 0;
            if (known && !fx_param_fit(v->ctx, &s->params[k], m->config->items[i], &got))
                fx_found(v, n, "'%s' of %s: expected %s, got %s", key, c->short_name, s->params[k].type, got);
        }
        if (!known)
            fx_found(v, n, "%s has no setting '%s'", c->short_name, key);
    }
    bool one = c->id != FX_MODULE_Bilinear && c->id != FX_MODULE_CosineSimilarity && c->id != FX_MODULE_MultiheadAttention &&
               c->id != FX_MODULE_Identity && c->id != FX_MODULE_ConvTranspose1d && c->id != FX_MODULE_ConvTranspose2d &&
               c->id != FX_MODULE_ConvTranspose3d;
    int count = n->args->n + n->kwargs->n;
    if (count == 0 || (one && count > 1))
        fx_found(v, n, "%s takes one input, got %d", c->short_name, count);
}

/* The node with arguments as inference wants them; operand numbers stay. */
static fx_node normal_form(const fx_node *n, const fx_call_args *call)
{
    fx_node m = *n;
    m.op = call->op;
    m.args = fx_arg_seq(n->graph->ctx, FX_ARG_TUPLE, call->n, call->args);
    m.kwargs = n->graph->ctx->empty_dict;
    return m;
}

static void lint_type(fx_verifier *v, const fx_node *n, const fx_call_args *call)
{
    const fx_type *t = NULL;
    for (int i = 0; i < n->n_operands; i++)
        if (!n->operands[i].def->type)
            return; /* nothing is known to contradict */
    fx_node m = normal_form(n, call);
    if (fx_infer_call(&m, NULL, NULL, &t) != FX_OK)
        v->n_findings++; /* it said what contradicts */
    else if (n->type && !same_value_type(v, t, n->type))
        fx_found(v, n, "its type is %s, expected %s", fx_verify_type_text(v, n->type), fx_verify_type_text(v, t));
}

static void lint(fx_verifier *v, const fx_node *n)
{
    if (n->opcode == FX_CALL_MODULE && v->lint & FX_LINT_SCHEMA)
        lint_module_call(v, n);
    if (n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD)
        return;
    fx_call_args call;
    if (fx_call_view(n, &call)) {
        if (v->lint & FX_LINT_TYPES)
            lint_type(v, n, &call);
    } else if (call.op && v->lint & FX_LINT_SCHEMA) {
        fx_call_check(n, &call); /* says what does not fit */
        v->n_findings++;
    }
}

/* What functional graphs end with: copies into inputs and attributes, after all else, whose results nobody reads. */
static bool is_write_back(const fx_node *n)
{
    const fx_node *to = n->op->id == FX_OP_copy ? fx_node_input(n, 0) : NULL;
    if (!to || (to->opcode != FX_PLACEHOLDER && to->opcode != FX_GET_ATTR) || n->n_uses)
        return false;
    return n->next && (n->next->opcode == FX_OUTPUT || (fx_node_is_inplace(n->next) && n->next->op->id == FX_OP_copy));
}

void fx_verify_stage(fx_verifier *v, const fx_node *n)
{
    if (v->lint)
        lint(v, n);
    if (v->stage == FX_STAGE_CAPTURED)
        return;
    bool normal = !n->op || check_arguments(v, n);
    if (v->stage == FX_STAGE_IMPORTED)
        return;
    if (n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE)
        fx_found(v, n, "a %s node, expected only calls of functions", fx_opcode_name(n->opcode));
    if (n->opcode == FX_CALL_FUNCTION && !n->op)
        fx_found(v, n, "the target '%s' is no row of op.def", n->target);
    if (fx_node_is_inplace(n) && !(v->stage == FX_STAGE_FUNCTIONAL && is_write_back(n)))
        fx_found(v, n, "an in-place op, '%s', is left", n->target);
    if (v->stage != FX_STAGE_CORE)
        return;
    if (n->op && !(n->op->flags & FX_OP_CORE))
        fx_found(v, n, "%s is no core op", n->op->name);
    if (n->opcode != FX_OUTPUT && normal)
        check_type(v, n);
}

