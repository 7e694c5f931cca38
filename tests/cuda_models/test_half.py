"""Models of 16-bit floats: the CUDA that fxcc emits, on the host's CUDA, is as near to the model in double precision as PyTorch eager is on a CPU, and near that.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import copy

import numpy
import pytest
import torch
from torch import nn

import cuda_emitted

STEP = {torch.float16: 2.0 ** -11, torch.bfloat16: 2.0 ** -8}


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))) + self.down(x))


class Residual(nn.Module):
    """ResNet's parts, and behind them a depthwise and a transposed convolution, group norm and resampling."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2))
        self.depthwise, self.norm = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.GroupNorm(8, 32)
        self.up, self.head = nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.Linear(32, 10)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                for t, low, high in ((m.running_mean, -0.3, 0.3), (m.running_var, 0.5, 1.5), (m.weight.data, 0.5, 1.5), (m.bias.data, -0.3, 0.3)):
                    t.uniform_(low, high)

    def forward(self, x):
        y = self.norm(self.depthwise(self.blocks(self.stem(x))))
        return torch.softmax(self.head(y.mean((2, 3))), -1), nn.functional.interpolate(self.up(y), scale_factor=2, mode="bilinear")

    @staticmethod
    def inputs():
        return [torch.randn(2, 3, 32, 32)]


class Encoder(nn.Module):
    """BERT's parts: embeddings, attention under a mask of what is padding, GELU, norms behind sums, a pooler."""

    def __init__(self, size=64, heads=4):
        super().__init__()
        self.words, self.places, self.norm, self.heads = nn.Embedding(100, size), nn.Parameter(torch.randn(16, size) / 8), nn.LayerNorm(size), heads
        self.layers = nn.ModuleList(nn.ModuleDict({
            "q": nn.Linear(size, size), "k": nn.Linear(size, size), "v": nn.Linear(size, size), "out": nn.Linear(size, size), "norm1": nn.LayerNorm(size),
            "norm2": nn.LayerNorm(size), "wide": nn.Linear(size, 4 * size), "back": nn.Linear(4 * size, size)}) for _ in range(2))
        self.pool = nn.Linear(size, size)

    def forward(self, ids, mask):
        batch, length = ids.shape
        x = self.norm(self.words(ids) + self.places[:length])
        for layer in self.layers:
            q, k, v = (layer[name](x).view(batch, length, self.heads, -1).transpose(1, 2) for name in "qkv")
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
            x = layer["norm1"](x + layer["out"](y.transpose(1, 2).reshape(batch, length, -1)))
            x = layer["norm2"](x + layer["back"](nn.functional.gelu(layer["wide"](x))))
        return x, torch.tanh(self.pool(x[:, 0]))

    @staticmethod
    def inputs():
        return [torch.randint(0, 100, (2, 16)), torch.arange(16)[None].repeat(2, 1) < torch.tensor([[16], [11]])]


def as_type(x, dtype):
    return x.to(dtype) if isinstance(x, nn.Module) or x.is_floating_point() else x


def bits(t):
    """NumPy has no bfloat16."""
    return t.contiguous().view(torch.int16).numpy().view(numpy.uint16) if t.dtype == torch.bfloat16 else t.contiguous().numpy()


@pytest.mark.parametrize("dtype", STEP, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("make", [Residual, Encoder])
def test_half(make, dtype, library, tmp_path):
    torch.manual_seed(5)
    model = as_type(make().eval(), dtype)
    inputs = [as_type(x, dtype) for x in make.inputs()]
    with torch.no_grad():
        eager = model(*inputs)
        exact = [y.numpy() for y in copy.deepcopy(model).double()(*(as_type(x, torch.float64) for x in inputs))]
        torch.export.save(torch.export.export(model, tuple(inputs)), tmp_path / "model.pt2")
    cuda_emitted.emit(tmp_path / "model.pt2", tmp_path)
    weights = sum(p.numel() for p in list(model.parameters()) + list(model.buffers()))
    assert (tmp_path / "net.bin").stat().st_size < 2.2 * weights + 8192, "weights are not of 16 bits"
    net = cuda_emitted.Net(cuda_emitted.build(tmp_path, library), tmp_path / "net.bin")
    got = net.run([bits(x) for x in inputs], [bits(y) for y in eager])
    for a, b, c in zip(got, eager, exact, strict=True):
        a = torch.from_numpy(a.view(numpy.int16)).view(dtype).double().numpy()
        b = b.double().numpy()
        size, step = numpy.abs(c).max(), STEP[dtype]
        assert numpy.abs(a - c).max() <= 1.5 * numpy.abs(b - c).max() + 4 * step * size, "further from double precision than eager"
        assert numpy.abs(a - b).max() <= 16 * step * size, "far from eager"
