/* lower/isl_group.c: statements of a step as isl sees them: domains, accesses, order, dependences.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <string.h>

#include <isl/flow.h>

#include "lower/isl_inner.h"

/* ---- collecting -------------------------------------------------------------------------------------------------- */

typedef struct collector {
    fx_isl_group *g;
    fx_isl_item at;                /* loops, places and conditions around */
    struct { int local, depth; } local[32];
    int n_locals;
    bool failed;
} collector;

static bool is_plain(const fx_affine *a)
{
    return fx_affine_is_static(a) && (a->n == 0 || a->var[0] >= 0);
}

static void add_access(collector *c, fx_isl_access a)
{
    fx_isl_group *g = c->g;
    a.item = g->n - 1;
    if (g->n_accesses == (int)(sizeof g->access / sizeof *g->access) || (a.index && !is_plain(a.index)))
        c->failed = true;
    else
        g->access[g->n_accesses++] = a;
}

static void add_local(collector *c, int local, bool write)
{
    for (int k = 0; k < c->n_locals; k++)
        if (c->local[k].local == local) {
            add_access(c, (fx_isl_access){.write = write, .buf = -1, .local = local, .depth = c->local[k].depth});
            return;
        }
    c->failed = true;
}

static void add_reads(collector *c, const fx_sexpr *e, int depth)
{
    if (!e || depth > 200) {
        c->failed |= depth > 200;
        return;
    }
    if (e->op == FX_S_LOAD)
        add_access(c, (fx_isl_access){.buf = e->buf, .local = -1, .index = &e->index});
    else if (e->op == FX_S_LOCAL)
        add_local(c, e->local, false);
    else if (e->op == FX_S_INDEX)
        c->failed |= !is_plain(&e->index);
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        add_reads(c, e->arg[k], depth + 1);
}

static void collect_list(collector *c, const fx_stmt *s);

static void collect_item(collector *c, const fx_stmt *s)
{
    if (c->g->n == FX_ISL_GROUP) {
        c->failed = true;
        return;
    }
    c->at.stmt = s;
    c->g->item[c->g->n++] = c->at;
    add_reads(c, s->value, 0);
    if (s->kind == FX_ST_STORE) {
        add_access(c, (fx_isl_access){.write = true, .buf = s->buf, .local = -1, .index = &s->index});
        return;
    }
    if (s->kind == FX_ST_LOCAL) {
        if (c->n_locals == 32) {
            c->failed = true;
            return;
        }
        c->local[c->n_locals].local = s->local;
        c->local[c->n_locals++].depth = c->at.n;
    }
    add_local(c, s->local, true);
}

static void collect_stmt(collector *c, const fx_stmt *s)
{
    switch (s->kind) {
    case FX_ST_LOOP:
        if (!fx_dim_known(s->extent) || c->at.n == FX_MAX_LOOPS || s->loop >= FX_LOOP_GRID) {
            c->failed = true;
            return;
        }
        c->at.loop[c->at.n++] = s;
        c->at.pos[c->at.n] = 0;
        collect_list(c, s->body);
        c->at.n--;
        return;
    case FX_ST_IF: {
        int n = c->at.n_cond;
        for (int k = 0; k < s->n_cond; k++) {
            if (c->at.n_cond == 2 * FX_MAX_RANK || !is_plain(&s->cond[k])) {
                c->failed = true;
                return;
            }
            c->at.cond[c->at.n_cond++] = &s->cond[k];
        }
        collect_list(c, s->body);
        c->at.n_cond = n;
        return;
    }
    case FX_ST_STORE: case FX_ST_LOCAL: case FX_ST_SET:
        collect_item(c, s);
        return;
    case FX_ST_COMMENT:
        return;
    default:
        c->failed = true;
    }
}

static void collect_list(collector *c, const fx_stmt *s)
{
    for (; s && !c->failed; s = s->next) {
        collect_stmt(c, s);
        c->at.pos[c->at.n] += s->kind != FX_ST_COMMENT;
    }
}

