"""The command as a user meets it: fxcc compile and watch: options, messages, exit statuses, files left. Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cli/test_compiling.py
"""
import io
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zipfile

from case import DIGITS, FXCC, ROOT, Case, fxcc, json_changed, npy, read_npy, rewritten


class Compiling(Case):
    def test_files(self):
        out = self.dir / "out"
        self.assertEqual(self.ok("compile", DIGITS, "-o", out), "")
        self.assertEqual(sorted(f.name for f in out.iterdir()),
                         ["CMakeLists.txt", "Makefile", "digits.c", "digits.h", "digits_weights.c"])
        before = {f.name: f.read_bytes() for f in out.iterdir()}
        self.ok("compile", DIGITS, "-o", out)
        self.assertEqual({f.name: f.read_bytes() for f in out.iterdir()}, before)

    def test_sizes_as_json(self):
        sizes = json.loads(self.ok("compile", DIGITS, "-o", self.dir, "--json", "--prefix=net", "--weights=bin"))
        self.assertEqual(sizes["weights_size"], (self.dir / "net.bin").stat().st_size)
        self.assertIn(f"#define NET_ARENA_SIZE {sizes['arena_size']}\n", (self.dir / "net.h").read_text())
        self.assertLessEqual(sizes["live_size"], sizes["arena_size"])

    def test_golden_check_passes(self):
        for options in ([], ["--weights=bin"], ["--weights=incbin"], ["--target=generic"]):
            out = self.dir / "-".join(options or ["plain"])
            self.ok("compile", DIGITS, "-o", out, "--check", *options)
            done = subprocess.run(["make", "-s", "check"], cwd=out, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_header_serves_cplusplus(self):
        if not shutil.which("g++"):
            self.skipTest("no g++")
        self.ok("compile", DIGITS, "-o", self.dir)
        (self.dir / "use.cpp").write_text('#include "digits.h"\nstatic digits_context c;\nint main() { return digits_run_v(&c, 0, 0) == DIGITS_OK; }\n')
        subprocess.run(["g++", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "use.cpp"], cwd=self.dir, check=True)

    def test_target_file(self):
        (self.dir / "mine.target").write_text(self.target_text())
        self.ok("compile", DIGITS, "-o", self.dir / "out", f"--target={self.dir / 'mine.target'}", "--check")
        subprocess.run(["make", "-s", "check"], cwd=self.dir / "out", check=True, capture_output=True)

    def test_targets_of_gpus(self):
        model, out = self.dir / "relu.fx", self.dir / "out"
        model.write_text('graph "relu" imported\n\n%x : f32[4] = placeholder[x]\n%y : f32[4] = call_function[aten.relu.default](%x)\noutput((%y,))\n')
        flags = json.loads(self.ok("compile", model, "-o", out, "--target=cuda", "--arch=120,sm_80", "--allow-tf32", "--json"))["cflags"]
        self.assertEqual(flags, "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_120,code=sm_120 -gencode arch=compute_120,code=compute_120")
        self.assertIn(f"ARCH ?= {flags}\n", (out / "Makefile").read_text())
        self.assertIn("set(CMAKE_CUDA_ARCHITECTURES 80-real 120)", (out / "CMakeLists.txt").read_text())
        for options, says in ((["--target=cuda", "--arch=80,,90"], "expected architectures of GPUs"), (["--target=cuda", "--arch=90a"], "got '90a'"),
                              (["--target=cuda", "--arch=80,80"], "80 is given twice"), (["--arch=80"], "expected a GPU's target"),
                              (["--target=cuda-sm_90", "--arch=80"], "from the target's on (cuda-sm_90: sm_90), got 80"), (["--allow-tf32"], "expected a GPU's target")):
            self.fails("compile", model, "-o", self.dir / "no", *options, says=says)
            self.assertFalse((self.dir / "no").exists())
        for argv in (["run", model, "x.npy", "-o", "y.npy"], ["run", "--emit-c", model, "x.npy", "-o", "y.npy"],
                     ["check", "--against=x.npz", model], ["bench", "--only=jit", model]):
            self.fails(*argv, "--target=cuda", says="target cuda: expected that of a CPU")

    def test_types_that_a_target_lacks(self):
        model, target = self.dir / "half.fx", self.dir / "small.target"
        model.write_text('graph "half" imported\n\n%x : f32[4] = placeholder[x]\n%y : f16[4] = call_function[aten._to_copy.default](%x, torch.float16, None, None, None, False, None)\n'
                         '%z : f32[4] = call_function[aten._to_copy.default](%y, torch.float32, None, None, None, False, None)\noutput((%z,))\n')
        for types, says in (("all", None), ("f32, f16, bool", None), ("f32, i64", "is of float16, which target mine has not")):
            target.write_text(self.target_text() + f"types = {types}\n")
            if says:
                self.fails("compile", model, "-o", self.dir / "out", f"--target={target}", says=says)
            else:
                self.ok("compile", model, "-o", self.dir / "out", f"--target={target}", "--check")
        self.ok("compile", DIGITS, "-o", self.dir / "out", f"--target={target}")

    @staticmethod
    def target_text():
        return "name = mine\ncflags = -O1\nlanes = 1\nfma = false\nmr = 2\nnr = 4\nl1 = 16384\nl2 = 65536\npointer_bits = 64\nisa = generic\n"


class OpenSizes(Case):
    """A model of two open sizes, whose second input's size follows from the first's."""
    MODEL = """graph "open" imported
symbol rows in [1, 6]
symbol cols in [2, inf]

%x : f32[rows, cols] = placeholder[x]
%w : f32[cols] = placeholder[w]
%y : f32[rows, cols] = call_function[aten.mul.Tensor](%x, %w)
%z : f32[rows] = call_function[aten.sum.dim_IntList](%y, [1])
output((%z,))
"""

    def setUp(self):
        super().setUp()
        self.model = self.dir / "open.fx"
        self.model.write_text(self.MODEL)

    def vectors(self, rows, cols, wrong=0):
        x, w = [(k * 7 % 11) - 5 for k in range(rows * cols)], [k % 3 for k in range(cols)]
        z = [sum(x[r * cols + c] * w[c] for c in range(cols)) for r in range(rows)]
        path = self.dir / f"{rows}x{cols}.npz"
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("x.npy", npy((rows, cols), x))
            out.writestr("w.npy", npy((cols + wrong,), w + [1] * wrong))
            out.writestr("z.npy", npy((rows,), z))
        return path

    def test_check_takes_the_sizes_of_the_inputs(self):
        for rows, cols in ((1, 2), (3, 5), (6, 70)):
            self.assertRegex(self.ok("check", self.model, "--against", self.vectors(rows, cols)), rf"0 +float32\[{rows}\] .* ok")
        self.assertIn("nodes agree", self.ok("check", self.model, "--against", self.vectors(2, 3), "--layers"))
        self.fails("check", self.model, "--against", self.vectors(7, 2), says="the inputs' size rows is 7: expected rows=1..6")
        self.fails("check", self.model, "--against", self.vectors(2, 3, 1), says="input 1 'w': expected float32[3], got float32[4]")

    def test_run(self):
        path = self.vectors(2, 4)
        with zipfile.ZipFile(path) as z:
            for name in ("x.npy", "w.npy"):
                (self.dir / name).write_bytes(z.read(name))
            want = read_npy(z.read("z.npy"))
        self.ok("run", self.model, self.dir / "x.npy", self.dir / "w.npy", "-o", self.dir / "y.npy")
        self.assertEqual(read_npy((self.dir / "y.npy").read_bytes()), want)

    def test_golden_vectors(self):
        for options in ([], ["--golden", str(self.vectors(4, 9))]):
            out = self.dir / f"out{len(options)}"
            self.ok("compile", self.model, "-o", out, "--check", *options)
            done = subprocess.run(["make", "-s", "check"], cwd=out, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("typedef struct open_dims {", (out / "open.h").read_text())

    def test_sizes_are_fixed_and_narrowed(self):
        out = self.dir / "out"
        self.ok("compile", self.model, "-o", out, "--prefix=net", "--dim", "rows=2..4", "--dim", "w:0=8", "--check")
        header = (out / "net.h").read_text()
        self.assertIn("int64_t rows; /* 2 to 4: size 0 of x */\n} net_dims;", header)
        self.assertIn("#define NET_IN1_NUMEL 8\n", header)
        self.ok("compile", self.model, "-o", out, "--prefix=net", "--dim=rows=3", "--dim=cols=5", "--check")
        header = (out / "net.h").read_text()
        self.assertNotIn("dims", header)
        self.assertIn("#define NET_IN0_SHAPE {3, 5}\n", header)
        self.assertEqual(subprocess.run(["make", "-s", "check"], cwd=out, capture_output=True).returncode, 0)
        self.ok("check", self.model, "--against", self.vectors(3, 5), "--dim=rows=3")
        self.fails("check", self.model, "--against", self.vectors(2, 5), "--dim=rows=3", says="an input has not the shape")

    def test_sizes_that_are_told_by_expressions(self):
        model = self.dir / "halves.fx"
        model.write_text("""graph "halves" imported
symbol half in [1, 6]

%x : f32[2*half] = placeholder[x]
%w : f32[3*half + 1] = placeholder[w]
%a : f32[half] = call_function[aten.slice.Tensor](%x, 0, 0, 9223372036854775807, 2)
%b : f32[half] = call_function[aten.slice.Tensor](%w, 0, 1, 9223372036854775807, 3)
%y : f32[half] = call_function[aten.add.Tensor](%a, %b)
output((%y,))
""")
        def vectors(x, w, y):
            path = self.dir / f"{x}_{w}.npz"
            with zipfile.ZipFile(path, "w") as out:
                for name, values in (("x", range(x)), ("w", [5 * i for i in range(w)]), ("y", [2 * i + 5 * (3 * i + 1) for i in range(y)])):
                    out.writestr(f"{name}.npy", npy((len(values),), values))
            return path
        for half in (1, 4, 6):
            self.assertRegex(self.ok("check", model, "--against", vectors(2 * half, 3 * half + 1, half)), rf"0 +float32\[{half}\] .* ok")
        for x, w, says in ((7, 10, "input 0 'x': expected float32[6], got float32[7]"), (6, 13, "input 1 'w': expected float32[10], got float32[13]"),
                           (14, 22, "the inputs' size half is 7: expected half=1..6")):
            self.fails("check", model, "--against", vectors(x, w, 3), says=says)
        out = self.dir / "out"
        self.ok("compile", model, "-o", out, "--prefix=net", "--dim", "w:0=6..16", "--check")
        self.assertIn("int64_t half; /* 2 to 5: size 0 of x is half * 2 */\n} net_dims;", (out / "net.h").read_text())
        self.assertEqual(subprocess.run(["make", "-s", "check"], cwd=out, capture_output=True).returncode, 0)
        self.ok("compile", model, "-o", out, "--prefix=net", "--dim", "x:0=8", "--check")
        self.assertIn("#define NET_IN1_NUMEL 13\n", (out / "net.h").read_text())
        self.fails("compile", model, "-o", out, "--dim", "x:0=9", says="no value of half gives such a size")
        self.fails("compile", model, "-o", out, "--dim", "x:0=14", says="within the model's own range, half=1..6")

    def test_sizes_that_cannot_be(self):
        for spec, says in (("height=3", "a size the model leaves open (rows=1..6, cols=2..)"), ("rows", "then =N or =LO..HI"), ("rows=", "=N or"),
                           ("rows=3..2", "=N or"), ("rows=a", "=N or"), ("rows=7", "within the model's own range, rows=1..6"),
                           ("rows=0..4", "within the model's own range"), ("x:2=3", "a size the model leaves open"), ("q:0=3", "a size the model")):
            self.fails("compile", self.model, "-o", self.dir / "out", "--dim", spec, says=says)
        self.fails("compile", DIGITS, "-o", self.dir / "out", "--dim", "rows=3", says="there is none")

    def test_parts_are_disabled(self):
        for parts in ("fuse", "layout", "inplace,merge", "fuse,layout,inplace,attention,merge,schedule"):
            self.ok("check", self.model, "--against", self.vectors(3, 5), "--disable", parts)
        self.fails("compile", self.model, "-o", self.dir / "out", "--disable=fuse,speed",
                   says="expected parts of lowering to disable (fuse, layout, inplace, attention, merge, schedule, half, streams, pays, winograd), got 'speed'")


class Watching(Case):
    MODEL = '''graph "w" imported
parameter p : f32[3] = [1, 2, 3]

%x : f32[2, 3] = placeholder[x]
%p : f32[3] = get_attr[p]
%y : f32[2, 3] = call_function[aten.mul.Tensor](%x, %p)
%z : f32[2, 3] = call_function[aten.add.Tensor](%y, 1)
output((%z,))
'''

    def setUp(self):
        super().setUp()
        self.model, self.input = self.dir / "w.fx", self.dir / "x.npy"
        self.model.write_text(self.MODEL)
        self.input.write_bytes(npy((2, 3), [1, 2, 3, 4, 5, 6]))

    def start(self, *options):
        process = subprocess.Popen([FXCC, "watch", str(self.model), "--in", str(self.input), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.set_blocking(process.stdout.fileno(), False)
        os.set_blocking(process.stderr.fileno(), False)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def until(self, stream, word):
        """What comes until `word` does, and the rest of its line."""
        text, end = "", time.monotonic() + 60
        while word not in text or not text.endswith("\n"):
            self.assertLess(time.monotonic(), end, f"waiting for {word!r}, got {text!r}")
            text += (stream.read() or b"").decode()
            time.sleep(0.02)
        return text

    def test_changes_are_told(self):
        process = self.start("--count=6", "-o", str(self.dir / "y.npz"))
        self.assertIn("  output 0: float32[2, 3]\n", self.until(process.stdout, "output 0"))
        self.model.write_text(self.MODEL.replace("[1, 2, 3]", "[1, 2, 4]"))
        text = self.until(process.stdout, "output 0")
        self.assertIn("  parameters changed: p\n", text)
        self.assertIn("max abs difference 6\n", text)
        self.assertNotIn("nodes", text)
        self.model.write_text(self.MODEL.replace("%y", "%product"))
        text = self.until(process.stdout, "output 0")
        for line in ("  nodes removed: %y\n", "  nodes added: %product\n", "  nodes changed: %z\n", "  parameters changed: p\n"):
            self.assertIn(line, text)
        self.model.write_text(self.MODEL[:120]) # half written
        text = self.until(process.stderr, "waiting for a change of")
        self.assertIn(f"error: {self.model}: ", text)
        self.model.write_text(self.MODEL.replace("aten.mul.Tensor", "aten.nonesuch.Tensor"))
        self.assertIn("nonesuch", self.until(process.stderr, "waiting for a change of"))
        self.model.write_text(self.MODEL.replace("%z : f32[2, 3] = call_function[aten.add.Tensor](%y, 1)",
                                                 "%z : f32[2] = call_function[aten.sum.dim_IntList](%y, [1])"))
        text = self.until(process.stdout, "output 0")
        self.assertIn("  output 0: float32[2], was float32[2, 3]\n", text)
        self.assertEqual(process.wait(timeout=60), 0)
        with zipfile.ZipFile(self.dir / "y.npz") as z:
            self.assertEqual(read_npy(z.read("output0.npy")), (14.0, 32.0))

    def test_inputs_are_watched_too(self):
        process = self.start("--count=2")
        self.until(process.stdout, "output 0")
        self.input.write_bytes(npy((2, 3), [1, 2, 3, 4, 5, 16]))
        text = self.until(process.stdout, "output 0")
        self.assertIn("the graph and its parameters are as before", text)
        self.assertIn("max abs difference 30\n", text)
        self.assertEqual(process.wait(timeout=60), 0)

    def test_a_file_that_goes_and_comes_back(self):
        process = self.start("--count=3")
        self.until(process.stdout, "output 0")
        self.model.unlink()
        self.until(process.stderr, "expected a file to read")
        other = self.dir / "other"
        other.write_text(self.MODEL)
        other.rename(self.model)
        self.assertIn("max abs difference 0\n", self.until(process.stdout, "output 0"))
        self.assertEqual(process.wait(timeout=60), 0)

    def test_interrupts_end_it(self):
        for sent in (signal.SIGINT, signal.SIGTERM):
            process = self.start()
            self.until(process.stdout, "output 0")
            process.send_signal(sent)
            self.assertEqual(process.wait(timeout=60), 0)

    def test_once(self):
        text = self.ok("watch", self.model, "--once")
        self.assertIn("input 0: float32[2, 3], drawn: -1 to 1, seed 0\n", text)
        self.assertIn("loaded, compiled and run in", text)
        done = fxcc("watch", self.dir / "none.fx", "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"none.fx: expected a file to read", done.stderr)
        self.assertNotIn(b"waiting", done.stderr)
        self.fails("watch", says="expected a model")
        self.fails("watch", self.model, "-o", "y.npy", says="named .npz")
        self.fails("watch", self.model, "--count=0", says="expected a number of runs")
        tmp = self.dir / "tmp"
        tmp.mkdir()
        self.ok("watch", DIGITS, "--once", env={**os.environ, "TMPDIR": str(tmp)})
        self.assertEqual(list(tmp.iterdir()), [])


class Emitting(Case):
    """fxcc compile --emit: what LLVM makes of a model."""

    def emit(self, form, *options):
        path = self.dir / f"digits.{form}"
        self.assertEqual(self.ok("compile", DIGITS, f"--emit={form}", "-o", path, *options), "")
        return path

    def test_forms(self):
        ir = self.emit("llvm-ir", "-O2").read_text()
        for piece in (r"target triple = ", r"define .*i32 @fxjit_run\(", r"define .*i64 @fxjit_run_arena_size\(",
                      r"define internal .*void @step\.features_3\(", r"declare .*void @fxrt_"):
            self.assertRegex(ir, piece)
        self.assertNotIn("alloca i32", ir)  # passes have been over it
        asm = self.emit("asm").read_text()
        for piece in (".globl\tfxjit_run\n", "fxjit_run_arena_size:", "step.features_3:"):
            self.assertIn(piece, asm)
        self.assertEqual(self.emit("obj").read_bytes()[16:18], b"\x01\x00")  # ET_REL

    def test_tools_accept_them(self):
        ir, asm, obj = self.emit("llvm-ir"), self.emit("asm"), self.emit("obj", "--prefix=net")
        nm = subprocess.run(["nm", obj], check=True, capture_output=True, text=True).stdout
        self.assertRegex(nm, r" T net_run\n")
        self.assertRegex(nm, r" T net_run_arena_size\n")
        self.assertRegex(nm, r" t step\.features_3\n")
        self.assertRegex(nm, r" U fxrt_\w+_conv2d\n")
        cc = os.environ.get("CC", "cc").split()
        subprocess.run([*cc, "-x", "assembler", "-c", asm, "-o", self.dir / "asm.o"], check=True)
        assembler = next((a for a in ("llvm-as-19", "llvm-as-16", "llvm-as") if shutil.which(a)), None)
        if not assembler or assembler == "llvm-as":  # one of another version may not read it
            self.skipTest("no llvm-as-19 or llvm-as-16: the text of LLVM was not read back")
        subprocess.run([assembler, ir, "-o", os.devnull], check=True)

    def test_object_links_and_runs(self):
        """As the man page says: an array of inputs and outputs, one of weights by the places fxcc show tells, libfxrt."""
        obj = self.emit("obj", "--threads=1", "--prefix=net")
        self.ok("compile", DIGITS, "-o", self.dir, "--weights=bin", "--threads=1")
        program = self.ok("show", DIGITS, "--program", "--threads=1")
        places = [int(m) for m in re.findall(r"^buffer \w+ : weight .*? offset=(\d+)", program, re.MULTILINE)]
        (self.dir / "main.c").write_text(
            """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int32_t net_run(void *const *io, const void *const *weights, unsigned char *arena, unsigned char *state, const int64_t *symbols);
int64_t net_run_arena_size(const int64_t *symbols);
static const long places[] = {%s};
static _Alignas(64) unsigned char blob[1 << 20];
int main(void)
{
    float x[64], y[10];
    void *io[] = {x, y};
    const void *weights[sizeof places / sizeof *places];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        weights[i] = blob + places[i];
    FILE *f = fopen("digits.bin", "rb");
    if (!f || fread(blob, 1, sizeof blob, f) < 1000 || fread(x, 4, 64, stdin) != 64)
        return 2;
    unsigned char *arena = aligned_alloc(64, (size_t)(net_run_arena_size(NULL) + 63) / 64 * 64);
    if (net_run(io, weights, arena, NULL, NULL) != 0)
        return 3;
    free(arena);
    return fwrite(y, 4, 10, stdout) != 10;
}
""" % ", ".join(map(str, places)))
        link = os.environ.get("FXCC_LINK", "cc -fopenmp").split()
        libfxrt = os.environ.get("FXCC_LIBFXRT") or str(ROOT / "build" / "release" / "runtime" / "libfxrt.a")
        subprocess.run([*link, "main.c", obj, libfxrt, "-lm", "-o", "main"], cwd=self.dir, check=True)
        r = random.Random(2)
        x = struct.pack("<64f", *(r.random() for _ in range(64)))
        y = subprocess.run(["./main"], cwd=self.dir, input=x, capture_output=True, check=True).stdout
        (self.dir / "x.npy").write_bytes(npy((1, 1, 8, 8), struct.unpack("<64f", x)))
        self.ok("run", DIGITS, self.dir / "x.npy", "-o", self.dir / "y.npy", "--threads=1")
        self.assertEqual(struct.unpack("<10f", y), read_npy((self.dir / "y.npy").read_bytes()))

    def test_usage(self):
        out = self.dir / "x"
        self.fails("compile", DIGITS, "--emit=elf", "-o", out, says="expected --emit=c, llvm-ir, asm or obj, got 'elf'")
        self.fails("compile", DIGITS, "--emit=obj", says="expected -o FILE")
        self.fails("compile", DIGITS, "--emit=obj", "-O4", "-o", out, says="expected -O1, -O2 or -O3, got '-O4'")
        self.fails("compile", DIGITS, "-O2", "-o", out, says="with -O")
        for option in ("--target=generic", "--check", "--golden=x.npz", "--json", "--weights=c", "--link-runtime", "--stop-after=memory"):
            self.fails("compile", DIGITS, "--emit=asm", option, "-o", out, says=f"expected --emit=c with {option.split('=')[0]}, got --emit=asm")
        self.fails("compile", DIGITS, "--emit=obj", "--prefix=a b", "-o", out, says="expected an identifier of C that nothing else has, got 'a b_run'")
        self.fails("compile", DIGITS, "--emit=obj", "--prefix=fxrt_x", "-o", out, says="got 'fxrt_x_run'")
        self.assertFalse(out.exists())
        self.assertEqual(self.ok("compile", DIGITS, "--emit=c", "-o", out), "")

    def test_file_appears_whole_or_not(self):
        self.fails("compile", DIGITS, "--emit=obj", "-o", self.dir / "none" / "x.o", says="x.o")
        self.fails("compile", self.dir / "none.pt2", "--emit=obj", "-o", self.dir / "x.o", says="none.pt2")
        self.assertEqual(list(self.dir.iterdir()), [])


class BadInput(Case):
    def test_no_model(self):
        self.fails("compile", self.dir / "none.pt2", "-o", self.dir / "out", says="none.pt2")
        self.fails("show", self.dir, says=str(self.dir))
        self.refuses(b"")
        self.refuses(b"hello, world\n")
        self.refuses(bytes(random.Random(0).randrange(256) for _ in range(5000)))

    def test_truncated(self):
        data = DIGITS.read_bytes()
        for i in range(40):
            self.refuses(data[:len(data) * i // 40])
        self.refuses(data[:-1])

    def test_missing_entries(self):
        for entry, word in (("models/model.json", "models/NAME.json"), ("data/weights/weight_4", "weight_4"),
                            ("data/weights/model_weights_config.json", "model_weights_config.json")):
            self.refuses(rewritten(lambda name, data: None if name.endswith(entry) else data), word)

    def test_short_weight(self):
        self.refuses(rewritten(lambda name, data: data[:-4] if name.endswith("weight_4") else data), "weight_4")

    def test_corrupt_weight(self):
        """A flipped bit in a weight is found by its checksum."""
        data = bytearray(DIGITS.read_bytes())
        with zipfile.ZipFile(DIGITS) as z:
            name = next(n for n in z.namelist() if n.endswith("weights/weight_4"))
            at = data.find(z.read(name))
        self.assertGreater(at, 0)
        data[at + 100] ^= 1
        self.refuses(bytes(data), "weight_4")

    def test_wrong_json(self):
        for text in (b"", b"{", b"[]", b"{}", b'{"graph_module": 1}', b"\xff\xfe", b"[" * 100000):
            self.refuses(rewritten(lambda name, data: text if name.endswith("models/model.json") else data), "model.json")

    def test_unknown_major_version(self):
        def change(program):
            program["schema_version"]["major"] = 99
        self.refuses(json_changed(change), "99")

    def test_all_unsupported_ops_at_once(self):
        def change(program):
            for node in program["graph_module"]["graph"]["nodes"]:
                node["target"] = node["target"].replace("aten.relu.default", "aten.frobnicate.default") \
                                               .replace("aten.linear.default", "mine.grate.default")
        self.refuses(json_changed(change), "frobnicate", "grate", "3")

    def test_unknown_dtype(self):
        def change(program):
            program["graph_module"]["graph"]["tensor_values"]["conv2d"]["dtype"] = 77
        self.refuses(json_changed(change), "77")

    def test_overflowing_sizes(self):
        def change(program):
            for size in program["graph_module"]["graph"]["tensor_values"]["picture"]["sizes"]:
                size["as_int"] = 1 << 40
        self.refuses(json_changed(change))

    def test_cycle(self):
        def change(program):
            nodes = program["graph_module"]["graph"]["nodes"]
            nodes[0]["inputs"][0]["arg"]["as_tensor"]["name"] = "linear"
        self.refuses(json_changed(change), "linear")


class Names(Case):
    NASTY = ["a/b", "*/ int evil; /*", '"quoted"', "line\nbreak", "int", "while", "π≠3", "x" * 10000, "\\", "??/", "//", "%s%n", "a.b[0]", " "]

    def builds(self, data):
        path, out = self.dir / "m.pt2", self.dir / "out"
        path.write_bytes(data)
        done = fxcc("compile", path, "-o", out, "--check")
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace")[:500])
        for f in out.iterdir():
            self.assertNotIn(b"evil;\n", f.read_bytes())
        for compiler in ("gcc", "clang"):
            if shutil.which(compiler):
                done = subprocess.run([compiler, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                                       *fxcc("target", "--cflags").stdout.decode().split(), *(f.name for f in out.glob("*.c"))],
                                      cwd=out, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr[:2000])
        done = subprocess.run(["make", "-s", "check"], cwd=out, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[:2000])
        shutil.rmtree(out)

    def test_values(self):
        """Every value of the graph gets a nasty name."""
        def change(program):
            graph = program["graph_module"]["graph"]
            names = {n: f"{self.NASTY[i % len(self.NASTY)]}{i if i >= len(self.NASTY) else ''}"
                     for i, n in enumerate(reversed(list(graph["tensor_values"])))}

            def rename(v):
                if isinstance(v, dict):
                    return {names.get(k, k): rename(x) for k, x in v.items()} if v is graph["tensor_values"] else \
                           {k: names.get(x, x) if k == "name" and isinstance(x, str) else rename(x) for k, x in v.items()}
                return [rename(x) for x in v] if isinstance(v, list) else v
            # argument names stay, values change: an argument's "name" is beside "arg"
            for node in graph["nodes"]:
                for argument in node["inputs"]:
                    argument["arg"] = rename(argument["arg"])
                node["outputs"] = rename(node["outputs"])
            graph["inputs"], graph["outputs"] = rename(graph["inputs"]), rename(graph["outputs"])
            graph["tensor_values"] = rename(graph["tensor_values"])
            signature = program["graph_module"]["signature"]
            for side in ("input_specs", "output_specs"):
                signature[side] = rename(signature[side])
        self.builds(json_changed(change))

    def test_frames_and_modules(self):
        def change(program):
            for i, node in enumerate(program["graph_module"]["graph"]["nodes"]):
                nasty = self.NASTY[i % len(self.NASTY)]
                node["metadata"]["stack_trace"] = f'File "{nasty}.py", line 1, in {nasty}\n    x'
                node["metadata"]["nn_module_stack"] = f"L__self__{nasty},{nasty},{nasty}"
        self.assertGreaterEqual(self.nodes(), len(self.NASTY))
        self.builds(json_changed(change))

    @staticmethod
    def nodes():
        with zipfile.ZipFile(DIGITS) as z:
            return len(json.loads(z.read("digits/models/model.json"))["graph_module"]["graph"]["nodes"])

    def test_root_folder(self):
        for nasty in ["9 lives/π", '*/ "\\', "int"]:
            out = io.BytesIO()
            with zipfile.ZipFile(DIGITS) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
                for info in old.infolist():
                    new.writestr(zipfile.ZipInfo(nasty.replace("/", "_") + info.filename[len("digits"):]), old.read(info))
            self.builds(out.getvalue())


if __name__ == "__main__":
    unittest.main()
