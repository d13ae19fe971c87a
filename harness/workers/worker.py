"""A worker as the grader sees it: orders go in, claims come out, and nothing it does can hold the grader up.

    wait_ready -> import_program -> open_device -> construct -> load_state -> (put -> call -> fetch -> drop)* -> close

Whatever goes wrong on the other side becomes a WorkerFailure with the phase in which it happened: an exception there, a
limit, a death, silence, or a broken protocol.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch

from harness.build.handout import sealed_copy
from harness.build.outcome import BuildOutcome
from harness.load.program import Program
from harness.machine.device import Device
from harness.machine.kernel_image import hasher_for, image_for, masker_for
from harness.sandbox import Exit, Limit
from harness.wire.digest import seal_of
from harness.wire.frames import PROTOCOL, Closed, Late, WireError
from harness.wire.hashing import Hasher
from harness.wire.mask import Masker
from harness.wire.stopwatch import Stopwatch
from harness.wire.transfer import ByteStream, TensorSpec, flat_bytes, offsets
from harness.wire.tree import take_apart
from harness.wire.window import HALF_MAX, Window, create
from harness.wire.window import Kind as WindowKind
from harness.workers import claims
from harness.workers.loop import Loop, Ran
from harness.workers.process import WorkerProcess

Kind = Literal["failed", "died", "late", "limit", "protocol", "hoarded", "hoarded_host"]
BuildHook = Callable[[dict[str, Any]], BuildOutcome]
_C = TypeVar("_C", bound=claims.Claim)

MAIN = "main"
"""The model of the workload that is graded; others are only checked."""

_START_S = 120.0
"""Importing torch from a cold disk can take a minute; it is not the submission's time."""
_TRANSFER_S = 60.0
"""For moving a value in or out, or forgetting it: gigabytes take a second."""
_REHEARSED = 8195, 8192
"""Elements of two tensors of float32 with which masks and digests take every step that they have."""
_HOLD_S, _HOLD_TURN_S = 0.02, 0.001
"""A device is held so long at most, and so much longer for each turn: a call that waits for the device itself can't be
queued."""
_LOOK_S = 10.0
_SEND_S = 30.0
_GRACE_S = 2.0
"""How long an end that explains a lost connection is waited for."""


def refuse_to_build(_: dict[str, Any]) -> BuildOutcome:
    """For a worker that has no submission."""
    raise AssertionError("a process without a submission asked for a build")


@dataclass(eq=False)
class WorkerFailure(Exception):
    """How a worker failed to carry out an order."""

    kind: Kind
    """failed: the submission raised or broke a rule; died: the process ended; late: no answer in time; limit: the
    sandbox ended it; protocol: what came was no answer; hoarded, hoarded_host: it left others no memory on
    the device, or on this machine."""
    phase: str
    """What it was asked to do: start, open, import, construct, load_state, put, call, fetch."""
    message: str
    """In words."""
    failed: claims.Failed | None = None
    exit: Exit | None = None
    limit_s: float | None = None

    def __str__(self) -> str:
        return f"{self.phase}: {self.message}"


@dataclass
class _Pending:
    """The order whose answer is awaited, and its time."""

    phase: str
    deadline: float
    limit_s: float


