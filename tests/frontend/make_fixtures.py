"""Makes the .pt2 fixtures beside this file; see README.md.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    python make_fixtures.py [folder]

Weights count up instead of being random, so that tests can say what an element must be."""
import pathlib
import sys
import warnings

import torch
from torch import nn
from torch.export import Dim, export, save

import paths

warnings.filterwarnings("ignore")
OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")


def count(*shape, start=0.0, step=1.0):
    n = torch.Size(shape).numel()
    return (start + step * torch.arange(n, dtype=torch.float32)).reshape(shape)


class Plain(nn.Module):
    """conv, batch norm, in-place relu, pooling, an unused and a nested output; a transposed and a channels-last weight."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.conv.weight = nn.Parameter(count(4, 3, 3, 3, step=0.01).to(memory_format=torch.channels_last))
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)
        self.fc.weight = nn.Parameter(count(4, 5).t())
        for p in (self.conv.bias, self.fc.bias):
            p.data = count(*p.shape)

    def forward(self, x):
        y = self.bn(self.conv(x)).relu_()
        a, b = torch.split(nn.functional.max_pool2d(y, 2).mean((2, 3)), 2, 1)
        value, index = nn.functional.adaptive_max_pool2d(y, 1, return_indices=True)
        return self.fc(torch.cat([a, b], 1)), {"value": value, "b": [b]}, None


class Storage(nn.Module):
    """Tied weights, two windows on one storage, an empty tensor, bf16, f16, f64, int and bool buffers, non-persistent ones, a constant."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.first.weight = nn.Parameter(count(4, 4))
        self.second.weight = self.first.weight
        whole = count(12, start=100)
        self.register_buffer("head", whole[:4])
        self.register_buffer("tail", whole[4:].reshape(2, 4)[1])
        self.register_buffer("whole", whole)
        self.register_buffer("empty", torch.empty(0, 4))
        self.register_buffer("b", count(4, start=1.5).bfloat16())
        self.register_buffer("h", count(4, start=0.25).half())
        self.register_buffer("d", count(4).double())
        self.register_buffer("i", torch.arange(4, dtype=torch.int32))
        self.register_buffer("m", torch.tensor([True, False, True, False]))
        self.register_buffer("hidden", count(4, start=7), persistent=False)
        self.constant = count(4, start=-3)

    def forward(self, x):
        y = self.second(self.first(x)) + self.head + self.tail + self.whole.sum() + self.hidden + self.constant
        y = torch.cat([y, self.empty])
        y = y + self.b.float() + self.h.float() + self.d.float() + self.i
        return torch.where(self.m, y, y * torch.tensor(2.0))


class Dynamic(nn.Module):
    def forward(self, x):
        y = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
        return y.new_zeros(x.shape[0] * 2, 3) + 1, y.sum(1) * x.shape[0]


class Nested(nn.Module):
    """Inputs in a tuple, a list and a dict, by keyword, a None and a number that export bakes in."""

    def forward(self, pair, more, *, scale=2, mask=None, extra):
        a, b = pair
        y = a + b * scale + more["c"][0] - extra
        return [y, (a, {"sum": y.sum()})]


class Scalars(nn.Module):
    """Infinities, nan, integers where floats are due, dtypes, memory formats, None, strings, bools."""

    def forward(self, x):
        y = torch.clamp(x, 0, float("inf"))
        y = y.masked_fill(x > 1, float("-inf"))
        y = torch.where(x < -1, torch.full_like(y, float("nan")), y)
        y = y.to(memory_format=torch.channels_last).to(torch.float64).to(torch.float32)
        y = torch.add(y, x, alpha=3)
        y = nn.functional.interpolate(y, scale_factor=2, mode="nearest")
        y = nn.functional.gelu(y, approximate="tanh")
        return y.var(dim=(2, 3), unbiased=True), torch.div(x, 3, rounding_mode="floor")


class Training(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.bn(x))


class Mutation(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x):
        self.state.add_(x)
        return x + self.state


class Counter(nn.Module):
    """Changes a buffer, but one that no result depends on."""

    def __init__(self):
        super().__init__()
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        self.num_batches_tracked.add_(1)
        return x * 2


class InputMutation(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1


class Cond(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


class Unsupported(nn.Module):
    """Ops that op.def lacks, twice each, with arguments of many kinds."""

    def forward(self, x):
        y = torch.fft.fft(x) * (1 + 2j)
        y = torch.fft.ifft(y).real
        z = torch.cumprod(torch.cumprod(y, 0), 1)
        return z, torch.histc(x, 4), torch.histc(y, 4)


class Names(nn.Module):
    """Module and input names that no C compiler takes."""

    def __init__(self):
        super().__init__()
        for i, name in enumerate(["a/b", "*/", 'quo"te', "new\nline", "int", "\u00fcn\u00efc\u00f6de", "x" * 300]):
            self.add_module(name, nn.Linear(2, 2))
            for p in self._modules[name].parameters():
                p.data = count(*p.shape, start=float(i))

    def forward(self, input, int, float):
        y = input + int * float
        for m in self._modules.values():
            y = m(y)
        return y


def main():
    OUT.mkdir(parents=True, exist_ok=True)

    def write(name, program):
        path = OUT / f"{name}.pt2"
        save(program, path)
        paths.make_relative(path)
        print(f"{path.stat().st_size:7} {path}")

    image = count(2, 3, 8, 8, step=0.001)
    plain = export(Plain().eval(), (image,))
    write("plain", plain)
    write("plain_decomposed", plain.run_decompositions())
    write("storage", export(Storage(), (count(2, 4),)))
    batch = Dim("batch", min=2, max=64)
    write("dynamic", export(Dynamic(), (count(4, 5, 3),), dynamic_shapes={"x": {0: batch, 1: Dim.DYNAMIC}}))
    nested = ((count(3), count(3, start=1)), {"c": [count(3, start=2)]})
    write("nested", export(Nested(), nested, {"scale": 2, "mask": None, "extra": count(3, start=4)}))
    write("scalars", export(Scalars(), (image,)))
    write("training", export(Training().train(), (image,)))
    write("mutation", export(Mutation(), (count(3),)).run_decompositions())
    write("counter", export(Counter(), (count(3),)).run_decompositions())
    write("counter_inplace", export(Counter(), (count(3),)))
    write("input_mutation", export(InputMutation(), (count(3),)).run_decompositions())
    write("cond", export(Cond(), (count(3),)))
    write("unsupported", export(Unsupported(), (count(4, 4),)))
    write("names", export(Names(), (count(2), count(2), count(2))))


if __name__ == "__main__":
    main()
