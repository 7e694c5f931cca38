/* ir/diag.c: diagnostics collected in the context.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <string.h>

#include "ir/context.h"

const char *fx_status_string(fx_status status)
{
    switch (status) {
    case FX_OK: return "ok";
    case FX_ERR_ARGUMENT: return "bad argument";
    case FX_ERR_IO: return "input/output error";
    case FX_ERR_FORMAT: return "malformed file";
    case FX_ERR_UNSUPPORTED: return "not supported";
    case FX_ERR_TYPE: return "type error";
    case FX_ERR_NOMEM: return "out of memory";
    case FX_INTERNAL: return "internal error, please report";
    case FX_ERR_CANCELLED: return "cancelled";
    }
    return "unknown status";
}

typedef struct record {
    fx_context *ctx;
    fx_severity severity;
    fx_status status;
    const fx_loc *loc;
    const char *fmt;
    va_list ap;
} record;

static const char *keep(fx_context *ctx, const char *s)
{
    return s ? fx_arena_dup(ctx->diag_arena, s, strlen(s) + 1) : NULL;
}

static fx_status add(void *arg)
{
    record *r = arg;
    fx_context *ctx = r->ctx;
    static const fx_loc nowhere;
    const fx_loc *loc = r->loc ? r->loc : &nowhere;
    fx_diag d = {
        .severity = r->severity,
        .status = r->status,
        .file = keep(ctx, loc->file),
        .entry = keep(ctx, loc->entry),
        .node = keep(ctx, loc->node),
        .module = keep(ctx, loc->module),
        .frame = keep(ctx, loc->frame),
        .message = fx_arena_vprintf(ctx->diag_arena, r->fmt, r->ap),
    };
    FX_PUSH(ctx->diag_arena, ctx->diags, ctx->n_diags, ctx->cap_diags) = d;
    return FX_OK;
}

/* Outside of any fx_protect a lack of memory must not unwind: the context then says "out of memory" instead. */
static void report(record *r)
{
    if (r->ctx->frame)
        add(r);
    else
        fx_protect(r->ctx, add, r);
}

fx_status fx_fail(fx_context *ctx, fx_status status, const fx_loc *loc, const char *fmt, ...)
{
    record r = {.ctx = ctx, .severity = FX_ERROR, .status = status, .loc = loc, .fmt = fmt};
    va_start(r.ap, fmt);
    report(&r);
    va_end(r.ap);
    return status;
}

void fx_warn(fx_context *ctx, const fx_loc *loc, const char *fmt, ...)
{
    record r = {.ctx = ctx, .severity = FX_WARNING, .status = FX_OK, .loc = loc, .fmt = fmt};
    va_start(r.ap, fmt);
    report(&r);
    va_end(r.ap);
}

void fx_remark(fx_context *ctx, const fx_loc *loc, const char *fmt, ...)
{
    record r = {.ctx = ctx, .severity = FX_REMARK, .status = FX_OK, .loc = loc, .fmt = fmt};
    va_start(r.ap, fmt);
    report(&r);
    va_end(r.ap);
}

fx_status fx_fail_in(fx_words w, fx_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (w.text && w.size)
        vsnprintf(w.text, w.size, fmt, ap);
    va_end(ap);
    return status;
}

size_t fx_diag_count(const fx_context *ctx)
{
    return ctx->n_diags + ctx->out_of_memory;
}

const fx_diag *fx_diag_get(const fx_context *ctx, size_t i)
{
    if (i < ctx->n_diags)
        return &ctx->diags[i];
    return i == ctx->n_diags && ctx->out_of_memory ? &ctx->oom : NULL;
}

void fx_diag_truncate(fx_context *ctx, size_t count)
{
    ctx->out_of_memory = ctx->out_of_memory && count > ctx->n_diags;
    if (count < ctx->n_diags)
        ctx->n_diags = count;
}

/* Keeps the arena when there was nothing in it, so that clearing in a loop costs nothing. */
void fx_diag_clear(fx_context *ctx)
{
    ctx->out_of_memory = false;
    if (!ctx->n_diags)
        return;
    ctx->diags = NULL;
    ctx->n_diags = ctx->cap_diags = 0;
    fx_arena_reset(ctx->diag_arena);
}

typedef struct out {
    char *buf;
    size_t size, n; /* n: length of the whole text */
} out;

static void put(out *o, const char *s)
{
    for (; *s; s++, o->n++)
        if (o->n + 1 < o->size)
            o->buf[o->n] = *s;
}

size_t fx_diag_format(const fx_diag *diag, char *buf, size_t size)
{
    out o = {buf, size, 0};
    if (diag->file) {
        put(&o, diag->file);
        put(&o, ": ");
    }
    if (diag->entry) {
        put(&o, diag->entry);
        put(&o, ": ");
    }
    bool where = diag->module || diag->frame;
    if (diag->node) {
        put(&o, "node '");
        put(&o, diag->node);
        put(&o, where ? "' " : "'");
    }
    if (where) {
        put(&o, "(");
        put(&o, diag->module ? diag->module : "");
        put(&o, diag->module && diag->frame ? ", " : "");
        put(&o, diag->frame ? diag->frame : "");
        put(&o, ")");
    }
    if (diag->node || where)
        put(&o, ": ");
    put(&o, diag->message);
    if (size)
        buf[o.n < size ? o.n : size - 1] = '\0';
    return o.n;
}
