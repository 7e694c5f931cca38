/* passes/replace.c: one operator for another, one class of module for another.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/passes.h"

typedef struct job {
    fx_graph *g;
    fx_pass_run *run;          /* NULL: called by a user */
    const char *from, *to;
    int n_config;
    const char *const *keys;
    const fx_value *config;
    fx_arena *scratch;
    fx_snapshot *before;
    size_t count;
} job;

/* A note of a pass, or of nobody. */
static void note(job *j, const fx_node *n, const char *what, const char *was, const char *is)
{
    j->count++;
    if (j->run)
        fx_pass_note(j->run, n, "%s '%s' became '%s'", what, was, is);
}

/* Types that depended on what was changed are forgotten; `changed` by node id. */
static void forget_types(job *j, bool *changed)
{
    FX_FOR_NODES(j->g, n) {
        for (int i = 0; !changed[n->id] && i < n->n_operands; i++)
            changed[n->id] = changed[n->operands[i].def->id];
        if (changed[n->id] && n->opcode != FX_PLACEHOLDER && n->opcode != FX_GET_ATTR)
            n->type = NULL;
    }
}

/* ---- operators --------------------------------------------------------------------------------------------------------- */

static int same_param(const fx_schema *s, const fx_schema *of, int i)
{
    if (i == 0 && s->n > 0 && s->params[0].kind == of->params[0].kind)
        return 0; /* self, input, x: what it works on */
    for (int k = 0; k < s->n; k++)
        if (!strcmp(s->params[k].name, of->params[i].name))
            return k;
    return -1;
}

/* The arguments of a call of one operator as those of another, by name; what only the first knows must have its default. */
static fx_status carry_over(const fx_node *n, const fx_call_args *was, const fx_op *to, fx_call_args *out)
{
    fx_context *ctx = n->graph->ctx;
    const fx_schema *a = was->schema, *b = fx_op_schema(ctx, to);
    *out = (fx_call_args){.op = to, .schema = b, .inplace = was->inplace, .n = b->n};
    for (int i = 0; i < a->n; i++) {
        int k = same_param(b, a, i);
        if (k < 0 && was->args[i] != a->params[i].def)
            return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "%s has the argument '%s', which %s does not take", was->op->name, a->params[i].name, to->name);
        if (k >= 0)
            out->args[k] = was->args[i];
    }
    for (int k = 0; k < b->n; k++) {
        const char *got = "nothing";
        out->args[k] = out->args[k] ? fx_param_convert(ctx, to, k, out->args[k], &got) : b->params[k].def;
        if (!out->args[k])
            return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "argument '%s' of %s: expected %s, got %s", b->params[k].name, to->name,
                           b->params[k].type, got);
    }
    if (out->inplace && !fx_op_inplace_name(ctx, to))
        return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "%s has no variant in place", to->name);
    return FX_OK;
}

/* "LeakyReLU" and "leaky_relu" are one: letters and digits, small. */
static bool same_word(const char *a, const char *b, size_t n)
{
    for (;;) {
        while (*a == '_')
            a++;
        while (n && *b == '_') {
            b++;
            n--;
        }
        if (!*a || !n)
            return !*a && !n;
        char x = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a, y = *b >= 'A' && *b <= 'Z' ? (char)(*b - 'A' + 'a') : *b;
        if (x != y)
            return false;
        a++;
        b++;
        n--;
    }
}

/* The activation class whose forward is just this operator, or NULL. */
static const fx_class *class_of_op(const fx_op *op)
{
    const char *dot = strchr(op->name, '.');
    for (int i = 1; dot && i < FX_MODULE_COUNT; i++)
        if (strstr(fx_classes[i].name, ".activation.") && same_word(strrchr(fx_classes[i].name, '.') + 1, dot + 1, strcspn(dot + 1, ".")))
            return &fx_classes[i];
    return NULL;
}

/* The settings of a class as those of another, by name. */
static fx_status carry_settings(const fx_module *m, const fx_class *from, const fx_class *to, const fx_arg **config)
{
    fx_context *ctx = m->graph->ctx;
    const fx_schema *a = fx_class_schema(ctx, from), *b = fx_class_schema(ctx, to);
    fx_loc loc = {.module = m->path};
    const char *keys[32];
    const fx_arg *items[32];
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        const fx_arg *v = fx_module_config(m, a->params[i].name);
        bool taken = false;
        for (int k = 0; k < b->n; k++)
            taken = taken || !strcmp(b->params[k].name, a->params[i].name);
        if (!v || v == a->params[i].def)
            continue;
        if (!taken || n == 32)
            return fx_fail(ctx, FX_ERR_TYPE, &loc, "%s has the setting '%s', which %s does not take", from->short_name, a->params[i].name,
                           to->short_name);
        keys[n] = a->params[i].name;
        items[n++] = v;
    }
    for (int k = 0; k < b->n; k++)
        if (!b->params[k].def)
            return fx_fail(ctx, FX_ERR_TYPE, &loc, "%s needs the setting '%s'", to->short_name, b->params[k].name);
    *config = fx_arg_dict(ctx, n, keys, items);
    return FX_OK;
}

