"""PyTorch's side of one model: weights and inputs from seeds, the reference, times of eager and inductor.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    worker.py NAME FOLDER ROWS    answers each line of its input (make, compare, compile, time SECONDS) with a line of JSON

FOLDER has NAME.fx and constants.safetensors where the graph has any.
"""
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import models  # noqa: E402
import weights  # noqa: E402


def clip(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300]


class Model:
    def __init__(self, name, folder, rows):
        self.name, self.folder, self.rows = name, pathlib.Path(folder), rows
        self.ways = {}

    def make(self):
        """The module, weights and inputs as files, what eager gives on the CPU."""
        import torch
        self.module, self.inputs = models.build(self.name, self.rows)
        text = (self.folder / f"{self.name}.fx").read_text()
        constants = list(weights.read_safetensors(self.folder / "constants.safetensors")) if (self.folder / "constants.safetensors").exists() else []
        weights.write_safetensors(self.folder / f"{self.name}.safetensors", weights.of_module(
            text, self.name, models.tensors(self.module), {t[0] for t in constants}) + constants)
        for i, x in enumerate(self.inputs):
            x.contiguous().numpy().tofile(self.folder / f"in{i}.bin")
        with torch.inference_mode():
            self.reference = [t.contiguous() for t in models.leaves(self.module(*self.inputs))]
        return {"torch": torch.__version__, "cuda": torch.cuda.is_available()}

    def difference(self, outputs):
        """The largest difference from eager on the CPU, as a share of the largest magnitude; infinite where something is not finite."""
        import torch
        worst = 0.0
        for got, want in zip(outputs, self.reference, strict=True):
            if not torch.isfinite(got).all():
                return float("inf")
            worst = max(worst, float((got.double() - want.double()).abs().max() / want.double().abs().max()))
        return worst

    def compare(self):
        import numpy
        import torch
        outputs = [torch.from_numpy(numpy.fromfile(self.folder / f"out{i}.bin", want.numpy().dtype)).reshape(want.shape)
                   for i, want in enumerate(self.reference)]
        return {"difference": self.difference(outputs)}

    def compile(self):
        """Puts the model on the device, compiles it, makes graphs; how far each way is from the CPU."""
        import torch
        if not torch.cuda.is_available():
            return {"absent": "torch sees no GPU here"}
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        self.module.cuda()
        self.on_device = [x.cuda() for x in self.inputs]
        start, facts = time.monotonic(), {}
        for name, make in (("eager", lambda: self.module), ("inductor", lambda: torch.compile(self.module))):
            try:
                function = make()
                with torch.inference_mode():
                    facts[name] = {"difference": self.difference([t.cpu() for t in models.leaves(function(*self.on_device))])}
                self.ways[name] = lambda f=function: f(*self.on_device)
            except Exception as e:  # another version of torch, a kernel that does not compile: said, and the rest is measured
                facts[name] = {"absent": clip(e)}
                continue
            try:
                self.ways[f"{name}_graph"] = self.captured(self.ways[name])
                facts[f"{name}_graph"] = {}
            except Exception as e:
                facts[f"{name}_graph"] = {"absent": clip(e)}
        return facts | {"seconds": time.monotonic() - start}

    @staticmethod
    def captured(function):
        import torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.inference_mode():
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(graph):
            kept = function()  # what it writes to has to live as long as the graph

        def replay(kept=kept):
            graph.replay()
        return replay

    def time(self, seconds):
        return {name: self.measure(way, seconds) for name, way in self.ways.items()}

    @staticmethod
    def measure(run, seconds):
        """As bench.cu does: batches of at least 2 ms between two events."""
        import torch

        def batch(runs):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            for _ in range(runs):
                run()
            b.record()
            b.synchronize()
            return a.elapsed_time(b) / 1e3 / runs

        with torch.inference_mode():
            for _ in range(3):
                batch(1)
            runs = int(min(200, max(1, 2e-3 / max(batch(1), 1e-6))))
            times, end = [], time.monotonic() + seconds
            while len(times) < 3 or (time.monotonic() < end and len(times) < 10000):
                times.append(batch(runs))
        return {"median_s": statistics.median(times), "min_s": min(times), "batches": len(times), "runs": runs}


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not disturb the talk
    model = Model(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    for line in sys.stdin:
        what, *arguments = line.split()
        try:
            answer = getattr(model, what)(*map(float, arguments))
        except Exception as e:
            answer = {"error": clip(e)}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
