"""Philox 4x32-10 in NumPy, and torch.fx graphs run with its numbers: what fxcc's random operators give, said once more.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import numpy
import torch

M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85


def bits(n, stream, seed=0, call=0):
    """n numbers of 32 bits."""
    low = numpy.uint64(0xFFFFFFFF)
    i = numpy.arange(n, dtype=numpy.uint64)
    c = [i // numpy.uint64(4), numpy.full(n, stream, numpy.uint64), numpy.full(n, call & 0xFFFFFFFF, numpy.uint64), numpy.full(n, call >> 32, numpy.uint64)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = numpy.uint64(M0) * c[0], numpy.uint64(M1) * c[2]
        c = [(b >> numpy.uint64(32)) ^ c[1] ^ numpy.uint64(k0), b & low, (a >> numpy.uint64(32)) ^ c[3] ^ numpy.uint64(k1), a & low]
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return numpy.choose((i % numpy.uint64(4)).astype(numpy.int64), c)


def uniform(shape, stream, **state):
    n = int(numpy.prod(shape, dtype=numpy.int64))
    return torch.from_numpy(((bits(n, stream, **state) >> numpy.uint64(8)).astype(numpy.float32) * numpy.float32(2 ** -24)).reshape(shape))


class Interpreter(torch.fx.Interpreter):
    """Runs a graph of AOTAutograd; its random operators have these numbers, a stream each."""

    def run(self, *args, **kwargs):
        self.stream = 0
        return super().run(*args, **kwargs)

    def draw(self, shape):
        self.stream += 1
        return uniform(tuple(shape), self.stream - 1)

    def call_function(self, target, args, kwargs):
        aten = torch.ops.aten
        if target == aten.native_dropout.default:
            x, p, train = args
            assert train
            mask = self.draw(x.shape) < torch.tensor(1 - p, dtype=torch.float32)
            return x * mask * (1 / (1 - p)), mask
        if target == aten.bernoulli.p:
            return (self.draw(args[0].shape) < torch.tensor(args[1], dtype=torch.float32)).to(args[0].dtype)
        if target == aten.rand.default:
            return self.draw(args[0])
        if target == aten.rand_like.default:
            return self.draw(args[0].shape)
        tags = getattr(target, "tags", ())
        if target == aten._scaled_dot_product_flash_attention_for_cpu.default:
            assert args[3:4] in ((), (0.0,))  # no dropout: nothing is drawn
        else:
            assert torch.Tag.nondeterministic_seeded not in tags, target
        return super().call_function(target, args, kwargs)
