/* passes/interp_call.c: the interpreter's calls that are no rows with arguments by schema: of modules, methods, torch's functions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Such a call is legalised by itself, on a scratch graph whose placeholders have the types of the values it meets, and what comes out is
 * kept until the node, its module or those types change: an edit of a live module is seen by the very next run. */
#include "passes/interp.h"
#include "passes/quantize.h"

enum { MAX_DEPTH = 64 }; /* of modules in a called one */

/* What a node stands for. Lives in its graph's arena. */
typedef struct fx_expansion {
    struct fx_expansion *prev, *next;
    const fx_node *node;
    fx_graph *graph;             /* placeholders for the values that are tensors, calls of rows, an output of what the node gives */
    /* What it was made from. All of it is interned, so that pointers tell changes. */
    const char *target;
    const fx_arg *args, *kwargs; /* constants among the values put in */
    uint64_t module;             /* the called module's settings and types */
    int n_types;
    const fx_type **types;
    bool made;                   /* all of it */
} expansion;

/* ---- a call's arguments with its values ---------------------------------------------------------------------------------- */

typedef struct call {
    fx_interpreter *in;
    const fx_node *n;
    const fx_module *module;     /* of call_module */
    const fx_run_value **given;  /* by operand */
    const fx_arg *args, *kwargs;
    int count;                   /* values that stay operands */
    const fx_run_value **values;
} call;

/* Constants among the values take their nodes' places in the arguments; the others are numbered anew, each value once. */
static const fx_arg *put_value(void *user, const fx_arg *leaf)
{
    call *c = user;
    if (leaf->kind != FX_ARG_NODE)
        return leaf;
    const fx_run_value *v = c->given[leaf->i];
    const fx_arg *constant = fx_run_as_constant(c->in, v);
    if (constant)
        return constant;
    for (int i = 0; i < c->count; i++)
        if (c->values[i] == v)
            return fx_arg_operand(c->in->ctx, i);
    c->values[c->count] = v;
    return fx_arg_operand(c->in->ctx, c->count++);
}

static fx_status read_call(fx_interpreter *in, fx_run_frame *f, const fx_node *n, call *c)
{
    *c = (call){.in = in, .n = n};
    c->given = FX_NEW_ARRAY(in->run, const fx_run_value *, 2 * n->n_operands + 1);
    c->values = c->given + n->n_operands;
    for (int i = 0; i < n->n_operands; i++)
        FX_TRY(fx_run_operand(in, f, n, i, &c->given[i]));
    c->args = fx_arg_map(in->ctx, n->args, put_value, c);
    c->kwargs = fx_arg_map(in->ctx, n->kwargs, put_value, c);
    if (n->opcode == FX_CALL_MODULE) {
        c->module = fx_module_find(f->attrs, n->target);
        if (!c->module)
            return fx_fail(in->ctx, FX_ERR_FORMAT, &n->loc, "expected a module '%s' in the model", n->target);
    }
    return FX_OK;
}

