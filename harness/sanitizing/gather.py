"""From records to findings: what each means, each mistake once, and only what the submission is to answer for.

A mistake is a kind in a kernel on a line. What racecheck, initcheck and synccheck say of a library's kernels is set
aside: libraries race on purpose and read what they don't use. What memcheck says of them counts: they were handed a
wrong address.
"""

from __future__ import annotations

import re
from typing import Any

from harness.sanitizing.findings import Aside, Finding, Kind, Place, ToolRun
from harness.sanitizing.parse import Record, Spot, parse
from harness.sanitizing.places import Places

_INVALID = re.compile(r"^(?:Potential )?[Ii]nvalid __\w+__ (read|write|atomic)\b")
_MEMORY = re.compile(r"__(global|shared|local|remote_shared)__")
_SIZE = re.compile(r"\bof size ([\d,]{1,12}) bytes?\b")
_NOTE_MOST = 300
_NOTES_MOST = 20
_FINDINGS_MOST = 200
_PRINTED_MOST = 16 << 10


def gather(tool: str, text: str, places: Places, *, seconds: float, failure: str | None) -> ToolRun:
    """One tool's run, from what it printed. `failure` is what kept the call from its end."""
    parsed = parse(text)
    findings: dict[tuple[Any, ...], dict[str, Any]] = {}
    aside: dict[tuple[Kind, str], int] = {}
    for record in parsed.records:
        kind = _kind(record)
        kernel = _kernel(record)
        if tool != "memcheck" and not places.own(kernel):
            aside[kind, kernel] = aside.get((kind, kernel), 0) + record.hazards
            continue
        made = [places.place(spot, kernel) for spot in record.spots]
        first, others = (made[0], made[1:]) if made else (None, [])
        key = (kind, kernel, frozenset((place.file, place.line, place.function) for place in made))
        if key in findings:
            findings[key]["count"] += record.hazards
        elif len(findings) < _FINDINGS_MOST:
            findings[key] = {
                "tool": tool,
                "kind": kind,
                "kernel": kernel,
                "message": _message(record),
                "place": first,
                "others": _unequal(others, first),
                "called_from": [places.place(frame, kernel) for frame in record.frames],
                "thread": record.thread,
                "block": record.block,
                "severity": record.severity,
                "count": record.hazards,
                **_access(record, kind),
            }
    return ToolRun(
        tool=tool,
        findings=[Finding(**values) for values in findings.values()],
        aside=[Aside(kind=kind, kernel=kernel, count=count) for (kind, kernel), count in aside.items()],
        reported=max(len(parsed.records), parsed.total or 0),
        # racecheck counts races, of which each is one record, too.
        cut=parsed.total is not None and parsed.total > len(parsed.records),
        ended=parsed.total is not None and failure is None,
        notes=[note[:_NOTE_MOST] for note in dict.fromkeys(parsed.notes)][:_NOTES_MOST],
        failure=failure,
        printed=text[:_PRINTED_MOST],
        seconds=round(seconds, 3),
    )


def _kind(record: Record) -> Kind:
    head = record.head
    if match := _INVALID.match(head):
        if any("misaligned" in detail for detail in record.details):
            return "misaligned_access"
        return "out_of_bounds_read" if match[1] == "read" else "out_of_bounds_write"
    if head.startswith("Race reported") or " hazard detected" in head:
        return "shared_memory_race"
    if head.startswith("Uninitialized"):
        return "uninitialized_read"
    if "Barrier error" in head or "Deadlock" in head:
        return "barrier_error"
    if head.startswith("Malloc/Free error"):
        return "device_heap_error"
    return "other"


def _kernel(record: Record) -> str:
    """The outermost function is the kernel."""
    spots: tuple[Spot, ...] = record.frames[-1:] or record.spots[:1]
    name = spots[0].function if spots else ""
    # `[clone kernel(int)] part()` is a part of a kernel that the compiler took out of it.
    clone = re.match(r"^\[clone (.+)\] ", name)
    return clone[1] if clone else name


def _message(record: Record) -> str:
    address = next((detail for detail in record.details if detail.startswith("Address")), "")
    nearest = next((detail for detail in record.details if "nearest allocation" in detail), "")
    return " ".join(part for part in (record.head.rstrip(" :") + ".", address, nearest) if part)[:_NOTE_MOST]


def _access(record: Record, kind: Kind) -> dict[str, Any]:
    """What was done to which memory, as far as it is told."""
    memory, size, access = _MEMORY.search(record.head), _SIZE.search(record.head), _INVALID.match(record.head)
    done = access[1] if access else "read" if kind == "uninitialized_read" else ""
    if kind == "shared_memory_race":
        done = record.spots[0].access if record.spots else ""
    return {
        "memory": memory[1] if memory else "shared" if kind == "shared_memory_race" else "",
        "access": done,
        "size_bytes": int(size[1].replace(",", "") or 0) if size else None,
    }


def _unequal(others: list[Place], first: Place | None) -> list[Place]:
    """Those on other lines, each once."""
    return [place for place in dict.fromkeys(others) if place != first]
