/* tests/unit/test_index_map.c: index maps against element-by-element evaluation: random chains of views, with numbers and with symbols.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/index_map.h"
#include "tests/unit/draw.h"
#include "tests/unit/unit.h"

static fx_context *ctx;
static fx_imaps m;
static fx_sym_range ranges[2];

static void set_up(void)
{
    ctx = fx_context_create();
    ranges[0] = (fx_sym_range){.name = fx_intern(ctx, "s"), .min = 2, .max = 64};
    ranges[1] = (fx_sym_range){.name = fx_intern(ctx, "t"), .min = 1, .max = 1024};
    m = (fx_imaps){ctx, fx_context_arena(ctx), {2, ranges}};
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

static fx_dim num(int64_t v)
{
    return fx_dim_of(v);
}

static fx_dim sym(int k)
{
    return fx_dim_sym(fx_sym_symbol(ctx, ranges[k].name));
}

static const char *text(const fx_imap *map)
{
    fx_text t;
    fx_text_init(&t, m.arena);
    fx_imap_print(&t, map);
    return t.data;
}

/* ---- a tensor whose elements say where they came from -------------------------------------------------------------- */

enum { MOST = 4000, N_VALUES = 3 };
typedef struct origin {
    int source;      /* -1: pad */
    int64_t element; /* row-major in the source */
} origin;

/* What a chain of ops made so far: sizes as dims; for each choice of symbols' values, sizes as numbers and the elements. */
typedef struct tensor {
    int rank;
    fx_dim dims[FX_MAX_RANK];
    int64_t size[N_VALUES][FX_MAX_RANK];
    origin *at[N_VALUES];
} tensor;

static const int64_t values[N_VALUES][2] = {{2, 1}, {3, 5}, {6, 4}};
static int n_values; /* 1 without symbols */

static int64_t value_of(fx_dim d, int v)
{
    int64_t x = -1;
    ck_assert(fx_dim_eval(m.symbols, values[v], d, &x));
    return x;
}

static int64_t count(const tensor *t, int v)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->size[v][i];
    return n;
}

static bool sized(tensor *t)
{
    for (int v = 0; v < n_values; v++) {
        for (int i = 0; i < t->rank; i++)
            t->size[v][i] = value_of(t->dims[i], v);
        if (count(t, v) > MOST)
            return false;
        t->at[v] = FX_NEW_ARRAY(m.arena, origin, count(t, v) + 1);
    }
    return true;
}

static void point_of(const tensor *t, int v, int64_t flat, int64_t *p)
{
    for (int i = t->rank - 1; i >= 0; i--) {
        p[i] = flat % t->size[v][i];
        flat /= t->size[v][i];
    }
}

static int64_t flat_of(const tensor *t, int v, const int64_t *p)
{
    int64_t f = 0;
    for (int i = 0; i < t->rank; i++)
        f = f * t->size[v][i] + p[i];
    return f;
}

static fx_dim draw_dim(bool symbols)
{
    static const int sizes[] = {1, 2, 2, 3, 4, 6, 5};
    if (symbols && draw(2)) {
        fx_dim d = sym((int)draw(2));
        return draw(3) ? d : fx_dim_mul(ctx, d, num(2 + draw(2)));
    }
    return num(sizes[draw(7)]);
}

static bool draw_tensor(tensor *t, bool symbols, int source)
{
    t->rank = 1 + (int)draw(3);
    for (int i = 0; i < t->rank; i++)
        t->dims[i] = draw_dim(symbols);
    if (!symbols && draw(20) == 0)
        t->dims[draw((uint32_t)t->rank)] = num(0);
    if (!sized(t))
        return false;
    for (int v = 0; v < n_values; v++)
        for (int64_t i = 0; i < count(t, v); i++)
            t->at[v][i] = (origin){source, i};
    return true;
}

/* ---- ops: the map, and the same by elements ------------------------------------------------------------------------ */

/* Fills out by in[f(point)]; f gives false for pads. */
typedef bool index_fn(const void *arg, int v, const int64_t *p, int64_t *q);

