/* codegen/c_stmt.c: steps in C: one static function each, of loops, scalar statements and kernel calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "codegen/emit.h"

/* ---- facts, found by a walk before anything is printed ----------------------------------------------------- */

void fx_c_scan_buf(fx_emit *e, int buf, bool written)
{
    fx_step_facts *f = e->fact;
    if (e->p->bufs[buf].kind == FX_BUF_LOCAL)
        return; /* declared in the step */
    if (e->p->bufs[buf].kind == FX_BUF_WEIGHT) {
        f->weights = true;
        return;
    }
    for (size_t i = 0; i < f->n_params; i++) {
        if (f->params[i].buf == buf) {
            f->params[i].written |= written;
            return;
        }
    }
    struct fx_step_param param = {buf, written};
    FX_PUSH(e->local, f->params, f->n_params, f->cap_params) = param;
}

/* The most that the expression or a part of it may be, without its sign, within the symbols' ranges. */
static double most_of_sym(const fx_emit *e, const fx_sym *s)
{
    double most = s->kind == FX_SYM_MUL ? 1 : 0;
    switch (s->kind) {
    case FX_SYM_INT:
        return s->value < 0 ? -(double)s->value : (double)s->value;
    case FX_SYM_SYMBOL:
        for (size_t i = 0; i < e->p->n_symbols; i++)
            if (strcmp(e->p->symbols[i].name, s->name) == 0)
                return (double)e->p->symbols[i].max; /* ranges start at >= 0 */
        return 1e300;
    case FX_SYM_ADD: case FX_SYM_MUL: case FX_SYM_FLOORDIV: case FX_SYM_MOD: case FX_SYM_MAX: case FX_SYM_MIN: case FX_SYM_CEILDIV:
        for (int i = 0; i < s->n; i++) {
            double one = most_of_sym(e, s->args[i]);
            most = s->kind == FX_SYM_MUL ? most * one : s->kind == FX_SYM_ADD || s->kind == FX_SYM_CEILDIV ? most + one : fmax(most, one);
        }
        return most;
    default:
        return 1e300;
    }
}

double fx_c_most(const fx_emit *e, fx_dim d)
{
    if (d.sym)
        return most_of_sym(e, d.sym);
    return d.value < 0 ? -(double)d.value : (double)d.value;
}

/* Notes the symbols of a size in the step at hand. With some, indices are as wide as pointers; for a GPU only where they may be as large. */
static fx_status scan_dim(fx_emit *e, fx_dim d)
{
    e->fact->wide |= !fx_dim_known(d) && (!e->say->gpu || fx_c_most(e, d) > INT32_MAX);
    return fx_c_scan_dim(e, d, e->fact->symbols);
}

/* Whether the expression or a part of it may leave an int's range. */
fx_status fx_c_scan_affine(fx_emit *e, const fx_affine *a)
{
    double most = fx_c_most(e, a->base);
    FX_TRY(scan_dim(e, a->base));
    for (int i = 0; i < a->n; i++) {
        FX_TRY(scan_dim(e, a->coef[i]));
        if (a->var[i] < 0)
            e->fact->wide = true; /* an index that is data */
        else
            most += fx_c_most(e, a->coef[i]) * (a->var[i] < e->fact->n_vars ? fx_c_most(e, e->loops[a->var[i]].extent) : 1);
    }
    if (most > INT32_MAX)
        e->fact->wide = true;
    return FX_OK;
}

/* A first walk only counts variables, so that the second has arrays to note their extents in. */
static void count_numbers(fx_step_facts *f, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP && s->var >= f->n_vars)
            f->n_vars = s->var + 1;
        if (s->kind == FX_ST_LOCAL && s->local >= f->n_locals)
            f->n_locals = s->local + 1;
        count_numbers(f, s->body);
    }
}

static fx_status scan_step(void *user, const fx_step *step)
{
    fx_emit *e = user;
    e->step = step;
    e->fact = &e->facts[step - e->p->steps];
    count_numbers(e->fact, step->body);
    e->fact->symbols = FX_NEW_ARRAY(e->arena, bool, e->n_sizes + 1);
    e->loops = FX_NEW_ARRAY(e->local, fx_loopname, e->fact->n_vars + 1);
    return FX_OK;
}

