/* tests/unit/test_semantics.c: small functions whose values eager PyTorch decides (semantics.def), by the reference interpreter, as loop
 * programs, as machine code in memory and as emitted C: bit for bit but where tests/fuzz/oracle.c says how near.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/unit.h"

static const struct {
    const char *title, *graph, *values;
} table[] = {
#define CASE(title, graph, values) {title, graph, values},
#include "tests/unit/semantics.def"
#undef CASE
};

enum { N = sizeof table / sizeof table[0] };

/* "2x3 1.0 nan ..." into a tensor of that dtype. */
static fx_tensor read_tensor(fx_context *ctx, const char *s, fx_dtype dtype)
{
    int64_t sizes[FX_MAX_RANK];
    int rank = 0;
    fx_tensor t;
    char *end;
    for (; *s != ' ' && *s != '\n'; s = end) {
        if (*s == '-') {
            s++;
            break;
        }
        s += *s == 'x';
        sizes[rank++] = strtoll(s, &end, 10);
    }
    ck_assert_int_eq(fx_tensor_create(ctx, dtype, rank, sizes, &t), FX_OK);
    for (int64_t i = 0; i < fx_tensor_numel(&t); i++, s = end) {
        if (fx_dtype_is_float(dtype))
            fx_tensor_set(&t, i, strtod(s, &end));
        else
            fx_tensor_set_int(&t, i, strtoll(s, &end, 10));
        ck_assert_ptr_ne(s, end);
    }
    return t;
}

/* The graph and its inputs; eager's outputs into want. */
static fx_status make(fx_context *ctx, int i, fz_case *c, fx_tensor *want, size_t *n_want)
{
    const char *text = fx_arena_printf(fx_context_arena(ctx), "graph \"semantics\" imported\n\n%s", table[i].graph);
    FX_TRY(fx_graph_parse(ctx, "semantics.fx", text, strlen(text), &c->g));
    FX_TRY(fx_graph_complete(c->g));
    const fx_node *x = c->g->first, *out = fx_graph_output_node(c->g);
    *n_want = 0;
    for (const char *s = table[i].values; *s; s = strchr(s, '\n') + 1) {
        if (!strncmp(s, "in ", 3)) {
            c->in[c->n_in++] = read_tensor(ctx, s + 3, x->type->dtype);
            x = x->next;
        } else {
            want[*n_want] = read_tensor(ctx, s + 4, out->operands[*n_want].def->type->dtype);
            ++*n_want;
        }
    }
    return FX_OK;
}

typedef struct make_args {
    int i;
    fz_case *c;
    fx_tensor want[FZ_MAX_OUTPUTS];
    size_t n_want;
} make_args;

static fx_status make_protected(void *arg)
{
    make_args *a = arg;
    return make(a->c->ctx, a->i, a->c, a->want, &a->n_want);
}

/* Case i with its reference values, which are eager's. */
static void open_case(int i, fz_case *c, const char *target)
{
    make_args a = {.i = i, .c = c};
    char text[300];
    *c = (fz_case){.seed = (uint64_t)i, .ctx = fx_context_create(), .settings = {.target = target, .threads = 2}};
    ck_assert_msg(fx_protect(c->ctx, make_protected, &a) == FX_OK, "%s: %s", table[i].title, unit_diag(c->ctx));
    ck_assert_msg(fz_reference(c) == FX_OK, "%s: %s", table[i].title, unit_diag(c->ctx));
    ck_assert_uint_eq(c->n_out, a.n_want);
    for (size_t k = 0; k < c->n_out; k++)
        ck_assert_msg(fz_compare(c, k, &a.want[k], NULL, text, sizeof text), "%s: the interpreter against eager, the other way round: %s", table[i].title, text);
}

START_TEST(interpreted)
{
    fz_case c;
    open_case(_i, &c, "generic");
    for (size_t k = 0; k < c.n_out; k++) /* outputs are memory of their own */
        for (size_t i = 0; i < c.n_in; i++)
            ck_assert(c.out[k].data != c.in[i].data || fx_tensor_numel(&c.out[k]) == 0);
    fz_case_free(&c);
}
END_TEST

START_TEST(as_loop_program)
{
    static const unsigned off[] = {0, ~0u, FX_OFF(FUSE), FX_OFF(LAYOUT), FX_OFF(INPLACE)};
    for (size_t k = 0; k < sizeof off / sizeof off[0]; k++) {
        fz_case c;
        fz_failure f;
        open_case(_i, &c, k % 2 ? "generic" : "native");
        c.settings.off = off[k] & ((1u << FX_PART_COUNT) - 1);
        ck_assert_msg(fz_case_lower(&c, &f), "%s: %s", table[_i].title, f.text);
        ck_assert_msg(fz_case_run(&c, NULL, &f), "%s: %s", table[_i].title, f.text);
        fz_case_free(&c);
    }
}
END_TEST

START_TEST(in_memory)
{
    static const unsigned off[] = {0, ~0u};
    for (size_t k = 0; k < sizeof off / sizeof off[0]; k++) {
        fz_case c;
        fz_failure f;
        open_case(_i, &c, k % 2 ? "generic" : "native");
        c.seed += k; /* it decides the level */
        c.settings.off = off[k] & ((1u << FX_PART_COUNT) - 1);
        ck_assert_msg(fz_case_lower(&c, &f), "%s: %s", table[_i].title, f.text);
        ck_assert_msg(fz_case_jit(&c, &f), "%s: %s", table[_i].title, f.text);
        fz_case_free(&c);
    }
}
END_TEST

static const fz_build builds[] = {{"gcc", "-O0", false, NULL}, {"gcc", "-O3", false, NULL}, {"gcc", "-O1", true, NULL}, {"clang", "-O2", false, NULL}};

START_TEST(emitted)
{
    fz_case c[N], *all[N];
    fz_failure f[N];
    char folder[] = "/tmp/fxcc-semantics-XXXXXX", command[100];
    const fz_build *b = &builds[_i];
    if (!strcmp(b->compiler, "clang") && system("clang --version >/dev/null 2>&1") != 0)
        return; /* the machine has none */
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < N; i++) {
        open_case(i, &c[i], _i % 2 ? "native" : "generic");
        ck_assert_msg(fz_case_lower(&c[i], &f[i]), "%s: %s", table[i].title, f[i].text);
        all[i] = &c[i];
    }
    fz_unit_run(folder, b, N, all, NULL, f);
    for (int i = 0; i < N; i++) {
        ck_assert_msg(f[i].stage == FZ_OK, "%s: %s %s: %s: %s", table[i].title, b->compiler, b->level, fz_stage_name(f[i].stage), f[i].text);
        fz_case_free(&c[i]);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, interpreted, 0, N);
    tcase_add_loop_test(t, as_loop_program, 0, N);
#ifdef FXCC_HAS_JIT
    tcase_add_loop_test(t, in_memory, 0, N);
#endif
    tcase_add_loop_test(t, emitted, 0, sizeof builds / sizeof builds[0]);
}

int main(void)
{
    return unit_run("semantics", 120, NULL, NULL, add_tests);
}
