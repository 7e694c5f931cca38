"""Convolutions large enough for the ways that pay only then, for test_emit.py: by Winograd's F(4,3), by im2col panels, a weight's gradient in parts. Weights are
products of two small tensors, so that the texts stay small.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import math
import random

import winograd as error
from graphs import eighths, graph_of


def numbers(values):
    return ", ".join(map(str, values))


def sixteenths(name, n):
    rng = random.Random(name)
    return [rng.randint(-16, 16) / 16 for _ in range(n)]


def winograd():
    """Two that follow each other, the second with a residual: 128 channels, tiles that are not full. Results may differ by six times what is usual (winograd.py):
    of the second's sums, and of the first's, where SiLU halves the mean square and has slopes up to 1.1; ReLU at the end halves it again."""
    noise = error.relative(128) * math.sqrt((1 + 2 * 1.1 ** 2) * 2)
    sizes = "f32[2, 128, 15, 16]"
    tensors = "".join(f"parameter {name} : f32[{shape}] = [{numbers(sixteenths(name, n))}]\n" for name, shape, n in
                      (("o", "128, 1, 1, 1", 128), ("i", "1, 128, 3, 3", 1152), ("b", "128", 128)))
    lines = ["o : f32[128, 1, 1, 1] = get_attr[o]", "i : f32[1, 128, 3, 3] = get_attr[i]", "b : f32[128] = get_attr[b]", "w : f32[128, 128, 3, 3] = mul.Tensor(%o, %i)",
             f"c : {sizes} = convolution.default(%x, %w, %b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)", f"s : {sizes} = silu.default(%c)",
             f"d : {sizes} = convolution.default(%s, %w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)", f"r : {sizes} = add.Tensor(%d, %x)", f"y : {sizes} = relu.default(%r)"]
    return dict(name="winograd", exact=6 * noise, calls={"fxrt_cuda_conv2d_wino(products": 2}, inputs=[("f32", (2, 128, 15, 16), sixteenths("x", 2 * 128 * 15 * 16))],
                graph=graph_of([("x", sizes)], lines, "%y", tensors=tensors))


def panels():
    """float16: a stride, a bias, and an activation that no epilogue of cuBLASLt has."""
    tensors = "".join(f"parameter {name} : f16[{shape}] = [{numbers(sixteenths(name, n))}]\n" for name, shape, n in
                      (("o", "64, 1, 1, 1", 64), ("i", "1, 64, 3, 3", 576), ("b", "64", 64)))
    lines = ["x : f16[8, 64, 32, 32] = _to_copy.default(%in0, dtype=torch.float16)", "o : f16[64, 1, 1, 1] = get_attr[o]", "i : f16[1, 64, 3, 3] = get_attr[i]",
             "b : f16[64] = get_attr[b]", "w : f16[64, 64, 3, 3] = mul.Tensor(%o, %i)",
             "c : f16[8, 64, 16, 16] = convolution.default(%x, %w, %b, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)", "s : f16[8, 64, 16, 16] = silu.default(%c)",
             "y : f32[8, 64, 16, 16] = _to_copy.default(%s, dtype=torch.float32)"]
    return dict(name="panels", exact="f16", calls={"fxrt_cuda_conv2d_half(products": 1}, inputs=[("f32", (8, 64, 32, 32), sixteenths("x", 8 * 64 * 32 * 32))],
                graph=graph_of([("in0", "f32[8, 64, 32, 32]")], lines, "%y", tensors=tensors))


def gradient():
    """Of few elements and many pixels. Its sums are exact in any order."""
    lines = ["all : (None, f32[4, 3, 3, 3], None) = convolution_backward.default(%g, %x, %w, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False])",
             "y : f32[4, 3, 3, 3] = getitem(%all, 1)"]
    shapes = (("g", (2, 4, 20, 21)), ("x", (2, 3, 20, 21)), ("w", (4, 3, 3, 3)))
    inputs = [("f32", shape, eighths(shape[0] * shape[1] * shape[2] * shape[3])) for _, shape in shapes]
    return dict(name="gradient", calls={"fxrt_cuda_conv2d_weight_grad_split(&desc": 1}, inputs=inputs,
                graph=graph_of([(name, f"f32[{numbers(shape)}]") for name, shape in shapes], lines, "%y"))


CASES = [winograd(), panels(), gradient()]
