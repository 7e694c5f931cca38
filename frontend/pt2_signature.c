/* frontend/pt2_signature.c: the graph signature: which inputs are the user's, parameters, buffers or constants; which outputs
 * are the user's, which are new values of buffers and inputs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

typedef struct program {
    fx_pt2_scope s;
    const fx_json_value *inputs, *outputs, *nodes;       /* of the graph */
    const fx_json_value *input_specs, *output_specs;     /* of its signature, one for each */
    const fx_arg **in_leaf, **out_leaf;     /* leaves of the input and output trees */
    int n_in_leaves, n_out_leaves, n_placeholders;
} program;

static fx_status contradiction(fx_pt2 *p, const char *what, size_t i)
{
    return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "%s %zu of the graph and of its signature differ", what, i);
}

/* A name inside {"arg": {"name": ...}} must be that of the graph's input. */
static fx_status spec_name(fx_pt2 *p, const fx_json_value *spec, const char **out)
{
    const fx_json_value *arg;
    FX_TRY(fx_json_object(&p->r, spec, "arg", &arg));
    return fx_json_string(&p->r, arg, "name", out);
}

/* user_input: a tensor or an integer that is a size. Other values were baked in by export and are given as constant_input. */
static fx_status user_input(program *g, size_t i, const fx_json_value *spec)
{
    fx_pt2 *p = g->s.p;
    const char *tag, *spec_tag, *name, *other;
    const fx_json_value *value, *arg, *spec_value;
    FX_TRY(fx_json_union(&p->r, fx_json_at(g->inputs, i), "input", &tag, &value));
    FX_TRY(fx_json_object(&p->r, spec, "arg", &arg));
    FX_TRY(fx_json_union(&p->r, arg, "arg", &spec_tag, &spec_value));
    bool is_tensor = !strcmp(tag, "as_tensor");
    if (!is_tensor && strcmp(tag, "as_sym_int") != 0)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "input %zu of kind '%s' is not supported: expected tensors", i, tag);
    const char *key = is_tensor ? "name" : "as_name";
    FX_TRY(fx_json_string(&p->r, value, key, &name));
    if (strcmp(tag, spec_tag) != 0)
        return contradiction(p, "input", i);
    FX_TRY(fx_json_string(&p->r, spec_value, key, &other));
    if (name != other)
        return contradiction(p, "input", i);
    FX_TRY(fx_pt2_placeholder(&g->s, tag, name));
    g->in_leaf[g->n_in_leaves++] = fx_arg_int(p->ctx, g->n_placeholders++);
    return FX_OK;
}

/* constant_input: a number, string or None that export specialised the graph for. Nothing in the graph can name it. */
static fx_status constant_input(program *g, const fx_json_value *spec)
{
    fx_pt2 *p = g->s.p;
    const char *name, *tag;
    const fx_json_value *value;
    FX_TRY(fx_json_string(&p->r, spec, "name", &name));
    FX_TRY(fx_json_object(&p->r, spec, "value", &value));
    FX_TRY(fx_json_union(&p->r, value, "value", &tag, &value));
    if (strcmp(tag, "as_none") != 0)
        fx_remark(p->ctx, &p->r.loc, "the input '%s' is no tensor; the model was exported for one value of it", name);
    g->in_leaf[g->n_in_leaves++] = fx_arg_none(p->ctx);
    return FX_OK;
}

static bool good_path(const char *path)
{
    size_t n = strlen(path);
    return n && path[0] != '.' && path[n - 1] != '.' && !strstr(path, "..");
}

