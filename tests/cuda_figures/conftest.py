"""Options and fixtures of the figures' tests: those of the models' tests.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "models"))
from command import fxcc  # noqa: E402, F401
import zoo  # noqa: E402
import zoo_transformers  # noqa: E402

import pytest  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="every model of the zoo, not only the subset for CI")


@pytest.fixture(scope="session")
def full(request):
    return request.config.getoption("--full")


def pytest_generate_tests(metafunc):
    if "model" in metafunc.fixturenames:
        everything = list(zoo.MODELS | zoo_transformers.MODELS)
        metafunc.parametrize("model", everything if metafunc.config.getoption("--full") else zoo.QUICK + zoo_transformers.QUICK)