bool fx_isl_collect(fx_isl_group *g, const fx_program *p, const fx_stmt *body)
{
    collector c = {.g = g};
    int last = g->n ? g->item[g->n - 1].pos[0] + 1 : 0;
    g->p = p;
    c.at.pos[0] = last;
    collect_list(&c, body);
    return !c.failed;
}

void fx_isl_source_order(const fx_isl_group *g, fx_isl_order *order)
{
    for (int s = 0; s < g->n; s++) {
        const fx_isl_item *it = &g->item[s];
        fx_isl_order *o = &order[s];
        o->n = 0;
        for (int k = 0; k <= it->n; k++) {
            o->key[o->n].var = -1;
            o->key[o->n++].at = it->pos[k];
            if (k < it->n) {
                o->key[o->n].var = it->loop[k]->var;
                o->key[o->n++].at = 0;
            }
        }
    }
}

/* ---- isl's objects --------------------------------------------------------------------------------------------------- */

static int position(const fx_isl_item *it, int var)
{
    for (int k = 0; k < it->n; k++)
        if (it->loop[k]->var == var)
            return k;
    return -1;
}

/* Items are S0, S1, ... */
static isl_space *item_space(fx_isl *i, const fx_isl_group *g, int item)
{
    char name[16];
    snprintf(name, sizeof name, "S%d", item);
    return isl_space_set_tuple_name(isl_space_set_alloc(i->isl, 0, (unsigned)g->item[item].n), isl_dim_set, name);
}

static isl_aff *aff_of(fx_isl *i, const fx_isl_group *g, int item, const fx_affine *a)
{
    int64_t coef[FX_MAX_LOOPS] = {0};
    for (int k = 0; k < a->n; k++) {
        int at = position(&g->item[item], a->var[k]);
        if (at < 0)
            return NULL;
        coef[at] += a->coef[k].value;
    }
    return fx_isl_aff(item_space(i, g, item), a->base.value, g->item[item].n, coef);
}

isl_set *fx_isl_item_domain(fx_isl *i, const fx_isl_group *g, int item)
{
    const fx_isl_item *it = &g->item[item];
    isl_set *set = isl_set_universe(item_space(i, g, item));
    for (int k = 0; k < it->n; k++) {
        int64_t coef[FX_MAX_LOOPS] = {0};
        coef[k] = 1;
        set = isl_set_intersect(set, isl_set_from_basic_set(fx_isl_nonneg(fx_isl_aff(item_space(i, g, item), 0, it->n, coef))));
        coef[k] = -1;
        isl_aff *top = fx_isl_aff(item_space(i, g, item), it->loop[k]->extent.value - 1, it->n, coef);
        set = isl_set_intersect(set, isl_set_from_basic_set(fx_isl_nonneg(top)));
    }
    for (int k = 0; k < it->n_cond; k++)
        set = isl_set_intersect(set, isl_set_from_basic_set(fx_isl_nonneg(aff_of(i, g, item, it->cond[k]))));
    return set;
}

isl_union_set *fx_isl_domain(fx_isl *i, const fx_isl_group *g)
{
    isl_union_set *all = isl_union_set_from_set(fx_isl_item_domain(i, g, 0));
    for (int s = 1; s < g->n; s++)
        all = isl_union_set_union(all, isl_union_set_from_set(fx_isl_item_domain(i, g, s)));
    return all;
}

/* Two buffers may be one place in memory only when one overlays the other: then they are one array here. */
static int array_of(const fx_program *p, int buf)
{
    while (p->bufs[buf].overlay >= 0 && p->bufs[buf].overlay < buf)
        buf = p->bufs[buf].overlay;
    return buf;
}

