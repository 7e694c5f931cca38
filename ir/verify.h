/* ir/verify.h: what the files of the verifier share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_VERIFY_H
#define FXCC_VERIFY_H

#include "ir/context.h"

typedef struct fx_verifier {
    fx_graph *g;
    fx_context *ctx;
    fx_arena *scratch;
    const char *where;     /* "after WHERE: " in messages; NULL: the user asks, fx_graph_lint */
    fx_stage stage;
    unsigned lint;         /* FX_LINT_SCHEMA, FX_LINT_TYPES */
    int depth;             /* of subgraphs */
    fx_arena *arena;       /* of the outermost: */
    fx_map *done;          /* subgraphs that were looked at, each once */
    fx_status status;      /* of findings */
    int n_findings;
    int n_outputs;
    bool past_inputs;      /* nodes were met that no placeholder may follow */
    fx_map inputs;         /* placeholders by target */
    uint8_t *seen;         /* by node id: 1 in the list, 2 passed */
} fx_verifier;

void fx_found(fx_verifier *v, const fx_node *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *fx_verify_type_text(fx_verifier *v, const fx_type *t);

/* verify_node.c: one node of a graph whose structure holds so far. */
void fx_verify_opcode(fx_verifier *v, const fx_node *n);
void fx_verify_stage(fx_verifier *v, const fx_node *n); /* and what lint asks for */
void fx_verify_attr(fx_verifier *v, const fx_attr *a);

#endif
