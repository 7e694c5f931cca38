/* tests/unit/test_codegen_programs.c: loop programs of every kind of statement, as texts, to C: what gcc and clang make of it gives what the
 * interpreter of loop programs gives, with sizes from the inputs, and fails where that fails.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "tests/unit/program_text.h"
#include "tests/unit/shell.h"

static char folder[64];

static void set_up_folder(void)
{
    set_up();
    strcpy(folder, "/tmp/fxcc-programs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void tear_down_folder(void)
{
    ck_assert_int_eq(run("rm -rf %s", folder), 0);
    tear_down();
}

static fx_program *parse(const char *text)
{
    fx_program *p;
    fx_status st = fx_program_parse(ctx, "test", text, strlen(text), &p);
    for (size_t i = 0; st == FX_OK && i < p->n_bufs; i++) /* texts for any dtype say 0 */
        if (p->bufs[i].kind == FX_BUF_ARENA && p->n_symbols == 0)
            p->arena_size = (uint64_t)p->bufs[i].numel.value * fx_dtype_size(p->bufs[i].dtype);
    if (st == FX_OK)
        st = fx_program_verify(p, true, "test");
    ck_assert_msg(st == FX_OK, "%s", fx_diag_count(ctx) ? fx_diag_get(ctx, 0)->message : "no message");
    return p;
}

static size_t n_files;
static fx_file *files;

static void emit(fx_program *p, const fx_golden *golden)
{
    fx_emit_options o = {.prefix = "net", .golden = golden};
    fx_status st = fx_emit_c(p, &o, &n_files, &files);
    ck_assert_msg(st == FX_OK, "%s", fx_diag_count(ctx) ? fx_diag_get(ctx, fx_diag_count(ctx) - 1)->message : "no message");
    for (size_t i = 0; i < n_files; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        FILE *f = fopen(path, "wb");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(fx_file_data(fx_context_arena(ctx), &files[i]), 1, files[i].size, f), files[i].size);
        fclose(f);
    }
}

static const char *content(const char *name)
{
    for (size_t i = 0; i < n_files; i++)
        if (strcmp(files[i].name, name) == 0)
            return fx_arena_printf(fx_context_arena(ctx), "%.*s", (int)files[i].size, fx_file_data(fx_context_arena(ctx), &files[i]));
    ck_abort_msg("no file %s", name);
}

static void contains(const char *name, const char *what)
{
    bool there = strstr(content(name), what) != NULL;
    if (!there)
        fprintf(stderr, "%s", content(name)); /* longer than Check's messages */
    ck_assert_msg(there, "%s lacks '%s'", name, what);
}

/* Builds the files and `more` strictly, by gcc with the undefined behaviour sanitizer, and by clang with OpenMP where there is one, and runs. */
static void build_and_run(const char *more)
{
    static const char *const builds[] = {"gcc -O1 -fsanitize=undefined -fno-sanitize-recover", "gcc -O3 -fopenmp", "clang -O2"};
    for (int i = 0; i < 3; i++) {
        if (i == 2 && run("clang --version >/dev/null 2>&1") != 0)
            continue;
        ck_assert_int_eq(run("cd %s && %s -std=c99 -pedantic -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-float-conversion -Werror "
                             "-DNET_CHECK_PAINT net.c net_weights.c %s -o check -lm", folder, builds[i], more), 0);
        ck_assert_int_eq(run("cd %s && ./check > out.txt || { cat out.txt; exit 1; }", folder), 0);
    }
}

/* Deterministic values of every kind: small, large, negative, special. */
static fx_tensor input(const fx_program *p, size_t i, int64_t below, const int64_t *sizes)
{
    fx_tensor t;
    const fx_io *io = &p->inputs[i];
    ck_assert_int_eq(fx_tensor_create(ctx, io->dtype, io->rank, sizes, &t), FX_OK);
    for (int64_t k = 0; k < fx_tensor_numel(&t); k++) {
        int64_t v = (k * 37 + 11 * (int64_t)i + 5) % (below ? below : 251);
        if (fx_dtype_is_float(io->dtype))
            fx_tensor_set(&t, k, (double)(v - 100) / 16);
        else
            fx_tensor_set_int(&t, k, below ? v : v - 120);
    }
    return t;
}

