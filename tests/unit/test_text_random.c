/* tests/unit/test_text_random.c: random graphs: what is printed reads back and prints to the same bytes; every form of them ends well.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "codegen/python.h"
#include "frontend/pt2.h"
#include "ir/lex.h"
#include "tests/unit/fixture.h"

static uint64_t state;

static unsigned any(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

/* Words that mean something to some reader of texts, or are bytes of no meaning at all. */
static const char *any_name(void)
{
    static const char *const names[] = {"x", "relu", "a.b.c", "0", "class", "nan", "-inf", "output", "graph", "%x", "a b", "meta", "None", "#", "\"",
        "\\", "\n", "\t\r", "\x01", "\x7f", "\xff\xfe", "\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac",
        "'", "{}", "|<>", "//", "*/", ",", "-", "", " ", "True",
        "aten.relu.default", "torch.relu", "operator.add", "torch.nn.modules.conv.Conv2d", "__main__.f.<locals>.g", "getattr", "body", "in", "hash"};
    unsigned i = any(sizeof names / sizeof *names + 3);
    if (i < sizeof names / sizeof *names)
        return names[i];
    char buf[40];
    unsigned n = 1 + any(30);
    for (unsigned k = 0; k < n; k++)
        buf[k] = (char)(1 + any(255));
    return fx_intern_n(ctx, buf, n);
}

static const fx_sym *any_sym(int depth)
{
    static const fx_sym_kind kinds[] = {FX_SYM_ADD, FX_SYM_MUL, FX_SYM_FLOORDIV, FX_SYM_MOD, FX_SYM_MAX, FX_SYM_MIN, FX_SYM_POW, FX_SYM_CEILDIV};
    unsigned k = any(depth > 3 ? 3 : 11);
    if (k == 0)
        return fx_sym_int(ctx, (int64_t)any(1000) - 500);
    if (k == 1)
        return fx_sym_symbol(ctx, any(3) ? "s0" : any_name());
    if (k == 2)
        return fx_sym_opaque(ctx, any_name());
    const fx_sym *args[2] = {any_sym(depth + 1), any_sym(depth + 1)};
    return fx_sym_make(ctx, kinds[k - 3], 2, args);
}

static fx_dim any_dim(void)
{
    const fx_sym *s = any(3) ? NULL : any_sym(0);
    return s && s->kind != FX_SYM_INT ? (fx_dim){.sym = s} : (fx_dim){.value = any(7)};
}

static const fx_type *any_type(int depth)
{
    fx_dim dims[4], strides[4];
    const fx_type *items[3];
    int n = (int)any(depth > 2 ? 1 : 4);
    switch (any(8)) {
    case 0: return NULL;
    case 1:
        for (int i = 0; i < n; i++)
            items[i] = any_type(depth + 1);
        return fx_type_tuple(ctx, n, items);
    case 2: return fx_type_int(ctx, any_dim());
    case 3: {
        static const fx_type_kind kinds[] = {FX_TYPE_NONE, FX_TYPE_FLOAT, FX_TYPE_BOOL, FX_TYPE_STR, FX_TYPE_OTHER};
        return fx_type_scalar(ctx, kinds[any(5)]);
    }
    default:
        for (int i = 0; i < n; i++) {
            dims[i] = any_dim();
            strides[i] = any_dim();
        }
        return fx_type_tensor(ctx, (fx_dtype)any(FX_DTYPE_COUNT), n, dims, any(3) ? NULL : strides);
    }
}

static double any_double(void)
{
    static const double values[] = {0.0, -0.0, 1.0, 0.1, 1e-5, 1e15, 1e16, 5e-324, 1.7976931348623157e308, INFINITY, -INFINITY, NAN, 3.5};
    if (any(2))
        return values[any(sizeof values / sizeof *values)];
    uint64_t u = ((uint64_t)any(1u << 31) << 32) ^ any(1u << 31);
    double v;
    memcpy(&v, &u, sizeof v);
    return isnan(v) ? (double)NAN : v;
}

typedef struct maker {
    fx_graph *g;
    fx_graph *const *subgraphs;
    unsigned n_subgraphs;
    fx_node *operands[256];
    int n_operands;
} maker;

