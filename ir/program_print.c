/* ir/program_print.c: the text form of loop programs. program_parse.c reads it back to the byte.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *     program "net"
 *     target name="generic" cflags="" lanes=1 fma=false mr=4 nr=4 l1=32768 l2=262144 pointer_bits=64 isa="generic"
 *     symbol batch in [1, 64]
 *     limit 2147483647 - 768*batch "768*batch must be at most 2147483647: kernels count in 32 bits"
 *     sizes arena=256 weights=64 live=256 hash=0x0000000000000000
 *     slot [3072*batch, 4096]
 *     slot [4*batch] above 0
 *     buffer x : input 0 f32[1, 8, 8, 4] note="NHWC"
 *     buffer relu : arena f32[1, 8, 8, 4] offset=0
 *     input x "x" = x f32[1, 4, 8, 8]
 *     step relu "relu: relu" shapes="1x8x8x4" flops=256 {
 *         for v0 in 256 vector "n" {
 *             relu[v0] = relu.f32(x[v0])
 *         }
 *     }
 *
 * Expressions over symbols stand in parentheses where numbers and variables do too: (768*batch)*v0 + v1 + (batch - 1). */
#include <string.h>

#include "ir/lex.h"
#include "ir/program.h"

static const char *const kinds[] = {"input", "output", "weight", "arena", "state", "counter", "local"};
static const char *const loops[] = {"serial", "parallel", "vector", "unrolled", "grid", "block", "thread"};

static void put_quoted_field(fx_text *t, const char *key, const char *value)
{
    if (value) {
        fx_printf(t, " %s=", key);
        fx_put_quoted(t, value);
    }
}

static void put_loc(fx_text *t, const fx_loc *loc)
{
    put_quoted_field(t, "file", loc->file);
    put_quoted_field(t, "entry", loc->entry);
    put_quoted_field(t, "node", loc->node);
    put_quoted_field(t, "module", loc->module);
    put_quoted_field(t, "frame", loc->frame);
}

static void put_shape(fx_text *t, fx_dtype dtype, int rank, const fx_dim *dims)
{
    fx_printf(t, "%s[", fx_dtype_short(dtype));
    for (int i = 0; i < rank && i < FX_MAX_RANK; i++) {
        fx_puts(t, i ? ", " : "");
        fx_put_dim(t, dims[i]);
    }
    fx_puts(t, "]");
}

static void put_name(fx_text *t, const fx_program *p, int buf)
{
    if (buf < 0 || (size_t)buf >= p->n_bufs)
        fx_printf(t, "buffer_%d_is_missing", buf);
    else
        fx_puts(t, p->bufs[buf].name);
}

/* A number, or an expression in parentheses. */
static void put_factor(fx_text *t, fx_dim d)
{
    fx_puts(t, d.sym ? "(" : "");
    fx_put_dim(t, d);
    fx_puts(t, d.sym ? ")" : "");
}

static void put_variable(fx_text *t, int var)
{
    fx_printf(t, "%c%d", var < 0 ? 't' : 'v', var < 0 ? FX_VAR_LOCAL(var) : var);
}

