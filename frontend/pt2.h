/* frontend/pt2.h: what the readers of .pt2 share, grouped by file in the order data flows. See docs/pt2.md.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_FRONTEND_PT2_H
#define FXCC_FRONTEND_PT2_H

#include "ir/ir.h"

/* ---- file.c: the bytes of a model file ------------------------------------------------------------- */

/* A file in memory, mapped or the caller's. Counted: the reader and every storage that looks into it hold it. */
typedef struct fx_file {
    fx_context *ctx;
    const char *name;
    const unsigned char *data;
    size_t size;
    bool mapped;
    size_t holders;
} fx_file;

/* Maps path read-only; the innermost fx_protect lets go of it unless a storage took hold. */
fx_status fx_file_map(fx_context *ctx, const char *path, fx_file **out);
fx_file *fx_file_memory(fx_context *ctx, const char *name, const void *data, size_t size);
void fx_file_hold(fx_file *file);
void fx_file_drop(fx_file *file);

/* ---- output.c: files written whole or not at all ------------------------------------------------------ */

/* A file that is written beside its place and moved there in the end. */
typedef struct fx_output {
    fx_context *ctx;
    const char *path, *temp; /* where it goes; where it is */
    int fd;
    uint64_t size;           /* bytes written so far */
    unsigned char *buffer;
    size_t n;                /* bytes in it */
    bool there;              /* temp exists */
} fx_output;

/* The innermost fx_protect removes what was not committed. */
fx_status fx_output_open(fx_context *ctx, const char *path, fx_output **out);
fx_status fx_output_write(fx_output *o, const void *data, size_t n);
fx_status fx_output_text(fx_output *o, const fx_text *t);
fx_status fx_output_close(fx_output *o);                 /* all is on its way to the disk, or an error */
fx_status fx_output_commit(fx_output *o);                /* after closing: takes its place */

/* ---- groups.c: tensors that share memory ------------------------------------------------------------------ */

typedef struct fx_group {
    fx_storage *storage;
    fx_attr **attrs;
    size_t n, cap;
} fx_group;

typedef struct fx_groups {
    fx_group **all;          /* in the order of the module tree */
    size_t n, cap;
} fx_groups;

void fx_tensor_groups(const fx_graph *g, fx_arena *arena, fx_groups *out);
uint64_t fx_window_offset(const fx_tensor *t);           /* bytes from the storage's beginning to the first element */
uint64_t fx_window_span(const fx_tensor *t);             /* bytes from there to behind the last */

void fx_group_extent(const fx_group *one, uint64_t *begin, uint64_t *end); /* of the storage: what its tensors span */

/* ---- zip_write.c: archives of stored entries ------------------------------------------------------------- */

typedef struct fx_zip_out {
    fx_output *o;
    fx_arena *arena;
    struct fx_zip_written *entries;
    size_t n, cap;
} fx_zip_out;

/* Data begin at multiples of 64, so that readers can map them. */
fx_status fx_zip_add(fx_zip_out *z, const char *name, const void *data, uint64_t size);
fx_status fx_zip_end(fx_zip_out *z);

/* ---- safetensors.c: tensors by name, read and written ------------------------------------------------- */

typedef struct fx_safetensor {
    const char *name;        /* interned */
    fx_dtype dtype;
    int rank;
    int64_t sizes[FX_MAX_RANK];
    uint64_t begin, end;     /* in the data */
} fx_safetensor;

typedef struct fx_safetensors {
    fx_file *file;
    uint64_t data;           /* where the data begin in the file */
    fx_safetensor *tensors;
    size_t n;
    fx_map by_name;
} fx_safetensors;

/* Reads the header: every tensor must lie in the file, as long as its sizes say, all of them side by side without gap or overlap. */
fx_status fx_safetensors_open(fx_context *ctx, fx_file *file, fx_safetensors **out);
const fx_safetensor *fx_safetensors_find(const fx_safetensors *s, const char *name); /* NULL if there is none */
/* st, which has no data yet, becomes the tensor's bytes: mapped, copied at first use only when they are not aligned. */
void fx_safetensors_bind(const fx_safetensors *s, const fx_safetensor *t, size_t alignment, fx_storage *st);

