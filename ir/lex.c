/* ir/lex.c: the words of fxcc's text forms.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/lex.h"

#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool fx_is_word(const char *s, bool dots)
{
    if (!s || !is_letter(*s))
        return false;
    for (s++; *s; s++) {
        if (!is_letter(*s) && !is_digit(*s) && !(dots && *s == '.'))
            return false;
    }
    return true;
}

void fx_put_word(fx_text *t, const char *s, bool dots)
{
    if (fx_is_word(s, dots))
        fx_puts(t, s);
    else
        fx_put_quoted(t, s ? s : "");
}

void fx_put_f32(fx_text *t, float v)
{
    char buf[64];
    double shortest = v;
    /* Reading goes by way of double, as the parsers do. */
    for (int digits = 1; digits <= 9 && v == v && v - v == 0; digits++) {
        snprintf(buf, sizeof buf, "%.*e", digits - 1, (double)v);
        double d = strtod(buf, NULL);
        if ((float)d == v) {
            shortest = d;
            break;
        }
    }
    fx_put_double(t, shortest);
}

uint64_t fx_hash_bytes(const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = UINT64_C(0x243F6A8885A308D3) ^ size;
    while (size > 0) {
        uint64_t word = 0;
        size_t n = size < 8 ? size : 8;
        memcpy(&word, p, n);
        unsigned __int128 m = (unsigned __int128)(h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        h = (uint64_t)m ^ (uint64_t)(m >> 64) ^ UINT64_C(0xD1B54A32D192ED03);
        p += n;
        size -= n;
    }
    return h;
}

void fx_lex_init(fx_lexer *lx, fx_context *ctx, const char *file, const char *text, size_t size, bool dots, bool newlines)
{
    char *copy = fx_arena_alloc(fx_context_arena(ctx), size + 1);
    if (size)
        memcpy(copy, text, size);
    *lx = (fx_lexer){.ctx = ctx, .at = copy, .end = copy + size, .line_start = copy, .line = 1, .dots = dots, .newlines = newlines};
    lx->loc.file = file ? fx_intern(ctx, file) : NULL;
    lx->kind = FX_T_NEWLINE;
    fx_lex_next(lx);
}

/* The current word as messages show it: short, printable. */
static const char *shown(fx_lexer *lx)
{
    if (lx->kind == FX_T_END)
        return "the end of the text";
    if (lx->kind == FX_T_NEWLINE)
        return "the end of the line";
    char buf[48];
    size_t n = 0;
    while (n < 40 && n < lx->n && lx->s[n] >= 32 && lx->s[n] < 127) {
        buf[n] = lx->s[n];
        n++;
    }
    return fx_intern_f(lx->ctx, "%s'%.*s%s'", lx->kind == FX_T_STRING ? "the string " : "", (int)n, buf, n < lx->n ? "..." : "");
}

static int column(const fx_lexer *lx)
{
    return (int)(lx->start - lx->start_line_start) + 1;
}

static fx_status stop(fx_lexer *lx)
{
    lx->status = FX_ERR_FORMAT;
    lx->kind = FX_T_END;
    lx->at = lx->end;
    return FX_ERR_FORMAT;
}

fx_status fx_lex_fail(fx_lexer *lx, const char *fmt, ...)
{
    if (lx->status != FX_OK)
        return lx->status;
    va_list ap;
    va_start(ap, fmt);
    const char *what = fx_arena_vprintf(fx_context_arena(lx->ctx), fmt, ap);
    va_end(ap);
    fx_fail(lx->ctx, FX_ERR_FORMAT, &lx->loc, "line %d, column %d: expected %s, got %s", lx->start_line, column(lx), what, shown(lx));
    return stop(lx);
}

fx_status fx_lex_error(fx_lexer *lx, const char *fmt, ...)
{
    if (lx->status != FX_OK)
        return lx->status;
    va_list ap;
    va_start(ap, fmt);
    const char *what = fx_arena_vprintf(fx_context_arena(lx->ctx), fmt, ap);
    va_end(ap);
    fx_fail(lx->ctx, FX_ERR_FORMAT, &lx->loc, "line %d, column %d: %s", lx->start_line, column(lx), what);
    return stop(lx);
}

static void newline(fx_lexer *lx)
{
    lx->line++;
    lx->line_start = lx->at;
}

/* Skips blanks, comment lines and, unless they are words, newlines. */
static void skip_blanks(fx_lexer *lx)
{
    bool line_begins = lx->kind == FX_T_NEWLINE;
    while (lx->at < lx->end) {
        if (*lx->at == ' ' || *lx->at == '\t' || *lx->at == '\r') {
            lx->at++;
        } else if (line_begins && lx->end - lx->at >= 2 && lx->at[0] == '/' && lx->at[1] == '/') {
            while (lx->at < lx->end && *lx->at != '\n')
                lx->at++;
        } else if (*lx->at == '\n' && (!lx->newlines || line_begins)) {
            lx->at++;
            newline(lx);
            line_begins = true;
        } else {
            return;
        }
    }
}

static void number(fx_lexer *lx)
{
    const char *p = lx->at, *end = lx->end;
    if (end - p > 2 && p[0] == '0' && p[1] == 'x') {
        for (p += 2; p < end && (is_digit(*p) || (*p >= 'a' && *p <= 'f')); p++)
            ;
    } else {
        while (p < end && is_digit(*p))
            p++;
        if (p < end && *p == '.' && !(end - p > 1 && p[1] == '.')) {
            for (p++; p < end && is_digit(*p); p++)
                ;
        }
        if (p < end && *p == 'e') {
            const char *q = p + 1;
            if (q < end && (*q == '-' || *q == '+'))
                q++;
            if (q < end && is_digit(*q)) {
                while (q < end && is_digit(*q))
                    q++;
                p = q;
            }
        }
    }
    lx->kind = FX_T_NUMBER;
    lx->n = (size_t)(p - lx->at);
    lx->at = p;
}

void fx_lex_next(fx_lexer *lx)
{
    if (lx->status != FX_OK)
        return;
    skip_blanks(lx);
    lx->s = lx->start = lx->at;
    lx->start_line = lx->line;
    lx->start_line_start = lx->line_start;
    lx->n = 0;
    if (lx->at >= lx->end) {
        lx->kind = FX_T_END;
        return;
    }
    char c = *lx->at;
    if (c == '\n') {
        lx->kind = FX_T_NEWLINE;
        lx->at++;
        newline(lx);
    } else if (is_letter(c)) {
        lx->kind = FX_T_NAME;
        while (lx->at < lx->end && (is_letter(*lx->at) || is_digit(*lx->at) || (lx->dots && *lx->at == '.')))
            lx->at++;
        lx->n = (size_t)(lx->at - lx->s);
    } else if (is_digit(c)) {
        number(lx);
    } else if (c == '"') {
        const char *after;
        const char *text = fx_parse_quoted(lx->ctx, lx->at, lx->end, &after);
        lx->kind = FX_T_STRING;
        if (!text || memchr(lx->at, '\n', (size_t)(after - lx->at))) {
            fx_lex_error(lx, "expected a string that ends on its line, with escapes \\\" \\\\ \\n \\r \\t \\ooo \\xhh \\uhhhh only");
            return;
        }
        lx->s = text;
        lx->n = strlen(text);
        lx->at = after;
    } else if (c > 32 && c < 127) {
        static const char *const longer[] = {"...", "->", ">=", "**", "//", "&&"};
        lx->kind = FX_T_PUNCT;
        lx->n = 1;
        for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++) {
            size_t n = strlen(longer[i]);
            if ((size_t)(lx->end - lx->at) >= n && memcmp(lx->at, longer[i], n) == 0) {
                lx->n = n;
                break;
            }
        }
        lx->at += lx->n;
    } else {
        fx_lex_error(lx, "byte 0x%02x is not allowed outside of strings", (unsigned char)c);
    }
}

