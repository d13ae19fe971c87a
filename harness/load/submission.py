"""A submission as text: read, limited, parsed, never imported and never run."""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.load.program import Calling, Program
from harness.load.pysource import SourceSyntaxError, parse_source, top_level_classes, top_level_names

MAX_BYTES = 1 << 20
"""1 MiB: the longest real submissions have a tenth of it."""


FILE_NAME = "submission.py"
"""What a submission is called that came without a usable name."""
_USABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. +-]{0,98}[A-Za-z0-9_+-]|[A-Za-z0-9_]")

MODEL_NEW = Calling()
"""KernelBench's way."""


def usable_name(told: str) -> str | None:
    """The last part of what a stranger calls a file, if any folder and any message can take it; else None."""
    name = told.replace("\\", "/").rpartition("/")[2]
    return name if _USABLE_NAME.fullmatch(name) else None


class SubmissionError(Exception):
    """Text that is no submission. ``code`` is the reason code, the message one plain sentence, ``evidence`` its values.

    ``submission.not_found`` is wrong use of the grader; every other code is the verdict ``invalid_submission``.
    """

    def __init__(self, code: str, message: str, evidence: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.evidence: Mapping[str, object] = dict(evidence or {})


@dataclass(frozen=True)
class Submission:
    """Text that is a submission by its form: it parses as Python and binds ``ModelNew``, or what else the problem's
    format asks for. What it does when it runs, nobody knows yet."""

    path: Path | None
    name: str
    source: str = field(repr=False)
    sha256: str
    """Of the text as UTF-8, without a byte order mark."""
    program: Program = field(repr=False)
    """What is run of it."""
    calling: Calling = MODEL_NEW
    """What the problem asks for that it was read for."""

    @property
    def file_name(self) -> str:
        """What its file is called where it is imported: a name that a module can have."""
        return self.program.filename

    @classmethod
    def load(cls, path: Path | str, calling: Calling = MODEL_NEW) -> Submission:
        """Read a file; `calling` is what the problem asks for, a class ModelNew unless it says otherwise. Raises
        SubmissionError."""
        path = Path(path)
        try:
            if not path.is_file():
                what = "is not a file" if path.exists() else "does not exist"
                raise SubmissionError("submission.not_found", f"The submission {path} {what}; check the path.")
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SubmissionError(
                "submission.not_found", f"The submission {str(path)!r} cannot be read ({reason}); check the path."
            ) from None
        return cls._from_bytes(data, path.name, path, calling)

    @classmethod
    def from_source(cls, text: str, name: str, calling: Calling = MODEL_NEW) -> Submission:
        """Take text that came from elsewhere; ``name`` is what messages call it. Raises SubmissionError."""
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise _not_utf8(name, error.start) from None
        return cls._from_bytes(data, name, None, calling)

    @classmethod
    def _from_bytes(cls, data: bytes, name: str, path: Path | None, calling: Calling) -> Submission:
        if len(data) > MAX_BYTES:
            raise SubmissionError(
                "submission.too_large",
                f"{name} is larger than the limit of {MAX_BYTES} bytes; a submission is source text only.",
                {"limit_bytes": MAX_BYTES},
            )
        try:
            source = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _not_utf8(name, error.start) from None
        if not source.strip():
            raise SubmissionError("submission.empty", f"{name} is empty; write {_what(calling)}.")
        if calling.solutions and source.lstrip().startswith("{"):
            from harness.formats.solutions import program_of

            program = program_of(source, name, calling)
        else:
            tree = _check_text(source, name, calling)
            called = calling
            if calling.solutions:
                from harness.formats.solutions import style_of

                called = style_of(tree, calling)
            program = Program(source, _file_name(name), called)
        return cls(path, name, source, hashlib.sha256(source.encode()).hexdigest(), program, calling)


def _not_utf8(name: str, position: int) -> SubmissionError:
    return SubmissionError(
        "submission.not_utf8", f"{name} is not UTF-8 (position {position}); save it as UTF-8.", {"position": position}
    )


def _check_text(source: str, name: str, calling: Calling) -> ast.Module:
    """Raises SubmissionError for a syntax error or where nothing at the top level binds the entry."""
    tree = parse_submission(source, name)
    names = top_level_names(tree)
    entry = calling.entry
    if entry in names or "*" in names:  # after a star import only running it can tell
        return tree
    if calling.style != "model":
        functions = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
        advice = f"the functions there are: {', '.join(functions[:10])}" if functions else f"write {_what(calling)}"
        raise SubmissionError(
            "submission.no_entry",
            f"{name} defines no {entry} at its top level, which is what this problem calls; {advice}.",
            {"entry": entry, "functions": functions[:100]},
        )
    classes = top_level_classes(tree)
    near = difflib.get_close_matches(entry, classes, n=1, cutoff=0.6)
    nearest = near[0] if near else None
    if nearest:
        advice = f"rename the class {nearest}."
    elif classes:
        advice = f"the classes there are: {', '.join(classes[:10])}."
    else:
        advice = f"write {_what(calling)} with the constructor and the forward of the problem's Model."
    raise SubmissionError(
        "submission.no_model_new",
        f"{name} defines no ModelNew at its top level; {advice}",
        {"classes": classes[:100], "nearest": nearest},
    )


def parse_submission(source: str, name: str) -> ast.Module:
    """Raises SubmissionError for a syntax error."""
    try:
        return parse_source(source)
    except SourceSyntaxError as error:
        raise SubmissionError(
            "submission.syntax_error",
            f"{name} has a syntax error in line {error.line}: {error.message}; correct it.",
            {"line": error.line, "column": error.column, "text": error.text, "error": error.message},
        ) from None


def _what(calling: Calling) -> str:
    return f"a class {calling.entry}" if calling.style == "model" else f"a function {calling.entry}"


def _file_name(name: str) -> str:
    stem = Path(name).stem
    return f"{stem}.py" if stem.isidentifier() else "submission.py"
