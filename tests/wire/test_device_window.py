"""A window in device memory: what is taken of the driver is given back, whatever fails. The driver is a fake."""

from __future__ import annotations

import itertools
import mmap
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from harness.wire import window as module
from harness.wire.window import DeviceWindow, create, open_window

CUDA = torch.device("cuda:1")
GRAIN = 1 << 16


class Code(int):
    name = "CUDA_ERROR_OUT_OF_MEMORY"


class Driver(ModuleType):
    """Memory is an anonymous file, an address a number; `fails` names the call that does."""

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.fails = ""
        self.held: set[tuple[str, int]] = set()
        self.devices: list[int] = []
        self.CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
        self.CUmemAllocationHandleType = SimpleNamespace(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR=1)
        self.CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
        self.CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED=1)
        self.CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
        self.files: dict[int, int] = {}
        self.maps: dict[int, mmap.mmap] = {}
        self._numbers = itertools.count(1)

    def CUmemAllocationProp(self) -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    CUmemAccessDesc = CUmemAllocationProp

    def _take(self, call: str, kind: str) -> tuple[Any, ...]:
        if self.fails == call:
            return (Code(2), None)
        number = next(self._numbers)
        self.held.add((kind, number))
        return (Code(0), number)

    def cuMemGetAllocationGranularity(self, properties: Any, _: int) -> tuple[Any, ...]:
        self.devices.append(properties.location.id)
        return (Code(0), GRAIN)

    def cuMemCreate(self, size: int, _properties: Any, _flags: int) -> tuple[Any, ...]:
        error, handle = self._take("create", "handle")
        if not error:
            self.files[handle] = os.memfd_create("device")
            os.ftruncate(self.files[handle], size)
        return error, handle

    def cuMemExportToShareableHandle(self, handle: int, _kind: int, _flags: int) -> tuple[Any, ...]:
        return (Code(2), None) if self.fails == "export" else (Code(0), os.dup(self.files[handle]))

    def cuMemImportFromShareableHandle(self, fd: int, _kind: int) -> tuple[Any, ...]:
        error, handle = self._take("import", "handle")
        if not error:
            self.files[handle] = os.dup(fd)
        return error, handle

    def cuMemAddressReserve(self, _size: int, _align: int, _at: int, _flags: int) -> tuple[Any, ...]:
        return self._take("reserve", "address")

    def cuMemMap(self, address: int, size: int, _offset: int, handle: int, _flags: int) -> tuple[Any, ...]:
        if self.fails == "map":
            return (Code(2),)
        self.maps[address] = mmap.mmap(self.files[handle], size)
        self.held.add(("map", address))
        return (Code(0),)

    def cuMemSetAccess(self, _address: int, _size: int, access: list[Any], _count: int) -> tuple[Any, ...]:
        self.devices.append(access[0].location.id)
        return (Code(2),) if self.fails == "access" else (Code(0),)

    def cuMemUnmap(self, address: int, _size: int) -> tuple[Any, ...]:
        if ("map", address) not in self.held:
            return (Code(1),)
        self.held.remove(("map", address))
        return (Code(0),)

    def cuMemAddressFree(self, address: int, _size: int) -> tuple[Any, ...]:
        assert ("map", address) not in self.held
        self.held.remove(("address", address))
        return (Code(0),)

    def cuMemRelease(self, handle: int) -> tuple[Any, ...]:
        self.held.remove(("handle", handle))
        os.close(self.files.pop(handle))
        return (Code(0),)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    fake, bindings, cuda = Driver(), ModuleType("cuda.bindings"), ModuleType("cuda")
    bindings.driver, cuda.bindings = fake, bindings  # type: ignore[attr-defined]
    for made in (cuda, bindings, fake):
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def tensor_at(raw: Any, device: str) -> torch.Tensor:
        assert device == "cuda:1"
        told = raw.__cuda_array_interface__
        assert (told["typestr"], told["version"]) == ("|u1", 3)
        return torch.frombuffer(fake.maps[told["data"][0]], dtype=torch.uint8)[: told["shape"][0]]

    monkeypatch.setattr(module.torch, "as_tensor", tensor_at)
    monkeypatch.setattr(module.torch.cuda, "synchronize", lambda device: fake.devices.append(device))
    return fake


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_both_ends_see_the_same_bytes_and_all_is_given_back(driver: Driver) -> None:
    before = open_files()
    ours = create(GRAIN + 1, CUDA, "device")
    assert isinstance(ours, DeviceWindow)
    assert (ours.half, ours.size) == (2 * GRAIN, 4 * GRAIN)
    theirs = open_window("device", os.dup(ours.fd), ours.size, CUDA)
    ours.view(1)[5] = 77
    assert theirs.view(1)[5] == 77
    assert theirs.view(0)[5] == 0
    ours.close()
    theirs.close()
    assert driver.held == set()
    assert set(driver.devices) == {1}
    driver.maps.clear()
    assert open_files() == before


@pytest.mark.parametrize("fails", ["create", "export", "reserve", "map", "access"])
def test_what_fails_leaves_nothing_behind(driver: Driver, fails: str) -> None:
    before = open_files()
    driver.fails = fails
    with pytest.raises(RuntimeError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        create(GRAIN, CUDA, "device")
    assert driver.held == set()
    driver.maps.clear()
    assert open_files() == before


@pytest.mark.parametrize("fails", ["import", "reserve", "map", "access"])
def test_nor_does_what_fails_at_the_other_end(driver: Driver, fails: str) -> None:
    ours = create(GRAIN, CUDA, "device")
    held, driver.fails = set(driver.held), fails
    with pytest.raises(RuntimeError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        open_window("device", ours.fd, ours.size, CUDA)
    assert driver.held == held
    ours.close()
    assert driver.held == set()
