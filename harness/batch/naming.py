"""Which problem a submission says it answers.

The first of these that is there counts, and a name that leads nowhere is an error, not a reason to look further:

1. `problem` of its JSONL line
2. a comment `# problem: NAME` before the first line of code, or GPU MODE's `#!POPCORN leaderboard NAME`; of a solution
   in JSON its `definition`
3. KernelBench's names: `level_1_problem_23_sample_0_kernel.py`, in a file's name or in a line's id
4. the only problem, where one alone was given
"""

from __future__ import annotations

import json
import re

from harness.batch.problems import Named, NoProblem, ProblemIndex

_KERNELBENCH = re.compile(r"(?<![A-Za-z0-9])level_(\d{1,4})_problem_(\d{1,6})(?![0-9])")
_HEAD = re.compile(r"#\s*problem\s*:\s*(\S.*?)\s*|#!\s*POPCORN\s+leaderboard\s+(\S+)\s*")
_HEAD_LINES = 40
_HEAD_BYTES = 8192


def problem_of(index: ProblemIndex, *, named: str | None, content: bytes, label: str) -> Named:
    """The problem of a submission whose file's name, or id, is `label`. Raises NoProblem with what is missing."""
    if named is not None:
        return index.by_name(named)
    if (head := head_line(content) or definition_of(content)) is not None:
        return index.by_name(head)
    match = _KERNELBENCH.search(label)
    if match is not None:
        return index.by_number(int(match[1]), int(match[2]))
    if (only := index.only()) is not None:
        return only
    raise NoProblem(
        "it can't be told which problem this answers: give the line a `problem`, begin the file with "
        "`# problem: NAME`, or name it as KernelBench does (level_1_problem_23_sample_0_kernel.py)"
    )


def head_line(content: bytes) -> str | None:
    """NAME of a comment `# problem: NAME` that stands before the first line of code."""
    text = content[:_HEAD_BYTES].decode("utf-8-sig", "replace")
    for line in text.splitlines()[:_HEAD_LINES]:
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return None
        match = _HEAD.fullmatch(stripped)
        if match is not None:
            return match[1] or match[2]
    return None


def definition_of(content: bytes) -> str | None:
    """What a solution in JSON says it solves."""
    if not content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    name = found.get("definition") if isinstance(found, dict) else None
    return name if isinstance(name, str) and name else None
