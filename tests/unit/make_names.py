"""Writes names_fx.def: what torch.fx names nodes, for test_edit.c. Run it by hand under torch (tests/env) when FX's rules change.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import builtins
import keyword
import operator
import pathlib
import random

import torch
import torch.nn.functional

random.seed(20130)
graph = torch.fx.Graph()
rows = []


def quoted(s):
    return "NULL" if s is None else '"' + "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:03o}" for b in c.encode()) for c in s) + '"'


def add(op, target, name=None, spelled=None):
    node = graph.create_node(op, target, name=name)
    rows.append(f"NAME(FX_{op.upper()}, {quoted(spelled or target)}, {quoted(name)}, {quoted(node.name)})")


letters = "abxyzABZ_019.. -/é"
functions = [(f, f"_operator.{f.__name__}") for f in (operator.add, operator.mul, operator.getitem, operator.and_, operator.truediv)]
functions += [(getattr(torch, n), f"torch.{n}") for n in ("relu", "add", "abs", "sum", "cat", "flatten", "max", "all", "round")]
functions += [(getattr(torch.nn.functional, n), f"torch.nn.functional.{n}") for n in ("relu", "silu", "max_pool2d", "adaptive_avg_pool2d")]
functions += [(getattr, "builtins.getattr"), (len, "builtins.len")]
words = keyword.kwlist + [n for n in dir(builtins) if n != "_"] + ["inf", "nan", "NoneType", "torch", "device", "dtype", "pytree", "fx_pytree"]
for f, spelled in functions * 2:
    add("call_function", f, spelled=spelled)
for target in ["layer1.0.convBlock", "fc.weight", "0.weight", "a.b", "a_b", "__add__", "__", "____", "_1", "_1", "x_1", "x", "x", "x_07", "x_07", "HTTPServer",
               "aBcD", "mod.pascalCase", "mod.ALL_CAPS", "é", "3d", "3d", "x__1", "x__1", "x_", "x_", "a..b", "a-b", "a b"]:
    add(random.choice(["get_attr", "call_module", "call_method", "placeholder"]), target)
for word in random.sample(words, 60):
    add("call_method", word)
    add("call_function", torch.relu, name=word, spelled="torch.relu")
for _ in range(250):
    text = "".join(random.choice(letters) for _ in range(random.randint(1, 7)))
    if random.random() < 0.5:
        text += f"_{random.randint(0, 12)}"
    if random.random() < 0.5:
        add(random.choice(["get_attr", "call_module", "call_method"]), text)
    else:
        add("call_function", torch.neg, name=text, spelled="torch.neg")
header = f"""/* tests/unit/names_fx.def: names that torch.fx gives to nodes created in this order, by make_names.py with torch {torch.__version__.split('+')[0]}.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * NAME(opcode, target, name asked for, name given) */
"""
(pathlib.Path(__file__).parent / "names_fx.def").write_text(header + "\n".join(rows) + "\n")
