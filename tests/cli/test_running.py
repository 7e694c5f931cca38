"""The command as a user meets it: fxcc run, check, bench, cache. Python's own library only.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    FXCC=build/release/bin/fxcc python3 tests/cli/test_running.py
"""
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest
import zipfile

from case import DIGITS, FXCC, ROOT, OneInput, fxcc, npy, read_npy


class Running(OneInput):
    def test_run(self):
        self.ok("run", DIGITS, self.input, "-o", self.dir / "y.npy")
        y = read_npy((self.dir / "y.npy").read_bytes())
        self.assertEqual(len(y), 10)
        self.assertTrue(all(map(math.isfinite, y)))
        self.ok("run", DIGITS, self.input, "-o", self.dir / "y.npz")
        with zipfile.ZipFile(self.dir / "y.npz") as z:
            self.assertEqual(z.namelist(), ["output0.npy"])
            self.assertEqual(read_npy(z.read("output0.npy")), y)

    def test_a_npz_with_the_names_of_the_inputs(self):
        model = self.dir / "sub.fx"
        model.write_text("""graph "sub" imported
%a : f32[2] = placeholder[a]
%b : f32[2] = placeholder[b]
%c : f32[2] = call_function[aten.sub.Tensor](%a, %b)
output((%c,))
""")
        def run(*arrays):
            with zipfile.ZipFile(self.dir / "in.npz", "w") as z:
                for name, values in arrays:
                    z.writestr(name + ".npy", npy((2,), values))
            self.ok("run", model, self.dir / "in.npz", "-o", self.dir / "y.npy")
            return read_npy((self.dir / "y.npy").read_bytes())
        self.assertEqual(run(("a", (5, 6)), ("b", (1, 2))), (4, 4))
        self.assertEqual(run(("b", (1, 2)), ("a", (5, 6))), (4, 4))
        self.assertEqual(run(("arr_0", (5, 6)), ("arr_1", (1, 2))), (4, 4))
        self.assertEqual(run(("b", (5, 6)), ("other", (1, 2))), (4, 4))  # not all are names: in order

    def test_wrong_inputs(self):
        out = self.dir / "y.npy"
        self.fails("run", DIGITS, "-o", out, says="expected 1 inputs, got 0")
        self.fails("run", DIGITS, self.input, self.input, "-o", out, says="expected 1 inputs, got 2")
        (self.dir / "w.npy").write_bytes(npy((1, 1, 8, 7), self.x[:56]))
        self.fails("run", DIGITS, self.dir / "w.npy", "-o", out, says="expected float32[1, 1, 8, 8], got float32[1, 1, 8, 7]")
        (self.dir / "t.npy").write_bytes(self.input.read_bytes()[:200])
        self.fails("run", DIGITS, self.dir / "t.npy", "-o", out, says="t.npy")
        self.fails("run", DIGITS, self.dir / "none.npy", "-o", out, says="none.npy")
        self.assertFalse(out.exists())

    def test_check_agrees(self):
        text = self.ok("check", DIGITS, "--against", self.reference())
        self.assertRegex(text, r"0 +float32\[1, 10\] .* ok")

    def test_check_with_layers_agrees(self):
        self.assertIn("nodes agree", self.ok("check", DIGITS, "--against", self.reference(), "--layers"))

    def test_check_differs(self):
        done = fxcc("check", DIGITS, "--against", self.reference(1.5), "--layers")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"DIFFERS", done.stdout)
        self.assertIn(b"the reference interpreter itself departs", done.stdout)
        self.assertEqual(fxcc("check", DIGITS, "--against", self.reference(1.5), "--rtol=1").returncode, 0)

    def test_check_bad_reference(self):
        ref = self.dir / "short.npz"
        with zipfile.ZipFile(ref, "w") as z:
            z.writestr("x.npy", self.input.read_bytes())
        self.fails("check", DIGITS, "--against", ref, says="expected 1 inputs and 1 outputs, got 1 arrays")

    def test_check_without_compiler(self):
        self.fails("check", DIGITS, "--against", self.reference(), says="no-such-cc", env={**os.environ, "CC": "no-such-cc"})

    def test_no_temporary_files_stay(self):
        tmp = self.dir / "tmp"
        tmp.mkdir()
        env = {**os.environ, "TMPDIR": str(tmp)}
        self.ok("check", DIGITS, "--against", self.reference(), env=env)
        self.assertEqual(list(tmp.iterdir()), [])
        slow = self.dir / "slow-cc" # a compiler that a signal finds at work
        slow.write_text("#!/bin/sh\nexec sleep 60\n")
        slow.chmod(0o755)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen([FXCC, "run", "--emit-c", DIGITS, self.input, "-o", self.dir / "z.npy"], env={**env, "CC": str(slow)}, start_new_session=True)
            for _ in range(1000):
                if any(tmp.glob("*/*.h")):
                    break
                time.sleep(0.01)
            self.assertTrue(any(tmp.iterdir()))
            os.killpg(process.pid, number)
            self.assertEqual(process.wait(timeout=60), -number)
            self.assertEqual(list(tmp.iterdir()), [])
        self.assertFalse((self.dir / "z.npy").exists())


