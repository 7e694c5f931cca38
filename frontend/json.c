/* frontend/json.c: JSON into an arena. A reader of our own because models are read often and structure alone should cost
 * milliseconds: 0.5 MB (ResNet-50) take jansson 17 ms, a malloc a value. Strict: RFC 8259, valid UTF-8, no duplicate keys, no zero
 * bytes, integers of 64 bits, bounded nesting.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/pt2.h"

enum {
    MAX_DEPTH = 200,
    INDEXED = 12, /* objects with more fields than this get a hash index */
    MAX_NUMBER = 64
};

typedef struct parser {
    const fx_json *r;
    fx_arena *arena;
    const char *text, *at, *end;
    char *strings;     /* where the next unescaped string goes: none is longer than its source */
    fx_json_value *stack;   /* values of the lists and objects that are still open */
    size_t n, cap;
    int depth;
} parser;

static fx_status fail(const parser *p, const char *what)
{
    size_t line = 1, column = 1;
    for (const char *s = p->text; s < p->at; s++) {
        column = *s == '\n' ? 1 : column + 1;
        line += *s == '\n';
    }
    return fx_fail(p->r->ctx, FX_ERR_FORMAT, &p->r->loc, "malformed JSON: %s (line %zu, column %zu)", what, line, column);
}

static void blank(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

/* The length of the valid UTF-8 sequence at s, 0 if it is none. */
static size_t utf8(const char *s, const char *end)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] < 0x80 ? 1 : u[0] < 0xC2 ? 0 : u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : u[0] < 0xF5 ? 4 : 0;
    if (n > (size_t)(end - s))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xC0) != 0x80)
            return 0;
    if ((u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] > 0x9F) || (u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] > 0x8F))
        return 0;
    return n;
}

