"""Orders that are sent before the one before them is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from fakes import ScriptedSandbox, answering

from harness.machine.device import open_device
from harness.wire.frames import Channel
from harness.workers.process import Terms, WorkerProcess
from harness.workers.worker import Worker, WorkerFailure, refuse_to_build

Answer = Callable[[dict[str, Any], Channel], dict[str, Any]]


@pytest.fixture
def started() -> Iterator[Callable[[Answer], Worker]]:
    workers = []

    def start(answer: Answer) -> Worker:
        device = open_device("cpu")
        process = WorkerProcess(Terms(ScriptedSandbox(answering(answer)), device.place, None), memory_bytes=None)
        workers.append(
            Worker(process, device, flush_bytes=0, patience_s=20.0, on_build=refuse_to_build, share_device=False)
        )
        workers[-1].wait_ready()
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


def test_room_and_bytes_are_ordered_together(started: Callable[[Answer], Worker]) -> None:
    seen: list[str] = []

    def answer(order: dict[str, Any], _: Channel) -> dict[str, Any]:
        seen.append(order["type"])
        return {"type": "done"}

    worker = started(answer)
    worker.put("x", (torch.zeros(8), torch.ones(3)))
    worker.put("nothing", ())
    worker.look()
    assert seen == ["window", "put", "fill", "put", "look"]


@pytest.mark.parametrize("fails", ["put", "fill"])
def test_a_put_that_fails_leaves_no_answer_for_later_orders(started: Callable[[Answer], Worker], fails: str) -> None:
    failing = [True]

    def answer(order: dict[str, Any], _: Channel) -> dict[str, Any]:
        if order["type"] in (fails, "fill") and failing[0]:
            said = {"type": "failed", "category": "exception", "error": "E", "message": f"no {order['type']}"}
            return {**said, "traceback": "", "evidence": {}}
        return {"type": "done"}

    worker = started(answer)
    with pytest.raises(WorkerFailure, match=f"no {fails}"):
        worker.put("x", (torch.zeros(8),))
    failing[0] = False
    worker.look()
    worker.put("x", (torch.zeros(8),))
    worker.drop(["x"])
    assert not worker._tickets


def test_nothing_is_made_for_a_process_that_was_ended(started: Callable[[Answer], Worker]) -> None:
    worker = started(lambda *_: {"type": "done"})
    worker.close()
    with pytest.raises(WorkerFailure, match="was ended"):
        worker.stopwatch()
    assert worker.process.stopwatch is None
