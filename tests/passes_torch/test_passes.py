"""Passes against torch: what they make of a traced function computes, writes and aliases as the function does in eager mode.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

FXCC names the command. Run by tests/pytest passes_torch. The graph that comes out is printed as FX's Python and run under torch: so values, what
is left in the inputs, and which results share memory with which inputs and with one another are torch's own.
"""
import copy
import json
import operator
import os
import pathlib
import re
import subprocess
import sys

import numpy
import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import fx, nn
from torch.ao.quantization import quantize_fx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
import fxcc_export  # noqa: E402

FXCC = os.environ.get("FXCC", "fxcc")


def fxcc(*argv, env=None):
    done = subprocess.run([FXCC, *map(str, argv)], capture_output=True, text=True, encoding="utf-8", env=env and {**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- functions of x and y, both [2, 3] -----------------------------------------------------------------------------------------------


def write_through_view(x, y):
    a = torch.exp(x)
    b = a.view(-1)
    b.mul_(2.0)
    return a + y


def write_base_read_view(x, y):
    a = torch.sin(x)
    b = a.view(3, 2)
    a.add_(y)
    return b * 2, a


def write_part(x, y):
    a = torch.sin(x)
    a[0].mul_(y[1])
    a[:, 1].add_(1.0)
    return a, a.sum()


def write_transposed(x, y):
    a = torch.sin(x)
    a.t().mul_(y.t())
    return a


def write_view_of_view(x, y):
    a = torch.sin(x)
    b = a.view(6).view(3, 2)
    c = b.t()
    c.mul_(0.5)
    return a, b


def write_copy_leaves_base(x, y):
    a = torch.sin(x)
    b = a.t().reshape(-1)
    b.add_(1.0)
    return a, b


def write_reshape_that_is_a_view(x, y):
    a = torch.sin(x)
    b = a.reshape(-1)
    b.add_(1.0)
    return a


def write_contiguous(x, y):
    a = torch.sin(x)
    a.contiguous().mul_(2.0)
    a.t().contiguous().mul_(3.0)
    return a


def write_clone(x, y):
    a = torch.sin(x)
    a.clone().mul_(2.0)
    return a


def write_detached(x, y):
    a = torch.sin(x)
    a.detach().mul_(2.0)
    return a


def write_flat(x, y):
    a = torch.sin(x)
    a.flatten().add_(y.flatten())
    torch.flatten(a, 0, 1).mul_(2.0)
    return a


def write_unsqueezed(x, y):
    a = torch.sin(x)
    a.unsqueeze(0).squeeze(0).mul_(2.0)
    return a


def write_piece(x, y):
    a = torch.sin(x)
    p, q, r = torch.chunk(a, 3, 1)
    q.mul_(3.0)
    return a, p + q, r


def unused_writes(x, y):
    a = torch.sin(x)
    a.mul_(y)
    a.view(-1).neg_()
    return a


def write_input(x, y):
    x.add_(y)
    x.view(-1).mul_(2.0)
    return x + 1


def write_input_after_copy(x, y):
    a = x + 0
    b = x * 1
    c = x.clone()
    x.mul_(3.0)
    return a, b, c + x


def copy_then_write_copy(x, y):
    a = x + 0
    a.mul_(2.0)
    return a, x - a


def copy_of_value_then_write_value(x, y):
    a = torch.sin(x)
    b = a + 0
    a.mul_(2.0)
    return a - b


def return_copies(x, y):
    return x + 0, x * 1, x / 1.0, x - 0, x.clone()


def return_views(x, y):
    return x.view(2, 3), x.view(-1), x.t(), x[:], x[0:2, 0:3], x.detach(), x.expand(2, 3)


def return_twice(x, y):
    a = torch.cos(x)
    return a, a, torch.cos(x), a + 0


def return_view_and_base(x, y):
    a = torch.cos(x)
    return a.view(-1), a, a.view(2, 3)


def equal_calls_and_writes(x, y):
    a = torch.cos(x)
    a.mul_(2.0)
    b = torch.cos(x)
    c = torch.cos(x)
    x.add_(1.0)
    d = torch.cos(x)
    return a, b + c, d


def equal_reads_of_written(x, y):
    a = torch.sin(x)
    b = torch.cos(a)
    a.add_(y)
    c = torch.cos(a)
    v = a.view(-1)
    w = a.view(-1)
    v.mul_(0.5)
    return b, c, w + 0.5


def identities(x, y):
    a = torch.relu(x)[:][0:2][:, 0:3]
    a = a.view(2, 3).permute(0, 1).transpose(1, 1).reshape(2, 3)
    a = a.float() + 0
    a = F.dropout(a, 0.5, training=False)
    return a * 1 - 0


def identities_and_writes(x, y):
    a = torch.sin(x)
    b = a[:].view(2, 3)
    b.mul_(y)
    c = F.dropout(a, 0.5, training=False)
    c.add_(1.0)
    d = a.float()
    d.neg_()
    return a, b


def chain(x, y):
    a = torch.sin(x)
    b = a * y
    c = torch.relu(b)
    d = c + a
    e = torch.sigmoid(d)
    return e - y, c


FUNCTIONS = [f for f in list(globals().values()) if callable(f) and getattr(f, "__code__", None) and f.__code__.co_varnames[:2] == ("x", "y")]

PIPELINES = [
    "remove_identity,common_subexpressions,eliminate_dead_code",
    "infer,remove_dropout,remove_identity,fold_constants,common_subexpressions,eliminate_dead_code",
    "infer,normalize_args,eliminate_dead_code,remove_identity,reinplace",
    "legalize,common_subexpressions,remove_identity,eliminate_dead_code,reinplace",
]


def inputs():
    g = torch.Generator().manual_seed(3)
    return torch.rand(2, 3, generator=g) * 2 - 0.75, torch.rand(2, 3, generator=g) + 0.5


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def outcome(f):
    """Values, inputs afterwards, pairs of results and inputs that share memory."""
    x, y = inputs()
    results = flat(f(x, y))
    places = {"x": x, "y": y, **{i: r for i, r in enumerate(results)}}
    shared = {(a, b) for a in places for b in places if str(a) < str(b)
              and places[a].untyped_storage().data_ptr() == places[b].untyped_storage().data_ptr()}
    return [r.clone() for r in results], [x, y], shared


def compiled_code(path):
    """The forward of a graph without modules, as torch would run it."""
    space = {}
    exec(fxcc("show", "--code", path), space)
    return lambda x, y: space["forward"](None, x, y)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_same_as_eager(function, pipeline, tmp_path):
    fxcc_export.export(fx.symbolic_trace(function), tmp_path / "in.fx", inputs())
    fxcc("opt", tmp_path / "in.fx", f"--passes={pipeline}", "-o", tmp_path / "out.fx")
    want, want_inputs, want_shared = outcome(function)
    got, got_inputs, got_shared = outcome(compiled_code(tmp_path / "out.fx"))
    for w, g in zip(want + want_inputs, got + got_inputs, strict=True):
        torch.testing.assert_close(g, w)
    assert got_shared <= want_shared
    # Twice is once.
    text = fxcc("opt", tmp_path / "out.fx", f"--passes={pipeline}")
    assert text == fxcc("show", "--text", tmp_path / "out.fx")


@pytest.mark.parametrize("pipeline", PIPELINES[:2] + ["eliminate_dead_code"])
def test_set_item(pipeline, tmp_path):
    """Tracing does not take a[0] = v, graphs do."""
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    a = graph.call_method("sin", (x,))
    graph.call_function(operator.setitem, (a, 0, graph.call_function(operator.getitem, (y, 1))))
    graph.call_function(operator.setitem, (a, (1, slice(0, 2)), 5.0))
    graph.output(a)
    module = fx.GraphModule(nn.Module(), graph)
    fxcc_export.export(module, tmp_path / "in.fx", inputs())
    fxcc("opt", tmp_path / "in.fx", f"--passes={pipeline}", "-o", tmp_path / "out.fx")
    want, got = outcome(module), outcome(compiled_code(tmp_path / "out.fx"))
    torch.testing.assert_close(got[0], want[0])
    assert got[2] <= want[2]


class All(nn.Module):
    """Each function on inputs of its own: one file to emit, build and run."""

    def forward(self, x, y):
        return [r + 0.0 for f in FUNCTIONS for r in flat(f(x.clone(), y.clone()))]


@pytest.mark.parametrize("pipeline", ["", PIPELINES[1], PIPELINES[3], "legalize,functionalize,common_subexpressions,eliminate_dead_code"])
def test_interpreter_and_emitted_code(pipeline, tmp_path):
    fxcc_export.export(fx.symbolic_trace(All()), tmp_path / "all.fx", inputs())
    fxcc("opt", tmp_path / "all.fx", f"--passes={pipeline}", "-o", tmp_path / "out.fx")
    want = [r.numpy() for r in All()(*inputs())]
    arrays = [t.numpy() for t in inputs()] + want
    numpy.savez(tmp_path / "io.npz", **{f"a{i:03}": a for i, a in enumerate(arrays)})
    numpy.savez(tmp_path / "in.npz", x=arrays[0], y=arrays[1])
    fxcc("run", "--interpret", tmp_path / "out.fx", tmp_path / "in.npz", "-o", tmp_path / "got.npz")
    with numpy.load(tmp_path / "got.npz") as got:
        for name, w in zip(got.files, want, strict=True):
            numpy.testing.assert_allclose(got[name], w, rtol=1e-5, atol=1e-6)
    fxcc("check", tmp_path / "out.fx", f"--against={tmp_path / 'io.npz'}", "--rtol=1e-5", env={"CFLAGS": "-O1"})


# ---- modules ---------------------------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """A stem whose convolution feeds two norms, a block called twice, tied weights, linear layers."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn_a, self.bn_b = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.conv = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.bn_c, self.bn_d = nn.BatchNorm2d(8), nn.BatchNorm2d(8, eps=0.01, affine=False)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.bn_up = nn.BatchNorm2d(4)
        self.tied_a, self.tied_b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.tied_b.weight = self.tied_a.weight
        self.bn_tied = nn.BatchNorm2d(4)
        self.drop, self.same = nn.Dropout(0.3), nn.Identity()
        self.fc = nn.Linear(4, 5)
        self.bn_fc = nn.BatchNorm1d(5)
        for m in self.modules():
            if isinstance(m, nn.modules.batchnorm._BatchNorm):
                m.running_mean.uniform_(-0.5, 0.5)
                m.running_var.uniform_(0.5, 2.0)
                if m.affine:
                    nn.init.uniform_(m.weight, 0.5, 1.5)
                    nn.init.uniform_(m.bias, -0.5, 0.5)

    def forward(self, x):
        s = self.stem(x)
        a = torch.relu(self.bn_a(s) + self.bn_b(s))
        a = F.relu(self.bn_c(self.conv(a)))
        a = self.bn_d(self.conv(a))
        a = self.bn_up(self.up(a))
        a = self.tied_b(self.bn_tied(self.tied_a(a)))
        a = self.same(self.drop(a)).mean((2, 3))
        return self.bn_fc(self.fc(a))


def run_file(path, folder, x):
    numpy.save(folder / "x.npy", x.numpy())
    fxcc("run", "--interpret", path, folder / "x.npy", "-o", folder / "y.npy")
    return torch.from_numpy(numpy.load(folder / "y.npy"))


@pytest.mark.parametrize("form", ["captured", "exported"])
def test_fusion_of_a_net(form, tmp_path):
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(2, 3, 6, 6)
    if form == "captured":
        fxcc_export.export(fx.symbolic_trace(net), tmp_path / "net.fx", (x,))
        model = tmp_path / "net.fx"
    else:
        model = tmp_path / "net.pt2"
        torch.export.save(torch.export.export(net, (x,)), model)
    log = fxcc("opt", model, "--passes=remove_dropout,remove_identity,infer,fuse_conv_bn,fuse_linear_bn,eliminate_dead_code", "--log", "-o",
               tmp_path / "out.fx")
    assert log.count("fused batch norm") == 5  # conv twice, up, tied_a, fc; the stem feeds two
    nodes = [line for line in fxcc("show", "--text", tmp_path / "out.fx").splitlines() if line.startswith("%")]
    assert sum("batch_norm.default" in line or "call_module[bn_" in line for line in nodes) == 2
    assert not any("drop" in line or "[same]" in line for line in nodes)
    with torch.no_grad():
        torch.testing.assert_close(run_file(tmp_path / "out.fx", tmp_path, x), net(x), rtol=1e-4, atol=1e-5)


class Layers(nn.Module):
    """Pairs of all kinds, beside what is to be left alone."""

    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect", bias=False), nn.BatchNorm2d(4)
        self.relu, self.own = nn.ReLU(inplace=True), nn.ReLU()
        self.again, self.both = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.tied = nn.Conv2d(4, 4, 1)
        self.tied.weight = self.both.weight
        self.line, self.fc = nn.Conv1d(4, 5, 2), nn.Linear(6, 3)
        nn.init.uniform_(self.bn.weight, 0.5, 1.5)
        self.bn.running_mean.uniform_(-0.5, 0.5)

    def forward(self, x):
        x = self.relu(self.bn(self.stem(x)))
        x = torch.relu(self.again(self.own(self.again(x))))
        a = self.both(x)
        x = F.relu(self.tied(F.relu(a) + a), inplace=True)
        return self.fc(self.line(x.flatten(2)).relu()[..., :6]).relu(), x.sum(1)


def test_pairs_as_torch_makes_them(tmp_path):
    torch.manual_seed(0)
    net, x = Layers().eval(), torch.randn(2, 3, 5, 5)
    fxcc_export.export(fx.symbolic_trace(net), tmp_path / "net.fx", (x,))
    fxcc("opt", tmp_path / "net.fx", "--passes=fuse_conv_bn,fuse_conv_relu,prune(amount=0.0)", "-o", tmp_path / "out.fx")
    text = (tmp_path / "out.fx").read_text()
    fused = set(re.findall(r"^module (\w+) : torch.ao.nn.intrinsic.modules.fused.(\w+)", text, re.M))
    assert fused == {("stem", "ConvReLU2d"), ("tied", "ConvReLU2d"), ("line", "ConvReLU1d"), ("fc", "LinearReLU")}
    assert "tied.0.weight" in text and "parameter both.weight" in text and "parameter tied.weight" not in text
    # torch's own fusion gives modules of the same classes and paths; those, exported, compute the same.
    pairs = [["stem", "bn", "relu"]]
    theirs = torch.ao.quantization.fuse_modules(copy.deepcopy(net), pairs)
    assert type(theirs.stem).__name__ == "ConvReLU2d" and [n for n, _ in theirs.stem.named_children()] == ["0", "1"]
    inputs = tmp_path / "x.npy"
    numpy.save(inputs, x.numpy())
    with torch.no_grad():
        want = [y.numpy() for y in net(x)]
    numpy.savez(tmp_path / "io.npz", x=x.numpy(), a=want[0], b=want[1])
    fxcc("run", "--interpret", tmp_path / "out.fx", inputs, "-o", tmp_path / "got.npz")
    with numpy.load(tmp_path / "got.npz") as got:
        for name, w in zip(got.files, want, strict=True):
            numpy.testing.assert_allclose(got[name], w, rtol=1e-4, atol=1e-5)
    fxcc("check", tmp_path / "out.fx", f"--against={tmp_path / 'io.npz'}", "--rtol=1e-4", env={"CFLAGS": "-O1"})
    assert fxcc("opt", tmp_path / "out.fx", "--passes=fuse_conv_relu", "--log") == fxcc("show", "--text", tmp_path / "out.fx")

    class Tracer(fx.Tracer):
        def is_leaf_module(self, m, name):
            return isinstance(m, torch.ao.nn.intrinsic.ConvReLU2d) or super().is_leaf_module(m, name)
    traced = fx.GraphModule(theirs, Tracer().trace(theirs))
    assert [n.op for n in traced.graph.nodes if n.target == "stem"] == ["call_module"]
    fxcc_export.export(traced, tmp_path / "theirs.fx", (x,))
    fxcc("check", tmp_path / "theirs.fx", f"--against={tmp_path / 'io.npz'}", "--rtol=1e-4", env={"CFLAGS": "-O1"})


def test_the_pairs_of_a_resnet_are_torchs(tmp_path):
    """fuse_fx of torch.ao finds the same pairs, at the same paths, with the same weights."""
    torch.manual_seed(0)
    net, x = torchvision.models.resnet18(num_classes=10).eval(), torch.randn(1, 3, 32, 32)
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
            m.running_var.uniform_(0.8, 1.2)
    theirs = quantize_fx.fuse_fx(copy.deepcopy(net))
    want = {name: type(m).__name__ for name, m in theirs.named_modules() if type(m).__module__.startswith("torch.ao.nn.intrinsic")}
    assert len(want) == 9
    fxcc_export.export(fx.symbolic_trace(net), tmp_path / "net.fx", (x,))
    fxcc("opt", tmp_path / "net.fx", "--passes=fuse_conv_bn,fuse_conv_relu", "-o", tmp_path / "out.fx")
    text = (tmp_path / "out.fx").read_text()
    assert dict(re.findall(r"^module ([\w.]+) : torch.ao.nn.intrinsic.modules.fused.(\w+)", text, re.M)) == want
    calls = [line for line in text.splitlines() if "call_module[" in line]
    assert len(calls) == sum(n.op == "call_module" for n in theirs.graph.nodes)
    state, data = theirs.state_dict(), (tmp_path / "out.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    for key, place in json.loads(data[8:8 + size]).items():
        if key in state and place["dtype"] == "F32":
            start, end = place["data_offsets"]
            values = numpy.frombuffer(data[8 + size + start:8 + size + end], numpy.float32).reshape(place["shape"])
            numpy.testing.assert_allclose(values, state.pop(key).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert not [key for key in state if ".0.weight" in key]
    with torch.no_grad():
        torch.testing.assert_close(run_file(tmp_path / "out.fx", tmp_path, x), net(x), rtol=1e-3, atol=1e-4)


def test_pruning_and_observing_pairs(tmp_path):
    """What passes do to layers they do to layers in pairs."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)).eval()
    x = torch.randn(1, 3, 5, 5)
    fxcc_export.export(fx.symbolic_trace(net), tmp_path / "net.fx", (x,))
    for passes, word in (("prune(amount=0.5)", "prune"), ("prune_channels(amount=0.25)", "prune_channels"),
                         ("insert_observers", "insert_observers")):
        logs, results = [], []
        for first in ("", "fuse_conv_relu,"):
            log = fxcc("opt", tmp_path / "net.fx", f"--passes={first}infer,{passes}", "--log", "-o", tmp_path / "out.fx")
            logs.append(sum(line.startswith(f"// {word}:") for line in log.splitlines()))
            results.append(run_file(tmp_path / "out.fx", tmp_path, x))
        assert logs[0] > 0 and logs[0] == logs[1]
        torch.testing.assert_close(results[1], results[0])


def test_one_line_from_pruning_to_quantising(tmp_path):
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(2, 3, 6, 6)
    fxcc_export.export(fx.symbolic_trace(net), tmp_path / "net.fx", (x,))
    fxcc("opt", tmp_path / "net.fx", "--passes=infer,remove_dropout,prune(amount=0.3),fuse_conv_bn,legalize,"
         "insert_quantize_dequantize(scale=0.1)", "-o", tmp_path / "out.fx")
    text = fxcc("show", "--text", tmp_path / "out.fx")
    assert "quantize" in text and text.count("batch_norm.default") == 3  # two of the stem, and that of the linear layer
