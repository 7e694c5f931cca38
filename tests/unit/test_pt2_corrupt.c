/* tests/unit/test_pt2_corrupt.c: .pt2 files with flipped bytes, cut short or spliced. Whatever is in the file, loading ends with a graph
 * or with a diagnostic; it never crashes, hangs or leaks (run it under ASan and UBSan). Bytes of JSON are flipped behind a correct
 * checksum, or nothing but the checksum would be tested. Payloads of weights are left alone: any bytes are good weights.
 * By default a sample of positions by fixed seed, about 20,000 loads; FXCC_FULL_TESTS=1 in the environment: every byte, several values each.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "pt2_files.h"
#include "tests/unit/unit.h"

static uint64_t seed = 0x9E3779B97F4A7C15;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static size_t n_loads, n_ok;

/* One try. An accepted file must also survive being printed and its weights being read. */
static void try_load(const unsigned char *data, size_t size, const char *what, size_t at)
{
    fx_context *ctx = fx_context_create();
    ck_assert_ptr_nonnull(ctx);
    fx_graph *g = NULL;
    fx_status status = fx_load_memory(ctx, "corrupt.pt2", data, size, &g);
    n_loads++;
    if (status == FX_OK) {
        n_ok++;
        fx_text t;
        fx_text_init(&t, g->arena);
        fx_graph_print(&t, g);
        ck_assert_uint_gt(t.size, 0);
        FX_FOR_NODES(g, n) {
            fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(g, n->target) : NULL;
            if (a && fx_tensor_touch(ctx, &a->tensor) == FX_OK)
                for (int64_t i = 0; i < fx_tensor_numel(&a->tensor) && i < 64; i++)
                    fx_tensor_get(&a->tensor, i);
        }
    } else {
        ck_assert_msg(fx_diag_count(ctx) > 0, "%s at %zu: %s without a diagnostic", what, at, fx_status_string(status));
        ck_assert_msg(status != FX_INTERNAL && status != FX_ERR_NOMEM, "%s at %zu: %s: %s", what, at, fx_status_string(status),
                      fx_diag_get(ctx, 0)->message);
    }
    fx_context_free(ctx);
}

static bool full(void)
{
    const char *s = getenv("FXCC_FULL_TESTS");
    return s && *s && strcmp(s, "0") != 0;
}

/* Small ones, which have most kinds of everything. */
static const char *const fixtures[] = {"counter", "cond", "nested", "dynamic", "storage", "plain"};
enum { N_FIXTURES = sizeof fixtures / sizeof *fixtures };

/* Loads a fixture, changes each chosen byte to each chosen value, and puts it back. budget: loads when not full. */
static void flip(unsigned char *data, size_t size, unsigned char *bytes, size_t n, size_t budget, const char *what)
{
    static const unsigned char interesting[] = {'0', '9', '-', '"', '{', '}', '[', ']', ',', 'e', 0, 0xFF, ' ', 1};
    enum { VALUES = sizeof interesting };
    if (full()) {
        for (size_t i = 0; i < n; i++) {
            unsigned char old = bytes[i];
            for (int bit = 0; bit < 8; bit++) {
                bytes[i] = (unsigned char)(old ^ 1 << bit);
                try_load(data, size, what, i);
            }
            bytes[i] = interesting[next() % VALUES];
            try_load(data, size, what, i);
            bytes[i] = old;
        }
        return;
    }
    for (size_t k = 0; k < budget; k++) {
        size_t i = next() % n;
        unsigned char old = bytes[i];
        uint64_t how = next();
        bytes[i] = how & 1 ? (unsigned char)(old ^ 1 << (how >> 1) % 8) : interesting[(how >> 1) % VALUES];
        try_load(data, size, what, i);
        bytes[i] = old;
    }
}

static bool is_payload(const char *entry)
{
    return strstr(entry, "/weight_") || strstr(entry, "/tensor_") || strstr(entry, "sample_inputs");
}

/* Where an entry of the archive that put_together made has its data, and the checksum in the directory. */
static unsigned char *entry_data(bytes zip, const char *name, size_t size, unsigned char **crc)
{
    size_t n = strlen(name);
    unsigned char *data = NULL;
    *crc = NULL;
    for (size_t i = 0; i + 30 + n + size <= zip.size && !data; i++)
        if (!memcmp(zip.data + i, "PK\3\4", 4) && !memcmp(zip.data + i + 30, name, n) && zip.data[i + 26] == n)
            data = zip.data + i + 30 + n;
    for (size_t i = 0; i + 46 + n <= zip.size && !*crc; i++)
        if (!memcmp(zip.data + i, "PK\1\2", 4) && !memcmp(zip.data + i + 46, name, n) && zip.data[i + 28] == n)
            *crc = zip.data + i + 16;
    ck_assert(data && *crc);
    return data;
}

