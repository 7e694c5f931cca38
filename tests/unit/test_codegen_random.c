/* tests/unit/test_codegen_random.c: random scalar programs: emitted C against the interpreter of loop programs, to the bit.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "tests/unit/unit.h"

enum { N = 48, OUTPUTS = 24, PROGRAMS = 12 };

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (seed >> 4) % below;
}

typedef struct source {
    fx_program *p;
    int bufs[FX_DTYPE_COUNT][64], n_bufs[FX_DTYPE_COUNT]; /* what may be loaded */
    fx_affine index;
    const fx_sexpr *shared[FX_DTYPE_COUNT];               /* a part that several users share */
} source;

static const fx_dtype types[] = {FX_F32, FX_F64, FX_I8, FX_I16, FX_I32, FX_I64, FX_U8, FX_BOOL, FX_F16, FX_BF16};
enum { TYPES = sizeof types / sizeof types[0] };

static bool is_float(fx_dtype d)
{
    return fx_dtype_is_float(d);
}

static const fx_sexpr *leaf(source *s, fx_dtype d)
{
    if (draw(4) == 0 || s->n_bufs[d] == 0) {
        static const double values[] = {0, 1, -1, 2.5, -0.375, 7, 100, -3e9, 1e20};
        double v = values[draw(d == FX_BOOL ? 2 : is_float(d) ? 9 : d == FX_U8 ? 2 : 3)];
        return fx_s_const(s->p, d, v);
    }
    if (d == FX_I64 && draw(4) == 0) {
        fx_sexpr *x = fx_s_op(s->p, FX_S_INDEX, FX_I64, NULL, NULL, NULL);
        x->index = s->index;
        fx_affine_add(s->p->ctx, &x->index, 0, fx_dim_of((int64_t)draw(5) - 2));
        x->index.base = fx_dim_of((int64_t)draw(9) - 4);
        return x;
    }
    return fx_s_load(s->p, s->bufs[d][draw((uint32_t)s->n_bufs[d])], &s->index);
}

/* Operations whose result C and the interpreter agree on to the bit. */
static const fx_sexpr *expression(source *s, fx_dtype d, int depth)
{
    static const fx_sop floats[] = {FX_S_add, FX_S_sub, FX_S_mul, FX_S_div, FX_S_neg, FX_S_abs, FX_S_max, FX_S_min, FX_S_floor, FX_S_ceil,
                                    FX_S_round, FX_S_trunc, FX_S_sqrt, FX_S_fmod, FX_S_select, FX_S_CAST, FX_S_remainder, FX_S_floor_div,
                                    FX_S_sign, FX_S_copysign, FX_S_relu, FX_S_clamp, FX_S_leaky_relu};
    static const fx_sop ints[] = {FX_S_add, FX_S_sub, FX_S_mul, FX_S_neg, FX_S_max, FX_S_min, FX_S_and, FX_S_or, FX_S_xor, FX_S_not, FX_S_select,
                                  FX_S_CAST, FX_S_div, FX_S_floor_div, FX_S_abs, FX_S_sign, FX_S_fmod, FX_S_remainder, FX_S_pow, FX_S_relu,
                                  FX_S_clamp, FX_S_shl, FX_S_shr, FX_S_fmax, FX_S_fmin};
    static const fx_sop bools[] = {FX_S_eq, FX_S_ne, FX_S_lt, FX_S_le, FX_S_gt, FX_S_ge, FX_S_and, FX_S_or, FX_S_xor, FX_S_not, FX_S_select, FX_S_CAST};
    if (depth == 0 || draw(8) == 0)
        return leaf(s, d);
    if (s->shared[d] && draw(10) == 0)
        return s->shared[d];
    fx_sop op = is_float(d) ? floats[draw(sizeof floats / sizeof floats[0])] : d == FX_BOOL ? bools[draw(12)] : ints[draw(sizeof ints / sizeof ints[0])];
    const fx_sexpr *a[3] = {NULL, NULL, NULL};
    fx_dtype from = d;
    if (op == FX_S_CAST || (op >= FX_S_eq && op <= FX_S_ge))
        from = types[draw(sizeof types / sizeof types[0])];
    for (int i = 0; i < (op == FX_S_CAST ? 1 : fx_sop_arity(op)); i++)
        a[i] = expression(s, op == FX_S_select && i == 0 ? FX_BOOL : from, depth - 1);
    if (op == FX_S_clamp) { /* its bounds are constants of the model */
        a[1] = fx_s_const(s->p, d, d == FX_U8 ? 1 : -2);
        a[2] = fx_s_const(s->p, d, is_float(d) ? 3.5 : 3);
    }
    const fx_sexpr *x = fx_s_op(s->p, op, d, a[0], a[1], a[2]);
    if (draw(4) == 0)
        s->shared[d] = x;
    return x;
}

