#!/usr/bin/env python3
"""A model's kernels, one by one: what each computes, reads and writes (fxcc report), which kernel and how many blocks that is (the launches of a run on the host's CUDA), and its
registers, shared memory and occupancy (ptxas). No GPU is needed.

    kernels.py [--arch sm_75,...] MODEL...     models of the zoo; prints tables in Markdown, those of docs/cuda.md

Fails where a kernel spills, where ptxas knows no kernel that was launched, and where launches are not those of the report.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE."""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "models"), str(HERE.parent / "cuda_host")]
import cuda_emitted  # noqa: E402
import emitted  # noqa: E402
import ptxas  # noqa: E402
import zoo_transformers  # noqa: E402


@dataclasses.dataclass
class Launch:
    name: str              # "fxrt_cuda_conv<..., 4, 0, float>", or "cublasLtMatmul"
    grid: tuple = ()
    block: tuple = ()
    dynamic: int = 0       # bytes of shared memory


def name_of(symbol):
    """Without return type and parameters, so that g++ and nvcc agree."""
    text = subprocess.run(["c++filt"], input=symbol, capture_output=True, text=True, check=True).stdout.strip()
    text = re.sub(r"^(void|static) ", "", text)
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            text = text[:i]
            break
    text = re.sub(r"\((?:int|bool|unsigned int)\)", "", text).replace("true", "1").replace("false", "0")
    return re.sub(r"fxrt_(?:cuda_)?|\(anonymous namespace\)::|_INTERNAL_\w+::", "", text)


def launches(model, folder):
    """What NAME_run puts on its stream, in order: a run on the host's CUDA."""
    cuda_emitted.emit(model.path, folder)
    so = cuda_emitted.build(folder, cuda_emitted.library(folder), flags=("-O1", "-march=native", "-ffp-contract=off"))
    trace = folder / "trace"
    code = ("import sys, numpy; sys.path.insert(0, sys.argv[1]); import cuda_emitted; z = numpy.load(sys.argv[2]); cuda_emitted.Net(sys.argv[3], sys.argv[4]).run("
            "[z[k] for k in sorted(z) if k.startswith('in0_')], [z[k] for k in sorted(z) if k.startswith('out0_')])")
    emitted.command([sys.executable, "-c", code, HERE.parent / "models", model.path.with_suffix(".npz"), so, folder / "net.bin"], env={**os.environ, "FXCU_TRACE": str(trace)})
    found = []
    for line in trace.read_text().splitlines():
        symbol, *sizes = line.split()
        numbers = [int(n) for n in sizes]
        found.append(Launch(name_of(symbol), tuple(numbers[:3]), tuple(numbers[3:6]), numbers[6]) if numbers else Launch(symbol))
    return found


def report(model):
    done = subprocess.run([emitted.fxcc(), "report", str(model.path), "--target=cuda", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)[0]


def by_layer(kernels, found):
    """Each kernel of the report with its launches; both are in the order of the stream."""
    rows, at = [], 0
    for k in kernels:
        rows.append((k, found[at:at + k["launches"]]))
        at += k["launches"]
    assert at == len(found), f"the report has {at} launches, a run {len(found)}"
    return rows


def compiled(nvcc, arches, source):
    """By architecture and name, what ptxas says."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        every = pool.map(lambda arch: ptxas.compile_for(nvcc, arch, str(source), ["--fmad=false"]), arches)
    return {arch: {name_of(k.name): k for k in kernels} for arch, kernels in zip(arches, every)}


def size(v):
    v = list(v)
    while len(v) > 1 and v[-1] == 1:
        v.pop()
    return " x ".join(map(str, v)) if v else ""


def print_layers(name, rows):
    """Of a product and its tail, both are in the first row."""
    print(f"\n| {name} | kernel | blocks | threads | MFLOP | kB read | kB written |\n|---|---|---|---|---:|---:|---:|")
    for k, parts in rows:
        for i, part in enumerate(parts):
            figures = [k["flops"] / 1e6, k["read"] / 1e3, k["written"] / 1e3]
            cells = " | ".join(f"{f:.4g}" for f in figures) if i == 0 else " | | "
            print(f"| {k['title'] if i == 0 else ''} | {part.name} | {size(part.grid)} | {size(part.block)} | {cells} |")


def kernel_table(name, rows, known):
    """A row a kernel that is launched: registers and occupancy by architecture; and what spills, and what ptxas does not know."""
    used = {}
    for _, parts in rows:
        for part in parts:
            if part.block:
                used.setdefault(part.name, []).append(part)
    lines = [f"\n| {name}: kernel | launches | shared | " + " | ".join(known) + " |\n|---|---:|---:|" + "---|" * len(known)]
    spilled, missing = [], []
    for kernel, parts in used.items():
        threads = max(p.block[0] * p.block[1] * p.block[2] for p in parts)
        dynamic = max(p.dynamic for p in parts)
        cells, shared = [], 0
        for arch, kernels in known.items():
            if kernel not in kernels:
                missing.append(f"{kernel} for {arch}")
                continue
            k = kernels[kernel]
            shared = max(shared, k.shared + dynamic)
            share, _ = ptxas.occupancy(arch, threads, k.registers, k.shared + dynamic)
            cells.append(f"{k.registers}, {share:.0%}")
            if k.spill_stores or k.spill_loads:
                spilled.append(f"{kernel} for {arch}: {k.spill_stores} bytes spilled")
        lines.append(f"| {kernel} | {len(parts)} | {shared} | " + " | ".join(cells) + " |")
    return "\n".join(lines), spilled, missing


def main():
    parser = argparse.ArgumentParser(description="a model's kernels: FLOPs, bytes, blocks, registers, occupancy")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--arch", default=",".join(ptxas.ARCHES))
    parser.add_argument("--nvcc", default=os.environ.get("NVCC", "nvcc"))
    options = parser.parse_args()
    wrong = []
    for name in options.models:
        model = zoo_transformers.export(name)
        with tempfile.TemporaryDirectory(prefix="fxcc-kernels-") as folder:
            found = launches(model, pathlib.Path(folder))
            rows = by_layer(report(model)["kernels"], found)
            print_layers(name, rows)
            sys.stdout.flush()
            text, spilled, missing = kernel_table(name, rows, compiled(options.nvcc, options.arch.split(","), pathlib.Path(folder) / "net.cu"))
            print(text, flush=True)
            wrong += [f"{name}: spilled: {s}" for s in spilled] + [f"{name}: unknown to ptxas: {m}" for m in missing]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
