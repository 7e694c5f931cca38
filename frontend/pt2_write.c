/* frontend/pt2_write.c: graphs of aten operators to archives that torch.export.load reads: the signature, the trees of inputs and outputs,
 * the stored tensors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

void fx_pt2_put(fx_pt2_out *w, const char *text)
{
    if (fx_json_put(&w->json, text))
        return;
    fx_puts(&w->json, "\"\"");
    if (w->status == FX_OK)
        w->status = fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &w->loc, "a .pt2 holds only valid UTF-8, got the text '%.100s'", text);
}

/* ---- types ------------------------------------------------------------------------------------------------------------- */

static void put_meta(fx_pt2_out *w, fx_dtype dtype, int rank, const fx_dim *sizes, const fx_dim *strides, uint64_t offset, bool requires_grad)
{
    bool differentiable = fx_dtype_is_float(dtype) || dtype == FX_C64 || dtype == FX_C128;
    fx_printf(&w->json, "{\"dtype\": %d, \"sizes\": [", fx_pt2_dtype_number(dtype));
    for (int i = 0; i < rank; i++) {
        fx_puts(&w->json, i ? ", " : "");
        fx_pt2_put_dim(w, sizes[i]);
    }
    fx_printf(&w->json, "], \"requires_grad\": %s, \"device\": {\"type\": \"cpu\", \"index\": null}, \"strides\": [",
              requires_grad && differentiable ? "true" : "false");
    for (int i = 0; i < rank; i++) {
        fx_puts(&w->json, i ? ", " : "");
        fx_pt2_put_dim(w, strides[i]);
    }
    fx_printf(&w->json, "], \"storage_offset\": {\"as_int\": %llu}, \"layout\": %d}", (unsigned long long)offset,
              fx_pt2_layout_number("torch.strided"));
}

static const fx_sym *as_sym(fx_pt2_out *w, fx_dim d)
{
    return d.sym ? d.sym : fx_sym_int(w->ctx, d.value);
}

/* a * b, a size of 0 counting as 1. */
static fx_dim times(fx_pt2_out *w, fx_dim a, fx_dim b)
{
    if (!b.sym && b.value <= 1)
        return a;
    const fx_sym *both[2] = {as_sym(w, a), as_sym(w, b)}, *s = fx_sym_make(w->ctx, FX_SYM_MUL, 2, both);
    return s->kind == FX_SYM_INT ? (fx_dim){.value = s->value} : (fx_dim){.sym = s};
}

void fx_pt2_put_type(fx_pt2_out *w, const fx_type *type, bool requires_grad)
{
    fx_dim strides[FX_MAX_RANK], step = {.value = 1};
    for (int i = type->rank - 1; i >= 0; i--) {
        strides[i] = type->strides ? type->strides[i] : step;
        step = times(w, step, type->dims[i]);
    }
    put_meta(w, type->dtype, type->rank, type->dims, strides, 0, requires_grad);
}

void fx_pt2_put_window(fx_pt2_out *w, const fx_tensor *t, uint64_t offset, bool requires_grad)
{
    fx_dim sizes[FX_MAX_RANK], strides[FX_MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        sizes[i] = (fx_dim){.value = t->sizes[i]};
        strides[i] = (fx_dim){.value = t->strides[i]};
    }
    put_meta(w, t->dtype, t->rank, sizes, strides, offset, requires_grad);
}

/* ---- stored tensors ------------------------------------------------------------------------------------------------------ */

static bool is_constant(const fx_attr *a)
{
    return !a->is_parameter && !a->persistent;
}

