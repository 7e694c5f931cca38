/* passes/quantize_nodes.c: pairs of quantize and dequantize nodes where values are to be integers (convert_to_reference_fx, decomposed).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "passes/quantize.h"

typedef struct converting {
    fx_pass_run *run;
    fx_dtype dtype;
    int64_t min, max;
    bool symmetric;
} converting;

bool fx_observer_range(fx_graph *g, const fx_module *m, double *min, double *max)
{
    double *out[] = {min, max};
    static const char *const names[] = {"min_val", "max_val"};
    for (int i = 0; i < 2; i++) {
        fx_attr *a = m ? fx_attr_find(g, fx_intern_f(g->ctx, "%s.%s", m->path, names[i])) : NULL;
        if (!a || fx_tensor_numel(&a->tensor) != 1 || fx_tensor_touch(g->ctx, &a->tensor) != FX_OK)
            return false;
        *out[i] = fx_tensor_get(&a->tensor, 0);
    }
    return isfinite(*min) && isfinite(*max) && *min <= *max;
}

/* As torch.ao's observers: the range always holds 0, which is then exact; in float. */
static void from_range(const converting *c, double least, double greatest, double *scale, int64_t *zero)
{
    float low = fminf((float)least, 0), high = fmaxf((float)greatest, 0), s;
    if (c->symmetric) {
        s = fmaxf(-low, high) / ((float)(c->max - c->min) / 2);
        *zero = c->dtype == FX_U8 ? 128 : 0;
        *scale = fmaxf(s, FLT_EPSILON);
        return;
    }
    s = fmaxf((high - low) / (float)(c->max - c->min), FLT_EPSILON);
    double z = (double)c->min - (double)rintf(low / s);
    *zero = (int64_t)(z < (double)c->min ? (double)c->min : z > (double)c->max ? (double)c->max : z);
    *scale = s;
}

static bool note(const fx_node *n, const char *key, double *v)
{
    const char *interned = fx_intern(n->graph->ctx, key);
    for (const fx_meta *m = n->meta; m; m = m->next)
        if (m->key == interned && (m->value->kind == FX_ARG_FLOAT || m->value->kind == FX_ARG_INT)) {
            *v = m->value->kind == FX_ARG_FLOAT ? m->value->f : (double)m->value->i;
            return true;
        }
    return false;
}

/* From the value's notes, the observer, the options, in this order. */
static fx_status parameters(const converting *c, const fx_node *value, const fx_module *observer, double *scale, int64_t *zero)
{
    fx_context *ctx = c->run->ctx;
    double z = 0, min, max;
    if (note(value, "scale", scale)) {
        note(value, "zero_point", &z);
        *zero = (int64_t)z;
    } else if (fx_observer_range(c->run->graph, observer, &min, &max)) {
        from_range(c, min, max, scale, zero);
    } else {
        *scale = fx_pass_float(c->run, "scale");
        *zero = fx_pass_int(c->run, "zero_point");
        if (*scale == 0)
            return fx_fail(ctx, FX_ERR_ARGUMENT, &value->loc, "no scale is known for '%s': expected a note \"scale\" on it, an observer that has "
                           "seen values, or the option scale", value->name);
    }
    if (!(*scale > 0) || !isfinite(*scale))
        return fx_fail(ctx, FX_ERR_ARGUMENT, &value->loc, "expected a scale above 0 for '%s', got %g", value->name, *scale);
    if (*zero < c->min || *zero > c->max || z != floor(z))
        return fx_fail(ctx, FX_ERR_ARGUMENT, &value->loc, "expected a zero point from %lld to %lld for '%s', got %lld", (long long)c->min,
                       (long long)c->max, value->name, (long long)*zero);
    return FX_OK;
}

static fx_node *call(const converting *c, fx_opid op, fx_node *x, double scale, int64_t zero, fx_dtype result, const char *name)
{
    fx_graph *g = c->run->graph;
    fx_context *ctx = g->ctx;
    const fx_arg *args[7] = {fx_arg_operand(ctx, 0), fx_arg_float(ctx, scale), fx_arg_int(ctx, zero), fx_arg_int(ctx, c->min),
                             fx_arg_int(ctx, c->max), fx_arg_dtype(ctx, c->dtype), fx_arg_none(ctx)};
    int n_args = op == FX_OP_quantize_per_tensor || g->stage == FX_STAGE_CAPTURED ? 6 : 7;
    fx_node *n = fx_node_new(g, FX_CALL_FUNCTION, fx_ops[op].name, fx_arg_seq(ctx, FX_ARG_TUPLE, n_args, args), NULL, 1, &x, name);
    if (x->type)
        n->type = fx_type_tensor(ctx, result, x->type->rank, x->type->dims, NULL);
    return n;
}

static fx_node *pair(converting *c, fx_node *value, const fx_module *observer, fx_status *status)
{
    double scale = 0;
    int64_t zero = 0;
    *status = parameters(c, value, observer, &scale, &zero);
    if (*status != FX_OK)
        return NULL;
    fx_node *q = call(c, FX_OP_quantize_per_tensor, value, scale, zero, c->dtype, "quantize_per_tensor");
    fx_node *d = call(c, FX_OP_dequantize_per_tensor, q, scale, zero, FX_F32, "dequantize_per_tensor");
    q->loc.module = d->loc.module = value->loc.module;
    q->loc.frame = d->loc.frame = value->loc.frame;
    fx_pass_note(c->run, value, "quantised: scale %g, zero point %lld", scale, (long long)zero);
    return d;
}

static fx_node *make_pair(void *user, fx_node *value, fx_status *status)
{
    return pair(user, value, NULL, status);
}

/* Observers give way to pairs. *any: there were some. */
static fx_status convert_observers(converting *c, bool *any)
{
    fx_graph *g = c->run->graph;
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(g, n->target) : NULL;
        if (!fx_module_is_observer(m) || n->n_operands != 1)
            continue;
        fx_status status = FX_OK;
        *any = true;
        g->insert_before = n;
        fx_node *by = pair(c, n->operands[0].def, m, &status);
        g->insert_before = NULL;
        if (!by)
            return status;
        fx_node_replace_uses(n, by);
        FX_TRY(fx_node_erase(n));
    }
    return FX_OK;
}

fx_status fx_gpass_insert_quantize_dequantize(fx_pass_run *run)
{
    static const struct {
        const char *name;
        fx_dtype dtype;
        int64_t min, max;
    } dtypes[] = {{"int8", FX_I8, -128, 127}, {"uint8", FX_U8, 0, 255}, {"int16", FX_I16, -32768, 32767}};
    converting c = {.run = run, .symmetric = fx_pass_bool(run, "symmetric")};
    const char *want = fx_pass_str(run, "dtype");
    bool any = false;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, want)) {
            c.dtype = dtypes[i].dtype;
            c.min = dtypes[i].min;
            c.max = dtypes[i].max;
        }
    if (!c.max)
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "insert_quantize_dequantize: expected dtype=int8, uint8 or int16, got '%s'", want);
    if (run->graph->stage == FX_STAGE_CORE)
        run->graph->stage = FX_STAGE_FUNCTIONAL;
    FX_TRY(convert_observers(&c, &any));
    return any ? FX_OK : fx_quantize_values(&(fx_quantizer){run->graph, run->scratch, make_pair, &c});
}
