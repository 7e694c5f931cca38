/* tests/unit/test_lower_cases.c: the text cases in tests/lower/: passes of lowering by name, space separated.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include "lower/lower.h"
#include "text_cases.h"

static const struct { const char *name; fx_stage requires, provides; fx_status (*run)(fx_lower *l); } passes[] = {
#define PASS(name, over, requires, provides, doc) { #name, requires, provides, fx_pass_##name },
#include "lower/pass.def"
#undef PASS
};

static fx_status apply_passes(job *j, char *list, fx_graph **g, values *before)
{
    char *save = NULL;
    fx_lower_options opt = { 0 };
    fx_lower l = { .ctx = j->ctx, .graph = *g, .opt = &opt };
    for (char *name = strtok_r(list, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        size_t i = 0, count = sizeof passes / sizeof *passes;
        while (i < count && strcmp(passes[i].name, name))
            i++;
        ck_assert_msg(i < count, "%s: no pass '%s'", j->what, name);
        if (!j->c->error && !before->v && strcmp(name, "refuse"))
            FX_TRY(run_graph(j, *g, before));
        l.scratch = fx_arena_create(j->ctx);
        fx_status status = passes[i].run(&l);
        fx_arena_free(l.scratch);
        FX_TRY(status);
        FX_TRY(fx_graph_verify(*g, (*g)->stage = passes[i].provides, name));
    }
    return FX_OK;
}

int main(void)
{
    return cases_main("lower_cases", "tests/lower");
}