/* ---- legalising ----------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *p)
{
    h = (h ^ (uint64_t)(uintptr_t)p >> 3) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t module_print(const fx_module *m, int depth)
{
    uint64_t h = mix(mix(mix((uint64_t)depth, m->class_name), m->config), m);
    for (size_t i = 0; i < m->n_attrs; i++)
        h = mix(mix(h, m->attrs[i]->name), m->attrs[i]->type);
    for (size_t i = 0; depth < MAX_DEPTH && i < m->n_children; i++)
        h = mix(h ^ module_print(m->children[i], depth + 1), m->children[i]->name);
    return h;
}

static bool made_from(const expansion *e, const call *c, uint64_t module)
{
    bool same = e->target == c->n->target && e->args == c->args && e->kwargs == c->kwargs && e->module == module && e->n_types == c->count;
    for (int i = 0; same && i < c->count; i++)
        same = e->types[i] == c->values[i]->type;
    return same;
}

static void forget(fx_interpreter *in, expansion *e)
{
    if (e->prev)
        e->prev->next = e->next;
    else
        in->all = e->next;
    if (e->next)
        e->next->prev = e->prev;
    fx_map_remove(&in->expansions, e->node);
    fx_arena_free(e->graph->arena);
}

void fx_run_forget(fx_interpreter *in)
{
    while (in->all)
        forget(in, in->all);
}

static fx_status legalise(const call *c, uint64_t module, expansion **out)
{
    fx_interpreter *in = c->in;
    const fx_node *n = c->n;
    fx_graph *g = fx_graph_new(in->ctx, n->graph->name);
    expansion *e = FX_NEW(g->arena, expansion);
    fx_node **operands = FX_NEW_ARRAY(g->arena, fx_node *, c->count + 1);
    *e = (expansion){.node = n, .graph = g, .target = n->target, .args = c->args, .kwargs = c->kwargs, .module = module, .n_types = c->count};
    e->types = FX_NEW_ARRAY(g->arena, const fx_type *, c->count + 1);
    e->next = in->all; /* at once, so that it is freed whatever happens */
    if (e->next)
        e->next->prev = e;
    in->all = e;
    fx_map_put(in->arena, &in->expansions, n, e);
    g->stage = FX_STAGE_CAPTURED;
    g->file = n->graph->file;
    if (c->module)
        fx_module_copy_to(g, c->module->path, c->module);
    for (int i = 0; i < c->count; i++) {
        operands[i] = fx_node_new(g, FX_PLACEHOLDER, "value", NULL, NULL, 0, NULL, NULL);
        operands[i]->type = e->types[i] = c->values[i]->type;
    }
    fx_node *copy = fx_node_new(g, n->opcode, n->target, c->args, c->kwargs, c->count, operands, n->name), *result = NULL;
    copy->loc = n->loc;
    copy->meta = n->meta;
    /* Its use is put in the place of the node: another node, or a number or tuple. */
    const fx_arg *use = fx_arg_operand(in->ctx, 0);
    fx_node_new(g, FX_OUTPUT, "output", fx_arg_seq(in->ctx, FX_ARG_TUPLE, 1, &use), NULL, 1, &copy, "output");
    g->insert_before = copy;
    fx_status status = fx_legalize_node(copy, &result);
    if (status != FX_OK) {
        forget(in, e);
        return status;
    }
    FX_FOR_NODES(g, m)
        m->loc = n->loc;
    g->stage = FX_STAGE_IMPORTED;
    e->made = true;
    *out = e;
    return FX_OK;
}

/* ---- modules that hold a graph -------------------------------------------------------------------------------------------- */

static fx_status value_of_arg(const call *c, const fx_arg *a, fx_run_value *v)
{
    if (a->kind == FX_ARG_NODE)
        *v = *c->values[a->i];
    else if (!fx_run_constant(c->in, a, v))
        return fx_fail(c->in->ctx, FX_ERR_UNSUPPORTED, &c->n->loc, "module '%s': its arguments can be tensors and numbers, got %s",
                       c->n->target, fx_arg_kind_name(a->kind));
    return FX_OK;
}

/* The value of a body: what its output node holds, one value or a tuple of them. */
static fx_status body_result(fx_run_frame *body, const call *c, fx_run_value *out)
{
    fx_interpreter *in = c->in;
    const fx_node *n = fx_graph_output_node(body->g);
    const fx_arg *a = n && n->args->n ? n->args->items[0] : fx_arg_none(in->ctx);
    bool tuple = a->kind == FX_ARG_TUPLE || a->kind == FX_ARG_LIST;
    int count = tuple ? a->n : 1;
    fx_tensor *tensors = FX_NEW_ARRAY(in->run, fx_tensor, count + 1);
    const fx_type **types = FX_NEW_ARRAY(in->run, const fx_type *, count + 1);
    for (int i = 0; i < count; i++) {
        const fx_arg *item = tuple ? a->items[i] : a;
        fx_run_value own = {.count = -1};
        const fx_run_value *v = &own;
        if (item->kind == FX_ARG_NODE)
            FX_TRY(fx_run_operand(in, body, n, (int)item->i, &v));
        else if (!fx_run_constant(in, item, &own))
            return fx_fail(in->ctx, FX_ERR_UNSUPPORTED, &n->loc, "module '%s': its results can be tensors and numbers, got %s", c->n->target,
                           fx_arg_kind_name(item->kind));
        if (!tuple) {
            fx_run_take(in, out, v->type, v->count, v->tensors);
            out->constant = v->constant;
            return FX_OK;
        }
        if (v->count != 1 || v->type->kind == FX_TYPE_TUPLE)
            return fx_fail(in->ctx, FX_ERR_UNSUPPORTED, &n->loc, "module '%s': expected one tensor as result %d, got %d", c->n->target, i,
                           v->count);
        tensors[i] = v->tensors[0];
        types[i] = v->type;
    }
    fx_run_take(in, out, fx_type_tuple(in->ctx, count, types), count, tensors);
    return FX_OK;
}

