/* driver/public.c: fxcc/inspect.h on top of ir/ and lower/.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "driver/driver.h"
#include "fxcc/inspect.h"
#include "fxcc/pass.h"

#include "ir/ir.h"
#include "ir/program.h"
#include "lower/lower.h"

/* ---- tables ---------------------------------------------------------------------------------------------- */

const fx_pass_info *fx_pass_get(size_t i)
{
#define OVER_GRAPH "graph"
#define OVER_PROGRAM "program"
    static const fx_pass_info passes[] = {
#define PASS(name, over, requires, provides, doc) {#name, OVER_##over, doc},
#include "lower/pass.def"
#undef PASS
    };

    return i < sizeof passes / sizeof passes[0] ? &passes[i] : NULL;
}

typedef struct target_job {
    fx_context *ctx;
    const char *name;
    fx_target target;
} target_job;

static fx_status get_target(void *arg)
{
    target_job *job = arg;

    return fx_target_get(job->ctx, job->name, &job->target);
}

fx_status fx_target_describe(fx_context *ctx, const char *name_or_file, fx_target_info *info)
{
    target_job job = {.ctx = ctx, .name = name_or_file};

    FX_TRY(fx_protect(ctx, get_target, &job));
    *info = (fx_target_info){job.target.name, job.target.isa, job.target.cflags, job.target.lanes, fx_target_is_gpu(&job.target)};
    return FX_OK;
}

/* ---- inputs, outputs, values ------------------------------------------------------------------------------- */

/* A captured graph's inputs that have a default and no type are not given. */
static bool is_input(const fx_node *n)
{
    return n->opcode == FX_PLACEHOLDER && (n->type || n->args->n == 0);
}

const fx_node *fx_input_node(const fx_graph *g, size_t i)
{
    FX_FOR_NODES(g, n)
        if (is_input(n) && i-- == 0)
            return n;
    return NULL;
}

size_t fx_graph_input_count(const fx_graph *graph)
{
    size_t count = 0;

    FX_FOR_NODES(graph, n)
        count += is_input(n);
    return count;
}

/* Counts the leaves of `a` that are nodes, and finds leaf number `want`. */
static void count_leaves(const fx_node *out, const fx_arg *a, size_t want, size_t *count, fx_node **found)
{
    if (a->kind == FX_ARG_NODE) {
        if ((*count)++ == want)
            *found = out->operands[a->i].def;
        return;
    }
    for (int i = 0; i < a->n; i++)
        count_leaves(out, a->items[i], want, count, found);
}

static size_t output_leaf(const fx_graph *g, size_t want, fx_node **found)
{
    const fx_node *out = fx_graph_output_node(g);
    size_t count = 0;

    *found = NULL;
    if (out)
        count_leaves(out, out->args, want, &count, found);
    return count;
}

size_t fx_graph_output_count(const fx_graph *graph)
{
    fx_node *unused;

    return output_leaf(graph, SIZE_MAX, &unused);
}

/* Each value becomes its number among the outputs that the interpreter gives. */
typedef struct numbering {
    fx_context *ctx;
    const fx_node *output;
    int64_t next;
} numbering;

static const fx_arg *number(numbering *n, const fx_arg *a);

static const fx_arg *number_items(numbering *n, const fx_arg *a)
{
    const fx_arg **items = FX_NEW_ARRAY(fx_arena_scratch(n->ctx), const fx_arg *, a->n + 1);
    for (int i = 0; i < a->n; i++)
        items[i] = number(n, a->items[i]);
    return a->kind == FX_ARG_DICT ? fx_arg_dict(n->ctx, a->n, a->keys, items) : fx_arg_seq(n->ctx, a->kind, a->n, items);
}

