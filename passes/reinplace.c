/* passes/reinplace.c: calls that could write their result where their first operand is, because nobody reads that any more, do.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The operand must be memory of its own: made by a call that shares none with anything (no view, no input, no parameter), its other uses all
 * before, none of them keeping it. Then no other value is in that memory. */
#include <string.h>

#include "passes/passes.h"

/* Rows of which torch has a variant in place. */
static bool has_inplace(const fx_op *op)
{
    switch (op->id) {
#define ROW(id) case FX_OP_##id:
    ROW(relu) ROW(sigmoid) ROW(tanh) ROW(exp) ROW(expm1) ROW(log) ROW(log1p) ROW(sqrt) ROW(rsqrt) ROW(reciprocal) ROW(neg) ROW(abs)
    ROW(sign) ROW(erf) ROW(sin) ROW(cos) ROW(floor) ROW(ceil) ROW(round) ROW(trunc) ROW(silu) ROW(hardswish) ROW(hardsigmoid) ROW(mish)
    ROW(logical_not) ROW(bitwise_not) ROW(hardtanh) ROW(leaky_relu) ROW(elu) ROW(clamp) ROW(relu6) ROW(square) ROW(clamp_min) ROW(clamp_max)
    ROW(add_Tensor) ROW(sub_Tensor) ROW(mul_Tensor) ROW(div_Tensor) ROW(add_Scalar) ROW(sub_Scalar) ROW(mul_Scalar) ROW(div_Scalar)
    ROW(fmod_Tensor) ROW(remainder_Tensor) ROW(fmod_Scalar) ROW(remainder_Scalar) ROW(masked_fill_Scalar)
#undef ROW
        return true;
    default: return false;
    }
}

/* Whether x made its memory. */
static bool is_fresh(const fx_node *x)
{
    if ((x->opcode != FX_CALL_FUNCTION && x->opcode != FX_CALL_METHOD && x->opcode != FX_CALL_MODULE) || fx_node_effects(x))
        return false;
    for (int i = 0; i < x->n_operands; i++)
        if (fx_node_may_return(x, i))
            return false;
    return true;
}

/* Whether x's memory is its own and after n nobody reads it; `at`: places in the list, by id; `ours`: by id, what was made in place here, so that
 * nothing but it is left in its memory. */
static bool is_free_after(const fx_node *x, const fx_node *n, const uint32_t *at, const bool *ours)
{
    if (!ours[x->id] && !is_fresh(x))
        return false;
    for (const fx_use *u = x->first_use; u; u = u->next) {
        int operand = (int)(u - u->user->operands);
        if (u->user == n ? operand != 0 : at[u->user->id] > at[n->id] || u->user->opcode == FX_OUTPUT || fx_node_may_return(u->user, operand))
            return false;
    }
    return true;
}

fx_status fx_gpass_reinplace(fx_pass_run *run)
{
    fx_graph *g = run->graph;
    uint32_t *at = FX_NEW_ARRAY(run->scratch, uint32_t, g->n_ids + 1), place = 0;
    bool *ours = FX_NEW_ARRAY(run->scratch, bool, g->n_ids + 1);
    FX_FOR_NODES(g, n)
        at[n->id] = place++;
    FX_FOR_NODES(g, n) {
        fx_call_args c;
        if ((n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD) || !fx_call_view(n, &c) || c.inplace || !has_inplace(c.op) ||
            c.args[0]->kind != FX_ARG_NODE || c.args[0]->i != 0)
            continue;
        fx_node *x = n->operands[0].def;
        const char *name = fx_op_inplace_name(run->ctx, c.op);
        bool inplace = false;
        if (!name || fx_op_lookup(run->ctx, name, &inplace) != c.op || !inplace || !fx_type_same_tensor(x->type, n->type) ||
            !is_free_after(x, n, at, ours))
            continue;
        c.inplace = true;
        fx_node_become_call(n, &c);
        ours[n->id] = true;
        if (g->stage > FX_STAGE_IMPORTED)
            g->stage = FX_STAGE_IMPORTED;
        fx_pass_note(run, n, "written in place of '%s'", x->name);
    }
    return FX_OK;
}
