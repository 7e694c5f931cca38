/* ir/print.c: graphs as .fx text. parse.c reads it back to the same graph, and that prints to the same bytes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *     graph "net" imported file "net.pt2"
 *     symbol s27 in [2, 128]
 *     subgraph 0 "body" imported {
 *     ...
 *     }
 *     module conv : torch.nn.modules.conv.Conv2d(in_channels=3, out_channels=8, kernel_size=(3, 3)) meta {"k": 1}
 *     parameter conv.weight : f32[2, 1, 1, 1] = [1.0, 2.0]
 *     buffer mean : f32[1000] hash 0x0123456789abcdef
 *     parameter fc.weight : f32[10, 20] in "net.safetensors" "fc.weight"
 *
 *     %x : f32[s27, 1, 8, 8] = placeholder[x]
 *     %conv_weight : f32[2, 1, 1, 1] = get_attr[conv.weight]
 *     %conv2d : f32[s27, 2, 8, 8] = call_function[aten.conv2d.default](%x, %conv_weight, None)  # conv, net.py:12
 *     output((%conv2d,))
 *
 * Values of a tensor are given where there are at most 64 or all are equal; larger ones by a hash of their elements, and a
 * graph read from such a text has no data there (using it is an error, never a guess). Strides are given where they are
 * not those of a dense row-major tensor. */
#include <math.h>
#include <string.h>

#include "ir/lex.h"

/* ---- symbolic integers and types ----------------------------------------------------------------------------------- */

/* Whether fx_sym_print's spelling reads back: every name in it is a word. */
static bool sym_is_plain(const fx_sym *s)
{
    if (s->kind == FX_SYM_OPAQUE || (s->kind == FX_SYM_SYMBOL && !fx_is_word(s->name, false)))
        return false;
    for (int i = 0; i < s->n; i++) {
        if (!sym_is_plain(s->args[i]))
            return false;
    }
    return true;
}

static void put_sym(fx_text *t, const fx_sym *s)
{
    static const char *const functions[] = {[FX_SYM_ADD] = "Add", [FX_SYM_MUL] = "Mul", [FX_SYM_FLOORDIV] = "FloorDiv",
        [FX_SYM_MOD] = "Mod", [FX_SYM_MAX] = "Max", [FX_SYM_MIN] = "Min", [FX_SYM_POW] = "Pow", [FX_SYM_CEILDIV] = "CeilDiv"};
    if (sym_is_plain(s)) {
        fx_sym_print(t, s);
        return;
    }
    if (s->kind == FX_SYM_SYMBOL || s->kind == FX_SYM_OPAQUE) {
        fx_puts(t, s->kind == FX_SYM_SYMBOL ? "Symbol(" : "Opaque(");
        fx_put_quoted(t, s->name);
    } else {
        fx_printf(t, "%s(", functions[s->kind]);
        for (int i = 0; i < s->n; i++) {
            fx_puts(t, i ? ", " : "");
            put_sym(t, s->args[i]);
        }
    }
    fx_puts(t, ")");
}

void fx_put_dim(fx_text *t, fx_dim d)
{
    if (d.sym)
        put_sym(t, d.sym);
    else
        fx_printf(t, "%lld", (long long)d.value);
}

static void put_dims(fx_text *t, int n, const fx_dim *dims)
{
    for (int i = 0; i < n; i++) {
        fx_puts(t, i ? ", " : "");
        fx_put_dim(t, dims[i]);
    }
}

static bool dense_strides(const fx_type *t)
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i].sym || t->strides[i].sym)
            return false;
        if (t->dims[i].value != 1 && t->strides[i].value != step)
            return false;
        step = (int64_t)((uint64_t)step * (uint64_t)t->dims[i].value);
    }
    return true;
}

