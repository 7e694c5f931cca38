/* lower/map_gpu.c: for a GPU, the statements of each step as launches: nests of loops over a grid.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * It comes after memory: which iterations may run at once depends on which buffers lie on one another. Each nest is a launch, in the step's
 * order, as launches of one stream wait for one another; those that need not wait may be one (map_beside.c). Calls of kernels stay: they launch what they need themselves. */
#include "lower/map_gpu.h"

static bool is_launch(const fx_stmt *s)
{
    return s->kind == FX_ST_LOOP || s->kind == FX_ST_CALL || s->kind == FX_ST_COMMENT;
}

/* Plain code for one thread: loops that were marked for CPUs lose their marks. */
static void make_serial(fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP && (s->loop == FX_LOOP_PARALLEL || (s->loop == FX_LOOP_VECTOR && !s->aligned)))
            s->loop = FX_LOOP_SERIAL;
        make_serial(s->body);
    }
}

static bool has_call(const fx_stmt *s)
{
    for (; s; s = s->next)
        if (s->kind == FX_ST_CALL || has_call(s->body))
            return true;
    return false;
}

fx_stmt *fx_map_one_thread(fx_gpu_map *m, fx_stmt *list)
{
    fx_stmt *grid = fx_stmt_new(m->p, FX_ST_LOOP);
    grid->var = m->next_var++;
    grid->extent = fx_dim_of(1);
    grid->loop = FX_LOOP_GRID;
    grid->threads = 1;
    grid->body = list;
    return grid;
}

/* What is declared at the step's level is seen by all that follows: from there on it is one launch. Stores alone are launches until the next nest. */
static fx_stmt *cut_plain(fx_stmt **rest)
{
    fx_stmt *first = *rest, *s = first;
    bool declares = false;
    for (;; s = s->next) {
        declares |= s->kind == FX_ST_LOCAL || s->kind == FX_ST_ARRAY;
        if (!s->next || (!declares && is_launch(s->next)))
            break;
    }
    *rest = s->next;
    s->next = NULL;
    return first;
}

/* Partial results of a step lie above what memory has planned, where those of other steps lie, too. */
int fx_map_partial(fx_gpu_map *m, fx_dtype dtype, fx_dim numel)
{
    enum { ALIGN = 64 };
    fx_program *p = m->p;
    int id = fx_program_buf(p, FX_BUF_ARENA, "partial", dtype, 1, &numel);
    p->bufs[id].workspace = true;
    if (!p->n_symbols) {
        p->bufs[id].offset = m->top;
        m->top += (fx_buf_bytes(&p->bufs[id]) + ALIGN - 1) / ALIGN * ALIGN;
        p->arena_size = m->top > p->arena_size ? m->top : p->arena_size;
        return id;
    }
    size_t at = m->n_slots + m->n_partials++;
    if (at == p->n_slots) {
        int *above = FX_NEW_ARRAY(p->arena, int, at + 1);
        for (size_t i = 0; i < at; i++)
            above[i] = (int)i;
        fx_slot slot = {.n_above = (int)at, .above = above};
        FX_PUSH(p->arena, p->slots, p->n_slots, p->cap_slots) = slot;
    }
    fx_slot *s = &p->slots[at];
    fx_dim *bytes = FX_NEW_ARRAY(p->arena, fx_dim, s->n + 1);
    for (int i = 0; i < s->n; i++)
        bytes[i] = s->bytes[i];
    bytes[s->n++] = fx_dim_scale(p->ctx, numel, (int64_t)fx_dtype_size(dtype));
    s->bytes = bytes;
    p->bufs[id].slot = (int)at;
    return id;
}

/* The arena at the upper ends of the symbols' ranges; 0 where there are none. */
static void find_arena_size(fx_program *p, fx_arena *scratch)
{
    int64_t *top = FX_NEW_ARRAY(scratch, int64_t, p->n_symbols + 1);
    bool bounded = true;
    for (size_t i = 0; i < p->n_symbols; i++) {
        top[i] = p->symbols[i].max;
        bounded &= top[i] != INT64_MAX;
    }
    if (!bounded || !fx_program_arena(p, top, &p->arena_size, NULL))
        p->arena_size = 0;
}

/* What becomes one launch: a nest, or a list that declares something around it. */
static fx_stmt *map_one(fx_gpu_map *m, const fx_stmt *s, bool rows)
{
    fx_stmt *mapped = rows ? fx_map_rows(m, s) : NULL;
    if (!mapped) {
        fx_map_nest w = {.m = m, .nest = s};
        fx_map_look(&w);
        mapped = fx_map_transpose(&w);
        if (!mapped)
            mapped = fx_map_points(&w);
    }
    make_serial(mapped);
    return mapped;
}

static fx_stmt *map_list(fx_gpu_map *m, const fx_stmt *s)
{
    fx_stmt *parts, *whole;
    bool columns; /* a thread a column and part: neighbours read neighbours */
    if (!fx_map_split(m, s, &parts, &columns, &whole))
        return map_one(m, s, true);
    fx_stmt *first = map_one(m, parts, !columns), *last = first;
    while (last->next)
        last = last->next;
    last->next = map_one(m, whole, true);
    return first;
}

static void map_step(fx_gpu_map *m, fx_step *step)
{
    const bool beside = step > m->p->steps && step->region && step[-1].region == step->region; /* they run at once with those of the step before */
    if (!beside) {
        m->top = m->arena_size;
        m->n_partials = 0;
    }
    fx_stmt *rest = step->body, *out = NULL, **tail = &out;
    m->next_var = fx_nest_next_var(step->body);
    m->next_local = fx_nest_next_local(step->body);
    while (rest) {
        fx_stmt *s = rest;
        if (is_launch(s)) {
            rest = s->next;
            s->next = NULL;
        } else {
            s = cut_plain(&rest);
        }
        if (s->kind != FX_ST_COMMENT && !has_call(s))
            s = map_list(m, s);
        *tail = s;
        while (*tail)
            tail = &(*tail)->next;
        fx_arena_reset(m->l->piece);
    }
    step->body = out;
}

fx_status fx_pass_map_gpu(fx_lower *l)
{
    fx_program *p = l->program;
    if (!fx_target_is_gpu(&p->target))
        return FX_OK;
    fx_gpu_map m = {.l = l, .p = p,
                    .r = {.ctx = l->ctx, .p = p, .symbols = fx_program_symbols(p), .isl = fx_lower_isl(l), .arena = l->piece, .kept = l->scratch}};
    m.arena_size = (p->arena_size + 63) / 64 * 64;
    m.n_slots = p->n_slots;
    for (size_t i = 0; i < p->n_steps; i++) {
        m.r.step = (int)i;
        map_step(&m, &p->steps[i]);
    }
    fx_map_beside(&m);
    if (p->n_slots > m.n_slots)
        find_arena_size(p, l->scratch);
    return FX_OK;
}
