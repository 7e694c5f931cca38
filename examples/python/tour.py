# A tour of fxcc in Python, as cells for a notebook or an editor. Runs from anywhere; needs NumPy.
# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

# %% A model, compiled in memory and called
import pathlib
import tempfile
import time

import numpy as np

import fxcc

model = pathlib.Path(__file__).resolve().parent.parent / "digits" / "digits.pt2"
start = time.perf_counter()
f = fxcc.compile(model)
print(f"{f} in {time.perf_counter() - start:.3f} s{', kept from before' if f.cached else ''}")
picture = np.random.default_rng(0).random((1, 1, 8, 8), dtype="f4")
scores = f(picture)
print("digit", scores.argmax(), "arena and weights:", f.memory)

# %% Its graph
g = f.graph
g.show()
print(g.cost)

# %% Another activation, by hand
g = g.copy()
for node in g.nodes:
    if node.operator == "aten.relu.default":
        node.target = "aten.gelu.default"
changed = g.compile()
print("with gelu:", np.abs(changed(picture) - scores).max(), "away")
assert np.allclose(changed(picture), g.interpret(picture), atol=1e-4)

# %% Passes
smaller, changes = f.graph.run_passes("fuse_conv_bn,eliminate_dead_code")
print(len(f.graph), "nodes, then", len(smaller), "after", len(changes), "changes")

# %% C sources
with tempfile.TemporaryDirectory() as folder:
    print(f.emit_c(folder))
    print(sorted(p.name for p in pathlib.Path(folder).iterdir()))

# %% A graph from nothing, with an open size
h = fxcc.Graph("attention")
q = h.placeholder("q", "f32[n, 16]")
h.set_symbol("n", 1, 128)
h.set_parameter("keys", np.random.default_rng(1).random((32, 16), dtype="f4"))
k = h.get_attr("keys")
weights = h.call_function("aten.softmax.int", (h.call_function("aten.mm.default", (q, h.call_function("aten.t.default", (k,)))), -1))
h.output(h.call_function("aten.mm.default", (weights, k)))
attend = h.compile()
print(attend.signature)
for n in (1, 50):
    x = np.random.default_rng(n).random((n, 16), dtype="f4")
    assert np.allclose(attend(x), h.interpret(x), atol=1e-5)

# %% What a wrong call says
for wrong in (picture[0], picture.astype("f8"), "digit"):
    try:
        f(wrong)
    except (fxcc.Error, TypeError) as error:
        print(f"{type(error).__name__}: {error}")
