"""FX's Python as fxcc prints it: against torch.fx's own text to the byte, and run under torch.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

FXCC names the command. Run by tests/pytest python_code.

The text is FX's `code` behind the import lines that it needs. It differs on purpose, and only there (docs/text.md):
functions that torch has under two names may have the other one, methods of torch.Tensor are said so; of type hints only plain classes are kept; what FX's text would get
wrong (keywords and odd characters in names, `-2 ** x`, names that hide torch or nan, keyword-only parameters)."""
import json
import keyword
import math
import operator
import os
import pathlib
import subprocess
import sys
import types
from random import Random

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import fx, nn
from torch.fx.node import _get_qualified_name
from torch.utils import _pytree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models"), str(ROOT / "tests" / "frontend")]
import fxcc_export  # noqa: E402
import make_fixtures  # noqa: E402
import zoo  # noqa: E402

FXCC = os.environ.get("FXCC", "fxcc")
FIXTURES = ROOT / "tests" / "frontend" / "fixtures"


def show(form, path):
    done = subprocess.run([FXCC, "show", form, str(path)], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(form, module, folder):
    path = folder / "m.fx"
    fxcc_export.export(module, path)
    return show(form, path)


def split(text):
    """Import lines, and the rest, which begins as FX's does."""
    lines = text.split("\n")
    n = next(i for i, line in enumerate(lines) if not line.startswith(("import ", "from ")))
    return "\n".join(lines[:n]), "\n" + "\n".join(lines[n + 1:]) if n else text


def run(text, root, *args, **kwargs):
    """The code as a method of root, run."""
    names = {}
    exec(compile(text, "<fxcc>", "exec"), names)
    return types.MethodType(names["forward"], root)(*args, **kwargs)


def same(a, b):
    a, a_tree = _pytree.tree_flatten(a)
    b, b_tree = _pytree.tree_flatten(b)
    assert a_tree == b_tree
    for x, y in zip(a, b):
        if isinstance(x, torch.Tensor):
            torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)
        else:
            assert x == y or (x != x and y != y)


# ---- to the byte ---------------------------------------------------------------------------------------------------------------


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)))
        self.scale = nn.Parameter(torch.rand(4, 1, 1))
        self.register_buffer("shift", torch.rand(4, 1, 1))
        self.fc = nn.Linear(4 * 4 * 4, 5)

    def forward(self, x, y=1, *, mask=None):
        x = self.features(x) * self.scale + self.shift
        x = x + y
        return self.fc(torch.flatten(x, 1)), self.features[2][0](x)


