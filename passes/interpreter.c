/* passes/interpreter.c: running a graph node by node (fxcc/interpreter.h). What rows compute is in ir/interp*.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Values are tensors in a heap (ir/ops.h) or in others' memory: inputs, parameters. Views share memory and in-place calls write it, as
 * in eager. */
#include <inttypes.h>
#include <string.h>

#include "passes/interp.h"

/* A parameter's place. */
typedef struct owner {
    fx_graph *g;
    const char *path;
} owner;

/* ---- values ------------------------------------------------------------------------------------------------------------- */

void fx_run_take(fx_interpreter *in, fx_run_value *v, const fx_type *type, int count, const fx_tensor *tensors)
{
    v->type = type;
    v->constant = NULL;
    v->tensors = fx_arena_dup(in->run, tensors, (size_t)count * sizeof *tensors);
    v->count = count;
    for (int i = 0; i < count; i++)
        fx_heap_hold(in->heap, &v->tensors[i]);
}

void fx_run_drop(fx_interpreter *in, fx_run_value *v)
{
    for (int i = 0; i < v->count; i++)
        fx_heap_drop(in->heap, &v->tensors[i]);
    v->count = -1;
}

/* A fresh tensor of the heap; it goes with the next sweep unless a value takes it. */
static void new_tensor(fx_interpreter *in, fx_dtype dtype, int rank, const int64_t *sizes, fx_tensor *out)
{
    fx_eval_run own = {.base = {.ctx = in->ctx}, .heap = in->heap};
    own.base.out = own.few;
    fx_eval_new(&own.base, 0, dtype, rank, sizes);
    *out = own.base.out[0];
}

static void number(fx_interpreter *in, fx_run_value *v, const fx_type *type, fx_dtype dtype, const void *bytes)
{
    fx_tensor t;
    new_tensor(in, dtype, 0, NULL, &t);
    memcpy(t.data, bytes, fx_dtype_size(dtype));
    fx_run_take(in, v, type, 1, &t);
}

bool fx_run_constant(fx_interpreter *in, const fx_arg *a, fx_run_value *v)
{
    fx_context *ctx = in->ctx;
    uint8_t b = a->b;
    switch (a->kind) {
    case FX_ARG_BOOL:
        number(in, v, fx_type_scalar(ctx, FX_TYPE_BOOL), FX_BOOL, &b);
        break;
    case FX_ARG_INT:
        number(in, v, fx_type_int(ctx, fx_dim_of(a->i)), FX_I64, &a->i);
        break;
    case FX_ARG_FLOAT:
        number(in, v, fx_type_scalar(ctx, FX_TYPE_FLOAT), FX_F64, &a->f);
        break;
    case FX_ARG_LIST: case FX_ARG_TUPLE: {
        fx_tensor *tensors = FX_NEW_ARRAY(in->run, fx_tensor, a->n + 1);
        const fx_type **types = FX_NEW_ARRAY(in->run, const fx_type *, a->n + 1);
        for (int i = 0; i < a->n; i++) {
            fx_run_value item = {.count = -1};
            fx_arg_kind kind = a->items[i]->kind;
            if (kind != FX_ARG_BOOL && kind != FX_ARG_INT && kind != FX_ARG_FLOAT)
                return false;
            fx_run_constant(in, a->items[i], &item);
            tensors[i] = item.tensors[0];
            types[i] = item.type;
        }
        v->count = a->n;
        v->tensors = tensors;
        v->type = fx_type_tuple(ctx, a->n, types);
        break;
    }
    case FX_ARG_NODE: case FX_ARG_DICT: case FX_ARG_SLICE: case FX_ARG_GRAPH: case FX_ARG_SYM:
        return false;
    default: /* None, text, dtypes: nothing to see as a tensor */
        fx_run_take(in, v, fx_type_scalar(ctx, a->kind == FX_ARG_NONE ? FX_TYPE_NONE : FX_TYPE_OTHER), 0, NULL);
        break;
    }
    v->constant = a;
    return true;
}

