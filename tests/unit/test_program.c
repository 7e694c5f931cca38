/* tests/unit/test_program.c: loop programs: text form, accesses, footprints, and a verifier that names each kind of damage.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/program_text.h"

#include "fxcc/runtime.h"
#include "runtime/cuda/conv_share.h"

#include "runtime/cuda/conv_wino.h"

#include "runtime/cuda/wino_weights.h"

/* A program that uses everything once: a padded copy, a convolution with a residual, an activation in place, a reduction. */
static const char *const good =
    "program \"net\" file=\"net.pt2\"\n"
    "target name=\"generic\" cflags=\"\" lanes=1 fma=false mr=4 nr=4 l1=32768 l2=262144 pointer_bits=64 isa=\"generic\"\n"
    "sizes arena=1280 weights=192 live=1280 hash=0x0123456789abcdef\n"
    "buffer x : input 0 f32[1, 4, 4, 2] note=\"NHWC\"\n"
    "buffer y : output 0 f32[1, 2]\n"
    "buffer pad : arena f32[1, 6, 6, 2] note=\"NHWC\"\n"
    "buffer conv : arena f32[1, 4, 4, 2] offset=320 note=\"NHWC\"\n"
    "buffer relu : arena f32[1, 4, 4, 2] offset=320 overlay=conv note=\"NHWC\"\n"
    "buffer scratch : arena f32[16] offset=640 workspace\n"
    "buffer far : arena f32[64] offset=1024\n"
    "buffer conv_weight : weight f32[1, 3, 1, 2] numel=24 note=\"panels of 4\" hash=0x00000000000000ff\n"
    "buffer conv_bias : weight f32[4] offset=128 values={0.5, -1.0, 0.0, 0.0}\n"
    "input x \"x\" = x f32[1, 2, 4, 4]\n"
    "output y \"mean\" = y f32[1, 2]\n"
    "\n"
    "step pad \"pad: zeros around\" shapes=\"1x4x4x2 -> 1x6x6x2\" module=\"stem\" frame=\"net.py:7\" {\n"
    "    for v0 in 6 parallel \"h\" {\n"
    "        for v1 in 6 \"w\" {\n"
    "            for v2 in 2 vector {\n"
    "                local t0 = 0.0:f32\n"
    "                if v0 - 1 >= 0 && -v0 + 4 >= 0 && v1 - 1 >= 0 && -v1 + 4 >= 0 {\n"
    "                    t0 = x[8*v0 + 2*v1 + v2 - 10]\n"
    "                }\n"
    "                pad[12*v0 + 2*v1 + v2] = t0:f32\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n"
    "\n"
    "step conv flops=1152 {\n"
    "    comment \"one call\"\n"
    "    call conv2d conv(x=pad, w=conv_weight, b=conv_bias, r=null, y=conv, ws=scratch) {n=1, ih=6, iw=6, ic=2, oh=4, ow=4, oc=2, "
    "groups=1, kh=3, kw=1, sh=1, sw=1, ph=0, pw=0, dh=1, dw=1, xs_n=72, xs_h=12, xs_w=2, ys_n=32, ys_h=8, ys_w=2, rs_n=0, rs_h=0, "
    "rs_w=0, act=0, act_a=0.0, act_b=0.0} reads=288 writes=128\n"
    "}\n"
    "\n"
    "step relu {\n"
    "    for v0 in 32 {\n"
    "        relu[v0] = select.f32(gt.bool(conv[v0], 0.0:f32), conv[v0], cast.f32(index.i64(0)))\n"
    "    }\n"
    "    for v1 in 64 {\n"
    "        far[v1] = inf:f32\n"
    "    }\n"
    "}\n"
    "\n"
    "step mean {\n"
    "    for v0 in 2 {\n"
    "        local t0 = 0.0:f32\n"
    "        for v1 in 16 {\n"
    "            t0 = add.f32(t0:f32, relu[v0 + 2*v1])\n"
    "        }\n"
    "        y[v0] = div.f32(min.f32(t0:f32, far[v0]), 16.0:f32)\n"
    "    }\n"
    "}\n";

