"""Models that change their inputs and buffers, against eager PyTorch: three calls in a row on the same inputs, of the interpreter, of machine code
in memory and of emitted C.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import os
import pathlib
import subprocess
import sys

import numpy
import pytest
import torch

import cuda_emitted
import jitted
from models import MODELS

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import fxcc_export  # noqa: E402

CALLS = 3
STRICT = "-std=c99 -pedantic -Wall -Wextra -Werror"


def command(*argv, **kwargs):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    assert done.returncode == 0, f"{' '.join(str(a) for a in argv)}: exit {done.returncode}\n{done.stdout}"
    return done.stdout


def eager(case):
    """The inputs; then for each call outputs, changed inputs, changed buffers."""
    module, args = case.make(), [a.clone() for a in case.args]
    arrays = [a.numpy().copy() for a in args]
    state = dict(module.named_buffers()) | dict(module.named_parameters())
    for _ in range(CALLS):
        with torch.no_grad():
            out = module(*args)
        for t in (out if isinstance(out, tuple) else (out,)) + tuple(args[i] for i in case.inputs) + tuple(state[b] for b in case.buffers):
            arrays.append(t.detach().clone().numpy())
    return arrays


def exported(case, folder, form):
    path = folder / f"{form}.pt2"
    if form == "captured":
        path = folder / "captured.fx"
        fxcc_export.export(torch.fx.symbolic_trace(case.make()), path, list(case.args))
        return path
    program = torch.export.export(case.make(), tuple(a.clone() for a in case.args), dynamic_shapes=case.dynamic)
    torch.export.save(program.run_decompositions() if form == "decomposed" else program, path)
    return path


def forms():
    for name, case in MODELS.items():
        for form in ("exported", "decomposed", "captured"):
            if getattr(case, form, True):
                yield pytest.param((name, form), id=f"{name}-{form}")


@pytest.fixture(params=forms())
def model(request, tmp_path):
    name, form = request.param
    case = MODELS[name]
    arrays = eager(case)
    numpy.savez(tmp_path / "reference.npz", **{f"a{i:03}": a for i, a in enumerate(arrays)})
    numpy.savez(tmp_path / "inputs.npz", **{f"a{i:03}": a for i, a in enumerate(arrays[:len(case.args)])})
    return case, exported(case, tmp_path, form), arrays


def same(path, arrays):
    got = list(numpy.load(path).values())
    assert len(got) == len(arrays)
    for a, b in zip(got, arrays):
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_allclose(a.astype(numpy.float64), b.astype(numpy.float64), rtol=1e-5 if b.dtype != numpy.float16 else 2e-3, atol=1e-5)


@pytest.mark.parametrize("way", ["--interpret", "-O1", "-O3"])
def test_run(fxcc, model, way, tmp_path):
    """By the interpreter; in memory."""
    case, path, arrays = model
    command(fxcc, "run", path, tmp_path / "inputs.npz", "-o", tmp_path / "got.npz", f"--calls={CALLS}", "--no-cache", way)
    same(tmp_path / "got.npz", arrays[len(case.args):])


def test_emitted(fxcc, model, tmp_path):
    env = os.environ | {"CFLAGS": f"-O2 {STRICT} -fsanitize=undefined -fno-sanitize-recover=all"}
    command(fxcc, "check", model[1], "--against", tmp_path / "reference.npz", "--target=generic", env=env)
    command(fxcc, "check", model[1], "--against", tmp_path / "reference.npz", "--disable=fuse,inplace,schedule,layout", env=os.environ | {"CFLAGS": f"-O1 {STRICT}"})
    assert " 0 not;" in command(fxcc, "prove", model[1])


def test_written_models_keep_it(fxcc, model, tmp_path):
    case, path, arrays = model
    again = tmp_path / "again.fx"
    command(fxcc, "opt", path, "-p", "infer", "-o", again)
    command(fxcc, "run", again, tmp_path / "inputs.npz", "-o", tmp_path / "got.npz", f"--calls={CALLS}", "--interpret")
    same(tmp_path / "got.npz", arrays[len(case.args):])
    if path.suffix != ".pt2":
        return
    again = tmp_path / "again.pt2"
    command(fxcc, "opt", path, "-p", "infer", "-o", again)
    module, args = torch.export.load(again).module(), [a.clone() for a in case.args]
    state = dict(module.named_buffers()) | dict(module.named_parameters())
    at = len(args)
    for _ in range(CALLS): # as torch reads what fxcc wrote
        with torch.no_grad():
            out = module(*args)
        for t in (tuple(out) if isinstance(out, (tuple, list)) else (out,)) + tuple(args[i] for i in case.inputs) + tuple(state[b] for b in case.buffers):
            numpy.testing.assert_allclose(t.detach().numpy().astype(numpy.float64), arrays[at].astype(numpy.float64), rtol=2e-3, atol=1e-5)
            at += 1


@pytest.mark.parametrize("name", ["Counter", "CachedAttention", "InputThroughViews", "OpenBatch", "Types"])
@pytest.mark.parametrize("golden", [True, False])
def test_check_program(fxcc, tmp_path, name, golden):
    """NAME_check.c: with vectors of eager's and with the interpreter's, kernels pasted and linked, the arena painted."""
    case = MODELS[name]
    path = exported(case, tmp_path, "exported")
    numpy.savez(tmp_path / "reference.npz", **{f"a{i:03}": a for i, a in enumerate(eager(case))})
    vectors = [f"--golden={tmp_path / 'reference.npz'}"] if golden else ["--check"]
    for link in ([], ["--link-runtime"]):
        folder = tmp_path / ("linked" if link else "pasted")
        command(fxcc, "compile", path, "-o", folder, "--prefix=net", "--target=generic", *vectors, *link)
        flags = [f"CFLAGS=-O2 {STRICT}", "CHECK_FLAGS=-DNET_CHECK_PAINT"]
        if link:
            flags += [f"FXRT_CFLAGS=-I{ROOT / 'include'}", f"FXRT_LIBS={os.environ.get('FXCC_LIBFXRT', ROOT / 'build/release/runtime/libfxrt.a')} -fopenmp"]
        text = command("make", "-C", folder, "check", *flags)
        assert f"call {CALLS if golden else 2}: " in text and "FAILED" not in text


@pytest.fixture(scope="session")
def cuda_host(tmp_path_factory):
    return cuda_emitted.library(tmp_path_factory.mktemp("cuda_host"))


@pytest.mark.parametrize("name", MODELS)
def test_cuda(fxcc, cuda_host, tmp_path, name):
    """NAME_check.cu on the host's CUDA (docs/cuda.md), with eager's vectors: forwards, backwards, by chance."""
    case = MODELS[name]
    path = exported(case, tmp_path, "exported")
    numpy.savez(tmp_path / "reference.npz", **{f"a{i:03}": a for i, a in enumerate(eager(case))})
    command(fxcc, "compile", path, "-o", tmp_path, "--prefix=net", "--target=cuda", f"--golden={tmp_path / 'reference.npz'}")
    command("g++", *cuda_emitted.STRICT, "-O1", "-ffp-contract=off", f"-I{cuda_emitted.HOST_INCLUDE}", "-x", "c++", "net.cu", "net_check.cu", "-x", "none", cuda_host, "-ldl",
            "-lm", "-pthread", "-o", "check", cwd=tmp_path)
    for schedule in "012":
        text = command("./check", cwd=tmp_path, env=os.environ | {"FXCU_SCHEDULE": schedule})
        assert f"call {CALLS}: " in text and "FAILED" not in text


def test_functions_are_independent(tmp_path):
    """Two functions of one model keep state of their own, which can be read, set and begun anew between calls."""
    path, x = exported(MODELS["Counter"], tmp_path, "exported"), numpy.ones((3, 4), numpy.float32)
    with jitted.Function(path) as one, jitted.Function(path) as two:
        assert list(one.states()) == ["count", "total"] and one.states()["count"] == 0
        one.run([x]), one.run([x]), two.run([x])
        assert one.states()["count"] == 2 and two.states()["count"] == 1
        assert (one.states()["total"] == 6).all() and (two.states()["total"] == 3).all()
        one.states()["count"][...] = 8
        assert (one.run([x])[0] == 1).all() and one.states()["count"] == 9
        one.reset()
        assert one.states()["count"] == 0 and (one.states()["total"] == 0).all() and two.states()["count"] == 1
        assert (one.run([x])[0] == 3).all()


def test_instances_are_independent(fxcc, tmp_path):
    """Two contexts of one model, each with state of its own; one starts afresh, one is set by hand."""
    path = exported(MODELS["Counter"], tmp_path, "exported")
    command(fxcc, "compile", path, "-o", tmp_path, "--prefix=net", "--target=generic", "--weights=c")
    (tmp_path / "main.c").write_text(r"""
