"""What compute-sanitizer prints, as records: the form of its text and nothing of what it means.

    ========= COMPUTE-SANITIZER
    ========= Invalid __global__ write of size 4 bytes          <- the head of a record
    =========     at kernel(float *)+0x90 in /src/cuda.cu:12    <- its lines, indented
    =========     by thread (32,0,0) in block (1,0,0)
    =========     Address 0x7f0000000400 is out of bounds
    =========         Device Frame: caller(int)+0x30 in /src/cuda.cu:20
    =========
    ========= Error: Race reported between Write access at kernel()+0xf0 in /src/cuda.cu:40
    =========     and Read access at kernel()+0x280 in /src/cuda.cu:46 [508 hazards]
    ========= ERROR SUMMARY: 2 errors

Releases differ in small things (`kernel():0x90` for `kernel()+0x90`, the kernel after the line, `WARNING:` in
capitals), and a head that nobody has seen before must not be lost: whatever has a place or a thread is a record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

MAX_RECORDS = 20_000
_MAX_LINE = 4000
"""Longer ones are cut: names of templates can be as long as they like."""

_PREFIX = re.compile(r"^\s?={6,}(.*)$")
_THREAD = re.compile(r"by threads? (?:starting at )?\((\d{1,10}), ?(\d{1,10}), ?(\d{1,10})\)")
_BLOCK = re.compile(r"in block \((\d{1,10}), ?(\d{1,10}), ?(\d{1,10})\)")
_SUMMARY = re.compile(r"^(ERROR|RACECHECK|LEAK) SUMMARY: (\d{1,15})\b")
_NOT_PRINTED = re.compile(r"\b(\d{1,15}) errors? (?:was|were) not printed\b")
_HAZARDS = re.compile(r"\[(\d{1,15}) hazards?\]\s*$")
_ACCESS = re.compile(r"\b(Read|Write|Atomic) access at (.+)$")
_RACING_THREAD = re.compile(r"^(Read|Write|Atomic) Thread \((\d{1,10}), ?(\d{1,10}), ?(\d{1,10})\) at (.+)$")
_FRAME = re.compile(r"^Device Frame: ?(.+)$")

_AFTER = re.compile(r"^(?P<function>.*?)[+:](?P<offset>0x[0-9a-fA-F]+)(?: in (?P<where>.+))?$")
_BEFORE = re.compile(r"^(?P<offset>0x[0-9a-fA-F]+)(?: in (?P<where>.+))?$")
_FILE_LINE = re.compile(r"^(?P<file>.+?):(?P<line>\d{1,9})(?::(?P<function>.+))?$")
_COUNTED_FRAME = re.compile(r"\s*\[0x[0-9a-fA-F]+\]\s*$")

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Spot:
    """Where in the code: a function of the device's and, with line info, a compiler's file and line."""

    function: str
    """As printed, demangled; empty where it is not."""
    file: str | None = None
    line: int | None = None
    access: str = ""
    """read, write or atomic, where the line says what was done there."""


@dataclass(frozen=True)
class Record:
    """One report."""

    head: str
    """Its first line, without a severity in front."""
    severity: str = ""
    """error, warning or info, in small letters; empty where none is given."""
    spots: tuple[Spot, ...] = ()
    """The places that take part: one, or for a race all."""
    frames: tuple[Spot, ...] = ()
    """Who called the first of them, from the inside out; the last is the kernel."""
    thread: Triple | None = None
    block: Triple | None = None
    details: tuple[str, ...] = ()
    """Other lines of it, such as what the address has to do with which allocation."""
    hazards: int = 1
    """How many races it stands for; 1 for everything else."""


@dataclass(frozen=True)
class Parsed:
    """All that one run printed."""

    records: tuple[Record, ...]
    notes: tuple[str, ...]
    """Lines that are about the tool itself, in their order."""
    total: int | None
    """Reports in all, printed or not; None: it did not come to the end."""


@dataclass
class _Open:
    """A record whose lines are still coming."""

    record: Record
    lines: list[str] = field(default_factory=list)


def parse(text: str) -> Parsed:
    """Whatever the text, an answer; what can't be understood is among the notes."""
    records: list[Record] = []
    notes: list[str] = []
    total: int | None = None
    missing = 0
    current: _Open | None = None

    def end() -> None:
        nonlocal current
        if current is None:
            return
        record = _filled(current)
        if _says_where(record) and len(records) < MAX_RECORDS:
            records.append(record)
        else:
            notes.extend([record.head, *current.lines])
        current = None

    for raw in text.splitlines():
        if (match := _PREFIX.match(raw[:_MAX_LINE])) is None:
            continue
        body = match[1].rstrip()
        words = body.strip()
        indented = body.startswith("   ")
        if not words:
            end()
        elif indented and current is not None:
            current.lines.append(words)
        elif found := _NOT_PRINTED.search(words):
            end()
            missing = int(found[1])
        elif found := _SUMMARY.match(words):
            end()
            if found[1] != "LEAK":
                total = int(found[2])
        else:
            end()
            current = _Open(_begun(words))
    end()
    if total is not None:
        total = max(total, len(records) + missing)
    return Parsed(tuple(records), tuple(note for note in notes if note != "COMPUTE-SANITIZER"), total)


