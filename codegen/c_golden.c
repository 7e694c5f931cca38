/* codegen/c_golden.c: golden vectors in the programs that check emitted models: their data, and comparisons in C.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* Vectors up to this many bytes are arrays in the source, which also runs where there are no files. */
enum { IN_SOURCE = 1 << 20 };

static uint64_t round_up(uint64_t n)
{
    return (n + 63) / 64 * 64;
}

/* Dense, and of the type the model has there with these values of the symbols. */
static fx_status set_vector(fx_emit *e, const int64_t *values, fx_vector *v, const fx_tensor *t)
{
    const fx_program *p = e->p;
    const fx_io *io = v->io;
    bool fits = t->dtype == io->dtype && t->rank == io->rank;
    fx_dim wanted[FX_MAX_RANK];
    for (int d = 0; d < io->rank; d++) {
        int64_t size = 0;
        wanted[d] = fx_dim_eval(fx_program_symbols(p), values, io->dims[d], &size) ? fx_dim_of(size) : io->dims[d];
        fits = fits && t->sizes[d] == size;
    }
    if (!fits) {
        fx_text want, got;
        fx_text_init(&want, e->arena);
        fx_text_init(&got, e->arena);
        fx_dim sizes[FX_MAX_RANK];
        for (int d = 0; d < t->rank; d++)
            sizes[d] = fx_dim_of(t->sizes[d]);
        fx_put_dims(e, &want, io->rank, wanted, "x");
        fx_put_dims(e, &got, t->rank, sizes, "x");
        return fx_fail(e->ctx, FX_ERR_ARGUMENT, NULL, "golden vector of %s %zu '%s': expected %s %s, got %s %s", v->what, v->number,
                       io->label ? io->label : io->name, fx_dtype_name(io->dtype), want.data, fx_dtype_name(t->dtype), got.data);
    }
    return fx_tensor_contiguous(e->ctx, t, &v->t);
}

size_t fx_golden_calls(const fx_emit *e)
{
    return e->opt->golden->calls ? e->opt->golden->calls : 1;
}

/* All vectors in order: the inputs; for each call the outputs, then the inputs it changes and the states. */
static fx_status gather(fx_emit *e, const int64_t *values, fx_vector *v, size_t *n)
{
    const fx_program *p = e->p;
    const fx_golden *g = e->opt->golden;
    const fx_tensor *after = g->after;
    fx_arena *m = e->arena;
    *n = 0;
    for (size_t i = 0; i < p->n_inputs; i++) {
        v[*n] = (fx_vector){.name = fx_arena_printf(m, "in%zu", i), .what = "input", .number = i, .io = &p->inputs[i]};
        FX_TRY(set_vector(e, values, &v[(*n)++], &g->inputs[i]));
    }
    for (size_t c = 0; c < fx_golden_calls(e); c++) {
        const char *call = c ? fx_arena_printf(m, "_%zu", c + 1) : "";
        for (size_t i = 0; i < p->n_outputs; i++) {
            v[*n] = (fx_vector){.name = fx_arena_printf(m, "want%zu%s", i, call), .got = fx_arena_printf(m, "got%zu", i), .what = "output",
                             .number = i, .io = &p->outputs[i]};
            FX_TRY(set_vector(e, values, &v[(*n)++], &g->outputs[c * p->n_outputs + i]));
        }
        for (size_t i = 0; i < p->n_inputs + p->n_states; i++) {
            bool in = i < p->n_inputs;
            size_t k = in ? i : i - p->n_inputs;
            if (in && !p->bufs[p->inputs[i].buf].changed)
                continue;
            v[*n] = (fx_vector){.name = fx_arena_printf(m, in ? "changed%zu%s" : "kept%zu%s", k, call),
                             .got = in ? fx_arena_printf(m, "now%zu", k) : fx_arena_printf(m, "state.%s", e->states[k]),
                             .what = in ? "changed input" : "state", .number = k, .io = in ? &p->inputs[k] : &p->states[k]};
            FX_TRY(set_vector(e, values, &v[(*n)++], after++));
        }
    }
    return FX_OK;
}

