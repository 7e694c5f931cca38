"""Every row of ir/op.def against PyTorch: shape inference by the types in the saved file, values by `fxcc run`, interpreted and compiled.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

Many calls share a program, because exporting costs far more than running: the module of a group returns all their results.
"""
import pathlib
import re
import subprocess
import zlib

import numpy
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers its operators

import cases
import cases_grad  # noqa: F401 (adds its groups)
import cases_training  # noqa: F401  its groups

OP_DEF = pathlib.Path(__file__).resolve().parents[2] / "ir" / "op.def"
# Rows that are tested here, but by tests below rather than as cases of their own.
ELSEWHERE = {
    "fxcc.attention.default": "tests/lower/attention.test: it is no operator of PyTorch's",
    "_operator.getitem": "every case with several results",
    "fxcc.philox.default": "tests/unit/test_philox.c: it is no operator of PyTorch's",
    **dict.fromkeys(("aten.native_dropout.default", "aten.bernoulli.default", "aten.bernoulli.p", "aten.uniform.default",
                     "aten.normal_functional.default", "aten.exponential.default", "aten.rand.default", "aten.randn.default",
                     "aten.rand_like.default", "aten.randn_like.default", "aten.randint.default", "aten.randint.low",
                     "aten.randint_like.default", "aten.randint_like.low_dtype"), "test_random: numbers are not torch's, what they are like is"),
    "aten.sym_size.int": "test_dynamic_sizes",
    "aten.sym_numel.default": "test_arithmetic_on_sizes",
    "torch.sym_max": "test_arithmetic_on_sizes",
    "torch.sym_min": "test_arithmetic_on_sizes",
    "torch.sym_sum": "test_arithmetic_on_sizes",
    "aten.sym_constrain_range.default": "tests/lower/sizes.test",
    "aten.sym_constrain_range_for_size.default": "tests/lower/sizes.test",
    "aten._assert_scalar.default": "tests/lower/sizes.test",
    "fxcc.conv_weight_grad.default": "convolution_backward in core form: it is no operator of PyTorch's",
    "aten._native_batch_norm_legit.default": "test_running_statistics",
    "aten._batch_norm_with_update.default": "test_running_statistics",
    "aten.new_empty.default": "test_empty",
    "aten.empty.memory_format": "test_empty",
    "aten.empty_like.default": "test_empty",
    "aten.empty_strided.default": "test_empty",
    "aten.empty_permuted.default": "test_empty",
    "aten.new_empty_strided.default": "test_empty",
    "aten._assert_tensor_metadata.default": "every case with to.dtype, by export",
}
PER_PROGRAM = 250
SUM_TOLERANCE = 3e-6  # of max |reference|: eager sums in f32
F64_TOLERANCE = 1e-13


def resolve(name):
    space, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, space), op), overload)


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else [r for r in result if r is not None]


class Calls(torch.nn.Module):
    """All calls of a list of cases; their tensors are the module's inputs, in order."""

    def __init__(self, calls):
        super().__init__()
        self.calls, self.tensors = calls, []
        for _, args, _, _ in calls:
            for a in args:
                self.tensors += [t for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor)]
        self.tensors = [t.detach().clone(memory_format=torch.contiguous_format) for t in self.tensors]

    def forward(self, *tensors):
        it, results = iter(tensors), []
        for name, args, kwargs, _ in self.calls:
            low = kwargs.get("_through")

            def one(a):
                if not isinstance(a, torch.Tensor):
                    return a
                t = next(it)
                return t.to(low) if low else t
            values = [[one(t) for t in a] if isinstance(a, list) else one(a) for a in args]
            r = flat(resolve(name)(*values, **{k: v for k, v in kwargs.items() if k != "_through"}))
            results += [t.to(torch.float32) if t.dtype in (torch.bfloat16, torch.float16) else t.clone() for t in r]
        return tuple(results)


def run(fxcc, model, tensors, folder, expect=0):
    program = torch.export.export(model, tuple(tensors))
    return run_program(fxcc, program, tensors, folder, expect)


def run_program(fxcc, program, tensors, folder, expect=0):
    torch.export.save(program, folder / "m.pt2")
    return run_model(fxcc, folder / "m.pt2", tensors, folder, expect)


