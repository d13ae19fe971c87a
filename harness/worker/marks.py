"""Marks on the page that is shared with the grader's stopwatch, written by the device when it comes to them.

A write is queued on the stream like a kernel, behind the turn that it follows, so that no host is between the end of
that turn and the stopwatch. The page is memory of a file that two processes map; the driver lets the device write it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch

from harness.wire.driver import done
from harness.wire.stopwatch import MARKS, Page

_WHERE = "for the page that is shared with the grader"


class DeviceMarks:
    """Of one page, for one device."""

    def __init__(self, page: Page, device: torch.device) -> None:
        """Raises RuntimeError where the driver can't write such a page."""
        from cuda.bindings import driver

        self._page, self._device = page, device
        self._write: Any = driver.cuStreamWriteValue64
        self._unregister: Any = driver.cuMemHostUnregister
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(page.memory))
        with torch.cuda.device(device):
            torch.cuda.current_stream(device).synchronize()  # there is a context now
            mapped = driver.CU_MEMHOSTREGISTER_DEVICEMAP
            done(driver.cuMemHostRegister(self._address, len(page.memory), mapped), _WHERE)
            self._base = int(done(driver.cuMemHostGetDevicePointer(self._address, 0), _WHERE))

    def close(self) -> None:
        """Before the page is another one."""
        done(self._unregister(self._address), _WHERE)

    def write(self, number: int) -> None:
        """Queue a mark on the current stream."""
        stream = torch.cuda.current_stream(self._device).cuda_stream
        ticket = int.from_bytes(self._page.ticket, sys.byteorder)
        done(self._write(stream, self._base + MARKS[number], ticket, 0), _WHERE)