/* parameter, buffer, tensor_constant: a get_attr node for a tensor on the module tree. */
static fx_status attribute(program *g, size_t i, const fx_json_value *spec, const char *key, bool parameter, bool persistent, bool constant)
{
    fx_pt2 *p = g->s.p;
    const char *name, *other, *fqn, *tag;
    const fx_json_value *value;
    const fx_type *type;
    FX_TRY(spec_name(p, spec, &name));
    FX_TRY(fx_json_string(&p->r, spec, key, &fqn));
    FX_TRY(fx_json_union(&p->r, fx_json_at(g->inputs, i), "input", &tag, &value));
    if (strcmp(tag, "as_tensor") != 0)
        return contradiction(p, "input", i);
    FX_TRY(fx_json_string(&p->r, value, "name", &other));
    if (name != other)
        return contradiction(p, "input", i);
    fx_loc outer = p->r.loc;
    p->r.loc.node = name;
    if (!good_path(fqn))
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected a path like 'layer1.weight', got '%s'", fqn);
    FX_TRY(fx_pt2_value_type(&g->s, "as_tensor", name, &type));
    fx_attr *a = fx_attr_find(g->s.g, fqn);
    if (!a) {
        fx_tensor t;
        FX_TRY(fx_pt2_tensor(p, constant, fqn, &t));
        bool same = type->dtype == t.dtype && type->rank == t.rank;
        for (int k = 0; same && k < t.rank; k++)
            same = !type->dims[k].sym && type->dims[k].value == t.sizes[k];
        if (!same)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "'%s' has another shape or dtype in the graph than in its file", fqn);
        a = fx_attr_add(g->s.g, fqn, &t, false);
        a->is_parameter = parameter;
        a->persistent = persistent;
        a->type = type;
    }
    fx_node *n = fx_node_new(g->s.g, FX_GET_ATTR, fqn, fx_arg_seq(p->ctx, FX_ARG_TUPLE, 0, NULL), NULL, 0, NULL, name);
    n->type = type;
    p->r.loc = outer;
    n->loc = (fx_loc){.file = outer.file, .entry = outer.entry, .node = n->name};
    return fx_pt2_bind(&g->s, name, n);
}

/* One spec. User inputs are read before the attributes, so that placeholders come first. */
static fx_status input(program *g, size_t i, bool users)
{
    fx_pt2 *p = g->s.p;
    const char *kind, *text;
    const fx_json_value *spec;
    bool persistent;
    FX_TRY(fx_json_union(&p->r, fx_json_at(g->input_specs, i), "input_specs", &kind, &spec));
    if (!strcmp(kind, "user_input"))
        return users ? user_input(g, i, spec) : FX_OK;
    if (!strcmp(kind, "constant_input"))
        return users ? constant_input(g, spec) : FX_OK;
    if (!strcmp(kind, "parameter"))
        return users ? FX_OK : attribute(g, i, spec, "parameter_name", true, true, false);
    if (!strcmp(kind, "tensor_constant"))
        return users ? FX_OK : attribute(g, i, spec, "tensor_constant_name", false, false, true);
    if (!strcmp(kind, "buffer")) {
        FX_TRY(fx_json_bool(&p->r, spec, "persistent", &persistent));
        return users ? FX_OK : attribute(g, i, spec, "buffer_name", false, persistent, !persistent);
    }
    if (!strcmp(kind, "custom_obj")) {
        FX_TRY(fx_json_string(&p->r, spec, "custom_obj_name", &text));
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "the model holds an object, '%s'; only tensors are supported", text);
    }
    if (!strcmp(kind, "token"))
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "the model has ops with effects (an effect token as input); they are not supported");
    return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "an input of kind '%s' is not supported", kind);
}

static const struct {
    const char *kind, *name_key, *what;
} state_changes[] = {
    {"buffer_mutation", "buffer_name", NULL},
    {"parameter_mutation", "parameter_name", NULL},
    {"user_input_mutation", "user_input_name", NULL},
    {"gradient_to_parameter", "parameter_name", "the model returns the gradient of '%s'; fxcc compiles inference only"},
    {"gradient_to_user_input", "user_input_name", "the model returns the gradient of input '%s'; fxcc compiles inference only"},
};