def run_model(fxcc, model, tensors, folder, expect=0, way="--interpret"):
    paths = []
    for i, t in enumerate(tensors):
        paths.append(folder / f"in{i}.npy")
        numpy.save(paths[-1], t.numpy())
    done = subprocess.run([fxcc, "run", model, *paths, "-o", folder / "out.npz", way], capture_output=True, text=True)
    assert done.returncode == expect, done.stderr[-3000:]
    if expect:
        return done.stderr
    with numpy.load(folder / "out.npz") as z:
        return [z[k] for k in z.files]


def difference(got, want, tolerance):
    """None when equal enough, else words."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind != "f" or want.size == 0:
        return None if numpy.array_equal(got, want) else f"{got} instead of {want}"
    if not numpy.array_equal(numpy.isnan(got), numpy.isnan(want)):
        return f"NaN elsewhere: {got} instead of {want}"
    finite = numpy.isfinite(want)
    if not numpy.array_equal(got[~finite & ~numpy.isnan(want)], want[~finite & ~numpy.isnan(want)]):
        return f"infinities elsewhere: {got} instead of {want}"
    a, b = got[finite].astype(numpy.float64), want[finite].astype(numpy.float64)
    if not b.size:
        return None
    if tolerance == "max":
        bound = numpy.abs(b).max() * (F64_TOLERANCE if want.dtype == numpy.float64 else SUM_TOLERANCE)
    else:
        bound = numpy.abs(b) * tolerance + (numpy.finfo(want.dtype).tiny if tolerance else 0)
    wrong = ~(numpy.abs(a - b) <= bound)
    if not wrong.any():
        return None
    i = numpy.argmax(numpy.where(wrong, numpy.abs(a - b), -1))
    return f"{a[i]!r} instead of {b[i]!r} ({wrong.sum()} of {b.size} differ)"


def all_cases(name):
    c = cases.Cases(zlib.crc32(name.encode()))
    cases.GROUPS[name](c)
    return c


# Rows of which lowering takes some results only, or none: why.
NOT_LOWERED = {
    "aten.max_pool2d_with_indices.default": "indices of maxima",
    "aten.adaptive_max_pool2d.default": "indices of maxima",
    "aten._scaled_dot_product_flash_attention_for_cpu.default": "the logarithms of the sums are for training",
    "aten.conv3d.default": "over three dims",
}


def without_kernel(call):
    """Windows' maxima and resampling of numbers for which there are no loops: compiling refuses them by name and dtype."""
    return call[0].startswith(("aten.max_pool", "aten.upsample_")) and call[1][0].dtype not in (torch.float32, torch.float16, torch.bfloat16)


def compare(calls, got, want):
    """What is wrong, in words."""
    wrong, at = [], 0
    for call, args, kwargs, tolerance in calls:
        values = [a.contiguous() if isinstance(a, torch.Tensor) else a for a in args]
        low = kwargs.get("_through")
        values = [a.to(low) if low and isinstance(a, torch.Tensor) else a for a in values]
        n = len(flat(resolve(call)(*values, **{k: v for k, v in kwargs.items() if k != "_through"})))
        for k in range(n):
            words = difference(got[at + k], want[at + k], tolerance)
            if words:
                shown = [f"{a.dtype}{tuple(a.shape)}" if isinstance(a, torch.Tensor) else a for a in args]
                wrong.append(f"{call} {shown} {kwargs} result {k}: {words}")
        at += n
    assert at == len(got) == len(want)
    return wrong


def export(calls):
    """The module of these calls, its program, what eager gives."""
    model = Calls(calls)
    program = torch.export.export(model, tuple(model.tensors))
    targets = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    missing = {c[0] for c in calls} - targets
    assert not missing, f"not in the exported program: {missing}"
    return model, program, [t.numpy() for t in model(*model.tensors)]


