/* codegen/c_stack.c: a bound on the stack that NAME_run takes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

uint64_t fx_c_stack(const fx_emit *e)
{
    (void)e;
    return 16384;
}
