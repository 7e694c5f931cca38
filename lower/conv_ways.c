/* lower/conv_ways.c: the ways in which a GPU makes a convolution: what each costs, and which one is taken.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Times are told by a roofline of each kernel: its multiplications or its bytes, whichever takes longer, by what data sheets say of a device of the
 * architecture; and a launch costs what it usually does. Nothing of this was measured. So another way is taken only where it saves a fifth. */
#include "lower/conv_ways.h"

#include "runtime/cuda/conv_gemm.h"
#include "runtime/cuda/conv_share.h"
#include "runtime/cuda/conv_split.h"
#include "runtime/cuda/weight_grad_split.h"

#include "runtime/cuda/conv_panels.h"
#include "runtime/cuda/conv_wino.h"

/* ---- what kernels do besides reading and writing what the call names ------------------------------------------------- */

size_t fx_conv_workspace(const fx_target *target, const fx_call_stmt *c)
{
    fxrt_conv2d_desc d;
    if (!fx_call_is_static(c))
        return 0;
    fx_call_to_desc(c, &d);
    switch (c->kernel) {
    case FX_K_conv2d:
    case FX_K_conv2d_pre:
    case FX_K_conv2d_post: return fxrt_cuda_conv2d_workspace(&d);
    case FX_K_conv2d_wino: return fx_target_products_workspace(target) + fxrt_cuda_conv2d_wino_workspace(&d);
    case FX_K_conv2d_half: return fx_target_products_workspace(target) + fxrt_cuda_conv2d_half_workspace(&d);
    case FX_K_conv2d_weight_grad_split: return fxrt_cuda_conv2d_weight_grad_workspace(&d);
    default: return 0;
    }
}

size_t fx_conv_counters(const fx_call_stmt *c)
{
    fxrt_conv2d_desc d;
    fx_call_to_desc(c, &d);
    return fx_kernel_is_conv2d(c->kernel) && fx_call_is_static(c) ? fxrt_cuda_conv2d_counters(&d) : 0;
}

/* Tiles are transformed, multiplied and transformed back, a share after the other. */
static fx_conv_cost wino_cost(const fxrt_conv2d_desc *d)
{
    int64_t tiles = fxrt_cuda_wino_tiles(d), share = fxrt_cuda_wino_chunk(d);
    if (tiles == 0)
        return (fx_conv_cost){0};
    uint64_t transformed = FXRT_WINO_POINTS * (uint64_t)tiles * (uint64_t)(d->ic + d->oc) * sizeof(float);
    return (fx_conv_cost){.launches = 3 * (int)((tiles + share - 1) / share), .left = transformed, .found = transformed};
}

/* A panel is made and multiplied, with a tail if that is no epilogue of cuBLASLt, a share of the pixels after the other; weights are padded once. */
static fx_conv_cost half_cost(const fxrt_conv2d_desc *d)
{
    int64_t pixels = (int64_t)d->n * d->oh * d->ow, share = fxrt_cuda_panel_pixels(d), row = fxrt_cuda_panel_row(d);
    bool padded = row > fxrt_cuda_panel_terms(d);
    fx_conv_cost cost = {.tail = !fx_products_activate(d->act)};
    if (pixels == 0)
        return (fx_conv_cost){0};
    cost.launches = (int)((pixels + share - 1) / share) * (2 + cost.tail) + padded;
    cost.left = cost.found = 2 * (uint64_t)row * (uint64_t)(pixels + (padded ? d->oc : 0));
    return cost;
}

/* Each block writes its part of a tile, and the last one reads those of the others. */
static fx_conv_cost parts_cost(const fxrt_conv2d_desc *d, bool split)
{
    uint64_t parts = split ? (uint64_t)fxrt_cuda_conv2d_way(d).parts : 1, sums = (uint64_t)d->n * (uint64_t)d->oh * (uint64_t)d->ow * (uint64_t)d->groups * (uint64_t)d->oc;
    return (fx_conv_cost){.launches = 1, .left = parts > 1 ? parts * sums * sizeof(float) : 0, .found = (parts - 1) * sums * sizeof(float)};
}

fx_conv_cost fx_conv_cost_of(const fx_call_stmt *c, bool split)
{
    fxrt_conv2d_desc d;
    size_t parts = 0;
    fx_call_to_desc(c, &d);
    switch (c->kernel) {
    case FX_K_conv2d_wino: return wino_cost(&d);
    case FX_K_conv2d_half: return half_cost(&d);
    case FX_K_conv2d:
    case FX_K_conv2d_pre:
    case FX_K_conv2d_post: return parts_cost(&d, split);
    case FX_K_conv2d_weight_grad_split: parts = split ? fxrt_cuda_conv2d_weight_grad_workspace(&d) : 0; break;
    default: break;
    }
    return (fx_conv_cost){.launches = parts ? 2 : 1, .left = parts, .found = parts};
}

/* ---- times ------------------------------------------------------------------------------------------------------------ */