class Documents(OneInput):
    """The commands that README.md and docs/jit.md show, run as they are written, on the digits model."""

    def run_commands(self, document, least):
        commands = re.findall(r"^(?:\$ |    )(fxcc (?!COMMAND).*?)(?: +#.*)?$", (ROOT / document).read_text(), re.MULTILINE)
        self.assertGreaterEqual(len(commands), least)
        self.reference().rename(self.dir / "ref.npz")
        shutil.copy(DIGITS, self.dir / "model.pt2")
        env = {**os.environ, "PATH": f"{pathlib.Path(FXCC).resolve().parent}:{os.environ['PATH']}", "FXCC_CACHE": str(self.dir / "kept")}
        for command in commands:
            once = command + " --once" if command.startswith("fxcc watch") else command + " -n 1" if command.startswith("fxcc bench") else command
            done = subprocess.run(once, shell=True, cwd=self.dir, env=env, capture_output=True, text=True, timeout=300)
            if "--device=" in command and done.stderr:  # no GPU here: run fails, check says that it leaves it out
                self.assertRegex(done.stderr, r"^fxcc (run: error|check: warning: not compared with jit): device cuda: there is no [^\n]*\n$", command)
            else:
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertIn(f"fxcc {command.split()[1]}", self.ok(command.split()[1], "--help"))

    def test_readme(self):
        self.run_commands("README.md", 12)
        self.assertTrue((self.dir / "out" / "digits.h").exists() and (self.dir / "pruned.pt2").exists())

    def test_jit(self):
        self.run_commands("docs/jit.md", 7)
        self.assertTrue((self.dir / "model.ll").exists() and (self.dir / "y.npy").exists())


