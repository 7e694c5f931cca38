"""The command as a user meets it: options, messages, exit statuses, files left. Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cli/test_cli.py
"""
import ast
import atexit
import io
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FXCC = os.environ.get("FXCC") or str(ROOT / "build" / "release" / "bin" / "fxcc")
DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
COMMANDS = ["compile", "show", "opt", "run", "check", "bench", "watch", "prove", "report", "passes", "cache", "target"]
CACHE = tempfile.mkdtemp(prefix="fxcc-cli-cache-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
os.environ["FXCC_CACHE"] = CACHE


def fxcc(*argv, **kwargs):
    return subprocess.run([FXCC, *map(str, argv)], capture_output=True, timeout=300, **kwargs)


def npy(shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)


def read_npy(data):
    (size,) = struct.unpack("<H", data[8:10])
    body = data[10 + size:]
    return struct.unpack(f"<{len(body) // 4}f", body)


def rewritten(change):
    """digits.pt2 with some entries changed: change(name, data) gives the new data, or None to leave the entry out."""
    out = io.BytesIO()
    with zipfile.ZipFile(DIGITS) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            data = change(info.filename, old.read(info))
            if data is not None:
                new.writestr(zipfile.ZipInfo(info.filename), data)
    return out.getvalue()


def json_changed(change):
    """digits.pt2 whose graph is changed by change(graph module)."""
    def entry(name, data):
        if not name.endswith("models/model.json"):
            return data
        program = json.loads(data)
        change(program)
        return json.dumps(program).encode()
    return rewritten(entry)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="fxcc-cli-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def ok(self, *argv, **kwargs):
        done = fxcc(*argv, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def fails(self, *argv, says, **kwargs):
        """Exit status 1, a message that contains `says`, nothing on standard output."""
        done = fxcc(*argv, **kwargs)
        self.assertEqual(done.returncode, 1, done.stderr.decode(errors="replace"))
        self.assertIn(says, done.stderr.decode(errors="replace"))
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode(errors="replace")

    def refuses(self, data, *says):
        """compile refuses this file, names it, and leaves nothing."""
        path, out = self.dir / "bad.pt2", self.dir / "out"
        path.write_bytes(data)
        text = self.fails("compile", path, "-o", out, says="error:")
        self.assertIn("bad.pt2", text)
        for word in says:
            self.assertIn(word, text)
        self.assertFalse(out.exists() and any(out.iterdir()), "files were left behind")
        return text


class Usage(Case):
    def test_help_and_version(self):
        self.assertIn("compile", self.ok("--help"))
        self.assertRegex(self.ok("--version"), r"^fxcc \d+\.\d+\.\d+\n$")
        for command in COMMANDS:
            self.assertIn("Usage: fxcc " + command, self.ok(command, "--help"))

    def test_man_pages_tell_every_option(self):
        for command in COMMANDS:
            page = (ROOT / "docs" / "man" / f"fxcc-{command}.1").read_text().replace("\\-", "-")
            for option in re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", self.ok(command, "--help"), re.MULTILINE):
                if option not in ("--help", "--usage"):
                    self.assertIn(option, page, command)

    def test_usage_errors_exit_1(self):
        self.assertEqual(fxcc().returncode, 1)
        self.fails("frobnicate", says="expected a command")
        self.fails("compile", says="expected a model")
        self.fails("compile", DIGITS, says="expected -o DIR")
        self.fails("compile", DIGITS, "-o", self.dir, "--weights=zip", says="expected --weights=c, bin or incbin, got 'zip'")
        self.fails("compile", DIGITS, "-o", self.dir, "--threads=none", says="expected a number of threads")
        self.fails("compile", DIGITS, "-o", self.dir, "--dump-after=nonesuch", says="expected the name of a pass, got 'nonesuch'")
        self.fails("compile", DIGITS, DIGITS, "-o", self.dir, says="expected one model")
        self.fails("compile", "--frobnicate", says="unrecognized option")
        self.fails("run", DIGITS, says="expected -o FILE")
        self.fails("run", DIGITS, "-o", "out.txt", says="named .npy or .npz")
        self.fails("check", DIGITS, says="expected --against")
        self.fails("check", DIGITS, "--against=x.npz", "--rtol=-1", says="tolerance")

    def test_unknown_target(self):
        self.fails("compile", DIGITS, "-o", self.dir / "out", "--target=z80", says="z80")
        self.fails("target", "z80", says="z80")

    def test_full_disk_is_noticed(self):
        for argv in (["show", DIGITS], ["opt", DIGITS, "--passes=infer"], ["--help"], ["--version"], ["cache"], ["passes"], ["target", "generic"],
                     ["bench", DIGITS, "--only=jit", "--json", "-n", "1"], ["watch", DIGITS, "--once"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([FXCC, *argv], stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 1, argv)
            self.assertIn(b"error: expected to write to standard output: No space left on device", done.stderr, argv)

    def test_output_folder_that_cannot_be(self):
        (self.dir / "file").write_text("")
        self.fails("compile", DIGITS, "-o", self.dir / "file" / "out", says=str(self.dir / "file"))


class Looking(Case):
    def test_table(self):
        text = self.ok("show", DIGITS)
        self.assertIn("conv2d", text)
        self.assertIn("linear", text)

    def test_text_reads_back(self):
        text = self.ok("show", "--text", DIGITS)
        (self.dir / "digits.fx").write_text(text)
        self.assertEqual(self.ok("show", "--text", self.dir / "digits.fx"), text)

    def test_dot(self):
        text = self.ok("show", "--dot", DIGITS)
        self.assertTrue(text.startswith("digraph"))

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not here")
    def test_svg(self):
        text = self.ok("show", "--svg", DIGITS)
        self.assertEqual(ElementTree.fromstring(text).tag, "{http://www.w3.org/2000/svg}svg")
        for word in ("%conv2d", "op_code=call_function", "aten.conv2d.default", "f32["):
            self.assertIn(word, text)
        self.assertEqual(self.ok("show", "--svg", DIGITS, "-o", self.dir / "d.svg"), "")
        self.assertEqual((self.dir / "d.svg").read_text(), text)

    def test_svg_without_graphviz(self):
        (self.dir / "bin").mkdir()
        self.fails("show", "--svg", DIGITS, "-o", self.dir / "d.svg", says="expected Graphviz's program 'dot' on the PATH",
                   env={**os.environ, "PATH": str(self.dir / "bin")})
        (self.dir / "bin" / "dot").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        (self.dir / "bin" / "dot").chmod(0o755)
        self.fails("show", "--svg", DIGITS, "-o", self.dir / "d.svg", says="got exit status 3: broken",
                   env={**os.environ, "PATH": f"{self.dir / 'bin'}:/bin:/usr/bin"})
        self.assertFalse((self.dir / "d.svg").exists())

    def test_code(self):
        text = self.ok("show", "--code", DIGITS)
        ast.parse(text)
        self.assertIn("import torch\n", text)
        self.assertRegex(text, r"conv2d = torch\.ops\.aten\.conv2d\.default\(.*\);  .* = None\n")

    def test_readable(self):
        text = self.ok("show", "--readable", DIGITS)
        ast.parse(text)
        self.assertRegex(text, r'conv2d: "f32\[1, \d+, 8, 8\]" = torch\.ops\.aten')

    def test_tabular(self):
        lines = self.ok("show", "--tabular", DIGITS).splitlines()
        self.assertEqual(lines[0].split(), ["opcode", "name", "target", "args", "kwargs"])
        self.assertRegex(lines[2], r"^placeholder +\w+ +\w+ +\(\) +\{\}$")

    def test_json(self):
        graph = json.loads(self.ok("show", "--json", DIGITS))
        self.assertEqual(graph["format"], "fxcc graph")
        self.assertIn("aten.conv2d.default", [n["target"] for n in graph["nodes"]])

    def test_one_form(self):
        self.fails("show", "--text", "--dot", DIGITS, says="expected one form, got --text and --dot")
        self.fails("show", "--json", "--svg", DIGITS, says="expected one form")
        self.fails("show", "--code", DIGITS, "-o", "a", "-o", "b", says="expected one --output")
        self.ok("show", "--text", "--text", DIGITS)

    def test_output_file(self):
        self.assertEqual(self.ok("show", DIGITS, "-o", self.dir / "table.txt"), "")
        self.assertEqual((self.dir / "table.txt").read_text(), self.ok("show", DIGITS))
        self.fails("show", DIGITS, "-o", self.dir / "none" / "table.txt", says=str(self.dir / "none" / "table.txt"))
        self.assertEqual(self.ok("show", DIGITS, "-o", "/dev/stdout"), self.ok("show", DIGITS))
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["table.txt"])

    def test_program(self):
        self.assertIn("conv2d", self.ok("show", "--program", DIGITS))

    def test_passes(self):
        names = [line.split()[0] for line in self.ok("passes", "--lowering").splitlines()]
        self.assertIn("memory", names)
        for name in names:
            self.assertTrue(self.ok("compile", DIGITS, f"--stop-after={name}", f"--dump-after={name}"), name)
        self.assertTrue(self.ok("compile", DIGITS, "-o", self.dir / "out", "--dump-before=fold"))
        text = self.ok("compile", DIGITS, "-o", self.dir / "out", "--time-passes")
        for name in names:
            self.assertIn(name, text)

    def test_passes_of_graphs(self):
        names = self.ok("passes", "--graph").split()
        self.assertIn("eliminate_dead_code", names)
        text = self.ok("passes")
        document = (ROOT / "docs" / "passes.md").read_text()
        for name in names:
            self.assertRegex(text, rf"(?m)^  {name} +\S")
            self.assertTrue(f"**{name}**" in document, f"docs/passes.md says nothing of {name}")
        self.assertIn("memory", text)

    def test_stop_emits_nothing(self):
        self.ok("compile", DIGITS, "-o", self.dir / "out", "--stop-after=fold")
        self.assertFalse((self.dir / "out").exists())


class Passes(Case):
    GRAPH = """graph "net" captured
module conv : torch.nn.modules.conv.Conv2d(in_channels=1, out_channels=1, kernel_size=1)
parameter conv.weight : f32[1, 1, 1, 1] = [2.0]
parameter conv.bias : f32[1] = [1.0]
module bn : torch.nn.modules.batchnorm.BatchNorm2d(num_features=1, eps=0.0)
parameter bn.weight : f32[1] = [3.0]
parameter bn.bias : f32[1] = [0.0]
buffer bn.running_mean : f32[1] = [0.0]
buffer bn.running_var : f32[1] = [1.0]
module drop : torch.nn.modules.dropout.Dropout

%x : f32[1, 1, 2, 2] = placeholder[x]
%conv = call_module[conv](%x)
%bn = call_module[bn](%conv)
%drop = call_module[drop](%bn)
%relu = call_method[relu](%drop)
output(%relu)
"""

    def setUp(self):
        super().setUp()
        self.model = self.dir / "net.fx"
        self.model.write_text(self.GRAPH)

    def test_text_comes_out(self):
        text = self.ok("opt", self.model, "--passes=fuse_conv_bn,remove_dropout")
        self.assertIn("parameter conv.weight : f32[1, 1, 1, 1] = [6.0]", text)
        self.assertIn("parameter conv.bias : f32[1] = [3.0]", text)
        self.assertNotIn("bn", text)
        self.assertNotIn("drop", text)
        (self.dir / "out.fx").write_text(text)
        self.assertEqual(self.ok("opt", self.dir / "out.fx", "--passes=fuse_conv_bn"), text)

    def test_log_and_time_are_comments(self):
        text = self.ok("opt", self.model, "-p", "fuse_conv_bn, remove_dropout", "--log", "--time", "--dump-after=fuse_conv_bn")
        self.assertIn("// fuse_conv_bn: 'conv': fused batch norm 'bn' into its weights\n", text)
        self.assertIn("// remove_dropout: 'drop': removed: dropout of 'conv'\n", text)
        self.assertRegex(text, r"// time remove_dropout +[0-9.]+ ms, 1 changes, 4 nodes then\n")
        self.assertIn("// after fuse_conv_bn\n", text)
        self.assertNotIn("// after remove_dropout", text)

    def test_costs_are_told_where_they_stand(self):
        text = self.ok("opt", self.model, "--passes=count,fuse_conv_bn,remove_dropout,fuse_conv_relu,count", "--log")
        costs = [line for line in text.splitlines() if line.startswith("// count:")]
        self.assertEqual(costs, [
            "// count: 20 flops, 4 parameters, 24 bytes of weights, 32 bytes of activations at most",
            "// count: 12 flops, 2 parameters, 8 bytes of weights, 32 bytes of activations at most"])
        self.assertIn("// fuse_conv_relu: 'conv': 'conv' and the ReLU 'relu' became one torch.ao.nn.intrinsic.ConvReLU2d\n", text)
        (self.dir / "operators.fx").write_text(self.ok("opt", self.model, "--passes=fuse_conv_bn,remove_dropout,legalize,remove_dropout"))
        text = self.ok("opt", self.dir / "operators.fx", "--passes=fuse_conv_relu,count", "--log")
        self.assertIn("// fuse_conv_relu: layers with a ReLU that are calls of operators and have no module to fuse: 1; nothing to do", text)
        self.assertIn(costs[1], text)

    def test_file_comes_out_and_runs(self):
        (self.dir / "x.npy").write_bytes(npy((1, 1, 2, 2), [1.0, -1.0, 0.5, 0.0]))
        out = self.dir / "out.fx"
        self.assertEqual(self.ok("opt", self.model, "--passes=fuse_conv_bn,remove_dropout,legalize", "-o", out), "")
        for model, name in ((self.model, "a.npy"), (out, "b.npy")):
            self.ok("run", "--interpret", model, self.dir / "x.npy", "-o", self.dir / name)
        self.assertEqual(read_npy((self.dir / "a.npy").read_bytes()), (9.0, 0.0, 6.0, 3.0))
        self.assertEqual(read_npy((self.dir / "b.npy").read_bytes()), (9.0, 0.0, 6.0, 3.0))

    def test_weights_lie_beside(self):
        out = self.dir / "digits.fx"
        self.ok("opt", DIGITS, "--passes=fuse_conv_bn,fold_constants,common_subexpressions,eliminate_dead_code", "-o", out)
        self.assertTrue((self.dir / "digits.safetensors").exists())
        self.assertNotIn("batch_norm", self.ok("show", out))

    def test_errors_leave_no_file(self):
        out = self.dir / "out.fx"
        for passes, message in (("fuse_conv_bnn", "did you mean 'fuse_conv_bn'?"), ("infer(x=1)", "no option 'x'"),
                                ("functionalize", "run legalize first"), ("infer(inputs=f32[1])", "conv")):
            self.fails("opt", self.model, f"--passes={passes}", "-o", out, says=message)
            self.assertFalse(out.exists())
        self.fails("opt", self.model, says="expected --passes")
        self.fails("opt", "--passes=infer", says="expected a model")
        self.fails("opt", self.model, "--passes=infer", "--dump-after=x", says="expected the name of a pass or 'all'")
        self.fails("opt", self.model, "--passes=infer", "-o", self.dir / "out.txt", says="out.txt")
        self.assertFalse((self.dir / "out.txt").exists())


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


class Proving(Case):
    def test_each_loop_and_call_has_a_line(self):
        lines = self.ok("prove", DIGITS).splitlines()
        program = self.ok("compile", DIGITS, "--stop-after=prove", "--dump-after=prove", "-o", self.dir / "out")
        calls = re.findall(r"^    call (\w+) (\w+)\(", program, re.MULTILINE)
        self.assertTrue(calls)
        for kernel, step in calls:
            self.assertTrue(any(line.startswith(f"proved    {step}: call {kernel}: arguments within their buffers") for line in lines), step)
        loops = len(re.findall(r"^    for ", program, re.MULTILINE))
        self.assertEqual(sum(": for " in line for line in lines), loops)
        self.assertTrue(any("accesses within their buffers" in line and "; by intervals" in line for line in lines))
        self.assertRegex(lines[-2], r"^proved    arena: lives: \d+ buffers: those that live at once lie apart; by intervals")
        self.assertRegex(lines[-1], rf"^{len(lines) - 1} proved, 0 not; \d+\.\d{{3}} ms, isl \d+ queries in \d+\.\d{{3}} ms$")

    def test_quiet(self):
        self.assertEqual(len(self.ok("prove", "-q", DIGITS).splitlines()), 1)

    def test_every_target(self):
        for target in ("generic", "x86_64-avx2", "aarch64", "cortex-m4"):
            self.assertIn(" 0 not;", self.ok("prove", "-q", DIGITS, "--target=" + target, "--unproved=warn"))

    def test_usage_errors(self):
        self.fails("prove", says="expected a model")
        self.fails("prove", DIGITS, "--unproved=perhaps", says="expected --unproved=warn or error, got 'perhaps'")
        self.fails("compile", DIGITS, "-o", self.dir, "--unproved=no", says="expected --unproved=warn or error")
        self.fails("prove", self.dir / "none.pt2", says="none.pt2")


class Reporting(Case):
    ROW = (r"^\| digits \| [\d.]+ k?B \| [\d.]+ k?B \| 1\.\d\d\d \| [\d.]+ kB \| ([\d.]+) kB \| ([\d.]+) kB \| (\d+) \| (\d+) \| "
           r"(\d+)( \([^)]*\))? \| \d+\.\d\d \|$")

    def test_table(self):
        lines = self.ok("report", DIGITS, "-t", "generic").splitlines()
        self.assertEqual(len({line.count("|") for line in lines[:3]}), 1, "the table's rows have as many cells as its head")
        self.assertRegex(lines[2], self.ROW)
        moved, unfused, loops, kernels, copies = re.match(self.ROW, lines[2]).groups()[:5]
        self.assertLess(float(moved), float(unfused))
        self.assertGreaterEqual(int(loops), int(copies))
        self.assertGreater(int(kernels), 0)
        told = [line for line in lines[3:] if line.startswith("digits: ")]
        self.assertEqual(len(told), int(copies), "one line a copy")
        for line in told:
            self.assertRegex(line, r"^digits: \w+, [\d.]+ k?B: \S")

    def test_options_count(self):
        """Without fusion, what is moved is what the other column says."""
        fused = re.match(self.ROW, self.ok("report", DIGITS, "-t", "generic").splitlines()[2])
        apart = re.match(self.ROW, self.ok("report", DIGITS, "-t", "generic", "--disable=fuse,inplace,attention,merge,schedule").splitlines()[2])
        self.assertEqual(apart[1], apart[2])
        self.assertEqual(apart[1], fused[2])

    def test_gpu(self):
        """A row a kernel, sums, JSON; what is for GPUs alone says so."""
        r = json.loads(self.ok("report", DIGITS, "-t", "cuda", "--json"))[0]
        for key in ("launches", "flops", "read", "written", "workspace"):
            self.assertEqual(r[key], sum(k[key] for k in r["kernels"]), key)
        self.assertAlmostEqual(r["ratio"], (r["read"] + r["written"]) / sum(r["least"].values()), places=3)
        text = self.ok("report", DIGITS, "-t", "cuda")
        for k in r["kernels"]:
            self.assertIn(f"| {k['title']} | {k['kernel'] or 'loops'}", text)
        self.assertRegex(text.splitlines()[-1], rf"^\| digits \| {r['launches']} \| .* \| {r['ratio']:.3f} \|$")
        self.assertEqual(len(self.ok("report", DIGITS, DIGITS, "-t", "cuda").splitlines()), 4, "several models: a row each")
        done = fxcc("report", DIGITS, "--json")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--json: expected the target of a GPU", done.stderr)
        done = fxcc("report", self.dir / "none.pt2", "-t", "cuda", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)), (1, [{"model": "none", "kernels": [], "failed": True}]))

    def test_one_model_fails(self):
        (self.dir / "bad.fx").write_text('graph "bad" imported\n\n%x : f32[2] = placeholder[x]\n%y : f32[2] = call_method[what](%x)\noutput((%y,))\n')
        done = fxcc("report", DIGITS, self.dir / "bad.fx", DIGITS)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"call_method 'what' is not supported", done.stderr)
        self.assertEqual(done.stdout.count(b"| digits |"), 2)
        self.assertNotIn(b"Copies", done.stdout)

    def test_usage(self):
        self.fails("report", says="expected models to report on")


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


