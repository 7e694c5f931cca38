/* passes/rewrite.c: building blocks of the passes over graphs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/rewrite.h"

#include <string.h>

fx_rw fx_rw_at(fx_graph *g, fx_arena *scratch, fx_node *at)
{
    return (fx_rw){ .g = g, .ctx = g->ctx, .scratch = scratch, .at = at, .origin = at, .status = FX_OK };
}

fx_call fx_rw_call(fx_rw *w, fx_opid op)
{
    w->g->insert_before = w->at;
    return fx_call_begin(w->g, op);
}

/* A node just made before `at`, or NULL: it takes origin's place in messages. */
static fx_node *made(fx_rw *w, fx_node *n)
{
    w->g->insert_before = NULL;
    if (!n) {
        w->status = FX_ERR_TYPE;
        return w->at;
    }
    fx_loc loc = w->origin->loc;
    loc.node = n->name;
    n->loc = loc;
    return n;
}

fx_node *fx_rw_node(fx_rw *w, fx_call *c, const char *suffix)
{
    if (w->status != FX_OK)
        return w->at;
    w->g->insert_before = w->at;
    const char *name = fx_intern_f(w->ctx, "%s_%s", w->origin->name, suffix);
    return made(w, fx_call_end(c, name));
}

fx_node *fx_rw_constant(fx_rw *w, const char *path, const fx_tensor *t)
{
    w->g->insert_before = w->at;
    return made(w, fx_graph_constant(w->g, path, t));
}

void fx_rw_put(fx_rw *w, fx_node *x, int dim, fx_node *index, fx_node *values, bool accumulate)
{
    const fx_arg *items[FX_MAX_RANK];
    fx_call c = fx_rw_call(w, FX_OP_index_put);
    fx_call_node(&c, x);
    for (int i = 0; i < dim; i++)
        items[i] = fx_arg_none(w->ctx);
    items[dim] = fx_arg_operand(w->ctx, c.n_operands);
    c.operands[c.n_operands++] = index;
    fx_call_arg(&c, fx_arg_seq(w->ctx, FX_ARG_LIST, dim + 1, items));
    fx_call_node(&c, values);
    fx_call_bool(&c, accumulate);
    fx_rw_become(w, &c);
}

/* Whether two types may be the same: expressions for one size may be spelled in several ways. */
static bool could_be(const fx_type *a, const fx_type *b)
{
    if (!a || !b || a == b)
        return true;
    bool ok = a->kind == b->kind && (a->kind != FX_TYPE_TENSOR || (a->dtype == b->dtype && a->rank == b->rank)) &&
              (a->kind != FX_TYPE_TUPLE || a->n == b->n);
    for (int i = 0; ok && a->kind == FX_TYPE_TENSOR && i < a->rank; i++)
        ok = a->dims[i].sym || b->dims[i].sym || a->dims[i].value == b->dims[i].value;
    for (int i = 0; ok && a->kind == FX_TYPE_TUPLE && i < a->n; i++)
        ok = could_be(a->items[i], b->items[i]);
    return ok;
}

void fx_rw_become(fx_rw *w, fx_call *c)
{
    if (w->status != FX_OK)
        return;
    fx_node *at = w->at;
    fx_node *n = fx_rw_node(w, c, "new");
    if (w->status != FX_OK)
        return;
    if (at->type && !could_be(at->type, n->type)) {
        fx_text t;
        fx_text_init(&t, w->scratch);
        fx_printf(&t, "%s -> %s changes the type from ", at->target, n->target);
        fx_type_print(&t, at->type);
        fx_puts(&t, " to ");
        fx_type_print(&t, n->type);
        w->status = fx_fail(w->ctx, FX_INTERNAL, &at->loc, "%s", t.data);
        return;
    }
    /* The call moves over into the old node, so that name, users and place in the list need no change. */
    fx_node **operands = FX_NEW_ARRAY(w->scratch, fx_node *, n->n_operands + 1);
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = n->operands[i].def;
    /* Expressions stay as the model's file spells them. */
    bool spelled = at->type && at->type->kind == FX_TYPE_TENSOR && !fx_type_is_static(at->type);
    const fx_type *type = spelled ? at->type : n->type;
    const fx_arg *args = n->args, *kwargs = n->kwargs;
    int count = n->n_operands;
    at->op = n->op;
    at->target = n->target;
    w->status = fx_node_erase(n);
    fx_node_assign(at, args, kwargs, count, operands);
    at->type = type;
}

void fx_rw_replace(fx_rw *w, fx_node *by)
{
    if (w->status != FX_OK)
        return;
    fx_node_replace_uses(w->at, by);
    w->status = fx_node_erase(w->at);
}

