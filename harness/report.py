"""The data that leaves a grading: verdict, reason, evidence.

A report is the whole answer. The terminal table, the JSON document and whatever a server stores are made from it alone,
so nothing may be printed that is not in here. Every model refuses unknown fields; SCHEMA_VERSION moves when a field
changes its meaning or goes.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.audit.findings import Audit
from harness.build.diagnostics import Diagnostic, KernelResources
from harness.profiling.result import Profile

SCHEMA_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="strings")


class Verdict(StrEnum):
    """How a grading ends: one of these and nothing else."""

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    REJECTED = "rejected"
    INVALID_SUBMISSION = "invalid_submission"
    UNSTABLE = "unstable"
    JUDGE_ERROR = "judge_error"


class Reason(_Model):
    """Why the verdict is what it is."""

    code: str = Field(pattern=r"^[a-z]+\.[a-z0-9_]+$")
    """`area.what`, stable, for programs."""
    message: str
    """One or two plain sentences: what happened, where, what to do next."""
    evidence: dict[str, Any] = {}
    """The values behind the message: figures, limits, tracebacks, places."""


class Warning_(_Model):
    """Something a reader should know that did not decide the verdict."""

    code: str = Field(pattern=r"^[a-z]+\.[a-z0-9_]+$")
    """`area.what`, stable, for programs."""
    message: str
    """What was seen, and what to do about it."""
    evidence: dict[str, Any] = {}
    """The values behind the message."""


class ProblemInfo(_Model):
    """Which problem was graded."""

    id: str
    """The folder's or file's name."""
    version: str
    """SHA-256 of what the problem is (reference and settings): equal versions are the same problem."""
    format: str = "kernelbench"
    """What it is written in: kernelbench, gpumode or flashinfer."""
    notes: list[str] = []
    """What that format can't say, or what of it is not followed."""
    workload: str
    """The workload's name; `ranking` where several rank together."""
    args: dict[str, Any] = {}
    """The sizes the workload sets."""


class SubmissionInfo(_Model):
    """Which text was graded."""

    path: str | None
    """Where it was read from, as given; None when it came as text."""
    name: str
    """A short name for tables."""
    sha256: str
    """Of the file's bytes."""


class DeviceInfo(_Model):
    """What it ran on. Fields that a CPU has no counterpart for are None."""

    kind: Literal["cuda", "cpu"]
    """The backend."""
    name: str
    """The device's own name for itself."""
    index: int | None = None
    """Which of the machine's CUDA devices, as CUDA counts them."""
    uuid: str | None = None
    """`GPU-...`, the same in every process and container."""
    compute_capability: str | None = None
    """`9.0` for Hopper."""
    sms: int | None = None
    """Streaming multiprocessors."""
    memory_bytes: int | None = None
    """Device memory; for a CPU the machine's memory."""
    l2_bytes: int | None = None
    """L2 cache; for a CPU the last-level cache."""
    cores: int | None = None
    """CPU cores that the grading may use."""
    shared_memory_per_block_bytes: int | None = None
    """Shared memory that a block gets without asking."""
    shared_memory_per_block_optin_bytes: int | None = None
    """The most a block gets after cudaFuncSetAttribute raised its limit."""
    shared_memory_per_sm_bytes: int | None = None
    """Shared memory of one SM."""
    registers_per_sm: int | None = None
    """32-bit registers of one SM."""
    max_threads_per_sm: int | None = None
    """Resident threads of one SM."""
    max_threads_per_block: int | None = None
    """The largest block that can be launched."""
    warp_size: int | None = None
    """Threads of a warp."""
    sm_clock_max_mhz: int | None = None
    """The highest SM clock the device admits."""
    memory_clock_max_mhz: int | None = None
    """The highest memory clock the device admits."""
    memory_bus_bits: int | None = None
    """Width of the bus to device memory, bits."""
    driver: str | None = None
    """Version of the driver."""
    driver_cuda: str | None = None
    """The newest CUDA version whose programs the driver runs."""
    cuda: str | None = None
    """CUDA version that torch was built with."""
    torch: str
    """Version of torch."""
    python: str
    """Version of Python."""
    platform: str
    """Operating system and machine."""

    @property
    def torch_name(self) -> str:
        """What torch calls it in the process that looked."""
        return "cpu" if self.index is None else f"cuda:{self.index}"


class ExtensionInfo(_Model):
    """One extension that the submission had built."""

    name: str
    """As the submission named it."""
    key: str
    """Content key: equal keys are the same library."""
    cached: bool
    """Whether it was taken from the cache."""
    seconds: float
    """From the request to the finished library."""
    recipe: str
    """Which header set it was compiled against."""


