"""Options of the tests of models with open sizes.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))

import open_models  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="the large models only: those that the quick ones are cut from")


def pytest_generate_tests(metafunc):
    if "model" in metafunc.fixturenames:
        names = open_models.FULL if metafunc.config.getoption("--full") else open_models.QUICK
        metafunc.parametrize("model", list(names), indirect=True, scope="module")
