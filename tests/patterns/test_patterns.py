"""Pattern rewriting against torch.fx.subgraph_rewriter: the same graphs come out.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE."""
import operator
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import fx
from torch.fx import subgraph_rewriter

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))
import fxcc_export  # noqa: E402

FXCC = os.environ["FXCC"]


class Model(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x, y):
        return self.f(x, y)


def add_relu(x, y):
    return torch.relu(x + y)


CASES = {
    # model, pattern, replacement
    "one": (lambda x, y: torch.relu(x + y) * 2, lambda a, b: torch.relu(a + b), lambda a, b: F.gelu(a - b)),
    "nested": (lambda x, y: torch.cat([torch.cat([x, y]), x]), lambda a, b: torch.cat([a, b]), lambda a, b: torch.stack([b, a])),
    "used outside": (lambda x, y: (lambda t: torch.relu(t) + t)(x + y), lambda a, b: torch.relu(a + b), lambda a, b: a - b),
    "chain": (lambda x, y: torch.relu(torch.relu(torch.relu(x))) + y, lambda a: torch.relu(torch.relu(a)), lambda a: torch.tanh(a)),
    "two outputs": (lambda x, y: (lambda t: torch.tanh(t) + torch.neg(t))(x + y),
                    lambda a, b: (lambda t: (torch.tanh(t), torch.neg(t)))(a + b),
                    lambda a, b: (lambda t: (torch.neg(t), torch.tanh(t)))(a - b)),
    "returned inside": (lambda x, y: (lambda t: torch.relu(t) + t)(x + y), lambda a, b: (lambda t: (t, torch.relu(t)))(a + b),
                        lambda a, b: (lambda t: (torch.neg(t), torch.tanh(t)))(a - b)),
    "constants": (lambda x, y: (x + 1) * (y + 2) + (x + 1.0), lambda a: a + 1, lambda a: a - 3),
    "constants differ": (lambda x, y: x + 5, lambda a: a + 1, lambda a: a - 3),
    "same value twice": (lambda x, y: x * x + x * y, lambda a: a * a, lambda a: torch.square(a)),
    "one value for two": (lambda x, y: (x + x) * y, lambda a, b: a + b, lambda a, b: a - b),
    "keywords": (lambda x, y: torch.sum(x, dim=1) + torch.sum(y, 1), lambda a: torch.sum(a, dim=1), lambda a: torch.mean(a, dim=1)),
    "methods": (lambda x, y: x.relu() + y.sigmoid(), lambda a: a.relu(), lambda a: a.tanh()),
    "identity": (lambda x, y: torch.neg(torch.neg(torch.neg(torch.neg(x)))) + y, lambda a: torch.neg(torch.neg(a)), lambda a: a),
    "into the other's input": (lambda x, y: torch.sub(torch.sub(x, y), torch.sub(y, x)), lambda a, b: torch.sub(a, b),
                               lambda a, b: torch.add(b, a)),
    "circle": (lambda x, y: (lambda t: t - torch.relu(t))(torch.neg(x)), lambda a, b: (lambda t: (t, t - b))(torch.neg(a)),
               lambda a, b: (a, b)),
    "no match": (lambda x, y: x + y, lambda a: torch.relu(a), lambda a: a),
    "pair of unused": (lambda x, y: (torch.relu(x), torch.relu(y), torch.relu(x + y)), lambda a: torch.relu(a), lambda a: torch.selu(a)),
}
# What FX gets wrong, or finds less of (docs/patterns.md): what comes out here.
OURS = {
    "one value for two": ["mul", "output mul", "sub"],  # FX: two placeholders never match one node
    "keywords": ["add", "mean", "mean", "output add"],  # dim=1 and 1 are one argument
}


def spelled(graph):
    """What each node computes, as nested text, sorted: the order of nodes that do not depend on each other is free."""
    value, all_of = {}, []

    def text(a):
        if isinstance(a, fx.Node):
            return value[a]
        if isinstance(a, (list, tuple)):
            return "[" + ", ".join(text(i) for i in a) + "]"
        return repr(a)

    for n in graph.nodes:
        name = n.target if isinstance(n.target, str) else n.target.__name__
        args = ", ".join([text(a) for a in n.args] + [f"{k}={text(v)}" for k, v in n.kwargs.items()])
        value[n] = n.target if n.op == "placeholder" else f"output {text(n.args[0])}" if n.op == "output" else f"{name}<{args}>"
        all_of.append(value[n])
    return sorted(all_of)


def spelled_text(text):
    """The same of a .fx text."""
    value, all_of = {}, []

    def refer(s):
        s = re.sub(r"\(", "[", re.sub(r",?\)", "]", s))
        return re.sub(r"%(\w+)", lambda k: value[k[1]], s)

    for line in text.splitlines():
        m = re.match(r"%(\w+)(?: : .*?)? = (\w+)\[([\w.\"]+)\](?:\((.*)\))?(?:\s+#.*)?$", line)
        if m:
            value[m[1]] = m[3] if m[2] == "placeholder" else f"{m[3].split('.')[-1]}<{refer(m[4] or '')}>"
            all_of.append(value[m[1]])
        elif line.startswith("output("):
            all_of.append("output " + refer(re.sub(r"\s+#.*", "", line)[len("output("):-1]))
    return sorted(all_of)


