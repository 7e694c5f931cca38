/* ir/map.c: hash tables: a map between pointers, and the sets behind interning. Open addressing, linear probing, at
 * most three quarters full. Large tables are blocks of their arena, given back when they grow.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

struct fx_map_slot {
    const void *key;
    void *value;
};

/* The upper half of a product depends on all bits of the hash; texts that differ at their ends only differ in its upper bits. */
static size_t spread(uint64_t hash)
{
    return (size_t)((hash ^ hash >> 32) * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

static size_t home(const void *key)
{
    return spread((uint64_t)(uintptr_t)key >> 4);
}

/* Where key is or would go; the table is never full. */
static size_t map_place(const fx_map *m, const void *key)
{
    size_t mask = m->cap - 1, i = home(key) & mask;
    while (m->slots[i].key && m->slots[i].key != key)
        i = (i + 1) & mask;
    return i;
}

void *fx_map_get(const fx_map *m, const void *key)
{
    return m->cap && key ? m->slots[map_place(m, key)].value : NULL;
}

/* Tables of fewer slots come from the arena's common memory: most maps stay small. */
enum { LARGE = 128 };

static void *new_table(fx_arena *arena, size_t cap, size_t slot)
{
    return cap < LARGE ? fx_arena_array(arena, cap, slot) : fx_arena_block(arena, cap, slot);
}

static void drop_table(fx_arena *arena, void *slots, size_t cap)
{
    if (cap >= LARGE)
        fx_arena_unblock(arena, slots);
}

static bool is_full(size_t n, size_t cap)
{
    return n > cap / 4 * 3;
}

void fx_map_reserve(fx_arena *arena, fx_map *m, size_t more)
{
    if (!is_full(m->n + more, m->cap))
        return;
    fx_map big = {.cap = m->cap ? 2 * m->cap : 16, .n = m->n};
    while (is_full(m->n + more, big.cap))
        big.cap *= 2;
    big.slots = new_table(arena, big.cap, sizeof *big.slots);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].key)
            big.slots[map_place(&big, m->slots[i].key)] = m->slots[i];
    drop_table(arena, m->slots, m->cap);
    *m = big;
}

void fx_map_put(fx_arena *arena, fx_map *m, const void *key, void *value)
{
    struct fx_map_slot *s = m->cap ? &m->slots[map_place(m, key)] : NULL;
    if (s && s->key) {
        s->value = value;
        return;
    }
    fx_map_reserve(arena, m, 1);
    s = &m->slots[map_place(m, key)];
    m->n++;
    *s = (struct fx_map_slot){key, value};
}

void fx_map_copy(fx_arena *arena, fx_map *to, const fx_map *from)
{
    *to = *from;
    if (!from->cap)
        return;
    to->slots = new_table(arena, from->cap, sizeof *from->slots);
    memcpy(to->slots, from->slots, from->cap * sizeof *from->slots);
}

/* Takes key out and moves back those behind it that could not be found over the gap. */
void fx_map_remove(fx_map *m, const void *key)
{
    if (!m->cap)
        return;
    size_t mask = m->cap - 1, hole = map_place(m, key);
    if (!m->slots[hole].key)
        return;
    for (size_t i = (hole + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
        size_t from = home(m->slots[i].key) & mask;
        if (((i - from) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct fx_map_slot){0};
    m->n--;
}

/* A map's head, and its slots as they were. */
typedef struct saved_map {
    fx_map head;
    struct fx_map_slot *slots;
} saved_map;

const void *fx_map_save(fx_arena *arena, const fx_map *m)
{
    saved_map *s = FX_NEW(arena, saved_map);
    s->head = *m;
    if (m->cap)
        s->slots = fx_arena_dup(arena, m->slots, m->cap * sizeof *m->slots);
    return s;
}

void fx_map_restore(fx_map *m, const void *saved)
{
    const saved_map *s = saved;
    if (m->cap)
        memset(m->slots, 0, m->cap * sizeof *m->slots);
    m->n = s->head.n;
    for (size_t i = 0; i < s->head.cap; i++) /* the table is no smaller than it was */
        if (s->slots[i].key)
            m->slots[map_place(m, s->slots[i].key)] = s->slots[i];
}

struct fx_set_slot {
    uint64_t hash;
    void *entry;
};

void *fx_set_find(const fx_set *s, uint64_t hash, fx_set_equal *equal, const void *key)
{
    if (!s->cap)
        return NULL;
    size_t mask = s->cap - 1;
    for (size_t i = spread(hash) & mask; s->slots[i].entry; i = (i + 1) & mask)
        if (s->slots[i].hash == hash && equal(s->slots[i].entry, key))
            return s->slots[i].entry;
    return NULL;
}

static void set_put(fx_set *s, uint64_t hash, void *entry)
{
    size_t mask = s->cap - 1, i = spread(hash) & mask;
    while (s->slots[i].entry)
        i = (i + 1) & mask;
    s->slots[i] = (struct fx_set_slot){hash, entry};
}

void fx_set_add(fx_arena *arena, fx_set *s, uint64_t hash, void *entry)
{
    if (is_full(s->n + 1, s->cap)) {
        fx_set big = {.cap = s->cap ? 2 * s->cap : 64, .n = s->n};
        big.slots = new_table(arena, big.cap, sizeof *big.slots);
        for (size_t i = 0; i < s->cap; i++)
            if (s->slots[i].entry)
                set_put(&big, s->slots[i].hash, s->slots[i].entry);
        drop_table(arena, s->slots, s->cap);
        *s = big;
    }
    set_put(s, hash, entry);
    s->n++;
}
