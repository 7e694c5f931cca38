"""Models that change their inputs and buffers, each with what they are called on and what they change.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import dataclasses
import typing

import torch
from torch import nn

MODELS = {}


@dataclasses.dataclass
class Case:
    make: typing.Callable                # the module, ready to be called and exported
    args: tuple
    inputs: tuple = ()                   # numbers of the inputs that change
    buffers: tuple = ()                  # paths of the buffers and parameters that change, in the order of the module
    dynamic: typing.Any = None           # dynamic_shapes of torch.export
    decomposed: bool = True              # torch's run_decompositions takes it
    captured: bool = True                # torch.fx.symbolic_trace takes it, and computes nothing of buffers itself while it does


def model(**kwargs):
    def add(cls):
        args = kwargs.pop("args")
        MODELS[cls.__name__] = Case(cls, args, **kwargs)
        return cls
    return add


def rand(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


@model(args=(rand(3, 4),), buffers=("count", "total"), captured=False)
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.count.add_(1)
        self.total += x.sum(0)
        return self.total / self.count


@model(args=(rand(4, 3, 5, 5),), buffers=("running_mean", "running_var", "num_batches_tracked"), captured=False)
class RunningNorm(nn.Module):
    """Batch norm as in training, spelled out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        self.num_batches_tracked.add_(1)
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
        self.running_mean.mul_(0.75).add_(mean * 0.25)
        self.running_var.lerp_(x.var((0, 2, 3)), 0.25)
        y = (x - mean.view(1, 3, 1, 1)) / (var.view(1, 3, 1, 1) + 1e-5).sqrt()
        return y.relu()


@model(args=(rand(4, 3, 5, 5),), buffers=tuple(f"{n}.{b}" for n in ("wide", "plain") for b in ("running_mean", "running_var", "num_batches_tracked")),
       captured=False)
class TrainedNorms(nn.Module):
    """The modules in training mode: one that keeps scale and shift, one without, one that has no statistics."""

    def __init__(self):
        super().__init__()
        self.wide = nn.BatchNorm2d(3, momentum=0.3)
        self.plain = nn.BatchNorm1d(3, affine=False, eps=1e-3)
        self.free = nn.BatchNorm2d(3, track_running_stats=False)

    def forward(self, x):
        y = self.free(self.wide(x).relu())
        return self.plain(y.flatten(2) * 2 + 1) + x.mean()


@model(args=(rand(1, 8), torch.tensor([2])), buffers=("keys", "values"), captured=False)
class CachedAttention(nn.Module):
    """One step of decoding: a token's key and value go into the caches at a position that is an input."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 2, 6, 4))
        self.register_buffer("values", torch.zeros(1, 2, 6, 4))

    def forward(self, x, position):
        q, k, v = (f(x).view(1, 1, 2, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        self.keys.index_copy_(2, position, k)
        self.values[:, :, position] = v
        mask = (torch.arange(6) <= position).view(1, 1, 1, 6)
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)


@model(args=(rand(2, 4),), buffers=("window",), captured=False)
class Window(nn.Module):
    """The last five rows of a stream: moved on by two, and written at the end."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.zeros(5, 4))

    def forward(self, x):
        self.window[:-2] = self.window[2:].clone()
        self.window[-2:] = x
        return self.window.mean(0)


@model(args=(rand(3, 5),), inputs=(0,))
class InputThroughViews(nn.Module):
    def forward(self, x):
        x[:, 1].add_(1)
        x[:, ::2].mul_(2)
        x.view(-1)[3:9].sub_(0.5)
        x.t()[0].neg_()
        return x.sum()


@model(args=(rand(4), rand(4)), inputs=(0,), buffers=("a",), captured=False)
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(4))

    def forward(self, x, y):
        self.a.add_(x)
        before = self.a * 2
        x.mul_(y)
        self.a.mul_(x)
        x.add_(self.a)
        return before, self.a + y


@model(args=(rand(3, 4),), inputs=(0,), buffers=("sum",), dynamic=({0: torch.export.Dim("batch", min=1, max=64)},), captured=False)
class OpenBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(4))

    def forward(self, x):
        self.sum.add_(x.sum(0))
        x[:, 1].add_(1)
        x.mul_(0.5)
        return x - self.sum


@model(args=(rand(4),), buffers=("a",))
class ReturnsBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.arange(4.0))

    def forward(self, x):
        return self.a.add_(x)


@model(args=(rand(4), rand(4)), inputs=(1,))
class ReturnsInputs(nn.Module):
    def forward(self, x, y):
        y.add_(x)
        return x, y, x[1:]


@model(args=(rand(4),), buffers=("a", "b", "c"), captured=False)
class Swap(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.arange(4.0))
        self.register_buffer("b", torch.ones(4))
        self.register_buffer("c", torch.arange(5.0))

    def forward(self, x):
        kept = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(kept)
        self.c.copy_(self.c.flip(0))
        self.a.mul_(2)
        return self.a, x + self.b + 1, self.c, x


@model(args=(rand(2, 3),), buffers=("weight",))
class Parameter(nn.Module):
    """A parameter that a run moves, as an average of weights does."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        self.weight.lerp_(x[0], 0.25)
        return x * self.weight


@model(args=(rand(3),), buffers=("level",), captured=False)
class NotUsed(nn.Module):
    """State that no result depends on."""

    def __init__(self):
        super().__init__()
        self.register_buffer("level", torch.tensor([1.0, -2.0]))

    def forward(self, x):
        self.level.mul_(-0.5)
        return x * 2


@model(args=(torch.arange(6, dtype=torch.uint8),), inputs=(0,), buffers=("seen", "small"), captured=False)
class Types(nn.Module):
    """Integers wrap, bools and halves are kept."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(6, dtype=torch.bool))
        self.register_buffer("small", torch.full((6,), 0.1, dtype=torch.float16))

    def forward(self, x):
        x.mul_(100)
        self.seen.logical_or_(x > 150)
        self.small.mul_(x)
        return self.seen.logical_not(), self.small + 1


@model(args=(rand(1, 2, 6, 6),), buffers=("last",))
class Frame(nn.Module):
    """The difference to the last picture, through a convolution: images lie channels-last inside, the state as the model has it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.register_buffer("last", torch.zeros(1, 3, 6, 6))

    def forward(self, x):
        y = self.conv(x)
        d = y - self.last
        self.last.copy_(y)
        return d.relu()
