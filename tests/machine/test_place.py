"""Where processes are to run, told before torch is there. No GPU: NVML is a fake."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from harness.machine.place import likely_place

UUIDS = [f"GPU-0000000{number}-0000-0000-0000-000000000000" for number in range(3)]


class FakeNvml(SimpleNamespace):
    """Three GPUs, known by their UUIDs."""

    class NVMLError(Exception):
        """Any of NVML's."""

    def nvmlInit(self) -> None:
        """It is there."""

    def nvmlShutdown(self) -> None:
        """And goes."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        """In NVML's order."""
        if index >= len(UUIDS):
            raise self.NVMLError
        return UUIDS[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        """By name."""
        if uuid not in UUIDS:
            raise self.NVMLError
        return uuid

    def nvmlDeviceGetMinorNumber(self, handle: str) -> int:
        """Of its node."""
        return UUIDS.index(handle)

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        """Its name."""
        return handle


@pytest.mark.parametrize(
    ("visible", "spec", "found"),
    [
        (None, "auto", 0),
        (None, "cuda", 0),
        (None, "cuda:2", 2),
        (None, "cuda:3", None),
        ("1", "cuda", 1),
        ("2,0", "cuda", 2),
        ("2, 0", "cuda:1", 0),
        ("2,0", "cuda:2", None),
        (UUIDS[1], "cuda", 1),
        (f"{UUIDS[2]},{UUIDS[0]}", "cuda:1", 0),
        ("", "cuda", None),
        ("-1", "cuda", None),
        ("MIG-0", "cuda", None),
        ("GPU-0000", "cuda", None),
    ],
)
def test_a_gpu_is_the_one_that_cuda_will_see(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, spec: str, found: int | None
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    place = likely_place(spec)
    assert (None if place is None else place.uuid) == (None if found is None else UUIDS[found])
    if place is not None:
        assert (place.kind, place.index) == ("cuda", int(spec.partition(":")[2] or 0))


def test_a_cpu_needs_nobody_to_be_asked() -> None:
    place = likely_place(" CPU ")
    assert place is not None
    assert (place.kind, place.uuid) == ("cpu", None)