static const char *op_name(const void *of, size_t i)
{
    (void)of;
    return fx_ops[i + 1].name;
}

static fx_status named_op(job *j, const char *name, const fx_op **out, bool *inplace)
{
    *out = fx_op_lookup(j->g->ctx, name, inplace);
    if (*out && (*out)->id != FX_OP_getitem)
        return FX_OK;
    const char *near = fx_nearest(name, FX_OP_COUNT - 1, op_name, NULL);
    return fx_fail(j->g->ctx, FX_ERR_ARGUMENT, NULL, "there is no operator '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

static fx_status replace_op(void *arg)
{
    job *j = arg;
    fx_graph *g = j->g;
    const fx_op *from, *to;
    bool from_in_place, to_in_place;
    FX_TRY(named_op(j, j->from, &from, &from_in_place));
    FX_TRY(named_op(j, j->to, &to, &to_in_place));
    const fx_class *a = class_of_op(from), *b = class_of_op(to);
    j->scratch = fx_arena_create(g->ctx);
    j->before = fx_snapshot_take(g, j->scratch);
    bool *changed = FX_NEW_ARRAY(j->scratch, bool, g->n_ids + 1), typed = false;
    FX_FOR_NODES(g, n) {
        fx_call_args was, is;
        fx_module *m = a && n->opcode == FX_CALL_MODULE ? fx_module_find(g, n->target) : NULL;
        if (m && fx_module_class_of(m) == a && from != to) {
            if (!b)
                return fx_fail(g->ctx, FX_ERR_TYPE, &n->loc, "calls a %s; there is no class of torch.nn that is %s", a->short_name, to->name);
            const fx_arg *config = NULL;
            FX_TRY(carry_settings(m, a, b, &config));
            m->class_name = fx_intern(g->ctx, b->name);
            m->config = config;
            changed[n->id] = true;
            note(j, n, "class", a->short_name, b->short_name);
            continue;
        }
        const fx_op *row = n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD ? fx_node_row(n, NULL) : NULL;
        if (!row || from == to)
            continue;
        if (!fx_call_view(n, &was)) {
            if (row == from)
                return fx_call_check(n, &was);
            continue;
        }
        if (was.op != from)
            continue;
        const char *target = n->target;
        const fx_type *type = n->type;
        FX_TRY(carry_over(n, &was, to, &is));
        fx_node_become_call(n, &is);
        note(j, n, "call of", target, n->target);
        if (type && g->stage != FX_STAGE_CAPTURED) {
            n->type = NULL;
            FX_TRY(fx_node_infer(n));
            typed = typed || !n->type || !fx_type_same_shape(n->type, type) || n->type->dtype != type->dtype;
        }
        changed[n->id] = true;
    }
    if (g->stage == FX_STAGE_CAPTURED || typed) {
        forget_types(j, changed);
        if (g->stage != FX_STAGE_CAPTURED)
            FX_FOR_NODES(g, n)
                if (!n->type)
                    FX_TRY(fx_node_infer(n));
    }
    return FX_OK;
}

/* ---- modules -------------------------------------------------------------------------------------------------------------- */

static const char *class_name(const void *of, size_t i)
{
    (void)of;
    return fx_classes[i + 1].short_name;
}

static fx_status named_class(job *j, const char *name, const fx_class **out)
{
    const char *near = NULL;
    *out = fx_class_find(name);
    if (*out)
        return FX_OK;
    near = fx_nearest(name, FX_MODULE_COUNT - 1, class_name, NULL);
    return fx_fail(j->g->ctx, FX_ERR_ARGUMENT, NULL, "there is no class '%s' of torch.nn%s%s%s", name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

/* Whether modules of a class hold tensors. */
static bool has_tensors(const fx_class *c)
{
    static const char *const files[] = {".conv.", ".linear.", ".sparse.", ".batchnorm.", ".instancenorm.", ".normalization."};
    if (c->id == FX_MODULE_Identity || c->id == FX_MODULE_LocalResponseNorm)
        return false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strstr(c->name, files[i]))
            return true;
    return c->id == FX_MODULE_PReLU || c->id == FX_MODULE_MultiheadAttention || strstr(c->name, ".container.");
}

/* What the class needs is given; what is given it has (fx_module_set_setting checks the values). */
static fx_status check_config(job *j, const fx_class *to)
{
    const fx_schema *s = fx_class_schema(j->g->ctx, to);
    for (int k = 0; k < s->n; k++) {
        bool given = s->params[k].def != NULL;
        for (int i = 0; !given && i < j->n_config; i++)
            given = j->keys[i] && !strcmp(s->params[k].name, j->keys[i]);
        if (!given)
            return fx_fail(j->g->ctx, FX_ERR_ARGUMENT, NULL, "%s needs the setting '%s'", to->short_name, s->params[k].name);
    }
    return FX_OK;
}

static fx_status replace_module(void *arg)
{
    job *j = arg;
    fx_graph *g = j->g;
    const fx_class *from, *to;
    FX_TRY(named_class(j, j->from, &from));
    FX_TRY(named_class(j, j->to, &to));
    j->scratch = fx_arena_create(g->ctx);
    FX_TRY(check_config(j, to));
    j->before = fx_snapshot_take(g, j->scratch);
    bool *changed = FX_NEW_ARRAY(j->scratch, bool, g->n_ids + 1);
    fx_map done = {0};
    for (fx_module *m = g->root, *next; m; m = next) {
        next = fx_graph_next_module(g, m);
        if (fx_module_class_of(m) != from || (from == to && j->n_config == 0))
            continue;
        m->class_name = fx_intern(g->ctx, to->name);
        m->config = NULL;
        for (int i = 0; i < j->n_config; i++)
            FX_TRY(fx_module_set_setting(m, j->keys[i], j->config[i]));
        while (!has_tensors(to) && m->n_attrs > 0)
            fx_attr_remove(m->attrs[m->n_attrs - 1]);
        fx_map_put(j->scratch, &done, m, m);
        j->count++;
        if (j->run)
            fx_pass_note(j->run, NULL, "module '%s': class '%s' became '%s'", m->path, from->short_name, to->short_name);
    }
    FX_FOR_NODES(g, n)
        if (n->opcode == FX_CALL_MODULE)
            for (const fx_module *m = fx_module_find(g, n->target); m && !changed[n->id]; m = m->parent)
                changed[n->id] = fx_map_get(&done, m) != NULL;
    if (j->count)
        forget_types(j, changed);
    return FX_OK;
}

/* ---- the ways in ------------------------------------------------------------------------------------------------------------- */

static fx_status whole_or_not(job *j, fx_status (*fn)(void *), size_t *count)
{
    fx_status status = fx_protect(j->g->ctx, fn, j);
    if (status != FX_OK && j->before)
        fx_snapshot_restore(j->before);
    if (j->scratch)
        fx_arena_free(j->scratch);
    if (status == FX_OK && count)
        *count = j->count;
    return status;
}

static fx_status check_names(fx_graph *g, const char *what, const char *from, const char *to)
{
    return from && to ? FX_OK : fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "%s: expected what to replace and by what, got NULL", what);
}

fx_status fx_graph_replace_op(fx_graph *graph, const char *from, const char *to, size_t *count)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    FX_TRY(check_names(graph, "fx_graph_replace_op", from, to));
    job j = {.g = graph, .from = from, .to = to};
    return whole_or_not(&j, replace_op, count);
}

fx_status fx_graph_replace_module(fx_graph *graph, const char *from, const char *to, int n_config, const char *const *keys,
                                  const fx_value *config, size_t *count)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    FX_TRY(check_names(graph, "fx_graph_replace_module", from, to));
    if (n_config < 0 || (n_config > 0 && (!keys || !config)))
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, "fx_graph_replace_module: expected %d settings, got NULL", n_config);
    job j = {.g = graph, .from = from, .to = to, .n_config = n_config, .keys = keys, .config = config};
    return whole_or_not(&j, replace_module, count);
}

fx_status fx_gpass_replace_op(fx_pass_run *run)
{
    job j = {.g = run->graph, .run = run, .from = fx_pass_str(run, "from"), .to = fx_pass_str(run, "to")};
    return whole_or_not(&j, replace_op, NULL);
}

fx_status fx_gpass_replace_module(fx_pass_run *run)
{
    job j = {.g = run->graph, .run = run, .from = fx_pass_str(run, "from"), .to = fx_pass_str(run, "to")};
    return whole_or_not(&j, replace_module, NULL);
}
