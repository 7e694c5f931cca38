/* tests/unit/test_safetensors.c: .fx texts with their tensors in a .safetensors beside them: read, refused when damaged, written.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "import.h"

#include "frontend/pt2.h"

static const char net[] =
    "graph \"net\" captured\n"
    "buffer head : f64[2] shares 0+0 in \"net.safetensors\" \"all\"\n"
    "buffer tail : f64[2, 2]{1, 2} transient shares 0+1 in \"net.safetensors\" \"all\"\n"
    "module lin : torch.nn.Linear(in_features=2, out_features=3)\n"
    "parameter lin.weight : f32[3, 2] in \"net.safetensors\" \"w\"\n"
    "parameter lin.bias : f32[3] in \"net.safetensors\" \"b\"\n"
    "\n"
    "%x : f32[1, 2] = placeholder[x]\n"
    "%lin = call_module[lin](%x)\n"
    "output(%lin)\n";

static const char header[] = "{\"__metadata__\": {\"by\": \"test\"}, \"w\": {\"dtype\": \"F32\", \"shape\": [3, 2], \"data_offsets\": [0, 24]}, "
    "\"b\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [24, 36]}, "
    "\"all\": {\"dtype\": \"F64\", \"shape\": [5], \"data_offsets\": [36, 76]}}";

/* The file with this header; its data: floats 0, 1, .. 8, then doubles 0, 1, .. 4. size -1: as much data as there is. */
static void write_file(const char *head, long cut)
{
    unsigned char file[2048];
    size_t n = strlen(head);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(n >> 8 * i);
    memcpy(file + 8, head, n);
    float f[9];
    double d[5];
    for (int i = 0; i < 9; i++)
        f[i] = (float)i;
    for (int i = 0; i < 5; i++)
        d[i] = i;
    memcpy(file + 8 + n, f, sizeof f);
    memcpy(file + 8 + n + sizeof f, d, sizeof d);
    write_bytes("net.safetensors", file, (size_t)((long)(8 + n + sizeof f + sizeof d) - cut));
}

static double at(fx_graph *g, const char *path, int64_t i)
{
    fx_attr *a = fx_attr_find(g, path);
    ck_assert_ptr_nonnull(a);
    ck_assert_msg(fx_tensor_touch(ctx, &a->tensor) == FX_OK, "%s", all_messages(ctx));
    return fx_tensor_get(&a->tensor, i);
}

/* Headers of every length modulo 8: data that are not aligned are copied, all else stays in the mapping. */
START_TEST(values_are_those_of_the_file)
{
    char head[sizeof header + 8];
    snprintf(head, sizeof head, "%s%*s", header, _i, "");
    write_file(head, 0);
    write_text("net.fx", net);
    fx_graph *g = loaded("net.fx");
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(at(g, "lin.weight", i), i);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(at(g, "lin.bias", i), 6 + i);
    const double tail[] = {1, 3, 2, 4};
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(at(g, "tail", i), tail[i]);
    ck_assert_double_eq(at(g, "head", 1), 1);
    ck_assert_ptr_eq((char *)fx_attr_find(g, "head")->tensor.data + 8, fx_attr_find(g, "tail")->tensor.data);
    char *text = unit_text(g);
    ck_assert_str_eq(text, net);
    free(text);
}
END_TEST

static const struct { const char *header, *message; } bad_headers[] = {
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [3, 2], \"data_offsets\": [0, 24]}}", "fill the 76 bytes"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [19], \"data_offsets\": [0, 76]}, \"b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [72, 76]}}", "overlaps"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, \"b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [72, 76]}}", "gap"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [20], \"data_offsets\": [0, 80]}}", "do not lie in the 76 bytes"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [24, 0]}}", "do not lie in"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [-4, 8]}}", "do not lie in"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 76]}}", "make 12 bytes"},
    {"{\"w\": {\"dtype\": \"F16\", \"shape\": [19], \"data_offsets\": [0, 76]}}", "make 38 bytes"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 76]}}", "at least 0"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904, 4], \"data_offsets\": [0, 76]}}", "overflows"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [0, 4611686018427387904, 4611686018427387904], \"data_offsets\": [0, 0]}}", "overflows"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,19], \"data_offsets\": [0, 76]}}", "at most 8 dimensions"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [19.0], \"data_offsets\": [0, 76]}}", "expected 'shape' to be an integer"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [19], \"data_offsets\": [0]}}", "two integers"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [19], \"data_offsets\": [0, 76], \"more\": 1}}", "no more"},
    {"{\"w\": {\"dtype\": \"F32\", \"shape\": [19], \"data_offsets\": [0, 76]}, \"w\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}}", "twice"},
    {"{\"w\": {\"dtype\": \"F8_E4M3\", \"shape\": [76], \"data_offsets\": [0, 76]}}", "not supported"},
    {"{\"w\": {\"dtype\": \"Q4\", \"shape\": [76], \"data_offsets\": [0, 76]}}", "expected a dtype"},
    {"{\"w\": [19]}", "expected an object"},
    {"{\"__metadata__\": 1}", "__metadata__"},
    {"[1]", "header"},
    {"{\"w\": ", "malformed JSON"},
    {"", "malformed JSON"},
};

