"""Forward and backward graphs of networks over images, as AOTAutograd makes them of a training step: interpreted, in memory by LLVM and as emitted
C, against what torch computes of the same graphs.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import os
import subprocess

import fxcc_export
import numpy
import pytest
import torch
import torchvision
from torch import nn
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_module, make_boxed_func
from torchvision.models.resnet import BasicBlock

TOLERANCE = 5e-4  # of the largest element of each result: norms over few elements make rounding large


class SmallResNet(nn.Module):
    """ResNet-18's layers at an eighth of its width."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        blocks, planes = [], 8
        for out, stride in ((8, 1), (8, 1), (16, 2), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
            down = None
            if stride > 1:
                down = nn.Sequential(nn.Conv2d(planes, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            blocks.append(BasicBlock(planes, out, stride, down))
            planes = out
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(self.maxpool(self.bn1(self.conv1(x)).relu()))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Mixed(nn.Module):
    """One of each: transposed, depthwise, dilated and one-dimensional convolutions, pools, resampling, activations, norms without statistics."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.depthwise = nn.Conv2d(12, 12, 3, 2, 1, groups=12)
        self.groups = nn.Conv2d(12, 24, 3, padding=2, dilation=2, groups=3)
        self.up = nn.ConvTranspose2d(24, 10, 3, 2, 1, output_padding=1)
        self.line = nn.Conv1d(10, 7, 5, 2, 2)
        self.norm = nn.BatchNorm2d(12, track_running_stats=False)
        self.norm1 = nn.BatchNorm1d(7, affine=False, momentum=0.3)

    def forward(self, x):
        f = nn.functional
        x = f.hardswish(self.norm(self.stem(x)))
        x = f.silu(self.depthwise(f.avg_pool2d(x, 3, 1, 1)))
        x = f.leaky_relu(self.groups(x), 0.1)
        x = f.relu6(self.up(f.adaptive_avg_pool2d(x, (5, 6))) + 1)
        x = f.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = f.interpolate(f.elu(x), scale_factor=1.5, mode="nearest")
        x = f.hardsigmoid(f.adaptive_max_pool2d(x, (4, 5)))
        return self.norm1(self.line(x.flatten(2)).tanh()).sigmoid().flatten(1)


def mobilenet():
    return torchvision.models.MobileNetV2(10, inverted_residual_setting=[[1, 8, 1, 1], [6, 16, 2, 2], [6, 24, 1, 1]], dropout=0.0)


def shufflenet():
    return torchvision.models.ShuffleNetV2([1, 2, 1], [8, 16, 32, 64, 64], num_classes=10)


def densenet():
    return torchvision.models.DenseNet(growth_rate=4, block_config=(2, 3), num_init_features=8, num_classes=10)


MODELS = {"resnet": (SmallResNet, (4, 3, 64, 64)), "mixed": (Mixed, (3, 3, 16, 18)), "mobilenet": (mobilenet, (4, 3, 32, 32)),
          "shufflenet": (shufflenet, (4, 3, 64, 64)), "densenet": (densenet, (2, 3, 40, 40))}


class Step(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return ((self.model(x) - y) ** 2).mean()


def graphs(name, decompositions):
    """[(name, graph, inputs, what torch gives)] of one training step."""
    make, size = MODELS[name]
    torch.manual_seed(len(name))
    step, x = Step(make().train()), torch.randn(size, requires_grad=True)
    with torch.no_grad():
        y = torch.randn_like(step.model(x))
    found = []

    def compiler(which):
        def compile_graph(graph, _):
            def run(*args):
                given = [a.detach().clone() for a in args]
                out = graph(*args)
                results = out if isinstance(out, (tuple, list)) else [out]
                found.append((which, graph, given, [t.detach().clone() for t in results if t is not None]))
                return out
            return make_boxed_func(run)
        return compile_graph

    aot_module(step, fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), decompositions=decompositions)(x, y).backward()
    assert [f[0] for f in found] == ["forward", "backward"]
    return found


def writable(graph):
    """Gradients that nobody asked for are None among the results; notes of AOTAutograd's have no text form."""
    for node in graph.graph.nodes:
        node.meta = {}
    output = next(n for n in graph.graph.nodes if n.op == "output")
    output.args = (tuple(a for a in output.args[0] if a is not None),)
    graph.recompile()
    return graph


def difference(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind != "f":
        return None if numpy.array_equal(got, want) else "other integers"
    bound = TOLERANCE * max(float(numpy.abs(want).max(initial=0)), 1e-2)
    off = float(numpy.abs(got - want).max(initial=0))
    return None if off <= bound else f"off by {off}, at most {bound} allowed"


@pytest.mark.parametrize("name, decompositions", [*((n, "as traced") for n in MODELS), ("resnet", "core aten"), ("mixed", "core aten")])
def test_training_step(fxcc, name, decompositions, tmp_path):
    table = core_aten_decompositions() if decompositions == "core aten" else None
    for which, graph, inputs, want in graphs(name, table):
        text = tmp_path / f"{which}.fx"
        fxcc_export.export(writable(graph), text, inputs)
        text.write_text(text.read_text().replace(" captured\n", " imported\n", 1))  # they have aten operators only
        paths = []
        for i, t in enumerate(inputs):
            paths.append(tmp_path / f"{which}{i}.npy")
            numpy.save(paths[-1], t.contiguous().numpy())
        for way in (["--interpret"], [], ["--emit-c"]):
            out = tmp_path / "out.npz"
            done = subprocess.run([fxcc, "run", text, *paths, "-o", out, *way], capture_output=True, text=True,
                                  env=dict(os.environ, CFLAGS="-O0"))
            assert done.returncode == 0, f"{which} {way}: {done.stderr[-2000:]}"
            with numpy.load(out) as z:
                got = [z[k] for k in z.files]
            assert len(got) == len(want), (which, way)
            wrong = [f"result {i}: {words}" for i, (g, w) in enumerate(zip(got, want)) if (words := difference(g, w.numpy()))]
            assert not wrong, f"{which} {way}: {wrong[:8]}"
