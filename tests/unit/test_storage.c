/* tests/unit/test_storage.c: host tensors, lazy storages, half precision.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture.h"

START_TEST(tensors_are_created_zeroed)
{
    const int64_t sizes[] = {2, 3, 4};
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 3, sizes, &t), FX_OK);
    ck_assert_int_eq(t.strides[0], 12);
    ck_assert_int_eq(t.strides[1], 4);
    ck_assert_int_eq(t.strides[2], 1);
    ck_assert_uint_eq((uintptr_t)t.data % 64, 0);
    ck_assert_uint_eq(t.storage->nbytes, 96);
    ck_assert_int_eq(fx_tensor_numel(&t), 24);
    for (int i = 0; i < 24; i++)
        ck_assert(((float *)t.data)[i] == 0);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 0, NULL, &t), FX_OK);
    ck_assert_int_eq(fx_tensor_numel(&t), 1);
    const int64_t empty[] = {3, 0, 5};
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I8, 3, empty, &t), FX_OK);
    ck_assert_int_eq(fx_tensor_numel(&t), 0);
    ck_assert_ptr_nonnull(t.data);
    ck_assert(fx_tensor_is_contiguous(&t));
}
END_TEST

START_TEST(bad_requests_are_refused)
{
    const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX / 2, 4}, large[] = {INT64_MAX / 8, 1};
    int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    fx_tensor t = {.rank = 7};
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, negative, &t), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, huge, &t), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F64, 2, large, &t), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 9, many, &t), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, -1, many, &t), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_DTYPE_COUNT, 1, many, &t), FX_ERR_ARGUMENT);
    ck_assert_uint_eq(fx_diag_count(ctx), 6);
    ck_assert_int_eq(t.rank, 7);
    fx_type symbolic = {.kind = FX_TYPE_TENSOR, .rank = 1, .dims = &(fx_dim){.sym = fx_sym_symbol(ctx, "s0")}};
    ck_assert_int_eq(fx_tensor_like(ctx, FX_F32, &symbolic, &t), FX_ERR_TYPE);
}
END_TEST

START_TEST(contiguous_is_what_it_should_be)
{
    fx_tensor t = {.rank = 3, .sizes = {2, 1, 3}, .strides = {3, 77, 1}};
    ck_assert(fx_tensor_is_contiguous(&t));
    t.strides[0] = 4;
    ck_assert(!fx_tensor_is_contiguous(&t));
    t = (fx_tensor){.rank = 0};
    ck_assert(fx_tensor_is_contiguous(&t));
    /* A transposed, a gapped and an expanded view become dense. */
    int32_t data[24];
    for (int i = 0; i < 24; i++)
        data[i] = i;
    static const struct {
        int64_t sizes[3], strides[3];
        int start;
    } views[] = {
        {{4, 3, 2}, {1, 4, 12}, 0},
        {{2, 3, 2}, {12, 4, 2}, 1},
        {{2, 3, 5}, {0, 4, 0}, 3},
        {{2, 3, 4}, {-12, -4, 1}, 20},
    };
    for (size_t k = 0; k < sizeof views / sizeof *views; k++) {
        fx_tensor v = {.dtype = FX_I32, .rank = 3, .data = data + views[k].start}, c;
        memcpy(v.sizes, views[k].sizes, sizeof views[k].sizes);
        memcpy(v.strides, views[k].strides, sizeof views[k].strides);
        ck_assert_int_eq(fx_tensor_contiguous(ctx, &v, &c), FX_OK);
        ck_assert(fx_tensor_is_contiguous(&c) && c.data != v.data);
        int64_t at = 0;
        for (int64_t a = 0; a < v.sizes[0]; a++)
            for (int64_t b = 0; b < v.sizes[1]; b++)
                for (int64_t d = 0; d < v.sizes[2]; d++, at++) {
                    int64_t expected = views[k].start + a * v.strides[0] + b * v.strides[1] + d * v.strides[2];
                    ck_assert_int_eq(((int32_t *)c.data)[at], expected);
                    ck_assert_int_eq(fx_tensor_get_int(&v, at), expected);
                }
    }
    fx_tensor dense = {.dtype = FX_I32, .rank = 1, .sizes = {24}, .strides = {1}, .data = data}, same;
    ck_assert_int_eq(fx_tensor_contiguous(ctx, &dense, &same), FX_OK);
    ck_assert_ptr_eq(same.data, data);
}
END_TEST

