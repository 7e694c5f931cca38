/* codegen/c.c: a loop program as C sources: what is decided once for all files, and their order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

void fx_emit_open(fx_emit *e)
{
    for (int i = 0; i < e->indent; i++)
        fx_puts(e->t, "    ");
}

void fx_emit_line(fx_emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fx_emit_open(e);
    fx_vprintf(e->t, fmt, ap);
    fx_puts(e->t, "\n");
    va_end(ap);
}

void fx_emit_done(fx_emit *e)
{
    e->scope = NULL;
    e->loops = NULL;
    e->locals = NULL;
    e->assigned = NULL;
    fx_arena_reset(e->local);
}

fx_file *fx_emit_file(fx_emit *e, const char *suffix, const fx_text *t)
{
    fx_file f = {.name = fx_arena_printf(e->arena, "%s%s", e->prefix, suffix), .data = t->data ? t->data : "", .size = t->size};
    FX_PUSH(e->arena, e->files, e->n_files, e->cap_files) = f;
    return &e->files[e->n_files - 1];
}

const char *fx_c_type(fx_dtype dtype)
{
    static const char *const type[] = {
#define FX_X(e, name, c, bytes) c,
        FX_DTYPES(FX_X)
#undef FX_X
    };
    return type[dtype];
}

/* Files are called PREFIX.h and so on: they must not hide the system's, nor be what make and CMake call their own targets. */
static bool taken_elsewhere(const char *prefix)
{
    static const char *const targets[] = {"all", "check", "clean", "help", "install", "package", "stack", "test"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (strcmp(prefix, targets[i]) == 0)
            return true;
    return fx_header_reserved(prefix);
}

const char *fx_c_add_reason(fx_emit *e, const char *name, const char *text)
{
    enum { LONGEST = 24 };
    const char *want = fx_arena_printf(e->arena, "%s_ERR_%.*s", e->PREFIX, LONGEST, fx_upper(e->arena, name));
    fx_reason r = {fx_names_make(&e->names, want, FX_IDENT_MAX, "ERR"), text};
    FX_PUSH(e->arena, e->reasons, e->n_reasons, e->cap_reasons) = r;
    return r.name;
}

static fx_status choose_prefix(fx_emit *e)
{
    enum { LONGEST = 30 }; /* leaves room for the rest of a name */
    char id[FX_IDENT_MAX + 1];
    if (e->opt->prefix) {
        fx_ident(id, e->opt->prefix, LONGEST, "");
        if (!*id || strcmp(id, e->opt->prefix) != 0 || taken_elsewhere(id))
            return fx_fail(e->ctx, FX_ERR_ARGUMENT, NULL,
                           "prefix '%s': expected at most %d letters, digits and single underscores, starting with a letter, that are no word of C, "
                           "name of its library or header", e->opt->prefix, LONGEST);
    } else {
        fx_ident(id, e->p->name, LONGEST - 6, "model");
        if (taken_elsewhere(id))
            strcat(id, "_model");
    }
    e->prefix = fx_arena_dup(e->arena, id, strlen(id) + 1);
    e->PREFIX = fx_upper(e->arena, id);
    return FX_OK;
}

static const char *const no_names[] = {NULL};
const fx_spelling fx_spell_c = {.restrict_word = "restrict ", .null = "NULL", .weights = "", .context = "const ", .stream = "", .stream_argument = "",
                                .functions = no_names, .macros = no_names, .locals = no_names};

/* All names at file scope that are not those of steps; what starts with the prefix in capitals is a macro or could become one. */
static void take_own_names(fx_emit *e)
{
    static const char *const own[] = {"context", "init", "run", "run_v", "status_string", "weights", "weights_t", "weights_size_check", "to_i32",
                                      "to_i64", "dims", "check_dims", "arena_size", "slots", "slot_end", "dims_of"};
    static const char *const macros[] = {"H", "ARENA_SIZE", "ARENA_ALIGN", "WEIGHTS_SIZE", "STACK_SIZE", "INPUTS", "OUTPUTS", "ALIGNED", "PARALLEL", "PARALLEL_VECTOR",
                                         "VECTOR", "WEIGHTS_FILE", "CHECK_PAINT", "OK", "ERR_NULL", "ERR_SIZE", "ERR_ALIGN", "ERR_WEIGHTS",
                                         "ERR_RUNTIME", "UNROLL", "FAIL", "DIMS"};
    static const char *const of_state[] = {"state_t", "state_init"};
    for (size_t i = 0; e->p->n_states && i < sizeof of_state / sizeof of_state[0]; i++)
        fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_%s", e->prefix, of_state[i]));
    for (size_t i = 0; e->say->functions[i]; i++)
        fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_%s", e->prefix, e->say->functions[i]));
    for (size_t i = 0; e->say->macros[i]; i++)
        fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_%s", e->PREFIX, e->say->macros[i]));
    for (size_t i = 0; e->say->locals[i]; i++)
        fx_names_take(&e->names, e->say->locals[i]);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_%s", e->prefix, own[i]));
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; i++)
        fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_%s", e->PREFIX, macros[i]));
    for (size_t i = 0; i < e->p->n_inputs + e->p->n_outputs; i++) {
        bool in = i < e->p->n_inputs;
        static const char *const what[] = {"NUMEL", "RANK", "SHAPE"};
        for (int k = 0; k < 3; k++)
            fx_names_take(&e->names, fx_arena_printf(e->arena, "%s_%s%zu_%s", e->PREFIX, in ? "IN" : "OUT", in ? i : i - e->p->n_inputs, what[k]));
    }
}

