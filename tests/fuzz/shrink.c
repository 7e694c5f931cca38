/* tests/fuzz/shrink.c: makes a failing case small, and writes it down.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Edits are tried one after another on a copy of the case; one that still fails in the same way is kept. An edit numbers what it could
 * change: outputs, nodes, dims, arguments. */
#include <stdlib.h>

#include "fxcc/compile.h"
#include "fxcc/interpreter.h"
#include "ir/ops.h"
#include "passes/passes.h"
#include "tests/fuzz/fuzz.h"

typedef enum verdict { END, SKIP, EDITED } verdict;
typedef verdict edit(fz_case *c, int k);

static fx_node *nth(fx_graph *g, fx_opcode opcode, int k)
{
    FX_FOR_NODES(g, n)
        if (n->opcode == opcode && k-- == 0)
            return n;
    return NULL;
}

static bool is_tensor(const fx_node *n)
{
    return n->type && n->type->kind == FX_TYPE_TENSOR;
}

static void set_outputs(fx_graph *g, int n, fx_node *const *nodes)
{
    fx_node *out = fx_graph_output_node(g);
    const fx_arg *items[FZ_MAX_OUTPUTS];
    for (int i = 0; i < n; i++)
        items[i] = fx_arg_operand(g->ctx, i);
    const fx_arg *tuple = fx_arg_seq(g->ctx, FX_ARG_TUPLE, n, items);
    fx_node_assign(out, fx_arg_seq(g->ctx, FX_ARG_TUPLE, 1, &tuple), NULL, n, nodes);
}

/* Output k alone, then all but output k. */
static verdict drop_outputs(fz_case *c, int k)
{
    fx_node *out = fx_graph_output_node(c->g), *keep[FZ_MAX_OUTPUTS];
    int n = out->n_operands, kept = 0;
    if (n < 2 || k >= 2 * n)
        return END;
    for (int i = 0; i < n; i++)
        if (k < n ? i == k : i != k - n)
            keep[kept++] = out->operands[i].def;
    set_outputs(c->g, kept, keep);
    return EDITED;
}

/* An operand of the output in its place: one step less at the end. */
static verdict step_back(fz_case *c, int k)
{
    fx_node *out = fx_graph_output_node(c->g), *keep[FZ_MAX_OUTPUTS];
    for (int i = 0; i < out->n_operands; i++) {
        fx_node *n = out->operands[i].def;
        if (k >= n->n_operands) {
            k -= n->n_operands;
            continue;
        }
        if (!is_tensor(n->operands[k].def))
            return SKIP;
        for (int j = 0; j < out->n_operands; j++)
            keep[j] = out->operands[j].def;
        keep[i] = n->operands[k].def;
        set_outputs(c->g, out->n_operands, keep);
        return EDITED;
    }
    return END;
}

/* An input instead of call k, with the value the call had. */
static verdict cut(fz_case *c, int k)
{
    fx_node *n = nth(c->g, FX_CALL_FUNCTION, k);
    if (!n)
        return END;
    if (!is_tensor(n) || !n->n_uses || c->n_in == FZ_MAX_INPUTS)
        return SKIP;
    fx_interpreter *run = fx_interpreter_create(c->g, &(fx_interpreter_options){.keep_values = true});
    fx_result value;
    size_t n_out;
    const fx_tensor *out;
    if (!run || fx_interpreter_run(run, c->n_in, c->in, &n_out, &out) != FX_OK || !fx_interpreter_value(run, n, &value))
        return SKIP;
    fx_tensor t;
    if (fx_tensor_create(c->ctx, value.tensors[0].dtype, value.tensors[0].rank, value.tensors[0].sizes, &t) != FX_OK)
        return SKIP;
    fx_tensor_assign(&t, &value.tensors[0]);
    fx_interpreter_free(run);
    fx_node *first = c->g->first;
    while (first->opcode == FX_PLACEHOLDER)
        first = first->next;
    c->g->insert_before = first;
    fx_node *x = fx_node_new(c->g, FX_PLACEHOLDER, fx_intern_f(c->ctx, "v%d", k), NULL, NULL, 0, NULL, NULL);
    c->g->insert_before = NULL;
    x->type = fx_type_tensor_static(c->ctx, t.dtype, t.rank, t.sizes);
    c->in[c->n_in++] = t;
    fx_node_replace_uses(n, x);
    return EDITED;
}

/* Call k / 4 gone: an operand of the same type in its place. */
static verdict bypass(fz_case *c, int k)
{
    fx_node *n = nth(c->g, FX_CALL_FUNCTION, k / 4);
    if (!n)
        return END;
    if (k % 4 >= n->n_operands || !is_tensor(n) || !is_tensor(n->operands[k % 4].def) || !fx_type_same_tensor(n->operands[k % 4].def->type, n->type))
        return SKIP;
    fx_node_replace_uses(n, n->operands[k % 4].def);
    return EDITED;
}

