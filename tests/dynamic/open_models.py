"""Models whose sizes stay open when exported, with the sizes that they are tried at.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import dataclasses
import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.export import Dim

import zoo
import zoo_transformers as zt


@dataclasses.dataclass
class Open:
    module: nn.Module
    inputs: Callable      # of a seed and sizes
    dims: tuple           # dynamic_shapes, an entry an input
    example: tuple        # the sizes it is exported at
    sizes: list           # sizes to run at: the ends of the ranges among them
    refused: list         # shapes of inputs (a list a case) that a run must refuse
    decompose: bool = False  # run_decompositions() after the export


def drawn(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def text(build, attention, **config):
    """Both of its inputs are [batch, length]."""
    module, _ = build(attention, **config)
    batch, length = Dim("batch", min=1, max=6), Dim("length", min=2, max=40)
    return Open(module, lambda seed, b, n: (zt.tokens(seed, 100, b, n), zt.padding(seed, b, n)), (({0: batch, 1: length},) * 2,), (2, 12),
                [(1, 2), (6, 40), (2, 12), (3, 7), (1, 33), (5, 8)], [[(7, 12)] * 2, [(2, 41)] * 2, [(2, 1)] * 2, [(2, 12), (2, 11)], [(2, 12), (3, 12)]])


def encoder():
    layer = nn.TransformerEncoderLayer(24, 3, 40, activation="gelu", batch_first=True)
    batch, length = Dim("batch", min=1, max=9), Dim("length", min=1, max=70)
    return Open(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), lambda seed, b, n: (drawn((b, n, 24), seed),), ({0: batch, 1: length},),
                (2, 10), [(1, 1), (9, 70), (2, 10), (1, 64), (5, 3)], [[(10, 10, 24)], [(2, 71, 24)], [(2, 10, 23)], [(0, 10, 24)]])


def encoder_auto():
    """Sizes that torch.export finds by itself, without an upper end."""
    o = encoder()
    o.dims = ({0: Dim.AUTO, 1: Dim.DYNAMIC},)
    o.sizes = [(2, 10), (3, 17), (9, 70), (2, 2)]
    o.refused = [[(2, 10, 23)], [(-1, 10, 24)]]
    return o


def encoder_decomposed():
    o = encoder()
    o.decompose = True
    return o


def gpt2():
    module, _ = zt.gpt2("sdpa")
    return Open(module, lambda seed, n: (zt.tokens(seed, 100, 2, n),), (({1: Dim("length", min=2, max=64)},),), (12,), [(2,), (64,), (12,), (37,)],
                [[(2, 65)], [(2, 1)], [(3, 12)]])


def gpt2_eager():
    o = gpt2()
    o.module = zt.gpt2("eager")[0]
    return o


def resnet(layers):
    from torchvision.models.resnet import BasicBlock, ResNet
    batch, height, width = Dim("batch", min=1, max=4), Dim("height", min=33, max=160), Dim("width", min=33, max=160)
    return Open(ResNet(BasicBlock, layers, num_classes=10), lambda seed, b, h, w: (drawn((b, 3, h, w), seed),), ({0: batch, 2: height, 3: width},),
                (2, 64, 96), [(1, 33, 33), (4, 160, 160), (2, 64, 96), (3, 37, 101), (1, 160, 33)],
                [[(5, 3, 64, 64)], [(1, 3, 32, 64)], [(1, 3, 64, 161)], [(1, 4, 64, 64)]])


class Pooled(nn.Module):
    """Pictures of any size: strides, dilation, pools to fixed grids, a size as a number."""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.SiLU(), nn.MaxPool2d(3, 2, 1))
        self.b = nn.Conv2d(12, 12, 3, 1, 2, 2)
        self.c = nn.Conv2d(24, 8, 1)
        self.d = nn.Linear(8 * 6, 5)

    def forward(self, x):
        a = self.a(x)
        c = torch.relu(self.c(torch.cat([a, self.b(a)], 1)))
        grid = nn.functional.adaptive_avg_pool2d(c, (3, 2))
        return self.d(grid.flatten(1)), c.amax((2, 3)) / c.shape[2], nn.functional.interpolate(c, scale_factor=2.0)


def pooled():
    height, width = Dim("height", min=12, max=90), Dim("width", min=9, max=90)
    return Open(Pooled(), lambda seed, h, w: (drawn((1, 3, h, w), seed),), ({2: height, 3: width},), (24, 32),
                [(12, 9), (90, 90), (24, 32), (13, 57), (31, 64)], [[(1, 3, 11, 32)], [(1, 3, 24, 91)], [(2, 3, 24, 32)]])


class Halves(nn.Module):
    """Sizes of inputs that are no symbol alone: pairs of rows, one more than another, a multiple and one."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x, y, z):
        pairs = self.linear(x).view(-1, 2, 4).sum(1)
        return pairs, torch.relu(x[::2] - x[1::2]) * y[1:].mean(0), (z[1:] * z[:-1]).view(-1, 3, 2).sum(1).softmax(0)