START_TEST(the_good_program_verifies_and_prints_back)
{
    fx_text messages, t;
    fx_program *p;
    ck_assert_msg(verify_text(good, true, &messages, &p) == FX_OK, "%s", messages.data);
    ck_assert_int_eq(fx_program_parse(ctx, "test", good, strlen(good), &p), FX_OK);
    fx_text_init(&t, fx_context_arena(ctx));
    fx_program_print(&t, p);
    ck_assert_str_eq(t.data, good);
    ck_assert_uint_eq(p->arena_size, 1280);
    ck_assert_int_eq(p->model_hash[0], 0x01);
    ck_assert_int_eq(p->model_hash[7], 0xef);
    ck_assert_int_eq(p->bufs[4].overlay, 3);
    ck_assert_int_eq(p->n_steps, 4);
    ck_assert_str_eq(p->steps[0].loc.frame, "net.py:7");
}
END_TEST

/* One kind of damage each: what is replaced, by what, and what the verifier says. */
static const struct {
    const char *from, *to, *says;
} damages[] = {
    {"relu[v0] = select", "y[v0] = select", "a store touches elements [0, 31] of 'y', which has 2"},
    {"t0 = x[8*v0 + 2*v1 + v2 - 10]", "t0 = x[8*v0 + 2*v1 + v2 - 11]", "a load touches elements [-1, 30] of 'x', which has 32"},
    {"if v0 - 1 >= 0 && ", "if ", "a load touches elements [-8, 31] of 'x'"},
    {"oh=4, ow=4", "oh=5, ow=4", "call conv writes elements [0, 39] of 'conv', which has 32"},
    {"x=pad, w", "x=pad+1, w", "call conv reads elements [1, 72] of 'pad', which has 72"},
    {"kh=3, kw=1", "kh=3, kw=2", "call conv reads elements [0, 47] of 'conv_weight', which has 24"},
    {"local t0 = 0.0:f32\n                if", "if", "t0 is set where it is not defined"},
    {"pad[12*v0 + 2*v1 + v2] = t0:f32", "pad[12*v0 + 2*v1 + v2] = t3:f32", "t3 is used where it is not defined"},
    {"pad[12*v0 + 2*v1 + v2] = t0:f32", "pad[12*v0 + 2*v1 + v2] = t0:i64", "t0 is used as i64, but defined as f32"},
    {"pad[12*v0 + 2*v1 + v2] = t0:f32", "pad[12*v0 + 2*v1 + v2] = 1:i32", "a store of i32 is to 'pad' of f32"},
    {"pad[12*v0 + 2*v1 + v2] = t0:f32", "pad[12*v0 + 2*v1 + v9] = t0:f32", "an index uses v9, which no loop around it defines"},
    {"pad[12*v0 + 2*v1 + v2] = t0:f32", "pad[2*v1 + v2] = t0:f32",
     "iterations of the parallel loop v0 store to the same elements of 'pad'"},
    {"pad[12*v0 + 2*v1 + v2] = t0:f32", "pad[10*v0 + 2*v1 + v2] = t0:f32",
     "iterations of the parallel loop v0 store to the same elements of 'pad'"},
    {"= t0:f32\n", "= pad[12*v0 + 2*v1 - v2 + 1]\n", "the vector loop v2 loads elements of 'pad' that other iterations store"},
    {"x=pad, w=", "x=conv, w=", "call conv writes elements of 'conv' that it still reads as x"},
    {"b=conv_bias, r=null, y=conv", "b=conv_bias, r=conv+2, y=conv", "expected rs_n > 0, got 0"},
    {"for v1 in 6 \"w\"", "for v0 in 6 \"w\"", "v0 is the variable of two loops"},
    {"for v1 in 6 \"w\"", "for v1 in -6 \"w\"", "loop v1: expected an extent >= 0, got -6"},
    {"x=pad, w=", "x=null, w=", "call conv: argument x is missing"},
    {"ws=scratch", "ws=far", "call conv: expected workspace for argument ws, got 'far'"},
    {"y=conv, ws", "y=x, ws", "call conv writes to 'x', which is only read"},
    {"sh=1, sw=1", "sh=0, sw=1", "call conv: expected sh > 0, got 0"},
    {"ys_w=2, ", "ys_w=1, ", "call conv: output rows overlap: expected ys_w >= 2, got 1"},
    {"act=0, ", "act=99, ", "call conv: activation 99 does not exist"},
    {"call conv2d conv", "call conv2d_wino conv", "call conv: kernel conv2d_wino is one of GPUs, expected one that target 'generic' has"},
    {"dw=1, xs", "dw=1.5, xs", "call conv: expected an int32 for dw, got 1.5"},
    {"add.f32(t0:f32, relu[v0 + 2*v1])", "add.f32(t0:f32, 1:i64)", "add: operands of f32 and i64"},
    {"add.f32(t0:f32, relu[v0 + 2*v1])", "and.f32(t0:f32, relu[v0 + 2*v1])", "and does not exist for f32"},
    {"gt.bool(conv[v0], 0.0:f32)", "gt.f32(conv[v0], 0.0:f32)", "gt of f32: expected a result of bool, got f32"},
    {"relu[v0 + 2*v1]", "conv[v0 + 2*v1]", "'conv' and 'relu' overlap in the arena while both live"},
    {"for v1 in 64 {", "for v1 in 1 {", "elements [0, 1] of 'far' are read, only [0, 0] were written before"},
    {"y[v0] = div", "far[v0] = div", "output 'y': expected all 2 elements to be written, got [0, -1]"},
    {"for v1 in 64 {\n        far[v1] = inf:f32\n    }\n", "", "'far' is read before anything is written to it"},
    {"offset=640 workspace", "offset=0 workspace", "'pad' and 'scratch' overlap in the arena while both live"},
    {"offset=1024", "offset=1032", "'far': expected an offset that is a multiple of 64, got 1032"},
    {"arena=1280", "arena=1344", "arena_size: expected 1280, where the last buffer ends, got 1344"},
    {"arena=1280", "arena=1216", "'far' ends at 1280, past the arena of 1216 bytes"},
    {"weights=192", "weights=128", "'conv_bias' ends at 144, past the weights of 128 bytes"},
    {"offset=128 values", "offset=64 values", "weights: 'conv_weight' and 'conv_bias' overlap"},
    {"hash=0x00000000000000ff", "", "weight 'conv_weight' has no data"},
    {"= y f32[1, 2]", "= y f32[1, 3]", "expected 3 elements of f32 as the model has, its buffer 'y' has 2 of f32"},
    {"relu[v0] = select.f32(gt.bool(conv[v0], 0.0:f32), conv[v0]", "relu[v0] = select.f32(gt.bool(conv[v0], 0.0:f32), conv[-v0 + 31]",
     "'conv' and 'relu' overlap in the arena while both live"},
    {"local t0 = 0.0:f32\n                if", "local t0 = 0.0:f32\n                local t0 = 1.0:f32\n                if", "t0 is defined twice"},
    {"step relu {", "step conv {", "step 'conv' is there twice"},
};

