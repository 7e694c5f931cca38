/* tests/unit/test_lower_cases.c: the text cases in tests/lower/: passes of lowering by name, space separated. "all" is all of them. From build on
 * there is a loop program, for the target "generic" and one thread, which is verified and run. Lines of a case's head, all optional:
 *     show: remarks              what was remarked, behind the graph or program
 *     show: proofs               in its place the lines of `fxcc prove`, without times
 *     isl: 100                   operations that a query of isl may take
 *     unproved: warn             what is not proved is no error
 *     target: cuda               for another target
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include "fxcc/prove.h"
#include "lower/isl.h"
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
    char *line = head_line(j, "off:"), *save = NULL;
    unsigned off = 0;
    if (!line)
        return 0;
    for (char *name = strtok_r(line, " \n", &save); name; name = strtok_r(NULL, " \n", &save)) {
        int i = 0;
        while (i < FX_PART_COUNT && strcmp(names[i], name))
            i++;
        ck_assert_msg(i < FX_PART_COUNT, "%s: off: no part '%s'", j->what, name);
        off |= 1u << i;
    }
    free(line);
    return off;
}

/* A proof as `fxcc prove` prints it, without the time. */
static void keep_proof(void *user, const fx_proof *p)
{
    if (p->proved)
        fx_printf(user, "proved    %s: %s: %s; by %s\n", p->step, p->loop, p->what, p->by);
    else
        fx_printf(user, "UNPROVED  %s: %s: %s: %s\n", p->step, p->loop, p->what, p->missing);
}

static const char *remarks(fx_context *ctx)
{
    static const char *const names[] = {[FX_REMARK] = "remark", [FX_WARNING] = "warning", [FX_ERROR] = "error"};
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "");
    for (size_t i = 0; i < fx_diag_count(ctx); i++)
        fx_printf(&t, "%s: %s\n", names[fx_diag_get(ctx, i)->severity], fx_diag_get(ctx, i)->message);
    return t.data;
}

static fx_status run_pass(job *j, fx_lower *l, size_t i)
{
    FX_TRY(passes[i].run(l));
    j->program = l->program;
    j->planned |= passes[i].run == fx_pass_memory;
    if (strcmp(passes[i].over, "PROGRAM"))
        return fx_graph_verify(l->graph, l->graph->stage = passes[i].provides, passes[i].name);
    return passes[i].run == fx_pass_prove ? FX_OK : fx_program_verify(l->program, j->planned, passes[i].name);
}

static fx_status apply_passes(job *j, char *list, fx_graph **g, values *before)
{
    char *save = NULL, every[1000] = "", *show = head_line(j, "show:"), *isl = head_line(j, "isl:"), *unproved = head_line(j, "unproved:"), *target = head_line(j, "target:");
    fx_text proofs;
    fx_text_init(&proofs, fx_context_arena(j->ctx));
    fx_lower_options opt = { .threads = 1, .off = parts_off(j), .unproved_warn = unproved && strstr(unproved, "warn"), .proof = keep_proof, .proof_user = &proofs };
    bool show_proofs = show && strstr(show, "proofs"), show_remarks = show && strstr(show, "remarks");
    unsigned long operations = isl ? strtoul(isl, NULL, 10) : 0;
    free(show);
    free(isl);
    free(unproved);
    FX_TRY(fx_target_get(j->ctx, target ? strtok_r(target, " \n", &save) : "generic", &opt.target));
    free(target);
    if (!strcmp(list + strspn(list, " "), "all")) {
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
            strcat(strcat(every, " "), passes[i].name);
        list = every;
    }
    fx_lower l = { .ctx = j->ctx, .graph = *g, .program = j->program, .opt = &opt };
    if (operations)
        fx_isl_budget(fx_lower_isl(&l), operations);
    for (char *name = strtok_r(list, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        size_t i = 0, count = sizeof passes / sizeof *passes;
        while (i < count && strcmp(passes[i].name, name))
            i++;
        ck_assert_msg(i < count, "%s: no pass '%s'", j->what, name);
        ck_assert_msg(*g || !strcmp(passes[i].over, "PROGRAM"), "%s: the pass '%s' takes a graph", j->what, name);
        if (!j->c->error && !before->v && strcmp(name, "refuse") && strcmp(name, "legalize") && !strstr(j->c->head, "(not run)"))
            FX_TRY(run_graph(j, *g, before));
        l.scratch = fx_arena_create(j->ctx);
        l.piece = fx_arena_create(j->ctx);
        fx_status status = run_pass(j, &l, i);
        fx_arena_free(l.piece);
        fx_arena_free(l.scratch);
        FX_TRY(status);
    }
    j->only_more = show_proofs;
    j->more = fx_arena_printf(fx_context_arena(j->ctx), "%s%s", show_proofs && proofs.size ? proofs.data : "", show_remarks ? remarks(j->ctx) : "");
    return FX_OK;
}

/* A pass has a file of its name, with a case that runs it. */
START_TEST(every_pass_has_texts)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        static test_case cases[MAX_CASES];
        char name[100], *preamble, word[100];
        int k = 0, runs = 0;
        snprintf(name, sizeof name, "%s.test", passes[i].name);
        snprintf(word, sizeof word, " %s ", passes[i].name);
        while (k < n_files && strcmp(files[k], name))
            k++;
        ck_assert_msg(k < n_files, "the pass '%s' has no tests/lower/%s", passes[i].name, name);
        char *text = read_file(path_of(name));
        size_t n = split_cases(text, &preamble, cases);
        for (size_t c = 0; c < n; c++) {
            char list[1000] = " ";
            sscanf(strstr(cases[c].head, "passes:") + 7, "%990[^\n]", list + 1);
            runs += strstr(strcat(list, " "), word) != NULL;
            free(cases[c].head);
            free(cases[c].in);
            free(cases[c].eager);
            free(cases[c].want);
        }
        free(preamble);
        free(text);
        ck_assert_msg(runs > 0, "no case of tests/lower/%s runs the pass '%s'", name, passes[i].name);
    }
}
END_TEST

static void add(TCase *t)
{
    add_cases(t);
    tcase_add_test(t, every_pass_has_texts);
}

int main(void)
{
    return cases_main("lower_cases", "tests/lower", add);
}
