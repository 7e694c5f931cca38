/* codegen/c_host.c: NAME.h, the contract, and NAME.c: kernels, steps, init and run.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* ---- NAME.h ------------------------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static void put_ios(fx_emit *e, fx_text *t, const char *what, const fx_io *io, size_t n, const char **names)
{
    for (size_t i = 0; i < n; i++) {
        bool changed = e->p->bufs[io[i].buf].changed;
        fx_printf(t, " *   %s %zu: %s %s ", what, i, fx_dtype_name(io[i].dtype), names[i]);
        fx_put_dims(e, t, io[i].rank, io[i].dims, "x");
        if (io[i].label && strcmp(io[i].label, names[i]) != 0) {
            fx_puts(t, ", '");
            fx_put_comment(t, io[i].label, 80);
            fx_puts(t, "'");
        }
        fx_puts(t, changed ? ", read and written\n" : "\n");
    }
}

static void put_macros(fx_emit *e, fx_text *t, const char *what, const fx_io *io, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fx_dim numel = fx_dim_of(1);
        for (int d = 0; d < io[i].rank; d++)
            numel = fx_dim_mul(e->ctx, numel, io[i].dims[d]);
        const char *of = fx_dim_known(numel) ? "" : "(dims)";
        e->symbol_prefix = "(dims)->";
        fx_printf(t, "#define %s_%s%zu_NUMEL%s %s\n", e->PREFIX, what, i, of, fx_dim_known(numel) ? fx_c_dim(e, numel) : fx_c_factor(e, numel));
        fx_printf(t, "#define %s_%s%zu_RANK %d\n", e->PREFIX, what, i, io[i].rank);
        if (io[i].rank > 0) {
            for (int d = 0; d < io[i].rank; d++)
                of = fx_dim_known(io[i].dims[d]) ? of : "(dims)"; /* of 0 elements, but not of one shape */
            fx_printf(t, "#define %s_%s%zu_SHAPE%s {", e->PREFIX, what, i, of);
            fx_put_dims(e, t, io[i].rank, io[i].dims, ", ");
            fx_puts(t, "}\n");
        }
        e->symbol_prefix = NULL;
    }
}

void fx_c_put_io_macros(fx_emit *e, fx_text *t)
{
    fx_printf(t, "#define %s_INPUTS %zu\n#define %s_OUTPUTS %zu\n", e->PREFIX, e->p->n_inputs, e->PREFIX, e->p->n_outputs);
    put_macros(e, t, "IN", e->p->inputs, e->p->n_inputs);
    put_macros(e, t, "OUT", e->p->outputs, e->p->n_outputs);
}

/* ", const net_dims *dims" in the heads of functions that depend on sizes. */
static const char *dims_param(const fx_emit *e)
{
    return e->p->n_symbols ? fx_arena_printf(e->arena, ", const %s_dims *dims", e->prefix) : "";
}

void fx_c_call_head(fx_emit *e, fx_text *t, const char *function, const char *last)
{
    const fx_program *p = e->p;
    fx_text line;
    fx_text_init(&line, e->arena);
    fx_printf(&line, "int %s_%s(%s%s_context *ctx%s", e->prefix, function, e->say->context, e->prefix, dims_param(e));
    size_t size = line.size;
    for (size_t i = 0; i < p->n_inputs + p->n_outputs; i++) {
        bool in = i < p->n_inputs;
        const fx_io *io = in ? &p->inputs[i] : &p->outputs[i - p->n_inputs];
        const char *one = fx_arena_printf(e->arena, "%s%s *%s", in && !p->bufs[io->buf].changed ? "const " : "", fx_c_type(io->dtype),
                                          in ? e->inputs[i] : e->outputs[i - p->n_inputs]);
        bool wrap = size + strlen(one) > 106;
        fx_printf(&line, ",%s%s", wrap ? "\n        " : " ", one);
        size = (wrap ? 8 : size + 2) + strlen(one);
    }
    fx_printf(t, "%s%s)", line.data, last);
}

void fx_c_run_head(fx_emit *e, fx_text *t)
{
    fx_c_call_head(e, t, "run", e->say->stream);
}

void fx_c_run_v_head(fx_emit *e, fx_text *t)
{
    fx_printf(t, "int %s_run_v(%s%s_context *ctx%s, %svoid *const *inputs, void *const *outputs%s)", e->prefix, e->say->context, e->prefix, dims_param(e),
              fx_c_changes_inputs(e) ? "" : "const ", e->say->stream);
}

