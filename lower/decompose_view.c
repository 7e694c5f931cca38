/* lower/decompose_view.c: views as view, permute, expand, slice and select with sizes and dims as plain non-negative numbers;
 * splits, stacks, shuffles and pads by these and cat.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "lower/rewrite.h"

#include <string.h>

/* Every view that keeps the row-major order of the elements: one form, its sizes known. */
void fx_d_view(fx_rw *w)
{
    fx_dim out[FX_MAX_RANK];
    fx_node *x = fx_node_input(w->at, 0);
    int rank = fx_sizes(w->at, out);
    if (fx_same_type(x, w->at))
        fx_rw_replace(w, x);
    else
        fx_rw_view_to(w, x, rank, out, NULL);
}

/* permute, transpose.int, t, movedim, T, mT */
void fx_d_permute(fx_rw *w)
{
    int64_t given[FX_MAX_RANK], dims[FX_MAX_RANK];
    fx_node *x = fx_node_input(w->at, 0);
    int rank = x->type->rank;
    fx_opid id = w->at->op->id;
    for (int i = 0; i < rank; i++)
        dims[i] = i;
    if (id == FX_OP_movedim_int || id == FX_OP_movedim_intlist) {
        const fx_infer infer = {.ctx = w->ctx, .node = w->at};
        int order[FX_MAX_RANK];
        w->status = fx_move_dims(&infer, rank, order);
        for (int i = 0; w->status == FX_OK && i < rank; i++)
            dims[i] = order[i];
    } else if (id == FX_OP_numpy_T || id == FX_OP_mT) {
        for (int i = 0; i < rank; i++)
            dims[i] = id == FX_OP_numpy_T ? rank - 1 - i : i < rank - 2 ? i : 2 * rank - 3 - i;
    } else if (id == FX_OP_permute) {
        if (fx_node_ints(w->at, 1, given, FX_MAX_RANK) != rank) {
            fx_rw_refuse(w, "expected %d dims", rank);
            return;
        }
        for (int i = 0; i < rank; i++)
            dims[i] = fx_wrap_dim(given[i], rank);
    } else if (rank >= 2) {
        bool t = id == FX_OP_t;
        int a = t ? 0 : fx_wrap_dim(fx_node_int(w->at, 1), rank), b = t ? 1 : fx_wrap_dim(fx_node_int(w->at, 2), rank);
        dims[a] = b;
        dims[b] = a;
    }
    bool identity = true;
    for (int i = 0; i < rank; i++)
        identity = identity && dims[i] == i;
    if (identity)
        fx_rw_replace(w, x);
    else
        fx_rw_permute(w, x, rank, dims, NULL);
}

void fx_d_expand(fx_rw *w)
{
    fx_dim out[FX_MAX_RANK];
    fx_node *x = fx_node_input(w->at, 0);
    int rank = fx_sizes(w->at, out);
    if (fx_same_type(x, w->at))
        fx_rw_replace(w, x);
    else
        fx_rw_expand_to(w, x, rank, out, NULL);
}

/* Python's rules for one end of a slice. */
static int64_t clip(int64_t v, int64_t size)
{
    if (v < 0)
        v += size;
    return v < 0 ? 0 : v > size ? size : v;
}

/* An argument that is a size: a number or an expression; `otherwise` where it is None. */
static fx_dim size_arg(fx_rw *w, int param, fx_dim otherwise)
{
    const fx_arg *a = fx_node_arg(w->at, param);
    if (a->kind == FX_ARG_NONE)
        return otherwise;
    if (a->kind != FX_ARG_INT && a->kind != FX_ARG_SYM)
        fx_rw_refuse(w, "argument %d: expected a size that does not depend on data", param);
    return a->kind == FX_ARG_SYM ? fx_dim_sym(a->sym) : fx_dim_of(a->i);
}