class Worker:
    """One sandboxed process with one submission. A context manager: leaving it destroys the process."""

    def __init__(
        self,
        process: WorkerProcess,
        device: Device,
        *,
        flush_bytes: int,
        patience_s: float,
        on_build: BuildHook,
        share_device: bool = True,
    ) -> None:
        """`process` ends with this. `patience_s`: seconds that all of its answers together may be waited for, building
        left out. Without `share_device` tensors go through the host's memory also on a GPU.
        """
        self.process = process
        self._channel = process.channel
        self._process = process.sandboxed
        self._device = device
        self.flush_bytes = flush_bytes
        """Written before each call of a loop, for caches to be cold."""
        self._on_build = on_build
        self._patience_s = patience_s
        self._waited_s = 0.0
        self._builds = 0
        self._tickets: deque[str] = deque()
        self._held, self._still = 0, False
        """How often it is held still now, and whether it is still: to let it go on and stop it again between two
        blocks takes a millisecond each time, in which it has nothing to do."""
        self._window: Window | None = None
        self._share_device = share_device and device.kind == "cuda"
        self.torch_device = torch.device(device.torch_name)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        """What the submission has printed, capped."""
        return self._process.output()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Hold the process still inside; it goes on with the next order."""
        if not self._still:
            self._still = True  # as far as it came, if it can't be stopped whole
            self._process.stop()
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def close(self) -> Exit:
        """Destroy the process and everything that it started."""
        ended = self.process.close()
        if self._window is not None:
            self._window.close()
            self._window = None
        return ended

    def leave(self, within_s: float) -> Exit | None:
        """Let the process end as a program does, for what it runs under to see the end; None: it did not in time."""
        self._go_on()
        self._channel.close()
        try:
            return self._process.wait(within_s)
        except TimeoutError:
            return None

    @property
    def hasher(self) -> Hasher:
        """What the grader hashes with what comes from this worker."""
        return hasher_for(self._device)

    @property
    def masker(self) -> Masker:
        """What the grader puts masks on inputs with."""
        return masker_for(self._device)

    def wait_ready(self) -> None:
        """Wait until the process is up with torch imported. A failure here is the grader's own: nothing of the
        submission has run."""
        if self.process.hello:
            return
        hello = self.process.greeting or self._answer(_pending("start", _START_S), claims.Hello)
        if hello.protocol != PROTOCOL or hello.torch != torch.__version__:
            raise WorkerFailure("protocol", "start", f"the worker runs torch {hello.torch}, not {torch.__version__}")
        self.process.hello = True

    def open_device(self) -> None:
        """Make the worker's context on the device, if it was not made beforehand, and the grader's clock for it."""
        if self.process.opened:
            return
        image = base64.b64encode(image_for(self._device)).decode()
        order = {
            "type": "open",
            "device": self._inner_device(),
            "flush_bytes": self.flush_bytes,
            "kernel_image": image,
        }
        self._ask(order, "open", _START_S, claims.Done)
        self.process.opened = True

    def rehearse(self) -> None:
        """Run a short loop of our own: the first one loads kernels and finds memory, which takes a tenth of a second on
        a GPU. For a process without a submission."""
        if self._device.kind == "cpu":
            return
        tensors = tuple(torch.zeros(count, device=self.torch_device) for count in _REHEARSED)
        self.put("pool", tensors)
        specs = tuple(TensorSpec.of(tensor) for tensor in tensors)
        loop = Loop(turns=2, kind="probe", inputs="pool", specs=specs, sealed=True, marked=1)
        self.time(loop, _START_S, key=1)
        self.times(loop)
        self.drop(["pool"])
        # This object may be gone before the process has work; who gives it some makes a window of his own.
        assert self._window is not None
        self._window.close()
        self._window = None

    def look(self) -> None:
        """See that the context still works."""
        self._ask({"type": "look"}, "open", _LOOK_S, claims.Done)

    def import_program(self, program: Program, limit_s: float) -> None:
        """Have a text imported and its entry found. Time spent building doesn't count."""
        self.process.has_work()
        order = {
            "type": "import",
            "source": program.source,
            "filename": program.filename,
            "files": dict(program.files),
            "entry": program.calling.entry,
            "style": program.calling.style,
            "outputs": list(program.calling.outputs),
        }
        self._ask(order, "import", limit_s, claims.Done)

    def construct(
        self,
        arguments: Sequence[Any],
        seed: int,
        limit_s: float,
        *,
        model: str = MAIN,
        compiled: bool = False,
        destinations: Sequence[tuple[str, TensorSpec]] = (),
    ) -> dict[str, TensorSpec]:
        """Have a model constructed under the name `model`, and its forward compiled by torch.compile if asked for.

        `destinations` are the outputs that a function in destination-passing style is given. Returns its state's specs
        by name.
        """
        self.put("init", tuple(arguments), on_cpu=True)
        order = {
            "type": "construct",
            "model": model,
            "seed": seed,
            "compiled": compiled,
            "destinations": [(name, spec.to_json()) for name, spec in destinations],
        }
        answer = self._ask(order, "construct", limit_s, claims.Constructed)
        return {
            entry.key: TensorSpec(entry.dtype, tuple(entry.shape), None if entry.strides is None else (*entry.strides,))
            for entry in answer.state
        }

    def load_state(self, state: dict[str, torch.Tensor], limit_s: float, *, model: str = MAIN) -> None:
        """Have the reference's parameters and buffers loaded."""
        if not state:
            return
        self.put("state", tuple(state.values()))
        order = {"type": "load_state", "model": model, "keys": list(state)}
        self._ask(order, "load_state", limit_s, claims.Done)

    def put(self, name: str, value: Any, *, on_cpu: bool = False) -> None:
        """Send a value; its tensors arrive on the worker's device unless `on_cpu`."""
        skeleton, leaves = take_apart(value)
        specs = [TensorSpec.of(leaf) for leaf in leaves]
        order = {
            "type": "put",
            "name": name,
            "skeleton": skeleton,
            "specs": [spec.to_json() for spec in specs],
            "on_cpu": on_cpu,
        }
        stream = ByteStream([flat_bytes(leaf, in_storage_order=True) for leaf in leaves])
        window = self._window_for(stream.size) if stream.size else None
        pending = _pending("put", _TRANSFER_S)
        self._order(order, pending)
        owed = 1

        def answered() -> None:
            nonlocal owed
            try:
                owed -= 1
                self._answer(pending, claims.Done)
            except WorkerFailure as failure:
                if failure.kind == "failed":  # it goes on, and answers what was ordered meanwhile as well
                    self._forget_answers(owed, pending)
                raise
            pending.deadline = time.monotonic() + _TRANSFER_S

        for turn, (half, low, high) in enumerate(window.halves(stream.size) if window is not None else ()):
            assert window is not None
            while turn >= 2 and owed > 1:  # a half is free again only when its last turn was answered
                answered()
            stream.to_window(low, high, window.view(half))
            self._order({"type": "fill", "half": half, "low": low, "high": high}, pending)
            owed += 1
        while owed:
            answered()

    def call(
        self,
        source: str,
        output: str,
        *,
        model: str = MAIN,
        seed: int,
        limit_s: float,
        poison: Sequence[int] = (),
        keep: bool = True,
    ) -> claims.Output:
        """Have a model called on a value that was put. Returns what the worker says about what came back.

        Without `keep` nothing of it is copied or held, so nothing but the call itself runs on the device."""
        order = {
            "type": "call",
            "model": model,
            "input": source,
            "output": output,
            "seed": seed,
            "poison": list(poison),
            "keep": keep,
        }
        return self._ask(order, "call", limit_s, claims.Returned).outputs[0]

    def time(self, loop: Loop, limit_s: float, key: int | None = None, *, turn_us: float = 0.0) -> Ran:
        """Have the worker's clock get its loop ready, and then run it; `key` takes the mask off its inputs.

        In device mode a GPU is held until calls are queued, and has its key only then. A turn takes `turn_us` at the
        least: as long nobody looks for a mark or whether it has ended.
        """
        first = loop.marked or loop.turns
        rests_s = first * turn_us / 1e6, (loop.turns - first) * turn_us / 1e6
        held = self._device.kind == "cuda" and loop.mode == "device"
        rooted = held and loop.sealed and loop.turns == 1
        order = {"type": "time", "model": MAIN, "masked": key is not None, "held": held, **loop.order()}
        stopwatch = self.stopwatch()
        self._ask(order, "call", _TRANSFER_S, claims.Ready)
        pending = _pending("call", limit_s)
        ticket = secrets.token_bytes(8)
        self._tickets.append(ticket.hex())
        builds = self._builds
        timed = stopwatch.time(
            ticket,
            key or 0,
            limit_s=min(limit_s, max(0.0, self._patience_s - self._waited_s)),
            # On a CPU a busy wait would take from the loop what it waits for.
            spin=self._device.kind == "cuda",
            marks=loop.marked > 0,
            root=rooted,
            hold_s=_HOLD_S + loop.turns * _HOLD_TURN_S if held else 0.0,
            turns=loop.turns,
            rests_s=rests_s,
            gone=self._gone,
        )
        self._waited_s += timed.ended - timed.began
        answer = self._answer(pending, claims.Ran)
        # Of what was built within the loop the answer came through this process, and nobody saw the marks.
        if self._builds != builds:
            wall_s = time.perf_counter() - timed.began
            return Ran(wall_s, wall_s if loop.marked else 0.0, answer.seal)
        if not timed.done or timed.seal != answer.seal:
            raise WorkerFailure("protocol", "call", "a loop's end was not said as it has to be")
        # Of a call that is alone the device says when its output was there, and what it was.
        early = rooted and seal_of(timed.root).hex() != timed.seal
        ended = timed.rooted if rooted else timed.ended
        span_s = timed.marked[1] - timed.marked[0]
        wall_s, held_s = ended - timed.began, timed.began - timed.told
        return Ran(wall_s, span_s, answer.seal, early or not timed.in_order, timed.ahead or not held, held_s)

    def stopwatch(self) -> Stopwatch:
        """The grader's clock for its loops: started, and its page shared with the worker, the first time."""
        if self.process.closed:
            raise WorkerFailure("died", "call", "the process was ended")
        if self.process.stopwatch is None:
            self.process.stopwatch = Stopwatch(self._channel.fileno())
            pending = _pending("call", _TRANSFER_S)
            self._order({"type": "page"}, pending, (self.process.stopwatch.page_fd,))
            self._answer(pending, claims.Done)
        return self.process.stopwatch

    def times(self, loop: Loop, outputs: str = "") -> claims.Timed:
        """What the last loop returned and read; `outputs` names the outputs, from then on, by turn."""
        answer = self._ask({"type": "times", "outputs": outputs}, "call", _TRANSFER_S, claims.Timed)
        counts = {len(answer.elapsed_us), len(answer.host_us), len(answer.outputs) if outputs else loop.turns}
        if counts != {loop.turns}:
            raise WorkerFailure("protocol", "call", f"{loop.turns} calls were timed, and {sorted(counts)} answered for")
        return answer

    def trace(self, source: str, calls: int, limit_s: float) -> claims.Traced:
        """Have calls made under a profiler, on a value that was put."""
        order = {"type": "trace", "model": MAIN, "input": source, "calls": calls}
        return self._ask(order, "call", calls * limit_s + _TRANSFER_S, claims.Traced)

    def timeline(self, source: str, queue_us: float, limit_s: float) -> claims.Timeline:
        """Have one call made under a profiler, behind `queue_us` of idling, and told event by event."""
        order = {"type": "timeline", "model": MAIN, "input": source, "queue_us": queue_us}
        return self._ask(order, "call", 2 * limit_s + _TRANSFER_S, claims.Timeline)

    def counted(self, source: str, limit_s: float) -> None:
        """Have one call made between the marks that a profiler around the process waits for."""
        self._ask({"type": "counted", "model": MAIN, "input": source}, "call", limit_s, claims.Done)

    def scribble(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Have every tensor of these values overwritten: inputs with 0, output leaves with 1, 2, 3, ..."""
        order = {"type": "scribble", "inputs": list(inputs), "outputs": list(outputs)}
        self._ask(order, "fetch", _TRANSFER_S, claims.Done)

    def fetch(
        self,
        name: str,
        which: Literal["live", "early", "input"],
        specs: Sequence[TensorSpec],
        *,
        stored: bool = False,
    ) -> Iterator[tuple[int, int, torch.Tensor]]:
        """The bytes of a value's leaves, in pieces, in memory of the grader's own on its device: in the order of
        indices, or, of an output and if asked for, as they are `stored`.

        `specs` are what the grader expects there. Yields leaf number, first byte within the leaf, bytes. A piece is
        reused for the one after the next: look at it before going on.
        """
        order = {"type": "get", "name": name, "which": which, "stored": stored}
        self._ask(order, "fetch", _TRANSFER_S, claims.Done)
        sizes = [spec.nbytes for spec in specs]
        starts, size = offsets(sizes)
        if not size:
            return
        window = self._window_for(size)
        pending = _pending("fetch", _TRANSFER_S)
        turns = list(window.halves(size))
        private = torch.empty(window.half, dtype=torch.uint8, device=self.torch_device)
        for half, low, high in turns[:1]:
            self._order({"type": "drain", "half": half, "low": low, "high": high}, pending)
        for turn, (half, low, high) in enumerate(turns):
            self._answer(pending, claims.Done)
            if turn + 1 < len(turns):
                next_half, next_low, next_high = turns[turn + 1]
                self._order({"type": "drain", "half": next_half, "low": next_low, "high": next_high}, pending)
            # Copied before it is looked at: the worker can write to the window whenever it likes.
            private[: high - low].copy_(window.view(half)[: high - low])
            if private.is_cuda:
                torch.cuda.current_stream(self.torch_device).synchronize()
            for leaf, start in enumerate(starts):
                first, last = max(low, start), min(high, start + sizes[leaf])
                if first < last:
                    yield leaf, first - start, private[first - low : last - low]

    def drop(self, names: Sequence[str] = (), *, early: Sequence[str] = (), models: Sequence[str] = ()) -> None:
        """Have values forgotten, only the early copies of outputs, or models; after models, memory is given back."""
        order = {"type": "drop", "names": list(names), "early": list(early), "models": list(models)}
        self._ask(order, "drop", _TRANSFER_S, claims.Done)

    def _inner_device(self) -> str:
        # The environment shows the worker its own GPU alone.
        return "cpu" if self._device.kind == "cpu" else "cuda:0"

    def _window_for(self, size: int) -> Window:
        """The window, made anew when it is smaller than it could be for this much."""
        kind: WindowKind = "device" if self._share_device else "host"
        if self._window is not None and self._window.kind == kind and self._window.half >= min(size, HALF_MAX[kind]):
            return self._window
        try:
            fresh = create(size, self.torch_device, kind)
        except (RuntimeError, ImportError):
            if kind == "host":
                raise
            self._share_device = False
            return self._window_for(size)
        pending = _pending("put", _TRANSFER_S)
        self._order({"type": "window", "kind": kind, "size": fresh.size}, pending, (fresh.fd,))
        try:
            self._answer(pending, claims.Done)
        except WorkerFailure as failure:
            fresh.close()
            if kind == "host" or failure.kind != "failed":
                raise
            # Its end can't open device memory (no cuda-bindings there, say): the host's will do.
            self._share_device = False
            return self._window_for(size)
        if self._window is not None:
            self._window.close()
        self._window = fresh
        return fresh

    def _ask(self, order: dict[str, Any], phase: str, limit_s: float, kind: type[_C]) -> _C:
        pending = _pending(phase, limit_s)
        self._order(order, pending)
        return self._answer(pending, kind)

    def _go_on(self) -> None:
        if self._still:
            self._process.go_on()
            self._still = False

    def _forget_answers(self, count: int, pending: _Pending) -> None:
        """Take in so many answers that say nothing any more."""
        for _ in range(count):
            with contextlib.suppress(WorkerFailure):
                self._answer(pending, claims.Done)

    def _order(self, order: dict[str, Any], pending: _Pending, fds: Sequence[int] = ()) -> None:
        """Send an order. Its answer has to carry a ticket that did not exist before."""
        assert not self._held, "an order to a worker that is held still"
        ticket = secrets.token_hex(8)
        self._tickets.append(ticket)
        self._send({**order, "ticket": ticket}, pending, fds)

    def _send(self, order: dict[str, Any], pending: _Pending, fds: Sequence[int] = ()) -> None:
        self._go_on()
        began = time.monotonic()
        try:
            self._channel.send(order, fds, timeout=_SEND_S)
        except Late:
            raise WorkerFailure("late", pending.phase, "the worker does not read", limit_s=_SEND_S) from None
        except Closed:
            raise self._explain_death(pending) from None
        finally:
            # Who reads slowly is waited for as well.
            self._waited_s += time.monotonic() - began

    def _answer(self, pending: _Pending, kind: type[_C]) -> _C:
        """The answer to the order that was sent first, seeing to build requests on the way."""
        while True:
            began = time.monotonic()
            left = self._patience_s - self._waited_s
            try:
                message = self._channel.receive(deadline=min(pending.deadline, began + left), gone=self._gone)
                claim = claims.parse(message)
            except Late:
                raise self._too_late(pending, left) from None
            except Closed:
                raise self._explain_death(pending) from None
            except WireError as error:
                raise WorkerFailure("protocol", pending.phase, str(error)) from None
            finally:
                self._waited_s += time.monotonic() - began
            if isinstance(claim, claims.Build):
                self._build(claim, pending)
                left = self._patience_s - self._waited_s
                if min(left, pending.deadline - time.monotonic()) <= 0:
                    # Also where the next request is here already, so that nothing has to be waited for.
                    raise self._too_late(pending, left)
                continue
            if not isinstance(claim, claims.Hello) and claim.ticket != self._tickets.popleft():
                raise WorkerFailure("protocol", pending.phase, f"the answer {claim.type!r} belongs to no order")
            if isinstance(claim, claims.Failed):
                raise WorkerFailure("failed", pending.phase, claim.message, failed=claim)
            if not isinstance(claim, kind):
                raise WorkerFailure("protocol", pending.phase, f"the answer was {claim.type!r}")
            return claim

    def _too_late(self, pending: _Pending, left: float) -> WorkerFailure:
        if pending.deadline - time.monotonic() > 0 and left < pending.limit_s:
            ended = Exit(None, None, Limit.WALL_TIME, limit_value=self._patience_s, used=self._waited_s)
            return WorkerFailure("limit", pending.phase, _limit_text(ended), exit=ended)
        text = f"no answer within {pending.limit_s:g} s"
        return WorkerFailure("late", pending.phase, text, limit_s=pending.limit_s)

    def _build(self, claim: claims.Build, pending: _Pending) -> None:
        self._builds += 1
        began = time.monotonic()
        outcome = self._on_build(claim.request)
        # Building is not the submission's time; handing over what came of it is, since it may read slowly.
        pending.deadline += time.monotonic() - began
        if not outcome.ok or outcome.library is None:
            message = outcome.failure.message if outcome.failure else "the build failed"
            self._send({"type": "not_built", "message": f"{message}\n{outcome.log}"[: 64 << 10]}, pending)
            return
        fd = sealed_copy(outcome.library)
        try:
            answer = {"type": "built", "module_name": outcome.module_name, "key": outcome.key}
            self._send(answer, pending, (fd,))
        finally:
            os.close(fd)

    def _gone(self) -> bool:
        return self._process.poll() is not None

    def _explain_death(self, pending: _Pending) -> WorkerFailure:
        """Why the connection is lost: the process ended, or it closed its end and lives on."""
        try:
            ended = self._process.wait(_GRACE_S)
        except TimeoutError:
            self._process.kill()
            return WorkerFailure("protocol", pending.phase, "the worker closed its connection")
        if ended.limit is not None:
            return WorkerFailure("limit", pending.phase, _limit_text(ended), exit=ended)
        number = ended.signal or (ended.code - 128 if ended.code is not None and ended.code > 128 else None)
        text = f"the process ended with exit code {ended.code}" if number is None else f"signal {number} ended it"
        return WorkerFailure("died", pending.phase, text, exit=ended)


def _pending(phase: str, limit_s: float) -> _Pending:
    return _Pending(phase, time.monotonic() + limit_s, limit_s)


def _limit_text(ended: Exit) -> str:
    assert ended.limit is not None
    if ended.limit in (Limit.MEMORY, Limit.OUTPUT, Limit.DISK):
        return f"it used {(ended.used or 0) / 1e6:.0f} MB, {(ended.limit_value or 0) / 1e6:.0f} MB are allowed"
    return f"it used {ended.used:g}, {ended.limit_value:g} are allowed"
