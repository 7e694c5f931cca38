/* codegen/llvm_module.c: a program as an LLVM module: a function a step, and one that calls them in order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/llvm_emit.h"

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
}

/* The pointer in place i of an array of pointers. */
static LLVMValueRef pointer_at(fx_ll *e, LLVMValueRef array, size_t i)
{
    LLVMValueRef at = fx_ll_i64(e, (int64_t)i);
    return e->L->BuildLoad2(e->f->entry, e->t_ptr, e->L->BuildGEP2(e->f->entry, e->t_ptr, array, &at, 1, ""), "");
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

/* Where the run function finds each buffer, in its entry block. */
static void find_bufs(fx_ll *e, LLVMValueRef run)
{
    const fx_llvm *L = e->L;
    fx_program *p = e->p;
    LLVMValueRef io = L->GetParam(run, 0), weights = L->GetParam(run, 1), arena = L->GetParam(run, 2), state = L->GetParam(run, 3), *slots = place_slots(e);
    size_t n_weights = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        LLVMValueRef v = NULL;
        if (b->kind == FX_BUF_INPUT || b->kind == FX_BUF_OUTPUT) {
            v = pointer_at(e, io, (size_t)b->io + (b->kind == FX_BUF_OUTPUT ? p->n_inputs : 0));
        } else if (b->kind == FX_BUF_WEIGHT) {
            v = pointer_at(e, weights, n_weights++);
        } else if (b->kind == FX_BUF_ARENA) {
            LLVMValueRef at = b->slot >= 0 ? slots[b->slot] : fx_ll_i64(e, (int64_t)b->offset);
            v = L->BuildGEP2(e->f->entry, e->t_i8, arena, &at, 1, "");
        } else if (b->kind == FX_BUF_STATE) {
            LLVMValueRef at = fx_ll_i64(e, (int64_t)b->offset);
            v = L->BuildGEP2(e->f->entry, e->t_i8, state, &at, 1, "");
        }
        e->f->bufs[i] = v;
    }
}

/* An output that no step writes under its own name: an input, weight or other output returned as it is. */
static void copy_outputs(fx_ll *e)
{
    fx_program *p = e->p;
    for (size_t i = 0; i < p->n_outputs; i++) {
        const fx_buf *b = &p->bufs[p->outputs[i].buf];
        if ((b->kind == FX_BUF_OUTPUT && b->io == (int)i) || fx_dim_is(b->numel, 0))
            continue;
        LLVMValueRef to = pointer_at(e, e->L->GetParam(e->f->fn, 0), p->n_inputs + i);
        e->L->BuildMemCpy(e->b, to, 1, e->f->bufs[b->id], 1, fx_ll_dim(e, fx_dim_scale(e->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype))));
    }
}

/* Opens an exported function whose last parameter is the array of the symbols' values. */
static void open_exported(fx_ll *e, fx_ll_fn *f, const char *name, LLVMTypeRef result, unsigned n)
{
    const fx_llvm *L = e->L;
    LLVMTypeRef types[5] = {e->t_ptr, e->t_ptr, e->t_ptr, e->t_ptr, e->t_ptr};
    *f = (fx_ll_fn){.fn = L->AddFunction(e->m, name, L->FunctionType(result, types, n, 0)), .entry = L->CreateBuilderInContext(e->c)};
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
    e->L->DisposeBuilder(f.entry);
}

static fx_status put_run(fx_ll *e)
{
    const fx_llvm *L = e->L;
    fx_program *p = e->p;
    fx_ll_fn f;
    open_exported(e, &f, e->opt->name, e->t_i32, 5);
    f.bufs = FX_NEW_ARRAY(e->arena, LLVMValueRef, p->n_bufs + 1);
    LLVMValueRef run = f.fn;
    LLVMBasicBlockRef done = L->AppendBasicBlockInContext(e->c, run, "done");
    fx_ll_debug_function(e, &f, NULL);
    f.status = L->BuildAlloca(f.entry, e->t_i32, "status");
    L->BuildStore(f.entry, L->ConstInt(e->t_i32, 0, 0), f.status);
    find_bufs(e, run);
    LLVMBuilderRef b = L->CreateBuilderInContext(e->c);
    L->PositionBuilderAtEnd(b, f.body);
    for (size_t s = 0; s < p->n_steps; s++) {
        LLVMValueRef fn;
        int checks = e->checks;
        e->f = NULL;
        FX_TRY(fx_ll_step(e, &p->steps[s], &fn));
        e->f = &f;
        size_t n = 0;
        LLVMValueRef *args = FX_NEW_ARRAY(e->arena, LLVMValueRef, e->n_bufs + p->n_symbols + 2);
        for (size_t i = 0; i < e->n_bufs; i++)
            args[n++] = f.bufs[e->bufs[i]];
        for (size_t i = 0; i < p->n_symbols; i++)
            args[n++] = f.symbols[i];
        args[n++] = f.status;
        fx_ll_debug_here(e, b, &p->steps[s]);
        L->BuildCall2(b, L->GlobalGetValueType(fn), fn, args, (unsigned)n, "");
        if (e->checks != checks) { /* what a check found ends the run after its step */
            LLVMBasicBlockRef next = L->AppendBasicBlockInContext(e->c, run, "next");
            LLVMValueRef status = L->BuildLoad2(b, e->t_i32, f.status, "");
            L->BuildCondBr(b, L->BuildICmp(b, LLVMIntEQ, status, L->ConstInt(e->t_i32, 0, 0), ""), next, done);
            L->PositionBuilderAtEnd(b, next);
        }
    }
    LLVMBuilderRef steps = e->b;
    fx_ll_debug_here(e, b, NULL);
    e->b = b;
    copy_outputs(e);
    e->b = steps;
    L->BuildBr(b, done);
    L->PositionBuilderAtEnd(b, done);
    L->BuildRet(b, L->BuildLoad2(b, e->t_i32, f.status, ""));
    L->DisposeBuilder(b);
    L->DisposeBuilder(f.entry);
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

fx_status fx_emit_llvm(fx_program *p, const fx_llvm *L, const fx_llvm_options *opt, LLVMContextRef c, LLVMModuleRef *out)
{
    fx_ll e = {.L = L, .opt = opt, .p = p, .ctx = p->ctx, .arena = p->arena, .c = c};
    e.m = L->ModuleCreateWithNameInContext(p->name ? p->name : "model", c);
    e.b = L->CreateBuilderInContext(c);
    e.seen = FX_NEW_ARRAY(e.arena, bool, p->n_bufs + 1);
    e.written = FX_NEW_ARRAY(e.arena, bool, p->n_bufs + 1);
    make_types(&e);
    fx_ll_debug_begin(&e);
    put_arena_size(&e);
    fx_status status = put_run(&e);
    L->DisposeBuilder(e.b);
    keep(&e);
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
