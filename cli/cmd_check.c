/* cli/cmd_check.c: fxcc check: run all ways, compare.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "fxcc/pass.h"

typedef struct arguments {
    fx_compile_options options;
    const char *model, *against, *device; /* device: NULL: this machine's processor */
    double rtol, atol;
    bool layers, named;       /* named: ways were */
    unsigned ways;            /* 1 << way */
    way judged;               /* for --layers */
} arguments;

enum { KEY_AGAINST = 0x100, KEY_RTOL, KEY_ATOL, KEY_LAYERS, KEY_ONLY, KEY_DEVICE };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    double *number = key == KEY_RTOL ? &a->rtol : &a->atol;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->options; return 0;
    case KEY_AGAINST: a->against = arg; return 0;
    case KEY_LAYERS: a->layers = true; return 0;
    case KEY_DEVICE: a->device = arg; return 0;
    case KEY_ONLY:
        a->named = true;
        if (!parse_ways(arg, &a->ways))
            argp_error(state, "expected --only=WAYS of interpreter, c and jit, with commas between, got '%s'", arg);
        return 0;
    case KEY_RTOL:
    case KEY_ATOL:
        if (!parse_number(arg, number) || !(*number >= 0))
            argp_error(state, "expected a tolerance of at least 0, got '%s'", arg);
        return 0;
    case ARGP_KEY_ARG: return one_argument(state, &a->model, arg, "model");
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to check");
        if (!a->against)
            argp_error(state, "expected --against FILE.npz, the inputs and expected outputs");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"against", KEY_AGAINST, "FILE.npz", 0, "the inputs in the model's order, then the expected outputs; of a model that changes inputs or buffers, "
     "for each of several calls in a row the outputs, then the changed inputs, then the changed buffers", 0},
    {"rtol", KEY_RTOL, "R", 0, "allowed difference as a part of the greatest expected magnitude of an output (default 1e-4)", 0},
    {"atol", KEY_ATOL, "A", 0, "allowed difference on top (default 0)", 0},
    {"layers", KEY_LAYERS, NULL, 0, "also name the first node at which compiled code and reference interpreter part", 0},
    {"only", KEY_ONLY, "WAYS", 0, "what to compare with the reference: interpreter, c (emitted and built), jit (compiled in memory), with commas between; "
     "default all three", 0},
    {"device", KEY_DEVICE, "DEVICE", 0, "what is compiled in memory runs on a GPU, cuda or cuda:N", 0},
    {0}};

