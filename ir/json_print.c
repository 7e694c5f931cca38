/* ir/json_print.c: graphs as JSON, for programs to read; the format is in docs/text.md.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "ir/lex.h"

typedef struct printer {
    fx_text *t;
    fx_arena *tmp;
    fx_subgraphs inner;
    fx_map storages; /* storage -> its number + 1 */
    uintptr_t n_storages;
} printer;

/* Whatever bytes a name has, the text is valid JSON in valid UTF-8: stray bytes become U+FFFD. */
static void put_string(fx_text *t, const char *s)
{
    if (!s) {
        fx_puts(t, "null");
        return;
    }
    fx_puts(t, "\"");
    while (*s) {
        int n = fx_utf8_length(s);
        unsigned char c = (unsigned char)*s;
        if (n == 0)
            fx_puts(t, "\\ufffd");
        else if (c == '"' || c == '\\')
            fx_printf(t, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            fx_printf(t, "\\u%04x", c);
        else
            fx_putn(t, s, (size_t)n);
        s += n ? n : 1;
    }
    fx_puts(t, "\"");
}

/* "key": */
static void put_key(fx_text *t, const char *key, bool first)
{
    fx_puts(t, first ? "" : ", ");
    put_string(t, key);
    fx_puts(t, ": ");
}

/* {"key": "value"} */
static void put_tagged(fx_text *t, const char *key, const char *value)
{
    fx_puts(t, "{");
    put_key(t, key, true);
    put_string(t, value);
    fx_puts(t, "}");
}

/* A number; what JSON has no number for as {"float": "nan"}. */
static void put_float(fx_text *t, double v)
{
    if (isfinite(v))
        fx_put_double(t, v);
    else
        put_tagged(t, "float", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

static void put_sym(printer *p, const fx_sym *s)
{
    fx_text text;
    fx_text_init(&text, p->tmp);
    fx_sym_print(&text, s);
    put_string(p->t, text.data);
}

static void put_dim(printer *p, fx_dim d)
{
    if (d.sym)
        put_sym(p, d.sym);
    else
        fx_printf(p->t, "%lld", (long long)d.value);
}

static void put_dims(printer *p, int n, const fx_dim *dims)
{
    fx_puts(p->t, "[");
    for (int i = 0; i < n; i++) {
        fx_puts(p->t, i ? ", " : "");
        put_dim(p, dims[i]);
    }
    fx_puts(p->t, "]");
}

static void put_type(printer *p, const fx_type *type)
{
    static const char *const kinds[] = {"none", "tensor", "tuple", "int", "float", "bool", "str", "other"};
    fx_text *t = p->t;
    if (!type) {
        fx_puts(t, "null");
        return;
    }
    fx_printf(t, "{\"kind\": \"%s\"", kinds[type->kind]);
    if (type->kind == FX_TYPE_TENSOR) {
        fx_printf(t, ", \"dtype\": \"%s\", \"shape\": ", fx_dtype_name(type->dtype));
        put_dims(p, type->rank, type->dims);
        if (type->strides) {
            fx_puts(t, ", \"strides\": ");
            put_dims(p, type->rank, type->strides);
        }
    } else if (type->kind == FX_TYPE_TUPLE) {
        fx_puts(t, ", \"items\": [");
        for (int i = 0; i < type->n; i++) {
            fx_puts(t, i ? ", " : "");
            put_type(p, type->items[i]);
        }
        fx_puts(t, "]");
    } else if (type->kind == FX_TYPE_INT && (type->value.sym || type->value.value)) {
        fx_puts(t, ", \"value\": ");
        put_dim(p, type->value);
    }
    fx_puts(t, "}");
}

static void put_arg(printer *p, const fx_arg *a, const fx_node *n);

static void put_items(printer *p, const fx_arg *a, const fx_node *n)
{
    bool dict = a->kind == FX_ARG_DICT;
    fx_puts(p->t, dict ? "{" : "[");
    for (int i = 0; i < a->n; i++) {
        if (dict)
            put_key(p->t, a->keys[i], i == 0);
        else
            fx_puts(p->t, i ? ", " : "");
        put_arg(p, a->items[i], n);
    }
    fx_puts(p->t, dict ? "}" : "]");
}

/* null, true, numbers, strings and lists stand for themselves; all else is an object whose one key says what it is. */
static void put_arg(printer *p, const fx_arg *a, const fx_node *n)
{
    fx_text *t = p->t;
    switch (a->kind) {
    case FX_ARG_NONE: fx_puts(t, "null"); break;
    case FX_ARG_NODE:
        if (n)
            put_tagged(t, "node", n->operands[a->i].def->name);
        else
            fx_printf(t, "%lld", (long long)a->i);
        break;
    case FX_ARG_BOOL: fx_puts(t, a->b ? "true" : "false"); break;
    case FX_ARG_INT: fx_printf(t, "%lld", (long long)a->i); break;
    case FX_ARG_FLOAT: put_float(t, a->f); break;
    case FX_ARG_COMPLEX:
        fx_puts(t, "{\"complex\": [");
        put_float(t, a->f);
        fx_puts(t, ", ");
        put_float(t, a->im);
        fx_puts(t, "]}");
        break;
    case FX_ARG_STR: put_string(t, a->s); break;
    case FX_ARG_DTYPE: put_tagged(t, "dtype", fx_dtype_name((fx_dtype)a->i)); break;
    case FX_ARG_DEVICE: put_tagged(t, "device", a->s); break;
    case FX_ARG_LAYOUT: put_tagged(t, "layout", a->s); break;
    case FX_ARG_MEMORY_FORMAT: put_tagged(t, "memory_format", a->s); break;
    case FX_ARG_LIST: put_items(p, a, n); break;
    case FX_ARG_TUPLE:
    case FX_ARG_DICT:
    case FX_ARG_SLICE:
        fx_puts(t, a->kind == FX_ARG_TUPLE ? "{\"tuple\": " : a->kind == FX_ARG_DICT ? "{\"dict\": " : "{\"slice\": ");
        put_items(p, a, n);
        fx_puts(t, "}");
        break;
    case FX_ARG_ELLIPSIS: fx_puts(t, "{\"ellipsis\": true}"); break;
    case FX_ARG_SYM:
        fx_puts(t, "{\"sym\": ");
        put_sym(p, a->sym);
        fx_puts(t, "}");
        break;
    case FX_ARG_GRAPH: fx_printf(t, "{\"graph\": %d}", fx_subgraph_number(&p->inner, a->graph)); break;
    }
}

static void put_meta(printer *p, const fx_meta *first)
{
    if (!first)
        return;
    fx_puts(p->t, ", \"meta\": {");
    for (const fx_meta *m = first; m; m = m->next) {
        put_key(p->t, m->key, m == first);
        put_arg(p, m->value, NULL);
    }
    fx_puts(p->t, "}");
}

/* ---- modules and tensors --------------------------------------------------------------------------------------------------- */

static void put_module(printer *p, const fx_module *m)
{
    fx_text *t = p->t;
    fx_puts(t, "{\"path\": ");
    put_string(t, m->path);
    fx_puts(t, ", \"class\": ");
    put_string(t, m->class_name);
    if (m->config) {
        fx_puts(t, ", \"settings\": ");
        put_items(p, m->config, NULL);
    }
    if (m->body)
        fx_printf(t, ", \"body\": %d", fx_subgraph_number(&p->inner, m->body));
    put_meta(p, m->meta);
    fx_puts(t, "}");
}

static void put_attr(printer *p, const fx_attr *a)
{
    fx_text *t = p->t;
    const fx_tensor *x = &a->tensor;
    fx_puts(t, "{\"path\": ");
    put_string(t, a->path);
    fx_printf(t, ", \"kind\": \"%s\", \"persistent\": %s, \"dtype\": \"%s\", \"shape\": [", a->is_parameter ? "parameter" : "buffer",
              a->persistent ? "true" : "false", fx_dtype_name(x->dtype));
    for (int i = 0; i < x->rank; i++)
        fx_printf(t, "%s%lld", i ? ", " : "", (long long)x->sizes[i]);
    fx_puts(t, "], \"strides\": [");
    for (int i = 0; i < x->rank; i++)
        fx_printf(t, "%s%lld", i ? ", " : "", (long long)x->strides[i]);
    fx_puts(t, "]");
    if (x->storage) {
        uintptr_t number = (uintptr_t)fx_map_get(&p->storages, x->storage);
        if (!number)
            fx_map_put(p->tmp, &p->storages, x->storage, (void *)(number = ++p->n_storages));
        uintptr_t at = (uintptr_t)x->data, base = (uintptr_t)x->storage->data;
        uintptr_t offset = base && at >= base && at - base <= x->storage->nbytes ? at - base : at;
        fx_printf(t, ", \"storage\": %llu, \"offset\": %llu", (unsigned long long)(number - 1),
                  (unsigned long long)offset / fx_dtype_size(x->dtype));
    }
    fx_puts(t, "}");
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------ */

static void put_users(printer *p, const fx_node *n)
{
    fx_map seen = {0};
    bool first = true;
    fx_puts(p->t, ", \"users\": [");
    for (const fx_use *u = n->first_use; u; u = u->next) {
        if (n->n_uses > 1 && fx_map_get(&seen, u->user))
            continue;
        if (n->n_uses > 1)
            fx_map_put(p->tmp, &seen, u->user, u->user);
        fx_puts(p->t, first ? "" : ", ");
        put_string(p->t, u->user->name);
        first = false;
    }
    fx_puts(p->t, "]");
}

static void put_location(printer *p, const fx_loc *loc)
{
    const char *const keys[] = {"module", "frame", "entry", "file"}, *const values[] = {loc->module, loc->frame, loc->entry, loc->file};
    bool first = true;
    for (int i = 0; i < 4; i++) {
        if (!values[i])
            continue;
        fx_puts(p->t, first ? ", \"location\": {" : "");
        put_key(p->t, keys[i], first);
        put_string(p->t, values[i]);
        first = false;
    }
    fx_puts(p->t, first ? "" : "}");
}

static void put_node(printer *p, const fx_node *n)
{
    fx_text *t = p->t;
    fx_puts(t, "{\"name\": ");
    put_string(t, n->name);
    fx_printf(t, ", \"opcode\": \"%s\", \"target\": ", fx_opcode_name(n->opcode));
    put_string(t, n->target);
    if (n->op) {
        fx_puts(t, ", \"operator\": ");
        put_string(t, n->op->name);
    }
    fx_puts(t, ", \"args\": [");
    for (int i = 0; i < n->args->n; i++) {
        fx_puts(t, i ? ", " : "");
        put_arg(p, n->args->items[i], n);
    }
    fx_puts(t, "], \"kwargs\": ");
    put_items(p, n->kwargs, n);
    fx_puts(t, ", \"type\": ");
    put_type(p, n->type);
    put_users(p, n);
    put_location(p, &n->loc);
    put_meta(p, n->meta);
    fx_puts(t, "}");
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------- */

/* `"key": [`, one item a line, `]`; put_next begins an item. */
static void begin_list(printer *p, const char *key)
{
    fx_printf(p->t, ",\n\"%s\": [", key);
}

static void put_next(printer *p, size_t i)
{
    fx_puts(p->t, i ? ",\n" : "\n");
}

static void put_range_end(fx_text *t, int64_t v)
{
    if (v == INT64_MIN || v == INT64_MAX)
        fx_puts(t, "null");
    else
        fx_printf(t, "%lld", (long long)v);
}

static void put_graph(printer *p, const fx_graph *g)
{
    fx_text *t = p->t;
    fx_puts(t, "\"name\": ");
    put_string(t, g->name);
    fx_printf(t, ", \"stage\": \"%s\", \"file\": ", fx_stage_name(g->stage));
    put_string(t, g->file);
    begin_list(p, "symbols");
    for (size_t i = 0; i < g->n_symbols; i++) {
        put_next(p, i);
        fx_puts(t, "{\"name\": ");
        put_string(t, g->symbols[i].name);
        fx_puts(t, ", \"min\": ");
        put_range_end(t, g->symbols[i].min);
        fx_puts(t, ", \"max\": ");
        put_range_end(t, g->symbols[i].max);
        fx_puts(t, "}");
    }
    fx_puts(t, "]");
    size_t n, n_attrs = 0;
    const fx_module **modules = fx_modules_in_order(p->tmp, g, &n);
    begin_list(p, "modules");
    for (size_t i = 0; i < n; i++) {
        put_next(p, i);
        put_module(p, modules[i]);
    }
    fx_puts(t, "]");
    begin_list(p, "tensors");
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < modules[i]->n_attrs; k++) {
            put_next(p, n_attrs++);
            put_attr(p, modules[i]->attrs[k]);
        }
    }
    fx_puts(t, "],\n\"inputs\": ");
    put_arg(p, g->in_tree ? g->in_tree : fx_arg_none(g->ctx), NULL);
    fx_puts(t, ",\n\"outputs\": ");
    put_arg(p, g->out_tree ? g->out_tree : fx_arg_none(g->ctx), NULL);
    begin_list(p, "nodes");
    size_t i = 0;
    FX_FOR_NODES(g, node) {
        put_next(p, i++);
        put_node(p, node);
    }
    fx_puts(t, "]");
}

void fx_graph_print_json(fx_text *t, const fx_graph *g)
{
    printer p = {.t = t, .tmp = fx_arena_create(g->ctx)};
    fx_find_subgraphs(&p.inner, p.tmp, g);
    fx_puts(t, "{\"format\": \"fxcc graph\", \"version\": 1,\n");
    put_graph(&p, g);
    begin_list(&p, "subgraphs");
    for (size_t i = 0; i < p.inner.n; i++) {
        put_next(&p, i);
        fx_puts(t, "{");
        put_graph(&p, p.inner.graphs[i]);
        fx_puts(t, "}");
    }
    fx_puts(t, "]}\n");
    fx_arena_free(p.tmp);
}
