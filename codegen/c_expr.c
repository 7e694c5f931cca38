/* codegen/c_expr.c: affine and scalar expressions in C.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/emit.h"

/* ---- numbers -------------------------------------------------------------------------------------------- */

/* m digits of v, as an integer, and its exponent: v ~ digits * 10^exp10. In double arithmetic: near enough for the caller to check. */
static double power_of_ten(int e)
{
    static const double p[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
                               1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41, 1e42, 1e43, 1e44, 1e45, 1e46, 1e47};
    return e < 0 ? 1 / p[-e] : p[e];
}

/* Whether digits * 10^exp10 surely reads back as v: well inside the interval that rounds to v, by a margin far larger than
 * the error of computing it in double. */
static bool reads_back(int64_t digits, int exp10, float v)
{
    double d = (double)digits * power_of_ten(exp10);
    double below = ((double)nextafterf(v, 0) + v) / 2, above = ((double)nextafterf(v, HUGE_VALF) + v) / 2;
    double margin = (above - below) * 1e-6;
    return d > below + margin && d < above - margin;
}

int fx_format_float(char buf[24], float v)
{
    if (isnan(v))
        return (int)strlen(strcpy(buf, "NAN"));
    if (isinf(v))
        return (int)strlen(strcpy(buf, v < 0 ? "-INFINITY" : "INFINITY"));
    if (v == 0)
        return (int)strlen(strcpy(buf, signbit(v) ? "-0.0f" : "0.0f"));
    char *s = buf;
    float a = v;
    if (v < 0) {
        *s++ = '-';
        a = -v;
    }
    if (a == floorf(a) && a < 1e6f)
        return (int)(s - buf) + snprintf(s, 20, "%d.0f", (int)a);
    if (a < 1e-30f || a > 1e30f) { /* too rare to hurry, and where double arithmetic as below is not near enough */
        int n = 0;
        for (int digits = 1; digits <= 9; digits++) {
            n = snprintf(s, 20, "%.*e", digits - 1, (double)a);
            if (strtof(s, NULL) == a)
                break;
        }
        s[n] = 'f';
        s[n + 1] = 0;
        return (int)(s - buf) + n + 1;
    }
    int e = (int)floor(log10((double)a));
    /* Nine digits always suffice; most floats need eight, hand-made constants few. */
    int64_t digits = 0;
    int exp10 = 0;
    bool found = false;
    for (int n = 6; n <= 9 && !found; n++) {
        exp10 = e - (n - 1);
        digits = (int64_t)((double)a * power_of_ten(-exp10) + 0.5);
        found = reads_back(digits, exp10, a);
    }
    if (!found)
        return (int)(s - buf) + snprintf(s, 20, "%.9gf", (double)a);
    while (digits % 10 == 0) {
        digits /= 10;
        exp10++;
    }
    char d[24];
    int n = 0;
    for (int64_t x = digits; x; x /= 10)
        d[n++] = (char)('0' + x % 10);
    /* d holds the digits in reverse; the point stands after `point` of them. */
    int point = n + exp10;
    if (point > 9 || point < -3) { /* 1.5e-07 */
        *s++ = d[n - 1];
        *s++ = '.';
        if (n == 1)
            *s++ = '0';
        for (int i = n - 2; i >= 0; i--)
            *s++ = d[i];
        s += snprintf(s, 8, "e%d", point - 1);
    } else {
        if (point <= 0) {
            *s++ = '0';
            *s++ = '.';
            for (int i = point; i < 0; i++)
                *s++ = '0';
            for (int i = n - 1; i >= 0; i--)
                *s++ = d[i];
        } else {
            for (int i = 0; i < point; i++)
                *s++ = i < n ? d[n - 1 - i] : '0';
            *s++ = '.';
            for (int i = point; i < n; i++)
                *s++ = d[n - 1 - i];
            if (point >= n)
                *s++ = '0';
        }
    }
    *s++ = 'f';
    *s = 0;
    return (int)(s - buf);
}

void fx_put_float(fx_text *t, float v, bool suffix)
{
    char buf[24];
    int n = fx_format_float(buf, v);
    if (!suffix && buf[n - 1] == 'f')
        n--;
    fx_putn(t, buf, (size_t)n);
}

