/* cli/cmd_check.c: fxcc check: emit, build, run, compare.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "fxcc/pass.h"

typedef struct arguments {
    fx_compile_options options;
    const char *model, *against;
    double rtol, atol;
    bool layers;
} arguments;

enum { KEY_AGAINST = 0x100, KEY_RTOL, KEY_ATOL, KEY_LAYERS };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    double *number = key == KEY_RTOL ? &a->rtol : &a->atol;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->options; return 0;
    case KEY_AGAINST: a->against = arg; return 0;
    case KEY_LAYERS: a->layers = true; return 0;
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
    {"layers", KEY_LAYERS, NULL, 0, "also name the first node at which emitted code and reference interpreter part", 0},
    {0}};

static const struct argp_child children[] = {{&lowering_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .children = children,
    .doc = "Emits the model's C, builds it with $CC (default cc) and $CFLAGS (default -O2), runs it and compares its outputs with a reference. An output agrees when no "
           "element differs by more than A + R * max |expected|. Exits 1 when one does not."};

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* A 16-bit pattern with so many bits of mantissa. */
static double half(uint16_t h, int mantissa)
{
    int exponents = 1 << (15 - mantissa), e = h >> mantissa & (exponents - 1), m = h & ((1 << mantissa) - 1), bias = exponents / 2 - 1;
    double v = e == exponents - 1 ? (m ? NAN : INFINITY) : e ? ldexp(m + (1 << mantissa), e - bias - mantissa) : ldexp(m, 1 - bias - mantissa);

    return h & 0x8000 ? -v : v;
}

static double element(const fx_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case FX_F16: return half(((const uint16_t *)t->data)[i], 10);
    case FX_BF16: return half(((const uint16_t *)t->data)[i], 7);
    case FX_F32: return ((const float *)t->data)[i];
    case FX_F64: return ((const double *)t->data)[i];
    case FX_I8: return ((const int8_t *)t->data)[i];
    case FX_I16: return ((const int16_t *)t->data)[i];
    case FX_I32: return ((const int32_t *)t->data)[i];
    case FX_I64: return (double)((const int64_t *)t->data)[i];
    case FX_U8:
    case FX_BOOL: return ((const uint8_t *)t->data)[i];
    default: return NAN;
    }
}

typedef struct difference {
    double abs, rel, max_ref; /* rel: abs / max_ref */
    bool agrees;
} difference;

/* NaN agrees with NaN and an infinity with itself; any other non-finite difference is infinite. */
static difference compare(const fx_tensor *got, const fx_tensor *ref, double rtol, double atol)
{
    difference d = {0};
    int64_t n = fx_tensor_numel(ref);

    for (int64_t i = 0; i < n; i++) {
        double a = element(got, i), b = element(ref, i);
        if (isfinite(b) && fabs(b) > d.max_ref)
            d.max_ref = fabs(b);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        double diff = fabs(a - b);
        if (!isfinite(diff))
            diff = INFINITY;
        if (diff > d.abs)
            d.abs = diff;
    }
    d.rel = d.abs == 0 ? 0 : d.abs / d.max_ref;
    d.agrees = d.abs <= atol + rtol * d.max_ref;
    return d;
}

static bool same_shape(const fx_tensor *a, const fx_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int d = 0; d < a->rank; d++)
        if (a->sizes[d] != b->sizes[d])
            return false;
    return true;
}

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

