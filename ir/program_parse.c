/* ir/program_parse.c: reads the text form of loop programs (program_print.c). Any bytes give a program or one message with line
 * and column; what a program means is the verifier's to judge.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/lex.h"
#include "ir/program.h"

typedef struct parser {
    fx_lexer lx;
    fx_context *ctx;
    fx_program *p;
    fx_map bufs;            /* interned name -> id + 1 */
} parser;

/* KEY = where the key is the current word: skips both. */
static bool key(parser *p, const char *name)
{
    if (!fx_lex_is(&p->lx, name))
        return false;
    fx_lexer ahead = p->lx;
    fx_lex_next(&ahead);
    if (ahead.status != FX_OK) {
        p->lx.status = ahead.status;
        return false;
    }
    if (!fx_lex_accept(&ahead, "="))
        return false;
    p->lx = ahead;
    return true;
}

/* file="..", entry="..", node="..", module="..", frame="..": true when one was there. */
static bool loc_key(parser *p, fx_loc *loc, fx_status *st)
{
    const char **fields[] = {&loc->file, &loc->entry, &loc->node, &loc->module, &loc->frame};
    static const char *const names[] = {"file", "entry", "node", "module", "frame"};
    for (int i = 0; i < 5; i++) {
        if (key(p, names[i])) {
            *st = fx_lex_string(&p->lx, "a text", fields[i]);
            return true;
        }
    }
    return false;
}

/* A number or an expression over the program's symbols. */
static fx_status parse_dim(parser *p, fx_dim *d)
{
    const fx_sym *s;
    FX_TRY(fx_lex_sym(&p->lx, p->p->arena, &s));
    *d = fx_dim_sym(s);
    return FX_OK;
}

/* A number with its sign, or an expression in parentheses. */
static fx_status parse_factor(parser *p, fx_dim *d)
{
    if (!fx_lex_is(&p->lx, "(")) {
        *d = fx_dim_of(0);
        return fx_lex_int(&p->lx, &d->value);
    }
    fx_lex_next(&p->lx);
    FX_TRY(parse_dim(p, d));
    return fx_lex_expect(&p->lx, ")");
}