static const fx_arg *item_constant(fx_context *ctx, const fx_type *type, const fx_tensor *t)
{
    switch (type->kind) {
    case FX_TYPE_INT: return fx_arg_int(ctx, fx_tensor_get_int(t, 0));
    case FX_TYPE_FLOAT: return fx_arg_float(ctx, fx_tensor_get(t, 0));
    case FX_TYPE_BOOL: return fx_arg_bool(ctx, fx_tensor_get_int(t, 0) != 0);
    default: return NULL;
    }
}

const fx_arg *fx_run_as_constant(fx_interpreter *in, const fx_run_value *v)
{
    if (v->constant || v->count < 0)
        return v->constant;
    if (v->type->kind == FX_TYPE_NONE)
        return fx_arg_none(in->ctx);
    if (v->type->kind != FX_TYPE_TUPLE)
        return v->count ? item_constant(in->ctx, v->type, v->tensors) : NULL;
    const fx_arg **items = FX_NEW_ARRAY(in->run, const fx_arg *, v->count + 1);
    for (int i = 0; i < v->count; i++) {
        items[i] = item_constant(in->ctx, v->type->items[i], &v->tensors[i]);
        if (!items[i])
            return NULL;
    }
    return fx_arg_seq(in->ctx, FX_ARG_TUPLE, v->count, items);
}

/* ---- writes to memory that is not the heap's ---------------------------------------------------------------------------- */

/* All values that lie in [from, from + size) move to `to`. */
static void rebase(fx_interpreter *in, const char *from, size_t size, const fx_tensor *to)
{
    for (fx_run_frame *f = in->frames; f; f = f->outer)
        for (uint32_t id = 0; id < f->n_values; id++)
            for (int i = 0; i < f->values[id].count; i++) {
                fx_tensor *t = &f->values[id].tensors[i];
                uintptr_t at = (uintptr_t)t->data - (uintptr_t)from;
                if ((uintptr_t)t->data < (uintptr_t)from || at >= size)
                    continue;
                fx_heap_drop(in->heap, t);
                t->data = (char *)to->data + at;
                t->storage = to->storage;
                fx_heap_hold(in->heap, t);
            }
}

/* The bytes a tensor's elements lie in. */
static void extent(const fx_tensor *t, const char **from, size_t *size)
{
    int64_t low = 0, high = 1, bytes = (int64_t)fx_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        int64_t last = (t->sizes[i] - 1) * t->strides[i];
        low += last < 0 ? last : 0;
        high += last > 0 ? last : 0;
    }
    *from = (const char *)t->data + low * bytes;
    *size = (size_t)((high - low) * bytes);
}

static fx_status write_parameter(fx_eval_run *run, owner *o, fx_tensor *self)
{
    fx_interpreter *in = run->user;
    fx_storage *old = self->storage;
    fx_tensor now;
    if (!in->opt.in_place)
        return fx_eval_fail(&run->base, FX_ERR_UNSUPPORTED, "changes a parameter, buffer or constant in place: '%s'", o->path);
    FX_TRY(fx_graph_writable_tensor(o->g, o->path, &now));
    if (now.storage == old)
        return FX_OK;
    size_t at = (size_t)((char *)self->data - (char *)old->data);
    rebase(in, old->data, old->nbytes, &(fx_tensor){.data = now.storage->data, .storage = now.storage});
    fx_map_put(in->run, &in->owners, now.storage, o);
    self->storage = now.storage;
    self->data = (char *)now.storage->data + at;
    return FX_OK;
}

