/* codegen/c_sizes.c: what a program with symbols has more of: NAME_dims, which holds their values, the checks of those, and the arena's
 * size and slots as functions of them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* ---- what may be wrong with sizes ------------------------------------------------------------------------------ */

static const char *range_text(fx_emit *e, const fx_sym_range *s, const char *name)
{
    return s->max == INT64_MAX ? fx_arena_printf(e->arena, "%s must be at least %lld", name, (long long)s->min)
           : s->min == s->max  ? fx_arena_printf(e->arena, "%s must be %lld", name, (long long)s->min)
                               : fx_arena_printf(e->arena, "%s must be %lld to %lld", name, (long long)s->min, (long long)s->max);
}

/* Whether int64 surely holds it, whatever the sizes are. */
static bool fits(fx_emit *e, fx_dim d)
{
    int64_t lo, hi;
    fx_dim_bounds(fx_program_symbols(e->p), d, &lo, &hi);
    return lo > INT64_MIN && hi < INT64_MAX;
}

/* Sizes in bytes and limits that may leave int64 while every symbol is in its range. */
static void find_large(fx_emit *e)
{
    const fx_program *p = e->p;
    fx_map seen = {0};
    for (size_t i = 0; i < p->n_bufs + p->n_limits; i++) {
        fx_dim d = i < p->n_bufs ? fx_dim_scale(e->ctx, p->bufs[i].numel, (int64_t)fx_dtype_size(p->bufs[i].dtype)) : p->limits[i - p->n_bufs].value;
        if (fx_dim_known(d) || fits(e, d) || fx_map_get(&seen, d.sym))
            continue;
        fx_map_put(e->arena, &seen, d.sym, e);
        FX_PUSH(e->arena, e->large, e->n_large, e->cap_large) = d;
    }
}

fx_status fx_c_scan_sizes(fx_emit *e)
{
    const fx_program *p = e->p;
    bool *used = FX_NEW_ARRAY(e->arena, bool, e->n_sizes + 1);
    e->ranges = FX_NEW_ARRAY(e->arena, const char *, p->n_symbols + 1);
    for (size_t i = 0; i < p->n_symbols; i++) {
        const fx_sym_range *s = &p->symbols[i];
        e->ranges[i] = fx_names_make(&e->names, fx_arena_printf(e->arena, "%s_%s", e->PREFIX, fx_upper(e->arena, e->symbols[i])), 48, "SIZE");
        fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_MIN", e->ranges[i]));
        fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_MAX", e->ranges[i]));
        fx_c_add_reason(e, e->symbols[i], range_text(e, s, e->symbols[i]));
    }
    for (size_t i = 0; i < p->n_limits; i++) {
        FX_TRY(fx_c_scan_dim(e, p->limits[i].value, used));
        fx_c_add_reason(e, "limit", p->limits[i].text);
    }
    for (size_t i = 0; i < p->n_bufs; i++)
        FX_TRY(fx_c_scan_dim(e, p->bufs[i].numel, used));
    for (size_t i = 0; i < p->n_inputs + p->n_outputs; i++) {
        const fx_io *io = i < p->n_inputs ? &p->inputs[i] : &p->outputs[i - p->n_inputs];
        for (int d = 0; d < io->rank; d++)
            FX_TRY(fx_c_scan_dim(e, io->dims[d], used));
    }
    for (size_t i = 0; i < p->n_slots; i++)
        for (int k = 0; k < p->slots[i].n; k++)
            FX_TRY(fx_c_scan_dim(e, p->slots[i].bytes[k], used));
    if (p->n_symbols)
        e->shape_reason = fx_c_add_reason(e, "shape", "an input has not the shape that the sizes of the others tell");
    find_large(e);
    if (e->n_large)
        fx_c_add_reason(e, "too_large", "tensors of these sizes exceed the address space");
    return FX_OK;
}

/* ---- NAME.h ------------------------------------------------------------------------------------------------------ */