/* One folder: an entry for each piece of memory, and the table of what windows on them the tensors are. */
static fx_status write_tensors(fx_pt2_out *w, fx_zip_out *z, const char *root, const fx_groups *groups, bool constants)
{
    const char *folder = constants ? "constants" : "weights", *prefix = constants ? "tensor" : "weight";
    bool some = false;
    size_t n_entries = 0;
    fx_text_init(&w->json, w->tmp);
    fx_puts(&w->json, "{\"config\": {");
    for (size_t i = 0; i < groups->n; i++) {
        const fx_group *one = groups->all[i];
        uint64_t begin, end;
        bool here = false;
        fx_group_extent(one, &begin, &end);
        for (size_t k = 0; k < one->n; k++) {
            const fx_attr *a = one->attrs[k];
            size_t size = fx_dtype_size(a->tensor.dtype);
            uint64_t offset = fx_window_offset(&a->tensor) - begin;
            fx_loc loc = {.file = w->loc.file};
            if (is_constant(a) != constants)
                continue;
            if (a->tensor.dtype != one->attrs[0]->tensor.dtype || offset % size)
                return fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &loc, "a .pt2 cannot hold '%s', which shares memory with '%s' of another dtype; write a .fx",
                               a->path, one->attrs[0]->path);
            fx_puts(&w->json, some ? ", " : "");
            fx_pt2_put(w, a->path);
            fx_printf(&w->json, ": {\"path_name\": \"%s_%zu\", \"is_param\": %s, \"use_pickle\": false, \"tensor_meta\": ", prefix, n_entries,
                      a->is_parameter ? "true" : "false");
            fx_pt2_put_window(w, &a->tensor, offset / size, a->is_parameter);
            fx_puts(&w->json, "}");
            some = here = true;
        }
        if (!here)
            continue;
        fx_tensor whole = {.dtype = FX_U8, .storage = one->storage};
        FX_TRY(fx_tensor_touch(w->ctx, &whole));
        FX_TRY(fx_zip_add(z, fx_arena_printf(w->tmp, "%sdata/%s/%s_%zu", root, folder, prefix, n_entries),
                          end > begin ? (const char *)one->storage->data + begin : "", end - begin));
        n_entries++;
    }
    fx_puts(&w->json, "}}");
    FX_TRY(w->status);
    return fx_zip_add(z, fx_arena_printf(w->tmp, "%sdata/%s/model_%s_config.json", root, folder, folder), w->json.data, w->json.size);
}

/* ---- the signature -------------------------------------------------------------------------------------------------------- */

static fx_status put_signature(fx_pt2_out *w)
{
    const fx_node *out = fx_graph_output_node(w->g);
    const fx_arg *results = out->args->items[0];
    bool some = false;
    fx_puts(&w->json, "{\"input_specs\": [");
    for (size_t i = 0; i < w->n_attrs; i++, some = true) {
        const fx_attr *a = w->attrs[i];
        fx_printf(&w->json, "%s{\"%s\": {\"arg\": {\"name\": ", some ? ", " : "", a->is_parameter ? "parameter" : "buffer");
        fx_pt2_put(w, fx_map_get(&w->inputs, a));
        fx_printf(&w->json, "}, \"%s\": ", a->is_parameter ? "parameter_name" : "buffer_name");
        fx_pt2_put(w, a->path);
        if (!a->is_parameter)
            fx_printf(&w->json, ", \"persistent\": %s", a->persistent ? "true" : "false");
        fx_puts(&w->json, "}}");
    }
    FX_FOR_NODES(w->g, n)
        if (n->opcode == FX_PLACEHOLDER) {
            fx_puts(&w->json, some ? ", " : "");
            fx_puts(&w->json, "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": ");
            fx_pt2_put(w, n->name);
            fx_puts(&w->json, "}}}}");
            some = true;
        }
    fx_puts(&w->json, "], \"output_specs\": [");
    for (int i = 0; i < results->n; i++) {
        fx_puts(&w->json, i ? ", {\"user_output\": {\"arg\": " : "{\"user_output\": {\"arg\": ");
        FX_TRY(fx_pt2_put_argument(w, out, NULL, results->items[i]));
        fx_puts(&w->json, "}}");
    }
    fx_puts(&w->json, "]}");
    return FX_OK;
}

/* ---- trees ----------------------------------------------------------------------------------------------------------------- */

/* A pytree spec. Dicts tell their keys in a text within the text. */
static fx_status put_tree(fx_pt2_out *w, fx_text *t, const fx_arg *a)
{
    const char *type = a->kind == FX_ARG_TUPLE ? "builtins.tuple" : a->kind == FX_ARG_LIST ? "builtins.list" : "builtins.dict";
    if (a->kind != FX_ARG_TUPLE && a->kind != FX_ARG_LIST && a->kind != FX_ARG_DICT) {
        if (a->kind != FX_ARG_INT)
            return fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &w->loc, "the model was exported for one value of an input that is no tensor; a .pt2 cannot "
                           "say so again: write a .fx");
        fx_puts(t, "{\"type\": null, \"context\": null, \"children_spec\": []}");
        return FX_OK;
    }
    fx_printf(t, "{\"type\": \"%s\", \"context\": ", type);
    if (a->kind == FX_ARG_DICT) {
        fx_text keys;
        fx_text_init(&keys, w->tmp);
        fx_puts(&keys, "[");
        bool valid = true;
        for (int i = 0; i < a->n; i++) {
            fx_puts(&keys, i ? ", " : "");
            valid &= fx_json_put(&keys, a->keys[i]);
        }
        fx_puts(&keys, "]");
        if (!valid || !fx_json_put(t, keys.data))
            return fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &w->loc, "a .pt2 holds only valid UTF-8 as keys of inputs and outputs");
    } else {
        fx_puts(t, "\"null\"");
    }
    fx_puts(t, ", \"children_spec\": [");
    for (int i = 0; i < a->n; i++) {
        fx_puts(t, i ? ", " : "");
        FX_TRY(put_tree(w, t, a->items[i]));
    }
    fx_puts(t, "]}");
    return FX_OK;
}

