"""The cases of losses and gradients (cases.py tells what a case is).

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import torch

from cases import F64, as_dtype, group, special

ULPS = 1e-6
SHAPES = ((), (1,), (7,), (3, 5), (2, 3, 4), (0, 3))
HALVES = (torch.float16, torch.bfloat16)


@group
def activation_gradients(c):
    def call(name, *args, tolerance=ULPS, **kwargs):
        c.add(f"aten.{name}.default", *args, tolerance=tolerance, **kwargs)

    x = special()
    for name, more in (("tanh_backward", ()), ("sigmoid_backward", ()), ("softplus_backward", (1.0, 20.0)), ("softplus_backward", (0.5, 3)),
                       ("softplus_backward", (-2, 4.5)), ("native_dropout_backward", (1.25,))):
        for s in SHAPES:
            call(name, c.randn(*s), c.bools(*s) if "dropout" in name else c.randn(*s), *more)
        call(name, c.randn(4, 6, dtype=torch.float64), c.bools(4, 6) if "dropout" in name else c.randn(4, 6, dtype=torch.float64), *more, tolerance=F64)
        for low in HALVES:
            as_dtype(c, f"aten.{name}.default", c.randn(4, 6), low, c.randn(4, 6), *more)
    call("tanh_backward", c.randn(60), x.tanh(), tolerance="max")
    call("sigmoid_backward", c.randn(60), x.sigmoid())
    call("tanh_backward", c.randn(3, 4), c.randn(4))
    for how in ("none", "tanh"):
        for s in SHAPES:
            call("gelu_backward", c.randn(*s), c.randn(*s) * 3, approximate=how, tolerance="max")
        call("gelu_backward", c.randn(5, 3, dtype=torch.float64), c.randn(5, 3, dtype=torch.float64), approximate=how, tolerance="max")
        for low in HALVES:
            as_dtype(c, "aten.gelu_backward.default", c.randn(4, 6) + 2, low, c.randn(4, 6).abs(), approximate=how)
    for s in SHAPES:
        v = c.randn(*s) * 4
        call("log_sigmoid_forward", v)
        call("log_sigmoid_backward", c.randn(*s), v, (-v.abs()).exp())
    call("log_sigmoid_forward", x[:20])
    for s, dim in (((4,), 0), ((3, 6), 1), ((3, 6), -1), ((2, 4, 3), 1), ((2, 0), 1)):
        v = c.randn(*s)
        call("glu_backward", c.randn(*s).narrow(dim, 0, s[dim] // 2).clone(), v, dim)
    call("glu_backward", c.randn(2, 3, dtype=torch.float64), c.randn(4, 3, dtype=torch.float64), 0, tolerance=1e-13)


@group
def losses(c):
    def call(name, *args, tolerance=2e-6, **kwargs):
        c.add(f"aten.{name}.default", *args, tolerance=tolerance, **kwargs)

    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-13)):
        for s in SHAPES + ((40, 33),):
            for reduction in (0, 1, 2):
                if 0 in s and reduction == 1:  # torch's own tracing divides by the number of elements
                    continue
                a, b = c.randn(*s, dtype=dtype), c.randn(*s, dtype=dtype)
                g = c.randn(*(s if reduction == 0 else ()), dtype=dtype)
                for name, more in (("mse_loss", ()), ("l1_loss", ()), ("smooth_l1_loss", (1.0,)), ("smooth_l1_loss", (0.3,)),
                                   ("huber_loss", (1.0,)), ("huber_loss", (0.4,))):
                    if name != "l1_loss":
                        call(f"{name}_backward", g, a, b, reduction, *more, tolerance=tolerance)
                        call(name, a, b, reduction, *more, tolerance=tolerance)
                p, t, w = torch.sigmoid(a * 3), torch.sigmoid(b), c.randn(*s, dtype=dtype).abs()
                call("binary_cross_entropy", p, t, None, reduction, tolerance="max")
                call("binary_cross_entropy_backward", g, p, t, None, reduction, tolerance=tolerance * 10)
                call("binary_cross_entropy", p, t, w, reduction, tolerance="max")
                call("binary_cross_entropy_backward", g, p, t, w, reduction, tolerance=tolerance * 10)
                call("binary_cross_entropy_with_logits", a * 5, t, None, None, reduction, tolerance="max")
                call("binary_cross_entropy_with_logits", a * 5, t, w, w + 1, reduction, tolerance="max")
    call("mse_loss", c.randn(3, 4), c.randn(3, 4))
    call("l1_loss", c.randn(5), c.randn(5), 1)
    ends = torch.tensor([0.0, 1.0, 0.5, 1e-30])
    call("binary_cross_entropy", ends, ends.flip(0), None, 0, tolerance="max")
    call("binary_cross_entropy_backward", torch.ones(4), ends, ends.flip(0), None, 0)
    for low in HALVES:
        for reduction in (0, 1, 2):
            a, b = c.randn(4, 6), c.randn(4, 6)
            for name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
                as_dtype(c, f"aten.{name}.default", a, low, b + 4, reduction)


@group
def likelihood(c):
    """Targets that are ignored, weights, no batch, images."""
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-13)):
        for s, n in (((6, 5), "nll_loss"), ((1, 3), "nll_loss"), ((4,), "nll_loss"), ((0, 4), "nll_loss"), ((2, 4, 3, 5), "nll_loss2d"),
                     ((1, 2, 1, 1), "nll_loss2d")):
            classes = s[0] if len(s) == 1 else s[1]
            place = (s[:1] + s[2:]) if len(s) > 1 else ()
            for reduction in (0, 1, 2):
                for ignore in (-100, 1):
                    for weight in (None, c.randn(classes, dtype=dtype).abs() + 0.5):
                        x = torch.log_softmax(c.randn(*s, dtype=dtype), 0 if len(s) == 1 else 1)
                        t = c.randint(0, classes, *place)
                        if place and t.numel() and ignore < 0:
                            t.view(-1)[0] = ignore
                        c.add(f"aten.{n}_forward.default", x, t, weight, reduction, ignore, tolerance=tolerance)
                        g = c.randn(*(place if reduction == 0 else ()), dtype=dtype)
                        total = torch.tensor(float(t.numel()) + 0.25, dtype=dtype)
                        c.add(f"aten.{n}_backward.default", g, x, t, weight, reduction, ignore, total, tolerance=tolerance)


@group
def softmax_gradients(c):
    for name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        for dtype in (torch.float32, torch.float64):
            for s, dims in (((5,), (0,)), ((3, 7), (0, 1, -1)), ((2, 3, 4), (0, 1, 2)), ((4, 65), (1,)), ((0, 3), (1,)), ((3, 0), (1,)), ((), (0,))):
                for dim in dims:
                    y = torch.softmax(c.randn(*s, dtype=dtype), dim)
                    y = y.log() if "log" in name else y
                    c.add(f"aten.{name}.default", c.randn(*s, dtype=dtype), y, dim, dtype, tolerance="max")
        for low in HALVES:
            y = torch.softmax(c.randn(4, 6), 1)
            c.append((f"aten.{name}.default", (c.randn(4, 6), y.log() if "log" in name else y, 1, low), {"_through": low}, 0.03))


@group
def norm_gradients(c):
    masks = ([True, True, True], [True, False, False], [False, True, True])
    for dtype in (torch.float32, torch.float64):
        for shape, last in (((4, 6), 1), ((2, 3, 5), 2), ((7,), 1), ((2, 3, 40), 1), ((0, 4), 1)):
            for mask in masks:
                size = list(shape[-last:])
                x, g = c.randn(*shape, dtype=dtype) * 2 + 1, c.randn(*shape, dtype=dtype)
                w, b = (c.randn(*size, dtype=dtype), c.randn(*size, dtype=dtype)) if mask[2] or mask[1] else (None, None)
                _, mean, rstd = torch.ops.aten.native_layer_norm(x, size, w, b, 1e-5)
                c.add("aten.native_layer_norm_backward.default", g, x, size, mean, rstd, w, b, mask, tolerance="max")
        for shape, groups in (((2, 6, 5), 3), ((3, 4, 2, 3), 2), ((2, 12), 2), ((1, 6, 3, 3), 1)):
            for mask in masks:
                n, channels = shape[:2]
                x, g = c.randn(*shape, dtype=dtype) * 2 + 1, c.randn(*shape, dtype=dtype)
                w = c.randn(channels, dtype=dtype) if mask[1] else None
                area = x.numel() // n // channels
                _, mean, rstd = torch.ops.aten.native_group_norm(x, w, None, n, channels, area, groups, 1e-5)
                c.add("aten.native_group_norm_backward.default", g, x, mean, rstd, w, n, channels, area, groups, mask, tolerance="max")


@group
def attention_gradients(c):
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for dtype in (torch.float32, torch.float64):
        for b, h, rows, keys, width in ((1, 1, 3, 3, 4), (2, 3, 5, 7, 8), (1, 2, 6, 6, 5)):
            for causal in (False, True):
                for masked in (False, True):
                    if causal and (masked or rows != keys):
                        continue
                    q, k, v = (c.randn(b, h, n, width, dtype=dtype) for n in (rows, keys, keys))
                    mask = c.randn(rows, keys, dtype=dtype) if masked else None
                    for scale in (None, 0.3):
                        y, sums = flash(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
                        c.add("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", c.randn(*y.shape, dtype=dtype), q, k, v,
                              y.contiguous(), sums, 0.0, causal, attn_mask=mask, scale=scale, tolerance="max")


@group
def gathered_gradients(c):
    for dtype in (torch.float32, torch.float64):
        for place in ((5,), (2, 4), (), (0,), (30,)):
            for padding in (-1, 2):
                for by_count in (False, True):
                    c.add("aten.embedding_dense_backward.default", c.randn(*place, 3, dtype=dtype), c.randint(0, 6, *place), 6, padding, by_count,
                          tolerance="max")
    c.add("aten.embedding_dense_backward.default", c.randn(4, 3), c.randint(0, 6, 4, dtype=torch.int32), 6, 0, False, tolerance="max")
    for dtype in (torch.float32, torch.float64, torch.int64):
        for sizes, dim, index in (((4, 5), 0, 2), ((4, 5), 1, -1), ((4, 5), -2, 0), ((3,), 0, 1), ((2, 3, 4), 1, 2)):
            part = c.randint(0, 9, *sizes).select(dim, 0).to(dtype)
            c.add("aten.select_backward.default", part, list(sizes), dim, index)
        for sizes, dim, start, end, step in (((7, 3), 0, 2, 6, 1), ((7, 3), 0, 0, 7, 2), ((7, 3), 0, -5, -1, 3), ((7, 3), 1, 1, 1 << 62, 1),
                                             ((7, 3), 0, 4, 2, 1), ((2, 9), -1, 1, 9, 4), ((4,), 0, 0, 4, 1)):
            part = c.randint(0, 9, *sizes)
            part = part[(slice(None),) * (dim % len(sizes)) + (slice(start, end, step),)].to(dtype)
            c.add("aten.slice_backward.default", part, list(sizes), dim, start, end, step)
