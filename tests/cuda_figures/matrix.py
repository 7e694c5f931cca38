#!/usr/bin/env python3
"""Every model of the tests, compiled by nvcc for every architecture: no warning, no spill; registers, occupancy and processor seconds. No GPU is needed.

    $(tests/env) tests/cuda_figures/matrix.py                          all models; prints the table of docs/cuda.md
    $(tests/env) tests/cuda_figures/matrix.py --only resnet18,mixed --arch sm_75,sm_120
    $(tests/env) tests/cuda_figures/matrix.py --minutes 30             starts no compiler after that; what is missing is named, and it fails
    $(tests/env) tests/cuda_figures/matrix.py --write                  puts the table into docs/cuda.md

What was compiled is kept in build/cuda-matrix (--keep) by the emitted text, so that a second run goes on where the first one ended and a text is compiled once. Each file's device
code is compiled for each architecture; the whole file, with the host's part, for one (--whole), with a program around it that is linked with the real cuBLAS.
Fails where nvcc fails or warns, where a kernel spills, and where it takes shared memory that only its launch knows.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE."""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "models"), str(HERE.parent / "cuda_host")]
import ptxas  # noqa: E402

NVCC = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
FLAGS = ["-std=c++17", "-fmad=false", "-O3", "-Werror", "all-warnings"]  # as in the Makefile that fxcc writes
WHOLE = "sm_90"
DOCUMENT = ROOT / "docs" / "cuda.md"
BEGIN, END = "<!-- matrix.py: from here -->\n", "<!-- matrix.py: to here -->\n"

MAIN = """#include "net.h"
int main()
{
    net_context *ctx = nullptr;
    const net_config config = {};
    const int status = net_create(&ctx, &config);
    net_destroy(ctx);
    return status;
}
"""


class Failed(Exception):
    pass


@dataclasses.dataclass
class Compiled:
    """What one architecture's compilation of a model told."""
    kernels: int
    registers: int    # of the kernel that has most
    occupancy: float  # of the kernel that has least
    lowest: str       # its name
    spilled: list     # sentences
    seconds: float    # of processor time