/* One line an output. Returns whether all agree. */
static bool print_table(const arguments *a, const reference *r, const fx_tensor *got, const fx_tensor *ref)
{
    bool all = true;
    char shape[256], name[64];

    printf("%-8s %-28s %12s %12s %12s\n", "output", "shape", "max abs", "max rel", "max |ref|");
    for (size_t i = 0; i < r->calls * (r->n_out + r->n_changes); i++) {
        difference d = compare(&got[i], &ref[i], a->rtol, a->atol);
        printf("%-8s %-28s %12.4g %12.4g %12.4g  %s\n", result_name(r, i, name, sizeof name), shape_text(&ref[i], shape, sizeof shape), d.abs, d.rel, d.max_ref,
               d.agrees ? "ok" : "DIFFERS");
        all &= d.agrees;
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

/* Runs both ways with the given nodes as outputs. *first: the first that differs, or count. Returns 0, or 1 with a message. */
static int compare_nodes(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const char *dir, const fx_tensor *in,
                         size_t count, fx_node *const *nodes, size_t *first, difference *d)
{
    fx_graph *probe;
    fx_tensor *got = NULL, *ref;
    size_t n_got, n_ref;

    if (fx_graph_with_outputs(graph, count, nodes, &probe) != FX_OK ||
        fx_graph_calls(probe, 1, fx_graph_input_count(probe), in, &n_ref, &ref) != FX_OK ||
        run_emitted(command, ctx, probe, &a->options, dir, in, 1, &n_got, &got))
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

/* Finds the first node, in the order of the graph, whose value in the emitted code departs from the interpreter's. First with
 * all values kept: one compile. Keeping a value stops fusion across it and gives it memory of its own, so a fault of either
 * shows no more; then single values, by bisection: a node that departs while one before it agrees. */
static int find_layer(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const char *dir, const fx_tensor *in)
{
    size_t count = 0, first, zero;
    fx_node **nodes = malloc((fx_graph_node_count(graph) + 1) * sizeof *nodes);
    difference d = {0}, found = {0};

    if (!nodes)
        return complain(command, "out of memory");
    for (fx_node *n = fx_graph_first(graph); n; n = fx_node_next(n))
        if (fx_node_opcode(n) != FX_PLACEHOLDER && fx_node_opcode(n) != FX_GET_ATTR && fx_node_is_tensor(n))
            nodes[count++] = n;
    if (compare_nodes(command, ctx, graph, a, dir, in, count, nodes, &first, &d))
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
    if (count && compare_nodes(command, ctx, graph, a, dir, in, 1, &nodes[count - 1], &zero, &found))
        goto failed;
    if (count && zero == 0)
        bad = count - 1;
    while (bad < count && good < bad) {
        size_t middle = good + (bad - good) / 2;
        if (compare_nodes(command, ctx, graph, a, dir, in, 1, &nodes[middle], &zero, &d))
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

static int check(const char *command, fx_context *ctx, const arguments *a, const char *dir)
{
    fx_graph *graph;
    fx_tensor *tensors = NULL, *got = NULL;
    size_t n_tensors, n_got;
    char *file = (char *)a->against;
    reference r;
    int rc = 1;

    if (fx_load_model(ctx, a->model, &graph) != FX_OK || fx_graph_legalize(graph, &graph) != FX_OK ||
        read_tensors(ctx, 1, &file, &n_tensors, &tensors) != FX_OK)
        return 1;
    if (read_reference(command, graph, a, n_tensors, &r))
        goto done;
    const fx_tensor *ref = tensors + r.n_in;
    if (check_shapes(command, graph, a, &r, tensors, ref) ||
        run_emitted(command, ctx, graph, &a->options, dir, tensors, r.calls, &n_got, &got))
        goto done;
    rc = !print_table(a, &r, got, ref);
    if (a->layers) {
        fx_tensor *judged;
        size_t n_judged;
        bool faithful = true;

        if (fx_graph_calls(graph, r.calls, r.n_in, tensors, &n_judged, &judged) != FX_OK) {
            rc = 1;
            goto done;
        }
        for (size_t i = 0; i < n_judged; i++)
            faithful &= compare(&judged[i], &ref[i], a->rtol, a->atol).agrees;
        if (!faithful)
            printf("the reference interpreter itself departs from %s: the model's import or the reference is at fault\n", a->against);
        if (find_layer(command, ctx, graph, a, dir, tensors))
            rc = 1;
    }
done:
    free(got);
    free(tensors);
    return rc;
}

int cmd_check(int argc, char **argv)
{
    arguments a = {.rtol = 1e-4};
    const char *command = argv[0];

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    char *dir = temp_folder(command);
    int rc = 1;
    if (dir) {
        progress_begin("checking");
        rc = check(command, ctx, &a, dir);
        report(command, ctx, false);
        temp_remove(dir);
        free(dir);
    }
    fx_context_free(ctx);
    end_options(&a.options);
    return rc;
}