class Ways(OneInput):
    """The three ways a model is run: fxcc run, check, bench."""

    def outputs(self, *options, **kwargs):
        out = self.dir / "y.npy"
        self.ok("run", DIGITS, self.input, "-o", out, *options, **kwargs)
        return read_npy(out.read_bytes())

    def test_run_each_way(self):
        wanted = self.outputs("--interpret")
        scale = max(map(abs, wanted))
        for options in ((), ("-O2",), ("-O3", "--no-cache"), ("--threads=1",), ("--emit-c",), ("--disable=fuse,schedule",)):
            got = self.outputs(*options)
            self.assertEqual(len(got), 10)
            self.assertLess(max(abs(a - b) for a, b in zip(got, wanted)), 1e-4 * scale, options)

    def test_run_usage(self):
        out = self.dir / "y.npy"
        self.fails("run", DIGITS, self.input, "-o", out, "-O4", says="expected -O1, -O2 or -O3")
        self.fails("run", DIGITS, self.input, "-o", out, "--disable=none", says="expected parts of lowering to disable")
        self.fails("run", DIGITS, self.input, "-o", out, "--dim=n=3", says="expected the name of a size the model leaves open (there is none)")
        self.fails("run", DIGITS, self.input, "-o", out, "--target=generic", says="expected --emit-c with --target")
        self.fails("run", DIGITS, self.input, "-o", out, "--interpret", "--emit-c", says="expected --interpret or --emit-c, got both")
        self.fails("run", DIGITS, self.input, "-o", out, "--interpret", "-O2", says="expected -O without --interpret")
        self.fails("run", DIGITS, self.input, "-o", out, "--emit-c", f"--debug={self.dir}", says="expected --debug without --emit-c")
        self.fails("run", DIGITS, self.input, "-o", out, "--calls=2", says="expected -o FILE.npz with --calls")
        self.assertFalse(out.exists())

    def test_check_compares_all_ways(self):
        lines = self.ok("check", DIGITS, "--against", self.reference()).splitlines()
        self.assertEqual(lines[0].split()[:3], ["output", "shape", "by"])
        self.assertEqual([re.split(r"\s{2,}", line)[2] for line in lines[1:]], ["jit", "c", "interpreter"])
        self.assertTrue(all(line.endswith("ok") for line in lines[1:]))
        for ways in ("c", "jit", "interpreter", "jit,c"):
            lines = self.ok("check", DIGITS, "--against", self.reference(), f"--only={ways}").splitlines()
            self.assertEqual({re.split(r"\s{2,}", line)[2] for line in lines[1:]}, set(ways.split(",")))
        for wrong in ("cuda", "", "c;jit", ","):
            self.fails("check", DIGITS, "--against", self.reference(), f"--only={wrong}", says="expected --only=WAYS of interpreter, c and jit")
        done = fxcc("check", DIGITS, "--against", self.reference(1.5), "--only=jit", "--layers")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout.decode(), r"(?s)jit +\S+ +\S+ +\S+ +DIFFERS.*jit:\nwith every value kept")

    def test_bench(self):
        text = self.ok("bench", DIGITS, "--only=interpreter,c,jit", "-n", "7", env={**os.environ, "CFLAGS": "-O1"})
        self.assertIn("input 0: float32[1, 1, 8, 8], drawn: -1 to 1, seed 0\n", text)
        self.assertRegex(text, r"(?m)^interpreter +- +[\d.]+ [mu]?s +-")
        for way in ("c", "jit"):
            self.assertRegex(text, rf"(?m)^{way} +[\d.]+ m?s +[\d.]+ [mu]?s +[\d.]+ [mu]?s +[\d.]+ [mu]?s +7 +\d+ B +\d+ B$")
        self.assertNotIn("drawn", self.ok("bench", DIGITS, self.input, "--only=jit", "-n", "2"))

    def test_bench_json(self):
        told = json.loads(self.ok("bench", DIGITS, "--json", "--only=jit", "-n", "11", "--seed=3"))
        self.assertEqual((told["model"], told["inputs"], told["drawn"], told["seed"]), (str(DIGITS), ["float32[1, 1, 8, 8]"], True, 3))
        jit = told["jit"]
        self.assertEqual(jit["runs"], 11)
        self.assertNotIn("c", told)
        self.assertTrue(0 < jit["min_s"] <= jit["median_s"] and jit["compile_s"] > 0 and jit["weights_bytes"] > 1000)

    def test_bench_draws_what_models_take(self):
        model = self.dir / "open.fx"
        model.write_text('''graph "open" imported
symbol n in [3, 9]
parameter t : f32[2, 4] = all 0.5

%i : i64[n] = placeholder[i]
%x : f32[2*n, 4] = placeholder[x]
%h : f16[n] = placeholder[h]
%b : bool[n] = placeholder[b]
%t : f32[2, 4] = get_attr[t]
%e : f32[n, 4] = call_function[aten.embedding.default](%t, %i)
%s : f32[2*n, 4] = call_function[aten.exp.default](%x)
%k : f16[n] = call_function[aten.neg.default](%h)
%l : bool[n] = call_function[aten.logical_not.default](%b)
output((%e, %s, %k, %l))
''')
        text = self.ok("bench", model, "--only=jit", "-n", "1")
        for line in ("input 0: int64[3], drawn: 0 or 1, seed 0", "input 1: float32[6, 4], drawn: -1 to 1, seed 0", "input 2: float16[3]", "input 3: bool[3], drawn: 0 or 1"):
            self.assertIn(line, text)
        self.assertIn("input 1: float32[10, 4]", self.ok("bench", model, "--only=jit", "-n", "1", "--dim=n=5"))

    def test_bench_usage(self):
        self.fails("bench", says="expected a model")
        self.fails("bench", DIGITS, "-n", "0", says="expected a number of runs")
        self.fails("bench", DIGITS, "--only=", says="expected --only=WAYS")
        self.fails("bench", DIGITS, self.input, self.input, "--only=jit", says="expected 1 inputs, or none to draw them, got 2")
        self.fails("bench", self.dir / "none.pt2", says="none.pt2")

    def test_cache(self):
        env = {**os.environ, "FXCC_CACHE": str(self.dir / "kept")}
        self.assertEqual(self.ok("cache", env=env), f"{self.dir}/kept: 0 compiled models, 0.0 MB\n")
        self.outputs(env=env)
        self.assertRegex(self.ok("cache", env=env), r"/kept: 1 compiled model, 0\.\d MB\n$")
        self.outputs(env=env)
        self.outputs("-O2", env=env)
        self.outputs("--no-cache", "-O3", env=env)
        self.assertIn(": 2 compiled models", self.ok("cache", env=env))
        for path in (self.dir / "kept").iterdir(): # a damaged entry is compiled anew, in silence
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        self.outputs(env=env)
        self.assertIn(": 2 compiled models", self.ok("cache", "--clear", env=env))
        self.assertEqual(list((self.dir / "kept").iterdir()), [])
        self.assertIn(": 0 compiled models", self.ok("cache", self.dir / "kept"))
        self.fails("cache", env={**os.environ, "FXCC_CACHE": ""}, says="there is no folder for compiled models")
        self.outputs(env={**os.environ, "FXCC_CACHE": "/dev/null/x"})
        self.fails("cache", "--clear", self.input, says="x.npy: expected a folder")
        self.assertTrue(self.input.exists())


