"""The host part of emitted CUDA: bad input, contexts, graphs, NAME_check.cu, Makefile and CMakeLists. On the host's CUDA (docs/cuda.md), and with
nvcc where it is. Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cuda_emit/test_host.py [Faults|Contexts|Checks|Streams|Builds]
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

from graphs import CASES, graph_of, numbers
from test_emit import FXCC, HERE, HOST_INCLUDE, NVCC, WORK, host_library, run

KEPT = """graph "g" imported
module "" : M
buffer s : f32[2, 40] = all {start}
parameter w : f32[40] = all {factor}

%x : f32[2, 40] = placeholder[x]
%s : f32[2, 40] = get_attr[s]
%w : f32[40] = get_attr[w]
%n : f32[2, 40] = call_function[aten.add.Tensor](%s, %x)
%m : f32[2, 40] = call_function[aten.mul.Tensor](%n, %w)
%c : f32[2, 40] = call_function[aten.copy_.default](%s, %n)
output((%m))
"""
GRAPHS = {c["name"]: c["graph"] for c in CASES}
GRAPHS["open"] = graph_of([("x", "f32[s0, 5]"), ("y", "f32[s0, 3]")], [  # what it keeps between kernels grows with s0
    "a : f32[s0, 8] = cat.default([%x, %y], 1)", "b : f32[s0, 8] = mul.Tensor(%a, 3)", "q : f32[s0, 8] = softmax.int(%a, 1)",
    "t : f32[8, s0] = permute.default(%q, [1, 0])", "c : f32[8, s0] = relu.default(%t)", "d : f32[8*s0] = reshape.default(%b, [sym(8*s0)])"], "%c, %d", symbols="symbol s0 in [0, 1000]\n")
GRAPHS["dense"] = graph_of([("x", "f32[5, 16]")], ["w : f32[8, 16] = get_attr[w]", "b : f32[8] = get_attr[b]", "h : f32[5, 8] = linear.default(%x, %w, %b)",
                                                   "r : f32[5, 8] = relu.default(%h)", "v : f32[8, 8] = get_attr[v]", "y : f32[5, 8] = linear.default(%r, %v)"], "%y",
                           tensors="parameter w : f32[8, 16] = all 0.5\nparameter b : f32[8] = [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\nparameter v : f32[8, 8] = all 0.25\n")
GRAPHS["kept"] = KEPT.format(start=0.5, factor=0.25)
# the same layers after more training
TRAINED = {"embedding": GRAPHS["embedding"].replace("all 0.25", "all 0.75"), "kept": KEPT.format(start=0.25, factor=2.0)}


def emit(name, graph, *options, folder=None):
    folder = WORK / (folder or name)
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / f"{name}.fx"
    model.write_text(graph)
    run(FXCC, "compile", model, "-o", folder, f"--prefix={name}", "--target=cuda", *options)
    return folder


class OnHost(unittest.TestCase):
    """Programs of emitted files and a test's own, by g++."""
    emitted = False

    def setUp(self):
        if not shutil.which("g++"):
            self.skipTest("no g++")
        if OnHost.emitted:
            return
        OnHost.emitted = True
        for name in ("dense", "embedding", "kept", "open"):
            emit(name, GRAPHS[name], "--check")
        for name, graph in TRAINED.items():
            emit(name, graph, folder="trained")

    @staticmethod
    def build(program, sources, *, sanitize=False, races=False, flags_of=None):
        """flags_of: of some sources, more flags. An object that is newer than its source is taken as it is."""
        out = WORK / ("host.sanitize" if sanitize else "host.races" if races else "host.plain")
        launcher = os.environ.get("FXCC_CXX_LAUNCHER", "").split()
        flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-O0" if sanitize else "-O1", "-g1", "-ffp-contract=off", f"-I{WORK}", f"-I{HERE}", f"-I{HOST_INCLUDE}"]
        flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if sanitize else []
        told = ["-fsanitize=thread"] if races else []  # accesses, to the host's CUDA, which the program is linked with in place of that library
        library = host_library("sanitize" if sanitize else "plain")
        out.mkdir(exist_ok=True)
        objects = []
        for source in sources:
            more = (flags_of or {}).get(source, [])
            objects.append(out / f"{source.parent.name}.{source.stem}{''.join(more)}.o")
            if not objects[-1].exists() or objects[-1].stat().st_mtime_ns <= source.stat().st_mtime_ns:
                run(*launcher, "g++", *flags, *told, *more, "-x", "c++", "-c", source, "-o", objects[-1])
        run("g++", *flags, *objects, library, "-ldl", "-lm", "-pthread", "-o", program)

    def models(self):
        return [WORK / name / f"{name}.cu" for name in ("dense", "embedding", "kept", "open")]


