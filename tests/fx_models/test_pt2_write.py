"""Archives written by fxcc: torch.export.load reads them, they run the same, fxcc reads them back to the same text.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import zipfile

import pytest
import torch

import zoo
from fxcc_tool import assert_close, fxcc

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "frontend" / "fixtures"
WRITTEN = ["counter", "counter_inplace", "plain", "plain_decomposed", "storage", "names"]
REFUSED = {"cond": "higher_order.cond", "unsupported": "aten.fft_fft.default", "nested": "no tensor"}


def text(path):
    """Without the first line, which names the file."""
    return fxcc("show", "--text", path).split("\n", 1)[1]


def leaves(v):
    return torch.utils._pytree.tree_leaves(v)


def round_trip(path, folder):
    out = folder / path.name
    fxcc("opt", path, "--passes=normalize_args", "-o", out)
    assert [p.name for p in folder.iterdir()] == [path.name]
    return torch.export.load(path), torch.export.load(out), out


@pytest.mark.parametrize("name", WRITTEN)
def test_fixtures(name, tmp_path):
    before, after, out = round_trip(FIXTURES / f"{name}.pt2", tmp_path)
    if name == "names":  # torch cannot run its own: a submodule called quo"te
        assert text(out).count("\n%") == text(FIXTURES / "names.pt2").count("\n%")
        return
    assert text(out) == text(FIXTURES / f"{name}.pt2")
    args, kwargs = before.example_inputs
    for key, p in before.state_dict.items():  # before a run: one of the fixtures counts its calls
        assert torch.equal(after.state_dict[key], p) and after.state_dict[key].requires_grad == p.requires_grad
    with torch.no_grad():
        expected, got = before.module()(*args, **kwargs), after.module()(*args, **kwargs)
    assert torch.utils._pytree.tree_structure(got) == torch.utils._pytree.tree_structure(expected)
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name, tmp_path):
    error = fxcc("opt", FIXTURES / f"{name}.pt2", "--passes=eliminate_dead_code", "-o", tmp_path / "out.pt2", fails=True)
    assert REFUSED[name] in error and not list(tmp_path.iterdir()), error


@pytest.mark.parametrize("name, decomposed", [("simple_cnn", False), ("mixed", False), ("mixed", True), ("shufflenet_v2_x1_0", False),
                                              ("resnet18", True)])
def test_models(name, decomposed, tmp_path):
    exported = zoo.export(name)
    path = exported.decomposed if decomposed else exported.path
    _, after, out = round_trip(path, tmp_path)
    assert text(out) == text(path)
    with torch.no_grad():
        for x, y in zip(exported.inputs, exported.outputs, strict=True):
            assert_close([t.numpy() for t in leaves(after.module()(*map(torch.from_numpy, x)))], y)


def test_dynamic_sizes(tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x):
            n, m = x.shape[:2]
            return (x.reshape(n * m, 3) * n).relu(), x.flatten(1)[:, : m - 1]
    n, m = torch.export.Dim("n", min=2, max=64), torch.export.Dim("m", min=3)
    program = torch.export.export(Net(), (torch.randn(4, 5, 3),), dynamic_shapes={"x": {0: n, 1: m}})
    torch.export.save(program, tmp_path / "dynamic.pt2")
    (tmp_path / "out").mkdir()
    before, after, out = round_trip(tmp_path / "dynamic.pt2", tmp_path / "out")
    assert text(out) == text(tmp_path / "dynamic.pt2")
    for shape in ((4, 5, 3), (2, 7, 3), (64, 3, 3)):
        x = torch.randn(shape)
        for a, b in zip(after.module()(x), before.module()(x), strict=True):
            assert torch.equal(a, b)
    with pytest.raises(Exception):  # the range is kept
        after.module()(torch.randn(65, 5, 3))


def test_archive_is_sound(tmp_path):
    """Checksums, stored entries at multiples of 64, and the same bytes each time."""
    _, _, out = round_trip(FIXTURES / "storage.pt2", tmp_path)
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        for entry in archive.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED
            head = out.read_bytes()[entry.header_offset:entry.header_offset + 30]
            at = entry.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
            assert at % 64 == 0
    first = out.read_bytes()
    fxcc("opt", FIXTURES / "storage.pt2", "--passes=normalize_args", "-o", out)
    assert out.read_bytes() == first


def test_storages_are_written_once(tmp_path):
    """Tensors that share memory share an entry, also after a .fx between."""
    fxcc("opt", FIXTURES / "storage.pt2", "--passes=normalize_args", "-o", tmp_path / "a.fx")
    fxcc("opt", tmp_path / "a.fx", "--passes=normalize_args", "-o", tmp_path / "b.pt2")
    count = [sum("/weight_" in n or "/tensor_" in n for n in zipfile.ZipFile(p).namelist()) for p in (FIXTURES / "storage.pt2", tmp_path / "b.pt2")]
    assert count[0] == count[1] > 0


def test_captured_graphs_are_refused_with_advice(tmp_path):
    (tmp_path / "net.fx").write_text('graph "net" captured\nmodule m : torch.nn.ReLU\n\n%x : f32[2] = placeholder[x]\n'
                                     '%y = call_module[m](%x)\noutput(%y)\n')
    error = fxcc("opt", tmp_path / "net.fx", "--passes=eliminate_dead_code", "-o", tmp_path / "out.pt2", fails=True)
    assert "legalize" in error and not (tmp_path / "out.pt2").exists()
