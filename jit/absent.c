/* jit/absent.c: in place of the rest of jit/ where LLVM's headers were not there when fxcc was built: says so.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "jit/code.h"

static fx_status absent(fx_program *p)
{
    return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, NULL, "this fxcc was built without LLVM's headers (Debian: llvm-19-dev), so it compiles nothing in memory");
}

void fx_code_prepare(void)
{
}

bool fx_code_is_prepared(void)
{
    return true;
}

fx_status fx_code_compile(fx_program *p, const fx_code_options *opt, fx_code **out)
{
    (void)opt;
    (void)out;
    return absent(p);
}

fx_status fx_code_emit(fx_program *p, const fx_code_options *opt, fx_code_form form, fx_text *out)
{
    (void)opt;
    (void)form;
    (void)out;
    return absent(p);
}

/* Of code that nobody can have. */
int32_t fx_code_run(const fx_code *code, void *const *io, const void *const *weights, unsigned char *arena, unsigned char *state,
                    const int64_t *symbols)
{
    (void)code;
    (void)io;
    (void)weights;
    (void)arena;
    (void)state;
    (void)symbols;
    return -1;
}

uint64_t fx_code_arena_size(const fx_code *code, const int64_t *symbols)
{
    (void)code;
    (void)symbols;
    return 0;
}

fx_code_times fx_code_took(const fx_code *code)
{
    (void)code;
    return (fx_code_times){0};
}

void fx_code_free(fx_code *code)
{
    (void)code;
}
