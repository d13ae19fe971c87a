"""A worker that is held still stays so until somebody has something for it to do. The process is a fake."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.machine.device import open_device
from harness.wire.frames import Closed
from harness.workers.worker import Worker, WorkerFailure


class _Process:
    """Writes down what happens to it, in one list with what is sent."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.sandboxed = self.channel = self
        self.stopwatch = None
        self.closed = False

    def stop(self) -> None:
        self.log.append("stop")

    def go_on(self) -> None:
        self.log.append("go on")

    def send(self, message: dict[str, Any], *_: object, **__: object) -> None:
        self.log.append(message["type"])
        self._ticket = message["ticket"]

    def receive(self, **_: object) -> dict[str, Any]:
        return {"type": "done", "ticket": self._ticket}

    def close(self) -> Any:
        self.log.append("close")
        return SimpleNamespace(limit=None)

    def wait(self, _: float) -> Any:
        return None

    def poll(self) -> Any:
        return None


@pytest.fixture
def process() -> _Process:
    return _Process()


@pytest.fixture
def worker(process: _Process) -> Worker:
    options: dict[str, Any] = {"flush_bytes": 0, "patience_s": 60.0, "on_build": None}
    return Worker(process, open_device("cpu"), **options)  # type: ignore[arg-type]


def test_it_goes_on_with_the_next_order_and_is_stopped_once(worker: Worker, process: _Process) -> None:
    for _ in range(3):
        with worker.stopped(), worker.stopped():
            pass
    worker.look()
    worker.look()
    with worker.stopped():
        pass
    worker.drop(["x"])
    assert process.log == ["stop", "go on", "look", "look", "stop", "go on", "drop"]


def test_nothing_can_be_asked_of_one_that_is_held(worker: Worker, process: _Process) -> None:
    with worker.stopped():
        with worker.stopped():
            pass
        with pytest.raises(AssertionError):
            worker.look()
    worker.look()
    assert process.log == ["stop", "go on", "look"]


def test_one_that_can_not_be_stopped_is_asked_again(
    worker: Worker, process: _Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(process, "stop", refuse)
        with pytest.raises(PermissionError), worker.stopped():
            pass
    worker.look()
    assert process.log == ["go on", "look"]


def test_it_can_be_ended_and_left_while_it_is_still(worker: Worker, process: _Process) -> None:
    with worker.stopped():
        pass
    worker.leave(1.0)
    with worker.stopped():
        worker.close()
    assert process.log == ["stop", "go on", "close", "stop", "close"]


def test_one_that_died_while_it_was_still_is_told(
    worker: Worker, process: _Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise Closed("the other side is gone")

    with worker.stopped():
        pass
    monkeypatch.setattr(process, "send", lost)
    monkeypatch.setattr(process, "wait", lambda _: SimpleNamespace(limit=None, signal=9, code=None))
    with pytest.raises(WorkerFailure, match="signal 9 ended it"):
        worker.look()
