/* codegen/llvm_module.c: a program as an LLVM module: a function a step, and one that calls them in order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/llvm_emit.h"

LLVMBuilderRef fx_ll_builder(fx_ll *e)
{
    LLVMBuilderRef *b = &FX_PUSH(e->arena, e->builders, e->n_builders, e->cap_builders); /* its place first: there may be no memory for it */
    *b = NULL;
    *b = e->L->CreateBuilderInContext(e->c);
    return *b;
}

static void make_types(fx_ll *e)
{
    const fx_llvm *L = e->L;
    e->t_void = L->VoidTypeInContext(e->c);
    e->t_i1 = L->Int1TypeInContext(e->c);
    e->t_i8 = L->Int8TypeInContext(e->c);
    e->t_i16 = L->Int16TypeInContext(e->c);
    e->t_i32 = L->Int32TypeInContext(e->c);
    e->t_i64 = L->Int64TypeInContext(e->c);
    e->t_half = L->HalfTypeInContext(e->c);
    e->t_f32 = L->FloatTypeInContext(e->c);
    e->t_f64 = L->DoubleTypeInContext(e->c);
    e->t_ptr = L->PointerTypeInContext(e->c, 0);
    static const char loop[] = "llvm.loop", independent[] = "llvm.mem.parallel_loop_access";
    e->k_loop = L->GetMDKindIDInContext(e->c, loop, sizeof loop - 1);
    e->k_independent = L->GetMDKindIDInContext(e->c, independent, sizeof independent - 1);
}

/* The pointer in place i of an array of pointers. */
static LLVMValueRef pointer_at(fx_ll *e, LLVMValueRef array, size_t i)
{
    LLVMValueRef at = fx_ll_i64(e, (int64_t)i);
    return e->L->BuildLoad2(e->b, e->t_ptr, e->L->BuildGEP2(e->b, e->t_ptr, array, &at, 1, ""), "");
}

static LLVMValueRef moved(fx_ll *e, LLVMValueRef block, LLVMValueRef by)
{
    return e->L->BuildGEP2(e->b, e->t_i8, block, &by, 1, "");
}

static LLVMValueRef larger(fx_ll *e, LLVMValueRef x, LLVMValueRef y)
{
    return e->L->BuildSelect(e->f->entry, e->L->BuildICmp(e->f->entry, LLVMIntSGT, x, y, ""), x, y, "");
}

/* Where each slot of the arena begins, in the function's entry block; the end of all comes last. */
static LLVMValueRef *place_slots(fx_ll *e)
{
    const fx_llvm *L = e->L;
    fx_program *p = e->p;
    LLVMBuilderRef b = e->f->entry;
    LLVMValueRef *at = FX_NEW_ARRAY(e->arena, LLVMValueRef, p->n_slots + 1), *ends = FX_NEW_ARRAY(e->arena, LLVMValueRef, p->n_slots + 1);
    LLVMValueRef end = fx_ll_i64(e, p->n_symbols ? 0 : (int64_t)p->arena_size);
    for (size_t i = 0; i < p->n_slots; i++) {
        LLVMValueRef largest = fx_ll_i64(e, 0);
        for (int k = 0; k < p->slots[i].n; k++)
            largest = larger(e, fx_ll_dim(e, p->slots[i].bytes[k]), largest);
        at[i] = fx_ll_i64(e, 0);
        for (int k = 0; k < p->slots[i].n_above; k++)
            at[i] = larger(e, ends[p->slots[i].above[k]], at[i]);
        LLVMValueRef up = L->BuildAdd(b, largest, fx_ll_i64(e, 63), "");
        ends[i] = L->BuildAdd(b, at[i], L->BuildAnd(b, up, fx_ll_i64(e, -64), ""), "");
        end = larger(e, ends[i], end);
    }
    at[p->n_slots] = end;
    return at;
}