def infix(x, y):
    return (x + y, x - y, x * y, x / y, x // y, x % y, x ** 2, 2 ** x, x @ y.t(), -x, +x, x < y, x <= y, x > y, x >= y, x == y, x != y,
            1 - x, 2 / x, 3 // y, abs(x), x + 1.5, x * -2, x - -1e-7)


def bits(x, y):
    return x & y, x | y, x ^ y, ~x, x << 1, x >> y, 3 & x


def inplace(x, y):
    x += y
    x *= 2
    return x


def indexing(x):
    return x[0], x[:, 1:3], x[..., None], x[::2, -1], x[x > 0], x[[0, 1]], x[1:, ..., None, :]


def constants(x):
    return (torch.clamp(x, -math.inf, math.inf), torch.full_like(x, math.nan), x * 1e15, x * 1e16, x * 123456789012345678, x * 5e-324, x * 0.1,
            x + 1e22, x * -0.0, x + 2j, x * (1 - 0.5j), x.to(torch.float64), x.to(torch.bfloat16), torch.ones_like(x, dtype=torch.int32, device="cpu"), torch.zeros_like(x, device=torch.device("cpu")),
            x.contiguous(memory_format=torch.contiguous_format), {"a": x, "it's": [x, (x,)]}, (), [], ("q'", 'd"', "b\\n\n\t", "é", 'both \' "'),
            torch.div(x, 3, rounding_mode="floor"), slice(None, 2, None), True, None, ...)


def methods(x, y):
    y = y.view(x.size(0), -1).permute(1, 0).contiguous()
    return y.sum(dim=(0,), keepdim=True).type_as(x), x.shape, x.T, x.dtype, y.add_(1)


def functions(x, w):
    x = F.relu(x, inplace=False)
    x = F.conv2d(x, w, bias=None, stride=(1, 1), padding=1)
    x = F.max_pool2d(x, 2, stride=2)
    x = F.softmax(x, dim=1)
    x = F.interpolate(x, scale_factor=2.0, mode="nearest")
    return torch.cat([x, x], dim=1), torch.add(x, x, alpha=2), F.gelu(x, approximate="tanh"), torch.relu(x)


def unused(x, y, z):
    torch.relu(y)
    x.add_(y)
    return x


def builtin_names(input, max, type, id, x):
    sum = input + max
    return sum * type, id, x.sum(), torch.max(x)


def defaults(x, a=1, b=None, c=(1, 2.5), d="s", e=math.inf):
    return x + a


def hints(x: torch.Tensor, y: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n + y


def variadic(x, *args, **kwargs):
    return x


def numbers(x):
    return len((x, x)), math.sqrt(2.0) * x, operator.contains([1, 2], 1), torch.ops.aten.add.Tensor(x, x, alpha=3), torch.ops.aten.relu(x)


def constant(x):
    return 1


def identity(x):
    return x


TRACED = [infix, bits, inplace, indexing, constants, methods, functions, unused, builtin_names, defaults, hints, variadic, numbers, constant, identity]


def expected(module, text):
    """FX's text with fxcc_export's spelling of the functions that have two."""
    for n in module.graph.nodes:
        if n.op != "call_function":
            continue
        name, ours = _get_qualified_name(n.target), fxcc_export.function_name(n.target)
        if name.startswith("torch.") and ours.startswith("torch.") and name != ours:
            text = text.replace(f" = {name}(", f" = {ours}(")
    return text.replace(" = torch_Tensor_", " = torch.Tensor.")


def traced(function):
    return fx.symbolic_trace(function)


@pytest.mark.parametrize("function", TRACED, ids=lambda f: f.__name__)
def test_code_of_functions_is_torch_s(function, tmp_path):
    module = traced(function)
    imports, code = split(shown("--code", module, tmp_path))
    assert code == expected(module, module.code)


def test_code_of_modules_is_torch_s(tmp_path):
    module = traced(Layers().eval())
    imports, code = split(shown("--code", module, tmp_path))
    assert code == module.code
    assert imports == "import torch"


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x1_0", "squeezenet1_1", "densenet121",
                                  "regnet_y_400mf", "efficientnet_b0"])
def test_code_of_torchvision_is_torch_s(name, tmp_path):
    module = traced(getattr(torchvision.models, name)().eval())
    _, code = split(shown("--code", module, tmp_path))
    assert code == expected(module, module.code)


def made():
    """What tracing does not make: items set, methods of a path, getattr, odd keywords."""
    g = fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y", default_value=2)
    g.call_function(operator.setitem, (x, (slice(None), 0), y))
    a = g.call_function(operator.iadd, (x, y))
    b = g.call_function(getattr, (a, "T"))
    c = g.call_function(getattr, (a, "nothing", 5))
    d = g.call_function(operator.mul, (b, 2))
    e = g.call_function(torch.Tensor.add_, (d, 1))
    f = g.call_function(torch._C._nn.gelu, (e,), {"approximate": "none"})
    h = g.call_function(operator.neg, (f,))
    g.output({"h": h, "c": [c, (h,)]})
    return fx.GraphModule(nn.Module(), g)


def test_code_of_made_graphs_is_torch_s(tmp_path):
    module = made()
    _, code = split(shown("--code", module, tmp_path))
    assert code == expected(module, module.code)


@pytest.mark.parametrize("function", TRACED, ids=lambda f: f.__name__)
def test_readable_of_functions_is_torch_s(function, tmp_path):
    module = traced(function)
    text = module.print_readable(print_output=False)
    name = text[len("class "):text.index("(")]
    assert shown("--readable", module, tmp_path).replace("class GraphModule", f"class {name}", 1) == expected(module, text)


