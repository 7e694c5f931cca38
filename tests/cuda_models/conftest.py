"""Options of the tests of whole models as CUDA.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "models"), str(TESTS / "dynamic"), str(TESTS / "cuda_figures"), str(TESTS / "cuda_emit")]

import cuda_emitted  # noqa: E402
import open_models  # noqa: E402
import zoo  # noqa: E402
import zoo_transformers  # noqa: E402


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return cuda_emitted.library(tmp_path_factory.mktemp("library"))


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="every model of the zoo, not only the subset for CI")
    parser.addoption("--only", action="append", default=[], help="this model alone (may be repeated)")


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--full")
    if "name" in metafunc.fixturenames:
        known = list(zoo.MODELS | zoo_transformers.MODELS) if full else zoo.QUICK + zoo_transformers.QUICK
        metafunc.parametrize("name", [n for n in known if n in (metafunc.config.getoption("--only") or known)])
    if "open_name" in metafunc.fixturenames:
        metafunc.parametrize("open_name", [] if metafunc.config.getoption("--only") else list(open_models.FULL if full else open_models.QUICK))