START_TEST(damage_is_named)
{
    fx_program *p;
    fx_text messages;
    char *text = replaced(good, damages[_i].from, damages[_i].to);
    fx_status st = verify_text(text, true, &messages, &p);
    ck_assert_msg(st == FX_INTERNAL, "%s: status %s: %s", damages[_i].says, fx_status_string(st), messages.data);
    ck_assert_msg(strstr(messages.data, damages[_i].says) != NULL, "expected '%s', got:\n%s", damages[_i].says, messages.data);
    ck_assert_msg(strstr(messages.data, "after test: ") != NULL, "%s", messages.data);
}
END_TEST

/* The same of the rows that GPUs alone have. */
START_TEST(damage_of_gpu_convolutions_is_named)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"isa=\"cuda\" sm=75", "isa=\"generic\"", "call before: kernel conv2d_pre is one of GPUs, expected one that target 'cuda' has"},
        {"scale=scale", "scale=scale+1", "call before reads elements [1, 2] of 'scale', which has 2"},
        {"shift=shift", "shift=far", "call before reads elements [0, 1] of 'far', which has 1"},
        {"scale=scale", "scale=half", "call before: expected f32 for argument scale, 'half' is f16"},
        {"gain=gain", "gain=null", "call after: argument gain is missing"},
        {"gain=gain", "gain=far", "call after reads elements [0, 1] of 'far', which has 1"},
        {"b=null, r=null, scale", "b=null, r=null, scales", "expected 'scale', got 'scales'"},
        {"y=a, ws=null) {n=1", "y=a, ws=null) {n=2", "call before reads elements [0, 63] of 'x', which has 32"},
        {"gain=gain, y=y", "gain=gain, y=a", "call after writes elements of 'a' that it still reads as x"},
    };
    fx_text messages;
    fx_program *p;
    ck_assert_msg(verify_text(GPU_CONVOLUTIONS, true, &messages, &p) == FX_OK, "%s", messages.data);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(verify_text(replaced(GPU_CONVOLUTIONS, cases[i].from, cases[i].to), true, &messages, &p) != FX_OK);
        ck_assert_msg(strstr(messages.data, cases[i].says) != NULL, "expected '%s', got:\n%s", cases[i].says, messages.data);
    }
}
END_TEST

