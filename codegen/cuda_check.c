/* codegen/cuda_check.c: NAME_check.cu, a program that runs emitted CUDA on golden vectors, and as a graph.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

static bool changed(const fx_emit *e, size_t input)
{
    return e->p->bufs[e->p->inputs[input].buf].changed;
}

static long long bytes_of(const fx_vector *v)
{
    return (long long)(fx_tensor_numel(&v->t) * (int64_t)fx_dtype_size(v->t.dtype));
}

static void put_helpers(fx_emit *e, fx_text *t)
{
    fx_cuda_put(e, t,
                "\n/* The program ends where a call of CUDA fails. */\n"
                "static void must(const char *what, cudaError_t error)\n"
                "{\n"
                "    if (error == cudaSuccess)\n"
                "        return;\n"
                "    fprintf(stderr, \"net_check: %s: %s (%s)\\n\", what, cudaGetErrorName(error), cudaGetErrorString(error));\n"
                "    exit(1);\n"
                "}\n\n"
                "/* Memory of the device with these bytes. */\n"
                "static void *to_device(const void *data, size_t size)\n"
                "{\n"
                "    void *at = nullptr;\n"
                "    must(\"allocating\", cudaMalloc(&at, size + 1));\n"
                "    must(\"copying to the device\", cudaMemcpy(at, data, size, cudaMemcpyHostToDevice));\n"
                "    return at;\n"
                "}\n\n"
                "static void to_host(void *to, const void *from, size_t size)\n"
                "{\n"
                "    must(\"copying from the device\", cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost));\n"
                "}\n\n"
                "/* Says why a call failed. */\n"
                "static int told(const net_context *ctx, int status)\n"
                "{\n"
                "    if (status != NET_OK)\n"
                "        fprintf(stderr, \"net_check: status %d, %s%s%s\\n\", status, net_status_string(status), *net_error(ctx) ? \": \" : \"\", net_error(ctx));\n"
                "    return status;\n"
                "}\n");
}

/* Outputs start as bytes that no right result is made of alone: what is not written shows. */
static void put_arrays(fx_emit *e, fx_text *t, const fx_vectors *all)
{
    const fx_program *p = e->p;
    fx_printf(t, "\nstatic void *inputs[%zu], *outputs[%zu]; /* on the device */\n\nstatic void make_arrays(void)\n{\n", p->n_inputs + !p->n_inputs, p->n_outputs + !p->n_outputs);
    for (size_t i = 0; i < p->n_inputs; i++)
        fx_printf(t, "    inputs[%zu] = to_device(in%zu, %lld);\n", i, i, bytes_of(&all->v[i]));
    for (size_t i = 0; i < p->n_outputs; i++) {
        fx_printf(t, "    memset(got%zu, 0xff, sizeof got%zu);\n", i, i);
        fx_printf(t, "    outputs[%zu] = to_device(got%zu, %lld);\n", i, i, bytes_of(&all->v[p->n_inputs + i]));
    }
    fx_puts(t, "    must(\"waiting for copies\", cudaDeviceSynchronize()); /* other streams do not */\n}\n\nstatic void free_arrays(void)\n{\n");
    fx_puts(t, "    for (void *one : inputs)\n        must(\"freeing\", cudaFree(one));\n    for (void *one : outputs)\n        must(\"freeing\", cudaFree(one));\n}\n");
}

/* What a run gives, to the host. */
static void put_fetch(fx_emit *e, fx_text *t, const fx_vectors *all)
{
    const fx_program *p = e->p;
    fx_cuda_put(e, t, p->n_states ? "\nstatic void fetch(net_context *ctx)\n{\n" : "\nstatic void fetch(void)\n{\n");
    for (size_t i = 0; i < p->n_outputs; i++)
        fx_printf(t, "    to_host(got%zu, outputs[%zu], %lld);\n", i, i, bytes_of(&all->v[p->n_inputs + i]));
    for (size_t i = 0; i < p->n_inputs; i++)
        if (changed(e, i))
            fx_printf(t, "    to_host(now%zu, inputs[%zu], %lld);\n", i, i, bytes_of(&all->v[i]));
    if (p->n_states)
        fx_cuda_put(e, t, "    to_host(&state, net_state(ctx), sizeof state);\n");
    fx_puts(t, "}\n");
}

static void put_compare(fx_emit *e, fx_text *t, size_t n, const fx_vector *v, size_t call, const char *prefix)
{
    fx_cuda_put(e, t, e->p->n_states ? "        fetch(ctx);\n" : "        fetch();\n");
    for (size_t i = 0; i < n; i++) {
        fx_printf(t, "        bad |= compare_%s(", fx_dtype_name(v[i].io->dtype));
        fx_put_c_string(t, fx_arena_printf(e->arena, "%s%s", prefix, fx_golden_label(e, &v[i], call)), 60);
        fx_printf(t, ", %s, %s, %lld);\n", v[i].got, v[i].name, (long long)fx_tensor_numel(&v[i].t));
    }
}

