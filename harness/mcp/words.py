"""Answers for a model: plain lines first, then the few figures that a program would want; both of bounded size.

The lines are those of the terminal's table, from the same code, without its frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.batch.problems import Named
from harness.cli import devices as device_rows
from harness.cli import sanitize as sanitize_rows
from harness.cli import text
from harness.cli.sections import Row
from harness.cli.table import all_sections
from harness.jsontext import writable
from harness.load.problem import DeviceKind, Problem
from harness.mcp.advice import next_steps, sanitizing_steps
from harness.mcp.bench import DeviceFound
from harness.report import Report
from harness.sanitizing.findings import Finding, Sanitizing

MAX_ANSWER = 8_000
"""Characters of an answer's text."""
MAX_STATEMENT = 6_000
MAX_REFERENCE = 8_000
MAX_LISTED = 60
"""Problems of a list, entries of a leaderboard."""
MAX_FINDINGS = 5
"""Of each of compute-sanitizer's tools: one mistake often shows in many places."""
_MAX_LINE = 1_000
_CUT = "\n... cut here; ask for less, or look at the file itself ..."


def report_words(report: Report) -> str:
    """The verdict, why, what to try next, and then what the terminal shows."""
    lines = [f"{report.verdict.value.upper()} ({report.reason.code}): {text.one_line(report.reason.message, 1_500)}"]
    lines += [f"NEXT: {step}" for step in next_steps(report)]
    for section in all_sections(report, ascii_only=True):
        lines += _rows(row for row in section if row.label != "reason")
    return capped("\n".join(lines))


def report_figures(report: Report) -> dict[str, Any]:
    """What a program compares. Numbers that JSON has no word for are the report's own strings for them."""
    figures: dict[str, Any] = {"verdict": report.verdict.value, "code": report.reason.code, "mode": report.mode}
    figures["build_s"] = round(report.build.seconds, 3)
    if (timing := report.timing) is not None:
        figures |= {
            "time_us": timing.candidate.median_us,
            "time_ci95_us": list(timing.candidate.ci95_us),
            "reference_us": timing.reference.median_us,
            "speedup": timing.speedup,
            "speedup_ci95": list(timing.speedup_ci95),
            "fraction_of_floor": timing.fraction_of_floor,
        }
    if report.profile is not None:
        figures |= {"time_us": report.profile.call.us, "bound": report.profile.bound}
        figures["gains"] = [finding.gain for finding in report.profile.findings]
    if report.ranking is not None:
        figures |= {"ranked_time_us": report.ranking.time_us, "ranked_speedup": report.ranking.speedup}
    if report.correctness is not None:
        figures["max_abs_error"] = max((leaf.max_abs_error or 0.0 for leaf in report.correctness.leaves), default=0.0)
    written: dict[str, Any] = writable(figures)
    return written


def sanitizing_words(found: Sanitizing) -> str:
    """Whether it is clean, what to try next, and then what the terminal shows, of each tool the first findings."""
    head, *rest = (line.plain for line in sanitize_rows.lines(found, MAX_FINDINGS))
    return capped("\n".join([head, *(f"NEXT: {step}" for step in sanitizing_steps(found)), *rest]))


def sanitizing_figures(found: Sanitizing) -> dict[str, Any]:
    """What a program looks at."""
    shown = [finding for run in found.runs for finding in run.findings[:MAX_FINDINGS]]
    figures: dict[str, Any] = writable(
        {
            "clean": found.clean,
            "workload": found.workload,
            "tools": {run.tool: {"findings": len(run.findings), "ended": run.ended} for run in found.runs},
            "findings": [_finding_figures(finding) for finding in shown],
        }
    )
    return figures


def _finding_figures(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "tool": finding.tool,
        "kind": finding.kind,
        "kernel": text.one_line(finding.kernel, 120),
        "file": None if place is None or place.file is None else text.one_line(place.file, 120),
        "line": None if place is None else place.line,
        "submission_line": None if place is None else place.submission_line,
        "count": finding.count,
    }