/* An in-place call is about to write the caller's memory or a parameter's. Inputs that must stay are copied then, not before. */
static fx_status writable(fx_eval_run *run, fx_tensor *self)
{
    fx_interpreter *in = run->user;
    owner *o = self->storage ? fx_map_get(&in->owners, self->storage) : NULL;
    if (o)
        return write_parameter(run, o, self);
    if (in->opt.in_place && (!self->storage || !self->storage->readonly))
        return FX_OK;
    if (in->opt.in_place)
        return fx_eval_fail(&run->base, FX_ERR_ARGUMENT, "changes an input in place: expected memory that can be written, got a tensor of a file");
    for (size_t i = 0; i < in->n_in; i++) {
        const char *from;
        size_t size;
        if (!fx_tensor_numel(&in->in[i]))
            continue;
        extent(&in->in[i], &from, &size);
        uintptr_t at = (uintptr_t)self->data - (uintptr_t)from;
        if ((uintptr_t)self->data < (uintptr_t)from || at >= size)
            continue;
        fx_tensor own;
        new_tensor(in, FX_U8, 1, &(int64_t){(int64_t)size}, &own);
        memcpy(own.data, from, size);
        rebase(in, from, size, &own);
        self->storage = own.storage;
        self->data = (char *)own.data + at;
        return FX_OK;
    }
    return fx_tensor_numel(self) ? fx_eval_fail(&run->base, FX_ERR_UNSUPPORTED, "changes memory in place that is no input and no value")
                                 : FX_OK;
}

/* ---- nodes that are not calls ------------------------------------------------------------------------------------------- */

/* The one symbol of an expression that has no value yet, by position; -1: none, -2: several. */
static int open_symbol(const fx_interpreter *in, const fx_sym *s)
{
    int found = -1;
    if (s->kind == FX_SYM_SYMBOL)
        for (size_t i = 0; i < in->g->n_symbols; i++)
            if (!strcmp(in->g->symbols[i].name, s->name))
                return in->symbols[i] == INT64_MIN ? (int)i : -1;
    for (int i = 0; s->kind != FX_SYM_SYMBOL && i < s->n; i++) {
        int one = open_symbol(in, s->args[i]);
        if (one != -1)
            found = found == -1 || found == one ? one : -2;
    }
    return found;
}

/* The size a placeholder's dim must have; a symbol takes the first value it meets, alone or as in 2*s + 1. */
static bool dim_fits(fx_interpreter *in, fx_dim want, int64_t have)
{
    if (!want.sym)
        return want.value == have;
    const fx_symbols symbols = fx_graph_symbols(in->g);
    int open = open_symbol(in, want.sym);
    int64_t at[2], v;
    if (open >= 0) {
        for (int k = 0; k < 2; k++) {
            in->symbols[open] = k;
            if (!fx_dim_eval(symbols, in->symbols, want, &at[k])) {
                in->symbols[open] = INT64_MIN;
                return have >= 0;
            }
        }
        int64_t slope = at[1] - at[0];
        in->symbols[open] = slope ? (have - at[0]) / slope : INT64_MIN;
        const fx_sym_range *s = &in->g->symbols[open];
        if (slope && (in->symbols[open] < s->min || in->symbols[open] > s->max))
            return false;
    }
    if (open == -2 || !fx_dim_eval(symbols, in->symbols, want, &v))
        return have >= 0;
    return v == have;
}

static fx_status check_input(fx_interpreter *in, const fx_node *n, const fx_tensor *t)
{
    const fx_type *want = n->type;
    bool ok = t->rank >= 0 && t->rank <= FX_MAX_RANK && (unsigned)t->dtype < FX_DTYPE_COUNT;
    for (int i = 0; ok && i < t->rank; i++)
        ok = t->sizes[i] >= 0;
    if (!ok || (!t->data && fx_tensor_numel(t)))
        return fx_fail(in->ctx, FX_ERR_ARGUMENT, &n->loc, "input '%s': expected a tensor with data", n->name);
    if (want && want->kind == FX_TYPE_TENSOR) {
        ok = want->dtype == t->dtype && want->rank == t->rank;
        for (int i = 0; ok && i < t->rank; i++)
            ok = dim_fits(in, want->dims[i], t->sizes[i]);
    } else if (want) {
        ok = t->rank == 0 && (want->kind == FX_TYPE_INT    ? fx_dtype_is_int(t->dtype) && t->dtype != FX_BOOL
                              : want->kind == FX_TYPE_FLOAT ? fx_dtype_is_float(t->dtype)
                              : want->kind == FX_TYPE_BOOL  ? t->dtype == FX_BOOL
                                                            : false);
    }
    if (ok)
        return FX_OK;
    fx_text expected, seen;
    fx_text_init(&expected, in->run);
    fx_text_init(&seen, in->run);
    fx_type_print(&expected, want);
    fx_type_print(&seen, fx_type_tensor_static(in->ctx, t->dtype, t->rank, t->sizes));
    return fx_fail(in->ctx, FX_ERR_TYPE, &n->loc, "input '%s': expected %s, got %s", n->name, expected.data, seen.data);
}

