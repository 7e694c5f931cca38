/* ir/program_verify.c: what every loop program must keep to. Shares no code with the passes that make programs, least of all
 * with the memory planner: lives and overlaps are recomputed from the accesses.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/lex.h"
#include "ir/program.h"

/* Findings after this many are counted, not told. */
enum { MOST_FINDINGS = 20, ALIGN = 64 };

/* What the accesses of the program tell about a buffer. */
typedef struct life {
    int first, last;          /* steps that touch it; -1: none */
    int first_write;
    int64_t lo, hi;           /* the hull of the elements written so far */
    bool told;                /* one finding a buffer is enough */
} life;

typedef struct local {
    int id;
    fx_dtype dtype;
    int parallel_depth;       /* loops of kind PARALLEL around its definition */
} local;

typedef struct check {
    fx_program *p;
    fx_arena *arena;          /* scratch */
    const char *where;
    int findings;
    int step;                 /* number of the step being checked */
    life *lives;
    /* the scope of the statement being checked */
    struct { int var; int64_t extent; fx_loop_kind kind; } loops[FX_MAX_LOOPS];
    int n_loops, parallel_depth;
    int *used_vars; size_t n_used_vars, cap_used_vars;
    local *locals; size_t n_locals, cap_locals;         /* visible ones */
    int *used_locals; size_t n_used_locals, cap_used_locals;
} check;

__attribute__((format(printf, 2, 3))) static void bad(check *c, const char *fmt, ...)
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

static bool valid_buf(const check *c, int buf)
{
    return buf >= 0 && (size_t)buf < c->p->n_bufs;
}

static const char *buf_name(const check *c, int buf)
{
    return valid_buf(c, buf) ? c->p->bufs[buf].name : "?";
}

/* ---- buffers, inputs, outputs ------------------------------------------------------------------------------------ */

/* Names are compared after sorting, so that many buffers do not make this quadratic. */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_names(check *c, const char *what, size_t n, const char **names)
{
    for (size_t i = 0; i < n; i++) {
        if (!fx_is_word(names[i], false))
            bad(c, "%s '%s': expected a C identifier as name", what, names[i] ? names[i] : "");
        if (!names[i])
            names[i] = "";
    }
    qsort(names, n, sizeof names[0], by_text);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            bad(c, "%s '%s' is there twice", what, names[i]);
    }
}

static bool dtype_is(check *c, fx_dtype d)
{
    (void)c;
    return (unsigned)d < FX_DTYPE_COUNT;
}

static void check_buffer(check *c, const fx_buf *b, int id)
{
    if (b->id != id)
        bad(c, "buffer '%s': expected id %d, got %d", b->name, id, b->id);
    if ((unsigned)b->kind > FX_BUF_ARENA || !dtype_is(c, b->dtype)) {
        bad(c, "buffer '%s': kind %d or dtype %d does not exist", b->name, (int)b->kind, (int)b->dtype);
        return;
    }
    if (b->rank < 0 || b->rank > FX_MAX_RANK)
        bad(c, "buffer '%s': expected a rank up to %d, got %d", b->name, FX_MAX_RANK, b->rank);
    if (b->numel < 0 || b->numel > INT64_MAX / 16)
        bad(c, "buffer '%s': its size of %lld elements is impossible", b->name, (long long)b->numel);
    if (b->kind == FX_BUF_WEIGHT && !b->data && b->hash == 0 && b->numel > 0)
        bad(c, "weight '%s' has no data", b->name);
    if (b->overlay != -1) {
        if (!valid_buf(c, b->overlay) || b->overlay == id || b->kind != FX_BUF_ARENA || c->p->bufs[b->overlay].kind != FX_BUF_ARENA)
            bad(c, "buffer '%s': expected another arena buffer to overlay, got %d", b->name, b->overlay);
        else if (fx_dtype_size(c->p->bufs[b->overlay].dtype) != fx_dtype_size(b->dtype))
            bad(c, "buffer '%s' overlays '%s' of another element size", b->name, buf_name(c, b->overlay));
    }
    if (b->workspace && b->kind != FX_BUF_ARENA)
        bad(c, "buffer '%s' is workspace, but not in the arena", b->name);
}

static void check_ios(check *c, const char *what, fx_buf_kind kind, size_t n, const fx_io *ios)
{
    size_t of_kind = 0;
    for (size_t i = 0; i < n; i++) {
        const fx_io *io = &ios[i];
        if (!valid_buf(c, io->buf) || c->p->bufs[io->buf].kind != kind) {
            bad(c, "%s %zu '%s': expected a buffer of kind %s", what, i, io->name ? io->name : "", what);
            continue;
        }
        const fx_buf *b = &c->p->bufs[io->buf];
        int64_t numel = 1;
        for (int d = 0; d < io->rank && d < FX_MAX_RANK; d++)
            numel = (int64_t)((uint64_t)numel * (uint64_t)io->dims[d]);
        if (b->io != (int)i)
            bad(c, "%s %zu '%s': its buffer '%s' says number %d", what, i, io->name, b->name, b->io);
        if (b->dtype != io->dtype || b->numel != numel)
            bad(c, "%s %zu '%s': expected %lld elements of %s as the model has, its buffer '%s' has %lld of %s", what, i, io->name,
                (long long)numel, fx_dtype_short(io->dtype), b->name, (long long)b->numel, fx_dtype_short(b->dtype));
    }
    for (size_t i = 0; i < c->p->n_bufs; i++)
        of_kind += c->p->bufs[i].kind == kind;
    if (of_kind != n)
        bad(c, "expected a buffer for each of %zu %ss, got %zu", n, what, of_kind);
}

