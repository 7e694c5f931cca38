/* codegen/cuda_load.c: in NAME.cu, weights to the device.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

/* The file's first bytes: what ties weights to this model. */
static void put_head(fx_emit *e, fx_text *t)
{
    unsigned char head[32] = FX_WEIGHTS_MAGIC "\0\1\0\0\0\4\3\2\1";
    for (int i = 0; i < 8; i++) {
        head[16 + i] = (unsigned char)(e->weights_size >> 8 * i);
        head[24 + i] = e->hash[i];
    }
    fx_cuda_put(e, t, "\n/* How the weights of this model begin: with the magic, version, byte order, size, and the hash of this program:\n"
                      " * values of another training have the same. */\nstatic const unsigned char net_weights_head[32] = {");
    for (int i = 0; i < 32; i++)
        fx_printf(t, "%s%s%d", i ? "," : "", i % 16 ? " " : "\n    ", head[i]);
    fx_puts(t, "\n};\n\n");
}

/* Where neither text nor layout differ, the values of weights are all that two models have not in common: then weights may be exchanged. */
void fx_cuda_hash(fx_emit *e, const fx_text *before, const fx_text *behind)
{
    uint64_t h = fx_hash_block(fx_hash_block(0x6678636375646177u, before->data, before->size), behind->data, behind->size);
    for (size_t i = 0; i < e->n_members; i++) {
        const fx_buf *b = &e->p->bufs[e->members[i].buf];
        uint64_t v[3] = {e->members[i].offset, (uint64_t)b->numel.value, b->dtype};
        h = fx_hash_block(h, v, sizeof v);
    }
    for (int i = 0; i < 8; i++)
        e->hash[i] = (uint8_t)(h >> 8 * i);
}

void fx_cuda_load(fx_emit *e, fx_text *t)
{
    if (!e->n_members)
        return;
    put_head(e, t);
    fx_cuda_put(e, t,
                "/* Weights that are in the host's memory to the device. */\n"
                "static int net_load(net_context *ctx, const char *name, const void *weights, size_t size)\n"
                "{\n"
                "    if (size >= sizeof net_weights_head && memcmp(weights, net_weights_head, sizeof net_weights_head) != 0)\n"
                "        return net_refuse(ctx, NET_ERR_WEIGHTS, \"%s: weights of another model, or not weights\", name);\n"
                "    if (size != NET_WEIGHTS_SIZE)\n"
                "        return net_refuse(ctx, NET_ERR_SIZE, \"%s: expected %zu bytes, got %zu\", name, (size_t)NET_WEIGHTS_SIZE, size);\n"
                "    NET_CUDA(\"copying weights\", cudaMemcpy(ctx->weights, weights, NET_WEIGHTS_SIZE, cudaMemcpyHostToDevice));\n"
                "    return NET_OK;\n"
                "}\n\n"
                "#if defined(__unix__) || defined(__APPLE__)\n"
                "/* From a file, mapped: no copy of it in the host's memory but the system's cache. */\n"
                "static int net_load_file(net_context *ctx, const char *name)\n"
                "{\n"
                "    const int file = open(name, O_RDONLY | O_CLOEXEC);\n"
                "    struct stat about;\n"
                "    void *weights = nullptr;\n"
                "    int error = file < 0 || fstat(file, &about) != 0 ? errno : S_ISDIR(about.st_mode) ? EISDIR : S_ISREG(about.st_mode) ? 0 : ENODEV;\n"
                "    const size_t size = error ? 0 : (size_t)about.st_size;\n"
                "    if (size > 0 && (weights = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0)) == MAP_FAILED)\n"
                "        error = errno;\n"
                "    if (file >= 0)\n"
                "        close(file);\n"
                "    if (error)\n"
                "        return net_refuse(ctx, NET_ERR_FILE, \"%s: %s\", name, strerror(error));\n"
                "    const int status = net_load(ctx, name, weights, size);\n"
                "    if (size > 0)\n"
                "        munmap(weights, size);\n"
                "    return status;\n"
                "}\n"
                "#else\n"
                "/* From a file, piece by piece. */\n"
                "static int net_load_pieces(net_context *ctx, FILE *file, const char *name)\n"
                "{\n"
                "    unsigned char piece[1 << 16];\n"
                "    for (size_t at = 0, size, got; at < NET_WEIGHTS_SIZE; at += size) {\n"
                "        size = NET_WEIGHTS_SIZE - at < sizeof piece ? NET_WEIGHTS_SIZE - at : sizeof piece;\n"
                "        got = fread(piece, 1, size, file);\n"
                "        if (ferror(file))\n"
                "            return net_refuse(ctx, NET_ERR_FILE, \"%s: %s\", name, strerror(errno));\n"
                "        if (at == 0 && got >= sizeof net_weights_head && memcmp(piece, net_weights_head, sizeof net_weights_head) != 0)\n"
                "            return net_refuse(ctx, NET_ERR_WEIGHTS, \"%s: weights of another model, or not weights\", name);\n"
                "        if (got != size)\n"
                "            return net_refuse(ctx, NET_ERR_SIZE, \"%s: expected %zu bytes, got %zu\", name, (size_t)NET_WEIGHTS_SIZE, at + got);\n"
                "        NET_CUDA(\"copying weights\", cudaMemcpy((unsigned char *)ctx->weights + at, piece, size, cudaMemcpyHostToDevice));\n"
                "    }\n"
                "    if (fgetc(file) != EOF)\n"
                "        return net_refuse(ctx, NET_ERR_SIZE, \"%s: expected %zu bytes, got more\", name, (size_t)NET_WEIGHTS_SIZE);\n"
                "    return NET_OK;\n"
                "}\n"
                "static int net_load_file(net_context *ctx, const char *name)\n"
                "{\n"
                "    FILE *file = fopen(name, \"rb\");\n"
                "    if (!file)\n"
                "        return net_refuse(ctx, NET_ERR_FILE, \"%s: %s\", name, strerror(errno));\n"
                "    const int status = net_load_pieces(ctx, file, name);\n"
                "    fclose(file);\n"
                "    return status;\n"
                "}\n"
                "#endif\n\n"
                "static int net_load_weights(net_context *ctx, const net_config *config)\n"
                "{\n"
                "    if (config->weights)\n"
                "        return net_load(ctx, \"config.weights\", config->weights, config->weights_size);\n"
                "    return net_load_file(ctx, config->weights_file ? config->weights_file : \"@.bin\");\n"
                "}\n");
}
