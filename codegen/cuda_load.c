/* codegen/cuda_load.c: in NAME.cu, weights to the device.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

/* The file's first bytes: what ties weights to this model. */
void fx_cuda_load(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    if (!e->n_members)
        return;
    unsigned char head[32] = FX_WEIGHTS_MAGIC "\0\1\0\0\0\4\3\2\1";
    for (int i = 0; i < 8; i++) {
        head[16 + i] = (unsigned char)(e->weights_size >> 8 * i);
        head[24 + i] = e->hash[i];
    }
    fx_printf(t, "\n/* How the weights of this model begin: with the magic, version, byte order, size and hash of %s_weights_t. */\nstatic const unsigned char %s_weights_head[32] = {",
              n, n);
    for (int i = 0; i < 32; i++)
        fx_printf(t, "%s%s%d", i ? "," : "", i % 16 ? " " : "\n    ", head[i]);
    fx_printf(t, "\n};\n\n/* Reads a file's weights to the device, piece by piece. */\nstatic int %s_load_file(%s_context *ctx, FILE *file)\n{\n", n, n);
    fx_printf(t, "    unsigned char piece[1 << 14];\n    for (size_t at = 0, size; at < %s_WEIGHTS_SIZE; at += size) {\n"
                 "        size = %s_WEIGHTS_SIZE - at < sizeof piece ? %s_WEIGHTS_SIZE - at : sizeof piece;\n"
                 "        if (fread(piece, 1, size, file) != size)\n            return ferror(file) ? %s_ERR_FILE : %s_ERR_SIZE;\n"
                 "        if (at == 0 && memcmp(piece, %s_weights_head, sizeof %s_weights_head) != 0)\n            return %s_ERR_WEIGHTS;\n"
                 "        %s_CUDA(\"copying weights\", cudaMemcpy((unsigned char *)ctx->weights + at, piece, size, cudaMemcpyHostToDevice));\n    }\n"
                 "    return fgetc(file) == EOF ? %s_OK : %s_ERR_SIZE;\n}\n\n", N, N, N, N, N, n, n, N, N, N, N);
    fx_printf(t, "static int %s_load_weights(%s_context *ctx, const %s_config *config)\n{\n    %s_CUDA(\"allocating weights\", cudaMalloc(&ctx->weights, %s_WEIGHTS_SIZE));\n",
              n, n, n, N, N);
    fx_printf(t, "    if (!config->weights) {\n        FILE *file = fopen(config->weights_file ? config->weights_file : \"%s.bin\", \"rb\");\n"
                 "        const int status = file ? %s_load_file(ctx, file) : %s_ERR_FILE;\n        if (file)\n            fclose(file);\n        return status;\n    }\n", n, n, N);
    fx_printf(t, "    if (config->weights_size != %s_WEIGHTS_SIZE)\n        return %s_ERR_SIZE;\n"
                 "    if (memcmp(config->weights, %s_weights_head, sizeof %s_weights_head) != 0)\n        return %s_ERR_WEIGHTS;\n"
                 "    %s_CUDA(\"copying weights\", cudaMemcpy(ctx->weights, config->weights, %s_WEIGHTS_SIZE, cudaMemcpyHostToDevice));\n    return %s_OK;\n}\n",
              N, N, n, n, N, N, N, N);
}
