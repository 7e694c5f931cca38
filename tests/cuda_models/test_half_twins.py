"""Networks of 16-bit floats get the kernels that their float32 twins get (fxcc report -t cuda), and compute what PyTorch eager does: under all schedules on
the host's CUDA, no further from the model in double precision than eager is, or than one rounding a kernel.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import copy
import json
import math
import os
import shutil
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cuda_emitted
import emitted
from test_half import STEP, as_type, bits

NVCC = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
KINDS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
SIZE, HEADS, LENGTH = 32, 4, 12
# Of each batch: all is seen, the end is padding, all is padding.
SEEN = torch.arange(LENGTH)[None] < torch.tensor([[LENGTH], [7], [0]])


def lowest(x):
    return torch.finfo(x.dtype if x.dtype != torch.float64 else torch.float32).min


def spelled(change):
    """softmax(change(q k^T)) v, as matrices."""
    return lambda q, k, v, seen: torch.softmax(change(q @ k.transpose(-1, -2), seen), -1).to(v.dtype) @ v


def causal(scores):
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()


def sdpa(mask=None, **options):
    return lambda q, k, v, seen: F.scaled_dot_product_attention(q, k, v, mask and mask(q, seen).expand(len(q), 1, LENGTH, LENGTH), **options)


SCALE = (SIZE / HEADS) ** -0.5
ATTENTION = {
    # Hugging Face's BERT: numbers by a mask of ones and zeros.
    "number": spelled(lambda s, seen: s / math.sqrt(SIZE / HEADS) + (1.0 - seen[:, None, None].to(s.dtype)) * lowest(s)),
    # Its newer models: softmax in float32.
    "softmax_float": lambda q, k, v, seen: torch.softmax((q @ k.transpose(-1, -2)) * SCALE + torch.where(seen[:, None, None], 0.0, lowest(q)).to(q.dtype), -1,
                                                         dtype=torch.float64 if q.dtype == torch.float64 else torch.float32).to(v.dtype) @ v,
    # minGPT, GPT-2: filled.
    "fill_infinity": spelled(lambda s, seen: (s * SCALE).masked_fill(~causal(s), -math.inf)),
    "fill_lowest": spelled(lambda s, seen: torch.where(causal(s) & seen[:, None, None], s / math.sqrt(SIZE / HEADS), lowest(s))),
    "scaled_query": lambda q, k, v, seen: torch.softmax((q * SCALE) @ k.transpose(-1, -2), -1) @ v,
    "bits": sdpa(lambda q, seen: seen[:, None, None]),
    "floats": sdpa(lambda q, seen: torch.where(seen[:, None, None], 0.0, -1e9).to(torch.float64 if q.dtype == torch.float64 else torch.float32)),
    "causal": sdpa(is_causal=True),
}
# Whose rows without anything to see are numbers that mean something: zeros, or the mean of all values.
EMPTY = ["number", "softmax_float", "fill_lowest", "bits", "floats"]


class Block(nn.Module):
    """BERT's layer, or GPT's, with attention as above."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.q, self.k, self.v, self.o = (nn.Linear(SIZE, SIZE) for _ in range(4))
        self.norm1, self.norm2, self.wide, self.back = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE), nn.Linear(SIZE, 5 * SIZE), nn.Linear(5 * SIZE, SIZE)

    def forward(self, x, seen):
        q, k, v = (f(x).view(len(x), LENGTH, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = ATTENTION[self.how](q, k, v, seen).transpose(1, 2).reshape(x.shape)
        x = self.norm1(x + self.o(y))
        return self.norm2(x + self.back(F.gelu(self.wide(x))))


class Images(nn.Module):
    """Batch norm behind each kind of convolution, and one that is spelled out in float32."""

    def __init__(self):
        super().__init__()
        self.stem, self.same, self.depthwise = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.Conv2d(16, 16, 3, 1, 1), nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False)
        self.point, self.up, self.head = nn.Conv2d(16, 24, 1, bias=False), nn.ConvTranspose2d(24, 8, 2, 2, groups=2), nn.Linear(8, 10)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (16, 16, 16, 24, 8))
        self.scale = nn.Parameter(torch.rand(8, 1, 1) + 0.5)
        for m in self.norms:
            for t, low, high in ((m.running_mean, -0.3, 0.3), (m.running_var, 0.5, 1.5), (m.weight.data, 0.5, 1.5), (m.bias.data, -0.3, 0.3)):
                t.uniform_(low, high)

    def forward(self, x):
        y = torch.relu(self.norms[0](self.stem(x)))
        y = torch.relu(self.norms[1](self.same(y)) + y)
        y = F.relu6(self.norms[2](self.depthwise(y)))
        y = self.norms[4](self.up(self.norms[3](self.point(y)))) * self.scale
        return self.head(y.mean((2, 3))), y


