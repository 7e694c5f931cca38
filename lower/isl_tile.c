/* lower/isl_tile.c: a nest tiled by isl: schedule tree, bands, AST, and the AST in our own words.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <isl/ast.h>
#include <isl/ast_build.h>
#include <isl/id.h>
#include <isl/schedule.h>

#include "lower/isl_inner.h"

/* ---- the schedule tree ----------------------------------------------------------------------------------------------- */

/* S[v...] -> [v of the given loops] for items [from, to). */
static isl_multi_union_pw_aff *band_of(fx_isl *i, const fx_isl_group *g, int from, int to, int n, const int *loops)
{
    isl_union_map *all = isl_union_map_empty(isl_space_params_alloc(i->isl, 0));
    for (int s = from; s < to; s++) {
        isl_set *domain = fx_isl_item_domain(i, g, s);
        isl_space *space = isl_set_get_space(domain);
        isl_multi_aff *m = isl_multi_aff_zero(isl_space_add_dims(isl_space_from_domain(isl_space_copy(space)), isl_dim_out, (unsigned)n));
        for (int k = 0; k < n; k++) {
            int64_t coef[FX_MAX_LOOPS] = {0};
            coef[loops[k]] = 1;
            m = isl_multi_aff_set_aff(m, k, fx_isl_aff(isl_space_copy(space), 0, g->item[s].n, coef));
        }
        isl_space_free(space);
        all = isl_union_map_add_map(all, isl_map_intersect_domain(isl_map_from_multi_aff(m), domain));
    }
    return isl_multi_union_pw_aff_from_union_map(all);
}

/* The source's order of items [from, to) inside their first `level` loops. */
static isl_schedule *tree_of(fx_isl *i, const fx_isl_group *g, int from, int to, int level)
{
    isl_schedule *all = NULL;
    while (from < to) {
        int end = from + 1;
        isl_schedule *s;
        if (g->item[from].n == level) {
            s = isl_schedule_from_domain(isl_union_set_from_set(fx_isl_item_domain(i, g, from)));
        } else {
            while (end < to && g->item[end].pos[level] == g->item[from].pos[level])
                end++;
            s = isl_schedule_insert_partial_schedule(tree_of(i, g, from, end, level + 1), band_of(i, g, from, end, 1, &level));
        }
        all = all ? isl_schedule_sequence(all, s) : s;
        from = end;
    }
    return all;
}

static isl_schedule *tiled(fx_isl *i, const fx_isl_group *g, const fx_isl_tiling *t)
{
    isl_schedule *s = tree_of(i, g, 0, g->n, t->depth);
    s = isl_schedule_insert_partial_schedule(s, band_of(i, g, 0, g->n, t->depth, t->order));
    isl_schedule_node *node = isl_schedule_node_child(isl_schedule_get_root(s), 0);
    isl_schedule_free(s);
    node = isl_schedule_node_band_set_permutable(node, 1);
    for (int k = 0; k < t->depth; k++)
        node = isl_schedule_node_band_member_set_coincident(node, k, 1);
    isl_multi_val *sizes = isl_multi_val_zero(isl_schedule_node_band_get_space(node));
    for (int k = 0; k < t->depth; k++) {
        int64_t size = t->size[t->order[k]];
        sizes = isl_multi_val_set_val(sizes, k, isl_val_int_from_si(i->isl, (long)(size ? size : 1)));
    }
    node = isl_schedule_node_child(isl_schedule_node_band_tile(node, sizes), 0);
    if (t->sink)
        node = isl_schedule_node_band_sink(node);
    s = isl_schedule_node_get_schedule(node);
    isl_schedule_node_free(node);
    return s;
}

/* ---- the AST ------------------------------------------------------------------------------------------------------------ */

typedef struct reader {
    const fx_isl_group *g;
    fx_isl_tree *out;
    int n_ids;
    struct { isl_id *id; fx_isl_form value; } ids[FX_ISL_LOOPS]; /* iterators; ids are not owned */
    bool failed;
} reader;

static int64_t int_of(reader *r, isl_val *v)
{
    long x = isl_val_is_int(v) == isl_bool_true ? isl_val_get_num_si(v) : 0;
    r->failed |= isl_val_is_int(v) != isl_bool_true;
    isl_val_free(v);
    return x;
}

