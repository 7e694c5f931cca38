/* frontend/groups.c: parameters and buffers by the memory they share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "frontend/pt2.h"

/* Depth first, without recursion: a tree may be deep. */
void fx_tensor_groups(const fx_graph *g, fx_arena *arena, fx_groups *out)
{
    fx_map by_storage = {0};
    fx_module **stack = NULL;
    size_t depth = 0, cap = 0;
    FX_PUSH(arena, stack, depth, cap) = g->root;
    while (depth > 0) {
        fx_module *m = stack[--depth];
        for (size_t i = m->n_children; i > 0; i--)
            FX_PUSH(arena, stack, depth, cap) = m->children[i - 1];
        for (size_t i = 0; i < m->n_attrs; i++) {
            fx_storage *st = m->attrs[i]->tensor.storage;
            fx_group *one = st ? fx_map_get(&by_storage, st) : NULL;
            if (!st)
                continue;
            if (!one) {
                one = FX_NEW(arena, fx_group);
                one->storage = st;
                fx_map_put(arena, &by_storage, st, one);
                FX_PUSH(arena, out->all, out->n, out->cap) = one;
            }
            FX_PUSH(arena, one->attrs, one->n, one->cap) = m->attrs[i];
        }
    }
}

/* Byte offset of the first element in its storage. */
uint64_t fx_window_offset(const fx_tensor *t)
{
    uintptr_t at = (uintptr_t)t->data, base = (uintptr_t)t->storage->data;
    return base && at >= base && at - base <= t->storage->nbytes ? at - base : at;
}

/* Bytes from there to behind the last element. */
uint64_t fx_window_span(const fx_tensor *t)
{
    uint64_t last = 0;
    for (int i = 0; i < t->rank; i++) {
        if (t->sizes[i] == 0)
            return 0;
        last += (uint64_t)(t->sizes[i] - 1) * (uint64_t)t->strides[i];
    }
    return (last + 1) * fx_dtype_size(t->dtype);
}


void fx_group_extent(const fx_group *one, uint64_t *begin, uint64_t *end)
{
    *begin = UINT64_MAX;
    *end = 0;
    for (size_t i = 0; i < one->n; i++) {
        uint64_t at = fx_window_offset(&one->attrs[i]->tensor), after = at + fx_window_span(&one->attrs[i]->tensor);
        *begin = at < *begin ? at : *begin;
        *end = after > *end ? after : *end;
    }
}
