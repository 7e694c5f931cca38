"""Compiles a model to CUDA with fxcc, builds it for the host's CUDA (docs/cuda.md) and runs it through ctypes, as emitted.py does with C.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import ctypes
import os
import pathlib

import numpy

import emitted

HOST = emitted.ROOT / "tests" / "cuda_host"
HOST_INCLUDE = emitted.ROOT / "runtime" / "cuda" / "host"  # its headers
STRICT = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]

SHIM = r"""
#include "net.cu"
#include "cuda_host/control.h"
#include <vector>

/* A run on buffers of the device; in_sizes and out_sizes are bytes. Where it fails, what it says is in `text`. */
extern "C" int shim_run(int schedule, int n_in, void *const *in, const size_t *in_sizes, int n_out, void *const *out, const size_t *out_sizes,
                        const int64_t *const *shapes, const char *weights, char *text, size_t text_size)
{
    (void)shapes;
    fxcu_reset();
    fxcu_set_schedule_number(schedule);
    net_context *ctx = nullptr;
    net_config config = {};
    CONFIG
    std::vector<void *> ins, outs;
    cudaStream_t stream;
    int status = cudaStreamCreate(&stream) ? NET_ERR_CUDA : NET_OK;
    DIMS
    if (!status)
        status = net_create(&ctx, &config);
    for (int i = 0; i < n_in && !status; i++) {
        ins.push_back(nullptr);
        status = cudaMalloc(&ins[i], in_sizes[i] + !in_sizes[i]) || cudaMemcpy(ins[i], in[i], in_sizes[i], cudaMemcpyHostToDevice);
    }
    for (int i = 0; i < n_out && !status; i++) {
        outs.push_back(nullptr);
        status = cudaMalloc(&outs[i], out_sizes[i] + !out_sizes[i]);
    }
    if (!status)
        status = net_run_v(ctx, DIMS_ARGUMENT INPUTS_CAST ins.data(), outs.data(), stream);
    if (!status)
        status = net_wait(ctx, stream);
    for (int i = 0; i < n_out && !status; i++)
        status = cudaMemcpy(out[i], outs[i], out_sizes[i], cudaMemcpyDeviceToHost);
    snprintf(text, text_size, "%s: %s", net_status_string(status), net_error(ctx));
    for (void *p : ins)
        (void)cudaFree(p);
    for (void *p : outs)
        (void)cudaFree(p);
    (void)cudaStreamDestroy(stream);
    net_destroy(ctx);
    if (!status && fxcu_alive()) {
        snprintf(text, text_size, "something of the device was not freed");
        status = -1;
    }
    return status;
}
"""


def emit(model, folder, *options, target="cuda"):
    return emitted.command([emitted.fxcc(), "compile", model, "-o", folder, "--prefix=net", f"--target={target}", "--json", *options])


def library(folder):
    """The host's CUDA, for shared objects: where ctest made it (FXCC_CUDA_LIBRARIES), or made once per folder."""
    out = pathlib.Path(os.environ["FXCC_CUDA_LIBRARIES"], "gxx_pic") if "FXCC_CUDA_LIBRARIES" in os.environ else pathlib.Path(folder)
    emitted.command(["make", "-s", "-C", HOST, f"CXX={os.environ.get('FXCC_CXX_LAUNCHER', '')} g++ -fPIC".strip(), f"OUT={out}", out / "libfxcu.a"])
    return out / "libfxcu.a"


def build(folder, lib, compiler="g++", flags=("-O2", "-march=native", "-ffp-contract=off")):
    folder = pathlib.Path(folder)
    header = (folder / "net.h").read_text()
    shim = SHIM.replace("CONFIG", "config.weights_file = weights;" if (folder / "net.bin").exists() else "(void)weights;")
    dynamic = "net_dims" in header
    if dynamic:
        shim = shim.replace("DIMS_ARGUMENT", "&dims,").replace("    DIMS\n", "    net_dims dims = {};\n    if (!status)\n        status = net_dims_of(&dims, shapes);\n    config.most = &dims; /* memory for these sizes alone */\n")
    else:
        shim = shim.replace("DIMS_ARGUMENT", "").replace("    DIMS\n", "")
    shim = shim.replace("INPUTS_CAST", "(const void *const *)" if "const void *const *inputs" in header else "")
    (folder / "shim.cpp").write_text(shim)
    emitted.command([compiler, *STRICT, *flags, f"-I{HOST_INCLUDE}", "-fPIC", "-shared", "-o", "net.so", "shim.cpp", lib, "-ldl", "-lm", "-pthread"], cwd=folder)
    return folder / "net.so"


class Net:
    """A built model, ready to run."""

    def __init__(self, so, weights):
        self.lib = ctypes.CDLL(str(so))
        self.weights = str(weights).encode()

    def run(self, inputs, like, schedule=0):
        """Outputs for inputs; `like` gives their shapes."""
        inputs = [numpy.ascontiguousarray(a) for a in inputs]
        outputs = [numpy.full(a.shape, numpy.nan if a.dtype.kind == "f" else 0, a.dtype) for a in like]
        arguments = []
        for arrays in (inputs, outputs):
            arguments += [len(arrays), (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in arrays)),
                          (ctypes.c_size_t * (len(arrays) + 1))(*(a.nbytes for a in arrays))]
        text = ctypes.create_string_buffer(1000)
        shapes = [(ctypes.c_int64 * (a.ndim + 1))(*a.shape) for a in inputs]
        at = (ctypes.c_void_p * (len(shapes) + 1))(*(ctypes.addressof(s) for s in shapes))
        status = self.lib.shim_run(schedule, *arguments, at, self.weights, text, ctypes.c_size_t(len(text)))
        if status:
            raise emitted.Failed(f"emitted code returned {status}: {text.value.decode()}")
        return outputs
