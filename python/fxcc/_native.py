"""target="c": the C sources that fxcc emits, built by the C compiler into a shared object and called like a function of the JIT.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from ._core import ArgumentError, Error

# What _core calls (python/core/native.c), over the emitted header's interface.
ADAPTER = """\
#include "model.h"

{constants}
int fxcc_python_run(const int64_t *const *shapes, void *const *in, void *const *out, void *(*room)(void *user, size_t size), void *user, void *state)
{{
    model_context ctx;
    void *arena;
    size_t size = {arena};
    int status = 0;
{dims}    arena = room(user, size);
    if (!arena)
        return -1;
    status = model_init(&ctx, model_weights, sizeof model_weights, arena, size{state});
    (void)shapes;
    (void)state;
    return status == MODEL_OK ? model_run_v(&ctx, {pass_dims}{cast}in, out) : status;
}}

const char *fxcc_python_status(int status)
{{
    return model_status_string(status);
}}

int fxcc_python_reset(void *state)
{{
{reset}}}
"""

DIMS = """\
    model_dims dims;
    status = model_dims_of(&dims, shapes);
    if (status != MODEL_OK)
        return status;
    size = model_arena_size(&dims);
"""

RESET = """\
    model_context ctx;
    static MODEL_ALIGNED unsigned char arena[MODEL_ALIGN];
    ctx.weights = model_weights;
    ctx.arena = arena;
    ctx.state = state;
    return model_state_init(&ctx);
"""


def adapter(header):
    """The adapter's text for a header of the prefix `model`."""
    open_sizes = "model_dims;" in header
    state = "MODEL_STATE_SIZE" in header
    inputs_written = re.search(r"int model_run_v\([^;]*?(const )?void \*const \*inputs", header)
    return ADAPTER.format(
        constants=f"const uint64_t fxcc_python_state_size = {'MODEL_STATE_SIZE' if state else 0};\n",
        arena="0" if open_sizes else "MODEL_ARENA_SIZE", dims=DIMS if open_sizes else "", pass_dims="&dims, " if open_sizes else "",
        state=", state, MODEL_STATE_SIZE" if state else "", cast="(const void *const *)" if inputs_written and inputs_written.group(1) else "",
        reset=RESET.replace("MODEL_ALIGN]", "MODEL_ARENA_ALIGN]") if state else "    (void)state;\n    return 0;\n")


def compiler(folder, threads):
    """The command that builds a shared object, with the flags that the emitted Makefile gives for the target."""
    flags = re.search(r"^TARGET_FLAGS = (.*)$", (folder / "Makefile").read_text(encoding="utf-8"), re.M)
    return [*shlex.split(os.environ.get("CC", "cc")), *shlex.split(flags.group(1)), *shlex.split(os.environ.get("CFLAGS", "-O3")),
            *(["-fopenmp"] if threads != 1 else []), "-fPIC", "-shared"]


def build(graph, dims, options):
    """A Function that calls the emitted C. Raises fxcc.Error with the compiler's words when it fails."""
    for name in options:
        if name not in ("threads", "disable"):
            raise ArgumentError(f"target 'c' has no option {name!r}: expected threads, disable, dims")
    with tempfile.TemporaryDirectory(prefix="fxcc-") as name:
        folder = pathlib.Path(name)
        sizes = graph._emit_c(folder, prefix="model", dims=dims, weights="incbin", **options)
        (folder / "adapter.c").write_text(adapter((folder / "model.h").read_text(encoding="utf-8")), encoding="utf-8")
        sources = sorted(p.name for p in folder.glob("*.c"))
        command = compiler(folder, options.get("threads", 0)) + [*sources, "-o", "model.so", "-lm"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except OSError as error:
            raise Error(f"the C compiler '{command[0]}' cannot be run ({error.strerror}): target 'c' needs one; set CC") from None
        if done.returncode:
            raise Error(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stderr[-4000:]}")
        given = {"target": "c", **options} if dims is None else {"target": "c", "dims": dims, **options}
        return graph._native(folder / "model.so", sizes["arena_size"], sizes["weights_size"], given)
