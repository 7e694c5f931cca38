/* passes/legalize.c: captured graphs to imported ones: each node by the rows of legalize.def or of op.def, all that cannot be taken named at
 * once.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/interp.h"
#include "passes/legalize.h"

static fx_lg begin(fx_lg_run *run, fx_node *n)
{
    fx_lg l = {.run = run, .g = run->g, .ctx = run->g->ctx, .scratch = run->scratch, .at = n};
    for (int i = 0; i < n->n_operands; i++)
        fx_lg_leaf(&l, n->operands[i].def);
    return l;
}

/* ---- inputs, tensors, outputs ------------------------------------------------------------------------------------------- */

#define NO_TYPE "the input has no type: export with example inputs, or write '%%%s : f32[1, 3, 224, 224] = placeholder[%s]'"

/* Defaults are of use only to an input that is not given: one without a type. */
static void placeholder(fx_lg *l)
{
    fx_node *at = l->at;
    const fx_type *type = at->type;
    if (type && type->kind != FX_TYPE_TENSOR) {
        fx_lg_refuse(l, "expected a tensor as input");
    } else if (type) {
        if (at->args->n)
            fx_node_assign(at, NULL, NULL, 0, NULL);
        at->type = type;
        l->done = true;
        l->result = at;
    } else if (at->args->n == 1 && !at->n_operands) {
        fx_lg_value(l, at->args->items[0]);
    } else {
        fx_lg_refuse(l, NO_TYPE, at->name, at->target);
    }
}

static void get_attr(fx_lg *l)
{
    l->status = fx_node_infer(l->at);
    if (l->status == FX_OK && !l->at->type)
        fx_lg_refuse(l, "there is no tensor '%s'", l->at->target);
    l->done = true;
    l->result = l->at;
}

/* Several results as a tuple of single ones. */
static const fx_arg *items_of(fx_lg *l, const fx_arg *leaf)
{
    const fx_type *t = l->operands[leaf->i]->type;
    const fx_arg **items = FX_NEW_ARRAY(l->scratch, const fx_arg *, t->n + 1);
    for (int i = 0; i < t->n; i++)
        items[i] = FX_LG_EMIT(l, fx_arena_printf(l->scratch, "%d", i), FX_OP_getitem, leaf, fx_lg_int(l, i));
    return fx_arg_seq(l->ctx, FX_ARG_TUPLE, t->n, items);
}

static bool is_tuple(const fx_lg *l, const fx_arg *a)
{
    return a->kind == FX_ARG_NODE && l->operands[a->i]->type && l->operands[a->i]->type->kind == FX_TYPE_TUPLE;
}

typedef struct outputs {
    fx_lg *l;
    const fx_arg **items;
    size_t n, cap;
} outputs;

/* The tree with its leaves' numbers in their places. Its depth is that of an argument, which parsers and builders limit. */
static const fx_arg *flatten(outputs *o, const fx_arg *a)
{
    fx_lg *l = o->l;
    if (is_tuple(l, a))
        a = items_of(l, a);
    if (a->kind != FX_ARG_TUPLE && a->kind != FX_ARG_LIST && a->kind != FX_ARG_DICT) {
        FX_PUSH(l->scratch, o->items, o->n, o->cap) = a;
        return fx_lg_int(l, (int64_t)o->n - 1);
    }
    const fx_arg **items = FX_NEW_ARRAY(l->scratch, const fx_arg *, a->n + 1);
    for (int i = 0; i < a->n; i++)
        items[i] = flatten(o, a->items[i]);
    return a->kind == FX_ARG_DICT ? fx_arg_dict(l->ctx, a->n, a->keys, items) : fx_arg_seq(l->ctx, a->kind, a->n, items);
}

static bool counts_up(const fx_arg *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->items[i]->kind != FX_ARG_INT || a->items[i]->i != i)
            return false;
    return a->kind == FX_ARG_TUPLE && a->n > 1;
}

/* One tuple of all results; the tree is kept where it says more than that. */
static void output(fx_lg *l)
{
    fx_node *at = l->at;
    outputs o = {.l = l};
    const fx_arg *tree = flatten(&o, at->args->n ? at->args->items[0] : fx_arg_none(l->ctx));
    if (l->status != FX_OK)
        return;
    const fx_arg *all = fx_arg_seq(l->ctx, FX_ARG_TUPLE, (int)o.n, o.items);
    if (!l->g->out_tree && tree->kind != FX_ARG_INT && !counts_up(tree))
        l->g->out_tree = tree;
    fx_node_assign(at, fx_arg_seq(l->ctx, FX_ARG_TUPLE, 1, &all), NULL, (int)l->n, l->operands);
    l->status = fx_node_infer(at);
    l->done = true;
    l->result = at;
}

