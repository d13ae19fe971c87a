"""What the results of a batch come to: by problem, by level and for all; what failed and why; what took long.

A submission is right when every grading of it was accepted; its speedup is the geometric mean of theirs. Gradings that
failed on our side (`judge_error`) say nothing of a submission and are left out of all shares, but counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict

from harness.batch.statistics import fast_p, geometric_mean, geometric_mean_interval, log_deviation, pass_at_k
from harness.batch.store import Result
from harness.clock.stats import Interval
from harness.report import Report, Verdict

FASTER_THAN = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0, 4.0, 8.0)
"""The p of fast_p that are shown."""
DRAWS = (1, 2, 5, 10, 100)
"""The k of pass@k that are shown, as far as there are so many submissions."""
_SOME = 1e-300
"""The least that a speedup can be: whatever was timed is faster than 0 times the reference."""
_SLOWEST = 5
_EXAMPLES = 3
_WORDS = 200
"""Characters of a diagnostic that go into its group's name."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="strings")


class GroupSummary(_Model):
    """A problem, a level, or all."""

    kind: Literal["problem", "level", "all"]
    """What is counted together."""
    name: str
    """The problem's name; `level N`; `all`."""
    level: int | None
    """Of the problem or the level."""
    problems: int
    """Problems in it."""
    submissions: int
    """Submissions with a verdict."""
    right: int
    """Of those, submissions whose gradings were all accepted."""
    verdicts: dict[str, int]
    """Gradings by verdict."""
    fast_p: dict[str, float]
    """By p: the share of the submissions that is right and more than p times as fast as the reference."""
    fast_p_surely: dict[str, float]
    """By p: the same of those whose speedup's 95 % interval lies above p."""
    pass_at_k: dict[str, float]
    """By k: the chance that one of k submissions is right, the mean over the problems with at least k submissions."""
    speedup: float | None
    """Geometric mean over right submissions that were timed."""
    speedup_ci95: tuple[float, float] | None
    """95 % interval of that, what measuring left open included; of one submission its own. 0 to infinity where nothing
    can be said."""
    speedups: list[float]
    """Of the right submissions that were timed, ascending."""


class FailureGroup(_Model):
    """Gradings that ended alike."""

    reason: str
    """The reason code."""
    diagnostic: str
    """The first error of the compiler, without its place; empty where no compiler complained."""
    gradings: int
    """How many."""
    problems: list[str]
    """Where."""
    examples: list[str]
    """Ids of the first few submissions."""
    message: str
    """The reason's sentence of the first."""


class StageSummary(_Model):
    """A stage over all gradings."""

    name: str
    """As in a report."""
    seconds: float
    """All gradings together."""
    mean_s: float
    """For one that reached it."""
    slowest: list[tuple[str, float]]
    """Ids of the submissions that it took longest for, and seconds."""


class Summary(_Model):
    """A batch."""

    gradings: int
    """Gradings that were done; equal content counts once."""
    results: int
    """Results there are: one for each submission and attempt."""
    groups: list[GroupSummary]
    """All, then levels, then problems."""
    failures: list[FailureGroup]
    """What was not accepted, the most frequent first."""
    stages: list[StageSummary]
    """The longest first."""


@dataclass
class _Submission:
    problem: str
    level: int | None
    verdicts: list[Verdict] = field(default_factory=list)
    speedups: list[float] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return all(verdict is Verdict.ACCEPTED for verdict in self.verdicts)

    @property
    def speedup(self) -> float | None:
        return geometric_mean(self.speedups) if self.right else None

    @property
    def interval(self) -> Interval:
        """Of that. What spoils one trial on a machine may spoil all: several make it no narrower."""
        low, high = (geometric_mean(ends) for ends in zip(*self.intervals, strict=True))
        assert low is not None
        assert high is not None
        return low, high


@dataclass(frozen=True)
class _Ended:
    id: str
    problem: str
    message: str


def summarize(results: Iterable[Result]) -> Summary:
    """Count. Reports are looked at one by one and not kept."""
    submissions: dict[str, _Submission] = {}
    verdicts: dict[tuple[str, int | None], Counter[str]] = defaultdict(Counter)
    failures: dict[tuple[str, str], list[_Ended]] = defaultdict(list)
    stages: dict[str, list[tuple[float, str]]] = defaultdict(list)
    results_there = gradings = 0
    for result in results:
        report = result.report
        results_there += 1
        verdicts[result.problem, result.level][report.verdict.value] += 1
        if result.same_as is None:
            gradings += 1
            for stage in report.stages:
                stages[stage.name].append((stage.seconds, result.id))
        if not report.accepted:
            ended = _Ended(result.id, result.problem, report.reason.message)
            failures[report.reason.code, _first_error(report)].append(ended)
        if report.verdict is not Verdict.JUDGE_ERROR:
            seen = submissions.setdefault(result.id, _Submission(result.problem, result.level))
            seen.verdicts.append(report.verdict)
            if report.accepted and (score := report.score) is not None and 0 < score.speedup < math.inf:
                seen.speedups.append(score.speedup)
                seen.intervals.append((float(score.speedup_ci95[0]), float(score.speedup_ci95[1])))
    return Summary(
        gradings=gradings,
        results=results_there,
        groups=_groups(list(submissions.values()), verdicts),
        failures=[_failure(*item) for item in sorted(failures.items(), key=lambda item: (-len(item[1]), item[0]))],
        stages=sorted((_stage(*item) for item in stages.items()), key=lambda stage: -stage.seconds),
    )