/* Names of steps at file scope; of inputs, outputs and buffers inside NAME_run, where no file-scope name is hidden. */
static void choose_names(fx_emit *e)
{
    const fx_program *p = e->p;
    fx_names_init(&e->names, e->arena, NULL);
    take_own_names(e);
    e->steps = FX_NEW_ARRAY(e->arena, const char *, p->n_steps + 1);
    for (size_t i = 0; i < p->n_steps; i++)
        e->steps[i] = fx_names_make(&e->names, fx_arena_printf(e->arena, "%s_%s", e->prefix, p->steps[i].name), FX_IDENT_MAX, "step");

    fx_names run;
    fx_names_init(&run, e->arena, &e->names);
    static const char *const fixed[] = {"ctx", "weights", "arena", "inputs", "outputs", "status", "dims", "at"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (i < 6 || p->n_symbols)
            fx_names_take(&run, fixed[i]);
    if (p->n_states)
        fx_names_take(&run, "state");
    fx_c_state_names(e);
    e->symbols = FX_NEW_ARRAY(e->arena, const char *, p->n_symbols + 1);
    for (size_t i = 0; i < p->n_symbols; i++)
        e->symbols[i] = fx_names_make(&run, p->symbols[i].name, 32, "size");
    fx_c_find_derived(e, &run);
    e->bufs = FX_NEW_ARRAY(e->arena, const char *, p->n_bufs + 1);
    e->inputs = FX_NEW_ARRAY(e->arena, const char *, p->n_inputs + 1);
    e->outputs = FX_NEW_ARRAY(e->arena, const char *, p->n_outputs + 1);
    for (size_t i = 0; i < p->n_inputs; i++) {
        e->inputs[i] = fx_names_make(&run, p->inputs[i].name, FX_IDENT_MAX, "input");
        if (p->bufs[p->inputs[i].buf].kind == FX_BUF_INPUT)
            e->bufs[p->inputs[i].buf] = e->inputs[i];
    }
    for (size_t i = 0; i < p->n_outputs; i++) {
        const fx_buf *b = &p->bufs[p->outputs[i].buf];
        e->outputs[i] = fx_names_make(&run, p->outputs[i].name, FX_IDENT_MAX, "output");
        if (b->kind == FX_BUF_OUTPUT && b->io == (int)i)
            e->bufs[b->id] = e->outputs[i];
    }
    for (size_t i = 0; i < p->n_bufs; i++)
        if (!e->bufs[i] && p->bufs[i].kind != FX_BUF_WEIGHT && p->bufs[i].kind != FX_BUF_LOCAL) /* members of a struct; named in their block */
            e->bufs[i] = fx_names_make(&run, p->bufs[i].name, FX_IDENT_MAX, "buf");
}

fx_status fx_emit_prepare(fx_emit *e)
{
    enum { AUTO_LIMIT = 1 << 20 };
    FX_TRY(choose_prefix(e));
    choose_names(e);
    FX_TRY(fx_weights_layout(e));
    e->finite_arena = e->p->arena_size || !e->p->n_slots;
    e->arena_size = e->p->arena_size ? e->p->arena_size : FX_WEIGHTS_ALIGN;
    e->weights = e->opt->weights != FX_WEIGHTS_AUTO      ? e->opt->weights
                 : e->weights_size <= AUTO_LIMIT + 64 ? FX_WEIGHTS_C : FX_WEIGHTS_BIN;
    FX_TRY(fx_c_scan_sizes(e));
    e->deriving = true;
    FX_TRY(e->say->gpu ? fx_cuda_scan(e) : fx_c_scan(e));
    e->deriving = false;
    return FX_OK;
}

static fx_status emit(fx_emit *e)
{
    FX_TRY(fx_emit_prepare(e));
    e->stack_size = fx_c_stack(e);
    FX_TRY(fx_c_header(e));
    FX_TRY(fx_c_source(e));
    FX_TRY(fx_c_weights(e));
    FX_TRY(fx_c_build(e));
    if (e->opt->golden)
        FX_TRY(fx_c_check(e));
    return FX_OK;
}

fx_status fx_emit_c(fx_program *p, const fx_emit_options *opt, size_t *n_files, fx_file **files)
{
    fx_emit e = {.p = p, .opt = opt, .say = &fx_spell_c, .ctx = p->ctx, .arena = p->arena, .local = fx_arena_create(p->ctx)};
    fx_status status = emit(&e);
    fx_arena_free(e.local);
    *n_files = e.n_files;
    *files = e.files;
    return status;
}
