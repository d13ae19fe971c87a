"""The nodes of a cluster that grade: found, asked what they are, refused when they differ, and given work.

    ray.nodes() --offers the resource--> a GradingSlot on each of its devices --same facts--> free slots --> a grading

A device has an actor and not a task for each grading: Ray shows it one GPU for good, torch is imported once, and its
death is seen. Each is bound to its node, so that what was lost on one node is tried again on another.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.batch.executor import Lost, NotGraded
from harness.batch.job import Job
from harness.batch.ray import node as theirs
from harness.batch.ray.facts import PREFIX, Facts, differences, most_common, own_version
from harness.batch.ray.link import Opened
from harness.batch.ray.shelf import Shelf
from harness.report import Report

_LOOK_S = 2.0
"""Between two looks at the list of nodes."""
_GREET_S = 180.0
"""For a node to say what it is; importing torch is most of that."""
_CANCEL_S = 40.0
"""For a grading to end its workers after it was told to."""
_GOING_S = 5.0
_REMEMBERED = 2000
"""Sources whose artifacts are known without a build."""


class NoCluster(Exception):
    """Nothing in the cluster can grade. The message is a sentence."""


@dataclass(eq=False)
class Slot:
    """One device of one node."""

    node: str
    """Ray's id of the node."""
    address: str
    actor: Any = field(repr=False)


