/* ir/verify.c: the spec of each stage of the graph.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Structure is checked first and reads nothing it has not checked: a broken list must not send the verifier into a loop or
 * past an array. Only a graph whose structure holds is asked what its stage demands. */
#include <string.h>

#include "ir/verify.h"

/* Past so many findings nobody reads on; branches of branches so deep are a circle. */
enum { MAX_FINDINGS = 50, MAX_DEPTH = 50 };

void fx_found(fx_verifier *v, const fx_node *n, const char *fmt, ...)
{
    va_list ap;
    if (v->n_findings++ >= MAX_FINDINGS)
        return;
    va_start(ap, fmt);
    const char *text = fx_arena_vprintf(v->scratch, fmt, ap);
    va_end(ap);
    fx_loc file = {.file = v->g->file};
    fx_fail(v->ctx, v->status, n ? &n->loc : &file, "%s%s%s%s", v->where ? "after " : "", v->where ? v->where : "", v->where ? ": " : "",
            text);
}

const char *fx_verify_type_text(fx_verifier *v, const fx_type *t)
{
    fx_text text;
    fx_text_init(&text, v->scratch);
    fx_type_print(&text, t);
    return text.data;
}

/* ---- the list of nodes ------------------------------------------------------------------------------------------------ */

/* Links, ids, owners; counts. False when the list itself cannot be walked further. */
static bool check_list(fx_verifier *v)
{
    fx_graph *g = v->g;
    const fx_node *before = NULL;
    size_t count = 0;
    for (const fx_node *n = g->first; n; before = n, n = n->next) {
        if (n->graph != g) {
            fx_found(v, n, "the node in the list belongs to another graph");
            return false;
        }
        if (n->id >= g->n_ids) {
            fx_found(v, n, "its id is %u, expected below %u", n->id, g->n_ids);
            return false;
        }
        if (v->seen[n->id]) {
            fx_found(v, n, "the list of nodes holds the id %u twice, or runs in a circle", n->id);
            return false;
        }
        v->seen[n->id] = 1;
        if (n->erased)
            fx_found(v, n, "an erased node is still in the list");
        if (n->prev != before)
            fx_found(v, n, "its link back does not lead to '%s'", before ? before->name : "the start");
        count++;
    }
    if (g->last != before)
        fx_found(v, NULL, "the last node is '%s', expected '%s'", g->last ? g->last->name : "none", before ? before->name : "none");
    if (count != g->n_nodes)
        fx_found(v, NULL, "the graph counts %zu nodes, expected %zu", g->n_nodes, count);
    return true;
}

static void check_name(fx_verifier *v, const fx_node *n)
{
    if (!n->name || !*n->name) {
        fx_found(v, n, "the node has no name");
        return;
    }
    if (!v->where && !fx_is_identifier(n->name))
        fx_found(v, n, "the name '%s' is no identifier of Python", n->name);
    else if (!v->where && fx_is_python_keyword(n->name))
        fx_found(v, n, "the name '%s' is a keyword of Python", n->name);
    const fx_node *by_name = fx_map_get(&v->g->by_name, n->name);
    if (!by_name)
        fx_found(v, n, "the name '%s' is not in the table of names", n->name);
    else if (by_name != n && by_name->graph == v->g && by_name->name == n->name && v->seen[by_name->id])
        fx_found(v, n, "the name '%s' is used by two nodes", n->name);
    else if (by_name != n)
        fx_found(v, n, "the table of names has another node under '%s'", n->name);
}

/* ---- operands and uses ---------------------------------------------------------------------------------------------------- */

typedef struct numbering {
    int64_t next;
    bool in_order;
    int64_t worst;
} numbering;

static void number(void *user, int64_t operand)
{
    numbering *k = user;
    k->in_order = k->in_order && operand == k->next;
    k->next++;
    if (operand < 0 || operand > k->worst)
        k->worst = operand < 0 ? INT64_MAX : operand;
}

/* Whether u is in the list of uses of its definition; a list longer than its count is not followed. */
static bool in_uses(const fx_use *u)
{
    return (u->prev ? u->prev->next == u : u->def->first_use == u) && (u->next ? u->next->prev == u : u->def->last_use == u);
}