/* Counters are a call's own, 32 bits each, and nothing else. */
START_TEST(damage_of_counters_is_named)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"counts=counts", "counts=room", "call one: expected counters for argument counts, got 'room'"},
        {"ws=room", "ws=counts", "call one: expected a buffer that is no counters for argument ws, got 'counts'"},
        {"counter i32[1]", "counter f32[1]", "counters 'counts': expected i32, got f32"},
        {"counters=64", "counters=0", "'counts'"},
        {"step s {\n", "step t {\n" SPLIT_CALL("null") "}\n\nstep s {\n", "counters 'counts' are used by steps t and s"},
        {"step s {\n", "step t {\n    for v0 in 1 {\n        counts[v0] = 1:i32\n    }\n}\n\nstep s {\n", "a store is to the counters 'counts', which only calls change"},
    };
    fx_text messages, printed;
    fx_program *p;
    ck_assert_msg(verify_text(SPLIT_CONVOLUTION, true, &messages, &p) == FX_OK, "%s", messages.data);
    fx_text_init(&printed, fx_context_arena(ctx));
    fx_program_print(&printed, p);
    ck_assert_str_eq(printed.data, SPLIT_CONVOLUTION);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(verify_text(replaced(SPLIT_CONVOLUTION, cases[i].from, cases[i].to), true, &messages, &p) != FX_OK);
        ck_assert_msg(strstr(messages.data, cases[i].says) != NULL, "expected '%s', got:\n%s", cases[i].says, messages.data);
    }
}
END_TEST

/* What the parser refuses, with line and column. */
static const struct {
    const char *from, *to, *says;
} mistakes[] = {
    {"program", "programme", "line 1, column 1: expected 'program', got 'programme'"},
    {"buffer y : output", "buffer y : outlet", "line 5, column 12: expected input, output, weight, arena, state, counter or local, got 'outlet'"},
    {"f32[1, 2]\n", "f33[1, 2]\n", "line 5, column 21: expected an element type"},
    {"buffer conv :", "buffer pad :", "the buffer 'pad' is there twice"},
    {"overlay=conv", "overlay=none", "there is no buffer 'none'"},
    {"for v0 in 6", "for x in 6", "line 17, column 9: expected v and a number, got 'x'"},
    {"call conv2d", "call conv3d", "there is no kernel 'conv3d'"},
    {"n=1, ih=6", "ih=6, n=1", "expected 'n', got 'ih'"},
    {"select.f32", "choose.f32", "expected an operation of scalars, got 'choose'"},
    {"-v0 + 4 >= 0", "-v0 + 4 >= 1", "expected 0, got '1'"},
    {"-v0 + 4 >= 0", "-v0 + 99999999999999999999 >= 0", "expected an integer of 64 bits, got '99999999999999999999'"},
    {"0.0:f32\n", "0.5:i64\n", "expected an integer"},
    {"comment \"one call\"", "comment \"one call", "expected a string that ends on its line"},
    {"comment", "commend", "expected for, if, check, call, comment, array, barrier, reduce, local, t<number> or a buffer, got 'commend'"},
};

START_TEST(mistakes_have_line_and_column)
{
    fx_program *p;
    fx_text messages;
    fx_status st = verify_text(replaced(good, mistakes[_i].from, mistakes[_i].to), true, &messages, &p);
    ck_assert_int_eq(st, FX_ERR_FORMAT);
    ck_assert_msg(strstr(messages.data, mistakes[_i].says) != NULL, "expected '%s', got:\n%s", mistakes[_i].says, messages.data);
    ck_assert_uint_eq(fx_diag_count(ctx), 1);
}
END_TEST

