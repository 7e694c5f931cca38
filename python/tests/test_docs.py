"""Runs docs/python.md, block by block in one namespace, each line of docs/torch-compile.md's, and the tour's cells: what they assert holds, what comments
say is printed. (The commands of README.md and docs/jit.md: tests/cli. Its program: examples/jit.)

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.M | re.S)


def test_the_document_runs(monkeypatch, tmp_path, capsys):
    pytest.importorskip("numpy", reason="NumPy is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    assert len(BLOCKS) >= 6
    monkeypatch.chdir(ROOT)
    names = {"folder": str(tmp_path)}
    for i, block in enumerate(BLOCKS):
        exec(compile(block, f"docs/python.md, block {i}", "exec"), names)
        printed = capsys.readouterr().out
        for said in re.findall(r"print\([^#\n]*\)\s+# (.*)", block):
            assert said in printed, f"block {i} says {said!r}, and printed {printed!r}"


def test_lines_of_torch_compile_run(capfd):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    block = re.search(r"^```python\n(.*?)^```$", (ROOT / "docs" / "torch-compile.md").read_text(encoding="utf-8"), re.M | re.S)[1]
    model, x = torch.nn.Linear(4, 2).eval(), torch.ones(3, 4)
    names = {"torch": torch, "model": model}
    for line in block.splitlines():
        exec(line, names)
        if "fast" in names:
            torch._dynamo.reset()
            with torch.no_grad():
                torch.testing.assert_close(names["fast"](x), model(x))
    assert re.search(r"fxcc: inference\d+: \d+ nodes, 1 compiled parts", capfd.readouterr().err)
    assert len(block.splitlines()) == 4


def test_the_tour_runs():
    pytest.importorskip("numpy", reason="NumPy is not installed")
    done = subprocess.run([sys.executable, ROOT / "examples" / "python" / "tour.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for said in ("digit", "aten.", "with gelu:", "changes", "(q: float32[1..128, 16]) -> float32[1..128, 16]", "ArgumentError: input 0 'picture'", "TypeError: input 0"):
        assert said in done.stdout, said
