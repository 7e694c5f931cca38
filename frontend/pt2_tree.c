/* frontend/pt2_tree.c: nested inputs and outputs: pytree specs, as torch.utils._pytree.treespec_dumps writes them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

enum { MAX_DEPTH = 64 };

typedef struct reader {
    fx_pt2 *p;
    const char *what;
    const fx_arg *const *leaf;
    int n, next;
} reader;

/* Python types whose children come in order; anything else is refused by name. */
static const struct {
    const char *name;
    fx_arg_kind kind;
} sequences[] = {
    {"builtins.tuple", FX_ARG_TUPLE},
    {"builtins.list", FX_ARG_LIST},
    {"collections.deque", FX_ARG_LIST},
    {"collections.namedtuple", FX_ARG_TUPLE},
    {"torch.fx.immutable_collections.immutable_list", FX_ARG_LIST},
};

static bool is_dict(const char *type)
{
    return !strcmp(type, "builtins.dict") || !strcmp(type, "collections.OrderedDict") || !strcmp(type, "collections.defaultdict") ||
           !strcmp(type, "torch.fx.immutable_collections.immutable_dict");
}

/* The keys of a dict: its context, a JSON list; of a defaultdict the field dict_context. */
static fx_status read_keys(reader *t, const char *type, const char *context, size_t n, const char **keys)
{
    fx_pt2 *p = t->p;
    const fx_json_value *list;
    FX_TRY(fx_json_parse(&p->r, p->tmp, context, strlen(context), &list));
    if (!strcmp(type, "collections.defaultdict"))
        FX_TRY(fx_json_array(&p->r, list, "dict_context", &list));
    FX_TRY(fx_json_expect(&p->r, list, FX_JSON_ARRAY, "context"));
    if (fx_json_size(list) != n)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "%s: expected as many keys as items, got %zu and %zu", t->what,
                       fx_json_size(list), n);
    for (size_t i = 0; i < n; i++) {
        const fx_json_value *key = fx_json_at(list, i);
        if (fx_json_is(key, FX_JSON_STRING))
            keys[i] = fx_intern(p->ctx, fx_json_text(key));
        else if (fx_json_is(key, FX_JSON_INT))
            keys[i] = fx_intern_f(p->ctx, "%lld", (long long)key->i);
        else
            return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "%s: expected strings or integers as keys of a dict, got %s", t->what,
                           fx_json_kind(key));
    }
    return FX_OK;
}

static fx_status node(reader *t, const fx_json_value *spec, int depth, const fx_arg **out)
{
    fx_pt2 *p = t->p;
    const fx_json_value *type, *children;
    const char *name, *context;
    if (depth == MAX_DEPTH)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "%s: nested more than %d deep", t->what, MAX_DEPTH);
    FX_TRY(fx_json_optional(&p->r, spec, "type", &type));
    FX_TRY(fx_json_array(&p->r, spec, "children_spec", &children));
    size_t n = fx_json_size(children);
    if (!type) {
        if (n || t->next == t->n)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "%s: expected a tree of %d leaves, got more", t->what, t->n);
        *out = t->leaf[t->next++];
        return FX_OK;
    }
    FX_TRY(fx_json_string(&p->r, spec, "type", &name));
    const fx_arg **items = FX_NEW_ARRAY(p->tmp, const fx_arg *, n);
    for (size_t i = 0; i < n; i++)
        FX_TRY(node(t, fx_json_at(children, i), depth + 1, &items[i]));
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        if (!strcmp(sequences[i].name, name)) {
            *out = fx_arg_seq(p->ctx, sequences[i].kind, (int)n, items);
            return FX_OK;
        }
    if (!is_dict(name))
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "%s of type '%s': expected tuple, list or dict of tensors", t->what, name);
    FX_TRY(fx_json_string(&p->r, spec, "context", &context));
    const char **keys = FX_NEW_ARRAY(p->tmp, const char *, n);
    FX_TRY(read_keys(t, name, context, n, keys));
    *out = fx_arg_dict(p->ctx, (int)n, keys, items);
    return FX_OK;
}

fx_status fx_pt2_tree(fx_pt2 *p, const char *what, const char *spec, int n, const fx_arg *const *leaf, const fx_arg **out)
{
    const fx_json_value *root;
    FX_TRY(fx_json_parse(&p->r, p->tmp, spec, strlen(spec), &root));
    if (!fx_json_is(root, FX_JSON_ARRAY) || fx_json_size(root) != 2 || !fx_json_is(fx_json_at(root, 0), FX_JSON_INT))
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "%s: expected a tree as [protocol, spec]", what);
    if (fx_json_at(root, 0)->i != 1)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "%s: expected protocol 1 of trees, got %lld", what,
                       (long long)fx_json_at(root, 0)->i);
    reader t = {.p = p, .what = what, .leaf = leaf, .n = n};
    FX_TRY(node(&t, fx_json_at(root, 1), 0, out));
    if (t.next != n)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "%s: expected a tree of %d leaves, got %d", what, n, t.next);
    return FX_OK;
}
