"""The workers of a grading: prepared ones where there are any, else started now."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from harness.clock.cold import flush_bytes
from harness.grading.builds import Builds
from harness.load.problem import Workload
from harness.load.spec import Limits
from harness.machine.device import Device
from harness.sandbox import Sandbox
from harness.workers.prepared import Supply
from harness.workers.process import Terms, WorkerProcess, Wrapper
from harness.workers.worker import Worker

_START_S = 120.0
_CALLS_BESIDE = 10
"""Calls besides the trials that may each take all of their time before the whole takes too long."""


class Crew:
    """Starts workers on one grading's terms. What it gives ends with the stack that it was made for."""

    def __init__(
        self,
        sandbox: Sandbox,
        device: Device,
        limits: Limits,
        workloads: Sequence[Workload],
        builds: Builds,
        prepared: Supply | None,
        stack: contextlib.ExitStack,
    ) -> None:
        """`workloads` are those that are timed one after another."""
        self._device, self._builds, self._prepared, self._stack = device, builds, prepared, stack
        self._terms = Terms(sandbox, device.place, limits.memory_gb)
        self._spare: list[Worker] = []
        calls = sum(workload.trials + _CALLS_BESIDE for workload in workloads)
        timed_s = len(workloads) * limits.time_s
        self._patience_s = _START_S + limits.import_s + 4 * limits.construct_s + calls * limits.call_s + timed_s

    def workers(self, count: int) -> list[Worker]:
        """So many, starting or ready."""
        return [self._stack.enter_context(self._worker(process)) for process in self._processes(count)]

    def further(self, count: int) -> list[Worker]:
        """So many more for the submission, starting or ready; what they want built the first had built."""
        usable = [worker for worker in self._spare if worker.process.alive]
        spare, self._spare = usable[:count], usable[count:]
        return spare + self._further(self._processes(count - len(spare)))

    def spare(self) -> list[Worker]:
        """Workers that were started and not asked for yet, and that no other grading will want: to be made as ready as
        they can be without the submission. `further` gives them first."""
        left = [] if self._prepared is None else self._prepared.leave(self._terms)
        for process in left:
            self._stack.callback(process.close)
        self._spare = self._further(left)
        return list(self._spare)

    def _further(self, processes: Sequence[WorkerProcess]) -> list[Worker]:
        return [self._stack.enter_context(self._worker(process, again=True)) for process in processes]

    def wrapped(self, wrapper: Wrapper) -> Worker:
        """One more for the submission, under a program, and nothing of ours beside it on the device."""
        process = WorkerProcess(self._terms, memory_bytes=self._terms.memory_bytes(), wrapper=wrapper)
        return self._worker(process, alone=True)

    def _processes(self, count: int) -> list[WorkerProcess]:
        found = [] if self._prepared is None else self._prepared.take(self._terms, count)
        for process in found:
            self._stack.callback(process.close)
        while len(found) < count:
            found.append(self._started())
        return found

    def _started(self) -> WorkerProcess:
        process = WorkerProcess.start(self._terms)
        self._stack.callback(process.close)
        return process

    def _worker(self, process: WorkerProcess, *, alone: bool = False, again: bool = False) -> Worker:
        return Worker(
            process,
            self._device,
            flush_bytes=0 if alone else flush_bytes(self._device),
            patience_s=self._patience_s,
            on_build=self._builds.again if alone or again else self._builds.answer,
            share_device=not alone,
        )
