"""problem.toml as data: every key that exists, its unit and its default.

``parse_spec`` turns text into a ``ProblemSpec`` or raises ``ProblemError`` with a sentence that names the key, where it
is and what to write instead.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
import typing
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from harness.load.expressions import Expression, ExpressionError

DeviceHint = Literal["any", "cuda", "cpu"]
Mean = Literal["geometric_mean", "mean"]
Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "any"]


RANKING = "ranking"
"""What reports and leaderboards call the workloads of ``[ranking]`` together."""


class ProblemError(Exception):
    """The problem itself is at fault. The message is one plain sentence: what, where, what to do next."""


def _check_expression(text: str) -> str:
    Expression.parse(text)
    return text


def _check_arg(value: object) -> object:
    if isinstance(value, list):
        return [_check_arg(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("an integer argument must fit into 64 bits")
    if not isinstance(value, bool | int | float | str):
        raise ValueError("an argument is a number, a bool, a string, or a list of these")
    return value


ExpressionText = Annotated[str, AfterValidator(_check_expression)]
Seconds = Annotated[float, Field(gt=0, le=86400)]
ArgValue = Annotated[Any, AfterValidator(_check_arg)]
"""A number, a bool, a string, or a list of these. One validator and no union, so that an error's place stays a key."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class DtypeTolerance(_Section):
    """``[tolerance.dtype.NAME]``: what overrides ``[tolerance]`` for leaves of one dtype."""

    atol: float | None = Field(default=None, ge=0)
    rtol: float | None = Field(default=None, ge=0)


class Tolerance(_Section):
    """``[tolerance]``: ``|y - r| <= atol * rms(r) + rtol * |r|`` for every element."""

    atol: float | None = Field(default=None, ge=0)
    """Relative to the RMS of the reference's output; None: the default of the leaf's dtype."""
    rtol: float | None = Field(default=None, ge=0)
    """Relative to the element; None: the default of the leaf's dtype."""
    dtype: dict[str, DtypeTolerance] = Field(default_factory=dict)
    """By dtype name without ``torch.``, e.g. ``float16``."""

    def for_dtype(self, dtype: str) -> DtypeTolerance:
        """What this problem says about ``dtype`` ('float32' or 'torch.float32'); None where it says nothing.

        The only place where the order is decided: the dtype's own table, then ``[tolerance]``, then the default of the
        comparison. ``[tolerance]`` itself speaks of floating-point leaves only: integers and bools stay exact unless a
        table names them.
        """
        dtype = dtype.removeprefix("torch.")
        own = self.dtype.get(dtype, DtypeTolerance())
        if not dtype.startswith(("float", "bfloat", "complex")):
            return own
        return DtypeTolerance(
            atol=self.atol if own.atol is None else own.atol,
            rtol=self.rtol if own.rtol is None else own.rtol,
        )


class Limits(_Section):
    """``[limits]``: what a submission may use before the grading ends with a limit verdict."""

    build_s: Seconds = 600.0
    """All of its compiling, seconds of wall clock."""
    import_s: Seconds = 60.0
    """Importing the submission, without building."""
    construct_s: Seconds = 60.0
    """``ModelNew(*get_init_inputs())``."""
    call_s: Seconds = 30.0
    """One call of ``forward``."""
    time_s: Seconds = 30.0
    """The clock's budget for all timed calls of one workload; passing it widens the interval and is no failure."""
    memory_gb: float | None = Field(default=None, gt=0)
    """Host memory of the worker, 10^9 bytes; None: what the machine can spare."""


class WorkloadSpec(_Section):
    """``[workloads.NAME]``: one set of sizes."""

    args: dict[str, ArgValue] = Field(default_factory=dict)
    """Keyword overrides for get_inputs and get_init_inputs; each function gets the ones that it takes."""
    device: DeviceHint = "any"
    """The kind of device that it is meant for; a hint, a user may name any workload on any device."""
    timed: bool = True
    """False: for checking only."""
    trials: int = Field(default=5, ge=1, le=1000)
    """Fresh inputs that are checked."""
    note: str = ""
    """What the workload is there to catch."""