static const fx_arg *number(numbering *n, const fx_arg *leaf)
{
    if (leaf->kind == FX_ARG_LIST || leaf->kind == FX_ARG_TUPLE || leaf->kind == FX_ARG_DICT)
        return number_items(n, leaf);
    const fx_type *type = leaf->kind == FX_ARG_NODE ? n->output->operands[leaf->i].def->type : NULL;
    if (type && type->kind == FX_TYPE_TUPLE) {
        const fx_arg **items = FX_NEW_ARRAY(fx_arena_scratch(n->ctx), const fx_arg *, type->n + 1);
        for (int i = 0; i < type->n; i++)
            items[i] = fx_arg_int(n->ctx, n->next++);
        return fx_arg_seq(n->ctx, FX_ARG_TUPLE, type->n, items);
    }
    bool value = leaf->kind == FX_ARG_NODE || leaf->kind == FX_ARG_INT || leaf->kind == FX_ARG_BOOL || leaf->kind == FX_ARG_FLOAT;
    return value ? fx_arg_int(n->ctx, n->next++) : leaf;
}

/* A captured graph's output may be a call that gives several results, which only its type tells. */
static bool needs_types(const fx_graph *g)
{
    const fx_node *output = fx_graph_output_node(g);
    for (int i = 0; output && g->stage == FX_STAGE_CAPTURED && i < output->n_operands; i++)
        if (!output->operands[i].def->type)
            return true;
    return false;
}

/* A kept tree's leaves are places in the output's flat tuple, where things that are no values may stand too. */
typedef struct places {
    const fx_arg **items;
    int n;
} places;

static const fx_arg *item_at(void *user, const fx_arg *leaf)
{
    const places *p = user;
    return leaf->kind == FX_ARG_INT && leaf->i >= 0 && leaf->i < p->n ? p->items[leaf->i] : leaf;
}

static const fx_arg *kept_tree(const fx_graph *g, numbering *n)
{
    const fx_arg *flat = n->output->args->items[0];
    places p = {FX_NEW_ARRAY(fx_arena_scratch(g->ctx), const fx_arg *, flat->n + 1), flat->n};
    for (int i = 0; i < flat->n; i++)
        p.items[i] = number(n, flat->items[i]);
    return fx_arg_map(g->ctx, g->out_tree, item_at, &p);
}

typedef struct tree_job {
    const fx_graph *graph;
    const fx_arg *tree;
} tree_job;

static fx_status find_tree(void *arg)
{
    tree_job *job = arg;
    fx_node *output = fx_graph_output_node(job->graph);
    numbering n = {job->graph->ctx, output, 0};
    if (!output || !output->args->n)
        return FX_OK;
    if (job->graph->out_tree)
        job->tree = kept_tree(job->graph, &n);
    /* An imported graph returns a tuple always; one of one item without a tree stands for the item. */
    else if (job->graph->stage != FX_STAGE_CAPTURED && output->args->items[0]->kind == FX_ARG_TUPLE && output->args->items[0]->n == 1)
        job->tree = fx_arg_int(n.ctx, 0);
    else
        job->tree = number(&n, output->args->items[0]);
    return FX_OK;
}

fx_value fx_graph_output_tree(const fx_graph *graph)
{
    fx_context *ctx = graph->ctx, *own = needs_types(graph) ? fx_context_create_like(ctx) : NULL; /* for the legal graph, needed for its tree alone */
    uint64_t since = fx_context_serial(ctx);
    size_t said = fx_diag_count(ctx);
    fx_graph *legal;
    tree_job job = {graph, NULL};
    if (own && fx_graph_legalize((fx_graph *)(uintptr_t)graph, &legal) == FX_OK)
        job.graph = legal;
    fx_diag_truncate(ctx, said); /* a graph that cannot be legal is interpreted as it is */
    fx_status status = fx_protect(ctx, find_tree, &job);
    if (own)
        fx_context_move(ctx, since, own);
    fx_context_free(own);
    return status == FX_OK && job.tree ? fx_value_of(ctx, NULL, job.tree) : fx_v_none();
}