static const char *int_text(fx_emit *e, fx_dtype dtype, int64_t v)
{
    if (v == INT64_MIN)
        return "(-INT64_C(9223372036854775807) - 1)";
    if (v == INT32_MIN && dtype != FX_I64)
        return "(-2147483647 - 1)";
    if (v > INT32_MAX || v < -(int64_t)INT32_MAX)
        return fx_arena_printf(e->local, "%sINT64_C(%lld)", v < 0 ? "-" : "", (long long)(v < 0 ? -v : v));
    return fx_arena_printf(e->local, "%lld", (long long)v);
}

static const char *const_text(fx_emit *e, const fx_sexpr *x)
{
    fx_text t;
    fx_text_init(&t, e->local);
    if (x->dtype == FX_F32)
        fx_put_float(&t, (float)x->imm, true);
    else if (x->dtype == FX_F16)
        fx_put_float(&t, fx_half_to_float(fx_float_to_half((float)x->imm)), true);
    else if (x->dtype == FX_BF16)
        fx_put_float(&t, fx_bf16_to_float(fx_float_to_bf16((float)x->imm)), true);
    else if (isnan(x->imm))
        fx_puts(&t, "(double)NAN");
    else if (isinf(x->imm))
        fx_puts(&t, x->imm < 0 ? "-(double)INFINITY" : "(double)INFINITY");
    else
        fx_put_double(&t, x->imm);
    return t.data;
}

/* ---- affine expressions ---------------------------------------------------------------------------------- */

/* How far a step of a variable goes, for the order of terms: expressions by the ends of their ranges. */
static double stride_of(fx_emit *e, fx_dim c)
{
    int64_t lo, hi;
    fx_dim_bounds(fx_program_symbols(e->p), c, &lo, &hi);
    double l = fabs((double)lo), h = fabs((double)hi);
    return c.sym ? 0.5 + (l > h ? l : h) : h;
}

const char *fx_c_affine(fx_emit *e, const fx_affine *a)
{
    fx_text t;
    fx_text_init(&t, e->local);
    bool used[FX_MAX_LOOPS] = {false};
    for (int done = 0; done < a->n; done++) {
        int at = -1; /* the largest stride first: n, h, w, c */
        for (int i = 0; i < a->n; i++)
            if (!used[i] && (at < 0 || stride_of(e, a->coef[i]) > stride_of(e, a->coef[at])))
                at = i;
        used[at] = true;
        const char *name = a->var[at] >= 0 ? e->loops[a->var[at]].name : e->locals[FX_VAR_LOCAL(a->var[at])].name;
        if (!name)
            continue;
        fx_dim c = a->coef[at];
        if (a->var[at] < 0 && fx_dtype_size(e->locals[FX_VAR_LOCAL(a->var[at])].dtype) < 8)
            name = fx_arena_printf(e->local, "(ptrdiff_t)%s", name);
        bool minus = fx_c_dim_negative(c);
        if (minus)
            c = fx_dim_scale(e->ctx, c, -1);
        if (t.size)
            fx_puts(&t, minus ? " - " : " + ");
        else if (minus)
            fx_puts(&t, "-");
        fx_puts(&t, name);
        if (!fx_dim_is(c, 1))
            fx_printf(&t, " * %s", fx_c_multiplier(e, c));
    }
    bool minus = t.size && fx_c_dim_negative(a->base);
    if (!t.size || !fx_dim_is(a->base, 0))
        fx_printf(&t, "%s%s", !t.size ? "" : minus ? " - " : " + ",
                  minus ? fx_c_multiplier(e, fx_dim_scale(e->ctx, a->base, -1)) : fx_c_dim(e, a->base));
    return t.data;
}

/* ---- scalar expressions ----------------------------------------------------------------------------------- */

/* How tightly a text binds. Parentheses are set where gcc's and clang's warnings ask for them, not only where C does. */
typedef enum prec { P_COND, P_REL, P_BIT, P_ADD, P_MUL, P_UNARY, P_PRIMARY } prec;

typedef struct piece {
    const char *text;
    prec prec;
} piece;

typedef enum spelling { SP_F32, SP_F64, SP_INT } spelling;

static const struct {
    const char *name;
    int arity;
    const char *text[3];
} scalars[] = {
#define SCALAR(id, n, f32, f64, ints) {#id, n, {f32, f64, ints}},
#include "ir/scalar.def"
#undef SCALAR
};
enum { FIRST_SCALAR = FX_S_CAST + 1 };

