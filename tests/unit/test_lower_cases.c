/* tests/unit/test_lower_cases.c: the text cases in tests/lower/: passes of lowering by name, space separated. "all" is all of them. build and
 * memory make a loop program, for the target "generic" and one thread, which is verified and run.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include "lower/lower.h"
#include "text_cases.h"

static const struct { const char *name, *over; fx_stage requires, provides; fx_status (*run)(fx_lower *l); } passes[] = {
#define PASS(name, over, requires, provides, doc) { #name, #over, requires, provides, fx_pass_##name },
#include "lower/pass.def"
#undef PASS
};

/* What the case's "off:" line names. */
static unsigned parts_off(const job *j)
{
    static const char *const names[] = {
#define FX_X(id, name, doc) name,
        FX_LOWER_PARTS(FX_X)
#undef FX_X
    };
    const char *end = j->c->head + strlen(j->c->head), *line = find_line(j->c->head, end, "off:");
    unsigned off = 0;
    if (line == end)
        return 0;
    char *copy = piece(line + 4, line_after(line)), *save = NULL;
    for (char *name = strtok_r(copy, " \n", &save); name; name = strtok_r(NULL, " \n", &save)) {
        int i = 0;
        while (i < FX_PART_COUNT && strcmp(names[i], name))
            i++;
        ck_assert_msg(i < FX_PART_COUNT, "%s: off: no part '%s'", j->what, name);
        off |= 1u << i;
    }
    free(copy);
    return off;
}

static fx_status apply_passes(job *j, char *list, fx_graph **g, values *before)
{
    char *save = NULL, every[1000] = "";
    fx_lower_options opt = { .threads = 1, .off = parts_off(j) };
    FX_TRY(fx_target_get(j->ctx, "generic", &opt.target));
    if (!strcmp(list + strspn(list, " "), "all")) {
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
            strcat(strcat(every, " "), passes[i].name);
        list = every;
    }
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
        j->program = l.program;
        j->planned = !strcmp(name, "memory");
        if (!strcmp(passes[i].over, "PROGRAM"))
            FX_TRY(fx_program_verify(l.program, j->planned, name));
        else
            FX_TRY(fx_graph_verify(*g, (*g)->stage = passes[i].provides, name));
    }
    return FX_OK;
}

int main(void)
{
    return cases_main("lower_cases", "tests/lower");
}