static void check_tables(check *c)
{
    fx_program *p = c->p;
    const char **names = FX_NEW_ARRAY(c->arena, const char *, p->n_bufs + p->n_steps + p->n_inputs + p->n_outputs + 1);
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
    check_names(c, "input or output", p->n_inputs + p->n_outputs, names);
    check_ios(c, "input", FX_BUF_INPUT, p->n_inputs, p->inputs);
    check_ios(c, "output", FX_BUF_OUTPUT, p->n_outputs, p->outputs);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static void check_affine(check *c, const fx_affine *a, const char *what)
{
    if (a->n < 0 || a->n > FX_MAX_LOOPS) {
        bad(c, "%s has %d variables", what, a->n);
        return;
    }
    for (int i = 0; i < a->n; i++) {
        bool found = false;
        for (int l = 0; l < c->n_loops; l++)
            found |= c->loops[l].var == a->var[i];
        if (!found)
            bad(c, "%s uses v%d, which no loop around it defines", what, a->var[i]);
        if (a->coef[i] == 0)
            bad(c, "%s has the coefficient 0 for v%d", what, a->var[i]);
        if (i > 0 && a->var[i - 1] >= a->var[i])
            bad(c, "%s: variables are not sorted", what);
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

static bool op_takes(fx_sop op, fx_dtype d)
{
    sop_types t = types_of(op);
    switch (d) {
    case FX_F32:
        return t.f32;
    case FX_F64:
        return t.f64;
    case FX_I8: case FX_I16: case FX_I32: case FX_I64: case FX_U8: case FX_BOOL:
        return t.ints;
    default:
        return false;
    }
}

static bool is_comparison(fx_sop op)
{
    return op >= FX_S_eq && op <= FX_S_ge;
}

static const local *find_local(const check *c, int id)
{
    for (size_t i = 0; i < c->n_locals; i++) {
        if (c->locals[i].id == id)
            return &c->locals[i];
    }
    return NULL;
}

static void check_expr(check *c, const fx_sexpr *e, int depth)
{
    enum { DEEPEST = 400 };
    if (!e || (unsigned)e->op >= FX_S_COUNT || !dtype_is(c, e->dtype)) {
        bad(c, "an expression is missing or of no known kind");
        return;
    }
    if (depth > DEEPEST) {
        bad(c, "an expression is nested more than %d deep", DEEPEST);
        return;
    }
    const char *op = fx_sop_name(e->op), *dtype = fx_dtype_short(e->dtype);
    for (int i = 0; i < fx_sop_arity(e->op); i++) {
        if (!e->arg[i]) {
            bad(c, "operand %d of %s is missing", i, op);
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
        if (!valid_buf(c, e->buf))
            bad(c, "a load is from buffer %d, which does not exist", e->buf);
        else if (c->p->bufs[e->buf].dtype != e->dtype)
            bad(c, "a load of %s is from '%s' of %s", dtype, buf_name(c, e->buf), fx_dtype_short(c->p->bufs[e->buf].dtype));
        return;
    case FX_S_LOCAL: {
        const local *l = find_local(c, e->local);
        if (!l)
            bad(c, "t%d is used where it is not defined", e->local);
        else if (l->dtype != e->dtype)
            bad(c, "t%d is used as %s, but defined as %s", e->local, dtype, fx_dtype_short(l->dtype));
        return;
    }
    case FX_S_INDEX:
        check_affine(c, &e->index, "an index value");
        if (e->dtype != FX_I64)
            bad(c, "an index value is i64, got %s", dtype);
        return;
    default:
        break;
    }
    fx_dtype operand = e->arg[fx_sop_arity(e->op) - 1]->dtype;
    for (int i = e->op == FX_S_select; i < fx_sop_arity(e->op); i++) {
        if (e->arg[i]->dtype != operand)
            bad(c, "%s: operands of %s and %s", op, fx_dtype_short(e->arg[i]->dtype), fx_dtype_short(operand));
    }
    if (e->op == FX_S_select && e->arg[0]->dtype != FX_BOOL)
        bad(c, "select: expected a condition of bool, got %s", fx_dtype_short(e->arg[0]->dtype));
    fx_dtype result = is_comparison(e->op) ? FX_BOOL : operand;
    if (e->dtype != result)
        bad(c, "%s of %s: expected a result of %s, got %s", op, fx_dtype_short(operand), fx_dtype_short(result), dtype);
    if (!op_takes(e->op, operand))
        bad(c, "%s does not exist for %s", op, fx_dtype_short(operand));
}

/* ---- kernel calls -------------------------------------------------------------------------------------------------- */

static void positive(check *c, const fx_call_stmt *call, const char *const *names)
{
    for (; *names; names++) {
        double v = fx_call_field(call, *names);
        if (!(v > 0))
            bad(c, "call %s: expected %s > 0, got %g", call->name, *names, v);
    }
}

static void not_negative(check *c, const fx_call_stmt *call, const char *const *names)
{
    for (; *names; names++) {
        double v = fx_call_field(call, *names);
        if (!(v >= 0))
            bad(c, "call %s: expected %s >= 0, got %g", call->name, *names, v);
    }
}

/* The output's pixels must not overlap: each stride spans what lies inside it. */
static void check_pitch(check *c, const fx_call_stmt *call, const char *outer, int64_t n, int64_t stride, int64_t inside)
{
    if (n > 1 && stride < inside)
        bad(c, "call %s: output rows overlap: expected %s >= %lld, got %lld", call->name, outer, (long long)inside, (long long)stride);
}

static void check_output(check *c, const fx_call_stmt *call, int64_t n, int64_t h, int64_t w, int64_t ch, int64_t s_n, int64_t s_h,
                         int64_t s_w)
{
    check_pitch(c, call, "ys_w", w, s_w, ch);
    check_pitch(c, call, "ys_h", h, s_h, (w - 1) * s_w + ch);
    check_pitch(c, call, "ys_n", n, s_n, (h - 1) * s_h + (w - 1) * s_w + ch);
}

static void check_act(check *c, const fx_call_stmt *call)
{
    double act = fx_call_field(call, "act");
    if (!(act >= 0 && act < FXRT_ACT_COUNT))
        bad(c, "call %s: activation %g does not exist", call->name, act);
}

static void check_conv(check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"n", "ih", "iw", "ic", "oh", "ow", "oc", "groups", "kh", "kw", "sh", "sw", "dh", "dw", "xs_n",
                                        "xs_h", "xs_w", "ys_n", "ys_h", "ys_w", NULL};
    static const char *const pads[] = {"ph", "pw", NULL};
    static const char *const residual[] = {"rs_n", "rs_h", "rs_w", NULL};
    fxrt_conv2d_desc d;
    fx_call_to_desc(call, &d);
    positive(c, call, sizes);
    not_negative(c, call, pads);
    if (call->buf[fx_kernel_buf(fx_kernel_get(call->kernel), "r")] >= 0)
        positive(c, call, residual);
    check_act(c, call);
    check_output(c, call, d.n, d.oh, d.ow, (int64_t)d.groups * d.oc, d.ys_n, d.ys_h, d.ys_w);
    if (call->kernel == FX_K_conv2d_dw && (d.ic != 1 || d.oc != 1))
        bad(c, "call %s: expected one channel a group, got ic %d, oc %d", call->name, d.ic, d.oc);
}

static void check_gemm(check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"batch", "m", "n", "k", NULL};
    static const char *const strides[] = {"x_b", "x_m", "y_b", "y_m", "r_b", "r_m", "w_b", "w_k", "w_n", NULL};
    fxrt_gemm_desc d;
    fx_call_to_desc(call, &d);
    positive(c, call, sizes);
    not_negative(c, call, strides);
    check_act(c, call);
    check_pitch(c, call, "y_m", d.m, d.y_m, d.n);
    check_pitch(c, call, "y_b", d.batch, d.y_b, (int64_t)(d.m - 1) * d.y_m + d.n);
}

static void check_pool(check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"n", "ih", "iw", "c", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw", "xs_n", "xs_h", "xs_w",
                                        "ys_n", "ys_h", "ys_w", NULL};
    static const char *const pads[] = {"ph", "pw", "count_include_pad", NULL};
    fxrt_pool2d_desc d;
    fx_call_to_desc(call, &d);
    positive(c, call, sizes);
    not_negative(c, call, pads);
    check_output(c, call, d.n, d.oh, d.ow, d.c, d.ys_n, d.ys_h, d.ys_w);
    /* Unlike a convolution's, a pool's window always sees some of the input. */
    if ((int64_t)(d.oh - 1) * d.sh - d.ph >= d.ih)
        bad(c, "call %s: its last row of windows lies below the input", call->name);
    if ((int64_t)(d.ow - 1) * d.sw - d.pw >= d.iw)
        bad(c, "call %s: its last column of windows lies right of the input", call->name);
}

static void check_resize(check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"n", "ih", "iw", "c", "oh", "ow", "xs_n", "xs_h", "xs_w", "ys_n", "ys_h", "ys_w", NULL};
    static const char *const others[] = {"align_corners", "scale_h", "scale_w", NULL};
    fxrt_resize2d_desc d;
    fx_call_to_desc(call, &d);
    positive(c, call, sizes);
    not_negative(c, call, others);
    check_output(c, call, d.n, d.oh, d.ow, d.c, d.ys_n, d.ys_h, d.ys_w);
}