/* ---- calls ---------------------------------------------------------------------------------------------------------------- */

static void call_module(fx_lg *l)
{
    fx_node *at = l->at;
    const fx_module *m = l->module = fx_module_find(l->g, at->target);
    const fx_class *c = m ? fx_class_find(m->class_name) : NULL;
    if (!at->loc.module)
        at->loc.module = at->target;
    l->row = fx_lg_find_module(c);
    if (!m)
        fx_lg_refuse(l, "there is no module '%s'", at->target);
    else if (!l->row)
        fx_lg_refuse(l, "modules of class %s are not supported", m->class_name ? m->class_name : "unknown");
    else
        fx_lg_apply(l);
}

/* Numbers, tuples and shapes, computed as Python does. Whether there was something to compute. */
static bool python(fx_lg *l)
{
    fx_interpreter in = {.ctx = l->ctx};
    const fx_node *at = l->at;
    fx_run_value *values = FX_NEW_ARRAY(l->scratch, fx_run_value, at->n_operands + 1);
    const fx_run_value **by_number = FX_NEW_ARRAY(l->scratch, const fx_run_value *, at->n_operands + 1);
    const fx_arg *v;
    for (int i = 0; i < at->n_operands; i++) {
        const fx_type *t = at->operands[i].def->type;
        if (t->kind == FX_TYPE_TENSOR && !fx_type_is_static(t))
            return false;
        values[i].type = t;
        by_number[i] = &values[i];
    }
    l->status = fx_run_python(&in, at, at->args, at->kwargs, by_number, &v);
    if (l->status == FX_OK && v)
        fx_lg_same(l, v);
    return l->status != FX_OK || v;
}

/* x.size(), x.size(i) and x.shape of a tensor some of whose sizes are symbols: those are asked for when the graph runs. */
static bool dynamic_size(fx_lg *l)
{
    fx_node *at = l->at;
    const fx_arg *x = at->args->n ? at->args->items[0] : NULL, *items[FX_MAX_RANK], *dim = at->args->n == 2 ? at->args->items[1] : NULL;
    const fx_type *t = x ? fx_lg_type(l, x) : NULL;
    bool shape = dim && dim->kind == FX_ARG_STR && strcmp(at->target, "builtins.getattr") == 0 && strcmp(dim->s, "shape") == 0;
    bool size = at->opcode == FX_CALL_METHOD && strcmp(at->target, "size") == 0;
    if (!t || fx_type_is_static(t) || (!shape && !size))
        return false;
    if (size && at->kwargs->n == 1 && strcmp(at->kwargs->keys[0], "dim") == 0)
        dim = at->kwargs->items[0];
    int64_t only = size && dim && dim->kind == FX_ARG_INT ? dim->i < 0 ? dim->i + t->rank : dim->i : -1;
    if (size && dim && (only < 0 || only >= t->rank)) {
        fx_lg_refuse(l, "expected a dim of a tensor of rank %d", t->rank);
        return true;
    }
    for (int i = 0; i < t->rank; i++) {
        items[i] = fx_lg_int(l, t->dims[i].value);
        if (t->dims[i].sym && (only < 0 || only == i))
            items[i] = FX_LG_EMIT(l, fx_arena_printf(l->scratch, "%d", i), FX_OP_sym_size_int, x, fx_lg_int(l, i));
    }
    fx_lg_same(l, only >= 0 ? items[only] : fx_arg_seq(l->ctx, FX_ARG_TUPLE, t->rank, items));
    return true;
}

/* torch.cat(x.chunk(2)): a node of several results as a list. */
static void spread_tuples(fx_lg *l)
{
    fx_node *at = l->at;
    const fx_arg *items[32];
    bool found = false;
    for (int i = 0; i < at->args->n && i < 32; i++) {
        items[i] = at->args->items[i];
        if (is_tuple(l, items[i])) {
            items[i] = items_of(l, items[i]);
            found = true;
        }
    }
    if (!found || at->args->n > 32 || l->status != FX_OK)
        return;
    const fx_type *said = at->type;
    fx_node_assign(at, fx_arg_seq(l->ctx, FX_ARG_TUPLE, at->args->n, items), at->kwargs, (int)l->n, l->operands);
    at->type = said;
    l->n = 0;
    for (int i = 0; i < at->n_operands; i++)
        fx_lg_leaf(l, at->operands[i].def);
}

static bool has_name(const fx_node *n, const char *name)
{
    const char *dot = strrchr(n->target, '.');
    return strcmp(dot ? dot + 1 : n->target, name) == 0;
}

