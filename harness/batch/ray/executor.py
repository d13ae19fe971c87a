"""A Ray cluster as an executor: the end that the batch sees."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO, Any, Literal, Self

from harness.batch.executor import Executor, Gone, Lost, NotGraded
from harness.batch.job import Job
from harness.batch.ray.link import Answer, Ask, Cancel, Close, Link, Opened, Refused, Say, Severed
from harness.report import Report

PATIENCE_S = 30.0
"""How long a silent head, or a cluster without a node that grades, is waited for."""
_OPEN_S = 300.0
"""For a cluster to be ready: actors start and import torch."""
_END_S = 60.0
"""For work to end that was told to."""
_MAIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[5])
from harness.batch.ray.bridge import serve
serve(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[6]))
"""


class RayExecutor(Executor):
    """Grades on the nodes of a cluster that offer it. Made by `connect`."""

    def __init__(self, address: str, devices: str, say: Callable[[str], None], patience_s: float) -> None:
        self._address, self._devices, self._say, self._patience_s = address, devices, say, patience_s
        self._numbers = itertools.count(1)
        self._owed: dict[int, asyncio.Future[Answer]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._link: Link | None = None
        self._changed = asyncio.Condition()
        self._gone: str | None = None
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        address: str = "auto",
        devices: str = "auto",
        *,
        say: Callable[[str], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
    ) -> Self:
        """`address` as `ray.init` takes it; `devices` one of the kinds that the cluster offers, such as `cpu` or
        `NVIDIA_H200`, auto where it offers but one. `say` gets sentences on nodes that are refused or lost.

        Raises Gone when there is no such cluster, or nothing in it can grade.
        """
        if importlib.util.find_spec("ray") is None:
            raise Gone("Ray is not installed: pip install 'kernel-harness[ray]' brings it.")
        if "://" in address:
            # Ray's client passes everything through one process at the head, and knows no node of its own.
            raise Gone(
                f"{address} is a Ray client's address: run the batch on a machine of the cluster; with --num-cpus 0, "
                "`ray start` makes one of this machine that does no work, and HOST:PORT is then the head's own."
            )
        executor = cls(address, devices, say, patience_s)
        try:
            opened = await executor._open()
        except BaseException:
            await executor.close()
            raise
        executor.device, executor.kind = opened.device, opened.kind
        executor.grade_slots, executor.build_slots = opened.grade_slots, opened.build_slots
        executor.builds_disturb = opened.kind == "cpu"
        executor._reading = asyncio.create_task(executor._keep_reading())
        return executor

    device: str
    kind: Literal["cuda", "cpu"]

    async def build(self, job: Job) -> tuple[str, ...]:
        """On any core of the cluster."""
        return (await self._ask("build", job, ())).keys

    async def grade(self, job: Job, artifacts: tuple[str, ...]) -> Report:
        """On any device of the cluster."""
        report = (await self._ask("grade", job, artifacts)).report
        assert report is not None
        return report

    async def close(self) -> None:
        """End what runs in the cluster, and our end of it."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._link is not None:
            self._link.send(Close())
        # One that is not open yet has nothing to end, and may be waiting for a head.
        await self._end_bridge(0.0 if self._link is None else _END_S)

    async def _ask(self, what: Literal["build", "grade"], job: Job, artifacts: tuple[str, ...]) -> Answer:
        async with self._changed:
            await self._changed.wait_for(lambda: self._link is not None or self._gone is not None)
            if self._gone is not None or self._link is None:
                raise Gone(self._gone or "the cluster is gone.")
            number, link = next(self._numbers), self._link
            owed = self._owed[number] = asyncio.get_running_loop().create_future()
            link.send(Ask(number, what, job, artifacts))
        try:
            answer: Answer = await asyncio.shield(owed)
        except asyncio.CancelledError:
            link.send(Cancel(number))
            with contextlib.suppress(TimeoutError, Lost, Gone):
                await asyncio.wait_for(owed, _END_S)
            raise
        finally:
            self._owed.pop(number, None)
        if answer.how == "done":
            return answer
        raise (NotGraded if answer.how == "not_graded" else Lost)(answer.message)

    async def _open(self, wait_s: float = 0.0) -> Opened:
        """Start a bridge and wait until it is there. Raises Gone."""
        ours, theirs = socket.socketpair()
        # A file and no pipe, which nobody would empty; Ray says a lot.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        with theirs:
            arguments = [str(theirs.fileno()), self._address, self._devices, str(self._patience_s)]
            path = json.dumps([os.path.abspath(entry) for entry in sys.path])
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, *arguments, path, str(wait_s)],
                cwd="/",  # Ray makes all nodes import from the folder that a driver was started in
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                start_new_session=True,
            )
        link = await Link.over(ours)
        try:
            async with asyncio.timeout(_OPEN_S):
                while not isinstance(message := await link.receive(), Opened):
                    self._heard(message)
                    if isinstance(message, Refused):
                        raise Gone(message.message)
        except TimeoutError:
            raise Gone(f"the cluster at {self._address!r} was not ready within {_OPEN_S:.0f} s.") from None
        except EOFError:
            raise Gone(f"the connection to the cluster at {self._address!r} ended: {self._last_line()}") from None
        except BaseException:
            link.close()
            raise
        self._link = link
        return message

    async def _keep_reading(self) -> None:
        try:
            await self._read()
        except Exception as error:  # whoever waits for an answer would wait for ever
            await self._set_gone(f"the connection to the cluster failed with {type(error).__name__}: {error}.")
            raise

    async def _read(self) -> None:
        """Whatever comes, for as long as there is a cluster; a lost connection is taken up again once."""
        while True:
            assert self._link is not None
            try:
                while True:
                    message = await self._link.receive()
                    self._heard(message)
                    if isinstance(message, Refused):
                        await self._set_gone(message.message)
                        return
                    if isinstance(message, Severed):
                        lost = message.message
                        break
            except EOFError:
                lost = f"the connection to the cluster was lost: {self._last_line()}"
            self._link.close()
            self._link = None
            self._fail_owed(Lost(lost))
            self._say(f"{lost}; connecting again.")
            try:
                await self._end_bridge(0.0)
                opened = await self._open(self._patience_s)
                if opened.device != self.device:
                    raise Gone(f"the cluster at {self._address!r} has {opened.device} now, and had {self.device}.")
            except Gone as error:
                await self._set_gone(str(error))
                return
            async with self._changed:
                self._changed.notify_all()

    def _heard(self, message: Any) -> None:
        if isinstance(message, Say):
            self._say(message.message)
        elif isinstance(message, Answer) and (owed := self._owed.get(message.number)) is not None and not owed.done():
            owed.set_result(message)

    async def _set_gone(self, message: str) -> None:
        self._gone = message
        self._fail_owed(Gone(message))
        async with self._changed:
            self._changed.notify_all()

    def _fail_owed(self, error: Exception) -> None:
        for owed in self._owed.values():
            if not owed.done():
                owed.set_exception(error)
                owed.exception()  # it may be that nobody waits any more

    async def _end_bridge(self, patience_s: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            await asyncio.to_thread(process.wait, patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._output is not None:
            self._output.close()
            self._output = None
        self._process = None

    def _last_line(self) -> str:
        """Of what the bridge printed: why it ended, as a rule."""
        if self._output is None:
            return "nothing is known"
        size = self._output.seek(0, 2)
        self._output.seek(max(0, size - 4000))
        lines = [line.strip() for line in self._output.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"
