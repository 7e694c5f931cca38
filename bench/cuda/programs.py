"""How a model's program is compiled for a GPU.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def nvcc_command(nvcc, folder, blas, out):
    """Machine code for sm_90 and PTX for what comes after; only cuBLASLt and the C library are the machine's."""
    return [nvcc, "-std=c++17", "-fmad=false", "-O3", "-Werror", "all-warnings", "-gencode", "arch=compute_90,code=[sm_90,compute_90]",
            "-compress-mode=size", "-cudart", "static", "-Xcompiler", "-static-libstdc++,-static-libgcc", "-Xlinker", "-s", "-I", folder,
            HERE / "bench.cu", *(["-lcublasLt"] if blas else []), "-o", out]