static void call(fx_lg *l)
{
    fx_node *at = l->at;
    fx_call_args v = {0};
    if (!has_name(at, "getitem") && !has_name(at, "len"))
        spread_tuples(l);
    if (l->status != FX_OK || dynamic_size(l) || python(l))
        return;
    l->row = fx_lg_find_call(l->run, at);
    if (l->row) {
        fx_lg_apply(l);
    } else if (fx_call_view(at, &v)) {
        l->inplace = v.inplace;
        fx_lg_become(l, v.op->id, v.n, v.args);
    } else if (v.op) {
        l->status = fx_call_check(at, &v);
    } else {
        fx_lg_refuse(l, "%s %s is not supported", at->opcode == FX_CALL_METHOD ? "method" : "function", at->target);
    }
}

/* Whether a call could be taken at all, whatever its arguments: asked where they are not known. */
static void look(fx_lg *l)
{
    const fx_node *at = l->at;
    if (at->opcode == FX_CALL_MODULE) {
        const fx_module *m = fx_module_find(l->g, at->target);
        if (!m || !fx_lg_find_module(fx_class_find(m->class_name)))
            call_module(l);
    } else if (at->opcode != FX_OUTPUT && !fx_lg_find_call(l->run, at) && !fx_node_row(at, NULL)) {
        static const char *const numbers[] = {"size", "dim", "numel", "len", "int", "float", "bool", "min", "max", "floor", "ceil", "not_"};
        bool known = false;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            known |= has_name(at, numbers[i]);
        if (!known)
            fx_lg_refuse(l, "%s %s is not supported", at->opcode == FX_CALL_METHOD ? "method" : "function", at->target);
    }
}

static void legalize(fx_lg *l)
{
    for (int i = 0; i < l->at->n_operands; i++)
        if (!l->at->operands[i].def->type) {
            fx_lg_refuse(l, "the type of its operand '%s' is not known", l->at->operands[i].def->name);
            return;
        }
    switch (l->at->opcode) {
    case FX_PLACEHOLDER: placeholder(l); break;
    case FX_GET_ATTR: get_attr(l); break;
    case FX_OUTPUT: output(l); break;
    case FX_CALL_MODULE: call_module(l); break;
    default: call(l); break;
    }
    if (l->status == FX_OK && !l->done)
        l->status = fx_fail(l->ctx, FX_INTERNAL, &l->at->loc, "legalising %s gave nothing", l->at->target);
}

/* A chain: each module in it takes what the one before gives; the node becomes the last. */
void fx_lg_chain(fx_lg *l)
{
    enum { DEEPEST = 50 };
    const fx_module *m = l->module;
    fx_graph *g = l->g;
    fx_node *at = l->at, *x = fx_lg_node(l, l->bound[0]);
    if (!m->n_children) {
        fx_lg_same(l, l->bound[0]);
        return;
    }
    if (!x || l->run->depth >= DEEPEST) {
        fx_lg_refuse(l, "module '%s': %s", m->path, x ? "chains of modules are nested too deep" : "expected a tensor");
        return;
    }
    l->run->depth++;
    for (size_t i = 0; i < m->n_children && l->status == FX_OK; i++) {
        const char *path = m->children[i]->path;
        const fx_arg *leaf = fx_arg_operand(l->ctx, 0), *args = fx_arg_seq(l->ctx, FX_ARG_TUPLE, 1, &leaf);
        const fx_type *said = at->type;
        fx_node *n = at;
        if (i + 1 < m->n_children) {
            g->insert_before = at;
            n = fx_node_new(g, FX_CALL_MODULE, path, args, NULL, 1, &x, fx_intern_f(l->ctx, "%s_%zu", at->name, i));
            g->insert_before = NULL;
            const char *own = n->name;
            n->loc = at->loc;
            n->loc.node = own;
        } else {
            at->target = path;
            fx_node_assign(at, args, NULL, 1, &x);
            at->type = said;
        }
        fx_lg inner = begin(l->run, n);
        legalize(&inner);
        l->status = inner.status;
        l->why = inner.why;
        x = inner.result;
        if (l->status == FX_OK && !x && n != at)
            fx_lg_refuse(l, "module '%s': expected it to give a tensor", path);
    }
    l->run->depth--;
    l->done = true;
    l->result = x;
}

/* ---- whole graphs ------------------------------------------------------------------------------------------------------------ */

/* One kind of trouble: its message, where it was seen first and how often. */
typedef struct finding {
    const char *text;
    fx_loc loc;
    size_t count;
    struct finding *next;
} finding;

typedef struct job {
    fx_graph *g;
    fx_arena *scratch;
    fx_map by_text;
    finding *first, **last;
    fx_status status; /* of the first trouble */
} job;

