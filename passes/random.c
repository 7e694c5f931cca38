/* passes/random.c: random operators become fxcc.philox and arithmetic, so that what they give follows from a state, int64[2]: a seed and the
 * number of the call. The state is an input, or a buffer whose second number each run raises by one.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Each random operator has streams of its own, in the order of the graph. How numbers come of bits is ours, not torch's, whose own differ
 * from device to device. */
#include <math.h>
#include <string.h>

#include "ir/ops.h"
#include "passes/rewrite.h"

typedef struct draws {
    fx_rw w;
    fx_node *state;
    int64_t stream;              /* the next one */
} draws;

/* ---- uniform numbers ----------------------------------------------------------------------------------------------- */

/* Elements of these sizes: float32 in [0, 1), or bits as int64. */
static fx_node *philox(draws *d, int rank, const fx_dim *sizes, fx_dtype dtype, const char *name)
{
    fx_call c = fx_rw_call(&d->w, FX_OP_philox);
    if (d->stream >= FX_PHILOX_STREAMS)
        fx_rw_refuse(&d->w, "more random operators than %d", FX_PHILOX_STREAMS);
    fx_call_node(&c, d->state);
    fx_call_sizes(&c, rank, sizes);
    fx_call_int(&c, d->stream++);
    fx_call_arg(&c, fx_arg_dtype(d->w.ctx, dtype));
    return fx_rw_node(&d->w, &c, name);
}

static fx_node *scaled(draws *d, fx_node *x, double by, const char *name)
{
    return fx_rw_number(&d->w, FX_OP_mul_Tensor, x, by, name);
}

/* Uniform in [0, 1) in the dtype: 24 bits as float32, 53 as float64; as many as fit for half-wide floats, rounded down. */
static fx_node *uniform(draws *d, int rank, const fx_dim *sizes, fx_dtype dtype)
{
    fx_rw *w = &d->w;
    if (dtype == FX_F64) {
        fx_node *part[2];
        for (int k = 0; k < 2; k++) {
            part[k] = philox(d, rank, sizes, FX_I64, k ? "low_bits" : "high_bits");
            part[k] = fx_rw_number(w, FX_OP_bitwise_right_shift_Tensor_Scalar, part[k], k ? 6 : 5, "bits");
            part[k] = fx_rw_cast(w, part[k], FX_F64, "number");
        }
        fx_node *whole = fx_rw_binary(w, FX_OP_add_Tensor, scaled(d, part[0], 0x1p26, "high"), part[1], "sum");
        return scaled(d, whole, 0x1p-53, "uniform");
    }
    fx_node *u = philox(d, rank, sizes, FX_F32, "uniform");
    if (dtype == FX_F32)
        return u;
    double steps = dtype == FX_F16 ? 0x1p11 : 0x1p8;
    u = fx_rw_unary(w, FX_OP_floor, scaled(d, u, steps, "steps"), "floor");
    return fx_rw_cast(w, scaled(d, u, 1 / steps, "down"), dtype, "half");
}

/* The dtype that log and cos are computed in. */
static fx_dtype wide(fx_dtype d)
{
    return d == FX_F64 ? FX_F64 : FX_F32;
}

/* Whether an event of probability p happens. */
static fx_node *happens(draws *d, int rank, const fx_dim *sizes, double p)
{
    fx_node *u = philox(d, rank, sizes, FX_F32, "uniform");
    return fx_rw_number(&d->w, FX_OP_lt_Scalar, u, (double)(float)p, "happens");
}

/* ---- the operators ---------------------------------------------------------------------------------------------------- */

/* The elements kept, and x * kept / (1 - p); sizes: of what is kept or dropped as one. */
static fx_node *dropped(draws *d, fx_node *x, double p, int rank, const fx_dim *sizes, fx_node **kept)
{
    fx_rw *w = &d->w;
    *kept = happens(d, rank, sizes, 1 - p);
    fx_node *factor = fx_rw_cast(w, *kept, x->type->dtype, "kept"), *y = fx_rw_binary(w, FX_OP_mul_Tensor, x, factor, "rest");
    return scaled(d, y, p < 1 ? 1 / (1 - p) : 0, "scaled");
}