static void put_init_head(fx_emit *e, fx_text *t)
{
    fx_printf(t, "int %s_init(%s_context *ctx, const void *weights, size_t weights_size, void *arena, size_t arena_size%s)", e->prefix, e->prefix,
              e->p->n_states ? ",\n        void *state, size_t state_size" : "");
}

static const struct {
    const char *name, *text;
} statuses[] = {
    {"OK", "ok"},
    {"ERR_NULL", "a pointer is NULL"},
    {"ERR_SIZE", "the weights have not the size of this model's, or the arena is too small"},
    {"ERR_ALIGN", "the arena or the weights are not aligned to 64 bytes, or an input or output not to its type"},
    {"ERR_WEIGHTS", "these are not the weights of this model, or they are in another byte order"},
    {"ERR_RUNTIME", "the linked libfxrt has another ABI version than this code"},
};
enum { N_STATUSES = sizeof statuses / sizeof statuses[0] };

/* The same where there is state, which must be large enough and aligned, too. */
static const char *status_text(const fx_emit *e, int i)
{
    bool size = strcmp(statuses[i].name, "ERR_SIZE") == 0, align = strcmp(statuses[i].name, "ERR_ALIGN") == 0;
    if (!e->p->n_states || (!size && !align))
        return statuses[i].text;
    return size ? "the weights have not the size of this model's, or the arena or the state is too small"
                : "the arena, the state or the weights are not aligned to 64 bytes, or an input or output not to its type";
}

static const char *weights_argument(const fx_emit *e)
{
    return e->weights == FX_WEIGHTS_BIN ? fx_arena_printf(e->arena, "weights, sizeof weights")
                                        : fx_arena_printf(e->arena, "%s_weights, sizeof %s_weights", e->prefix, e->prefix);
}

static void put_usage(fx_emit *e, fx_text *t)
{
    const char *p = e->prefix, *P = e->PREFIX;
    if (!e->p->n_symbols || e->finite_arena)
        fx_printf(t, " *\n * Use:\n *   static %s_ALIGNED unsigned char arena[%s_ARENA_SIZE];\n", P, P);
    else
        fx_printf(t, " *\n * Use:\n *   void *arena = ...; // a block of arena_size bytes, aligned to %s_ARENA_ALIGN\n", P);
    if (e->weights == FX_WEIGHTS_BIN)
        fx_printf(t, " *   static %s_ALIGNED unsigned char weights[%s_WEIGHTS_SIZE]; // the content of %s.bin, read or mapped\n", P, P, p);
    if (e->p->n_states)
        fx_printf(t, " *   static %s_ALIGNED %s_state_t state;\n", P, p);
    fx_printf(t, " *   %s_context ctx;\n", p);
    if (e->p->n_symbols) {
        fx_printf(t, " *   const %s_dims dims = {", p);
        for (size_t i = 0; i < e->p->n_symbols; i++)
            fx_printf(t, "%s.%s = %lld", i ? ", " : "", e->symbols[i], (long long)e->p->symbols[i].min);
        fx_puts(t, "};\n");
    }
    const char *size = !e->p->n_symbols || e->finite_arena ? "sizeof arena" : "arena_size";
    if (*size == 'a')
        fx_printf(t, " *   const size_t arena_size = %s_arena_size(&dims);\n", p);
    fx_printf(t, " *   int status = %s_init(&ctx, %s, arena, %s%s);\n", p, weights_argument(e), size, e->p->n_states ? ", &state, sizeof state" : "");
    if (e->p->n_states)
        fx_printf(t, " *   if (status == %s_OK)\n *       status = %s_state_init(&ctx); // once, before the first run\n", P, p);
    fx_printf(t, " *   if (status == %s_OK)\n *       status = %s_run(&ctx%s", P, p, e->p->n_symbols ? ", &dims" : "");
    for (size_t i = 0; i < e->p->n_inputs && i < 4; i++)
        fx_printf(t, ", %s", e->inputs[i]);
    fx_puts(t, e->p->n_inputs > 4 ? ", ..." : "");
    for (size_t i = 0; i < e->p->n_outputs && i < 4; i++)
        fx_printf(t, ", %s", e->outputs[i]);
    fx_puts(t, e->p->n_outputs > 4 ? ", ...);\n" : ");\n");
    fx_printf(t, " *   if (status != %s_OK)\n *       puts(%s_status_string(status));\n", P, p);
}

