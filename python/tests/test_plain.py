"""fxcc in Python without NumPy and torch: graphs built and edited, compiled, called; errors; threads; memory. Needs the standard library alone.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import ast
import array
import copy
import ctypes
import gc
import inspect
import io
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings

import fxcc
from fxcc import _core

FOLDER = pathlib.Path(fxcc.__file__).resolve().parent


def sanitized():
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as f:
            return "libasan" in f.read()
    except OSError:
        return False


measures_memory = unittest.skipIf(sanitized(), "AddressSanitizer keeps memory that was freed")


def floats(*values):
    return array.array("f", values)


def net():
    """relu(x * w) + 1, of two numbers."""
    g = fxcc.Graph("net")
    x = g.placeholder("x", "f32[2]")
    g.set_parameter("w", floats(2, 3))
    y = g.call_function("aten.relu.default", (g.call_function("aten.mul.Tensor", (x, g.get_attr("w"))),))
    g.output(g.call_function("aten.add.Tensor", (y, 1.0), name="total"))
    return g


def resident():
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def capsules():
    """What makes objects with __dlpack__, of two floats as they are or as told."""
    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                    ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]

    class Managed(ctypes.Structure):
        _fields_ = [("t", Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    class Versioned(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("t", Tensor)]

    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    def numbers(values):
        return (ctypes.c_int64 * len(values))(*values) if values is not None else None

    class Two:
        def __init__(self, memory, versioned, device=1, code=2, bits=32, lanes=1, shape=(2,), strides=(1,), byte_offset=0, ndim=None, data=True, version=(1, 0), flags=0):
            self.kept = memory, numbers(shape), numbers(strides)
            at = ctypes.cast(self.kept[1], ctypes.POINTER(ctypes.c_int64)), ctypes.cast(self.kept[2], ctypes.POINTER(ctypes.c_int64))
            t = Tensor(memory.buffer_info()[0] if data else None, device, 0, len(shape or (2,)) if ndim is None else ndim, code, bits, lanes, *at, byte_offset)
            self.managed = Versioned(*version, None, None, flags, t) if versioned else Managed(t, None, None)
            self.name = b"dltensor_versioned" if versioned else b"dltensor"

        def __dlpack__(self, **_):
            return new(ctypes.addressof(self.managed), self.name, None)

    return Two


class Building(unittest.TestCase):
    def test_a_graph_from_nothing_runs(self):
        g = net()
        g.lint()
        self.assertEqual([n.name for n in g.nodes], ["x", "w", "mul", "relu", "total", "output"])
        f = g.compile(cache="")
        self.assertEqual(f(floats(1, -1)).tolist(), [3, 1])
        self.assertEqual(g.interpret(floats(1, -1)).tolist(), [3, 1])
        self.assertEqual(f.signature, "(x: float32[2]) -> float32[2]")
        self.assertEqual(repr(f), "<fxcc.Function 'net' (x: float32[2]) -> float32[2], jit>")
        self.assertEqual(f.inputs[0], ("x", "float32", [(2, 2)], False))
        self.assertEqual((f.outputs[0].dtype, f.outputs[0].sizes), ("float32", [(2, 2)]))

    def test_nodes_are_edited(self):
        g = net()
        relu, total = g.find("relu"), g.find("total")
        self.assertEqual((relu.opcode, relu.op, relu.target, relu.operator), ("call_function", "call_function", "aten.relu.default", "aten.relu.default"))
        self.assertEqual((relu.args, relu.users, relu.all_input_nodes), ((g.find("mul"),), [total], [g.find("mul")]))
        self.assertEqual((relu.next, relu.prev, g.nodes[0].prev), (total, g.find("mul"), None))
        relu.target = "aten.neg.default"
        total.args = (relu, 5)
        total.kwargs = {"alpha": 2}
        self.assertEqual(g.compile(cache="")(floats(1, -1)).tolist(), [8, 13])
        with g.inserting_before(total):
            negated = g.call_function("aten.neg.default", (relu,))
        self.assertEqual(negated.next, total)
        self.assertEqual(relu.replace_all_uses_with(negated), 1)
        self.assertEqual((relu.users, total.args[0]), ([negated], negated))
        self.assertEqual(g.compile(cache="")(floats(1, -1)).tolist(), [12, 7])
        with self.assertRaisesRegex(fxcc.ArgumentError, "total"):
            g.erase_node(negated)
        total.replace_input_with(negated, relu)
        g.erase_node(negated)
        self.assertTrue(negated.erased)
        with self.assertRaisesRegex(fxcc.ArgumentError, "erased"):
            total.args = (negated, 1)
        total.name = "out"
        total.set_meta("note", [1, "two"])
        self.assertEqual((total.name, total.meta), ("out", {"note": [1, "two"]}))
        with g.inserting_after():
            first = g.placeholder("before")
        self.assertEqual(g.nodes[0], first)
        g.erase_node(first)
        self.assertEqual(g.eliminate_dead_code(), 0)

    def test_arguments_go_in_and_out(self):
        g = fxcc.Graph()
        x = g.placeholder("x")
        args = (x, None, True, 7, 0.5, 1 + 2j, "text", [1, [x]], (1, (2,)), {"k": x}, slice(None, x, 2), ..., fxcc.Symbol("float32", "dtype"))
        n = g.call_function("f", args, {"key": [x, 1]})
        self.assertEqual(n.args, args)
        self.assertEqual(n.kwargs, {"key": [x, 1]})
        self.assertEqual(n.args[-1].kind, "dtype")
        self.assertEqual(x.users, [n])
        deep = []
        for _ in range(10000):
            deep = [deep]
        circle = []
        circle.append(circle)
        for bad in (object(), {1: 2}, "a\0b", 1 << 70, b"bytes", {1, 2}, deep, circle):
            with self.assertRaises((TypeError, ValueError, OverflowError, RecursionError)):
                g.call_function("f", (bad,))
        self.assertEqual(len(g), 2)
        other = fxcc.Graph().placeholder("y")
        with self.assertRaisesRegex(ValueError, "another graph"):
            g.output(other)

    def test_types_and_symbols(self):
        g = fxcc.Graph()
        x = g.placeholder("x", "f32[batch, 2]")
        g.set_symbol("batch", 1, 4)
        self.assertEqual((x.type, g.symbols), ("f32[batch, 2]", {"batch": (1, 4)}))
        with self.assertRaisesRegex(fxcc.ArgumentError, "expected a type such as"):
            x.type = "f32[batch"
        with self.assertRaisesRegex(fxcc.ArgumentError, "is empty"):
            g.set_symbol("batch", 3, 2)
        g.output(g.call_function("aten.sum.dim_IntList", (x, [1])))
        f = g.compile(cache="")
        self.assertEqual((f.inputs[0].sizes, f.outputs[0].sizes), ([(1, 4), (2, 2)], [(1, 4)]))
        for n in (1, 3, 4):
            m = memoryview(floats(*range(2 * n))).cast("B").cast("f", (n, 2))
            self.assertEqual(f(m).tolist(), [4 * i + 1 for i in range(n)])
        with self.assertRaisesRegex(fxcc.Error, r"batch.*1\.\.4|1 to 4"):
            f(memoryview(floats(*range(10))).cast("B").cast("f", (5, 2)))
        self.assertEqual(g.compile(cache="", dims={"batch": 2}).inputs[0].sizes, [(2, 2), (2, 2)])
        self.assertEqual(g.compile(cache="", dims={"x:0": (2, 3)}).inputs[0].sizes, [(2, 3), (2, 2)])
        with self.assertRaises(fxcc.ArgumentError):
            g.compile(cache="", dims={"nothing": 2})

    def test_outputs_nest_as_the_model_nests_them(self):
        g = fxcc.Graph()
        x = g.placeholder("x", "f32[2]")
        y = g.call_function("aten.neg.default", (x,))
        g.output([y, {"a": (y, None), "b": x}])
        out = g.compile(cache="")(floats(1, 2))
        self.assertEqual(out[0].tolist(), [-1, -2])
        self.assertEqual(out[1]["a"][0].tolist(), [-1, -2])
        self.assertEqual(out[1]["b"].tolist(), [1, 2])
        self.assertEqual((type(out), type(out[1]["a"]), out[1]["a"][1]), (list, tuple, None))

    def test_outputs_of_several_results_and_constants(self):
        def lists(o):
            return {k: lists(v) for k, v in o.items()} if isinstance(o, dict) else type(o)(map(lists, o)) if isinstance(o, (tuple, list)) else getattr(o, "tolist", lambda: o)()
        def graph(constants):
            g = fxcc.Graph()
            x = g.placeholder("x", "f32[2]")
            both = g.call_function("aten.sort.default", (x,))  # no type yet: only it tells that there are two
            g.output({"a": [both, None], "b": (*constants, g.call_function("aten.neg.default", (x,)))})
            return g
        expected = {"a": [([1, 2], [1, 0]), None], "b": (None, [-2, -1])}
        for g in (graph([None]), graph([None]).legalize()):
            self.assertEqual(lists(g.compile(cache="")(floats(2, 1))), expected)
            self.assertEqual(lists(g.interpret(floats(2, 1))), expected)
        constants = (2.5, None, 7, "s", True, slice(0, 2))
        for g in (graph(constants), graph(constants).legalize()):
            self.assertEqual(lists(g.interpret(floats(2, 1)))["b"], (*constants, [-2, -1]))
            with self.assertRaisesRegex(fxcc.UnsupportedError, "an output is a number or text"):
                g.compile(cache="")

    def test_passes_say_what_they_did(self):
        g = net()
        g.call_function("aten.neg.default", (g.find("x"),), name="dead")
        dead = g.find("dead")
        dead.target = "aten.relu.default"
        g.find("output").prepend(dead)
        h, changes = g.run_passes("eliminate_dead_code")
        self.assertEqual(len(h), 6)
        self.assertEqual(len(g), 7)
        self.assertTrue(any(c[0] == "eliminate_dead_code" and c[1] == "dead" for c in changes), changes)
        same, _ = g.run_passes("eliminate_dead_code", in_place=True)
        self.assertIs(same, g)
        self.assertIn("eliminate_dead_code", fxcc.passes())
        with self.assertRaisesRegex(fxcc.ArgumentError, "eliminate_dead_code"):
            g.run_passes("eliminate_dead_cod")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.fx"
            net().save(path)
            g = fxcc.load(path)
            self.assertEqual(g.compile(cache="")(floats(1, -1)).tolist(), [3, 1])
            sizes = g.emit_c(pathlib.Path(folder) / "out", prefix="model")
            self.assertGreater(sizes["source_size"], 100)
            self.assertTrue((pathlib.Path(folder) / "out" / "model.c").exists())
            f = g.compile(cache="", threads=1)
            self.assertGreater(f.emit_c(os.fsencode(folder) + b"/two", prefix="m")["source_size"], 100)
            f.save(os.path.join(folder, "again.fx"))
            self.assertIn("aten.relu", (pathlib.Path(folder) / "again.fx").read_text())
            with self.assertRaises(OSError) as caught:
                fxcc.load(os.path.join(folder, "none.pt2"))
            self.assertIsInstance(caught.exception, fxcc.FileError)
            (pathlib.Path(folder) / "bad.fx").write_text("graph x\n%a = what\n")
            with self.assertRaisesRegex(fxcc.FormatError, "bad.fx.*line 2"):
                fxcc.load(os.path.join(folder, "bad.fx"))
        for bad in (None, 3, "a\0b", ["x"]):
            with self.assertRaises((TypeError, ValueError)):
                fxcc.load(bad)

    def test_tables(self):
        g, out = net(), io.StringIO()
        g.show(file=out)
        self.assertIn("aten.relu", out.getvalue())
        from fxcc import _show
        self.assertIn("net: 6 nodes, 1 parameters, 0 buffers", _show.plain(g))
        self.assertIn("<td style='text-align:left'>relu</td>", g._repr_html_())
        self.assertIn("float32", g.compile(cache="")._repr_html_())
        svg = g._repr_svg_()
        self.assertTrue(svg is None or "<svg" in svg)
        self.assertEqual("<details><summary>picture</summary><svg" in g._repr_html_(), svg is not None)
        for form in ("table", "text", "dot", "code", "readable", "tabular", "json"):
            self.assertIn("relu", g.format(form))
        with self.assertRaises(ValueError):
            g.format("song")


class State(unittest.TestCase):
    def counting(self):
        g = fxcc.Graph("counting")
        x = g.placeholder("x", "f32[2]")
        g.set_buffer("count", floats(5, 6))
        g.output(g.call_function("aten.add_.Tensor", (g.get_attr("count"), x)))
        return g

    def test_state_is_read_written_and_reset(self):
        buffer = floats(5, 6)
        f = self.counting().compile(cache="")
        self.assertEqual(f(floats(1, 1)).tolist(), [6, 7])
        self.assertEqual(f(floats(1, 1)).tolist(), [7, 8])
        self.assertEqual(f.state["count"].tolist(), [7, 8])
        memoryview(f.state["count"])[0] = 100
        self.assertEqual(f(floats(0, 0)).tolist(), [100, 8])
        f.reset()
        self.assertEqual(f(floats(0, 0)).tolist(), buffer.tolist())
        f.close()

    def test_a_tensor_of_state_keeps_the_function(self):
        f = self.counting().compile(cache="")
        state = f.state["count"]
        f.close()
        del f
        gc.collect()
        self.assertEqual(state.tolist(), [5, 6])

    def test_inputs_that_are_written(self):
        g = fxcc.Graph()
        x = g.placeholder("x", "f32[2]")
        g.output(g.call_function("aten.mul_.Tensor", (x, 2.0)))
        f = g.compile(cache="")
        self.assertTrue(f.inputs[0].changed)
        self.assertIn("(changed)", f.signature)
        x = floats(1, 2)
        self.assertEqual(f(x).tolist(), [2, 4])
        self.assertEqual(x.tolist(), [2, 4])
        with self.assertRaisesRegex(fxcc.ArgumentError, "input 0 'x'.*read-only"):
            f(memoryview(bytes(8)).cast("f"))
        every_second = memoryview(floats(1, 9, 2, 9))[::2]
        f(every_second)
        self.assertEqual(every_second.tolist(), [2, 4])


class Calling(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        g = fxcc.Graph("two")
        a, b = g.placeholder("a", "f32[2]"), g.placeholder("b", "f32[2]")
        g.output(g.call_function("aten.sub.Tensor", (a, b)))
        cls.graph, cls.f = g, g.compile(cache="")

    def test_by_position_and_name(self):
        a, b = floats(5, 6), floats(1, 2)
        for out in (self.f(a, b), self.f(a, b=b), self.f(b=b, a=a), self.f(*(a,), **{"b": b})):
            self.assertEqual(out.tolist(), [4, 4])
        for bad, says in (((), "expected 2 inputs, got 0: input 0 'a' is missing"), ((a,), "input 1 'b' is missing"), ((a, b, a), "expected 2 inputs, got 3")):
            with self.assertRaisesRegex(TypeError, says):
                self.f(*bad)
        with self.assertRaisesRegex(TypeError, "'a' is given twice"):
            self.f(a, a=a)
        with self.assertRaisesRegex(TypeError, "there is no input 'c'"):
            self.f(a, c=a)

    def test_strides_are_read(self):
        m = memoryview(floats(1, 2, 3, 4))
        self.assertEqual(self.f(m[::2], m[::-2]).tolist(), [1 - 4, 3 - 2])
        unaligned = memoryview(bytes(1) + bytes(floats(7, 8)))[1:].cast("f")
        self.assertEqual(self.f(unaligned, m[:2]).tolist(), [6, 6])

    def test_odd_objects_are_exceptions(self):
        good = floats(1, 2)

        class Liar:
            def __init__(self, what):
                self.what = what

            def __dlpack__(self, **_):
                if isinstance(self.what, BaseException):
                    raise self.what
                return self.what

        odd = [None, 1, 1.5, "ab", b"12345678", (1.0, 2.0), [1.0, 2.0], {}, object(), int, lambda: 0, range(2), array.array("d", [1, 2]), array.array("i", [1, 2]),
               floats(1), floats(1, 2, 3), bytearray(8), memoryview(good).cast("B"), memoryview(good).cast("B").cast("f", (1, 2)),
               memoryview(good).cast("B").cast("f", (2, 1)), Liar(None), Liar(3), Liar("capsule"), Liar(ValueError("no")), Liar(MemoryError("no")), self.f,
               self.graph, array.array("u", "ab"), Liar, fxcc]
        for o in odd:
            for args in ((o, good), (good, o), (o, o)):
                with self.assertRaises((TypeError, ValueError, MemoryError), msg=repr(o)):
                    self.f(*args)
        with self.assertRaisesRegex(TypeError, "input 1 'b': expected a NumPy array or a torch tensor, got list"):
            self.f(good, [1.0])
        with self.assertRaisesRegex(fxcc.Error, r"input 0 'a': expected float32\[2\], got float32\[3\]"):
            self.f(floats(1, 2, 3), good)
        with self.assertRaises(KeyboardInterrupt):  # not ours to rename
            self.f(Liar(KeyboardInterrupt()), good)

    def test_tensors_of_dlpack_are_read_with_care(self):
        two = capsules()
        g = fxcc.Graph()
        x = g.placeholder("x", "f32[2]")
        g.output(g.call_function("aten.mul_.Tensor", (x, 2.0)))
        writes = g.compile(cache="")
        good, values = floats(1, 2), floats(5, 7)
        for versioned in (False, True):
            t = lambda **k: two(values, versioned, **k)
            self.assertEqual(self.f(t(), good).tolist(), [4, 5])
            self.assertEqual(self.f(t(strides=(-1,), byte_offset=4), good).tolist(), [6, 3])
            self.assertEqual(self.f(t(strides=(0,)), good).tolist(), [4, 3])
            self.assertEqual(self.f(t(strides=None), good).tolist(), [4, 5])
            for bad, says in ((dict(device=2), r"expected a tensor on the CPU, got one on device cuda \(type 2 of DLPack\): pass .cpu\(\)"),
                              (dict(device=10), "expected a tensor on the CPU, got one on device of another kind"), (dict(code=2, bits=64), r"expected float32\[2\], got float64"),
                              (dict(code=1, bits=32), "no dtype for elements of code 1, 32 bits"), (dict(lanes=4), "no dtype"), (dict(code=17), "no dtype"),
                              (dict(ndim=-1), "at most 8 dimensions, got -1"), (dict(ndim=9), "at most 8 dimensions, got 9"), (dict(ndim=1 << 30), "at most 8 dimensions"),
                              (dict(shape=None), "its memory cannot be read"), (dict(data=None), "its memory cannot be read"), (dict(shape=(3,)), r"got float32\[3\]"),
                              (dict(shape=(-2,)), r"got float32\[-2\]"), (dict(strides=(1 << 62,)), "reach further than memory does"),
                              (dict(shape=(1 << 40, 1 << 40), strides=None), r"got float32\[1099511627776, 1099511627776\]")):
                with self.assertRaisesRegex((fxcc.Error, TypeError), "input 0 'a': .*" + says, msg=str(bad)):
                    self.f(t(**bad), good)
        with self.assertRaisesRegex(fxcc.ArgumentError, "input 0 'a': expected DLPack 1, got version 2.0"):
            self.f(two(values, True, version=(2, 0)), good)
        with self.assertRaisesRegex(fxcc.ArgumentError, "input 0 'x'.*read-only"):
            writes(two(values, True, flags=1))
        self.assertEqual(values.tolist(), [5, 7])
        self.assertEqual(self.f(two(values, True, flags=1), good).tolist(), [4, 5])
        writes(two(values, True))
        self.assertEqual(values.tolist(), [10, 14])

    def test_objects_cannot_be_made_or_misused(self):
        for cls in (fxcc.Function, fxcc.Node, fxcc.Tensor, _core.Context):
            with self.assertRaises(TypeError):
                cls()
        g = fxcc.Graph()
        for call in (lambda: g.create_node("song", "x"), lambda: g.create_node("placeholder"), lambda: g.call_function("f", 3), lambda: g.call_function("f", (), []),
                     lambda: g.erase_node(3), lambda: g.find(3), lambda: g.create_node("output", "output", before=3), lambda: g.set_parameter("w", None),
                     lambda: g.set_parameter("", floats(1)), lambda: g.compile("gpu"), lambda: g.compile(level=9), lambda: g.compile(threads=-1),
                     lambda: g.compile(song=1), lambda: g.compile(dims=3), lambda: g.emit_c("/tmp/x", weights="gold"), lambda: g.run_passes(3), lambda: g.tensor(3),
                     lambda: g.add_submodule("m", "torch.nn.Conv2d", {"song": 1}), lambda: fxcc.compile(3), lambda: fxcc.compile(g, song=1),
                     lambda: g.tie_parameter("a", "b"), lambda: g.delete_attr("none"), lambda: setattr(g.placeholder("p"), "args", 3)):
            with self.assertRaises((TypeError, ValueError, AttributeError)):
                call()
        with self.assertRaises(KeyError):
            g.tensor("none")
        with self.assertRaises(KeyError):
            g.find("none")
        with self.assertRaises(AttributeError):
            del self.graph.nodes[0].args

    def test_an_input_without_a_type(self):
        for legal in (False, True):
            g = net().legalize() if legal else net()
            with g.inserting_before(g.nodes[0]):
                g.placeholder("late")
            for target in ("jit", "c"):
                with self.assertRaisesRegex(fxcc.UnsupportedError, "node 'late': the input has no type"):
                    g.compile(target)

    def test_errors_name_the_node(self):
        g = fxcc.Graph()
        x = g.placeholder("x", "f32[2]")
        g.output(g.call_function("aten.nobody_knows.default", (x,), name="odd"))
        with self.assertRaisesRegex(fxcc.UnsupportedError, "odd") as caught:
            g.compile(cache="")
        self.assertIsInstance(caught.exception, NotImplementedError)
        self.assertIn("odd", caught.exception.nodes)
        g = fxcc.Graph()
        x = g.placeholder("x", "f32[2, 3]")
        g.output(g.call_function("aten.mm.default", (x, x), name="product"))
        with self.assertRaisesRegex(fxcc.Error, "product"):
            g.compile(cache="")

    def test_closing(self):
        f = self.graph.compile(cache="")
        with f:
            self.assertEqual(f(floats(1, 2), floats(0, 0)).tolist(), [1, 2])
        self.assertTrue(f.closed)
        self.assertEqual(repr(f), "<fxcc.Function 'two', closed>")
        f.close()
        for use in (lambda: f(floats(1, 2), floats(0, 0)), lambda: f.inputs, lambda: f.memory, lambda: f.state, lambda: f.reset(), lambda: f.signature):
            with self.assertRaisesRegex(fxcc.ArgumentError, "closed"):
                use()
        self.assertIs(f.graph, self.graph)

    def test_a_function_outlives_its_graph(self):
        def make():
            return net().compile(cache="")

        f = make()
        gc.collect()
        self.assertEqual(f(floats(1, -1)).tolist(), [3, 1])
        out = f(floats(1, -1))
        nodes = f.graph.nodes
        del f
        gc.collect()
        self.assertEqual(out.tolist(), [3, 1])
        self.assertEqual(nodes[-1].args[0].name, "total")

    def test_index_out_of_range(self):
        g = fxcc.Graph()
        x, i = g.placeholder("x", "f32[3]"), g.placeholder("i", "i64[1]")
        g.output(g.call_function("aten.index_select.default", (x, 0, i)))
        f = g.compile(cache="")
        self.assertEqual(f(floats(1, 2, 3), array.array("q", [2])).tolist(), [3])
        with self.assertRaisesRegex(fxcc.ArgumentError, "out of range"):
            f(floats(1, 2, 3), array.array("q", [3]))


class Resources(unittest.TestCase):
    def test_references_stay_as_they_were(self):
        g, x, w = net(), floats(1, -1), floats(2, 3)
        f = g.compile(cache="")
        f(x)
        counts = [sys.getrefcount(o) for o in (x, f, g, w, None)]
        for _ in range(1000):
            f(x)
            f(x=x)
            with self.assertRaises(TypeError):
                f(x, 3)
            f.inputs, f.memory, f.state, f.tree, g.nodes, g.nodes[2].args
        after = [sys.getrefcount(o) for o in (x, f, g, w, None)]
        self.assertEqual(counts[:4], after[:4])
        self.assertLess(abs(counts[4] - after[4]), 50)
        del g
        gc.collect()

    def test_parameters_are_given_back(self):
        w = floats(1, 2)
        before = sys.getrefcount(w)
        g = fxcc.Graph()
        g.set_parameter("w", w)
        with self.assertRaises(BufferError):
            w.append(3)  # it is lent
        del g
        gc.collect()
        self.assertEqual(sys.getrefcount(w), before)
        w.append(3)

    @measures_memory
    def test_compiling_and_calling_a_thousand_times_takes_no_memory(self):
        def cycle(n):
            for i in range(n):
                g = net()
                f = g.compile(cache=folder)
                self.assertEqual(f(x).tolist(), [3, 1])
                if i % 10 == 0:
                    with self.assertRaises(fxcc.Error):
                        f(floats(1))
        x = floats(1, -1)
        with tempfile.TemporaryDirectory() as folder:
            cycle(200)
            before = resident()
            cycle(1000)
            self.assertLess(resident() - before, 8 << 20)

    @measures_memory
    def test_calling_takes_no_memory(self):
        f, x = net().compile(cache=""), floats(1, -1)
        for _ in range(1000):
            f(x)
        before = resident()
        for _ in range(50000):
            f(x)
        self.assertLess(resident() - before, 1 << 20)


class Threads(unittest.TestCase):
    def test_many_call_one_function_and_compile(self):
        g = net()
        f, wrong = g.compile(cache=""), []

        def work(k):
            x = floats(k, -k)
            for i in range(200):
                if f(x).tolist() != [2 * k + 1, 1]:
                    wrong.append(k)
                if i % 50 == 0:
                    h = g.compile(cache="")
                    if h(x).tolist() != [2 * k + 1, 1] or len(g.nodes) != 6:
                        wrong.append(k)
                    h.close()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_the_gil_is_free_while_a_function_runs(self):
        g = fxcc.Graph()
        y = g.placeholder("x", "f32[700, 700]")
        for _ in range(24):
            y = g.call_function("aten.mm.default", (y, g.nodes[0]))
        g.output(y)
        f = g.compile(cache="", threads=1)
        x = memoryview(array.array("f", bytes(4 * 700 * 700))).cast("B").cast("f", (700, 700))
        f(x)
        counted, running = 0, threading.Event()

        def call():
            running.set()
            f(x)

        t = threading.Thread(target=call)
        t.start()
        running.wait()
        while t.is_alive():
            counted += 1
            time.sleep(0)
        t.join()
        self.assertGreater(counted, 20)

    def test_closing_while_others_call(self):
        f, x, odd = net().compile(cache=""), floats(1, -1), []

        def work():
            try:
                while True:
                    if f(x).tolist() != [3, 1]:
                        odd.append("wrong")
            except fxcc.ArgumentError as e:
                if "closed" not in str(e):
                    odd.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        time.sleep(0.05)
        f.close()
        for t in threads:
            t.join()
        self.assertEqual(odd, [])


class Signals(unittest.TestCase):
    def test_ctrl_c_ends_a_compile(self):
        # A chain long enough to compile for seconds; the signal comes after 0.3 of them.
        code = textwrap.dedent("""
            import fxcc, os, signal, threading, time
            g = fxcc.Graph()
            y = x = g.placeholder("x", "f32[64, 64]")
            for i in range(12000):
                y = g.call_function(("aten.mm.default", "aten.add.Tensor")[i % 2], (y, x))
            g.output(y)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            start = time.time()
            try:
                g.compile(cache="")
                print("compiled in", time.time() - start)
            except KeyboardInterrupt:
                print("stopped", time.time() - start)
            h = fxcc.Graph()
            p = h.placeholder("x", "f32[2]")
            h.output(h.call_function("aten.neg.default", (p,)))
            import array
            print(h.compile(cache="")(array.array("f", [1, 2])).tolist(), len(g))
            g.lint()
            """)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^stopped ", done.stdout)
        self.assertIn("[-1.0, -2.0] 12002", done.stdout)


    def test_ctrl_c_leaves_no_half_of_a_kept_model(self):
        # Signals at many moments of compiles that are kept: each ends one or comes too late, and what is in the folder is whole.
        code = textwrap.dedent("""
            import array, fxcc, os, signal, sys, threading, time
            def chain(k):
                g = fxcc.Graph()
                y = x = g.placeholder("x", "f32[8, 8]")
                for i in range(300):
                    y = g.call_function(("aten.mm.default", "aten.add.Tensor")[i % 2], (y, x))
                g.output(g.call_function("aten.mul.Tensor", (y, k + 1.5)))  # each is a model of its own
                return g
            x, folder, kept, stopped = memoryview(bytes(256)).cast("f", (8, 8)), sys.argv[1], [], 0
            start = time.time()
            chain(-1).compile(cache="")
            takes = time.time() - start
            for i in range(24):
                timer, done = threading.Timer(takes * i / 20, os.kill, (os.getpid(), signal.SIGINT)), False
                try:
                    timer.start()
                    chain(i).compile(cache=folder)
                    done = True
                    while True:
                        time.sleep(1)
                except KeyboardInterrupt:
                    kept += [i] * done
                    stopped += not done
                timer.join()
            files = os.listdir(folder)
            found = [chain(i).compile(cache=folder) for i in range(24)]
            assert all(f.cached for i, f in enumerate(found) if i in kept) and sum(f.cached for f in found) == len(files), (kept, files)
            assert all(f(x).tolist() == [[0] * 8] * 8 for f in found)
            print(stopped, len(kept), *files)
            """)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        stopped, kept, *files = done.stdout.split()
        self.assertGreater(int(stopped), 0)
        self.assertGreaterEqual(len(files), int(kept))
        for name in files:
            self.assertRegex(name, r"^[0-9a-f]+\.fxobj$")


class Machine(unittest.TestCase):
    """What the process or the machine lacks."""

    def test_a_forked_child_calls_and_compiles(self):
        f, x = net().compile(cache=""), floats(1, -1)
        self.assertEqual(f(x).tolist(), [3, 1])

        def child():
            return f(x).tolist() == [3, 1] and net().compile(cache="")(x).tolist() == [3, 1]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 3.12, where the process has threads
            pid = os.fork()
        if not pid:
            good = False
            try:
                good = child()
            finally:
                os._exit(0 if good else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertTrue(child())

    def test_a_cache_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            with open(path, "w", encoding="ascii"):
                pass
            for cache in (path, os.path.join(path, "below"), "/proc/none", "/" + "a" * 5000):
                for _ in range(2):
                    f = net().compile(cache=cache)
                    self.assertFalse(f.cached)
                    self.assertEqual(f(floats(1, -1)).tolist(), [3, 1])
            self.assertEqual(os.listdir(folder), ["file"])

    def without(self, library, says):
        code = textwrap.dedent("""
            import array, fxcc
            g = fxcc.Graph()
            x = g.placeholder("x", "f32[2]")
            g.output(g.call_function("aten.neg.default", (x,)))
            for _ in range(2):
                try:
                    g.compile(cache="")
                except fxcc.UnsupportedError as e:
                    print(e)
            print(g.interpret(array.array("f", [1, 2])).tolist())
            """)
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "FXCC_LLVM": str(library)}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, second, values = done.stdout.splitlines()
        self.assertEqual((first, values), (second, "[-1.0, -2.0]"))
        self.assertRegex(first, says + r".*LLVM 16 to 19 is needed \(Debian: apt install libllvm19")

    def test_no_llvm(self):
        self.without("/nonexistent", "/nonexistent: cannot open shared object file")
        self.without(__file__, "names a file that is no library to load")

    def test_old_llvm(self):
        old = [(v, p) for v in (11, 13, 14, 15) for p in pathlib.Path("/usr/lib").glob(f"*/libLLVM-{v}.so.1")]
        if not old:
            self.skipTest("no LLVM before 16 is here")
        for v, p in old:
            self.without(p, f"is LLVM {v}: ")


class Package(unittest.TestCase):
    def test_importing_takes_neither_numpy_nor_torch(self):
        code = "import sys, fxcc; sys.exit(any(m in sys.modules for m in ('numpy', 'torch', 'rich', 'subprocess')))"
        self.assertEqual(subprocess.run([sys.executable, "-c", code]).returncode, 0)

    def same_parameters(self, tree):
        """Names and kinds of parameters are those that inspect tells of the module; how many functions have them."""
        seen = 0
        for owner, items in [(_core, tree.body)] + [(getattr(_core, c.name), c.body) for c in tree.body if isinstance(c, ast.ClassDef)]:
            for item in items:
                if not isinstance(item, ast.FunctionDef) or item.name in ("__call__", "__len__", "__new__", "signature"):
                    continue
                a, there = item.args, inspect.signature(getattr(owner, item.name))
                said = [(p.arg, kind) for kind, ps in ((inspect.Parameter.POSITIONAL_ONLY, a.posonlyargs), (inspect.Parameter.POSITIONAL_OR_KEYWORD, a.args),
                                                       (inspect.Parameter.VAR_POSITIONAL, [a.vararg]), (inspect.Parameter.KEYWORD_ONLY, a.kwonlyargs),
                                                       (inspect.Parameter.VAR_KEYWORD, [a.kwarg])) for p in ps if p and p.arg != "self"]
                real = [(p.name, p.kind) for p in there.parameters.values() if p.name != "self"]
                if (inspect.Parameter.VAR_KEYWORD in [kind for _, kind in real]) and item.name in ("compile", "emit_c"):
                    real = real[:-1]  # the stub spells the options out
                    said = said[:len(real)]
                self.assertEqual(said, real, f"{owner.__name__}.{item.name}")
                seen += 1
        return seen

    def test_stubs_say_what_there_is(self):
        tree = ast.parse((FOLDER / "_core.pyi").read_text(encoding="utf-8"))
        aliases = {"Argument", "Path", "Array", "Dims"}
        stubs = {}
        same_parameters = self.same_parameters(tree)
        self.assertGreater(same_parameters, 40)
        for item in tree.body:
            if isinstance(item, ast.ClassDef):
                stubs[item.name] = {m.target.id if isinstance(m, ast.AnnAssign) else m.name for m in item.body
                                    if isinstance(m, (ast.AnnAssign, ast.FunctionDef))}
            elif isinstance(item, (ast.FunctionDef, ast.AnnAssign)):
                stubs[item.name if isinstance(item, ast.FunctionDef) else item.target.id] = None
        there = {n for n in dir(_core) if not n.startswith("__") or n == "__version__"}
        self.assertEqual(set(stubs) - aliases, there)
        implied = {"__call__", "__len__", "__new__"}
        for name in there:
            cls = getattr(_core, name)
            if not isinstance(cls, type) or name == "Context":
                continue
            own = {m for m in vars(cls) if not m.startswith("_") or m in ("__dlpack__", "__dlpack_device__", "__enter__", "__exit__", "__copy__", "__deepcopy__", "_repr_svg_", "_repr_html_")}
            said = stubs[name] - implied
            self.assertEqual(said, own, name)

    def test_what_tools_ask_of_the_package(self):
        self.assertLessEqual(set(fxcc.__all__), set(dir(fxcc)))
        self.assertNotIn("annotations", dir(fxcc))
        self.assertEqual(str(inspect.signature(fxcc.Graph.find)), "(self, name, /)")
        self.assertEqual(str(inspect.signature(fxcc.Graph)), "(name='graph')")
        self.assertIn("-> 'Function'", str(inspect.signature(fxcc.compile)))

    def test_copying_and_pickling(self):
        g = net()
        for other in (copy.copy(g), copy.deepcopy(g)):
            self.assertIsNot(other, g)
            self.assertEqual(other.format("text"), g.format("text"))
            other.erase_node(other.nodes[-1])
            self.assertEqual(len(other) + 1, len(g))
        for o in (g, g.nodes[0], g.compile()):
            with self.assertRaisesRegex(TypeError, "cannot pickle 'fxcc"):
                pickle.dumps(o)

    def test_options_that_do_not_fit(self):
        g = net()
        for dims, error, words in (({"n": (1, 2, 3)}, fxcc.ArgumentError, "expected a number or .least, most. for 'n', got .1, 2, 3."), ({"n": None}, fxcc.ArgumentError, "for 'n', got None"),
                                   ({"n": 2.5}, fxcc.ArgumentError, "got 2.5"), (["n"], TypeError, "dims: expected a dict"), ({"m": 3}, fxcc.ArgumentError, "expected the name of a size")):
            for target in ("jit", "c"):
                with self.assertRaisesRegex(error, words):
                    g.compile(target, dims=dims)
        with self.assertRaisesRegex(fxcc.ArgumentError, "dynamic_shapes are for a module"):
            fxcc.compile(g, dynamic_shapes={"x": {0: 2}})
        with self.assertRaises(fxcc.ArgumentError) as caught:
            g.compile("gpu")
        self.assertEqual(list(caught.exception.nodes), [])

    def test_a_missing_library_names_its_package(self):
        code = ("import sys, importlib.abc\n"
                "class Finder(importlib.abc.MetaPathFinder):\n"
                "    def find_spec(self, name, path, target=None):\n"
                "        if name == 'fxcc._core': raise ImportError('libisl.so.23: cannot open shared object file: No such file or directory')\n"
                "sys.meta_path.insert(0, Finder())\n"
                "import fxcc\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("libisl.so.23: cannot open shared object file: No such file or directory; fxcc needs", done.stderr)
        self.assertIn("apt install libminizip1", done.stderr)

    def test_everything_public_is_documented(self):
        for name in fxcc.__all__:
            o = getattr(fxcc, name)
            if name != "__version__":
                self.assertTrue(inspect.getdoc(o), name)
            if isinstance(o, type):
                for m, v in vars(o).items():
                    if not m.startswith("_") and o is not fxcc.Symbol:
                        self.assertTrue(inspect.getdoc(v), f"{name}.{m}")

    def test_exceptions_are_builtin_ones_too(self):
        for name, builtin in (("ArgumentError", ValueError), ("FileError", OSError), ("FormatError", ValueError), ("UnsupportedError", NotImplementedError),
                              ("ShapeError", TypeError), ("InternalError", RuntimeError)):
            self.assertTrue(issubclass(getattr(fxcc, name), (builtin,)))
            self.assertTrue(issubclass(getattr(fxcc, name), fxcc.Error))


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