class BuildInfo(_Model):
    """What compiling took and said."""

    seconds: float = 0.0
    """All builds of the grading together."""
    cached: bool = False
    """Whether every extension came from the cache (and there was one)."""
    extensions: list[ExtensionInfo] = []
    """In the order in which the submission asked for them."""
    diagnostics: list[Diagnostic] = []
    """What the compilers said, first errors first."""
    kernels: list[KernelResources] = []
    """Registers, shared memory, stack and spills of each kernel, as ptxas gives them."""
    left_out: list[str] = []
    """What the compilers said beyond that, counted: the lists have an end."""


class LeafReport(_Model):
    """How one leaf (tensor) of the output compares with the reference's, the worst over all trials."""

    path: str
    """Where it stands in the output: `output`, `output[0]`, `output['h']`."""
    shape: list[int]
    """Of the reference's leaf."""
    dtype: str
    """Of the reference's leaf, as in `float32`."""
    ok: bool
    """Whether every element of every trial matched."""
    atol: float
    """Absolute tolerance, before scaling."""
    rtol: float
    """Relative tolerance."""
    scale: float | None = None
    """RMS of the reference's leaf, by which `atol` is multiplied; None where nothing was compared."""
    max_abs_error: float | None = None
    """Largest |y - r|."""
    max_rel_error: float | None = None
    """Largest |y - r| / |r| over elements where r is not zero."""
    rms_error: float | None = None
    """Root mean square of y - r."""
    fraction_outside: float | None = None
    """Share of the elements that are outside the tolerance."""
    outside: int | None = None
    """Count of the elements that are outside the tolerance."""
    worst_index: list[int] | None = None
    """Where the error is farthest beyond the tolerance."""
    worst_value: float | str | None = None
    """The submission's value there."""
    worst_expected: float | str | None = None
    """The reference's value there."""
    worst_trial: int | None = None
    """The trial, or the timed call, it happened in; the first is 1."""
    precision_ratio: float | None = None
    """Error against a float64 run over the reference's own error against it, on the problem's own inputs, as in
    `audit.precision`; None where that was not judged."""
    own_check: str | None = None
    """Where the problem brings a check of its own, which then decides: what it says, empty where it accepts."""
    reading: str = ""
    """One sentence on how to read these figures together."""


class Correctness(_Model):
    """What was compared, and how it came out."""

    trials: int
    """Trials that were compared to the end."""
    trials_asked: int
    """Trials that the workload asks for."""
    weights: Literal["transferred", "seeded", "none"]
    """How the submission got the reference's parameters: copied by name, constructed from the same seed, or there
    are none."""
    leaves: list[LeafReport]
    """Every leaf of the output, of the workload that is graded; of a further one if that came out wrong."""
    also_checked: list[str] = []
    """Further workloads of the problem, of other sizes, that were checked as well."""
    timed_calls_verified: int = 0
    """Outputs of timed calls that were fetched and compared as well."""


class Measurement(_Model):
    """The time of one call."""

    median_us: float
    """Median over the samples, microseconds; of several processes the mean of their medians."""
    ci95_us: tuple[float, float]
    """95 % confidence interval of that, microseconds."""
    mean_us: float
    """Mean over the samples, microseconds."""
    min_us: float
    """Smallest sample, microseconds."""
    warm_us: float | None = None
    """Median of a few calls on an input that was just used, caches warm: for information, it decides nothing."""
    samples_us: list[float]
    """Every sample that counts, in the order in which they were taken."""
    block_sizes: list[int] = []
    """How many of the samples each block holds; blocks of candidate and reference alternate."""
    process_medians_us: list[float] = []
    """Where a call is so short that it matters in which process it runs: the median of each; their blocks alternate."""
    method: str
    """How a sample is taken, in words."""
    step_us: float = 0.0
    """Steps in which the clock counts, as readings of the clean process show them; 0: finer than can be seen."""
    host_bound: bool = False
    """Whether the time includes the host's side, because the call synchronises or its host side is slower."""


