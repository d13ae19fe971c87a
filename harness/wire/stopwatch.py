"""The grader's own clock: a small process with nothing else to do, and a page of memory that it shares with a worker.

    go       | ticket | key  |     written by the stopwatch: the loop begins, and the key takes the mask off its inputs
    queued   | ticket | turns |    written by the worker: all its calls are queued; and how many turns are so far
    release  | ticket |            written by the stopwatch, behind the key: the device may go on
    mark     | ticket |            written by the worker's device: some turns have ended; a second one: all have
    root     | hash   |            written by the worker's device, of a call that is alone: its output is there
    done     | ticket | seal |     written by the worker: the loop has ended, and this is the seal on its outputs

Of a loop that is held, `go` has no key: the worker's host queues calls meanwhile, behind a kernel that waits for
`release`, and only then the clock begins. So how quick a host is makes no time, and nothing of a call can be done while
its inputs are still under their mask. A host that gets no further is waited for no longer than it was given; one that
has queued half of its turns when that happens is far enough ahead, since a driver takes only so many launches.

The grader's process has threads that watch and read, and each of them may hold it up for a millisecond; a message on a
socket takes now a tenth of one, now three. The stopwatch only writes `go`, looks at the marks and at `done` without a
pause, and says how long that took. While a loop can't have come so far it rests: who looks without a pause may share a
core with the worker's thread, which queues calls meanwhile. The ticket of a `done` did not exist before its `go`.

From `go` to `done` some tens of microseconds are the hosts'. Between two marks nothing is, nor between `release` and
`root`: a device writes them. A root that is no hash of the output that is handed over later is found out by the seal.
Run as a script it is that process, which is up in a few hundredths of a second, since nothing but the standard library
is needed.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

SEAL_BYTES = 16
_TICKET, KEY, _DONE, _SEAL, _QUEUED, RELEASED, _TURNS, MARKS, ROOT = 0, 8, 16, 24, 40, 48, 56, (64, 72), 80
"""Where things are on the page."""
_PAGE_BYTES = 4096
_REQUEST = struct.Struct("!d???dIdd8s8s")
"""Seconds at most, whether to wait busily, whether there are marks, whether there is a root, seconds to hold the device
at most, turns that are half of all, seconds to rest before the first mark and after it, ticket, key."""
_ANSWER = struct.Struct("!dddddd???16s16s")
"""When `go` was written, when the clock began, which is with `release` where a loop was held, when the marks, the root
and `done` were there (time.perf_counter of this machine), whether all marks were there by then, whether `done` was, and
whether the host was ahead when `release` was written, seal, root."""
_LOOK_EVERY = 4096
"""Turns of a busy wait between looks at the time and at the socket."""
_LOOK_UP_S = 0.2
_LOOK_AGAIN_S = 2e-5
"""Between looks whether calls are queued: nothing is timed yet, and who looks without a pause may share a core."""
_STILL_S = 2e-3
"""A host that has queued nothing for so long gets no further."""


@dataclass(frozen=True)
class Timed:
    """What the stopwatch saw. Times are those of time.perf_counter."""

    told: float
    """When the loop was told to begin."""
    began: float
    """The same, or when a device that was held was let go."""
    marked: tuple[float, float]
    """When the marks were there."""
    ended: float
    """When the page said that it has ended, or when waiting for that ended."""
    rooted: float
    """When the root was there, or the end where there is none."""
    done: bool
    """Whether the page said so."""
    in_order: bool
    """Whether the marks, if there are any, were there by then."""
    ahead: bool
    """Of a loop that was held: whether its host was ahead of its device when that was let go."""
    seal: str
    """On the outputs, as the page says."""
    root: bytes
    """As it was when it was there; 16 bytes."""


class Stopwatch:
    """Times the loops of one worker. To be closed."""

    def __init__(self, wire_fd: int) -> None:
        """`wire_fd`: the worker's socket. A message on it ends a wait as well; it is not read here."""
        self.page_fd = os.memfd_create("stopwatch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        """The page, for the worker to map. Its size is sealed: looking at a page that is gone is a deadly signal."""
        os.ftruncate(self.page_fd, _PAGE_BYTES)
        fcntl.fcntl(self.page_fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        ours, theirs = socket.socketpair()
        self._control = ours
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, *map(str, (theirs.fileno(), wire_fd, self.page_fd))],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), wire_fd, self.page_fd),
                env={},
            )
        finally:
            theirs.close()

    def time(
        self,
        ticket: bytes,
        key: int,
        *,
        limit_s: float,
        spin: bool,
        gone: Callable[[], bool],
        marks: bool = False,
        root: bool = False,
        hold_s: float = 0.0,
        turns: int = 1,
        rests_s: tuple[float, float] = (0.0, 0.0),
    ) -> Timed:
        """Tell the worker to begin and wait for its end.

        With `hold_s` its device waits until the worker says that its `turns` are queued, for so many seconds at most.
        The end is the page's `done` (with `spin`), a message on the socket, the limit, or the moment in which `gone`
        says that the worker has ended although its socket lives on. `marks` and `root`: whether there are any. Of the
        first mark, or of the end where there are none, nothing is seen for as many seconds as `rests_s` says first, and
        as many as it says last after it.
        """
        began = time.perf_counter()
        written = key.to_bytes(8, sys.byteorder)
        self._control.sendall(
            _REQUEST.pack(limit_s, spin, marks, root, hold_s, -(-turns // 2), *rests_s, ticket, written)
        )
        ended = False
        while not select.select([self._control], [], [], _LOOK_UP_S)[0]:
            if ended:
                now = time.perf_counter()
                return Timed(began, began, (began, began), now, now, False, False, False, "", b"")
            ended = gone()
        answer = _ANSWER.unpack(_all_of(self._control, _ANSWER.size))
        told, sent, first, second, rooted, came, in_order, done, ahead, seal, root_seen = answer
        return Timed(told, sent, (first, second), came, rooted, done, in_order, ahead, seal.hex(), root_seen)

    def close(self) -> None:
        """End it, whatever it waits for."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        os.close(self.page_fd)


class Page:
    """The worker's side of the page."""

    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, _PAGE_BYTES)
        self._ticket = bytes(8)

    @property
    def memory(self) -> mmap.mmap:
        """The page itself, for a device to wait for its release and to write marks."""
        return self._page

    @property
    def ticket(self) -> bytes:
        """Of the loop that runs: 8 bytes, which is what a mark is."""
        return self._ticket

    def mark(self, number: int) -> None:
        """Write a mark from here, where the device was waited for."""
        self._page[MARKS[number] : MARKS[number] + 8] = self._ticket

    def wait_for_go(self) -> tuple[int, str]:
        """Wait, busily, until the next loop may begin; returns its key, if it is not held, and the ticket that its
        answer has to carry."""
        page, last = self._page, self._ticket
        while (ticket := page[_TICKET : _TICKET + 8]) == last:
            pass
        self._ticket = ticket
        return int.from_bytes(page[KEY : KEY + 8], sys.byteorder), ticket.hex()

    def queued(self, turns: int, *, all_of_them: bool) -> None:
        """Say how many turns are queued, and whether these are all."""
        self._page[_TURNS : _TURNS + 8] = turns.to_bytes(8, sys.byteorder)
        if all_of_them:
            self._page[_QUEUED : _QUEUED + 8] = self._ticket

    def done(self, seal: bytes) -> None:
        """Say that the loop has ended."""
        self._page[_SEAL : _SEAL + SEAL_BYTES] = seal
        self._page[_DONE : _DONE + 8] = self._ticket


