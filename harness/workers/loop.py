"""What a worker's clock is told to run, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from harness.wire.transfer import TensorSpec

Caches = Literal["cold", "warm", "left"]
"""Emptied before each call; each call made twice, the second one timed; as they are, so that what our own clock sees is
the call and next to nothing around it."""


@dataclass(frozen=True)
class Loop:
    """What the worker's clock is to run."""

    turns: int
    """How many."""
    kind: Literal["calls", "empty", "null", "probe"] = "calls"
    """Calls on `inputs`; turns without a call; turns with the smallest kernel there is; or with one that makes
    tensors of `specs`."""
    inputs: str = ""
    """A value that was put: a tuple of `turns` tuples of arguments."""
    seeds: tuple[int, ...] = ()
    """One a turn where random numbers matter, else none."""
    specs: tuple[TensorSpec, ...] = ()
    """What a call returns: the memory that it may land in is poisoned before the loop."""
    mode: Literal["device", "host"] = "device"
    """Events behind queued work, for which a GPU is held; or the host's clock around call and wait."""
    caches: Caches = "cold"
    """What is done about them before each call."""
    sealed: bool = False
    """Whether the answer has to carry a seal on all outputs; see digest.py."""
    restore_buffers: bool = False
    """Whether the model's buffers are set back first."""
    marked: int = 0
    """Turns before the first of two marks on the stopwatch's page; the second follows the last turn. 0: no marks."""

    def order(self) -> dict[str, Any]:
        """As it travels."""
        return {**vars(self), "specs": [spec.to_json() for spec in self.specs]}


@dataclass(frozen=True)
class Ran:
    """A loop that has ended."""

    wall_s: float
    """Seconds by our own clock, from the order to the answer. Of a device that was held they begin with its release,
    and of a sealed call that is alone they end then with the hash of its output."""
    span_s: float
    """The same from one mark to the other; 0 where there are none."""
    seal: str
    """On its outputs; see digest.py."""
    early: bool = False
    """Whether it was said to have ended before its device had come to the marks, or to the output that was sealed."""
    ahead: bool = True
    """Whether the host of a device that was held was ahead when that was let go: else it may have been waited for."""
    held_s: float = 0.0
    """Seconds for which a device was held: what the host took to queue the calls, by our own clock."""
