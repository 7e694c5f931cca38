/* ir/parse_attr.c: parameters and buffers in .fx texts.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/parse.h"

/* Storages of tensors whose data the text does not have: to use it is an error, not a guess. */
static fx_status missing_data(fx_storage *st)
{
    fx_loc loc = {.file = st->user};
    if (st->file)
        return fx_fail(st->ctx, FX_ERR_UNSUPPORTED, &loc, "the tensor '%s' lies in the file '%s', which was not opened with the text", st->name,
                       st->file);
    return fx_fail(st->ctx, FX_ERR_UNSUPPORTED, &loc, "the text this graph was read from has no data for the tensor '%s', only a hash",
                   st->name ? st->name : "");
}

static fx_status parse_element(fx_parser *p, fx_tensor *t, int64_t at)
{
    fx_lexer *lx = &p->lx;
    if (t->dtype == FX_C64 || t->dtype == FX_C128) {
        double re, im;
        FX_TRY(fx_lex_expect(lx, "complex"));
        FX_TRY(fx_lex_expect(lx, "("));
        FX_TRY(fx_lex_double(lx, &re));
        FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(fx_lex_double(lx, &im));
        FX_TRY(fx_lex_expect(lx, ")"));
        if (t->dtype == FX_C64) {
            ((float *)t->data)[2 * at] = (float)re;
            ((float *)t->data)[2 * at + 1] = (float)im;
        } else {
            ((double *)t->data)[2 * at] = re;
            ((double *)t->data)[2 * at + 1] = im;
        }
    } else if (t->dtype == FX_BOOL) {
        bool yes = fx_lex_is(lx, "True");
        if (!yes && !fx_lex_is(lx, "False"))
            return fx_lex_fail(lx, "True or False");
        fx_lex_next(lx);
        fx_tensor_set_int(t, at, yes);
    } else if (fx_dtype_is_float(t->dtype)) {
        double v;
        FX_TRY(fx_lex_double(lx, &v));
        fx_tensor_set(t, at, v);
    } else {
        int bits = (int)fx_dtype_size(t->dtype) * 8;
        int64_t min = t->dtype == FX_U8 ? 0 : INT64_MIN >> (64 - bits), max = t->dtype == FX_U8 ? 255 : INT64_MAX >> (64 - bits), v;
        FX_TRY(fx_lex_range(lx, "an element", min, max, &v));
        fx_tensor_set_int(t, at, v);
    }
    return lx->status;
}

/* "= [..]", "= all v": into a dense tensor. */
static fx_status parse_values(fx_parser *p, fx_tensor *dense)
{
    fx_lexer *lx = &p->lx;
    int64_t n = fx_tensor_numel(dense);
    if (fx_lex_accept(lx, "all")) {
        if (n == 0)
            return fx_lex_error(lx, "an empty tensor has no elements to set");
        FX_TRY(parse_element(p, dense, 0));
        size_t size = fx_dtype_size(dense->dtype);
        for (int64_t i = 1; i < n; i++)
            memcpy((char *)dense->data + (size_t)i * size, dense->data, size);
        return FX_OK;
    }
    FX_TRY(fx_lex_expect(lx, "["));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(parse_element(p, dense, i));
    }
    return fx_lex_expect(lx, "]");
}

/* Elements between the first and the last of a strided tensor, both included; -1 when more than a text may ask for. */
static int64_t span(const fx_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t step;
        if (t->sizes[i] == 0)
            return 0;
        if (t->strides[i] < 0 || __builtin_mul_overflow(t->sizes[i] - 1, t->strides[i], &step) || __builtin_add_overflow(last, step, &last))
            return -1;
    }
    return last < INT64_MAX / 64 ? last + 1 : -1;
}

/* Paths of a thousand components are no model's; texts that walk over trees may then take a frame for each. */
fx_status fx_parse_path(fx_parser *p, const char *path)
{
    int dots = 0;
    for (const char *c = path; *c; c++)
        dots += *c == '.';
    return dots < 1000 ? FX_OK : fx_lex_error(&p->lx, "a path of %d components is too deep", dots + 1);
}