/* Any byte changed, cut or doubled: a program or a message, never a crash; what still parses can be verified and printed. */
START_TEST(no_bytes_harm_the_parser)
{
    size_t n = strlen(good);
    uint64_t state = 7;
    for (size_t i = 0; i < n; i++) {
        fx_context *c = fx_context_create();
        char *text = malloc(n + 1);
        memcpy(text, good, n + 1);
        state = state * 6364136223846793005u + 1442695040888963407u;
        text[i] = i % 3 == 0 ? (char)(text[i] ^ (1 << (state >> 61))) : (char)(state >> 40);
        size_t size = i % 7 == 0 ? i : n;
        fx_program *p = NULL;
        fx_status st = fx_program_parse(c, "fuzz", text, size, &p);
        if (st == FX_OK) {
            fx_text t;
            fx_program_verify(p, true, "fuzz");
            fx_text_init(&t, fx_context_arena(c));
            fx_program_print(&t, p);
            fx_program *again = NULL;
            ck_assert_msg(fx_program_parse(c, "again", t.data, t.size, &again) == FX_OK, "%s", t.data);
            fx_text u;
            fx_text_init(&u, fx_context_arena(c));
            fx_program_print(&u, again);
            ck_assert_str_eq(t.data, u.data);
        } else {
            ck_assert_uint_ge(fx_diag_count(c), 1);
        }
        free(text);
        fx_context_free(c);
    }
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    fx_program *p;
    fx_text t, messages;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "program \"deep\"\nbuffer a : arena f32[1]\nstep s {\n a[0] = ");
    for (int i = 0; i < 100000; i++)
        fx_puts(&t, "neg.f32(");
    ck_assert_int_eq(verify_text(t.data, false, &messages, &p), FX_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(messages.data, "more than 100 levels of nesting"));
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "program \"deep\"\nbuffer a : arena f32[1]\nstep s {\n");
    for (int i = 0; i < 100000; i++)
        fx_puts(&t, "for v1 in 1 {");
    ck_assert_int_eq(verify_text(t.data, false, &messages, &p), FX_ERR_FORMAT);
}
END_TEST

START_TEST(affine_expressions_merge_sort_and_cancel)
{
    fx_affine a = fx_affine_const(3);
    fx_dim seq = fx_dim_sym(fx_sym_symbol(ctx, "seq"));
    fx_affine_add(ctx, &a, 5, fx_dim_of(2));
    fx_affine_add(ctx, &a, 1, fx_dim_of(7));
    fx_affine_add(ctx, &a, 5, fx_dim_of(-2));
    ck_assert_int_eq(a.n, 1);
    ck_assert_int_eq(a.var[0], 1);
    fx_affine_add(ctx, &a, 0, fx_dim_of(4));
    fx_affine s = fx_affine_sum(ctx, &a, &a);
    ck_assert(fx_dim_is(s.base, 6));
    ck_assert_int_eq(s.var[0], 0);
    ck_assert(fx_dim_is(s.coef[0], 8));
    ck_assert(fx_dim_is(s.coef[1], 14));
    ck_assert(fx_affine_is_static(&s));
    fx_affine_add(ctx, &s, FX_VAR_LOCAL(2), seq); /* before the loops' variables */
    ck_assert_int_eq(s.var[0], -3);
    ck_assert_int_eq(FX_VAR_LOCAL(s.var[0]), 2);
    ck_assert(!fx_affine_is_static(&s));
    fx_affine_add(ctx, &s, FX_VAR_LOCAL(2), fx_dim_scale(ctx, seq, -1));
    ck_assert_int_eq(s.n, 2);
    fx_affine big = fx_affine_const(INT64_MAX);
    big = fx_affine_sum(ctx, &big, &big);
    ck_assert(big.base.sym && big.base.sym->kind == FX_SYM_OPAQUE); /* nothing is proved of it: the verifier refuses it */
}
END_TEST

