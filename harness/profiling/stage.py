"""The profile stage: a submission that has passed the check is looked at while it works.

    worker of the check --Bench--> a few timed calls          CallTime
                        --timeline--> events of one call      kernels, gaps, copies, host calls; operators on a CPU
    second worker [ncu] --counted--> raw page --> launches    Counters of each kernel
                                                |
                        bounds, rules --> Profile with its findings

The second worker runs the same submission in the same kind of sandbox, with Nsight Compute around it inside; see
ncu.py. What it does decides nothing: where it fails, the profile says what is missing and why.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.audit.findings import KernelUse
from harness.audit.kernels import attribute, names_in_library, names_in_text, plain_name
from harness.check.oracle import Oracle
from harness.clock.bench import Bench, Sample
from harness.clock.floor import floor_us
from harness.clock.peaks import Peaks
from harness.judge.evidence import Evidence
from harness.load.problem import Problem, Workload
from harness.profiling.bounds import call_bound, kernel_bound
from harness.profiling.call_rules import A_CORE
from harness.profiling.counted import Counted
from harness.profiling.counters import counters, matched
from harness.profiling.facts import Facts
from harness.profiling.occupancy import occupancy
from harness.profiling.result import CallTime, CounterSource, KernelProfile, OperatorProfile, Origin, Profile, Traffic
from harness.profiling.rules import findings
from harness.profiling.timeline import Group, copies, device_time, groups, host_calls, operators
from harness.report import DeviceInfo
from harness.seeds import Seeds
from harness.workers import claims
from harness.workers.worker import Worker

_IDLE_US = 250.0
"""Idling before a call that is traced, in which the host gets ahead of the device."""
_CALLS, _CALLS_S = 9, 1.0
"""Timed calls, and how long they may take together."""
_SECTOR = 32
_SOURCE = "profile in"
_KERNELS = 40
_COPIES = 40


@dataclass(frozen=True)
class Setting:
    """What a profile is made against."""

    problem: Problem
    workload: Workload
    device: DeviceInfo
    peaks: Peaks | None
    source: str
    """The submission's text."""
    call_limit_s: float