class Faults(OnHost):
    def faults(self, *arguments, sanitize=False, flags_of=None):
        weights = (WORK / "embedding" / "embedding.bin").read_bytes()
        for name, data in (("empty", b""), ("torn", weights[:-1]), ("long", weights + b"\0"), ("text", b"these are no weights " * 40)):
            (WORK / f"{name}.bin").write_bytes(data)
        self.build(WORK / "faults", [HERE / "faults.cu", *self.models()], sanitize=sanitize, flags_of=flags_of)
        run(WORK / "faults", *arguments, cwd=WORK)

    def test_plain(self):
        self.faults()

    def test_sanitizers(self):
        self.faults(sanitize=True)

    def test_files_in_pieces(self):
        """As systems without mmap read weights."""
        self.faults("pieces", flags_of={WORK / "embedding" / "embedding.cu": ["-U__unix__", "-U__APPLE__"]})


class Contexts(OnHost):
    def test_contexts(self):
        self.assertNotEqual((WORK / "trained" / "kept.bin").read_bytes(), (WORK / "kept" / "kept.bin").read_bytes())
        self.assertEqual((WORK / "trained" / "kept.cu").read_bytes(), (WORK / "kept" / "kept.cu").read_bytes())
        self.build(WORK / "contexts", [HERE / "contexts.cu", *self.models()])
        run(WORK / "contexts", cwd=WORK)


