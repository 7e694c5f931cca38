"""A graph without its weights, and weights made where they are needed.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

prepare ships NAME.fx, in which every parameter is `in "NAME.safetensors"`, but not that file. On the machine with the GPU the module is made
from its seed, its tensors are written to NAME.safetensors, and fxcc compiles both: what it emits must be what was built, and its net.bin is
what the program reads. Where there is no torch, tensors are drawn at random: times are then as good, but there is nothing to compare with.
"""
import json
import math
import random
import re
import struct

LINE = re.compile(r"^(parameter|buffer) (\S+) : (\w+)\[([0-9, ]*)\](\{[0-9, ]*\})?((?: transient)?)((?: shares \S+)?) (.*)$")
DTYPES = {"f64": ("F64", 8), "f32": ("F32", 4), "f16": ("F16", 2), "bf16": ("BF16", 2), "i64": ("I64", 8), "i32": ("I32", 4), "i16": ("I16", 2),
          "i8": ("I8", 1), "u8": ("U8", 1), "bool": ("BOOL", 1)}


def without_values(text, name, ours):
    """A graph's text with every tensor of `ours` in NAME.safetensors; and the paths of the others that lie there, constants of the graph."""
    lines, others = [], []
    for line in text.split("\n"):
        found = LINE.match(line)
        if found:
            kind, path, dtype, shape, strides, transient, shares, content = found.groups()
            where = f'in "{name}.safetensors" "{path}"'
            if strides and (path in ours or content.startswith("in ")):
                raise ValueError(f"{path}: strides {strides}: expected a dense tensor")
            if path in ours and (content.startswith("= [") or content == where):
                line = f"{kind} {path} : {dtype}[{shape}]{transient}{shares} {where}"
            elif content == where:
                others.append(path)
        lines.append(line)
    return "\n".join(lines), others


def wanted(text, name):
    """The tensors that NAME.safetensors has to have: path, dtype, shape."""
    for line in text.split("\n"):
        found = LINE.match(line)
        if found and found[8] == f'in "{name}.safetensors" "{found[2]}"':
            yield found[2], found[3], [int(n) for n in found[4].replace(" ", "").split(",") if n]


def write_safetensors(path, tensors):
    """tensors: (name, dtype, shape, bytes), dtypes as in .fx. Large elements first, so that all are aligned."""
    tensors = sorted(tensors, key=lambda t: -DTYPES[t[1]][1])
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        if len(data) != DTYPES[dtype][1] * math.prod(shape):
            raise ValueError(f"{name}: expected {shape} of {dtype}, got {len(data)} bytes")
        header[name] = {"dtype": DTYPES[dtype][0], "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for t in tensors:
            f.write(t[3])


def read_safetensors(path, names=None):
    """Some tensors, or all: as write_safetensors takes them."""
    ours = {theirs: dtype for dtype, (theirs, _) in DTYPES.items()}
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        for name in header if names is None else names:
            begin, end = header[name]["data_offsets"]
            f.seek(8 + size + begin)
            yield name, ours[header[name]["dtype"]], header[name]["shape"], f.read(end - begin)


def of_module(text, name, tensors, constants):
    """What NAME.safetensors has to have beyond some constants, from a module's tensors by name (numpy arrays)."""
    made = []
    for path, dtype, shape in wanted(text, name):
        if path in constants:
            continue
        if path not in tensors:
            raise ValueError(f"the module made here has no tensor {path}: it is of another version")
        data = tensors[path]
        if list(data.shape) != shape:
            raise ValueError(f"{path}: expected the shape {shape}, got {list(data.shape)}: the module made here is of another version")
        made.append((path, dtype, shape, data.tobytes()))
    return made


def at_random(text, name, constants):
    """The same, drawn: floats that keep the size of what a layer gives, integers zero. A block of values over and over."""
    draw = random.Random(1)
    block = [draw.uniform(-1.7, 1.7) for _ in range(4099)]
    made = []
    for path, dtype, shape in wanted(text, name):
        if path in constants:
            continue
        n = math.prod(shape)
        if dtype == "f32":
            scale = 1 / math.sqrt(max(1, math.prod(shape[1:])))
            values = struct.pack(f"<{len(block)}f", *([abs(v) + 0.5 for v in block] if len(shape) == 1 else [v * scale for v in block]))
            data = (values * (n // len(block) + 1))[:4 * n]
        else:
            data = bytes(DTYPES[dtype][1] * n)
        made.append((path, dtype, shape, data))
    return made


def random_input(dtype, shape):
    """Bytes of an input: normal floats, integers that every vocabulary has."""
    draw, n = random.Random(2), math.prod(shape)
    if dtype == "float32":
        block = struct.pack("<4099f", *(draw.gauss(0, 1) for _ in range(4099)))
        return (block * (n // 4099 + 1))[:4 * n]
    return struct.pack("<q" if dtype == "int64" else "<i" if dtype == "int32" else "<B", 1) * n
