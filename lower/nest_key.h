/* lower/nest_key.h: statements that differ only in their buffers' and variables' numbers have one key.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_NEST_KEY_H
#define FXCC_LOWER_NEST_KEY_H

#include "ir/program.h"

typedef struct fx_nest_keys fx_nest_keys; /* a table of keys with a value each */
fx_nest_keys *fx_nest_keys_new(fx_arena *arena);
/* The value of the key of one statement, `same` telling whether two buffers may be one place in memory; NULL when it is new: put one. */
void **fx_nest_keys_find(fx_nest_keys *k, const fx_program *p, const fx_stmt *s, bool (*same)(void *user, int a, int b), void *user);

#endif
