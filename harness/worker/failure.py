"""What went wrong in the submission, as data that can travel."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OURS = f"{Path(__file__).parents[1]}/"
_TEXT_MAX = 8 << 10
_NAME_MAX = 200


class Failure(Exception):
    """Something that the runner itself found: the submission broke a rule without raising."""

    def __init__(self, category: str, message: str, **evidence: Any) -> None:
        super().__init__(message)
        self.category = category
        self.message = message
        self.evidence = evidence

    def to_json(self) -> dict[str, Any]:
        """As it travels."""
        return {
            "type": "failed",
            "category": self.category,
            "error": "",
            "message": _shorten(self.message),
            "traceback": "",
            "evidence": self.evidence,
        }


def describe_failure(error: BaseException, submission: Path | None) -> dict[str, Any]:
    """An exception of the submission's, with the part of its traceback that is the submission's own: from the first
    line of the file `submission` on, without what lies in here."""
    own, line = _own_traceback(error, str(submission))
    return {
        "type": "failed",
        "category": _category(error),
        "error": _shorten(type(error).__name__)[:_NAME_MAX],
        "message": _shorten(_text_of(error)),
        "traceback": _shorten(own),
        "evidence": {} if line is None else {"line": line},
    }


def _category(error: BaseException) -> str:
    import torch

    text = _text_of(error)
    if isinstance(error, SystemExit):
        return "exit"
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return "device_memory"
    if isinstance(error, MemoryError) or ("DefaultCPUAllocator" in text and "memory" in text):
        return "host_memory"
    if "CUDA error" in text or type(error).__name__ == "AcceleratorError":
        return "cuda"
    return "exception"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - __str__ is the submission's code as well
        return f"({type(error).__name__}, whose text can't be had)"


def _own_traceback(error: BaseException, submission: str) -> tuple[str, int | None]:
    """The text, and the line of the submission's that was reached last."""
    try:
        described = traceback.TracebackException.from_exception(error)
        lines = [frame.lineno for frame in described.stack if frame.filename == submission]
        for part in _chain(described):
            frames = [frame for frame in part.stack if not frame.filename.startswith(_OURS)]
            first = next((i for i, frame in enumerate(frames) if frame.filename == submission), 0)
            part.stack = traceback.StackSummary.from_list(frames[first:])
        return "".join(described.format()), lines[-1] if lines else None
    except BaseException:  # noqa: BLE001 - see above
        return "", None


def _chain(described: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception, and those that it came from or is made of."""
    waiting, seen = [described], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += [other for other in (part.__cause__, part.__context__, *(part.exceptions or ())) if other]


def _shorten(text: str) -> str:
    text = text.encode(errors="replace").decode()
    if len(text) <= _TEXT_MAX:
        return text
    half = _TEXT_MAX // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
