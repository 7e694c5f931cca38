/* jit/code.c: LLVM's form of a program, optimised, made into an object and linked into this process.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codegen/llvm.h"
#include "codegen/names.h"
#include "jit/bitcode.h"
#include "jit/cache.h"
#include "jit/code.h"
#include "jit/run.h"
#include "jit/tools.h"

struct fx_code {
    const fx_llvm *L;
    LLVMOrcLLJITRef jit;
    fx_llvm_run_fn *run;
    fx_llvm_size_fn *arena_size;
    fx_gdb_code *gdb;            /* NULL: debuggers were not told */
    int threads;
    fx_code_times took;
};

#define RUN_NAME "fxjit_run"
enum { SOME_KERNELS = 6 }; /* copied at level 2: each convolution takes about 20 ms to compile, and the first few give most of what all do */

/* What compiling holds of LLVM's: freed on every way out. */
typedef struct job {
    fx_program *p;
    const fx_code_options *opt;
    const fx_llvm *L;
    LLVMContextRef c;
    LLVMModuleRef m;
    LLVMTargetMachineRef machine;
    LLVMMemoryBufferRef object;
    char *triple, *cpu, *features;
    fx_bitcode kernels;          /* to copy; of size 0: none */
    fx_code_times took;
    double since;                /* when the phase at hand began */
    fx_code_form form;
    fx_text *text;
} job;

static fx_status failed(job *j, const char *what, LLVMErrorRef error)
{
    char *why = j->L->GetErrorMessage(error);
    fx_status status = fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "%s: %s", what, why);
    j->L->DisposeErrorMessage(why);
    return status;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* A phase ends, and the next begins. */
static void lap(job *j, double *phase)
{
    const double t = now();
    *phase += t - j->since;
    j->since = t;
}

static fx_status make_machine(job *j)
{
    const fx_llvm *L = j->L;
    static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
    j->triple = L->GetDefaultTargetTriple();
    j->cpu = L->GetHostCPUName();
    j->features = L->GetHostCPUFeatures();
    LLVMTargetRef target;
    char *why = NULL;
    if (L->GetTargetFromTriple(j->triple, &target, &why)) {
        fx_status status = fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "%s has no code for %s: %s", L->file, j->triple, why);
        L->DisposeMessage(why);
        return status;
    }
    j->machine = L->CreateTargetMachine(target, j->triple, j->cpu, j->features, levels[j->opt->level], LLVMRelocPIC, LLVMCodeModelJITDefault);
    if (!j->machine)
        return fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "%s makes no target machine for %s", L->file, j->triple);
    return FX_OK;
}

/* LLVM's passes over the module. At level 1 what loops need that are printed as these are, and vectors, which LLVM's own first level does not make. */
static const char *passes(const job *j)
{
    static const char *const by_level[] = {"default<O0>", NULL, "default<O2>", "default<O3>"};
    const char *list = by_level[j->opt->level];
    if (!list)
        list = fx_arena_printf(j->p->arena, "function(sroa,loop-simplify,lcssa,loop-mssa(licm),loop(loop-idiom,indvars,loop-unroll-full),"
                                            "loop-vectorize,%s,early-cse,simplifycfg)", j->L->instcombine);
    return list;
}

static fx_status optimise(job *j)
{
    const fx_llvm *L = j->L;
    fx_poll(j->p->ctx);
    LLVMTargetDataRef layout = L->CreateTargetDataLayout(j->machine);
    L->SetModuleDataLayout(j->m, layout);
    L->DisposeTargetData(layout);
    L->SetTarget(j->m, j->triple);
    LLVMPassBuilderOptionsRef options = L->CreatePassBuilderOptions();
    LLVMErrorRef error = L->RunPasses(j->m, passes(j), j->machine, options);
    L->DisposePassBuilderOptions(options);
    if (!error && j->kernels.size)
        error = fx_bitcode_inline(L, &j->kernels, j->c, j->m, j->machine);
    return error ? failed(j, "LLVM's passes", error) : FX_OK;
}

/* The module as lowering decided it. */
static fx_status make_module(job *j)
{
    const char *why;
    j->since = now();
    j->L = fx_llvm_load(&why);
    if (!j->L)
        return fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "%s", why);
    FX_TRY(make_machine(j));
    lap(j, &j->took.load);
    j->c = j->L->ContextCreate();
    fx_llvm_options o = {.name = j->text && j->opt->name ? j->opt->name : RUN_NAME, .serial = j->opt->threads == 1,
                         .half = strstr(j->features, "+f16c") != NULL, .listing = j->opt->listing};
    if (j->opt->level >= 2 && fx_bitcode_find(j->L, j->p->target.isa, &j->kernels))
        o.special = j->opt->level == 2 ? SOME_KERNELS : INT_MAX;
    FX_TRY(fx_emit_llvm(j->p, j->L, &o, j->c, &j->m));
    lap(j, &j->took.emit);
    return FX_OK;
}