void fx_c_put_title(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_printf(t, "/* %s.h: ", e->prefix);
    fx_put_comment(t, p->name, 120);
    if (p->file) {
        fx_puts(t, ", from ");
        fx_put_comment(t, base_name(p->file), 120);
    }
    fx_puts(t, ". Made by fxcc for ");
    fx_put_comment(t, p->target.name ? p->target.name : "generic", 60);
    fx_puts(t, ".\n *\n");
    put_ios(e, t, "input ", p->inputs, p->n_inputs, e->inputs);
    put_ios(e, t, "output", p->outputs, p->n_outputs, e->outputs);
    put_ios(e, t, "state ", p->states, p->n_states, e->states);
}

void fx_c_put_reasons(fx_emit *e, fx_text *t)
{
    for (size_t i = 0; i < e->n_reasons; i++) {
        fx_printf(t, "    %s = %zu%s /* ", e->reasons[i].name, FX_FIRST_REASON + i, i + 1 < e->n_reasons ? "," : "");
        fx_put_comment(t, e->reasons[i].text, 200);
        fx_puts(t, " */\n");
    }
}

fx_status fx_c_header(fx_emit *e)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);

    fx_c_put_title(e, t);
    fx_puts(t, " * Tensors are dense and row-major, in torch's order of dimensions. They must not overlap each other or the arena.\n");
    put_usage(e, t);
    if (p->n_states)
        fx_printf(t, " *\n * State is what one run leaves for the next; it belongs to the context as the arena does, but must be kept between runs. Its\n"
                     " * members may be read, saved and set between runs. %s_state_init gives it the values it begins with.\n", n);
    fx_printf(t, " *\n * Nothing is allocated and nothing global changes. The arena belongs to the context: %s_run works in it and leaves nothing\n"
                 " * there. Any number of contexts may share the weights; threads that run at once need a context and an arena each. */\n", n);
    fx_printf(t, "#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n", N, N);
    fx_puts(t, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");

    if (!p->n_symbols)
        fx_printf(t, "#define %s_ARENA_SIZE %llu\n", N, (unsigned long long)e->arena_size);
    else if (e->finite_arena)
        fx_printf(t, "#define %s_ARENA_SIZE %llu /* with the largest sizes; %s_arena_size() says what others need */\n", N,
                  (unsigned long long)e->arena_size, n);
    fx_printf(t, "#define %s_ARENA_ALIGN %d\n", N, FX_WEIGHTS_ALIGN);
    fx_printf(t, "#define %s_WEIGHTS_SIZE %llu\n", N, (unsigned long long)e->weights_size);
    if (p->n_states)
        fx_printf(t, "#define %s_STATE_SIZE %llu\n#define %s_STATES %zu\n", N, (unsigned long long)p->state_size, N, p->n_states);
    fx_printf(t, "#define %s_STACK_SIZE %llu /* the most stack %s_run takes, the C library's functions aside */\n", N,
              (unsigned long long)e->stack_size, n);
    fx_c_put_io_macros(e, t);
    fx_puts(t, "\n");

    fx_puts(t, "/* Before a definition: aligned as the arena and the weights must be. */\n");
    fx_printf(t, "#if defined(__GNUC__)\n#define %s_ALIGNED __attribute__((aligned(%d)))\n"
                 "#elif defined(__cplusplus)\n#define %s_ALIGNED alignas(%d)\n"
                 "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n#define %s_ALIGNED _Alignas(%d)\n#else\n"
                 "#define %s_ALIGNED\n#endif\n\n", N, FX_WEIGHTS_ALIGN, N, FX_WEIGHTS_ALIGN, N, FX_WEIGHTS_ALIGN, N);

    fx_puts(t, "/* What the functions return. */\nenum {\n");
    for (int i = 0; i < N_STATUSES; i++)
        fx_printf(t, "    %s_%s = %d%s /* %s */\n", N, statuses[i].name, i, i + 1 < N_STATUSES || e->n_reasons ? "," : "", status_text(e, i));
    fx_c_put_reasons(e, t);
    fx_puts(t, "};\n\n");

    if (p->n_symbols)
        fx_c_sizes_header(e, t);
    fx_c_state_header(e, t);
    fx_printf(t, "/* Filled by %s_init; its members are not for use. */\ntypedef struct %s_context {\n    const void *weights;\n"
                 "    void *arena;\n%s%s} %s_context;\n\n", n, n, p->n_symbols ? "    size_t arena_size;\n" : "", p->n_states ? "    void *state;\n" : "", n);
    fx_printf(t, "/* Checks what it is given and makes a context of it. %s blocks must stay as long as the context is used. */\n",
              p->n_states ? "The" : "Both");
    put_init_head(e, t);
    fx_puts(t, ";\n\n");
    if (p->n_states)
        fx_printf(t, "/* Gives the context's state the values it begins with. Before the first run, and to start afresh. */\n"
                     "int %s_state_init(const %s_context *ctx);\n\n", n, n);
    fx_puts(t, fx_c_changes_inputs(e) ? "/* Computes the outputs, and new values of the inputs that are no pointers to const. */\n" : "/* Computes the outputs. */\n");
    fx_c_run_head(e, t);
    fx_puts(t, ";\n\n");
    fx_printf(t, "/* The same with arrays of pointers: %s_INPUTS inputs, %s_OUTPUTS outputs. */\n", N, N);
    fx_c_run_v_head(e, t);
    fx_puts(t, ";\n\n");
    fx_printf(t, "/* What a status means. Never NULL. */\nconst char *%s_status_string(int status);\n", n);
    fx_c_weights_struct(e, t);
    if (e->weights != FX_WEIGHTS_BIN)
        fx_printf(t, "\n/* In %s_weights.c. */\nextern const %s_weights_t %s_weights[1];\n", n, n, n);
    fx_puts(t, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    fx_emit_file(e, ".h", t);
    return FX_OK;
}

/* ---- NAME.c -------------------------------------------------------------------------------------------------- */

/* Checks of what the compiler was told about the target, by the flag that brings it. */
static void put_target_check(fx_emit *e, fx_text *t)
{
    const char *isa = e->p->target.isa ? e->p->target.isa : "generic";
    const char *condition = strcmp(isa, "avx512") == 0 ? "!defined(__AVX512F__) || !defined(__FMA__)"
                            : strcmp(isa, "avx2") == 0 ? "!defined(__AVX2__) || !defined(__FMA__)"
                            : strcmp(isa, "neon") == 0 ? "!defined(__aarch64__)" : NULL;
    if (!condition)
        return;
    fx_printf(t, "#if %s\n#error \"this file is for ", condition);
    fx_put_comment(t, e->p->target.name, 60);
    if (e->p->target.cflags && *e->p->target.cflags) {
        fx_puts(t, ": compile it with ");
        fx_put_comment(t, e->p->target.cflags, 120);
    }
    fx_puts(t, "\"\n#endif\n\n");
}

static void put_prologue(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    fx_printf(t, "/* %s.c: ", n);
    fx_put_comment(t, e->p->name, 120);
    fx_puts(t, ". Made by fxcc");
    fx_printf(t, "; see %s.h.\n * Contains kernels of fxcc's runtime, under the Apache License v2.0 with LLVM Exceptions: no notice is due in a product. */\n"
                 "#include \"%s.h\"\n\n#include <math.h>\n#include <string.h>\n\n", n, n);
    fx_puts(t, "/* Every operation rounds on its own, as in PyTorch; kernels fuse multiply and add where they say so. */\n"
               "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n#elif defined(__GNUC__)\n"
               "#pragma GCC optimize(\"fp-contract=off\")\n#endif\n\n");
    put_target_check(e, t);
    fx_printf(t, "typedef char %s_weights_size_check[sizeof(%s_weights_t) == %s_WEIGHTS_SIZE ? 1 : -1];\n", n, n, N);
    if (e->parallel)
        fx_printf(t, "\n/* Iterations are independent. */\n#if defined(_OPENMP)\n#define %s_PARALLEL _Pragma(\"omp parallel for schedule(static)\")\n"
                     "#else\n#define %s_PARALLEL\n#endif\n", N, N);
    if (e->vector || e->both)
        fx_printf(t, "\n/* Each iteration writes only what it alone reads. */\n#if defined(__clang__)\n"
                     "#pragma clang diagnostic ignored \"-Wpass-failed\" /* not every loop is worth it */\n"
                     "#define %s_VECTOR _Pragma(\"clang loop vectorize(assume_safety)\")\n#elif defined(__GNUC__)\n"
                     "#define %s_VECTOR _Pragma(\"GCC ivdep\")\n#else\n#define %s_VECTOR\n#endif\n", N, N, N);
    if (e->both)
        fx_printf(t, "\n/* Both at once. */\n#if defined(_OPENMP)\n#define %s_PARALLEL_VECTOR _Pragma(\"omp parallel for simd schedule(static)\")\n"
                     "#else\n#define %s_PARALLEL_VECTOR %s_VECTOR\n#endif\n", N, N, N);
    if (e->unrolled)
        fx_printf(t, "\n/* Wholly unrolled, so that small arrays stay in registers. */\n#if defined(__GNUC__)\n"
                     "#define %s_UNROLL _Pragma(\"GCC unroll 64\")\n#else\n#define %s_UNROLL\n#endif\n", N, N);
    bool checks = false;
    for (size_t i = 0; i < e->p->n_steps; i++)
        checks |= e->facts[i].checks > 0;
    if (checks)
        fx_printf(t, "\n/* Notes why the run fails; several threads may do so at once. */\n#if defined(_OPENMP)\n"
                     "#define %s_FAIL(reason) do { _Pragma(\"omp atomic write\") status = (reason); } while (0)\n#else\n"
                     "#define %s_FAIL(reason) (status = (reason))\n#endif\n", N, N);
}

/* A model may well ask whether an unsigned number is below zero, or equals itself. */
void fx_c_put_silence(fx_emit *e, fx_text *t)
{
    if (!e->int_compares)
        return;
    fx_puts(t, "\n/* Comparisons are the model's, also those that always hold. */\n#if defined(__clang__)\n"
               "#pragma clang diagnostic ignored \"-Wtautological-compare\"\n#elif defined(__GNUC__)\n"
               "#pragma GCC diagnostic ignored \"-Wtautological-compare\"\n#pragma GCC diagnostic ignored \"-Wtype-limits\"\n"
               "#pragma GCC diagnostic ignored \"-Wbool-compare\"\n#pragma GCC diagnostic ignored \"-Wbool-operation\"\n"
               "#pragma GCC diagnostic ignored \"-Wsign-compare\" /* of promoted bytes */\n#endif\n");
}

/* Conversions that C leaves undefined out of range; here as the usual hardware, hence torch, does them. */
static void put_conversions(fx_emit *e, fx_text *t)
{
    static const struct {
        fx_dtype dtype;
        const char *name, *type, *limit, *least;
    } conversion[] = {{FX_I32, "i32", "int32_t", "2147483648.0", "INT32_MIN"}, {FX_I64, "i64", "int64_t", "9223372036854775808.0", "INT64_MIN"}};
    for (int i = 0; i < 2; i++) {
        if (e->casts[conversion[i].dtype])
            fx_printf(t, "\n/* Toward zero; what does not fit, and NaN, becomes the least integer, as on x86. */\nstatic %s %s_to_%s(double x)\n{\n"
                         "    %s i = x > -%s - 1 && x < %s ? (%s)x : %s;\n"
                         "#if defined(__clang__) /* 14 takes the bits of floats for integers where it turns loops that narrow these into vectors */\n"
                         "    __asm__(\"\" : \"+r\"(i));\n#endif\n    return i;\n}\n", conversion[i].type, e->prefix, conversion[i].name,
                      conversion[i].type, conversion[i].limit, conversion[i].limit, conversion[i].type, conversion[i].least);
    }
}

static void put_init(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    bool state = e->p->n_states > 0;
    fx_puts(t, "\n/* ---- the interface ---- */\n\n");
    put_init_head(e, t);
    fx_puts(t, "\n{\n");
    fx_puts(t, "    static const uint8_t model[8] = {");
    for (int i = 0; i < 8; i++)
        fx_printf(t, "%s%d", i ? ", " : "", e->hash[i]);
    fx_printf(t, "};\n    const %s_weights_t *w = (const %s_weights_t *)weights;\n", n, n);
    fx_printf(t, "    if (!ctx || !weights || !arena%s)\n        return %s_ERR_NULL;\n", state ? " || !state" : "", N);
    if (state)
        fx_printf(t, "    if (state_size < %s_STATE_SIZE)\n        return %s_ERR_SIZE;\n", N, N);
    if (e->p->n_symbols)
        fx_printf(t, "    if (weights_size != %s_WEIGHTS_SIZE)\n        return %s_ERR_SIZE;\n", N, N);
    else
        fx_printf(t, "    if (weights_size != %s_WEIGHTS_SIZE || arena_size < %s_ARENA_SIZE)\n        return %s_ERR_SIZE;\n", N, N, N);
    fx_printf(t, "    if (((uintptr_t)weights | (uintptr_t)arena%s) %% %s_ARENA_ALIGN != 0)\n        return %s_ERR_ALIGN;\n", state ? " | (uintptr_t)state" : "", N, N);
    fx_printf(t, "    if (memcmp(w->magic, \"%s\", 8) != 0 || w->byte_order != 0x01020304 || w->version != %d ||\n"
                 "        w->size != %s_WEIGHTS_SIZE || memcmp(w->model, model, 8) != 0)\n        return %s_ERR_WEIGHTS;\n",
              FX_WEIGHTS_MAGIC, FX_WEIGHTS_VERSION, N, N);
    bool any = false;
    for (int k = 0; k < FX_K_COUNT; k++)
        any |= e->kernels[k];
    if (e->opt->link_runtime && any)
        fx_printf(t, "    if (fxrt_abi_version() != FXRT_ABI_VERSION)\n        return %s_ERR_RUNTIME;\n", N);
    fx_printf(t, "    ctx->weights = weights;\n    ctx->arena = arena;\n%s%s    return %s_OK;\n}\n",
              e->p->n_symbols ? "    ctx->arena_size = arena_size;\n" : "", state ? "    ctx->state = state;\n" : "", N);
}

static size_t align_of(fx_dtype dtype)
{
    size_t n = fx_dtype_size(dtype);
    return dtype == FX_C64 || dtype == FX_C128 ? n / 2 : n;
}

/* The checks of pointers: all NULL tests in one condition, alignments grouped by type size. */
static void put_run_checks(fx_emit *e, fx_text *t, const char *missing)
{
    const fx_program *p = e->p;
    size_t total = p->n_inputs + p->n_outputs;
    fx_printf(t, "    if (%s%s", missing, e->p->n_symbols ? " || !dims" : "");
    for (size_t i = 0; i < total; i++)
        fx_printf(t, "%s!%s", i % 8 == 0 ? " ||\n        " : " || ", i < p->n_inputs ? e->inputs[i] : e->outputs[i - p->n_inputs]);
    fx_printf(t, ")\n        return %s_ERR_NULL;\n", e->PREFIX);
    for (size_t align = 2; align <= 8; align *= 2) {
        size_t n = 0;
        for (size_t i = 0; i < total; i++) {
            const fx_io *io = i < p->n_inputs ? &p->inputs[i] : &p->outputs[i - p->n_inputs];
            if (align_of(io->dtype) != align)
                continue;
            const char *name = i < p->n_inputs ? e->inputs[i] : e->outputs[i - p->n_inputs];
            fx_printf(t, "%s(uintptr_t)%s", n == 0 ? "    if ((" : n % 4 == 0 ? " |\n         " : " | ", name);
            n++;
        }
        if (n)
            fx_printf(t, ") %% %zu != 0)\n        return %s_ERR_ALIGN;\n", align, e->PREFIX);
    }
}

/* Checks the sizes, and finds where the slots of the arena start. */
static void put_run_sizes(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    const char *n = e->prefix;
    bool checks = false;
    for (size_t i = 0; i < p->n_steps; i++)
        checks |= e->facts[i].checks > 0;
    if (!p->n_symbols) {
        if (checks)
            fx_puts(t, "    int status;\n");
        return;
    }
    fx_printf(t, "    %sint status = %s_check_dims(dims);\n    if (status != %s_OK)\n        return status;\n", checks ? "" : "const ", n, e->PREFIX);
    fx_printf(t, "    uint64_t at[%zu];\n    %s_slots(dims, at);\n    if (ctx->arena_size < at[%zu])\n        return %s_ERR_SIZE;\n", p->n_slots + 1, n,
              p->n_slots, e->PREFIX);
}

/* Whether a step names the buffer: others need no pointer in NAME_run. */
static void mark_used(fx_emit *e, bool *used, bool *weights)
{
    for (size_t s = 0; s < e->p->n_steps; s++) {
        *weights |= e->facts[s].weights;
        for (size_t i = 0; i < e->facts[s].n_params; i++)
            used[e->facts[s].params[i].buf] = true;
    }
}

/* An output that is not written by steps under its own name: an input, weight or other output returned as it is. */
bool fx_c_needs_copy(const fx_program *p, size_t output)
{
    const fx_buf *b = &p->bufs[p->outputs[output].buf];
    return b->kind != FX_BUF_OUTPUT || b->io != (int)output;
}

void fx_c_run_begin(fx_emit *e, fx_text *t, const char *missing)
{
    const fx_program *p = e->p;
    const char *n = e->prefix;
    bool *used = FX_NEW_ARRAY(e->arena, bool, p->n_bufs + 1), *symbols = FX_NEW_ARRAY(e->arena, bool, e->n_sizes + 1), weights = false;
    mark_used(e, used, &weights);
    for (size_t s = 0; s < p->n_steps; s++)
        for (size_t i = 0; i < p->n_symbols; i++)
            symbols[i] |= e->facts[s].symbols[i];
    for (size_t i = 0; i < p->n_outputs; i++) {
        if (fx_c_needs_copy(p, i)) {
            used[p->outputs[i].buf] = true;
            (void)fx_c_scan_dim(e, p->bufs[p->outputs[i].buf].numel, symbols); /* has a spelling: fx_c_scan_sizes */
            weights |= p->bufs[p->outputs[i].buf].kind == FX_BUF_WEIGHT;
        }
    }
    if (e->say->gpu)
        fx_cuda_grid_sizes(e, symbols);
    fx_puts(t, "\n");
    fx_c_run_head(e, t);
    fx_puts(t, "\n{\n");
    if (e->say->gpu) {
        fx_cuda_run_checks(e, t);
    } else {
        put_run_checks(e, t, missing);
        put_run_sizes(e, t);
    }
    if (p->n_symbols)
        fx_c_size_locals(e, t, "ptrdiff_t", symbols);
    if (weights)
        fx_printf(t, "    const %s_weights_t *weights = (const %s_weights_t *)ctx->weights;\n", n, n);
    bool arena = false;
    for (size_t i = 0; i < p->n_bufs; i++)
        arena |= used[i] && p->bufs[i].kind == FX_BUF_ARENA;
    if (arena)
        fx_puts(t, "    unsigned char *arena = (unsigned char *)ctx->arena;\n");
    fx_c_state_pointers(e, t, used);
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (used[i] && b->kind == FX_BUF_COUNTER)
            fx_printf(t, "    int32_t *const %s = ctx->counters + %llu; /* %lld, zero between runs */\n", e->bufs[i], (unsigned long long)b->offset / sizeof(int32_t),
                      (long long)b->numel.value);
        if (!used[i] || b->kind != FX_BUF_ARENA)
            continue;
        const char *offset = b->slot >= 0 ? fx_arena_printf(e->local, "at[%d]", b->slot) : fx_arena_printf(e->local, "%llu", (unsigned long long)b->offset);
        fx_printf(t, "    %s *const %s = (%s *)(arena + %s);", fx_c_type(b->dtype), e->bufs[i], fx_c_type(b->dtype), offset);
        if (b->workspace) {
            fx_puts(t, " /* workspace */\n");
        } else {
            fx_puts(t, " /* ");
            fx_put_dims(e, t, b->rank, b->dims, "x");
            fx_puts(t, " */\n");
        }
        fx_emit_done(e);
    }
}

