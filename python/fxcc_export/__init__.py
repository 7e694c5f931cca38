"""Writes torch.fx graphs for fxcc: export(graph_module, "net.fx") makes net.fx, the text form, and net.safetensors, the tensors.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

Needs torch and nothing else. The graph is written as it is: leaf modules stay calls of modules, with their class and constructor settings;
`fxcc show`, `fxcc opt`, `fxcc run` and `fxcc compile` take it from there. What cannot be written is refused by name. See docs/import-fx.md.
"""
import builtins
import inspect
import json
import math
import operator
import os
import pathlib
import re
import struct
import typing
import warnings

import torch
from torch import fx

__all__ = ["export", "ExportError"]


class ExportError(Exception):
    """Something in the graph has no form in a .fx text; the message names the node or module."""


DTYPES = {  # torch's: name in types, name in .safetensors
    torch.float32: ("f32", "F32"), torch.float64: ("f64", "F64"), torch.float16: ("f16", "F16"), torch.bfloat16: ("bf16", "BF16"),
    torch.int8: ("i8", "I8"), torch.int16: ("i16", "I16"), torch.int32: ("i32", "I32"), torch.int64: ("i64", "I64"),
    torch.uint8: ("u8", "U8"), torch.bool: ("bool", "BOOL"), torch.complex64: ("c64", "C64")}

# ---- words ---------------------------------------------------------------------------------------------------------------------------


def quoted(text):
    """A C string literal."""
    if "\0" in text:
        raise ExportError("a text holds a zero character")
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(c) or (c if c >= " " and c != "\x7f" else f"\\{ord(c):03o}") for c in text) + '"'


def word(text):
    return text if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", text) else quoted(text)


def number(v):
    if math.isnan(v):
        return "nan"
    return repr(float(v))  # "inf", "-inf", "1e-05", "0.1"


def value(a, node="%{}".format):
    """An argument. node makes the text of a node's name; None where nodes are not allowed."""
    if isinstance(a, fx.Node):
        if node is None:
            raise ExportError(f"holds the node '{a.name}'")
        return node(a.name)
    if a is None or a is True or a is False:
        return str(a)
    if isinstance(a, torch.dtype):
        if a not in DTYPES and a != torch.complex128:
            raise ExportError(f"{a} is not supported")
        return str(a)
    if type(a) is int:
        if not -2**63 <= a < 2**63:
            raise ExportError(f"the integer {a} has more than 64 bits")
        return str(a)
    if type(a) is float:
        return number(a)
    if type(a) is complex:
        return f"complex({number(a.real)}, {number(a.imag)})"
    if isinstance(a, str):
        return quoted(a)
    if isinstance(a, torch.device):
        return f"device({quoted(str(a))})"
    if isinstance(a, (torch.layout, torch.memory_format)):
        return str(a)
    if a is Ellipsis:
        return "..."
    if isinstance(a, slice):
        return f"slice({', '.join(value(x, node) for x in (a.start, a.stop, a.step))})"
    if isinstance(a, list):
        return f"[{', '.join(value(x, node) for x in a)}]"
    if isinstance(a, tuple):
        return f"({', '.join(value(x, node) for x in a)}{',' if len(a) == 1 else ''})"
    if isinstance(a, dict):
        for key in a:
            if not isinstance(key, str):
                raise ExportError(f"a dict has the key {key!r}, which is no text")
        return "{" + ", ".join(f"{quoted(k)}: {value(v, node)}" for k, v in a.items()) + "}"
    raise ExportError(f"an object of {type(a).__module__}.{type(a).__qualname__} cannot be written: {a!r:.80}")


def tensor_type(dtype, shape):
    if dtype not in DTYPES:
        raise ExportError(f"{dtype} is not supported")
    return f"{DTYPES[dtype][0]}[{', '.join(str(int(d)) for d in shape)}]"


# ---- what nodes call -------------------------------------------------------------------------------------------------------------------

# Where a function is looked for, in the order that gives the name a reader knows it by.
PLACES = [("torch.nn.functional", torch.nn.functional), ("torch", torch), ("operator", operator), ("builtins", builtins), ("math", math),
          ("torch.special", torch.special), ("torch.linalg", torch.linalg), ("torch.fft", torch.fft), ("torch._C._nn", torch._C._nn)]


