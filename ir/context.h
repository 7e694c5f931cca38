/* ir/context.h: what a context holds; only ir/'s own files look inside.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CONTEXT_H
#define FXCC_CONTEXT_H

#include <setjmp.h>

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
typedef struct fx_target_info {
    const fx_op *op;
    bool inplace;
    const char *base; /* of names of calls: "conv2d"; set by graph.c */
} fx_target_info;

fx_target_info *fx_target_lookup(fx_context *ctx, const char *interned);

struct fx_context {
    void *(*alloc)(void *user, size_t size); /* zeroed */
    void (*dealloc)(void *user, void *p);
    void *user;
    fx_arena *arenas; /* all of them */
    fx_arena *arena;  /* the one with the context's lifetime */
    fx_frame *frame;  /* the innermost fx_protect */
    fx_deferred *deferred, *free_deferred; /* registered outside of any fx_protect; unused records */
    fx_set strings, types, args, syms;
    fx_arena *diag_arena;
    fx_diag *diags;
    size_t n_diags, cap_diags;
    bool out_of_memory; /* the diagnostic oom counts as the last one */
    fx_diag oom;
    fx_storage *storages;
    const fx_schema *schemas[FX_OP_COUNT];
    const fx_schema *class_schemas[FX_MODULE_COUNT];
    fx_map targets;   /* interned target -> fx_target_info */
    const fx_arg *empty_tuple, *empty_dict; /* of most nodes */
};

#endif
