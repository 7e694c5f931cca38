"""Graphs of kernels for 16-bit floats, for test_emit.py. Inputs and results are float32, weights are of the type.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import math
import random

WORDS = {"f16": "torch.float16", "bf16": "torch.bfloat16"}


class Half:
    """A graph: lines are of the type where `T` stands, tensors are drawn in steps that both types have."""

    def __init__(self, name, kind, inputs):
        self.name, self.kind, self.rng, self.lines, self.tensors, self.outputs = f"{name}_{kind}", kind, random.Random(name), [], "", []
        self.inputs = []
        for i, (shape, word) in enumerate(inputs):
            dims = ", ".join(map(str, shape))
            n = math.prod(shape)
            values = [self.rng.random() < 0.7 for _ in range(n)] if word == "bool" else [self.draw(2) for _ in range(n)]
            self.inputs.append((word, shape, values))
            self.lines.append(f"%in{i} : {word}[{dims}] = placeholder[in{i}]")
        for i, (shape, word) in enumerate(inputs):
            if word == "f32":
                self.call(f"x{i} : T[{', '.join(map(str, shape))}] = _to_copy.default(%in{i}, dtype={WORDS[kind]})")

    def draw(self, reach):
        return self.rng.randint(-16 * reach, 16 * reach) / 16

    def call(self, line):
        left, right = line.replace(": T[", f": {self.kind}[").split(" = ", 1)
        op, args = right.split("(", 1)
        self.lines.append(f"%{left} = call_function[aten.{op}]({args}")

    def weight(self, name, *shape, reach=1):
        dims = ", ".join(map(str, shape))
        self.tensors += f"parameter {name} : {self.kind}[{dims}] = [{', '.join(str(self.draw(reach)) for _ in range(math.prod(shape)))}]\n"
        self.lines.append(f"%{name} : {self.kind}[{dims}] = get_attr[{name}]")

    def give(self, name, *shape):
        self.call(f"{name}_f : f32[{', '.join(map(str, shape))}] = _to_copy.default(%{name}, dtype=torch.float32)")
        self.outputs.append(f"%{name}_f")

    def case(self):
        graph = f'graph "g" imported\nmodule "" : M\n{self.tensors}\n' + "\n".join(self.lines) + f"\noutput(({', '.join(self.outputs)},))\n"
        return dict(name=self.name, inputs=self.inputs, graph=graph, exact=self.kind)


def convolutions(kind):
    """With a residual and an activation, in groups, of 1 x 1 and of each channel alone, transposed."""
    g = Half("convolutions", kind, [((2, 8, 9, 7), "f32")])
    g.weight("w", 8, 8, 3, 3)
    g.weight("b", 8)
    g.call("c : T[2, 8, 9, 7] = convolution.default(%x0, %w, %b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)")
    g.call("r : T[2, 8, 9, 7] = add.Tensor(%c, %x0)")
    g.call("a : T[2, 8, 9, 7] = relu.default(%r)")
    g.weight("w1", 12, 8, 1, 1)
    g.call("p : T[2, 12, 9, 7] = convolution.default(%a, %w1, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)")
    g.weight("wd", 12, 1, 3, 3)
    g.weight("bd", 12)
    g.call("d : T[2, 12, 5, 4] = convolution.default(%p, %wd, %bd, [2, 2], [1, 1], [1, 1], False, [0, 0], 12)")
    g.weight("wg", 6, 4, 3, 3)
    g.call("q : T[2, 6, 5, 4] = convolution.default(%d, %wg, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 3)")
    g.weight("wt", 6, 5, 2, 2)
    g.weight("bt", 5)
    g.call("t : T[2, 5, 10, 8] = convolution.default(%q, %wt, %bt, [2, 2], [0, 0], [1, 1], True, [0, 0], 1)")
    g.give("a", 2, 8, 9, 7)
    g.give("d", 2, 12, 5, 4)
    g.give("t", 2, 5, 10, 8)
    return g.case()


def products(kind):
    """Weights with a bias, a residual and activations (in cuBLASLt's epilogue and not), odd sizes, batches of computed matrices."""
    g = Half("products", kind, [((3, 5, 16), "f32"), ((3, 16, 7), "f32")])
    g.weight("w", 24, 16)
    g.weight("b", 24)
    g.call("l : T[3, 5, 24] = linear.default(%x0, %w, %b)")
    g.call("e : T[3, 5, 24] = gelu.default(%l)")
    g.weight("v", 16, 24)
    g.weight("c", 16)
    g.call("m : T[3, 5, 16] = linear.default(%e, %v, %c)")
    g.call("r : T[3, 5, 16] = add.Tensor(%m, %x0)")
    g.call("y : T[3, 5, 16] = relu.default(%r)")
    g.call("z : T[3, 5, 7] = bmm.default(%y, %x1)")
    g.weight("u", 3, 7)
    g.call("s : T[3, 5, 3] = linear.default(%z, %u, None)")
    g.give("y", 3, 5, 16)
    g.give("s", 3, 5, 3)
    return g.case()


def attention(kind):
    """With a mask that is data, numbers (also float32 ones) or bits, and causal."""
    shape = (2, 4, 9, 8)
    g = Half("attention", kind, [(shape, "f32"), (shape, "f32"), (shape, "f32"), ((2, 1, 9, 9), "bool"), ((2, 1, 9, 9), "f32")])
    sdpa = "scaled_dot_product_attention.default"
    g.call(f"a : T[2, 4, 9, 8] = {sdpa}(%x0, %x1, %x2, %x4)")
    g.call(f"b : T[2, 4, 9, 8] = {sdpa}(%a, %x1, %x2, None, 0.0, True)")
    g.call(f"c : T[2, 4, 9, 8] = {sdpa}(%b, %x1, %x2, %in3)")
    g.call(f"d : T[2, 4, 9, 8] = {sdpa}(%c, %x1, %x2, %in4)")
    for name in "abcd":
        g.give(name, *shape)
    return g.case()


def norms(kind):
    """Norms over rows, groups of channels; softmax of rows and of columns; pools, resampling, the mean of an image."""
    g = Half("norms", kind, [((2, 12, 6, 6), "f32"), ((5, 40), "f32")])
    g.weight("w", 40)
    g.weight("b", 40)
    g.call("l : T[5, 40] = layer_norm.default(%x1, [40], %w, %b, 1e-05)")
    g.call("s : T[5, 40] = softmax.int(%l, 1)")
    g.call("t : T[5, 40] = log_softmax.int(%l, 0)")
    g.weight("gw", 12)
    g.weight("gb", 12)
    g.call("n : T[2, 12, 6, 6] = group_norm.default(%x0, 3, %gw, %gb, 1e-05)")
    g.call("m : T[2, 12, 3, 3] = max_pool2d.default(%n, [3, 3], [2, 2], [1, 1])")
    g.call("a : T[2, 12, 5, 5] = avg_pool2d.default(%n, [2, 2], [1, 1])")
    g.call("u : T[2, 12, 6, 6] = upsample_nearest2d.vec(%m, [6, 6], None)")
    g.call("v : T[2, 12, 10, 10] = upsample_bilinear2d.vec(%a, [10, 10], False, None)")
    g.call("o : T[2, 12, 1, 1] = adaptive_avg_pool2d.default(%u, [1, 1])")
    g.call("h : T[2, 12] = mean.dim(%v, [2, 3])")
    for name, shape in dict(l=(5, 40), s=(5, 40), t=(5, 40), n=(2, 12, 6, 6), v=(2, 12, 10, 10), o=(2, 12, 1, 1), h=(2, 12)).items():
        g.give(name, *shape)
    return g.case()


CASES = [make(kind) for make in (convolutions, products, attention, norms) for kind in WORDS]
