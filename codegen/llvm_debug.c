/* codegen/llvm_debug.c: what debuggers are told of compiled code: functions by the model's names of layers, lines of the program's text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The source of compiled code is the loop program as ir/program_print.c prints it, one statement a line. */
#include <string.h>

#include "codegen/llvm_emit.h"

struct fx_ll_debug {
    LLVMDIBuilderRef builder;
    LLVMMetadataRef file, type;  /* type: of every function, none that debuggers could show */
    fx_map lines;                /* from a step or statement to its line, 1 and up */
    int line;                    /* of the statement at hand */
    const fx_hooks *hooks;       /* that print statements */
};

/* ---- lines of the listing -------------------------------------------------------------------------------------- */

static void put_line(fx_ll *e, const void *what, int line)
{
    fx_map_put(e->arena, &e->debug->lines, what, (void *)(uintptr_t)line);
}

/* Statements of a list from this line on; the line after them. What has a body ends with a line of its own. */
static int put_lines(fx_ll *e, const fx_stmt *s, int line)
{
    for (; s; s = s->next) {
        put_line(e, s, line++);
        if (s->kind == FX_ST_LOOP || s->kind == FX_ST_IF || s->kind == FX_ST_CHECK)
            line = put_lines(e, s->body, line) + 1;
    }
    return line;
}

static void find_lines(fx_ll *e, const char *text)
{
    size_t step = 0;
    int line = 1;
    for (const char *at = text; *at && step < e->p->n_steps; line++) {
        if (strncmp(at, "step ", 5) == 0) {
            put_line(e, &e->p->steps[step], line);
            put_lines(e, e->p->steps[step++].body, line + 1);
        }
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
}

/* ---- functions ---------------------------------------------------------------------------------------------------- */

void fx_ll_debug_begin(fx_ll *e)
{
    const fx_llvm *L = e->L;
    const char *path = e->opt->listing, *slash = path ? strrchr(path, '/') : NULL;
    if (!path)
        return;
    e->debug = FX_NEW(e->arena, fx_ll_debug);
    fx_text text;
    fx_text_init(&text, e->arena);
    fx_program_print(&text, e->p);
    fx_puts(&text, "");
    find_lines(e, text.data);
    static const char version[] = "Debug Info Version", dwarf[] = "Dwarf Version";
    L->AddModuleFlag(e->m, LLVMModuleFlagBehaviorWarning, version, sizeof version - 1, L->ValueAsMetadata(L->ConstInt(e->t_i32, L->DebugMetadataVersion(), 0)));
    L->AddModuleFlag(e->m, LLVMModuleFlagBehaviorWarning, dwarf, sizeof dwarf - 1, L->ValueAsMetadata(L->ConstInt(e->t_i32, 4, 0)));
    const char *name = slash ? slash + 1 : path, *folder = slash ? fx_arena_printf(e->arena, "%.*s", (int)(slash - path), path) : ".";
    static const char producer[] = "fxcc " FXCC_VERSION;
    LLVMDIBuilderRef b = e->debug->builder = L->CreateDIBuilder(e->m);
    e->debug->file = L->DIBuilderCreateFile(b, name, strlen(name), folder, strlen(folder));
    L->DIBuilderCreateCompileUnit(b, LLVMDWARFSourceLanguageC99, e->debug->file, producer, sizeof producer - 1, 1, "", 0, 0, "", 0,
                                  LLVMDWARFEmissionFull, 0, 0, 0, "", 0, "", 0);
    e->debug->type = L->DIBuilderCreateSubroutineType(b, e->debug->file, NULL, 0, LLVMDIFlagZero);
}

void fx_ll_debug_end(fx_ll *e)
{
    if (!e->debug || !e->debug->builder)
        return;
    e->L->DIBuilderFinalize(e->debug->builder);
    e->L->DisposeDIBuilder(e->debug->builder);
}

/* The model's name of a step: what its title begins with. */
static const char *name_of(fx_ll *e, const fx_step *step)
{
    const char *end = step->title ? strstr(step->title, ": ") : NULL;
    return end ? fx_arena_printf(e->arena, "%.*s", (int)(end - step->title), step->title) : step->name;
}

void fx_ll_debug_function(fx_ll *e, fx_ll_fn *f, const fx_step *step)
{
    const fx_llvm *L = e->L;
    if (!e->debug)
        return;
    if (!f->outer)
        e->debug->line = step ? (int)(uintptr_t)fx_map_get(&e->debug->lines, step) : 1;
    const char *name = !step ? e->p->name ? e->p->name : "model" : name_of(e, step);
    if (f->outer)
        name = fx_arena_printf(e->arena, "%s.part", name);
    f->scope = L->DIBuilderCreateFunction(e->debug->builder, e->debug->file, name, strlen(name), "", 0, e->debug->file,
                                          (unsigned)e->debug->line, e->debug->type, step != NULL, 1, (unsigned)e->debug->line, LLVMDIFlagZero, 1);
    L->SetSubprogram(f->fn, f->scope);
    static const char key[] = "disable-tail-calls", yes[] = "true"; /* a step that ends with its kernel stays on the stack */
    L->AddAttributeAtIndex(f->fn, (LLVMAttributeIndex)-1, L->CreateStringAttribute(e->c, key, sizeof key - 1, yes, sizeof yes - 1));
    fx_ll_debug_here(e, f->entry, NULL);
}

void fx_ll_debug_here(fx_ll *e, LLVMBuilderRef b, const void *at)
{
    if (!e->debug)
        return;
    if (at)
        e->debug->line = (int)(uintptr_t)fx_map_get(&e->debug->lines, at);
    e->L->SetCurrentDebugLocation2(b, e->L->DIBuilderCreateDebugLocation(e->c, (unsigned)e->debug->line, 0, e->f->scope, NULL));
}

/* ---- statements: each sets its line before it is printed ------------------------------------------------------------------- */

#define HOOKS(X) X(loop_begin) X(loop_end) X(if_begin) X(if_end) X(store) X(local) X(set) X(call) X(array) X(check_begin) X(check_end) X(barrier) X(reduce)
#define HOOK(name)                                            \
    static fx_status name(void *user, const fx_stmt *s)       \
    {                                                         \
        fx_ll *e = user;                                      \
        fx_ll_debug_here(e, e->b, s);                         \
        return e->debug->hooks->name(user, s);                \
    }
HOOKS(HOOK)

const fx_hooks *fx_ll_debug_hooks(fx_ll *e, const fx_hooks *hooks)
{
#define ENTRY(name) .name = name,
    static const fx_hooks own = {HOOKS(ENTRY)};
    if (!e->debug)
        return hooks;
    e->debug->hooks = hooks;
    return &own;
}