/* Of a dynamic dim: ends from its end are written as sizes less a number, and the length is what inference says. */
static void slice_dynamic(fx_rw *w, fx_node *x, int dim, fx_dim size)
{
    fx_dim start = size_arg(w, 2, fx_dim_of(0)), stop = size_arg(w, 3, fx_dim_of(INT64_MAX)), length = w->at->type->dims[dim];
    int64_t step = fx_node_int(w->at, 4);
    start = fx_slice_end(w->g, start, size);
    stop = fx_dim_is(stop, INT64_MAX) ? size : fx_slice_end(w->g, stop, size);
    if (step == 1)
        stop = fx_dim_add(w->ctx, start, length);
    if (fx_dim_is(start, 0) && fx_dim_equal(stop, size) && step == 1 && w->status == FX_OK && fx_same_type(x, w->at))
        fx_rw_replace(w, x);
    else
        fx_rw_slice_to(w, x, dim, start, stop, step, NULL);
}

void fx_d_slice(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int rank = x->type->rank, dim = fx_wrap_dim(fx_node_int(w->at, 1), rank);
    fx_dim whole = x->type->dims[dim], first = size_arg(w, 2, fx_dim_of(0)), last = size_arg(w, 3, whole);
    if (w->status != FX_OK)
        return;
    if (whole.sym || first.sym || last.sym) {
        slice_dynamic(w, x, dim, whole);
        return;
    }
    int64_t size = whole.value, step = fx_node_int(w->at, 4), start = clip(first.value, size), stop = clip(last.value, size);
    if (stop < start)
        stop = start;
    if (start == 0 && stop == size && step == 1)
        fx_rw_replace(w, x);
    else
        fx_rw_slice(w, x, dim, start, stop, step, NULL);
}

/* narrow(self, dim, start, length) */
void fx_d_narrow(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int dim = fx_wrap_dim(fx_node_int(w->at, 1), x->type->rank);
    fx_dim start = size_arg(w, 2, fx_dim_of(0)), size = x->type->dims[dim];
    start = fx_slice_end(w->g, start, size);
    if (w->status == FX_OK && fx_same_type(x, w->at))
        fx_rw_replace(w, x);
    else
        fx_rw_slice_to(w, x, dim, start, fx_dim_add(w->ctx, start, w->at->type->dims[dim]), 1, NULL);
}

/* A slice of one, its dim taken away: nothing but slices cut. */
void fx_d_select(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim out[FX_MAX_RANK];
    int rank = x->type->rank, out_rank = fx_sizes(w->at, out);
    if (rank == 0)
        return;
    int dim = fx_wrap_dim(fx_node_int(w->at, 1), rank);
    fx_dim size = x->type->dims[dim], index = size_arg(w, 2, fx_dim_of(0));
    index = fx_slice_end(w->g, index, size);
    if (!index.sym && (index.value < 0 || (!size.sym && index.value >= size.value))) {
        fx_rw_refuse(w, "index %lld lies outside dim %d of size %lld", (long long)fx_node_int(w->at, 2), dim, (long long)size.value);
        return;
    }
    fx_node *one = fx_dim_is(size, 1) ? x : fx_rw_slice_to(w, x, dim, index, fx_dim_plus(w->ctx, index, 1), 1, "slice");
    fx_rw_view_to(w, one, out_rank, out, NULL);
}

/* chunk, split, unbind and the like: every getitem of one becomes a slice. Where a piece begins is the sum of the sizes before it. */
void fx_d_split(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0), *split = w->at;
    if (!split->type || split->type->kind != FX_TYPE_TUPLE)
        return;
    bool unbind = split->op->id == FX_OP_unbind_int;
    int dim = fx_wrap_dim(fx_node_int(split, unbind ? 1 : 2), x->type->rank), pieces = split->type->n;
    for (fx_use *u = split->first_use, *next; u; u = next) {
        next = u->next;
        fx_node *item = u->user;
        if (!fx_is_call(item, FX_OP_getitem)) {
            fx_rw_refuse(w, "its list of results is used whole by '%s'; only its items can be compiled", item->name);
            return;
        }
        int64_t index = fx_node_int(item, 1);
        fx_dim start = fx_dim_of(0), sizes[FX_MAX_RANK];
        if (index < 0)
            index += pieces;
        if (index < 0 || index >= pieces) {
            fx_rw_refuse(w, "there are %d pieces, '%s' takes number %lld", pieces, item->name, (long long)index);
            return;
        }
        for (int i = 0; i < index; i++)
            start = fx_dim_add(w->ctx, start, unbind ? fx_dim_of(1) : split->type->items[i]->dims[dim]);
        fx_rw one = fx_rw_at(w->g, w->scratch, item);
        fx_dim stop = fx_dim_add(w->ctx, start, unbind ? fx_dim_of(1) : split->type->items[index]->dims[dim]);
        fx_node *piece = pieces == 1 ? x : fx_rw_slice_to(&one, x, dim, start, stop, 1, unbind ? "slice" : NULL);
        if (unbind) {
            int rank = fx_sizes(item, sizes);
            fx_rw_view_to(&one, piece, rank, sizes, NULL);
        } else if (pieces == 1) {
            fx_rw_replace(&one, x);
        }
        w->status = one.status;
        if (w->status != FX_OK)
            return;
    }
    w->status = fx_node_erase(split);
}

