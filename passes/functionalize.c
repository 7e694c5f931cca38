/* passes/functionalize.c: in-place ops become functional ones. Every later use of the tensor, and of everything that shares
 * memory with it, sees the new value. What the caller sees of it, new values of inputs, parameters and buffers, is written back by an
 * aten.copy_ each, the last nodes of the graph.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Tensors that share memory form a tree: the root made the memory, the others are views of their parent. A write through any of
 * them makes a new version of the root. The written tensor has its new value at once; the root gets it only when somebody asks
 * for another member of the tree: then views are undone up to the root, and the member asked for is taken again, downwards. The
 * same idea as torch's functionalization, with updates kept until they are needed. */
#include "ir/ops.h"
#include "passes/rewrite.h"

/* What is known of a node of the graph as imported. Several names of one tensor (detach, results of in-place ops) share `tensor`. */
typedef struct value {
    fx_node *tensor;         /* the node that stands for the tensor */
    fx_node *parent;         /* what it is a view of; NULL for a root. Like root, a `tensor` */
    fx_node *root;
    fx_node *current;        /* the node that holds its value as of `version` */
    unsigned version;
    unsigned writes;         /* roots: how often the tree was written to */
    fx_node *written;        /* roots: the member written to last, if the root has not seen it yet */
    bool unseen;             /* written to, and the root has not seen it: then `current` is what its own views show */
    fx_node *overlapped;     /* roots: another attribute in the same memory, of other elements; NULL: none */
} value;

typedef struct state {
    fx_arena *scratch;
    fx_graph *g;
    value *v;                /* by node id */
    uint32_t n;
    fx_node *at;             /* where new nodes go */
    fx_map memory;           /* from storages of attributes to the first get_attr node of each */
    fx_status status;
} state;

static value *of(state *s, const fx_node *n)
{
    return &s->v[n->id];
}

static fx_node *again(state *s, const fx_node *view, fx_node *base)
{
    fx_rw w = fx_rw_at(s->g, s->scratch, s->at);
    fx_node *n = fx_view_again(&w, view, base);
    if (s->status == FX_OK)
        s->status = w.status;
    return n;
}

/* The value of a member, by views taken again of the nearest ancestor that has one; these values are kept as those of `version`. */
static fx_node *take_down(state *s, fx_node *tensor, unsigned version)
{
    fx_node **chain = NULL;
    size_t n = 0, cap = 0;
    while (of(s, tensor)->parent && of(s, tensor)->version != version) {
        FX_PUSH(s->scratch, chain, n, cap) = tensor;
        tensor = of(s, tensor)->parent;
    }
    fx_node *now = of(s, tensor)->current;
    while (n-- > 0 && s->status == FX_OK) {
        now = again(s, chain[n], now);
        of(s, chain[n])->current = now;
        of(s, chain[n])->version = version;
    }
    return now;
}

/* The value a member had before the write to one of its views that is being put back. */
static fx_node *value_before(state *s, fx_node *tensor)
{
    fx_node **chain = NULL;
    size_t n = 0, cap = 0;
    while (of(s, tensor)->parent && !of(s, tensor)->unseen) {
        FX_PUSH(s->scratch, chain, n, cap) = tensor;
        tensor = of(s, tensor)->parent;
    }
    fx_node *now = of(s, tensor)->current;
    while (n-- > 0 && s->status == FX_OK)
        now = again(s, chain[n], now);
    return now;
}

/* Brings the root up to date: the written member is put back, view by view. Members on the way may have been written before: a
 * member is written without the root being brought up to date only if its value comes from the member written last, its ancestor. */
static void settle(state *s, fx_node *root)
{
    value *r = of(s, root);
    fx_node *member = r->written;
    r->written = NULL;
    of(s, root)->unseen = false;
    if (!member || member == root)
        return;
    fx_node *now = of(s, member)->current;
    while (member != root && s->status == FX_OK) {
        fx_node *parent = of(s, member)->parent;
        fx_node *base = fx_view_is_part(member) ? value_before(s, parent) : now;
        fx_rw w = fx_rw_at(s->g, s->scratch, s->at);
        now = fx_view_write(&w, member, base, now);
        if (s->status == FX_OK)
            s->status = w.status;
        of(s, member)->unseen = false;
        member = parent;
        if (member != root) { /* the root still needs its old value for the next step */
            of(s, member)->current = now;
            of(s, member)->version = r->writes;
        }
    }
    r->current = now;
    r->version = r->writes;
}

static fx_node *current(state *s, fx_node *tensor)
{
    value *v = of(s, tensor), *r = of(s, v->root);
    if (v->version == r->writes || s->status != FX_OK)
        return v->current;
    settle(s, v->root);
    if (v->version == r->writes || s->status != FX_OK)
        return v->current;
    return take_down(s, tensor, r->writes);
}

static bool same_place(const fx_tensor *a, const fx_tensor *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->sizes[i] == b->sizes[i] && a->strides[i] == b->strides[i];
    return same;
}