@pytest.mark.parametrize("name", list(cases.GROUPS))
def test_group(fxcc, name, tmp_path):
    """Each call as it stands, in core form, and compiled in memory."""
    everything, wrong = all_cases(name), []
    for first in range(0, len(everything), PER_PROGRAM):
        calls = everything[first:first + PER_PROGRAM]
        model, program, want = export(calls)
        got = run_program(fxcc, program, model.tensors, tmp_path)
        wrong += compare(calls, got, want)
        lowered = [c for c in calls if c[0] not in NOT_LOWERED and not (c[0].startswith("aten.convolution") and c[1][1].dim() > 4)]
        if not lowered:
            continue
        if len(lowered) < len(calls):
            model, program, want = export(lowered)
            torch.export.save(program, tmp_path / "m.pt2")
        done = subprocess.run([fxcc, "compile", tmp_path / "m.pt2", "-o", tmp_path / "c", "--stop-after=decompose",
                               "--dump-after=decompose"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        (tmp_path / "core.fx").write_text(done.stdout[done.stdout.index("graph "):])
        got = run_model(fxcc, tmp_path / "core.fx", model.tensors, tmp_path)
        wrong += [f"in core form: {w}" for w in compare(lowered, got, want)]
        compiled = [c for c in lowered if not without_kernel(c)]
        if len(compiled) < len(lowered):
            model, program, want = export(compiled)
            torch.export.save(program, tmp_path / "m.pt2")
        got = run_model(fxcc, tmp_path / "m.pt2", model.tensors, tmp_path, way="--no-cache")
        wrong += [f"in memory: {w}" for w in compare(compiled, got, want)]
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong[:40])


def test_every_row_has_cases():
    rows = re.findall(r'^OP\(\w+, "([^"]+)"', OP_DEF.read_text(), re.M)
    assert len(rows) > 100 and len(rows) == len(set(rows))
    covered = {c[0] for name in cases.GROUPS for c in all_cases(name)}
    assert set(rows) - covered == set(ELSEWHERE), "rows without cases, or with a reason although they have some"
    assert covered <= set(rows)


# ---- what single calls do not show ------------------------------------------------------------------------------------

class InPlace(torch.nn.Module):
    def forward(self, x, y):
        a = x + 1
        view = a[:, 1:3]
        view.mul_(y)                      # seen through a
        a.relu_()
        flat = a.view(-1)
        flat[::2].add_(0.5)
        b = a.transpose(0, 1)
        b.clamp_(max=2.0)
        x.sub_(1)                         # the caller's tensor stays as it was
        c = torch.zeros(2, 3)
        c[0] = y[0, 0]
        c[:, 1].copy_(torch.arange(2))
        return a, view, b, x * 1, c.masked_fill_(c > 1, -1.0)


def test_in_place_through_views(fxcc, tmp_path):
    x, y = torch.randn(4, 5), torch.randn(4, 1)
    want = InPlace()(x.clone(), y)
    program = torch.export.export(InPlace(), (x.clone(), y))
    got = run_program(fxcc, program, [x, y], tmp_path)
    for g, w in zip(got, want, strict=True):
        assert difference(g, w.numpy(), 1e-6) is None


def test_empty(fxcc, tmp_path):
    """Whatever is in it must not matter."""
    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.empty(2, 3).fill_(1.5), torch.empty_like(x).copy_(x), x.new_empty(3, dtype=torch.int64).zero_(), \
                torch.empty_strided((2, 3), (1, 2)).fill_(2), torch.empty_permuted((2, 3), (1, 0), dtype=torch.float64).fill_(3), \
                x.new_empty_strided((4,), (2,)).fill_(4)

    x = torch.randn(2, 2)
    program = torch.export.export(Net(), (x,))
    for g, w in zip(run_program(fxcc, program, [x], tmp_path), Net()(x), strict=True):
        assert difference(g, w.numpy(), 0) is None


class Sizes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=2)

    def forward(self, x):
        y = torch.nn.functional.max_pool2d(self.conv(x).relu(), 3, 1, 1)
        n, c, h, w = y.shape
        return y.flatten(1), y[:, :, : h - 1], torch.cat([y, y * 2], 0), torch.zeros(n, h + 1)


def test_dynamic_sizes(fxcc, tmp_path):
    model = Sizes().eval()
    batch, height = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("height", min=9, max=300)
    with torch.no_grad():
        program = torch.export.export(model, (torch.randn(2, 3, 24, 20),), dynamic_shapes=({0: batch, 2: height},))
        torch.export.save(program, tmp_path / "m.pt2")
        for n, h in ((2, 24), (1, 17), (5, 33)):
            x = torch.randn(n, 3, h, 20)
            for g, w in zip(run_model(fxcc, tmp_path / "m.pt2", [x], tmp_path), model(x), strict=True):
                assert difference(g, w.numpy(), "max") is None
        assert "65" in run_model(fxcc, tmp_path / "m.pt2", [torch.zeros(65, 3, 24, 20)], tmp_path, expect=1)