static void scale_form(fx_isl_form *f, int64_t by)
{
    f->base *= by;
    for (int k = 0; k < FX_ISL_LOOPS; k++)
        f->coef[k] *= by;
}

static void add_form(fx_isl_form *f, const fx_isl_form *g)
{
    f->base += g->base;
    for (int k = 0; k < FX_ISL_LOOPS; k++)
        f->coef[k] += g->coef[k];
}

static bool is_number(const fx_isl_form *f)
{
    for (int k = 0; k < FX_ISL_LOOPS; k++)
        if (f->coef[k])
            return false;
    return true;
}

/* Takes e. */
static fx_isl_form form_of(reader *r, isl_ast_expr *e)
{
    fx_isl_form f = {0}, b;
    enum isl_ast_expr_type type = isl_ast_expr_get_type(e);
    if (type == isl_ast_expr_int) {
        f.base = int_of(r, isl_ast_expr_get_val(e));
    } else if (type == isl_ast_expr_id) {
        isl_id *id = isl_ast_expr_get_id(e);
        int k = 0;
        while (k < r->n_ids && r->ids[k].id != id)
            k++;
        r->failed |= k == r->n_ids;
        if (k < r->n_ids)
            f = r->ids[k].value;
        isl_id_free(id);
    } else if (type == isl_ast_expr_op) {
        enum isl_ast_expr_op_type op = isl_ast_expr_op_get_type(e);
        f = form_of(r, isl_ast_expr_op_get_arg(e, 0));
        if (op == isl_ast_expr_op_minus) {
            scale_form(&f, -1);
        } else if (op == isl_ast_expr_op_add || op == isl_ast_expr_op_sub || op == isl_ast_expr_op_mul) {
            b = form_of(r, isl_ast_expr_op_get_arg(e, 1));
            if (op == isl_ast_expr_op_mul) {
                bool left = is_number(&f);
                r->failed |= !left && !is_number(&b);
                int64_t by = left ? f.base : b.base;
                f = left ? b : f;
                scale_form(&f, by);
            } else {
                scale_form(&b, op == isl_ast_expr_op_sub ? -1 : 1);
                add_form(&f, &b);
            }
        } else {
            r->failed = true;
        }
    } else {
        r->failed = true;
    }
    isl_ast_expr_free(e);
    return f;
}

static int new_node(reader *r, int kind)
{
    if (r->out->n == FX_ISL_NODES) {
        r->failed = true;
        return 0;
    }
    r->out->node[r->out->n] = (fx_isl_node){.kind = kind, .next = -1, .child = -1, .origin = -1};
    return r->out->n++;
}

/* A chain of IFs for the conditions of e (taken); *last is the innermost. */
static int read_conditions(reader *r, isl_ast_expr *e, int *last)
{
    enum isl_ast_expr_op_type op = isl_ast_expr_get_type(e) == isl_ast_expr_op ? isl_ast_expr_op_get_type(e) : isl_ast_expr_op_error;
    int first = -1;
    if (op == isl_ast_expr_op_and || op == isl_ast_expr_op_and_then) {
        int middle, inner;
        first = read_conditions(r, isl_ast_expr_op_get_arg(e, 0), &middle);
        inner = read_conditions(r, isl_ast_expr_op_get_arg(e, 1), last);
        if (!r->failed)
            r->out->node[middle].child = inner;
    } else if (op == isl_ast_expr_op_le || op == isl_ast_expr_op_lt || op == isl_ast_expr_op_ge || op == isl_ast_expr_op_gt) {
        bool le = op == isl_ast_expr_op_le || op == isl_ast_expr_op_lt, strict = op == isl_ast_expr_op_lt || op == isl_ast_expr_op_gt;
        fx_isl_form a = form_of(r, isl_ast_expr_op_get_arg(e, !le ? 1 : 0)), f = form_of(r, isl_ast_expr_op_get_arg(e, !le ? 0 : 1));
        scale_form(&a, -1);
        add_form(&f, &a);
        f.base -= strict;
        first = *last = new_node(r, FX_ISL_IF);
        r->out->node[first].cond = f;
    } else {
        r->failed = true;
    }
    isl_ast_expr_free(e);
    return first;
}

