/* ir/program_inputs.c: whether tensors are what a loop program takes, and what their sizes tell of its symbols. Allocates nothing: calls of compiled
 * models come here, from any thread.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <string.h>

#include "ir/program.h"

static bool differs(fx_misfit *why, fx_misfit_kind kind, size_t at, int dim)
{
    *why = (fx_misfit){.kind = kind, .at = at, .dim = dim};
    return false;
}

static int symbol_at(const fx_program *p, const char *name)
{
    for (size_t k = 0; k < p->n_symbols; k++)
        if (strcmp(p->symbols[k].name, name) == 0)
            return (int)k;
    return -1;
}

void fx_program_open_sizes(const fx_program *p, fx_arena *arena, fx_open_sizes *open)
{
    size_t most = 0;
    for (size_t i = 0; i < p->n_inputs; i++)
        for (int d = 0; d < p->inputs[i].rank; d++)
            most += p->inputs[i].dims[d].sym != NULL;
    *open = (fx_open_sizes){.v = FX_NEW_ARRAY(arena, fx_open_size, most + 1), .told_by = FX_NEW_ARRAY(arena, int, p->n_symbols + 1)};
    for (size_t i = 0; i < p->n_inputs; i++)
        for (int d = 0; d < p->inputs[i].rank; d++) {
            fx_open_size *v = &open->v[open->n];
            if (!p->inputs[i].dims[d].sym)
                continue;
            *v = (fx_open_size){.input = (int)i, .dim = d, .symbol = -1};
            const char *name = fx_dim_linear(p->inputs[i].dims[d], NULL, &v->factor, &v->rest);
            v->symbol = name ? symbol_at(p, name) : -1;
            open->n++;
        }
    for (size_t k = 0; k < p->n_symbols; k++) {
        int dim = 0, input = fx_program_symbol_place(p, k, &dim);
        open->told_by[k] = -1;
        for (size_t i = 0; input >= 0 && i < open->n; i++)
            if (open->v[i].input == input && open->v[i].dim == dim)
                open->told_by[k] = (int)i;
    }
}

static bool read_symbol(const fx_program *p, const fx_open_sizes *open, const fx_tensor *in, size_t k, int64_t *value, fx_misfit *why)
{
    const fx_sym_range *s = &p->symbols[k];
    if (open->told_by[k] < 0)
        return differs(why, FX_MISFIT_UNTOLD, k, 0);
    const fx_open_size *v = &open->v[open->told_by[k]];
    if (fx_linear_solve(v->factor, v->rest, in[v->input].sizes[v->dim], value) && *value >= s->min && *value <= s->max)
        return true;
    return differs(why, FX_MISFIT_SHAPE, (size_t)v->input, v->dim);
}

/* What size v must be. */
static bool size_told(const fx_program *p, const int64_t *values, const fx_open_size *v, int64_t *size)
{
    if (v->symbol < 0)
        return fx_dim_eval(fx_program_symbols(p), values, p->inputs[v->input].dims[v->dim], size);
    return !__builtin_mul_overflow(v->factor, values[v->symbol], size) && !__builtin_add_overflow(*size, v->rest, size);
}

bool fx_program_match(const fx_program *p, const fx_open_sizes *open, size_t n_in, const fx_tensor *in, int64_t *values, fx_misfit *why)
{
    fx_symbols symbols = fx_program_symbols(p);
    if ((n_in != p->n_inputs && n_in != p->n_inputs + p->n_states) || (n_in && !in))
        return differs(why, FX_MISFIT_COUNT, 0, 0);
    for (size_t i = 0; i < n_in; i++) {
        const fx_io *io = i < p->n_inputs ? &p->inputs[i] : &p->states[i - p->n_inputs];
        bool same = in[i].dtype == io->dtype && in[i].rank == io->rank;
        for (int d = 0; same && d < io->rank; d++)
            same = io->dims[d].sym ? in[i].sizes[d] >= 0 : in[i].sizes[d] == io->dims[d].value;
        if (!same)
            return differs(why, FX_MISFIT_SHAPE, i, 0);
    }
    if (!p->n_symbols && !p->n_limits)
        return true;
    for (size_t k = 0; k < p->n_symbols; k++)
        if (!read_symbol(p, open, in, k, &values[k], why))
            return false;
    for (const fx_open_size *v = open->v, *end = v + open->n; v < end; v++) {
        int64_t size = -1;
        if (!size_told(p, values, v, &size) || size != in[v->input].sizes[v->dim]) {
            *why = (fx_misfit){.kind = FX_MISFIT_TWICE, .at = (size_t)v->input, .dim = v->dim, .expected = size};
            return false;
        }
    }
    for (size_t i = 0; i < p->n_limits; i++) {
        int64_t v;
        if (!fx_dim_eval(symbols, values, p->limits[i].value, &v) || v < 0)
            return differs(why, FX_MISFIT_LIMIT, i, 0);
    }
    return true;
}

