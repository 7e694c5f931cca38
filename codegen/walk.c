/* codegen/walk.c: the one walk over a loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/walk.h"

#define HOOK(name, arg)                       \
    do {                                      \
        if (hooks->name)                      \
            FX_TRY(hooks->name(user, (arg))); \
    } while (0)

/* Recursion is as deep as loops and guards nest, a few levels. */
static fx_status walk_body(const fx_stmt *s, const fx_hooks *hooks, void *user)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case FX_ST_LOOP:
            if (fx_dim_known(s->extent) && s->extent.value <= 0)
                break;
            HOOK(loop_begin, s);
            FX_TRY(walk_body(s->body, hooks, user));
            HOOK(loop_end, s);
            break;
        case FX_ST_IF:
            HOOK(if_begin, s);
            FX_TRY(walk_body(s->body, hooks, user));
            HOOK(if_end, s);
            break;
        case FX_ST_STORE: HOOK(store, s); break;
        case FX_ST_LOCAL: HOOK(local, s); break;
        case FX_ST_SET: HOOK(set, s); break;
        case FX_ST_CALL: HOOK(call, s); break;
        case FX_ST_COMMENT: HOOK(comment, s); break;
        case FX_ST_ARRAY: HOOK(array, s); break;
        case FX_ST_CHECK:
            HOOK(check_begin, s);
            FX_TRY(walk_body(s->body, hooks, user));
            HOOK(check_end, s);
            break;
        case FX_ST_BARRIER: HOOK(barrier, s); break;
        case FX_ST_REDUCE: HOOK(reduce, s); break;
        }
    }
    return FX_OK;
}

fx_status fx_walk_step(const fx_step *step, const fx_hooks *hooks, void *user)
{
    HOOK(step_begin, step);
    FX_TRY(walk_body(step->body, hooks, user));
    HOOK(step_end, step);
    return FX_OK;
}

fx_status fx_walk(const fx_program *p, const fx_hooks *hooks, void *user)
{
    for (size_t i = 0; i < p->n_steps; i++)
        FX_TRY(fx_walk_step(&p->steps[i], hooks, user));
    return FX_OK;
}
