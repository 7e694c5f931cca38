"""target="cuda": compiled in memory for a GPU by NVRTC, which fxcc loads with the CUDA driver when it is first asked for.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import ctypes
import importlib.util
import pathlib

from ._core import ArgumentError

OPTIONS = ("disable", "cache")


def preload():
    """Loads NVRTC and cuBLASLt out of NVIDIA's packages (those that torch's wheels need) where the system has none: then fxcc finds them by their names."""
    for stem in ("libnvrtc", "libcublasLt"):
        names = [f"{stem}.so.13", f"{stem}.so.12"]
        spec = importlib.util.find_spec("nvidia")
        folders = [pathlib.Path(p) for p in spec.submodule_search_locations or []] if spec else []
        for name in names + [str(path) for n in names for folder in folders for path in sorted(folder.glob(f"*/lib/{n}"))]:
            try:
                ctypes.CDLL(name)
                break
            except OSError:
                continue


def build(graph, target, dims, options):
    for name in options:
        if name not in OPTIONS:
            raise ArgumentError(f"target {target!r} has no option {name!r}: expected {', '.join(OPTIONS)}, dims")
    preload()
    return graph._compile(dims=dims, device=target, **options)
