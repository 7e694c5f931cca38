/* lower/refuse.c: says at once everything in a model that cannot be compiled, one message a kind of trouble.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <string.h>

/* One kind of trouble: its message, where it was seen first and how often. Equal texts are one kind. */
typedef struct finding {
    const char *text;
    const fx_node *first;
    size_t count;
} finding;

typedef struct findings {
    fx_context *ctx;
    fx_arena *scratch;
    finding *v;
    size_t n, cap;
} findings;

static void find(findings *f, const fx_node *at, const char *text)
{
    text = fx_intern(f->ctx, text);
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].text == text) {
            f->v[i].count++;
            return;
        }
    FX_PUSH(f->scratch, f->v, f->n, f->cap) = (finding){ text, at, 1 };
}

static fx_status report(const findings *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const finding *one = &f->v[i];
        if (one->count == 1)
            fx_fail(f->ctx, FX_ERR_UNSUPPORTED, &one->first->loc, "%s", one->text);
        else
            fx_fail(f->ctx, FX_ERR_UNSUPPORTED, &one->first->loc, "%s (%zu nodes, this is the first)", one->text, one->count);
    }
    return f->n ? FX_ERR_UNSUPPORTED : FX_OK;
}

/* Ops that exist in training only, or random ones that are not compiled: better named as such than as unknown. */
static const char *known_trouble(const char *target)
{
    static const struct { const char *part, *why; } list[] = {
        { "aten.multinomial", "this random operator cannot be compiled" },
        { "aten.randperm", "this random operator cannot be compiled" },
    };
    if (!strncmp(target, "torch.ops.", 10))
        target += 10;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strncmp(target, list[i].part, strlen(list[i].part)))
            return list[i].why;
    return NULL;
}

static void look_at_call(findings *f, const fx_node *n)
{
    const char *trouble = known_trouble(n->target);
    if (trouble) {
        find(f, n, fx_arena_printf(f->scratch, "%s: %s", n->target, trouble));
        return;
    }
    if (!n->op) {
        find(f, n, fx_arena_printf(f->scratch, "op %s is not supported", n->target));
        return;
    }
    if (n->op->flags & FX_OP_RANDOM && !fx_is_random(n))
        find(f, n, fx_arena_printf(f->scratch, "%s: this random operator cannot be compiled", n->target));
    switch (n->op->id) {
    case FX_OP_batch_norm:
        if (!fx_node_bool(n, 5) && (fx_node_is_none(n, 3) || fx_node_is_none(n, 4)))
            find(f, n, fx_arena_printf(f->scratch, "%s: in evaluation without running statistics cannot be compiled", n->target));
        break;
    case FX_OP_conv3d:
        find(f, n, fx_arena_printf(f->scratch, "%s: convolutions over 1 or 2 dims can be compiled, this is over 3", n->target));
        break;
    default:
        break;
    }
}

/* Symbols that sizes of inputs name: a run knows their values. */
static void collect_symbols(findings *f, fx_map *known, const fx_sym *s)
{
    if (s->kind == FX_SYM_SYMBOL)
        fx_map_put(f->scratch, known, s, f);
    for (int i = 0; i < s->n; i++)
        collect_symbols(f, known, s->args[i]);
}

static bool is_known(const fx_map *known, const fx_sym *s)
{
    if (s->kind == FX_SYM_OPAQUE || (s->kind == FX_SYM_SYMBOL && !fx_map_get(known, s)))
        return false;
    for (int i = 0; i < s->n; i++)
        if (!is_known(known, s->args[i]))
            return false;
    return true;
}

/* Whether some size follows neither from the model nor from the inputs' sizes. */
static bool depends_on_data(const fx_map *known, const fx_type *t)
{
    if (t && t->kind == FX_TYPE_TENSOR)
        for (int i = 0; i < t->rank; i++)
            if (t->dims[i].sym && !is_known(known, t->dims[i].sym))
                return true;
    return false;
}

/* torch.export notes with `.to()` what a tensor's dtype and device were; types say it already. */
static fx_status drop_metadata_checks(fx_graph *g)
{
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        const char *t = n->target;
        if (n->opcode != FX_CALL_FUNCTION || n->n_uses)
            continue;
        if (!strncmp(t, "torch.ops.", 10))
            t += 10;
        if (!strcmp(t, "aten._assert_tensor_metadata.default"))
            FX_TRY(fx_node_erase(n));
    }
    return FX_OK;
}

fx_status fx_pass_refuse(fx_lower *l)
{
    FX_TRY(drop_metadata_checks(l->graph));
    findings f = { .ctx = l->ctx, .scratch = l->scratch };
    fx_map known = {0};
    FX_FOR_NODES(l->graph, n) {
        switch (n->opcode) {
        case FX_PLACEHOLDER:
            for (int i = 0; n->type && n->type->kind == FX_TYPE_TENSOR && i < n->type->rank; i++)
                if (n->type->dims[i].sym)
                    collect_symbols(&f, &known, n->type->dims[i].sym);
            break;
        case FX_CALL_FUNCTION:
            look_at_call(&f, n);
            break;
        case FX_CALL_MODULE:
        case FX_CALL_METHOD:
            find(&f, n, fx_arena_printf(l->scratch, "%s '%s' is not supported: expected a graph of aten ops, as torch.export makes",
                                        fx_opcode_name((fx_opcode)n->opcode), n->target));
            break;
        default:
            break;
        }
        if (n->type && n->type->kind == FX_TYPE_TENSOR && n->type->rank > FX_MAX_RANK)
            find(&f, n, fx_arena_printf(l->scratch, "tensors of rank %d are not supported, %d is the most", n->type->rank,
                                        FX_MAX_RANK));
    }
    FX_TRY(report(&f));
    FX_TRY(fx_infer_missing(l->graph));
    FX_FOR_NODES(l->graph, n)
        if (depends_on_data(&known, n->type))
            find(&f, n, fx_arena_printf(l->scratch, "%s: the size of its result depends on data: compiled models have sizes that follow from those "
                                        "of the inputs", n->target));
    return report(&f);
}
