/* ir/program.c: building loop programs, affine arithmetic.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "ir/program.h"

/* ---- building -------------------------------------------------------------------------------------------- */

fx_program *fx_program_new(fx_context *ctx, const char *name, const fx_target *target)
{
    fx_arena *arena = fx_arena_create(ctx);
    fx_program *p = FX_NEW(arena, fx_program);
    p->ctx = ctx;
    p->arena = arena;
    p->name = fx_intern(ctx, name ? name : "model");
    p->target = *target;
    return p;
}

static bool is_keyword(const char *s)
{
    /* Of C99 and C++, and names whose macros or types emitted files use. */
    static const char *const words[] = {
        "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue",
        "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
        "goto", "if", "inline", "int", "long", "main", "mutable", "namespace", "new", "not", "operator", "or", "private",
        "protected", "public", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch",
        "template", "this", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
        "void", "volatile", "while", "xor",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], s) == 0)
            return true;
    }
    return false;
}

/* Any text as a C identifier of at most 60 letters, digits and single underscores: "layer1.0.conv1" -> "layer1_0_conv1". */
static const char *identifier(fx_program *p, const char *text)
{
    enum { LONGEST = 60 };
    char buf[LONGEST + 3];
    size_t n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s && n < LONGEST; s++) {
        bool plain = *s < 128 && isalnum(*s);
        if (n == 0 && *s < 128 && isdigit(*s))
            buf[n++] = 'n';
        if (plain)
            buf[n++] = (char)*s;
        else if (n > 0 && buf[n - 1] != '_')
            buf[n++] = '_';
    }
    while (n > 0 && buf[n - 1] == '_')
        n--;
    if (n == 0)
        buf[n++] = 'v';
    buf[n] = 0;
    if (is_keyword(buf)) {
        buf[n++] = '_';
        buf[n] = 0;
    }
    return fx_intern(p->ctx, buf);
}

/* Names are made unique by the buffer's (or step's) own number, so that a thousand equal names cost no search. */
static const char *unique(fx_program *p, const char *text, fx_map *taken, size_t number)
{
    const char *name = identifier(p, text && *text ? text : "v");
    if (fx_map_get(taken, name))
        name = fx_intern_f(p->ctx, "%s_%zu", name, number);
    while (fx_map_get(taken, name))
        name = fx_intern_f(p->ctx, "%s_%zu", name, number);
    fx_map_put(p->arena, taken, name, p);
    return name;
}

int fx_program_buf(fx_program *p, fx_buf_kind kind, const char *name, fx_dtype dtype, int rank, const fx_dim *dims)
{
    fx_buf b = {.id = (int)p->n_bufs, .kind = kind, .dtype = dtype, .rank = rank, .numel = fx_dim_of(1), .io = -1, .initial = -1, .slot = -1, .overlay = -1};
    bool possible = true;
    b.name = unique(p, name, &p->buf_names, p->n_bufs);
    for (int i = 0; i < rank && i < FX_MAX_RANK; i++) {
        b.dims[i] = dims[i];
        possible &= dims[i].sym || dims[i].value >= 0;
        b.numel = fx_dim_mul(p->ctx, b.numel, dims[i]);
    }
    /* A negative size and a product that overflows become -1, which the verifier refuses. */
    if (!possible || (b.numel.sym && b.numel.sym->kind == FX_SYM_OPAQUE))
        b.numel = fx_dim_of(-1);
    FX_PUSH(p->arena, p->bufs, p->n_bufs, p->cap_bufs) = b;
    return b.id;
}

uint64_t fx_buf_bytes(const fx_buf *b)
{
    return (uint64_t)b->numel.value * fx_dtype_size(b->dtype);
}

fx_step *fx_program_step(fx_program *p, const char *name)
{
    fx_step s = {.name = unique(p, name, &p->step_names, p->n_steps)};
    FX_PUSH(p->arena, p->steps, p->n_steps, p->cap_steps) = s;
    return &p->steps[p->n_steps - 1];
}

/* Most statements have no index, which is most of the struct. */
static size_t stmt_size(fx_stmt_kind kind)
{
    return kind == FX_ST_STORE ? sizeof(fx_stmt) : offsetof(fx_stmt, index);
}

