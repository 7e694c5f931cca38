/* passes/legalize.h: what the files legalize*.c share: one node on its way from torch.fx's spelling to rows of op.def.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASSES_LEGALIZE_H
#define FXCC_PASSES_LEGALIZE_H

#include "passes/passes.h"

struct fx_lg;
typedef void fx_lg_rule(struct fx_lg *l);

/* A row of legalize.def. */
typedef struct fx_lg_row {
    const char *names;            /* of functions and methods */
    fx_module_id module;
    const char *signature;
    fx_opid op;
    const char *spare;
    fx_lg_rule *rule;
} fx_lg_row;

/* What the nodes of one graph share: signatures parsed once. */
typedef struct fx_lg_run {
    fx_graph *g;
    fx_arena *scratch;
    const fx_schema **signatures; /* by row */
    fx_map calls;                 /* target -> row, or none; methods under ".name" */
    int depth;                    /* of chains in chains */
} fx_lg_run;

void fx_lg_begin(fx_lg_run *run, fx_graph *g, fx_arena *scratch);

/* The node being legalised. Arguments are trees whose FX_ARG_NODE numbers index `operands`: the node's own, then those made for it. A rule
 * ends in exactly one of fx_lg_become, fx_lg_same, fx_lg_value, fx_lg_refuse; the first failure sticks in status. */
typedef struct fx_lg {
    fx_lg_run *run;
    fx_graph *g;
    fx_context *ctx;
    fx_arena *scratch;
    fx_node *at;
    const fx_module *module;      /* called, or NULL */
    const fx_lg_row *row;
    fx_node **operands;
    size_t n, cap;
    const fx_schema *schema;      /* of the row's signature */
    const fx_arg *bound[16];      /* by its parameters */
    bool inplace;
    fx_status status;
    const char *why;              /* of FX_ERR_UNSUPPORTED: not yet recorded, so that equal ones can be counted */
    bool done;
    fx_node *result;              /* what stands for the node; NULL: a value of Python in its users' arguments */
} fx_lg;

/* ---- legalize_call.c: rows, arguments, calls made ------------------------------------------------------------------------- */

/* Row i of legalize.def, NULL past the last. */
const fx_lg_row *fx_lg_row_at(int i);
const fx_lg_row *fx_lg_find_call(fx_lg_run *run, const fx_node *n);
const fx_lg_row *fx_lg_find_module(const fx_class *c);
/* Binds the node's arguments to the row's signature and does what the row says. */
void fx_lg_apply(fx_lg *l);

/* A parameter of the signature, a setting of the module, by name; NULL when there is none. */
const fx_arg *fx_lg_arg(fx_lg *l, const char *name);
bool fx_lg_true(fx_lg *l, const char *name);
/* A parameter or buffer of the called module as an operand; None when it has none of that name. */
const fx_arg *fx_lg_attr(fx_lg *l, const char *name);
const fx_arg *fx_lg_leaf(fx_lg *l, fx_node *n);                       /* as an operand */
fx_node *fx_lg_node(const fx_lg *l, const fx_arg *a);                 /* NULL when it is no node */
const fx_type *fx_lg_type(const fx_lg *l, const fx_arg *a);           /* of a tensor; NULL when it is none */

/* A new call before the node, "<at>_<suffix>"; None once something failed. Arguments that are missing at the end have their defaults. */
const fx_arg *fx_lg_emit(fx_lg *l, const char *suffix, fx_opid op, int n, const fx_arg *const *args);
#define FX_LG_EMIT(l, suffix, op, ...)                                                                     \
    fx_lg_emit((l), (suffix), (op), (int)(sizeof((const fx_arg *[]){__VA_ARGS__}) / sizeof(fx_arg *)), (const fx_arg *[]){__VA_ARGS__})
/* A new call of the in-place variant, of which nothing but the write is wanted. */
void fx_lg_write(fx_lg *l, const char *suffix, fx_opid op, int n, const fx_arg *const *args);
/* The node itself becomes the call; name, users and place stay. */
void fx_lg_become(fx_lg *l, fx_opid op, int n, const fx_arg *const *args);
#define FX_LG_BECOME(l, op, ...)                                                                           \
    fx_lg_become((l), (op), (int)(sizeof((const fx_arg *[]){__VA_ARGS__}) / sizeof(fx_arg *)), (const fx_arg *[]){__VA_ARGS__})
void fx_lg_same(fx_lg *l, const fx_arg *operand);                     /* another node stands for it */
void fx_lg_value(fx_lg *l, const fx_arg *v);                          /* its users get this argument instead */
void fx_lg_refuse(fx_lg *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Numbers as arguments. */
const fx_arg *fx_lg_int(const fx_lg *l, int64_t v);
const fx_arg *fx_lg_float(const fx_lg *l, double v);
const fx_arg *fx_lg_bool(const fx_lg *l, bool v);

/* Rules that rows of legalize.def name. */
#define MODULE(class_name, forward, op, spare, rule) fx_lg_rule rule;
#define CALL(names, signature, op, spare, rule) fx_lg_rule rule;
#include "passes/legalize.def"
#undef MODULE
#undef CALL

#endif