/* What a line says of a tensor before its content. */
typedef struct attr_line {
    const char *path;
    bool is_parameter, persistent, is_shared;
    int64_t shared, offset; /* storage number, elements */
    fx_tensor t;
    const char *file, *key; /* of a tensor that lies in a file */
    uint64_t hash;
} attr_line;

static fx_status parse_attr_head(fx_parser *p, attr_line *a)
{
    fx_lexer *lx = &p->lx;
    fx_tensor *t = &a->t;
    fx_dim dims[FX_MAX_RANK], strides[FX_MAX_RANK];
    int n_strides;
    FX_TRY(fx_lex_name(lx, "the path of a tensor", &a->path));
    if (fx_attr_find(p->g, a->path) || *a->path == 0)
        return fx_lex_error(lx, "the tensor '%.60s' is there twice or has no name", a->path);
    FX_TRY(fx_parse_path(p, a->path));
    FX_TRY(fx_lex_expect(lx, ":"));
    FX_TRY(fx_lex_dtype(lx, &t->dtype));
    FX_TRY(fx_lex_expect(lx, "["));
    FX_TRY(fx_parse_dims(p, "]", &t->rank, dims, true));
    bool given = fx_lex_accept(lx, "{");
    if (given) {
        FX_TRY(fx_parse_dims(p, "}", &n_strides, strides, false));
        if (n_strides != t->rank)
            return fx_lex_error(lx, "expected %d strides, got %d", t->rank, n_strides);
    }
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->sizes[i] = dims[i].value;
        t->strides[i] = given ? strides[i].value : step;
        if (dims[i].sym || (given && strides[i].sym))
            return fx_lex_error(lx, "the sizes of a tensor with data are numbers");
        if (__builtin_mul_overflow(step, t->sizes[i] > 0 ? t->sizes[i] : 1, &step) || step > INT64_MAX / 64)
            return fx_lex_error(lx, "the tensor's size does not fit 64 bits");
    }
    a->persistent = !fx_lex_accept(lx, "transient");
    if (fx_lex_accept(lx, "shares")) {
        a->is_shared = true;
        FX_TRY(fx_lex_range(lx, "a storage number", 0, 1 << 20, &a->shared));
        FX_TRY(fx_lex_expect(lx, "+"));
        FX_TRY(fx_lex_range(lx, "an offset", 0, INT64_MAX / 64, &a->offset));
    }
    return lx->status;
}

/* A text may not ask for much memory by a few bytes. */
static bool too_big(int64_t elements)
{
    return elements < 0 || elements > INT64_C(1) << 26;
}

/* Files beside the text are frontend/'s to open. */
static fx_storage *missing_storage(fx_parser *p, const attr_line *a, size_t bytes)
{
    void *text = (void *)(uintptr_t)p->lx.loc.file;
    fx_storage *st = fx_storage_lazy(p->ctx, bytes, missing_data, NULL, text, a->file ? a->key : a->path);
    st->file = a->file;
    return st;
}

/* Storage number a->shared with room for the tensor. Tensors that were put on it before move along when it grows. */
static fx_status shared_storage(fx_parser *p, const attr_line *a, size_t bytes, bool values, bool empty, fx_storage **out)
{
    while (p->n_shared <= (size_t)a->shared)
        FX_PUSH(p->tmp, p->shared, p->n_shared, p->cap_shared) = (fx_shared){0};
    fx_shared *s = &p->shared[a->shared];
    fx_storage *old = s->storage;
    if (old && !!old->file != !!a->file)
        return fx_lex_error(&p->lx, "tensors of one storage lie either all in a file or none");
    if (old && a->file && (old->file != a->file || old->name != a->key))
        return fx_lex_error(&p->lx, "tensors of one storage must name the same tensor of the same file");
    if (s->has != FX_SHARED_EMPTY && !empty && values != (s->has == FX_SHARED_VALUES))
        return fx_lex_error(&p->lx, "tensors of one storage have either all values or all a hash");
    if (!empty)
        s->has = values ? FX_SHARED_VALUES : FX_SHARED_HASHES;
    bool with_data = s->has != FX_SHARED_HASHES && !a->file;
    if (old && old->nbytes >= bytes && s->with_data == with_data) {
        *out = old;
        return FX_OK;
    }
    /* At least doubled, so that many windows on one storage move seldom. */
    size_t least = !old ? 0 : with_data && s->with_data ? 2 * old->nbytes : old->nbytes;
    bytes = bytes > least ? bytes : least;
    fx_storage *st = with_data ? fx_storage_new(p->ctx, bytes) : missing_storage(p, a, bytes);
    if (old && with_data && s->with_data && old->nbytes)
        memcpy(st->data, old->data, old->nbytes);
    if (old) {
        for (size_t i = 0; i < p->n_subgraphs; i++)
            fx_attr_rehang(p->subgraphs[i].g, old, st);
        fx_attr_rehang(p->g, old, st);
        fx_attr_rehang(p->whole, old, st);
    }
    fx_storage_free(old);
    *out = s->storage = st;
    s->with_data = with_data;
    return FX_OK;
}