/* ---- objects ---------------------------------------------------------------------------------------------------------- */

static fx_status make_object(job *j, LLVMCodeGenFileType type)
{
    char *why = NULL;
    fx_poll(j->p->ctx);
    if (j->L->TargetMachineEmitToMemoryBuffer(j->machine, j->m, type, &why, &j->object)) {
        fx_status status = fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "LLVM makes no object: %s", why);
        j->L->DisposeMessage(why);
        return status;
    }
    return FX_OK;
}

/* What an object depends on: the module, the machine, the versions. */
static fx_cache_key make_key(job *j)
{
    const fx_llvm *L = j->L;
    fx_text t;
    fx_text_init(&t, j->p->arena);
    fx_printf(&t, "fxcc %s, %s, LLVM %d, level %d, %s, %s, %s, %s\n", FXCC_VERSION, L->file, L->version, j->opt->level, passes(j), j->triple, j->cpu, j->features);
    fx_printf(&t, "kernels %016llx\n", (unsigned long long)fx_hash_block(0, j->kernels.data, j->kernels.size));
    LLVMMemoryBufferRef bits = L->WriteBitcodeToMemoryBuffer(j->m);
    fx_putn(&t, L->GetBufferStart(bits), L->GetBufferSize(bits));
    L->DisposeMemoryBuffer(bits);
    return (fx_cache_key){t.data, t.size};
}

/* The object of j's module: of the cache, or made now and kept there. */
static fx_status find_object(job *j)
{
    const fx_llvm *L = j->L;
    const char *folder = j->opt->cache;
    fx_cache_key key = {NULL, 0};
    if (folder) {
        void *object;
        size_t size;
        key = make_key(j);
        if (fx_cache_get(folder, &key, &object, &size)) {
            j->object = L->CreateMemoryBufferWithMemoryRangeCopy(object, size, "model");
            free(object);
            j->took.cached = true;
            lap(j, &j->took.cache);
            return FX_OK;
        }
        lap(j, &j->took.cache);
    }
    FX_TRY(optimise(j));
    lap(j, &j->took.passes);
    FX_TRY(make_object(j, LLVMObjectFile));
    lap(j, &j->took.codegen);
    if (folder && !fx_cache_put(folder, &key, L->GetBufferStart(j->object), L->GetBufferSize(j->object), j->opt->cache_most))
        fx_remark(j->p->ctx, NULL, "the compiled model is not kept: %s cannot be written, or it takes more than the %llu bytes it may", folder,
                  (unsigned long long)j->opt->cache_most);
    lap(j, &j->took.cache);
    return FX_OK;
}

static void end(job *j)
{
    const fx_llvm *L = j->L;
    if (!L)
        return;
    if (j->object)
        L->DisposeMemoryBuffer(j->object);
    if (j->m)
        L->DisposeModule(j->m);
    if (j->c)
        L->ContextDispose(j->c);
    if (j->machine)
        L->DisposeTargetMachine(j->machine);
    if (j->triple)
        L->DisposeMessage(j->triple);
    if (j->cpu)
        L->DisposeMessage(j->cpu);
    if (j->features)
        L->DisposeMessage(j->features);
}

/* ---- linking ------------------------------------------------------------------------------------------------------ */

static LLVMErrorRef define_symbols(fx_context *ctx, fx_code *code, LLVMOrcJITDylibRef lib)
{
    const fx_llvm *L = code->L;
    size_t n;
    const fx_code_symbol *symbols = fx_code_symbols(&n);
    LLVMOrcCSymbolMapPair *pairs = calloc(n, sizeof *pairs);
    if (!pairs)
        fx_out_of_memory(ctx);
    for (size_t i = 0; i < n; i++) {
        pairs[i].Name = L->OrcLLJITMangleAndIntern(code->jit, symbols[i].name);
        pairs[i].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)symbols[i].address;
        pairs[i].Sym.Flags.GenericFlags = LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
    }
    LLVMErrorRef error = L->OrcJITDylibDefine(lib, L->OrcAbsoluteSymbols(pairs, n));
    free(pairs);
    if (error)
        return error;
    LLVMOrcDefinitionGeneratorRef process; /* C's library */
    error = L->OrcCreateDynamicLibrarySearchGeneratorForProcess(&process, L->OrcLLJITGetGlobalPrefix(code->jit), NULL, NULL);
    if (!error)
        L->OrcJITDylibAddGenerator(lib, process);
    return error;
}

