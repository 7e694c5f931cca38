"""Options of the whole-model tests.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pytest

import zoo
import zoo_transformers


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="every model of the zoo, not only the subset for CI")
    parser.addoption("--only", action="append", default=[], help="the per-model tests of this model alone (may be repeated)")
    parser.addoption("--forms", action="store_true", help="only the tests that name their models: targets, weights forms, decomposed")


@pytest.fixture(scope="session")
def full(request):
    return request.config.getoption("--full")


def names_its_models(definition):
    return any(m.args[0] in ("model", "name") for m in definition.iter_markers("parametrize"))


def pytest_generate_tests(metafunc):
    """Tests that take a model without naming one run for all of the chosen set."""
    if "model" in metafunc.fixturenames and not names_its_models(metafunc.definition):
        option = metafunc.config.getoption
        names = option("--only") or (list(zoo.MODELS | zoo_transformers.MODELS) if option("--full") else zoo.QUICK + zoo_transformers.QUICK)
        metafunc.parametrize("model", names, indirect=True, scope="module")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--only"):
        items[:] = [i for i in items if not names_its_models(i)]
    elif config.getoption("--forms"):
        items[:] = [i for i in items if names_its_models(i)]
