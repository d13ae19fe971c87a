"""Whether the device was the same while blocks were measured; those during which it was not are measured again.

    readings before, during and after a block  --Watch-->  what the block saw  --judge_block-->  steady, or why not

A GPU that waits clocks itself down (an H200 from 1980 MHz to 345 MHz), and between calls and blocks it waits. So the
clock of a block is the highest that was read during it, of the readings at which the device did not call itself idle.
A clock that falls within a block and comes back is seen by what made it fall: the throttle reasons of all readings.

What is not unsteady: the power cap alone (`sw_power_cap`), and clocks that move under it. A kernel that draws more than
the board may is slowed down each time it runs, so that is its speed, and measuring again would change nothing; how much
the clock moves then is in the interval. Nor are blocks on a CPU judged: it is
shared by its nature, and its load average lags. What others took of it altogether decides whether an interval can be
given (machine/others.py).
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from harness.clock.plan import Side
from harness.clock.readings import Process, Reading, Source
from harness.report import Steadiness

CLOCK_SHARE = 0.02
"""By how much of the median a block's clock may differ: a step of an H200's clock is 15 MHz, 0.8 %."""

_NOT_STEADY = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake")
_CAPPED = "sw_power_cap"
_IDLE = "gpu_idle"
_PERIOD_S = 0.05
_COST_SHARE = 0.01
"""Of the time, at most, that reading may take while a block runs."""
_FULL_EVERY_S = 0.5
"""Between readings of everything."""


@dataclass(frozen=True)
class Unsteady:
    """Why a block does not count."""

    code: str
    """throttled, sm_clock, memory_clock or other_process."""
    message: str
    """What was seen, to stand after a colon."""


def merged(readings: Sequence[Reading]) -> Reading:
    """What a block saw: the highest figures at work, every throttle reason, every other process."""
    at_work = [reading for reading in readings if _IDLE not in reading.throttle]
    return Reading(
        sm_clock_mhz=_highest(reading.sm_clock_mhz for reading in at_work),
        memory_clock_mhz=_highest(reading.memory_clock_mhz for reading in at_work),
        temperature_c=_highest(reading.temperature_c for reading in readings),
        power_w=_highest(reading.power_w for reading in readings),
        throttle=tuple(dict.fromkeys(name for reading in readings for name in reading.throttle)),
        other_processes=tuple(dict.fromkeys(found for reading in readings for found in reading.other_processes)),
        utilisation=_highest(reading.utilisation for reading in readings),
        memory_used_bytes=max((reading.memory_used_bytes or 0 for reading in readings), default=0) or None,
    )


def judge_block(
    seen: Reading, history: Sequence[Reading], known: Collection[Process] = (), *, clock_share: float = CLOCK_SHARE
) -> Unsteady | None:
    """Whether a block counts: `seen` is what it saw, `history` what the steady blocks of the same side saw.

    Of the same side, because two kernels that draw different power run at different clocks. `known` are processes that
    were there before; one that came since is work that nobody asked for.
    """
    if slowed := [name for name in seen.throttle if name in _NOT_STEADY]:
        return Unsteady("throttled", f"the device slowed itself down ({', '.join(slowed)})")
    if came := [process for process in seen.other_processes if process not in known]:
        return Unsteady("other_process", f"{', '.join(map(str, came))} came onto the device")
    moved = _moved(seen.memory_clock_mhz, [each.memory_clock_mhz for each in history], clock_share)
    if moved is not None:
        return Unsteady("memory_clock", f"the memory clock was {moved}")
    if _CAPPED in seen.throttle or any(_CAPPED in each.throttle for each in history):
        return None
    moved = _moved(seen.sm_clock_mhz, [each.sm_clock_mhz for each in history], clock_share)
    return None if moved is None else Unsteady("sm_clock", f"the SM clock was {moved}")


def _moved(clock: float | None, before: Sequence[float | None], share: float) -> str | None:
    known = [each for each in before if each is not None]
    if clock is None or not known:
        return None
    usual = statistics.median(known)
    if abs(clock - usual) <= share * usual:
        return None
    return f"{clock:.0f} MHz, and {usual:.0f} MHz in the blocks before"


@dataclass
class Block:
    """What is read around and during one block."""

    readings: list[Reading] = field(default_factory=list)

    @property
    def seen(self) -> Reading:
        """All of it as one."""
        return merged(list(self.readings))


class Watch:
    """Reads a device around blocks and judges them. One for each timing stage, made when the workers have started."""

    def __init__(
        self, source: Source, *, judged: bool = True, clock_share: float = CLOCK_SHARE, period_s: float = _PERIOD_S
    ) -> None:
        """`judged` is False for a CPU, whose readings go to the report and decide nothing.

        While a block runs it is read every `period_s`, or more rarely where reading takes long.
        """
        self._source = source
        self._judged = judged
        self._clock_share = clock_share
        self._period_s = period_s
        self._known = frozenset(source.full().other_processes)
        self._full_at = 0.0
        self._steady: defaultdict[Side, list[Reading]] = defaultdict(list)
        self._all: list[Reading] = []
        self._unsteady: list[Unsteady] = []

    @contextlib.contextmanager
    def block(self) -> Iterator[Block]:
        """Watch what runs inside: a thread reads now and then, so rarely that it takes under 1 % of the time."""
        block, over = Block(), threading.Event()
        began = time.monotonic()
        block.readings.append(self._source.quick())
        # The cost is that of this reading; the thread only waits and asks, and NVML is asked outside of the GIL.
        pause_s = max(self._period_s, (time.monotonic() - began) / _COST_SHARE)

        def read_on() -> None:
            while not over.wait(pause_s):
                block.readings.append(self._reading())

        thread = threading.Thread(target=read_on, name="readings", daemon=True)
        thread.start()
        try:
            yield block
        finally:
            # A reading that is under way may come too late: it is not waited for.
            over.set()
            block.readings.append(self._reading())

    def _reading(self) -> Reading:
        """A full reading, which takes a tenth of a second, where the last one is some time ago."""
        if time.monotonic() - self._full_at < _FULL_EVERY_S:
            return self._source.quick()
        self._full_at = time.monotonic()
        return self._source.full()

    def judge(self, side: Side, block: Block) -> Unsteady | None:
        """Whether the block of `side` that just ended counts; None: it does."""
        seen = block.seen
        self._all.append(seen)
        found = None
        if self._judged:
            found = judge_block(seen, self._steady[side], self._known, clock_share=self._clock_share)
        if found is None:
            self._steady[side].append(seen)
        else:
            self._unsteady.append(found)
        return found

    def summary(self) -> Steadiness:
        """For the report: over all blocks, also those that don't count."""
        # Whoever was there before is named too: a reader may know what it did meanwhile.
        others = dict.fromkeys([*self._known, *(found for seen in self._all for found in seen.other_processes)])
        return Steadiness(
            blocks=sum(map(len, self._steady.values())),
            measured_again=len(self._unsteady),
            why=list(dict.fromkeys(found.message for found in self._unsteady)),
            sm_clock_mhz=_range(seen.sm_clock_mhz for seen in self._all),
            memory_clock_mhz=_range(seen.memory_clock_mhz for seen in self._all),
            temperature_c=_range(seen.temperature_c for seen in self._all),
            power_w=_range(seen.power_w for seen in self._all),
            throttle=sorted({name for seen in self._all for name in seen.throttle} - {_IDLE}),
            other_processes=[str(found) for found in others],
        )


def _highest(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _range(values: Iterator[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
