"""The ways of a convolution that a GPU's target chooses where they pay: the CUDA that fxcc emits, on the host's CUDA, against PyTorch in double precision, each
element within the bound of its way; and a network of such layers, against eager.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import re

import numpy
import pytest
import torch
from torch import nn

import cuda_emitted
import emitted
import winograd
from test_half import STEP, Block, as_type, bits

U = 2.0 ** -24


def calls(folder, kernel):
    return len(re.findall(rf"return fxrt_cuda_{kernel}\((products, )?&desc", (folder / "net.cu").read_text()))


def built(model, inputs, folder, library, *options):
    with torch.no_grad():
        torch.export.save(torch.export.export(model, tuple(inputs)), folder / "model.pt2")
    cuda_emitted.emit(folder / "model.pt2", folder, *options)
    return cuda_emitted.Net(cuda_emitted.build(folder, library), folder / "net.bin")


def run(net, inputs, like, schedule):
    got = net.run([bits(x) for x in inputs], [bits(y) for y in like], schedule)
    return [torch.from_numpy(g.view(numpy.int16) if y.dtype in STEP else g).view(y.dtype).double() for g, y in zip(got, like, strict=True)]


def check(got, want, bound, what):
    wrong = (got - want).abs() / bound
    assert wrong.max() <= 1, f"{what}: {wrong.max():.3g} of what rounding explains, at {numpy.unravel_index(int(wrong.argmax()), wrong.shape)}"


class Convolutions(nn.Module):
    """Of an input each, by themselves: (input, output channels, keywords of Conv2d), with a residual or without."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(i, o, **keywords) for i, o, keywords in layers)

    def forward(self, *x):
        return tuple(layer(v) for layer, v in zip(self.layers, x))


def double(layer, x):
    """The sums, and those of absolute values."""
    with torch.no_grad():
        exact, size = (nn.functional.conv2d(f(x.double()), f(layer.weight.double()), None, layer.stride, layer.padding, layer.dilation, layer.groups) for f in (lambda t: t, torch.abs))
    bias = 0 if layer.bias is None else layer.bias.detach().double()[:, None, None]
    return exact + bias, size


