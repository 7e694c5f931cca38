/* codegen/c_weights.c: the weights blob: its layout as a struct, its content as C, as a file, as an .incbin.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "codegen/emit.h"

/* ---- layout ----------------------------------------------------------------------------------------------- */

typedef struct place {
    uint64_t offset;
    int buf;
} place;

static int by_offset(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->buf < y->buf ? -1 : x->buf > y->buf;
}

/* What ties a blob to code: layout and content of the weights, and the shape of the program. */
static void hash_model(fx_emit *e)
{
    const fx_program *p = e->p;
    uint64_t h = fx_hash_block(0x6678636377747331u, &p->n_steps, sizeof p->n_steps);
    for (size_t i = 0; i < p->n_steps; i++)
        h = fx_hash_block(h, p->steps[i].name, strlen(p->steps[i].name));
    for (size_t i = 0; i < e->n_members; i++) {
        const fx_buf *b = &p->bufs[e->members[i].buf];
        uint64_t v[3] = {e->members[i].offset, (uint64_t)b->numel.value, b->dtype};
        h = fx_hash_block(h, v, sizeof v);
        h = fx_hash_block(h, b->data, fx_buf_bytes(b));
    }
    for (int i = 0; i < 8; i++)
        e->hash[i] = (uint8_t)(h >> 8 * i) ^ p->model_hash[i];
}

/* Weights lie where lower/memory.c put them, behind the header; buffers of one place (tied weights) are one member. */
fx_status fx_weights_layout(fx_emit *e)
{
    const fx_program *p = e->p;
    place *order = FX_NEW_ARRAY(e->arena, place, p->n_bufs + 1);
    size_t n = 0;
    uint64_t shift = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind != FX_BUF_WEIGHT || fx_dim_is(b->numel, 0))
            continue;
        if (!b->data || b->offset % FX_WEIGHTS_ALIGN)
            return fx_fail(e->ctx, FX_INTERNAL, &b->loc, "weight '%s' has %s", b->name, b->data ? "an offset that is not aligned" : "no data");
        if (b->offset < FX_WEIGHTS_HEADER)
            shift = FX_WEIGHTS_HEADER; /* planned without the header */
        order[n++] = (place){b->offset, (int)i};
    }
    qsort(order, n, sizeof *order, by_offset);

    fx_names_init(&e->weight_names, e->arena, &e->names);
    static const char *const fixed[] = {"magic", "version", "byte_order", "size", "model", "unused"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        fx_names_take(&e->weight_names, fixed[i]);
    uint64_t end = FX_WEIGHTS_HEADER;
    for (size_t i = 0; i < n; i++) {
        const fx_buf *b = &p->bufs[order[i].buf];
        if (i && order[i].offset == order[i - 1].offset && fx_dim_equal(b->numel, p->bufs[order[i - 1].buf].numel) &&
            b->dtype == p->bufs[order[i - 1].buf].dtype) {
            e->bufs[b->id] = e->bufs[order[i - 1].buf];
            continue;
        }
        uint64_t at = order[i].offset + shift;
        if (at < end)
            return fx_fail(e->ctx, FX_INTERNAL, &b->loc, "weight '%s' overlaps another at byte %llu", b->name, (unsigned long long)at);
        end = at + fx_buf_bytes(b);
        e->bufs[b->id] = fx_names_make(&e->weight_names, b->name, FX_IDENT_MAX, "weight");
        fx_wmember m = {b->id, at};
        FX_PUSH(e->arena, e->members, e->n_members, e->cap_members) = m;
    }
    e->weights_size = (end + FX_WEIGHTS_ALIGN - 1) / FX_WEIGHTS_ALIGN * FX_WEIGHTS_ALIGN;
    hash_model(e);
    return FX_OK;
}

