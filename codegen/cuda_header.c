/* codegen/cuda_header.c: NAME.h, the contract of emitted CUDA, and the texts of its statuses.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

static const struct {
    const char *name, *text;
} statuses[] = {
    {"OK", "ok"},
    {"ERR_NULL", "a pointer is NULL"},
    {"ERR_SIZE", "the weights have not the size of this model's, or a run needs more memory than was made for it"},
    {"ERR_ALIGN", "an input or output is not aligned to its type, or not to the 16 bytes that kernels read or write at once"},
    {"ERR_WEIGHTS", "these are not the weights of this model, or they are in another byte order"},
    {"ERR_FILE", "the file with the weights cannot be read"},
    {"ERR_MEMORY", "out of memory, on the host or the device"},
    {"ERR_CUDA", "a call of CUDA or a kernel failed"},
    {"ERR_POINTER", "an input or output is not in the memory of the context's device"},
    {"ERR_CONTEXT", "the context was not made whole"},
};
enum { N_STATUSES = sizeof statuses / sizeof statuses[0] };

static void put_usage(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    fx_printf(t, " *\n * Use:\n *   %s_context *ctx;\n *   const %s_config config = {0}; // all as usual\n", n, n);
    if (e->p->n_symbols) {
        fx_printf(t, " *   const %s_dims dims = {", n);
        for (size_t i = 0; i < e->p->n_symbols; i++)
            fx_printf(t, "%s.%s = %lld", i ? ", " : "", e->symbols[i], (long long)e->p->symbols[i].min);
        fx_puts(t, "};\n");
    }
    fx_printf(t, " *   int status = %s_create(&ctx, &config);\n", n);
    fx_printf(t, " *   if (status == %s_OK)\n *       status = %s_run(ctx%s", N, n, e->p->n_symbols ? ", &dims" : "");
    for (size_t i = 0; i < e->p->n_inputs && i < 4; i++)
        fx_printf(t, ", %s", e->inputs[i]);
    fx_puts(t, e->p->n_inputs > 4 ? ", ..." : "");
    for (size_t i = 0; i < e->p->n_outputs && i < 4; i++)
        fx_printf(t, ", %s", e->outputs[i]);
    fx_puts(t, e->p->n_outputs > 4 ? ", ..., stream);\n" : ", stream);\n");
    fx_printf(t, " *   if (status == %s_OK)\n *       status = %s_wait(ctx, stream);\n", N, n);
    fx_printf(t, " *   if (status != %s_OK)\n *       printf(\"%%s: %%s\\n\", %s_status_string(status), %s_error(ctx));\n *   %s_destroy(ctx);\n", N, n, n, n);
}

static void put_config(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix;
    fx_puts(t, "/* What a context is made with. Zeros mean the usual. */\n");
    fx_printf(t, "typedef struct %s_config {\n    int device;               /* CUDA's number of it */\n", n);
    if (e->n_members)
        fx_printf(t, "    const char *weights_file; /* NULL: \"%s.bin\" */\n    const void *weights;      /* the file's content instead, in the host's memory */\n"
                     "    size_t weights_size;\n", n);
    fx_puts(t, "    int debug;                /* not 0: runs ask whose memory pointers are, and wait for each kernel, so that an error names it */\n");
    if (e->p->n_symbols)
        fx_printf(t, "    const %s_dims *most;%*s/* sizes that there is to be memory for; NULL: %s */\n", n, (int)(strlen(n) < 9 ? 9 - strlen(n) : 1), "",
                  e->finite_arena ? "the largest" : "not allowed, as some have no end");
    fx_printf(t, "} %s_config;\n\n", n);
}

