"""Each input and each parameter moves the output, or a kernel that ignores it would be right.

    inputs       one tensor at a time is exchanged for that of another draw, so that it stays what the reference expects
    parameters   one at a time gets normal noise of its own root mean square added

Where the output stays within the tolerance the problem can say so itself, under [verify] still, and why: a bias that a
normalisation takes off again is no mistake.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import torch

from harness.check.compare import Expected
from harness.load.problem import ProblemError
from harness.verification.findings import Moved
from harness.verification.subject import Found, Subject, excess, held_against, same_bytes, with_leaf
from harness.wire.tree import paths, take_apart

_BUDGET_S = 60.0
"""For parameters: a model may have hundreds, each of which costs a call."""
_OTHER = 1_000
"""Numbers of the calls whose inputs are exchanged in, beyond those of the trials."""
_DRAWS = 3


def check_moves(subject: Subject, found: Found) -> None:
    """Change one thing at a time and look at the output."""
    still, neutral = (dict(each) for each in (subject.problem.spec.verify.still, subject.problem.spec.verify.neutral))
    expected = subject.expected(0)
    if not expected.leaves:
        return
    names = _inputs(subject, expected, found, still)
    parameters = _parameters(subject, expected, found, still, neutral)
    names += parameters
    for key, declared, there in (("still", still, names), ("neutral", neutral, parameters)):
        for name in declared:
            if name not in there:
                found.add(
                    "warning",
                    "moves.declared_wrongly",
                    f"[verify] {key} names {name!r}, and there is no such "
                    f"{'parameter' if key == 'neutral' else 'input or parameter'}; there are: "
                    f"{', '.join(there[:20]) or 'none'}.",
                    name=name,
                )


def _inputs(subject: Subject, expected: Expected, found: Found, still: dict[str, str]) -> list[str]:
    skeleton, leaves = take_apart(subject.inputs(0))
    places = paths(skeleton, "inputs")
    for number, path in places.items():
        other = _another(subject, number, leaves[number])
        if other is None:
            found.left_out.append(
                f"Whether {path} moves the output: every draw of it is the same, or of another shape."
            )
            continue
        try:
            changed = subject.expected(0, with_leaf(subject.inputs(0), number, other))
        except ProblemError as error:
            found.left_out.append(f"Whether {path} moves the output: exchanged alone the reference fails ({error})")
            continue
        _conclude(path, "input", expected, changed, found, still)
    return list(places.values())


def _another(subject: Subject, number: int, own: torch.Tensor) -> torch.Tensor | None:
    """That input of another draw: of several, one that differs; of one that never does, its numbers moved."""
    for draw in range(_DRAWS):
        leaves = take_apart(subject.inputs(_OTHER + draw))[1]
        if number < len(leaves) and leaves[number].shape == own.shape and not same_bytes(leaves[number], own):
            return leaves[number]
    return _noisy(own, subject.seeds.of("verify noise", number)) if own.is_floating_point() and own.numel() else None


def _parameters(
    subject: Subject, expected: Expected, found: Found, still: dict[str, str], neutral: dict[str, str]
) -> list[str]:
    model = subject.oracle.model
    named: list[tuple[str, Any]] = list(model.named_parameters()) if isinstance(model, torch.nn.Module) else []
    began = time.monotonic()
    for name, parameter in named:
        _neutral(name, parameter.detach(), found, neutral)
    for number, (name, parameter) in enumerate(named):
        if time.monotonic() - began > _BUDGET_S:
            left = ", ".join(each for each, _ in named[number:][:10])
            found.left_out.append(
                f"Whether {len(named) - number} of {len(named)} parameters move the output ({left}): the "
                f"{_BUDGET_S:.0f} s for it were spent."
            )
            break
        if not parameter.numel() or not parameter.is_floating_point():
            found.left_out.append(f"Whether {name} moves the output: it holds no floating-point number.")
            continue
        before = parameter.detach().clone()
        try:
            with torch.no_grad():
                parameter.copy_(_noisy(before, subject.seeds.of("verify noise", _OTHER + number)))
            changed = subject.expected(0)
        except ProblemError as error:
            found.left_out.append(f"Whether {name} moves the output: changed alone the reference fails ({error})")
            continue
        finally:
            with torch.no_grad():
                parameter.copy_(before)
        _conclude(name, "parameter", expected, changed, found, still)
    return [name for name, _ in named]


def _neutral(name: str, parameter: torch.Tensor, found: Found, declared: dict[str, str]) -> None:
    """A factor of one and a summand of zero move the output when they change, and in a grading they never do."""
    for value, word in ((0, "zeros"), (1, "ones")):
        if parameter.numel() and bool((parameter == value).all()):
            if name in declared:
                message = f"The parameter {name} starts as {word}: {declared[name]}"
                found.add("note", "moves.neutral_declared", message, name=name, value=value)
                return
            found.add(
                "warning",
                "moves.neutral",
                f"The parameter {name} starts as {word} and stays so: a kernel that forgets it is right by accident. "
                "Draw it in the constructor, or say under [verify] neutral why that is so.",
                name=name,
                value=value,
            )
            return
    if name in declared:
        found.add(
            "warning",
            "moves.declared_wrongly",
            f"[verify] neutral says that {name} is all ones or all zeros ({declared[name]}), but it is not.",
            name=name,
        )


def _conclude(
    name: str,
    kind: Literal["input", "parameter"],
    expected: Expected,
    changed: Expected,
    found: Found,
    still: dict[str, str],
) -> None:
    if [leaf.spec for leaf in changed.leaves] != [leaf.spec for leaf in expected.leaves]:
        change, moved = float("inf"), True
    else:
        flats = [leaf.flat for leaf in changed.leaves]
        change = max(excess(leaf, flat) for leaf, flat in zip(expected.leaves, flats, strict=True))
        moved = not all(report.ok for report in held_against(expected, flats, 1))
    found.moved.append(Moved(name=name, kind=kind, change=change))
    if moved:
        if name in still:
            found.add(
                "warning",
                "moves.declared_wrongly",
                f"[verify] still says that {name} does not move the output ({still[name]}), but it does, by "
                f"{change:.2g} times the tolerance; take it out.",
                name=name,
                change=change,
            )
        return
    if name in still:
        found.add("note", "moves.declared", f"{name} does not move the output: {still[name]}", name=name, change=change)
        return
    how = "not at all" if change == 0 else f"by {change:.2g} of the tolerance at most"
    found.add(
        "error",
        f"moves.{kind}",
        f"The {kind} {name} moves the output {how}: a kernel that ignores it is right. Make it count, take it out, or "
        f"say under [verify] still why that is so.",
        name=name,
        change=change,
    )


def _noisy(values: torch.Tensor, seed: int) -> torch.Tensor:
    """With noise of the size of the values themselves, and of a tenth where they are all zero."""
    generator = torch.Generator(values.device).manual_seed(seed)
    wide = values.detach().to(torch.float32 if values.dtype is not torch.float64 else torch.float64)
    size = float(wide.square().mean().sqrt()) or 0.1
    noise = torch.randn(wide.shape, generator=generator, device=wide.device, dtype=wide.dtype)
    return (wide + size * noise).to(values.dtype)