START_TEST(bad_headers_are_refused)
{
    fx_graph *g = NULL;
    write_file(bad_headers[_i].header, 0);
    write_text("net.fx", net);
    ck_assert_int_ne(fx_load(ctx, in_folder("net.fx"), &g), FX_OK);
    ck_assert_msg(strstr(all_messages(ctx), bad_headers[_i].message) && strstr(all_messages(ctx), "net.safetensors"), "%s: %s",
                  bad_headers[_i].message, all_messages(ctx));
}
END_TEST

START_TEST(truncated_files_are_refused)
{
    write_text("net.fx", net);
    for (long cut = 1; cut < (long)sizeof header + 83; cut++) {
        fx_graph *g = NULL;
        write_file(header, cut);
        ck_assert_int_ne(fx_load(ctx, in_folder("net.fx"), &g), FX_OK);
        ck_assert_uint_gt(fx_diag_count(ctx), 0);
        fx_diag_clear(ctx);
    }
}
END_TEST

/* Lines that contradict the file. */
static const struct { const char *line, *message; } bad_lines[] = {
    {"parameter a : f32[2, 3] in \"net.safetensors\" \"w\"", "another shape or dtype"},
    {"parameter a : i32[3, 2] in \"net.safetensors\" \"w\"", "another shape or dtype"},
    {"parameter a : f32[3, 2] in \"net.safetensors\" \"v\"", "no tensor 'v'"},
    {"parameter a : f32[3, 2] in \"other.safetensors\" \"w\"", "cannot open"},
    {"parameter a : f32[3, 2] in \"../net.safetensors\" \"w\"", "without folders"},
    {"parameter a : f32[3, 2] in \"/etc/passwd\" \"w\"", "without folders"},
    {"parameter a : f32[3, 2] in \"..\" \"w\"", "without folders"},
    {"parameter a : f32[3, 2] in \"\" \"w\"", "without folders"},
    {"parameter a : f32[3, 2] in \"net.fx\" \"w\"", "header"},
    {"parameter a : f64[2] shares 0+0 in \"net.safetensors\" \"all\"\nparameter b : f64[3] shares 0+3 in \"net.safetensors\" \"all\"", "needs 48 bytes"},
    {"parameter a : f64[2]{4} in \"net.safetensors\" \"b\"", "needs 40 bytes"},
    {"parameter a : f64[2] shares 0+0 in \"net.safetensors\" \"all\"\nparameter b : f64[2] shares 0+1 in \"net.safetensors\" \"w\"", "same tensor"},
    {"parameter a : f64[2] shares 0+0 in \"net.safetensors\" \"all\"\nparameter b : f64[2] shares 0+1 = [1.0, 2.0]", "all in a file or none"},
};

START_TEST(lines_must_fit_the_file)
{
    char text[1024];
    fx_graph *g = NULL;
    snprintf(text, sizeof text, "graph \"net\" captured\n%s\n\n%%x : f32[1] = placeholder[x]\noutput(%%x)\n", bad_lines[_i].line);
    write_file(header, 0);
    write_text("net.fx", text);
    ck_assert_int_ne(fx_load(ctx, in_folder("net.fx"), &g), FX_OK);
    ck_assert_msg(strstr(all_messages(ctx), bad_lines[_i].message), "%s: %s", bad_lines[_i].message, all_messages(ctx));
}
END_TEST

START_TEST(a_text_in_memory_has_no_files)
{
    fx_graph *g = parsed(net);
    fx_tensor t = fx_attr_find(g, "lin.weight")->tensor;
    ck_assert_int_eq(fx_tensor_touch(ctx, &t), FX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(all_messages(ctx), "net.safetensors"), "%s", all_messages(ctx));
}
END_TEST

/* One load of the two files; what is accepted is printed and its tensors read. */
static size_t n_ok;

