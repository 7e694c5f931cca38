#!/usr/bin/env python3
"""ptxas.py: what it reads, what it reckons, and that a kernel which spills is seen. What needs nvcc is skipped where it is not there.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import ptxas

HERE = pathlib.Path(__file__).parent
NVCC = os.environ.get("NVCC") or shutil.which("nvcc")

TOLD = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90'
ptxas info    : Function properties for _Z3addPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers
ptxas info    : Compile time = 5.000 ms
ptxas info    : Compiling entry function '_Z3sumPf' for 'sm_90'
ptxas info    : Function properties for _Z3sumPf
    48 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 48 bytes cumulative stack size, 2176 bytes smem
"""

PTX = """.visible .entry _Z3addPf(
.param .u64 _Z3addPf_param_0
)
{
}
.entry _Z3sumPf(
.param .u64 _Z3sumPf_param_0
)
.maxntid 128, 1, 1
.minnctapersm 3
{
}
.entry _Z3padPf(
)
.maxntid 32, 3
{
}
"""

# Sixty-four sums at once, and registers for few of them.
SPILLS = """
__global__ void spills(const float *in, float *out, int n) {
    float sums[64] = {};
    for (int i = 0; i < n; i++) {
#pragma unroll
        for (int k = 0; k < 64; k++) {
            sums[k] = sums[k] * in[i] + in[i + k];
        }
    }
#pragma unroll
    for (int k = 0; k < 64; k++) {
        out[k] = sums[k];
    }
}
"""


class Reading(unittest.TestCase):
    def test_parse(self):
        add, total = ptxas.parse(TOLD)
        self.assertEqual(add, ptxas.Kernel("sm_90", "_Z3addPf", registers=18))
        self.assertEqual(total, ptxas.Kernel("sm_90", "_Z3sumPf", registers=255, stack=48, spill_stores=12, spill_loads=20, shared=2176, barriers=1))

    def test_bounds(self):
        threads, dynamic = ptxas.bounds(PTX)
        self.assertEqual(threads, {"_Z3sumPf": 128, "_Z3padPf": 96})
        self.assertFalse(dynamic)
        self.assertTrue(ptxas.bounds(PTX + ".extern .shared .align 16 .b8 all[];\n")[1])

    def test_occupancy(self):
        for arch, threads, registers, shared, share, bound in [
            ("sm_90", 256, 32, 0, 1.0, "warps"),
            ("sm_90", 256, 64, 0, 0.5, "registers"),
            ("sm_90", 256, 32, 48 << 10, 0.5, "shared memory"),      # four blocks of 49 KiB
            ("sm_90", 32, 32, 0, 0.5, "blocks"),                     # 32 blocks of one warp
            ("sm_75", 256, 64, 0, 1.0, "warps"),
            ("sm_75", 256, 65, 0, 0.75, "registers"),                # 72 a thread: seven warps a scheduler
            ("sm_86", 1024, 32, 0, 2 / 3, "warps"),
            ("sm_120", 256, 255, 0, 1 / 6, "registers"),
        ]:
            with self.subTest(arch=arch, threads=threads, registers=registers, shared=shared):
                got = ptxas.occupancy(arch, threads, registers, shared)
                self.assertAlmostEqual(got[0], share)
                self.assertEqual(got[1], bound)


@unittest.skipUnless(NVCC, "nvcc is not there")
class Compiling(unittest.TestCase):
    def run_on(self, *arguments):
        return subprocess.run([sys.executable, HERE / "ptxas.py", "--nvcc", NVCC, *arguments], capture_output=True, text=True)

    @classmethod
    def setUpClass(cls):
        """The tests' files, compiled for sm_75 and sm_120: by cuda_host.nvcc before, or here."""
        cls.folder = pathlib.Path(os.environ.get("FXCC_CUDA_NVCC") or tempfile.mkdtemp(prefix="fxcc-ptxas-"))
        if "FXCC_CUDA_NVCC" not in os.environ:
            cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        subprocess.run([HERE / "nvcc", cls.folder], env=os.environ | {"NVCC": NVCC}, check=True)

    def told(self, name):
        return self.run_on("--told", str(self.folder / f"{name}.nvcc.told"))

    def test_kernels_do_not_spill(self):
        done = self.told("test_kernels")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| sum_rows | sm_75 |", done.stdout)
        self.assertIn("| transpose<float, 16> | sm_120 |", done.stdout)
        rows = {line.split(" | ")[0][2:]: line.split(" | ") for line in done.stdout.splitlines() if "sm_75" in line}
        self.assertEqual(rows["gemm<16>"][3], str(4 * 16 * 16 * 4))  # the two halves of both tiles
        self.assertEqual(rows["sum_rows"][3], "128")

    def test_runtime_does_not_spill(self):
        kernels = {"test_conv": ["fxrt_cuda_conv<fxrt_cuda_conv_shape<128, 64, 8, 8, 8, 1>, 4, 0, float>", "fxrt_cuda_conv<fxrt_cuda_conv_shape<64, 64, 16, 4, 4, 1>, 4, 2, float>",
                                 "fxrt_cuda_conv<fxrt_cuda_conv_shape<32, 32, 32, 4, 4, 4>, 4, 0, float>", "fxrt_cuda_dw<4, 3, float>"],
                   "test_rows": ["fxrt_cuda_norm<true, false, fxrt_cuda_shape<4, 32, 32>, float>", "fxrt_cuda_softmax_columns<true, float>"],
                   "test_pools": ["fxrt_cuda_pool_windows<false, 4, fxrt_resize2d_desc, float>", "fxrt_cuda_upsample<fxrt_cuda_bilinear, 1, float>"]}
        kernels |= {"test_conv_grad": ["fxrt_cuda_weight_grad<4>", "fxrt_cuda_weight_grad_dw<8>"],
                    "test_conv_gemm": ["fxrt_cuda_wino_input<8>", "fxrt_cuda_wino_output<8>", "fxrt_cuda_im2col<8, __half>"],
                    "test_half_kernels": ["fxrt_cuda_dw<4, 3, __nv_bfloat16>"]}
        kernels |= {"test_gemm": ["fxrt_cuda_gemm_tile<float, 4>", "fxrt_cuda_gemm_tail<__half>"],
                    "test_attention": ["fxrt_cuda_attention_kernel<float, float, 4, 8>", "fxrt_cuda_attention_kernel<__half, float, 4, 2>"]}
        for source, names in kernels.items():
            with self.subTest(source):
                done = self.told(source)
                self.assertEqual(done.returncode, 0, done.stderr)
                for name in names:
                    self.assertIn(f"| {name} | sm_75 |", done.stdout)
                    self.assertIn(f"| {name} | sm_120 |", done.stdout)

    def test_told_spills_are_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            told = pathlib.Path(folder, "told")
            told.write_text(TOLD)
            done = self.run_on("--told", str(told))
            self.assertIn("_Z3sumPf for sm_90: 12 bytes spilled and 20 read again", done.stderr)
            self.assertNotEqual(done.returncode, 0)

    def test_spills_are_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "spills.cu")
            source.write_text(SPILLS)
            done = self.run_on("--arch", "sm_75", str(source), "--", "-maxrregcount=24")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"spills\w* for sm_75: \d+ bytes spilled")
            done = self.run_on("--arch", "sm_75", "--allow-spills", str(source), "--", "-maxrregcount=24")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_warnings_are_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "warns.cu")
            source.write_text("static __global__ void unused(float *x) { x[0] = 1; }\n")
            done = self.run_on("--arch", "sm_75", str(source))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("unused", done.stderr)


if __name__ == "__main__":
    unittest.main()
