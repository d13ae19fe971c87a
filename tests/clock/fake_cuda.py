"""A CUDA device without one: what is queued and waited for is written down in order, and tensors are on the CPU.

    record(1)  record(2)   events, numbered as they are first recorded; each reads the microseconds of what was queued
    sleep 500000           idling, in cycles
    wait                   for the device
    zero_ f  fill_ 8       operators that write, by what they write to: a tensor that has a name, else its bytes

Every operator of torch's takes one microsecond here, and idling takes none.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class FakeCuda(TorchDispatchMode):
    """A context manager: within it operators are written down. `install` puts the rest where torch has its own."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.now_us = 0
        self.segments: list[dict[str, Any]] = []
        """What the allocator holds, as torch.cuda.memory_snapshot tells it."""
        self._names: dict[int, str] = {}
        self._events = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In place of torch.cuda's."""
        fake = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing
                self.number, self.at_us = 0, 0

            def record(self) -> None:
                if not self.number:
                    fake._events += 1
                    self.number = fake._events
                self.at_us = fake.now_us
                fake.log.append(f"record({self.number})")

            def elapsed_time(self, end: Event) -> float:
                assert fake.log[-1] == "wait", "events are asked before the device was waited for"
                return (end.at_us - self.at_us) / 1e3

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: fake.log.append(f"sleep {cycles}"))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda _=None: fake.log.append("wait"))
        monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: fake.segments)

    def name(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """Call it so from here on."""
        self._names[tensor.data_ptr()] = name
        return tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:
            self.now_us += 1
            written = args[0]
            what = self._names.get(written.data_ptr(), str(written.nbytes))
            self.log.append(f"{func._schema.name.removeprefix('aten::')} {what}")
        return result


class FakeRuntime:
    """The functions of CUDA's runtime that are called by ctypes."""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.error = 0
        """What is pending."""
        self.limits = {5: 64, 6: 0}
        """Bytes that a miss fetches, and of L2 that are set aside for what is to stay."""
        self.cudaGetErrorName = self._text(b"cudaErrorInvalidConfiguration")
        self.cudaGetErrorString = self._text(b"invalid configuration argument")

    def cudaGetLastError(self) -> int:
        """The pending error, which is none from then on."""
        error, self.error = self.error, 0
        return error

    def cudaDeviceGetLimit(self, value: Any, limit: int) -> int:
        """One of those that are known here."""
        value._obj.value = self.limits[limit]
        return 0

    def cudaDeviceSetLimit(self, limit: int, value: ctypes.c_size_t) -> int:
        """As on a device without that limit."""
        self._log.append(f"limit {limit} {value.value}")
        self.error = 215
        return 215

    def cudaCtxResetPersistingL2Cache(self) -> int:
        """Lines that were to stay are as others."""
        self._log.append("reset L2")
        return 0

    def cudaMemset(self, address: ctypes.c_void_p, value: int, count: ctypes.c_size_t) -> int:
        """Writes nothing."""
        self._log.append(f"memset {address.value} {value:#x} {count.value}")
        return 0

    @staticmethod
    def _text(text: bytes) -> Any:
        def say(_: int) -> bytes:
            return text

        return say
