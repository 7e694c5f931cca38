"""fxcc: PyTorch graphs, compiled.

    f = fxcc.compile("model.pt2")        # or a torch.nn.Module with example inputs, or a Graph
    y = f(x)                             # NumPy arrays or torch tensors, read where they lie

    g = fxcc.load("model.pt2")           # the graph: g.nodes, node.args, node.users, g.run_passes("fuse_conv_bn")
    g.emit_c("out")                      # C sources
    g.save("changed.pt2")

Importing it needs neither torch nor NumPy. docs/python.md is a tour. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
from __future__ import annotations

try:
    from . import _core
except ImportError as error:
    if "cannot open shared object file" not in str(error):
        raise
    raise ImportError(f"{error}; fxcc needs libminizip, zlib, isl and libgomp (Debian: apt install libminizip1 zlib1g libisl23 libgomp1)") from None
from ._core import (ArgumentError, Error, FileError, FormatError, Function, Graph, InternalError, Node, ShapeError, Tensor, UnsupportedError, Value,
                    __version__, load)
from ._symbol import Symbol
from . import _methods  # noqa: F401 the methods of Graph and Function that are written in Python

__all__ = ["ArgumentError", "Error", "FileError", "FormatError", "Function", "Graph", "InternalError", "Node", "ShapeError", "Symbol", "Tensor",
           "UnsupportedError", "Value", "backend", "compile", "graph_of", "load", "passes", "__version__"]


TYPE_CHECKING = False  # as typing's, whose import takes longer than ours
if TYPE_CHECKING:
    import os
    from typing import Any, Literal, Union

    from ._core import Dims, Path


def __dir__():
    return sorted({*globals()} - {"TYPE_CHECKING", "annotations"})


def backend(**options: Any) -> Any:
    """A backend for torch.compile(model, backend=...) with options of its own: training, threads, level, cache, fallback, random, verbose. Needs torch.

    docs/torch-compile.md tells what they mean; torch.compile(model, backend="fxcc", options={...}) takes the same. Raises ValueError or TypeError for an
    option that does not fit.
    """
    from . import dynamo
    return dynamo.backend(**options)


def passes() -> dict[str, str]:
    """The passes that Graph.run_passes takes: {name: documentation}."""
    return {name: doc for name, doc, _ in _core.passes()}


def graph_of(model: Any, example_inputs: tuple[Any, ...] | None = None, dynamic_shapes: Any = None) -> Graph:
    """The Graph of a path (.pt2, .fx), a Graph, a torch.export.ExportedProgram, or a torch.nn.Module.

    A module is exported with example_inputs, a tuple of tensors, and dynamic_shapes, as torch.export.export takes them. Raises TypeError for another
    model, fxcc.ArgumentError when example_inputs are missing, or dynamic_shapes are given for what is exported already, fxcc.FileError, fxcc.FormatError, fxcc.UnsupportedError, and what torch.export raises.
    """
    import os

    torch = __import__("sys").modules.get("torch")  # who has something of torch has imported it
    if dynamic_shapes is not None and not (torch and isinstance(model, torch.nn.Module)):
        raise ArgumentError(f"dynamic_shapes are for a module, when it is exported: the sizes of a {type(model).__name__} are known; dims narrows open ones")
    if isinstance(model, Graph):
        return model
    if isinstance(model, (str, bytes, os.PathLike)):
        return load(model)
    if torch and isinstance(model, torch.nn.Module):
        if example_inputs is None:
            raise ArgumentError("compiling a module needs example_inputs, a tuple of tensors")
        model = torch.export.export(model, tuple(example_inputs), dynamic_shapes=dynamic_shapes)
    if not torch or not isinstance(model, torch.export.ExportedProgram):
        raise TypeError(f"expected a path, a Graph, an ExportedProgram or a torch.nn.Module, got {type(model).__name__}")
    import tempfile

    with tempfile.TemporaryDirectory(prefix="fxcc-") as folder:
        path = os.path.join(folder, "model.pt2")
        torch.export.save(model, path)
        return load(path)


def compile(model: Any, example_inputs: tuple[Any, ...] | None = None, target: str = "jit", *, dynamic_shapes: Any = None,
            passes: str | None = None, **options: Any) -> Function:
    """Compiles a model: a path, a Graph, an ExportedProgram, or a module with example_inputs (see graph_of). Gives a Function.

    target   "jit": in memory, by LLVM. "c": the C sources are emitted and built with $CC (cc) into a shared object, which is called in the same way.
             "cuda", "cuda:1": in memory, by NVRTC, for a GPU of this machine; torch's CUDA tensors are read and made where they lie, on torch's current stream.
    passes   a pipeline that is run before, "fuse_conv_bn,eliminate_dead_code"; fxcc.passes() tells their names.
    options  those of Graph.compile: dims fixes or narrows open sizes, {"s0": 8, "x:1": (2, 16)}; threads, the most that are used; disable, parts of lowering
             not to do; for "jit" level, 1 to 3, LLVM's, and for "jit" and "cuda" cache, a folder for compiled code ("" for none).

    Raises fxcc.Error: UnsupportedError names the node and layer that fxcc cannot do; ArgumentError, an option. Ctrl-C ends it with KeyboardInterrupt.
    """
    graph = graph_of(model, example_inputs, dynamic_shapes)
    if passes:
        graph, _ = graph.run_passes(passes)
    return graph.compile(target, **options)