static void check_norm(check *c, const fx_call_stmt *call)
{
    static const char *const layer[] = {"rows", "n", "x_m", "y_m", NULL};
    static const char *const group[] = {"n", "hw", "c", "groups", "xs_n", "xs_p", "ys_n", "ys_p", NULL};
    static const char *const eps[] = {"eps", NULL};
    not_negative(c, call, eps);
    if (call->kernel == FX_K_layer_norm) {
        fxrt_layer_norm_desc d;
        fx_call_to_desc(call, &d);
        positive(c, call, layer);
        check_pitch(c, call, "y_m", d.rows, d.y_m, d.n);
        return;
    }
    fxrt_group_norm_desc d;
    fx_call_to_desc(call, &d);
    positive(c, call, group);
    if (d.groups > 0 && d.c % d.groups != 0)
        bad(c, "call %s: %d channels do not divide into %d groups", call->name, d.c, d.groups);
    check_pitch(c, call, "ys_p", d.hw, d.ys_p, d.c);
    check_pitch(c, call, "ys_n", d.n, d.ys_n, (int64_t)(d.hw - 1) * d.ys_p + d.c);
}

/* A window of channels in pixels: what an argument of a convolution or pool touches. */
typedef struct window {
    int64_t offset, channels, s_n, s_h, s_w;
} window;

static window window_of(const fx_call_stmt *call, const fx_kernel *k, char arg)
{
    double groups = fx_kernel_field(k, "groups") >= 0 ? fx_call_field(call, "groups") : 1;
    const char *each = fx_kernel_field(k, "groups") < 0 ? "c" : arg == 'x' ? "ic" : "oc";
    const char names[3][5] = {{arg, 's', '_', 'n'}, {arg, 's', '_', 'h'}, {arg, 's', '_', 'w'}};
    return (window){call->offset[fx_kernel_buf(k, (char[]){arg, 0})], (int64_t)(groups * fx_call_field(call, each)),
                    (int64_t)fx_call_field(call, names[0]), (int64_t)fx_call_field(call, names[1]), (int64_t)fx_call_field(call, names[2])};
}