/* A call of nodes alone, as most are: nothing to look for in its arguments. */
static bool is_plain(const fx_node *n)
{
    return n->n_operands < FX_CACHED && n->args == n->graph->ctx->operand_tuples[n->n_operands] && n->kwargs->n == 0;
}

static bool check_operands(fx_verifier *v, const fx_node *n)
{
    int before = v->n_findings;
    if (!n->args || n->args->kind != FX_ARG_TUPLE) {
        fx_found(v, n, "args is %s, expected a tuple", n->args ? fx_arg_kind_name(n->args->kind) : "missing");
        return false;
    }
    if (!n->kwargs || n->kwargs->kind != FX_ARG_DICT) {
        fx_found(v, n, "kwargs is %s, expected a dict", n->kwargs ? fx_arg_kind_name(n->kwargs->kind) : "missing");
        return false;
    }
    for (int i = 0; i < n->kwargs->n; i++)
        for (int k = 0; k < i; k++)
            if (n->kwargs->keys[i] == n->kwargs->keys[k])
                fx_found(v, n, "the keyword '%s' is given twice", n->kwargs->keys[i]);
    numbering k = {.in_order = true, .worst = -1};
    if (is_plain(n)) {
        k.next = n->n_operands;
        k.worst = n->n_operands - 1;
    } else {
        fx_arg_operands(n->args, number, &k);
        fx_arg_operands(n->kwargs, number, &k);
    }
    if (k.worst >= n->n_operands)
        fx_found(v, n, "an argument names operand %lld, expected one of %d", (long long)k.worst, n->n_operands);
    else if (k.next != n->n_operands)
        fx_found(v, n, "arguments name %lld operands, expected %d", (long long)k.next, n->n_operands);
    else if (!k.in_order)
        fx_found(v, n, "operands are not numbered from left to right");
    for (int i = 0; i < n->n_operands; i++) {
        const fx_use *u = &n->operands[i];
        const fx_node *def = u->def;
        if (!def) {
            fx_found(v, n, "operand %d is missing", i);
        } else if (def->graph != v->g) {
            fx_found(v, n, "operand %d, '%s', belongs to another graph", i, def->name);
        } else if (def->erased) {
            fx_found(v, n, "operand %d, '%s', is erased", i, def->name);
        } else if (def->id >= v->g->n_ids || !v->seen[def->id]) {
            fx_found(v, n, "operand %d, '%s', is not in the list of nodes", i, def->name);
        } else {
            if (v->seen[def->id] != 2)
                fx_found(v, n, "operand %d, '%s', comes only later: a cycle or a wrong order", i, def->name);
            if (def->opcode == FX_OUTPUT)
                fx_found(v, n, "operand %d is the output node", i);
            if (u->user != n)
                fx_found(v, n, "the use of operand %d names another user", i);
            if (!in_uses(u))
                fx_found(v, n, "the list of uses of '%s' lacks this use", def->name);
        }
    }
    return v->n_findings == before;
}

static void check_uses(fx_verifier *v, const fx_node *n)
{
    int count = 0;
    const fx_use *u = n->first_use, *before = NULL;
    for (; u && count <= n->n_uses; before = u, u = u->next, count++) {
        if (u->def != n || u->prev != before) {
            fx_found(v, n, "its list of uses is broken at the use by '%s'", u->user ? u->user->name : "nobody");
            return;
        }
        const fx_node *user = u->user;
        if (!user || user->graph != v->g || user->erased || user->id >= v->g->n_ids || !v->seen[user->id]) {
            fx_found(v, n, "its list of uses holds a user that is not in the graph");
            return;
        }
        if (!user->operands || u < user->operands || u >= user->operands + user->n_operands) {
            fx_found(v, n, "its list of uses holds one that '%s' does not have", user->name);
            return;
        }
    }
    if (u || count != n->n_uses)
        fx_found(v, n, "its uses are counted as %d, expected %s%d", n->n_uses, u ? "at least " : "", count);
    else if (n->last_use != before)
        fx_found(v, n, "its last use is not the last of the list");
}

typedef struct request {
    fx_graph *g;
    fx_stage stage;
    const char *where;
    unsigned lint;
    int depth;
    fx_arena *arena;
    fx_map *done;
} request;

static fx_status verify(void *arg);

