"""torch.compile(model, backend="fxcc"): graphs of TorchDynamo, compiled in memory by fxcc.

    import fxcc.dynamo                                            # registers "fxcc"; an installed fxcc is found without it
    fast = torch.compile(model, backend="fxcc")
    fast = torch.compile(model, backend=fxcc.backend(threads=1, fallback="error"))
    fast = torch.compile(model, backend="fxcc", options={"verbose": True})

Graphs come through AOTAutograd: functional, of aten operators; forward and backward apart. See docs/torch-compile.md.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import dataclasses
import functools
import gc
import importlib
import itertools
import operator
import sys
import threading
import warnings

import torch
from torch._dynamo import callback_handler, disable
from torch._dynamo.backends import registry
from torch._dynamo.utils import flatten_graph_inputs

from . import _core
from . import _core
from ._core import ArgumentError, UnsupportedError
from ._torch_direct import Declined, trace
from ._torch_graph import compilable, is_random, knows, plain, value
from ._torch_run import Program, Refused, told

__all__ = ["Options", "backend"]

NUMBERS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Options:
    """training: graphs that compute gradients are compiled, too. threads, level, cache: as fxcc.compile's. fallback: what fxcc lacks runs in eager
    ("eager"), or is an error ("error"). random: who draws random numbers; "fxcc": compiled code, by Philox, from a state that torch's generator gives;
    "torch": torch, the same as in eager. verbose: each compile writes a line to stderr."""

    training: bool = True
    threads: int = 0
    level: int = 0
    cache: str | None = None
    fallback: str = "eager"
    random: str = "fxcc"
    verbose: bool = False

    def __post_init__(self):
        if self.fallback not in ("eager", "error"):
            raise ArgumentError(f"fallback: expected 'eager' or 'error', got {self.fallback!r}")
        if self.random not in ("fxcc", "torch"):
            raise ArgumentError(f"random: expected 'fxcc' or 'torch', got {self.random!r}")
        if not isinstance(self.threads, int) or self.threads < 0:
            raise ArgumentError(f"threads: expected a number of at least 0, got {self.threads!r}")
        if self.level not in (0, 1, 2, 3):
            raise ArgumentError(f"level: expected 0 to 3, got {self.level!r}")
        if self.cache is not None and not isinstance(self.cache, str):
            raise ArgumentError(f"cache: expected a folder's path or None, got {self.cache!r}")

    def but(self, given):
        """These, but for the given ones, a dict or None."""
        unknown = [name for name in given or () if name not in vars(self)]
        if unknown:
            raise ArgumentError(f"fxcc has no option {unknown[0]!r}: expected {', '.join(vars(self))}")
        return dataclasses.replace(self, **(given or {}))


class Compiled:
    """A graph of AOTAutograd. It is compiled by its first call, which tells the values of parameters: those of an inference graph are compiled in,
    packed and folded, for as long as nobody writes or replaces them."""

    def __init__(self, gm, kind, options, frozen):
        self._boxed_call = True  # tells AOTAutograd to hand over a list, which is emptied
        self.gm, self.kind, self.options = gm, kind, options
        self.name = f"{kind}{next(NUMBERS)}"
        self.placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.frozen = frozen        # numbers of placeholders that may be compiled in
        self.changes = 0            # times that one of those was changed
        self.refused = {}
        self.warned = False
        self.lock = threading.Lock()
        self.state = None           # (program, fingerprint, frozen), of one compile

    def __call__(self, values):
        state = self.state
        if state is None:
            state = self.compile(values)
        elif state[2] and _core.fingerprint(values, state[2]) != state[1]:
            state = self.changed(values)
        return state[0](values)

    def compile(self, values):
        with self.lock:
            if self.state is None:
                self.frozen = tuple(i for i in self.frozen if can_freeze(values[i]))
                self.make(values)
            return self.state

    def make(self, values):
        frozen = self.frozen
        constants = {self.placeholders[i]: values[i].detach() for i in frozen}
        program = Program(self.gm, self.name, constants, self.options, self.refused)
        program.constants = constants  # alive as long as the code that reads them
        self.report(program)
        self.state = program, _core.fingerprint(values, frozen) if frozen else None, frozen

    def changed(self, values):
        """A parameter was written or replaced: compiled again with its value; what changes once more is an input from then on."""
        with self.lock:
            _, old, frozen = self.state
            new = _core.fingerprint(values, frozen)
            if new != old:
                self.changes += 1
                if self.changes > 1:
                    moving = {i for k, i in enumerate(frozen) if new[16 * k:16 * k + 16] != old[16 * k:16 * k + 16]}
                    self.frozen = tuple(i for i in frozen if i not in moving)
                self.make(values)
            return self.state

    def report(self, program):
        refused = list(self.refused) + [n for n in self.gm.graph.nodes if n.op == "call_function" and unknown(n)]
        if refused and self.options.fallback == "error":
            raise UnsupportedError(f"fxcc has no form for {'; '.join(told(dict.fromkeys(refused)))}" + "".join(f"\n{w}" for w in dict.fromkeys(self.refused.values())))
        if refused and not self.warned:
            self.warned = True
            warnings.warn(f"fxcc leaves to eager: {'; '.join(told(dict.fromkeys(refused)))}", stacklevel=2)
        if self.options.verbose:
            print(f"fxcc: {self.name}: {len(self.gm.graph.nodes)} nodes, {program.compiled} compiled parts of {len(program.steps)}, "
                  f"{len(self.frozen)} tensors compiled in, {1e3 * program.seconds:.0f} ms", *dict.fromkeys(self.refused.values()), sep="\n      ", file=sys.stderr)


def unknown(node):
    """A computation that is neither fxcc's, nor one of sizes, nor always torch's."""
    if node.target is operator.getitem:  # as what it is taken of
        return False
    return not compilable(node) and not is_random(node) and not isinstance(value(node), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool, type(None)))


def can_freeze(tensor):
    return isinstance(tensor, torch.Tensor) and not tensor.is_inference() and plain(tensor)


# ---- AOTAutograd's compilers ----------------------------------------------------------------------------------------------------------


def on_the_cpu(gm, options):
    """Whether all tensors are there; says so when not."""
    for n in gm.graph.nodes:
        for val in value(n) if isinstance(value(n), (list, tuple)) else (value(n),):
            if isinstance(val, torch.Tensor) and val.device.type != "cpu":
                text = f"fxcc compiles for the CPU: {n.name} is on {val.device}; the graph runs in eager"
                if options.fallback == "error":
                    raise UnsupportedError(text)
                warnings.warn(text, stacklevel=2)
                return False
    return True


def boxed(gm):
    from functorch.compile import make_boxed_func
    return make_boxed_func(gm.forward)


def frozen_inputs():
    """Numbers of the inputs that dynamo takes for parameters and buffers and that the graph leaves alone."""
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context else None
    if meta is None:
        return ()
    written = {i for i, info in enumerate(meta.input_info) if info.mutates_data or info.mutates_metadata}
    return tuple(i for i in meta.static_input_indices if i not in written)


def compiler(kind, options):
    def compile_graph(gm, example_inputs):
        if (kind != "inference" and not options.training) or not on_the_cpu(gm, options):
            return boxed(gm)
        return Compiled(gm, kind, options, frozen_inputs() if kind == "inference" else ())
    return compile_graph


@functools.cache
def decompositions():
    """torch's own, of operators that fxcc does not know."""
    return {op: rule for op, rule in torch._decomp.decomposition_table.items() if not knows(str(op))}


