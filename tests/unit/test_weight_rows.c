/* tests/unit/test_weight_rows.c: weights made of others row by row, packed by several threads and checked by the way.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "fxcc/runtime.h"
#include "tests/unit/lowering.h"

/* ---- checksums, threads ------------------------------------------------------------------------------------------------- */

START_TEST(checksums_are_those_of_zlib)
{
    unsigned char data[5000];
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
    for (size_t n = 0; n < 2000; n++) {
        size_t at = n * 7 % 65;
        uint32_t before = seed = seed * 1103515245u + 12345u;
        ck_assert_uint_eq(fx_crc32(before, data + at, n), (uint32_t)crc32(before, data + at, (uInt)n));
        uint32_t first = fx_crc32(0, data, at), second = fx_crc32(0, data + at, n);
        ck_assert_uint_eq(fx_crc32_join(first, second, n), fx_crc32(0, data, at + n));
    }
    memset(data, 0, sizeof data); /* leading zeros count */
    for (size_t n = 250; n < 400; n++)
        ck_assert_uint_eq(fx_crc32(0, data, n), (uint32_t)crc32(0, data, (uInt)n));
}
END_TEST

typedef struct seen {
    atomic_int calls[100], blocked;
} seen;

static void note(void *user, int thread)
{
    seen *s = user;
    sigset_t now;
    atomic_fetch_add(&s->calls[thread], 1);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    atomic_fetch_add(&s->blocked, sigismember(&now, SIGINT));
}

START_TEST(each_thread_works_once)
{
    static const int counts[][2] = {{0, 1}, {1, 1}, {3, 3}, {100, 64}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        seen s = {.blocked = 0};
        fx_in_parallel(counts[i][0], note, &s);
        for (int k = 0; k < 100; k++)
            ck_assert_int_eq(s.calls[k], k < counts[i][1]);
        ck_assert_int_eq(s.blocked, counts[i][1] - 1); /* the caller's signals are as they were */
    }
    ck_assert_int_ge(fx_processors(), 1);
}
END_TEST

/* ---- rows ----------------------------------------------------------------------------------------------------------------- */

static int touches;

/* A storage that lies somewhere, and says what its checksum is. */
typedef struct mapped {
    float *data;
    uint32_t crc;
} mapped;

static fx_status check(fx_storage *st, uint32_t crc)
{
    const mapped *m = st->user;
    touches++;
    if (crc != m->crc)
        return fx_fail(st->ctx, FX_ERR_FORMAT, NULL, "the checksum of %s differs", st->name);
    st->data = m->data;
    st->touch = NULL;
    return FX_OK;
}

static fx_status touch(fx_storage *st)
{
    const mapped *m = st->user;
    return check(st, fx_crc32(0, m->data, st->nbytes));
}

static fx_tensor mapped_tensor(const char *name, int rank, const int64_t *sizes, bool damaged)
{
    fx_tensor t;
    static uint32_t seed = 7;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, rank, sizes, &t), FX_OK);
    for (int64_t i = 0; i < fx_tensor_numel(&t); i++)
        ((float *)t.data)[i] = (float)((seed = seed * 1103515245u + 12345u) >> 8) / 65536.0f - 100;
    mapped *m = FX_NEW(fx_context_arena(ctx), mapped);
    *m = (mapped){t.data, fx_crc32(0, t.data, t.storage->nbytes) ^ damaged};
    t.storage = fx_storage_lazy(ctx, t.storage->nbytes, touch, NULL, m, name);
    t.storage->unchecked = m->data;
    t.storage->check = check;
    t.data = NULL;
    return t;
}

static const float *floats(const fx_tensor *t)
{
    return ((const mapped *)t->storage->user)->data;
}

