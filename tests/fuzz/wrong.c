/* tests/fuzz/wrong.c: inputs that eager raises for: indices out of range, integer divisors of 0. A case has, beside its own inputs, some with
 * one such number; all stages must refuse them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "tests/fuzz/fuzz.h"

enum { TRIES = 12 };

/* The operands that are indices or divisors: from `first` on. False: the op raises for no values. */
static bool raises(const fx_node *n, int *first)
{
    static const char *const words[] = {"aten.embedding", "aten.index", "aten._unsafe_index", "aten.gather", "aten.scatter", "aten.take_along_dim", "aten.one_hot"};
    static const char *const quotients[] = {"aten.floor_divide", "aten.fmod", "aten.remainder", "aten.div"};
    if (n->opcode != FX_CALL_FUNCTION || !n->type || n->type->kind != FX_TYPE_TENSOR || fx_type_numel(n->type) == 0)
        return false;
    *first = n->op->id == FX_OP_one_hot ? 0 : 1;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strncmp(n->op->name, words[i], strlen(words[i])))
            return true;
    for (size_t i = 0; i < sizeof quotients / sizeof quotients[0]; i++)
        if (!strncmp(n->op->name, quotients[i], strlen(quotients[i])))
            return n->n_operands == 2 && !fx_dtype_is_float(n->type->dtype);
    return false;
}

bool fz_raises(const fx_node *n)
{
    int first;
    return raises(n, &first);
}

/* A number that is wrong for many: just outside some size, far outside, or 0. */
static int64_t wrong_number(fz_rng *r, const fx_node *n)
{
    const fx_type *t = n->operands[0].def->type;
    int64_t size = t->rank ? t->dims[fz_below(r, t->rank)].value : 1, classes = n->op->id == FX_OP_one_hot ? fx_node_int(n, 1) : size;
    const int64_t numbers[] = {classes, -1, -size - 1, 0, size + 1, 127, -128, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    return numbers[fz_below(r, 12)];
}

typedef struct wrong_args {
    fz_case *c, *w;
} wrong_args;

static fx_status interpret(void *arg)
{
    wrong_args *a = arg;
    fx_tensor *out, own[FZ_MAX_INPUTS];
    size_t n_out;
    return fz_interpret(a->w, own, &n_out, &out);
}

/* Whether the interpreter refuses w, and that because of n. */
static bool refused(fz_case *c, fz_case *w, const fx_node *n)
{
    size_t said = fx_diag_count(c->ctx);
    fx_status status = fx_protect(c->ctx, interpret, &(wrong_args){c, w});
    const fx_diag *d = status == FX_ERR_ARGUMENT ? fx_diag_get(c->ctx, fx_diag_count(c->ctx) - 1) : NULL;
    bool good = d && d->node && !strcmp(d->node, n->name);
    fx_diag_truncate(c->ctx, said);
    return good;
}

/* The input that a node is; -1: none. */
static int input_of(const fx_graph *g, const fx_node *n)
{
    int i = 0;
    for (const fx_node *x = g->first; x; x = x->next) {
        if (x == n)
            return x->opcode == FX_PLACEHOLDER ? i : -1;
        i += x->opcode == FX_PLACEHOLDER;
    }
    return -1;
}

static bool only_output(const fx_node *n, const fx_node *end)
{
    for (const fx_use *u = n->first_use; u; u = u->next)
        if (u->user != end)
            return false;
    return true;
}

/* What nothing reads is not computed, and raises nothing: only ops that are outputs are looked at, and nothing else, which could be written over. */
void fz_make_wrong(fz_case *c)
{
    fz_rng r = {c->seed ^ 0xd1342543de82ef95u};
    const fx_node *end = fx_graph_output_node(c->g);
    c->wrong = NULL;
    for (int t = 0; t < TRIES; t++) {
        const fx_node *n = end->operands[fz_below(&r, end->n_operands)].def;
        int first;
        if (!raises(n, &first) || first >= n->n_operands || !only_output(n, end))
            continue;
        const fx_node *index = n->operands[fz_in(&r, first, n->n_operands - 1)].def;
        int i = input_of(c->g, index);
        if (i < 0 || fx_dtype_is_float(c->in[i].dtype) || c->in[i].dtype == FX_BOOL || !fx_tensor_numel(&c->in[i]))
            continue;
        fz_case *w = FX_NEW(fx_context_arena(c->ctx), fz_case);
        *w = (fz_case){.seed = c->seed, .ctx = c->ctx, .g = c->g, .n_in = c->n_in, .settings = c->settings, .sizes = c->sizes, .refuses = n->op->name, .n_out = c->n_out};
        memcpy(w->in, c->in, sizeof w->in);
        memcpy(w->out, c->out, sizeof w->out); /* for their sizes */
        memcpy(w->changed, c->changed, sizeof w->changed);
        w->n_changed = c->n_changed;
        if (fx_tensor_create(c->ctx, c->in[i].dtype, c->in[i].rank, c->in[i].sizes, &w->in[i]) != FX_OK)
            fx_out_of_memory(c->ctx);
        fx_tensor_assign(&w->in[i], &c->in[i]);
        fx_tensor_set_int(&w->in[i], fz_below(&r, fx_tensor_numel(&w->in[i])), wrong_number(&r, n));
        if (refused(c, w, n)) {
            c->wrong = w;
            return;
        }
    }
}
