/* tests/unit/test_npy.c: NumPy's files, read strictly, written so that NumPy reads them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <unistd.h>

#include <minizip/zip.h>

#include "ir/ir.h"
#include "tests/unit/unit.h"

static fx_context *ctx;
static char path[32];

static void set_up(void)
{
    ctx = fx_context_create();
    strcpy(path, "/tmp/fxcc_npy_XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void tear_down(void)
{
    remove(path);
    fx_context_free(ctx);
}

static void write_file(const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    fclose(f);
}

/* A whole .npy: version, dict, elements. */
static size_t make_npy(char *to, int version, const char *dict, const void *data, size_t n)
{
    size_t len = strlen(dict), at = 0;
    memcpy(to, "\x93NUMPY", 6);
    to[6] = (char)version;
    to[7] = 0;
    to[8] = (char)len;
    to[9] = (char)(len >> 8);
    at = 10;
    if (version > 1) {
        to[10] = to[11] = 0;
        at = 12;
    }
    memcpy(to + at, dict, len);
    if (n)
        memcpy(to + at + len, data, n);
    return at + len + n;
}

static fx_status read_npy(int version, const char *dict, const void *data, size_t n, fx_tensor *t)
{
    char buf[4096];
    write_file(buf, make_npy(buf, version, dict, data, n));
    return fx_npy_read(ctx, path, t);
}

