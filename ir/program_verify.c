/* ir/program_verify.c: what every loop program must keep to: names, types, scopes, nesting. Kernel calls, races and memory: the other
 * files of ir/program_check.h. Shares no code with the passes that make programs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "ir/lex.h"
#include "ir/program_check.h"

/* Findings after this many are counted, not told. */
enum { MOST_FINDINGS = 20, MOST_ON_STACK = 1 << 18 };

void fx_check_bad(fx_check *c, const char *fmt, ...)
{
    if (c->findings++ >= MOST_FINDINGS)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = fx_arena_vprintf(c->arena, fmt, ap);
    va_end(ap);
    bool in_step = c->step >= 0;
    const fx_step *s = in_step ? &c->p->steps[c->step] : NULL;
    fx_fail(c->p->ctx, FX_INTERNAL, in_step ? &s->loc : NULL, "%s: %s%s%s%s", c->where, in_step ? "step " : "",
            in_step ? s->name : "", in_step ? ": " : "", text);
}

const char *fx_check_text(const fx_check *c, fx_dim d)
{
    fx_text t;
    fx_text_init(&t, c->arena);
    fx_dim_print(&t, d);
    return t.data;
}

bool fx_check_le(const fx_check *c, fx_dim a, fx_dim b)
{
    enum { MOST_LIMITS = 16 };
    if (!a.sym && !b.sym)
        return a.value <= b.value;
    fx_dim limits[MOST_LIMITS];
    size_t n = 0;
    for (; n < c->p->n_limits && n < MOST_LIMITS; n++)
        limits[n] = c->p->limits[n].value;
    return fx_dim_equal(a, b) || fx_dim_not_negative_given(c->ctx, c->symbols, fx_dim_sub(c->ctx, b, a), n, limits);
}

bool fx_check_buf(const fx_check *c, int buf)
{
    return buf >= 0 && (size_t)buf < c->p->n_bufs;
}

const char *fx_check_buf_name(const fx_check *c, int buf)
{
    return fx_check_buf(c, buf) ? c->p->bufs[buf].name : "?";
}

const fx_check_local *fx_check_find_local(const fx_check *c, int id)
{
    for (size_t i = 0; i < c->n_locals; i++) {
        if (c->locals[i].id == id)
            return &c->locals[i];
    }
    return NULL;
}

bool fx_check_sees_array(const fx_check *c, int buf)
{
    for (size_t i = 0; i < c->n_arrays; i++) {
        if (c->arrays[i] == buf)
            return true;
    }
    return false;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* The first symbol in s that the program does not have, or text that has no value; NULL: none. */
static const char *stranger(const fx_check *c, const fx_sym *s)
{
    if (s->kind == FX_SYM_OPAQUE)
        return s->name;
    if (s->kind == FX_SYM_SYMBOL) {
        for (size_t i = 0; i < c->p->n_symbols; i++) {
            if (strcmp(c->p->symbols[i].name, s->name) == 0)
                return NULL;
        }
        return s->name;
    }
    for (int i = 0; i < s->n; i++) {
        const char *name = stranger(c, s->args[i]);
        if (name)
            return name;
    }
    return NULL;
}

static bool check_dim(fx_check *c, fx_dim d, const char *what)
{
    const char *name = d.sym ? stranger(c, d.sym) : NULL;
    if (name)
        fx_check_bad(c, "%s is %s, where '%s' is no symbol of the program", what, fx_check_text(c, d), name);
    return !name;
}

static void check_symbols(fx_check *c)
{
    fx_program *p = c->p;
    for (size_t i = 0; i < p->n_symbols; i++) {
        const fx_sym_range *s = &p->symbols[i];
        if (s->min < 0 || s->min > s->max)
            fx_check_bad(c, "symbol %s: expected a range within [0, inf], got [%lld, %lld]", s->name, (long long)s->min, (long long)s->max);
    }
    for (size_t i = 0; i < p->n_limits; i++)
        check_dim(c, p->limits[i].value, "a limit");
    for (size_t i = 0; i < p->n_slots; i++) {
        const fx_slot *s = &p->slots[i];
        for (int k = 0; k < s->n; k++)
            check_dim(c, s->bytes[k], "the size of a slot");
        for (int k = 0; k < s->n_above; k++)
            if (s->above[k] < 0 || (size_t)s->above[k] >= i)
                fx_check_bad(c, "slot %zu: expected to stand above slots before it, got %d", i, s->above[k]);
    }
}

/* ---- buffers, inputs, outputs ------------------------------------------------------------------------------------ */

/* Names are compared after sorting, so that many buffers do not make this quadratic. */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_names(fx_check *c, const char *what, size_t n, const char **names)
{
    for (size_t i = 0; i < n; i++) {
        if (!fx_is_word(names[i], false))
            fx_check_bad(c, "%s '%s': expected a C identifier as name", what, names[i] ? names[i] : "");
        if (!names[i])
            names[i] = "";
    }
    qsort(names, n, sizeof names[0], by_text);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            fx_check_bad(c, "%s '%s' is there twice", what, names[i]);
    }
}