static bool is_int(fx_dtype d)
{
    return d == FX_I8 || d == FX_I16 || d == FX_I32 || d == FX_I64 || d == FX_U8 || d == FX_BOOL;
}

static bool is_half(fx_dtype d)
{
    return d == FX_F16 || d == FX_BF16;
}

const char *fx_c_value_type(fx_dtype d)
{
    return is_half(d) ? "float" : fx_c_type(d);
}

static const char *half_name(fx_dtype d)
{
    return d == FX_F16 ? "f16" : "bf16";
}

/* The type an operation computes in: its own, but its operands' for comparisons. */
static fx_dtype works_in(const fx_sexpr *x)
{
    return fx_sop_is_comparison(x->op) && x->arg[0] ? x->arg[0]->dtype : x->dtype;
}

static const char *template_of(const fx_sexpr *x)
{
    fx_dtype d = works_in(x);
    spelling sp = d == FX_F32 || is_half(d) ? SP_F32 : d == FX_F64 ? SP_F64 : SP_INT;
    if (sp == SP_INT && !is_int(d))
        return "";
    if (x->op == FX_S_not && d == FX_BOOL)
        return "$0 == 0";
    return scalars[x->op - FIRST_SCALAR].text[sp];
}

/* The template with the width of integers put in. */
static const char *spelled(fx_emit *e, const fx_sexpr *x)
{
    const char *s = template_of(x), *at = strstr(s, "$i");
    if (!at)
        return s;
    return fx_arena_printf(e->local, "%.*s%s%s", (int)(at - s), s, works_in(x) == FX_I64 ? "i64" : "i32", at + 2);
}

/* Floats become uint8 by way of int64, smaller integers by way of int32, as torch does it; that decides what out of range means. */
static fx_dtype by_way_of(fx_dtype to)
{
    return to == FX_I64 || to == FX_U8 ? FX_I64 : FX_I32;
}

/* seen: parts with several users are scanned once. Deeper trees would overflow our stack, and no lowering makes them. */
static fx_status scan_value(fx_emit *e, fx_map *seen, const fx_sexpr *x, int depth)
{
    enum { DEEPEST = 5000 };
    if (!x || fx_map_get(seen, x))
        return FX_OK;
    fx_map_put(e->local, seen, x, e);
    if (depth > DEEPEST)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': an expression of more than %d levels", e->step->name, DEEPEST);
    switch (x->op) {
    case FX_S_LOAD:
        fx_c_scan_buf(e, x->buf, false);
        FX_TRY(fx_c_scan_affine(e, &x->index));
        break;
    case FX_S_INDEX:
        FX_TRY(fx_c_scan_affine(e, &x->index));
        break;
    case FX_S_LOCAL:
    case FX_S_CONST:
        break;
    case FX_S_CAST:
        if (x->arg[0] && fx_dtype_is_float(x->arg[0]->dtype) && is_int(x->dtype) && x->dtype != FX_BOOL)
            e->casts[by_way_of(x->dtype)] = true;
        break;
    default: {
        const char *s = template_of(x);
        if (!*s)
            return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': no C spelling of %s on %s", e->step->name,
                           scalars[x->op - FIRST_SCALAR].name, fx_dtype_name(works_in(x)));
        if (strstr(s, "$i"))
            e->texts[FX_TEXT_INT] = true;
        else if (strstr(s, "fxrt_philox("))
            e->texts[FX_TEXT_PHILOX] = true;
        else if (strstr(s, "_f64("))
            e->texts[FX_TEXT_MATH64] = true;
        else if (strstr(s, "fxrt_"))
            e->texts[FX_TEXT_MATH] = true;
        if (is_int(works_in(x)) && (fx_sop_is_comparison(x->op) || x->op == FX_S_max || x->op == FX_S_min || x->op == FX_S_fmax || x->op == FX_S_fmin ||
                                   x->op == FX_S_relu || x->op == FX_S_select || x->op == FX_S_not))
            e->int_compares = true;
        for (int i = 0; i < scalars[x->op - FIRST_SCALAR].arity; i++)
            if (!x->arg[i])
                return fx_fail(e->ctx, FX_INTERNAL, &e->step->loc, "step '%s': %s lacks operand %d", e->step->name,
                               scalars[x->op - FIRST_SCALAR].name, i);
    }
    }
    if (is_half(x->dtype) && x->op != FX_S_CONST)
        e->texts[FX_TEXT_MATH] = e->texts[FX_TEXT_HALF] = true;
    if (x->dtype == FX_C64 || x->dtype == FX_C128)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': no C spelling of computing in %s", e->step->name,
                       fx_dtype_name(x->dtype));
    for (int i = 0; i < 3; i++)
        FX_TRY(scan_value(e, seen, x->arg[i], depth + 1));
    return FX_OK;
}