static fx_status put_spec(fx_pt2_out *w, const fx_arg *tree)
{
    fx_text t;
    fx_text_init(&t, w->tmp);
    fx_puts(&t, "[1, ");
    FX_TRY(put_tree(w, &t, tree));
    fx_puts(&t, "]");
    fx_pt2_put(w, t.data);
    return FX_OK;
}

/* (0, 1, ..) */
static const fx_arg *numbers(fx_pt2_out *w, int n)
{
    const fx_arg **items = FX_NEW_ARRAY(w->tmp, const fx_arg *, n + 1);
    for (int i = 0; i < n; i++)
        items[i] = fx_arg_int(w->ctx, i);
    return fx_arg_seq(w->ctx, FX_ARG_TUPLE, n, items);
}

static fx_status put_trees(fx_pt2_out *w)
{
    int n_in = 0, n_out = fx_graph_output_node(w->g)->args->items[0]->n;
    FX_FOR_NODES(w->g, n)
        n_in += n->opcode == FX_PLACEHOLDER;
    const fx_arg *flat[2] = {numbers(w, n_in), fx_arg_dict(w->ctx, 0, NULL, NULL)}, *in = w->g->in_tree, *out = w->g->out_tree;
    fx_puts(&w->json, "\"module_call_graph\": [{\"fqn\": \"\", \"signature\": {\"inputs\": [], \"outputs\": [], \"in_spec\": ");
    FX_TRY(put_spec(w, in ? in : fx_arg_seq(w->ctx, FX_ARG_TUPLE, 2, flat)));
    fx_puts(&w->json, ", \"out_spec\": ");
    FX_TRY(put_spec(w, out ? out : n_out == 1 ? fx_arg_int(w->ctx, 0) : numbers(w, n_out)));
    fx_puts(&w->json, ", \"forward_arg_names\": null}}]");
    return FX_OK;
}

/* ---- the whole -------------------------------------------------------------------------------------------------------------- */

