/* codegen/llvm_emit.h: what the parts of the LLVM printer share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CODEGEN_LLVM_EMIT_H
#define FXCC_CODEGEN_LLVM_EMIT_H

#include "codegen/llvm.h"
#include "codegen/walk.h"

/* A value in scope that the body of a parallel loop must be given: a loop's variable, a local scalar or a local array. */
typedef struct fx_ll_live {
    enum { FX_LL_VAR, FX_LL_LOCAL, FX_LL_ARRAY } kind;
    int number;                  /* of the variable, local or buffer */
} fx_ll_live;

/* What is open around the statement at hand. */
typedef struct fx_ll_block {
    LLVMBasicBlockRef head, end; /* of a loop; an IF or CHECK has only an end */
    LLVMValueRef phi, limit;     /* a loop's variable and the end of its range; NULL: a loop of one iteration */
    const fx_stmt *loop;
    size_t n_live;               /* when it was opened */
    LLVMMetadataRef independent; /* the name of a loop whose iterations touch nothing of each other; NULL of others */
    bool nest;                   /* a loop with loops inside */
    bool outlined;               /* a parallel loop whose body is a function of its own */
} fx_ll_block;

/* The function being printed: a step, or the body of a parallel loop of it. */
typedef struct fx_ll_fn {
    struct fx_ll_fn *outer;      /* of a parallel loop's body: where the loop stands */
    LLVMValueRef fn, status;     /* status: a pointer to where a failed CHECK says so */
    LLVMBuilderRef entry;        /* before the end of the entry block: allocas and sizes */
    LLVMBasicBlockRef body;      /* the block after it */
    fx_map sizes;                /* from an expression over the symbols to its value, all in the entry block */
    LLVMValueRef *bufs;          /* by buffer */
    LLVMValueRef *symbols;       /* by symbol */
    LLVMValueRef *vars;          /* by loop variable */
    LLVMValueRef *locals;        /* by local: the value, or where it is when it is SET */
    bool *in_memory;             /* by local: it is SET */
    LLVMMetadataRef scope;       /* what debuggers are told of it; NULL: nothing */
} fx_ll_fn;

typedef struct fx_ll_debug fx_ll_debug;

/* A load of an element. Integer locals in an index are not SET again. */
typedef struct fx_ll_load_of {
    int buf;
    const fx_affine *index;
    LLVMBasicBlockRef block;
    LLVMValueRef value;
} fx_ll_load_of;

/* A function that the steps share whose words these are. */
typedef struct fx_ll_same {
    const char *words;
    size_t size;
    LLVMValueRef fn;             /* NULL until it is made */
    struct fx_ll_same *next;     /* of the same hash */
} fx_ll_same;

typedef struct fx_ll {
    const fx_llvm *L;
    const fx_llvm_options *opt;
    fx_program *p;
    fx_context *ctx;
    fx_arena *arena;
    LLVMContextRef c;
    LLVMModuleRef m;
    LLVMBuilderRef b;
    LLVMTypeRef t_void, t_i1, t_i8, t_i16, t_i32, t_i64, t_half, t_f32, t_f64, t_ptr;
    unsigned k_loop, k_independent; /* kinds of metadata */

    const fx_step *step;
    fx_ll_fn *f;
    int n_vars, n_locals;        /* of the step */
    fx_dtype *local_types;       /* by local */
    bool *set;                   /* by local: SET after its declaration */
    int *number;                 /* by buffer: its place in bufs; of arrays a number of their own */
    int *bufs; size_t n_bufs, cap_bufs; /* the step uses, in order of first use */
    bool *seen, *written;        /* by buffer: in bufs; written by the step */
    int *place;                  /* by buffer, of weights: among the weights */
    fx_map same;                 /* from a hash, as a pointer, to a list of fx_ll_same */
    fx_ll_live *live; size_t n_live, cap_live; /* in scope, outermost first */
    fx_ll_block *blocks; size_t n_blocks, cap_blocks;
    LLVMBuilderRef *builders; size_t n_builders, cap_builders; /* all that were made */
    fx_ll_load_of *loads; size_t n_loads, cap_loads; /* since something was last stored */
    LLVMValueRef independent;    /* the name of the innermost such loop around, as a value; NULL: none */
    bool parallel;               /* inside the body of a parallel loop */
    LLVMValueRef *kept; size_t n_kept, cap_kept; /* functions that only later passes will call */
    int special;                 /* calls with a copy of the kernel so far */
    int checks;                  /* CHECKs printed so far, in the whole program */
    fx_ll_debug *debug;          /* NULL: debuggers are told nothing */
    fx_map values;               /* of the statement at hand: from an expression to its value */
} fx_ll;

