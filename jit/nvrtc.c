/* jit/nvrtc.c: CUDA text to an image that a device loads, by NVRTC.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "jit/cache.h"
#include "jit/nvrtc.h"

/* Every operation rounds on its own, as in PyTorch; what fuses multiply and add says so. */
#define OPTIONS "--std=c++17", "--fmad=false"
enum { N_OPTIONS = 3 };

typedef struct job {
    fx_context *ctx;
    fx_arena *arena;
    const fx_nvrtc *N;
    const fx_nvrtc_source *source;
    fx_nvrtc_program program;
    void *object;                /* of the cache */
    fx_nvrtc_image *out;
} job;

/* "sm_90": machine code, which devices of the same major take, or "compute_90": PTX, which later ones translate. */
static fx_status choose_arch(fx_context *ctx, fx_arena *arena, const fx_nvrtc *N, int arch, const char **name, bool *ptx)
{
    int n = 0, best = 0;
    if (N->GetNumSupportedArchs(&n) != 0 || n <= 0)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, NULL, "%s does not tell what it compiles for", N->file);
    int *archs = FX_NEW_ARRAY(arena, int, (size_t)n);
    if (N->GetSupportedArchs(archs) != 0)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, NULL, "%s does not tell what it compiles for", N->file);
    for (int i = 0; i < n; i++)
        best = archs[i] <= arch && archs[i] > best ? archs[i] : best;
    if (!best)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, NULL, "the device has compute capability %d.%d, and %s (NVRTC %d.%d) compiles for %d.%d and later", arch / 10,
                       arch % 10, N->file, N->major, N->minor, archs[0] / 10, archs[0] % 10);
    *ptx = best / 10 != arch / 10;
    *name = fx_arena_printf(arena, "--gpu-architecture=%s_%d", *ptx ? "compute" : "sm", best);
    return FX_OK;
}

static fx_status failed(const job *j, const char *what)
{
    size_t size = 0;
    char *log = NULL;
    if (j->program && j->N->GetProgramLogSize(j->program, &size) == 0 && size > 1) {
        log = FX_NEW_ARRAY(j->arena, char, size + 1);
        if (j->N->GetProgramLog(j->program, log) != 0)
            *log = 0;
    }
    return fx_fail(j->ctx, FX_INTERNAL, NULL, "NVRTC %d.%d: %s%s%s", j->N->major, j->N->minor, what, log && *log ? ": " : "", log ? log : "");
}

static fx_status compile(job *j, const char *arch, bool ptx)
{
    const fx_nvrtc *N = j->N;
    const fx_nvrtc_source *s = j->source;
    fx_nvrtc_image *out = j->out;
    const char *const options[N_OPTIONS] = {arch, OPTIONS};
    for (size_t i = 0; i < s->n_kernels; i++)
        if (N->AddNameExpression(j->program, s->kernels[i]) != 0)
            return failed(j, "a kernel cannot be asked for");
    fx_poll(j->ctx);
    if (N->CompileProgram(j->program, N_OPTIONS, options) != 0)
        return failed(j, "the model's kernels do not compile");
    for (size_t i = 0; i < s->n_kernels; i++) {
        const char *name;
        if (N->GetLoweredName(j->program, s->kernels[i], &name) != 0)
            return failed(j, "a kernel is not in what was compiled");
        out->symbols[i] = fx_arena_dup(j->arena, name, strlen(name) + 1);
    }
    if ((ptx ? N->GetPTXSize : N->GetCUBINSize)(j->program, &out->size) != 0 || out->size == 0)
        return failed(j, "there is no image");
    out->data = malloc(out->size);
    if (!out->data)
        fx_out_of_memory(j->ctx);
    return (ptx ? N->GetPTX : N->GetCUBIN)(j->program, out->data) == 0 ? FX_OK : failed(j, "there is no image");
}

/* ---- kept objects: the number of bytes of names, the names, the image ----------------------------------------------------------- */

