"""Graphs for people: tables in a terminal and in notebooks, pictures by Graphviz.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import html
import sys

COLUMNS = ("name", "opcode", "target", "arguments", "type", "module")
MOST_DRAWN = 400  # nodes: Graphviz takes minutes for more


def _argument(value):
    """As FX writes it: nodes are names."""
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_argument(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_argument(v)}" for k, v in value.items()) + "}"
    return repr(value)


def rows(graph):
    """The table's rows: texts by COLUMNS."""
    for node in graph.nodes:
        arguments = [_argument(a) for a in node.args] + [f"{k}={_argument(v)}" for k, v in node.kwargs.items()]
        yield node.name, node.opcode, node.target, ", ".join(arguments), node.type or "", node.module or ""


def title(graph):
    kinds = [kind for kind, _, _, _ in graph.tensors.values()]
    ranges = ", ".join(f"{name} {low}..{'' if high is None else high}" for name, (low, high) in graph.symbols.items())
    return (f"{graph.name}: {len(graph)} nodes, {kinds.count('parameter')} parameters, {len(kinds) - kinds.count('parameter')} buffers"
            + (f", sizes {ranges}" if ranges else ""))


def plain(graph, width=40):
    """The table as text, long cells cut."""
    table = [COLUMNS, *rows(graph)]
    cut = [[c if len(c) <= width else c[:width - 1] + "…" for c in row] for row in table]
    widths = [max(len(row[i]) for row in cut) for i in range(len(COLUMNS))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cut]
    return "\n".join([title(graph), lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _rich(graph, file):
    """By rich, where it is installed; False where not."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(title=Text(title(graph)))
    for column in COLUMNS:
        table.add_column(column, overflow="fold", no_wrap=column == "opcode")
    colours = {"placeholder": "green", "get_attr": "yellow", "output": "magenta"}
    for row in rows(graph):
        table.add_row(*(Text(cell) for cell in row), style=colours.get(row[1]))
    console = Console(file=file)
    if not console.is_terminal:  # nothing tells how wide it may be, and words are not to be cut at 80 columns
        console = Console(file=file, width=160)
    console.print(table)
    return True


def _in_notebook():
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


def show(self, file=None):
    """Shows the nodes as a table: in a notebook as HTML with the picture below it, else as text on file (sys.stdout), by rich where it is installed."""
    if file is None and _in_notebook():
        from IPython.display import HTML, display
        display(HTML(_repr_html_(self)))
    elif not _rich(self, file or sys.stdout):
        print(plain(self), file=file or sys.stdout)


def _repr_svg_(self):
    """The graph drawn by Graphviz, for notebooks; None where there is no `dot`, or more than 400 nodes."""
    import shutil
    import subprocess

    dot = shutil.which("dot")
    if not dot or len(self) > MOST_DRAWN:
        return None
    done = subprocess.run([dot, "-Tsvg"], input=self.format("dot"), capture_output=True, text=True, encoding="utf-8")
    return done.stdout if done.returncode == 0 else None


def _html(heading, columns, table):
    cells = "".join("<tr>" + "".join(f"<td style='text-align:left'>{html.escape(c)}</td>" for c in row) + "</tr>" for row in table)
    return (f"<p>{html.escape(heading)}</p><table><thead><tr>" + "".join(f"<th style='text-align:left'>{c}</th>" for c in columns)
            + f"</tr></thead><tbody>{cells}</tbody></table>")


def _repr_html_(self):
    """The table of nodes and, to be unfolded, the picture of _repr_svg_, for notebooks: they show HTML where there is any, and no SVG beside it."""
    svg = _repr_svg_(self)
    picture = f"<details><summary>picture</summary>{svg[svg.index('<svg'):]}</details>" if svg else ""
    return _html(title(self), COLUMNS, rows(self)) + picture


def function_html(function):
    """A compiled function's inputs, outputs and state, for notebooks."""
    if function.closed:
        return f"<p>{html.escape(repr(function))}</p>"
    table = [(what, v.name, v.dtype, ", ".join(str(a) if a == b else f"{a}..{'' if b is None else b}" for a, b in v.sizes))
             for what, values in (("input", function.inputs), ("output", function.outputs)) for v in values]
    table += [("state", name, t.dtype, ", ".join(map(str, t.shape))) for name, t in function.state.items()]
    arena, weights = function.memory
    return _html(f"{function.graph.name}, {function.target}: arena {arena} bytes, weights {weights} bytes", ("", "name", "dtype", "sizes"), table)
