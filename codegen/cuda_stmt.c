/* codegen/cuda_stmt.c: launches as CUDA kernels: the C printer's steps, but for heads, loops over a grid, and marks of loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

/* ---- launches ------------------------------------------------------------------------------------------------------------- */

static const fx_stmt *find_call(const fx_stmt *s)
{
    for (; s; s = s->next) {
        const fx_stmt *call = s->kind == FX_ST_CALL ? s : find_call(s->body);
        if (call)
            return call;
    }
    return NULL;
}

/* All layers that need a kernel are told at once: the first with its name and place, the others by their number. */
static fx_status refuse_calls(const fx_program *p)
{
    const fx_step *first = NULL;
    size_t others = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        bool calls = find_call(p->steps[i].body) != NULL;
        others += calls && first;
        first = calls && !first ? &p->steps[i] : first;
    }
    if (!first)
        return FX_OK;
    const char *more = !others ? "" : fx_arena_printf(p->arena, "; %zu other layer%s too", others, others == 1 ? " does" : "s do");
    return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &first->loc, "layer '%s' (%s) needs the kernel %s, which has no CUDA form yet%s", first->name,
                   first->title ? first->title : first->name, fx_kernel_get(find_call(first->body)->call->kernel)->name, more);
}

/* The loop over a grid that a launch is, behind its comments; NULL: it is none, and nothing to do. */
static const fx_stmt *grid_of(const fx_stmt *s)
{
    while (s && s->kind == FX_ST_COMMENT)
        s = s->next;
    return s;
}

static bool is_empty(const fx_stmt *grid)
{
    for (; grid && grid->kind == FX_ST_LOOP && grid->loop == FX_LOOP_GRID; grid = grid->body)
        if (fx_dim_known(grid->extent) && grid->extent.value <= 0)
            return true;
    return false;
}

/* Comments belong to the launch that follows them. */
static fx_status split_step(fx_program *out, const fx_step *step)
{
    fx_stmt *first = NULL, **tail = &first;
    for (const fx_stmt *s = step->body; s; s = s->next) {
        fx_stmt *copy = *tail = fx_stmt_copy(out, s);
        copy->next = NULL;
        tail = &copy->next;
        if (s->kind == FX_ST_COMMENT)
            continue;
        if (s->kind != FX_ST_LOOP || s->loop != FX_LOOP_GRID)
            return fx_fail(out->ctx, FX_INTERNAL, &step->loc, "step '%s': a statement outside a loop over a grid", step->name);
        if (!is_empty(s)) {
            fx_step launch = *step;
            launch.body = first;
            FX_PUSH(out->arena, out->steps, out->n_steps, out->cap_steps) = launch;
        }
        first = NULL;
        tail = &first;
    }
    return FX_OK;
}

fx_status fx_cuda_launches(fx_program *p, fx_program *out)
{
    FX_TRY(refuse_calls(p));
    *out = *p;
    out->steps = NULL;
    out->n_steps = out->cap_steps = 0;
    for (size_t i = 0; i < p->n_steps; i++)
        FX_TRY(split_step(out, &p->steps[i]));
    return FX_OK;
}

/* ---- facts ------------------------------------------------------------------------------------------------------------------ */

static fx_status scan_loop(void *user, const fx_stmt *loop)
{
    enum { LARGEST_BLOCK = 1024 };
    fx_emit *e = user;
    if (loop->loop == FX_LOOP_GRID && loop->extent.value > INT32_MAX - LARGEST_BLOCK)
        e->fact->wide = true; /* what the last block counts to */
    return fx_c_scan_loop(user, loop);
}

fx_status fx_cuda_scan(fx_emit *e)
{
    fx_hooks scan = fx_c_scan_hooks;
    scan.loop_begin = scan_loop;
    e->facts = FX_NEW_ARRAY(e->arena, fx_step_facts, e->p->n_steps + 1);
    return fx_walk(e->p, &scan, e);
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------ */

bool fx_cuda_guard(const fx_stmt *grid)
{
    return !fx_dim_known(grid->extent) || grid->extent.value % grid->threads != 0;
}

/* The threads that a last block has too many return: nobody waits for them in a grid. */
static void put_guard(fx_emit *e)
{
    fx_text t;
    fx_text_init(&t, e->local);
    for (const fx_stmt *s = grid_of(e->step->body); s && s->kind == FX_ST_LOOP && s->loop == FX_LOOP_GRID; s = s->body)
        if (fx_cuda_guard(s))
            fx_printf(&t, "%s%s >= %s", t.size ? " || " : "", e->loops[s->var].name, fx_c_dim(e, s->extent));
    if (!t.size)
        return;
    fx_emit_line(e, "if (%s)", t.data);
    fx_emit_line(e, "    return;");
}

static fx_status loop_begin(void *user, const fx_stmt *loop)
{
    static const char *const usual[] = {"x", "y", "z"};
    fx_emit *e = user;
    if (loop->loop != FX_LOOP_GRID)
        return fx_c_step_hooks.loop_begin(user, loop);
    fx_loopname *l = &e->loops[loop->var];
    char axis = usual[loop->axis][0];
    l->extent = loop->extent;
    l->name = NULL;
    if (!fx_dim_is(loop->extent, 1)) {
        l->name = fx_names_make(e->scope, loop->hint ? loop->hint : usual[loop->axis], 24, "i");
        const char *type = e->fact->wide ? "ptrdiff_t" : "int", *cast = e->fact->wide ? "(ptrdiff_t)" : "";
        if (loop->threads == 1)
            fx_emit_line(e, "const %s %s = blockIdx.%c;", type, l->name, axis);
        else if (fx_dim_known(loop->extent) && loop->extent.value <= loop->threads)
            fx_emit_line(e, "const %s %s = threadIdx.%c;", type, l->name, axis);
        else
            fx_emit_line(e, "const %s %s = %sblockIdx.%c * %d + threadIdx.%c;", type, l->name, cast, axis, loop->threads, axis);
    }
    if (!(loop->body && loop->body->kind == FX_ST_LOOP && loop->body->loop == FX_LOOP_GRID))
        put_guard(e);
    return FX_OK;
}

static fx_status loop_end(void *user, const fx_stmt *loop)
{
    return loop->loop == FX_LOOP_GRID ? FX_OK : fx_c_step_hooks.loop_end(user, loop);
}

fx_status fx_cuda_steps(fx_emit *e, fx_text *t)
{
    fx_hooks hooks = fx_c_step_hooks;
    hooks.loop_begin = loop_begin;
    hooks.loop_end = loop_end;
    return fx_c_steps(e, t, &hooks);
}