/* Buffers that are written go last, workspace after all, and counters after that. */
static fx_status scan_step_end(void *user, const fx_step *step)
{
    (void)step;
    fx_emit *e = user;
    fx_step_facts *f = e->fact;
    struct fx_step_param *sorted = FX_NEW_ARRAY(e->arena, struct fx_step_param, f->n_params + 1);
    size_t n = 0;
    for (int rank = 0; rank < 4; rank++)
        for (size_t i = 0; i < f->n_params; i++) {
            const fx_buf *b = &e->p->bufs[f->params[i].buf];
            if ((b->kind == FX_BUF_COUNTER ? 3 : b->workspace ? 2 : f->params[i].written ? 1 : 0) == rank)
                sorted[n++] = f->params[i];
        }
    f->params = sorted;
    f->cap_params = n;
    fx_emit_done(e);
    return FX_OK;
}

fx_status fx_c_refuse(fx_emit *e, const char *what)
{
    return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': %s, which is for GPUs: C has no spelling of it", e->step->name, what);
}

static fx_status scan_barrier(void *user, const fx_stmt *s)
{
    (void)s;
    const fx_emit *e = user;
    return e->say->gpu ? FX_OK : fx_c_refuse(user, "a barrier");
}

static fx_status scan_reduce(void *user, const fx_stmt *s)
{
    (void)s;
    return fx_c_refuse(user, "a reduction over threads");
}

/* A parallel loop that is the innermost one too: compilers are told that its iterations make vectors. */
static bool is_both(const fx_stmt *loop)
{
    bool plain = loop->loop == FX_LOOP_PARALLEL;
    for (const fx_stmt *s = loop->body; s && plain; s = s->next)
        plain = s->kind == FX_ST_STORE || s->kind == FX_ST_LOCAL || s->kind == FX_ST_COMMENT;
    return plain;
}

fx_status fx_c_scan_loop(void *user, const fx_stmt *loop)
{
    fx_emit *e = user;
    bool once = fx_dim_is(loop->extent, 1), both = is_both(loop);
    if (loop->loop >= FX_LOOP_GRID && !e->say->gpu)
        return fx_c_refuse(e, "a loop over blocks or threads");
    e->fact->loops++;
    e->loops[loop->var].extent = loop->extent;
    if (fx_c_most(e, loop->extent) > INT32_MAX - 1)
        e->fact->wide = true;
    e->both |= both && !once;
    e->parallel |= loop->loop == FX_LOOP_PARALLEL && !both && !once;
    e->vector |= loop->loop == FX_LOOP_VECTOR && !once;
    e->unrolled |= loop->loop == FX_LOOP_UNROLLED && !once;
    return scan_dim(e, loop->extent);
}

static fx_status scan_if(void *user, const fx_stmt *guard)
{
    fx_emit *e = user;
    for (int i = 0; i < guard->n_cond; i++)
        FX_TRY(fx_c_scan_affine(e, &guard->cond[i]));
    return FX_OK;
}

static fx_status scan_value(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    if (!s->value)
        return fx_fail(e->ctx, FX_INTERNAL, &e->step->loc, "step '%s': a statement without a value", e->step->name);
    if (s->kind == FX_ST_STORE) {
        fx_c_scan_buf(e, s->buf, true);
        FX_TRY(fx_c_scan_affine(e, &s->index));
    }
    return fx_c_scan_value(e, s->value);
}

static fx_status scan_check(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    e->fact->checks++;
    const char *text = fx_arena_printf(e->local, "%s: %s", e->step->name, s->text ? s->text : "index");
    const char *name = fx_c_add_reason(e, e->step->name, fx_arena_printf(e->arena, "%s: out of range", text));
    fx_map_put(e->arena, &e->checks, s, (void *)(uintptr_t)name);
    return scan_dim(e, s->extent);
}

static fx_status scan_array(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const fx_buf *b = &e->p->bufs[s->buf];
    e->fact->array_bytes += (fx_buf_bytes(b) + 15) / 16 * 16;
    return FX_OK;
}

