/* lower/state.c: what a run changes for its caller: inputs and buffers that the functional graph writes back by its last nodes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * From here on a graph only computes: a buffer that is written becomes an input (a constant it is not), the values to be written become
 * results behind the model's own. All happen at once, when everything is computed: build knows in which order they can be stored. Two notes
 * say what is what. */
#include <string.h>

#include "lower/lower.h"
#include "passes/rewrite.h"

#define NOTE_BUFFER "fxcc.state"
#define NOTE_WRITES "fxcc.writes"

static const fx_arg *note_of(const fx_node *n, const char *key)
{
    for (const fx_meta *m = n->meta; m; m = m->next)
        if (strcmp(m->key, key) == 0)
            return m->value;
    return NULL;
}

static void add_note(fx_node *n, const char *key, const fx_arg *value)
{
    fx_meta *m = FX_NEW(n->graph->arena, fx_meta), **end = &n->meta;
    *m = (fx_meta){.key = fx_intern(n->graph->ctx, key), .value = value};
    while (*end)
        end = &(*end)->next;
    *end = m;
}

const char *fx_state_of(const fx_node *input)
{
    const fx_arg *a = note_of(input, NOTE_BUFFER);
    return a && a->kind == FX_ARG_STR ? a->s : NULL;
}

const fx_arg *fx_state_writes(const fx_graph *g)
{
    const fx_arg *a = g->last ? note_of(g->last, NOTE_WRITES) : NULL;
    return a && a->kind == FX_ARG_LIST && a->n ? a : NULL;
}

static const void *memory_of(const fx_attr *a)
{
    return a->tensor.storage ? (const void *)a->tensor.storage : a->tensor.data;
}

static bool same_elements(const fx_tensor *a, const fx_tensor *b)
{
    bool same = a->data == b->data && a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++)
        same = a->sizes[i] == b->sizes[i] && a->strides[i] == b->strides[i];
    return same;
}

/* The buffer becomes an input behind the others; name and users stay. */
static void lift(fx_node *buffer, const fx_node *last_input)
{
    buffer->opcode = FX_PLACEHOLDER;
    add_note(buffer, NOTE_BUFFER, fx_arg_text(buffer->graph->ctx, FX_ARG_STR, buffer->target));
    fx_node *at = last_input ? last_input->next : buffer->graph->first;
    if (at != buffer)
        fx_node_move_before(buffer, at);
}

/* Every other node of a buffer that is lifted, or is tied to one, is the input too. */
static fx_status replace_buffers(fx_lower *l, const fx_map *lifted)
{
    for (fx_node *n = l->graph->first, *next; n; n = next) {
        next = n->next;
        const fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(l->graph, n->target) : NULL;
        fx_node *input = a && memory_of(a) ? fx_map_get(lifted, memory_of(a)) : NULL;
        if (!input)
            continue;
        const char *path = fx_state_of(input);
        if (!same_elements(&fx_attr_find(l->graph, path)->tensor, &a->tensor))
            return fx_fail(l->ctx, FX_ERR_UNSUPPORTED, &n->loc, "the model writes into '%s', which shares part of its memory with '%s': expected "
                           "buffers that lie apart or are the same", path, n->target);
        fx_node_replace_uses(n, input);
        FX_TRY(fx_node_erase(n));
    }
    return FX_OK;
}

/* What is random has a state: made before what is written is looked for. */
fx_status fx_pass_random(fx_lower *l)
{
    size_t count;
    return fx_random_to_philox(l->graph, l->scratch, false, &count);
}

fx_status fx_pass_state(fx_lower *l)
{
    fx_graph *g = l->graph;
    fx_node *output = fx_graph_output_node(g), **copies = NULL, *inputs = NULL;
    size_t n_copies = 0, cap = 0;
    fx_map lifted = {0};
    for (fx_node *n = output ? output->prev : NULL; n && fx_node_is_inplace(n); n = n->prev)
        FX_PUSH(l->scratch, copies, n_copies, cap) = n;
    if (!n_copies)
        return FX_OK;
    FX_FOR_NODES(g, n)
        inputs = n->opcode == FX_PLACEHOLDER ? n : inputs;
    const fx_arg *whole = output->args->items[0], **leaves = FX_NEW_ARRAY(l->scratch, const fx_arg *, n_copies),
                 **names = FX_NEW_ARRAY(l->scratch, const fx_arg *, n_copies);
    fx_node **operands = FX_NEW_ARRAY(l->scratch, fx_node *, (size_t)output->n_operands + n_copies);
    int n = output->n_operands, count = 0;
    for (int i = 0; i < n; i++)
        operands[i] = output->operands[i].def;
    while (n_copies-- > 0) { /* in the order of the graph */
        fx_node *copy = copies[n_copies], *to = fx_node_input(copy, 0), *value = fx_node_input(copy, 1);
        FX_TRY(fx_node_erase(copy));
        if (value == to || (fx_type_is_static(to->type) && fx_type_numel(to->type) == 0))
            continue;
        if (to->opcode == FX_GET_ATTR) {
            lift(to, inputs);
            fx_map_put(l->scratch, &lifted, memory_of(fx_attr_find(g, to->target)), to);
            inputs = to;
        }
        operands[n] = value;
        names[count] = fx_arg_text(g->ctx, FX_ARG_STR, to->target);
        leaves[count++] = fx_arg_operand(g->ctx, n++);
    }
    if (!count)
        return FX_OK;
    const fx_arg *both[2] = {whole, fx_arg_seq(g->ctx, FX_ARG_TUPLE, count, leaves)};
    const fx_arg *args = fx_arg_seq(g->ctx, FX_ARG_TUPLE, 2, both);
    fx_node_assign(output, fx_arg_seq(g->ctx, FX_ARG_TUPLE, 1, &args), output->kwargs, n, operands);
    add_note(output, NOTE_WRITES, fx_arg_seq(g->ctx, FX_ARG_LIST, count, names));
    return replace_buffers(l, &lifted);
}