static fx_cache_key make_key(fx_arena *arena, const fx_nvrtc *N, const fx_nvrtc_source *s, const char *arch)
{
    static const char *const options[] = {OPTIONS};
    fx_text t;
    fx_text_init(&t, arena);
    fx_printf(&t, "fxcc %s, NVRTC %d.%d, %s %s %s\n", FXCC_VERSION, N->major, N->minor, arch, options[0], options[1]);
    for (size_t i = 0; i < s->n_kernels; i++)
        fx_printf(&t, "%s\n", s->kernels[i]);
    fx_puts(&t, s->text);
    return (fx_cache_key){t.data, t.size};
}

static bool read_object(fx_arena *arena, const fx_nvrtc_source *s, const char *object, size_t size, fx_nvrtc_image *out)
{
    uint64_t names;
    if (size < sizeof names)
        return false;
    memcpy(&names, object, sizeof names);
    if (names > size - sizeof names)
        return false;
    const char *at = object + sizeof names, *end = at + names;
    for (size_t i = 0; i < s->n_kernels; i++) {
        const char *stop = memchr(at, 0, (size_t)(end - at));
        if (!stop)
            return false;
        out->symbols[i] = fx_arena_dup(arena, at, (size_t)(stop - at) + 1);
        at = stop + 1;
    }
    out->size = size - sizeof names - (size_t)names;
    out->data = malloc(out->size);
    if (out->data)
        memcpy(out->data, end, out->size);
    return out->data != NULL;
}

static bool take_object(job *j, const fx_cache_key *key)
{
    size_t size;
    j->out->cached = fx_cache_get(j->source->cache, key, &j->object, &size) && read_object(j->arena, j->source, j->object, size, j->out);
    return j->out->cached;
}

static void keep_object(fx_context *ctx, fx_arena *arena, const fx_nvrtc_source *s, const fx_cache_key *key, const fx_nvrtc_image *image)
{
    fx_text t;
    uint64_t names = 0;
    for (size_t i = 0; i < s->n_kernels; i++)
        names += strlen(image->symbols[i]) + 1;
    fx_text_init(&t, arena);
    fx_putn(&t, (const char *)&names, sizeof names);
    for (size_t i = 0; i < s->n_kernels; i++)
        fx_putn(&t, image->symbols[i], strlen(image->symbols[i]) + 1);
    fx_putn(&t, image->data, image->size);
    if (!fx_cache_put(s->cache, key, t.data, t.size, s->cache_most))
        fx_remark(ctx, NULL, "the compiled model is not kept: %s cannot be written, or it takes more than the %llu bytes it may", s->cache,
                  (unsigned long long)s->cache_most);
}


static fx_status build(void *user)
{
    job *j = user;
    const fx_nvrtc_source *s = j->source;
    const char *why, *arch = NULL;
    bool ptx = false;
    j->N = fx_nvrtc_load(&why);
    if (!j->N)
        return fx_fail(j->ctx, FX_ERR_UNSUPPORTED, NULL, "device cuda: %s", why);
    FX_TRY(choose_arch(j->ctx, j->arena, j->N, s->arch, &arch, &ptx));
    j->out->symbols = FX_NEW_ARRAY(j->arena, const char *, s->n_kernels + 1);
    const fx_cache_key key = s->cache ? make_key(j->arena, j->N, s, arch) : (fx_cache_key){NULL, 0};
    if (s->cache && take_object(j, &key))
        return FX_OK;
    static const char *const names[] = {"math.h", "stddef.h", "stdint.h", "string.h"}, *const empty[] = {"\n", "\n", "\n", "\n"};
    if (j->N->CreateProgram(&j->program, s->text, "model.cu", 4, empty, names) != 0)
        return failed(j, "no program is made");
    FX_TRY(compile(j, arch, ptx));
    if (s->cache)
        keep_object(j->ctx, j->arena, s, &key, j->out);
    return FX_OK;
}

fx_status fx_nvrtc_build(fx_context *ctx, fx_arena *arena, const fx_nvrtc_source *s, fx_nvrtc_image *out)
{
    job j = {.ctx = ctx, .arena = arena, .source = s, .out = out};
    *out = (fx_nvrtc_image){0};
    fx_status status = fx_protect(ctx, build, &j);
    if (j.program)
        j.N->DestroyProgram(&j.program);
    free(j.object);
    if (status != FX_OK) {
        free(out->data);
        out->data = NULL;
    }
    return status;
}