class Checks(OnHost):
    """NAME_check.cu, for a model with weights in a file, one with state, one with open sizes, one whose vectors are in a file."""

    def program(self, name, graph):
        folder = emit(name, graph, "--check")
        self.build(folder / "check", [folder / f"{name}.cu", folder / f"{name}_check.cu"])
        return folder

    def check(self, folder, *arguments, status=0, says=()):
        """Under all schedules of the host's CUDA where the check should pass, else under one."""
        for schedule in range(7 if status == 0 else 1):
            done = subprocess.run([folder / "check", *arguments], cwd=folder, capture_output=True, text=True, timeout=300,
                                  env=os.environ | {"FXCU_SCHEDULE": str(schedule)})
            self.assertEqual(done.returncode, status, f"schedule {schedule}: {done.stdout}{done.stderr}")
            for word in says:
                self.assertIn(word, done.stdout + done.stderr)

    def test_weights(self):
        folder = self.program("embedding", GRAPHS["embedding"])
        self.check(folder, says=["p: max |difference|", "graph: g: max |difference|", ": ok"])
        self.check(folder, "nowhere", status=1, says=["embedding_check: status 5", "nowhere/embedding.bin: No such file"])
        self.check(folder, ".", "3", status=1, says=["device 3: cudaErrorInvalidDevice"])
        self.check(folder, "../trained", status=1, says=["p: max |difference|", ": FAILED"])
        shutil.copy(WORK / "kept" / "kept.bin", folder / "other")
        (folder / "wrong").mkdir(exist_ok=True)
        shutil.copy(WORK / "kept" / "kept.bin", folder / "wrong" / "embedding.bin")
        self.check(folder, "wrong", status=1, says=["weights of another model"])

    def test_products_and_convolutions(self):
        folder = WORK / "digits"
        run(FXCC, "compile", HERE.parent.parent / "examples" / "digits" / "digits.pt2", "-o", folder, "--prefix=digits", "--target=cuda", "--check")
        self.build(folder / "check", [folder / "digits.cu", folder / "digits_check.cu"])
        self.check(folder, says=["graph: linear: max |difference|"])

    def test_state(self):
        self.check(self.program("kept", GRAPHS["kept"]), says=["call 2: m: max |difference|", "call 2: s: max |difference|"])

    def test_sizes(self):
        self.check(self.program("open", GRAPHS["open"]), says=["graph: d: max |difference|"])

    def test_names(self):
        """Inputs that are called as what NAME_run and the check have."""
        names = ("status pointers here graph nodes failed error attributes some products ctx planned dims at arena weights stream config device p n code must told fetch "
                 "inputs outputs result cudaMemcpyAsync dim3 uint3 float4 atomicMax threadIdx cudaSuccess").split()
        lines = [f"t{i} : f32[s0, 4] = add.Tensor(%{f't{i - 1}' if i else names[0]}, %{name})" for i, name in enumerate(names[1:])]
        lines += ["w : f32[4] = get_attr[w]", f"y : f32[s0, 4] = mul.Tensor(%t{len(names) - 2}, %w)"]
        text = graph_of([(name, "f32[s0, 4]") for name in names], lines, f"%y, %{names[1]}", symbols="symbol s0 in [1, 9]\n",
                        tensors="parameter w : f32[4] = [1.0, 2.0, 3.0, 4.0]\n")
        self.check(self.program("told", text), says=["graph: y: max |difference|"])

    def test_vectors_in_a_file(self):
        folder = self.program("tall", GRAPHS["tall"])
        self.check(folder, says=["graph: a: max |difference|"])
        golden = folder / "tall_golden.bin"
        golden.write_bytes(golden.read_bytes()[:-1])
        self.check(folder, status=1, says=["tall_golden.bin: not of the expected size"])

    def test_a_failing_run(self):
        index = graph_of([("i", "i64[2]")], ["w : f32[2, 8] = get_attr[w]", "e : f32[2, 8] = embedding.default(%w, %i)"], "%e",
                         tensors="parameter w : f32[2, 8] = all 0.25\n")
        folder = self.program("lookup", index)
        self.check(folder)
        source = folder / "lookup_check.cu"
        text = re.sub(r"(in0\[2\] = \{\n\s*)\d+", r"\g<1>2", source.read_text())
        self.assertNotEqual(text, source.read_text())
        source.write_text(text)
        self.build(folder / "check", [folder / "lookup.cu", source])
        self.check(folder, status=1, says=["lookup_check: status 16", "out of range"])


def inception():
    """Two blocks of branches: of three, whose longest has two convolutions, and of two."""
    tensors, lines = "", []

    def conv(name, x, channels, size, relu=True):
        nonlocal tensors
        into = 8
        tensors += numbers(f"w_{name}", into, channels, size, size)
        lines.append(f"w_{name} : f32[{into}, {channels}, {size}, {size}] = get_attr[w_{name}]")
        lines.append(f"c_{name} : f32[1, {into}, 8, 8] = conv2d.default(%{x}, %w_{name}, None, [1, 1], [{size // 2}, {size // 2}])")
        if relu:
            lines.append(f"{name} : f32[1, {into}, 8, 8] = relu.default(%c_{name})")

    conv("stem", "x", 8, 3)
    conv("a1", "stem", 8, 1)
    conv("a2_0", "stem", 8, 1)
    conv("a2_1", "a2_0", 8, 3)
    lines.append("a3_0 : f32[1, 8, 8, 8] = max_pool2d.default(%stem, [3, 3], [1, 1], [1, 1])")
    conv("a3_1", "a3_0", 8, 3)
    lines.append("a : f32[1, 24, 8, 8] = cat.default([%a1, %a2_1, %a3_1], 1)")
    conv("b1", "a", 24, 1)
    conv("b2", "a", 24, 3)
    lines.append("b : f32[1, 16, 8, 8] = cat.default([%b1, %b2], 1)")
    conv("head", "b", 16, 3, relu=False)
    return graph_of([("x", "f32[1, 8, 8, 8]")], lines, "%c_head", tensors=tensors)


