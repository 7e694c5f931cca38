"""What compiled models cost on a GPU, without one: bytes moved against the least that any program of the graph moves, kernels against inductor's.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    python -m pytest tests/cuda_figures          the models of CI
    python -m pytest tests/cuda_figures --full   all models; recounts what inductor makes of a few
    python tests/cuda_figures/test_figures.py [MODEL...]   prints the table of docs/cuda.md, of all models without names
"""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "models"))
import zoo  # noqa: E402
import zoo_transformers  # noqa: E402

import inductor  # noqa: E402
import kernels  # noqa: E402
import matrix  # noqa: E402

MOST_BYTES = 1.3     # of the lower bound (docs/cuda.md, "Bytes")
# Models that are above one of the two, and what they reach; docs/cuda.md says why.
ABOVE = {}
MORE_KERNELS = {}
RECOUNTED = ["simple_cnn", "mnist_cnn", "resnet18", "llama_small", "vit_small"]


@functools.lru_cache(None)
def report(fxcc, name, target="cuda"):
    done = subprocess.run([fxcc, "report", str(zoo_transformers.export(name).path), f"--target={target}", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)[0]


def moved(r):
    return r["read"] + r["written"]


def least(r):
    return sum(r["least"].values())


def test_report(fxcc, model):
    r = report(fxcc, model)
    for key in ("read", "written", "workspace", "flops", "launches"):
        assert r[key] == sum(k[key] for k in r["kernels"]), key
    assert all(k["read"] + k["written"] > 0 for k in r["kernels"])
    assert r["least"]["inputs"] > 0 and r["least"]["outputs"] > 0 and r["least"]["weights"] > 0
    assert r["flops"] > 0


def test_bytes(fxcc, model):
    r = report(fxcc, model)
    ratio = moved(r) / least(r)
    most = ABOVE.get(model, MOST_BYTES)
    assert ratio <= most, f"{ratio:.3f} of the least: {moved(r)} bytes, {least(r)} at least"
    assert ratio >= 0.98, "below what was taken for the least: it is no lower bound"
    assert model not in ABOVE or ratio > MOST_BYTES, "it is within the bound now: take it out of ABOVE"


def test_kernels(fxcc, model):
    inductors, launches = inductor.recorded(model)["kernels"], report(fxcc, model)["launches"]
    assert launches <= MORE_KERNELS.get(model, inductors), f"{launches} kernels, inductor makes {inductors}"
    assert model not in MORE_KERNELS or launches > inductors, "it makes no more than inductor now: take it out of MORE_KERNELS"


@pytest.mark.parametrize("target", ["cuda", "cuda-sm_90"])
def test_arena(fxcc, model, target, tmp_path):
    """Side streams take at most a quarter more, or a MiB."""
    bytes_of = {}
    for options in ((), ("--disable=streams",)):
        done = subprocess.run([fxcc, "compile", str(zoo_transformers.export(model).path), f"--target={target}", "--json", "-o", str(tmp_path), *options], stdout=subprocess.PIPE, check=True)
        bytes_of[options] = json.loads(done.stdout)["arena_size"]
    beside, alone = bytes_of.values()
    assert 0 < beside <= max(1.25 * alone, alone + (1 << 20)), f"{beside} bytes with streams, {alone} without"


@pytest.mark.parametrize("name", RECOUNTED)
def test_recount(full, name):
    if not full:
        pytest.skip("inductor takes long: --full")
    recorded = inductor.recorded(name)
    assert inductor.count(zoo_transformers.export(name).path) == {k: recorded[k] for k in ("extern", "generated", "nests", "kernels")}


@pytest.mark.parametrize("name", ["mnist_cnn", "resnet18", "swin_small", "llama_small", "efficientnet_b0"])
def test_launches(name, full, tmp_path):
    """What the report counts is what a run launches, and no kernel of it spills registers."""
    if name != "mnist_cnn" and not full:
        pytest.skip("builds whole models: --full")
    rows = kernels.by_layer(report(os.environ.get("FXCC") or kernels.emitted.fxcc(), name)["kernels"], kernels.launches(zoo_transformers.export(name), tmp_path))
    for k, parts in rows:
        assert [list(p.grid) + list(p.block) for p in parts] == [k["grid"] + k["block"]] or not k["block"][0], k["title"]
    nvcc = shutil.which(os.environ.get("NVCC", "nvcc"))
    if not nvcc:
        pytest.skip("no nvcc: registers are not known")
    spilled, missing = kernels.kernel_table(name, rows, kernels.compiled(nvcc, ["sm_75", "sm_120"] if full else ["sm_75"], tmp_path / "net.cu"))[1:]
    assert not spilled and not missing


PTXAS = """ptxas info    : Compiling entry function '_Z10net_x_nhwcPKfPf' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 0 barriers
ptxas info    : Compiling entry function '_Z9net_probev' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
ptxas info    : Compiling entry function '_Z4tilePf' for 'sm_90'
    8 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 18432 bytes smem
"""
LAUNCHES = """    NET_LAUNCH(net_x_nhwc, dim3(1, 25, 2), dim3(3, 41), x, x_nhwc);
    NET_LAUNCH_ON(ctx->side[0], net_x_nhwc, dim3(16), dim3(256), x, x_nhwc);
"""


def test_matrix_judges():
    own, told = matrix.launched(LAUNCHES), matrix.ptxas.parse(PTXAS)
    assert own == {"net_x_nhwc": 256}
    most, least, lowest, spilled = matrix.judge(told, {"_Z4tilePf": 256}, own)
    assert (most, least, lowest) == (128, 0.25, "tile")
    assert spilled == ["tile for sm_90: 8 bytes spilled and 12 read again"]
    assert matrix.judge(told[:2], {}, own)[1:3] == (0.5, "net_x_nhwc")
    with pytest.raises(matrix.Failed, match="tile: neither a launch nor launch bounds"):
        matrix.judge(told, {}, own)


def test_matrix_is_kept(tmp_path):
    """A text is compiled once; what was not compiled in time is not kept."""
    nvcc, source = tmp_path / "nvcc", tmp_path / "net.cu"
    nvcc.write_text("#!/bin/sh\necho release 13\n")
    nvcc.chmod(0o755)
    source.write_text("kernel")
    source.with_suffix(".h").write_text("header")
    kept = matrix.Kept(tmp_path / "kept", nvcc)
    assert kept.get("sm_90", source, lambda: None) is None
    assert kept.get("sm_90", source, lambda: 1.5) == 1.5
    assert kept.get("sm_90", source, lambda: 2.5) == 1.5
    assert kept.get("sm_75", source, lambda: 3.5) == 3.5
    source.write_text("another kernel")
    assert kept.get("sm_90", source, lambda: 4.5) == 4.5


def main(names):
    fxcc = os.environ.get("FXCC", "build/release/bin/fxcc")
    print("| model | kernels | inductor's (generated + library) | nests | MFLOP | MB moved | MB at least | ratio | MB of parts of sums |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in names or zoo.MODELS | zoo_transformers.MODELS:
        r, i = report(fxcc, name), inductor.recorded(name)
        print(f"| {name} | {r['launches']} | {i['kernels']} ({i['generated']} + {i['extern']}) | {i['nests'] + i['extern']} | {r['flops'] / 1e6:.0f} | {moved(r) / 1e6:.1f} | "
              f"{least(r) / 1e6:.1f} | {moved(r) / least(r):.3f} | {r['workspace'] / 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
