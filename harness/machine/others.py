"""How much of the processors others take: whatever runs beside a grading on a CPU makes its calls longer.

A time that was measured beside such work is longer than the call's own by a factor that nobody knows: two threads of
which one waits for a processor can take fifty times as long as two that both have one. So it is told, and how sure the
time is can't be.
"""

from __future__ import annotations

import contextlib
import os
import time

import psutil


class Others:
    """Counts from when it is made. Work of this process and of all that it started is not others'."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy_s, self._ours_s = _busy_s(), _ours_s()

    def share(self) -> float:
        """Of the time of all processors that this process may use, the share that others took: 0 to 1."""
        whole_s = (time.monotonic() - self._began) * len(os.sched_getaffinity(0))
        others_s = (_busy_s() - self._busy_s) - (_ours_s() - self._ours_s)
        return min(1.0, max(0.0, others_s / whole_s)) if whole_s > 0 else 0.0


def _busy_s() -> float:
    usable = os.sched_getaffinity(0)
    cpus = [times for cpu, times in enumerate(psutil.cpu_times(percpu=True)) if cpu in usable]
    return float(sum(times.user + times.nice + times.system + times.irq + times.softirq for times in cpus))


def _ours_s() -> float:
    """Of this process and its descendants, those included that have ended and were waited for."""
    own, total = psutil.Process(), 0.0
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