def _groups(
    submissions: Sequence[_Submission], verdicts: dict[tuple[str, int | None], Counter[str]]
) -> list[GroupSummary]:
    def group(kind: Literal["problem", "level", "all"], name: str, level: int | None, only: set[str]) -> GroupSummary:
        counted = sum((count for (problem, _), count in verdicts.items() if problem in only), Counter[str]())
        return _group(kind, name, level, only, [each for each in submissions if each.problem in only], counted)

    names = sorted(verdicts, key=lambda place: (place[1] is None, place[1] or 0, place[0]))
    levels = sorted({level for _, level in names if level is not None})
    return [
        group("all", "all", None, {name for name, _ in names}),
        *(group("level", f"level {each}", each, {name for name, level in names if level == each}) for each in levels),
        *(group("problem", name, level, {name}) for name, level in names),
    ]


def _group(
    kind: Literal["problem", "level", "all"],
    name: str,
    level: int | None,
    problems: set[str],
    submissions: Sequence[_Submission],
    verdicts: Counter[str],
) -> GroupSummary:
    speedups = [each.speedup for each in submissions]
    by_problem: dict[str, list[_Submission]] = defaultdict(list)
    for each in submissions:
        by_problem[each.problem].append(each)
    every = sorted(value for value in speedups if value is not None)
    chances: dict[str, float] = {}
    for k in DRAWS:
        each_problem = [pass_at_k(len(m), sum(s.right for s in m), k) for m in by_problem.values()]
        known = [chance for chance in each_problem if chance is not None]
        if known:
            chances[str(k)] = sum(known) / len(known)
    lowest = [None if each.speedup is None else max(each.interval[0], _SOME) for each in submissions]
    shares = {f"{p:g}": fast_p(speedups, p) for p in FASTER_THAN}
    sure = {f"{p:g}": fast_p(lowest, p) for p in FASTER_THAN}
    return GroupSummary(
        kind=kind,
        name=name,
        level=level,
        problems=len(problems),
        submissions=len(submissions),
        right=sum(each.right for each in submissions),
        verdicts=dict(verdicts.most_common()),
        fast_p={p: share for p, share in shares.items() if share is not None},
        fast_p_surely={p: share for p, share in sure.items() if share is not None},
        pass_at_k=chances,
        speedup=geometric_mean(every),
        speedup_ci95=_interval(list(by_problem.values())),
        speedups=every,
    )


def _interval(by_problem: list[list[_Submission]]) -> Interval | None:
    values, deviations = [], []
    every: list[_Submission] = []
    for members in by_problem:
        timed = [(each, each.speedup) for each in members if each.speedup is not None]
        every += [each for each, _ in timed]
        values.append([value for _, value in timed])
        deviations.append([log_deviation(each.interval) for each, _ in timed])
    if len(every) < 2:
        return every[0].interval if every else None
    return geometric_mean_interval(values, deviations)


def _first_error(report: Report) -> str:
    errors = (each.message for each in report.build.diagnostics if each.severity == "error")
    if report.verdict is not Verdict.COMPILE_ERROR:
        return ""
    return " ".join(next(errors, "").split())[:_WORDS]


def _failure(group: tuple[str, str], members: list[_Ended]) -> FailureGroup:
    return FailureGroup(
        reason=group[0],
        diagnostic=group[1],
        gradings=len(members),
        problems=sorted({each.problem for each in members}),
        examples=list(dict.fromkeys(each.id for each in members))[:_EXAMPLES],
        message=members[0].message,
    )


def _stage(name: str, took: list[tuple[float, str]]) -> StageSummary:
    total = sum(seconds for seconds, _ in took)
    slowest = sorted(took, reverse=True)[:_SLOWEST]
    return StageSummary(
        name=name,
        seconds=round(total, 3),
        mean_s=round(total / len(took), 3),
        slowest=[(identifier, round(seconds, 3)) for seconds, identifier in slowest],
    )
