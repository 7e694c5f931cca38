/* codegen/c_stack.c: a bound on the stack that NAME_run takes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Measured, with room: frames as gcc 12 and clang 14 report them by -fstack-usage at -O1 to -Os for all targets, summed along
 * the deepest chain of calls. A kernel's frame is scalars, plus copies of the register tile. tests/unit/test_codegen.c and tests/models compare the
 * bound with what compilers report; a kernel whose local arrays grow must grow here too. */
#include "codegen/emit.h"

/* The deepest chain from the kernel on; tile: bytes of a register tile. */
static uint64_t kernel_stack(fx_kernel_id k, uint64_t tile, bool small)
{
    switch (k) {
    case FX_K_conv2d:
    case FX_K_conv2d_dw:
    case FX_K_conv_transpose2d:
    case FX_K_conv2d_weight_grad:
    case FX_K_gemm:
    case FX_K_matmul:
    case FX_K_attention: return (small ? 768 : 1536) + 4 * tile;
    case FX_K_softmax:
    case FX_K_log_softmax: return 1536;
    default: return small ? 384 : 640;
    }
}

uint64_t fx_c_stack(const fx_emit *e)
{
    const fx_target *g = &e->p->target;
    uint64_t pointer = g->pointer_bits == 32 ? 4 : 8, tile = (uint64_t)g->mr * (uint64_t)g->nr * sizeof(float), kernel = 0, params = 0, arrays = 0;
    bool loops = false;
    for (int k = 0; k < FX_K_COUNT; k++) {
        if (e->kernels[k] && kernel_stack((fx_kernel_id)k, tile, pointer == 4) > kernel)
            kernel = kernel_stack((fx_kernel_id)k, tile, pointer == 4);
    }
    for (size_t i = 0; i < e->p->n_steps; i++) {
        if (e->facts[i].n_params > params)
            params = e->facts[i].n_params;
        loops |= e->facts[i].loops > 0;
        if (e->facts[i].array_bytes > arrays)
            arrays = e->facts[i].array_bytes;
    }
    /* NAME_run with the steps that compilers put in line: saved registers, arguments on the stack, spilled vectors of loops. */
    uint64_t vector = pointer == 4 ? 8 : g->lanes > 4 ? (uint64_t)g->lanes * sizeof(float) : 16;
    uint64_t run = 64 * pointer + 4 * pointer * params + pointer * (e->p->n_inputs + e->p->n_outputs) + (loops ? 48 * vector : 0);
    uint64_t sizes = e->p->n_symbols ? 8 * (2 * e->p->n_slots + 1 + 2 * e->p->n_symbols) + 256 : 0; /* and a descriptor */
    return (run + arrays + sizes + kernel + 63) / 64 * 64;
}
