/* ir/einsum.c: equations of einsum, and the products of tensors that are one: every dim of every operand gets a label; dims of one label
 * are one index, labels that the result lacks are summed over.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <ctype.h>

#include "ir/ops.h"

/* Labels of an equation while it is read: letters as they are, dims of "..." by their place from the right. */
enum { ELLIPSIS = 128, MOST = ELLIPSIS + FX_MAX_RANK };

/* Reads the labels of one operand, "...ij", of `rank` dims (-1: the result's, of any) up to `end`. */
static bool read_labels(const char **s, char end, int rank, int ellipsis, int *labels, int *n, int *wide)
{
    int before[FX_MAX_RANK], after[FX_MAX_RANK], nb = 0, na = 0;
    bool dots = false;
    for (; **s && **s != end && **s != '-'; ++*s) {
        if (**s == ' ')
            continue;
        if (**s == '.') {
            if (dots || (*s)[1] != '.' || (*s)[2] != '.')
                return false;
            dots = true;
            *s += 2;
        } else if (isalpha((unsigned char)**s) && (dots ? na : nb) < FX_MAX_RANK) {
            *(dots ? &after[na++] : &before[nb++]) = (unsigned char)**s;
        } else {
            return false;
        }
    }
    *wide = dots ? (rank >= 0 ? rank - nb - na : ellipsis) : 0;
    if (*wide < 0 || nb + na + *wide > FX_MAX_RANK || (rank >= 0 && nb + na + *wide != rank))
        return false;
    *n = 0;
    for (int i = 0; i < nb; i++)
        labels[(*n)++] = before[i];
    for (int i = *wide - 1; i >= 0; i--)
        labels[(*n)++] = ELLIPSIS + i;
    for (int i = 0; i < na; i++)
        labels[(*n)++] = after[i];
    return true;
}

/* Labels numbered in order of appearance. */
static void number_labels(fx_einsum *e, int (*labels)[FX_MAX_RANK], int *out)
{
    int number[MOST];
    for (int i = 0; i < MOST; i++)
        number[i] = -1;
    for (int k = 0; k <= e->n; k++)
        for (int d = 0; d < (k < e->n ? e->rank[k] : e->n_out); d++) {
            int *v = k < e->n ? &labels[k][d] : &out[d];
            if (number[*v] < 0)
                number[*v] = e->n_labels++;
            *(k < e->n ? &e->label[k][d] : &e->out[d]) = number[*v];
        }
}

bool fx_einsum_parse(const char *equation, int n, const int *ranks, fx_einsum *e)
{
    int labels[FX_EINSUM_MOST][FX_MAX_RANK], out[FX_MAX_RANK], widest = 0, wide, count[MOST] = {0};
    const char *s = equation;
    *e = (fx_einsum){.n = n};
    if (n < 1 || n > FX_EINSUM_MOST)
        return false;
    for (int k = 0; k < n; k++) {
        e->rank[k] = ranks[k];
        int got;
        if (ranks[k] > FX_MAX_RANK || !read_labels(&s, ',', ranks[k], 0, labels[k], &got, &wide))
            return false;
        widest = wide > widest ? wide : widest;
        for (int d = 0; d < got; d++)
            count[labels[k][d]]++;
        if (k + 1 < n && *s++ != ',')
            return false;
    }
    if (*s == '-') {
        if (*++s != '>')
            return false;
        s++;
        if (!read_labels(&s, '\0', -1, widest, out, &e->n_out, &wide))
            return false;
        bool seen[MOST] = {false};
        for (int d = 0; d < e->n_out; d++) {
            if ((!count[out[d]] && out[d] < ELLIPSIS) || seen[out[d]])
                return false;
            seen[out[d]] = true;
        }
    } else { /* the dims of "...", then letters met once, in alphabetical order */
        for (int i = widest - 1; i >= 0 && e->n_out < FX_MAX_RANK; i--)
            out[e->n_out++] = ELLIPSIS + i;
        for (int c = 0; c < ELLIPSIS; c++)
            if (count[c] == 1) {
                if (e->n_out == FX_MAX_RANK)
                    return false;
                out[e->n_out++] = c;
            }
    }
    if (*s)
        return false;
    number_labels(e, labels, out);
    return true;
}

