"""The parts of the terminal table, each a list of rows made from one part of the report.

What decided comes first: figures for an accepted submission, the places to look at for another.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from rich.text import Text

from harness.cli import text
from harness.report import Baseline, BuildInfo, Correctness, LeafReport, Measurement, Report, Stage, Steadiness, Timing

MAX_DIAGNOSTICS = 6
MAX_LEAVES = 6
MAX_KERNELS = 6
MAX_WARNINGS = 8
MAX_EVIDENCE = 10

_FOREIGN = re.compile(r'  File "(?![^"]*/submission-[^"/]*/)|  Binary file "|Extension modules: |Thread 0x')
"""Lines of the dump that say nothing of the submission; its own file lies in a folder that the worker makes."""
_UNDERLINE = re.compile(r"\s*[~^][\s~^]*")
_SEVERITY_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


@dataclass(frozen=True)
class Row:
    """A label at the left, and what it says."""

    label: str
    words: Text


def row(label: str, words: str, style: str = "") -> Row:
    """A row of one style."""
    return Row(label, Text(words, style=style))


def timing(measured: Timing, ascii_only: bool) -> list[Row]:
    """The figures people came for."""
    rows = [
        _measurement("time", measured.candidate, ascii_only, "bold"),
        _measurement("reference", measured.reference, ascii_only),
        with_interval(
            "speedup", text.ratios(measured.speedup, *measured.speedup_ci95), "bold", f": {measured.comparison}"
        ),
        *(found for name, baseline in measured.baselines.items() for found in _baseline(name, baseline, ascii_only)),
        *_floor(measured, ascii_only),
    ]
    samples = measured.candidate.samples_us
    if samples:
        (low,), (high,) = (text.durations(edge(samples), ascii_only=ascii_only) for edge in (min, max))
        bars = text.histogram(samples, ascii_only=ascii_only)
        processes = len(measured.candidate.process_medians_us)
        where = f" in {processes} processes" if processes else ""
        rows.append(row("samples", f"{low} {bars} {high}, {text.count(len(samples))} samples{where}"))
    method = f"{measured.candidate.method}; ended: {measured.stopped_because}"
    rows.append(row("method", text.one_line(method, 300), "dim"))
    if measured.shortfall:
        # A reader who asked for nothing must not wonder who did.
        goals = " The goals are the defaults unless --interval or --budget sets others."
        rows.append(row("missing", text.one_line(measured.shortfall, 300) + goals, "yellow"))
    if measured.steadiness is not None:
        rows.append(_steadiness(measured.steadiness))
    return rows


def _steadiness(seen: Steadiness) -> Row:
    """What the device did meanwhile: a line, unless blocks had to be measured again."""
    ranges = [
        ("SM clock ", seen.sm_clock_mhz, " MHz"),
        ("", seen.temperature_c, " C"),
        ("", seen.power_w, " W"),
    ]
    words = [
        f"{what}{low:.0f}{unit}" if round(low) == round(high) else f"{what}{low:.0f} to {high:.0f}{unit}"
        for what, known, unit in ranges
        if known is not None
        for low, high in [known]
    ]
    if seen.throttle:
        words.append(f"clocks held by {text.one_line(', '.join(seen.throttle), 120)}")
    if not seen.measured_again:
        return row("steadiness", ", ".join(words) or "the device tells nothing of itself", "dim")
    again = f"{seen.measured_again} of {seen.blocks + seen.measured_again} blocks measured again"
    words.append(f"{again}: {text.one_line('; '.join(seen.why), 300)}")
    return row("steadiness", ", ".join(words), "yellow")


def _floor(measured: Timing, ascii_only: bool) -> list[Row]:
    if measured.floor is None or measured.fraction_of_floor is None:
        return []
    (value,) = text.durations(measured.floor.us, ascii_only=ascii_only)
    reached = text.share(float(f"{measured.fraction_of_floor:.2g}"))
    words = f"{value:<11}  {reached} of it reached, bound by {text.resource(measured.floor.bound_by)}"
    if measured.floor.way != "any":
        words += f" ({text.one_line(measured.floor.way, 80)})"
    return [row("floor", words)]


def _baseline(name: str, baseline: Baseline, ascii_only: bool) -> list[Row]:
    """The reference run in another way, and the speedup over that."""
    over = text.ratios(baseline.speedup, *baseline.speedup_ci95)
    return [
        _measurement(f"by {name}", baseline.measured, ascii_only),
        with_interval("speedup", over, "", f": {baseline.comparison}, over that"),
    ]


def _measurement(label: str, measured: Measurement, ascii_only: bool, style: str = "") -> Row:
    values = text.durations(measured.median_us, *measured.ci95_us, ascii_only=ascii_only)
    more = ", host side included" if measured.host_bound else ""
    if measured.warm_us is not None:
        more += f", warm {text.durations(measured.warm_us, ascii_only=ascii_only)[0]}"
    return with_interval(label, values, style, more)


def with_interval(label: str, values: list[str], style: str, more: str = "") -> Row:
    """A value and its interval, made short already."""
    value, low, high = values
    return Row(label, Text.assemble((f"{value:<11}", style), f"  95 % in {low} to {high}{more}"))


def leaves(report: Report) -> list[Row]:
    """One line for a leaf that is right; all that is known of one that is not. Wrong ones first."""
    correctness = report.correctness
    if correctness is None:
        return []
    rows = []
    several = [each.correctness for each in report.workloads if each.correctness is not None]
    if report.accepted and len(several) > 1:
        correctness = _together(several, correctness)
        rows = [row("right", f"with {len(several)} workloads; shapes of the first, the largest errors of all")]
    ordered = sorted(correctness.leaves, key=lambda leaf: leaf.ok)
    rows += [found for leaf in ordered[:MAX_LEAVES] for found in _leaf(leaf)]
    if len(ordered) > MAX_LEAVES:
        rows.append(row("", f"... and {len(ordered) - MAX_LEAVES} more leaves, in --json"))
    trials = f"{correctness.trials} of {correctness.trials_asked} compared, weights {correctness.weights}"
    if correctness.timed_calls_verified:
        trials += f", {correctness.timed_calls_verified} timed calls compared as well"
    rows.append(row("trials", trials))
    if report.accepted and correctness.also_checked:
        rows.append(row("also right", text.one_line(f"at: {', '.join(correctness.also_checked)}", 300)))
    return rows


def _together(several: Sequence[Correctness], shown: Correctness) -> Correctness:
    """Of workloads that are all right: trials and timed calls over all of them, and each leaf's largest errors."""
    by_path: dict[str, list[LeafReport]] = {}
    for each in several:
        for leaf in each.leaves:
            by_path.setdefault(leaf.path, []).append(leaf)
    leaves = [
        same[0].model_copy(
            update={name: _largest(same, name) for name in ("max_abs_error", "max_rel_error", "rms_error")}
        )
        for same in by_path.values()
    ]
    return shown.model_copy(
        update={
            "leaves": leaves,
            "trials": sum(each.trials for each in several),
            "trials_asked": sum(each.trials_asked for each in several),
            "timed_calls_verified": sum(each.timed_calls_verified for each in several),
        }
    )


