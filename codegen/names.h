/* codegen/names.h: names and texts of models made safe for C.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Names in a model may be anything. What reaches a generated file goes through one of these: an identifier, a comment,
 * or a string literal. */
#ifndef FXCC_CODEGEN_NAMES_H
#define FXCC_CODEGEN_NAMES_H

#include "ir/ir.h"

enum { FX_IDENT_MAX = 63 }; /* characters that C99 guarantees to be significant */

/* Writes to out the identifier text becomes: [A-Za-z0-9_], at most max <= FX_IDENT_MAX characters, no leading digit or
 * underscore, no double underscore (C++ reserves it), not reserved. "" becomes fallback. Different texts may become equal: see fx_names. */
void fx_ident(char out[FX_IDENT_MAX + 1], const char *text, int max, const char *fallback);

/* Whether s is a keyword of C or C++, a name of the C library or a compiler builtin, a common macro, or kept for the runtime. */
bool fx_ident_reserved(const char *s);

/* Whether a file s.h would hide a header of the system. */
bool fx_header_reserved(const char *s);

/* A set of names in use within one scope of the generated file; an outer scope's names are avoided too. */
typedef struct fx_names {
    fx_arena *arena;
    const struct fx_names *outer;
    const char **slot;
    size_t n, cap;
} fx_names;

void fx_names_init(fx_names *s, fx_arena *arena, const fx_names *outer);
bool fx_names_has(const fx_names *s, const char *name);
const char *fx_names_take(fx_names *s, const char *name);          /* name as it is; a copy that lasts as long as the set */
/* An identifier like want, free in s and its outer scopes, and taken from now on. */
const char *fx_names_make(fx_names *s, const char *want, int max, const char *fallback);

/* The inside of a comment: one line of printable ASCII, at most max characters, without anything that ends or starts a comment,
 * continues a line or forms a trigraph. Other characters appear as <U+00E9>. */
void fx_put_comment(fx_text *t, const char *s, size_t max);
/* A string literal with its quotes, at most max characters of s. */
void fx_put_c_string(fx_text *t, const char *s, size_t max);
/* s in capitals, for macros. */
const char *fx_upper(fx_arena *arena, const char *s);

#endif