static bool dtype_is(fx_check *c, fx_dtype d)
{
    (void)c;
    return (unsigned)d < FX_DTYPE_COUNT;
}

/* State begins as a weight of its type and size. */
static void check_initial(fx_check *c, const fx_buf *b)
{
    const fx_buf *from = fx_check_buf(c, b->initial) ? &c->p->bufs[b->initial] : NULL;
    if (b->kind != FX_BUF_STATE && b->initial != -1)
        fx_check_bad(c, "buffer '%s' has initial values, but is no state", b->name);
    if (b->kind == FX_BUF_STATE && (!from || from->kind != FX_BUF_WEIGHT || from->dtype != b->dtype || !fx_dim_equal(from->numel, b->numel)))
        fx_check_bad(c, "state '%s': expected a weight of %s elements of %s as initial values, got '%s'", b->name, fx_check_text(c, b->numel),
                     fx_dtype_short(b->dtype), fx_check_buf_name(c, b->initial));
}

static void check_buffer(fx_check *c, const fx_buf *b, int id)
{
    if (b->id != id)
        fx_check_bad(c, "buffer '%s': expected id %d, got %d", b->name, id, b->id);
    if ((unsigned)b->kind > FX_BUF_LOCAL || !dtype_is(c, b->dtype)) {
        fx_check_bad(c, "buffer '%s': kind %d or dtype %d does not exist", b->name, (int)b->kind, (int)b->dtype);
        return;
    }
    if (b->rank < 0 || b->rank > FX_MAX_RANK)
        fx_check_bad(c, "buffer '%s': expected a rank up to %d, got %d", b->name, FX_MAX_RANK, b->rank);
    const char *what = fx_arena_printf(c->arena, "buffer '%s': its size", b->name);
    bool fixed = b->kind == FX_BUF_WEIGHT || b->kind == FX_BUF_STATE || b->kind == FX_BUF_COUNTER || b->kind == FX_BUF_LOCAL;
    for (int i = 0; i < b->rank && i < FX_MAX_RANK; i++)
        check_dim(c, b->dims[i], what);
    if (!check_dim(c, b->numel, what))
        return;
    if (b->numel.sym ? fixed || !fx_check_le(c, fx_dim_of(0), b->numel) : b->numel.value < 0 || b->numel.value > INT64_MAX / 16)
        fx_check_bad(c, "buffer '%s': its size of %s elements is impossible", b->name, fx_check_text(c, b->numel));
    if (b->kind == FX_BUF_LOCAL && b->numel.value > MOST_ON_STACK / (int64_t)fx_dtype_size(b->dtype))
        fx_check_bad(c, "local array '%s': expected at most %d bytes on the stack, got %s elements", b->name, MOST_ON_STACK,
                     fx_check_text(c, b->numel));
    if (b->kind == FX_BUF_WEIGHT && !b->data && b->hash == 0 && b->numel.value > 0)
        fx_check_bad(c, "weight '%s' has no data", b->name);
    if (b->overlay != -1) {
        if (!fx_check_buf(c, b->overlay) || b->overlay == id || b->kind != FX_BUF_ARENA || c->p->bufs[b->overlay].kind != FX_BUF_ARENA)
            fx_check_bad(c, "buffer '%s': expected another arena buffer to overlay, got %d", b->name, b->overlay);
        else if (fx_dtype_size(c->p->bufs[b->overlay].dtype) != fx_dtype_size(b->dtype))
            fx_check_bad(c, "buffer '%s' overlays '%s' of another element size", b->name, fx_check_buf_name(c, b->overlay));
    }
    if (b->kind == FX_BUF_COUNTER && b->dtype != FX_I32)
        fx_check_bad(c, "counters '%s': expected i32, got %s", b->name, fx_dtype_short(b->dtype));
    if (b->changed && b->kind != FX_BUF_INPUT)
        fx_check_bad(c, "buffer '%s' is marked as changed, but no input", b->name);
    check_initial(c, b);
    if (b->workspace && b->kind != FX_BUF_ARENA)
        fx_check_bad(c, "buffer '%s' is workspace, but not in the arena", b->name);
}

