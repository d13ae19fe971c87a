"""The results of a batch on disk, whole after a kill.

    RUN/lock             held while a process adds results
    RUN/settings.json    how everything in it is graded; written once
    RUN/results.jsonl    a line a result, synced to the disk before the next grading's is written
    RUN/not_used.json    what of the input could not be used, as of the last start

A line that a kill has torn has no end: it is cut off at the next start, and its grading done again. Reports stay on
disk; in memory there is a place for each.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.batch.inputs import BadInput
from harness.jsontext import writable
from harness.report import Report, Verdict

RESULTS = "results.jsonl"
_FORMAT = 1


class RunError(Exception):
    """The folder can't be used. The message is plain: what is the matter, what to do."""


class Result(BaseModel):
    """One line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    """Of the submission."""
    problem: str
    """Its name in the batch."""
    level: int | None = None
    """Of the problem, where it has one."""
    attempt: int
    """Which grading of the submission, from 1."""
    key: str
    """Of the grading: lines of one key share it."""
    same_as: str | None = None
    """The submission whose grading this is, where another of the same content was graded."""
    report: Report
    """The whole of it."""


class Store:
    """One run's folder, for the one process that adds to it. Leaving it gives the lock back."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        """`settings` is what the results depend on. Raises RunError when somebody else has the folder, or when what is
        in it was graded with other settings."""
        self.path = folder / RESULTS
        self._folder = folder
        self._settings = {"format": _FORMAT, **settings}
        self._lock: int | None = None
        self._end = 0
        self._places: dict[str, int] = {}
        self._done: dict[tuple[str, str], Verdict] = {}
        self.repaired = False
        """Whether a torn line was cut off."""

    def __enter__(self) -> Store:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._compare_settings()
            self._file = self.path.open("a+b")
            self._read_back()
        except BlockingIOError:
            self._release()
            raise RunError(
                f"Another process is adding to {self._folder}; wait for it, or name another folder."
            ) from None
        except OSError as error:
            self._release()
            raise RunError(f"{self._folder} can't be written ({error.strerror or error}); name another.") from None
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._release()

    def verdict(self, identifier: str, key: str) -> Verdict | None:
        """Of that submission's result; None where it has none yet."""
        return self._done.get((identifier, key))

    def same(self, key: str) -> Result | None:
        """A result of that key, whoever's."""
        place = self._places.get(key)
        if place is None:
            return None
        self._file.seek(place)
        return Result.model_validate_json(self._file.readline())

    def add(self, results: Sequence[Result]) -> None:
        """Add them, all or none, and return when they are on the disk."""
        lines = [_line(result) for result in results]
        self._file.write(b"".join(lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        for result, line in zip(results, lines, strict=True):
            self._note(result, self._end)
            self._end += len(line)

    def write_not_used(self, found: Sequence[BadInput]) -> None:
        """What could not be used, for those who look at the results."""
        _write_whole(self._folder / "not_used.json", [asdict(each) for each in found])

    def _compare_settings(self) -> None:
        path = self._folder / "settings.json"
        try:
            before = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            _write_whole(path, self._settings)
            return
        except ValueError:
            raise RunError(f"{path} is damaged; name another folder.") from None
        if before != self._settings:
            keys = {*before, *self._settings} if isinstance(before, dict) else set()
            other = [
                f"{key} {before.get(key)!r} before, {self._settings.get(key)!r} now"
                for key in sorted(keys)
                if before.get(key) != self._settings.get(key)
            ]
            raise RunError(
                f"{self._folder} holds results that were graded otherwise ({'; '.join(other)}); name another folder."
            )

    def _read_back(self) -> None:
        """Find what is done, and cut off a last line that has no end."""
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                self._file.truncate(self._end)
                self.repaired = True
                break
            try:
                self._note(Result.model_validate_json(line), self._end)
            except ValidationError:
                # Not a kill's doing: lines are whole or have no end.
                raise RunError(
                    f"{self.path} has a line, at byte {self._end}, that is no result; remove it or name another folder."
                ) from None
            self._end += len(line)
        os.fsync(self._file.fileno())

    def _note(self, result: Result, place: int) -> None:
        # A failure of ours is no answer: the next start tries again.
        if result.report.verdict is not Verdict.JUDGE_ERROR:
            self._places.setdefault(result.key, place)
            self._done[result.id, result.key] = result.report.verdict

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def read_results(folder: Path) -> Iterator[Result]:
    """The last result of each submission and attempt, also while somebody is still adding. Raises RunError."""
    last: dict[tuple[str, int], int] = {}
    try:
        with (folder / RESULTS).open("rb") as file:
            place = 0
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break
                result = _parsed(line, folder, number)
                last[result.id, result.attempt] = place
                place += len(line)
            for number, place in enumerate(sorted(last.values()), start=1):
                file.seek(place)
                yield _parsed(file.readline(), folder, number)
    except OSError as error:
        raise RunError(
            f"There are no results in {folder} ({error.strerror or error}); name a batch's folder."
        ) from None


def read_not_used(folder: Path) -> list[BadInput]:
    """What the last start could not use."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return [BadInput(**each) for each in json.loads((folder / "not_used.json").read_text("utf-8"))]
    return []


def _parsed(line: bytes, folder: Path, number: int) -> Result:
    try:
        return Result.model_validate_json(line)
    except ValidationError:
        raise RunError(f"{folder / RESULTS}, line {number}, is no result; remove that line.") from None


def _line(result: Result) -> bytes:
    value = writable(result.model_dump(mode="json"))
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _write_whole(path: Path, value: Any) -> None:
    """Beside its place first: a reader sees the old one or the whole new one."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(writable(value), file, indent=2, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