START_TEST(rows_are_made_at_first_touch)
{
    const int64_t sizes[2] = {5, 11}, joined_sizes[2] = {10, 11};
    fx_row_piece p[2] = {{mapped_tensor("a", 2, sizes, false), 5}, {mapped_tensor("b", 2, sizes, false), 5}};
    double scale[10];
    for (int i = 0; i < 10; i++)
        scale[i] = 0.1 * (i - 3);
    fx_weight_rows r = {.n = 10, .width = 11, .n_pieces = 2, .pieces = p, .scale = scale}, again;
    fx_tensor t, plain;
    touches = 0;
    ck_assert_int_eq(fx_weight_rows_later(ctx, &r, 2, joined_sizes, &t), FX_OK);
    scale[0] = 99; /* was copied */
    ck_assert_ptr_null(fx_tensor_peek(&t));
    ck_assert_int_eq(fx_weight_rows_of(ctx, fx_context_arena(ctx), &t, &again), FX_OK);
    ck_assert(again.n == 10 && again.width == 11 && again.n_pieces == 2 && again.scale[0] == 0.1 * -3);
    ck_assert_ptr_null(fx_weight_rows_at(&again, 0, 5));
    float some[4 * 11];
    fx_weight_rows_make(&again, 3, 4, some); /* of both */
    ck_assert_int_eq(touches, 0);
    ck_assert_int_eq(fx_tensor_touch(ctx, &t), FX_OK);
    ck_assert_int_eq(touches, 2);
    ck_assert_uint_eq((uintptr_t)t.data % 64, 0);
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 11; k++)
            ck_assert(((float *)t.data)[11 * i + k] == (float)(floats(&p[i / 5].t)[11 * (i % 5) + k] * (0.1 * (i - 3))));
    ck_assert_mem_eq(some, (float *)t.data + 3 * 11, sizeof some);
    ck_assert_int_eq(fx_weight_rows_of(ctx, fx_context_arena(ctx), &t, &again), FX_OK); /* now itself */
    ck_assert(again.n == 10 && again.n_pieces == 1 && !again.scale && fx_weight_rows_at(&again, 4, 2) == (float *)t.data + 4 * 11);
    r.scale = NULL;
    ck_assert_int_eq(fx_weight_rows_later(ctx, &r, 2, joined_sizes, &plain), FX_OK);
    ck_assert_int_eq(fx_weight_rows_of(ctx, fx_context_arena(ctx), &plain, &again), FX_OK);
    ck_assert_ptr_eq(fx_weight_rows_at(&again, 6, 4), floats(&p[1].t) + 11);
    ck_assert_ptr_null(fx_weight_rows_at(&again, 4, 2));
    fx_weight_rows_make(&again, 4, 2, some);
    ck_assert_mem_eq(some, floats(&p[0].t) + 44, 44);
    ck_assert_mem_eq(some + 11, floats(&p[1].t), 44);
    fx_row_piece bad = {mapped_tensor("c", 2, sizes, true), 5};
    r = (fx_weight_rows){.n = 5, .width = 11, .n_pieces = 1, .pieces = &bad};
    ck_assert_int_eq(fx_weight_rows_later(ctx, &r, 2, sizes, &t), FX_OK);
    ck_assert_int_eq(fx_tensor_touch(ctx, &t), FX_ERR_FORMAT);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->message, "the checksum of c differs");
}
END_TEST

/* ---- packing ---------------------------------------------------------------------------------------------------------------- */

/* The weight of g becomes a mapped one. */
static fx_tensor map(fx_graph *g, const char *path, bool damaged)
{
    fx_attr *a = fx_attr_find(g, path);
    fx_tensor t = mapped_tensor(path, a->tensor.rank, a->tensor.sizes, damaged);
    fx_attr_set_tensor(a, &t);
    return t;
}

static fx_status lowered(fx_graph *g, int threads, fx_program **p)
{
    job j = {.g = g, .opt = {.threads = threads}};
    ck_assert_int_eq(fx_target_get(ctx, "x86_64-avx512", &j.opt.target), FX_OK);
    fx_status status = fx_protect(ctx, lower, &j);
    *p = j.program;
    return status;
}

