"""Shared memory between grader and worker, through which a stream of tensor bytes passes a part at a time.

    window    [ half 0      ][ half 1      ]      one half is filled while the other is emptied

Two kinds. A host window is an anonymous file whose size is sealed, so that neither side can pull it away under the
other; on a CUDA machine both sides register it with the driver, since copies from and to unregistered memory are many
times slower. A device window is device memory that the grader allocates and exports as a descriptor: data that is on
the device anyway never leaves it. What is in a window can change at any time: a side first copies to memory of its own
and then looks. Used on both sides of the wire.
"""

from __future__ import annotations

import abc
import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator
from typing import Any, Literal

import torch

from harness.wire.driver import done
from harness.wire.transfer import ALIGN

Kind = Literal["host", "device"]
HALF_MAX: dict[Kind, int] = {"host": 64 << 20, "device": 256 << 20}
"""Bytes of one half at most: large enough that a round trip per half costs little beside copying it."""


class Window(abc.ABC):
    """Two halves of `half` bytes each, seen by two processes."""

    kind: Kind

    def __init__(self, fd: int, size: int, memory: torch.Tensor) -> None:
        self.fd, self.size, self.half = fd, size, size // 2
        self.memory = memory

    def halves(self, stream_size: int) -> Iterator[tuple[int, int, int]]:
        """The turns that a stream takes: which half, first byte, byte after the last."""
        for turn, low in enumerate(range(0, stream_size, self.half)):
            yield turn % 2, low, min(stream_size, low + self.half)

    def view(self, half: int) -> torch.Tensor:
        """One half's bytes."""
        return self.memory[half * self.half : (half + 1) * self.half]

    def close(self) -> None:
        """Give the memory back."""
        del self.memory
        self._release()
        with contextlib.suppress(OSError):
            os.close(self.fd)

    @abc.abstractmethod
    def _release(self) -> None:
        """Undo the mapping."""


class HostWindow(Window):
    """An anonymous file."""

    kind: Kind = "host"

    def __init__(self, fd: int, size: int, *, register: bool) -> None:
        self._map = mmap.mmap(fd, size)
        super().__init__(fd, size, torch.frombuffer(self._map, dtype=torch.uint8))
        self._address = self.memory.data_ptr()
        self._registered = False
        if register:
            # Failing is no error: the copies are then slower and just as right.
            self._registered = int(torch.cuda.cudart().cudaHostRegister(self._address, size, 0)) == 0

    @classmethod
    def create(cls, half: int, *, register: bool) -> HostWindow:
        """A new one. Raises OSError when the machine has no memory for it."""
        half = -(-half // mmap.PAGESIZE) * mmap.PAGESIZE
        fd = os.memfd_create("harness-window", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, 2 * half)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            return cls(fd, 2 * half, register=register)
        except BaseException:
            os.close(fd)
            raise

    def _release(self) -> None:
        if self._registered:
            with contextlib.suppress(RuntimeError):
                torch.cuda.cudart().cudaHostUnregister(self._address)
        with contextlib.suppress(BufferError):
            self._map.close()


class DeviceWindow(Window):
    """Device memory made with the driver's virtual memory interface, which works across sandboxes where CUDA's older
    sharing by handle does not."""

    kind: Kind = "device"

    def __init__(self, fd: int, size: int, handle: Any, device: int) -> None:
        self._handle, self._device = handle, device
        self._address = _map(handle, size, device)
        super().__init__(fd, size, torch.as_tensor(_Raw(self._address, size), device=f"cuda:{device}"))

    @classmethod
    def create(cls, half: int, device: int) -> DeviceWindow:
        """A new one. Raises RuntimeError (or ImportError without cuda-bindings) where the device can't share memory."""
        from cuda.bindings import driver

        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.requestedHandleTypes = _handle_type()
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device
        flag = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
        granularity = int(done(driver.cuMemGetAllocationGranularity(properties, flag)))
        half = -(-half // granularity) * granularity
        handle, fd = done(driver.cuMemCreate(2 * half, properties, 0)), -1
        try:
            fd = int(done(driver.cuMemExportToShareableHandle(handle, _handle_type(), 0)))
            return cls(fd, 2 * half, handle, device)
        except BaseException:
            driver.cuMemRelease(handle)
            if fd >= 0:
                os.close(fd)
            raise

    @classmethod
    def open(cls, fd: int, size: int, device: int) -> DeviceWindow:
        """The other side's end."""
        from cuda.bindings import driver

        handle = done(driver.cuMemImportFromShareableHandle(fd, _handle_type()))
        try:
            return cls(fd, size, handle, device)
        except BaseException:
            driver.cuMemRelease(handle)
            raise

    def _release(self) -> None:
        from cuda.bindings import driver

        with contextlib.suppress(RuntimeError):  # a context that is lost has nothing under way
            torch.cuda.synchronize(self._device)
        driver.cuMemUnmap(self._address, self.size)
        driver.cuMemAddressFree(self._address, self.size)
        driver.cuMemRelease(self._handle)


class _Raw:
    """Memory at an address, for torch to look at."""

    def __init__(self, address: Any, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (int(address), False),
            "version": 3,
        }


def create(stream_bytes: int, device: torch.device, kind: Kind) -> Window:
    """A window that suits streams of up to `stream_bytes`; longer ones take more turns."""
    half = min(HALF_MAX[kind], max(ALIGN, -(-stream_bytes // ALIGN) * ALIGN))
    if kind == "device":
        return DeviceWindow.create(half, device.index or 0)
    return HostWindow.create(half, register=device.type == "cuda")


def open_window(kind: Kind, fd: int, size: int, device: torch.device) -> Window:
    """The worker's end of a window."""
    if kind == "device":
        return DeviceWindow.open(fd, size, device.index or 0)
    return HostWindow(fd, size, register=device.type == "cuda")


def _handle_type() -> Any:
    from cuda.bindings import driver

    return driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def _map(handle: Any, size: int, device: int) -> Any:
    from cuda.bindings import driver

    address = done(driver.cuMemAddressReserve(size, 0, 0, 0))
    try:
        done(driver.cuMemMap(address, size, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        done(driver.cuMemSetAccess(address, size, [access], 1))
    except BaseException:
        driver.cuMemUnmap(address, size)  # says so where nothing is mapped
        driver.cuMemAddressFree(address, size)
        raise
    return address