void fx_c_weights_struct(fx_emit *e, fx_text *t)
{
    fx_printf(t, "\n/* The weights as %s_%s takes them: %llu bytes. */\n", e->prefix, e->say->gpu ? "create" : "init", (unsigned long long)e->weights_size);
    fx_printf(t, "typedef struct %s_weights_t {\n", e->prefix);
    fx_printf(t, "    char magic[8];           /* \"%s\" */\n"
                 "    uint32_t version;        /* %d */\n"
                 "    uint32_t byte_order;     /* 0x01020304 */\n"
                 "    uint64_t size;           /* of all, %s_WEIGHTS_SIZE */\n"
                 "    uint8_t model[8];        /* of the model these belong to */\n"
                 "    uint8_t unused[32];\n", FX_WEIGHTS_MAGIC, FX_WEIGHTS_VERSION, e->PREFIX);
    uint64_t at = FX_WEIGHTS_HEADER;
    size_t pads = 0;
    for (size_t i = 0; i <= e->n_members; i++) {
        uint64_t next = i < e->n_members ? e->members[i].offset : e->weights_size;
        if (next > at)
            fx_printf(t, "    uint8_t %s[%llu];\n", 
                      fx_names_make(&e->weight_names, fx_arena_printf(e->arena, "pad%zu", pads++), FX_IDENT_MAX, "pad"), (unsigned long long)(next - at));
        if (i == e->n_members)
            break;
        const fx_buf *b = &e->p->bufs[e->members[i].buf];
        fx_printf(t, "    %s %s[%lld]; /* ", fx_c_type(b->dtype), e->bufs[b->id], (long long)b->numel.value);
        fx_put_dims(e, t, b->rank, b->dims, "x");
        if (b->note) {
            fx_puts(t, ", ");
            fx_put_comment(t, b->note, 100);
        }
        fx_puts(t, " */\n");
        at = next + fx_buf_bytes(b);
        fx_emit_done(e);
    }
    fx_printf(t, "} %s_weights_t;\n", e->prefix);
}

/* ---- content ------------------------------------------------------------------------------------------------ */

/* The whole blob, in the byte order of the machine fxcc runs on, which the header tells: the header and, as parts, the weights where they are. */
static void put_blob(fx_emit *e)
{
    unsigned char *header = fx_arena_alloc(e->arena, FX_WEIGHTS_HEADER);
    uint32_t version = FX_WEIGHTS_VERSION, order = 0x01020304;
    memcpy(header, FX_WEIGHTS_MAGIC, 8);
    memcpy(header + 8, &version, 4);
    memcpy(header + 12, &order, 4);
    memcpy(header + 16, &e->weights_size, 8);
    memcpy(header + 24, e->hash, 8);
    fx_file_part *parts = FX_NEW_ARRAY(e->arena, fx_file_part, e->n_members + 1);
    parts[0] = (fx_file_part){0, FX_WEIGHTS_HEADER, header};
    for (size_t i = 0; i < e->n_members; i++) {
        const fx_buf *b = &e->p->bufs[e->members[i].buf];
        parts[i + 1] = (fx_file_part){(size_t)e->members[i].offset, (size_t)fx_buf_bytes(b), b->data};
    }
    fx_file f = {.name = fx_arena_printf(e->arena, "%s.bin", e->prefix), .size = (size_t)e->weights_size, .parts = parts, .n_parts = e->n_members + 1};
    FX_PUSH(e->arena, e->files, e->n_files, e->cap_files) = f;
}

const char *fx_file_data(fx_arena *arena, const fx_file *f)
{
    if (f->data)
        return f->data;
    char *data = fx_arena_alloc(arena, f->size);
    for (size_t i = 0; i < f->n_parts; i++)
        memcpy(data + f->parts[i].at, f->parts[i].data, f->parts[i].size);
    return data;
}

static char *put_element(char *s, fx_dtype dtype, const void *data, int64_t i)
{
    long long v = 0;
    switch (dtype) {
    case FX_F32: return s + fx_format_float(s, ((const float *)data)[i]);
    case FX_F64: {
        double d = ((const double *)data)[i];
        if (d != d)
            return s + sprintf(s, "NAN");
        if (d > 1.7976931348623157e308 || d < -1.7976931348623157e308)
            return s + sprintf(s, d < 0 ? "-INFINITY" : "INFINITY");
        int n = sprintf(s, "%.17g", d);
        return s + n + (strpbrk(s, ".e") ? 0 : sprintf(s + n, ".0")); /* "-0" would be an integer, and lose its sign */
    }
    case FX_F16: case FX_BF16: v = ((const uint16_t *)data)[i]; break;
    case FX_I8: v = ((const int8_t *)data)[i]; break;
    case FX_I16: v = ((const int16_t *)data)[i]; break;
    case FX_I32: v = ((const int32_t *)data)[i]; break;
    case FX_I64: v = ((const int64_t *)data)[i]; break;
    default: v = ((const uint8_t *)data)[i]; break;
    }
    if (v == INT64_MIN)
        return s + sprintf(s, "-INT64_C(9223372036854775807) - 1");
    if (v == INT32_MIN)
        return s + sprintf(s, "-2147483647 - 1");
    if (v > INT32_MAX || v < INT32_MIN)
        return s + sprintf(s, "%sINT64_C(%lld)", v < 0 ? "-" : "", v < 0 ? -v : v);
    return s + sprintf(s, "%lld", v);
}