class OneInput(Case):
    def setUp(self):
        super().setUp()
        r = random.Random(1)
        self.x = [r.random() for _ in range(64)]
        self.input = self.dir / "x.npy"
        self.input.write_bytes(npy((1, 1, 8, 8), self.x))

    def reference(self, scale=1.0):
        """A .npz of the input and the interpreter's output, its first element scaled."""
        self.ok("run", "--interpret", DIGITS, self.input, "-o", self.dir / "y.npy")
        y = list(read_npy((self.dir / "y.npy").read_bytes()))
        y[0] *= scale
        path = self.dir / "ref.npz"
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("x.npy", self.input.read_bytes())
            z.writestr("y.npy", npy((1, 10), y))
        return path


class Running(OneInput):
    def test_run(self):
        self.ok("run", DIGITS, self.input, "-o", self.dir / "y.npy")
        y = read_npy((self.dir / "y.npy").read_bytes())
        self.assertEqual(len(y), 10)
        self.assertTrue(all(map(math.isfinite, y)))
        self.ok("run", DIGITS, self.input, "-o", self.dir / "y.npz")
        with zipfile.ZipFile(self.dir / "y.npz") as z:
            self.assertEqual(z.namelist(), ["output0.npy"])
            self.assertEqual(read_npy(z.read("output0.npy")), y)

    def test_a_npz_with_the_names_of_the_inputs(self):
        model = self.dir / "sub.fx"
        model.write_text("""graph "sub" imported
%a : f32[2] = placeholder[a]
%b : f32[2] = placeholder[b]
%c : f32[2] = call_function[aten.sub.Tensor](%a, %b)
output((%c,))
""")
        def run(*arrays):
            with zipfile.ZipFile(self.dir / "in.npz", "w") as z:
                for name, values in arrays:
                    z.writestr(name + ".npy", npy((2,), values))
            self.ok("run", model, self.dir / "in.npz", "-o", self.dir / "y.npy")
            return read_npy((self.dir / "y.npy").read_bytes())
        self.assertEqual(run(("a", (5, 6)), ("b", (1, 2))), (4, 4))
        self.assertEqual(run(("b", (1, 2)), ("a", (5, 6))), (4, 4))
        self.assertEqual(run(("arr_0", (5, 6)), ("arr_1", (1, 2))), (4, 4))
        self.assertEqual(run(("b", (5, 6)), ("other", (1, 2))), (4, 4))  # not all are names: in order

    def test_wrong_inputs(self):
        out = self.dir / "y.npy"
        self.fails("run", DIGITS, "-o", out, says="expected 1 inputs, got 0")
        self.fails("run", DIGITS, self.input, self.input, "-o", out, says="expected 1 inputs, got 2")
        (self.dir / "w.npy").write_bytes(npy((1, 1, 8, 7), self.x[:56]))
        self.fails("run", DIGITS, self.dir / "w.npy", "-o", out, says="expected float32[1, 1, 8, 8], got float32[1, 1, 8, 7]")
        (self.dir / "t.npy").write_bytes(self.input.read_bytes()[:200])
        self.fails("run", DIGITS, self.dir / "t.npy", "-o", out, says="t.npy")
        self.fails("run", DIGITS, self.dir / "none.npy", "-o", out, says="none.npy")
        self.assertFalse(out.exists())

    def test_check_agrees(self):
        text = self.ok("check", DIGITS, "--against", self.reference())
        self.assertRegex(text, r"0 +float32\[1, 10\] .* ok")

    def test_check_with_layers_agrees(self):
        self.assertIn("nodes agree", self.ok("check", DIGITS, "--against", self.reference(), "--layers"))

    def test_check_differs(self):
        done = fxcc("check", DIGITS, "--against", self.reference(1.5), "--layers")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"DIFFERS", done.stdout)
        self.assertIn(b"the reference interpreter itself departs", done.stdout)
        self.assertEqual(fxcc("check", DIGITS, "--against", self.reference(1.5), "--rtol=1").returncode, 0)

    def test_check_bad_reference(self):
        ref = self.dir / "short.npz"
        with zipfile.ZipFile(ref, "w") as z:
            z.writestr("x.npy", self.input.read_bytes())
        self.fails("check", DIGITS, "--against", ref, says="expected 1 inputs and 1 outputs, got 1 arrays")

    def test_check_without_compiler(self):
        self.fails("check", DIGITS, "--against", self.reference(), says="no-such-cc", env={**os.environ, "CC": "no-such-cc"})

    def test_no_temporary_files_stay(self):
        tmp = self.dir / "tmp"
        tmp.mkdir()
        env = {**os.environ, "TMPDIR": str(tmp)}
        self.ok("check", DIGITS, "--against", self.reference(), env=env)
        self.assertEqual(list(tmp.iterdir()), [])
        slow = self.dir / "slow-cc" # a compiler that a signal finds at work
        slow.write_text("#!/bin/sh\nexec sleep 60\n")
        slow.chmod(0o755)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen([FXCC, "run", "--emit-c", DIGITS, self.input, "-o", self.dir / "z.npy"], env={**env, "CC": str(slow)}, start_new_session=True)
            for _ in range(1000):
                if any(tmp.glob("*/*.h")):
                    break
                time.sleep(0.01)
            self.assertTrue(any(tmp.iterdir()))
            os.killpg(process.pid, number)
            self.assertEqual(process.wait(timeout=60), -number)
            self.assertEqual(list(tmp.iterdir()), [])
        self.assertFalse((self.dir / "z.npy").exists())