static void put_run(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_c_run_begin(e, t, p->n_states ? "!ctx || !ctx->weights || !ctx->arena || !ctx->state" : "!ctx || !ctx->weights || !ctx->arena");
    fx_puts(t, "\n");
    for (size_t s = 0; s < p->n_steps; s++) {
        const fx_step_facts *f = &e->facts[s];
        fx_text line;
        fx_text_init(&line, e->local);
        fx_printf(&line, f->checks ? "    if ((status = %s(" : "    %s(", e->steps[s]);
        bool first = true;
        for (size_t i = 0; i < p->n_symbols; i++) {
            if (f->symbols[i])
                fx_printf(&line, "%s%s", first ? "" : ", ", e->symbols[i]);
            first &= !f->symbols[i];
        }
        if (f->weights)
            fx_puts(&line, first ? "weights" : ", weights");
        first &= !f->weights;
        size_t size = line.size;
        for (size_t i = 0; i < f->n_params; i++) {
            const char *name = e->bufs[f->params[i].buf];
            bool wrap = !first && size + strlen(name) > 108;
            fx_printf(&line, "%s%s", first ? "" : wrap ? ",\n            " : ", ", name);
            size = (wrap ? 12 : size + 2) + strlen(name);
            first = false;
        }
        if (f->checks)
            fx_printf(t, "%s)) != %s_OK)\n        return status;\n", line.data, e->PREFIX);
        else
            fx_printf(t, "%s);\n", line.data);
        fx_emit_done(e);
    }
    for (size_t i = 0; i < p->n_outputs; i++) {
        const fx_buf *b = &p->bufs[p->outputs[i].buf];
        if (!fx_c_needs_copy(p, i) || fx_dim_is(b->numel, 0))
            continue;
        fx_dim bytes = fx_dim_scale(e->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype));
        fx_printf(t, "    memcpy(%s, %s%s, %s%s);\n", e->outputs[i], b->kind == FX_BUF_WEIGHT ? "weights->" : "", e->bufs[b->id],
                  fx_dim_known(bytes) ? "" : "(size_t)", fx_dim_known(bytes) ? fx_c_dim(e, bytes) : fx_c_factor(e, bytes));
    }
    fx_printf(t, "    return %s_OK;\n}\n", e->PREFIX);
}