/* Written straight into the text, a line at a time: texts of many megabytes. */
void fx_put_elements(fx_text *t, fx_dtype dtype, const void *data, int64_t numel, const char *indent)
{
    enum { LONGEST = 40, A_LINE = 8 };
    size_t n = strlen(indent);
    for (int64_t i = 0; i < numel;) {
        char *start = fx_text_room(t, n + A_LINE * (LONGEST + 2)), *s = start;
        memcpy(s, indent, n);
        s += n;
        for (int64_t end = i + A_LINE < numel ? i + A_LINE : numel; i < end;) {
            s = put_element(s, dtype, data, i);
            *s++ = ',';
            *s++ = ++i == end ? '\n' : ' ';
        }
        *s = '\0';
        t->size += (size_t)(s - start);
    }
}

/* An initialiser of the struct, members by name; padding and what is unused stay zero. */
static void put_weights_c(fx_emit *e)
{
    fx_text t;
    fx_text_init(&t, e->arena);
    fx_printf(&t, "/* %s_weights.c: the weights of %s.c. Made by fxcc. */\n#include <math.h>\n\n#include \"%s.h\"\n\n", e->prefix,
              e->prefix, e->prefix);
    fx_printf(&t, "%s_ALIGNED const %s_weights_t %s_weights[1] = {{\n", e->PREFIX, e->prefix, e->prefix);
    fx_printf(&t, "    .magic = \"%s\",\n    .version = %d,\n    .byte_order = 0x01020304,\n    .size = %s_WEIGHTS_SIZE,\n    .model = {",
              FX_WEIGHTS_MAGIC, FX_WEIGHTS_VERSION, e->PREFIX);
    for (int i = 0; i < 8; i++)
        fx_printf(&t, "%s%d", i ? ", " : "", e->hash[i]);
    fx_puts(&t, "},\n");
    for (size_t i = 0; i < e->n_members; i++) {
        const fx_buf *b = &e->p->bufs[e->members[i].buf];
        fx_printf(&t, "    .%s = {\n", e->bufs[b->id]);
        fx_put_elements(&t, b->dtype, b->data, b->numel.value, "        ");
        fx_puts(&t, "    },\n");
    }
    fx_puts(&t, "}};\n");
    fx_emit_file(e, "_weights.c", &t);
}

/* The .bin becomes part of the object file without the compiler reading it. */
static void put_incbin_c(fx_emit *e)
{
    const char *p = e->prefix, *P = e->PREFIX;
    fx_text t;
    fx_text_init(&t, e->arena);
    fx_printf(&t, "/* %s_weights.c: puts %s.bin, the weights of %s.c, into the program. Made by fxcc.\n"
                  " * Assemblers look for the file in the current folder and in those of -I: compile here, or with -I and this folder, or\n"
                  " * define %s_WEIGHTS_FILE as the file's path (a string). */\n"
                  "#include \"%s.h\"\n\n", p, p, p, P, p);
    fx_printf(&t, "#ifndef %s_WEIGHTS_FILE\n#define %s_WEIGHTS_FILE \"%s.bin\"\n#endif\n\n", P, P, p);
    fx_puts(&t, "#if !defined(__GNUC__) || !defined(__ELF__)\n#error \"this file is for gcc or clang and ELF; emit with --weights=bin or --weights=c\"\n"
                "#endif\n\n");
    fx_printf(&t, "__asm__(\".section .rodata\\n\"\n"
                  "        \".balign %d\\n\"\n"
                  "        \".global %s_weights\\n\"\n"
                  "        \".type %s_weights, %%object\\n\"\n"
                  "        \"%s_weights:\\n\"\n"
                  "        \".incbin \\\"\" %s_WEIGHTS_FILE \"\\\"\\n\"\n"
                  "        \".size %s_weights, . - %s_weights\\n\"\n"
                  "        \".previous\\n\");\n", FX_WEIGHTS_ALIGN, p, p, p, P, p, p);
    fx_emit_file(e, "_weights.c", &t);
}

fx_status fx_c_weights(fx_emit *e)
{
    enum { MANY = 16 << 20 };
    if (e->weights == FX_WEIGHTS_C) {
        if (e->weights_size > MANY)
            fx_warn(e->ctx, NULL, "%.0f MB of weights as C arrays take compilers long; --weights=bin or --weights=incbin do not",
                    (double)e->weights_size / 1e6);
        put_weights_c(e);
        return FX_OK;
    }
    put_blob(e);
    if (e->weights == FX_WEIGHTS_INCBIN)
        put_incbin_c(e);
    return FX_OK;
}
