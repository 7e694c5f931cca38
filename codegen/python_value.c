/* codegen/python_value.c: constants, targets and names of graphs as Python spells them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/python.h"

/* ---- names ------------------------------------------------------------------------------------------------------------ */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word_char(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9');
}

/* Whether the first n bytes of s are an identifier that is no keyword. ASCII only: Python folds other letters to what they look like. */
static bool is_identifier(const char *s, size_t n)
{
    char buf[16];
    if (n == 0 || !is_letter(*s))
        return false;
    for (size_t i = 1; i < n; i++) {
        if (!is_word_char(s[i]))
            return false;
    }
    if (n >= sizeof buf)
        return true; /* no keyword is so long */
    memcpy(buf, s, n);
    buf[n] = '\0';
    return !fx_is_python_keyword(buf);
}

const char *fx_python_node_name(const fx_python *p, const fx_node *n)
{
    const char *local = p->local ? p->local[n->id] : NULL;
    return local ? local : n->name;
}

static bool is_free(fx_python *p, const char *interned)
{
    return !fx_map_get(&p->taken, interned) && !fx_graph_find_node(p->g, interned);
}

/* FX's way from a text to a name: runs of other characters become "_"; then a number until it is free. */
const char *fx_python_free_name(fx_python *p, const char *want)
{
    size_t n = strlen(want), k = 0;
    char *base = fx_arena_alloc(p->tmp, n + 2);
    if (n == 0 || (*want >= '0' && *want <= '9'))
        base[k++] = '_';
    for (size_t i = 0; i < n; i++) {
        if (is_word_char(want[i]))
            base[k++] = want[i];
        else if (i == 0 || is_word_char(want[i - 1]))
            base[k++] = '_';
    }
    const char *name = fx_intern_n(p->ctx, base, k);
    for (int i = 1; !is_free(p, name) || fx_is_python_keyword(name); i++)
        name = fx_intern_f(p->ctx, "%.*s_%d", (int)k, base, i);
    fx_map_put(p->tmp, &p->taken, name, p);
    return name;
}

static bool is_dotted(const char *s)
{
    for (;; s++) {
        size_t n = strcspn(s, ".");
        if (!is_identifier(s, n))
            return false;
        s += n;
        if (!*s)
            return true;
    }
}

const char *fx_python_global(fx_python *p, const char *module, const char *name, const char *want)
{
    const char *key = fx_intern_f(p->ctx, "%s:%s", module ? module : "builtins", name ? name : "");
    const char *spelled = fx_map_get(&p->globals, key);
    if (spelled)
        return spelled;
    spelled = fx_python_free_name(p, want);
    fx_map_put(p->tmp, &p->globals, key, (void *)(uintptr_t)spelled);
    fx_text *t = &p->imports;
    bool other = strcmp(spelled, name ? name : module) != 0;
    if (!name) {
        fx_printf(t, other ? "import %s as %s\n" : "import %s\n", module, spelled);
    } else if ((module || other) && is_dotted(module ? module : "builtins") && is_identifier(name, strlen(name))) {
        fx_printf(t, other ? "from %s import %s as %s\n" : "from %s import %s\n", module ? module : "builtins", name, spelled);
    }
    return spelled;
}

static const char *builtin(fx_python *p, const char *name)
{
    return fx_python_global(p, NULL, name, name);
}

static const char *torch(fx_python *p)
{
    return fx_python_global(p, "torch", NULL, "torch");
}

/* ---- constants ---------------------------------------------------------------------------------------------------------- */

void fx_python_put_int(fx_text *t, int64_t v)
{
    char buf[24], *end = buf + sizeof buf, *s = end;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        *--s = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *--s = '-';
    fx_putn(t, s, (size_t)(end - s));
}

