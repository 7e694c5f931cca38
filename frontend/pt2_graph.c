/* frontend/pt2_graph.c: serialised graphs to graphs: nodes with arguments as written (normalised where the op is known),
 * results of several values as tuples with getitem nodes, types as the file says them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

fx_status fx_pt2_scope_begin(fx_pt2 *p, fx_graph *g, const fx_json_value *graph, fx_pt2_scope *s)
{
    *s = (fx_pt2_scope){.p = p, .g = g};
    FX_TRY(fx_json_object(&p->r, graph, "tensor_values", &s->tensors));
    FX_TRY(fx_json_object(&p->r, graph, "sym_int_values", &s->ints));
    FX_TRY(fx_json_object(&p->r, graph, "sym_bool_values", &s->bools));
    s->floats = fx_json_get(graph, "sym_float_values"); /* optional in the schema */
    if (s->floats)
        FX_TRY(fx_json_expect(&p->r, s->floats, FX_JSON_OBJECT, "sym_float_values"));
    return FX_OK;
}

fx_status fx_pt2_placeholder(fx_pt2_scope *s, const char *tag, const char *name)
{
    const fx_type *type;
    FX_TRY(fx_pt2_value_type(s, tag, name, &type));
    fx_node *n = fx_node_new(s->g, FX_PLACEHOLDER, name, fx_arg_seq(s->p->ctx, FX_ARG_TUPLE, 0, NULL), NULL, 0, NULL, name);
    n->type = type;
    n->loc = (fx_loc){.file = s->p->r.loc.file, .entry = s->p->r.loc.entry, .node = n->name};
    return fx_pt2_bind(s, name, n);
}

/* The name of a value in an output argument: {"name": n} of a tensor, {"as_name": n} of a symbol. */
static fx_status value_name(fx_pt2 *p, const char *tag, const fx_json_value *value, const char **out)
{
    return fx_json_string(&p->r, value, strcmp(tag, "as_tensor") == 0 ? "name" : "as_name", out);
}

/* The type of one output argument, which may be a list of tensors. */
static fx_status output_type(fx_pt2_scope *s, const fx_json_value *output, const fx_type **out)
{
    fx_pt2 *p = s->p;
    const char *tag, *name;
    const fx_json_value *value;
    FX_TRY(fx_json_union(&p->r, output, "output", &tag, &value));
    if (!strcmp(tag, "as_none")) {
        *out = fx_type_scalar(p->ctx, FX_TYPE_NONE);
        return FX_OK;
    }
    if (strcmp(tag, "as_tensors") != 0) {
        FX_TRY(value_name(p, tag, value, &name));
        return fx_pt2_value_type(s, tag, name, out);
    }
    FX_TRY(fx_json_expect(&p->r, value, FX_JSON_ARRAY, tag));
    size_t n = fx_json_size(value);
    const fx_type **items = FX_NEW_ARRAY(p->tmp, const fx_type *, n);
    for (size_t i = 0; i < n; i++) {
        FX_TRY(fx_json_string(&p->r, fx_json_at(value, i), "name", &name));
        FX_TRY(fx_pt2_value_type(s, "as_tensor", name, &items[i]));
    }
    *out = fx_type_tuple(p->ctx, (int)n, items);
    return FX_OK;
}

/* Item `index` of a tuple, as a node. */
static fx_status getitem(fx_pt2_scope *s, fx_node *from, size_t index, const char *name, fx_node **out)
{
    fx_context *ctx = s->p->ctx;
    const fx_arg *args[2] = {fx_arg_operand(ctx, 0), fx_arg_int(ctx, (int64_t)index)};
    fx_node *n = fx_node_new(s->g, FX_CALL_FUNCTION, "_operator.getitem", fx_arg_seq(ctx, FX_ARG_TUPLE, 2, args), NULL, 1, &from, name);
    n->type = from->type->items[index];
    n->loc = from->loc;
    n->loc.node = n->name;
    if (n->op)
        FX_TRY(fx_node_normalize(n));
    *out = n;
    return FX_OK;
}

