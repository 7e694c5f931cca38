"""torch.compile(backend="fxcc"): which graphs go without AOTAutograd, and that they compute, share and write what eager does.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: torch.compile needs it")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import fxcc.dynamo  # noqa: E402
from test_torch_compile import STRICT, Transformer, close, fresh, randomise  # noqa: E402, F401
from test_torch_compile_values import same  # noqa: E402


@pytest.fixture
def routes(monkeypatch):
    """Graphs in order: "direct", or "autograd" for those that AOTAutograd traces."""
    seen, direct, autograd = [], fxcc.dynamo.direct, fxcc.dynamo.through_autograd

    def noting_direct(*args):
        run = direct(*args)
        if run is not None:
            seen.append("direct")
        return run

    def noting_autograd(*args):
        seen.append("autograd")
        return autograd(*args)
    monkeypatch.setattr(fxcc.dynamo, "direct", noting_direct)
    monkeypatch.setattr(fxcc.dynamo, "through_autograd", noting_autograd)
    return seen


def picture():
    return torch.randn(2, 3, 8, 8)


def attention(x, mask=None):
    q, k, v = x.view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


STATISTICS = torch.rand(3) - 0.5, torch.rand(3) + 0.5
CONV, TABLE, WEIGHT, BIAS = torch.randn(4, 3, 3, 3), torch.randn(7, 6), torch.randn(5, 8), torch.randn(5)


def rotate(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


DIRECT = {
    "conv": (lambda x: F.conv2d(x, CONV, None, 2, 1), picture),
    "conv_same": (lambda x: F.conv2d(x, CONV, padding="same"), picture),
    "conv_channels_last": (lambda x: F.conv2d(x, CONV).relu(), lambda: picture().contiguous(memory_format=torch.channels_last)),
    "batch_norm": (lambda x: F.batch_norm(x, *STATISTICS, STATISTICS[1], None, eps=1e-3), picture),
    "batch_norm_channels_last": (lambda x: F.batch_norm(x, *STATISTICS), lambda: picture().contiguous(memory_format=torch.channels_last)),
    "layer_norm": (lambda x: F.layer_norm(x, (8, 8)) + F.layer_norm(x, (8,), STATISTICS[0].new_ones(8)), picture),
    "group_norm": (lambda x: F.group_norm(x, 3), picture),
    "linear": (lambda x: (F.linear(x, WEIGHT, BIAS), F.linear(x[0, 0, 0], WEIGHT)), picture),
    "matmul": (lambda x: (x @ x, torch.matmul(x, x[0, 0, 0]), x.matmul(x[0, 0])), picture),
    "embedding": (lambda i: F.embedding(i, TABLE, padding_idx=2) * 2, lambda: torch.randint(0, 7, (2, 3))),
    "attention": (attention, lambda: torch.randn(2, 5, 24)),
    "attention_mask": (lambda x: attention(x, torch.ones(5, 5).tril().bool()), lambda: torch.randn(2, 5, 24)),
    "dropout": (lambda x: F.dropout(x, 0.5, False) + 1, picture),
    "dropout_is_its_input": (lambda x: F.dropout(x + 1, 0.5, training=False, inplace=True).mul_(2), picture),
    "pools": (lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1), F.adaptive_avg_pool2d(x, 1).flatten(1)), picture),
    "in_place": (lambda x: F.relu(x + 1, inplace=True).add_(2).clamp_(max=3).mul_(x), picture),
    "in_place_by_view_alone": (lambda x: (x * 2).view(-1).add_(1), picture),
    "in_place_twice_seen": (lambda x: ((y := x + 1), y.relu_(), y * 2), picture),
    "masks": (lambda x: (x.masked_fill(x > 0, 3), torch.where(x > 0, x, 0.0), x.tril(), x.triu(1)), picture),
    "indices": (lambda x: (x[:, 1], x[..., ::2] + 0, x[:, :, 1:3].sum(), x[x.new_zeros(2, dtype=torch.int64)]), picture),
    "rotate": (rotate, picture),
    "splits": (lambda x: [a + 1 for a in (*x.split(1, 1), *x.unbind(0), *x.chunk(3, 2))], picture),
    "views_by_splitting": (lambda x: (*(x * 2).split(2, 1), *x.unbind(0), *x.unfold(1, 2, 1)), lambda: torch.randn(3, 4)),
    "views": (lambda x: (x, x.t(), x[0], x.view(-1), x.expand(2, 3, 4), x.detach()), lambda: torch.randn(3, 4)),
    "views_of_results": (lambda x: ((y := x * 2), y.view(-1), y.t(), y[1:]), lambda: torch.randn(3, 4)),
    "copies": (lambda x: (x.clone(), x.contiguous(), x.t().contiguous(), x.to(torch.float64), x.float(), x.reshape(4, 3)), lambda: torch.randn(3, 4)),
    "constants": (lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(4) + torch.ones(4, dtype=torch.int32), lambda: torch.randn(3, 4)),
    "types": (lambda x: (x / 2, x // 2, x ** 2, x + 0.5, x.bool(), x.float().mean(), x == 2, x.sum(), -x), lambda: torch.randint(0, 9, (3, 4))),
    "reductions": (lambda x: (x.amax(1), x.argmax(-1), x.std(0), x.norm(), x.logsumexp(1), x.cumsum(1), x.max(1), x.topk(2)), lambda: torch.randn(3, 4)),
    "losses": (lambda x: (F.cross_entropy(x, torch.tensor([1, 0, 3])), F.mse_loss(x, x + 1), F.log_softmax(x, -1)), lambda: torch.randn(3, 4)),
    "einsum": (lambda x: torch.einsum("bchw,bdhw->bcd", x, x), picture),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2), picture),
    "pads": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 1, 2, 2), "reflect")), picture),
    "nothing_in": (lambda: torch.arange(5) * 2, lambda: None),
    "odd_outputs": (lambda x: (x + 1, None, 7, 2.5, "text", x.shape[0]), picture),
    "halves": (lambda x: F.softmax(F.linear(x, WEIGHT.half()), -1).float(), lambda: picture().half()),
}


def flat(results):
    for r in results if isinstance(results, (tuple, list)) else (results,):
        yield from flat(r) if isinstance(r, (tuple, list)) else (r,)


@pytest.mark.parametrize("case", DIRECT)
def test_functions(case, routes):
    f, make = DIRECT[case]
    given = make()
    same(lambda *args: tuple(flat(f(*args))), *(() if given is None else (given,)), tolerance=2e-3 if case == "halves" else 1e-4)
    assert routes == ["direct"]


def test_stochastic_depth(routes):
    """torchvision's, which tells torch's statistics that it was used."""
    ops = pytest.importorskip("torchvision.ops", reason="torchvision is not installed")
    same(lambda x: ops.stochastic_depth(x, 0.5, "row", training=False) + 1, picture())
    assert routes == ["direct"]


def test_layers(routes):
    attend = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    for layer in (lambda x: attend(x, x, x, need_weights=False)[0], lambda x: attend(x, x, x)[1]):
        torch._dynamo.reset()
        same(layer, x)
    same(Transformer(by_hand=True).eval(), torch.randint(0, 50, (2, 16)))
    assert set(routes) == {"direct"}


# ---- what AOTAutograd must see ------------------------------------------------------------------------------------------------------


def write_through_view(x):
    y = x + 1
    y[:, 0] = 5
    return y


def view_after_write(x):
    y = x + 1
    z = y.view(-1)
    y.mul_(2)
    return y, z + 0


OTHERWISE = {
    "writes_input": lambda x: x.add_(1).sum(),
    "writes_view_of_input": lambda x: x.view(-1).mul_(2),
    "writes_through_view": write_through_view,
    "writes_under_view": view_after_write,
    "writes_another_layout": lambda x: (x + 1).t_(),
    "batch_norm_trains": lambda x: F.batch_norm(x, (mean := x.new_zeros(4)), x.new_ones(4), training=True) + mean,
    "instance_norm_trains": lambda x: F.instance_norm(x[None], (mean := x.new_zeros(3)), x.new_ones(3), use_input_stats=True) + mean[0],
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_declined(case, routes):
    same(OTHERWISE[case], torch.randn(3, 4))
    assert routes == ["autograd"]


def test_declined_for_gradients_autocast_and_numbers(routes):
    model, x = nn.Linear(4, 4), torch.randn(3, 4)
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    compiled(x).sum().backward()  # gradients
    want = model.weight.grad.clone()
    model.weight.grad = None
    model(x).sum().backward()
    close(model.weight.grad, want)
    assert routes == ["autograd"]
    with torch.no_grad():
        close(compiled(x), model(x))
        assert routes.pop() == "direct"
        with torch.autocast("cpu", torch.bfloat16):
            close(compiled(x), model(x), 3e-2)
        assert routes.pop() == "autograd"
    torch._dynamo.reset()
    close(torch.compile(lambda x: x.relu() + 1, backend="fxcc", options=STRICT)(x), x.relu() + 1)  # gradients on, but nobody asks for one
    assert routes.pop() == "direct"
    with torch.no_grad():
        torch.compile(lambda x: F.dropout(x, 0.5), backend="fxcc")(x)
        assert routes.pop() == "autograd"
        f = torch.compile(lambda x: x * 2 + 1, backend="fxcc", options=STRICT)
        for n in (2, 3, 5):
            close(f(torch.ones(n, 4)), torch.full((n, 4), 3.0))
    assert routes[-2:] == ["direct", "autograd"]  # open sizes from the second on


def test_operators_that_fxcc_lacks(routes):
    compiled = torch.compile(lambda x: torch.linalg.eigvalsh(x @ x.T) + 1, backend="fxcc")
    x = torch.randn(3, 3)
    with torch.no_grad(), pytest.warns(UserWarning, match="eigh"):
        close(compiled(x), torch.linalg.eigvalsh(x @ x.T) + 1, 1e-3)
    assert routes == ["autograd"]


# ---- memory ---------------------------------------------------------------------------------------------------------------------


def test_results_share_as_in_eager(routes):
    weight = nn.Parameter(torch.randn(3, 4))

    def f(x):
        y = x + 1
        return x.t(), y, y.view(-1), y, weight.t(), weight, F.dropout(x, 0.5, False)
    x = torch.randn(3, 4)
    with torch.no_grad():
        view, y, flat_y, again, turned, itself, dropped = torch.compile(f, backend="fxcc", options=STRICT)(x)
        assert routes == ["direct"]
        assert view.data_ptr() == x.data_ptr() and dropped.data_ptr() == x.data_ptr()
        assert again is y and flat_y.data_ptr() == y.data_ptr() != x.data_ptr()
        assert itself is weight and turned.data_ptr() == weight.data_ptr()
        y.fill_(3)
        assert flat_y.eq(3).all()


def test_parameters_by_reference(routes):
    model = randomise(nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3)))
    compiled = torch.compile(model, backend="fxcc", options=STRICT)
    x = torch.randn(2, 2, 6, 6)
    with torch.no_grad():
        for change in (lambda: None, lambda: model[0].weight.mul_(2), lambda: model[1].running_mean.add_(1),
                       lambda: model.load_state_dict({k: torch.rand_like(v) if v.is_floating_point() else v for k, v in model.state_dict().items()}),
                       lambda: setattr(model[4], "weight", nn.Parameter(torch.randn(3, 64)))):
            change()
            close(compiled(x), model(x))
    assert set(routes) == {"direct"}
    with torch.inference_mode():
        close(compiled(x), model(x))


def test_graph_breaks(routes):
    def f(x):
        y = x.relu()
        if y.sum() > 100:
            return y
        return y + 1
    same(f, torch.randn(3, 4))
    assert routes and set(routes) == {"direct"}


def test_imports():
    """A first call in inference imports neither inductor's compiler nor fxcc's other way."""
    code = ("import sys, torch, fxcc.dynamo; torch._dynamo.config.suppress_errors = False\n"
            "with torch.no_grad(): torch.compile(torch.nn.Linear(2, 2), backend='fxcc')(torch.ones(1, 2))\n"
            "print('torch._inductor.compile_fx' in sys.modules, 'fxcc' in torch._dynamo.list_backends(exclude_tags=()))")
    done = subprocess.run([sys.executable, "-c", code], env={**__import__("os").environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
                          capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
