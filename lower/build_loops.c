/* lower/build_loops.c: loop nests: pointwise regions, reductions, concatenation, padding.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "lower/build.h"

/* Loops of at least so many iterations are worth several threads. */
enum { PARALLEL_FROM = 1 << 15 };

/* Leaves of a region and accesses of a nest. */
enum { MAX_LEAVES = FX_MAX_REGION_READS, MAX_ACCESSES = MAX_LEAVES + 1 };

static const char *axis_name(int rank, int dim)
{
    static const char *const nchw[] = {"n", "c", "h", "w"}, *const rest[] = {"i", "j", "k", "l", "m", "o", "p", "q"};
    return rank == 4 ? nchw[dim] : rest[dim];
}

fx_nest fx_nest_make(fx_build *b, int rank, const fx_dim *dims, const int *order, int n_accesses, fx_nest_access *accesses)
{
    fx_nest nest = {0};
    fx_dim merged[MAX_ACCESSES][FX_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int d = order[i];
        if (fx_dim_is(dims[d], 1))
            continue;
        int last = nest.n - 1;
        bool merges = last >= 0;
        for (int a = 0; merges && a < n_accesses; a++)
            merges = fx_dim_equal(merged[a][last], fx_dim_mul(b->ctx, accesses[a].strides[d], dims[d]));
        if (merges) {
            nest.extent[last] = fx_dim_mul(b->ctx, nest.extent[last], dims[d]);
            nest.hint[last] = "i";
        } else {
            last = nest.n++;
            nest.extent[last] = dims[d];
            nest.hint[last] = axis_name(rank, d);
        }
        for (int a = 0; a < n_accesses; a++)
            merged[a][last] = accesses[a].strides[d];
    }
    for (int i = 0; i < nest.n; i++) {
        nest.var[i] = b->n_vars++;
        for (int a = 0; a < n_accesses; a++)
            accesses[a].strides[i] = merged[a][i];
    }
    return nest;
}

fx_affine fx_nest_index(fx_build *b, const fx_nest *nest, const fx_nest_access *a)
{
    fx_affine f = fx_affine_dim(a->offset);
    for (int i = 0; i < nest->n; i++)
        if (!fx_dim_is(a->strides[i], 0))
            fx_affine_add(b->ctx, &f, nest->var[i], a->strides[i]);
    return f;
}

fx_stmt *fx_nest_wrap(fx_build *b, const fx_nest *nest, fx_stmt *body)
{
    fx_dim count = fx_dim_of(1);
    for (int i = 0; i < nest->n; i++)
        count = fx_dim_mul(b->ctx, count, nest->extent[i]);
    int64_t least, total; /* the most iterations */
    fx_dim_bounds(fx_build_symbols(b), count, &least, &total);
    for (int i = nest->n - 1; i >= 0; i--) {
        fx_stmt *loop = fx_stmt_new(b->p, FX_ST_LOOP);
        loop->var = nest->var[i];
        loop->extent = nest->extent[i];
        loop->hint = nest->hint[i];
        loop->loop = i == 0 && total >= PARALLEL_FROM ? FX_LOOP_PARALLEL : i == nest->n - 1 ? FX_LOOP_VECTOR : FX_LOOP_SERIAL;
        loop->body = body;
        body = loop;
    }
    return body;
}

/* ---- pointwise regions ------------------------------------------------------------------------------ */

typedef struct region {
    fx_build *b;
    fx_node *root;
    fx_node *leaf[MAX_LEAVES];
    int n_leaves;
    fx_nest_access access[MAX_LEAVES + 1]; /* of the leaves, then of the result */
    fx_nest nest;
    fx_stmt *first, **tail;                /* locals before the store */
    fx_status status;
} region;