fx_status fx_c_scan_value(fx_emit *e, const fx_sexpr *x)
{
    fx_map seen = {0};
    return scan_value(e, &seen, x, 0);
}

const char *fx_c_buf(fx_emit *e, int buf)
{
    if (e->p->bufs[buf].kind == FX_BUF_WEIGHT)
        return fx_arena_printf(e->local, "weights->%s", e->bufs[buf]);
    return e->params[buf];
}

/* Text of operand i inside a template whose surroundings bind as `min`. */
static const char *fit(fx_emit *e, piece p, prec min)
{
    return p.prec >= min ? p.text : fx_arena_printf(e->local, "(%s)", p.text);
}

/* A template binds as loosely as the loosest operator outside its parentheses. */
static prec template_prec(const char *s)
{
    prec least = P_PRIMARY;
    int depth = 0;
    for (const char *c = s; *c; c++) {
        prec p = P_PRIMARY;
        if (*c == '(')
            depth++;
        else if (*c == ')')
            depth--;
        if (depth)
            continue;
        if (*c == '?')
            p = P_COND;
        else if (*c == '<' || *c == '>' || (*c == '=' && c[1] == '=') || (*c == '!' && c[1] == '='))
            p = P_REL;
        else if (*c == '&' || *c == '|' || *c == '^')
            p = P_BIT;
        else if ((*c == '+' || *c == '-') && c != s)
            p = P_ADD;
        else if (*c == '*' || *c == '/')
            p = P_MUL;
        else if (c == s && (*c == '-' || *c == '~' || *c == '!'))
            p = P_UNARY;
        if (p < least)
            least = p;
    }
    return least;
}

/* Expands the template. Operands inside a call's parentheses stand bare; elsewhere the left operand of + and * may be a sum or
 * product itself (C's grouping is then the tree's), all others are closed. */
static const char *expand(fx_emit *e, const char *tmpl, const piece *arg)
{
    fx_text t;
    fx_text_init(&t, e->local);
    prec own = template_prec(tmpl);
    int depth = 0;
    bool call = false;
    for (const char *c = tmpl; *c; c++) {
        if (*c == '$') {
            piece p = arg[c[1] - '0'];
            prec min;
            if (depth && call)
                min = P_COND;
            else if (c == tmpl && (own == P_ADD || own == P_MUL))
                min = own;
            else if (own == P_ADD)
                min = P_MUL;
            else if (own == P_COND && c == tmpl)
                min = P_REL;
            else if (own == P_REL || own == P_COND)
                min = P_ADD;
            else
                min = P_UNARY;
            if (own == P_COND && c == tmpl && p.prec == P_BIT) /* "a | b ? c : d" reads like a | (b ? c : d) */
                min = P_PRIMARY;
            /* "a - -b" and "- -b" stay apart */
            if (!(depth && call) && c != tmpl && p.text[0] == '-')
                min = P_PRIMARY;
            fx_puts(&t, fit(e, p, min));
            c++;
            continue;
        }
        if (*c == '(' && depth++ == 0)
            call = c > tmpl;
        else if (*c == ')')
            depth--;
        fx_putn(&t, c, 1);
    }
    return t.data;
}

