"""A device and the stopwatch: it waits for its release, and writes marks when the work before them is done."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from harness.machine.device import open_device
from harness.machine.kernel_image import image_for
from harness.wire.kernels import Kernels
from harness.wire.stopwatch import SEAL_BYTES, Page, Stopwatch
from harness.worker.device_page import DevicePage

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


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(image_for(open_device("cuda")), torch.device("cuda", 0))


@pytest.mark.gpu
def test_a_device_begins_when_it_is_let_go_and_has_the_key_then(watch: Stopwatch, kernels: Kernels) -> None:
    page, device = Page(watch.page_fd), torch.device("cuda", 0)
    held = DevicePage(page, kernels)
    ran, event = torch.zeros(1, device=device), torch.cuda.Event()
    ran.add_(1)  # a kernel is loaded with its first launch, for which the driver waits for a device that is held
    torch.cuda.synchronize(device)
    for key in (2**62 - 1, 12345):
        seen: list[object] = []

        def loop(seen: list[object] = seen) -> None:
            page.wait_for_go()
            given = held.wait_for_key()
            ran.add_(1)
            event.record()
            time.sleep(0.05)
            seen.append(event.query())
            page.queued(1, all_of_them=True)
            torch.cuda.synchronize(device)
            seen.append(int(given))
            page.done(bytes(SEAL_BYTES))

        thread = threading.Thread(target=loop)
        thread.start()
        found = watch.time(secrets.token_bytes(8), key, limit_s=20, spin=True, gone=lambda: False, hold_s=10.0)
        thread.join()
        assert seen == [False, key]
        assert found.done
    held.close()


@pytest.mark.gpu
def test_marks_are_written_when_the_device_comes_to_them(watch: Stopwatch, kernels: Kernels) -> None:
    page, device = Page(watch.page_fd), torch.device("cuda", 0)
    torch.zeros(1, device=device)
    marks = DevicePage(page, kernels)
    for _ in range(3):

        def loop() -> None:
            page.wait_for_go()
            torch.cuda._sleep(10 * _MS)
            marks.mark(0)
            torch.cuda._sleep(30 * _MS)
            marks.mark(1)
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
def test_a_page_that_was_given_back_can_be_marked_again(watch: Stopwatch, kernels: Kernels) -> None:
    device = torch.device("cuda", 0)
    torch.zeros(1, device=device)
    page = Page(watch.page_fd)
    for _ in range(2):
        page.memory[72:80] = bytes(range(8))
        marks = DevicePage(page, kernels)
        marks.mark(1)
        torch.cuda.synchronize(device)
        assert page.memory[72:80] == page.ticket
        marks.close()