static void put_string(fx_text *t, const char *s, char quote)
{
    fx_putn(t, &quote, 1);
    for (const unsigned char *c = (const unsigned char *)s; *c;) {
        int n = fx_utf8_length((const char *)c);
        const char *escape = *c == '\n' ? "\\n" : *c == '\r' ? "\\r" : *c == '\t' ? "\\t" : *c == '\\' ? "\\\\" : NULL;
        if (escape)
            fx_puts(t, escape);
        else if (*c == (unsigned char)quote)
            fx_printf(t, "\\%c", quote);
        else if (n == 0 || *c < 0x20 || *c == 0x7F)
            fx_printf(t, "\\x%02x", *c);
        else
            fx_putn(t, (const char *)c, (size_t)n);
        c += n ? n : 1;
    }
    fx_putn(t, &quote, 1);
}

void fx_python_put_string(fx_text *t, const char *s)
{
    put_string(t, s, strchr(s, '\'') && !strchr(s, '"') ? '"' : '\'');
}

/* A float as repr gives it. */
static void put_float(fx_python *p, fx_text *t, double v)
{
    if (isnan(v)) {
        fx_puts(t, fx_python_global(p, "math", "nan", "nan"));
    } else if (isinf(v)) {
        fx_puts(t, v < 0 ? "-" : "");
        fx_puts(t, fx_python_global(p, "math", "inf", "inf"));
    } else if (fabs(v) >= 1e15 && fabs(v) < 1e16 && v == floor(v)) { /* where C's %g has gone over to exponents and repr has not */
        fx_python_put_int(t, (int64_t)v);
        fx_puts(t, ".0");
    } else {
        fx_put_double(t, v);
    }
}

/* A part of a complex number: without ".0". */
static void put_part(fx_python *p, fx_text *t, double v)
{
    put_float(p, t, v);
    if (t->size > 2 && strcmp(t->data + t->size - 2, ".0") == 0)
        t->data[t->size -= 2] = '\0';
}

static void put_complex(fx_python *p, fx_text *t, double re, double im)
{
    if (!isfinite(re) || !isfinite(im) || (re == 0 && signbit(re))) {
        fx_puts(t, builtin(p, "complex"));
        fx_puts(t, "(");
        put_float(p, t, re);
        fx_puts(t, ", ");
        put_float(p, t, im);
        fx_puts(t, ")");
        return;
    }
    if (re != 0) {
        fx_puts(t, "(");
        put_part(p, t, re);
        fx_puts(t, signbit(im) ? "" : "+");
    }
    put_part(p, t, im);
    fx_puts(t, re != 0 ? "j)" : "j");
}

/* device(type='cuda', index=0) */
static void put_device(fx_python *p, fx_text *t, const char *s)
{
    const char *colon = strchr(s, ':');
    fx_puts(t, fx_python_global(p, "torch", "device", "device"));
    fx_puts(t, "(type=");
    fx_python_put_string(t, colon ? fx_intern_n(p->ctx, s, (size_t)(colon - s)) : s);
    if (colon)
        fx_printf(t, ", index=%d", atoi(colon + 1));
    fx_puts(t, ")");
}

/* torch.strided and the like; what is not a dotted name is no value of Python's. */
static void put_torch_word(fx_python *p, fx_text *t, const char *s, const fx_node *n)
{
    if (!is_dotted(s) || strncmp(s, "torch.", 6) != 0) {
        p->status = p->status ? p->status : fx_fail(p->ctx, FX_ERR_UNSUPPORTED, n ? &n->loc : NULL,
                                                    "expected a layout or memory format of torch's, got '%s'", s);
        return;
    }
    fx_puts(t, torch(p));
    fx_puts(t, s + 5);
}

/* Binds a local name to a symbol where a size of an input tells it that well (fx_dim_tells); NULL: none does. */
static const char *bind_symbol(fx_python *p, const char *symbol, int tells)
{
    FX_FOR_NODES(p->g, n) {
        if (n->opcode != FX_PLACEHOLDER || !n->type || n->type->kind != FX_TYPE_TENSOR)
            continue;
        for (int d = 0; d < n->type->rank; d++) {
            int64_t factor, rest;
            if (fx_dim_tells(n->type->dims[d], symbol) != tells)
                continue;
            const char *name = fx_python_free_name(p, symbol);
            fx_map_put(p->tmp, &p->symbols, symbol, (void *)(uintptr_t)name);
            fx_dim_linear(n->type->dims[d], symbol, &factor, &rest);
            fx_printf(&p->binds, tells == 2 ? "%s = %s.shape[%d]" : "%s = (%s.shape[%d]", name, fx_python_node_name(p, n), d);
            if (tells < 2)
                fx_printf(&p->binds, " - %lld) // %lld", (long long)rest, (long long)factor);
            fx_puts(&p->binds, "\n");
            return name;
        }
    }
    return NULL;
}

