/* frontend/pt2_type.c: the serialised numbers of dtypes, layouts and memory formats; dims and tensor types.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

/* torch._export.serde.schema.ScalarType: numbers of its own, not those of c10. */
static const struct {
    int number;
    const char *name;
    int dtype; /* fx_dtype, -1: not supported */
} dtypes[] = {
    {1, "uint8", FX_U8},           {2, "int8", FX_I8},          {3, "int16", FX_I16},        {4, "int32", FX_I32},
    {5, "int64", FX_I64},          {6, "float16", FX_F16},      {7, "float32", FX_F32},      {8, "float64", FX_F64},
    {9, "complex32", -1},          {10, "complex64", FX_C64},   {11, "complex128", FX_C128}, {12, "bool", FX_BOOL},
    {13, "bfloat16", FX_BF16},     {28, "uint16", -1},          {29, "float8_e4m3fn", -1},   {30, "float8_e5m2", -1},
    {31, "float8_e4m3fnuz", -1},   {32, "float8_e5m2fnuz", -1}, {33, "float8_e8m0fnu", -1},  {34, "uint32", -1},
    {35, "uint64", -1},
};

fx_status fx_pt2_dtype(fx_pt2 *p, int64_t number, fx_dtype *out)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (dtypes[i].number != number)
            continue;
        if (dtypes[i].dtype < 0)
            return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "dtype %s is not supported", dtypes[i].name);
        *out = (fx_dtype)dtypes[i].dtype;
        return FX_OK;
    }
    return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected the number of a dtype, got %lld", (long long)number);
}

static fx_status numbered(fx_pt2 *p, const char *const *names, int n, int64_t number, const char *what, const char **out)
{
    if (number < 1 || number >= n)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected the number of a %s, got %lld", what, (long long)number);
    *out = names[number];
    return FX_OK;
}

static const char *const layouts[] = {NULL, "torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr",
                                      "torch.sparse_bsc", "torch._mkldnn", "torch.strided"};
static const char *const memory_formats[] = {NULL, "torch.contiguous_format", "torch.channels_last", "torch.channels_last_3d",
                                             "torch.preserve_format"};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts, N_MEMORY_FORMATS = sizeof memory_formats / sizeof *memory_formats };

fx_status fx_pt2_layout(fx_pt2 *p, int64_t number, const char **out)
{
    return numbered(p, layouts, N_LAYOUTS, number, "layout", out);
}

fx_status fx_pt2_memory_format(fx_pt2 *p, int64_t number, const char **out)
{
    return numbered(p, memory_formats, N_MEMORY_FORMATS, number, "memory format", out);
}

static int number_of(const char *const *names, int n, const char *name)
{
    for (int i = 1; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    return 0;
}

int fx_pt2_layout_number(const char *name)
{
    return number_of(layouts, N_LAYOUTS, name);
}

int fx_pt2_memory_format_number(const char *name)
{
    return number_of(memory_formats, N_MEMORY_FORMATS, name);
}

int fx_pt2_dtype_number(fx_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == (int)dtype)
            return dtypes[i].number;
    return 0;
}

fx_status fx_pt2_device(fx_pt2 *p, const fx_json_value *device, const char **out)
{
    const char *type;
    FX_TRY(fx_json_string(&p->r, device, "type", &type));
    if (!strcmp(type, "meta"))
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "a tensor on device 'meta' has no values");
    if (strcmp(type, "cpu") != 0 && !p->foreign_device)
        p->foreign_device = type;
    *out = "cpu";
    return FX_OK;
}

/* Every symbol of a shape is in g->symbols, with the range the file gives, else what its assumptions say. */
static void add_symbols(fx_pt2 *p, fx_graph *g, const fx_sympy_symbol *s)
{
    for (; s; s = s->next) {
        bool known = false;
        for (size_t i = 0; i < g->n_symbols && !known; i++)
            known = g->symbols[i].name == s->name;
        if (known)
            continue;
        fx_sym_range range = {.name = s->name, .min = s->min, .max = INT64_MAX};
        const fx_json_value *given = fx_json_get(p->ranges, s->name);
        const fx_json_value *min = fx_json_get(given, "min_val"), *max = fx_json_get(given, "max_val");
        if (fx_json_is(min, FX_JSON_INT))
            range.min = min->i;
        if (fx_json_is(max, FX_JSON_INT))
            range.max = max->i;
        FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = range;
    }
}