def halves():
    half, d, k = Dim("half", min=2, max=20), Dim("d", min=2, max=9), Dim("k", min=2, max=7)
    return Open(Halves(), lambda seed, h, n, m: (drawn((2 * h, 6), seed), drawn((n + 1, 6), seed + 1), drawn((3 * m + 1, 2), seed + 2)),
                ({0: 2 * half}, {0: d + 1}, {0: 3 * k + 1}), (5, 4, 3), [(2, 2, 2), (20, 9, 7), (5, 4, 3), (11, 7, 2)],
                [[(9, 6), (5, 6), (10, 2)], [(42, 6), (5, 6), (10, 2)], [(10, 6), (2, 6), (10, 2)], [(10, 6), (5, 6), (11, 2)], [(10, 6), (5, 6), (25, 2)]])


class Plain(nn.Module):
    """Few rows: none, one. The same size comes with both inputs."""

    def forward(self, x, y):
        s = x * y + x.sum(1, keepdim=True)
        return torch.cat([s, y], 1), s.flip(0), torch.relu(x) @ y.t()


def plain():
    rows, columns = Dim("rows", min=0, max=8), Dim("columns", min=1, max=30)
    return Open(Plain(), lambda seed, n, m: (drawn((n, m), seed), drawn((n, m), seed + 1)), ({0: rows, 1: columns},) * 2, (3, 5),
                [(0, 4), (1, 1), (8, 30), (3, 5), (0, 1), (1, 30)], [[(9, 5)] * 2, [(3, 31)] * 2, [(3, 5), (4, 5)], [(3, 5), (3, 6)], [(3, 0)] * 2])


QUICK = {
    "encoder": encoder, "encoder_auto": encoder_auto, "encoder_decomposed": encoder_decomposed,
    "bert_sdpa": lambda: text(zt.bert, "sdpa"), "bert_eager": lambda: text(zt.bert, "eager"),
    "gpt2": gpt2, "gpt2_eager": gpt2_eager, "resnet": lambda: resnet([1, 1, 1, 1]), "pooled": pooled, "halves": halves, "plain": plain,
}
FULL = {"resnet18": lambda: resnet([2, 2, 2, 2])}


def export(model, path):
    """Writes the .pt2."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model.module, model.inputs(1, *model.example), dynamic_shapes=model.dims)
        torch.export.save(program.run_decompositions() if model.decompose else program, path)


def eager(model, seed, sizes):
    """Inputs and outputs as arrays."""
    inputs = model.inputs(seed, *sizes)
    with torch.no_grad():
        return [t.numpy() for t in inputs], [t.numpy() for t in zoo.leaves(model.module(*inputs))]


def build(name):
    torch.manual_seed(sum(name.encode()))
    model = (QUICK | FULL)[name]()
    model.module.eval()
    with torch.no_grad():
        (zt.randomize if "resnet" not in name and name != "pooled" else zoo.randomize)(model.module)
    return model
