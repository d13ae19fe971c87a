"""Workers that are ready before there is work: a grading takes them, uses them once, and others take their place.

    start in the sandbox -> torch imported -> context made on the device -> idle ... taken: a submission, then destroyed

A prepared worker knows nothing: its window, its orders' tickets, the keys and the seeds are made when it is used, and
it has seen no byte of a problem or a submission. What is prepared:

- starts only while nobody grades on the device, in this process or another (the device's lock is free at that moment),
  and never while a grading of this process runs. Without contexts, where several processes take turns on a device: when
  a grading asks for the first of them, so that all import torch while it waits for its turn;
- makes its context with the device's lock held, so in nobody's measurement. How much of the device's memory it then
  holds is noted, for the look at what a grading leaves behind (clock/health.py), and it is on the list of those that
  are idle (idle.py) until it gets its submission, which it does under the lock as well;
- is replaced when it has died or is minutes old, and looked at once more when it is taken.

Needs no torch to be imported: `EarlyWorkers` is for a grader that has not imported its own yet.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from harness import sandbox as sandboxes
from harness.machine.idle import Entry
from harness.machine.locks import DeviceBusy, DeviceLock
from harness.workers.process import Terms, WorkerProcess

if TYPE_CHECKING:
    from harness.clock.health import DeviceProbe
    from harness.machine.device import Device
    from harness.machine.place import Place
    from harness.sandbox import Sandbox
    from harness.workers.worker import Worker

STALE_S = 600.0
"""After so long one that nobody took is replaced."""
FURTHER = 3
"""Processes of a submission that are timed besides the first, where a call is short; only GPUs have calls so short. On
an H200 a process makes up to 1.5 % of 5 us (standard deviation), so that the mean of four is good for 0.8 %."""
_COUNTS = {"cpu": 2, "cuda": 2 + FURTHER}
"""What a grading takes with one baseline."""
_LOOK_EVERY_S = 1.0
_LOCK_EVERY_S = 0.2
_RETRY_S = (1.0, 5.0, 30.0, 120.0)
"""Waits after the first, second, ... failure in a row."""
_HELLO_EVERY_S = 0.05
_TOUCH_S = 20.0
"""For the context of a process that was started early: the grader may have to wait for it."""
_PATIENCE_S = 300.0
"""For all answers of a worker until it is taken."""


class Supply(Protocol):
    """Where a grading gets workers that were started before it."""

    def in_use(self) -> contextlib.AbstractContextManager[None]:
        """Around a grading: nothing is started meanwhile."""

    def take(self, terms: Terms, count: int) -> list[WorkerProcess]:
        """Up to `count` on these terms, the caller's from now on. What is missing it starts itself."""

    def leave(self, terms: Terms) -> list[WorkerProcess]:
        """What is left for no other grading, on these terms, the caller's from now on."""


