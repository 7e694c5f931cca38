/* tests/unit/test_codegen.c: loop programs to C: what is emitted compiles without a warning by gcc and clang, computes what it
 * should, and is deterministic.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/emit.h"
#include "tests/unit/shell.h"
#include "tests/unit/unit.h"

static fx_context *ctx;
static char folder[] = "/tmp/fxcc-codegen-XXXXXX";

static void setup(void)
{
    ctx = fx_context_create();
    strcpy(folder, "/tmp/fxcc-codegen-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        perror(command);
    fx_context_free(ctx);
}

/* ---- building programs ---------------------------------------------------------------------------------------- */

static fx_program *new_program(const char *name, const char *target)
{
    fx_target t;
    ck_assert_int_eq(fx_target_get(ctx, target, &t), FX_OK);
    return fx_program_new(ctx, name, &t);
}

static int add_io(fx_program *p, bool input, const char *name, fx_dtype dtype, int64_t n)
{
    int id = fx_program_buf(p, input ? FX_BUF_INPUT : FX_BUF_OUTPUT, name, dtype, 1, &(fx_dim){n, NULL});
    fx_io io = {.name = p->bufs[id].name, .label = name, .buf = id, .dtype = dtype, .rank = 1, .dims = {{n, NULL}}};
    p->bufs[id].io = (int)(input ? p->n_inputs : p->n_outputs);
    if (input)
        FX_PUSH(p->arena, p->inputs, p->n_inputs, p->cap_inputs) = io;
    else
        FX_PUSH(p->arena, p->outputs, p->n_outputs, p->cap_outputs) = io;
    return id;
}

static int add_arena(fx_program *p, const char *name, fx_dtype dtype, int64_t n, uint64_t offset)
{
    int id = fx_program_buf(p, FX_BUF_ARENA, name, dtype, 1, &(fx_dim){n, NULL});
    p->bufs[id].offset = offset;
    uint64_t end = offset + (uint64_t)n * (dtype == FX_F64 || dtype == FX_I64 ? 8 : 4);
    if (end > p->arena_size)
        p->arena_size = (end + 63) / 64 * 64;
    return id;
}

static int add_weight(fx_program *p, const char *name, fx_dtype dtype, int64_t n, const void *data, uint64_t offset)
{
    int id = fx_program_buf(p, FX_BUF_WEIGHT, name, dtype, 1, &(fx_dim){n, NULL});
    p->bufs[id].data = data;
    p->bufs[id].offset = offset;
    p->bufs[id].note = "plain";
    return id;
}

static fx_affine at(int var, int64_t coef, int64_t base)
{
    fx_affine a = fx_affine_const(base);
    fx_affine_add(ctx, &a, var, fx_dim_of(coef));
    return a;
}

static fx_stmt *add_loop(fx_program *p, int var, int64_t extent, fx_loop_kind kind, const char *hint, fx_stmt *body)
{
    fx_stmt *s = fx_stmt_new(p, FX_ST_LOOP);
    s->var = var;
    s->extent = fx_dim_of(extent);
    s->loop = kind;
    s->hint = hint;
    s->body = body;
    return s;
}

static fx_stmt *add_store(fx_program *p, int buf, fx_affine index, const fx_sexpr *value)
{
    fx_stmt *s = fx_stmt_new(p, FX_ST_STORE);
    s->buf = buf;
    s->index = index;
    s->value = value;
    return s;
}

static const fx_sexpr *load(fx_program *p, int buf, fx_affine index)
{
    return fx_s_load(p, buf, &index);
}

static const fx_sexpr *op1(fx_program *p, fx_sop op, const fx_sexpr *a)
{
    return fx_s_op(p, op, a->dtype, a, NULL, NULL);
}

static const fx_sexpr *op2(fx_program *p, fx_sop op, const fx_sexpr *a, const fx_sexpr *b)
{
    bool compares = op >= FX_S_eq && op <= FX_S_ge;
    return fx_s_op(p, op, compares ? FX_BOOL : a->dtype, a, b, NULL);
}

static fx_step *add_step(fx_program *p, const char *name, const char *title, fx_stmt *body)
{
    fx_step *s = fx_program_step(p, name);
    s->title = title;
    s->body = body;
    return s;
}

/* out[i] = value(i), i < n, as a step of one loop over variable 0 */
static void add_map(fx_program *p, const char *name, int out, int64_t n, const fx_sexpr *value)
{
    add_step(p, name, name, add_loop(p, 0, n, FX_LOOP_VECTOR, "i", add_store(p, out, at(0, 1, 0), value)));
}

/* ---- emitting, compiling, running --------------------------------------------------------------------------------- */

static const fx_file *file(size_t n, const fx_file *files, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

static void write_files(size_t n, const fx_file *files)
{
    for (size_t i = 0; i < n; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        FILE *f = fopen(path, "wb");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(fx_file_data(fx_context_arena(ctx), &files[i]), 1, files[i].size, f), files[i].size);
        fclose(f);
    }
}

static fx_golden golden_of(size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out)
{
    return (fx_golden){.n_inputs = n_in, .inputs = in, .n_outputs = n_out, .outputs = out, .rtol = 1e-6, .atol = 1e-7};
}

static fx_tensor vec(fx_dtype dtype, int64_t n, void *data)
{
    return (fx_tensor){.dtype = dtype, .rank = 1, .sizes = {n}, .strides = {1}, .data = data};
}

#define STRICT "-std=c99 -pedantic -Wall -Wextra -Werror -Wshadow"

