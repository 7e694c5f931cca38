"""Methods of Graph and Function that are written in Python, put onto the classes of _core.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import contextlib
import operator

from . import _show
from ._core import ArgumentError, Function, Graph


def _dims(dims):
    """{"s0": 8, "x:0": (2, 16)} as the strings that C takes."""
    if dims is None:
        return None
    if not isinstance(dims, dict):
        raise TypeError(f"dims: expected a dict, {{'s0': 8, 'x:1': (2, 16)}}, got {type(dims).__name__}")
    strings = []
    for name, size in dims.items():
        ends = size if isinstance(size, (tuple, list)) else (size, size)
        if len(ends) != 2 or not all(hasattr(end, "__index__") for end in ends):
            raise ArgumentError(f"dims: expected a number or (least, most) for {name!r}, got {size!r}")
        strings.append(f"{name}={operator.index(ends[0])}" + (f"..{operator.index(ends[1])}" if ends is size else ""))
    return strings or None


def method(cls):
    """Makes a function a method of a class, by its name."""
    def put(function):
        function.__qualname__ = f"{cls.__name__}.{function.__name__}"
        setattr(cls, function.__name__, function)
        return function
    return put


@method(Graph)
def compile(self, target="jit", *, dims=None, **options):
    """Compiles the graph, which is left as it is, and gives a Function. target and options as fxcc.compile says."""
    if target == "jit":
        return self._compile(dims=_dims(dims), **options)
    if target == "c":
        from . import _native
        return _native.build(self, _dims(dims), options)
    if isinstance(target, str) and target.startswith("cuda"):
        from . import _cuda
        return _cuda.build(self, target, _dims(dims), options)
    raise ArgumentError(f"target: expected 'jit', 'c', 'cuda' or 'cuda:N', got {target!r}")


@method(Graph)
def emit_c(self, directory, *, dims=None, **options):
    """Writes C sources into a folder, made if missing, and says how large things are: {"arena_size": ..., "weights_size": ..., ...}, in bytes.

    options: target ("native", a preset or file of `fxcc target`), prefix of names, threads, link_runtime (call libfxrt instead of pasting kernels),
    check (a program with golden vectors too), weights ("default", "c", "bin", "incbin"), disable, dims as in fxcc.compile. docs/emitted-c.md tells how
    to use what is written. Raises fxcc.FileError, fxcc.UnsupportedError, fxcc.ArgumentError.
    """
    return self._emit_c(directory, dims=_dims(dims), **options)


@method(Graph)
def interpret(self, *inputs):
    """Runs the graph by the reference interpreter, node by node: slow, exact, for any graph. Outputs as a Function gives them, always new.

    Raises fxcc.ShapeError when an input's shape or dtype is not the placeholder's, fxcc.UnsupportedError naming a node that cannot be run.
    """
    return self._interpret(inputs)


@contextlib.contextmanager
def _inserting(graph, node, after):
    old = graph._insert(node, after)
    try:
        yield
    finally:
        graph._restore(old)


@method(Graph)
def inserting_before(self, node=None):
    """`with graph.inserting_before(node):` nodes made inside come before it; None: at the end."""
    return _inserting(self, node, False)


@method(Graph)
def inserting_after(self, node=None):
    """`with graph.inserting_after(node):` nodes made inside come behind it, in order of making; None: at the beginning."""
    return _inserting(self, node, True)


@method(Graph)
def __copy__(self):
    """Graph.copy, for the module copy."""
    return self.copy()


@method(Graph)
def __deepcopy__(self, memo):
    """Graph.copy, for the module copy."""
    return self.copy()


for name in ("show", "_repr_svg_", "_repr_html_"):
    setattr(Graph, name, getattr(_show, name))


def _sizes(value):
    return "[" + ", ".join(str(low) if low == high else f"{low}..{'' if high is None else high}" for low, high in value.sizes) + "]"


def _nested(tree, values):
    if isinstance(tree, tuple):
        return "(" + ", ".join(_nested(t, values) for t in tree) + ("," if len(tree) == 1 else "") + ")"
    if isinstance(tree, list):
        return "[" + ", ".join(_nested(t, values) for t in tree) + "]"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k!r}: {_nested(t, values)}" for k, t in tree.items()) + "}"
    return values[tree] if isinstance(tree, int) and not isinstance(tree, bool) and 0 <= tree < len(values) else repr(tree)


def signature(self):
    """'(x: float32[1, 3, 32, 32]) -> float32[1, 10]'; a size that is open is '2..64' or '0..', an input that calls write has '(changed)'."""
    inputs = ", ".join(f"{v.name}: {v.dtype}{_sizes(v)}{' (changed)' if v.changed else ''}" for v in self.inputs)
    return f"({inputs}) -> {_nested(self.tree, [v.dtype + _sizes(v) for v in self.outputs])}"


Function.signature = property(signature)


@method(Function)
def emit_c(self, directory, **options):  # noqa: F811
    """Writes the C sources of its graph, with the options it was compiled with unless others are given: Graph.emit_c."""
    given = {k: v for k, v in self.options.items() if k in ("threads", "disable")}
    dims = self.options.get("dims")
    if "dims" in options:
        dims = _dims(options.pop("dims"))
    return self.graph._emit_c(directory, dims=dims, **{**given, **options})


@method(Function)
def save(self, path):
    """Writes its graph, as .fx or .pt2: Graph.save."""
    self.graph.save(path)


@method(Function)
def _repr_html_(self):
    return _show.function_html(self)


@method(Function)
def __enter__(self):
    return self


@method(Function)
def __exit__(self, *exception):
    self.close()
