"""A graph of torch cut into steps: parts that fxcc compiles, and parts that torch runs.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

Steps alternate. A node that fxcc takes is in the earliest even step that its operands allow, any other in the earliest odd one: no cut can make
a cycle, and there are as few steps as the longest chain of changes asks for. Views whose result leaves a compiled part are torch's: there
they cost nothing and share memory as they do in eager.
"""
import operator

import torch

from ._torch_graph import SYMBOLIC, compilable, is_random, leaves, value

VIEWS = {getattr(getattr(torch.ops.aten, name), overload) for name, overload in (
    ("view", "default"), ("t", "default"), ("permute", "default"), ("transpose", "int"), ("expand", "default"), ("slice", "Tensor"),
    ("select", "int"), ("unsqueeze", "default"), ("squeeze", "default"), ("squeeze", "dim"), ("squeeze", "dims"), ("alias", "default"),
    ("detach", "default"), ("diagonal", "default"), ("as_strided", "default"), ("unfold", "default"), ("split", "Tensor"),
    ("split_with_sizes", "default"), ("unbind", "int"))}
BEFORE = -1  # the step of what is there from the start


def is_view(node):
    return (node.args[0] if node.target is operator.getitem else node).target in VIEWS


def operands(node):
    return [leaf for leaf in leaves((node.args, node.kwargs)) if isinstance(leaf, torch.fx.Node)]


def draws(node):
    """Whether a value comes of a random operator."""
    return draws(node.args[0]) if node.target is operator.getitem else is_random(node)


class Step:
    """nodes in order; inputs: {node: the step that makes it}; outputs: nodes whose values go out. get_attr nodes are no inputs: each step reads its own."""

    def __init__(self, at, compiled):
        self.at, self.compiled = at, compiled
        self.nodes, self.inputs, self.outputs = [], {}, []


def is_size(node):
    return isinstance(value(node), SYMBOLIC)


def plan(graph, refused, random="fxcc"):
    """The steps of a torch.fx graph in order, and {result: the step that makes it}; refused: nodes that torch must run; random: who draws numbers."""
    nodes = [n for n in graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    result = next(n for n in graph.nodes if n.op == "output")
    takes = {n for n in nodes if n not in refused and not is_size(n) and compilable(n) and (random == "fxcc" or not draws(n))}
    outside, inside = set(operands(result)), set()  # whose values torch needs, fxcc needs
    for n in reversed(nodes):
        if n in outside and (n not in takes or is_view(n)):
            outside.update(operands(n))
        if n in takes and (n in inside or (n in outside and not is_view(n))):
            inside.update(m for m in operands(n) if not is_size(m))
            inside.add(n)
        elif n in inside:  # fxcc needs what torch must make
            outside.add(n)
            outside.update(operands(n))
    by_torch, by_fxcc, steps, drawn = {}, {}, {}, BEFORE
    for n in nodes:
        if n in outside and (n not in takes or is_view(n)):
            at = max([by_torch[m] if m in by_torch else by_fxcc.get(m, BEFORE) + (m in by_fxcc) for m in operands(n)], default=BEFORE)
            if is_random(n):  # in their order
                at = drawn = max(at, drawn)
            by_torch[n] = at = max(at, 1)
            steps.setdefault(at, Step(at, False)).nodes.append(n)
        if n in inside and n in takes:
            at = max([by_fxcc[m] if m in by_fxcc else by_torch.get(m, BEFORE) + 1 for m in operands(n) if not is_size(m)], default=0)
            by_fxcc[n] = at
            steps.setdefault(at, Step(at, True)).nodes.append(n)
    results = connect(steps, result, by_torch, by_fxcc)
    return [steps[at] for at in sorted(steps)], results


def connect(steps, result, by_torch, by_fxcc):
    """What goes between steps. A value that both sides make is taken from one's own side, or from torch's."""
    wanted = {at: {} for at in steps}  # step -> nodes whose values it must give, in order

    def made(m, own, at):
        """The step that m comes from; None: the step `at` itself, or m is no value."""
        by = own.get(m, by_torch.get(m, by_fxcc.get(m, BEFORE)))
        if by == at or m.op == "get_attr":
            return None
        if by != BEFORE:
            wanted[by][m] = None
        return by
    for at, step in steps.items():
        for n in step.nodes:
            for m in operands(n):
                by = None if step.compiled and is_size(m) else made(m, by_fxcc if step.compiled else by_torch, at)
                if by is not None:
                    step.inputs[m] = by
    results = {m: made(m, by_torch, None) for m in operands(result)}
    for at, nodes in wanted.items():
        steps[at].outputs = list(nodes)
    return results