static const double reached = 0.5; /* of the peak of arithmetic, by cuBLASLt's kernels and by our own */
static const double launch = 2;    /* microseconds until the next kernel of a stream begins */
static const double gain = 0.8;    /* of the plain way's time is what another one may take */

/* Microseconds of a kernel that multiplies so often, at so many TFLOP/s, and reads and writes so many bytes. */
static double kernel_time(const fx_gpu_sheet *on, double products, double peak, double bytes)
{
    double arithmetic = 2e-6 * products / (reached * peak), traffic = 1e-3 * bytes / on->memory;
    return launch + (arithmetic > traffic ? arithmetic : traffic);
}

typedef struct work {
    double pixels, products; /* of the result */
    double x, w, y;          /* bytes */
} work;

static work work_of(const fxrt_conv2d_desc *d, size_t element)
{
    double pixels = (double)d->n * d->oh * d->ow, filter = (double)d->ic * d->kh * d->kw, oc = (double)d->groups * d->oc;
    return (work){.pixels = pixels, .products = pixels * filter * oc, .x = (double)element * d->n * d->ih * d->iw * d->groups * d->ic,
                  .w = (double)element * oc * filter, .y = (double)element * pixels * oc};
}

static double plain_time(const fx_gpu_sheet *on, const fxrt_conv2d_desc *d, const work *k)
{
    const fx_conv_cost parts = parts_cost(d, true);
    return kernel_time(on, k->products, on->floats, k->x + k->w + k->y + (double)(parts.left + parts.found));
}

static bool wino_pays(const fx_gpu_sheet *on, const fxrt_conv2d_desc *d)
{
    if (!fxrt_cuda_conv2d_wino_fits(d) || fxrt_cuda_wino_tiles(d) == 0)
        return false;
    const work k = work_of(d, sizeof(float));
    double tiles = (double)fxrt_cuda_wino_tiles(d), in = FXRT_WINO_POINTS * tiles * d->ic, out = FXRT_WINO_POINTS * tiles * d->oc, f = sizeof(float);
    double weights = FXRT_WINO_POINTS * (double)d->ic * d->oc, more = wino_cost(d).launches - 3; /* each further share reads all the weights again */
    double time = kernel_time(on, 0, on->floats, k.x + f * in) + kernel_time(on, in * d->oc, on->floats, f * (in + (1 + more / 3) * weights + out)) +
                  kernel_time(on, 0, on->floats, f * out + k.y) + more * launch;
    return time < gain * plain_time(on, d, &k);
}

static bool panels_pay(const fx_gpu_sheet *on, const fxrt_conv2d_desc *d)
{
    fxrt_gemm_desc as_it_lies; /* is a product already, or ends in what only conv2d's tail has */
    if (!fxrt_cuda_conv2d_in_panels(d) || fxrt_cuda_conv2d_as_gemm(d, &as_it_lies) || (int64_t)d->n * d->oh * d->ow == 0)
        return false;
    const work k = work_of(d, 2);
    const fx_conv_cost cost = half_cost(d);
    double panel = 2 * k.pixels * (double)fxrt_cuda_panel_row(d);
    double time = kernel_time(on, 0, on->floats, k.x + panel) + kernel_time(on, k.products, on->tensors, panel + k.w + k.y) + (cost.launches - 2) * launch +
                  (cost.tail ? 1e-3 * 2 * k.y / on->memory : 0);
    return time < gain * plain_time(on, d, &k);
}

/* Products in TF32 would lose more than a plain sum in TF32 does: transforms take differences. A single image's layers stay one kernel, or two, that
 * read the plain weights: a model at batch 1 is to have no more kernels than inductor's and 1.3 times the least bytes at most (docs/cuda.md). */
bool fx_conv_is_wino(const fx_lower_options *opt, const fxrt_conv2d_desc *d, bool constant)
{
    bool wanted = fx_target_is_gpu(&opt->target) && constant && d->n > 1 && !opt->target.tf32 && !(opt->off & FX_OFF(WINOGRAD));
    return wanted && wino_pays(fx_target_sheet(&opt->target), d);
}

fx_kernel_id fx_conv_way(const fx_lower_options *opt, const fx_call_stmt *c, fx_dtype type, bool constant)
{
    fxrt_conv2d_desc d;
    if (!fx_target_is_gpu(&opt->target) || !fx_call_is_static(c))
        return c->kernel;
    fx_call_to_desc(c, &d);
    const fx_gpu_sheet *on = fx_target_sheet(&opt->target);
    if (c->kernel == FX_K_conv2d_weight_grad)
        return fxrt_cuda_conv2d_weight_grad_workspace(&d) ? FX_K_conv2d_weight_grad_split : c->kernel;
    if (c->kernel != FX_K_conv2d)
        return c->kernel;
    if (type != FX_F32)
        return panels_pay(on, &d) ? FX_K_conv2d_half : c->kernel;
    return fx_conv_is_wino(opt, &d, constant) ? FX_K_conv2d_wino : c->kernel;
}
