/* ir/module_class.c: the classes of torch.nn expanded from module_class.def, and modules' settings.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

const fx_class fx_classes[FX_MODULE_COUNT] = {
#define CLASS(name, file, flags, settings) \
    [FX_MODULE_##name] = {FX_MODULE_##name, "torch.nn.modules." file "." #name, "torch.nn." #name, flags, settings},
#define FUSED(name) \
    [FX_MODULE_##name] = {FX_MODULE_##name, "torch.ao.nn.intrinsic.modules.fused." #name, "torch.ao.nn.intrinsic." #name, FX_MODULE_CHAIN, "()"},
#include "ir/module_class.def"
#undef CLASS
#undef FUSED
};

const fx_class *fx_class_find(const char *class_name)
{
    for (int i = 1; class_name && i < FX_MODULE_COUNT; i++)
        if (strcmp(fx_classes[i].name, class_name) == 0 || strcmp(fx_classes[i].short_name, class_name) == 0)
            return &fx_classes[i];
    return NULL;
}

const fx_schema *fx_class_schema(fx_context *ctx, const fx_class *c)
{
    if (!ctx->class_schemas[c->id])
        ctx->class_schemas[c->id] = fx_schema_parse(ctx, c->settings, c->name);
    return ctx->class_schemas[c->id];
}

const fx_class *fx_module_class_of(const fx_module *m)
{
    fx_context *ctx = m->graph->ctx;
    if (!m->class_name)
        return NULL;
    const char *name = m->class_name; /* interned, as all names of classes */
    const fx_class *c = fx_map_get(&ctx->classes, name);
    if (!c) {
        c = fx_class_find(name);
        fx_map_put(ctx->arena, &ctx->classes, name, (void *)(c ? c : &fx_classes[FX_MODULE_NONE]));
    }
    return c && c->id != FX_MODULE_NONE ? c : NULL;
}

fx_module *fx_module_layer(const fx_module *m)
{
    const fx_class *c = m->body ? NULL : fx_module_class_of(m);
    bool fused = c && c->flags & FX_MODULE_CHAIN && c->id != FX_MODULE_Sequential && m->n_children > 0;
    return fused ? m->children[0] : (fx_module *)m;
}

const fx_arg *fx_module_config(const fx_module *m, const char *key)
{
    fx_context *ctx = m->graph->ctx;
    const fx_class *c = fx_module_class_of(m);
    const fx_schema *s = c ? fx_class_schema(ctx, c) : NULL;
    const fx_param *p = NULL;
    const char *got;
    for (int i = 0; s && i < s->n; i++)
        if (fx_same_key(s->params[i].name, key))
            p = &s->params[i];
    for (int i = 0; m->config && i < m->config->n; i++)
        if (fx_same_key(m->config->keys[i], key)) {
            const fx_arg *a = m->config->items[i], *v = p ? fx_param_fit(ctx, p, a, &got) : a;
            return v ? v : a;
        }
    if (p)
        return p->def;
    return c && strcmp(key, "training") == 0 ? fx_arg_bool(ctx, false) : NULL;
}
