/* ir/snapshot.c: a graph as it was, to go back to when an edit of many steps fails: an edit happens whole or not at all.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Nothing in a graph's arena goes away, so all pointers stay good: what is kept is the content of the structs as they were, nodes made since
 * become erased ones. Elements of tensors are not kept: edits put new tensors in place instead of writing into those there. */
#include <string.h>

#include "ir/context.h"

/* Copies lie one after another in blocks, each with what it is a copy of before it. */
typedef struct copy {
    void *at;
    size_t size;
} copy;

typedef struct block {
    struct block *next;
    char *data;
    size_t used, size;
} block;

struct fx_snapshot {
    fx_graph *graph;
    block *blocks;
    const void *by_name, *name_counts, *attrs_by_path, *modules_by_path, *attr_counts, *attrs_by_storage;
};

enum { BLOCK = 1 << 16, ALIGN = sizeof(copy) };

static void add_block(fx_snapshot *s, fx_arena *arena, size_t size)
{
    block *b = FX_NEW(arena, block);
    b->size = size;
    b->data = fx_arena_alloc(arena, size);
    b->next = s->blocks;
    s->blocks = b;
}

/* About what copies of the graph take: one block of that size is no larger than needed, and of large graphs on large pages. */
static size_t estimate(const fx_graph *g)
{
    size_t node = sizeof(fx_node) + 2 * (sizeof *g->first->operands + sizeof(copy));
    size_t module = sizeof(fx_module) + sizeof(fx_module *) + 2 * (sizeof(copy) + ALIGN);
    size_t attr = sizeof(fx_attr) + 2 * sizeof(fx_attr *) + 2 * sizeof(copy);
    return sizeof *g + 16 * ALIGN + g->n_nodes * node + g->modules_by_path.n * module + g->n_attrs * attr;
}

static void save(fx_snapshot *s, fx_arena *arena, void *at, size_t size)
{
    size_t need = sizeof(copy) + (size + ALIGN - 1) / ALIGN * ALIGN;
    block *b = s->blocks;
    if (!size)
        return;
    if (!b || b->size - b->used < need) {
        add_block(s, arena, need > BLOCK ? need : BLOCK);
        b = s->blocks;
    }
    *(copy *)(void *)(b->data + b->used) = (copy){at, size};
    memcpy(b->data + b->used + sizeof(copy), at, size);
    b->used += need;
}

static void save_modules(fx_snapshot *s, fx_arena *arena, fx_module *root)
{
    fx_module **todo = NULL;
    size_t n = 0, cap = 0;
    FX_PUSH(arena, todo, n, cap) = root;
    while (n > 0) {
        fx_module *m = todo[--n];
        save(s, arena, m, sizeof *m);
        save(s, arena, m->children, m->n_children * sizeof *m->children);
        save(s, arena, m->attrs, m->n_attrs * sizeof *m->attrs);
        for (size_t i = 0; i < m->n_attrs; i++)
            save(s, arena, m->attrs[i], sizeof *m->attrs[i]);
        for (size_t i = 0; i < m->n_children; i++)
            FX_PUSH(arena, todo, n, cap) = m->children[i];
    }
}

fx_snapshot *fx_snapshot_take(fx_graph *g, fx_arena *arena)
{
    fx_snapshot *s = FX_NEW(arena, fx_snapshot);
    s->graph = g;
    add_block(s, arena, estimate(g));
    FX_FOR_NODES(g, n) {
        save(s, arena, n, sizeof *n);
        save(s, arena, n->operands, (size_t)n->n_operands * sizeof *n->operands);
        for (fx_meta *m = n->meta; m; m = m->next)
            save(s, arena, m, sizeof *m);
    }
    save_modules(s, arena, g->root);
    save(s, arena, g->attrs, g->n_attrs * sizeof *g->attrs);
    save(s, arena, g->symbols, g->n_symbols * sizeof *g->symbols);
    save(s, arena, g, sizeof *g);
    s->by_name = fx_map_save(arena, &g->by_name);
    s->name_counts = fx_map_save(arena, &g->name_counts);
    s->attrs_by_path = fx_map_save(arena, &g->attrs_by_path);
    s->modules_by_path = fx_map_save(arena, &g->modules_by_path);
    s->attr_counts = fx_map_save(arena, &g->attr_counts);
    s->attrs_by_storage = fx_map_save(arena, &g->attrs_by_storage);
    return s;
}

void fx_snapshot_restore(const fx_snapshot *s)
{
    fx_graph *g = s->graph;
    uint32_t n_ids = g->n_ids; /* ids are not given twice */
    /* The tables of maps are those of now: older ones were given back. */
    fx_map *const maps[] = {&g->by_name, &g->name_counts, &g->attrs_by_path, &g->modules_by_path, &g->attr_counts, &g->attrs_by_storage};
    enum { MAPS = sizeof maps / sizeof *maps };
    fx_map now[MAPS];
    for (int i = 0; i < MAPS; i++)
        now[i] = *maps[i];
    FX_FOR_NODES(g, n) { /* those that were there before are brought back below */
        n->erased = true;
        n->n_operands = n->n_uses = 0;
        n->first_use = n->last_use = NULL;
    }
    for (const block *b = s->blocks; b; b = b->next) {
        for (size_t at = 0; at < b->used;) {
            const copy *c = (const void *)(b->data + at);
            memcpy(c->at, c + 1, c->size);
            at += sizeof *c + (c->size + ALIGN - 1) / ALIGN * ALIGN;
        }
    }
    g->n_ids = n_ids;
    for (int i = 0; i < MAPS; i++)
        *maps[i] = now[i];
    fx_map_restore(&g->by_name, s->by_name);
    fx_map_restore(&g->name_counts, s->name_counts);
    fx_map_restore(&g->attrs_by_path, s->attrs_by_path);
    fx_map_restore(&g->modules_by_path, s->modules_by_path);
    fx_map_restore(&g->attr_counts, s->attr_counts);
    fx_map_restore(&g->attrs_by_storage, s->attrs_by_storage);
}
