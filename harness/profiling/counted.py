"""One call under Nsight Compute, in a worker of its own: its launches with their counters, or why there are none.

The worker starts while the submission is still being checked, since importing torch is most of what it takes. The
device's lock is held by the grading meanwhile, and nothing is timed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from harness.check.oracle import Oracle
from harness.check.parameters import construct_both
from harness.load.program import Program
from harness.load.spec import Limits
from harness.machine.device import Device, DeviceError
from harness.profiling import ncu
from harness.profiling.metrics import METRICS
from harness.profiling.rawpage import CountedLaunch, launches
from harness.profiling.result import CounterSource
from harness.sandbox import SandboxError
from harness.seeds import Seeds
from harness.workers.process import Wrapper
from harness.workers.worker import MAIN, Worker, WorkerFailure

Start = Callable[[Wrapper], Worker]
Count = Callable[[Oracle], "Counted"]
_COUNT_S, _COUNT_MOST_S = 45.0, 180.0
"""For the call under ncu: so much and ten times what a call may take, and at most; launches are run again and again."""
_LEAVE_S = 20.0
"""For the process to end, and ncu to write its page."""
_NO_NCU = "Nsight Compute was not found on PATH or in CUDA_HOME: it comes with the CUDA toolkit, as `ncu`."


@dataclass(frozen=True)
class Counted:
    """What came of it."""

    source: CounterSource
    launches: list[CountedLaunch]


@dataclass(frozen=True)
class Subject:
    """What the worker is to run."""

    program: Program
    seeds: Seeds
    limits: Limits
    sandbox: str
    """The name of the sandbox."""


def call_once(worker: Worker, subject: Subject, oracle: Oracle) -> None:
    """Bring a fresh worker to its marked call. Raises WorkerFailure."""
    limits = subject.limits
    worker.wait_ready()
    worker.open_device()
    worker.import_program(subject.program, limits.import_s)
    seed = subject.seeds.parameters()
    construct_both(worker, oracle, seed=seed, limit_s=limits.construct_s, model=MAIN)
    worker.put("counted", tuple(oracle.inputs(subject.seeds.of("profile inputs", 0))))
    worker.counted("counted", min(_COUNT_MOST_S, _COUNT_S + 10 * limits.call_s))


class Counter:
    """A worker with ncu around it, started ahead. A context manager."""

    def __init__(self, tool: ncu.Ncu, start: Start, metrics: Sequence[str] = ()) -> None:
        self._stack = contextlib.ExitStack()
        self._tool, self._start = tool, start
        self._page = self._stack.enter_context(ncu.page())
        try:
            self._worker = self._stack.enter_context(start(self._page.wrapper(tool, ncu.reading(metrics))))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def torch_device(self) -> torch.device:
        """Where the worker's tensors are."""
        return self._worker.torch_device

    def count(self, subject: Subject, oracle: Oracle) -> Counted:
        """Have one call counted."""
        failed = ""
        try:
            call_once(self._worker, subject, oracle)
        except WorkerFailure as failure:
            failed = f"{failure.phase}: {failure.message}"
        # Only at the end of the process does ncu tell what it has read, also of a call that failed.
        with contextlib.suppress(WorkerFailure):
            self._worker.leave(_LEAVE_S)
        page, log = self._page.text(), self._worker.log
        self._stack.close()  # what it holds of the device is free again before the grading looks
        said = f"{page}\n{log}"
        found = launches(page) or launches(log)
        if found:
            return Counted(self._source(len(found), failed), found)
        unknown = ncu.unknown_metrics(said)
        if unknown and len(unknown) < len(METRICS):
            known = [metric for metric in METRICS.values() if metric not in unknown]
            with Counter(self._tool, self._start, known) as again:
                return again.count(subject, oracle)
        why = ncu.why_nothing(said, subject.sandbox)
        if failed and "it printed no launch" in why:
            why = f"The submission under Nsight Compute failed in {failed[:300]}."
        return Counted(CounterSource(read=False, tool=self._tool.title, why_not=why), [])

    def _source(self, count: int, failed: str) -> CounterSource:
        why = ""
        if count >= ncu.LAUNCHES_MAX:
            why = f"Only the first {ncu.LAUNCHES_MAX} launches of the call were counted; each is run many times for it."
        elif failed:
            why = f"The call did not end under Nsight Compute ({failed[:200]}): what it had read by then is shown."
        return CounterSource(read=True, tool=self._tool.title, launches=count, why_not=why)


def check_counters(device: Device) -> None:
    """Raises DeviceError where counters can't be read for sure, because the device has none or there is no ncu."""
    if device.kind != "cuda":
        raise DeviceError("Nsight Compute reads a GPU's counters, and this is a CPU; leave --ncu out.")
    if ncu.find() is None:
        raise DeviceError(f"{_NO_NCU} Without --ncu the tracer shows what it can.")


def nothing(why: str) -> Count:
    """For when there is no ncu to run."""
    return lambda _: Counted(CounterSource(read=False, why_not=why), [])


@contextlib.contextmanager
def counting(start: Start, subject: Subject, *, wanted: bool) -> Iterator[Count]:
    """What has a call counted, with its worker started now; or what says that there is no Nsight Compute."""
    tool = ncu.find() if wanted else None
    if tool is None:
        yield nothing(_NO_NCU if wanted else "Only the tracer was asked for.")
        return
    try:
        counter = Counter(tool, start)
    except SandboxError as error:
        yield nothing(f"{tool.title} can't run in the sandbox: {error}")
        return
    with counter:
        yield lambda oracle: counter.count(subject, oracle)
