/* frontend/pt2_args.c: arguments of calls: the union `Argument` of torch's export schema.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

enum { MAX_DEPTH = 16 };

fx_node *fx_pt2_lookup(const fx_pt2_scope *s, const char *name)
{
    return fx_map_get(&s->names, name);
}

fx_status fx_pt2_bind(fx_pt2_scope *s, const char *name, fx_node *node)
{
    if (fx_map_get(&s->names, name))
        return fx_fail(s->p->ctx, FX_ERR_FORMAT, &s->p->r.loc, "the value '%s' is made twice", name);
    fx_map_put(s->p->tmp, &s->names, name, node);
    return FX_OK;
}

/* A value by name, as the next operand. */
static fx_status operand(fx_pt2_scope *s, const char *name, fx_pt2_operands *ops, const fx_arg **out)
{
    fx_node *n = fx_pt2_lookup(s, name);
    if (!n)
        return fx_fail(s->p->ctx, FX_ERR_FORMAT, &s->p->r.loc, "uses '%s', which no earlier node makes", name);
    if (ops->n >= INT32_MAX)
        return fx_fail(s->p->ctx, FX_ERR_UNSUPPORTED, &s->p->r.loc, "too many operands");
    FX_PUSH(s->p->tmp, ops->nodes, ops->n, ops->cap) = n;
    *out = fx_arg_operand(s->p->ctx, (int)ops->n - 1);
    return FX_OK;
}

static fx_status tensor(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    const char *name;
    FX_TRY(fx_json_string(&s->p->r, v, "name", &name));
    return operand(s, name, ops, out);
}

static fx_status unknown(fx_pt2_scope *s, const char *tag)
{
    return fx_fail(s->p->ctx, FX_ERR_UNSUPPORTED, &s->p->r.loc, "an argument of kind '%s' is not supported", tag);
}

static fx_status optional_tensor(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    const char *tag;
    const fx_json_value *value;
    FX_TRY(fx_json_union(&s->p->r, v, "as_optional_tensor", &tag, &value));
    if (!strcmp(tag, "as_tensor"))
        return tensor(s, value, ops, out);
    if (strcmp(tag, "as_none") != 0)
        return unknown(s, tag);
    *out = fx_arg_none(s->p->ctx);
    return FX_OK;
}

/* SymIntArgument, SymFloatArgument, SymBoolArgument: a value's name or a constant. */
static fx_status symbolic(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    const fx_json *r = &s->p->r;
    const char *tag;
    const fx_json_value *value;
    double f;
    FX_TRY(fx_json_union(r, v, "symbolic argument", &tag, &value));
    if (!strcmp(tag, "as_name")) {
        FX_TRY(fx_json_expect(r, value, FX_JSON_STRING, tag));
        return operand(s, fx_intern(s->p->ctx, fx_json_text(value)), ops, out);
    }
    if (!strcmp(tag, "as_int")) {
        FX_TRY(fx_json_expect(r, value, FX_JSON_INT, tag));
        *out = fx_arg_int(s->p->ctx, value->i);
    } else if (!strcmp(tag, "as_float")) {
        FX_TRY(fx_json_float(r, value, &f));
        *out = fx_arg_float(s->p->ctx, f);
    } else if (!strcmp(tag, "as_bool")) {
        FX_TRY(fx_json_expect(r, value, FX_JSON_TRUE, tag));
        *out = fx_arg_bool(s->p->ctx, fx_json_is(value, FX_JSON_TRUE));
    } else {
        return unknown(s, tag);
    }
    return FX_OK;
}

static fx_status integer(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    (void)ops;
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_INT, "as_int"));
    *out = fx_arg_int(s->p->ctx, v->i);
    return FX_OK;
}

static fx_status floating(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    double f;
    (void)ops;
    FX_TRY(fx_json_float(&s->p->r, v, &f));
    *out = fx_arg_float(s->p->ctx, f);
    return FX_OK;
}

static fx_status boolean(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    (void)ops;
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_TRUE, "as_bool"));
    *out = fx_arg_bool(s->p->ctx, fx_json_is(v, FX_JSON_TRUE));
    return FX_OK;
}