static fx_status wrong_count(fx_interpreter *in, const fx_run_frame *f, const fx_node *n)
{
    size_t want = 0;
    FX_FOR_NODES(f->g, p)
        want += p->opcode == FX_PLACEHOLDER;
    return fx_fail(in->ctx, FX_ERR_ARGUMENT, &n->loc, "expected %zu inputs, got %zu", want, f->n_inputs);
}

static fx_status run_placeholder(fx_interpreter *in, fx_run_frame *f, const fx_node *n, size_t at)
{
    fx_run_value *v = &f->values[n->id];
    if (at < f->n_inputs && !f->inputs) {
        fx_tensor t = in->in[at];
        FX_TRY(fx_tensor_touch(in->ctx, &t));
        FX_TRY(check_input(in, n, &t));
        fx_run_take(in, v, fx_value_type(in->ctx, n->type, &t), 1, &t);
        return FX_OK;
    }
    if (at < f->n_inputs && f->inputs[at]) {
        const fx_run_value *from = f->inputs[at];
        fx_run_take(in, v, from->type, from->count, from->tensors);
        v->constant = from->constant;
        return FX_OK;
    }
    return n->args->n && fx_run_constant(in, n->args->items[0], v) ? FX_OK : wrong_count(in, f, n);
}

static fx_status run_get_attr(fx_interpreter *in, fx_run_frame *f, const fx_node *n)
{
    fx_graph *g = f->attrs;
    fx_attr *a = fx_attr_find(g, n->target);
    if (!a && g != f->g)
        a = fx_attr_find(g = f->g, n->target);
    if (!a)
        return fx_fail(in->ctx, FX_ERR_FORMAT, &n->loc, "expected a parameter, buffer or constant '%s' in the model", n->target);
    FX_TRY(fx_tensor_touch(in->ctx, &a->tensor));
    if (a->tensor.storage && !fx_map_get(&in->owners, a->tensor.storage)) {
        owner *o = FX_NEW(in->run, owner);
        *o = (owner){g, a->path};
        fx_map_put(in->run, &in->owners, a->tensor.storage, o);
    }
    fx_run_take(in, &f->values[n->id], fx_value_type(in->ctx, n->type, &a->tensor), 1, &a->tensor);
    return FX_OK;
}

/* The leaves of the output in order; None yields nothing. Held: they outlive the run's values. */
static fx_status collect(fx_interpreter *in, fx_run_frame *f, const fx_node *n, const fx_arg *a)
{
    fx_run_value constant = {.count = -1};
    const fx_run_value *v = &constant;
    switch (a->kind) {
    case FX_ARG_NODE:
        FX_TRY(fx_run_operand(in, f, n, (int)a->i, &v));
        break;
    case FX_ARG_LIST: case FX_ARG_TUPLE: case FX_ARG_DICT:
        for (int i = 0; i < a->n; i++)
            FX_TRY(collect(in, f, n, a->items[i]));
        return FX_OK;
    default:
        if (!fx_run_constant(in, a, &constant))
            return FX_OK;
    }
    for (int i = 0; i < v->count; i++) {
        fx_heap_hold(in->heap, &v->tensors[i]);
        FX_PUSH(in->run, in->out, in->n_out, in->cap_out) = v->tensors[i];
    }
    return FX_OK;
}

/* ---- calls of rows ------------------------------------------------------------------------------------------------------ */

fx_status fx_run_operand(fx_interpreter *in, fx_run_frame *f, const fx_node *n, int operand, const fx_run_value **v)
{
    const fx_node *def = n->operands[operand].def;
    *v = &f->values[def->id];
    if ((*v)->count < 0)
        return fx_fail(in->ctx, FX_ERR_TYPE, &n->loc, "%s: operand '%s' has no value", n->target, def->name);
    return FX_OK;
}