class Documents(OneInput):
    """The commands that README.md and docs/jit.md show, run as they are written, on the digits model."""

    def run_commands(self, document, least):
        commands = re.findall(r"^(?:\$ |    )(fxcc (?!COMMAND).*?)(?: +#.*)?$", (ROOT / document).read_text(), re.MULTILINE)
        self.assertGreaterEqual(len(commands), least)
        self.reference().rename(self.dir / "ref.npz")
        shutil.copy(DIGITS, self.dir / "model.pt2")
        env = {**os.environ, "PATH": f"{pathlib.Path(FXCC).resolve().parent}:{os.environ['PATH']}", "FXCC_CACHE": str(self.dir / "kept")}
        for command in commands:
            once = command + " --once" if command.startswith("fxcc watch") else command + " -n 1" if command.startswith("fxcc bench") else command
            done = subprocess.run(once, shell=True, cwd=self.dir, env=env, capture_output=True, text=True, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertIn(f"fxcc {command.split()[1]}", self.ok(command.split()[1], "--help"))

    def test_readme(self):
        self.run_commands("README.md", 12)
        self.assertTrue((self.dir / "out" / "digits.h").exists() and (self.dir / "pruned.pt2").exists())

    def test_jit(self):
        self.run_commands("docs/jit.md", 7)
        self.assertTrue((self.dir / "model.ll").exists() and (self.dir / "y.npy").exists())


class Ways(OneInput):
    """The three ways a model is run: fxcc run, check, bench."""

    def outputs(self, *options, **kwargs):
        out = self.dir / "y.npy"
        self.ok("run", DIGITS, self.input, "-o", out, *options, **kwargs)
        return read_npy(out.read_bytes())

    def test_run_each_way(self):
        wanted = self.outputs("--interpret")
        scale = max(map(abs, wanted))
        for options in ((), ("-O2",), ("-O3", "--no-cache"), ("--threads=1",), ("--emit-c",), ("--disable=fuse,schedule",)):
            got = self.outputs(*options)
            self.assertEqual(len(got), 10)
            self.assertLess(max(abs(a - b) for a, b in zip(got, wanted)), 1e-4 * scale, options)

    def test_run_usage(self):
        out = self.dir / "y.npy"
        self.fails("run", DIGITS, self.input, "-o", out, "-O4", says="expected -O1, -O2 or -O3")
        self.fails("run", DIGITS, self.input, "-o", out, "--disable=none", says="expected parts of lowering to disable")
        self.fails("run", DIGITS, self.input, "-o", out, "--dim=n=3", says="expected the name of a size the model leaves open (there is none)")
        self.fails("run", DIGITS, self.input, "-o", out, "--target=generic", says="expected --emit-c with --target")
        self.fails("run", DIGITS, self.input, "-o", out, "--interpret", "--emit-c", says="expected --interpret or --emit-c, got both")
        self.fails("run", DIGITS, self.input, "-o", out, "--interpret", "-O2", says="expected -O without --interpret")
        self.fails("run", DIGITS, self.input, "-o", out, "--emit-c", f"--debug={self.dir}", says="expected --debug without --emit-c")
        self.fails("run", DIGITS, self.input, "-o", out, "--calls=2", says="expected -o FILE.npz with --calls")
        self.assertFalse(out.exists())

    def test_check_compares_all_ways(self):
        lines = self.ok("check", DIGITS, "--against", self.reference()).splitlines()
        self.assertEqual(lines[0].split()[:3], ["output", "shape", "by"])
        self.assertEqual([re.split(r"\s{2,}", line)[2] for line in lines[1:]], ["jit", "c", "interpreter"])
        self.assertTrue(all(line.endswith("ok") for line in lines[1:]))
        for ways in ("c", "jit", "interpreter", "jit,c"):
            lines = self.ok("check", DIGITS, "--against", self.reference(), f"--only={ways}").splitlines()
            self.assertEqual({re.split(r"\s{2,}", line)[2] for line in lines[1:]}, set(ways.split(",")))
        for wrong in ("cuda", "", "c;jit", ","):
            self.fails("check", DIGITS, "--against", self.reference(), f"--only={wrong}", says="expected --only=WAYS of interpreter, c and jit")
        done = fxcc("check", DIGITS, "--against", self.reference(1.5), "--only=jit", "--layers")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout.decode(), r"(?s)jit +\S+ +\S+ +\S+ +DIFFERS.*jit:\nwith every value kept")

    def test_bench(self):
        text = self.ok("bench", DIGITS, "--only=interpreter,c,jit", "-n", "7", env={**os.environ, "CFLAGS": "-O1"})
        self.assertIn("input 0: float32[1, 1, 8, 8], drawn: -1 to 1, seed 0\n", text)
        self.assertRegex(text, r"(?m)^interpreter +- +[\d.]+ [mu]?s +-")
        for way in ("c", "jit"):
            self.assertRegex(text, rf"(?m)^{way} +[\d.]+ m?s +[\d.]+ [mu]?s +[\d.]+ [mu]?s +[\d.]+ [mu]?s +7 +\d+ B +\d+ B$")
        self.assertNotIn("drawn", self.ok("bench", DIGITS, self.input, "--only=jit", "-n", "2"))

    def test_bench_json(self):
        told = json.loads(self.ok("bench", DIGITS, "--json", "--only=jit", "-n", "11", "--seed=3"))
        self.assertEqual((told["model"], told["inputs"], told["drawn"], told["seed"]), (str(DIGITS), ["float32[1, 1, 8, 8]"], True, 3))
        jit = told["jit"]
        self.assertEqual(jit["runs"], 11)
        self.assertNotIn("c", told)
        self.assertTrue(0 < jit["min_s"] <= jit["median_s"] and jit["compile_s"] > 0 and jit["weights_bytes"] > 1000)

    def test_bench_draws_what_models_take(self):
        model = self.dir / "open.fx"
        model.write_text('''graph "open" imported
symbol n in [3, 9]
parameter t : f32[2, 4] = all 0.5

%i : i64[n] = placeholder[i]
%x : f32[2*n, 4] = placeholder[x]
%h : f16[n] = placeholder[h]
%b : bool[n] = placeholder[b]
%t : f32[2, 4] = get_attr[t]
%e : f32[n, 4] = call_function[aten.embedding.default](%t, %i)
%s : f32[2*n, 4] = call_function[aten.exp.default](%x)
%k : f16[n] = call_function[aten.neg.default](%h)
%l : bool[n] = call_function[aten.logical_not.default](%b)
output((%e, %s, %k, %l))
''')
        text = self.ok("bench", model, "--only=jit", "-n", "1")
        for line in ("input 0: int64[3], drawn: 0 or 1, seed 0", "input 1: float32[6, 4], drawn: -1 to 1, seed 0", "input 2: float16[3]", "input 3: bool[3], drawn: 0 or 1"):
            self.assertIn(line, text)
        self.assertIn("input 1: float32[10, 4]", self.ok("bench", model, "--only=jit", "-n", "1", "--dim=n=5"))

    def test_bench_usage(self):
        self.fails("bench", says="expected a model")
        self.fails("bench", DIGITS, "-n", "0", says="expected a number of runs")
        self.fails("bench", DIGITS, "--only=", says="expected --only=WAYS")
        self.fails("bench", DIGITS, self.input, self.input, "--only=jit", says="expected 1 inputs, or none to draw them, got 2")
        self.fails("bench", self.dir / "none.pt2", says="none.pt2")

    def test_cache(self):
        env = {**os.environ, "FXCC_CACHE": str(self.dir / "kept")}
        self.assertEqual(self.ok("cache", env=env), f"{self.dir}/kept: 0 compiled models, 0.0 MB\n")
        self.outputs(env=env)
        self.assertRegex(self.ok("cache", env=env), r"/kept: 1 compiled model, 0\.\d MB\n$")
        self.outputs(env=env)
        self.outputs("-O2", env=env)
        self.outputs("--no-cache", "-O3", env=env)
        self.assertIn(": 2 compiled models", self.ok("cache", env=env))
        for path in (self.dir / "kept").iterdir(): # a damaged entry is compiled anew, in silence
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        self.outputs(env=env)
        self.assertIn(": 2 compiled models", self.ok("cache", "--clear", env=env))
        self.assertEqual(list((self.dir / "kept").iterdir()), [])
        self.assertIn(": 0 compiled models", self.ok("cache", self.dir / "kept"))
        self.fails("cache", env={**os.environ, "FXCC_CACHE": ""}, says="there is no folder for compiled models")
        self.outputs(env={**os.environ, "FXCC_CACHE": "/dev/null/x"})
        self.fails("cache", "--clear", self.input, says="x.npy: expected a folder")
        self.assertTrue(self.input.exists())


