/* codegen/cuda_call.c: calls of kernels: each a function of the host that launches what the call needs, by the texts of runtime/cuda/.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"
#include "codegen/texts.h"

bool fx_cuda_has_products(const fx_emit *e)
{
    bool any = false;
    for (int k = 0; k < FX_K_COUNT; k++)
        any |= e->kernels[k] && fx_kernel_products((fx_kernel_id)k) > 0;
    return any;
}

bool fx_cuda_uses_products(const fx_emit *e, bool beside)
{
    for (size_t i = 0; i < e->p->n_steps; i++)
        if (e->facts[i].products && (e->p->steps[i].region > 0) == beside)
            return true;
    return false;
}

const char *fx_cuda_products_name(bool beside)
{
    return beside ? "beside" : "products";
}

const char *fx_cuda_element(fx_dtype dtype)
{
    return dtype == FX_F16 ? "__half" : dtype == FX_BF16 ? "__nv_bfloat16" : "float";
}

/* Whether a kernel takes 16-bit elements. Launches are one call each. */
bool fx_cuda_has_halves(const fx_emit *e)
{
    for (size_t i = 0; i < e->p->n_steps; i++) {
        const fx_stmt *s = fx_cuda_nest(e->p->steps[i].body);
        if (s && s->kind == FX_ST_CALL && fx_call_dtype(e->p, s->call) != FX_F32)
            return true;
    }
    return false;
}

bool fx_cuda_needs_text(const fx_emit *e, const char *name)
{
    if (strcmp(name, "half_types") == 0)
        return e->own_halves;
    if (strcmp(name, "launch") == 0 || (e->at_once && strcmp(name, "vec") == 0) || (e->reduces && strcmp(name, "reduce") == 0))
        return true;
    for (int k = 0; k < FX_K_COUNT; k++)
        if (e->kernels[k] && fx_c_names_text(fx_kernel_get((fx_kernel_id)k)->cuda, name))
            return true;
    return false;
}

bool fx_cuda_texts_name(fx_emit *e, const char *descriptor)
{
    const char *type = fx_arena_printf(e->arena, "fxrt_%s_desc", descriptor);
    for (int i = 0; i < fx_n_cuda_texts; i++)
        if (fx_cuda_needs_text(e, fx_cuda_texts[i].name) && strstr(fx_cuda_texts[i].text, type))
            return true;
    return false;
}

fx_status fx_cuda_call(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const fx_call_stmt *c = s->call;
    const fx_kernel *k = fx_kernel_get(c->kernel);
    bool product = c->kernel == FX_K_matmul, attention = c->kernel == FX_K_attention; /* templates of the element's type */
    const char *element = fx_cuda_element(fx_call_dtype(e->p, c)), *function = k->name;
    if (product)
        function = fx_arena_printf(e->local, "gemm<%s>", element);
    else if (attention)
        function = fx_arena_printf(e->local, "attention<%s%s>", element, fx_call_adds_floats(e->p, c) ? ", float" : "");
    fx_c_put_call(e, c, fx_arena_printf(e->local, "return fxrt_cuda_%s", function), fx_kernel_products(c->kernel) > 0 ? "products, " : "", ", stream", !attention);
    return FX_OK;
}

/* An address for every buffer: all that a plan asks of one is whether it is there and lies at a multiple of 16 bytes. */
static void put_plan(fx_emit *e, fx_text *t, size_t step)
{
    const fx_step_facts *f = &e->facts[step];
    fx_text line;
    fx_text_init(&line, e->local);
    fx_printf(&line, "    %s_CUDA(\"planning %s\", %s(%s%s", e->PREFIX, e->p->steps[step].name, e->steps[step], fx_cuda_products_name(e->p->steps[step].region > 0),
              f->weights ? ", ctx->weights" : "");
    for (size_t i = 0; i < f->n_params; i++)
        fx_puts(&line, e->p->bufs[f->params[i].buf].dtype == FX_F32 ? ", some" : ", narrow");
    fx_printf(t, "%s, nullptr));\n", line.data);
    fx_emit_done(e);
}

static bool has_symbols(const fx_emit *e, size_t step)
{
    for (size_t i = 0; i < e->p->n_symbols; i++)
        if (e->facts[step].symbols[i])
            return true;
    return false;
}

static void put_planning(fx_emit *e, fx_text *t, int on)
{
    for (int beside = 0; beside < 2; beside++)
        if (fx_cuda_uses_products(e, beside))
            fx_printf(t, "    %s->planning = %d;\n", fx_cuda_products_name(beside), on);
}

/* Products of sizes that are not known yet are planned when they first run. */
void fx_cuda_plan(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    if (!fx_cuda_has_products(e))
        return;
    fx_printf(t, "\n/* Makes cuBLASLt's handle, and asks it how to do each product: run finds the answers. */\nstatic int %s_plan(%s_context *ctx)\n{\n", n, n);
    for (int beside = 0; beside < 2; beside++) {
        const char *products = fx_cuda_products_name(beside);
        if (fx_cuda_uses_products(e, beside))
            fx_printf(t, "    fxrt_cuda_products *const %s = &ctx->%s;\n    %s_CUDA(\"starting cuBLASLt\", fxrt_cuda_products_create(%s, %s_%s_WORKSPACE, %d /* whether TF32 may be used */));\n",
                      products, products, N, products, N, beside ? "BESIDE" : "PRODUCTS", e->p->target.tf32);
    }
    bool any = false, narrow = false;
    for (size_t i = 0; i < e->p->n_steps; i++) {
        const fx_step_facts *f = &e->facts[i];
        bool planned = f->products && !has_symbols(e, i);
        any |= planned;
        for (size_t k = 0; planned && k < f->n_params; k++)
            narrow |= e->p->bufs[f->params[k].buf].dtype != FX_F32;
    }
    if (any) {
        put_planning(e, t, 1);
        fx_puts(t, "    float *const some = reinterpret_cast<float *>(ctx->arena); /* for every buffer: only their alignment counts */\n");
        if (narrow)
            fx_puts(t, "    uint16_t *const narrow = reinterpret_cast<uint16_t *>(ctx->arena); /* for those of 16 bits */\n");
        for (size_t i = 0; i < e->p->n_steps; i++)
            if (e->facts[i].products && !has_symbols(e, i))
                put_plan(e, t, i);
        put_planning(e, t, 0);
    }
    fx_printf(t, "    return %s_OK;\n}\n", N);
}