static fx_status run_getitem(fx_interpreter *in, fx_run_frame *f, const fx_node *n)
{
    const fx_arg *a = fx_node_arg(n, 0);
    const fx_run_value *v = NULL;
    if (a->kind == FX_ARG_NODE)
        FX_TRY(fx_run_operand(in, f, n, (int)a->i, &v));
    int64_t i = fx_node_int(n, 1);
    if (!v || v->type->kind != FX_TYPE_TUPLE)
        return fx_fail(in->ctx, FX_ERR_TYPE, &n->loc, "%s: expected a tuple of results", n->target);
    i += i < 0 ? v->count : 0;
    if (i < 0 || i >= v->count)
        return fx_fail(in->ctx, FX_ERR_TYPE, &n->loc, "%s: expected an index below %d, got %" PRId64, n->target, v->count, i);
    fx_run_take(in, &f->values[n->id], v->type->items[i], 1, &v->tensors[i]);
    return FX_OK;
}

static fx_status run_row(fx_interpreter *in, fx_run_frame *f, const fx_node *n)
{
    if (n->op->id == FX_OP_getitem)
        return run_getitem(in, f, n);
    enum { FEW = 8 };
    const fx_tensor *few_values[FEW], **values = n->n_operands <= FEW ? few_values : FX_NEW_ARRAY(in->run, const fx_tensor *, n->n_operands);
    const fx_type *few_types[FEW], **types = n->n_operands <= FEW ? few_types : FX_NEW_ARRAY(in->run, const fx_type *, n->n_operands);
    for (int i = 0; i < n->n_operands; i++) {
        const fx_run_value *v;
        FX_TRY(fx_run_operand(in, f, n, i, &v));
        if (v->type->kind == FX_TYPE_TUPLE)
            return fx_fail(in->ctx, FX_ERR_TYPE, &n->loc, "%s: expected a tensor, but '%s' is several", n->target,
                           n->operands[i].def->name);
        values[i] = v->count ? v->tensors : NULL;
        types[i] = v->type;
    }
    const fx_binding bound = {fx_graph_symbols(in->g), in->symbols};
    fx_eval_run run = {.base = {.ctx = in->ctx, .node = n, .in = values}, .heap = in->heap, .writable = writable, .user = in, .bound = &bound};
    FX_TRY(fx_eval_call(&run, types));
    fx_run_take(in, &f->values[n->id], run.type, run.base.n_out, run.base.out);
    return FX_OK;
}

/* ---- the caller's part -------------------------------------------------------------------------------------------------- */

static fx_result result_of(const fx_run_value *v)
{
    return (fx_result){.count = (size_t)v->count, .tensors = v->tensors, .is_tuple = v->type->kind == FX_TYPE_TUPLE};
}

/* A callback that fails says why; if it did not, we say where. */
static fx_status stopped(fx_interpreter *in, const fx_node *n, fx_status status, size_t diags)
{
    if (status == FX_OK || fx_diag_count(in->ctx) != diags)
        return status;
    return fx_fail(in->ctx, status, &n->loc, "%s '%s': stopped by the caller's callback", fx_opcode_name(n->opcode), n->target);
}

