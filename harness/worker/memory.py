"""Memory that a result may land in is filled with what no right result holds, and errors are found by their call."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import re
import secrets
from pathlib import Path
from typing import Any

import torch

from harness.worker.failure import Failure

_M_PERTURB = -6
_PERSISTING_L2_SIZE = 0x06
"""cudaLimitPersistingL2CacheSize."""
_ELSEWHERE, _ELSEWHERE_BYTES = 4, 256 << 20
"""Tensors of a value that are now here and now there, and in how much memory each."""
_ELSEWHERE_PLACES = 16
"""Places for one tensor at most: where its pages lie makes some per cent of the time of a 5 us kernel."""
_REFILL_BYTES = 2 << 30
"""Memory that is poisoned before a timed loop: for larger outputs the calls of the check are enough."""
_L2_FETCH_GRANULARITY = 0x05
"""cudaLimitMaxL2FetchGranularity: bytes that a miss fetches."""


class CpuMemory:
    """The C library's allocator, told to fill what it hands out."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)

    def poison(self, sizes: list[int]) -> None:
        """Fill allocations with 0x7f bytes from here on (3.4e38 as a float); with no sizes, stop doing so.

        glibc fills with the complement of the value given, and a complement of 0xff, which would be NaN, means "off".
        """
        with contextlib.suppress(AttributeError):
            self._libc.mallopt(_M_PERTURB, 0x80 if sizes else 0)

    def refill(self, sizes: list[int], count: int) -> None:
        """Poison what the next outputs of these sizes may be made in, as far as the C library hands it out again."""
        _fill(_within([size for size in sizes for _ in range(count) if size]), torch.device("cpu"))

    def release(self) -> None:
        """Freed memory goes back by itself on a CPU."""

    def settle(self) -> None:
        """Nothing is pending on a CPU."""

    def check_errors(self, where: str) -> None:
        """Nothing is pending on a CPU."""


class CudaMemory:
    """torch's caching allocator, and the CUDA runtime's error state."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._runtime = _loaded_runtime()
        self._granularity = ctypes.c_size_t(0)
        if self._runtime is not None:
            self._runtime.cudaDeviceGetLimit(ctypes.byref(self._granularity), _L2_FETCH_GRANULARITY)
            self._last_error()

    def poison(self, sizes: list[int]) -> None:
        """Fill with 0xff bytes (NaN as a float) blocks of these sizes, and all that the allocator holds free."""
        if not sizes:
            return
        # Twice each: a submission may take a workspace of the output's size before the output itself.
        _fill([size for size in sizes for _ in range(2) if size], self._device)
        torch.cuda.synchronize(self._device)
        if self._runtime is None:
            return
        for segment in torch.cuda.memory_snapshot():
            if segment["device"] != (self._device.index or 0):
                continue
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "inactive":
                    self._runtime.cudaMemset(ctypes.c_void_p(address), 0xFF, ctypes.c_size_t(block["size"]))
                address += block["size"]

    def release(self) -> None:
        """Give memory that the allocator keeps for later back to the device, where others need it."""
        torch.cuda.empty_cache()

    def refill(self, sizes: list[int], count: int) -> None:
        """Poison what the next `count` outputs of these sizes will be made in, and as much again."""
        _fill(_within([size for size in sizes for _ in range(count + 1) if size]), self._device)

    def reset_limits(self) -> None:
        """Set back what outlasts a call and can make the next one faster.

        No line of L2 is kept from one call to the next (limit to zero, and what was set aside becomes normal), and a
        miss fetches as many bytes as in any process.
        """
        if self._runtime is None:
            return
        # Setting one takes half a millisecond, looking at it none.
        for limit, wanted in ((_L2_FETCH_GRANULARITY, self._granularity.value), (_PERSISTING_L2_SIZE, 0)):
            now = ctypes.c_size_t(~0)
            self._runtime.cudaDeviceGetLimit(ctypes.byref(now), limit)
            if now.value != wanted:
                self._runtime.cudaDeviceSetLimit(limit, ctypes.c_size_t(wanted))
        self._runtime.cudaCtxResetPersistingL2Cache()
        # Devices without the feature say so; that is no error of the submission's.
        self._last_error()

    def settle(self) -> None:
        """Wait for the device, and forget errors of calls before."""
        torch.cuda.synchronize(self._device)
        self._last_error()

    def check_errors(self, where: str) -> None:
        """Raise Failure for an error that is pending, also one that nobody has asked about."""
        code, name = self._last_error()
        if code:
            # A failed launch is no error until somebody asks: the kernel just never ran.
            raise Failure(
                "cuda",
                f"CUDA error in {where}: {_describe(self._runtime, code)} ({name}), left unchecked by the submission",
                cuda_error=name,
                cuda_error_code=code,
                unchecked=True,
            )
        torch.cuda.synchronize(self._device)

    def _last_error(self) -> tuple[int, str]:
        if self._runtime is None:
            return 0, ""
        code = int(self._runtime.cudaGetLastError())
        if not code:
            return 0, ""
        self._runtime.cudaGetErrorName.restype = ctypes.c_char_p
        return code, self._runtime.cudaGetErrorName(code).decode()


def aside(sizes: list[int], device: torch.device) -> list[torch.Tensor]:
    """Blocks of these sizes, a random number of each, to be held while others are taken.

    An allocator hands out the first free block of a size: who holds some of them finds values in other places.
    """
    blocks: list[torch.Tensor] = []
    with contextlib.suppress(torch.OutOfMemoryError):  # where there is little left, values stay where they are
        for size in sizes[:_ELSEWHERE]:
            places = min(_ELSEWHERE_PLACES, _ELSEWHERE_BYTES // max(1, size))
            for _ in range(secrets.randbelow(max(1, places))):
                blocks.append(torch.empty(size, dtype=torch.uint8, device=device))
    return blocks


def _fill(sizes: list[int], device: torch.device) -> None:
    """Take blocks of these sizes, all at once, fill them, and give them back."""
    blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]
    for block in blocks:
        block.fill_(0xFF)


def _within(sizes: list[int]) -> list[int]:
    """The first of these, as far as they are not too much to fill before each loop."""
    return [size for size, total in zip(sizes, itertools.accumulate(sizes), strict=True) if total <= _REFILL_BYTES]


def _describe(runtime: Any, code: int) -> str:
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    return str(runtime.cudaGetErrorString(code).decode())


def _loaded_runtime() -> ctypes.CDLL | None:
    """The CUDA runtime that torch has loaded: errors are kept for each copy of it, so it has to be that one."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if found := re.search(r"(/\S*libcudart[^/]*\.so[^/\s]*)$", line):
            return ctypes.CDLL(found[1])
    return None