static void check_ios(fx_check *c, const char *what, fx_buf_kind kind, size_t n, const fx_io *ios)
{
    size_t of_kind = 0;
    for (size_t i = 0; i < n; i++) {
        const fx_io *io = &ios[i];
        if (!fx_check_buf(c, io->buf) || c->p->bufs[io->buf].kind != kind) {
            fx_check_bad(c, "%s %zu '%s': expected a buffer of kind %s", what, i, io->name ? io->name : "", what);
            continue;
        }
        const fx_buf *b = &c->p->bufs[io->buf];
        fx_dim numel = fx_dim_of(1);
        for (int d = 0; d < io->rank && d < FX_MAX_RANK; d++) {
            check_dim(c, io->dims[d], what);
            numel = fx_dim_mul(c->ctx, numel, io->dims[d]);
        }
        if (b->io != (int)i)
            fx_check_bad(c, "%s %zu '%s': its buffer '%s' says number %d", what, i, io->name, b->name, b->io);
        if (b->dtype != io->dtype || !fx_dim_equal(b->numel, numel))
            fx_check_bad(c, "%s %zu '%s': expected %s elements of %s as the model has, its buffer '%s' has %s of %s", what, i, io->name,
                fx_check_text(c, numel), fx_dtype_short(io->dtype), b->name, fx_check_text(c, b->numel), fx_dtype_short(b->dtype));
    }
    for (size_t i = 0; i < c->p->n_bufs; i++)
        of_kind += c->p->bufs[i].kind == kind;
    if (of_kind != n)
        fx_check_bad(c, "expected a buffer for each of %zu %ss, got %zu", n, what, of_kind);
}