/* Control flow holds its branches as graphs; they are at the same stage. */
static const fx_arg *verify_subgraph(void *user, const fx_arg *leaf)
{
    static const char entered; /* its address marks graphs that the walk is in */
    fx_verifier *v = user;
    if (leaf->kind == FX_ARG_GRAPH) {
        request r = {leaf->graph, v->stage, v->where, v->lint, v->depth + 1, v->arena, v->done};
        if (!leaf->graph)
            fx_found(v, NULL, "a subgraph is missing");
        else if (leaf->graph->ctx != v->ctx)
            fx_found(v, NULL, "the subgraph '%s' belongs to another context", leaf->graph->name);
        else if (!v->where && leaf->graph == v->g)
            fx_found(v, NULL, "the graph holds itself as a subgraph");
        else if (v->depth == MAX_DEPTH)
            fx_found(v, NULL, "subgraphs are nested more than %d deep", MAX_DEPTH);
        else if (fx_map_get(v->done, leaf->graph) == &entered)
            fx_found(v, NULL, "the subgraph '%s' holds itself", leaf->graph->name);
        else if (!fx_map_get(v->done, leaf->graph)) {
            fx_map_put(v->arena, v->done, leaf->graph, (void *)(uintptr_t)&entered);
            v->n_findings += verify(&r) != FX_OK;
            fx_map_put(v->arena, v->done, leaf->graph, leaf->graph);
        }
    }
    return leaf;
}

static fx_status verify(void *arg)
{
    const request *r = arg;
    fx_graph *g = r->g;
    fx_verifier v = {.g = g, .ctx = g->ctx, .where = r->where, .stage = r->stage, .lint = r->lint, .depth = r->depth};
    v.status = !r->where ? FX_ERR_ARGUMENT : r->stage <= FX_STAGE_IMPORTED ? FX_ERR_FORMAT : FX_INTERNAL;
    v.scratch = fx_arena_create(g->ctx);
    v.seen = fx_arena_alloc(v.scratch, g->n_ids);
    fx_map done = {0};
    v.arena = r->arena ? r->arena : v.scratch;
    v.done = r->done ? r->done : &done;
    bool sound = check_list(&v);
    for (const fx_node *n = sound ? g->first : NULL; n; n = n->next) {
        check_name(&v, n);
        bool whole = check_operands(&v, n);
        check_uses(&v, n);
        if (whole)
            fx_verify_opcode(&v, n);
        sound = sound && whole;
        v.seen[n->id] = 2;
    }
    if (sound && v.n_outputs != 1)
        fx_found(&v, NULL, "the graph has %d output nodes, expected 1", v.n_outputs);
    if (g->by_name.n != g->n_nodes)
        fx_found(&v, NULL, "the table of names has %zu entries, expected %zu", g->by_name.n, g->n_nodes);
    for (size_t i = 0; i < g->n_attrs; i++)
        fx_verify_attr(&v, g->attrs[i]);
    if (v.n_findings == 0) {
        if (r->lint)
            v.status = FX_ERR_TYPE;
        FX_FOR_NODES(g, n) {
            fx_verify_stage(&v, n);
            if (is_plain(n))
                continue;
            fx_arg_map(v.ctx, n->args, verify_subgraph, &v);
            fx_arg_map(v.ctx, n->kwargs, verify_subgraph, &v);
        }
    }
    fx_arena_free(v.scratch);
    if (v.n_findings > MAX_FINDINGS)
        fx_fail(g->ctx, v.status, NULL, "%s%s%s%d more findings", r->where ? "after " : "", r->where ? r->where : "", r->where ? ": " : "",
                v.n_findings - MAX_FINDINGS);
    return v.n_findings ? v.status : FX_OK;
}

fx_status fx_graph_verify(fx_graph *g, fx_stage stage, const char *where)
{
    request r = {.g = g, .stage = stage, .where = where};
    return fx_protect(g->ctx, verify, &r);
}

fx_status fx_graph_lint(fx_graph *graph, unsigned what)
{
    request r = {.g = graph, .stage = FX_STAGE_CAPTURED, .lint = what & FX_LINT_ALL};
    return graph ? fx_protect(graph->ctx, verify, &r) : FX_ERR_ARGUMENT;
}
