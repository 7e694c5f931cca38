"""fxcc: PyTorch graphs, compiled.

    f = fxcc.compile("model.pt2")        # or a torch.nn.Module with example inputs, or a Graph
    y = f(x)                             # NumPy arrays or torch tensors, read where they lie

    g = fxcc.load("model.pt2")           # the graph: g.nodes, node.args, node.users, g.run_passes("fuse_conv_bn")
    g.emit_c("out")                      # C sources
    g.save("changed.pt2")

Importing it needs neither torch nor NumPy. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
from . import _core
from ._core import (ArgumentError, Error, FileError, FormatError, Function, Graph, InternalError, Node, ShapeError, UnsupportedError,
                    __version__)
from ._symbol import Symbol

__all__ = ["ArgumentError", "Error", "FileError", "FormatError", "Function", "Graph", "InternalError", "Node", "ShapeError", "Symbol",
           "UnsupportedError", "compile", "load", "passes", "__version__"]

load = _core.load


def passes():
    """The passes that Graph.run_passes takes: {name: documentation}."""
    return {name: doc for name, doc, _ in _core.passes()}


def _dims(dims):
    """{"s0": 8, "x:0": (2, 16)} as the strings that C takes."""
    if not dims:
        return None
    return [f"{name}={size[0]}..{size[1]}" if isinstance(size, tuple) else f"{name}={size}" for name, size in dims.items()]


def graph_of(model, example_inputs=None, dynamic_shapes=None):
    """The Graph of a path, a Graph, a torch.export.ExportedProgram, or a torch.nn.Module (exported with example_inputs, a tuple)."""
    import os

    if isinstance(model, Graph):
        return model
    if isinstance(model, (str, bytes, os.PathLike)):
        return load(model)
    import tempfile

    import torch
    if isinstance(model, torch.nn.Module):
        if example_inputs is None:
            raise ArgumentError("compiling a module needs example_inputs, a tuple of tensors")
        model = torch.export.export(model, tuple(example_inputs), dynamic_shapes=dynamic_shapes)
    if not isinstance(model, torch.export.ExportedProgram):
        raise TypeError(f"expected a path, a Graph, an ExportedProgram or a torch.nn.Module, got {type(model).__name__}")
    with tempfile.TemporaryDirectory(prefix="fxcc-") as folder:
        path = os.path.join(folder, "model.pt2")
        torch.export.save(model, path)
        return load(path)


def compile(model, example_inputs=None, target="jit", *, dynamic_shapes=None, dims=None, threads=0, disable=None, level=0, cache=None,
            directory=None):
    """Compiles a model: a path, a Graph, an ExportedProgram, or a module with example_inputs.

    target "jit": gives a Function, to be called with the model's inputs. "c": writes C sources into directory and gives their sizes.
    dims fixes or narrows open sizes: {"batch": 8, "x:1": (2, 16)}. threads: the most that are used. level: 1 to 3, LLVM's.
    cache: a folder for compiled code; "" for none. Raises fxcc.Error (UnsupportedError names the layer).
    """
    graph = graph_of(model, example_inputs, dynamic_shapes)
    if target == "jit":
        return graph.compile(level=level, threads=threads, dims=_dims(dims), disable=disable, cache=cache)
    if target == "c":
        if directory is None:
            raise ArgumentError("target 'c' needs a directory")
        return graph.emit_c(directory, threads=threads, dims=_dims(dims), disable=disable)
    raise ArgumentError(f"target: expected 'jit' or 'c', got {target!r}")