static void native_dropout(draws *d)
{
    fx_rw *w = &d->w;
    fx_node *x = fx_node_input(w->at, 0), *y[2] = {x, NULL};
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes);
    bool training = fx_node_is_none(w->at, 2) || fx_node_bool(w->at, 2);
    if (training) {
        y[0] = dropped(d, x, fx_node_float(w->at, 1), rank, sizes, &y[1]);
    } else {
        fx_call c = fx_rw_call(w, FX_OP_full);
        fx_call_sizes(&c, rank, sizes);
        fx_call_bool(&c, true);
        fx_call_arg(&c, fx_arg_dtype(w->ctx, FX_BOOL));
        y[1] = fx_rw_node(w, &c, "all");
    }
    fx_rw_results(w, 2, y);
}

/* dropout; feature_dropout drops whole channels. */
static void dropout(draws *d)
{
    fx_rw *w = &d->w;
    fx_node *x = fx_node_input(w->at, 0), *kept;
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes);
    for (int i = 2; w->at->op->id == FX_OP_feature_dropout && i < rank; i++)
        sizes[i] = fx_dim_of(1);
    fx_rw_finish(w, dropped(d, x, fx_node_float(w->at, 1), rank, sizes, &kept));
}

/* bernoulli of probabilities, or of one. */
static void bernoulli(draws *d)
{
    fx_rw *w = &d->w;
    fx_node *x = fx_node_input(w->at, 0), *y;
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes);
    if (w->at->op->id == FX_OP_bernoulli_p) {
        y = happens(d, rank, sizes, fx_node_float(w->at, 1));
    } else {
        fx_dtype dtype = wide(x->type->dtype);
        if (x->type->dtype != dtype)
            x = fx_rw_cast(w, x, dtype, "probability");
        fx_node *u = uniform(d, rank, sizes, dtype);
        y = fx_rw_binary(w, FX_OP_lt_Tensor, u, x, "happens");
    }
    fx_rw_finish(w, y);
}

/* rand, rand_like; uniform in [from, to). */
static void uniform_op(draws *d)
{
    fx_rw *w = &d->w;
    fx_dim sizes[FX_MAX_RANK];
    fx_dtype dtype = w->at->type->dtype;
    int rank = fx_sizes(w->at, sizes);
    if (w->at->op->id != FX_OP_uniform) {
        fx_rw_finish(w, uniform(d, rank, sizes, dtype));
        return;
    }
    double from = fx_node_float(w->at, 1), to = fx_node_float(w->at, 2);
    fx_node *u = scaled(d, uniform(d, rank, sizes, wide(dtype)), to - from, "span");
    fx_rw_finish(w, fx_rw_number(w, FX_OP_add_Tensor, u, from, "shifted"));
}

/* -log(1 - u): 1 - u is never 0. */
static fx_node *exponential(draws *d, int rank, const fx_dim *sizes, fx_dtype dtype)
{
    fx_rw *w = &d->w;
    fx_node *u = fx_rw_unary(w, FX_OP_neg, uniform(d, rank, sizes, dtype), "neg");
    return fx_rw_unary(w, FX_OP_neg, fx_rw_unary(w, FX_OP_log, fx_rw_number(w, FX_OP_add_Tensor, u, 1, "rest"), "log"), "exponential");
}

/* By Box and Muller: sqrt(2 e) * cos(2 pi u). */
static void normal(draws *d)
{
    fx_rw *w = &d->w;
    fx_dim sizes[FX_MAX_RANK];
    fx_dtype dtype = wide(w->at->type->dtype);
    int rank = fx_sizes(w->at, sizes);
    fx_node *e = exponential(d, rank, sizes, dtype);
    fx_node *radius = fx_rw_unary(w, FX_OP_sqrt, scaled(d, e, 2, "square"), "radius");
    fx_node *angle = scaled(d, uniform(d, rank, sizes, dtype), 6.283185307179586, "angle");
    fx_node *y = fx_rw_binary(w, FX_OP_mul_Tensor, radius, fx_rw_unary(w, FX_OP_cos, angle, "cos"), "normal");
    if (w->at->op->id == FX_OP_normal_functional) {
        double mean = fx_node_float(w->at, 1);
        y = scaled(d, y, fx_node_float(w->at, 2), "spread");
        y = fx_rw_number(w, FX_OP_add_Tensor, y, mean, "shifted");
    }
    fx_rw_finish(w, y);
}

/* Above 0, as eager's are. */
static void exponential_op(draws *d)
{
    fx_rw *w = &d->w;
    fx_dim sizes[FX_MAX_RANK];
    fx_dtype dtype = wide(w->at->type->dtype);
    int rank = fx_sizes(w->at, sizes);
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_node(&c, exponential(d, rank, sizes, dtype));
    fx_call_float(&c, dtype == FX_F64 ? 0x1p-54 : 0x1p-25);
    fx_node *e = fx_rw_node(w, &c, "positive");
    fx_rw_finish(w, fx_rw_number(w, FX_OP_div_Tensor, e, fx_node_float(w->at, 1), "rate"));
}