/* A constant of one element is spelled as a number. */
static bool is_number(fx_build *b, fx_node *n, double *v)
{
    if (n->opcode == FX_CALL_FUNCTION && n->op->id == FX_OP_full) {
        *v = fx_node_float(n, 1);
        return true;
    }
    if (!fx_build_is_constant(n) || n->type->kind != FX_TYPE_TENSOR || !fx_type_is_static(n->type) || fx_type_numel(n->type) != 1)
        return false;
    fx_attr *a = fx_attr_find(b->g, n->target);
    if (!a || fx_tensor_touch(b->ctx, &a->tensor) != FX_OK)
        return false;
    *v = fx_tensor_get(&a->tensor, 0);
    return true;
}

static bool in_region(const region *r, const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && r->b->root[n->id] == r->root && !r->b->group[r->root->id].anchor;
}

/* Finds the leaves of the region below n and where they lie, broadcast to the root's dims. */
static fx_status collect_leaves(region *r, fx_node *n)
{
    fx_build *b = r->b;
    double number;
    for (int i = 0; i < n->n_operands; i++) {
        fx_node *d = n->operands[i].def;
        if (in_region(r, d)) {
            FX_TRY(collect_leaves(r, d));
            continue;
        }
        if (is_number(b, d, &number))
            continue;
        int k = 0;
        while (k < r->n_leaves && r->leaf[k] != d)
            k++;
        if (k < r->n_leaves)
            continue;
        if (k == MAX_LEAVES)
            return fx_fail(b->ctx, FX_INTERNAL, &r->root->loc, "a pointwise region reads more than %d tensors", MAX_LEAVES);
        fx_window v;
        FX_TRY(fx_build_value(b, d, &v));
        fx_window wide = v;
        int rank = r->root->type->rank, shift = rank - v.rank;
        for (int j = 0; j < rank; j++) {
            bool broadcast = j < shift || fx_dim_is(v.dims[j - shift], 1);
            wide.strides[j] = broadcast ? fx_dim_of(0) : v.strides[j - shift];
        }
        r->leaf[k] = d;
        r->access[k] = (fx_nest_access){.buf = v.buf, .offset = v.offset};
        memcpy(r->access[k].strides, wide.strides, sizeof wide.strides);
        r->n_leaves++;
    }
    return FX_OK;
}

static const fx_sexpr *region_expr(void *user, fx_node *n)
{
    region *r = user;
    fx_build *b = r->b;
    double number;
    if (!in_region(r, n)) {
        if (is_number(b, n, &number))
            return fx_s_const(b->p, n->type->dtype, number);
        for (int k = 0; k < r->n_leaves; k++)
            if (r->leaf[k] == n) {
                fx_affine index = fx_nest_index(b, &r->nest, &r->access[k]);
                return fx_s_load(b->p, r->access[k].buf, &index);
            }
        return fx_s_const(b->p, n->type->dtype, NAN); /* not reached: collect_leaves saw all */
    }
    if (b->made[n->id])
        return b->made[n->id];
    const fx_sexpr *e = NULL;
    fx_status st = fx_build_expr(b, n, region_expr, r, &e);
    if (st != FX_OK) {
        r->status = st;
        return fx_s_const(b->p, n->type->dtype, 0);
    }
    if (n != r->root && n->n_uses > 1 && e->op != FX_S_LOCAL && e->op != FX_S_CONST) {
        fx_stmt *local = fx_stmt_new(b->p, FX_ST_LOCAL);
        local->local = b->n_locals++;
        local->value = e;
        *r->tail = local;
        r->tail = &local->next;
        e = fx_s_local(b->p, local->local, e->dtype);
    }
    b->made[n->id] = e;
    return e;
}

/* Ops of the region in order, for the title: "mul + add + relu". */
static const char *region_title(fx_build *b, fx_node *root)
{
    fx_text t;
    fx_text_init(&t, b->scratch);
    int shown = 0;
    for (fx_node *n = b->group[root->id].first ? b->group[root->id].first : root;; n = n->next) {
        if (b->root[n->id] == root) {
            const char *name = strchr(n->op->name, '.') + 1;
            if (shown < 8)
                fx_printf(&t, "%s%.*s", shown ? " + " : "", (int)strcspn(name, "."), name);
            else if (shown == 8)
                fx_puts(&t, " + ...");
            shown++;
        }
        if (n == root)
            break;
    }
    return t.data;
}

