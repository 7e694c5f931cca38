"""Whole models captured by torch.fx.symbolic_trace: exported, interpreted, compiled, written back, equal to eager.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc tests/pytest fx_models            the subset that CI runs, and the rows of passes/legalize.def
    FXCC=build/release/bin/fxcc tests/pytest fx_models --full     the other models of the zoo
"""
import numpy
import pytest
import torch
from torch import fx

import zoo
from fxcc_export import export
from fxcc_tool import TOLERANCE, assert_close, fxcc, run


class Captured:
    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.module, self.inputs = zoo.build(name)
        self.path = folder / f"{name}.fx"
        self.traced = fx.symbolic_trace(self.module)
        export(self.traced, self.path, self.inputs[0])
        with torch.no_grad():
            self.outputs = [[t.numpy() for t in zoo.leaves(self.module(x))] for x in self.inputs]


@pytest.fixture(scope="module")
def model(request, tmp_path_factory):
    captured = Captured(request.param, tmp_path_factory.mktemp(request.param))
    yield captured
    for f in captured.folder.iterdir():
        f.unlink()


def test_text_is_read_to_the_byte(model):
    assert fxcc("show", "--text", model.path) == model.path.read_text()


def test_all_nodes_are_there(model):
    """One line a node, in order, with torch.fx's own names."""
    nodes = [line.split(" ")[0][1:] for line in model.path.read_text().splitlines() if line.startswith("%")]
    assert nodes == [n.name for n in model.traced.graph.nodes if n.op != "output"]


def test_emitted_c_equals_eager(model):
    for x, y in zip(model.inputs, model.outputs):
        arrays = {"in0": x.numpy()} | {f"out{i}": a for i, a in enumerate(y)}
        numpy.savez(model.folder / "ref.npz", **arrays)
        scale = max(abs(a).max() for a in y)
        fxcc("check", model.path, "--only=c,jit", "--against", model.folder / "ref.npz", "--rtol", "0", "--atol", repr(float(TOLERANCE * scale)))


def test_legal_form_runs_in_torch(model):
    """The aten graph that it becomes, written as .pt2, is the model to torch.export too."""
    pt2 = model.folder / "legal.pt2"
    fxcc("opt", model.path, "--passes=legalize", "-o", pt2)
    program = torch.export.load(pt2)
    with torch.no_grad():
        for x, y in zip(model.inputs, model.outputs):
            assert_close([t.numpy() for t in zoo.leaves(program.module()(x))], y)
    legal = fxcc("opt", model.path, "--passes=legalize", "-o", model.folder / "legal.fx")
    assert "call_module" not in (model.folder / "legal.fx").read_text(), legal


@pytest.mark.parametrize("name", ["simple_cnn", "mixed"])
def test_interpreter_equals_eager(name, tmp_path):
    captured = Captured(name, tmp_path)
    assert_close(run(captured.path, [captured.inputs[0].numpy()], tmp_path), captured.outputs[0])