START_TEST(names_become_unique_identifiers)
{
    fx_target target;
    ck_assert_int_eq(fx_target_get(ctx, "generic", &target), FX_OK);
    fx_program *p = fx_program_new(ctx, "m", &target);
    fx_dim dims[2] = {fx_dim_of(3), fx_dim_of(5)};
    static const char *const texts[] = {"layer1.0.conv1", "layer1_0_conv1", "a/b*/", "int", "1x", "", "\xc3\xa9", "while"};
    static const char *const names[] = {"layer1_0_conv1", "layer1_0_conv1_1", "a_b", "int_", "n1x", "v", "v_6", "while_"};
    for (int i = 0; i < 8; i++) {
        int id = fx_program_buf(p, FX_BUF_ARENA, texts[i], FX_F32, 2, dims);
        ck_assert_int_eq(id, i);
        ck_assert_str_eq(p->bufs[id].name, names[i]);
        ck_assert(fx_dim_is(p->bufs[id].numel, 15));
    }
    fx_dim huge[3] = {fx_dim_of(INT64_C(1) << 40), fx_dim_of(INT64_C(1) << 40), fx_dim_of(1)};
    int id = fx_program_buf(p, FX_BUF_ARENA, "h", FX_F32, 3, huge);
    ck_assert(fx_dim_is(p->bufs[id].numel, -1));
}
END_TEST

START_TEST(kernel_table_is_complete)
{
    for (int i = 0; i < FX_K_COUNT; i++) {
        const fx_kernel *k = fx_kernel_get((fx_kernel_id)i);
        ck_assert_int_eq(k->id, i);
        ck_assert_ptr_eq(fx_kernel_find(k->name), k);
        ck_assert_int_ge(fx_kernel_buf(k, "x"), 0);
        ck_assert(k->buf[fx_kernel_buf(k, "y")].written);
        ck_assert(!k->buf[0].written && !k->buf[0].optional);
    }
    const fx_kernel *conv = fx_kernel_get(FX_K_conv2d);
    ck_assert_int_eq(conv->n_bufs, 7);
    ck_assert_str_eq(conv->buf[5].name, "ws");
    ck_assert(conv->buf[6].counts && conv->buf[6].optional && !conv->buf[5].counts);
    ck_assert(conv->buf[5].optional && conv->buf[5].written && conv->buf[2].optional);
    ck_assert_str_eq(conv->field[fx_kernel_field(conv, "xs_w")].name, "xs_w");
    ck_assert(conv->field[fx_kernel_field(conv, "act_b")].is_float);
    ck_assert_ptr_null(fx_kernel_get(FX_K_COUNT));
    /* Fields go to the descriptor and back. */
    fx_call_stmt c = {.kernel = FX_K_conv2d}, back = {.kernel = FX_K_conv2d};
    fxrt_conv2d_desc d;
    fx_call_set(&c, "n", 2);
    fx_call_set(&c, "xs_w", 64);
    fx_call_set(&c, "act_b", 6.5);
    fx_call_to_desc(&c, &d);
    ck_assert_int_eq(d.n, 2);
    ck_assert_int_eq(d.xs_w, 64);
    ck_assert(d.act_b == 6.5f);
    fx_call_from_desc(&back, &d);
    ck_assert(fx_call_field(&back, "act_b") == 6.5 && fx_call_field(&back, "n") == 2);
}
END_TEST

static int64_t seen_lo, seen_hi;
static int seen;

static void note(void *user, int buf, bool written, fx_dim lo, fx_dim hi, fx_symbols where, const fx_stmt *at)
{
    (void)where;
    (void)at;
    if (buf == *(int *)user && !written) {
        seen_lo = lo.value;
        seen_hi = hi.value;
        seen++;
    }
}

/* A window row o*2 + k - 1 under guards that neither o nor k meets alone. */
START_TEST(guards_bound_combinations)
{
    const char *text = "program \"p\"\nbuffer x : input 0 f32[7, 3]\nbuffer y : output 0 f32[4]\n"
                       "step s {\n"
                       "  for v0 in 4 {\n    for v1 in 3 {\n      for v2 in 3 {\n"
                       "        if 2*v0 + v1 - 1 >= 0 && -2*v0 - v1 + 7 >= 0 {\n"
                       "          y[v0] = x[6*v0 + 3*v1 + v2 - 3]\n        }\n"
                       "        if v0 - 4 >= 0 {\n          y[v0] = x[100]\n        }\n"
                       "      }\n    }\n  }\n  for v3 in 0 {\n    y[v3] = x[1000]\n  }\n}\n";
    fx_program *p;
    int x = 0;
    ck_assert_int_eq(fx_program_parse(ctx, "t", text, strlen(text), &p), FX_OK);
    seen = 0;
    fx_stmt_accesses(p, p->steps[0].body, note, &x);
    ck_assert_int_eq(seen, 1); /* neither the impossible guard nor the empty loop */
    ck_assert_int_eq(seen_lo, 0);
    ck_assert_int_eq(seen_hi, 20);
}
END_TEST

