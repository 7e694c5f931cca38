/* codegen/cuda_stmt.c: launches as CUDA kernels: the C printer's steps, but for heads, loops over a grid, and marks of loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* ---- launches ------------------------------------------------------------------------------------------------------------- */

const fx_stmt *fx_cuda_nest(const fx_stmt *s)
{
    while (s && s->kind == FX_ST_COMMENT)
        s = s->next;
    return s;
}

static bool is_loop(const fx_stmt *s, fx_loop_kind kind)
{
    return s && s->kind == FX_ST_LOOP && s->loop == kind;
}

static bool is_axis(const fx_stmt *s)
{
    return is_loop(s, FX_LOOP_GRID) || is_loop(s, FX_LOOP_BLOCK);
}

static bool is_empty(const fx_stmt *s)
{
    for (; is_axis(s); s = s->body)
        if (fx_dim_known(s->extent) && s->extent.value <= 0)
            return true;
    return false;
}

void fx_cuda_threads(const fx_stmt *s, int64_t threads[3])
{
    for (; s; s = s->next) {
        if (is_loop(s, FX_LOOP_THREAD) && s->extent.value > threads[s->axis])
            threads[s->axis] = s->extent.value;
        fx_cuda_threads(s->body, threads);
    }
}

static bool stores_to(const fx_stmt *s, int buf)
{
    for (; s; s = s->next)
        if ((s->kind == FX_ST_STORE && s->buf == buf) || stores_to(s->body, buf))
            return true;
    return false;
}

static bool loads_stored(const fx_stmt *kernel, const fx_sexpr *x)
{
    bool loads = x && x->op == FX_S_LOAD && stores_to(kernel, x->buf);
    for (int i = 0; x && i < fx_sop_arity(x->op) && !loads; i++)
        loads = loads_stored(kernel, x->arg[i]);
    return loads;
}

/* The one loop over threads in another one's body, behind comments and arrays; NULL: what is there is for a thread. */
static const fx_stmt *inner_threads(const fx_stmt *loop)
{
    const fx_stmt *s = loop->body;
    while (s && s->kind == FX_ST_COMMENT)
        s = s->next;
    return is_loop(s, FX_LOOP_THREAD) ? s : NULL;
}

/* What a block's body may have: statements that every thread runs alike, and loops over threads, each all of what is inside the one around. */
static const char *wrong_in_block(const fx_stmt *kernel, const fx_stmt *s, uint64_t *shared, const fx_program *p)
{
    for (const char *wrong = NULL; s; s = s->next) {
        const fx_stmt *inner = NULL;
        switch (s->kind) {
        case FX_ST_COMMENT:
            break;
        case FX_ST_ARRAY:
            *shared += (fx_buf_bytes(&p->bufs[s->buf]) + 15) / 16 * 16;
            break;
        case FX_ST_LOCAL: case FX_ST_SET:
            if (loads_stored(kernel, s->value))
                return "a value outside the loops over threads is read from what they store to";
            break;
        case FX_ST_LOOP:
            for (inner = s; is_loop(inner, FX_LOOP_THREAD); inner = inner_threads(inner)) {
                if (!fx_dim_known(inner->extent))
                    return "a block's number of threads depends on sizes";
                if (inner != s && inner->next)
                    return "a loop over threads is not all of what is inside another one";
            }
            if (s->loop == FX_LOOP_THREAD)
                break;
            if (s->loop != FX_LOOP_SERIAL && s->loop != FX_LOOP_UNROLLED)
                return "a loop of blocks is not all of what is inside another one";
            wrong = wrong_in_block(kernel, s->body, shared, p);
            if (wrong)
                return wrong;
            break;
        default:
            return "a statement outside the loops over threads is not for all of them";
        }
    }
    return NULL;
}