void fx_c_run_v(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_puts(t, "\n");
    fx_c_run_v_head(e, t);
    fx_puts(t, "\n{\n");
    if (!p->n_inputs)
        fx_puts(t, "    (void)inputs;\n");
    if (!p->n_outputs)
        fx_puts(t, "    (void)outputs;\n");
    if (p->n_inputs || p->n_outputs)
        fx_printf(t, "    if (%s%s%s)\n        return %s_ERR_NULL;\n", p->n_inputs ? "!inputs" : "", p->n_inputs && p->n_outputs ? " || " : "",
                  p->n_outputs ? "!outputs" : "", e->PREFIX);
    fx_text line;
    fx_text_init(&line, e->arena);
    fx_printf(&line, "    return %s_run(ctx%s", e->prefix, p->n_symbols ? ", dims" : "");
    size_t size = line.size;
    for (size_t i = 0; i < p->n_inputs + p->n_outputs; i++) {
        bool in = i < p->n_inputs;
        size_t k = in ? i : i - p->n_inputs;
        const char *one = fx_arena_printf(e->arena, "(%s%s *)%s[%zu]", in && !p->bufs[p->inputs[k].buf].changed ? "const " : "", fx_c_type(in ? p->inputs[k].dtype : p->outputs[k].dtype),
                                          in ? "inputs" : "outputs", k);
        bool wrap = size + strlen(one) > 106;
        fx_printf(&line, ",%s%s", wrap ? "\n            " : " ", one);
        size = (wrap ? 12 : size + 2) + strlen(one);
    }
    fx_printf(t, "%s%s);\n}\n", line.data, e->say->stream_argument);
}

