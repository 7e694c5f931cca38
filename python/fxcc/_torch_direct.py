"""Graphs of TorchDynamo, which call Python functions of torch, as graphs of aten operators: in one run over tensors without data.

AOTAutograd runs a graph twice, through four layers of Python for each operator, and its import takes as long. That is needed where gradients are, where
sizes are open, or where a graph writes what it was given; all such graphs are declined here and go that way. What is left needs only this: what
torch's dispatcher makes of each function, noted down. Writes to tensors that the graph made itself and of which nobody holds a view become new tensors.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import functools
import operator
import weakref

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ._torch_graph import is_random, knows, plain
from ._torch_plan import is_view

aten = torch.ops.aten
NO_VIEWS = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)  # which has views hold their bases
CONSTANTS = (int, float, str, type(None), torch.dtype, torch.layout, torch.memory_format, slice, type(...))
# functions that are no computation of their tensors alone
STATEFUL = ("grad", "autocast", "seed", "rng", "_assert", "sym_", "set_", "_enter", "_exit", "hook", "backward", "data_ptr", "resize", "storage", "compile", "vmap")


class Declined(Exception):
    """The graph needs AOTAutograd; says why."""


# ---- tensors without data -------------------------------------------------------------------------------------------------------


class Memory:
    """What a tensor shares with its views. outside: it was there before the graph ran."""

    def __init__(self, outside):
        self.outside, self.tensors = outside, []

    def held(self):
        return sum(ref() is not None for ref in self.tensors)


class Traced(torch.Tensor):
    """A tensor of the graph: type, sizes, strides, on the CPU; no elements. node: what computes it."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, like, node, memory):
        return torch.Tensor._make_wrapper_subclass(cls, like.shape, strides=like.stride(), storage_offset=like.storage_offset(), dtype=like.dtype, device="cpu")

    def __init__(self, like, node, memory):
        self.node, self.memory, self.elements = node, memory, like if like.device.type == "meta" else None
        if memory is not None:
            memory.tensors.append(weakref.ref(self))

    def meta(self):
        """The same on torch's meta device, whose operators compute types and sizes."""
        if self.elements is None:
            self.elements = torch.empty_strided(self.shape, self.stride(), dtype=self.dtype, device="meta")
        return self.elements

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise Declined(f"{func} outside of the trace")


def mapped(tree, leaf):
    if isinstance(tree, (list, tuple)):
        items = [mapped(x, leaf) for x in tree]
        return items if isinstance(tree, list) else tuple(items)
    return leaf(tree)


def dropped(input, p=0.5, train=True):
    if train:
        raise Declined("dropout draws random numbers")
    return input


DROPOUTS = {getattr(aten, prefix + "dropout" + suffix).default for prefix in ("", "feature_", "alpha_", "feature_alpha_") for suffix in ("", "_")}


# ---- operators ------------------------------------------------------------------------------------------------------------------


@functools.cache
def way(op):
    """What becomes of an operator: "known" to fxcc, "write", "constant", "same" as its operand, a function that decomposes it; a Declined."""
    if op is aten.detach_.default:
        return "same"
    if op in DROPOUTS:
        return dropped
    if op._schema.is_mutable:
        return "write"
    if op is aten.lift_fresh.default:
        return "constant"
    if shares(op) and op._can_decompose():  # a view or a copy, as strides will have it
        return op.decompose
    if knows(str(op)):
        return "known"
    rule = torch._decomp.decomposition_table.get(op)
    if rule is not None:
        return rule
    if op._can_decompose():
        return op.decompose
    return Declined(f"fxcc has no form for {op}")


@functools.cache
def statistics(op):
    """Where a norm has its statistics and whether it trains, which writes them though its schema does not say so."""
    names = [a.name for a in op._schema.arguments]
    train = next((names.index(name) for name in ("training", "train", "use_input_stats") if name in names), None)
    return (names.index("running_mean"), train) if "running_mean" in names and train is not None else None


@functools.cache
def written(op):
    """The operator that gives as a new tensor what this one writes to its first."""
    name = op._schema.name.split("::")[1]
    arguments = op._schema.arguments
    writes = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    if op.namespace == "aten" and writes == [0] and name.endswith("_") and torch.Tag.inplace_view not in op.tags:
        found = getattr(getattr(aten, name[:-1], None), op._overloadname, None)
        if found is not None and [a.name for a in found._schema.arguments][:len(arguments)] == [a.name for a in arguments]:
            return found
    raise Declined(f"{op} writes")


@functools.cache
def shares(op):
    """Whether results lie in the memory of operands."""
    return any(r.alias_info is not None for r in op._schema.returns)


