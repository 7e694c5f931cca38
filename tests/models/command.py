"""Where tests find the command.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def fxcc():
    """The command under test: FXCC, or the newest in a build folder of this repository."""
    named = os.environ.get("FXCC")
    if named:
        return named
    root = pathlib.Path(__file__).resolve().parents[2]
    built = sorted(root.glob("build*/**/bin/fxcc"), key=lambda p: p.stat().st_mtime)
    if not built:
        pytest.skip("no fxcc: set FXCC or build it")
    return str(built[-1])