/* Where a call reads and writes one buffer, the elements must differ: channels of the same pixels (a concatenation that grows),
 * or else ranges. Only a residual may lie exactly on the result. */
static void check_aliases(check *c, const fx_call_stmt *call, const fx_kernel *k)
{
    int y = fx_kernel_buf(k, "y");
    for (int i = 0; i < k->n_bufs; i++) {
        int64_t lo, hi, y_lo, y_hi;
        if (i == y || call->buf[i] != call->buf[y])
            continue;
        fx_call_footprint(c->p, call, i, &lo, &hi);
        fx_call_footprint(c->p, call, y, &y_lo, &y_hi);
        if (hi < y_lo || y_hi < lo)
            continue;
        char arg = k->buf[i].name[0];
        if (fx_kernel_field(k, "ys_w") >= 0 && (arg == 'x' || arg == 'r')) {
            window a = window_of(call, k, arg), b = window_of(call, k, 'y');
            bool same = a.s_w == b.s_w && (a.s_h == b.s_h || fx_call_field(call, "oh") == 1) && (a.s_n == b.s_n || fx_call_field(call, "n") == 1);
            if (arg == 'r' && same && a.offset == b.offset)
                continue;
            /* Rows and images are whole numbers of pixels apart, so channels decide. */
            int64_t p = a.s_w, at = a.offset % p, to = b.offset % p;
            if (a.s_w == b.s_w && a.s_h % p == 0 && a.s_n % p == 0 && b.s_h % p == 0 && b.s_n % p == 0 && at + a.channels <= p &&
                to + b.channels <= p && (at + a.channels <= to || to + b.channels <= at))
                continue;
        }
        if (arg == 'r' && call->offset[i] == call->offset[y] && fx_call_field(call, "r_m") == fx_call_field(call, "y_m") &&
            fx_call_field(call, "r_b") == fx_call_field(call, "y_b") && fx_kernel_field(k, "y_m") >= 0)
            continue;
        bad(c, "call %s writes elements of '%s' that it still reads as %s", call->name, buf_name(c, call->buf[y]), k->buf[i].name);
    }
}

static void check_fields(check *c, const fx_call_stmt *call)
{
    static const char *const softmax[] = {"outer", "n", "inner", NULL};
    switch (call->kernel) {
    case FX_K_conv2d:
    case FX_K_conv2d_dw:
    case FX_K_conv_transpose2d:
        check_conv(c, call);
        break;
    case FX_K_gemm:
    case FX_K_matmul:
        check_gemm(c, call);
        break;
    case FX_K_max_pool2d:
    case FX_K_avg_pool2d:
        check_pool(c, call);
        break;
    case FX_K_adaptive_avg_pool2d:
    case FX_K_adaptive_max_pool2d:
    case FX_K_upsample_nearest2d:
    case FX_K_upsample_bilinear2d:
        check_resize(c, call);
        break;
    case FX_K_softmax:
    case FX_K_log_softmax:
        positive(c, call, softmax);
        break;
    case FX_K_layer_norm:
    case FX_K_group_norm:
        check_norm(c, call);
        break;
    case FX_K_COUNT:
        break;
    }
}

static void check_call(check *c, const fx_call_stmt *call)
{
    const fx_kernel *k = call ? fx_kernel_get(call->kernel) : NULL;
    if (!k) {
        bad(c, "a call of a kernel that does not exist");
        return;
    }
    if (!fx_is_word(call->name, false))
        bad(c, "call of %s: expected a C identifier as name, got '%s'", k->name, call->name ? call->name : "");
    int before = c->findings;
    for (int i = 0; i < k->n_fields; i++) {
        double v = call->field[i];
        if (k->field[i].is_float ? isnan(v) : !(v >= INT32_MIN && v <= INT32_MAX && v == floor(v)))
            bad(c, "call %s: expected %s for %s, got %g", call->name, k->field[i].is_float ? "a number" : "an int32", k->field[i].name, v);
    }
    for (int i = 0; i < k->n_bufs; i++) {
        int buf = call->buf[i];
        const char *arg = k->buf[i].name;
        bool ws = strcmp(arg, "ws") == 0;
        if (buf == -1) {
            if (!k->buf[i].optional)
                bad(c, "call %s: argument %s is missing", call->name, arg);
            continue;
        }
        if (!valid_buf(c, buf)) {
            bad(c, "call %s: argument %s is buffer %d, which does not exist", call->name, arg, buf);
            continue;
        }
        const fx_buf *b = &c->p->bufs[buf];
        if (!ws && b->dtype != FX_F32)
            bad(c, "call %s: expected f32 for argument %s, '%s' is %s", call->name, arg, b->name, fx_dtype_short(b->dtype));
        if (k->buf[i].written && (b->kind == FX_BUF_INPUT || b->kind == FX_BUF_WEIGHT))
            bad(c, "call %s writes to '%s', which is only read", call->name, b->name);
        if (ws && !b->workspace)
            bad(c, "call %s: expected workspace for argument ws, got '%s'", call->name, b->name);
        if (call->offset[i] < 0)
            bad(c, "call %s: argument %s starts %lld before '%s'", call->name, arg, (long long)-call->offset[i], b->name);
    }
    if (c->findings == before)
        check_fields(c, call);
    if (c->findings == before)
        check_aliases(c, call, k);
}