/* What a callback made, as the node's value. */
static fx_status take_result(fx_interpreter *in, fx_run_frame *f, const fx_node *n, const fx_result *r)
{
    if (r->count > INT32_MAX || (r->count && !r->tensors) || (!r->is_tuple && r->count > 1))
        return fx_fail(in->ctx, FX_ERR_ARGUMENT, &n->loc, "expected a tensor, or a tuple of tensors, from the callback of %s",
                       fx_opcode_name(n->opcode));
    if (n->opcode == FX_OUTPUT) {
        in->n_out = 0;
        for (size_t i = 0; i < r->count; i++) {
            fx_heap_hold(in->heap, &r->tensors[i]);
            FX_PUSH(in->run, in->out, in->n_out, in->cap_out) = r->tensors[i];
        }
        return FX_OK;
    }
    const fx_type **types = FX_NEW_ARRAY(in->run, const fx_type *, r->count + 1);
    for (size_t i = 0; i < r->count; i++) {
        const fx_type *said = n->type && r->is_tuple && n->type->kind == FX_TYPE_TUPLE && (size_t)n->type->n == r->count ? n->type->items[i]
                              : r->is_tuple ? NULL
                                            : n->type;
        types[i] = fx_value_type(in->ctx, r->tensors[i].rank ? NULL : said, &r->tensors[i]);
    }
    const fx_type *type = r->is_tuple  ? fx_type_tuple(in->ctx, (int)r->count, types)
                          : r->count   ? types[0]
                                       : fx_type_scalar(in->ctx, FX_TYPE_NONE);
    fx_run_take(in, &f->values[n->id], type, (int)r->count, r->tensors);
    return FX_OK;
}

static fx_status ask_caller(fx_interpreter *in, fx_run_frame *f, const fx_node *n, bool *handled)
{
    fx_result *inputs = FX_NEW_ARRAY(in->run, fx_result, n->n_operands + 1), out = {0};
    size_t n_inputs = 0, diags = fx_diag_count(in->ctx);
    for (int i = 0; i < n->n_operands; i++) {
        const fx_run_value *v;
        bool again = false;
        for (int k = 0; k < i && !again; k++)
            again = n->operands[k].def == n->operands[i].def;
        if (again)
            continue;
        FX_TRY(fx_run_operand(in, f, n, i, &v));
        inputs[n_inputs++] = result_of(v);
    }
    fx_status status = in->opt.run[n->opcode](in->opt.user, in, n, n_inputs, inputs, &out, handled);
    FX_TRY(stopped(in, n, status, diags));
    return *handled ? take_result(in, f, n, &out) : FX_OK;
}

/* ---- the walk ----------------------------------------------------------------------------------------------------------- */

static fx_status run_built_in(fx_interpreter *in, fx_run_frame *f, const fx_node *n, size_t placeholder)
{
    switch (n->opcode) {
    case FX_PLACEHOLDER:
        return run_placeholder(in, f, n, placeholder);
    case FX_GET_ATTR:
        return run_get_attr(in, f, n);
    case FX_OUTPUT:
        return f->outer || !n->args->n ? FX_OK : collect(in, f, n, n->args->items[0]);
    default: /* arguments of a captured graph are as the user wrote them */
        return n->opcode == FX_CALL_FUNCTION && n->op && f->g->stage != FX_STAGE_CAPTURED ? run_row(in, f, n) : fx_run_call(in, f, n);
    }
}

static fx_status run_node(fx_interpreter *in, fx_run_frame *f, const fx_node *n, size_t placeholder)
{
    const fx_interpreter_options *opt = &in->opt;
    bool top = !f->outer, handled = false;
    size_t diags = fx_diag_count(in->ctx);
    if (top && opt->before)
        FX_TRY(stopped(in, n, opt->before(opt->user, in, n), diags));
    if (top && opt->run[n->opcode])
        FX_TRY(ask_caller(in, f, n, &handled));
    if (!handled)
        FX_TRY(run_built_in(in, f, n, placeholder));
    if (n->opcode == FX_OUTPUT && !handled && placeholder < f->n_inputs)
        return wrong_count(in, f, n);
    fx_heap_sweep(in->heap);
    if (top && opt->after) {
        const fx_run_value *v = &f->values[n->id];
        fx_result r = n->opcode == FX_OUTPUT ? (fx_result){in->n_out, in->out, true} : result_of(v);
        diags = fx_diag_count(in->ctx);
        FX_TRY(stopped(in, n, opt->after(opt->user, in, n, &r), diags));
    }
    return FX_OK;
}