static int read_node(reader *r, isl_ast_node *node, int *last);

/* The upper bound: of min(...) the number is the extent, the others become guards around the body. Takes e. */
static void read_bound(reader *r, isl_ast_expr *e, const fx_isl_form *iterator, int64_t *top, int n_guards[1], fx_isl_form *guards)
{
    if (isl_ast_expr_get_type(e) == isl_ast_expr_op && isl_ast_expr_op_get_type(e) == isl_ast_expr_op_min) {
        int n = isl_ast_expr_op_get_n_arg(e);
        for (int k = 0; k < n; k++)
            read_bound(r, isl_ast_expr_op_get_arg(e, k), iterator, top, n_guards, guards);
        isl_ast_expr_free(e);
        return;
    }
    fx_isl_form f = form_of(r, e);
    if (is_number(&f)) {
        *top = f.base < *top ? f.base : *top;
    } else if (*n_guards == 4) {
        r->failed = true;
    } else {
        fx_isl_form x = *iterator;
        scale_form(&x, -1);
        add_form(&f, &x);
        guards[(*n_guards)++] = f;
    }
}

static int read_for(reader *r, isl_ast_node *node, int *last)
{
    isl_ast_expr *it = isl_ast_node_for_get_iterator(node);
    isl_id *id = isl_ast_expr_get_id(it);
    isl_ast_expr_free(it);
    isl_id_free(id); /* the node holds it */
    fx_isl_form init = form_of(r, isl_ast_node_for_get_init(node)), guards[4];
    int first = -1, tail = -1, n_guards = 0, body_last, loop = r->out->n_loops;
    if (r->n_ids == FX_ISL_LOOPS || loop == FX_ISL_LOOPS) {
        r->failed = true;
        return -1;
    }
    if (isl_ast_node_for_is_degenerate(node) == isl_bool_true) {
        r->ids[r->n_ids].id = id;
        r->ids[r->n_ids++].value = init;
        first = read_node(r, isl_ast_node_for_get_body(node), last);
        r->n_ids--;
        return first;
    }
    fx_isl_form step = form_of(r, isl_ast_node_for_get_inc(node));
    isl_ast_expr *cond = isl_ast_node_for_get_cond(node);
    bool le = isl_ast_expr_get_type(cond) == isl_ast_expr_op &&
              (isl_ast_expr_op_get_type(cond) == isl_ast_expr_op_le || isl_ast_expr_op_get_type(cond) == isl_ast_expr_op_lt);
    r->failed |= !le || !is_number(&init) || !is_number(&step) || step.base < 1;
    fx_isl_form value = {.base = init.base};
    value.coef[loop] = step.base;
    int64_t top = INT64_MAX;
    if (!r->failed)
        read_bound(r, isl_ast_expr_op_get_arg(cond, 1), &value, &top, &n_guards, guards);
    bool strict = le && isl_ast_expr_op_get_type(cond) == isl_ast_expr_op_lt;
    isl_ast_expr_free(cond);
    r->failed |= top == INT64_MAX;
    if (r->failed)
        return -1;
    top -= strict;
    for (int k = 0; k < n_guards; k++)
        guards[k].base -= strict;
    r->ids[r->n_ids].id = id;
    r->ids[r->n_ids++].value = value;
    r->out->n_loops++;
    first = *last = tail = new_node(r, FX_ISL_FOR);
    r->out->node[first].loop = loop;
    r->out->node[first].extent = top < init.base ? 0 : (top - init.base) / step.base + 1;
    for (int k = 0; k < n_guards && !r->failed; k++) {
        int guard = new_node(r, FX_ISL_IF);
        r->out->node[guard].cond = guards[k];
        r->out->node[tail].child = guard;
        tail = guard;
    }
    int body = read_node(r, isl_ast_node_for_get_body(node), &body_last);
    if (!r->failed)
        r->out->node[tail].child = body;
    r->n_ids--;
    return first;
}