/* Names the items of a tuple: getitem nodes called as the file calls them. Items nobody reads are erased at the end. */
static fx_status bind_items(fx_pt2_scope *s, fx_node *from, const fx_json_value *list, bool tensors)
{
    fx_pt2 *p = s->p;
    for (size_t i = 0; i < fx_json_size(list); i++) {
        const char *tag = "as_tensor", *name;
        const fx_json_value *value = fx_json_at(list, i);
        fx_node *item;
        if (!tensors)
            FX_TRY(fx_json_union(&p->r, value, "output", &tag, &value));
        if (!strcmp(tag, "as_none"))
            continue;
        if (!strcmp(tag, "as_tensors")) {
            FX_TRY(getitem(s, from, i, NULL, &item));
            FX_TRY(bind_items(s, item, value, true));
            continue;
        }
        FX_TRY(value_name(p, tag, value, &name));
        FX_TRY(getitem(s, from, i, name, &item));
        FX_TRY(fx_pt2_bind(s, name, item));
    }
    return FX_OK;
}

/* What a call returns is not always told apart by the list of outputs: (x,) and x both list one. Higher-order ops say which. */
static fx_status returns_tuple(fx_pt2_scope *s, const fx_json_value *node, const char *target, const fx_json_value *outputs, bool *out)
{
    const fx_json_value *single;
    FX_TRY(fx_json_optional(&s->p->r, node, "is_hop_single_tensor_return", &single));
    *out = fx_json_size(outputs) > 1 || (fx_json_size(outputs) == 1 && !strncmp(target, "higher_order.", 13) && fx_json_is(single, FX_JSON_FALSE));
    return FX_OK;
}

static fx_status bind_outputs(fx_pt2_scope *s, const fx_json_value *node, fx_node *n, const fx_json_value *outputs)
{
    fx_pt2 *p = s->p;
    size_t count = fx_json_size(outputs);
    bool tuple;
    if (count == 0) {
        n->type = fx_type_scalar(p->ctx, FX_TYPE_NONE);
        return FX_OK;
    }
    FX_TRY(returns_tuple(s, node, n->target, outputs, &tuple));
    if (tuple) {
        const fx_type **items = FX_NEW_ARRAY(p->tmp, const fx_type *, count);
        for (size_t i = 0; i < count; i++)
            FX_TRY(output_type(s, fx_json_at(outputs, i), &items[i]));
        n->type = fx_type_tuple(p->ctx, (int)count, items);
        return bind_items(s, n, outputs, false);
    }
    const char *tag, *name;
    const fx_json_value *value;
    FX_TRY(output_type(s, fx_json_at(outputs, 0), &n->type));
    FX_TRY(fx_json_union(&p->r, fx_json_at(outputs, 0), "output", &tag, &value));
    if (!strcmp(tag, "as_none"))
        return FX_OK;
    if (!strcmp(tag, "as_tensors"))
        return bind_items(s, n, value, true);
    FX_TRY(value_name(p, tag, value, &name));
    return fx_pt2_bind(s, name, n);
}

/* The arguments of a call while they are read. */
typedef struct call {
    const fx_arg **positional, **keyword;
    const char **keys, **names; /* of keyword, of positional */
    size_t n_positional, n_keyword;
    fx_pt2_operands operands;
} call;

