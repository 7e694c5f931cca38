/* ir/npy.c: NumPy's files: .npy (formats 1.0 to 3.0, little endian, both orders) and .npz (a zip of them).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <minizip/unzip.h>

#include "ir/ir.h"

/* Where the bytes of one array come from. Reads exactly n bytes or says false. */
typedef struct source {
    fx_context *ctx;
    fx_loc loc;
    bool (*read)(void *from, void *to, size_t n);
    void *from;
    uint64_t left; /* bytes that are still there */
} source;

static const struct {
    const char *descr;
    fx_dtype dtype;
} descrs[] = {
    {"<f4", FX_F32}, {"<f8", FX_F64}, {"<f2", FX_F16}, {"|i1", FX_I8},   {"<i2", FX_I16}, {"<i4", FX_I32},
    {"<i8", FX_I64}, {"|u1", FX_U8},  {"|b1", FX_BOOL}, {"<c8", FX_C64}, {"<c16", FX_C128},
};

enum { N_DESCRS = sizeof descrs / sizeof descrs[0] };

static fx_status take(source *src, void *to, size_t n, const char *what)
{
    if (n > src->left)
        return fx_fail(src->ctx, FX_ERR_FORMAT, &src->loc, "expected %zu bytes of %s, the file has %llu left", n, what,
                       (unsigned long long)src->left);
    if (n && !src->read(src->from, to, n))
        return fx_fail(src->ctx, FX_ERR_IO, &src->loc, "the %s cannot be read", what);
    src->left -= n;
    return FX_OK;
}

/* ---- the header: a Python dict such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ---------------------- */

typedef struct dict {
    source *src;
    const char *at, *end;
    fx_dtype dtype;
    bool fortran;
    int rank;
    int64_t sizes[FX_MAX_RANK];
} dict;

static void blanks(dict *d)
{
    while (d->at < d->end && (*d->at == ' ' || *d->at == '\n' || *d->at == '\t' || *d->at == '\r'))
        d->at++;
}

static bool accept(dict *d, const char *text)
{
    size_t n = strlen(text);
    blanks(d);
    if ((size_t)(d->end - d->at) < n || memcmp(d->at, text, n) != 0)
        return false;
    d->at += n;
    return true;
}

static fx_status malformed(dict *d, const char *expected)
{
    size_t n = (size_t)(d->end - d->at) < 24 ? (size_t)(d->end - d->at) : 24;
    char seen[25];
    for (size_t i = 0; i < n; i++)
        seen[i] = d->at[i] >= 32 && d->at[i] < 127 ? d->at[i] : '?';
    seen[n] = 0;
    return fx_fail(d->src->ctx, FX_ERR_FORMAT, &d->src->loc, "header: expected %s, got '%s'", expected, seen);
}

/* A string in single or double quotes without escapes. */
static bool quoted(dict *d, char *to, size_t size)
{
    blanks(d);
    if (d->at >= d->end || (*d->at != '\'' && *d->at != '"'))
        return false;
    const char *close = memchr(d->at + 1, *d->at, (size_t)(d->end - d->at - 1));
    if (!close || (size_t)(close - d->at) > size || memchr(d->at, '\\', (size_t)(close - d->at)))
        return false;
    size_t n = (size_t)(close - d->at - 1);
    memcpy(to, d->at + 1, n);
    to[n] = 0;
    d->at = close + 1;
    return strlen(to) == n;
}

static fx_status read_descr(dict *d)
{
    char text[16];
    source *src = d->src;
    blanks(d);
    if (d->at < d->end && *d->at == '[')
        return fx_fail(src->ctx, FX_ERR_UNSUPPORTED, &src->loc, "arrays of structs are not supported, expected a plain element type");
    if (!quoted(d, text, sizeof text))
        return malformed(d, "an element type such as '<f4'");
    for (int i = 0; i < N_DESCRS; i++) {
        if (strcmp(text, descrs[i].descr) == 0) {
            d->dtype = descrs[i].dtype;
            return FX_OK;
        }
    }
    if (strchr(text, 'O'))
        return fx_fail(src->ctx, FX_ERR_UNSUPPORTED, &src->loc, "arrays of Python objects are pickles, which are never read");
    return fx_fail(src->ctx, FX_ERR_UNSUPPORTED, &src->loc,
                   "expected little-endian bool, int8-64, uint8, float16-64 or complex elements, got '%s'", text);
}

