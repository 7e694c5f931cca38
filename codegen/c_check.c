/* codegen/c_check.c: NAME_check.c, a program that runs the emitted model on golden vectors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* Vectors up to this many bytes are arrays in the source, which also runs where there are no files. */
enum { IN_SOURCE = 1 << 20 };

static uint64_t round_up(uint64_t n)
{
    return (n + 63) / 64 * 64;
}

/* One golden vector: an input, or what an output, a changed input or a state has to be after a call. */
typedef struct vector {
    const char *name;            /* of its array in the source: "in0", "want1", "want1_2" in the second call */
    const char *got;             /* what is compared with it; NULL: an input */
    const char *what;            /* for messages: "input" */
    size_t number;
    const fx_io *io;
    fx_tensor t;                 /* dense */
} vector;

/* Dense, and of the type the model has there with these values of the symbols. */
static fx_status set_vector(fx_emit *e, const int64_t *values, vector *v, const fx_tensor *t)
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

static size_t calls_of(const fx_emit *e)
{
    return e->opt->golden->calls ? e->opt->golden->calls : 1;
}

/* All vectors in order: the inputs; for each call the outputs, then the inputs it changes and the states. */
static fx_status gather(fx_emit *e, const int64_t *values, vector *v, size_t *n)
{
    const fx_program *p = e->p;
    const fx_golden *g = e->opt->golden;
    const fx_tensor *after = g->after;
    fx_arena *m = e->arena;
    *n = 0;
    for (size_t i = 0; i < p->n_inputs; i++) {
        v[*n] = (vector){.name = fx_arena_printf(m, "in%zu", i), .what = "input", .number = i, .io = &p->inputs[i]};
        FX_TRY(set_vector(e, values, &v[(*n)++], &g->inputs[i]));
    }
    for (size_t c = 0; c < calls_of(e); c++) {
        const char *call = c ? fx_arena_printf(m, "_%zu", c + 1) : "";
        for (size_t i = 0; i < p->n_outputs; i++) {
            v[*n] = (vector){.name = fx_arena_printf(m, "want%zu%s", i, call), .got = fx_arena_printf(m, "got%zu", i), .what = "output",
                             .number = i, .io = &p->outputs[i]};
            FX_TRY(set_vector(e, values, &v[(*n)++], &g->outputs[c * p->n_outputs + i]));
        }
        for (size_t i = 0; i < p->n_inputs + p->n_states; i++) {
            bool in = i < p->n_inputs;
            size_t k = in ? i : i - p->n_inputs;
            if (in && !p->bufs[p->inputs[i].buf].changed)
                continue;
            v[*n] = (vector){.name = fx_arena_printf(m, in ? "changed%zu%s" : "kept%zu%s", k, call),
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

/* The bytes of arena in use, in the check. */
static const char *arena_macro(const fx_emit *e)
{
    return e->p->n_symbols ? "ARENA" : fx_arena_printf(e->arena, "%s_ARENA_SIZE", e->PREFIX);
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
static void put_comparisons(fx_text *t, size_t n, const vector *v)
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
static void put_reader(fx_text *t)
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

static void put_paint(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX, *arena = arena_macro(e);
    fx_printf(t, "\n#ifdef %s_CHECK_PAINT\n"
                 "/* The highest byte of the arena that a run changes: what is left of paint in the arena, and in the guard behind it, tells.\n"
                 " * Twice, with different paint, since a run may write what the paint is. */\n"
                 "static int check_paint(%s_context *ctx, %svoid *const *inputs, void *const *outputs)\n{\n"
                 "    static const unsigned char paint[2] = {0x5a, 0xa5};\n"
                 "    size_t touched = 0, before = 0;\n"
                 "    for (int k = 0; k < 2; k++) {\n"
                 "        memset(arena, paint[k], sizeof arena);\n"
                 "        if (%s_run_v(ctx, %sinputs, outputs) != %s_OK)\n            return 1;\n"
                 "        for (size_t i = 0; i < sizeof arena; i++) {\n"
                 "            if (arena[i] == paint[k])\n                continue;\n"
                 "            if (i < GUARD)\n                before++;\n"
                 "            else if (i - GUARD + 1 > touched)\n                touched = i - GUARD + 1;\n"
                 "        }\n    }\n"
                 "    const int bad = before > 0 || touched > %s || %s - touched > 64;\n"
                 "    printf(\"arena: %%lu bytes touched of %%lu: %%s\\n\", (unsigned long)touched, (unsigned long)%s, bad ? \"FAILED\" : \"ok\");\n"
                 "    return bad;\n}\n#endif\n", N, n, fx_c_changes_inputs(e) ? "" : "const ", n, e->p->n_symbols ? "&dims, " : "", N, arena, arena, arena);
}

static const char *label_of(fx_emit *e, const vector *v, size_t call)
{
    const char *label = v->io->label ? v->io->label : v->io->name;
    return calls_of(e) > 1 ? fx_arena_printf(e->arena, "call %zu: %s", call + 1, label) : label;
}

/* One call and its comparisons. */
static void put_call(fx_emit *e, fx_text *t, size_t call, size_t n_vectors, const vector *v)
{
    const char *n = e->prefix, *N = e->PREFIX;
    if (call)
        fx_printf(t, "    status = %s_run_v(&ctx, %sinputs, outputs);\n", n, e->p->n_symbols ? "&dims, " : "");
    else
        fx_printf(t, "    if (status == %s_OK)\n        status = %s_run_v(&ctx, %sinputs, outputs);\n", N, n, e->p->n_symbols ? "&dims, " : "");
    fx_printf(t, "    if (status != %s_OK) {\n        fprintf(stderr, \"%s: %%s\\n\", %s_status_string(status));\n        return 1;\n    }\n", N, n, n);
    if (!call)
        fx_puts(t, "    int bad = 0;\n");
    for (size_t i = 0; i < n_vectors; i++) {
        fx_printf(t, "    bad |= compare_%s(", fx_dtype_name(v[i].io->dtype));
        fx_put_c_string(t, label_of(e, &v[i], call), 60);
        fx_printf(t, ", %s, %s, %lld);\n", v[i].got, v[i].name, (long long)fx_tensor_numel(&v[i].t));
    }
}

static void put_main(fx_emit *e, fx_text *t, size_t n_vectors, const vector *v, uint64_t golden_size)
{
    const char *n = e->prefix, *N = e->PREFIX;
    const fx_program *p = e->p;
    bool files = golden_size || e->weights == FX_WEIGHTS_BIN, changes = fx_c_changes_inputs(e);
    fx_printf(t, "\n%sint main(%s)\n{\n", files ? "/* Files are looked for in the current folder, or in the one that is named as argument. */\n" : "",
              files ? "int argc, char **argv" : "void");
    fx_printf(t, "    %s_context ctx;\n", n);
    if (files)
        fx_puts(t, "    const char *folder = argc > 1 ? argv[1] : \".\";\n");
    for (int k = 0; k < 2; k++) {
        size_t count = k ? p->n_outputs : p->n_inputs;
        fx_printf(t, "    %s[%zu] = {", k ? "void *const outputs" : changes ? "void *const inputs" : "const void *const inputs", count ? count : 1);
        for (size_t i = 0; i < count; i++) {
            bool now = !k && p->bufs[p->inputs[i].buf].changed;
            fx_printf(t, "%s%s%s%zu", i == 0 ? "" : i % 12 ? ", " : ",\n        ", !k && changes && !now ? "(void *)" : "", k ? "got" : now ? "now" : "in", i);
        }
        fx_puts(t, count ? "};\n" : "NULL};\n");
    }
    if (e->weights == FX_WEIGHTS_BIN)
        fx_printf(t, "    if (!read_file(folder, \"%s.bin\", weights, sizeof weights))\n        return 1;\n", n);
    if (golden_size)
        fx_printf(t, "    if (!read_file(folder, \"%s_golden.bin\", golden, sizeof golden))\n        return 1;\n", n);
    if (p->n_symbols)
        fx_printf(t, "    if (%s_arena_size(&dims) > ARENA) {\n        fprintf(stderr, \"%s: the arena is larger than planned\\n\");\n        return 1;\n    }\n", n, n);
    for (size_t i = 0; i < p->n_inputs; i++)
        if (p->bufs[p->inputs[i].buf].changed && fx_tensor_numel(&v[i].t))
            fx_printf(t, "    memcpy(now%zu, in%zu, sizeof now%zu);\n", i, i, i);
    fx_printf(t, "    int status = %s_init(&ctx, %s, arena + GUARD, %s%s);\n", n,
              e->weights == FX_WEIGHTS_BIN ? "weights, sizeof weights" : fx_arena_printf(e->arena, "%s_weights, sizeof %s_weights", n, n),
              arena_macro(e), p->n_states ? ", &state, sizeof state" : "");
    if (p->n_states)
        fx_printf(t, "    if (status == %s_OK)\n        status = %s_state_init(&ctx);\n", N, n);
    size_t calls = calls_of(e), a_call = (n_vectors - p->n_inputs) / calls;
    for (size_t c = 0; c < calls; c++)
        put_call(e, t, c, a_call, v + p->n_inputs + c * a_call);
    fx_printf(t, "#ifdef %s_CHECK_PAINT\n    bad |= check_paint(&ctx, inputs, outputs);\n#endif\n    return bad;\n}\n", N);
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

fx_status fx_c_check(fx_emit *e)
{
    const fx_golden *g = e->opt->golden;
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    FX_TRY(check_counts(e));
    int64_t *values = FX_NEW_ARRAY(e->arena, int64_t, p->n_symbols + 1);
    uint64_t arena_size = e->arena_size;
    if (p->n_symbols) {
        FX_TRY(fx_program_values(e->p, g->n_inputs, g->inputs, values));
        if (!fx_program_arena(p, values, &arena_size, NULL))
            return fx_fail(e->ctx, FX_ERR_ARGUMENT, NULL, "golden vectors: the arena's size cannot be computed for inputs of these sizes");
    }
    size_t total = p->n_inputs + calls_of(e) * (p->n_outputs + g->n_after);
    vector *v = FX_NEW_ARRAY(e->arena, vector, total + 1);
    uint64_t size = 0;
    FX_TRY(gather(e, values, v, &total));
    for (size_t i = 0; i < total; i++)
        size += round_up((uint64_t)fx_tensor_numel(&v[i].t) * fx_dtype_size(v[i].t.dtype));
    bool in_file = size > IN_SOURCE;

    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "/* %s_check.c: runs %s.c on golden vectors; exit status 0 when all outputs are near enough. Made by fxcc.\n"
                 " * -D%s_CHECK_PAINT also checks that %s_ARENA_SIZE is what the model uses, to the byte. */\n", n, n, N, N);
    fx_printf(t, "#include <math.h>\n#include <stdio.h>\n#include <string.h>\n\n#include \"%s.h\"\n\n", n);
    fx_text number;
    fx_text_init(&number, e->arena);
    fx_puts(&number, "#ifndef RTOL\n#define RTOL ");
    fx_put_double(&number, g->rtol);
    fx_puts(&number, "\n#endif\n#ifndef ATOL\n#define ATOL ");
    fx_put_double(&number, g->atol);
    fx_puts(&number, "\n#endif\n\n");
    fx_puts(t, number.data);
    fx_printf(t, "#ifdef %s_CHECK_PAINT\n#define GUARD 4096\n#else\n#define GUARD 0\n#endif\n", N);
    if (p->n_symbols) {
        fx_printf(t, "\n/* The sizes of the vectors below, and the arena they need. */\nstatic const %s_dims dims = {", n);
        for (size_t i = 0; i < p->n_symbols; i++)
            fx_printf(t, "%s.%s = %lld", i ? ", " : "", e->symbols[i], (long long)values[i]);
        fx_printf(t, "};\n#define ARENA %llu\n", (unsigned long long)(arena_size ? arena_size : FX_WEIGHTS_ALIGN));
    }
    fx_printf(t, "static %s_ALIGNED unsigned char arena[GUARD + %s + GUARD];\n", N, arena_macro(e));
    if (e->weights == FX_WEIGHTS_BIN)
        fx_printf(t, "static %s_ALIGNED unsigned char weights[%s_WEIGHTS_SIZE];\n", N, N);
    for (size_t i = 0; i < p->n_outputs; i++) {
        int64_t numel = fx_tensor_numel(&v[p->n_inputs + i].t) * (p->outputs[i].dtype == FX_C64 || p->outputs[i].dtype == FX_C128 ? 2 : 1);
        fx_printf(t, "static %s got%zu[%lld];\n", fx_c_type(p->outputs[i].dtype), i, (long long)(numel > 0 ? numel : 1));
    }
    for (size_t i = 0; i < p->n_inputs; i++)
        if (p->bufs[p->inputs[i].buf].changed) {
            int64_t numel = fx_tensor_numel(&v[i].t);
            fx_printf(t, "static %s now%zu[%lld]; /* %s, which runs change */\n", fx_c_type(p->inputs[i].dtype), i, (long long)(numel > 0 ? numel : 1), e->inputs[i]);
        }
    if (p->n_states)
        fx_printf(t, "static %s_ALIGNED %s_state_t state;\n", N, n);
    fx_puts(t, "\n");
    if (in_file) {
        char *blob = fx_arena_alloc(e->arena, (size_t)size);
        uint64_t at = 0;
        fx_printf(t, "/* Inputs and expected outputs, from %s_golden.bin. */\nstatic %s_ALIGNED unsigned char golden[%llu];\n", n, N,
                  (unsigned long long)size);
        for (size_t i = 0; i < total; i++) {
            uint64_t bytes = (uint64_t)fx_tensor_numel(&v[i].t) * fx_dtype_size(v[i].t.dtype);
            if (bytes)
                memcpy(blob + at, v[i].t.data, (size_t)bytes);
            fx_printf(t, "#define %s ((const %s *)(golden + %llu))\n", v[i].name, fx_c_type(v[i].t.dtype), (unsigned long long)at);
            at += round_up(bytes);
        }
        fx_file f = {.name = fx_arena_printf(e->arena, "%s_golden.bin", n), .data = blob, .size = (size_t)size};
        FX_PUSH(e->arena, e->files, e->n_files, e->cap_files) = f;
    } else {
        fx_puts(t, "/* Inputs and expected outputs. */\n");
        for (size_t i = 0; i < total; i++)
            put_array(t, v[i].name, &v[i].t);
    }
    put_comparisons(t, total, v);
    if (in_file || e->weights == FX_WEIGHTS_BIN)
        put_reader(t);
    put_paint(e, t);
    put_main(e, t, total, v, in_file ? size : 0);
    fx_emit_file(e, "_check.c", t);
    return FX_OK;
}
