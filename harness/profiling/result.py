"""A profile as it stands in the report. Names, times and counters are the word of the submission's process."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Bound = Literal["memory", "compute", "latency", "launch"]
"""What a kernel or a call waits for most; docs/profile.md says how it is decided."""
Origin = Literal["extension", "text", "library"]
Limiter = Literal["registers", "shared memory", "threads", "blocks"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="strings")


class CallTime(_Model):
    """The time of a call, from a few calls: a look, not what `harness run` measures."""

    us: float
    """Median, microseconds: L2 cold, behind queued work, as in `harness run`; on a CPU caches cold."""
    range_us: tuple[float, float]
    """The quickest and the slowest of them."""
    host_us: float
    """Median time until forward returned, microseconds."""
    calls: int
    """How many."""
    host_bound: bool = False
    """Whether `us` includes the host's side, because the call synchronises or the host is slower than the device."""
    floor_us: float | None = None
    """The least time that the work can take here, as in `timing.floor_us` of a graded report; None where it is not
    known."""
    needed_bytes: float | None = None
    """Bytes that the problem says must cross the memory: inputs read once, outputs written once."""


class Occupancy(_Model):
    """How full an SM can be with a kernel, from its launch and the device's limits."""

    warps_per_sm: int
    """Warps that can be resident at once."""
    share: float
    """Of the warps that an SM has room for."""
    blocks_per_sm: int
    """Blocks that can be resident at once."""
    limited_by: list[Limiter]
    """What keeps another block out; several where they run out together."""
    waves: float
    """Blocks of the launch over the blocks that the whole device holds at once."""


class Counters(_Model):
    """What Nsight Compute read of a kernel, each launch alone and with cold caches; sums are over `launches`."""

    launches: int
    """Launches that were counted."""
    time_us: float
    """Microseconds of these launches together, by Nsight Compute."""
    dram_read_bytes: float | None = None
    """Bytes read from device memory."""
    dram_write_bytes: float | None = None
    """Bytes written to device memory."""
    dram_bytes_per_s: float | None = None
    """Both, over the time."""
    share_of_peak: float | None = None
    """That, over the device's peak bandwidth (`harness device`)."""
    dram_throughput: float | None = None
    """Nsight Compute's own share: of what the memory's pins could move."""
    memory_throughput: float | None = None
    """Use of the busiest part of the memory system (DRAM, L2, L1 and shared memory), as a share of its peak."""
    compute_throughput: float | None = None
    """Use of the busiest part of the SMs, as a share of its peak."""
    l1_throughput: float | None = None
    """The same of L1 and shared memory."""
    l2_throughput: float | None = None
    """The same of L2."""
    l1_hit_rate: float | None = None
    """Share of the sectors that L1 had."""
    l2_hit_rate: float | None = None
    """Share of the sectors that L2 had."""
    sectors: float | None = None
    """Sectors of 32 bytes that loads and stores of global memory asked for."""
    needed_sectors: float | None = None
    """Sectors that would have done, had the bytes of each instruction lain side by side."""
    sector_factor: float | None = None
    """The first over the second, counted by instruction: 1 is coalesced, 8 uses 4 of every 32 bytes."""
    sectors_per_request: float | None = None
    """Sectors of one instruction of a warp: 4 for 4-byte values side by side, 16 for 16-byte ones, 32 at worst."""
    local_sectors: float | None = None
    """Sectors asked for in local memory: spilled registers, and arrays that are indexed at run time."""
    shared_wavefronts: float | None = None
    """Passes over shared memory."""
    bank_conflicts: float | None = None
    """Those of them that only bank conflicts made necessary."""
    occupancy: float | None = None
    """Warps that were resident on average, as a share of what an SM has room for."""
    occupancy_limit: float | None = None
    """The most that this launch allows, by Nsight Compute."""
    limited_by: list[Limiter] = []
    """What keeps another block out, by Nsight Compute."""
    issue_rate: float | None = None
    """Instructions that a scheduler issued a cycle, 1 at most."""
    threads_per_instruction: float | None = None
    """Threads that took part in an instruction, of 32."""
    tensor_use: float | None = None
    """Use of the tensor cores, as a share of their peak."""
    fma_use: float | None = None
    """Use of the pipe for fp32 multiply-adds, as a share of its peak."""
    stalls: dict[str, float] = {}
    """Cycles that a warp waited for each reason, for each instruction that was issued."""


