#!/usr/bin/env python3
"""Makes semantics.def: functions whose values PyTorch's eager mode decides, exported by torch, with eager's outputs to the bit.

    tests/unit/make_semantics.py path/to/fxcc

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import math
import os
import struct
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

here = os.path.dirname(os.path.abspath(__file__))
inf, nan = math.inf, math.nan
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i8, u8, i16, i32, i64 = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64


def t(values, dtype=f32):
    return torch.tensor(values, dtype=dtype)


def aliased(x):
    a = x + 0.25
    v = a.view(-1)
    b = x + 0.125
    return v.view_as(x) + b, b * a


def written_view(x):
    y = x + 1
    v = y[1:]
    v.mul_(2)
    z = y * 3
    y.add_(v.sum())
    return y, z, v


def written_twice(x):
    y = x * 1
    v, w = y[0], y.t()
    v.add_(1)
    w.mul_(2)
    return y, v + 0, w + 0


def conv_transpose(x):
    y = F.conv_transpose2d(x.expand(1, 3, 28, 28), torch.full((3, 6, 3, 3), 0.5), None, 2, 1, 1)
    return y.view(1, 6, 56, 56)[:, ::5, ::11, ::11]


# title, function, inputs
CASES = [
    ("x - (x + 1) rounds twice", lambda x: x - (x + 1), [t([3.0, 0.1, 16777216.0, 1e8, -0.3])]),
    ("u8 wraps before it is converted", lambda a, b: (a + b).to(i16), [t([128, 200, 3], u8), t([128, 100, 4], u8)]),
    ("i8 wraps in a chain", lambda a: (a * a - a).to(i32), [t([100, -128, 127, 3], i8)]),
    ("i16 wraps", lambda a: (a + a) * 2, [t([32767, -32768, 20000], i16)]),
    ("i32 wraps", lambda a: a * a + 1, [t([65536, -2147483648, 46341], i32)]),
    ("i64 wraps", lambda a: a * 3 - 1, [t([9223372036854775807, -9223372036854775808], i64)]),
    ("negation and magnitude of the least integer", lambda a: (-a, a.abs()), [t([-128, 127, 0], i8)]),
    ("f32 to u8 as x86 does", lambda x: x.to(u8), [t([1.54, -0.29, -2.18, 0.57, -1.08])]),
    ("f32 to i32 toward zero", lambda x: x.to(i32), [t([1.99, -1.99, 0.5, -0.5, 2147483520.0])]),
    ("i64 to f32 rounds to even", lambda a: a.to(f32), [t([16777217, 16777219, -16777217, 9007199254740993], i64)]),
    ("f64 to f32 rounds", lambda a: a.to(f32), [t([0.1, 1e40, -1e-46, 1.00000011920928955], f64)]),
    ("f16 overflows even when fused", lambda a, b: a * b * 0.001, [t([30000.0, 10.0], f16), t([200.0, 0.3], f16)]),
    ("f16 rounds op by op", lambda a: (a + 0.1) * 3 - a, [t([2049.0, 0.333, -1.5, 65504.0], f16)]),
    ("bf16 rounds op by op", lambda a: (a + 1) - a, [t([256.0, 255.0, 3.0, -0.7], bf16)]),
    ("bf16 meets f32", lambda a, b: a * b, [t([1.1, 3.3], bf16), t([1.1, 3.3])]),
    ("round half to even keeps -0", lambda x: x.round(), [t([-0.5, 0.5, 1.5, 2.5, -0.2, -2.5])]),
    ("inf - inf", lambda x: x * inf - x * inf, [t([1.0, -2.0, 0.0])]),
    ("relu keeps NaN and -0", lambda x: F.relu(x), [t([nan, -0.0, 0.0, -1.0, inf, -inf])]),
    ("clamp keeps NaN and zeros' signs", lambda x: (x.clamp(-1, 1), x.clamp(min=0.0), x.clamp(max=-0.0)), [t([nan, -0.0, 0.0, 5.0, -inf])]),
    ("signed zeros", lambda x: (x * -1, x + 0.0, -x, x - 0.0, 0.0 - x), [t([0.0, -0.0])]),
    ("division by zero", lambda x: (x / 0.0, 1 / x, x / -0.0), [t([1.0, -1.0, 0.0, -0.0, nan])]),
    ("remainders", lambda a, b: (torch.remainder(a, b), torch.fmod(a, b)), [t([5.5, -5.5, 5.5, -5.5, 3.0, inf]), t([3.0, 3.0, -3.0, -3.0, inf, 2.0])]),
    ("integer remainders", lambda a, b: (torch.remainder(a, b), torch.fmod(a, b), torch.div(a, b, rounding_mode="floor"),
                                         torch.div(a, b, rounding_mode="trunc")), [t([7, -7, 7, -7], i32), t([3, 3, -3, -3], i32)]),
    ("division rounded down", lambda a, b: torch.div(a, b, rounding_mode="floor"), [t([7.0, -7.0, inf, 0.0, -1e-30, 6.0]), t([2.0, 2.0, 3.0, -3.0, 1e30, 0.1])]),
    ("greatest with NaN", lambda a, b: (torch.maximum(a, b), torch.minimum(a, b)), [t([nan, 1.0, 2.0]), t([1.0, nan, 3.0])]),
    ("amax and argmax with NaN", lambda a: (a.amax(1), a.argmax(1), a.argmin(1)), [t([[1.0, nan, 3.0, nan], [2.0, 7.0, 7.0, 2.0]])]),
    ("where takes no notice of the other", lambda c, a: torch.where(c > 0, a, 0.5) * 2, [t([1.0, -1.0, nan]), t([2.0, nan, 3.0])]),
    ("comparisons with NaN", lambda a: (a == a, a != a, a < 1, a >= 1), [t([nan, 1.0, inf])]),
    ("bool arithmetic", lambda a, b: (a + b, a * b, a & ~b, (a.to(i64) + b).sum()), [t([True, True, False], torch.bool), t([True, False, False], torch.bool)]),
    ("bits", lambda a, b: (a & b, a | b, a ^ b, ~a), [t([12, -1, 7], i16), t([10, 5, -8], i16)]),
    ("AvgPool2d with divisor_override", lambda x: F.avg_pool2d(x, 2, divisor_override=1), [torch.ones(1, 1, 4, 4)]),
    ("ConvTranspose2d's shape", conv_transpose, [t([[[[1.5]]]])]),
    ("std of a constant row", lambda x: x.std(1), [t([[3.1] * 7, [1e6] * 7, [0.1] * 7])]),
    ("split 4 of 10", lambda x: x.split(4), [torch.arange(10.0)]),
    ("v lives as long as it is read", aliased, [t([[1.0, 2.0], [3.0, 4.0]])]),
    ("a written view", written_view, [t([1.0, 2.0, 3.0])]),
    ("views of one value written in turn", written_twice, [t([[1.0, 2.0], [3.0, 4.0]])]),
    ("outputs are no inputs", lambda x: (x.view(-1), x.t(), x[1:], x), [t([[1.0, 2.0], [3.0, 4.0]])]),
    ("one output twice", lambda x: (lambda y: (y, y.t(), y))(x * 2), [t([[1.0, 2.0], [3.0, 4.0]])]),
    ("softmax of -inf", lambda x: x.softmax(-1), [t([[-inf, -inf], [0.0, -inf]])]),
    ("sums of nothing", lambda x: (x.sum(1), x.mean(1), x.prod(1)), [torch.ones(2, 0)]),
    ("integer sums are of i64", lambda a: (a.sum(), a.cumsum(0)), [t([127, 127, -128, 5], i8)]),
    ("powers", lambda x: (x ** 0, x ** 2, x ** 0.5, x ** -1), [t([0.0, -2.0, 9.0, nan])]),
    ("integer powers", lambda a: (a ** 2, a ** 3), [t([-3, 5, 100], i16)]),
    ("negative indices count from the end", lambda x, i: x[i], [t([1.0, 2.0, 3.0]), t([-1, 0, -3, 2], i64)]),
    ("gather and scatter", lambda x, i: (x.gather(1, i), torch.zeros(2, 3).scatter(1, i, x)), [t([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), t([[2, 0, 1], [1, 2, 0]], i64)]),
    ("shifts keep the sign", lambda a: (a << 1, a >> 1), [t([-3, 127, 5], i8)]),
    ("out of the domain", lambda x: (x.sqrt(), x.log(), x.rsqrt()), [t([-1.0, 0.0, inf])]),
    ("i32 meets f32", lambda a, b: a * b + a, [t([3, -7, 16777217], i32), t([0.5, 1.5, 1.0])]),
    ("integers divide to floats", lambda a, b: a / b, [t([1, -7, 0], i32), t([3, 2, 0], i32)]),
    ("f64 stays f64", lambda x: (x * 0.1 + 1) / 3, [t([1e300, 0.1, -2.5e-300], f64)]),
    ("a number does not widen", lambda x: (x + 1e-3) * 3.3, [t([1.0, 2048.0], f16)]),
    ("integers become half-wide floats before they are factors", lambda x, n: (x * n, x + n, n / x), [t([3.0, 1.5, -2.0], bf16), t([259, 517, -1031], i64)]),
    ("but for one element that is the second factor, or divides", lambda x, n, m: (x * n, x / n, x * m, x + n, n * x),
     [t([3.0, 777.0, -2.0], bf16), t(259, i64), t([517], i64)]),
    ("a factor of rank 0 of another float dtype is not rounded", lambda x, n: (x * n, x / n, x - n), [t([3.0, 777.0, -2.0], f16), t(2051.0)]),
    ("alpha 0 is added with eager's sign", lambda x: (torch.rsub(x, -0.0, alpha=0), torch.sub(x * 0, x, alpha=0), torch.rsub(x, -0.0, alpha=0.0)), [t([2.0, -2.0, 0.5])]),
    ("the norm of one element takes no powers", lambda x: (torch.linalg.vector_norm(x, 2, 1), torch.linalg.vector_norm(x, 3, 1), torch.linalg.vector_norm(x[0, 0])),
     [t([[1e-30], [-1e30], [0.0]])]),
    ("powers of a norm leave the range of float32", lambda x, h: (torch.linalg.vector_norm(x, 2, 1), torch.linalg.vector_norm(h, 4, 1)),
     [t([[1e-30, 2e-30], [1e30, -2e30], [3.0, 4.0]]), t([[60000.0, 0.0], [1.0, 0.0]], f16)]),
    ("the mean in half precision is of what is given", lambda x: (x.mean(1, dtype=bf16), x.mean(dtype=f16)),
     [t([[-2.6142, 1.2913, 0.4075, 2.5389, -1.6768]])]),
    ("a threshold is not rounded", lambda x, h: (F.threshold(x, 259.0, -1.0), F.threshold(h, 1e6, -1.0)), [t([260.0, 258.0, inf], bf16), t([inf, 65504.0], f16)]),
    ("limits that are no numbers", lambda x: (x.clamp(nan, 1.0), x.clamp(0.0, nan), x.clamp(min=nan), F.hardtanh(torch.relu(x), -1.0, nan)),
     [t([0.5, 7.0, nan])]),
    ("limits that are turned round", lambda x: (F.hardtanh(x, -1.0, 1.0).clamp(6.0, 2.0).clamp_min(3.0), torch.relu(x.clamp(5.0, -1.0))), [t([0.5, 7.0, -3.0])]),
    ("the magnitude of the least integer", lambda x: torch.relu(torch.abs(x)), [t([-128, 5, -7], i8)]),
    ("gelu of the greatest numbers", lambda x: F.gelu(x, approximate="tanh"), [t([1.7976931348623157e308, -1e308, 0.0], f64)]),
    ("sums and products are of what was converted", lambda x: (x.sum(1, dtype=f16), x.prod(1, dtype=f16), x.sum(1, dtype=bf16), (x * 1e-5).prod(1, dtype=bf16)),
     [t([[1e5, -1e5, -1e6], [1.001, 2.003, 3.007]])]),
    ("a base is rounded", lambda x, h: (torch.pow(1e6, x), torch.pow(259.0, h)), [t([0.25, 0.0, -1.0], f16), t([1.0, 0.5], bf16)]),
]


class Wrap(torch.nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


def number(v, dtype):
    if dtype == torch.bool:
        return "1" if v else "0"
    if not dtype.is_floating_point:
        return str(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return repr(v)


def line(kind, x):
    flat = x.detach().reshape(-1)
    values = flat.double().tolist() if x.dtype.is_floating_point else flat.tolist()
    return f"{kind} {'x'.join(str(s) for s in x.shape) or '-'} {' '.join(number(v, x.dtype) for v in values)}".rstrip()


def main():
    fxcc = sys.argv[1]
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for title, fn, inputs in CASES:
            model = Wrap(fn).eval()
            path = os.path.join(folder, "case.pt2")
            torch.export.save(torch.export.export(model, tuple(inputs)), path)
            text = subprocess.run([fxcc, "show", "--text", path], check=True, capture_output=True, text=True).stdout
            text = "".join(s.split("  # ")[0].rstrip() + "\n" for s in text.splitlines() if s.startswith(("%", "output", "buffer")))
            with torch.no_grad():
                outputs = torch.utils._pytree.tree_leaves(model(*[x.clone() for x in inputs]))
            lines = [line("in", x) for x in inputs] + [line("out", y) for y in outputs]
            body = "".join(f"     {quote(s)}\n" for s in text.splitlines(keepends=True))
            out.append(f"CASE({quote(title)},\n{body.rstrip()},\n" + "".join(f"     {quote(s + chr(10))}\n" for s in lines).rstrip() + ")\n")
    with open(os.path.join(here, "semantics.def"), "w") as f:
        f.write("/* tests/unit/semantics.def: CASE(title, graph, inputs and outputs): what eager PyTorch gives, to the bit. Made by make_semantics.py.\n"
                " * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */\n")
        f.write("\n".join(out))


def quote(s):
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


if __name__ == "__main__":
    main()
