"""The cases of every operator row: ATen calls with settings drawn from a fixed seed.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

A case is (name of the row, arguments, keywords, tolerance). Tensors among the arguments become inputs of the exported program.
Tolerance: 0 asks for equal values; otherwise |difference| <= tolerance * |reference|, element by element, or, for "max", of
the greatest |reference| (sums, in which eager's own rounding errors cancel).
"""
import random

import torch

GROUPS = {}
NAN, INF = float("nan"), float("inf")


class Cases(list):
    def __init__(self, seed):
        super().__init__()
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def add(self, name, *args, tolerance=0.0, **kwargs):
        self.append((name, args, kwargs, tolerance))

    def randn(self, *sizes, dtype=torch.float32):
        return torch.randn(sizes, generator=self.generator, dtype=dtype)

    def randint(self, low, high, *sizes, dtype=torch.int64):
        return torch.randint(low, high, sizes, generator=self.generator, dtype=dtype)

    def bools(self, *sizes):
        return self.randint(0, 2, *sizes).bool()

    def pick(self, *choices):
        return self.random.choice(choices)

    def ints(self, n, low, high):
        return [self.random.randint(low, high) for _ in range(n)]


def group(f):
    GROUPS[f.__name__] = f
    return f


def special(dtype=torch.float32):
    """Values at which implementations differ, often enough to fill vector registers."""
    v = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 6.0, 20.5, -20.5, 88.0, -88.0, 104.0, 1e-6, -1e-6, 1e-40, 3.4e38,
         -3.4e38, INF, -INF, NAN, 0.49999997, 8388609.0, -7.25, 2.9999999, 1e-3]
    return torch.tensor(v * 2, dtype=dtype)


ULPS = 3e-7   # transcendental functions in f32
F64 = 1e-14


def as_dtype(case, name, x, low, *args, **kwargs):
    """Half precision: numpy has no bfloat16, so the program converts; the result is exact in f32."""
    case.append((name, (x, *args), dict(kwargs, _through=low), 0.01))


# ---- elementwise ------------------------------------------------------------------------------------------------------

EXACT = ["relu", "neg", "abs", "sign", "sgn", "floor", "ceil", "round", "trunc", "square"]
FLOATING = ["sigmoid", "tanh", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "erf", "sin", "cos", "erfc", "exp2", "log2",
            "log10", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "deg2rad", "rad2deg"]
ACTIVATIONS = ["silu", "hardswish", "hardsigmoid", "mish"]


@group
def unary(c):
    x, d = special(), special(torch.float64)
    ints = torch.tensor([0, 1, -1, 5, -7, 127, -128])
    for n in EXACT:
        c.add(f"aten.{n}.default", x)
        c.add(f"aten.{n}.default", d)
        c.add(f"aten.{n}.default", c.randn(3, 5, 2))
        for dtype in (torch.int8, torch.int32, torch.int64):
            c.add(f"aten.{n}.default", ints.to(dtype))
        c.add(f"aten.{n}.default", ints.to(torch.uint8))
    for n in FLOATING:
        y = x[x.abs() < 1e4] if n in ("sin", "cos", "tan", "erfc", "exp2", "asinh") else x
        if n == "erfc":
            y = y[y < 5]
        c.add(f"aten.{n}.default", y, tolerance=ULPS)
        c.add(f"aten.{n}.default", c.randn(4, 33), tolerance=ULPS * 3)
        c.add(f"aten.{n}.default", c.randn(7, dtype=torch.float64).abs(), tolerance=F64)
        c.add(f"aten.{n}.default", c.randint(1, 9, 6), tolerance=ULPS)
        as_dtype(c, f"aten.{n}.default", c.randn(17), torch.bfloat16)
    for n in ACTIVATIONS:
        c.add(f"aten.{n}.default", x[x.abs() < 1e30] if n == "mish" else x, tolerance=ULPS * 3)
        c.add(f"aten.{n}.default", c.randn(4, 33) * 4, tolerance=ULPS * 3)
        c.add(f"aten.{n}.default", c.randn(9, dtype=torch.float64), tolerance=F64)
        as_dtype(c, f"aten.{n}.default", c.randn(17), torch.float16)
    for t in (x, ints, c.bools(9), d):
        c.add("aten.logical_not.default", t)
        c.add("aten.isnan.default", t)
        c.add("aten.isinf.default", t)
        for n in ("isfinite", "isposinf", "isneginf", "signbit"):
            c.add(f"aten.{n}.default", t)
    for t in (x, d, c.randn(9) * 40):
        c.add("aten.frac.default", t)
        c.add("aten.log_sigmoid.default", t, tolerance=ULPS * 3 if t.dtype == torch.float32 else F64)
    c.add("aten.lgamma.default", c.randn(40) * 9, tolerance="max")
    c.add("aten.lgamma.default", c.randint(1, 9, 6), tolerance=ULPS)
    for t in (ints, ints.to(torch.uint8), c.bools(5)):
        c.add("aten.bitwise_not.default", t)


@group
def quantized(c):
    x = torch.cat([c.randn(3, 41).flatten() * 3, torch.tensor([0.0, -0.0, 0.05, 0.15, 0.25, 1e9, -1e9, float("inf"), float("-inf")])])
    for scale, zero in ((0.1, 0), (0.023, 5), (3.0, -7), (1e-3, 127)):
        for dtype, low, high in ((torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int8, -127, 127), (torch.int16, -32768, 32767)):
            c.add("quantized_decomposed.quantize_per_tensor.default", x, scale, zero, low, high, dtype)
            q = c.randint(max(low, -100), min(high, 100), 50).to(dtype)
            c.add("quantized_decomposed.dequantize_per_tensor.default", q, scale, zero, low, high, dtype)


@group
def unary_with_numbers(c):
    x, ints = special(), torch.tensor([0, 1, -1, 5, -7, 127, -128])
    r = c.randn(3, 41) * 3
    for t in (x, r, c.randn(5, dtype=torch.float64)):
        tolerance = F64 if t.dtype == torch.float64 else ULPS * 3
        c.add("aten.gelu.default", t[t.abs() < 9], tolerance="max")
        c.add("aten.gelu.default", t[t.abs() < 9], approximate="tanh", tolerance="max")
        c.add("aten.hardtanh.default", t)
        c.add("aten.hardtanh.default", t, -0.3, 2.0)
        c.add("aten.relu6.default", t)
        c.add("aten.leaky_relu.default", t)
        c.add("aten.leaky_relu.default", t, 0.2)
        c.add("aten.leaky_relu.default", t, -1.5)
        c.add("aten.elu.default", t, tolerance=tolerance)
        c.add("aten.elu.default", t, 0.7, 1.3, 0.9, tolerance=tolerance)
        c.add("aten.softplus.default", t, tolerance=tolerance)
        c.add("aten.softplus.default", t, 2.0, 3, tolerance=tolerance)
        c.add("aten.clamp.default", t, -0.5, 1)
        c.add("aten.clamp.default", t, None, 0.25)
        c.add("aten.clamp.default", t, 2.0, -2.0)
        c.add("aten.clamp.default", t, NAN, 1.0)
        c.add("aten.clamp_min.default", t, 0.1)
        c.add("aten.clamp_max.default", t, 0.1)
        c.add("aten.selu.default", t, tolerance=tolerance)
        c.add("aten.celu.default", t, tolerance=tolerance)
        c.add("aten.celu.default", t, 0.6, tolerance=tolerance)
        c.add("aten.hardshrink.default", t)
        c.add("aten.hardshrink.default", t, 1.0)
        c.add("aten.softshrink.default", t)
        c.add("aten.softshrink.default", t, 0.1)
        c.add("aten.threshold.default", t, 0.1, -7)
        c.add("aten.logit.default", t.clamp(0, 1), tolerance="max")
        c.add("aten.logit.default", t, 0.1, tolerance="max")
        c.add("aten.nan_to_num.default", t)
        c.add("aten.nan_to_num.default", t, 1.5, posinf=3.0)
        c.add("aten.nan_to_num.default", t, neginf=-2.0)
        for e in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.7, 4, 0.25):
            c.add("aten.pow.Tensor_Scalar", t, e, tolerance=tolerance)
    for t in (ints, ints.to(torch.int8)):
        c.add("aten.clamp.default", t, -3, 4)
        c.add("aten.clamp.default", t, -2.5, 4)
        c.add("aten.clamp_min.default", t, 2)
        c.add("aten.clamp_max.default", t, 2.5)
        c.add("aten.relu6.default", t)
        c.add("aten.threshold.default", t, 2, 9)
        c.add("aten.nan_to_num.default", t)
        c.add("aten.hardtanh.default", t, -2, 3)
        c.add("aten.pow.Tensor_Scalar", t, 3)
        c.add("aten.pow.Tensor_Scalar", t, 0.5, tolerance=ULPS)
    c.add("aten.pow.Scalar", 2, c.randn(7), tolerance=ULPS)
    c.add("aten.pow.Scalar", 2.5, c.randint(0, 5, 7), tolerance=ULPS)
    c.add("aten.pow.Scalar", 3, c.randint(0, 5, 7))


