/* driver/format.c: graphs and loop programs as texts: fx_graph_format, fx_program_format.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "fxcc/inspect.h"

#include "codegen/python.h"
#include "driver/driver.h"
#include "ir/ir.h"
#include "ir/program.h"
#include "lower/lower.h"
#include "passes/passes.h"

typedef struct format_job {
    fx_graph *graph;
    fx_form form;
    const fx_compile_options *options;
    const char *text;
} format_job;

/* A captured graph's shapes and costs are known once it is legalised, if it can be. */
static fx_status put_table(fx_text *t, fx_graph *g)
{
    size_t before = fx_diag_count(g->ctx);
    fx_graph *legal = g->stage == FX_STAGE_CAPTURED ? fx_graph_copy(g) : NULL;
    fx_status status = legal ? fx_legalize(legal) : FX_OK;

    if (status == FX_ERR_NOMEM)
        return status;
    if (status != FX_OK) {
        fx_diag_truncate(g->ctx, before);
        fx_arena_free(legal->arena);
        legal = NULL;
    }
    fx_graph_print_table(t, g, legal);
    if (legal)
        fx_arena_free(legal->arena);
    return FX_OK;
}

static fx_status format_graph(void *arg)
{
    format_job *job = arg;
    fx_text t;

    fx_text_init(&t, fx_context_arena(job->graph->ctx));
    switch (job->form) {
    case FX_FORM_TABLE: FX_TRY(put_table(&t, job->graph)); break;
    case FX_FORM_TEXT: fx_graph_print(&t, job->graph); break;
    case FX_FORM_DOT: fx_graph_print_dot(&t, job->graph); break;
    case FX_FORM_CODE: FX_TRY(fx_python_code(&t, job->graph)); break;
    case FX_FORM_READABLE: FX_TRY(fx_python_readable(&t, job->graph)); break;
    case FX_FORM_TABULAR: FX_TRY(fx_python_tabular(&t, job->graph)); break;
    case FX_FORM_JSON: fx_graph_print_json(&t, job->graph); break;
    default:
        return fx_fail(job->graph->ctx, FX_ERR_ARGUMENT, NULL, "expected a form of fx_form, got %d", (int)job->form);
    }
    job->text = t.data ? t.data : "";
    return FX_OK;
}

fx_status fx_graph_format(fx_graph *graph, fx_form form, const char **text)
{
    format_job job = {graph, form, NULL, NULL};

    if (!graph || !text)
        return FX_ERR_ARGUMENT;
    FX_TRY(fx_protect(graph->ctx, format_graph, &job));
    *text = job.text;
    return FX_OK;
}

static fx_status format_program(void *arg)
{
    format_job *job = arg;
    static const fx_compile_options defaults = {0};
    const fx_compile_options *o = job->options ? job->options : &defaults;
    fx_program *program = NULL;
    fx_text t;

    FX_TRY(fx_lower_quietly(job->graph, o, &program));
    fx_text_init(&t, fx_context_arena(job->graph->ctx));
    fx_program_print(&t, program);
    job->text = t.data ? t.data : "";
    return FX_OK;
}

fx_status fx_program_format(fx_graph *graph, const fx_compile_options *options, const char **text)
{
    format_job job = {graph, FX_FORM_TEXT, options, NULL};

    if (!graph || !text)
        return FX_ERR_ARGUMENT;
    FX_TRY(fx_protect(graph->ctx, format_program, &job));
    *text = job.text;
    return FX_OK;
}
