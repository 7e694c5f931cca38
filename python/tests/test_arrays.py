"""fxcc with NumPy arrays and torch tensors: no copies, kinds of outputs, values against eager, bad arguments. Skips what is not installed.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import gc
import os
import pathlib
import shutil
import sys
import threading

import pytest

import fxcc

np = pytest.importorskip("numpy", reason="NumPy is not installed")
try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "examples" / "digits"


def pointwise(dtype="f32", rank=2):
    """x + x of any rank and dtype."""
    g = fxcc.Graph("double")
    x = g.placeholder("x", f"{dtype}[{', '.join(f'd{i}' for i in range(rank))}]")
    g.output(g.call_function("aten.add.Tensor", (x, x)))
    return g.compile(cache="")


NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8"}


@pytest.mark.parametrize("short", NAMES)
@pytest.mark.parametrize("target", ["jit"])
def test_dtypes_of_numpy(short, target):
    f = pointwise(short)
    x = (np.arange(12).reshape(3, 4) - (0 if short == "u8" else 5)).astype(NAMES[short])
    y = f(x)
    assert type(y) is np.ndarray and y.dtype == x.dtype and np.array_equal(y, x + x)


@needs_torch
@pytest.mark.parametrize("short", [*NAMES, "bf16"])
def test_dtypes_of_torch(short):
    f = pointwise(short)
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, {**NAMES, "bf16": "bfloat16"}[short]))
    y = f(x)
    assert type(y) is torch.Tensor and y.dtype == x.dtype and torch.equal(y, x + x)


def test_bool():
    g = fxcc.Graph()
    x = g.placeholder("x", "bool[3]")
    g.output(g.call_function("aten.logical_not.default", (x,)))
    f = g.compile(cache="")
    assert f(np.array([True, False, True])).tolist() == [False, True, False]
    if torch:
        assert f(torch.tensor([True, False, True])).tolist() == [False, True, False]


def test_strides_are_read():
    f = pointwise()
    x = np.arange(48, dtype="f4").reshape(6, 8)
    views = [x.T, x[::2], x[:, ::-1], x[::-1, ::3], np.asfortranarray(x), x[1:1], np.broadcast_to(x[0], (5, 8)), x[:, 3:4], np.frombuffer(bytes(1) + x.tobytes(), "f4", offset=1)[:4].reshape(2, 2)]
    for v in views:
        assert np.array_equal(f(v), v + v)
    if torch:
        t = torch.from_numpy(x)
        for v in (t.T, t[::2], t[:, 1:], t.expand(6, 8), t[0].expand(5, 8), t[1:1]):
            assert torch.equal(f(v), v + v)


def test_inputs_are_not_copied():
    g = fxcc.Graph()
    x = g.placeholder("x", "f32[1000, 1000]")
    g.output(g.call_function("aten.mul_.Tensor", (x, 2.0)))
    f = g.compile(cache="")
    a = np.ones((1000, 1000), "f4")
    f(a)
    assert (a == 2).all()
    a.flags.writeable = False
    with pytest.raises(fxcc.ArgumentError, match="input 0 'x'.*read-only"):
        f(a)
    if torch:
        t = torch.ones(1000, 1000)
        f(t)
        assert (t == 2).all()


def test_odd_arrays_are_exceptions():
    f = pointwise()
    x = np.ones((2, 2), "f4")
    odd = [x.astype(">f4"), x.astype("c8"), x.astype("U3"), x.astype(object), x.astype("M8[s]"), np.datetime64("2020"), x.astype("S4"), np.zeros((2, 2), [("a", "f4"), ("b", "i2")]), x.astype("f8"),
           x.astype("u4"), x.astype("u8"), np.float32(3), np.zeros((1,) * 9, "f4"), np.zeros((1,) * 32, "f4"), np.zeros(3, "f4"), np.ma.masked_all((2, 2), object),
           np.zeros((2, 2), "V4"), np.void(b"abcd"), np.zeros((2, 2), "g"), [x], {"x": x}, iter(x), np.dtype("f4"), np, x.tolist(),
           np.ndarray((2, 2), "f4", bytes(40), 0, (5, 9))]
    for o in odd:
        with pytest.raises((TypeError, ValueError)):
            f(o)
    huge = np.lib.stride_tricks.as_strided(x, (1 << 30, 1 << 30), (0, 0))
    with pytest.raises((TypeError, ValueError, MemoryError)):
        f(huge)


def test_what_is_said_of_wrong_arrays():
    f = pointwise()
    x = np.arange(6, dtype="f4").reshape(2, 3)
    wrong = [(x.astype(">f4"), TypeError, "fxcc has no dtype for elements of format '>f'"), (x.astype("f8"), fxcc.ArgumentError, r"expected float32\[d0 in 0.., d1 in 0..\], got float64\[2, 3\]"),
             (x.astype("c8"), TypeError, "fxcc has no dtype for elements of format 'Zf'"), (x[0], fxcc.ArgumentError, r"got float32\[3\]"), (x[None], fxcc.ArgumentError, r"got float32\[1, 2, 3\]"),
             (np.zeros((1,) * 9, "f4"), fxcc.ArgumentError, "expected at most 8 dimensions, got 9"), (np.zeros((2, 2), [("a", "f4"), ("b", "i2")])["a"], fxcc.ArgumentError, "stride 6 of dim 1 is no multiple of the 4 bytes of an element: pass a copy"),
             (np.zeros(2, object), TypeError, "no dtype for elements of format 'O'")]
    for o, kind, says in wrong:
        with pytest.raises(kind, match="^input 0 'x': .*" + says):
            f(o)
    g = fxcc.Graph()
    a, b = g.placeholder("a", "f32[2, 3]"), g.placeholder("b", "f32[2, 3]")
    g.output(g.call_function("aten.add_.Tensor", (a, b)))
    f = g.compile(cache="")
    block = np.arange(40, dtype="f4")
    for first, second, says in ((x, x, "input 1 'b' overlaps input 0 'a'"), (block[:6].reshape(2, 3), block[5:11].reshape(2, 3), "input 1 'b' overlaps input 0 'a'"),
                                (np.lib.stride_tricks.as_strided(block, (2, 3), (0, 4)), x, "input 0 'a': the model changes it, so its elements must lie apart"),
                                (np.lib.stride_tricks.as_strided(block, (2, 3), (4, 4)), x, "its elements must lie apart"), (np.broadcast_to(block[:3], (2, 3)), x, "read-only")):
        kept = block.copy(), x.copy()
        with pytest.raises(fxcc.ArgumentError, match=says):
            f(first, second)
        assert np.array_equal(block, kept[0]) and np.array_equal(x, kept[1])
    # what is changed where it lies, whatever its strides and place
    for view in (block[:6].reshape(2, 3), block[6:12].reshape(3, 2).T, block[39:27:-2].reshape(2, 3), block[30:0:-1][::5].reshape(2, 3), np.frombuffer(bytearray(25), "f4", 6, 1).reshape(2, 3)):
        was = view.copy()
        assert np.array_equal(f(view, x), was + x) and np.array_equal(view, was + x)


@needs_torch
def test_what_is_said_of_wrong_tensors():
    f = pointwise()
    x = torch.ones(2, 3)
    for o, says in ((x.to("meta"), "meta"), (x.double(), r"expected float32\[d0 in 0.., d1 in 0..\], got float64\[2, 3\]"), (x[0], r"got float32\[3\]"), (x.to_sparse(), "."),
                    (torch.zeros((1,) * 9), "expected at most 8 dimensions, got 9"), (x.clone().requires_grad_(), r"pass \.detach\(\)"),
                    (torch.complex(x, x).conj().imag, r"its negative bit is set\): pass \.resolve_neg\(\)")):
        with pytest.raises((fxcc.Error, TypeError), match="^input 0 'x'.*" + says):
            f(o)
    g = fxcc.Graph()
    a = g.placeholder("a", "f32[2, 3]")
    g.output(g.call_function("aten.mul_.Tensor", (a, 2.0)))
    f = g.compile(cache="")
    with pytest.raises(fxcc.ArgumentError, match="input 0 'a': the model changes it, so its elements must lie apart"):
        f(torch.ones(3).expand(2, 3))
    t = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(f(t.T), 2 * torch.arange(6.0).reshape(3, 2).T) and torch.equal(t, 2 * torch.arange(6.0).reshape(3, 2))


@needs_torch
def test_odd_tensors_are_exceptions():
    f = pointwise()
    x = torch.ones(2, 2)
    odd = [x.to_sparse(), x.to("meta"), x.double(), x.to(torch.complex64).conj(), torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), x.requires_grad_(), torch.nn.Parameter(x.detach()),
           torch.zeros((1,) * 9), torch.zeros(3), [x], torch.nested.nested_tensor([x.detach()]), torch.float32, torch.nn.Linear(2, 2), torch.ones(2, 2, dtype=torch.uint32)]
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode():
        odd.append(torch.ones(2, 2))
    odd.append(torch.ones(2, 2)._neg_view())
    for o in odd:
        with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
            f(o)
        assert "input 0 'x'" in str(caught.value) and "\n" not in str(caught.value)
    with torch.no_grad():
        assert torch.equal(f(torch.nn.Parameter(x.detach())), 2 * x)
    f.any_grad = True
    assert torch.equal(f(torch.nn.Parameter(x.detach())), 2 * x) and not f(torch.nn.Parameter(x.detach())).requires_grad
    if torch.cuda.is_available():
        with pytest.raises(fxcc.ArgumentError, match="on the CPU"):
            f(x.detach().cuda())


@needs_torch
def test_outputs_are_of_torch_where_an_input_is():
    g = fxcc.Graph()
    a, b = g.placeholder("a", "f32[2]"), g.placeholder("b", "f32[2]")
    g.output((g.call_function("aten.add.Tensor", (a, b)), a))
    f = g.compile(cache="")
    t, n = torch.ones(2), np.ones(2, "f4")
    for args, kind in (((t, t), torch.Tensor), ((n, t), torch.Tensor), ((t, n), torch.Tensor), ((n, n), np.ndarray), ((memoryview(n), n), np.ndarray)):
        out = f(*args)
        assert [type(o) for o in out] == [kind, kind] and out[0].tolist() == [2, 2]
    assert f(t, t)[1].data_ptr() != t.data_ptr()


@needs_torch
def test_references_of_tensors_stay():
    f = pointwise()
    x, n = torch.ones(2, 2), np.ones((2, 2), "f4")
    f(x), f(n)
    before = sys.getrefcount(x), sys.getrefcount(n)
    for _ in range(1000):
        f(x), f(n)
        with pytest.raises(fxcc.Error):
            f(x[:, 0].reshape(2, 1, 1))
    assert (sys.getrefcount(x), sys.getrefcount(n)) == before
    storage = f(x).untyped_storage()
    assert storage.nbytes() == 16


def test_tensors_of_a_graph_are_seen_where_they_lie():
    w = np.arange(6, dtype="f4").reshape(2, 3)
    g = fxcc.Graph()
    g.set_parameter("layer.w", w)
    t = g.tensor("layer.w")
    assert (t.shape, t.strides, t.dtype, t.readonly) == ((2, 3), (3, 1), "float32", True)
    assert repr(t) == "<fxcc.Tensor of float32 (2, 3)>"
    assert g.tensors == {"layer.w": ("parameter", "float32", (2, 3), None)}
    view = t.numpy()
    assert np.array_equal(view, w) and np.shares_memory(view, w) and not view.flags.writeable
    del g, t
    gc.collect()
    assert view[1, 2] == 5
    with pytest.raises(TypeError):
        fxcc.Graph().set_parameter("w", w.astype(object))


@needs_torch
def test_state_with_torch():
    g = fxcc.Graph()
    x = g.placeholder("x", "bf16[2]")
    g.set_buffer("sum", torch.zeros(2, dtype=torch.bfloat16))
    g.output(g.call_function("aten.add_.Tensor", (g.get_attr("sum"), x)))
    f = g.compile(cache="")
    f(torch.ones(2, dtype=torch.bfloat16))
    state = f.state["sum"].torch()
    assert state.tolist() == [1, 1]
    state += 5
    assert f(torch.ones(2, dtype=torch.bfloat16)).tolist() == [7, 7]
    del f
    gc.collect()
    assert state.tolist() == [7, 7]
    with pytest.raises(BufferError, match="from_dlpack"):
        g.tensor("sum").numpy()


def digits():
    pt2 = sorted(DIGITS.glob("*.pt2"))
    return pt2[0] if pt2 else None


@pytest.mark.parametrize("target", ["jit", pytest.param("c", marks=pytest.mark.skipif(not shutil.which(os.environ.get("CC", "cc").split()[0]), reason="there is no C compiler"))])
def test_the_bundled_digits(target):
    path = digits()
    if path is None:
        pytest.fail("examples/digits has no model")
    f = fxcc.compile(path, target=target)
    assert f.target == target
    sizes = [low for low, _ in f.inputs[0].sizes]
    x = np.random.default_rng(0).random(sizes, dtype="f4")
    y = f(x)
    expected = f.graph.interpret(x)
    assert np.abs(y - expected).max() < 1e-4 * max(1, np.abs(expected).max())


@pytest.mark.skipif(not shutil.which(os.environ.get("CC", "cc").split()[0]), reason="there is no C compiler")
def test_emitted_c_is_called_alike(monkeypatch):
    g = fxcc.Graph("net")
    x = g.placeholder("x", "f32[s0, 4]")
    g.set_symbol("s0", 1, 64)
    w = np.random.default_rng(1).random((3, 4), dtype="f4")
    g.set_parameter("w", w)
    g.set_buffer("count", np.zeros((), "f4"))
    count = g.get_attr("count")
    g.call_function("aten.add_.Tensor", (count, 1.0))
    y = g.call_function("aten.linear.default", (x, g.get_attr("w")))
    g.output([g.call_function("aten.add.Tensor", (y, count)), {"y": y}])
    jit, c = g.compile(cache=""), g.compile("c")
    assert (jit.signature, jit.inputs, jit.tree) == (c.signature, c.inputs, c.tree)
    for n in (1, 5, 64):
        a = np.random.default_rng(n).random((n, 4), dtype="f4")
        for v in (a, a[::-1], np.asfortranarray(a)):
            p, q = jit(v), c(v)
            assert np.allclose(p[0], q[0], atol=1e-6) and np.allclose(q[1]["y"], v @ w.T, atol=1e-6)
    c.reset()
    assert np.allclose(c(x=a)[0], a @ w.T + 1, atol=1e-6)
    if torch:
        assert type(c(torch.from_numpy(a))[1]["y"]) is torch.Tensor
    for bad in (a[:, :3], a.astype("f8"), np.zeros((65, 4), "f4")):
        with pytest.raises(fxcc.Error):
            c(bad)
    with pytest.raises(TypeError):
        c("x")
    c.close()
    with pytest.raises(fxcc.ArgumentError, match="closed"):
        c(a)
    with pytest.raises(fxcc.ArgumentError, match="level"):
        g.compile("c", level=2)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(fxcc.Error, match="no-such-compiler"):
        g.compile("c")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(fxcc.Error, match="exit status 1"):
        g.compile("c")


if torch:
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.bn = torch.nn.BatchNorm2d(8)
            self.fc = torch.nn.Linear(8, 5)

        def forward(self, x, scale):
            h = torch.relu(self.bn(self.conv(x)))
            return {"logits": self.fc(h.mean((2, 3))) * scale, "features": [h, h.sum()]}


@needs_torch
def test_modules_are_compiled_like_eager():
    model = Net().eval()
    x, scale = torch.randn(2, 3, 8, 8), torch.tensor([2.0])
    f = fxcc.compile(model, (x, scale), passes="fuse_conv_bn", cache="")
    with torch.no_grad():
        expected = model(x, scale)
    out = f(x, scale=scale)
    assert out.keys() == expected.keys()
    torch.testing.assert_close(out["logits"], expected["logits"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out["features"], expected["features"], rtol=1e-4, atol=1e-4)
    batch = torch.export.Dim("batch", min=1, max=16)
    f = fxcc.compile(model, (x, scale), dynamic_shapes={"x": {0: batch}, "scale": None}, cache="")
    assert f.inputs[0].sizes[0] == (1, 16)
    for n in (1, 2, 7):
        x = torch.randn(n, 3, 8, 8)
        with torch.no_grad():
            torch.testing.assert_close(f(x, scale)["logits"], model(x, scale)["logits"], rtol=1e-4, atol=1e-5)
    exported = torch.export.export(model, (x, scale))
    torch.testing.assert_close(fxcc.compile(exported, cache="")(x, scale)["logits"], f(x, scale)["logits"], rtol=1e-4, atol=1e-5)
    with pytest.raises(fxcc.ArgumentError, match="example_inputs"):
        fxcc.compile(model)
    with pytest.raises(TypeError, match="expected a path"):
        fxcc.compile(lambda x: x)


def test_threads_with_arrays():
    f, wrong = pointwise(), []

    def work(k):
        for n in range(1, 100):
            x = np.full((n % 7 + 1, k), k, "f4")
            if not (f(x) == 2 * k).all():
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
