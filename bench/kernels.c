/* bench/kernels.c: GFLOP/s of the convolution kernels on the layers of ResNet-50 and MobileNetV2, against the machine's peak.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   bench_kernels [-i ISA] [-t SECONDS] [FILTER]     one thread unless OMP_NUM_THREADS says otherwise */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "fxcc/runtime.h"

typedef void conv_fn(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws);
typedef void gemm_fn(const fxrt_gemm_desc *d, const float *x, const float *w, const float *b, const float *r, float *y);

typedef struct isa {
    const char *name;
    fxrt_tile tile;
    conv_fn *conv2d, *conv2d_dw;
    gemm_fn *gemm;
} isa;

#define DECLARE(i) extern conv_fn fxrt_##i##_conv2d, fxrt_##i##_conv2d_dw; extern gemm_fn fxrt_##i##_gemm;
#define ROW(i, lanes, mr, nr) { #i, { lanes, mr, nr }, fxrt_##i##_conv2d, fxrt_##i##_conv2d_dw, fxrt_##i##_gemm }
DECLARE(generic)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)
static const isa isas[] = { ROW(avx2, 8, 6, 16), ROW(avx512, 16, 12, 32), ROW(generic, 1, 4, 4) };
#elif defined(__aarch64__)
DECLARE(neon)
static const isa isas[] = { ROW(neon, 4, 8, 8), ROW(generic, 1, 4, 4) };
#else
static const isa isas[] = { ROW(generic, 1, 4, 4) };
#endif

/* A layer and how often the network has it. */
typedef struct layer {
    const char *net;
    int count, size, ic, oc, k, stride, depthwise, residual;
} layer;

static const layer layers[] = {
    { "resnet50", 1, 224, 3, 64, 7, 2, 0, 0 },     { "resnet50", 1, 56, 64, 64, 1, 1, 0, 0 },
    { "resnet50", 3, 56, 64, 64, 3, 1, 0, 0 },     { "resnet50", 4, 56, 64, 256, 1, 1, 0, 1 },
    { "resnet50", 2, 56, 256, 64, 1, 1, 0, 0 },    { "resnet50", 1, 56, 256, 128, 1, 1, 0, 0 },
    { "resnet50", 1, 56, 128, 128, 3, 2, 0, 0 },   { "resnet50", 1, 56, 256, 512, 1, 2, 0, 0 },
    { "resnet50", 4, 28, 128, 512, 1, 1, 0, 1 },   { "resnet50", 3, 28, 512, 128, 1, 1, 0, 0 },
    { "resnet50", 3, 28, 128, 128, 3, 1, 0, 0 },   { "resnet50", 1, 28, 512, 256, 1, 1, 0, 0 },
    { "resnet50", 1, 28, 256, 256, 3, 2, 0, 0 },   { "resnet50", 1, 28, 512, 1024, 1, 2, 0, 0 },
    { "resnet50", 6, 14, 256, 1024, 1, 1, 0, 1 },  { "resnet50", 5, 14, 1024, 256, 1, 1, 0, 0 },
    { "resnet50", 5, 14, 256, 256, 3, 1, 0, 0 },   { "resnet50", 1, 14, 1024, 512, 1, 1, 0, 0 },
    { "resnet50", 1, 14, 512, 512, 3, 2, 0, 0 },   { "resnet50", 1, 14, 1024, 2048, 1, 2, 0, 0 },
    { "resnet50", 3, 7, 512, 2048, 1, 1, 0, 1 },   { "resnet50", 2, 7, 2048, 512, 1, 1, 0, 0 },
    { "resnet50", 2, 7, 512, 512, 3, 1, 0, 0 },    { "resnet50", 1, 1, 2048, 1000, 1, 1, 0, 0 },
    { "mobilenet_v2", 1, 224, 3, 32, 3, 2, 0, 0 },   { "mobilenet_v2", 1, 112, 32, 32, 3, 1, 1, 0 },
    { "mobilenet_v2", 1, 112, 32, 16, 1, 1, 0, 0 },  { "mobilenet_v2", 1, 112, 16, 96, 1, 1, 0, 0 },
    { "mobilenet_v2", 1, 112, 96, 96, 3, 2, 1, 0 },  { "mobilenet_v2", 1, 56, 96, 24, 1, 1, 0, 0 },
    { "mobilenet_v2", 2, 56, 24, 144, 1, 1, 0, 0 },  { "mobilenet_v2", 1, 56, 144, 144, 3, 1, 1, 0 },
    { "mobilenet_v2", 1, 56, 144, 24, 1, 1, 0, 1 },  { "mobilenet_v2", 1, 56, 144, 144, 3, 2, 1, 0 },
    { "mobilenet_v2", 1, 28, 144, 32, 1, 1, 0, 0 },  { "mobilenet_v2", 3, 28, 32, 192, 1, 1, 0, 0 },
    { "mobilenet_v2", 2, 28, 192, 192, 3, 1, 1, 0 }, { "mobilenet_v2", 2, 28, 192, 32, 1, 1, 0, 1 },
    { "mobilenet_v2", 1, 28, 192, 192, 3, 2, 1, 0 }, { "mobilenet_v2", 1, 14, 192, 64, 1, 1, 0, 0 },
    { "mobilenet_v2", 4, 14, 64, 384, 1, 1, 0, 0 },  { "mobilenet_v2", 4, 14, 384, 384, 3, 1, 1, 0 },
    { "mobilenet_v2", 3, 14, 384, 64, 1, 1, 0, 1 },  { "mobilenet_v2", 1, 14, 384, 96, 1, 1, 0, 0 },
    { "mobilenet_v2", 3, 14, 96, 576, 1, 1, 0, 0 },  { "mobilenet_v2", 2, 14, 576, 576, 3, 1, 1, 0 },
    { "mobilenet_v2", 2, 14, 576, 96, 1, 1, 0, 1 },  { "mobilenet_v2", 1, 14, 576, 576, 3, 2, 1, 0 },
    { "mobilenet_v2", 1, 7, 576, 160, 1, 1, 0, 0 },  { "mobilenet_v2", 3, 7, 160, 960, 1, 1, 0, 0 },
    { "mobilenet_v2", 3, 7, 960, 960, 3, 1, 1, 0 },  { "mobilenet_v2", 2, 7, 960, 160, 1, 1, 0, 1 },
    { "mobilenet_v2", 1, 7, 960, 320, 1, 1, 0, 0 },  { "mobilenet_v2", 1, 7, 320, 1280, 1, 1, 0, 0 },
    { "mobilenet_v2", 1, 1, 1280, 1000, 1, 1, 0, 0 },
};