class ProfileStage:
    """Profiles one submission."""

    def __init__(self, worker: Worker, oracle: Oracle, seeds: Seeds, evidence: Evidence, setting: Setting) -> None:
        self._worker, self._oracle, self._seeds = worker, oracle, seeds
        self._evidence, self._set = evidence, setting
        self._left_out: list[str] = []

    def run(self, say: Callable[[str], None], count: Callable[[Oracle], Counted]) -> Profile:
        """Look at everything. `count` has the call run under Nsight Compute, or says why not."""
        say("timing some calls")
        bench = Bench(self._worker, self._oracle, self._seeds, itertools.count(), call_limit_s=self._set.call_limit_s)
        call = self._time(bench)
        say("tracing a call")
        seen = self._trace(bench)
        counted = Counted(CounterSource(read=False, why_not="A CPU's counters are not read."), [])
        if self._worker.torch_device.type == "cuda":
            say("reading counters")
            counted = count(self._oracle)
        return self._put_together(call, seen, counted)

    def _time(self, bench: Bench) -> CallTime:
        bench.choose_mode(bench.empty_turns_us(), bench.probe_queued_us())
        samples: list[Sample] = []
        began = time.monotonic()
        while len(samples) < _CALLS and (len(samples) < 3 or time.monotonic() - began < _CALLS_S):
            samples.append(bench.single())
            bench.forget()
        device, peaks = bench.mode == "device", self._set.peaks
        # What a pair of events reads beside a kernel is not the kernel's.
        beside_us = peaks.event_offset_us if device and peaks is not None else 0.0
        elapsed = [max(0.0, sample.elapsed_us - beside_us) for sample in samples]
        ways = self._set.problem.floor_ways(self._set.workload)
        floor = None if peaks is None or peaks.kind == "cpu" else floor_us(ways, peaks)
        needed = min((way.work["bytes"] for way in ways if way.work.get("bytes")), default=None)
        return CallTime(
            us=statistics.median(elapsed),
            range_us=(min(elapsed), max(elapsed)),
            host_us=statistics.median(sample.host_us for sample in samples),
            calls=len(samples),
            host_bound=self._worker.torch_device.type == "cuda" and not device,
            floor_us=None if floor is None else floor.us,
            needed_bytes=needed,
        )

    def _trace(self, bench: Bench) -> claims.Timeline:
        inputs = self._oracle.inputs(self._seeds.of("profile inputs", 0))
        self._worker.put(_SOURCE, tuple(inputs))
        # As it is timed: where the host can't keep ahead of the device, nothing is before a call either.
        queue_us = _IDLE_US if bench.mode == "device" else 0.0
        seen = self._worker.timeline(_SOURCE, queue_us, self._set.call_limit_s)
        self._worker.drop([_SOURCE])
        if seen.note:
            self._left_out.append(f"What a call does: {seen.note[:300]}.")
        return seen

    def _put_together(self, call: CallTime, seen: claims.Timeline, counted: Counted) -> Profile:
        on_cpu = self._worker.torch_device.type == "cpu"
        if seen.cut:
            self._left_out.append(f"{seen.cut} launches after the first ones: a trace holds only so many events.")
        cores_used = seen.cpu_us / seen.wall_us if seen.wall_us else None
        if cores_used is not None and cores_used < A_CORE:
            self._left_out.append(
                f"Times on a quiet machine: a call had {cores_used:.2g} of a core, so something else had it, or the "
                "call waits."
            )
        device = device_time(seen)
        busy_us = sum(event.us for event in seen.device) + seen.cut_us
        found = groups(seen)
        if len(found) > _KERNELS:
            self._left_out.append(f"{len(found) - _KERNELS} more kernels, each shorter than those that are shown.")
        copied = copies(seen)
        if len(copied) > _COPIES:
            self._left_out.append(f"{len(copied) - _COPIES} more kinds of copies, each shorter than those shown.")
        kernels = self._kernels(found, busy_us, counted)
        bound, why = call_bound(call, device, kernels)
        profile = Profile(
            call=call,
            bound=bound,
            bound_why=why,
            device=device,
            kernels=kernels,
            copies=copied[:_COPIES],
            host=[] if on_cpu else host_calls(seen),
            operators=self._operators(seen) if on_cpu else [],
            cores_used=cores_used,
            traffic=traffic(kernels, call.needed_bytes, seen.cut_us),
            counters=counted.source,
            left_out=self._left_out,
        )
        facts = Facts(profile, self._set.device, self._set.peaks, self._set.problem.floor_ways(self._set.workload))
        return profile.model_copy(update={"findings": findings(facts)})

    def _kernels(self, found: Sequence[Group], busy_us: float, counted: Counted) -> list[KernelProfile]:
        builds = [build for build in self._evidence.builds if build.ok]
        names = dict.fromkeys(group.launch[0] for group in found)
        uses = attribute(
            [(name, 1, 0.0) for name in names],
            library=set().union(*(names_in_library(each.library) for each in builds if each.library is not None)),
            text=names_in_text(self._set.source),
            compiled=[kernel.name for build in builds for kernel in build.kernels],
            calls=1,
        )
        origins = {use.name: use for use in uses}
        spills = {
            plain_name(kernel.name): kernel.spill_store_bytes + kernel.spill_load_bytes
            for build in builds
            for kernel in build.kernels
        }
        of_group = matched(found, counted.launches)
        peak = None if self._set.peaks is None else self._set.peaks.bytes_per_s
        made = []
        for place, group in enumerate(found[:_KERNELS]):
            name, grid, block, registers, shared = group.launch
            read = counters(of_group.get(place, []), peak)
            made.append(
                KernelProfile(
                    name=name,
                    origin=_origin(origins[name]),
                    own=origins[name].own,
                    launches=group.count,
                    us=group.us,
                    share=group.us / busy_us if busy_us > 0 else 0.0,
                    grid=grid,
                    block=block,
                    registers=registers,
                    shared_bytes=shared,
                    occupancy=occupancy(self._set.device, grid, block, registers, shared),
                    spilled_bytes=spills.get(plain_name(name), 0),
                    bound=kernel_bound(read),
                    counters=read,
                )
            )
        return made

    def _operators(self, seen: claims.Timeline) -> list[OperatorProfile]:
        found = operators(seen)
        if not found and not seen.note:
            self._left_out.append("Operators: the call used none of torch's, and no function of an extension.")
        if any(each.name.startswith("extension: ") for each in found):
            self._left_out.append(
                "What an extension's function does inside: that takes a sampling profiler, such as perf, outside."
            )
        return found


def _origin(use: KernelUse) -> Origin:
    """A kernel with a copy's name is a library's all the same."""
    return "library" if use.origin == "copy" else use.origin


def traffic(kernels: Sequence[KernelProfile], needed_bytes: float | None, cut_us: float = 0.0) -> Traffic | None:
    """Bytes of all kernels over those that the problem needs; launches that were not counted are taken to be like those
    of the same kernel that were, and kernels that were not, or not even traced (`cut_us`), like the rest."""
    whole_us = sum(kernel.us for kernel in kernels) + cut_us
    dram = asked = seen_us = 0.0
    for kernel in kernels:
        read = kernel.counters
        if read is None or read.dram_read_bytes is None or read.dram_write_bytes is None or read.sectors is None:
            continue
        scale = kernel.launches / read.launches
        dram += (read.dram_read_bytes + read.dram_write_bytes) * scale
        asked += read.sectors * _SECTOR * scale
        seen_us += kernel.us
    if not needed_bytes or not seen_us:
        return None
    covered = seen_us / whole_us
    return Traffic(
        needed_bytes=needed_bytes,
        dram_bytes=dram / covered,
        factor=dram / covered / needed_bytes,
        asked_bytes=asked / covered,
        asked_factor=asked / covered / needed_bytes,
        covered=covered,
    )