/* Integer arithmetic goes by the unsigned type of at least the width, so that it wraps. */
static piece wrap_int(fx_emit *e, const fx_sexpr *x, const piece *arg)
{
    fx_dtype d = works_in(x);
    const char *tmpl = spelled(e, x);
    bool wraps = x->op == FX_S_add || x->op == FX_S_sub || x->op == FX_S_mul || x->op == FX_S_neg;
    if (wraps) {
        piece u[3];
        const char *ut = d == FX_I64 ? "uint64_t" : "uint32_t";
        for (int i = 0; i < scalars[x->op - FIRST_SCALAR].arity; i++)
            u[i] = (piece){fx_arena_printf(e->local, "(%s)%s", ut, fit(e, arg[i], P_UNARY)), P_UNARY};
        if (d == FX_BOOL) /* true plus true is true */
            return (piece){fx_arena_printf(e->local, "%s != 0", fit(e, (piece){expand(e, tmpl, u), template_prec(tmpl)}, P_ADD)), P_REL};
        return (piece){fx_arena_printf(e->local, "(%s)(%s)", fx_c_type(d), expand(e, tmpl, u)), P_UNARY};
    }
    piece operand[3] = {arg[0], arg[1], arg[2]};
    if (d == FX_BOOL && (x->op == FX_S_and || x->op == FX_S_or || x->op == FX_S_xor)) {
        /* clang takes & between comparisons for a slip of the pen */
        for (int i = 0; i < 2; i++)
            if (arg[i].prec == P_REL)
                operand[i] = (piece){fx_arena_printf(e->local, "(int)(%s)", arg[i].text), P_UNARY};
    }
    const char *text = expand(e, tmpl, operand);
    bool promoted = (x->op == FX_S_not || x->op == FX_S_and || x->op == FX_S_or || x->op == FX_S_xor || strstr(template_of(x), "$i")) &&
                    d != FX_I32 && d != FX_I64;
    if (promoted && d != FX_BOOL)
        return (piece){fx_arena_printf(e->local, "(%s)(%s)", fx_c_type(d), text), P_UNARY};
    return (piece){text, template_prec(tmpl)};
}

static piece cast(fx_emit *e, fx_dtype to, fx_dtype from, piece p)
{
    if (to == from || (to == FX_F32 && is_half(from)))
        return p;
    if (is_half(to))
        return (piece){fx_arena_printf(e->local, from == FX_F32 || is_half(from) ? "fxrt_round_%s(%s)" : "fxrt_round_%s((float)%s)", half_name(to),
                                       from == FX_F32 || is_half(from) ? p.text : fit(e, p, P_UNARY)), P_PRIMARY};
    if (to == FX_BOOL)
        return (piece){fx_arena_printf(e->local, "%s != 0", fit(e, p, P_ADD)), P_REL};
    if (is_int(to) && fx_dtype_is_float(from)) {
        /* By way of a function that is defined for every value, as conversions of floats in C are not. */
        const char *call = fx_arena_printf(e->local, "%s_to_%s(%s)", e->prefix, by_way_of(to) == FX_I64 ? "i64" : "i32", p.text);
        if (by_way_of(to) == to)
            return (piece){call, P_PRIMARY};
        return (piece){fx_arena_printf(e->local, "(%s)%s", fx_c_type(to), call), P_UNARY};
    }
    return (piece){fx_arena_printf(e->local, "(%s)%s", fx_c_type(to), fit(e, p, P_UNARY)), P_UNARY};
}

/* Parts with several users, and parts too long for a line, become temporaries printed before the statement. */
typedef struct uses {
    int count;
    const char *name;            /* of the temporary */
} uses;

typedef struct printer {
    fx_emit *e;
    fx_map uses;
} printer;

static void count_operands(printer *pr, const fx_sexpr *x);

static uses *count_uses(printer *pr, const fx_sexpr *x)
{
    uses *u = fx_map_get(&pr->uses, x);
    if (u) {
        u->count++;
        return u;
    }
    u = FX_NEW(pr->e->local, uses);
    u->count = 1;
    fx_map_put(pr->e->local, &pr->uses, x, u);
    count_operands(pr, x);
    return u;
}

/* Integers' max, min and relu repeat their operands: twice the uses, so that nothing is computed twice. */
static void count_operands(printer *pr, const fx_sexpr *x)
{
    bool twice = is_int(x->dtype) && (x->op == FX_S_max || x->op == FX_S_min || x->op == FX_S_fmax || x->op == FX_S_fmin || x->op == FX_S_relu);
    for (int i = 0; i < 3; i++)
        for (int k = 0; x->arg[i] && k < (twice ? 2 : 1); k++)
            count_uses(pr, x->arg[i]);
}

const char *fx_c_element(fx_emit *e, int buf, const fx_affine *index)
{
    for (size_t i = 0; i < e->n_pieces; i++)
        if (e->pieces[i].buf == buf && fx_affine_equal(e->pieces[i].index, index))
            return e->pieces[i].name;
    return fx_arena_printf(e->local, "%s[%s]", fx_c_buf(e, buf), fx_c_affine(e, index));
}