static fx_status read_shape(dict *d)
{
    if (!accept(d, "("))
        return malformed(d, "a shape in parentheses");
    while (!accept(d, ")")) {
        int64_t v = 0;
        blanks(d);
        const char *first = d->at;
        while (d->at < d->end && *d->at >= '0' && *d->at <= '9') {
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *d->at - '0', &v)) {
                d->at = first;
                return malformed(d, "a size of 64 bits");
            }
            d->at++;
        }
        if (d->at == first)
            return malformed(d, "a size");
        if (d->rank == FX_MAX_RANK)
            return fx_fail(d->src->ctx, FX_ERR_UNSUPPORTED, &d->src->loc, "expected at most %d dimensions", FX_MAX_RANK);
        d->sizes[d->rank++] = v;
        bool comma = accept(d, ",");
        /* (3) is a number to Python; a shape of one size is (3,). */
        blanks(d);
        if (!comma && (d->rank == 1 || d->at >= d->end || *d->at != ')'))
            return malformed(d, "',' in the shape");
    }
    return FX_OK;
}

static fx_status read_dict(dict *d)
{
    bool seen[3] = {false};
    if (!accept(d, "{"))
        return malformed(d, "'{'");
    while (!accept(d, "}")) {
        static const char *const names[3] = {"descr", "fortran_order", "shape"};
        char key[16];
        int k = 0;
        if (!quoted(d, key, sizeof key))
            return malformed(d, "a key");
        while (k < 3 && strcmp(key, names[k]) != 0)
            k++;
        if (k == 3 || seen[k])
            return fx_fail(d->src->ctx, FX_ERR_FORMAT, &d->src->loc, "header: expected descr, fortran_order and shape once each, got '%s'%s",
                           key, k == 3 ? "" : " again");
        seen[k] = true;
        if (!accept(d, ":"))
            return malformed(d, "':'");
        if (k == 0)
            FX_TRY(read_descr(d));
        else if (k == 2)
            FX_TRY(read_shape(d));
        else if (accept(d, "True"))
            d->fortran = true;
        else if (!accept(d, "False"))
            return malformed(d, "True or False");
        blanks(d);
        if (!accept(d, ",") && (d->at >= d->end || *d->at != '}'))
            return malformed(d, "',' or '}'");
    }
    blanks(d);
    if (d->at != d->end)
        return malformed(d, "the end of the header");
    if (!seen[0] || !seen[1] || !seen[2])
        return fx_fail(d->src->ctx, FX_ERR_FORMAT, &d->src->loc, "header: expected descr, fortran_order and shape, one is missing");
    return FX_OK;
}

/* ---- one array ----------------------------------------------------------------------------------------------------------- */

static fx_status read_array(source *src, fx_tensor *out)
{
    enum { LONGEST_HEADER = 65536 + 64 };
    unsigned char magic[8], length[4] = {0};
    FX_TRY(take(src, magic, sizeof magic, "the .npy magic"));
    if (memcmp(magic, "\x93NUMPY", 6) != 0)
        return fx_fail(src->ctx, FX_ERR_FORMAT, &src->loc, "expected a NumPy array (it begins with \\x93NUMPY)");
    if (magic[6] < 1 || magic[6] > 3 || magic[7] != 0)
        return fx_fail(src->ctx, FX_ERR_UNSUPPORTED, &src->loc, "expected .npy format 1.0, 2.0 or 3.0, got %d.%d", magic[6], magic[7]);
    FX_TRY(take(src, length, magic[6] == 1 ? 2 : 4, "the header's length"));
    uint32_t n = (uint32_t)length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 | (uint32_t)length[3] << 24;
    if (n > LONGEST_HEADER)
        return fx_fail(src->ctx, FX_ERR_FORMAT, &src->loc, "expected a header of at most %d bytes, got %u", LONGEST_HEADER, n);
    char *header = fx_arena_alloc(fx_context_arena(src->ctx), n + 1);
    FX_TRY(take(src, header, n, "the header"));
    dict d = {.src = src, .at = header, .end = header + n};
    FX_TRY(read_dict(&d));

    int64_t bytes = (int64_t)fx_dtype_size(d.dtype);
    bool empty = false, overflow = false;
    for (int i = 0; i < d.rank; i++) {
        empty |= d.sizes[i] == 0;
        if (d.sizes[i] != 0)
            overflow |= __builtin_mul_overflow(bytes, d.sizes[i], &bytes);
    }
    if (overflow)
        return fx_fail(src->ctx, FX_ERR_FORMAT, &src->loc, "the sizes in the header multiply to more than 64 bits");
    if (empty)
        bytes = 0;
    if ((uint64_t)bytes != src->left)
        return fx_fail(src->ctx, FX_ERR_FORMAT, &src->loc, "expected %lld bytes of elements as the header says, got %llu",
                       (long long)bytes, (unsigned long long)src->left);
    fx_tensor t = {.dtype = d.dtype, .rank = d.rank, .storage = fx_storage_new(src->ctx, (size_t)bytes)};
    t.data = t.storage->data;
    int64_t stride = 1;
    for (int i = 0; i < d.rank; i++) {
        int at = d.fortran ? i : d.rank - 1 - i;
        t.sizes[at] = d.sizes[at];
        t.strides[at] = stride;
        stride *= d.sizes[at] > 1 && !empty ? d.sizes[at] : 1;
    }
    FX_TRY(take(src, t.data, (size_t)bytes, "elements"));
    /* Any byte but 0 counts as true to NumPy; here only 0 and 1 stand for bools. */
    for (int64_t i = 0; d.dtype == FX_BOOL && i < bytes; i++)
        ((uint8_t *)t.data)[i] = ((uint8_t *)t.data)[i] != 0;
    *out = t;
    return FX_OK;
}

