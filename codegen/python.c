/* codegen/python.c: graphs as Python code.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The layout is that of torch.fx's Graph.python_code, blanks and empty lines included: a statement a node, values freed behind their last
 * use. Where FX's text would not run or mean something else (a submodule called `class`, `-2 ** x`, a parameter called `torch`) this one
 * says it otherwise. */
#include <math.h>
#include <string.h>

#include "codegen/names.h"
#include "codegen/python.h"

enum { DEEPEST = 50 }; /* classes within classes */

static fx_status refuse(fx_python *p, const fx_node *n, const char *what)
{
    if (p->status == FX_OK)
        p->status = fx_fail(p->ctx, FX_ERR_ARGUMENT, &n->loc, "%s", what);
    return p->status;
}

/* ---- types and source lines of print_readable ------------------------------------------------------------------------------ */

static void put_dims(fx_text *t, int n, const fx_dim *dims)
{
    fx_puts(t, "[");
    for (int i = 0; i < n; i++) {
        fx_puts(t, i ? ", " : "");
        if (dims[i].sym)
            fx_sym_print(t, dims[i].sym);
        else
            fx_python_put_int(t, dims[i].value);
    }
    fx_puts(t, "]");
}

static bool is_dense(const fx_type *type)
{
    int64_t step = 1;
    for (int i = type->rank - 1; i >= 0; i--) {
        const fx_dim *d = &type->dims[i], *s = &type->strides[i];
        if (d->sym || s->sym)
            return true; /* sizes are shown; nothing is known to be odd */
        if (d->value != 1 && s->value != step)
            return false;
        if (__builtin_mul_overflow(step, d->value, &step))
            return true;
    }
    return true;
}

/* What Python evaluates at the definition without fail: a class of torch by its full name, or one of its own. */
static bool is_hint(const char *s)
{
    static const char *const classes[] = {"int", "float", "bool", "str", "complex", "bytes", "list", "tuple", "dict", "set", "slice", "object"};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(s, classes[i]) == 0)
            return true;
    }
    return strncmp(s, "torch.", 6) == 0;
}

/* A type hint of the traced function, which fxcc_export notes: "torch.Tensor". NULL when there is none. */
static const char *hint_of(fx_python *p, const fx_node *n)
{
    for (const fx_meta *m = n->meta; m; m = m->next) {
        if (strcmp(m->key, "annotation") == 0 && m->value->kind == FX_ARG_STR && is_hint(m->value->s))
            return fx_python_callable(p, m->value->s);
    }
    return NULL;
}

/* Behind a name: in print_readable `: "f32[1, 3]"`, with strides where they are not those of a dense tensor; else a hint, ` : torch.Tensor`. */
static void put_type(fx_python *p, fx_text *t, const fx_node *n)
{
    const fx_type *type = p->readable ? n->type : NULL;
    if (type && type->kind == FX_TYPE_TENSOR) {
        fx_puts(t, ": \"");
        fx_puts(t, type->dtype == FX_BOOL ? "b8" : fx_dtype_short(type->dtype));
        put_dims(t, type->rank, type->dims);
        if (type->strides && !is_dense(type))
            put_dims(t, type->rank, type->strides);
        fx_puts(t, "\"");
    } else if (type && type->kind == FX_TYPE_INT && type->value.sym) {
        fx_puts(t, ": \"Sym(");
        fx_sym_print(t, type->value.sym);
        fx_puts(t, ")\"");
    } else if (n->meta) {
        const char *hint = hint_of(p, n);
        fx_puts(t, hint ? " : " : "");
        fx_puts(t, hint ? hint : "");
    }
}

static void put_source(fx_python *p, const fx_node *n, const fx_loc **last)
{
    fx_text *t = &p->body;
    const fx_loc *loc = &n->loc;
    if (!p->readable || n->opcode == FX_PLACEHOLDER || n->opcode == FX_OUTPUT)
        return;
    if (*last && (*last)->frame == loc->frame && (*last)->module == loc->module)
        return;
    *last = loc;
    fx_puts(t, t->size ? "\n# " : "# ");
    if (loc->frame) {
        fx_puts(t, "File: ");
        fx_put_comment(t, loc->frame, 200);
    }
    if (loc->module) {
        fx_puts(t, loc->frame ? ", module: " : "module: ");
        fx_put_comment(t, loc->module, 200);
    }
    fx_puts(t, loc->frame || loc->module ? "\n" : "No stacktrace found for following nodes\n");
}

