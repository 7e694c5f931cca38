/* ir/program_run.c: an interpreter for loop programs, slow and plain.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <float.h>
#include <string.h>

#include "ir/lex.h"
#include "ir/ops.h"
#include "ir/program_scalar.h"

typedef struct local {
    int id;
    fx_scalar v;
} local;

typedef struct run {
    fx_program *p;
    fx_context *ctx;
    fx_arena *arena;             /* while threads run in step: theirs */
    fx_arena *kept;              /* lasts as long as the run */
    fx_arena *copies;            /* of one call's arguments */
    const fx_step *step;
    unsigned char **mem;         /* of each buffer */
    struct { int var; int64_t at; } loops[FX_MAX_LOOPS];
    int n_loops;
    local *locals; size_t n_locals, cap_locals;
    const char *failed;          /* the first check that did not hold */
} run;

static fx_status broken(run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static fx_status broken(run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = fx_arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    return fx_fail(r->ctx, FX_INTERNAL, &r->step->loc, "running step %s: %s", r->step->name, text);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

/* Of a loop's variable or an integer local. */
static int64_t value_of(const run *r, int var)
{
    for (int l = r->n_loops - 1; var >= 0 && l >= 0; l--) {
        if (r->loops[l].var == var)
            return r->loops[l].at;
    }
    for (size_t i = r->n_locals; var < 0 && i > 0; i--) {
        if (r->locals[i - 1].id == FX_VAR_LOCAL(var))
            return r->locals[i - 1].v.i;
    }
    return 0;
}

static int64_t index_of(const run *r, const fx_affine *a)
{
    uint64_t v = (uint64_t)a->base.value;
    for (int i = 0; i < a->n; i++)
        v += (uint64_t)a->coef[i].value * (uint64_t)value_of(r, a->var[i]);
    return (int64_t)v;
}

static fx_status element(run *r, int buf, const fx_affine *index, fx_tensor *t, int64_t *at)
{
    const fx_buf *b = &r->p->bufs[buf];
    *at = index_of(r, index);
    if (*at < 0 || *at >= b->numel.value)
        return broken(r, "element %lld of '%s', which has %lld", (long long)*at, b->name, (long long)b->numel.value);
    *t = (fx_tensor){.dtype = b->dtype, .rank = 1, .sizes = {b->numel.value}, .strides = {1}, .data = r->mem[buf]};
    return FX_OK;
}

/* ---- expressions and statements ------------------------------------------------------------------------------------------- */

static fx_status eval(run *r, const fx_sexpr *e, fx_scalar *out)
{
    fx_scalar v[3] = {{0}};
    fx_tensor t;
    int64_t at;
    switch (e->op) {
    case FX_S_CONST:
        *out = fx_scalar_make(e->dtype, e->imm, e->ival);
        return FX_OK;
    case FX_S_LOAD:
        FX_TRY(element(r, e->buf, &e->index, &t, &at));
        if (fx_dtype_is_float(t.dtype))
            *out = (fx_scalar){.dtype = t.dtype, .f = fx_tensor_get(&t, at)};
        else
            *out = (fx_scalar){.dtype = t.dtype, .i = fx_tensor_get_int(&t, at)};
        return FX_OK;
    case FX_S_LOCAL:
        for (size_t i = r->n_locals; i > 0; i--) {
            if (r->locals[i - 1].id == e->local) {
                *out = r->locals[i - 1].v;
                return FX_OK;
            }
        }
        return broken(r, "t%d has no value", e->local);
    case FX_S_INDEX:
        *out = fx_scalar_make(e->dtype, 0, index_of(r, &e->index));
        return FX_OK;
    case FX_S_select:
        /* Like C, only what is chosen is computed. */
        FX_TRY(eval(r, e->arg[0], &v[0]));
        return eval(r, e->arg[v[0].i ? 1 : 2], out);
    default:
        break;
    }
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        FX_TRY(eval(r, e->arg[i], &v[i]));
    if (e->op == FX_S_CAST)
        *out = fx_scalar_cast(v[0], e->dtype);
    else
        *out = fx_scalar_op(e->op, e->dtype, v);
    return FX_OK;
}

/* Kernels are evaluated on floats: of 16-bit elements, on copies of what each argument touches; what is written goes back, rounded. */
static fx_status exec_call(run *r, const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    const fx_dtype dtype = fx_call_dtype(r->p, c);
    float *bufs[FX_MAX_BUF_ARGS] = {NULL};
    struct { unsigned char *at; int64_t numel; } from[FX_MAX_BUF_ARGS] = {{NULL, 0}};
    for (int i = 0; i < k->n_bufs; i++) {
        fx_dim lo, hi;
        if (c->buf[i] < 0)
            continue;
        const fx_buf *b = &r->p->bufs[c->buf[i]];
        fx_call_footprint(r->p, c, i, &lo, &hi);
        if (lo.value < 0 || hi.sym || hi.value >= b->numel.value)
            return broken(r, "call %s touches elements [%lld, %lld] of '%s', which has %lld", c->name, (long long)lo.value,
                          (long long)hi.value, b->name, (long long)b->numel.value);
        from[i].at = r->mem[c->buf[i]] + (size_t)c->offset[i].value * fx_dtype_size(b->dtype);
        from[i].numel = hi.value - lo.value + 1;
        bufs[i] = (float *)(void *)from[i].at;
        if (b->dtype == FX_F32)
            continue;
        bufs[i] = FX_NEW_ARRAY(r->copies, float, from[i].numel + 1);
        fx_row_load(FX_KIND_F32, bufs[i], b->dtype, from[i].at, 1, from[i].numel);
        if (c->kernel == FX_K_attention && b->dtype == FX_F16 && strcmp(k->buf[i].name, "mask") == 0 && c->field[fx_kernel_field(k, "zero_empty")] == 0)
            for (int64_t j = 0; j < from[i].numel; j++) /* runtime/cuda/attention.h has it so */
                bufs[i][j] = bufs[i][j] == -65504 ? -FLT_MAX : bufs[i][j];
    }
    fx_call_run(r->p, c, bufs);
    for (int i = 0; i < k->n_bufs; i++)
        if (dtype != FX_F32 && c->buf[i] >= 0 && k->buf[i].written && r->p->bufs[c->buf[i]].dtype == dtype) /* not a workspace */
            fx_row_store(dtype, from[i].at, 1, FX_KIND_F32, bufs[i], from[i].numel);
    fx_arena_reset(r->copies);
    return FX_OK;
}

static fx_status exec_threads(run *r, const fx_stmt *loop);

/* Whether threads wait for one another in the list. */
static bool has_barrier(const fx_stmt *s)
{
    for (; s; s = s->next)
        if (s->kind == FX_ST_BARRIER || s->kind == FX_ST_REDUCE || has_barrier(s->body))
            return true;
    return false;
}

/* The innermost loop over a grid is all that waits in one. */
static bool is_threads(const fx_stmt *loop)
{
    return loop->loop == FX_LOOP_THREAD || (loop->loop == FX_LOOP_GRID && !(loop->body && loop->body->kind == FX_ST_LOOP && loop->body->loop == FX_LOOP_GRID));
}

/* The list, or (not `all`) its first statement alone, whose locals then stay. */
static fx_status exec(run *r, const fx_stmt *s, bool all)
{
    size_t visible = r->n_locals;
    for (; s; s = all ? s->next : NULL) {
        fx_scalar v;
        fx_tensor t;
        int64_t at;
        bool holds = true;
        switch (s->kind) {
        case FX_ST_LOOP:
            if (is_threads(s) && has_barrier(s->body)) {
                FX_TRY(exec_threads(r, s));
                break;
            }
            r->loops[r->n_loops].var = s->var;
            r->n_loops++;
            for (int64_t i = 0; i < s->extent.value; i++) {
                r->loops[r->n_loops - 1].at = i;
                FX_TRY(exec(r, s->body, true));
            }
            r->n_loops--;
            break;
        case FX_ST_STORE:
            FX_TRY(eval(r, s->value, &v));
            FX_TRY(element(r, s->buf, &s->index, &t, &at));
            if (fx_dtype_is_float(t.dtype))
                fx_tensor_set(&t, at, v.f);
            else
                fx_tensor_set_int(&t, at, v.i);
            break;
        case FX_ST_LOCAL:
            FX_TRY(eval(r, s->value, &v));
            FX_PUSH(r->arena, r->locals, r->n_locals, r->cap_locals) = (local){s->local, v};
            break;
        case FX_ST_SET:
            FX_TRY(eval(r, s->value, &v));
            for (size_t i = r->n_locals; i > 0; i--) {
                if (r->locals[i - 1].id == s->local) {
                    r->locals[i - 1].v = v;
                    break;
                }
            }
            break;
        case FX_ST_IF:
            for (int i = 0; i < s->n_cond; i++)
                holds = holds && index_of(r, &s->cond[i]) >= 0;
            if (holds)
                FX_TRY(exec(r, s->body, true));
            break;
        case FX_ST_CALL:
            FX_TRY(exec_call(r, s->call));
            break;
        case FX_ST_ARRAY:
            memset(r->mem[s->buf], 0xFF, fx_buf_bytes(&r->p->bufs[s->buf]));
            break;
        case FX_ST_CHECK:
            at = value_of(r, FX_VAR_LOCAL(s->local));
            if (at >= 0 && at < s->extent.value)
                FX_TRY(exec(r, s->body, true));
            else if (!r->failed)
                r->failed = fx_arena_printf(r->kept, "step %s: %lld is out of range [0, %lld): %s", r->step->name, (long long)at,
                                            (long long)s->extent.value, s->text ? s->text : "an index");
            break;
        case FX_ST_BARRIER:
        case FX_ST_REDUCE: /* of the threads in step: see below */
        case FX_ST_COMMENT:
            break;
        }
    }
    if (all)
        r->n_locals = visible;
    return FX_OK;
}

/* ---- threads that wait for one another --------------------------------------------------------------------------------- */

enum { MOST_ARRAYS = 8 };

/* What is a thread's own. */
typedef struct thread {
    struct { int var; int64_t at; } loops[FX_MAX_LOOPS];
    int n_loops;
    local *locals; size_t n_locals, cap_locals;
    struct { int buf; unsigned char *mem; } array[MOST_ARRAYS];
    int n_arrays;
} thread;

static void leave_thread(const run *r, thread *t)
{
    memcpy(t->loops, r->loops, sizeof t->loops);
    t->n_loops = r->n_loops;
    t->locals = r->locals;
    t->n_locals = r->n_locals;
    t->cap_locals = r->cap_locals;
}

static void enter_thread(run *r, const thread *t)
{
    memcpy(r->loops, t->loops, sizeof t->loops);
    r->n_loops = t->n_loops;
    r->locals = t->locals;
    r->n_locals = t->n_locals;
    r->cap_locals = t->cap_locals;
    for (int i = 0; i < t->n_arrays; i++)
        r->mem[t->array[i].buf] = t->array[i].mem;
}

static fx_status own_array(run *r, thread *t, int buf)
{
    int i = 0;
    while (i < t->n_arrays && t->array[i].buf != buf)
        i++;
    if (i == MOST_ARRAYS)
        return broken(r, "a thread with more than %d arrays", MOST_ARRAYS);
    if (i == t->n_arrays) {
        t->n_arrays++;
        t->array[i].buf = buf;
        t->array[i].mem = fx_arena_alloc(r->arena, fx_buf_bytes(&r->p->bufs[buf]) + 1);
    }
    r->mem[buf] = t->array[i].mem;
    return FX_OK;
}

/* Every statement is done by all threads before the next one begins: at barriers all have waited. */
static fx_status lockstep(run *r, thread *v, size_t n, const fx_stmt *s);

/* The body of a loop with barriers: by so many times as many threads where it is one over threads, else round by round. */
static fx_status lockstep_loop(run *r, thread *v, size_t n, const fx_stmt *s)
{
    int64_t extent = s->extent.value, copies = is_threads(s) ? extent : 1, rounds = is_threads(s) ? 1 : extent;
    if (extent <= 0)
        return FX_OK;
    thread *all = FX_NEW_ARRAY(r->arena, thread, n * (size_t)copies);
    for (size_t i = 0; i < n; i++)
        for (int64_t k = 0; k < copies; k++) {
            thread *t = &all[i * (size_t)copies + (size_t)k];
            *t = v[i];
            if (copies > 1)
                t->locals = fx_arena_dup(r->arena, t->locals, t->cap_locals * sizeof *t->locals);
            t->loops[t->n_loops].var = s->var;
            t->loops[t->n_loops++].at = k;
        }
    for (int64_t k = 0; k < rounds; k++) {
        for (size_t i = 0; rounds > 1 && i < n; i++)
            all[i].loops[all[i].n_loops - 1].at = k;
        FX_TRY(lockstep(r, all, n * (size_t)copies, s->body));
    }
    for (size_t i = 0; copies == 1 && i < n; i++) { /* the same threads: their locals may have moved */
        all[i].n_loops--;
        v[i] = all[i];
    }
    return FX_OK;
}

static fx_scalar *local_of(const thread *t, int id)
{
    for (size_t i = t->n_locals; i > 0; i--)
        if (t->locals[i - 1].id == id)
            return &t->locals[i - 1].v;
    return NULL;
}

/* Along the tree of runtime/cuda/reduce.h: within each warp halves with halves, then likewise over the warps' values. */
static fx_status reduce(run *r, thread *v, size_t n, const fx_stmt *s)
{
    enum { WARP = 32 };
    fx_scalar *x = FX_NEW_ARRAY(r->arena, fx_scalar, n + 1);
    for (size_t i = 0; i < n; i++) {
        const fx_scalar *t = local_of(&v[i], s->local);
        if (!t)
            return broken(r, "t%d has no value", s->local);
        x[i] = *t;
    }
    for (size_t piece = n < WARP ? n : WARP, step = 1; step < n; step = piece, piece = n)
        for (size_t half = piece / 2; half >= step; half /= 2)
            for (size_t i = 0; i < n; i += piece)
                for (size_t k = 0; k < half; k += step)
                    x[i + k] = fx_scalar_op(s->op, x[i].dtype, (fx_scalar[3]){x[i + k], x[i + k + half]});
    for (size_t i = 0; i < n; i++)
        *local_of(&v[i], s->local) = x[0];
    return FX_OK;
}

static fx_status lockstep(run *r, thread *v, size_t n, const fx_stmt *s)
{
    size_t visible = n ? v[0].n_locals : 0; /* threads define the same ones */
    for (; s; s = s->next) {
        if (s->body && has_barrier(s->body)) {
            if (s->kind != FX_ST_LOOP)
                return broken(r, "a barrier inside a guard");
            FX_TRY(lockstep_loop(r, v, n, s));
            continue;
        }
        if (s->kind == FX_ST_REDUCE) {
            FX_TRY(reduce(r, v, n, s));
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            enter_thread(r, &v[i]);
            if (s->kind == FX_ST_ARRAY)
                FX_TRY(own_array(r, &v[i], s->buf));
            FX_TRY(exec(r, s, false));
            leave_thread(r, &v[i]);
        }
    }
    for (size_t i = 0; i < n; i++)
        v[i].n_locals = visible;
    return FX_OK;
}

static fx_status exec_threads(run *r, const fx_stmt *loop)
{
    thread around = {0}, one;
    fx_arena *arena = r->arena;
    leave_thread(r, &around);
    r->arena = fx_arena_create(r->ctx);
    one = around;
    one.locals = fx_arena_dup(r->arena, around.locals, around.cap_locals * sizeof *around.locals);
    fx_status status = lockstep_loop(r, &one, 1, loop);
    fx_arena_free(r->arena);
    r->arena = arena;
    enter_thread(r, &around);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------------------- */

/* Bytes of 0xFF make every float a NaN: what reads them shows. */
static unsigned char *poisoned(fx_arena *arena, size_t n)
{
    unsigned char *p = fx_arena_alloc(arena, n + 64);
    p += 64 - (uintptr_t)p % 64;
    memset(p, 0xFF, n);
    return p;
}

static fx_status set_up(run *r, bool planned, size_t n_in, const fx_tensor *in)
{
    fx_program *p = r->p;
    unsigned char *arena = planned ? poisoned(r->arena, (size_t)p->arena_size) : NULL;
    r->mem = FX_NEW_ARRAY(r->arena, unsigned char *, p->n_bufs + 1);
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind == FX_BUF_WEIGHT) {
            if (!b->data && b->numel.value > 0)
                return fx_fail(r->ctx, FX_ERR_UNSUPPORTED, &b->loc, "the weight '%s' has no data here, so the program cannot run", b->name);
            r->mem[i] = (unsigned char *)(uintptr_t)b->data;
        } else if (b->kind == FX_BUF_ARENA && planned) {
            r->mem[i] = arena + b->offset;
        } else {
            r->mem[i] = poisoned(r->arena, fx_buf_bytes(b));
        }
    }
    for (size_t i = 0; i < p->n_states; i++) {
        const fx_buf *b = &p->bufs[p->states[i].buf];
        if (fx_buf_bytes(b))
            memcpy(r->mem[b->id], r->mem[b->initial], fx_buf_bytes(b));
    }
    for (size_t i = 0; i < n_in; i++) {
        const fx_io *io = i < p->n_inputs ? &p->inputs[i] : &p->states[i - p->n_inputs];
        fx_tensor t = in[i], dense;
        FX_TRY(fx_tensor_touch(r->ctx, &t));
        FX_TRY(fx_tensor_contiguous(r->ctx, &t, &dense));
        if (fx_buf_bytes(&p->bufs[io->buf]))
            memcpy(r->mem[io->buf], dense.data, fx_buf_bytes(&p->bufs[io->buf]));
    }
    return FX_OK;
}

/* What the run changed of the caller's. */
static void write_back(const run *r, size_t n_in, const fx_tensor *in)
{
    const fx_program *p = r->p;
    for (size_t i = 0; i < n_in; i++) {
        const fx_io *io = i < p->n_inputs ? &p->inputs[i] : &p->states[i - p->n_inputs];
        const fx_buf *b = &p->bufs[io->buf];
        fx_tensor from = {.dtype = io->dtype, .rank = io->rank, .data = r->mem[io->buf]};
        int64_t stride = 1;
        for (int d = io->rank; d-- > 0; stride *= from.sizes[d]) {
            from.sizes[d] = io->dims[d].value;
            from.strides[d] = stride;
        }
        if ((b->kind == FX_BUF_STATE || b->changed) && fx_buf_bytes(b))
            fx_tensor_assign(&in[i], &from);
    }
}

/* ---- symbols ------------------------------------------------------------------------------------------------------------------ */

typedef struct run_args {
    fx_program *p;
    bool planned;
    size_t n_in;
    const fx_tensor *in;
    size_t *n_out;
    fx_tensor **out;
} run_args;

/* The program at the sizes of the inputs. */
static fx_status bind_symbols(run_args *a, fx_program **out)
{
    fx_program *p = a->p;
    int64_t *values = FX_NEW_ARRAY(p->arena, int64_t, p->n_symbols + 1);
    FX_TRY(fx_program_values(p, a->n_in, a->in, values));
    *out = p;
    if (p->n_symbols && !fx_program_bind(p, values, out))
        return fx_fail(p->ctx, FX_ERR_ARGUMENT, NULL, "sizes of the program cannot be computed for these inputs");
    return FX_OK;
}

static fx_status run_program(void *arg)
{
    run_args *a = arg;
    fx_program *p;
    FX_TRY(bind_symbols(a, &p));
    run r = {.p = p, .ctx = p->ctx, .arena = fx_arena_create(p->ctx), .copies = fx_arena_create(p->ctx)};
    r.kept = r.arena;
    fx_status st = set_up(&r, a->planned, a->n_in, a->in);
    for (size_t i = 0; st == FX_OK && i < p->n_steps; i++) {
        r.step = &p->steps[i];
        r.n_locals = 0;
        r.n_loops = 0;
        st = exec(&r, p->steps[i].body, true);
    }
    if (st == FX_OK && r.failed)
        st = fx_fail(p->ctx, FX_ERR_ARGUMENT, NULL, "%s", r.failed);
    if (st == FX_OK)
        write_back(&r, a->n_in, a->in);
    fx_tensor *out = FX_NEW_ARRAY(p->arena, fx_tensor, p->n_outputs + 1);
    for (size_t i = 0; st == FX_OK && i < p->n_outputs; i++) {
        const fx_io *io = &p->outputs[i];
        int64_t sizes[FX_MAX_RANK];
        for (int d = 0; d < io->rank; d++)
            sizes[d] = io->dims[d].value;
        st = fx_tensor_create(p->ctx, io->dtype, io->rank, sizes, &out[i]);
        if (st == FX_OK && fx_buf_bytes(&p->bufs[io->buf]))
            memcpy(out[i].data, r.mem[io->buf], fx_buf_bytes(&p->bufs[io->buf]));
    }
    fx_arena_free(r.copies);
    fx_arena_free(r.arena);
    if (st == FX_OK) {
        *a->n_out = p->n_outputs;
        *a->out = out;
    }
    return st;
}

fx_status fx_program_run(fx_program *p, bool planned, size_t n_in, const fx_tensor *in, size_t *n_out, fx_tensor **out)
{
    /* The interpreter leans on what the verifier guarantees: scopes, types, nesting. */
    FX_TRY(fx_program_verify(p, planned, "before running"));
    run_args a = {p, planned, n_in, in, n_out, out};
    return fx_protect(p->ctx, run_program, &a);
}