/* Attributes on one storage are one tensor when they are all of the same elements of it. Others share memory as no view of ours says. */
static void classify_attribute(state *s, fx_node *n)
{
    const fx_attr *a = fx_attr_find(s->g, n->target);
    if (!a || (!a->tensor.storage && !a->tensor.data))
        return;
    const void *memory = a->tensor.storage ? (const void *)a->tensor.storage : a->tensor.data;
    fx_node *first = fx_map_get(&s->memory, memory);
    if (!first)
        fx_map_put(s->scratch, &s->memory, memory, n);
    else if (same_place(&fx_attr_find(s->g, first->target)->tensor, &a->tensor))
        of(s, n)->tensor = of(s, first)->tensor;
    else
        of(s, of(s, first)->tensor)->overlapped = n;
}

/* Puts n into a tree, once its operands are those it sees. */
static void classify(state *s, fx_node *n)
{
    value *v = of(s, n);
    *v = (value){ .tensor = n, .root = n, .current = n };
    if (n->opcode == FX_GET_ATTR) {
        classify_attribute(s, n);
        return;
    }
    fx_sharing sharing = fx_node_sharing(s->g, n);
    if (sharing == FX_FRESH)
        return;
    fx_node *x = fx_node_input(n, 0);
    if (fx_is_call(n, FX_OP_getitem)) { /* an item of a split: it shows the tensor as it was when split */
        value *split = of(s, x);
        v->parent = split->parent;
        v->root = split->root;
        v->version = split->version;
        return;
    }
    fx_node *member = x->id < s->n ? of(s, x)->tensor : NULL;
    if (!member)
        return;
    if (sharing == FX_SAME_TENSOR) {
        v->tensor = member;
        return;
    }
    v->parent = member;
    v->root = of(s, member)->root;
    v->version = of(s, v->root)->writes;
}

static fx_status write_in_place(state *s, fx_node *n, fx_node *tensor)
{
    value *v = of(s, tensor), *r = of(s, v->root);
    fx_context *ctx = s->g->ctx;
    if (r->overlapped)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s writes into '%s', which shares part of its memory with '%s': expected buffers "
                       "that lie apart or are the same", n->target, v->root->target, r->overlapped->target);
    if (v->parent && (fx_is_call(tensor, FX_OP_expand) || fx_is_call(tensor, FX_OP_expand_as)) &&
        !fx_same_type(tensor, fx_node_input(tensor, 0)))
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s writes into an expanded tensor, which has no defined result", n->target);

    const fx_type *type = tensor->type;
    n->target = fx_intern(ctx, n->op->name);
    n->type = NULL;
    FX_TRY(fx_node_infer(n));
    if (n->type->kind != FX_TYPE_TENSOR || !fx_type_same_shape(n->type, type))
        return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "%s in place: the result does not have the sizes of the tensor written to",
                       n->target);
    fx_node *result = n;
    if (n->type->dtype == type->dtype) {
        n->type = type; /* with the strides the file gives */
    } else { /* the result is rounded into the tensor that is there */
        fx_node *next = n->next;
        fx_rw w = fx_rw_at(s->g, s->scratch, next);
        w.origin = n;
        result = fx_rw_cast(&w, n, type->dtype, "cast");
        FX_TRY(w.status);
    }
    of(s, n)->tensor = tensor;
    v->current = result;
    v->version = ++r->writes;
    r->written = tensor;
    v->unseen = true;
    return FX_OK;
}

/* An input or attribute that was written. */
static bool is_changed(state *s, const fx_node *n)
{
    return n->id < s->n && (n->opcode == FX_PLACEHOLDER || n->opcode == FX_GET_ATTR) && of(s, n)->tensor == n && of(s, n)->writes;
}

/* What the caller sees: each input or attribute that was written gets its last value, when all else is computed: first the values, then
 * nothing but writes. */
static fx_status write_back(state *s, fx_node *output)
{
    fx_graph *g = s->g;
    s->at = output;
    for (fx_node *n = g->first; n && s->status == FX_OK; n = n->next)
        if (is_changed(s, n))
            current(s, n);
    for (fx_node *n = g->first; n && s->status == FX_OK; n = n->next) {
        if (!is_changed(s, n))
            continue;
        fx_node *before = g->insert_before, *now = current(s, n);
        if (s->status != FX_OK)
            break;
        fx_node *operands[2] = {n, now};
        const fx_arg *args[3] = {fx_arg_operand(g->ctx, 0), fx_arg_operand(g->ctx, 1), fx_arg_bool(g->ctx, false)};
        g->insert_before = output;
        fx_node *c = fx_node_new(g, FX_CALL_FUNCTION, "aten.copy_.default", fx_arg_seq(g->ctx, FX_ARG_TUPLE, 3, args), NULL, 2, operands,
                                 fx_arena_printf(s->scratch, "%s_write", n->name));
        g->insert_before = before;
        c->type = n->type;
        c->loc = (fx_loc){.file = now->loc.file, .entry = now->loc.entry, .node = c->name, .module = now->loc.module, .frame = now->loc.frame};
    }
    return s->status;
}

