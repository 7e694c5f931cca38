/* ir/program_types.c: whether a target has the types that a program needs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/program.h"

typedef struct type_check {
    const fx_program *p;
    const fx_step *step;
    fx_map seen; /* expressions that several users share */
} type_check;

static bool lacks(const fx_program *p, fx_dtype d)
{
    return p->target.lacks >> d & 1;
}

static fx_status lacking(const fx_program *p, const fx_loc *loc, const char *what, const char *name, fx_dtype d)
{
    return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, loc, "%s '%s' is of %s, which target %s has not", what, name, fx_dtype_name(d), p->target.name);
}

static fx_status check_value(type_check *c, const fx_sexpr *e)
{
    if (!e || fx_map_get(&c->seen, e))
        return FX_OK;
    fx_map_put(c->p->arena, &c->seen, e, c);
    if (lacks(c->p, e->dtype) && e->op != FX_S_INDEX)
        return lacking(c->p, &c->step->loc, "a value of step", c->step->name, e->dtype);
    for (int i = 0; i < 3; i++)
        FX_TRY(check_value(c, e->arg[i]));
    return FX_OK;
}

static fx_status check_list(type_check *c, const fx_stmt *s)
{
    for (; s; s = s->next) {
        FX_TRY(check_value(c, s->value));
        FX_TRY(check_list(c, s->body));
    }
    return FX_OK;
}

fx_status fx_program_check_types(const fx_program *p)
{
    if (!p->target.lacks)
        return FX_OK;
    for (size_t i = 0; i < p->n_bufs; i++)
        if (lacks(p, p->bufs[i].dtype))
            return lacking(p, &p->bufs[i].loc, "tensor", p->bufs[i].name, p->bufs[i].dtype);
    for (size_t i = 0; i < p->n_steps; i++) {
        type_check c = {.p = p, .step = &p->steps[i]};
        FX_TRY(check_list(&c, p->steps[i].body));
    }
    return FX_OK;
}
