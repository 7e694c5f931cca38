"""The command as a user meets it: usage, and what tells of models: show, passes, opt, prove, report. Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cli/test_looking.py
"""
import ast
import json
import os
import re
import shutil
import subprocess
import unittest
from xml.etree import ElementTree

from case import COMMANDS, DIGITS, FXCC, ROOT, Case, fxcc, npy, read_npy


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


if __name__ == "__main__":
    unittest.main()