static isl_map *access_map(fx_isl *i, const fx_isl_group *g, const fx_isl_access *a)
{
    char name[24];
    snprintf(name, sizeof name, "%c%d", a->buf >= 0 ? 'B' : 'L', a->buf >= 0 ? array_of(g->p, a->buf) : a->local);
    isl_multi_aff *m;
    if (a->buf >= 0) {
        m = isl_multi_aff_from_aff(aff_of(i, g, a->item, a->index));
    } else {
        isl_space *space = isl_space_add_dims(isl_space_from_domain(item_space(i, g, a->item)), isl_dim_out, (unsigned)a->depth);
        m = isl_multi_aff_zero(space);
        for (int k = 0; k < a->depth; k++) {
            int64_t coef[FX_MAX_LOOPS] = {0};
            coef[k] = 1;
            m = isl_multi_aff_set_aff(m, k, fx_isl_aff(item_space(i, g, a->item), 0, g->item[a->item].n, coef));
        }
    }
    m = isl_multi_aff_set_tuple_name(m, isl_dim_out, name);
    return isl_map_intersect_domain(isl_map_from_multi_aff(m), fx_isl_item_domain(i, g, a->item));
}

static isl_union_map *accesses(fx_isl *i, const fx_isl_group *g, bool write)
{
    isl_union_map *all = isl_union_map_empty(isl_space_params_alloc(i->isl, 0));
    for (int k = 0; k < g->n_accesses; k++)
        if (g->access[k].write == write)
            all = isl_union_map_add_map(all, access_map(i, g, &g->access[k]));
    return all;
}

isl_union_map *fx_isl_order_map(fx_isl *i, const fx_isl_group *g, const fx_isl_order *order)
{
    int n = 0;
    for (int s = 0; s < g->n; s++)
        n = order[s].n > n ? order[s].n : n;
    isl_union_map *all = isl_union_map_empty(isl_space_params_alloc(i->isl, 0));
    for (int s = 0; s < g->n; s++) {
        isl_space *space = isl_space_add_dims(isl_space_from_domain(item_space(i, g, s)), isl_dim_out, (unsigned)n);
        isl_multi_aff *m = isl_multi_aff_zero(space);
        for (int k = 0; k < n; k++) {
            int64_t coef[FX_MAX_LOOPS] = {0}, at = k < order[s].n ? order[s].key[k].at : 0;
            int var = k < order[s].n ? order[s].key[k].var : -1, pos = var >= 0 ? position(&g->item[s], var) : -1;
            if (pos >= 0)
                coef[pos] = 1;
            m = isl_multi_aff_set_aff(m, k, fx_isl_aff(item_space(i, g, s), at, g->item[s].n, coef));
        }
        all = isl_union_map_add_map(all, isl_map_intersect_domain(isl_map_from_multi_aff(m), fx_isl_item_domain(i, g, s)));
    }
    return all;
}

/* Flow: reads by the writes before them. Anti and output: writes by the reads and writes before them. */
isl_union_map *fx_isl_dependences(fx_isl *i, const fx_isl_group *g, isl_union_map *order)
{
    isl_union_map *reads = accesses(i, g, false), *writes = accesses(i, g, true);
    isl_union_access_info *info = isl_union_access_info_from_sink(isl_union_map_copy(reads));
    info = isl_union_access_info_set_must_source(info, isl_union_map_copy(writes));
    info = isl_union_access_info_set_schedule_map(info, isl_union_map_copy(order));
    isl_union_flow *flow = isl_union_access_info_compute_flow(info);
    isl_union_map *all = isl_union_flow_get_may_dependence(flow);
    isl_union_flow_free(flow);
    info = isl_union_access_info_from_sink(isl_union_map_copy(writes));
    info = isl_union_access_info_set_must_source(info, writes);
    info = isl_union_access_info_set_may_source(info, reads);
    info = isl_union_access_info_set_schedule_map(info, order);
    flow = isl_union_access_info_compute_flow(info);
    all = isl_union_map_union(all, isl_union_flow_get_may_dependence(flow));
    isl_union_flow_free(flow);
    return all;
}