fx_status fx_pt2_dim(fx_pt2 *p, fx_graph *g, const fx_json_value *sym_int, fx_dim *out)
{
    const char *tag, *text;
    const fx_json_value *value;
    FX_TRY(fx_json_union(&p->r, sym_int, "SymInt", &tag, &value));
    if (!strcmp(tag, "as_int")) {
        FX_TRY(fx_json_expect(&p->r, value, FX_JSON_INT, tag));
        *out = (fx_dim){.value = value->i};
        return FX_OK;
    }
    if (strcmp(tag, "as_expr") != 0)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected as_int or as_expr, got '%s'", tag);
    FX_TRY(fx_json_string(&p->r, value, "expr_str", &text));
    fx_sympy_symbol *symbols = NULL;
    const fx_sym *sym = NULL;
    FX_TRY(fx_sympy_parse(&p->r, text, p->tmp, &symbols, &sym));
    add_symbols(p, g, symbols);
    *out = sym->kind == FX_SYM_INT ? (fx_dim){.value = sym->value} : (fx_dim){.sym = sym};
    return FX_OK;
}

/* The size in bytes of everything but a symbol's share must be countable. */
static fx_status check_extent(fx_pt2 *p, fx_dtype dtype, int rank, const fx_dim *dims)
{
    int64_t bytes = (int64_t)fx_dtype_size(dtype);
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (dims[i].sym)
            continue;
        if (dims[i].value < 0)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected sizes of at least 0, got %lld", (long long)dims[i].value);
        empty |= dims[i].value == 0;
    }
    for (int i = 0; i < rank && !empty; i++)
        if (!dims[i].sym && __builtin_mul_overflow(bytes, dims[i].value, &bytes))
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "the size of a tensor in bytes overflows 64 bits");
    return FX_OK;
}

fx_status fx_pt2_tensor_meta(fx_pt2 *p, fx_graph *g, const fx_json_value *meta, const fx_type **type, fx_dim *storage_offset)
{
    const fx_json *r = &p->r;
    int64_t number;
    const fx_json_value *sizes, *strides, *device, *offset;
    fx_dtype dtype = FX_F32;
    const char *text = "";
    FX_TRY(fx_json_int(r, meta, "dtype", &number));
    FX_TRY(fx_pt2_dtype(p, number, &dtype));
    FX_TRY(fx_json_int(r, meta, "layout", &number));
    FX_TRY(fx_pt2_layout(p, number, &text));
    if (strcmp(text, "torch.strided") != 0)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &r->loc, "tensors of layout %s are not supported", text);
    FX_TRY(fx_json_object(r, meta, "device", &device));
    FX_TRY(fx_pt2_device(p, device, &text));
    FX_TRY(fx_json_array(r, meta, "sizes", &sizes));
    FX_TRY(fx_json_array(r, meta, "strides", &strides));
    size_t rank = fx_json_size(sizes);
    if (rank != fx_json_size(strides))
        return fx_fail(p->ctx, FX_ERR_FORMAT, &r->loc, "expected as many strides as sizes, got %zu and %zu", fx_json_size(strides), rank);
    if (rank > FX_MAX_RANK)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &r->loc, "expected at most %d dimensions, got %zu", FX_MAX_RANK, rank);
    fx_dim dims[FX_MAX_RANK], steps[FX_MAX_RANK];
    for (size_t i = 0; i < rank; i++) {
        FX_TRY(fx_pt2_dim(p, g, fx_json_at(sizes, i), &dims[i]));
        FX_TRY(fx_pt2_dim(p, g, fx_json_at(strides, i), &steps[i]));
        if (!steps[i].sym && steps[i].value < 0)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &r->loc, "expected strides of at least 0, got %lld", (long long)steps[i].value);
    }
    FX_TRY(check_extent(p, dtype, (int)rank, dims));
    FX_TRY(fx_json_object(r, meta, "storage_offset", &offset));
    fx_dim at;
    FX_TRY(fx_pt2_dim(p, g, offset, &at));
    if (storage_offset)
        *storage_offset = at;
    *type = fx_type_tensor(p->ctx, dtype, (int)rank, dims, steps);
    return FX_OK;
}