/* A product of two tensors as an equation without text; labels are numbered anew, without gaps. */
static void plain(fx_einsum *e, const int (*labels)[FX_MAX_RANK], const int *ranks, int n_out, const int *out)
{
    int number[2 * FX_MAX_RANK];
    for (int i = 0; i < 2 * FX_MAX_RANK; i++)
        number[i] = -1;
    *e = (fx_einsum){.n = 2, .n_out = n_out};
    for (int k = 0; k < 2; k++) {
        e->rank[k] = ranks[k];
        for (int d = 0; d < ranks[k]; d++) {
            if (number[labels[k][d]] < 0)
                number[labels[k][d]] = e->n_labels++;
            e->label[k][d] = number[labels[k][d]];
        }
    }
    for (int d = 0; d < n_out; d++)
        e->out[d] = number[out[d]];
}

bool fx_product_of(const fx_node *node, int ra, int rb, fx_einsum *e, int *first)
{
    int la[2][FX_MAX_RANK], out[FX_MAX_RANK], ranks[2] = {ra, rb}, n = 0;
    int64_t da[FX_MAX_RANK], db[FX_MAX_RANK];
    *first = 0;
    for (int d = 0; d < FX_MAX_RANK; d++) {
        la[0][d] = d;
        la[1][d] = FX_MAX_RANK + d;
    }
    switch (node->op->id) {
    case FX_OP_dot: /* i,i-> */
        if (ra != 1 || rb != 1)
            return false;
        la[1][0] = 0;
        break;
    case FX_OP_addmv:
        *first = 1;
        /* fallthrough */
    case FX_OP_mv: /* ij,j->i */
        if (ra != 2 || rb != 1)
            return false;
        la[1][0] = 1;
        out[n++] = 0;
        break;
    case FX_OP_addr:
        *first = 1;
        /* fallthrough */
    case FX_OP_outer: /* i,j->ij */
        if (ra != 1 || rb != 1)
            return false;
        la[1][0] = 1;
        out[n++] = 0;
        out[n++] = 1;
        break;
    case FX_OP_baddbmm: case FX_OP_addbmm: /* bij,bjk->bik, or the sum over b */
        if (ra != 3 || rb != 3)
            return false;
        *first = 1;
        la[1][0] = 0;
        la[1][1] = 2;
        la[1][2] = 3;
        if (node->op->id == FX_OP_baddbmm)
            out[n++] = 0;
        out[n++] = 1;
        out[n++] = 3;
        break;
    case FX_OP_inner: /* over the last dims; a number of rank 0 multiplies */
        if (ra + rb - 2 * (ra && rb) > FX_MAX_RANK)
            return false;
        if (ra && rb)
            la[1][rb - 1] = ra - 1;
        for (int d = 0; d < ra - (ra && rb); d++)
            out[n++] = la[0][d];
        for (int d = 0; d < rb - (ra && rb); d++)
            out[n++] = la[1][d];
        break;
    case FX_OP_tensordot: {
        int na = fx_node_ints(node, 2, da, FX_MAX_RANK), nb = fx_node_ints(node, 3, db, FX_MAX_RANK);
        uint32_t gone_a = 0, gone_b = 0;
        if (na != nb || na > ra || nb > rb)
            return false;
        for (int i = 0; i < na; i++) {
            int64_t a = da[i] + (da[i] < 0 ? ra : 0), b = db[i] + (db[i] < 0 ? rb : 0);
            if (a < 0 || a >= ra || b < 0 || b >= rb || (gone_a >> a & 1) || (gone_b >> b & 1))
                return false;
            la[1][b] = la[0][a];
            gone_a |= 1u << a;
            gone_b |= 1u << b;
        }
        if (ra + rb - 2 * na > FX_MAX_RANK)
            return false;
        for (int d = 0; d < ra; d++)
            if (!(gone_a >> d & 1))
                out[n++] = la[0][d];
        for (int d = 0; d < rb; d++)
            if (!(gone_b >> d & 1))
                out[n++] = la[1][d];
        break;
    }
    default:
        return false;
    }
    plain(e, (const int(*)[FX_MAX_RANK])la, ranks, n, out);
    return true;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* The size of every label over all operands: 1 broadcasts. */
static fx_status label_sizes(const fx_infer *c, const fx_einsum *e, const fx_type *const *t, fx_dim *sizes)
{
    bool set[FX_EINSUM_LABELS] = {false};
    for (int k = 0; k < e->n; k++)
        for (int d = 0; d < e->rank[k]; d++) {
            int l = e->label[k][d];
            fx_dim v = t[k]->dims[d];
            if (!set[l] || fx_dim_is(sizes[l], 1))
                sizes[l] = v;
            else if (!fx_dim_is(v, 1) && fx_dim_differ(sizes[l], v))
                return fx_infer_fail(c, "sizes of dims that must be equal differ: %lld and %lld", (long long)sizes[l].value, (long long)v.value);
            else if (sizes[l].sym && !v.sym && v.value != 1)
                sizes[l] = v;
            set[l] = true;
        }
    return FX_OK;
}

static fx_status set_product(fx_infer *c, const fx_einsum *e, const fx_type *const *t)
{
    fx_dim sizes[FX_EINSUM_LABELS], dims[FX_MAX_RANK];
    for (int k = 1; k < e->n; k++)
        if (t[k]->dtype != t[0]->dtype)
            return fx_infer_fail(c, "expected operands of one dtype, got %s and %s", fx_infer_text(c, t[0]), fx_infer_text(c, t[k]));
    if (fx_dtype_is_complex(t[0]->dtype))
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(t[0]->dtype));
    FX_TRY(label_sizes(c, e, t, sizes));
    for (int d = 0; d < e->n_out; d++)
        dims[d] = sizes[e->out[d]];
    return fx_infer_set(c, t[0]->dtype, e->n_out, dims);
}

