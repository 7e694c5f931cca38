"""How far Winograd's F(4,3) of runtime/cuda/conv2d_wino.h rounds: what tests allow, from its transforms and the channels, not from what it gave.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

A result is y = A^T [ sum over channels of (G w G^T) * (B^T x B) ] A, by element. Each line of B^T x and A^T m rounds at most four times in a row, a weight
once (G in double), the sum over the channels once a channel: R = ic + 17 roundings (Barabasz, Anderson, Soodhalter, Gregg, "Error Analysis and Improving the
Accuracy of Winograd Convolution for Deep Neural Networks", ACM TOMS 46, 2020, theorem 2). With u = 2^-24:

- worst: |error| <= R u / (1 - R u) times the same expression of absolute values (`bound`). With |w| <= W and |x| <= X that is at most
  WORST R u times 9 ic W X, where a plain sum has 9 ic u times that.
- usual: roundings that do not depend on one another, each at most u, so u / sqrt(3) in root mean square. The s-th of a sum's roundings is of s terms, so
  the sum over channels counts ic / 2; and noise takes the transforms' squares: `relative(ic)` = USUAL u sqrt((ic / 2 + 17) / 3) of the results' root mean
  square, for weights of mean 0. A plain sum has u sqrt(9 ic / 2 / 3). Layers one after the other add up as their squares do.
"""
from fractions import Fraction
import math

U = 2.0 ** -24
POINTS = [0, Fraction(5, 8), Fraction(-5, 8), Fraction(13, 8), Fraction(-13, 8)]  # and infinity


def times_root(p, root):
    """The polynomial p (lowest coefficient first) times (t - root)."""
    return [a - root * b for a, b in zip([0, *p], [*p, 0])]


def transforms():
    """A^T [4][6], G [6][3], B^T [6][6]: evaluation at the points, and the remainders by the other points."""
    a = [[p ** i for p in POINTS] + [Fraction(i == 3)] for i in range(4)]
    g, b = [], []
    for j, p in enumerate(POINTS):
        others, rest = [q for q in POINTS if q != p], [Fraction(1)]
        for q in others:
            rest = times_root(rest, q)
        b.append([*rest, Fraction(0)])
        g.append([p ** i / math.prod(p - q for q in others) for i in range(3)])
    every = [Fraction(1)]
    for p in POINTS:
        every = times_root(every, p)
    return a, [*g, [Fraction(0), Fraction(0), Fraction(1)]], [*b, every]


A, G, B = transforms()


def line(x, w):
    """Four results of six inputs and three weights."""
    m = [sum(g * v for g, v in zip(gs, w)) * sum(b * v for b, v in zip(bs, x)) for gs, bs in zip(G, B)]
    return [sum(a * v for a, v in zip(row, m)) for row in A]


def amplification(size):
    """By how much the transforms, measured by size, exceed what they cancel to: of each of a line's four results; both directions multiply."""
    return [float(sum(size([a]) * size(g) * size(b) for a, g, b in zip(row, G, B)) / size([1, 1, 1])) for row in A]


WORST = max(amplification(lambda v: sum(map(abs, v)))) ** 2
USUAL = sum(amplification(lambda v: sum(x * x for x in v))) / 4  # the mean of the squares; its two directions' roots multiply


def relative(ic):
    return USUAL * U * math.sqrt((ic / 2 + 17) / 3)


def plain(ic):
    return U * math.sqrt(9 * ic / 2 / 3)