static bool fill(const tensor *in, tensor *out, index_fn *f, const void *arg)
{
    if (!sized(out))
        return false;
    for (int v = 0; v < n_values; v++)
        for (int64_t i = 0; i < count(out, v); i++) {
            int64_t p[FX_MAX_RANK + 1] = {0}, q[FX_MAX_RANK + 1] = {0};
            point_of(out, v, i, p);
            out->at[v][i] = f(arg, v, p, q) ? in->at[v][flat_of(in, v, q)] : (origin){-1, 0};
        }
    return true;
}

static const tensor *from, *to; /* of the op being made */
static int axis, axis2, order[FX_MAX_RANK];
static fx_dim start, step, before[FX_MAX_RANK];

static bool by_flat(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a;
    point_of(from, v, flat_of(to, v, p), q);
    return true;
}

static bool by_order(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a, (void)v;
    for (int i = 0; i < from->rank; i++)
        q[order[i]] = p[i];
    return true;
}

static bool by_slice(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a;
    for (int i = 0; i < from->rank; i++)
        q[i] = i == axis ? value_of(start, v) + p[i] * value_of(step, v) : p[i];
    return true;
}

static bool by_select(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a;
    for (int i = 0; i < from->rank; i++)
        q[i] = i == axis ? value_of(start, v) : p[i - (i > axis)];
    return true;
}

static bool by_expand(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a, (void)v;
    for (int i = 0; i < from->rank; i++)
        q[i] = fx_dim_is(from->dims[i], 1) ? 0 : p[i + to->rank - from->rank];
    return true;
}

static bool by_flip(const void *a, int v, const int64_t *p, int64_t *q)
{
    for (int i = 0; i < from->rank; i++)
        q[i] = *(const unsigned *)a >> i & 1 ? from->size[v][i] - 1 - p[i] : p[i];
    return true;
}

static bool by_pad(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a;
    for (int i = 0; i < from->rank; i++) {
        q[i] = p[i] - value_of(before[i], v);
        if (q[i] < 0 || q[i] >= from->size[v][i])
            return false;
    }
    return true;
}

static bool by_repeat(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a;
    for (int i = 0; i < from->rank; i++)
        q[i] = p[i + to->rank - from->rank] % from->size[v][i];
    return true;
}

static bool by_roll(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a;
    for (int i = 0; i < from->rank; i++)
        q[i] = i == axis ? (p[i] - value_of(start, v) + from->size[v][i]) % from->size[v][i] : p[i];
    return true;
}

static bool by_unfold(const void *a, int v, const int64_t *p, int64_t *q)
{
    (void)a;
    for (int i = 0; i < from->rank; i++)
        q[i] = i == axis ? p[i] * value_of(step, v) + p[from->rank] : p[i];
    return true;
}

static bool by_diagonal(const void *a, int v, const int64_t *p, int64_t *q)
{
    int64_t off = *(const int64_t *)a;
    (void)v;
    for (int i = 0, k = 0; i < from->rank; i++)
        q[i] = i == axis ? p[to->rank - 1] + (off < 0 ? -off : 0) : i == axis2 ? p[to->rank - 1] + (off > 0 ? off : 0) : p[k++];
    return true;
}

/* Sizes for the same elements: neighbours merged, dims split. */
static void draw_sizes(const tensor *t, tensor *out)
{
    static const int by[] = {2, 3, 4};
    *out = *t;
    for (int change = (int)draw(4); change >= 0; change--) {
        int i = out->rank ? (int)draw((uint32_t)out->rank) : 0;
        if (draw(2) && out->rank > 1 && i + 1 < out->rank) {
            out->dims[i] = fx_dim_mul(ctx, out->dims[i], out->dims[i + 1]);
            memmove(&out->dims[i + 1], &out->dims[i + 2], sizeof *out->dims * (size_t)(out->rank - i - 2));
            out->rank--;
        } else if (out->rank && out->rank < 5) {
            fx_dim part = draw(4) ? num(by[draw(3)]) : sym((int)draw(2)), q;
            if (n_values == 1 && part.sym)
                continue;
            if (!fx_dim_divide(ctx, out->dims[i], part, &q) || fx_dim_is(q, 0))
                continue;
            if (draw(2)) {
                fx_dim s = q;
                q = part;
                part = s;
            }
            memmove(&out->dims[i + 1], &out->dims[i], sizeof *out->dims * (size_t)(out->rank - i));
            out->dims[i] = q;
            out->dims[i + 1] = part;
            out->rank++;
        }
    }
}