class OutsideClock(_Model):
    """The grader's own clock over batches of calls, held against the worker's over the same calls.

    Of several processes of the submission: that in which the clocks disagree most, if they do in one, else the one in
    the middle.
    """

    outside_us: float
    """Time of a call by the grader's clock: from turn to turn of a loop of calls, less the same with a kernel of ours,
    and less what the worker says that the rest of a turn took longer than that one's, up to 1 %."""
    inside_us: float
    """Time of a call by the worker's clock."""
    tolerance_us: float
    """How far the first may be above the second; made from the spread of the measurements."""
    whole_us: float | None = None
    """Time of a call by the grader's clock from walls of whole loops, less what each costs once in a clean one."""
    whole_tolerance_us: float | None = None
    """How far that may be above `inside_us`."""
    quickest_us: float | None = None
    """In earlier reports: mean time of a call in the quickest loop, by the worker's clock."""
    single_us: float | None = None
    """Median time of a call that was alone, by the worker's clock."""
    single_tolerance_us: float | None = None
    """How far `inside_us`, of calls in loops, may be above it."""
    single_outside_us: float | None = None
    """Time of a call that was alone, by the grader's clock over the quicker half of them: its input could not be read
    before that clock ran."""
    single_outside_tolerance_us: float | None = None
    """How far that may be above `single_us`."""
    bare_outside_us: float | None = None
    """Time of a call by the grader's clock with nothing around it, caches as they were: it can't be more than
    `single_us`, with cold caches."""
    bare_tolerance_us: float | None = None
    """How far that may be above `single_us`."""
    calls: int
    """Calls that both timed."""
    by_singles: bool = False
    """Whether walls of single calls say within a tenth what they take. Then those in loops may take longer, and loops
    say nothing unless their hosts were ahead."""
    ahead: bool = True
    """Whether hosts were ahead of their devices in most loops."""
    unsure_us: float | None = None
    """How much longer than was said a call may take by all of this."""
    confirmed: bool
    """Whether they agree."""


class Steadiness(_Model):
    """What the device did while it was timed: the lowest and the highest over all blocks; None: not known."""

    blocks: int
    """Blocks that count, of both sides."""
    measured_again: int
    """Blocks that don't count, because the device was not steady, and were measured again."""
    why: list[str] = []
    """What was seen in those, each once."""
    sm_clock_mhz: tuple[float, float] | None = None
    """Clock of the multiprocessors at work; of a CPU's cores."""
    memory_clock_mhz: tuple[float, float] | None = None
    """Clock of the device's memory."""
    temperature_c: tuple[float, float] | None = None
    """Of the chip, degrees Celsius."""
    power_w: tuple[float, float] | None = None
    """Drawn by the board, watts."""
    throttle: list[str] = []
    """All that held the clocks below their highest, by NVML's names; `sw_power_cap` alone is no unsteadiness."""
    other_processes: list[str] = []
    """Processes, not ours, that had the device open meanwhile."""


class FloorReport(_Model):
    """The least time that the problem's work can take on this device."""

    us: float
    """The fastest legal way's longest resource, microseconds."""
    bound_by: str
    """The resource that takes it, as problem.toml names them: bytes, fp32_flops, ..."""
    way: str
    """The legal way of doing the work that is fastest here; `any` where the problem knows only one."""
    per_resource_us: dict[str, float]
    """What each resource of that way takes, microseconds."""
    peaks: dict[str, float]
    """The device's peaks that this rests on: bytes a second and operations a second."""
    limit_us: float | None
    """A time below this is rejected: 0.9 of the floor, granted that outputs may stay in L2 and that exp and its kin may
    be computed as polynomials. None where the peaks are no bounds: a CPU's are what it reached once."""


class Baseline(_Model):
    """Another way to run the problem's own model, measured in turn with the candidate."""

    measured: Measurement
    """Its time."""
    speedup: float
    """Its median over the candidate's."""
    speedup_ci95: tuple[float, float]
    """95 % confidence interval of that."""
    comparison: Literal["faster", "slower", "same", "undecided"]
    """What that interval allows to say of the candidate."""


class Timing(_Model):
    """Candidate and reference, measured the same way, alternating."""

    candidate: Measurement
    """The submission."""
    reference: Measurement
    """The problem's own model, in a process of its own."""
    speedup: float
    """Median of the reference over median of the candidate."""
    speedup_ci95: tuple[float, float]
    """95 % confidence interval of the speedup."""
    comparison: Literal["faster", "slower", "same", "undecided"] = "undecided"
    """What that interval allows to say of the candidate: `same` when it lies within 2 % of 1, `undecided` when it
    holds 1 and is wider than that."""
    baselines: dict[str, Baseline] = {}
    """What was asked for beside the reference as it is: `compile` is the reference under torch.compile."""
    outside: OutsideClock | None = None
    """What the grader's own clock says; None in reports from before there was one."""
    floor: FloorReport | None = None
    """The least time that the work can take here; None where the problem states none."""
    floor_us: float | None = None
    """The floor, microseconds."""
    fraction_of_floor: float | None = None
    """The floor over the candidate's median: 1 is at the floor, 0.5 takes twice as long as it must."""
    stopped_because: str
    """Why measuring ended: the interval was narrow enough, or a budget was spent."""
    shortfall: str = ""
    """What is missing to the samples and the width of interval that were asked for; empty when nothing is."""
    steadiness: Steadiness | None = None
    """What the device did meanwhile."""


