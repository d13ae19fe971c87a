"""Trivial answers against the comparison of a grading, and against its precision audit where that has a say.

An answer is refused when one trial refuses it, as a submission would be. One that passes is told apart by why: it is
wrong and the tolerance lets it through, or it is the right answer, to the bit, in every trial.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch

from harness.audit.accuracy import Accuracy, Answered
from harness.audit.precision import LEAST, Collected
from harness.audit.probes import OWN
from harness.check.compare import Expected
from harness.load.problem import ProblemError
from harness.verification.findings import Answer, Severity
from harness.verification.subject import Found, Subject, held_against
from harness.verification.trivial import HALVES, Trivial, at_half, trivial_answers

_TRIALS_MOST = 5
"""Calls that are compared: as many as the workload has trials, but no more."""

_WHAT = {
    "zeros": "zeros in place of {path}",
    "ones": "ones in place of {path}",
    "mean": "{path}'s mean in all of its places",
    "previous": "{path} of another input",
    "input": "{detail} in place of {path}",
    "permuted": "{path} moved by one along {detail}",
    "half": "{path} rounded to {detail}",
    "rows": "{path} without its last row (zeros there)",
    "element": "{path} with one element off by three tolerances",
}
_IDENTICAL: dict[str, tuple[Severity, str]] = {
    "zeros": ("error", "{path} is always zero: no work is needed for it."),
    "ones": ("error", "{path} is always one: no work is needed for it."),
    "mean": ("error", "All elements of {path} are the same, so that one says all; give an output that varies."),
    "previous": ("error", "{path} is the same for another input: a submission may keep it from call to call."),
    "input": ("warning", "{path} is {detail} as it is: there is nothing to compute."),
    "permuted": ("warning", "{path} is the same all along {detail}: which element went where is not tested."),
    "half": ("note", "{path} holds only numbers that {detail} can hold as well: rounding it loses nothing."),
    "rows": ("warning", "The last row of {path} is always zero: a kernel may leave it out."),
    "element": ("error", "{path} has one right answer too many: one element was changed and nobody can tell."),
}
"""What it means that a trivial answer is the right one."""
_ADVICE = "Lower the tolerance, or choose inputs whose output varies more."


@dataclass
class _Fate:
    """What became of one answer on one leaf over the trials."""

    refused: bool = False
    identical: bool = True
    fraction: float = 0.0
    tried: int = field(default=0)


def check_answers(subject: Subject, found: Found) -> None:
    """Hold every trivial answer against the right one, for each leaf alone."""
    spec = subject.problem.spec
    trials = min(_TRIALS_MOST, subject.workload.trials)
    generator = torch.Generator().manual_seed(subject.seeds.of("verify element", 0))
    fates: dict[tuple[str, str, int], _Fate] = {}
    previous = subject.expected(trials)
    expected = previous
    for trial in range(trials):
        expected = subject.expected(trial)
        _look(expected, subject, found, trial)
        for answer in trivial_answers(expected, previous, subject.inputs(trial), spec.precision, generator):
            _hold(expected, answer, trial, fates)
        previous = expected
    for (name, detail, number), fate in fates.items():
        leaf = expected.leaves[number]
        refused_by = "tolerance" if fate.refused else None
        if not fate.refused and fate.tried < trials:
            refused_by = "form"
        by_tolerance_alone = name == "half" and refused_by is None and not fate.identical
        if by_tolerance_alone and spec.precision_policy == "reject" and leaf.path in _below(subject, detail):
            refused_by = "precision"
        answer_found = Answer(
            name=name,
            detail=detail,
            path=leaf.path,
            refused_by=refused_by,  # type: ignore[arg-type]
            identical=fate.identical and refused_by is None,
            fraction_outside=fate.fraction,
        )
        found.answers.append(answer_found)
        if refused_by is None:
            _passes(answer_found, leaf.flat.numel(), spec.precision_policy == "flag", found)


def _look(expected: Expected, subject: Subject, found: Found, trial: int) -> None:
    """What the right answer itself must have, once."""
    if trial:
        return
    if not any(leaf.flat.numel() for leaf in expected.leaves):
        found.add(
            "warning" if expected.scalars else "error",
            "reference.nothing",
            "The output has no tensor with an element: trivial answers can't be told from it. Return tensors that have "
            "some.",
        )
    for leaf in expected.leaves:
        odd = int((~torch.isfinite(leaf.flat.to(torch.float64))).sum())
        if odd:
            everything = odd == leaf.flat.numel()
            found.add(
                "error" if everything else "warning",
                "reference.not_finite",
                f"{leaf.path} of the reference holds NaN or infinity in {odd} of {leaf.flat.numel()} places, where an "
                "answer must have the same; choose inputs that avoid it.",
                path=leaf.path,
                count=odd,
            )


def _hold(expected: Expected, answer: Trivial, trial: int, fates: dict[tuple[str, str, int], _Fate]) -> None:
    """Compare one answer, the leaves on which it makes no sense being right."""
    flats = [leaf.flat if flat is None else flat for leaf, flat in zip(expected.leaves, answer.flats, strict=True)]
    reports = held_against(expected, flats, trial + 1)
    for number, (flat, report) in enumerate(zip(answer.flats, reports, strict=True)):
        if flat is None:
            continue
        fate = fates.setdefault((answer.name, answer.detail, number), _Fate())
        fate.tried += 1
        fate.refused |= not report.ok
        fate.fraction = max(fate.fraction, report.fraction_outside or 0.0)
        right = expected.leaves[number].flat
        fate.identical &= bool(torch.equal(flat.contiguous().view(torch.uint8), right.view(torch.uint8)))


def _passes(answer: Answer, elements: int, flagged: bool, found: Found) -> None:
    """Say that a trivial answer passes, and why."""
    names = {"path": answer.path, "detail": answer.detail}
    what = _WHAT[answer.name].format(**names)
    evidence = answer.model_dump(mode="json", exclude={"refused_by"})
    if answer.identical:
        severity, why = _IDENTICAL[answer.name]
        message = f"A submission that returns {what} is right. {why.format(**names)}"
    elif answer.name == "half" and flagged:
        severity = "warning"
        message = f"A submission that returns {what} passes: the problem only flags lost precision."
    else:
        # Of a few elements all may come out near by chance, and so little tells nothing of precision either.
        severity = "warning" if answer.name == "half" and elements < LEAST else "error"
        message = f"A submission that returns {what} passes, and is wrong. {_ADVICE}"
    found.add(severity, f"answer.{answer.name}", message[0].upper() + message[1:], **evidence)


def _below(subject: Subject, name: str) -> set[str]:
    """The leaves that the precision audit refuses when they are rounded to a half precision."""
    spec, oracle = subject.problem.spec, subject.oracle
    accuracy = Accuracy(spec, oracle, subject.seeds, subject.device)

    def answer(kind: str, number: int) -> Answered | None:
        seed = subject.seeds.of("verify audit", number)
        make = partial(accuracy.inputs, kind, seed, number)
        inputs, again = make(), make()
        if inputs is None or again is None:
            return None
        subject.restore()
        call_seed = subject.call_seed(number)
        expected = oracle.expected_of(again, call_seed)
        sample = accuracy.sample(expected, number)
        ours = Collected(sample, expected)
        for at, leaf in enumerate(expected.leaves):
            rounded = at_half(leaf, name, spec.precision)
            ours.add(at, 0, (leaf.flat if rounded is None else rounded).view(torch.uint8))
        subject.restore()
        return Answered(kind, inputs, call_seed, expected, sample, ours, make)

    assert name in HALVES
    try:
        own = answer(OWN, 0)
        if own is not None:
            accuracy.add(own)
        for number, kind in enumerate(accuracy.kinds(), 1):
            try:
                probe = answer(kind, number)
            except ProblemError:
                continue  # nobody promised that the reference takes such inputs
            if probe is not None:
                accuracy.add(probe)
        return {leaf.path for leaf in accuracy.result().leaves if leaf.below}
    finally:
        accuracy.release()
