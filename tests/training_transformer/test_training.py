"""Training steps: AOTAutograd's forward and backward graphs against PyTorch, by the interpreter, in memory and as emitted C.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

The graphs are run by torch while they are made, with Philox's numbers where they draw (philox.py): what goes in and comes out is what fxcc has to give.
"""
import pathlib
import subprocess
import sys

import numpy
import pytest
import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd

from models import MODELS
from philox import Interpreter

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import fxcc_export  # noqa: E402


def graphs_of(name, decompositions):
    """(what, graph, inputs, outputs) of a forward and a backward pass; None among outputs where there is no gradient."""
    make, inputs = MODELS[name]
    torch.manual_seed(5)
    torch._dynamo.reset()
    model, args, found = make().train(), [i() for i in inputs], []

    def compiler(what):
        def compile_graph(gm, example_inputs):
            def run(values):
                values = list(values)
                own = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
                with torch.no_grad():
                    out = Interpreter(gm).run(*values)
                found.append((what, gm, own, [None if o is None else o.clone() for o in out]))
                return list(out)
            run._boxed_call = True
            return run
        return compile_graph
    table = dict(core_aten_decompositions()) if decompositions else {}
    # torch's spelling of it gives probabilities where the gradient's kernel wants logarithms of sums
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    loss = torch.compile(model, backend=aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), decompositions=table))(*args)
    loss.backward()
    assert {f[0] for f in found} == {"forward", "backward"}
    return found


def command(*argv):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(str(a) for a in argv)}: exit {done.returncode}\n{done.stdout[-3000:]}"


def drop_none(gm):
    """What has no form in a .fx text goes: outputs that are None, AOTAutograd's notes."""
    for n in gm.graph.nodes:
        n.meta = {k: v for k, v in n.meta.items() if k in ("val", "tensor_meta", "stack_trace")}
    output = next(n for n in gm.graph.nodes if n.op == "output")
    output.args = (tuple(o for o in output.args[0] if o is not None),)
    gm.recompile()


def compare(got, want, what):
    assert len(got) == len(want), what
    for i, (a, b) in enumerate(zip(got, want)):
        b = b.detach().numpy()
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}: output {i}"
        if b.dtype.kind == "f" and b.size:
            finite = numpy.isfinite(b)
            assert numpy.array_equal(a[~finite], b[~finite], equal_nan=True), f"{what}: output {i}"
            a, b = a[finite], b[finite]
            off = numpy.abs(a.astype(numpy.float64) - b).max(initial=0)
            assert off <= 2e-5 * max(numpy.abs(b).max(initial=0), 2e-2), f"{what}: output {i} is off by {off}"
        else:
            assert numpy.array_equal(a, b), f"{what}: output {i}"


@pytest.mark.parametrize("decomposed", (False, True), ids=("aten", "core"))
@pytest.mark.parametrize("name", list(MODELS))
def test_step(fxcc, name, decomposed, tmp_path):
    """decomposed: AOTAutograd spells gradients out itself; what differs then is the graph, which the C of the other shows to be printed well."""
    for what, gm, inputs, outputs in graphs_of(name, decomposed):
        drop_none(gm)
        path, want = tmp_path / f"{what}.fx", [o for o in outputs if o is not None]
        fxcc_export.export(gm, path, inputs)
        numpy.savez(tmp_path / "in.npz", **{f"a{i:03}": t.detach().numpy() for i, t in enumerate(inputs)})
        for way in (["--interpret"], []) if decomposed else (["--interpret"], ["--emit-c"], []):
            command(fxcc, "run", *way, path, *([tmp_path / "in.npz"] if inputs else []), "-o", tmp_path / "out.npz")
            with numpy.load(tmp_path / "out.npz") as z:
                compare([z[k] for k in z.files], want, f"{name}, {what}, {way}")