def backend(**options):
    """A backend for torch.compile. Options: those of fxcc.dynamo.Options."""
    return functools.partial(run_backend, Options().but(options))


def run_backend(defaults, gm, example_inputs, *, options=None, mode=None):
    o = defaults.but(options)
    STILL.watch()
    if mode not in (None, "default"):
        warnings.warn(f"fxcc has no mode {mode!r}", stacklevel=2)
    if any(isinstance(x, (list, tuple, dict)) for x in example_inputs):
        return flatten_graph_inputs(gm, example_inputs, functools.partial(run_backend, o))
    run = direct(gm, o) or through_autograd(gm, example_inputs, o)
    return disable(run, reason="compiled by fxcc")


def direct(gm, options):
    """The graph without AOTAutograd: no gradients, no open sizes, nothing that fxcc lacks; else None."""
    try:
        traced = trace(gm)
    except Exception as e:  # whatever is odd about the graph, AOTAutograd knows or says
        if options.verbose:
            print(f"fxcc: through AOTAutograd: {e if isinstance(e, Declined) else repr(e)}", file=sys.stderr)
        return None
    static = (n.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") for n in gm.graph.nodes if n.op == "placeholder")
    compiled = Compiled(traced, "inference", options, tuple(i for i, kind in enumerate(static) if kind))
    return lambda *values: compiled(list(values))


def through_autograd(gm, example_inputs, o):
    """AOTAutograd's graphs: forward and backward apart where gradients are asked for."""
    from torch._functorch.aot_autograd import aot_module_simplified
    backward = compiler("backward", o)

    def compile_backward(gm, example_inputs):  # what autograd runs is not for dynamo to trace
        return disable(backward(gm, example_inputs), reason="compiled by fxcc")
    # what torch._dynamo.backends.common.aot_autograd does, without inductor, whose import alone takes longer than fxcc's compile
    return aot_module_simplified(gm, example_inputs, fw_compiler=compiler("forward", o), bw_compiler=disable(compile_backward, reason="fxcc compiles"),
                                 inference_compiler=compiler("inference", o), decompositions=decompositions())


# ---- torch's start ------------------------------------------------------------------------------------------------------------------


class Still:
    """Keeps Python's garbage collector off what was there before a compile, while it lasts. Dynamo makes so many objects that all of torch's modules
    are searched again and again, which takes a third of its time. What the compile itself leaves is collected as ever."""

    frozen = False

    def begin(self, _):
        if not gc.get_freeze_count():  # else somebody did, who has reasons
            gc.freeze()
            self.frozen = True

    def end(self, _):
        if self.frozen:
            gc.unfreeze()
            self.frozen = False

    def watch(self):
        """Is told of compiles; torch._dynamo.reset() forgets it."""
        if self.begin not in callback_handler.start_callbacks:
            callback_handler.register_start_callback(self.begin)
            callback_handler.register_end_callback(self.end)


def load():
    """Loads what torch.compile() itself imports with any backend: no garbage comes of that."""
    collects = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module("torch._dynamo.repro.after_dynamo")
    finally:
        if collects:
            gc.enable()


STILL = Still()
STILL.watch()
load()


def fxcc(gm, example_inputs, **kwargs):
    """What "fxcc" is by name."""
    return run_backend(Options(), gm, example_inputs, **kwargs)


if "fxcc" not in registry._BACKENDS:  # an installed one may be there, as an entry point; list_backends() would import all others, and inductor with them
    registry.register_backend(fxcc, name="fxcc")