/* nodes: as many as may be operands, 0 for constants. */
static const fx_arg *any_arg(maker *m, fx_node **nodes, unsigned n_nodes, int depth)
{
    static const char *const texts[] = {"torch.strided", "torch.channels_last", "weird", "torch.sparse_coo", "cpu", "cuda:1"};
    const fx_arg *items[4];
    const char *keys[4];
    int n = (int)any(4);
    unsigned k = any(depth > 4 ? 12 : 17);
    if (n_nodes && any(2) && m->n_operands < 250) {
        m->operands[m->n_operands] = nodes[any(n_nodes)];
        return fx_arg_operand(ctx, m->n_operands++);
    }
    switch (k) {
    case 0: return fx_arg_none(ctx);
    case 1: return fx_arg_bool(ctx, any(2));
    case 2: return fx_arg_int(ctx, any(5) ? (int64_t)any(1000) - 500 : any(2) ? INT64_MIN : INT64_MAX);
    case 3: return fx_arg_float(ctx, any_double());
    case 4: return fx_arg_complex(ctx, any_double(), any_double());
    case 5: return fx_arg_text(ctx, FX_ARG_STR, any_name());
    case 6: return fx_arg_dtype(ctx, (fx_dtype)any(FX_DTYPE_COUNT));
    case 7: return fx_arg_text(ctx, FX_ARG_DEVICE, texts[any(6)]);
    case 8: return fx_arg_text(ctx, any(2) ? FX_ARG_LAYOUT : FX_ARG_MEMORY_FORMAT, any(2) ? "weird" : any(2) ? any_name() : "torch.odd");
    case 9: return fx_arg_ellipsis(ctx);
    case 10: return fx_arg_sym(ctx, any_sym(0));
    case 11: return m->n_subgraphs ? fx_arg_graph(ctx, m->subgraphs[any(m->n_subgraphs)]) : fx_arg_none(ctx);
    case 12: n = 3; /* fall through */
    default: break;
    }
    int used = 0;
    for (int i = 0; i < n; i++) {
        const char *key = fx_intern(ctx, any_name());
        bool twice = false;
        for (int q = 0; q < used; q++)
            twice |= keys[q] == key;
        if (twice && k == 13)
            continue;
        keys[used] = key;
        items[used++] = any_arg(m, nodes, n_nodes, depth + 1);
    }
    if (k == 13)
        return fx_arg_dict(ctx, used, keys, items);
    return fx_arg_seq(ctx, k == 12 ? FX_ARG_SLICE : k < 15 ? FX_ARG_LIST : FX_ARG_TUPLE, used, items);
}

static const fx_arg *any_constant(maker *m, fx_arg_kind kind)
{
    const fx_arg *a;
    do
        a = any_arg(m, NULL, 0, 0);
    while (a->kind != kind && kind != FX_ARG_NONE);
    return a;
}

static fx_meta *any_meta(maker *m)
{
    fx_meta *first = NULL;
    for (unsigned n = any(3) ? 0 : any(3); n > 0; n--) {
        const char *key = fx_intern(ctx, any_name());
        fx_meta *note = first;
        while (note && note->key != key)
            note = note->next;
        if (note)
            continue;
        note = FX_NEW(m->g->arena, fx_meta);
        *note = (fx_meta){key, any_constant(m, FX_ARG_NONE), first};
        first = note;
    }
    return first;
}

static void any_modules(maker *m)
{
    fx_tensor tied = {0};
    for (unsigned i = any(6); i > 0; i--) {
        const char *path = any_name();
        if (!*path)
            continue;
        fx_module *module = fx_module_make(m->g, path);
        module->class_name = any(2) ? fx_intern(ctx, any_name()) : NULL;
        module->config = any(2) ? any_constant(m, FX_ARG_DICT) : NULL;
        module->body = m->n_subgraphs && !any(3) ? m->subgraphs[any(m->n_subgraphs)] : NULL;
        module->meta = any_meta(m);
    }
    m->g->root->meta = any_meta(m);
    for (unsigned i = any(8); i > 0; i--) {
        int64_t sizes[2] = {any(9), 1 + any(9)};
        fx_tensor t;
        const char *path = any_name();
        if (!*path || fx_attr_find(m->g, path))
            continue;
        ck_assert_int_eq(fx_tensor_create(ctx, (fx_dtype)any(FX_DTYPE_COUNT), (int)any(3), sizes, &t), FX_OK);
        unsigned char *bytes = t.data;
        for (size_t k = 0; k < t.storage->nbytes; k++)
            bytes[k] = (unsigned char)(t.dtype == FX_BOOL ? any(2) : any(3) ? any(64) : 0);
        if (any(2) && tied.storage) {
            t = tied;
            if (t.rank == 2 && any(2)) { /* transposed */
                t.sizes[0] = tied.sizes[1], t.sizes[1] = tied.sizes[0];
                t.strides[0] = tied.strides[1], t.strides[1] = tied.strides[0];
            } else if (t.rank == 2 && t.sizes[0] > 1) { /* a row */
                t.rank = 1;
                t.sizes[0] = t.sizes[1], t.strides[0] = t.strides[1];
                t.data = (char *)t.data + (size_t)tied.strides[0] * fx_dtype_size(t.dtype);
            }
        } else {
            tied = t;
        }
        fx_attr *a = fx_attr_add(m->g, path, &t, false);
        a->is_parameter = any(2);
        a->persistent = any(3);
    }
}

static const char *maybe_name(void)
{
    return any(2) ? NULL : fx_intern(ctx, any_name());
}

