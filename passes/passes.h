/* passes/passes.h: passes over graphs that users run and lowering shares (fxcc/pass.h is their public face).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A pass is a row of passes/pass.def and a function fx_gpass_NAME. It changes run->graph, notes what it did, and leaves copying, checks, log and
 * time to the manager (manager.c). Passes take graphs of any stage up to core unless their comment says otherwise: arguments of a captured
 * graph are as the user wrote them (read them with fx_call_view), those of later stages by schema. */
#ifndef FXCC_PASSES_H
#define FXCC_PASSES_H

#include "fxcc/interpreter.h"
#include "fxcc/pass.h"
#include "fxcc/pattern.h"
#include "ir/ir.h"

typedef struct fx_pass_run {
    fx_context *ctx;
    fx_graph *graph;
    fx_arena *scratch;          /* freed after the pass */
    const char *name;
    size_t n_changes;
    struct fx_pass_log *log;    /* manager.c's */
} fx_pass_run;

/* Logs one change; n NULL: of the graph as a whole. */
void fx_pass_note(fx_pass_run *run, const fx_node *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The pass's options, as given or by default; the manager has checked that they are of their type. */
double fx_pass_float(const fx_pass_run *run, const char *name);
int64_t fx_pass_int(const fx_pass_run *run, const char *name);
bool fx_pass_bool(const fx_pass_run *run, const char *name);
const char *fx_pass_str(const fx_pass_run *run, const char *name);

#define GRAPH_PASS(name, ...) fx_status fx_gpass_##name(fx_pass_run *run);
#include "passes/pass.def"
#undef GRAPH_PASS

/* ---- dead.c ------------------------------------------------------------------------------------------------------------------ */

/* Erases nodes without users and effects (placeholders stay); how many went. They are noted where there is a run. */
size_t fx_remove_dead(fx_graph *g, fx_pass_run *run);
/* Whether nobody would notice if n were gone. */
bool fx_is_dead(const fx_node *n);

/* ---- legalize*.c: torch.fx's spellings become operators of op.def ------------------------------------------------------------- */

/* A captured graph becomes an imported one, in place: call_module of nn classes, call_method and call_function in any spelling become calls of
 * rows with normalised arguments, everything typed from the placeholders' types. All nodes it cannot take are named at once
 * (FX_ERR_UNSUPPORTED). Graphs past that stage are left alone. */
fx_status fx_legalize(fx_graph *g);

/* One node of a captured graph, whose operands are typed: the calls it stands for are created before it, its uses moved, it is erased. *out is
 * what stands for it (it itself when it needed no change). */
fx_status fx_legalize_node(fx_node *n, fx_node **out) __attribute__((weak));

#endif