fx_status fx_run_nodes(fx_interpreter *in, fx_run_frame *f)
{
    size_t placeholder = 0;
    bool keep = in->opt.keep_values && !f->outer;
    FX_FOR_NODES(f->g, n) {
        if (n->id >= f->n_values)
            return fx_fail(in->ctx, FX_ERR_ARGUMENT, &n->loc, "the graph was changed while it ran");
        FX_TRY(run_node(in, f, n, placeholder));
        placeholder += n->opcode == FX_PLACEHOLDER;
        for (int i = 0; i < n->n_operands && !keep; i++) {
            fx_run_value *v = &f->values[n->operands[i].def->id];
            if (--v->uses == 0)
                fx_run_drop(in, v);
        }
        if (!f->values[n->id].uses && !keep)
            fx_run_drop(in, &f->values[n->id]);
        if (n->opcode == FX_OUTPUT)
            break;
    }
    return FX_OK;
}

fx_status fx_run_enter(fx_interpreter *in, fx_run_frame *f, const fx_node *from)
{
    enum { MAX_DEPTH = 64 };
    if (in->depth >= MAX_DEPTH)
        return fx_fail(in->ctx, FX_ERR_UNSUPPORTED, from ? &from->loc : NULL, "modules call one another more than %d deep", MAX_DEPTH);
    in->depth++;
    f->outer = in->frames;
    f->n_values = f->g->n_ids;
    f->values = FX_NEW_ARRAY(in->run, fx_run_value, f->n_values + 1);
    for (uint32_t i = 0; i < f->n_values; i++)
        f->values[i].count = -1;
    FX_FOR_NODES(f->g, n)
        f->values[n->id].uses = n->n_uses;
    in->frames = f;
    return FX_OK;
}

void fx_run_leave(fx_interpreter *in, fx_run_frame *f)
{
    for (uint32_t i = 0; i < f->n_values; i++)
        fx_run_drop(in, &f->values[i]);
    in->frames = f->outer;
    in->depth--;
}

/* ---- fxcc/interpreter.h ------------------------------------------------------------------------------------------------- */

typedef struct creation {
    fx_context *ctx;
    fx_graph *g;
    const fx_interpreter_options *opt;
    fx_interpreter *out;
} creation;

static fx_status create(void *arg)
{
    creation *c = arg;
    fx_arena *arena = fx_arena_create(c->ctx);
    fx_interpreter *in = FX_NEW(arena, fx_interpreter);
    in->ctx = c->ctx;
    in->g = c->g;
    in->arena = arena;
    in->heap = fx_heap_create(c->ctx, arena);
    in->run = fx_arena_create(c->ctx);
    if (c->opt)
        in->opt = *c->opt;
    c->out = in;
    return FX_OK;
}

fx_interpreter *fx_interpreter_create(fx_graph *graph, const fx_interpreter_options *options)
{
    if (!graph)
        return NULL;
    creation c = {graph->ctx, graph, options, NULL};
    return fx_protect(graph->ctx, create, &c) == FX_OK ? c.out : NULL;
}

void fx_interpreter_free(fx_interpreter *in)
{
    if (!in || in->running)
        return;
    fx_heap_clear(in->heap);
    fx_run_forget(in);
    fx_arena_free(in->run);
    fx_arena_free(in->arena);
}

static fx_status run(void *arg)
{
    fx_interpreter *in = arg;
    /* Inputs may be what the last run put out. */
    fx_arena *last = in->run, *fresh = fx_arena_create(in->ctx);
    in->in = fx_arena_dup(fresh, in->in, in->n_in * sizeof *in->in);
    fx_heap_reset(in->heap, in->n_in, in->in);
    in->run = fresh;
    fx_arena_free(last);
    in->top = FX_NEW(in->run, fx_run_frame);
    in->top->g = in->top->attrs = in->g;
    in->top->n_inputs = in->n_in;
    in->symbols = FX_NEW_ARRAY(in->run, int64_t, in->g->n_symbols + 1);
    for (size_t i = 0; i < in->g->n_symbols; i++)
        in->symbols[i] = INT64_MIN;
    FX_TRY(fx_run_enter(in, in->top, NULL));
    return fx_run_nodes(in, in->top);
}