fx_status infer_einsum(fx_infer *c)
{
    const fx_type *t[FX_EINSUM_MOST];
    fx_einsum e;
    int n, ranks[FX_EINSUM_MOST];
    const fx_arg *equation = fx_node_arg(c->node, 0);
    FX_TRY(fx_infer_tensors(c, 1, t, FX_EINSUM_MOST, &n));
    for (int k = 0; k < n; k++)
        ranks[k] = t[k]->rank;
    if (equation->kind != FX_ARG_STR || !fx_einsum_parse(equation->s, n, ranks, &e))
        return fx_infer_fail(c, "the equation does not fit %d operands of these ranks", n);
    return set_product(c, &e, t);
}

/* dot, mv, outer, inner, tensordot; addmv, addr, baddbmm, addbmm add to their first argument. */
fx_status infer_product(fx_infer *c)
{
    const fx_type *t[2], *add;
    fx_einsum e;
    int first = fx_op_schema(c->ctx, c->node->op)->n == 5;
    for (int i = 0; i < 2; i++)
        FX_TRY(fx_infer_tensor(c, first + i, &t[i]));
    if (!fx_product_of(c->node, t[0]->rank, t[1]->rank, &e, &first))
        return fx_infer_fail(c, "operands of these ranks and dims have no such product, or one of more than 8 dims: %s and %s", fx_infer_text(c, t[0]), fx_infer_text(c, t[1]));
    for (int d = 0; c->node->op->id != FX_OP_tensordot && d < e.rank[0]; d++) /* which alone broadcasts */
        for (int k = 0; k < e.rank[1]; k++)
            if (e.label[0][d] == e.label[1][k] && fx_dim_differ(t[0]->dims[d], t[1]->dims[k]))
                return fx_infer_fail(c, "expected equal sizes where the two are multiplied, got %s and %s", fx_infer_text(c, t[0]), fx_infer_text(c, t[1]));
    FX_TRY(set_product(c, &e, t));
    if (!first)
        return FX_OK;
    FX_TRY(fx_infer_tensor(c, 0, &add));
    const fx_type *r = c->result;
    bool ok = add->rank <= r->rank && add->dtype == r->dtype;
    for (int i = 0; ok && i < add->rank; i++)
        ok = fx_dim_is(add->dims[i], 1) || !fx_dim_differ(add->dims[i], r->dims[r->rank - add->rank + i]);
    if (!ok)
        return fx_infer_fail(c, "argument 'self': expected what broadcasts to %s, got %s", fx_infer_text(c, r), fx_infer_text(c, add));
    return FX_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The sum over all labels that the result lacks, of the products of all operands: in double, or wrapping. */
static fx_status contract(fx_eval *c, const fx_einsum *e, const fx_tensor *const *in, bool ints, void *y)
{
    int64_t sizes[FX_EINSUM_LABELS], at[FX_EINSUM_LABELS] = {0}, steps[FX_EINSUM_MOST][FX_EINSUM_LABELS] = {{0}}, offset[FX_EINSUM_MOST] = {0};
    int order[FX_EINSUM_LABELS], n = 0;
    bool kept[FX_EINSUM_LABELS] = {false};
    const void *p[FX_EINSUM_MOST];
    for (int l = 0; l < FX_EINSUM_LABELS; l++)
        sizes[l] = 1;
    for (int k = 0; k < e->n; k++) {
        FX_TRY(fx_eval_array(c, in[k], ints ? FX_KIND_INT : FX_KIND_F64, 0, NULL, &p[k]));
        int64_t step = 1;
        for (int d = e->rank[k] - 1; d >= 0; d--) {
            int l = e->label[k][d];
            sizes[l] = in[k]->sizes[d] != 1 ? in[k]->sizes[d] : sizes[l];
            steps[k][l] += in[k]->sizes[d] == 1 ? 0 : step;
            step *= in[k]->sizes[d];
        }
    }
    for (int d = 0; d < e->n_out; d++) {
        order[n++] = e->out[d];
        kept[e->out[d]] = true;
    }
    for (int l = 0; l < e->n_labels; l++)
        if (!kept[l])
            order[n++] = l;
    int64_t results = 1, terms = 1;
    for (int i = 0; i < n; i++)
        *(i < e->n_out ? &results : &terms) *= sizes[order[i]];
    for (int64_t r = 0; r < results; r++) {
        double f = 0;
        uint64_t q = 0;
        for (int64_t k = 0; k < terms; k++) {
            double fp = 1;
            uint64_t qp = 1;
            for (int i = 0; i < e->n; i++)
                if (ints)
                    qp *= ((const uint64_t *)p[i])[offset[i]];
                else
                    fp *= ((const double *)p[i])[offset[i]];
            f += fp;
            q += qp;
            for (int i = n - 1; i >= 0; i--) { /* the next place; past the end all are 0 again */
                int l = order[i];
                bool over = ++at[l] == sizes[l];
                for (int o = 0; o < e->n; o++)
                    offset[o] += over ? -(sizes[l] - 1) * steps[o][l] : steps[o][l];
                if (!over)
                    break;
                at[l] = 0;
            }
        }
        if (ints)
            ((uint64_t *)y)[r] = q;
        else
            ((double *)y)[r] = f;
    }
    return FX_OK;
}

fx_status eval_einsum(fx_eval *c)
{
    const fx_arg *list = fx_node_arg(c->node, 1);
    const fx_tensor *in[FX_EINSUM_MOST];
    int ranks[FX_EINSUM_MOST];
    fx_einsum e;
    for (int k = 0; k < list->n; k++) {
        in[k] = c->in[list->items[k]->i];
        ranks[k] = in[k]->rank;
    }
    if (!fx_einsum_parse(fx_node_arg(c->node, 0)->s, list->n, ranks, &e))
        return fx_eval_fail(c, FX_ERR_TYPE, "the equation does not fit");
    bool ints = fx_dtype_is_int(in[0]->dtype);
    void *y = fx_eval_target(c, 0, ints ? FX_KIND_INT : FX_KIND_F64);
    FX_TRY(contract(c, &e, in, ints, y));
    fx_eval_finish(c, 0, ints ? FX_KIND_INT : FX_KIND_F64, y);
    return FX_OK;
}

fx_status eval_product(fx_eval *c)
{
    fx_einsum e;
    int first = fx_op_schema(c->ctx, c->node->op)->n == 5;
    const fx_tensor *in[2] = {fx_eval_input(c, first), fx_eval_input(c, first + 1)};
    if (!fx_product_of(c->node, in[0]->rank, in[1]->rank, &e, &first))
        return fx_eval_fail(c, FX_ERR_TYPE, "operands have no such product");
    bool ints = fx_dtype_is_int(in[0]->dtype);
    fx_kind kind = ints ? FX_KIND_INT : FX_KIND_F64;
    void *y = fx_eval_target(c, 0, kind);
    FX_TRY(contract(c, &e, in, ints, y));
    const fx_tensor *out = &c->out[0];
    if (first) { /* beta * self + alpha * y; with beta 0 self is not read */
        const void *p;
        fx_arg_kind number;
        double beta, alpha;
        int64_t ibeta, ialpha;
        FX_TRY(fx_eval_number(c, 3, &number, &beta, &ibeta));
        FX_TRY(fx_eval_number(c, 4, &number, &alpha, &ialpha));
        FX_TRY(fx_eval_array(c, fx_eval_input(c, 0), kind, out->rank, out->sizes, &p));
        for (int64_t i = 0, n = fx_tensor_numel(out); i < n; i++)
            if (ints)
                ((uint64_t *)y)[i] = ((uint64_t *)y)[i] * (uint64_t)ialpha + (ibeta ? ((const uint64_t *)p)[i] * (uint64_t)ibeta : 0);
            else
                ((double *)y)[i] = ((double *)y)[i] * alpha + (beta != 0 ? ((const double *)p)[i] * beta : 0);
    }
    fx_eval_finish(c, 0, kind, y);
    return FX_OK;
}
