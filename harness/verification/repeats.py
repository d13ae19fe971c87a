"""One seed, one result: inputs, parameters and outputs come out the same again, and otherwise for another seed."""

from __future__ import annotations

import torch

from harness.check.compare import Expected
from harness.check.oracle import Oracle
from harness.verification.subject import Found, Subject, excess, held_against, same_bytes
from harness.wire.tree import paths, take_apart


def check_repeats(subject: Subject, found: Found) -> None:
    """Make everything twice."""
    _inputs(subject, found)
    _parameters(subject, found)
    _output(subject, found)


def _inputs(subject: Subject, found: Found) -> None:
    skeleton, first = take_apart(subject.inputs(0))
    other_skeleton, again = take_apart(subject.inputs(0))
    places = paths(skeleton, "inputs")
    moved = [places[at] for at, (a, b) in enumerate(zip(first, again, strict=False)) if not same_bytes(a, b)]
    if moved or skeleton != other_skeleton:
        found.add(
            "error",
            "repeat.inputs",
            f"get_inputs makes {', '.join(moved) or 'other values'} anew although the seed is the same: a submission "
            "gets other inputs than the reference. Draw with torch, random or numpy.random, whose generators are set, "
            "and from nothing else.",
            inputs=moved,
        )
        return
    skeleton_of_other, other = take_apart(subject.inputs(1))
    if first and skeleton == skeleton_of_other and all(map(same_bytes, first, other)):
        found.add(
            "error",
            "repeat.fixed_inputs",
            "get_inputs makes the same inputs for every seed: a submission that keeps its first result would be right "
            "for all calls. Draw them with torch.rand and so on, without a seed of your own.",
        )


def _parameters(subject: Subject, found: Found) -> None:
    seed = subject.seeds.parameters()
    again = Oracle(subject.problem, subject.workload, subject.device)
    again.construct(again.init_inputs(seed), seed)
    subject.restore()
    first, second = subject.oracle.state(), again.state()
    moved = sorted(key for key in first.keys() | second.keys() if not (key in first and key in second)) or sorted(
        key for key in first if not same_bytes(first[key], second[key])
    )
    if moved:
        found.add(
            "error",
            "repeat.parameters",
            f"The model's {', '.join(moved[:5])} come out otherwise although the seed is the same: a ModelNew with "
            "names of its own could never be right. Draw them with torch's generators.",
            parameters=moved[:20],
        )


def _output(subject: Subject, found: Found) -> None:
    inputs = subject.inputs(0)
    first = subject.expected(0, inputs)
    pristine = subject.inputs(0)
    if not subject.problem.spec.policy.in_place:
        _, after = take_apart(inputs)
        skeleton, before = take_apart(pristine)
        places = paths(skeleton, "inputs")
        changed = [places[at] for at, (a, b) in enumerate(zip(before, after, strict=False)) if not same_bytes(a, b)]
        # Inputs that come out otherwise each time are a finding of their own.
        if changed and not any(finding.code == "repeat.inputs" for finding in found.findings):
            found.add(
                "error",
                "reference.mutates",
                f"The reference changes {', '.join(changed)}, and a submission that does the same is rejected: set "
                "policy.in_place = true or write it without.",
                inputs=changed,
            )
    again = subject.expected(0, pristine)
    if _same(first, again):
        return
    if [leaf.spec for leaf in first.leaves] == [leaf.spec for leaf in again.leaves]:
        flats = [leaf.flat for leaf in again.leaves]
        change = max(excess(leaf, flat) for leaf, flat in zip(first.leaves, flats, strict=True))
        if all(report.ok for report in held_against(first, flats, 1)):
            found.add(
                "note",
                "repeat.rounding",
                f"The same call of the reference gives another result in the last bits, {change:.2g} of the tolerance.",
                change=change,
            )
            return
    else:
        change = float("inf")
    found.add(
        "error",
        "repeat.output",
        "The same call of the reference, on the same inputs with the same seed, gives a result outside the tolerance. "
        "It draws numbers that no seed reaches, keeps a state that is no buffer, or reads memory that nobody wrote.",
        change=change,
    )


def _same(one: Expected, other: Expected) -> bool:
    return len(one.leaves) == len(other.leaves) and all(
        a.spec == b.spec and torch.equal(a.flat.view(torch.uint8), b.flat.view(torch.uint8))
        for a, b in zip(one.leaves, other.leaves, strict=True)
    )