static uint64_t size_of(int64_t v)
{
    return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

static void put_affine(fx_text *t, const fx_affine *a)
{
    for (int i = 0; i < a->n && i < FX_MAX_LOOPS; i++) {
        fx_dim c = a->coef[i];
        bool minus = !c.sym && c.value < 0;
        fx_puts(t, i == 0 ? (minus ? "-" : "") : minus ? " - " : " + ");
        if (c.sym) {
            put_factor(t, c);
            fx_puts(t, "*");
        } else if (size_of(c.value) != 1) {
            fx_printf(t, "%llu*", (unsigned long long)size_of(c.value));
        }
        put_variable(t, a->var[i]);
    }
    if (a->n == 0) {
        put_factor(t, a->base);
    } else if (a->base.sym) {
        fx_puts(t, " + ");
        put_factor(t, a->base);
    } else if (a->base.value != 0) {
        fx_printf(t, " %c %llu", a->base.value < 0 ? '-' : '+', (unsigned long long)size_of(a->base.value));
    }
}

void fx_sexpr_print(fx_text *t, const fx_program *p, const fx_sexpr *e)
{
    if (!e) {
        fx_puts(t, "missing");
        return;
    }
    const char *dtype = fx_dtype_short(e->dtype);
    switch (e->op) {
    case FX_S_CONST:
        /* An f32 constant is usually a float; where it is not, its double is shown. */
        if (e->dtype == FX_F32 && (double)(float)e->imm == e->imm)
            fx_put_f32(t, (float)e->imm);
        else if (fx_dtype_is_float(e->dtype))
            fx_put_double(t, e->imm);
        else
            fx_printf(t, "%lld", (long long)e->ival);
        fx_printf(t, ":%s", dtype);
        break;
    case FX_S_LOAD:
        put_name(t, p, e->buf);
        fx_puts(t, "[");
        put_affine(t, &e->index);
        fx_puts(t, "]");
        break;
    case FX_S_LOCAL:
        fx_printf(t, "t%d:%s", e->local, dtype);
        break;
    case FX_S_INDEX:
        fx_printf(t, "index.%s(", dtype);
        put_affine(t, &e->index);
        fx_puts(t, ")");
        break;
    default:
        fx_printf(t, "%s.%s(", fx_sop_name(e->op), dtype);
        for (int i = 0; i < fx_sop_arity(e->op); i++) {
            fx_puts(t, i ? ", " : "");
            fx_sexpr_print(t, p, e->arg[i]);
        }
        fx_puts(t, ")");
        break;
    }
}

static void put_call(fx_text *t, const fx_program *p, const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    if (!k) {
        fx_printf(t, "call kernel_%d_is_missing\n", (int)c->kernel);
        return;
    }
    fx_printf(t, "call %s ", k->name);
    fx_put_word(t, c->name, false);
    fx_puts(t, "(");
    for (int i = 0; i < k->n_bufs; i++) {
        if (k->buf[i].counts && c->buf[i] == -1)
            continue;
        fx_printf(t, "%s%s=", i ? ", " : "", k->buf[i].name);
        if (c->buf[i] == -1) {
            fx_puts(t, "null");
            continue;
        }
        put_name(t, p, c->buf[i]);
        if (c->offset[i].sym) {
            fx_puts(t, "+");
            put_factor(t, c->offset[i]);
        } else if (c->offset[i].value) {
            fx_printf(t, "%+lld", (long long)c->offset[i].value);
        }
    }
    fx_puts(t, ") {");
    for (int i = 0; i < k->n_fields; i++) {
        fx_printf(t, "%s%s=", i ? ", " : "", k->field[i].name);
        double v = c->field[i];
        if (c->sym[i])
            put_factor(t, fx_dim_sym(c->sym[i]));
        else if (!k->field[i].is_float && v >= -0x1p53 && v <= 0x1p53 && v == (double)(int64_t)v)
            fx_printf(t, "%lld", (long long)v);
        else
            fx_put_double(t, v);
    }
    fx_puts(t, "}");
    if (c->bytes_read)
        fx_printf(t, " reads=%llu", (unsigned long long)c->bytes_read);
    if (c->bytes_written)
        fx_printf(t, " writes=%llu", (unsigned long long)c->bytes_written);
    fx_puts(t, "\n");
}

static void put_indent(fx_text *t, int indent)
{
    for (int i = 0; i < indent; i++)
        fx_puts(t, "    ");
}

static void put_body(fx_text *t, const fx_program *p, const fx_stmt *s, int indent)
{
    fx_puts(t, " {\n");
    fx_stmt_print(t, p, s->body, indent + 1);
    put_indent(t, indent);
    fx_puts(t, "}\n");
}

static void put_loop(fx_text *t, const fx_stmt *s)
{
    fx_printf(t, "for v%d in ", s->var);
    fx_put_dim(t, s->extent);
    if (s->loop != FX_LOOP_SERIAL)
        fx_printf(t, " %s", (unsigned)s->loop <= FX_LOOP_THREAD ? loops[s->loop] : "?");
    if (s->loop == FX_LOOP_GRID || s->loop == FX_LOOP_BLOCK || s->loop == FX_LOOP_THREAD)
        fx_printf(t, " %s", s->axis == 0 ? "x" : s->axis == 1 ? "y" : s->axis == 2 ? "z" : "?");
    if (s->loop == FX_LOOP_GRID)
        fx_printf(t, " %d", s->threads);
    if (s->beside)
        fx_puts(t, " beside");
    if (s->aligned)
        fx_puts(t, " aligned");
    if (s->hint) {
        fx_puts(t, " ");
        fx_put_quoted(t, s->hint);
    }
}

void fx_stmt_print(fx_text *t, const fx_program *p, const fx_stmt *s, int indent)
{
    for (; s; s = s->next) {
        put_indent(t, indent);
        switch (s->kind) {
        case FX_ST_LOOP:
            put_loop(t, s);
            put_body(t, p, s, indent);
            break;
        case FX_ST_CHECK:
            fx_printf(t, "check t%d in ", s->local);
            fx_put_dim(t, s->extent);
            if (s->text) {
                fx_puts(t, " ");
                fx_put_quoted(t, s->text);
            }
            put_body(t, p, s, indent);
            break;
        case FX_ST_ARRAY:
            fx_puts(t, "array ");
            put_name(t, p, s->buf);
            fx_puts(t, "\n");
            break;
        case FX_ST_BARRIER:
            fx_puts(t, "barrier\n");
            break;
        case FX_ST_REDUCE:
            fx_printf(t, "reduce t%d %s\n", s->local, (unsigned)s->op < FX_S_COUNT ? fx_sop_name(s->op) : "?");
            break;
        case FX_ST_STORE:
            put_name(t, p, s->buf);
            fx_puts(t, "[");
            put_affine(t, &s->index);
            fx_puts(t, "] = ");
            fx_sexpr_print(t, p, s->value);
            fx_puts(t, "\n");
            break;
        case FX_ST_LOCAL:
            fx_printf(t, "local t%d = ", s->local);
            fx_sexpr_print(t, p, s->value);
            fx_puts(t, "\n");
            break;
        case FX_ST_SET:
            fx_printf(t, "t%d = ", s->local);
            fx_sexpr_print(t, p, s->value);
            fx_puts(t, "\n");
            break;
        case FX_ST_IF:
            fx_puts(t, "if ");
            for (int i = 0; i < s->n_cond; i++) {
                fx_puts(t, i ? " && " : "");
                put_affine(t, &s->cond[i]);
                fx_puts(t, " >= 0");
            }
            put_body(t, p, s, indent);
            break;
        case FX_ST_CALL:
            put_call(t, p, s->call);
            break;
        case FX_ST_COMMENT:
            fx_puts(t, "comment ");
            fx_put_quoted(t, s->text ? s->text : "");
            fx_puts(t, "\n");
            break;
        }
    }
}

/* Values of a small weight, read through a tensor over its data so that every dtype converts in one place. NaNs have payloads
 * that a decimal loses, so a weight with one is given by its hash. */
static bool put_values(fx_text *t, const fx_buf *b)
{
    enum { MOST = 64 };
    int64_t n = b->numel.value;
    if (b->numel.sym || n > MOST || n < 0)
        return false;
    fx_tensor x = {.dtype = b->dtype, .rank = 1, .sizes = {n}, .strides = {1}, .data = (void *)(uintptr_t)b->data};
    bool is_float = fx_dtype_is_float(b->dtype);
    if (b->dtype == FX_C64 || b->dtype == FX_C128)
        return false;
    for (int64_t i = 0; is_float && i < n; i++) {
        double v = fx_tensor_get(&x, i);
        if (v != v)
            return false;
    }
    fx_puts(t, " values={");
    for (int64_t i = 0; i < n; i++) {
        fx_puts(t, i ? ", " : "");
        if (b->dtype == FX_F64)
            fx_put_double(t, fx_tensor_get(&x, i));
        else if (is_float)
            fx_put_f32(t, (float)fx_tensor_get(&x, i));
        else
            fx_printf(t, "%lld", (long long)fx_tensor_get_int(&x, i));
    }
    fx_puts(t, "}");
    return true;
}

static void put_buffer(fx_text *t, const fx_program *p, const fx_buf *b)
{
    fx_printf(t, "buffer %s : %s ", b->name, (unsigned)b->kind <= FX_BUF_LOCAL ? kinds[b->kind] : "?");
    if (b->kind == FX_BUF_INPUT || b->kind == FX_BUF_OUTPUT || b->kind == FX_BUF_STATE)
        fx_printf(t, "%d ", b->io);
    put_shape(t, b->dtype, b->rank, b->dims);
    fx_dim numel = fx_dim_of(1);
    for (int i = 0; i < b->rank && i < FX_MAX_RANK; i++)
        numel = fx_dim_mul(p->ctx, numel, b->dims[i]);
    if (!fx_dim_equal(numel, b->numel)) {
        fx_puts(t, " numel=");
        fx_put_dim(t, b->numel);
    }
    if (b->slot != -1)
        fx_printf(t, " slot=%d", b->slot);
    if (b->offset)
        fx_printf(t, " offset=%llu", (unsigned long long)b->offset);
    if (b->workspace)
        fx_puts(t, " workspace");
    if (b->changed)
        fx_puts(t, " changed");
    if (b->initial != -1) {
        fx_puts(t, " initial=");
        put_name(t, p, b->initial);
    }
    if (b->overlay != -1) {
        fx_puts(t, " overlay=");
        put_name(t, p, b->overlay);
    }
    put_quoted_field(t, "note", b->note);
    put_loc(t, &b->loc);
    if (b->kind == FX_BUF_WEIGHT && !(b->data && put_values(t, b))) {
        uint64_t hash = b->data ? fx_hash_bytes(b->data, fx_buf_bytes(b)) : b->hash;
        fx_printf(t, " hash=0x%016llx", (unsigned long long)hash);
    }
    fx_puts(t, "\n");
}

static void put_io(fx_text *t, const fx_program *p, const char *word, const fx_io *io)
{
    fx_printf(t, "%s %s ", word, io->name);
    fx_put_quoted(t, io->label ? io->label : "");
    fx_puts(t, " = ");
    put_name(t, p, io->buf);
    fx_puts(t, " ");
    put_shape(t, io->dtype, io->rank, io->dims);
    fx_puts(t, "\n");
}

static void put_symbols(fx_text *t, const fx_program *p)
{
    for (size_t i = 0; i < p->n_symbols; i++) {
        const fx_sym_range *s = &p->symbols[i];
        fx_puts(t, "symbol ");
        fx_put_word(t, s->name, false);
        fx_printf(t, " in [%lld, ", (long long)s->min);
        if (s->max == INT64_MAX)
            fx_puts(t, "inf]\n");
        else
            fx_printf(t, "%lld]\n", (long long)s->max);
    }
    for (size_t i = 0; i < p->n_limits; i++) {
        fx_puts(t, "limit ");
        fx_put_dim(t, p->limits[i].value);
        fx_puts(t, " ");
        fx_put_quoted(t, p->limits[i].text ? p->limits[i].text : "");
        fx_puts(t, "\n");
    }
}

static void put_slots(fx_text *t, const fx_program *p)
{
    for (size_t i = 0; i < p->n_slots; i++) {
        fx_puts(t, "slot [");
        for (int k = 0; k < p->slots[i].n; k++) {
            fx_puts(t, k ? ", " : "");
            fx_put_dim(t, p->slots[i].bytes[k]);
        }
        fx_puts(t, "]");
        for (int k = 0; k < p->slots[i].n_above; k++)
            fx_printf(t, "%s%d", k ? ", " : " above ", p->slots[i].above[k]);
        fx_puts(t, "\n");
    }
}

void fx_program_print(fx_text *t, const fx_program *p)
{
    const fx_target *g = &p->target;
    fx_puts(t, "program ");
    fx_put_quoted(t, p->name ? p->name : "");
    put_quoted_field(t, "file", p->file);
    fx_puts(t, "\ntarget name=");
    fx_put_quoted(t, g->name ? g->name : "");
    put_quoted_field(t, "cflags", g->cflags ? g->cflags : "");
    fx_printf(t, " lanes=%d fma=%s mr=%d nr=%d l1=%lld l2=%lld pointer_bits=%d", g->lanes, g->fma ? "true" : "false", g->mr, g->nr,
              (long long)g->l1, (long long)g->l2, g->pointer_bits);
    put_quoted_field(t, "isa", g->isa ? g->isa : "");
    if (fx_target_is_gpu(g))
        fx_printf(t, " sm=%d threads=%d", g->sm, g->threads);
    uint64_t hash = 0;
    for (int i = 0; i < 8; i++)
        hash = hash << 8 | p->model_hash[i];
    fx_puts(t, "\n");
    put_symbols(t, p);
    fx_printf(t, "sizes arena=%llu weights=%llu ", (unsigned long long)p->arena_size, (unsigned long long)p->weights_size);
    if (p->state_size)
        fx_printf(t, "state=%llu ", (unsigned long long)p->state_size);
    if (p->counters_size)
        fx_printf(t, "counters=%llu ", (unsigned long long)p->counters_size);
    fx_printf(t, "live=%llu hash=0x%016llx\n", (unsigned long long)p->live_size, (unsigned long long)hash);
    put_slots(t, p);
    for (size_t i = 0; i < p->n_bufs; i++)
        put_buffer(t, p, &p->bufs[i]);
    for (size_t i = 0; i < p->n_inputs; i++)
        put_io(t, p, "input", &p->inputs[i]);
    for (size_t i = 0; i < p->n_outputs; i++)
        put_io(t, p, "output", &p->outputs[i]);
    for (size_t i = 0; i < p->n_states; i++)
        put_io(t, p, "state", &p->states[i]);
    for (size_t i = 0; i < p->n_steps; i++) {
        const fx_step *s = &p->steps[i];
        fx_printf(t, "\nstep %s", s->name);
        if (s->title) {
            fx_puts(t, " ");
            fx_put_quoted(t, s->title);
        }
        put_quoted_field(t, "shapes", s->shapes);
        if (s->flops)
            fx_printf(t, " flops=%lld", (long long)s->flops);
        if (s->region || s->stream)
            fx_printf(t, " region=%d stream=%d", s->region, s->stream);
        put_loc(t, &s->loc);
        fx_puts(t, " {\n");
        fx_stmt_print(t, p, s->body, 1);
        fx_puts(t, "}\n");
    }
}