/* What the runtime packs, by its definition: whole panels and not, rows that are dense and not, few and many of them, panels of any width. */
START_TEST(panels_are_what_they_should_be)
{
    static const int widths[] = {1, 4, 6, 32}, counts[][3] = {{1, 1, 1}, {5, 15, 1}, {33, 16, 1}, {64, 50, 1}, {7, 3, 9}, {40, 19, 4}, {33, 2, 49}};
    float w[64 * 60 * 2], got[64 * 2 * 100 * 3];
    for (int i = 0; i < (int)(sizeof w / sizeof *w); i++)
        w[i] = (float)(i + 1);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            const int nr = widths[i], oc = counts[k][0], ic = counts[k][1], taps = counts[k][2], panels = (oc + nr - 1) / nr;
            const fxrt_tile tile = {.lanes = 1, .mr = 1, .nr = nr};
            const fxrt_conv2d_desc d = {.groups = 1, .oc = oc, .ic = ic, .kh = taps, .kw = 1};
            const fxrt_gemm_desc rows = {.n = oc, .k = ic * taps, .w_k = 1, .w_n = ic * taps + 3}, columns = {.n = oc, .k = ic * taps, .w_k = oc + 2, .w_n = 1};
            ck_assert_uint_le(fxrt_conv2d_packed_size(&d, &tile), sizeof got / sizeof *got);
            for (int way = 0; way < 4; way++) {
                if (way == 0)
                    fxrt_conv2d_pack(&d, &tile, w, got);
                else if (way == 1)
                    fxrt_conv_transpose2d_pack(&d, &tile, w, got);
                else
                    fxrt_gemm_pack(way == 2 ? &rows : &columns, &tile, w, got);
                for (int column = 0; column < panels * nr; column++)
                    for (int tap = 0; tap < taps; tap++)
                        for (int x = 0; x < ic; x++) {
                            const int row = tap * ic + x; /* of a matrix, too */
                            const int from = way == 0 ? (column * ic + x) * taps + tap : way == 1 ? (x * oc + column) * taps + tap
                                             : way == 2 ? column * (ic * taps + 3) + row : row * (oc + 2) + column;
                            ck_assert(got[(column / nr * ic * taps + row) * nr + column % nr] == (column < oc ? w[from] : 0));
                        }
            }
        }
}
END_TEST

/* The only weight buffer of so many floats. */
static const float *packed(const fx_program *p, size_t size)
{
    const float *found = NULL;
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].kind == FX_BUF_WEIGHT && p->bufs[i].numel.value == (int64_t)size) {
            ck_assert_ptr_null(found);
            found = p->bufs[i].data;
        }
    ck_assert_msg(found != NULL, "no weight of %zu floats", size);
    return found;
}

/* Linear maps of 1 x in by weights of so many rows, on one input, and of each result another one: such become one (lower/merge.c). */
static fx_graph *linears(int in, int n, const int *out)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_printf(&t, "graph \"net\" imported\n");
    for (int i = 0; i < n; i++)
        fx_printf(&t, "parameter l%d.weight : f32[%d, %d] = all 0.0\nparameter m%d.weight : f32[3, %d] = all 1.0\n", i, out[i], in, i, out[i]);
    fx_printf(&t, "\n%%x : f32[1, %d] = placeholder[x]\n", in);
    for (int i = 0; i < n; i++)
        fx_printf(&t, "%%w%d : f32[%d, %d] = get_attr[l%d.weight]\n%%y%d : f32[1, %d] = call_function[aten.linear.default](%%x, %%w%d)\n"
                      "%%u%d : f32[3, %d] = get_attr[m%d.weight]\n%%v%d : f32[1, 3] = call_function[aten.linear.default](%%y%d, %%u%d)\n",
                  i, out[i], in, i, i, out[i], i, i, out[i], i, i, i, i);
    fx_printf(&t, "output((");
    for (int i = 0; i < n; i++)
        fx_printf(&t, "%%v%d, ", i);
    fx_printf(&t, "))\n");
    return read_graph(t.data);
}

