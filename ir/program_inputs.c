/* ir/program_inputs.c: whether tensors are what a loop program takes, and what their sizes tell of its symbols. Allocates nothing: calls of compiled
 * models come here, from any thread.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "ir/program.h"

static bool differs(fx_misfit *why, fx_misfit_kind kind, size_t at, int dim)
{
    *why = (fx_misfit){.kind = kind, .at = at, .dim = dim};
    return false;
}

static bool read_symbol(const fx_program *p, const fx_tensor *in, size_t k, int64_t *value, fx_misfit *why)
{
    const fx_sym_range *s = &p->symbols[k];
    int d, i = fx_program_symbol_place(p, k, &d);
    if (i < 0)
        return differs(why, FX_MISFIT_UNTOLD, k, 0);
    if (fx_dim_solve(p->inputs[i].dims[d], s->name, in[i].sizes[d], value) && *value >= s->min && *value <= s->max)
        return true;
    return differs(why, FX_MISFIT_SHAPE, (size_t)i, d);
}

bool fx_program_match(const fx_program *p, size_t n_in, const fx_tensor *in, int64_t *values, fx_misfit *why)
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
        if (!read_symbol(p, in, k, &values[k], why))
            return false;
    for (size_t i = 0; i < p->n_inputs; i++) {
        for (int d = 0; d < p->inputs[i].rank; d++) {
            int64_t v = -1;
            if (!fx_dim_eval(symbols, values, p->inputs[i].dims[d], &v) || v != in[i].sizes[d]) {
                *why = (fx_misfit){.kind = FX_MISFIT_TWICE, .at = i, .dim = d, .expected = v};
                return false;
            }
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
    if (fx_program_match(p, n_in, in, values, &why))
        return FX_OK;
    fx_text expected;
    fx_text_init(&expected, p->arena);
    if (why.kind == FX_MISFIT_SHAPE || why.kind == FX_MISFIT_TWICE)
        fx_io_put(&expected, p, why.at < p->n_inputs ? &p->inputs[why.at] : &p->states[why.at - p->n_inputs]);
    char text[1024];
    fx_misfit_text(p, &why, n_in, in, expected.data, text, sizeof text);
    return fx_fail(p->ctx, why.kind == FX_MISFIT_UNTOLD ? FX_ERR_UNSUPPORTED : FX_ERR_ARGUMENT, NULL, "%s", text);
}