static int touches, releases;
static float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static fx_status bring(fx_storage *st)
{
    touches++;
    if (st->user)
        return fx_fail(st->ctx, FX_ERR_FORMAT, NULL, "the checksum of %s differs", st->name);
    st->data = weights;
    return FX_OK;
}

static void let_go(fx_storage *st)
{
    (void)st;
    releases++;
}

START_TEST(lazy_storages_come_once)
{
    fx_storage *st = fx_storage_lazy(ctx, sizeof weights, bring, let_go, NULL, "data/weights/weight_0");
    fx_tensor a = {.dtype = FX_F32, .rank = 1, .sizes = {8}, .strides = {1}, .storage = st};
    fx_tensor b = {.dtype = FX_F32, .rank = 1, .sizes = {2}, .strides = {1}, .data = (void *)(uintptr_t)12, .storage = st};
    ck_assert_int_eq(fx_tensor_touch(ctx, &a), FX_OK);
    ck_assert_int_eq(fx_tensor_touch(ctx, &a), FX_OK);
    ck_assert_int_eq(fx_tensor_touch(ctx, &b), FX_OK);
    ck_assert_int_eq(fx_tensor_touch(ctx, &b), FX_OK);
    ck_assert_int_eq(touches, 1);
    ck_assert_ptr_eq(a.data, weights);
    ck_assert_ptr_eq(b.data, weights + 3);
    ck_assert(fx_tensor_get(&b, 1) == 5);
    fx_storage *bad = fx_storage_lazy(ctx, 4, bring, let_go, "bad", "weight_1");
    fx_tensor c = {.dtype = FX_F32, .rank = 0, .storage = bad}, d;
    ck_assert_int_eq(fx_tensor_touch(ctx, &c), FX_ERR_FORMAT);
    ck_assert_int_eq(fx_tensor_contiguous(ctx, &c, &d), FX_ERR_FORMAT);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->message, "the checksum of weight_1 differs");
    fx_storage *none = fx_storage_lazy(ctx, 4, NULL, NULL, NULL, "weight_2");
    c.storage = none;
    ck_assert_int_eq(fx_tensor_touch(ctx, &c), FX_INTERNAL);
    none->nbytes = 0;
    ck_assert_int_eq(fx_tensor_touch(ctx, &c), FX_OK);
    fx_storage_free(none);
    fx_storage_free(NULL);
    fx_context_free(ctx);
    ck_assert_int_eq(releases, 2);
    ctx = NULL;
}
END_TEST

START_TEST(elements_convert)
{
    static const struct {
        fx_dtype dtype;
        double in, out;
        int64_t as_int;
    } cases[] = {
        {FX_F32, 0.1, 0.1f, 0}, {FX_F64, 0.1, 0.1, 0}, {FX_F32, -2.9, -2.9f, -2},
        {FX_F16, 1.0009765625, 1.0009765625, 1}, {FX_F16, 65520, INFINITY, INT64_MIN}, {FX_F16, 65519, 65504, 65504},
        {FX_BF16, 1.00390625, 1, 1}, {FX_BF16, 1.01171875, 1.015625, 1},
        {FX_I8, 127, 127, 127}, {FX_I8, 128, -128, -128}, {FX_I8, -1.9, -1, -1}, {FX_U8, 255, 255, 255}, {FX_U8, 256, 0, 0},
        {FX_I16, -32768, -32768, -32768}, {FX_I32, 2147483648.0, -2147483648.0, -2147483648LL},
        {FX_I64, 1e18, 1e18, 1000000000000000000}, {FX_I64, 1e19, -0x1p63, INT64_MIN}, {FX_I64, NAN, -0x1p63, INT64_MIN},
        {FX_BOOL, 0.5, 1, 1}, {FX_BOOL, NAN, 1, 1}, {FX_BOOL, 0, 0, 0}, {FX_C64, 2.5, 2.5, 2}, {FX_C128, -2.5, -2.5, -2},
    };
    const int64_t two[] = {2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_tensor t;
        ck_assert_int_eq(fx_tensor_create(ctx, cases[i].dtype, 1, two, &t), FX_OK);
        fx_tensor_set(&t, 1, cases[i].in);
        ck_assert_msg(fx_tensor_get(&t, 1) == cases[i].out, "%zu: %g", i, fx_tensor_get(&t, 1));
        ck_assert_msg(fx_tensor_get_int(&t, 1) == cases[i].as_int, "%zu: %lld", i, (long long)fx_tensor_get_int(&t, 1));
        ck_assert(fx_tensor_get(&t, 0) == 0);
        fx_tensor_set_int(&t, 0, 3);
        ck_assert(fx_tensor_get(&t, 0) == (cases[i].dtype == FX_BOOL ? 1 : 3));
    }
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 1, two, &t), FX_OK);
    fx_tensor_set_int(&t, 0, INT64_MAX);
    ck_assert_int_eq(fx_tensor_get_int(&t, 0), INT64_MAX);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, two, &t), FX_OK);
    fx_tensor_set_int(&t, 0, 16777217);
    ck_assert(fx_tensor_get(&t, 0) == 16777216);
}
END_TEST