static int add_io(fx_program *p, bool input, fx_dtype dtype)
{
    fx_dim n = fx_dim_of(N);
    int id = fx_program_buf(p, input ? FX_BUF_INPUT : FX_BUF_OUTPUT, input ? "in" : "out", dtype, 1, &n);
    fx_io io = {.name = p->bufs[id].name, .label = p->bufs[id].name, .buf = id, .dtype = dtype, .rank = 1, .dims = {n}};
    p->bufs[id].io = (int)(input ? p->n_inputs : p->n_outputs);
    if (input)
        FX_PUSH(p->arena, p->inputs, p->n_inputs, p->cap_inputs) = io;
    else
        FX_PUSH(p->arena, p->outputs, p->n_outputs, p->cap_outputs) = io;
    return id;
}

static fx_tensor random_input(fx_context *ctx, fx_dtype dtype)
{
    fx_tensor t;
    int64_t n = N;
    ck_assert_int_eq(fx_tensor_create(ctx, dtype, 1, &n, &t), FX_OK);
    for (int64_t i = 0; i < N; i++) {
        uint64_t bits = (uint64_t)draw(1u << 28) << 36 | (uint64_t)draw(1u << 28) << 8 | draw(256);
        if (is_float(dtype))
            fx_tensor_set(&t, i, i < 3 ? (double[]){NAN, HUGE_VAL, -0.0}[i] : (double)((int64_t)draw(4000) - 2000) / 64 * (draw(9) ? 1 : 1e9));
        else
            fx_tensor_set_int(&t, i, dtype == FX_BOOL ? (int64_t)(bits & 1) : draw(3) ? (int64_t)bits >> draw(60) : (int64_t)draw(7) - 3);
    }
    return t;
}

START_TEST(emitted_equals_interpreted)
{
    fx_context *ctx = fx_context_create();
    fx_target target;
    char folder[] = "/tmp/fxcc-random-XXXXXX", command[1000];
    seed = 77u + 1000003u * (uint32_t)_i;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(fx_target_get(ctx, "generic", &target), FX_OK);
    fx_program *p = fx_program_new(ctx, "random", &target);
    source s = {.p = p, .index = fx_affine_const(0)};
    fx_affine_add(ctx, &s.index, 0, fx_dim_of(1));
    fx_tensor in[TYPES];
    for (int i = 0; i < TYPES; i++) {
        s.bufs[types[i]][s.n_bufs[types[i]]++] = add_io(p, true, types[i]);
        in[i] = random_input(ctx, types[i]);
    }
    for (int k = 0; k < OUTPUTS; k++) {
        fx_dtype d = types[draw(TYPES)];
        int out = add_io(p, false, d);
        fx_step *step = fx_program_step(p, "step");
        step->title = step->shapes = "random";
        fx_stmt *store = fx_stmt_new(p, FX_ST_STORE), *loop = fx_stmt_new(p, FX_ST_LOOP);
        memset(s.shared, 0, sizeof s.shared);
        store->buf = out;
        store->index = s.index;
        store->value = expression(&s, d, 1 + (int)draw(7));
        loop->var = 0;
        loop->extent = fx_dim_of(N);
        loop->loop = draw(2) ? FX_LOOP_VECTOR : FX_LOOP_SERIAL;
        loop->hint = "i";
        loop->body = store;
        step->body = loop;
        s.bufs[d][s.n_bufs[d]++] = out;
    }
    size_t n_out, n_files;
    fx_tensor *out;
    fx_status status = fx_program_run(p, false, TYPES, in, &n_out, &out);
    for (size_t i = 0; i < fx_diag_count(ctx); i++)
        fprintf(stderr, "%s\n", fx_diag_get(ctx, i)->message);
    ck_assert_int_eq(status, FX_OK);
    fx_golden g = {.n_inputs = TYPES, .inputs = in, .n_outputs = n_out, .outputs = out};
    fx_file *files;
    fx_emit_options o = {.prefix = "net", .golden = &g};
    ck_assert_int_eq(fx_emit_c(p, &o, &n_files, &files), FX_OK);
    for (size_t i = 0; i < n_files; i++) {
        snprintf(command, sizeof command, "%s/%s", folder, files[i].name);
        FILE *f = fopen(command, "wb");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(fx_file_data(fx_context_arena(ctx), &files[i]), 1, files[i].size, f), files[i].size);
        fclose(f);
    }
    bool clang = _i % 2 && system("clang --version >/dev/null 2>&1") == 0;
    snprintf(command, sizeof command, "cd %s && %s -std=c99 -pedantic -Wall -Wextra -Werror %s net.c net_weights.c net_check.c -o check -lm && "
             "./check >out.txt || { grep FAILED out.txt; exit 1; }", folder, clang ? "clang" : "gcc", _i % 3 == 0 ? "-O3" : _i % 3 == 1 ? "-O1" : "-O1 -fsanitize=undefined -fno-sanitize-recover");
    ck_assert_msg(system(command) == 0, "seed %d: see %s", _i, folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    fx_context_free(ctx);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, emitted_equals_interpreted, 0, PROGRAMS);
}

int main(void)
{
    return unit_run("codegen_random", 300, NULL, NULL, add_tests);
}