def traced(f):
    return fx.symbolic_trace(f)


@pytest.mark.parametrize("name", CASES)
def test_as_torch(name, tmp_path):
    model, pattern, replacement = CASES[name]
    gm = fx.symbolic_trace(Model(model))
    for what, f in (("model", gm), ("pattern", traced(pattern)), ("replacement", traced(replacement))):
        fxcc_export.export(f, str(tmp_path / f"{what}.fx"))
    passes = f"replace_pattern(pattern={tmp_path}/pattern.fx, replacement={tmp_path}/replacement.fx)"
    ran = subprocess.run([FXCC, "opt", str(tmp_path / "model.fx"), f"--passes={passes}"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    ours = spelled_text(ran.stdout)
    if name in OURS:
        assert [line.split("<")[0] for line in ours if "<" in line] == OURS[name]
        return
    subgraph_rewriter.replace_pattern(gm, traced(pattern), traced(replacement))
    gm.graph.lint()
    assert ours == spelled(gm.graph), ran.stdout


@pytest.mark.parametrize("what", ["missing file", "placeholders", "pattern"])
def test_refused(what, tmp_path):
    fxcc_export.export(fx.symbolic_trace(Model(add_relu)), str(tmp_path / "model.fx"))
    fxcc_export.export(traced(lambda a: torch.relu(a)), str(tmp_path / "one.fx"))
    fxcc_export.export(traced(lambda a, b: a + b), str(tmp_path / "two.fx"))
    (tmp_path / "bad.fx").write_text('graph "p" captured\n%a = placeholder[a]\noutput(%b)\n')
    files = {"missing file": ("nowhere.fx", "one.fx", "cannot be opened"), "placeholders": ("one.fx", "two.fx", "placeholders"),
             "pattern": ("bad.fx", "one.fx", "line 3")}[what]
    passes = f"replace_pattern(pattern={tmp_path}/{files[0]}, replacement={tmp_path}/{files[1]})"
    ran = subprocess.run([FXCC, "opt", str(tmp_path / "model.fx"), f"--passes={passes}"], capture_output=True, text=True)
    assert ran.returncode == 1 and files[2] in ran.stderr and not ran.stdout, ran.stderr


def test_document(tmp_path):
    """The example of docs/patterns.md."""
    document = (pathlib.Path(__file__).parents[2] / "docs" / "patterns.md").read_text()
    blocks = [re.sub("^    ", "", b, flags=re.M) for b in re.findall(r"(?:^    .*\n)+", document, flags=re.M)]
    (tmp_path / "pattern.fx").write_text(blocks[0])
    (tmp_path / "replacement.fx").write_text(blocks[1])
    fxcc_export.export(fx.symbolic_trace(Model(add_relu)), str(tmp_path / "model.fx"))
    command = blocks[2].replace("fxcc", FXCC, 1)
    ran = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    changed = spelled_text((tmp_path / "changed.fx").read_text())
    assert changed[0] == "Tensor<x, y>" and changed[1].startswith("default<Tensor<x, y>")


SPLIT = """graph "m" imported
subgraph 0 "submod_0" imported {
parameter a.weight : f32[2] = [1.0, 2.0]
%x : f32[2] = placeholder[x]
%b_weight : f32[2] = placeholder[b_weight]
%a_weight : f32[2] = get_attr[a.weight]
%mul = call_function[aten.mul.Tensor](%x, %a_weight)
%add = call_function[aten.add.Tensor](%mul, %b_weight)
output((%mul, %add))
}
parameter b.weight : f32[2] = [3.0, 4.0]
module submod_0 : torch.fx.graph_module.GraphModule body 0
%x : f32[2] = placeholder[x]
%b_weight : f32[2] = get_attr[b.weight]
%submod_0 : (f32[2], f32[2]) = call_module[submod_0](%x, %b_weight)
%getitem = call_function[_operator.getitem](%submod_0, 0)
%getitem_1 = call_function[_operator.getitem](%submod_0, 1)
%sub = call_function[aten.sub.Tensor](%getitem, %getitem_1)
output((%sub, %getitem))
"""


def test_split_graph_compiles(tmp_path):
    """Modules that hold graphs are inlined on the way to C."""
    import numpy as np
    (tmp_path / "m.fx").write_text(SPLIT)
    x = np.array([1.5, -2.0], np.float32)
    mul = x * np.array([1, 2], np.float32)
    np.savez(tmp_path / "io.npz", x=x, sub=mul - (mul + np.array([3, 4], np.float32)), mul=mul)
    ran = subprocess.run([FXCC, "check", str(tmp_path / "m.fx"), f"--against={tmp_path}/io.npz"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
