/* ir/context.h: what a context holds; only ir/'s own files look inside.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CONTEXT_H
#define FXCC_CONTEXT_H

#include <setjmp.h>
#include <stdatomic.h>

#include "ir/ir.h"

/* A hash set of interned things: strings, types, arguments, symbols. */
typedef struct fx_set {
    struct fx_set_slot *slots;
    size_t n, cap;
} fx_set;

typedef bool fx_set_equal(const void *entry, const void *key);

/* The entry equal to key, or NULL; fx_set_add then puts a new one in (the same hash). */
void *fx_set_find(const fx_set *s, uint64_t hash, fx_set_equal *equal, const void *key);
void fx_set_add(fx_arena *arena, fx_set *s, uint64_t hash, void *entry);

static inline uint64_t fx_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static inline uint64_t fx_mix_ptr(uint64_t h, const void *p)
{
    return fx_mix(h, (uint64_t)(uintptr_t)p >> 4);
}

typedef struct fx_deferred {
    void (*close)(void *arg);
    void *arg;
    struct fx_deferred *next;
} fx_deferred;

/* One running fx_protect. */
typedef struct fx_frame {
    struct fx_frame *outer;
    fx_deferred *deferred;
    jmp_buf jump;
} fx_frame;

/* What a target says, found out once. */
typedef struct fx_target_facts {
    const fx_op *op;
    bool inplace;
    bool reserved;    /* base is: see naming.c */
    uint16_t effects; /* effect.c's; 0: not found out yet */
    int8_t inplace_argument, training_argument;
    const char *base; /* of names of calls: "conv2d"; set by naming.c */
} fx_target_facts;

fx_target_facts *fx_target_lookup(fx_context *ctx, const char *interned);
fx_target_facts *fx_method_lookup(fx_context *ctx, const char *interned); /* of a call_method: of "Tensor.NAME" */

/* value.c: fx_values of one node, or of settings (graph NULL: no nodes), become templates; nodes gets the operands in order. Nodes are
 * checked to be of the graph; messages are about loc. */
typedef struct fx_values {
    fx_context *ctx;
    fx_graph *graph;
    const fx_loc *loc;
    size_t n, cap;
    fx_node **nodes, *small[16];
} fx_values;
void fx_values_begin(fx_values *v, fx_context *ctx, fx_graph *g, const fx_loc *loc);
fx_status fx_values_add(fx_values *v, const fx_value *value, const fx_arg **out);
fx_status fx_values_tuple(fx_values *v, int n, const fx_value *items, const fx_arg **out);
fx_status fx_values_dict(fx_values *v, int n, const char *const *keys, const fx_value *items, const fx_arg **out);
/* Whether n can be used in g; role names it in the message: "an argument". */
fx_status fx_node_check(fx_context *ctx, const fx_graph *g, const fx_node *n, const fx_loc *loc, const char *role);
/* The text of fx_put_double into buf; returns it. */
const char *fx_double_text(double v, char buf[64]);

/* naming.c: a name found for a new node, not yet taken. Making it does all that may run out of memory, taking it cannot fail. */
typedef struct fx_name {
    const char *name, *base;
    uintptr_t num;
} fx_name;
/* given: the name wished for, else made from the interned target (info: of a call_function's target). keep: a builtin's name is kept (a file's), as long as it is no keyword. */
fx_name fx_name_make(fx_graph *g, fx_opcode opcode, const char *target, fx_target_facts *info, const char *given, bool keep);
void fx_name_take(fx_graph *g, const fx_name *name, fx_node *n);

/* fx_node_new; keep as in fx_name_make. */
fx_node *fx_node_make(fx_graph *g, fx_opcode opcode, const char *target, const fx_arg *args, const fx_arg *kwargs, int n_operands,
                      fx_node *const *operands, const char *name, bool keep);

/* A copy of n in g with these operands, its type, place and notes; subgraphs are copied when g is another graph. */
fx_node *fx_node_clone(fx_graph *g, const fx_node *n, fx_node *const *operands, const char *name, bool keep);

/* A call was written by the caller: the graph is at the captured stage from now on. */
void fx_node_leave_stage(fx_node *n);

/* Notes, also of modules. */
fx_status fx_meta_set(fx_context *ctx, fx_arena *arena, const fx_loc *loc, fx_meta **list, const char *key, const fx_value *v);
const fx_arg *fx_meta_get(const fx_meta *list, const char *key); /* NULL when absent */

enum { FX_CACHED = 16 };

/* The target interned, and what it says when it is a function's (NULL: not asked for). */
const char *fx_target_intern(fx_context *ctx, const char *target, fx_target_facts **info);
/* The tuple of the operands 0 to n - 1, n < FX_CACHED: what most calls have. */
const fx_arg *fx_arg_operand_tuple(fx_context *ctx, int n);
/* As fx_intern_n; *fresh: there was no such string before. */
const char *fx_intern_fresh(fx_context *ctx, const char *text, size_t n, bool *fresh);

/* A word between a context and what uses its memory but may outlive it: compiled functions. Counted; any thread may look. */
struct fx_lease {
    void (*dealloc)(void *user, void *p);
    void *user;
    atomic_int holders;
    atomic_bool over;            /* the context was freed */
};

struct fx_context {
    void *(*alloc)(void *user, size_t size); /* zeroed */
    void (*dealloc)(void *user, void *p);
    void *user;
    bool apart;       /* tests: each allocation from an arena is one from alloc, so that each can fail */
    fx_arena *arenas; /* all of them, the newest first */
    uint64_t serial;  /* how many arenas and storages were made */
    fx_lease *lease;  /* NULL until asked for */
    fx_arena *arena;  /* the one with the context's lifetime */
    fx_frame *frame;  /* the innermost fx_protect */
    fx_deferred *deferred, *free_deferred; /* registered outside of any fx_protect; unused records */
    fx_set strings, types, args, syms;
    fx_arena *diag_arena;
    fx_diag *diags;
    size_t n_diags, cap_diags;
    bool out_of_memory; /* the diagnostic oom counts as the last one: memory ran out, or the work was cancelled */
    fx_diag oom;
    bool (*stop)(void *user); /* fx_context_set_interrupt */
    void *stop_user;
    fx_storage *storages;
    const fx_schema *schemas[FX_OP_COUNT];
    const fx_schema *class_schemas[FX_MODULE_COUNT];
    const fx_op *overloads[FX_OP_COUNT]; /* the next row of the same packet, once asked for */
    fx_map targets, methods; /* interned target -> fx_target_facts */
    fx_map classes;   /* interned class name -> fx_class, fx_classes[0] for none */
    const fx_arg *empty_tuple, *empty_dict; /* of most nodes */
    const fx_arg *operands[FX_CACHED], *operand_tuples[FX_CACHED]; /* %0, %1, ...; (), (%0,), (%0, %1), ... once asked for */
    struct {
        const char *text, *interned;
        fx_target_facts *info;
    } recent[FX_CACHED]; /* targets by the address a caller gave them at, which may hold another text next time */
};

/* A term of a sum as coefficient times n factors; one: room for a single factor. */
int64_t fx_sym_factors(const fx_sym *term, int *n, const fx_sym *const **args, const fx_sym **one);
/* dim_cases.c: what fx_dim_at_least asks last. */
bool fx_dim_at_least_by_cases(fx_symbols symbols, const fx_sym *s, int64_t v);

#endif