static void check_tables(fx_check *c)
{
    fx_program *p = c->p;
    const char **names =
        FX_NEW_ARRAY(c->arena, const char *, p->n_bufs + p->n_steps + p->n_inputs + p->n_outputs + p->n_states + p->n_symbols + 1);
    for (size_t i = 0; i < p->n_symbols; i++)
        names[i] = p->symbols[i].name;
    check_names(c, "symbol", p->n_symbols, names);
    check_symbols(c);
    for (size_t i = 0; i < p->n_bufs; i++) {
        check_buffer(c, &p->bufs[i], (int)i);
        names[i] = p->bufs[i].name;
    }
    check_names(c, "buffer", p->n_bufs, names);
    for (size_t i = 0; i < p->n_steps; i++)
        names[i] = p->steps[i].name;
    check_names(c, "step", p->n_steps, names);
    for (size_t i = 0; i < p->n_inputs; i++)
        names[i] = p->inputs[i].name;
    for (size_t i = 0; i < p->n_outputs; i++)
        names[p->n_inputs + i] = p->outputs[i].name;
    for (size_t i = 0; i < p->n_states; i++)
        names[p->n_inputs + p->n_outputs + i] = p->states[i].name;
    check_names(c, "input, output or state", p->n_inputs + p->n_outputs + p->n_states, names);
    check_ios(c, "input", FX_BUF_INPUT, p->n_inputs, p->inputs);
    check_ios(c, "output", FX_BUF_OUTPUT, p->n_outputs, p->outputs);
    check_ios(c, "state", FX_BUF_STATE, p->n_states, p->states);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static void check_affine(fx_check *c, const fx_affine *a, const char *what)
{
    if (a->n < 0 || a->n > FX_MAX_LOOPS) {
        fx_check_bad(c, "%s has %d variables", what, a->n);
        return;
    }
    check_dim(c, a->base, what);
    for (int i = 0; i < a->n; i++) {
        bool found = false;
        check_dim(c, a->coef[i], what);
        for (int l = 0; l < c->n_vars; l++)
            found |= c->vars[l].var == a->var[i];
        if (!found && a->var[i] < 0)
            fx_check_bad(c, "%s uses t%d, which no check around it keeps in range", what, FX_VAR_LOCAL(a->var[i]));
        else if (!found)
            fx_check_bad(c, "%s uses v%d, which no loop around it defines", what, a->var[i]);
        if (fx_dim_is(a->coef[i], 0))
            fx_check_bad(c, "%s has the coefficient 0 for v%d", what, a->var[i]);
        if (i > 0 && a->var[i - 1] >= a->var[i])
            fx_check_bad(c, "%s: variables are not sorted", what);
    }
}

typedef struct sop_types {
    bool f32, f64, ints;
} sop_types;

/* Which types scalar.def gives a spelling for. */
static sop_types types_of(fx_sop op)
{
#define SCALAR(id, n, f32, f64, ints) [FX_S_##id] = {sizeof f32 > 1, sizeof f64 > 1, sizeof ints > 1},
    static const sop_types table[FX_S_COUNT] = {
#include "ir/scalar.def"
    };
#undef SCALAR
    return table[op];
}

bool fx_check_op_takes(fx_sop op, fx_dtype d)
{
    sop_types t = types_of(op);
    switch (d) {
    case FX_F32: case FX_F16: case FX_BF16:
        return t.f32;
    case FX_F64:
        return t.f64;
    case FX_I8: case FX_I16: case FX_I32: case FX_I64: case FX_U8: case FX_BOOL:
        return t.ints;
    default:
        return false;
    }
}

static void check_expr(fx_check *c, const fx_sexpr *e, int depth)
{
    enum { DEEPEST = 400 };
    if (!e || (unsigned)e->op >= FX_S_COUNT || !dtype_is(c, e->dtype)) {
        fx_check_bad(c, "an expression is missing or of no known kind");
        return;
    }
    if (depth > DEEPEST) {
        fx_check_bad(c, "an expression is nested more than %d deep", DEEPEST);
        return;
    }
    const char *op = fx_sop_name(e->op), *dtype = fx_dtype_short(e->dtype);
    for (int i = 0; i < fx_sop_arity(e->op); i++) {
        if (!e->arg[i]) {
            fx_check_bad(c, "operand %d of %s is missing", i, op);
            return;
        }
        check_expr(c, e->arg[i], depth + 1);
    }
    switch (e->op) {
    case FX_S_CONST:
    case FX_S_CAST:
        return;
    case FX_S_LOAD:
        check_affine(c, &e->index, "an index");
        if (!fx_check_buf(c, e->buf))
            fx_check_bad(c, "a load is from buffer %d, which does not exist", e->buf);
        else if (c->p->bufs[e->buf].dtype != e->dtype)
            fx_check_bad(c, "a load of %s is from '%s' of %s", dtype, fx_check_buf_name(c, e->buf), fx_dtype_short(c->p->bufs[e->buf].dtype));
        else if (c->p->bufs[e->buf].kind == FX_BUF_LOCAL && !fx_check_sees_array(c, e->buf))
            fx_check_bad(c, "a load is from the array '%s' where it is not declared", fx_check_buf_name(c, e->buf));
        return;
    case FX_S_LOCAL: {
        const fx_check_local *l = fx_check_find_local(c, e->local);
        if (!l)
            fx_check_bad(c, "t%d is used where it is not defined", e->local);
        else if (l->dtype != e->dtype)
            fx_check_bad(c, "t%d is used as %s, but defined as %s", e->local, dtype, fx_dtype_short(l->dtype));
        return;
    }
    case FX_S_INDEX:
        check_affine(c, &e->index, "an index value");
        if (e->dtype != FX_I64)
            fx_check_bad(c, "an index value is i64, got %s", dtype);
        return;
    default:
        break;
    }
    fx_dtype operand = e->arg[fx_sop_arity(e->op) - 1]->dtype;
    for (int i = e->op == FX_S_select; i < fx_sop_arity(e->op); i++) {
        if (e->arg[i]->dtype != operand)
            fx_check_bad(c, "%s: operands of %s and %s", op, fx_dtype_short(e->arg[i]->dtype), fx_dtype_short(operand));
    }
    if (e->op == FX_S_select && e->arg[0]->dtype != FX_BOOL)
        fx_check_bad(c, "select: expected a condition of bool, got %s", fx_dtype_short(e->arg[0]->dtype));
    fx_dtype result = fx_sop_is_comparison(e->op) ? FX_BOOL : operand;
    if (e->dtype != result)
        fx_check_bad(c, "%s of %s: expected a result of %s, got %s", op, fx_dtype_short(operand), fx_dtype_short(result), dtype);
    if (!fx_check_op_takes(e->op, operand))
        fx_check_bad(c, "%s does not exist for %s", op, fx_dtype_short(operand));
}

/* ---- statements ------------------------------------------------------------------------------------------------------ */

static bool once(fx_check *c, int **ids, size_t *n, size_t *cap, int id)
{
    for (size_t i = 0; i < *n; i++) {
        if ((*ids)[i] == id)
            return false;
    }
    FX_PUSH(c->arena, *ids, *n, *cap) = id;
    return true;
}

static void check_store(fx_check *c, const fx_stmt *s)
{
    check_affine(c, &s->index, "an index");
    check_expr(c, s->value, 0);
    if (!fx_check_buf(c, s->buf)) {
        fx_check_bad(c, "a store is to buffer %d, which does not exist", s->buf);
        return;
    }
    const fx_buf *b = &c->p->bufs[s->buf];
    if ((b->kind == FX_BUF_INPUT && !b->changed) || b->kind == FX_BUF_WEIGHT)
        fx_check_bad(c, "a store is to '%s', which is only read", b->name);
    if (b->kind == FX_BUF_COUNTER)
        fx_check_bad(c, "a store is to the counters '%s', which only calls change", b->name);
    if (b->kind == FX_BUF_LOCAL && !fx_check_sees_array(c, s->buf))
        fx_check_bad(c, "a store is to the array '%s' where it is not declared", b->name);
    if (s->value && s->value->dtype != b->dtype)
        fx_check_bad(c, "a store of %s is to '%s' of %s", fx_dtype_short(s->value->dtype), b->name, fx_dtype_short(b->dtype));
}

static void check_stmts(fx_check *c, const fx_stmt *s, int depth);

static bool at_once(fx_loop_kind kind)
{
    return kind == FX_LOOP_PARALLEL || kind == FX_LOOP_GRID || kind == FX_LOOP_BLOCK || kind == FX_LOOP_THREAD;
}

static bool inside(const fx_check *c, fx_loop_kind kind)
{
    for (int i = 0; i < c->n_vars; i++) {
        if (c->vars[i].kind == kind)
            return true;
    }
    return false;
}

/* A loop over a grid: what program.h says of it. */
static void check_grid(fx_check *c, const fx_stmt *s)
{
    int64_t threads = s->threads;
    const fx_stmt *inside = s->next ? NULL : s; /* the only statement of the body around */
    if (s->axis < 0 || s->axis > 2)
        fx_check_bad(c, "the grid loop v%d: expected axis 0 to 2, got %d", s->var, s->axis);
    for (int i = c->n_vars - 1; i >= 0; i--) {
        const fx_stmt *around = c->vars[i].at;
        if (c->vars[i].kind != FX_LOOP_GRID || around->body != inside)
            fx_check_bad(c, "the grid loop v%d is not all that is inside v%d", s->var, c->vars[i].var);
        else if (around->axis == s->axis && (around->threads != 1 || s->threads != 1))
            fx_check_bad(c, "the grid loops v%d and v%d are of one axis, where blocks have threads", around->var, s->var);
        inside = around;
        threads *= c->vars[i].kind == FX_LOOP_GRID ? around->threads : 1;
    }
    if (s->threads < 1 || threads > 1024 || (s->axis == 2 && s->threads > 64))
        fx_check_bad(c, "the grid loop v%d: expected blocks of 1 to 1024 threads, 1 to 64 along z, got %d, with the loops around %lld", s->var,
                     s->threads, (long long)threads);
    if (c->guarded)
        fx_check_bad(c, "the grid loop v%d is inside a guard", s->var);
}

/* Where a loop of its kind may stand. */
static void check_nesting(fx_check *c, const fx_stmt *s)
{
    const char *kind = fx_check_loop_kind(s->loop);
    bool grid = inside(c, FX_LOOP_GRID), gpu = grid || inside(c, FX_LOOP_BLOCK), thread = inside(c, FX_LOOP_THREAD);
    if (s->loop == FX_LOOP_GRID)
        check_grid(c, s);
    if (s->loop == FX_LOOP_UNROLLED && s->extent.sym)
        fx_check_bad(c, "the unrolled loop v%d: expected a number of iterations, got %s", s->var, fx_check_text(c, s->extent));
    if (s->loop == FX_LOOP_THREAD && !inside(c, FX_LOOP_BLOCK))
        fx_check_bad(c, "the thread loop v%d is outside any block loop", s->var);
    if (s->loop == FX_LOOP_BLOCK && grid)
        fx_check_bad(c, "the block loop v%d is inside a grid loop", s->var);
    if (s->loop == FX_LOOP_BLOCK && (thread || inside(c, FX_LOOP_PARALLEL) || inside(c, FX_LOOP_VECTOR)))
        fx_check_bad(c, "the block loop v%d is inside a thread, parallel or vector loop", s->var);
    if (s->aligned)
        fx_check_aligned(c, s, grid);
    else if ((s->loop == FX_LOOP_PARALLEL || s->loop == FX_LOOP_VECTOR) && gpu)
        fx_check_bad(c, "the %s loop v%d is inside a %s loop", kind, s->var, grid ? "grid" : "block");
    if ((s->loop == FX_LOOP_BLOCK || s->loop == FX_LOOP_THREAD) && (s->axis < 0 || s->axis > 2))
        fx_check_bad(c, "the %s loop v%d: expected axis 0 to 2, got %d", kind, s->var, s->axis);
    if (s->loop == FX_LOOP_THREAD && c->guarded)
        fx_check_bad(c, "the thread loop v%d is inside a guard", s->var);
}

static bool is_grid(const fx_stmt *s)
{
    return s && s->kind == FX_ST_LOOP && s->loop == FX_LOOP_GRID;
}

/* Of a block of the nest, along the axis. */
static int threads_along(const fx_stmt *nest, int axis)
{
    int threads = 1;
    for (; is_grid(nest); nest = nest->body)
        threads = nest->axis == axis ? threads * nest->threads : threads;
    return threads;
}

/* A nest that runs with those before it in the list: what program.h says of them. */
static void check_beside(fx_check *c, const fx_stmt *list, const fx_stmt *s)
{
    const fx_stmt *first = NULL, *before = NULL;
    int buf;
    for (const fx_stmt *t = list; t != s; t = t->next) {
        if (t->kind == FX_ST_COMMENT)
            continue;
        first = first && is_grid(t) && t->beside ? first : t;
        before = t;
    }
    if (!is_grid(s) || !is_grid(before) || c->n_vars) {
        fx_check_bad(c, "the loop v%d is beside another one: expected two outermost grid loops", s->var);
        return;
    }
    for (int axis = 0; axis < 3; axis++)
        if (threads_along(s, axis) != threads_along(before, axis))
            fx_check_bad(c, "the grid loops v%d and v%d are of one launch, but their blocks have %d and %d threads along %c", before->var, s->var,
                         threads_along(before, axis), threads_along(s, axis), "xyz"[axis]);
    for (const fx_stmt *t = first; t != s; t = t->next)
        if (is_grid(t) && !fx_check_apart(c, t, s, &buf))
            fx_check_bad(c, "the grid loops v%d and v%d are of one launch, but meet at elements of '%s'", t->var, s->var, fx_check_buf_name(c, buf));
}

static bool enter(fx_check *c, int var, fx_dim extent, fx_loop_kind kind, const fx_stmt *at)
{
    if (c->n_vars == FX_CHECK_DEPTH) {
        fx_check_bad(c, "more than %d loops and checks are nested", FX_CHECK_DEPTH);
        return false;
    }
    c->vars[c->n_vars++] = (fx_check_var){var, extent, kind, at};
    return true;
}

static void check_loop(fx_check *c, const fx_stmt *s, int depth)
{
    if ((unsigned)s->loop > FX_LOOP_THREAD) {
        fx_check_bad(c, "loop v%d is of no known kind", s->var);
        return;
    }
    if (s->var < 0)
        fx_check_bad(c, "a loop has the variable %d", s->var);
    if (check_dim(c, s->extent, "a loop's extent") && !fx_check_le(c, fx_dim_of(0), s->extent))
        fx_check_bad(c, "loop v%d: expected an extent >= 0, got %s", s->var, fx_check_text(c, s->extent));
    if (!once(c, &c->used_vars, &c->n_used_vars, &c->cap_used_vars, s->var))
        fx_check_bad(c, "v%d is the variable of two loops", s->var);
    if (c->n_loops == FX_MAX_LOOPS) {
        fx_check_bad(c, "more than %d loops are nested", FX_MAX_LOOPS);
        return;
    }
    check_nesting(c, s);
    if (!enter(c, s->var, s->extent, s->loop, s))
        return;
    c->n_loops++;
    c->parallel_depth += at_once(s->loop);
    int before = c->findings;
    check_stmts(c, s->body, depth + 1);
    if (s->loop != FX_LOOP_SERIAL && s->loop != FX_LOOP_UNROLLED && (s->extent.sym || s->extent.value > 1) && c->findings == before)
        fx_check_parallel(c, s);
    c->parallel_depth -= at_once(s->loop);
    c->n_loops--;
    c->n_vars--;
}

static bool is_index(fx_dtype d)
{
    return d == FX_I64 || d == FX_I32 || d == FX_I16 || d == FX_I8 || d == FX_U8;
}

/* Around its body the local is an index. */
static void check_check(fx_check *c, const fx_stmt *s, int depth)
{
    const fx_check_local *l = fx_check_find_local(c, s->local);
    check_dim(c, s->extent, "a check's extent");
    if (!l)
        fx_check_bad(c, "t%d is checked where it is not defined", s->local);
    else if (!is_index(l->dtype))
        fx_check_bad(c, "t%d of %s is checked as an index", s->local, fx_dtype_short(l->dtype));
    if (!enter(c, FX_VAR_LOCAL(s->local), s->extent, FX_LOOP_SERIAL, s))
        return;
    bool guarded = c->guarded;
    c->guarded = true;
    check_stmts(c, s->body, depth + 1);
    c->guarded = guarded;
    c->n_vars--;
}

static void check_set(fx_check *c, const fx_stmt *s)
{
    const fx_check_local *l = fx_check_find_local(c, s->local);
    check_expr(c, s->value, 0);
    if (!l)
        fx_check_bad(c, "t%d is set where it is not defined", s->local);
    else if (s->value && s->value->dtype != l->dtype)
        fx_check_bad(c, "t%d of %s is set to a value of %s", s->local, fx_dtype_short(l->dtype), fx_dtype_short(s->value->dtype));
    else if (l->parallel_depth != c->parallel_depth)
        fx_check_bad(c, "t%d is set by all iterations of a parallel loop", s->local);
    for (int i = 0; i < c->n_vars; i++) {
        if (c->vars[i].var == FX_VAR_LOCAL(s->local))
            fx_check_bad(c, "t%d is set inside the check of it", s->local);
    }
}

static void check_array(fx_check *c, const fx_stmt *s)
{
    if (!fx_check_buf(c, s->buf) || c->p->bufs[s->buf].kind != FX_BUF_LOCAL) {
        fx_check_bad(c, "array: expected a local buffer, got '%s'", fx_check_buf_name(c, s->buf));
        return;
    }
    if (c->declared[s->buf] >= 0)
        fx_check_bad(c, "array '%s' is declared twice", fx_check_buf_name(c, s->buf));
    c->declared[s->buf] = c->step;
    FX_PUSH(c->arena, c->arrays, c->n_arrays, c->cap_arrays) = s->buf;
}

/* All threads of a block come to each barrier: no guard and no loop of another kind is between. */
static void check_barrier(fx_check *c)
{
    if (!inside(c, FX_LOOP_THREAD))
        fx_check_bad(c, "a barrier is outside any thread loop");
    else if (c->guarded)
        fx_check_bad(c, "a barrier is inside a guard, which some threads may skip");
}

/* Locals are visible to the end of the block that defines them, as in C. */
static void check_stmts(fx_check *c, const fx_stmt *s, int depth)
{
    enum { DEEPEST = 48 };
    if (depth > DEEPEST) {
        fx_check_bad(c, "statements are nested more than %d deep", DEEPEST);
        return;
    }
    size_t visible = c->n_locals, arrays = c->n_arrays;
    const fx_stmt *list = s;
    for (; s; s = s->next) {
        int before = c->findings;
        switch (s->kind) {
        case FX_ST_LOOP:
            check_loop(c, s, depth);
            if (s->beside && c->findings == before)
                check_beside(c, list, s);
            break;
        case FX_ST_STORE:
            check_store(c, s);
            break;
        case FX_ST_LOCAL:
            check_expr(c, s->value, 0);
            if (!once(c, &c->used_locals, &c->n_used_locals, &c->cap_used_locals, s->local))
                fx_check_bad(c, "t%d is defined twice", s->local);
            if (s->value)
                FX_PUSH(c->arena, c->locals, c->n_locals, c->cap_locals) = (fx_check_local){s->local, s->value->dtype, c->parallel_depth};
            break;
        case FX_ST_SET:
            check_set(c, s);
            break;
        case FX_ST_CHECK:
            check_check(c, s, depth);
            break;
        case FX_ST_ARRAY:
            check_array(c, s);
            break;
        case FX_ST_BARRIER:
            check_barrier(c);
            break;
        case FX_ST_REDUCE:
            fx_check_reduce(c, s);
            break;
        case FX_ST_IF: {
            bool guarded = c->guarded;
            if (s->n_cond < 1 || s->n_cond > 2 * FX_MAX_RANK) {
                fx_check_bad(c, "expected 1 to %d conditions, got %d", 2 * FX_MAX_RANK, s->n_cond);
                break;
            }
            for (int i = 0; i < s->n_cond; i++)
                check_affine(c, &s->cond[i], "a condition");
            c->guarded = true;
            check_stmts(c, s->body, depth + 1);
            c->guarded = guarded;
            break;
        }
        case FX_ST_CALL:
            fx_check_call(c, s->call);
            break;
        case FX_ST_COMMENT:
            break;
        default:
            fx_check_bad(c, "a statement of no known kind");
        }
    }
    c->n_locals = visible;
    c->n_arrays = arrays;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------------- */

typedef struct verify_args {
    fx_program *p;
    bool planned;
    const char *where;
} verify_args;

static fx_status verify(void *arg)
{
    verify_args *a = arg;
    fx_program *p = a->p;
    fx_check c = {.p = p, .ctx = p->ctx, .symbols = fx_program_symbols(p), .where = a->where, .step = -1, .arena = fx_arena_create(p->ctx)};
    c.lives = FX_NEW_ARRAY(c.arena, fx_life, p->n_bufs + 1);
    c.declared = FX_NEW_ARRAY(c.arena, int, p->n_bufs + 1);
    for (size_t i = 0; i < p->n_bufs; i++)
        c.declared[i] = -1;
    check_tables(&c);
    for (size_t i = 0; i < p->n_steps; i++) {
        c.step = (int)i;
        c.n_used_vars = c.n_used_locals = c.n_locals = c.n_arrays = 0;
        check_stmts(&c, p->steps[i].body, 0);
    }
    c.step = -1;
    /* Accesses make sense only where what they are computed from does. */
    if (c.findings == 0)
        fx_check_accesses(&c);
    if (c.findings == 0)
        fx_check_streams(&c);
    if (c.findings == 0 && a->planned)
        fx_check_memory(&c);
    if (c.findings > MOST_FINDINGS)
        fx_fail(p->ctx, FX_INTERNAL, NULL, "%s: %d findings in all", c.where, c.findings);
    fx_arena_free(c.arena);
    return c.findings ? FX_INTERNAL : FX_OK;
}

fx_status fx_program_verify(fx_program *p, bool planned, const char *where)
{
    verify_args a = {p, planned, where ? where : "program"};
    return fx_protect(p->ctx, verify, &a);
}
