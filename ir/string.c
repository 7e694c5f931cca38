/* ir/string.c: interned strings, texts that grow, numbers and literals whatever the locale.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/context.h"

/* ---- interning ---------------------------------------------------------------------------------------- */

typedef struct piece {
    const char *text;
    size_t n;
} piece;

static bool same_text(const void *entry, const void *key)
{
    const piece *p = key; /* strncmp, not memcmp: it stops at the end of an entry that is shorter */
    return strncmp(entry, p->text, p->n) == 0 && ((const char *)entry)[p->n] == '\0';
}

static uint64_t hash_text(const char *text, size_t n)
{
    uint64_t h = n;
    for (; n >= 8; n -= 8, text += 8) {
        uint64_t v;
        memcpy(&v, text, 8);
        h = fx_mix(h, v);
    }
    uint64_t v = 0;
    if (n)
        memcpy(&v, text, n);
    return fx_mix(h, v);
}

const char *fx_intern_n(fx_context *ctx, const char *text, size_t n)
{
    bool fresh;
    const char *nul = n ? memchr(text, '\0', n) : NULL;
    return fx_intern_fresh(ctx, text, nul ? (size_t)(nul - text) : n, &fresh);
}

const char *fx_intern_fresh(fx_context *ctx, const char *text, size_t n, bool *fresh)
{
    piece key = {text, n};
    uint64_t hash = hash_text(key.text, key.n);
    char *s = fx_set_find(&ctx->strings, hash, same_text, &key);
    *fresh = !s;
    if (!s) {
        s = fx_arena_alloc(ctx->arena, key.n + 1);
        if (key.n)
            memcpy(s, key.text, key.n);
        fx_set_add(ctx->arena, &ctx->strings, hash, s);
    }
    return s;
}

const char *fx_intern(fx_context *ctx, const char *text)
{
    bool fresh;
    return fx_intern_fresh(ctx, text, strlen(text), &fresh);
}

const char *fx_interned(const fx_context *ctx, const char *text)
{
    piece key = {text, strlen(text)};
    return fx_set_find(&ctx->strings, hash_text(key.text, key.n), same_text, &key);
}

const char *fx_intern_f(fx_context *ctx, const char *fmt, ...)
{
    char buf[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof buf)
        return fx_intern_n(ctx, buf, (size_t)n);
    va_start(ap, fmt);
    char *s = fx_arena_vprintf(ctx->arena, fmt, ap);
    va_end(ap);
    return fx_intern(ctx, s);
}

/* ---- texts ---------------------------------------------------------------------------------------------- */

void fx_text_init(fx_text *t, fx_arena *arena)
{
    *t = (fx_text){.arena = arena};
}

static void reserve(fx_text *t, size_t n)
{
    enum { LARGE = 1 << 15 };
    if (n < t->cap - t->size && t->cap)
        return;
    size_t cap = t->cap ? t->cap : 128;
    while (cap - t->size <= n)
        cap = cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;
    bool block = cap >= LARGE;
    char *data = block ? fx_arena_block(t->arena, cap, 1) : fx_arena_alloc(t->arena, cap);
    if (t->size)
        memcpy(data, t->data, t->size);
    if (t->block)
        fx_arena_unblock(t->arena, t->data);
    t->data = data;
    t->cap = cap;
    t->block = block;
}

char *fx_text_room(fx_text *t, size_t n)
{
    reserve(t, n);
    return t->data + t->size;
}

void fx_putn(fx_text *t, const char *s, size_t n)
{
    reserve(t, n);
    if (n)
        memcpy(t->data + t->size, s, n);
    t->size += n;
    t->data[t->size] = '\0';
}

void fx_puts(fx_text *t, const char *s)
{
    fx_putn(t, s, strlen(s));
}

void fx_vprintf(fx_text *t, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    reserve(t, 64);
    int n = vsnprintf(t->data + t->size, t->cap - t->size, fmt, ap);
    if (n >= 0 && (size_t)n >= t->cap - t->size) {
        reserve(t, (size_t)n);
        vsnprintf(t->data + t->size, t->cap - t->size, fmt, again);
    }
    va_end(again);
    if (n < 0)
        t->data[t->size] = '\0';
    else
        t->size += (size_t)n;
}

void fx_printf(fx_text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fx_vprintf(t, fmt, ap);
    va_end(ap);
}

/* ---- numbers ---------------------------------------------------------------------------------------------- */