/* low + bits mod (high - low): of 2^32 numbers, so that a range of r is uniform to r / 2^32. */
static void integers(draws *d)
{
    fx_rw *w = &d->w;
    int high = fx_node_param(w->at, "high"), low = fx_node_param(w->at, "low");
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(w->at, sizes);
    const fx_arg *h = fx_node_arg(w->at, high), *l = low < 0 ? fx_arg_int(w->ctx, 0) : fx_node_arg(w->at, low);
    int64_t range;
    if (h->kind != FX_ARG_INT || l->kind != FX_ARG_INT || __builtin_sub_overflow(h->i, l->i, &range) || range < 1 || range > INT64_C(1) << 32) {
        fx_rw_refuse(w, "expected numbers low < high that are at most 2^32 apart");
        return;
    }
    fx_node *bits = fx_rw_number(w, FX_OP_remainder_Scalar, philox(d, rank, sizes, FX_I64, "bits"), (double)range, "below");
    fx_call c = fx_rw_call(w, FX_OP_add_Scalar);
    fx_call_node(&c, bits);
    fx_call_int(&c, l->i);
    fx_rw_finish(w, fx_rw_node(w, &c, "from_low"));
}

/* ---- the pass --------------------------------------------------------------------------------------------------------------- */

static const struct {
    fx_opid id;
    void (*rewrite)(draws *d);
} table[] = {
    {FX_OP_native_dropout, native_dropout}, {FX_OP_dropout, dropout}, {FX_OP_feature_dropout, dropout}, {FX_OP_bernoulli, bernoulli},
    {FX_OP_bernoulli_p, bernoulli}, {FX_OP_rand, uniform_op}, {FX_OP_rand_like, uniform_op}, {FX_OP_uniform, uniform_op},
    {FX_OP_randn, normal}, {FX_OP_randn_like, normal}, {FX_OP_normal_functional, normal}, {FX_OP_exponential, exponential_op},
    {FX_OP_randint, integers}, {FX_OP_randint_low, integers}, {FX_OP_randint_like, integers}, {FX_OP_randint_like_low_dtype, integers},
};

static void (*rewrite_of(const fx_node *n))(draws *)
{
    if (n->opcode != FX_CALL_FUNCTION || !n->op)
        return NULL;
    bool dropout = n->op->id == FX_OP_dropout || n->op->id == FX_OP_feature_dropout;
    if (dropout && (!fx_node_bool(n, 2) || fx_node_float(n, 1) == 0)) /* the identity */
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].id == n->op->id)
            return table[i].rewrite;
    return NULL;
}

bool fx_is_random(const fx_node *n)
{
    return rewrite_of(n) != NULL;
}

static void place(fx_node *n, fx_node *output, const char *text)
{
    n->loc = (fx_loc){.file = output->loc.file, .entry = output->loc.entry, .node = text};
}

/* A new input, the last. */
static fx_node *state_input(fx_graph *g)
{
    fx_node *last = NULL, *before = g->insert_before;
    FX_FOR_NODES(g, n)
        last = n->opcode == FX_PLACEHOLDER ? n : last;
    g->insert_before = last ? last->next : g->first;
    fx_node *n = fx_node_new(g, FX_PLACEHOLDER, FX_PHILOX_STATE, NULL, NULL, 0, NULL, FX_PHILOX_STATE);
    g->insert_before = before;
    n->type = fx_type_tensor(g->ctx, FX_I64, 1, (fx_dim[]){fx_dim_of(2)}, NULL);
    return n;
}

