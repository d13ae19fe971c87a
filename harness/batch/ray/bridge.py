"""The process that is Ray's driver.

Ray ends a driver's process a minute after its head has gone silent, and a process that has been connected once can't be
connected again for sure. So this one lives as long as one connection, and nothing of ours is lost with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time

from harness.batch.executor import Lost, NotGraded
from harness.batch.ray.cluster import Cluster, NoCluster
from harness.batch.ray.link import Answer, Ask, Cancel, Close, Link, Refused, Say, Severed

_LOOK_S = 2.0
_LISTEN_S = 5.0


def serve(descriptor: int, address: str, devices: str, patience_s: float, wait_s: float) -> None:
    """Until it is told to close, the executor goes, or the cluster does.

    `wait_s`: how long a head that does not listen yet is waited for.
    """
    asyncio.run(_Bridge(devices, patience_s).serve(socket.socket(fileno=descriptor), address, wait_s))


class _Bridge:
    def __init__(self, devices: str, patience_s: float) -> None:
        self._devices, self._patience_s = devices, patience_s
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._link: Link
        self._cluster: Cluster

    async def serve(self, end: socket.socket, address: str, wait_s: float) -> None:
        self._link = await Link.over(end)
        try:
            await _listening(address, wait_s)
            _connect(address)
            self._cluster = Cluster(self._devices, lambda what: self._link.send(Say(what)), patience_s=self._patience_s)
            self._link.send(await self._cluster.open())
        except NoCluster as error:
            self._link.send(Refused(str(error)))
            await self._leave(1)
        watching = asyncio.create_task(self._watch_head())
        with contextlib.suppress(EOFError):
            while not isinstance(order := await self._link.receive(), Close):
                self._do(order)
            watching.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._cluster.close()
        await self._leave(0)  # Ray ends what a driver that has gone had started

    def _do(self, order: Ask | Cancel) -> None:
        if isinstance(order, Ask):
            self._tasks[order.number] = asyncio.create_task(self._answer(order))
        elif (task := self._tasks.get(order.number)) is not None:
            task.cancel()

    async def _answer(self, ask: Ask) -> None:
        try:
            if ask.what == "build":
                answer = Answer(ask.number, "done", keys=await self._cluster.build(ask.job))
            else:
                answer = Answer(ask.number, "done", report=await self._cluster.grade(ask.job, ask.artifacts))
        except Lost as error:
            answer = Answer(ask.number, "lost", message=str(error))
        except NotGraded as error:
            answer = Answer(ask.number, "not_graded", message=str(error))
        except NoCluster as error:
            self._link.send(Refused(str(error)))
            await self._leave(1)
            return
        except asyncio.CancelledError:
            answer = Answer(ask.number, "cancelled")
        except Exception as error:  # noqa: BLE001 - an answer is owed; what Ray raises depends on its version
            answer = Answer(ask.number, "lost", message=f"Ray failed with {type(error).__name__}: {error}"[:500])
        del self._tasks[ask.number]
        self._link.send(answer)

    async def _watch_head(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._cluster.alive(), self._patience_s)
            except Exception:  # noqa: BLE001 - whatever it is: the head does not answer
                self._link.send(Severed(f"the head of the cluster has not answered for {self._patience_s:.0f} s"))
                await self._leave(1)
            await asyncio.sleep(_LOOK_S)

    async def _leave(self, code: int) -> None:
        with contextlib.suppress(OSError):
            await self._link.flush()
        self._link.close()
        await asyncio.sleep(0)
        os._exit(code)  # Ray's own ending waits for a head that may be gone


async def _listening(address: str, wait_s: float) -> None:
    """Ray itself takes minutes to say that nobody is there. Raises NoCluster."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return  # auto, or a name that only Ray knows to read
    deadline = time.monotonic() + wait_s
    while True:
        try:
            async with asyncio.timeout(_LISTEN_S):
                _, writer = await asyncio.open_connection(host.strip("[]") or "127.0.0.1", int(port))
            writer.close()
            return
        except (OSError, TimeoutError, OverflowError) as error:
            if time.monotonic() >= deadline:
                raise NoCluster(f"nobody listens at {address} ({error or 'no answer'}); is the head running?") from None
            await asyncio.sleep(_LOOK_S)


def _connect(address: str) -> None:
    import ray

    try:
        ray.init(
            address=address,
            namespace="kernel-harness",
            log_to_driver=False,
            configure_logging=False,
            logging_level="ERROR",
        )
    except Exception as error:  # noqa: BLE001 - of many kinds, all for one reason
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise NoCluster(f"there is no Ray cluster at {address!r}: {lines[0][:300]}") from None
