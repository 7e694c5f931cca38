/* lower/memory.h: what the files of the memory pass (lower/memory*.c) share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_MEMORY_H
#define FXCC_LOWER_MEMORY_H

#include "lower/lower.h"

enum { FX_MEMORY_ALIGN = 64 };

/* Buffers that share a place. Steps are numbered; first > last: never used. */
typedef struct fx_block {
    uint64_t size, offset;         /* size: with symbols, at the values the planner takes for them at the moment */
    fx_dim bytes;
    int64_t first, last;
    int slot;                      /* with symbols */
    int id;                        /* its place in fx_planner.blocks */
    int64_t key;                   /* what the present order sorts by */
    int seen;                      /* the last search that found it */
} fx_block;

/* Placed blocks by the steps of their lives, so that those alive with another one are found without looking at all: a tree over the steps
 * whose nodes are halves of halves; a block stands at the few nodes that make up its life. */
typedef struct fx_timeline {
    fx_arena *arena;
    int64_t leaves;                /* a power of two; node i has the halves 2 i and 2 i + 1 */
    int *head;                     /* of a list of entries, by node; -1: none */
    int *below;                    /* entries at the node and below */
    struct fx_timeline_entry { fx_block *b; int next; } *entries;
    size_t n, cap;
} fx_timeline;

typedef struct fx_planner {
    fx_program *p;
    int64_t *first, *last;         /* by buffer id */
    int *block_of;                 /* by buffer id, -1: none */
    int *chain_of;                 /* of workspace in a region: a number of the region's stream, whose steps run one after another; 0: none */
    fx_block *blocks;
    int n_blocks;
    int64_t step;                  /* being scanned */
} fx_planner;

uint64_t fx_memory_align(uint64_t n);
/* The most bytes alive in one step, with blocks of their present sizes: no plan can be smaller. */
uint64_t fx_memory_live(const fx_planner *pl, fx_arena *scratch);

/* How a try orders blocks: by size, by life, by size x life, by start; then sizes perturbed by a fixed sequence. */
enum { FX_MEMORY_ORDERS = 4 };
void fx_memory_order(fx_planner *pl, int attempt, fx_block **order);
/* Takes a block out of the order and puts it in somewhere else. */
void fx_memory_vary(uint32_t *noise, int n, fx_block **order);
/* Places blocks of their present sizes in the given order; returns the arena's size. `near` is scratch of n pointers. */
uint64_t fx_memory_place(fx_timeline *t, int n, fx_block **order, fx_block **near);

fx_timeline fx_timeline_new(fx_arena *arena, size_t n_steps);
void fx_timeline_clear(fx_timeline *t);
void fx_timeline_add(fx_timeline *t, fx_block *b);
/* The blocks of the timeline that live at some step of b's life, once each; `search` is new for each call and not -1. */
int fx_timeline_near(const fx_timeline *t, const fx_block *b, int search, fx_block **found);

/* memory_slots.c: places for blocks whose sizes are expressions. */
void fx_memory_slots(fx_planner *pl, fx_arena *scratch);

#endif