static bool is_small(fx_dim d)
{
    return fx_dim_known(d) && d.value < 2;
}

/* One random op on t: out, and its map, whose source 0 is t. *fresh: a tensor of its own (source 1), NULL: none. */
static const fx_imap *draw_op(const tensor *t, bool symbols, tensor *out)
{
    from = t;
    to = out;
    *out = *t;
    axis = t->rank ? (int)draw((uint32_t)t->rank) : 0;
    int64_t off = 0;
    unsigned which = draw(8);
    int op = (int)draw(14);
    if (t->rank == 0 && op != 0 && op != 4)
        op = 0;
    const fx_imap *map = NULL;
    bool ok = true;
    switch (op) {
    case 0: case 1: case 2:
        draw_sizes(t, out);
        map = fx_imap_reshape(&m, t->rank, t->dims, out->rank, out->dims);
        ok = fill(t, out, by_flat, NULL);
        break;
    case 3: case 13:
        for (int i = 0; i < t->rank; i++)
            order[i] = i;
        for (int i = t->rank - 1; i > 0; i--) {
            int k = (int)draw((uint32_t)i + 1), x = order[i];
            order[i] = order[k];
            order[k] = x;
        }
        for (int i = 0; i < t->rank; i++)
            out->dims[i] = t->dims[order[i]];
        map = fx_imap_permute(&m, t->rank, t->dims, order);
        ok = fill(t, out, by_order, NULL);
        break;
    case 4: {
        int more = t->rank < 4 ? (int)draw(2) : 0;
        out->rank = t->rank + more;
        for (int i = 0; i < t->rank; i++)
            out->dims[i + more] = fx_dim_is(t->dims[i], 1) ? draw_dim(symbols) : t->dims[i];
        if (more)
            out->dims[0] = draw_dim(symbols);
        map = fx_imap_expand(&m, t->rank, t->dims, out->rank, out->dims);
        ok = fill(t, out, by_expand, NULL);
        break;
    }
    case 5: /* start at 0 or 1, of symbolic dims all but the last too */
        if (is_small(t->dims[axis]))
            return NULL;
        start = num(draw(2));
        step = num(t->dims[axis].sym ? 1 : 1 + draw(2));
        out->dims[axis] = t->dims[axis].sym ? fx_dim_plus(ctx, t->dims[axis], -1) : num((t->dims[axis].value - start.value + step.value - 1) / step.value);
        if (t->dims[axis].sym && !fx_dim_at_least(ctx, m.symbols, t->dims[axis], 2))
            return NULL;
        map = fx_imap_slice(&m, t->rank, t->dims, axis, start, step, out->dims[axis]);
        ok = fill(t, out, by_slice, NULL);
        break;
    case 6:
        if (fx_dim_is(t->dims[axis], 0))
            return NULL;
        start = draw(2) ? fx_dim_plus(ctx, t->dims[axis], -1) : num(0);
        out->rank--;
        memmove(&out->dims[axis], &out->dims[axis + 1], sizeof *out->dims * (size_t)(t->rank - axis - 1));
        map = fx_imap_select(&m, t->rank, t->dims, axis, start);
        ok = fill(t, out, by_select, NULL);
        break;
    case 7:
        map = fx_imap_flip(&m, t->rank, t->dims, which);
        ok = fill(t, out, by_flip, &which);
        break;
    case 8: {
        fx_dim after[FX_MAX_RANK];
        for (int i = 0; i < t->rank; i++) {
            before[i] = draw(2) ? num(0) : symbols && draw(3) == 0 ? sym(1) : num(draw(3));
            after[i] = draw(2) ? num(0) : num(draw(3));
            if (!symbols && draw(6) == 0 && t->dims[i].value > 1)
                *(draw(2) ? &before[i] : &after[i]) = num(-1);
            out->dims[i] = fx_dim_add(ctx, fx_dim_add(ctx, t->dims[i], before[i]), after[i]);
        }
        map = fx_imap_pad(&m, t->rank, t->dims, before, after);
        ok = fill(t, out, by_pad, NULL);
        break;
    }
    case 9: {
        fx_dim times[FX_MAX_RANK];
        int more = t->rank < 4 ? (int)draw(2) : 0;
        out->rank = t->rank + more;
        for (int i = 0; i < out->rank; i++) {
            times[i] = num(1 + draw(2));
            out->dims[i] = i < more ? times[i] : fx_dim_mul(ctx, times[i], t->dims[i - more]);
        }
        map = fx_imap_repeat(&m, t->rank, t->dims, out->rank, times);
        ok = fill(t, out, by_repeat, NULL);
        break;
    }
    case 10:
        if (fx_dim_is(t->dims[axis], 0))
            return NULL;
        start = symbols && t->dims[axis].sym ? num(draw(2)) : num(draw((uint32_t)t->dims[axis].value + 1));
        map = fx_imap_roll(&m, t->rank, t->dims, axis, start);
        ok = fill(t, out, by_roll, NULL);
        break;
    case 11:
        if (is_small(t->dims[axis]) || !fx_dim_at_least(ctx, m.symbols, t->dims[axis], 2) || t->rank > 4)
            return NULL;
        step = num(1 + (t->dims[axis].sym ? 0 : draw(2)));
        out->rank++;
        out->dims[t->rank] = num(2);
        out->dims[axis] = fx_dim_plus(ctx, fx_dim_floordiv(ctx, fx_dim_plus(ctx, t->dims[axis], -2), step), 1);
        map = fx_imap_unfold(&m, t->rank, t->dims, axis, num(2), step);
        ok = fill(t, out, by_unfold, NULL);
        break;
    case 12:
        axis2 = (int)draw((uint32_t)t->rank);
        if (axis == axis2 || !fx_dim_known(t->dims[axis]) || !fx_dim_known(t->dims[axis2]))
            return NULL;
        off = (int64_t)draw(3) - 1;
        int64_t a = t->dims[axis].value + (off < 0 ? off : 0), b = t->dims[axis2].value - (off > 0 ? off : 0), n = a < b ? a : b;
        out->rank = 0;
        for (int i = 0; i < t->rank; i++)
            if (i != axis && i != axis2)
                out->dims[out->rank++] = t->dims[i];
        out->dims[out->rank++] = num(n < 0 ? 0 : n);
        map = fx_imap_diagonal(&m, t->rank, t->dims, off, axis, axis2, num(n < 0 ? 0 : n));
        ok = fill(t, out, by_diagonal, &off);
        break;
    }
    return ok ? map : NULL;
}