def test_readable_has_types_as_torch_s(tmp_path):
    """Types as torch prints them; FX does not know those of attributes, and says nothing of modules."""
    from torch.fx.passes.shape_prop import ShapeProp
    module = traced(Layers().eval())
    ShapeProp(module).propagate(torch.rand(1, 3, 8, 8))
    for n in module.graph.nodes:
        n.meta.pop("nn_module_stack", None)
        if n.op == "get_attr":
            n.meta["val"] = module.get_parameter(n.target).data if n.target == "scale" else module.get_buffer(n.target)
    text = module.print_readable(print_output=False)
    assert shown("--readable", module, tmp_path) == text.replace("class Layers", "class GraphModule", 1)
    assert 'features_0: "f32[1, 4, 8, 8]" = ' in text


# ---- run -------------------------------------------------------------------------------------------------------------------------


def inputs_of(function):
    torch.manual_seed(0)
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    return {
        bits: (torch.randint(0, 9, (4,)), torch.randint(0, 3, (4,))),
        functions: (torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3)),
        methods: (x, y),
        unused: (x, y, y),
        builtin_names: (x, y, x, y, x),
        indexing: (torch.randn(4, 5, 3),),
        hints: (x, y, 3),
    }.get(function, (x, y)[:function.__code__.co_argcount])


@pytest.mark.parametrize("function", [f for f in TRACED if f not in (defaults, variadic)], ids=lambda f: f.__name__)
def test_code_of_functions_runs(function, tmp_path):
    module = traced(function)
    text = shown("--code", module, tmp_path)
    clone = lambda: [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs_of(function)]  # noqa: E731
    same(run(text, module, *clone()), function(*clone()))


def test_code_of_modules_runs(tmp_path):
    module = Layers().eval()
    text = shown("--code", traced(module), tmp_path)
    x = torch.randn(2, 3, 8, 8)
    same(run(text, module, x), module(x))
    same(run(text, module, x, y=3), module(x, y=3))


def test_code_of_made_graphs_runs(tmp_path):
    module = made()
    text = shown("--code", module, tmp_path)
    x = torch.randn(3, 3)
    same(run(text, module, x.clone()), module(x.clone()))