fx_stmt *fx_stmt_new(fx_program *p, fx_stmt_kind kind)
{
    fx_stmt *s = fx_arena_alloc(p->arena, stmt_size(kind));
    s->kind = kind;
    s->buf = s->local = s->var = -1;
    if (kind == FX_ST_IF)
        s->cond = FX_NEW_ARRAY(p->arena, fx_affine, 2 * FX_MAX_RANK);
    if (kind == FX_ST_CALL) {
        s->call = FX_NEW(p->arena, fx_call_stmt);
        for (int i = 0; i < FX_MAX_BUF_ARGS; i++)
            s->call->buf[i] = -1;
    }
    return s;
}

fx_stmt *fx_stmt_copy(fx_program *p, const fx_stmt *s)
{
    fx_stmt *c = fx_arena_dup(p->arena, s, stmt_size(s->kind));
    c->next = NULL;
    if (s->cond) {
        c->cond = FX_NEW_ARRAY(p->arena, fx_affine, 2 * FX_MAX_RANK);
        memcpy(c->cond, s->cond, sizeof *s->cond * (size_t)s->n_cond);
    }
    return c;
}

fx_stmt fx_stmt_alone(const fx_stmt *s)
{
    fx_stmt c = {0};
    memcpy(&c, s, stmt_size(s->kind));
    c.next = NULL;
    return c;
}

/* ---- affine expressions ------------------------------------------------------------------------------------ */

fx_affine fx_affine_const(int64_t base)
{
    return (fx_affine){.base = fx_dim_of(base)};
}

fx_affine fx_affine_dim(fx_dim base)
{
    return (fx_affine){.base = base};
}

/* An expression that has too many variables: no index is so large, so the verifier refuses it. What leaves int64_t's range becomes
 * OPAQUE in fx_dim arithmetic, which it refuses too. */
static void poison(fx_affine *a)
{
    a->base = fx_dim_of(INT64_MAX);
    a->n = 0;
}

void fx_affine_add(fx_context *ctx, fx_affine *a, int var, fx_dim coef)
{
    if (fx_dim_is(coef, 0))
        return;
    int at = 0;
    while (at < a->n && a->var[at] < var)
        at++;
    if (at < a->n && a->var[at] == var) {
        a->coef[at] = fx_dim_add(ctx, a->coef[at], coef);
        if (fx_dim_is(a->coef[at], 0)) {
            a->n--;
            memmove(&a->var[at], &a->var[at + 1], (size_t)(a->n - at) * sizeof a->var[0]);
            memmove(&a->coef[at], &a->coef[at + 1], (size_t)(a->n - at) * sizeof a->coef[0]);
        }
        return;
    }
    if (a->n == FX_MAX_LOOPS) {
        poison(a);
        return;
    }
    memmove(&a->var[at + 1], &a->var[at], (size_t)(a->n - at) * sizeof a->var[0]);
    memmove(&a->coef[at + 1], &a->coef[at], (size_t)(a->n - at) * sizeof a->coef[0]);
    a->var[at] = var;
    a->coef[at] = coef;
    a->n++;
}

fx_affine fx_affine_sum(fx_context *ctx, const fx_affine *a, const fx_affine *b)
{
    fx_affine s = *a;
    s.base = fx_dim_add(ctx, s.base, b->base);
    for (int i = 0; i < b->n; i++)
        fx_affine_add(ctx, &s, b->var[i], b->coef[i]);
    return s;
}

bool fx_affine_is_static(const fx_affine *a)
{
    for (int i = 0; i < a->n; i++) {
        if (a->coef[i].sym)
            return false;
    }
    return true;
}

bool fx_affine_equal(const fx_affine *a, const fx_affine *b)
{
    if (a->n != b->n || !fx_dim_equal(a->base, b->base))
        return false;
    for (int i = 0; i < a->n; i++) {
        if (a->var[i] != b->var[i] || !fx_dim_equal(a->coef[i], b->coef[i]))
            return false;
    }
    return true;
}

fx_dim fx_affine_coef(const fx_affine *a, int var)
{
    for (int i = 0; i < a->n && i < FX_MAX_LOOPS; i++) {
        if (a->var[i] == var)
            return a->coef[i];
    }
    return fx_dim_of(0);
}

