/* tests/unit/test_conv_ways.c: which way of a convolution a GPU's target takes (lower/conv_ways.c), and what each costs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "fxcc/runtime.h"
#include "lower/conv_ways.h"
#include "tests/unit/unit.h"

/* A layer of dense pictures; kernels of k x k with a padding that keeps the size at stride 1. */
typedef struct layer {
    int n, size, ic, oc, k, stride, groups;
} layer;

static fxrt_conv2d_desc desc_of(layer l)
{
    int out = (l.size + 2 * (l.k / 2) - l.k) / l.stride + 1, xc = l.groups * l.ic, yc = l.groups * l.oc;
    return (fxrt_conv2d_desc){.n = l.n, .ih = l.size, .iw = l.size, .ic = l.ic, .oh = out, .ow = out, .oc = l.oc, .groups = l.groups, .kh = l.k, .kw = l.k, .sh = l.stride,
                              .sw = l.stride, .ph = l.k / 2, .pw = l.k / 2, .dh = 1, .dw = 1, .xs_n = l.size * l.size * xc, .xs_h = l.size * xc, .xs_w = xc,
                              .ys_n = out * out * yc, .ys_h = out * yc, .ys_w = yc, .act = FXRT_ACT_RELU};
}

static fx_call_stmt call_of(fx_kernel_id kernel, layer l)
{
    fx_call_stmt c = {.kernel = kernel};
    fxrt_conv2d_desc d = desc_of(l);
    fx_call_from_desc(&c, &d);
    return c;
}

static fx_lower_options options(const char *target)
{
    fx_lower_options opt = {0};
    fx_context *ctx = fx_context_create();
    ck_assert_int_eq(fx_target_get(ctx, target, &opt.target), FX_OK);
    fx_context_free(ctx);
    return opt;
}

static fx_kernel_id way(const char *target, fx_kernel_id kernel, layer l, fx_dtype type)
{
    const fx_lower_options opt = options(target);
    const fx_call_stmt c = call_of(kernel, l);
    return fx_conv_way(&opt, &c, type, true);
}