@pytest.mark.parametrize("name", ["simple_cnn", "mnist_cnn", "mixed", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x1_0"])
def test_zoo_runs(name, tmp_path):
    """The aten graph of torch.export as code, on the exported program's own parameters."""
    model = zoo.export(name)
    root = torch.export.load(model.path).module()
    x = [torch.from_numpy(a) for a in model.inputs[0]]
    same(_pytree.tree_leaves(run(show("--code", model.path), root, *x)), _pytree.tree_leaves(root(*x)))


def test_devices(tmp_path):
    module = traced(lambda x: (x.to(torch.device("cuda", 1)), x.to(torch.device("meta"))))
    assert split(shown("--code", module, tmp_path))[1] == module.code


def test_exported_names_run():
    """FX's own text for these names is no Python."""
    x = [torch.rand(2) for _ in range(3)]
    root = make_fixtures.Names()
    same(run(show("--code", FIXTURES / "names.pt2"), root, *x), (root(*x),))


@pytest.mark.parametrize("name", ["plain", "plain_decomposed", "storage", "dynamic", "nested", "scalars", "cond", "unsupported", "counter"])
def test_exported_runs(name):
    path = FIXTURES / f"{name}.pt2"
    program = torch.export.load(path)
    root = program.module()
    args, kwargs = program.example_inputs
    got = run(show("--code", path), root, *args, **kwargs)
    want = root(*args, **kwargs)
    if name in ("nested", "plain", "plain_decomposed"):
        same(got, want)
    else:
        same(_pytree.tree_leaves(got), _pytree.tree_leaves(want))


# ---- names that get in the way ------------------------------------------------------------------------------------------------------


class Odd(nn.Module):
    """Submodules and parameters by names that are no attributes in Python's grammar."""
    NAMES = ["class", "0", "nan", "def", "a b", 'quo"te', "back\\slash", "é", "Ⅷ", "new\nline", "torch", "self", "None", "_", "x" * 300, "🙂"]

    def __init__(self):
        super().__init__()
        for name in self.NAMES:
            self.add_module(name, nn.Linear(2, 2))
            self.register_parameter(f"p {name}", nn.Parameter(torch.rand(2)))
        self.add_module("1", nn.Sequential(nn.Sequential(nn.Linear(2, 2))))


def test_odd_modules_and_parameters(tmp_path):
    """Written as .fx text: GraphModule would compile FX's own code, which is no Python here."""
    root = Odd()
    x = want = torch.ones(3, 2)
    lines = ["graph g captured"]
    for name in Odd.NAMES:
        word = json.dumps(name, ensure_ascii=False)
        lines += [f"parameter {json.dumps('p ' + name, ensure_ascii=False)} : f32[2] = [0.0, 0.0]", f"module {word}"]
    lines += ['module "1.0.0"', "", "%m0 = placeholder[x]"]
    for i, name in enumerate(Odd.NAMES):
        lines += [f"%c{i} = call_module[{json.dumps(name, ensure_ascii=False)}](%m{i})",
                  f"%p{i} = get_attr[{json.dumps('p ' + name, ensure_ascii=False)}]", f"%m{i + 1} = call_function[torch.add](%c{i}, %p{i})"]
        want = getattr(root, name)(want) + getattr(root, f"p {name}")
    lines += [f"%last = call_module[\"1.0.0\"](%m{len(Odd.NAMES)})", "output(%last)"]
    want = getattr(root, "1")[0][0](want)
    path = tmp_path / "odd.fx"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    same(run(show("--code", path), root, x), want)


HIDING = '''graph g captured
parameter torch : f32[2] = [0.0, 0.0]

%torch : f32[2] = placeholder[torch]
%nan = placeholder[self]
%inf = placeholder["no word"]
%x_1 = placeholder[nan]
%x = placeholder[z]
%z = placeholder[x]
%y = placeholder[class]
%getattr = call_function[torch.full_like](%torch, nan)
%slice = call_function[operator.getitem](%nan, slice(None, inf, None))
%device = call_function[torch.ones](2, dtype=torch.float64, device=device("cpu"))
%self = call_function[operator.pow](-2, %inf)
%abs = call_function[operator.abs](%x_1)
%abs_1 = call_function[builtins.abs](%x)
%complex = call_function[operator.mul](%z, complex(nan, inf))
%len = call_function[builtins.len](%torch)
%len_1 = call_function[builtins.len](%z)
%Ellipsis = call_function[operator.getitem](%z, (..., None))
%math_floor = call_function[math.floor](2.5)
%math_floor_1 = call_function[math.floor](3.5)
%kw = call_function[builtins.dict](%y, "not a word"=1, "class"=2)
%t = get_attr[torch]
%p = call_function[torch.nn.functional.relu](%t)
output((%getattr, %slice, %device, %self, %abs, %abs_1, %complex, %len, %len_1, %Ellipsis, %math_floor, %math_floor_1, %kw, %p))
'''


class Anything:
    """A list that takes any slice."""

    def __init__(self, items):
        self.items = items

    def __getitem__(self, i):
        assert i == slice(None, math.inf, None)
        return self.items


def test_names_that_hide_others(tmp_path):
    path = tmp_path / "hiding.fx"
    path.write_text(HIDING)
    text = show("--code", path)
    a, b, c = torch.rand(2), torch.rand(2), torch.rand(2)
    root = types.SimpleNamespace(torch=-a)
    # in order: torch, self, "no word", nan, z, x, class
    got = run(text, root, a, Anything([1]), 4, -b, -c, c, [("k", 0)])
    want = (torch.full_like(a, math.nan), [1], torch.ones(2, dtype=torch.float64), 16, b, c, c * complex(math.nan, math.inf), 2, 2,
            c[..., None], 2, 3, {"k": 0, "not a word": 1, "class": 2}, torch.zeros(2))
    assert got[2].dtype == torch.float64
    same(got, want)
    # Parameters keep the names that Python can say; "self" is the module.
    names = parameters(text)
    assert [names[i] for i in (0, 3, 4, 5)] == ["torch", "nan", "z", "x"]
    values = dict(zip(names, [a, Anything([1]), 4, -b, -c, c, [("k", 0)]]))
    same(run(text, root, **values), want)


def parameters(text):
    names = {}
    exec(compile(text, "<fxcc>", "exec"), names)
    code = names["forward"].__code__
    return code.co_varnames[1:code.co_argcount]


WORDS = ["torch", "operator", "nan", "inf", "device", "slice", "getattr", "complex", "Ellipsis", "len", "abs", "x", "x_1", "x_2", "y", "math_floor",
         "self_1", "torch_1", "len_1", "nan_1", "input", "_", "a"]
TARGETS = WORDS + ["class", "self", "None", "a b", "0", "é", "in", "*"]


def test_random_names(tmp_path):
    """Graphs of random sums whose nodes, parameters and attributes have each other's names: computed here while they are made."""
    random = Random(1)
    for case in range(60):
        lines, values, arguments, attributes = [f'graph "{case}" captured'], {}, {}, {}
        nodes = random.sample(WORDS, len(WORDS))
        targets = random.sample(TARGETS, random.randrange(1, 8))
        for target in [t for t in TARGETS if random.random() < 0.3]:
            attributes[target] = random.randrange(1000)
            lines.append(f"buffer {json.dumps(target, ensure_ascii=False)} : i64[] = [{attributes[target]}]")
        lines.append("")
        for target in targets:
            name = nodes.pop()
            values[name] = arguments[target] = random.randrange(1000)
            lines.append(f"%{name} = placeholder[{json.dumps(target, ensure_ascii=False)}]")
        while len(nodes) > 2:
            name, a, b = nodes.pop(), *random.choices(list(values), k=2)
            kind = random.randrange(7)
            if kind == 0 and attributes:
                target = random.choice(list(attributes))
                lines.append(f"%{name} = get_attr[{json.dumps(target, ensure_ascii=False)}]")
                values[name] = attributes[target]
                continue
            call, values[name] = [
                (f"operator.add](%{a}, %{b})", values[a] + values[b]), (f"operator.sub](%{a}, %{b})", values[a] - values[b]),
                (f"builtins.abs](%{a})", abs(values[a])), (f"builtins.len]([%{a}, %{b}, inf, ...])", 4),
                (f"math.floor](%{a})", values[a]), (f"operator.getitem]((%{a}, nan, %{b}), 2)", values[b]),
                (f"operator.neg](%{a})", -values[a])][kind]
            lines.append(f"%{name} = call_function[{call}")
        kept = random.choices(list(values), k=6)
        lines.append(f"output(({', '.join('%' + n for n in kept)}))")
        path = tmp_path / "m.fx"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        text = show("--code", path)
        root = types.SimpleNamespace(**attributes)
        assert run(text, root, *arguments.values()) == tuple(values[n] for n in kept), text
        # Called by keyword: what Python can say as a parameter has its own name.
        plain = {t: v for t, v in arguments.items() if t.isidentifier() and t.isascii() and not keyword.iskeyword(t) and t != "self"}
        names = parameters(text)
        assert set(plain) <= set(names)
        assert run(text, root, **dict(zip(names, arguments.values()))) == tuple(values[n] for n in kept)


def test_infix_that_would_bind_otherwise(tmp_path):
    path = tmp_path / "m.fx"
    path.write_text("graph g captured\n\n%x = placeholder[x]\n%a = call_function[operator.pow](-2, %x)\n%b = call_function[operator.pow](%x, -2)\n"
                    "%c = call_function[operator.sub](%x, -1.5)\n%d = call_function[operator.iadd](3, %x)\n%e = call_function[operator.iadd](%x, 1)\n"
                    "%f = call_function[operator.neg](-3)\n%g = call_function[operator.getitem]((1, 2), 0)\n"
                    "output((%a, %b, %c, %d, %e, %f, %g))\n")
    same(run(show("--code", path), types.SimpleNamespace(), 4), ((-2) ** 4, 4 ** -2, 5.5, 7, 5, 3, 1))


def test_keyword_only_parameters_of_normalised_calls(tmp_path):
    """Calls in normal form have all by position; torch takes some by keyword alone."""
    path = tmp_path / "m.fx"
    path.write_text("graph g imported\n\n%x : f32[2] = placeholder[x]\n%a = call_function[aten.add.Tensor](%x, %x, 3)\n"
                    "%b = call_function[torch.add](%x, %x, 3)\n%c = call_function[_operator.add](%x, %x, 1)\n"
                    "%d = call_function[aten.full_like.default](%x, 2.5, torch.float64, None, None, False, None)\noutput((%a, %b, %c, %d))\n")
    text = show("--code", path)
    assert "alpha = 3" in text and "c = x + x" in text and "dtype = torch.float64, pin_memory = False)" in text
    x = torch.rand(2)
    same(run(text, types.SimpleNamespace(), x), (x * 4, x * 4, x * 2, torch.full_like(x, 2.5, dtype=torch.float64)))


def test_sizes_of_inputs_are_known(tmp_path):
    path = tmp_path / "m.fx"
    path.write_text("graph g imported\nsymbol s0 in [2, 64]\n\n%x : f32[s0, 3] = placeholder[x]\n"
                    "%a = call_function[torch.zeros]([sym(2*s0 + 1), sym(Max(s0, 5))])\n%s0 = call_function[torch.ones]([sym(CeilDiv(s0, 2))])\noutput((%a, %s0))\n")
    same(run(show("--code", path), types.SimpleNamespace(), torch.rand(4, 3)), (torch.zeros(9, 5), torch.ones(2)))
    path.write_text("graph g imported\nsymbol s1 in [2, 64]\n\n%x : f32[s0, 3] = placeholder[x]\n%a = call_function[torch.zeros]([sym(s1)])\noutput(%a)\n")
    done = subprocess.run([FXCC, "show", "--code", str(path)], capture_output=True, text=True)
    assert done.returncode == 1 and "the size 's1' is none of an input's" in done.stderr and "%a" not in done.stdout


def test_what_python_cannot_say_is_refused(tmp_path):
    path = tmp_path / "m.fx"
    path.write_text('graph g captured\n\n%x = placeholder[x]\n%a = call_method[to](%x, memory_format("odd one"))\noutput(%a)\n')
    done = subprocess.run([FXCC, "show", "--code", str(path)], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert "node 'a': expected a layout or memory format of torch's, got 'odd one'" in done.stderr


def test_nested_classes_in_readable():
    text = show("--readable", FIXTURES / "cond.pt2")
    names = {"torch": torch}
    exec(text, names)
    assert {"true_graph_0", "false_graph_0"} <= set(vars(names["Cond"]))


# ---- other forms ----------------------------------------------------------------------------------------------------------------------


def test_tabular_is_torch_s(tmp_path):
    """FX's columns and values; it names functions by repr (<built-in function add>), fxcc by their names."""
    module = traced(Layers().eval())
    rows = [[n.op, n.name, fxcc_export.function_name(n.target) if n.op == "call_function" else n.target, n.args, n.kwargs] for n in module.graph.nodes]
    table = [["opcode", "name", "target", "args", "kwargs"], *[[str(c) for c in row] for row in rows]]
    widths = [max([len(table[0][c]) + 2] + [len(row[c]) for row in table]) for c in range(5)]  # as tabulate pads heads
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in table]
    lines.insert(1, "  ".join("-" * w for w in widths))
    assert shown("--tabular", module, tmp_path) == "\n".join(lines) + "\n"


def json_value(a):
    if isinstance(a, dict):
        (kind, v), = a.items()
        return {"node": lambda: f"%{v}", "tuple": lambda: tuple(map(json_value, v)), "dict": lambda: {k: json_value(x) for k, x in v.items()},
                "slice": lambda: slice(*map(json_value, v)), "float": lambda: float(v), "complex": lambda: complex(*map(json_value, v)),
                "dtype": lambda: getattr(torch, v), "device": lambda: torch.device(v), "ellipsis": lambda: ..., "layout": lambda: eval(v),
                "memory_format": lambda: eval(v)}[kind]()
    return [json_value(x) for x in a] if isinstance(a, list) else a


@pytest.mark.parametrize("function", TRACED, ids=lambda f: f.__name__)
def test_json_has_all_arguments(function, tmp_path):
    module = traced(function)
    graph = json.loads(shown("--json", module, tmp_path), parse_constant=lambda s: pytest.fail(f"{s} is no JSON"))
    nodes = list(module.graph.nodes)
    assert [(n["opcode"], n["name"]) for n in graph["nodes"]] == [(n.op, n.name) for n in nodes]
    for ours, n in zip(graph["nodes"], nodes):
        plain = lambda a: fx.node.map_arg(a, lambda m: f"%{m.name}")  # noqa: E731
        assert repr(tuple(map(json_value, ours["args"]))) == repr(tuple(plain(n.args)))
        assert repr({k: json_value(v) for k, v in ours["kwargs"].items()}) == repr(dict(plain(n.kwargs)))
        assert ours["users"] == [u.name for u in n.users]


def test_json_of_exported(tmp_path):
    for path in sorted(FIXTURES.glob("*.pt2")):
        if path.stem in ("mutation", "input_mutation", "training"):
            continue
        done = subprocess.run([FXCC, "show", "--json", str(path)], capture_output=True, text=True, encoding="utf-8")
        if done.returncode == 0:
            json.loads(done.stdout, parse_constant=lambda s: pytest.fail(f"{s} is no JSON"))
    graph = json.loads(show("--json", FIXTURES / "cond.pt2"))
    assert [g["name"] for g in graph["subgraphs"]] == ["true_graph_0", "false_graph_0"]
    cond = next(n for n in graph["nodes"] if n["name"] == "cond")
    assert cond["args"][1:3] == [{"graph": 0}, {"graph": 1}]
    graph = json.loads(show("--json", FIXTURES / "dynamic.pt2"))
    assert graph["symbols"][0] == {"name": "s77", "min": 2, "max": 64}
    assert graph["nodes"][0]["type"] == {"kind": "tensor", "dtype": "float32", "shape": ["s77", "s27", 3], "strides": ["3*s27", 3, 1]}


def test_dot_draws_modules_with_their_parameters(tmp_path):
    text = shown("--dot", traced(Layers().eval()), tmp_path)
    for part in ['label="{%features_0|op_code=call_module|target=features.0|Conv2d|in_channels: 3\\l', "{features.0.weight|parameter|f32[4, 3, 3, 3]}",
                 "{features.1.running_mean|buffer|f32[4]}", 'fillcolor="LemonChiffon1"', 'fillcolor="AliceBlue"', "|num_users=1|"]:
        assert part in text


def test_dot_draws_parameters_of_modules_inside(tmp_path):
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(4, 2)

        def forward(self, x):
            return self.mha(x, x, x)[0]
    text = shown("--dot", fx.symbolic_trace(Deep()), tmp_path)
    for name, p in Deep().named_parameters():
        assert f"{{{name}|parameter|f32[{', '.join(map(str, p.shape))}]}}" in text


def test_wrong_hints_are_left_out(tmp_path):
    path = tmp_path / "m.fx"
    path.write_text('graph g captured\n\n%x = placeholder[x] meta {"annotation": "no word"}\n%y = placeholder[y] meta {"annotation": "nothing.there"}\n'
                    '%z = placeholder[z] meta {"annotation": 3}\noutput((%x, %y, %z)) meta {"annotation": "tuple"}\n')
    text = show("--code", path)
    assert "def forward(self, x, y, z) -> tuple:" in text
    assert run(text, types.SimpleNamespace(), 1, 2, 3) == (1, 2, 3)
