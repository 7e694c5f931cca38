/* codegen/llvm_step.c: a step in LLVM's form: a function of the buffers it uses, the symbols and where a failed check is noted.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The body of a parallel loop is a function of its own, which the runtime calls with parts of the range; what is in scope where the loop
 * stands are its parameters. */
#include <string.h>

#include "codegen/llvm_emit.h"

/* ---- what a step uses ---------------------------------------------------------------------------------------- */

static void use_buf(fx_ll *e, int buf, bool written)
{
    if (e->p->bufs[buf].kind == FX_BUF_LOCAL)
        return;
    e->written[buf] |= written;
    if (!e->seen[buf])
        FX_PUSH(e->arena, e->bufs, e->n_bufs, e->cap_bufs) = buf;
    e->seen[buf] = true;
}

static void use_value(fx_ll *e, fx_map *seen, const fx_sexpr *x)
{
    if (!x || fx_map_get(seen, x))
        return;
    fx_map_put(e->arena, seen, x, e);
    if (x->op == FX_S_LOAD)
        use_buf(e, x->buf, false);
    for (int i = 0; i < 3; i++)
        use_value(e, seen, x->arg[i]);
}

static void use_list(fx_ll *e, fx_map *seen, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP && s->var >= e->n_vars)
            e->n_vars = s->var + 1;
        if (s->kind == FX_ST_LOCAL && s->local >= e->n_locals)
            e->n_locals = s->local + 1;
        if (s->kind == FX_ST_STORE)
            use_buf(e, s->buf, true);
        if (s->kind == FX_ST_STORE || s->kind == FX_ST_LOCAL || s->kind == FX_ST_SET)
            use_value(e, seen, s->value);
        if (s->kind == FX_ST_CALL) {
            const fx_kernel *k = fx_kernel_get(s->call->kernel);
            for (int i = 0; i < k->n_bufs; i++)
                if (s->call->buf[i] >= 0)
                    use_buf(e, s->call->buf[i], k->buf[i].written || e->p->bufs[s->call->buf[i]].workspace);
        }
        use_list(e, seen, s->body);
    }
}

static void find_set(fx_ll *e, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_SET)
            e->set[s->local] = true;
        find_set(e, s->body);
    }
}

bool fx_ll_alone(const fx_ll *e, int buf)
{
    const fx_buf *a = &e->p->bufs[buf];
    for (size_t i = 0; a->kind == FX_BUF_ARENA && i < e->n_bufs; i++) {
        const fx_buf *b = &e->p->bufs[e->bufs[i]];
        if (b == a || b->kind != FX_BUF_ARENA || (!e->written[a->id] && !e->written[b->id]))
            continue;
        uint64_t a_end = a->offset + (uint64_t)a->numel.value * fx_dtype_size(a->dtype);
        uint64_t b_end = b->offset + (uint64_t)b->numel.value * fx_dtype_size(b->dtype);
        if (a->slot >= 0 || b->slot >= 0 ? a->slot == b->slot : a->offset < b_end && b->offset < a_end)
            return false;
    }
    return true; /* and what callers give overlaps nothing */
}

/* ---- functions ------------------------------------------------------------------------------------------------- */

/* Names have a dot, as nothing that LLVM may call has: a layer may well be called memcpy or floor.
 * Opens a function whose first parameters are the step's buffers, the symbols and the status; `more` types follow. */
