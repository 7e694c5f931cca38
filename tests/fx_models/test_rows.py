"""Every row of passes/legalize.def, and the plain spellings of op.def's rows, in one captured net: interpreted, equal to eager.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import operator
import pathlib
import re

import numpy
import pytest
import torch
import torchvision
from torch import fx, nn
from torch.ao.nn.intrinsic.modules import fused
from torch.nn import functional as F

import fxcc_export
from fxcc_export import export
from fxcc_tool import assert_close, fxcc, run

torchvision.ops.stochastic_depth  # noqa: B018 - one of the rows

PICTURES = [  # modules of x: f32[2, 4, 8, 8]
    nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(4, 6, 3, padding="same", dilation=2), nn.Conv2d(4, 4, (3, 1), padding=(2, 0), groups=2, bias=False),
    nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), nn.Conv2d(4, 6, (4, 3), padding="same", padding_mode="circular"),
    nn.Conv2d(4, 6, 3, padding="valid", padding_mode="replicate"),
    nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False, momentum=None),
    nn.SyncBatchNorm(4), nn.InstanceNorm2d(4), nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.GroupNorm(2, 4),
    nn.GroupNorm(2, 4, affine=False), nn.LayerNorm((8, 8)), nn.LayerNorm(8, elementwise_affine=False), nn.ReLU(), nn.ReLU6(), nn.SiLU(),
    nn.Mish(), nn.Hardswish(), nn.Hardsigmoid(), nn.Hardtanh(-0.5, 0.7), nn.LeakyReLU(0.2), nn.ELU(0.6), nn.SELU(), nn.CELU(0.7), nn.GELU(),
    nn.GELU("tanh"), nn.PReLU(), nn.PReLU(4), nn.Softplus(2, 5), nn.Sigmoid(), nn.Tanh(), nn.Softsign(), nn.Tanhshrink(), nn.LogSigmoid(),
    nn.GLU(1), nn.RReLU(), nn.Threshold(0.1, -2),
    nn.Hardshrink(0.3), nn.Softshrink(0.2), nn.RMSNorm((8, 8)), nn.RMSNorm(8, eps=1e-3, elementwise_affine=False), nn.Softmax(1), nn.LogSoftmax(-1), nn.Softmin(2), nn.Softmax2d(), nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AvgPool2d(2, divisor_override=3), nn.AdaptiveAvgPool2d((3, None)),
    nn.AdaptiveAvgPool2d(2), nn.AdaptiveMaxPool2d(3), nn.Upsample(scale_factor=2), nn.Upsample((5, 7), mode="bilinear"),
    nn.Upsample(scale_factor=(1.5, 2), mode="bilinear", align_corners=True), nn.Upsample(scale_factor=1.3, recompute_scale_factor=True),
    nn.UpsamplingNearest2d(scale_factor=3), nn.UpsamplingBilinear2d(size=(3, 9)), nn.PixelShuffle(2), nn.ChannelShuffle(2),
    nn.ZeroPad2d((1, 2, 0, 1)), nn.ConstantPad2d(1, 0.5), nn.ReflectionPad2d(2), nn.ReplicationPad2d((1, 0, 2, 1)), nn.Dropout(0.4),
    nn.Dropout2d(), nn.Dropout3d(), nn.AlphaDropout(), nn.FeatureAlphaDropout(), nn.Identity(), nn.Flatten(), nn.Flatten(0, 2),
    nn.Unflatten(1, (2, 2)), nn.Sequential(nn.Conv2d(4, 3, 3), nn.Sequential(nn.ReLU(True), nn.Sequential()), nn.MaxPool2d(2)),
    fused.ConvReLU2d(nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), nn.ReLU())]
LINES = [  # of x.flatten(2): f32[2, 4, 64]
    nn.Conv1d(4, 3, 5, stride=2, padding=2), nn.Conv1d(4, 3, 4, padding="same"), nn.ConvTranspose1d(4, 3, 4, stride=2), nn.BatchNorm1d(4),
    nn.InstanceNorm1d(4, affine=True), nn.MaxPool1d(3), nn.AvgPool1d(2, 2), nn.AdaptiveAvgPool1d(5), nn.Linear(64, 10), nn.Linear(64, 3, bias=False),
    nn.ZeroPad1d(2), nn.ConstantPad1d((1, 2), -1.0), nn.ReflectionPad1d(3), nn.ReplicationPad1d((2, 0)), nn.Dropout1d(),
    fused.ConvReLU1d(nn.Conv1d(4, 3, 5), nn.ReLU()), fused.LinearReLU(nn.Linear(64, 3), nn.ReLU(True))]
VOLUMES = [nn.ConstantPad3d((1, 0, 0, 2, 0, 1), 1.5), nn.Conv3d(4, 2, 3, padding=1), nn.BatchNorm3d(4), nn.InstanceNorm3d(4),
           fused.ConvReLU3d(nn.Conv3d(4, 2, 1), nn.ReLU())]  # of x[:, :, None]
INPLACE = [nn.ReLU(True), nn.ReLU6(True), nn.SiLU(True), nn.Hardtanh(inplace=True), nn.LeakyReLU(0.1, True), nn.ELU(inplace=True),
           nn.Hardswish(True), nn.Mish(True), nn.Dropout(inplace=True)]


def functional(x, w, ids):
    """torch.nn.functional, in positional and keyword spellings."""
    line, channels = x.flatten(2), x.shape[1]
    return [
        F.relu(x), F.relu(x + 1, inplace=True), F.relu6(x), F.silu(x), F.mish(x), F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x, -0.2, 0.3),
        F.leaky_relu(x, 0.3), F.leaky_relu(input=x, negative_slope=0.2), F.elu(x, 0.4), F.selu(x), F.celu(x, 0.5), torch.selu(x),
        torch.celu(x, 1.5), F.gelu(x), F.gelu(x, approximate="tanh"), F.softsign(x), F.tanhshrink(x), F.logsigmoid(x), F.glu(x, 1),
        F.rrelu(x, 0.1, 0.2), F.threshold(x, 0.2, 3.0), F.hardshrink(x), F.softshrink(x, 0.1), F.rms_norm(x, (8,)), F.rms_norm(x, [8], x[0, 0, 0], 1e-4),
        F.softmax(x, 1), F.softmax(x, dim=-1, dtype=torch.float64), F.log_softmax(x, dim=1), F.softmin(x, 2), F.softplus(x, 2, 3),
        F.sigmoid(x), F.tanh(x), F.prelu(x, w[0, :, 0, 0]),
        F.conv2d(x, w, None, 1, 1), F.conv2d(x, w, padding="same"), F.conv_transpose2d(x, w[:4]), F.linear(line, line[0]),
        F.conv1d(line, line[:, :, :3]), F.max_pool1d(line, 2), F.max_pool2d(x, 2), F.max_pool2d(x, kernel_size=3, stride=2, padding=1),
        F.avg_pool1d(line, 4), torch.avg_pool1d(line, 3, stride=2), F.avg_pool2d(x, 2, None, 0, True), F.avg_pool2d(x, 2, count_include_pad=False),
        F.adaptive_avg_pool1d(line, 3), torch.adaptive_avg_pool1d(line, 2), F.adaptive_avg_pool2d(x, (2, None)), F.adaptive_max_pool2d(x, 2),
        F.interpolate(x, scale_factor=2), F.interpolate(x, (4, 5), mode="bilinear", align_corners=False), F.upsample(x, size=3),
        F.channel_shuffle(x, 2), F.pixel_shuffle(x, 2), F.pad(x, (1, 2)), F.pad(x, [1, 1, 2, 0], "reflect"), F.pad(x, (0, 1), value=2.5),
        F.dropout(x, 0.3, False), F.dropout1d(line, training=False), F.dropout2d(x, 0.5, training=False), F.dropout3d(x, training=False),
        F.alpha_dropout(x, training=False), F.feature_alpha_dropout(x, training=False), F.dropout(x, 0.0),
        torchvision.ops.stochastic_depth(x, 0.3, "row", False),
        F.batch_norm(x, w[0, :, 0, 0], w[1, :, 0, 0].abs(), eps=1e-3), F.instance_norm(x), F.instance_norm(x, weight=w[0, :, 0, 0], eps=1e-4),
        F.layer_norm(x, (8, 8)), F.layer_norm(x, [8], w.flatten()[:8]), F.group_norm(x, 2), F.embedding(ids, w.flatten(1)),
        F.embedding(ids, w.flatten(1), padding_idx=0), F.scaled_dot_product_attention(line, line + 1, line),
        F.scaled_dot_product_attention(x, x, x, scale=0.7), torch.nn.functional.interpolate(x, size=channels * 2)]


def methods(x, w, ids):
    line, (n, c, h, _) = x.flatten(2), (x.size(0), x.size(1), x.shape[2], x.size(dim=-1))
    a, b = x.chunk(2, dim=1)
    p, q, r = x.split([1, 1, 2], 1)
    first, *rest = torch.split(x, 2, dim=1)[0], torch.split(x, 3, 2)[2]
    u, v = x.unbind(), torch.unbind(w, 1)
    y = x.clone()
    y.add_(1).mul_(2).clamp_(min=0)
    z = x + 0
    z[:, 1:3] = 7.0
    z[0, 0] = y[0, 0]
    z2 = x + 0
    z2.zero_()
    k = w + 0
    k.copy_(w * 2)
    k.relu_()
    return [
        x.view(n, -1), x.view(-1), x.view((n, c, h * h)), x.reshape(n * c, -1), x.permute(0, 2, 3, 1), x.permute([3, 2, 1, 0]), x.transpose(1, -1),
        x.contiguous().view(n, c // 2, 2, h, h).transpose(1, 2).flatten(1), x.flatten(1), x.flatten(start_dim=2), torch.flatten(x, 1), x.unsqueeze(1),
        x.unsqueeze(-1).squeeze(-1), x.unsqueeze(0).squeeze(), x.squeeze((0,)), x.expand(3, n, c, h, h), x[:1].expand(5, -1, -1, -1), x.mean(1),
        x.mean([2, 3]), x.mean((2, 3), keepdim=True), x.mean(dim=-1), x.mean(), x.mean(1, True), x.sum(), x.sum(1),
        x.sum((1, 2), True), torch.sum(x, dim=2, keepdim=True), x.amax((1, 2)), torch.amin(x, 1, keepdim=True), x.argmax(1), torch.argmax(x),
        x.softmax(1), torch.softmax(x, -1), torch.log_softmax(x, 1), x.var(1), torch.var(x, (1, 2), unbiased=False), x.var(1, correction=0, keepdim=True),
        x.std(-1), torch.std(x, 1, False), a, b, p, q, r, first, rest[0], u[0], u[1], v[2], torch.cat(x.chunk(2), 1), torch.cat([a, b], dim=1),
        torch.stack([a, b]), torch.concat((a, b)), y, z, z2, k,
        x[0], x[:, 1], x[:, :2, 1:-1], x[..., -1], x[:, None], x[0, ..., ::2], x[:, :, None, 2:4], x[:], x[1][0], x[None], x.reshape_as(x.flatten(1)),
        x.view_as(x.reshape(n, c, h, h)), x[:, :1].expand_as(x), x.T.flatten(), x.mT, line.mT, x.data, x.detach(), line[0].t(),
        line[0].T, x.float(), x.double(), x.half(), x.bfloat16().float(), x.int(), x.long(), x.bool(), x.to(torch.float64), x.to("cpu"),
        x.to("cpu", torch.float16), x.to(dtype=torch.int32), x.to(torch.device("cpu"), torch.int64, False, True), x.to(ids), ids.type_as(x),
        ids.to(x.dtype), x.to(x.device), x.type(torch.float64), x.cpu(), x.requires_grad_(False), x.masked_fill(x > 0, -1.0),
        torch.masked_fill(x, x < 0, 2), x.index_select(1, ids.clamp(0, 3)), x.abs().pow(0.5), x.pow(2), x ** 2, 2 ** x, x.abs() ** w[:2, :, :1, :1],
        x.matmul(x), x @ x, torch.bmm(line, line.transpose(1, 2)), torch.mm(line[0], line[1].t()),
        torch.addmm(x[0, 0], x[0, 1], x[0, 2], beta=0.5), line[0] @ line[1].t(), torch.rsub(x, 1), 1 - x, x / 3, 3 / x.abs().clamp(min=0.1), x // 0.3, x.floor_divide(2), torch.floor_divide(x, 0.5), ids // 2, x % 0.7,
        torch.remainder(x, 0.4), x.fmod(0.3), -x, abs(x), x + 1, 1 + x, x - 2, 2 - x, x * 0.5, x > 0, x >= 0.1, x < 0, x <= 0, x == x, x != 0, x.eq(0),
        (x > 0) & (x < 1), (x > 0) | (x < -1), (x > 0) ^ (x > 1), ~(x > 0), torch.logical_and(x > 0, x < 1), torch.where(x > 0, x, -x),
        torch.where(x > 0, x, 0.0), torch.add(x, x, alpha=2), torch.sub(x, 1), torch.mul(x, 2), torch.div(x, 2), torch.div(x, 0.3, rounding_mode="floor"),
        torch.clamp(x, -1, 1), x.clamp(max=0.2), x.clamp_min(0), x.maximum(x * 2), torch.minimum(x, -x), x.exp(), x.abs().log1p(), torch.sqrt(x.abs()),
        x.abs().sqrt().rsqrt(), x.reciprocal(), x.sign(), x.erf(), x.sin(), x.cos(), x.floor(), x.ceil(), x.round(), x.trunc(), x.tanh(), x.sigmoid(),
        x.relu(), x.square(), x.neg(), torch.relu(x), torch.sigmoid(x), torch.tanh(x), torch.abs(x), x.logical_not(), x.flip([1, 2]), torch.flip(x, (0,)),
        torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3), torch.arange(c), torch.zeros((n, c)), x.numel() * x, x.dim() + x,
        x * (x.size(1) - 1) / x.ndim, operator.add(x, x), operator.iadd(x + 0, 1), x]


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.pictures, self.lines, self.volumes = nn.ModuleList(PICTURES), nn.ModuleList(LINES), nn.ModuleList(VOLUMES)
        self.inplace = nn.ModuleList(INPLACE)
        self.embedding, self.padded = nn.Embedding(10, 5), nn.Embedding(10, 5, padding_idx=-2)
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 3))
        self.tied = nn.Linear(5, 10, bias=False)
        self.tied.weight = self.embedding.weight
        self.register_buffer("table", torch.randn(100), persistent=False)

    def forward(self, x, ids):
        tokens = self.embedding(ids)
        torch._assert(x.shape[1] == 4, "four channels")
        return {"pictures": [m(x) for m in self.pictures], "lines": [m(x.flatten(2)) for m in self.lines],
                "volumes": [m(x[:, :, None]) for m in self.volumes], "inplace": [m(x * 1.5) for m in self.inplace],
                "tokens": (tokens, self.padded(ids), self.tied(tokens), self.table * 2), "functional": functional(x, self.weight, ids),
                "methods": methods(x, self.weight, ids)}


def leaves(v):
    if isinstance(v, torch.Tensor):
        return [v]
    return [leaf for x in (v.values() if isinstance(v, dict) else v) for leaf in leaves(x)]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    torch.manual_seed(3)
    model = Rows().eval()
    for m in model.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.InstanceNorm2d)) and m.running_mean is not None:
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
    inputs = torch.randn(2, 4, 8, 8), torch.tensor([1, 0, 3])

    traced = trace(model)
    folder = tmp_path_factory.mktemp("rows")
    export(traced, folder / "rows.fx", inputs)
    with torch.no_grad():
        outputs = leaves(model(*inputs))
    return model, traced, inputs, outputs, folder


class Item(fx.Proxy):
    """symbolic_trace refuses x[i] = v; torch.compile's graphs have it as operator.setitem."""

    def __setitem__(self, index, v):
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, v), {})


