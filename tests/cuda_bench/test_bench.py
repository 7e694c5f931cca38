"""bench/cuda without a GPU: recipes of weights, the run on the host's CUDA with stand-ins for torch and for NVIDIA's tools, what is written of results.
Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cuda_bench/test_bench.py [Recipe|Results|OnHost|Nvcc]
"""
import atexit
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BENCH = ROOT / "bench" / "cuda"
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))
import results  # noqa: E402
import weights  # noqa: E402

loader = importlib.machinery.SourceFileLoader("prepare", str(BENCH / "prepare"))
prepare = importlib.util.module_from_spec(importlib.util.spec_from_loader("prepare", loader))
loader.exec_module(prepare)

NVCC = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
WORK = pathlib.Path(tempfile.mkdtemp(prefix="fxcc-cuda-bench-test-"))
atexit.register(shutil.rmtree, WORK, True)

# A product, and a norm whose weights stay in the text, being constants of the graph.
GRAPHS = {
    "product": """graph "product" imported
parameter w : f32[16, 40] = [{w}]
parameter b : f32[16] = [{b}]

%x : f32[4, 40] = placeholder[x]
%w : f32[16, 40] = get_attr[w]
%b : f32[16] = get_attr[b]
%y : f32[4, 16] = call_function[aten.linear.default](%x, %w, %b)
%z : f32[4, 16] = call_function[aten.relu.default](%y)
output((%z,))
""".format(w=", ".join(["0.5"] * 639 + ["1"]), b=", ".join(["0.5"] * 15 + ["1"])),
    "norm": """graph "norm" imported
parameter s : f32[64] = all 2.0

%x : f32[32, 64] = placeholder[x]
%s : f32[64] = get_attr[s]
%y : f32[32, 64] = call_function[aten._softmax.default](%x, -1, False)
%z : f32[32, 64] = call_function[aten.mul.Tensor](%y, %s)
output((%z,))
""",
}
SHAPES = {"product": ([[4, 40]], [[4, 16]]), "norm": ([[32, 64]], [[32, 64]])}


def run(*argv, **kwargs):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, **kwargs)


def built(folder, library):
    """What prepare makes of the graphs above, but for the modules of torch."""
    folder.mkdir()
    manifest = {"host": bool(library), "rows": 1, "fxcc": "fxcc", "compiler": "g++", "models": {}}
    for name, graph in GRAPHS.items():
        into = folder / name
        into.mkdir()
        text, others = weights.without_values(graph, name, {"w", "b"})
        assert not others
        (into / f"{name}.fx").write_text(text)
        work = WORK / "emit" / name
        work.mkdir(parents=True, exist_ok=True)
        (work / f"{name}.fx").write_text(text)
        weights.write_safetensors(work / f"{name}.safetensors", weights.at_random(text, name, ()))
        prepare.command([prepare.fxcc(), "compile", work / f"{name}.fx", "--target=cuda-sm_90", "--prefix=net", "-o", work])
        for file in ("net.cu", "net.h"):
            shutil.copy(work / file, into)
        ins, outs = SHAPES[name]
        manifest["models"][name] = {"set": "small" if name == "product" else "kernels", "inputs": [["float32", s] for s in ins],
                                    "outputs": [["float32", s] for s in outs], "blas": name == "product", "least_bytes": 1000}
        prepare.build_program(name, into, manifest["models"][name], library)
    prepare.ship_fxcc(folder)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return manifest