def _largest(leaves: Sequence[LeafReport], error: str) -> float | str | None:
    known = [getattr(leaf, error) for leaf in leaves if getattr(leaf, error) is not None]
    return max(known, key=float, default=None)


def _leaf(leaf: LeafReport) -> list[Row]:
    shape = f"{leaf.dtype} {leaf.shape}"
    path = text.one_line(leaf.path, 60)
    errors = (
        f"error at most {text.figure(leaf.max_abs_error)} absolute, {text.figure(leaf.max_rel_error)} relative, "
        f"RMS {text.figure(leaf.rms_error)}"
    )
    if leaf.ok:
        return [Row("right", Text.assemble((path, "green"), f" {shape}; {errors}"))]
    lines = [Row("wrong", Text.assemble((path, "bold red"), f" {shape}"))]
    if leaf.outside is not None:
        part = "" if leaf.fraction_outside is None else f" ({text.share(leaf.fraction_outside)})"
        lines.append(row("", f"{text.count(leaf.outside)} elements{part} outside the tolerance"))
    if leaf.max_abs_error is not None:
        lines.append(row("", errors))
    if leaf.worst_index is not None:
        trial = "" if leaf.worst_trial is None else f", trial {leaf.worst_trial}"
        lines.append(
            row(
                "",
                f"worst at {leaf.worst_index}{trial}: got {_exact(leaf.worst_value)}, "
                f"expected {_exact(leaf.worst_expected)}",
            )
        )
    if leaf.scale is not None:
        absolute = f"{text.figure(leaf.atol)} * {text.figure(leaf.scale)} (RMS of r)"
        lines.append(row("", f"allowed: |y - r| <= {absolute} + {text.figure(leaf.rtol)} * |r|"))
    if leaf.reading:
        lines.append(row("", text.one_line(leaf.reading, 400), "italic"))
    return lines


