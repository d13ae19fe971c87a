"""The part of pynvml that holds clocks, over a file in place of a driver: its state outlives a process, as the real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_CODES = {"INVALID_ARGUMENT": 2, "NOT_SUPPORTED": 3, "NO_PERMISSION": 4, "NOT_FOUND": 6, "UNKNOWN": 999}
_TDP = 0xFFFFFF01


class NVMLError(Exception):
    """As pynvml's: `value` is the number."""

    def __init__(self, name: str) -> None:
        self.value = _CODES[name]
        super().__init__(f"error {self.value}")


class FakeClocks:
    """One GPU of UUID `GPU-1`."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION = 2, 3, 4

    def __init__(self, path: Path) -> None:
        self.path = path
        self.knows_base = True
        self.refuse: dict[str, str] = {}
        """Which function refuses, and with which error."""
        self.sessions = 0
        self.calls = 0
        """Calls that set or reset something."""

    def state(self) -> dict[str, Any]:
        """What the driver holds the clocks at; None: free."""
        return json.loads(self.path.read_text()) if self.path.exists() else {"sm": None, "memory": None}

    def _set(self, function: str, which: str, value: Any) -> None:
        self.calls += 1
        self._may(function)
        self.path.write_text(json.dumps(self.state() | {which: value}))

    def _may(self, function: str) -> None:
        if function in self.refuse:
            raise NVMLError(self.refuse[function])

    def nvmlInit(self) -> None:
        self._may("nvmlInit")
        self.sessions += 1

    def nvmlShutdown(self) -> None:
        self.sessions -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != "GPU-1":
            raise NVMLError("NOT_FOUND")
        return "handle"

    def nvmlDeviceGetMaxClockInfo(self, handle: str, which: int) -> int:
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetSupportedGraphicsClocks(self, handle: str, memory: int) -> list[int]:
        return list(range(1980, 344, -15))

    def nvmlDeviceSetGpuLockedClocks(self, handle: str, low: int, high: int) -> None:
        if low == _TDP and not self.knows_base:
            raise NVMLError("INVALID_ARGUMENT")
        self._set("nvmlDeviceSetGpuLockedClocks", "sm", "base" if low == _TDP else low)

    def nvmlDeviceResetGpuLockedClocks(self, handle: str) -> None:
        self._set("nvmlDeviceResetGpuLockedClocks", "sm", None)

    def nvmlDeviceSetMemoryLockedClocks(self, handle: str, low: int, high: int) -> None:
        self._set("nvmlDeviceSetMemoryLockedClocks", "memory", low)

    def nvmlDeviceResetMemoryLockedClocks(self, handle: str) -> None:
        self._set("nvmlDeviceResetMemoryLockedClocks", "memory", None)