class DefaultWorkload(_Section):
    """``[default_workload]``: the workload that is graded when the user names none, by kind of device."""

    cuda: str = "default"
    cpu: str = "default"


class Ranking(_Section):
    """``[ranking]``: the workloads that are timed and ranked by together when the user names none.

    Those whose ``device`` fits count. A submission has to be right with every one of them.
    """

    workloads: Annotated[tuple[str, ...], Field(strict=False)] = ()
    by: Mean = "geometric_mean"
    """The one figure that is made of their times: their geometric or their arithmetic mean."""


class FloorWork(_Section):
    """Amounts of work that cannot be avoided, as expressions over the workload's sizes."""

    bytes: ExpressionText | None = None
    """Bytes of device memory that must move, reads and writes together."""
    fp64_flops: ExpressionText | None = None
    fp32_flops: ExpressionText | None = None
    """Operations on the fp32 pipes; a multiply-add counts 2."""
    tf32_flops: ExpressionText | None = None
    fp16_flops: ExpressionText | None = None
    """fp16 or bf16 tensor-core operations."""
    special_ops: ExpressionText | None = None
    """exp, log, sqrt, sin and the like: operations of the special-function unit."""


class FloorAlternative(FloorWork):
    """``[[floor.alternatives]]``: one legal way to do a part of the work."""

    name: str = Field(min_length=1)


class Floor(FloorWork):
    """``[floor]``: what every solution must do, and beside it one of ``alternatives`` if there are any."""

    alternatives: Annotated[tuple[FloorAlternative, ...], Field(strict=False)] = ()


class Policy(_Section):
    """``[policy]``: what is allowed that usually is not, and what is asked beyond a right answer."""

    in_place: bool = False
    """A submission may change its inputs."""
    alias_outputs: bool = False
    """An output may share memory with an input or with an earlier call's output."""
    own_kernel_share: float | None = Field(default=None, ge=0, le=1)
    """Least share of the GPU time that the submission's own kernels must have; None: not asked."""


class Baseline(_Section):
    """``[baselines.NAME]``: a known time of somebody's solution, shown beside a result. Never used in a verdict."""

    device: str
    """As the driver names it, e.g. ``NVIDIA H200``."""
    workload: str = "default"
    median_us: float = Field(gt=0)
    note: str = ""


class Verify(_Section):
    """``[verify]``: what the author knows of the problem that `harness verify` would take for a mistake."""

    still: dict[str, str] = Field(default_factory=dict)
    """Inputs (`inputs[0]`) and parameters that rightly do not move the output, each with why."""
    neutral: dict[str, str] = Field(default_factory=dict)
    """Parameters that rightly start as all ones or all zeros, each with why."""


class ProblemSpec(_Section):
    """The whole of problem.toml. Every key is optional."""

    title: str = ""
    summary: str = ""
    precision: Precision = "fp32"
    """The arithmetic that a solution must be as accurate as; 'any': only the tolerance counts."""
    precision_policy: Literal["reject", "flag"] = "reject"
    """What falling short of ``precision`` means."""
    tolerance: Tolerance = Tolerance()
    limits: Limits = Limits()
    workloads: dict[str, WorkloadSpec] = Field(default_factory=lambda: {"default": WorkloadSpec()}, min_length=1)
    default_workload: DefaultWorkload = DefaultWorkload()
    ranking: Ranking = Ranking()
    floor: Floor = Floor()
    policy: Policy = Policy()
    baselines: dict[str, Baseline] = Field(default_factory=dict)
    verify: Verify = Verify()

    def graded_content(self) -> str:
        """Canonical JSON of every key that can change a grading, as written in the file: no titles, no baselines,
        nothing for `harness verify`."""
        content = self.model_dump(mode="json", exclude_unset=True, exclude={"title", "summary", "baselines", "verify"})
        return json.dumps(content, sort_keys=True, ensure_ascii=True)


