"""A report that is never larger than what everybody who reads, keeps and sends it has room for.

Its lists are bounded where they are made. What is left are texts that come from the submission, each of them short
enough alone: they are cut, the longest first, until all of the document fits.
"""

from __future__ import annotations

import json
from typing import Any

from harness.brief import cut
from harness.jsontext import writable
from harness.report import Report, Warning_

MAX_REPORT_BYTES = 4 << 20
"""Of the JSON document. A usual one has some 20 KiB."""
_TEXT_CHARS = (64 << 10, 16 << 10, 4 << 10, 1 << 10, 256)
"""What texts are cut to, one after the other: names, keys and digests of ours are all shorter than the last."""
_ROOM = 4 << 10
"""Bytes for the warning."""
_LEAVES = 64
"""Of each list of an output's tensors, where even short texts don't fit beside them."""


def size_of(report: Report) -> int:
    """Bytes of the report's JSON document, as it is written and sent."""
    return len(_json(report.model_dump(mode="json")))


def fitted(report: Report) -> Report:
    """The report itself, or with its texts cut where it is too large, which a warning tells."""
    if size_of(report) <= MAX_REPORT_BYTES:
        return report
    whole = report.model_dump(mode="json")
    for most in _TEXT_CHARS:
        shorter = _cut(whole, most)
        if len(_json(shorter)) <= MAX_REPORT_BYTES - _ROOM:
            break
    else:
        shorter = _without_rows(shorter)
    found = Report.model_validate(shorter)
    return found.model_copy(update={"warnings": [*found.warnings, _warning(most)]})


def _warning(most: int) -> Warning_:
    limit = MAX_REPORT_BYTES >> 20
    return Warning_(
        code="report.cut",
        message=f"The report would be larger than {limit} MiB, so texts in it were cut to {most} characters, and what "
        "then still didn't fit was left out. Have the submission print less, and its compilers say less.",
        evidence={"limit_bytes": MAX_REPORT_BYTES, "text_chars": most},
    )


def _without_rows(document: dict[str, Any]) -> dict[str, Any]:
    """For what even short texts don't fit beside: of rows there may be as many as the problem's output has tensors."""
    short: dict[str, Any] = {
        **document,
        "log": "",
        "profile": None,
        "build": {**document["build"], "diagnostics": [], "kernels": []},
        "workloads": [_with_few_leaves(each) for each in document["workloads"]],
    }
    return _with_few_leaves(short)


def _with_few_leaves(part: dict[str, Any]) -> dict[str, Any]:
    """Of a report, or of a workload in it: first of all those leaves that decided something."""
    found = dict(part)
    if (checked := part["correctness"]) is not None:
        leaves = sorted(checked["leaves"], key=lambda leaf: leaf["ok"])
        found["correctness"] = {**checked, "leaves": leaves[:_LEAVES]}
    if (audit := part["audit"]) is not None:
        found["audit"] = {**audit, "kernels": []}
        if (precision := audit["precision"]) is not None:
            leaves = sorted(precision["leaves"], key=lambda leaf: not leaf["below"])
            found["audit"]["precision"] = {**precision, "leaves": leaves[:_LEAVES]}
    return found


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, dict):
        return {key: _cut(item, most) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, most) for item in value]
    return value


def _json(document: Any) -> bytes:
    return json.dumps(writable(document), indent=2, ensure_ascii=False, allow_nan=False).encode()