START_TEST(versions_orders_and_types)
{
    fx_tensor t;
    float f[6] = {1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 3; version++) {
        ck_assert_int_eq(read_npy(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n", f, 24, &t), FX_OK);
        ck_assert_int_eq(t.dtype, FX_F32);
        ck_assert_int_eq(t.rank, 2);
        ck_assert(fx_tensor_is_contiguous(&t));
        ck_assert(fx_tensor_get(&t, 1) == 2);
    }
    ck_assert_int_eq(read_npy(1, "{\"shape\": (2,3), \"descr\":'<f4', 'fortran_order': True}", f, 24, &t), FX_OK);
    ck_assert_int_eq(t.strides[0], 1);
    ck_assert_int_eq(t.strides[1], 2);
    ck_assert(fx_tensor_get(&t, 1) == 3);
    ck_assert_int_eq(read_npy(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", "\x05\0\0\0\0\0\0\0", 8, &t), FX_OK);
    ck_assert_int_eq(t.rank, 0);
    ck_assert_int_eq(fx_tensor_get_int(&t, 0), 5);
    ck_assert_int_eq(read_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n", "\x00\x02\x01", 3, &t), FX_OK);
    ck_assert_int_eq(((uint8_t *)t.data)[1], 1);
    ck_assert_int_eq(read_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }\n", "", 0, &t), FX_OK);
    ck_assert_int_eq(fx_tensor_numel(&t), 0);
    static const struct { const char *descr; fx_dtype dtype; size_t size; } types[] = {{"<f8", FX_F64, 8}, {"<f2", FX_F16, 2},
        {"|i1", FX_I8, 1}, {"<i2", FX_I16, 2}, {"<i4", FX_I32, 4}, {"|u1", FX_U8, 1}, {"<c8", FX_C64, 8}, {"<c16", FX_C128, 16}};
    for (int i = 0; i < 8; i++) {
        char dict[96], zeros[16] = {0};
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }\n", types[i].descr);
        ck_assert_int_eq(read_npy(1, dict, zeros, types[i].size, &t), FX_OK);
        ck_assert_int_eq(t.dtype, types[i].dtype);
    }
}
END_TEST

#define DICT(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static const struct {
    const char *dict, *says;
} mistakes[] = {
    {DICT("'|O'", "False", "(1,)"), "arrays of Python objects are pickles"},
    {DICT("'>f4'", "False", "(1,)"), "expected little-endian bool, int8-64, uint8, float16-64 or complex elements, got '>f4'"},
    {DICT("'<f16'", "False", "(1,)"), "got '<f16'"},
    {DICT("[('a', '<f4')]", "False", "(1,)"), "arrays of structs are not supported"},
    {DICT("'<f4'", "Maybe", "(1,)"), "expected True or False, got 'Maybe"},
    {DICT("'<f4'", "False", "(1)"), "expected ',' in the shape"},
    {DICT("'<f4'", "False", "(1, -1)"), "expected a size, got '-1)"},
    {DICT("'<f4'", "False", "[1]"), "expected a shape in parentheses"},
    {DICT("'<f4'", "False", "(99999999999999999999,)"), "expected a size of 64 bits"},
    {DICT("'<f4'", "False", "(4611686018427387904, 4)"), "multiply to more than 64 bits"},
    {DICT("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), "expected at most 8 dimensions"},
    {DICT("'<f4'", "False", "(2,)"), "expected 8 bytes of elements as the header says, got 4"},
    {DICT("'<f4'", "False", "(0,)"), "expected 0 bytes of elements as the header says, got 4"},
    {"{'descr': '<f4', 'shape': (1,), }", "one is missing"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "got 'descr' again"},
    {"{'what': 1}", "once each, got 'what'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "expected the end of the header, got 'x'"},
    {"{'descr' '<f4'}", "expected ':'"},
    {"{'descr': '<f4", "expected an element type"},
    {"[]", "expected '{', got '[]'"},
    {"", "expected '{', got ''"},
};

START_TEST(mistakes_are_named)
{
    fx_tensor t = {.rank = -7};
    ck_assert_int_ne(read_npy(1, mistakes[_i].dict, "\0\0\x80?", 4, &t), FX_OK);
    ck_assert_msg(strstr(fx_diag_get(ctx, 0)->message, mistakes[_i].says) != NULL, "expected '%s', got '%s'", mistakes[_i].says,
                  fx_diag_get(ctx, 0)->message);
    ck_assert_int_eq(t.rank, -7);
}
END_TEST

START_TEST(bad_files)
{
    fx_tensor t;
    ck_assert_int_eq(fx_npy_read(ctx, "/nowhere/x.npy", &t), FX_ERR_IO);
    ck_assert_int_eq(fx_npy_read(ctx, "/tmp", &t), FX_ERR_IO);
    write_file("", 0);
    ck_assert_int_eq(fx_npy_read(ctx, path, &t), FX_ERR_FORMAT);
    write_file("PK\3\4 not an array", 18);
    ck_assert_int_eq(fx_npy_read(ctx, path, &t), FX_ERR_FORMAT);
    write_file("\x93NUMPY\4\0\0\0", 10);
    ck_assert_int_eq(fx_npy_read(ctx, path, &t), FX_ERR_UNSUPPORTED);
    write_file("\x93NUMPY\2\0\xff\xff\xff\x7f", 12);
    ck_assert_int_eq(fx_npy_read(ctx, path, &t), FX_ERR_FORMAT);
    ck_assert_int_eq(read_npy(3, DICT("'<f4'", "False", "(1,)"), "\0\0\x80?", 4, &t), FX_OK);
    /* Every byte of a small file flipped, and every truncation. */
    char good[256], bad[256];
    size_t n = make_npy(good, 1, DICT("'<i2'", "False", "(2, 2)"), "\1\0\2\0\3\0\4\0", 8);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bad, good, n);
            bad[i] = (char)(bad[i] ^ (1 << bit));
            write_file(bad, n);
            fx_npy_read(ctx, path, &t);
        }
        write_file(good, i);
        ck_assert_int_ne(fx_npy_read(ctx, path, &t), FX_OK);
    }
}
END_TEST

START_TEST(what_is_written_reads_back)
{
    fx_tensor t, back;
    int64_t sizes[3] = {2, 3, 4};
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 3, sizes, &t), FX_OK);
    for (int i = 0; i < 24; i++)
        fx_tensor_set(&t, i, i * 0.5);
    fx_tensor u = t; /* transposed */
    u.sizes[0] = 4;
    u.sizes[2] = 2;
    u.strides[0] = 1;
    u.strides[2] = 12;
    ck_assert_int_eq(fx_npy_write(ctx, path, &u), FX_OK);
    ck_assert_int_eq(fx_npy_read(ctx, path, &back), FX_OK);
    ck_assert_int_eq(back.sizes[0], 4);
    for (int i = 0; i < 24; i++)
        ck_assert(fx_tensor_get(&back, i) == fx_tensor_get(&u, i));
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    ck_assert_int_eq(ftell(f), 128 + 96); /* elements at a multiple of 64 */
    fclose(f);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_BF16, 1, sizes, &t), FX_OK);
    ck_assert_int_eq(fx_npy_write(ctx, path, &t), FX_ERR_UNSUPPORTED);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_BOOL, 0, NULL, &t), FX_OK);
    ck_assert_int_eq(fx_npy_write(ctx, path, &t), FX_OK);
    ck_assert_int_eq(fx_npy_read(ctx, path, &back), FX_OK);
    ck_assert_int_eq(back.rank, 0);
    ck_assert_int_eq(fx_npy_write(ctx, "/nowhere/x.npy", &t), FX_ERR_IO);
}
END_TEST