/* The axes of a grid share memory with several tensors: they are views of one each when they are spelled out. */
static fx_status spell_meshgrids(fx_graph *g, fx_arena *scratch)
{
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!fx_is_call(n, FX_OP_meshgrid) && !fx_is_call(n, FX_OP_meshgrid_indexing))
            continue;
        while (next && fx_is_call(next, FX_OP_getitem) && fx_node_input(next, 0) == n)
            next = next->next; /* they go, too */
        fx_rw w = fx_rw_at(g, scratch, n);
        fx_rw_meshgrid(&w);
        FX_TRY(w.status);
    }
    return FX_OK;
}

/* A batch norm that writes its running statistics returns them, and a copy_ each writes them: that is handled below. */
static fx_status spell_batch_norm(fx_graph *g, fx_arena *scratch, fx_node *n, const fx_batch_norm *b)
{
    bool update = n->op->id == FX_OP__batch_norm_with_update;
    fx_rw w = fx_rw_at(g, scratch, n);
    fx_call c = fx_rw_call(&w, update ? FX_OP__batch_norm_with_update_functional : FX_OP__native_batch_norm_legit_functional);
    for (int i = 0; i < (update ? 7 : 8); i++)
        fx_call_copy(&c, n, i);
    fx_node *all = fx_rw_node(&w, &c, "functional"), *after = n->next;
    FX_TRY(w.status);
    if (b->results == 1) {
        fx_rw_item(&w, all, 0, NULL);
    } else {
        fx_node_replace_uses(n, all);
        w.status = fx_node_erase(n);
    }
    FX_TRY(w.status);
    int first = update ? 4 : 3;
    fx_rw behind = fx_rw_at(g, scratch, after);
    behind.origin = all;
    for (int i = 0; i < 2; i++) {
        fx_node *value = fx_rw_item(&behind, all, first + i, i ? "running_var" : "running_mean");
        FX_TRY(behind.status);
        fx_node *operands[2] = {fx_node_input(all, b->running + i), value};
        const fx_arg *args[3] = {fx_arg_operand(g->ctx, 0), fx_arg_operand(g->ctx, 1), fx_arg_bool(g->ctx, false)};
        fx_node *before = g->insert_before;
        g->insert_before = after;
        fx_node *copy = fx_node_new(g, FX_CALL_FUNCTION, "aten.copy_.default", fx_arg_seq(g->ctx, FX_ARG_TUPLE, 3, args), NULL, 2, operands,
                                    fx_arena_printf(scratch, "%s_write", value->name));
        g->insert_before = before;
        copy->type = operands[0]->type;
        copy->loc = all->loc;
    }
    return FX_OK;
}

static fx_status spell_batch_norms(fx_graph *g, fx_arena *scratch)
{
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->opcode != FX_CALL_FUNCTION || !n->op || n->op->infer != infer_batch_norm)
            continue;
        fx_batch_norm b = fx_batch_norm_of(n);
        if (b.writes)
            FX_TRY(spell_batch_norm(g, scratch, n, &b));
    }
    return FX_OK;
}

fx_status fx_functionalize(fx_graph *g, fx_arena *scratch)
{
    state s = { .scratch = scratch, .g = g, .n = g->n_ids, .status = FX_OK };
    bool any = false, inplace;
    FX_TRY(fx_infer_missing(g));
    FX_TRY(spell_batch_norms(g, scratch));
    FX_FOR_NODES(g, n)
        any = any || (n->opcode == FX_CALL_FUNCTION && fx_op_find(n->target, &inplace) && inplace);
    if (!any)
        return FX_OK;

    FX_TRY(spell_meshgrids(g, scratch));
    s.n = g->n_ids;
    s.v = FX_NEW_ARRAY(scratch, value, s.n);
    fx_status status = FX_OK;
    for (fx_node *n = g->first; n; n = n->next) {
        if (n->id >= s.n)
            continue; /* ours */
        s.at = n;
        inplace = false;
        if (n->opcode == FX_CALL_FUNCTION)
            fx_op_find(n->target, &inplace);
        fx_node *self = inplace ? fx_node_input(n, 0) : NULL;
        fx_node *tensor = self ? of(&s, self)->tensor : NULL;
        /* A view's parent in the tree is the tensor as imported, whatever node holds its value now. */
        if (!inplace)
            classify(&s, n);
        for (int i = 0; i < n->n_operands; i++) {
            fx_node *x = n->operands[i].def;
            if (x->id >= s.n || (x->type && x->type->kind != FX_TYPE_TENSOR))
                continue;
            fx_node *t = of(&s, x)->tensor;
            if (of(&s, of(&s, t)->root)->writes == 0)
                continue;
            fx_node *now = current(&s, t);
            if (now != x)
                fx_node_set_operand(n, i, now);
        }
        FX_TRY(s.status);
        if (n->opcode == FX_OUTPUT && status == FX_OK)
            FX_TRY(write_back(&s, n));
        if (!inplace)
            continue;
        *of(&s, n) = (value){ .tensor = n, .root = n, .current = n };
        fx_status one = write_in_place(&s, n, tensor);
        if (one != FX_OK && one != FX_ERR_UNSUPPORTED)
            return one;
        if (status == FX_OK)
            status = one;
    }
    FX_TRY(status);
    FX_TRY(fx_infer_missing(g));
    return FX_OK;
}
