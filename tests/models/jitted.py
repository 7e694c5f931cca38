"""Models compiled in memory (fxcc/jit.h), through ctypes. Used by the whole-model tests and by bench/.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import ctypes
import os
import pathlib

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# by fx_dtype of fxcc/tensor.h; bfloat16 is none of NumPy's
DTYPES = ["float32", "float64", "float16", None, "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128"]
MAX_RANK = 8


class Failed(Exception):
    """What fxcc says."""


class Tensor(ctypes.Structure):
    """fx_tensor"""
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("sizes", ctypes.c_int64 * MAX_RANK), ("strides", ctypes.c_int64 * MAX_RANK),
                ("data", ctypes.c_void_p), ("storage", ctypes.c_void_p)]

    @classmethod
    def of(cls, array):
        """A window on the array, which must outlive it."""
        return cls(DTYPES.index(str(array.dtype)), array.ndim, tuple(array.shape), tuple(s // array.itemsize for s in array.strides), array.ctypes.data)

    def array(self):
        """A window on a dense tensor's memory; a fresh array where it has none."""
        shape, dtype = tuple(self.sizes[:self.rank]), numpy.dtype(DTYPES[self.dtype])
        if not self.data:
            return numpy.empty(shape, dtype)
        size = int(numpy.prod(shape)) * dtype.itemsize
        return numpy.frombuffer((ctypes.c_char * size).from_address(self.data), dtype).reshape(shape)


def library():
    path = os.environ.get("FXCC_JIT_SHIM") or ROOT / "build" / "release" / "tests" / "jit_shim.so"
    lib = ctypes.CDLL(str(path))
    lib.shim_open.restype = ctypes.c_void_p
    lib.shim_fact.restype = ctypes.c_int64
    lib.shim_seconds.restype = ctypes.c_double
    lib.shim_input.restype = lib.shim_state.restype = ctypes.c_char_p
    return lib


class Function:
    """A compiled model. cache: a folder, "" for none."""

    def __init__(self, path, level=0, threads=0, cache="", disable=None):
        self.lib, self.error = library(), ctypes.create_string_buffer(1000)
        handle = self.lib.shim_open(str(path).encode(), level, threads, str(cache).encode(), disable and disable.encode(), self.error,
                                    ctypes.c_size_t(len(self.error)))
        if not handle:
            raise Failed(self.error.value.decode())
        self.handle = ctypes.c_void_p(handle)
        self.n_inputs, self.n_outputs, self.n_states, self.cached = (self.lib.shim_fact(self.handle, i) for i in range(4))

    def close(self):
        self.lib.shim_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def memory(self):
        """Bytes of arena (for the sizes of the last call) and of weights."""
        return self.lib.shim_fact(self.handle, 4), self.lib.shim_fact(self.handle, 5)

    def check(self, status):
        if status:
            raise Failed(self.error.value.decode())

    def bind(self, inputs):
        """Arguments of a call, and the arrays that get its outputs."""
        assert len(inputs) == self.n_inputs
        given, made = (Tensor * len(inputs))(*map(Tensor.of, inputs)), (Tensor * self.n_outputs)()
        size = ctypes.c_size_t(len(self.error))
        self.check(self.lib.shim_outputs(self.handle, ctypes.c_size_t(len(inputs)), given, ctypes.c_size_t(self.n_outputs), made, self.error, size))
        outputs = [t.array() for t in made]
        made = (Tensor * self.n_outputs)(*map(Tensor.of, outputs))
        given.arrays, made.arrays = inputs, outputs  # live as long as the pointers to them
        return (self.handle, ctypes.c_size_t(len(inputs)), given, ctypes.c_size_t(self.n_outputs), made, self.error, size), outputs

    def run_bound(self, arguments):
        self.check(self.lib.shim_call(*arguments))

    def run(self, inputs):
        arguments, outputs = self.bind(inputs)
        self.run_bound(arguments)
        return outputs

    def seconds(self, arguments, calls):
        """What that many calls in a row take, without Python between them."""
        return self.lib.shim_seconds(*arguments[:5], ctypes.c_size_t(calls))

    def states(self):
        """What the model keeps, by name: windows on it."""
        found = {}
        for i in range(self.n_states):
            t = Tensor()
            name = self.lib.shim_state(self.handle, ctypes.c_size_t(i), ctypes.byref(t)).decode()
            found[name] = t.array()
        return found

    def reset(self):
        self.lib.shim_reset(self.handle)