class Recorder(TorchDispatchMode):
    """Notes the operators that run."""

    def __init__(self, graph, holder):
        super().__init__()
        self.graph, self.holder, self.source = graph, holder, None

    @classmethod
    def _should_skip_dynamo(cls):  # else each operator pays for a switch; dynamo is at work already
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, op, args, kwargs):
        how = way(op)
        if how == "known":
            return self.note(op, args, kwargs)
        if how == "write":
            return self.write(op, args, kwargs)
        if how == "same":
            return args[0]
        if how == "constant":
            return self.constant(args[0])
        if isinstance(how, Declined):
            raise how
        with self:
            made = how(*args, **kwargs)
        if made is NotImplemented:
            raise Declined(f"torch does not decompose {op}")
        return made

    def write(self, op, args, kwargs):
        to = args[0]
        if not isinstance(to, Traced) or to.memory.outside or to.memory.held() != 1:
            raise Declined(f"{op} writes what others see")
        made = self.run(written(op), args, kwargs)
        if not isinstance(made, Traced) or made.dtype != to.dtype or made.shape != to.shape or made.stride() != to.stride() or made.memory.held() != 1:
            raise Declined(f"{op} gives another tensor than it writes")
        to.node = made.node
        return to

    def constant(self, tensor):
        """A tensor that the graph holds."""
        if isinstance(tensor, Traced):
            return tensor
        if not plain(tensor) or type(tensor) is not torch.Tensor:
            raise Declined("a tensor of another kind")
        name = f"_tensor_constant{sum(n.op == 'get_attr' for n in self.graph.nodes)}"
        setattr(self.holder, name, tensor)
        node = self.graph.create_node("get_attr", name, name=name)
        return self.made(node, tensor, Memory(True))

    def made(self, node, like, memory):
        node.meta["val"] = Traced(like, node, None)  # not the one that the graph's functions see, whose life tells who may write
        if self.source is not None:
            for key in ("nn_module_stack", "stack_trace"):
                if key in self.source:
                    node.meta[key] = self.source[key]
        return Traced(like, node, memory)

    def node(self, leaf):
        """An operand as the graph has it."""
        if isinstance(leaf, torch.Tensor):
            return (leaf if isinstance(leaf, Traced) else self.constant(leaf)).node
        if isinstance(leaf, torch.device) and leaf.type != "cpu":
            raise Declined(f"fxcc compiles for the CPU, not {leaf}")
        if not isinstance(leaf, (*CONSTANTS, torch.device)):
            raise Declined(f"an operand of {type(leaf)}")
        return leaf

    def note(self, op, args, kwargs, like=None):
        """A node; like: a tensor like the result, where that is known."""
        nodes, named = mapped(args, self.node), {k: mapped(v, self.node) for k, v in kwargs.items()}
        node = self.graph.create_node("call_function", op, nodes, named)
        if is_random(node):
            raise Declined(f"{op} draws random numbers")
        at = statistics(op)
        if at and nodes[at[0]] is not None and nodes[at[1]]:
            raise Declined(f"{op} writes its statistics")
        if like is None:
            like = op(*mapped(args, self.meta), **{k: mapped(v, self.meta) for k, v in kwargs.items()})
        memory = next(a for a in args if isinstance(a, Traced)).memory if shares(op) else None
        if isinstance(like, torch.Tensor):
            return self.made(node, like, memory or Memory(False))
        if not isinstance(like, (list, tuple)) or not all(isinstance(v, torch.Tensor) for v in like):
            raise Declined(f"{op} gives no tensor")
        items = [self.made(self.graph.create_node("call_function", operator.getitem, (node, i)), v, memory or Memory(False)) for i, v in enumerate(like)]
        node.meta["val"] = tuple(item.node.meta["val"] for item in items)
        return type(like)(items) if type(like) in (list, tuple) else tuple(items)

    @staticmethod
    def meta(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.meta() if isinstance(leaf, Traced) else leaf.to("meta")
        return torch.device("meta") if isinstance(leaf, torch.device) else leaf


# ---- functions of torch that are one operator of fxcc: these need not run ---------------------------------------------------------------


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return aten.batch_norm.default, (input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return aten.layer_norm.default, (input, list(normalized_shape), weight, bias, eps)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    return (aten.embedding.default, (weight, input)) if max_norm is None else None


def convolution(op):
    def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        numbers = [[n] if isinstance(n, int) else n for n in (stride, padding, dilation)]
        return None if isinstance(padding, str) else (op, (input, weight, bias, *map(list, numbers), groups))
    return conv


def linear(input, weight, bias=None):
    return aten.linear.default, (input, weight, bias)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return (aten.scaled_dot_product_attention.default, (query, key, value, attn_mask, 0.0, is_causal), {"scale": scale, "enable_gqa": enable_gqa}) if not dropout_p else None


def matmul(input, other):
    return aten.matmul.default, (input, other)


ONE = {F.batch_norm: batch_norm, F.layer_norm: layer_norm, F.embedding: embedding, F.linear: linear, F.scaled_dot_product_attention: attention,
       torch.conv1d: convolution(aten.conv1d.default), torch.conv2d: convolution(aten.conv2d.default), torch.matmul: matmul, operator.matmul: matmul}


# ---- graphs ---------------------------------------------------------------------------------------------------------------------


def static(tensor):
    return isinstance(tensor, FakeTensor) and plain(tensor) and all(type(n) is int for n in (*tensor.shape, *tensor.stride(), tensor.storage_offset()))


def suits(gm):
    """Raises Declined for what shows before anything has run."""
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None or torch.is_autocast_enabled("cpu"):
        raise Declined("autocast, or a mode, is on")
    for n in gm.graph.nodes:
        example = n.meta.get("example_value")
        name = n.target if isinstance(n.target, str) else getattr(n.target, "__name__", "")
        if n.op == "placeholder":
            if not static(example):
                raise Declined(f"{n.name} is no tensor of numbers in strides, or its size is open")
            if example.requires_grad and torch.is_grad_enabled():
                raise Declined(f"{n.name} asks for a gradient")
        elif n.op == "call_function":
            module = getattr(n.target, "__module__", None) or ""
            pure = isinstance(n.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)) or module in (
                "torch", "torch._C._nn", "torch.nn.functional", "torch.functional", "torch._C._linalg", "torch._C._special", "_operator")
            if n.target is not torch._C._log_api_usage_once and (not pure or any(word in name for word in STATEFUL)):
                raise Declined(f"{n.target} is no function of tensors alone")
        elif n.op == "call_method":
            if any(word in name for word in STATEFUL):
                raise Declined(f"{name} is no function of tensors alone")
        elif n.op != "output":
            raise Declined(f"the graph holds {n.target}")


def same(value, example):
    return (not isinstance(example, torch.Tensor) or (isinstance(value, torch.Tensor) and value.dtype == example.dtype and value.shape == example.shape
                                                      and value.device.type == example.device.type))


def apply(recorder, n, args, kwargs):
    """The value of a node."""
    example = n.meta.get("example_value")
    if n.op == "call_method":
        return getattr(args[0], n.target)(*args[1:], **kwargs)
    if n.target is torch._C._log_api_usage_once:  # torchvision's: for torch's statistics, each process once
        return None
    if n.target in ONE and static(example) and isinstance(args[0], Traced):
        said = ONE[n.target](*args, **kwargs)
        if said is not None:
            op, given, *named = said
            return recorder.note(op, given, named[0] if named else {}, example)
    return n.target(*args, **kwargs)


def outputs(result, examples):
    """What leaves the graph, as nodes and constants."""
    for value, example in zip(result, examples):
        node = value.node if isinstance(value, Traced) else value
        if isinstance(value, Traced):
            if value.stride() != example.meta["example_value"].stride():
                raise Declined(f"{example.name} lies otherwise than dynamo says")
            while node.op == "call_function" and (is_view(node) or node.target is operator.getitem):
                node = node.args[0]
            if node.op == "call_function" and shares(node.target):
                raise Declined(f"a view by {node.target} leaves the graph")
        elif isinstance(value, torch.Tensor) or not isinstance(value, CONSTANTS):
            raise Declined(f"an output of {type(value)}")
        yield value.node if isinstance(value, Traced) else value


def trace(gm):
    """A module that holds `graph`, of aten operators that fxcc knows, of the same inputs and outputs. Raises Declined."""
    suits(gm)
    holder, graph, env, last = torch.nn.Module(), torch.fx.Graph(), {}, {}
    for n in gm.graph.nodes:
        for m in n.all_input_nodes:
            last[m] = n
    recorder = Recorder(graph, holder)
    dead = {}
    for m, n in last.items():
        dead.setdefault(n, []).append(m)
    with torch._C._AutoDispatchBelowAutograd(), torch._C._ExcludeDispatchKeyGuard(NO_VIEWS), recorder:
        for n in gm.graph.nodes:
            if n.op == "output":
                result = torch.fx.node.map_arg(n.args[0], env.__getitem__)
                graph.output(tuple(outputs(result, n.args[0])))
                break
            if n.op == "placeholder":
                node = graph.placeholder(n.name)
                env[n] = recorder.made(node, n.meta["example_value"], Memory(True))
                continue
            recorder.source = n.meta
            args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), env.__getitem__)
            env[n] = value = apply(recorder, n, args, kwargs)
            if not same(value, n.meta.get("example_value")):
                raise Declined(f"{n.name} is {value}, but was {n.meta['example_value']}")
            del value, args, kwargs
            for m in dead.get(n, ()):
                del env[m]
    holder.graph = graph
    return holder
