"""Random operators: what they give is not torch's, but is like it (mean, variance, range, share that is dropped), follows from the seed and the
number of the call, and is the same by the interpreter, in memory and as emitted C.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import math
import pathlib
import re
import subprocess

import numpy
import pytest
import torch
import torch.nn.functional as F

N = 40000
OP_DEF = pathlib.Path(__file__).resolve().parents[2] / "ir" / "op.def"


class Model(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def run(fxcc, folder, f, x, calls=1, ways=("--interpret",)):
    program = torch.export.export(Model(f).train(), (x,))
    torch.export.save(program, folder / "m.pt2")
    numpy.save(folder / "x.npy", x.numpy())
    results = []
    for way in ways:
        out = folder / f"out{way}.npz"
        done = subprocess.run([fxcc, "run", *([way] if way else []), folder / "m.pt2", folder / "x.npy", f"--calls={calls}", "-o", out],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with numpy.load(out) as z:
            results.append([z[k] for k in z.files])
    return program, results


# f of x (N elements, uniform), mean and deviation of the numbers, least and greatest
CASES = {
    "rand": (lambda x: torch.rand(N), 0.5, 12 ** -0.5, 0, 1),
    "rand double": (lambda x: torch.rand(N, dtype=torch.float64), 0.5, 12 ** -0.5, 0, 1),
    "rand half": (lambda x: torch.rand(N, dtype=torch.float16), 0.5, 12 ** -0.5, 0, 1),
    "rand_like": (lambda x: torch.rand_like(x), 0.5, 12 ** -0.5, 0, 1),
    "randn": (lambda x: torch.randn(N), 0, 1, -6, 6),
    "randn_like": (lambda x: torch.randn_like(x), 0, 1, -6, 6),
    "randint": (lambda x: torch.randint(10, (N,)), 4.5, (99 / 12) ** 0.5, 0, 9.5),
    "randint.low": (lambda x: torch.randint(-5, 5, (N,)), -0.5, (99 / 12) ** 0.5, -5, 4.5),
    "randint_like": (lambda x: torch.randint_like(x, 10), 4.5, (99 / 12) ** 0.5, 0, 9.5),
    "randint_like.low_dtype": (lambda x: torch.randint_like(x, 10, 20), 14.5, (99 / 12) ** 0.5, 10, 19.5),
    "bernoulli": (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), 0.3, 0.21 ** 0.5, 0, 1.5),
    "bernoulli.p": (lambda x: torch.bernoulli(x, 0.3), 0.3, 0.21 ** 0.5, 0, 1.5),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.3), 0.3, 0.21 ** 0.5, 0, 1.5),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(-1, 3), 1, 4 * 12 ** -0.5, -1, 3),
    "normal_": (lambda x: torch.empty_like(x).normal_(2, 0.5), 2, 0.5, -1, 5),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2), 0.5, 0.5, 0, 10),
    "dropout": (lambda x: F.dropout(torch.ones_like(x), 0.25), 1, 3 ** -0.5, 0, 1.4),
    "dropout1d": (lambda x: F.dropout1d(torch.ones(N, 1, 1), 0.25), 1, 3 ** -0.5, 0, 1.4),
    "native_dropout": (lambda x: torch.native_dropout(torch.ones_like(x), 0.25, True)[0], 1, 3 ** -0.5, 0, 1.4),
    "dropout of all": (lambda x: F.dropout(torch.ones_like(x), 1.0), 0, 0, 0, 0.1),
}


@pytest.mark.parametrize("name", list(CASES))
def test_numbers(fxcc, name, tmp_path):
    f, mean, deviation, least, most = CASES[name]
    _, ((got, *_),) = run(fxcc, tmp_path, f, torch.rand(N, generator=torch.Generator().manual_seed(1)))
    want = f(torch.rand(N))
    assert got.shape == tuple(want.shape) and got.dtype == want.numpy().dtype
    v = got.astype(numpy.float64).ravel()
    assert abs(v.mean() - mean) <= 5 * deviation / math.sqrt(N)
    assert abs(v.std() - deviation) <= 5 * deviation / math.sqrt(N) * 2
    assert least <= v.min() and v.max() < most
    if deviation:  # neighbours have nothing to do with each other
        assert abs(numpy.corrcoef(v[:-1], v[1:])[0, 1]) < 5 / math.sqrt(N)


def test_calls_and_ways(fxcc, tmp_path):
    """Each call draws anew, from the state [seed, call], and every way of running gives the same bits."""
    ways = ("--interpret", "--emit-c", "")
    x = torch.rand(300)
    _, results = run(fxcc, tmp_path, lambda x: (F.dropout(x, 0.5), F.dropout(x, 0.5), torch.rand(50)), x, 3, ways)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.dtype == b.dtype and numpy.array_equal(a, b)
    calls = [results[0][i:i + 4] for i in range(0, 12, 4)]
    for number, (a, b, u, state) in enumerate(calls):
        assert list(state) == [0, number + 1]
        assert not numpy.array_equal(a, b), "two layers drop the same elements"
        assert set(numpy.unique(a / x.numpy())) <= {0.0, 2.0}
    for k in range(3):
        assert not numpy.array_equal(calls[0][k], calls[1][k]) and not numpy.array_equal(calls[1][k], calls[2][k])


def test_masks_fit(fxcc, tmp_path):
    x = torch.randn(64, 8)
    _, ((y, mask, *_),) = run(fxcc, tmp_path, lambda x: torch.native_dropout(x, 0.3, True), x)
    assert mask.dtype == bool and numpy.array_equal(y == 0, ~mask)
    assert numpy.allclose(y[mask], x.numpy()[mask] / 0.7, rtol=1e-6)


def test_channels(fxcc, tmp_path):
    _, ((y, *_),) = run(fxcc, tmp_path, lambda x: F.dropout2d(torch.ones(8, 16, 3, 3), 0.5), torch.rand(1))
    whole = y.reshape(8 * 16, 9)
    assert numpy.array_equal(whole.min(1), whole.max(1)) and 30 < (whole[:, 0] == 0).sum() < 98


def test_evaluation_is_the_identity(fxcc, tmp_path):
    x = torch.randn(5, 5)
    _, (results,) = run(fxcc, tmp_path, lambda x: F.dropout(x, 0.5, training=False) * 1, x)
    assert len(results) == 1 and numpy.array_equal(results[0], x.numpy())


def test_every_random_row_is_here():
    rows = re.findall(r'^OP\(\w+, "aten\.([^"]+)"[^\n]*\n[^\n]*eval_random\)', OP_DEF.read_text(), re.M)
    calls = {"bernoulli.default": "bernoulli", "uniform.default": "uniform_", "normal_functional.default": "normal_", "exponential.default": "exponential_"}
    names = {calls.get(r, r.removesuffix(".default")) for r in rows}
    assert len(rows) == 14 and names <= set(CASES)