static void put_type(fx_text *t, const fx_type *type)
{
    if (type->kind == FX_TYPE_TUPLE) {
        fx_puts(t, "(");
        for (int i = 0; i < type->n; i++) {
            fx_puts(t, i ? ", " : "");
            if (type->items[i])
                put_type(t, type->items[i]);
            else
                fx_puts(t, "?");
        }
        fx_puts(t, type->n == 1 ? ",)" : ")");
    } else if (type->kind == FX_TYPE_TENSOR) {
        fx_printf(t, "%s[", fx_dtype_short(type->dtype));
        put_dims(t, type->rank, type->dims);
        fx_puts(t, "]");
        if (type->strides && !dense_strides(type)) {
            fx_puts(t, "{");
            put_dims(t, type->rank, type->strides);
            fx_puts(t, "}");
        }
    } else if (type->kind == FX_TYPE_INT && (type->value.sym || type->value.value)) {
        fx_puts(t, "int(");
        fx_put_dim(t, type->value);
        fx_puts(t, ")");
    } else {
        fx_type_print(t, type);
    }
}

typedef struct printer {
    fx_text *t;
    fx_arena *tmp;
    fx_graph *g;                        /* the graph at hand */
    fx_subgraphs inner;
    fx_map seen;                        /* storage -> how many attributes lie on it */
    fx_map hashed;                      /* storage of several -> not NULL where one of them needs a hash */
    fx_map number;                      /* storage -> its number + 1, for those that several share */
    uintptr_t n_shared;
} printer;

/* ---- arguments -------------------------------------------------------------------------------------------------------- */

/* torch.NAME for the layouts and memory formats there are; anything else is quoted. */
static void put_torch(fx_text *t, const char *kind, const char *s)
{
    if (strncmp(s, "torch.", 6) == 0 && fx_is_word(s + 6, false) && fx_torch_name(s) != FX_ARG_NONE) {
        fx_puts(t, s);
        return;
    }
    fx_printf(t, "%s(", kind);
    fx_put_quoted(t, s);
    fx_puts(t, ")");
}

fx_arg_kind fx_torch_name(const char *s)
{
    static const char *const layouts[] = {"torch.strided", "torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc",
                                          "torch.sparse_bsr", "torch.sparse_bsc", "torch._mkldnn", "torch.jagged"};
    static const char *const formats[] = {"torch.contiguous_format", "torch.preserve_format", "torch.channels_last",
                                          "torch.channels_last_3d"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (strcmp(s, layouts[i]) == 0)
            return FX_ARG_LAYOUT;
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(s, formats[i]) == 0)
            return FX_ARG_MEMORY_FORMAT;
    }
    return FX_ARG_NONE;
}

static void put_arg(const printer *p, fx_text *t, const fx_arg *a, const fx_node *n);

static void put_items(const printer *p, fx_text *t, const fx_arg *a, const fx_node *n)
{
    for (int i = 0; i < a->n; i++) {
        fx_puts(t, i ? ", " : "");
        if (a->kind == FX_ARG_DICT) {
            fx_put_quoted(t, a->keys[i]);
            fx_puts(t, ": ");
        }
        put_arg(p, t, a->items[i], n);
    }
}

/* p NULL: outside of a text, where subgraphs have names only. */
static void put_arg(const printer *p, fx_text *t, const fx_arg *a, const fx_node *n)
{
    switch (a->kind) {
    case FX_ARG_NONE: fx_puts(t, "None"); break;
    case FX_ARG_NODE:
        if (n && a->i >= 0 && a->i < n->n_operands && n->operands[a->i].def)
            fx_printf(t, "%%%s", n->operands[a->i].def->name);
        else
            fx_printf(t, "%%%lld", (long long)a->i);
        break;
    case FX_ARG_BOOL: fx_puts(t, a->b ? "True" : "False"); break;
    case FX_ARG_INT: fx_printf(t, "%lld", (long long)a->i); break;
    case FX_ARG_FLOAT: fx_put_double(t, a->f); break;
    case FX_ARG_COMPLEX:
        fx_puts(t, "complex(");
        fx_put_double(t, a->f);
        fx_puts(t, ", ");
        fx_put_double(t, a->im);
        fx_puts(t, ")");
        break;
    case FX_ARG_STR: fx_put_quoted(t, a->s); break;
    case FX_ARG_DTYPE: fx_printf(t, "torch.%s", fx_dtype_name((fx_dtype)a->i)); break;
    case FX_ARG_DEVICE:
        fx_puts(t, "device(");
        fx_put_quoted(t, a->s);
        fx_puts(t, ")");
        break;
    case FX_ARG_LAYOUT: put_torch(t, "layout", a->s); break;
    case FX_ARG_MEMORY_FORMAT: put_torch(t, "memory_format", a->s); break;
    case FX_ARG_LIST:
        fx_puts(t, "[");
        put_items(p, t, a, n);
        fx_puts(t, "]");
        break;
    case FX_ARG_TUPLE:
        fx_puts(t, "(");
        put_items(p, t, a, n);
        fx_puts(t, a->n == 1 ? ",)" : ")");
        break;
    case FX_ARG_DICT:
        fx_puts(t, "{");
        put_items(p, t, a, n);
        fx_puts(t, "}");
        break;
    case FX_ARG_SLICE:
        fx_puts(t, "slice(");
        put_items(p, t, a, n);
        fx_puts(t, ")");
        break;
    case FX_ARG_ELLIPSIS: fx_puts(t, "..."); break;
    case FX_ARG_SYM:
        fx_puts(t, "sym(");
        put_sym(t, a->sym);
        fx_puts(t, ")");
        break;
    case FX_ARG_GRAPH:
        fx_puts(t, "graph(");
        if (p)
            fx_printf(t, "%d", fx_subgraph_number(&p->inner, a->graph));
        else
            fx_put_quoted(t, a->graph->name);
        fx_puts(t, ")");
        break;
    }
}

