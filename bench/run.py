"""Times emitted C, ONNX Runtime, OpenVINO and PyTorch eager on the same models, inputs and threads.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    $(bench/env) bench/run.py                          ResNet-50, MobileNetV2, BERT-base, ViT-B/16, GPT-2, MiniLM; 1 and 2 threads
    $(bench/env) bench/run.py resnet18 --threads 1 --engines fxcc,onnxruntime --json out.json

Every engine is a process of its own (worker.py), so that thread pools do not disturb each other and peak memory is each
one's own. All are started and warmed up; then they take turns, round by round, so that what the machine does besides
meets all alike. Outputs are compared with PyTorch's reference from tests/models/zoo*.py before anything is timed.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "models"))
sys.dont_write_bytecode = True

MODELS = ["resnet50", "mobilenet_v2", "bert_base", "vit_b_16", "gpt2", "minilm"]
ENGINES = ["fxcc", "onnxruntime", "openvino", "torch"]


class Worker:
    def __init__(self, engine, model, threads, options):
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1"}
        self.engine = engine
        self.process = subprocess.Popen([sys.executable, HERE / "worker.py", engine, model, str(threads), json.dumps(options)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.times = []
        self.facts = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise SystemExit(f"{self.engine}: the worker ended with status {self.process.returncode}")
        return json.loads(line)

    def ask(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self.answer()

    def turn(self, seconds):
        self.times += self.ask(seconds)["times"]

    def close(self):
        self.process.stdin.close()
        self.facts |= self.answer()
        self.process.wait()


def prepare(models, engines):
    """References, and ONNX files where an engine reads those. In a process of its own: torch is large."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import worker; worker.prepare(sys.argv[2:])"
    onnx = {"onnxruntime", "openvino"} & set(engines)
    subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", script, str(HERE), "onnx" if onnx else "none", *models], check=True,
                   stdout=subprocess.DEVNULL)


def measure(model, threads, args):
    options = {"target": args.target, "compiler": args.compiler}
    workers = [Worker(engine, model, threads, options) for engine in args.engines]
    for w in workers:
        w.ask(args.seconds)  # warm: caches, clocks, lazily made kernels
    for _ in range(args.rounds):
        for w in workers:
            w.turn(args.seconds)
    for w in workers:
        w.close()
    rows = []
    for w in workers:
        rows.append({"model": model, "threads": threads, "engine": w.engine, "median_ms": 1e3 * statistics.median(w.times),
                     "min_ms": 1e3 * min(w.times), "runs": len(w.times), **w.facts})
    base = next((r["median_ms"] for r in rows if r["engine"] == "onnxruntime"), None)
    for r in rows:
        r["ratio_to_onnxruntime"] = r["median_ms"] / base if base else None
    return rows


def print_rows(rows):
    for r in rows:
        ratio = f"{r['ratio_to_onnxruntime']:8.2f}" if r["ratio_to_onnxruntime"] else "        "
        print(f"{r['model']:20} {r['threads']:7} {r['engine']:12} {r['median_ms']:10.2f} {r['min_ms']:10.2f} {ratio} {r['compile_s']:10.2f} "
              f"{r['artifact_bytes'] / 1e6:9.1f} {r['peak_rss_bytes'] / 1e6:9.1f} {r['difference']:10.1e} {'' if r['agrees'] else 'DIFFERS'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS, help="names of tests/models/zoo.py and zoo_transformers.py")
    parser.add_argument("--threads", default="1,2", help="thread counts (default 1,2)")
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"of {','.join(ENGINES)} (default all)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default 15)")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a turn; at least one run (default 0.2)")
    parser.add_argument("--target", default="native", help="fxcc's --target (default native)")
    parser.add_argument("--compiler", default="gcc", help="compiler of the emitted C (default gcc)")
    parser.add_argument("--json", help="also write the results here")
    args = parser.parse_args()
    args.engines = args.engines.split(",")
    for e in args.engines:
        if e not in ENGINES:
            parser.error(f"expected engines of {','.join(ENGINES)}, got {e}")

    prepare(args.models, args.engines)
    print(f"{'model':20} {'threads':>7} {'engine':12} {'median ms':>10} {'min ms':>10} {'to ORT':>8} {'compile s':>10} {'file MB':>9} {'RSS MB':>9} "
          f"{'rel diff':>10}")
    rows = []
    for model in args.models:
        for threads in map(int, args.threads.split(",")):
            some = measure(model, threads, args)
            print_rows(some)
            rows += some
    if args.json:
        cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
        with open(args.json, "w") as f:
            json.dump({"cpu": cpu, "cores": os.cpu_count(), "results": rows}, f, indent=1)
    sys.exit(not all(r["agrees"] for r in rows))


if __name__ == "__main__":
    main()