#include <stdio.h>
#include "net.h"
static NET_ALIGNED unsigned char arena[NET_ARENA_SIZE];
static NET_ALIGNED net_state_t one, two;
int main(void)
{
    const float x[NET_IN0_NUMEL] = {1, 2, 3, 4};
    float y[NET_OUT0_NUMEL];
    net_context a, b;
    if (net_init(&a, net_weights, sizeof net_weights, arena, sizeof arena, &one, sizeof one) != NET_OK ||
        net_init(&b, net_weights, sizeof net_weights, arena, sizeof arena, &two, sizeof two) != NET_OK)
        return 1;
    if (net_init(&b, net_weights, sizeof net_weights, arena, sizeof arena, &two, sizeof two - 1) != NET_ERR_SIZE ||
        net_init(&b, net_weights, sizeof net_weights, arena, sizeof arena, NULL, sizeof two) != NET_ERR_NULL ||
        net_init(&b, net_weights, sizeof net_weights, arena, sizeof arena, (char *)&two + 8, sizeof two) != NET_ERR_ALIGN)
        return 2;
    if (net_state_init(&a) != NET_OK || net_state_init(&b) != NET_OK || NET_STATE_SIZE != sizeof one || NET_STATES != 2)
        return 3;
    if (net_run(&a, x, y) || net_run(&a, x, y) || net_run(&b, x, y))
        return 4;
    if (one.count[0] != 2 || two.count[0] != 1 || one.total[3] != 8 || two.total[3] != 4)
        return 5;
    one.count[0] = 9;
    if (net_run(&a, x, y) || one.count[0] != 10 || y[0] != 3.0f / 10)
        return 6;
    if (net_state_init(&a) || one.count[0] != 0 || one.total[3] != 0 || two.count[0] != 1)
        return 7;
    return 0;
}
""")
    command("gcc", *STRICT.split(), "-fsanitize=address,undefined", "-o", "main", "main.c", "net.c", "net_weights.c", "-lm", cwd=tmp_path)
    command(tmp_path / "main")
    command("g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "net.h", cwd=tmp_path)


def test_tied_buffers(fxcc, tmp_path):
    """Two names of one tensor: a write through one is seen through the other."""
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.arange(3.0))
            self.register_buffer("b", self.a)

        def forward(self, x):
            y = self.b * x
            self.a.add_(x)
            return y + self.b

    case = type("Case", (), {"make": Tied, "args": (torch.ones(3),), "inputs": (), "buffers": ("a",), "dynamic": None})
    path = exported(case, tmp_path, "exported")
    numpy.savez(tmp_path / "reference.npz", **{f"a{i:03}": a for i, a in enumerate(eager(case))})
    command(fxcc, "check", path, "--against", tmp_path / "reference.npz")


def test_report_and_wrong_references(fxcc, tmp_path):
    path = exported(MODELS["Counter"], tmp_path, "exported")
    assert "exported" in command(fxcc, "report", path)
    arrays = eager(MODELS["Counter"])
    numpy.savez(tmp_path / "short.npz", **{f"a{i}": a for i, a in enumerate(arrays[:-1])})
    done = subprocess.run([fxcc, "check", path, "--against", tmp_path / "short.npz"], capture_output=True, text=True)
    assert done.returncode == 1 and "1 outputs and 2 changed inputs and buffers, got 9 arrays" in done.stderr
    arrays[-1] = arrays[-1] + 1
    numpy.savez(tmp_path / "wrong.npz", **{f"a{i:03}": a for i, a in enumerate(arrays)})
    done = subprocess.run([fxcc, "check", path, "--against", tmp_path / "wrong.npz"], capture_output=True, text=True)
    assert done.returncode == 1 and "DIFFERS" in done.stdout.splitlines()[-1] and "3:total" in done.stdout.splitlines()[-1]