void fx_arg_print(fx_text *t, const fx_arg *a, const fx_node *n)
{
    put_arg(NULL, t, a, n);
}

static void put_meta(const printer *p, const fx_meta *m)
{
    fx_text *t = p->t;
    if (!m)
        return;
    fx_puts(t, " meta {");
    for (const fx_meta *first = m; m; m = m->next) {
        fx_puts(t, m == first ? "" : ", ");
        fx_put_quoted(t, m->key);
        fx_puts(t, ": ");
        put_arg(p, t, m->value, NULL);
    }
    fx_puts(t, "}");
}

/* ---- modules and tensors ------------------------------------------------------------------------------------------------ */

static void put_element(fx_text *t, const fx_tensor *x, int64_t i)
{
    switch (x->dtype) {
    case FX_C64:
    case FX_C128: {
        double re, im;
        if (x->dtype == FX_C64) {
            const float *p = (const float *)x->data + 2 * i;
            re = p[0];
            im = p[1];
        } else {
            const double *p = (const double *)x->data + 2 * i;
            re = p[0];
            im = p[1];
        }
        fx_puts(t, "complex(");
        fx_put_double(t, re);
        fx_puts(t, ", ");
        fx_put_double(t, im);
        fx_puts(t, ")");
        break;
    }
    case FX_BOOL:
        fx_puts(t, fx_tensor_get_int(x, i) ? "True" : "False");
        break;
    default:
        if (x->dtype == FX_F64)
            fx_put_double(t, fx_tensor_get(x, i));
        else if (fx_dtype_is_float(x->dtype))
            fx_put_f32(t, (float)fx_tensor_get(x, i));
        else
            fx_printf(t, "%lld", (long long)fx_tensor_get_int(x, i));
    }
}

/* What a text says of a tensor's elements. */
typedef enum content { VALUES, ALL_EQUAL, HASH, KNOWN_HASH, UNREADABLE, IN_FILE } content;

/* *dense gets the elements in row-major order where the answer is VALUES, ALL_EQUAL or HASH; release_dense gives them back. */
static content content_of(fx_context *ctx, const fx_attr *a, fx_tensor *dense)
{
    enum { FEW = 64 };
    fx_tensor x = a->tensor;
    if (x.storage && x.storage->file)
        return IN_FILE;
    if (a->hash && x.storage && !x.storage->data)
        return KNOWN_HASH;
    fx_status status = fx_tensor_touch(ctx, &x);
    if (status == FX_OK)
        status = fx_tensor_contiguous(ctx, &x, dense);
    if (status == FX_ERR_NOMEM)
        fx_out_of_memory(ctx);
    if (status != FX_OK)
        return UNREADABLE;
    int64_t n = fx_tensor_numel(dense);
    size_t size = fx_dtype_size(dense->dtype);
    if (n <= FEW)
        return VALUES;
    return memcmp(dense->data, (const char *)dense->data + size, (size_t)n * size - size) == 0 ? ALL_EQUAL : HASH;
}