/* Parameters, then buffers, as torch orders a graph's inputs. */
static fx_status collect(fx_pt2_out *w)
{
    fx_module **stack = NULL, **order = NULL;
    size_t depth = 0, cap = 0, n = 0, cap_order = 0;
    FX_PUSH(w->tmp, stack, depth, cap) = w->g->root;
    while (depth > 0) {
        fx_module *m = stack[--depth];
        FX_PUSH(w->tmp, order, n, cap_order) = m;
        for (size_t i = m->n_children; i > 0; i--)
            FX_PUSH(w->tmp, stack, depth, cap) = m->children[i - 1];
    }
    for (int parameters = 1; parameters >= 0; parameters--)
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < order[i]->n_attrs; k++) {
                fx_attr *a = order[i]->attrs[k];
                if (a->is_parameter != !!parameters)
                    continue;
                if (a->tensor.rank > FX_MAX_RANK || !a->tensor.storage)
                    return fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &w->loc, "the tensor '%s' has no storage of its own", a->path);
                FX_PUSH(w->tmp, w->attrs, w->n_attrs, w->cap_attrs) = a;
            }
    return FX_OK;
}

static fx_status put_program(fx_pt2_out *w)
{
    fx_puts(&w->json, "{\"graph_module\": {\"graph\": ");
    FX_TRY(fx_pt2_put_graph(w));
    fx_puts(&w->json, ", \"signature\": ");
    FX_TRY(put_signature(w));
    fx_puts(&w->json, ", ");
    FX_TRY(put_trees(w));
    fx_puts(&w->json, ", \"metadata\": {}, \"treespec_namedtuple_fields\": {}}, \"opset_version\": {\"aten\": 10}, \"range_constraints\": ");
    fx_pt2_put_ranges(w);
    fx_puts(&w->json, ", \"schema_version\": {\"major\": 8, \"minor\": 20}, \"verifiers\": [\"TRAINING\"], \"torch_version\": \"2.13.0\", "
                      "\"guards_code\": []}");
    return w->status;
}

/* The graph's name as a folder. */
static const char *root_name(fx_pt2_out *w)
{
    const char *name = w->g->name;
    bool good = name && *name && *name != '.';
    for (const char *c = name; good && *c; c++)
        good = *c > ' ' && *c < 127 && *c != '/' && *c != '\\';
    return fx_arena_printf(w->tmp, "%s/", good ? name : "model");
}

static void free_arena(void *arg)
{
    fx_arena_free(arg);
}

fx_status fx_pt2_save(const fx_graph *g, const char *path)
{
    fx_context *ctx = g->ctx;
    fx_pt2_out w = {.ctx = ctx, .g = g, .tmp = fx_arena_create(ctx), .loc = {.file = fx_intern(ctx, path)}};
    fx_defer(ctx, free_arena, w.tmp);
    if (g->stage == FX_STAGE_CAPTURED)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &w.loc, "a .pt2 holds graphs of aten operators, this one is as captured; run the pass legalize "
                       "first, or write a .fx");
    if (!fx_graph_output_node(g))
        return fx_fail(ctx, FX_ERR_ARGUMENT, &w.loc, "expected a graph with an output node, got one without");
    w.names = FX_NEW_ARRAY(w.tmp, const char *, g->n_ids + 1);
    FX_TRY(collect(&w));
    fx_text_init(&w.json, w.tmp);
    FX_TRY(put_program(&w));
    fx_text program = w.json;
    const char *root = root_name(&w);
    fx_groups groups = {0};
    fx_tensor_groups(g, w.tmp, &groups);
    fx_zip_out z = {.arena = w.tmp};
    FX_TRY(fx_output_open(ctx, path, &z.o));
    FX_TRY(write_tensors(&w, &z, root, &groups, false));
    FX_TRY(write_tensors(&w, &z, root, &groups, true));
    FX_TRY(fx_zip_add(&z, fx_arena_printf(w.tmp, "%smodels/model.json", root), program.data, program.size));
    static const struct { const char *name, *text; } words[] = {{"data/sample_inputs/model.pt", ""}, {"archive_format", "pt2"},
        {"archive_version", "0"}, {"byteorder", "little"}, {".data/version", "6\n"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        FX_TRY(fx_zip_add(&z, fx_arena_printf(w.tmp, "%s%s", root, words[i].name), words[i].text, strlen(words[i].text)));
    FX_TRY(fx_zip_end(&z));
    FX_TRY(fx_output_close(z.o));
    return fx_output_commit(z.o);
}