/* A local name for a size, bound before the body where an input shows it. */
static const char *symbol_name(fx_python *p, const char *symbol, const fx_node *user)
{
    const char *name = fx_map_get(&p->symbols, symbol);
    for (int tells = 2; tells > 0 && !name; tells--)
        name = bind_symbol(p, symbol, tells);
    if (name)
        return name;
    p->status = p->status ? p->status : fx_fail(p->ctx, FX_ERR_UNSUPPORTED, user ? &user->loc : NULL,
                                                "the size '%s' is none of an input's, so that Python code cannot know it", symbol);
    return "None";
}

static void put_sym(fx_python *p, fx_text *t, const fx_sym *s, const fx_node *n)
{
    static const char *const between[] = {[FX_SYM_ADD] = " + ", [FX_SYM_MUL] = "*", [FX_SYM_FLOORDIV] = "//", [FX_SYM_MOD] = "%",
                                          [FX_SYM_POW] = "**", [FX_SYM_MAX] = ", ", [FX_SYM_MIN] = ", ", [FX_SYM_CEILDIV] = " // "};
    switch (s->kind) {
    case FX_SYM_INT:
        fx_printf(t, s->value < 0 ? "(%lld)" : "%lld", (long long)s->value);
        return;
    case FX_SYM_SYMBOL:
        fx_puts(t, symbol_name(p, s->name, n));
        return;
    case FX_SYM_OPAQUE:
        p->status = p->status ? p->status : fx_fail(p->ctx, FX_ERR_UNSUPPORTED, n ? &n->loc : NULL, "the size '%s' cannot be said in Python",
                                                    s->name);
        return;
    default:
        break;
    }
    if (s->kind == FX_SYM_MAX || s->kind == FX_SYM_MIN)
        fx_puts(t, builtin(p, s->kind == FX_SYM_MAX ? "max" : "min"));
    fx_puts(t, s->kind == FX_SYM_CEILDIV ? "-(-" : "(");
    for (int i = 0; i < s->n; i++) {
        fx_puts(t, i ? between[s->kind] : "");
        put_sym(p, t, s->args[i], n);
    }
    fx_puts(t, ")");
}

static void put_items(fx_python *p, fx_text *t, const fx_arg *a, const fx_node *n, const char *open, const char *close)
{
    fx_puts(t, open);
    for (int i = 0; i < a->n; i++) {
        if (i)
            fx_putn(t, ", ", 2);
        if (a->kind == FX_ARG_DICT) {
            fx_python_put_string(t, a->keys[i]);
            fx_puts(t, ": ");
        }
        fx_python_put_arg(p, t, a->items[i], n);
    }
    fx_puts(t, close);
}

void fx_python_put_arg(fx_python *p, fx_text *t, const fx_arg *a, const fx_node *n)
{
    switch (a->kind) {
    case FX_ARG_NODE: fx_puts(t, fx_python_node_name(p, n->operands[a->i].def)); break;
    case FX_ARG_NONE: fx_putn(t, "None", 4); break;
    case FX_ARG_BOOL: fx_puts(t, a->b ? "True" : "False"); break;
    case FX_ARG_INT: fx_python_put_int(t, a->i); break;
    case FX_ARG_FLOAT: put_float(p, t, a->f); break;
    case FX_ARG_COMPLEX: put_complex(p, t, a->f, a->im); break;
    case FX_ARG_STR: fx_python_put_string(t, a->s); break;
    case FX_ARG_DTYPE:
        fx_puts(t, torch(p));
        fx_puts(t, ".");
        fx_puts(t, fx_dtype_name((fx_dtype)a->i));
        break;
    case FX_ARG_DEVICE: put_device(p, t, a->s); break;
    case FX_ARG_LAYOUT:
    case FX_ARG_MEMORY_FORMAT: put_torch_word(p, t, a->s, n); break;
    case FX_ARG_LIST: put_items(p, t, a, n, "[", "]"); break;
    case FX_ARG_TUPLE: put_items(p, t, a, n, "(", a->n == 1 ? ",)" : ")"); break;
    case FX_ARG_DICT: put_items(p, t, a, n, "{", "}"); break;
    case FX_ARG_SLICE:
        fx_puts(t, builtin(p, "slice"));
        put_items(p, t, a, n, "(", ")");
        break;
    case FX_ARG_ELLIPSIS: fx_puts(t, builtin(p, "Ellipsis")); break;
    case FX_ARG_SYM:
        if (p->readable) /* nobody runs it */
            fx_sym_print(t, a->sym);
        else
            put_sym(p, t, a->sym, n);
        break;
    case FX_ARG_GRAPH: fx_python_put_path(p, t, "self", a->graph->name); break;
    }
}