def _begun(words: str) -> Record:
    severity = re.match(r"^(error|warning|info): ", words, re.IGNORECASE)
    head = words[severity.end() :] if severity else words
    record = Record(head, severity[1].lower() if severity else "")
    # The first place of a race is in its head.
    if head.startswith("Race reported") and (access := _ACCESS.search(head)):
        record = replace(record, head="Race reported", spots=(_spot(access[2], access[1]),))
    if block := _BLOCK.search(head):
        record = replace(record, block=_triple(block))
    return record


def _filled(opened: _Open) -> Record:
    record = opened.record
    for line in opened.lines:
        record = _with_line(record, line)
    return record


def _with_line(record: Record, line: str) -> Record:
    if line.startswith("Host Frame") or line.startswith("Saved host backtrace"):
        return record
    if frame := _FRAME.match(line):
        return replace(record, frames=(*record.frames, _spot(_COUNTED_FRAME.sub("", frame[1]))))
    if thread := _THREAD.search(line):
        block = _BLOCK.search(line)
        return replace(record, thread=_triple(thread), block=_triple(block) if block else record.block)
    if racing := _RACING_THREAD.match(line):
        spots = (*record.spots, _spot(racing[5], racing[1]))
        first = record.thread or (int(racing[2]), int(racing[3]), int(racing[4]))
        return replace(record, spots=spots, thread=first)
    if access := _ACCESS.search(line):
        hazards = _HAZARDS.search(line)
        spots = (*record.spots, _spot(_HAZARDS.sub("", access[2]).strip(), access[1]))
        return replace(record, spots=spots, hazards=int(hazards[1]) if hazards else record.hazards)
    if line.startswith("at ") and not record.spots:
        return replace(record, spots=(_spot(line[3:]),))
    return replace(record, details=(*record.details, line))


def _spot(text: str, access: str = "") -> Spot:
    """`k(int)+0x90 in f.cu:4`, `k(int):0x90 in f.cu:4`, `0x90 in f.cu:4:k(int)`, `0x90 in k(int)`."""
    text = text.strip()
    if match := _BEFORE.match(text):
        where = match["where"] or ""
        place = _FILE_LINE.match(where)
        if place is None:
            return Spot(where, access=access.lower())
        return Spot(place["function"] or "", place["file"], int(place["line"]), access.lower())
    function, where = text, None
    if match := _AFTER.match(text):
        function, where = match["function"], match["where"]
    place = _FILE_LINE.match(where) if where else None
    if place is None:
        return Spot(function, access=access.lower())
    return Spot(function, place["file"], int(place["line"]), access.lower())


def _says_where(record: Record) -> bool:
    return bool(record.spots) or record.thread is not None


def _triple(match: re.Match[str]) -> Triple:
    return int(match[1]), int(match[2]), int(match[3])