/* Channels [groups, C / groups] swapped. */
void fx_d_channel_shuffle(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim in[FX_MAX_RANK], sizes[FX_MAX_RANK];
    int64_t dims[FX_MAX_RANK], groups = fx_node_int(w->at, 1);
    int rank = fx_sizes(x, in);
    if (rank < 2 || rank + 1 > FX_MAX_RANK || groups < 1 || in[1].sym || in[1].value % groups) {
        fx_rw_refuse(w, "expected channels in dim 1, a multiple of groups, and a rank of at most %d", FX_MAX_RANK - 1);
        return;
    }
    sizes[0] = in[0];
    sizes[1] = fx_dim_of(groups);
    sizes[2] = fx_dim_of(in[1].value / groups);
    for (int i = 2; i < rank; i++)
        sizes[i + 1] = in[i];
    for (int i = 0; i <= rank; i++)
        dims[i] = i;
    dims[1] = 2;
    dims[2] = 1;
    fx_node *split = fx_rw_view_to(w, x, rank + 1, sizes, "groups");
    fx_rw_view_to(w, fx_rw_permute(w, split, rank + 1, dims, "swap"), rank, in, NULL);
}

/* pixel_shuffle: [*, C r r, H, W] -> [*, C, H r, W r]; pixel_unshuffle: back. */
void fx_d_pixel_shuffle(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    bool back = w->at->op->id == FX_OP_pixel_unshuffle;
    fx_dim out[FX_MAX_RANK], sizes[FX_MAX_RANK + 2], in[FX_MAX_RANK];
    int64_t dims[FX_MAX_RANK + 2], r = fx_node_int(w->at, 1);
    int rank = fx_sizes(x, in), lead = rank - 3, out_rank = fx_sizes(w->at, out);
    const fx_dim *few = back ? in : out, *small = back ? out : in; /* few channels, small pictures */
    if (rank < 3 || rank + 2 > FX_MAX_RANK || r < 1) {
        fx_rw_refuse(w, "expected channels in dim -3 and a rank of at most %d", FX_MAX_RANK - 2);
        return;
    }
    memcpy(sizes, in, (size_t)lead * sizeof *sizes);
    fx_dim *s = sizes + lead;
    s[0] = few[lead];
    s[back ? 2 : 1] = fx_dim_of(r);
    s[back ? 4 : 2] = fx_dim_of(r);
    s[back ? 1 : 3] = small[lead + 1];
    s[back ? 3 : 4] = small[lead + 2];
    static const int there[5] = { 0, 3, 1, 4, 2 }, and_back[5] = { 0, 2, 4, 1, 3 };
    for (int i = 0; i < lead; i++)
        dims[i] = i;
    for (int i = 0; i < 5; i++)
        dims[lead + i] = lead + (back ? and_back : there)[i];
    fx_node *split = fx_rw_view_to(w, x, rank + 2, sizes, "pixels");
    fx_rw_view_to(w, fx_rw_permute(w, split, rank + 2, dims, "swap"), out_rank, out, NULL);
}

/* Every tensor gets the new dim, then they are joined. */
void fx_d_stack(fx_rw *w)
{
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(w->at, sizes), dim = fx_wrap_dim(fx_node_int(w->at, 1), rank);
    int n = fx_node_inputs(w->at, 0, NULL, 0);
    fx_node **x = FX_NEW_ARRAY(w->scratch, fx_node *, n + 1);
    fx_node_inputs(w->at, 0, x, n);
    if (rank == 0)
        return;
    sizes[dim] = fx_dim_of(1);
    for (int i = 0; i < n; i++) {
        if (x[i]->type->dtype != w->at->type->dtype)
            x[i] = fx_rw_cast(w, x[i], w->at->type->dtype, "cast");
        x[i] = fx_rw_view_to(w, x[i], rank, sizes, "one");
    }
    if (n == 1)
        fx_rw_replace(w, x[0]);
    else
        fx_rw_cat(w, n, x, dim, NULL);
}