void fx_python_put_primary(fx_python *p, fx_text *t, const fx_arg *a, const fx_node *n)
{
    bool number = a->kind == FX_ARG_INT || a->kind == FX_ARG_FLOAT || a->kind == FX_ARG_COMPLEX;
    fx_puts(t, number ? "(" : "");
    fx_python_put_arg(p, t, a, n);
    fx_puts(t, number ? ")" : "");
}

void fx_python_put_path(fx_python *p, fx_text *t, const char *base, const char *path)
{
    /* What is behind the last getattr stands bare: find how many are needed first, since they open to the left of all. */
    int opens = 0;
    for (const char *s = path;; s++) {
        size_t n = strcspn(s, ".");
        opens += !is_identifier(s, n);
        s += n;
        if (!*s)
            break;
    }
    for (int i = 0; i < opens; i++) {
        fx_puts(t, builtin(p, "getattr"));
        fx_puts(t, "(");
    }
    fx_puts(t, base);
    for (const char *s = path;; s++) {
        size_t n = strcspn(s, ".");
        if (is_identifier(s, n)) {
            fx_putn(t, ".", 1);
            fx_putn(t, s, n);
        } else {
            const char *word = fx_intern_n(p->ctx, s, n);
            fx_puts(t, ", ");
            put_string(t, word, '"');
            fx_puts(t, ")");
        }
        s += n;
        if (!*s)
            break;
    }
}

/* ---- targets ------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    fx_py_call call;
    int operands;
    const char *text;
} operators[] = {
    {"eq", FX_PY_INFIX, 2, " == "}, {"ne", FX_PY_INFIX, 2, " != "}, {"lt", FX_PY_INFIX, 2, " < "}, {"gt", FX_PY_INFIX, 2, " > "},
    {"le", FX_PY_INFIX, 2, " <= "}, {"ge", FX_PY_INFIX, 2, " >= "}, {"pos", FX_PY_INFIX, 1, "+"}, {"neg", FX_PY_INFIX, 1, "-"},
    {"invert", FX_PY_INFIX, 1, "~"}, {"add", FX_PY_INFIX, 2, " + "}, {"sub", FX_PY_INFIX, 2, " - "}, {"mul", FX_PY_INFIX, 2, " * "},
    {"floordiv", FX_PY_INFIX, 2, " // "}, {"truediv", FX_PY_INFIX, 2, " / "}, {"div", FX_PY_INFIX, 2, " / "},
    {"mod", FX_PY_INFIX, 2, " % "}, {"pow", FX_PY_INFIX, 2, " ** "}, {"lshift", FX_PY_INFIX, 2, " << "},
    {"rshift", FX_PY_INFIX, 2, " >> "}, {"and_", FX_PY_INFIX, 2, " & "}, {"or_", FX_PY_INFIX, 2, " | "}, {"xor", FX_PY_INFIX, 2, " ^ "},
    {"getitem", FX_PY_INFIX, 2, "["}, {"matmul", FX_PY_INFIX, 2, " @ "},
    {"iadd", FX_PY_INPLACE, 2, " += "}, {"iand", FX_PY_INPLACE, 2, " &= "}, {"ifloordiv", FX_PY_INPLACE, 2, " //= "},
    {"ilshift", FX_PY_INPLACE, 2, " <<= "}, {"imod", FX_PY_INPLACE, 2, " %= "}, {"imul", FX_PY_INPLACE, 2, " *= "},
    {"imatmul", FX_PY_INPLACE, 2, " @= "}, {"ior", FX_PY_INPLACE, 2, " |= "}, {"ipow", FX_PY_INPLACE, 2, " **= "},
    {"irshift", FX_PY_INPLACE, 2, " >>= "}, {"isub", FX_PY_INPLACE, 2, " -= "}, {"itruediv", FX_PY_INPLACE, 2, " /= "},
    {"ixor", FX_PY_INPLACE, 2, " ^= "}, {"setitem", FX_PY_INPLACE, 3, "["},
};

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Names of torch.ops, which torch.export's files write without "torch.ops.". */
static bool is_torch_op(const fx_python *p, const char *target)
{
    static const char *const spaces[] = {"aten.", "prims.", "prim.", "higher_order.", "quantized.", "quantized_decomposed."};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        if (starts(target, spaces[i]))
            return true;
    }
    size_t n = strlen(target);
    int dots = 0;
    for (const char *c = target; *c; c++)
        dots += *c == '.';
    /* namespace.op.overload */
    return dots == 2 && ((n > 8 && strcmp(target + n - 8, ".default") == 0) || (p->g->stage != FX_STAGE_CAPTURED && !starts(target, "__main__")));
}