void fx_rw_refuse(fx_rw *w, const char *fmt, ...)
{
    if (w->status != FX_OK)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = fx_arena_vprintf(w->scratch, fmt, ap);
    va_end(ap);
    w->status = fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &w->at->loc, "%s: %s", w->at->target, text);
}

/* The end of the ready-made calls: a new node, or `at` becomes the call. */
static fx_node *end(fx_rw *w, fx_call *c, const char *suffix)
{
    if (suffix)
        return fx_rw_node(w, c, suffix);
    fx_rw_become(w, c);
    return w->at;
}

fx_node *fx_rw_view(fx_rw *w, fx_node *x, int rank, const int64_t *sizes, const char *suffix)
{
    fx_dim dims[FX_MAX_RANK];
    for (int i = 0; i < rank && i < FX_MAX_RANK; i++)
        dims[i] = fx_dim_of(sizes[i]);
    return fx_rw_view_to(w, x, rank, dims, suffix);
}

fx_node *fx_rw_permute(fx_rw *w, fx_node *x, int rank, const int64_t *dims, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_permute);
    fx_call_node(&c, x);
    fx_call_ints(&c, rank, dims);
    return end(w, &c, suffix);
}

fx_node *fx_rw_expand(fx_rw *w, fx_node *x, int rank, const int64_t *sizes, const char *suffix)
{
    fx_dim dims[FX_MAX_RANK];
    for (int i = 0; i < rank && i < FX_MAX_RANK; i++)
        dims[i] = fx_dim_of(sizes[i]);
    return fx_rw_expand_to(w, x, rank, dims, suffix);
}

fx_node *fx_rw_slice(fx_rw *w, fx_node *x, int dim, int64_t start, int64_t stop, int64_t step, const char *suffix)
{
    return fx_rw_slice_to(w, x, dim, fx_dim_of(start), fx_dim_of(stop), step, suffix);
}

static const fx_arg *size_arg(fx_context *ctx, fx_dim v)
{
    return v.sym ? fx_arg_sym(ctx, v.sym) : fx_arg_int(ctx, v.value);
}

void fx_call_size(fx_call *c, fx_dim v)
{
    fx_call_arg(c, size_arg(c->g->ctx, v));
}

void fx_call_sizes(fx_call *c, int n, const fx_dim *v)
{
    const fx_arg *items[FX_MAX_RANK];
    for (int i = 0; i < n && i < FX_MAX_RANK; i++)
        items[i] = size_arg(c->g->ctx, v[i]);
    fx_call_arg(c, fx_arg_seq(c->g->ctx, FX_ARG_LIST, n < FX_MAX_RANK ? n : FX_MAX_RANK, items));
}

fx_node *fx_rw_view_to(fx_rw *w, fx_node *x, int rank, const fx_dim *sizes, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_view);
    fx_call_node(&c, x);
    fx_call_sizes(&c, rank, sizes);
    return end(w, &c, suffix);
}

fx_node *fx_rw_expand_to(fx_rw *w, fx_node *x, int rank, const fx_dim *sizes, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_expand);
    fx_call_node(&c, x);
    fx_call_sizes(&c, rank, sizes);
    return end(w, &c, suffix);
}

fx_node *fx_rw_slice_to(fx_rw *w, fx_node *x, int dim, fx_dim start, fx_dim stop, int64_t step, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_slice_Tensor);
    fx_call_node(&c, x);
    fx_call_int(&c, dim);
    fx_call_size(&c, start);
    fx_call_size(&c, stop);
    fx_call_int(&c, step);
    return end(w, &c, suffix);
}

/* More tensors than a call takes are joined in groups first. */
fx_node *fx_rw_cat(fx_rw *w, int n, fx_node *const *x, int dim, const char *suffix)
{
    enum { MOST = 200 };
    fx_node **groups = n > MOST ? FX_NEW_ARRAY(w->scratch, fx_node *, n / MOST + 1) : NULL;
    int count = 0;
    for (int i = 0; groups && i < n; i += MOST)
        groups[count++] = fx_rw_cat(w, n - i < MOST ? n - i : MOST, x + i, dim, "group");
    if (groups)
        return fx_rw_cat(w, count, groups, dim, suffix);
    fx_call c = fx_rw_call(w, FX_OP_cat);
    fx_call_nodes(&c, n, x);
    fx_call_int(&c, dim);
    return end(w, &c, suffix);
}

fx_node *fx_rw_reduce(fx_rw *w, fx_opid op, fx_node *x, int n, const int64_t *dims, bool keep, const char *suffix)
{
    fx_call c = fx_rw_call(w, op);
    fx_call_node(&c, x);
    fx_call_ints(&c, n, dims);
    fx_call_bool(&c, keep);
    return end(w, &c, suffix);
}

