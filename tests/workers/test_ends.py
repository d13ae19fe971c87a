"""When a timed loop has ended, and whether that was true: what becomes of what the stopwatch saw. The rest is fake."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.wire.digest import seal_of
from harness.wire.stopwatch import Timed
from harness.workers.loop import Loop, Ran
from harness.workers.worker import Worker

ROOT = bytes(range(1, 17))


def ran(monkeypatch: pytest.MonkeyPatch, loop: Loop, root: bytes, *, kind: str = "cuda", ahead: bool = True) -> Ran:
    """A loop that was told to begin at 10 s, let go at 11 s, whose root was there at 12 s, and which ended at 15 s."""
    seal = seal_of(ROOT).hex()
    timed = Timed(10.0, 11.0, (11.5, 12.5), 15.0, 12.0, done=True, in_order=True, ahead=ahead, seal=seal, root=root)
    worker: Any = object.__new__(Worker)
    worker._device, worker._tickets, worker._builds = SimpleNamespace(kind=kind), [], 0
    worker._patience_s = worker._waited_s = 0.0
    monkeypatch.setattr(Worker, "stopwatch", lambda _: SimpleNamespace(time=lambda *_, **__: timed))
    monkeypatch.setattr(Worker, "_ask", lambda *_: None)
    monkeypatch.setattr(Worker, "_answer", lambda *_: SimpleNamespace(seal=seal))
    found: Ran = worker.time(loop, 60.0, 5)
    return found


@pytest.mark.parametrize(("root", "early"), [(ROOT, False), (bytes(16), True), (ROOT[::-1], True)])
def test_a_call_that_is_alone_ends_with_the_hash_of_the_output_that_was_sealed(
    monkeypatch: pytest.MonkeyPatch, root: bytes, early: bool
) -> None:
    """Whoever writes another one sooner has said his end too early."""
    found = ran(monkeypatch, Loop(turns=1, sealed=True), root)
    assert (found.wall_s, found.held_s, found.early) == (1.0, 1.0, early)


@pytest.mark.parametrize(
    ("loop", "kind"),
    [
        (Loop(turns=9, sealed=True, marked=1), "cuda"),
        (Loop(turns=1), "cuda"),
        (Loop(turns=1, sealed=True, mode="host"), "cuda"),
        (Loop(turns=1, sealed=True, mode="host"), "cpu"),
    ],
)
def test_all_others_end_when_it_is_said(monkeypatch: pytest.MonkeyPatch, loop: Loop, kind: str) -> None:
    found = ran(monkeypatch, loop, bytes(16), kind=kind, ahead=False)
    assert (found.wall_s, found.span_s, found.early) == (4.0, 1.0, False)
    # Only a device that was held can have been let go too soon.
    assert found.ahead == (loop.mode == "host")