/* ---- in words ------------------------------------------------------------------------------------------------------------- */

/* "n in 2..9"; "3*n + 1 with n in 2..9"; the range only where it was not said before. */
static void put_dim(fx_text *t, const fx_program *p, fx_dim d, bool *said)
{
    fx_dim_print(t, d);
    for (size_t k = 0; d.sym && k < p->n_symbols; k++) {
        const fx_sym_range *s = &p->symbols[k];
        int tells = fx_dim_tells(d, s->name);
        if (!tells || said[k])
            continue;
        said[k] = true;
        if (tells < 2)
            fx_printf(t, " with %s", s->name);
        fx_printf(t, " in %lld..", (long long)s->min);
        if (s->max != INT64_MAX)
            fx_printf(t, "%lld", (long long)s->max);
    }
}

void fx_io_put(fx_text *t, const fx_program *p, const fx_io *io)
{
    bool *said = FX_NEW_ARRAY(t->arena, bool, p->n_symbols + 1);
    fx_printf(t, "%s[", fx_dtype_name(io->dtype));
    for (int d = 0; d < io->rank; d++) {
        fx_puts(t, d ? ", " : "");
        put_dim(t, p, io->dims[d], said);
    }
    fx_puts(t, "]");
}

void fx_misfit_text(const fx_program *p, const fx_misfit *why, size_t n_in, const fx_tensor *in, const char *expected, char *buf, size_t size)
{
    char got[256], told[96] = "";
    switch (why->kind) {
    case FX_MISFIT_COUNT:
        if (n_in && !in)
            snprintf(buf, size, "expected %zu inputs, got NULL", p->n_inputs);
        else
            snprintf(buf, size, "expected %zu inputs, got %zu", p->n_inputs, n_in);
        break;
    case FX_MISFIT_UNTOLD:
        snprintf(buf, size, "no size of an input tells the symbol %s, so its value is not known", p->symbols[why->at].name);
        break;
    case FX_MISFIT_SHAPE:
    case FX_MISFIT_TWICE: {
        const fx_io *io = why->at < p->n_inputs ? &p->inputs[why->at] : &p->states[why->at - p->n_inputs];
        if (why->kind == FX_MISFIT_TWICE)
            snprintf(told, sizeof told, ": dim %d must be %lld, as sizes before it tell", why->dim, (long long)why->expected);
        snprintf(buf, size, "input %zu '%s': expected %s, got %s%s", why->at, io->label ? io->label : io->name, expected,
                 fx_tensor_text(&in[why->at], got, sizeof got), told);
        break;
    }
    case FX_MISFIT_LIMIT:
        snprintf(buf, size, "%s", p->limits[why->at].text);
        break;
    }
}

fx_status fx_program_values(fx_program *p, size_t n_in, const fx_tensor *in, int64_t *values)
{
    fx_misfit why;
    fx_open_sizes open;
    fx_program_open_sizes(p, p->arena, &open);
    if (fx_program_match(p, &open, n_in, in, values, &why))
        return FX_OK;
    fx_text expected;
    fx_text_init(&expected, p->arena);
    if (why.kind == FX_MISFIT_SHAPE || why.kind == FX_MISFIT_TWICE)
        fx_io_put(&expected, p, why.at < p->n_inputs ? &p->inputs[why.at] : &p->states[why.at - p->n_inputs]);
    char text[1024];
    fx_misfit_text(p, &why, n_in, in, expected.data, text, sizeof text);
    return fx_fail(p->ctx, why.kind == FX_MISFIT_UNTOLD ? FX_ERR_UNSUPPORTED : FX_ERR_ARGUMENT, NULL, "%s", text);
}
