"""torch.compile(backend="fxcc") in training: gradients and steps of optimizers.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: torch.compile needs it")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

import fxcc.dynamo  # noqa: E402
from test_torch_compile import Transformer, fresh  # noqa: E402, F401


class Residual(nn.Module):
    """A small ResNet."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.down = nn.Conv2d(8, 16, 1, stride=2)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.stem(x)
        x = self.down(F.relu(x + self.body(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Separable(nn.Module):
    """Inverted residuals, as MobileNet's."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, padding=1, groups=8),
                                    nn.BatchNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))

    def forward(self, x):
        return self.head(self.layers(x))


def perceptron():
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5))


def pictures():
    return torch.randn(4, 3, 12, 12), torch.randint(0, 5, (4,))


def words():
    ids = torch.randint(0, 50, (3, 9))
    return ids[:, :-1].contiguous(), ids[:, 1:].reshape(-1)


CASES = {"mlp": (perceptron, lambda: (torch.randn(8, 6), torch.randint(0, 5, (8,)))), "residual": (Residual, pictures), "separable": (Separable, pictures),
         "transformer": (Transformer, words), "by_hand": (lambda: Transformer(layers=1, by_hand=True), words)}


def loss_of(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, -2), y)


def gradients(model, run, batch):
    loss = loss_of(run, batch)
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters()]


@pytest.mark.parametrize("case", CASES)
def test_gradients(case):
    make, data = CASES[case]
    model, batch = make(), data()
    exact = copy.deepcopy(model).double()
    eager = copy.deepcopy(model)
    loss, got = gradients(model, torch.compile(model, backend="fxcc"), batch)
    wanted_loss, wanted = gradients(exact, exact, tuple(t.double() if t.is_floating_point() else t for t in batch))
    _, usual = gradients(eager, eager, batch)
    assert abs(loss - wanted_loss) < 1e-4
    for (name, _), g, w, u in zip(model.named_parameters(), got, wanted, usual):
        size = w.abs().max() + 1e-6
        allowed = max(1e-4, 4 * ((u - w).abs().max() / size).item())  # eager rounds, too
        assert ((g - w).abs().max() / size).item() < allowed, name
        assert g.stride() == u.stride(), name
    for (name, b), u in zip(model.named_buffers(), eager.buffers()):
        torch.testing.assert_close(b, u, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("case", ["mlp", "residual", "separable", "transformer"])
def test_twenty_steps(case, optimizer):
    make, data = CASES[case]
    model, batch = make(), data()
    losses = []
    for compiled in (False, True):
        m = copy.deepcopy(model)
        counter = CompileCounterWithBackend("fxcc")
        run = torch.compile(m, backend=counter) if compiled else m
        steps = getattr(torch.optim, optimizer)(m.parameters(), lr=0.1 if optimizer == "SGD" else 0.003)
        seen = []
        for _ in range(20):
            steps.zero_grad()
            loss = loss_of(run, batch)
            loss.backward()
            steps.step()
            seen.append(loss.item())
        losses.append(seen)
        assert counter.frame_count == compiled  # once, not for each step
    eager, fast = losses
    assert fast[-1] < 0.9 * fast[0]
    assert max(abs(a - b) for a, b in zip(eager, fast)) < 0.02 * eager[0]


def test_sizes_left_open():
    model = Transformer(layers=1)
    eager = copy.deepcopy(model)
    counter = CompileCounterWithBackend("fxcc")
    compiled = torch.compile(model, backend=counter, dynamic=True)
    compiled(torch.randint(0, 50, (2, 8)))
    once = counter.frame_count
    for shape in ((2, 8), (3, 5), (4, 12)):
        ids, y = torch.randint(0, 50, shape), torch.randint(0, 50, (shape[0] * shape[1],))
        _, got = gradients(model, compiled, (ids, y))
        _, want = gradients(eager, eager, (ids, y))
        for (name, _), g, w in zip(model.named_parameters(), got, want):
            torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-4, msg=name)
        model.zero_grad()
        eager.zero_grad()
    assert counter.frame_count == once


def test_dropout_is_repeatable():
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 1))
    compiled = torch.compile(model, backend="fxcc")
    x = torch.randn(8, 4)

    def run():
        torch.manual_seed(3)
        model.zero_grad()
        first, second = compiled(x), compiled(x)
        (first + second).sum().backward()
        return first, second, model[0].weight.grad.clone()
    a, b = run(), run()
    assert all(torch.equal(s, t) for s, t in zip(a, b)) and not torch.equal(a[0], a[1])
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_without_training():
    model = perceptron()
    compiled = torch.compile(model, backend=fxcc.backend(training=False, fallback="error"))
    x, y = torch.randn(3, 6), torch.randint(0, 5, (3,))
    _, got = gradients(model, compiled, (x, y))
    eager = copy.deepcopy(model)
    eager.zero_grad()
    for g, w in zip(got, gradients(eager, eager, (x, y))[1]):
        torch.testing.assert_close(g, w)


def test_gradients_of_inputs_and_views():
    def f(x, w):
        y = x @ w
        return y.t(), y.sum(), x
    grads = []
    for run in (f, torch.compile(f, backend="fxcc")):
        x, w = torch.arange(6.0).view(2, 3).requires_grad_(), torch.ones(3, 4, requires_grad=True)
        a, b, c = run(x, w)
        assert a.shape == (4, 2) and a.stride() == (1, 4)
        (a.square().sum() + b + c.sum()).backward()
        grads.append((x.grad, w.grad))
    for g, w in zip(*grads):
        torch.testing.assert_close(g, w)


def dropped(y, x, p):
    """What a dropout of ones kept; scaled right."""
    kept = y != 0
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))
    return kept


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_is_compiled(p):
    """Drawn in compiled code, with nothing left to torch: the right share, other elements in each call, and gradients where it kept."""
    compiled = torch.compile(lambda x: F.dropout(x * 1, p), backend=fxcc.backend(fallback="error"))
    x = torch.ones(200, 500, requires_grad=True)
    masks = []
    for seed in (1, None, 1):
        if seed is not None:
            torch.manual_seed(seed)
        y = compiled(x)
        x.grad = None
        y.sum().backward()
        kept = dropped(y, x, p)
        assert torch.equal(x.grad != 0, kept) and torch.equal(x.grad, y.detach())
        for share in (kept.float().mean(), *kept.float().mean(1)[:2], *kept.float().mean(0)[:2]):
            n = kept.numel() if share.item() == kept.float().mean().item() else 200
            assert abs(share - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5
        masks.append(kept)
    assert torch.equal(masks[0], masks[2]) and not torch.equal(masks[0], masks[1])
    both = (masks[0] & masks[1]).float().mean().item()  # of different calls: independent
    assert abs(both - (1 - p) ** 2) < 0.01


def test_transformer_is_one_part(capsys):
    """Dropout cuts a training graph no more: one part forward, one backward, besides views."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            return self.head(self.body(x))
    model = Block()
    compiled = torch.compile(model, backend=fxcc.backend(verbose=True, fallback="error"))
    compiled(torch.randn(2, 7, 16)).sum().backward()
    told = capsys.readouterr().err
    assert told.count(" 1 compiled parts of ") == 2 and told.count("compiled parts") == 2, told
    assert all(p.grad is not None for p in model.parameters())


def test_random_numbers_of_torch():
    """random="torch": the same numbers as eager."""
    def f(x):
        return F.dropout(x, 0.5) + torch.rand_like(x)
    results = []
    for run in (f, torch.compile(f, backend=fxcc.backend(random="torch"))):
        torch.manual_seed(5)
        results.append(run(torch.ones(40, requires_grad=True)).detach())
    assert torch.equal(*results)
    with pytest.raises(fxcc.ArgumentError, match="random: expected 'fxcc' or 'torch', got 'cuda'"):
        fxcc.backend(random="cuda")


def test_random_numbers_of_all_kinds():
    """Without inputs, in inference, with open sizes: each has its own distribution, and the seed repeats it."""
    def f(n):
        return torch.rand(n), torch.randn(n) * 3 + 1, torch.randint(2, 7, (n,)), torch.bernoulli(torch.full((n,), 0.25)), torch.empty(n).exponential_(2.0)
    compiled = torch.compile(f, backend=fxcc.backend(fallback="error"), dynamic=True)
    torch.manual_seed(1)
    first, second = compiled(40000), compiled(30000)
    torch.manual_seed(1)
    assert all(torch.equal(a, b) for a, b in zip(first, compiled(40000)))
    for (u, z, i, b, e), n in ((first, 40000), (second, 30000)):
        assert u.shape == z.shape == i.shape == b.shape == e.shape == (n,)
        assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.005
        assert abs(z.mean() - 1) < 0.1 and abs(z.std() - 3) < 0.1
        assert set(i.tolist()) == {2, 3, 4, 5, 6} and abs(i.float().mean() - 4) < 0.05
        assert set(b.tolist()) == {0.0, 1.0} and abs(b.mean() - 0.25) < 0.02
        assert e.min() > 0 and abs(e.mean() - 0.5) < 0.02
    assert not torch.equal(first[0][:30000], second[0])


def test_out_of_range_targets():
    """A loss refuses a target that is no class."""
    x, y = torch.randn(3, 4, requires_grad=True), torch.tensor([0, 4, 1])
    with pytest.raises(Exception, match="out of range"):
        torch.compile(F.cross_entropy, backend="fxcc")(x, y)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_out_of_range_targets_of_a_gradient(reduction, weighted):
    """The gradient alone refuses it too, compiled and interpreted; the class to ignore is none out of range."""
    g = fxcc.Graph()
    grad, x, t, w, total = [g.placeholder(n, s) for n, s in (("g", "f32[]" if reduction else "f32[3]"), ("x", "f32[3, 5]"), ("t", "i64[3]"),
                                                             ("w", "f32[5]"), ("total", "f32[]"))]
    g.output(g.call_function("aten.nll_loss_backward.default", (grad, x, t, w if weighted else None, reduction, -100, total)))
    values = [torch.randn([] if reduction else [3]), torch.randn(3, 5), None, torch.rand(5), torch.tensor(2.0)]
    for run in (g.compile(), g.interpret):
        for targets in ([1, -100, 4], [0, 0, 3]):
            values[2] = torch.tensor(targets)
            got = torch.as_tensor(run(*values))
            torch.testing.assert_close(got, torch.ops.aten.nll_loss_backward(values[0], values[1], values[2], values[3] if weighted else None, reduction, -100, values[4]))
        for targets in ([1, 5, 0], [-1, 0, 0], [0, 0, 1 << 40]):
            values[2] = torch.tensor(targets)
            with pytest.raises(fxcc.ArgumentError, match="nll_loss_backward"):
                run(*values)


def test_means_and_views_by_strides():
    """What torch says by as_strided (a mean over all pixels of a channels_last tensor), and empty tensors that are written whole."""
    def f(x, w):
        y = F.adaptive_avg_pool2d(x * w, 1).flatten(1)
        return y.square().sum()
    results = []
    for run in (f, torch.compile(f, backend=fxcc.backend(fallback="error"))):
        torch.manual_seed(2)
        x, w = torch.randn(2, 6, 5, 4).to(memory_format=torch.channels_last).requires_grad_(), torch.randn(6, 1, 1, requires_grad=True)
        loss = run(x, w)
        loss.backward()
        results.append((loss.detach(), x.grad, w.grad))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