/* ---- statements ------------------------------------------------------------------------------------------------------ */

static bool once(check *c, int **ids, size_t *n, size_t *cap, int id)
{
    for (size_t i = 0; i < *n; i++) {
        if ((*ids)[i] == id)
            return false;
    }
    FX_PUSH(c->arena, *ids, *n, *cap) = id;
    return true;
}

static bool depends_on(const fx_affine *a, int var)
{
    for (int i = 0; i < a->n && i < FX_MAX_LOOPS; i++) {
        if (a->var[i] == var)
            return true;
    }
    return false;
}

static const char *loop_kind(fx_loop_kind kind)
{
    return kind == FX_LOOP_PARALLEL ? "parallel" : kind == FX_LOOP_VECTOR ? "vector" : "serial";
}

static void check_store(check *c, const fx_stmt *s)
{
    check_affine(c, &s->index, "an index");
    check_expr(c, s->value, 0);
    if (!valid_buf(c, s->buf)) {
        bad(c, "a store is to buffer %d, which does not exist", s->buf);
        return;
    }
    const fx_buf *b = &c->p->bufs[s->buf];
    if (b->kind == FX_BUF_INPUT || b->kind == FX_BUF_WEIGHT)
        bad(c, "a store is to '%s', which is only read", b->name);
    if (s->value && s->value->dtype != b->dtype)
        bad(c, "a store of %s is to '%s' of %s", fx_dtype_short(s->value->dtype), b->name, fx_dtype_short(b->dtype));
}

static bool same_affine(const fx_affine *a, const fx_affine *b)
{
    if (a->n != b->n || a->base != b->base)
        return false;
    for (int i = 0; i < a->n; i++) {
        if (a->var[i] != b->var[i] || a->coef[i] != b->coef[i])
            return false;
    }
    return true;
}

/* ---- races: iterations of a parallel or vector loop may run at once ------------------------------------------------- */

/* A variable of the question whether two accesses can meet: coef * x, lo <= x <= hi, perhaps x != 0. */
typedef struct term {
    int64_t coef, lo, hi;
    bool not_zero;
    __int128 rest_lo, rest_hi; /* what the terms behind this one can add up to */
} term;

/* Whether sum(coef * x) = d has a solution; terms are sorted, largest coefficient first, so that few values of each remain. When the
 * budget is spent nothing is claimed. */
static bool solvable(const term *t, int n, __int128 d, int *budget)
{
    if (n == 0)
        return d == 0;
    for (int64_t x = t->lo; x <= t->hi; x++) {
        __int128 left = d - (__int128)t->coef * x;
        if (left < t->rest_lo || left > t->rest_hi) {
            /* Jump to the first value that leaves enough for the others. */
            __int128 far = t->coef > 0 ? left - t->rest_hi : t->rest_lo - left, size = t->coef > 0 ? t->coef : -(__int128)t->coef;
            if (far <= 0)
                return false;
            __int128 skip = (far - 1) / size;
            if (skip > t->hi - x)
                return false;
            x += (int64_t)skip;
            continue;
        }
        if (--*budget < 0)
            return false;
        if (!(t->not_zero && x == 0) && solvable(t + 1, n - 1, left, budget))
            return true;
    }
    return false;
}

typedef struct loops {
    struct { int var; int64_t extent; } loop[64];
    int n, at;               /* loop[at] is the parallel one; those before it stand still */
    const fx_stmt *stores[64];
    int n_stores;
    const fx_stmt *stmt;
} loops;

static int64_t coef_of(const fx_affine *a, int var)
{
    for (int i = 0; i < a->n; i++) {
        if (a->var[i] == var)
            return a->coef[i] == INT64_MIN ? INT64_MAX : a->coef[i];
    }
    return 0;
}

/* Whether index a in one iteration and index b in another one can be the same element. */
static bool can_meet(const loops *l, const fx_affine *a, const fx_affine *b)
{
    term t[2 * 64];
    int n = 0, budget = 20000;
    for (int i = 0; i < l->n; i++) {
        int64_t ca = coef_of(a, l->loop[i].var), cb = coef_of(b, l->loop[i].var), last = l->loop[i].extent - 1;
        if (last < 0 || llabs(ca) > INT64_MAX / 4 || llabs(cb) > INT64_MAX / 4)
            return false; /* never runs, or runs out of bounds, which is told elsewhere */
        if (i < l->at) {
            if (ca != cb)
                t[n++] = (term){.coef = ca - cb, .hi = last};
        } else if (ca == cb) {
            if (ca != 0)
                t[n++] = (term){.coef = ca, .lo = -last, .hi = last, .not_zero = i == l->at};
        } else {
            if (ca != 0)
                t[n++] = (term){.coef = ca, .hi = last};
            if (cb != 0)
                t[n++] = (term){.coef = -cb, .hi = last};
        }
    }
    for (int i = 1; i < n; i++) {
        for (int j = i; j > 0 && llabs(t[j - 1].coef) < llabs(t[j].coef); j--) {
            term swapped = t[j];
            t[j] = t[j - 1];
            t[j - 1] = swapped;
        }
    }
    __int128 lo = 0, hi = 0;
    for (int i = n - 1; i >= 0; i--) {
        __int128 x = (__int128)t[i].coef * t[i].lo, y = (__int128)t[i].coef * t[i].hi;
        t[i].rest_lo = lo;
        t[i].rest_hi = hi;
        lo += x < y ? x : y;
        hi += x < y ? y : x;
    }
    return solvable(t, n, (__int128)b->base - a->base, &budget);
}

