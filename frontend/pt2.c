/* frontend/pt2.c: .pt2 archives of torch.export.save: which entries there are, which versions wrote them; then the program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

enum { SCHEMA_MAJOR = 8 };

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static const fx_zip_entry *entry_ending(const fx_zip *zip, const char *end)
{
    for (size_t i = 0; i < zip->n; i++)
        if (ends_with(zip->entries[i].name, end))
            return &zip->entries[i];
    return NULL;
}

/* An archive without archive_format: what else could it be? */
static fx_status not_pt2(fx_pt2 *p)
{
    const char *what = "an unknown zip";
    if (entry_ending(p->zip, "serialized_exported_program.json"))
        what = "a .pt2 of torch older than 2.8; save again with torch 2.9 or later (torch.export.save)";
    else if (entry_ending(p->zip, "/constants.pkl"))
        what = "TorchScript (torch.jit.save); export with torch.export and save with torch.export.save";
    else if (entry_ending(p->zip, "/data.pkl"))
        what = "a pickle (torch.save); save with torch.export.save(torch.export.export(model, inputs), path)";
    else if (entry_ending(p->zip, ".npy"))
        what = "NumPy arrays (.npz)";
    return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "expected a .pt2 of torch.export.save, got %s", what);
}

/* Reads a small text entry under the root; *out NULL when it is missing. */
static fx_status small_text(fx_pt2 *p, const char *name, const char **out)
{
    const fx_zip_entry *e = fx_zip_find(p->zip, fx_arena_printf(p->tmp, "%s%s", p->root, name));
    const unsigned char *data;
    *out = NULL;
    if (!e)
        return FX_OK;
    fx_loc loc = {.file = p->r.loc.file, .entry = e->name};
    if (e->size > 64)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &loc, "expected a word, got %llu bytes", (unsigned long long)e->size);
    FX_TRY(fx_zip_read(p->zip, e, p->tmp, 1, &data));
    size_t n = (size_t)e->size;
    while (n && (data[n - 1] == '\n' || data[n - 1] == ' '))
        n--;
    if (memchr(data, 0, n))
        return fx_fail(p->ctx, FX_ERR_FORMAT, &loc, "expected a word, got a zero byte");
    *out = fx_intern_n(p->ctx, (const char *)data, n);
    return FX_OK;
}

/* Everything lies in one folder, named after the file as it was saved. */
static fx_status find_root(fx_pt2 *p)
{
    const fx_zip_entry *e = entry_ending(p->zip, "archive_format");
    size_t n = e ? strlen(e->name) - strlen("archive_format") : 0;
    if (!e || (n && e->name[n - 1] != '/') || (n && memchr(e->name, '/', n - 1)))
        return not_pt2(p);
    p->root = fx_intern_n(p->ctx, e->name, n);
    for (size_t i = 0; i < p->zip->n; i++)
        if (strncmp(p->zip->entries[i].name, p->root, n) != 0)
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected all entries in the folder '%s', got '%s'", p->root,
                           p->zip->entries[i].name);
    return FX_OK;
}

static fx_status check_archive(fx_pt2 *p)
{
    const char *format, *version, *order;
    FX_TRY(small_text(p, "archive_format", &format));
    if (strcmp(format, "pt2") != 0)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "expected archive_format 'pt2', got '%s'", format);
    FX_TRY(small_text(p, "archive_version", &version));
    if (!version || strcmp(version, "0") != 0)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "expected archive_version 0, got %s", version ? version : "none");
    FX_TRY(small_text(p, "byteorder", &order));
    const char *host = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big";
    if (order && strcmp(order, host) != 0)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "expected weights in %s byte order, got '%s'", host, order);
    return FX_OK;
}

/* models/NAME.json: exactly one. */
static fx_status find_model(fx_pt2 *p)
{
    const char *folder = fx_arena_printf(p->tmp, "%smodels/", p->root);
    size_t n = strlen(folder);
    for (size_t i = 0; i < p->zip->n; i++) {
        const char *name = p->zip->entries[i].name;
        if (strncmp(name, folder, n) != 0 || !ends_with(name + n, ".json"))
            continue;
        if (p->model)
            return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "the archive holds several models ('%s' and '%s'); expected one",
                           p->model_entry, name);
        p->model_entry = name;
        p->model = fx_intern_n(p->ctx, name + n, strlen(name + n) - 5);
    }
    if (!p->model) {
        bool compiled = false;
        for (size_t i = 0; i < p->zip->n; i++)
            compiled |= strstr(p->zip->entries[i].name, "/data/aotinductor/") != NULL;
        return fx_fail(p->ctx, compiled ? FX_ERR_UNSUPPORTED : FX_ERR_FORMAT, &p->r.loc, "the archive has no models/NAME.json%s",
                       compiled ? ": it holds code compiled by AOTInductor, not a graph" : "");
    }
    p->weights_entry = fx_intern_f(p->ctx, "%sdata/weights/%s_weights_config.json", p->root, p->model);
    p->constants_entry = fx_intern_f(p->ctx, "%sdata/constants/%s_constants_config.json", p->root, p->model);
    return FX_OK;
}