def trace(model):
    class Tracer(fx.Tracer):
        def proxy(self, node):
            return Item(node, self)

        def is_leaf_module(self, m, name):
            return isinstance(m, nn.Sequential) or super().is_leaf_module(m, name)  # chains called as one

    tracer = Tracer()
    graph = tracer.trace(model)
    return fx.GraphModule(tracer.root, graph)


def test_equal_to_eager(rows):
    _, _, inputs, outputs, folder = rows
    got = run(folder / "rows.fx", [x.numpy() for x in inputs], folder)
    expected = [y.detach().float().numpy() if y.dtype == torch.bfloat16 else y.detach().numpy() for y in outputs]
    assert_close(got, expected)


def test_legal_text_equal_to_eager(rows):
    """The same after legalize has written its result as text and it was read back, all types inferred anew."""
    _, _, inputs, outputs, folder = rows
    fxcc("opt", folder / "rows.fx", "--passes=legalize", "-o", folder / "legal.fx")
    got = run(folder / "legal.fx", [x.numpy() for x in inputs], folder)
    assert_close(got, [y.detach().numpy() for y in outputs])


def test_every_row_is_used(rows):
    _, traced, _, _, _ = rows
    table = (pathlib.Path(__file__).resolve().parents[2] / "passes" / "legalize.def").read_text()
    modules = set(re.findall(r"^MODULE\((\w+),", table, re.M))
    calls = {n.replace("F.", "torch.nn.functional.", 1) if n.startswith("F.") else n
             for names in re.findall(r'^CALL\("([^"]*)"', table, re.M) for n in names.split()}
    used = set()
    for node in traced.graph.nodes:
        if node.op == "call_module":
            modules.discard(type(traced.get_submodule(node.target)).__name__)
        elif node.op == "call_method":
            used.add(f".{node.target}")
        elif node.op == "call_function":
            used.add(fxcc_export.function_name(node.target).replace("operator.", "_operator."))
    # Spellings that reach the same function under another name, or only hand-written texts.
    aliases = {"torch._C._nn.avg_pool2d", "torch._C._nn.adaptive_avg_pool2d", ".__getitem__", ".__setitem__", ".split", "torch.functional.split",
               "torch.split", "torch.nn.functional.logsigmoid", "torch.nn.functional.upsample", "torchvision.ops.stochastic_depth.stochastic_depth", "torch.selu", "torch.celu", "torch.avg_pool1d",
               "torch.adaptive_avg_pool1d", "torch.rms_norm", "torch.hardshrink", "torch.nn.functional.threshold", "torch._C._nn.softshrink"}
    assert not modules and calls - used <= aliases, (modules, calls - used - aliases)