static fx_status text(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    (void)ops;
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_STRING, "as_string"));
    *out = fx_arg_text(s->p->ctx, FX_ARG_STR, fx_intern(s->p->ctx, fx_json_text(v)));
    return FX_OK;
}

static fx_status none(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    (void)v;
    (void)ops;
    *out = fx_arg_none(s->p->ctx);
    return FX_OK;
}

static fx_status complex_number(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    double re, im;
    (void)ops;
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_OBJECT, "as_complex"));
    FX_TRY(fx_json_float(&s->p->r, fx_json_get(v, "real"), &re));
    FX_TRY(fx_json_float(&s->p->r, fx_json_get(v, "imag"), &im));
    *out = fx_arg_complex(s->p->ctx, re, im);
    return FX_OK;
}

static fx_status scalar_type(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    fx_dtype dtype;
    (void)ops;
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_INT, "as_scalar_type"));
    FX_TRY(fx_pt2_dtype(s->p, v->i, &dtype));
    *out = fx_arg_dtype(s->p->ctx, dtype);
    return FX_OK;
}

static fx_status layout(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    const char *name;
    (void)ops;
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_INT, "as_layout"));
    FX_TRY(fx_pt2_layout(s->p, v->i, &name));
    *out = fx_arg_text(s->p->ctx, FX_ARG_LAYOUT, name);
    return FX_OK;
}

static fx_status memory_format(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    const char *name;
    (void)ops;
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_INT, "as_memory_format"));
    FX_TRY(fx_pt2_memory_format(s->p, v->i, &name));
    *out = fx_arg_text(s->p->ctx, FX_ARG_MEMORY_FORMAT, name);
    return FX_OK;
}

static fx_status device(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    const char *name;
    (void)ops;
    FX_TRY(fx_pt2_device(s->p, v, &name));
    *out = fx_arg_text(s->p->ctx, FX_ARG_DEVICE, name);
    return FX_OK;
}

static fx_status graph(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    fx_graph *g;
    (void)ops;
    FX_TRY(fx_pt2_subgraph(s, v, &g));
    *out = fx_arg_graph(s->p->ctx, g);
    return FX_OK;
}

static fx_status custom_object(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    const char *fqn;
    (void)ops;
    (void)out;
    FX_TRY(fx_json_string(&s->p->r, v, "class_fqn", &fqn));
    return fx_fail(s->p->ctx, FX_ERR_UNSUPPORTED, &s->p->r.loc, "an argument that is an object of class '%s' is not supported", fqn);
}

/* A list whose items `item` reads. */
typedef fx_status reader(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out);

static fx_status list(fx_pt2_scope *s, const fx_json_value *v, const char *tag, reader *item, fx_pt2_operands *ops, const fx_arg **out)
{
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_ARRAY, tag));
    size_t n = fx_json_size(v);
    const fx_arg **items = FX_NEW_ARRAY(s->p->tmp, const fx_arg *, n);
    for (size_t i = 0; i < n; i++)
        FX_TRY(item(s, fx_json_at(v, i), ops, &items[i]));
    *out = fx_arg_seq(s->p->ctx, FX_ARG_LIST, (int)n, items);
    return FX_OK;
}

static fx_status tensors(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    return list(s, v, "as_tensors", tensor, ops, out);
}

static fx_status integers(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    return list(s, v, "as_ints", integer, ops, out);
}

static fx_status floats(fx_pt2_scope *s, const fx_json_value *v, fx_pt2_operands *ops, const fx_arg **out)
{
    return list(s, v, "as_floats", floating, ops, out);
}