static void put_array(fx_text *t, const char *name, const fx_tensor *v)
{
    int64_t n = fx_tensor_numel(v);
    fx_printf(t, "static const %s %s[%lld] = {\n", fx_c_type(v->dtype), name, (long long)(n ? n : 1));
    if (n == 0)
        fx_puts(t, "    0\n");
    int64_t elements = v->dtype == FX_C64 || v->dtype == FX_C128 ? 2 * n : n;
    fx_put_elements(t, v->dtype == FX_C64 ? FX_F32 : v->dtype == FX_C128 ? FX_F64 : v->dtype, v->data, elements, "    ");
    fx_puts(t, "};\n");
}

/* Whether there are as many vectors as the program has. */
static fx_status check_counts(const fx_emit *e)
{
    const fx_golden *g = e->opt->golden;
    const fx_program *p = e->p;
    size_t after = p->n_states;
    for (size_t i = 0; i < p->n_inputs; i++)
        after += p->bufs[p->inputs[i].buf].changed;
    if (g->n_inputs != p->n_inputs || g->n_outputs != p->n_outputs || g->n_after != after)
        return fx_fail(e->ctx, FX_ERR_ARGUMENT, NULL, "golden vectors: expected %zu inputs, %zu outputs and %zu changed inputs and states, got %zu, %zu and %zu",
                       p->n_inputs, p->n_outputs, after, g->n_inputs, g->n_outputs, g->n_after);
    return FX_OK;
}

fx_status fx_golden_gather(fx_emit *e, fx_vectors *out)
{
    const fx_golden *g = e->opt->golden;
    const fx_program *p = e->p;
    FX_TRY(check_counts(e));
    out->values = FX_NEW_ARRAY(e->arena, int64_t, p->n_symbols + 1);
    out->arena_size = e->arena_size;
    if (p->n_symbols) {
        FX_TRY(fx_program_values(e->p, g->n_inputs, g->inputs, out->values));
        if (!fx_program_arena(p, out->values, &out->arena_size, NULL))
            return fx_fail(e->ctx, FX_ERR_ARGUMENT, NULL, "golden vectors: the arena's size cannot be computed for inputs of these sizes");
    }
    out->v = FX_NEW_ARRAY(e->arena, fx_vector, p->n_inputs + fx_golden_calls(e) * (p->n_outputs + g->n_after) + 1);
    FX_TRY(gather(e, out->values, out->v, &out->n));
    uint64_t size = 0;
    for (size_t i = 0; i < out->n; i++)
        size += round_up((uint64_t)fx_tensor_numel(&out->v[i].t) * fx_dtype_size(out->v[i].t.dtype));
    out->file_size = size > IN_SOURCE ? size : 0;
    return FX_OK;
}

void fx_golden_tolerances(fx_emit *e, fx_text *t)
{
    const fx_golden *g = e->opt->golden;
    fx_text number;
    fx_text_init(&number, e->arena);
    fx_puts(&number, "#ifndef RTOL\n#define RTOL ");
    fx_put_double(&number, g->rtol);
    fx_puts(&number, "\n#endif\n#ifndef ATOL\n#define ATOL ");
    fx_put_double(&number, g->atol);
    fx_puts(&number, "\n#endif\n\n");
    fx_puts(t, number.data);
}

void fx_golden_dims(fx_emit *e, fx_text *t, const fx_vectors *all)
{
    fx_printf(t, "static const %s_dims dims = {", e->prefix);
    for (size_t i = 0; i < e->p->n_symbols; i++)
        fx_printf(t, "%s.%s = %lld", i ? ", " : "", e->symbols[i], (long long)all->values[i]);
    fx_puts(t, "};\n");
}

