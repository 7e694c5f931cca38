"""Models compiled in memory for a GPU (fxcc run --device=cuda, docs/jit.md), without one: CUDA's driver, NVRTC and cuBLASLt are stood for by libraries over the
host's CUDA (tests/cuda_host/driver), and values compared with the reference interpreter's; texts are also compiled by the real NVRTC. Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cuda_emit/test_nvrtc.py [Values|Python|Messages|Real]
"""
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

from graphs import CASES, graph_of
import graphs_half
from graphs_forms import gradient, winograd
from test_emit import FXCC, HERE, HOST, HOST_INCLUDE, WORK, Case, compare, parse_npy, run

DRIVER = WORK / "driver"
# One of the real library's is enough; what it cannot find it says.
TOOLKIT = next((p for p in ("/usr/local/cuda",) if list(pathlib.Path(p).glob("lib64/libnvrtc.so.*"))), None)


def parameter(name, *shape):
    rng = random.Random(name)
    return f"parameter {name} : f32[{', '.join(map(str, shape))}] = [{', '.join(str(round(rng.uniform(-1, 1), 3)) for _ in range(math.prod(shape)))}]\n"


def images(batch):
    """Convolutions of each kind, pools, resampling, a norm; their kernels are chosen by sizes, the batch's among them."""
    return graph_of(
        [("x", f"f32[{batch}, 3, 14, 13]")],
        [*[f"{w} : f32[{shape}] = get_attr[{w}]" for w, shape in (("w1", "8, 3, 3, 3"), ("b1", "8"), ("w2", "8, 1, 3, 3"), ("w3", "16, 8, 1, 1"), ("w4", "16, 4, 2, 2"))],
         f"a : f32[{batch}, 8, 14, 13] = convolution.default(%x, %w1, %b1, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)", f"b : f32[{batch}, 8, 14, 13] = relu.default(%a)",
         f"c : f32[{batch}, 8, 7, 6] = max_pool2d.default(%b, [2, 2], [2, 2])",
         f"d : f32[{batch}, 8, 7, 6] = convolution.default(%c, %w2, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 8)",
         f"e : f32[{batch}, 16, 7, 6] = convolution.default(%d, %w3, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)",
         f"f : f32[{batch}, 4, 14, 12] = convolution.default(%e, %w4, None, [2, 2], [0, 0], [1, 1], True, [0, 0], 1)",
         f"g : f32[{batch}, 4, 14, 12] = group_norm.default(%f, 2)", f"h : f32[{batch}, 4, 3, 5] = adaptive_avg_pool2d.default(%g, [3, 5])",
         f"u : f32[{batch}, 4, 6, 10] = upsample_nearest2d.vec(%h, None, [2.0, 2.0])", f"p : f32[{batch}, 4, 3, 5] = avg_pool2d.default(%u, [2, 2], [2, 2])"], "%p, %g",
        tensors=parameter("w1", 8, 3, 3, 3) + parameter("b1", 8) + parameter("w2", 8, 1, 3, 3) + parameter("w3", 16, 8, 1, 1) + parameter("w4", 16, 4, 2, 2),
        symbols="symbol s0 in [1, 64]\n" if batch == "s0" else "")


