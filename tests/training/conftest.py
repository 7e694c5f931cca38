"""Where the tests of training find the command.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "models"), str(ROOT / "python")]

from command import fxcc  # noqa: E402, F401