/* ---- the comparison ------------------------------------------------------------------------------------------------ */

static void check_map(const tensor *t, const fx_imap *map, const tensor *sources)
{
    ck_assert_int_eq(map->rank, t->rank);
    for (int i = 0; i < t->rank; i++)
        ck_assert(fx_dim_equal(map->dims[i], t->dims[i]));
    for (int v = 0; v < n_values; v++)
        for (int64_t i = 0; i < count(t, v); i++) {
            int64_t p[FX_MAX_RANK + 1], q[FX_MAX_RANK + 1] = {0};
            int source = -9;
            point_of(t, v, i, p);
            ck_assert_msg(fx_imap_eval(&m, values[v], map, p, &source, q), "no piece has element %lld of %s", (long long)i, text(map));
            origin o = t->at[v][i];
            ck_assert_msg(o.source == source, "source %d, expected %d, element %lld of %s", source, o.source, (long long)i, text(map));
            if (source >= 0)
                ck_assert_msg(flat_of(&sources[source % 100], v, q) == o.element, "element %lld, expected %lld of %s",
                              (long long)flat_of(&sources[source % 100], v, q), (long long)o.element, text(map));
        }
}

/* Each piece in memory: refined, the sum over the parts is the element's place. */
static bool check_refined(const fx_imap *map, const tensor *sources)
{
    bool all = true;
    for (int k = 0; k < map->n; k++) {
        const fx_imap *part = fx_imap_part(&m, map, k);
        int source = part->piece[0].source;
        if (source < 0)
            continue;
        fx_dim strides[FX_MAX_RANK], stride = num(1), base, coef[FX_SPLIT_MOST];
        const tensor *from_source = &sources[source % 100];
        for (int i = from_source->rank - 1; i >= 0; i--) {
            strides[i] = stride;
            stride = fx_dim_mul(ctx, stride, from_source->dims[i]);
        }
        const fx_imap *flat = fx_imap_flat(&m, part, source, num(7), strides);
        fx_split s;
        if (!fx_imap_refine(&m, 1, &flat, &s)) {
            all = false;
            continue;
        }
        ck_assert(fx_ix_over(&m, flat->piece[0].index[0], &s, &base, coef));
        for (int v = 0; v < n_values; v++) {
            int64_t total = 1;
            for (int i = 0; i < s.n; i++)
                total *= value_of(s.extent[i], v);
            for (int64_t at = 0; at < total; at++) {
                int64_t left = at, d[FX_MAX_RANK] = {0}, got = value_of(base, v), want;
                for (int i = s.n - 1; i >= 0; i--) {
                    int64_t e = value_of(s.extent[i], v), x = left % e;
                    left /= e;
                    d[s.dim[i]] += x * value_of(s.coef[i], v);
                    got += x * value_of(coef[i], v);
                }
                ck_assert(fx_ix_eval(&m, values[v], flat->piece[0].index[0], d, &want));
                ck_assert_msg(got == want, "refined %lld, expected %lld of %s", (long long)got, (long long)want, text(flat));
            }
        }
    }
    return all;
}