class PreparedWorkers:
    """Workers for one device. A context manager: leaving it ends them."""

    def __init__(
        self,
        device: Device,
        sandbox: Sandbox,
        *,
        count: int | None = None,
        contexts: bool = True,
        once: bool = False,
        stale_s: float = STALE_S,
        rehearse: Callable[[Device], None] | None = None,
    ) -> None:
        """`count`: as many as a grading takes: one for each baseline, and on a GPU four for a candidate.

        Without `contexts` only torch is imported ahead: for a device that several processes take turns on, whose
        submissions are imported while another one has it. `once`: for a process that ends after its first grading.
        `rehearse`: called once with a GPU, its lock held, when this process's own context on it was made.
        """
        self._device, self._contexts, self._once, self._stale_s = device, contexts, once, stale_s
        self._terms = Terms(sandbox, device.place, None)
        self._rehearse = rehearse
        self._slots = [_Slot() for _ in range(count or _COUNTS[device.kind])]
        self._changing = threading.Lock()
        self._opening = threading.Lock()
        """Held while a context is made: the device's lock does not tell our own threads apart."""
        self._own: _OwnContext | None = None
        self._in_use = self._closed = False
        self._failures, self._not_before = 0, 0.0
        self._wake = threading.Event()
        self._tending = threading.Thread(target=self._tend, name="prepared", daemon=True)
        self._tending.start()

    def __enter__(self) -> PreparedWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """Process ids of all that waits here or is on its way."""
        with self._changing:
            processes = [slot.process for slot in self._slots]
        return [pid for process in processes if process is not None for pid in process.sandboxed.pids()]

    def wait(self, timeout_s: float) -> bool:
        """Until all are ready; False after `timeout_s` seconds without that."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with self._changing:
                if all(slot.settled and slot.ready(self._contexts) and not slot.taken for slot in self._slots):
                    return True
            time.sleep(0.02)
        return False

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Around a grading: nothing is started meanwhile, and what was taken is made up for afterwards."""
        if not self._contexts:
            self._replace()  # the next grading may follow the one before at once
        with self._changing:
            self._in_use = True
        if self._own is not None:
            self._own.has_work()
        try:
            yield
        finally:
            with self._changing:
                self._in_use = self._once
            if self._own is not None and not self._once:
                self._own.is_idle()
            self._wake.set()

    def take(self, terms: Terms, count: int) -> list[WorkerProcess]:
        """Up to `count` on these terms; those on their way are waited for. What does not fit is thrown away."""
        if terms.place != self._terms.place or type(terms.sandbox) is not type(self._terms.sandbox):
            return []
        # The next grading most likely asks for the same.
        self._terms = terms
        with self._changing:
            # Those first that nobody has to wait for.
            slots = sorted(self._slots, key=lambda slot: not slot.ready(self._contexts))
            slots = [slot for slot in slots if not slot.taken and slot.preparing is not None]
            for slot in slots:
                slot.taken = True
            # Where others have the device in turn it is never quiet, and what is needed later imports torch meanwhile.
            for slot in slots[:count] if self._contexts else slots:
                slot.wanted.set()
        # One that is still importing torch, and is not needed, must not do so beside this grading.
        for slot in slots[count:]:
            if slot.ready(self._contexts) or not self._contexts:
                slot.taken = False
            else:
                slot.end()
        return [process for slot in slots[:count] if (process := self._taken_from(slot, terms)) is not None]

    def leave(self, _terms: Terms) -> list[WorkerProcess]:
        """Nothing: what this grading does not take waits for the next."""
        return []

    def _taken_from(self, slot: _Slot, terms: Terms) -> WorkerProcess | None:
        """Its process, if that can be used."""
        assert slot.preparing is not None
        slot.preparing.join()
        process, slot.process = slot.process, None
        if process is None:
            return None
        if process.alive and process.fits(terms) and self._fresh(process) and self._still_works(process):
            return process
        process.close()
        return None

    def close(self) -> None:
        """End all that is prepared or on its way."""
        with self._changing:
            self._closed = True
            slots = list(self._slots)
        self._wake.set()
        self._tending.join()
        for slot in slots:
            slot.end()
        if self._own is not None:
            self._own.close()

    def _tend(self) -> None:
        """In a thread: look after the slots until closed."""
        while not self._closed:
            self._replace()
            self._wake.wait(_LOOK_EVERY_S)
            self._wake.clear()

    def _replace(self) -> None:
        """Between gradings, begin to prepare others for what was taken, has died or is old, and end those."""
        with self._changing:
            due = not self._in_use and not self._closed and time.monotonic() >= self._not_before
            slots = [slot for slot in self._slots if due and not self._good(slot)]
            for slot in slots:
                self._slots[self._slots.index(slot)] = fresh = _Slot()
                fresh.preparing = threading.Thread(
                    target=self._prepare, args=(fresh, self._terms), name="preparing", daemon=True
                )
                fresh.preparing.start()
        for slot in slots:
            slot.end()

    def _good(self, slot: _Slot) -> bool:
        """Whether what is in a slot can stay there."""
        if slot.taken or slot.preparing is None:
            return False
        if slot.preparing.is_alive():
            return True
        return slot.process is not None and slot.process.alive and self._fresh(slot.process)

    def _fresh(self, process: WorkerProcess) -> bool:
        return time.monotonic() - process.started < self._stale_s

    def _prepare(self, slot: _Slot, terms: Terms) -> None:
        """In a thread of the slot's: bring it as far as it goes before there is work."""
        from harness.machine.device import DeviceError
        from harness.sandbox import SandboxError
        from harness.workers.worker import WorkerFailure

        try:
            self._wait_for_quiet(slot)
            if self._closed or slot.ended:
                return
            slot.process = WorkerProcess.start(terms)
            worker = self._worker(slot.process)
            if self._closed or slot.ended:
                raise SandboxError("nobody wants it any more")
            worker.wait_ready()
            while self._contexts and not slot.process.opened and not slot.wanted.is_set():
                self._open(slot.process, worker)
                slot.wanted.wait(0.0 if slot.process.opened else _LOCK_EVERY_S)
            self._failures = 0
        except (SandboxError, WorkerFailure, DeviceError, RuntimeError, OSError):
            # A grading that starts its own will say what is the matter.
            if slot.process is not None:
                slot.process.close()
                slot.process = None
            self._not_before = time.monotonic() + _RETRY_S[min(self._failures, len(_RETRY_S) - 1)]
            self._failures += 1

    def _wait_for_quiet(self, slot: _Slot) -> None:
        """Until nobody has the device, or this one is needed anyway."""
        while not slot.wanted.is_set():
            if not self._in_use:
                with contextlib.suppress(DeviceBusy), self._lock().held():
                    return
            slot.wanted.wait(_LOCK_EVERY_S)

    def _open(self, process: WorkerProcess, worker: Worker) -> None:
        """Make the context, unless somebody has the device."""
        with self._opening, contextlib.suppress(DeviceBusy), self._lock().held():
            worker.stopwatch()
            if self._device.kind == "cpu":
                worker.open_device()
                process.is_idle(None)
                return
            if self._own is None:
                if any(slot.importing for slot in self._slots):
                    return  # it measures the device, the first time: not beside that
                self._own = _OwnContext(self._device, self._terms.sandbox)
                if self._rehearse is not None:
                    self._rehearse(self._device)
            before = self._own.memory_used()
            worker.open_device()
            worker.rehearse()
            after = self._own.memory_used()
            process.device_bytes = 0 if before is None or after is None else max(0, after - before)
            process.is_idle(self._device.lock_name)

    def _lock(self) -> DeviceLock:
        return DeviceLock(self._device.lock_name, wait=False)

    def _worker(self, process: WorkerProcess) -> Worker:
        """For as long as it has no submission."""
        from harness.clock.cold import flush_bytes
        from harness.workers.worker import Worker, refuse_to_build

        return Worker(
            process,
            self._device,
            flush_bytes=flush_bytes(self._device),
            patience_s=_PATIENCE_S,
            on_build=refuse_to_build,
        )

    def _still_works(self, process: WorkerProcess) -> bool:
        """Whether it answers, and its context, if it has one, is not lost."""
        from harness.workers.worker import WorkerFailure

        if not process.opened:
            return process.hello
        try:
            self._worker(process).look()
        except WorkerFailure:
            return False
        return True