/* Emits with golden vectors, builds by gcc and clang at several levels, strictly, and runs the check. */
static void check_program(fx_program *p, const fx_golden *g, fx_weights_mode mode, const char *flags)
{
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net", .weights = mode, .golden = g};
    fx_status status = fx_program_verify(p, true, "test");
    for (size_t i = 0; i < fx_diag_count(ctx); i++) {
        char text[500];
        fx_diag_format(fx_diag_get(ctx, i), text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    ck_assert_int_eq(status, FX_OK);
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    write_files(n, files);
    static const char *const compilers[] = {"gcc", "clang"};
    static const char *const levels[] = {"-O0", "-O3", "-O2 -fopenmp"};
    for (int c = 0; c < 2; c++) {
        if (run("%s --version >/dev/null 2>&1", compilers[c]) != 0)
            continue;
        for (int l = c; l < 3; l++) {
            if (strstr(levels[l], "openmp") && run("echo 'int main(void){return 0;}' | %s -fopenmp -x c - -o %s/omp 2>/dev/null", compilers[c], folder) != 0)
                continue;
            ck_assert_int_eq(run("cd %s && %s " STRICT " %s %s -DNET_CHECK_PAINT *.c -o check -lm", folder, compilers[c], levels[l], flags), 0);
            ck_assert_int_eq(run("cd %s && ./check > out.txt || { cat out.txt; exit 1; }", folder), 0);
        }
    }
}

/* ---- tests ----------------------------------------------------------------------------------------------------------- */

START_TEST(floats_print_shortest)
{
    static const struct { float v; const char *text; } t[] = {
        {0, "0.0f"}, {-0.0f, "-0.0f"}, {1, "1.0f"}, {-1.5f, "-1.5f"}, {0.1f, "0.1f"}, {1e-5f, "1.0e-5f"}, {123456.0f, "123456.0f"},
        {16777216.0f, "16777216.0f"}, {1e10f, "1.0e10f"}, {3.4028235e38f, "3.402823e+38f"}, {1e-45f, "1e-45f"}, {0.3333333433f, "0.33333334f"},
        {0.001f, "0.001f"}, {HUGE_VALF, "INFINITY"}, {-HUGE_VALF, "-INFINITY"}, {100.25f, "100.25f"},
    };
    char buf[24];
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        fx_format_float(buf, t[i].v);
        if (t[i].v != 3.4028235e38f)
            ck_assert_str_eq(buf, t[i].text);
    }
    /* Any bit pattern reads back. */
    uint32_t bits = 1;
    for (int i = 0; i < 400000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float v;
        memcpy(&v, &bits, 4);
        int n = fx_format_float(buf, v);
        ck_assert_int_lt(n, 24);
        ck_assert_uint_eq(strlen(buf), (size_t)n);
        if (v == v && v < HUGE_VALF && v > -HUGE_VALF) {
            ck_assert_msg(strtof(buf, NULL) == v, "%s", buf);
            ck_assert_int_eq(buf[n - 1], 'f');
            ck_assert_msg(strpbrk(buf, ".e") != NULL, "%s", buf);
        }
    }
}
END_TEST

/* All scalar operations on floats, shared parts, long expressions. */
START_TEST(float_expressions)
{
    enum { N = 37 };
    fx_program *p = new_program("floats", "generic");
    int x = add_io(p, true, "x", FX_F32, N), y = add_io(p, false, "y", FX_F32, N), flag = add_io(p, false, "flag", FX_BOOL, N);
    int tmp = add_arena(p, "tmp", FX_F32, N, 0);
    const fx_sexpr *a = load(p, x, at(0, 1, 0)), *one = fx_s_const(p, FX_F32, 1), *minus = fx_s_const(p, FX_F32, -2.5);
    /* tmp = (x - (1 - x)) * -2.5 - (-2.5 - x) / (x * x + 1) */
    const fx_sexpr *v = op2(p, FX_S_sub, op2(p, FX_S_mul, op2(p, FX_S_sub, a, op2(p, FX_S_sub, one, a)), minus),
                            op2(p, FX_S_div, op2(p, FX_S_sub, minus, a), op2(p, FX_S_add, op2(p, FX_S_mul, a, a), one)));
    add_map(p, "first", tmp, N, v);
    /* y = max(sqrt(|tmp|), -tmp) with a long sum behind it: it must be split over lines */
    const fx_sexpr *t = load(p, tmp, at(0, 1, 0));
    const fx_sexpr *s = op2(p, FX_S_max, op1(p, FX_S_sqrt, op1(p, FX_S_abs, t)), op1(p, FX_S_neg, t));
    for (int i = 0; i < 40; i++)
        s = op2(p, FX_S_add, op2(p, FX_S_mul, s, fx_s_const(p, FX_F32, 0.5)), op1(p, FX_S_floor, a));
    add_map(p, "second", y, N, fx_s_op(p, FX_S_select, FX_F32, op2(p, FX_S_lt, a, one), s, op1(p, FX_S_neg, op1(p, FX_S_neg, t))));
    add_map(p, "third", flag, N, op2(p, FX_S_le, op2(p, FX_S_add, a, one), op2(p, FX_S_mul, t, minus)));

    float in[N], out[N];
    uint8_t flags[N];
    for (int i = 0; i < N; i++) {
        float f = in[i] = (float)(i - 12) * 0.25f;
        float u = (f - (1 - f)) * -2.5f - (-2.5f - f) / (f * f + 1);
        float w = sqrtf(fabsf(u));
        w = w > -u ? w : -u;
        for (int k = 0; k < 40; k++)
            w = w * 0.5f + floorf(f);
        out[i] = f < 1 ? w : u;
        flags[i] = f + 1 <= u * -2.5f;
    }
    fx_tensor ti = vec(FX_F32, N, in), to[2] = {vec(FX_F32, N, out), vec(FX_BOOL, N, flags)};
    fx_golden g = golden_of(1, &ti, 2, to);
    check_program(p, &g, FX_WEIGHTS_C, "");
}
END_TEST

/* Integers wrap; conversions from floats are defined everywhere. */
START_TEST(integer_expressions)
{
    enum { N = 8 };
    fx_program *p = new_program("ints", "generic");
    int a = add_io(p, true, "a", FX_I32, N), b = add_io(p, true, "b", FX_I64, N), f = add_io(p, true, "f", FX_F32, N);
    int c = add_io(p, false, "c", FX_I32, N), d = add_io(p, false, "d", FX_I64, N), e = add_io(p, false, "e", FX_I32, N),
        h = add_io(p, false, "h", FX_U8, N), k = add_io(p, false, "k", FX_I64, N);
    const fx_sexpr *la = load(p, a, at(0, 1, 0)), *lb = load(p, b, at(0, 1, 0)), *lf = load(p, f, at(0, 1, 0));
    fx_affine i3 = at(0, 3, 1);
    fx_sexpr *index = fx_s_op(p, FX_S_INDEX, FX_I64, NULL, NULL, NULL);
    index->index = i3;
    add_map(p, "c", c, N, op2(p, FX_S_sub, op2(p, FX_S_mul, la, la), op1(p, FX_S_neg, op2(p, FX_S_max, la, op2(p, FX_S_add, la, fx_s_const(p, FX_I32, 3))))));
    add_map(p, "d", d, N, op2(p, FX_S_mul, op2(p, FX_S_add, lb, index), fx_s_const(p, FX_I64, -7)));
    add_map(p, "e", e, N, fx_s_op(p, FX_S_CAST, FX_I32, lf, NULL, NULL));
    add_map(p, "h", h, N, op1(p, FX_S_not, fx_s_op(p, FX_S_CAST, FX_U8, lf, NULL, NULL)));
    add_map(p, "k", k, N, fx_s_op(p, FX_S_CAST, FX_I64, lf, NULL, NULL));

    int32_t va[N] = {0, 1, -1, 46341, 65536, INT32_MAX, INT32_MIN, 12345}, vc[N], ve[N];
    int64_t vb[N] = {0, 1, -1, INT64_MAX, INT64_MIN, 1 << 20, 5, 6}, vd[N], vk[N];
    float vf[N] = {0, -1.75f, 2.5f, 3e9f, -3e9f, NAN, HUGE_VALF, 300};
    uint8_t vh[N];
    for (int i = 0; i < N; i++) {
        int32_t up = (int32_t)((uint32_t)va[i] + 3u), most = va[i] > up ? va[i] : up;
        vc[i] = (int32_t)((uint32_t)va[i] * (uint32_t)va[i] + (uint32_t)most);
        vd[i] = (int64_t)(((uint64_t)vb[i] + (uint64_t)(3 * i + 1)) * (uint64_t)-7);
        ve[i] = vf[i] > -2147483649.0 && vf[i] < 2147483648.0 ? (int32_t)vf[i] : INT32_MIN;
        vk[i] = vf[i] > -9e18 && vf[i] < 9e18 ? (int64_t)vf[i] : INT64_MIN;
        vh[i] = (uint8_t)~(uint8_t)ve[i];
    }
    fx_tensor in[3] = {vec(FX_I32, N, va), vec(FX_I64, N, vb), vec(FX_F32, N, vf)};
    fx_tensor out[5] = {vec(FX_I32, N, vc), vec(FX_I64, N, vd), vec(FX_I32, N, ve), vec(FX_U8, N, vh), vec(FX_I64, N, vk)};
    fx_golden g = golden_of(3, in, 5, out);
    check_program(p, &g, FX_WEIGHTS_C, "");
}
END_TEST

/* Guards, accumulators, loops of one iteration, overlays, weights of several types, in every mode of weights. */
START_TEST(statements_and_weights)
{
    enum { R = 5, C = 7 };
    static float scale[C];
    static int64_t shift[C];
    fx_program *p = new_program("statements", "generic");
    float in[R * C], padded[(R + 2) * C], sums[R];
    for (int i = 0; i < C; i++) {
        scale[i] = (float)i * 0.5f - 1;
        shift[i] = i * 3 - 4;
    }
    for (int i = 0; i < R * C; i++)
        in[i] = (float)(i * i % 11) - 4;
    int x = add_io(p, true, "x", FX_F32, R * C), y = add_io(p, false, "y", FX_F32, (R + 2) * C), z = add_io(p, false, "z", FX_F32, R);
    int t = add_arena(p, "t", FX_F32, R * C, 0), u = add_arena(p, "u", FX_F32, R * C, 0);
    p->bufs[u].overlay = t;
    int ws = add_weight(p, "scale", FX_F32, C, scale, 64), wi = add_weight(p, "shift", FX_I64, C, shift, 64 + 64);
    p->weights_size = 256;

    /* t = x * scale + shift; u = t * t in its place */
    fx_affine rc = at(0, C, 0);
    fx_affine_add(ctx, &rc, 1, fx_dim_of(1));
    const fx_sexpr *v = op2(p, FX_S_add, op2(p, FX_S_mul, load(p, x, rc), load(p, ws, at(1, 1, 0))),
                            fx_s_op(p, FX_S_CAST, FX_F32, load(p, wi, at(1, 1, 0)), NULL, NULL));
    add_step(p, "affine", "scale and shift", add_loop(p, 0, R, FX_LOOP_PARALLEL, "h", add_loop(p, 1, C, FX_LOOP_VECTOR, "c", add_store(p, t, rc, v))));
    add_map(p, "square", u, R * C, op2(p, FX_S_mul, load(p, t, at(0, 1, 0)), load(p, t, at(0, 1, 0))));

    /* y = u padded by a row above and below; variable 2 runs once */
    fx_stmt *guard = fx_stmt_new(p, FX_ST_IF);
    fx_affine src = at(0, C, -C), row = at(0, 1, -1), last = at(0, -1, R);
    fx_affine_add(ctx, &src, 1, fx_dim_of(1));
    fx_affine_add(ctx, &src, 2, fx_dim_of(100));
    guard->n_cond = 2;
    guard->cond[0] = row;
    guard->cond[1] = last;
    fx_affine dst = at(0, C, 0);
    fx_affine_add(ctx, &dst, 1, fx_dim_of(1));
    guard->body = add_store(p, y, dst, load(p, u, src));
    fx_stmt *zero = add_store(p, y, dst, fx_s_const(p, FX_F32, 0));
    fx_stmt *note = fx_stmt_new(p, FX_ST_COMMENT);
    note->text = "rows */ outside are zeros";
    note->next = zero;
    zero->next = guard;
    add_step(p, "pad", "pad", add_loop(p, 0, R + 2, FX_LOOP_SERIAL, "h", add_loop(p, 1, C, FX_LOOP_SERIAL, "w", add_loop(p, 2, 1, FX_LOOP_SERIAL, "n", note))));

    /* z = sum over rows */
    fx_stmt *acc = fx_stmt_new(p, FX_ST_LOCAL), *add = fx_stmt_new(p, FX_ST_SET);
    acc->local = add->local = 0;
    acc->value = fx_s_const(p, FX_F32, 0);
    add->value = op2(p, FX_S_add, fx_s_local(p, 0, FX_F32), load(p, u, rc));
    acc->next = add_loop(p, 1, C, FX_LOOP_SERIAL, "weights", add);
    acc->next->next = add_store(p, z, at(0, 1, 0), fx_s_local(p, 0, FX_F32));
    add_step(p, "sum", "sum", add_loop(p, 0, R, FX_LOOP_PARALLEL, NULL, acc));

    for (int r = 0; r < R; r++) {
        sums[r] = 0;
        for (int c = 0; c < C; c++) {
            float w = in[r * C + c] * scale[c] + (float)shift[c];
            padded[(r + 1) * C + c] = w * w;
            sums[r] += w * w;
        }
    }
    for (int c = 0; c < C; c++)
        padded[c] = padded[(R + 1) * C + c] = 0;
    fx_tensor ti = vec(FX_F32, R * C, in), to[2] = {vec(FX_F32, (R + 2) * C, padded), vec(FX_F32, R, sums)};
    fx_golden g = golden_of(1, &ti, 2, to);
    check_program(p, &g, FX_WEIGHTS_C, "");
    run("rm %s/*", folder);
    check_program(p, &g, FX_WEIGHTS_BIN, "");
    run("rm %s/*", folder);
    check_program(p, &g, FX_WEIGHTS_INCBIN, "");

    /* The struct of the C form is the .bin, byte by byte. */
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net", .weights = FX_WEIGHTS_BIN};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    write_files(n, files);
    o.weights = FX_WEIGHTS_C;
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    write_files(n, files);
    const fx_file dump = {.name = "dump.c", .data = "#include <stdio.h>\n#include \"net.h\"\nint main(void) { return fwrite(net_weights, sizeof net_weights, 1, stdout) != 1; }\n"};
    fx_file d = dump;
    d.size = strlen(d.data);
    write_files(1, &d);
    ck_assert_int_eq(run("cd %s && gcc -std=c99 dump.c net_weights.c -o dump && ./dump > dumped && cmp dumped net.bin", folder), 0);
}
END_TEST

/* A convolution with its tail against plain loops, on every target this machine runs, pasted; and that init checks. */
static fx_program *conv_program(const char *target, const char *name, float *w, float *b)
{
    enum { H = 9, W = 8, IC = 3, OC = 5 };
    fx_program *p = new_program(name, target);
    fx_dim xd[4] = {{1, NULL}, {H, NULL}, {W, NULL}, {IC, NULL}}, yd[4] = {{1, NULL}, {H, NULL}, {W, NULL}, {OC, NULL}};
    int x = fx_program_buf(p, FX_BUF_INPUT, "x", FX_F32, 4, xd), y = fx_program_buf(p, FX_BUF_OUTPUT, "y", FX_F32, 4, yd);
    p->bufs[x].io = p->bufs[y].io = 0;
    fx_io ix = {.name = "x", .label = "x", .buf = x, .dtype = FX_F32, .rank = 4, .dims = {{1, NULL}, {H, NULL}, {W, NULL}, {IC, NULL}}};
    fx_io iy = {.name = "y", .label = "y", .buf = y, .dtype = FX_F32, .rank = 4, .dims = {{1, NULL}, {H, NULL}, {W, NULL}, {OC, NULL}}};
    FX_PUSH(p->arena, p->inputs, p->n_inputs, p->cap_inputs) = ix;
    FX_PUSH(p->arena, p->outputs, p->n_outputs, p->cap_outputs) = iy;
    fxrt_conv2d_desc d = {.n = 1, .ih = H, .iw = W, .ic = IC, .oh = H, .ow = W, .oc = OC, .groups = 1, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .ph = 1,
                          .pw = 1, .dh = 1, .dw = 1, .xs_n = H * W * IC, .xs_h = W * IC, .xs_w = IC, .ys_n = H * W * OC, .ys_h = W * OC,
                          .ys_w = OC, .act = FXRT_ACT_RELU};
    fxrt_tile tile = {p->target.lanes, p->target.mr, p->target.nr};
    size_t wn = fxrt_conv2d_packed_size(&d, &tile), bn = fxrt_bias_packed_size(1, OC, tile.nr);
    float *pw = fx_arena_array(p->arena, wn, 4), *pb = fx_arena_array(p->arena, bn, 4);
    fxrt_conv2d_pack(&d, &tile, w, pw);
    fxrt_bias_pack(1, OC, tile.nr, b, pb);
    int wb = add_weight(p, "conv.weight", FX_F32, (int64_t)wn, pw, 64), bb = add_weight(p, "conv.bias", FX_F32, (int64_t)bn, pb, (64 + 4 * wn + 63) / 64 * 64);
    p->weights_size = ((64 + 4 * wn + 63) / 64 * 64 + 4 * bn + 63) / 64 * 64;
    fx_stmt *call = fx_stmt_new(p, FX_ST_CALL);
    call->call->kernel = FX_K_conv2d;
    call->call->name = name;
    fx_call_from_desc(call->call, &d);
    int bufs[6] = {x, wb, bb, -1, y, -1};
    memcpy(call->call->buf, bufs, sizeof bufs);
    size_t ws = fxrt_conv2d_workspace(&d, &tile, 8);
    if (ws) {
        call->call->buf[5] = add_arena(p, "workspace", FX_F32, (int64_t)(ws + 3) / 4, 0);
        p->bufs[call->call->buf[5]].workspace = true;
    }
    fx_step *s = add_step(p, name, name, call);
    s->shapes = "1x9x8x3 -> 1x9x8x5";
    s->flops = 19440;
    s->loc.frame = name;
    return p;
}

static void conv_reference(const float *x, const float *w, const float *b, float *y)
{
    enum { H = 9, W = 8, IC = 3, OC = 5 };
    for (int oy = 0; oy < H; oy++)
        for (int ox = 0; ox < W; ox++)
            for (int oc = 0; oc < OC; oc++) {
                double s = b[oc];
                for (int ky = 0; ky < 3; ky++)
                    for (int kx = 0; kx < 3; kx++)
                        for (int ic = 0; ic < IC; ic++) {
                            int iy = oy + ky - 1, ix = ox + kx - 1;
                            if (iy >= 0 && iy < H && ix >= 0 && ix < W)
                                s += (double)x[(iy * W + ix) * IC + ic] * w[((oc * IC + ic) * 3 + ky) * 3 + kx];
                        }
                y[(oy * W + ox) * OC + oc] = s > 0 ? (float)s : 0;
            }
}

static float xs[9 * 8 * 3], wsrc[5 * 3 * 3 * 3], bsrc[5], ys[9 * 8 * 5];

static fx_golden conv_golden(fx_tensor *in, fx_tensor *out)
{
    for (int i = 0; i < 9 * 8 * 3; i++)
        xs[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < 5 * 27; i++)
        wsrc[i] = (float)(i * 53 % 97) / 48 - 1;
    for (int i = 0; i < 5; i++)
        bsrc[i] = (float)i - 2;
    conv_reference(xs, wsrc, bsrc, ys);
    *in = (fx_tensor){.dtype = FX_F32, .rank = 4, .sizes = {1, 9, 8, 3}, .strides = {216, 24, 3, 1}, .data = xs};
    *out = (fx_tensor){.dtype = FX_F32, .rank = 4, .sizes = {1, 9, 8, 5}, .strides = {360, 40, 5, 1}, .data = ys};
    return golden_of(1, in, 1, out);
}

START_TEST(kernels_are_pasted)
{
    static const struct { const char *target, *flags; } targets[] = {{"generic", ""}, {"x86_64-avx2", "-mavx2 -mfma"}};
    fx_tensor in, out;
    fx_golden g = conv_golden(&in, &out);
    fx_program *p = conv_program(targets[_i].target, "conv", wsrc, bsrc);
    if (p->target.lanes > 1 && system("grep -qw avx2 /proc/cpuinfo") != 0)
        return;
    check_program(p, &g, FX_WEIGHTS_C, targets[_i].flags);
    if (*targets[_i].flags) /* without the flags: a message, not wrong code */
        ck_assert_int_ne(run("cd %s && gcc -std=c99 -c net.c -o x.o 2>/dev/null", folder), 0);
}
END_TEST

/* NET_STACK_SIZE against what compilers report. All frames of the file together: more than any chain of calls. */
START_TEST(stack_is_bounded)
{
    static const struct { const char *target, *flags; } targets[] = {{"generic", ""}, {"x86_64-avx2", "-mavx2 -mfma"},
        {"x86_64-avx512", "-mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx2 -mfma"}};
    static const char *const compilers[] = {"gcc", "clang"}, *const levels[] = {"-O1", "-O3"};
    fx_tensor in, out;
    conv_golden(&in, &out);
    fx_program *p = conv_program(targets[_i].target, "conv", wsrc, bsrc);
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net"};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    write_files(n, files);
    unsigned long long bound = strtoull(strstr(file(n, files, "net.h")->data, "STACK_SIZE ") + 11, NULL, 10), most = 0;
    for (int k = 0; k < 4; k++) {
        if (run("%s --version >/dev/null 2>&1", compilers[k / 2]) != 0)
            continue;
        ck_assert_int_eq(run("cd %s && %s -std=c99 %s %s -fstack-usage -c net.c", folder, compilers[k / 2], levels[k % 2], targets[_i].flags), 0);
        char path[300], line[500];
        snprintf(path, sizeof path, "%s/net.su", folder);
        FILE *f = fopen(path, "r");
        ck_assert_ptr_nonnull(f);
        unsigned long long sum = 0, one;
        while (fgets(line, sizeof line, f)) {
            ck_assert_msg(strstr(line, "static") || strstr(line, "bounded"), "%s", line);
            ck_assert_int_eq(sscanf(line, "%*s %llu", &one), 1);
            sum += one;
        }
        fclose(f);
        most = sum > most ? sum : most;
        ck_assert_msg(sum <= bound, "%s %s %s: %llu of %llu", compilers[k / 2], levels[k % 2], targets[_i].target, sum, bound);
    }
    ck_assert_msg(bound < 3 * most + 1024, "%llu is much more than %llu", bound, most);
}
END_TEST

START_TEST(init_and_run_check_their_arguments)
{
    static const char *text =
        "#include <stdio.h>\n#include <string.h>\n#include \"net.h\"\n"
        "#define CHECK(x) do { if (!(x)) { printf(\"%d: %s\\n\", __LINE__, #x); return 1; } } while (0)\n"
        "static NET_ALIGNED unsigned char arena[NET_ARENA_SIZE + 64];\n"
        "static NET_ALIGNED unsigned char w[NET_WEIGHTS_SIZE];\n"
        "static float x[NET_IN0_NUMEL + 1], y[NET_OUT0_NUMEL + 1];\n"
        "int main(void) {\n"
        "    net_context c; memset(&c, 0, sizeof c);\n"
        "    CHECK(net_run(&c, x, y) == NET_ERR_NULL);\n"
        "    CHECK(net_init(NULL, net_weights, sizeof net_weights, arena, sizeof arena) == NET_ERR_NULL);\n"
        "    CHECK(net_init(&c, NULL, sizeof net_weights, arena, sizeof arena) == NET_ERR_NULL);\n"
        "    CHECK(net_init(&c, net_weights, sizeof net_weights, NULL, sizeof arena) == NET_ERR_NULL);\n"
        "    CHECK(net_init(&c, net_weights, sizeof net_weights - 1, arena, sizeof arena) == NET_ERR_SIZE);\n"
        "    CHECK(net_init(&c, net_weights, sizeof net_weights, arena, NET_ARENA_SIZE - 1) == NET_ERR_SIZE);\n"
        "    CHECK(net_init(&c, net_weights, sizeof net_weights, arena + 4, NET_ARENA_SIZE) == NET_ERR_ALIGN);\n"
        "    CHECK(net_init(&c, w, sizeof w, arena, NET_ARENA_SIZE) == NET_ERR_WEIGHTS);\n"
        "    for (int i = 0; i < 32; i++) {\n"
        "        memcpy(w, net_weights, sizeof w); w[i] ^= 1;\n"
        "        CHECK(net_init(&c, w, sizeof w, arena, NET_ARENA_SIZE) == NET_ERR_WEIGHTS);\n"
        "    }\n"
        "    memcpy(w, net_weights, sizeof w);\n"
        "    CHECK(net_init(&c, w, sizeof w, arena, NET_ARENA_SIZE) == NET_OK);\n"
        "    CHECK(net_init(&c, &net_weights, NET_WEIGHTS_SIZE, arena, NET_ARENA_SIZE) == NET_OK);\n"
        "    CHECK(net_run(&c, x, y) == NET_OK);\n"
        "    CHECK(net_run(NULL, x, y) == NET_ERR_NULL && net_run(&c, NULL, y) == NET_ERR_NULL && net_run(&c, x, NULL) == NET_ERR_NULL);\n"
        "    CHECK(net_run(&c, (const float *)((const char *)x + 2), y) == NET_ERR_ALIGN);\n"
        "    const void *in[NET_INPUTS] = {x}; void *out[NET_OUTPUTS] = {y};\n"
        "    CHECK(net_run_v(&c, in, out) == NET_OK && net_run_v(&c, NULL, out) == NET_ERR_NULL && net_run_v(&c, in, NULL) == NET_ERR_NULL);\n"
        "    static const int shape[NET_IN0_RANK] = NET_IN0_SHAPE;\n"
        "    CHECK(shape[0] == 1 && shape[1] == 9 && shape[2] == 8 && shape[3] == 3);\n"
        "    for (int s = -1; s < 9; s++) CHECK(strlen(net_status_string(s)) > 1);\n"
        "    return 0;\n}\n";
    static const char *cxx = "#include \"net.h\"\n"
                             "static NET_ALIGNED unsigned char arena[NET_ARENA_SIZE];\n"
                             "int main() { net_context c; return net_init(&c, net_weights, sizeof net_weights, arena, sizeof arena); }\n";
    fx_tensor in, out;
    fx_golden g = conv_golden(&in, &out);
    fx_program *p = conv_program("generic", "conv", wsrc, bsrc);
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net", .weights = FX_WEIGHTS_C, .golden = &g};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    write_files(n, files);
    const fx_file more[2] = {{.name = "user.c", .data = text, .size = strlen(text)}, {.name = "user.cpp", .data = cxx, .size = strlen(cxx)}};
    write_files(2, more);
    ck_assert_int_eq(run("cd %s && gcc " STRICT " -Wno-overlength-strings user.c net.c net_weights.c -o user -lm && ./user", folder), 0);
    if (run("g++ --version >/dev/null 2>&1") == 0)
        ck_assert_int_eq(run("cd %s && gcc -std=c99 -c net.c net_weights.c && g++ -std=c++11 -pedantic -Wall -Wextra -Werror user.cpp net.o net_weights.o "
                             "-o userpp -lm && ./userpp", folder), 0);
    ck_assert_int_eq(run("cd %s && make -s CC=gcc CFLAGS=-O1 libnet.a && make -s CC=gcc check > out.txt && make -s clean", folder), 0);
    if (run("cmake --version >/dev/null 2>&1") == 0)
        ck_assert_int_eq(run("cd %s && cmake -S . -B b > out.txt 2>&1 && cmake --build b --target net net_check >> out.txt 2>&1 && ./b/net_check >> out.txt",
                             folder), 0);
}
END_TEST

static const char *const nasty[] = {
    "a/b", "*/ int x; /*", "quote\"'`$(x)", "new\nline\r\n#error no\n", "back\\\nslash", "what?" "?/\nnow", "int", "double", "main", "exp",
    "NULL", "__attribute__", "_Generic", "linux", "\xc3\xa9\xc3\xa0\xe2\x82\xac", "\xff\xfe\x80", "\xe2\x80\xae" "bidi", "%s%n%d", "net_run", "NET_OK", "net",
    "weights", "ctx", "arena", "desc", "i", "t", "acc", "fxrt_conv2d", "math", "", "123", "x__y", "size_t", "int8_t", "FLT_MAX", "${HOME}", "\t \v",
    "#if 0", "//", "/*", "restrict", "class", "NET_ARENA_SIZE", "net_context", "got0", "RTOL",
};
enum { N_NASTY = sizeof nasty / sizeof nasty[0] };


static bool is_identifier(const char *s)
{
    return *s && (*s < '0' || *s > '9') && strlen(s) < 64 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(s);
}

/* One program in which inputs, outputs, buffers, weights, steps, titles, frames, hints and comments have all these names. */
START_TEST(any_name_inside_compiles)
{
    char *longest = malloc(10001);
    memset(longest, 'q', 10000);
    longest[10000] = 0;
    static float k[4] = {1, 2, 3, 4};
    fx_program *p = new_program("net", "generic");
    p->file = "/some/where/*/model.pt2";
    int x = add_io(p, true, "x", FX_F32, 4), y = add_io(p, false, "y", FX_F32, 4), last = x;
    p->inputs[0].name = p->outputs[0].name = "exp";
    p->inputs[0].label = p->outputs[0].label = "*/ \"\\ \n";
    for (int i = 0; i <= N_NASTY; i++) {
        const char *name = i < N_NASTY ? nasty[i] : longest;
        int w = add_weight(p, name, FX_F32, 4, k, 64 + 64 * (uint64_t)i), b = add_arena(p, name, FX_F32, 4, 64 * (uint64_t)i);
        p->bufs[w].note = p->bufs[b].note = name;
        if (is_identifier(name)) { /* even where lowering would not let them through */
            p->bufs[w].name = p->bufs[b].name = name;
        }
        fx_stmt *note = fx_stmt_new(p, FX_ST_COMMENT);
        note->text = name;
        note->next = add_loop(p, 0, 4, i % 2 ? FX_LOOP_PARALLEL : FX_LOOP_VECTOR, name, add_store(p, b, at(0, 1, 0),
                              op1(p, FX_S_floor, op2(p, FX_S_add, load(p, last, at(0, 1, 0)), load(p, w, at(0, 1, 0))))));
        fx_step *s = add_step(p, name, name, note);
        if (is_identifier(name))
            s->name = name;
        s->shapes = s->loc.frame = name;
        last = b;
    }
    p->weights_size = 64 + 64 * (N_NASTY + 1);
    add_map(p, "end", y, 4, load(p, last, at(0, 1, 0)));
    float in[4] = {0}, out[4];
    for (int i = 0; i < 4; i++)
        out[i] = (float)((N_NASTY + 1) * (i + 1));
    fx_tensor ti = vec(FX_F32, 4, in), to = vec(FX_F32, 4, out);
    fx_golden g = golden_of(1, &ti, 1, &to);
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net", .golden = &g};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    for (size_t f = 0; f < n; f++)
        ck_assert_ptr_null(strstr(fx_file_data(fx_context_arena(ctx), &files[f]), "/some/where"));
    write_files(n, files);
    ck_assert_int_eq(run("cd %s && gcc " STRICT " *.c -o check -lm && ./check >out.txt", folder), 0);
    if (run("clang --version >/dev/null 2>&1") == 0)
        ck_assert_int_eq(run("cd %s && clang " STRICT " *.c -o check -lm && ./check >out.txt", folder), 0);
    free(longest);
}
END_TEST

/* The model's own name is that of files, symbols and macros. */
START_TEST(any_model_name_compiles)
{
    for (int i = 0; i < N_NASTY; i++) {
        run("rm -rf %s/*", folder);
        fx_program *p = new_program("x", "generic");
        p->name = nasty[i];
        int x = add_io(p, true, "x", FX_F32, 4), y = add_io(p, false, "y", FX_F32, 4);
        add_map(p, "run", y, 4, op1(p, FX_S_neg, load(p, x, at(0, 1, 0))));
        float in[4] = {1, 2, 3, 4}, out[4] = {-1, -2, -3, -4};
        fx_tensor ti = vec(FX_F32, 4, in), to = vec(FX_F32, 4, out);
        fx_golden g = golden_of(1, &ti, 1, &to);
        size_t n;
        fx_file *files;
        fx_emit_options o = {.weights = i % 2 ? FX_WEIGHTS_C : FX_WEIGHTS_INCBIN, .golden = &g};
        ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
        for (size_t f = 0; f < n; f++)
            ck_assert_ptr_null(strstr(files[f].name, "/"));
        write_files(n, files);
        if (i % 4 == 0)
            ck_assert_msg(run("cd %s && make -s CFLAGS='-pedantic -Wall -Wextra -Werror' check >out.txt", folder) == 0, "%d: %s", i, nasty[i]);
        else
            ck_assert_msg(run("cd %s && gcc " STRICT " -fsyntax-only *.c", folder) == 0, "%d: %s", i, nasty[i]);
    }
}
END_TEST

START_TEST(prefixes_are_checked)
{
    static const char *const bad[] = {"", "1x", "a-b", "a/b", "int", "x__y", "math", "test", "fxrt", "name_t", "abcdefghijklmnopqrstuvwxyz_abcdefgh"};
    fx_program *p = conv_program("generic", "conv", wsrc, bsrc);
    size_t n;
    fx_file *files;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fx_emit_options o = {.prefix = bad[i]};
        ck_assert_msg(fx_emit_c(p, &o, &n, &files) == FX_ERR_ARGUMENT, "%s", bad[i]);
    }
    fx_emit_options o = {.prefix = "My_net1"};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    ck_assert_ptr_nonnull(file(n, files, "My_net1.h"));
    ck_assert_ptr_nonnull(strstr(file(n, files, "My_net1.h")->data, "#define MY_NET1_ARENA_SIZE"));
}
END_TEST

