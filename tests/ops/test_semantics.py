"""Eager's semantics where compilers like to differ: each case by the interpreter, and by the emitted C, fused and not.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import subprocess
import sys

import numpy
import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import emitted  # noqa: E402

INF, NAN = float("inf"), float("nan")


def f32(*v):
    return torch.tensor(v, dtype=torch.float32)


def aliased(x):
    a = x + 0.25
    v = a.view(-1)
    b = x + 0.125
    return v + b.view(-1)


def mutated_view(x):
    a = x * 1
    v = a[0]
    v.add_(1)
    a.mul_(2)
    return a, v


def mutated_buffer_value(x):
    a = torch.zeros(3)
    a += x
    b = a * 1
    a += x
    return a, b


# name: a function, its inputs, and what eager gives where the issue says so (eager is asked in any case)
CASES = {
    "float difference is not folded": (lambda x: x - (x + 1), (f32(1e8, 3.0, -2e9, 0.5),), None),
    "x - (x + 1)": (lambda x: x - (x + 1), (f32(0.0, 1.0, 2.0),), f32(-1.0, -1.0, -1.0)),
    "uint8 wraps before it widens": (lambda x: (x + x).to(torch.int16), (torch.tensor([128], dtype=torch.uint8),), torch.tensor([0], dtype=torch.int16)),
    "int8 wraps": (lambda x: (x * x, x + x, -x), (torch.tensor([127, -128, 100, 3], dtype=torch.int8),), None),
    "int16 wraps": (lambda x: (x * x - x, x + 30000), (torch.tensor([32767, -32768, 300], dtype=torch.int16),), None),
    "int32 wraps": (lambda x: x * x + x, (torch.tensor([2**31 - 1, -2**31, 70000], dtype=torch.int32),), None),
    "int64 wraps": (lambda x: x * x + x, (torch.tensor([2**63 - 1, -2**63, 2**40], dtype=torch.int64),), None),
    "float to uint8": (lambda x: x.to(torch.uint8), (f32(1.54, -0.29, -2.18, 0.57, -1.08),), torch.tensor([1, 0, 254, 0, 255], dtype=torch.uint8)),
    "float to integers": (lambda x: (x.to(torch.int8), x.to(torch.int16), x.to(torch.int32), x.to(torch.int64), x.bool()),
                          (f32(1.9, -1.9, 100.5, -100.5, 0.0, -0.0),), None),
    "float16 overflows where it is fused": (lambda x: (x * 200) * 0.001, (torch.tensor([30000.0, 1.0], dtype=torch.float16),),
                                            torch.tensor([INF, 0.2], dtype=torch.float16)),
    "bfloat16-like steps of float16 round": (lambda x: ((x + 1) - 1) * 3 + x, (torch.tensor([1e-3, 1.0, 2048.0, 0.1], dtype=torch.float16),), None),
    "half to even keeps -0": (lambda x: (x.round(), 1 / x.round()), (f32(-0.5, 0.5, 1.5, 2.5, -1.5, -0.2),), None),
    "inf - inf": (lambda x: x * INF - x * INF, (f32(1.0, -1.0, 0.0),), f32(NAN, NAN, NAN)),
    "relu of NaN": (lambda x: x.relu(), (f32(NAN, -1.0, -0.0, 2.0),), f32(NAN, 0.0, -0.0, 2.0)),
    "NaN in maxima": (lambda x: (torch.maximum(x, f32(0.0)), x.amax(0), x.clamp(-1, 1)), (f32(NAN, 3.0, -INF),), None),
    "signed zeros": (lambda x: (x + 0.0, x * 1.0, -x, x - x, x.abs(), 1 / (x + -0.0)), (f32(-0.0, 0.0, 1.0),), None),
    "divisor_override": (lambda x: torch.nn.functional.avg_pool2d(x, 2, divisor_override=1), (torch.ones(1, 1, 4, 4),), torch.full((1, 1, 2, 2), 4.0)),
    "transposed convolution": (lambda x, w: torch.nn.functional.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
                               (torch.randn(1, 3, 28, 28), torch.randn(3, 6, 3, 3)), None),
    "std of a constant row": (lambda x: x.std(1), (torch.full((3, 7), 2.5),), torch.zeros(3)),
    "split leaves a rest": (lambda x: x.split(4), (torch.arange(10.0),), None),
    "a buffer lives as long as its views": (aliased, (torch.randn(4, 3),), None),
    "mutated views": (mutated_view, (torch.randn(2, 3),), None),
    "mutated values": (mutated_buffer_value, (torch.randn(3),), None),
    "integer division": (lambda x, y: (x // y, x % y, torch.fmod(x, y), x / y, torch.div(x, y, rounding_mode="trunc")),
                         (torch.tensor([7, -7, 7, -7, 0]), torch.tensor([2, 2, -2, -2, 5])), None),
    "float floor division": (lambda x, y: (x // y, x % y), (f32(7.5, -7.5, 1.0, -0.0, 5.0), f32(2.0, 2.0, 0.1, 3.0, -INF)), None),
    "dtypes of mixed operands": (lambda x, i, u, b: (x + i, i + u, u + b, i * 2.5, x.double() + x, b + b, i / 2, u * 2),
                                 (f32(1.5, 2.5), torch.tensor([3, 4]), torch.tensor([250, 7], dtype=torch.uint8), torch.tensor([True, False])), None),
    "comparisons and logic": (lambda x, y: (x < y, x == y, (x < y) & (x != 0), torch.logical_not(x), torch.where(x > y, x, y)),
                              (f32(NAN, 1.0, -0.0, INF), f32(1.0, 1.0, 0.0, INF)), None),
}
TOLERANCE = {"transposed convolution": 1e-4, "float16 overflows where it is fused": 1e-3}


class Function(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def equal(got, want, tolerance, where):
    got, want = numpy.asarray(got), want.numpy()
    assert got.dtype == want.dtype and got.shape == want.shape, f"{where}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind != "f" or not tolerance:
        assert numpy.array_equal(got, want, equal_nan=want.dtype.kind == "f"), f"{where}: {got} instead of {want}"
        if want.dtype.kind == "f":
            assert numpy.array_equal(numpy.signbit(got)[~numpy.isnan(want)], numpy.signbit(want)[~numpy.isnan(want)]), f"{where}: signs"
    else:
        numpy.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=tolerance, atol=tolerance, err_msg=where)


@pytest.mark.parametrize("name", CASES)
def test_case(fxcc, name, tmp_path):
    f, inputs, said = CASES[name]
    tolerance = TOLERANCE.get(name, 0)
    want = f(*(x.clone() for x in inputs))
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    if said is not None:
        equal(want[0].numpy(), said, tolerance, "eager itself")
    torch.export.save(torch.export.export(Function(f), tuple(x.clone() for x in inputs)), tmp_path / "m.pt2")
    arrays = [x.numpy() for x in inputs]
    paths = []
    for i, x in enumerate(arrays):
        paths.append(tmp_path / f"x{i}.npy")
        numpy.save(paths[-1], x)
    for way in ("--interpret", "--no-cache", "-O3"):
        done = subprocess.run([fxcc, "run", tmp_path / "m.pt2", *paths, "-o", tmp_path / "y.npz", way], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with numpy.load(tmp_path / "y.npz") as y:
            for i, (k, w) in enumerate(zip(y.files, want, strict=True)):
                equal(y[k], w, tolerance, f"{way}, result {i}")
    for options in ([], ["--disable=fuse,inplace"]):
        folder = tmp_path / f"c{len(options)}"
        sizes = emitted.emit(tmp_path / "m.pt2", folder, *options)
        net = emitted.Net(emitted.build(folder, sizes), folder / "net.bin")
        for i, (g, w) in enumerate(zip(net.run(arrays, [w.numpy() for w in want]), want, strict=True)):
            equal(g, w, tolerance, f"emitted C {options}, result {i}")
