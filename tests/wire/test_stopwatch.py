"""The stopwatch: tells a worker to begin, sees when it has ended, and never waits for ever."""

from __future__ import annotations

import os
import random
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from harness.wire.stopwatch import KEY, RELEASED, ROOT, SEAL_BYTES, Page, Stopwatch, Timed

SEAL = bytes(range(SEAL_BYTES))


@dataclass
class Ends:
    """A stopwatch, the grader's socket, and a worker's page and socket."""

    watch: Stopwatch
    ours: socket.socket
    page: Page
    sock: socket.socket

    def time(
        self,
        limit_s: float = 20.0,
        *,
        key: int = 0,
        spin: bool = True,
        gone: bool = False,
        marks: bool = False,
        root: bool = False,
        hold_s: float = 0.0,
        turns: int = 1,
        rests_s: tuple[float, float] = (0.0, 0.0),
    ) -> Timed:
        return self.watch.time(
            secrets.token_bytes(8),
            key,
            limit_s=limit_s,
            spin=spin,
            gone=lambda: gone,
            marks=marks,
            root=root,
            hold_s=hold_s,
            turns=turns,
            rests_s=rests_s,
        )

    def working(self, act: Callable[[int], None]) -> threading.Thread:
        thread = threading.Thread(target=lambda: act(self.page.wait_for_go()[0]))
        thread.start()
        return thread


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    watch = Stopwatch(ours.fileno())
    page = Page(watch.page_fd)
    try:
        yield Ends(watch, ours, page, theirs)
    finally:
        watch.close()
        ours.close()
        theirs.close()


@pytest.mark.parametrize("spin", [False, True])
def test_a_loop_is_timed_from_go_to_done(ends: Ends, spin: bool) -> None:
    for key in (1, 2**62):
        seen: list[float] = []

        def act(given: int, key: int = key, seen: list[float] = seen) -> None:
            seen.append(time.perf_counter())
            assert given == key
            time.sleep(0.05)
            seen.append(time.perf_counter())
            ends.page.done(SEAL)
            ends.sock.sendall(b"x")

        thread = ends.working(act)
        found = ends.time(key=key, spin=spin)
        thread.join()
        assert ends.ours.recv(9) == b"x"
        assert found.done
        assert found.seal == SEAL.hex()
        assert found.began < seen[0] < seen[1] < found.ended


@pytest.mark.parametrize("says", [True, False])
def test_a_loop_that_is_held_has_its_key_when_its_calls_are_queued_or_have_had_their_time(
    ends: Ends, says: bool
) -> None:
    for key in (2**62 - 1, 5):
        seen: list[float] = []

        def act(_: int, key: int = key, seen: list[float] = seen) -> None:
            def on_the_page(at: int) -> bytes:
                return ends.page.memory[at : at + 8]

            time.sleep(0.05)
            assert on_the_page(KEY) != key.to_bytes(8, sys.byteorder)
            assert on_the_page(RELEASED) != ends.page.ticket
            seen.append(time.perf_counter())
            if says:
                ends.page.queued(1, all_of_them=True)
            while on_the_page(RELEASED) != ends.page.ticket:
                pass
            seen.append(time.perf_counter())
            assert on_the_page(KEY) == key.to_bytes(8, sys.byteorder)
            time.sleep(0.05)
            ends.page.done(SEAL)

        thread = ends.working(act)
        found = ends.time(key=key, hold_s=20.0 if says else 0.2)
        thread.join()
        assert len(seen) == 2
        assert found.done
        assert found.ahead == says
        # The clock begins when the device is let go; how long its host took is told as well.
        assert found.told < seen[0] - 0.04
        assert seen[0] < found.began <= seen[1] < found.ended
        assert 0.05 <= found.ended - found.began < 15.0


@pytest.mark.parametrize(("queued", "ahead"), [(19, False), (20, True), (39, True)])
def test_a_host_that_gets_no_further_is_ahead_with_half_of_its_turns(ends: Ends, queued: int, ahead: bool) -> None:
    """A driver takes so many launches and no more while its device waits."""

    def act(_: int) -> None:
        for turn in range(queued):
            ends.page.queued(turn + 1, all_of_them=False)
        while ends.page.memory[RELEASED : RELEASED + 8] != ends.page.ticket:
            pass
        ends.page.done(SEAL)

    thread = ends.working(act)
    found = ends.time(hold_s=0.3, turns=40)
    thread.join()
    assert found.done
    assert found.ahead == ahead
    assert (found.began - found.told >= 0.3) is not ahead


def test_a_root_is_not_missed_by_who_is_held_up_just_then(ends: Ends) -> None:
    """Between its looks at the root and at the end a stopwatch may be held up for as long as there is between them."""
    pid = ends.watch._process.pid
    for number in range(40):
        root = bytes([number + 1] * 16)

        def act(_: int, root: bytes = root) -> None:
            time.sleep(0.001 + random.random() * 1e-4)
            os.kill(pid, signal.SIGSTOP)
            ends.page.memory[ROOT : ROOT + 16] = root
            ends.page.done(SEAL)
            os.kill(pid, signal.SIGCONT)

        thread = ends.working(act)
        found = ends.time(root=True)
        thread.join()
        assert found.root == root


