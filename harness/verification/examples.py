"""The submissions that expected.toml gives a problem, graded: each must end as it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from harness.events import EventSink
from harness.grading.grader import grade
from harness.load.expected import ExpectedError, ExpectedSubmission, load_expected
from harness.load.problem import Problem, ProblemError
from harness.machine.device import Device
from harness.sandbox import Sandbox
from harness.verification.findings import Example
from harness.verification.subject import Found

_STANZA = """\
[[submission]]
file = "mine.py"
problem = @ID@
device = "cpu"  # or "cuda"
verdict = "accepted"
reason = "grade.accepted\""""
_BUDGET_S = 0.5
"""For the times of one example: what is asked is how it ends, and whether its time is below the floor."""
_HALF_WIDTH = 0.02


def find_table(problem: Path) -> Path | None:
    """submissions/expected.toml beside the folder that the problem is in, or below the current one."""
    beside = [folder / "submissions" / "expected.toml" for folder in (problem.resolve().parent.parent, Path.cwd())]
    return next((path for path in beside if path.is_file()), None)


def entries_of(problem: Problem, table: Path | None, found: Found) -> list[ExpectedSubmission]:
    """The problem's entries; what is wrong with the table is a finding."""
    try:
        entries = [] if table is None else [entry for entry in load_expected(table) if entry.problem == problem.id]
    except ExpectedError as error:
        found.add("error", "example.malformed", str(error))
        return []
    if not entries:
        found.add(
            "warning",
            "example.none",
            f"There is no submission for {problem.id} in {table or 'submissions/expected.toml'}: nothing shows that a "
            "right one is accepted. Add one for each kind of device, and wrong ones that a solver is likely to "
            "write, each with lines like these (docs/writing-a-problem.md):\n"
            + _STANZA.replace("@ID@", json.dumps(problem.id)),
        )
        return []
    for kind in sorted({entry.device for entry in entries}):
        if not any(entry.device == kind and entry.verdict == "accepted" for entry in entries):
            found.add(
                "warning",
                "example.none_accepted",
                f"None of the submissions of {problem.id} for {kind} is to be accepted: add a right one.",
                device=kind,
            )
    return entries


def run_examples(
    problem: Problem,
    entries: list[ExpectedSubmission],
    folder: Path,
    devices: dict[str, Device | str],
    found: Found,
    *,
    sandbox: str | Sandbox | None,
    wait: bool,
    on_event: EventSink,
    say: Callable[[str], None],
) -> list[Example]:
    """Grade the entries on the devices at hand; `devices` has for each kind a device, or why there is none."""
    examples = []
    for number, entry in enumerate(entries, 1):
        say(f"example {entry.file}, {number} of {len(entries)}")
        device = devices[entry.device]
        example = Example(
            file=entry.file,
            device=entry.device,
            workload=entry.workload,
            expected=(entry.verdict, entry.reason),
        )
        if isinstance(device, str):
            example = example.model_copy(update={"message": device})
        else:
            example = _graded(problem, entry, example, folder, device, sandbox, wait, on_event)
        examples.append(example)
        if example.as_expected is False and example.got is not None:
            found.add(
                "error",
                "example.otherwise",
                f"{entry.file} ended as {example.got[0]}, {example.got[1]}, on {entry.device}; expected.toml says "
                f"{entry.verdict}, {entry.reason}. {example.message}",
                file=entry.file,
                device=entry.device,
                expected=list(example.expected),
                got=list(example.got),
            )
    return examples


def _graded(
    problem: Problem,
    entry: ExpectedSubmission,
    example: Example,
    folder: Path,
    device: Device,
    sandbox: str | Sandbox | None,
    wait: bool,
    on_event: EventSink,
) -> Example:
    try:
        report = grade(
            problem,
            folder / entry.file,
            device=device.torch_name,
            workload=entry.workload,
            sandbox=sandbox,
            budget_s=_BUDGET_S,
            relative_half_width=_HALF_WIDTH,
            wait=wait,
            on_event=on_event,
        )
    except ProblemError as error:
        return example.model_copy(update={"got": ("not_graded", "reference.fails"), "message": str(error)})
    # Of several workloads the first, which is the one that the rest of a verification looks at.
    timing = report.workloads[0].timing if report.workloads else report.timing
    return example.model_copy(
        update={
            "got": (report.verdict.value, report.reason.code),
            "message": report.reason.message,
            "median_us": None if timing is None else timing.candidate.median_us,
            "reference_us": None if timing is None else timing.reference.median_us,
            "floor_us": None if timing is None else timing.floor_us,
        }
    )