def operands(c, dtype=torch.float32):
    """Pairs of shapes that broadcast."""
    for a, b in [((4, 9), (4, 9)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((5,), ()), ((), (5,)), ((), ()), ((2, 3, 2, 2), (1, 3, 1, 1)),
                 ((0, 3), (1, 3))]:
        if dtype.is_floating_point:
            yield c.randn(*a, dtype=dtype), c.randn(*b, dtype=dtype)
        else:
            yield c.randint(-9, 9, *a, dtype=dtype), c.randint(-9, 9, *b, dtype=dtype)


ARITHMETIC = ["add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum.default", "minimum.default", "fmod.Tensor",
              "remainder.Tensor"]


@group
def binary(c):
    for n in ARITHMETIC:
        name = f"aten.{n}"
        for a, b in operands(c):
            c.add(name, a, b)
        for a, b in operands(c, torch.float64):
            c.add(name, a, b)
        x = special()
        if "fmod" in n or "remainder" in n:  # eager's vector code loses subnormals there
            x = x[(x.abs() > 1e-30) | (x == 0) | x.isnan()]
        c.add(name, x, x.flip(0))
        for dtype in (torch.int64, torch.int32, torch.int8):
            a, b = c.randint(-99, 99, 4, 5, dtype=dtype), c.randint(1, 9, 5, dtype=dtype)
            c.add(name, a, b)
            c.add(name, a, -b)
    for n in ("add", "sub"):
        for alpha in (2, -1, 0.5):
            c.add(f"aten.{n}.Tensor", c.randn(6, 3), c.randn(6, 3), alpha=alpha, tolerance="max")
        c.add(f"aten.{n}.Tensor", c.randint(-9, 9, 6), c.randint(-9, 9, 6), alpha=3)
        c.add(f"aten.{n}.Scalar", c.randn(5), 0.1)
        c.add(f"aten.{n}.Scalar", c.randn(5), 3, 2, tolerance="max")
        c.add(f"aten.{n}.Scalar", c.randint(-9, 9, 5), 3)
        c.add(f"aten.{n}.Scalar", c.randint(-9, 9, 5), 0.25)
    for n in ("mul", "div", "fmod", "remainder"):
        c.add(f"aten.{n}.Scalar", c.randn(7), 0.3)
        c.add(f"aten.{n}.Scalar", c.randint(-9, 9, 7), 4)
        c.add(f"aten.{n}.Scalar", c.randint(-9, 9, 7), -2.5)
    # Type promotion: dims, rank 0 and numbers weigh differently.
    types = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64]
    for a in types:
        for b in types:
            for sa, sb in (((3,), (3,)), ((3,), ())):
                x = c.bools(*sa) if a == torch.bool else c.randint(1, 9, *sa).to(a)
                y = c.bools(*sb) if b == torch.bool else c.randint(1, 9, *sb).to(b)
                c.add("aten.add.Tensor", x, y)
                c.add("aten.mul.Tensor", x, y)
                if a != torch.bool and b != torch.bool:
                    c.add("aten.div.Tensor", x, y)
        x = c.bools(4) if a == torch.bool else c.randint(1, 9, 4).to(a)
        for number in (2, 1.5, True):
            c.add("aten.mul.Tensor", x, number)
            c.add("aten.add.Tensor", x, number)
    for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8):
        big = torch.tensor([torch.iinfo(dtype).max, torch.iinfo(dtype).min, 3], dtype=dtype)
        c.add("aten.add.Tensor", big, big)
        c.add("aten.mul.Tensor", big, big)
        c.add("aten.sub.Tensor", big, big.flip(0))
        c.add("aten.neg.default", big)
        c.add("aten.abs.default", big)
    for mode in (None, "trunc", "floor"):
        for a, b in operands(c):
            c.add("aten.div.Tensor_mode", a, b, rounding_mode=mode)
        c.add("aten.div.Tensor_mode", special(), special().flip(0), rounding_mode=mode)
        c.add("aten.div.Tensor_mode", c.randint(-99, 99, 20), c.randint(1, 9, 20), rounding_mode=mode)
        c.add("aten.div.Tensor_mode", c.randint(-99, 99, 20, dtype=torch.int32), -c.randint(1, 9, 20, dtype=torch.int32),
              rounding_mode=mode)
        c.add("aten.div.Scalar_mode", c.randn(9) * 9, 0.7, rounding_mode=mode)
        c.add("aten.div.Scalar_mode", c.randint(-99, 99, 9), 7, rounding_mode=mode)
    for x in (c.randn(5), c.randint(-9, 9, 5)):
        c.add("aten.rsub.Scalar", x, 3)
        c.add("aten.rsub.Scalar", x, 3, 2)
        c.add("aten.rsub.Tensor", x, x.flip(0))
        c.add("aten.rsub.Tensor", x, x.flip(0), alpha=2)
    c.add("aten.pow.Tensor_Tensor", c.randn(9).abs(), c.randn(9), tolerance=ULPS)
    c.add("aten.pow.Tensor_Tensor", special(), special().flip(0), tolerance=ULPS)
    c.add("aten.pow.Tensor_Tensor", c.randint(-4, 4, 9), c.randint(0, 5, 9))
    c.add("aten.pow.Tensor_Tensor", torch.tensor([1, -1, 2, -1]), torch.tensor([-2, -3, -1, -2]))
    for n in ("fmax", "fmin", "atan2", "hypot", "copysign", "xlogy", "floor_divide", "clamp_min", "clamp_max"):
        name = {"copysign": "copysign.Tensor", "xlogy": "xlogy.Tensor", "clamp_min": "clamp_min.Tensor", "clamp_max": "clamp_max.Tensor"}
        name, exact = f"aten.{name.get(n, n + '.default')}", n not in ("atan2", "hypot", "xlogy")
        for a, b in operands(c):
            c.add(name, a, b, tolerance=0 if exact else ULPS * 3)
        for a, b in operands(c, torch.float64):
            c.add(name, a, b, tolerance=0 if exact else F64)
        c.add(name, special(), special().flip(0), tolerance=0 if exact else ULPS * 3)
        if n != "hypot":
            c.add(name, c.randint(-99, 99, 20), c.randint(1, 9, 20), tolerance=0 if exact else ULPS * 3)
            c.add(name, c.randint(-99, 99, 20, dtype=torch.int32), c.randint(1, 9, 20, dtype=torch.int8), tolerance=0 if exact else ULPS * 3)
        as_dtype(c, name, c.randn(33), torch.bfloat16, c.randn(33))
    c.add("aten.copysign.Scalar", special(), -0.0)
    c.add("aten.copysign.Scalar", c.randint(-9, 9, 5), -2)
    c.add("aten.floor_divide.Scalar", c.randn(20) * 9, 0.7)
    c.add("aten.floor_divide.Scalar", c.randint(-99, 99, 9), -7)
    c.add("aten.floor_divide.Scalar", c.randint(-99, 99, 9), 2.5)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        low = 0 if dtype == torch.uint8 else -99
        x, by = c.randint(low, 99, 40, dtype=dtype), c.randint(-2 if low else 0, 70, 40).to(dtype)
        for n in ("left", "right"):
            c.add(f"aten.bitwise_{n}_shift.Tensor", x, by)
            c.add(f"aten.bitwise_{n}_shift.Tensor", x, by % 8)
            c.add(f"aten.bitwise_{n}_shift.Tensor_Scalar", x, 3)
    for n in ("and", "or", "xor"):
        c.add(f"aten.bitwise_{n}.Scalar", c.randint(-99, 99, 9), 13)
        c.add(f"aten.bitwise_{n}.Scalar", c.bools(9), True)
        c.add(f"aten.bitwise_{n}.Scalar", c.bools(9), 6)
        c.add(f"aten.bitwise_{n}.Tensor", c.randint(-99, 99, 9), c.randint(-99, 99, 9))
        c.add(f"aten.bitwise_{n}.Tensor", c.bools(9), c.bools(9))
        c.add(f"aten.bitwise_{n}.Tensor", c.bools(4), c.randint(0, 99, 4, dtype=torch.uint8))
    for low in (torch.bfloat16, torch.float16):
        for n in ("add.Tensor", "mul.Tensor", "div.Tensor", "maximum.default"):
            as_dtype(c, f"aten.{n}", c.randn(3, 7), low, c.randn(7))