fx_status fx_interpreter_run(fx_interpreter *in, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, const fx_tensor **outputs)
{
    if (!in)
        return FX_ERR_ARGUMENT;
    if (in->running)
        return fx_fail(in->ctx, FX_ERR_ARGUMENT, NULL, "the interpreter is running already: its callbacks cannot run it");
    if ((n_inputs && !inputs) || !n_outputs || !outputs)
        return fx_fail(in->ctx, FX_ERR_ARGUMENT, NULL, "expected inputs, n_outputs and outputs, got NULL");
    in->top = in->frames = NULL;
    in->owners = (fx_map){0};
    in->out = NULL;
    in->n_out = in->cap_out = 0;
    in->depth = 0;
    in->n_in = n_inputs;
    in->in = inputs;
    in->running = true;
    fx_status status = fx_protect(in->ctx, run, in);
    in->running = false;
    in->frames = NULL;
    if (status != FX_OK)
        return status;
    *n_outputs = in->n_out;
    *outputs = in->out;
    return FX_OK;
}

bool fx_interpreter_value(const fx_interpreter *in, const fx_node *node, fx_result *out)
{
    if (!in || !node || !out || !in->top || node->graph != in->g || node->erased || node->id >= in->top->n_values ||
        in->top->values[node->id].count < 0)
        return false;
    *out = result_of(&in->top->values[node->id]);
    return true;
}

size_t fx_interpreter_bytes(const fx_interpreter *in, size_t *peak)
{
    if (in)
        return fx_heap_bytes(in->heap, peak);
    if (peak)
        *peak = 0;
    return 0;
}

typedef struct tensor_request {
    fx_interpreter *in;
    fx_dtype dtype;
    int rank;
    const int64_t *sizes;
    fx_tensor *out;
} tensor_request;

static fx_status make_tensor(void *arg)
{
    const tensor_request *r = arg;
    if ((unsigned)r->dtype >= FX_DTYPE_COUNT || r->rank < 0 || r->rank > FX_MAX_RANK || (r->rank && !r->sizes) || !r->out)
        return fx_fail(r->in->ctx, FX_ERR_ARGUMENT, NULL, "expected a dtype and a rank of 0 to %d", FX_MAX_RANK);
    for (int i = 0; i < r->rank; i++)
        if (r->sizes[i] < 0)
            return fx_fail(r->in->ctx, FX_ERR_ARGUMENT, NULL, "expected sizes from 0, got %" PRId64, r->sizes[i]);
    new_tensor(r->in, r->dtype, r->rank, r->sizes, r->out);
    return FX_OK;
}

fx_status fx_interpreter_tensor(fx_interpreter *in, fx_dtype dtype, int rank, const int64_t *sizes, fx_tensor *out)
{
    if (!in)
        return FX_ERR_ARGUMENT;
    return fx_protect(in->ctx, make_tensor, &(tensor_request){in, dtype, rank, sizes, out});
}

typedef struct interpretation {
    fx_interpreter *in;
    size_t n_out;
    const fx_tensor *from;
    fx_tensor *out;
} interpretation;

static fx_status copy_outputs(void *arg)
{
    interpretation *p = arg;
    p->out = FX_NEW_ARRAY(fx_context_arena(p->in->ctx), fx_tensor, p->n_out + 1);
    for (size_t i = 0; i < p->n_out; i++)
        FX_TRY(fx_tensor_copy(p->in->ctx, &p->from[i], &p->out[i]));
    return FX_OK;
}

fx_status fx_graph_interpret(fx_graph *graph, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, fx_tensor **outputs)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    const fx_interpreter_options as_eager = {.in_place = true};
    interpretation p = {.in = fx_interpreter_create(graph, &as_eager)};
    if (!p.in)
        return FX_ERR_NOMEM;
    fx_status status = fx_interpreter_run(p.in, n_inputs, inputs, &p.n_out, &p.from);
    if (status == FX_OK)
        status = fx_protect(graph->ctx, copy_outputs, &p);
    fx_interpreter_free(p.in);
    if (status != FX_OK)
        return status;
    *n_outputs = p.n_out;
    *outputs = p.out;
    return FX_OK;
}
