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


def file(model, suffix):
    """Where the zoo keeps a model, told by prepare(): importing zoo would import torch."""
    return pathlib.Path(json.loads((HERE.parent / "build" / "bench-models").read_text())[model]).with_suffix(suffix)


def build(name):
    """The module and a tuple of its inputs."""
    import zoo
    import zoo_transformers
    model, inputs = (zoo if name in zoo.MODELS else zoo_transformers).build(name)
    return model, inputs[0] if isinstance(inputs[0], tuple) else (inputs[0],)


def prepare(args):
    import torch
    import zoo_transformers
    where = {}
    for name in args[1:]:
        exported = zoo_transformers.export(name)
        where[name] = str(exported.path)
        onnx = exported.path.with_suffix(".onnx")
        if args[0] == "onnx" and not onnx.exists():
            model, inputs = build(name)
            torch.onnx.export(model, inputs, str(onnx) + ".new", dynamo=True, external_data=False)
            os.replace(str(onnx) + ".new", onnx)
    (HERE.parent / "build").mkdir(exist_ok=True)
    (HERE.parent / "build" / "bench-models").write_text(json.dumps(where))


class Fxcc:
    def __init__(self, model, threads, options, x, y):
        import emitted
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="fxcc-bench-"))
        try:
            start = time.monotonic()
            sizes = emitted.emit(file(model, ".pt2"), self.dir, target=options["target"])
            so = emitted.build(self.dir, sizes, options["compiler"], flags=["-O3"] + (["-fopenmp"] if threads > 1 else []))
            self.compile_s = time.monotonic() - start
            self.artifact = so.stat().st_size + (self.dir / "net.bin").stat().st_size
            self.net = emitted.Net(so, self.dir / "net.bin")
        finally:
            shutil.rmtree(self.dir)
        self.outputs = [numpy.empty_like(a) for a in y]
        self.bound = self.net.bind([numpy.ascontiguousarray(a) for a in x], self.outputs)

    def run(self):
        self.net.run_bound(self.bound)
        return self.outputs


class OnnxRuntime:
    def __init__(self, model, threads, options, x, y):
        import onnxruntime
        path = file(model, ".onnx")
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
        start = time.monotonic()
        self.session = onnxruntime.InferenceSession(str(path), o, providers=["CPUExecutionProvider"])
        self.compile_s = time.monotonic() - start
        self.artifact = path.stat().st_size
        self.feed = {i.name: a for i, a in zip(self.session.get_inputs(), x, strict=True)}

    def run(self):
        return self.session.run(None, self.feed)


class OpenVino:
    def __init__(self, model, threads, options, x, y):
        import openvino
        path = file(model, ".onnx")
        core = openvino.Core()
        start = time.monotonic()
        compiled = core.compile_model(core.read_model(path), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
        self.compile_s = time.monotonic() - start
        self.artifact = path.stat().st_size
        self.request = compiled.create_infer_request()
        for i, a in enumerate(x):
            self.request.set_input_tensor(i, openvino.Tensor(a, shared_memory=True))

    def run(self):
        self.request.infer()
        return [t.data for t in self.request.output_tensors]


class Torch:
    def __init__(self, model, threads, options, x, y):
        import torch
        import zoo
        torch.set_num_threads(threads)
        self.compile_s = 0.0
        self.artifact = file(model, ".pt2").stat().st_size
        self.model, self.x = build(model)
        self.zoo, self.torch = zoo, torch

    def run(self):
        with self.torch.inference_mode():
            return [t.numpy() for t in self.zoo.leaves(self.model(*self.x))]


def peak_rss():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return 0


def main():
    kind, model, threads, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print does not disturb the talk
    with numpy.load(file(model, ".npz")) as arrays:
        x, y = ([arrays[k] for k in arrays.files if k.startswith(prefix)] for prefix in ("in0_", "out0_"))
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