static fx_status parse_shape(parser *p, fx_dtype *dtype, int *rank, fx_dim *dims)
{
    fx_lexer *lx = &p->lx;
    FX_TRY(fx_lex_dtype(lx, dtype));
    FX_TRY(fx_lex_expect(lx, "["));
    *rank = 0;
    while (!fx_lex_accept(lx, "]")) {
        if (*rank == FX_MAX_RANK)
            return fx_lex_error(lx, "more than %d dimensions", FX_MAX_RANK);
        if (*rank > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(parse_dim(p, &dims[*rank]));
        ++*rank;
    }
    return lx->status;
}

/* A buffer's name that is defined above. */
static fx_status parse_buf(parser *p, int *id)
{
    fx_lexer *lx = &p->lx;
    fx_lexer before = *lx;
    const char *name;
    if (lx->kind != FX_T_NAME)
        return fx_lex_fail(lx, "a buffer's name");
    FX_TRY(fx_lex_name(lx, "a buffer's name", &name));
    uintptr_t at = (uintptr_t)fx_map_get(&p->bufs, name);
    if (!at) {
        *lx = before;
        return fx_lex_error(lx, "there is no buffer '%.60s'", name);
    }
    *id = (int)at - 1;
    return FX_OK;
}

/* v3, t7: a letter and a number. */
static bool numbered(const fx_lexer *lx, char letter, int *number)
{
    int v = 0;
    if (lx->kind != FX_T_NAME || lx->n < 2 || lx->n > 8 || lx->s[0] != letter || (lx->s[1] == '0' && lx->n > 2))
        return false;
    for (size_t i = 1; i < lx->n; i++) {
        if (lx->s[i] < '0' || lx->s[i] > '9')
            return false;
        v = v * 10 + (lx->s[i] - '0');
    }
    *number = v;
    return true;
}

static fx_status parse_numbered(parser *p, char letter, int *number)
{
    if (!numbered(&p->lx, letter, number))
        return fx_lex_fail(&p->lx, "%c and a number", letter);
    fx_lex_next(&p->lx);
    return p->lx.status;
}

/* v3, or the local t7 whose value is an index. */
static fx_status parse_variable(parser *p, int *var)
{
    if (numbered(&p->lx, 't', var))
        *var = FX_VAR_LOCAL(*var);
    else if (!numbered(&p->lx, 'v', var))
        return fx_lex_fail(&p->lx, "v and a number");
    fx_lex_next(&p->lx);
    return p->lx.status;
}

/* 4*v0 - v2 + (768*batch)*t1 + 7 */
static fx_status parse_affine(parser *p, fx_affine *a)
{
    fx_lexer *lx = &p->lx;
    *a = fx_affine_const(0);
    bool minus = fx_lex_accept(lx, "-");
    for (;;) {
        fx_dim c = fx_dim_of(1);
        int var = 0;
        bool expression = fx_lex_is(lx, "("), constant = expression || lx->kind == FX_T_NUMBER;
        if (expression) {
            FX_TRY(parse_factor(p, &c));
        } else if (constant) {
            uint64_t u;
            FX_TRY(fx_lex_uint(lx, &u));
            if (u > (uint64_t)INT64_MAX + minus)
                return fx_lex_error(lx, "a coefficient does not fit 64 bits");
            c.value = minus ? (int64_t)-u : (int64_t)u;
        }
        if (minus && (expression || !constant))
            c = fx_dim_scale(p->ctx, c, -1);
        if (constant && !fx_lex_accept(lx, "*")) {
            a->base = fx_dim_add(p->ctx, a->base, c);
            if (a->base.sym && a->base.sym->kind == FX_SYM_OPAQUE && !expression)
                return fx_lex_error(lx, "an index does not fit 64 bits");
        } else {
            FX_TRY(parse_variable(p, &var));
            if (a->n == FX_MAX_LOOPS)
                return fx_lex_error(lx, "more than %d variables in an index", FX_MAX_LOOPS);
            fx_affine_add(p->ctx, a, var, c);
        }
        minus = fx_lex_is(lx, "-");
        if (!minus && !fx_lex_is(lx, "+"))
            return lx->status;
        fx_lex_next(lx);
    }
}

/* ---- expressions ------------------------------------------------------------------------------------------------------- */

static fx_status parse_expr(parser *p, const fx_sexpr **out);

static fx_status parse_const(parser *p, fx_sexpr *e)
{
    fx_lexer *lx = &p->lx;
    fx_lexer ahead = *lx;
    double v;
    /* The type comes behind the number and tells how to read it. */
    FX_TRY(fx_lex_double(lx, &v));
    FX_TRY(fx_lex_expect(lx, ":"));
    FX_TRY(fx_lex_dtype(lx, &e->dtype));
    e->op = FX_S_CONST;
    e->imm = v;
    if (!fx_dtype_is_float(e->dtype)) {
        fx_lexer after = *lx;
        *lx = ahead;
        FX_TRY(fx_lex_int(lx, &e->ival));
        if (!fx_lex_is(lx, ":"))
            return fx_lex_fail(lx, "':'");
        e->imm = (double)e->ival;
        *lx = after;
    }
    return FX_OK;
}

static fx_status parse_sop(fx_lexer *lx, fx_sop *out)
{
    int op = FX_S_INDEX;
    while (op < FX_S_COUNT && !fx_lex_is(lx, fx_sop_name((fx_sop)op)))
        op++;
    if (op == FX_S_COUNT)
        return fx_lex_fail(lx, "an operation of scalars");
    *out = (fx_sop)op;
    fx_lex_next(lx);
    return lx->status;
}

static fx_status parse_op(parser *p, fx_sexpr *e)
{
    fx_lexer *lx = &p->lx;
    FX_TRY(parse_sop(lx, &e->op));
    FX_TRY(fx_lex_expect(lx, "."));
    FX_TRY(fx_lex_dtype(lx, &e->dtype));
    FX_TRY(fx_lex_expect(lx, "("));
    if (e->op == FX_S_INDEX)
        FX_TRY(parse_affine(p, &e->index));
    for (int i = 0; i < fx_sop_arity(e->op); i++) {
        if (i > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(parse_expr(p, &e->arg[i]));
    }
    return fx_lex_expect(lx, ")");
}

static fx_status parse_expr(parser *p, const fx_sexpr **out)
{
    fx_lexer *lx = &p->lx;
    fx_sexpr *e = FX_NEW(p->p->arena, fx_sexpr);
    *out = e;
    FX_TRY(fx_lex_enter(lx));
    if (lx->kind == FX_T_NUMBER || fx_lex_is(lx, "-")) {
        FX_TRY(parse_const(p, e));
    } else {
        fx_lexer ahead = *lx;
        fx_lex_next(&ahead);
        FX_TRY(lx->status = ahead.status);
        if (fx_lex_is(&ahead, "[")) {
            int buf;
            FX_TRY(parse_buf(p, &buf));
            fx_lex_next(lx);
            e->op = FX_S_LOAD;
            e->buf = buf;
            e->dtype = p->p->bufs[buf].dtype;
            FX_TRY(parse_affine(p, &e->index));
            FX_TRY(fx_lex_expect(lx, "]"));
        } else if (fx_lex_is(&ahead, ":") && numbered(lx, 't', &e->local)) {
            e->op = FX_S_LOCAL;
            *lx = ahead;
            fx_lex_next(lx);
            FX_TRY(fx_lex_dtype(lx, &e->dtype));
        } else if (fx_lex_is(&ahead, ":")) { /* inf, nan */
            FX_TRY(parse_const(p, e));
        } else {
            FX_TRY(parse_op(p, e));
        }
    }
    lx->depth--;
    return lx->status;
}

/* ---- statements --------------------------------------------------------------------------------------------------------- */

static fx_status parse_block(parser *p, fx_stmt **out);

static fx_status parse_loop(parser *p, fx_stmt *s)
{
    static const char *const kinds[] = {"serial", "parallel", "vector", "unrolled", "grid", "block", "thread"}, *const axes[] = {"x", "y", "z"};
    fx_lexer *lx = &p->lx;
    FX_TRY(parse_numbered(p, 'v', &s->var));
    FX_TRY(fx_lex_expect(lx, "in"));
    FX_TRY(parse_dim(p, &s->extent));
    for (int k = FX_LOOP_PARALLEL; k <= FX_LOOP_THREAD; k++) {
        if (fx_lex_accept(lx, kinds[k])) {
            s->loop = (fx_loop_kind)k;
            break;
        }
    }
    s->aligned = s->loop == FX_LOOP_VECTOR && fx_lex_accept(lx, "aligned");
    if (s->loop == FX_LOOP_GRID || s->loop == FX_LOOP_BLOCK || s->loop == FX_LOOP_THREAD) {
        while (s->axis < 3 && !fx_lex_is(lx, axes[s->axis]))
            s->axis++;
        if (s->axis == 3)
            return fx_lex_fail(lx, "x, y or z");
        fx_lex_next(lx);
        if (s->loop == FX_LOOP_GRID) {
            int64_t threads;
            FX_TRY(fx_lex_range(lx, "threads of a block", 1, 1024, &threads));
            s->threads = (int)threads;
            s->beside = fx_lex_accept(lx, "beside");
        }
    }
    if (lx->kind == FX_T_STRING)
        FX_TRY(fx_lex_string(lx, "the axis", &s->hint));
    return parse_block(p, &s->body);
}

static fx_status parse_check(parser *p, fx_stmt *s)
{
    fx_lexer *lx = &p->lx;
    FX_TRY(parse_numbered(p, 't', &s->local));
    FX_TRY(fx_lex_expect(lx, "in"));
    FX_TRY(parse_dim(p, &s->extent));
    if (lx->kind == FX_T_STRING)
        FX_TRY(fx_lex_string(lx, "what it checks", &s->text));
    return parse_block(p, &s->body);
}

static fx_status parse_if(parser *p, fx_stmt *s)
{
    fx_lexer *lx = &p->lx;
    do {
        if (s->n_cond == 2 * FX_MAX_RANK)
            return fx_lex_error(lx, "more than %d conditions", 2 * FX_MAX_RANK);
        FX_TRY(parse_affine(p, &s->cond[s->n_cond++]));
        FX_TRY(fx_lex_expect(lx, ">="));
        if (lx->kind != FX_T_NUMBER || lx->n != 1 || *lx->s != '0')
            return fx_lex_fail(lx, "0");
        fx_lex_next(lx);
    } while (fx_lex_accept(lx, "&&"));
    return parse_block(p, &s->body);
}

static fx_status parse_call_bufs(parser *p, fx_call_stmt *c, const fx_kernel *k)
{
    fx_lexer *lx = &p->lx;
    FX_TRY(fx_lex_expect(lx, "("));
    for (int i = 0; i < k->n_bufs; i++) {
        if (k->buf[i].counts && fx_lex_is(lx, ")")) { /* the last one, which is left out where there is none */
            c->buf[i] = -1;
            continue;
        }
        if (i > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(fx_lex_expect(lx, k->buf[i].name));
        FX_TRY(fx_lex_expect(lx, "="));
        c->buf[i] = -1;
        /* "null" is no buffer unless one has this name. */
        if (fx_lex_is(lx, "null") && !fx_map_get(&p->bufs, fx_intern(p->ctx, "null"))) {
            fx_lex_next(lx);
            continue;
        }
        FX_TRY(parse_buf(p, &c->buf[i]));
        bool plus = fx_lex_accept(lx, "+");
        if (plus || fx_lex_is(lx, "-"))
            FX_TRY(parse_factor(p, &c->offset[i]));
    }
    return fx_lex_expect(lx, ")");
}

static fx_status parse_call(parser *p, fx_call_stmt *c)
{
    fx_lexer *lx = &p->lx;
    const char *kernel;
    fx_lexer before = *lx;
    FX_TRY(fx_lex_name(lx, "a kernel", &kernel));
    const fx_kernel *k = fx_kernel_find(kernel);
    if (!k) {
        *lx = before;
        return fx_lex_error(lx, "there is no kernel '%.60s'", kernel);
    }
    c->kernel = k->id;
    FX_TRY(fx_lex_name(lx, "the call's name", &c->name));
    FX_TRY(parse_call_bufs(p, c, k));
    FX_TRY(fx_lex_expect(lx, "{"));
    for (int i = 0; i < k->n_fields; i++) {
        if (i > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(fx_lex_expect(lx, k->field[i].name));
        FX_TRY(fx_lex_expect(lx, "="));
        if (fx_lex_is(lx, "(") && !k->field[i].is_float) {
            fx_dim d;
            FX_TRY(parse_factor(p, &d));
            fx_call_set_dim(c, k->field[i].name, d);
        } else {
            FX_TRY(fx_lex_double(lx, &c->field[i]));
        }
    }
    FX_TRY(fx_lex_expect(lx, "}"));
    if (key(p, "reads"))
        FX_TRY(fx_lex_uint(lx, &c->bytes_read));
    if (key(p, "writes"))
        FX_TRY(fx_lex_uint(lx, &c->bytes_written));
    return lx->status;
}

static fx_status parse_stmt(parser *p, fx_stmt **out)
{
    fx_lexer *lx = &p->lx;
    fx_lexer ahead = *lx;
    int number;
    if (lx->kind != FX_T_NAME)
        return fx_lex_fail(lx, "a statement or '}'");
    fx_lex_next(&ahead);
    FX_TRY(lx->status = ahead.status);
    if (fx_lex_is(&ahead, "[")) { /* a buffer may have any name, "local" too */
        fx_stmt *s = *out = fx_stmt_new(p->p, FX_ST_STORE);
        FX_TRY(parse_buf(p, &s->buf));
        fx_lex_next(lx);
        FX_TRY(parse_affine(p, &s->index));
        FX_TRY(fx_lex_expect(lx, "]"));
        FX_TRY(fx_lex_expect(lx, "="));
        return parse_expr(p, &s->value);
    }
    if (fx_lex_accept(lx, "for")) {
        *out = fx_stmt_new(p->p, FX_ST_LOOP);
        return parse_loop(p, *out);
    }
    if (fx_lex_accept(lx, "if")) {
        *out = fx_stmt_new(p->p, FX_ST_IF);
        return parse_if(p, *out);
    }
    if (fx_lex_accept(lx, "call")) {
        *out = fx_stmt_new(p->p, FX_ST_CALL);
        return parse_call(p, (*out)->call);
    }
    if (fx_lex_accept(lx, "check")) {
        *out = fx_stmt_new(p->p, FX_ST_CHECK);
        return parse_check(p, *out);
    }
    if (fx_lex_accept(lx, "array")) {
        *out = fx_stmt_new(p->p, FX_ST_ARRAY);
        return parse_buf(p, &(*out)->buf);
    }
    if (fx_lex_accept(lx, "barrier")) {
        *out = fx_stmt_new(p->p, FX_ST_BARRIER);
        return lx->status;
    }
    if (fx_lex_accept(lx, "reduce")) {
        *out = fx_stmt_new(p->p, FX_ST_REDUCE);
        FX_TRY(parse_numbered(p, 't', &(*out)->local));
        return parse_sop(lx, &(*out)->op);
    }
    if (fx_lex_accept(lx, "comment")) {
        *out = fx_stmt_new(p->p, FX_ST_COMMENT);
        return fx_lex_string(lx, "its text", &(*out)->text);
    }
    if (fx_lex_accept(lx, "local"))
        *out = fx_stmt_new(p->p, FX_ST_LOCAL);
    else if (numbered(lx, 't', &number))
        *out = fx_stmt_new(p->p, FX_ST_SET);
    else
        return fx_lex_fail(lx, "for, if, check, call, comment, array, barrier, reduce, local, t<number> or a buffer");
    FX_TRY(parse_numbered(p, 't', &(*out)->local));
    FX_TRY(fx_lex_expect(lx, "="));
    return parse_expr(p, &(*out)->value);
}

static fx_status parse_block(parser *p, fx_stmt **out)
{
    FX_TRY(fx_lex_enter(&p->lx));
    FX_TRY(fx_lex_expect(&p->lx, "{"));
    while (!fx_lex_accept(&p->lx, "}")) {
        FX_TRY(parse_stmt(p, out));
        out = &(*out)->next;
    }
    p->lx.depth--;
    return p->lx.status;
}

/* ---- tables ---------------------------------------------------------------------------------------------------------------- */

static fx_status parse_target(parser *p)
{
    fx_lexer *lx = &p->lx;
    fx_target *t = &p->p->target;
    struct { const char *name; int *to; } ints[] = {{"lanes", &t->lanes}, {"mr", &t->mr}, {"nr", &t->nr},
                                                    {"pointer_bits", &t->pointer_bits}, {"sm", &t->sm}, {"threads", &t->threads}};
    struct { const char *name; const char **to; } texts[] = {{"name", &t->name}, {"cflags", &t->cflags}, {"isa", &t->isa}};
    struct { const char *name; int64_t *to; } sizes[] = {{"l1", &t->l1}, {"l2", &t->l2}};
    *t = (fx_target){.name = "generic", .cflags = "", .isa = "generic", .lanes = 1, .mr = 4, .nr = 4, .l1 = 32768, .l2 = 262144,
                     .pointer_bits = 64};
    for (;;) {
        bool found = false;
        for (int i = 0; i < 6 && !found; i++) {
            int64_t v;
            found = key(p, ints[i].name);
            if (found) {
                FX_TRY(fx_lex_range(lx, ints[i].name, 1, 1024, &v));
                *ints[i].to = (int)v;
            }
        }
        for (int i = 0; i < 3 && !found; i++) {
            found = key(p, texts[i].name);
            if (found)
                FX_TRY(fx_lex_string(lx, "a text", texts[i].to));
        }
        for (int i = 0; i < 2 && !found; i++) {
            found = key(p, sizes[i].name);
            if (found)
                FX_TRY(fx_lex_range(lx, sizes[i].name, 0, INT64_C(1) << 40, sizes[i].to));
        }
        if (!found && key(p, "fma")) {
            found = true;
            t->fma = fx_lex_accept(lx, "true");
            if (!t->fma)
                FX_TRY(fx_lex_expect(lx, "false"));
        }
        if (!found)
            return lx->status;
    }
}

static fx_status parse_sizes(parser *p)
{
    fx_lexer *lx = &p->lx;
    for (;;) {
        uint64_t hash;
        if (key(p, "arena")) {
            FX_TRY(fx_lex_uint(lx, &p->p->arena_size));
        } else if (key(p, "weights")) {
            FX_TRY(fx_lex_uint(lx, &p->p->weights_size));
        } else if (key(p, "state")) {
            FX_TRY(fx_lex_uint(lx, &p->p->state_size));
        } else if (key(p, "counters")) {
            FX_TRY(fx_lex_uint(lx, &p->p->counters_size));
        } else if (key(p, "live")) {
            FX_TRY(fx_lex_uint(lx, &p->p->live_size));
        } else if (key(p, "hash")) {
            FX_TRY(fx_lex_uint(lx, &hash));
            for (int i = 0; i < 8; i++)
                p->p->model_hash[i] = (uint8_t)(hash >> (56 - 8 * i));
        } else {
            return lx->status;
        }
    }
}

static fx_status parse_number(parser *p, const char *what, int *v)
{
    int64_t n;
    FX_TRY(fx_lex_range(&p->lx, what, 0, INT32_MAX, &n));
    *v = (int)n;
    return FX_OK;
}

/* batch in [1, 64] */
static fx_status parse_symbol(parser *p)
{
    fx_lexer *lx = &p->lx;
    fx_program *g = p->p;
    fx_sym_range s = {0};
    FX_TRY(fx_lex_name(lx, "the symbol's name", &s.name));
    for (size_t i = 0; i < g->n_symbols; i++) {
        if (g->symbols[i].name == s.name)
            return fx_lex_error(lx, "the symbol '%.60s' is there twice", s.name);
    }
    FX_TRY(fx_lex_expect(lx, "in"));
    FX_TRY(fx_lex_expect(lx, "["));
    FX_TRY(fx_lex_int(lx, &s.min));
    FX_TRY(fx_lex_expect(lx, ","));
    s.max = INT64_MAX;
    if (!fx_lex_accept(lx, "inf"))
        FX_TRY(fx_lex_int(lx, &s.max));
    FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = s;
    return fx_lex_expect(lx, "]");
}

static fx_status parse_limit(parser *p)
{
    fx_limit l;
    FX_TRY(parse_dim(p, &l.value));
    FX_TRY(fx_lex_string(&p->lx, "its text", &l.text));
    FX_PUSH(p->p->arena, p->p->limits, p->p->n_limits, p->p->cap_limits) = l;
    return FX_OK;
}

/* [3072*batch, 4096] above 0, 2 */
static fx_status parse_slot(parser *p)
{
    fx_lexer *lx = &p->lx;
    fx_dim *bytes = NULL;
    size_t n = 0, cap = 0;
    FX_TRY(fx_lex_expect(lx, "["));
    while (!fx_lex_accept(lx, "]")) {
        fx_dim d;
        if (n > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(parse_dim(p, &d));
        FX_PUSH(p->p->arena, bytes, n, cap) = d;
    }
    int *above = NULL;
    size_t n_above = 0, cap_above = 0;
    for (bool more = fx_lex_accept(lx, "above"); more; more = fx_lex_accept(lx, ",")) {
        int below;
        FX_TRY(parse_number(p, "a slot", &below));
        FX_PUSH(p->p->arena, above, n_above, cap_above) = below;
    }
    FX_PUSH(p->p->arena, p->p->slots, p->p->n_slots, p->p->cap_slots) = (fx_slot){(int)n, bytes, (int)n_above, above};
    return lx->status;
}

/* values={1.0, 2.0}: the content of a small weight. */
static fx_status parse_values(parser *p, fx_buf *b)
{
    fx_lexer *lx = &p->lx;
    int64_t n = b->numel.value;
    if (b->numel.sym || n < 0 || n > 65536 || b->dtype == FX_C64 || b->dtype == FX_C128)
        return fx_lex_error(lx, "the buffer cannot have values in a text");
    size_t size = fx_dtype_size(b->dtype);
    void *data = fx_arena_alloc(p->p->arena, (size_t)n * size + 1);
    fx_tensor t = {.dtype = b->dtype, .rank = 1, .sizes = {n}, .strides = {1}, .data = data};
    FX_TRY(fx_lex_expect(lx, "{"));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        if (fx_dtype_is_float(b->dtype)) {
            double v;
            FX_TRY(fx_lex_double(lx, &v));
            fx_tensor_set(&t, i, v);
        } else {
            int64_t v;
            FX_TRY(fx_lex_int(lx, &v));
            fx_tensor_set_int(&t, i, v);
        }
    }
    b->data = data;
    return fx_lex_expect(lx, "}");
}

static fx_status parse_buffer(parser *p)
{
    static const char *const kinds[] = {"input", "output", "weight", "arena", "state", "counter", "local"};
    fx_lexer *lx = &p->lx;
    const char *name;
    fx_dtype dtype;
    int rank, kind = 0;
    fx_dim dims[FX_MAX_RANK];
    int64_t io = -1;
    FX_TRY(fx_lex_name(lx, "the buffer's name", &name));
    if (!fx_is_word(name, false) || fx_map_get(&p->bufs, name))
        return fx_lex_error(lx, "the buffer '%.60s' is there twice or has no identifier as name", name);
    FX_TRY(fx_lex_expect(lx, ":"));
    while (kind <= FX_BUF_LOCAL && !fx_lex_is(lx, kinds[kind]))
        kind++;
    if (kind > FX_BUF_LOCAL)
        return fx_lex_fail(lx, "input, output, weight, arena, state, counter or local");
    fx_lex_next(lx);
    if (kind <= FX_BUF_OUTPUT || kind == FX_BUF_STATE)
        FX_TRY(fx_lex_range(lx, "its number", 0, 100000, &io));
    FX_TRY(parse_shape(p, &dtype, &rank, dims));
    int id = fx_program_buf(p->p, (fx_buf_kind)kind, name, dtype, rank, dims);
    fx_buf *b = &p->p->bufs[id];
    b->name = name;
    b->io = (int)io;
    fx_map_put(p->p->arena, &p->bufs, name, (void *)((uintptr_t)id + 1));
    for (;;) {
        fx_status st = FX_OK;
        if (key(p, "numel"))
            FX_TRY(parse_dim(p, &b->numel));
        else if (key(p, "slot"))
            FX_TRY(parse_number(p, "a slot", &b->slot));
        else if (key(p, "offset"))
            FX_TRY(fx_lex_uint(lx, &b->offset));
        else if (key(p, "overlay"))
            FX_TRY(parse_buf(p, &b->overlay));
        else if (key(p, "note"))
            FX_TRY(fx_lex_string(lx, "a text", &b->note));
        else if (key(p, "hash"))
            FX_TRY(fx_lex_uint(lx, &b->hash));
        else if (key(p, "values"))
            FX_TRY(parse_values(p, b));
        else if (key(p, "initial"))
            FX_TRY(parse_buf(p, &b->initial));
        else if (fx_lex_accept(lx, "workspace"))
            b->workspace = true;
        else if (fx_lex_accept(lx, "changed"))
            b->changed = true;
        else if (loc_key(p, &b->loc, &st))
            FX_TRY(st);
        else
            return lx->status;
    }
}

static fx_status parse_io(parser *p, fx_buf_kind kind)
{
    fx_lexer *lx = &p->lx;
    fx_program *g = p->p;
    fx_io io = {0};
    FX_TRY(fx_lex_name(lx, "its name", &io.name));
    FX_TRY(fx_lex_string(lx, "its name in the model", &io.label));
    FX_TRY(fx_lex_expect(lx, "="));
    FX_TRY(parse_buf(p, &io.buf));
    FX_TRY(parse_shape(p, &io.dtype, &io.rank, io.dims));
    if (kind == FX_BUF_INPUT)
        FX_PUSH(g->arena, g->inputs, g->n_inputs, g->cap_inputs) = io;
    else if (kind == FX_BUF_STATE)
        FX_PUSH(g->arena, g->states, g->n_states, g->cap_states) = io;
    else
        FX_PUSH(g->arena, g->outputs, g->n_outputs, g->cap_outputs) = io;
    return FX_OK;
}

static fx_status parse_step(parser *p)
{
    fx_lexer *lx = &p->lx;
    fx_step s = {0};
    FX_TRY(fx_lex_name(lx, "the step's name", &s.name));
    if (lx->kind == FX_T_STRING)
        FX_TRY(fx_lex_string(lx, "its title", &s.title));
    for (;;) {
        fx_status st = FX_OK;
        if (key(p, "shapes"))
            FX_TRY(fx_lex_string(lx, "a text", &s.shapes));
        else if (key(p, "flops"))
            FX_TRY(fx_lex_int(lx, &s.flops));
        else if (key(p, "region"))
            FX_TRY(parse_number(p, "a region", &s.region));
        else if (key(p, "stream"))
            FX_TRY(parse_number(p, "a stream", &s.stream));
        else if (loc_key(p, &s.loc, &st))
            FX_TRY(st);
        else
            break;
    }
    FX_TRY(parse_block(p, &s.body));
    FX_PUSH(p->p->arena, p->p->steps, p->p->n_steps, p->p->cap_steps) = s;
    return FX_OK;
}

static fx_status parse_line(parser *p)
{
    fx_lexer *lx = &p->lx;
    lx->depth = 0;
    if (fx_lex_accept(lx, "target"))
        return parse_target(p);
    if (fx_lex_accept(lx, "sizes"))
        return parse_sizes(p);
    if (fx_lex_accept(lx, "symbol"))
        return parse_symbol(p);
    if (fx_lex_accept(lx, "limit"))
        return parse_limit(p);
    if (fx_lex_accept(lx, "slot"))
        return parse_slot(p);
    if (fx_lex_accept(lx, "buffer"))
        return parse_buffer(p);
    if (fx_lex_accept(lx, "input"))
        return parse_io(p, FX_BUF_INPUT);
    if (fx_lex_accept(lx, "output"))
        return parse_io(p, FX_BUF_OUTPUT);
    if (fx_lex_accept(lx, "state"))
        return parse_io(p, FX_BUF_STATE);
    if (fx_lex_accept(lx, "step"))
        return parse_step(p);
    return fx_lex_fail(lx, "target, symbol, limit, sizes, slot, buffer, input, output, state or step");
}

typedef struct parse_args {
    fx_context *ctx;
    const char *file, *text;
    size_t size;
    fx_program **out;
} parse_args;

static fx_status parse(void *arg)
{
    parse_args *a = arg;
    parser p = {.ctx = a->ctx};
    fx_lexer *lx = &p.lx;
    const char *name;
    fx_lex_init(lx, a->ctx, a->file, a->text, a->size, false, false);
    FX_TRY(fx_lex_expect(lx, "program"));
    FX_TRY(fx_lex_string(lx, "the program's name", &name));
    p.p = fx_program_new(a->ctx, name, &(fx_target){.name = "generic", .cflags = "", .isa = "generic", .lanes = 1, .mr = 4, .nr = 4,
                                                    .l1 = 32768, .l2 = 262144, .pointer_bits = 64});
    if (key(&p, "file"))
        FX_TRY(fx_lex_string(lx, "the model's file", &p.p->file));
    while (lx->kind != FX_T_END)
        FX_TRY(parse_line(&p));
    FX_TRY(lx->status);
    *a->out = p.p;
    return FX_OK;
}

fx_status fx_program_parse(fx_context *ctx, const char *file, const char *text, size_t size, fx_program **out)
{
    parse_args a = {ctx, file, text, size, out};
    return fx_protect(ctx, parse, &a);
}
