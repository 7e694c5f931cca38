/* codegen/c_kernels.c: the runtime in an emitted file: pasted as text, or declared and linked.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"
#include "codegen/texts.h"

/* A descriptor struct from its field list; equal types in a row share a declaration. */
typedef struct field {
    const char *name;
    bool is_float;
} field;

static const struct descriptor {
    const char *name;
    int n;
    const field *fields;
} descriptors[] = {
#define FXRT_I(f) {#f, false},
#define FXRT_F(f) {#f, true},
#define COUNT(f) +1
#define FXRT_X(name, NAME) \
    {#name, 0 FXRT_##NAME##_FIELDS(COUNT, COUNT), (const field[]){FXRT_##NAME##_FIELDS(FXRT_I, FXRT_F)}},
    FXRT_DESCRIPTORS(FXRT_X)
#undef FXRT_X
#undef COUNT
#undef FXRT_F
#undef FXRT_I
};

static void put_descriptor_type(fx_text *t, const struct descriptor *d)
{
    fx_printf(t, "typedef struct fxrt_%s_desc {", d->name);
    size_t line = 0;
    for (int i = 0; i < d->n; i++) {
        bool same = i && d->fields[i].is_float == d->fields[i - 1].is_float;
        if (same && line + strlen(d->fields[i].name) < 100) {
            fx_printf(t, ", %s", d->fields[i].name);
            line += strlen(d->fields[i].name) + 2;
            continue;
        }
        const char *type = d->fields[i].is_float ? "float" : "int32_t";
        fx_printf(t, "%s\n    %s %s", i ? ";" : "", type, d->fields[i].name);
        line = 4 + strlen(type) + strlen(d->fields[i].name);
    }
    fx_printf(t, ";\n} fxrt_%s_desc;\n", d->name);
}

/* Around what several files of one translation unit have in common. */
void fx_c_once(const fx_emit *e, fx_text *t, const char *what)
{
    if (e->opt->shared)
        fx_printf(t, "#ifndef FXRT_ONCE_%s\n#define FXRT_ONCE_%s\n", what, what);
}

void fx_c_end_once(const fx_emit *e, fx_text *t)
{
    if (e->opt->shared)
        fx_puts(t, "#endif\n");
}

bool fx_c_names_text(const char *files, const char *name)
{
    size_t n = strlen(name);
    for (const char *f = files; (f = strstr(f, name)); f += n)
        if ((f == files || f[-1] == ' ') && (f[n] == ' ' || f[n] == 0))
            return true;
    return false;
}

bool fx_c_needs_text(const fx_emit *e, const char *name)
{
    static const char *const texts[] = {
#define FX_X(id, name) #name,
        FX_SCALAR_TEXTS(FX_X)
#undef FX_X
    };
    for (int i = 0; i < FX_TEXT_COUNT; i++)
        if (e->texts[i] && strcmp(name, texts[i]) == 0)
            return true;
    for (int k = 0; k < FX_K_COUNT && !e->opt->link_runtime && !e->say->gpu; k++)
        if (e->kernels[k] && fx_c_names_text(fx_kernel_get((fx_kernel_id)k)->files, name))
            return true;
    return false;
}

static fx_status put_texts(fx_emit *e, fx_text *t)
{
    for (int k = 0; k < FX_K_COUNT; k++) {
        if (!e->kernels[k] || e->opt->link_runtime)
            continue;
        const fx_kernel *kernel = fx_kernel_get((fx_kernel_id)k);
        for (const char *f = kernel->files; *f;) {
            size_t n = strcspn(f, " ");
            bool there = false;
            for (int i = 0; i < fx_n_runtime_texts; i++)
                there |= strlen(fx_runtime_texts[i].name) == n && memcmp(fx_runtime_texts[i].name, f, n) == 0;
            if (!there)
                return fx_fail(e->ctx, FX_INTERNAL, NULL, "kernel '%s' needs the text of runtime/%.*s.h, which was not built in",
                               kernel->name, (int)n, f);
            f += n + strspn(f + n, " ");
        }
    }
    for (int i = 0; i < fx_n_runtime_texts; i++) {
        if (!fx_c_needs_text(e, fx_runtime_texts[i].name))
            continue;
        const char *s = fx_runtime_texts[i].text;
        fx_puts(t, "\n");
        fx_c_once(e, t, fx_runtime_texts[i].name);
        fx_puts(t, s);
        size_t n = strlen(s);
        if (n && s[n - 1] != '\n')
            fx_puts(t, "\n");
        fx_c_end_once(e, t);
    }
    return FX_OK;
}

/* Prototypes of the linked kernels: libfxrt has one set an instruction set. */
static void put_prototypes(fx_emit *e, fx_text *t)
{
    for (int i = 0; i < FX_K_COUNT; i++) {
        if (!e->kernels[i])
            continue;
        const fx_kernel *k = fx_kernel_get((fx_kernel_id)i);
        fx_text line;
        fx_text_init(&line, e->arena);
        fx_printf(&line, "void fxrt_%s_%s(const fxrt_%s_desc *d", e->p->target.isa, k->name, k->desc);
        size_t size = line.size;
        for (int b = 0; b < k->n_bufs && !k->buf[b].counts; b++) {
            bool out = k->buf[b].written || strcmp(k->buf[b].name, "ws") == 0;
            const char *one = fx_arena_printf(e->arena, "%sfloat *%s", out ? "" : "const ", k->buf[b].name);
            bool wrap = size + strlen(one) > 104;
            fx_printf(&line, ",%s%s", wrap ? "\n        " : " ", one);
            size = (wrap ? 8 : size + 2) + strlen(one);
        }
        fx_printf(t, "%s);\n", line.data);
    }
}

void fx_c_descriptors(fx_emit *e, fx_text *t)
{
    fx_c_once(e, t, "acts");
    fx_puts(t, "\nenum {");
    static const char *const acts[] = {
#define FXRT_X(id, doc) #id,
        FXRT_ACTS(FXRT_X)
#undef FXRT_X
    };
    for (int i = 0; i < FXRT_ACT_COUNT; i++)
        fx_printf(t, "%s%sFXRT_ACT_%s", i ? "," : "", i % 5 ? " " : "\n    ", acts[i]);
    fx_puts(t, "\n};\n\n");
    fx_c_end_once(e, t);
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
        bool used = false;
        for (int k = 0; k < FX_K_COUNT; k++)
            used |= e->kernels[k] && strcmp(fx_kernel_get((fx_kernel_id)k)->desc, descriptors[i].name) == 0;
        used |= e->say->gpu && fx_cuda_texts_name(e, descriptors[i].name);
        if (!used)
            continue;
        fx_c_once(e, t, fx_arena_printf(e->arena, "%s_desc", descriptors[i].name));
        put_descriptor_type(t, &descriptors[i]);
        fx_c_end_once(e, t);
    }
}

