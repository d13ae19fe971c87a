"""A submission as text: read, limited, parsed, never imported and never run."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.pysource import SourceSyntaxError, parse_source, top_level_classes, top_level_names

MAX_BYTES = 1 << 20
"""1 MiB: the longest real submissions have a tenth of it."""


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
    """Text that parses as Python and binds ``ModelNew``. What it does when it runs, nobody knows yet."""

    path: Path | None
    name: str
    source: str = field(repr=False)
    sha256: str
    """Of the text as UTF-8, without a byte order mark."""

    @property
    def file_name(self) -> str:
        """What its file is called where it is imported: a name that a module can have."""
        stem = Path(self.name).stem
        return f"{stem}.py" if stem.isidentifier() else "submission.py"

    @classmethod
    def load(cls, path: Path | str) -> Submission:
        """Read a file. Raises SubmissionError."""
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
        return cls._from_bytes(data, path.name, path)

    @classmethod
    def from_source(cls, text: str, name: str) -> Submission:
        """Take text that came from elsewhere; ``name`` is what messages call it. Raises SubmissionError."""
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise _not_utf8(name, error.start) from None
        return cls._from_bytes(data, name, None)

    @classmethod
    def _from_bytes(cls, data: bytes, name: str, path: Path | None) -> Submission:
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
            raise SubmissionError("submission.empty", f"{name} is empty; write a class ModelNew.")
        _check_text(source, name)
        return cls(path=path, name=name, source=source, sha256=hashlib.sha256(source.encode()).hexdigest())


def _not_utf8(name: str, position: int) -> SubmissionError:
    return SubmissionError(
        "submission.not_utf8", f"{name} is not UTF-8 (position {position}); save it as UTF-8.", {"position": position}
    )


def _check_text(source: str, name: str) -> None:
    """Raises SubmissionError for a syntax error or where nothing at the top level binds ModelNew."""
    try:
        tree = parse_source(source)
    except SourceSyntaxError as error:
        raise SubmissionError(
            "submission.syntax_error",
            f"{name} has a syntax error in line {error.line}: {error.message}; correct it.",
            {"line": error.line, "column": error.column, "text": error.text, "error": error.message},
        ) from None
    names = top_level_names(tree)
    if "ModelNew" in names or "*" in names:  # after a star import only running it can tell
        return
    classes = top_level_classes(tree)
    near = difflib.get_close_matches("ModelNew", classes, n=1, cutoff=0.6)
    nearest = near[0] if near else None
    if nearest:
        advice = f"rename the class {nearest}."
    elif classes:
        advice = f"the classes there are: {', '.join(classes[:10])}."
    else:
        advice = "write a class ModelNew with the constructor and the forward of the problem's Model."
    raise SubmissionError(
        "submission.no_model_new",
        f"{name} defines no ModelNew at its top level; {advice}",
        {"classes": classes[:100], "nearest": nearest},
    )