static int read_user(reader *r, isl_ast_node *node, int *last)
{
    isl_ast_expr *e = isl_ast_node_user_get_expr(node), *name = isl_ast_expr_op_get_arg(e, 0);
    isl_id *id = isl_ast_expr_get_id(name);
    int at = *last = new_node(r, FX_ISL_STMT), item = id ? atoi(isl_id_get_name(id) + 1) : -1;
    r->failed |= item < 0 || item >= r->g->n || isl_ast_expr_op_get_n_arg(e) != r->g->item[item].n + 1;
    if (!r->failed) {
        r->out->node[at].item = item;
        for (int k = 0; k < r->g->item[item].n; k++)
            r->out->node[at].arg[k] = form_of(r, isl_ast_expr_op_get_arg(e, k + 1));
    }
    isl_id_free(id);
    isl_ast_expr_free(name);
    isl_ast_expr_free(e);
    return at;
}

static int read_block(reader *r, isl_ast_node *node, int *last)
{
    isl_ast_node_list *list = isl_ast_node_block_get_children(node);
    int first = -1, n = isl_ast_node_list_size(list);
    for (int k = 0; k < n && !r->failed; k++) {
        int end, at = read_node(r, isl_ast_node_list_get_at(list, k), &end);
        if (r->failed)
            break;
        if (first < 0)
            first = at;
        else
            r->out->node[*last].next = at;
        *last = end;
    }
    r->failed |= first < 0;
    isl_ast_node_list_free(list);
    return first;
}

/* Takes the node. The statements it becomes: a list from the result to *last. */
static int read_node(reader *r, isl_ast_node *node, int *last)
{
    int first = -1, inner, end;
    *last = -1;
    switch (r->failed ? isl_ast_node_error : isl_ast_node_get_type(node)) {
    case isl_ast_node_for: first = read_for(r, node, last); break;
    case isl_ast_node_user: first = read_user(r, node, last); break;
    case isl_ast_node_block: first = read_block(r, node, last); break;
    case isl_ast_node_if:
        r->failed |= isl_ast_node_if_has_else_node(node) != isl_bool_false;
        first = read_conditions(r, isl_ast_node_if_get_cond(node), &inner);
        if (!r->failed) {
            int body = read_node(r, isl_ast_node_if_get_then_node(node), &end);
            r->out->node[inner].child = body;
            *last = first;
        }
        break;
    default: r->failed = true;
    }
    isl_ast_node_free(node);
    return first;
}

/* Which old loop each new one runs over. */
static void find_origins(const fx_isl_group *g, fx_isl_tree *t)
{
    int origin[FX_ISL_LOOPS];
    bool tile[FX_ISL_LOOPS] = {false};
    for (int l = 0; l < FX_ISL_LOOPS; l++)
        origin[l] = -2;
    for (int k = 0; k < t->n; k++)
        for (int a = 0; t->node[k].kind == FX_ISL_STMT && a < g->item[t->node[k].item].n; a++)
            for (int l = 0; l < t->n_loops; l++) {
                int64_t c = t->node[k].arg[a].coef[l];
                if (!c)
                    continue;
                origin[l] = origin[l] == -2 || origin[l] == a ? a : -1;
                tile[l] |= c != 1;
            }
    for (int k = 0; k < t->n; k++)
        if (t->node[k].kind == FX_ISL_FOR) {
            t->node[k].origin = origin[t->node[k].loop] < 0 ? -1 : origin[t->node[k].loop];
            t->node[k].tile = tile[t->node[k].loop];
        }
}

/* Adds loop `extent`, whose steps are `step` of old loop k, at *tail; value: what k is so far. */
static int *add_loop(reader *r, int64_t extent, int64_t step, fx_isl_form *value, int *tail)
{
    int at = new_node(r, FX_ISL_FOR), loop = r->out->n_loops;
    if (loop == FX_ISL_LOOPS) {
        r->failed = true;
        return tail;
    }
    r->out->node[at].loop = r->out->n_loops++;
    r->out->node[at].extent = extent;
    value->coef[loop] = step;
    *tail = at;
    return &r->out->node[at].child;
}

/* All statements are in the innermost body and tiles come out even: loops over tiles, loops within them, as isl would write them; without the
 * 20 ms that its AST takes. False: not so. */