def command(argv, folder):
    """What it said, and its processor seconds, those of its children with them."""
    with open(folder / "said", "w+", errors="replace") as said:
        process = subprocess.Popen([str(a) for a in argv], cwd=folder, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise Failed(f"{' '.join(map(str, argv))}: exit {process.returncode}\n{text[-4000:]}")
    return text, usage.ru_utime + usage.ru_stime


def launched(text):
    """Of the model's own kernels, how many threads a block of each launch has at most."""
    threads = {}
    for kernel, x, y, z in re.findall(r"_LAUNCH(?:_ON)?\((?:[^(,]+, )?(\w+), dim3\([^()]*\), dim3\((\d+)(?:, (\d+))?(?:, (\d+))?\)", text):
        threads[kernel] = max(threads.get(kernel, 0), int(x) * int(y or 1) * int(z or 1))
    return threads


def own_name(symbol):
    """net_add of _Z7net_addPKfPf; None of a template's."""
    found = re.match(r"_Z(\d+)(net_\w+)", symbol)
    return found[2][:int(found[1])] if found else None


def judge(kernels, bounds, own):
    """The worst of a model's kernels for one architecture. Threads of a block: of the launch, or of the kernel's launch bounds."""
    most, least, lowest, spilled = 0, 1.0, "", []
    names = dict(zip((k.name for k in kernels), ptxas.demangled([k.name for k in kernels]), strict=True))
    for k in kernels:
        if k.spill_stores or k.spill_loads:
            spilled.append(f"{names[k.name]} for {k.arch}: {k.spill_stores} bytes spilled and {k.spill_loads} read again")
        most = max(most, k.registers)
        name = own_name(k.name)
        if name == "net_probe":  # never launched
            continue
        threads = own.get(name) if name else bounds.get(k.name)
        if not threads:
            raise Failed(f"{names[k.name]}: neither a launch nor launch bounds tell how many threads its blocks have")
        share, _ = ptxas.occupancy(k.arch, threads, k.registers, k.shared)
        if share < least:
            least, lowest = share, names[k.name]
    return most, least, lowest, spilled


def compile_for(nvcc, arch, source):
    """The device code of a model."""
    with tempfile.TemporaryDirectory(prefix="fxcc-matrix-") as name:
        folder = pathlib.Path(name)
        said, seconds = command([nvcc, *FLAGS, f"-arch={arch}", "-Xptxas", "-v", "--keep", "--keep-dir", folder, "-cubin", source, "-o", folder / "net.cubin"], folder)
        bounds, dynamic = ptxas.bounds((folder / "net.ptx").read_text())
    if dynamic:
        raise Failed(f"{source} has shared memory whose size is its launches': occupancy is not known")
    kernels = ptxas.parse(said)
    if not kernels:
        raise Failed(f"{source} for {arch}: expected kernels, and ptxas told of none")
    return Compiled(len(kernels), *judge(kernels, bounds, launched(source.read_text())), seconds)


def link(nvcc, arch, source):
    """Seconds of the whole file; a program of it, with cuBLAS where it has products, is linked."""
    with tempfile.TemporaryDirectory(prefix="fxcc-matrix-") as name:
        folder = pathlib.Path(name)
        _, seconds = command([nvcc, *FLAGS, f"-arch={arch}", "-Xcompiler", "-Wall,-Wextra,-Werror", "-c", source, "-o", folder / "net.o"], folder)
        (folder / "main.cu").write_text(MAIN)
        blas = ["-lcublasLt"] if "cublasLt.h" in source.read_text() else []
        command([nvcc, *FLAGS, f"-arch={arch}", "-I", source.parent, "main.cu", "net.o", *blas, "-o", "program"], folder)
    return seconds


class Kept:
    """What was told before, a file each, by the emitted text and the compiler's version."""

    def __init__(self, folder, nvcc):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout.strip().splitlines()[-1] + " ".join(FLAGS)

    def get(self, what, source, make):
        digest = hashlib.sha256(self.version.encode() + what.encode() + source.read_bytes() + (source.with_suffix(".h")).read_bytes()).hexdigest()[:24]
        path = self.folder / f"{digest}.json"
        if not path.exists():
            value = make()
            if value is None:
                return None
            path.write_text(json.dumps(value))
        return json.loads(path.read_text())


def model(name, folder, options, kept):
    """A model's row: by architecture what was told, and the whole file's seconds; None of what was not compiled in time."""
    import cuda_emitted
    import zoo_transformers
    cuda_emitted.emit(zoo_transformers.export(name).path, folder)
    source = folder / "net.cu"

    def in_time(make):
        return lambda: make() if time.monotonic() < options.until else None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        whole = pool.submit(kept.get, f"whole {options.whole}", source, in_time(lambda: link(options.nvcc, options.whole, source)))
        arches = {arch: pool.submit(kept.get, arch, source, in_time(lambda arch=arch: dataclasses.asdict(compile_for(options.nvcc, arch, source)))) for arch in options.arch}
    return {arch: Compiled(**done) if (done := future.result()) else None for arch, future in arches.items()}, whole.result()


def head(arches, whole):
    return (f"| model | kernels | {' | '.join(arches)} | spilled | s, device code | s, whole file, {whole} |\n"
            f"|---|---:|{'---|' * len(arches)}---:|---:|---:|")


def row(name, arches, whole):
    told = [c for c in arches.values() if c]
    cells = [f"{c.registers}, {c.occupancy:.0%}" if c else "" for c in arches.values()]
    counts = sorted({c.kernels for c in told})
    seconds = [c.seconds for c in told]
    return (f"| {name} | {'-'.join(map(str, counts))} | {' | '.join(cells)} | {sum(len(c.spilled) for c in told) if told else ''} | "
            f"{f'{min(seconds):.1f}-{max(seconds):.1f}' if seconds else ''} | {f'{whole:.1f}' if whole else ''} |")


def write(table):
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    DOCUMENT.write_text(before + BEGIN + table + END + rest.split(END)[1])


def main():
    import zoo
    import zoo_transformers
    every = list(zoo.MODELS | zoo_transformers.MODELS)
    parser = argparse.ArgumentParser(description="every model through nvcc, for every architecture")
    parser.add_argument("--only", type=lambda s: s.split(","), default=every, metavar="MODEL,...")
    parser.add_argument("--arch", type=lambda s: s.split(","), default=ptxas.ARCHES, metavar="sm_75,...")
    parser.add_argument("--whole", default=WHOLE, help=f"architecture that whole files are compiled for (default {WHOLE})")
    parser.add_argument("--nvcc", default=NVCC)
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once (default 2)")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build" / "cuda-matrix")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--write", action="store_true", help="put the table into docs/cuda.md, too")
    options = parser.parse_args()
    if not options.nvcc:
        print("skipped: nvcc is not there (CUDA's toolkit; no GPU is needed)")
        sys.exit(77)
    if unknown := set(options.only) - set(every):
        sys.exit(f"matrix.py: expected names of the zoo, got {', '.join(sorted(unknown))}")
    options.until = time.monotonic() + 60 * options.minutes
    kept = Kept(options.keep, options.nvcc)
    lines, wrong = [head(options.arch, options.whole)], []
    print(lines[0], flush=True)
    for name in options.only:
        with tempfile.TemporaryDirectory(prefix="fxcc-matrix-") as folder:
            try:
                arches, whole = model(name, pathlib.Path(folder), options, kept)
            except Failed as e:
                wrong.append(f"{name}: {e}")
                continue
        missing = [arch for arch, c in arches.items() if not c] + ([f"whole file for {options.whole}"] if whole is None else [])
        wrong += [f"{name}: not compiled in time: {', '.join(missing)}"] if missing else []
        wrong += [f"{name}: {s}" for c in arches.values() if c for s in c.spilled]
        lines.append(row(name, arches, whole))
        print(lines[-1], flush=True)
    if options.write:
        write("\n".join(lines) + "\n")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