/* Time of the CPU, so that other processes on a busy machine do not count; with more threads, of the clock. */
static double now(void)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    if (!threads || strcmp(threads, "1") == 0)
        return (double)clock() / CLOCKS_PER_SEC;
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *buffer(size_t n)
{
    float *p = aligned_alloc(64, (n * sizeof *p + 4159) / 64 * 64);
    if (!p) {
        perror("bench_kernels");
        exit(2);
    }
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    return p;
}

/* The machine's peak: a matrix product with one panel that stays in L1 comes close to it. */
static double peak(const isa *k)
{
    fxrt_gemm_desc d = { .batch = 1, .m = 16 * k->tile.mr, .n = k->tile.nr, .k = 192, .x_m = 192, .y_m = k->tile.nr, .act = 0 };
    float *x = buffer((size_t)(d.m * d.k)), *w = buffer((size_t)(d.n * d.k)), *y = buffer((size_t)(d.m * d.n));
    double best = 0;
    for (int round = 0; round < 20; round++) {
        const double start = now();
        for (int i = 0; i < 200; i++)
            k->gemm(&d, x, w, NULL, NULL, y);
        const double rate = 200 * 2.0 * d.m * d.n * d.k / (now() - start);
        best = rate > best ? rate : best;
    }
    free(x);
    free(w);
    free(y);
    return best;
}