static fx_status read_call(fx_pt2_scope *s, const fx_json_value *inputs, const char *target, call *c)
{
    fx_pt2 *p = s->p;
    size_t n = fx_json_size(inputs);
    *c = (call){.positional = FX_NEW_ARRAY(p->tmp, const fx_arg *, n), .keyword = FX_NEW_ARRAY(p->tmp, const fx_arg *, n),
                .keys = FX_NEW_ARRAY(p->tmp, const char *, n), .names = FX_NEW_ARRAY(p->tmp, const char *, n)};
    const fx_op *op = fx_op_lookup(p->ctx, target, NULL);
    const fx_schema *schema = op ? fx_op_schema(p->ctx, op) : NULL;
    for (size_t i = 0; i < n; i++) {
        const fx_json_value *in = fx_json_at(inputs, i);
        const char *name;
        const fx_arg *value;
        const fx_json_value *arg, *kind;
        FX_TRY(fx_json_string(&p->r, in, "name", &name));
        FX_TRY(fx_json_object(&p->r, in, "arg", &arg));
        FX_TRY(fx_json_optional(&p->r, in, "kind", &kind));
        FX_TRY(fx_pt2_argument(s, arg, &c->operands, &value));
        bool keyword = fx_json_is(kind, FX_JSON_INT) && kind->i == 2;
        if (kind && !keyword && !(fx_json_is(kind, FX_JSON_INT) && kind->i == 1))
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected 1 (positional) or 2 (keyword) as kind of argument '%s'", name);
        /* Files before the field `kind` was written: what the schema makes keyword-only is one. */
        for (int k = 0; !kind && schema && k < schema->n; k++)
            keyword |= schema->params[k].keyword_only && !strcmp(schema->params[k].name, name);
        if (!keyword && c->n_keyword)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "the positional argument '%s' follows a keyword argument", name);
        if (keyword) {
            for (size_t k = 0; k < c->n_keyword; k++)
                if (c->keys[k] == name)
                    return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "the argument '%s' is given twice", name);
            c->keys[c->n_keyword] = name;
            c->keyword[c->n_keyword++] = value;
        } else {
            c->names[c->n_positional] = name;
            c->positional[c->n_positional++] = value;
        }
    }
    return FX_OK;
}

/* Positions are believed only where the file's names agree with the row's schema (in-place variants call the first 'self'). */
static fx_status check_names(fx_pt2 *p, const fx_node *n, const call *c)
{
    if (!n->op || strncmp(n->target, "aten.", 5) != 0)
        return FX_OK;
    const fx_schema *schema = fx_op_schema(p->ctx, n->op);
    for (size_t i = 0; i < c->n_positional; i++) {
        if (i >= (size_t)schema->n)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "%s takes %d arguments, got one more: '%s'", n->target, schema->n, c->names[i]);
        bool self = i == 0 && fx_node_is_inplace(n) && !strcmp(c->names[0], "self");
        if (*c->names[i] && !self && strcmp(c->names[i], schema->params[i].name) != 0)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "%s: expected argument %zu to be '%s', got '%s'", n->target, i,
                           schema->params[i].name, c->names[i]);
    }
    return FX_OK;
}

/* Its own name, which older schemas leave out (up to 8.15 of torch 2.10, as seen): then that of its only tensor. */
static const char *node_name(const fx_json_value *node, const fx_json_value *outputs)
{
    const char *name = fx_json_text(fx_json_get(node, "name"));
    if (name && *name)
        return name;
    if (fx_json_size(outputs) != 1)
        return NULL;
    return fx_json_text(fx_json_get(fx_json_get(fx_json_at(outputs, 0), "as_tensor"), "name"));
}

static fx_status read_node(fx_pt2_scope *s, const fx_json_value *node)
{
    fx_pt2 *p = s->p;
    const char *target;
    const fx_json_value *inputs, *outputs, *metadata;
    FX_TRY(fx_json_string(&p->r, node, "target", &target));
    FX_TRY(fx_json_array(&p->r, node, "inputs", &inputs));
    FX_TRY(fx_json_array(&p->r, node, "outputs", &outputs));
    FX_TRY(fx_json_object(&p->r, node, "metadata", &metadata));
    if (!strncmp(target, "torch.ops.", 10))
        target = fx_intern(p->ctx, target + 10);
    if (!*target)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected a node with a target, got an empty one");
    const char *name = node_name(node, outputs);
    p->r.loc.node = name ? fx_intern(p->ctx, name) : target;
    fx_pt2_metadata(p, s->g, metadata, &p->r.loc);
    call c;
    FX_TRY(read_call(s, inputs, target, &c));
    fx_node *n = fx_node_new(s->g, FX_CALL_FUNCTION, target, fx_arg_seq(p->ctx, FX_ARG_TUPLE, (int)c.n_positional, c.positional),
                             fx_arg_dict(p->ctx, (int)c.n_keyword, c.keys, c.keyword), (int)c.operands.n, c.operands.nodes, name);
    n->loc = p->r.loc;
    n->loc.node = n->name;
    FX_TRY(check_names(p, n, &c));
    if (n->op)
        FX_TRY(fx_node_normalize(n));
    return bind_outputs(s, node, n, outputs);
}

