/* passes/legalize_call.c: rows of legalize.def, arguments bound to Python's signatures, calls of op.def's rows made.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/legalize.h"

#define FX_OP_none FX_OP_NONE

static const fx_lg_row rows[] = {
#define MODULE(class_name, forward, op, spare, rule) {NULL, FX_MODULE_##class_name, forward, FX_OP_##op, spare, rule},
#define CALL(names, signature, op, spare, rule) {names, FX_MODULE_NONE, signature, FX_OP_##op, spare, rule},
#include "passes/legalize.def"
#undef MODULE
#undef CALL
};

enum { N_ROWS = sizeof rows / sizeof *rows, MAX_BOUND = sizeof((fx_lg *)0)->bound / sizeof(fx_arg *) };

/* ---- finding a row ---------------------------------------------------------------------------------------------------- */

/* Whether the list has the word, "F." standing for torch.nn.functional. */
static bool has_name(const char *names, const char *name)
{
    static const char functional[] = "torch.nn.functional.";
    bool f = strncmp(name, functional, sizeof functional - 1) == 0;
    const char *rest = f ? name + sizeof functional - 1 : name;
    size_t n = strlen(rest);
    for (const char *p = names; *p; p += strspn(p, " ")) {
        size_t length = strcspn(p, " "), skip = f ? 2 : 0;
        if (length == n + skip && (!f || strncmp(p, "F.", 2) == 0) && memcmp(p + skip, rest, n) == 0)
            return true;
        p += length;
    }
    return false;
}

static const fx_lg_row *find_call(const fx_node *n)
{
    char name[128];
    const char *target = n->target;
    if (strncmp(target, "torch.Tensor.", 13) == 0 && n->opcode == FX_CALL_FUNCTION)
        snprintf(name, sizeof name, ".%s", target + 13);
    else if (strncmp(target, "operator.", 9) == 0)
        snprintf(name, sizeof name, "_%s", target);
    else
        snprintf(name, sizeof name, "%s%s", n->opcode == FX_CALL_METHOD ? "." : "", target);
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].names && has_name(rows[i].names, name))
            return &rows[i];
    return NULL;
}

void fx_lg_begin(fx_lg_run *run, fx_graph *g, fx_arena *scratch)
{
    *run = (fx_lg_run){.g = g, .scratch = scratch, .signatures = FX_NEW_ARRAY(scratch, const fx_schema *, N_ROWS)};
}

const fx_lg_row *fx_lg_row_at(int i)
{
    return i >= 0 && i < N_ROWS ? &rows[i] : NULL;
}

/* Each name is looked for once. */
const fx_lg_row *fx_lg_find_call(fx_lg_run *run, const fx_node *n)
{
    static const fx_lg_row none;
    const char *key = n->opcode == FX_CALL_METHOD ? fx_intern_f(run->g->ctx, ".%s", n->target) : n->target;
    const fx_lg_row *found = fx_map_get(&run->calls, key);
    if (!found) {
        found = find_call(n);
        fx_map_put(run->scratch, &run->calls, key, (void *)(uintptr_t)(found ? found : &none));
    }
    return found == &none ? NULL : found;
}

const fx_lg_row *fx_lg_find_module(const fx_class *c)
{
    for (int i = 0; c && i < N_ROWS; i++)
        if (!rows[i].names && rows[i].module == c->id)
            return &rows[i];
    return NULL;
}

/* ---- small things ------------------------------------------------------------------------------------------------------- */

const fx_arg *fx_lg_int(const fx_lg *l, int64_t v)
{
    return fx_arg_int(l->ctx, v);
}

const fx_arg *fx_lg_float(const fx_lg *l, double v)
{
    return fx_arg_float(l->ctx, v);
}

const fx_arg *fx_lg_bool(const fx_lg *l, bool v)
{
    return fx_arg_bool(l->ctx, v);
}

void fx_lg_refuse(fx_lg *l, const char *fmt, ...)
{
    if (l->status != FX_OK)
        return;
    va_list ap;
    va_start(ap, fmt);
    l->why = fx_arena_vprintf(l->scratch, fmt, ap);
    va_end(ap);
    l->status = FX_ERR_UNSUPPORTED;
}

const fx_arg *fx_lg_leaf(fx_lg *l, fx_node *n)
{
    FX_PUSH(l->scratch, l->operands, l->n, l->cap) = n;
    return fx_arg_operand(l->ctx, (int)l->n - 1);
}

fx_node *fx_lg_node(const fx_lg *l, const fx_arg *a)
{
    return a && a->kind == FX_ARG_NODE ? l->operands[a->i] : NULL;
}