static void release_dense(const fx_attr *a, content c, const fx_tensor *dense)
{
    if (c <= HASH && dense->storage != a->tensor.storage)
        fx_storage_free(dense->storage);
}

/* "in FILE NAME" where a file beside the text has the elements; else "= [..]" for few, "= all v" for equal ones, "hash 0x.." for others, and
 * for all on a storage of which one needs a hash; "unreadable" when a weight file is damaged. */
static void put_content(const printer *p, const fx_attr *a)
{
    fx_text *t = p->t;
    fx_tensor dense;
    content c = content_of(p->g->ctx, a, &dense);
    bool hashed = a->tensor.storage && fx_map_get(&p->hashed, a->tensor.storage) && fx_tensor_numel(&a->tensor) > 0;
    int64_t n = c <= HASH ? fx_tensor_numel(&dense) : 0;
    switch (c <= HASH && hashed ? HASH : c) {
    case VALUES:
        fx_puts(t, " = [");
        for (int64_t i = 0; i < n; i++) {
            fx_puts(t, i ? ", " : "");
            put_element(t, &dense, i);
        }
        fx_puts(t, "]");
        break;
    case ALL_EQUAL:
        fx_puts(t, " = all ");
        put_element(t, &dense, 0);
        break;
    case HASH:
        fx_printf(t, " hash 0x%016llx", (unsigned long long)fx_hash_bytes(dense.data, (size_t)n * fx_dtype_size(dense.dtype)));
        break;
    case KNOWN_HASH: fx_printf(t, " hash 0x%016llx", (unsigned long long)a->hash); break;
    case UNREADABLE: fx_puts(t, " unreadable"); break;
    case IN_FILE:
        fx_puts(t, " in ");
        fx_put_quoted(t, a->tensor.storage->file);
        fx_puts(t, " ");
        fx_put_quoted(t, a->tensor.storage->name);
        break;
    }
    release_dense(a, c, &dense);
}

static void put_attr(printer *p, const fx_attr *a)
{
    fx_text *t = p->t;
    const fx_tensor *x = &a->tensor;
    fx_puts(t, a->is_parameter ? "parameter " : "buffer ");
    fx_put_word(t, fx_attr_path(p->g, a), true);
    fx_printf(t, " : %s[", fx_dtype_short(x->dtype));
    for (int i = 0; i < x->rank; i++)
        fx_printf(t, "%s%lld", i ? ", " : "", (long long)x->sizes[i]);
    fx_puts(t, "]");
    if (!fx_tensor_is_contiguous(x)) {
        fx_puts(t, "{");
        for (int i = 0; i < x->rank; i++)
            fx_printf(t, "%s%lld", i ? ", " : "", (long long)x->strides[i]);
        fx_puts(t, "}");
    }
    if (!a->persistent)
        fx_puts(t, " transient");
    if (x->storage && (uintptr_t)fx_map_get(&p->seen, x->storage) > 1) {
        uintptr_t number = (uintptr_t)fx_map_get(&p->number, x->storage);
        if (!number) {
            number = ++p->n_shared;
            fx_map_put(p->tmp, &p->number, x->storage, (void *)number);
        }
        uintptr_t at = (uintptr_t)x->data, base = (uintptr_t)x->storage->data;
        uintptr_t offset = base && at >= base && at - base <= x->storage->nbytes ? at - base : at;
        fx_printf(t, " shares %llu+%llu", (unsigned long long)(number - 1), (unsigned long long)offset / fx_dtype_size(x->dtype));
    }
    put_content(p, a);
    fx_puts(t, "\n");
}

/* "(kernel_size=(3, 3), padding=1)" */
static void put_settings(const printer *p, const fx_arg *dict, const fx_node *n, bool first)
{
    for (int i = 0; i < dict->n; i++) {
        fx_puts(p->t, first && i == 0 ? "" : ", ");
        fx_put_word(p->t, dict->keys[i], false);
        fx_puts(p->t, "=");
        put_arg(p, p->t, dict->items[i], n);
    }
}