/* ---- symbols, checks, arrays ---------------------------------------------------------------------------------------- */

static fx_golden golden_of(fx_program *p, size_t n, const fx_tensor *in)
{
    fx_golden g = {.n_inputs = n, .inputs = in, .rtol = 1e-6};
    fx_tensor *out;
    fx_status st = fx_program_run(p, true, n, in, &g.n_outputs, &out);
    ck_assert_msg(st == FX_OK, "%s", fx_diag_count(ctx) ? fx_diag_get(ctx, 0)->message : "no message");
    g.outputs = out;
    return g;
}

START_TEST(sizes_come_from_the_golden_inputs)
{
    for (int64_t batch = 1; batch <= 3; batch += 2) {
        fx_program *p = parse(replaced(ENCODER, "3*t0 - 3*t0 + ", ""));
        fx_tensor ids = input(p, 0, 5, (int64_t[]){batch, 7});
        fx_golden g = golden_of(p, 1, &ids);
        emit(p, &g);
        build_and_run("net_check.c");
    }
    contains("net.h", "    int64_t batch; /* 1 to 6: size 0 of ids */\n    int64_t seq; /* 2 or more: size 1 of ids */\n} net_dims;");
    contains("net.h", "#define NET_OUT0_NUMEL(dims) ((dims)->batch * 3)\n");
    contains("net.h", "#define NET_OUT0_SHAPE(dims) {(dims)->batch, 3}\n");
    contains("net.h", "int net_run(const net_context *ctx, const net_dims *dims, const int64_t *ids, float *y);");
    contains("net.c", "static int net_embed(ptrdiff_t batch, ptrdiff_t seq, const net_weights_t *weights,");
    contains("net.c", "for (ptrdiff_t n = 0; n < batch; n++) {");
    contains("net.c", "rows[n * seq * 3 + j * 3 + l] = weights->table[v * 3 + l];");
    contains("net.c", ".outer = (int32_t)(batch * seq), .n = 3, .inner = 1");
    contains("net.c", "float acc[3];");
}
END_TEST

