/* ir/program_check.h: what the files of the loop program's verifier share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PROGRAM_CHECK_H
#define FXCC_PROGRAM_CHECK_H

#include "ir/program.h"

/* What the accesses of the program tell about a buffer. */
typedef struct fx_life {
    int first, last;          /* steps that touch it; -1: none. After fx_check_streams: to the ends of their regions */
    int alone;                /* after it: the step, where only one touches it; else -1 */
    int first_write;
    fx_dim lo, hi;            /* the hull of the elements written so far */
    bool told;                /* one finding a buffer is enough */
} fx_life;

typedef struct fx_check_local {
    int id;
    fx_dtype dtype;
    int parallel_depth;       /* loops around its definition whose iterations run at once */
} fx_check_local;

/* A variable that an index may use: a loop's, or a checked local's (FX_VAR_LOCAL). */
typedef struct fx_check_var {
    int var;
    fx_dim extent;
    fx_loop_kind kind;        /* SERIAL for a checked local */
    const fx_stmt *at;        /* the loop or the check */
} fx_check_var;

enum { FX_CHECK_DEPTH = 64 };

typedef struct fx_check {
    fx_program *p;
    fx_context *ctx;
    fx_arena *arena;          /* scratch */
    fx_symbols symbols;
    const char *where;
    int findings;
    int step;                 /* number of the step being checked */
    fx_life *lives;
    int *declared;            /* of each LOCAL buffer: the step whose ARRAY declares it; -1: none */
    int *slot_seen, *slot_stack, slot_search; /* of the search through slots, by slot; the last one */
    /* the scope of the statement being checked */
    fx_check_var vars[FX_CHECK_DEPTH];
    int n_vars, n_loops, parallel_depth;
    bool guarded;             /* inside a guard or check that threads may decide differently */
    int *used_vars; size_t n_used_vars, cap_used_vars;
    fx_check_local *locals; size_t n_locals, cap_locals;         /* visible ones */
    int *arrays; size_t n_arrays, cap_arrays;                    /* likewise, by buffer id */
    int *used_locals; size_t n_used_locals, cap_used_locals;
} fx_check;

void fx_check_bad(fx_check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *fx_check_text(const fx_check *c, fx_dim d);
bool fx_check_le(const fx_check *c, fx_dim a, fx_dim b);           /* proved: a <= b */
bool fx_check_buf(const fx_check *c, int buf);                     /* it exists */
const char *fx_check_buf_name(const fx_check *c, int buf);
const fx_check_local *fx_check_find_local(const fx_check *c, int id);
bool fx_check_sees_array(const fx_check *c, int buf);

/* program_aligned.c: what program.h says of aligned loops */
void fx_check_aligned(fx_check *c, const fx_stmt *loop, bool grid);

/* program_reduce.c: what program.h says of reductions over threads */
void fx_check_reduce(fx_check *c, const fx_stmt *s);
bool fx_check_op_takes(fx_sop op, fx_dtype d);                     /* program_verify.c: the operation exists for the type */

/* program_kernel_check.c */
void fx_check_call(fx_check *c, const fx_call_stmt *call);
/* program_races.c: the loop just entered, the last of c->vars, around s->body, whose indices are sound. */
void fx_check_parallel(fx_check *c, const fx_stmt *s);
/* Two loops of a list, whose indices are sound; *buf: where they meet. */
bool fx_check_apart(fx_check *c, const fx_stmt *a, const fx_stmt *b, int *buf);
const char *fx_check_loop_kind(fx_loop_kind kind);
/* program_lives.c: bounds, written before read, lives; then the plan. */
void fx_check_accesses(fx_check *c);
void fx_check_memory(fx_check *c);
/* program_streams.c: regions are what program.h says; then buffers live as long as the regions of the steps that touch them. */
void fx_check_streams(fx_check *c);

#endif