/* nr of the target is 32: pieces end with panels and do not, the last panel is full and not, a piece has many panels. */
START_TEST(linears_are_packed)
{
    static const struct {
        int in, n, out[3];
    } cases[] = {{17, 1, {5}}, {64, 1, {64}}, {1030, 1, {500}}, {40, 3, {32, 64, 7}}, {40, 3, {33, 64, 7}}, {300, 2, {1024, 640}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int threads = 1; threads < 4; threads += 2) {
            const int in = cases[i].in, n = cases[i].n;
            int all = 0;
            fx_graph *g = linears(in, n, cases[i].out);
            fx_tensor w[3];
            for (int k = 0; k < n; k++) {
                w[k] = map(g, fx_arena_printf(fx_context_arena(ctx), "l%d.weight", k), false);
                all += cases[i].out[k];
            }
            fx_program *p;
            touches = 0;
            ck_assert_int_eq(lowered(g, threads, &p), FX_OK);
            ck_assert_int_eq(touches, n); /* each checked once */
            const fxrt_gemm_desc d = {.n = all, .k = in, .w_k = 1, .w_n = in};
            const fxrt_tile tile = {.lanes = 16, .mr = 12, .nr = 32};
            const size_t size = fxrt_gemm_packed_size(&d, &tile);
            float *rows = malloc((size_t)(all * in) * sizeof *rows), *want = malloc(size * sizeof *want);
            for (int k = 0, at = 0; k < n; at += cases[i].out[k++] * in)
                memcpy(rows + at, floats(&w[k]), (size_t)(cases[i].out[k] * in) * sizeof *rows);
            for (int column = 0; column < (int)(size / (size_t)in); column++) /* [columns / 32][in][32] */
                for (int k = 0; k < in; k++)
                    want[(column / 32 * in + k) * 32 + column % 32] = column < all ? rows[column * in + k] : 0;
            ck_assert_mem_eq(packed(p, size), want, size * sizeof *want);
            ck_assert_uint_eq((uintptr_t)packed(p, size) % 64, 0);
            fx_arena_free(p->arena);
            free(rows);
            free(want);
        }
}
END_TEST

/* Weights that lie [in, out] are read as they lie: small and large ones, whole or not, damaged or not. */
START_TEST(turned_weights_are_packed)
{
    static const int cases[][2] = {{17, 5}, {40, 33}, {64, 64}, {300, 1024}, {600, 500}, {1, 7}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int how = 0; how < 4; how++) {
            const int in = cases[i][0], out = cases[i][1], damaged = how % 2;
            fx_graph *g = read_graph(fx_arena_printf(fx_context_arena(ctx), "graph \"net\" imported\nparameter w : f32[%d, %d] = all 0.0\n\n"
                                     "%%x : f32[3, %d] = placeholder[x]\n%%w : f32[%d, %d] = get_attr[w]\n"
                                     "%%y : f32[3, %d] = call_function[aten.mm.default](%%x, %%w)\noutput((%%y,))\n", in, out, in, in, out, out));
            fx_tensor w = map(g, "w", damaged);
            fx_program *p;
            touches = 0;
            ck_assert_int_eq(lowered(g, how < 2 ? 1 : 3, &p), damaged ? FX_ERR_FORMAT : FX_OK);
            ck_assert_int_eq(touches, 1);
            if (damaged) {
                ck_assert_str_eq(fx_diag_get(ctx, n++)->message, "the checksum of w differs");
                continue;
            }
            const size_t size = (size_t)((out + 31) / 32 * 32 * in);
            float *want = calloc(size, sizeof *want);
            for (int k = 0; k < in; k++)
                for (int column = 0; column < out; column++)
                    want[(column / 32 * in + k) * 32 + column % 32] = floats(&w)[k * out + column];
            ck_assert_mem_eq(packed(p, size), want, size * sizeof *want);
            fx_arena_free(p->arena);
            free(want);
        }
}
END_TEST

/* Rows of a matrix whose columns lie dense are made one by one. */
START_TEST(turned_rows_are_made)
{
    float data[5 * 7], rows[3 * 5];
    for (int i = 0; i < 35; i++)
        data[i] = (float)i;
    const fx_tensor t = {.dtype = FX_F32, .rank = 2, .sizes = {6, 5}, .strides = {1, 7}, .data = data}; /* of a memory of 7 rows */
    fx_weight_rows r;
    ck_assert_int_eq(fx_weight_rows_of(ctx, fx_context_arena(ctx), &t, &r), FX_OK);
    ck_assert(r.n == 6 && r.width == 5 && r.turned == 7);
    ck_assert_ptr_null(fx_weight_rows_at(&r, 1, 3));
    fx_weight_rows_make(&r, 1, 3, rows);
    for (int i = 0; i < 15; i++)
        ck_assert_float_eq(rows[i], (float)(i % 5 * 7 + 1 + i / 5));
}
END_TEST

static fx_graph *convolution(int groups, int oc, int ic, int k)
{
    return read_graph(fx_arena_printf(fx_context_arena(ctx), "graph \"net\" imported\n"
                      "parameter conv.weight : f32[%d, %d, %d, %d] = all 0.0\n"
                      "buffer bn.mean : f32[%d] = all 0.0\n"
                      "buffer bn.var : f32[%d] = all 0.0\n\n"
                      "%%x : f32[1, %d, 9, 9] = placeholder[x]\n"
                      "%%w : f32[%d, %d, %d, %d] = get_attr[conv.weight]\n"
                      "%%m : f32[%d] = get_attr[bn.mean]\n"
                      "%%v : f32[%d] = get_attr[bn.var]\n"
                      "%%conv : f32[1, %d, %d, %d] = call_function[aten.conv2d.default](%%x, %%w, None, [1, 1], [0, 0], [1, 1], %d)\n"
                      "%%bn : f32[1, %d, %d, %d] = call_function[aten.batch_norm.default](%%conv, None, None, %%m, %%v, False, 0.1, 0.5, True)\n"
                      "output((%%bn,))\n", groups * oc, ic, k, k, groups * oc, groups * oc, groups * ic, groups * oc, ic, k, k, groups * oc, groups * oc,
                      groups * oc, 10 - k, 10 - k, groups, groups * oc, 10 - k, 10 - k));
}

/* Scaled by the batch norm behind them; the last stretch of inputs of a panel is full and not, groups end with panels and do not. */
START_TEST(convolutions_are_scaled_and_packed)
{
    static const int cases[][4] = {{1, 32, 16, 1}, {1, 70, 33, 3}, {3, 33, 5, 3}, {2, 64, 3, 5}, {1, 130, 500, 3}, {1, 33, 2, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int threads = 1; threads < 4; threads += 2) {
            const int groups = cases[i][0], oc = cases[i][1], ic = cases[i][2], k = cases[i][3], width = ic * k * k;
            fx_graph *g = convolution(groups, oc, ic, k);
            fx_tensor w = map(g, "conv.weight", false), var = fx_attr_find(g, "bn.var")->tensor;
            ck_assert_int_eq(fx_tensor_touch(ctx, &var), FX_OK);
            for (int c = 0; c < groups * oc; c++)
                ((float *)var.data)[c] = (float)(c + 1) / 7;
            fx_program *p;
            touches = 0;
            ck_assert_int_eq(lowered(g, threads, &p), FX_OK);
            ck_assert_int_eq(touches, 1);
            const int panels = (oc + 31) / 32;
            const size_t size = (size_t)(groups * panels * 32 * width);
            float *want = calloc(size, sizeof *want);
            for (int c = 0; c < groups * oc; c++)
                for (int x = 0; x < ic; x++)
                    for (int tap = 0; tap < k * k; tap++)
                        want[((c / oc * panels + c % oc / 32) * width + tap * ic + x) * 32 + c % oc % 32] =
                            (float)(floats(&w)[c * width + x * k * k + tap] * (1 / sqrt((double)((float)(c + 1) / 7) + 0.5)));
            ck_assert_mem_eq(packed(p, size), want, size * sizeof *want);
            fx_arena_free(p->arena);
            free(want);
        }
}
END_TEST

/* A large table that loops read lies where it was, and is checked with the others. */
START_TEST(tables_stay_in_place)
{
    static const char text[] = "graph \"net\" imported\nparameter table : f32[%d, 70] = all 0.0\n\n%%i : i64[5] = placeholder[i]\n"
                               "%%t : f32[%d, 70] = get_attr[table]\n%%y : f32[5, 70] = call_function[aten.embedding.default](%%t, %%i)\noutput((%%y,))\n";
    static const int rows[] = {3, 1870, 1872, 10000}; /* from half a megabyte on */
    fx_program *p;
    for (size_t i = 0; i < 4; i++)
        for (int damaged = 0; damaged < 2; damaged++) {
            fx_graph *g = read_graph(fx_arena_printf(fx_context_arena(ctx), text, rows[i], rows[i]));
            fx_tensor t = map(g, "table", damaged);
            touches = 0;
            ck_assert_int_eq(lowered(g, 3, &p), damaged ? FX_ERR_FORMAT : FX_OK);
            ck_assert_int_eq(touches, 1);
            if (damaged) {
                ck_assert_str_eq(fx_diag_get(ctx, i)->message, "the checksum of table differs");
                continue;
            }
            ck_assert_ptr_eq(packed(p, (size_t)rows[i] * 70), floats(&t));
            fx_arena_free(p->arena);
        }
}
END_TEST

/* Whichever weight and however it is read: nothing is compiled of what is damaged. */
START_TEST(damaged_weights_are_found)
{
    static const int out[][3] = {{32, 64, 7}, {33, 64, 7}, {3000, 64, 7}};
    size_t n = 0;
    fx_program *p;
    for (int i = 0; i < 3; i++)
        for (int bad = 0; bad < 3; bad++, n++) {
            fx_graph *g = linears(300, 3, out[i]);
            for (int k = 0; k < 3; k++)
                map(g, fx_arena_printf(fx_context_arena(ctx), "l%d.weight", k), k == bad);
            ck_assert_int_eq(lowered(g, 3, &p), FX_ERR_FORMAT);
            ck_assert_ptr_null(p);
            ck_assert_str_eq(fx_diag_get(ctx, n)->message, fx_arena_printf(fx_context_arena(ctx), "the checksum of l%d.weight differs", bad));
        }
    fx_graph *g = convolution(2, 33, 60, 3);
    map(g, "conv.weight", true);
    ck_assert_int_eq(lowered(g, 3, &p), FX_ERR_FORMAT);
    ck_assert_str_eq(fx_diag_get(ctx, n)->message, "the checksum of conv.weight differs");
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, checksums_are_those_of_zlib);
    tcase_add_test(t, each_thread_works_once);
    tcase_add_test(t, rows_are_made_at_first_touch);
    tcase_add_test(t, panels_are_what_they_should_be);
    tcase_add_test(t, linears_are_packed);
    tcase_add_test(t, turned_weights_are_packed);
    tcase_add_test(t, turned_rows_are_made);
    tcase_add_test(t, convolutions_are_scaled_and_packed);
    tcase_add_test(t, tables_stay_in_place);
    tcase_add_test(t, damaged_weights_are_found);
}

int main(void)
{
    return unit_run("weight_rows", 60, set_up, tear_down, add_tests);
}
