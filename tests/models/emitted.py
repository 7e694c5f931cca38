"""Compiles a model with fxcc, builds its C, loads and runs it through ctypes. Used by the whole-model tests and by bench/.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
GUARD = 4096  # bytes behind the arena that must stay as they are

# Tells what only the emitted header knows: sizes, and net_init and net_run under fixed names.
SHIM = r"""
#include <stddef.h>
#include "net.h"
size_t shim_size(int what);
int shim_init(void *context, const void *weights, size_t size, void *arena, size_t arena_size);
int shim_run(const void *context, const void *const *in, void *const *out);
const char *shim_status(int status);
size_t shim_size(int what)
{
    switch (what) {
    case 0: return sizeof(net_context);
    case 1: return NET_ARENA_SIZE;
    case 2: return NET_ARENA_ALIGN;
    case 3: return NET_WEIGHTS_SIZE;
    case 4: return NET_STACK_SIZE;
    case 5: return NET_INPUTS;
    default: return NET_OUTPUTS;
    }
}
int shim_init(void *context, const void *weights, size_t size, void *arena, size_t arena_size)
{
    return net_init((net_context *)context, weights, size, arena, arena_size);
}
int shim_run(const void *context, const void *const *in, void *const *out)
{
    return net_run_v((const net_context *)context, in, out);
}
const char *shim_status(int status)
{
    return net_status_string(status);
}
"""


class Failed(Exception):
    """A command failed; the message is its output."""


def assert_close(got, expected, label="", tolerance=1e-4):
    """Within a part of the largest |expected|; integers exactly."""
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        where = f"{label}{', ' if label else ''}output {i}"
        if b.dtype.kind not in "fc":
            assert (a == b).all(), where
        elif b.size:
            worst, scale = abs(a - b).max(), abs(b).max()
            assert worst <= tolerance * scale, f"{where}: max |difference| {worst:.3g}, max |reference| {scale:.3g}"


def command(argv, **kwargs):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode:
        raise Failed(f"{' '.join(str(a) for a in argv)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def fxcc():
    return os.environ.get("FXCC") or str(ROOT / "build" / "release" / "bin" / "fxcc")


def libfxrt():
    return os.environ.get("FXCC_LIBFXRT") or str(ROOT / "build" / "release" / "runtime" / "libfxrt.a")


def emit(model, folder, *options, target="native", weights="bin"):
    """Runs fxcc compile; returns its sizes, and the seconds it took as "seconds"."""
    start = time.monotonic()
    text = command([fxcc(), "compile", model, "-o", folder, "--prefix=net", f"--target={target}", f"--weights={weights}", "--json", *options])
    return json.loads(text.strip().splitlines()[-1]) | {"seconds": time.monotonic() - start}


def build(folder, sizes, compiler="gcc", out="net.so", flags=(), link=(), shim=SHIM):
    """Builds the emitted C, strictly, into a shared object; returns its path."""
    folder = pathlib.Path(folder)
    (folder / "shim.c").write_text(shim)
    command([compiler, *STRICT, "-O2", *sizes["cflags"].split(), *flags, "-fPIC", "-shared", "-o", out, "net.c", "shim.c", *link, "-lm"], cwd=folder)
    return folder / out


def aligned(size, align):
    """A byte array whose first byte lies at a multiple of align."""
    block = numpy.empty(size + align, numpy.uint8)
    shift = -block.ctypes.data % align
    return block[shift:shift + size]


class Net:
    """A built model, ready to run."""

    def __init__(self, so, weights):
        self.lib = ctypes.CDLL(str(so))
        self.lib.shim_size.restype = ctypes.c_size_t
        self.lib.shim_status.restype = ctypes.c_char_p
        for name in ("context_size", "arena_size", "arena_align", "weights_size", "stack_size", "n_inputs", "n_outputs"):
            setattr(self, name, self.lib.shim_size(["context_size", "arena_size", "arena_align", "weights_size", "stack_size", "n_inputs",
                                                    "n_outputs"].index(name)))
        data = numpy.fromfile(weights, numpy.uint8)
        self.weights = aligned(data.size, 64)
        self.weights[:] = data
        self.arena = aligned(self.arena_size + GUARD, max(self.arena_align, 64))
        self.context = aligned(self.context_size, 64)
        self.arena[:] = 0
        self.check(self.lib.shim_init(self.pointer(self.context), self.pointer(self.weights), ctypes.c_size_t(self.weights.size),
                                      self.pointer(self.arena), ctypes.c_size_t(self.arena_size)))

    @staticmethod
    def pointer(array):
        return ctypes.c_void_p(array.ctypes.data)

    def check(self, status):
        if status:
            raise Failed(f"emitted code returned {status}: {self.lib.shim_status(status).decode()}")

    def bind(self, inputs, outputs):
        """Pointer arrays for run_bound: what a timing loop reuses."""
        pointers = [(ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)) for arrays in (inputs, outputs)]
        return *pointers, (inputs, outputs)

    def run_bound(self, bound):
        self.check(self.lib.shim_run(self.pointer(self.context), bound[0], bound[1]))

    def run(self, inputs, like):
        """Outputs for inputs; `like` gives their shapes."""
        inputs = [numpy.ascontiguousarray(a) for a in inputs]
        outputs = [numpy.full(a.shape, numpy.nan if a.dtype.kind == "f" else 0, a.dtype) for a in like]
        self.run_bound(self.bind(inputs, outputs))
        return outputs

    def painted(self, inputs, like):
        """Runs twice on an arena of different paint: the outputs, and the number of bytes up to the highest one touched."""
        touched = numpy.zeros(self.arena.size, bool)
        for paint in (0x5A, 0xC3):
            self.arena[:] = paint
            outputs = self.run(inputs, like)
            touched |= self.arena != paint
        if touched[self.arena_size:].any():
            raise Failed(f"emitted code wrote {numpy.flatnonzero(touched)[-1] + 1 - self.arena_size} bytes behind its arena")
        return outputs, int(numpy.flatnonzero(touched)[-1]) + 1 if touched.any() else 0


STACK_FLAGS = ["-fcallgraph-info=su"]  # for build(), with gcc, before deepest_stack()


def deepest_stack(folder):
    """Bytes of stack of the deepest chain of calls from net_run, by the call graph that gcc wrote when building."""
    folder = pathlib.Path(folder)
    text = next(folder.glob("*-net.ci")).read_text()
    frames = {t: int(n) for t, n in re.findall(r'node: { title: "([^"]*)" label: "[^"]*\\n(\d+) bytes \((?:static|dynamic,bounded)\)', text)}
    if "(dynamic)" in text:
        raise Failed("emitted code uses a stack frame of unknown size")
    calls = {}
    for a, b in re.findall(r'edge: { sourcename: "([^"]*)" targetname: "([^"]*)"', text):
        calls.setdefault(a, set()).add(b)
    known = {}

    def depth(f):
        if f not in known:
            known[f] = 0  # a recursion would be a fault of its own; C functions outside the file count 0
            known[f] = frames.get(f, 0) + max((depth(g) for g in calls.get(f, ())), default=0)
        return known[f]

    return max((depth(f) for f in frames if f.endswith("net_run") or f.endswith("net_run_v")), default=0)