/* Runs a graph of our own or of a module, and takes what its output node holds. */
static fx_status run_inner(fx_run_frame *f, const call *c, fx_run_frame *inner)
{
    fx_interpreter *in = c->in;
    FX_TRY(fx_run_enter(in, inner, c->n));
    const fx_node *output = fx_graph_output_node(inner->g);
    for (int i = 0; output && i < output->n_operands; i++)
        inner->values[output->operands[i].def->id].uses++; /* ours */
    FX_TRY(fx_run_nodes(in, inner));
    FX_TRY(body_result(inner, c, &f->values[c->n->id]));
    fx_run_leave(in, inner);
    return FX_OK;
}

static fx_status run_expansion(fx_run_frame *f, const call *c, const expansion *e)
{
    fx_run_frame inner = {.g = e->graph, .attrs = f->attrs, .inputs = c->values, .n_inputs = (size_t)c->count};
    return run_inner(f, c, &inner);
}

static int placeholder_named(const fx_graph *g, const char *name)
{
    int i = 0;
    FX_FOR_NODES(g, p) {
        if (p->opcode != FX_PLACEHOLDER)
            continue;
        if (p->target == name || p->name == name)
            return i;
        i++;
    }
    return -1;
}

static fx_status run_body(fx_run_frame *f, const call *c)
{
    fx_interpreter *in = c->in;
    fx_graph *body = c->module->body;
    size_t n_inputs = 0;
    FX_FOR_NODES(body, p)
        n_inputs += p->opcode == FX_PLACEHOLDER;
    const fx_run_value **inputs = FX_NEW_ARRAY(in->run, const fx_run_value *, n_inputs + 1);
    fx_run_value *given = FX_NEW_ARRAY(in->run, fx_run_value, n_inputs + 1);
    if ((size_t)c->args->n > n_inputs)
        return fx_fail(in->ctx, FX_ERR_ARGUMENT, &c->n->loc, "module '%s': expected %zu inputs, got %d", c->n->target, n_inputs, c->args->n);
    for (int i = 0; i < c->args->n; i++) {
        FX_TRY(value_of_arg(c, c->args->items[i], &given[i]));
        inputs[i] = &given[i];
    }
    for (int i = 0; i < c->kwargs->n; i++) {
        int at = placeholder_named(body, c->kwargs->keys[i]);
        if (at < 0 || inputs[at])
            return fx_fail(in->ctx, FX_ERR_ARGUMENT, &c->n->loc, "module '%s': %s input '%s'", c->n->target, at < 0 ? "has no" : "two values for",
                           c->kwargs->keys[i]);
        FX_TRY(value_of_arg(c, c->kwargs->items[i], &given[at]));
        inputs[at] = &given[at];
    }
    while (n_inputs && !inputs[n_inputs - 1])
        n_inputs--;
    fx_run_frame inner = {.g = body, .attrs = body, .inputs = inputs, .n_inputs = n_inputs};
    return run_inner(f, c, &inner);
}