static void try_load(size_t where)
{
    fx_context *c = fx_context_create();
    fx_graph *g = NULL;
    fx_status status = fx_load(c, in_folder("net.fx"), &g);
    if (status == FX_OK) {
        n_ok++;
        free(unit_text(g));
        const char *const paths[] = {"lin.weight", "lin.bias", "head", "tail"};
        for (int k = 0; k < 4; k++) {
            fx_attr *a = fx_attr_find(g, paths[k]);
            if (a && fx_tensor_touch(c, &a->tensor) == FX_OK)
                for (int64_t i = 0; i < fx_tensor_numel(&a->tensor) && i < 64; i++)
                    fx_tensor_get(&a->tensor, i);
        }
    } else {
        ck_assert_msg(fx_diag_count(c) > 0, "byte %zu: no diagnostic", where);
        ck_assert_msg(status != FX_INTERNAL && status != FX_ERR_NOMEM, "byte %zu: %s", where, all_messages(c));
    }
    fx_context_free(c);
}

/* Each byte of the header (and a few behind it) and of the text, each bit of it. */
START_TEST(every_byte_flipped)
{
    const char *name = _i ? "net.fx" : "net.safetensors";
    size_t size;
    write_file(header, 0);
    write_text("net.fx", net);
    unsigned char *data = read_bytes(name, &size);
    n_ok = 0;
    for (size_t i = 0; i < size && i < 8 + sizeof header + 8; i++)
        for (int bit = 0; bit < 8; bit++) {
            data[i] ^= (unsigned char)(1 << bit);
            write_bytes(name, data, size);
            try_load(i);
            data[i] ^= (unsigned char)(1 << bit);
        }
    ck_assert_uint_gt(n_ok, 0); /* a letter of "__metadata__"'s content */
    free(data);
}
END_TEST

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

static const char large[] =
    "graph \"big\" imported\n"
    "parameter few : f32[2] = [1.5, -0.0]\n"
    "parameter many : f32[100] = all 2.5\n"
    "parameter half : f16[9, 9] = all 0.25\n"
    "buffer flags : bool[70] transient = all True\n"
    "parameter known : f32[200] hash 0x00000000deadbeef\n"
    "parameter tied.a : f64[10, 10] shares 0+0 = all 1.0\n"
    "parameter tied.b : f64[10, 10] shares 0+0 = all 1.0\n"
    "buffer whole : i64[80] shares 1+0 = all 7\n"
    "buffer part : i64[4, 10]{1, 4} shares 1+40 = all 7\n"
    "buffer empty : f32[0, 3] = []\n"
    "\n"
    "%x : f32[1] = placeholder[x]\n"
    "output((%x,))\n";

START_TEST(what_is_written_reads_the_same)
{
    fx_graph *g = parsed(large);
    char *before = unit_text(g);
    ck_assert_msg(fx_save(g, in_folder("a.fx")) == FX_OK, "%s", all_messages(ctx));
    ck_assert_int_eq(files_there(), 2);
    char *unchanged = unit_text(g);
    ck_assert_str_eq(before, unchanged);
    fx_graph *b = loaded("a.fx");
    for (int i = 0; i < 80; i++)
        ck_assert_double_eq(at(b, "whole", i), 7);
    for (int i = 0; i < 100; i++)
        ck_assert(at(b, "many", i) == 2.5 && at(b, "tied.b", i) == 1);
    ck_assert(at(b, "tied.a", 0) == 1 && at(b, "part", 0) == 7);
    ck_assert(at(b, "half", 80) == 0.25 && at(b, "flags", 69) == 1 && at(b, "few", 0) == 1.5);
    ck_assert_ptr_eq(fx_attr_find(b, "tied.a")->tensor.data, fx_attr_find(b, "tied.b")->tensor.data);
    ck_assert_ptr_eq((char *)fx_attr_find(b, "whole")->tensor.data + 320, fx_attr_find(b, "part")->tensor.data);
    ck_assert_uint_eq(fx_attr_find(b, "known")->hash, 0xdeadbeef);
    size_t size;
    unsigned char *text = read_bytes("a.fx", &size);
    ck_assert_ptr_nonnull(strstr((char *)text, "parameter few : f32[2] = [1.5, -0.0]"));
    ck_assert_ptr_nonnull(strstr((char *)text, "parameter many : f32[100] in \"a.safetensors\" \"many\""));
    ck_assert_ptr_nonnull(strstr((char *)text, "known : f32[200] hash 0x00000000deadbeef"));
    ck_assert_ptr_nonnull(strstr((char *)text, "tied.b : f64[10, 10] shares 1+0 in \"a.safetensors\" \"tied.a\""));
    /* Over the very file it is mapped from, and again: the same bytes. */
    ck_assert_int_eq(fx_save(b, in_folder("a.fx")), FX_OK);
    unsigned char *again = read_bytes("a.fx", &size);
    ck_assert_str_eq((char *)text, (char *)again);
    fx_graph *c = loaded("a.fx");
    ck_assert(at(c, "many", 99) == 2.5 && at(b, "many", 50) == 2.5);
    free(text);
    free(again);
    free(before);
    free(unchanged);
}
END_TEST