@group
def comparison(c):
    for n in ("eq", "ne", "lt", "le", "gt", "ge"):
        x = special()
        c.add(f"aten.{n}.Tensor", x, x.roll(1))
        c.add(f"aten.{n}.Tensor", x, x)
        c.add(f"aten.{n}.Tensor", c.randint(0, 3, 4, 5), c.randint(0, 3, 5))
        c.add(f"aten.{n}.Tensor", c.randint(0, 3, 5, dtype=torch.int32), torch.tensor(1.5))
        c.add(f"aten.{n}.Scalar", x, 0.5)
        c.add(f"aten.{n}.Scalar", torch.tensor([0.1, 0.2]), 0.1)
        c.add(f"aten.{n}.Scalar", c.randint(0, 3, 5), 1)
        c.add(f"aten.{n}.Scalar", c.randint(0, 3, 5, dtype=torch.uint8), 1.5)
        c.add(f"aten.{n}.Scalar", c.bools(5), True)
    for a, b in list(operands(c)) + [(special(), special().flip(0))]:
        c.add("aten.lerp.Scalar", a, b, 0.3, tolerance="max")
        c.add("aten.lerp.Scalar", a, b, 0.75, tolerance="max")
        c.add("aten.lerp.Tensor", a, b, c.randn(*a.shape), tolerance="max")
        for value in (1, 0.4, -2):
            c.add("aten.addcmul.default", a, b, a, value=value, tolerance="max")
            c.add("aten.addcdiv.default", a, b, b + 3, value=value, tolerance="max")
        c.add("aten.clamp.Tensor", a, b, b + 1)
        c.add("aten.clamp.Tensor", a, None, b)
        c.add("aten.clamp.Tensor", a, b, None)
    as_dtype(c, "aten.addcmul.default", c.randn(33), torch.bfloat16, c.randn(33), c.randn(33), value=0.3)
    as_dtype(c, "aten.lerp.Tensor", c.randn(33), torch.float16, c.randn(33), c.randn(33))
    c.add("aten.addcmul.default", c.randint(-9, 9, 5), c.randint(-9, 9, 5), c.randint(-9, 9, 5), value=3)
    c.add("aten.clamp.Tensor", c.randint(-9, 9, 5), c.randint(-5, 0, 5), torch.tensor(2.5))
    for n in ("logical_and", "logical_or", "logical_xor"):
        c.add(f"aten.{n}.default", special(), special().roll(1))
        c.add(f"aten.{n}.default", c.bools(3, 1), c.randint(0, 2, 4))
    for cond in (c.bools(3, 4), c.bools(4), c.bools(2, 3, 1)):
        c.add("aten.where.self", cond, c.randn(3, 4), c.randn(3, 1))
        c.add("aten.where.self", cond, c.randint(0, 9, 4), c.randn())
        c.add("aten.where.ScalarOther", cond, c.randn(3, 4), 2)
        c.add("aten.where.ScalarSelf", cond, 0.5, c.randint(0, 9, 4))
        c.add("aten.where.Scalar", cond, 1, 0)
        c.add("aten.masked_fill.Scalar", c.randn(3, 4), cond, -INF)
        c.add("aten.masked_fill.Scalar", c.randint(0, 9, 3, 4), cond, 7)
        c.add("aten.masked_fill.Tensor", c.randn(3, 4), cond, torch.tensor(-2.5))
        c.add("aten.masked_fill.Tensor", c.randn(3, 4), cond, torch.tensor(3))
    for shape in ((2, 3, 4, 5), (2, 3), (3,), ()):
        c.add("aten.prelu.default", c.randn(*shape), c.randn(1))
        if len(shape) > 1:
            c.add("aten.prelu.default", c.randn(*shape), c.randn(3))
    c.add("aten._prelu_kernel.default", c.randn(2, 3, 4), c.randn(3, 1))
    c.add("aten._prelu_kernel.default", special(), c.randn(1))


@group
def conversion(c):
    types = [torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool]
    x = torch.tensor([0.0, -0.0, 1.9, -1.9, 127.5, 128.0, 255.9, 256.0, -129.0, 300.0, -300.0, 65536.5])
    wild = torch.tensor([NAN, INF, -INF, 3e9, -3e9, 1e20, 3.4e38])
    for a in types:
        source = x.clamp(0, 120).to(a) if a in (torch.int8, torch.uint8, torch.bool) else x.to(a)
        for b in types:
            c.add("aten._to_copy.default", source, dtype=b)
            c.add("aten.to.dtype", source, b)
    for b in types:
        c.add("aten._to_copy.default", wild, dtype=b)
        c.add("aten._to_copy.default", wild.double(), dtype=b)
        c.add("aten._to_copy.default", torch.tensor([2**40 + 3, -2**35 - 1, 2**62 + 1, 16777217]), dtype=b)
    for low in (torch.float16, torch.bfloat16):
        as_dtype(c, "aten.relu.default", special(), low)
        as_dtype(c, "aten.neg.default", c.randn(100), low)


# ---- contractions -------------------------------------------------------------------------------------------------------