static void check_text(const fx_imap *map)
{
    const fx_imap *again;
    ck_assert_msg(fx_imap_parse(&m, text(map), &again) == FX_OK, "%s: %s", text(map), unit_message(ctx));
    ck_assert_msg(fx_imap_equal(map, again), "%s\n%s", text(map), text(again));
}

/* t and a new source side by side. The sources that map already has become numbers + 100, the new one 100 + `fresh`. */
static const fx_imap *draw_cat(const tensor *t, bool symbols, const fx_imap *map, int fresh, tensor *source, tensor *out)
{
    if (t->rank == 0)
        return NULL;
    axis = (int)draw((uint32_t)t->rank);
    *source = *out = *t;
    source->dims[axis] = draw_dim(symbols);
    bool first = draw(2);
    fx_dim size[2] = {t->dims[axis], source->dims[axis]};
    if (first) {
        size[0] = source->dims[axis];
        size[1] = t->dims[axis];
    }
    out->dims[axis] = fx_dim_add(ctx, size[0], size[1]);
    if (!sized(source) || !sized(out))
        return NULL;
    for (int v = 0; v < n_values; v++) {
        for (int64_t i = 0; i < count(source, v); i++)
            source->at[v][i] = (origin){100 + fresh, i};
        for (int64_t i = 0; i < count(out, v); i++) {
            int64_t p[FX_MAX_RANK];
            point_of(out, v, i, p);
            bool second = p[axis] >= value_of(size[0], v);
            p[axis] -= second ? value_of(size[0], v) : 0;
            const tensor *of = second != first ? source : t;
            out->at[v][i] = of->at[v][flat_of(of, v, p)];
            if (of == t && out->at[v][i].source >= 0)
                out->at[v][i].source += 100;
        }
    }
    const fx_imap *cat = fx_imap_cat(&m, out->rank, out->dims, axis, 2, size);
    cat = fx_imap_compose(&m, cat, first, map, 100);
    return fx_imap_compose(&m, cat, !first, fx_imap_identity(&m, source->rank, source->dims), 100 + fresh);
}