/* A size wherever it stands, in types and in arguments, made smaller: number k / 3 of the sizes there are. */
static verdict shrink_dims(fz_case *c, int k)
{
    int64_t seen[64];
    int n = 0;
    for (size_t i = 0; i < c->n_in; i++)
        for (int d = 0; d < c->in[i].rank; d++) {
            int64_t v = c->in[i].sizes[d];
            int at = 0;
            while (at < n && seen[at] != v)
                at++;
            if (v > 1 && at == n && n < 64)
                seen[n++] = v;
        }
    if (k / 3 >= n)
        return END;
    int64_t from = seen[k / 3], to = k % 3 == 0 ? 1 : k % 3 == 1 ? from / 2 : from - 1;
    size_t input = 0;
    for (int i = 0; i < c->sizes.n; i++)
        if (from == c->sizes.v[i].from)
            return SKIP;
    for (size_t i = 0; i < c->g->n_attrs; i++) {
        fx_tensor t = fz_resized(c->ctx, &c->g->attrs[i]->tensor, from, to);
        fx_attr_set_tensor(c->g->attrs[i], &t);
    }
    fz_set_size(c->g, from, fx_dim_of(to));
    FX_FOR_NODES(c->g, x)
        if (x->opcode == FX_PLACEHOLDER) {
            c->in[input] = fz_resized(c->ctx, &c->in[input], from, to);
            input++;
        }
    return EDITED;
}

/* Argument k as the schema has it by default. */
static verdict default_argument(fz_case *c, int k)
{
    FX_FOR_NODES(c->g, n) {
        if (n->opcode != FX_CALL_FUNCTION || !n->op || n->op->id == FX_OP_getitem)
            continue;
        const fx_schema *s = fx_op_schema(c->ctx, n->op);
        if (k >= s->n) {
            k -= s->n;
            continue;
        }
        const fx_arg *items[32];
        const fx_param *p = &s->params[k];
        if (!p->def || p->kind == FX_PARAM_TENSOR || n->args->n != s->n || s->n > 32 || n->args->items[k] == p->def)
            return SKIP;
        fx_node *operands[256];
        for (int i = 0; i < n->n_operands; i++)
            operands[i] = n->operands[i].def;
        memcpy(items, n->args->items, (size_t)s->n * sizeof *items);
        items[k] = p->def;
        fx_node_assign(n, fx_arg_seq(c->ctx, FX_ARG_TUPLE, s->n, items), n->kwargs, n->n_operands, operands);
        for (fx_node *m = n; m; m = m->next)
            m->type = NULL;
        return EDITED;
    }
    return END;
}

/* Plain numbers in input k / 2: zeros, or else 1, 2, ... */
static verdict plain_values(fz_case *c, int k)
{
    if ((size_t)k / 2 >= c->n_in)
        return END;
    fx_tensor *t = &c->in[k / 2];
    bool zeros = true, counting = true;
    for (int64_t i = 0; i < fx_tensor_numel(t); i++) {
        zeros &= fx_tensor_get(t, i) == 0;
        counting &= fx_tensor_get(t, i) == (double)(t->dtype == FX_BOOL ? 1 : i % 7 + 1);
    }
    if (zeros || (k % 2 && counting)) /* never back to what is less plain */
        return SKIP;
    for (int64_t i = 0; i < fx_tensor_numel(t); i++)
        if (fx_dtype_is_float(t->dtype))
            fx_tensor_set(t, i, k % 2 ? (double)(i % 7 + 1) : 0);
        else
            fx_tensor_set_int(t, i, k % 2 ? i % 7 + 1 : 0);
    return EDITED;
}

static verdict plain_settings(fz_case *c, int k)
{
    fz_sizes *z = &c->sizes;
    if (k == 17 && z->n) {
        *z = (fz_sizes){0};
        return EDITED;
    }
    if (k == 18 && z->n > 1) { /* one expression less, and its symbol when it was alone */
        int symbol = z->v[--z->n].symbol;
        z->n_symbols = 0;
        z->plain[symbol] = false;
        for (int i = 0; i < z->n; i++) {
            const fz_size *s = &z->v[i];
            z->n_symbols = s->symbol >= z->n_symbols ? s->symbol + 1 : z->n_symbols;
            z->plain[s->symbol] |= s->times == 1 && s->plus == 0;
        }
        return EDITED;
    }
    if (k == 0 && c->settings.threads > 1) {
        c->settings.threads = 1;
        return EDITED;
    }
    if (k >= 1 && k <= 16) {
        if (!(c->settings.off >> (k - 1) & 1))
            return SKIP;
        c->settings.off &= ~(1u << (k - 1));
        return EDITED;
    }
    return k > 18 ? END : SKIP;
}