/* An observer gives its input on. With writes allowed it notes the least and greatest element, as torch.ao's do. */
static fx_status run_observer(fx_run_frame *f, const call *c)
{
    fx_interpreter *in = c->in;
    static const char *const names[] = {"min_val", "max_val"};
    if (c->args->n != 1 || c->args->items[0]->kind != FX_ARG_NODE)
        return fx_fail(in->ctx, FX_ERR_ARGUMENT, &c->n->loc, "observer '%s': expected one tensor", c->n->target);
    const fx_run_value *v = c->values[c->args->items[0]->i];
    fx_run_take(in, &f->values[c->n->id], v->type, v->count, v->tensors);
    for (int k = 0; k < 2 && in->opt.in_place && v->count == 1; k++) {
        const char *path = fx_intern_f(in->ctx, "%s.%s", c->module->path, names[k]);
        fx_tensor limit;
        if (!fx_attr_find(f->attrs, path))
            continue;
        FX_TRY(fx_graph_writable_tensor(f->attrs, path, &limit));
        double best = fx_tensor_get(&limit, 0);
        for (int64_t i = 0, n = fx_tensor_numel(v->tensors); i < n; i++) {
            double e = fx_tensor_get(v->tensors, i);
            best = k ? (e > best ? e : best) : (e < best ? e : best);
        }
        fx_tensor_set(&limit, 0, best);
    }
    return FX_OK;
}

/* An index or slice of a tuple that holds tensors: what Python gives for the same of its positions. */
static fx_status tuple_item(const call *c, fx_run_value *out)
{
    fx_interpreter *in = c->in;
    const fx_run_value *v = c->values[c->args->items[0]->i];
    const fx_arg **positions = FX_NEW_ARRAY(in->run, const fx_arg *, v->count + 1), *picked = NULL;
    for (int i = 0; i < v->count; i++)
        positions[i] = fx_arg_int(in->ctx, i);
    const fx_arg *both[] = {fx_arg_seq(in->ctx, FX_ARG_TUPLE, v->count, positions), c->args->items[1]};
    FX_TRY(fx_run_python(in, c->n, fx_arg_seq(in->ctx, FX_ARG_TUPLE, 2, both), c->kwargs, c->values, &picked));
    if (!picked)
        return fx_fail(in->ctx, FX_ERR_TYPE, &c->n->loc, "%s: expected an index or a slice of a tuple, got %s", c->n->target,
                       fx_arg_kind_name(both[1]->kind));
    if (picked->kind == FX_ARG_INT) {
        fx_run_take(in, out, v->type->items[picked->i], 1, &v->tensors[picked->i]);
        return FX_OK;
    }
    fx_tensor *tensors = FX_NEW_ARRAY(in->run, fx_tensor, picked->n + 1);
    const fx_type **types = FX_NEW_ARRAY(in->run, const fx_type *, picked->n + 1);
    for (int i = 0; i < picked->n; i++) {
        tensors[i] = v->tensors[picked->items[i]->i];
        types[i] = v->type->items[picked->items[i]->i];
    }
    fx_run_take(in, out, fx_type_tuple(in->ctx, picked->n, types), picked->n, tensors);
    return FX_OK;
}

static bool is_tuple_item(const call *c)
{
    return c->n->op && c->n->op->id == FX_OP_getitem && c->args->n == 2 && c->args->items[0]->kind == FX_ARG_NODE &&
           c->values[c->args->items[0]->i]->type->kind == FX_TYPE_TUPLE;
}

fx_status fx_run_call(fx_interpreter *in, fx_run_frame *f, const fx_node *n)
{
    call c;
    const fx_arg *constant = NULL;
    FX_TRY(read_call(in, f, n, &c));
    if (c.module && c.module->body)
        return run_body(f, &c);
    if (fx_module_is_observer(c.module))
        return run_observer(f, &c);
    if (is_tuple_item(&c))
        return tuple_item(&c, &f->values[n->id]);
    FX_TRY(fx_run_python(in, n, c.args, c.kwargs, c.values, &constant));
    if (constant) {
        if (fx_run_constant(in, constant, &f->values[n->id]))
            return FX_OK;
        return fx_fail(in->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: a nested tuple is no value here", n->target);
    }
    uint64_t module = c.module ? module_print(c.module, 0) : 0;
    expansion *e = fx_map_get(&in->expansions, n);
    if (e && (!e->made || !made_from(e, &c, module))) { /* not made: memory ran out meanwhile */
        forget(in, e);
        e = NULL;
    }
    if (!e)
        FX_TRY(legalise(&c, module, &e));
    return run_expansion(f, &c, e);
}
