/* tests/unit/random_graph.h: random graphs whose values can be compared, for tests of what must not change them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TESTS_RANDOM_GRAPH_H
#define FXCC_TESTS_RANDOM_GRAPH_H

#include "passes/passes.h"
#include "tests/unit/unit.h"

static uint32_t rg_seed = 1;

static inline uint32_t rg_draw(uint32_t below)
{
    rg_seed ^= rg_seed << 13;
    rg_seed ^= rg_seed >> 17;
    rg_seed ^= rg_seed << 5;
    return rg_seed % below;
}

static inline void rg_start(uint32_t seed)
{
    rg_seed = 2463534242u + seed * 7919u;
}

static inline fx_tensor rg_tensor(fx_context *ctx)
{
    static const int64_t sizes[] = {4, 4};
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, sizes, &t), FX_OK);
    for (int64_t i = 0; i < 16; i++)
        fx_tensor_set(&t, i, (double)rg_draw(2000) / 1000 - 1);
    return t;
}

static inline fx_node *rg_unary(fx_graph *g, fx_opid op, fx_node *x)
{
    fx_call c = fx_call_begin(g, op);
    fx_call_node(&c, x);
    return fx_call_end(&c, NULL);
}

static inline fx_node *rg_binary(fx_graph *g, fx_opid op, fx_node *x, fx_node *y)
{
    fx_call c = fx_call_begin(g, op);
    fx_call_node(&c, x);
    fx_call_node(&c, y);
    return fx_call_end(&c, NULL);
}

/* Two halves of x, as a tuple taken apart and put together. */
static inline fx_node *rg_split(fx_graph *g, fx_node *x)
{
    fx_node *half[2];
    fx_call c = fx_call_begin(g, FX_OP_split_Tensor);
    fx_call_node(&c, x);
    fx_call_int(&c, 2);
    fx_node *both = fx_call_end(&c, NULL);
    for (int i = 0; i < 2; i++) {
        c = fx_call_begin(g, FX_OP_getitem);
        fx_call_node(&c, both);
        fx_call_int(&c, i);
        half[1 - i] = fx_call_end(&c, NULL);
    }
    c = fx_call_begin(g, FX_OP_cat);
    fx_call_nodes(&c, 2, half);
    return fx_call_end(&c, NULL);
}

static inline void rg_output(fx_graph *g, int n, fx_node *const *nodes)
{
    const fx_arg *items[16];
    for (int i = 0; i < n; i++)
        items[i] = fx_arg_operand(g->ctx, i);
    const fx_arg *tuple = fx_arg_seq(g->ctx, FX_ARG_TUPLE, n, items);
    fx_node_new(g, FX_OUTPUT, "output", fx_arg_seq(g->ctx, FX_ARG_TUPLE, 1, &tuple), NULL, n, nodes, NULL);
}

/* Writes x in place, or looks at it turned. */
static inline fx_node *rg_write(fx_graph *g, fx_node *x, fx_node *y)
{
    fx_context *ctx = g->ctx;
    const fx_arg *x0 = fx_arg_operand(ctx, 0), *x1 = fx_arg_operand(ctx, 1), *one = fx_arg_int(ctx, 1);
    fx_node *n, *operands[] = {x, y};
    if (rg_draw(3) == 0) {
        int64_t dims[] = {1, 0};
        const fx_arg *items[] = {x0, fx_arg_ints(ctx, 2, dims)};
        n = fx_node_new(g, FX_CALL_FUNCTION, "aten.permute.default", fx_arg_seq(ctx, FX_ARG_TUPLE, 2, items), NULL, 1, operands, NULL);
    } else if (rg_draw(2)) {
        const fx_arg *items[] = {x0, x1, one};
        n = fx_node_new(g, FX_CALL_FUNCTION, "aten.add_.Tensor", fx_arg_seq(ctx, FX_ARG_TUPLE, 3, items), NULL, 2, operands, NULL);
    } else {
        n = fx_node_new(g, FX_CALL_FUNCTION, "aten.neg_.default", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &x0), NULL, 1, operands, NULL);
    }
    ck_assert_int_eq(fx_node_infer(n), FX_OK);
    return n;
}

typedef struct rg_args {
    fx_context *ctx;
    int n;
    bool writes;
    fx_graph *g;
} rg_args;

/* About n calls on f32[4, 4]: pointwise ones, pairs of no-ops, tuples, three parameters of which two are tied; writes, if asked for, of what calls
 * gave. */