static fx_status scan_call(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const fx_kernel *k = fx_kernel_get(s->call->kernel);
    e->fact->calls++;
    e->fact->products += fx_kernel_products(s->call->kernel);
    e->kernels[s->call->kernel] = true;
    int act = fx_kernel_field(k, "act");
    if (act >= 0)
        e->acts |= 1u << (unsigned)s->call->field[act];
    for (int i = 0; i < k->n_bufs; i++)
        if (s->call->buf[i] >= 0) {
            fx_c_scan_buf(e, s->call->buf[i], k->buf[i].written);
            FX_TRY(scan_dim(e, s->call->offset[i]));
        }
    for (int i = 0; i < k->n_fields; i++)
        if (s->call->sym[i])
            FX_TRY(scan_dim(e, fx_dim_sym(s->call->sym[i])));
    return FX_OK;
}

const fx_hooks fx_c_scan_hooks = {.step_begin = scan_step, .step_end = scan_step_end, .loop_begin = fx_c_scan_loop, .if_begin = scan_if,
                                   .store = scan_value, .local = scan_value, .set = scan_value, .call = scan_call, .array = scan_array,
                                   .check_begin = scan_check, .barrier = scan_barrier, .reduce = scan_reduce};

fx_status fx_c_scan(fx_emit *e)
{
    e->facts = FX_NEW_ARRAY(e->arena, fx_step_facts, e->p->n_steps + 1);
    return fx_walk(e->p, &fx_c_scan_hooks, e);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

static void put_flops(fx_text *t, int64_t flops)
{
    static const char *const unit[] = {"", "k", "M", "G", "T"};
    double v = (double)flops;
    int u = 0;
    while (v >= 999.95 && u < 4) {
        v /= 1000;
        u++;
    }
    fx_printf(t, u ? "%.1f %sFLOP" : "%.0f %sFLOP", v, unit[u]);
}

/* Whether no other parameter of the step shares bytes with this one, of which one is written: then it may be `restrict`. */
static bool alone(const fx_emit *e, size_t which)
{
    const fx_step_facts *f = e->fact;
    const fx_buf *a = &e->p->bufs[f->params[which].buf];
    if (a->kind != FX_BUF_ARENA)
        return true; /* the contract: what callers give overlaps nothing */
    for (size_t i = 0; i < f->n_params; i++) {
        const fx_buf *b = &e->p->bufs[f->params[i].buf];
        if (i == which || b->kind != FX_BUF_ARENA || (!f->params[which].written && !f->params[i].written))
            continue;
        uint64_t a_end = a->offset + fx_buf_bytes(a), b_end = b->offset + fx_buf_bytes(b);
        if (a->slot >= 0 || b->slot >= 0 ? a->slot == b->slot : a->offset < b_end && b->offset < a_end)
            return false;
    }
    return true;
}

void fx_c_enter_block(fx_emit *e)
{
    fx_names *inner = FX_NEW(e->local, fx_names);
    fx_names_init(inner, e->local, e->scope);
    e->scope = inner;
    e->indent++;
}

void fx_c_leave_block(fx_emit *e)
{
    e->scope = (fx_names *)(uintptr_t)e->scope->outer;
    e->indent--;
}

/* Whether the step depends on the symbols. */
static bool sized(const fx_emit *e)
{
    for (size_t i = 0; i < e->p->n_symbols; i++)
        if (e->fact->symbols[i])
            return true;
    return false;
}

/* Of sizes in the step. */
static const char *size_type(const fx_emit *e)
{
    return e->fact->wide || e->fact->calls || !e->say->gpu ? "ptrdiff_t" : "int";
}

/* A parameter of the step's function; lines are wrapped below the first. */
static void put_parameter(fx_text *head, size_t indent, size_t *line, const char *text)
{
    if (head->size > indent) {
        fx_puts(head, ",");
        if (*line + strlen(text) + 3 > 110) {
            *line = indent > 40 ? 8 : indent;
            fx_printf(head, "\n%*s", (int)*line, "");
        } else {
            fx_puts(head, " ");
            ++*line;
        }
    }
    fx_puts(head, text);
    *line += strlen(text) + 1;
}

/* Sizes, weights, buffers; calls: it calls a kernel of a GPU on a stream; reports: checks write what failed to memory. */
static void put_parameters(fx_emit *e, fx_text *head, bool calls, bool reports)
{
    const fx_step_facts *f = e->fact;
    size_t indent = head->size, line = head->size;
    if (!e->params)
        e->params = FX_NEW_ARRAY(e->arena, const char *, e->p->n_bufs + 1);
    if (calls && f->products) {
        fx_names_take(e->scope, "products");
        put_parameter(head, indent, &line, "fxrt_cuda_products *products");
    }
    for (size_t i = 0; i < e->p->n_symbols; i++) {
        if (!f->symbols[i])
            continue;
        fx_names_take(e->scope, e->symbols[i]);
        put_parameter(head, indent, &line, fx_arena_printf(e->local, "%s %s", size_type(e), e->symbols[i]));
    }
    if (f->weights) {
        fx_names_take(e->scope, "weights");
        put_parameter(head, indent, &line, fx_arena_printf(e->local, "const %s_weights_t *%sweights", e->prefix, calls ? "" : e->say->weights));
    }
    for (size_t i = 0; i < f->n_params; i++) {
        const struct fx_step_param *param = &f->params[i];
        const fx_buf *b = &e->p->bufs[param->buf];
        fx_names_take(e->scope, e->bufs[param->buf]);
        e->params[param->buf] = e->bufs[param->buf];
        put_parameter(head, indent, &line, fx_arena_printf(e->local, "%s%s *%s%s", param->written || b->workspace ? "" : "const ", fx_c_type(b->dtype),
                                                           f->loops && alone(e, i) ? e->say->restrict_word : "", e->bufs[param->buf]));
    }
    if (reports) {
        fx_names_take(e->scope, "status");
        put_parameter(head, indent, &line, "int *status");
    }
    if (calls) {
        fx_names_take(e->scope, "stream");
        put_parameter(head, indent, &line, "cudaStream_t stream");
    }
    if (head->size == indent)
        fx_puts(head, "void");
}

fx_status fx_c_step_begin(void *user, const fx_step *step)
{
    fx_emit *e = user;
    size_t number = (size_t)(step - e->p->steps);
    for (size_t i = 0; e->params && e->fact && i < e->fact->n_params; i++) /* of the step before */
        e->params[e->fact->params[i].buf] = NULL;
    fx_step_facts *f = e->fact = &e->facts[number];
    e->step = step;
    e->loops = FX_NEW_ARRAY(e->local, fx_loopname, f->n_vars + 1);
    e->locals = FX_NEW_ARRAY(e->local, fx_localname, f->n_locals + 1);
    e->assigned = FX_NEW_ARRAY(e->local, bool, f->n_locals + 1);
    e->scope = FX_NEW(e->local, fx_names);
    fx_names_init(e->scope, e->local, &e->names);

    fx_text *t = e->t;
    fx_puts(t, "\n/* ");
    fx_put_comment(t, step->title ? step->title : step->name, 300);
    if (step->loc.frame) {
        fx_puts(t, " (");
        fx_put_comment(t, step->loc.frame, 200);
        fx_puts(t, ")");
    }
    if (step->shapes || step->flops) {
        fx_puts(t, "\n * ");
        fx_put_comment(t, step->shapes, 300);
        if (step->flops) {
            fx_puts(t, step->shapes ? ", " : "");
            put_flops(t, step->flops);
            if (sized(e))
                fx_puts(t, " at the least sizes");
        }
    }
    fx_puts(t, " */\n");

    fx_text head;
    fx_text_init(&head, e->local);
    bool calls = e->say->gpu && f->calls, reports = f->checks && e->say->gpu; /* by memory: a kernel returns nothing */
    fx_printf(&head, "static %s %s(", calls ? "cudaError_t" : e->say->gpu ? "__global__ void" : f->checks ? "int" : "void", e->steps[number]);
    put_parameters(e, &head, calls, reports);
    fx_printf(t, "%s)\n{\n", head.data);
    e->indent = 1;
    for (size_t i = e->p->n_symbols; i < e->n_sizes; i++)
        if (f->symbols[i])
            fx_names_take(e->scope, e->symbols[i]);
    fx_c_derived_locals(e, t, size_type(e), f->symbols);
    if (f->checks && !reports) {
        fx_names_take(e->scope, "status");
        fx_emit_line(e, "int status = %s_OK;", e->PREFIX);
    }
    return FX_OK;
}

static fx_status step_end(void *user, const fx_step *step)
{
    (void)step;
    fx_emit *e = user;
    if (e->fact->checks && !e->say->gpu)
        fx_emit_line(e, "return status;");
    fx_puts(e->t, "}\n");
    fx_emit_done(e);
    return FX_OK;
}

static fx_status loop_begin(void *user, const fx_stmt *loop)
{
    static const char *const usual[] = {"i", "j", "k", "l", "m"};
    fx_emit *e = user;
    fx_loopname *l = &e->loops[loop->var];
    l->extent = loop->extent;
    l->name = NULL;
    if (fx_dim_is(loop->extent, 1))
        return FX_OK; /* printed as its body alone */
    if (loop->loop == FX_LOOP_PARALLEL)
        fx_emit_line(e, is_both(loop) ? "%s_PARALLEL_VECTOR" : "%s_PARALLEL", e->PREFIX);
    else if (loop->loop == FX_LOOP_VECTOR)
        fx_emit_line(e, "%s_VECTOR", e->PREFIX);
    else if (loop->loop == FX_LOOP_UNROLLED)
        fx_emit_line(e, "%s_UNROLL", e->PREFIX);
    const char *hint = loop->hint ? loop->hint : usual[e->indent > 5 ? 4 : e->indent - 1];
    fx_names inner;
    fx_names_init(&inner, e->local, e->scope);
    l->name = fx_names_make(&inner, hint, 24, "i");
    const char *type = e->fact->wide ? "ptrdiff_t" : "int";
    fx_emit_line(e, "for (%s %s = 0; %s < %s; %s++) {", type, l->name, l->name, fx_c_dim(e, loop->extent), l->name);
    fx_c_enter_block(e);
    fx_names_take(e->scope, l->name);
    return FX_OK;
}

static fx_status loop_end(void *user, const fx_stmt *loop)
{
    fx_emit *e = user;
    if (fx_dim_is(loop->extent, 1))
        return FX_OK;
    fx_c_leave_block(e);
    fx_emit_line(e, "}");
    return FX_OK;
}

/* a >= 0 with its negative terms on the other side: "h >= 1", "h + 2 * k <= 55". NULL when it always holds as printed. */
static const char *condition(fx_emit *e, const fx_affine *a)
{
    fx_affine left = {0}, right = {0};
    int n_left = 0, n_right = 0;
    for (int i = 0; i < a->n; i++) {
        bool shown = a->var[i] < 0 || e->loops[a->var[i]].name != NULL;
        if (!fx_c_dim_negative(a->coef[i])) {
            fx_affine_add(e->ctx, &left, a->var[i], a->coef[i]);
            n_left += shown;
        } else {
            fx_affine_add(e->ctx, &right, a->var[i], fx_dim_scale(e->ctx, a->coef[i], -1));
            n_right += shown;
        }
    }
    if (!fx_c_dim_negative(a->base) && !fx_dim_is(a->base, 0) && (n_right || !n_left))
        left.base = a->base;
    else
        right.base = fx_dim_scale(e->ctx, a->base, -1);
    if (!n_left)
        return fx_arena_printf(e->local, "%s <= %s", fx_c_affine(e, &right), fx_c_affine(e, &left));
    return fx_arena_printf(e->local, "%s >= %s", fx_c_affine(e, &left), fx_c_affine(e, &right));
}

static fx_status if_begin(void *user, const fx_stmt *guard)
{
    fx_emit *e = user;
    fx_text t;
    fx_text_init(&t, e->local);
    for (int i = 0; i < guard->n_cond; i++)
        fx_printf(&t, "%s%s", i ? " && " : "", condition(e, &guard->cond[i]));
    fx_emit_line(e, "if (%s) {", t.size ? t.data : "1");
    fx_c_enter_block(e);
    return FX_OK;
}

static fx_status if_end(void *user, const fx_stmt *guard)
{
    (void)guard;
    fx_emit *e = user;
    fx_c_leave_block(e);
    fx_emit_line(e, "}");
    return FX_OK;
}

/* "left = right;", on two lines when it would be long */
static void put_assignment(fx_emit *e, const char *left, const char *right)
{
    if (strlen(left) + strlen(right) + 4 * (size_t)e->indent > 110 && strlen(left) > 12) {
        fx_emit_line(e, "%s =", left);
        e->indent++;
        fx_emit_line(e, "%s;", right);
        e->indent--;
    } else {
        fx_emit_line(e, "%s = %s;", left, right);
    }
}

static fx_status store(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const char *value;
    FX_TRY(fx_c_stored(e, e->p->bufs[s->buf].dtype, s->value, &value));
    put_assignment(e, fx_c_element(e, s->buf, &s->index), value);
    return FX_OK;
}

static fx_status local(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const char *value;
    FX_TRY(fx_c_value(e, s->value, &value));
    bool set = e->assigned[s->local];
    fx_localname *l = &e->locals[s->local];
    l->name = fx_names_make(e->scope, set ? "acc" : "v", FX_IDENT_MAX, "v");
    l->dtype = s->value->dtype;
    put_assignment(e, fx_arena_printf(e->local, "%s%s %s", set ? "" : "const ", fx_c_value_type(l->dtype), l->name), value);
    return FX_OK;
}

static fx_status set(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const char *value;
    FX_TRY(fx_c_value(e, s->value, &value));
    put_assignment(e, e->locals[s->local].name, value);
    return FX_OK;
}

/* The descriptor as an initialiser by names; fields that are 0 are left out. */
static void put_descriptor(fx_emit *e, const char *name, const fx_kernel *k, const fx_call_stmt *c)
{
    static const char *const act[] = {
#define FXRT_X(id, doc) "FXRT_ACT_" #id,
        FXRT_ACTS(FXRT_X)
#undef FXRT_X
    };
    fx_text *t = e->t;
    bool constant = true;
    for (int i = 0; i < k->n_fields; i++)
        constant &= !c->sym[i];
    fx_emit_line(e, "%sconst fxrt_%s_desc %s = {", constant ? "static " : "", k->desc, name);
    e->indent++;
    size_t line = 0;
    for (int i = 0; i < k->n_fields; i++) {
        fx_text one;
        fx_text_init(&one, e->local);
        if (c->field[i] == 0 && !c->sym[i] && (i > 0 || k->n_fields > 1))
            continue;
        fx_printf(&one, ".%s = ", k->field[i].name);
        if (c->sym[i])
            fx_printf(&one, "(int32_t)%s", fx_c_factor(e, fx_dim_sym(c->sym[i])));
        else if (strcmp(k->field[i].name, "act") == 0 && c->field[i] >= 0 && c->field[i] < FXRT_ACT_COUNT)
            fx_puts(&one, act[(int)c->field[i]]);
        else if (k->field[i].is_float)
            fx_put_float(&one, (float)c->field[i], true);
        else
            fx_printf(&one, "%lld", (long long)c->field[i]);
        if (line && line + one.size + 2 > 100) {
            fx_puts(t, ",\n");
            line = 0;
        } else if (line) {
            fx_puts(t, ", ");
            line += 2;
        }
        if (!line) {
            fx_emit_open(e);
            line = 4 * (size_t)e->indent;
        }
        fx_puts(t, one.data);
        line += one.size;
    }
    if (!line) { /* all zero; C99 has no empty initialiser */
        fx_emit_open(e);
        fx_printf(t, ".%s = 0", k->field[0].name);
    }
    fx_puts(t, "\n");
    e->indent--;
    fx_emit_line(e, "};");
}

void fx_c_put_call(fx_emit *e, const fx_call_stmt *c, const char *function, const char *before, const char *after, bool workspace)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    const char *desc = fx_names_make(e->scope, "desc", FX_IDENT_MAX, "desc");
    put_descriptor(e, desc, k, c);
    fx_text t;
    fx_text_init(&t, e->local);
    fx_printf(&t, "%s(%s&%s", function, before, desc);
    size_t line = t.size + 4 * (size_t)e->indent;
    for (int i = 0; i < k->n_bufs; i++) {
        if ((!workspace && strcmp(k->buf[i].name, "ws") == 0) || (k->buf[i].counts && !e->say->gpu))
            continue;
        fx_text a;
        fx_text_init(&a, e->local);
        if (c->buf[i] < 0 || (e->p->bufs[c->buf[i]].kind == FX_BUF_WEIGHT && fx_dim_is(e->p->bufs[c->buf[i]].numel, 0))) {
            fx_puts(&a, e->say->null);
        } else {
            const fx_buf *b = &e->p->bufs[c->buf[i]];
            if (b->dtype != FX_F32 && b->kind != FX_BUF_COUNTER)
                fx_printf(&a, "(%s%s *)", k->buf[i].written || b->workspace ? "" : "const ", fx_cuda_element(b->dtype));
            bool moved = !fx_dim_is(c->offset[i], 0), far = b->dtype != FX_F32 && moved;
            fx_printf(&a, "%s%s", far ? "(" : "", fx_c_buf(e, c->buf[i]));
            if (moved)
                fx_printf(&a, " + %s%s", fx_c_dim(e, c->offset[i]), far ? ")" : "");
        }
        bool wrap = line + a.size + 3 > 110;
        if (wrap)
            fx_printf(&t, ",\n%*s", 4 * (e->indent + 2), "");
        else
            fx_puts(&t, ", ");
        line = (wrap ? 4 * ((size_t)e->indent + 2) : line + 2) + a.size;
        fx_puts(&t, a.data);
    }
    fx_emit_line(e, "%s%s);", t.data, after);
}

