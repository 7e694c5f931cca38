/* ir/program_bind.c: a loop program's symbols: their limits, the arena for values of them, and the program at these values.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/program.h"

enum { ALIGN = 64 };

fx_symbols fx_program_symbols(const fx_program *p)
{
    return (fx_symbols){p->n_symbols, p->symbols};
}

int fx_program_symbol_place(const fx_program *p, size_t symbol, int *dim)
{
    int best = 0, input = -1;
    for (size_t i = 0; i < p->n_inputs; i++) {
        for (int d = 0; d < p->inputs[i].rank; d++) {
            int tells = fx_dim_tells(p->inputs[i].dims[d], p->symbols[symbol].name);
            if (tells <= best)
                continue;
            best = tells;
            input = (int)i;
            *dim = d;
        }
    }
    return input;
}

static bool size_of(const fx_program *p, const int64_t *values, fx_dim d, uint64_t *out)
{
    int64_t v;
    if (!fx_dim_eval(fx_program_symbols(p), values, d, &v) || v < 0 || v > INT64_MAX / 4)
        return false;
    *out = (uint64_t)v;
    return true;
}

void fx_program_init_state(const fx_program *p, unsigned char *state)
{
    for (size_t i = 0; i < p->n_states; i++) {
        const fx_buf *b = &p->bufs[p->states[i].buf];
        if (fx_buf_bytes(b))
            memcpy(state + b->offset, p->bufs[b->initial].data, fx_buf_bytes(b));
    }
}

/* Where slots start and end. */
static bool place_slots(const fx_program *p, const int64_t *values, uint64_t *at, uint64_t *end, uint64_t *size)
{
    *size = 0;
    for (size_t i = 0; i < p->n_slots; i++) {
        const fx_slot *s = &p->slots[i];
        uint64_t largest = 0;
        at[i] = 0;
        for (int k = 0; k < s->n_above; k++) {
            int below = s->above[k];
            if (below < 0 || (size_t)below >= i)
                return false;
            at[i] = end[below] > at[i] ? end[below] : at[i];
        }
        for (int k = 0; k < s->n; k++) {
            uint64_t bytes;
            if (!size_of(p, values, s->bytes[k], &bytes))
                return false;
            largest = bytes > largest ? bytes : largest;
        }
        end[i] = at[i] + (largest + ALIGN - 1) / ALIGN * ALIGN;
        if (end[i] > INT64_MAX / 4)
            return false;
        *size = end[i] > *size ? end[i] : *size;
    }
    return true;
}

bool fx_program_places(const fx_program *p, const int64_t *values, uint64_t *room, uint64_t *size, uint64_t *offsets)
{
    *size = p->arena_size;
    if (p->n_symbols && !place_slots(p, values, room, room + p->n_slots, size))
        return false;
    for (size_t i = 0; offsets && i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        const bool slotted = p->n_symbols && b->slot >= 0 && (size_t)b->slot < p->n_slots;
        offsets[i] = slotted ? room[b->slot] : !p->n_symbols && b->kind == FX_BUF_ARENA ? b->offset : 0;
    }
    return true;
}

bool fx_program_arena(const fx_program *p, const int64_t *values, uint64_t *size, uint64_t *offsets)
{
    return fx_program_places(p, values, FX_NEW_ARRAY(p->arena, uint64_t, 2 * p->n_slots + 1), size, offsets);
}

bool fx_program_arena_fits(const fx_program *p, const int64_t *values)
{
    uint64_t total = 0; /* slots one behind the other: as far as they can reach */
    for (size_t i = 0; i < p->n_slots; i++) {
        uint64_t largest = 0;
        for (int k = 0; k < p->slots[i].n; k++) {
            uint64_t bytes;
            if (!size_of(p, values, p->slots[i].bytes[k], &bytes))
                return false;
            largest = bytes > largest ? bytes : largest;
        }
        total += largest;
        if (total > INT64_MAX / 4)
            return false;
    }
    return true;
}

/* ---- limits -------------------------------------------------------------------------------------------------- */

void fx_program_limit(fx_program *p, fx_dim most, fx_dim d, const char *why)
{
    fx_symbols symbols = fx_program_symbols(p);
    fx_dim rest = fx_dim_sub(p->ctx, most, d);
    if (fx_dim_at_least(p->ctx, symbols, rest, 0))
        return;
    for (size_t i = 0; i < p->n_limits; i++) /* said already, or follows from what is */
        if (fx_dim_at_least(p->ctx, symbols, fx_dim_sub(p->ctx, rest, p->limits[i].value), 0))
            return;
    fx_text t;
    fx_text_init(&t, p->arena);
    fx_dim_print(&t, d);
    fx_puts(&t, " must be at most ");
    fx_dim_print(&t, most);
    fx_printf(&t, ": %s", why);
    FX_PUSH(p->arena, p->limits, p->n_limits, p->cap_limits) = (fx_limit){.value = rest, .text = t.data};
}