def words(batch):
    """Products with and without an epilogue, attention, norms."""
    return graph_of(
        [("x", f"f32[{batch}, 6, 24]")],
        [*[f"{w} : f32[{shape}] = get_attr[{w}]" for w, shape in (("w1", "24, 24"), ("b1", "24"), ("w2", "72, 24"), ("n", "24"))],
         f"a : f32[{batch}, 6, 24] = linear.default(%x, %w1, %b1)", f"b : f32[{batch}, 6, 24] = relu.default(%a)", f"c : f32[{batch}, 6, 24] = layer_norm.default(%b, [24], %n, %b1)",
         f"d : f32[{batch}, 6, 72] = linear.default(%c, %w2)", f"e : f32[{batch}, 6, 72] = silu.default(%d)", f"s : f32[{batch}, 6, 3, 2, 12] = unflatten.int(%e, 2, [3, 2, 12])",
         f"t : f32[3, {batch}, 2, 6, 12] = permute.default(%s, [2, 0, 3, 1, 4])", *[f"{n} : f32[{batch}, 2, 6, 12] = select.int(%t, 0, {i})" for i, n in enumerate("qkv")], f"kt : f32[{batch}, 2, 12, 6] = permute.default(%k, [0, 1, 3, 2])",
         f"r : f32[{batch}, 2, 6, 6] = matmul.default(%q, %kt)", f"o : f32[{batch}, 2, 6, 12] = scaled_dot_product_attention.default(%q, %k, %v, None, 0.0, True)", f"m : f32[{batch}, 2, 6, 6] = softmax.int(%r, 3)"],
        "%o, %m", tensors=parameter("w1", 24, 24) + parameter("b1", 24) + parameter("w2", 72, 24) + parameter("n", 24),
        symbols="symbol s0 in [1, 64]\n" if batch == "s0" else "")


KERNELS = [dict(name=f"{kind.__name__}{'_open' if batch == 's0' else ''}", exact=False, inputs=[("f32", (2, *shape))], graph=kind(batch))
           for kind, shape in ((images, (3, 14, 13)), (words, (6, 24))) for batch in (2, "s0")]


def make_driver():
    if not (DRIVER / "libcublasLt.so.13").exists():
        run("make", "-s", "-C", HOST, f"CXX={os.environ.get('FXCC_CXX_LAUNCHER', '')} g++".strip(), "CPPFLAGS=-fPIC", f"OUT={DRIVER}", "driver")


def folder_with(name, *libraries):
    folder = WORK / name
    folder.mkdir(exist_ok=True)
    for library in libraries:
        target = folder / library
        if not target.exists():
            target.symlink_to(DRIVER / library)
    return folder


def settings(libraries):
    return {"LD_LIBRARY_PATH": str(libraries), "FXCU_INCLUDE": str(HOST_INCLUDE), "FXCC_CACHE": str(WORK / "cache"), "CUDA_HOME": "/nowhere"}


def on_device(case, *options, libraries=DRIVER, **more):
    """fxcc run --device: its result, and what stayed alive on the device when the process ended."""
    alive = WORK / "alive"
    alive.unlink(missing_ok=True)
    env = {**os.environ, **settings(libraries), "FXCU_ALIVE": str(alive), **more}
    done = subprocess.run([FXCC, "run", case.folder / "model.fx", *case.files, "-o", case.folder / "got.npz", *(options or ["--device=cuda"])], env=env,
                          capture_output=True, text=True, timeout=300)
    return done, alive.read_text().strip() if alive.exists() else None


def outputs(case):
    with zipfile.ZipFile(case.folder / "got.npz") as z:
        return [parse_npy(z.read(name)) for name in z.namelist()]


class Nvrtc(unittest.TestCase):
    cases = []

    @classmethod
    def setUpClass(cls):
        if not shutil.which("g++") or not shutil.which("make"):
            raise unittest.SkipTest("no g++ or no make")
        make_driver()
        if not Nvrtc.cases:
            Nvrtc.cases = [Case(**c) for c in [*CASES, *graphs_half.CASES, *KERNELS, winograd(), gradient()]]
            for c in Nvrtc.cases:
                c.emit()
                c.files = [c.folder / f"in{i}.npy" for i in range(len(c.inputs))]

    def named(self, name):
        return next(c for c in self.cases if c.name == name)


