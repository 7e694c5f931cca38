/* lower/attention_narrow.c: attention of float32 between casts from and to 16 bits, as torch's decompositions spell that of 16 bits, becomes attention of 16 bits
 * where the target's kernel takes it: its scores, softmax and sums are float32 whatever it reads, so only the casts go.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "lower/rewrite.h"

enum { MOST_VIEWS = 8 };

static bool is_view(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && n->op && n->op->cls == FX_CLASS_VIEW && n->n_operands == 1;
}

/* Whether n multiplies by a number. */
static bool is_factor(const fx_node *n, double *by)
{
    return fx_is_call(n, FX_OP_mul_Tensor) && fx_is_number(n, 1, by) && isfinite(*by) && *by != 0;
}

/* The tensor of 16 bits that x is cast from, through views and, where factor is given, multiplications by numbers; NULL: there is none. */
static fx_node *source_of(fx_node *x, double *factor)
{
    double by;
    for (int i = 0; i < MOST_VIEWS && x && !fx_is_call(x, FX_OP__to_copy); i++) {
        if (factor && is_factor(x, &by))
            *factor *= by;
        else if (!is_view(x))
            return NULL;
        x = fx_node_input(x, 0);
    }
    fx_node *from = x && fx_is_call(x, FX_OP__to_copy) ? fx_node_input(x, 0) : NULL;
    return from && from->type->kind == FX_TYPE_TENSOR && (from->type->dtype == FX_F16 || from->type->dtype == FX_BF16) ? from : NULL;
}

/* The view `like` of x. */
static fx_node *view_again(fx_rw *w, const fx_node *like, fx_node *x)
{
    fx_call c = fx_rw_call(w, like->op->id);
    fx_call_node(&c, x);
    for (int i = 1; i < fx_op_schema(w->ctx, like->op)->n; i++)
        fx_call_copy(&c, like, i);
    return fx_rw_node(w, &c, like->name);
}

/* x without its cast and factors: views of what was cast. */
static fx_node *viewed(fx_rw *w, fx_node *x)
{
    double by;
    if (fx_is_call(x, FX_OP__to_copy))
        return fx_node_input(x, 0);
    fx_node *from = viewed(w, fx_node_input(x, 0));
    return is_factor(x, &by) ? from : view_again(w, x, from);
}

/* The cast to `dtype` that alone reads n, behind at most MOST_VIEWS views; NULL: there is none. */
static fx_node *cast_of(const fx_node *n, fx_dtype dtype, fx_node **views, int *n_views)
{
    for (*n_views = 0; n->n_uses == 1 && *n_views < MOST_VIEWS;) {
        fx_node *user = n->first_use->user;
        if (fx_is_call(user, FX_OP__to_copy))
            return user->type->kind == FX_TYPE_TENSOR && user->type->dtype == dtype ? user : NULL;
        if (!is_view(user))
            return NULL;
        n = views[(*n_views)++] = user;
    }
    return NULL;
}

fx_status fx_attention_narrow(fx_lower *l, fx_node *n)
{
    fx_node *views[MOST_VIEWS], *mask = fx_node_input(n, 3);
    double scale;
    int n_views;
    const bool spelled = n->op->id == FX_OP_attention;
    if (!n->type || n->type->kind != FX_TYPE_TENSOR || n->type->dtype != FX_F32 || !fx_is_number(n, 6, &scale))
        return FX_OK;
    const fx_node *q = source_of(fx_node_input(n, 0), &scale), *k = source_of(fx_node_input(n, 1), &scale), *v = source_of(fx_node_input(n, 2), NULL);
    if (!q || !k || !v || k->type->dtype != q->type->dtype || v->type->dtype != q->type->dtype || !fx_lower_takes(l->opt, FX_K_attention, q->type->dtype))
        return FX_OK;
    fx_node *cast = cast_of(n, q->type->dtype, views, &n_views);
    if (!cast)
        return FX_OK;
    fx_rw w = fx_rw_at(l->graph, l->scratch, cast);
    const fx_node *narrow = mask && !spelled ? source_of(mask, NULL) : NULL;
    fx_call c = fx_rw_call(&w, n->op->id);
    for (int i = 0; i < 3; i++)
        fx_call_node(&c, viewed(&w, fx_node_input(n, i)));
    fx_call_node(&c, narrow && narrow->type->dtype == q->type->dtype ? viewed(&w, mask) : mask);
    for (int i = 4; i < (spelled ? 10 : 8); i++) {
        if (i == 6)
            fx_call_float(&c, scale);
        else
            fx_call_copy(&c, n, i);
    }
    fx_node *y = fx_rw_node(&w, &c, "attention");
    for (int i = 0; i < n_views; i++)
        y = view_again(&w, views[i], y);
    if (w.status == FX_OK)
        fx_node_replace_uses(cast, y);
    return w.status;
}