class KernelProfile(_Model):
    """One kernel with one launch configuration."""

    name: str
    """As the profiler shows it."""
    origin: Origin
    """Where a kernel of this name comes from, as in `audit.kernels`."""
    own: bool
    """Whether the submission brought it."""
    launches: int
    """In one call."""
    us: float
    """Microseconds of these launches together."""
    share: float
    """Of the time of all kernels and copies of the call."""
    grid: tuple[int, int, int]
    """Blocks."""
    block: tuple[int, int, int]
    """Threads of a block."""
    registers: int
    """Of a thread."""
    shared_bytes: int
    """Shared memory of a block, static and dynamic."""
    occupancy: Occupancy | None = None
    """None where the device's limits are not known."""
    spilled_bytes: int = 0
    """Bytes a thread that ptxas spilled to local memory, stores and loads."""
    bound: Bound | None = None
    """None where the counters were not read."""
    counters: Counters | None = None
    """None where they were not read."""


class CopyProfile(_Model):
    """Copies and fills of one kind."""

    name: str
    """As the profiler shows it: `Memcpy HtoD (Pageable -> Device)`."""
    count: int
    """In one call."""
    us: float
    """Microseconds together."""
    bytes: int
    """Bytes together."""


class HostCall(_Model):
    """One function of CUDA's API, on the host."""

    name: str
    count: int
    """In one call of forward."""
    us: float
    """Microseconds together, waiting included."""


class Gap(_Model):
    """A time in which the device had nothing to do."""

    us: float
    after: str
    """What ran before it."""
    before: str
    """What ran after it."""


class DeviceTime(_Model):
    """What the GPU did in one call that was traced, the harness's own work left out."""

    span_us: float
    """From the first start to the last end."""
    busy_us: float
    """In which something ran."""
    gap_us: float
    """In which nothing did."""
    gaps: list[Gap] = []
    """The longest."""
    launches: int
    """Kernels."""
    streams: int
    """Streams that something ran on."""
    left_out: int = 0
    """Launches beyond what a trace holds: their time is in `busy_us`, and no more is known of them."""


class OperatorProfile(_Model):
    """On a CPU: one operator of torch's, or one function of an extension."""

    name: str
    """`aten::mm`, or `extension: NAME`."""
    count: int
    """In one call."""
    self_us: float
    """Microseconds in it, without the operators that it calls."""
    share: float
    """Of the time of all of them."""


class Traffic(_Model):
    """Bytes of a call against the bytes that the problem needs."""

    needed_bytes: float
    """Inputs read once and outputs written once, as the problem's floor says."""
    dram_bytes: float
    """Bytes that crossed the device memory, of all kernels of the call."""
    factor: float
    """The second over the first."""
    asked_bytes: float
    """32 bytes for each sector that loads and stores of global memory asked L1 for."""
    asked_factor: float
    """That over the needed bytes."""
    covered: float = 1.0
    """Share of the kernels' time that was counted; what was not is taken to be like it."""


class CounterSource(_Model):
    """Whether hardware counters were read, and by what."""

    read: bool
    tool: str | None = None
    """`Nsight Compute 2025.3.1.0`; None where there is none."""
    launches: int = 0
    """Launches that were counted, the first ones of the call."""
    why_not: str = ""
    """Why they were not read, or not of all launches, and what to do about it."""


class Finding(_Model):
    """One thing that costs time."""

    code: str = Field(pattern=r"^[a-z]+\.[a-z0-9_]+$")
    """`area.what`, stable, for programs."""
    message: str
    """One sentence with its figure."""
    advice: str
    """What to try."""
    kernel: str | None = None
    """The kernel that it is about; None where it is the call."""
    figures: dict[str, float | str] = {}
    """The values behind the message."""
    gain_us: float | None = None
    """An estimate of what a call could take less, microseconds; None where nothing can be said."""
    gain: float | None = None
    """The same as a share of the call."""


class Profile(_Model):
    """Where the time of a call goes."""

    call: CallTime
    bound: Bound | None = None
    """Of the call: `launch` where the device waits for launches, else that of the longest kernel."""
    bound_why: str = ""
    """How that was decided, in a sentence."""
    findings: list[Finding] = []
    """At most five, what could gain most first."""
    device: DeviceTime | None = None
    """None on a CPU, and where there was no trace."""
    kernels: list[KernelProfile] = []
    """Longest first."""
    copies: list[CopyProfile] = []
    """Copies and fills of memory in the call."""
    host: list[HostCall] = []
    """Functions of CUDA's API that the call used, longest first."""
    operators: list[OperatorProfile] = []
    """On a CPU, longest first."""
    cores_used: float | None = None
    """On a CPU: processor time of a call over its wall clock."""
    traffic: Traffic | None = None
    """None where counters were not read, or the problem says nothing of its bytes."""
    counters: CounterSource
    left_out: list[str] = []
    """What else could not be seen, and why."""