class Values(Nvrtc):
    def test_all(self):
        for number, c in enumerate(self.cases):
            with self.subTest(case=c.name):
                done, alive = on_device(c, FXCU_SCHEDULE=str(number % 7))
                self.assertEqual(alive, "0", "something of the device's was not freed")
                if c.fails:
                    self.assertEqual(done.returncode, 1)
                    self.assertRegex(done.stderr, r"step '\w+': .*: out of range")
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                got = outputs(c)
                self.assertEqual(len(got), len(c.expected))
                for i, ((dtype, shape, data), (_, want_shape, want)) in enumerate(zip(got, c.expected)):
                    self.assertEqual(tuple(shape), tuple(want_shape))
                    compare(f"{c.name}, output {i} {dtype}{list(shape)}", dtype, data, want, c.exact)

    def test_kernels(self):
        """What the cases of kernels are about is in them."""
        for name, kernels in (("images", "conv2d conv2d_dw gemm conv_transpose2d max_pool2d adaptive_avg_pool2d upsample_nearest2d group_norm"),
                              ("conv_pre", "conv2d_pre"), ("conv_post", "conv2d_post"), ("conv_split", "conv2d"), ("words_open", "gemm layer_norm attention")):
            text = (self.named(name).folder / f"{name}.cu").read_text()
            for kernel in kernels.split():
                self.assertTrue(re.search(rf"\n    return fxrt_cuda_{kernel}(<float>)?\(", text), f"{name}: {kernel}")

    def test_half(self):
        """Kernels take 16 bits as they are."""
        trace = WORK / "launches"
        for name, kernels in (("convolutions_f16", ("fxrt_cuda_conv", "fxrt_cuda_dw")), ("products_bf16", ("fxrt_cuda_gemm_tail",)),
                              ("attention_f16", ("fxrt_cuda_attention_kernelI6__halff", "fxrt_cuda_attention_kernelI6__halfS0_"))):
            trace.unlink(missing_ok=True)
            done, _ = on_device(self.named(name), FXCU_TRACE=str(trace))
            self.assertEqual(done.returncode, 0, done.stderr)
            launches = trace.read_text().splitlines()
            for kernel in kernels:
                self.assertTrue(any(kernel in line and ("6__half" in line or "13__nv_bfloat16" in line) for line in launches), f"{name}: {kernel}")

    def test_state(self):
        """What a call leaves, the next one finds."""
        state = Case("state", graph_of([("x", "f32[3, 5]")], ["n : f32[5] = get_attr[n]", "s : f32[5] = sum.dim_IntList(%x, [0])", "m : f32[5] = add_.Tensor(%n, %s)",
                                                             "y : f32[3, 5] = add.Tensor(%x, %m)"], "%y", tensors="buffer n : f32[5] = [1.0, 2.0, 3.0, 4.0, 5.0]\n"),
                     [("f32", (3, 5), [i / 8 for i in range(15)])])
        state.emit()
        state.files = [state.folder / "in0.npy"]
        run(FXCC, "run", "--interpret", "--calls=3", "-o", state.folder / "got.npz", state.folder / "model.fx", *state.files)
        want = outputs(state)
        done, alive = on_device(state, "--device=cuda", "--calls=3", FXCU_SCHEDULE="3")
        self.assertEqual((done.returncode, alive, len(want)), (0, "0", 6), done.stderr)
        self.assertEqual(outputs(state), want)

    def test_products(self):
        """Without cuBLASLt a model of products is refused, any other is not."""
        libraries = folder_with("no_blas", "libcuda.so.1", "libnvrtc.so.13")
        for version in (13, 12):
            (libraries / f"libcublasLt.so.{version}").write_text("")
        self.assertEqual(on_device(self.named("flat"), libraries=libraries)[0].returncode, 0)
        done, alive = on_device(self.named("words"), libraries=libraries)
        self.assertEqual((done.returncode, alive), (1, "0"))
        self.assertIn("device cuda: libcublasLt.so.13 (or .12) was not found, nor in /nowhere/lib64: ", done.stderr)

    def test_cache(self):
        """The second time nothing is compiled: there is no compiler."""
        c = self.named("flat")
        self.assertEqual(on_device(c)[0].returncode, 0)
        self.assertEqual(on_device(c, CXX="/nowhere/g++")[0].returncode, 0)
        done, _ = on_device(c, "--device=cuda", "--no-cache", CXX="/nowhere/g++")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NVRTC 13.0: the model's kernels do not compile", done.stderr)
        self.assertEqual(on_device(c, FXCU_CAPABILITY="7.5", CXX="/nowhere/g++")[0].returncode, 1)  # another architecture