/* Runs at sizes of the caller's; everything that can be wrong with them has its status and text. */
static const char sizes_main[] =
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"net.h\"\n"
    "static int differs(int line, const char *got, const char *want)\n{\n"
    "    return strcmp(got, want) != 0 && printf(\"line %d: %s, expected %s\\n\", line, got, want);\n}\n"
    "#define EXPECT(call, text) if (differs(__LINE__, net_status_string(call), text)) return 1\n"
    "static NET_ALIGNED unsigned char arena[4096];\n"
    "int main(void)\n{\n"
    "    net_context ctx;\n"
    "    net_dims d = {2, 4};\n"
    "    int64_t ids[8] = {0, 1, 2, 3, 4, 3, 2, 1}, shape[2] = {2, 4};\n"
    "    const int64_t *shapes[1] = {shape};\n"
    "    float y[6];\n"
    "    EXPECT(net_check_dims(&d), \"ok\");\n"
    "    if (net_arena_size(&d) != 256)\n        return 2;\n"
    "    EXPECT(net_init(&ctx, net_weights, sizeof net_weights, arena, 256), \"ok\");\n"
    "    EXPECT(net_run(&ctx, &d, ids, y), \"ok\");\n"
    "    ids[5] = 5;\n"
    "    EXPECT(net_run(&ctx, &d, ids, y), \"embed: index into the 5 rows of table: out of range\");\n"
    "    if (net_run(&ctx, &d, ids, y) != NET_ERR_EMBED)\n        return 3;\n"
    "    ids[5] = -1;\n"
    "    EXPECT(net_run(&ctx, &d, ids, y), \"embed: index into the 5 rows of table: out of range\");\n"
    "    ids[5] = 0;\n"
    "    EXPECT(net_run(&ctx, NULL, ids, y), \"a pointer is NULL\");\n"
    "    d.seq = 40;\n"
    "    if (net_arena_size(&d) != 1920)\n        return 4;\n"
    "    EXPECT(net_run(&ctx, &d, ids, y), \"the weights have not the size of this model's, or the arena is too small\");\n"
    "    d.batch = 7;\n"
    "    EXPECT(net_check_dims(&d), \"batch must be 1 to 6\");\n"
    "    EXPECT(net_run(&ctx, &d, ids, y), \"batch must be 1 to 6\");\n"
    "    if (net_arena_size(&d) != SIZE_MAX)\n        return 5;\n"
    "    d.batch = 1;\n    d.seq = 1;\n"
    "    EXPECT(net_check_dims(&d), \"seq must be at least 2\");\n"
    "    d.seq = 1073741824;\n"
    "    EXPECT(net_check_dims(&d), \"ok\");\n"
    "    d.batch = 2;\n"
    "    EXPECT(net_check_dims(&d), \"batch*seq must be at most 2147483647: kernels count in 32 bits\");\n"
    "    d.seq = INT64_MAX;\n"
    "    EXPECT(net_check_dims(&d), \"tensors of these sizes exceed the address space\");\n"
    "    EXPECT(net_dims_of(&d, shapes), \"ok\");\n"
    "    if (d.batch != 2 || d.seq != 4)\n        return 6;\n"
    "    shape[0] = 9;\n"
    "    EXPECT(net_dims_of(&d, shapes), \"batch must be 1 to 6\");\n"
    "    return 0;\n}\n";

