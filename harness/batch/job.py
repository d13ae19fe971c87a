"""One grading as content alone: what it takes to do it anywhere, and the key under which it is done once."""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from harness.load.problem import Problem
from harness.load.pysource import SourceSyntaxError, parse_source
from harness.load.submission import Submission, SubmissionError

if TYPE_CHECKING:
    from harness.grading.grader import Mode

_KEY_FORMAT = "1"  # change it when equal contents would be graded differently


@dataclass(frozen=True)
class Options:
    """How everything in a batch is graded; the meanings are those of `harness.grade`."""

    mode: Mode = "run"
    workload: str | None = None
    budget_s: float | None = None
    relative_half_width: float | None = None
    sandbox: str | None = None


@dataclass(frozen=True)
class Job:
    """One grading. No path in it has to exist where it is done."""

    problem: Problem = field(repr=False)
    content: bytes = field(repr=False)
    """The submission's bytes; of one that is too large only as many as show that."""
    sha256: str
    """Of all of its bytes."""
    name: str
    """What messages call the submission."""
    options: Options
    attempt: int = 1
    """Which of several gradings of the same content, from 1."""

    def key(self, device: str) -> str:
        """Of two jobs with one key the second need not be done. `device` says on which hardware."""
        content = [
            _KEY_FORMAT, self.problem.version, self.sha256, asdict(self.options), self.attempt, device,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def wants_build(self) -> bool:
        """Whether the text mentions torch's extension builder: only then is there something to build ahead.

        A guess from the text that may be wrong either way: then time is lost, and nothing else.
        """
        try:
            tree = parse_source(self._text())
        except (SourceSyntaxError, UnicodeDecodeError):
            return False
        return any(_mentions_builder(node) for node in ast.walk(tree))

    def _text(self) -> str:
        """The text that is run: of a solution in JSON not the document."""
        text = self.content.decode("utf-8-sig")
        if not self.problem.calling.solutions:
            return text
        try:
            return Submission.from_source(text, self.name, self.problem.calling).program.source
        except SubmissionError:
            return text


def _mentions_builder(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any("cpp_extension" in alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names):
            return "cpp_extension" in (module or "") or any(alias.name == "cpp_extension" for alias in names)
        case ast.Attribute(attr="cpp_extension" | "load_inline"):
            return True
        case ast.Constant(value=str(text)):
            return text in ("cpp_extension", "torch.utils.cpp_extension", "load_inline")
    return False