/* ---- scalar expressions -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int arity;
} sops[FX_S_COUNT] = {
    [FX_S_CONST] = {"const", 0}, [FX_S_LOAD] = {"load", 0}, [FX_S_LOCAL] = {"local", 0},
    [FX_S_INDEX] = {"index", 0}, [FX_S_CAST] = {"cast", 1},
#define SCALAR(id, n, ...) [FX_S_##id] = {#id, n},
#include "ir/scalar.def"
#undef SCALAR
};

const char *fx_sop_name(fx_sop op)
{
    return (unsigned)op < FX_S_COUNT ? sops[op].name : "?";
}

int fx_sop_arity(fx_sop op)
{
    return (unsigned)op < FX_S_COUNT ? sops[op].arity : 0;
}

bool fx_sop_is_comparison(fx_sop op)
{
    return op >= FX_S_eq && op <= FX_S_ge;
}

bool fx_sop_is_exact(fx_sop op)
{
    switch (op) {
    case FX_S_neg: case FX_S_abs: case FX_S_sign: case FX_S_copysign: case FX_S_max: case FX_S_min: case FX_S_fmax: case FX_S_fmin:
    case FX_S_floor: case FX_S_ceil: case FX_S_round: case FX_S_trunc:
    case FX_S_relu: case FX_S_clamp: case FX_S_select:
        return true;
    default:
        return fx_sop_is_comparison(op);
    }
}

/* Likewise. */
static size_t size_of(fx_sop op)
{
    return op == FX_S_LOAD || op == FX_S_INDEX ? sizeof(fx_sexpr) : offsetof(fx_sexpr, index);
}

static fx_sexpr *new_expr(fx_program *p, fx_sop op, fx_dtype dtype)
{
    fx_sexpr *e = fx_arena_alloc(p->arena, size_of(op));
    e->op = op;
    e->dtype = dtype;
    return e;
}

fx_sexpr *fx_s_copy(fx_program *p, const fx_sexpr *e)
{
    return fx_arena_dup(p->arena, e, size_of(e->op));
}

fx_sexpr *fx_s_const(fx_program *p, fx_dtype dtype, double v)
{
    fx_sexpr *e = new_expr(p, FX_S_CONST, dtype);
    e->imm = v;
    if (!fx_dtype_is_float(dtype) && v >= -0x1p63 && v < 0x1p63)
        e->ival = (int64_t)v;
    return e;
}

fx_sexpr *fx_s_int(fx_program *p, fx_dtype dtype, int64_t v)
{
    v = dtype == FX_I8 ? (int8_t)v : dtype == FX_I16 ? (int16_t)v : dtype == FX_I32 ? (int32_t)v : dtype == FX_U8 ? (uint8_t)v
        : dtype == FX_BOOL ? v != 0 : v; /* as a value of the dtype */
    fx_sexpr *e = fx_s_const(p, dtype, (double)v);
    e->ival = v;
    return e;
}

fx_sexpr *fx_s_load(fx_program *p, int buf, const fx_affine *index)
{
    fx_sexpr *e = new_expr(p, FX_S_LOAD, p->bufs[buf].dtype);
    e->buf = buf;
    e->index = *index;
    return e;
}

fx_sexpr *fx_s_local(fx_program *p, int local, fx_dtype dtype)
{
    fx_sexpr *e = new_expr(p, FX_S_LOCAL, dtype);
    e->local = local;
    return e;
}

fx_sexpr *fx_s_index(fx_program *p, const fx_affine *index)
{
    fx_sexpr *e = new_expr(p, FX_S_INDEX, FX_I64);
    e->index = *index;
    return e;
}

fx_sexpr *fx_s_cast(fx_program *p, fx_dtype dtype, const fx_sexpr *a)
{
    return a->dtype == dtype ? (fx_sexpr *)(uintptr_t)a : fx_s_op(p, FX_S_CAST, dtype, a, NULL, NULL);
}

fx_sexpr *fx_s_op(fx_program *p, fx_sop op, fx_dtype dtype, const fx_sexpr *a, const fx_sexpr *b, const fx_sexpr *c)
{
    fx_sexpr *e = new_expr(p, op, dtype);
    e->arg[0] = a;
    e->arg[1] = b;
    e->arg[2] = c;
    return e;
}