static void write_main(const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/main.c", folder);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

START_TEST(wrong_sizes_and_indices_are_statuses)
{
    emit(parse(replaced(ENCODER, "3*t0 - 3*t0 + ", "")), NULL);
    write_main(sizes_main);
    build_and_run("main.c");
}
END_TEST

/* ---- sizes that are expressions ----------------------------------------------------------------------------------------- */

/* Two inputs, of which one's size follows from the other's; quotients, remainders, maxima. */
static const char pooled[] = HEAD("pool")
    "symbol n in [1, 40]\n"
    "symbol m in [3, 9]\n"
    "sizes arena=384 weights=0 live=384 hash=0x0000000000000000\n"
    "slot [4*Max(n, 2*m)]\n"
    "slot [4*n, 8] above 0\n"
    "buffer x : input 0 f32[n, 2]\n"
    "buffer z : input 1 f32[2*n]\n"
    "buffer w : input 2 f32[m]\n"
    "buffer big : arena f32[Max(n, 2*m)] slot=0\n"
    "buffer half : arena f32[n] slot=1\n"
    "buffer y : output 0 f32[(n + 1)//2]\n"
    "buffer q : output 1 i64[m]\n"
    "input x \"x\" = x f32[n, 2]\n"
    "input z \"z\" = z f32[2*n]\n"
    "input w \"w\" = w f32[m]\n"
    "output y \"y\" = y f32[(n + 1)//2]\n"
    "output q \"q\" = q i64[m]\n"
    "step fill {\n"
    "    for v0 in Max(n, 2*m) vector {\n"
    "        big[v0] = cast.f32(index.i64(-3*v0 + (n%4)))\n"
    "    }\n"
    "}\n"
    "step halve {\n"
    "    for v0 in n parallel {\n"
    "        half[v0] = cast.f32(index.i64(v0 + 7))\n"
    "        if -1*v0 + (n - 2) >= 0 {\n"
    "            half[v0] = add.f32(x[2*v0 + 3], mul.f32(z[2*v0], big[0]))\n"
    "        }\n"
    "    }\n"
    "    for v1 in (n + 1)//2 {\n"
    "        y[v1] = add.f32(half[0], cast.f32(index.i64(v1)))\n"
    "    }\n"
    "    for v2 in m {\n"
    "        q[v2] = cast.i64(w[-1*v2 + (m - 1)])\n"
    "    }\n"
    "}\n";

START_TEST(sizes_that_are_expressions)
{
    static const int64_t n[] = {1, 7, 40};
    for (int i = 0; i < 3; i++) {
        fx_program *p = parse(pooled);
        fx_tensor in[3] = {input(p, 0, 0, (int64_t[]){n[i], 2}), input(p, 1, 0, (int64_t[]){2 * n[i]}), input(p, 2, 0, (int64_t[]){3 + 2 * i})};
        fx_golden g = golden_of(p, 3, in);
        emit(p, &g);
        build_and_run("net_check.c");
    }
    contains("net.h", "#define NET_ARENA_SIZE 384 /* with the largest sizes; net_arena_size() says what others need */\n");
    contains("net.h", "#define NET_OUT0_NUMEL(dims) (((dims)->n + 1) / 2)\n");
    contains("net.c", "if (size < ");
    contains("net.c", "    const ptrdiff_t n_2 = (n + 1) / 2;\n"); /* a name for what is no symbol, in each function that needs it */
    contains("net.c", "for (ptrdiff_t i = 0; i < n_2; i++) {");
    write_main("#include <stdio.h>\n#include <string.h>\n#include \"net.h\"\n"
               "int main(void)\n{\n    net_dims d;\n    int64_t x[2] = {4, 2}, z[1] = {8}, w[1] = {5};\n    const int64_t *shapes[3] = {x, z, w};\n"
               "    if (net_dims_of(&d, shapes) != NET_OK || d.n != 4 || d.m != 5)\n        return 1;\n    x[1] = 3;\n"
               "    if (net_dims_of(&d, shapes) != NET_ERR_SHAPE)\n        return 2;\n    x[1] = 2;\n    z[0] = 7;\n"
               "    return net_dims_of(&d, shapes) != NET_ERR_SHAPE;\n}\n");
    build_and_run("main.c");
}
END_TEST

/* Symbols that no size of an input is alone: n behind 3*n + 1, m behind 12 - 2*m, k (without an end) behind k - 5, which two inputs tell. */
static const char solved[] = HEAD("solved")
    "symbol n in [2, 9]\n"
    "symbol m in [1, 5]\n"
    "symbol k in [5, inf]\n"
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[3*n + 1, 2]\n"
    "buffer z : input 1 f32[-2*m + 12]\n"
    "buffer w : input 2 f32[k - 5]\n"
    "buffer v : input 3 f32[k - 5, n + 1]\n"
    "buffer y : output 0 f32[n]\n"
    "buffer q : output 1 f32[m]\n"
    "input x \"x\" = x f32[3*n + 1, 2]\n"
    "input z \"z\" = z f32[-2*m + 12]\n"
    "input w \"w\" = w f32[k - 5]\n"
    "input v \"v\" = v f32[k - 5, n + 1]\n"
    "output y \"y\" = y f32[n]\n"
    "output q \"q\" = q f32[m]\n"
    "step s {\n"
    "    for v0 in n {\n"
    "        y[v0] = x[6*v0 + 1]\n"
    "    }\n"
    "    for v1 in m {\n"
    "        q[v1] = cast.f32(index.i64(v1 + (k)))\n"
    "    }\n"
    "}\n";

START_TEST(sizes_that_tell_symbols)
{
    for (int64_t n = 2; n <= 9; n += 7) {
        fx_program *p = parse(solved);
        fx_tensor in[4] = {input(p, 0, 0, (int64_t[]){3 * n + 1, 2}), input(p, 1, 0, (int64_t[]){4}), input(p, 2, 0, (int64_t[]){6}),
                           input(p, 3, 0, (int64_t[]){6, n + 1})};
        int64_t values[3];
        ck_assert_int_eq(fx_program_values(p, 4, in, values), FX_OK);
        ck_assert(values[0] == n && values[1] == 4 && values[2] == 11);
        fx_golden g = golden_of(p, 4, in);
        emit(p, &g);
        build_and_run("net_check.c");
        /* no n, one out of its range, two sizes that tell different k */
        static const struct { int input, dim; int64_t size; const char *says; } wrong[] = {
            {0, 0, 9, "input 0 'x': expected float32[3*n + 1 with n in 2..9, 2], got float32[9, 2]"},
            {0, 0, 31, "input 0 'x': expected float32[3*n + 1 with n in 2..9, 2], got float32[31, 2]"},
            {1, 0, 0, "input 1 'z': expected float32[-2*m + 12 with m in 1..5], got float32[0]"},
            {3, 0, 5, "input 3 'v': expected float32[k - 5 with k in 5.., n + 1 with n in 2..9], got float32[5, %d]: dim 0 must be 6, as sizes before it tell"},
        };
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            fx_tensor bad[4] = {in[0], in[1], in[2], in[3]};
            bad[wrong[i].input].sizes[wrong[i].dim] = wrong[i].size;
            fx_diag_clear(ctx);
            ck_assert_int_eq(fx_program_values(p, 4, bad, values), FX_ERR_ARGUMENT);
            char says[200];
            snprintf(says, sizeof says, wrong[i].says, (int)n + 1);
            ck_assert_str_eq(fx_diag_get(ctx, 0)->message, says);
        }
    }
    contains("net.h", "    int64_t n; /* 2 to 9: size 0 of x is n * 3 + 1 */\n");
    write_main("#include \"net.h\"\n"
               "int main(void)\n{\n    net_dims d;\n    int64_t x[2] = {22, 2}, z[1] = {6}, w[1] = {3}, v[2] = {3, 8};\n"
               "    const int64_t *shapes[4] = {x, z, w, v};\n"
               "    static const int64_t far[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, -1};\n"
               "    if (net_dims_of(&d, shapes) != NET_OK || d.n != 7 || d.m != 3 || d.k != 8)\n        return 1;\n"
               "    x[0] = 23;\n    if (net_dims_of(&d, shapes) != NET_ERR_SHAPE)\n        return 2;\n"
               "    x[0] = 31;\n    if (net_dims_of(&d, shapes) != NET_ERR_N)\n        return 3;\n"
               "    x[0] = 4;\n    if (net_dims_of(&d, shapes) != NET_ERR_N)\n        return 4;\n    x[0] = 22;\n"
               "    z[0] = 5;\n    if (net_dims_of(&d, shapes) != NET_ERR_SHAPE)\n        return 5;\n"
               "    z[0] = 0;\n    if (net_dims_of(&d, shapes) != NET_ERR_M)\n        return 6;\n    z[0] = 6;\n"
               "    v[0] = 4;\n    if (net_dims_of(&d, shapes) != NET_ERR_SHAPE)\n        return 7;\n    v[0] = 3;\n"
               "    w[0] = 0;\n    v[0] = 0;\n    if (net_dims_of(&d, shapes) != NET_OK || d.k != 5)\n        return 8;\n"
               "    for (int i = 0; i < 5; i++) {\n        x[0] = z[0] = w[0] = v[0] = far[i];\n"
               "        if (net_dims_of(&d, shapes) == NET_OK)\n            return 10;\n"
               "        x[0] = 22;\n        z[0] = 6;\n        if (net_dims_of(&d, shapes) == NET_OK)\n            return 11;\n    }\n"
               "    return 0;\n}\n");
    build_and_run("main.c");
}
END_TEST