/* Where the run function finds a buffer: told anew at each use, so that nothing has to be kept over the calls between. */
static LLVMValueRef find_buf(fx_ll *e, const LLVMValueRef *slots, const fx_buf *b)
{
    LLVMValueRef io = e->L->GetParam(e->f->fn, 0), weights = e->L->GetParam(e->f->fn, 1), arena = e->L->GetParam(e->f->fn, 2);
    switch (b->kind) {
    case FX_BUF_INPUT: return pointer_at(e, io, (size_t)b->io);
    case FX_BUF_OUTPUT: return pointer_at(e, io, (size_t)b->io + e->p->n_inputs);
    case FX_BUF_WEIGHT: return pointer_at(e, weights, (size_t)e->place[b->id]);
    case FX_BUF_ARENA: return moved(e, arena, b->slot >= 0 ? slots[b->slot] : fx_ll_i64(e, (int64_t)b->offset));
    case FX_BUF_STATE: return moved(e, e->L->GetParam(e->f->fn, 3), fx_ll_i64(e, (int64_t)b->offset));
    default: return NULL;
    }
}

/* An output that no step writes under its own name: an input, weight or other output returned as it is. */
static void copy_outputs(fx_ll *e, const LLVMValueRef *slots)
{
    fx_program *p = e->p;
    for (size_t i = 0; i < p->n_outputs; i++) {
        const fx_buf *b = &p->bufs[p->outputs[i].buf];
        if ((b->kind == FX_BUF_OUTPUT && b->io == (int)i) || fx_dim_is(b->numel, 0))
            continue;
        LLVMValueRef to = pointer_at(e, e->L->GetParam(e->f->fn, 0), p->n_inputs + i);
        LLVMValueRef from = find_buf(e, slots, b);
        e->L->BuildMemCpy(e->b, to, 1, from, 1, fx_ll_dim(e, fx_dim_scale(e->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype))));
    }
}

/* Opens an exported function whose last parameter is the array of the symbols' values. */
static void open_exported(fx_ll *e, fx_ll_fn *f, const char *name, LLVMTypeRef result, unsigned n)
{
    const fx_llvm *L = e->L;
    LLVMTypeRef types[5] = {e->t_ptr, e->t_ptr, e->t_ptr, e->t_ptr, e->t_ptr};
    *f = (fx_ll_fn){.fn = L->AddFunction(e->m, name, L->FunctionType(result, types, n, 0)), .entry = fx_ll_builder(e)};
    fx_ll_attribute(e, f->fn, -1, "nounwind");
    f->symbols = FX_NEW_ARRAY(e->arena, LLVMValueRef, e->p->n_symbols + 1);
    LLVMBasicBlockRef entry = L->AppendBasicBlockInContext(e->c, f->fn, "entry");
    f->body = L->AppendBasicBlockInContext(e->c, f->fn, "body");
    L->PositionBuilderAtEnd(f->entry, entry);
    L->PositionBuilderBefore(f->entry, L->BuildBr(f->entry, f->body));
    for (size_t i = 0; i < e->p->n_symbols; i++) {
        LLVMValueRef at = fx_ll_i64(e, (int64_t)i);
        f->symbols[i] = L->BuildLoad2(f->entry, e->t_i64, L->BuildGEP2(f->entry, e->t_i64, L->GetParam(f->fn, n - 1), &at, 1, ""), "");
    }
    e->f = f;
}

static void put_arena_size(fx_ll *e)
{
    fx_ll_fn f;
    open_exported(e, &f, fx_arena_printf(e->arena, "%s_arena_size", e->opt->name), e->t_i64, 1);
    LLVMValueRef *at = place_slots(e);
    e->L->PositionBuilderAtEnd(e->b, f.body);
    e->L->BuildRet(e->b, at[e->p->n_slots]);
}