static fx_ll_fn *open_function(fx_ll *e, const char *name, LLVMTypeRef *more, unsigned n_more)
{
    const fx_llvm *L = e->L;
    unsigned n_symbols = (unsigned)e->p->n_symbols, n_bufs = (unsigned)e->n_bufs, n = n_bufs + n_symbols + 1 + n_more;
    LLVMTypeRef *types = FX_NEW_ARRAY(e->arena, LLVMTypeRef, n + 1);
    for (unsigned i = 0; i < n; i++)
        types[i] = i < n_bufs || i == n_bufs + n_symbols ? e->t_ptr : i < n_bufs + n_symbols ? e->t_i64 : more[i - n_bufs - n_symbols - 1];
    fx_ll_fn *f = FX_NEW(e->arena, fx_ll_fn);
    f->outer = e->f;
    f->fn = L->AddFunction(e->m, name, L->FunctionType(e->t_void, types, n, 0));
    L->SetLinkage(f->fn, LLVMInternalLinkage);
    fx_ll_attribute(e, f->fn, -1, "nounwind");
    fx_ll_attribute(e, f->fn, -1, "noinline");
    if (e->p->target.lanes > 1) { /* the widest vectors the program was made for, whatever this CPU's usual choice */
        const char *bits = fx_arena_printf(e->arena, "%d", 32 * e->p->target.lanes);
        static const char width[] = "prefer-vector-width";
        L->AddAttributeAtIndex(f->fn, (LLVMAttributeIndex)-1, L->CreateStringAttribute(e->c, width, sizeof width - 1, bits, (unsigned)strlen(bits)));
    }
    f->bufs = FX_NEW_ARRAY(e->arena, LLVMValueRef, e->p->n_bufs + 1);
    f->symbols = FX_NEW_ARRAY(e->arena, LLVMValueRef, e->p->n_symbols + 1);
    f->vars = FX_NEW_ARRAY(e->arena, LLVMValueRef, (size_t)e->n_vars + 1);
    f->locals = FX_NEW_ARRAY(e->arena, LLVMValueRef, (size_t)e->n_locals + 1);
    f->in_memory = FX_NEW_ARRAY(e->arena, bool, (size_t)e->n_locals + 1);
    for (unsigned i = 0; i < n_bufs; i++) {
        const fx_buf *b = &e->p->bufs[e->bufs[i]];
        f->bufs[b->id] = L->GetParam(f->fn, i);
        L->SetValueName2(f->bufs[b->id], b->name, strlen(b->name));
        if (fx_ll_alone(e, b->id))
            fx_ll_attribute(e, f->fn, (int)i + 1, "noalias");
        if (!e->written[b->id])
            fx_ll_attribute(e, f->fn, (int)i + 1, "readonly");
    }
    for (unsigned i = 0; i < n_symbols; i++) {
        f->symbols[i] = L->GetParam(f->fn, n_bufs + i);
        L->SetValueName2(f->symbols[i], e->p->symbols[i].name, strlen(e->p->symbols[i].name));
    }
    f->status = L->GetParam(f->fn, n_bufs + n_symbols);
    LLVMBasicBlockRef entry = L->AppendBasicBlockInContext(e->c, f->fn, "entry");
    f->body = L->AppendBasicBlockInContext(e->c, f->fn, "body");
    f->entry = fx_ll_builder(e);
    L->PositionBuilderAtEnd(f->entry, entry);
    L->PositionBuilderBefore(f->entry, L->BuildBr(f->entry, f->body));
    e->f = f;
    fx_ll_debug_function(e, f, e->step);
    return f;
}

