"""Times the JIT against what else makes a saved model run; bench/jit starts it.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    bench/jit                          ResNet-50 and BERT-base; run times of six models; seconds to minutes
    bench/jit --inductor               torch.compile's own backend too, which takes tens of seconds a model and needs g++
    bench/jit --runs                   run times alone
    bench/jit --models resnet50 --json out.json

What is measured from the beginning is measured in a process of its own, which has loaded nothing of fxcc, LLVM or the peer's yet, several times,
in turns; Python's start and imports (torch, onnxruntime) are not counted, for nobody. Files are in memory. The figure is the least; run times,
which are many, are told by the quickest quarter of short turns, with several threads by the median of the ratios of neighbouring turns.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "models")]
import run as bench_run  # noqa: E402
import worker  # noqa: E402

MODELS = ["resnet50", "bert_base", "mobilenet_v2", "vit_b_16", "gpt2", "minilm"]
COMPILED = ["resnet50", "bert_base"]  # whose compiling is looked at
THREADS = os.cpu_count()


def arrays(model):
    with numpy.load(worker.file(model, ".npz")) as z:
        return [[z[k] for k in z.files if k.startswith(prefix)] for prefix in ("in0_", "out0_")]


def difference(got, want):
    return max(float(abs(a - b).max() / abs(b).max()) for a, b in zip(got, want, strict=True))


# ---- what runs in processes of its own: each returns what it says -----------------------------------------------------------


def first_fxcc(model, level, cache):
    import jitted
    x, y = arrays(model)
    start = time.perf_counter()
    f = jitted.Function(worker.file(model, ".pt2"), level, cache=cache)
    got = f.run(x)
    first = time.perf_counter() - start
    arguments, _ = f.bind(x)
    return {"seconds": first, "inference": min(f.seconds(arguments, 1) for _ in range(10)), "difference": difference(got, y), "cached": bool(f.cached)}


def first_onnxruntime(model):
    import onnxruntime
    x, y = arrays(model)
    start = time.perf_counter()
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(worker.file(model, ".onnx")), o, providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), x, strict=True)})
    return {"seconds": time.perf_counter() - start, "difference": difference(got, y)}


def first_openvino(model):
    import openvino
    x, y = arrays(model)
    start = time.perf_counter()
    core = openvino.Core()
    request = core.compile_model(core.read_model(worker.file(model, ".onnx")), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    for i, a in enumerate(x):
        request.set_input_tensor(i, openvino.Tensor(a, shared_memory=True))
    request.infer()
    got = [t.data for t in request.output_tensors]
    return {"seconds": time.perf_counter() - start, "difference": difference(got, y)}


def first_inductor(model):
    """From the .pt2, as fxcc begins."""
    import torch
    x, y = arrays(model)
    x = [torch.from_numpy(a) for a in x]
    start = time.perf_counter()
    with torch.no_grad():
        got = torch.compile(torch.export.load(worker.file(model, ".pt2")).module())(*x)
    seconds = time.perf_counter() - start
    import zoo
    return {"seconds": seconds, "difference": difference([t.numpy() for t in zoo.leaves(got)], y)}


def processor_time(pid):
    """Seconds of all threads of a process and of those that it started, ended or not: inductor compiles in others."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                ticks += processor_time(child)
            except OSError:  # it has ended since: its time is in ours
                pass
    return ticks


def torch_compile(model, backend):
    """The first call of a module under torch.compile, with what the backend imports."""
    import torch
    import zoo
    module, x = worker.build(model)
    _, y = arrays(model)
    start, spent = time.perf_counter(), processor_time(os.getpid())
    if backend == "fxcc":
        import fxcc.dynamo  # noqa: F401 (registers the backend)
    with torch.no_grad():
        got = torch.compile(module, backend=backend)(*x)
    seconds, spent = time.perf_counter() - start, processor_time(os.getpid()) - spent
    return {"seconds": seconds, "processor": spent, "difference": difference([t.numpy() for t in zoo.leaves(got)], y)}