static fx_status shape_of(const fx_graph *g, const char *what, size_t i, const fx_node *n, fx_tensor *out)
{
    int64_t stride = 1;

    if (!n)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "expected an %s of the model, got number %zu", what, i);
    if (!n->type || n->type->kind != FX_TYPE_TENSOR || !fx_type_is_static(n->type)) {
        fx_text t;

        fx_text_init(&t, fx_context_arena(g->ctx));
        if (n->type)
            fx_type_print(&t, n->type);
        return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &n->loc, "expected %s %zu to be a tensor of static shape, got %s", what, i,
                       t.data ? t.data : "no type");
    }
    *out = (fx_tensor){.dtype = n->type->dtype, .rank = n->type->rank};
    for (int d = n->type->rank - 1; d >= 0; d--) {
        out->sizes[d] = n->type->dims[d].value;
        out->strides[d] = stride;
        stride *= out->sizes[d];
    }
    return FX_OK;
}

typedef struct shape_job {
    const fx_graph *graph;
    const char *what;
    size_t i;
    const fx_node *node;
    fx_tensor shape;
} shape_job;

static fx_status get_shape(void *arg)
{
    shape_job *job = arg;

    return shape_of(job->graph, job->what, job->i, job->node, &job->shape);
}

fx_status fx_graph_input_shape(const fx_graph *graph, size_t i, fx_tensor *out)
{
    shape_job job = {.graph = graph, .what = "input", .i = i, .node = fx_input_node(graph, i)};

    FX_TRY(fx_protect(graph->ctx, get_shape, &job));
    *out = job.shape;
    return FX_OK;
}

fx_status fx_graph_output_shape(const fx_graph *graph, size_t i, fx_tensor *out)
{
    fx_node *n;
    shape_job job = {.graph = graph, .what = "output", .i = i};

    output_leaf(graph, i, &n);
    job.node = n;
    FX_TRY(fx_protect(graph->ctx, get_shape, &job));
    *out = job.shape;
    return FX_OK;
}

/* ---- sizes that are open ----------------------------------------------------------------------------------------------- */

static fx_status info_of(const fx_graph *g, const char *what, size_t i, const fx_node *n, const char *name, fx_value_info *out)
{
    if (!n)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "expected an %s of the model, got number %zu", what, i);
    if (!n->type || n->type->kind != FX_TYPE_TENSOR)
        return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &n->loc, "expected %s %zu to be a tensor of known type", what, i);
    *out = (fx_value_info){.name = name, .dtype = n->type->dtype, .rank = n->type->rank};
    for (int d = 0; d < out->rank; d++) {
        fx_dim_bounds(fx_graph_symbols(g), n->type->dims[d], &out->min[d], &out->max[d]);
        out->min[d] = out->min[d] < 0 ? 0 : out->min[d];
    }
    return FX_OK;
}

fx_status fx_graph_input_info(const fx_graph *graph, size_t i, fx_value_info *out)
{
    const fx_node *n = fx_input_node(graph, i);
    return info_of(graph, "input", i, n, n ? n->target : NULL, out);
}

fx_status fx_graph_output_info(const fx_graph *graph, size_t i, fx_value_info *out)
{
    fx_node *n;
    output_leaf(graph, i, &n);
    return info_of(graph, "output", i, n, n ? n->name : NULL, out);
}

typedef struct least_job {
    fx_graph *graph;
    fx_compile_options options;
    fx_tensor *inputs;
} least_job;

static fx_status find_least(void *arg)
{
    least_job *job = arg;
    fx_graph *g;
    size_t i = 0;
    FX_TRY(fx_sized_copy(job->graph, &job->options, &g));
    int64_t *values = FX_NEW_ARRAY(g->arena, int64_t, g->n_symbols + 1);
    for (size_t k = 0; k < g->n_symbols; k++)
        values[k] = g->symbols[k].min;
    FX_FOR_NODES(g, n)
        if (is_input(n) && !fx_sizes_shape(g, values, n->type, &job->inputs[i++]))
            return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &n->loc, "expected input '%s' to be a tensor whose sizes are told", n->target);
    return FX_OK;
}

