"""Runs docs/fx-in-c.md: in each row of its tables the Python on the left and the C or commands on the right print the same.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

The first row is what every other starts from. Left: a script in a process' own namespace. Right: of two C blocks the first is functions, the
second statements; all statements of a row are a function of its own in one program.
"""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
DOCUMENT = ROOT / "docs" / "fx-in-c.md"
FXCC = pathlib.Path(os.environ.get("FXCC", "build/release/bin/fxcc")).resolve()
LIBFXCC = pathlib.Path(os.environ.get("FXCC_LIBFXCC", FXCC.parent.parent / "libfxcc.so")).resolve()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


class Row:
    def __init__(self, text):
        left, right = text.split("</td><td>")
        blocks = FENCE.findall(left)
        assert [language for language, _ in blocks] == ["python"], left
        self.python = blocks[0][1]
        c = [code for language, code in FENCE.findall(right) if language == "c"]
        self.commands = [code for language, code in FENCE.findall(right) if language == "sh"]
        assert (len(c) <= 2 and (c or self.commands)) and len(FENCE.findall(right)) == len(c) + len(self.commands), right
        self.functions, self.statements = c if len(c) == 2 else ("", c[0] if c else "")
        self.name = self.python.strip().splitlines()[0][:50]


def read():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = [Row(r) for table in re.findall(r"^<table>.*?</table>$", text, re.M | re.S) for r in table.split("<tr><td>")[1:]]
    assert sum(len(re.findall(r"^```\w", t, re.M)) for t in [text]) == sum(
        1 + bool(r.functions) + bool(r.statements) + len(r.commands) for r in rows), "a block of code outside of the tables"
    return rows[0], rows[1:]


SETUP, ROWS = read()


def python(code, folder):
    """What the script prints; as the document says, the net is traced anew for it."""
    out, here = io.StringIO(), os.getcwd()
    os.chdir(folder)
    module = types.ModuleType("__main__")
    try:
        with contextlib.redirect_stdout(out):
            for part in (SETUP.python, code):
                exec(compile(part, str(DOCUMENT), "exec"), module.__dict__)
    finally:
        os.chdir(here)
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("document")
    if "tabulate" not in sys.modules:
        try:
            import tabulate  # noqa: F401
        except ImportError:  # what print_tabular needs of it
            sys.modules["tabulate"] = types.SimpleNamespace(tabulate=plain_table)
    python("", folder)
    assert (folder / "net.fx").exists() and (folder / "x.npy").exists()
    return folder


def plain_table(rows, headers):
    """tabulate's default form, of texts."""
    table = [[str(c) for c in r] for r in [headers, *rows]]
    widths = [max(max(len(r[i]) for r in table[1:]), len(headers[i]) + 2) for i in range(len(headers))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in table]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


@pytest.fixture(scope="module")
def program(folder):
    """All C of the document."""
    parts, cases = [SETUP.functions], []
    for i, row in enumerate(ROWS):
        if not row.statements:
            continue
        parts += [row.functions, f"static void row_{i}(void)\n{{\n{SETUP.statements}{row.statements}(void)in;\n(void)x;\n}}\n"]
        cases.append(f'    if (!strcmp(argv[1], "{i}"))\n        row_{i}();\n')
    parts.append("int main(int argc, char **argv)\n{\n    if (argc != 2)\n        return 2;\n" + "".join(cases) + "    return 0;\n}\n")
    source = folder / "document.c"
    source.write_text("\n".join(parts))
    done = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-shadow", "-O1", "-I", ROOT / "include", source, "-o",
                           folder / "document", LIBFXCC, f"-Wl,-rpath,{LIBFXCC.parent}", "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "document"


def lines(text):
    """Ends of lines and blank lines do not count."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


FLOAT = re.compile(r"-?\d+\.\d{3}\b")


def check(seen, want, what):
    """The same text; numbers shown with three digits may differ in the last (sums in another order)."""
    seen, want = "\n".join(lines(seen)), "\n".join(lines(want))
    assert want, "the row prints nothing"
    if FLOAT.sub("#", seen) == FLOAT.sub("#", want):
        assert [float(v) for v in FLOAT.findall(seen)] == pytest.approx([float(v) for v in FLOAT.findall(want)], abs=1.01e-3), what
    else:
        assert seen == want, what


@pytest.mark.parametrize("i", range(len(ROWS)), ids=[r.name for r in ROWS])
def test_row(i, folder, request):
    row = ROWS[i]
    want = python(row.python, folder)
    if row.statements:
        program = request.getfixturevalue("program")
        done = subprocess.run([program, str(i)], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        check(done.stdout, want, "C")
    for commands in row.commands:
        (folder / "bin").mkdir(exist_ok=True)
        for name, target in (("fxcc", FXCC), ("python", sys.executable)):
            if not (folder / "bin" / name).exists():
                (folder / "bin" / name).symlink_to(target)
        env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        if "python " in commands:
            env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        done = subprocess.run(["sh", "-eu", "-c", commands], cwd=folder, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        check(done.stdout, want, "commands")