class Arithmetic(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape
        return (x.new_zeros(torch.sym_max(n, m) // 2 + 1) + 1, x.flatten()[: n * m // 4], x[:, m - 2:], x.repeat(2, 1)[-n:],
                torch.arange(n * 3 - m % 2), x.repeat(1, 2).reshape(x.numel(), 2).sum(0), torch.ones(torch.sym_min(n, 7), n + m + 5), x.mT @ x,
                y.expand(n, 3), torch.cat([x, x], 1).view(n, 2, m).unbind(1)[1], x.tril(), x[torch.arange(n - 1)])


def test_arithmetic_on_sizes(fxcc, tmp_path):
    """Interpreted as imported and in core form, at several sizes."""
    model = Arithmetic()
    n, m = torch.export.Dim("n", min=3, max=64), torch.export.Dim("m", min=4, max=64)
    program = torch.export.export(model, (torch.randn(6, 10), torch.randn(1, 3)), dynamic_shapes=({0: n, 1: m}, None))
    torch.export.save(program, tmp_path / "m.pt2")
    done = subprocess.run([fxcc, "compile", tmp_path / "m.pt2", "-o", tmp_path / "c", "--stop-after=decompose", "--dump-after=decompose"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / "core.fx").write_text(done.stdout[done.stdout.index("graph "):])
    assert "sym_" not in done.stdout and "_operator" not in done.stdout
    for rows, columns in ((6, 10), (3, 4), (9, 30)):
        x, y = torch.randn(rows, columns), torch.randn(1, 3)
        for graph in ("m.pt2", "core.fx"):
            for g, w in zip(run_model(fxcc, tmp_path / graph, [x, y], tmp_path), model(x, y), strict=True):
                assert difference(g, w.numpy(), "max") is None
    assert "70" in run_model(fxcc, tmp_path / "core.fx", [torch.randn(70, 10), y], tmp_path, expect=1)


def test_wrong_inputs(fxcc, tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x.relu()

    program = torch.export.export(Net(), (torch.randn(1, 3, 32, 32),))
    err = run_program(fxcc, program, [torch.randn(1, 3, 32)], tmp_path, expect=1)
    assert re.search(r"input .*expected \w+\[1, 3, 32, 32\], got \w+\[1, 3, 32\]", err)
    err = run_program(fxcc, program, [torch.randn(1, 3, 32, 32).double()], tmp_path, expect=1)
    assert re.search(r"input .*expected \w+32\[1, 3, 32, 32\], got \w+64\[1, 3, 32, 32\]", err)
    err = run_program(fxcc, program, [torch.randn(1), torch.randn(1)], tmp_path, expect=1)
    assert "input" in err


@pytest.mark.parametrize("name", ["_native_batch_norm_legit", "_batch_norm_with_update", "native_batch_norm", "batch_norm"])
def test_running_statistics(fxcc, name, tmp_path):
    """Rows that write their running statistics: what they return, and what they leave there."""
    numbers = {"_batch_norm_with_update": (0.3, 1e-5), "batch_norm": (True, 0.3, 1e-5, False)}.get(name, (True, 0.3, 1e-5))

    class Net(torch.nn.Module):
        def forward(self, x, weight, bias, mean, var):
            mean, var = mean * 1, var * 1
            y = getattr(torch.ops.aten, name)(x, weight, bias, mean, var, *numbers)
            return *(flat(y)[:3]), mean, var

    tensors = [torch.randn(3, 4, 5), torch.randn(4), torch.randn(4), torch.randn(4), torch.rand(4) + 0.1]
    want = Net()(*tensors)
    program = torch.export.export(Net(), tuple(tensors))
    for g, w in zip(run_program(fxcc, program, tensors, tmp_path), want, strict=True):
        assert difference(g, w.numpy(), "max") is None


def test_integer_division_by_zero(fxcc, tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x, y):
            return torch.div(x, y, rounding_mode="floor")

    a = [torch.tensor([1, 2]), torch.tensor([1, 0])]
    program = torch.export.export(Net(), (a[0], torch.tensor([1, 1])))
    assert "division by zero" in run_program(fxcc, program, a, tmp_path, expect=1)