static fx_status read_json(fx_pt2 *p, const fx_zip_entry *e, const fx_json_value **out)
{
    const unsigned char *data;
    p->r.loc.entry = e->name;
    FX_TRY(fx_zip_read(p->zip, e, p->tmp, 1, &data));
    return fx_json_parse(&p->r, p->tmp, (const char *)data, (size_t)e->size, out);
}

static fx_status read_schema(fx_pt2 *p, const fx_json_value *program)
{
    const fx_json_value *version, *writer;
    int64_t major, minor;
    FX_TRY(fx_json_object(&p->r, program, "schema_version", &version));
    FX_TRY(fx_json_int(&p->r, version, "major", &major));
    FX_TRY(fx_json_int(&p->r, version, "minor", &minor));
    FX_TRY(fx_json_optional(&p->r, program, "torch_version", &writer));
    p->torch_version = fx_json_is(writer, FX_JSON_STRING) ? fx_intern(p->ctx, fx_json_text(writer)) : "unknown";
    if (major != SCHEMA_MAJOR)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc, "expected export schema %d, got %lld.%lld (torch %s)%s", SCHEMA_MAJOR,
                       (long long)major, (long long)minor, p->torch_version,
                       major < SCHEMA_MAJOR ? "; save again with torch 2.9 or later (torch.export.save)" : "; this fxcc is too old for it");
    FX_TRY(fx_json_object(&p->r, program, "range_constraints", &p->ranges));
    return FX_OK;
}

/* The table of stored tensors. torch 2.8 pickled them all into one file instead. */
static fx_status read_config(fx_pt2 *p, const char *name, const char *folder, const fx_json_value **config)
{
    const fx_json_value *root;
    const fx_zip_entry *e = fx_zip_find(p->zip, name);
    if (!e) {
        const char *pickle = fx_intern_f(p->ctx, "%sdata/%s/%s.pt", p->root, folder, p->model);
        p->r.loc.entry = name;
        if (!fx_zip_find(p->zip, pickle))
            return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "the archive lacks this entry");
        p->r.loc.entry = pickle;
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &p->r.loc,
                       "torch %s pickled the %s, and fxcc never unpickles; load and save again with torch 2.9 or later: "
                       "torch.export.save(torch.export.load(path), path)", p->torch_version, folder);
    }
    FX_TRY(read_json(p, e, &root));
    return fx_json_object(&p->r, root, "config", config);
}

static fx_status load(fx_pt2 *p)
{
    const fx_json_value *program, *graph_module;
    FX_TRY(find_root(p));
    FX_TRY(check_archive(p));
    FX_TRY(find_model(p));
    FX_TRY(read_json(p, fx_zip_find(p->zip, p->model_entry), &program));
    FX_TRY(read_schema(p, program));
    FX_TRY(read_config(p, p->weights_entry, "weights", &p->weights));
    FX_TRY(read_config(p, p->constants_entry, "constants", &p->constants));
    p->r.loc.entry = p->model_entry;
    size_t n = strlen(p->root);
    const char *name = n > 1 ? fx_intern_n(p->ctx, p->root, n - 1) : p->model;
    p->graph = fx_graph_new(p->ctx, name);
    p->graph->file = p->r.loc.file;
    p->graph->stage = FX_STAGE_IMPORTED;
    p->storages = FX_NEW_ARRAY(p->tmp, fx_storage *, p->zip->n);
    FX_TRY(fx_json_object(&p->r, program, "graph_module", &graph_module));
    FX_TRY(fx_pt2_program(p, graph_module));
    if (p->foreign_device)
        fx_remark(p->ctx, &p->r.loc, "the model was exported on device '%s'; it is compiled for the CPU all the same", p->foreign_device);
    return fx_graph_verify(p->graph, FX_STAGE_IMPORTED, "import");
}

static void free_arena(void *arg)
{
    fx_arena_free(arg);
}

fx_status fx_pt2_load(fx_context *ctx, fx_file *file, fx_graph **out)
{
    fx_arena *tmp = fx_arena_create(ctx);
    fx_defer(ctx, free_arena, tmp);
    fx_pt2 p = {.ctx = ctx, .tmp = tmp, .r = {.ctx = ctx, .loc = {.file = file->name}}};
    FX_TRY(fx_zip_open(ctx, file, &p.zip));
    FX_TRY(load(&p));
    *out = p.graph;
    return FX_OK;
}