class _Slot:
    """The place of one worker."""

    def __init__(self) -> None:
        self.preparing: threading.Thread | None = None
        self.process: WorkerProcess | None = None
        self.wanted = threading.Event()
        """Somebody waits for it: what is not needed before it gets work is left to him."""
        self.taken = self.ended = False

    def ready(self, contexts: bool) -> bool:
        """Whether it has come as far as it can, and is nobody's yet."""
        process = self.process
        return process is not None and process.hello and (process.opened or not contexts)

    @property
    def settled(self) -> bool:
        """Whether nothing is done to it any more: it is on the list of those that are idle as well."""
        return self.preparing is not None and not self.preparing.is_alive()

    @property
    def importing(self) -> bool:
        """Whether it is being started."""
        at_work = self.preparing is not None and self.preparing.is_alive()
        return at_work and (self.process is None or not self.process.hello)

    def end(self) -> None:
        """End what is in it, if it is nobody else's."""
        self.ended = True
        self.wanted.set()
        if self.process is not None:
            self.process.sandboxed.kill()  # ends the wait for its answer as well
        if self.preparing is not None:
            self.preparing.join()
        if self.process is not None:
            self.process.close()
            self.process = None


class _OwnContext:
    """This process's own context on a GPU, for expected outputs, made ahead as well; and what the device tells."""

    def __init__(self, device: Device, sandbox: Sandbox) -> None:
        import torch

        from harness.clock.health import DeviceProbe
        from harness.clock.peaks import load_or_measure
        from harness.clock.readings import source_of

        self._device = device
        self._entry: Entry | None = None
        self._source = contextlib.ExitStack()
        place = torch.device(device.torch_name)
        source = self._source.enter_context(source_of(device.kind, device.uuid))
        self._probe: DeviceProbe = DeviceProbe(place, source)
        self._probe.kernel()
        # Once for a device, and kept: no grading has to wait for it.
        load_or_measure(device, sandbox)
        self.is_idle()

    def close(self) -> None:
        """Ask the device no more."""
        self.has_work()
        self._source.close()

    def memory_used(self) -> int | None:
        """Bytes of the device's memory, by everybody."""
        return self._probe.reading().memory_used_bytes

    def is_idle(self) -> None:
        """There is nothing to grade."""
        self._entry = self._entry or Entry(self._device.lock_name, [os.getpid()])

    def has_work(self) -> None:
        """There is."""
        if self._entry is not None:
            self._entry.close()
            self._entry = None