def function_name(function):
    if isinstance(function, torch._ops.OpOverload):
        return str(function)
    if isinstance(function, torch._ops.OpOverloadPacket):
        return str(function).replace("::", ".")
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise ExportError(f"calls {function!r:.80}, an object without a name")
    for place, module in PLACES:
        if getattr(module, name, None) is function:
            return f"{place}.{name}"
    if getattr(torch.Tensor, name, None) is function:
        return f"torch.Tensor.{name}"
    space, _, rest = name.partition("_")  # torch.linalg.det is torch._C._linalg.linalg_det
    for place, module in PLACES:
        if place == f"torch.{space}" and getattr(module, rest, None) is function:
            return f"{place}.{rest}"
    module = getattr(function, "__module__", None)
    if not module or name == "<lambda>":
        raise ExportError(f"calls {function!r:.80}, which no module has by its name")
    return f"{module}.{name}"


def class_name(module):
    return f"{type(module).__module__}.{type(module).__qualname__}"


def is_torch_module(module):
    return type(module).__module__.startswith("torch.nn.modules.")


def settings(module):
    """What the constructor was given, read back from the attributes of the same names."""
    found = {}
    if not is_torch_module(module):
        return found
    for name, parameter in inspect.signature(type(module).__init__).parameters.items():
        positional = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if name in ("self", "device", "dtype") or name.startswith("_") or not positional or not hasattr(module, name):
            continue
        v = getattr(module, name)
        if name == "bias":  # of the constructor: whether there is one
            v = isinstance(v, torch.Tensor) if not isinstance(v, bool) else v
        found[name] = v
    if module.training and not isinstance(module, (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)) and \
            class_name(module) != "torch.nn.modules.module.Module":
        found["training"] = True
    return found


def user_attributes(module, skip):
    """Plain values that somebody hung on a module."""
    known = set(skip) | {"training", "meta", "shape_env"}
    for base in type(module).__mro__:
        if base.__module__.startswith("torch."):
            known |= set(getattr(base, "__constants__", ())) | set(base.__dict__.get("__annotations__", {}))
    found = {}
    for name, v in vars(module).items():
        if name.startswith("_") or name in known or isinstance(v, torch.Tensor):
            continue
        try:
            value(v, None)
        except ExportError as e:
            warnings.warn(f"the attribute '{name}' of a {class_name(module)} is left out: {e}", stacklevel=3)
            continue
        found[name] = v
    return found


# ---- tensors -----------------------------------------------------------------------------------------------------------------------------


class Tensors:
    """The parameters and buffers, and what of them lies in the .safetensors. Tied ones are there once."""

    def __init__(self, file):
        self.file = file
        self.groups = {}   # storage -> list of (path, tensor)
        self.numbers = {}  # storage -> its number, where several share one

    @staticmethod
    def storage(t):
        return t.untyped_storage()._cdata

    def add(self, path, t):
        if t.layout != torch.strided or t.is_quantized or type(t) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            raise ExportError(f"'{path}' is no plain tensor: {type(t).__name__}, {t.layout}")
        if t.device.type == "meta":
            raise ExportError(f"'{path}' is on device 'meta' and has no values")
        if t.dtype not in DTYPES:
            raise ExportError(f"'{path}': {t.dtype} is not supported")
        self.groups.setdefault(self.storage(t), []).append((path, t))

    def line(self, kind, path, t, persistent):
        group = self.groups[self.storage(t)]
        text = f"{kind} {word(path)} : {tensor_type(t.dtype, t.shape)}"
        if len(group) > 1 and not t.is_contiguous():
            text += "{" + ", ".join(map(str, t.stride())) + "}"
        if not persistent:
            text += " transient"
        if len(group) > 1:
            base, size = self.base(group), t.element_size()
            offset = t.storage_offset() * size - base
            if offset % size:
                raise ExportError(f"'{path}' shares memory with '{group[0][0]}' at an odd place")
            text += f" shares {self.numbers.setdefault(self.storage(t), len(self.numbers))}+{offset // size}"
        return f"{text} in {quoted(self.file)} {quoted(group[0][0])}"

    @staticmethod
    def base(group):
        return min(t.storage_offset() * t.element_size() for _, t in group)

    @classmethod
    def content(cls, group):
        """What the file holds for tensors that share memory: one of their shape if they are all the same, else the memory itself."""
        first = group[0][1].detach()
        windows = {(t.dtype, t.shape, t.stride(), t.storage_offset()) for _, t in group}
        if len(group) == 1 or (len(windows) == 1 and first.is_contiguous()):
            return first.contiguous().cpu()
        dtype = first.dtype if len({t.dtype for _, t in group}) == 1 else torch.uint8
        size = torch.empty(0, dtype=dtype).element_size()
        end = max((t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1) * t.element_size()
                  for _, t in group if t.numel())
        base = cls.base(group)
        flat = torch.empty(0, dtype=dtype).set_(first.cpu().untyped_storage() if first.device.type == "cpu" else first.untyped_storage().cpu())
        return flat[base // size:end // size]

    def write(self, path):
        """The format: eight bytes of length, a JSON header, the elements; large elements first, so that all are aligned."""
        entries = sorted(((group[0][0], self.content(group)) for group in self.groups.values()),
                         key=lambda e: (-e[1].element_size(), e[0]))
        header, at = {}, 0
        for name, t in entries:
            end = at + t.numel() * t.element_size()
            header[name] = {"dtype": DTYPES[t.dtype][1], "shape": list(t.shape), "data_offsets": [at, end]}
            at = end
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-(len(text) + 8) % 64)
        part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(part, "wb") as f:
                f.write(struct.pack("<Q", len(text)))
                f.write(text)
                for _, t in entries:
                    if t.numel():
                        f.write(t.reshape(-1).view(torch.uint8).numpy().data)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