START_TEST(elements_are_aligned_for_their_kind)
{
    ck_assert_int_eq(fx_save(parsed(large), in_folder("a.fx")), FX_OK);
    fx_graph *g = loaded("a.fx");
    const char *const paths[] = {"many", "half", "tied.a", "whole"};
    fx_file *file;
    fx_safetensors *s;
    ck_assert_int_eq(fx_file_map(ctx, in_folder("a.safetensors"), &file), FX_OK);
    ck_assert_int_eq(fx_safetensors_open(ctx, file, &s), FX_OK);
    ck_assert_uint_eq(s->data % 64, 0);
    for (int i = 0; i < 4; i++) {
        const fx_safetensor *t = fx_safetensors_find(s, paths[i]);
        ck_assert_ptr_nonnull(t);
        ck_assert_uint_eq(t->begin % fx_dtype_size(t->dtype), 0);
        at(g, paths[i], 0);
    }
}
END_TEST

START_TEST(nothing_is_left_of_what_fails)
{
    fx_graph *g = parsed(large);
    const char *const bad[] = {"missing/a.fx", "a.onnx", ".fx", "dir.fx"};
    ck_assert_int_eq(mkdir(in_folder("dir.fx"), 0777), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_ne(fx_save(g, i == 2 ? bad[i] : in_folder(bad[i])), FX_OK);
        ck_assert_uint_gt(fx_diag_count(ctx), 0);
        fx_diag_clear(ctx);
    }
    rmdir(in_folder("dir.fx"));
    ck_assert_int_eq(files_there(), 0);
    /* A tensor without data, in a storage that must be written. */
    g = parsed(net);
    ck_assert_int_eq(fx_save(g, in_folder("b.fx")), FX_OK); /* few elements, which the text says lie elsewhere: they print so */
}
END_TEST

/* Every allocation of a load and a save fails once: an error, no leak, no temporary file. */
START_TEST(memory_runs_out)
{
    write_file(header, 0);
    write_text("net.fx", net);
    write_text("big.fx", large);
    fx_status status = FX_ERR_NOMEM;
    for (long fail = 0; status == FX_ERR_NOMEM; fail++) {
        unit_memory m = {.fail_at = fail};
        fx_context *c = unit_context(&m);
        if (!c)
            continue;
        fx_graph *g = NULL;
        status = fx_load(c, in_folder(_i ? "big.fx" : "net.fx"), &g);
        if (status == FX_OK)
            status = fx_save(g, in_folder("out.fx"));
        ck_assert_msg(status == FX_OK || (status == FX_ERR_NOMEM && fx_diag_count(c) > 0), "allocation %ld: %s: %s", fail,
                      fx_status_string(status), all_messages(c));
        fx_context_free(c);
        ck_assert_int_eq(m.live, 0);
        ck_assert_msg(files_there() <= 5 && (status == FX_OK || access(in_folder("out.fx"), F_OK) != 0), "allocation %ld", fail);
    }
    ck_assert_int_eq(status, FX_OK);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, values_are_those_of_the_file, 0, 8);
    tcase_add_loop_test(t, bad_headers_are_refused, 0, sizeof bad_headers / sizeof *bad_headers);
    tcase_add_test(t, truncated_files_are_refused);
    tcase_add_loop_test(t, lines_must_fit_the_file, 0, sizeof bad_lines / sizeof *bad_lines);
    tcase_add_test(t, a_text_in_memory_has_no_files);
    tcase_add_loop_test(t, every_byte_flipped, 0, 2);
    tcase_add_test(t, what_is_written_reads_the_same);
    tcase_add_test(t, elements_are_aligned_for_their_kind);
    tcase_add_test(t, nothing_is_left_of_what_fails);
    tcase_add_loop_test(t, memory_runs_out, 0, 2);
}

int main(void)
{
    return unit_run("safetensors", 120, import_set_up, import_tear_down, add);
}
