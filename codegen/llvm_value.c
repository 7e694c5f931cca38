/* codegen/llvm_value.c: sizes, indices and scalar expressions in LLVM's form.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The meaning of each operation is ir/scalar.def's: what is not spelled by instructions here is a call of the function that the C column
 * there names. */
#include <math.h>
#include <string.h>

#include "codegen/llvm_emit.h"

/* ---- types ---------------------------------------------------------------------------------------------------- */

static bool is_half(fx_dtype d)
{
    return d == FX_F16 || d == FX_BF16;
}

static bool is_unsigned(fx_dtype d)
{
    return d == FX_U8 || d == FX_BOOL;
}

LLVMTypeRef fx_ll_type(fx_ll *e, fx_dtype dtype)
{
    switch (fx_dtype_size(dtype)) {
    case 1: return e->t_i8;
    case 2: return e->t_i16;
    case 4: return dtype == FX_F32 ? e->t_f32 : e->t_i32;
    default: return dtype == FX_F64 ? e->t_f64 : e->t_i64;
    }
}

LLVMTypeRef fx_ll_value_type(fx_ll *e, fx_dtype dtype)
{
    return is_half(dtype) ? e->t_f32 : fx_ll_type(e, dtype);
}

LLVMValueRef fx_ll_i64(fx_ll *e, int64_t v)
{
    return e->L->ConstInt(e->t_i64, (unsigned long long)v, 1);
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

void fx_ll_attribute(fx_ll *e, LLVMValueRef fn, int at, const char *name)
{
    unsigned kind = e->L->GetEnumAttributeKindForName(name, strlen(name));
    e->L->AddAttributeAtIndex(fn, (LLVMAttributeIndex)at, e->L->CreateEnumAttribute(e->c, kind, 0));
}

LLVMValueRef fx_ll_call(fx_ll *e, const char *name, LLVMTypeRef result, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef types[8];
    for (unsigned i = 0; i < n; i++)
        types[i] = e->L->TypeOf(args[i]);
    LLVMTypeRef type = e->L->FunctionType(result, types, n, 0);
    LLVMValueRef fn = e->L->GetNamedFunction(e->m, name);
    if (!fn) {
        fn = e->L->AddFunction(e->m, name, type);
        /* C's functions are not for LLVM to compute otherwise; libfxrt's it does not know, and would not look for their vector forms either */
        static const char *const pure[] = {"nounwind", "willreturn", "nobuiltin"};
        for (int i = 0; i < (strncmp(name, "fxrt_", 5) == 0 ? 2 : 3); i++)
            fx_ll_attribute(e, fn, -1, pure[i]);
        if (e->L->version >= 16 || e->L->version == 0) { /* memory(none): value 0 */
            unsigned kind = e->L->GetEnumAttributeKindForName("memory", 6);
            e->L->AddAttributeAtIndex(fn, (LLVMAttributeIndex)-1, e->L->CreateEnumAttribute(e->c, kind, 0));
        }
    }
    return e->L->BuildCall2(e->b, type, fn, args, n, "");
}

LLVMValueRef fx_ll_intrinsic(fx_ll *e, const char *name, LLVMTypeRef type, LLVMValueRef *args, unsigned n)
{
    unsigned id = e->L->LookupIntrinsicID(name, strlen(name));
    LLVMValueRef fn = e->L->GetIntrinsicDeclaration(e->m, id, &type, 1);
    return e->L->BuildCall2(e->b, e->L->GlobalGetValueType(fn), fn, args, n, "");
}

/* ---- sizes and indices --------------------------------------------------------------------------------------- */

/* Sizes stand in the entry block of the function, once each. Quotients round down, as in ir.h; divisors are positive. */
static LLVMValueRef sym_value(fx_ll *e, const fx_sym *s)
{
    const fx_llvm *L = e->L;
    LLVMBuilderRef b = e->f->entry;
    LLVMValueRef v = fx_map_get(&e->f->sizes, s);
    if (v)
        return v;
    LLVMValueRef a = s->n > 0 ? sym_value(e, s->args[0]) : NULL;
    LLVMValueRef zero = fx_ll_i64(e, 0);
    switch (s->kind) {
    case FX_SYM_INT:
        v = fx_ll_i64(e, s->value);
        break;
    case FX_SYM_SYMBOL:
        v = zero; /* every name is a symbol's: fx_program_verify */
        for (size_t i = 0; i < e->p->n_symbols; i++)
            if (strcmp(e->p->symbols[i].name, s->name) == 0)
                v = e->f->symbols[i];
        break;
    case FX_SYM_ADD:
    case FX_SYM_MUL:
    case FX_SYM_MAX:
    case FX_SYM_MIN:
        v = a;
        for (int i = 1; i < s->n; i++) {
            LLVMValueRef other = sym_value(e, s->args[i]);
            if (s->kind == FX_SYM_ADD)
                v = L->BuildNSWAdd(b, v, other, "");
            else if (s->kind == FX_SYM_MUL)
                v = L->BuildNSWMul(b, v, other, "");
            else
                v = L->BuildSelect(b, L->BuildICmp(b, s->kind == FX_SYM_MAX ? LLVMIntSGT : LLVMIntSLT, v, other, ""), v, other, "");
        }
        break;
    case FX_SYM_POW:
        v = a;
        for (int64_t i = 1; i < s->args[1]->value; i++)
            v = L->BuildNSWMul(b, v, a, "");
        break;
    case FX_SYM_CEILDIV:
        a = L->BuildNeg(b, a, "");
        /* -floor(-a / d) */
        /* fall through */
    case FX_SYM_FLOORDIV: {
        LLVMValueRef d = sym_value(e, s->args[1]), r = L->BuildSRem(b, a, d, "");
        LLVMValueRef less = L->BuildSExt(b, L->BuildICmp(b, LLVMIntSLT, r, zero, ""), e->t_i64, "");
        v = L->BuildAdd(b, L->BuildSDiv(b, a, d, ""), less, "");
        if (s->kind == FX_SYM_CEILDIV)
            v = L->BuildNeg(b, v, "");
        break;
    }
    case FX_SYM_MOD: {
        LLVMValueRef d = sym_value(e, s->args[1]), r = L->BuildSRem(b, a, d, "");
        v = L->BuildSelect(b, L->BuildICmp(b, LLVMIntSLT, r, zero, ""), L->BuildAdd(b, r, d, ""), r, "");
        break;
    }
    case FX_SYM_OPAQUE: /* refused before: check_sym in llvm_module.c */
        v = zero;
        break;
    }
    fx_map_put(e->arena, &e->f->sizes, s, v);
    return v;
}

LLVMValueRef fx_ll_dim(fx_ll *e, fx_dim d)
{
    return d.sym ? sym_value(e, d.sym) : fx_ll_i64(e, d.value);
}

/* A local as a value of its own type. */
static LLVMValueRef local_value(fx_ll *e, int local)
{
    LLVMValueRef v = e->f->locals[local];
    return e->f->in_memory[local] ? e->L->BuildLoad2(e->b, fx_ll_value_type(e, e->local_types[local]), v, "") : v;
}

static LLVMValueRef widen(fx_ll *e, fx_dtype from, LLVMValueRef v, LLVMTypeRef to)
{
    if (e->L->TypeOf(v) == to)
        return v;
    return is_unsigned(from) ? e->L->BuildZExt(e->b, v, to, "") : e->L->BuildSExt(e->b, v, to, "");
}

LLVMValueRef fx_ll_affine(fx_ll *e, const fx_affine *a)
{
    LLVMValueRef sum = NULL;
    for (int i = 0; i < a->n; i++) {
        LLVMValueRef v;
        if (a->var[i] >= 0) {
            v = e->f->vars[a->var[i]];
        } else {
            int local = FX_VAR_LOCAL(a->var[i]);
            v = widen(e, e->local_types[local], local_value(e, local), e->t_i64);
        }
        if (!fx_dim_is(a->coef[i], 1))
            v = e->L->BuildNSWMul(e->b, v, fx_ll_dim(e, a->coef[i]), "");
        sum = sum ? e->L->BuildNSWAdd(e->b, sum, v, "") : v;
    }
    if (!sum)
        return fx_ll_dim(e, a->base);
    return fx_dim_is(a->base, 0) ? sum : e->L->BuildNSWAdd(e->b, sum, fx_ll_dim(e, a->base), "");
}

LLVMValueRef fx_ll_element(fx_ll *e, int buf, LLVMValueRef index)
{
    return e->L->BuildGEP2(e->b, fx_ll_type(e, e->p->bufs[buf].dtype), e->f->bufs[buf], &index, 1, "");
}

LLVMValueRef fx_ll_access(fx_ll *e, LLVMValueRef access)
{
    if (e->independent)
        e->L->SetMetadata(access, e->k_independent, e->independent);
    return access;
}

/* An element is loaded once, as long as nothing may have changed it: merging loads, LLVM would forget what they are marked as. */
LLVMValueRef fx_ll_load(fx_ll *e, LLVMTypeRef type, int buf, const fx_affine *index)
{
    enum { BACK = 16 };
    LLVMBasicBlockRef block = e->L->GetInsertBlock(e->b);
    for (size_t i = e->n_loads; i > 0 && i + BACK > e->n_loads; i--) {
        const fx_ll_load_of *l = &e->loads[i - 1];
        if (l->buf == buf && l->block == block && fx_affine_equal(l->index, index))
            return l->value;
    }
    LLVMValueRef v = fx_ll_access(e, e->L->BuildLoad2(e->b, type, fx_ll_element(e, buf, fx_ll_affine(e, index)), ""));
    fx_ll_load_of *l = &(FX_PUSH(e->arena, e->loads, e->n_loads, e->cap_loads));
    *l = (fx_ll_load_of){buf, index, block, v};
    return v;
}

/* ---- float16 and bfloat16 --------------------------------------------------------------------------------------- */

static LLVMValueRef from_half(fx_ll *e, fx_dtype d, LLVMValueRef bits)
{
    if (d == FX_BF16) {
        LLVMValueRef wide = e->L->BuildZExt(e->b, bits, e->t_i32, "");
        return e->L->BuildBitCast(e->b, e->L->BuildShl(e->b, wide, e->L->ConstInt(e->t_i32, 16, 0), ""), e->t_f32, "");
    }
    if (e->opt->half)
        return e->L->BuildFPExt(e->b, e->L->BuildBitCast(e->b, bits, e->t_half, ""), e->t_f32, "");
    return fx_ll_call(e, "fxrt_from_f16", e->t_f32, &bits, 1);
}

static LLVMValueRef to_half(fx_ll *e, fx_dtype d, LLVMValueRef v)
{
    if (d == FX_F16 && e->opt->half)
        return e->L->BuildBitCast(e->b, e->L->BuildFPTrunc(e->b, v, e->t_half, ""), e->t_i16, "");
    if (d == FX_F16)
        return fx_ll_call(e, "fxrt_to_f16", e->t_i16, &v, 1);
    /* to nearest, ties to even; NaN quiet */
    const fx_llvm *L = e->L;
    LLVMValueRef u = L->BuildBitCast(e->b, v, e->t_i32, ""), s16 = L->ConstInt(e->t_i32, 16, 0);
    LLVMValueRef odd = L->BuildAnd(e->b, L->BuildLShr(e->b, u, s16, ""), L->ConstInt(e->t_i32, 1, 0), "");
    LLVMValueRef r = L->BuildAdd(e->b, L->BuildAdd(e->b, u, L->ConstInt(e->t_i32, 0x7fff, 0), ""), odd, "");
    LLVMValueRef nan = L->BuildOr(e->b, u, L->ConstInt(e->t_i32, 0x400000, 0), "");
    LLVMValueRef bits = L->BuildSelect(e->b, L->BuildFCmp(e->b, LLVMRealUNO, v, v, ""), nan, r, "");
    return L->BuildTrunc(e->b, L->BuildLShr(e->b, bits, s16, ""), e->t_i16, "");
}

static LLVMValueRef round_half(fx_ll *e, fx_dtype d, LLVMValueRef v)
{
    return from_half(e, d, to_half(e, d, v));
}

/* ---- scalar expressions ------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int arity;
    const char *f32, *f64, *ints;
} scalars[] = {
#define SCALAR(id, n, f32, f64, ints) {#id, n, f32, f64, ints},
#include "ir/scalar.def"
#undef SCALAR
};
enum { FIRST_SCALAR = FX_S_CAST + 1 };

static LLVMValueRef to_bool(fx_ll *e, LLVMValueRef i1)
{
    return e->L->BuildZExt(e->b, i1, e->t_i8, "");
}

static LLVMValueRef is_true(fx_ll *e, fx_dtype d, LLVMValueRef v)
{
    LLVMTypeRef t = e->L->TypeOf(v);
    return fx_dtype_is_float(d) ? e->L->BuildFCmp(e->b, LLVMRealUNE, v, e->L->ConstReal(t, 0), "")
                                : e->L->BuildICmp(e->b, LLVMIntNE, v, e->L->ConstNull(t), "");
}

/* Floats to integers: toward zero; what does not fit, and NaN, becomes the least integer of 32 or 64 bits, as in emitted C. */
static LLVMValueRef float_to_int(fx_ll *e, fx_dtype to, LLVMValueRef v)
{
    const fx_llvm *L = e->L;
    bool wide = to == FX_I64 || to == FX_U8;
    LLVMTypeRef by = wide ? e->t_i64 : e->t_i32;
    LLVMValueRef x = L->TypeOf(v) == e->t_f64 ? v : L->BuildFPExt(e->b, v, e->t_f64, "");
    double limit = wide ? 9223372036854775808.0 : 2147483648.0;
    LLVMValueRef fits = L->BuildAnd(e->b, L->BuildFCmp(e->b, LLVMRealOGT, x, L->ConstReal(e->t_f64, -limit - 1), ""),
                                    L->BuildFCmp(e->b, LLVMRealOLT, x, L->ConstReal(e->t_f64, limit), ""), "");
    LLVMValueRef least = L->ConstInt(by, wide ? (unsigned long long)INT64_MIN : 0x80000000u, 0);
    LLVMValueRef i = L->BuildFPToSI(e->b, L->BuildSelect(e->b, fits, x, L->ConstReal(e->t_f64, 0), ""), by, "");
    i = L->BuildSelect(e->b, fits, i, least, "");
    LLVMTypeRef t = fx_ll_type(e, to);
    return t == by ? i : L->BuildTrunc(e->b, i, t, "");
}

static LLVMValueRef cast(fx_ll *e, fx_dtype to, fx_dtype from, LLVMValueRef v)
{
    const fx_llvm *L = e->L;
    if (to == from || (to == FX_F32 && is_half(from)))
        return v;
    if (to == FX_BOOL)
        return to_bool(e, is_true(e, from, v));
    bool from_float = fx_dtype_is_float(from);
    if (is_half(to)) {
        if (from == FX_F64)
            v = L->BuildFPTrunc(e->b, v, e->t_f32, "");
        else if (!from_float)
            v = is_unsigned(from) ? L->BuildUIToFP(e->b, v, e->t_f32, "") : L->BuildSIToFP(e->b, v, e->t_f32, "");
        return round_half(e, to, v);
    }
    LLVMTypeRef t = fx_ll_value_type(e, to);
    if (fx_dtype_is_float(to)) {
        if (!from_float)
            return is_unsigned(from) ? L->BuildUIToFP(e->b, v, t, "") : L->BuildSIToFP(e->b, v, t, "");
        return to == FX_F64 ? L->BuildFPExt(e->b, v, t, "") : L->BuildFPTrunc(e->b, v, t, "");
    }
    if (from_float)
        return float_to_int(e, to, v);
    return fx_dtype_size(to) > fx_dtype_size(from) ? widen(e, from, v, t)
           : fx_dtype_size(to) < fx_dtype_size(from) ? L->BuildTrunc(e->b, v, t, "") : v;
}

static LLVMValueRef compare(fx_ll *e, fx_sop op, fx_dtype d, LLVMValueRef a, LLVMValueRef b)
{
    static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT, LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
    static const LLVMIntPredicate sign[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
    static const LLVMIntPredicate none[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
    int i = (int)op - (int)FX_S_eq;
    if (fx_dtype_is_float(d))
        return e->L->BuildFCmp(e->b, real[i], a, b, "");
    return e->L->BuildICmp(e->b, is_unsigned(d) ? none[i] : sign[i], a, b, "");
}

/* Functions of runtime/math.h are libfxrt's, compiled for this instruction set, with a vector's worth of lanes under another name, which loops
 * that LLVM turns into vectors call instead (the vector function ABI's mapping of a call). */
static LLVMValueRef call_math(fx_ll *e, const char *name, LLVMValueRef *arg, unsigned n)
{
    const fx_llvm *L = e->L;
    const fx_target *t = &e->p->target;
    const char *scalar = fx_arena_printf(e->arena, "fxrt_%s_s_%s", t->isa, name), *vector = fx_arena_printf(e->arena, "fxrt_%s_v_%s", t->isa, name);
    LLVMValueRef call = fx_ll_call(e, scalar, e->t_f32, arg, n);
    if (t->lanes <= 1)
        return call;
    if (!L->GetNamedFunction(e->m, vector)) {
        LLVMTypeRef lanes = L->VectorType(e->t_f32, (unsigned)t->lanes), types[3] = {lanes, lanes, lanes};
        LLVMValueRef fn = L->AddFunction(e->m, vector, L->FunctionType(lanes, types, n, 0));
        FX_PUSH(e->arena, e->kept, e->n_kept, e->cap_kept) = fn;
    }
    const char *mapping = fx_arena_printf(e->arena, "_ZGV_LLVM_N%d%.*s_%s(%s)", t->lanes, (int)n, "vvv", scalar, vector);
    static const char key[] = "vector-function-abi-variant";
    L->AddCallSiteAttribute(call, (LLVMAttributeIndex)-1,
                            L->CreateStringAttribute(e->c, key, sizeof key - 1, mapping, (unsigned)strlen(mapping)));
    return call;
}

/* The function a template calls, "powf($0, $1)", on these operands. */
static fx_status call_named(fx_ll *e, const char *tmpl, const fx_sexpr *x, bool i64, LLVMValueRef *arg, LLVMTypeRef type, LLVMValueRef *out)
{
    size_t n = strcspn(tmpl, "(");
    const char *name = fx_arena_printf(e->arena, "%.*s", (int)n, tmpl), *at = strstr(name, "$i");
    if (!tmpl[0] || !tmpl[n] || n == 0)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': no LLVM spelling of %s on %s", e->step->name,
                       scalars[x->op - FIRST_SCALAR].name, fx_dtype_name(x->dtype));
    if (at)
        name = fx_arena_printf(e->arena, "%.*s%s", (int)(at - name), name, i64 ? "i64" : "i32");
    unsigned arity = (unsigned)scalars[x->op - FIRST_SCALAR].arity;
    *out = type == e->t_f32 && strncmp(name, "fxrt_", 5) == 0 ? call_math(e, name + 5, arg, arity) : fx_ll_call(e, name, type, arg, arity);
    return FX_OK;
}

static fx_status float_op(fx_ll *e, const fx_sexpr *x, fx_dtype d, LLVMValueRef *a, LLVMValueRef *out)
{
    const fx_llvm *L = e->L;
    LLVMBuilderRef b = e->b;
    LLVMTypeRef t = fx_ll_value_type(e, d);
    LLVMValueRef zero = L->ConstReal(t, 0), r;
    switch (x->op) {
    case FX_S_add: r = L->BuildFAdd(b, a[0], a[1], ""); break;
    case FX_S_sub: r = L->BuildFSub(b, a[0], a[1], ""); break;
    case FX_S_mul: r = L->BuildFMul(b, a[0], a[1], ""); break;
    case FX_S_div: r = L->BuildFDiv(b, a[0], a[1], ""); break;
    case FX_S_neg: r = L->BuildFNeg(b, a[0], ""); break;
    case FX_S_abs: r = fx_ll_intrinsic(e, "llvm.fabs", t, a, 1); break;
    case FX_S_sqrt: r = fx_ll_intrinsic(e, "llvm.sqrt", t, a, 1); break;
    case FX_S_floor: r = fx_ll_intrinsic(e, "llvm.floor", t, a, 1); break;
    case FX_S_ceil: r = fx_ll_intrinsic(e, "llvm.ceil", t, a, 1); break;
    case FX_S_trunc: r = fx_ll_intrinsic(e, "llvm.trunc", t, a, 1); break;
    case FX_S_round: r = fx_ll_intrinsic(e, "llvm.rint", t, a, 1); break;
    case FX_S_copysign: r = fx_ll_intrinsic(e, "llvm.copysign", t, a, 2); break;
    case FX_S_max:
    case FX_S_min: { /* a NaN in either stays */
        LLVMValueRef first = L->BuildFCmp(b, x->op == FX_S_max ? LLVMRealOGT : LLVMRealOLT, a[0], a[1], "");
        r = L->BuildSelect(b, L->BuildOr(b, first, L->BuildFCmp(b, LLVMRealUNO, a[0], a[0], ""), ""), a[0], a[1], "");
        break;
    }
    case FX_S_relu: r = L->BuildSelect(b, L->BuildFCmp(b, LLVMRealOLT, a[0], zero, ""), zero, a[0], ""); break;
    case FX_S_clamp:
        r = L->BuildSelect(b, L->BuildFCmp(b, LLVMRealOLT, a[0], a[1], ""), a[1], a[0], "");
        r = L->BuildSelect(b, L->BuildFCmp(b, LLVMRealOGT, r, a[2], ""), a[2], r, "");
        break;
    case FX_S_leaky_relu:
        r = L->BuildSelect(b, L->BuildFCmp(b, LLVMRealOGT, a[0], zero, ""), a[0], L->BuildFMul(b, a[1], a[0], ""), "");
        break;
    case FX_S_sign: {
        LLVMValueRef up = L->BuildZExt(b, L->BuildFCmp(b, LLVMRealOGT, a[0], zero, ""), e->t_i32, "");
        LLVMValueRef down = L->BuildZExt(b, L->BuildFCmp(b, LLVMRealOLT, a[0], zero, ""), e->t_i32, "");
        r = L->BuildSIToFP(b, L->BuildSub(b, up, down, ""), t, "");
        break;
    }
    default:
        if (fx_sop_is_comparison(x->op)) {
            *out = to_bool(e, compare(e, x->op, d, a[0], a[1]));
            return FX_OK;
        }
        FX_TRY(call_named(e, d == FX_F64 ? scalars[x->op - FIRST_SCALAR].f64 : scalars[x->op - FIRST_SCALAR].f32, x, false, a, t, &r));
    }
    *out = r;
    return FX_OK;
}

/* Quotient and remainder toward zero, defined for all operands (runtime/int.h). */
static void div_rem(fx_ll *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef *q, LLVMValueRef *r)
{
    const fx_llvm *L = e->L;
    LLVMBuilderRef b = e->b;
    LLVMTypeRef t = L->TypeOf(x);
    LLVMValueRef zero = L->ConstNull(t), one = L->ConstInt(t, 1, 0), minus = L->ConstInt(t, (unsigned long long)-1, 1);
    LLVMValueRef by_0 = L->BuildICmp(b, LLVMIntEQ, y, zero, ""), by_minus = L->BuildICmp(b, LLVMIntEQ, y, minus, "");
    LLVMValueRef safe = L->BuildSelect(b, L->BuildOr(b, by_0, by_minus, ""), one, y, "");
    if (q) {
        *q = L->BuildSelect(b, by_minus, L->BuildNeg(b, x, ""), L->BuildSDiv(b, x, safe, ""), "");
        *q = L->BuildSelect(b, by_0, zero, *q, "");
    }
    if (r)
        *r = L->BuildSRem(b, x, safe, ""); /* by 1: 0 */
}

static fx_status int_op(fx_ll *e, const fx_sexpr *x, fx_dtype d, LLVMValueRef *a, LLVMValueRef *out)
{
    const fx_llvm *L = e->L;
    LLVMBuilderRef b = e->b;
    LLVMTypeRef own = fx_ll_type(e, d);
    if (fx_sop_is_comparison(x->op)) {
        *out = to_bool(e, compare(e, x->op, d, a[0], a[1]));
        return FX_OK;
    }
    LLVMValueRef r = NULL;
    switch (x->op) {
    case FX_S_add: r = L->BuildAdd(b, a[0], a[1], ""); break;
    case FX_S_sub: r = L->BuildSub(b, a[0], a[1], ""); break;
    case FX_S_mul: r = L->BuildMul(b, a[0], a[1], ""); break;
    case FX_S_neg: r = L->BuildNeg(b, a[0], ""); break;
    case FX_S_and: r = L->BuildAnd(b, a[0], a[1], ""); break;
    case FX_S_or: r = L->BuildOr(b, a[0], a[1], ""); break;
    case FX_S_xor: r = L->BuildXor(b, a[0], a[1], ""); break;
    case FX_S_not:
        r = d == FX_BOOL ? to_bool(e, L->BuildICmp(b, LLVMIntEQ, a[0], L->ConstNull(own), "")) : L->BuildNot(b, a[0], "");
        break;
    case FX_S_max:
    case FX_S_fmax: r = L->BuildSelect(b, compare(e, FX_S_gt, d, a[0], a[1]), a[0], a[1], ""); break;
    case FX_S_min:
    case FX_S_fmin: r = L->BuildSelect(b, compare(e, FX_S_lt, d, a[0], a[1]), a[0], a[1], ""); break;
    case FX_S_relu: r = L->BuildSelect(b, compare(e, FX_S_gt, d, a[0], L->ConstNull(own)), a[0], L->ConstNull(own), ""); break;
    default: break;
    }
    if (r) {
        bool wraps = x->op == FX_S_add || x->op == FX_S_sub || x->op == FX_S_mul || x->op == FX_S_neg;
        *out = d == FX_BOOL && wraps ? to_bool(e, is_true(e, d, r)) : r; /* true plus true is true */
        return FX_OK;
    }
    /* the rest in 32 or 64 bits, cut off after */
    bool wide = d == FX_I64;
    LLVMTypeRef t = wide ? e->t_i64 : e->t_i32;
    LLVMValueRef w[3] = {NULL, NULL, NULL}, zero = L->ConstNull(t), bits = L->ConstInt(t, wide ? 64 : 32, 0);
    for (int i = 0; i < scalars[x->op - FIRST_SCALAR].arity; i++)
        w[i] = widen(e, d, a[i], t);
    switch (x->op) {
    case FX_S_div: div_rem(e, w[0], w[1], &r, NULL); break;
    case FX_S_fmod: div_rem(e, w[0], w[1], NULL, &r); break;
    case FX_S_floor_div:
    case FX_S_remainder: {
        LLVMValueRef q, m;
        div_rem(e, w[0], w[1], &q, &m);
        LLVMValueRef differ = L->BuildICmp(b, LLVMIntSLT, L->BuildXor(b, m, w[1], ""), zero, "");
        LLVMValueRef fix = L->BuildAnd(b, L->BuildICmp(b, LLVMIntNE, m, zero, ""), differ, "");
        r = x->op == FX_S_floor_div ? L->BuildAdd(b, q, L->BuildSExt(b, fix, t, ""), "")
                                    : L->BuildSelect(b, fix, L->BuildAdd(b, m, w[1], ""), m, "");
        break;
    }
    case FX_S_abs: r = L->BuildSelect(b, L->BuildICmp(b, LLVMIntSLT, w[0], zero, ""), L->BuildNeg(b, w[0], ""), w[0], ""); break;
    case FX_S_sign:
        r = L->BuildSub(b, L->BuildZExt(b, L->BuildICmp(b, LLVMIntSGT, w[0], zero, ""), t, ""),
                        L->BuildZExt(b, L->BuildICmp(b, LLVMIntSLT, w[0], zero, ""), t, ""), "");
        break;
    case FX_S_clamp:
        r = L->BuildSelect(b, L->BuildICmp(b, LLVMIntSLT, w[0], w[1], ""), w[1], w[0], "");
        r = L->BuildSelect(b, L->BuildICmp(b, LLVMIntSGT, r, w[2], ""), w[2], r, "");
        break;
    case FX_S_shl: {
        LLVMValueRef ok = L->BuildICmp(b, LLVMIntULT, w[1], bits, "");
        r = L->BuildSelect(b, ok, L->BuildShl(b, w[0], L->BuildSelect(b, ok, w[1], zero, ""), ""), zero, "");
        break;
    }
    case FX_S_shr: {
        LLVMValueRef ok = L->BuildICmp(b, LLVMIntULT, w[1], bits, ""), most = L->ConstInt(t, wide ? 63 : 31, 0);
        r = L->BuildAShr(b, w[0], L->BuildSelect(b, ok, w[1], most, ""), "");
        break;
    }
    default:
        FX_TRY(call_named(e, scalars[x->op - FIRST_SCALAR].ints, x, wide, w, t, &r));
    }
    r = t == own ? r : L->BuildTrunc(b, r, own, "");
    *out = d == FX_BOOL ? to_bool(e, is_true(e, d, r)) : r;
    return FX_OK;
}

static fx_status value(fx_ll *e, const fx_sexpr *x, int depth, LLVMValueRef *out)
{
    enum { DEEPEST = 5000 };
    const fx_llvm *L = e->L;
    LLVMValueRef v = fx_map_get(&e->values, x), arg[3] = {NULL, NULL, NULL};
    if (v) {
        *out = v;
        return FX_OK;
    }
    if (depth > DEEPEST)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': an expression of more than %d levels", e->step->name, DEEPEST);
    if (x->dtype == FX_C64 || x->dtype == FX_C128)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, &e->step->loc, "step '%s': no LLVM spelling of computing in %s", e->step->name,
                       fx_dtype_name(x->dtype));
    for (int i = 0; i < 3; i++)
        if (x->arg[i])
            FX_TRY(value(e, x->arg[i], depth + 1, &arg[i]));
    LLVMTypeRef t = fx_ll_value_type(e, x->dtype);
    switch (x->op) {
    case FX_S_CONST:
        if (!fx_dtype_is_float(x->dtype))
            v = L->ConstInt(t, (unsigned long long)x->ival, 1);
        else if (x->dtype == FX_F64)
            v = L->ConstReal(t, x->imm);
        else
            v = L->ConstReal(t, x->dtype == FX_F16    ? fx_half_to_float(fx_float_to_half((float)x->imm))
                                : x->dtype == FX_BF16 ? fx_bf16_to_float(fx_float_to_bf16((float)x->imm)) : (float)x->imm);
        break;
    case FX_S_LOAD:
        v = fx_ll_load(e, fx_ll_type(e, x->dtype), x->buf, &x->index);
        if (is_half(x->dtype))
            v = from_half(e, x->dtype, v);
        break;
    case FX_S_LOCAL:
        v = local_value(e, x->local);
        break;
    case FX_S_INDEX:
        v = fx_ll_affine(e, &x->index);
        break;
    case FX_S_CAST:
        v = cast(e, x->dtype, x->arg[0]->dtype, arg[0]);
        break;
    case FX_S_select:
        v = L->BuildSelect(e->b, is_true(e, x->arg[0]->dtype, arg[0]), arg[1], arg[2], "");
        break;
    default: {
        fx_dtype d = fx_sop_is_comparison(x->op) ? x->arg[0]->dtype : x->dtype;
        FX_TRY(fx_dtype_is_float(d) ? float_op(e, x, d, arg, &v) : int_op(e, x, d, arg, &v));
        if (is_half(x->dtype) && !fx_sop_is_exact(x->op))
            v = round_half(e, x->dtype, v);
    }
    }
    fx_map_put(e->arena, &e->values, x, v);
    *out = v;
    return FX_OK;
}

fx_status fx_ll_value(fx_ll *e, const fx_sexpr *x, LLVMValueRef *out)
{
    e->values = (fx_map){0};
    return value(e, x, 0, out);
}

fx_status fx_ll_stored(fx_ll *e, fx_dtype dtype, const fx_sexpr *x, LLVMValueRef *out)
{
    if (is_half(dtype) && x->op == FX_S_LOAD) { /* only moved: the bits stay */
        *out = fx_ll_load(e, e->t_i16, x->buf, &x->index);
        return FX_OK;
    }
    FX_TRY(fx_ll_value(e, x, out));
    if (is_half(dtype))
        *out = to_half(e, dtype, *out);
    return FX_OK;
}