class Llvm(OneInput):
    """Without libLLVM, with another, and that it is not loaded where it is not needed."""

    def without(self, library, *says):
        text = self.fails("run", DIGITS, self.input, "-o", self.dir / "y.npy", says="LLVM 16 to 19 is needed (Debian: apt install libllvm19;",
                          env={**os.environ, "FXCC_LLVM": str(library)})
        for word in says:
            self.assertIn(word, text)
        self.assertFalse((self.dir / "y.npy").exists())

    def test_no_library(self):
        self.without("/nonexistent", "/nonexistent: cannot open shared object file")
        (self.dir / "file.so").write_text("no library\n" * 1000)
        self.without(self.dir / "file.so", "file.so: ", "names a file that is no library to load")
        libc = re.search(r"(/\S*libc\.so\.6)", subprocess.run(["ldd", FXCC], capture_output=True, text=True).stdout)
        self.without(libc[1] if libc else "libc.so.6", "is no libLLVM")

    def test_old_library(self):
        old = [p for v in (11, 13, 14, 15) for p in pathlib.Path("/usr/lib").glob(f"*/libLLVM-{v}.so.1")]
        if not old:
            self.skipTest("no LLVM before 16 is here")
        self.without(old[0], f"is LLVM {old[0].name.split('-')[1].split('.')[0]}: ")

    def test_the_rest_works_without(self):
        env = {**os.environ, "FXCC_LLVM": "/nonexistent"}
        self.ok("run", "--interpret", DIGITS, self.input, "-o", self.dir / "y.npy", env=env)
        self.ok("run", "--emit-c", DIGITS, self.input, "-o", self.dir / "y.npy", env=env)
        done = fxcc("check", DIGITS, "--against", self.reference(), env=env)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"warning: not compared with jit: FXCC_LLVM names a file", done.stderr)
        self.assertNotRegex(done.stdout.decode(), r"(?m)  jit  ")
        self.fails("check", DIGITS, "--against", self.reference(), "--only=jit", says="LLVM 16 to 19 is needed", env=env)

    def test_it_is_loaded_when_needed(self):
        """So `fxcc --help` and what needs no LLVM start in a few milliseconds."""
        def opened(*argv):
            env = {**os.environ, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(self.dir / "debug")}
            subprocess.run([FXCC, *map(str, argv)], env=env, capture_output=True, check=True)
            return b"".join(path.read_bytes() for path in self.dir.glob("debug*"))
        for argv in (("--help",), ("show", DIGITS), ("compile", DIGITS, "-o", self.dir / "out"), ("cache",),
                     ("run", "--interpret", DIGITS, self.input, "-o", self.dir / "y.npy")):
            self.assertNotIn(b"libLLVM", opened(*argv), argv)
        self.assertIn(b"libLLVM", opened("run", DIGITS, self.input, "-o", self.dir / "y.npy"))

    def test_it_starts_in_10_ms(self):
        if re.search(r"lib[ajt]san|ubsan", subprocess.run(["ldd", FXCC], capture_output=True, text=True).stdout) or b"__asan_init" in pathlib.Path(FXCC).read_bytes():
            self.skipTest("built with sanitizers, which take longer to start")
        least = math.inf
        for _ in range(50):
            begin = time.perf_counter()
            process = os.posix_spawn(FXCC, [FXCC, "--version"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
            self.assertEqual(os.waitpid(process, 0)[1], 0)
            least = min(least, time.perf_counter() - begin)
        self.assertLessEqual(least, 0.010)


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


class Debugging(OneInput):
    """What gdb and perf see of a model compiled in memory."""

    def gdb(self, *commands):
        if not shutil.which("gdb"):
            self.skipTest("no gdb")
        if subprocess.run(["gdb", "-nx", "-batch", "-ex", "run", "--args", "true"], capture_output=True, text=True).stdout.find("exited normally") < 0:
            self.skipTest("gdb cannot run a program here")
        argv = ["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "set debuginfod enabled off"]
        for command in commands:
            argv += ["-ex", command]
        done = subprocess.run([*argv, "--args", FXCC, "run", DIGITS, self.input, "-o", self.dir / "y.npy", "--debug", self.dir / "src"],
                              capture_output=True, text=True, timeout=300)
        return done.stdout

    def test_layers_have_names_and_lines(self):
        out = self.gdb("break features.3", "run", "backtrace 2", "list", "info breakpoints")
        text = (self.dir / "src" / "digits.prog").read_text().splitlines()
        step = next(i for i, line in enumerate(text, 1) if line.startswith("step features_3 "))
        self.assertRegex(out, rf"#0 +(0x\w+ in )?features\.3 \(\) at .*digits\.prog:{step + 1}\n")
        self.assertRegex(out, rf"#1 +0x\w+ in digits \(\) at .*digits\.prog:{step}\n")
        self.assertIn(f"{step + 1}\t{text[step]}", out)

    def test_kernels_are_called_from_layers(self):
        out = self.gdb(*(f"break fxrt_{isa}_gemm" for isa in ("generic", "avx2", "avx512", "neon")), "run", "backtrace 3")
        self.assertRegex(out, r"#0 +(0x\w+ in )?fxrt_\w+_gemm ")
        self.assertRegex(out, r"#1 +0x\w+ in classifier \(\) at .*digits\.prog:\d+\n")
        self.assertRegex(out, r"#2 +0x\w+ in digits \(\) at .*digits\.prog:\d+\n")

    def test_same_numbers(self):
        self.ok("run", DIGITS, self.input, "-o", self.dir / "y.npy")
        self.ok("run", DIGITS, self.input, "-o", self.dir / "z.npy", "--debug", self.dir / "src")
        self.assertEqual((self.dir / "y.npy").read_bytes(), (self.dir / "z.npy").read_bytes())
        self.ok("run", DIGITS, self.input, "-o", self.dir / "z.npy", env={**os.environ, "FXCC_JIT_DEBUG": str(self.dir / "env")})
        self.assertEqual((self.dir / "src" / "digits.prog").read_bytes(), (self.dir / "env" / "digits.prog").read_bytes())

    def test_folder_that_cannot_be(self):
        self.fails("run", DIGITS, self.input, "-o", self.dir / "y.npy", "--debug", self.input / "x", says="x.npy/x")
        self.assertFalse((self.dir / "y.npy").exists())

    def test_perf_map(self):
        argv = [FXCC, "run", DIGITS, self.input, "-o", self.dir / "y.npy"]
        for no_cache in ([], ["--no-cache"]):
            done = subprocess.Popen([*argv, *no_cache], env={**os.environ, "FXCC_PERF": "1"})
            self.assertEqual(done.wait(300), 0)
            path = pathlib.Path(f"/tmp/perf-{done.pid}.map")
            lines = [line.split(" ", 2) for line in path.read_text().splitlines()]
            path.unlink()
            names = [name for _, _, name in lines]
            for name in ("digits.fxjit_run", "digits.features_0", "digits.features_3", "digits.classifier"):
                self.assertIn(name, names)
            places = sorted((int(start, 16), int(size, 16)) for start, size, _ in lines)
            for (start, size), (next_start, _) in zip(places, places[1:]):
                self.assertGreater(size, 0)
                self.assertLessEqual(start + size, next_start)
        done = subprocess.Popen(argv)
        self.assertEqual(done.wait(300), 0)
        self.assertFalse(pathlib.Path(f"/tmp/perf-{done.pid}.map").exists())


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
