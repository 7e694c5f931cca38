/* ir/ir.h: everything ir/ offers to frontend/, lower/, codegen/ and driver/, grouped by file in the order
 * data flows. include/fxcc/graph.h is the public face of the same structures.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_IR_H
#define FXCC_IR_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fxcc/error.h"
#include "fxcc/graph.h"
#include "fxcc/module.h"
#include "fxcc/tensor.h"

/* Out of memory never reaches the code below: fx_arena_alloc and friends do not return NULL but
 * unwind (longjmp) to the innermost fx_protect, which every public entry point that allocates
 * establishes. What must be closed on the way (files, libraries' objects) is registered with
 * fx_defer. All other errors are ordinary return values. */

/* ---- arena.c: memory by lifetime, deferred closing, growing arrays ---------------------------- */

typedef struct fx_arena fx_arena;

fx_arena *fx_arena_create(fx_context *ctx);  /* freed by fx_arena_free, at latest with ctx */
fx_arena *fx_arena_scratch(fx_context *ctx); /* freed when the innermost fx_protect leaves */
void fx_arena_free(fx_arena *arena);
void fx_arena_reset(fx_arena *arena);        /* frees what is in it; the arena stays */
void *fx_arena_alloc(fx_arena *arena, size_t size);             /* zeroed, 16-byte aligned, never NULL */
void *fx_arena_array(fx_arena *arena, size_t count, size_t size); /* the same, overflow checked */
void *fx_arena_dup(fx_arena *arena, const void *data, size_t size);
/* The same as fx_arena_array, but it can be given back before the arena goes: tables that grow. NULL is allowed. */
void *fx_arena_block(fx_arena *arena, size_t count, size_t size);
void fx_arena_unblock(fx_arena *arena, void *p);
char *fx_arena_printf(fx_arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *fx_arena_vprintf(fx_arena *arena, const char *fmt, va_list ap);
size_t fx_arena_bytes(const fx_arena *arena);                    /* bytes taken from the system */

#define FX_NEW(arena, T) ((T *)fx_arena_alloc((arena), sizeof(T)))
#define FX_NEW_ARRAY(arena, T, n) ((T *)fx_arena_array((arena), (size_t)(n), sizeof(T)))

/* Makes room for one more element of array `p` (count n, capacity *cap) in the arena; returns the array. */
void *fx_arena_grow(fx_arena *arena, void *p, size_t n, size_t *cap, size_t size);
#define FX_PUSH(arena, p, n, cap) \
    (*((p) = fx_arena_grow((arena), (p), (n), &(cap), sizeof *(p)), &(p)[(n)++]))

/* Runs fn(arg); FX_ERR_NOMEM (with a diagnostic) if memory ran out inside, FX_ERR_CANCELLED by fx_poll. Nests. */
fx_status fx_protect(fx_context *ctx, fx_status (*fn)(void *arg), void *arg);
_Noreturn void fx_out_of_memory(fx_context *ctx);
/* Asks fx_context_set_interrupt's function; when it says to stop, unwinds to fx_protect, which gives FX_ERR_CANCELLED. Arenas do so when
 * they grow; long work that takes no memory calls it. */
void fx_poll(fx_context *ctx);

/* close(arg) is called when the innermost fx_protect leaves, normally or not, last registered first. */
void fx_defer(fx_context *ctx, void (*close)(void *arg), void *arg);

/* The arena with the context's lifetime. */
fx_arena *fx_context_arena(fx_context *ctx);

/* Whether a context was freed, asked by what uses its memory and may outlive it: any thread, at any time. */
typedef struct fx_lease fx_lease;
fx_lease *fx_context_lease(fx_context *ctx);
bool fx_lease_over(const fx_lease *lease);
void fx_lease_end(fx_lease *lease); /* NULL is allowed */

/* Memory that leaves its context: what was made since ctx's serial was `since` (arenas, storages) becomes another context's, which has the same
 * allocator and nothing else (it holds memory, and is freed by fx_context_free). Call it outside of the fx_protect that made it. */
uint64_t fx_context_serial(const fx_context *ctx);
fx_context *fx_context_create_like(fx_context *ctx); /* NULL: out of memory */
void fx_context_move(fx_context *from, uint64_t since, fx_context *to);
void fx_context_keep(fx_context *ctx, const fx_arena *arena); /* frees its other arenas */
/* Frees storages in which none of these addresses lies; sorts the addresses. */
void fx_context_keep_storages(fx_context *ctx, size_t n, const void **used);

/* A context with its own allocator: tests make it fail. alloc returns zeroed memory as calloc does, or NULL. */
fx_context *fx_context_create_with(void *(*alloc)(void *user, size_t size), void (*dealloc)(void *user, void *p),
                                   void *user);

/* Memory for values outside of contexts, aligned to 64 bytes, not cleared; free() takes it. What is many pages large is asked for in large pages, as
 * contexts' memory is. NULL: there is none. */
void *fx_aligned_alloc(size_t size);

uint64_t fx_hash_block(uint64_t seed, const void *data, uint64_t size); /* of large blocks, at memory speed; not against an enemy */

/* ---- map.c: a hash map from pointers (interned strings, nodes) to pointers ---------------------------- */

/* Zero-initialise. Not for iteration: order must never depend on addresses. */
typedef struct fx_map {
    struct fx_map_slot *slots;
    size_t n, cap;
} fx_map;

void *fx_map_get(const fx_map *m, const void *key);                     /* NULL when absent */
void fx_map_put(fx_arena *arena, fx_map *m, const void *key, void *value); /* key not NULL; replaces */
void fx_map_remove(fx_map *m, const void *key);
/* A copy of what the map holds, and going back to it (the map, not a copy of its struct), which allocates nothing. */
const void *fx_map_save(fx_arena *arena, const fx_map *m);
void fx_map_restore(fx_map *m, const void *saved);
/* Room for so many more: the next puts of new keys cannot run out of memory. */
void fx_map_reserve(fx_arena *arena, fx_map *m, size_t more);
void fx_map_copy(fx_arena *arena, fx_map *to, const fx_map *from);

/* ---- string.c: interned strings, text buffers --------------------------------------------------- */

/* One copy per context: equal text is the same pointer. Text may hold any bytes but NUL. */
const char *fx_intern(fx_context *ctx, const char *text);
const char *fx_intern_n(fx_context *ctx, const char *text, size_t n);
/* The interned copy if there is one, else NULL: what was never interned is the name of nothing. Never allocates. */
const char *fx_interned(const fx_context *ctx, const char *text);
const char *fx_intern_f(fx_context *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A text that grows; printers write into one, callers write it out. */
typedef struct fx_text {
    fx_arena *arena;
    char *data; /* NUL-terminated once anything was added, else NULL; moves as the text grows */
    size_t size, cap;
    bool block; /* data is a block of the arena: texts that grew large leave no smaller copies behind */
} fx_text;

void fx_text_init(fx_text *t, fx_arena *arena);
void fx_puts(fx_text *t, const char *s);
void fx_putn(fx_text *t, const char *s, size_t n);
void fx_printf(fx_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fx_vprintf(fx_text *t, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
char *fx_text_room(fx_text *t, size_t n); /* where up to n bytes may be written; add what was written to t->size, and a NUL behind it */
/* The shortest decimal that reads back as v ("0.1", "1e-05", "inf", "nan"), always with a point or exponent. */
void fx_put_double(fx_text *t, double v);
/* text as a C string literal with quotes: \" \\ \n \r \t; other control bytes and bytes that are not UTF-8 as three
 * octal digits (\001); valid UTF-8 as it is. */
void fx_put_quoted(fx_text *t, const char *s);
/* Length of the well-formed UTF-8 sequence at s, 0 if there is none (overlong forms and surrogates are none). */
int fx_utf8_length(const char *s);
/* Reads such a literal at s (which points at the opening quote, ends before `end`) and sets *after behind the closing quote;
 * \xHH and \uHHHH are read too. NULL when it is malformed or holds a NUL. The result is interned. */
const char *fx_parse_quoted(fx_context *ctx, const char *s, const char *end, const char **after);
/* strtod whatever the locale: the longest number at s ("1e-05", "inf", "-nan"), *after = s when there is none. */
double fx_parse_double(const char *s, const char **after);

/* ---- diag.c: diagnostics ------------------------------------------------------------------------ */

/* Where something comes from. Strings are interned; any may be NULL. */
typedef struct fx_loc {
    const char *file, *entry, *node, *module, *frame;
} fx_loc;

/* Records an error and returns status, so that `return fx_fail(ctx, FX_ERR_FORMAT, loc, "...")` reads well.
 * Say what was expected and what was seen. loc may be NULL. */
fx_status fx_fail(fx_context *ctx, fx_status status, const fx_loc *loc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void fx_warn(fx_context *ctx, const fx_loc *loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void fx_remark(fx_context *ctx, const fx_loc *loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Where the message of a call without a context goes. */
typedef struct fx_words {
    char *text;                  /* NULL: nowhere */
    size_t size;
} fx_words;
/* Returns status, as fx_fail does. */
fx_status fx_fail_in(fx_words w, fx_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Forgets the diagnostics past the first `count`: of what was only tried. */

/* `FX_TRY(call);` hands any failure to the caller. */
#define FX_TRY(call)                                  \
    do {                                              \
        fx_status fx_try_status_ = (call);            \
        if (fx_try_status_ != FX_OK)                  \
            return fx_try_status_;                    \
    } while (0)

/* ---- sym.c: symbolic integers -------------------------------------------------------------------- */

/* An interned integer expression over the graph's symbols: equal expressions are the same pointer. */
typedef enum fx_sym_kind {
    FX_SYM_INT, FX_SYM_SYMBOL, FX_SYM_ADD, FX_SYM_MUL, FX_SYM_FLOORDIV, FX_SYM_MOD, FX_SYM_MAX, FX_SYM_MIN,
    FX_SYM_POW, FX_SYM_CEILDIV,
    FX_SYM_OPAQUE /* kept as text: printed, never evaluated */
} fx_sym_kind;

typedef struct fx_sym {
    fx_sym_kind kind;
    int64_t value;            /* INT */
    const char *name;         /* SYMBOL, OPAQUE's text */
    int n;                    /* operands */
    const struct fx_sym *const *args;
} fx_sym;

const fx_sym *fx_sym_int(fx_context *ctx, int64_t v);
const fx_sym *fx_sym_symbol(fx_context *ctx, const char *name);
/* Folds constants and flattens and sorts sums and products. Overflow gives an OPAQUE. */
const fx_sym *fx_sym_make(fx_context *ctx, fx_sym_kind kind, int n, const fx_sym *const *args);
const fx_sym *fx_sym_opaque(fx_context *ctx, const char *text);
const fx_sym *fx_sym_read(fx_context *ctx, const char *text); /* "2*s27 + 1"; an OPAQUE when it reads as nothing (lex_sym.c) */
int fx_sym_compare(const fx_sym *a, const fx_sym *b); /* the order of operands in a sum or product; no matter where they lie */
void fx_sym_print(fx_text *t, const fx_sym *s); /* 2*s27 + 1 */

/* A dimension: a number, or an expression (sym != NULL, value then unused and 0). */
typedef struct fx_dim {
    int64_t value;
    const fx_sym *sym;
} fx_dim;

/* Range of a graph's symbol, inclusive; INT64_MIN / INT64_MAX where unbounded. */
typedef struct fx_sym_range {
    const char *name;
    int64_t min, max;
} fx_sym_range;

/* ---- dim.c, dim_prove.c: arithmetic and proofs on dimensions ---------------------------------------------------- */

/* The symbols a dimension may name, with their ranges: a graph's or a program's. */
typedef struct fx_symbols {
    size_t n;
    const fx_sym_range *v;
} fx_symbols;

fx_symbols fx_graph_symbols(const fx_graph *g);
fx_dim fx_dim_of(int64_t v);
fx_dim fx_dim_sym(const fx_sym *s);                    /* a number when s is one */
const fx_sym *fx_dim_as_sym(fx_context *ctx, fx_dim d);
bool fx_dim_known(fx_dim d);                           /* a number: d.value */
bool fx_dim_is(fx_dim d, int64_t v);                   /* the number v */
bool fx_dim_equal(fx_dim a, fx_dim b);                 /* the same number or expression; false says nothing about expressions */
/* Numbers are folded; expressions canonical (products of sums are expanded). Overflow gives an OPAQUE, of which nothing can be proved. */
fx_dim fx_dim_add(fx_context *ctx, fx_dim a, fx_dim b);
fx_dim fx_dim_sub(fx_context *ctx, fx_dim a, fx_dim b);
fx_dim fx_dim_mul(fx_context *ctx, fx_dim a, fx_dim b);
fx_dim fx_dim_scale(fx_context *ctx, fx_dim a, int64_t factor);
fx_dim fx_dim_plus(fx_context *ctx, fx_dim a, int64_t v);
fx_dim fx_dim_floordiv(fx_context *ctx, fx_dim a, fx_dim b); /* Python's //; exact quotients of products are simplified: 12*s // s is 12 */
fx_dim fx_dim_mod(fx_context *ctx, fx_dim a, fx_dim b);
fx_dim fx_dim_max(fx_context *ctx, fx_dim a, fx_dim b);
/* a / b when b divides a whatever the symbols are: 12*s / 4, s*t / t. */
bool fx_dim_divide(fx_context *ctx, fx_dim a, fx_dim b, fx_dim *quotient);
int64_t fx_gcd(int64_t a, int64_t b);                   /* 0 with 0 is 0; 1 where it does not fit */
int64_t fx_floor_div(int64_t a, int64_t b);             /* rounds down; b is not 0, nor -1 with the least a */
/* The greatest common divisor of `with` (0: none yet) and the numbers before the terms of d: it divides d whatever the symbols are. */
int64_t fx_dim_content(fx_dim d, int64_t with);
/* Inclusive bounds by interval arithmetic over the symbols' ranges; INT64_MIN / INT64_MAX where there are none. */
void fx_dim_bounds(fx_symbols symbols, fx_dim d, int64_t *lo, int64_t *hi);
/* Whether d >= v for all values of the symbols in their ranges. Proof: d - v as a polynomial in the symbols (and in //, %, Max, Min
 * as further unknowns), each shifted by the end of its range, has no negative coefficient; or by cases (dim_cases.c), which decides most of what
 * one symbol or small ranges are in. False: not proved. */
bool fx_dim_at_least(fx_context *ctx, fx_symbols symbols, fx_dim d, int64_t v);
bool fx_dim_le(fx_context *ctx, fx_symbols symbols, fx_dim a, fx_dim b); /* proves a <= b */
/* The same of d >= 0 where n limits hold, each >= 0: what is left of d after taking away limits times what is not negative, is not. */
bool fx_dim_not_negative_given(fx_context *ctx, fx_symbols symbols, fx_dim d, size_t n, const fx_dim *limits);
/* The ranges of the symbols without what lies at their ends where d cannot be 1 or more: within a loop over d, which runs. */
fx_symbols fx_dim_where_positive(fx_arena *arena, fx_symbols symbols, fx_dim d);
/* The number for values of the symbols, by position. false: a symbol that is not there, an OPAQUE, a division by zero, overflow. */
bool fx_dim_eval(fx_symbols symbols, const int64_t *values, fx_dim d, int64_t *out);
void fx_dim_print(fx_text *t, fx_dim d);

/* ---- dim_solve.c: sizes of inputs tell symbols ---- */
/* d = factor * s + rest with factor != 0 and no other symbol: s; else NULL. symbol: the one to look for; NULL: any. */
const char *fx_dim_linear(fx_dim d, const char *symbol, int64_t *factor, int64_t *rest);
/* The symbol's value where d is `size`; false: no integer is (*value is then near it), or d is not linear in the symbol alone. */
bool fx_dim_solve(fx_dim d, const char *symbol, int64_t size, int64_t *value);
/* The same of factor * value + rest = size, factor not being 0. */
bool fx_linear_solve(int64_t factor, int64_t rest, int64_t size, int64_t *value);
/* How well d tells a symbol's value: 2 it is the symbol, 1 it is linear in it, 0 not at all. The first of the best is asked. */
int fx_dim_tells(fx_dim d, const char *symbol);

/* ---- type.c: interned value types ---------------------------------------------------------------- */

typedef enum fx_type_kind {
    FX_TYPE_NONE, FX_TYPE_TENSOR, FX_TYPE_TUPLE /* also lists */, FX_TYPE_INT, FX_TYPE_FLOAT, FX_TYPE_BOOL, FX_TYPE_STR,
    FX_TYPE_OTHER
} fx_type_kind;

/* Equal types are the same pointer. */
typedef struct fx_type {
    fx_type_kind kind;
    fx_dtype dtype;           /* TENSOR */
    int rank;                 /* TENSOR */
    const fx_dim *dims;       /* TENSOR: rank of them */
    const fx_dim *strides;    /* TENSOR: as the model's file says, or NULL; a hint only, no op depends on it */
    int n;                    /* TUPLE */
    const struct fx_type *const *items;
    fx_dim value;             /* INT: its value when known symbolically, else sym == NULL and value 0 */
} fx_type;

const fx_type *fx_type_tensor(fx_context *ctx, fx_dtype dtype, int rank, const fx_dim *dims, const fx_dim *strides);
const fx_type *fx_type_tensor_static(fx_context *ctx, fx_dtype dtype, int rank, const int64_t *sizes);
const fx_type *fx_type_tuple(fx_context *ctx, int n, const fx_type *const *items);
const fx_type *fx_type_scalar(fx_context *ctx, fx_type_kind kind);
const fx_type *fx_type_int(fx_context *ctx, fx_dim value);
bool fx_type_is_static(const fx_type *t);              /* a tensor whose dims are all numbers */
int64_t fx_type_numel(const fx_type *t);               /* of a static tensor */
bool fx_type_same_shape(const fx_type *a, const fx_type *b); /* tensors: dims equal; dtype and strides aside */
bool fx_type_same_tensor(const fx_type *a, const fx_type *b); /* the same with equal dtypes */
const char *fx_dtype_short(fx_dtype dtype);            /* "f32" */
void fx_type_print(fx_text *t, const fx_type *type);   /* f32[1, 3, 32, 32]; (f32[2], i64[2]) */

/* ---- arg.c: argument templates -------------------------------------------------------------------- */

/* An interned tree: equal trees are the same pointer. Leaves are constants or operand numbers
 * (FX_ARG_NODE: index into the node's operands). */
typedef struct fx_arg {
    fx_arg_kind kind;
    bool b;                          /* BOOL */
    int64_t i;                       /* INT; NODE: operand number; DTYPE: an fx_dtype */
    double f, im;                    /* FLOAT; COMPLEX */
    const char *s;                   /* STR, DEVICE "cpu", LAYOUT "torch.strided", MEMORY_FORMAT "torch.channels_last" */
    const fx_sym *sym;               /* SYM */
    fx_graph *graph;                 /* GRAPH */
    int n;                           /* LIST, TUPLE, DICT, SLICE (3: start, stop, step) */
    const struct fx_arg *const *items;
    const char *const *keys;         /* DICT: n of them, interned */
} fx_arg;

const fx_arg *fx_arg_none(fx_context *ctx);
const fx_arg *fx_arg_operand(fx_context *ctx, int index);
const fx_arg *fx_arg_bool(fx_context *ctx, bool v);
const fx_arg *fx_arg_int(fx_context *ctx, int64_t v);
const fx_arg *fx_arg_float(fx_context *ctx, double v);
const fx_arg *fx_arg_complex(fx_context *ctx, double re, double im);
const fx_arg *fx_arg_text(fx_context *ctx, fx_arg_kind kind, const char *s); /* STR, DEVICE, LAYOUT, MEMORY_FORMAT */
const fx_arg *fx_arg_dtype(fx_context *ctx, fx_dtype v);
const fx_arg *fx_arg_sym(fx_context *ctx, const fx_sym *s);
const fx_arg *fx_arg_graph(fx_context *ctx, fx_graph *g);
const fx_arg *fx_arg_seq(fx_context *ctx, fx_arg_kind kind, int n, const fx_arg *const *items); /* LIST, TUPLE, SLICE */
const fx_arg *fx_arg_dict(fx_context *ctx, int n, const char *const *keys, const fx_arg *const *items);
const fx_arg *fx_arg_ints(fx_context *ctx, int n, const int64_t *v); /* a LIST of INT */
const fx_arg *fx_arg_ellipsis(fx_context *ctx);
/* The tree as users see it; of: the node whose operands it names, or NULL. */
fx_value fx_value_of(fx_context *ctx, const fx_node *of, const fx_arg *a);
const char *fx_arg_kind_name(fx_arg_kind kind);           /* for messages: "list", "a node" */
/* f for each operand number, left to right. */
void fx_arg_operands(const fx_arg *a, void (*f)(void *user, int64_t operand), void *user);
/* The tree with each leaf replaced by what f returns; the same pointer when nothing changes. */
const fx_arg *fx_arg_map(fx_context *ctx, const fx_arg *a, const fx_arg *(*f)(void *user, const fx_arg *leaf), void *user);

/* ---- op.c, op.def: the one table of operators ------------------------------------------------------ */

typedef enum fx_op_class {
    FX_CLASS_POINTWISE, FX_CLASS_REDUCTION, FX_CLASS_CONTRACTION, FX_CLASS_POOL, FX_CLASS_NORM, FX_CLASS_VIEW,
    FX_CLASS_GATHER, FX_CLASS_CREATE, FX_CLASS_OTHER
} fx_op_class;

enum { /* fx_op.flags */
    FX_OP_CORE = 1,      /* allowed in core form; the others are rewritten by lower/decompose.c */
    FX_OP_RANDOM = 2,    /* two calls with equal arguments may differ */
    FX_OP_EFFECT = 4,    /* must not be removed even when unused */
};

typedef enum fx_opid {
    FX_OP_NONE = 0,
#define OP(id, ...) FX_OP_##id,
#include "op.def"
#undef OP
    FX_OP_COUNT
} fx_opid;

/* A parameter of a schema. */
typedef enum fx_param_kind {
    FX_PARAM_TENSOR, FX_PARAM_TENSORS /* Tensor[] */, FX_PARAM_SCALAR, FX_PARAM_INT /* int, SymInt */, FX_PARAM_INTS,
    FX_PARAM_FLOAT, FX_PARAM_FLOATS, FX_PARAM_BOOL, FX_PARAM_BOOLS, FX_PARAM_STR, FX_PARAM_DTYPE, FX_PARAM_LAYOUT, FX_PARAM_DEVICE,
    FX_PARAM_MEMORY_FORMAT, FX_PARAM_ANY
} fx_param_kind;

typedef struct fx_param {
    const char *name;      /* "stride" */
    fx_param_kind kind;
    bool optional;         /* "Tensor?": None is allowed */
    bool keyword_only;     /* after the "*" of the schema */
    int list_size;         /* int[2]: one int broadcasts to so many; 0: any */
    bool optional_items;   /* "Tensor?[]": None is allowed in the list */
    bool symbolic;         /* "SymInt": an expression over symbols is allowed; "int" is a number */
    const char *type;      /* as the schema spells it, without alias marks: "int[2]", "Tensor?" */
    const fx_arg *def;     /* default, or NULL when required */
} fx_param;

typedef struct fx_schema {
    int n;
    const fx_param *params;
    int n_returns;         /* tensors returned; -1: a list (Tensor[]) */
    const char *const *names; /* of params, for fx_node_normalized_arguments */
} fx_schema;

typedef struct fx_infer fx_infer; /* infer.c */
typedef struct fx_eval fx_eval;   /* interp.c */

typedef struct fx_op {
    fx_opid id;
    const char *name;      /* "aten.conv2d.default", "_operator.getitem" */
    const char *schema;    /* "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, ...) -> Tensor" */
    fx_op_class cls;
    unsigned flags;
    fx_status (*infer)(fx_infer *c);  /* checks arguments, sets the result's type */
    fx_status (*eval)(fx_eval *c);    /* the reference */
    const char *doc;       /* one line */
} fx_op;

extern const fx_op fx_ops[FX_OP_COUNT];

/* The row with this name, NULL if there is none. Accepts "torch.ops.aten.relu.default", "aten.relu.default",
 * "_operator.mul" and the other foreign spellings listed in op_alias.def. *inplace is set when the name is that of the
 * in-place variant ("aten.relu_.default") of the returned row. */
const fx_op *fx_op_find(const char *target, bool *inplace);
/* The same, remembered by the context: what the graph uses. inplace may be NULL. */
const fx_op *fx_op_lookup(fx_context *ctx, const char *target, bool *inplace);

/* The parsed schema; parsed once a context. */
const fx_schema *fx_op_schema(fx_context *ctx, const fx_op *op);
/* Any schema of ours, "(int a, float b=0.5)"; name: for the message when it cannot be read. */
const fx_schema *fx_schema_parse(fx_context *ctx, const char *text, const char *name);

/* ---- module_class.c, module_class.def: the classes of torch.nn --------------------------------------- */

enum { /* fx_class.flags */
    FX_MODULE_CONTAINER = 1,  /* cannot be called */
    FX_MODULE_RANDOM = 2,     /* random when training */
    FX_MODULE_STATISTICS = 4, /* writes its running statistics when training */
    FX_MODULE_VIEW = 8,       /* its result may be (part of) its input */
    FX_MODULE_CHAIN = 16      /* calls the modules in it, each with what the one before gives */
};

typedef enum fx_module_id {
    FX_MODULE_NONE = 0,
#define CLASS(name, ...) FX_MODULE_##name,
#define FUSED(name) FX_MODULE_##name,
#include "module_class.def"
#undef CLASS
#undef FUSED
    FX_MODULE_COUNT
} fx_module_id;

typedef struct fx_class {
    fx_module_id id;
    const char *name, *short_name; /* "torch.nn.modules.conv.Conv2d", "torch.nn.Conv2d" */
    unsigned flags;
    const char *settings;          /* a schema: what the constructor takes */
} fx_class;

extern const fx_class fx_classes[FX_MODULE_COUNT];

/* By either name; NULL when it is none of torch.nn's or class_name is NULL. */
const fx_class *fx_class_find(const char *class_name);
const fx_class *fx_module_class_of(const fx_module *m); /* of m->class_name, remembered by the context */
const fx_schema *fx_class_schema(fx_context *ctx, const fx_class *c); /* parsed once a context */
/* The convolution or linear layer in a fused pair; m itself when it is none. */
fx_module *fx_module_layer(const fx_module *m);

/* ---- graph.c, module.c: the graph ------------------------------------------------------------------- */

/* Notes by key: values without operands. */
typedef struct fx_meta {
    const char *key;                /* interned */
    const struct fx_arg *value;
    struct fx_meta *next;           /* in order of setting */
} fx_meta;

typedef struct fx_use {
    fx_node *def, *user;
    struct fx_use *prev, *next;     /* the list of def's uses, in order of creation */
} fx_use;

struct fx_node {
    fx_graph *graph;                /* what walks and checks look at comes first: one line of the cache */
    uint32_t id;                    /* dense from 0, never reused: index of side arrays */
    uint8_t opcode;                 /* fx_opcode (graph.h) */
    bool erased;
    int n_operands, n_uses;
    uint32_t mark;                  /* fx_graph_mark: met in this walk */
    fx_node *next, *prev;
    const char *name;               /* unique in the graph */
    const fx_op *op;                /* call_function whose target is a row of op.def, else NULL */
    fx_use *operands;               /* one for each FX_ARG_NODE number in args and kwargs, in order of first appearance */
    fx_use *first_use, *last_use;
    const char *target;             /* as written: "aten.relu.default", "layer1.0.weight" (get_attr), input's name */
    const fx_arg *args;             /* a TUPLE */
    const fx_arg *kwargs;           /* a DICT */
    const fx_type *type;            /* NULL when unknown */
    fx_loc loc;                     /* loc.node is name */
    fx_meta *meta;                  /* users' notes, NULL mostly */
};

/* A tensor that hangs on the module tree. Aliases (tied weights) share storage. */
typedef struct fx_attr {
    const char *name;               /* last component: "weight" */
    const char *path;               /* "layer1.0.conv1.weight" */
    bool is_parameter, persistent;
    fx_tensor tensor;               /* data NULL until fx_tensor_touch where the storage is mapped lazily */
    const fx_type *type;
    struct fx_module *module;       /* where it hangs */
    struct fx_attr *alias, *alias_before; /* a ring of those with the same storage, in order of adding; itself when alone */
    uint64_t hash;                  /* of the content, where a .fx text gave it instead of the data; else 0 */
} fx_attr;

struct fx_module {
    fx_graph *graph;                /* it hangs in */
    const char *name, *path;        /* last component, and all of it; "" for the root */
    const char *class_name;         /* "torch.nn.modules.conv.Conv2d", or NULL */
    const fx_arg *config;           /* a DICT of constants: the constructor's keywords; NULL when unknown */
    fx_graph *body;                 /* of a module made of a part of a graph, else NULL */
    fx_meta *meta;
    struct fx_module *parent;
    size_t index;                   /* in parent->children */
    bool erased;
    struct fx_module **children; size_t n_children, cap_children;
    fx_attr **attrs; size_t n_attrs, cap_attrs;
};

typedef enum fx_stage {
    FX_STAGE_CAPTURED,   /* any opcodes, targets and arguments, as a caller built it or torch.fx captured it */
    FX_STAGE_IMPORTED,   /* any opcodes, targets and in-place ops; args of known ops are normalised */
    FX_STAGE_FUNCTIONAL, /* no in-place op, no mutation; targets all known */
    FX_STAGE_CORE        /* only rows with FX_OP_CORE; every node typed */
} fx_stage;

const char *fx_stage_name(fx_stage stage); /* "captured" */

/* Whether a key is this one: most others differ in their first letter, and most equal ones are interned. */
static inline bool fx_same_key(const char *a, const char *b)
{
    return a == b || (*a == *b && strcmp(a, b) == 0);
}

/* A condition on a graph's symbols: value >= 0, or the run must fail. */
typedef struct fx_size_limit {
    fx_dim value;
    const char *text;               /* what the model says of it */
} fx_size_limit;

struct fx_graph {
    fx_context *ctx;
    fx_arena *arena;
    const char *name;               /* "resnet18": root folder of the archive or file stem */
    const char *file;
    fx_stage stage;
    fx_node *first, *last;
    uint32_t n_ids;                 /* one past the greatest node id */
    size_t n_nodes;                 /* not erased */
    fx_module *root;
    fx_map by_name;                 /* interned name -> node */
    fx_sym_range *symbols; size_t n_symbols, cap_symbols;
    fx_size_limit *limits; size_t n_limits, cap_limits; /* guards that their ranges do not imply: set by lowering */
    const fx_arg *in_tree;          /* nested structure of user inputs/outputs: leaves are INT input/output numbers; */
    const fx_arg *out_tree;         /* NULL when flat */
    fx_node *insert_before;         /* NULL: at the end */
    fx_map name_counts;             /* base of a name -> last number given out */
    uint32_t mark;                  /* the last one given out */
    fx_status status;               /* of the last public call that failed and returned a pointer */
    int level;                      /* graphs around it, at most: an argument of a graph at level 3 is at 4 */
    fx_map attrs_by_path, modules_by_path, attr_counts; /* by interned path */
    fx_map attrs_by_storage;        /* one of the ring with that storage */
    fx_attr **attrs; size_t n_attrs, cap_attrs; /* all, in order of adding */
};

/* A mark that no node has yet: nodes that get it are told from others without a set. Until the next call. */
uint32_t fx_graph_mark(const fx_graph *g);

/* naming.c */
bool fx_is_python_keyword(const char *name);
bool fx_is_identifier(const char *name);        /* of ASCII letters, digits and "_"; NULL is none */

#define FX_FOR_NODES(g, n) for (fx_node *n = (g)->first; n; n = n->next)

/* Creates a node before g->insert_before. args' FX_ARG_NODE numbers index `operands`. args must be a TUPLE, kwargs a DICT
 * (NULL: empty). The name is made from `name` (or the target) by FX's rules. Resolves op for call_function; no checking of
 * arguments beyond their form. */
fx_node *fx_node_new(fx_graph *g, fx_opcode opcode, const char *target, const fx_arg *args, const fx_arg *kwargs,
                     int n_operands, fx_node *const *operands, const char *name);

/* A builder of calls of a row with all schema parameters by position. Tensors by node, constants by fx_arg:
 *     fx_call c = fx_call_begin(g, FX_OP_relu); fx_call_node(&c, x); fx_node *y = fx_call_end(&c, "relu");
 * Missing trailing parameters take their defaults. fx_call_end infers the type; NULL with a diagnostic when it fails. */
typedef struct fx_call {
    fx_graph *g;
    const fx_op *op;
    int n, n_operands;
    const fx_arg *args[32];
    fx_node *operands[256];
} fx_call;
fx_call fx_call_begin(fx_graph *g, fx_opid op);
void fx_call_node(fx_call *c, fx_node *n);                            /* NULL: None */
void fx_call_nodes(fx_call *c, int n, fx_node *const *nodes);         /* a list */
void fx_call_arg(fx_call *c, const fx_arg *a);                        /* a constant tree without operands */
void fx_call_int(fx_call *c, int64_t v);
void fx_call_float(fx_call *c, double v);
void fx_call_bool(fx_call *c, bool v);
void fx_call_ints(fx_call *c, int n, const int64_t *v);
void fx_call_copy(fx_call *c, const fx_node *from, int param);        /* parameter `param` of another node, operands included */
fx_node *fx_call_end(fx_call *c, const char *name);

/* Fills args to the whole schema of node->op by position (names, defaults, int → float, one int → int[2]); kwargs becomes
 * empty. FX_ERR_TYPE names the parameter that does not fit. */
fx_status fx_node_normalize(fx_node *n);
bool fx_node_is_inplace(const fx_node *n);                            /* a call of a row's in-place variant: aten.add_.Tensor */

/* The same without changing the node, for any call whose operator is known: a call_function, or a call_method by its name. Arguments in
 * normal form; operand numbers are those of the node. When the row of the target does not take the arguments, other overloads of its
 * packet are tried (torch.mean(x, 1) is aten.mean.dim), numbers given one by one are taken as a list (x.view(2, 3)). False when nothing
 * fits. */
typedef struct fx_call_args {
    const fx_op *op;
    const fx_schema *schema;
    bool inplace;
    int n;                     /* schema->n */
    const fx_arg *args[32];
} fx_call_args;
bool fx_call_view(const fx_node *n, fx_call_args *out);
/* The same; says what does not fit: FX_ERR_TYPE, FX_ERR_UNSUPPORTED when the operator is not known. */
fx_status fx_call_check(const fx_node *n, fx_call_args *out);
/* The row of op.def a call_function or call_method is of, or NULL. inplace may be NULL. */
const fx_op *fx_node_row(const fx_node *n, bool *inplace);

/* One argument in the form fx_node_normalize gives it; NULL when it does not fit, *got then says what it is ("a list of 3"). */
const fx_arg *fx_param_convert(fx_context *ctx, const fx_op *op, int param, const fx_arg *a, const char **got);
/* The same for a parameter alone, without what Python's operators allow: modules' settings. */
const fx_arg *fx_param_fit(fx_context *ctx, const fx_param *p, const fx_arg *a, const char **got);

/* Reading normalised arguments by schema position. */
const fx_arg *fx_node_arg(const fx_node *n, int param);               /* never NULL for param < schema size */
fx_node *fx_node_input(const fx_node *n, int param);                  /* NULL when None or not a node */
int fx_node_inputs(const fx_node *n, int param, fx_node **out, int max); /* Tensor[]: how many; fills up to max */
bool fx_node_is_none(const fx_node *n, int param);
int64_t fx_node_int(const fx_node *n, int param);                     /* BOOL and integral FLOAT too; 0 if not one */
double fx_node_float(const fx_node *n, int param);                    /* INT and BOOL too */
bool fx_node_bool(const fx_node *n, int param);
int fx_node_ints(const fx_node *n, int param, int64_t *out, int max); /* list of ints (one int is a list of one): how many; -1 if not */
int fx_node_param(const fx_node *n, const char *name);                /* schema position of a name, -1 if none */

void fx_node_replace_uses(fx_node *old, fx_node *by);                 /* all uses of old become uses of by */
void fx_node_assign(fx_node *n, const fx_arg *args, const fx_arg *kwargs, int n_operands, fx_node *const *operands);
void fx_node_set_operand(fx_node *n, int operand, fx_node *by);
fx_status fx_node_erase(fx_node *n);                                  /* FX_ERR_ARGUMENT naming the users while used */
void fx_node_move_before(fx_node *n, fx_node *at);                    /* at NULL: to the end */
fx_graph *fx_graph_new(fx_context *ctx, const char *name);
fx_graph *fx_graph_copy(const fx_graph *g);                           /* deep; module tree copied, storages shared */
fx_meta *fx_meta_copy(fx_graph *to, const fx_meta *from);             /* the list of notes, in to's memory */

fx_attr *fx_attr_find(const fx_graph *g, const char *path);           /* "layer1.0.conv1.weight" */
/* Adds (path made unique when `fresh`) and returns the attribute; makes the modules on the way. */
fx_attr *fx_attr_add(fx_graph *g, const char *path, const fx_tensor *t, bool fresh);
const char *fx_attr_path(fx_graph *g, const fx_attr *a);
/* Another tensor for an attribute; its aliases are those of the new storage. */
void fx_attr_set_tensor(fx_attr *a, const fx_tensor *t);
/* All attributes on one storage lie on another from now on, at the same offsets. */
void fx_attr_rehang(fx_graph *g, fx_storage *from, fx_storage *to);
void fx_attr_rehang_memory(fx_graph *g, const void *data, fx_storage *to); /* of those on a caller's memory */
const fx_attr *fx_attr_first_alias(const fx_attr *a);                 /* the first added on the same storage, itself perhaps */
const char *fx_tensor_text(const fx_tensor *t, char *buf, size_t size); /* "float32[1, 3, 32, 32]" into buf, also of what no tensor can be */
bool fx_tensor_in_storage(const fx_tensor *t);                        /* all elements lie in its storage */
void fx_attr_remove(fx_attr *a);
/* Several at once, in time linear in the tree. */
void fx_tree_delete(fx_graph *g, size_t n_modules, fx_module *const *modules, size_t n_attrs, fx_attr *const *attrs);
void fx_module_remove(fx_module *m);                                  /* and all below; never the root */
fx_module *fx_module_find(const fx_graph *g, const char *path);
fx_module *fx_module_make(fx_graph *g, const char *path);
const char *fx_module_path(fx_graph *g, const fx_module *m);          /* "layer1.0"; "" for the root */
/* A setting in the form its class's schema asks for (stride=2 is [2, 2]), as given or by default; "training" is False unless given.
 * NULL when the module has none of that name or no default. */
const fx_arg *fx_module_config(const fx_module *m, const char *key);
/* A get_attr node for a new constant, inserted at the insertion point, typed. */
fx_node *fx_graph_constant(fx_graph *g, const char *path, const fx_tensor *t);

/* ---- effect.c: what a node does beside giving a value; what may share memory ------------------------------ */

enum {
    FX_EFFECT_RANDOM = 1,  /* two equal calls may differ; uses the random state */
    FX_EFFECT_KEEP = 2,    /* placeholders, outputs, asserts, printing: the program changes without it */
    FX_EFFECT_WRITES = 4,  /* writes an operand, or its module's buffers */
    FX_EFFECT_UNKNOWN = 8  /* a function or module we know nothing of: may write its operands; FX takes such calls for pure */
};
unsigned fx_node_effects(const fx_node *n);
/* fx_node_is_impure: RANDOM, KEEP or WRITES. */
bool fx_node_writes(const fx_node *n, int operand);     /* may write the memory of that operand (UNKNOWN: all) */
bool fx_node_may_return(const fx_node *n, int operand); /* its value may share memory with that operand */

/* Which values may share memory, and where it is written: a snapshot of the graph, near-linear to make. Nodes made later are taken to
 * share memory with everything. Different placeholders are taken to be different memory; attributes of one storage are one. */
typedef struct fx_alias fx_alias;
fx_alias *fx_alias_new(const fx_graph *g, fx_arena *arena);
bool fx_alias_may(const fx_alias *a, const fx_node *x, const fx_node *y);
/* May the memory of n's value be written by a node after `from` and before `to` (NULL: from the start, to the end)? O(log writes). */
bool fx_alias_written(const fx_alias *a, const fx_node *n, const fx_node *from, const fx_node *to);
/* Whether n's memory may be an input's or attribute's, so that writes to it are seen outside. */
bool fx_alias_is_external(const fx_alias *a, const fx_node *n);
/* Whether n's memory may be a result of the graph. */
bool fx_alias_is_returned(const fx_alias *a, const fx_node *n);

/* ---- snapshot.c: a graph as it was -------------------------------------------------------------------- */

/* What the graph and its module tree are now, but the elements of tensors; going back makes every pointer mean again what it meant, and
 * nodes made since are erased. Restoring allocates nothing. */
typedef struct fx_snapshot fx_snapshot;
fx_snapshot *fx_snapshot_take(fx_graph *g, fx_arena *arena);
void fx_snapshot_restore(const fx_snapshot *s);

/* ---- storage.c, npy.c: host memory ------------------------------------------------------------------ */

struct fx_storage {
    fx_context *ctx;
    size_t nbytes;
    void *data;                      /* NULL until touched when lazy */
    bool readonly;
    bool shared;                     /* attributes of more than one graph lie on it: copied before it is written */
    const fx_graph *graph;           /* the first whose attribute lay on it */
    /* For lazily mapped weights: brings the data in and checks it, once. NULL when data is there. */
    fx_status (*touch)(fx_storage *st);
    void (*release)(fx_storage *st);
    /* Until then: the data where it is there all the same, not checked yet, and what checks it by its checksum (fx_crc32), for who reads all of it
     * and computes that by the way. NULL: touch does it all. */
    const void *unchecked;
    fx_status (*check)(fx_storage *st, uint32_t crc);
    void *user;
    const char *name;                /* for messages: "data/weights/weight_0" */
    const char *file;                /* of a .fx text's tensors that lie in a file beside it: "x.safetensors", name is then the
                                        tensor's name there; the text prints as it was read. Else NULL */
    uint64_t serial;                 /* the context's count of what was made before */
    fx_storage *prev, *next;         /* all of the context, the newest first */
};

fx_storage *fx_storage_new(fx_context *ctx, size_t nbytes);           /* zeroed, 64-byte aligned, lives as ctx does */
fx_storage *fx_storage_lazy(fx_context *ctx, size_t nbytes, fx_status (*touch)(fx_storage *), void (*release)(fx_storage *),
                            void *user, const char *name);
/* The same with `room` bytes behind it, which are its user. */
fx_storage *fx_storage_lazy_room(fx_context *ctx, size_t nbytes, fx_status (*touch)(fx_storage *), void (*release)(fx_storage *), size_t room, void **user);
void *fx_storage_memory(fx_storage *st, size_t nbytes); /* for touch: zeroed, 64-byte aligned; *its* release frees it, NULL is allowed */
void fx_storage_memory_free(fx_storage *st, void *memory);
/* Releases a storage before its context goes; tensors on it are dead then. NULL is allowed. */
void fx_storage_free(fx_storage *st);
/* Makes t->data valid. Byte offset of element 0 in its storage is kept in t->data as (char *)NULL + offset until then. */
fx_status fx_tensor_touch(fx_context *ctx, fx_tensor *t);
const void *fx_tensor_peek(const fx_tensor *t); /* element 0, maybe not checked yet; NULL: it is there only after a touch */
fx_status fx_tensor_like(fx_context *ctx, fx_dtype dtype, const fx_type *type, fx_tensor *out); /* static types */
fx_status fx_tensor_contiguous(fx_context *ctx, const fx_tensor *t, fx_tensor *out);  /* itself when dense */
/* Element access by linear row-major index, converting from/to the dtype as C and torch do. Slow: reference only. */
double fx_tensor_get(const fx_tensor *t, int64_t linear);
void fx_tensor_set(fx_tensor *t, int64_t linear, double v);
int64_t fx_tensor_get_int(const fx_tensor *t, int64_t linear);
void fx_tensor_set_int(fx_tensor *t, int64_t linear, int64_t v);
/* The header of a dense tensor's .npy; false when NumPy has no such element type (bfloat16). */
bool fx_npy_header(fx_text *t, const fx_tensor *x);
float fx_half_to_float(uint16_t h);
uint16_t fx_float_to_half(float f);
float fx_bf16_to_float(uint16_t h);
uint16_t fx_float_to_bf16(float f);

/* ---- weight_rows.c: weights made of others ------------------------------------------------------------  */

/* n rows of `width` floats: those of the pieces, one below the other, each times its scale (in double, rounded once; NULL: 1). */
typedef struct fx_row_piece {
    fx_tensor t;                     /* float32, dense unless turned */
    int64_t rows;
} fx_row_piece;
typedef struct fx_weight_rows {
    int64_t n, width;
    int n_pieces;
    fx_row_piece *pieces;
    const double *scale;
    int64_t turned;                  /* one piece, whose *columns* lie dense, so far apart; no scale. 0: rows do */
} fx_weight_rows;

/* A tensor of these rows, which are made when it is first touched: pieces and their memory stay as they are until then. r is copied. */
fx_status fx_weight_rows_later(fx_context *ctx, const fx_weight_rows *r, int rank, const int64_t *sizes, fx_tensor *out);
/* What a float32 tensor's rows are made of: what fx_weight_rows_later was told, or itself. Touches it only when it cannot be peeked at. */
fx_status fx_weight_rows_of(fx_context *ctx, fx_arena *arena, const fx_tensor *t, fx_weight_rows *out);
const float *fx_weight_rows_at(const fx_weight_rows *r, int64_t from, int64_t n); /* where these lie already, or NULL */
void fx_weight_rows_make(const fx_weight_rows *r, int64_t from, int64_t n, float *to); /* in any thread */

/* ---- crc32.c ------------------------------------------------------------------------------------------------- */

/* As zlib's crc32, but fast. */
uint32_t fx_crc32(uint32_t crc, const void *data, size_t n);
uint32_t fx_crc32_join(uint32_t first, uint32_t second, size_t n); /* of both together; the second is of n bytes */

/* ---- workers.c ------------------------------------------------------------------------------------------------- */

/* Runs work in up to `threads` threads at once, of which the caller is number 0; as many as the process may run on are of use. Nothing in it may
 * unwind, report or allocate of a context. */
void fx_in_parallel(int threads, void (*work)(void *user, int thread), void *user);
int fx_processors(void);

/* ---- infer*.c: shapes and dtypes ----------------------------------------------------------------------- */

struct fx_infer {
    fx_context *ctx;
    const fx_node *node;             /* normalised */
    const fx_type *result;           /* set by the op's function */
};

/* Infers n->type from its operands' types; FX_ERR_TYPE naming what contradicts. Also placeholders/get_attr/output. */
fx_status fx_node_infer(fx_node *n);
fx_status fx_graph_infer(fx_graph *g);                                /* all nodes in order */

/* ---- verify.c: the spec of each stage ------------------------------------------------------------------- */

/* Checks structure (order, uses, names, one output at the end, targets exist) and what the stage asks for. `where` names the
 * pass or importer in the message. All findings are recorded; FX_INTERNAL unless the stage is IMPORTED (then FX_ERR_FORMAT). */
fx_status fx_graph_verify(fx_graph *g, fx_stage stage, const char *where);

/* ---- interp*.c: the reference interpreter ---------------------------------------------------------------- */

struct fx_eval {
    fx_context *ctx;
    const fx_node *node;             /* normalised and typed */
    const fx_tensor *const *in;      /* values of node->operands; tuples are not among them */
    fx_tensor *out;                  /* as many as there are results; out[i].data set by the op's function (fx_eval_out) */
    int n_out;
};
/* The operand of schema parameter `param`; NULL when None. */
const fx_tensor *fx_eval_input(const fx_eval *c, int param);

/* Evaluates one node given its operands' values: constant folding uses it. */
fx_status fx_node_eval(const fx_node *n, const fx_tensor *const *in, fx_tensor *out, int max_out, int *n_out);

/* ---- print.c, table.c, parse.c: text forms ----------------------------------------------------------------- */

void fx_graph_print(fx_text *t, const fx_graph *g);                   /* the .fx text: parses back to the byte */
fx_status fx_graph_parse(fx_context *ctx, const char *file, const char *text, size_t size, fx_graph **out);
/* After parsing: calls of known ops are normalised, types the text leaves out inferred, those it gives checked (FX_ERR_TYPE), the
 * graph verified at its stage. So that a text may be written by hand. */
fx_status fx_graph_complete(fx_graph *g);
/* print_tabular with shapes, FLOPs, bytes, totals. legal: of a captured graph a legalised copy, which tells its shapes and FLOPs; or NULL. */
void fx_graph_print_table(fx_text *t, const fx_graph *g, const fx_graph *legal);
void fx_graph_print_dot(fx_text *t, const fx_graph *g);               /* for Graphviz, as FxGraphDrawer draws it */
void fx_graph_print_json(fx_text *t, const fx_graph *g);              /* valid JSON whatever is in the graph */
void fx_arg_print(fx_text *t, const fx_arg *a, const fx_node *n);     /* operand numbers as %name of n's operands (n may be NULL) */
/* Multiply-adds count 2. 0 for views. */
int64_t fx_node_flops(const fx_node *n);

/* ---- target.c: what code is generated for ------------------------------------------------------------------ */

typedef struct fx_target {
    const char *name;      /* "x86_64-avx2" */
    const char *cflags;    /* for the emitted Makefile: "-mavx2 -mfma" */
    int lanes;             /* f32 per vector register; 1: no vectors */
    bool fma;              /* explicit fused multiply-add is there and fast */
    int mr, nr;            /* register tile of the matrix kernels: rows (pixels) x columns (channels, a multiple of lanes) */
    int64_t l1, l2;        /* data cache bytes */
    int pointer_bits;
    const char *isa;       /* suffix of libfxrt's symbols: "avx2" */
    int sm;                /* of a GPU: what its code is for, 75 for sm_75; 0: not a GPU */
    int threads;           /* of a GPU: of a block, usually */
    const int *archs; int n_archs; /* of a GPU: what sources are built for, ascending; none: sm alone */
    bool tf32;             /* of a GPU: products of float32 may be rounded to TF32 */
    unsigned lacks;        /* 1u << dtype for each that programs must not compute in or hold; 0: all exist */
} fx_target;

/* A preset (generic, x86_64-avx2, x86_64-avx512, native, aarch64, cortex-m4, cuda, cuda-sm_75, ..., cuda-sm_120) or a file of `key = value` lines. */
fx_status fx_target_get(fx_context *ctx, const char *name_or_file, fx_target *out);
bool fx_target_is_gpu(const fx_target *target);
/* target_gpu.c: what data sheets say of a large device of the architecture: TFLOP/s of float32, and of 16-bit products with sums of floats on tensor cores
 * (dense); GB/s of memory. */
typedef struct fx_gpu_sheet {
    int sm;
    const char *name;
    int multiprocessors;
    double floats, tensors, memory;
} fx_gpu_sheet;
const fx_gpu_sheet *fx_target_sheet(const fx_target *target);
size_t fx_target_products_workspace(const fx_target *target); /* of a GPU: bytes that cuBLASLt may use, as many as cuBLAS's own default on devices of its time */
/* target_gpu.c: to be built for the architectures of a list, "80,90,120": code for each, and PTX of the newest. Sets archs and cflags. */
fx_status fx_target_set_archs(fx_context *ctx, fx_target *target, const char *list);
void fx_target_print(fx_text *t, const fx_target *target);            /* the file form; parses back */

#endif
