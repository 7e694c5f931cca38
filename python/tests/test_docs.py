"""Runs docs/python.md, block by block in one namespace, and the tour's cells: what they assert holds, what comments say is printed.

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


def test_the_tour_runs():
    pytest.importorskip("numpy", reason="NumPy is not installed")
    done = subprocess.run([sys.executable, ROOT / "examples" / "python" / "tour.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for said in ("digit", "aten.", "with gelu:", "changes", "(q: float32[1..128, 16]) -> float32[1..128, 16]", "ArgumentError: input 0 'picture'", "TypeError: input 0"):
        assert said in done.stdout, said