static fx_status put_run(fx_ll *e)
{
    const fx_llvm *L = e->L;
    fx_program *p = e->p;
    fx_ll_fn f;
    open_exported(e, &f, e->opt->name, e->t_i32, 5);
    LLVMValueRef run = f.fn, *slots = place_slots(e);
    LLVMBasicBlockRef done = L->AppendBasicBlockInContext(e->c, run, "done");
    fx_ll_debug_function(e, &f, NULL);
    f.status = L->BuildAlloca(f.entry, e->t_i32, "status");
    L->BuildStore(f.entry, L->ConstInt(e->t_i32, 0, 0), f.status);
    LLVMBuilderRef b = fx_ll_builder(e), steps = e->b;
    L->PositionBuilderAtEnd(b, f.body);
    for (size_t s = 0; s < p->n_steps; s++) {
        LLVMValueRef fn;
        int checks = e->checks;
        e->f = NULL;
        e->b = steps;
        FX_TRY(fx_ll_step(e, &p->steps[s], &fn));
        e->f = &f;
        e->b = b;
        fx_ll_debug_here(e, b, &p->steps[s]);
        size_t n = 0;
        LLVMValueRef *args = FX_NEW_ARRAY(e->arena, LLVMValueRef, e->n_bufs + p->n_symbols + 2);
        for (size_t i = 0; i < e->n_bufs; i++)
            args[n++] = find_buf(e, slots, &p->bufs[e->bufs[i]]);
        for (size_t i = 0; i < p->n_symbols; i++)
            args[n++] = f.symbols[i];
        args[n++] = f.status;
        L->BuildCall2(b, L->GlobalGetValueType(fn), fn, args, (unsigned)n, "");
        if (e->checks != checks) { /* what a check found ends the run after its step */
            LLVMBasicBlockRef next = L->AppendBasicBlockInContext(e->c, run, "next");
            LLVMValueRef status = L->BuildLoad2(b, e->t_i32, f.status, "");
            L->BuildCondBr(b, L->BuildICmp(b, LLVMIntEQ, status, L->ConstInt(e->t_i32, 0, 0), ""), next, done);
            L->PositionBuilderAtEnd(b, next);
        }
    }
    fx_ll_debug_here(e, b, NULL);
    copy_outputs(e, slots);
    e->b = steps;
    L->BuildBr(b, done);
    L->PositionBuilderAtEnd(b, done);
    L->BuildRet(b, L->BuildLoad2(b, e->t_i32, f.status, ""));
    e->f = NULL;
    return FX_OK;
}

/* What nothing calls yet stays: llvm.compiler.used. */
static void keep(fx_ll *e)
{
    if (!e->n_kept)
        return;
    LLVMValueRef used = e->L->AddGlobal(e->m, e->L->ArrayType(e->t_ptr, (unsigned)e->n_kept), "llvm.compiler.used");
    e->L->SetInitializer(used, e->L->ConstArray(e->t_ptr, e->kept, (unsigned)e->n_kept));
    e->L->SetLinkage(used, LLVMAppendingLinkage);
    e->L->SetSection(used, "llvm.metadata");
}

static fx_status fill(void *user)
{
    fx_ll *e = user;
    const fx_program *p = e->p;
    e->b = fx_ll_builder(e);
    e->seen = FX_NEW_ARRAY(e->arena, bool, p->n_bufs + 1);
    e->place = FX_NEW_ARRAY(e->arena, int, p->n_bufs + 1);
    e->number = FX_NEW_ARRAY(e->arena, int, p->n_bufs + 1);
    e->written = FX_NEW_ARRAY(e->arena, bool, p->n_bufs + 1);
    int weights = 0;
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].kind == FX_BUF_WEIGHT)
            e->place[i] = weights++;
    make_types(e);
    fx_ll_debug_begin(e);
    put_arena_size(e);
    FX_TRY(put_run(e));
    keep(e);
    return FX_OK;
}

/* What is LLVM's goes whether the module is whole, cannot be, or filling it was broken off (no memory, Ctrl-C). */
fx_status fx_emit_llvm(fx_program *p, const fx_llvm *L, const fx_llvm_options *opt, LLVMContextRef c, LLVMModuleRef *out)
{
    fx_ll e = {.L = L, .opt = opt, .p = p, .ctx = p->ctx, .arena = p->arena, .c = c};
    e.m = L->ModuleCreateWithNameInContext(p->name ? p->name : "model", c);
    fx_status status = fx_protect(p->ctx, fill, &e);
    for (size_t i = 0; i < e.n_builders; i++)
        if (e.builders[i])
            L->DisposeBuilder(e.builders[i]);
    fx_ll_debug_end(&e);
    char *why = NULL;
    if (status == FX_OK && L->VerifyModule(e.m, LLVMReturnStatusAction, &why))
        status = fx_fail(p->ctx, FX_INTERNAL, NULL, "LLVM refuses the module made of '%s': %s", p->name ? p->name : "model", why);
    if (why)
        L->DisposeMessage(why);
    if (status != FX_OK)
        L->DisposeModule(e.m);
    else
        *out = e.m;
    return status;
}