class Llvm(OneInput):
    """Without libLLVM, with another, and that it is not loaded where it is not needed."""

    def without(self, library, *says):
        text = self.fails("run", DIGITS, self.input, "-o", self.dir / "y.npy", says="LLVM 16 to 19 is needed (Debian: apt install libllvm19;",
                          env={**os.environ, "FXCC_LLVM": str(library)})
        for word in says:
            self.assertIn(word, text)
        self.assertFalse((self.dir / "y.npy").exists())

    def test_no_library(self):
        self.without("/nonexistent", "/nonexistent: cannot open shared object file")
        (self.dir / "file.so").write_text("no library\n" * 1000)
        self.without(self.dir / "file.so", "file.so: ", "names a file that is no library to load")
        libc = re.search(r"(/\S*libc\.so\.6)", subprocess.run(["ldd", FXCC], capture_output=True, text=True).stdout)
        self.without(libc[1] if libc else "libc.so.6", "is no libLLVM")

    def test_old_library(self):
        old = [p for v in (11, 13, 14, 15) for p in pathlib.Path("/usr/lib").glob(f"*/libLLVM-{v}.so.1")]
        if not old:
            self.skipTest("no LLVM before 16 is here")
        self.without(old[0], f"is LLVM {old[0].name.split('-')[1].split('.')[0]}: ")

    def test_the_rest_works_without(self):
        env = {**os.environ, "FXCC_LLVM": "/nonexistent"}
        self.ok("run", "--interpret", DIGITS, self.input, "-o", self.dir / "y.npy", env=env)
        self.ok("run", "--emit-c", DIGITS, self.input, "-o", self.dir / "y.npy", env=env)
        done = fxcc("check", DIGITS, "--against", self.reference(), env=env)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"warning: not compared with jit: FXCC_LLVM names a file", done.stderr)
        self.assertNotRegex(done.stdout.decode(), r"(?m)  jit  ")
        self.fails("check", DIGITS, "--against", self.reference(), "--only=jit", says="LLVM 16 to 19 is needed", env=env)

    def test_it_is_loaded_when_needed(self):
        """So `fxcc --help` and what needs no LLVM start in a few milliseconds."""
        def opened(*argv):
            env = {**os.environ, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(self.dir / "debug")}
            subprocess.run([FXCC, *map(str, argv)], env=env, capture_output=True, check=True)
            return b"".join(path.read_bytes() for path in self.dir.glob("debug*"))
        for argv in (("--help",), ("show", DIGITS), ("compile", DIGITS, "-o", self.dir / "out"), ("cache",),
                     ("run", "--interpret", DIGITS, self.input, "-o", self.dir / "y.npy")):
            self.assertNotIn(b"libLLVM", opened(*argv), argv)
        self.assertIn(b"libLLVM", opened("run", DIGITS, self.input, "-o", self.dir / "y.npy"))

    def test_it_starts_in_10_ms(self):
        if re.search(r"lib[ajt]san|ubsan", subprocess.run(["ldd", FXCC], capture_output=True, text=True).stdout) or b"__asan_init" in pathlib.Path(FXCC).read_bytes():
            self.skipTest("built with sanitizers, which take longer to start")
        least = math.inf
        for _ in range(50):
            begin = time.perf_counter()
            process = os.posix_spawn(FXCC, [FXCC, "--version"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
            self.assertEqual(os.waitpid(process, 0)[1], 0)
            least = min(least, time.perf_counter() - begin)
        self.assertLessEqual(least, 0.010)


class Debugging(OneInput):
    """What gdb and perf see of a model compiled in memory."""

    def gdb(self, *commands):
        if not shutil.which("gdb"):
            self.skipTest("no gdb")
        if subprocess.run(["gdb", "-nx", "-batch", "-ex", "run", "--args", "true"], capture_output=True, text=True).stdout.find("exited normally") < 0:
            self.skipTest("gdb cannot run a program here")
        argv = ["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "set debuginfod enabled off"]
        for command in commands:
            argv += ["-ex", command]
        done = subprocess.run([*argv, "--args", FXCC, "run", DIGITS, self.input, "-o", self.dir / "y.npy", "--debug", self.dir / "src"],
                              capture_output=True, text=True, timeout=300)
        return done.stdout

    def test_layers_have_names_and_lines(self):
        out = self.gdb("break features.3", "run", "backtrace 2", "list", "info breakpoints")
        text = (self.dir / "src" / "digits.prog").read_text().splitlines()
        step = next(i for i, line in enumerate(text, 1) if line.startswith("step features_3 "))
        self.assertRegex(out, rf"#0 +(0x\w+ in )?features\.3 \(\) at .*digits\.prog:{step + 1}\n")
        self.assertRegex(out, rf"#1 +0x\w+ in digits \(\) at .*digits\.prog:{step}\n")
        self.assertIn(f"{step + 1}\t{text[step]}", out)

    def test_kernels_are_called_from_layers(self):
        out = self.gdb(*(f"break fxrt_{isa}_gemm" for isa in ("generic", "avx2", "avx512", "neon")), "run", "backtrace 3")
        self.assertRegex(out, r"#0 +(0x\w+ in )?fxrt_\w+_gemm ")
        self.assertRegex(out, r"#1 +0x\w+ in classifier \(\) at .*digits\.prog:\d+\n")
        self.assertRegex(out, r"#2 +0x\w+ in digits \(\) at .*digits\.prog:\d+\n")

    def test_same_numbers(self):
        self.ok("run", DIGITS, self.input, "-o", self.dir / "y.npy")
        self.ok("run", DIGITS, self.input, "-o", self.dir / "z.npy", "--debug", self.dir / "src")
        self.assertEqual((self.dir / "y.npy").read_bytes(), (self.dir / "z.npy").read_bytes())
        self.ok("run", DIGITS, self.input, "-o", self.dir / "z.npy", env={**os.environ, "FXCC_JIT_DEBUG": str(self.dir / "env")})
        self.assertEqual((self.dir / "src" / "digits.prog").read_bytes(), (self.dir / "env" / "digits.prog").read_bytes())

    def test_folder_that_cannot_be(self):
        self.fails("run", DIGITS, self.input, "-o", self.dir / "y.npy", "--debug", self.input / "x", says="x.npy/x")
        self.assertFalse((self.dir / "y.npy").exists())

    def test_perf_map(self):
        argv = [FXCC, "run", DIGITS, self.input, "-o", self.dir / "y.npy"]
        for no_cache in ([], ["--no-cache"]):
            done = subprocess.Popen([*argv, *no_cache], env={**os.environ, "FXCC_PERF": "1"})
            self.assertEqual(done.wait(300), 0)
            path = pathlib.Path(f"/tmp/perf-{done.pid}.map")
            lines = [line.split(" ", 2) for line in path.read_text().splitlines()]
            path.unlink()
            names = [name for _, _, name in lines]
            for name in ("digits.fxjit_run", "digits.features_0", "digits.features_3", "digits.classifier"):
                self.assertIn(name, names)
            places = sorted((int(start, 16), int(size, 16)) for start, size, _ in lines)
            for (start, size), (next_start, _) in zip(places, places[1:]):
                self.assertGreater(size, 0)
                self.assertLessEqual(start + size, next_start)
        done = subprocess.Popen(argv)
        self.assertEqual(done.wait(300), 0)
        self.assertFalse(pathlib.Path(f"/tmp/perf-{done.pid}.map").exists())


if __name__ == "__main__":
    unittest.main()
