"""Cases of batch norm in training, and of the gradients that networks over images need.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import torch

from cases import F64, ULPS, group, special


@group
def pointwise_gradients(c):
    """Of float64, of special values, of half-wide floats."""
    x = special()
    x = x[~x.isnan()]
    rows = [("threshold_backward", 0.0, 0, (0.0,)), ("threshold_backward", 0.0, 0, (1,)), ("hardtanh_backward", 0.0, 0, (-1, 1.5)),
            ("hardtanh_backward", 0.0, 0, (0.0, 6.0)), ("hardswish_backward", ULPS, F64, ()), ("hardsigmoid_backward", 0.0, 0, ()),
            ("silu_backward", "max", "max", ()), ("mish_backward", "max", "max", ()), ("leaky_relu_backward", 0.0, 0, (0.1, False)),
            ("leaky_relu_backward", 0.0, 0, (0.2, True))]
    for name, single, double, numbers in rows:
        name = f"aten.{name}.default"
        c.add(name, c.randn(3, 41), c.randn(3, 41) * 3, *numbers, tolerance=single)
        c.add(name, c.randn(9, dtype=torch.float64), c.randn(9, dtype=torch.float64) * 2, *numbers, tolerance=double)
        c.append((name, (c.randn(17), c.randn(17) * 2, *numbers), {"_through": torch.bfloat16}, 0.01))
        c.add(name, c.randn(5, 1), c.randn(4, 1, 3), *numbers, tolerance=single)
        if single == 0.0 or name.startswith("aten.hardswish"):
            c.add(name, c.randn(x.numel()), x, *numbers, tolerance=single)
    for result in (True, False):
        for numbers in ((1, 1, 1), (0.5, 2.0, 3.0)):
            c.add("aten.elu_backward.default", c.randn(3, 40), *numbers, result, c.randn(3, 40), tolerance=ULPS * 4)
            c.add("aten.elu_backward.default", c.randn(9, dtype=torch.float64), *numbers, result, c.randn(9, dtype=torch.float64), tolerance=F64)


def output_size(size, kernel, stride, padding, dilation):
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


@group
def convolution_gradients(c):
    for i in range(60):
        nd, transposed, groups = c.pick(1, 2, 2), c.pick(True, False, False), c.pick(1, 1, 2, 3)
        n, depthwise = c.pick(1, 2, 3), c.pick(True, False, False)
        ic, oc = groups * c.pick(1, 2, 5), groups * c.pick(1, 3, 4, 17)
        if depthwise:
            groups = ic = oc = c.pick(3, 8, 17)
        kernel, stride, padding, dilation = c.ints(nd, 1, 3), c.ints(nd, 1, 3), c.ints(nd, 0, 2), c.ints(nd, 1, 2)
        size = [c.pick(5, 7, 8, 12) for _ in range(nd)]
        extra = [0] * nd
        if transposed:
            extra = [c.random.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
            out = [(s - 1) * t - 2 * p + d * (k - 1) + e + 1 for s, t, p, d, k, e in zip(size, stride, padding, dilation, kernel, extra)]
        else:
            out = [output_size(*v) for v in zip(size, kernel, stride, padding, dilation)]
        if min(out) < 1:
            continue
        dtype = c.pick(torch.float32, torch.float32, torch.float64)
        g, x = c.randn(n, oc, *out, dtype=dtype), c.randn(n, ic, *size, dtype=dtype)
        w = c.randn(*((ic, oc // groups) if transposed else (oc, ic // groups)), *kernel, dtype=dtype)
        mask = [c.pick(True, True, False) for _ in range(3)]
        mask[1] |= mask[2] or not any(mask)  # eager gives it with the bias's, asked for or not
        c.add("aten.convolution_backward.default", g, x, w, [oc], stride, padding, dilation, transposed, extra, groups, mask, tolerance="max")
    g, x, w = c.randn(2, 4, 3, 4, 5), c.randn(2, 2, 5, 6, 7), c.randn(4, 2, 3, 3, 3)
    c.add("aten.convolution_backward.default", g, x, w, [4], [1, 1, 1], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1, [True, True, True],
          tolerance="max")


@group
def pool_gradients(c):
    """By what the forward rows give."""
    for i in range(24):
        batch = (c.pick(1, 2), c.pick(1, 3, 5)) if i % 4 else (c.pick(1, 3),)
        size, kernel = c.ints(2, 5, 13), c.ints(2, 1, 4)
        stride = c.pick(kernel, c.ints(2, 1, 3), [1, 1])
        padding = [c.random.randint(0, k // 2) for k in kernel]
        ceil, x = c.pick(True, False), c.randn(*batch, *size, dtype=c.pick(torch.float32, torch.float32, torch.float64))
        dilation = c.pick([1, 1], [1, 1], [2, 1]) if min(size) > 8 else [1, 1]
        y, indices = torch.ops.aten.max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil)
        c.add("aten.max_pool2d_with_indices_backward.default", c.randn(*y.shape, dtype=x.dtype), x, kernel, stride, padding, dilation, ceil, indices,
              tolerance="max")
        include, divisor = c.pick(True, False), c.pick(None, None, 3)
        y = torch.ops.aten.avg_pool2d(x, kernel, stride, padding, ceil, include, divisor)
        c.add("aten.avg_pool2d_backward.default", c.randn(*y.shape, dtype=x.dtype), x, kernel, stride, padding, ceil, include, divisor, tolerance="max")
        for out in ([1, 1], [c.random.randint(1, 15), c.random.randint(1, 6)], size):
            c.add("aten._adaptive_avg_pool2d_backward.default", c.randn(*batch, *out, dtype=x.dtype), x, tolerance="max")
        y, indices = torch.ops.aten.adaptive_max_pool2d(x, [3, 4])
        c.add("aten.adaptive_max_pool2d_backward.default", c.randn(*y.shape, dtype=x.dtype), x, indices, tolerance="max")


@group
def resampling_gradients(c):
    for scales in ((2.0, 2.0), (3.0, 2.0), (1.5, 0.7), (1.0, 4.0)):
        for shape in ((2, 3, 5, 7), (1, 1, 6, 4)):
            out = [int(shape[2] * scales[0]), int(shape[3] * scales[1])]
            for dtype in (torch.float32, torch.float64):
                g = c.randn(*shape[:2], *out, dtype=dtype)
                given = c.pick((None, None), scales)
                c.add("aten.upsample_nearest2d_backward.default", g, out, list(shape), *given, tolerance="max")
                for align in (True, False):
                    c.add("aten.upsample_bilinear2d_backward.default", g, out, list(shape), align, *given, tolerance="max")


@group
def unsafe_index_put(c):
    """What the gradient of a bilinear resampling is made of where torch decomposes it."""
    x = c.randn(3, 4, 5)
    for accumulate in (True, False):
        index = c.randint(0, 4, 7) if accumulate else torch.tensor([3, 0, 2])
        n = index.numel()
        c.add("aten._unsafe_index_put.default", x, [None, index], c.randn(3, n, 5), accumulate, tolerance="max")
        c.add("aten._unsafe_index_put.default", x, [None, None, index], c.randn(3, 4, n), accumulate, tolerance="max")


@group
def batch_norm_in_training(c):
    """Rows that write nothing; test_training.py has the others."""
    for shape in ((4, 6), (3, 5, 7), (2, 5, 4, 3), (2, 3, 2, 3, 4)):
        for affine in (True, False):
            for dtype in (torch.float32, torch.float64):
                ch = shape[1]
                w, b = (c.randn(ch, dtype=dtype), c.randn(ch, dtype=dtype)) if affine else (None, None)
                mean, var, x = c.randn(ch, dtype=dtype), c.randn(ch, dtype=dtype) ** 2 + 0.1, c.randn(*shape, dtype=dtype)
                eps, momentum = c.pick(1e-5, 1e-3), c.pick(0.1, 0.3)
                for training in (True, False):
                    c.add("aten._native_batch_norm_legit_functional.default", x, w, b, mean, var, training, momentum, eps, tolerance="max")
                if affine:  # what it returns needs them
                    c.add("aten._batch_norm_with_update_functional.default", x, w, b, mean, var, momentum, eps, tolerance="max")
                c.add("aten._native_batch_norm_legit.no_stats", x, w, b, True, momentum, eps, tolerance="max")
                c.add("aten.native_batch_norm.default", x, w, b, None, None, True, momentum, eps, tolerance="max")
                c.add("aten.batch_norm.default", x, w, b, None, None, True, momentum, eps, False, tolerance="max")
                g = c.randn(*shape, dtype=dtype)
                for training in (True, False):
                    mask = [True, affine, affine] if training else [True, affine and c.pick(True, False), affine]
                    c.add("aten.native_batch_norm_backward.default", g, x, w, mean, var, mean * 0.9, var.rsqrt(), training, eps, mask, tolerance="max")
                    if affine:
                        c.add("aten.batch_norm_backward.default", g, x, w, mean, var, mean * 0.9, var.rsqrt(), training, eps, mask,
                              torch.empty(0, dtype=torch.uint8), tolerance="max")
    x = c.randn(4, 3, 5)
    for low in (torch.bfloat16, torch.float16):
        c.append(("aten._native_batch_norm_legit.no_stats", (x, c.randn(3), c.randn(3), True, 0.1, 1e-5), {"_through": low}, 0.1))
        c.append(("aten.native_batch_norm_backward.default", (c.randn(4, 3, 5), x, c.randn(3), None, None, c.randn(3), c.randn(3) ** 2, True, 1e-5,
                                                                [True, True, True]), {"_through": low}, 0.05))