static void close_function(fx_ll *e)
{
    e->L->BuildRetVoid(e->b);
    e->f = e->f->outer;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

static LLVMBasicBlockRef new_block(fx_ll *e, const char *name)
{
    return e->L->AppendBasicBlockInContext(e->c, e->f->fn, name);
}

static fx_ll_block *push_block(fx_ll *e)
{
    fx_ll_block *b = &(FX_PUSH(e->arena, e->blocks, e->n_blocks, e->cap_blocks));
    memset(b, 0, sizeof *b);
    b->n_live = e->n_live;
    return b;
}

static void push_live(fx_ll *e, int kind, int number)
{
    fx_ll_live *l = &(FX_PUSH(e->arena, e->live, e->n_live, e->cap_live));
    l->kind = kind;
    l->number = number;
}

/* A node that refers to itself, as loops' names do: !{itself, !{what}}. */
static LLVMMetadataRef make_name(fx_ll *e, const char *what)
{
    const fx_llvm *L = e->L;
    LLVMMetadataRef text = L->MDStringInContext2(e->c, what, strlen(what));
    LLVMMetadataRef part[2] = {L->TemporaryMDNode(e->c, NULL, 0), L->MDNodeInContext2(e->c, &text, 1)};
    LLVMMetadataRef temporary = part[0], node = L->MDNodeInContext2(e->c, part, 2);
    L->MetadataReplaceAllUsesWith(temporary, node);
    return node;
}

static const char no_unrolling[] = "llvm.loop.unroll.disable";

/* The loop whose iterations are independent, innermost of those around the statement at hand. */
static void find_independent(fx_ll *e)
{
    e->independent = NULL;
    for (size_t i = e->n_blocks; i-- > 0 && !e->independent && !e->blocks[i].outlined;)
        if (e->blocks[i].independent)
            e->independent = e->L->MetadataAsValue(e->c, e->blocks[i].independent);
}

/* Whether statements are stores, scalars and guards alone, and loops where `loops` says that they may be. An array is one for each iteration around
 * it, but here one for all of them. */
static bool is_plain(const fx_stmt *s, bool loops)
{
    for (; s; s = s->next) {
        bool scalar = s->kind == FX_ST_STORE || s->kind == FX_ST_LOCAL || s->kind == FX_ST_SET || s->kind == FX_ST_IF || s->kind == FX_ST_COMMENT;
        if (!(scalar || (s->kind == FX_ST_LOOP && loops)) || !is_plain(s->body, loops))
            return false;
    }
    return true;
}

/* Whether LLVM may be told that iterations are independent. */
static bool is_independent(const fx_stmt *loop)
{
    return (loop->loop == FX_LOOP_VECTOR && is_plain(loop->body, true)) || (loop->loop == FX_LOOP_PARALLEL && is_plain(loop->body, false));
}

/* From here on statements stand in a loop over [from, to). */
static void open_loop(fx_ll *e, fx_ll_block *b, LLVMValueRef from, LLVMValueRef to, bool may_be_empty)
{
    const fx_llvm *L = e->L;
    LLVMBasicBlockRef before = L->GetInsertBlock(e->b);
    b->head = new_block(e, "loop");
    b->end = new_block(e, "end");
    b->limit = to;
    if (may_be_empty)
        L->BuildCondBr(e->b, L->BuildICmp(e->b, LLVMIntSLT, from, to, ""), b->head, b->end);
    else
        L->BuildBr(e->b, b->head);
    L->PositionBuilderAtEnd(e->b, b->head);
    const char *hint = b->loop->hint ? b->loop->hint : "i";
    b->phi = L->BuildPhi(e->b, e->t_i64, hint);
    L->AddIncoming(b->phi, &from, &before, 1);
    e->f->vars[b->loop->var] = b->phi;
    for (fx_ll_block *outer = b; outer > e->blocks && !outer[-1].outlined;)
        (--outer)->nest = true;
    if (is_independent(b->loop)) {
        b->independent = make_name(e, no_unrolling);
        find_independent(e);
    }
}

static void close_loop(fx_ll *e, fx_ll_block *b)
{
    const fx_llvm *L = e->L;
    LLVMBasicBlockRef latch = L->GetInsertBlock(e->b);
    LLVMValueRef next = L->BuildNSWAdd(e->b, b->phi, fx_ll_i64(e, 1), "");
    L->AddIncoming(b->phi, &next, &latch, 1);
    LLVMValueRef branch = L->BuildCondBr(e->b, L->BuildICmp(e->b, LLVMIntSLT, next, b->limit, ""), b->head, b->end);
    /* What lowering unrolls is unrolled, and by LLVM's choice a short loop that has none inside, but for those that are to be vectors. */
    LLVMMetadataRef name = b->independent;
    if (b->loop->loop == FX_LOOP_UNROLLED)
        name = make_name(e, "llvm.loop.unroll.full");
    else if (!name && b->nest)
        name = make_name(e, no_unrolling);
    if (name)
        L->SetMetadata(branch, e->k_loop, L->MetadataAsValue(e->c, name));
    L->PositionBuilderAtEnd(e->b, b->end);
}

/* ---- parallel loops ----------------------------------------------------------------------------------------------- */

/* Where the value of a live thing is in function f. */
static LLVMValueRef *live_at(fx_ll_fn *f, fx_ll_live l)
{
    return l.kind == FX_LL_VAR ? &f->vars[l.number] : l.kind == FX_LL_LOCAL ? &f->locals[l.number] : &f->bufs[l.number];
}

static LLVMValueRef slot(fx_ll *e, LLVMBuilderRef b, LLVMValueRef env, unsigned i)
{
    LLVMValueRef at = fx_ll_i64(e, i);
    return e->L->BuildGEP2(b, e->t_i64, env, &at, 1, "");
}

/* void NAME(env, begin, end): takes the parameters of fn from env, 8 bytes each. */
static LLVMValueRef make_shim(fx_ll *e, const char *name, LLVMValueRef fn, LLVMTypeRef type, LLVMTypeRef *types, unsigned n)
{
    const fx_llvm *L = e->L;
    LLVMTypeRef own[3] = {e->t_ptr, e->t_i64, e->t_i64};
    LLVMValueRef shim = L->AddFunction(e->m, name, L->FunctionType(e->t_void, own, 3, 0));
    L->SetLinkage(shim, LLVMInternalLinkage);
    fx_ll_attribute(e, shim, -1, "nounwind");
    LLVMBuilderRef b = fx_ll_builder(e);
    L->PositionBuilderAtEnd(b, L->AppendBasicBlockInContext(e->c, shim, "entry"));
    LLVMValueRef *args = FX_NEW_ARRAY(e->arena, LLVMValueRef, n + 2);
    for (unsigned i = 0; i < n; i++)
        args[i] = L->BuildLoad2(b, types[i], slot(e, b, L->GetParam(shim, 0), i), "");
    args[n] = L->GetParam(shim, 1);
    args[n + 1] = L->GetParam(shim, 2);
    L->BuildCall2(b, type, fn, args, n + 2, "");
    L->BuildRetVoid(b);
    return shim;
}

static void open_parallel(fx_ll *e, fx_ll_block *b, const fx_stmt *loop)
{
    const fx_llvm *L = e->L;
    fx_ll_fn *f = e->f;
    unsigned n_bufs = (unsigned)e->n_bufs, n_symbols = (unsigned)e->p->n_symbols, before = n_bufs + n_symbols + 1, n_live = (unsigned)e->n_live;
    unsigned n = before + n_live;
    LLVMValueRef *args = FX_NEW_ARRAY(e->arena, LLVMValueRef, n + 1);
    LLVMTypeRef *types = FX_NEW_ARRAY(e->arena, LLVMTypeRef, n + 3);
    for (unsigned i = 0; i < n_bufs; i++)
        args[i] = f->bufs[e->bufs[i]];
    for (unsigned i = 0; i < n_symbols; i++)
        args[n_bufs + i] = f->symbols[i];
    args[n_bufs + n_symbols] = f->status;
    for (unsigned i = 0; i < n_live; i++) {
        fx_ll_live l = e->live[i];
        LLVMValueRef v = *live_at(f, l);
        if (l.kind == FX_LL_LOCAL && f->in_memory[l.number]) /* the body reads it: a SET there would be a race */
            v = L->BuildLoad2(e->b, fx_ll_value_type(e, e->local_types[l.number]), v, "");
        args[before + i] = v;
    }
    for (unsigned i = 0; i < n; i++)
        types[i] = L->TypeOf(args[i]);
    types[n] = types[n + 1] = e->t_i64;
    LLVMValueRef env = L->BuildAlloca(f->entry, L->ArrayType(e->t_i64, n), "env");
    for (unsigned i = 0; i < n; i++)
        L->BuildStore(e->b, args[i], slot(e, e->b, env, i));
    LLVMValueRef extent = fx_ll_dim(e, loop->extent);

    fx_ll_fn *inner = open_function(e, fx_arena_printf(e->arena, "step.%s.part", e->step->name), types + before, n_live + 2);
    LLVMTypeRef type = L->GlobalGetValueType(inner->fn);
    LLVMValueRef shim = make_shim(e, fx_arena_printf(e->arena, "step.%s.parts", e->step->name), inner->fn, type, types, n);
    LLVMTypeRef parallel_types[3] = {e->t_ptr, e->t_ptr, e->t_i64};
    LLVMTypeRef parallel_type = L->FunctionType(e->t_void, parallel_types, 3, 0);
    LLVMValueRef parallel = L->GetNamedFunction(e->m, FX_LLVM_PARALLEL);
    if (!parallel)
        parallel = L->AddFunction(e->m, FX_LLVM_PARALLEL, parallel_type);
    LLVMValueRef call[3] = {shim, env, extent};
    L->BuildCall2(e->b, parallel_type, parallel, call, 3, "");

    b->end = L->GetInsertBlock(e->b); /* where to go on after the loop */
    b->outlined = true;
    for (unsigned i = 0; i < n_live; i++)
        *live_at(inner, e->live[i]) = L->GetParam(inner->fn, before + i);
    L->PositionBuilderAtEnd(e->b, inner->body);
    fx_ll_debug_here(e, e->b, NULL);
    e->parallel = true;
    push_block(e)->loop = loop;
    open_loop(e, &e->blocks[e->n_blocks - 1], L->GetParam(inner->fn, n), L->GetParam(inner->fn, n + 1), true);
}

/* ---- statements ----------------------------------------------------------------------------------------------------- */

static fx_status loop_begin(void *user, const fx_stmt *loop)
{
    fx_ll *e = user;
    if (loop->loop >= FX_LOOP_GRID)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': a loop over blocks or threads, which is for GPUs", e->step->name);
    fx_ll_block *b = push_block(e);
    b->loop = loop;
    if (fx_dim_is(loop->extent, 1))
        e->f->vars[loop->var] = fx_ll_i64(e, 0);
    else if (loop->loop == FX_LOOP_PARALLEL && !e->opt->serial && !e->parallel)
        open_parallel(e, b, loop);
    else
        open_loop(e, b, fx_ll_i64(e, 0), fx_ll_dim(e, loop->extent), !fx_dim_known(loop->extent));
    push_live(e, FX_LL_VAR, loop->var);
    return FX_OK;
}

static fx_status loop_end(void *user, const fx_stmt *loop)
{
    (void)loop;
    fx_ll *e = user;
    fx_ll_block *b = &e->blocks[--e->n_blocks];
    if (b->phi)
        close_loop(e, b);
    find_independent(e);
    e->n_live = b->n_live;
    if (e->n_blocks && e->blocks[e->n_blocks - 1].outlined) {
        b = &e->blocks[--e->n_blocks];
        close_function(e);
        e->L->PositionBuilderAtEnd(e->b, b->end);
        fx_ll_debug_here(e, e->b, NULL);
        e->n_live = b->n_live;
        e->parallel = false;
    }
    return FX_OK;
}

/* Statements until guard_end stand where the condition holds. */
static void open_guard(fx_ll *e, LLVMValueRef condition)
{
    LLVMBasicBlockRef then = new_block(e, "then");
    fx_ll_block *b = push_block(e);
    b->end = new_block(e, "end");
    e->L->BuildCondBr(e->b, condition, then, b->end);
    e->L->PositionBuilderAtEnd(e->b, then);
}

static fx_status guard_end(void *user, const fx_stmt *guard)
{
    (void)guard;
    fx_ll *e = user;
    fx_ll_block *b = &e->blocks[--e->n_blocks];
    e->L->BuildBr(e->b, b->end);
    e->L->PositionBuilderAtEnd(e->b, b->end);
    e->n_live = b->n_live;
    return FX_OK;
}

static fx_status if_begin(void *user, const fx_stmt *guard)
{
    fx_ll *e = user;
    LLVMValueRef all = e->L->ConstInt(e->t_i1, 1, 0);
    for (int i = 0; i < guard->n_cond; i++) {
        LLVMValueRef one = e->L->BuildICmp(e->b, LLVMIntSGE, fx_ll_affine(e, &guard->cond[i]), fx_ll_i64(e, 0), "");
        all = i ? e->L->BuildAnd(e->b, all, one, "") : one;
    }
    open_guard(e, all);
    return FX_OK;
}

/* One comparison tells both ends: what is below 0 is large without a sign. */
static fx_status check_begin(void *user, const fx_stmt *s)
{
    fx_ll *e = user;
    const fx_llvm *L = e->L;
    fx_affine index = {0};
    fx_affine_add(e->ctx, &index, FX_VAR_LOCAL(s->local), fx_dim_of(1));
    LLVMValueRef good = L->BuildICmp(e->b, LLVMIntULT, fx_ll_affine(e, &index), fx_ll_dim(e, s->extent), "");
    LLVMBasicBlockRef bad = new_block(e, "bad"), next = new_block(e, "checked");
    L->BuildCondBr(e->b, good, next, bad);
    L->PositionBuilderAtEnd(e->b, bad);
    LLVMValueRef store = L->BuildStore(e->b, L->ConstInt(e->t_i32, (unsigned long long)++e->checks, 0), e->f->status);
    L->SetOrdering(store, LLVMAtomicOrderingMonotonic); /* several threads may fail at once */
    L->SetAlignment(store, 4);
    L->BuildBr(e->b, next);
    L->PositionBuilderAtEnd(e->b, next);
    open_guard(e, good);
    return FX_OK;
}

static fx_status store(void *user, const fx_stmt *s)
{
    fx_ll *e = user;
    LLVMValueRef v;
    FX_TRY(fx_ll_stored(e, e->p->bufs[s->buf].dtype, s->value, &v));
    fx_ll_access(e, e->L->BuildStore(e->b, v, fx_ll_element(e, s->buf, fx_ll_affine(e, &s->index))));
    e->n_loads = 0;
    return FX_OK;
}

static fx_status local(void *user, const fx_stmt *s)
{
    fx_ll *e = user;
    LLVMValueRef v;
    FX_TRY(fx_ll_value(e, s->value, &v));
    e->local_types[s->local] = s->value->dtype;
    e->f->in_memory[s->local] = e->set[s->local];
    if (e->set[s->local]) {
        LLVMValueRef at = e->L->BuildAlloca(e->f->entry, fx_ll_value_type(e, s->value->dtype), "");
        e->L->BuildStore(e->b, v, at);
        v = at;
    }
    e->f->locals[s->local] = v;
    push_live(e, FX_LL_LOCAL, s->local);
    return FX_OK;
}

static fx_status set(void *user, const fx_stmt *s)
{
    fx_ll *e = user;
    LLVMValueRef v;
    FX_TRY(fx_ll_value(e, s->value, &v));
    e->L->BuildStore(e->b, v, e->f->locals[s->local]);
    e->n_loads = 0;
    return FX_OK;
}

static fx_status array(void *user, const fx_stmt *s)
{
    fx_ll *e = user;
    const fx_buf *b = &e->p->bufs[s->buf];
    unsigned n = (unsigned)(b->numel.value > 0 ? b->numel.value : 1);
    LLVMValueRef at = e->L->BuildAlloca(e->f->entry, e->L->ArrayType(fx_ll_type(e, b->dtype), n), b->name);
    e->L->SetAlignment(at, 64);
    e->f->bufs[s->buf] = at;
    push_live(e, FX_LL_ARRAY, s->buf);
    return FX_OK;
}

/* The descriptor: 32-bit words. A constant, or filled in where sizes are expressions. */
static LLVMValueRef descriptor(fx_ll *e, const fx_kernel *k, const fx_call_stmt *c)
{
    const fx_llvm *L = e->L;
    unsigned n = (unsigned)k->n_fields;
    LLVMValueRef words[FX_MAX_FIELDS];
    bool constant = true;
    for (unsigned i = 0; i < n; i++) {
        uint32_t word;
        float f = (float)c->field[i];
        int32_t v = (int32_t)c->field[i];
        memcpy(&word, k->field[i].is_float ? (const void *)&f : (const void *)&v, 4);
        words[i] = L->ConstInt(e->t_i32, word, 0);
        constant &= !c->sym[i];
    }
    LLVMTypeRef type = L->ArrayType(e->t_i32, n);
    if (constant) {
        LLVMValueRef g = L->AddGlobal(e->m, type, c->name ? c->name : k->name);
        L->SetInitializer(g, L->ConstArray(e->t_i32, words, n));
        L->SetGlobalConstant(g, 1);
        L->SetLinkage(g, LLVMPrivateLinkage);
        return g;
    }
    LLVMValueRef at = L->BuildAlloca(e->f->entry, type, "");
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef v = c->sym[i] ? L->BuildTrunc(e->b, fx_ll_dim(e, fx_dim_sym(c->sym[i])), e->t_i32, "") : words[i], place = fx_ll_i64(e, i);
        L->BuildStore(e->b, v, L->BuildGEP2(e->b, e->t_i32, at, &place, 1, ""));
    }
    return at;
}