def _exact(value: float | str | None) -> str:
    return f"{value:.9g}" if isinstance(value, float) else text.figure(value)


def diagnostics(build: BuildInfo) -> list[Row]:
    """What the compilers said, first errors first, with what to do about it."""
    rows = []
    for found in build.diagnostics[:MAX_DIAGNOSTICS]:
        column = found.column if found.line is not None else None
        place = ":".join(str(part) for part in (found.file, found.line, column) if part is not None)
        if found.submission_line is not None:
            place = f"line {found.submission_line} ({place})"
        words = Text.assemble(
            (text.one_line(place, 120) + ": " if place else "", "bold"),
            (text.one_line(found.message, 500), _SEVERITY_STYLES[found.severity]),
        )
        if found.hint:
            words.append("\n" + text.one_line(found.hint, 500), style="cyan")
        rows.append(Row(found.severity, words))
    if len(build.diagnostics) > MAX_DIAGNOSTICS:
        rows.append(row("", f"... and {len(build.diagnostics) - MAX_DIAGNOSTICS} more messages, in --json"))
    rows += [row("", f"... and {left}, left out") for left in build.left_out if "message" in left]
    return rows


def build(info: BuildInfo) -> list[Row]:
    """What was compiled, and what its kernels use."""
    built = [extension for extension in info.extensions if extension.recipe != "none"]
    names = ", ".join(
        f"{text.one_line(extension.name, 40)} {text.seconds(extension.seconds)} "
        f"({'from the cache' if extension.cached else extension.recipe})"
        for extension in built[:MAX_KERNELS]
    )
    rows = [row("build", names)] if names else []
    for kernel in info.kernels[:MAX_KERNELS]:
        spills = kernel.spill_store_bytes + kernel.spill_load_bytes
        name = text.one_line(kernel.name, 60)
        words = f"{name} {kernel.registers} registers, {text.size(kernel.shared_bytes)} shared"
        rows.append(
            Row(
                "kernel",
                Text.assemble(words, (f", {text.size(spills)} spilled", "yellow") if spills else ""),
            )
        )
    if len(info.kernels) > MAX_KERNELS:
        rows.append(row("", f"... and {len(info.kernels) - MAX_KERNELS} more kernels, in --json"))
    rows += [row("", f"... and {left}, left out") for left in info.left_out if "kernel" in left]
    return rows


