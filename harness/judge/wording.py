"""How a judgement is put: the sentence, the figures beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.brief import cut
from harness.report import LeafReport, Reason, Verdict

_MESSAGE_CHARS = 4000
"""What an exception or a compiler says may stand in it, and be as long as it likes."""


@dataclass(frozen=True)
class Judgement:
    """The verdict and its reason."""

    verdict: Verdict
    reason: Reason


def say(verdict: Verdict, code: str, message: str, /, **evidence: object) -> Judgement:
    """One judgement; what else is named is its evidence."""
    return Judgement(verdict, Reason(code=code, message=cut(message, _MESSAGE_CHARS), evidence=evidence))


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def count(number: int, what: str) -> str:
    """`1 thing`, `2 things`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def number(value: float | str | None) -> str:
    """For a person to read."""
    return f"{value:.6g}" if isinstance(value, float | int) else str(value)


def values_message(leaf: LeafReport) -> str:
    """Where an output differs most, and what that looks like."""
    if leaf.own_check is not None:
        return f"{leaf.path} is not what the problem asks for. {leaf.reading} It says: {leaf.own_check[:300]}"
    total = math.prod(leaf.shape)
    place = "".join(f"[{index}]" for index in leaf.worst_index or [])
    return (
        f"{leaf.path} differs from the reference in {leaf.outside} of {total} elements; farthest at "
        f"{leaf.path}{place}: {number(leaf.worst_value)}, expected {number(leaf.worst_expected)}. {leaf.reading}"
        f"{_FILLED if _is_filling(leaf) else ''}"
    )


_FILLED = (
    " Free memory is filled with just this value before a call: the element was never written, or was made from one "
    "that was not."
)


def _is_filling(leaf: LeafReport) -> bool:
    """Whether the worst value is what the worker fills free memory with (worker/memory.py)."""
    value = leaf.worst_value
    if value == "nan":
        return leaf.worst_expected != "nan"
    return isinstance(value, float) and (3.39e38 < value < 3.40e38 or 1.38e306 < value < 1.39e306)


def leaf_evidence(leaf: LeafReport) -> dict[str, object]:
    """A leaf's figures as evidence."""
    return leaf.model_dump(mode="json")


def first_bad(leaves: list[LeafReport]) -> LeafReport | None:
    """The first leaf that did not match."""
    return next((leaf for leaf in leaves if not leaf.ok), None)
