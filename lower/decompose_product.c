/* lower/decompose_product.c: einsum and the products that are one: pairs of operands, from left to right or along the given path, as
 * matrix products of a batch.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "lower/rewrite.h"

/* An operand whose dims have labels. */
typedef struct operand {
    fx_node *x;
    int n, label[FX_MAX_RANK];
} operand;

static int find_label(const operand *o, int label)
{
    for (int d = 0; d < o->n; d++)
        if (o->label[d] == label)
            return d;
    return -1;
}

static void drop(operand *o, int d)
{
    for (o->n--; d < o->n; d++)
        o->label[d] = o->label[d + 1];
}

/* Labels met twice become one, on the diagonal; dims of 1 that stand for a greater size go. */
static void normalize(fx_rw *w, operand *o, const fx_dim *sizes)
{
    fx_dim dims[FX_MAX_RANK];
    for (int d = 0; d < o->n; d++)
        for (int e = d + 1; e < o->n; e++) {
            if (o->label[d] != o->label[e])
                continue;
            fx_call c = fx_rw_call(w, FX_OP_diagonal);
            fx_call_node(&c, o->x);
            fx_call_int(&c, 0);
            fx_call_int(&c, d);
            fx_call_int(&c, e);
            o->x = fx_rw_node(w, &c, "diagonal");
            int label = o->label[d];
            drop(o, e);
            drop(o, d);
            o->label[o->n++] = label;
            d = -1;
            break;
        }
    int n = 0;
    bool changed = false;
    for (int d = 0; d < o->n; d++) {
        fx_dim v = o->x->type->dims[d];
        if (fx_dim_is(v, 1) && !fx_dim_is(sizes[o->label[d]], 1)) {
            changed = true;
            continue;
        }
        dims[n] = v;
        o->label[n++] = o->label[d];
    }
    o->n = n;
    if (changed)
        o->x = fx_rw_view_to(w, o->x, n, dims, "narrow");
}

/* Sums over the labels that nothing else has. */
static void sum_alone(fx_rw *w, operand *o, const operand *other, const bool *needed)
{
    int64_t dims[FX_MAX_RANK];
    int n = 0, kept = 0;
    for (int d = 0; d < o->n; d++)
        if (!needed[o->label[d]] && (!other || find_label(other, o->label[d]) < 0))
            dims[n++] = d;
        else
            o->label[kept++] = o->label[d];
    o->n = kept;
    if (n) {
        fx_call c = fx_rw_call(w, FX_OP_sum_dim_IntList);
        fx_call_node(&c, o->x);
        fx_call_ints(&c, n, dims);
        fx_call_bool(&c, false);
        fx_narrow_dtype(w, &c, o->x->type->dtype); /* a product wraps in its own dtype */
        o->x = fx_rw_node(w, &c, "sum");
    }
}

static fx_node *permuted(fx_rw *w, const operand *o, int n, const int *labels)
{
    int64_t dims[FX_MAX_RANK];
    bool identity = true;
    for (int i = 0; i < n; i++) {
        dims[i] = find_label(o, labels[i]);
        identity = identity && dims[i] == i;
    }
    return identity ? o->x : fx_rw_permute(w, o->x, n, dims, "order");
}

static fx_dim product_of(fx_rw *w, int n, const int *labels, const fx_dim *sizes)
{
    fx_dim p = fx_dim_of(1);
    for (int i = 0; i < n; i++)
        p = fx_dim_mul(w->ctx, p, sizes[labels[i]]);
    return p;
}

/* o as [batch, rows, columns], each of some labels in order; without the batch where there is none. */
static fx_node *as_matrix(fx_rw *w, const operand *o, const fx_dim *sizes, int nb, const int *batch, int nr, const int *rows, int nc,
                          const int *columns)
{
    int order[3 * FX_MAX_RANK], n = 0;
    fx_dim dims[3];
    const int *lists[3] = {batch, rows, columns}, counts[3] = {nb, nr, nc};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < counts[k]; i++)
            order[n++] = lists[k][i];
        dims[k] = product_of(w, counts[k], lists[k], sizes);
    }
    fx_node *x = permuted(w, o, n, order);
    bool same = nr == 1 && nc == 1 && nb <= 1;
    return same ? x : fx_rw_view_to(w, x, nb ? 3 : 2, nb ? dims : dims + 1, "matrix");
}

