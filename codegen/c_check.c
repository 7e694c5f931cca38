/* codegen/c_check.c: NAME_check.c, a program that runs the emitted model on golden vectors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* The bytes of arena in use, in the check. */
static const char *arena_macro(const fx_emit *e)
{
    return e->p->n_symbols ? "ARENA" : fx_arena_printf(e->arena, "%s_ARENA_SIZE", e->PREFIX);
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

/* One call and its comparisons. */
static void put_call(fx_emit *e, fx_text *t, size_t call, size_t n_vectors, const fx_vector *v)
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
        fx_put_c_string(t, fx_golden_label(e, &v[i], call), 60);
        fx_printf(t, ", %s, %s, %lld);\n", v[i].got, v[i].name, (long long)fx_tensor_numel(&v[i].t));
    }
}

static void put_main(fx_emit *e, fx_text *t, size_t n_vectors, const fx_vector *v, uint64_t golden_size)
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
    size_t calls = fx_golden_calls(e), a_call = (n_vectors - p->n_inputs) / calls;
    for (size_t c = 0; c < calls; c++)
        put_call(e, t, c, a_call, v + p->n_inputs + c * a_call);
    fx_printf(t, "#ifdef %s_CHECK_PAINT\n    bad |= check_paint(&ctx, inputs, outputs);\n#endif\n    return bad;\n}\n", N);
}

fx_status fx_c_check(fx_emit *e)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    fx_vectors all;
    FX_TRY(fx_golden_gather(e, &all));

    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "/* %s_check.c: runs %s.c on golden vectors; exit status 0 when all outputs are near enough. Made by fxcc.\n"
                 " * -D%s_CHECK_PAINT also checks that %s_ARENA_SIZE is what the model uses, to the byte. */\n", n, n, N, N);
    fx_printf(t, "#include <math.h>\n#include <stdio.h>\n#include <string.h>\n\n#include \"%s.h\"\n\n", n);
    fx_golden_tolerances(e, t);
    fx_printf(t, "#ifdef %s_CHECK_PAINT\n#define GUARD 4096\n#else\n#define GUARD 0\n#endif\n", N);
    if (p->n_symbols) {
        fx_puts(t, "\n/* The sizes of the vectors below, and the arena they need. */\n");
        fx_golden_dims(e, t, &all);
        fx_printf(t, "#define ARENA %llu\n", (unsigned long long)(all.arena_size ? all.arena_size : FX_WEIGHTS_ALIGN));
    }
    fx_printf(t, "static %s_ALIGNED unsigned char arena[GUARD + %s + GUARD];\n", N, arena_macro(e));
    if (e->weights == FX_WEIGHTS_BIN)
        fx_printf(t, "static %s_ALIGNED unsigned char weights[%s_WEIGHTS_SIZE];\n", N, N);
    fx_golden_results(e, t, &all);
    if (p->n_states)
        fx_printf(t, "static %s_ALIGNED %s_state_t state;\n", N, n);
    fx_puts(t, "\n");
    fx_golden_data(e, t, &all, fx_arena_printf(e->arena, "static %s_ALIGNED", N));
    fx_golden_comparisons(t, all.n, all.v);
    if (all.file_size || e->weights == FX_WEIGHTS_BIN)
        fx_golden_reader(t);
    put_paint(e, t);
    put_main(e, t, all.n, all.v, all.file_size);
    fx_emit_file(e, "_check.c", t);
    return FX_OK;
}