/* `= ..`, `hash ..`, `in ".." ".."` or `unreadable`, up to the values. */
static fx_status parse_content(fx_parser *p, attr_line *a, bool *values)
{
    fx_lexer *lx = &p->lx;
    *values = fx_lex_accept(lx, "=");
    if (*values || fx_lex_accept(lx, "unreadable"))
        return lx->status;
    if (fx_lex_accept(lx, "in")) {
        FX_TRY(fx_lex_string(lx, "a file", &a->file));
        return fx_lex_string(lx, "the tensor's name in it", &a->key);
    }
    if (!fx_lex_accept(lx, "hash"))
        return fx_lex_fail(lx, "'=', 'hash' or 'in'");
    FX_TRY(fx_lex_uint(lx, &a->hash));
    return a->hash ? lx->status : fx_lex_error(lx, "a hash is not 0");
}

/* Reads the elements in row-major order and puts them where the strides say. */
static fx_status parse_elements(fx_parser *p, fx_tensor *t)
{
    size_t size = fx_dtype_size(t->dtype);
    fx_tensor dense;
    fx_status status = fx_tensor_create(p->ctx, t->dtype, t->rank, t->sizes, &dense);
    if (status == FX_ERR_NOMEM)
        fx_out_of_memory(p->ctx);
    if (status != FX_OK)
        return fx_lex_error(&p->lx, "a tensor of these sizes cannot be made");
    FX_TRY(parse_values(p, &dense));
    int64_t n = fx_tensor_numel(&dense), at[FX_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++) {
        int64_t to = 0;
        for (int d = 0; d < t->rank; d++)
            to += at[d] * t->strides[d];
        memcpy((char *)t->data + (size_t)to * size, (char *)dense.data + (size_t)i * size, size);
        for (int d = t->rank - 1; d >= 0 && ++at[d] == t->sizes[d]; d--)
            at[d] = 0;
    }
    fx_storage_free(dense.storage);
    return FX_OK;
}

fx_status fx_parse_attr(fx_parser *p, bool is_parameter)
{
    fx_lexer *lx = &p->lx;
    attr_line a = {.is_parameter = is_parameter};
    bool values;
    FX_TRY(parse_attr_head(p, &a));
    FX_TRY(parse_content(p, &a, &values));
    fx_tensor *t = &a.t;
    int64_t elements = span(t);
    if (elements < 0 || (values && (too_big(elements) || too_big(fx_tensor_numel(t)) || too_big(a.offset))))
        return fx_lex_error(lx, "a tensor of %s is too big for a text", a.path);
    size_t size = fx_dtype_size(t->dtype), bytes = (size_t)(a.offset + elements) * size;
    if (a.is_shared)
        FX_TRY(shared_storage(p, &a, bytes, values, elements == 0, &t->storage));
    else
        t->storage = values ? fx_storage_new(p->ctx, bytes) : missing_storage(p, &a, bytes);
    t->data = (char *)(t->storage->data ? t->storage->data : NULL) + (size_t)a.offset * size;
    if (values)
        FX_TRY(parse_elements(p, t));
    fx_attr *attr = fx_attr_add(p->g, a.path, t, false);
    attr->is_parameter = a.is_parameter;
    attr->persistent = a.persistent;
    attr->hash = a.hash;
    return fx_lex_line_end(lx);
}
