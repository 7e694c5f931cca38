"""torch.compile(backend="fxcc") in inference: whole models, open sizes, graph breaks, parameters that change.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import time
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: torch.compile needs it")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

import fxcc  # noqa: E402
import fxcc.dynamo  # noqa: E402

STRICT = {"fallback": "error"}  # all is compiled: nothing runs in eager


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def close(got, want, tolerance=1e-4):
    assert got.shape == want.shape and got.dtype == want.dtype and got.stride() == want.stride()
    largest = want.detach().double().nan_to_num(0, 0, 0).abs().max().item() if want.numel() else 0
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * (1 + largest) if want.is_floating_point() else 0)


def randomise(model):
    """Batch norms that do something: their statistics are not 0 and 1."""
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.running_mean, -0.5, 0.5)
            nn.init.uniform_(m.running_var, 0.5, 2)
            nn.init.uniform_(m.weight, 0.5, 1.5)
    return model.eval()


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet1_1", "densenet121"])
def test_vision_models(name, capsys):
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    model = randomise(getattr(models, name)())
    x = torch.randn(2, 3, 64, 64)
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    with torch.no_grad():
        began = time.perf_counter()
        got = compiled(x)
        with capsys.disabled():
            print(f"\n{name}: first call {time.perf_counter() - began:.2f} s", end=" ")
        close(got, model(x))
        close(compiled(x + 1), model(x + 1))


class Block(nn.Module):
    def __init__(self, width=32, heads=4, dropout=0.0, by_hand=False):
        super().__init__()
        self.heads, self.by_hand = heads, by_hand
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        if self.by_hand:
            scores = q @ k.transpose(-2, -1) / (w // self.heads) ** 0.5
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
            y = scores.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(b, t, w)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Transformer(nn.Module):
    def __init__(self, words=50, width=32, layers=2, **kw):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, **kw) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("by_hand", [False, True], ids=["sdpa", "by_hand"])
def test_transformer(by_hand):
    model = Transformer(by_hand=by_hand).eval()
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    with torch.no_grad():
        ids = torch.randint(0, 50, (2, 16))
        close(compiled(ids), model(ids))


def counted(model, **kw):
    counter = CompileCounterWithBackend("fxcc")
    return torch.compile(model, backend=counter, **kw), counter


def test_one_compile_serves_all_sizes():
    model = Transformer().eval()
    compiled, counter = counted(model, dynamic=True)
    with torch.no_grad():
        compiled(torch.randint(0, 50, (2, 16)))
        once = counter.frame_count  # dynamo may trace again until it has made numbers into tensors
        for shape in ((2, 16), (3, 7), (5, 30), (2, 16)):
            ids = torch.randint(0, 50, shape)
            close(compiled(ids), model(ids))
    assert counter.frame_count == once


def test_marked_and_automatic_sizes():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)).eval()
    compiled, counter = counted(model)
    with torch.no_grad():
        for n in (2, 3, 5, 9):  # the second size opens the batch
            x = torch.randn(n, 3, 16, 16)
            close(compiled(x), model(x))
        assert counter.frame_count == 2
        torch._dynamo.reset()
        compiled, counter = counted(model)
        for n in (4, 6, 11):
            x = torch.randn(n, 3, 16, 16)
            torch._dynamo.mark_dynamic(x, 0)
            close(compiled(x), model(x))
        assert counter.frame_count == 1


def test_second_call_does_not_compile():
    model = nn.Linear(4, 4).eval()
    compiled, counter = counted(model)
    with torch.no_grad():
        for _ in range(3):
            compiled(torch.randn(2, 4))
        assert counter.frame_count == 1
        compiled(torch.randn(2, 4).double().float())
        assert counter.frame_count == 1


def test_graph_breaks(capsys):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x):
            x = self.a(x).relu()
            print("between")
            if x.sum() > 0:
                return self.b(x)
            return -self.b(x)
    model = Broken().eval()
    compiled, counter = counted(model)
    with torch.no_grad():
        for x in (torch.ones(2, 4), -torch.ones(2, 4), torch.randn(2, 4)):
            close(compiled(x), model(x))
    assert counter.frame_count >= 2 and capsys.readouterr().out.count("between") == 6


def test_buffers_that_the_model_writes():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.total += x.sum(0)
            self.calls += 1
            return x * self.total
    eager, model = Counting(), Counting()
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(5, 3)
            close(compiled(x), eager(x))
    close(model.total, eager.total)
    assert model.calls == 4


# ---- parameters by reference ----------------------------------------------------------------------------------------------------


@pytest.fixture
def compiles(monkeypatch):
    """How many tensors each compile took in."""
    seen, make = [], fxcc.dynamo.Compiled.make

    def noting(self, values):
        make(self, values)
        seen.append(len(self.frozen))
    monkeypatch.setattr(fxcc.dynamo.Compiled, "make", noting)
    return seen


def test_writes_of_parameters_are_seen(compiles):
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).eval()
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    x = torch.randn(2, 2, 6, 6)
    with torch.no_grad():
        close(compiled(x), model(x))
        assert compiles == [8]  # all but the count of batches, which inference leaves alone
        model[1].running_var.mul_(3)  # was folded into the convolution
        close(compiled(x), model(x))
        close(compiled(x), model(x))
        assert compiles == [8, 8]
        model[0].weight.add_(1)
        close(compiled(x), model(x))
        assert compiles == [8, 8, 7]  # changes often, it seems: an input from now on
        model[0].weight.sub_(2)
        close(compiled(x), model(x))
        assert compiles == [8, 8, 7]
        model.load_state_dict({k: torch.rand_like(v) if v.is_floating_point() else v for k, v in model.state_dict().items()})
        close(compiled(x), model(x))
        model[4].weight = nn.Parameter(torch.randn(3, 64))  # another tensor
        close(compiled(x), model(x))


def test_optimizer_steps_under_inference():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x = torch.randn(5, 4)
    for _ in range(4):
        with torch.no_grad():
            close(compiled(x), model(x))
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_train_and_eval():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    compiled = torch.compile(model, backend="fxcc")
    x = torch.randn(6, 4)
    with torch.no_grad():
        for training in (False, True, False):
            model.train(training)
            before = model[1].running_mean.clone()
            got = compiled(x)
            assert torch.equal(before, model[1].running_mean) != training
            model[1].running_mean.copy_(before)
            model[1].num_batches_tracked.zero_()
            close(got, model(x))
            model[1].running_mean.copy_(before)


# ---- what fxcc lacks --------------------------------------------------------------------------------------------------------------


def test_operators_that_fxcc_lacks_run_in_eager():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            y = self.first(x).relu()
            values = torch.linalg.eigvalsh(y.T @ y)
            return self.second(y) * values.sum(), values
    model = Odd().eval()
    compiled = torch.compile(model, backend="fxcc")
    x = torch.randn(4, 4)
    with torch.no_grad():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            got = compiled(x)
            compiled(x + 1)
        said = [str(w.message) for w in said if "fxcc" in str(w.message)]
        assert len(said) == 1 and "eigh" in said[0] and "test_torch_compile.py" in said[0]
        for g, w in zip(got, model(x)):
            close(g, w, 1e-3)


def test_fallback_can_be_an_error():
    compiled = torch.compile(lambda x: torch.linalg.eigvalsh(x) + 1, backend=fxcc.backend(fallback="error"))
    with torch.no_grad(), pytest.raises(fxcc.UnsupportedError, match="aten._linalg_eigh.default"):
        compiled(torch.eye(3))


def test_options_that_do_not_fit():
    for options, words in (({"fallback": "none"}, "fallback: expected 'eager' or 'error', got 'none'"), ({"level": 4}, "level: expected 0 to 3, got 4"),
                           ({"threads": -1}, "threads: expected a number of at least 0, got -1"), ({"threads": "2"}, "got '2'"), ({"cache": 3}, "cache: expected a folder"),
                           ({"levle": 2}, "fxcc has no option 'levle': expected training, threads, level, cache, fallback, random, verbose")):
        with pytest.raises(fxcc.ArgumentError, match=words):
            fxcc.backend(**options)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=words):
            torch.compile(lambda x: x + 1, backend="fxcc", options=options)(torch.ones(2))


def test_device_that_is_not_the_cpu():
    compiled = torch.compile(lambda x: x + 1, backend="fxcc")
    with pytest.warns(UserWarning, match="fxcc compiles for the CPU: .* is on meta"):
        assert compiled(torch.empty(3, device="meta")).shape == (3,)


def test_names():
    assert "fxcc" in torch._dynamo.list_backends(exclude_tags=())
    assert fxcc.backend(threads=1).args == fxcc.dynamo.backend(threads=1).args