@pytest.mark.parametrize("module, words", [
    (nn.LSTM(4, 4), ["torch.nn.modules.rnn.LSTM", "'m'", "not supported"]),
    (nn.BatchNorm2d(4).train(), ["training mode", "model.eval()"]),
    (nn.BatchNorm2d(4, track_running_stats=False).eval(), ["no running statistics"]),
    (nn.Dropout(0.5).train(), ["training mode"]),
    (nn.MaxPool2d(2, return_indices=True), ["return_indices"]),
    (nn.Upsample(scale_factor=2, mode="bicubic"), ["bicubic"]),
    (nn.Conv2d(3, 4, 1), ["m", "3", "4"]),
])
def test_refused_by_name(module, words, tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = module

        def forward(self, x):
            return self.m(x)
    traced = fx.symbolic_trace(Net())
    export(traced, tmp_path / "net.fx", torch.randn(2, 4, 8, 8))
    error = fxcc("compile", tmp_path / "net.fx", "-o", tmp_path / "out", fails=True)
    assert all(w in error for w in words), error
    assert not (tmp_path / "out").exists()


def test_all_are_refused_at_once(tmp_path):
    def net(x):
        a = torch.fft.fft(x)
        b = torch.linalg.det(x)
        return a, b, torch.linalg.det(x + 1), x.cummax(0), torch.cat([a, x])
    export(fx.symbolic_trace(net), tmp_path / "net.fx", torch.randn(2, 2))
    error = fxcc("compile", tmp_path / "net.fx", "-o", tmp_path / "out", fails=True)
    assert "torch.fft.fft" in error and "torch.linalg.det" in error and "2 nodes" in error and "cummax" in error, error


def test_what_the_exporter_refuses(tmp_path):
    graph = fx.Graph()
    x = graph.placeholder("x")
    add = graph.call_function(torch.add, (x, 1))
    graph.output(add)
    net = fx.GraphModule(nn.Module(), graph)
    add.args = (x, object())
    with pytest.raises(fxcc_export.ExportError, match="node 'add'.*object"):
        export(net, tmp_path / "net.fx")
    assert not list(tmp_path.iterdir())


def test_types_and_places(tmp_path):
    """What ShapeProp and the tracer noted; a note that contradicts is refused."""
    from torch.fx.passes.shape_prop import ShapeProp

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

        def forward(self, x):
            return torch.cat(self.inner(x).chunk(2, 1))
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    model = Net()
    traced = fx.GraphModule(model, tracer.trace(model))
    x = torch.randn(1, 3, 8, 8)
    export(traced, tmp_path / "untyped.fx")
    assert "example inputs" in fxcc("compile", tmp_path / "untyped.fx", "-o", tmp_path / "out", fails=True)
    ShapeProp(traced).propagate(x)
    export(traced, tmp_path / "net.fx")
    text = (tmp_path / "net.fx").read_text()
    assert "%x : f32[1, 3, 8, 8] = placeholder[x]" in text
    assert "%chunk : (f32[1, 2, 6, 6], f32[1, 2, 6, 6]) = call_method[chunk]" in text
    assert re.search(r"%inner_0 .*  # inner.0, fx_models/test_rows.py:\d+$", text, re.M), text
    with torch.no_grad():
        assert_close(run(tmp_path / "net.fx", [x.numpy()], tmp_path), [model(x).numpy()])
    (tmp_path / "net.fx").write_text(text.replace("%inner_1 : f32[1, 4, 6, 6]", "%inner_1 : f32[1, 4, 6, 7]"))
    error = fxcc("compile", tmp_path / "net.fx", "-o", tmp_path / "out", fails=True)
    assert "'inner_1'" in error and "f32[1, 4, 6, 7]" in error, error


def test_names_and_notes(tmp_path):
    """Python's words as names, user attributes, tied and overlapping tensors, notes on nodes, non-finite constants."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.add_module("0", nn.ReLU())
            self.nan = nn.Parameter(torch.tensor([float("nan"), float("inf"), -0.0] + [1.0] * 100))
            base = torch.arange(300.0)
            self.register_buffer("head", base[:200].view(10, 20))
            self.register_buffer("tail", base[100:].view(20, 10).t(), persistent=False)

        def forward(self, x, flag=None, *, scale=float("inf")):
            one = x[0, 0]
            return getattr(self, "0")(self.first(x)) * scale, one * self.nan * float("nan"), one + self.head, one * self.tail
    model = Net()
    traced = fx.symbolic_trace(model)
    traced._non_persistent_buffers_set.add("tail")  # symbolic_trace forgets it
    traced.first.note = {"owner": "me", "since": (2024, 1.5, None)}
    for node in traced.graph.nodes:
        if node.op == "call_module":
            node.meta["tag"] = "part"
    export(traced, tmp_path / "net.fx", torch.randn(2, 3))
    text = (tmp_path / "net.fx").read_text()
    assert 'meta {"note": {"owner": "me", "since": (2024, 1.5, None)}}' in text and 'meta {"tag": "part"}' in text
    assert "transient shares 0+100" in text
    assert fxcc("show", "--text", tmp_path / "net.fx") == text
    x = torch.randn(2, 3)
    got = run(tmp_path / "net.fx", [x.numpy()], tmp_path)
    with torch.no_grad():
        expected = [t.numpy() for t in model(x)]
    for a, b in zip(got, expected, strict=True):
        numpy.testing.assert_array_equal(a, b)
