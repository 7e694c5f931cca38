/* ir/verify.c: the spec of each stage of the graph.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Structure is checked first and reads nothing it has not checked: a broken list must not send the verifier into a loop or
 * past an array. Only a graph whose structure holds is asked what its stage demands. */
#include <string.h>

#include "ir/context.h"
#include "ir/ops.h"

typedef struct verifier {
    fx_graph *g;
    fx_context *ctx;
    fx_arena *scratch;
    const char *where;
    fx_stage stage;
    int depth;          /* of subgraphs */
    fx_status status;   /* of findings */
    int n_findings;
    uint8_t *seen;      /* by node id: 1 in the list, 2 passed */
} verifier;

/* Past so many findings nobody reads on; branches of branches so deep are a circle. */
enum { MAX_FINDINGS = 50, MAX_DEPTH = 50 };

static void found(verifier *v, const fx_node *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void found(verifier *v, const fx_node *n, const char *fmt, ...)
{
    va_list ap;
    if (v->n_findings++ >= MAX_FINDINGS)
        return;
    va_start(ap, fmt);
    const char *text = fx_arena_vprintf(v->scratch, fmt, ap);
    va_end(ap);
    fx_loc file = {.file = v->g->file};
    fx_fail(v->ctx, v->status, n ? &n->loc : &file, "after %s: %s", v->where, text);
}

static const char *type_text(verifier *v, const fx_type *t)
{
    fx_text text;
    fx_text_init(&text, v->scratch);
    fx_type_print(&text, t);
    return text.data;
}

/* ---- the list of nodes ------------------------------------------------------------------------------------------------ */

/* Links, ids, owners; counts. False when the list itself cannot be walked further. */
static bool check_list(verifier *v)
{
    fx_graph *g = v->g;
    const fx_node *before = NULL;
    size_t count = 0;
    for (const fx_node *n = g->first; n; before = n, n = n->next) {
        if (n->graph != g) {
            found(v, n, "the node in the list belongs to another graph");
            return false;
        }
        if (n->id >= g->n_ids) {
            found(v, n, "its id is %u, expected below %u", n->id, g->n_ids);
            return false;
        }
        if (v->seen[n->id]) {
            found(v, n, "the list of nodes holds the id %u twice, or runs in a circle", n->id);
            return false;
        }
        v->seen[n->id] = 1;
        if (n->erased)
            found(v, n, "an erased node is still in the list");
        if (n->prev != before)
            found(v, n, "its link back does not lead to '%s'", before ? before->name : "the start");
        count++;
    }
    if (g->last != before)
        found(v, NULL, "the last node is '%s', expected '%s'", g->last ? g->last->name : "none", before ? before->name : "none");
    if (count != g->n_nodes)
        found(v, NULL, "the graph counts %zu nodes, expected %zu", g->n_nodes, count);
    return true;
}

static void check_name(verifier *v, const fx_node *n)
{
    if (!n->name || !*n->name) {
        found(v, n, "the node has no name");
        return;
    }
    const fx_node *by_name = fx_map_get(&v->g->by_name, n->name);
    if (!by_name)
        found(v, n, "the name '%s' is not in the table of names", n->name);
    else if (by_name != n && by_name->graph == v->g && by_name->name == n->name && v->seen[by_name->id])
        found(v, n, "the name '%s' is used by two nodes", n->name);
    else if (by_name != n)
        found(v, n, "the table of names has another node under '%s'", n->name);
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

static bool check_operands(verifier *v, const fx_node *n)
{
    int before = v->n_findings;
    if (!n->args || n->args->kind != FX_ARG_TUPLE) {
        found(v, n, "args is %s, expected a tuple", n->args ? fx_arg_kind_name(n->args->kind) : "missing");
        return false;
    }
    if (!n->kwargs || n->kwargs->kind != FX_ARG_DICT) {
        found(v, n, "kwargs is %s, expected a dict", n->kwargs ? fx_arg_kind_name(n->kwargs->kind) : "missing");
        return false;
    }
    for (int i = 0; i < n->kwargs->n; i++)
        for (int k = 0; k < i; k++)
            if (n->kwargs->keys[i] == n->kwargs->keys[k])
                found(v, n, "the keyword '%s' is given twice", n->kwargs->keys[i]);
    numbering k = {.in_order = true, .worst = -1};
    fx_arg_operands(n->args, number, &k);
    fx_arg_operands(n->kwargs, number, &k);
    if (k.worst >= n->n_operands)
        found(v, n, "an argument names operand %lld, expected one of %d", (long long)k.worst, n->n_operands);
    else if (k.next != n->n_operands)
        found(v, n, "arguments name %lld operands, expected %d", (long long)k.next, n->n_operands);
    else if (!k.in_order)
        found(v, n, "operands are not numbered from left to right");
    for (int i = 0; i < n->n_operands; i++) {
        const fx_use *u = &n->operands[i];
        const fx_node *def = u->def;
        if (!def) {
            found(v, n, "operand %d is missing", i);
        } else if (def->graph != v->g) {
            found(v, n, "operand %d, '%s', belongs to another graph", i, def->name);
        } else if (def->erased) {
            found(v, n, "operand %d, '%s', is erased", i, def->name);
        } else if (def->id >= v->g->n_ids || !v->seen[def->id]) {
            found(v, n, "operand %d, '%s', is not in the list of nodes", i, def->name);
        } else {
            if (v->seen[def->id] != 2)
                found(v, n, "operand %d, '%s', comes only later: a cycle or a wrong order", i, def->name);
            if (def->opcode == FX_OUTPUT)
                found(v, n, "operand %d is the output node", i);
            if (u->user != n)
                found(v, n, "the use of operand %d names another user", i);
            if (!in_uses(u))
                found(v, n, "the list of uses of '%s' lacks this use", def->name);
        }
    }
    return v->n_findings == before;
}

static void check_uses(verifier *v, const fx_node *n)
{
    int count = 0;
    const fx_use *u = n->first_use, *before = NULL;
    for (; u && count <= n->n_uses; before = u, u = u->next, count++) {
        if (u->def != n || u->prev != before) {
            found(v, n, "its list of uses is broken at the use by '%s'", u->user ? u->user->name : "nobody");
            return;
        }
        const fx_node *user = u->user;
        if (!user || user->graph != v->g || user->erased || user->id >= v->g->n_ids || !v->seen[user->id]) {
            found(v, n, "its list of uses holds a user that is not in the graph");
            return;
        }
        if (!user->operands || u < user->operands || u >= user->operands + user->n_operands) {
            found(v, n, "its list of uses holds one that '%s' does not have", user->name);
            return;
        }
    }
    if (u || count != n->n_uses)
        found(v, n, "its uses are counted as %d, expected %s%d", n->n_uses, u ? "at least " : "", count);
    else if (n->last_use != before)
        found(v, n, "its last use is not the last of the list");
}

/* ---- opcodes ------------------------------------------------------------------------------------------------------------------ */

static void check_attribute(verifier *v, const fx_node *n)
{
    const fx_attr *a = fx_attr_find(v->g, n->target);
    if (!a) {
        found(v, n, "get_attr of '%s', which does not exist", n->target);
        return;
    }
    if (n->n_operands || n->args->n || n->kwargs->n)
        found(v, n, "a get_attr node takes no arguments, got %d", n->args->n + n->kwargs->n);
    const fx_tensor *t = &a->tensor;
    const fx_type *type = a->type;
    bool same = type && type->kind == FX_TYPE_TENSOR && type->dtype == t->dtype && type->rank == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = !type->dims[i].sym && type->dims[i].value == t->sizes[i];
    if (!same)
        found(v, n, "the attribute '%s' has type %s, but its tensor is %s", n->target, type_text(v, type),
              type_text(v, fx_type_tensor_static(v->ctx, t->dtype, t->rank, t->sizes)));
    else if (n->type && (n->type->kind != FX_TYPE_TENSOR || n->type->dtype != t->dtype || !fx_type_same_shape(n->type, type)))
        found(v, n, "its type is %s, expected that of the attribute, %s", type_text(v, n->type), type_text(v, type));
}

static void check_opcode(verifier *v, const fx_node *n, bool *past_inputs)
{
    switch (n->opcode) {
    case FX_PLACEHOLDER:
        if (*past_inputs)
            found(v, n, "a placeholder stands after other nodes");
        if (n->n_operands)
            found(v, n, "a placeholder takes no operands, got %d", n->n_operands);
        break;
    case FX_GET_ATTR: check_attribute(v, n); break;
    case FX_CALL_FUNCTION:
        if (n->op != fx_op_lookup(v->ctx, n->target, NULL))
            found(v, n, "its row is %s, expected that of its target '%s'", n->op ? n->op->name : "missing", n->target);
        break;
    case FX_CALL_METHOD:
        if (!n->n_operands || !n->args->n || n->args->items[0]->kind != FX_ARG_NODE)
            found(v, n, "a call_method needs the node it is called on as its first argument");
        break;
    case FX_CALL_MODULE:
        if (!fx_module_find(v->g, n->target))
            found(v, n, "call_module of '%s', which does not exist", n->target);
        break;
    case FX_OUTPUT:
        if (n->next)
            found(v, n, "the output is not the last node: '%s' follows", n->next->name);
        if (n->args->n != 1 || n->kwargs->n)
            found(v, n, "the output takes one argument, got %d", n->args->n + n->kwargs->n);
        break;
    default: found(v, n, "the opcode is %d, expected 0 to %d", n->opcode, FX_OUTPUT); break;
    }
    /* get_attr may come first: parameters are lifted in front of user inputs. */
    if (n->opcode != FX_PLACEHOLDER && n->opcode != FX_GET_ATTR)
        *past_inputs = true;
    if (n->opcode != FX_CALL_FUNCTION && n->op)
        found(v, n, "a %s node has a row of op.def", fx_opcode_name(n->opcode));
}

/* ---- stages ------------------------------------------------------------------------------------------------------------------------- */

/* A call of a row has the arguments of its schema, as fx_node_normalize leaves them. */
static bool check_arguments(verifier *v, const fx_node *n)
{
    const fx_schema *s = fx_op_schema(v->ctx, n->op);
    int before = v->n_findings;
    if (n->kwargs->n)
        found(v, n, "%s is not normalised: it has the keyword '%s'", n->op->name, n->kwargs->keys[0]);
    if (n->args->n != s->n) {
        found(v, n, "%s is not normalised: it has %d arguments, expected %d", n->op->name, n->args->n, s->n);
        return false;
    }
    for (int i = 0; i < s->n; i++) {
        const char *got;
        const fx_arg *a = n->args->items[i], *normal = fx_param_convert(v->ctx, n->op, i, a, &got);
        if (normal != a)
            found(v, n, "argument '%s' of %s is %s: expected %s, got %s", s->params[i].name, n->op->name,
                  normal ? "not normalised" : "wrong", s->params[i].type, got);
    }
    return v->n_findings == before;
}

static bool same_value_type(const fx_type *a, const fx_type *b)
{
    if (a == b)
        return true;
    if (!a || !b || a->kind != b->kind)
        return false;
    if (a->kind == FX_TYPE_TENSOR)
        return a->dtype == b->dtype && fx_type_same_shape(a, b);
    if (a->kind != FX_TYPE_TUPLE)
        return a->kind != FX_TYPE_INT; /* INT: its value */
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = same_value_type(a->items[i], b->items[i]);
    return same;
}

/* The type noted on a node is what inference says; the hint of strides aside. */
static void check_type(verifier *v, const fx_node *n)
{
    const fx_type *t = NULL;
    if (!n->type) {
        found(v, n, "the node has no type");
    } else if (n->op) {
        if (fx_infer_call(n, NULL, &t) != FX_OK)
            found(v, n, "its type cannot be inferred");
        else if (!same_value_type(t, n->type))
            found(v, n, "its type is %s, expected %s", type_text(v, n->type), type_text(v, t));
    }
}

static void check_stage(verifier *v, const fx_node *n)
{
    if (v->stage == FX_STAGE_CAPTURED)
        return;
    bool normal = !n->op || check_arguments(v, n);
    if (v->stage == FX_STAGE_IMPORTED)
        return;
    if (n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE)
        found(v, n, "a %s node, expected only calls of functions", fx_opcode_name(n->opcode));
    if (n->opcode == FX_CALL_FUNCTION && !n->op)
        found(v, n, "the target '%s' is no row of op.def", n->target);
    if (fx_node_is_inplace(n))
        found(v, n, "an in-place op, '%s', is left", n->target);
    if (v->stage != FX_STAGE_CORE)
        return;
    if (n->op && !(n->op->flags & FX_OP_CORE))
        found(v, n, "%s is no core op", n->op->name);
    if (n->opcode != FX_OUTPUT && normal)
        check_type(v, n);
}

typedef struct request {
    fx_graph *g;
    fx_stage stage;
    const char *where;
    int depth;
} request;

static fx_status verify(void *arg);

/* Control flow holds its branches as graphs; they are at the same stage. */
static const fx_arg *verify_subgraph(void *user, const fx_arg *leaf)
{
    verifier *v = user;
    if (leaf->kind == FX_ARG_GRAPH) {
        request r = {leaf->graph, v->stage, v->where, v->depth + 1};
        if (!leaf->graph)
            found(v, NULL, "a subgraph is missing");
        else if (v->depth == MAX_DEPTH)
            found(v, NULL, "subgraphs are nested more than %d deep", MAX_DEPTH);
        else if (verify(&r) != FX_OK)
            v->n_findings++;
    }
    return leaf;
}

static fx_status verify(void *arg)
{
    const request *r = arg;
    fx_graph *g = r->g;
    verifier v = {.g = g, .ctx = g->ctx, .where = r->where, .stage = r->stage, .depth = r->depth};
    v.status = r->stage <= FX_STAGE_IMPORTED ? FX_ERR_FORMAT : FX_INTERNAL;
    v.scratch = fx_arena_create(g->ctx);
    v.seen = fx_arena_alloc(v.scratch, g->n_ids);
    bool past_inputs = false, sound = check_list(&v);
    int outputs = 0;
    for (const fx_node *n = sound ? g->first : NULL; n; n = n->next) {
        check_name(&v, n);
        bool whole = check_operands(&v, n);
        check_uses(&v, n);
        if (whole)
            check_opcode(&v, n, &past_inputs);
        sound = sound && whole;
        outputs += n->opcode == FX_OUTPUT;
        v.seen[n->id] = 2;
    }
    if (sound && outputs != 1)
        found(&v, NULL, "the graph has %d output nodes, expected 1", outputs);
    if (g->by_name.n != g->n_nodes)
        found(&v, NULL, "the table of names has %zu entries, expected %zu", g->by_name.n, g->n_nodes);
    if (v.n_findings == 0) {
        FX_FOR_NODES(g, n) {
            check_stage(&v, n);
            fx_arg_map(v.ctx, n->args, verify_subgraph, &v);
            fx_arg_map(v.ctx, n->kwargs, verify_subgraph, &v);
        }
    }
    fx_arena_free(v.scratch);
    if (v.n_findings > MAX_FINDINGS)
        fx_fail(g->ctx, v.status, NULL, "after %s: %d more findings", r->where, v.n_findings - MAX_FINDINGS);
    return v.n_findings ? v.status : FX_OK;
}

fx_status fx_graph_verify(fx_graph *g, fx_stage stage, const char *where)
{
    request r = {g, stage, where, 0};
    return fx_protect(g->ctx, verify, &r);
}