/* Seconds for one call. Weights are cold as in a network: they are many copies, used in turn. */
static double run(const isa *k, const layer *l, double seconds)
{
    const int pad = l->k / 2, out = (l->size + 2 * pad - l->k) / l->stride + 1, groups = l->depthwise ? l->ic : 1;
    fxrt_conv2d_desc d = { .n = 1, .ih = l->size, .iw = l->size, .ic = l->ic / groups, .oh = out, .ow = out, .oc = l->oc / groups,
                           .groups = groups, .kh = l->k, .kw = l->k, .sh = l->stride, .sw = l->stride, .ph = pad, .pw = pad,
                           .dh = 1, .dw = 1, .xs_n = l->size * l->size * l->ic, .xs_h = l->size * l->ic, .xs_w = l->ic,
                           .ys_n = out * out * l->oc, .ys_h = out * l->oc, .ys_w = l->oc, .rs_n = out * out * l->oc,
                           .rs_h = out * l->oc, .rs_w = l->oc, .act = l->residual ? FXRT_ACT_NONE : FXRT_ACT_RELU };
    const size_t size = l->depthwise ? fxrt_conv2d_dw_packed_size(&d, &k->tile) : fxrt_conv2d_packed_size(&d, &k->tile);
    const size_t copies = 16000000 / size + 1;
    const size_t y_size = (size_t)(out * out * l->oc);
    float *x = buffer((size_t)d.xs_n), *w = buffer(size * copies), *b = buffer((size_t)l->oc + 64), *y = buffer(y_size);
    float *r = l->residual ? buffer(y_size) : NULL;
    const size_t need = l->depthwise ? fxrt_conv2d_dw_workspace(&d, &k->tile, 1) : fxrt_conv2d_workspace(&d, &k->tile, 1);
    float *ws = need ? buffer(need / sizeof(float)) : NULL;
    conv_fn *f = l->depthwise ? k->conv2d_dw : k->conv2d;
    double best = 1e9;
    const double end = now() + seconds;
    for (size_t i = 0; i < 3 || now() < end; i++) {
        const double start = now();
        f(&d, x, w + i % copies * size, b, r, y, ws);
        const double t = now() - start;
        best = t < best ? t : best;
    }
    free(x);
    free(w);
    free(b);
    free(y);
    free(r);
    free(ws);
    return best;
}

int main(int argc, char **argv)
{
#ifdef _OPENMP
    if (!getenv("OMP_NUM_THREADS"))
        omp_set_num_threads(1);
#endif
    const isa *k = &isas[0];
    double seconds = 0.1;
    const char *filter = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-i") == 0 && i + 1 < argc) {
            i++;
            k = NULL;
            for (size_t j = 0; j < sizeof isas / sizeof *isas; j++)
                k = strcmp(isas[j].name, argv[i]) == 0 ? &isas[j] : k;
            if (!k) {
                fprintf(stderr, "bench_kernels: expected one of generic, avx2, avx512, neon, got %s\n", argv[i]);
                return 1;
            }
        } else if (strcmp(argv[i], "-t") == 0 && i + 1 < argc) {
            seconds = atof(argv[++i]);
        } else {
            filter = argv[i];
        }
    }
    const double top = peak(k);
    printf("%s, tile %dx%d: peak about %.1f GFLOP/s\n", k->name, k->tile.mr, k->tile.nr, top / 1e9);
    const char *net = NULL;
    double total = 0, flops_total = 0;
    const size_t n = sizeof layers / sizeof *layers;
    for (size_t i = 0; i <= n; i++) {
        if (net && (i == n || strcmp(net, layers[i].net) != 0)) {
            printf("%-13s all layers %36.2f ms %7.1f GFLOP/s %5.1f %%\n", net, total * 1e3, flops_total / total / 1e9,
                   100 * flops_total / total / top);
            total = flops_total = 0;
            net = NULL;
        }
        if (i == n)
            break;
        const layer *l = &layers[i];
        char text[128];
        snprintf(text, sizeof text, "%s %dx %3d %s%dx%d/%d %d->%d", l->net, l->count, l->size, l->depthwise ? "dw" : "", l->k, l->k,
                 l->stride, l->ic, l->oc);
        if (filter && !strstr(text, filter))
            continue;
        const int out = (l->size - 1) / l->stride + 1;
        const double flops = 2.0 * out * out * l->oc * (l->depthwise ? 1 : l->ic) * l->k * l->k;
        const double t = run(k, l, seconds);
        printf("%-48s %10.3f ms %7.1f GFLOP/s %5.1f %%\n", text, t * 1e3, flops / t / 1e9, 100 * flops / t / top);
        net = l->net;
        total += l->count * t;
        flops_total += l->count * flops;
    }
    return 0;
}