class Cluster:
    """Ray's side of it; `ray` is connected already."""

    def __init__(self, devices: str, say: Callable[[str], None], *, patience_s: float) -> None:
        """`devices`: which of the offered resources, without its prefix; auto where only one is offered. `patience_s`:
        how long to wait for a node when none is left."""
        import ray

        self._ray: Any = ray
        self._devices, self._say, self._patience_s = devices, say, patience_s
        self._resource = ""
        self._standard: Facts | None = None
        self._free: list[Slot] = []
        self._slots: set[Slot] = set()
        self._refused: set[str] = set()
        self._changed = asyncio.Condition()
        self._shelf = Shelf()
        self._built: dict[tuple[str, str, str | None], tuple[str, ...]] = {}
        self._lost_on: dict[str, set[str]] = {}
        self._build: Any = None
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> Opened:
        """Find the nodes, and what they have in common. Raises NoCluster."""
        alive = await self.alive()
        self._resource = _chosen(alive, self._devices)
        slots = [slot for node in alive for slot in self._begin(node, self._offered(node))]
        found = await asyncio.gather(*(self._greet(slot) for slot in slots))
        self._standard = most_common((facts for facts in found if isinstance(facts, Facts)), own_version())
        for slot, facts in zip(slots, found, strict=True):
            await self._admit(slot, facts)
        if not self._slots or self._standard is None:
            raise NoCluster(f"no node that offers {self._resource} can be used: they were named above.")
        cores = int(sum(node["Resources"].get("CPU", 0) for node in alive))
        self._build = theirs.remote(theirs.build, num_cpus=1, num_returns=3, max_retries=0, max_calls=100)
        self._looking = asyncio.create_task(self._look_for_nodes())
        return Opened(self._standard.device, self._standard.kind, len(self._slots), max(1, cores))

    async def build(self, job: Job) -> tuple[str, ...]:
        """Build on any core of the cluster. Raises Lost."""
        assert self._standard is not None
        source = (job.problem.version, job.sha256, job.options.sandbox)
        known = self._built.get(source)
        if known and self._shelf.find(known):
            return known
        keys_ref, size_ref, bundle = self._build.remote(job, self._standard.arch)
        keys = tuple(await self._result(keys_ref))
        if keys:
            self._shelf.put(keys, bundle, await self._result(size_ref))
        self._built[source] = keys
        if len(self._built) > _REMEMBERED:
            del self._built[next(iter(self._built))]
        return keys

    async def grade(self, job: Job, artifacts: tuple[str, ...]) -> Report:
        """Grade on a free device, not on a node that has lost this job before while there is another one. Raises Lost,
        NotGraded and NoCluster."""
        assert self._standard is not None
        key = job.key(self._standard.device)
        slot = await self._take(self._lost_on.get(key, set()))
        good = False
        ref = slot.actor.grade.remote(job, *self._shelf.find(artifacts))
        try:
            try:
                how, what = await self._result(ref)
                good = True
            except self._ray.exceptions.ObjectLostError:
                # What was built is lost with the node that built it; this one is as good as before.
                self._shelf.forget(artifacts)
                ref = slot.actor.grade.remote(job)
                how, what = await self._result(ref)
                good = True
        except Lost as lost:
            self._lost_on.setdefault(key, set()).add(slot.node)
            raise Lost(f"{lost} (on {slot.address})") from None
        except asyncio.CancelledError:
            good = await self._cancelled(ref)
            raise
        finally:
            await (self._give(slot) if good else self._drop(slot))
        if how == "report":
            self._lost_on.pop(key, None)
            report: Report = what
            return report
        if how == "lost":
            self._lost_on.setdefault(key, set()).add(slot.node)
            raise Lost(f"{what} (on {slot.address})")
        raise NotGraded(f"{what} (on {slot.address})")

    async def close(self) -> None:
        """End what runs on the nodes."""
        if self._looking is not None:
            self._looking.cancel()
        with contextlib.suppress(Exception):
            closing = [slot.actor.close.remote() for slot in self._slots]
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), _CANCEL_S)

    async def _there(self) -> set[str]:
        """After the time in which the head learns that a node has gone."""
        await asyncio.sleep(_GOING_S if self._looking is not None else 0.0)
        return {node["NodeID"] for node in await self.alive()}

    async def alive(self) -> list[dict[str, Any]]:
        """The nodes that the head says are there. Waits for as long as the head is silent."""
        nodes: list[dict[str, Any]] = await asyncio.to_thread(self._ray.nodes)
        return [node for node in nodes if node["Alive"]]

    def _offered(self, node: dict[str, Any]) -> int:
        return int(node["Resources"].get(self._resource, 0))

    def _begin(self, node: dict[str, Any], count: int) -> list[Slot]:
        """An actor on each of so many of the node's devices."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        cpu = self._resource == f"{PREFIX}cpu"
        name = f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"
        actor = theirs.remote(
            theirs.GradingSlot,
            num_cpus=0,
            num_gpus=0 if cpu else 1,
            resources={self._resource: 1},
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        )
        return [Slot(node["NodeID"], name, actor.remote("cpu" if cpu else "cuda")) for _ in range(count)]

    async def _greet(self, slot: Slot) -> Facts | str:
        """Ask what it is; why it can't be used, if it can't."""
        try:
            found: Facts | str = await asyncio.wait_for(self._result(slot.actor.facts.remote()), _GREET_S)
        except TimeoutError:
            return f"it did not say within {_GREET_S:.0f} s what it is; other work of the cluster may have its devices"
        except (Lost, self._ray.exceptions.RayError) as error:
            return _first_line(error)
        return found

    async def _admit(self, slot: Slot, facts: Facts | str) -> None:
        if isinstance(facts, str):
            why_not = facts
        elif self._standard is not None:
            why_not = differences(self._standard, facts)
        else:
            why_not = f"harness {facts.harness} there, {own_version()} wanted"
        if not why_not:
            self._slots.add(slot)
            await self._give(slot)
            return
        self._ray.kill(slot.actor)
        # A node that is going fails as well; the head may not know yet. What it is does not change.
        if slot.node not in self._refused and (isinstance(facts, Facts) or slot.node in await self._there()):
            self._refused.add(slot.node)
            self._say(f"the node {slot.address} is left out: {why_not}.")

    async def _look_for_nodes(self) -> None:
        """Nodes that come are used as well, and a node that has lost its slots and is still there gets new ones."""
        while True:
            await asyncio.sleep(_LOOK_S)
            alive = await self.alive()
            there = {node["NodeID"] for node in alive}
            for slot in [slot for slot in self._slots if slot.node not in there]:
                await self._drop(slot)
            have = Counter(slot.node for slot in self._slots)
            for node in alive:
                missing = self._offered(node) - have[node["NodeID"]]
                if node["NodeID"] not in self._refused:
                    for slot in self._begin(node, max(0, missing)):
                        await self._admit(slot, await self._greet(slot))

    async def _take(self, avoid: set[str]) -> Slot:
        """Wait for a free slot. Raises NoCluster when there is none at all, free or not, for too long."""
        since: float | None = None
        async with self._changed:
            while True:
                others = [slot for slot in self._slots if slot.node not in avoid]
                good = [slot for slot in self._free if slot in others or not others]
                if good:
                    self._free.remove(good[0])
                    return good[0]
                since = None if self._slots else since or time.monotonic()
                if since is not None and time.monotonic() - since > self._patience_s:
                    raise NoCluster(f"no node that offers {self._resource} is left, and none came back.")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _LOOK_S)

    async def _give(self, slot: Slot) -> None:
        async with self._changed:
            if slot in self._slots:
                self._free.append(slot)
            self._changed.notify_all()

    async def _drop(self, slot: Slot) -> None:
        """What it is doing is not waited for any more."""
        if slot not in self._slots:
            return
        self._slots.discard(slot)
        with contextlib.suppress(ValueError):
            self._free.remove(slot)
        with contextlib.suppress(Exception):
            self._ray.kill(slot.actor)
        self._say(f"the node {slot.address} was lost; {len(self._slots)} devices are left.")
        async with self._changed:
            self._changed.notify_all()

    async def _result(self, ref: Any) -> Any:
        """Raises Lost when whoever owed it is gone."""
        errors = self._ray.exceptions
        try:
            return await ref
        except errors.ObjectLostError:
            raise
        except (errors.RayActorError, errors.WorkerCrashedError, errors.NodeDiedError, errors.RaySystemError) as error:
            raise Lost(_first_line(error)) from None
        except errors.OutOfMemoryError:
            raise Lost("the node had no memory left and Ray ended it") from None
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                self._ray.cancel(ref)
            raise

    async def _cancelled(self, ref: Any) -> bool:
        """Whether the work has ended in time."""
        try:
            await asyncio.wait_for(asyncio.shield(_ended(ref)), _CANCEL_S)
        except TimeoutError:
            return False
        return True


async def _ended(ref: Any) -> None:
    with contextlib.suppress(Exception):
        await ref


def _chosen(alive: list[dict[str, Any]], devices: str) -> str:
    """The resource that is meant."""
    offered: list[str] = sorted({name for node in alive for name in node["Resources"] if name.startswith(PREFIX)})
    if not offered:
        raise NoCluster(
            f'none of the {len(alive)} nodes offers to grade: start them with --resources "$(harness device --ray)".'
        )
    if devices == "auto" and len(offered) == 1:
        return offered[0]
    if PREFIX + devices in offered:
        return PREFIX + devices
    which = "the cluster offers more than one kind" if devices == "auto" else f"the cluster does not offer {devices!r}"
    names = ", ".join(name.removeprefix(PREFIX) for name in offered)
    raise NoCluster(f"{which}; name with --devices one of: {names}.")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:300]