/* Every half, and every float between two halves rounds to the nearer one, ties to even. */
START_TEST(halves_are_exact)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = fx_half_to_float((uint16_t)h);
        if (isnan(f)) {
            if ((h & 0x7C00) != 0x7C00 || !(h & 0x3FF) || !isnan(fx_half_to_float(fx_float_to_half(f))))
                ck_abort_msg("%x", h);
            continue;
        }
        int exponent = (int)(h >> 10 & 31);
        double expected = exponent == 31 ? INFINITY : ldexp((h & 0x3FF) + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
        if (h & 0x8000)
            expected = -expected;
        if (f != (float)expected || fx_float_to_half(f) != h)
            ck_abort_msg("%x is %g", h, f);
        if ((h & 0x7FFF) >= 0x7C00 || (h & 0x7FFF) == 0x7BFF)
            continue;
        float next = fx_half_to_float((uint16_t)(h + 1)), middle = (float)(((double)f + next) / 2);
        uint16_t even = (uint16_t)(h + (h & 1));
        if (fx_float_to_half(middle) != even || fx_float_to_half(nextafterf(middle, f)) != h ||
            fx_float_to_half(nextafterf(middle, next)) != h + 1)
            ck_abort_msg("above %x", h);
    }
    ck_assert_uint_eq(fx_float_to_half(65504), 0x7BFF);
    ck_assert_uint_eq(fx_float_to_half(nextafterf(65520, 0)), 0x7BFF);
    ck_assert_uint_eq(fx_float_to_half(65520), 0x7C00);
    ck_assert_uint_eq(fx_float_to_half(-INFINITY), 0xFC00);
    ck_assert_uint_eq(fx_float_to_half(1e30f), 0x7C00);
}
END_TEST

START_TEST(bfloats_are_exact)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = fx_bf16_to_float((uint16_t)h);
        if (isnan(f)) {
            if (!isnan(fx_bf16_to_float(fx_float_to_bf16(f))))
                ck_abort_msg("%x", h);
            continue;
        }
        uint32_t bits;
        memcpy(&bits, &f, 4);
        if (bits != h << 16 || fx_float_to_bf16(f) != h)
            ck_abort_msg("%x", h);
        if ((h & 0x7FFF) >= 0x7F80)
            continue;
        uint32_t middle = bits + 0x8000, below = middle - 1, above = middle + 1;
        float m, b, a;
        memcpy(&m, &middle, 4);
        memcpy(&b, &below, 4);
        memcpy(&a, &above, 4);
        if (fx_float_to_bf16(m) != h + (h & 1) || fx_float_to_bf16(b) != h || fx_float_to_bf16(a) != h + 1)
            ck_abort_msg("above %x", h);
    }
}
END_TEST

START_TEST(storages_are_released)
{
    fx_storage *kept[10];
    for (int i = 0; i < 10; i++)
        kept[i] = fx_storage_new(ctx, 100);
    fx_storage_free(kept[0]);
    fx_storage_free(kept[9]);
    fx_storage_free(kept[5]);
    memset(kept[4]->data, 1, 100);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, tensors_are_created_zeroed);
    tcase_add_test(t, bad_requests_are_refused);
    tcase_add_test(t, contiguous_is_what_it_should_be);
    tcase_add_test(t, lazy_storages_come_once);
    tcase_add_test(t, elements_convert);
    tcase_add_test(t, halves_are_exact);
    tcase_add_test(t, bfloats_are_exact);
    tcase_add_test(t, storages_are_released);
}

int main(void)
{
    return unit_run("storage", 60, set_up, tear_down, add_tests);
}