/* Four hexadecimal digits, -1 if they are not. */
static long hex4(const parser *p)
{
    long v = 0;
    if (p->end - p->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p->at[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static void put_utf8(parser *p, long c)
{
    char *o = p->strings;
    if (c < 0x80) {
        *o++ = (char)c;
    } else if (c < 0x800) {
        *o++ = (char)(0xC0 | c >> 6);
        *o++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *o++ = (char)(0xE0 | c >> 12);
        *o++ = (char)(0x80 | (c >> 6 & 0x3F));
        *o++ = (char)(0x80 | (c & 0x3F));
    } else {
        *o++ = (char)(0xF0 | c >> 18);
        *o++ = (char)(0x80 | (c >> 12 & 0x3F));
        *o++ = (char)(0x80 | (c >> 6 & 0x3F));
        *o++ = (char)(0x80 | (c & 0x3F));
    }
    p->strings = o;
}

/* After a backslash. */
static fx_status escape(parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = p->at < p->end ? *p->at++ : 0;
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        *p->strings++ = to[known - from];
        return FX_OK;
    }
    if (c != 'u')
        return fail(p, "unknown escape in a string");
    long high = hex4(p), low;
    if (high < 0)
        return fail(p, "expected four hexadecimal digits after \\u");
    p->at += 4;
    if (high == 0)
        return fail(p, "a string holds a zero character");
    if (high >= 0xDC00 && high < 0xE000)
        return fail(p, "half of a surrogate pair");
    if (high >= 0xD800 && high < 0xDC00) {
        if (p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u')
            return fail(p, "half of a surrogate pair");
        p->at += 2;
        low = hex4(p);
        if (low < 0xDC00 || low >= 0xE000)
            return fail(p, "half of a surrogate pair");
        p->at += 4;
        high = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    put_utf8(p, high);
    return FX_OK;
}

/* At the opening quote. */
static fx_status string(parser *p, const char **out, size_t *size)
{
    char *start = p->strings;
    p->at++;
    for (;;) {
        const char *plain = p->at;
        while (p->at < p->end && *p->at != '"' && *p->at != '\\' && (unsigned char)*p->at >= 0x20 && (unsigned char)*p->at < 0x80)
            p->at++;
        memcpy(p->strings, plain, (size_t)(p->at - plain));
        p->strings += p->at - plain;
        if (p->at == p->end)
            return fail(p, "a string without end");
        if (*p->at == '"')
            break;
        if (*p->at == '\\') {
            p->at++;
            FX_TRY(escape(p));
            continue;
        }
        size_t n = (unsigned char)*p->at < 0x20 ? 0 : utf8(p->at, p->end);
        if (!n)
            return fail(p, "a control character or invalid UTF-8 in a string");
        memcpy(p->strings, p->at, n);
        p->strings += n;
        p->at += n;
    }
    p->at++;
    *size = (size_t)(p->strings - start);
    *p->strings++ = 0;
    *out = start;
    return FX_OK;
}

static size_t digits(const char *s, const char *end)
{
    const char *start = s;
    while (s < end && *s >= '0' && *s <= '9')
        s++;
    return (size_t)(s - start);
}

static fx_status number(parser *p, fx_json_value *out)
{
    const char *start = p->at, *s = start;
    bool real = false;
    if (s < p->end && *s == '-')
        s++;
    size_t whole = digits(s, p->end);
    if (!whole || (whole > 1 && *s == '0'))
        return fail(p, "expected a value");
    s += whole;
    if (s < p->end && *s == '.') {
        size_t n = digits(s + 1, p->end);
        if (!n)
            return fail(p, "expected digits after the point");
        s += n + 1;
        real = true;
    }
    if (s < p->end && (*s == 'e' || *s == 'E')) {
        s++;
        if (s < p->end && (*s == '+' || *s == '-'))
            s++;
        size_t n = digits(s, p->end);
        if (!n)
            return fail(p, "expected digits in the exponent");
        s += n;
        real = true;
    }
    size_t n = (size_t)(s - start);
    if (n >= MAX_NUMBER)
        return fail(p, "a number of too many digits");
    if (real) {
        char copy[MAX_NUMBER];
        const char *after;
        memcpy(copy, start, n);
        copy[n] = 0;
        *out = (fx_json_value){.type = FX_JSON_REAL, .f = fx_parse_double(copy, &after)};
        if (!isfinite(out->f))
            return fail(p, "a number too large for a double");
    } else {
        int64_t v = 0;
        bool negative = *start == '-', overflow = false;
        for (const char *d = start + negative; d < s; d++)
            overflow |= __builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *d - '0', &v);
        overflow |= !negative && v == INT64_MIN;
        if (overflow)
            return fail(p, "an integer of more than 64 bits");
        *out = (fx_json_value){.type = FX_JSON_INT, .i = negative ? v : -v};
    }
    p->at = s;
    return FX_OK;
}

static uint32_t hash(const char *key)
{
    uint32_t h = 2166136261u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return h ^ h >> 15;
}

/* The slot of key in an object's index: that of an equal key or a free one (0). */
static uint32_t *slot(const fx_json_value *object, const char *key)
{
    uint32_t mask = object->index[0];
    for (uint32_t i = hash(key) & mask;; i = (i + 1) & mask) {
        uint32_t *s = &object->index[1 + i];
        if (!*s || !strcmp(object->items[*s - 1].key, key))
            return s;
    }
}

/* Refuses duplicate keys; large objects get their index on the way. */
static fx_status check_keys(parser *p, fx_json_value *object)
{
    if (object->n > INDEXED) {
        uint32_t cap = 32;
        while (cap < object->n * 2)
            cap *= 2;
        object->index = FX_NEW_ARRAY(p->arena, uint32_t, (size_t)cap + 1);
        object->index[0] = cap - 1;
    }
    for (uint32_t i = 0; i < object->n; i++) {
        bool twice = false;
        if (object->index) {
            uint32_t *s = slot(object, object->items[i].key);
            twice = *s != 0;
            *s = i + 1;
        }
        for (uint32_t k = 0; !object->index && k < i && !twice; k++)
            twice = !strcmp(object->items[k].key, object->items[i].key);
        if (twice)
            return fail(p, fx_arena_printf(p->arena, "the key \"%.100s\" is there twice", object->items[i].key));
    }
    return FX_OK;
}

static fx_status value(parser *p, fx_json_value *out);

/* At '[' or '{'. */
static fx_status container(parser *p, bool object, fx_json_value *out)
{
    char close = object ? '}' : ']';
    size_t base = p->n;
    if (++p->depth > MAX_DEPTH)
        return fail(p, "nested too deeply");
    p->at++;
    blank(p);
    if (p->at < p->end && *p->at == close) {
        p->at++;
    } else {
        for (;;) {
            const char *key = NULL;
            size_t size;
            fx_json_value item;
            blank(p);
            if (object) {
                if (p->at == p->end || *p->at != '"')
                    return fail(p, "expected a key");
                FX_TRY(string(p, &key, &size));
                blank(p);
                if (p->at == p->end || *p->at++ != ':')
                    return fail(p, "expected ':'");
                blank(p);
            }
            FX_TRY(value(p, &item));
            item.key = key;
            FX_PUSH(p->arena, p->stack, p->n, p->cap) = item;
            blank(p);
            char c = p->at < p->end ? *p->at : 0;
            if (c != ',' && c != close)
                return fail(p, object ? "expected ',' or '}'" : "expected ',' or ']'");
            p->at++;
            if (c == close)
                break;
        }
    }
    p->depth--;
    size_t n = p->n - base;
    if (n > UINT32_MAX / 4)
        return fail(p, "too many items");
    *out = (fx_json_value){.type = object ? FX_JSON_OBJECT : FX_JSON_ARRAY, .n = (uint32_t)n};
    out->items = n ? fx_arena_dup(p->arena, p->stack + base, n * sizeof *p->stack) : NULL;
    p->n = base;
    return object ? check_keys(p, out) : FX_OK;
}

static bool keyword(parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

static fx_status value(parser *p, fx_json_value *out)
{
    char c = p->at < p->end ? *p->at : 0;
    if (c == '{' || c == '[')
        return container(p, c == '{', out);
    *out = (fx_json_value){.type = FX_JSON_NULL};
    if (c == '"') {
        size_t size;
        FX_TRY(string(p, &out->s, &size));
        out->type = FX_JSON_STRING;
        return FX_OK;
    }
    if (keyword(p, "null"))
        return FX_OK;
    if (keyword(p, "true")) {
        out->type = FX_JSON_TRUE;
        return FX_OK;
    }
    if (keyword(p, "false")) {
        out->type = FX_JSON_FALSE;
        return FX_OK;
    }
    return number(p, out);
}

fx_status fx_json_parse(const fx_json *r, fx_arena *arena, const char *text, size_t size, const fx_json_value **out)
{
    parser p = {.r = r, .arena = arena, .text = text, .at = text, .end = text + size};
    p.strings = fx_arena_alloc(arena, size + 1);
    fx_json_value *root = FX_NEW(arena, fx_json_value);
    blank(&p);
    FX_TRY(value(&p, root));
    blank(&p);
    if (p.at != p.end)
        return fail(&p, "expected the end");
    *out = root;
    return FX_OK;
}

const fx_json_value *fx_json_get(const fx_json_value *object, const char *key)
{
    if (!object || object->type != FX_JSON_OBJECT)
        return NULL;
    if (object->index) {
        uint32_t i = *slot(object, key);
        return i ? &object->items[i - 1] : NULL;
    }
    for (uint32_t i = 0; i < object->n; i++)
        if (!strcmp(object->items[i].key, key))
            return &object->items[i];
    return NULL;
}

const fx_json_value *fx_json_at(const fx_json_value *array, size_t i)
{
    return i < fx_json_size(array) ? &array->items[i] : NULL;
}

size_t fx_json_size(const fx_json_value *v)
{
    return v && (v->type == FX_JSON_ARRAY || v->type == FX_JSON_OBJECT) ? v->n : 0;
}

const char *fx_json_text(const fx_json_value *v)
{
    return v && v->type == FX_JSON_STRING ? v->s : NULL;
}

bool fx_json_is(const fx_json_value *v, fx_json_type type)
{
    return v && v->type == type;
}

bool fx_json_equal(const fx_json_value *a, const fx_json_value *b)
{
    if (!a || !b || a->type != b->type || a->n != b->n)
        return a == b;
    switch (a->type) {
    case FX_JSON_NULL:
    case FX_JSON_FALSE:
    case FX_JSON_TRUE: return true;
    case FX_JSON_INT: return a->i == b->i;
    case FX_JSON_REAL: return a->f == b->f;
    case FX_JSON_STRING: return !strcmp(a->s, b->s);
    case FX_JSON_ARRAY:
    case FX_JSON_OBJECT: break;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        const fx_json_value *other = a->type == FX_JSON_ARRAY ? &b->items[i] : fx_json_get(b, a->items[i].key);
        if (!fx_json_equal(&a->items[i], other))
            return false;
    }
    return true;
}

static const char *type_name(fx_json_type type)
{
    switch (type) {
    case FX_JSON_NULL: return "null";
    case FX_JSON_FALSE:
    case FX_JSON_TRUE: return "a boolean";
    case FX_JSON_INT: return "an integer";
    case FX_JSON_REAL: return "a number";
    case FX_JSON_STRING: return "a string";
    case FX_JSON_ARRAY: return "a list";
    case FX_JSON_OBJECT: return "an object";
    }
    return "something else";
}

const char *fx_json_kind(const fx_json_value *v)
{
    return v ? type_name(v->type) : "nothing";
}

fx_status fx_json_expect(const fx_json *r, const fx_json_value *v, fx_json_type type, const char *what)
{
    if (v && (v->type == type || (type == FX_JSON_TRUE && v->type == FX_JSON_FALSE)))
        return FX_OK;
    return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected '%s' to be %s, got %s", what, type_name(type), fx_json_kind(v));
}

static fx_status field(const fx_json *r, const fx_json_value *object, const char *key, fx_json_type type, const fx_json_value **out)
{
    if (!fx_json_is(object, FX_JSON_OBJECT))
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected an object with a field '%s', got %s", key, fx_json_kind(object));
    const fx_json_value *v = fx_json_get(object, key);
    FX_TRY(fx_json_expect(r, v, type, key));
    *out = v;
    return FX_OK;
}

fx_status fx_json_object(const fx_json *r, const fx_json_value *object, const char *key, const fx_json_value **out)
{
    return field(r, object, key, FX_JSON_OBJECT, out);
}

fx_status fx_json_array(const fx_json *r, const fx_json_value *object, const char *key, const fx_json_value **out)
{
    return field(r, object, key, FX_JSON_ARRAY, out);
}

fx_status fx_json_string(const fx_json *r, const fx_json_value *object, const char *key, const char **out)
{
    const fx_json_value *v = NULL;
    FX_TRY(field(r, object, key, FX_JSON_STRING, &v));
    *out = fx_intern(r->ctx, v->s);
    return FX_OK;
}

fx_status fx_json_int(const fx_json *r, const fx_json_value *object, const char *key, int64_t *out)
{
    const fx_json_value *v = NULL;
    FX_TRY(field(r, object, key, FX_JSON_INT, &v));
    *out = v->i;
    return FX_OK;
}

fx_status fx_json_bool(const fx_json *r, const fx_json_value *object, const char *key, bool *out)
{
    const fx_json_value *v = NULL;
    FX_TRY(field(r, object, key, FX_JSON_TRUE, &v));
    *out = v->type == FX_JSON_TRUE;
    return FX_OK;
}

fx_status fx_json_optional(const fx_json *r, const fx_json_value *object, const char *key, const fx_json_value **out)
{
    if (!fx_json_is(object, FX_JSON_OBJECT))
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected an object, got %s", fx_json_kind(object));
    const fx_json_value *v = fx_json_get(object, key);
    *out = fx_json_is(v, FX_JSON_NULL) ? NULL : v;
    return FX_OK;
}

fx_status fx_json_union(const fx_json *r, const fx_json_value *v, const char *what, const char **tag, const fx_json_value **out)
{
    bool object = fx_json_is(v, FX_JSON_OBJECT);
    if (!object || v->n != 1)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected '%s' to be an object with one field, got %s%s", what, fx_json_kind(v),
                       object ? v->n ? " with several" : " with none" : "");
    *tag = v->items[0].key;
    *out = &v->items[0];
    return FX_OK;
}

fx_status fx_json_float(const fx_json *r, const fx_json_value *v, double *out)
{
    const char *s = fx_json_text(v);
    if (fx_json_is(v, FX_JSON_REAL))
        *out = v->f;
    else if (fx_json_is(v, FX_JSON_INT))
        *out = (double)v->i;
    else if (s && !strcmp(s, "NaN"))
        *out = (double)NAN;
    else if (s && !strcmp(s, "Infinity"))
        *out = (double)INFINITY;
    else if (s && !strcmp(s, "-Infinity"))
        *out = -(double)INFINITY;
    else
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected a number, \"NaN\", \"Infinity\" or \"-Infinity\", got %s%s%.40s%s",
                       fx_json_kind(v), s ? " \"" : "", s ? s : "", s ? "\"" : "");
    return FX_OK;
}

bool fx_json_put(fx_text *t, const char *s)
{
    const char *end = s + strlen(s);
    for (const char *c = s; c < end;) {
        size_t n = utf8(c, end);
        if (!n)
            return false;
        c += n;
    }
    fx_puts(t, "\"");
    for (const char *c = s; c < end;) {
        const char *plain = c;
        while (c < end && (unsigned char)*c >= 0x20 && *c != '"' && *c != '\\')
            c++;
        fx_putn(t, plain, (size_t)(c - plain));
        if (c < end && (*c == '"' || *c == '\\'))
            fx_printf(t, "\\%c", *c++);
        else if (c < end)
            fx_printf(t, "\\u%04x", (unsigned)(unsigned char)*c++);
    }
    fx_puts(t, "\"");
    return true;
}