const fx_type *fx_lg_type(const fx_lg *l, const fx_arg *a)
{
    const fx_node *n = fx_lg_node(l, a);
    return n && n->type && n->type->kind == FX_TYPE_TENSOR ? n->type : NULL;
}

const fx_arg *fx_lg_arg(fx_lg *l, const char *name)
{
    for (int i = 0; i < l->schema->n; i++)
        if (strcmp(l->schema->params[i].name, name) == 0)
            return l->bound[i];
    return l->module ? fx_module_config(l->module, name) : NULL;
}

bool fx_lg_true(fx_lg *l, const char *name)
{
    const fx_arg *a = fx_lg_arg(l, name);
    return a && ((a->kind == FX_ARG_BOOL && a->b) || (a->kind == FX_ARG_INT && a->i));
}

const fx_arg *fx_lg_attr(fx_lg *l, const char *name)
{
    if (!l->module)
        return fx_lg_arg(l, name);
    const char *path = *l->module->path ? fx_intern_f(l->ctx, "%s.%s", l->module->path, name) : name;
    if (!fx_attr_find(l->g, path))
        return fx_arg_none(l->ctx);
    l->g->insert_before = l->at;
    fx_node *n = fx_node_new(l->g, FX_GET_ATTR, path, NULL, NULL, 0, NULL, NULL);
    l->g->insert_before = NULL;
    const char *own = n->name;
    n->loc = l->at->loc;
    n->loc.node = own;
    l->status = l->status != FX_OK ? l->status : fx_node_infer(n);
    return fx_lg_leaf(l, n);
}

/* ---- calls made ---------------------------------------------------------------------------------------------------------- */

/* "aten.relu.default" -> "aten.relu_.default". */
static const char *inplace_name(fx_context *ctx, const fx_op *op)
{
    const char *dot = strrchr(op->name, '.');
    return fx_intern_f(ctx, "%.*s_%s", (int)(dot - op->name), op->name, dot);
}

/* A parameter that cannot be None gets its default for it: F.max_pool2d(x, 2, stride=None). */
static const fx_arg *or_default(const fx_param *p, const fx_arg *a)
{
    return (!a || a->kind == FX_ARG_NONE) && !p->optional && p->def ? p->def : a;
}

