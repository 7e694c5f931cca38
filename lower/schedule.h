/* lower/schedule.h: what the files of the schedule pass (lower/schedule*.c) share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_SCHEDULE_H
#define FXCC_LOWER_SCHEDULE_H

#include "lower/isl.h"
#include "lower/lower.h"
#include "lower/nest_key.h"

/* Distinct questions to isl in one compile: isl stays a small part of it whatever the model. Statements of equal structure ask once. */
enum { FX_SCHEDULE_QUESTIONS = 16 };

typedef struct fx_scheduler {
    fx_lower *l;
    fx_program *p;
    fx_isl *isl;
    fx_nest_keys *keys, *pairs;
    int tilings, fusions;         /* questions asked */
} fx_scheduler;

/* ---- schedule_fuse.c: steps that follow one another become one, and what passes between them a local scalar ---- */
void fx_schedule_fuse(fx_scheduler *s);

#endif