void fx_c_put_reason_cases(fx_emit *e, fx_text *t)
{
    for (size_t i = 0; i < e->n_reasons; i++) {
        fx_printf(t, "    case %s: return ", e->reasons[i].name);
        fx_put_c_string(t, e->reasons[i].text, 200);
        fx_puts(t, ";\n");
    }
}

static void put_status_string(fx_emit *e, fx_text *t)
{
    fx_printf(t, "\nconst char *%s_status_string(int status)\n{\n    switch (status) {\n", e->prefix);
    for (int i = 0; i < N_STATUSES; i++)
        fx_printf(t, "    case %s_%s: return \"%s\";\n", e->PREFIX, statuses[i].name, status_text(e, i));
    fx_c_put_reason_cases(e, t);
    fx_puts(t, "    default: return \"unknown status\";\n    }\n}\n");
}

fx_status fx_c_source(fx_emit *e)
{
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    put_prologue(e, t);
    FX_TRY(fx_c_kernels(e, t));
    put_conversions(e, t);
    fx_c_put_silence(e, t);
    fx_puts(t, "\n/* ---- the model's layers, in order ---- */\n");
    FX_TRY(fx_c_steps(e, t, &fx_c_step_hooks));
    put_init(e, t);
    fx_c_state_source(e, t);
    if (e->p->n_symbols)
        fx_c_sizes_source(e, t);
    put_run(e, t);
    fx_c_run_v(e, t);
    put_status_string(e, t);
    fx_emit_file(e, ".c", t);
    return FX_OK;
}