/* A tensor to write: bytes of a storage. */
typedef struct fx_safetensor_source {
    fx_safetensor is;        /* begin and end are set by the writer */
    fx_storage *storage;
    uint64_t offset;         /* bytes */
    struct fx_safetensor_source *next;
} fx_safetensor_source;

/* Writes tensors (changed: sorted, offsets set) one after another; only one is in memory at a time beyond what is mapped. */
fx_status fx_safetensors_write(fx_output *o, size_t n, fx_safetensor_source **tensors);

/* ---- fx_text.c: .fx texts with the tensors beside them -------------------------------------------------- */

fx_status fx_text_load(fx_context *ctx, fx_file *file, fx_graph **out);
fx_status fx_text_save(const fx_graph *g, const char *path);

/* ---- pt2_write*.c: archives that torch.export.load reads -------------------------------------------------- */

fx_status fx_pt2_save(const fx_graph *g, const char *path);

typedef struct fx_pt2_out {
    fx_context *ctx;
    const fx_graph *g;
    fx_arena *tmp;
    fx_text json;
    fx_loc loc;              /* of the file, for messages */
    const char **names;      /* by node id: what the file calls a node's value */
    fx_map inputs;           /* attribute -> its name as an input of the graph */
    fx_attr **attrs;         /* all of them: parameters, then buffers */
    size_t n_attrs, cap_attrs;
    fx_status status;        /* of a text that JSON cannot hold, a size that srepr cannot */
} fx_pt2_out;

void fx_pt2_put(fx_pt2_out *w, const char *text);                       /* as a JSON string */
void fx_pt2_put_type(fx_pt2_out *w, const fx_type *type, bool requires_grad); /* a TensorMeta */
void fx_pt2_put_window(fx_pt2_out *w, const fx_tensor *t, uint64_t offset, bool requires_grad); /* the same of stored elements */
/* pt2_write_sym.c: a size, a number or an expression; the symbols' ranges. */
void fx_pt2_put_dim(fx_pt2_out *w, fx_dim d);
void fx_pt2_put_ranges(fx_pt2_out *w);
/* pt2_write_graph.c: {"inputs": .., "outputs": .., "nodes": .., "tensor_values": ..} */
fx_status fx_pt2_put_graph(fx_pt2_out *w);
/* One argument of a call, or an output, as the schema's Argument. NULL p: an output. */
fx_status fx_pt2_put_argument(fx_pt2_out *w, const fx_node *n, const fx_param *p, const fx_arg *a);

/* ---- zip.c: archives ---------------------------------------------------------------------------------- */

typedef struct fx_zip_entry {
    const char *name;        /* interned */
    uint64_t header, offset; /* of its local header and of its data in the file */
    uint64_t packed, size;   /* bytes in the file, bytes unpacked; equal when stored */
    uint32_t crc;
    bool deflated;
} fx_zip_entry;

typedef struct fx_zip {
    fx_context *ctx;
    fx_file *file;
    fx_zip_entry *entries;   /* sorted by name */
    size_t n, cap;
} fx_zip;

/* Reads the directory and checks that every entry lies in the file, none twice and none over another. */
fx_status fx_zip_open(fx_context *ctx, fx_file *file, fx_zip **out);
const fx_zip_entry *fx_zip_find(const fx_zip *zip, const char *name); /* NULL if there is none */
/* The entry's bytes in place, not checked; NULL when they are deflated, or lie unaligned. Then what their checksum must be. */
const unsigned char *fx_zip_peek(const fx_zip *zip, const fx_zip_entry *entry, size_t alignment);
fx_status fx_zip_check(const fx_zip *zip, const fx_zip_entry *entry, uint32_t crc);
/* The entry's bytes, its checksum compared: in place when stored and `alignment` allows, else in arena. */
fx_status fx_zip_read(const fx_zip *zip, const fx_zip_entry *entry, fx_arena *arena, size_t alignment,
                      const unsigned char **out);

/* ---- json.c: JSON of a known shape --------------------------------------------------------------------- */

/* Where reading is; every failure names it. */
typedef struct fx_json {
    fx_context *ctx;
    fx_loc loc;
} fx_json;

typedef enum fx_json_type {
    FX_JSON_NULL, FX_JSON_FALSE, FX_JSON_TRUE, FX_JSON_INT, FX_JSON_REAL, FX_JSON_STRING, FX_JSON_ARRAY, FX_JSON_OBJECT
} fx_json_type;