static void find_stores(loops *l, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_STORE && l->n_stores < 64)
            l->stores[l->n_stores++] = s;
        if (s->kind == FX_ST_LOOP && l->n < 64) {
            l->loop[l->n].var = s->var;
            l->loop[l->n++].extent = s->extent;
        }
        if (s->kind == FX_ST_LOOP || s->kind == FX_ST_IF)
            find_stores(l, s->body);
    }
}

static void check_load_races(check *c, const loops *l, const fx_sexpr *e, int depth)
{
    if (!e || depth > 400)
        return;
    for (int i = 0; e->op == FX_S_LOAD && i < l->n_stores; i++) {
        if (l->stores[i]->buf == e->buf && can_meet(l, &l->stores[i]->index, &e->index)) {
            bad(c, "the %s loop v%d loads elements of '%s' that other iterations store", loop_kind(l->stmt->loop), l->stmt->var,
                buf_name(c, e->buf));
            return;
        }
    }
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        check_load_races(c, l, e->arg[i], depth + 1);
}

static void check_races(check *c, const loops *l, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_STORE || s->kind == FX_ST_LOCAL || s->kind == FX_ST_SET)
            check_load_races(c, l, s->value, 0);
        if (s->kind == FX_ST_LOOP || s->kind == FX_ST_IF)
            check_races(c, l, s->body);
        if (s->kind == FX_ST_CALL)
            bad(c, "a kernel is called in the %s loop v%d", loop_kind(l->stmt->loop), l->stmt->var);
    }
}

/* The loop just entered, c->loops[n - 1], around s->body. Indices must be sound, so this follows the other checks. */
static void check_parallel(check *c, const fx_stmt *s)
{
    loops l = {.stmt = s, .at = c->n_loops - 1};
    for (int i = 0; i < c->n_loops; i++) {
        l.loop[l.n].var = c->loops[i].var;
        l.loop[l.n++].extent = c->loops[i].extent;
    }
    find_stores(&l, s->body);
    for (int i = 0; i < l.n_stores; i++) {
        for (int k = 0; k <= i; k++) {
            const fx_stmt *a = l.stores[i], *b = l.stores[k];
            /* An index without the loop's variable meets itself at once. */
            if (a->buf == b->buf && ((a == b && coef_of(&a->index, s->var) == 0) || can_meet(&l, &a->index, &b->index))) {
                bad(c, "iterations of the %s loop v%d store to the same elements of '%s'", loop_kind(s->loop), s->var, buf_name(c, a->buf));
                return;
            }
        }
    }
    check_races(c, &l, s->body);
}

static void check_stmts(check *c, const fx_stmt *s, int depth);

static void check_loop(check *c, const fx_stmt *s, int depth)
{
    if (s->extent < 0)
        bad(c, "loop v%d: expected an extent >= 0, got %lld", s->var, (long long)s->extent);
    if ((unsigned)s->loop > FX_LOOP_VECTOR)
        bad(c, "loop v%d is of no known kind", s->var);
    if (!once(c, &c->used_vars, &c->n_used_vars, &c->cap_used_vars, s->var))
        bad(c, "v%d is the variable of two loops", s->var);
    if (c->n_loops == FX_MAX_LOOPS) {
        bad(c, "more than %d loops are nested", FX_MAX_LOOPS);
        return;
    }
    c->loops[c->n_loops].var = s->var;
    c->loops[c->n_loops].extent = s->extent;
    c->loops[c->n_loops++].kind = s->loop;
    c->parallel_depth += s->loop == FX_LOOP_PARALLEL;
    int before = c->findings;
    check_stmts(c, s->body, depth + 1);
    if (s->loop != FX_LOOP_SERIAL && s->extent > 1 && c->findings == before)
        check_parallel(c, s);
    c->parallel_depth -= s->loop == FX_LOOP_PARALLEL;
    c->n_loops--;
}

/* Locals are visible to the end of the block that defines them, as in C. */
static void check_stmts(check *c, const fx_stmt *s, int depth)
{
    enum { DEEPEST = 48 };
    if (depth > DEEPEST) {
        bad(c, "statements are nested more than %d deep", DEEPEST);
        return;
    }
    size_t visible = c->n_locals;
    for (; s; s = s->next) {
        switch (s->kind) {
        case FX_ST_LOOP:
            check_loop(c, s, depth);
            break;
        case FX_ST_STORE:
            check_store(c, s);
            break;
        case FX_ST_LOCAL:
            check_expr(c, s->value, 0);
            if (!once(c, &c->used_locals, &c->n_used_locals, &c->cap_used_locals, s->local))
                bad(c, "t%d is defined twice", s->local);
            if (s->value)
                FX_PUSH(c->arena, c->locals, c->n_locals, c->cap_locals) = (local){s->local, s->value->dtype, c->parallel_depth};
            break;
        case FX_ST_SET: {
            const local *l = find_local(c, s->local);
            check_expr(c, s->value, 0);
            if (!l)
                bad(c, "t%d is set where it is not defined", s->local);
            else if (s->value && s->value->dtype != l->dtype)
                bad(c, "t%d of %s is set to a value of %s", s->local, fx_dtype_short(l->dtype), fx_dtype_short(s->value->dtype));
            else if (l->parallel_depth != c->parallel_depth)
                bad(c, "t%d is set by all iterations of a parallel loop", s->local);
            break;
        }
        case FX_ST_IF:
            if (s->n_cond < 1 || s->n_cond > 2 * FX_MAX_RANK) {
                bad(c, "expected 1 to %d conditions, got %d", 2 * FX_MAX_RANK, s->n_cond);
                break;
            }
            for (int i = 0; i < s->n_cond; i++)
                check_affine(c, &s->cond[i], "a condition");
            check_stmts(c, s->body, depth + 1);
            break;
        case FX_ST_CALL:
            check_call(c, s->call);
            break;
        case FX_ST_COMMENT:
            break;
        default:
            bad(c, "a statement of no known kind");
        }
    }
    c->n_locals = visible;
}