static void chains(bool symbols, int tries, uint32_t start_seed)
{
    int n = 0, gave_up = 0, refined = 0;
    seed = start_seed;
    n_values = symbols ? N_VALUES : 1;
    for (int i = 0; i < tries; i++) {
        fx_context *outer = ctx;
        set_up(); /* memory for one chain */
        tensor sources[64], now, next;
        if (draw_tensor(&now, symbols, 0)) {
            sources[0] = now;
            int n_sources = 1;
            const fx_imap *map = fx_imap_identity(&m, now.rank, now.dims);
            for (int len = 1 + (int)draw(5); len > 0; len--) {
                const fx_imap *more;
                if (draw(8) == 0) {
                    more = draw_cat(&now, symbols, map, n_sources, &sources[n_sources], &next);
                    if (!more)
                        continue;
                    n_sources++;
                } else {
                    const fx_imap *op = draw_op(&now, symbols, &next);
                    if (!op)
                        continue;
                    more = fx_imap_compose(&m, op, 0, map, 0);
                }
                n++;
                if (!more) {
                    gave_up++;
                    break;
                }
                map = more;
                now = next;
                check_map(&now, map, sources);
                check_text(map);
                refined += check_refined(map, sources);
            }
        }
        tear_down();
        ctx = outer;
    }
    ck_assert_int_gt(n, tries);
    /* Boxes fail only where a pad, cat or roll is reshaped across its edge; refinement where splits do not nest. */
    ck_assert_msg(gave_up * 8 < n, "%d of %d compositions given up", gave_up, n);
    ck_assert_msg(refined * 3 > n * 2, "%d of %d refined", refined, n);
}

START_TEST(chains_of_numbers)
{
    chains(false, 1500, 2463534242u);
}
END_TEST

START_TEST(chains_with_symbols)
{
    chains(true, 1000, 88172645u);
}
END_TEST

static const fx_imap *parsed(const char *s)
{
    const fx_imap *map;
    ck_assert_msg(fx_imap_parse(&m, s, &map) == FX_OK, "%s: %s", s, unit_message(ctx));
    return map;
}