static fx_status call(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const fx_kernel *k = fx_kernel_get(s->call->kernel);
    const char *function = e->opt->link_runtime ? fx_arena_printf(e->local, "fxrt_%s_%s", e->p->target.isa, k->name) : fx_arena_printf(e->local, "fxrt_%s", k->name);
    fx_c_put_call(e, s->call, function, "", "", true);
    return FX_OK;
}

static fx_status comment(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    fx_emit_open(e);
    fx_puts(e->t, "/* ");
    fx_put_comment(e->t, s->text, 200);
    fx_puts(e->t, " */\n");
    return FX_OK;
}

static fx_status array(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const fx_buf *b = &e->p->bufs[s->buf];
    e->params[s->buf] = fx_names_make(e->scope, b->name, FX_IDENT_MAX, "array");
    fx_emit_line(e, "%s%s %s[%lld];", e->block && !e->in_threads ? "__shared__ " : "", fx_c_type(b->dtype), e->params[s->buf],
                 (long long)(b->numel.value > 0 ? b->numel.value : 1));
    return FX_OK;
}

/* One comparison tells both ends, whatever the index's type: what is below 0 is large without a sign. */
static fx_status check_begin(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    const char *extent = fx_dim_known(s->extent) ? fx_c_dim(e, s->extent) : fx_arena_printf(e->local, "(uint64_t)%s", fx_c_factor(e, s->extent));
    fx_emit_line(e, "if ((uint64_t)%s < %s) {", e->locals[s->local].name, extent);
    fx_c_enter_block(e);
    return FX_OK;
}

