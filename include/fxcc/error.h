/* fxcc/error.h: contexts, status codes and diagnostics.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_ERROR_H
#define FXCC_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What every fallible public function returns. On anything but FX_OK at least one
 * diagnostic has been added to the context and outputs are untouched. */
typedef enum fx_status {
    FX_OK = 0,
    FX_ERR_ARGUMENT,    /* the caller passed something a function does not take */
    FX_ERR_IO,          /* a file could not be opened, read or written */
    FX_ERR_FORMAT,      /* a file is not what it claims to be */
    FX_ERR_UNSUPPORTED, /* valid input that fxcc does not handle */
    FX_ERR_TYPE,        /* shapes or dtypes that contradict each other */
    FX_ERR_NOMEM,       /* out of memory */
    FX_INTERNAL,        /* a broken invariant of fxcc itself: please report */
    FX_ERR_CANCELLED    /* fx_context_set_interrupt's function said to stop */
} fx_status;

/* "ok", "bad argument", ... Never NULL. */
const char *fx_status_string(fx_status status);

/* A context owns strings, types, graphs and diagnostics. There are no globals: two threads may each
 * use their own context at once; one context is used by one thread at a time. */
typedef struct fx_context fx_context;

/* A new context, or NULL when out of memory. Free with fx_context_free. */
fx_context *fx_context_create(void);

/* Frees the context and everything made in it. NULL is allowed. */
void fx_context_free(fx_context *ctx);

/* stop is asked now and then (about once for every 64 KB that work in the context takes, and between LLVM's steps) during calls that load,
 * change, compile; when it returns true the call ends with FX_ERR_CANCELLED, as if memory had run out: graphs are as they were. It must go on
 * saying so until the call has returned, and be quick. NULL: nobody is asked. A run of a compiled function is not stopped. */
void fx_context_set_interrupt(fx_context *ctx, bool (*stop)(void *user), void *user);

typedef enum fx_severity { FX_REMARK, FX_WARNING, FX_ERROR } fx_severity;

/* One message. Strings live until the context is freed or fx_diag_clear; absent parts are NULL. */
typedef struct fx_diag {
    fx_severity severity;
    fx_status status;
    const char *file;    /* the model file */
    const char *entry;   /* the entry in the archive */
    const char *node;    /* the node's name */
    const char *module;  /* the module path: "layer1.0.conv2" */
    const char *frame;   /* the Python source line: "models/resnet.py:92" */
    const char *message; /* what was expected, what was seen */
} fx_diag;

size_t fx_diag_count(const fx_context *ctx);

/* The i-th diagnostic, or NULL when there is none. */
const fx_diag *fx_diag_get(const fx_context *ctx, size_t i);

void fx_diag_clear(fx_context *ctx);
void fx_diag_truncate(fx_context *ctx, size_t count); /* forgets all but the first */

/* Writes "file: entry: node 'n' (module.path, frame): message" into buf as snprintf does: at most
 * size bytes with the terminating zero; returns the length the whole text has. */
size_t fx_diag_format(const fx_diag *diag, char *buf, size_t size);

#ifdef __cplusplus
}
#endif
#endif
