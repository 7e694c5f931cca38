#!/usr/bin/env python3
"""What ptxas says of a CUDA source's kernels: registers, spills, shared memory, and the occupancy that follows. No GPU is needed.

    ptxas.py [--arch sm_75,sm_120] [--threads 256] [--nvcc PATH] [--allow-spills] FILE.cu [-- NVCC FLAGS]
    ptxas.py --told FILE                      what `nvcc -Xptxas -v` said before

Prints a table in Markdown. Fails when nvcc fails or warns, and when a kernel spills.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE."""
import argparse
import dataclasses
import os
import re
import subprocess
import sys
import tempfile

ARCHES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]


@dataclasses.dataclass
class Limits:
    """Of a multiprocessor, from the programming guide's table of compute capabilities."""
    warps: int
    blocks: int
    shared: int    # bytes
    reserved: int  # bytes of shared memory that each block takes for the system


LIMITS = {
    "sm_75": Limits(32, 16, 64 << 10, 0),
    "sm_80": Limits(64, 32, 164 << 10, 1 << 10),
    "sm_86": Limits(48, 16, 100 << 10, 1 << 10),
    "sm_89": Limits(48, 24, 100 << 10, 1 << 10),
    "sm_90": Limits(64, 32, 228 << 10, 1 << 10),
    "sm_100": Limits(64, 32, 228 << 10, 1 << 10),
    "sm_120": Limits(48, 24, 100 << 10, 1 << 10),
}


@dataclasses.dataclass
class Kernel:
    arch: str
    name: str  # as the linker knows it
    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    barriers: int = 0


def parse(text):
    """The kernels that `nvcc -Xptxas -v` tells about, in its order."""
    kernels = []
    for line in text.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(sm_\w+)'", line):
            kernels.append(Kernel(found[2], found[1]))
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            kernel = kernels[-1]
            kernel.stack, kernel.spill_stores, kernel.spill_loads = map(int, found.groups())
        elif found := re.search(r"Used (\d+) registers", line):
            kernel = kernels[-1]
            kernel.registers = int(found[1])
            shared = re.search(r"(\d+) bytes smem", line)
            kernel.shared = int(shared[1]) if shared else 0
            barriers = re.search(r"used (\d+) barriers", line)
            kernel.barriers = int(barriers[1]) if barriers else 0
    return kernels


def bounds(ptx):
    """By kernel, how many threads a block has at most where the kernel says so (__launch_bounds__); and whether there is shared memory whose size only launches know."""
    threads, name = {}, None
    for line in ptx.splitlines():
        if found := re.match(r"(?:\.\w+ )*\.entry (\w+)", line):
            name = found[1]
        elif found := re.match(r"\.(?:maxntid|reqntid) (\d+)(?:, (\d+))?(?:, (\d+))?", line):
            threads[name] = int(found[1]) * int(found[2] or 1) * int(found[3] or 1)
    return threads, bool(re.search(r"\.extern\s+\.shared", ptx))


def occupancy(arch, threads, registers, shared):
    """The share of a multiprocessor's warps that can be at work, and what keeps it from being more."""
    limits = LIMITS[arch]
    warps = -(-threads // 32)
    # Registers are given to a warp by 256, to a block by whole warps of each of the four schedulers.
    per_warp = -(-max(registers, 1) * 32 // 256) * 256
    by_registers = 65536 // 4 // per_warp * 4 // warps
    taken = -(-(shared + limits.reserved) // 128) * 128
    most = {"warps": limits.warps // warps, "blocks": limits.blocks, "registers": by_registers}
    if taken:
        most["shared memory"] = limits.shared // taken
    blocks = min(most.values())
    return blocks * warps / limits.warps, min(most, key=most.get)


def demangled(names):
    try:
        done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return names
    return [re.sub(r"^void ", "", name).split("(")[0] for name in done.stdout.splitlines()]


def compile_for(nvcc, arch, source, flags):
    """The kernels of a source for one architecture; every warning is an error."""
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, "-std=c++17", "-Werror", "all-warnings", f"-arch={arch}", "-Xptxas", "-v", *flags, "-c", source, "-o", os.path.join(folder, "out.o")]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{source} for {arch}: nvcc fails:\n{done.stderr}{done.stdout}")
    return parse(done.stderr + done.stdout)


def table(kernels, threads):
    rows = ["| kernel | arch | registers | shared | barriers | stack | spilled | occupancy | bound by |", "|---|---|---|---|---|---|---|---|---|"]
    for kernel, name in zip(kernels, demangled([k.name for k in kernels])):
        share, bound = occupancy(kernel.arch, threads, kernel.registers, kernel.shared)
        rows.append(f"| {name} | {kernel.arch} | {kernel.registers} | {kernel.shared} | {kernel.barriers} | {kernel.stack} "
                    f"| {kernel.spill_stores + kernel.spill_loads} | {share:.0%} | {bound} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description="registers, spills, shared memory and occupancy of a CUDA source's kernels")
    parser.add_argument("source")
    parser.add_argument("flags", nargs="*", help="for nvcc, after --")
    parser.add_argument("--arch", default=",".join(ARCHES))
    parser.add_argument("--threads", type=int, default=256, help="of a block, for the occupancy")
    parser.add_argument("--nvcc", default=os.environ.get("NVCC", "nvcc"))
    parser.add_argument("--allow-spills", action="store_true")
    parser.add_argument("--told", action="store_true", help="the file is what nvcc -Xptxas -v said")
    options = parser.parse_args()
    if options.told:
        with open(options.source, encoding="utf-8") as told:
            kernels = parse(told.read())
    else:
        kernels = [k for arch in options.arch.split(",") for k in compile_for(options.nvcc, arch, options.source, options.flags)]
    if not kernels:
        sys.exit(f"{options.source}: expected kernels, and ptxas told of none")
    print(table(kernels, options.threads))
    spilled = [k for k in kernels if k.spill_stores or k.spill_loads]
    if spilled and not options.allow_spills:
        sys.exit("\n".join(f"{k.name} for {k.arch}: {k.spill_stores} bytes spilled and {k.spill_loads} read again" for k in spilled))


if __name__ == "__main__":
    main()