static fx_status call(void *user, const fx_stmt *s)
{
    fx_ll *e = user;
    const fx_llvm *L = e->L;
    const fx_call_stmt *c = s->call;
    const fx_kernel *k = fx_kernel_get(c->kernel);
    LLVMValueRef args[FX_MAX_BUF_ARGS + 1];
    LLVMTypeRef types[FX_MAX_BUF_ARGS + 1];
    unsigned n = 0;
    args[n++] = descriptor(e, k, c);
    for (int i = 0; i < k->n_bufs && !k->buf[i].counts; i++) { /* counters are the last, and GPUs' */
        int buf = c->buf[i];
        bool none = buf < 0 || (e->p->bufs[buf].kind == FX_BUF_WEIGHT && fx_dim_is(e->p->bufs[buf].numel, 0));
        args[n++] = none ? L->ConstPointerNull(e->t_ptr) : fx_ll_element(e, buf, fx_ll_dim(e, c->offset[i]));
    }
    for (unsigned i = 0; i < n; i++)
        types[i] = e->t_ptr;
    LLVMTypeRef type = L->FunctionType(e->t_void, types, n, 0);
    const char *name = fx_ll_kernel(e, c);
    LLVMValueRef fn = L->GetNamedFunction(e->m, name);
    if (!fn) {
        fn = L->AddFunction(e->m, name, type);
        fx_ll_attribute(e, fn, -1, "nounwind");
    }
    L->BuildCall2(e->b, type, fn, args, n, "");
    e->n_loads = 0;
    return FX_OK;
}