/* The model as a graph: the same results, from other memory. */
static void put_graph(fx_emit *e, fx_text *t, size_t n, const fx_vector *v)
{
    const fx_program *p = e->p;
    fx_cuda_put(e, t, "    cudaGraphExec_t graph = nullptr;\n    free_arrays();\n    make_arrays();\n"
                      "    if (status == NET_OK)\n        status = told(ctx, net_capture(ctx");
    fx_puts(t, p->n_symbols ? ", &dims" : "");
    for (size_t i = 0; i < p->n_inputs + p->n_outputs; i++) {
        bool in = i < p->n_inputs;
        size_t k = in ? i : i - p->n_inputs;
        fx_printf(t, ",%s(%s *)%s[%zu]", i == 0 || i % 3 ? " " : "\n                                       ", fx_c_type(in ? p->inputs[k].dtype : p->outputs[k].dtype),
                  in ? "inputs" : "outputs", k);
    }
    fx_cuda_put(e, t, ", &graph));\n    if (status == NET_OK) {\n"
                      "        must(\"launching the graph\", cudaGraphLaunch(graph, stream));\n"
                      "        status = told(ctx, net_wait(ctx, stream));\n    }\n"
                      "    if (status == NET_OK) {\n");
    put_compare(e, t, n, v, 0, "graph: ");
    fx_puts(t, "    }\n    if (graph)\n        must(\"destroying the graph\", cudaGraphExecDestroy(graph));\n");
}

static void put_main(fx_emit *e, fx_text *t, const fx_vectors *all)
{
    const fx_program *p = e->p;
    size_t calls = fx_golden_calls(e), a_call = (all->n - p->n_inputs) / calls;
    fx_cuda_put(e, t, "\n/* net_check [FOLDER [DEVICE]]: files are looked for in the folder, or in the current one. */\nint main(int argc, char **argv)\n{\n");
    if (all->file_size || e->n_members)
        fx_puts(t, "    const char *folder = argc > 1 ? argv[1] : \".\";\n");
    if (all->file_size)
        fx_cuda_put(e, t, "    if (!read_file(folder, \"net_golden.bin\", golden, sizeof golden))\n        return 1;\n");
    fx_cuda_put(e, t, "    net_config config = {};\n    config.debug = 1;\n    config.device = argc > 2 ? atoi(argv[2]) : 0;\n");
    if (e->n_members)
        fx_cuda_put(e, t, "    char weights_file[1024];\n    snprintf(weights_file, sizeof weights_file, \"%s/@.bin\", folder);\n    config.weights_file = weights_file;\n");
    if (p->n_symbols)
        fx_puts(t, "    config.most = &dims;\n");
    fx_cuda_put(e, t, "    net_context *ctx;\n"
                      "    int status = net_create(&ctx, &config), bad = 0;\n"
                      "    if (told(ctx, status) != NET_OK) {\n        net_destroy(ctx);\n        return 1;\n    }\n"
                      "    cudaStream_t stream;\n"
                      "    must(\"choosing the device\", cudaSetDevice(config.device));\n"
                      "    must(\"making a stream\", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));\n"
                      "    make_arrays();\n");
    for (size_t c = 0; c < calls; c++) {
        fx_cuda_put(e, t, fx_arena_printf(e->arena, "    if (status == NET_OK)\n        status = told(ctx, net_run_v(ctx, %sinputs, outputs, stream));\n", p->n_symbols ? "&dims, " : ""));
        fx_cuda_put(e, t, "    if (status == NET_OK)\n        status = told(ctx, net_wait(ctx, stream));\n    if (status == NET_OK) {\n");
        put_compare(e, t, a_call, all->v + p->n_inputs + c * a_call, c, "");
        fx_puts(t, "    }\n");
    }
    if (!e->opt->golden->n_after) /* what one call leaves would be another's input */
        put_graph(e, t, a_call, all->v + p->n_inputs);
    fx_cuda_put(e, t, "    free_arrays();\n    must(\"destroying the stream\", cudaStreamDestroy(stream));\n    net_destroy(ctx);\n    return bad || status != NET_OK;\n}\n");
}

fx_status fx_cuda_check(fx_emit *e)
{
    fx_vectors all;
    FX_TRY(fx_golden_gather(e, &all));
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_cuda_put(e, t, "/* net_check.cu: runs @.cu on golden vectors; exit status 0 when all outputs are near enough. Made by fxcc. */\n"
                      "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n#include \"@.h\"\n\n");
    fx_golden_tolerances(e, t);
    if (e->p->n_symbols) {
        fx_puts(t, "/* The sizes of the vectors below. */\n");
        fx_golden_dims(e, t, &all);
    }
    fx_golden_results(e, t, &all);
    if (e->p->n_states)
        fx_cuda_put(e, t, "static net_state_t state;\n");
    fx_puts(t, "\n");
    fx_golden_data(e, t, &all, "alignas(64) static");
    fx_golden_comparisons(t, all.n, all.v);
    if (all.file_size)
        fx_golden_reader(t);
    put_helpers(e, t);
    put_arrays(e, t, &all);
    put_fetch(e, t, &all);
    put_main(e, t, &all);
    fx_emit_file(e, "_check.cu", t);
    return FX_OK;
}
