"""The stopwatch: passes frames on, times them, and never waits for ever."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from harness.stopwatch import Stopwatch
from harness.wire import MAX_FRAME, to_frame

FRAME = to_frame({"type": "go"})


@pytest.fixture
def ends() -> Iterator[tuple[Stopwatch, socket.socket]]:
    ours, theirs = socket.socketpair()
    watch = Stopwatch(ours.fileno())
    try:
        yield watch, theirs
    finally:
        watch.close()
        ours.close()
        theirs.close()


def answering(sock: socket.socket, act: Callable[[socket.socket], None]) -> threading.Thread:
    def run() -> None:
        assert sock.recv(1 << 16) == FRAME
        act(sock)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def exchange(
    watch: Stopwatch, limit_s: float = 20.0, gone: bool = False, spin: bool = False
) -> tuple[float, float, bytes]:
    return watch.exchange(FRAME, limit_s=limit_s, longest=MAX_FRAME, spin=spin, gone=lambda: gone)


@pytest.mark.parametrize("spin", [False, True])
def test_a_frame_that_comes_in_pieces_is_timed_to_its_end(ends: tuple[Stopwatch, socket.socket], spin: bool) -> None:
    watch, theirs = ends
    answer = to_frame({"type": "ran", "seal": "x" * 5000})
    times = []

    def act(sock: socket.socket) -> None:
        # A first byte alone stops no clock.
        sock.sendall(answer[:1])
        time.sleep(0.05)
        sock.sendall(answer[1:3000])
        time.sleep(0.05)
        times.append(time.perf_counter())
        sock.sendall(answer[3000:])

    thread = answering(theirs, act)
    sent, came, data = exchange(watch, spin=spin)
    thread.join()
    assert data == answer
    assert sent < times[0] < came


def test_what_comes_after_the_frame_is_not_lost(ends: tuple[Stopwatch, socket.socket]) -> None:
    watch, theirs = ends
    thread = answering(theirs, lambda sock: sock.sendall(to_frame({"type": "a"}) + to_frame({"type": "b"})))
    assert exchange(watch)[2] == to_frame({"type": "a"}) + to_frame({"type": "b"})
    thread.join()


def test_silence_ends_with_the_limit(ends: tuple[Stopwatch, socket.socket]) -> None:
    watch, _theirs = ends
    assert exchange(watch, limit_s=0.1)[2] == b""
    assert exchange(watch, limit_s=0.1, spin=True)[2] == b""


def test_a_closed_connection_and_half_a_frame_end_it(ends: tuple[Stopwatch, socket.socket]) -> None:
    watch, theirs = ends

    def act(sock: socket.socket) -> None:
        sock.sendall(b"\0\0\1\0half")
        sock.shutdown(socket.SHUT_RDWR)

    thread = answering(theirs, act)
    assert exchange(watch)[2] == b"\0\0\1\0half"
    thread.join()


def test_a_worker_that_has_ended_while_its_socket_lives_is_not_waited_for(
    ends: tuple[Stopwatch, socket.socket],
) -> None:
    watch, _ = ends
    assert exchange(watch, limit_s=600, gone=True)[2] == b""


def test_an_announcement_beyond_the_longest_is_not_believed(ends: tuple[Stopwatch, socket.socket]) -> None:
    watch, theirs = ends
    thread = answering(theirs, lambda sock: sock.sendall(b"\xff\xff\xff\xff" + b"x" * 100))
    _, _, data = watch.exchange(FRAME, limit_s=20, longest=50, spin=False, gone=lambda: False)
    thread.join()
    assert data == b"\xff\xff\xff\xff" + b"x" * 100
