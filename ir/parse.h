/* ir/parse.h: what the files that read .fx texts share: the parser's state, and values in texts.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PARSE_H
#define FXCC_PARSE_H

#include "ir/lex.h"

/* A storage of several tensors. */
typedef struct fx_shared {
    fx_storage *storage;
    bool with_data;
    enum { FX_SHARED_EMPTY, FX_SHARED_VALUES, FX_SHARED_HASHES } has; /* what the text says of those that are not empty */
} fx_shared;

/* A subgraph that was read. */
typedef struct fx_subgraph {
    fx_graph *g;
    int depth;    /* levels of subgraphs, itself included */
    size_t nodes; /* with those of its subgraphs, as often as they are named: what copying makes of it */
} fx_subgraph;

typedef struct fx_parser {
    fx_lexer lx;
    fx_context *ctx;
    fx_arena *tmp;                                    /* for the time of the reading */
    fx_graph *g;                                      /* the graph being read: the whole or a subgraph */
    fx_graph *whole;                                  /* not a subgraph */
    const char *entry;                                /* what nodes say when they say nothing */
    fx_node **operands; size_t n_operands, cap_operands; /* of the node being read */
    fx_shared *shared; size_t n_shared, cap_shared;   /* by number */
    fx_subgraph *subgraphs; size_t n_subgraphs, cap_subgraphs; /* by number */
    int sub_depth;                                    /* of the subgraphs that p->g has named so far */
    size_t sub_nodes;
} fx_parser;

/* A growing list of pointers: items of a sequence, keys of a dict. */
typedef struct fx_list {
    const void **p;
    size_t n, cap;
} fx_list;

static inline void fx_list_push(fx_parser *p, fx_list *l, const void *v)
{
    FX_PUSH(p->tmp, l->p, l->n, l->cap) = v;
}

/* ---- parse_value.c ---- */

/* Sizes or strides up to `close`; sizes are not negative. */
fx_status fx_parse_dims(fx_parser *p, const char *close, int *n, fx_dim *dims, bool sizes);
fx_status fx_parse_type(fx_parser *p, const fx_type **out);
/* An argument; the nodes in it are added to p->operands. */
fx_status fx_parse_arg(fx_parser *p, const fx_arg **out);
/* The same without nodes in it. what: "a setting", for the message. */
fx_status fx_parse_constant(fx_parser *p, const char *what, const fx_arg **out);
/* The number of a subgraph that was read already. */
fx_status fx_parse_subgraph_number(fx_parser *p, fx_graph **out);
/* "(1, 2, key=3)": items by keyword come last. */
fx_status fx_parse_call_args(fx_parser *p, const fx_arg **args, const fx_arg **kwargs);

/* ---- parse_attr.c ---- */

/* What follows "parameter" or "buffer". */
fx_status fx_parse_attr(fx_parser *p, bool is_parameter);
/* A path with more components than any model has is refused: texts and copies may then take a frame for each. */
fx_status fx_parse_path(fx_parser *p, const char *path);

#endif