static piece print(printer *pr, const fx_sexpr *x)
{
    enum { LONG = 64 };
    fx_emit *e = pr->e;
    uses *u = fx_map_get(&pr->uses, x);
    if (u && u->name)
        return (piece){u->name, P_PRIMARY};
    piece r;
    bool simple = false;
    switch (x->op) {
    case FX_S_CONST:
        r.text = is_int(x->dtype) ? int_text(e, x->dtype, x->ival) : const_text(e, x);
        r.prec = r.text[0] == '-' ? P_UNARY : P_PRIMARY;
        simple = true;
        break;
    case FX_S_LOAD:
        r = (piece){fx_c_element(e, x->buf, &x->index), P_PRIMARY};
        if (is_half(x->dtype))
            r.text = fx_arena_printf(e->local, "fxrt_from_%s(%s)", half_name(x->dtype), r.text);
        break;
    case FX_S_LOCAL:
        r = (piece){e->locals[x->local].name, P_PRIMARY};
        simple = true;
        break;
    case FX_S_INDEX:
        r.text = fx_c_affine(e, &x->index);
        r.prec = strchr(r.text, ' ') || r.text[0] == '-' ? P_ADD : P_PRIMARY;
        break;
    case FX_S_CAST:
        r = cast(e, x->dtype, x->arg[0]->dtype, print(pr, x->arg[0]));
        break;
    default: {
        piece arg[3] = {{"", P_PRIMARY}, {"", P_PRIMARY}, {"", P_PRIMARY}};
        int n = scalars[x->op - FIRST_SCALAR].arity;
        const char *tmpl = template_of(x);
        for (int i = 0; i < n; i++)
            arg[i] = print(pr, x->arg[i]);
        if (is_int(works_in(x)))
            r = wrap_int(e, x, arg);
        else
            r = (piece){expand(e, tmpl, arg), template_prec(tmpl)};
        if (is_half(x->dtype) && !fx_sop_is_exact(x->op))
            r = (piece){fx_arena_printf(e->local, "fxrt_round_%s(%s)", half_name(x->dtype), r.text), P_PRIMARY};
    }
    }
    if (!simple && u && (u->count > 1 || strlen(r.text) > LONG)) {
        u->name = fx_names_make(e->scope, "t", FX_IDENT_MAX, "t");
        fx_emit_line(e, "const %s %s = %s;", fx_c_value_type(x->dtype), u->name, r.text);
        return (piece){u->name, P_PRIMARY};
    }
    return r;
}

/* Half-wide floats that are only moved keep their bits; constants are their bits. */
fx_status fx_c_stored(fx_emit *e, fx_dtype dtype, const fx_sexpr *x, const char **out)
{
    if (!is_half(dtype))
        return fx_c_value(e, x, out);
    if (x->op == FX_S_LOAD) {
        *out = fx_c_element(e, x->buf, &x->index);
        return FX_OK;
    }
    if (x->op == FX_S_CONST) {
        uint16_t bits = dtype == FX_F16 ? fx_float_to_half((float)x->imm) : fx_float_to_bf16((float)x->imm);
        *out = bits ? fx_arena_printf(e->local, "0x%04x", bits) : "0";
        return FX_OK;
    }
    FX_TRY(fx_c_value(e, x, out));
    const char *round = fx_arena_printf(e->local, "fxrt_round_%s", half_name(dtype));
    bool rounds = x->op == FX_S_CAST || (x->op >= (fx_sop)FIRST_SCALAR && !fx_sop_is_exact(x->op)); /* the call is all there is of it */
    if (rounds && strncmp(*out, round, strlen(round)) == 0)
        *out = fx_arena_printf(e->local, "fxrt_to_%s%s", half_name(dtype), *out + strlen(round));
    else
        *out = fx_arena_printf(e->local, "fxrt_to_%s(%s)", half_name(dtype), *out);
    return FX_OK;
}

fx_status fx_c_value(fx_emit *e, const fx_sexpr *x, const char **out)
{
    printer pr = {.e = e};
    count_operands(&pr, x);
    *out = print(&pr, x).text; /* x itself is not in the map: never a temporary */
    return FX_OK;
}
