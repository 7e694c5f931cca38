"""What the tests of the command share.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import atexit
import io
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FXCC = os.environ.get("FXCC") or str(ROOT / "build" / "release" / "bin" / "fxcc")
DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
COMMANDS = ["compile", "show", "opt", "run", "check", "bench", "watch", "prove", "report", "passes", "cache", "target"]
CACHE = tempfile.mkdtemp(prefix="fxcc-cli-cache-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
os.environ["FXCC_CACHE"] = CACHE


def fxcc(*argv, **kwargs):
    return subprocess.run([FXCC, *map(str, argv)], capture_output=True, timeout=300, **kwargs)


def npy(shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)


def read_npy(data):
    (size,) = struct.unpack("<H", data[8:10])
    body = data[10 + size:]
    return struct.unpack(f"<{len(body) // 4}f", body)


def rewritten(change):
    """digits.pt2 with some entries changed: change(name, data) gives the new data, or None to leave the entry out."""
    out = io.BytesIO()
    with zipfile.ZipFile(DIGITS) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            data = change(info.filename, old.read(info))
            if data is not None:
                new.writestr(zipfile.ZipInfo(info.filename), data)
    return out.getvalue()


def json_changed(change):
    """digits.pt2 whose graph is changed by change(graph module)."""
    def entry(name, data):
        if not name.endswith("models/model.json"):
            return data
        program = json.loads(data)
        change(program)
        return json.dumps(program).encode()
    return rewritten(entry)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="fxcc-cli-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def ok(self, *argv, **kwargs):
        done = fxcc(*argv, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def fails(self, *argv, says, **kwargs):
        """Exit status 1, a message that contains `says`, nothing on standard output."""
        done = fxcc(*argv, **kwargs)
        self.assertEqual(done.returncode, 1, done.stderr.decode(errors="replace"))
        self.assertIn(says, done.stderr.decode(errors="replace"))
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode(errors="replace")

    def refuses(self, data, *says):
        """compile refuses this file, names it, and leaves nothing."""
        path, out = self.dir / "bad.pt2", self.dir / "out"
        path.write_bytes(data)
        text = self.fails("compile", path, "-o", out, says="error:")
        self.assertIn("bad.pt2", text)
        for word in says:
            self.assertIn(word, text)
        self.assertFalse(out.exists() and any(out.iterdir()), "files were left behind")
        return text


class OneInput(Case):
    def setUp(self):
        super().setUp()
        r = random.Random(1)
        self.x = [r.random() for _ in range(64)]
        self.input = self.dir / "x.npy"
        self.input.write_bytes(npy((1, 1, 8, 8), self.x))

    def reference(self, scale=1.0):
        """A .npz of the input and the interpreter's output, its first element scaled."""
        self.ok("run", "--interpret", DIGITS, self.input, "-o", self.dir / "y.npy")
        y = list(read_npy((self.dir / "y.npy").read_bytes()))
        y[0] *= scale
        path = self.dir / "ref.npz"
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("x.npy", self.input.read_bytes())
            z.writestr("y.npy", npy((1, 10), y))
        return path
