/* frontend/fx_text.c: .fx texts whose tensors lie in a .safetensors beside them: opened lazily, written together.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/pt2.h"

static void free_arena(void *arg)
{
    fx_arena_free(arg);
}

static fx_arena *temporary(fx_context *ctx)
{
    fx_arena *tmp = fx_arena_create(ctx);
    fx_defer(ctx, free_arena, tmp);
    return tmp;
}

/* ---- loading ---------------------------------------------------------------------------------------------------------- */

typedef struct companion {
    const char *name; /* as the text says */
    fx_safetensors *file;
    struct companion *next;
} companion;

static fx_status open_companion(fx_context *ctx, const fx_file *text, const char *name, fx_arena *tmp, companion **list, fx_safetensors **out)
{
    for (const companion *c = *list; c; c = c->next)
        if (c->name == name) {
            *out = c->file;
            return FX_OK;
        }
    fx_loc loc = {.file = text->name};
    if (!*name || strchr(name, '/') || strcmp(name, "..") == 0)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "tensors lie in a file beside the text: expected a name without folders, got '%.100s'", name);
    const char *slash = strrchr(text->name, '/');
    fx_file *f;
    FX_TRY(fx_file_map(ctx, fx_arena_printf(tmp, "%.*s%s", slash ? (int)(slash + 1 - text->name) : 0, text->name, name), &f));
    FX_TRY(fx_safetensors_open(ctx, f, out));
    companion *c = FX_NEW(tmp, companion);
    *c = (companion){.name = name, .file = *out, .next = *list};
    *list = c;
    return FX_OK;
}

/* What the text says of a tensor against what its file says. Tensors that share memory are windows on the bytes of one. */
static fx_status check_window(fx_context *ctx, const fx_file *text, const fx_attr *a, const fx_safetensor *t, bool sole)
{
    fx_loc loc = {.file = text->name};
    const fx_tensor *x = &a->tensor;
    bool same = t->dtype == x->dtype && t->rank == x->rank && memcmp(t->sizes, x->sizes, (size_t)x->rank * sizeof *x->sizes) == 0;
    if (sole && fx_tensor_is_contiguous(x) && !same)
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "'%s' has another shape or dtype in the text than in its file", a->path);
    uint64_t bytes = t->end - t->begin, offset = (uintptr_t)x->data, span = fx_window_span(x); /* the parser keeps both far below 64 bits */
    if (span && (offset > bytes || span > bytes - offset))
        return fx_fail(ctx, FX_ERR_FORMAT, &loc, "'%s' needs %llu bytes of '%s', which has %llu", a->path, (unsigned long long)(offset + span),
                       t->name, (unsigned long long)bytes);
    return FX_OK;
}

static fx_status bind(fx_graph *g, const fx_file *text)
{
    fx_context *ctx = g->ctx;
    fx_arena *tmp = temporary(ctx);
    companion *files = NULL;
    fx_groups all = {0};
    fx_tensor_groups(g, tmp, &all);
    for (size_t i = 0; i < all.n; i++) {
        fx_storage *st = all.all[i]->storage;
        fx_safetensors *file;
        if (!st->file)
            continue;
        FX_TRY(open_companion(ctx, text, st->file, tmp, &files, &file));
        const fx_safetensor *t = fx_safetensors_find(file, st->name);
        fx_loc loc = {.file = file->file->name};
        if (!t)
            return fx_fail(ctx, FX_ERR_FORMAT, &loc, "the file holds no tensor '%.200s'", st->name);
        size_t alignment = 1;
        for (size_t k = 0; k < all.all[i]->n; k++) {
            const fx_attr *a = all.all[i]->attrs[k];
            FX_TRY(check_window(ctx, text, a, t, all.all[i]->n == 1));
            alignment = fx_dtype_size(a->tensor.dtype) > alignment ? fx_dtype_size(a->tensor.dtype) : alignment;
        }
        fx_safetensors_bind(file, t, alignment, st);
    }
    return FX_OK;
}

fx_status fx_text_load(fx_context *ctx, fx_file *file, fx_graph **out)
{
    fx_graph *g;
    FX_TRY(fx_graph_parse(ctx, file->name, (const char *)file->data, file->size, &g));
    FX_TRY(fx_graph_complete(g));
    if (file->mapped)
        FX_TRY(bind(g, file));
    *out = g;
    return FX_OK;
}

/* ---- saving ------------------------------------------------------------------------------------------------------------ */