static fx_status check_blocks(const fx_program *p, const fx_step *step, const fx_stmt *s)
{
    enum { MOST_SHARED = 48 << 10, MOST_THREADS = 1024, MOST_Z = 64 };
    int64_t n[3] = {1, 1, 1};
    uint64_t shared = 0;
    while (is_loop(s->body, FX_LOOP_BLOCK) && !s->body->next)
        s = s->body;
    const char *wrong = wrong_in_block(s->body, s->body, &shared, p);
    if (wrong)
        return fx_fail(p->ctx, FX_INTERNAL, &step->loc, "step '%s': %s", step->name, wrong);
    fx_cuda_threads(s->body, n);
    if (n[0] > MOST_THREADS || n[1] > MOST_THREADS || n[2] > MOST_Z || n[0] * n[1] * n[2] > MOST_THREADS)
        return fx_fail(p->ctx, FX_INTERNAL, &step->loc, "step '%s': expected a block of 1 to %d threads, 1 to %d along z, got %lld x %lld x %lld", step->name,
                       MOST_THREADS, MOST_Z, (long long)n[0], (long long)n[1], (long long)n[2]);
    if (shared > MOST_SHARED)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &step->loc, "step '%s': expected at most %d bytes of shared memory in a block, which every device has, got %llu",
                       step->name, MOST_SHARED, (unsigned long long)shared);
    return FX_OK;
}

/* Comments belong to the nest that follows them; nests beside one another are one launch. */
static fx_status split_step(fx_program *out, const fx_step *step)
{
    fx_step launch = *step;
    fx_stmt *comments = NULL, **tail = &launch.body, **comment = &comments;
    launch.body = NULL;
    for (const fx_stmt *s = step->body; s; s = s->next) {
        if (s->kind == FX_ST_COMMENT) {
            *comment = fx_stmt_copy(out, s);
            comment = &(*comment)->next;
            continue;
        }
        if (s->kind == FX_ST_CALL && !*fx_kernel_get(s->call->kernel)->cuda)
            return fx_fail(out->ctx, FX_INTERNAL, &step->loc, "step '%s': the kernel %s, of which GPUs have none", step->name, fx_kernel_get(s->call->kernel)->name);
        if (s->kind != FX_ST_CALL && !is_axis(s))
            return fx_fail(out->ctx, FX_INTERNAL, &step->loc, "step '%s': a statement outside a loop over a grid or blocks", step->name);
        if (is_loop(s, FX_LOOP_BLOCK))
            FX_TRY(check_blocks(out, step, s));
        if (!s->beside && launch.body) {
            FX_PUSH(out->arena, out->steps, out->n_steps, out->cap_steps) = launch;
            launch.body = NULL;
            tail = &launch.body;
        }
        if (!is_empty(s)) {
            *comment = fx_stmt_copy(out, s);
            *tail = comments;
            tail = &(*comment)->next;
        }
        comments = NULL;
        comment = &comments;
    }
    if (launch.body)
        FX_PUSH(out->arena, out->steps, out->n_steps, out->cap_steps) = launch;
    return FX_OK;
}

fx_status fx_cuda_launches(fx_program *p, fx_program *out)
{
    *out = *p;
    out->steps = NULL;
    out->n_steps = out->cap_steps = 0;
    for (size_t i = 0; i < p->n_steps; i++)
        FX_TRY(split_step(out, &p->steps[i]));
    return FX_OK;
}

/* ---- what aligned loops read and write at once --------------------------------------------------------------------------------- */

static void add_piece(fx_emit *e, const fx_stmt *loop, int buf, bool written, const fx_affine *index)
{
    if (!fx_dim_is(fx_affine_coef(index, loop->var), 1))
        return; /* one element for all */
    for (size_t i = 0; i < e->n_pieces; i++)
        if (e->pieces[i].buf == buf && fx_affine_equal(e->pieces[i].index, index))
            return;
    fx_piece piece = {.buf = buf, .written = written, .index = index};
    FX_PUSH(e->arena, e->pieces, e->n_pieces, e->cap_pieces) = piece;
}