class Score(_Model):
    """What a submission is ranked by."""

    time_us: float
    """Time of one call, microseconds: its median, or the mean of several workloads' medians."""
    time_ci95_us: tuple[float, float]
    """95 % confidence interval of that, microseconds."""
    speedup: float
    """How many times as fast as the reference."""
    speedup_ci95: tuple[float, float]
    """95 % confidence interval of the speedup."""
    comparison: Literal["faster", "slower", "same", "undecided"]
    """What that interval allows to say of the candidate."""
    fraction_of_floor: float | None
    """The floor over the time; of several workloads the mean of their floors over the mean of their times. None where a
    floor is not known."""


class RankedScore(Score):
    """A score made of several workloads."""

    by: Literal["geometric_mean", "mean"]
    """Which mean of the workloads' times it is."""


class WorkloadResult(_Model):
    """One of several workloads that a submission is ranked by."""

    name: str
    """The workload's name."""
    args: dict[str, Any] = {}
    """The sizes it sets."""
    correctness: Correctness | None = None
    """As in a report; None when it was not reached."""
    timing: Timing | None = None
    """As in a report; None when it was not reached."""
    audit: Audit | None = None
    """As in a report; None when it was not reached."""


class Stage(_Model):
    """A stage of the grading and what it took."""

    name: str
    """load, build, check, time, audit or judge."""
    seconds: float
    """Wall clock."""


class Report(_Model):
    """The answer to one grading."""

    schema_version: int = SCHEMA_VERSION
    """Version of this document's shape."""
    harness_version: str
    """Version of the grader."""
    created_at: datetime
    """When the grading ended, UTC."""
    mode: Literal["run", "check", "compile", "profile"] = "run"
    """`run` grades whole; `check` leaves timing out; `compile` only builds; `profile` checks and then profiles."""
    verdict: Verdict
    """The one word."""
    reason: Reason
    """Why."""
    warnings: list[Warning_] = []
    """What else a reader should know."""
    problem: ProblemInfo | None = None
    """None only when the problem could not be read."""
    submission: SubmissionInfo
    """Which text was graded."""
    device: DeviceInfo | None = None
    """None only when no device could be opened."""
    build: BuildInfo = BuildInfo()
    """What compiling took and said."""
    correctness: Correctness | None = None
    """None when it was not reached."""
    timing: Timing | None = None
    """None when it was not reached or not asked for."""
    audit: Audit | None = None
    """What was looked at besides; None when it was not reached."""
    workloads: list[WorkloadResult] = []
    """Where several workloads rank: each of them, in the problem's order. `correctness` and `audit` are then those of
    the workload that decided, of the first where all are right, and `timing` is null. Empty where one alone ranks."""
    ranking: RankedScore | None = None
    """What several workloads come to; None where one alone ranks, or where not all of them were timed."""
    profile: Profile | None = None
    """Where the time of a call goes; None when that was not asked for, or the submission did not pass."""
    stages: list[Stage] = []
    """In the order in which they ran; of several workloads, the time of a stage is that of all."""
    seed: str | None = None
    """A whole number, as text since it has up to 128 bits. Repeats this grading with --seed. Secret while a competition
    runs: whoever shows reports to solvers leaves it out."""
    log: str = ""
    """What the submission printed, capped. A claim, shown to people and never read by the grader."""

    @property
    def score(self) -> Score | None:
        """What to rank by: `ranking`, or the figures of `timing` under the same names; None when it was not timed."""
        if self.ranking is not None or self.timing is None:
            return self.ranking
        timing = self.timing
        return Score(
            time_us=timing.candidate.median_us,
            time_ci95_us=timing.candidate.ci95_us,
            speedup=timing.speedup,
            speedup_ci95=timing.speedup_ci95,
            comparison=timing.comparison,
            fraction_of_floor=timing.fraction_of_floor,
        )

    @property
    def accepted(self) -> bool:
        """Whether the verdict is `accepted`."""
        return self.verdict is Verdict.ACCEPTED

    @property
    def exit_code(self) -> int:
        """The command line's exit code: 0 accepted, 1 graded and not accepted, 3 the judge's own failure."""
        if self.verdict is Verdict.JUDGE_ERROR:
            return 3
        return 0 if self.accepted else 1