# ---- nodes -------------------------------------------------------------------------------------------------------------------------------

# Notes that torch leaves on nodes; all others are the user's.
TORCH_META = {"stack_trace", "nn_module_stack", "tensor_meta", "type", "val", "example_value", "source_fn_stack", "original_aten", "from_node",
              "seq_nr", "torch_fn", "fwd_nn_module_stack", "custom", "unbacked_bindings", "partitioner_tag", "autograd_backward",
              "quantization_tag", "mutation_region_id"}


def type_of(v):
    """The text of a type for what ShapeProp (tensor_meta) or tracing with fakes (val) noted; None when they noted nothing."""
    if isinstance(v, torch.Tensor) or (hasattr(v, "shape") and hasattr(v, "dtype")):
        if not all(isinstance(d, int) for d in v.shape):
            return None  # symbolic sizes: the text's own inference will tell
        return tensor_type(v.dtype, v.shape)
    if isinstance(v, (tuple, list)) and v:
        items = [type_of(x) for x in v]
        return None if None in items else f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return None


def node_type(node):
    for key in ("tensor_meta", "val", "example_value"):
        if node.meta.get(key) is not None:
            text = type_of(node.meta[key])
            if text:
                return f" : {text}"
    return ""


def frame(trace):
    """The innermost line of the model's own code: "models/resnet.py:92"."""
    layer = model = None
    for path, line in re.findall(r'File "([^"\n]*)", line (\d+)', trace):
        if path.startswith("<"):
            continue
        short = "/".join(path.replace("\\", "/").split("/")[-2:]) + ":" + line
        if "/torch/nn/" in path:
            layer = short
        elif "/site-packages/torch/" not in path and "torch/fx/" not in path:
            model = short
    return model or layer


def location(node):
    stack = node.meta.get("nn_module_stack")
    module = None
    if stack:
        last = list(stack.values())[-1]
        module = last[0] if isinstance(last, tuple) else None
        module = re.sub(r"@\d+$", "", module) if isinstance(module, str) else None
    line = frame(node.stack_trace) if node.stack_trace else None
    if not module and not line:
        return ""

    def part(text):
        plain = text and re.fullmatch(r'[!-~]([ -~]*[!-~])?', text) and "," not in text and text != "-" and text[0] != '"'
        return "-" if not text else text if plain else quoted(text)
    return f"  # {part(module)}, {part(line)}" if line else f"  # {part(module)}"


def type_hint(hint):
    """The name of a class that a traced function's signature says: "torch.Tensor", "int"; None for what is no plain class of torch or Python."""
    if not isinstance(hint, type) or typing.get_origin(hint):
        return None
    module = hint.__module__
    return hint.__qualname__ if module == "builtins" else f"{module}.{hint.__qualname__}" if module.split(".")[0] == "torch" else None


