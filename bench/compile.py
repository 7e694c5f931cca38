"""What compiling costs: seconds and peak memory from `.pt2` to C, and how both grow with the number of nodes.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    $(tests/env) bench/compile.py                      ResNet-50 and BERT-base, chains of 100 to 100,000 nodes
    $(tests/env) bench/compile.py --models none        only the chains
    $(tests/env) bench/compile.py --instructions       instructions too, counted by valgrind: the same on every machine, however busy

Processor seconds, user and system, of the fastest of some runs: one core, whatever else the machine does. The exponent of growth is the
slope between the two largest sizes of a chain, less what a chain of 100 nodes takes (of instructions: between 1,000 and 10,000, less 100);
chains of linears have small weights of their own, so that their data does not hide what nodes cost. That of instructions is how the
algorithms grow; that of seconds holds the caches of the machine and what the system takes to clear memory too. The status is 1 if a bound
of issue 5 does not hold.
"""
import argparse
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True

SECONDS = {"resnet50": 1.5, "bert_base": 3.0}  # bounds; other models have none
EXPONENT = 1.1
WIDTH = 4


def cost(argv, runs):
    """Processor seconds and peak bytes of a command: the best of some runs. The peak is told by GNU time where there is one: what we spawn
    ourselves counts our own peak as its."""
    best, peak = math.inf, 0
    time = shutil.which("time")
    with tempfile.NamedTemporaryFile("r", prefix="fxcc-time-") as told:
        wrapped = [time, "-f", "%M", "-o", told.name] if time else []
        for _ in range(runs):
            process = subprocess.Popen([*wrapped, *map(str, argv)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            message = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f"{' '.join(map(str, argv))}: {message.decode()}")
            seconds = used.ru_utime + used.ru_stime
            if seconds < best:
                best, peak = seconds, 1024 * (int(pathlib.Path(told.name).read_text()) if time else used.ru_maxrss)
    return best, peak


def instructions(argv):
    """Instructions of a command, by valgrind."""
    with tempfile.NamedTemporaryFile(prefix="fxcc-callgrind-") as out:
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", *map(str, argv)], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found:
        raise SystemExit(f"{' '.join(map(str, argv))}: {run.stderr}")
    return int(found.group(1))


def exported(model):
    """The path of a model of the zoos: by a process of its own, which alone loads torch."""
    code = f"import sys; sys.path.insert(0, {str(HERE.parent / 'tests' / 'models')!r}); import zoo_transformers; print(zoo_transformers.export({model!r}).path)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return pathlib.Path(run.stdout.splitlines()[-1])


def pointwise(n):
    """A graph as text: a chain that no rule shortens."""
    ops = ["relu", "sigmoid", "tanh", "exp"]
    lines = ['graph "chain" core', "", f"%x0 : f32[{WIDTH}] = placeholder[x0]"]
    lines += [f"%x{i + 1} : f32[{WIDTH}] = call_function[aten.{ops[i % len(ops)]}.default](%x{i})" for i in range(n)]
    return "\n".join([*lines, f"output((%x{n},))", ""])


def linears(n):
    """A chain of linears, each with a weight of its own, and activations: n nodes in all."""
    count = n // 3
    head, lines = [], [f"%x0 : f32[{WIDTH}, {WIDTH}] = placeholder[x0]"]
    for i in range(count):
        values = ", ".join(str(((i + k) % 7 - 3) / 8) for k in range(WIDTH * WIDTH))
        head.append(f"parameter l{i}.w : f32[{WIDTH}, {WIDTH}] = [{values}]")
        lines.append(f"%w{i} : f32[{WIDTH}, {WIDTH}] = get_attr[l{i}.w]")
        lines.append(f"%l{i} : f32[{WIDTH}, {WIDTH}] = call_function[aten.linear.default](%x{i}, %w{i})")
        lines.append(f"%x{i + 1} : f32[{WIDTH}, {WIDTH}] = call_function[aten.relu.default](%l{i})")
    return "\n".join(['graph "chain" core', *head, "", *lines, f"output((%x{count},))", ""])


def text(lines):
    """A graph as text: x0, which is WIDTH x WIDTH, and lines that make y of it."""
    return "\n".join(['graph "chain" core', "", f"%x0 : f32[{WIDTH}, {WIDTH}] = placeholder[x0]", *lines, ""])


def reductions(n):
    """Sums of rows and what is left."""
    lines = []
    for i in range(n // 2):
        lines.append(f"%s{i} : f32[{WIDTH}, 1] = call_function[aten.sum.dim_IntList](%x{i}, [-1], True)")
        lines.append(f"%x{i + 1} : f32[{WIDTH}, {WIDTH}] = call_function[aten.sub.Tensor](%x{i}, %s{i})")
    return text([*lines, f"output((%x{n // 2},))"])


def softmax(n):
    """A kernel call a node."""
    lines = [f"%x{i + 1} : f32[{WIDTH}, {WIDTH}] = call_function[aten._softmax.default](%x{i}, -1, False)" for i in range(n)]
    return text([*lines, f"output((%x{n},))"])


def products(n):
    """Matrix products of two operands that are no constants."""
    lines = [f"%x{i + 1} : f32[{WIDTH}, {WIDTH}] = call_function[aten.mm.default](%x{i}, %x{i})" for i in range(n)]
    return text([*lines, f"output((%x{n},))"])


def joins(n):
    """Slices that change places in a concatenation, which loops read through index maps."""
    lines = []
    for i in range(n // 4):
        half = f"f32[{WIDTH}, {WIDTH // 2}] = call_function[aten.slice.Tensor](%x{i}, 1"
        lines.append(f"%a{i} : {half}, 0, {WIDTH // 2})")
        lines.append(f"%b{i} : {half}, {WIDTH // 2}, {WIDTH})")
        lines.append(f"%c{i} : f32[{WIDTH}, {WIDTH}] = call_function[aten.cat.default]([%b{i}, %a{i}], 1)")
        lines.append(f"%x{i + 1} : f32[{WIDTH}, {WIDTH}] = call_function[aten.exp.default](%c{i})")
    return text([*lines, f"output((%x{n // 4},))"])


def gathers(n):
    """Places that are data."""
    lines = [f"%i : i64[{WIDTH}] = placeholder[i]"]
    for i in range(n // 2):
        lines.append(f"%p{i} : f32[{WIDTH}, {WIDTH}] = call_function[aten.index_select.default](%x{i}, 0, %i)")
        lines.append(f"%x{i + 1} : f32[{WIDTH}, {WIDTH}] = call_function[aten.exp.default](%p{i})")
    return text([*lines, f"output((%x{n // 2},))"])


CHAINS = [pointwise, linears, reductions, softmax, products, joins, gathers]


def slope(points, base):
    """The exponent between two points (nodes, cost)."""
    (n1, a), (n2, b) = points
    return math.log(max(b - base, 1e-9) / max(a - base, 1e-9)) / math.log(n2 / n1)


def chain(fxcc, make, sizes, folder, runs, count):
    """Prints a line a size; the exponents of time, memory and, if wanted, instructions at the end."""
    points, counts = [], {}
    for n in sizes:
        path = folder / "chain.fx"
        path.write_text(make(n))
        argv = [fxcc, "compile", path, "-o", folder / "out"]
        seconds, peak = cost(argv, runs)
        points.append((n, seconds, peak))
        if count and n <= 10000:
            counts[n] = instructions(argv)
        print(f"{make.__name__:12} {n:7} nodes {seconds:8.3f} s {peak / 1e6:9.1f} MB", flush=True)
    (_, s0, m0), (n1, s1, m1), (n2, s2, m2) = points[0], points[-2], points[-1]
    slopes = {"time": slope([(n1, s1), (n2, s2)], s0), "memory": slope([(n1, m1), (n2, m2)], m0)}
    if len(counts) >= 3:
        (_, base), *last = list(counts.items())[-3:]
        slopes["instructions"] = slope(last, base)
    return slopes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet50,bert_base", help="names of the zoos (default resnet50,bert_base); none")
    parser.add_argument("--sizes", default="100,1000,10000,100000", help="nodes of the chains (default 100,1000,10000,100000); none")
    parser.add_argument("--chains", default=",".join(c.__name__ for c in CHAINS), help="kinds of chains (default: all)")
    parser.add_argument("--instructions", action="store_true", help="count instructions too, of chains of up to 10,000 nodes; needs valgrind")
    parser.add_argument("--runs", type=int, default=3, help="runs of each (default 3)")
    args = parser.parse_args()
    fxcc = os.environ.get("FXCC") or HERE.parent / "build" / "release" / "bin" / "fxcc"
    good = True
    with tempfile.TemporaryDirectory(prefix="fxcc-compile-") as name:
        folder = pathlib.Path(name)
        for model in [] if args.models == "none" else args.models.split(","):
            path = exported(model)
            seconds, peak = cost([fxcc, "compile", path, "-o", folder / "out"], args.runs)
            bound = SECONDS.get(model)
            good &= bound is None or seconds <= bound
            print(f"{model:12} {path.stat().st_size / 1e6:7.1f} MB    {seconds:8.3f} s {peak / 1e6:9.1f} MB"
                  f"{f'   bound {bound} s' if bound else ''}", flush=True)
        for make in [] if args.sizes == "none" else [c for c in CHAINS if c.__name__ in args.chains.split(",")]:
            slopes = chain(fxcc, make, [int(n) for n in args.sizes.split(",")], folder, args.runs, args.instructions)
            good &= max(slopes.values()) <= EXPONENT
            print(f"{make.__name__:12} exponents: {', '.join(f'{what} {v:.2f}' for what, v in slopes.items())}   bound {EXPONENT}", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