/* ---- every dtype --------------------------------------------------------------------------------------------------------- */

/* Weights, inputs, arena, local arrays and outputs of one dtype; a row by index; converted to every other. */
static const char typed[] = HEAD("typed")
    "sizes arena=0 weights=128 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 T[24]\n"
    "buffer at : input 1 I[4]\n"
    "buffer w : weight T[6] values={W} offset=64\n"
    "buffer mid : arena T[12] offset=0\n"
    "buffer acc : local T[6]\n"
    "buffer y : output 0 T[24]\n"
    "buffer f : output 1 f32[24]\n"
    "buffer d : output 2 f64[24]\n"
    "buffer h : output 3 f16[24]\n"
    "buffer b : output 4 bf16[24]\n"
    "buffer c : output 5 i8[24]\n"
    "buffer u : output 6 u8[24]\n"
    "buffer s : output 7 i16[24]\n"
    "buffer i : output 8 i32[24]\n"
    "buffer l : output 9 i64[24]\n"
    "buffer o : output 10 bool[24]\n"
    "input x \"x\" = x T[24]\ninput at \"at\" = at I[4]\n"
    "output y \"y\" = y T[24]\noutput f \"f\" = f f32[24]\noutput d \"d\" = d f64[24]\noutput h \"h\" = h f16[24]\noutput b \"b\" = b bf16[24]\n"
    "output c \"c\" = c i8[24]\noutput u \"u\" = u u8[24]\noutput s \"s\" = s i16[24]\noutput i \"i\" = i i32[24]\noutput l \"l\" = l i64[24]\n"
    "output o \"o\" = o bool[24]\n"
    "step rows {\n"
    "    for v0 in 4 parallel {\n"
    "        array acc\n"
    "        for v1 in 6 unrolled {\n"
    "            acc[v1] = w[v1]\n"
    "        }\n"
    "        local t0 = at[v0]\n"
    "        check t0 in 4 \"row of x\" {\n"
    "            for v2 in 6 {\n"
    "                acc[v2] = add.T(acc[v2], x[6*t0 + v2])\n"
    "            }\n"
    "        }\n"
    "        local t1 = acc[0]\n"
    "        for v3 in 6 {\n"
    "            t1 = max.T(t1:T, acc[v3])\n"
    "        }\n"
    "        for v4 in 3 {\n"
    "            mid[3*v0 + v4] = t1:T\n"
    "        }\n"
    "    }\n"
    "    for v5 in 24 vector {\n"
    "        y[v5] = x[v5]\n"
    "    }\n"
    "}\n"
    "step convert {\n"
    "    for v0 in 12 vector {\n"
    "        y[v0] = sub.T(mid[v0], x[v0])\n"
    "    }\n"
    "    for v1 in 24 vector {\n"
    "        f[v1] = cast.f32(x[v1])\n"
    "        d[v1] = cast.f64(x[v1])\n"
    "        h[v1] = cast.f16(x[v1])\n"
    "        b[v1] = cast.bf16(x[v1])\n"
    "        c[v1] = cast.i8(x[v1])\n"
    "        u[v1] = cast.u8(x[v1])\n"
    "        s[v1] = cast.i16(x[v1])\n"
    "        i[v1] = cast.i32(x[v1])\n"
    "        l[v1] = cast.i64(x[v1])\n"
    "        o[v1] = cast.bool(x[v1])\n"
    "    }\n"
    "}\n";