def test_a_root_is_seen_when_all_of_it_is_there(ends: Ends) -> None:
    """A device writes it in two halves, perhaps."""
    for root in (bytes(range(1, 17)), bytes(range(101, 117))):
        seen: list[float] = []

        def act(_: int, root: bytes = root, seen: list[float] = seen) -> None:
            ends.page.memory[ROOT : ROOT + 8] = root[:8]
            time.sleep(0.05)
            seen.append(time.perf_counter())
            ends.page.memory[ROOT + 8 : ROOT + 16] = root[8:]
            time.sleep(0.05)
            ends.page.memory[ROOT : ROOT + 16] = bytes(16)  # what it was by then is not changed any more
            seen.append(time.perf_counter())
            ends.page.done(SEAL)

        thread = ends.working(act)
        found = ends.time(root=True)
        thread.join()
        assert found.done
        assert found.root == root  # and never that of the loop before
        assert seen[0] < found.rooted < seen[1] < found.ended


def test_a_loop_that_ends_without_its_root_has_none(ends: Ends) -> None:
    thread = ends.working(lambda _: ends.page.done(SEAL))
    found = ends.time(root=True)
    thread.join()
    assert found.done
    assert found.root == bytes(16)


@pytest.mark.parametrize("spin", [False, True])
def test_without_a_root_silence_ends_with_the_limit(ends: Ends, spin: bool) -> None:
    assert not ends.time(limit_s=0.1, spin=spin, root=True).done


def test_who_ends_before_it_is_possible_gains_nothing(ends: Ends) -> None:
    thread = ends.working(lambda _: ends.page.done(SEAL))
    found = ends.time(rests_s=(0.2, 0.0))
    thread.join()
    assert found.done
    assert found.ended - found.began >= 0.2


def test_marks_are_seen_when_they_are_written(ends: Ends) -> None:
    for _ in range(2):
        seen: list[float] = []

        def act(_: int, seen: list[float] = seen) -> None:
            for write in (lambda: ends.page.mark(0), lambda: ends.page.mark(1), lambda: ends.page.done(SEAL)):
                seen.append(time.perf_counter())
                write()
                time.sleep(0.05)

        thread = ends.working(act)
        found = ends.time(marks=True)
        thread.join()
        assert found.done
        assert found.began < seen[0] < found.marked[0] < seen[1] < found.marked[1] < seen[2] < found.ended


def test_who_marks_before_it_is_possible_gains_nothing(ends: Ends) -> None:
    def act(_: int) -> None:
        ends.page.mark(0)
        ends.page.mark(1)
        ends.page.done(SEAL)

    thread = ends.working(act)
    found = ends.time(marks=True, rests_s=(0.1, 0.2))
    thread.join()
    assert found.done
    assert found.marked[0] - found.began >= 0.1
    assert found.marked[1] - found.marked[0] >= 0.2


@pytest.mark.parametrize("first", [(), (0,)])
def test_marks_that_come_after_the_end_are_none(ends: Ends, first: tuple[int, ...]) -> None:
    """Whoever marks nothing until all is done has every turn behind him."""

    def act(_: int) -> None:
        for number in first:
            ends.page.mark(number)
        ends.page.done(SEAL)
        time.sleep(0.02)
        for number in range(len(first), 2):
            ends.page.mark(number)

    thread = ends.working(act)
    found = ends.time(marks=True)
    thread.join()
    assert found.done
    assert not found.in_order


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_loop_without_its_marks_has_not_ended_as_it_has_to(ends: Ends, lacking: int) -> None:
    """Marks of the loop before are none of this one."""
    for number in range(2):

        def act(_: int, number: int = number) -> None:
            for mark in (0, 1):
                if not number or mark != lacking:
                    ends.page.mark(mark)
            ends.page.done(SEAL)

        thread = ends.working(act)
        found = ends.time(marks=True)
        thread.join()
        assert found.done
        assert found.in_order == (not number)


def test_an_end_that_was_said_before_is_no_end(ends: Ends) -> None:
    thread = ends.working(lambda _: None)
    ends.page.done(SEAL)
    assert not ends.time(limit_s=0.2).done
    thread.join()


@pytest.mark.parametrize("spin", [False, True])
def test_silence_ends_with_the_limit(ends: Ends, spin: bool) -> None:
    assert not ends.time(limit_s=0.1, spin=spin).done


@pytest.mark.parametrize("spin", [False, True])
def test_a_message_ends_it_as_well_and_stays_to_be_read(ends: Ends, spin: bool) -> None:
    ends.sock.sendall(b"failed")
    assert not ends.time(limit_s=600, spin=spin).done


def test_a_worker_that_has_ended_while_its_socket_lives_is_not_waited_for(ends: Ends) -> None:
    assert not ends.time(limit_s=600, gone=True).done


def test_a_worker_can_not_take_the_page_away(ends: Ends) -> None:
    for size in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(ends.watch.page_fd, size)


def test_nothing_is_left_open(ends: Ends) -> None:
    before = len(os.listdir("/proc/self/fd"))
    watch = Stopwatch(ends.sock.fileno())
    watch.close()
    assert len(os.listdir("/proc/self/fd")) == before