class Recipe(unittest.TestCase):
    TEXT = """graph "m" imported
parameter a.weight : f32[2, 2] = [1, 2, 3, 4]
parameter a.big : f32[100] in "m.safetensors" "a.big"
parameter tied : f32[2, 2] shares 0+0 = [1, 2, 3, 4]
buffer pos : i64[1, 100] transient in "m.safetensors" "pos"
buffer count : i64[] = [7]
buffer zeros : f32[9] = all 0.0
%x : f32[2] = placeholder[x]
"""

    def test_only_constants_keep_their_values(self):
        text, others = weights.without_values(self.TEXT, "m", {"a.weight", "a.big", "tied"})
        self.assertEqual(others, ["pos"])
        self.assertIn('parameter a.weight : f32[2, 2] in "m.safetensors" "a.weight"\n', text)
        self.assertIn('parameter tied : f32[2, 2] shares 0+0 in "m.safetensors" "tied"\n', text)
        self.assertIn("buffer count : i64[] = [7]\nbuffer zeros : f32[9] = all 0.0\n", text)
        self.assertEqual(list(weights.wanted(text, "m")), [("a.weight", "f32", [2, 2]), ("a.big", "f32", [100]), ("tied", "f32", [2, 2]), ("pos", "i64", [1, 100])])

    def test_strides_are_refused(self):
        with self.assertRaisesRegex(ValueError, "strides {1, 2}"):
            weights.without_values('parameter w : f32[2, 2]{1, 2} in "m.safetensors" "w"', "m", {"w"})

    def test_safetensors_come_back(self):
        tensors = [("half", "f16", [3], b"abcdef"), ("long", "i64", [2, 1], bytes(range(16))), ("flag", "bool", [], b"\1")]
        path = WORK / "t.safetensors"
        weights.write_safetensors(path, tensors)
        self.assertEqual(sorted(weights.read_safetensors(path)), sorted(tensors))
        self.assertEqual(list(weights.read_safetensors(path, ["flag"])), tensors[2:])
        with self.assertRaisesRegex(ValueError, "long"):
            weights.write_safetensors(path, [("long", "i64", [2], b"1234")])

    def test_another_version_of_a_module_is_told(self):
        text, _ = weights.without_values(self.TEXT, "m", {"a.weight", "a.big", "tied"})
        with self.assertRaisesRegex(ValueError, "no tensor a.weight"):
            weights.of_module(text, "m", {}, {"pos"})

    def test_random_tensors_are_whole(self):
        text, _ = weights.without_values(self.TEXT, "m", {"a.weight", "a.big", "tied"})
        made = {t[0]: t for t in weights.at_random(text, "m", {"pos"})}
        self.assertEqual({n: len(t[3]) for n, t in made.items()}, {"a.weight": 16, "a.big": 400, "tied": 16})
        self.assertTrue(all(v >= 0.5 for v in struct.unpack("<100f", made["a.big"][3])))
        self.assertEqual(struct.unpack("<2q", weights.random_input("int64", [2])), (1, 1))


NCU = """==PROF== Connected to process 1
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","norm","h","net_z(const float *, float *)","1","7","(256, 1, 1)","(9, 1, 1)","0","9.0","Command line profiler metrics","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","82.50"
"0","1","norm","h","net_z(const float *, float *)","1","7","(256, 1, 1)","(9, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","us","1,234.50"
"1","1","norm","h","half","1","7","(256, 1, 1)","(9, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","5"
"""


def told(**more):
    """Results as a machine could give them; the figures are made up."""
    def t(us):
        return {"median_s": us * 1e-6, "min_s": us * 1e-6, "batches": 3, "runs": 1}

    device = {"name": "a made-up device", "gpu": True, "capability": "9.0", "multiprocessors": 10, "memory_bytes": 2**30, "peak_bytes_s": 1e12,
              "cuda_driver": 13000, "cuda_runtime": 13010}
    net = {"set": "models", "least_bytes": 10, "difference": 2e-6, "agrees": True, "graph": "the same bytes", "torch": {"eager": {"difference": 1e-6}},
           "times": {"ours": {"stream": t(90), "graph": t(80)}, "eager": t(300), "inductor": t(120), "inductor_graph": t(100)},
           "steps": [{"name": "conv", "median_s": 3e-6}, {"name": "fc", "median_s": 1e-6}]}
    kernel = {"set": "kernels", "least_bytes": 5 * 10**8, "times": {"ours": {"stream": t(1000), "graph": t(2000)}}}
    return {"date": "2000-01-01T00:00", "device": device, "driver": "1.2", "cublas": "/lib", "prepared": {"fxcc": "fxcc 0", "compiler": "nvcc 0"},
            "parts": {"sanitizer": {"absent": "compute-sanitizer is not on the PATH"}}, "models": {"net": net, "kernel": kernel}} | more