void fx_golden_data(fx_emit *e, fx_text *t, const fx_vectors *all, const char *specifiers)
{
    if (!all->file_size) {
        fx_puts(t, "/* Inputs and expected outputs. */\n");
        for (size_t i = 0; i < all->n; i++)
            put_array(t, all->v[i].name, &all->v[i].t);
        return;
    }
    char *blob = fx_arena_alloc(e->arena, (size_t)all->file_size);
    uint64_t at = 0;
    fx_printf(t, "/* Inputs and expected outputs, from %s_golden.bin. */\n%s unsigned char golden[%llu];\n", e->prefix, specifiers,
              (unsigned long long)all->file_size);
    for (size_t i = 0; i < all->n; i++) {
        const fx_vector *v = &all->v[i];
        uint64_t bytes = (uint64_t)fx_tensor_numel(&v->t) * fx_dtype_size(v->t.dtype);
        if (bytes)
            memcpy(blob + at, v->t.data, (size_t)bytes);
        fx_printf(t, "#define %s ((const %s *)(golden + %llu))\n", v->name, fx_c_type(v->t.dtype), (unsigned long long)at);
        at += round_up(bytes);
    }
    fx_file f = {.name = fx_arena_printf(e->arena, "%s_golden.bin", e->prefix), .data = blob, .size = (size_t)all->file_size};
    FX_PUSH(e->arena, e->files, e->n_files, e->cap_files) = f;
}

/* An array that holds a result in the program. */
static void put_result(fx_text *t, const char *name, size_t i, const fx_vector *v)
{
    int64_t numel = fx_tensor_numel(&v->t) * (v->io->dtype == FX_C64 || v->io->dtype == FX_C128 ? 2 : 1);
    fx_printf(t, "static %s %s%zu[%lld];", fx_c_type(v->io->dtype), name, i, (long long)(numel > 0 ? numel : 1));
}

void fx_golden_results(fx_emit *e, fx_text *t, const fx_vectors *all)
{
    const fx_program *p = e->p;
    for (size_t i = 0; i < p->n_outputs; i++) {
        put_result(t, "got", i, &all->v[p->n_inputs + i]);
        fx_puts(t, "\n");
    }
    for (size_t i = 0; i < p->n_inputs; i++)
        if (p->bufs[p->inputs[i].buf].changed) {
            put_result(t, "now", i, &all->v[i]);
            fx_printf(t, " /* %s, which runs change */\n", e->inputs[i]);
        }
}

/* float16 and bfloat16 patterns as doubles. */
static void put_half(fx_text *t, fx_dtype d)
{
    if (d == FX_F16)
        fx_puts(t, "\nstatic double from_float16(uint16_t h)\n{\n"
                   "    const int e = h >> 10 & 31, m = h & 1023;\n"
                   "    const double v = e == 0 ? ldexp(m, -24) : e == 31 ? (m ? (double)NAN : HUGE_VAL) : ldexp(m + 1024, e - 25);\n"
                   "    return h & 0x8000 ? -v : v;\n}\n");
    else
        fx_puts(t, "\nstatic double from_bfloat16(uint16_t h)\n{\n"
                   "    const uint32_t u = (uint32_t)h << 16;\n    float f;\n    memcpy(&f, &u, sizeof f);\n    return (double)f;\n}\n");
}