class EarlyWorkers:
    """Processes that are started while the grader still imports torch, and make their contexts on a GPU meanwhile.

    None is replaced; leaving ends the rest.
    """

    def __init__(self, sandbox: str | None, place: Place) -> None:
        """In the sandbox of that name, or the best there is; which is found out at once."""
        self._starting = ThreadPoolExecutor(thread_name_prefix="starting")
        self._place = place
        self._sandbox = self._starting.submit(_sandbox, sandbox)
        self._started: list[Future[WorkerProcess]] = []
        self._touching = threading.Lock()
        self._wanted = False
        """The grader asks for them: from here on he has the device's lock, and says what is made."""
        self._touched: dict[WorkerProcess, Future[None]] = {}

    def start(self, memory_gb: float | None, count: int) -> None:
        """So many; does not wait for them."""
        self._started += [self._starting.submit(self._start, memory_gb) for _ in range(count)]

    def __enter__(self) -> EarlyWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self._ask()
        for started in self._started:
            with contextlib.suppress(Exception):
                started.result().close()
        self._starting.shutdown()

    def in_use(self) -> contextlib.AbstractContextManager[None]:
        """Nothing to hold back."""
        return contextlib.nullcontext()

    def take(self, terms: Terms, count: int) -> list[WorkerProcess]:
        """Up to `count` of them, as far as they fit."""
        self._ask()
        taken: list[WorkerProcess] = []
        while self._started and len(taken) < count:
            # What could not be started is started again by whoever needs it, who then says why it can't be.
            with contextlib.suppress(Exception):
                process = self._started.pop(0).result()
                if (touched := self._touched.pop(process, None)) is not None:
                    touched.result()
                if process.alive and process.fits(terms):
                    taken.append(process)
                else:
                    process.close()
        return taken

    def leave(self, terms: Terms) -> list[WorkerProcess]:
        """All the others: there is one grading."""
        return self.take(terms, len(self._started))

    def _start(self, memory_gb: float | None) -> WorkerProcess:
        process = WorkerProcess.start(Terms(self._sandbox.result(), self._place, memory_gb))
        if self._place.kind == "cuda" and self._place.uuid is not None:
            self._touched[process] = self._starting.submit(self._touch, process, self._place.uuid)
        return process

    def _ask(self) -> None:
        """Have no further contexts made, and wait for the one that is under way."""
        self._wanted = True
        with self._touching:
            pass

    def _touch(self, process: WorkerProcess, lock_name: str) -> None:
        """Have it make its context, unless the grader asks for it first, or somebody has the device."""
        from harness.clock.readings import source_of

        try:
            while not self._wanted and process.alive:
                if select.select([process.channel.fileno()], [], [], _HELLO_EVERY_S)[0]:
                    break
            with self._touching:
                if self._wanted or not process.alive:
                    return
                process.greet(_TOUCH_S)
                with DeviceLock(lock_name, wait=False).held(), source_of("cuda", lock_name) as source:
                    before = source.full().memory_used_bytes or 0
                    process.touch("cuda:0", _TOUCH_S)  # its environment shows it no other
                    process.device_bytes = max(0, (source.full().memory_used_bytes or 0) - before)
                    process.is_idle(lock_name)
        except DeviceBusy:
            pass
        except Exception:  # noqa: BLE001 - whatever it is, it must not be handed to anybody
            # The grader starts another one, and is told what is the matter.
            process.close()


def _sandbox(name: str | None) -> Sandbox:
    found = sandboxes.by_name(name) if name else sandboxes.default()
    # What it can do here is tried out the first time, which takes longer than reading a problem.
    found.degraded()
    return found
