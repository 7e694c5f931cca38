"""torch.compile(backend="fxcc"): dtypes, layouts, aliases and odd outputs.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: torch.compile needs it")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import fxcc.dynamo  # noqa: E402
from test_torch_compile import STRICT, close, fresh  # noqa: E402, F401


def same(f, *args, options=STRICT, tolerance=1e-4, **kw):
    """Eager's results, in values, types, strides, of the same arguments; what f writes is written alike."""
    ours, theirs = [[a.clone(memory_format=torch.preserve_format) if isinstance(a, torch.Tensor) else a for a in args] for _ in range(2)]
    with torch.no_grad():
        got, want = torch.compile(f, backend="fxcc", options=options, **kw)(*ours), f(*theirs)
    assert type(got) is type(want)
    for g, w in zip(*[r if isinstance(r, (tuple, list)) else (r,) for r in (got, want)]):
        if isinstance(w, torch.Tensor):
            close(g, w, tolerance)
        else:
            assert g == w and type(g) is type(w)
    for a, b in zip(ours, theirs):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b)
    return got


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats(dtype):
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(dtype, 1e-4)
    same(lambda x, w: F.softmax(F.gelu(x @ w), -1), torch.randn(4, 8).to(dtype), torch.randn(8, 8).to(dtype), tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_integers(dtype):
    x, y = torch.randint(0, 2, (3, 5)).to(dtype), torch.randint(0, 2, (5,)).to(dtype)
    same(lambda x, y: (x & y, x == y, torch.where(y > 0, x, y), x.sum(1), x.float() / 2), x, y)


def test_autocast():
    def f(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return F.relu(x @ w), x + 1
    a, b = same(f, torch.randn(4, 8), torch.randn(8, 4), tolerance=3e-2)
    assert a.dtype == torch.bfloat16 and b.dtype == torch.float32


def test_layouts():
    x = torch.randn(2, 3, 6, 5)
    conv = nn.Conv2d(3, 4, 3).eval()
    for y in (x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3), x[:, :, ::2], x[:, :1].expand(2, 3, 6, 5), x.flip(1)):
        torch._dynamo.reset()
        same(lambda y: (y.relu(), conv(y), y.sum(1), y + 1), y)


def test_empty_tensors():
    same(lambda x: (x + 1, x.sum(), torch.cat([x, x], 1), x.new_ones(0, 3)), torch.empty(0, 4))
    same(lambda x, w: x @ w, torch.empty(3, 0), torch.empty(0, 2))


def test_outputs_of_all_kinds():
    x = torch.randn(3, 4)
    got = same(lambda x: (x, x + 1, None, 7, x.shape[0], x.t(), x[0], "text"), x)
    assert got[2] is None and got[3] == 7
    a, b, c = same(lambda x: ((y := x * 2), y, y.view(-1)), x)
    assert a is b and c.data_ptr() == a.data_ptr()
    same(lambda x: [x.expand(2, 3, 4), x.diagonal(), x.unsqueeze(0).squeeze(0)], x)
    same(lambda: torch.arange(5) * 2)
    same(lambda x: x, x)


def test_sizes_as_values():
    f = lambda x, n: (x.new_full((n, x.shape[1]), 3) + x[:1], n * 2, x.shape[0] + n, torch.arange(n), x.numel())  # noqa: E731
    compiled = torch.compile(f, backend="fxcc", dynamic=True, options=STRICT)
    with torch.no_grad():
        for rows, n in ((3, 5), (4, 2), (7, 6)):
            x = torch.randn(rows, 4)
            for g, w in zip(compiled(x, n), f(x, n)):
                close(g, w) if isinstance(w, torch.Tensor) else pytest.approx(g) == w


def test_open_sizes_in_expressions():
    def f(x, y):
        z = torch.cat([x, y], 0)
        return z.view(-1, 2).sum(1), z[1:].t(), z.reshape(z.shape[0] * 2, -1), F.pad(z, (0, 1))
    compiled = torch.compile(f, backend="fxcc", dynamic=True, options=STRICT)
    with torch.no_grad():
        for a, b in ((2, 3), (4, 6), (5, 5)):
            x, y = torch.randn(a, 4), torch.randn(b, 4)
            for g, w in zip(compiled(x, y), f(x, y)):
                close(g, w)


def test_inputs_that_are_written():
    def f(x, y):
        x.add_(1)
        y[0] = x[0].sum()
        x[:, 0].mul_(2)
        return x.sum(), y.t()
    same(f, torch.randn(3, 4), torch.randn(4))
    same(f, torch.randn(3, 4), torch.randn(4, 2))


def test_tensors_that_graphs_hold():
    table = torch.randn(4, 3)
    same(lambda x: x @ table + torch.tensor([1.0, 2.0, 3.0]), torch.randn(2, 4))


def test_inference_mode():
    model = nn.Linear(3, 2).eval()
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    x = torch.randn(4, 3)
    with torch.inference_mode():
        close(compiled(x), model(x))
    with torch.no_grad():
        close(compiled(x), model(x))


def test_random_numbers():
    f = lambda x: (x * torch.rand(64), F.dropout(x + 1, 0.5), torch.randn_like(x) * 2)  # noqa: E731
    compiled = torch.compile(f, backend="fxcc", options=STRICT)
    x = torch.randn(64)
    with torch.no_grad():
        runs = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            runs.append(compiled(x))
    for one, again, other in zip(*runs):
        assert torch.equal(one, again) and not torch.equal(one, other)
    dropped = runs[0][1]
    assert torch.all((dropped == 0) | torch.isclose(dropped, 2 * (x + 1)))


def test_threads():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    xs = [torch.randn(8, 16) for _ in range(4)]
    wrong = []
    with torch.no_grad():
        want = [model(x) for x in xs]
        compiled(xs[0])

    def work(i):
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(compiled(xs[i]), want[i], atol=1e-4):
                    wrong.append(i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_layers_are_named():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.ModuleList([nn.Linear(3, 3)])

        def forward(self, x):
            return torch.linalg.eigvalsh(self.layer[0](x))
    seen = []
    run = fxcc.dynamo.Program.__init__

    def noting(self, gm, *args):
        from fxcc._torch_graph import place
        seen.extend(place(n)[0] for n in gm.graph.nodes if n.op == "call_function")
        run(self, gm, *args)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad(), pytest.warns(UserWarning, match="eigh"):
        patch.setattr(fxcc.dynamo.Program, "__init__", noting)
        torch.compile(Net().eval(), backend="fxcc")(torch.randn(3, 3))
    assert "layer.0" in seen
