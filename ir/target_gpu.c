/* ir/target_gpu.c: the architectures that one build of CUDA sources has code for.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

/* What nvcc of CUDA 13 compiles for. Sources that are emitted ask for nothing that a single one has (sm_90a). */
static const int known[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
enum { N_KNOWN = sizeof known / sizeof known[0] };

static const fx_gpu_sheet sheets[] = {
    {75, "Quadro RTX 8000", 72, 16.3, 130, 672}, {80, "A100 40 GB", 108, 19.5, 312, 1555}, {86, "A40", 84, 37.4, 150, 696}, {89, "L40S", 142, 91.6, 362, 864},
    {90, "H100 SXM", 132, 67, 989, 3350},        {100, "B200", 148, 80, 2250, 8000},      {120, "RTX PRO 6000", 188, 125, 504, 1792}};

const fx_gpu_sheet *fx_target_sheet(const fx_target *target)
{
    const fx_gpu_sheet *at = sheets;
    while (at + 1 < sheets + sizeof sheets / sizeof *sheets && at[1].sm <= target->sm)
        at++;
    return at;
}

/* "80" or "sm_80"; 0: none that is known. */
static int parse_arch(const char *s, size_t n)
{
    int value = 0;
    size_t at = n > 3 && memcmp(s, "sm_", 3) == 0 ? 3 : 0;
    if (n - at < 2 || n - at > 3)
        return 0;
    for (; at < n; at++) {
        if (s[at] < '0' || s[at] > '9')
            return 0;
        value = value * 10 + (s[at] - '0');
    }
    for (int i = 0; i < N_KNOWN; i++)
        if (known[i] == value)
            return value;
    return 0;
}

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static fx_status fail(fx_context *ctx, const char *s, size_t n)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (int i = 0; i < N_KNOWN; i++)
        fx_printf(&t, "%s%d", i ? ", " : "", known[i]);
    return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "arch: expected architectures of GPUs with commas between (%s), got '%.*s'", t.data, (int)(n < 80 ? n : 80), s);
}

fx_status fx_target_set_archs(fx_context *ctx, fx_target *target, const char *list)
{
    int archs[N_KNOWN], n = 0;
    if (!fx_target_is_gpu(target))
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "arch: expected a GPU's target with it (cuda, cuda-sm_75, ..., cuda-sm_120), got %s", target->name);
    for (const char *s = list;; s++) {
        size_t size = strcspn(s, ",");
        int arch = parse_arch(s, size);
        if (!arch)
            return fail(ctx, s, size);
        if (arch < target->sm)
            return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "arch: expected architectures from the target's on (%s: sm_%d), got %d", target->name, target->sm, arch);
        for (int i = 0; i < n; i++)
            if (archs[i] == arch)
                return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "arch: %d is given twice", arch);
        archs[n++] = arch;
        s += size;
        if (!*s)
            break;
    }
    qsort(archs, (size_t)n, sizeof *archs, ascending);
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (int i = 0; i < n; i++)
        fx_printf(&t, "-gencode arch=compute_%d,code=sm_%d ", archs[i], archs[i]);
    fx_printf(&t, "-gencode arch=compute_%d,code=compute_%d", archs[n - 1], archs[n - 1]); /* what later devices translate */
    target->cflags = t.data;
    int *kept = FX_NEW_ARRAY(fx_context_arena(ctx), int, N_KNOWN);
    memcpy(kept, archs, (size_t)n * sizeof *archs);
    target->archs = kept;
    target->n_archs = n;
    return FX_OK;
}
