"""Models with open sizes: compiled once, what is emitted equals eager at every size tried; others are refused and nothing is written.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    python -m pytest tests/dynamic            small models
    python -m pytest tests/dynamic --full     the large ones
"""
import itertools
import subprocess

import numpy
import pytest

import emitted
import jitted
import open_models
from emitted import assert_close
from open_models import eager
from open_net import PAINT, SHIM, OpenNet

ARENA_SLACK = 1.05    # arena over largest live set, at any sizes
BUILDS = {"gcc": ("gcc", False), "clang": ("clang", False), "linked": ("gcc", True)}


@pytest.fixture(scope="module")
def model(request, tmp_path_factory):
    """One model, exported and compiled once; net(build) builds and loads it."""
    m = open_models.build(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    m.path = folder / "model.pt2"
    open_models.export(m, m.path)
    nets = {}

    def net(build):
        if build not in nets:
            compiler, linked = BUILDS[build]
            out = folder / build
            sizes = emitted.emit(m.path, out, *(["--link-runtime"] if linked else []))
            extra = {"link": [emitted.libfxrt(), "-fopenmp"], "flags": ["-I", str(emitted.ROOT / "include")]} if linked else {}
            extra = extra or {"flags": emitted.STACK_FLAGS if compiler == "gcc" else []}
            nets[build] = OpenNet(emitted.build(out, sizes, compiler, shim=SHIM, **extra), out)
        return nets[build]

    m.net, m.folder = net, folder
    return m


@pytest.mark.parametrize("build", list(BUILDS))
def test_equals_eager(model, build):
    net = model.net(build)
    for k, sizes in enumerate(model.sizes):
        x, y = eager(model, 50 + k, sizes)
        dims, status = net.dims_of([a.shape for a in x])
        assert status == 0, f"{sizes}: {net.status(status)}"
        size = net.arena_size(dims)
        touched = numpy.zeros(size + emitted.GUARD, bool)
        for paint in (0x5A, 0xC3):
            status, got, arena = net.run(dims, x, y, size, paint)
            assert status == 0, f"{sizes}: {net.status(status)}"
            assert_close(got, y, sizes)
            touched |= arena != paint
        assert not touched[size:].any(), f"{sizes}: the arena was left"
        if size:
            status, _, arena = net.run(dims, x, y, size - 1)
            assert "size" in net.status(status) and (arena == PAINT).all()


@pytest.mark.parametrize("build", list(BUILDS))
def test_other_sizes_are_refused(model, build):
    net = model.net(build)
    x, y = eager(model, 3, model.example)
    good, status = net.dims_of([a.shape for a in x])
    assert status == 0
    for shapes in model.refused:
        assert len(shapes) == len(x)
        _, status = net.dims_of(shapes)
        assert status != 0, shapes
    size = net.arena_size(good)
    for i, (lo, hi) in enumerate(net.ranges):
        for value in (lo - 1, -1, -2**63, *((hi + 1, 2**63 - 1) if hi is not None else ())):
            dims = good.copy()
            dims[i] = value
            status, got, arena = net.run(dims, x, y, size)
            assert status != 0 and net.arena_size(dims) == 2**64 - 1, f"size {i} is {value}"
            assert (arena == PAINT).all() and all((a.view(numpy.uint8) == PAINT).all() for a in got), f"size {i} is {value}: written to"


def twelve(sizes):
    """Those, and others made of their numbers."""
    mixed = [s for s in itertools.product(*map(sorted, map(set, zip(*sizes)))) if s not in sizes]
    return (sizes + mixed[::max(1, len(mixed) // 12)])[:12]


def test_jit(model):
    """In memory: one compile serves all sizes, with the arena and to the bit the values of emitted C; other sizes are refused by name."""
    net = model.net("gcc")
    with jitted.Function(model.path) as f:
        for k, sizes in enumerate(twelve(model.sizes)):
            x, y = eager(model, 70 + k, sizes)
            got = f.run(x)
            assert_close(got, y, sizes)
            dims, status = net.dims_of([a.shape for a in x])
            size = net.arena_size(dims)
            assert status == 0 and f.memory[0] == size
            assert all(a.tobytes() == b.tobytes() for a, b in zip(got, net.run(dims, x, y, size)[1], strict=True)), sizes
        x, _ = eager(model, 3, model.example)
        for shapes in model.refused:
            if min(itertools.chain(*shapes), default=0) >= 0: # NumPy has no negative ones
                with pytest.raises(jitted.Failed, match="size|dim|expected"):
                    f.run([numpy.zeros(s, a.dtype) for s, a in zip(shapes, x, strict=True)])
        assert_close(f.run(x), eager(model, 3, model.example)[1], model.example)


def test_arena_is_near_the_largest_live_set(model):
    text = emitted.command([emitted.fxcc(), "report", model.path])
    row = [c.strip() for c in text.splitlines()[2].split("|")]
    assert 1 <= float(row[4]) <= ARENA_SLACK, text


def test_is_proved(model):
    done = subprocess.run([emitted.fxcc(), "prove", model.path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_stack_bound_holds(model):
    net = model.net("gcc")
    assert 0 < emitted.deepest_stack(model.folder / "gcc") <= net.stack_size


def test_interpreter_equals_eager(model, tmp_path):
    """fxcc check: the graph's interpreter against eager's values, and emitted C against both."""
    sizes = model.sizes[-1]
    x, y = eager(model, 9, sizes)
    numpy.savez(tmp_path / "ref.npz", **{f"in{i}": a for i, a in enumerate(x)}, **{f"out{i}": a for i, a in enumerate(y)})
    emitted.command([emitted.fxcc(), "check", model.path, "--against", tmp_path / "ref.npz", "--rtol", "1e-4", "--atol", "1e-4"])


def test_what_inputs_have_in_common_is_compared():
    """Each case of sizes that contradict each other is a case of its own in open_models: both inputs of a text, of plain."""
    cases = list(itertools.chain(*(open_models.build(name).refused for name in ("plain", "bert_sdpa"))))
    assert sum(len({s[k] for s in c}) > 1 for c in cases if len(c) == 2 for k in range(2)) >= 4