static bool read_file(void *from, void *to, size_t n)
{
    return fread(to, 1, n, from) == n;
}

static void close_file(void *f)
{
    fclose(f);
}

static fx_status open_file(fx_context *ctx, const fx_loc *loc, const char *path, FILE **f, uint64_t *size)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fx_fail(ctx, FX_ERR_IO, loc, "cannot be opened: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fx_fail(ctx, FX_ERR_IO, loc, "expected an ordinary file");
    *f = fopen(path, "rb");
    if (!*f)
        return fx_fail(ctx, FX_ERR_IO, loc, "cannot be opened: %s", strerror(errno));
    *size = (uint64_t)st.st_size;
    return FX_OK;
}

typedef struct npy_args {
    fx_context *ctx;
    const char *path;
    fx_tensor *out;
    const fx_tensor *in;
} npy_args;

static fx_status npy_read(void *arg)
{
    npy_args *a = arg;
    source src = {.ctx = a->ctx, .read = read_file, .loc.file = fx_intern(a->ctx, a->path)};
    FILE *f;
    FX_TRY(open_file(a->ctx, &src.loc, a->path, &f, &src.left));
    fx_defer(a->ctx, close_file, f);
    src.from = f;
    return read_array(&src, a->out);
}

fx_status fx_npy_read(fx_context *ctx, const char *path, fx_tensor *out)
{
    npy_args a = {.ctx = ctx, .path = path, .out = out};
    return fx_protect(ctx, npy_read, &a);
}

/* ---- writing --------------------------------------------------------------------------------------------------------------- */

/* Magic, version 1.0, and the dict padded so that the elements begin at a multiple of 64. */
bool fx_npy_header(fx_text *t, const fx_tensor *x)
{
    fx_text dict;
    const char *descr = NULL;
    for (int i = 0; i < N_DESCRS; i++) {
        if (descrs[i].dtype == x->dtype)
            descr = descrs[i].descr;
    }
    if (!descr)
        return false;
    fx_text_init(&dict, t->arena);
    fx_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < x->rank; i++)
        fx_printf(&dict, i ? ", %lld" : "%lld", (long long)x->sizes[i]);
    fx_puts(&dict, x->rank == 1 ? ",), }" : "), }");
    while ((10 + dict.size + 1) % 64 != 0)
        fx_puts(&dict, " ");
    fx_puts(&dict, "\n");
    fx_putn(t, "\x93NUMPY\x01\x00", 8);
    fx_putn(t, (char[]){(char)(dict.size & 255), (char)(dict.size >> 8)}, 2);
    fx_putn(t, dict.data, dict.size);
    return true;
}

static fx_status npy_write(void *arg)
{
    npy_args *a = arg;
    fx_loc loc = {.file = fx_intern(a->ctx, a->path)};
    fx_tensor dense, t = *a->in;
    fx_text head;
    FX_TRY(fx_tensor_touch(a->ctx, &t));
    FX_TRY(fx_tensor_contiguous(a->ctx, &t, &dense));
    fx_text_init(&head, fx_context_arena(a->ctx));
    if (!fx_npy_header(&head, &dense))
        return fx_fail(a->ctx, FX_ERR_UNSUPPORTED, &loc, "NumPy has no element type for %s", fx_dtype_name(dense.dtype));
    FILE *f = fopen(a->path, "wb");
    if (!f)
        return fx_fail(a->ctx, FX_ERR_IO, &loc, "cannot be written: %s", strerror(errno));
    size_t bytes = (size_t)fx_tensor_numel(&dense) * fx_dtype_size(dense.dtype);
    bool good = fwrite(head.data, 1, head.size, f) == head.size && (bytes == 0 || fwrite(dense.data, 1, bytes, f) == bytes);
    int error = errno;
    if (fclose(f) != 0 && good) {
        good = false;
        error = errno;
    }
    if (!good) {
        remove(a->path);
        return fx_fail(a->ctx, FX_ERR_IO, &loc, "cannot be written: %s", strerror(error));
    }
    return FX_OK;
}

