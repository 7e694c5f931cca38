/* tests/fuzz/jit.c: cases as machine code in memory.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>

#include "ir/ops.h"
#include "jit/code.h"
#include "tests/fuzz/fuzz.h"

typedef struct jit_args {
    fz_case *c;                  /* the case or one of its variants: inputs and what they have to give */
    fx_program *p;
    const fx_code *code;
    fz_failure *f;
} jit_args;

static fx_status run(void *user)
{
    jit_args *a = user;
    fx_program *p = a->p;
    fx_context *ctx = p->ctx;
    fx_arena *arena = fx_context_arena(ctx);
    int64_t *values = FX_NEW_ARRAY(arena, int64_t, p->n_symbols + 1);
    void **io = FX_NEW_ARRAY(arena, void *, p->n_inputs + p->n_outputs + 1);
    const void **weights = FX_NEW_ARRAY(arena, const void *, p->n_bufs + 1);
    fx_tensor *got = FX_NEW_ARRAY(arena, fx_tensor, FZ_MAX_RESULTS); /* outputs, then inputs that change */
    FX_TRY(fx_program_values(p, a->c->n_in, a->c->in, values));
    uint64_t size = fx_code_arena_size(a->code, values);
    unsigned char *block = fx_arena_alloc(arena, size + 64);
    memset(block, 0xff, size + 64);
    block += 64 - (uintptr_t)block % 64;
    fx_tensor own[FZ_MAX_INPUTS]; /* those that change are copies */
    unsigned char *state = fx_arena_alloc(arena, p->state_size + 64);
    state += 64 - (uintptr_t)state % 64;
    fx_program_init_state(p, state);
    for (size_t i = 0; i < p->n_inputs; i++)
        own[i] = a->c->in[i];
    for (size_t k = 0; k < a->c->n_changed; k++)
        FX_TRY(fx_tensor_copy(ctx, &a->c->in[a->c->changed[k]], &own[a->c->changed[k]]));
    for (size_t i = 0; i < p->n_inputs; i++)
        io[i] = own[i].data;
    for (size_t i = 0; i < p->n_outputs; i++) {
        int64_t dims[FX_MAX_RANK];
        for (int d = 0; d < p->outputs[i].rank; d++)
            if (!fx_dim_eval(fx_program_symbols(p), values, p->outputs[i].dims[d], &dims[d]))
                return fx_fail(ctx, FX_INTERNAL, NULL, "an output's size is not told");
        FX_TRY(fx_tensor_create(ctx, p->outputs[i].dtype, p->outputs[i].rank, dims, &got[i]));
        io[p->n_inputs + i] = got[i].data;
    }
    size_t n = 0;
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].kind == FX_BUF_WEIGHT)
            weights[n++] = p->bufs[i].data;
    int32_t status = fx_code_run(a->code, io, weights, block, state, values);
    if (status && a->c->refuses)
        return FX_OK;
    if (a->c->refuses)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "a wrong number for %s is not refused", a->c->refuses);
    if (status)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "check %d fails", status);
    for (size_t k = 0; k < a->c->n_changed; k++)
        got[a->c->n_out + k] = own[a->c->changed[k]];
    a->c->jitted = got;
    for (size_t i = 0; i < a->c->n_out + a->c->n_changed; i++) {
        char text[300], sizes[80];
        if (fz_compare(a->c, i, &got[i], NULL, text, sizeof text))
            continue;
        fz_fail(a->f, FZ_JIT, NULL, "%s%s", fz_sizes_text(a->c, sizes, sizeof sizes), text);
        snprintf(a->f->kind, sizeof a->f->kind, "values");
        return FX_ERR_ARGUMENT;
    }
    return FX_OK;
}

bool fz_case_jit(fz_case *c, fz_failure *f)
{
    fz_rng r = {c->seed ^ 0x2545f4914f6cdd1du};
    fx_code_options o = {.level = (int)fz_in(&r, 0, 3), .threads = c->settings.threads};
    fx_code *code;
    if (fx_code_compile(c->program, &o, &code) != FX_OK) {
        fz_fail(f, FZ_JIT, c->ctx, "%s", "");
        return false;
    }
    bool good = true;
    fz_case *runs[FZ_MAX_RUNS];
    int n = fz_runs(c, runs);
    for (int v = 0; good && v < n; v++) {
        jit_args a = {runs[v], c->program, code, f};
        if (fx_protect(c->ctx, run, &a) != FX_OK) {
            good = false;
            if (f->stage != FZ_JIT)
                fz_fail(f, FZ_JIT, c->ctx, "%s", "");
        }
    }
    fx_code_free(code);
    return good;
}