/* The order in memory that a region's result takes: that of its first operand of full size. */
static const fx_window *layout_model(fx_build *b, const region *r, fx_window *model)
{
    fx_node *root = r->root;
    for (int k = 0; k < r->n_leaves; k++) {
        const fx_node *d = r->leaf[k];
        if (fx_build_is_constant(d) || !fx_type_same_shape(d->type, root->type))
            continue;
        *model = b->value[d->id];
        for (int i = 0; i < model->rank; i++)
            model->strides[i] = fx_window_magnitude(b, model->strides[i]);
        return model;
    }
    return NULL;
}

/* The result may take the place of an operand that is read at the same index only. */
static void allow_overlay(fx_build *b, const region *r, const fx_window *out)
{
    fx_buf *to = &b->p->bufs[out->buf];
    fx_dim numel = fx_type_count(b->ctx, r->root->type);
    if (to->kind != FX_BUF_ARENA || !fx_dim_equal(to->numel, numel))
        return;
    const fx_nest_access *w = &r->access[r->n_leaves];
    for (int k = 0; k < r->n_leaves; k++) {
        const fx_nest_access *a = &r->access[k];
        const fx_buf *from = &b->p->bufs[a->buf];
        if (from->kind != FX_BUF_ARENA || !fx_dim_equal(from->numel, numel) || from->dtype != to->dtype || !fx_dim_equal(a->offset, w->offset))
            continue;
        bool same = true;
        for (int j = 0; same && j < r->nest.n; j++)
            same = fx_dim_equal(a->strides[j], w->strides[j]);
        for (int j = 0; same && j < r->n_leaves; j++)
            same = j == k || r->access[j].buf != a->buf;
        if (same) {
            to->overlay = a->buf;
            return;
        }
    }
}