def problem_list(problems: Sequence[Named]) -> str:
    """A line each."""
    lines = [f"{len(problems)} problems; call problem with one of these names:"]
    for named in problems[:MAX_LISTED]:
        spec = named.problem.spec
        about = spec.summary or spec.title
        lines.append(f"- {named.name}" + (f": {text.one_line(about, 150)}" if about else ""))
    if len(problems) > MAX_LISTED:
        lines.append(f"... and {len(problems) - MAX_LISTED} more")
    return capped("\n".join(lines))


def problem_words(named: Named, kind: DeviceKind) -> str:
    """The statement, what is asked, the sizes, and the reference itself."""
    problem, spec = named.problem, named.problem.spec
    default = problem.workload(None, kind)
    lines = [f"{named.name}: {text.one_line(spec.title or named.name)}", ""]
    lines += [_part(problem.statement, MAX_STATEMENT), ""] if problem.statement else []
    lines.append(f"Accuracy: as good as {spec.precision}{_tolerance(problem)}.")
    lines.append(f"Workloads, of which {default.name} is graded here:")
    for name, workload in spec.workloads.items():
        sizes = ", ".join(f"{key} = {value}" for key, value in workload.args.items()) or "the reference's defaults"
        beside = "" if workload.timed else "; checked, not timed"
        lines.append(f"- {name} ({workload.device}): {text.one_line(sizes, 300)}{beside}")
    ways = problem.floor_ways(default)
    for way in ways[:4]:
        work = ", ".join(f"{amount:.4g} {what}" for what, amount in way.work.items())
        lines.append(f"Least work of {default.name} (way: {way.name}): {work}")
    lines += [
        "",
        "A submission is one Python file with a class ModelNew that takes what this Model takes:",
    ]
    lines += ["```python", _part(problem.reference_source, MAX_REFERENCE), "```"]
    # Statement and reference have limits of their own, and are what the tool is for.
    return "\n".join(lines)


def device_words(found: DeviceFound) -> str:
    """What a kernel writer asks."""
    rows = [f"{label}: {value}" for label, value in device_rows.figures(found.info, found.peaks)]
    return capped("\n".join([f"Graded on {text.one_line(found.info.name)} ({found.info.torch_name})", *rows]))


def board_words(board: dict[str, Any]) -> str:
    """A leaderboard as a server tells it."""
    from harness.client.marks import entry_line, marks_of  # whoever has a board has the client's packages

    lines = [f"{board['problem']} ({board['workload'] or 'no workload'}) on {board['device'] or 'no device'}"]
    shown = board["entries"][:MAX_LISTED]
    lines += map(entry_line, shown)
    lines += [f"{mark.short}: {mark.sentence}" for mark in marks_of(shown)]
    return capped("\n".join(text.one_line(line, 300) for line in lines))


def capped(words: str, limit: int = MAX_ANSWER) -> str:
    """At most so many characters, the first ones, cut at a line's end."""
    if len(words) <= limit:
        return words
    kept = words[: limit - len(_CUT)]
    return kept[: max(kept.rfind("\n"), limit // 2)] + _CUT


def _rows(rows: Any) -> list[str]:
    lines = []
    for row in rows:
        assert isinstance(row, Row)
        words = text.clean(row.words.plain, _MAX_LINE)
        lines.append(f"{row.label}: {words}" if row.label else f"  {words}")
    return lines


def _part(words: str, limit: int) -> str:
    return capped(text.clean(words, limit * 2).rstrip(), limit)


def _tolerance(problem: Problem) -> str:
    tolerance = problem.spec.tolerance
    both = {"atol": tolerance.atol, "rtol": tolerance.rtol}
    given = [f"{name} {value:g}" for name, value in both.items() if value is not None]
    return f", within {', '.join(given)}" if given else ", within the default tolerance of each dtype"