/* A new value of a buffer or input: aten.copy_ into it, as the last calls of the graph. */
static fx_status mutation(program *g, bool user, const char *target, const char *value)
{
    fx_pt2 *p = g->s.p;
    fx_node *to = user ? fx_pt2_lookup(&g->s, target) : NULL, *now = fx_pt2_lookup(&g->s, value);
    for (fx_node *n = g->s.g->first; n && !user && !to; n = n->next)
        to = n->opcode == FX_GET_ATTR && !strcmp(n->target, target) ? n : NULL;
    if (!to || !now || (user && to->opcode != FX_PLACEHOLDER))
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "the signature says that '%s' is the new value of '%s': expected a value and %s of these names",
                       value, target, user ? "an input" : "a buffer");
    fx_node *operands[2] = {to, now};
    const fx_arg *args[3] = {fx_arg_operand(p->ctx, 0), fx_arg_operand(p->ctx, 1), fx_arg_bool(p->ctx, false)};
    if (to == now)
        return FX_OK; /* nothing changed */
    fx_node *n = fx_node_new(g->s.g, FX_CALL_FUNCTION, "aten.copy_.default", fx_arg_seq(p->ctx, FX_ARG_TUPLE, 3, args), NULL, 2, operands, "copy_");
    n->type = to->type;
    n->loc = (fx_loc){.file = p->r.loc.file, .entry = p->r.loc.entry, .node = n->name, .module = now->loc.module, .frame = now->loc.frame};
    return FX_OK;
}

/* One output spec. *arg gets the graph's output argument when it is the user's, else NULL. */
static fx_status output(program *g, size_t i, fx_pt2_operands *ops, const fx_arg **arg)
{
    fx_pt2 *p = g->s.p;
    const char *kind, *name, *value;
    const fx_json_value *spec, *spec_arg;
    *arg = NULL;
    FX_TRY(fx_json_union(&p->r, fx_json_at(g->output_specs, i), "output_specs", &kind, &spec));
    if (!strcmp(kind, "user_output")) {
        FX_TRY(fx_json_object(&p->r, spec, "arg", &spec_arg));
        if (!fx_json_equal(spec_arg, fx_json_at(g->outputs, i)))
            return contradiction(p, "output", i);
        return fx_pt2_argument(&g->s, fx_json_at(g->outputs, i), ops, arg);
    }
    for (size_t k = 0; k < sizeof state_changes / sizeof *state_changes; k++) {
        if (strcmp(state_changes[k].kind, kind) != 0)
            continue;
        FX_TRY(fx_json_string(&p->r, spec, state_changes[k].name_key, &name));
        FX_TRY(spec_name(p, spec, &value));
        if (!state_changes[k].what)
            return mutation(g, !strcmp(kind, "user_input_mutation"), name, value);
        fx_text t;
        fx_text_init(&t, p->tmp);
        const char *hole = strstr(state_changes[k].what, "%s");
        fx_putn(&t, state_changes[k].what, (size_t)(hole - state_changes[k].what));
        fx_puts(&t, name);
        fx_puts(&t, hole + 2);
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "%s", t.data);
    }
    return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "an output of kind '%s' is not supported: fxcc compiles inference only", kind);
}

/* The output node: one tuple of all user outputs. */
static fx_status outputs(program *g)
{
    fx_pt2 *p = g->s.p;
    size_t n = fx_json_size(g->outputs), count = 0;
    const fx_arg **items = FX_NEW_ARRAY(p->tmp, const fx_arg *, n);
    fx_pt2_operands ops = {0};
    for (size_t i = 0; i < n; i++) {
        const fx_arg *arg;
        FX_TRY(output(g, i, &ops, &arg));
        if (!arg)
            continue;
        g->out_leaf[g->n_out_leaves++] = fx_arg_int(p->ctx, (int64_t)count);
        items[count++] = arg;
    }
    const fx_arg *tuple = fx_arg_seq(p->ctx, FX_ARG_TUPLE, (int)count, items);
    fx_node *o = fx_node_new(g->s.g, FX_OUTPUT, "output", fx_arg_seq(p->ctx, FX_ARG_TUPLE, 1, &tuple), NULL, (int)ops.n, ops.nodes, "output");
    o->loc = (fx_loc){.file = p->r.loc.file, .entry = p->r.loc.entry, .node = o->name};
    return FX_OK;
}

/* Attributes and items of tuples that nothing reads: the indices of a max pool. */
static fx_status drop_unused(fx_graph *g)
{
    for (fx_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        bool item = n->opcode == FX_CALL_FUNCTION && !strcmp(n->target, "_operator.getitem");
        if (n->n_uses == 0 && (n->opcode == FX_GET_ATTR || item))
            FX_TRY(fx_node_erase(n));
    }
    return FX_OK;
}