fx_status fx_build_pointwise(fx_build *b, fx_node *root)
{
    region r = {.b = b, .root = root};
    r.tail = &r.first;
    FX_TRY(collect_leaves(&r, root));
    fx_window out, model;
    FX_TRY(fx_build_place(b, root, layout_model(b, &r, &model), &out));
    r.access[r.n_leaves] = (fx_nest_access){.buf = out.buf, .offset = out.offset};
    memcpy(r.access[r.n_leaves].strides, out.strides, sizeof out.strides);
    fx_step *step = fx_build_step(b, root, region_title(b, root));
    int order[FX_MAX_RANK];
    fx_window_order(b, &out, order);
    r.nest = fx_nest_make(b, out.rank, out.dims, order, r.n_leaves + 1, r.access);
    const fx_sexpr *e = region_expr(&r, root);
    FX_TRY(r.status);
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out.buf;
    store->index = fx_nest_index(b, &r.nest, &r.access[r.n_leaves]);
    store->value = e;
    *r.tail = store;
    step->body = fx_nest_wrap(b, &r.nest, r.first);
    allow_overlay(b, &r, &out);
    b->value[root->id] = out;
    return FX_OK;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

/* Which dims are reduced; none given: all. */
static void reduced_dims(const fx_node *n, int rank, bool *reduced)
{
    int64_t dims[FX_MAX_RANK];
    int count = fx_node_is_none(n, 1) ? 0 : fx_node_ints(n, 1, dims, FX_MAX_RANK);
    for (int i = 0; i < rank; i++)
        reduced[i] = count <= 0;
    for (int i = 0; i < count; i++)
        reduced[dims[i] < 0 ? dims[i] + rank : dims[i]] = true;
}

/* acc = fold(acc, value) over the reduced dims. Statements: LOCAL acc = start; loops { SET acc }. Appended at *tail. */
static fx_stmt **fold_loop(fx_build *b, const fx_nest *inner, int acc, double start, const fx_sexpr *value, fx_stmt **tail)
{
    fx_stmt *local = fx_stmt_new(b->p, FX_ST_LOCAL);
    local->local = acc;
    local->value = fx_s_const(b->p, FX_F32, start);
    fx_stmt *set = fx_stmt_new(b->p, FX_ST_SET);
    set->local = acc;
    set->value = value;
    fx_stmt *loops = fx_nest_wrap(b, inner, set);
    *tail = local;
    local->next = loops;
    for (fx_stmt *s = loops; s && s->kind == FX_ST_LOOP; s = s->body)
        s->loop = FX_LOOP_SERIAL; /* iterations depend on one another */
    return &loops->next;
}

/* A size as a float. */
static const fx_sexpr *dim_value(fx_build *b, fx_dim d)
{
    if (fx_dim_known(d))
        return fx_s_const(b->p, FX_F32, (double)d.value);
    fx_affine f = fx_affine_dim(d);
    return fx_s_cast(b->p, FX_F32, fx_s_index(b->p, &f));
}

fx_status fx_build_reduction(fx_build *b, fx_node *n)
{
    fx_opid op = n->op->id;
    if (op != FX_OP_sum_dim_IntList && op != FX_OP_mean_dim && op != FX_OP_amax && op != FX_OP_amin && op != FX_OP_var_correction)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled yet", n->op->name);
    bool done = false;
    if (op == FX_OP_mean_dim)
        FX_TRY(fx_build_global_mean(b, n, &done));
    if (done)
        return FX_OK;
    fx_window x, out;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    if (x.dtype != FX_F32)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: expected float32, got %s", n->op->name, fx_dtype_name(x.dtype));
    bool reduced[FX_MAX_RANK], keepdim = fx_node_bool(n, fx_node_param(n, "keepdim"));
    reduced_dims(n, x.rank, reduced);
    FX_TRY(fx_build_place(b, n, NULL, &out));
    /* Two nests: over what stays (x and the result move), and inside over what goes (only x moves). */
    fx_nest_access outer[2] = {{.buf = x.buf, .offset = x.offset}, {.buf = out.buf, .offset = out.offset}}, inner[1] = {{.buf = x.buf}};
    fx_dim kept_dims[FX_MAX_RANK], gone_dims[FX_MAX_RANK], count = fx_dim_of(1);
    int kept = 0, gone = 0, order[FX_MAX_RANK];
    for (int i = 0, o = 0; i < x.rank; i++) {
        if (reduced[i]) {
            inner[0].strides[gone] = x.strides[i];
            gone_dims[gone++] = x.dims[i];
            count = fx_dim_mul(b->ctx, count, x.dims[i]);
            o += keepdim;
        } else {
            outer[0].strides[kept] = x.strides[i];
            outer[1].strides[kept] = out.strides[o++];
            kept_dims[kept++] = x.dims[i];
        }
    }
    const char *name = strchr(n->op->name, '.') + 1;
    fx_step *step = fx_build_step(b, n, fx_arena_printf(b->scratch, "%.*s over %s", (int)strcspn(name, "."), name, fx_build_dims(b, 1, &count)));
    for (int i = 0; i < FX_MAX_RANK; i++)
        order[i] = i;
    fx_nest over = fx_nest_make(b, kept, kept_dims, order, 2, outer);
    fx_window gone_value = {.rank = gone};
    memcpy(gone_value.dims, gone_dims, sizeof gone_dims);
    memcpy(gone_value.strides, inner[0].strides, sizeof inner[0].strides);
    fx_window_order(b, &gone_value, order);
    fx_nest in = fx_nest_make(b, gone, gone_dims, order, 1, inner);
    fx_affine base = fx_nest_index(b, &over, &outer[0]), moving = fx_nest_index(b, &in, &inner[0]);
    fx_affine index = fx_affine_sum(b->ctx, &base, &moving);
    const fx_sexpr *load = fx_s_load(b->p, x.buf, &index), *result;
    fx_stmt *first = NULL, **tail = &first;
    int acc = b->n_locals++;
    const fx_sexpr *a = fx_s_local(b->p, acc, FX_F32);
    bool max = op == FX_OP_amax, min = op == FX_OP_amin;
    double start = max ? -INFINITY : min ? INFINITY : 0;
    tail = fold_loop(b, &in, acc, start, fx_s_op(b->p, max ? FX_S_max : min ? FX_S_min : FX_S_add, FX_F32, a, load, NULL), tail);
    result = a;
    if (op == FX_OP_mean_dim || op == FX_OP_var_correction)
        result = fx_s_op(b->p, FX_S_div, FX_F32, a, dim_value(b, count), NULL);
    if (op == FX_OP_var_correction) {
        fx_stmt *mean = fx_stmt_new(b->p, FX_ST_LOCAL);
        mean->local = b->n_locals++;
        mean->value = result;
        *tail = mean;
        tail = &mean->next;
        fx_nest again = in;
        for (int i = 0; i < again.n; i++)
            again.var[i] = b->n_vars++;
        fx_affine move2 = fx_nest_index(b, &again, &inner[0]), index2 = fx_affine_sum(b->ctx, &base, &move2);
        const fx_sexpr *d = fx_s_op(b->p, FX_S_sub, FX_F32, fx_s_load(b->p, x.buf, &index2), fx_s_local(b->p, mean->local, FX_F32), NULL);
        int sum = b->n_locals++;
        const fx_sexpr *s = fx_s_local(b->p, sum, FX_F32);
        const fx_sexpr *square = fx_s_op(b->p, FX_S_mul, FX_F32, d, d, NULL);
        tail = fold_loop(b, &again, sum, 0, fx_s_op(b->p, FX_S_add, FX_F32, s, square, NULL), tail);
        int p = fx_node_param(n, "correction");
        double correction = fx_node_is_none(n, p) ? 1 : fx_node_float(n, p), by = (double)count.value - correction;
        const fx_sexpr *divisor = fx_s_const(b->p, FX_F32, by > 0 ? by : 0);
        if (!fx_dim_known(count)) {
            divisor = fx_s_op(b->p, FX_S_sub, FX_F32, dim_value(b, count), fx_s_const(b->p, FX_F32, correction), NULL);
            divisor = fx_s_op(b->p, FX_S_max, FX_F32, divisor, fx_s_const(b->p, FX_F32, 0), NULL);
        }
        result = fx_s_op(b->p, FX_S_div, FX_F32, s, divisor, NULL);
    }
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out.buf;
    store->index = fx_nest_index(b, &over, &outer[1]);
    store->value = result;
    *tail = store;
    step->body = fx_nest_wrap(b, &over, first);
    b->value[n->id] = out;
    return FX_OK;
}

/* ---- concatenation and padding ------------------------------------------------------------------------- */

/* A window of v that has the dims of `part`, starting at `start` of dim d. */
static fx_window window(fx_build *b, const fx_window *v, const fx_window *part, int d, fx_dim start)
{
    fx_window w = *v;
    memcpy(w.dims, part->dims, sizeof w.dims);
    w.offset = fx_dim_add(b->ctx, v->offset, fx_dim_mul(b->ctx, start, v->strides[d]));
    return w;
}

static bool same_place(const fx_window *a, const fx_window *b)
{
    bool same = a->buf == b->buf && fx_dim_equal(a->offset, b->offset);
    for (int i = 0; same && i < a->rank; i++)
        same = fx_dim_is(a->dims[i], 1) || fx_dim_equal(a->strides[i], b->strides[i]);
    return same;
}

/* Parts that were computed in place need nothing; the others are copied. */
fx_status fx_build_cat(fx_build *b, fx_node *n)
{
    int total = n->n_operands;
    fx_node **parts = FX_NEW_ARRAY(b->scratch, fx_node *, total + 1);
    int count = fx_node_inputs(n, 0, parts, total), rank = n->type->rank;
    int64_t d64 = fx_node_int(n, 1);
    int d = (int)(d64 < 0 ? d64 + rank : d64);
    fx_window out = b->value[n->id], first;
    if (out.buf < 0) {
        fx_window pattern = fx_build_channels_last(b, n);
        FX_TRY(fx_build_value(b, parts[0], &first));
        bool like_first = first.rank == rank && !fx_build_is_constant(parts[0]);
        FX_TRY(fx_build_place(b, n, b->home[n->id].cat || rank == 4 ? &pattern : like_first ? &first : NULL, &out));
    }
    b->value[n->id] = out;
    fx_dim at = fx_dim_of(0);
    for (int i = 0; i < count; i++) {
        fx_window part;
        FX_TRY(fx_build_value(b, parts[i], &part));
        if (part.rank == 1 && fx_dim_is(part.dims[0], 0) && rank != 1)
            continue; /* torch skips such empty tensors */
        fx_window dst = window(b, &out, &part, d, at);
        at = fx_dim_add(b->ctx, at, part.dims[d]);
        if (same_place(&part, &dst))
            continue;
        const char *name = fx_arena_printf(b->scratch, "%s_part%d", fx_build_name(b, n), i);
        const char *title = fx_arena_printf(b->scratch, "%s: cat, part %d of %d", n->name, i + 1, count);
        FX_TRY(fx_build_copy(b, name, title, n, &part, &dst));
    }
    return FX_OK;
}

/* The whole is filled, then the inside copied. Negative pads cut. */
fx_status fx_build_pad(fx_build *b, fx_node *n)
{
    fx_node *x = fx_node_input(n, 0);
    fx_window v, out;
    FX_TRY(fx_build_value(b, x, &v));
    FX_TRY(fx_build_place(b, n, &v, &out));
    int64_t pad[2 * FX_MAX_RANK];
    int count = fx_node_ints(n, 1, pad, 2 * FX_MAX_RANK);
    fx_step *step = fx_build_step(b, n, fx_arena_printf(b->scratch, "pad with %g", fx_node_float(n, 2)));
    fx_nest_access acc = {.buf = out.buf, .offset = out.offset};
    memcpy(acc.strides, out.strides, sizeof out.strides);
    int order[FX_MAX_RANK];
    fx_window_order(b, &out, order);
    fx_nest nest = fx_nest_make(b, out.rank, out.dims, order, 1, &acc);
    fx_stmt *fill = fx_stmt_new(b->p, FX_ST_STORE);
    fill->buf = out.buf;
    fill->index = fx_nest_index(b, &nest, &acc);
    fill->value = fx_s_const(b->p, out.dtype, fx_node_float(n, 2));
    step->body = fx_nest_wrap(b, &nest, fill);
    fx_window src = v, dst = out;
    bool empty = false;
    for (int i = 0; i < v.rank; i++) {
        int k = 2 * (v.rank - 1 - i);
        int64_t before = k < count ? pad[k] : 0, after = k + 1 < count ? pad[k + 1] : 0;
        if (before < 0) {
            src.offset = fx_dim_add(b->ctx, src.offset, fx_dim_scale(b->ctx, v.strides[i], -before));
            src.dims[i] = fx_dim_plus(b->ctx, src.dims[i], before);
        } else {
            dst.offset = fx_dim_add(b->ctx, dst.offset, fx_dim_scale(b->ctx, out.strides[i], before));
        }
        if (after < 0)
            src.dims[i] = fx_dim_plus(b->ctx, src.dims[i], after);
        dst.dims[i] = src.dims[i];
        empty = empty || (fx_dim_known(src.dims[i]) && src.dims[i].value <= 0);
    }
    b->value[n->id] = out;
    if (empty)
        return FX_OK;
    return fx_build_copy(b, fx_arena_printf(b->scratch, "%s_inside", fx_build_name(b, n)),
                         fx_arena_printf(b->scratch, "%s: the inside", n->name), n, &src, &dst);
}