static fx_node *flip(fx_rw *w, fx_node *x, int dim)
{
    int64_t d = dim;
    fx_call c = fx_rw_call(w, FX_OP_flip);
    fx_call_node(&c, x);
    fx_call_ints(&c, 1, &d);
    return fx_rw_node(w, &c, "flip");
}

/* `count` elements beside x in `dim` by a mode: before it or after it. */
static fx_node *border(fx_rw *w, fx_node *x, int dim, int64_t count, bool before, const char *mode)
{
    int64_t sizes[FX_MAX_RANK];
    int rank = fx_dims(x, sizes);
    int64_t size = sizes[dim];
    if (!strcmp(mode, "reflect")) /* the edge itself is not repeated */
        return flip(w, before ? fx_rw_slice(w, x, dim, 1, 1 + count, 1, "edge")
                              : fx_rw_slice(w, x, dim, size - 1 - count, size - 1, 1, "edge"), dim);
    if (!strcmp(mode, "circular"))
        return before ? fx_rw_slice(w, x, dim, size - count, size, 1, "edge") : fx_rw_slice(w, x, dim, 0, count, 1, "edge");
    fx_node *edge = before ? fx_rw_slice(w, x, dim, 0, 1, 1, "edge") : fx_rw_slice(w, x, dim, size - 1, size, 1, "edge");
    sizes[dim] = count;
    return fx_rw_expand(w, edge, rank, sizes, "border");
}

static void constant_pad(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_constant_pad_nd);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, 1);
    if (fx_node_is_none(w->at, 3))
        fx_call_int(&c, 0);
    else
        fx_call_copy(&c, w->at, 3);
    fx_rw_become(w, &c);
}

/* Constant mode is a core row; the others join pieces of the tensor itself, dim after dim, so that corners come out right. */
void fx_d_pad(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    const fx_arg *mode = fx_node_arg(w->at, 2);
    int64_t pad[2 * FX_MAX_RANK];
    int n = fx_node_ints(w->at, 1, pad, 2 * FX_MAX_RANK), rank = x->type->rank;
    if (mode->kind == FX_ARG_STR && !strcmp(mode->s, "constant")) {
        constant_pad(w);
        return;
    }
    if (mode->kind != FX_ARG_STR || n < 0 || n % 2 || n > 2 * rank) {
        fx_rw_refuse(w, "expected a mode and pairs of sizes");
        return;
    }
    if (!fx_is_tensor(x)) {
        fx_rw_refuse(w, "mode '%s' of a tensor of dynamic size cannot be compiled", mode->s);
        return;
    }
    if (strcmp(mode->s, "reflect") && strcmp(mode->s, "replicate") && strcmp(mode->s, "circular")) {
        fx_rw_refuse(w, "expected mode 'constant', 'reflect', 'replicate' or 'circular', got '%s'", mode->s);
        return;
    }
    for (int i = 0; i < n / 2 && w->status == FX_OK; i++) {
        int dim = rank - 1 - i, count = 0;
        int64_t size = fx_dim_size(x, dim), most = !strcmp(mode->s, "reflect") ? size - 1 : !strcmp(mode->s, "circular") ? size : INT64_MAX;
        fx_node *piece[3];
        for (int side = 0; side < 2; side++)
            if (pad[2 * i + side] < 0 || pad[2 * i + side] > most || size == 0) {
                fx_rw_refuse(w, "mode '%s' cannot pad dim %d of size %lld by %lld", mode->s, dim, (long long)size,
                             (long long)pad[2 * i + side]);
                return;
            }
        if (pad[2 * i])
            piece[count++] = border(w, x, dim, pad[2 * i], true, mode->s);
        piece[count++] = x;
        if (pad[2 * i + 1])
            piece[count++] = border(w, x, dim, pad[2 * i + 1], false, mode->s);
        if (count > 1)
            x = fx_rw_cat(w, count, piece, dim, "pad");
    }
    fx_rw_replace(w, x);
}