const char *fx_python_callable(fx_python *p, const char *target)
{
    fx_text t;
    fx_text_init(&t, p->tmp);
    if (starts(target, "builtins."))
        return builtin(p, target + 9);
    if (starts(target, "operator."))
        target = fx_intern_f(p->ctx, "_%s", target);
    bool from_torch = starts(target, "torch."), op = !from_torch && !starts(target, "_operator.") && is_torch_op(p, target);
    if (from_torch || op) {
        const char *base = torch(p);
        fx_python_put_path(p, &t, op ? fx_intern_f(p->ctx, "%s.ops", base) : base, op ? target : target + 6);
        return t.data;
    }
    const char *dot = strrchr(target, '.');
    if (!dot || !dot[1] || dot == target) {
        /* A bare name is a builtin of Python's, or nothing that can be imported. */
        return is_identifier(target, strlen(target)) ? builtin(p, target) : fx_python_free_name(p, target);
    }
    return fx_python_global(p, fx_intern_n(p->ctx, target, (size_t)(dot - target)), dot + 1, target);
}

/* Defaults of a row's parameters in the form normalised calls have them. */
static const fx_arg *const *defaults(fx_python *p, const fx_op *op, const fx_schema *s)
{
    const fx_arg **def = FX_NEW_ARRAY(p->tmp, const fx_arg *, s->n + 1);
    const char *got;
    for (int i = 0; i < s->n; i++)
        def[i] = s->params[i].def ? fx_param_convert(p->ctx, op, i, s->params[i].def, &got) : NULL;
    return def;
}

const fx_py_target *fx_python_target(fx_python *p, const fx_node *n)
{
    fx_py_target *t = fx_map_get(&p->targets, n->target);
    if (t)
        return t;
    t = FX_NEW(p->tmp, fx_py_target);
    fx_map_put(p->tmp, &p->targets, n->target, t);
    if (n->op && p->g->stage != FX_STAGE_CAPTURED) {
        t->schema = fx_op_schema(p->ctx, n->op);
        t->defaults = defaults(p, n->op, t->schema);
    }
    const char *name = starts(n->target, "_operator.") ? n->target + 10 : starts(n->target, "operator.") ? n->target + 9 : NULL;
    for (size_t i = 0; name && i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(operators[i].name, name) == 0) {
            t->call = operators[i].call;
            t->text = operators[i].text;
            t->operands = operators[i].operands;
            return t;
        }
    }
    t->call = strcmp(n->target, "getattr") == 0 || strcmp(n->target, "builtins.getattr") == 0 ? FX_PY_GETATTR : FX_PY_CALL;
    t->text = fx_python_callable(p, n->target);
    return t;
}