void fx_c_sizes_header(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_printf(t, "/* The sizes of a run, and their ranges. */\n#define %s_DIMS %zu\n", e->PREFIX, p->n_symbols);
    for (size_t i = 0; i < p->n_symbols; i++) {
        fx_printf(t, "#define %s_MIN %lld\n", e->ranges[i], (long long)p->symbols[i].min);
        if (p->symbols[i].max < INT64_MAX)
            fx_printf(t, "#define %s_MAX %lld\n", e->ranges[i], (long long)p->symbols[i].max);
    }
    fx_printf(t, "typedef struct %s_dims {\n", e->prefix);
    for (size_t i = 0; i < p->n_symbols; i++) {
        const fx_sym_range *s = &p->symbols[i];
        fx_printf(t, "    int64_t %s; /* %lld ", e->symbols[i], (long long)s->min);
        if (s->max == INT64_MAX)
            fx_puts(t, "or more");
        else
            fx_printf(t, "to %lld", (long long)s->max);
        int dim, input = fx_program_symbol_place(p, i, &dim);
        if (input >= 0)
            fx_printf(t, ": size %d of %s", dim, e->inputs[input]);
        if (input >= 0 && fx_dim_tells(p->inputs[input].dims[dim], s->name) < 2)
            fx_printf(t, " is %s", fx_c_dim(e, p->inputs[input].dims[dim]));
        fx_puts(t, " */\n");
    }
    fx_printf(t, "} %s_dims;\n\n", e->prefix);
    fx_printf(t, "/* Whether a run may have these sizes: %s_OK, or why not. */\nint %s_check_dims(const %s_dims *dims);\n\n", e->PREFIX, e->prefix,
              e->prefix);
    fx_printf(t, "/* Bytes of arena that a run of these sizes needs; SIZE_MAX when there can be none. */\nsize_t %s_arena_size(const %s_dims *dims);\n\n",
              e->prefix, e->prefix);
    fx_printf(t, "/* The sizes that inputs of these shapes have; shapes[i] has %s_INi_RANK numbers. Checks them. */\n"
                 "int %s_dims_of(%s_dims *dims, const int64_t *const *shapes);\n\n", e->PREFIX, e->prefix, e->prefix);
}

/* ---- NAME.c ------------------------------------------------------------------------------------------------------ */

void fx_c_size_locals(fx_emit *e, fx_text *t, const char *type, const bool *used)
{
    const char *between = fx_arena_printf(e->arena, "    const %s ", type);
    for (size_t i = 0; i < e->p->n_symbols; i++) {
        if (!used[i])
            continue;
        bool same = strcmp(type, "int64_t") == 0;
        fx_printf(t, "%s%s = %s%s%sdims->%s", between, e->symbols[i], same ? "" : "(", same ? "" : type, same ? "" : ")", e->symbols[i]);
        between = ", ";
    }
    if (*between == ',')
        fx_puts(t, ";\n");
    fx_c_derived_locals(e, t, type, used);
}

/* Which symbols the sizes name. */
static bool *names_of(fx_emit *e, size_t n, const fx_dim *dims, bool *used)
{
    if (!used)
        used = FX_NEW_ARRAY(e->arena, bool, e->n_sizes + 1);
    for (size_t i = 0; i < n; i++)
        (void)fx_c_scan_dim(e, dims[i], used); /* refused earlier, if at all */
    return used;
}

static void put_check(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_printf(t, "\nint %s_check_dims(const %s_dims *dims)\n{\n    if (!dims)\n        return %s_ERR_NULL;\n", e->prefix, e->prefix, e->PREFIX);
    for (size_t i = 0; i < p->n_symbols; i++) {
        fx_printf(t, "    if (dims->%s < %s_MIN", e->symbols[i], e->ranges[i]);
        if (p->symbols[i].max < INT64_MAX)
            fx_printf(t, " || dims->%s > %s_MAX", e->symbols[i], e->ranges[i]);
        fx_printf(t, ")\n        return %s;\n", e->reasons[i].name);
    }
    if (e->n_large) {
        fx_puts(t, "    {\n        /* Roughly, and so without overflow. */\n    ");
        e->roughly = true;
        fx_c_size_locals(e, t, "double", names_of(e, e->n_large, e->large, NULL));
        fx_puts(t, "        const double most = 9e18;\n        if (");
        for (size_t i = 0; i < e->n_large; i++) {
            fx_printf(t, "%s%s > most", i ? " ||\n            " : "", fx_c_dim(e, e->large[i]));
            if (!fx_dim_at_least(e->ctx, fx_program_symbols(p), e->large[i], 0))
                fx_printf(t, " || %s < -most", fx_c_dim(e, e->large[i]));
        }
        fx_printf(t, ")\n            return %s;\n    }\n", e->reasons[p->n_symbols + p->n_limits + 1].name);
        e->roughly = false;
    }
    bool *used = names_of(e, 0, NULL, NULL);
    for (size_t i = 0; i < p->n_limits; i++)
        names_of(e, 1, &p->limits[i].value, used);
    fx_c_size_locals(e, t, "int64_t", used);
    for (size_t i = 0; i < p->n_limits; i++)
        fx_printf(t, "    if (%s < 0)\n        return %s;\n", fx_c_dim(e, p->limits[i].value), e->reasons[p->n_symbols + i].name);
    fx_printf(t, "    return %s_OK;\n}\n", e->PREFIX);
}

