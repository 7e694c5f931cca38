/* codegen/walk.h: the one walk over a loop program, and the hooks a printer implements.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * C today; CUDA and LLVM implement the same hooks. The walk skips what does nothing (loops without iterations) and tells
 * apart what has a body; hooks decide nothing but spelling. */
#ifndef FXCC_CODEGEN_WALK_H
#define FXCC_CODEGEN_WALK_H

#include "ir/program.h"

/* Hooks that are NULL are not called. A status other than FX_OK ends the walk. */
typedef struct fx_hooks {
    fx_status (*step_begin)(void *user, const fx_step *step);
    fx_status (*step_end)(void *user, const fx_step *step);
    fx_status (*loop_begin)(void *user, const fx_stmt *loop);
    fx_status (*loop_end)(void *user, const fx_stmt *loop);
    fx_status (*if_begin)(void *user, const fx_stmt *guard);
    fx_status (*if_end)(void *user, const fx_stmt *guard);
    fx_status (*store)(void *user, const fx_stmt *store);
    fx_status (*local)(void *user, const fx_stmt *local);
    fx_status (*set)(void *user, const fx_stmt *set);
    fx_status (*call)(void *user, const fx_stmt *call);
    fx_status (*comment)(void *user, const fx_stmt *comment);
    fx_status (*array)(void *user, const fx_stmt *array);
    fx_status (*check_begin)(void *user, const fx_stmt *check);
    fx_status (*check_end)(void *user, const fx_stmt *check);
    fx_status (*barrier)(void *user, const fx_stmt *barrier);
    fx_status (*reduce)(void *user, const fx_stmt *reduce);
} fx_hooks;

fx_status fx_walk_step(const fx_step *step, const fx_hooks *hooks, void *user);
fx_status fx_walk(const fx_program *p, const fx_hooks *hooks, void *user); /* all steps in order */

#endif