fx_status fx_c_kernels(fx_emit *e, fx_text *t)
{
    const fx_target *g = &e->p->target;
    bool any = false, scalar = false;
    for (int k = 0; k < FX_K_COUNT; k++)
        any |= e->kernels[k];
    for (int i = 0; i < FX_TEXT_COUNT; i++)
        scalar |= e->texts[i];
    if (!any && !scalar)
        return FX_OK;
    if (e->opt->link_runtime && any) {
        fx_puts(t, "\n/* ---- kernels of libfxrt ---- */\n#include \"fxcc/runtime.h\"\n\n");
        fx_printf(t, "#if FXRT_ABI_VERSION != %d\n#error \"fxcc/runtime.h is of another version than this file: compile the model again\"\n"
                  "#endif\n\n", FXRT_ABI_VERSION);
        put_prototypes(e, t);
        if (!scalar)
            return FX_OK;
    }
    fx_printf(t, "\n/* ---- kernels of fxcc's runtime, for %d lane%s%s ---- */\n", g->lanes, g->lanes == 1 ? "" : "s",
              g->fma ? ", fused multiply-add" : "");
    fx_c_once(e, t, "target");
    fx_printf(t, "#define FXRT_LANES %d\n#define FXRT_MR %d\n#define FXRT_NR %d\n#define FXRT_FMA %d\n", g->lanes, g->mr, g->nr, g->fma);
    fx_printf(t, "#define FXRT_ACT_MASK 0x%xu /* activations that occur */\n", e->opt->shared ? ~0u : e->acts);
    fx_puts(t, "#if defined(__GNUC__)\n#define FXRT_API static __attribute__((unused))\n#else\n#define FXRT_API static\n#endif\n");
    fx_c_end_once(e, t);
    fx_puts(t, "#if defined(__clang__)\n#pragma clang diagnostic push\n"
               "#pragma clang diagnostic ignored \"-Wunused-function\" /* the texts serve all models */\n#endif\n");
    if (any && !e->opt->link_runtime)
        fx_c_descriptors(e, t);
    FX_TRY(put_texts(e, t));
    fx_puts(t, "#if defined(__clang__)\n#pragma clang diagnostic pop\n#endif\n");
    return FX_OK;
}
