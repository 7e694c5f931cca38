/* ir/map.c: hash tables: a map between pointers, and the sets behind interning. Open addressing, linear probing, at
 * most half full.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/context.h"

struct fx_map_slot {
    const void *key;
    void *value;
};

/* Where key is or would go; the table is never full. */
static size_t map_place(const fx_map *m, const void *key)
{
    size_t mask = m->cap - 1, i = fx_mix_ptr(0, key) & mask;
    while (m->slots[i].key && m->slots[i].key != key)
        i = (i + 1) & mask;
    return i;
}

void *fx_map_get(const fx_map *m, const void *key)
{
    return m->cap && key ? m->slots[map_place(m, key)].value : NULL;
}

void fx_map_reserve(fx_arena *arena, fx_map *m, size_t more)
{
    if (2 * (m->n + more) <= m->cap)
        return;
    fx_map big = {.cap = m->cap ? 2 * m->cap : 16, .n = m->n};
    while (2 * (m->n + more) > big.cap)
        big.cap *= 2;
    big.slots = FX_NEW_ARRAY(arena, struct fx_map_slot, big.cap);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].key)
            big.slots[map_place(&big, m->slots[i].key)] = m->slots[i];
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
    if (from->cap)
        to->slots = fx_arena_dup(arena, from->slots, from->cap * sizeof *from->slots);
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
        size_t home = fx_mix_ptr(0, m->slots[i].key) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
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
    *m = s->head;
    for (size_t i = 0; i < m->cap; i++)
        m->slots[i] = s->slots[i];
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
    for (size_t i = hash & mask; s->slots[i].entry; i = (i + 1) & mask)
        if (s->slots[i].hash == hash && equal(s->slots[i].entry, key))
            return s->slots[i].entry;
    return NULL;
}

static void set_put(fx_set *s, uint64_t hash, void *entry)
{
    size_t mask = s->cap - 1, i = hash & mask;
    while (s->slots[i].entry)
        i = (i + 1) & mask;
    s->slots[i] = (struct fx_set_slot){hash, entry};
}

void fx_set_add(fx_arena *arena, fx_set *s, uint64_t hash, void *entry)
{
    if (2 * (s->n + 1) > s->cap) {
        fx_set big = {.cap = s->cap ? 2 * s->cap : 64, .n = s->n};
        big.slots = FX_NEW_ARRAY(arena, struct fx_set_slot, big.cap);
        for (size_t i = 0; i < s->cap; i++)
            if (s->slots[i].entry)
                set_put(&big, s->slots[i].hash, s->slots[i].entry);
        *s = big;
    }
    set_put(s, hash, entry);
    s->n++;
}
