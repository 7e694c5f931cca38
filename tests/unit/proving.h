/* tests/unit/proving.h: what the prover says of a loop program's text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_PROVING_H
#define FXCC_UNIT_PROVING_H

#include "fxcc/prove.h"
#include "lower/lower.h"
#include "tests/unit/fixture.h"

typedef struct proof_lines {
    int n, unproved;
    const char *by;               /* of the first line */
    const char *missing;          /* of the first that is not proved */
} proof_lines;

static void proof_keep(void *user, const fx_proof *p)
{
    proof_lines *l = user;
    if (l->n++ == 0)
        l->by = p->by;
    if (!p->proved && l->unproved++ == 0)
        l->missing = p->missing;
}

typedef struct proof_job {
    fx_program *p;
    proof_lines *out;
} proof_job;

/* For fx_protect. */
static fx_status proof_run(void *arg)
{
    proof_job *j = arg;
    fx_lower_options o = {.unproved_warn = true, .proof = proof_keep, .proof_user = j->out};
    fx_lower l = {.ctx = ctx, .program = j->p, .opt = &o, .scratch = fx_arena_create(ctx), .piece = fx_arena_create(ctx)};
    return fx_pass_prove(&l);
}

/* Whether all is proved. */
static bool proved(const char *text, proof_lines *l)
{
    fx_program *p;
    *l = (proof_lines){0};
    ck_assert_msg(fx_program_parse(ctx, "t", text, strlen(text), &p) == FX_OK, "%s\n%s", unit_message(ctx), text);
    ck_assert_int_eq(fx_protect(ctx, proof_run, &(proof_job){p, l}), FX_OK);
    return l->unproved == 0;
}

#endif