@unittest.skipUnless(os.environ.get("FXCC_PYTHON") and os.environ.get("FXCC_PYTHONPATH"), "fxcc was built without its Python module")
class Python(Nvrtc):
    def test_tensors(self):
        """Memory of the host and of the device, by the buffer protocol, DLPack and __cuda_array_interface__, under all schedules."""
        model = WORK / "pair.fx"
        model.write_text(graph_of([("x", "f32[4, 6]"), ("y", "f32[4, 6]")], ["a : f32[4, 6] = relu.default(%x)", "b : f32[4, 6] = mul.Tensor(%a, %y)"], "%b"))
        for number in range(7):
            env = {**os.environ, **settings(DRIVER), "PYTHONPATH": os.environ["FXCC_PYTHONPATH"], "FXCU_SCHEDULE": str(number), "FXCU_ALIVE": ""}
            done = subprocess.run([os.environ["FXCC_PYTHON"], HERE / "device_tensors.py", model], env=env, capture_output=True, text=True, timeout=300)
            self.assertEqual((done.returncode, done.stdout), (0, "right\n"), done.stderr)


class Messages(Nvrtc):
    def expect(self, message, *options, **settings):
        done, alive = on_device(self.named("flat"), *options, **settings)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertIn(alive, (None, "0"))

    def test_libraries(self):
        self.expect("device cuda: there is no CUDA driver: libcuda.so.1: ", libraries=folder_with("none"))
        folder = folder_with("driver_only", "libcuda.so.1")
        (folder / "libnvrtc.so.13").write_text("")  # ends the search: the system may know a real one
        (folder / "libnvrtc.so.12").write_text("")
        self.expect("device cuda: libnvrtc.so.13 (or .12) was not found, nor in /nowhere/lib64: ", "--device=cuda", "--no-cache", libraries=folder)

    def test_devices(self):
        self.expect("device cuda: there is a CUDA driver, but no device", FXCU_DEVICES="0")
        self.expect("device cuda: expected a number from 0 to 0, got 3", "--device=cuda:3")
        self.expect("the device has compute capability 7.0, and", FXCU_CAPABILITY="7.0")
        for device in ("gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:99999999999"):
            self.expect(f"device: expected 'cuda' or 'cuda:N', got '{device}'", f"--device={device}")

    def test_options(self):
        self.expect("expected --device without --interpret", "--device=cuda", "--interpret")
        self.expect("expected --device without -O", "--device=cuda", "-O2")

    def test_memory(self):
        """Each allocation fails in turn; then none."""
        c, failed = self.named("embedding"), 0
        for n in range(1, 30):
            done, alive = on_device(c, FXCU_FAIL_ALLOCATION=str(n))
            self.assertEqual(alive, "0")
            if done.returncode == 0:
                break
            self.assertIn("cudaErrorMemoryAllocation", done.stderr)
            failed += 1
        self.assertGreater(failed, 3)
        self.assertLess(failed, 29)


@unittest.skipUnless(TOOLKIT, "no libnvrtc in /usr/local/cuda/lib64")
class Real(Nvrtc):
    """The real NVRTC takes the texts, and the kernels are in what it makes. Launches do nothing: there is no GPU."""

    def test_texts(self):
        libraries = folder_with("real", "libcuda.so.1", "libcublasLt.so.13")
        for number, c in enumerate(self.cases):
            with self.subTest(case=c.name):
                done, alive = on_device(c, "--device=cuda", "--no-cache", libraries=libraries, CUDA_HOME=TOOLKIT, FXCU_CAPABILITY=("7.5", "9.0", "12.0")[number % 3])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(alive, "0")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
