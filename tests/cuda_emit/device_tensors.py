"""A part of test_nvrtc.py, run with the stand-ins for CUDA's libraries in front: fxcc.compile(target="cuda") on memory of the host and of the device. Python's
own library only. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE."""
import array
import ctypes
import sys
from ctypes import POINTER, PYFUNCTYPE, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, pointer, py_object

import fxcc

cuda = ctypes.CDLL("libcuda.so.1")
context = c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 and cuda.cuCtxPushCurrent_v2(context) == 0
stream = c_void_p()
assert cuda.cuStreamCreate(byref(stream), 1) == 0  # non-blocking: nothing waits for it by itself
ids = {}


class DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Managed(Structure):
    _fields_ = [("t", DLTensor), ("manager", c_void_p), ("deleter", c_void_p)]


class ManagedVersioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("t", DLTensor)]


class Device:
    """float32s on the device."""

    def __init__(self, values, shape, strides=None):
        self.shape, self.n = tuple(shape), len(values)
        self.strides = strides
        self.at = c_void_p()
        assert cuda.cuMemAlloc_v2(byref(self.at), c_size_t(4 * max(self.n, 1))) == 0
        self.set(values)

    def set(self, values):
        assert cuda.cuMemcpyHtoDAsync_v2(self.at, (ctypes.c_float * self.n)(*values), c_size_t(4 * self.n), None) == 0
        assert cuda.cuStreamSynchronize(None) == 0

    def values(self):
        out = (ctypes.c_float * self.n)()
        assert cuda.cuMemcpyDtoHAsync_v2(out, self.at, c_size_t(4 * self.n), stream) == 0
        assert cuda.cuStreamSynchronize(stream) == 0
        return list(out)

    def dl(self, offset=0):
        self.sizes = (c_int64 * len(self.shape))(*self.shape)
        self.steps = (c_int64 * len(self.shape))(*self.strides) if self.strides else None
        return DLTensor(self.at.value, 2, 0, len(self.shape), 2, 32, 1, self.sizes, self.steps, offset)

    def __del__(self):
        cuda.cuMemFree_v2(self.at)


class Interface(Device):
    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": "<f4", "data": (self.at.value, False), "version": 3,
                "strides": tuple(4 * s for s in self.strides) if self.strides else None}


class Capsule(Device):
    def __dlpack__(self, stream=None):
        self.managed = Managed(self.dl(), None, None)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


class Shifted(Capsule):
    """Its first element is its memory's second one: at no multiple of 16 bytes."""

    def __init__(self, values, shape):
        super().__init__([0.0, *values], shape)

    def dl(self):
        return super().dl(offset=4)


class Own(Device):
    """As torch's tensors: results are made by its library, and it has a current stream."""
    copies = 0

    def contiguous(self):
        Own.copies += 1
        rows, columns = self.shape
        values = self.values()
        return Own([values[r * self.strides[0] + c * self.strides[1]] for r in range(rows) for c in range(columns)], self.shape)


def allocate(prototype, out, user, error):
    p = prototype.contents
    assert (p.device_type, p.device_id, p.code, p.bits) == (2, 0, 2, 32)
    shape = [p.shape[i] for i in range(p.ndim)]
    n = 1
    for size in shape:
        n *= size
    o = Own([0.0] * n, shape)
    m = ManagedVersioned(1, 0, None, None, 0, o.dl())
    ids[ctypes.addressof(m)] = (o, m)
    out[0] = pointer(m)
    return 0


def to_object(managed, out):
    o, _ = ids.pop(ctypes.addressof(managed.contents))
    ctypes.pythonapi.Py_IncRef(py_object(o))
    out[0] = id(o)
    return 0


def tensor_from(o, out):
    out[0] = o.dl()
    return 0


def current_stream(device_type, device, out):
    assert (device_type, device) == (2, 0)
    out[0] = stream.value
    return 0


class Exchange(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("previous", c_void_p),
                ("allocate", PYFUNCTYPE(c_int, POINTER(DLTensor), POINTER(POINTER(ManagedVersioned)), c_void_p, c_void_p)), ("managed_from", c_void_p),
                ("to_object", PYFUNCTYPE(c_int, POINTER(ManagedVersioned), POINTER(c_void_p))),
                ("tensor_from", PYFUNCTYPE(c_int, py_object, POINTER(DLTensor))), ("stream", PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p)))]


of = dict(Exchange._fields_)
api = Exchange(1, 2, None, of["allocate"](allocate), None, of["to_object"](to_object), of["tensor_from"](tensor_from), of["stream"](current_stream))
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
Own.__dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(api), b"dlpack_exchange_api", None)


def host(values, shape):
    return memoryview(array.array("f", values)).cast("B").cast("f", shape)


def flat(o):
    return [v for row in o.tolist() for v in row] if not isinstance(o, Device) else o.values()


x, y = [i / 4 - 3 for i in range(24)], [2.5 - i / 8 for i in range(24)]
want = [max(a, 0.0) * b for a, b in zip(x, y)]
f = fxcc.compile(sys.argv[1], target="cuda")
assert f.target == "cuda:0" and "cuda:0" in repr(f), repr(f)

assert flat(f(host(x, (4, 6)), host(y, (4, 6)))) == want
for kind in (Interface, Capsule, Shifted):
    assert flat(f(kind(x, (4, 6)), kind(y, (4, 6)))) == want, kind  # results are the host's, as its library makes none
assert flat(f(Interface(x, (4, 6)), host(y, (4, 6)))) == want
a, b = Own(x, (4, 6)), Own(y, (4, 6))
for _ in range(3):
    result = f(a, b)
    assert isinstance(result, Own) and result.shape == (4, 6)
    assert result.values() == want
result = f(a, host(y, (4, 6)))
assert isinstance(result, Own) and result.values() == want
# Other strides: its own dense copy; of who makes none, refused.
turned = Own([x[r * 6 + c] for c in range(6) for r in range(4)], (4, 6), (1, 4))
assert f(turned, b).values() == want and Own.copies == 1
for wrong, words in ((Interface(x, (4, 6), (1, 4)), "input 0 'x': expected dense strides"), (Own(x, (6, 4)), "input 0 'x': expected float32[4, 6]")):
    try:
        f(wrong, b)
        raise SystemExit("not refused")
    except fxcc.ArgumentError as error:
        assert words in str(error), error
for options, words in (({"level": 2}, "target 'cuda' has no option 'level'"), ({}, "expected a number from 0 to 0, got 7")):
    try:
        fxcc.compile(sys.argv[1], target="cuda" if options else "cuda:7", **options)
        raise SystemExit("not refused")
    except fxcc.ArgumentError as error:
        assert words in str(error), error
# A function for the CPU takes none of it.
try:
    fxcc.compile(sys.argv[1])(Capsule(x, (4, 6)), b)
    raise SystemExit("not refused")
except fxcc.ArgumentError as error:
    assert "expected a tensor on the CPU, got one on device cuda" in str(error), error
except fxcc.UnsupportedError:  # built without LLVM
    pass
f.close()
del a, b, result, turned, wrong
print("right")