/* The good program, run with its buffers apart and in the planned arena, against the same computed here. */
START_TEST(running_gives_the_numbers)
{
    char values[400] = "values={", *at = values + strlen(values);
    float w[24], x[32];
    for (int i = 0; i < 24; i++) {
        w[i] = (float)(i % 7 - 3) / 4;
        at += sprintf(at, "%s%g", i ? ", " : "", w[i]);
    }
    strcpy(at, "}");
    fx_program *p;
    const char *text = replaced(good, "hash=0x00000000000000ff", values);
    ck_assert_msg(fx_program_parse(ctx, "t", text, strlen(text), &p) == FX_OK, "%s", text);
    fx_tensor in, *out;
    size_t n_out;
    /* The input buffer is NHWC to the program: what it is given is copied as it is. */
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 4, (int64_t[]){1, 2, 4, 4}, &in), FX_OK);
    for (int i = 0; i < 32; i++) {
        x[i] = (float)(i * 5 % 11 - 4);
        fx_tensor_set(&in, i, x[i]);
    }
    double want[2] = {0, 0};
    for (int h = 0; h < 4; h++) {
        for (int c = 0; c < 2; c++) {
            for (int v = 0; v < 4; v++) {
                double sum = c == 0 ? 0.5 : -1.0;
                for (int k = 0; k < 3; k++) {
                    for (int i = 0; i < 2; i++) { /* padded pixel (h + k, v) is input pixel (h + k - 1, v - 1) */
                        bool inside = h + k - 1 >= 0 && h + k - 1 < 4 && v - 1 >= 0 && v - 1 < 4;
                        sum += inside ? (double)x[8 * (h + k - 1) + 2 * (v - 1) + i] * w[(k * 2 + i) * 4 + c] : 0;
                    }
                }
                want[c] += sum > 0 ? sum : 0;
            }
        }
    }
    for (int planned = 0; planned < 2; planned++) {
        fx_status st = fx_program_run(p, planned, 1, &in, &n_out, &out);
        ck_assert_msg(st == FX_OK, "%s", fx_diag_count(ctx) ? fx_diag_get(ctx, 0)->message : "");
        ck_assert_uint_eq(n_out, 1);
        for (int c = 0; c < 2; c++)
            ck_assert_double_eq_tol(fx_tensor_get(&out[0], c), want[c] / 16, 1e-5);
    }
    ck_assert(want[0] != want[1]);
    /* Weights that the text does not have cannot be run. */
    ck_assert_int_eq(fx_program_parse(ctx, "t", good, strlen(good), &p), FX_OK);
    ck_assert_int_eq(fx_program_run(p, true, 1, &in, &n_out, &out), FX_ERR_UNSUPPORTED);
    ck_assert_int_eq(fx_program_run(p, true, 0, NULL, &n_out, &out), FX_ERR_ARGUMENT);
}
END_TEST

START_TEST(running_out_of_memory_is_an_error)
{
    bool done = false;
    for (long n = 1; !done; n++) {
        ck_assert_int_lt(n, 5000);
        unit_memory m = {.fail_at = n, .for_good = true};
        fx_context *c = unit_context(&m);
        if (!c)
            continue;
        fx_program *g = NULL;
        fx_status st = fx_program_parse(c, "test", good, strlen(good), &g);
        if (st == FX_OK)
            st = fx_program_verify(g, true, "test");
        ck_assert_msg(st == FX_OK || st == FX_ERR_NOMEM, "%s", fx_diag_get(c, 0)->message);
        done = st == FX_OK;
        fx_context_free(c);
    }
}
END_TEST