fx_isl_answer fx_isl_forward(isl_union_map *dependences, isl_union_map *order, int coincident)
{
    isl_union_map *moved = isl_union_map_apply_domain(isl_union_map_copy(dependences), isl_union_map_copy(order));
    moved = isl_union_map_apply_range(moved, isl_union_map_copy(order));
    if (isl_union_map_is_empty(moved) == isl_bool_true) {
        isl_union_map_free(moved);
        return FX_ISL_YES;
    }
    /* The order's space has no name: all pairs are of one map. */
    isl_map *pairs = isl_map_from_union_map(moved);
    isl_space *space = isl_map_get_space(pairs);
    isl_map *good = isl_map_lex_lt(isl_space_domain(isl_space_copy(space)));
    isl_space_free(space);
    for (int k = 0; k < coincident; k++)
        good = isl_map_equate(good, isl_dim_in, k, isl_dim_out, k);
    fx_isl_answer answer = fx_isl_bool(isl_map_is_subset(pairs, good));
    isl_map_free(pairs);
    isl_map_free(good);
    return answer;
}

fx_isl_answer fx_isl_keeps(fx_isl *i, const fx_isl_group *g, const fx_isl_order *from, const fx_isl_order *to)
{
    if (g->n == 0)
        return FX_ISL_YES;
    fx_isl_begin(i);
    isl_union_map *dependences = fx_isl_dependences(i, g, fx_isl_order_map(i, g, from)), *order = fx_isl_order_map(i, g, to);
    fx_isl_answer answer = fx_isl_forward(dependences, order, 0);
    isl_union_map_free(dependences);
    isl_union_map_free(order);
    return fx_isl_end(i, answer);
}

fx_isl_answer fx_isl_fusion_legal(fx_isl *i, const fx_program *p, const fx_stmt *first, const fx_stmt *second, int depth, fx_isl_answer *apart)
{
    fx_isl_group g = {0};
    if (apart)
        *apart = FX_ISL_UNKNOWN;
    fx_isl_order from[FX_ISL_GROUP], to[FX_ISL_GROUP];
    if (!fx_isl_collect(&g, p, first) || g.n == 0)
        return FX_ISL_UNKNOWN;
    int n_first = g.n;
    if (!fx_isl_collect(&g, p, second))
        return FX_ISL_UNKNOWN;
    fx_isl_source_order(&g, from);
    fx_isl_source_order(&g, to);
    for (int s = 0; s < g.n; s++) {
        if (g.item[s].n < depth || to[s].n + 1 > 2 * FX_MAX_LOOPS + 2)
            return FX_ISL_UNKNOWN;
        /* Equal places on the way down; behind the shared loops the lists follow one another. */
        for (int k = 0; k < depth; k++) {
            bool alone = g.item[s].pos[k] == (k > 0 ? 0 : s < n_first ? g.item[0].pos[0] : g.item[n_first].pos[0]);
            if (!alone)
                return FX_ISL_UNKNOWN;
            to[s].key[2 * k].at = 0;
        }
        memmove(&to[s].key[2 * depth + 1], &to[s].key[2 * depth], sizeof to[s].key[0] * (size_t)(to[s].n - 2 * depth));
        to[s].key[2 * depth].var = -1;
        to[s].key[2 * depth].at = s >= n_first;
        to[s].n++;
    }
    fx_isl_begin(i);
    isl_union_map *dependences = fx_isl_dependences(i, &g, fx_isl_order_map(i, &g, from)), *order = fx_isl_order_map(i, &g, to);
    fx_isl_answer answer = fx_isl_forward(dependences, order, 0), equal = FX_ISL_UNKNOWN;
    if (answer == FX_ISL_YES && apart)
        equal = fx_isl_forward(dependences, order, 2 * depth);
    isl_union_map_free(dependences);
    isl_union_map_free(order);
    answer = fx_isl_end(i, answer);
    if (apart && answer == FX_ISL_YES)
        *apart = equal;
    return answer;
}