static fx_node *make(fx_lg *l, fx_opid id, int n, const fx_arg *const *args, const char *suffix, bool inplace)
{
    const fx_op *op = &fx_ops[id];
    const fx_schema *s = fx_op_schema(l->ctx, op);
    const fx_arg *full[32];
    if (l->status != FX_OK)
        return NULL;
    if (n > s->n) {
        l->status = fx_fail(l->ctx, FX_INTERNAL, &l->at->loc, "a rule gives %s %d arguments, it takes %d", op->name, n, s->n);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        full[i] = or_default(&s->params[i], args[i] ? args[i] : fx_arg_none(l->ctx));
    const char *target = inplace ? inplace_name(l->ctx, op) : op->name;
    l->g->insert_before = l->at;
    fx_node *m = fx_node_new(l->g, FX_CALL_FUNCTION, target, fx_arg_seq(l->ctx, FX_ARG_TUPLE, n, full), NULL, (int)l->n, l->operands,
                             suffix ? fx_intern_f(l->ctx, "%s_%s", l->at->name, suffix) : "new"); /* which goes at once */
    l->g->insert_before = NULL;
    const char *own = m->name;
    m->loc = l->at->loc;
    l->status = fx_node_normalize(m);
    if (l->status == FX_OK)
        l->status = fx_node_infer(m);
    m->loc.node = own;
    if (l->status == FX_OK)
        return m;
    fx_node_erase(m);
    return NULL;
}

const fx_arg *fx_lg_emit(fx_lg *l, const char *suffix, fx_opid op, int n, const fx_arg *const *args)
{
    fx_node *m = make(l, op, n, args, suffix, false);
    return m ? fx_lg_leaf(l, m) : fx_arg_none(l->ctx);
}

void fx_lg_write(fx_lg *l, const char *suffix, fx_opid op, int n, const fx_arg *const *args)
{
    make(l, op, n, args, suffix, true);
}

static bool contradicts(const fx_type *said, const fx_type *found)
{
    return said && said->kind == FX_TYPE_TENSOR && found->kind == FX_TYPE_TENSOR && fx_type_is_static(said) && fx_type_is_static(found) &&
           (said->dtype != found->dtype || !fx_type_same_shape(said, found));
}

void fx_lg_become(fx_lg *l, fx_opid op, int n, const fx_arg *const *args)
{
    fx_node *at = l->at, *m = make(l, op, n, args, NULL, l->inplace);
    if (!m)
        return;
    if (contradicts(at->type, m->type)) {
        fx_text said, found;
        fx_text_init(&said, l->scratch);
        fx_text_init(&found, l->scratch);
        fx_type_print(&said, at->type);
        fx_type_print(&found, m->type);
        l->status = fx_fail(l->ctx, FX_ERR_TYPE, &at->loc, "%s: expected %s by its arguments, but the model says %s", at->target, found.data,
                            said.data);
        fx_node_erase(m);
        return;
    }
    fx_node **operands = FX_NEW_ARRAY(l->scratch, fx_node *, m->n_operands + 1);
    for (int i = 0; i < m->n_operands; i++)
        operands[i] = m->operands[i].def;
    const fx_type *type = m->type;
    const fx_arg *made = m->args;
    int count = m->n_operands;
    at->opcode = FX_CALL_FUNCTION;
    at->op = m->op;
    at->target = m->target;
    l->status = fx_node_erase(m);
    fx_node_assign(at, made, NULL, count, operands);
    at->type = type;
    l->done = true;
    l->result = at;
}

/* ---- a node gives way ------------------------------------------------------------------------------------------------------ */

void fx_lg_same(fx_lg *l, const fx_arg *operand)
{
    fx_node *by = fx_lg_node(l, operand);
    if (l->status != FX_OK)
        return;
    if (!by) {
        fx_lg_value(l, operand);
        return;
    }
    fx_node_replace_uses(l->at, by);
    l->status = fx_node_erase(l->at);
    l->done = true;
    l->result = by;
}

typedef struct substitution {
    fx_lg *l;
    const fx_node *user;
    const fx_arg *value;
    fx_node **operands; /* the user's, then those of the value */
    int n_user;
} substitution;

static const fx_arg *shift(void *user, const fx_arg *leaf)
{
    const substitution *s = user;
    return leaf->kind == FX_ARG_NODE ? fx_arg_operand(s->l->ctx, (int)leaf->i + s->n_user) : leaf;
}

static const fx_arg *put_value(void *user, const fx_arg *leaf)
{
    substitution *s = user;
    if (leaf->kind != FX_ARG_NODE || s->user->operands[leaf->i].def != s->l->at)
        return leaf;
    return fx_arg_map(s->l->ctx, s->value, shift, s);
}

void fx_lg_value(fx_lg *l, const fx_arg *v)
{
    fx_node *at = l->at;
    if (l->status != FX_OK)
        return;
    while (at->first_use) {
        fx_node *user = at->first_use->user;
        substitution s = {.l = l, .user = user, .value = v, .n_user = user->n_operands};
        s.operands = FX_NEW_ARRAY(l->scratch, fx_node *, (size_t)user->n_operands + l->n + 1);
        for (int i = 0; i < user->n_operands; i++)
            s.operands[i] = user->operands[i].def;
        if (l->n)
            memcpy(s.operands + user->n_operands, l->operands, l->n * sizeof *l->operands);
        const fx_arg *args = fx_arg_map(l->ctx, user->args, put_value, &s), *kwargs = fx_arg_map(l->ctx, user->kwargs, put_value, &s);
        const fx_type *said = user->type;
        fx_node_assign(user, args, kwargs, user->n_operands + (int)l->n, s.operands);
        user->type = said;
    }
    l->status = fx_node_erase(l->at);
    l->done = true;
    l->result = NULL;
}

/* ---- rows applied ----------------------------------------------------------------------------------------------------------- */

static void misfit(fx_lg *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void misfit(fx_lg *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = fx_arena_vprintf(l->scratch, fmt, ap);
    va_end(ap);
    if (l->status == FX_OK)
        l->status = fx_fail(l->ctx, FX_ERR_TYPE, &l->at->loc, "%s", text);
}

/* What torch's functions call "input" is "self" to methods; NumPy's words are taken too. */
static int position(const fx_schema *s, const char *key)
{
    if (strcmp(key, "axis") == 0)
        key = "dim";
    if (strcmp(key, "keepdims") == 0)
        key = "keepdim";
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->params[i].name, key) == 0)
            return i;
    return s->n && (strcmp(key, "input") == 0 || strcmp(key, "self") == 0) ? 0 : -1;
}

