/* cli/kernels.c: fxcc report of models for GPUs: a row a kernel, what all of them move, and how much more that is than the least.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct listing {
    bool json, first;
} listing;

/* Text between the quotes of a JSON string. */
static void put_escaped(const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            printf("\\u%04x", (unsigned)(unsigned char)*s);
        else
            putchar(*s);
    }
}

/* "112x2x1 x 256x1x1" without ones at the ends. */
static const char *shape(const fx_kernel_info *k, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int part = 0; part < 2 && k->block[0]; part++) {
        const int64_t *v = part ? k->block : k->grid;
        for (int a = 0; a < 3 && at < size; a++)
            if (a == 0 || v[a] > 1 || (a == 1 && v[2] > 1))
                at += (size_t)snprintf(buf + at, size - at, "%s%lld", a ? "x" : part ? " x " : "", (long long)v[a]);
    }
    return buf;
}

static void print_kernel(void *user, const fx_kernel_info *k)
{
    listing *l = user;
    char buf[120];
    if (!l->json) {
        printf("| %s | %s%s | %s | %.4g | %.4g | %.4g | %.4g |\n", k->title, *k->kernel ? k->kernel : "loops", k->launches > 1 ? " (2)" : "", shape(k, buf, sizeof buf), k->flops / 1e6,
               (double)k->read / 1e3, (double)k->written / 1e3, (double)k->workspace / 1e3);
        return;
    }
    printf("%s\n   {\"step\": \"", l->first ? "" : ",");
    put_escaped(k->step);
    printf("\", \"title\": \"");
    put_escaped(k->title);
    printf("\", \"kernel\": \"%s\", \"launches\": %d, \"grid\": [%lld, %lld, %lld], \"block\": [%lld, %lld, %lld], \"flops\": %.0f, \"read\": %llu, "
           "\"written\": %llu, \"workspace\": %llu}",
           k->kernel, k->launches, (long long)k->grid[0], (long long)k->grid[1], (long long)k->grid[2], (long long)k->block[0], (long long)k->block[1],
           (long long)k->block[2], k->flops, (unsigned long long)k->read, (unsigned long long)k->written, (unsigned long long)k->workspace);
    l->first = false;
}

static int report_one(const char *command, const fx_compile_options *options, const char *path, const char *name, bool list, bool json)
{
    listing l = {.json = json, .first = true};
    fx_kernel_totals t = {0};
    fx_graph *graph;
    fx_context *ctx = fx_context_create();

    if (!ctx)
        return complain(command, "out of memory");
    if (json) {
        printf(" {\"model\": \"");
        put_escaped(name);
        printf("\", \"kernels\": [");
    } else if (list) {
        printf("\n| %s | kernel | blocks x threads | MFLOP | kB read | kB written | kB workspace |\n|---|---|---|---:|---:|---:|---:|\n", name);
    }
    fx_status status = fx_load_model(ctx, path, &graph);
    if (status == FX_OK)
        status = fx_report_kernels(graph, options, list ? print_kernel : NULL, &l, &t);
    report(command, ctx, false);
    fx_context_free(ctx);
    uint64_t moved = t.read + t.written, least = t.inputs + t.outputs + t.weights + t.intermediates;
    double ratio = least ? (double)moved / (double)least : 1;
    if (json && status != FX_OK)
        printf("], \"failed\": true}");
    else if (json)
        printf("], \"launches\": %zu, \"flops\": %.0f, \"read\": %llu, \"written\": %llu, \"workspace\": %llu, \"least\": {\"inputs\": %llu, \"outputs\": %llu, "
               "\"weights\": %llu, \"intermediates\": %llu}, \"ratio\": %.4f}",
               t.launches, t.flops, (unsigned long long)t.read, (unsigned long long)t.written, (unsigned long long)t.workspace, (unsigned long long)t.inputs,
               (unsigned long long)t.outputs, (unsigned long long)t.weights, (unsigned long long)t.intermediates, ratio);
    else if (status == FX_OK)
        printf("%s| %s | %zu | %.4g | %.4g | %.4g | %.4g | %.4g | %.3f |\n",
               list ? "\n| model | kernels | MFLOP | MB read | MB written | MB workspace | MB at least | ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|\n" : "", name,
               t.launches, t.flops / 1e6, (double)t.read / 1e6, (double)t.written / 1e6, (double)t.workspace / 1e6, (double)least / 1e6, ratio);
    fflush(stdout);
    return status != FX_OK;
}

int report_kernels(const char *command, const fx_compile_options *options, int n_models, char *const *models, bool list, bool json)
{
    int rc = 0;

    if (json)
        printf("[");
    else if (!list)
        printf("| model | kernels | MFLOP | MB read | MB written | MB workspace | MB at least | ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < n_models; i++) {
        char name[200];
        if (json)
            printf("%s\n", i ? "," : "");
        model_name(models[i], name, sizeof name);
        rc |= report_one(command, options, models[i], name, list || json, json);
    }
    if (json)
        printf("\n]\n");
    return rc;
}