bool fx_lex_is(const fx_lexer *lx, const char *word)
{
    return (lx->kind == FX_T_NAME || lx->kind == FX_T_PUNCT) && strlen(word) == lx->n && memcmp(lx->s, word, lx->n) == 0;
}

bool fx_lex_accept(fx_lexer *lx, const char *word)
{
    if (!fx_lex_is(lx, word))
        return false;
    fx_lex_next(lx);
    return true;
}

fx_status fx_lex_expect(fx_lexer *lx, const char *word)
{
    if (!fx_lex_accept(lx, word))
        return fx_lex_fail(lx, "'%s'", word);
    return FX_OK;
}

fx_status fx_lex_uint(fx_lexer *lx, uint64_t *v)
{
    uint64_t r = 0;
    bool good = lx->kind == FX_T_NUMBER;
    bool hex = good && lx->n > 2 && lx->s[0] == '0' && lx->s[1] == 'x';
    for (size_t i = hex ? 2 : 0; good && i < lx->n; i++) {
        char c = lx->s[i];
        uint64_t digit = is_digit(c) ? (uint64_t)(c - '0') : hex && c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10) : 99;
        good = digit < 16 && !__builtin_mul_overflow(r, hex ? 16u : 10u, &r) && !__builtin_add_overflow(r, digit, &r);
    }
    if (!good)
        return fx_lex_fail(lx, "an integer of 64 bits");
    fx_lex_next(lx);
    *v = r;
    return lx->status;
}

