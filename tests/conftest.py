"""Tests that need a GPU or nvcc are skipped, with the reason, where there is none."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says something of the machine, not of the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def _own_umask() -> Iterator[None]:
    """A command that runs in this process may set it, as `harness keys` does, and means its own."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Decided test by test, so that nothing imports torch unless a marked test is about to run."""
    for marker, why_not in (("gpu", _no_gpu), ("nvcc", _no_nvcc)):
        if item.get_closest_marker(marker) is not None and (reason := why_not()):
            pytest.skip(reason)


@functools.cache
def _no_gpu() -> str | None:
    from harness.machine.device import DeviceError, open_device

    try:
        open_device("cuda")
    except DeviceError as error:
        return str(error)
    return None


@functools.cache
def _no_nvcc() -> str | None:
    import torch

    if torch.version.cuda is None:
        return "this torch is built without CUDA"
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    if shutil.which("nvcc") is None and not Path(home, "bin", "nvcc").exists():
        return "there is no nvcc on PATH or in CUDA_HOME"
    return None