static void bind(fx_lg *l)
{
    const fx_schema **parsed = &l->run->signatures[l->row - rows];
    if (!*parsed)
        *parsed = fx_schema_parse(l->ctx, l->row->signature, l->at->target);
    const fx_schema *s = l->schema = *parsed;
    const fx_node *at = l->at;
    int positional = 0;
    if (s->n > MAX_BOUND) {
        l->status = fx_fail(l->ctx, FX_INTERNAL, &at->loc, "legalize.def: %s has more than %d parameters", at->target, MAX_BOUND);
        return;
    }
    while (positional < s->n && !s->params[positional].keyword_only)
        positional++;
    if (at->args->n > positional) {
        misfit(l, "%s takes at most %d arguments, got %d", at->target, positional, at->args->n);
        return;
    }
    for (int i = 0; i < at->args->n; i++)
        l->bound[i] = at->args->items[i];
    for (int i = 0; i < at->kwargs->n; i++) {
        int k = position(s, at->kwargs->keys[i]);
        if (k < 0 || l->bound[k]) {
            misfit(l, k < 0 ? "%s has no argument '%s'" : "%s is given its argument '%s' twice", at->target, at->kwargs->keys[i]);
            return;
        }
        l->bound[k] = at->kwargs->items[i];
    }
    for (int i = 0; i < s->n && l->status == FX_OK; i++) {
        const fx_param *p = &s->params[i];
        const char *got = "nothing";
        const fx_arg *given = l->bound[i];
        l->bound[i] = given ? fx_param_fit(l->ctx, p, given, &got) : p->def;
        if (l->bound[i] && p->kind == FX_PARAM_TENSOR && l->bound[i]->kind == FX_ARG_NODE && !fx_lg_type(l, l->bound[i])) {
            l->bound[i] = NULL;
            got = "a node that is no tensor";
        }
        if (!l->bound[i])
            misfit(l, "argument '%s' of %s: expected %s, got %s", p->name, at->target, p->type, got);
    }
}

/* Rules look at single numbers: those must be known now. Lists and what goes by name are passed on as they are. */
static bool is_known(const fx_lg *l, const fx_param *p, const fx_arg *v)
{
    bool number = p->kind == FX_PARAM_INT || p->kind == FX_PARAM_FLOAT || p->kind == FX_PARAM_BOOL;
    return l->row->rule == fx_lg_by_name || !number || !v || (v->kind != FX_ARG_NODE && v->kind != FX_ARG_SYM);
}

/* Whether the word is in a row's spare list; *must when it has to have its default. */
static bool is_spare(const char *spare, const char *name, bool *must)
{
    size_t n = strlen(name);
    for (const char *p = spare; *p; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        if (length >= n && memcmp(p, name, n) == 0 && (length == n || (length == n + 1 && p[n] == '='))) {
            *must = length > n;
            return true;
        }
        p += length;
    }
    return false;
}

/* One parameter or setting that the op does not take. */
static void check_spare(fx_lg *l, const fx_param *p, const fx_arg *v, bool known)
{
    bool must = false;
    if (!is_known(l, p, v))
        fx_lg_refuse(l, "%s: expected a number that is known before the graph runs", p->name);
    if (strcmp(p->name, "inplace") == 0 || (!is_spare(l->row->spare, p->name, &must) && known) || !v || !must || v == p->def)
        return;
    fx_text t;
    fx_text_init(&t, l->scratch);
    fx_arg_print(&t, v, l->at);
    fx_lg_refuse(l, "%s=%s is not supported", p->name, t.data);
}

/* Arguments that must have their defaults. */
static void check_arguments(fx_lg *l)
{
    for (int i = 0; i < l->schema->n; i++)
        check_spare(l, &l->schema->params[i], l->bound[i], true);
    const fx_schema *s = l->module ? fx_class_schema(l->ctx, fx_class_find(l->module->class_name)) : NULL;
    for (int i = 0; s && i < s->n; i++)
        check_spare(l, &s->params[i], fx_module_config(l->module, s->params[i].name), true);
    for (int i = 0; s && l->module->config && i < l->module->config->n; i++) {
        const char *key = l->module->config->keys[i];
        bool known = strcmp(key, "training") == 0;
        for (int k = 0; k < s->n && !known; k++)
            known = strcmp(s->params[k].name, key) == 0;
        if (!known)
            fx_lg_refuse(l, "the setting '%s' of module '%s' is not known", key, l->module->path);
    }
}

void fx_lg_apply(fx_lg *l)
{
    bind(l);
    if (l->status != FX_OK)
        return;
    check_arguments(l);
    l->inplace = fx_lg_true(l, "inplace");
    if (l->status == FX_OK)
        l->row->rule(l);
}

/* Every parameter of the op is the argument, tensor or setting of its name. The first may be "self" to one and "input" to the other. */
void fx_lg_by_name(fx_lg *l)
{
    const fx_op *op = &fx_ops[l->row->op];
    const fx_schema *s = fx_op_schema(l->ctx, op);
    const fx_arg *args[32];
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        const fx_arg *v = i == 0 ? l->bound[0] : fx_lg_arg(l, p->name);
        if (l->module && i > 0 && p->kind == FX_PARAM_TENSOR)
            v = fx_lg_attr(l, p->name);
        args[i] = v ? v : p->def;
    }
    fx_lg_become(l, l->row->op, s->n, args);
}
