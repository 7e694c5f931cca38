"""Counts the kernels that torch.compile's inductor makes of exported models: generated kernels and calls of libraries.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    python inductor.py MODEL...            counts, prints
    python inductor.py --write [MODEL...]  also keeps the counts in inductor.json; without names, of all models of the zoo

Inductor needs a GPU to generate for one, so it generates for the CPU, and only the text of its wrapper is looked at: nothing of it is compiled or run. The graph is
the exported one that fxcc reads, in inference, float32. Counted in the wrapper's call():

    extern     calls of libraries: extern_kernels.*, torch.ops.*, aten.* (convolutions, products, attention)
    generated  calls of kernels that it generated. Its C++ functions hold all loop nests between two calls of libraries, one behind another
    nests      the nests in them after fusion: each would be a kernel of its own on a GPU, where one launch is one nest

`kernels` is extern + generated: the bound of the test. It is the strict one: on a GPU, where what stands in one C++ function is as many launches as nests, it would be extern + nests.
Once with torch.compile's defaults, where batch norm stays behind its convolution (in a generated kernel with what follows it), and once with `freezing`, which folds it into the
weights and, on CPUs, gives convolutions and linears their activations and additions by oneDNN, which has no like on GPUs (`frozen`). The test's bound is the default's.
"""
import argparse
import json
import pathlib
import re
import sys

import torch
from torch._inductor import config, graph, scheduler

HERE = pathlib.Path(__file__).parent
RECORD = HERE / "inductor.json"
sys.path.insert(0, str(HERE.parent / "models"))


class Stop(Exception):
    """The wrapper's text is there: no compiler needs to run."""


def wrapper_and_nests(path, freezing):
    """The text of the wrapper that inductor writes for an exported model, and how many nests are left after fusion."""
    torch._dynamo.reset()
    module = torch.export.load(path).module()
    inputs = example_inputs(path)
    seen = {}

    def save(code):
        seen["code"] = code
        raise Stop

    fuse = scheduler.Scheduler.fuse_nodes

    def fused(self, nodes):
        nodes = fuse(self, nodes)
        seen["nests"] = sum(n.is_reduction() or not (n.is_extern() or n.is_template() or isinstance(n, scheduler.NopKernelSchedulerNode))
                            for n in nodes)
        return nodes

    kept = graph.GraphLowering.save_output_code
    graph.GraphLowering.save_output_code = staticmethod(save)
    scheduler.Scheduler.fuse_nodes = fused
    try:
        with torch.no_grad(), config.patch(freezing=freezing, force_disable_caches=True, cpp_wrapper=False):
            torch.compile(module, fullgraph=True)(*inputs)
    except Exception as e:  # dynamo wraps what the compiler raises
        if "code" not in seen:
            raise e
    finally:
        graph.GraphLowering.save_output_code = kept
        scheduler.Scheduler.fuse_nodes = fuse
    return seen["code"], seen["nests"]


def example_inputs(path):
    program = torch.export.load(path)
    args, kwargs = program.example_inputs
    assert not kwargs, "models of the zoo have positional inputs"
    return args


def count(path, freezing=False):
    code, nests = wrapper_and_nests(path, freezing)
    names = set(re.findall(r"^ *(\w+) = async_compile\.\w+\(", code, re.M))
    body = code[code.index("def call("):code.index("def benchmark_compiled_module")]
    generated = sum(len(re.findall(rf"^ *{name}\(", body, re.M)) for name in names)
    extern = len(re.findall(r"\bextern_kernels\.\w+\(|\btorch\.ops\.[\w.]+\(|\baten\.[\w.]+\(", re.sub(r"#.*", "", body)))
    return {"extern": extern, "generated": generated, "nests": nests, "kernels": extern + generated}


def recorded(name):
    return json.loads(RECORD.read_text())["models"][name]


def main():
    import zoo_transformers
    parser = argparse.ArgumentParser(description="Counts the kernels that inductor makes of models of the zoo.")
    parser.add_argument("--write", action="store_true", help="keep the counts in inductor.json")
    parser.add_argument("--frozen", action="store_true", help="count with freezing, too")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    a = parser.parse_args()
    for name in a.models or ((zoo_transformers.zoo.MODELS | zoo_transformers.MODELS if a.write else [])):
        path = zoo_transformers.export(name).path
        counts = count(path)
        if a.frozen:
            counts["frozen"] = count(path, freezing=True)["kernels"]
        print(name, counts, flush=True)
        if a.write:
            record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
            record["torch"] = torch.__version__
            record.setdefault("models", {}).setdefault(name, {}).update(counts)
            RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