/* Debuggers and profilers are told where the object's functions are; that they cannot be is no reason to fail. */
static void tell_tools(job *j, fx_code *code, const void *object, size_t size, uint64_t at)
{
    char model[FX_IDENT_MAX + 1];
    if (j->opt->listing && !(code->gdb = fx_gdb_add(object, size, RUN_NAME, at)))
        fx_remark(j->p->ctx, NULL, "debuggers cannot be told of the compiled model");
    fx_ident(model, j->p->name ? j->p->name : "", FX_IDENT_MAX, "model");
    if (j->opt->perf && !fx_perf_add(object, size, RUN_NAME, at, model))
        fx_remark(j->p->ctx, NULL, "perf cannot be told of the compiled model: /tmp/perf-%ld.map cannot be written", (long)getpid());
}

static fx_status link_object(job *j, fx_code *code)
{
    const fx_llvm *L = j->L;
    const size_t size = j->opt->listing || j->opt->perf ? L->GetBufferSize(j->object) : 0;
    void *object = size ? fx_arena_dup(j->p->arena, L->GetBufferStart(j->object), size) : NULL; /* the linker takes the buffer */
    LLVMErrorRef error = L->OrcCreateLLJIT(&code->jit, NULL);
    if (error)
        return failed(j, "LLVM's linker", error);
    LLVMOrcJITDylibRef lib = L->OrcLLJITGetMainJITDylib(code->jit);
    error = define_symbols(j->p->ctx, code, lib);
    if (!error) {
        error = L->OrcLLJITAddObjectFile(code->jit, lib, j->object);
        j->object = NULL; /* the linker's */
    }
    LLVMOrcExecutorAddress at = 0, arena_size = 0;
    if (!error)
        error = L->OrcLLJITLookup(code->jit, &at, RUN_NAME);
    if (!error)
        error = L->OrcLLJITLookup(code->jit, &arena_size, RUN_NAME "_arena_size");
    if (error)
        return failed(j, "linking the compiled model", error);
    code->run = (fx_llvm_run_fn *)(uintptr_t)at;
    code->arena_size = (fx_llvm_size_fn *)(uintptr_t)arena_size;
    if (object)
        tell_tools(j, code, object, size, at);
    return FX_OK;
}

typedef struct compile_args {
    job j;
    fx_code *code;
} compile_args;

static fx_status compile(void *user)
{
    compile_args *a = user;
    FX_TRY(make_module(&a->j));
    FX_TRY(find_object(&a->j));
    a->code = calloc(1, sizeof *a->code);
    if (!a->code)
        fx_out_of_memory(a->j.p->ctx);
    a->code->L = a->j.L;
    a->code->threads = a->j.opt->threads;
    FX_TRY(link_object(&a->j, a->code));
    lap(&a->j, &a->j.took.link);
    a->code->took = a->j.took;
    return FX_OK;
}

void fx_code_prepare(void)
{
    const char *why;
    fx_llvm_load(&why); /* compiling says why not */
}

bool fx_code_is_prepared(void)
{
    return fx_llvm_was_loaded();
}

fx_status fx_code_compile(fx_program *p, const fx_code_options *opt, fx_code **out)
{
    compile_args a = {.j = {.p = p, .opt = opt}};
    *out = NULL;
    fx_status status = fx_protect(p->ctx, compile, &a);
    end(&a.j);
    if (status == FX_OK)
        *out = a.code;
    else
        fx_code_free(a.code);
    return status;
}

int32_t fx_code_run(const fx_code *code, void *const *io, const void *const *weights, unsigned char *arena, unsigned char *state,
                    const int64_t *symbols)
{
    return fx_code_with_threads(code->threads, code->run, io, weights, arena, state, symbols);
}

uint64_t fx_code_arena_size(const fx_code *code, const int64_t *symbols)
{
    return (uint64_t)code->arena_size(symbols);
}

fx_code_times fx_code_took(const fx_code *code)
{
    return code->took;
}

void fx_code_free(fx_code *code)
{
    if (!code)
        return;
    fx_gdb_remove(code->gdb);
    if (code->jit) {
        LLVMErrorRef error = code->L->OrcDisposeLLJIT(code->jit);
        if (error)
            code->L->ConsumeError(error);
    }
    free(code);
}

/* ---- as text --------------------------------------------------------------------------------------------------------- */

static fx_status emit(void *user)
{
    job *j = user;
    FX_TRY(make_module(j));
    FX_TRY(optimise(j));
    if (j->form == FX_CODE_LLVM) {
        char *s = j->L->PrintModuleToString(j->m);
        fx_puts(j->text, s);
        j->L->DisposeMessage(s);
        return FX_OK;
    }
    FX_TRY(make_object(j, j->form == FX_CODE_ASM ? LLVMAssemblyFile : LLVMObjectFile));
    fx_putn(j->text, j->L->GetBufferStart(j->object), j->L->GetBufferSize(j->object));
    return FX_OK;
}

fx_status fx_code_emit(fx_program *p, const fx_code_options *opt, fx_code_form form, fx_text *out)
{
    job j = {.p = p, .opt = opt, .form = form, .text = out};
    fx_status status = fx_protect(p->ctx, emit, &j);
    end(&j);
    return status;
}