fx_status fx_graph_least_inputs(fx_graph *graph, const char *const *dims, size_t n_dims, fx_tensor *inputs)
{
    least_job job = {.graph = graph, .options = {.dims = dims, .n_dims = n_dims}, .inputs = inputs};
    return fx_protect(graph->ctx, find_least, &job);
}

typedef struct shapes_job {
    const fx_graph *graph;
    size_t n_inputs;
    const fx_tensor *inputs;
    fx_tensor *outputs;
} shapes_job;

static fx_status get_shapes(void *arg)
{
    shapes_job *job = arg;
    const fx_graph *g = job->graph;
    fx_arena *arena = fx_arena_scratch(g->ctx);
    size_t n = fx_graph_input_count(g), n_out = fx_graph_output_count(g);
    int64_t *values = FX_NEW_ARRAY(arena, int64_t, g->n_symbols + 1);
    const fx_node **nodes = FX_NEW_ARRAY(arena, const fx_node *, n + 1);

    if (n != job->n_inputs)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "expected %zu inputs, got %zu", n, job->n_inputs);
    for (size_t i = 0; i < n; i++)
        nodes[i] = fx_input_node(g, i);
    FX_TRY(fx_sizes_of_inputs(g, n, nodes, job->inputs, values));
    for (size_t i = 0; i < n_out && job->outputs; i++) {
        fx_node *node;
        output_leaf(g, i, &node);
        if (!fx_sizes_shape(g, values, node->type, &job->outputs[i]))
            return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &node->loc, "expected output %zu to be a tensor whose sizes the inputs tell", i);
    }
    return FX_OK;
}

fx_status fx_graph_shapes_for(const fx_graph *graph, size_t n_inputs, const fx_tensor *inputs, fx_tensor *outputs)
{
    shapes_job job = {graph, n_inputs, inputs, outputs};

    return fx_protect(graph->ctx, get_shapes, &job);
}

bool fx_node_is_tensor(const fx_node *node)
{
    return node->opcode != FX_OUTPUT && node->type && node->type->kind == FX_TYPE_TENSOR;
}

typedef struct outputs_job {
    fx_graph *graph, *copy;
    size_t count;
    fx_node *const *nodes;
} outputs_job;

static fx_status with_outputs(void *arg)
{
    outputs_job *job = arg;
    fx_context *ctx = job->graph->ctx;
    fx_graph *g = fx_graph_copy(job->graph);
    fx_node *out = fx_graph_output_node(g);
    fx_node **defs = FX_NEW_ARRAY(g->arena, fx_node *, job->count);
    const fx_arg **items = FX_NEW_ARRAY(g->arena, const fx_arg *, job->count);

    if (!out)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "expected a graph with an output node, got one without");
    for (size_t i = 0; i < job->count; i++) {
        if (job->nodes[i]->graph != job->graph || !fx_node_is_tensor(job->nodes[i]))
            return fx_fail(ctx, FX_ERR_ARGUMENT, &job->nodes[i]->loc, "expected a node of this graph whose value is a tensor");
        defs[i] = fx_graph_find_node(g, job->nodes[i]->name);
        if (!defs[i])
            return fx_fail(ctx, FX_INTERNAL, &job->nodes[i]->loc, "expected the copied graph to keep this node");
        items[i] = fx_arg_operand(ctx, (int)i);
    }
    const fx_arg *list = fx_arg_seq(ctx, FX_ARG_TUPLE, (int)job->count, items);
    g->out_tree = NULL;
    fx_node_assign(out, fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &list), NULL, (int)job->count, defs);
    FX_TRY(fx_node_infer(out));
    job->copy = g;
    return FX_OK;
}

fx_status fx_graph_with_outputs(fx_graph *graph, size_t count, fx_node *const *nodes, fx_graph **out)
{
    outputs_job job = {.graph = graph, .count = count, .nodes = nodes};

    FX_TRY(fx_protect(graph->ctx, with_outputs, &job));
    *out = job.copy;
    return FX_OK;
}