class Results(unittest.TestCase):
    def test_what_was_measured_is_written(self):
        text = results.markdown(told())
        self.assertIn("- a made-up device, compute capability 9.0, 10 multiprocessors, 1 GiB\n- driver 1.2, CUDA 13.0 of the driver, 13.1 of the program\n", text)
        self.assertIn("| net | 90.0 | 80.0 | 300.0 | not measured | 120.0 | 100.0 | 0.80 |", text)
        self.assertIn("Target: at most 0.9 of inductor, the better of stream and graph for both. 1 of 1 reach it.", text)
        self.assertIn("| kernel | 500 | 1,000.0 | 500 | 50% | not measured | not measured | not measured | not measured |", text)
        self.assertIn("1,000 GB/s by the device's clock and bus; 0 of 1 reach it.", text)
        self.assertIn("| net | 2.0e-06 | 1.0e-06 | yes | the same bytes |", text)
        self.assertIn("| `conv` | 3.0 | 75% |", text)
        self.assertIn("- sanitizer: compute-sanitizer is not on the PATH\n", text)
        self.assertIn("## compute-sanitizer\n\nNot run.\n", text)
        self.assertEqual(results.faults(told()), [])

    def test_nothing_is_made_up(self):
        """Of a machine where nothing ran there is no figure but the device's."""
        text = results.markdown(told(models={"net": {"set": "models", "least_bytes": 10}}))
        self.assertEqual(text.count("Not measured."), 3)
        self.assertNotIn("| net |", text)
        self.assertNotIn("reach", text)

    def test_faults_are_told(self):
        wrong = told()
        wrong["models"]["net"] |= {"difference": 0.5, "agrees": False}
        wrong["models"]["kernel"] |= {"failed": ["times: status 1"], "counters_absent": "no permission"}
        wrong["sanitizer"] = {"memcheck": {"net": {"clean": False, "summary": "3 errors"}, "b": {"clean": True, "summary": "0 errors"}}, "racecheck": {"b": {"unknown": "late"}}}
        self.assertEqual(results.faults(wrong), ["net: differs from eager by 0.5 of the largest magnitude", "kernel: times: status 1", "memcheck, net: 3 errors"])
        text = results.markdown(wrong)
        self.assertIn("- memcheck, net: 3 errors", text)
        self.assertIn("- kernel, ncu: no permission", text)
        self.assertIn("| b | 0 errors | late |", text)
        self.assertIn("**no**", text)

    def test_only_a_gpu_is_written_of(self):
        with self.assertRaisesRegex(ValueError, "no device"):
            results.markdown(told(device=None))
        with self.assertRaisesRegex(ValueError, "'host' is no GPU"):
            results.markdown(told(device={"name": "host", "gpu": False}))

    def test_ncu_is_read(self):
        self.assertEqual(results.read_ncu(NCU), [{"name": "net_z", "share": 0.825, "seconds": 0.0012345}])
        self.assertEqual(results.read_ncu("==ERROR== nothing\n"), [])

    def test_report_alone(self):
        (WORK / "results.json").write_text(json.dumps(told()))
        done = run(sys.executable, BENCH / "run", "--report", WORK / "results.json", "--markdown", WORK / "report.md")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((WORK / "report.md").read_text(), results.markdown(told()))


# Stands for a Python that has torch: draws weights, says that all is well, or what the environment tells.
STAND_IN = """#!{python}
import json, os, pathlib, sys, time
sys.path.insert(0, {bench!r})
import weights
if "-c" in sys.argv:
    sys.exit(0)
name, folder = sys.argv[-3], pathlib.Path(sys.argv[-2])
text = (folder / f"{{name}}.fx").read_text()
t = {{"median_s": 2e-3, "min_s": 1e-3, "batches": 3, "runs": 1}}
for line in sys.stdin:
    what = line.split()[0]
    if os.environ.get("LATE") == what:
        time.sleep(60)
    if what == "make":
        weights.write_safetensors(folder / f"{{name}}.safetensors", weights.at_random(text, name, ()))
        (folder / "in0.bin").write_bytes(weights.random_input("float32", [4, 40] if name == "product" else [32, 64]))
        answer = {{"torch": "0.0"}}
    elif what == "compare":
        answer = {{"difference": (0.0 if (folder / "out0.bin").stat().st_size else 1.0) + float(os.environ.get("DIFFERENCE", 0))}}
    elif what == "compile":
        answer = {{"eager": {{"difference": 1e-6}}, "inductor": {{"absent": "no compiler"}}}}
    else:
        answer = {{"eager": t}}
    print(json.dumps({{"error": "broken"}} if os.environ.get("BROKEN") == what else answer), flush=True)
"""
SANITIZER = """#!/bin/sh
tool=$2
while [ "$1" != run ]; do program=$1; shift; done
"$program" "$@" || exit 1
case $tool in
    racecheck) echo "========= RACECHECK SUMMARY: ${RACES:-0} hazards displayed (0 errors, 0 warnings)" ;;
    *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
[ "$tool" != racecheck ] || [ -z "$RACES" ] || exit 9
"""