void fx_program_limit_call(fx_program *p, const fx_call_stmt *c)
{
    for (int i = 0; i < fx_kernel_get(c->kernel)->n_fields; i++)
        if (c->sym[i])
            fx_program_limit(p, fx_dim_of(INT32_MAX), fx_dim_sym(c->sym[i]), "kernels count in 32 bits");
}

/* ---- binding --------------------------------------------------------------------------------------------------- */

typedef struct bind {
    const fx_program *from;
    fx_program *to;
    fx_symbols symbols;
    const int64_t *values;
    bool ok;
} bind;

static fx_dim number(bind *b, fx_dim d)
{
    int64_t v = 0;
    if (!fx_dim_eval(b->symbols, b->values, d, &v))
        b->ok = false;
    return fx_dim_of(v);
}

static fx_affine bind_affine(bind *b, const fx_affine *a)
{
    fx_affine out = fx_affine_dim(number(b, a->base));
    for (int i = 0; i < a->n; i++)
        fx_affine_add(b->to->ctx, &out, a->var[i], number(b, a->coef[i]));
    return out;
}

static const fx_sexpr *bind_expr(bind *b, const fx_sexpr *e)
{
    fx_sexpr *out = fx_s_copy(b->to, e);
    if (e->op == FX_S_LOAD || e->op == FX_S_INDEX)
        out->index = bind_affine(b, &e->index);
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        out->arg[i] = bind_expr(b, e->arg[i]);
    return out;
}

static fx_stmt *bind_stmts(bind *b, const fx_stmt *s)
{
    fx_stmt *first = NULL, **tail = &first;
    for (; s; s = s->next) {
        fx_stmt *out = fx_stmt_copy(b->to, s);
        out->extent = number(b, s->extent);
        if (s->kind == FX_ST_STORE)
            out->index = bind_affine(b, &s->index);
        for (int i = 0; i < s->n_cond; i++)
            out->cond[i] = bind_affine(b, &s->cond[i]);
        if (s->value)
            out->value = bind_expr(b, s->value);
        if (s->call) {
            out->call = FX_NEW(b->to->arena, fx_call_stmt);
            b->ok &= fx_call_bind(b->symbols, b->values, s->call, out->call);
        }
        out->body = bind_stmts(b, s->body);
        *tail = out;
        tail = &out->next;
    }
    return first;
}

static fx_io *bind_ios(bind *b, const fx_io *ios, size_t n)
{
    fx_io *out = FX_NEW_ARRAY(b->to->arena, fx_io, n + 1);
    for (size_t i = 0; i < n; i++) {
        out[i] = ios[i];
        for (int d = 0; d < ios[i].rank; d++)
            out[i].dims[d] = number(b, ios[i].dims[d]);
    }
    return out;
}

bool fx_program_bind(fx_program *p, const int64_t *values, fx_program **out)
{
    fx_program *q = fx_program_new(p->ctx, p->name, &p->target);
    bind b = {.from = p, .to = q, .symbols = fx_program_symbols(p), .values = values, .ok = true};
    uint64_t *offsets = FX_NEW_ARRAY(q->arena, uint64_t, p->n_bufs + 1);
    *out = q;
    b.ok = fx_program_arena(p, values, &q->arena_size, offsets);
    q->file = p->file;
    q->weights_size = p->weights_size;
    q->state_size = p->state_size;
    q->counters_size = p->counters_size;
    memcpy(q->model_hash, p->model_hash, sizeof q->model_hash);
    for (size_t i = 0; i < p->n_bufs; i++) {
        fx_buf buf = p->bufs[i];
        buf.numel = number(&b, buf.numel);
        b.ok &= buf.numel.value >= 0;
        for (int d = 0; d < buf.rank; d++)
            buf.dims[d] = number(&b, buf.dims[d]);
        if (buf.kind == FX_BUF_ARENA)
            buf.offset = offsets[i];
        buf.slot = -1;
        FX_PUSH(q->arena, q->bufs, q->n_bufs, q->cap_bufs) = buf;
    }
    for (size_t i = 0; i < p->n_steps; i++) {
        fx_step s = p->steps[i];
        s.body = bind_stmts(&b, s.body);
        FX_PUSH(q->arena, q->steps, q->n_steps, q->cap_steps) = s;
    }
    q->inputs = bind_ios(&b, p->inputs, p->n_inputs);
    q->outputs = bind_ios(&b, p->outputs, p->n_outputs);
    q->states = bind_ios(&b, p->states, p->n_states);
    q->n_states = q->cap_states = p->n_states;
    q->n_inputs = q->cap_inputs = p->n_inputs;
    q->n_outputs = q->cap_outputs = p->n_outputs;
    return b.ok;
}