/* Whether another size of the slot is surely at least this one. */
static bool covered(fx_emit *e, const fx_slot *s, int i)
{
    enum { MANY = 16 };
    for (int k = 0; k < s->n; k++) {
        if (k == i)
            continue;
        if (fx_dim_equal(s->bytes[k], s->bytes[i])) {
            if (k < i)
                return true;
        } else if (s->n <= MANY && fx_dim_le(e->ctx, fx_program_symbols(e->p), s->bytes[i], s->bytes[k])) {
            return true;
        }
    }
    return false;
}

static void put_slot_names(fx_emit *e, fx_text *t, size_t slot)
{
    enum { SHOWN = 3 };
    size_t n = 0;
    for (size_t i = 0; i < e->p->n_bufs; i++) {
        const fx_buf *b = &e->p->bufs[i];
        if (b->kind != FX_BUF_ARENA || b->slot != (int)slot)
            continue;
        if (n < SHOWN)
            fx_printf(t, "%s%s", n ? ", " : "", e->bufs[i]);
        n++;
    }
    if (n > SHOWN)
        fx_puts(t, ", ...");
}

/* at[place] is where the last of these slots ends. */
static void put_highest(fx_text *t, size_t place, int n, const int *slots)
{
    if (n)
        fx_printf(t, "    at[%zu] = end[%d];\n", place, slots[0]);
    else
        fx_printf(t, "    at[%zu] = 0;\n", place);
    for (int k = 1; k < n; k++)
        fx_printf(t, "    if (at[%zu] < end[%d])\n        at[%zu] = end[%d];\n", place, slots[k], place, slots[k]);
}

static void put_slots(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    const size_t n = p->n_slots;
    e->deriving = true;
    if (n)
        fx_printf(t, "\n/* Where a slot of so many bytes ends, rounded up to 64. */\n"
                     "static uint64_t %s_slot_end(uint64_t at, int64_t size)\n{\n    const uint64_t end = at + ((uint64_t)size + 63) / 64 * 64;\n"
                     "    return end < at ? UINT64_MAX : end;\n}\n", e->prefix);
    fx_printf(t, "\n/* Where the slots of the arena start, each as large as the largest tensor it holds, and where the last one ends. A slot starts where all those\n"
                 " * have ended that hold tensors which live at the same time and lie below. */\n"
                 "static void %s_slots(const %s_dims *dims, uint64_t *at)\n{\n", e->prefix, e->prefix);
    bool *used = names_of(e, 0, NULL, NULL);
    for (size_t i = 0; i < p->n_slots; i++)
        for (int k = 0; k < p->slots[i].n; k++)
            if (!covered(e, &p->slots[i], k))
                names_of(e, 1, &p->slots[i].bytes[k], used);
    bool any = false;
    for (size_t i = 0; i < p->n_symbols; i++)
        any |= used[i];
    if (any)
        fx_c_size_locals(e, t, "int64_t", used);
    else
        fx_puts(t, "    (void)dims;\n");
    if (n)
        fx_printf(t, "    int64_t size;\n    uint64_t end[%zu];\n", n);
    bool *below = FX_NEW_ARRAY(e->arena, bool, n + 1);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < p->slots[i].n_above; k++)
            below[p->slots[i].above[k]] = true;
    for (size_t i = 0; i < n; i++) {
        const fx_slot *s = &p->slots[i];
        bool first = true;
        for (int k = 0; k < s->n; k++) {
            if (covered(e, s, k))
                continue;
            const char *bytes = fx_c_dim(e, s->bytes[k]);
            if (first) {
                fx_printf(t, "    size = %s; /* ", bytes);
                put_slot_names(e, t, i);
                fx_puts(t, " */\n");
            } else {
                fx_printf(t, "    if (size < %s)\n        size = %s;\n", fx_c_multiplier(e, s->bytes[k]), bytes);
            }
            first = false;
        }
        put_highest(t, i, s->n_above, s->above);
        fx_printf(t, "    end[%zu] = %s_slot_end(at[%zu], %s);\n", i, e->prefix, i, first ? "0" : "size");
    }
    int n_tops = 0, *tops = FX_NEW_ARRAY(e->arena, int, n + 1);
    for (size_t i = 0; i < n; i++)
        if (!below[i])
            tops[n_tops++] = (int)i;
    put_highest(t, n, n_tops, tops);
    fx_puts(t, "}\n");
    e->deriving = false;
}

