"""Random graphs: modules drawn from a menu of operations, many branches to a module, so that lowering meets operations in
combinations nobody would write down: views of views, shared results, concatenations of everything.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn


class Draw:
    """Random choices and tensors of one seed."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.g = torch.Generator().manual_seed(seed)

    def tensor(self, *shape, scale=1.0):
        return torch.randn(*shape, generator=self.g) * scale

    def pick(self, *items):
        return self.r.choice(items)


class Constants(nn.Module):
    """Where a branch keeps its constants: parameters by number."""

    def __init__(self):
        super().__init__()
        self.items = nn.ParameterList()

    def add(self, t):
        self.items.append(nn.Parameter(t, requires_grad=False))
        i = len(self.items) - 1
        return lambda: self.items[i]


UNARY = [
    F.relu, F.silu, F.hardswish, F.hardsigmoid, torch.sigmoid, torch.tanh, F.mish, F.relu6, torch.abs, torch.neg,
    lambda x: F.gelu(x), lambda x: F.gelu(x, approximate="tanh"), lambda x: F.leaky_relu(x, 0.1), lambda x: F.elu(x, 0.7),
    lambda x: F.softplus(x, 1.5, 10), lambda x: x.clamp(-0.5, 0.75), lambda x: x.clamp(min=-0.25), lambda x: x * 0.5,
    lambda x: x + 1.25, lambda x: 1.0 - x, lambda x: x / 3, lambda x: (x.abs() + 0.5).sqrt(), lambda x: (x.abs() + 0.5).log(),
    lambda x: x.pow(2), lambda x: torch.where(x > 0.1, x, x * 0.25), lambda x: x * (x < 0.3), lambda x: x.clone().relu_(),
    lambda x: x.clone().mul_(0.5).add_(x), lambda x: torch.maximum(x, -x * 0.5), lambda x: x.floor() * 0.25, lambda x: x.round(),
]  # fmt: skip