static fx_status check_end(void *user, const fx_stmt *s)
{
    fx_emit *e = user;
    fx_c_leave_block(e);
    fx_emit_line(e, "} else {");
    e->indent++;
    fx_emit_line(e, "%s_FAIL(%s);", e->PREFIX, (const char *)fx_map_get(&e->checks, s));
    e->indent--;
    fx_emit_line(e, "}");
    return FX_OK;
}

/* Which locals a statement list sets after their declaration. */
static void find_assigned(bool *assigned, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_SET || s->kind == FX_ST_REDUCE)
            assigned[s->local] = true;
        find_assigned(assigned, s->body);
    }
}

static fx_status step_begin(void *user, const fx_step *step)
{
    fx_emit *e = user;
    FX_TRY(fx_c_step_begin(user, step));
    find_assigned(e->assigned, step->body);
    return FX_OK;
}

const fx_hooks fx_c_step_hooks = {.step_begin = step_begin, .step_end = step_end, .loop_begin = loop_begin, .loop_end = loop_end, .if_begin = if_begin,
                                  .if_end = if_end, .store = store, .local = local, .set = set, .call = call, .comment = comment, .array = array,
                                  .check_begin = check_begin, .check_end = check_end};

fx_status fx_c_steps(fx_emit *e, fx_text *t, const fx_hooks *hooks)
{
    e->t = t;
    e->deriving = true;
    fx_status status = fx_walk(e->p, hooks, e);
    e->deriving = false;
    return status;
}