static const struct argp_child children[] = {{&lowering_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .children = children,
    .doc = "Runs a model by the reference interpreter, as the C it is compiled to (built with $CC, default cc, and $CFLAGS, default -O2), and compiled in "
           "memory, and compares each one's outputs with a reference. An output agrees when no element differs by more than A + R * max |expected|. Exits 1 "
           "when one does not."};

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* What is compared: so many calls, each with outputs and changes. */
typedef struct reference {
    size_t calls, n_in, n_out, n_changes;
    const fx_written *changes;
} reference;

/* "0"; of several calls "2:0"; of what they change "x:1" for an input, else the buffer's path. */
static const char *result_name(const reference *r, size_t i, char *buf, size_t size)
{
    size_t call = i / (r->n_out + r->n_changes), k = i % (r->n_out + r->n_changes);
    int at = r->n_changes ? snprintf(buf, size, "%zu:", call + 1) : 0;

    if (k < r->n_out)
        snprintf(buf + at, size - (size_t)at, "%zu", k);
    else if (r->changes[k - r->n_out].buffer)
        snprintf(buf + at, size - (size_t)at, "%s", r->changes[k - r->n_out].buffer);
    else
        snprintf(buf + at, size - (size_t)at, "in%zu", r->changes[k - r->n_out].input);
    return buf;
}

/* A line for each output and way. Returns whether all agree. */
static bool print_table(const arguments *a, const reference *r, fx_tensor *const *got, const fx_tensor *ref)
{
    bool all = true;
    char shape[256], name[64];

    printf("%-8s %-28s %-12s %12s %12s %12s\n", "output", "shape", "by", "max abs", "max rel", "max |ref|");
    for (size_t i = 0; i < r->calls * (r->n_out + r->n_changes); i++) {
        for (int w = N_WAYS; w-- > 0;) {
            if (!got[w])
                continue;
            difference d = compare(&got[w][i], &ref[i], a->rtol, a->atol);
            printf("%-8s %-28s %-12s %12.4g %12.4g %12.4g  %s\n", result_name(r, i, name, sizeof name), shape_text(&ref[i], shape, sizeof shape), way_names[w],
                   d.abs, d.rel, d.max_ref, d.agrees ? "ok" : "DIFFERS");
            all &= d.agrees;
        }
    }
    return all;
}

/* ---- layers ---------------------------------------------------------------------------------------------------------- */

static void print_node(const fx_node *n, const difference *d)
{
    printf("%s: %s", fx_node_name(n), fx_node_target(n));
    if (fx_node_module(n))
        printf(", module %s", fx_node_module(n));
    if (fx_node_frame(n))
        printf(", %s", fx_node_frame(n));
    printf(": max abs %.4g, max rel %.4g, max |ref| %.4g\n", d->abs, d->rel, d->max_ref);
}

/* Runs a->judged and the interpreter with the given nodes as outputs. *first: the first that differs, or count. Returns 0, or 1 with a message. */
static int compare_nodes(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const fx_tensor *in, size_t count, fx_node *const *nodes, size_t *first, difference *d)
{
    fx_graph *probe;
    fx_tensor *got = NULL, *ref;
    size_t n_got, n_ref;

    const way_options o = {.lowering = &a->options, .device = a->device};

    if (fx_graph_with_outputs(graph, count, nodes, &probe) != FX_OK ||
        fx_graph_calls(probe, 1, fx_graph_input_count(probe), in, &n_ref, &ref) != FX_OK ||
        run_way(command, ctx, probe, a->judged, &o, in, 1, &n_got, &got))
        return 1;
    *first = count;
    for (size_t i = 0; i < count && *first == count; i++) {
        *d = compare(&got[i], &ref[i], a->rtol, a->atol);
        if (!d->agrees)
            *first = i;
    }
    free(got);
    return 0;
}

/* Finds the first node, in the order of the graph, whose value in the compiled code departs from the interpreter's. First with
 * all values kept: one compile. Keeping a value stops fusion across it and gives it memory of its own, so a fault of either
 * shows no more; then single values, by bisection: a node that departs while one before it agrees. */
static int find_layer(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const fx_tensor *in)
{
    size_t count = 0, first, zero;
    fx_node **nodes = malloc((fx_graph_node_count(graph) + 1) * sizeof *nodes);
    difference d = {0}, found = {0};

    if (!nodes)
        return complain(command, "out of memory");
    for (fx_node *n = fx_graph_first(graph); n; n = fx_node_next(n))
        if (fx_node_opcode(n) != FX_PLACEHOLDER && fx_node_opcode(n) != FX_GET_ATTR && fx_node_is_tensor(n))
            nodes[count++] = n;
    if (compare_nodes(command, ctx, graph, a, in, count, nodes, &first, &d))
        goto failed;
    if (first < count) {
        printf("first node that departs from the reference interpreter:\n  ");
        print_node(nodes[first], &d);
        free(nodes);
        return 0;
    }
    printf("with every value kept, all %zu nodes agree with the reference interpreter\n", count);
    /* nodes[bad] departs when compiled alone (once `bad` is below count); those before `good` are taken to agree */
    size_t good = 0, bad = count;
    if (count && compare_nodes(command, ctx, graph, a, in, 1, &nodes[count - 1], &zero, &found))
        goto failed;
    if (count && zero == 0)
        bad = count - 1;
    while (bad < count && good < bad) {
        size_t middle = good + (bad - good) / 2;
        if (compare_nodes(command, ctx, graph, a, in, 1, &nodes[middle], &zero, &d))
            goto failed;
        if (zero == 0) {
            bad = middle;
            found = d;
        } else {
            good = middle + 1;
        }
    }
    if (bad < count) {
        printf("compiled alone, with what is before it fused, this node departs:\n  ");
        print_node(nodes[bad], &found);
    }
    free(nodes);
    return 0;
failed:
    free(nodes);
    return 1;
}

/* ---- the command ------------------------------------------------------------------------------------------------------ */

/* Fills *r, with as many calls as there are tensors for. */
static int read_reference(const char *command, fx_graph *graph, const arguments *a, size_t n_tensors, reference *r)
{
    *r = (reference){.n_in = fx_graph_input_count(graph), .n_out = fx_graph_output_count(graph), .calls = 1};
    if (fx_graph_written(graph, &r->n_changes, &r->changes) != FX_OK)
        return 1;
    size_t a_call = r->n_out + r->n_changes;
    if (r->n_changes && n_tensors > r->n_in && (n_tensors - r->n_in) % a_call == 0)
        r->calls = (n_tensors - r->n_in) / a_call;
    if (n_tensors == r->n_in + r->calls * a_call)
        return 0;
    if (r->n_changes)
        return complain(command, "%s: expected %zu inputs, then for each call %zu outputs and %zu changed inputs and buffers, got %zu arrays",
                        a->against, r->n_in, r->n_out, r->n_changes, n_tensors);
    return complain(command, "%s: expected %zu inputs and %zu outputs, got %zu arrays", a->against, r->n_in, r->n_out, n_tensors);
}

/* Whether the reference has the shapes that the model gives. */
static int check_shapes(const char *command, fx_graph *graph, const arguments *a, const reference *r, const fx_tensor *in, const fx_tensor *ref)
{
    size_t a_call = r->n_out + r->n_changes;
    char expected[256], seen[256], name[64];
    fx_tensor *wanted = malloc((a_call + 1) * sizeof *wanted);
    int rc = 1;

    if (!wanted || call_types(graph, r->n_in, in, r->n_out, r->n_changes, r->changes, wanted) != FX_OK)
        goto done;
    for (size_t i = 0; i < r->calls * a_call; i++) {
        const fx_tensor *want = &wanted[i % a_call];
        if (!same_shape(want, &ref[i])) {
            complain(command, "%s: output %s: expected %s, got %s", a->against, result_name(r, i, name, sizeof name),
                     shape_text(want, expected, sizeof expected), shape_text(&ref[i], seen, sizeof seen));
            goto done;
        }
    }
    rc = 0;
done:
    free(wanted);
    return rc;
}

/* Runs the ways that are asked for. What was not asked for by name may be left out where it cannot be: LLVM. */
static int run_ways(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const reference *r, const fx_tensor *in, fx_tensor **got)
{
    const way_options o = {.lowering = &a->options, .device = a->device};
    size_t n;

    for (int k = 0; k < N_WAYS; k++) {
        way w = (way[]){WAY_C, WAY_INTERPRETER, WAY_JIT}[k]; /* the JIT last: C runs in a child, which has none of libgomp's threads */
        if (!(a->ways >> w & 1) || run_way(command, ctx, graph, w, &o, in, r->calls, &n, &got[w]) == 0)
            continue;
        size_t said = fx_diag_count(ctx);
        const fx_diag *d = said ? fx_diag_get(ctx, said - 1) : NULL;
        if (w != WAY_JIT || a->named || !d || d->status != FX_ERR_UNSUPPORTED)
            return 1;
        fprintf(stderr, "%s: warning: not compared with jit: %s\n", command, d->message);
        fx_diag_truncate(ctx, said - 1);
    }
    return 0;
}

static int check(const char *command, fx_context *ctx, arguments *a)
{
    fx_graph *graph;
    fx_tensor *tensors = NULL, *got[N_WAYS] = {NULL};
    size_t n_tensors;
    char *file = (char *)a->against;
    reference r;
    int rc = 1;

    if (fx_load_model(ctx, a->model, &graph) != FX_OK || fx_graph_legalize(graph, &graph) != FX_OK ||
        fx_graph_add_philox_state(graph, false, &graph) != FX_OK || read_tensors(ctx, 1, &file, &n_tensors, &tensors) != FX_OK)
        return 1;
    if (read_reference(command, graph, a, n_tensors, &r))
        goto done;
    const fx_tensor *ref = tensors + r.n_in;
    if (check_shapes(command, graph, a, &r, tensors, ref) || run_ways(command, ctx, graph, a, &r, tensors, got))
        goto done;
    rc = !print_table(a, &r, got, ref);
    if (a->layers) {
        bool faithful = true;
        size_t n;

        if (!got[WAY_INTERPRETER] && run_way(command, ctx, graph, WAY_INTERPRETER, &(way_options){.lowering = &a->options}, tensors, r.calls, &n, &got[WAY_INTERPRETER])) {
            rc = 1;
            goto done;
        }
        for (size_t i = 0; i < r.calls * (r.n_out + r.n_changes); i++)
            faithful &= compare(&got[WAY_INTERPRETER][i], &ref[i], a->rtol, a->atol).agrees;
        if (!faithful)
            printf("the reference interpreter itself departs from %s: the model's import or the reference is at fault\n", a->against);
        for (int w = WAY_C; w < N_WAYS; w++) { /* the compiled ways */
            if (!got[w])
                continue;
            a->judged = (way)w;
            printf("%s:\n", way_names[w]);
            if (find_layer(command, ctx, graph, a, tensors))
                rc = 1;
        }
    }
done:
    for (int w = 0; w < N_WAYS; w++)
        free(got[w]);
    free(tensors);
    return rc;
}

int cmd_check(int argc, char **argv)
{
    arguments a = {.rtol = 1e-4, .ways = (1u << N_WAYS) - 1};
    const char *command = argv[0];

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin("checking");
    int rc = refuse_gpu(command, ctx, &a.options) || check(command, ctx, &a);
    report(command, ctx, false);
    fx_context_free(ctx);
    end_options(&a.options);
    return rc;
}
