"""Marks that a device writes for the stopwatch: seen when the work before them is done, and not earlier."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator

import pytest
import torch

from harness.wire.stopwatch import SEAL_BYTES, Page, Stopwatch
from harness.worker.marks import DeviceMarks

_MS = 2_100_000
"""Cycles of a millisecond at the least: no GPU has a quicker clock."""


@pytest.fixture
def watch() -> Iterator[Stopwatch]:
    ours, theirs = socket.socketpair()
    watch = Stopwatch(ours.fileno())
    try:
        yield watch
    finally:
        watch.close()
        ours.close()
        theirs.close()


@pytest.mark.gpu
def test_marks_are_written_when_the_device_comes_to_them(watch: Stopwatch) -> None:
    page, device = Page(watch.page_fd), torch.device("cuda", 0)
    torch.zeros(1, device=device)
    marks = DeviceMarks(page, device)
    for _ in range(3):

        def loop() -> None:
            page.wait_for_go()
            torch.cuda._sleep(10 * _MS)
            marks.write(0)
            torch.cuda._sleep(30 * _MS)
            marks.write(1)
            torch.cuda._sleep(20 * _MS)
            torch.cuda.synchronize(device)
            page.done(bytes(SEAL_BYTES))

        thread = threading.Thread(target=loop)
        thread.start()
        found = watch.time(
            secrets.token_bytes(8), 0, limit_s=20, spin=True, gone=lambda: False, marks=True, rests_s=(0.001, 0.001)
        )
        thread.join()
        assert found.done
        first, second = found.marked
        # A host that was in between would have written both at once, or at the end.
        assert first - found.began > 0.010
        assert second - first > 0.030
        assert found.ended - second > 0.020
    marks.close()


@pytest.mark.gpu
def test_a_page_that_was_given_back_can_be_marked_again(watch: Stopwatch) -> None:
    device = torch.device("cuda", 0)
    torch.zeros(1, device=device)
    page = Page(watch.page_fd)
    for _ in range(2):
        page.memory[72:80] = bytes(range(8))
        marks = DeviceMarks(page, device)
        marks.write(1)
        torch.cuda.synchronize(device)
        assert page.memory[72:80] == page.ticket
        marks.close()