static void put_float_comparison(fx_text *t, fx_dtype d)
{
    const char *name = fx_dtype_name(d), *type = fx_c_type(d);
    bool half = d == FX_F16 || d == FX_BF16;
    /* a step of the type and a few more */
    const char *rtol = d == FX_F16 ? "(RTOL > 0 && RTOL < 4e-3 ? 4e-3 : RTOL)" : d == FX_BF16 ? "(RTOL > 0 && RTOL < 3e-2 ? 3e-2 : RTOL)" : "RTOL";
    if (half)
        put_half(t, d);
    const char *convert = d == FX_F16 ? "from_float16(" : d == FX_BF16 ? "from_bfloat16(" : "(double)", *end = half ? ")" : "";
    fx_printf(t, "\n/* Prints how far got is from want; 1 when too far: max |difference| > ATOL + RTOL * max |reference|. */\n"
                 "static int compare_%s(const char *name, const %s *got, const %s *want, size_t n)\n{\n"
                 "    double most = 0, scale = 0;\n"
                 "    for (size_t i = 0; i < n; i++) {\n"
                 "        const double g = %sgot[i]%s, w = %swant[i]%s;\n"
                 "        double d = g > w ? g - w : w - g;\n"
                 "        if (g == w || (g != g && w != w))\n"
                 "            d = 0;\n"
                 "        else if (d != d)\n"
                 "            d = HUGE_VAL;\n"
                 "        if (d > most)\n"
                 "            most = d;\n"
                 "        if ((w < 0 ? -w : w) > scale && w < HUGE_VAL && w > -HUGE_VAL)\n"
                 "            scale = w < 0 ? -w : w;\n"
                 "    }\n"
                 "    const int bad = !(most <= ATOL + %s * scale);\n"
                 "    printf(\"%%s: max |difference| %%.3g, max |reference| %%.3g, ratio %%.3g: %%s\\n\", name, most, scale,\n"
                 "           scale > 0 ? most / scale : most, bad ? \"FAILED\" : \"ok\");\n"
                 "    return bad;\n}\n", name, type, type, convert, end, convert, end, rtol);
}

static void put_int_comparison(fx_text *t, fx_dtype d)
{
    fx_printf(t, "\n/* Prints how many numbers differ; 1 when any does. */\n"
                 "static int compare_%s(const char *name, const %s *got, const %s *want, size_t n)\n{\n"
                 "    size_t bad = 0;\n"
                 "    for (size_t i = 0; i < n; i++)\n"
                 "        bad += got[i] != want[i];\n"
                 "    printf(\"%%s: %%lu of %%lu differ: %%s\\n\", name, (unsigned long)bad, (unsigned long)n, bad ? \"FAILED\" : \"ok\");\n"
                 "    return bad > 0;\n}\n", fx_dtype_name(d), fx_c_type(d), fx_c_type(d));
}

/* One comparison a dtype that is compared. */
void fx_golden_comparisons(fx_text *t, size_t n, const fx_vector *v)
{
    bool done[FX_DTYPE_COUNT] = {false};
    for (size_t i = 0; i < n; i++) {
        fx_dtype d = v[i].io->dtype;
        if (done[d] || !v[i].got)
            continue;
        done[d] = true;
        if (fx_dtype_is_float(d) || d == FX_C64 || d == FX_C128)
            put_float_comparison(t, d);
        else
            put_int_comparison(t, d);
    }
}

/* Reading a whole file, for weights in NAME.bin and golden vectors in NAME_golden.bin. */
void fx_golden_reader(fx_text *t)
{
    fx_puts(t, "\n/* Reads the file name in the folder given; 0 when it has not exactly size bytes. */\n"
               "static int read_file(const char *folder, const char *name, unsigned char *to, size_t size)\n{\n"
               "    char path[1024];\n"
               "    if (strlen(folder) + strlen(name) + 2 > sizeof path)\n        return 0;\n"
               "    sprintf(path, \"%s/%s\", folder, name);\n"
               "    FILE *f = fopen(path, \"rb\");\n"
               "    if (!f) {\n        perror(path);\n        return 0;\n    }\n"
               "    const size_t n = fread(to, 1, size, f);\n"
               "    const int whole = n == size && fgetc(f) == EOF;\n"
               "    fclose(f);\n"
               "    if (!whole)\n        fprintf(stderr, \"%s: not of the expected size\\n\", path);\n"
               "    return whole;\n}\n");
}

const char *fx_golden_label(fx_emit *e, const fx_vector *v, size_t call)
{
    const char *label = v->io->label ? v->io->label : v->io->name;
    return fx_golden_calls(e) > 1 ? fx_arena_printf(e->arena, "call %zu: %s", call + 1, label) : label;
}
