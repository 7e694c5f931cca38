"""Emitted CUDA: graphs of plain loops, compiled together by the host's compilers and by nvcc, run on the host's CUDA (docs/cuda.md) under all
schedules, and compared with the reference interpreter. Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cuda_emit/test_emit.py [Host|Races|Nvcc]
"""
import atexit
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

import graphs
import graphs_forms
import graphs_half

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FXCC = os.environ.get("FXCC") or str(ROOT / "build" / "release" / "bin" / "fxcc")
NVCC = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
HOST = ROOT / "tests" / "cuda_host"
HOST_INCLUDE = ROOT / "runtime" / "cuda" / "host"  # its headers
WORK = pathlib.Path(os.environ.get("FXCC_CUDA_EMIT") or tempfile.mkdtemp(prefix="fxcc-cuda-emit-"))
if "FXCC_CUDA_EMIT" not in os.environ:
    atexit.register(shutil.rmtree, WORK, ignore_errors=True)

SYSTEM = ["cublasLt.h", "cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h", "errno.h", "fcntl.h", "math.h", "stdarg.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h", "sys/mman.h",
          "sys/stat.h", "unistd.h"]
#          dtype: NumPy's word, struct's, bytes
TYPES = {"f32": ("<f4", "f", 4), "f64": ("<f8", "d", 8), "i64": ("<i8", "q", 8), "i32": ("<i4", "i", 4), "i16": ("<i2", "h", 2), "i8": ("|i1", "b", 1),
         "u8": ("|u1", "B", 1), "bool": ("|b1", "?", 1), "f16": ("<f2", "e", 2)}

# Of the largest magnitude: four roundings.
ROUNDED = {"f16": 4 * 2.0 ** -11, "bf16": 4 * 2.0 ** -8}


def run(*argv, **kwargs):
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=1200, **kwargs)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, argv))[:300]}: status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-6000:]}")
    return done.stdout


def host_library(kind, compiler="g++"):
    """libfxcu.a, plain or under sanitizers: where ctest made it (FXCC_CUDA_LIBRARIES), or made here."""
    name = {"g++": "gxx", "clang++": "clangxx"}[compiler] + {"plain": "", "sanitize": "_sanitize"}[kind]
    out = pathlib.Path(os.environ.get("FXCC_CUDA_LIBRARIES") or WORK) / name
    run("make", "-s", "-C", HOST, f"CXX={os.environ.get('FXCC_CXX_LAUNCHER', '')} {compiler}".strip(), f"OUT={out}", *(["SANITIZE=1"] if kind == "sanitize" else []), out / "libfxcu.a")
    return out / "libfxcu.a"


def npy(dtype, shape, data):
    header = f"{{'descr': '{TYPES[dtype][0]}', 'fortran_order': False, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def parse_npy(blob):
    """dtype, shape and bytes."""
    n = struct.unpack("<H", blob[8:10])[0]
    head = eval(blob[10:10 + n].decode(), {"__builtins__": {}})  # our own file
    dtype = next(d for d, t in TYPES.items() if t[0] == head["descr"])
    return dtype, head["shape"], blob[10 + n:]


def values_of(dtype, data):
    return list(struct.unpack(f"<{len(data) // TYPES[dtype][2]}{TYPES[dtype][1]}", data))


def compare(label, dtype, got, want, exact):
    """Bits, but for NaNs; or, with functions that the device and the interpreter compute differently, a few units in the last place. exact: or the name
    of a type with fewer bits that results were rounded to, each by itself: sums in other orders, tails that are rounded once; or a number, by which results
    differ at most, of their root mean square."""
    if not isinstance(exact, bool):
        values, expected = values_of(dtype, got), values_of(dtype, want)
        most = ROUNDED[exact] * max(map(abs, expected)) if exact in ROUNDED else exact * math.hypot(*expected) / math.sqrt(len(expected))
        for i, (a, b) in enumerate(zip(values, expected, strict=True)):
            if not abs(a - b) <= most:
                raise AssertionError(f"{label}: element {i}: expected {b}, got {a}")
        return
    for i, (a, b) in enumerate(zip(values_of(dtype, got), values_of(dtype, want), strict=True)):
        if a == b or (a != a and b != b):
            continue
        if not exact and isinstance(a, float) and math.isclose(a, b, rel_tol=4e-6, abs_tol=4e-7):
            continue
        raise AssertionError(f"{label}: element {i}: expected {b}, got {a}")


