"""Emitted code of models with open sizes, built and run through ctypes.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import ctypes
import pathlib
import re

import numpy

import emitted

# What only the emitted header knows, under fixed names. net_dims is a struct of int64_t.
SHIM = r"""
#include <stddef.h>
#include "net.h"
size_t shim_size(int what);
int shim_dims_of(void *dims, const int64_t *const *shapes);
int shim_check_dims(const void *dims);
size_t shim_arena_size(const void *dims);
int shim_init(void *context, const void *weights, size_t size, void *arena, size_t arena_size);
int shim_run(const void *context, const void *dims, const void *const *in, void *const *out);
const char *shim_status(int status);
size_t shim_size(int what)
{
    static const size_t sizes[] = {sizeof(net_context), sizeof(net_dims), NET_DIMS, NET_ARENA_ALIGN, NET_STACK_SIZE};
    return sizes[what];
}
int shim_dims_of(void *dims, const int64_t *const *shapes)
{
    return net_dims_of((net_dims *)dims, shapes);
}
int shim_check_dims(const void *dims)
{
    return net_check_dims((const net_dims *)dims);
}
size_t shim_arena_size(const void *dims)
{
    return net_arena_size((const net_dims *)dims);
}
int shim_init(void *context, const void *weights, size_t size, void *arena, size_t arena_size)
{
    return net_init((net_context *)context, weights, size, arena, arena_size);
}
int shim_run(const void *context, const void *dims, const void *const *in, void *const *out)
{
    return net_run_v((const net_context *)context, (const net_dims *)dims, in, out);
}
const char *shim_status(int status)
{
    return net_status_string(status);
}
"""
PAINT = 0xA5


class OpenNet:
    def __init__(self, so, folder):
        self.lib = ctypes.CDLL(str(so))
        self.lib.shim_size.restype = self.lib.shim_arena_size.restype = ctypes.c_size_t
        self.lib.shim_status.restype = ctypes.c_char_p
        self.context_size, dims_size, self.n_dims, self.align, self.stack_size = (self.lib.shim_size(i) for i in range(5))
        assert dims_size == 8 * self.n_dims
        data = numpy.fromfile(pathlib.Path(folder) / "net.bin", numpy.uint8)
        self.weights = emitted.aligned(data.size, 64)
        self.weights[:] = data
        header = (pathlib.Path(folder) / "net.h").read_text()
        names = re.findall(r"^    int64_t (\w+); /\*", header, re.M)
        ranges = [[re.search(rf"#define NET_{name.upper()}_{end} (\d+)", header) for end in ("MIN", "MAX")] for name in names]
        self.ranges = [(int(lo[1]), int(hi[1]) if hi else None) for lo, hi in ranges]
        assert len(self.ranges) == self.n_dims

    @staticmethod
    def pointers(arrays):
        return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))

    def status(self, status):
        return self.lib.shim_status(status).decode()

    def dims_of(self, shapes):
        """The sizes that inputs of these shapes have, and the status."""
        dims = numpy.full(self.n_dims, -77, numpy.int64)
        arrays = [numpy.array(s if len(s) else [0], numpy.int64) for s in shapes]
        return dims, self.lib.shim_dims_of(ctypes.c_void_p(dims.ctypes.data), self.pointers(arrays))

    def arena_size(self, dims):
        return self.lib.shim_arena_size(ctypes.c_void_p(dims.ctypes.data))

    def run(self, dims, inputs, like, arena_size, paint=PAINT):
        """The status, outputs (painted before), and the arena with what lies behind it."""
        inputs = [numpy.ascontiguousarray(a) for a in inputs]
        outputs = [numpy.frombuffer(bytearray([PAINT]) * max(a.nbytes, 1), a.dtype if a.nbytes else numpy.uint8) for a in like]
        arena, context = emitted.aligned(arena_size + emitted.GUARD, max(self.align, 64)), emitted.aligned(self.context_size, 64)
        arena[:] = paint
        status = self.lib.shim_init(ctypes.c_void_p(context.ctypes.data), ctypes.c_void_p(self.weights.ctypes.data), ctypes.c_size_t(self.weights.size),
                                    ctypes.c_void_p(arena.ctypes.data), ctypes.c_size_t(arena_size))
        assert status == 0, self.status(status)
        status = self.lib.shim_run(ctypes.c_void_p(context.ctypes.data), ctypes.c_void_p(dims.ctypes.data), self.pointers(inputs), self.pointers(outputs))
        return status, [o.reshape(a.shape) if a.nbytes else a for o, a in zip(outputs, like)], arena