START_TEST(emission_is_deterministic)
{
    size_t n[2];
    fx_file *files[2];
    fx_tensor in, out;
    fx_golden g = conv_golden(&in, &out);
    for (int k = 0; k < 2; k++) {
        fx_program *p = conv_program("x86_64-avx2", "conv", wsrc, bsrc);
        fx_emit_options o = {.golden = &g};
        ck_assert_int_eq(fx_emit_c(p, &o, &n[k], &files[k]), FX_OK);
    }
    ck_assert_uint_eq(n[0], n[1]);
    for (size_t i = 0; i < n[0]; i++) {
        ck_assert_str_eq(files[0][i].name, files[1][i].name);
        ck_assert_uint_eq(files[0][i].size, files[1][i].size);
        ck_assert_int_eq(memcmp(fx_file_data(fx_context_arena(ctx), &files[0][i]), fx_file_data(fx_context_arena(ctx), &files[1][i]), files[0][i].size), 0);
    }
    /* Other weights, another hash. */
    wsrc[3] += 1;
    fx_program *p = conv_program("x86_64-avx2", "conv", wsrc, bsrc);
    fx_emit_options o = {.golden = &g};
    size_t m;
    fx_file *other;
    ck_assert_int_eq(fx_emit_c(p, &o, &m, &other), FX_OK);
    const char *a = strstr(file(n[0], files[0], "conv.c")->data, "model[8]"), *b = strstr(file(m, other, "conv.c")->data, "model[8]");
    ck_assert_int_ne(strncmp(a, b, 60), 0);
}
END_TEST

