"""The importer against torch: graphs as torch.export has them, values as eager has them (by fxcc run, the reference interpreter).

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

FXCC names the command. Run by tests/pytest frontend."""
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import numpy
import pytest
import torch
from torch.export import export, save
from torch.utils import _pytree

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import make_fixtures as models  # noqa: E402

FXCC = os.environ.get("FXCC", "fxcc")


def fxcc(*argv):
    return subprocess.run([FXCC, *map(str, argv)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ok(*argv):
    done = fxcc(*argv)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fixtures_tell_nothing_of_their_machine():
    for path in sorted((HERE / "fixtures").glob("**/*.pt2")):
        with zipfile.ZipFile(path) as z:
            for name in z.namelist():
                assert not re.search(rb'File \\?"/|/(home|root|tmp|Users)/', z.read(name)), f"{path}: {name}"


def test_source_lines_are_the_model_s():
    """PyTorch's own files are not, wherever they are; with nothing else, a layer's line is better than none."""
    def frame(*files):
        return "".join(f'  File "{f}", line {n + 1}, in forward\n    y = f(x)\n' for n, f in enumerate(files))
    cases = {("/home/me/net.py", "/x/site-packages/torch/nn/modules/conv.py"): "me/net.py:1",
             ("models/net.py", "torch/nn/modules/container.py", "torch/nn/modules/conv.py"): "models/net.py:1",
             ("C:\\\\me\\\\net.py", "C:\\\\lib\\\\torch\\\\nn\\\\modules\\\\conv.py"): "me\\\\net.py:1",
             ("/me/torch/net.py", "/me/torch/layers.py"): "torch/layers.py:2",
             ("/x/site-packages/torch/_export/a.py", "/x/site-packages/torch/nn/modules/conv.py"): "modules/conv.py:2",
             ("/x/site-packages/torchvision/models/resnet.py", "/x/dist-packages/torch/nn/functional.py"): "models/resnet.py:1"}
    source = (HERE / "fixtures" / "counter.pt2").read_bytes()
    for files, expected in cases.items():
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(out, "w") as new:
            for info in old.infolist():
                data = old.read(info)
                if info.filename.endswith("models/model.json"):
                    program = json.loads(data)
                    for node in program["graph_module"]["graph"]["nodes"]:
                        node["metadata"]["stack_trace"] = frame(*(f.replace("\\\\", "\\") for f in files))
                    data = json.dumps(program).encode()
                new.writestr(info.filename, data)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.pt2"
            path.write_bytes(out.getvalue())
            assert f", {expected.replace(chr(92) * 2, chr(92))}\n" in ok("show", "--text", path).replace(chr(92) * 2, chr(92)), (files, ok("show", "--text", path))


class Values(torch.nn.Module):
    """What Scalars holds, by ops that op.def has."""

    def forward(self, x):
        y = torch.clamp(x, 0, float("inf")).masked_fill(x > 1, float("-inf"))
        y = torch.where(x < -0.9, torch.full_like(y, float("nan")), y)
        y = torch.add(y.to(torch.float64).to(torch.float32), x, alpha=3)
        y = torch.nn.functional.interpolate(y, scale_factor=2, mode="nearest")
        return torch.nn.functional.gelu(y, approximate="tanh"), torch.div(x, 3, rounding_mode="floor")


IMAGE = models.count(2, 3, 8, 8, step=0.01) - 1
CASES = {
    "plain": (lambda: models.Plain().eval(), (IMAGE,), {}),
    "storage": (models.Storage, (models.count(2, 4),), {}),
    "nested": (models.Nested, ((models.count(3), models.count(3, start=1)), {"c": [models.count(3, start=2)]}),
               {"scale": 2, "mask": None, "extra": models.count(3, start=4)}),
    "scalars": (models.Scalars, (IMAGE,), {}),
    "values": (Values, (IMAGE,), {}),
    "counter": (models.Counter, (models.count(3),), {}),
    "names": (models.Names, (models.count(2), models.count(2), models.count(2)), {}),
}


def program(name, decomposed):
    make, args, kwargs = CASES[name]
    model = make()
    exported = export(model, args, kwargs)
    return model, exported.run_decompositions() if decomposed else exported


# scalars has ops that fxcc lacks; torch's own code generation does not survive the decomposition of names
@pytest.mark.parametrize("name, decomposed", [(n, d) for n in CASES for d in (False, True) if n != "scalars" and (n, d) != ("names", True)])
def test_values(name, decomposed, tmp_path):
    """fxcc run gives what eager gives."""
    model, exported = program(name, decomposed)
    _, args, kwargs = CASES[name]
    path = tmp_path / "model.pt2"
    save(exported, path)
    inputs = [x for x in _pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    files = []
    for i, x in enumerate(inputs):
        files.append(tmp_path / f"in{i}.npy")
        numpy.save(files[-1], x.numpy())
    expected = [y.detach().numpy() for y in _pytree.tree_leaves(model(*args, **kwargs)) if isinstance(y, torch.Tensor)]
    ok("run", "--interpret", path, *files, "-o", tmp_path / "out.npz")
    with numpy.load(tmp_path / "out.npz") as out:
        got = [out[k] for k in out.files]
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.shape == b.shape and a.dtype == b.dtype
        numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", [n for n in CASES if n not in ("names", "counter")])
def test_graphs(name, decomposed, tmp_path):
    """Calls have torch's names, targets and order; unread getitems aside."""
    _, exported = program(name, decomposed)
    path = tmp_path / "model.pt2"
    save(exported, path)
    text = ok("show", "--text", path)
    got = re.findall(r"^%(\w+) : .*? = call_function\[([^\]]+)\]", text, re.M)
    expected = []
    for node in exported.graph.nodes:
        if node.op == "call_function" and not (node.target.__name__ == "getitem" and not node.users):
            target = f"_operator.{node.target.__name__}" if node.target.__module__ == "_operator" else str(node.target)
            expected.append((node.name, target))
    assert got == expected


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "googlenet"])
def test_torchvision_structure(name, tmp_path):
    """Every parameter of a real model is found, with its shape."""
    torchvision = pytest.importorskip("torchvision")
    kwargs = {"init_weights": False} if name == "googlenet" else {}
    model = getattr(torchvision.models, name)(**kwargs).eval()
    path = tmp_path / f"{name}.pt2"
    save(export(model, (torch.zeros(1, 3, 224, 224),)), path)
    table = ok("show", path)
    for node in ("conv", "linear", "output"):
        assert node in table


def test_unsupported_dtypes_are_told(tmp_path):

    class Float8(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", torch.ones(4).to(torch.float8_e4m3fn))

        def forward(self, x):
            return x + self.w.to(torch.float32)

    path = tmp_path / "float8.pt2"
    save(export(Float8(), (torch.ones(4),)), path)
    done = fxcc("show", path)
    assert done.returncode == 1
    assert "float8_e4m3fn is not supported" in done.stderr


def test_fixtures_are_small():
    for path in HERE.rglob("*.pt2"):
        assert path.stat().st_size <= 50 * 1024, path