/* Of ResNets and VGG. */
START_TEST(layers_of_networks)
{
    static const struct { fx_dtype type; layer l; fx_kernel_id sm_75, sm_90; } cases[] = {
        {FX_F32, {16, 28, 128, 128, 3, 1, 1}, FX_K_conv2d_wino, FX_K_conv2d_wino},
        {FX_F32, {16, 7, 512, 512, 3, 1, 1}, FX_K_conv2d_wino, FX_K_conv2d_wino},
        {FX_F32, {16, 112, 16, 16, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},         /* few channels: the transforms are memory's */
        {FX_F32, {2, 7, 512, 512, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},          /* few pixels: the weights, four times as many */
        {FX_F32, {2, 4, 96, 96, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},            /* little work: the launches */
        {FX_F32, {1, 28, 512, 512, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},         /* a single image */
        {FX_F32, {16, 28, 128, 128, 3, 2, 1}, FX_K_conv2d, FX_K_conv2d},        /* not that form */
        {FX_F32, {16, 28, 128, 128, 5, 1, 1}, FX_K_conv2d, FX_K_conv2d},
        {FX_F32, {16, 28, 64, 64, 3, 1, 2}, FX_K_conv2d, FX_K_conv2d},
        {FX_F32, {0, 28, 128, 128, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},
        {FX_F16, {1, 56, 64, 64, 3, 1, 1}, FX_K_conv2d_half, FX_K_conv2d_half},
        {FX_BF16, {1, 224, 3, 64, 7, 2, 1}, FX_K_conv2d_half, FX_K_conv2d},      /* a stem: more launches, which take as long on any device */
        {FX_F16, {8, 56, 64, 64, 3, 2, 1}, FX_K_conv2d_half, FX_K_conv2d_half},
        {FX_F16, {1, 14, 4, 4, 3, 1, 32}, FX_K_conv2d, FX_K_conv2d},            /* groups */
        {FX_F16, {1, 14, 16, 16, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},           /* the launches */
        {FX_F16, {16, 112, 16, 4, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},          /* the panel is more than what is saved */
        {FX_F16, {1, 56, 256, 64, 1, 1, 1}, FX_K_conv2d, FX_K_conv2d},          /* a product as it lies */
        {FX_F16, {0, 56, 64, 64, 3, 1, 1}, FX_K_conv2d, FX_K_conv2d},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(way("cuda-sm_75", FX_K_conv2d, cases[i].l, cases[i].type) == cases[i].sm_75, "case %zu, sm_75", i);
        ck_assert_msg(way("cuda-sm_90", FX_K_conv2d, cases[i].l, cases[i].type) == cases[i].sm_90, "case %zu, sm_90", i);
        ck_assert_int_eq(way("x86_64-avx2", FX_K_conv2d, cases[i].l, cases[i].type), FX_K_conv2d);
        ck_assert_int_eq(way("cuda", FX_K_conv2d_pre, cases[i].l, cases[i].type), FX_K_conv2d_pre);
    }
    /* The same layer where arithmetic is cheap beside memory, and where it is not. */
    ck_assert_int_eq(way("cuda-sm_120", FX_K_conv2d, (layer){16, 56, 64, 64, 3, 1, 1}, FX_F32), FX_K_conv2d);
    ck_assert_int_eq(way("cuda-sm_100", FX_K_conv2d, (layer){16, 56, 64, 64, 3, 1, 1}, FX_F32), FX_K_conv2d_wino);
    ck_assert_int_eq(way("cuda-sm_89", FX_K_conv2d, (layer){16, 56, 64, 64, 3, 1, 1}, FX_F16), FX_K_conv2d);
    ck_assert_int_eq(way("cuda-sm_80", FX_K_conv2d, (layer){16, 56, 64, 64, 3, 1, 1}, FX_F16), FX_K_conv2d_half);
    ck_assert_int_eq(way("cuda", FX_K_conv2d_weight_grad, (layer){8, 56, 64, 64, 3, 1, 1}, FX_F32), FX_K_conv2d_weight_grad_split);
    ck_assert_int_eq(way("cuda", FX_K_conv2d_weight_grad, (layer){1, 7, 64, 64, 3, 1, 1}, FX_F32), FX_K_conv2d_weight_grad);
}
END_TEST

/* Once a batch is large enough it stays so, on every device. */
START_TEST(more_images_never_go_back)
{
    static const char *const targets[] = {"cuda-sm_75", "cuda-sm_80", "cuda-sm_86", "cuda-sm_89", "cuda-sm_90", "cuda-sm_100", "cuda-sm_120"};
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        for (int half = 0; half < 2; half++) {
            bool taken = false;
            for (int n = 1; n <= 256; n *= 2) {
                bool now = way(targets[t], FX_K_conv2d, (layer){n, 14, 256, 256, 3, 1, 1}, half ? FX_F16 : FX_F32) != FX_K_conv2d;
                ck_assert_msg(now || !taken, "%s, %d images", targets[t], n);
                taken |= now;
            }
            ck_assert_msg(taken, "%s", targets[t]);
        }
    }
}
END_TEST

START_TEST(switches)
{
    const layer l = {16, 28, 128, 128, 3, 1, 1};
    const fx_call_stmt c = call_of(FX_K_conv2d, l);
    fx_lower_options opt = options("cuda-sm_80");
    ck_assert_int_eq(fx_conv_way(&opt, &c, FX_F32, true), FX_K_conv2d_wino);
    ck_assert_int_eq(fx_conv_way(&opt, &c, FX_F32, false), FX_K_conv2d); /* weights that are computed */
    opt.off = FX_OFF(WINOGRAD);
    ck_assert_int_eq(fx_conv_way(&opt, &c, FX_F32, true), FX_K_conv2d);
    opt.off = 0;
    opt.target.tf32 = true;
    ck_assert_int_eq(fx_conv_way(&opt, &c, FX_F32, true), FX_K_conv2d);
}
END_TEST

START_TEST(costs)
{
    const fx_target target = options("cuda-sm_75").target;
    const size_t products = fx_target_products_workspace(&target);
    fx_call_stmt c = call_of(FX_K_conv2d_wino, (layer){16, 28, 128, 128, 3, 1, 1}); /* 784 tiles, in one share */
    fx_conv_cost cost = fx_conv_cost_of(&c, true);
    ck_assert_int_eq(cost.launches, 3);
    ck_assert_uint_eq(cost.left, 4 * 36 * 784 * 256);
    ck_assert_uint_eq(cost.found, cost.left);
    ck_assert_uint_eq(fx_conv_workspace(&target, &c), products + 4 * 36 * 784 * 256);
    c = call_of(FX_K_conv2d_wino, (layer){64, 28, 128, 128, 3, 1, 1}); /* 3,136, of which 910 fit */
    ck_assert_int_eq(fx_conv_cost_of(&c, true).launches, 12);
    c = call_of(FX_K_conv2d_half, (layer){1, 224, 3, 64, 7, 2, 1}); /* rows of 147 become 152, the weights' too */
    cost = fx_conv_cost_of(&c, true);
    ck_assert_int_eq(cost.launches, 3);
    ck_assert_uint_eq(cost.left, 2 * 152 * (112 * 112 + 64));
    ck_assert_uint_eq(cost.found, cost.left);
    ck_assert(!cost.tail);
    fx_call_set(&c, "act", FXRT_ACT_SILU); /* no epilogue of cuBLASLt */
    ck_assert_int_eq(fx_conv_cost_of(&c, true).launches, 4);
    ck_assert(fx_conv_cost_of(&c, true).tail);
    c = call_of(FX_K_conv2d, (layer){1, 14, 256, 256, 3, 1, 1}); /* two parts of the sums of 56 tiles: docs/cuda.md, ResNet-18's layer3 */
    cost = fx_conv_cost_of(&c, true);
    ck_assert_int_eq(cost.launches, 1);
    ck_assert_uint_eq(cost.left, 4 * 2 * 196 * 256);
    ck_assert_uint_eq(cost.found, 4 * 196 * 256);
    ck_assert_uint_eq(fx_conv_workspace(&target, &c), 4 * 2 * 56 * 1024);
    ck_assert_uint_eq(fx_conv_counters(&c), 56);
    ck_assert_uint_eq(fx_conv_cost_of(&c, false).left, 0);
    c = call_of(FX_K_conv2d, (layer){1, 56, 64, 64, 3, 1, 1}); /* enough tiles */
    ck_assert_uint_eq(fx_conv_counters(&c), 0);
    ck_assert_int_eq(fx_conv_cost_of(&c, false).launches, 1);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, layers_of_networks);
    tcase_add_test(t, more_images_never_go_back);
    tcase_add_test(t, switches);
    tcase_add_test(t, costs);
}

int main(void)
{
    return unit_run("conv_ways", 0, NULL, NULL, add_tests);
}