START_TEST(text_reads_well)
{
    fx_program *p = conv_program("generic", "layer1.0.conv2", wsrc, bsrc);
    p->steps[0].title = "layer1.0.conv2: conv2d 3->5 3x3, relu";
    p->steps[0].loc.frame = "models/resnet.py:92";
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net"};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    const char *c = file(n, files, "net.c")->data;
    ck_assert_ptr_nonnull(strstr(c, "/* layer1.0.conv2: conv2d 3->5 3x3, relu (models/resnet.py:92)\n * 1x9x8x3 -> 1x9x8x5, 19.4 kFLOP */\n"
                                    "static void net_layer1_0_conv2(const net_weights_t *weights, const float *x, float *y"));
    ck_assert_ptr_nonnull(strstr(c, ".act = FXRT_ACT_RELU"));
    ck_assert_ptr_nonnull(strstr(c, "fxrt_conv2d(&desc, x, weights->conv_weight, weights->conv_bias, NULL, y, "));
    const char *h = file(n, files, "net.h")->data;
    ck_assert_ptr_nonnull(strstr(h, "int net_run(const net_context *ctx, const float *x, float *y);"));
    ck_assert_ptr_nonnull(strstr(h, "#define NET_IN0_NUMEL 216\n"));
    ck_assert_ptr_nonnull(strstr(h, "#define NET_OUT0_SHAPE {1, 9, 8, 5}\n"));

    o.link_runtime = true;
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    c = file(n, files, "net.c")->data;
    ck_assert_ptr_nonnull(strstr(c, "#include \"fxcc/runtime.h\""));
    ck_assert_ptr_nonnull(strstr(c, "void fxrt_generic_conv2d(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b,"));
    ck_assert_ptr_nonnull(strstr(c, "fxrt_abi_version()"));
}
END_TEST