static bool complex_type(const fx_type *t)
{
    return t && t->kind == FX_TYPE_TENSOR && (t->dtype == FX_C64 || t->dtype == FX_C128);
}

/* Complex numbers are refused by lowering, together with all else it does not know; here they only pass through. */
static bool is_complex(const fx_node *n)
{
    bool found = complex_type(n->type);
    for (int i = 0; i < n->n_operands; i++)
        found |= complex_type(n->operands[i].def->type);
    return found;
}

/* Static types of known ops are inferred anew: a file whose shapes contradict its graph would make wrong code. */
static fx_status check_types(fx_pt2_scope *s)
{
    FX_FOR_NODES(s->g, n) {
        const fx_type *given = n->type;
        if (n->opcode != FX_CALL_FUNCTION || !n->op || !given || given->kind != FX_TYPE_TENSOR || !fx_type_is_static(given) || is_complex(n))
            continue;
        FX_TRY(fx_node_infer(n)); /* FX_ERR_TYPE when the two differ */
        n->type = given;
    }
    return FX_OK;
}

fx_status fx_pt2_nodes(fx_pt2_scope *s, const fx_json_value *nodes)
{
    fx_pt2 *p = s->p;
    fx_loc outer = p->r.loc;
    for (size_t i = 0; i < fx_json_size(nodes); i++)
        FX_TRY(read_node(s, fx_json_at(nodes, i)));
    p->r.loc = outer;
    return check_types(s);
}

fx_status fx_pt2_subgraph(fx_pt2_scope *outer, const fx_json_value *argument, fx_graph **out)
{
    enum { MAX_DEPTH = 8 };
    fx_pt2 *p = outer->p;
    const char *name, *tag;
    const fx_json_value *graph, *inputs, *outputs, *nodes, *value, *single;
    if (p->depth == MAX_DEPTH)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "graphs are nested more than %d deep", MAX_DEPTH);
    FX_TRY(fx_json_string(&p->r, argument, "name", &name));
    FX_TRY(fx_json_object(&p->r, argument, "graph", &graph));
    FX_TRY(fx_json_array(&p->r, graph, "inputs", &inputs));
    FX_TRY(fx_json_array(&p->r, graph, "outputs", &outputs));
    FX_TRY(fx_json_array(&p->r, graph, "nodes", &nodes));
    FX_TRY(fx_json_optional(&p->r, graph, "is_single_tensor_return", &single));
    fx_graph *g = fx_graph_new(p->ctx, name);
    g->file = p->r.loc.file;
    fx_pt2_scope s;
    FX_TRY(fx_pt2_scope_begin(p, g, graph, &s));
    for (size_t i = 0; i < fx_json_size(inputs); i++) {
        FX_TRY(fx_json_union(&p->r, fx_json_at(inputs, i), "input", &tag, &value));
        FX_TRY(value_name(p, tag, value, &name));
        FX_TRY(fx_pt2_placeholder(&s, tag, name));
    }
    p->depth++;
    FX_TRY(fx_pt2_nodes(&s, nodes));
    p->depth--;
    fx_pt2_operands ops = {0};
    size_t n = fx_json_size(outputs);
    const fx_arg **items = FX_NEW_ARRAY(p->tmp, const fx_arg *, n);
    for (size_t i = 0; i < n; i++)
        FX_TRY(fx_pt2_argument(&s, fx_json_at(outputs, i), &ops, &items[i]));
    const fx_arg *result = fx_json_is(single, FX_JSON_TRUE) && n == 1 ? items[0] : fx_arg_seq(p->ctx, FX_ARG_TUPLE, (int)n, items);
    fx_node *o = fx_node_new(g, FX_OUTPUT, "output", fx_arg_seq(p->ctx, FX_ARG_TUPLE, 1, &result), NULL, (int)ops.n, ops.nodes, "output");
    o->loc = (fx_loc){.file = p->r.loc.file, .entry = p->r.loc.entry, .node = o->name};
    g->stage = FX_STAGE_IMPORTED;
    *out = g;
    return FX_OK;
}