/* A buffer [seed 0, call 0], which the last node of the graph raises: what is drawn in this call sees it as it was. */
static fx_status state_buffer(fx_graph *g, fx_arena *scratch, fx_node *output, fx_node **state)
{
    static const int64_t two = 2;
    fx_tensor t;
    FX_TRY(fx_tensor_create(g->ctx, FX_I64, 1, &two, &t));
    memset(t.data, 0, 2 * sizeof(int64_t));
    fx_node *before = g->insert_before, *first = g->first;
    while (first->opcode == FX_PLACEHOLDER)
        first = first->next;
    g->insert_before = first;
    *state = fx_graph_constant(g, FX_PHILOX_STATE, &t);
    g->insert_before = before;
    fx_node *at = output;
    while (at->prev && fx_node_is_inplace(at->prev)) /* new values first, then writes */
        at = at->prev;
    fx_rw w = fx_rw_at(g, scratch, at);
    w.origin = *state;
    fx_node *one = fx_rw_arange(&w, fx_dim_of(0), fx_dim_of(2), "step"), *next = fx_rw_binary(&w, FX_OP_add_Tensor, *state, one, "next");
    FX_TRY(w.status);
    fx_node *operands[2] = {*state, next};
    const fx_arg *args[3] = {fx_arg_operand(g->ctx, 0), fx_arg_operand(g->ctx, 1), fx_arg_bool(g->ctx, false)};
    g->insert_before = output;
    fx_node *c = fx_node_new(g, FX_CALL_FUNCTION, "aten.copy_.default", fx_arg_seq(g->ctx, FX_ARG_TUPLE, 3, args), NULL, 2, operands,
                             FX_PHILOX_STATE "_write");
    g->insert_before = before;
    c->type = (*state)->type;
    place(c, output, c->name);
    return FX_OK;
}

/* One more than the streams the graph has already. */
static int64_t first_stream(const fx_graph *g)
{
    int64_t next = 0;
    FX_FOR_NODES(g, n)
        if (fx_is_call(n, FX_OP_philox) && fx_node_int(n, 2) >= next)
            next = fx_node_int(n, 2) + 1;
    return next;
}

fx_status fx_random_to_philox(fx_graph *g, fx_arena *scratch, bool input, size_t *count)
{
    fx_node **nodes = NULL, *state = NULL, *output = fx_graph_output_node(g);
    size_t n_nodes = 0, cap = 0;
    *count = 0;
    FX_TRY(fx_infer_missing(g));
    FX_FOR_NODES(g, n)
        if (fx_is_random(n))
            FX_PUSH(scratch, nodes, n_nodes, cap) = n;
    if (!n_nodes || !output)
        return FX_OK;
    draws d = {.stream = first_stream(g)};
    if (input)
        state = state_input(g);
    else
        FX_TRY(state_buffer(g, scratch, output, &state));
    place(state, output, state->name);
    d.state = state;
    for (size_t i = 0; i < n_nodes; i++) {
        d.w = fx_rw_at(g, scratch, nodes[i]);
        rewrite_of(nodes[i])(&d);
        FX_TRY(d.w.status);
    }
    *count = n_nodes;
    return fx_infer_missing(g);
}

/* Whether a captured graph calls a random operator as AOTAutograd spells them; modules, and functions of torch, are legalised first. */
static bool captured_random(const fx_graph *g)
{
    FX_FOR_NODES(g, n) {
        bool aten = n->opcode == FX_CALL_FUNCTION && (strncmp(n->target, "aten.", 5) == 0 || strncmp(n->target, "torch.ops.aten.", 15) == 0);
        const fx_op *op = aten ? fx_node_row(n, NULL) : NULL;
        for (size_t i = 0; op && i < sizeof table / sizeof *table; i++)
            if (table[i].id == op->id)
                return true;
    }
    return false;
}

fx_status fx_gpass_philox(fx_pass_run *run)
{
    fx_graph *g = run->graph;
    bool writes = false, any = false;
    size_t count;
    if (g->stage == FX_STAGE_CAPTURED && !captured_random(g))
        return FX_OK;
    if (g->stage == FX_STAGE_CAPTURED)
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "pass philox: expected a graph of aten operators, got a captured one; run legalize first");
    FX_FOR_NODES(g, n) {
        any = any || fx_is_random(n);
        writes = writes || (fx_is_random(n) && fx_node_is_inplace(n));
    }
    if (writes) /* bernoulli_ and its kin become values first */
        FX_TRY(fx_gpass_functionalize(run));
    FX_TRY(fx_random_to_philox(g, run->scratch, fx_pass_bool(run, "input"), &count));
    if (any)
        fx_pass_note(run, NULL, "%zu random operators draw from the state '" FX_PHILOX_STATE "'", count);
    return FX_OK;
}

fx_status fx_graph_add_philox_state(fx_graph *graph, bool input, fx_graph **out)
{
    if (!graph || !out)
        return FX_ERR_ARGUMENT;
    if (graph->stage == FX_STAGE_CAPTURED && !captured_random(graph)) {
        *out = graph;
        return FX_OK;
    }
    FX_TRY(fx_graph_legalize(graph, &graph));
    return fx_graph_run_passes(graph, input ? "philox(input=true)" : "philox", NULL, out, NULL);
}
