#!/usr/bin/env python3
"""Makes functionalize.test and decompose.test: small functions exported by torch, with eager PyTorch's values.

    tests/lower/make_cases.py path/to/fxcc     then     FXCC_BLESS=1 build/.../test_lower_cases

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

here = os.path.dirname(os.path.abspath(__file__))


def make_input(number, shape):
    n = 1
    for s in shape:
        n *= s
    i = torch.arange(n, dtype=torch.int64)
    return (((i * 37 + number * 11 + 5) % 41 - 20).double() / 8).float().reshape(shape)


class Wrap(torch.nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


class Weights(torch.nn.Module):
    """A function with weights w0, w1, ... of given shapes."""

    def __init__(self, fn, shapes):
        super().__init__()
        self.fn = fn
        self.names = []
        for k, shape in enumerate(shapes):
            self.names.append(f"w{k}")
            self.register_buffer(f"w{k}", make_input(7 + k, shape) / 4)

    def forward(self, *args):
        return self.fn(*args, *[getattr(self, n) for n in self.names])


# ---- writes in place ----

def relu_(x):
    y = x + 1
    y.relu_()
    return y


def old_name_sees_write(x):
    y = x * 2
    z = y.add_(1)
    return y + z


def view_written_base_read(x):
    y = x * 2
    v = y.view(-1)
    v.add_(1)
    return y


def base_written_view_read(x):
    y = x * 2
    v = y.view(-1)
    y.mul_(3)
    return v


def siblings(x):
    y = x * 2
    a = y.view(-1)
    b = y.transpose(0, 1)
    a.add_(1)
    b.mul_(2)
    return a, b, y


def slice_written(x):
    y = x * 2
    y[:, 1:3].add_(10)
    return y


def select_written(x):
    y = x * 2
    y[1].mul_(-1)
    return y


def select_of_slice(x):
    y = x * 2
    y[:, 1:3][0].add_(5)
    return y


def permute_chain(x):
    y = x * 2
    y.permute(2, 0, 1)[1].unsqueeze(0).relu_()
    return y


def copy_into_slice(x, z):
    y = x * 1
    y[0:1] = z
    return y


def copy_broadcast(x):
    y = x * 1
    y[:, 2] = x[:, 0]
    y[1, 1] = 4.0
    return y


def chunks_written(x):
    y = x * 2
    a, b = y.chunk(2, dim=1)
    a.relu_()
    c = b + a
    return y, c


def split_read_after_base_write(x):
    y = x * 2
    a, b, c = y.split([1, 2, 1], dim=1)
    y.add_(1)
    return a * b.sum() + c


def written_twice(x):
    y = x * 2
    v = y[0]
    v.add_(1)
    v.mul_(2)
    w = y[1]
    w.sub_(3)
    return y.sum(0) + v


def write_depends_on_sibling(x):
    y = x * 2
    y[0].add_(y[1])
    y[1].add_(y[0])
    return y


def reshape_that_copies(x):
    y = (x * 2).transpose(0, 1)
    v = y.reshape(-1)
    v.add_(1)
    return y, v


def reshape_that_views(x):
    y = x * 2
    v = y.reshape(2, -1)
    v.add_(1)
    return y


def contiguous_alias(x):
    y = x * 2
    v = y.contiguous()
    v.add_(1)
    return y


def contiguous_copy(x):
    y = (x * 2).t()
    v = y.contiguous()
    v.add_(1)
    return y


def dropout_alias(x):
    y = x * 2
    v = F.dropout(y, 0.5, False)
    v.relu_()
    return y


def self_operand(x):
    y = x * 2
    y.add_(y)
    y.mul_(y)
    return y


def detach_alias(x):
    y = x * 2
    v = y.detach()
    v.add_(1)
    return y


def clone_not_alias(x):
    y = x * 2
    v = y.clone()
    v.add_(1)
    return y, v


def expand_read(x):
    y = x * 2
    e = y.unsqueeze(0).expand(2, -1, -1)
    y.add_(1)
    return e * 2


def squeeze_written(x):
    y = x.unsqueeze(1) * 2
    y.squeeze(1).clamp_(-1, 1)
    return y


def to_alias(x):
    y = x * 2
    v = y.to(torch.float32)
    v.add_(1)
    return y


def view_of_written_view(x):
    y = x * 2
    v = y[:, 1]
    v.add_(1)
    w = v[0:1]
    w.mul_(10)
    return y, v


def number_into_part(x):
    y = x * 2
    v = y.view(-1)
    y[1] = 3.0
    return v, y


def residual(x, w):
    y = F.conv2d(x, w, padding=1)
    y += x
    return F.relu(y, inplace=True)


INPLACE = [
    (relu_, [(2, 3)]), (old_name_sees_write, [(2, 3)]), (view_written_base_read, [(2, 3)]), (base_written_view_read, [(2, 3)]),
    (siblings, [(2, 3)]), (slice_written, [(2, 4)]), (select_written, [(2, 3)]), (select_of_slice, [(2, 4)]),
    (permute_chain, [(2, 2, 3)]), (copy_into_slice, [(2, 3), (1, 3)]), (copy_broadcast, [(3, 3)]), (chunks_written, [(2, 4)]),
    (split_read_after_base_write, [(2, 4)]), (written_twice, [(2, 3)]), (write_depends_on_sibling, [(2, 3)]),
    (reshape_that_copies, [(2, 3)]), (reshape_that_views, [(2, 2, 2)]), (contiguous_alias, [(2, 3)]), (contiguous_copy, [(2, 3)]),
    (dropout_alias, [(2, 3)]), (self_operand, [(2, 3)]), (detach_alias, [(2, 3)]), (clone_not_alias, [(2, 3)]),
    (expand_read, [(2, 3)]), (squeeze_written, [(2, 3)]), (to_alias, [(2, 3)]),
    (view_of_written_view, [(2, 3)]), (number_into_part, [(2, 3)]), (residual, [(1, 2, 3, 3)], [(2, 2, 3, 3)]),
]

# ---- composite ops ----

DECOMPOSE = [
    ("relu6", lambda x: F.relu6(x), [(2, 5)]),
    ("square, clamp_min, clamp_max", lambda x: x.square() + x.clamp_min(0.5) - x.clamp_max(0.25), [(2, 5)]),
    ("numbers", lambda x: (x + 1) * 2 / 3 - 4, [(2, 3)]),
    ("rsub", lambda x, y: torch.rsub(x, 1) + torch.rsub(x, y, alpha=2) + torch.rsub(x, 3, alpha=2), [(2, 3), (2, 3)]),
    ("masked_fill", lambda x: x.masked_fill(x > 0.5, -7.0), [(2, 5)]),
    ("prelu by channel", lambda x, w: F.prelu(x, w), [(1, 3, 2, 2)], [(3,)]),
    ("prelu of one slope", lambda x, w: F.prelu(x, w), [(2, 3)], [(1,)]),
    ("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), [(1, 2, 7)], [(3, 2, 3), (3,)]),
    ("conv2d, dilated, grouped", lambda x, w: F.conv2d(x, w, None, 1, 2, 2, 2), [(1, 2, 5, 5)], [(4, 1, 3, 3)]),
    ("conv2d without a batch", lambda x, w: F.conv2d(x, w), [(2, 4, 4)], [(3, 2, 3, 3)]),
    ("conv2d 'same', odd and even kernels", lambda x, w, v: F.conv2d(F.conv2d(x, w, padding="same"), v, padding="same"),
     [(1, 2, 4, 5)], [(2, 2, 3, 3), (1, 2, 2, 4)]),
    ("conv1d 'valid' and 'same'", lambda x, w: F.conv1d(F.conv1d(x, w, padding="same", dilation=2), w, padding="valid"),
     [(1, 2, 6)], [(2, 2, 2)]),
    ("conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1), [(1, 2, 4)], [(2, 3, 3)]),
    ("conv_transpose2d, grouped", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 0, 1, 2), [(1, 4, 3, 3)], [(4, 2, 2, 2), (4,)]),
    ("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), [(1, 2, 7)]),
    ("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), [(2, 7)]),
    ("pools without a batch", lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2) + F.adaptive_avg_pool2d(x, 2), [(2, 4, 4)]),
    ("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), [(1, 2, 7)]),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), [(1, 2, 5, 5)]),
    ("upsampling by scale and by size", lambda x: F.interpolate(x, scale_factor=2.0) + F.interpolate(x, size=(4, 6), mode="bilinear"),
     [(1, 2, 2, 3)]),
    ("bilinear, corners aligned", lambda x: F.interpolate(x, size=(3, 5), mode="bilinear", align_corners=True), [(1, 1, 2, 3)]),
    ("sums and means of all", lambda x: x.sum() + x.mean(), [(2, 3)]),
    ("reductions over given dims", lambda x: x.sum(-1, keepdim=True) * x.amax((0, 1)) - x.mean((1, 2), keepdim=True), [(2, 2, 3)]),
    ("softmax", lambda x: F.softmax(x, -1) - F.log_softmax(x, 0), [(2, 3)]),
    ("batch_norm", lambda x, w, b, m, v: F.batch_norm(x, m, v.abs() + 1, w, b), [(2, 3, 2, 2)], [(3,), (3,), (3,), (3,)]),
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (3,), w, b), [(2, 3)], [(3,), (3,)]),
    ("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), [(1, 4, 2, 2)], [(4,), (4,)]),
    ("reshape, flatten, unflatten", lambda x: x.reshape(3, -1).flatten() * x.flatten(1).unflatten(1, (2, -1)).flatten(), [(2, 2, 3)]),
    ("transposes", lambda x: x.transpose(0, -1).permute(2, 0, 1) + x.t().unsqueeze(0) if x.dim() == 2 else x.transpose(0, -1), [(2, 2, 3)]),
    ("t of a matrix", lambda x: x.t() * 2, [(2, 3)]),
    ("squeezes", lambda x: x.squeeze() + x.squeeze(0).squeeze(1) + x.squeeze((0, 2)), [(1, 2, 1, 3)]),
    ("expand, expand_as, view_as", lambda x, y: x.expand(2, 3) + x.expand_as(y) + y.view(3, 2).view_as(y), [(1, 3), (2, 3)]),
    ("select and negative slices", lambda x: x[:, -1] + x[:, 1, ...] * x[:, :-2].sum(1), [(2, 4)]),
    ("slice with step", lambda x: x[:, 1::2] - x[:, ::2], [(2, 6)]),
    ("chunk of an uneven dim", lambda x: x.chunk(2, 1)[0] + x.chunk(2, 1)[1].sum(), [(2, 5)]),
    ("split", lambda x: x.split(2, 1)[2] * x.split([1, 4], 1)[0], [(2, 5)]),
    ("channel_shuffle, pixel_shuffle", lambda x: F.pixel_shuffle(F.channel_shuffle(x, 2), 2), [(1, 8, 2, 2)]),
    ("stack", lambda x, y: torch.stack([x, y, x], 1), [(2, 3), (2, 3)]),
    ("pad constant", lambda x: F.pad(x, (1, 0, 0, 2), value=3.0) + F.pad(x, (1, 0, 2, 0)), [(1, 2, 2)]),
    ("pad reflect", lambda x: F.pad(x, (2, 1, 1, 1), mode="reflect"), [(1, 1, 3, 3)]),
    ("pad replicate", lambda x: F.pad(x, (2, 1, 0, 1), mode="replicate"), [(1, 1, 2, 2)]),
    ("pad circular", lambda x: F.pad(x, (1, 2, 1, 0), mode="circular"), [(1, 1, 2, 3)]),
    ("matmul by a constant", lambda x, w: x @ w, [(2, 2, 3)], [(3, 4)]),
    ("matmul of matrices", lambda x, y: x @ y, [(2, 3), (3, 2)]),
    ("matmul, a matrix on the right", lambda x, y: x @ y, [(2, 2, 3), (3, 2)]),
    ("matmul, batches broadcast", lambda x, y: x @ y, [(2, 1, 2, 3), (2, 3, 2)]),
    ("matmul of vectors", lambda x, y: (x @ y) + x @ torch.stack([y, y], 1), [(3,), (3,)]),
    ("matmul of a vector and a batch", lambda x, y: x @ y, [(3,), (2, 3, 2)]),
    ("addmm by a constant", lambda x, b, w: torch.addmm(b, x, w), [(2, 3)], [(4,), (3, 4)]),
    ("addmm with alpha and beta", lambda x, y, z: torch.addmm(x, y, z, beta=2, alpha=3), [(2, 2), (2, 3), (3, 2)]),
    ("linear of one row", lambda x, w, b: F.linear(x, w, b), [(3,)], [(2, 3), (2,)]),
    ("identities", lambda x: F.dropout(x, 0.5, False).detach().contiguous().to(torch.float32).clone() + 0.5, [(2, 3)]),
    ("constants", lambda x: x + torch.zeros(2, 3) + torch.ones_like(x) + torch.full_like(x, 2.5) + torch.tensor([1.0, 2.0, 3.0]), [(2, 3)]),
    ("integer constant promoted", lambda x: x * torch.arange(3), [(2, 3)]),
    ("division with rounding", lambda x: torch.div(x, 2, rounding_mode="floor") + torch.div(x, x + 9, rounding_mode=None), [(2, 3)]),
    ("powers", lambda x: x ** 2 + (x * x) ** 0.5 + x ** 3, [(2, 3)]),
]


# run_decompositions makes ops of these that fxcc does not have: aten.index.Tensor, aten.empty.
UNKNOWN_DECOMPOSED = ("pad reflect", "pad replicate", "pad circular")


def values(out):
    flat = []
    for t in torch.utils._pytree.tree_leaves(out):
        flat += t.detach().double().reshape(-1).tolist()
    return " ".join(f"{v:.9g}" for v in flat)


def case(fxcc, folder, title, fn, shapes, weights, passes, decomposed):
    model = Weights(fn, weights).eval()
    inputs = tuple(make_input(k, s) for k, s in enumerate(shapes))
    program = torch.export.export(model, inputs)
    if decomposed:
        program = program.run_decompositions()
    path = os.path.join(folder, "case.pt2")
    torch.export.save(program, path)
    text = subprocess.run([fxcc, "show", "--text", path], check=True, capture_output=True, text=True).stdout
    text = "".join(line.split("  # ")[0].rstrip() + "\n" for line in text.splitlines())
    text = text.replace(path, "case.pt2")
    with torch.no_grad():
        eager = values(model(*inputs))
    return f"== {title}\npasses: {passes}\n-- in\n{text}-- eager: {eager}\n-- out\n\n"


def main():
    fxcc = sys.argv[1]
    note = "# Made by make_cases.py; what follows '-- out' is blessed.\n# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.\n\n"
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(here, "functionalize.test"), "w") as f:
            f.write(note)
            for fn, shapes, *rest in INPLACE:
                f.write(case(fxcc, folder, fn.__name__.replace("_", " ").strip(), fn, shapes, rest[0] if rest else [], "refuse functionalize", False))
        for name, decomposed, passes in (("decompose", False, "refuse decompose"), ("decomposed", True, "refuse decompose fold")):
            with open(os.path.join(here, name + ".test"), "w") as f:
                f.write(note)
                for title, fn, shapes, *rest in DECOMPOSE:
                    if decomposed and title in UNKNOWN_DECOMPOSED:
                        continue
                    f.write(case(fxcc, folder, title, fn, shapes, rest[0] if rest else [], passes, decomposed))


if __name__ == "__main__":
    main()
