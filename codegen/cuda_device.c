/* codegen/cuda_device.c: what of NAME.cu is for the device, as a text that NVRTC compiles, and its launches as data: for the JIT.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* NVRTC has no headers; what texts include of the C library is empty for it. */
static const char prelude[] =
    "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\ntypedef short int16_t;\ntypedef unsigned short uint16_t;\n"
    "typedef int int32_t;\ntypedef unsigned int uint32_t;\ntypedef long int64_t;\ntypedef unsigned long uint64_t;\ntypedef unsigned long uintptr_t;\n"
    "#define INT8_MIN (-128)\n#define INT8_MAX 127\n#define UINT8_MAX 255\n#define INT16_MIN (-32768)\n#define INT16_MAX 32767\n#define UINT16_MAX 65535\n"
    "#define INT32_MAX 2147483647\n#define INT32_MIN (-INT32_MAX - 1)\n#define UINT32_MAX 4294967295u\n"
    "#define INT64_MAX 9223372036854775807L\n#define INT64_MIN (-INT64_MAX - 1)\n#define UINT64_MAX 18446744073709551615ul\n"
    "#define INT32_C(x) x\n#define UINT32_C(x) x##u\n#define INT64_C(x) x##L\n#define UINT64_C(x) x##ul\n"
    "#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n\n";

static fx_device_launch launch_of(fx_emit *e, size_t number)
{
    const fx_step_facts *f = &e->facts[number];
    const fx_stmt *nest = fx_cuda_nest(e->p->steps[number].body);
    if (nest->kind == FX_ST_CALL)
        return (fx_device_launch){.step = &e->p->steps[number], .call = nest->call, .kernel = e->steps[number]};
    const fx_grid g = fx_cuda_grid(e, &e->p->steps[number]);
    fx_device_launch l = {.step = &e->p->steps[number], .kernel = e->steps[number], .symbols = f->symbols, .weights = f->weights, .checks = f->checks > 0,
                          .n_bufs = f->n_params};
    for (int a = 0; a < 3; a++) {
        l.threads[a] = g.threads[a];
        l.blocks[a] = g.blocks[a];
    }
    int *bufs = FX_NEW_ARRAY(e->arena, int, f->n_params + 1);
    for (size_t i = 0; i < f->n_params; i++)
        bufs[i] = f->params[i].buf;
    l.bufs = bufs;
    return l;
}

/* What a failed check says: the step, too, since nothing else tells where. */
static void name_checks(fx_emit *e, const fx_step *step, const fx_stmt *s, const char **reasons)
{
    for (; s; s = s->next) {
        const char *name = s->kind == FX_ST_CHECK ? fx_map_get(&e->checks, s) : NULL;
        for (size_t i = 0; name && i < e->n_reasons; i++)
            if (strcmp(e->reasons[i].name, name) == 0)
                reasons[i] = fx_arena_printf(e->arena, "step '%s': %s", step->name, e->reasons[i].text);
        name_checks(e, step, s->body, reasons);
    }
}

static void put_reasons(fx_emit *e, fx_text *t, fx_device_code *out)
{
    const char **reasons = FX_NEW_ARRAY(e->arena, const char *, e->n_reasons + 1);
    for (size_t i = 0; i < e->n_reasons; i++)
        reasons[i] = e->reasons[i].text;
    for (size_t i = 0; i < e->p->n_steps; i++)
        name_checks(e, &e->p->steps[i], e->p->steps[i].body, reasons);
    out->reasons = reasons;
    out->n_reasons = e->n_reasons;
    if (!e->n_reasons)
        return;
    fx_puts(t, "enum {\n");
    fx_c_put_reasons(e, t);
    fx_puts(t, "};\n\n");
}

static void note_memory(fx_emit *e, fx_device_code *out)
{
    const fx_program *p = e->p;
    uint64_t *at = FX_NEW_ARRAY(e->arena, uint64_t, p->n_bufs + 1);
    bool *copied = FX_NEW_ARRAY(e->arena, bool, p->n_outputs + 1);
    for (size_t i = 0; i < e->n_members; i++)
        at[e->members[i].buf] = e->members[i].offset;
    for (size_t i = 0; i < p->n_outputs; i++)
        copied[i] = fx_c_needs_copy(p, i);
    out->weights_size = e->n_members ? e->weights_size : 0;
    out->weights_at = at;
    out->copied = copied;
    out->by_sixteen = e->at_once;
}

/* ---- the host's functions ------------------------------------------------------------------------------------------------------- */

static size_t line_length(const char *s)
{
    const char *end = strchr(s, '\n');
    return end ? (size_t)(end - s) + 1 : strlen(s);
}

static bool line_has(const char *line, size_t n, const char *word)
{
    const char *at = strstr(line, word);
    return at && at < line + n;
}

/* Behind a function whose first line this is, as the texts of runtime/cuda/ are laid out: it ends with its only line, or with the first one that begins
 * with a brace. */
static const char *behind_function(const char *s)
{
    size_t n = line_length(s);
    if (line_has(s, n, ";\n") || line_has(s, n, "}\n"))
        return s + n;
    while (*s && *s != '}')
        s += line_length(s);
    return s + line_length(s);
}

/* NVRTC refuses functions of the host's: those that say FXRT_HOST, also behind a line of template parameters, those in plain C, and those of steps that call
 * a kernel are left out. */
static void put_without_host(fx_text *t, const char *s)
{
    for (size_t n; *s; s += n) {
        n = line_length(s);
        const char *next = s + n;
        const bool head = strncmp(s, "template", 8) == 0 && strncmp(next, "FXRT_HOST ", 10) == 0;
        const bool plain = strncmp(s, "static inline ", 14) == 0 || strncmp(s, "static cudaError_t ", 19) == 0;
        if (*s != '#' && (head || plain || line_has(s, n, "FXRT_HOST ")))
            n = (size_t)(behind_function(head ? next : s) - s);
        else
            fx_putn(t, s, n);
    }
}

static fx_status emit(fx_emit *e, fx_device_code *out)
{
    FX_TRY(fx_emit_prepare(e));
    fx_text text, *t = &text, device;
    fx_text_init(t, e->arena);
    fx_text_init(&device, e->arena);
    fx_puts(t, prelude);
    put_reasons(e, t, out);
    if (e->n_members)
        fx_c_weights_struct(e, t);
    e->own_halves = fx_cuda_has_halves(e);
    FX_TRY(fx_cuda_kernels(e, t));
    put_without_host(&device, t->data);
    out->text = device.data;
    out->size = device.size;
    for (size_t i = 0; i < e->p->n_steps; i++)
        FX_PUSH(e->arena, out->launches, out->n_launches, out->cap_launches) = launch_of(e, i);
    note_memory(e, out);
    return FX_OK;
}

fx_status fx_emit_device(fx_program *p, fx_device_code *out)
{
    const fx_emit_options opt = {.weights = FX_WEIGHTS_BIN};
    fx_program *launches = FX_NEW(p->arena, fx_program); /* its steps stay: launches name them */
    FX_TRY(fx_cuda_launches(p, launches));
    fx_emit e = {.p = launches, .opt = &opt, .say = &fx_spell_cuda, .ctx = p->ctx, .arena = p->arena, .local = fx_arena_create(p->ctx)};
    *out = (fx_device_code){0};
    fx_status status = emit(&e, out);
    fx_arena_free(e.local);
    return status;
}
