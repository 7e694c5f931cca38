"""Runs what _torch_plan cuts: compiles the parts that are fxcc's and calls all of them in turn.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import operator
import time

import torch

from ._core import Error
from ._torch_graph import Builder, is_random, place, value
from ._torch_plan import BEFORE, plan


class Refused(Exception):
    """fxcc does not compile these nodes; why: its message."""

    def __init__(self, nodes, why):
        super().__init__(why)
        self.nodes = nodes


def attribute(module, target):
    return operator.attrgetter(target)(module)


def compiled_step(gm, name, step, constants, options):
    """(function of the values of inputs, inputs): inputs are nodes, or (node, dim) for a size that no tensor shows."""
    attributes = {m: attribute(gm, m.target) for n in step.nodes for m in n.all_input_nodes if m.op == "get_attr"}
    inputs = [n for n in step.inputs if n not in constants]
    try:
        b = Builder(name, step.nodes, inputs, step.outputs, {**attributes, **{n: constants[n] for n in step.inputs if n in constants}})
        carriers = [carrier(gm, s) for s in b.carried]
        graph, random = b.graph, any(is_random(n) for n in step.nodes)
        if random:
            graph, _ = graph.legalize().run_passes("philox(input=true)", in_place=True)
        function = graph.compile(level=options.level, threads=options.threads, cache=options.cache)
    except Error as e:
        nodes = [b.origin[n] for n in getattr(e, "nodes", ()) if n in b.origin] if "b" in locals() else []
        raise Refused([n for n in nodes if n in step.nodes] or step.nodes, str(e)) from e
    return wrap(function, len(inputs), b.in_orders, b.out_orders, bool(carriers), random), inputs + carriers


def carrier(gm, symbol):
    """The input of the graph that is this size."""
    for n in gm.graph.nodes:
        if n.op == "placeholder" and isinstance(value(n), torch.SymInt) and value(n).node.expr == symbol:
            return n
    raise Refused([], f"the size {symbol} depends on data")


def philox_state():
    """What a call's random numbers come of: drawn from torch's default generator, so that its seed repeats them."""
    return torch.empty(2, dtype=torch.int64).random_()


def wrap(function, n_tensors, in_orders, out_orders, carries, random):
    """The function with dims in the order that torch has them, numbers as tensors of that many rows."""
    ins = [(i, order) for i, order in enumerate(in_orders) if order]
    outs = [(i, [order.index(d) for d in range(len(order))]) for i, order in enumerate(out_orders) if order]
    if not ins and not outs and not carries and not random and n_tensors:
        return function

    def call(*args):
        args = list(args)
        for i, order in ins:
            args[i] = args[i].permute(order)
        for i in range(n_tensors, len(args)):
            args[i] = torch.empty((args[i], 0), dtype=torch.uint8)
        args = args or [torch.empty(0, dtype=torch.uint8)]
        if random:
            args.append(philox_state())
        results = function(*args)
        if outs:
            results = list(results)
            for i, order in outs:
                results[i] = results[i].permute(order)
        return results
    return call


def torch_step(gm, step):
    """The nodes as a module of their own."""
    graph, copies = torch.fx.Graph(), {}
    for n in step.inputs:
        copies[n] = graph.placeholder(n.name)

    def copy(m):
        if m not in copies:
            copies[m] = graph.get_attr(m.target)
        return copies[m]
    for n in step.nodes:
        copies[n] = graph.node_copy(n, copy)
    graph.output(tuple(copies[n] for n in step.outputs))
    return torch.fx.GraphModule(gm, graph).forward


class Program:
    """The steps of a graph, compiled. constants: {placeholder: tensor} compiled in. Called with a list of the values of placeholders."""

    def __init__(self, gm, name, constants, options, refused):
        """refused: {node: why}, which grows by what fxcc does not compile."""
        began = time.perf_counter()
        while True:
            steps, results = plan(gm.graph, refused, options.random)
            try:
                made = [compiled_step(gm, f"{name}_{i}", step, constants, options) if step.compiled else (torch_step(gm, step), step.inputs)
                        for i, step in enumerate(steps)]
                break
            except Refused as e:
                more = [n for n in e.nodes if n not in refused] or [n for s in steps if s.compiled for n in s.nodes]
                refused.update((n, str(e)) for n in more)
        slots = {(n, BEFORE): i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}
        self.n_inputs = len(slots)
        self.steps = []
        for step, (call, inputs) in zip(steps, made):
            takes = tuple(slots[n, step.inputs.get(n, BEFORE)] for n in inputs)
            for n in step.outputs:
                slots[n, step.at] = len(slots)
            self.steps.append([call, takes, ()])
        self.result = []            # (slot, None) or (None, a value that is always the same)
        for n in next(n for n in gm.graph.nodes if n.op == "output").args[0]:
            if isinstance(n, torch.fx.Node) and n.op != "get_attr":
                self.result.append((slots[n, results[n]], None))
            else:
                self.result.append((None, attribute(gm, n.target) if isinstance(n, torch.fx.Node) else n))
        self.compiled = sum(step.compiled for step in steps)
        self.seconds = time.perf_counter() - began
        self.free_early()
        at = self.n_inputs
        direct = list(range(at, at + len(steps[0].outputs))) if len(steps) == 1 else None
        self.direct = direct is not None and [slot for slot, _ in self.result] == direct

    def free_early(self):
        """Notes behind which step a value is needed no more, so that its memory is free for the next."""
        kept = {slot for slot, _ in self.result}
        seen = set()
        for step in reversed(self.steps):
            last = tuple(slot for slot in dict.fromkeys(step[1]) if slot not in kept and slot not in seen)
            seen.update(last)
            step[2] = last

    def __call__(self, values):
        if self.direct:
            call, takes, _ = self.steps[0]
            args = [values[i] for i in takes]
            values.clear()
            return list(call(*args))
        env = list(values)
        values.clear()
        for call, takes, last in self.steps:
            env.extend(call(*[env[i] for i in takes]))
            for i in last:
                env[i] = None
        return [env[i] if i is not None else constant for i, constant in self.result]


def told(nodes):
    """"aten.foo.default (layer1.conv, 3 nodes)" for each operator."""
    by_target = {}
    for n in nodes:
        if n.target is not operator.getitem:
            by_target.setdefault(str(n.target), []).append(n)
    texts = []
    for target, same in by_target.items():
        module, line = next(((m, l) for m, l in map(place, same) if m or l), (None, None))
        where = [text for text in (module, line, f"{len(same)} nodes" if len(same) > 1 else None) if text]
        texts.append(f"{target} ({', '.join(where)})" if where else target)
    return texts