enum { FEW = 64 }; /* elements that stay in the text */

/* Whether the text keeps the tensors as they are: few elements, or only a hash is known. */
static bool stays(const fx_group *one)
{
    bool few = true, hashed = true;
    for (size_t i = 0; i < one->n; i++) {
        few &= fx_tensor_numel(&one->attrs[i]->tensor) <= FEW;
        hashed &= one->attrs[i]->hash != 0 && !one->storage->data;
    }
    return few || hashed;
}

/* One tensor of the file for a group: of the shape they all have, or the bytes they all lie in. */
static fx_safetensor_source *plan(fx_arena *tmp, const fx_group *one)
{
    const fx_tensor *first = &one->attrs[0]->tensor;
    uint64_t begin, end;
    bool same = fx_tensor_is_contiguous(first), one_dtype = true;
    for (size_t i = 0; i < one->n; i++) {
        const fx_tensor *t = &one->attrs[i]->tensor;
        one_dtype &= t->dtype == first->dtype;
        same &= t->dtype == first->dtype && t->rank == first->rank && fx_window_offset(t) == fx_window_offset(first) && fx_tensor_is_contiguous(t) &&
                memcmp(t->sizes, first->sizes, (size_t)t->rank * sizeof *t->sizes) == 0;
    }
    fx_group_extent(one, &begin, &end);
    fx_safetensor_source *s = FX_NEW(tmp, fx_safetensor_source);
    s->storage = one->storage;
    s->offset = begin;
    s->is = (fx_safetensor){.name = one->attrs[0]->path, .dtype = one_dtype ? first->dtype : FX_U8, .rank = 1};
    if (same) {
        s->is.rank = first->rank;
        memcpy(s->is.sizes, first->sizes, sizeof first->sizes);
    } else {
        s->is.sizes[0] = (int64_t)((end - begin) / fx_dtype_size(s->is.dtype));
    }
    s->is.end = end - begin;
    return s;
}

/* In a copy of the graph, whose storages are the graph's, those that go to the file give way to ones that say so. */
static void point_at_file(fx_context *ctx, const fx_group *one, const fx_safetensor_source *s, const char *file)
{
    fx_storage *st = fx_storage_lazy(ctx, (size_t)s->is.end, NULL, NULL, NULL, s->is.name);
    st->file = file;
    for (size_t i = 0; i < one->n; i++) {
        fx_tensor *t = &one->attrs[i]->tensor;
        t->data = (void *)(uintptr_t)(fx_window_offset(t) - s->offset);
        t->storage = st;
    }
}

/* "dir/net.fx" -> "dir/net.safetensors". */
static const char *companion_path(fx_context *ctx, const char *path)
{
    return fx_intern_f(ctx, "%.*s.safetensors", (int)(strlen(path) - strlen(".fx")), path);
}

fx_status fx_text_save(const fx_graph *g, const char *path)
{
    fx_context *ctx = g->ctx;
    fx_arena *tmp = temporary(ctx);
    fx_graph *copy = fx_graph_copy(g);
    fx_defer(ctx, free_arena, copy->arena);
    const char *beside = companion_path(ctx, path), *slash = strrchr(beside, '/');
    const char *name = fx_intern(ctx, slash ? slash + 1 : beside);
    fx_groups all = {0};
    fx_tensor_groups(copy, tmp, &all);
    fx_safetensor_source **tensors = FX_NEW_ARRAY(tmp, fx_safetensor_source *, all.n);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++) {
        if (stays(all.all[i]))
            continue;
        tensors[n] = plan(tmp, all.all[i]);
        point_at_file(ctx, all.all[i], tensors[n], name);
        n++;
    }
    fx_text text;
    fx_text_init(&text, tmp);
    fx_graph_print(&text, copy);
    for (size_t i = 0; i < all.n; i++) {
        fx_storage *st = all.all[i]->attrs[0]->tensor.storage;
        if (st != all.all[i]->storage)
            fx_storage_free(st);
    }
    fx_output *out, *weights = NULL;
    FX_TRY(fx_output_open(ctx, path, &out));
    FX_TRY(fx_output_text(out, &text));
    FX_TRY(fx_output_close(out));
    if (n) {
        FX_TRY(fx_output_open(ctx, beside, &weights));
        FX_TRY(fx_safetensors_write(weights, n, tensors));
        FX_TRY(fx_output_close(weights));
        FX_TRY(fx_output_commit(weights));
    }
    return fx_output_commit(out);
}