static void put_module(const printer *p, const fx_module *m)
{
    fx_text *t = p->t;
    fx_puts(t, "module ");
    fx_put_word(t, fx_module_path(p->g, m), true);
    if (m->class_name || m->config) {
        fx_puts(t, " : ");
        fx_put_word(t, m->class_name ? m->class_name : "", true);
    }
    if (m->config) {
        fx_puts(t, "(");
        put_settings(p, m->config, NULL, true);
        fx_puts(t, ")");
    }
    if (m->body)
        fx_printf(t, " body %d", fx_subgraph_number(&p->inner, m->body));
    put_meta(p, m->meta);
    fx_puts(t, "\n");
}

/* The modules with what hangs on them. A module of which there is nothing to say needs no line where a path below it names it. */
static void put_modules(printer *p)
{
    size_t n;
    const fx_module **all = fx_modules_in_order(p->tmp, p->g, &n);
    for (size_t i = 0; i < n; i++) {
        const fx_module *m = all[i];
        bool leaf = m->n_attrs == 0 && m->n_children == 0 && m->parent;
        if (m->class_name || m->config || m->body || m->meta || leaf)
            put_module(p, m);
        for (size_t k = 0; k < m->n_attrs; k++)
            put_attr(p, m->attrs[k]);
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------ */

/* A part of "# module, frame": bare where it is plain, "-" where there is none. */
static void put_loc_part(fx_text *t, const char *s)
{
    bool plain = s && *s && strcmp(s, "-") != 0 && *s != ' ' && *s != '"' && s[strlen(s) - 1] != ' ';
    for (const char *c = s; plain && *c; c++)
        plain = *c >= 32 && *c < 127 && *c != ',';
    if (!s)
        fx_puts(t, "-");
    else if (plain)
        fx_puts(t, s);
    else
        fx_put_quoted(t, s);
}

/* Where a node comes from, as far as it differs from what the graph says of all. */
static void put_loc(fx_text *t, const fx_graph *g, const fx_loc *loc)
{
    const char *entry = g->first ? g->first->loc.entry : NULL;
    const char *parts[4] = {loc->module, loc->frame, loc->entry, loc->file};
    int n = loc->file != g->file ? 4 : loc->entry != entry ? 3 : loc->frame ? 2 : loc->module ? 1 : 0;
    if (n == 0)
        return;
    fx_puts(t, "  # ");
    for (int i = 0; i < n; i++) {
        fx_puts(t, i ? ", " : "");
        put_loc_part(t, parts[i]);
    }
}

static void put_call_args(const printer *p, const fx_node *n)
{
    fx_puts(p->t, "(");
    put_items(p, p->t, n->args, n);
    put_settings(p, n->kwargs, n, n->args->n == 0);
    fx_puts(p->t, ")");
}

static void put_node(const printer *p, const fx_node *n)
{
    fx_text *t = p->t;
    bool plain_output = n->opcode == FX_OUTPUT && strcmp(n->name, "output") == 0 && strcmp(n->target, "output") == 0;
    if (plain_output) {
        fx_puts(t, "output");
        put_call_args(p, n);
        if (n->type) {
            fx_puts(t, " : ");
            put_type(t, n->type);
        }
    } else {
        fx_puts(t, "%");
        fx_put_word(t, n->name, false);
        if (n->type) {
            fx_puts(t, " : ");
            put_type(t, n->type);
        }
        fx_printf(t, " = %s[", fx_opcode_name(n->opcode));
        fx_put_word(t, n->target, true);
        fx_puts(t, "]");
        bool empty = n->args->n == 0 && n->kwargs->n == 0;
        if (!empty || (n->opcode != FX_PLACEHOLDER && n->opcode != FX_GET_ATTR))
            put_call_args(p, n);
    }
    put_meta(p, n->meta);
    put_loc(t, p->g, &n->loc);
    fx_puts(t, "\n");
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------------ */

const char *fx_stage_name(fx_stage stage)
{
    static const char *const names[] = {"captured", "imported", "functional", "core"};
    return (unsigned)stage < sizeof names / sizeof *names ? names[stage] : "?";
}

/* How many attributes lie on each storage. */
static void count_storages(printer *p, const fx_graph *g)
{
    size_t n;
    const fx_module **all = fx_modules_in_order(p->tmp, g, &n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < all[i]->n_attrs; k++) {
            const void *st = all[i]->attrs[k]->tensor.storage;
            if (st)
                fx_map_put(p->tmp, &p->seen, st, (void *)((uintptr_t)fx_map_get(&p->seen, st) + 1));
        }
    }
}

/* Tensors of one storage are given by values or by hashes, all of them. */
static void find_hashed(printer *p, const fx_graph *g)
{
    size_t n;
    const fx_module **all = fx_modules_in_order(p->tmp, g, &n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < all[i]->n_attrs; k++) {
            const fx_attr *a = all[i]->attrs[k];
            fx_tensor dense;
            if (!a->tensor.storage || (uintptr_t)fx_map_get(&p->seen, a->tensor.storage) < 2)
                continue;
            content c = content_of(g->ctx, a, &dense);
            if (c == HASH)
                fx_map_put(p->tmp, &p->hashed, a->tensor.storage, p);
            release_dense(a, c, &dense);
        }
    }
}

static void put_header(const printer *p)
{
    fx_text *t = p->t;
    const fx_graph *g = p->g;
    fx_put_quoted(t, g->name ? g->name : "");
    fx_printf(t, " %s", fx_stage_name(g->stage));
    if (g->file) {
        fx_puts(t, " file ");
        fx_put_quoted(t, g->file);
    }
    if (g->first && g->first->loc.entry) {
        fx_puts(t, " entry ");
        fx_put_quoted(t, g->first->loc.entry);
    }
}

static void put_symbol(fx_text *t, const fx_sym_range *r)
{
    fx_puts(t, "symbol ");
    fx_put_word(t, r->name, false);
    fx_puts(t, " in [");
    if (r->min == INT64_MIN)
        fx_puts(t, "-inf");
    else
        fx_printf(t, "%lld", (long long)r->min);
    fx_puts(t, ", ");
    if (r->max == INT64_MAX)
        fx_puts(t, "inf");
    else
        fx_printf(t, "%lld", (long long)r->max);
    fx_puts(t, "]\n");
}

static void put_tree(const printer *p, const char *what, const fx_arg *tree)
{
    if (!tree)
        return;
    fx_puts(p->t, what);
    put_arg(p, p->t, tree, NULL);
    fx_puts(p->t, "\n");
}

static void put_nodes(const printer *p)
{
    put_tree(p, "inputs ", p->g->in_tree);
    put_tree(p, "outputs ", p->g->out_tree);
    fx_puts(p->t, "\n");
    FX_FOR_NODES(p->g, n)
        put_node(p, n);
}

void fx_graph_print(fx_text *t, const fx_graph *g)
{
    /* Types and arguments are interned while printing, which leaves the graph what it is. */
    printer p = {.t = t, .tmp = fx_arena_create(g->ctx), .g = (fx_graph *)(uintptr_t)g};
    fx_find_subgraphs(&p.inner, p.tmp, g);
    count_storages(&p, g);
    for (size_t i = 0; i < p.inner.n; i++)
        count_storages(&p, p.inner.graphs[i]);
    find_hashed(&p, g);
    for (size_t i = 0; i < p.inner.n; i++)
        find_hashed(&p, p.inner.graphs[i]);
    fx_puts(t, "graph ");
    put_header(&p);
    fx_puts(t, "\n");
    for (size_t i = 0; i < p.inner.n; i++) {
        p.g = (fx_graph *)(uintptr_t)p.inner.graphs[i];
        fx_printf(t, "\nsubgraph %zu ", i);
        put_header(&p);
        fx_puts(t, " {\n");
        for (size_t k = 0; k < p.g->n_symbols; k++)
            put_symbol(t, &p.g->symbols[k]);
        put_modules(&p);
        put_nodes(&p);
        fx_puts(t, "}\n");
    }
    fx_puts(t, p.inner.n ? "\n" : "");
    p.g = (fx_graph *)(uintptr_t)g;
    for (size_t i = 0; i < g->n_symbols; i++)
        put_symbol(t, &g->symbols[i]);
    put_modules(&p);
    put_nodes(&p);
    fx_arena_free(p.tmp);
}