fx_status fx_lex_int(fx_lexer *lx, int64_t *v)
{
    bool minus = fx_lex_accept(lx, "-");
    fx_tok kind = lx->kind;
    fx_lexer before = *lx;
    uint64_t u = 0;
    if (kind != FX_T_NUMBER)
        return fx_lex_fail(lx, "an integer");
    FX_TRY(fx_lex_uint(lx, &u));
    if (u > (uint64_t)INT64_MAX + minus) {
        *lx = before;
        return fx_lex_fail(lx, "an integer of 64 bits");
    }
    *v = minus ? (int64_t)-u : (int64_t)u;
    return FX_OK;
}

fx_status fx_lex_range(fx_lexer *lx, const char *what, int64_t min, int64_t max, int64_t *v)
{
    fx_lexer before = *lx;
    FX_TRY(fx_lex_int(lx, v));
    if (*v < min || *v > max) {
        *lx = before;
        return fx_lex_error(lx, "expected %s from %lld to %lld, got %lld", what, (long long)min, (long long)max, (long long)*v);
    }
    return FX_OK;
}

fx_status fx_lex_double(fx_lexer *lx, double *v)
{
    bool minus = fx_lex_accept(lx, "-");
    char buf[900];
    const char *after = buf;
    double d = 0;
    if (lx->kind == FX_T_NUMBER || fx_lex_is(lx, "inf") || fx_lex_is(lx, "nan")) {
        size_t n = lx->n < sizeof buf ? lx->n : sizeof buf - 1;
        memcpy(buf, lx->s, n);
        buf[n] = 0;
        d = fx_parse_double(buf, &after);
        if (after != buf + n)
            after = buf;
    }
    if (after == buf)
        return fx_lex_fail(lx, "a number");
    fx_lex_next(lx);
    *v = minus ? -d : d;
    return lx->status;
}

fx_status fx_lex_name(fx_lexer *lx, const char *what, const char **name)
{
    if (lx->kind != FX_T_NAME && lx->kind != FX_T_STRING)
        return fx_lex_fail(lx, "%s", what);
    *name = fx_intern_n(lx->ctx, lx->s, lx->n);
    fx_lex_next(lx);
    return lx->status;
}

fx_status fx_lex_string(fx_lexer *lx, const char *what, const char **s)
{
    if (lx->kind != FX_T_STRING)
        return fx_lex_fail(lx, "%s in quotes", what);
    *s = fx_intern_n(lx->ctx, lx->s, lx->n);
    fx_lex_next(lx);
    return lx->status;
}

fx_status fx_lex_dtype(fx_lexer *lx, fx_dtype *dtype)
{
    for (int i = 0; lx->kind == FX_T_NAME && i < FX_DTYPE_COUNT; i++) {
        if (fx_lex_is(lx, fx_dtype_short((fx_dtype)i))) {
            *dtype = (fx_dtype)i;
            fx_lex_next(lx);
            return lx->status;
        }
    }
    return fx_lex_fail(lx, "an element type (f32, i64, bool, ...)");
}

fx_status fx_lex_line_end(fx_lexer *lx)
{
    if (lx->kind == FX_T_END)
        return lx->status;
    if (lx->kind != FX_T_NEWLINE)
        return fx_lex_fail(lx, "the end of the line");
    fx_lex_next(lx);
    return lx->status;
}

void fx_lex_recover(fx_lexer *lx)
{
    lx->status = FX_OK;
    lx->line = lx->start_line;
    lx->line_start = lx->start_line_start;
    const char *eol = lx->start < lx->end ? memchr(lx->start, '\n', (size_t)(lx->end - lx->start)) : NULL;
    lx->at = eol ? eol + 1 : lx->end;
    if (eol)
        newline(lx);
    lx->kind = FX_T_NEWLINE;
    fx_lex_next(lx);
}

fx_status fx_lex_enter(fx_lexer *lx)
{
    if (lx->depth >= FX_LEX_DEPTH)
        return fx_lex_error(lx, "more than %d levels of nesting", FX_LEX_DEPTH);
    lx->depth++;
    return lx->status;
}
