"""Random graphs: PyTorch's eager result against emitted C, by gcc and clang, for targets and optimisation levels drawn per case.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

FXCC names the command. FXCC_RANDOM_COUNT models of 16 branches are made from the fixed seeds, from FXCC_RANDOM_SEED on. The seed
is in the test's name: FXCC_RANDOM_SEED=23 FXCC_RANDOM_COUNT=1 repeats that case.
"""

import os
import random
import subprocess

import numpy
import pytest
import torch

from graphs import make

FXCC = os.environ.get("FXCC", "fxcc")
COUNT = int(os.environ.get("FXCC_RANDOM_COUNT", "8"))
START = int(os.environ.get("FXCC_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(START, START + COUNT))
def test_random_graph(seed, tmp_path):
    model, inputs = make(seed)
    with torch.no_grad():
        program = torch.export.export(model, tuple(inputs))
        outputs = model(*inputs)
    r = random.Random(seed)
    if r.random() < 0.3:
        program = program.run_decompositions()
    path = tmp_path / f"random{seed}.pt2"
    torch.export.save(program, path)
    arrays = {f"in{i}": x.numpy() for i, x in enumerate(inputs)}
    arrays |= {f"out{i}": y.numpy() for i, y in enumerate(outputs)}
    numpy.savez(tmp_path / "ref.npz", **arrays)
    env = dict(os.environ, CC=r.choice(["gcc", "clang"]), CFLAGS=r.choice(["-O0", "-O1", "-O2", "-O3"]))
    target = r.choice(["native", "native", "generic"])
    command = [FXCC, "check", str(path), "--against", str(tmp_path / "ref.npz"), "--rtol", "1e-4", "--target", target]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    logs = "\n".join(f"out{i}: {' '.join(b.log)}" for i, b in enumerate(model.branches))
    assert done.returncode == 0, f"{env['CC']} {env['CFLAGS']} {target}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}\n{logs}"