def conv_settings(c, nd, transposed=False):
    groups = c.pick(1, 1, 2, 3)
    ic, oc = groups * c.random.randint(1, 4), groups * c.random.randint(1, 4)
    kernel, stride, dilation = c.ints(nd, 1, 4), c.ints(nd, 1, 3), c.ints(nd, 1, 2)
    padding = c.ints(nd, 0, 2)
    out_pad = [c.random.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
    size = [d * (k - 1) + 1 + c.random.randint(0, 7) for k, d in zip(kernel, dilation)]
    batch = c.pick([], [1], [2])
    x = c.randn(*batch, ic, *size)
    w = c.randn(ic, oc // groups, *kernel) if transposed else c.randn(oc, ic // groups, *kernel)
    b = c.pick(None, c.randn(oc))
    return x, w, b, stride, padding, dilation, out_pad, groups, batch


@group
def convolution(c):
    for _ in range(36):
        nd = c.pick(1, 2, 2, 3)
        x, w, b, stride, padding, dilation, out_pad, groups, batch = conv_settings(c, nd)
        c.add(f"aten.conv{nd}d.default", x, w, b, stride, padding, dilation, groups, tolerance="max")
        if batch:
            c.add("aten.convolution.default", x, w, b, stride, padding, dilation, False, [0] * nd, groups, tolerance="max")
    for _ in range(20):
        nd = c.pick(1, 2)
        x, w, b, stride, padding, dilation, out_pad, groups, batch = conv_settings(c, nd)
        mode = c.pick("same", "valid")
        c.add(f"aten.conv{nd}d.padding", x, w, b, [1] * nd if mode == "same" else stride, mode, dilation, groups, tolerance="max")
    for _ in range(24):
        nd = c.pick(1, 2)
        x, w, b, stride, padding, dilation, out_pad, groups, batch = conv_settings(c, nd, True)
        if any((i - 1) * s - 2 * p + d * (k - 1) + o + 1 <= 0
               for i, s, p, d, k, o in zip(x.shape[-nd:], stride, padding, dilation, w.shape[2:], out_pad)):
            continue
        name = "aten.conv_transpose1d.default" if nd == 1 else "aten.conv_transpose2d.input"
        c.add(name, x, w, b, stride, padding, out_pad, groups, dilation, tolerance="max")
        if batch:
            c.add("aten.convolution.default", x, w, b, stride, padding, dilation, True, out_pad, groups, tolerance="max")
    # one int for all, doubles, a batch of none, more columns than a tile, long sums
    c.add("aten.conv2d.default", c.randn(1, 3, 9, 9), c.randn(4, 3, 3, 3), None, [2], [1], tolerance="max")
    c.add("aten.conv2d.default", c.randn(1, 3, 9, 9, dtype=torch.float64), c.randn(4, 3, 3, 3, dtype=torch.float64), tolerance="max")
    c.add("aten.conv2d.default", c.randn(0, 3, 9, 9), c.randn(4, 3, 3, 3), tolerance="max")
    c.add("aten.conv2d.default", c.randn(1, 5, 33, 31), c.randn(7, 5, 3, 3), c.randn(7), tolerance="max")
    c.add("aten.conv2d.default", c.randn(1, 700, 4, 5), c.randn(9, 700, 3, 3), c.randn(9), tolerance="max")


@group
def matrix(c):
    for x, w, b in [((3, 5), (4, 5), (4,)), ((5,), (4, 5), None), ((2, 3, 5), (4, 5), (4,)), ((2, 3, 5), (5,), None),
                    ((0, 5), (4, 5), (4,)), ((3, 0), (4, 0), (4,)), ((70, 33), (19, 33), (19,)), ((1, 300), (37, 300), None)]:
        c.add("aten.linear.default", c.randn(*x), c.randn(*w), c.randn(*b) if b else None, tolerance="max")
    c.add("aten.linear.default", c.randn(3, 5, dtype=torch.float64), c.randn(4, 5, dtype=torch.float64), tolerance="max")
    for m, k, n in [(3, 4, 5), (1, 7, 1), (0, 3, 2), (2, 0, 3), (300, 20, 9)]:
        c.add("aten.mm.default", c.randn(m, k), c.randn(k, n), tolerance="max")
        c.add("aten.bmm.default", c.randn(2, m, k), c.randn(2, k, n), tolerance="max")
    c.add("aten.mm.default", c.randn(4, 3).t(), c.randn(5, 4).t(), tolerance="max")
    c.add("aten.mm.default", c.randint(-9, 9, 3, 4), c.randint(-9, 9, 4, 2))
    for s in ((5,), (3, 5), (1, 5), (3, 1), ()):
        c.add("aten.addmm.default", c.randn(*s), c.randn(3, 4), c.randn(4, 5), tolerance="max")
        c.add("aten.addmm.default", c.randn(*s), c.randn(3, 4), c.randn(4, 5), beta=0.5, alpha=2, tolerance="max")
    c.add("aten.addmm.default", torch.full((3, 5), NAN), c.randn(3, 4), c.randn(4, 5), beta=0, tolerance="max")
    c.add("aten.addmm.default", c.randint(-9, 9, 5), c.randint(-9, 9, 3, 4), c.randint(-9, 9, 4, 5), beta=2, alpha=3)
    for a, b in [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
                 ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((1, 3, 4), (6, 4, 1))]:
        c.add("aten.matmul.default", c.randn(*a), c.randn(*b), tolerance="max")


# ---- pooling and resampling ---------------------------------------------------------------------------------------------

def pool_settings(c, nd):
    kernel, stride = c.ints(nd, 1, 4), c.ints(nd, 1, 4)
    padding = [c.random.randint(0, k // 2) for k in kernel]
    size = [k + c.random.randint(3, 12) for k in kernel]
    x = c.randn(*c.pick([], [2]), 3, *size)
    return x, kernel, stride, padding


def nans(c, x):
    return torch.where(torch.rand(x.shape, generator=c.generator) < 0.05, torch.tensor(NAN), x)


@group
def pooling(c):
    for _ in range(20):
        ceil = c.pick(True, False)
        x, kernel, stride, padding = pool_settings(c, 2)
        x = c.pick(x, nans(c, x))
        dilation = c.ints(2, 1, 2)
        c.add("aten.max_pool2d.default", x, kernel, stride, padding, dilation, ceil)
        c.add("aten.max_pool2d_with_indices.default", x, kernel, stride, padding, [1, 1], ceil)
        x, kernel, stride, padding = pool_settings(c, 1)
        c.add("aten.max_pool1d.default", x, kernel, stride, padding, [1], ceil)
        c.add("aten.avg_pool1d.default", x, kernel, stride, padding, ceil, c.pick(True, False), tolerance="max")
        x, kernel, stride, padding = pool_settings(c, 2)
        c.add("aten.avg_pool2d.default", x, kernel, stride, padding, ceil, c.pick(True, False), c.pick(None, None, 3, -2),
              tolerance="max")
    c.add("aten.max_pool2d.default", c.randn(1, 2, 8, 8), [2])
    c.add("aten.max_pool2d.default", c.randn(1, 2, 8, 8), [3], [2], [1])
    c.add("aten.max_pool2d.default", c.randint(-9, 9, 1, 2, 8, 8), [3], [2], [1])
    c.add("aten.max_pool2d.default", torch.full((1, 1, 4, 4), -INF), [2])
    c.add("aten.avg_pool2d.default", c.randn(1, 2, 8, 8, dtype=torch.float64), [3], tolerance="max")
    for _ in range(12):
        x = c.randn(*c.pick([], [2]), 3, *c.ints(2, 1, 12))
        out = c.ints(2, 1, 7)
        c.add("aten.adaptive_avg_pool2d.default", x, out, tolerance="max")
        c.add("aten._adaptive_avg_pool2d.default", x, out, tolerance="max")
        c.add("aten.adaptive_max_pool2d.default", nans(c, x), out)
        c.add("aten.adaptive_avg_pool1d.default", x[..., 0, :], out[:1], tolerance="max")
    for _ in range(16):
        x = c.randn(c.random.randint(1, 2), 3, *c.ints(2, 1, 9))
        out = c.ints(2, 1, 20)
        scales = [c.pick(2.0, 0.5, 1.5, 3.0, 1.0, 0.75, 2.3) for _ in range(2)]
        if any(int(s * n) < 1 for s, n in zip(scales, x.shape[2:])):
            scales = [2.0, 3.0]
        align = c.pick(True, False)
        c.add("aten.upsample_nearest2d.default", x, out)
        c.add("aten.upsample_nearest2d.vec", x, None, scales)
        c.add("aten.upsample_nearest2d.vec", x, out, None)
        c.add("aten.upsample_nearest2d.default", x, [int(s * n) for s, n in zip(scales, x.shape[2:])], *scales)
        c.add("aten.upsample_bilinear2d.default", x, out, align, tolerance="max")
        c.add("aten.upsample_bilinear2d.vec", x, None, align, scales, tolerance="max")
        c.add("aten.upsample_bilinear2d.vec", x, out, align, None, tolerance="max")
        c.add("aten.upsample_bilinear2d.default", x.double(), out, align, tolerance="max")


# ---- reductions and norms ---------------------------------------------------------------------------------------------

DIMS = [[0], [1], [-1], [0, 2], [1, 2], [0, 1, 2]]


@group
def reduction(c):
    x, n = c.randn(3, 4, 5), nans(c, c.randn(3, 4, 5))
    ints = c.randint(-9, 9, 3, 4, 5)
    for dims in DIMS + [None, []]:
        for keep in (False, True):
            for t in (x, n, ints, x.double(), c.bools(3, 4, 5), ints.to(torch.int8)):
                c.add("aten.sum.dim_IntList", t, dims, keep, tolerance="max")
            c.add("aten.sum.dim_IntList", ints, dims, keep, dtype=torch.float32, tolerance="max")
            for t in (x, n, x.double()):
                c.add("aten.mean.dim", t, dims, keep, tolerance="max")
                for correction in (None, 0, 1, 2, 1.5):
                    c.add("aten.var.correction", t, dims, correction=correction, keepdim=keep, tolerance="max")
            for t in (x, n, ints, c.bools(3, 4, 5)):
                c.add("aten.amax.default", t, dims or [], keep)
                c.add("aten.amin.default", t, dims or [], keep)
    for t in (x, ints, c.bools(5), c.randn(), c.randn(0)):
        c.add("aten.sum.default", t, tolerance="max")
    for t in (x, c.randn(), c.randn(0)):
        c.add("aten.mean.default", t, tolerance="max")
    c.add("aten.mean.default", ints, dtype=torch.float32, tolerance="max")
    c.add("aten.mean.dim", c.randn(0, 3), [0], tolerance="max")
    c.add("aten.sum.dim_IntList", c.randn(0, 3), [0], tolerance="max")
    c.add("aten.var.correction", c.randn(1, 3), [0], tolerance="max")
    for t in (x, n, ints, c.randint(0, 2, 7, 9)):
        c.add("aten.argmax.default", t)
        for dim in (0, 1, -1):
            c.add("aten.argmax.default", t, dim)
            c.add("aten.argmax.default", t, dim, True)


@group
def normalization(c):
    for shape, dim in [((3, 7), 1), ((3, 7), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((5,), 0), ((), 0), ((2, 0), 1), ((4, 1000), 1)]:
        for name in ("softmax", "log_softmax"):
            for t in (c.randn(*shape) * 5, c.randn(*shape, dtype=torch.float64)):
                tolerance = "max" if name == "log_softmax" else 4e-6
                c.add(f"aten._{name}.default", t, dim, False, tolerance=tolerance)
                c.add(f"aten.{name}.int", t, dim, tolerance=tolerance)
    c.add("aten.softmax.int", c.randint(0, 5, 2, 3), 1, dtype=torch.float32, tolerance=2e-6)
    c.add("aten._softmax.default", torch.tensor([[0.0, -INF, 1.0], [INF, 1.0, 2.0], [NAN, 0.0, 1.0]]), 1, False, tolerance=2e-6)
    for shape in ((2, 3, 4, 5), (2, 3), (2, 3, 7), (1, 3, 2, 2, 2)):
        for affine in (True, False):
            w, b = (c.randn(3), c.randn(3)) if affine else (None, None)
            mean, var, eps = c.randn(3), c.randn(3).abs() + 0.1, c.pick(1e-5, 1e-3)
            x = c.randn(*shape)
            c.add("aten.batch_norm.default", x, w, b, mean, var, False, 0.1, eps, True, tolerance="max")
            c.add("aten._native_batch_norm_legit_no_training.default", x, w, b, mean, var, 0.1, eps, tolerance="max")
    for shape, n in [((4, 6), 1), ((2, 3, 5), 2), ((2, 3, 5), 1), ((7,), 1)]:
        for affine in (True, False):
            last = shape[len(shape) - n:]
            w, b = (c.randn(*last), c.randn(*last)) if affine else (None, None)
            eps = c.pick(1e-5, 1e-6)
            c.add("aten.native_layer_norm.default", c.randn(*shape), list(last), w, b, eps, tolerance="max")
            c.add("aten.layer_norm.default", c.randn(*shape), list(last), w, b, eps, tolerance="max")
    for shape, groups in [((2, 6, 4, 5), 3), ((2, 6), 2), ((1, 4, 9), 4), ((2, 4, 3, 3), 1)]:
        for affine in (True, False):
            ch = shape[1]
            w, b = (c.randn(ch), c.randn(ch)) if affine else (None, None)
            hw = 1
            for s in shape[2:]:
                hw *= s
            c.add("aten.native_group_norm.default", c.randn(*shape), w, b, shape[0], ch, hw, groups, 1e-5, tolerance="max")
            c.add("aten.group_norm.default", c.randn(*shape), groups, w, b, 1e-5, tolerance="max")


# ---- views, copies, creation --------------------------------------------------------------------------------------------

@group
def view(c):
    x = c.randn(2, 3, 4, 5)
    for size in ([6, 20], [2, -1], [120], [-1, 5], [2, 3, 2, 2, 5], [1, 2, 1, 60, 1]):
        c.add("aten.view.default", x, size)
        c.add("aten.reshape.default", x.permute(0, 2, 3, 1), size)
        c.add("aten._unsafe_view.default", x, size)
    c.add("aten.view.default", c.randn(1), [])
    c.add("aten.view.default", c.randn(0, 3), [3, 0, 2])
    c.add("aten.reshape.default", c.randn(), [1, 1])
    for a, b in ((0, -1), (1, 2), (1, -1), (2, 2)):
        c.add("aten.flatten.using_ints", x, a, b)
    c.add("aten.flatten.using_ints", c.randn())
    c.add("aten.unflatten.int", x, 2, [2, -1])
    c.add("aten.unflatten.int", x, -1, [5, 1, 1])
    for dims in ([0, 2, 3, 1], [3, 2, 1, 0], [-1, 0, 1, 2]):
        c.add("aten.permute.default", x, dims)
    for a, b in ((1, 2), (-1, 0), (3, 3)):
        c.add("aten.transpose.int", x, a, b)
    for t in (c.randn(3, 4), c.randn(3), c.randn()):
        c.add("aten.t.default", t)
    c.add("aten.expand.default", c.randn(3, 1), [3, 4])
    c.add("aten.expand.default", c.randn(3, 1), [2, -1, 4])
    c.add("aten.expand.default", c.randn(), [2, 2])
    c.add("aten.expand_as.default", c.randn(3, 1), c.randn(2, 3, 4))
    c.add("aten.view_as.default", x, c.randn(6, 20))
    for dim in (0, 2, -1, 4, -5):
        c.add("aten.unsqueeze.default", x, dim)
    y = c.randn(1, 3, 1, 2, 1)
    for dim in (0, 1, 2, -1):
        c.add("aten.squeeze.dim", y, dim)
    c.add("aten.squeeze.dims", y, [0, 1, -1])
    c.add("aten.squeeze.default", y)
    for args in ((0,), (2, 1, 3), (2, -3, -1), (3, 0, 5, 2), (3, 1, 2**63 - 1, 3), (1, 2, 1), (2, -100, 100), (0, None, None)):
        c.add("aten.slice.Tensor", x, *args)
    for dim, i in ((0, 1), (2, -1), (-1, 4)):
        c.add("aten.select.int", x, dim, i)
    c.add("aten.alias.default", x)
    c.add("aten.detach.default", x)
    c.add("aten.as_strided.default", c.randn(1, 6, 1, 1), [1, 6, 1, 1], [6, 1, 6, 6])
    c.add("aten.as_strided.default", x, [6, 20], [20, 1])
    c.add("aten.channel_shuffle.default", c.randn(2, 6, 3, 4), 3)
    c.add("aten.channel_shuffle.default", c.randn(1, 8, 3), 2)
    c.add("aten.pixel_shuffle.default", c.randn(2, 8, 3, 4), 2)
    c.add("aten.pixel_shuffle.default", c.randn(9, 2, 2), 3)
    for chunks, dim in ((2, 1), (3, 2), (5, 0), (2, -1)):
        c.add("aten.chunk.default", x, chunks, dim)
    for size, dim in ((2, 1), (3, 2), (5, -1), (9, 0)):
        c.add("aten.split.Tensor", x, size, dim)
    c.add("aten.split_with_sizes.default", x, [1, 3, 0], 2)
    c.add("aten.split_with_sizes.default", x, [2, 1], 1)


@group
def copying(c):
    x = c.randn(2, 3, 4)
    for t in (x, x.permute(2, 0, 1), c.randint(0, 9, 3), c.bools(2)):
        c.add("aten.clone.default", t)
        c.add("aten.contiguous.default", t)
        c.add("aten.lift_fresh_copy.default", t)
        c.add("aten.dropout.default", t, 0.5, False)
        c.add("aten.feature_dropout.default", t, 0.5, False)
        c.add("aten.fill.Scalar", t, 3)
        c.add("aten.fill.Tensor", t, torch.tensor(2.5) if t.is_floating_point() else torch.tensor(1))
        for name in ("zeros_like", "ones_like"):
            c.add(f"aten.{name}.default", t)
            c.add(f"aten.{name}.default", t, dtype=torch.float64)
        c.add("aten.full_like.default", t, 2)
    c.add("aten.copy.default", x, c.randn(4))
    c.add("aten.copy.default", x, c.randint(0, 9, 3, 1))
    for dim in (0, 1, -1):
        c.add("aten.cat.default", [x, x, x], dim)
        c.add("aten.stack.default", [x, x + 1], dim)
    c.add("aten.cat.default", [c.randn(2, 3), c.randn(4, 3), c.randn(0)])
    c.add("aten.cat.default", [c.randn(2, 3), c.randint(0, 9, 2, 3), c.bools(1, 3)])
    c.add("aten.stack.default", [c.randn(), c.randn()], -1)
    for pad in ([1, 2], [1, 0, 0, 3], [-1, 1], [-1, -1, 2, -1], [0, 0, 0, 0, 1, 1]):
        c.add("aten.constant_pad_nd.default", x, pad)
        c.add("aten.constant_pad_nd.default", x, pad, 2.5)
        c.add("aten.constant_pad_nd.default", c.randint(0, 9, 2, 3, 4), pad, 7)
        c.add("aten.pad.default", x, pad, "constant", -1.0)
    c.add("aten.pad.default", x, [1, 2])
    for mode in ("reflect", "replicate", "circular"):
        c.add("aten.pad.default", x, [2, 1], mode)
        c.add("aten.pad.default", c.randn(1, 2, 4, 5), [2, 1, 3, 0], mode)
    for dims in ([0], [1, 2], [-1], []):
        c.add("aten.flip.default", x, dims)
    for dtype in (None, torch.float64, torch.int32):
        c.add("aten.full.default", [2, 3], 4, dtype=dtype)
        c.add("aten.zeros.default", [2, 3], dtype=dtype)
        c.add("aten.ones.default", [3], dtype=dtype)
        c.add("aten.arange.default", 5, dtype=dtype)
        c.add("aten.arange.start", 2, 7, dtype=dtype)
        c.add("aten.scalar_tensor.default", 3, dtype=dtype)
    c.add("aten.full.default", [2], 1.5)
    c.add("aten.full.default", [], True)
    c.add("aten.arange.start_step", 1, 10, 3)
    c.add("aten.arange.start_step", 5, -5, -2)
    c.add("aten.arange.start_step", 0.0, 1.0, 0.1, tolerance=1e-6)
    c.add("aten.arange.default", 2.5)
    w = c.randn(7, 3)
    c.add("aten.embedding.default", w, c.randint(0, 7, 2, 5))
    c.add("aten.embedding.default", w, c.randint(0, 7, 4, dtype=torch.int32), 2)
    c.add("aten.embedding.default", w, torch.tensor(3))
    for dim in (0, 1, -1):
        c.add("aten.index_select.default", x, dim, torch.tensor([1, 0, 1]))
    c.add("aten.index_select.default", x, 0, torch.tensor(1))


@group
def indexing(c):
    x = c.randn(4, 5, 6)
    for t in (x, x.permute(2, 0, 1), c.randint(-9, 9, 3, 4, 5)):
        for dim in (0, 1, -1):
            shape = [max(1, s - 1) for s in t.shape]
            shape[dim] = 7
            index = c.randint(0, t.shape[dim], *shape)
            c.add("aten.gather.default", t, dim, index)
            src = (c.randn(*shape) * 9).to(t.dtype)
            c.add("aten.scatter_add.default", t, dim, index, src, tolerance="max")
            few = c.randint(0, t.shape[dim], *[1 if i == dim % 3 else s for i, s in enumerate(shape)])
            c.add("aten.scatter.src", t, dim, few, src)
            c.add("aten.scatter.value", t, dim, index, 3)
    c.add("aten.gather.default", torch.tensor(2.5), 0, torch.tensor([0, 0]))
    c.add("aten.gather.default", x, 1, c.randint(0, 5, 2, 3, 1, dtype=torch.int32))
    c.add("aten.scatter.value", c.randint(0, 9, 5), 0, torch.tensor([1, 3]), -1)
    i, j, k = torch.tensor([1, -1, 0]), torch.tensor([[2], [-5]]), c.randint(-6, 6, 2, 3)
    for name in ("aten.index.Tensor", "aten._unsafe_index.Tensor"):
        for indices in ([i], [None, i], [None, None, k], [i, i], [i, None, i], [None, j, k], [i, i.view(3, 1), k[:, :1].view(2, 1, 1)], [i, None, i], [torch.tensor(2)],
                        [None, torch.tensor(2), k], [i[:0]]):
            c.add(name, x, indices)
    c.add("aten.index.Tensor", x.permute(1, 2, 0), [None, i, i])
    c.add("aten.index.Tensor", c.randint(0, 9, 7), [i.int()])
    for accumulate in (False, True):
        c.add("aten.index_put.default", x, [torch.tensor([2, 0])], c.randn(5, 6), accumulate, tolerance="max")
        c.add("aten.index_put.default", x, [None, torch.tensor([2, -1]), torch.tensor([0, 1])], c.randn(4, 2), accumulate, tolerance="max")
        c.add("aten.index_put.default", x, [torch.tensor([1, 2]), None, torch.tensor([0, 1])], c.randn(2, 5), accumulate, tolerance="max")
        c.add("aten.index_put.default", x, [torch.tensor([1, 2])], torch.tensor(1.5), accumulate, tolerance="max")
    c.add("aten.index_put.default", c.randint(0, 9, 5), [torch.tensor([1, 1, 3])], c.randint(0, 9, 3), True)
    for dim, size, step in ((0, 2, 1), (1, 3, 2), (-1, 6, 4), (2, 0, 1)):
        c.add("aten.unfold.default", x, dim, size, step)
    for offset, d0, d1 in ((0, 0, 1), (1, 1, 2), (-2, -1, 0), (3, 0, -1), (9, 0, 1)):
        c.add("aten.diagonal.default", x, offset, d0, d1)


@group
def order(c):
    nan = torch.tensor([1.0, NAN, 3.0, -0.0, 0.0, -INF, NAN, INF, 2.0])
    distinct = torch.randperm(60, generator=c.generator).float().view(3, 4, 5)
    for t in (distinct, distinct.permute(2, 0, 1), distinct.to(torch.int32), distinct.double()):
        for dim in (0, 1, -1):
            for down in (False, True):
                c.add("aten.topk.default", t, 2, dim, down)
                c.add("aten.sort.default", t, dim, down)
                c.add("aten.argsort.default", t, dim, down)
                c.add("aten.sort.stable", t, stable=True, dim=dim, descending=down)
                c.add("aten.argsort.stable", t, stable=True, dim=dim, descending=down)
    for t in (nan, c.randint(0, 4, 30), c.bools(9), c.randint(0, 4, 30).to(torch.uint8)):
        for down in (False, True):
            c.add("aten.sort.stable", t, stable=True, descending=down)
        c.add("aten.max.dim", t, 0)
        c.add("aten.min.dim", t, 0, True)
        if t.dtype != torch.bool:
            c.add("aten.argmin.default", t)
    for t in (c.randn(3, 4, 5), c.randn(3, 4, 5, dtype=torch.float64), c.randint(-9, 9, 3, 4, 5), c.randn(3, 4, 5).permute(2, 1, 0)):
        for dim in (0, 1, -1):
            for keep in (False, True):
                c.add("aten.max.dim", t, dim, keep)
                c.add("aten.min.dim", t, dim, keep)
                c.add("aten.argmin.default", t, dim, keep)
                c.add("aten.prod.dim_int", t, dim, keep, tolerance="max")
                c.add("aten.any.dim", t, dim, keep)
                c.add("aten.all.dim", t, dim, keep)
            c.add("aten.cumsum.default", t, dim, tolerance="max")
            c.add("aten.cumprod.default", t, dim, tolerance="max")
        c.add("aten.cumsum.default", t, 1, dtype=torch.float64, tolerance="max")
        c.add("aten.prod.dim_int", t, 0, dtype=torch.float64, tolerance="max")
        c.add("aten.prod.default", t, tolerance="max")
    for t in (c.bools(3, 4), c.randint(0, 2, 3, 4), c.randint(0, 2, 3, 4).to(torch.uint8), torch.tensor(NAN), c.randn(2, 0), c.randint(100, 127, 4).to(torch.int8)):
        c.add("aten.any.default", t)
        c.add("aten.all.default", t)
        c.add("aten.prod.default", t)
        c.add("aten.cumsum.default", t, 0)
        c.add("aten.any.dims", t)
        c.add("aten.all.dims", t)
        if t.dim() > 1:
            c.add("aten.any.dims", t, [0, 1], True)
            c.add("aten.all.dims", t, [-1])
            c.add("aten.any.dim", t, 1)


@group
def attention(c):
    name = "aten.scaled_dot_product_attention.default"
    flash = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    for batch, l, s, e, ev in (((2, 3), 5, 5, 8, 8), ((1, 2), 4, 7, 16, 16), ((3,), 5, 6, 4, 6), ((), 3, 4, 4, 4), ((2, 2, 2), 3, 3, 4, 4)):
        q, k, v = c.randn(*batch, l, e), c.randn(*batch, s, e), c.randn(*batch, s, ev)
        masked = c.bools(l, s)
        masked[1] = False
        c.add(name, q, k, v, tolerance="max")
        c.add(name, q, k, v, is_causal=True, tolerance="max")
        c.add(name, q, k, v, scale=0.3, tolerance="max")
        c.add(name, q, k, v, masked, tolerance="max")
        c.add(name, q, k, v, c.randn(l, s), tolerance="max")
        c.add(name, q.double(), k.double(), v.double(), tolerance="max")
        if len(batch) == 2:
            c.add(name, q, k, v, c.randn(batch[0], 1, 1, s), tolerance="max")
            c.add(flash, q, k, v, tolerance="max")
            c.add(flash, q, k, v, 0.0, True, tolerance="max")
            c.add(flash, q, k, v, attn_mask=c.randn(l, s), scale=0.2, tolerance="max")
    c.add(name, c.randn(2, 6, 5, 4), c.randn(2, 2, 7, 4), c.randn(2, 2, 7, 4), enable_gqa=True, tolerance="max")
    c.add(name, c.randn(1, 4, 5, 4), c.randn(1, 2, 5, 4), c.randn(1, 2, 5, 4), is_causal=True, enable_gqa=True, tolerance="max")
    as_dtype(c, name, c.randn(1, 2, 5, 4), torch.bfloat16, c.randn(1, 2, 5, 4), c.randn(1, 2, 5, 4))
    c[-1] = (*c[-1][:3], 0.05)  # eager rounds the weights before it multiplies by the values
    for n in ("aten._fused_rms_norm.default", "aten.rms_norm.default"):
        for t in (c.randn(3, 4, 5), c.randn(3, 4, 5, dtype=torch.float64), c.randn(3, 4, 5) * 1e-4):
            tolerance = "max"
            c.add(n, t, [5], None, None, tolerance=tolerance)
            c.add(n, t, [5], c.randn(5, dtype=t.dtype), 1e-6, tolerance=tolerance)
            c.add(n, t, [4, 5], c.randn(4, 5, dtype=t.dtype), 1e-5, tolerance=tolerance)
        as_dtype(c, n, c.randn(3, 8) * 1e-3, torch.bfloat16, [8], None, None)


@group
def product(c):
    for dtype in (torch.float32, torch.float64, torch.int64):
        def r(*sizes):
            return c.randint(-9, 9, *sizes) if dtype == torch.int64 else c.randn(*sizes, dtype=dtype)
        v, u, m, n, b, d = r(5), r(5), r(4, 5), r(5, 6), r(3, 4, 5), r(3, 5, 6)
        c.add("aten.dot.default", v, u, tolerance="max")
        c.add("aten.mv.default", m, v, tolerance="max")
        c.add("aten.outer.default", v, r(4), tolerance="max")
        c.add("aten.inner.default", m, r(2, 5), tolerance="max")
        c.add("aten.inner.default", b, v, tolerance="max")
        c.add("aten.inner.default", b, r(), tolerance="max")
        c.add("aten.tensordot.default", b, d, [2], [1], tolerance="max")
        c.add("aten.tensordot.default", b, r(5, 4, 2), [1, 2], [1, 0], tolerance="max")
        c.add("aten.tensordot.default", v, u, [], [], tolerance="max")
        for kwargs in ({}, {"beta": 2, "alpha": 3}, {"beta": 0}, {"alpha": -1}):
            c.add("aten.addmv.default", r(4), m, v, **kwargs, tolerance="max")
            c.add("aten.addr.default", r(5, 4), v, r(4), **kwargs, tolerance="max")
            c.add("aten.baddbmm.default", r(3, 4, 6), b, d, **kwargs, tolerance="max")
            c.add("aten.baddbmm.default", r(6), b, d, **kwargs, tolerance="max")
            c.add("aten.addbmm.default", r(4, 6), b, d, **kwargs, tolerance="max")
        for equation, operands in [
                ("ij,jk->ik", (m, n)), ("bij,bjk->bik", (b, d)), ("bij,bjk", (b, d)), ("ij->ji", (m,)), ("ij->", (m,)), ("ij->j", (m,)),
                ("i,j->ij", (v, u)), ("i,i->", (v, u)), ("ii->i", (r(4, 4),)), ("ii", (r(4, 4),)), ("ij,ij->ij", (m, m)),
                ("bhqd,bhkd->bhqk", (r(2, 3, 4, 5), r(2, 3, 6, 5))), ("bhqk,bhkd->bqhd", (r(2, 3, 4, 6), r(2, 3, 6, 5))),
                ("...ij,...jk->...ik", (b, d)), ("...i,i->...", (b, v)), ("i...,i...->...", (r(3, 4), r(3, 1))), ("...ij->...ji", (b,)),
                ("ij,jk,kl->il", (m, n, r(6, 2))), ("i,ij,j", (r(4), m, v)), ("ab,cd->acbd", (m, n)), ("iji,j->i", (r(4, 5, 4), v)),
                ("bn,anm,bm->ba", (r(3, 4), r(2, 4, 5), r(3, 5))), ("ij,jk->k", (m, n)), ("a b, b c -> a c", (m, n))]:
            c.add("aten.einsum.default", equation, list(operands), tolerance="max")
        c.add("aten.einsum.default", "ij,jk,kl->il", [m, n, r(6, 2)], path=[1, 2, 0, 1], tolerance="max")
    as_dtype(c, "aten.einsum.default", "ij,jk->ik", torch.bfloat16, [c.randn(4, 5), c.randn(5, 6)])
    c[-1] = (*c[-1][:3], 0.05)


@group
def spread(c):
    nan = torch.tensor([[1.0, NAN], [INF, -INF], [2.0, 3.0]])
    x, d = c.randn(3, 4, 5), c.randn(3, 4, 5, dtype=torch.float64)
    for t in (x, d, x.permute(2, 0, 1), c.randn(1, 7)):
        for v in ("std", "var"):
            for dim in ([0], [1], [-1, 0], None):
                for keep in (False, True):
                    for correction in (0, 1, 2.5):
                        if v == "std":
                            c.add("aten.std.correction", t, dim, correction=correction, keepdim=keep, tolerance="max")
                        c.add(f"aten.{v}_mean.correction", t, dim, correction=correction, keepdim=keep, tolerance="max")
                    for unbiased in (False, True):
                        c.add(f"aten.{v}.dim", t, dim, unbiased, keep, tolerance="max")
            c.add(f"aten.{v}.default", t, tolerance="max")
            c.add(f"aten.{v}.default", t, False, tolerance="max")
        for p in (2, 1, 0, 3, 0.5, INF, -INF):
            for dim in ([0], [0, -1]):
                c.add("aten.linalg_vector_norm.default", t, p, dim, True, tolerance="max")
                c.add("aten.norm.ScalarOpt_dim", t, p, dim, tolerance="max")
            c.add("aten.linalg_vector_norm.default", t, p, tolerance="max")
            c.add("aten.norm.Scalar", t, p, tolerance="max")
        c.add("aten.norm.ScalarOpt_dim", t, None, [0], tolerance="max")
        c.add("aten.logsumexp.default", t * 50, [0], tolerance="max")
        c.add("aten.logsumexp.default", t, [0, -1], True, tolerance="max")
        c.add("aten.max.default", t)
        c.add("aten.min.default", t)
        c.add("aten.count_nonzero.dim_IntList", (t > 0) * t, [0])
    c.add("aten.linalg_vector_norm.default", x, 2, None, False, dtype=torch.float64, tolerance="max")
    c.add("aten.logsumexp.default", nan, [1])
    c.add("aten.logsumexp.default", torch.tensor([[-INF, -INF]]), [1])
    c.add("aten.logsumexp.default", c.randint(-3, 9, 4, 5), [0], tolerance="max")
    c.add("aten.std.correction", torch.full((4, 6), 3.0), [1], tolerance="max")
    c.add("aten.max.default", nan)
    c.add("aten.min.default", c.randint(-9, 9, 20))
    c.add("aten.max.default", torch.tensor(2.5))
    c.add("aten.count_nonzero.dim_IntList", c.bools(3, 4), [0, 1])
    for t in (x, torch.full((2, 3), -INF), torch.tensor([[0.0, -INF], [-INF, -INF]])):
        c.add("aten._safe_softmax.default", t, -1, tolerance="max")
        c.add("aten._safe_softmax.default", t, 0, torch.float64, tolerance="max")
    # Rows of -inf are looked for before the conversion: -1e300 is none, and gives NaN in float32.
    below = torch.tensor([[-INF, -INF], [-1e300, -1e300], [-1e300, 1.0], [-INF, -1e300], [1.0, 2.0]], dtype=torch.float64)
    for t, dtype in ((below, torch.float32), (below.T, torch.float32), (below, torch.float16), (c.randint(-3, 9, 4, 5), torch.float32),
                     (torch.tensor([[-INF, -INF], [-1e5, -1e5]]), torch.float16), (torch.tensor([[-INF, -INF], [-INF, 3.0]]).half(), torch.float32)):
        c.add("aten._safe_softmax.default", t, -1, dtype, tolerance="max")
        c.add("aten._safe_softmax.default", t, 0, dtype, tolerance="max")
    for t in (c.randn(2, 3, 4), c.randn(2, 3, 4, 5)):
        c.add("aten.instance_norm.default", t, None, None, None, None, True, 0.1, 1e-5, False, tolerance="max")
        c.add("aten.instance_norm.default", t, c.randn(3), c.randn(3), None, None, True, 0.1, 1e-5, False, tolerance="max")


@group
def rearranging(c):
    x, ints = c.randn(2, 3, 4), c.randint(0, 9, 2, 3)
    for t in (x, x.permute(2, 0, 1), c.randint(-9, 9, 2, 3, 4)):
        for by in ([1, 1, 1], [2, 1, 3], [2, 2, 2], [3, 1, 1, 2], [0, 1, 1]):
            c.add("aten.repeat.default", t, by)
            c.add("aten.tile.default", t, by)
        c.add("aten.tile.default", t, [2])
        for dim in (None, 0, 1, -1):
            c.add("aten.repeat_interleave.self_int", t, 3, dim)
        c.add("aten.repeat_interleave.self_int", t, 1, 0)
        for shifts, dims in (([1], []), ([-2], []), ([1], [0]), ([1, -2], [1, -1]), ([7, 0], [0, 1])):
            c.add("aten.roll.default", t, shifts, dims)
        for diagonal in (0, 1, -2, 9):
            c.add("aten.tril.default", t, diagonal)
            c.add("aten.triu.default", t, diagonal)
        for offset, d0, d1 in ((0, -2, -1), (1, 0, 2), (-2, -1, 0), (0, 1, 3)):
            c.add("aten.diag_embed.default", t, offset, d0, d1)
        c.add("aten.select_scatter.default", t, t.select(1, 0).contiguous() + 1, 1, 1)
        c.add("aten.select_scatter.default", t, t.select(-1, 0).contiguous() + 1, -1, -1)
        for dim, start, end, step in ((0, None, None, 1), (1, 1, None, 1), (-1, 0, -1, 1), (2, 0, 9, 2), (2, 1, 2, 1), (1, 1, 1, 1)):
            src = t[(slice(None),) * (dim % 3) + (slice(start, end, step),)].contiguous() + 1
            c.add("aten.slice_scatter.default", t, src, dim, start, end, step)
        for n in (0, 1, 2):
            c.add("aten.diff.default", t, n)
            c.add("aten.diff.default", t, n, 0)
        c.add("aten.diff.default", t, 1, 1, t, t + 1)
        c.add("aten.zero.default", t)
        for other in (c.randn(2), ints, c.bools(2), c.randn(2, dtype=torch.float64)):
            c.add("aten.type_as.default", t, other)
            c.add("aten.to.other", t, other)
        for dtype in (torch.float64, torch.int32, torch.float32):
            c.add("aten.to.dtype_layout", t, dtype=dtype)
            c.add("aten.to.device", t, torch.device("cpu"), dtype)
        for name in ("zeros", "ones"):
            c.add(f"aten.new_{name}.default", t, [2, 3])
            c.add(f"aten.new_{name}.default", t, [4], dtype=torch.int32)
        c.add("aten.new_full.default", t, [2, 3], 2)
        c.add("aten.new_full.default", t, [2], 1.5, dtype=torch.float64)
        c.add("aten.index_fill.int_Scalar", t, 1, torch.tensor([1, 0]), 3)
        c.add("aten.index_fill.int_Scalar", t, -1, torch.tensor([-1]), 3)
        index = torch.tensor([1, 0])
        c.add("aten.index_copy.default", t, 1, index, t.narrow(1, 0, 2).contiguous() * 2)
        c.add("aten.index_add.default", t, 1, torch.tensor([1, 1]), t.narrow(1, 0, 2).contiguous(), tolerance="max")
        c.add("aten.index_add.default", t, 1, index, t.narrow(1, 0, 2).contiguous(), alpha=2, tolerance="max")
        index = c.randint(0, t.shape[1], t.shape[0], 7, t.shape[2])
        c.add("aten.take_along_dim.default", t, index, 1)
        c.add("aten.take_along_dim.default", t, index[:1], 1)
        c.add("aten.take_along_dim.default", t, index - 5, 1)  # modulo the dim
        c.add("aten.take_along_dim.default", t, c.randint(0, 24, 2, 3))
        c.add("aten.narrow.default", t, 1, 1, 1)
        c.add("aten.narrow.default", t, -1, -2, 2)
        for source, to in (([0], [2]), ([0, 1], [1, 2]), ([-1, 0], [0, 1])):
            c.add("aten.movedim.intlist", t, source, to)
        c.add("aten.movedim.int", t, 0, -1)
        c.add("aten.numpy_T.default", t)
        c.add("aten.mT.default", t)
        c.add("aten.ravel.default", t)
        c.add("aten.reshape_as.default", t, c.randn(4, 6))
        for dim in (0, -1):
            c.add("aten.unbind.int", t, dim)
            c.add("aten.unsafe_split.Tensor", t, 2, dim)
            for sections in (1, 2, 5):
                c.add("aten.tensor_split.sections", t, sections, dim)
    c.add("aten.diff.default", c.bools(3, 9))
    c.add("aten.unbind.int", c.randn(40, 2))
    c.add("aten.pixel_unshuffle.default", c.randn(2, 3, 4, 6), 2)
    c.add("aten.pixel_unshuffle.default", c.randn(1, 6, 6), 3)
    for indexing in ("ij", "xy"):
        c.add("aten.meshgrid.indexing", [c.randn(3), c.randn(4), c.randn(2)], indexing=indexing)
        c.add("aten.meshgrid.indexing", [c.randint(0, 9, 3), c.randint(0, 9, 4)], indexing=indexing)
    c.add("aten.meshgrid.default", [c.randn(3), c.randn(4)])
    c.add("aten.one_hot.default", ints, 9)
    c.add("aten.one_hot.default", torch.tensor(2), 4)
    edges = torch.tensor([-1.0, 0.0, 0.0, 2.5])
    for right in (False, True):
        for t in (c.randn(3, 4), torch.tensor([0.0, -1.0, 2.5, 9.0, NAN, INF, -INF]), c.randint(-2, 4, 9)):
            c.add("aten.bucketize.Tensor", t, edges, right=right)
            c.add("aten.searchsorted.Tensor", edges, t, right=right)
        c.add("aten.bucketize.Tensor", c.randn(5), edges, out_int32=True, right=right)
        c.add("aten.searchsorted.Tensor", c.randn(2, 3, 6).sort().values, c.randn(2, 3, 4), right=right)
    c.add("aten.searchsorted.Tensor", edges, c.randn(5), side="right")
    for t in (c.randn(4, 6), c.randn(2, 6, 3)):
        c.add("aten.glu.default", t, 1, tolerance=ULPS * 3)
    c.add("aten.glu.default", c.randn(4, 6, dtype=torch.float64), 0, tolerance=F64)
    as_dtype(c, "aten.glu.default", c.randn(4, 6), torch.bfloat16)
    for dtype in (None, torch.float64, torch.int64):
        c.add("aten.eye.default", 3, dtype=dtype)
        c.add("aten.eye.m", 3, 5, dtype=dtype)
        c.add("aten.linspace.default", -1.5, 7, 9, dtype=dtype, tolerance="max")
        c.add("aten.linspace.default", 3, 0, 4, dtype=dtype, tolerance="max")
    c.add("aten.linspace.default", 3, 9, 1)
