/* examples/consumer/show.c: libfxcc in a program: loads a model and tells what it takes and gives.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include <fxcc/compile.h>
#include <fxcc/inspect.h>

int main(int argc, char **argv)
{
    fx_context *ctx = fx_context_create();
    fx_graph *graph;
    char text[1024];
    int rc = 1;

    if (!ctx || argc != 2)
        return 1;
    if (fx_load_model(ctx, argv[1], &graph) == FX_OK) {
        printf("%s: %zu inputs, %zu outputs, %zu nodes\n", argv[1], fx_graph_input_count(graph), fx_graph_output_count(graph),
               fx_graph_node_count(graph));
        rc = 0;
    }
    for (size_t i = 0; i < fx_diag_count(ctx); i++) {
        fx_diag_format(fx_diag_get(ctx, i), text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    fx_context_free(ctx);
    return rc;
}
