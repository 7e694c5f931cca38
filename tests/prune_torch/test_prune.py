"""Pruning against torch: elements as torch.nn.utils.prune chooses them; a network without channels computes what torch does with these zero.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy
import pytest
import torch
import torchvision
from torch import fx, nn
from torch.nn.utils import prune

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
import fxcc_export  # noqa: E402

FXCC = os.environ.get("FXCC", "fxcc")
MODELS = [("resnet18", "exported"), ("mobilenet_v2", "captured"), ("mobilenet_v3_small", "exported"), ("densenet121", "captured"),
          ("shufflenet_v2_x1_0", "exported"), ("squeezenet1_1", "captured"), ("regnet_y_400mf", "captured")]


def fxcc(*argv):
    done = subprocess.run([FXCC, *map(str, argv)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def tensors(path):
    """A .safetensors file; small tensors may stand in the text beside it instead."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            a, b = (8 + size + o for o in t["data_offsets"])
            found[name] = numpy.frombuffer(data[a:b], numpy.float32).reshape(t["shape"])
    return found


def text_vectors(path):
    """Vectors in a .fx text: "parameter a.bias : f32[2] = [1.0, 2.0]"."""
    found = {}
    for line in path.read_text().splitlines():
        head, _, values = line.partition(" = [")
        if values and head.startswith(("parameter ", "buffer ")) and values.endswith("]"):
            found[head.split()[1].strip('"')] = numpy.array([float(v) for v in values[:-1].split(",")], numpy.float32)
    return found


def missing(was, left):
    """Indices of was that are not in left, a part of it in order."""
    gone, k = [], 0
    for i, v in enumerate(was):
        if k < len(left) and left[k] == v:
            k += 1
        else:
            gone.append(i)
    assert k == len(left)
    return gone


def model(name):
    torch.manual_seed(1)
    m = getattr(torchvision.models, name)(weights=None)
    for p in m.parameters():
        if p.dim() == 1:
            nn.init.uniform_(p, -0.5, 0.5)
    for b in m.modules():
        if isinstance(b, nn.BatchNorm2d):
            nn.init.uniform_(b.weight, 0.5, 1.5)
            nn.init.uniform_(b.running_mean, -0.1, 0.1)
            nn.init.uniform_(b.running_var, 0.5, 1.5)
    return m.eval()


@pytest.mark.parametrize("name, form", MODELS)
def test_without_channels_is_with_zeros(name, form, tmp_path):
    m, x = model(name), torch.randn(1, 3, 64, 64)
    if form == "captured":
        source = tmp_path / "m.fx"
        fxcc_export.export(fx.symbolic_trace(m), source, x)
    else:
        source = tmp_path / "m.pt2"
        torch.export.save(torch.export.export(m, (x,)), source)
    numpy.save(tmp_path / "x.npy", x.numpy())
    log = fxcc("opt", source, "--passes=prune_channels(amount=0.3)", "-o", tmp_path / "o.fx")
    fxcc("run", "--interpret", tmp_path / "o.fx", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    left = {**text_vectors(tmp_path / "o.fx"), **tensors(tmp_path / "o.safetensors")}
    removed = 0
    with torch.no_grad():
        for path, module in m.named_modules():
            bias = getattr(module, "bias", None)
            if not isinstance(bias, torch.Tensor) or f"{path}.bias" not in left:
                continue
            gone = missing(bias.numpy().tolist(), left[f"{path}.bias"].tolist())
            module.weight[gone] = 0
            bias[gone] = 0
            removed += len(gone)
    assert removed > 100, log
    want, got = m(x).detach().numpy(), numpy.load(tmp_path / "y.npy")
    assert got.shape == want.shape
    assert numpy.abs(got - want).max() <= 1e-4 * numpy.abs(want).max()


@pytest.mark.parametrize("amount", [0.1, 0.5, 0.77])
def test_elements_as_torch_chooses_them(amount, tmp_path):
    torch.manual_seed(2)
    m = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 5, 2), nn.Flatten(), nn.Linear(5 * 7 * 7, 6)).eval()
    fxcc_export.export(fx.symbolic_trace(m), tmp_path / "m.fx", torch.randn(1, 3, 8, 8))
    fxcc("opt", tmp_path / "m.fx", f"--passes=prune(amount={amount})", "-o", tmp_path / "o.fx")
    left = tensors(tmp_path / "o.safetensors")
    for i in (0, 2, 4):
        prune.l1_unstructured(m[i], "weight", amount)
        numpy.testing.assert_array_equal(left[f"{i}.weight"], m[i].weight.detach().numpy())
    fxcc("opt", tmp_path / "m.fx", f"--passes=prune(amount={amount}, global=true)", "-o", tmp_path / "g.fx")
    torch.manual_seed(2)
    again = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 5, 2), nn.Flatten(), nn.Linear(5 * 7 * 7, 6)).eval()
    prune.global_unstructured([(again[i], "weight") for i in (0, 2, 4)], prune.L1Unstructured, amount=amount)
    left = tensors(tmp_path / "g.safetensors")
    for i in (0, 2, 4):
        numpy.testing.assert_array_equal(left[f"{i}.weight"], again[i].weight.detach().numpy())