static void note(job *j, const fx_lg *l)
{
    if (j->status == FX_OK)
        j->status = l->status;
    if (!l->why)
        return; /* recorded already */
    const char *text = fx_intern(j->g->ctx, l->why);
    finding *f = fx_map_get(&j->by_text, text);
    if (!f) {
        f = FX_NEW(j->scratch, finding);
        *f = (finding){.text = text, .loc = l->at->loc};
        fx_map_put(j->scratch, &j->by_text, text, f);
        *j->last = f;
        j->last = &f->next;
    }
    f->count++;
}

static void report(const job *j)
{
    for (const finding *f = j->first; f; f = f->next)
        if (f->count == 1)
            fx_fail(j->g->ctx, FX_ERR_UNSUPPORTED, &f->loc, "%s", f->text);
        else
            fx_fail(j->g->ctx, FX_ERR_UNSUPPORTED, &f->loc, "%s (%zu nodes, this is the first)", f->text, f->count);
}

static void free_arena(void *arg)
{
    fx_arena_free(arg);
}

static fx_status run_graph(void *arg)
{
    fx_graph *g = arg;
    FX_TRY(fx_inline_bodies(g));
    FX_TRY(fx_graph_verify(g, FX_STAGE_CAPTURED, "legalize"));
    job j = {.g = g, .scratch = fx_arena_create(g->ctx)};
    fx_defer(g->ctx, free_arena, j.scratch);
    j.last = &j.first;
    fx_lg_run run;
    fx_lg_begin(&run, g, j.scratch);
    bool *failed = FX_NEW_ARRAY(j.scratch, bool, g->n_ids + 1);
    uint32_t n_ids = g->n_ids;
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        bool blind = false;
        for (int i = 0; i < n->n_operands; i++)
            blind |= n->operands[i].def->id < n_ids && failed[n->operands[i].def->id];
        fx_lg l = begin(&run, n);
        if (blind)
            look(&l);
        else
            legalize(&l);
        failed[n->id] = blind || l.status != FX_OK;
        if (l.status != FX_OK)
            note(&j, &l);
        g->insert_before = NULL;
    }
    report(&j);
    if (j.status != FX_OK)
        return j.status;
    g->stage = FX_STAGE_IMPORTED;
    return fx_graph_verify(g, FX_STAGE_IMPORTED, "legalize");
}

fx_status fx_legalize(fx_graph *g)
{
    return g->stage == FX_STAGE_CAPTURED ? fx_protect(g->ctx, run_graph, g) : fx_inline_bodies(g);
}

fx_status fx_inputs_typed(const fx_graph *g)
{
    FX_FOR_NODES(g, n)
        if (g->stage != FX_STAGE_CAPTURED && n->opcode == FX_PLACEHOLDER && !n->type)
            return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &n->loc, NO_TYPE, n->name, n->target);
    return FX_OK;
}

fx_status fx_gpass_legalize(fx_pass_run *run)
{
    size_t calls = 0;
    if (run->graph->stage != FX_STAGE_CAPTURED)
        return FX_OK;
    FX_FOR_NODES(run->graph, n)
        calls += n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE;
    FX_TRY(fx_legalize(run->graph));
    fx_pass_note(run, NULL, "%zu calls became calls of operators", calls);
    return FX_OK;
}

static fx_status run_copy(void *arg)
{
    fx_graph **g = arg;
    *g = fx_graph_copy(*g);
    return run_graph(*g);
}

fx_status fx_graph_legalize(fx_graph *graph, fx_graph **out)
{
    fx_graph *g = graph;
    if (!graph || !out)
        return FX_ERR_ARGUMENT;
    if (graph->stage == FX_STAGE_CAPTURED)
        FX_TRY(fx_protect(graph->ctx, run_copy, &g));
    *out = g;
    return FX_OK;
}

typedef struct one_job {
    fx_node *node, *result;
} one_job;

static fx_status run_node(void *arg)
{
    one_job *j = arg;
    fx_graph *g = j->node->graph;
    fx_arena *scratch = fx_arena_create(g->ctx);
    fx_defer(g->ctx, free_arena, scratch);
    fx_node *insertion = g->insert_before;
    fx_lg_run run;
    fx_lg_begin(&run, g, scratch);
    fx_lg l = begin(&run, j->node);
    legalize(&l);
    g->insert_before = insertion == j->node && j->node->erased ? j->node->next : insertion;
    if (l.why)
        fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &j->node->loc, "%s", l.why);
    j->result = l.result;
    return l.status;
}

fx_status fx_legalize_node(fx_node *n, fx_node **out)
{
    one_job j = {.node = n};
    FX_TRY(fx_protect(n->graph->ctx, run_node, &j));
    *out = j.result;
    return FX_OK;
}