def node_line(graph_module, node, types):
    if node.op == "call_function":
        target = function_name(node.target)
    else:
        target = str(node.target)
    if node.op == "get_attr":
        v = attribute(graph_module, target)
        if not isinstance(v, torch.Tensor):
            raise ExportError(f"reads '{target}', which is no tensor but {type(v).__name__}")
        types = {node: f" : {tensor_type(v.dtype, v.shape)}"}
    if node.op == "call_module":
        graph_module.get_submodule(target)
    arguments = ", ".join([value(a) for a in node.args] + [f"{word(k)}={value(v)}" for k, v in node.kwargs.items()])
    notes = {k: v for k, v in node.meta.items() if isinstance(k, str) and k not in TORCH_META}
    hint = type_hint(node.type)
    if hint:
        notes["annotation"] = hint
    meta = f" meta {value(notes, None)}" if notes else ""
    if node.op == "output":
        return f"output({arguments}){meta}{location(node)}"
    if arguments or node.op not in ("placeholder", "get_attr"):
        arguments = f"({arguments})"
    return f"%{node.name}{types.get(node) or node_type(node)} = {node.op}[{word(target)}]{arguments}{meta}{location(node)}"


def attribute(module, path):
    for name in path.split("."):
        if not hasattr(module, name):
            raise ExportError(f"reads '{path}', which does not exist")
        module = getattr(module, name)
    return module


def input_types(graph_module, example_inputs):
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    if example_inputs is None:
        return {}
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    if len(example_inputs) > len(placeholders):
        raise ExportError(f"expected at most {len(placeholders)} example inputs, got {len(example_inputs)}")
    return {n: f" : {tensor_type(x.dtype, x.shape)}" for n, x in zip(placeholders, example_inputs) if isinstance(x, torch.Tensor)}


def module_lines(graph_module, tensors):
    """The tree: each module, then what hangs on it, then its children. Two passes: who shares with whom must be known first."""
    reads = {n.target for n in graph_module.graph.nodes if n.op == "get_attr"}
    entries = []
    for path, module in graph_module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        kept = settings(module)
        own = [("parameter", prefix + n, p, True) for n, p in module._parameters.items() if p is not None]
        own += [("buffer", prefix + n, b, n not in module._non_persistent_buffers_set) for n, b in module._buffers.items() if b is not None]
        there = {n for _, n, _, _ in own}
        own += [("buffer", prefix + n, v, False) for n, v in vars(module).items()
                if isinstance(v, torch.Tensor) and prefix + n in reads and prefix + n not in there]
        for _, name, t, _ in own:
            tensors.add(name, t)
        entries.append((path, module, kept, own))
    lines = []
    for path, module, kept, own in entries:
        name = "torch.nn.modules.module.Module" if module is graph_module else class_name(module)
        try:
            text = ", ".join(f"{word(k)}={value(v, None)}" for k, v in kept.items())
            notes = user_attributes(module, kept)
            meta = f" meta {value(notes, None)}" if notes else ""
        except ExportError as e:
            raise ExportError(f"module '{path}' ({name}): {e}") from None
        if module is not graph_module or meta:
            lines.append(f"module {word(path)} : {word(name)}{f'({text})' if text else ''}{meta}")
        lines += [tensors.line(*entry) for entry in own]
    return lines


def export(graph_module, path, example_inputs=None):
    """Writes graph_module (of torch.fx.symbolic_trace, or any GraphModule) to path, which ends in .fx, and its tensors beside it.

    example_inputs (a tuple of tensors, or one) give the inputs' shapes and dtypes, which fxcc needs to run or compile the graph; without
    them they are taken from ShapeProp's notes (node.meta["tensor_meta"]) where there are some. Raises ExportError for what has no text form."""
    path = pathlib.Path(path)
    if path.suffix != ".fx":
        raise ExportError(f"expected a path that ends in .fx, got '{path}'")
    if not isinstance(graph_module, fx.GraphModule):
        raise ExportError(f"expected a torch.fx.GraphModule, got {type(graph_module).__name__}; make one with torch.fx.symbolic_trace(model)")
    beside = path.with_suffix(".safetensors")
    tensors = Tensors(beside.name)
    types = input_types(graph_module, example_inputs)
    lines = [f"graph {quoted(path.stem)} captured", *module_lines(graph_module, tensors), ""]
    for node in graph_module.graph.nodes:
        try:
            lines.append(node_line(graph_module, node, types))
        except (ExportError, AttributeError) as e:
            raise ExportError(f"node '{node.name}' ({node.op}): {e}") from None
    if tensors.groups:
        tensors.write(beside)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
