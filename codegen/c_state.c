/* codegen/c_state.c: what a model that keeps something from run to run has more of: NAME_state_t, NAME_state_init, the state in NAME_run.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * State is the caller's memory, as the arena is: each instance of a model has a block of its own. Its members lie where lower/memory.c put
 * them; their initial values are members of the weights. */
#include "codegen/emit.h"

static const fx_buf *state_buf(const fx_emit *e, size_t i)
{
    return &e->p->bufs[e->p->states[i].buf];
}

bool fx_c_changes_inputs(const fx_emit *e)
{
    bool any = false;
    for (size_t i = 0; i < e->p->n_inputs; i++)
        any |= e->p->bufs[e->p->inputs[i].buf].changed;
    return any;
}

void fx_c_state_names(fx_emit *e)
{
    fx_names members;
    fx_names_init(&members, e->arena, &e->names);
    for (size_t i = 0; i <= e->p->n_states; i++)
        fx_names_take(&members, fx_arena_printf(e->arena, "pad%zu", i));
    e->states = FX_NEW_ARRAY(e->arena, const char *, e->p->n_states + 1);
    for (size_t i = 0; i < e->p->n_states; i++)
        e->states[i] = fx_names_make(&members, e->p->states[i].label ? e->p->states[i].label : e->p->states[i].name, FX_IDENT_MAX, "state");
}

void fx_c_state_header(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    if (!p->n_states)
        return;
    if (e->say->gpu)
        fx_puts(t, "/* What the model keeps from one run to the next, for each context its own. */\n");
    else
        fx_printf(t, "/* What the model keeps from one run to the next: %llu bytes of the caller's, aligned to %s_ARENA_ALIGN, for each context its own. */\n",
                  (unsigned long long)p->state_size, N);
    fx_printf(t, "typedef struct %s_state_t {\n", n);
    uint64_t at = 0;
    for (size_t i = 0; i <= p->n_states; i++) {
        uint64_t next = i < p->n_states ? state_buf(e, i)->offset : p->state_size;
        if (next > at)
            fx_printf(t, "    uint8_t pad%zu[%llu];\n", i, (unsigned long long)(next - at));
        if (i == p->n_states)
            break;
        const fx_buf *b = state_buf(e, i);
        fx_printf(t, "    %s %s[%lld]; /* ", fx_c_type(b->dtype), e->states[i], (long long)b->numel.value);
        fx_put_dims(e, t, b->rank, b->dims, "x");
        fx_puts(t, ", '");
        fx_put_comment(t, p->states[i].label ? p->states[i].label : p->states[i].name, 80);
        fx_puts(t, "' */\n");
        at = next + fx_buf_bytes(b);
    }
    fx_printf(t, "} %s_state_t;\n\n", n);
}

void fx_c_state_source(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    if (!p->n_states)
        return;
    fx_printf(t, "\nint %s_state_init(const %s_context *ctx)\n{\n    if (!ctx || !ctx->weights || !ctx->state)\n        return %s_ERR_NULL;\n", n, n, N);
    fx_printf(t, "    const %s_weights_t *weights = (const %s_weights_t *)ctx->weights;\n    %s_state_t *state = (%s_state_t *)ctx->state;\n", n, n, n, n);
    for (size_t i = 0; i < p->n_states; i++)
        fx_printf(t, "    memcpy(state->%s, weights->%s, sizeof state->%s);\n", e->states[i], e->bufs[state_buf(e, i)->initial], e->states[i]);
    fx_printf(t, "    return %s_OK;\n}\n", N);
}

void fx_c_state_pointers(fx_emit *e, fx_text *t, const bool *used)
{
    const char *n = e->prefix;
    bool any = false;
    for (size_t i = 0; i < e->p->n_states; i++)
        any |= used[e->p->states[i].buf];
    if (any)
        fx_printf(t, "    %s_state_t *state = (%s_state_t *)ctx->state;\n", n, n);
    for (size_t i = 0; i < e->p->n_states; i++)
        if (used[e->p->states[i].buf])
            fx_printf(t, "    %s *const %s = state->%s;\n", fx_c_type(state_buf(e, i)->dtype), e->bufs[e->p->states[i].buf], e->states[i]);
}