typedef struct fx_json_value {
    fx_json_type type;
    uint32_t n;              /* items of ARRAY and OBJECT */
    const char *key;         /* of a field of an object */
    union {
        int64_t i;
        double f;
        const char *s;
        struct fx_json_value *items;
    };
    uint32_t *index;         /* of a large object: where keys are */
} fx_json_value;

/* Parses text into arena. Duplicate keys are errors. */
fx_status fx_json_parse(const fx_json *r, fx_arena *arena, const char *text, size_t size, const fx_json_value **out);

/* Looking without complaint: NULL, 0 or false when there is no such thing. Values may be NULL. */
const fx_json_value *fx_json_get(const fx_json_value *object, const char *key);
const fx_json_value *fx_json_at(const fx_json_value *array, size_t i);
size_t fx_json_size(const fx_json_value *v);           /* of lists and objects */
const char *fx_json_text(const fx_json_value *v);      /* of strings */
bool fx_json_is(const fx_json_value *v, fx_json_type type);
bool fx_json_equal(const fx_json_value *a, const fx_json_value *b);

/* A field of an object, of the type asked for. `object` itself may be anything: its type is checked too. */
fx_status fx_json_object(const fx_json *r, const fx_json_value *object, const char *key, const fx_json_value **out);
fx_status fx_json_array(const fx_json *r, const fx_json_value *object, const char *key, const fx_json_value **out);
fx_status fx_json_string(const fx_json *r, const fx_json_value *object, const char *key, const char **out); /* interned */
fx_status fx_json_int(const fx_json *r, const fx_json_value *object, const char *key, int64_t *out);
fx_status fx_json_bool(const fx_json *r, const fx_json_value *object, const char *key, bool *out);
/* The field, or NULL in *out when it is missing or null. */
fx_status fx_json_optional(const fx_json *r, const fx_json_value *object, const char *key, const fx_json_value **out);
/* An object with one field: which, and its value. `what` names the union in messages. */
fx_status fx_json_union(const fx_json *r, const fx_json_value *value, const char *what, const char **tag, const fx_json_value **out);
/* The value itself must be of a type (FX_JSON_TRUE: either boolean). `what` names it in messages. */
fx_status fx_json_expect(const fx_json *r, const fx_json_value *value, fx_json_type type, const char *what);
/* A number, or one of the strings "NaN", "Infinity", "-Infinity". */
fx_status fx_json_float(const fx_json *r, const fx_json_value *value, double *out);
const char *fx_json_kind(const fx_json_value *value); /* "an object", "a string", "nothing" */
/* Writes s as a JSON string; false, and nothing written, when it is not valid UTF-8. */
bool fx_json_put(fx_text *t, const char *s);

/* ---- sympy.c: symbolic integers as torch writes them --------------------------------------------------- */

/* What srepr says of a symbol: positive=True and the like. */
typedef struct fx_sympy_symbol {
    const char *name;
    int64_t min;
    struct fx_sympy_symbol *next;
} fx_sympy_symbol;

/* Reads "Mul(Integer(2), Symbol('s27', positive=True, integer=True))". Functions with no fx_sym_kind become opaque.
 * Symbols met are put in front of *symbols (allocated in arena, repeated ones too). */
fx_status fx_sympy_parse(const fx_json *r, const char *text, fx_arena *arena, fx_sympy_symbol **symbols, const fx_sym **out);

/* ---- pt2.c: the archive ------------------------------------------------------------------------------------ */

typedef struct fx_pt2 {
    fx_context *ctx;
    fx_arena *tmp;                 /* freed when reading ends */
    fx_json r;                     /* where reading is */
    fx_zip *zip;
    const char *root;              /* "resnet18/": the folder everything lies in */
    const char *model;             /* "model": of models/model.json */
    const char *torch_version;
    const char *model_entry, *weights_entry, *constants_entry;
    const fx_json_value *weights, *constants;   /* "config" objects */
    const fx_json_value *ranges;                /* range_constraints */
    fx_storage **storages;         /* of the zip's entries, made at first use */
    fx_graph *graph;               /* the outermost */
    const char *foreign_device;    /* first device met that is not the CPU */
    int depth;                     /* of nested graphs */
} fx_pt2;

fx_status fx_pt2_load(fx_context *ctx, fx_file *file, fx_graph **out);

