"""FX's work timed in fxcc (bench/fx.c) and in torch.fx, in rounds that take turns, and the table of both with its targets.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    bench/fx                       all of it: some minutes, of which torch.fx's partitioner takes most
    bench/fx --no-growth --only lint,copy --json out.json

In every round each piece of work is done once by either side, so that what the machine does besides meets both alike; the best round
counts. Figures are of one go of the work, without making the graphs it works on.
"""
import argparse
import copy
import json
import math
import pathlib
import platform
import subprocess
import time
import tracemalloc

import torch
import torch.fx
from torch.fx.experimental import optimization
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher


NODES = 10_000
GROWTH = [1_000, 10_000, 100_000, 1_000_000]


class Program:
    """bench_fx, which answers a line with a line."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, work, n):
        self.process.stdin.write(f"{work} {n}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_fx ended at {work} {n}")
        return json.loads(line)


# ---- torch.fx: the same graphs as in fx.c ----

def chain(n, every=0):
    g = torch.fx.Graph()
    last = before = g.placeholder("x")
    for i in range(n):
        node = g.call_function(torch.add, (last, before)) if i % 2 else g.call_function(torch.relu, (last,))
        if every and i % every == every - 1:
            continue
        before, last = last, node
    g.output(last)
    return g


def match_graph(n):
    unary = [torch.neg, torch.sigmoid, torch.tanh, torch.exp, torch.neg, torch.sigmoid, torch.tanh, torch.neg]
    g = torch.fx.Graph()
    x = node = g.placeholder("x")
    for i in range(n):
        node = (g.call_function(torch.add, (node, x)) if i % 10 == 8 else
                g.call_function(torch.relu, (node,)) if i % 10 == 9 else g.call_function(unary[i % 10], (node,)))
    g.output(node)
    return g


def big_model(channels):
    layers = [layer for _ in range(20) for layer in (torch.nn.Conv2d(channels, channels, 3, padding=1), torch.nn.BatchNorm2d(channels),
                                                     torch.nn.ReLU())]
    model = torch.nn.Module()
    model.layers = torch.nn.Sequential(*layers)
    model.__class__ = type("BigModel", (torch.nn.Module,), {"forward": lambda self, x: self.layers(x)})
    return model.eval()


class Relus(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return node.target is torch.relu


def timed(f):
    t = time.perf_counter()
    f()
    return time.perf_counter() - t


def torch_build():
    return timed(lambda: chain(NODES)) / NODES


def torch_iterate():
    g = chain(NODES)
    return timed(lambda: sum(n.op == "call_function" for n in g.nodes)) / NODES


def torch_lint():
    return timed(chain(NODES).lint) / NODES


def torch_dead_code():
    return timed(chain(NODES, 2).eliminate_dead_code) / NODES


def torch_copy():
    g = chain(NODES)
    return timed(lambda: copy.deepcopy(g)) / NODES


def torch_code():
    g = chain(NODES)
    return timed(lambda: g.python_code("self")) / NODES


def torch_fuse(channels):
    model = big_model(channels)
    t = timed(lambda: optimization.fuse(model))
    return t


def torch_matches():
    pattern = torch.fx.Graph()
    a, b = pattern.placeholder("a"), pattern.placeholder("b")
    pattern.output(pattern.call_function(torch.relu, (pattern.call_function(torch.add, (a, b)),)))
    pattern, g = torch.fx.GraphModule({}, pattern).graph, torch.fx.GraphModule({}, match_graph(5000)).graph
    found = []
    t = timed(lambda: found.extend(SubgraphMatcher(pattern, match_placeholder=False).match(g)))
    assert len(found) == 500, len(found)
    return t


def torch_partition():
    m = torch.fx.GraphModule({}, chain(1000))
    return timed(lambda: CapabilityBasedPartitioner(m, Relus(), allows_single_node_partition=True).propose_partitions())


def torch_bytes():
    chain(10)
    tracemalloc.start()
    g = chain(NODES)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / NODES if g else 0


# Each row: what it is, work of fx.c, nodes for it, torch's side, target, unit of both, a factor to that unit, whether a node is meant.
US, MS = 1e6, 1e3
ROWS = [
    ("build, a call_function node", "build", NODES, torch_build, 0.2, "µs", US, True),
    ("iterate, a node", "iterate", NODES, torch_iterate, 0.01, "µs", US, True),
    ("structural lint, a node", "lint", NODES, torch_lint, 0.1, "µs", US, True),
    ("lint with schemas and shapes, a node", "lint_all", NODES, None, 0.5, "µs", US, True),
    ("dead code, a node", "dead_code", NODES, torch_dead_code, 0.1, "µs", US, True),
    ("copy, a node", "copy", NODES, torch_copy, 0.15, "µs", US, True),
    ("print Python code, a node", "code", NODES, torch_code, 0.5, "µs", US, True),
    ("BigModel conv-bn fusion, weights of one channel", "fuse", 20, lambda: torch_fuse(1), 20, "µs", US, False),
    ("BigModel conv-bn fusion with weights", "fuse_weights", 20, lambda: torch_fuse(64), None, "µs", US, False),
    ("500 pattern matches in 5,000 nodes", "matches", 5000, torch_matches, 1, "ms", MS, False),
    ("partition of a 1,000-node alternating chain", "partition", 1000, torch_partition, 2, "ms", MS, False),
]
ONCE = {"partition"}  # torch.fx needs seconds for it: one round
GROWING = {"build": GROWTH, "iterate": GROWTH, "lint": GROWTH, "lint_all": GROWTH, "dead_code": GROWTH, "copy": GROWTH, "code": GROWTH,
           "matches": GROWTH, "partition": GROWTH, "fuse": [100, 1_000, 10_000, 100_000]}


def measure(program, rows, rounds):
    ours, theirs = {}, {}
    for i in range(rounds):
        for what, work, n, by_torch, *_, per_node in rows:
            answer = program.run(work, n)
            answer["value"] = answer["seconds"] / (answer["units"] if per_node else 1)
            ours[work] = min(ours.get(work, answer), answer, key=lambda a: a["seconds"])
            if by_torch and (i == 0 or work not in ONCE):
                theirs[work] = min(theirs.get(work, math.inf), by_torch())
        if any(row[1] == "fuse_weights" for row in rows):
            answer = program.run("read_write", 20)
            ours["read_write"] = min(ours.get("read_write", answer), answer, key=lambda a: a["seconds"])
    return ours, theirs


def exponent(program, work):
    sizes = GROWING[work]
    times = [program.run(work, n)["seconds"] for n in sizes]
    return math.log(times[-1] / times[0]) / math.log(sizes[-1] / sizes[0]), dict(zip(sizes, times))


def figure(v):
    return f"{v:.3g}" if v < 1000 else f"{v:.0f}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--program", required=True)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", help="names of work, comma separated: " + ",".join(row[1] for row in ROWS))
    p.add_argument("--no-growth", action="store_true")
    p.add_argument("--json")
    args = p.parse_args()
    only = args.only.split(",") if args.only else [row[1] for row in ROWS]
    unknown = [w for w in only if w not in [row[1] for row in ROWS]]
    if unknown or args.rounds < 1:
        p.error(f"no such work: {', '.join(unknown)}" if unknown else "--rounds: at least 1")
    rows = [row for row in ROWS if row[1] in only]
    torch.set_num_threads(1)
    program = Program(args.program)
    ours, theirs = measure(program, rows, args.rounds)

    result = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__, "rounds": args.rounds, "rows": []}

    def row(what, work, seen, limit, unit, reference=None, of=None):
        met = seen <= limit
        result["rows"].append({"work": work, "what": what, "fxcc": seen, "torch": reference, "unit": unit, "target": limit, "met": met})
        ratio = f"{reference / seen:,.0f} x" if reference else "-"
        table.append((what, f"{figure(reference)} {unit}" if reference else "-", f"{figure(seen)} {unit}", ratio, of or f"<= {figure(limit)} {unit}",
                      "met" if met else "MISSED"))

    table = []
    for what, work, n, by_torch, target, unit, factor, _ in rows:
        of = None
        if work == "fuse_weights":
            target = 2 * ours["read_write"]["seconds"] * factor
            of = f"<= {figure(target)} {unit}, twice reading and writing them"
        row(what, work, ours[work]["value"] * factor, target, unit, theirs[work] * factor if by_torch else None, of)
        if work == "build":
            row("memory, a call_function node", "bytes", ours[work]["bytes"], 300, "B", torch_bytes())
    if not args.no_growth:
        GROWING["plain_list"] = GROWTH
        machine, times = exponent(program, "plain_list")
        result["plain_list"] = {"exponent": machine, "seconds": times}
        for what, work, *_ in rows:
            if work in GROWING:
                e, times = exponent(program, work)
                row(f"growth of {work}, {GROWING[work][0]:,} to {GROWING[work][-1]:,}", f"growth_{work}", e, 1.1, "")
                result["rows"][-1]["seconds"] = times
    header = ("work", "torch.fx", "fxcc", "ratio", "target", "")
    widths = [max(len(r[i]) for r in [header, *table]) for i in range(6)]
    for r in [header, tuple("-" * w for w in widths), *table]:
        print("| " + " | ".join(c.ljust(w) for c, w in zip(r, widths)) + " |")
    if not args.no_growth:
        print(f"\nA plain list of 200-byte items, walked, grows by the exponent {machine:.2f} on this machine: its memory, in all of the above.")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    missed = [r["what"] for r in result["rows"] if not r["met"]]
    print(f"\n{len(result['rows']) - len(missed)} of {len(result['rows'])} targets met" + (f"; missed: {', '.join(missed)}" if missed else ""))


if __name__ == "__main__":
    main()