fx_status fx_npy_write(fx_context *ctx, const char *path, const fx_tensor *t)
{
    npy_args a = {.ctx = ctx, .path = path, .in = t};
    return fx_protect(ctx, npy_write, &a);
}

/* ---- archives -------------------------------------------------------------------------------------------------------------- */

static bool read_entry(void *from, void *to, size_t n)
{
    char *at = to;
    while (n > 0) {
        unsigned chunk = n > 1u << 30 ? 1u << 30 : (unsigned)n;
        int got = unzReadCurrentFile(from, at, chunk);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static void close_zip(void *z)
{
    unzClose(z);
}

typedef struct npz_args {
    fx_context *ctx;
    const char *path;
    size_t *count;
    fx_tensor **tensors;
    const char ***names;
} npz_args;

static fx_status read_member(fx_context *ctx, unzFile z, const char *file, uint64_t file_size, fx_tensor *out, const char **name)
{
    char buf[1024];
    unz_file_info64 info;
    source src = {.ctx = ctx, .read = read_entry, .from = z, .loc.file = file};
    if (unzGetCurrentFileInfo64(z, &info, buf, sizeof buf, NULL, 0, NULL, 0) != UNZ_OK)
        return fx_fail(ctx, FX_ERR_FORMAT, &src.loc, "an entry of the archive cannot be read");
    if (info.size_filename >= sizeof buf)
        return fx_fail(ctx, FX_ERR_FORMAT, &src.loc, "expected names of at most %zu bytes in the archive", sizeof buf - 1);
    buf[info.size_filename] = 0;
    src.loc.entry = fx_intern(ctx, buf);
    size_t n = strlen(buf);
    if (n < 4 || strcmp(buf + n - 4, ".npy") != 0)
        return fx_fail(ctx, FX_ERR_FORMAT, &src.loc, "expected only .npy entries in the archive");
    /* Deflate makes no more than 1032 bytes of one, so a size beyond that is a lie that must not be allocated. */
    if (info.compressed_size > file_size || info.uncompressed_size / 1032 > info.compressed_size)
        return fx_fail(ctx, FX_ERR_FORMAT, &src.loc, "the archive gives the entry an impossible size of %llu bytes",
                       (unsigned long long)info.uncompressed_size);
    if (info.compression_method != 0 && info.compression_method != 8)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &src.loc, "expected stored or deflated entries, got compression method %lu",
                       info.compression_method);
    if ((info.flag & 1) != 0)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &src.loc, "encrypted entries are not read");
    if (unzOpenCurrentFile(z) != UNZ_OK)
        return fx_fail(ctx, FX_ERR_FORMAT, &src.loc, "the entry cannot be opened");
    src.left = info.uncompressed_size;
    FX_TRY(read_array(&src, out));
    /* minizip compares the checksum once everything was read, which one more read makes sure of. */
    char rest;
    if (unzReadCurrentFile(z, &rest, 1) != 0 || unzCloseCurrentFile(z) != UNZ_OK)
        return fx_fail(ctx, FX_ERR_FORMAT, &src.loc, "the entry's checksum or size is wrong");
    *name = fx_intern_n(ctx, buf, n - 4);
    return FX_OK;
}

static fx_status npz_read(void *arg)
{
    npz_args *a = arg;
    fx_loc loc = {.file = fx_intern(a->ctx, a->path)};
    FILE *f;
    uint64_t size = 0;
    FX_TRY(open_file(a->ctx, &loc, a->path, &f, &size));
    fclose(f);
    unzFile z = unzOpen64(a->path);
    if (!z)
        return fx_fail(a->ctx, FX_ERR_FORMAT, &loc, "expected a zip archive (.npz)");
    fx_defer(a->ctx, close_zip, z);
    fx_arena *arena = fx_context_arena(a->ctx);
    fx_tensor *tensors = NULL;
    const char **names = NULL;
    size_t n = 0, n_names = 0, cap = 0, cap_names = 0;
    for (int rc = unzGoToFirstFile(z); rc != UNZ_END_OF_LIST_OF_FILE; rc = unzGoToNextFile(z)) {
        fx_tensor t = {0};
        const char *name = NULL;
        if (rc != UNZ_OK)
            return fx_fail(a->ctx, FX_ERR_FORMAT, &loc, "the archive's directory is damaged");
        FX_TRY(read_member(a->ctx, z, loc.file, size, &t, &name));
        FX_PUSH(arena, tensors, n, cap) = t;
        FX_PUSH(arena, names, n_names, cap_names) = name;
    }
    *a->count = n;
    *a->tensors = tensors;
    *a->names = names;
    return FX_OK;
}

fx_status fx_npz_read(fx_context *ctx, const char *path, size_t *count, fx_tensor **tensors, const char ***names)
{
    npz_args a = {ctx, path, count, tensors, names};
    return fx_protect(ctx, npz_read, &a);
}