/* ---- pt2_weights.c: stored tensors ------------------------------------------------------------------------- */

/* The tensor `fqn` of data/weights (or data/constants): checked against its file, not read. */
fx_status fx_pt2_tensor(fx_pt2 *p, bool constant, const char *fqn, fx_tensor *out);

/* ---- pt2_type.c: numbers, dims and types --------------------------------------------------------------------- */

fx_status fx_pt2_dtype(fx_pt2 *p, int64_t number, fx_dtype *out);
int fx_pt2_dtype_number(fx_dtype dtype);
int fx_pt2_layout_number(const char *name);        /* 0 when there is none */
int fx_pt2_memory_format_number(const char *name);
fx_status fx_pt2_layout(fx_pt2 *p, int64_t number, const char **out);        /* "torch.strided" */
fx_status fx_pt2_memory_format(fx_pt2 *p, int64_t number, const char **out); /* "torch.channels_last" */
fx_status fx_pt2_device(fx_pt2 *p, const fx_json_value *device, const char **out);  /* always "cpu", or refused */
fx_status fx_pt2_dim(fx_pt2 *p, fx_graph *g, const fx_json_value *sym_int, fx_dim *out);
/* A TensorMeta. storage_offset may be NULL. */
fx_status fx_pt2_tensor_meta(fx_pt2 *p, fx_graph *g, const fx_json_value *meta, const fx_type **type, fx_dim *storage_offset);

/* ---- pt2_args.c: arguments of calls ---------------------------------------------------------------------------- */

/* Names of a graph: values by the name the file gives them. */
typedef struct fx_pt2_scope {
    fx_pt2 *p;
    fx_graph *g;
    const fx_json_value *tensors, *ints, *bools, *floats; /* metas by name */
    fx_map names;                            /* interned name -> node */
} fx_pt2_scope;

fx_node *fx_pt2_lookup(const fx_pt2_scope *s, const char *name); /* interned; NULL if there is none */
fx_status fx_pt2_bind(fx_pt2_scope *s, const char *name, fx_node *node);
/* The type of the value `name`: of a tensor, int, bool or float by the argument's tag ("as_tensor", "as_sym_int", ...). */
fx_status fx_pt2_value_type(fx_pt2_scope *s, const char *tag, const char *name, const fx_type **out);

/* Operands gathered while the arguments of a call are read. */
typedef struct fx_pt2_operands {
    fx_node **nodes;
    size_t n, cap;
} fx_pt2_operands;

fx_status fx_pt2_argument(fx_pt2_scope *s, const fx_json_value *argument, fx_pt2_operands *ops, const fx_arg **out);

/* ---- pt2_graph.c: graphs -------------------------------------------------------------------------------------------- */

/* Starts a scope over a serialised graph. */
fx_status fx_pt2_scope_begin(fx_pt2 *p, fx_graph *g, const fx_json_value *graph, fx_pt2_scope *s);
/* A placeholder for an `inputs` argument that is a tensor or symbol. */
fx_status fx_pt2_placeholder(fx_pt2_scope *s, const char *tag, const char *name);
/* All nodes, in order. */
fx_status fx_pt2_nodes(fx_pt2_scope *s, const fx_json_value *nodes);
/* A graph that is an argument of a higher-order op. */
fx_status fx_pt2_subgraph(fx_pt2_scope *outer, const fx_json_value *argument, fx_graph **out);

/* ---- pt2_signature.c: what inputs and outputs are ------------------------------------------------------------------ */

/* The outermost graph with its signature: placeholders, get_attr nodes, nodes, output, trees. */
fx_status fx_pt2_program(fx_pt2 *p, const fx_json_value *graph_module);

/* ---- pt2_tree.c: nested inputs and outputs ---------------------------------------------------------------------------- */

/* A pytree spec, a JSON text. Leaves become leaf[0], leaf[1], ...: there must be n of them. */
fx_status fx_pt2_tree(fx_pt2 *p, const char *what, const char *spec, int n, const fx_arg *const *leaf, const fx_arg **out);

/* ---- pt2_meta.c: where a node comes from --------------------------------------------------------------------------------- */

/* Fills loc->module and loc->frame from a node's metadata; names the classes of modules in g's tree. */
void fx_pt2_metadata(fx_pt2 *p, fx_graph *g, const fx_json_value *metadata, fx_loc *loc);

#endif