/* What lowering needs simplified: text in, text out. */
START_TEST(simplified)
{
    static const char *const cases[][2] = {
        /* a split dim taken together again */
        {"(12) -> in0[4*(d0 // 4) + d0 % 4]", "(12) -> in0[d0]"},
        {"(2, 12*s) -> in0[(12*s*d0 + d1) // (12*s), (12*s*d0 + d1) % (12*s)]", "(2, 12*s) -> in0[d0, d1]"},
        /* batch, heads and length of an attention: [t, s, 768] as [t, 12, s, 64] and back */
        {"(t, s, 768) -> in0[768*s*d0 + 768*d1 + 64*(d2 // 64) + d2 % 64]", "(t, s, 768) -> in0[(768*s)*d0 + 768*d1 + d2]"},
        {"(t, 12, s, 64) -> in0[d0, d2, (64*d1 + d3) // 64 % 12, (64*d1 + d3) % 64]", "(t, 12, s, 64) -> in0[d0, d2, d1, d3]"},
        /* digits of a number turned around */
        {"(12) -> in0[(11 - d0) // 4, (11 - d0) % 4]", "(12) -> in0[-(d0 // 4) + 2, -(d0 % 4) + 3]"},
        /* one digit of another */
        {"(48) -> in0[d0 // 2 % 12 // 3]", "(48) -> in0[d0 // 6 % 4]"},
        {"(8) -> {0:4} in0[d0 % 4]; {4:8} in0[d0 % 4]", "(8) -> {0:4} in0[d0]; {4:8} in0[d0 - 4]"},
        {"(Max(s, t), 3) -> pad", "(Max(s, t), 3) -> pad"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(text(parsed(cases[i][0])), cases[i][1]);
}
END_TEST

START_TEST(refused_texts)
{
    static const char *const cases[][2] = {
        {"(2, 3 -> in0[d0]", "expected"},
        {"(2) -> in0[d1]", "d1: the map has 1 dims here"},
        {"(2) -> in0[d0 * d0]", "one side of a product must not depend on d0, d1, ..."},
        {"(2) -> in0[d0 // 0]", "a divisor is positive, got 0"},
        {"(2) -> in0[d0 % d0]", "a divisor must not depend on d0, d1, ..."},
        {"(2) -> out[d0]", "expected pad or in0, in1, ..., got 'out'"},
        {"(2) -> in0[d0] in1[d0]", "';' or the end"},
        {"(d0) -> in0[d0]", "d0: the map has 0 dims here"},
        {"(2) -> {0:d0} pad", "has 0 dims here"},
        {"(Max(s)) -> pad", "two arguments"},
        {"(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) -> pad", "at most"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fx_imap *map;
        ck_assert_msg(fx_imap_parse(&m, cases[i][0], &map) != FX_OK, "%s", cases[i][0]);
        ck_assert_msg(strstr(unit_message(ctx), cases[i][1]), "%s: %s", cases[i][0], unit_message(ctx));
    }
}
END_TEST

/* A reshape of a permuted tensor has no strides, but loops over its split dims have. */
START_TEST(refined_reshape_of_permute)
{
    fx_dim in[2] = {num(6), sym(0)}, merged[1] = {fx_dim_mul(ctx, sym(0), num(6))}, base, coef[FX_SPLIT_MOST];
    fx_dim dims[2] = {sym(0), num(6)};
    const fx_imap *perm = fx_imap_permute(&m, 2, in, (int[]){1, 0}), *view = fx_imap_reshape(&m, 2, dims, 1, merged);
    const fx_imap *map = fx_imap_compose(&m, view, 0, perm, 0);
    ck_assert_str_eq(text(map), "(6*s) -> in0[d0 % 6, d0 // 6]");
    const fx_imap *flat = fx_imap_flat(&m, map, 0, num(0), (fx_dim[]){sym(0), num(1)});
    fx_split s;
    ck_assert(!fx_ix_strided(flat->piece[0].index[0], 1, &base, coef));
    ck_assert(fx_imap_refine(&m, 1, &flat, &s));
    ck_assert_int_eq(s.n, 2);
    ck_assert(fx_dim_equal(s.extent[0], sym(0)) && fx_dim_is(s.extent[1], 6) && fx_dim_is(s.coef[0], 6));
    ck_assert(fx_ix_over(&m, flat->piece[0].index[0], &s, &base, coef));
    ck_assert(fx_dim_is(coef[0], 1) && fx_dim_equal(coef[1], sym(0)) && fx_dim_is(base, 0));
    /* splits that do not nest: a copy */
    fx_dim six[1] = {num(6)};
    const fx_imap *two = fx_imap_compose(&m, fx_imap_reshape(&m, 2, (fx_dim[]){num(2), num(3)}, 1, six), 0,
                                         fx_imap_permute(&m, 2, (fx_dim[]){num(3), num(2)}, (int[]){1, 0}), 0);
    const fx_imap *three = fx_imap_compose(&m, fx_imap_reshape(&m, 2, (fx_dim[]){num(3), num(2)}, 1, six), 0,
                                           fx_imap_permute(&m, 2, (fx_dim[]){num(2), num(3)}, (int[]){1, 0}), 0);
    const fx_imap *both[2] = {fx_imap_flat(&m, two, 0, num(0), (fx_dim[]){num(2), num(1)}),
                              fx_imap_flat(&m, three, 0, num(0), (fx_dim[]){num(3), num(1)})};
    ck_assert(fx_imap_refine(&m, 1, &both[0], &s) && fx_imap_refine(&m, 1, &both[1], &s));
    ck_assert(!fx_imap_refine(&m, 2, both, &s));
}
END_TEST

/* The boxes of two padded operands are where each is inside or in its border. */
START_TEST(boxes_of_two_maps)
{
    fx_dim four[1] = {num(4)}, eight[1] = {num(8)}, two[1] = {num(2)};
    const fx_imap *maps[2] = {fx_imap_pad(&m, 1, four, two, two), fx_imap_cat(&m, 1, eight, 0, 2, (fx_dim[]){num(3), num(5)})};
    int n;
    const fx_imap_box *b;
    ck_assert(fx_imap_boxes(&m, 2, maps, &n, &b));
    ck_assert_int_eq(n, 4);
    int64_t covered = 0;
    for (int64_t i = 0; i < 8; i++)
        for (int k = 0; k < n; k++)
            if (i >= b[k].lo[0].value && i < b[k].hi[0].value) {
                covered++;
                for (int o = 0; o < 2; o++) {
                    int source;
                    int64_t at[FX_MAX_RANK];
                    ck_assert(fx_imap_eval(&m, NULL, maps[o], &i, &source, at));
                    ck_assert_int_eq(source, maps[o]->piece[b[k].piece[o]].source);
                }
            }
    ck_assert_int_eq(covered, 8);
    ck_assert(fx_ix_equal(fx_ix_within(&m, 1, &b[0].lo[0], &b[0].hi[0], fx_ix_dim(&m, 0)),
                          fx_ix_add(&m, NULL, fx_ix_dim(&m, 0), fx_ix_const(&m, b[0].lo[0]))));
}
END_TEST

/* The map of each op's node against the reference interpreter, on elements that are their own numbers. */
START_TEST(maps_of_nodes)
{
    static const char *const ops[] = {
        "f32[6, 4] = call_function[aten.view](%x, [6, 4])", "f32[4, 2, 3] = call_function[aten.permute](%x, [2, 0, 1])",
        "f32[2, 2, 3, 4] = call_function[aten.expand](%x, [2, 2, 3, 4])", "f32[2, 2, 4] = call_function[aten.slice.Tensor](%x, 1, 0, 3, 2)",
        "f32[2, 2, 4] = call_function[aten.slice.Tensor](%x, 1, -2, 9223372036854775807, 1)", "f32[2, 4] = call_function[aten.select.int](%x, 1, -1)",
        "f32[2, 1, 3, 4] = call_function[aten.unsqueeze](%x, 1)", "f32[2, 3, 4] = call_function[aten.flip](%x, [0, 2])",
        "f32[3, 3, 4] = call_function[aten.constant_pad_nd](%x, [1, -1, 0, 0, 1, 0], 5.0)", "f32[4, 3, 4] = call_function[aten.cat]([%x, %x], 0)",
        "f32[2, 3, 2, 2] = call_function[aten.unfold](%x, 2, 2, 2)", "f32[2, 3] = call_function[aten.diagonal](%x, 1, 1, 2)",
        "f32[2, 6, 4] = call_function[aten.repeat](%x, [1, 2, 1])", "f32[2, 3, 4] = call_function[aten.roll](%x, [1, -3], [1, 2])",
        "f32[4, 3, 2] = call_function[aten.transpose.int](%x, 0, 2)", "f32[6, 4] = call_function[aten.flatten.using_ints](%x, 0, 1)",
    };
    float data[24];
    for (int i = 0; i < 24; i++)
        data[i] = (float)i;
    fx_tensor x = {.dtype = FX_F32, .rank = 3, .sizes = {2, 3, 4}, .strides = {12, 4, 1}, .data = data};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        char *source_text = fx_arena_printf(m.arena, "graph \"g\" imported\n\n%%x : f32[2, 3, 4] = placeholder[x]\n%%y : %s\noutput((%%y,))\n", ops[k]);
        fx_graph *g;
        ck_assert_msg(fx_graph_parse(ctx, "t", source_text, strlen(source_text), &g) == FX_OK, "%s\n%s", unit_message(ctx), source_text);
        size_t n_out;
        fx_tensor *out;
        ck_assert_msg(fx_graph_interpret(g, 1, &x, &n_out, &out) == FX_OK, "%s\n%s", unit_message(ctx), source_text);
        fx_node *y = fx_graph_find_node(g, "y");
        const fx_imap *map = fx_imap_of_node(&m, y);
        ck_assert_msg(map, "%s", ops[k]);
        int64_t n = fx_tensor_numel(&out[0]);
        for (int64_t i = 0; i < n; i++) {
            int64_t p[FX_MAX_RANK], at[FX_MAX_RANK] = {0}, left = i, place = 0;
            for (int d = out[0].rank - 1; d >= 0; d--) {
                p[d] = left % out[0].sizes[d];
                place += p[d] * out[0].strides[d];
                left /= out[0].sizes[d];
            }
            int source;
            ck_assert(fx_imap_eval(&m, NULL, map, p, &source, at));
            float want = source < 0 ? 5.0f : data[12 * at[0] + 4 * at[1] + at[2]];
            ck_assert_msg(((const float *)out[0].data)[place] == want, "element %lld of %s: %s", (long long)i, ops[k], text(map));
        }
    }
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, maps_of_nodes);
    tcase_add_test(t, chains_of_numbers);
    tcase_add_test(t, chains_with_symbols);
    tcase_add_test(t, simplified);
    tcase_add_test(t, refused_texts);
    tcase_add_test(t, refined_reshape_of_permute);
    tcase_add_test(t, boxes_of_two_maps);
}

int main(void)
{
    return unit_run("index_map", 120, set_up, tear_down, add);
}