@unittest.skipUnless(shutil.which("g++"), "no g++")
class OnHost(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepare.command(["make", "-s", "-C", ROOT / "tests" / "cuda_host", f"CXX={os.environ.get('FXCC_CXX_LAUNCHER', '')} g++".strip(), f"OUT={WORK}/host",
                         f"{WORK}/host/libfxcu.a"])
        cls.manifest = built(WORK / "built", WORK / "host" / "libfxcu.a")
        cls.tools = WORK / "tools"
        cls.tools.mkdir()
        for name, text in (("python", STAND_IN.format(python=sys.executable, bench=str(BENCH))), ("compute-sanitizer", SANITIZER), ("ncu", f"#!/bin/sh\ncat <<'X'\n{NCU}X\n")):
            (cls.tools / name).write_text(text)
            (cls.tools / name).chmod(0o755)

    def bench(self, *options, tools=True, kinds=None, **environment):
        """A run on the host's CUDA: its status and results."""
        kinds = kinds or {"product": "small", "norm": "kernels"}
        for name, kind in kinds.items():
            self.manifest["models"][name]["set"] = kind
        (WORK / "built" / "manifest.json").write_text(json.dumps(self.manifest))
        out = WORK / "out"
        shutil.rmtree(out, ignore_errors=True)
        path = f"{self.tools}:{os.environ['PATH']}" if tools else "/usr/bin:/bin"
        done = run(sys.executable, BENCH / "run", "--built", WORK / "built", "--out", out, "--markdown", WORK / "none.md", *options,
                   env=os.environ | {"PATH": path, "FXCC_CUBLAS": str(WORK), "TMPDIR": str(WORK)} | environment)
        self.assertFalse((WORK / "none.md").exists(), "of the host's CUDA nothing is written for people")
        self.assertEqual(list(WORK.glob("fxcc-cuda-bench-*")), [], "the folder of work stays")
        return done, json.loads((out / "results.json").read_text()) if out.exists() else None

    def setUp(self):
        (WORK / "libcublasLt.so.13").touch()

    def test_all_parts(self):
        done, told = self.bench("--python", self.tools / "python", "--host-times", kinds={"product": "small", "norm": "models"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("is no GPU: nothing of it is written", done.stderr)
        self.assertEqual(results.faults(told), [], done.stdout)
        self.assertEqual(told["device"]["gpu"], False)
        product, norm = told["models"]["product"], told["models"]["norm"]
        for entry in (product, norm):
            self.assertEqual((entry["weights"], entry["graph"], entry["difference"], entry["agrees"]), ("from the seed", "the same bytes", 0, True))
        self.assertEqual(told["sanitizer"], {k: {"product": {"clean": True, "summary": s}} for k, s in (
            ("memcheck", "0 errors"), ("racecheck", "0 hazards displayed (0 errors, 0 warnings)"), ("synccheck", "0 errors"))})
        self.assertEqual(norm["times"]["eager"]["median_s"], 2e-3)
        for way in ("stream", "graph"):
            self.assertGreater(norm["times"]["ours"][way]["median_s"], 0)
            self.assertGreaterEqual(norm["times"]["ours"][way]["batches"], 3)
        self.assertEqual(norm["torch"]["inductor"], {"absent": "no compiler"})
        text = (WORK / "built" / "norm" / "net.cu").read_text()
        self.assertTrue(norm["steps"])
        for step in norm["steps"]:
            self.assertIn(step["name"], text)
            self.assertGreaterEqual(step["median_s"], 0)
        self.assertEqual(norm["counters"][0]["share"], 0.825)

    def test_nothing_of_nvidia_and_no_torch(self):
        done, told = self.bench("--no-torch", tools=False)
        self.assertEqual(told["parts"]["torch"]["absent"].split(":")[0], f"{sys.executable} has no torch")
        self.assertEqual(told["parts"]["sanitizer"]["absent"], "compute-sanitizer is not on the PATH")
        self.assertEqual(told["parts"]["counters"]["absent"], "ncu is not on the PATH")
        self.assertEqual(told["parts"]["times"]["absent"], "the host's CUDA tells no time of a GPU")
        self.assertEqual(results.faults(told), [], done.stdout)
        for entry in told["models"].values():
            self.assertEqual((entry["weights"], entry["graph"]), ("at random", "the same bytes"))
            self.assertNotIn("difference", entry)

    def test_no_device(self):
        done, told = self.bench("--no-torch", FXCU_NO_DEVICE="1")
        self.assertEqual((done.returncode, told), (3, None))
        self.assertIn("there is no device", done.stderr)
        self.assertIn("nothing is written", done.stderr)

    def test_wrong_results_are_told(self):
        done, told = self.bench("--python", self.tools / "python", "--parts", "parity,sanitizer", DIFFERENCE="0.01", RACES="4")
        wrong = results.faults(told)
        self.assertEqual(len(wrong), 3, wrong)
        self.assertIn("product: differs from eager by 0.01 of the largest magnitude", wrong)
        self.assertIn("racecheck, product: 4 hazards displayed (0 errors, 0 warnings)", wrong)

    def test_a_worker_that_fails_or_is_late(self):
        done, told = self.bench("--python", self.tools / "python", "--parts", "parity", BROKEN="make")
        self.assertEqual(results.faults(told), ["product: weights: broken", "norm: weights: broken"])
        done, told = self.bench("--python", self.tools / "python", "--parts", "parity", "--only", "norm", "--minutes", "0.15", LATE="compare")
        self.assertRegex(results.faults(told)[0], r"^norm: parity: no answer within \d s$")

    def test_another_program_is_refused(self):
        source = WORK / "built" / "norm" / "net.cu"
        text = source.read_text()
        source.write_text(text + "\n")
        try:
            done, told = self.bench("--no-torch", "--parts", "parity", "--only", "norm")
        finally:
            source.write_text(text)
        self.assertEqual(results.faults(told), ["norm: weights: what fxcc emits here is not what was built"])

    def test_a_program_that_does_not_start(self):
        program = WORK / "built" / "norm" / "norm"
        kept = program.with_name("kept")
        program.rename(kept)
        try:
            program.write_text("#!/bin/sh\necho 'version GLIBC_9.9 not found' >&2\nexit 1\n")
            program.chmod(0o755)
            done, told = self.bench("--no-torch", "--parts", "parity")
        finally:
            kept.rename(program)
        self.assertEqual(told["models"]["norm"]["absent"], "the program does not start: version GLIBC_9.9 not found")
        self.assertEqual(told["models"]["product"]["graph"], "the same bytes")
        self.assertEqual(results.faults(told), [])

    def test_what_was_not_prepared(self):
        done = run(sys.executable, BENCH / "run", "--built", WORK / "nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("run bench/cuda/prepare first", done.stderr)


@unittest.skipUnless(NVCC, "nvcc is not there")
class Nvcc(unittest.TestCase):
    def test_programs_for_a_gpu(self):
        """They build, link with the real cuBLASLt, are small; on a machine without a GPU they say so and nothing is written."""
        os.environ["NVCC"] = NVCC
        manifest = built(WORK / "gpu", None)
        for name in manifest["models"]:
            self.assertLess(prepare.size_of(WORK / "gpu" / name), 3 << 20)
        out = WORK / "gpu-out"
        if run(WORK / "gpu" / "norm" / "norm", "facts").returncode == 3:
            done = run(sys.executable, BENCH / "run", "--built", WORK / "gpu", "--out", out, "--markdown", WORK / "gpu.md", "--only", "norm")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("there is no device", done.stderr)
            self.assertFalse(out.exists() or (WORK / "gpu.md").exists())


if __name__ == "__main__":
    unittest.main()