/* ---- accesses: bounds, written before read, lives ---------------------------------------------------------------------- */

static void tell_once(check *c, int buf, const char *text)
{
    if (!c->lives[buf].told)
        bad(c, "%s", text);
    c->lives[buf].told = true;
}

static void on_access(void *user, int buf, bool written, int64_t lo, int64_t hi, const fx_stmt *at)
{
    check *c = user;
    if (!valid_buf(c, buf))
        return;
    const fx_buf *b = &c->p->bufs[buf];
    life *l = &c->lives[buf];
    if (lo < 0 || hi >= b->numel)
        tell_once(c, buf, fx_arena_printf(c->arena, "%s%s%s [%lld, %lld] of '%s', which has %lld", at->kind == FX_ST_CALL ? "call " : "",
                                          at->kind == FX_ST_CALL ? at->call->name : "",
                                          at->kind != FX_ST_CALL ? (written ? "a store touches elements" : "a load touches elements")
                                                                 : (written ? " writes elements" : " reads elements"),
                                          (long long)lo, (long long)hi, b->name, (long long)b->numel));
    if (l->first < 0)
        l->first = c->step;
    l->last = c->step;
    if (written) {
        if (l->first_write < 0) {
            l->first_write = c->step;
            l->lo = lo;
            l->hi = hi;
        }
        l->lo = lo < l->lo ? lo : l->lo;
        l->hi = hi > l->hi ? hi : l->hi;
    } else if (b->kind == FX_BUF_ARENA || b->kind == FX_BUF_OUTPUT) {
        if (l->first_write < 0)
            tell_once(c, buf, fx_arena_printf(c->arena, "'%s' is read before anything is written to it", b->name));
        else if (lo < l->lo || hi > l->hi)
            tell_once(c, buf, fx_arena_printf(c->arena, "elements [%lld, %lld] of '%s' are read, only [%lld, %lld] were written before",
                                              (long long)lo, (long long)hi, b->name, (long long)l->lo, (long long)l->hi));
    }
}

static void check_accesses(check *c)
{
    fx_program *p = c->p;
    for (size_t i = 0; i < p->n_bufs; i++)
        c->lives[i].first = c->lives[i].last = c->lives[i].first_write = -1;
    for (size_t i = 0; i < p->n_steps; i++) {
        c->step = (int)i;
        fx_stmt_accesses(p, p->steps[i].body, on_access, c);
    }
    c->step = -1;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        const life *l = &c->lives[i];
        if (b->kind == FX_BUF_OUTPUT && b->numel > 0 && (l->first_write < 0 || l->lo > 0 || l->hi < b->numel - 1))
            bad(c, "output '%s': expected all %lld elements to be written, got [%lld, %lld]", b->name, (long long)b->numel,
                (long long)(l->first_write < 0 ? 0 : l->lo), (long long)(l->first_write < 0 ? -1 : l->hi));
        if (b->workspace && l->first != l->last)
            bad(c, "workspace '%s' is used by steps %s and %s", b->name, p->steps[l->first].name, p->steps[l->last].name);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

/* Looks for how a step reads one buffer and writes the one that takes its place. */
typedef struct inplace {
    const check *c;
    int old, new;
    const fx_affine *index;      /* of all stores to `new` and loads of `old` seen */
    bool stored;                 /* a store to `new` came already: no load of `old` may follow */
    bool broken;
    struct { int var; int64_t extent; } loops[64];
    int n_loops;
} inplace;

static void inplace_index(inplace *w, const fx_affine *index)
{
    if (w->index && !same_affine(w->index, index))
        w->broken = true;
    w->index = index;
    /* Two iterations at one index: the second would read what the first wrote. */
    for (int i = 0; i < w->n_loops; i++) {
        if (w->loops[i].extent > 1 && !depends_on(index, w->loops[i].var))
            w->broken = true;
    }
}

static void inplace_expr(inplace *w, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD && e->buf == w->old) {
        if (w->stored)
            w->broken = true;
        inplace_index(w, &e->index);
    }
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        inplace_expr(w, e->arg[i]);
}

/* A contraction adds the residual to an element when it stores it; nothing else is read in step with what is written. */
static void inplace_call(inplace *w, const fx_call_stmt *call)
{
    const fx_kernel *k = fx_kernel_get(call->kernel);
    int r = fx_kernel_buf(k, "r"), y = fx_kernel_buf(k, "y");
    bool reads = false, writes = false;
    for (int i = 0; i < k->n_bufs; i++) {
        if (call->buf[i] == w->old && i != r)
            w->broken = true;
        if (call->buf[i] == w->new && i != y)
            w->broken = true;
    }
    reads = r >= 0 && call->buf[r] == w->old;
    writes = call->buf[y] == w->new;
    if (!reads && !writes)
        return;
    if (w->stored || w->index)
        w->broken = true; /* mixed with other statements: not looked into */
    w->stored = true;
    if (!reads)
        return;
    static const char *const pairs[][2] = {{"rs_n", "ys_n"}, {"rs_h", "ys_h"}, {"rs_w", "ys_w"}, {"r_b", "y_b"}, {"r_m", "y_m"}};
    if (call->offset[r] != call->offset[y])
        w->broken = true;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (fx_call_field(call, pairs[i][0]) != fx_call_field(call, pairs[i][1]))
            w->broken = true;
    }
}

