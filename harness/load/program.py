"""A text that a worker imports, what may be imported beside it, and how it is then called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Style = Literal["model", "function", "destination"]


@dataclass(frozen=True)
class Calling:
    """What stands for the model in a text."""

    entry: str = "ModelNew"
    """The name at the text's top level."""
    style: Style = "model"
    """model: a class that is constructed, and what comes out called. function: called as it is. destination: a function
    that gets its outputs as further arguments, memory that holds nothing yet, and writes to them."""
    inputs: tuple[str, ...] = ()
    """Names of a call's arguments, where the format has names for them."""
    outputs: tuple[str, ...] = ()
    """Names of the outputs, where the format has them: they are then passed on as a dict, whether they came as a
    tensor, a tuple or a dict."""
    solutions: bool = False
    """Whether a submission may also be a document that holds sources and names its entry (formats/solutions.py)."""


@dataclass(frozen=True)
class Program:
    """All that it takes to run a submission, or a reference, in a process of its own."""

    source: str = field(repr=False)
    filename: str
    """What the text is called there, e.g. `submission.py`: places in tracebacks are lines of it."""
    calling: Calling = Calling()
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By relative path: written beside it, modules among them can be imported."""
