"""Whose fault it is when a device has no memory left.

Nothing caps what one process takes of a GPU's memory. So where the grader or the reference finds none, the submission's
process is ended, and what comes free with it is what it held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

_MOST = 0.5
"""Share of the device's memory that was free at the start: a grading holds inputs and outputs three times, for the
submission, the reference and itself."""


_TEXTS = ("CUDA out of memory", "CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")
"""How torch, the runtime, the driver and a library say it."""


@dataclass
class DeviceMemory:
    """The memory of one device, as a grading finds it."""

    free_bytes: Callable[[], int]
    """Asks the device."""
    free_at_first: int = 0
    """Bytes that were free before the grading."""

    @classmethod
    def of(cls, device: torch.device) -> DeviceMemory | None:
        """Of a GPU as it is now. None for a CPU: there the sandbox has a limit."""
        if device.type != "cuda":
            return None

        def free_bytes() -> int:
            torch.cuda.empty_cache()
            return torch.cuda.mem_get_info(device)[0]

        return cls(free_bytes, free_bytes())

    def hoarded(self, end: Callable[[], object]) -> str:
        """End the submission's process by `end`. Says what it held if that was too much, else nothing."""
        before = self.free_bytes()
        end()
        held = self.free_bytes() - before
        if held <= _MOST * self.free_at_first:
            return ""
        return (
            f"the submission held {held / 1e9:.1f} GB of the device's memory, of which {self.free_at_first / 1e9:.1f} "
            "GB were free, and nothing was left for the reference and for comparing"
        )


def lacks_device_memory(error: BaseException) -> bool:
    """Whether this, or what it came from, says that a device has no memory left."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, torch.OutOfMemoryError) or any(text in str(seen) for text in _TEXTS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