static fx_status barrier(void *user, const fx_stmt *s)
{
    (void)s;
    fx_ll *e = user;
    return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': a barrier, which is for GPUs", e->step->name);
}

static fx_status reduce(void *user, const fx_stmt *s)
{
    (void)s;
    fx_ll *e = user;
    return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': a reduction over threads, which is for GPUs", e->step->name);
}

fx_status fx_ll_step(fx_ll *e, const fx_step *step, LLVMValueRef *fn)
{
    static const fx_hooks hooks = {.loop_begin = loop_begin, .loop_end = loop_end, .if_begin = if_begin, .if_end = guard_end, .store = store,
                                   .local = local, .set = set, .call = call, .array = array, .check_begin = check_begin,
                                   .check_end = guard_end, .barrier = barrier, .reduce = reduce};
    e->step = step;
    for (size_t i = 0; i < e->n_bufs; i++)
        e->seen[e->bufs[i]] = e->written[e->bufs[i]] = false;
    e->n_bufs = e->n_live = e->n_blocks = 0;
    e->independent = NULL;
    e->n_loads = 0;
    e->n_vars = e->n_locals = 0;
    fx_map seen = {0};
    use_list(e, &seen, step->body);
    fx_ll_same *same = e->debug ? NULL : fx_ll_find_same(e, step);
    if (same && same->fn) {
        *fn = same->fn;
        return FX_OK;
    }
    e->local_types = FX_NEW_ARRAY(e->arena, fx_dtype, (size_t)e->n_locals + 1);
    e->set = FX_NEW_ARRAY(e->arena, bool, (size_t)e->n_locals + 1);
    find_set(e, step->body);
    fx_ll_fn *f = open_function(e, fx_arena_printf(e->arena, "step.%s", step->name), NULL, 0);
    e->L->PositionBuilderAtEnd(e->b, f->body);
    fx_ll_debug_here(e, e->b, NULL);
    *fn = f->fn;
    if (same)
        same->fn = f->fn;
    FX_TRY(fx_walk_step(step, fx_ll_debug_hooks(e, &hooks), e));
    close_function(e);
    return FX_OK;
}