/* Reads a symbol off a size factor * s + rest. Outside what the symbol's range gives, the size is refused first, so nothing overflows. */
static void put_solved(fx_emit *e, fx_text *t, size_t symbol, int input, int dim)
{
    const fx_sym_range *s = &e->p->symbols[symbol];
    int64_t factor, rest;
    fx_dim_linear(e->p->inputs[input].dims[dim], s->name, &factor, &rest);
    if (factor == 1 && rest == 0) {
        fx_printf(t, "    dims->%s = shapes[%d][%d];\n", e->symbols[symbol], input, dim);
        return;
    }
    __int128 ends[2] = {(__int128)factor * s->min + rest, (__int128)factor * s->max + rest};
    __int128 low = factor > 0 ? ends[0] : ends[1], high = factor > 0 ? ends[1] : ends[0], most = (__int128)INT64_MAX + (rest < 0 ? rest : 0);
    low = low < 0 ? 0 : low > most ? most : low;
    high = high < 0 ? -1 : high;
    fx_printf(t, "    if (shapes[%d][%d] < %lld", input, dim, (long long)low);
    if (high < INT64_MAX)
        fx_printf(t, " || shapes[%d][%d] > %lld", input, dim, (long long)high);
    else if (most < INT64_MAX)
        fx_printf(t, " || shapes[%d][%d] > %lld", input, dim, (long long)most);
    fx_printf(t, ")\n        return %s;\n    dims->%s = ", e->reasons[symbol].name, e->symbols[symbol]);
    if (rest)
        fx_printf(t, "(shapes[%d][%d] %c %llu)", input, dim, rest > 0 ? '-' : '+', rest > 0 ? (unsigned long long)rest : 0 - (unsigned long long)rest);
    else
        fx_printf(t, "shapes[%d][%d]", input, dim);
    if (factor != 1)
        fx_printf(t, factor > 0 ? " / %lld" : " / (%lld)", (long long)factor);
    fx_puts(t, ";\n");
}

/* Sizes are read where an input's size tells them; then all shapes are compared with what those tell. */
static void put_dims_of(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_map told = {0}; /* inputs' dims that are a symbol alone and were read for it: nothing to compare */
    fx_printf(t, "\nint %s_dims_of(%s_dims *dims, const int64_t *const *shapes)\n{\n    if (!dims || !shapes)\n        return %s_ERR_NULL;\n",
              e->prefix, e->prefix, e->PREFIX);
    for (size_t i = 0; i < p->n_symbols; i++) {
        int dim, input = fx_program_symbol_place(p, i, &dim);
        if (input < 0) {
            fx_printf(t, "    dims->%s = %s_MIN;\n", e->symbols[i], e->ranges[i]);
            continue;
        }
        put_solved(e, t, i, input, dim);
        const fx_dim *at = &p->inputs[input].dims[dim];
        if (fx_dim_tells(*at, p->symbols[i].name) == 2)
            fx_map_put(e->arena, &told, at, e);
    }
    bool any = false;
    e->symbol_prefix = "dims->";
    for (size_t i = 0; i < p->n_inputs; i++) {
        for (int d = 0; d < p->inputs[i].rank; d++) {
            const fx_dim *dim = &p->inputs[i].dims[d];
            if (fx_map_get(&told, dim))
                continue;
            if (!any)
                fx_printf(t, "    const int status = %s_check_dims(dims);\n    if (status != %s_OK)\n        return status;\n", e->prefix, e->PREFIX);
            fx_printf(t, "%sshapes[%zu][%d] != %s", any ? " ||\n        " : "    if (", i, d, fx_c_factor(e, *dim));
            any = true;
        }
    }
    e->symbol_prefix = NULL;
    if (any)
        fx_printf(t, ")\n        return %s;\n    return %s_OK;\n}\n", e->shape_reason, e->PREFIX);
    else
        fx_printf(t, "    return %s_check_dims(dims);\n}\n", e->prefix);
}

void fx_c_sizes_source(fx_emit *e, fx_text *t)
{
    e->deriving = true;
    put_check(e, t);
    e->deriving = false;
    put_dims_of(e, t);
    put_slots(e, t);
    fx_printf(t, "\nsize_t %s_arena_size(const %s_dims *dims)\n{\n    uint64_t at[%zu];\n", e->prefix, e->prefix, e->p->n_slots + 1);
    fx_printf(t, "    if (%s_check_dims(dims) != %s_OK)\n        return SIZE_MAX;\n    %s_slots(dims, at);\n", e->prefix, e->PREFIX, e->prefix);
    fx_printf(t, "    return at[%zu] < SIZE_MAX ? (size_t)at[%zu] : SIZE_MAX;\n}\n", e->p->n_slots, e->p->n_slots);
}