class Case:
    """A graph and one set of inputs for it."""

    def __init__(self, name, graph, inputs, exact=True, fails="", options=(), calls=None):
        """calls: texts that the emitted file has so often."""
        self.name, self.graph, self.exact, self.fails, self.options, self.calls = name, graph, exact, fails, options, calls or {}
        rng = random.Random(name)
        self.inputs = []
        for dtype, shape, *values in inputs:
            n = math.prod(shape)
            flat = list(values[0]) if values else [self.draw(rng, dtype) for _ in range(n)]
            self.inputs.append((dtype, shape, struct.pack(f"<{n}{TYPES[dtype][1]}", *flat)))
        self.folder = WORK / name

    @staticmethod
    def draw(rng, dtype):
        if dtype in ("f32", "f64", "f16"):
            return rng.choice([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan]) if rng.random() < 0.02 else round(rng.uniform(-4, 4), 3)
        if dtype == "bool":
            return rng.random() < 0.5
        return rng.randint(0, 255) if dtype == "u8" else rng.randint(-100, 100)

    def emit(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        model = self.folder / "model.fx"
        model.write_text(self.graph)
        run(FXCC, "compile", model, "-o", self.folder, f"--prefix={self.name}", "--target=cuda", *self.options)
        text = (self.folder / f"{self.name}.cu").read_text()
        for call, count in self.calls.items():
            if text.count(f"return {call}") != count:
                raise AssertionError(f"{self.name}: expected {count} of {call}, got {text.count(f'return {call}')}")
        for i, (dtype, shape, data) in enumerate(self.inputs):
            (self.folder / f"case.in{i}").write_bytes(data)
            (self.folder / f"in{i}.npy").write_bytes(npy(dtype, shape, data))
        self.expected = []
        if not self.fails:
            run(FXCC, "run", "--interpret", "-o", self.folder / "want.npz", model, *[self.folder / f"in{i}.npy" for i in range(len(self.inputs))])
            with zipfile.ZipFile(self.folder / "want.npz") as z:
                self.expected = [parse_npy(z.read(name)) for name in z.namelist()]

    def out_sizes(self):
        if self.expected:
            return [len(data) for _, _, data in self.expected]
        header = (self.folder / f"{self.name}.h").read_text()
        return [4 * int(n) for n in re.findall(r"_OUT\d+_NUMEL (\d+)", header)]

    def code(self):
        """A block of main that runs it."""
        n = self.name
        dims, prepare = "", ""
        if f"{n}_dims" in (self.folder / f"{n}.h").read_text():
            shapes = ", ".join(f"s{i}" for i in range(len(self.inputs)))
            prepare = "".join(f"            static const int64_t s{i}[] = {{{', '.join(map(str, [*shape, 0]))}}};\n" for i, (_, shape, _) in enumerate(self.inputs))
            prepare += f"            static const int64_t *const shapes[] = {{{shapes}}};\n            {n}_dims dims;\n"
            prepare += f"            if (const int status = {n}_dims_of(&dims, shapes))\n                return status;\n"
            dims = "&dims, "
        const = "" if "const void *const *inputs" not in (self.folder / f"{n}.h").read_text() else "const "
        ins = ", ".join(str(len(data)) for _, _, data in self.inputs)
        outs = ", ".join(map(str, self.out_sizes()))
        return f"""    {{
        using namespace ns_{n};
        const test_model<{n}_context> m = {{"{n}", [](auto **ctx) {{
            {n}_config config = {{}};
            {"" if not (self.folder / f"{n}.bin").exists() else f'config.weights_file = "{n}/{n}.bin";'}
            return {n}_create(ctx, &config);
        }}, {n}_wait, {n}_destroy, {n}_status_string, {n}_error}};
        wrong += test_run<{n}_context>(m, "{n}/case", [](auto *ctx, void *const *in, void *const *out, cudaStream_t stream) {{
{prepare}            return {n}_run_v(ctx, {dims}({const}void *const *)in, out, stream);
        }}, {{{ins}}}, {{{outs}}}, "{self.fails}");
    }}
"""


class Emitted(unittest.TestCase):
    """All cases, emitted once."""
    cases = []

    @classmethod
    def setUpClass(cls):
        if Emitted.cases:
            return
        Emitted.cases = [Case(**c) for c in graphs.CASES + graphs_half.CASES + graphs_forms.CASES]
        for c in Emitted.cases:
            c.emit()
        includes = "".join(f"#include <{h}>\n" for h in SYSTEM)
        models = "".join(f'namespace ns_{c.name} {{\n#include "{c.name}/{c.name}.cu"\n}}\n#undef FXRT_ACT_MASK\n#undef FXRT_CUDA_GEMM_PLANS\n' for c in Emitted.cases)
        (WORK / "models.cu").write_text(includes + models)
        (WORK / "main.cu").write_text('#include "models.cu"\n#include "harness.h"\n\nint main()\n{\n    int wrong = 0;\n' +
                                      "".join(c.code() for c in Emitted.cases) + "    return wrong != 0;\n}\n")

    def host(self, compiler, *, races=False, sanitize=False):
        if not shutil.which(compiler):
            self.skipTest(f"no {compiler}")
        kind = "races" if races else "sanitize" if sanitize else "plain"
        library, program = host_library("sanitize" if sanitize else "plain", compiler), WORK / f"main.{compiler}.{kind}"
        flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O0" if sanitize else "-O1", "-g1", "-ffp-contract=off", f"-I{WORK}", f"-I{HERE}", f"-I{HOST_INCLUDE}"]
        link = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if sanitize else []
        run(compiler, *flags, *link, *(["-fsanitize=thread"] if races else []), "-x", "c++", "-c", WORK / "main.cu", "-o", f"{program}.o")
        run(compiler, *link, f"{program}.o", library, "-ldl", "-lm", "-pthread", "-o", program)
        run(program, cwd=WORK)
        for c in self.cases:
            for i, (dtype, shape, data) in enumerate(c.expected):
                with self.subTest(case=c.name, output=i):
                    compare(f"{c.name}, output {i} {dtype}{list(shape)}", dtype, (c.folder / f"case.out{i}").read_bytes(), data, c.exact)


class Host(Emitted):
    def test_gxx(self):
        self.host("g++")

    def test_clangxx(self):
        self.host("clang++")

    def test_sanitizers(self):
        self.host("g++", sanitize=True)


class Races(Emitted):
    def test_races(self):
        self.host("g++", races=True)


class Nvcc(Emitted):
    """The oldest architecture that CUDA 13 compiles for, and the newest."""

    def compile(self, source, out, *archs):
        if not NVCC:
            self.skipTest("nvcc is not there (CUDA's toolkit; no GPU is needed)")
        run(NVCC, "-std=c++17", "-fmad=false", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror",
            *(o for a in archs for o in ("-gencode", f"arch=compute_{a},code=sm_{a}")), f"-I{WORK}", "-c", source, "-o", WORK / out)

    def test_nvcc(self):
        self.compile(WORK / "models.cu", "models.nvcc.o", 75, 120)

    def test_alone(self):
        """Not included: then nvcc warns of functions that nobody calls."""
        for c in graphs_forms.CASES:
            self.compile(WORK / c["name"] / f"{c['name']}.cu", f"{c['name']}.o", 90)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