static void find_loads(fx_emit *e, fx_map *seen, const fx_stmt *loop, const fx_sexpr *x)
{
    if (!x || fx_map_get(seen, x))
        return;
    fx_map_put(e->local, seen, x, e);
    if (x->op == FX_S_LOAD)
        add_piece(e, loop, x->buf, false, &x->index);
    for (int i = 0; i < 3; i++)
        find_loads(e, seen, loop, x->arg[i]);
}

static void find_pieces(fx_emit *e, const fx_stmt *loop)
{
    fx_map seen = {0};
    e->n_pieces = 0;
    for (const fx_stmt *s = loop->body; s; s = s->next) {
        find_loads(e, &seen, loop, s->value);
        if (s->kind == FX_ST_STORE)
            add_piece(e, loop, s->buf, true, &s->index);
    }
}

/* ---- facts ------------------------------------------------------------------------------------------------------------------ */

static fx_status scan_loop(void *user, const fx_stmt *loop)
{
    enum { LARGEST_BLOCK = 1024 };
    fx_emit *e = user;
    if (loop->loop == FX_LOOP_GRID && fx_c_most(e, loop->extent) > INT32_MAX - LARGEST_BLOCK)
        e->fact->wide = true; /* what the last block counts to */
    if (loop->aligned) {
        find_pieces(e, loop);
        if (!e->at_once)
            e->at_once = FX_NEW_ARRAY(e->arena, bool, e->p->n_bufs + 1);
        for (size_t i = 0; i < e->n_pieces; i++)
            e->at_once[e->pieces[i].buf] = true;
        e->n_pieces = 0;
    }
    return fx_c_scan_loop(user, loop);
}

static fx_status scan_reduce(void *user, const fx_stmt *s)
{
    (void)s;
    fx_emit *e = user;
    e->reduces = true;
    return FX_OK;
}

fx_status fx_cuda_scan(fx_emit *e)
{
    fx_hooks scan = fx_c_scan_hooks;
    scan.loop_begin = scan_loop;
    scan.reduce = scan_reduce;
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
    for (const fx_stmt *s = e->nest; is_loop(s, FX_LOOP_GRID); s = s->body)
        if (fx_cuda_guard(s) && e->loops[s->var].name)
            fx_printf(&t, "%s%s >= %s", t.size ? " || " : "", e->loops[s->var].name, fx_c_dim(e, s->extent));
        else if (fx_cuda_guard(s))
            fx_printf(&t, "%sthreadIdx.%c > 0", t.size ? " || " : "", "xyz"[s->axis]);
    if (!t.size)
        return;
    fx_emit_line(e, "if (%s)", t.data);
    fx_emit_line(e, "    return;");
}

/* "x + i * 4": where a piece begins. */
static const char *place(fx_emit *e, const fx_piece *piece, const fx_stmt *loop)
{
    fx_affine first = *piece->index;
    fx_affine_add(e->ctx, &first, loop->var, fx_dim_of(-1));
    const char *at = fx_c_affine(e, &first), *buf = fx_c_buf(e, piece->buf);
    return strcmp(at, "0") == 0 ? buf : fx_arena_printf(e->local, "%s + %s", buf, at);
}

/* All is read before the loop; what it writes is gathered. */
static fx_status aligned_begin(fx_emit *e, const fx_stmt *loop)
{
    long long width = loop->extent.value;
    find_pieces(e, loop);
    for (size_t i = 0; i < e->n_pieces; i++) {
        fx_piece *p = &e->pieces[i];
        const fx_buf *b = &e->p->bufs[p->buf];
        p->name = fx_names_make(e->scope, fx_arena_printf(e->local, "%s_%lld", e->bufs[p->buf], width), FX_IDENT_MAX, "piece");
        if (p->written)
            fx_emit_line(e, "fxrt_cuda_vec<%lld, %s> %s;", width, fx_c_type(b->dtype), p->name);
        else
            fx_emit_line(e, "const auto %s = fxrt_cuda_load<%lld>(%s);", p->name, width, place(e, p, loop));
    }
    fx_stmt plain = fx_stmt_alone(loop);
    plain.loop = FX_LOOP_SERIAL;
    FX_TRY(fx_c_step_hooks.loop_begin(e, &plain));
    for (size_t i = 0; i < e->n_pieces; i++)
        e->pieces[i].name = fx_arena_printf(e->local, "%s.at[%s]", e->pieces[i].name, e->loops[loop->var].name);
    return FX_OK;
}

