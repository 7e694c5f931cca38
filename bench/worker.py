"""One engine of run.py: prepares a model, checks its output, then runs as long as it is told, turn by turn.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

Talks with run.py in lines: a JSON object when ready; for each number of seconds read, the times of the runs of that turn;
at the end of input, peak memory.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "models"))
TOLERANCE = 1e-3  # of max |reference|, for the others; fxcc's tests ask 1e-4


def folder():
    """Where zoo.py keeps its models, told by prepare(): importing zoo would import torch."""
    return pathlib.Path((HERE.parent / "build" / "bench-models").read_text())


def prepare(args):
    import torch
    import zoo
    (HERE.parent / "build").mkdir(exist_ok=True)
    (HERE.parent / "build" / "bench-models").write_text(str(zoo.cache_folder()))
    for name in args[1:]:
        exported = zoo.export(name)
        onnx = exported.path.with_suffix(".onnx")
        if args[0] == "onnx" and not onnx.exists():
            model, inputs = zoo.build(name)
            torch.onnx.export(model, (inputs[0],), str(onnx) + ".new", dynamo=True, external_data=False)
            os.replace(str(onnx) + ".new", onnx)


class Fxcc:
    def __init__(self, model, threads, options, x, y):
        import emitted
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="fxcc-bench-"))
        try:
            start = time.monotonic()
            sizes = emitted.emit(folder() / f"{model}.pt2", self.dir, target=options["target"])
            so = emitted.build(self.dir, sizes, options["compiler"], flags=["-O3"] + (["-fopenmp"] if threads > 1 else []))
            self.compile_s = time.monotonic() - start
            self.artifact = so.stat().st_size + (self.dir / "net.bin").stat().st_size
            self.net = emitted.Net(so, self.dir / "net.bin")
        finally:
            shutil.rmtree(self.dir)
        self.outputs = [numpy.empty_like(a) for a in y]
        self.bound = self.net.bind([x], self.outputs)

    def run(self):
        self.net.run_bound(self.bound)
        return self.outputs


class OnnxRuntime:
    def __init__(self, model, threads, options, x, y):
        import onnxruntime
        path = folder() / f"{model}.onnx"
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
        start = time.monotonic()
        self.session = onnxruntime.InferenceSession(str(path), o, providers=["CPUExecutionProvider"])
        self.compile_s = time.monotonic() - start
        self.artifact = path.stat().st_size
        self.feed = {self.session.get_inputs()[0].name: x}

    def run(self):
        return self.session.run(None, self.feed)


class OpenVino:
    def __init__(self, model, threads, options, x, y):
        import openvino
        path = folder() / f"{model}.onnx"
        core = openvino.Core()
        start = time.monotonic()
        compiled = core.compile_model(core.read_model(path), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
        self.compile_s = time.monotonic() - start
        self.artifact = path.stat().st_size
        self.request = compiled.create_infer_request()
        self.request.set_input_tensor(openvino.Tensor(x, shared_memory=True))

    def run(self):
        self.request.infer()
        return [t.data for t in self.request.output_tensors]


class Torch:
    def __init__(self, model, threads, options, x, y):
        import torch
        import zoo
        torch.set_num_threads(threads)
        self.compile_s = 0.0
        self.artifact = (folder() / f"{model}.pt2").stat().st_size
        self.model, _ = zoo.build(model)
        self.x, self.zoo, self.torch = torch.from_numpy(x), zoo, torch

    def run(self):
        with self.torch.inference_mode():
            return [t.numpy() for t in self.zoo.leaves(self.model(self.x))]


def peak_rss():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return 0


def main():
    kind, model, threads, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print does not disturb the talk
    with numpy.load(folder() / f"{model}.npz") as arrays:
        x, y = arrays["in0_0"], [arrays[k] for k in arrays.files if k.startswith("out0_")]
    engine = {"fxcc": Fxcc, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "torch": Torch}[kind](model, threads, options, x, y)
    difference = max(float(abs(a - b).max() / abs(b).max()) for a, b in zip(engine.run(), y, strict=True))

    def say(**facts):
        out.write(json.dumps(facts) + "\n")
        out.flush()

    say(compile_s=engine.compile_s, artifact_bytes=engine.artifact, difference=difference,
        agrees=difference <= (1e-4 if kind == "fxcc" else TOLERANCE))
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while True:
            start = time.perf_counter()
            engine.run()
            stop = time.perf_counter()
            times.append(stop - start)
            if stop >= end:
                break
        say(times=times)
    say(peak_rss_bytes=peak_rss())


if __name__ == "__main__":
    main()