def _all_of(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise ConnectionError("the stopwatch has ended")
        data += piece
    return data


def _serve(control: socket.socket, wire_fd: int, page: mmap.mmap) -> None:
    """Answer requests until the grader is gone."""
    while True:
        request = _REQUEST.unpack(_all_of(control, _REQUEST.size))
        limit_s, spin, marks, root, hold_s, half, rest_s, rest_later_s, ticket, key = request
        page[ROOT : ROOT + SEAL_BYTES] = bytes(SEAL_BYTES)
        ahead = False
        page[_TURNS : _TURNS + 8] = bytes(8)
        told = time.perf_counter()
        if hold_s:
            page[_TICKET : _TICKET + 8] = ticket
            ahead = _hold(page, ticket, hold_s, half)
        sent = time.perf_counter()
        page[KEY : KEY + 8] = key
        page[RELEASED : RELEASED + 8] = page[_TICKET : _TICKET + 8] = ticket
        until = sent + limit_s
        _rest(rest_s, until, wire_fd)
        root_seen, rooted = bytes(SEAL_BYTES), 0.0
        if root:
            _look(page, partial(_has_root, page), ticket, until, wire_fd)
            root_seen, rooted = page[ROOT : ROOT + SEAL_BYTES], time.perf_counter()
        seen, there = [], []
        for place in (*MARKS, _DONE) if marks else (_DONE,):
            if spin:
                _look(page, partial(_has, page, place, ticket), ticket, until, wire_fd)
            else:
                select.select([wire_fd], [], [], limit_s)
            seen.append(time.perf_counter())
            # A mark that comes after the end has marked nothing.
            there.append(_has(page, place, ticket))
            if place == MARKS[0]:
                _rest(rest_later_s, until, wire_fd)
        *marked, came = seen
        *in_order, done = there
        seal = page[_SEAL : _SEAL + SEAL_BYTES]
        times = told, sent, *(marked or (sent, sent)), rooted or came, came
        control.sendall(_ANSWER.pack(*times, all(in_order), done, ahead, seal, root_seen))


def _hold(page: mmap.mmap, ticket: bytes, seconds: float, half: int) -> bool:
    """Wait until calls are queued, for so long at most; returns whether the host is ahead of the device."""
    now = time.perf_counter()
    until, turns, since = now + seconds, 0, now
    while page[_QUEUED : _QUEUED + 8] != ticket:
        now, seen = time.perf_counter(), int.from_bytes(page[_TURNS : _TURNS + 8], sys.byteorder)
        if seen != turns:
            turns, since = seen, now
        elif turns >= half and now - since > _STILL_S:
            return True
        if now > until:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True


def _rest(seconds: float, until: float, wire_fd: int) -> None:
    """Look at nothing but the socket, for so long at most."""
    if seconds:
        select.select([wire_fd], [], [], max(0.0, min(seconds, until - time.perf_counter())))


def _has(page: mmap.mmap, place: int, ticket: bytes) -> bool:
    return page[place : place + 8] == ticket


def _has_root(page: mmap.mmap) -> bool:
    """Half of one may be there before the other, and no half of a hash is nothing."""
    return any(page[ROOT : ROOT + 8]) and any(page[ROOT + 8 : ROOT + SEAL_BYTES])


def _look(page: mmap.mmap, there: Callable[[], bool], ticket: bytes, until: float, wire_fd: int) -> None:
    """Look without a pause until it is there, or the loop has ended without it. It has to be read afterwards: who is
    held up between two looks finds the end, and what was looked for may have come as well."""
    turns = 0
    while not there() and not _has(page, _DONE, ticket):
        turns += 1
        if turns % _LOOK_EVERY == 0 and (time.perf_counter() > until or select.select([wire_fd], [], [], 0)[0]):
            return


if __name__ == "__main__":
    with contextlib.suppress(OSError, KeyboardInterrupt):
        _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), mmap.mmap(int(sys.argv[3]), _PAGE_BYTES))
    os._exit(0)