static fx_status aligned_end(fx_emit *e, const fx_stmt *loop)
{
    FX_TRY(fx_c_step_hooks.loop_end(e, loop));
    for (size_t i = 0; i < e->n_pieces; i++) {
        const fx_piece *p = &e->pieces[i];
        if (p->written)
            fx_emit_line(e, "fxrt_cuda_store(%s, %.*s);", place(e, p, loop), (int)strcspn(p->name, "."), p->name);
    }
    e->n_pieces = 0;
    return FX_OK;
}

/* How many blocks the loop needs, for all its iterations to have a thread. */
static fx_dim blocks_of(fx_emit *e, const fx_stmt *s)
{
    if (s->loop == FX_LOOP_BLOCK || s->threads == 1)
        return s->extent;
    return fx_dim_floordiv(e->ctx, fx_dim_plus(e->ctx, s->extent, s->threads - 1), fx_dim_of(s->threads));
}

fx_dim fx_cuda_blocks(fx_emit *e, const fx_stmt *nest, int axis)
{
    fx_dim all = fx_dim_of(1);
    for (const fx_stmt *s = nest; is_axis(s); s = s->body)
        if (axis < 0 || s->axis == axis)
            all = fx_dim_mul(e->ctx, all, blocks_of(e, s));
    return all;
}

/* The number of the block that the loop counts: loops of one axis share it, in a kernel of several nests all of a nest; the innermost is the fastest. */
static const char *number_of(fx_emit *e, const fx_stmt *loop)
{
    fx_text t;
    fx_text_init(&t, e->local);
    bool around = false;
    for (const fx_stmt *s = e->nest; s != loop; s = s->body)
        around |= (e->block_number || s->axis == loop->axis) && !fx_dim_is(blocks_of(e, s), 1);
    if (e->block_number)
        fx_printf(&t, "%s%s", e->fact->wide ? "(ptrdiff_t)" : "", e->block_number);
    else
        fx_printf(&t, "%sblockIdx.%c", e->fact->wide ? "(ptrdiff_t)" : "", "xyz"[loop->axis]);
    for (const fx_stmt *s = loop->body; is_axis(s); s = s->body)
        if ((e->block_number || s->axis == loop->axis) && !fx_dim_is(blocks_of(e, s), 1))
            fx_printf(&t, " / %s", fx_c_factor(e, blocks_of(e, s)));
    if (around)
        fx_printf(&t, " %% %s", fx_c_factor(e, blocks_of(e, loop)));
    return t.data;
}

static void axis_begin(fx_emit *e, const fx_stmt *loop)
{
    static const char *const usual[] = {"x", "y", "z"};
    fx_loopname *l = &e->loops[loop->var];
    const char *type = e->fact->wide ? "ptrdiff_t" : "int";
    char axis = usual[loop->axis][0];
    l->extent = loop->extent;
    l->name = NULL;
    if (fx_dim_is(loop->extent, 1))
        return;
    l->name = fx_names_make(e->scope, loop->hint ? loop->hint : usual[loop->axis], 24, "i");
    if (loop->loop == FX_LOOP_BLOCK || loop->threads == 1)
        fx_emit_line(e, "const %s %s = %s;", type, l->name, number_of(e, loop));
    else if (fx_dim_is(blocks_of(e, loop), 1))
        fx_emit_line(e, "const %s %s = threadIdx.%c;", type, l->name, axis);
    else
        fx_emit_line(e, "const %s %s = %s * %d + threadIdx.%c;", type, l->name, number_of(e, loop), loop->threads, axis);
}

