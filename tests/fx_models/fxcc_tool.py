"""The command, as these tests run it.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import os
import subprocess

import numpy

FXCC = os.environ.get("FXCC", "fxcc")
TOLERANCE = 1e-4  # of max |reference|


def fxcc(*args, fails=False):
    done = subprocess.run([FXCC, *map(str, args)], capture_output=True, text=True, timeout=1200)
    assert (done.returncode != 0) == fails, f"{args}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stderr if fails else done.stdout


def assert_close(got, expected):
    assert len(got) == len(expected)
    for i, (a, b) in enumerate(zip(got, expected)):
        assert a.shape == b.shape and a.dtype == b.dtype, f"output {i}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if a.size == 0:
            continue
        worst, scale = abs(a.astype("f8") - b.astype("f8")).max(), abs(b.astype("f8")).max()
        assert worst <= TOLERANCE * scale, f"output {i}: max |difference| {worst:.3g}, max |reference| {scale:.3g}"


def run(path, inputs, folder):
    """The outputs of `fxcc run`, in order."""
    files = []
    for i, x in enumerate(inputs):
        files.append(folder / f"in{i}.npy")
        numpy.save(files[-1], x)
    fxcc("run", "--interpret", path, *files, "-o", folder / "out.npz")
    with numpy.load(folder / "out.npz") as arrays:
        return [arrays[k] for k in arrays.files]
