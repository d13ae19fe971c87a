"""This machine as an executor: a process for each grading at a time, and one for each core that builds ahead.

Artifacts are the entries of the build cache, which builders and gradings share, so their keys need no moving. The lock
of the device still holds between all gradings of the machine, also those of other programs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence

from harness.batch.doing import WRONG_USE, build_job
from harness.batch.executor import Executor, Lost, NotGraded
from harness.batch.job import Job, Options
from harness.batch.kept import get_ready, grade_here
from harness.batch.lane import Lane, LaneLost
from harness.machine.device import Device, DeviceError, list_devices, open_device
from harness.report import Report


class LocalExecutor(Executor):
    """Grades on the devices of this machine."""

    def __init__(self, devices: Sequence[Device], *, build_slots: int | None = None, overlap: int = 1) -> None:
        """`overlap`: gradings begun on each device at a time. Only one has the device; of the others the workers import
        torch meanwhile, and have no context before it is their turn. `build_slots`: builds at once, by default one for
        each core.

        Raises DeviceError for devices that differ: their figures could not be compared.
        """
        names = sorted({device.info.name for device in devices})
        if len(names) != 1:
            raise DeviceError(
                f"The devices differ ({', '.join(names)}), so times on them can't be compared; name some of one kind."
            )
        self.device = names[0]
        self.kind = devices[0].kind
        self.builds_disturb = self.kind == "cpu"
        self.grade_slots = len(devices) * overlap
        self.build_slots = build_slots or len(os.sched_getaffinity(0))
        self._arch = devices[0].arch
        self._alone = overlap == 1
        self._getting_ready: list[asyncio.Task[None]] = []
        self._graders: asyncio.Queue[tuple[str, Lane]] = asyncio.Queue()
        self._builders: asyncio.Queue[Lane] = asyncio.Queue()
        # Device by device in turn, so that the first few jobs spread over all of them.
        graders = [(device.torch_name, Lane()) for _ in range(overlap) for device in devices]
        builders = [Lane() for _ in range(self.build_slots)]
        for grader in graders:
            self._graders.put_nowait(grader)
        for builder in builders:
            self._builders.put_nowait(builder)
        self._lanes = [lane for _, lane in graders] + builders

    @property
    def pids(self) -> list[int]:
        """Of the processes that are there now."""
        return [lane.pid for lane in self._lanes if lane.pid is not None]

    async def build(self, job: Job) -> tuple[str, ...]:
        """Compile the submission in a process that has no device."""
        lane = await self._builders.get()
        try:
            return await lane.call(build_job, job, self._arch)
        except LaneLost as error:
            raise Lost(str(error)) from None
        except WRONG_USE:
            return ()  # the grading will say so
        finally:
            self._builders.put_nowait(lane)

    async def grade(self, job: Job, artifacts: tuple[str, ...]) -> Report:
        """Grade on the first device that is free."""
        device, lane = await self._graders.get()
        try:
            return await lane.call(grade_here, job, device, self._alone)
        except LaneLost as error:
            raise Lost(str(error)) from None
        except WRONG_USE as error:
            raise NotGraded(str(error)) from None
        finally:
            self._graders.put_nowait((device, lane))

    def get_ready(self, options: Options) -> None:
        """Have the processes of the devices started, and workers prepared, before there is a first job."""
        every = [self._graders.get_nowait() for _ in range(self._graders.qsize())]
        for device, lane in every:
            self._graders.put_nowait((device, lane))
            self._getting_ready.append(asyncio.create_task(_got_ready(lane, options, device, self._alone)))

    async def close(self) -> None:
        """End all processes."""
        for task in self._getting_ready:
            task.cancel()
        await asyncio.gather(*self._getting_ready, return_exceptions=True)
        await asyncio.gather(*(lane.close() for lane in self._lanes))


def local_devices(spec: str) -> list[Device]:
    """The devices that `cpu`, `cuda:0,cuda:1` or `auto` mean; auto is every GPU, else the CPU. Raises DeviceError."""
    if spec.strip().lower() == "auto":
        every = list_devices()
        return [device for device in every if device.kind == "cuda"] or every
    names = [name.strip() for name in spec.split(",") if name.strip()]
    found = {device.torch_name: device for device in map(open_device, names)}
    if not found or len(found) < len(names):
        raise DeviceError(f"--devices {spec}: name each device once, as in cuda:0,cuda:1.")
    return list(found.values())


async def _got_ready(lane: Lane, options: Options, device: str, alone: bool) -> None:
    # What fails here fails again in the first grading, which says so.
    with contextlib.suppress(LaneLost, *WRONG_USE):
        await lane.call(get_ready, options, device, alone)