static fx_graph *any_graph(fx_graph *const *subgraphs, unsigned n_subgraphs)
{
    static fx_node *nodes[64];
    unsigned n_nodes = 0;
    maker m = {.g = fx_graph_new(ctx, any_name()), .subgraphs = subgraphs, .n_subgraphs = n_subgraphs};
    fx_graph *g = m.g;
    g->stage = (fx_stage)any(4);
    g->file = maybe_name();
    const char *entry = maybe_name();
    for (unsigned i = any(3); i > 0; i--) {
        fx_sym_range r = {fx_intern(ctx, any_name()), any(2) ? INT64_MIN : (int64_t)any(9) - 9, any(2) ? INT64_MAX : any(100)};
        FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = r;
    }
    any_modules(&m);
    g->in_tree = any(2) ? NULL : any_constant(&m, FX_ARG_TUPLE);
    g->out_tree = any(2) ? NULL : any_constant(&m, FX_ARG_NONE);
    for (unsigned i = any(20); i > 0; i--) {
        fx_opcode opcode = (fx_opcode)any(6);
        const fx_arg *args[3], *values[3];
        const char *keys[3];
        int n_args = (int)any(4), n_keys = 0;
        m.n_operands = 0;
        for (int k = 0; k < n_args; k++)
            args[k] = any_arg(&m, nodes, n_nodes, 0);
        for (int k = (int)any(3); k > 0; k--) {
            keys[n_keys] = fx_intern(ctx, any_name());
            if (n_keys == 0 || keys[0] != keys[n_keys])
                values[n_keys++] = any_arg(&m, nodes, n_nodes, 0);
        }
        fx_node *n = fx_node_new(g, opcode, any_name(), fx_arg_seq(ctx, FX_ARG_TUPLE, n_args, args), fx_arg_dict(ctx, n_keys, keys, values),
                                 m.n_operands, m.operands, any(2) ? NULL : any_name());
        n->type = any_type(0);
        n->meta = any_meta(&m);
        n->loc.module = maybe_name();
        n->loc.frame = maybe_name();
        n->loc.entry = any(4) ? entry : maybe_name();
        n->loc.file = any(4) ? g->file : maybe_name();
        nodes[n_nodes++] = n;
    }
    return g;
}

static const char *printed(const fx_graph *g)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_graph_print(&t, g);
    return t.data;
}

/* The first line in which two texts differ; Check cannot show whole ones. */
static void same_text(const char *got, const char *expected)
{
    const char *a = got, *b = expected;
    while (*a && *a == *b)
        a++, b++;
    if (*a == *b)
        return;
    while (a > got && a[-1] != '\n')
        a--, b--;
    ck_abort_msg("expected '%.400s'\ngot '%.400s'", fx_intern_n(ctx, b, strcspn(b, "\n")), fx_intern_n(ctx, a, strcspn(a, "\n")));
}

static const char *first_message(void)
{
    const fx_diag *d = fx_diag_get(ctx, 0);
    return d ? d->message : "no diagnostic";
}

static fx_graph *random_graph(int seed)
{
    fx_graph *subgraphs[3];
    state = (uint64_t)seed * 1000003 + 17;
    unsigned n = any(4);
    for (unsigned i = 0; i < n; i++)
        subgraphs[i] = any_graph(subgraphs, i);
    return any_graph(subgraphs, n);
}

enum { SEEDS = 60, EACH = 25 };

START_TEST(texts_read_back_to_the_byte)
{
    for (int i = 0; i < EACH; i++) {
        fx_graph *g = random_graph(_i * EACH + i), *again = NULL;
        const char *text = printed(g);
        ck_assert_msg(fx_graph_parse(ctx, "random", text, strlen(text), &again) == FX_OK, "%s", first_message());
        same_text(printed(again), text);
        /* A copy is the same, too; it has a subgraph for each that the graph names, though. */
        if (!strstr(text, "\nsubgraph "))
            same_text(printed(fx_graph_copy(g)), text);
        tear_down();
        set_up();
    }
}
END_TEST

/* Whatever is in a graph: JSON is JSON, Python has as many lines as it should or is refused with a message, pictures and tables end. */
START_TEST(every_form_copes)
{
    for (int i = 0; i < EACH; i++) {
        fx_graph *g = random_graph(_i * EACH + i);
        fx_arena *tmp = fx_arena_create(ctx);
        fx_text json, t;
        const fx_json_value *root;
        fx_json r = {.ctx = ctx};
        fx_text_init(&json, tmp);
        fx_graph_print_json(&json, g);
        ck_assert_msg(fx_json_parse(&r, tmp, json.data, json.size, &root) == FX_OK, "%s", first_message());
        fx_text_init(&t, tmp);
        fx_graph_print_dot(&t, g);
        fx_graph_print_table(&t, g, NULL);
        ck_assert_uint_eq(fx_diag_count(ctx), 0);
        fx_status st[3] = {fx_python_code(&t, g), fx_python_readable(&t, g), fx_python_tabular(&t, g)};
        for (int k = 0; k < 3; k++)
            ck_assert_msg(st[k] == FX_OK || st[k] == FX_ERR_ARGUMENT || st[k] == FX_ERR_UNSUPPORTED, "%s", first_message());
        ck_assert_uint_eq(fx_diag_count(ctx), (size_t)(st[0] != FX_OK) + (st[1] != FX_OK) + (st[2] != FX_OK));
        tear_down();
        set_up();
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, texts_read_back_to_the_byte, 0, SEEDS);
    tcase_add_loop_test(t, every_form_copes, 0, SEEDS);
}

int main(void)
{
    return unit_run("text_random", 300, set_up, tear_down, add_tests);
}