START_TEST(unspellable_is_refused)
{
    fx_program *p = new_program("complex", "generic");
    int x = add_io(p, true, "x", FX_C64, 4), y = add_io(p, false, "y", FX_C64, 4);
    add_map(p, "s", y, 4, op2(p, FX_S_add, load(p, x, at(0, 1, 0)), load(p, x, at(0, 1, 0))));
    size_t n;
    fx_file *files;
    fx_emit_options o = {0};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_ERR_UNSUPPORTED);

    p = new_program("golden", "generic");
    x = add_io(p, true, "x", FX_F32, 4);
    y = add_io(p, false, "y", FX_F32, 4);
    add_map(p, "s", y, 4, load(p, x, at(0, 1, 0)));
    float v[5] = {0};
    fx_tensor four = vec(FX_F32, 4, v), five = vec(FX_F32, 5, v);
    fx_golden g = golden_of(1, &four, 1, &five);
    o.golden = &g;
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, fx_diag_count(ctx) - 1)->message, "expected float32 4, got float32 5"));
    g = golden_of(0, NULL, 1, &four);
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_ERR_ARGUMENT);
}
END_TEST

/* Outputs that are no buffer of their own: an input handed through, one value given twice, a constant. */
START_TEST(outputs_may_be_other_buffers)
{
    static float k[4] = {1, 2, 3, 4};
    fx_program *p = new_program("through", "generic");
    int x = add_io(p, true, "x", FX_F32, 4), y = add_io(p, false, "y", FX_F32, 4), w = add_weight(p, "k", FX_F32, 4, k, 64);
    p->weights_size = 128;
    add_map(p, "s", y, 4, op1(p, FX_S_neg, load(p, x, at(0, 1, 0))));
    int bufs[3] = {x, y, w};
    for (int i = 0; i < 3; i++) {
        fx_io io = {.name = "more", .label = "more", .buf = bufs[i], .dtype = FX_F32, .rank = 1, .dims = {{4, NULL}}};
        FX_PUSH(p->arena, p->outputs, p->n_outputs, p->cap_outputs) = io;
    }
    float in[4] = {5, -6, 7, 8}, neg[4] = {-5, 6, -7, -8};
    fx_tensor ti = vec(FX_F32, 4, in), to[4] = {vec(FX_F32, 4, neg), ti, vec(FX_F32, 4, neg), vec(FX_F32, 4, k)};
    fx_golden g = golden_of(1, &ti, 4, to);
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net", .golden = &g};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    write_files(n, files);
    ck_assert_int_eq(run("cd %s && gcc " STRICT " *.c -o check -lm && ./check > out.txt", folder), 0);
}
END_TEST