static bool perfect(const fx_isl_group *g, const fx_isl_tiling *t, fx_isl_tree *out)
{
    for (int s = 0; s < g->n; s++)
        if (g->item[s].n != t->depth || t->sink)
            return false;
    reader r = {.g = g, .out = out};
    fx_isl_form value[FX_MAX_LOOPS] = {{0}};
    int *tail = &out->root;
    for (int point = 0; point < 2; point++)
        for (int k = 0; k < t->depth; k++) {
            int old = t->order[k];
            int64_t extent = g->item[0].loop[old]->extent.value, size = t->size[old] ? t->size[old] : 1;
            if (extent % size)
                return false;
            int64_t count = point ? size : extent / size;
            if (count > 1 || (count == 1 && extent == 1 && !point))
                tail = add_loop(&r, count, point ? 1 : size, &value[old], tail);
        }
    for (int s = 0; s < g->n; s++) {
        int *inner = tail;
        for (int c = 0; c < g->item[s].n_cond; c++) {
            const fx_affine *a = g->item[s].cond[c];
            int at = new_node(&r, FX_ISL_IF);
            out->node[at].cond.base = a->base.value;
            for (int k = 0; k < a->n; k++)
                for (int l = 0; l < t->depth; l++)
                    if (g->item[s].loop[l]->var == a->var[k]) {
                        fx_isl_form part = value[l];
                        scale_form(&part, a->coef[k].value);
                        add_form(&out->node[at].cond, &part);
                    }
            *inner = at;
            tail = c == 0 ? &out->node[at].next : tail;
            inner = &out->node[at].child;
        }
        int at = new_node(&r, FX_ISL_STMT);
        out->node[at].item = s;
        for (int l = 0; l < t->depth; l++)
            out->node[at].arg[l] = value[l];
        *inner = at;
        tail = g->item[s].n_cond == 0 ? &out->node[at].next : tail;
    }
    find_origins(g, out);
    return !r.failed;
}

fx_isl_answer fx_isl_tile(fx_isl *i, const fx_isl_group *g, const fx_isl_tiling *t, fx_isl_tree *out)
{
    fx_isl_order source[FX_ISL_GROUP], shared[FX_ISL_GROUP];
    if (g->n == 0)
        return FX_ISL_UNKNOWN;
    for (int s = 0; s < g->n; s++)
        if (g->item[s].n < t->depth || g->item[s].loop[t->depth - 1] != g->item[0].loop[t->depth - 1])
            return FX_ISL_UNKNOWN;
    memset(out, 0, sizeof *out);
    if (t->apart && perfect(g, t, out))
        return FX_ISL_YES;
    fx_isl_source_order(g, source);
    for (int s = 0; s < g->n; s++) { /* the shared loops first */
        shared[s] = source[s];
        for (int k = 0; k < t->depth; k++)
            shared[s].key[k].var = g->item[s].loop[k]->var;
        for (int k = t->depth; k < source[s].n - t->depth; k++)
            shared[s].key[k] = source[s].key[k + t->depth];
        shared[s].n = source[s].n - t->depth;
    }
    memset(out, 0, sizeof *out); /* what perfect left */
    fx_isl_begin(i);
    isl_union_map *dependences = fx_isl_dependences(i, g, fx_isl_order_map(i, g, source)), *order = fx_isl_order_map(i, g, shared);
    fx_isl_answer answer = fx_isl_forward(dependences, order, t->depth);
    isl_union_map_free(order);
    if (answer == FX_ISL_YES && !perfect(g, t, out)) {
        memset(out, 0, sizeof *out);
        isl_schedule *s = tiled(i, g, t);
        order = isl_schedule_get_map(s);
        answer = fx_isl_forward(dependences, order, 0); /* what came out, once more */
        isl_union_map_free(order);
        isl_ast_build *build = isl_ast_build_alloc(i->isl);
        isl_ast_node *node = isl_ast_build_node_from_schedule(build, s);
        isl_ast_build_free(build);
        if (answer == FX_ISL_YES) {
            reader r = {.g = g, .out = out};
            int last;
            out->root = node ? read_node(&r, node, &last) : -1;
            if (r.failed || !node)
                answer = FX_ISL_UNKNOWN;
            else
                find_origins(g, out);
        } else {
            isl_ast_node_free(node);
        }
    }
    isl_union_map_free(dependences);
    return fx_isl_end(i, answer);
}