fx_node *fx_rw_arange(fx_rw *w, fx_dim start, fx_dim stop, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_arange_start_step);
    fx_call_size(&c, start);
    fx_call_size(&c, stop);
    fx_call_int(&c, 1);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, FX_I64));
    return end(w, &c, suffix);
}

fx_node *fx_rw_cast(fx_rw *w, fx_node *x, fx_dtype dtype, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP__to_copy);
    fx_call_node(&c, x);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, dtype));
    return end(w, &c, suffix);
}

fx_node *fx_rw_item(fx_rw *w, fx_node *tuple, int index, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_getitem);
    fx_call_node(&c, tuple);
    fx_call_int(&c, index);
    return end(w, &c, suffix);
}

fx_node *fx_rw_unary(fx_rw *w, fx_opid op, fx_node *x, const char *suffix)
{
    fx_call c = fx_rw_call(w, op);
    fx_call_node(&c, x);
    return end(w, &c, suffix);
}

fx_node *fx_rw_binary(fx_rw *w, fx_opid op, fx_node *a, fx_node *b, const char *suffix)
{
    fx_call c = fx_rw_call(w, op);
    fx_call_node(&c, a);
    fx_call_node(&c, b);
    return end(w, &c, suffix);
}

fx_node *fx_rw_number(fx_rw *w, fx_opid op, fx_node *x, double v, const char *suffix)
{
    fx_call c = fx_rw_call(w, op);
    fx_call_node(&c, x);
    if (x->type && !fx_dtype_is_float(x->type->dtype) && v >= -0x1p53 && v <= 0x1p53 && v == (double)(int64_t)v)
        fx_call_int(&c, (int64_t)v);
    else
        fx_call_float(&c, v);
    return end(w, &c, suffix);
}

fx_node *fx_rw_where(fx_rw *w, fx_node *condition, fx_node *a, fx_node *b, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_where_self);
    fx_call_node(&c, condition);
    fx_call_node(&c, a);
    fx_call_node(&c, b);
    return end(w, &c, suffix);
}

fx_node *fx_rw_scalar(fx_rw *w, double v, fx_dtype dtype, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_full);
    fx_call_ints(&c, 0, NULL);
    fx_call_float(&c, v);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, dtype));
    return end(w, &c, suffix);
}

fx_node *fx_rw_wide(fx_rw *w, fx_node *x)
{
    bool half = x->type && (x->type->dtype == FX_F16 || x->type->dtype == FX_BF16);
    return half ? fx_rw_cast(w, x, FX_F32, "wide") : x;
}

void fx_rw_finish(fx_rw *w, fx_node *y)
{
    if (w->status != FX_OK)
        return;
    if (w->at->type && y->type && y->type->kind == FX_TYPE_TENSOR && y->type->dtype != w->at->type->dtype) {
        fx_rw_cast(w, y, w->at->type->dtype, NULL);
        return;
    }
    if (y->n_uses || y->opcode != FX_CALL_FUNCTION || !y->op) {
        fx_rw_replace(w, y);
        return;
    }
    fx_call c = fx_rw_call(w, y->op->id);
    for (int i = 0, n = fx_op_schema(w->ctx, y->op)->n; i < n; i++)
        fx_call_copy(&c, y, i);
    fx_rw_become(w, &c);
    if (w->status == FX_OK)
        w->status = fx_node_erase(y);
}

bool fx_is_tensor(const fx_node *n)
{
    return n->type && n->type->kind == FX_TYPE_TENSOR && n->type->rank <= FX_MAX_RANK && fx_type_is_static(n->type);
}

int fx_dims(const fx_node *n, int64_t *sizes)
{
    if (!fx_is_tensor(n))
        return 0;
    for (int i = 0; i < n->type->rank; i++)
        sizes[i] = n->type->dims[i].value;
    return n->type->rank;
}

int fx_sizes(const fx_node *n, fx_dim *sizes)
{
    if (!n->type || n->type->kind != FX_TYPE_TENSOR || n->type->rank > FX_MAX_RANK)
        return -1;
    for (int i = 0; i < n->type->rank; i++)
        sizes[i] = n->type->dims[i];
    return n->type->rank;
}

int64_t fx_dim_size(const fx_node *n, int dim)
{
    if (!n->type || n->type->kind != FX_TYPE_TENSOR)
        return 0;
    if (dim < 0)
        dim += n->type->rank;
    return dim >= 0 && dim < n->type->rank && !n->type->dims[dim].sym ? n->type->dims[dim].value : 0;
}

static bool same_type(const fx_type *a, const fx_type *b)
{
    if (a == b || fx_type_same_tensor(a, b))
        return true;
    bool same = a->kind == FX_TYPE_TUPLE && b->kind == FX_TYPE_TUPLE && a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->items[i] && b->items[i] && same_type(a->items[i], b->items[i]);
    return same;
}