/* The product of two operands, summed over the labels that are not needed. */
static operand multiply(fx_rw *w, operand a, operand b, const fx_dim *sizes, const bool *needed)
{
    int batch[FX_MAX_RANK], left[FX_MAX_RANK], right[FX_MAX_RANK], sum[FX_MAX_RANK], nb = 0, nl = 0, nr = 0, ns = 0;
    operand r = {.n = 0};
    normalize(w, &a, sizes);
    normalize(w, &b, sizes);
    sum_alone(w, &a, &b, needed);
    sum_alone(w, &b, &a, needed);
    for (int d = 0; d < a.n; d++) {
        bool both = find_label(&b, a.label[d]) >= 0;
        if (both && needed[a.label[d]])
            batch[nb++] = a.label[d];
        else if (both)
            sum[ns++] = a.label[d];
        else
            left[nl++] = a.label[d];
    }
    for (int d = 0; d < b.n; d++)
        if (find_label(&a, b.label[d]) < 0)
            right[nr++] = b.label[d];
    if (nb + nl + nr > FX_MAX_RANK) {
        fx_rw_refuse(w, "a product of rank %d, expected at most %d", nb + nl + nr, FX_MAX_RANK);
        r.x = w->at;
        return r;
    }
    fx_dim dims[FX_MAX_RANK];
    for (int k = 0; k < 3; k++) {
        const int *labels = k == 0 ? batch : k == 1 ? left : right;
        for (int i = 0; i < (k == 0 ? nb : k == 1 ? nl : nr); i++)
            r.label[r.n++] = labels[i];
    }
    for (int i = 0; i < r.n; i++)
        dims[i] = sizes[r.label[i]];
    if (ns) {
        fx_node *m = as_matrix(w, &a, sizes, nb, batch, nl, left, ns, sum), *n = as_matrix(w, &b, sizes, nb, batch, ns, sum, nr, right);
        fx_node *y = fx_rw_binary(w, nb ? FX_OP_bmm : FX_OP_mm, m, n, "product");
        if (!nb && w->status == FX_OK && fx_is_constant(n) && !fx_is_constant(m)) { /* as fx_d_mm does */
            fx_rw inner = fx_rw_at(w->g, w->scratch, y);
            fx_d_mm(&inner);
            w->status = inner.status;
        }
        r.x = nb <= 1 && nl == 1 && nr == 1 ? y : fx_rw_view_to(w, y, r.n, dims, "dims");
        return r;
    }
    /* Nothing is summed: elementwise, a's dims of the right and b's of the left being 1. */
    int la[2 * FX_MAX_RANK], n = 0;
    fx_dim da[FX_MAX_RANK], db[FX_MAX_RANK];
    for (int i = 0; i < nb + nl; i++)
        la[n++] = r.label[i];
    fx_node *x = permuted(w, &a, n, la);
    n = 0;
    for (int i = 0; i < r.n; i++)
        if (i < nb || i >= nb + nl)
            la[n++] = r.label[i];
    fx_node *y = permuted(w, &b, n, la);
    for (int i = 0; i < r.n; i++) {
        da[i] = i < nb + nl ? dims[i] : fx_dim_of(1);
        db[i] = i < nb || i >= nb + nl ? dims[i] : fx_dim_of(1);
    }
    if (nr)
        x = fx_rw_view_to(w, x, r.n, da, "left");
    if (nl)
        y = fx_rw_view_to(w, y, r.n, db, "right");
    r.x = fx_rw_binary(w, FX_OP_mul_Tensor, x, y, "product");
    return r;
}