/* What torch._export.serde.schema.Argument may hold. A kind whose name is here with a list reads items by `read`. */
static const struct kind {
    const char *tag;
    reader *read;
    bool list;
} kinds[] = {
    {"as_none", none, false},
    {"as_tensor", tensor, false},
    {"as_tensors", tensor, true},
    {"as_int", integer, false},
    {"as_ints", integer, true},
    {"as_float", floating, false},
    {"as_floats", floating, true},
    {"as_string", text, false},
    {"as_strings", text, true},
    {"as_sym_int", symbolic, false},
    {"as_sym_ints", symbolic, true},
    {"as_scalar_type", scalar_type, false},
    {"as_memory_format", memory_format, false},
    {"as_layout", layout, false},
    {"as_device", device, false},
    {"as_bool", boolean, false},
    {"as_bools", boolean, true},
    {"as_sym_bool", symbolic, false},
    {"as_sym_bools", symbolic, true},
    {"as_graph", graph, false},
    {"as_optional_tensors", optional_tensor, true},
    {"as_custom_obj", custom_object, false},
    {"as_operator", text, false},
    {"as_sym_float", symbolic, false},
    {"as_sym_floats", symbolic, true},
    {"as_optional_tensor", optional_tensor, false},
    {"as_complex", complex_number, false},
    {"as_nested_tensors", tensors, true},
    {"as_int_lists", integers, true},
    {"as_float_lists", floats, true},
};

static fx_status argument(fx_pt2_scope *s, const fx_json_value *arg, int depth, fx_pt2_operands *ops, const fx_arg **out);

/* as_string_to_argument: a dict of arguments. */
static fx_status dict(fx_pt2_scope *s, const fx_json_value *v, int depth, fx_pt2_operands *ops, const fx_arg **out)
{
    FX_TRY(fx_json_expect(&s->p->r, v, FX_JSON_OBJECT, "as_string_to_argument"));
    size_t n = fx_json_size(v);
    const char **keys = FX_NEW_ARRAY(s->p->tmp, const char *, n);
    const fx_arg **items = FX_NEW_ARRAY(s->p->tmp, const fx_arg *, n);
    for (size_t i = 0; i < n; i++) {
        keys[i] = fx_intern(s->p->ctx, v->items[i].key);
        FX_TRY(argument(s, &v->items[i], depth + 1, ops, &items[i]));
    }
    *out = fx_arg_dict(s->p->ctx, (int)n, keys, items);
    return FX_OK;
}

static fx_status argument(fx_pt2_scope *s, const fx_json_value *arg, int depth, fx_pt2_operands *ops, const fx_arg **out)
{
    const char *tag;
    const fx_json_value *value;
    FX_TRY(fx_json_union(&s->p->r, arg, "arg", &tag, &value));
    if (depth == MAX_DEPTH)
        return fx_fail(s->p->ctx, FX_ERR_UNSUPPORTED, &s->p->r.loc, "arguments are nested more than %d deep", MAX_DEPTH);
    if (!strcmp(tag, "as_string_to_argument"))
        return dict(s, value, depth, ops, out);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].tag, tag))
            return kinds[i].list ? list(s, value, tag, kinds[i].read, ops, out) : kinds[i].read(s, value, ops, out);
    return unknown(s, tag);
}

fx_status fx_pt2_argument(fx_pt2_scope *s, const fx_json_value *arg, fx_pt2_operands *ops, const fx_arg **out)
{
    return argument(s, arg, 0, ops, out);
}

fx_status fx_pt2_value_type(fx_pt2_scope *s, const char *tag, const char *name, const fx_type **out)
{
    fx_pt2 *p = s->p;
    bool tensor_value = !strcmp(tag, "as_tensor"), int_value = !strcmp(tag, "as_sym_int");
    bool bool_value = !strcmp(tag, "as_sym_bool"), float_value = !strcmp(tag, "as_sym_float");
    if (!tensor_value && !int_value && !bool_value && !float_value)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "a value of kind '%s' is not supported", tag);
    const fx_json_value *meta = fx_json_get(tensor_value ? s->tensors : int_value ? s->ints : bool_value ? s->bools : s->floats, name);
    if (!meta)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "the file does not say what type '%s' has", name);
    if (tensor_value)
        return fx_pt2_tensor_meta(p, s->g, meta, out, NULL);
    if (int_value) {
        fx_dim value;
        FX_TRY(fx_pt2_dim(p, s->g, meta, &value));
        *out = fx_type_int(p->ctx, value);
    } else {
        *out = fx_type_scalar(p->ctx, bool_value ? FX_TYPE_BOOL : FX_TYPE_FLOAT);
    }
    return FX_OK;
}