bool fx_same_type(const fx_node *a, const fx_node *b)
{
    return a->type && b->type && same_type(a->type, b->type);
}

bool fx_is_call(const fx_node *n, fx_opid op)
{
    return n->opcode == FX_CALL_FUNCTION && n->op && n->op->id == op;
}

int fx_wrap_dim(int64_t dim, int rank)
{
    int r = rank > 0 ? rank : 1;
    if (dim < 0)
        dim += r;
    return dim >= 0 && dim < r ? (int)dim : 0;
}

bool fx_int_list(const fx_node *n, int param, int count, const int64_t *def, int64_t *out)
{
    int64_t v[FX_MAX_RANK];
    int have = fx_node_ints(n, param, v, FX_MAX_RANK);
    if (have == 0 && def) {
        memcpy(out, def, (size_t)count * sizeof *out);
        return true;
    }
    if (have != 1 && have != count)
        return false;
    for (int i = 0; i < count; i++)
        out[i] = v[have == 1 ? 0 : i];
    return true;
}

bool fx_is_number(const fx_node *n, int param, double *value)
{
    const fx_arg *a = fx_node_arg(n, param);
    if (a->kind != FX_ARG_INT && a->kind != FX_ARG_FLOAT && a->kind != FX_ARG_BOOL)
        return false;
    *value = fx_node_float(n, param);
    return true;
}

/* Bounded in depth and in nodes looked at; what is not found constant here is found by fold.c, which walks the graph in order. */
static bool constant(const fx_node *n, int depth, int *budget)
{
    if (n->opcode == FX_GET_ATTR)
        return true;
    if (n->opcode != FX_CALL_FUNCTION || !n->op || (n->op->flags & (FX_OP_RANDOM | FX_OP_EFFECT)) || depth == 0 || --*budget < 0)
        return false;
    if (!n->type || (n->type->kind == FX_TYPE_TENSOR && !fx_type_is_static(n->type)))
        return false;
    if (n->n_operands == 0)
        return n->op->cls == FX_CLASS_CREATE;
    for (int i = 0; i < n->n_operands; i++)
        if (!constant(n->operands[i].def, depth - 1, budget))
            return false;
    return true;
}

bool fx_is_constant(const fx_node *n)
{
    int budget = 1000;
    return constant(n, 8, &budget);
}

fx_status fx_attr_value(fx_graph *g, const fx_node *n, fx_tensor *out)
{
    fx_attr *a = fx_attr_find(g, n->target);
    if (!a)
        return fx_fail(g->ctx, FX_INTERNAL, &n->loc, "there is no attribute '%s'", n->target);
    FX_TRY(fx_tensor_touch(g->ctx, &a->tensor));
    *out = a->tensor;
    return FX_OK;
}

void fx_rw_single_result(fx_rw *w, fx_node *value, const char *what)
{
    if (w->status != FX_OK)
        return;
    for (fx_use *u = w->at->first_use, *next; u; u = next) {
        next = u->next;
        fx_node *user = u->user;
        if (user == value)
            continue;
        if (!fx_is_call(user, FX_OP_getitem)) {
            fx_rw_refuse(w, "'%s' uses all its results at once; only the first can be compiled", user->name);
            return;
        }
        if (fx_node_int(user, 1) != 0) {
            if (user->n_uses) {
                fx_rw_refuse(w, "%s (used by '%s') cannot be compiled", what, user->first_use->user->name);
                return;
            }
        } else {
            fx_node_replace_uses(user, value);
        }
        w->status = fx_node_erase(user);
        if (w->status != FX_OK)
            return;
    }
    if (w->at->n_uses == 0)
        w->status = fx_node_erase(w->at);
}

void fx_rw_results(fx_rw *w, int n, fx_node *const *values)
{
    for (fx_use *u = w->at->first_use, *next; u && w->status == FX_OK; u = next) {
        next = u->next;
        fx_node *item = u->user;
        if (!fx_is_call(item, FX_OP_getitem)) {
            fx_rw_refuse(w, "its results are used whole by '%s'; only its items can be compiled", item->name);
            return;
        }
        int64_t index = fx_node_int(item, 1);
        index += index < 0 ? n : 0;
        if (index < 0 || index >= n) {
            fx_rw_refuse(w, "there are %d results, '%s' takes number %lld", n, item->name, (long long)index);
            return;
        }
        if (item->n_uses)
            fx_node_replace_uses(item, values[index]);
        w->status = fx_node_erase(item);
    }
    if (w->status == FX_OK)
        w->status = fx_node_erase(w->at);
}

fx_status fx_infer_missing(fx_graph *g)
{
    FX_FOR_NODES(g, n)
        if (!n->type && n->opcode != FX_OUTPUT)
            FX_TRY(fx_node_infer(n));
    return FX_OK;
}
