"""Options of the whole-model tests.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pytest

import zoo


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="every model of the zoo, not only the subset for CI")
    parser.addoption("--only", action="append", default=[], help="only this model (may be repeated)")


@pytest.fixture(scope="session")
def full(request):
    return request.config.getoption("--full")


def pytest_generate_tests(metafunc):
    """Tests that take a model without naming one run for all of the chosen set."""
    marked = [m for m in metafunc.definition.iter_markers("parametrize") if m.args[0] == "model"]
    if "model" in metafunc.fixturenames and not marked:
        option = metafunc.config.getoption
        names = option("--only") or (list(zoo.MODELS) if option("--full") else zoo.QUICK)
        metafunc.parametrize("model", names, indirect=True, scope="module")