/* In a kernel of several nests each takes its blocks, and the next one counts from there. */
static void nest_begin(fx_emit *e, const fx_stmt *nest)
{
    e->nest = nest;
    if (!e->block_number || !fx_cuda_nest(nest->next))
        return;
    fx_emit_line(e, "if (%s < %s) {", e->block_number, fx_c_dim(e, fx_cuda_blocks(e, nest, -1)));
    fx_c_enter_block(e);
}

static void nest_end(fx_emit *e, const fx_stmt *nest)
{
    e->nest = NULL;
    if (!e->block_number || !fx_cuda_nest(nest->next))
        return;
    fx_emit_line(e, "return;");
    fx_c_leave_block(e);
    fx_emit_line(e, "}");
    fx_emit_line(e, "%s -= %s;", e->block_number, fx_c_dim(e, fx_cuda_blocks(e, nest, -1)));
}

/* ---- threads of a block ----------------------------------------------------------------------------------------------------------- */

static const char *hint_of(const fx_stmt *s, int axis)
{
    const char *hint = NULL;
    for (; s && !hint; s = s->next)
        hint = is_loop(s, FX_LOOP_THREAD) && s->axis == axis && s->hint ? s->hint : hint_of(s->body, axis);
    return hint;
}

/* A thread's numbers, which all loops over threads have in common. */
static void block_begin(fx_emit *e, const fx_stmt *body)
{
    static const char *const usual[] = {"tx", "ty", "tz"};
    fx_block *b = e->block = FX_NEW(e->local, fx_block);
    for (int a = 0; a < 3; a++)
        b->threads[a] = 1;
    fx_cuda_threads(body, b->threads);
    for (int a = 0; a < 3; a++) {
        if (b->threads[a] == 1)
            continue;
        const char *hint = hint_of(body, a);
        b->name[a] = fx_names_make(e->scope, hint ? hint : usual[a], 24, "t");
        fx_emit_line(e, "const %s %s = threadIdx.%c;", e->fact->wide ? "ptrdiff_t" : "int", b->name[a], "xyz"[a]);
    }
    for (const fx_stmt *s = body; s; s = s->next)
        if (s->kind != FX_ST_COMMENT)
            b->last = s;
}

/* Threads that the loops do not count wait behind them. */
static void enter_threads(fx_emit *e, const fx_stmt *loop)
{
    const fx_stmt *along[3] = {NULL};
    fx_text t;
    fx_text_init(&t, e->local);
    for (const fx_stmt *s = loop; s; s = inner_threads(s))
        along[s->axis] = s;
    for (int a = 0; a < 3; a++) {
        int64_t threads = e->block->threads[a];
        const char *name = e->block->name[a], *and = t.size ? " && " : "";
        if (threads > 1 && (!along[a] || along[a]->extent.value == 1))
            fx_printf(&t, "%s%s == 0", and, name);
        else if (along[a] && along[a]->extent.value < threads)
            fx_printf(&t, "%s%s < %lld", and, name, (long long)along[a]->extent.value);
    }
    e->narrow = t.size > 0;
    if (e->narrow) {
        fx_emit_line(e, "if (%s) {", t.data);
        e->indent++;
    }
}

static fx_status threads_begin(fx_emit *e, const fx_stmt *loop)
{
    if (e->in_threads++ == 0)
        enter_threads(e, loop);
    e->loops[loop->var].extent = loop->extent;
    e->loops[loop->var].name = fx_dim_is(loop->extent, 1) ? NULL : e->block->name[loop->axis];
    return FX_OK;
}

static const fx_stmt *last_of(const fx_stmt *loop)
{
    const fx_stmt *s = loop->body;
    while (s && s->next)
        s = s->next;
    return is_loop(s, FX_LOOP_THREAD) ? last_of(s) : s;
}

