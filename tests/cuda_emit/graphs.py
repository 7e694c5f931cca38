"""The graphs of test_emit.py, as .fx texts.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import math


def graph(text, symbols="", tensors=""):
    """Lines `name : type = op(args)`, as they stand in a graph; the last one is the output."""
    return f'graph "g" imported\n{symbols}module "" : M\n{tensors}\n{text.strip()}\n'


def call(line):
    """"y : f32[2] = relu(x)" as a line of .fx."""
    left, right = line.split(" = ", 1)
    op, args = right.split("(", 1)
    return f"%{left} = call_function[{'_operator' if op == 'getitem' else 'aten'}.{op}]({args}"


def graph_of(inputs, lines, output, symbols="", tensors=""):
    text = "".join(f"%{name} : {kind} = placeholder[{name}]\n" for name, kind in inputs)
    text += "".join(call(line) + "\n" if "get_attr" not in line else f"%{line}\n" for line in lines)
    return graph(text + f"output(({output}))", symbols, tensors)


def eighths(n):
    """Values whose sums are exact in any order."""
    return [((7 * i) % 23 - 11) / 8 for i in range(n)]


def numbers(name, *shape):
    """A parameter of such values."""
    return f"parameter {name} : f32[{', '.join(map(str, shape))}] = [{', '.join(map(str, eighths(math.prod(shape))))}]\n"


CASES = [
    # Broadcast operands; more elements than a block, a last block that is not full.
    dict(name="pointwise", inputs=[("f32", (7, 1, 61)), ("f32", (5, 1)), ("f32", (61,))], graph=graph_of(
        [("x", "f32[7, 1, 61]"), ("y", "f32[5, 1]"), ("z", "f32[61]")],
        ["a : f32[7, 5, 61] = mul.Tensor(%x, %y)", "b : f32[7, 5, 61] = add.Tensor(%a, %z)", "c : f32[7, 5, 61] = relu.default(%b)",
         "d : f32[7, 5, 61] = sub.Tensor(%c, %a)"], "%c, %d")),
    # Everything in one index, 16 bytes at a time.
    dict(name="flat", inputs=[("f32", (4, 16, 33)), ("f32", (4, 16, 33))], graph=graph_of(
        [("x", "f32[4, 16, 33]"), ("y", "f32[4, 16, 33]")],
        ["a : f32[4, 16, 33] = add.Tensor(%x, %y)", "b : f32[4, 16, 33] = maximum.default(%a, %x)", "c : bool[4, 16, 33] = gt.Tensor(%b, %y)",
         "d : f32[4, 16, 33] = where.self(%c, %x, %b)"], "%d, %c")),
    dict(name="functions", exact=False, inputs=[("f32", (300,))], graph=graph_of(
        [("x", "f32[300]")],
        ["a : f32[300] = gelu.default(%x)", "b : f32[300] = sigmoid.default(%a)", "c : f32[300] = tanh.default(%b)", "d : f32[300] = exp.default(%c)",
         "e : f32[300] = erf.default(%x)", "f : f32[300] = silu.default(%e)", "g : f32[300] = sin.default(%x)", "h : f32[300] = pow.Tensor_Scalar(%d, 3)"],
        "%d, %f, %g, %h")),
    # Views: strides, offsets, negative steps.
    dict(name="views", inputs=[("f32", (2, 6, 5, 4))], graph=graph_of(
        [("x", "f32[2, 6, 5, 4]")],
        ["p : f32[2, 4, 6, 5] = permute.default(%x, [0, 3, 1, 2])", "s : f32[2, 4, 3, 5] = slice.Tensor(%p, 2, 0, 6, 2)",
         "f : f32[2, 4, 3, 5] = flip.default(%s, [1, 3])", "t : f32[2, 3, 4, 5] = transpose.int(%f, 1, 2)", "c : f32[2, 3, 20] = reshape.default(%t, [2, 3, 20])",
         "n : f32[2, 3, 20] = neg.default(%c)", "e : f32[4, 2, 3, 20] = expand.default(%n, [4, 2, 3, 20])", "g : f32[4, 2, 3, 20] = clone.default(%e)"],
        "%n, %g, %p")),
    dict(name="joins", inputs=[("f32", (3, 5)), ("f32", (3, 2)), ("f32", (1, 5))], graph=graph_of(
        [("x", "f32[3, 5]"), ("y", "f32[3, 2]"), ("z", "f32[1, 5]")],
        ["a : f32[3, 7] = cat.default([%x, %y], 1)", "b : f32[4, 5] = cat.default([%x, %z], 0)", "c : f32[5, 9] = constant_pad_nd.default(%a, [1, 1, 2, 0], 1.5)",
         "d : f32[2, 3, 5] = stack.default([%x, %x], 0)", "e : f32[6, 10] = repeat.default(%x, [2, 2])", "f : f32[3, 5] = roll.default(%x, [1], [1])"],
        "%b, %c, %d, %e, %f")),
    dict(name="integers", inputs=[("i64", (4, 9)), ("i32", (9,)), ("u8", (4, 9)), ("bool", (9,)), ("i64", (9,), [1, -2, 3, -4, 5, 7, -1, 2, 9])], graph=graph_of(
        [("x", "i64[4, 9]"), ("y", "i32[9]"), ("z", "u8[4, 9]"), ("m", "bool[9]"), ("n", "i64[9]")],
        ["a : i64[4, 9] = add.Tensor(%x, %y)", "b : u8[4, 9] = add.Tensor(%z, 200)", "c : bool[4, 9] = lt.Tensor(%x, %y)",
         "d : bool[4, 9] = logical_xor.default(%c, %m)", "e : i64[4, 9] = where.self(%d, %a, %x)", "f : i64[4, 9] = mul.Tensor(%e, %e)",
         "g : u8[4, 9] = bitwise_not.default(%b)", "h : f32[4, 9] = div.Tensor(%x, 3)", "i : i32[4, 9] = _to_copy.default(%h, dtype=torch.int32)",
         "j : bool[4, 9] = ge.Scalar(%z, 0)", "k : i64[4, 9] = clamp.default(%x, -20, 30)", "l : i64[4, 9] = remainder.Tensor(%x, %n)"], "%f, %g, %h, %i, %j, %k, %l")),
    dict(name="halves", inputs=[("f16", (5, 70)), ("f16", (70,))], graph=graph_of(
        [("x", "f16[5, 70]"), ("y", "f16[70]")],
        ["a : f16[5, 70] = mul.Tensor(%x, %y)", "b : f16[5, 70] = add.Tensor(%a, %y)", "c : f32[5, 70] = _to_copy.default(%b, dtype=torch.float32)",
         "d : f16[70, 5] = permute.default(%b, [1, 0])", "e : f16[70, 5] = clone.default(%d)"], "%c, %e")),
    dict(name="doubles", inputs=[("f64", (40,)), ("f32", (40,))], graph=graph_of(
        [("x", "f64[40]"), ("y", "f32[40]")],
        ["a : f64[40] = mul.Tensor(%x, %y)", "b : f64[40] = sqrt.default(%a)", "c : i64[40] = _to_copy.default(%y, dtype=torch.int64)"], "%b"), exact=True),
    dict(name="embedding", exact=False, inputs=[("i64", (2, 3), [0, 9, 4, 4, 1, 8])], graph=graph_of(
        [("i", "i64[2, 3]")], ["w : f32[10, 8] = get_attr[w]", "b : f32[8] = get_attr[b]", "e : f32[2, 3, 8] = embedding.default(%w, %i)",
                               "a : f32[2, 3, 8] = add.Tensor(%e, %b)", "g : f32[2, 3, 8] = gelu.default(%a)",
                               "p : f32[2, 8, 3] = permute.default(%g, [0, 2, 1])"], "%p, %g",
        tensors="parameter w : f32[10, 8] = all 0.25\nparameter b : f32[8] = [0.5, -0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n")),
    # An index outside is told by wait, and not told again.
    dict(name="outside", inputs=[("i64", (2,), [3, 10])], fails="embedding: index into the 10 of dim 0 of w: out of range", graph=graph_of(
        [("i", "i64[2]")], ["w : f32[10, 8] = get_attr[w]", "embedding : f32[2, 8] = embedding.default(%w, %i)"], "%embedding",
        tensors="parameter w : f32[10, 8] = all 0.25\n")),
    dict(name="gather", inputs=[("f32", (4, 5)), ("i64", (4, 3), [0, 4, 1, 2, 2, 0, 3, 3, 3, 1, 0, 4]), ("i64", (2,), [3, 0])], graph=graph_of(
        [("x", "f32[4, 5]"), ("i", "i64[4, 3]"), ("j", "i64[2]")],
        ["a : f32[4, 3] = gather.default(%x, 1, %i)", "b : f32[2, 5] = index_select.default(%x, 0, %j)", "c : f32[2, 5] = index.Tensor(%x, [%j])"],
        "%a, %b, %c")),
    dict(name="constants", inputs=[("f32", ())], graph=graph_of(
        [("x", "f32[]")],
        ["a : f32[] = add.Tensor(%x, 2.5)", "b : f32[3, 4] = full.default([3, 4], 7.0)", "c : f32[3, 4] = mul.Tensor(%b, %a)",
         "d : i64[10] = arange.default(10)", "e : i64[10] = mul.Tensor(%d, 3)"], "%a, %c, %e")),
    # A warp a row (its last round not full), sums over everything, columns, what depends on the order.
    dict(name="rows", exact=False, inputs=[("f32", (6, 33), eighths(198))], graph=graph_of(
        [("x", "f32[6, 33]")],
        ["a : f32[6] = sum.dim_IntList(%x, [1])", "b : f32[] = sum.default(%x)", "c : f32[33] = amax.default(%x, [0])", "d : f32[6, 33] = cumsum.default(%x, 1)",
         "e : i64[6] = argmax.default(%x, 1)", "f : f32[6] = var.correction(%x, [1])", "m : f32[6, 33] = mul.Tensor(%x, 0.5)",
         "g : f32[6, 33] = _softmax.default(%m, 1, False)", "h : (f32[6], i64[6]) = max.dim(%x, 1)", "i : f32[6] = getitem(%h, 0)", "j : i64[6] = getitem(%h, 1)"],
        "%a, %b, %c, %d, %e, %f, %g, %i, %j")),
    # NaN is the largest, its first place counts; minus infinity alone; -0 is 0.
    dict(name="rows_nan", inputs=[("f32", (4, 70), [math.nan if i in (75, 100) else -math.inf if i >= 210 else (-1) ** i * (i % 40) / 4 for i in range(280)])],
         graph=graph_of([("x", "f32[4, 70]")], ["a : f32[4] = amax.default(%x, [1])", "b : i64[4] = argmax.default(%x, 1)", "c : i64[4] = argmin.default(%x, 1)",
                                                "d : f32[4] = amin.default(%x, [1])", "e : bool[4, 70] = lt.Scalar(%x, -9.7)", "f : bool[4] = any.dim(%e, 1)"], "%a, %b, %c, %d, %f")),
    # A block a row; elements that cost much are kept in registers between passes.
    dict(name="rows_block", exact=False, inputs=[("f32", (3, 2500), eighths(7500)), ("f32", (2500,), eighths(2500))], graph=graph_of(
        [("x", "f32[3, 2500]"), ("w", "f32[2500]")],
        ["e : f32[3, 2500] = exp.default(%x)", "a : f32[3, 1] = sum.dim_IntList(%e, [1], True)", "b : f32[3, 1] = amax.default(%e, [1], True)",
         "q : f32[3, 2500] = div.Tensor(%e, %a)", "r : f32[3, 2500] = mul.Tensor(%q, %w)", "t : f32[3] = mean.dim(%r, [1])", "c : f32[3, 2500] = div.Tensor(%r, %b)",
         "d : i64[3] = argmin.default(%x, 1)", "f : f32[3, 2500] = mul.Tensor(%x, 0.25)", "l : f32[3, 2500] = _log_softmax.default(%f, 1, False)"],
        "%c, %t, %b, %d, %l")),
    dict(name="rows_types", inputs=[("i64", (5, 40)), ("u8", (5, 40)), ("f16", (5, 40), [(7 * i) % 23 - 11 for i in range(200)]), ("f64", (5, 40), eighths(200)),
                                    ("i32", (5, 40))], graph=graph_of(
        [("x", "i64[5, 40]"), ("u", "u8[5, 40]"), ("h", "f16[5, 40]"), ("d", "f64[5, 40]"), ("i", "i32[5, 40]")],
        ["a : i64[5] = sum.dim_IntList(%x, [1])", "b : i64[5] = argmax.default(%u, 1)", "c : u8[5] = amin.default(%u, [1])", "e : f16[5] = amax.default(%h, [1])",
         "f : f16[5] = sum.dim_IntList(%h, [1])", "g : f64[5] = sum.dim_IntList(%d, [1])", "j : i64[5] = argmin.default(%h, 1)", "k : i32[5] = amax.default(%i, [1])",
         "l : i64[5] = prod.dim_int(%x, 1)"], "%a, %b, %c, %e, %f, %g, %j, %k, %l")),
    # Few long rows in two launches: everything, columns, the middle of three dims; with a size that is open, and rows of several folds.
    dict(name="rows_split", exact=False, inputs=[("f32", (300, 110), eighths(33000)), ("f32", (1500, 20), eighths(30000)), ("f32", (3, 600, 7), eighths(12600))], graph=graph_of(
        [("x", "f32[300, 110]"), ("y", "f32[s0, 20]"), ("z", "f32[3, 600, 7]")],
        ["a : f32[] = sum.default(%x)", "b : f32[] = amax.default(%x)", "c : f32[20] = sum.dim_IntList(%y, [0])", "d : f32[20] = var.correction(%y, [0])",
         "e : f32[3, 7] = amin.default(%z, [1])", "f : f32[300, 110] = mul.Tensor(%x, %x)", "g : f32[] = mean.default(%f)", "h : f32[] = sqrt.default(%g)",
         "i : f32[20] = mul.Tensor(%c, 0.125)", "j : i64[] = argmax.default(%x)"], "%a, %b, %i, %d, %e, %h, %j",
        symbols="symbol s0 in [0, 5000]\n")),
    # A softmax's exponentials are float32 in registers: of a warp's rows and a block's, of rows of two dims.
    dict(name="rows_kept", exact=False, inputs=[("f16", (5, 70), [(7 * i) % 23 / 4 for i in range(350)]), ("f16", (2, 1500), [(7 * i) % 23 / 4 for i in range(3000)])],
         graph=graph_of([("x", "f16[5, 70]"), ("y", "f16[2, 1500]")],
                        ["a : f16[5, 70] = _softmax.default(%x, 1, False)", "b : f16[2, 1500] = _softmax.default(%y, 1, False)",
                         "c : f16[5, 70] = mul.Tensor(%a, 2.0)"], "%c, %b")),
    # Rows of several dims that are not one in memory: the threads share the dense one, or the longest.
    dict(name="rows_dims", exact=False, inputs=[("f32", (2, 3, 4, 20), eighths(480)), ("f32", (30, 40), eighths(1200))], graph=graph_of(
        [("x", "f32[2, 3, 4, 20]"), ("y", "f32[30, 40]")],
        ["a : f32[3] = sum.dim_IntList(%x, [0, 2, 3])", "b : f32[2, 20] = mean.dim(%x, [1, 2])", "p : f32[40, 30] = permute.default(%y, [1, 0])",
         "m : f32[40, 30] = mul.Tensor(%p, 2.0)", "s : f32[40, 30] = _softmax.default(%m, 1, False)", "v : f32[2, 4] = var.correction(%x, [1, 3])"], "%a, %b, %s, %v")),
    *[dict(name=f"rows_open{n}_{m}", exact=False, inputs=[("f32", (n, m), eighths(n * m))], graph=graph_of(
        [("x", "f32[s0, s1]")],
        ["a : f32[s0] = sum.dim_IntList(%x, [1])", "m : f32[s0, s1] = mul.Tensor(%x, 0.5)", "b : f32[s0, s1] = _softmax.default(%m, 1, False)",
         "c : f32[s1] = sum.dim_IntList(%x, [0])", "d : f32[] = sum.default(%x)", "e : i64[s0] = argmax.default(%x, 1)"], "%a, %b, %c, %d, %e",
        symbols="symbol s0 in [0, 5000]\nsymbol s1 in [1, 4000]\n"))
      for n, m in ((3, 1), (9, 300), (0, 5))],
    # More rows than a grid has blocks along y.
    dict(name="tall", inputs=[("f32", (70000, 4))], graph=graph_of(
        [("x", "f32[70000, 4]")], ["s : f32[70000, 3] = slice.Tensor(%x, 1, 1, 4)", "a : f32[70000, 3] = add.Tensor(%s, %s)"], "%a")),
    dict(name="deep", inputs=[("f32", (2, 3, 4, 3, 2))], graph=graph_of(
        [("x", "f32[2, 3, 4, 3, 2]")], ["p : f32[2, 3, 4, 3, 2] = permute.default(%x, [4, 3, 2, 1, 0])", "a : f32[2, 3, 4, 3, 2] = relu.default(%p)"], "%a")),
    # Open sizes: one block, several, and none.
    *[dict(name=f"open{n}", inputs=[("f32", (n, 5)), ("f32", (n, 3))], graph=graph_of(
        [("x", "f32[s0, 5]"), ("y", "f32[s0, 3]")],
        ["a : f32[s0, 8] = cat.default([%x, %y], 1)", "b : f32[s0, 8] = mul.Tensor(%a, 3)", "t : f32[8, s0] = permute.default(%b, [1, 0])",
         "c : f32[8, s0] = relu.default(%t)", "d : f32[8*s0] = reshape.default(%b, [sym(8*s0)])"], "%c, %d", symbols="symbol s0 in [0, 1000]\n"))
      for n in (1, 3, 700)],
    # Through tiles of shared memory: whole ones and edges, several outer loops, dense operands beside, two tiles, types of 1, 2 and 8 bytes.
    dict(name="transposed", inputs=[("f32", (2, 3, 40, 65)), ("f32", (2, 3, 65, 40)), ("f32", (65, 40))], graph=graph_of(
        [("x", "f32[2, 3, 40, 65]"), ("y", "f32[2, 3, 65, 40]"), ("z", "f32[65, 40]")],
        ["p : f32[2, 3, 65, 40] = permute.default(%x, [0, 1, 3, 2])", "a : f32[2, 3, 65, 40] = mul.Tensor(%p, %y)", "b : f32[2, 3, 65, 40] = add.Tensor(%a, %z)",
         "c : f32[2, 3, 65, 40] = sub.Tensor(%b, %p)"], "%c, %b")),
    dict(name="squares", inputs=[("f32", (64, 96)), ("f32", (64, 96))], graph=graph_of(
        [("x", "f32[64, 96]"), ("y", "f32[64, 96]")],
        ["p : f32[96, 64] = permute.default(%x, [1, 0])", "q : f32[96, 64] = permute.default(%y, [1, 0])", "a : f32[96, 64] = add.Tensor(%p, %q)",
         "r : f32[96, 64] = clone.default(%p)"], "%a, %r")),
    *[dict(name=f"transposed_{kind}", inputs=[(kind, (33, 50))], graph=graph_of(
        [("x", f"{kind}[33, 50]")], [f"p : {kind}[50, 33] = permute.default(%x, [1, 0])", f"c : {kind}[50, 33] = clone.default(%p)"], "%c"))
      for kind in ("u8", "f16", "i64")],
    *[dict(name=f"transposed_open{n}", inputs=[("f32", (2, n, 40))], graph=graph_of(
        [("x", "f32[2, s0, 40]")], ["p : f32[2, 40, s0] = permute.default(%x, [0, 2, 1])", "a : f32[2, 40, s0] = relu.default(%p)"], "%a", symbols="symbol s0 in [0, 1000]\n"))
      for n in (0, 1, 100)],
    # An image's few channels, and channels shuffled: no tiles, but neighbours write neighbours.
    dict(name="channels", inputs=[("f32", (2, 3, 30, 31)), ("f32", (2, 9, 2, 29))], graph=graph_of(
        [("x", "f32[2, 3, 30, 31]"), ("y", "f32[2, 9, 2, 29]")],
        ["p : f32[2, 30, 31, 3] = permute.default(%x, [0, 2, 3, 1])", "a : f32[2, 30, 31, 3] = relu.default(%p)",
         "q : f32[2, 9, 29, 2] = permute.default(%y, [0, 1, 3, 2])", "b : f32[2, 9, 58] = reshape.default(%q, [2, 9, 58])", "c : f32[2, 9, 58] = neg.default(%b)"], "%a, %c")),
    # More loops than axes: blocks along z count two of them, and neighbours are still read at once.
    dict(name="windows", inputs=[("f32", (4, 3, 5, 3, 8))], graph=graph_of(
        [("x", "f32[4, 3, 5, 3, 8]")], ["p : f32[4, 5, 3, 3, 8] = permute.default(%x, [0, 2, 1, 3, 4])", "s : f32[4, 5, 3, 2, 8] = slice.Tensor(%p, 3, 0, 2)",
                                       "a : f32[4, 5, 3, 2, 8] = relu.default(%s)"], "%a")),
    # Parts in one launch: of a roll over two dims, of concatenations, with an index that is data.
    dict(name="together", exact=False, inputs=[("f32", (2, 12, 14, 8)), ("f32", (2, 5)), ("i64", (3,), [4, 0, 2])], graph=graph_of(
        [("x", "f32[2, 12, 14, 8]"), ("y", "f32[2, 5]"), ("i", "i64[3]")],
        ["r : f32[2, 12, 14, 8] = roll.default(%x, [-3, 5], [1, 2])", "a : f32[2, 12, 14, 8] = add.Tensor(%r, %x)", "s : f32[2, 3] = index_select.default(%y, 1, %i)",
         "t : f32[2, 3] = sigmoid.default(%s)", "c : f32[2, 13] = cat.default([%t, %y, %y], 1)"], "%a, %c")),
    # An input that the run changes.
    dict(name="inplace", inputs=[("f32", (50,)), ("f32", (50,))], graph=graph_of(
        [("x", "f32[50]"), ("y", "f32[50]")], ["a : f32[50] = mul.Tensor(%x, %y)", "b : f32[50] = add_.Tensor(%x, %a)", "c : f32[50] = neg.default(%b)"], "%c")),
    # Batch norm and ReLU in front of convolutions, by these: with padding, which must not get the shift, with a sum that is split; beside it what another node
    # reads too, and a product. Then ReLU alone, a scale and a shift in front of convolutions by groups, of odd channels, strided.
    dict(name="conv_pre", exact=False, inputs=[("f32", (2, 4, 6, 5), eighths(240)), ("f32", (2, 6, 7, 5), eighths(420))], graph=graph_of(
        [("x", "f32[2, 4, 6, 5]"), ("x6", "f32[2, 6, 7, 5]")],
        [*[f"{w} : f32[{s}] = get_attr[{w}]" for w, s in (("w", "116, 4, 1, 1"), ("s", "1, 116, 1, 1"), ("t", "116, 1, 1"), ("w3", "5, 116, 3, 3"), ("w1", "8, 116, 1, 1"), ("b", "5"),
                                                          ("g3", "9, 2, 3, 3"), ("w5", "7, 6, 5, 5"), ("s6", "6, 1, 1"), ("t6", "1, 6, 1, 1"))],
         "c : f32[2, 116, 6, 5] = convolution.default(%x, %w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)",
         "m : f32[2, 116, 6, 5] = mul.Tensor(%c, %s)", "a : f32[2, 116, 6, 5] = add.Tensor(%m, %t)", "r : f32[2, 116, 6, 5] = relu.default(%a)",
         "y : f32[2, 5, 6, 5] = convolution.default(%r, %w3, %b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)",
         "z : f32[2, 8, 3, 3] = convolution.default(%r, %w1, None, [2, 2], [0, 0], [1, 1], False, [0, 0], 1)",
         "m2 : f32[2, 8, 3, 3] = mul.Tensor(%z, 0.5)", "r2 : f32[2, 8, 3, 3] = relu.default(%m2)",
         "p : f32[2, 6, 7, 5] = max_pool2d.default(%x6, [3, 3], [1, 1], [1, 1])", "q : f32[2, 6, 7, 5] = relu.default(%p)",
         "d : f32[2, 9, 4, 3] = convolution.default(%q, %g3, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 3)",
         "m6 : f32[2, 6, 7, 5] = mul.Tensor(%s6, %p)", "q6 : f32[2, 6, 7, 5] = relu.default(%m6)",
         "e : f32[2, 7, 7, 5] = convolution.default(%q6, %w5, None, [1, 1], [2, 2], [1, 1], False, [0, 0], 1)",
         "a6 : f32[2, 6, 7, 5] = add.Tensor(%p, %t6)", "u : f32[2, 6, 7, 5] = relu.default(%a6)",
         "f : f32[2, 9, 7, 5] = convolution.default(%u, %g3, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 3)"], "%y, %z, %r2, %c, %d, %e, %f",
        tensors=numbers("w", 116, 4, 1, 1) + numbers("s", 1, 116, 1, 1) + numbers("t", 116, 1, 1) + numbers("w3", 5, 116, 3, 3) + numbers("w1", 8, 116, 1, 1) + numbers("b", 5) +
                numbers("g3", 9, 2, 3, 3) + numbers("w5", 7, 6, 5, 5) + numbers("s6", 6, 1, 1) + "parameter t6 : f32[1, 6, 1, 1] = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]\n")),
    # A gain (a number, a constant by channel, the addition's) and an addition behind an activation, of groups, odd channels, 1 x 1; a gain alone.
    dict(name="conv_post", exact=False, inputs=[("f32", (2, 9, 6, 5), eighths(540)), ("f32", (1, 60, 4, 4), eighths(960))], graph=graph_of(
        [("x", "f32[2, 9, 6, 5]"), ("x2", "f32[1, 60, 4, 4]")],
        [*[f"{w} : f32[{s}] = get_attr[{w}]" for w, s in (("w3", "9, 3, 3, 3"), ("w1", "9, 9, 1, 1"), ("b", "9"), ("k", "9, 1, 1"), ("w60", "60, 60, 3, 3"))],
         "c : f32[2, 9, 6, 5] = convolution.default(%x, %w3, %b, [1, 1], [1, 1], [1, 1], False, [0, 0], 3)",
         "s : f32[2, 9, 6, 5] = silu.default(%c)", "m : f32[2, 9, 6, 5] = mul.Tensor(%s, 0.5)", "a : f32[2, 9, 6, 5] = add.Tensor(%x, %m)",
         "d : f32[2, 9, 6, 5] = convolution.default(%a, %w1, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)",
         "r : f32[2, 9, 6, 5] = relu.default(%d)", "n : f32[2, 9, 6, 5] = mul.Tensor(%r, %k)", "y : f32[2, 9, 6, 5] = add.Tensor(%n, %a)",
         "e : f32[1, 60, 4, 4] = convolution.default(%x2, %w60, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)",
         "g : f32[1, 60, 4, 4] = sigmoid.default(%e)", "z : f32[1, 60, 4, 4] = add.Tensor(%x2, %g, alpha=-2)",
         "f : f32[1, 60, 2, 2] = convolution.default(%x2, %w60, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)",
         "t : f32[1, 60, 2, 2] = tanh.default(%f)", "v : f32[1, 60, 2, 2] = mul.Tensor(%t, 3)"], "%y, %z, %v",
        tensors=numbers("w3", 9, 3, 3, 3) + numbers("w1", 9, 9, 1, 1) + numbers("b", 9) + numbers("k", 9, 1, 1) + numbers("w60", 60, 60, 3, 3))),
    # Sums of 1,044 terms in two parts, on tiles that are not full: with bias, residual and ReLU, and of another convolution beside it.
    dict(name="conv_split", exact=False, inputs=[("f32", (1, 116, 7, 5), eighths(4060)), ("f32", (1, 34, 7, 5), eighths(1190))], graph=graph_of(
        [("x", "f32[1, 116, 7, 5]"), ("z", "f32[1, 34, 7, 5]")],
        [*[f"{w} : f32[{s}] = get_attr[{w}]" for w, s in (("w", "34, 116, 3, 3"), ("b", "34"), ("v", "3, 116, 3, 3"))],
         "c : f32[1, 34, 7, 5] = convolution.default(%x, %w, %b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)",
         "a : f32[1, 34, 7, 5] = add.Tensor(%c, %z)", "r : f32[1, 34, 7, 5] = relu.default(%a)",
         "d : f32[1, 3, 4, 3] = convolution.default(%x, %v, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)"], "%r, %d",
        tensors=numbers("w", 34, 116, 3, 3) + numbers("b", 34) + numbers("v", 3, 116, 3, 3))),
    # Outputs that are inputs and weights.
    dict(name="passed", inputs=[("f32", (6,))], graph=graph_of(
        [("x", "f32[6]")], ["w : f32[3] = get_attr[w]", "v : f32[2, 3] = view.default(%x, [2, 3])"], "%v, %w, %x",
        tensors="parameter w : f32[3] = [1.0, 2.0, 3.0]\n")),
]