def model_of(name):
    torch.manual_seed(sum(name.encode()))
    images = name == "images"
    with torch.no_grad():
        model = (Images() if images else Block(name)).eval()
    return model, [torch.randn(2, 3, 16, 16)] if images else [torch.randn(3, LENGTH, SIZE), SEEN]


def export(model, inputs, path, decomposed):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, tuple(inputs))
        torch.export.save(program.run_decompositions() if decomposed else program, path)


@pytest.mark.parametrize("decomposed", [False, True], ids=["plain", "decomposed"])
@pytest.mark.parametrize("network", [*ATTENTION, "images"])
def test_kernels(network, decomposed, tmp_path):
    lists = {}
    kinds = ["f32", "f16"] if decomposed else KINDS
    for kind in kinds:
        dtype = KINDS[kind]
        model, inputs = model_of(network)
        export(as_type(model, dtype), [as_type(x, dtype) for x in inputs], tmp_path / "model.pt2", decomposed)
        report = json.loads(emitted.command([emitted.fxcc(), "report", tmp_path / "model.pt2", "--target=cuda", "--json"]))[0]
        # Behind sums of at most 128 terms float32 has GELU in the product's kernel, 16 bits a kernel of its own: the product is tensor cores'.
        lists[kind] = [(k["kernel"], 1 if "gelu" in k["title"] else k["launches"]) for k in report["kernels"]]
    assert all(lists[kind] == lists["f32"] for kind in kinds), lists
    kernels = [k for k, _ in lists["f32"]]
    if network == "images":
        assert kernels == ["", "conv2d", "conv2d", "conv2d_dw", "matmul", "conv_transpose2d", "adaptive_avg_pool2d", "matmul", ""], "batch norm is in the weights"
    else:
        assert kernels.count("attention") == 1
        assert kernels.count("matmul") == 4, "queries, keys and values are one product"


class All(nn.Module):
    """One program of all."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({name: model_of(name)[0] for name in [*ATTENTION, "images"]})

    def forward(self, x, seen, picture):
        return (*(self.parts[name](x, seen) for name in ATTENTION), *self.parts["images"](picture))


@pytest.mark.parametrize("dtype", STEP, ids=lambda d: str(d)[6:])
def test_values(dtype, library, tmp_path):
    with torch.no_grad():
        model = as_type(All().eval(), dtype)
        inputs = [as_type(x, dtype) for x in model_of("bits")[1] + model_of("images")[1]]
        eager = model(*inputs)
        exact = copy.deepcopy(model).double()(*(as_type(x, torch.float64) for x in inputs))
    export(model, inputs, tmp_path / "model.pt2", False)
    cuda_emitted.emit(tmp_path / "model.pt2", tmp_path)
    net = cuda_emitted.Net(cuda_emitted.build(tmp_path, library, flags=("-O1", "-ffp-contract=off")), tmp_path / "net.bin")
    for schedule in range(7):
        got = net.run([bits(x) for x in inputs], [bits(y) for y in eager], schedule)
        for name, a, b, c in zip([*ATTENTION, "logits", "image"], got, eager, exact, strict=True):
            a = torch.from_numpy(a).view(dtype).double()
            b = b.double()
            step, roundings = STEP[dtype] * c.abs().max(), 9  # the most kernels that follow one another
            assert a.isfinite().all() and b.isfinite().all(), name
            rows = slice(0, 2) if name in ATTENTION else slice(None)
            error = (a - c)[rows].abs().max()
            assert error <= max((b - c)[rows].abs().max(), roundings * step), f"{name}, schedule {schedule}: {error / step:.2f} roundings from double precision"
            if name in EMPTY:
                assert (a - b)[2].abs().max() <= roundings * step, f"{name}, schedule {schedule}: rows that see nothing"


@pytest.mark.parametrize("arch, dtype", [("sm_75", torch.bfloat16), ("sm_120", torch.float16)])  # bfloat16 came with sm_80
def test_nvcc(arch, dtype, tmp_path):
    if not NVCC:
        pytest.skip("nvcc is not there (CUDA's toolkit; no GPU is needed)")
    model = as_type(All().eval(), dtype)
    export(model, [as_type(x, dtype) for x in model_of("bits")[1] + model_of("images")[1]], tmp_path / "model.pt2", False)
    cuda_emitted.emit(tmp_path / "model.pt2", tmp_path)
    emitted.command([NVCC, "-std=c++17", "-fmad=false", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror", f"-arch={arch}", "-c", "net.cu", "-o", "net.o"],
                    cwd=tmp_path)