static inline fx_status rg_make(void *arg)
{
    rg_args *a = arg;
    fx_graph *g = a->g = fx_graph_new(a->ctx, "random");
    g->stage = FX_STAGE_IMPORTED;
    fx_node *v[3000];
    int n = 0;
    for (int i = 0; i < 3; i++) {
        v[n] = fx_node_new(g, FX_PLACEHOLDER, fx_intern_f(a->ctx, "in%d", i), NULL, NULL, 0, NULL, NULL);
        v[n++]->type = fx_type_tensor_static(a->ctx, FX_F32, 2, (int64_t[]){4, 4});
    }
    fx_tensor w = rg_tensor(a->ctx), b = rg_tensor(a->ctx);
    const char *const paths[] = {"layer.0.weight", "layer.1.weight", "tied.weight"};
    for (int i = 0; i < 3; i++) {
        fx_attr_add(g, paths[i], i == 1 ? &b : &w, false)->is_parameter = true;
        v[n++] = fx_node_new(g, FX_GET_ATTR, paths[i], NULL, NULL, 0, NULL, NULL);
        ck_assert_int_eq(fx_node_infer(v[n - 1]), FX_OK);
    }
    static const fx_opid unary[] = {FX_OP_relu, FX_OP_neg, FX_OP_sigmoid, FX_OP_tanh}, binary[] = {FX_OP_add_Tensor, FX_OP_sub_Tensor, FX_OP_mul_Tensor};
    for (int i = 0; i < a->n; i++) {
        /* mostly near, so that chains arise */
        fx_node *x = v[rg_draw(3) ? n - 1 - (int)rg_draw(n < 6 ? (uint32_t)n : 6) : (int)rg_draw((uint32_t)n)], *y = v[rg_draw((uint32_t)n)];
        uint32_t kind = rg_draw(10);
        bool write = a->writes && rg_draw(4) == 0 && x->opcode == FX_CALL_FUNCTION;
        fx_node *r = write ? rg_write(g, x, y) : kind < 5 ? rg_unary(g, unary[rg_draw(4)], x) : kind < 9 ? rg_binary(g, binary[rg_draw(3)], x, y) : rg_split(g, x);
        ck_assert_ptr_nonnull(r);
        v[n++] = r;
    }
    fx_node *outs[3];
    int n_outs = 1 + (int)rg_draw(3);
    for (int i = 0; i < n_outs; i++)
        outs[i] = v[n - 1 - (int)rg_draw((uint32_t)a->n / 2 + 1)];
    rg_output(g, n_outs, outs);
    return FX_OK;
}

static inline fx_graph *rg_graph_with(fx_context *ctx, int n, bool writes)
{
    rg_args a = {ctx, n, writes, NULL};
    ck_assert_int_eq(fx_protect(ctx, rg_make, &a), FX_OK);
    return a.g;
}

static inline fx_graph *rg_graph(fx_context *ctx, int n)
{
    return rg_graph_with(ctx, n, false);
}

/* Lint finds nothing in a graph and in the graphs of its modules. */
static inline void rg_sound(fx_graph *g)
{
    fx_status st = fx_graph_lint(g, FX_LINT_ALL);
    ck_assert_msg(st == FX_OK, "%s\n%.1500s", unit_diag(g->ctx), unit_print(g));
    for (size_t i = 0; i < g->root->n_children; i++)
        if (g->root->children[i]->body)
            rg_sound(g->root->children[i]->body);
}

/* Both graphs give the same bits on random inputs. */
static inline void rg_same_values(fx_graph *a, fx_graph *b)
{
    fx_context *ctx = a->ctx;
    fx_tensor in[3];
    size_t n_a = 0, n_b = 0;
    fx_tensor *out_a, *out_b;
    for (int i = 0; i < 3; i++)
        in[i] = rg_tensor(ctx);
    ck_assert_msg(fx_graph_interpret(a, 3, in, &n_a, &out_a) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_msg(fx_graph_interpret(b, 3, in, &n_b, &out_b) == FX_OK, "%s\n%.1500s", unit_diag(ctx), unit_print(b));
    ck_assert_uint_eq(n_a, n_b);
    for (size_t i = 0; i < n_a; i++)
        for (int64_t k = 0; k < fx_tensor_numel(&out_a[i]); k++) {
            double x = fx_tensor_get(&out_a[i], k), y = fx_tensor_get(&out_b[i], k);
            ck_assert_msg(memcmp(&x, &y, sizeof x) == 0, "output %zu [%d]: %g, expected %g\n%.1500s", i, (int)k, y, x, unit_print(b));
        }
}

#endif