/* ---- freeing ---------------------------------------------------------------------------------------------------------------- */

/* Values each node is the last to use: of node i those at list[start[i]] .. list[start[i] + count[i] - 1]. */
typedef struct last_uses {
    const fx_node **list;
    uint32_t *start, *count;
} last_uses;

static last_uses find_last_uses(fx_python *p)
{
    const fx_graph *g = p->g;
    last_uses u = {FX_NEW_ARRAY(p->tmp, const fx_node *, g->n_nodes + 1), FX_NEW_ARRAY(p->tmp, uint32_t, g->n_ids + 1),
                   FX_NEW_ARRAY(p->tmp, uint32_t, g->n_ids + 1)};
    bool *seen = FX_NEW_ARRAY(p->tmp, bool, g->n_ids + 1);
    uint32_t n_list = 0;
    for (const fx_node *n = g->last; n; n = n->prev) {
        u.start[n->id] = n_list;
        for (int i = 0; i < n->n_operands; i++) {
            const fx_node *def = n->operands[i].def;
            if (seen[def->id] || def->graph != g)
                continue;
            seen[def->id] = true;
            u.list[n_list++] = def;
        }
        u.count[n->id] = n_list - u.start[n->id];
    }
    return u;
}

static void put_freeing(fx_python *p, const fx_node *n, const last_uses *u)
{
    fx_text *t = &p->body;
    bool unused = n->n_uses == 0;
    if (n->opcode != FX_OUTPUT && (u->count[n->id] || unused)) {
        fx_putn(t, ";  ", 3);
        for (uint32_t i = 0; i < u->count[n->id]; i++) {
            fx_puts(t, fx_python_node_name(p, u->list[u->start[n->id] + i]));
            fx_putn(t, " = ", 3);
        }
        if (unused) {
            fx_puts(t, fx_python_node_name(p, n));
            fx_putn(t, " = ", 3);
        }
        fx_putn(t, "None", 4);
    }
    fx_putn(t, "\n", 1);
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------ */

static bool is_word(const char *s)
{
    return fx_is_identifier(s) && !fx_is_python_keyword(s);
}

/* ", key = value"; a key that is no word of Python's as **{'key': value}. */
static void put_keyword(fx_python *p, const char *key, const fx_arg *a, const fx_node *n, bool first)
{
    fx_text *t = &p->body;
    bool word = is_word(key);
    fx_puts(t, first ? "" : ", ");
    if (word) {
        fx_puts(t, key);
        fx_puts(t, " = ");
    } else {
        fx_puts(t, "**{");
        fx_python_put_string(t, key);
        fx_puts(t, ": ");
    }
    fx_python_put_arg(p, t, a, n);
    fx_puts(t, word ? "" : "}");
}

/* (args, key = value), from argument `from` on. */
static void put_args(fx_python *p, const fx_node *n, int from)
{
    fx_text *t = &p->body;
    fx_putn(t, "(", 1);
    for (int i = from; i < n->args->n; i++) {
        if (i > from)
            fx_putn(t, ", ", 2);
        fx_python_put_arg(p, t, n->args->items[i], n);
    }
    for (int i = 0; i < n->kwargs->n; i++)
        put_keyword(p, n->kwargs->keys[i], n->kwargs->items[i], n, i == 0 && n->args->n <= from);
    fx_putn(t, ")", 1);
}

/* The same of a normalised call, which has every parameter by position: as one would write it, defaults left out and keyword-only
 * parameters by keyword. */
static void put_normal_args(fx_python *p, const fx_node *n, const fx_py_target *target)
{
    fx_text *t = &p->body;
    const fx_schema *s = target->schema;
    const fx_arg *const *items = n->args->items;
    int by_position = 0;
    for (int i = 0; i < s->n; i++) {
        if (!s->params[i].keyword_only && items[i] != target->defaults[i])
            by_position = i + 1;
    }
    fx_putn(t, "(", 1);
    for (int i = 0; i < by_position; i++) {
        if (i)
            fx_putn(t, ", ", 2);
        fx_python_put_arg(p, t, items[i], n);
    }
    bool first = by_position == 0;
    for (int i = 0; i < s->n; i++) {
        if (!s->params[i].keyword_only || items[i] == target->defaults[i])
            continue;
        put_keyword(p, s->params[i].name, items[i], n, first);
        first = false;
    }
    fx_putn(t, ")", 1);
}

/* A number that Python spells with a sign before it, which binds weaker than `**`. */
static bool has_sign(const fx_arg *a)
{
    return (a->kind == FX_ARG_INT && a->i < 0) || (a->kind == FX_ARG_FLOAT && signbit(a->f)) ||
           (a->kind == FX_ARG_COMPLEX && a->f == 0 && signbit(a->im));
}

/* x + y, -x, x[i] */
static void put_infix(fx_python *p, const fx_node *n, const fx_py_target *target)
{
    fx_text *t = &p->body;
    const fx_arg *const *a = n->args->items;
    bool index = target->text[0] == '[';
    if (target->operands == 1) {
        fx_puts(t, target->text);
        fx_python_put_arg(p, t, a[0], n);
        return;
    }
    if (index || (has_sign(a[0]) && strcmp(target->text, " ** ") == 0))
        fx_python_put_primary(p, t, a[0], n);
    else
        fx_python_put_arg(p, t, a[0], n);
    fx_puts(t, target->text);
    fx_python_put_arg(p, t, a[1], n);
    if (index)
        fx_putn(t, "]", 1);
}

/* x += y and x[i] = y change an object that has a name, and rebind the name where the object cannot change. */
static bool is_changed_by_name(const fx_node *n)
{
    const fx_arg *a = n->args->items[0];
    const fx_type *type = a->kind == FX_ARG_NODE ? n->operands[a->i].def->type : NULL;
    return a->kind == FX_ARG_NODE && (!type || type->kind == FX_TYPE_TENSOR);
}

static void put_name(fx_python *p, const fx_node *n)
{
    fx_puts(&p->body, fx_python_node_name(p, n));
    put_type(p, &p->body, n);
    fx_putn(&p->body, " = ", 3);
}

static void put_function(fx_python *p, const fx_node *n)
{
    fx_text *t = &p->body;
    const fx_py_target *target = fx_python_target(p, n);
    int n_args = n->args->n;
    bool normal = target->schema && n->kwargs->n == 0 && n_args == target->schema->n;
    /* A normalised `x + y` has aten.add's alpha too, which is 1. */
    bool fits = target->operands && n->kwargs->n == 0 && (n_args == target->operands || (normal && n_args > target->operands));
    if (target->call == FX_PY_INFIX && fits) {
        put_name(p, n);
        put_infix(p, n, target);
        return;
    }
    if (target->call == FX_PY_INPLACE && fits && is_changed_by_name(n)) {
        const fx_arg *const *a = n->args->items;
        fx_python_put_arg(p, t, a[0], n);
        fx_puts(t, target->text);
        fx_python_put_arg(p, t, a[1], n);
        if (target->operands == 3) {
            fx_puts(t, "] = ");
            fx_python_put_arg(p, t, a[2], n);
        }
        fx_puts(t, ";  ");
        put_name(p, n);
        fx_python_put_arg(p, t, a[0], n);
        return;
    }
    put_name(p, n);
    const fx_arg *const *a = n->args->items;
    if (target->call == FX_PY_GETATTR && n_args == 2 && n->kwargs->n == 0 && a[1]->kind == FX_ARG_STR && is_word(a[1]->s)) {
        fx_python_put_primary(p, t, a[0], n);
        fx_puts(t, ".");
        fx_puts(t, a[1]->s);
        return;
    }
    const char *callable = target->text && target->call != FX_PY_INFIX && target->call != FX_PY_INPLACE
                               ? target->text : fx_python_callable(p, n->target);
    fx_puts(t, callable);
    if (normal)
        put_normal_args(p, n, target);
    else
        put_args(p, n, 0);
    for (const fx_meta *m = n->meta; m; m = m->next) {
        /* FX's note on functions of torch.fx.wrap; the module says so once a function. */
        if (strcmp(m->key, "is_wrapped") == 0 && m->value->kind == FX_ARG_BOOL && m->value->b && is_word(callable)) {
            const char *key = fx_intern_f(p->ctx, "wrap:%s", callable);
            if (!fx_map_get(&p->globals, key))
                fx_printf(&p->wraps, "%s%s(\"%s\")", p->wraps.size ? "\n" : "", fx_python_callable(p, "torch.fx._symbolic_trace.wrap"), callable);
            fx_map_put(p->tmp, &p->globals, key, p);
        }
    }
}

static void put_method(fx_python *p, const fx_node *n)
{
    fx_text *t = &p->body;
    if (n->args->n == 0) {
        refuse(p, n, "a call of a method needs its object as first argument");
        return;
    }
    fx_text base;
    fx_text_init(&base, p->tmp);
    const fx_arg *self = n->args->items[0];
    put_name(p, n);
    if (self->kind == FX_ARG_NODE) {
        fx_python_put_path(p, t, fx_python_node_name(p, n->operands[self->i].def), n->target);
    } else {
        fx_python_put_primary(p, &base, self, n);
        fx_python_put_path(p, t, base.data, n->target);
    }
    put_args(p, n, 1);
}

/* ---- inputs and outputs --------------------------------------------------------------------------------------------------------- */

static void put_parameter(fx_python *p, const char *name)
{
    fx_puts(&p->head, p->head.size ? ", " : "");
    fx_puts(&p->head, name);
}

/* Takes a word as a parameter's name where Python can say it and no other parameter has it. */
static const char *take_parameter(fx_python *p, const char *word)
{
    const char *name = fx_intern(p->ctx, word);
    if (!is_word(name) || fx_map_get(&p->taken, name))
        return NULL;
    fx_map_put(p->tmp, &p->taken, name, p);
    return name;
}

/* What placeholders are called in the signature: their targets first of all, so that callers' keywords hold; then their names. */
static const char **name_parameters(fx_python *p, size_t n_inputs, fx_node *const *inputs)
{
    const char **names = FX_NEW_ARRAY(p->tmp, const char *, n_inputs);
    for (size_t i = 0; i < n_inputs; i++)
        names[i] = take_parameter(p, inputs[i]->target + strspn(inputs[i]->target, "*"));
    for (size_t i = 0; i < n_inputs; i++) {
        const char *own = fx_python_node_name(p, inputs[i]);
        if (!names[i])
            names[i] = take_parameter(p, own);
        if (!names[i])
            names[i] = fx_python_free_name(p, own);
    }
    return names;
}

static void set_local(fx_python *p, const fx_node *n, const char *name)
{
    if (!p->local)
        p->local = FX_NEW_ARRAY(p->tmp, const char *, p->g->n_ids);
    p->local[n->id] = name;
}

/* Parameter `x` of a node `x_1` is bound by `x_1 = x`, in order: an earlier one's node that is called `x` would be overwritten by then. */
static void put_flat_inputs(fx_python *p, size_t n_inputs, fx_node *const *inputs)
{
    fx_text *t = &p->head;
    const char **names = name_parameters(p, n_inputs, inputs);
    fx_map bound = {0};
    for (size_t i = 0; i < n_inputs; i++) {
        fx_node *hidden = names[i] != fx_python_node_name(p, inputs[i]) ? fx_graph_find_node(p->g, names[i]) : NULL;
        if (hidden && fx_map_get(&bound, hidden))
            set_local(p, hidden, fx_python_free_name(p, names[i]));
        fx_map_put(p->tmp, &bound, inputs[i], p);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        const fx_node *n = inputs[i];
        size_t stars = n->target[strspn(n->target, "*")] ? strspn(n->target, "*") : 0;
        fx_puts(t, i ? ", " : "");
        fx_putn(t, "**", stars < 2 ? stars : 2);
        fx_puts(t, names[i]);
        put_type(p, t, n);
        if (n->args->n > 0) {
            fx_puts(t, " = ");
            fx_python_put_arg(p, t, n->args->items[0], n);
        }
        if (names[i] != fx_python_node_name(p, n))
            fx_printf(&p->body, "%s = %s\n", fx_python_node_name(p, n), names[i]);
    }
}

/* Whether a tree is one of tuples, lists and dicts whose leaves are numbers below n, each once, or None. Notes them in seen. */
static bool is_tree(const fx_arg *a, int64_t n, bool *seen)
{
    if (a->kind == FX_ARG_INT) {
        bool good = a->i >= 0 && a->i < n && !seen[a->i];
        if (good)
            seen[a->i] = true;
        return good;
    }
    bool good = a->kind == FX_ARG_NONE || a->kind == FX_ARG_TUPLE || a->kind == FX_ARG_LIST || a->kind == FX_ARG_DICT;
    for (int i = 0; good && i < a->n; i++)
        good = is_tree(a->items[i], n, seen);
    return good;
}

/* ((args...), {kwargs}) with all inputs. */
static bool is_signature(fx_python *p, const fx_arg *tree, size_t n_inputs)
{
    bool *seen = FX_NEW_ARRAY(p->tmp, bool, n_inputs + 1);
    bool good = tree && tree->kind == FX_ARG_TUPLE && tree->n == 2 && tree->items[0]->kind == FX_ARG_TUPLE &&
                tree->items[1]->kind == FX_ARG_DICT && is_tree(tree, (int64_t)n_inputs, seen);
    for (size_t i = 0; good && i < n_inputs; i++)
        good = seen[i];
    return good;
}

/* `name = path` for each leaf. */
static void put_unpacking(fx_python *p, fx_node *const *inputs, const fx_arg *a, const char *path)
{
    if (a->kind == FX_ARG_INT) {
        const char *name = fx_python_node_name(p, inputs[a->i]);
        if (strcmp(name, path) != 0)
            fx_printf(&p->body, "%s = %s\n", name, path);
        return;
    }
    for (int i = 0; i < a->n; i++) {
        fx_text t;
        fx_text_init(&t, p->tmp);
        fx_puts(&t, path);
        fx_puts(&t, "[");
        if (a->kind == FX_ARG_DICT)
            fx_python_put_string(&t, a->keys[i]);
        else
            fx_python_put_int(&t, i);
        fx_puts(&t, "]");
        put_unpacking(p, inputs, a->items[i], t.data);
    }
}

static const fx_node *first_leaf(fx_node *const *inputs, const fx_arg *a)
{
    if (a->kind == FX_ARG_INT)
        return inputs[a->i];
    for (int i = 0; i < a->n; i++) {
        const fx_node *n = first_leaf(inputs, a->items[i]);
        if (n)
            return n;
    }
    return NULL;
}

/* Inputs in tuples, lists and dicts: the signature of the module that was exported, and its arguments taken apart. */
static void put_nested_inputs(fx_python *p, fx_node *const *inputs)
{
    const fx_arg *args = p->g->in_tree->items[0], *kwargs = p->g->in_tree->items[1];
    fx_text *t = &p->head;
    for (int i = 0; i < args->n; i++) {
        const fx_arg *a = args->items[i];
        const fx_node *leaf = first_leaf(inputs, a);
        const char *name;
        if (a->kind == FX_ARG_INT) {
            name = fx_python_node_name(p, leaf);
            fx_map_put(p->tmp, &p->taken, name, p);
        } else {
            /* "pair" of "pair_0" */
            const char *end = leaf ? strchr(leaf->name, '_') : NULL;
            name = fx_python_free_name(p, end && end > leaf->name ? fx_intern_n(p->ctx, leaf->name, (size_t)(end - leaf->name)) : "arg");
        }
        put_parameter(p, name);
        if (a->kind == FX_ARG_INT)
            put_type(p, t, leaf);
        put_unpacking(p, inputs, a, name);
    }
    const char *rest = NULL;
    for (int i = 0; i < kwargs->n; i++) {
        const fx_arg *a = kwargs->items[i];
        const char *key = fx_intern(p->ctx, kwargs->keys[i]), *path;
        if (i == 0)
            put_parameter(p, "*");
        if (is_word(key) && !fx_map_get(&p->taken, key)) {
            fx_map_put(p->tmp, &p->taken, key, p);
            put_parameter(p, path = key);
            if (a->kind == FX_ARG_NONE)
                fx_puts(t, " = None");
        } else {
            fx_text item;
            fx_text_init(&item, p->tmp);
            rest = rest ? rest : fx_python_free_name(p, "kwargs");
            fx_printf(&item, "%s[", rest);
            fx_python_put_string(&item, key);
            fx_puts(&item, "]");
            path = item.data;
        }
        put_unpacking(p, inputs, a, path);
    }
    if (rest)
        put_parameter(p, fx_intern_f(p->ctx, "**%s", rest));
}

static void put_inputs(fx_python *p)
{
    fx_node **inputs = NULL;
    size_t n = 0, cap = 0;
    FX_FOR_NODES(p->g, node) {
        if (node->opcode == FX_PLACEHOLDER)
            FX_PUSH(p->tmp, inputs, n, cap) = node;
    }
    if (is_signature(p, p->g->in_tree, n))
        put_nested_inputs(p, inputs);
    else
        put_flat_inputs(p, n, inputs);
}

/* The tree with its leaves from the flat outputs. */
static void put_nested_output(fx_python *p, const fx_arg *a, const fx_arg *flat, const fx_node *n)
{
    fx_text *t = &p->body;
    if (a->kind == FX_ARG_INT) {
        fx_python_put_arg(p, t, flat->items[a->i], n);
        return;
    }
    if (a->kind == FX_ARG_NONE) {
        fx_python_put_arg(p, t, a, n);
        return;
    }
    fx_puts(t, a->kind == FX_ARG_LIST ? "[" : a->kind == FX_ARG_TUPLE ? "(" : "{");
    for (int i = 0; i < a->n; i++) {
        fx_puts(t, i ? ", " : "");
        if (a->kind == FX_ARG_DICT) {
            fx_python_put_string(t, a->keys[i]);
            fx_puts(t, ": ");
        }
        put_nested_output(p, a->items[i], flat, n);
    }
    fx_puts(t, a->kind == FX_ARG_LIST ? "]" : a->kind == FX_ARG_DICT ? "}" : a->n == 1 ? ",)" : ")");
}

static void put_output(fx_python *p, const fx_node *n)
{
    if (n->args->n != 1) {
        refuse(p, n, "the output returns one argument");
        return;
    }
    const fx_arg *flat = n->args->items[0], *tree = p->g->out_tree;
    bool *seen = FX_NEW_ARRAY(p->tmp, bool, flat->n + 1);
    p->returns = hint_of(p, n);
    fx_puts(&p->body, "return ");
    if (tree && (flat->kind == FX_ARG_TUPLE || flat->kind == FX_ARG_LIST) && is_tree(tree, flat->n, seen))
        put_nested_output(p, tree, flat, n);
    else
        fx_python_put_arg(p, &p->body, flat, n);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static void put_nodes(fx_python *p)
{
    last_uses u = find_last_uses(p);
    const fx_loc *last = NULL;
    FX_FOR_NODES(p->g, n) {
        if (n->opcode == FX_PLACEHOLDER)
            continue;
        put_source(p, n, &last);
        switch ((fx_opcode)n->opcode) {
        case FX_PLACEHOLDER: break;
        case FX_GET_ATTR:
            put_name(p, n);
            fx_python_put_path(p, &p->body, "self", n->target);
            break;
        case FX_CALL_FUNCTION: put_function(p, n); break;
        case FX_CALL_METHOD: put_method(p, n); break;
        case FX_CALL_MODULE:
            put_name(p, n);
            fx_python_put_path(p, &p->body, "self", n->target);
            put_args(p, n, 0);
            break;
        case FX_OUTPUT: put_output(p, n); break;
        }
        put_freeing(p, n, &u);
    }
}

/* text with four blanks behind each line end, also the last, as FX has it; before empty lines only where they count as lines (`blank`). */
static void put_indented(fx_text *t, const char *text, bool blank)
{
    for (const char *line = text;;) {
        const char *end = strchr(line, '\n');
        if (!end) {
            fx_puts(t, line);
            return;
        }
        fx_putn(t, line, (size_t)(end + 1 - line));
        line = end + 1;
        if (blank || line[strspn(line, " ")] > '\n')
            fx_putn(t, "    ", 4);
        else
            line += strspn(line, " ");
    }
}

void fx_python_begin(fx_python *p, const fx_graph *g, fx_arena *tmp, bool readable)
{
    *p = (fx_python){.ctx = g->ctx, .tmp = tmp, .g = g, .readable = readable};
    fx_text *texts[] = {&p->head, &p->binds, &p->body, &p->imports, &p->wraps};
    for (int i = 0; i < 5; i++)
        fx_text_init(texts[i], tmp);
    /* The module itself is `self`. */
    const char *self = fx_intern(p->ctx, "self");
    fx_node *hiding = fx_graph_find_node(g, self);
    fx_map_put(tmp, &p->taken, self, p);
    if (hiding)
        set_local(p, hiding, fx_python_free_name(p, self));
}

/* The parts of the method: what binds inputs (to *inputs), then the body. */
static fx_status put_parts(fx_python *p, fx_text *inputs)
{
    put_inputs(p);
    *inputs = p->body; /* they come before sizes that are taken from them */
    fx_text_init(&p->body, p->tmp);
    put_nodes(p);
    if (p->body.size == 0 && inputs->size == 0)
        fx_puts(&p->body, "pass\n");
    return p->status;
}

/* def forward(self, ...): and its lines, from the parts. */
static void put_method_of(fx_python *p, fx_text *t, fx_text *inputs)
{
    const fx_text *parts[] = {inputs, &p->binds, &p->body};
    fx_puts(t, "def forward(self");
    fx_puts(t, p->head.size ? ", " : "");
    fx_puts(t, p->head.size ? p->head.data : "");
    fx_puts(t, ")");
    if (p->returns) {
        fx_puts(t, " -> ");
        fx_puts(t, p->returns);
    }
    fx_puts(t, ":\n    ");
    if (p->readable && p->body.size && p->body.data[0] == '#' && (inputs->size || p->binds.size))
        fx_puts(p->binds.size ? &p->binds : inputs, "\n");
    for (int i = 0; i < 3; i++)
        put_indented(t, parts[i]->size ? parts[i]->data : "", true);
}

fx_status fx_python_code(fx_text *t, const fx_graph *g)
{
    fx_arena *tmp = fx_arena_create(g->ctx);
    fx_python p;
    fx_text inputs;
    fx_python_begin(&p, g, tmp, false);
    fx_status status = put_parts(&p, &inputs);
    if (status == FX_OK) {
        fx_puts(t, p.imports.size ? p.imports.data : "");
        fx_puts(t, "\n");
        fx_puts(t, p.wraps.size ? p.wraps.data : "");
        fx_puts(t, "\n\n");
        put_method_of(&p, t, &inputs);
    }
    fx_arena_free(tmp);
    return status;
}

/* Graphs inside a graph, each once. */
typedef struct inner_graphs {
    fx_arena *tmp;
    fx_map *seen;
    struct { const fx_graph *g; const char *name; } *list;
    size_t n, cap;
} inner_graphs;

static void note(inner_graphs *in, const fx_graph *g, const char *name)
{
    if (fx_map_get(in->seen, g))
        return;
    fx_map_put(in->tmp, in->seen, g, in->tmp);
    in->list = fx_arena_grow(in->tmp, in->list, in->n, &in->cap, sizeof *in->list);
    in->list[in->n].g = g;
    in->list[in->n++].name = name;
}

static const fx_arg *note_leaf(void *user, const fx_arg *leaf)
{
    if (leaf->kind == FX_ARG_GRAPH)
        note(user, leaf->graph, leaf->graph->name);
    return leaf;
}

static void find_inner(inner_graphs *in, const fx_graph *g)
{
    for (size_t i = 0; i < g->root->n_children; i++) {
        if (g->root->children[i]->body)
            note(in, g->root->children[i]->body, g->root->children[i]->name);
    }
    FX_FOR_NODES(g, n) {
        fx_arg_map(g->ctx, n->args, note_leaf, in);
        fx_arg_map(g->ctx, n->kwargs, note_leaf, in);
    }
}

static fx_status put_class(fx_text *t, const fx_graph *g, const char *name, fx_arena *tmp, fx_map *seen, int depth)
{
    fx_python p;
    fx_text code, inputs;
    if (depth > DEEPEST)
        return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, NULL, "the subgraph '%s' is nested more than %d deep", name, DEEPEST);
    fx_python_begin(&p, g, tmp, true);
    fx_text_init(&code, tmp);
    FX_TRY(put_parts(&p, &inputs));
    put_method_of(&p, &code, &inputs);
    fx_printf(t, "class %s(torch.nn.Module):\n    ", is_word(name) ? name : fx_python_free_name(&p, name));
    put_indented(t, code.data, false);
    inner_graphs in = {.tmp = tmp, .seen = seen};
    find_inner(&in, g);
    for (size_t i = 0; i < in.n; i++) {
        fx_text inner;
        fx_text_init(&inner, tmp);
        FX_TRY(put_class(&inner, in.list[i].g, in.list[i].name, tmp, seen, depth + 1));
        fx_puts(t, "\n    ");
        put_indented(t, inner.data, false);
    }
    return FX_OK;
}

fx_status fx_python_readable(fx_text *t, const fx_graph *g)
{
    fx_arena *tmp = fx_arena_create(g->ctx);
    fx_map seen = {0};
    const char *class_name = g->root->class_name, *dot = class_name ? strrchr(class_name, '.') : NULL;
    const char *name = dot ? dot + 1 : class_name;
    fx_map_put(tmp, &seen, g, tmp);
    fx_status status = put_class(t, g, name && strcmp(name, "Module") != 0 ? name : "GraphModule", tmp, &seen, 0);
    fx_arena_free(tmp);
    return status;
}
