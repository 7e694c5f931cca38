/* tests/fuzz/survey.c: which rows of op.def can be drawn and compiled, and what drawn graphs are made of.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/fuzz/fuzz.h"

void fz_probe(const fz_menu *menu, fz_rows *rows)
{
    enum { TRIES = 40 };
    memset(rows, 0, sizeof *rows);
    for (int id = 1; id < FX_OP_COUNT; id++) {
        char *text = rows->why[id];
        const char *why = fz_row_excluded((fx_opid)id);
        snprintf(text, sizeof rows->why[id], "%s", why ? why : "no draw of its arguments fits");
        fz_menu one = *menu;
        one.only = (fx_opid)id;
        for (int t = 0; t < TRIES && !why && !rows->able[id]; t++) {
            fz_case c;
            fz_failure f;
            bool there = false;
            if (fz_case_make(&c, fz_case_seed(77, id * 1000 + t), &one, &f))
                FX_FOR_NODES(c.g, n)
                    there |= n->op && n->op->id == (fx_opid)id;
            if (there && fz_case_lower(&c, &f))
                rows->able[id] = true;
            else if (there)
                snprintf(text, sizeof rows->why[id], "%s", f.kind);
            fz_case_free(&c);
        }
    }
}

/* ---- what a graph has -------------------------------------------------------------------------------------------------- */

static bool is_prime(int64_t n)
{
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return n > 1;
}

static void look_at_type(const fx_type *t, bool *has)
{
    if (t->kind == FX_TYPE_TUPLE) {
        for (int i = 0; i < t->n; i++)
            look_at_type(t->items[i], has);
        return;
    }
    if (t->kind != FX_TYPE_TENSOR)
        return; /* None, where a gradient is not asked for */
    has[FZ_HAS_DTYPE + t->dtype] = true;
    has[FZ_HAS_SCALAR] |= t->rank == 0;
    has[FZ_HAS_MANY_DIMS] |= t->rank >= 5;
    for (int i = 0; i < t->rank; i++) {
        int64_t n = t->dims[i].value;
        has[FZ_HAS_SIZE_0] |= n == 0;
        has[FZ_HAS_SIZE_1] |= n == 1;
        has[FZ_HAS_PRIME] |= n > 3 && is_prime(n);
    }
}

static const fx_node *viewed(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && n->op->cls == FX_CLASS_VIEW && n->n_operands ? n->operands[0].def : NULL;
}

static void look_at(const fx_node *n, bool *has)
{
    if (n->opcode == FX_OUTPUT) {
        has[FZ_HAS_OUTPUTS] |= n->n_operands > 1;
        for (int i = 0; i < n->n_operands; i++)
            has[FZ_HAS_INPUT_OUT] |= n->operands[i].def->opcode != FX_CALL_FUNCTION;
        return;
    }
    const fx_node *x = viewed(n);
    bool inplace = false;
    has[FZ_HAS_VIEW] |= x != NULL;
    has[FZ_HAS_VIEW_OF_VIEW] |= x && viewed(x);
    has[FZ_HAS_SHARED] |= n->opcode == FX_CALL_FUNCTION && n->n_uses > 1 && n->type->kind == FX_TYPE_TENSOR;
    if (n->opcode == FX_CALL_FUNCTION)
        fx_op_find(n->target, &inplace);
    has[FZ_HAS_WRITE] |= inplace;
    has[FZ_HAS_RAISING] |= fz_raises(n);
    look_at_type(n->type, has);
}

const char *fz_has_name(int what)
{
    static const char *const names[FZ_HAS_DTYPE] = {"a size of 0", "a size of 1", "a prime size above 3", "rank 0", "rank 5 or more", "views", "views of views", "shared results",
                                                    "several outputs", "an input or constant as output", "writes in place", "ops that may raise"};
    return what < FZ_HAS_DTYPE ? names[what] : fx_dtype_name((fx_dtype)(what - FZ_HAS_DTYPE));
}

void fz_survey(fz_counts *counts, const fx_graph *g)
{
    bool has[FZ_HAS_COUNT] = {false}, row[FX_OP_COUNT] = {false};
    FX_FOR_NODES(g, n) {
        look_at(n, has);
        if (n->op)
            row[n->op->id] = true;
    }
    counts->graphs++;
    for (int i = 0; i < FZ_HAS_COUNT; i++)
        counts->has[i] += has[i];
    for (int i = 0; i < FX_OP_COUNT; i++)
        counts->row[i] += row[i];
}