static void inplace_stmts(inplace *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP) {
            if (w->n_loops == 64) {
                w->broken = true;
                return;
            }
            w->loops[w->n_loops].var = s->var;
            w->loops[w->n_loops++].extent = s->extent;
            inplace_stmts(w, s->body);
            w->n_loops--;
        } else if (s->kind == FX_ST_IF) {
            inplace_stmts(w, s->body);
        } else if (s->kind == FX_ST_CALL) {
            inplace_call(w, s->call);
        } else if (s->kind != FX_ST_COMMENT) {
            inplace_expr(w, s->value);
            if (s->kind == FX_ST_STORE && s->buf == w->new) {
                inplace_index(w, &s->index);
                w->stored = true;
            }
            if (s->kind == FX_ST_STORE && s->buf == w->old)
                w->broken = true;
        }
    }
}

/* Whether b may lie on a though both live in the step that makes b: a ends there, and is read element by element. */
static bool overlay_holds(const check *c, const fx_buf *b, const fx_buf *a)
{
    const life *lb = &c->lives[b->id], *la = &c->lives[a->id];
    if (b->overlay != a->id || b->offset != a->offset || fx_dtype_size(a->dtype) != fx_dtype_size(b->dtype) || la->last != lb->first ||
        la->first_write >= lb->first)
        return false;
    inplace w = {.c = c, .old = a->id, .new = b->id};
    inplace_stmts(&w, c->p->steps[lb->first].body);
    return !w.broken;
}

static uint64_t bytes_of(const fx_buf *b)
{
    return (uint64_t)b->numel * fx_dtype_size(b->dtype);
}

typedef struct placed {
    const fx_buf *b;
    int first, last;
} placed;

static int by_first(const void *x, const void *y)
{
    const placed *a = x, *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->b->id < b->b->id ? -1 : a->b->id > b->b->id;
}

static int by_offset(const void *x, const void *y)
{
    const placed *a = x, *b = y;
    if (a->b->offset != b->b->offset)
        return a->b->offset < b->b->offset ? -1 : 1;
    return a->b->id < b->b->id ? -1 : a->b->id > b->b->id;
}

static void check_place(check *c, const fx_buf *b, uint64_t total, const char *what)
{
    if (b->offset % ALIGN != 0)
        bad(c, "'%s': expected an offset that is a multiple of %d, got %llu", b->name, ALIGN, (unsigned long long)b->offset);
    if (b->offset > total || bytes_of(b) > total - b->offset)
        bad(c, "'%s' ends at %llu, past the %s of %llu bytes", b->name, (unsigned long long)(b->offset + bytes_of(b)), what,
            (unsigned long long)total);
}

static void check_memory(check *c)
{
    fx_program *p = c->p;
    placed *arena = FX_NEW_ARRAY(c->arena, placed, p->n_bufs + 1), *weights = FX_NEW_ARRAY(c->arena, placed, p->n_bufs + 1);
    size_t n_arena = 0, n_weights = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        const life *l = &c->lives[i];
        if (bytes_of(b) == 0)
            continue;
        if (b->kind == FX_BUF_ARENA && l->first >= 0) {
            arena[n_arena++] = (placed){b, l->first, l->last};
            check_place(c, b, p->arena_size, "arena");
            end = b->offset + bytes_of(b) > end ? b->offset + bytes_of(b) : end;
        } else if (b->kind == FX_BUF_WEIGHT) {
            weights[n_weights++] = (placed){b, 0, 0};
            check_place(c, b, p->weights_size, "weights");
        }
    }
    if (p->arena_size != end && p->arena_size != (end + ALIGN - 1) / ALIGN * ALIGN)
        bad(c, "arena_size: expected %llu, where the last buffer ends, got %llu", (unsigned long long)end,
            (unsigned long long)p->arena_size);
    qsort(arena, n_arena, sizeof arena[0], by_first);
    for (size_t i = 0; i < n_arena; i++) {
        for (size_t j = i + 1; j < n_arena && arena[j].first <= arena[i].last; j++) {
            const fx_buf *a = arena[i].b, *b = arena[j].b;
            if (a->offset >= b->offset + bytes_of(b) || b->offset >= a->offset + bytes_of(a))
                continue;
            if (!overlay_holds(c, b, a))
                bad(c, "'%s' and '%s' overlap in the arena while both live (steps %s to %s)", a->name, b->name, p->steps[arena[j].first].name,
                    p->steps[arena[i].last < arena[j].last ? arena[i].last : arena[j].last].name);
        }
    }
    qsort(weights, n_weights, sizeof weights[0], by_offset);
    for (size_t i = 1; i < n_weights; i++) {
        const fx_buf *a = weights[i - 1].b, *b = weights[i].b;
        if (a->offset + bytes_of(a) > b->offset)
            bad(c, "weights '%s' and '%s' overlap", a->name, b->name);
    }
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
    check c = {.p = p, .where = a->where, .step = -1, .arena = fx_arena_create(p->ctx)};
    c.lives = FX_NEW_ARRAY(c.arena, life, p->n_bufs + 1);
    check_tables(&c);
    for (size_t i = 0; i < p->n_steps; i++) {
        c.step = (int)i;
        c.n_used_vars = c.n_used_locals = c.n_locals = 0;
        check_stmts(&c, p->steps[i].body, 0);
    }
    c.step = -1;
    /* Accesses make sense only where what they are computed from does. */
    if (c.findings == 0)
        check_accesses(&c);
    if (c.findings == 0 && a->planned)
        check_memory(&c);
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