fx_status fx_cuda_header(fx_emit *e)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_c_put_title(e, t);
    fx_puts(t, " * Tensors are dense and row-major, in torch's order of dimensions, in the memory of the device. They must not overlap each other.\n");
    put_usage(e, t);
    fx_printf(t, " *\n * %s_create allocates all there will be%s. %s_run starts kernels on the caller's stream and returns at once: it may be captured in a\n"
                 " * graph. A context belongs to one run at a time; contexts share nothing. */\n", n, e->n_members ? " and loads the weights" : "", n);
    fx_printf(t, "#ifndef %s_H\n#define %s_H\n\n#include <cuda_runtime.h>\n#include <stddef.h>\n#include <stdint.h>\n\n", N, N);
    fx_puts(t, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    if (!p->n_symbols)
        fx_printf(t, "#define %s_ARENA_SIZE %llu /* bytes of the device's that intermediate results take */\n", N, (unsigned long long)e->arena_size);
    else if (e->finite_arena)
        fx_printf(t, "#define %s_ARENA_SIZE %llu /* the same with the largest sizes; %s_arena_size() says what others need */\n", N,
                  (unsigned long long)e->arena_size, n);
    if (e->n_members)
        fx_printf(t, "#define %s_WEIGHTS_SIZE %llu\n", N, (unsigned long long)e->weights_size);
    fx_c_put_io_macros(e, t);
    fx_puts(t, "\n/* What the functions return. */\nenum {\n");
    for (int i = 0; i < N_STATUSES; i++)
        fx_printf(t, "    %s_%s = %d%s /* %s */\n", N, statuses[i].name, i, i + 1 < N_STATUSES || e->n_reasons ? "," : "", statuses[i].text);
    fx_c_put_reasons(e, t);
    fx_puts(t, "};\n\n");
    if (p->n_symbols)
        fx_c_sizes_header(e, t);
    fx_c_state_header(e, t);
    put_config(e, t);
    fx_printf(t, "typedef struct %s_context %s_context;\n\n", n, n);
    fx_printf(t, "/* Makes a context. Where that fails there is one, too (but for want of the host's memory): %s_error tells more, %s_destroy frees it. */\n"
                 "int %s_create(%s_context **ctx, const %s_config *config);\n\n", n, n, n, n, n);
    if (p->n_states)
        fx_printf(t, "/* Gives the context's state the values it begins with, which it has after %s_create. */\n"
                     "int %s_state_init(%s_context *ctx, cudaStream_t stream);\n\n/* The state, in the memory of the device. */\n"
                     "%s_state_t *%s_state(%s_context *ctx);\n\n", n, n, n, n, n, n);
    fx_puts(t, fx_c_changes_inputs(e) ? "/* Computes the outputs, and new values of the inputs that are no pointers to const. */\n" : "/* Computes the outputs. */\n");
    fx_c_run_head(e, t);
    fx_puts(t, ";\n\n");
    fx_printf(t, "/* A graph of such a run, for cudaGraphLaunch as often as wanted while the context lives, then for cudaGraphExecDestroy. It is of these pointers%s:\n"
                 " * what lies there may change between launches. NULL where it fails. %s_run itself may be captured by the caller, too. */\n", p->n_symbols ? " and sizes" : "", n);
    fx_c_call_head(e, t, "capture", ", cudaGraphExec_t *graph");
    fx_puts(t, ";\n\n");
    fx_printf(t, "/* The same with arrays of pointers: %s_INPUTS inputs, %s_OUTPUTS outputs. */\n", N, N);
    fx_c_run_v_head(e, t);
    fx_puts(t, ";\n\n");
    fx_printf(t, "/* Waits for the stream; says whether a run failed since the last time. */\nint %s_wait(%s_context *ctx, cudaStream_t stream);\n\n", n, n);
    fx_printf(t, "/* Waits for the device, and frees what the context has. NULL is allowed. */\nvoid %s_destroy(%s_context *ctx);\n\n", n, n);
    fx_printf(t, "/* What a status means. Never NULL. */\nconst char *%s_status_string(int status);\n\n", n);
    fx_printf(t, "/* What the status of the last call leaves open: the call or kernel that failed and CUDA's words for it, or which pointer, file or size was\n"
                 " * expected to be what; \"\" where there is nothing to add. Never NULL. */\nconst char *%s_error(const %s_context *ctx);\n", n, n);
    if (e->n_members)
        fx_c_weights_struct(e, t);
    fx_puts(t, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    fx_emit_file(e, ".h", t);
    return FX_OK;
}

void fx_cuda_strings(fx_emit *e, fx_text *t)
{
    fx_printf(t, "\nconst char *%s_status_string(int status)\n{\n    switch (status) {\n", e->prefix);
    for (int i = 0; i < N_STATUSES; i++)
        fx_printf(t, "    case %s_%s: return \"%s\";\n", e->PREFIX, statuses[i].name, statuses[i].text);
    fx_c_put_reason_cases(e, t);
    fx_puts(t, "    default: return \"unknown status\";\n    }\n}\n");
    fx_printf(t, "\nconst char *%s_error(const %s_context *ctx)\n{\n    return ctx ? ctx->error : \"\";\n}\n", e->prefix, e->prefix);
}
