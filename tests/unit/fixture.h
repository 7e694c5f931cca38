/* tests/unit/fixture.h: a context for each test of a file.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_FIXTURE_H
#define FXCC_UNIT_FIXTURE_H

#include "tests/unit/unit.h"

static fx_context *ctx;

static void set_up(void)
{
    ctx = fx_context_create();
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

#endif