static const struct {
    const char *dtype, *index, *weights;
} dtypes[] = {
    {"f32", "i64", "1.5, -2.25, 0.0, 100.0, 7.0, -1e30"},  {"f64", "i32", "1.5, -2.25, 0.0, 100.0, 7.0, -1e300"},
    {"f16", "i16", "1.5, -2.25, 0.0, 60000.0, 7.0, -3.0"}, {"bf16", "u8", "1.5, -2.25, 0.0, 100.0, 7.0, -3.0"},
    {"i8", "i64", "127, -128, 0, 1, -1, 100"},             {"i16", "i8", "32767, -32768, 0, 1, -1, 100"},
    {"i32", "i64", "2147483647, -2147483648, 0, 1, -1, 100"}, {"i64", "i32", "9223372036854775807, -9223372036854775808, 0, 1, -1, 100"},
    {"u8", "i64", "255, 128, 0, 1, 2, 100"},               {"bool", "i64", "1, 0, 0, 1, 1, 0"},
};

/* "T" as a word of its own stands for the dtype, "I" for the index's, "W" for the weights. */
static const char *typed_text(int which)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (const char *s = typed; *s; s++) {
        bool word = s > typed && strchr(" .:", s[-1]) && strchr("[(,\n", s[1]);
        if (*s == 'T' && word)
            fx_puts(&t, dtypes[which].dtype);
        else if (*s == 'I' && word)
            fx_puts(&t, dtypes[which].index);
        else if (*s == 'W' && s[-1] == '{')
            fx_puts(&t, dtypes[which].weights);
        else
            fx_putn(&t, s, 1);
    }
    return t.data;
}