/* A convolution of 3 channels to 2 on a GPU, by itself. */
static char *convolution(const char *kernel, const float *w, size_t n)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_printf(&t, "program \"p\"\ntarget name=\"cuda\" cflags=\"-arch=sm_75\" lanes=1 fma=true mr=1 nr=1 l1=65536 l2=4194304 pointer_bits=64 isa=\"cuda\" sm=75 threads=256\n"
                  "buffer x : input 0 f32[1, 5, 6, 3]\nbuffer y : output 0 f32[1, 5, 6, 2]\nbuffer scratch : arena f32[16] workspace\nbuffer w : weight f32[%zu] values={", n);
    for (size_t i = 0; i < n; i++)
        fx_printf(&t, "%s%.9g", i ? ", " : "", (double)w[i]);
    fx_printf(&t, "}\ninput x \"x\" = x f32[1, 5, 6, 3]\noutput y \"y\" = y f32[1, 5, 6, 2]\nstep s {\n    call %s c(x=x, w=w, b=null, r=null, y=y, ws=scratch) {n=1, ih=5, iw=6, ic=3, oh=5, "
                  "ow=6, oc=2, groups=1, kh=3, kw=3, sh=1, sw=1, ph=1, pw=1, dh=1, dw=1, xs_n=90, xs_h=18, xs_w=3, ys_n=60, ys_h=12, ys_w=2, rs_n=0, rs_h=0, rs_w=0, act=0, "
                  "act_a=0.0, act_b=0.0}\n}\n", kernel);
    return t.data;
}

/* With Winograd's weights, the interpreter gives what it gives with plain ones; and the verifier knows what the kernel makes and takes. */
START_TEST(winograd_is_a_convolution)
{
    static const struct { const char *from, *to, *says; } wrong[] = {
        {"kw=3", "kw=1", "call c: expected kw = 3, got 1"}, {"sh=1", "sh=2", "call c: expected sh = 1, got 2"},
        {"ws=scratch", "ws=null", "call c: argument ws is missing"}, {"w=w,", "w=w+1,", "call c reads elements [1, 216] of 'w', which has 216"}};
    const fxrt_conv2d_desc d = {.ic = 3, .oc = 2};
    float w[2][3][9], last[2][9][3], transformed[216];
    fx_text messages;
    fx_program *p;
    fx_tensor in, *out[2];
    size_t n_out;
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 9; k++)
                last[o][k][i] = w[o][i][k] = (float)((o * 27 + i * 9 + k) * 5 % 13 - 6) / 4;
    ck_assert_uint_eq(fxrt_cuda_wino_weights_size(&d), 216);
    fxrt_cuda_wino_weights(&d, 0, 2, &w[0][0][0], transformed);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 4, (int64_t[]){1, 5, 6, 3}, &in), FX_OK);
    for (int i = 0; i < 90; i++)
        fx_tensor_set(&in, i, i * 7 % 17 - 8);
    char *const texts[] = {convolution("conv2d", &last[0][0][0], 54), convolution("conv2d_wino", transformed, 216)};
    for (int k = 0; k < 2; k++) {
        ck_assert_msg(verify_text(texts[k], false, &messages, &p) == FX_OK, "%s", messages.data);
        ck_assert_int_eq(fx_program_run(p, false, 1, &in, &n_out, &out[k]), FX_OK);
    }
    for (int i = 0; i < 60; i++)
        ck_assert_double_eq_tol(fx_tensor_get(&out[0][0], i), fx_tensor_get(&out[1][0], i), 1e-4);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        ck_assert_int_eq(verify_text(replaced(texts[1], wrong[k].from, wrong[k].to), false, &messages, &p), FX_INTERNAL);
        ck_assert_msg(strstr(messages.data, wrong[k].says) != NULL, "expected '%s', got:\n%s", wrong[k].says, messages.data);
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, the_good_program_verifies_and_prints_back);
    tcase_add_loop_test(t, damage_is_named, 0, (int)(sizeof damages / sizeof damages[0]));
    tcase_add_test(t, damage_of_gpu_convolutions_is_named);
    tcase_add_test(t, damage_of_counters_is_named);
    tcase_add_loop_test(t, mistakes_have_line_and_column, 0, (int)(sizeof mistakes / sizeof mistakes[0]));
    tcase_add_test(t, no_bytes_harm_the_parser);
    tcase_add_test(t, deep_nesting_is_refused);
    tcase_add_test(t, running_out_of_memory_is_an_error);
    tcase_add_test(t, affine_expressions_merge_sort_and_cancel);
    tcase_add_test(t, names_become_unique_identifiers);
    tcase_add_test(t, kernel_table_is_complete);
    tcase_add_test(t, guards_bound_combinations);
    tcase_add_test(t, running_gives_the_numbers);
    tcase_add_test(t, winograd_is_a_convolution);
}

int main(void)
{
    return unit_run("program", 120, set_up, tear_down, add_tests);
}
