"""Graphs as torch's AOTAutograd makes them, as fxcc.Graph over the C structures: nodes, types, open sizes, places.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import functools
import math
import operator
import re

import torch

from . import _core
from ._core import Graph
from ._symbol import Symbol

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8", torch.int16: "i16",
          torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool"}
MOST_DIMS = 8
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@functools.cache
def knows(target):
    """Whether fxcc has a row for the operator: "aten.relu.default"."""
    return Graph().create_node("call_function", target).operator is not None


# ---- values that tracing noted ------------------------------------------------------------------------------------------------


def value(node):
    return node.meta.get("val")


def hint(size):
    """The number a size had when the graph was traced."""
    return size if isinstance(size, int) else size.node.hint


def plain(val):
    """A tensor that fxcc can hold: dense or strided, on the CPU, of its dtypes."""
    return (isinstance(val, torch.Tensor) and val.dtype in DTYPES and val.device.type == "cpu" and val.layout == torch.strided
            and val.dim() <= MOST_DIMS and not val.is_quantized)


def memory_order(val):
    """The dims from the outermost in memory to the innermost, of a dense tensor that is not laid out row by row; else None."""
    sizes, strides = [hint(s) for s in val.shape], [hint(s) for s in val.stride()]
    if None in sizes or None in strides:
        return None

    def dense(order):
        step = 1
        for d in reversed(order):
            if sizes[d] != 1 and strides[d] != step:
                return False
            step *= sizes[d]
        return True
    rows = list(range(len(sizes)))
    order = sorted(rows, key=lambda d: (-strides[d], d))
    return None if dense(rows) or not dense(order) else order


def size_range(size, symbol):
    """(least, most) that torch says of a symbol; least None: it may be negative; most None: no end."""
    known = size.node.shape_env.var_to_range.get(symbol)
    if known is None:
        return None, None
    least, most = (int(end) if end.is_Integer else None for end in (known.lower, known.upper))
    return (least if least is not None and least >= 0 else None), (most if most is not None and most < 2**63 - 1 else None)


def leaves(tree):
    """What the arguments of a node hold, lists, tuples, dicts and slices opened."""
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    elif isinstance(tree, dict):
        yield from leaves(list(tree.values()))
    elif isinstance(tree, slice):
        yield from leaves((tree.start, tree.stop, tree.step))
    else:
        yield tree


def size_of(leaf):
    """The SymInt that an argument is, as itself or as the node that computes it; else None."""
    val = value(leaf) if isinstance(leaf, torch.fx.Node) else leaf
    return val if isinstance(val, torch.SymInt) else None


def is_random(node):
    """Whether a node draws random numbers. Attention only does with dropout, though torch marks it."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    if "scaled_dot_product" not in str(target):
        return True
    names = [a.name for a in target._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    return given.get("dropout_p", 0) != 0


def in_rows(sizes, strides):
    """Whether strides are those of a dense tensor that lies row by row."""
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if not isinstance(size, int) or not isinstance(stride, int) or size != 1 and stride != step:
            return False
        step *= size
    return True


def spelled(node):
    """(operator, args, kwargs) of a node as fxcc has it. What sees, or writes, all elements of a tensor in order, though it says so by strides, is a view."""
    name = "_operator.getitem" if node.target is operator.getitem else str(node.target)
    if name in ("aten.as_strided.default", "prims.as_strided_scatter.default"):
        names = [a.name for a in node.target._schema.arguments]
        given = {**dict(zip(names, node.args)), **node.kwargs}
        of = given["self" if "self" in given else "input"]
        offset, base = given.get("storage_offset"), value(of)
        if (in_rows(given["size"], given["stride"]) and in_rows(base.shape, base.stride()) and math.prod(given["size"]) == base.numel()
                and (offset is None or offset == base.storage_offset())):
            return "aten.view.default", (given.get("src", of), list(value(node).shape)), {}
    return name, node.args, node.kwargs


def compilable(node):
    """Whether fxcc may have a form for a node: it knows the operator, and operands and results are such that it can hold."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return isinstance(node.args[0], torch.fx.Node) and compilable(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable or not knows(spelled(node)[0]):
        return False
    vals = [value(node)]
    for leaf in leaves((node.args, node.kwargs)):
        size = size_of(leaf)
        if size is not None:
            if any(size_range(size, s)[0] is None for s in size.node.expr.free_symbols):
                return False
        elif isinstance(leaf, SYMBOLIC) or (isinstance(leaf, torch.device) and leaf.type != "cpu"):
            return False
        elif isinstance(leaf, torch.fx.Node):
            vals.append(value(leaf))
    return all(plain(v) for v in leaves(vals) if v is not None)


# ---- places --------------------------------------------------------------------------------------------------------------------


@functools.cache
def module_path(text):
    """"L['self'].layer1[0].conv" as the model says it: "layer1.0.conv"."""
    text = re.sub(r"@\d+$", "", text)
    text = re.sub(r"\._modules\['([^']*)'\]|\[['\"]?([^'\"\]]*)['\"]?\]", lambda m: "." + (m[1] or m[2] or ""), text)
    parts = [p for p in text.split(".") if p]
    if parts and parts[0] == "L":
        parts = parts[2:]
    return ".".join(parts) or None


@functools.cache
def source_line(trace):
    """The innermost line outside of torch in a stack trace: "models/resnet.py:92"."""
    found = None
    for path, line in re.findall(r'File "([^"\n]*)", line (\d+)', trace):
        if "/torch/" not in path and not path.startswith("<"):
            found = "/".join(path.replace("\\", "/").split("/")[-2:]) + ":" + line
    return found


def place(node):
    """(module path, source line) of a node; None: unknown."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    module = next(reversed(stack.values()))[0] if stack else None
    trace = node.meta.get("stack_trace")
    return (module_path(module) if isinstance(module, str) else None), (source_line(trace) if trace else None)


# ---- graphs --------------------------------------------------------------------------------------------------------------------


class Builder:
    """A part of a graph of torch as a Graph. inputs and outputs are nodes of torch; constants: {node: tensor}, compiled in.

    The function takes the inputs, then a tensor of n x 0 for each symbol of `carried`: those that no size of an input is; an empty tensor when
    that is none at all.
    in_orders, out_orders: the order of dims in memory of inputs and outputs that are not laid out row by row: the function has them so.
    """

    def __init__(self, name, nodes, inputs, outputs, constants):
        self.graph = Graph(name)
        self.values = {}     # node of torch -> Node
        self.origin = {}     # name here -> node of torch
        self.symbols = {}    # sympy's symbol -> its range
        self.in_orders = [memory_order(value(node)) for node in inputs]
        self.out_orders = [memory_order(value(node)) for node in outputs]
        for node in nodes:
            for leaf in leaves((node.args, node.kwargs, value(node))):
                size = size_of(leaf)
                for s in leaf.shape if isinstance(leaf, torch.Tensor) else () if size is None else (size,):
                    self.size(s)
        shown = set()
        for node in inputs:
            for s in value(node).shape:
                self.size(s)
                shown.add(s.node.expr if isinstance(s, torch.SymInt) else None)
        self.carried = [s for s in self.symbols if s not in shown]
        for s, (least, most) in self.symbols.items():
            self.graph.set_symbol(str(s), least, most)
        for node, order in zip(inputs, self.in_orders):
            self.input(node, order)
        for s in self.carried:
            self.graph.placeholder(f"size_{s}", f"u8[{s}, 0]")
        if not inputs and not self.carried:  # the kind of an input is that of the outputs
            self.graph.placeholder("torch", "u8[0]")
        for node, order in zip(inputs, self.in_orders):
            if order:
                self.created(node, self.permute(node, [order.index(d) for d in range(len(order))]))
        for node, tensor in constants.items():
            self.graph.set_buffer(node.name, tensor)
            self.created(node, self.graph.get_attr(node.name, name=node.name))
        for node in nodes:
            self.call(node)
        results = tuple(self.created(node, self.permute(node, order)) if order else self.values[node] for node, order in zip(outputs, self.out_orders))
        self.graph.output(results)

    def size(self, size):
        """A size as an argument: a number, or an expression of symbols."""
        if isinstance(size, int):
            return size
        expr = size.node.expr
        if expr.is_Integer:
            return int(expr)
        for s in expr.free_symbols:
            if s not in self.symbols:
                self.symbols[s] = size_range(size, s)
        return Symbol(str(expr), "size")

    def argument(self, a):
        if isinstance(a, torch.fx.Node):
            return self.size(value(a)) if isinstance(value(a), torch.SymInt) else self.values[a]
        if isinstance(a, torch.SymInt):
            return self.size(a)
        if isinstance(a, (list, tuple)):
            items = [self.argument(x) for x in a]
            return items if isinstance(a, list) else tuple(items)
        return a

    def created(self, node, made):
        self.values[node] = made
        self.origin[made.name] = node
        return made

    def type(self, val, order=None):
        sizes = [self.size(s) for s in val.shape]
        return f"{DTYPES[val.dtype]}[{', '.join(str(sizes[d]) for d in order or range(len(sizes)))}]"

    def input(self, node, order):
        self.created(node, self.graph.placeholder(node.name, self.type(value(node), order)))

    def permute(self, node, dims):
        return self.graph.call_function("aten.permute.default", (self.values[node], list(dims)))

    def call(self, node):
        target, args, kwargs = spelled(node)
        args, kwargs = tuple(self.argument(a) for a in args), {key: self.argument(a) for key, a in kwargs.items()}
        val = value(node)
        said = self.type(val) if isinstance(val, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in val.shape) else None
        made = self.created(node, self.graph.call_function(target, args, kwargs, node.name, said))
        _core.set_location(made, *place(node))