static bool counts_up(int n, const fx_arg *const *items)
{
    for (int i = 0; i < n; i++)
        if (items[i]->kind != FX_ARG_INT || items[i]->i != i)
            return false;
    return true;
}

/* Trees are kept only when they say something: f(a, b) of tensors and a single result, or several as a tuple, are flat. */
static fx_status trees(program *g, const fx_json_value *graph_module)
{
    fx_pt2 *p = g->s.p;
    const fx_json_value *calls, *signature;
    const char *fqn, *in_spec, *out_spec;
    const fx_arg *in, *out;
    FX_TRY(fx_json_array(&p->r, graph_module, "module_call_graph", &calls));
    if (!fx_json_size(calls))
        return FX_OK;
    const fx_json_value *whole = fx_json_at(calls, 0);
    FX_TRY(fx_json_string(&p->r, whole, "fqn", &fqn));
    FX_TRY(fx_json_optional(&p->r, whole, "signature", &signature));
    if (*fqn || !signature)
        return FX_OK;
    FX_TRY(fx_json_string(&p->r, signature, "in_spec", &in_spec));
    FX_TRY(fx_json_string(&p->r, signature, "out_spec", &out_spec));
    FX_TRY(fx_pt2_tree(p, "inputs", in_spec, g->n_in_leaves, g->in_leaf, &in));
    FX_TRY(fx_pt2_tree(p, "outputs", out_spec, g->n_out_leaves, g->out_leaf, &out));
    bool flat_in = in->kind == FX_ARG_TUPLE && in->n == 2 && in->items[0]->kind == FX_ARG_TUPLE && in->items[1]->kind == FX_ARG_DICT &&
                   in->items[1]->n == 0 && counts_up(in->items[0]->n, in->items[0]->items);
    bool flat_out = out->kind == FX_ARG_INT || (out->kind == FX_ARG_TUPLE && out->n > 1 && counts_up(out->n, out->items));
    g->s.g->in_tree = flat_in ? NULL : in;
    g->s.g->out_tree = flat_out ? NULL : out;
    return FX_OK;
}

fx_status fx_pt2_program(fx_pt2 *p, const fx_json_value *graph_module)
{
    const fx_json *r = &p->r;
    const fx_json_value *graph, *signature;
    program g = {0};
    FX_TRY(fx_json_object(r, graph_module, "graph", &graph));
    FX_TRY(fx_json_object(r, graph_module, "signature", &signature));
    FX_TRY(fx_json_array(r, graph, "inputs", &g.inputs));
    FX_TRY(fx_json_array(r, graph, "outputs", &g.outputs));
    FX_TRY(fx_json_array(r, graph, "nodes", &g.nodes));
    FX_TRY(fx_json_array(r, signature, "input_specs", &g.input_specs));
    FX_TRY(fx_json_array(r, signature, "output_specs", &g.output_specs));
    size_t n_in = fx_json_size(g.inputs), n_out = fx_json_size(g.outputs);
    if (n_in != fx_json_size(g.input_specs))
        return fx_fail(p->ctx, FX_ERR_FORMAT, &r->loc, "the graph has %zu inputs, its signature %zu", n_in, fx_json_size(g.input_specs));
    if (n_out != fx_json_size(g.output_specs))
        return fx_fail(p->ctx, FX_ERR_FORMAT, &r->loc, "the graph has %zu outputs, its signature %zu", n_out, fx_json_size(g.output_specs));
    g.in_leaf = FX_NEW_ARRAY(p->tmp, const fx_arg *, n_in);
    g.out_leaf = FX_NEW_ARRAY(p->tmp, const fx_arg *, n_out);
    FX_TRY(fx_pt2_scope_begin(p, p->graph, graph, &g.s));
    for (size_t i = 0; i < n_in; i++)
        FX_TRY(input(&g, i, true));
    for (size_t i = 0; i < n_in; i++)
        FX_TRY(input(&g, i, false));
    FX_TRY(fx_pt2_nodes(&g.s, g.nodes));
    FX_TRY(outputs(&g));
    FX_TRY(drop_unused(p->graph));
    return trees(&g, graph_module);
}
