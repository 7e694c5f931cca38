/* driver/compile.c: a compile from file to sources, as a table of contents.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "driver/driver.h"

#include <string.h>

#include "frontend/frontend.h"
#include "lower/lower.h"

/* ---- loading ------------------------------------------------------------------------------------------------ */

typedef struct load_job {
    fx_context *ctx;
    const char *path;
    fx_graph *graph;
} load_job;

static fx_status load(void *arg)
{
    load_job *job = arg;
    return fx_load(job->ctx, job->path, &job->graph);
}

fx_status fx_load_model(fx_context *ctx, const char *path, fx_graph **graph)
{
    load_job job = {ctx, path, NULL};
    FX_TRY(fx_protect(ctx, load, &job));
    *graph = job.graph;
    return FX_OK;
}

/* ---- compiling ---------------------------------------------------------------------------------------------- */

typedef struct compile_job {
    fx_graph *graph;
    const fx_compile_options *options;
    const char *dir;
    fx_compile_result result;
    fx_program *program;
    fx_write write;
} compile_job;

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* C and CUDA without weights and golden vectors. */
static uint64_t source_bytes(size_t n, const fx_file *files)
{
    uint64_t size = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = files[i].name;
        if ((ends_with(name, ".c") || ends_with(name, ".cu") || ends_with(name, ".h")) && !ends_with(name, "_weights.c") && !ends_with(name, "_check.c"))
            size += files[i].size;
    }
    return size;
}

static void count(const fx_stmt *s, bool outermost, fx_compile_result *r)
{
    for (; s; s = s->next) {
        r->kernels += s->kind == FX_ST_CALL;
        r->loops += s->kind == FX_ST_LOOP && outermost;
        count(s->body, outermost && s->kind != FX_ST_LOOP, r);
    }
}

void fx_count_statements(const fx_stmt *s, fx_compile_result *r)
{
    count(s, true, r);
}

const fx_part_info *fx_part_get(size_t i)
{
    static const fx_part_info parts[] = {
#define FX_X(id, name, doc) {name, doc},
        FX_LOWER_PARTS(FX_X)
#undef FX_X
    };

    return i < sizeof parts / sizeof parts[0] ? &parts[i] : NULL;
}

/* "fuse,layout" as a mask. */
static fx_status parse_parts(fx_context *ctx, const char *list, unsigned *off)
{
    for (const char *s = list; s && *s;) {
        size_t n = strcspn(s, ","), i = 0;
        while (fx_part_get(i) && (strlen(fx_part_get(i)->name) != n || memcmp(fx_part_get(i)->name, s, n) != 0))
            i++;
        if (!fx_part_get(i)) {
            fx_text t;
            fx_text_init(&t, fx_context_arena(ctx));
            for (i = 0; fx_part_get(i); i++)
                fx_printf(&t, "%s%s", i ? ", " : "", fx_part_get(i)->name);
            return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "expected parts of lowering to disable (%s), got '%.*s'", t.data, (int)n, s);
        }
        *off |= 1u << i;
        s += n + (s[n] == ',');
    }
    return FX_OK;
}

fx_status fx_lower_options_from(fx_context *ctx, const fx_compile_options *o, fx_lower_options *lower)
{
    *lower = (fx_lower_options){.threads = o->threads > 0 ? o->threads : 8, .dump_before = o->dump_before, .dump_after = o->dump_after,
                                .stop_after = o->stop_after, .time_passes = o->time_passes, .out = o->log, .user = o->log_user,
                                .unproved_warn = o->unproved_warn};
    FX_TRY(parse_parts(ctx, o->disable, &lower->off));
    FX_TRY(fx_target_get(ctx, o->target ? o->target : "native", &lower->target));
    if (o->arch)
        FX_TRY(fx_target_set_archs(ctx, &lower->target, o->arch));
    if (o->allow_tf32 && !fx_target_is_gpu(&lower->target))
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "allow_tf32: expected a GPU's target with it, got %s", lower->target.name);
    lower->target.tf32 = o->allow_tf32;
    return FX_OK;
}

fx_status fx_sized_copy(fx_graph *graph, const fx_compile_options *o, fx_graph **out)
{
    *out = fx_graph_copy(graph);
    for (size_t i = 0; i < o->n_dims; i++)
        FX_TRY(fx_sizes_narrow(*out, o->dims[i]));
    return FX_OK;
}

fx_status fx_lower_quietly(fx_graph *graph, const fx_compile_options *o, fx_program **out)
{
    fx_lower_options lower;
    fx_graph *sized;
    FX_TRY(fx_lower_options_from(graph->ctx, o, &lower));
    lower.dump_before = lower.dump_after = lower.stop_after = NULL;
    lower.time_passes = false;
    FX_TRY(fx_sized_copy(graph, o, &sized));
    return fx_lower_run(sized, &lower, out);
}

static fx_status compile(void *arg)
{
    compile_job *job = arg;
    const fx_compile_options *o = job->options;
    fx_context *ctx = job->graph->ctx;

    fx_lower_options lower;
    fx_graph *sized;
    FX_TRY(fx_lower_options_from(ctx, o, &lower));
    FX_TRY(fx_sized_copy(job->graph, o, &sized));
    bool check = o->check || o->golden;
    FX_TRY(fx_lower_run(check ? fx_graph_copy(sized) : sized, &lower, &job->program)); /* lowering consumes its graph */
    if (o->stop_after || !job->program)
        return FX_OK;

    fx_golden golden;
    if (check)
        FX_TRY(fx_golden_make(sized, o->golden, &golden));

    static const fx_weights_mode modes[] = {FX_WEIGHTS_AUTO, FX_WEIGHTS_C, FX_WEIGHTS_BIN, FX_WEIGHTS_INCBIN}; /* by fx_weights */
    if ((size_t)o->weights >= sizeof modes / sizeof modes[0])
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "weights: expected a value of fx_weights, got %d", (int)o->weights);
    fx_emit_options emit = {.prefix = o->prefix, .weights = modes[o->weights], .link_runtime = o->link_runtime,
                            .golden = check ? &golden : NULL};
    size_t n_files;
    fx_file *files;
    bool gpu = fx_target_is_gpu(&job->program->target);
    FX_TRY((gpu ? fx_emit_cuda : fx_emit_c)(job->program, &emit, &n_files, &files));
    FX_TRY(fx_write_files(ctx, job->dir, n_files, files, &job->write));

    job->result.cflags = fx_intern(ctx, job->program->target.cflags ? job->program->target.cflags : "");
    job->result.arena_size = job->program->arena_size;
    job->result.weights_size = job->program->weights_size;
    job->result.live_size = job->program->live_size;
    job->result.source_size = source_bytes(n_files, files);
    for (size_t i = 0; i < job->program->n_steps; i++)
        fx_count_statements(job->program->steps[i].body, &job->result);
    return FX_OK;
}

fx_status fx_compile(fx_graph *graph, const fx_compile_options *options, const char *dir, fx_compile_result *result)
{
    static const fx_compile_options defaults = {0};
    compile_job job = {.graph = graph, .options = options ? options : &defaults, .dir = dir};
    fx_status status = fx_protect(graph->ctx, compile, &job);
    if (status != FX_OK)
        fx_write_undo(&job.write);
    if (job.program)
        fx_arena_free(job.program->arena);
    if (status == FX_OK && result)
        *result = job.result;
    return status;
}