const char *fx_double_text(double v, char buf[64])
{
    if (isnan(v))
        return signbit(v) ? "-nan" : "nan";
    if (isinf(v))
        return v < 0 ? "-inf" : "inf";
    /* A decimal of up to 15 digits survives the way through a normal double, so %.15g finds it when there is one. */
    for (int digits = isnormal(v) ? 15 : 1; digits <= 17; digits++) {
        snprintf(buf, 60, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    const char *point = localeconv()->decimal_point;
    char *at = strstr(buf, point);
    if (at) {
        size_t n = strlen(point);
        *at = '.';
        memmove(at + 1, at + n, strlen(at + n) + 1);
    }
    if (!strpbrk(buf, ".e"))
        strcat(buf, ".0");
    return buf;
}

void fx_put_double(fx_text *t, double v)
{
    char buf[64];
    fx_puts(t, fx_double_text(v, buf));
}

double fx_parse_double(const char *s, const char **after)
{
    const char *p = s;
    bool minus = *p == '-';
    p += *p == '-' || *p == '+';
    if (strncmp(p, "inf", 3) == 0) {
        *after = p + 3;
        return minus ? -INFINITY : INFINITY;
    }
    if (strncmp(p, "nan", 3) == 0) {
        *after = p + 3;
        return minus ? -(double)NAN : (double)NAN;
    }
    /* Decimal digits, point, exponent; never hexadecimal. Digits past the 800th cannot change the value's rounding, but
     * count for its magnitude, so such numbers are refused as malformed. */
    char buf[900];
    size_t n = 0, digits = 0;
    const char *point = localeconv()->decimal_point;
    *after = s;
    if (minus)
        buf[n++] = '-';
    for (; *p >= '0' && *p <= '9'; p++, digits++)
        if (n < 800)
            buf[n++] = *p;
        else
            return 0;
    if (*p == '.') {
        for (const char *q = point; *q && n < 816; q++)
            buf[n++] = *q;
        for (p++; *p >= '0' && *p <= '9'; p++, digits++)
            if (n < 840)
                buf[n++] = *p;
    }
    if (digits == 0)
        return 0;
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        q += *q == '-' || *q == '+';
        if (*q >= '0' && *q <= '9') {
            buf[n++] = 'e';
            if (p[1] == '-')
                buf[n++] = '-';
            while (*q == '0')
                q++;
            for (; *q >= '0' && *q <= '9'; q++)
                if (n < 880)
                    buf[n++] = *q;
            if (buf[n - 1] == 'e' || buf[n - 1] == '-')
                buf[n++] = '0';
            p = q;
        }
    }
    buf[n] = '\0';
    *after = p;
    return strtod(buf, NULL);
}

/* ---- literals ------------------------------------------------------------------------------------------------ */

int fx_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    int n = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

void fx_put_quoted(fx_text *t, const char *s)
{
    fx_puts(t, "\"");
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        int n = fx_utf8_length((const char *)p);
        static const char plain[] = "\"\\\n\r\t", spelled[] = "\"\\nrt";
        const char *special = strchr(plain, *p);
        if (special) {
            char escape[2] = {'\\', spelled[special - plain]};
            fx_putn(t, escape, 2);
        } else if (n == 0 || *p < 0x20 || *p == 0x7F) {
            fx_printf(t, "\\%03o", *p);
            n = 1;
        } else {
            fx_putn(t, (const char *)p, (size_t)n);
        }
        p += n;
    }
    fx_puts(t, "\"");
}

/* Up to max digits of the base at s; how many there were. */
static int read_digits(const char *s, const char *end, int max, int base, unsigned *value)
{
    int n = 0;
    *value = 0;
    for (; n < max && s + n < end; n++) {
        char c = s[n];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
        if (d >= base)
            break;
        *value = *value * (unsigned)base + (unsigned)d;
    }
    return n;
}

const char *fx_parse_quoted(fx_context *ctx, const char *s, const char *end, const char **after)
{
    if (s >= end || *s != '"')
        return NULL;
    const char *close = s + 1;
    while (close < end && *close != '"' && *close != '\0')
        close += *close == '\\' && close + 1 < end ? 2 : 1;
    if (close >= end || *close != '"')
        return NULL;
    /* No escape is longer than what it stands for, \uHHHH (6) included: at most 3 bytes. */
    char small[256];
    char *buf = (size_t)(close - s) < sizeof small ? small : fx_arena_alloc(ctx->arena, (size_t)(close - s));
    size_t n = 0;
    for (s++; s < close;) {
        if (*s != '\\') {
            buf[n++] = *s++;
            continue;
        }
        s++;
        static const char spelled[] = "\"\\nrt/bf", plain[] = "\"\\\n\r\t/\b\f";
        const char *simple = *s ? strchr(spelled, *s) : NULL;
        unsigned c = 0;
        int digits = 0;
        if (simple) {
            buf[n++] = plain[simple - spelled];
            s++;
            continue;
        }
        bool unicode = *s == 'u';
        if (unicode || *s == 'x')
            digits = read_digits(++s, close, unicode ? 4 : 2, 16, &c);
        else
            digits = read_digits(s, close, 3, 8, &c);
        if (digits == 0 || c == 0 || (unicode ? digits != 4 : c > 0xFF) || (c >= 0xD800 && c <= 0xDFFF))
            return NULL;
        s += digits;
        if (!unicode || c < 0x80) {
            buf[n++] = (char)c;
        } else if (c < 0x800) {
            buf[n++] = (char)(0xC0 | c >> 6);
            buf[n++] = (char)(0x80 | (c & 0x3F));
        } else {
            buf[n++] = (char)(0xE0 | c >> 12);
            buf[n++] = (char)(0x80 | (c >> 6 & 0x3F));
            buf[n++] = (char)(0x80 | (c & 0x3F));
        }
    }
    *after = close + 1;
    return fx_intern_n(ctx, buf, n);
}

/* ---- hashes of large blocks --------------------------------------------------------------------------------------- */

/* Sixty-four bits of a large block, eight bytes at a time: splitmix-like, four lanes so that it runs at memory speed. */
static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

uint64_t fx_hash_block(uint64_t seed, const void *data, uint64_t size)
{
    const unsigned char *p = data;
    uint64_t lane[4] = {seed, seed ^ 0x243f6a8885a308d3u, seed ^ 0x13198a2e03707344u, seed ^ 0xa4093822299f31d0u};
    while (size >= 32) {
        uint64_t v[4];
        memcpy(v, p, 32);
        for (int i = 0; i < 4; i++)
            lane[i] = mix(lane[i], v[i]);
        p += 32;
        size -= 32;
    }
    uint64_t tail[4] = {size, 0, 0, 0};
    if (size)
        memcpy((char *)tail, p, (size_t)size);
    uint64_t h = mix(seed, size);
    for (int i = 0; i < 4; i++)
        h = mix(mix(h, tail[i]), lane[i]);
    return h;
}