/* The whole equation; the operands are used up. */
static fx_node *contract(fx_rw *w, operand *o, int n, const fx_einsum *e, int n_path, const int64_t *path)
{
    fx_dim sizes[FX_EINSUM_LABELS];
    bool set[FX_EINSUM_LABELS] = {false};
    for (int k = 0; k < n; k++)
        for (int d = 0; d < o[k].n; d++) {
            fx_dim v = o[k].x->type->dims[d];
            int l = o[k].label[d];
            if (!set[l] || fx_dim_is(sizes[l], 1))
                sizes[l] = v;
            set[l] = true;
        }
    for (int step = 0; n > 1 && w->status == FX_OK; step++) {
        int a = 0, b = 1;
        if (2 * step + 1 < n_path) {
            a = (int)path[2 * step];
            b = (int)path[2 * step + 1];
            if (a > b) {
                int t = a;
                a = b;
                b = t;
            }
            if (a < 0 || a == b || b >= n) {
                fx_rw_refuse(w, "the path does not fit %d operands", n);
                return w->at;
            }
        }
        bool needed[FX_EINSUM_LABELS] = {false};
        for (int d = 0; d < e->n_out; d++)
            needed[e->out[d]] = true;
        for (int k = 0; k < n; k++)
            for (int d = 0; k != a && k != b && d < o[k].n; d++)
                needed[o[k].label[d]] = true;
        operand r = multiply(w, o[a], o[b], sizes, needed);
        int at = n_path ? n - 2 : 0; /* with a path results go to the end, else to the front */
        operand rest[FX_EINSUM_MOST];
        int m = 0;
        if (at == 0)
            rest[m++] = r;
        for (int k = 0; k < n; k++)
            if (k != a && k != b)
                rest[m++] = o[k];
        if (at != 0)
            rest[m++] = r;
        n--;
        for (int k = 0; k < n; k++)
            o[k] = rest[k];
    }
    bool needed[FX_EINSUM_LABELS] = {false};
    for (int d = 0; d < e->n_out; d++)
        needed[e->out[d]] = true;
    normalize(w, &o[0], sizes);
    sum_alone(w, &o[0], NULL, needed);
    if (w->status != FX_OK)
        return w->at;
    return permuted(w, &o[0], e->n_out, e->out);
}

void fx_d_einsum(fx_rw *w)
{
    fx_node *x[FX_EINSUM_MOST];
    operand o[FX_EINSUM_MOST];
    int ranks[FX_EINSUM_MOST], n = fx_node_inputs(w->at, 1, x, FX_EINSUM_MOST);
    fx_einsum e;
    int64_t path[2 * FX_EINSUM_MOST];
    int n_path = fx_node_is_none(w->at, 2) ? 0 : fx_node_ints(w->at, 2, path, 2 * FX_EINSUM_MOST);
    for (int k = 0; k < n && k < FX_EINSUM_MOST; k++)
        ranks[k] = x[k]->type->rank;
    if (n > FX_EINSUM_MOST || !fx_einsum_parse(fx_node_arg(w->at, 0)->s, n, ranks, &e)) {
        fx_rw_refuse(w, "the equation does not fit %d operands", n);
        return;
    }
    for (int k = 0; k < n; k++) {
        o[k] = (operand){.x = x[k], .n = e.rank[k]};
        memcpy(o[k].label, e.label[k], sizeof o[k].label);
    }
    fx_rw_finish(w, contract(w, o, n, &e, n_path, path));
}

/* beta * self + alpha * y; with beta 0 self is not read. */
static fx_node *add_to_self(fx_rw *w, fx_node *y)
{
    fx_node *self = fx_rw_wide(w, fx_node_input(w->at, 0));
    double beta = fx_node_float(w->at, 3), alpha = fx_node_float(w->at, 4);
    if (alpha != 1)
        y = fx_rw_number(w, FX_OP_mul_Tensor, y, alpha, "scaled");
    if (beta == 0)
        return y;
    if (beta != 1)
        self = fx_rw_number(w, FX_OP_mul_Tensor, self, beta, "self");
    return fx_rw_binary(w, FX_OP_add_Tensor, y, self, "sum");
}

/* dot, mv, outer, inner, tensordot, and addmv, addr, baddbmm, addbmm. */
void fx_d_product(fx_rw *w)
{
    int first = fx_op_schema(w->ctx, w->at->op)->n == 5;
    operand o[2] = {{.x = fx_node_input(w->at, first)}, {.x = fx_node_input(w->at, first + 1)}};
    fx_einsum e;
    if (!fx_product_of(w->at, o[0].x->type->rank, o[1].x->type->rank, &e, &first)) {
        fx_rw_refuse(w, "operands have no such product");
        return;
    }
    for (int k = 0; k < 2; k++) {
        o[k].n = e.rank[k];
        memcpy(o[k].label, e.label[k], sizeof o[k].label);
        if (first) /* half-wide floats are rounded once, after the sum */
            o[k].x = fx_rw_wide(w, o[k].x);
    }
    fx_node *y = contract(w, o, 2, &e, 0, NULL);
    if (w->status == FX_OK)
        fx_rw_finish(w, first ? add_to_self(w, y) : y);
}
