"""bench/cuda with torch itself, on the host's CUDA: weights made from seeds are packed as the model's own, and outputs are eager's.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "cuda"
NAMES = ["bert_small", "rms_norm"]  # with products, tied and lifted tensors; a kernel


def command(*argv, **kwargs):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, **kwargs)


def test_weights_of_seeds(tmp_path):
    built, out = tmp_path / "built", tmp_path / "out"
    done = command(sys.executable, BENCH / "prepare", "--host", "--out", built, "--only", ",".join(NAMES), "--rows", 16)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(built.rglob("*.bin")) and not list(built.rglob(f"{NAMES[0]}.safetensors"))
    tools = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    done = command(sys.executable, BENCH / "run", "--built", built, "--out", out, "--markdown", tmp_path / "none.md", "--parts", "parity,times",
                   env=os.environ | tools)
    assert done.returncode == 1 and "is no GPU" in done.stderr and not (tmp_path / "none.md").exists()
    told = json.loads((out / "results.json").read_text())
    for name in NAMES:
        entry = told["models"][name]
        assert "failed" not in entry, entry
        assert (entry["weights"], entry["graph"], entry["agrees"]) == ("from the seed", "the same bytes", True)
        assert 0 < entry["difference"] <= 1e-5


def test_too_large(tmp_path):
    done = command(sys.executable, BENCH / "prepare", "--host", "--out", tmp_path / "built", "--only", "softmax", "--rows", 16, "--limit", 1000000)
    assert done.returncode == 1 and "bytes would travel, 1000000 may" in done.stderr, done.stdout + done.stderr