/* llvm_value.c */
LLVMTypeRef fx_ll_type(fx_ll *e, fx_dtype dtype);          /* of elements in memory */
LLVMTypeRef fx_ll_value_type(fx_ll *e, fx_dtype dtype);    /* of scalars: float16 and bfloat16 are floats, bool is a byte */
LLVMValueRef fx_ll_i64(fx_ll *e, int64_t v);
LLVMValueRef fx_ll_dim(fx_ll *e, fx_dim d);                /* i64 */
LLVMValueRef fx_ll_affine(fx_ll *e, const fx_affine *a);   /* i64 */
LLVMValueRef fx_ll_element(fx_ll *e, int buf, LLVMValueRef index); /* its address */
LLVMValueRef fx_ll_load(fx_ll *e, LLVMTypeRef type, int buf, const fx_affine *index);
LLVMValueRef fx_ll_access(fx_ll *e, LLVMValueRef access); /* a load or store of a buffer, marked as what it is */
fx_status fx_ll_value(fx_ll *e, const fx_sexpr *x, LLVMValueRef *out);
fx_status fx_ll_stored(fx_ll *e, fx_dtype dtype, const fx_sexpr *x, LLVMValueRef *out); /* the same as what goes to memory */
LLVMValueRef fx_ll_call(fx_ll *e, const char *name, LLVMTypeRef result, LLVMValueRef *args, unsigned n); /* a function declared by its uses */
LLVMValueRef fx_ll_intrinsic(fx_ll *e, const char *name, LLVMTypeRef type, LLVMValueRef *args, unsigned n);
void fx_ll_attribute(fx_ll *e, LLVMValueRef fn, int at, const char *name); /* at: -1 the function, 0 the result, else an argument */

/* llvm_module.c */
LLVMBuilderRef fx_ll_builder(fx_ll *e); /* freed with the rest */

/* llvm_step.c */
fx_status fx_ll_step(fx_ll *e, const fx_step *step, LLVMValueRef *fn); /* defines step's function; e->bufs are its first parameters, then
                                                                          the symbols, then a pointer to the status */
bool fx_ll_alone(const fx_ll *e, int buf); /* no other buffer of the step shares bytes with it, of which one is written */

/* llvm_same.c: the function that the step at hand (e->bufs are known) shares with those before it. */
fx_ll_same *fx_ll_find_same(fx_ll *e, const fx_step *step);

/* llvm_special.c: the name of the function that a call of a kernel calls */
const char *fx_ll_kernel(fx_ll *e, const fx_call_stmt *c);

/* llvm_debug.c: nothing is done when opt->listing is NULL. */
void fx_ll_debug_begin(fx_ll *e);
void fx_ll_debug_end(fx_ll *e);                            /* before the module is verified */
void fx_ll_debug_function(fx_ll *e, fx_ll_fn *f, const fx_step *step); /* NULL: the one that runs all */
void fx_ll_debug_here(fx_ll *e, LLVMBuilderRef b, const void *at); /* what b builds from here on is e->f's, of this step or statement (NULL: the last) */
const fx_hooks *fx_ll_debug_hooks(fx_ll *e, const fx_hooks *hooks); /* the same hooks, with lines */

#endif
