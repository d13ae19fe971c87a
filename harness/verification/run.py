"""The order in which a problem is looked at.

    folder -> repeats -> trivial answers -> inputs and parameters -> room -> floor -> cost -> further sizes -> examples

The reference runs in this process, as it does in a grading; submissions run in workers, since the grader itself grades
them. What the author's code raises ends a part, not the whole: the others may still say something.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch

from harness.events import EventSink, Progress, ignore
from harness.load.problem import Problem, ProblemError, Workload
from harness.machine.device import Device, list_devices, open_device
from harness.machine.locks import DeviceLock
from harness.sandbox import Sandbox
from harness.seeds import Seeds
from harness.verification.answers import check_answers
from harness.verification.cost import check_cost
from harness.verification.examples import entries_of, find_table, run_examples
from harness.verification.findings import Example, Verification
from harness.verification.floors import check_floor, check_stated, check_times
from harness.verification.form import check_form
from harness.verification.moves import check_moves
from harness.verification.repeats import check_repeats
from harness.verification.room import check_room
from harness.verification.subject import Found, Subject
from harness.version import VERSION

_ORDER = ("error", "warning", "note")
_PARTS: tuple[tuple[str, Callable[[Subject, Found], None]], ...] = (
    ("repeats", check_repeats),
    ("trivial answers", check_answers),
    ("inputs and parameters", check_moves),
    ("room of the tolerance", check_room),
    ("floor", check_stated),
    ("floor", check_floor),
    ("cost", check_cost),
)


def verify(
    problem: Problem | str | Path,
    *,
    device: str = "auto",
    expected: str | Path | None = None,
    examples: bool = True,
    seed: int | None = None,
    sandbox: str | Sandbox | None = None,
    wait: bool = True,
    on_event: EventSink = ignore,
) -> Verification:
    """Test a problem: whether a grading against it tells right from wrong.

    `expected` is the table of its submissions; None: submissions/expected.toml beside the folder of the problems, or
    below the current one. Without `examples` none is graded. `seed` repeats an earlier verification. What is wrong
    with the problem is in the result; raises ProblemError only where there is no problem of that name, and DeviceError,
    SandboxError and DeviceBusy for wrong use.
    """
    began = time.monotonic()
    path = problem.path if isinstance(problem, Problem) else Path(problem)
    if not path.exists():
        raise ProblemError(f"There is no problem at {str(path)!r}; give a folder or a .py file.")
    chosen = open_device(device)
    seeds = Seeds(seed)
    seeds.draw()
    found = Found()
    loaded = _load(problem, found)
    workload: Workload | None = None
    also: list[str] = []
    graded: list[Example] = []
    if loaded is not None:
        workload = loaded.workload(None, chosen.kind)
        check_form(loaded, found)

        def say(what: str) -> None:
            on_event(Progress("verify", f"{loaded.id}: {what}"))

        lock = DeviceLock(chosen.uuid or chosen.kind, lambda: say("waiting for the device"), wait=wait)
        with lock.held():
            _look_at(loaded, workload, chosen, seeds, found, say)
            also = _further(loaded, workload, chosen, seeds, found, say)
        if chosen.kind == "cuda":
            torch.cuda.empty_cache()
        if examples:
            table = Path(expected) if expected is not None else find_table(loaded.path)
            entries = entries_of(loaded, table, found)
            graded = run_examples(
                loaded,
                entries,
                table.parent if table is not None else loaded.path,
                _at_hand(chosen, device),
                found,
                sandbox=sandbox,
                wait=wait,
                on_event=on_event,
                say=say,
            )
            check_times(graded, found)
        _leave_out(loaded, chosen, workload, examples, found)
    return Verification(
        harness_version=VERSION,
        created_at=datetime.now(UTC),
        path=str(path),
        problem=None if loaded is None else loaded.id,
        version=None if loaded is None else loaded.version,
        device=chosen.info,
        workload=None if workload is None else workload.name,
        also=also,
        findings=sorted(found.findings, key=lambda finding: _ORDER.index(finding.severity)),
        answers=found.answers,
        moved=found.moved,
        room=found.room,
        costs=found.costs,
        examples=graded,
        left_out=found.left_out,
        seed=str(seeds.number),
        seconds=round(time.monotonic() - began, 3),
    )


def _load(problem: Problem | str | Path, found: Found) -> Problem | None:
    if isinstance(problem, Problem):
        return problem
    try:
        return Problem.load(problem)
    except ProblemError as error:
        found.add("error", "folder.malformed", str(error))
        return None


def _look_at(
    problem: Problem, workload: Workload, device: Device, seeds: Seeds, found: Found, say: Callable[[str], None]
) -> None:
    """All parts on the workload that a grading takes by default."""
    with _blamed(found, workload):
        subject = Subject(problem, workload, torch.device(device.torch_name), seeds)
        subject.expected(0)  # what fails here fails in every part, and is said once
        for name, part in _PARTS:
            say(name)
            with _blamed(found, workload):
                part(subject, found)


def _further(
    problem: Problem, main: Workload, device: Device, seeds: Seeds, found: Found, say: Callable[[str], None]
) -> list[str]:
    """The sizes that are there for checking: that the reference takes them, and what it costs."""
    names = []
    for workload in problem.checking_workloads(device.kind):
        if workload.name == main.name:
            continue
        say(f"workload {workload.name}")
        with _blamed(found, workload):
            subject = Subject(problem, workload, torch.device(device.torch_name), seeds)
            subject.expected(0)
            check_floor(subject, found)
            check_cost(subject, found)
            names.append(workload.name)
    return names


@contextlib.contextmanager
def _blamed(found: Found, workload: Workload) -> Iterator[None]:
    """Within it, what the author's code raises becomes a finding."""
    try:
        yield
    except ProblemError as error:
        message = str(error)
        if not any(finding.message == message for finding in found.findings):
            found.add("error", "reference.fails", message, workload=workload.name)


def _at_hand(chosen: Device, asked: str) -> dict[str, Device | str]:
    """For each kind of device the one to grade examples on, or why they are not run."""
    at_hand: dict[str, Device | str] = {chosen.kind: chosen}
    for kind in ("cuda", "cpu"):
        if kind in at_hand:
            continue
        if asked.strip().lower() != "auto":
            at_hand[kind] = f"it is for {kind}, and --device {asked} was asked for"
            continue
        fitting = [device for device in list_devices() if device.kind == kind]
        at_hand[kind] = fitting[0] if fitting else "it needs a GPU, and this machine has none"
    return at_hand


def _leave_out(problem: Problem, device: Device, workload: Workload, examples: bool, found: Found) -> None:
    """What can't be seen from here."""
    other: tuple[str, Workload] = (
        ("cuda", problem.workload(None, "cuda")) if device.kind == "cpu" else ("cpu", problem.workload(None, "cpu"))
    )
    if other[1].name != workload.name:
        found.left_out.append(
            f"The workload {other[1].name}, the default for {other[0]}: this was done for {device.kind}."
        )
    if device.kind == "cpu" and problem.floor_ways(workload):
        found.left_out.append("Times against the floor: there is none on a CPU.")
    if not examples:
        found.left_out.append("How submissions end: that was not asked for.")
