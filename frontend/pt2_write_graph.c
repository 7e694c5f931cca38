/* frontend/pt2_write_graph.c: graphs of aten operators as torch's export schema writes them: what pt2_graph.c and pt2_args.c read.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "frontend/pt2.h"

static fx_status refuse(fx_pt2_out *w, const fx_node *n, const char *what)
{
    fx_loc loc = n->loc;
    loc.node = n->name;
    return fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &loc, "a .pt2 cannot hold %s: write a .fx", what);
}

/* ---- arguments --------------------------------------------------------------------------------------------------------- */

/* JSON has no word for them: torch writes texts. */
static void put_float(fx_pt2_out *w, double v)
{
    if (isnan(v))
        fx_puts(&w->json, "\"NaN\"");
    else if (isinf(v))
        fx_puts(&w->json, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        fx_put_double(&w->json, v);
}

static fx_status put_value(fx_pt2_out *w, const fx_node *n, const fx_arg *a, const char *what)
{
    switch (a->kind) {
    case FX_ARG_INT: fx_printf(&w->json, "%lld", (long long)a->i); return FX_OK;
    case FX_ARG_FLOAT: put_float(w, a->f); return FX_OK;
    case FX_ARG_BOOL: fx_puts(&w->json, a->b ? "true" : "false"); return FX_OK;
    case FX_ARG_STR: fx_pt2_put(w, a->s); return FX_OK;
    default: return refuse(w, n, fx_arena_printf(w->tmp, "%s as %s", fx_arg_kind_name(a->kind), what));
    }
}

static void put_name(fx_pt2_out *w, const fx_node *n, const fx_arg *a)
{
    fx_puts(&w->json, "{\"name\": ");
    fx_pt2_put(w, w->names[n->operands[a->i].def->id]);
    fx_puts(&w->json, "}");
}

static bool is_tensor(const fx_node *n, const fx_arg *a)
{
    const fx_type *t = a->kind == FX_ARG_NODE ? n->operands[a->i].def->type : NULL;
    return t && t->kind == FX_TYPE_TENSOR;
}

/* A size that is known when the graph runs. */
static bool is_size(const fx_node *n, const fx_arg *a)
{
    const fx_type *t = a->kind == FX_ARG_NODE ? n->operands[a->i].def->type : NULL;
    return t && t->kind == FX_TYPE_INT;
}

static void put_size_name(fx_pt2_out *w, const fx_node *n, const fx_arg *a)
{
    fx_puts(&w->json, "{\"as_name\": ");
    fx_pt2_put(w, w->names[n->operands[a->i].def->id]);
    fx_puts(&w->json, "}");
}

/* Integers some of which are sizes. */
static fx_status put_sizes(fx_pt2_out *w, const fx_node *n, const fx_arg *a)
{
    fx_puts(&w->json, "{\"as_sym_ints\": [");
    for (int i = 0; i < a->n; i++) {
        fx_puts(&w->json, i ? ", " : "");
        if (is_size(n, a->items[i]))
            put_size_name(w, n, a->items[i]);
        else if (a->items[i]->kind == FX_ARG_INT)
            fx_printf(&w->json, "{\"as_int\": %lld}", (long long)a->items[i]->i);
        else
            return refuse(w, n, fx_arena_printf(w->tmp, "%s among sizes", fx_arg_kind_name(a->items[i]->kind)));
    }
    fx_puts(&w->json, "]}");
    return FX_OK;
}

/* A list of plain values of one kind: as_ints and the like. An empty one goes by what the parameter says. */
static const char *list_tag(const fx_param *p, const fx_arg *a)
{
    fx_arg_kind kind = a->n ? a->items[0]->kind : FX_ARG_NONE;
    fx_param_kind says = p ? p->kind : FX_PARAM_ANY;
    if (says == FX_PARAM_FLOATS || kind == FX_ARG_FLOAT)
        return "as_floats";
    if (says == FX_PARAM_BOOLS || kind == FX_ARG_BOOL)
        return "as_bools";
    return kind == FX_ARG_STR ? "as_strings" : "as_ints";
}

static fx_status put_list(fx_pt2_out *w, const fx_node *n, const fx_param *p, const fx_arg *a)
{
    bool tensors = p && p->kind == FX_PARAM_TENSORS, optional = tensors && p->optional_items;
    for (int i = 0; i < a->n; i++)
        if (is_size(n, a->items[i]))
            return put_sizes(w, n, a);
    for (int i = 0; i < a->n; i++)
        if (tensors && !is_tensor(n, a->items[i]) && !(optional && a->items[i]->kind == FX_ARG_NONE))
            return refuse(w, n, "a list that is not of tensors only");
    fx_printf(&w->json, "{\"%s\": [", optional ? "as_optional_tensors" : tensors ? "as_tensors" : list_tag(p, a));
    for (int i = 0; i < a->n; i++) {
        fx_puts(&w->json, i ? ", " : "");
        if (!tensors) {
            FX_TRY(put_value(w, n, a->items[i], "an item of a list"));
        } else if (optional) {
            if (a->items[i]->kind == FX_ARG_NONE) {
                fx_puts(&w->json, "{\"as_none\": true}");
            } else {
                fx_puts(&w->json, "{\"as_tensor\": ");
                put_name(w, n, a->items[i]);
                fx_puts(&w->json, "}");
            }
        } else {
            put_name(w, n, a->items[i]);
        }
    }
    fx_puts(&w->json, "]}");
    return FX_OK;
}

static fx_status put_tagged(fx_pt2_out *w, const fx_node *n, const char *tag, const fx_arg *a)
{
    fx_printf(&w->json, "{\"%s\": ", tag);
    FX_TRY(put_value(w, n, a, "an argument"));
    fx_puts(&w->json, "}");
    return FX_OK;
}

fx_status fx_pt2_put_argument(fx_pt2_out *w, const fx_node *n, const fx_param *p, const fx_arg *a)
{
    int number;
    switch (a->kind) {
    case FX_ARG_NONE: fx_puts(&w->json, "{\"as_none\": true}"); return FX_OK;
    case FX_ARG_NODE:
        if (is_size(n, a)) {
            fx_puts(&w->json, "{\"as_sym_int\": ");
            put_size_name(w, n, a);
            fx_puts(&w->json, "}");
            return FX_OK;
        }
        if (!is_tensor(n, a))
            return refuse(w, n, fx_arena_printf(w->tmp, "'%s', which is no tensor, as an argument", n->operands[a->i].def->name));
        fx_puts(&w->json, "{\"as_tensor\": ");
        put_name(w, n, a);
        fx_puts(&w->json, "}");
        return FX_OK;
    case FX_ARG_BOOL: return put_tagged(w, n, "as_bool", a);
    case FX_ARG_INT: return put_tagged(w, n, "as_int", a);
    case FX_ARG_FLOAT: return put_tagged(w, n, "as_float", a);
    case FX_ARG_STR: return put_tagged(w, n, "as_string", a);
    case FX_ARG_COMPLEX:
        fx_puts(&w->json, "{\"as_complex\": {\"real\": ");
        put_float(w, a->f);
        fx_puts(&w->json, ", \"imag\": ");
        put_float(w, a->im);
        fx_puts(&w->json, "}}");
        return FX_OK;
    case FX_ARG_DTYPE: fx_printf(&w->json, "{\"as_scalar_type\": %d}", fx_pt2_dtype_number((fx_dtype)a->i)); return FX_OK;
    case FX_ARG_DEVICE: fx_puts(&w->json, "{\"as_device\": {\"type\": \"cpu\", \"index\": null}}"); return FX_OK;
    case FX_ARG_LAYOUT:
        number = fx_pt2_layout_number(a->s);
        if (!number)
            break;
        fx_printf(&w->json, "{\"as_layout\": %d}", number);
        return FX_OK;
    case FX_ARG_MEMORY_FORMAT:
        number = fx_pt2_memory_format_number(a->s);
        if (!number)
            break;
        fx_printf(&w->json, "{\"as_memory_format\": %d}", number);
        return FX_OK;
    case FX_ARG_LIST:
    case FX_ARG_TUPLE: return put_list(w, n, p, a);
    default: break;
    }
    return refuse(w, n, fx_arena_printf(w->tmp, "%s as an argument", fx_arg_kind_name(a->kind)));
}

/* ---- names ---------------------------------------------------------------------------------------------------------------- */

static bool is_item(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && n->op && n->op->id == FX_OP_getitem;
}

/* The name of result i of a node: that of the first node that takes it, else one of its own. */
static const char *item_name(fx_pt2_out *w, const fx_node *n, int i)
{
    for (const fx_use *u = n->first_use; u; u = u->next)
        if (is_item(u->user) && fx_node_int(u->user, 1) == i)
            return w->names[u->user->id];
    const char *name = fx_intern_f(w->ctx, "%s_unused_%d", n->name, i);
    while (fx_graph_find_node(w->g, name))
        name = fx_intern_f(w->ctx, "%s_", name);
    return name;
}

/* Nodes that read one attribute have one name, as those that take one item of a tuple. */
static void name_nodes(fx_pt2_out *w)
{
    fx_map items = {0}; /* node -> names by index */
    FX_FOR_NODES(w->g, n) {
        w->names[n->id] = n->name;
        if (n->opcode == FX_GET_ATTR) {
            const fx_attr *a = fx_attr_find(w->g, n->target);
            const char *known = a ? fx_map_get(&w->inputs, a) : NULL;
            if (a && !known)
                fx_map_put(w->tmp, &w->inputs, a, (void *)(uintptr_t)n->name);
            w->names[n->id] = known ? known : n->name;
        } else if (is_item(n)) {
            const fx_node *from = n->operands[0].def;
            int64_t i = fx_node_int(n, 1);
            const char **names = fx_map_get(&items, from);
            if (!from->type || from->type->kind != FX_TYPE_TUPLE || i < 0 || i >= from->type->n)
                continue; /* refused with the node it takes from */
            if (!names) {
                names = FX_NEW_ARRAY(w->tmp, const char *, from->type->n);
                fx_map_put(w->tmp, &items, from, names);
            }
            if (names[i])
                w->names[n->id] = names[i];
            names[i] = w->names[n->id];
        }
    }
    for (size_t i = 0; i < w->n_attrs; i++) {
        const fx_attr *a = w->attrs[i];
        if (fx_map_get(&w->inputs, a))
            continue;
        char *name = fx_arena_printf(w->tmp, "%s_%s", a->is_parameter ? "p" : "b", a->path);
        for (char *c = name; *c; c++)
            if (!((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z')))
                *c = '_';
        const char *free_name = fx_intern(w->ctx, name);
        for (size_t k = 1; fx_graph_find_node(w->g, free_name) || fx_map_get(&w->inputs, free_name); k++)
            free_name = fx_intern_f(w->ctx, "%s_%zu", name, k);
        fx_map_put(w->tmp, &w->inputs, free_name, (void *)(uintptr_t)free_name);
        fx_map_put(w->tmp, &w->inputs, a, (void *)(uintptr_t)free_name);
    }
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------------- */

/* "resnet.py:92" as a line of a stack trace. */
static void put_frame(fx_pt2_out *w, const char *frame)
{
    const char *colon = strrchr(frame, ':');
    if (colon)
        fx_pt2_put(w, fx_arena_printf(w->tmp, "  File \"%.*s\", line %s, in forward", (int)(colon - frame), frame, colon + 1));
    else
        fx_pt2_put(w, frame);
}

/* The modules on the way to where the node is, outermost first: "key,path,class;..". */
static void put_modules(fx_pt2_out *w, const char *path)
{
    static const char plain[] = "torch.nn.modules.module.Module";
    fx_text t;
    fx_text_init(&t, w->tmp);
    if (w->g->root->class_name)
        fx_printf(&t, "L__self__,,%s", w->g->root->class_name);
    for (const char *end = path;; end++) {
        if (*end && *end != '.')
            continue;
        const char *part = fx_intern_n(w->ctx, path, (size_t)(end - path));
        const fx_module *m = fx_module_find(w->g, part);
        if (*path && (!*end || (m && m->class_name)))
            fx_printf(&t, "%sL__self__%s,%s,%s", t.size ? ";" : "", part, part, m && m->class_name ? m->class_name : plain);
        if (!*end)
            break;
    }
    fx_pt2_put(w, t.data);
}

static void put_metadata(fx_pt2_out *w, const fx_node *n)
{
    const char *m = n->loc.module;
    if (!m)
        m = "";
    bool module = (*m || w->g->root->class_name) && !strpbrk(m, ",;[]()@'\""); /* signs of the text that holds them */
    fx_puts(&w->json, "\"metadata\": {");
    if (n->loc.frame) {
        fx_puts(&w->json, "\"stack_trace\": ");
        put_frame(w, n->loc.frame);
    }
    if (module) {
        fx_puts(&w->json, n->loc.frame ? ", \"nn_module_stack\": " : "\"nn_module_stack\": ");
        put_modules(w, m);
    }
    fx_puts(&w->json, "}");
}

/* Results: a tensor, several, a list of them, or none. */
static fx_status put_results(fx_pt2_out *w, const fx_node *n)
{
    const fx_type *t = n->type;
    fx_puts(&w->json, "\"outputs\": [");
    if (t && t->kind == FX_TYPE_TENSOR) {
        fx_puts(&w->json, "{\"as_tensor\": {\"name\": ");
        fx_pt2_put(w, w->names[n->id]);
        fx_puts(&w->json, "}}");
    } else if (t && t->kind == FX_TYPE_TUPLE) {
        bool list = fx_op_schema(w->ctx, n->op)->n_returns < 0;
        fx_puts(&w->json, list ? "{\"as_tensors\": [" : "");
        for (int i = 0; i < t->n; i++) {
            if (!t->items[i] || t->items[i]->kind != FX_TYPE_TENSOR)
                return refuse(w, n, "a node whose results are not all tensors");
            fx_puts(&w->json, i ? ", " : "");
            fx_puts(&w->json, list ? "{\"name\": " : "{\"as_tensor\": {\"name\": ");
            fx_pt2_put(w, item_name(w, n, i));
            fx_puts(&w->json, list ? "}" : "}}");
        }
        fx_puts(&w->json, list ? "]}" : "");
    } else if (t && t->kind == FX_TYPE_INT) {
        fx_puts(&w->json, "{\"as_sym_int\": {\"as_name\": ");
        fx_pt2_put(w, w->names[n->id]);
        fx_puts(&w->json, "}}");
    } else if (!t || t->kind != FX_TYPE_NONE) {
        return refuse(w, n, t ? "a node whose result is no tensor" : "a node of unknown type");
    }
    fx_puts(&w->json, "], ");
    return FX_OK;
}

/* What Python's operators are to tensors: torch.export writes rows of aten. */
static const char *target_of(fx_pt2_out *w, const fx_node *n)
{
    const char *dot = strrchr(n->op->name, '.');
    if (!fx_node_is_inplace(n))
        return n->op->name;
    return fx_arena_printf(w->tmp, "%.*s_%s", (int)(dot - n->op->name), n->op->name, dot);
}

static fx_status put_rest(fx_pt2_out *w, const fx_node *n)
{
    fx_puts(&w->json, "], ");
    FX_TRY(put_results(w, n));
    put_metadata(w, n);
    fx_puts(&w->json, ", \"is_hop_single_tensor_return\": null, \"name\": ");
    fx_pt2_put(w, n->name);
    fx_puts(&w->json, "}");
    return FX_OK;
}

/* Arithmetic of sizes: Python's operators, whose operands torch calls a and b. */
static bool is_arithmetic(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && n->type && n->type->kind == FX_TYPE_INT && strncmp(n->target, "_operator.", 10) == 0;
}

static fx_status put_arithmetic(fx_pt2_out *w, const fx_node *n)
{
    fx_puts(&w->json, "{\"target\": ");
    fx_pt2_put(w, n->target);
    fx_puts(&w->json, ", \"inputs\": [");
    for (int i = 0; i < n->args->n && i < 2; i++) {
        fx_printf(&w->json, "%s{\"name\": \"%c\", \"arg\": ", i ? ", " : "", 'a' + i);
        FX_TRY(fx_pt2_put_argument(w, n, NULL, n->args->items[i]));
        fx_puts(&w->json, ", \"kind\": 1}");
    }
    return put_rest(w, n);
}

static fx_status put_call(fx_pt2_out *w, const fx_node *n)
{
    if (is_arithmetic(n))
        return put_arithmetic(w, n);
    if (n->opcode != FX_CALL_FUNCTION)
        return refuse(w, n, fx_arena_printf(w->tmp, "%s '%s' (the pass legalize makes aten operators of such)", fx_opcode_name(n->opcode),
                                            n->target));
    if (!n->op || strncmp(n->op->name, "aten.", 5) != 0)
        return refuse(w, n, fx_arena_printf(w->tmp, "a call of '%s', which is no aten operator fxcc knows", n->target));
    const fx_schema *s = fx_op_schema(w->ctx, n->op);
    int positional = 0;
    for (int i = 0; i < n->args->n && i < s->n; i++) /* defaults at the end are left out, as torch does */
        if (!s->params[i].keyword_only && n->args->items[i] != s->params[i].def)
            positional = i + 1;
    fx_puts(&w->json, "{\"target\": ");
    fx_pt2_put(w, fx_arena_printf(w->tmp, "torch.ops.%s", target_of(w, n)));
    fx_puts(&w->json, ", \"inputs\": [");
    bool some = false;
    for (int i = 0; i < n->args->n && i < s->n; i++) {
        const fx_param *p = &s->params[i];
        if (p->keyword_only ? n->args->items[i] == p->def : i >= positional)
            continue;
        fx_printf(&w->json, "%s{\"name\": \"%s\", \"arg\": ", some ? ", " : "", i == 0 && fx_node_is_inplace(n) ? "self" : p->name);
        FX_TRY(fx_pt2_put_argument(w, n, p, n->args->items[i]));
        fx_printf(&w->json, ", \"kind\": %d}", p->keyword_only ? 2 : 1);
        some = true;
    }
    return put_rest(w, n);
}

/* ---- types of values ------------------------------------------------------------------------------------------------------- */

static fx_status put_value_type(fx_pt2_out *w, const fx_node *n, const char *name, const fx_type *t, bool *some)
{
    if (!t || t->kind != FX_TYPE_TENSOR)
        return refuse(w, n, "a node whose results are not all tensors");
    fx_puts(&w->json, *some ? ", " : "");
    fx_pt2_put(w, name);
    fx_puts(&w->json, ": ");
    fx_pt2_put_type(w, t, false);
    *some = true;
    return FX_OK;
}

static fx_status put_types(fx_pt2_out *w)
{
    bool some = false;
    fx_puts(&w->json, "\"tensor_values\": {");
    for (size_t i = 0; i < w->n_attrs; i++) {
        const fx_tensor *t = &w->attrs[i]->tensor;
        fx_puts(&w->json, some ? ", " : "");
        fx_pt2_put(w, fx_map_get(&w->inputs, w->attrs[i]));
        fx_puts(&w->json, ": ");
        fx_pt2_put_window(w, t, 0, w->attrs[i]->is_parameter);
        some = true;
    }
    FX_FOR_NODES(w->g, n) {
        if (n->opcode == FX_GET_ATTR || n->opcode == FX_OUTPUT || is_item(n) || !n->type)
            continue;
        if (n->type->kind == FX_TYPE_TENSOR)
            FX_TRY(put_value_type(w, n, w->names[n->id], n->type, &some));
        for (int i = 0; n->type->kind == FX_TYPE_TUPLE && i < n->type->n; i++)
            FX_TRY(put_value_type(w, n, item_name(w, n, i), n->type->items[i], &some));
    }
    fx_puts(&w->json, "}, \"sym_int_values\": {");
    some = false;
    FX_FOR_NODES(w->g, n) {
        if (n->opcode != FX_CALL_FUNCTION || !n->type || n->type->kind != FX_TYPE_INT)
            continue;
        fx_puts(&w->json, some ? ", " : "");
        fx_pt2_put(w, w->names[n->id]);
        fx_puts(&w->json, ": ");
        fx_pt2_put_dim(w, n->type->value);
        some = true;
    }
    fx_puts(&w->json, "}, \"sym_bool_values\": {}, \"is_single_tensor_return\": false, "
                      "\"custom_obj_values\": {}, \"sym_float_values\": {}");
    return FX_OK;
}

fx_status fx_pt2_put_graph(fx_pt2_out *w)
{
    const fx_node *out = fx_graph_output_node(w->g);
    bool some = false;
    name_nodes(w);
    fx_puts(&w->json, "{\"inputs\": [");
    for (size_t i = 0; i < w->n_attrs; i++, some = true) {
        fx_puts(&w->json, some ? ", {\"as_tensor\": {\"name\": " : "{\"as_tensor\": {\"name\": ");
        fx_pt2_put(w, fx_map_get(&w->inputs, w->attrs[i]));
        fx_puts(&w->json, "}}");
    }
    FX_FOR_NODES(w->g, n) {
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        if (!n->type || n->type->kind != FX_TYPE_TENSOR)
            return refuse(w, n, "an input that is no tensor of known type");
        fx_puts(&w->json, some ? ", {\"as_tensor\": {\"name\": " : "{\"as_tensor\": {\"name\": ");
        fx_pt2_put(w, n->name);
        fx_puts(&w->json, "}}");
        some = true;
    }
    fx_puts(&w->json, "], \"outputs\": [");
    const fx_arg *results = out->args->n ? out->args->items[0] : NULL;
    if (!results || results->kind != FX_ARG_TUPLE)
        return refuse(w, out, "an output that is no tuple");
    for (int i = 0; i < results->n; i++) {
        fx_puts(&w->json, i ? ", " : "");
        FX_TRY(fx_pt2_put_argument(w, out, NULL, results->items[i]));
    }
    fx_puts(&w->json, "], \"nodes\": [");
    some = false;
    fx_status status = FX_OK;
    FX_FOR_NODES(w->g, n) { /* all that cannot be written are named */
        if (n->opcode == FX_PLACEHOLDER || n->opcode == FX_GET_ATTR || n->opcode == FX_OUTPUT || is_item(n))
            continue;
        fx_puts(&w->json, some ? ", " : "");
        fx_status one = put_call(w, n);
        status = status == FX_OK ? one : status;
        some = true;
    }
    FX_TRY(status);
    fx_puts(&w->json, "], ");
    FX_TRY(put_types(w));
    fx_puts(&w->json, "}");
    return FX_OK;
}
