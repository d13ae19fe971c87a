"""Whose fault it is when a device, or this machine, has no memory left.

Nothing caps what one process takes of a GPU's memory, and the limits of all processes together are more of the host's
than there is. So where the grader or the reference finds none, the submission's process is ended, and what comes free
with it is what it held.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from harness.machine.lacking import chain
from harness.machine.spare import spare_memory
from harness.sandbox import Limit
from harness.workers.worker import WorkerFailure

_MOST = 0.5
"""Share of the memory that was free at the start: a grading holds inputs and outputs three times, for the submission,
the reference and itself."""


_HOST_TEXTS = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory")


@dataclass
class Memory:
    """One memory, as a grading finds it."""

    whose: Literal["device", "machine"]
    free_bytes: Callable[[], int]
    """Asks for it now."""
    free_at_first: int = 0
    """Bytes that were free before the grading."""

    @classmethod
    def of_device(cls, device: torch.device) -> Memory | None:
        """Of a GPU as it is now; None for a CPU."""
        if device.type != "cuda":
            return None

        def free_bytes() -> int:
            torch.cuda.empty_cache()
            return torch.cuda.mem_get_info(device)[0]

        return cls("device", free_bytes, free_bytes())

    @classmethod
    def of_machine(cls) -> Memory:
        """What this machine can spare as it is now."""
        return cls("machine", spare_memory, spare_memory())

    def hoarded(self, end: Callable[[], object]) -> WorkerFailure | None:
        """End the submission's process by `end`. The failure that it is if it held too much."""
        before = self.free_bytes()
        end()
        held = self.free_bytes() - before
        if held <= _MOST * self.free_at_first:
            return None
        message = (
            f"the submission held {held / 1e9:.1f} GB of the {self.whose}'s memory, of which "
            f"{self.free_at_first / 1e9:.1f} GB were free, and nothing was left for the reference and for comparing"
        )
        return WorkerFailure("hoarded" if self.whose == "device" else "hoarded_host", "call", message)


def lacks_host_memory(error: BaseException) -> bool:
    """Whether this, or what it came from, says that this machine has no memory left, or that the kernel ended a process
    of ours as it does then."""
    for each in chain(error):
        if isinstance(each, MemoryError) or any(text in str(each) for text in _HOST_TEXTS):
            return True
        if isinstance(each, OSError) and each.errno == errno.ENOMEM:
            return True
        if isinstance(each, WorkerFailure):
            if each.failed is not None and each.failed.category == "host_memory":
                return True
            ended = each.exit
            if ended is not None and (
                ended.limit is Limit.MEMORY or ended.signal == signal.SIGKILL or ended.code == 128 + signal.SIGKILL
            ):
                return True
    return False