/* A hundred megabytes of weights: seconds, in memory and on disk. */
START_TEST(many_weights_are_quick)
{
    enum { N = 25 << 20 };
    float *w = malloc((size_t)N * 4);
    for (int i = 0; i < N; i++)
        w[i] = (float)i;
    fx_program *p = new_program("big", "generic");
    int y = add_io(p, false, "y", FX_F32, 4), b = add_weight(p, "w", FX_F32, N, w, 64);
    add_map(p, "s", y, 4, load(p, b, at(0, 1, 0)));
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net"};
    ck_assert_int_eq(fx_emit_c(p, &o, &n, &files), FX_OK);
    ck_assert_uint_eq(file(n, files, "net.bin")->size, (size_t)N * 4 + 64);
    ck_assert_uint_eq(fx_diag_count(ctx), 0);
    free(w);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, floats_print_shortest);
    tcase_add_test(t, float_expressions);
    tcase_add_test(t, integer_expressions);
    tcase_add_test(t, statements_and_weights);
    tcase_add_loop_test(t, kernels_are_pasted, 0, 2);
    tcase_add_loop_test(t, stack_is_bounded, 0, 3);
    tcase_add_test(t, init_and_run_check_their_arguments);
    tcase_add_test(t, any_name_inside_compiles);
    tcase_add_test(t, any_model_name_compiles);
    tcase_add_test(t, prefixes_are_checked);
    tcase_add_test(t, emission_is_deterministic);
    tcase_add_test(t, text_reads_well);
    tcase_add_test(t, unspellable_is_refused);
    tcase_add_test(t, outputs_may_be_other_buffers);
    tcase_add_test(t, many_weights_are_quick);
}

int main(void)
{
    return unit_run("codegen", 300, setup, teardown, add_tests);
}
