"""What went wrong in the submission, as data that can travel."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

_HERE = str(Path(__file__).parent)
_TEXT_MAX = 8 << 10


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


def describe_failure(error: BaseException) -> dict[str, Any]:
    """An exception of the submission's, with the part of its traceback that is the submission's own."""
    return {
        "type": "failed",
        "category": _category(error),
        "error": type(error).__name__,
        "message": _shorten(_text_of(error)),
        "traceback": _shorten(_own_traceback(error)),
        "evidence": {},
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
    except Exception:  # noqa: BLE001 - __str__ is the submission's code as well
        return f"({type(error).__name__}, whose text can't be had)"


def _own_traceback(error: BaseException) -> str:
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
            trace = trace.tb_next
        error = error.with_traceback(trace)
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - see above
        return ""


def _shorten(text: str) -> str:
    text = text.encode(errors="replace").decode()
    if len(text) <= _TEXT_MAX:
        return text
    half = _TEXT_MAX // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