static void make_npz(int method, const char *second)
{
    char npy[256];
    zipFile z = zipOpen64(path, APPEND_STATUS_CREATE);
    const char *names[2] = {"b.npy", second};
    for (int i = 0; i < 2; i++) {
        float f[4] = {1, 2, 3, (float)i};
        size_t n = make_npy(npy, 1, DICT("'<f4'", "False", "(4,)"), f, 16);
        ck_assert_int_eq(zipOpenNewFileInZip64(z, names[i], NULL, NULL, 0, NULL, 0, NULL, method, method ? 6 : 0, 0), ZIP_OK);
        ck_assert_int_eq(zipWriteInFileInZip(z, npy, (unsigned)n), ZIP_OK);
        zipCloseFileInZip(z);
    }
    zipClose(z, NULL);
}

START_TEST(archives_stored_and_deflated)
{
    size_t count;
    fx_tensor *t;
    const char **names;
    make_npz(_i ? Z_DEFLATED : 0, "a.npy");
    ck_assert_int_eq(fx_npz_read(ctx, path, &count, &t, &names), FX_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(names[0], "b"); /* in file order */
    ck_assert_str_eq(names[1], "a");
    ck_assert(fx_tensor_get(&t[1], 3) == 1 && fx_tensor_get(&t[0], 2) == 3);
    /* Every byte flipped: a message or the same shapes, never a crash; changed elements are caught by the checksum. */
    FILE *f = fopen(path, "rb");
    char good[4096], bad[4096];
    size_t n = fread(good, 1, sizeof good, f);
    fclose(f);
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, good, n);
        bad[i] = (char)(bad[i] ^ (1 << (i % 8)));
        write_file(bad, n);
        if (fx_npz_read(ctx, path, &count, &t, &names) != FX_OK)
            continue;
        for (size_t k = 0; k < count; k++)
            ck_assert(t[k].rank == 1 && fx_tensor_get(&t[k], 1) == 2);
    }
    /* minizip does without the last two bytes, the length of the archive's comment: all arrays are whole by then. */
    for (size_t i = 0; i + 2 < n; i += 3) {
        write_file(good, i);
        fx_status st = fx_npz_read(ctx, path, &count, &t, &names);
        ck_assert_msg(st != FX_OK, "the first %zu of %zu bytes read as %zu arrays", i, n, count);
    }
}
END_TEST

START_TEST(archives_written_read_back)
{
    fx_tensor in[2], *t;
    size_t count;
    const char **names, *given[2] = {"x", "y.0"};
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, (int64_t[]){2, 3}, &in[0]), FX_OK);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 0, NULL, &in[1]), FX_OK);
    fx_tensor_set(&in[0], 5, 1.5);
    fx_tensor_set_int(&in[1], 0, -9);
    ck_assert_int_eq(fx_npz_write(ctx, path, 2, in, given), FX_OK);
    ck_assert_int_eq(fx_npz_read(ctx, path, &count, &t, &names), FX_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(names[1], "y.0");
    ck_assert(fx_tensor_get(&t[0], 5) == 1.5);
    ck_assert_int_eq(fx_tensor_get_int(&t[1], 0), -9);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_BF16, 0, NULL, &in[1]), FX_OK);
    ck_assert_int_eq(fx_npz_write(ctx, path, 2, in, given), FX_ERR_UNSUPPORTED);
}
END_TEST

START_TEST(bad_archives)
{
    size_t count;
    fx_tensor *t;
    const char **names;
    make_npz(0, "readme.txt");
    ck_assert_int_eq(fx_npz_read(ctx, path, &count, &t, &names), FX_ERR_FORMAT);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->entry, "readme.txt");
    write_file("no zip", 6);
    ck_assert_int_eq(fx_npz_read(ctx, path, &count, &t, &names), FX_ERR_FORMAT);
    ck_assert_int_eq(fx_npz_read(ctx, "/nowhere/x.npz", &count, &t, &names), FX_ERR_IO);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, versions_orders_and_types);
    tcase_add_loop_test(t, mistakes_are_named, 0, (int)(sizeof mistakes / sizeof mistakes[0]));
    tcase_add_test(t, bad_files);
    tcase_add_test(t, what_is_written_reads_back);
    tcase_add_loop_test(t, archives_stored_and_deflated, 0, 2);
    tcase_add_test(t, archives_written_read_back);
    tcase_add_test(t, bad_archives);
}

int main(void)
{
    return unit_run("npy", 120, set_up, tear_down, add_tests);
}