def evidence(report: Report) -> list[Row]:
    """What the reason rests on; a leaf, where it is one, unless it is among the leaves that are shown anyway."""
    values = report.reason.evidence
    if report.reason.code == "run.needs_cuda":
        # Where it asked for CUDA says nothing: that it did is all.
        values = {name: value for name, value in values.items() if name != "traceback"}
    if "path" in values and values.keys() <= LeafReport.model_fields.keys():
        with contextlib.suppress(ValidationError):
            leaf = LeafReport.model_validate(values)
            shown = report.correctness.leaves if report.correctness is not None else []
            return [] if any(other.path == leaf.path and not other.ok for other in shown) else _leaf(leaf)
    return _values(values)


def _values(values: Mapping[str, Any]) -> list[Row]:
    """Short values under their own names, texts of several lines as blocks."""
    values = {name: value for name, value in values.items() if value is not None and str(value).strip()}
    short = [f"{text.one_line(name, 40)} {_value(value)}" for name, value in values.items() if not _is_block(value)]
    more = [f"{len(short) - MAX_EVIDENCE} more in --json"] if len(short) > MAX_EVIDENCE else []
    rows = [row("evidence", "\n".join([*short[:MAX_EVIDENCE], *more]))] if short else []
    for name, value in values.items():
        if _is_block(value):
            # Lines that only underline the one above lose their place when lines are folded.
            kept = "\n".join(line for line in value.split("\n") if not _UNDERLINE.fullmatch(line))
            rows.append(row(text.one_line(name.replace("_", " "), 30), text.folded(kept, first=4, last=24)))
    return rows


def _is_block(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def _value(value: Any) -> str:
    if isinstance(value, str):
        return text.one_line(value, 400)
    if isinstance(value, float):
        return f"{value:.6g}"
    return text.one_line(json.dumps(value, default=str, ensure_ascii=False), 400)


def printed(log: str) -> list[Row]:
    """The end of what the submission printed: a claim, and often the best hint."""
    log = _without_foreign_frames(log)
    return [row("printed", text.folded(log, first=0, last=10), "dim")] if log.strip() else []


def _without_foreign_frames(log: str) -> str:
    """Of Python's dump after a fatal signal, the submission's own lines: the rest is torch's, Python's and ours."""
    before, fatal, dump = log.partition("Fatal Python error: ")
    if not fatal:
        return log
    return before + fatal + "\n".join(line for line in dump.split("\n") if line.strip() and not _FOREIGN.match(line))


def warnings(report: Report) -> list[Row]:
    """What did not decide, and should be known."""
    rows = [
        Row("warning", Text.assemble((f"{found.code}: ", "yellow"), text.one_line(found.message, 500)))
        for found in report.warnings[:MAX_WARNINGS]
    ]
    if len(report.warnings) > MAX_WARNINGS:
        rows.append(row("", f"... and {len(report.warnings) - MAX_WARNINGS} more warnings, in --json"))
    return rows


def notes(report: Report) -> list[Row]:
    """What the problem's format leaves open."""
    if report.problem is None or not report.problem.notes:
        return []
    return [row("format", f"{report.problem.format}: {text.one_line(' '.join(report.problem.notes), 1500)}", "dim")]


def stages(ran: list[Stage]) -> list[Row]:
    """Where the time went."""
    if not ran:
        return []
    # A worker starts while the grading loads, and what is left of that is waited for before anything is built.
    more = {"build": " with the worker's start"}
    each = ", ".join(f"{stage.name} {text.seconds(stage.seconds)}{more.get(stage.name, '')}" for stage in ran)
    return [row("stages", f"{text.seconds(sum(stage.seconds for stage in ran))}: {each}", "dim")]


def repeat(report: Report) -> list[Row]:
    """The options that bring this grading back."""
    if report.seed is None:
        return []
    options = f"--seed {text.one_line(report.seed, 80)}"
    if report.problem is not None and not report.workloads:
        options += f" --workload {text.one_line(report.problem.workload, 80)}"
    if report.device is not None:
        options += f" --device {report.device.kind if report.device.index is None else f'cuda:{report.device.index}'}"
    return [row("repeat", options, "dim")]
