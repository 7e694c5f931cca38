/* tests/unit/test_lower_pointwise.c: every pointwise row of core form compiles, in every dtype that the interpreter knows it for, to a program that
 * computes what the interpreter does.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "ir/program.h"
#include "lower/lower.h"
#include "tests/unit/fixture.h"

static const fx_opid rows[] = {
#define OP(id, name, schema, doc, cls, flags, infer, eval) ((cls) == FX_CLASS_POINTWISE && ((flags) & FX_OP_CORE)) ? FX_OP_##id : FX_OP_NONE,
#include "ir/op.def"
#undef OP
};

static const fx_dtype dtypes[] = {FX_F32, FX_F64, FX_F16, FX_BF16, FX_I8, FX_I16, FX_I32, FX_I64, FX_U8, FX_BOOL};
enum { N_ROWS = sizeof rows / sizeof *rows, N_DTYPES = sizeof dtypes / sizeof *dtypes, SIZE = 40 };

/* Numbers of both signs, zeros of both, ends of ranges, and what no integer holds. */
static double value(int input, int i)
{
    static const double special[] = {0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 0.5, 127, -128, 255, 65504, 3, 2.5, -2.5, 30000};
    if (input == 0 && i < 16)
        return special[i];
    return (double)((i * 37 + input * 11 + 5) % 41 - 20) / 4;
}

typedef struct job {
    fx_graph *g;
    size_t n_in, n_out, n_ref;
    fx_tensor in[3], *out, *ref;
    fx_program *program;
    bool known;                 /* the interpreter evaluates it */
} job;

static fx_status interpret(void *arg)
{
    job *j = arg;
    return fx_graph_interpret(j->g, j->n_in, j->in, &j->n_ref, &j->ref);
}

static fx_status compile(void *arg)
{
    job *j = arg;
    fx_lower_options opt = {.threads = 1};
    FX_TRY(fx_target_get(j->g->ctx, "generic", &opt.target));
    FX_TRY(fx_lower_run(j->g, &opt, &j->program));
    return fx_program_run(j->program, true, j->n_in, j->in, &j->n_out, &j->out);
}

/* y = op(a, b, ...) with numbers where the schema wants them. */
static void write_graph(const fx_op *op, fx_dtype dtype, char *text, size_t size)
{
    const fx_schema *s = fx_op_schema(ctx, op);
    char args[300] = "", inputs[400] = "";
    int tensors = 0;
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        size_t at = strlen(args);
        const char *comma = at ? ", " : "";
        if (p->kind == FX_PARAM_TENSOR) {
            fx_dtype own = op->id == FX_OP_where_self && tensors == 0 ? FX_BOOL : dtype;
            snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%%x%d : %s[%d] = placeholder[x%d]\n", tensors, fx_dtype_short(own), SIZE, tensors);
            snprintf(args + at, sizeof args - at, "%s%%x%d", comma, tensors++);
        } else if (p->def == NULL || op->id == FX_OP_clamp) {
            bool whole = !fx_dtype_is_float(dtype);
            snprintf(args + at, sizeof args - at, "%s%s%s", comma, p->keyword_only ? p->name : "", p->keyword_only ? "=" : "");
            at = strlen(args);
            snprintf(args + at, sizeof args - at, "%s", p->kind == FX_PARAM_STR ? "\"floor\"" : i == 2 ? whole ? "3" : "3.5" : whole ? "2" : "1.5");
        }
    }
    size_t used = (size_t)snprintf(text, size, "graph \"row\" imported\n\n%s", inputs);
    if (op->id != FX_OP__to_copy) {
        snprintf(text + used, size - used, "%%y = call_function[%s](%s)\noutput((%%y,))\n", op->name, args);
        return;
    }
    for (int i = 0; i < N_DTYPES; i++) /* to each dtype there is */
        used += (size_t)snprintf(text + used, size - used, "%%y%d = call_function[%s](%s, dtype=torch.%s)\n", i, op->name, args, fx_dtype_name(dtypes[i]));
    used += (size_t)snprintf(text + used, size - used, "output((%%y0, %%y1, %%y2, %%y3, %%y4, %%y5, %%y6, %%y7, %%y8, %%y9))\n");
}

static bool same(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == 0 && b == 0)
        return !signbit(a) == !signbit(b);
    return a == b || fabs(a - b) <= tolerance * (1e-6 + fabs(b));
}

START_TEST(row_compiles)
{
    if (rows[_i / N_DTYPES] == FX_OP_NONE)
        return;
    const fx_op *op = &fx_ops[rows[_i / N_DTYPES]];
    fx_dtype dtype = dtypes[_i % N_DTYPES];
    char text[2000], what[100];
    snprintf(what, sizeof what, "%s of %s", op->name, fx_dtype_name(dtype));
    if (op->id == FX_OP_hardtanh && dtype == FX_U8)
        return; /* eager refuses its limits: -1 is none of uint8's */
    write_graph(op, dtype, text, sizeof text);
    job j = {0};
    ck_assert_msg(fx_graph_parse(ctx, "row.fx", text, strlen(text), &j.g) == FX_OK, "%s: %s\n%s", what, unit_message(ctx), text);
    FX_FOR_NODES(j.g, n)
    {
        if (n->op)
            ck_assert_msg(fx_node_normalize(n) == FX_OK, "%s: %s", what, unit_message(ctx));
        if (n->opcode == FX_PLACEHOLDER) {
            fx_tensor *t = &j.in[j.n_in];
            ck_assert_int_eq(fx_tensor_like(ctx, n->type->dtype, n->type, t), FX_OK);
            for (int i = 0; i < SIZE; i++) {
                double v = value((int)j.n_in, i);
                bool divides = j.n_in == 1 && !fx_dtype_is_float(dtype);
                if (!fx_dtype_is_float(t->dtype)) /* integers: shifts and divisors that make sense, the ends of the range */
                    v = isnan(v) || isinf(v) ? 7 : v;
                if (divides && fabs(v) < 1)
                    v = 3;
                fx_tensor_set(t, i, v);
            }
            j.n_in++;
        }
    }
    if (fx_protect(ctx, interpret, &j) != FX_OK)
        return; /* not defined on this dtype, as eager says too */
    ck_assert_msg(fx_protect(ctx, compile, &j) == FX_OK, "%s: %s", what, unit_message(ctx));
    ck_assert_uint_eq(j.n_out, j.n_ref);
    for (size_t k = 0; k < j.n_out; k++) {
        fx_dtype d = j.ref[k].dtype;
        double tolerance = !fx_dtype_is_float(d) ? 0 : d == FX_F16 ? 1e-3 : d == FX_BF16 ? 8e-3 : 1e-6;
        ck_assert_int_eq(j.out[k].dtype, d);
        for (int i = 0; i < SIZE; i++) {
            double got = fx_tensor_get(&j.out[k], i), want = fx_tensor_get(&j.ref[k], i);
            ck_assert_msg(same(got, want, tolerance), "%s: element %d of %g, %g: got %.9g, expected %.9g", what, i, fx_tensor_get(&j.in[0], i),
                          j.n_in > 1 ? fx_tensor_get(&j.in[1], i) : 0.0, got, want);
        }
    }
    fx_arena_free(j.program->arena);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, row_compiles, 0, N_ROWS * N_DTYPES);
}

int main(void)
{
    return unit_run("lower_pointwise", 60, set_up, tear_down, add_tests);
}