static void put_crc(unsigned char *at, const unsigned char *data, size_t size)
{
    uint32_t c = (uint32_t)crc32(0, data, (uInt)size);
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(c >> (8 * i));
}

/* A byte of JSON, its checksum corrected. */
static void flip_json(bytes zip, const part *e, size_t budget)
{
    static const unsigned char interesting[] = {'0', '1', '9', '-', '"', '{', '}', '[', ']', ',', ':', 'e', '_', '\\', 0xC3, ' '};
    unsigned char *crc, *data = entry_data(zip, e->name, e->size, &crc);
    size_t count = full() ? e->size * 3 : budget;
    for (size_t k = 0; k < count; k++) {
        size_t i = full() ? k / 3 : next() % e->size;
        unsigned char old = data[i];
        uint64_t how = next();
        data[i] = how & 1 ? (unsigned char)(old ^ 1 << (how >> 1) % 8) : interesting[(how >> 1) % sizeof interesting];
        put_crc(crc, data, e->size);
        try_load(zip.data, zip.size, e->name, i);
        data[i] = old;
    }
    put_crc(crc, data, e->size);
}

START_TEST(flipped_json)
{
    bytes file = read_file(fixture_path(fixtures[_i]));
    parts p = take_apart(file);
    bytes zip = put_together(&p);
    for (size_t i = 0; i < p.n; i++)
        if (!is_payload(p.items[i].name) && p.items[i].size)
            flip_json(zip, &p.items[i], strstr(p.items[i].name, "models/") ? 1500 : strstr(p.items[i].name, ".json") ? 400 : 30);
    ck_assert_uint_gt(n_loads, 1000);
    ck_assert_uint_gt(n_ok, 0); /* a flipped letter of a comment is no error */
    free_parts(&p);
    free(zip.data);
    free(file.data);
}
END_TEST

/* Everything of the file as torch wrote it that is no payload: headers, names, padding, directory; JSON with a stale checksum. */
START_TEST(flipped_structure)
{
    bytes file = read_file(fixture_path(fixtures[_i]));
    unsigned char *end = file.data + file.size - 22;
    size_t directory = end[16] | end[17] << 8 | (size_t)end[18] << 16;
    ck_assert_uint_lt(directory, file.size);
    flip(file.data, file.size, file.data + directory, file.size - directory, 1200, "directory");
    for (unsigned char *h = file.data; h + 30 <= file.data + directory; h++)
        if (!memcmp(h, "PK\3\4", 4)) {
            size_t n = 30 + (h[26] | (size_t)h[27] << 8);
            flip(file.data, file.size, h, n < 100 ? n : 100, 20, "local header");
        }
    ck_assert_uint_gt(n_loads, 1000);
    free(file.data);
}
END_TEST

START_TEST(truncated)
{
    bytes file = read_file(fixture_path(fixtures[_i]));
    size_t step = full() ? 1 : 1 + file.size / 500;
    for (size_t n = 0; n < file.size; n += step) {
        bytes cut = {malloc(n ? n : 1), n}; /* its own block: a read past the end shows */
        memcpy(cut.data, file.data, n);
        try_load(cut.data, n, "cut", n);
        free(cut.data);
    }
    ck_assert_uint_eq(n_ok, 0);
    free(file.data);
}
END_TEST

/* Words of JSON taken out, doubled or exchanged: what is left is often well-formed and says nonsense. */
START_TEST(spliced_json)
{
    bytes file = read_file(fixture_path(fixtures[_i]));
    parts p = take_apart(file);
    part *e = find_part(&p, "models/model.json");
    part original = *e;
    size_t count = full() ? 20000 : 500;
    for (size_t k = 0; k < count; k++) {
        size_t a = next() % original.size, n = 1 + next() % 60, b = next() % original.size;
        n = a + n > original.size ? original.size - a : n;
        e->data = malloc(original.size + n + 1);
        int how = (int)(next() % 3);
        size_t from = how == 1 ? a : b; /* 0: taken out; 1: doubled; 2: put elsewhere */
        e->size = 0;
        for (size_t i = 0; i < original.size; i++) {
            if (how != 0 && i == from) {
                memcpy(e->data + e->size, original.data + a, n);
                e->size += n;
            }
            if (how != 1 && i >= a && i < a + n)
                continue;
            e->data[e->size++] = original.data[i];
        }
        bytes zip = put_together(&p);
        try_load(zip.data, zip.size, "spliced", k);
        free(zip.data);
        free(e->data);
    }
    *e = original;
    free_parts(&p);
    free(file.data);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, flipped_json, 0, N_FIXTURES);
    tcase_add_loop_test(t, flipped_structure, 0, N_FIXTURES);
    tcase_add_loop_test(t, truncated, 0, N_FIXTURES);
    tcase_add_loop_test(t, spliced_json, 0, N_FIXTURES);
}

int main(void)
{
    return unit_run("corrupt", 36000, NULL, NULL, add_tests);
}