/* What an edit left unused goes; types follow. False: the edit made no graph. */
static fx_status settle(void *arg)
{
    fz_case *c = arg;
    fx_graph *g = c->g;
    size_t kept = 0, i = 0;
    fx_remove_dead(g);
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        fx_tensor t = c->in[i++];
        if (n->n_uses)
            c->in[kept++] = t;
        else
            FX_TRY(fx_node_erase(n));
    }
    c->n_in = kept;
    for (size_t a = g->n_attrs; a-- > 0;) {
        bool used = false;
        FX_FOR_NODES(g, n)
            used |= n->opcode == FX_GET_ATTR && !strcmp(n->target, g->attrs[a]->path);
        if (!used)
            fx_attr_remove(g->attrs[a]);
    }
    FX_FOR_NODES(g, n)
        if (n->opcode != FX_PLACEHOLDER && !n->type)
            FX_TRY(fx_node_infer(n));
    FX_TRY(fx_graph_verify(g, FX_STAGE_IMPORTED, "shrinking"));
    return FX_OK;
}

typedef struct edit_args {
    edit *e;
    fz_case *c;
    int k;
    verdict v;
} edit_args;

static fx_status apply(void *arg)
{
    edit_args *a = arg;
    a->v = a->e(a->c, a->k);
    return FX_OK;
}

int fz_shrink(fz_case *c, fz_fails_fn *fails, void *user, int most)
{
    static edit *const edits[] = {drop_outputs, step_back, cut, bypass, shrink_dims, default_argument, plain_values, plain_settings};
    int steps = 0;
    for (bool progress = true; progress && steps < most;) {
        progress = false;
        for (size_t e = 0; e < sizeof edits / sizeof edits[0]; e++)
            for (int k = 0; steps < most;) {
                fz_case next;
                if (!fz_case_copy(c, &next))
                    return steps;
                edit_args a = {edits[e], &next, k, SKIP};
                bool made = fx_protect(next.ctx, apply, &a) == FX_OK && a.v == EDITED && fx_protect(next.ctx, settle, &next) == FX_OK;
                fx_diag_truncate(next.ctx, 0);
                steps += made;
                if (made && fails(user, &next)) {
                    fz_case_free(c);
                    *c = next;
                    progress = true;
                    continue;
                }
                fz_case_free(&next);
                if (a.v == END)
                    break;
                k++;
            }
    }
    return steps;
}

/* ---- writing down -------------------------------------------------------------------------------------------------------------------- */

static bool prepend(const char *path, const char *head)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    static char text[1 << 20];
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    f = fopen(path, "wb");
    bool good = f && fputs(head, f) >= 0 && fwrite(text, 1, n, f) == n;
    return (f && fclose(f) == 0) && good;
}

bool fz_keep(fz_case *c, const char *folder, const char *name, const fz_failure *f, const fz_build *b)
{
    char path[600], head[2600], what[1000];
    fx_tensor all[FZ_MAX_INPUTS + FZ_MAX_RESULTS];
    const char *names[FZ_MAX_INPUTS + FZ_MAX_RESULTS];
    size_t n = 0;
    bool wrong = c->wrong && strstr(f->text, "a wrong number");
    const fz_case *shown = wrong ? c->wrong : c; /* then there are no outputs */
    for (size_t i = 0; i < c->n_in; i++, n++) {
        all[n] = shown->in[i];
        names[n] = fx_intern_f(c->ctx, "in%zu", i);
    }
    for (size_t i = 0; c->reference && !wrong && i < c->n_out + c->n_changed; i++, n++) {
        all[n] = c->out[i];
        names[n] = fx_intern_f(c->ctx, "out%zu", i);
    }
    snprintf(what, sizeof what, "%s", f->text);
    for (char *s = what; *s; s++)
        if (*s == '\n')
            *s = ' ';
    snprintf(head, sizeof head, "// fails: %s: %s\n// drawn of seed %llu; target %s, %d threads, off %#x; %s %s%s\n// fxcc check %s.fx --against %s.npz --target %s\n",
             fz_stage_name(f->stage), what, (unsigned long long)c->seed, c->settings.target, c->settings.threads, c->settings.off, b->compiler, b->level,
             b->link_runtime ? " --link-runtime" : "", name, name, c->settings.target);
    snprintf(path, sizeof path, "%s/%s.npz", folder, name);
    if (fx_npz_write(c->ctx, path, n, all, names) != FX_OK) /* NumPy has no bfloat16: the graph alone, then */
        remove(path);
    snprintf(path, sizeof path, "%s/%s.fx", folder, name);
    return fx_model_save(c->symbolic ? c->symbolic : c->g, path) == FX_OK && prepend(path, head);
}