def parse_spec(text: str, where: str) -> ProblemSpec:
    """Read problem.toml's text; ``where`` names the file in messages. Raises ProblemError."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) or "nested too deeply"
        raise ProblemError(f"{where} is not TOML that can be read: {reason}; correct that line.") from None
    try:
        spec = ProblemSpec.model_validate(document)
    except ValidationError as error:
        raise ProblemError(_explain(error, text, where)) from None
    for name in spec.workloads:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
            raise ProblemError(
                f"{where}: the workload name {name!r} is not usable; "
                "write letters, digits, '_', '-' and '.', 64 at most."
            )
    for name, baseline in spec.baselines.items():
        if baseline.workload not in spec.workloads:
            raise ProblemError(
                f"{where}: [baselines.{name}] is about the workload {baseline.workload!r}, but the workloads are: "
                f"{', '.join(spec.workloads)}; name one of them."
            )
    _check_ranking(spec, where)
    for kind in ("cuda", "cpu"):
        name = getattr(spec.default_workload, kind)
        if name not in spec.workloads:
            raise ProblemError(
                f"{where}: [default_workload] {kind} is {name!r}, but the workloads are: "
                f"{', '.join(spec.workloads)}; name one of them."
            )
    return spec


def _check_ranking(spec: ProblemSpec, where: str) -> None:
    names = spec.ranking.workloads
    for name in names:
        known = spec.workloads.get(name)
        if known is None:
            raise ProblemError(
                f"{where}: [ranking] names the workload {name!r}, but the workloads are: {', '.join(spec.workloads)}; "
                "name some of them."
            )
        if not known.timed:
            raise ProblemError(
                f"{where}: [ranking] names the workload {name!r}, which is timed = false; take it out, or time it."
            )
    if len(set(names)) < len(names):
        raise ProblemError(f"{where}: [ranking] names a workload twice; name each once.")
    if names and RANKING in spec.workloads:
        raise ProblemError(
            f"{where}: a workload is called {RANKING!r}, which is what the ranked ones together are called; rename it."
        )


def _explain(error: ValidationError, text: str, where: str) -> str:
    """One sentence about the first mistake. An unknown key goes first: often a missing one was meant."""
    details = sorted(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    parts = list(first["loc"])
    key, table = str(parts[-1]), ".".join(str(part) for part in parts[:-1])
    place = f"{where}{_line_of(key, text)}"
    section = f"in [{table}]" if table else "at the top level"
    if first["type"] == "extra_forbidden":
        valid = _keys_at(parts[:-1])
        near = difflib.get_close_matches(key, valid, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"the keys there are: {', '.join(valid)}."
        return f"{place}: there is no key {key!r} {section}; {hint}"
    if first["type"] == "missing":
        return f"{place}: the key {key!r} {section} is missing; add it."
    problem = first.get("ctx", {}).get("error", first["msg"])
    if isinstance(problem, ExpressionError):
        return f"{place}: {key!r} {section} cannot be used: {problem}."
    shown = repr(first["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    sentence = str(problem)[:1].lower() + str(problem)[1:]
    return f"{place}: {key!r} {section} is {shown}, which does not fit: {sentence}."


def _keys_at(path: list[int | str]) -> list[str]:
    """The valid keys of the table at ``path``."""
    model: Any = ProblemSpec
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[str(part)].annotation
        else:  # dict[str, Model] or tuple[Model, ...]: the name or the index picks the model
            model = next(arg for arg in typing.get_args(model) if isinstance(arg, type) and issubclass(arg, BaseModel))
    return list(model.model_fields)


def _line_of(key: str, text: str) -> str:
    """``", line 7"`` where exactly one line sets ``key`` or opens its table, else nothing: tomllib keeps no places."""
    pattern = re.compile(rf"""^\s*(?:\[.*\b)?["']?{re.escape(key)}["']?\s*(?:=|\.|\])""")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if pattern.match(line)]
    return f", line {lines[0]}" if len(lines) == 1 else ""
