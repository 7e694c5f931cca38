"""What compiling costs: seconds and peak memory from `.pt2` to C, and how both grow with the number of nodes.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    $(tests/env) bench/compile.py                      ResNet-50 and BERT-base, chains of 100 to 100,000 nodes
    $(tests/env) bench/compile.py --models none        only the chains

Processor seconds, user and system, of the fastest of some runs: one core, whatever else the machine does. The exponent of growth is the
slope between the two largest sizes of a chain, less what a chain of 100 nodes takes; chains of linears have small weights of their own,
so that their data does not hide what nodes cost. The status is 1 if a bound of issue 5 does not hold.
"""
import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "models"))
sys.dont_write_bytecode = True

SECONDS = {"resnet50": 1.5, "bert_base": 3.0}  # bounds; other models have none
EXPONENT = 1.1
WIDTH = 4


def cost(argv, runs):
    """Processor seconds and peak bytes of a command: the best of some runs."""
    best, peak = math.inf, 0
    for _ in range(runs):
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        message = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(map(str, argv))}: {message.decode()}")
        seconds = used.ru_utime + used.ru_stime
        if seconds < best:
            best, peak = seconds, used.ru_maxrss * 1024
    return best, peak


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


def chain(fxcc, make, sizes, folder, runs):
    """Prints a line a size; the exponents of time and memory at the end."""
    points = []
    for n in sizes:
        path = folder / "chain.fx"
        path.write_text(make(n))
        seconds, peak = cost([fxcc, "compile", path, "-o", folder / "out"], runs)
        points.append((n, seconds, peak))
        print(f"{make.__name__:12} {n:7} nodes {seconds:8.3f} s {peak / 1e6:9.1f} MB", flush=True)
    (_, s0, m0), (n1, s1, m1), (n2, s2, m2) = points[0], points[-2], points[-1]
    return [math.log(max(b - base, 1e-9) / max(a - base, 1e-9)) / math.log(n2 / n1) for a, b, base in ((s1, s2, s0), (m1, m2, m0))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet50,bert_base", help="names of the zoos (default resnet50,bert_base); none")
    parser.add_argument("--sizes", default="100,1000,10000,100000", help="nodes of the chains (default 100,1000,10000,100000); none")
    parser.add_argument("--runs", type=int, default=3, help="runs of each (default 3)")
    args = parser.parse_args()
    fxcc = os.environ.get("FXCC") or HERE.parent / "build" / "release" / "bin" / "fxcc"
    good = True
    with tempfile.TemporaryDirectory(prefix="fxcc-compile-") as name:
        folder = pathlib.Path(name)
        for model in [] if args.models == "none" else args.models.split(","):
            import zoo_transformers
            path = zoo_transformers.export(model).path
            seconds, peak = cost([fxcc, "compile", path, "-o", folder / "out"], args.runs)
            bound = SECONDS.get(model)
            good &= bound is None or seconds <= bound
            print(f"{model:12} {path.stat().st_size / 1e6:7.1f} MB    {seconds:8.3f} s {peak / 1e6:9.1f} MB"
                  f"{f'   bound {bound} s' if bound else ''}", flush=True)
        for make in [] if args.sizes == "none" else [pointwise, linears]:
            slopes = chain(fxcc, make, [int(n) for n in args.sizes.split(",")], folder, args.runs)
            good &= max(slopes) <= EXPONENT
            print(f"{make.__name__:12} exponents: time {slopes[0]:.2f}, memory {slopes[1]:.2f}   bound {EXPONENT}", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