def conv(d, k, x):
    n, c, h, w = x.shape
    kh, kw = d.pick(1, 1, 3, 3, 2, 5), d.pick(1, 1, 3, 3, 2, 5)
    dil = d.pick(1, 1, 1, 2)
    pad = (d.r.randint(0, kh), d.r.randint(0, kw))
    groups = d.pick(1, 1, *[g for g in range(1, c + 1) if c % g == 0])
    out = groups * d.r.randint(1, 5)
    if (kh - 1) * dil + 1 > h + 2 * pad[0] or (kw - 1) * dil + 1 > w + 2 * pad[1]:
        return None
    stride = d.pick(1, 1, 2, (1, 2), 3)
    wt = k.add(d.tensor(out, c // groups, kh, kw, scale=(c // groups * kh * kw) ** -0.5))
    b = k.add(d.tensor(out)) if d.pick(True, False) else lambda: None
    return lambda x: F.conv2d(x, wt(), b(), stride, pad, dil, groups)


def depthwise(d, k, x):
    c, s = x.shape[1], d.pick(3, 3, 5)
    wt, b, stride = k.add(d.tensor(c, 1, s, s, scale=1 / s)), k.add(d.tensor(c)), d.pick(1, 1, 2)
    return lambda x: F.conv2d(x, wt(), b(), stride, s // 2, 1, c)


def conv_transpose(d, k, x):
    c = x.shape[1]
    if x.shape[2] * x.shape[3] > 200:
        return None
    groups = d.pick(1, 1, *[g for g in range(1, c + 1) if c % g == 0])
    s, kh, kw, out = d.pick(1, 2, 2, 3), d.pick(1, 2, 3), d.pick(2, 3), d.r.randint(1, 4)
    pad, op = d.pick(0, 0, 1) if min(kh, kw) > 1 else 0, d.pick(0, 1) if s > 1 else 0
    if (x.shape[2] - 1) * s - 2 * pad + kh + op < 1 or (x.shape[3] - 1) * s - 2 * pad + kw + op < 1:
        return None
    wt, b = k.add(d.tensor(c, out, kh, kw, scale=0.5)), k.add(d.tensor(out * groups))
    return lambda x: F.conv_transpose2d(x, wt(), b(), s, pad, op, groups)


def conv_block(d, k, x):
    f = conv(d, k, x)
    if not f:
        return None
    c = f(x).shape[1]
    m, v, w, b = (k.add(t) for t in (d.tensor(c, scale=0.3), d.tensor(c).abs() + 0.3, d.tensor(c), d.tensor(c, scale=0.3)))
    act = d.pick(*UNARY[:8], lambda x: x)
    return lambda x: act(F.batch_norm(f(x), m(), v(), w(), b(), False, 0.1, 1e-5))


def batch_norm(d, k, x):
    c = x.shape[1]
    m, v, w, b = (k.add(t) for t in (d.tensor(c, scale=0.3), d.tensor(c).abs() + 0.3, d.tensor(c), d.tensor(c, scale=0.3)))
    return lambda x: F.batch_norm(x, m(), v(), w(), b(), False, 0.1, 1e-5)


def residual(d, k, x):
    c, s = x.shape[1], d.pick(1, 3)
    wt, b, act = k.add(d.tensor(c, c, s, s, scale=(c * s * s) ** -0.5)), k.add(d.tensor(c)), d.pick(*UNARY)
    if d.pick(True, False):
        return lambda x: act(F.conv2d(x, wt(), b(), padding=s // 2) + x)
    return lambda x: x + act(F.conv2d(x, wt(), b(), padding=s // 2))


def two_convs(d, k, x):
    c, out = x.shape[1], d.r.randint(1, 20)
    w1, w2 = k.add(d.tensor(out, c, 1, 1, scale=c**-0.5)), k.add(d.tensor(out, c, 1, 1, scale=c**-0.5))
    return lambda x: F.relu(F.conv2d(x, w1()) + F.conv2d(x, w2()))


def dense_block(d, k, x):
    c, grow = x.shape[1], d.r.randint(1, 9)
    ws = [k.add(d.tensor(grow, c + i * grow, 3, 3, scale=((c + i * grow) * 9) ** -0.5)) for i in range(3)]
    skip = d.pick(True, False)

    def run(x):
        parts = [x]
        for w in ws:
            parts.append(F.conv2d(F.relu(torch.cat(parts, 1)) if skip else torch.cat(parts, 1), w(), padding=1))
        return torch.cat(parts, 1)

    return run


def branches(d, k, x):
    c = x.shape[1]
    w1, w2 = k.add(d.tensor(3, c, 1, 1, scale=c**-0.5)), k.add(d.tensor(5, c, 3, 3, scale=(9 * c) ** -0.5))
    extra = d.pick(0, 1, 2)

    def run(x):
        a, b = F.conv2d(x, w1()), F.relu(F.conv2d(x, w2(), padding=1))
        m = F.max_pool2d(x, 3, 1, 1)
        parts = [[a, b, m], [b, x, a, x], [m, torch.cat([a, b], 1), a]][extra]
        return torch.cat(parts, 1)

    return run


def gate(d, k, x):
    c, r = x.shape[1], d.r.randint(1, 6)
    w1, w2, b2 = k.add(d.tensor(r, c, 1, 1, scale=c**-0.5)), k.add(d.tensor(c, r, 1, 1)), k.add(d.tensor(c))
    f = d.pick(torch.sigmoid, F.hardsigmoid)
    return lambda x: x * f(F.conv2d(F.silu(F.conv2d(F.adaptive_avg_pool2d(x, 1), w1())), w2(), b2()))


def pool(d, k, x):
    n, c, h, w = x.shape
    s = d.pick(2, 3)
    if h < s or w < s:
        return None
    pad, stride, ceil = d.pick(0, 1), d.pick(1, 2, 2, s), d.pick(True, False)
    if d.pick(True, False):
        return lambda x: F.max_pool2d(x, s, stride, pad, 1, ceil)
    include, div = d.pick(True, False), d.pick(None, None, 3)
    return lambda x: F.avg_pool2d(x, s, stride, pad, ceil, include, div)


def adaptive(d, k, x):
    out = (d.r.randint(1, 7), d.r.randint(1, 7))
    return d.pick(lambda x: F.adaptive_avg_pool2d(x, out), lambda x: F.adaptive_max_pool2d(x, out))


def upsample(d, k, x):
    if x.shape[2] * x.shape[3] > 400:
        return None
    mode = d.pick("nearest", "bilinear")
    align = d.pick(True, False) if mode == "bilinear" else None
    if d.pick(True, False):
        f = d.pick(2, 1.5, 2.7)
        return lambda x: F.interpolate(x, scale_factor=f, mode=mode, align_corners=align)
    size = (d.r.randint(1, 20), d.r.randint(1, 20))
    return lambda x: F.interpolate(x, size=size, mode=mode, align_corners=align)


def views(d, k, x):
    n, c, h, w = x.shape
    menu = [
        lambda x: x.flip(3), lambda x: x.flip([1, 2]), lambda x: x.transpose(2, 3), lambda x: x.permute(0, 2, 3, 1).contiguous(),
        lambda x: x[:, :, :, 1:] if w > 1 else x, lambda x: x[:, :, ::2], lambda x: x.reshape(n, c, w, h),
        lambda x: x.reshape(n, 1, c, h * w), lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), lambda x: F.pad(x, (-1, 1, 1, 0)) if w > 1 else x,
        lambda x: x[:, c // 2 :], lambda x: x[:, : max(1, c - 1)] * 2, lambda x: x + x.mean((2, 3), keepdim=True),
        lambda x: x - x.amax(1, keepdim=True), lambda x: x * x.var(3, keepdim=True, correction=0), lambda x: x.sum(1, keepdim=True) + x * 0.1,
        lambda x: torch.cat(list(x.split(2, 1))[::-1], 1), lambda x: torch.stack([x, x * 2], 2).flatten(1, 2),
        lambda x: x.expand(n, c, h, w) * x[:, :1], lambda x: torch.cat([x, x[:, :, :1]], 2), lambda x: x[:, :, 0:1].expand(n, c, h, w) + x,
    ]  # fmt: skip
    if c % 2 == 0:
        menu += [lambda x: F.channel_shuffle(x, 2), lambda x: x.chunk(2, 1)[0] * torch.sigmoid(x.chunk(2, 1)[1])]
        menu += [lambda x: torch.cat([x.chunk(2, 1)[1], F.relu(x.chunk(2, 1)[0])], 1)]
    if c % 4 == 0:
        menu += [lambda x: F.pixel_shuffle(x, 2)]
    return d.pick(*menu)


def norm(d, k, x):
    n, c, h, w = x.shape
    groups = d.pick(*[g for g in range(1, c + 1) if c % g == 0])
    g, b, lw = k.add(d.tensor(c)), k.add(d.tensor(c)), k.add(d.tensor(w))
    return d.pick(
        lambda x: F.group_norm(x, groups, g(), b(), 1e-3),
        lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (c,), g(), b(), 1e-5).permute(0, 3, 1, 2),
        lambda x: F.layer_norm(x, (w,), lw(), None, 1e-4), lambda x: F.softmax(x, 1), lambda x: F.log_softmax(x, 3),
        lambda x: F.softmax(x.flatten(2), 2).view(n, c, h, w), lambda x: F.prelu(x, g()),
    )  # fmt: skip


def linear(d, k, x):
    n, c, h, w = x.shape
    out = d.r.randint(1, 20)
    wt, b = k.add(d.tensor(out, w, scale=w**-0.5)), k.add(d.tensor(out))
    act = d.pick(*UNARY)
    return lambda x: act(F.linear(x, wt(), b()))


def attention(d, k, x):
    n, c, h, w = x.shape

    def run(x):
        q = x.flatten(2)
        return torch.bmm(F.softmax(torch.bmm(q, q.transpose(1, 2)) * 0.2, -1), q).view(n, c, h, w)

    return run if c * h * w < 4000 else None


def unary(d, k, x):
    return d.pick(*UNARY)


MENU = [unary, unary, conv, conv, conv_block, conv_block, depthwise, conv_transpose, batch_norm, residual, two_convs, dense_block,
        branches, gate, pool, adaptive, upsample, views, views, views, norm, linear, attention]  # fmt: skip


class Branch(nn.Module):
    """A chain of operations drawn for the given shape; some end flat in a classifier."""

    def __init__(self, seed, x):
        super().__init__()
        d, self.constants, self.ops, self.log = Draw(seed), Constants(), [], []
        for _ in range(d.r.randint(2, 6)):
            make = d.pick(*MENU)
            f = make(d, self.constants, x)
            if f is None:
                continue
            y = f(x)
            if y.numel() == 0 or y.numel() > 40000 or y.dim() != 4:
                continue
            self.ops.append(f)
            self.log.append(make.__name__)
            x = y
        if d.pick(True, False, False):
            n = x[0].numel()
            w, b = self.constants.add(d.tensor(7, n, scale=n**-0.5)), self.constants.add(d.tensor(7))
            self.ops.append(lambda x: F.linear(x.flatten(1), w(), b()))

    def forward(self, x):
        for f in self.ops:
            x = f(x)
        return x


class RandomModel(nn.Module):
    def __init__(self, seed, count, inputs):
        super().__init__()
        d = Draw(seed)
        self.which = [d.r.randrange(len(inputs)) for _ in range(count)]
        self.branches = nn.ModuleList(Branch(seed * 1000 + i, inputs[w]) for i, w in enumerate(self.which))

    def forward(self, *xs):
        return tuple(b(xs[w]) for b, w in zip(self.branches, self.which))


def make(seed, count=16):
    """A model of `count` random branches and its inputs."""
    d = Draw(seed)
    inputs = [
        d.tensor(d.pick(1, 1, 2), d.pick(1, 2, 3, 4, 8, 16, 17, 24), d.pick(1, 5, 7, 8, 13), d.pick(1, 4, 7, 9, 16)) for _ in range(3)
    ]
    return RandomModel(seed, count, inputs).eval(), inputs