def winograd_bound(layer, x, exact):
    """By element: of the sum, that of its theorem (winograd.py), and a rounding where the bias is added."""
    a, g, b = (torch.tensor([[abs(float(v)) for v in row] for row in m], dtype=torch.float64) for m in (winograd.A, winograd.G, winograd.B))
    (n, oc, oh, ow), (py, px) = exact.shape, layer.padding
    down, across = -(-oh // 4), -(-ow // 4)
    images = nn.functional.pad(x.double().abs(), (px, 4 * across + 2 - x.shape[3] - px, py, 4 * down + 2 - x.shape[2] - py))
    tiles = images.unfold(2, 6, 4).unfold(3, 6, 4)
    inner = torch.einsum("pi,qj,ncyxij->ncyxpq", b, b, tiles)
    weights = torch.einsum("pi,qj,ocij->ocpq", g, g, layer.weight.detach().double().abs())
    outer = torch.einsum("ip,jq,noyxpq->noyxij", a, a, torch.einsum("ocpq,ncyxpq->noyxpq", weights, inner))
    whole = outer.permute(0, 1, 2, 4, 3, 5).reshape(n, oc, 4 * down, 4 * across)[:, :, :oh, :ow]
    r = (layer.in_channels + 17) * U
    return r / (1 - r) * whole + U * exact.abs()


def test_winograd(library, tmp_path):
    """Channels that fill no tile, pictures whose last tiles hang over, paddings that are not 1."""
    torch.manual_seed(3)
    layers = [(96, 130, dict(padding=0), (4, 17, 19)), (130, 97, dict(padding=1, bias=False), (3, 18, 21)), (128, 128, dict(padding=(2, 0)), (2, 30, 11)), (101, 99, dict(padding=1), (3, 16, 23))]
    model = Convolutions(*((i, o, dict(kernel_size=3, **k)) for i, o, k, _ in layers))
    inputs = [torch.randn(n, i, h, w) for i, _, _, (n, h, w) in layers]
    net = built(model, inputs, tmp_path, library)
    assert calls(tmp_path, "conv2d_wino") == len(layers)
    exact = [double(layer, x)[0] for layer, x in zip(model.layers, inputs)]
    for schedule in (0, 4):
        for i, y in enumerate(run(net, inputs, [y.float() for y in exact], schedule)):
            check(y, exact[i], winograd_bound(model.layers[i], inputs[i], exact[i]), f"layer {i}, schedule {schedule}")
            noise = ((y - exact[i]).square().mean() / exact[i].square().mean()).sqrt()
            assert noise <= winograd.relative(layers[i][0]), f"layer {i}: {noise:.3g} of the results"


@pytest.mark.parametrize("dtype", STEP, ids=["float16", "bfloat16"])
def test_panels(dtype, library, tmp_path):
    """Odd channels, strides, paddings, dilations; groups and small layers are left to the kernel that adds floats."""
    torch.manual_seed(4)
    layers = [(37, 53, dict(kernel_size=3, padding=1), (8, 28, 28)), (64, 96, dict(kernel_size=3, stride=2, padding=1), (8, 31, 33)), (24, 48, dict(kernel_size=5, dilation=2, padding=(4, 3)), (8, 26, 20)),
              (3, 64, dict(kernel_size=7, stride=(2, 3), padding=3, bias=False), (8, 64, 130)), (40, 72, dict(kernel_size=(1, 7), padding=(0, 3)), (8, 20, 33)),
              (64, 64, dict(kernel_size=3, padding=1, groups=2), (4, 20, 20)), (5, 7, dict(kernel_size=3), (1, 6, 6))]
    model = as_type(Convolutions(*((i, o, k) for i, o, k, _ in layers)), dtype)
    inputs = [torch.randn(n, i, h, w).to(dtype) for i, _, _, (n, h, w) in layers]
    net = built(model, inputs, tmp_path, library)
    assert (calls(tmp_path, "conv2d_half"), calls(tmp_path, "conv2d")) == (5, 2)
    exact = [double(layer, x) for layer, x in zip(model.layers, inputs)]
    for schedule in (0, 4):
        for i, y in enumerate(run(net, inputs, [y.to(dtype) for y, _ in exact], schedule)):
            terms = model.layers[i].weight[0].numel() + 1
            check(y, exact[i][0], (STEP[dtype] * exact[i][0].abs() + 2 * terms * U * exact[i][1] + 2.0 ** -25), f"layer {i}, schedule {schedule}")


class Gradients(nn.Module):
    """Of weights alone, as training has them: (weight, keywords of conv2d)."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = layers

    def forward(self, *tensors):
        out = []
        for (shape, k), x, g in zip(self.layers, tensors[::2], tensors[1::2]):
            out.append(torch.ops.aten.convolution_backward(g, x, x.new_zeros(shape), None, k.get("stride", [1, 1]), k.get("padding", [0, 0]), k.get("dilation", [1, 1]), False, [0, 0],
                                                           k.get("groups", 1), [False, True, False])[1])
        return tuple(out)


def test_gradients(library, tmp_path):
    """Many pixels for few weights: sums in parts. Strides, dilations, groups, depthwise; the last one's pixels are too few."""
    torch.manual_seed(5)
    layers = [((10, 7, 3, 3), dict(padding=[1, 1]), (3, 21, 22)), ((70, 9, 3, 3), dict(stride=[2, 2], padding=[1, 0]), (4, 33, 34)), ((12, 5, 5, 3), dict(dilation=[2, 1], groups=2), (2, 30, 27)),
              ((40, 1, 3, 3), dict(padding=[1, 1], groups=40), (2, 24, 25)), ((6, 5, 1, 1), {}, (1, 9, 9))]
    inputs, want, bounds = [], [], []
    for (oc, ic, kh, kw), k, (n, h, w) in layers:
        x = torch.randn(n, ic * k.get("groups", 1), h, w)
        g = torch.randn(nn.functional.conv2d(x, torch.zeros(oc, ic, kh, kw), None, **k).shape)
        gradient = lambda x, g: torch.nn.grad.conv2d_weight(x.double(), (oc, ic, kh, kw), g.double(), **k)
        inputs += [x, g]
        want.append(gradient(x, g))
        bounds.append((g.numel() / oc + 1) * U * gradient(x.abs(), g.abs()) + 1e-30)
    net = built(Gradients(*((s, k) for s, k, _ in layers)), inputs, tmp_path, library)
    assert (calls(tmp_path, "conv2d_weight_grad_split"), calls(tmp_path, "conv2d_weight_grad")) == (4, 1)
    for schedule in (0, 4):
        for i, y in enumerate(run(net, inputs, [y.float() for y in want], schedule)):
            check(y, want[i], bounds[i], f"layer {i}, schedule {schedule}")


class Residual(nn.Module):
    """ResNet-18's first, an inner and a last stage, at a picture size that leaves 16 x 16 pixels to the inner one."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 128, 3, 2, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU())
        self.blocks, self.head = nn.Sequential(Block(128, 128, 1), Block(128, 128, 1), Block(128, 64, 2)), nn.Linear(64, 10)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                for t, low, high in ((m.running_mean, -0.3, 0.3), (m.running_var, 0.5, 1.5), (m.weight.data, 0.5, 1.5), (m.bias.data, -0.3, 0.3)):
                    t.uniform_(low, high)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


@pytest.mark.parametrize("dtype, kernel, tolerance", [(torch.float32, "conv2d_wino", 1e-5), (torch.float16, "conv2d_half", 2e-2)], ids=["winograd", "panels"])
def test_equals_eager(dtype, kernel, tolerance, library, tmp_path):
    torch.manual_seed(7)
    model, x = as_type(Residual().eval(), dtype), torch.randn(8, 3, 32, 32).to(dtype)
    with torch.no_grad():
        y = model(x)
    net = built(model, [x], tmp_path, library)
    assert calls(tmp_path, kernel) >= 4
    for schedule in (0, 5):
        emitted.assert_close([run(net, [x], [y], schedule)[0].float().numpy()], [y.float().numpy()], f"schedule {schedule}", tolerance)
    if dtype == torch.float32:
        for option in ("--disable=winograd", "--allow-tf32"):
            cuda_emitted.emit(tmp_path / "model.pt2", tmp_path, option)
            assert calls(tmp_path, kernel) == 0, option


class Branches(nn.Module):
    """Three that need nothing of one another, with products of each kind: on streams of their own they share what cuBLASLt may use, and each has its own behind it."""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 96, 1))
        self.b = nn.Sequential(nn.Conv2d(128, 64, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, padding=1), nn.SiLU())
        self.c = nn.Conv2d(128, 72, 3, padding=1)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x), self.c(x)], 1)


@pytest.mark.parametrize("dtype, kernel, tolerance", [(torch.float32, "conv2d_wino", 1e-5), (torch.float16, "conv2d_half", 4e-3)], ids=["winograd", "panels"])
def test_beside(dtype, kernel, tolerance, library, tmp_path):
    torch.manual_seed(1)
    model, x = as_type(Branches(), dtype), torch.randn(4, 128, 21, 20).to(dtype)
    with torch.no_grad():
        y = model(x)
    net = built(model, [x], tmp_path, library, "--disable=pays")
    assert calls(tmp_path, kernel) == 3 and "net_fork(" in (tmp_path / "net.cu").read_text()
    for schedule in (3, 6):
        emitted.assert_close([run(net, [x], [y], schedule)[0].float().numpy()], [y.float().numpy()], f"schedule {schedule}", tolerance)