def torch_warm(backend):
    """Leaves the bytecode of what a backend imports, which an installed torch has."""
    import torch
    import transformers  # noqa: F401
    import zoo  # noqa: F401
    if backend == "fxcc":
        import fxcc.dynamo  # noqa: F401
    with torch.no_grad():
        torch.compile(torch.nn.Sequential(torch.nn.Conv2d(2, 2, 1), torch.nn.Linear(2, 2)), backend=backend)(torch.ones(1, 2, 2, 2))
    return {}


def steady(model, threads, rounds, seconds):
    """Emitted C by gcc -O3 and the JIT's code in turns: the least of each turn, and the mean of the least quarter of these. On one thread what is
    counted is that thread's time on a processor, so that other programs are not; with several, neighbouring turns are compared, which others
    disturb alike. Both get large pages: C in NumPy's arrays, the JIT in its own."""
    import emitted
    import jitted
    x, y = arrays(model)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fxcc-bench-"))
    try:
        sizes = emitted.emit(worker.file(model, ".pt2"), folder)
        net = emitted.Net(emitted.build(folder, sizes, flags=["-O3"] + (["-fopenmp"] if threads > 1 else [])), folder / "net.bin")
    finally:
        shutil.rmtree(folder)
    bound = net.bind([numpy.ascontiguousarray(a) for a in x], [numpy.empty_like(a) for a in y])
    ways = {"c": lambda: net.run_bound(bound)}
    functions = [jitted.Function(worker.file(model, ".pt2"), level, threads) for level in (1, 2)]
    for level, f in enumerate(functions, 1):
        arguments, outputs = f.bind(x)
        f.run_bound(arguments)
        assert difference(outputs, y) < 1e-4
        ways[f"jit{level}"] = lambda f=f, arguments=arguments: f.run_bound(arguments)
    clock = time.thread_time if threads == 1 else time.perf_counter
    least = {name: [] for name in ways}
    names = list(ways)
    for k in range(rounds + 1):
        for name in names[k % len(names):] + names[:k % len(names)]:
            call, times, end = ways[name], [], time.perf_counter() + seconds
            call()  # what the turn before left in caches is another's
            while len(times) < 3 or time.perf_counter() < end:
                start = clock()
                call()
                times.append(clock() - start)
            if k:  # the first round warms
                least[name].append(min(times))
    return {name: {"least": statistics.mean(sorted(t)[:max(2, rounds // 4)]), "turns": t} for name, t in least.items()}


def overhead(model, rounds, calls):
    """Seconds of a call from C and from Python, of the same code, in turns: the least of each."""
    import fxcc
    import jitted
    x, _ = arrays(model)
    path = worker.file(model, ".pt2")
    f, g = jitted.Function(path, threads=1), fxcc.compile(str(path), threads=1, cache="")
    arguments, _ = f.bind(x)
    c, python = [], []
    for _ in range(rounds):
        c.append(f.seconds(arguments, calls) / calls)
        start = time.perf_counter()
        for _ in range(calls):
            g(*x)
        python.append((time.perf_counter() - start) / calls)
    return {"c": min(c), "python": min(python)}


PROBES = {f.__name__: f for f in (first_fxcc, first_onnxruntime, first_openvino, first_inductor, torch_compile, torch_warm, steady, overhead)}


# ---- what asks them ------------------------------------------------------------------------------------------------------------


class Missing(Exception):
    """A peer is not installed, or does not work here: the row says so."""


def last_words(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it said nothing"


def probe(args, name, *arguments, threads=THREADS, flags=("-B",)):
    with tempfile.TemporaryDirectory(prefix="fxcc-bench-") as fresh:
        env = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive", "TORCHINDUCTOR_CACHE_DIR": fresh, "FXCC_CACHE": fresh,
                            "PYTHONPATH": str(args.build / "python")}
        done = subprocess.run([sys.executable, *flags, "-W", "ignore", __file__, "--probe", json.dumps([name, *arguments])], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise Missing(last_words(done.stderr))
    return json.loads(done.stdout.strip().splitlines()[-1])


def turns(args, asked):
    """The least of what probes say, some rounds of all in turns; a peer that fails is left out, and why is told."""
    said, why = {key: [] for key in asked}, {}
    for _ in range(args.rounds):
        for key, (name, *arguments) in asked.items():
            if key in why:
                continue
            try:
                answer = probe(args, name, *arguments)
            except Missing as e:
                why[key] = str(e)
                continue
            if answer.get("difference", 0) > worker.TOLERANCE:
                raise SystemExit(f"{key}: outputs differ from PyTorch's by {answer['difference']:.2g}")
            said[key].append(answer)
    least = {key: {k: min(a[k] for a in answers) for k in answers[0]} for key, answers in said.items() if answers}
    return least, why


class Table:
    def __init__(self):
        self.rows, self.good = [], True

    def add(self, what, value, unit, bound=None, peer="", ratio=None, ratio_bound=None):
        """A figure with its bound, or a ratio to a peer with its."""
        good = (bound is None or value <= bound) and (ratio_bound is None or ratio <= ratio_bound)
        self.good &= good
        self.rows.append({"what": what, "value": value, "unit": unit, "bound": bound, "peer": peer, "ratio": ratio, "ratio_bound": ratio_bound, "good": good})
        bounds = f"<= {bound:g} {unit}" if bound is not None else f"ratio <= {ratio_bound:g}" if ratio_bound is not None else ""
        print(f"{what:58} {value:10.4g} {unit:3} {bounds:15} {peer:34} {'' if ratio is None else f'{ratio:8.3f}'} {'' if good else 'MISSED'}", flush=True)

    def missing(self, what, why):
        self.rows.append({"what": what, "missing": why})
        print(f"{what:58} not measured: {why}", flush=True)


def first_outputs(args, table, model):
    peers = {"onnxruntime": ["first_onnxruntime", model], "openvino": ["first_openvino", model]}
    asked = {"fxcc": ["first_fxcc", model, 1, ""]} | {k: v for k, v in peers.items() if importlib.util.find_spec(k)}
    with tempfile.TemporaryDirectory(prefix="fxcc-bench-") as kept:
        asked["cached"] = ["first_fxcc", model, 1, kept]
        try:
            probe(args, "first_fxcc", model, 1, kept)
        except Missing as e:
            return table.missing(f"{model}: .pt2 to first output", str(e))
        found, why = turns(args, asked)
    if "fxcc" not in found:
        return table.missing(f"{model}: .pt2 to first output", why["fxcc"])
    cold = found["fxcc"]["seconds"]
    table.add(f"{model}: .pt2 to first output, no cache", cold, "s", 0.5 if model == "resnet50" else None)
    assert found["cached"]["cached"] and not found["fxcc"]["cached"]
    inference = found["cached"]["inference"]
    table.add(f"{model}: the same from the cache, less an inference", found["cached"]["seconds"] - inference, "s", 0.1, f"an inference: {1e3 * inference:.1f} ms")
    for name in peers:
        if name in found:
            seconds = found[name]["seconds"]
            table.add(f"{model}: no cache, to {name}'s load and first run", cold, "s", None, f"{name}: {seconds:.3g} s", cold / seconds)
        else:
            table.missing(f"{model}: no cache, to {name}", why.get(name, f"{name} is not installed"))
    if args.inductor:
        try:
            seconds = probe(args, "first_inductor", model)["seconds"]
            table.add(f"{model}: no cache, to torch.compile (inductor)", cold, "s", None, f"inductor: {seconds:.3g} s", cold / seconds)
        except Missing as e:
            table.missing(f"{model}: no cache, to torch.compile (inductor)", str(e))
    else:
        table.missing(f"{model}: no cache, to torch.compile (inductor)", "ask with --inductor: it takes tens of seconds")


def parts(args, table, model):
    """Passes and code generation."""
    for level, bound in ((1, 60), (2, 300)):
        runs = [json.loads(subprocess.run([args.build / "bin" / "bench_jit", worker.file(model, ".pt2"), str(level)], check=True, capture_output=True,
                                          text=True).stdout) for _ in range(args.rounds)]
        t = {k: min(r[k] for r in runs) for k in runs[0]}
        said = ", ".join(f"{k} {v:.0f}" for k, v in t.items() if k not in ("jit", "passes", "codegen"))
        table.add(f"{model}: LLVM's passes and code generation at -O{level}", t["passes"] + t["codegen"], "ms", bound, said)


def run_times(args, table, model):
    for threads in sorted({1, THREADS}):
        try:
            t = probe(args, "steady", model, threads, args.rounds * 3, 0.05, threads=threads)
        except Missing as e:
            table.missing(f"{model}: JIT to emitted C by gcc -O3", str(e))
            continue
        for level in (1, 2):
            ours, c = t[f"jit{level}"], t["c"]
            by_turn = statistics.median(x / y for x, y in zip(ours["turns"], c["turns"], strict=True))
            by_least = ours["least"] / c["least"]
            said = f"turns' median {by_turn:.3f}" if threads == 1 else f"quickest {by_least:.3f}"
            table.add(f"{model}: JIT -O{level} to emitted C by gcc -O3, {threads} thread{'s' * (threads > 1)}", 1e3 * ours["least"], "ms", None,
                      f"C: {1e3 * c['least']:.4g} ms; {said}", by_least if threads == 1 else by_turn, 1.05)


def python_calls(args, table):
    if not (args.build / "python" / "fxcc").is_dir():
        return table.missing("simple_cnn: a Python call over the C call", "this build has no Python package")
    try:
        t = probe(args, "overhead", "simple_cnn", 20, 2000)
    except Missing as e:
        return table.missing("simple_cnn: a Python call over the C call", str(e))
    table.add("simple_cnn: a Python call over the C call", 1e6 * (t["python"] - t["c"]), "us", 2, f"the C call: {1e6 * t['c']:.2f} us")


def torch_compiles(args, table, models):
    """Bytecode lies in a folder of the build: the test environment has none, and torch's modules would be parsed anew by each process."""
    os.environ |= {"PYTHONPYCACHEPREFIX": str(args.build / "bench-bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    missing = {}
    for backend in ["fxcc"] + ["inductor"] * args.inductor:
        try:
            probe(args, "torch_warm", backend, flags=())
        except Missing as e:
            missing[backend] = f"{backend}: {e}"
    for model in models:
        what = f"{model}: torch.compile(backend=\"fxcc\"), first call"
        try:
            if "fxcc" in missing:
                raise Missing(missing["fxcc"])
            ours = probe(args, "torch_compile", model, "fxcc", flags=())
            if ours["difference"] > worker.TOLERANCE:
                raise SystemExit(f"{model}: torch.compile's outputs differ from PyTorch's by {ours['difference']:.2g}")
            if not args.inductor:
                table.add(what, ours["seconds"], "s", None, "inductor: ask with --inductor")
                continue
            if "inductor" in missing:
                raise Missing(missing["inductor"])
            theirs = probe(args, "torch_compile", model, "inductor", flags=())
        except Missing as e:
            table.missing(what, str(e))
            continue
        for key, more in (("seconds", ""), ("processor", ", processor time")):
            table.add(what + more, ours[key], "s", None, f"inductor: {theirs[key]:.3g} s", ours[key] / theirs[key], 0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release", help="fxcc's build folder")
    parser.add_argument("--models", default=",".join(MODELS), help=f"default {','.join(MODELS)}")
    parser.add_argument("--rounds", type=int, default=5, help="of what is measured in processes of its own (default 5)")
    parser.add_argument("--inductor", action="store_true", help="torch.compile's own backend too")
    parser.add_argument("--runs", action="store_true", help="run times alone")
    parser.add_argument("--json", help="also write the results here")
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.probe:
        name, *arguments = json.loads(args.probe)
        print(json.dumps(PROBES[name](*arguments)))
        return 0
    args.build = args.build.resolve()
    models = args.models.split(",")
    onnx = all(map(importlib.util.find_spec, ("onnx", "onnxscript")))
    bench_run.prepare([*models, "simple_cnn"], ["onnxruntime"] if onnx else [])
    table = Table()
    for model in models:
        if model in COMPILED and not args.runs:
            first_outputs(args, table, model)
            parts(args, table, model)
    for model in models:
        run_times(args, table, model)
    if args.runs:
        return finish(args, table)
    python_calls(args, table)
    torch_compiles(args, table, models)
    return finish(args, table)


def finish(args, table):
    if args.json:
        cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
        pathlib.Path(args.json).write_text(json.dumps({"cpu": cpu, "cores": THREADS, "rows": table.rows}, indent=1))
    return 0 if table.good else 1


if __name__ == "__main__":
    sys.exit(main())
