/* ir/lex.h: the words of fxcc's two text forms (graphs, loop programs), shared by their printers and parsers.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LEX_H
#define FXCC_LEX_H

#include "ir/ir.h"

typedef enum fx_tok {
    FX_T_END, FX_T_NEWLINE,
    FX_T_NAME,    /* letters, digits, '_' and, where a graph text is read, '.': conv1.weight */
    FX_T_NUMBER,  /* 12, 0.5, 1e-05, 0x1f; a sign is a word of its own */
    FX_T_STRING,  /* "..." */
    FX_T_PUNCT    /* one character, or -> // ** >= ... */
} fx_tok;

/* Nesting deeper than this is refused, so that no text makes a parser recurse without bound. */
enum { FX_LEX_DEPTH = 100 };

/* A text being read, one word ahead. After an error every word is END and `status` says so. */
typedef struct fx_lexer {
    fx_context *ctx;
    fx_loc loc;            /* file */
    const char *at, *end;  /* what follows the current word */
    const char *line_start;
    int line;
    bool dots, newlines;   /* names with dots; newlines are words */
    int depth;             /* open brackets, counted by the parsers */
    fx_status status;
    /* the current word */
    fx_tok kind;
    const char *s;         /* where it is in the text, or the decoded string */
    size_t n;
    const char *start;     /* for columns */
    int start_line;
    const char *start_line_start;
} fx_lexer;

/* Starts at the first word. The text is copied to the context; `//` begins a comment at the start of a line. */
void fx_lex_init(fx_lexer *lx, fx_context *ctx, const char *file, const char *text, size_t size, bool dots, bool newlines);
void fx_lex_next(fx_lexer *lx);
/* Records "line L, column C: expected <what>, got <word>" (once) and returns FX_ERR_FORMAT. */
fx_status fx_lex_fail(fx_lexer *lx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with a message of its own instead of expected and got. */
fx_status fx_lex_error(fx_lexer *lx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool fx_lex_is(const fx_lexer *lx, const char *word);      /* a name or punctuation that reads so */
bool fx_lex_accept(fx_lexer *lx, const char *word);        /* skips it if it is there */
fx_status fx_lex_expect(fx_lexer *lx, const char *word);
fx_status fx_lex_int(fx_lexer *lx, int64_t *v);            /* with sign */
fx_status fx_lex_range(fx_lexer *lx, const char *what, int64_t min, int64_t max, int64_t *v);
fx_status fx_lex_uint(fx_lexer *lx, uint64_t *v);          /* decimal or 0x */
fx_status fx_lex_double(fx_lexer *lx, double *v);          /* with sign; inf, nan */
fx_status fx_lex_name(fx_lexer *lx, const char *what, const char **name); /* a NAME or STRING, interned */
fx_status fx_lex_string(fx_lexer *lx, const char *what, const char **s);  /* a STRING, interned */
fx_status fx_lex_dtype(fx_lexer *lx, fx_dtype *dtype);     /* f32, i64, ... */
fx_status fx_lex_line_end(fx_lexer *lx);                   /* a NEWLINE or the end */
/* Behind a mistake: goes on at the next line. For texts whose newlines are words. */
void fx_lex_recover(fx_lexer *lx);
fx_status fx_lex_enter(fx_lexer *lx);                      /* one level deeper; FX_LEX_DEPTH is the limit */

/* Whether s can stand in a text without quotes: a letter or '_', then letters, digits, '_' (and '.' if dots). */
bool fx_is_word(const char *s, bool dots);
/* s as it is when it is a word, else quoted. */
void fx_put_word(fx_text *t, const char *s, bool dots);
/* A symbolic integer, and how it is spelled so that it reads back. tmp: for the time of the reading. (lex_sym.c, print.c) */
fx_status fx_lex_sym(fx_lexer *lx, fx_arena *tmp, const fx_sym **out);
void fx_put_dim(fx_text *t, fx_dim d);
/* The shortest decimal that reads back as this float: 0.1, where fx_put_double shows what the float is (0.10000000149011612). */
void fx_put_f32(fx_text *t, float v);
/* What "torch.strided" or "torch.channels_last" is: FX_ARG_LAYOUT, FX_ARG_MEMORY_FORMAT, FX_ARG_NONE when neither. (print.c) */
fx_arg_kind fx_torch_name(const char *s);
/* A 64-bit hash of bytes, for telling contents apart in texts (not against malice). */
uint64_t fx_hash_bytes(const void *data, size_t size);

/* ---- subgraphs.c: what printers walk over ---- */

/* All modules from the root on, parents before children: the order of texts. */
const fx_module **fx_modules_in_order(fx_arena *arena, const fx_graph *g, size_t *n);

/* The graphs inside a graph, however deep, each once and before what uses it. A graph that contains itself, which no model has and the
 * verifier refuses, has the number -1. */
typedef struct fx_subgraphs {
    const fx_graph **graphs;
    size_t n, cap;
    fx_map number;           /* graph -> its number + 1 */
} fx_subgraphs;
void fx_find_subgraphs(fx_subgraphs *s, fx_arena *tmp, const fx_graph *whole);
int fx_subgraph_number(const fx_subgraphs *s, const fx_graph *g);

#endif