START_TEST(every_dtype)
{
    fx_program *p = parse(typed_text(_i));
    fx_tensor in[2] = {input(p, 0, p->inputs[0].dtype == FX_BOOL ? 2 : 0, (int64_t[]){24}), input(p, 1, 4, (int64_t[]){4})};
    if (fx_dtype_is_float(in[0].dtype)) {
        static const double special[] = {1.54, -0.29, -2.18, 0.57, -1.08, -0.0, 300.7, -129.5, 3e9, 65519, 65520, 1e-7, 6e-8};
        for (int k = 0; k < 13; k++)
            fx_tensor_set(&in[0], k, special[k]);
        fx_tensor_set(&in[0], 22, (double)INFINITY);
        fx_tensor_set(&in[0], 23, (double)NAN);
    }
    fx_golden g = golden_of(p, 2, in);
    g.rtol = 0;
    static const int64_t eager[] = {1, 0, 254, 0, 255}; /* on x86 */
    for (int k = 0; k < 5 && in[0].dtype == FX_F32; k++)
        ck_assert_int_eq(fx_tensor_get_int(&g.outputs[6], k), eager[k]);
    emit(p, &g);
    build_and_run("net_check.c");
}
END_TEST

/* ---- what is for GPUs ------------------------------------------------------------------------------------------------------ */

static const char gpu[] = HEAD("gpu")
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[64]\n"
    "buffer y : output 0 f32[64]\n"
    "input x \"x\" = x f32[64]\n"
    "output y \"y\" = y f32[64]\n"
    "step s {\n"
    "    for v0 in 4 block x {\n"
    "        for v1 in 16 thread x {\n"
    "            y[16*v0 + v1] = x[16*v0 + v1]\n"
    "        }\n"
    "    }\n"
    "}\n";

START_TEST(gpu_loops_are_refused)
{
    fx_program *p = parse(gpu);
    fx_emit_options o = {.prefix = "net"};
    ck_assert_int_eq(fx_emit_c(p, &o, &n_files, &files), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "step 's': a loop over blocks or threads, which is for GPUs"));
    p->steps[0].body = fx_stmt_new(p, FX_ST_BARRIER);
    ck_assert_int_eq(fx_emit_c(p, &o, &n_files, &files), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 1)->message, "step 's': a barrier, which is for GPUs"));
    p->steps[0].body = fx_stmt_new(p, FX_ST_REDUCE);
    ck_assert_int_eq(fx_emit_c(p, &o, &n_files, &files), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 2)->message, "step 's': a reduction over threads, which is for GPUs"));
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, sizes_come_from_the_golden_inputs);
    tcase_add_test(t, wrong_sizes_and_indices_are_statuses);
    tcase_add_test(t, sizes_that_are_expressions);
    tcase_add_test(t, sizes_that_tell_symbols);
    tcase_add_loop_test(t, every_dtype, 0, sizeof dtypes / sizeof dtypes[0]);
    tcase_add_test(t, gpu_loops_are_refused);
}

int main(void)
{
    return unit_run("codegen_programs", 300, set_up_folder, tear_down_folder, add_tests);
}
