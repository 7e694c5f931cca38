"""Options of the tests of captured graphs.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import zoo  # noqa: E402

QUICK = ["simple_cnn", "mixed", "resnet18", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0"]


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="every model of the zoo, not only the subset for CI")


def pytest_generate_tests(metafunc):
    if "model" in metafunc.fixturenames:
        names = [n for n in zoo.MODELS if n not in QUICK] if metafunc.config.getoption("--full") else QUICK
        metafunc.parametrize("model", names, indirect=True, scope="module")
