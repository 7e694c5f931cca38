/* frontend/json.c: reading JSON of a known shape; every departure is an error that says what was expected.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "frontend/pt2.h"

static void free_json(void *arg)
{
    json_decref(*(json_t **)arg);
}

fx_status fx_json_parse(const fx_json *r, const char *text, size_t size, json_t **out)
{
    json_t **root = FX_NEW(fx_context_arena(r->ctx), json_t *);
    fx_defer(r->ctx, free_json, root);
    json_error_t error;
    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!*root) {
        if (json_error_code(&error) == json_error_out_of_memory)
            fx_out_of_memory(r->ctx);
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected JSON: %s (line %d, column %d)", error.text, error.line, error.column);
    }
    *out = *root;
    return FX_OK;
}

static const char *kind_name(json_type type)
{
    switch (type) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "something else";
}

const char *fx_json_kind(const json_t *value)
{
    return value ? kind_name(json_typeof(value)) : "nothing";
}

fx_status fx_json_expect(const fx_json *r, const json_t *value, json_type type, const char *what)
{
    bool ok = value && (type == JSON_TRUE ? json_is_boolean(value) : json_typeof(value) == type);
    if (ok)
        return FX_OK;
    return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected '%s' to be %s, got %s", what, kind_name(type), fx_json_kind(value));
}

static fx_status field(const fx_json *r, const json_t *object, const char *key, json_type type, json_t **out)
{
    if (!json_is_object(object))
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected an object with a field '%s', got %s", key, fx_json_kind(object));
    json_t *value = json_object_get(object, key);
    FX_TRY(fx_json_expect(r, value, type, key));
    *out = value;
    return FX_OK;
}

fx_status fx_json_object(const fx_json *r, const json_t *object, const char *key, json_t **out)
{
    return field(r, object, key, JSON_OBJECT, out);
}

fx_status fx_json_array(const fx_json *r, const json_t *object, const char *key, json_t **out)
{
    return field(r, object, key, JSON_ARRAY, out);
}

fx_status fx_json_string(const fx_json *r, const json_t *object, const char *key, const char **out)
{
    json_t *value = NULL;
    FX_TRY(field(r, object, key, JSON_STRING, &value));
    *out = fx_intern(r->ctx, json_string_value(value));
    return FX_OK;
}

fx_status fx_json_int(const fx_json *r, const json_t *object, const char *key, int64_t *out)
{
    json_t *value = NULL;
    FX_TRY(field(r, object, key, JSON_INTEGER, &value));
    *out = json_integer_value(value);
    return FX_OK;
}

fx_status fx_json_bool(const fx_json *r, const json_t *object, const char *key, bool *out)
{
    json_t *value = NULL;
    FX_TRY(field(r, object, key, JSON_TRUE, &value));
    *out = json_is_true(value);
    return FX_OK;
}

fx_status fx_json_optional(const fx_json *r, const json_t *object, const char *key, json_t **out)
{
    if (!json_is_object(object))
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected an object, got %s", fx_json_kind(object));
    json_t *value = json_object_get(object, key);
    *out = json_is_null(value) ? NULL : value;
    return FX_OK;
}

fx_status fx_json_union(const fx_json *r, const json_t *value, const char *what, const char **tag, json_t **out)
{
    if (!json_is_object(value) || json_object_size(value) != 1)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected '%s' to be an object with one field, got %s%s", what,
                       fx_json_kind(value), json_is_object(value) ? json_object_size(value) ? " with several" : " with none" : "");
    void *it = json_object_iter((json_t *)(uintptr_t)value);
    *tag = json_object_iter_key(it);
    *out = json_object_iter_value(it);
    return FX_OK;
}

fx_status fx_json_float(const fx_json *r, const json_t *value, double *out)
{
    const char *s = json_string_value(value);
    if (json_is_number(value))
        *out = json_number_value(value);
    else if (s && !strcmp(s, "NaN"))
        *out = (double)NAN;
    else if (s && !strcmp(s, "Infinity"))
        *out = (double)INFINITY;
    else if (s && !strcmp(s, "-Infinity"))
        *out = -(double)INFINITY;
    else
        return fx_fail(r->ctx, FX_ERR_FORMAT, &r->loc, "expected a number, \"NaN\", \"Infinity\" or \"-Infinity\", got %s%s%s%s",
                       fx_json_kind(value), s ? " \"" : "", s ? s : "", s ? "\"" : "");
    return FX_OK;
}
