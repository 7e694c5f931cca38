/* frontend/pt2_weights.c: stored tensors. An entry holds one whole storage, raw; the config says which window of it a tensor is.
 * Tensors that shared a storage in PyTorch share the entry, and the fx_storage. Nothing is read until touched.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

/* What a lazy storage needs to be brought in. */
typedef struct source {
    const fx_zip *zip;
    const fx_zip_entry *entry;
} source;

enum { ALIGN = 16 };

/* First use: compares the checksum, then points into the mapping (16-byte aligned payloads, as torch writes them) or copies. */
static fx_status touch(fx_storage *st)
{
    const source *s = st->user;
    const unsigned char *data;
    FX_TRY(fx_zip_read(s->zip, s->entry, fx_context_arena(st->ctx), ALIGN, &data));
    st->data = (void *)(uintptr_t)data;
    return FX_OK;
}

/* The same where somebody read all of the mapping and has its checksum. */
static fx_status check(fx_storage *st, uint32_t crc)
{
    const source *s = st->user;
    FX_TRY(fx_zip_check(s->zip, s->entry, crc));
    st->data = (void *)(uintptr_t)st->unchecked;
    st->touch = NULL;
    return FX_OK;
}

static void release(fx_storage *st)
{
    const source *s = st->user;
    fx_file_drop(s->zip->file);
}

static fx_storage *entry_storage(fx_pt2 *p, const fx_zip_entry *e)
{
    size_t i = (size_t)(e - p->zip->entries);
    if (!p->storages[i]) {
        source *s = FX_NEW(fx_context_arena(p->ctx), source);
        *s = (source){.zip = p->zip, .entry = e};
        fx_storage *st = fx_storage_lazy(p->ctx, (size_t)e->size, touch, release, s, e->name);
        st->readonly = true;
        st->unchecked = fx_zip_peek(p->zip, e, ALIGN);
        st->check = check;
        fx_file_hold(p->zip->file);
        p->storages[i] = st;
    }
    return p->storages[i];
}

/* The last byte of the window must lie in the storage. Sizes and strides are known to be at least 0. */
static fx_status check_window(fx_pt2 *p, const fx_type *type, int64_t offset, uint64_t have)
{
    int64_t last = offset, span;
    bool empty = false, overflow = offset < 0;
    for (int i = 0; i < type->rank; i++)
        empty |= type->dims[i].value == 0;
    for (int i = 0; i < type->rank && !empty; i++)
        overflow |= __builtin_mul_overflow(type->dims[i].value - 1, type->strides[i].value, &span) ||
                    __builtin_add_overflow(last, span, &last);
    int64_t bytes;
    overflow |= __builtin_add_overflow(last, empty ? 0 : 1, &bytes) ||
                __builtin_mul_overflow(bytes, (int64_t)fx_dtype_size(type->dtype), &bytes);
    if (overflow)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "sizes, strides and storage offset overflow 64 bits");
    if (!empty && (uint64_t)bytes > have)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &p->r.loc, "the tensor needs %lld bytes of its storage, which has %llu",
                       (long long)bytes, (unsigned long long)have);
    return FX_OK;
}

fx_status fx_pt2_tensor(fx_pt2 *p, bool constant, const char *fqn, fx_tensor *out)
{
    const fx_json *r = &p->r;
    const char *folder = constant ? "constants" : "weights", *path;
    bool pickled;
    const fx_json_value *meta = fx_json_get(constant ? p->constants : p->weights, fqn), *tensor_meta;
    p->r.loc.entry = constant ? p->constants_entry : p->weights_entry;
    if (!meta)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &r->loc, "the file holds no %s '%s'", constant ? "constant" : "weight", fqn);
    FX_TRY(fx_json_string(r, meta, "path_name", &path));
    FX_TRY(fx_json_bool(r, meta, "use_pickle", &pickled));
    p->r.loc.entry = fx_intern_f(p->ctx, "%sdata/%s/%s", p->root, folder, path);
    if (pickled)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &r->loc,
                       "'%s' is pickled (a tensor subclass or an object); fxcc never unpickles: export plain tensors", fqn);
    FX_TRY(fx_json_object(r, meta, "tensor_meta", &tensor_meta));
    const fx_type *type;
    fx_dim offset;
    FX_TRY(fx_pt2_tensor_meta(p, p->graph, tensor_meta, &type, &offset));
    bool symbolic = offset.sym != NULL;
    for (int i = 0; i < type->rank; i++)
        symbolic |= type->dims[i].sym || type->strides[i].sym;
    if (symbolic)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &r->loc, "'%s': expected numbers as sizes, strides and storage offset, got symbols", fqn);
    const fx_zip_entry *e = fx_zip_find(p->zip, r->loc.entry);
    if (!e)
        return fx_fail(p->ctx, FX_ERR_FORMAT, &r->loc, "the archive lacks this entry, which holds '%s'", fqn);
    FX_TRY(check_window(p, type, offset.value, e->size));
    *out = (fx_tensor){.dtype = type->dtype, .rank = type->rank};
    bool empty = false;
    for (int i = 0; i < type->rank; i++) {
        out->sizes[i] = type->dims[i].value;
        out->strides[i] = type->strides[i].value;
        empty |= out->sizes[i] == 0;
    }
    out->storage = entry_storage(p, e);
    /* ir.h: the byte offset, until fx_tensor_touch. An empty tensor's offset may point past its storage. */
    out->data = (void *)(uintptr_t)(empty ? 0 : (uint64_t)offset.value * fx_dtype_size(type->dtype));
    return FX_OK;
}