class Streams(OnHost):
    """Chains on side streams (lower/streams.c), also where it would not pay."""

    def source(self):
        folder = emit("inception", inception(), "--check", "--disable=pays")
        return folder, (folder / "inception.cu").read_text()

    def test_check(self):
        """What is computed, against the interpreter; as a graph, too."""
        folder, _ = self.source()
        self.build(folder / "check", [folder / "inception.cu", folder / "inception_check.cu"])
        for schedule in range(7):
            run(folder / "check", cwd=folder, env=os.environ | {"FXCU_SCHEDULE": str(schedule)})

    def program(self, **kind):
        """streams.cu: with how many side streams begin in a run, and a convolution on one, whose weights it takes away."""
        _, text = self.source()
        sides = sum(map(int, re.findall(r"inception_fork\(ctx, (\d+), stream\)", text)))
        layer = re.search(r"INCEPTION_CALL_ON\(ctx->side\[\d\], \"(\w+)\", inception_\w+\(weights,", text).group(1)
        weight = re.search(rf"inception_{layer}\(const .*?weights->(\w+)", text, re.DOTALL).group(1)
        self.assertEqual(sides, 3)
        source = WORK / "streams_of_inception.cu"
        source.write_text(f'#define INCEPTION_SIDES {sides}\n#define INCEPTION_TORN {weight}\n#define INCEPTION_TORN_LAYER "{layer}"\n#include "streams.cu"\n')
        self.build(WORK / "streams", [source], **kind)
        run(WORK / "streams", *(["right"] if "races" in kind else []), cwd=WORK)

    def test_plain(self):
        self.program()

    def test_sanitizers(self):
        self.program(sanitize=True)

    def test_races(self):
        self.program(races=True)

    def test_disabled(self):
        for part in ("--disable=streams", ""):  # as here, where each kernel takes less than its launch
            text = (emit("inception", inception(), *filter(None, [part]), folder="one_stream") / "inception.cu").read_text()
            self.assertEqual(re.findall(r"cudaEvent\w+|ctx->side", text), [])


class Builds(unittest.TestCase):
    """Makefile and CMakeLists, with nvcc, for several architectures; no GPU is needed, and what is built says that there is none."""

    def setUp(self):
        if not NVCC:
            self.skipTest("nvcc is not there (CUDA's toolkit; no GPU is needed)")
        self.folder = emit("embedding", GRAPHS["embedding"], "--check", "--arch=75,90", folder="build_embedding")

    def judge(self, program, said):
        """The program, and what its build said: commands with both architectures, and PTX of the newer one."""
        for arch in ("sm_75", "sm_90", "compute_90"):
            self.assertRegex(said, rf"code=\[?(\w+,)*{arch}\b")
        self.assertNotRegex(said, r"code=\[?(\w+,)*compute_75\b")
        done = subprocess.run([program, self.folder], capture_output=True, text=True, timeout=300)
        if done.returncode:  # no GPU here
            self.assertIn("embedding_check: status 7", done.stderr)
            self.assertIn("choosing the device, device 0: cudaError", done.stderr)

    def test_header_is_c(self):
        (self.folder / "use.c").write_text('#include "embedding.h"\nint main(void) { embedding_context *ctx; const embedding_config config = {0}; return embedding_create(&ctx, &config); }\n')
        include = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(NVCC))), "include")
        run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-isystem", include, self.folder / "use.c")

    def test_make(self):
        said = run("make", f"NVCC={NVCC}", "NVCCFLAGS=-O1 -Werror all-warnings", "embedding_check", cwd=self.folder)
        self.judge(self.folder / "embedding_check", said)

    def test_cmake(self):
        if not shutil.which("cmake"):
            self.skipTest("no cmake")
        out = self.folder / "out"
        run("cmake", "-S", self.folder, "-B", out, f"-DCMAKE_CUDA_COMPILER={NVCC}")
        self.judge(out / "embedding_check", run("cmake", "--build", out, "--target", "embedding_check", "--verbose"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
