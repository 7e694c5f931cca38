/* lower/select_pack.c: weights and biases of convolutions that are computed, in training say, are packed by a step in front of the kernel's: plain
 * loops that store what runtime/pack.c stores at compile time.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/select.h"

enum { MOST = 6 };

/* Loops around one store: to[offset + sums of strides] = from there, or 0 (from NULL). Loops that run once are left out. */
typedef struct nest {
    int n;
    int64_t extent[MOST], to[MOST];
    fx_dim from[MOST];
    int64_t to_offset;
    fx_dim from_offset;
} nest;

static void add_loop(nest *k, int64_t extent, int64_t to, fx_dim from)
{
    if (extent != 1) {
        k->extent[k->n] = extent;
        k->to[k->n] = to;
        k->from[k->n++] = from;
    }
}

static fx_stmt **emit(fx_build *b, fx_stmt **at, const nest *k, int to, const fx_window *from)
{
    fx_dtype type = b->p->bufs[to].dtype;
    fx_stmt **next = NULL;
    fx_affine ti = fx_affine_const(k->to_offset), fi = fx_affine_dim(k->from_offset);
    for (int i = 0; i < k->n; i++) {
        fx_stmt *loop = fx_stmt_new(b->p, FX_ST_LOOP);
        loop->var = b->n_vars++;
        loop->extent = fx_dim_of(k->extent[i]);
        loop->loop = i ? FX_LOOP_SERIAL : FX_LOOP_PARALLEL;
        loop->hint = "i";
        fx_affine_add(b->ctx, &ti, loop->var, fx_dim_of(k->to[i]));
        if (from && !fx_dim_is(k->from[i], 0))
            fx_affine_add(b->ctx, &fi, loop->var, k->from[i]);
        *at = loop;
        next = next ? next : &loop->next;
        at = &loop->body;
    }
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = to;
    store->index = ti;
    store->value = from ? fx_s_cast(b->p, type, fx_s_load(b->p, from->buf, &fi)) : fx_s_const(b->p, type, 0);
    *at = store;
    return next ? next : &store->next;
}

static int buffer(fx_build *b, fx_dtype type, const char *name, const char *what, int64_t numel, const char *note)
{
    fx_dim n = fx_dim_of(numel);
    int id = fx_program_buf(b->p, FX_BUF_ARENA, fx_arena_printf(b->piece, "%s_%s", name, what), type, 1, &n);
    b->p->bufs[id].note = note;
    return id;
}

/* Columns of groups, padded to whole panels: whole ones, what is left, zeros behind it. rows: loops within a column's place, from the panel's
 * begin on; each steps over nr columns. */
static void panels(fx_build *b, fx_step *step, int to, const fx_window *v, int64_t groups, fx_dim group_from, int64_t columns, fx_dim column_from,
                   int64_t nr, const nest *rows)
{
    int64_t size = nr, whole = columns / nr, rest = columns % nr, all = whole + (rest != 0);
    fx_stmt **at = &step->body;
    for (int i = 0; i < rows->n; i++)
        size *= rows->extent[i];
    for (int part = 0; part < 3; part++) {
        int64_t n = part == 0 ? nr : part == 1 ? rest : nr - rest;
        if (part == 0 ? whole == 0 : rest == 0)
            continue;
        nest k = {.to_offset = part == 0 ? 0 : whole * size + (part == 2 ? rest : 0), .from_offset = v->offset};
        if (part == 1)
            k.from_offset = fx_dim_add(b->ctx, k.from_offset, fx_dim_scale(b->ctx, column_from, whole * nr));
        add_loop(&k, groups, all * size, group_from);
        if (part == 0)
            add_loop(&k, whole, size, fx_dim_scale(b->ctx, column_from, nr));
        for (int i = 0; i < rows->n; i++)
            add_loop(&k, rows->extent[i], rows->to[i] * nr, rows->from[i]);
        add_loop(&k, n, 1, column_from);
        at = emit(b, at, &k, to, part == 2 ? NULL : v);
    }
}

fx_status fx_select_packed_weight(fx_build *b, fx_node *root, fx_node *w, fx_dtype type, const fxrt_conv2d_desc *d, fx_kernel_id kernel, const char *name,
                                  int *id)
{
    fx_window v;
    FX_TRY(fx_build_value(b, w, &v));
    fx_step *step = NULL;
    if (kernel == FX_K_conv2d_dw) { /* [kh][kw][channels] */
        int64_t lanes = b->tile.lanes, padded = (d->groups + lanes - 1) / lanes * lanes;
        *id = buffer(b, type, name, "weight", d->kh * d->kw * padded, "[kh][kw][channels]");
        step = fx_build_step(b, root, fx_arena_printf(b->piece, "%s: the weight packed", name));
        fx_stmt **at = &step->body;
        for (int part = 0; part < 2; part++) {
            int64_t n = part ? padded - d->groups : d->groups;
            nest k = {.to_offset = part ? d->groups : 0, .from_offset = v.offset};
            add_loop(&k, d->kh, d->kw * padded, v.strides[2]);
            add_loop(&k, d->kw, padded, v.strides[3]);
            add_loop(&k, n, 1, v.strides[0]);
            if (n)
                at = emit(b, at, &k, *id, part ? NULL : &v);
        }
        return FX_OK;
    }
    bool transposed = kernel == FX_K_conv_transpose2d;
    int64_t nr = b->tile.nr, taps = d->kh * d->kw, whole = ((int64_t)d->oc + nr - 1) / nr * nr;
    *id = buffer(b, type, name, "weight", d->groups * whole * taps * d->ic, "panels of output channels");
    step = fx_build_step(b, root, fx_arena_printf(b->piece, "%s: the weight packed", name));
    /* [groups * oc][ic][kh][kw] or, transposed, [groups * ic][oc][kh][kw] */
    fx_dim column = v.strides[transposed], input = v.strides[!transposed];
    nest rows = {.n = 0};
    add_loop(&rows, d->kh, (int64_t)d->kw * d->ic, v.strides[2]);
    add_loop(&rows, d->kw, d->ic, v.strides[3]);
    add_loop(&rows, d->ic, 1, input);
    panels(b, step, *id, &v, d->groups, fx_dim_scale(b->ctx, v.strides[0], transposed ? d->ic : d->oc), d->oc, column, nr, &rows);
    return FX_OK;
}

fx_status fx_select_packed_bias(fx_build *b, fx_node *root, fx_node *bias, fx_dtype type, int32_t groups, int32_t columns, int32_t multiple, const char *name,
                                int *id)
{
    fx_window v;
    nest rows = {.n = 0};
    FX_TRY(fx_build_value(b, bias, &v));
    *id = buffer(b, type, name, "bias", (int64_t)fxrt_bias_packed_size(groups, columns, multiple), NULL);
    fx_step *step = fx_build_step(b, root, fx_arena_printf(b->piece, "%s: the bias packed", name));
    panels(b, step, *id, &v, groups, fx_dim_scale(b->ctx, v.strides[0], columns), columns, v.strides[0], multiple, &rows);
    return FX_OK;
}
