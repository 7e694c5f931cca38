"""Whole models: the CUDA that fxcc emits, on the host's CUDA (docs/cuda.md), equals PyTorch eager; and nvcc compiles it without a warning.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    tests/pytest cuda_models            the models that CI runs
    tests/pytest cuda_models --full     every model of the zoo
"""
import zlib

import pytest

import cuda_emitted
import matrix
import open_models
import zoo_transformers
from emitted import assert_close

SCHEDULES = 7


def schedules(name):
    """Threads in order, and in another order that the name draws."""
    return 0, 1 + zlib.crc32(name.encode()) % (SCHEDULES - 1)


def test_equals_eager(name, library, tmp_path):
    exported = zoo_transformers.export(name)
    cuda_emitted.emit(exported.path, tmp_path)
    net = cuda_emitted.Net(cuda_emitted.build(tmp_path, library), tmp_path / "net.bin")
    for schedule, x, y in zip(schedules(name), exported.inputs, exported.outputs, strict=True):
        assert_close(net.run(x, y, schedule), y)


def test_open_sizes(open_name, library, tmp_path):
    model = open_models.build(open_name)
    open_models.export(model, tmp_path / "model.pt2")
    cuda_emitted.emit(tmp_path / "model.pt2", tmp_path)
    net = cuda_emitted.Net(cuda_emitted.build(tmp_path, library), tmp_path / "net.bin")
    for k, (schedule, sizes) in enumerate(zip(schedules(open_name), model.sizes[:2], strict=True)):
        x, y = open_models.eager(model, 50 + k, sizes)
        assert_close(net.run(x, y, schedule), y, sizes)


@pytest.mark.parametrize("nvcc_name", ["resnet18", "mixed", "bert_small"])
def test_nvcc(nvcc_name, tmp_path):
    """One architecture; all of them, for all models: tests/cuda_figures/matrix.py."""
    if not matrix.NVCC:
        pytest.skip("nvcc is not there (CUDA's toolkit; no GPU is needed)")
    cuda_emitted.emit(zoo_transformers.export(nvcc_name).path, tmp_path)
    assert not matrix.compile_for(matrix.NVCC, matrix.WHOLE, tmp_path / "net.cu").spilled
    matrix.link(matrix.NVCC, matrix.WHOLE, tmp_path / "net.cu")