/* What follows begins when all have done. */
static fx_status threads_end(fx_emit *e, const fx_stmt *loop)
{
    if (--e->in_threads)
        return FX_OK;
    if (e->narrow) {
        e->indent--;
        fx_emit_line(e, "}");
    }
    const fx_stmt *last = last_of(loop);
    if (loop != e->block->last && !(last && last->kind == FX_ST_BARRIER))
        fx_emit_line(e, "__syncthreads();");
    return FX_OK;
}

static fx_status barrier(void *user, const fx_stmt *s)
{
    (void)s;
    fx_emit *e = user;
    if (e->narrow)
        return fx_fail(e->ctx, FX_INTERNAL, &e->step->loc, "step '%s': a barrier that not all threads of the block reach", e->step->name);
    fx_emit_line(e, "__syncthreads();");
    return FX_OK;
}

static fx_status step_begin(void *user, const fx_step *step)
{
    fx_emit *e = user;
    const fx_stmt *nest = fx_cuda_nest(step->body);
    e->block = NULL;
    e->nest = NULL;
    e->block_number = NULL;
    FX_TRY(fx_c_step_hooks.step_begin(user, step));
    if (fx_cuda_nest(nest->next)) {
        e->block_number = fx_names_make(e->scope, "block", 24, "block");
        fx_emit_line(e, "int %s = blockIdx.x;", e->block_number);
    }
    return FX_OK;
}

static fx_status loop_begin(void *user, const fx_stmt *loop)
{
    fx_emit *e = user;
    if (loop->aligned)
        return aligned_begin(e, loop);
    if (loop->loop == FX_LOOP_THREAD)
        return threads_begin(e, loop);
    if (loop->loop == FX_LOOP_UNROLLED) {
        fx_stmt plain = fx_stmt_alone(loop);
        plain.loop = FX_LOOP_SERIAL;
        if (!fx_dim_is(loop->extent, 1))
            fx_emit_line(e, "FXRT_UNROLL");
        return fx_c_step_hooks.loop_begin(user, &plain);
    }
    if (loop->loop != FX_LOOP_GRID && loop->loop != FX_LOOP_BLOCK)
        return fx_c_step_hooks.loop_begin(user, loop);
    if (!e->nest)
        nest_begin(e, loop);
    axis_begin(e, loop);
    if (!is_loop(loop->body, loop->loop)) {
        if (loop->loop == FX_LOOP_GRID)
            put_guard(e);
        else
            block_begin(e, loop->body);
    }
    return FX_OK;
}

static fx_status loop_end(void *user, const fx_stmt *loop)
{
    fx_emit *e = user;
    if (loop == e->nest)
        nest_end(e, loop);
    if (is_axis(loop))
        return FX_OK;
    if (loop->loop == FX_LOOP_THREAD)
        return threads_end(user, loop);
    return loop->aligned ? aligned_end(user, loop) : fx_c_step_hooks.loop_end(user, loop);
}

/* The threads that reduce are those of the innermost loop over the grid. */
static fx_status reduce(void *user, const fx_stmt *s)
{
    enum { WARP = 32 };
    fx_emit *e = user;
    const fx_stmt *lanes = e->nest;
    while (is_loop(lanes->body, FX_LOOP_GRID))
        lanes = lanes->body;
    const char *name = e->locals[s->local].name;
    fx_emit_line(e, "%s = fxrt_cuda_%s(fxrt_cuda_%s(), %s);", name, lanes->threads == WARP ? "warp" : "block", fx_sop_name(s->op), name);
    return FX_OK;
}

fx_status fx_cuda_steps(fx_emit *e, fx_text *t)
{
    fx_hooks hooks = fx_c_step_hooks;
    hooks.step_begin = step_begin;
    hooks.loop_begin = loop_begin;
    hooks.loop_end = loop_end;
    hooks.barrier = barrier;
    hooks.call = fx_cuda_call;
    hooks.reduce = reduce;
    return fx_c_steps(e, t, &hooks);
}
