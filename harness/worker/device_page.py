"""The page that is shared with the grader's stopwatch, as a device reads and writes it when it comes to that.

What is queued here stands on the stream like any kernel: behind the wait for the key nothing begins before the
stopwatch lets it, and between the end of a turn and its mark there is no host. The page is memory of a file that two
processes map; the driver lets the device use it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch

from harness.wire.driver import done
from harness.wire.kernels import Kernels
from harness.wire.stopwatch import KEY, MARKS, RELEASED, ROOT, Page

_WHERE = "for the page that is shared with the grader"
_LIMIT_NS = 30_000_000_000
"""No device waits longer for its release; the grader has given a worker up by then."""
_KINDS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)
"""Of what the kernel takes."""


class DevicePage:
    """One page, for one device."""

    def __init__(self, page: Page, kernels: Kernels) -> None:
        """Raises RuntimeError where the driver can't use such a page."""
        from cuda.bindings import driver

        self._page, self._kernels, self._device = page, kernels, kernels.device
        self._write: Any = driver.cuStreamWriteValue64
        self._unregister: Any = driver.cuMemHostUnregister
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(page.memory))
        self._key = torch.zeros(1, dtype=torch.int64, device=self._device)
        with torch.cuda.device(self._device):
            mapped = driver.CU_MEMHOSTREGISTER_DEVICEMAP
            done(driver.cuMemHostRegister(self._address, len(page.memory), mapped), _WHERE)
            self._base = int(done(driver.cuMemHostGetDevicePointer(self._address, 0), _WHERE))

    def close(self) -> None:
        """Before the page is another one."""
        done(self._unregister(self._address), _WHERE)

    def wait_for_key(self) -> torch.Tensor:
        """Queue the wait for the release of this loop; returns where its key lies then, [1] int64 on the device."""
        values = (self._base + RELEASED, self._base + KEY, self._ticket(), _LIMIT_NS, self._key.data_ptr())
        self._kernels.launch("await_key", 1, 1, values, _KINDS)
        return self._key

    def mark(self, number: int) -> None:
        """Queue a mark."""
        stream = torch.cuda.current_stream(self._device).cuda_stream
        done(self._write(stream, self._base + MARKS[number], self._ticket(), 0), _WHERE)

    def put_root(self, root: torch.Tensor) -> None:
        """Queue the writing of a root, [2] int64 on the device."""
        kinds = ctypes.c_void_p, ctypes.c_void_p
        self._kernels.launch("publish", 1, 1, (root.data_ptr(), self._base + ROOT), kinds)

    def _ticket(self) -> int:
        return int.from_bytes(self._page.ticket, sys.byteorder)
