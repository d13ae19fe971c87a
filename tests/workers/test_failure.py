"""What a worker tells of an exception: the submission's own part of it, whatever the exception is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.worker import extensions
from harness.worker.failure import describe_failure
from harness.workers.claims import Failed, parse

SOURCE = """
def f(other):
    other()

def chained(other):
    try:
        f(other)
    except Exception as error:
        raise ValueError("second") from error
"""


@pytest.fixture
def submission(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    path = tmp_path / "answer.py"
    path.write_text(SOURCE)
    names: dict[str, Any] = {}
    exec(compile(SOURCE, str(path), "exec"), names)
    return path, names


def described(path: Path | None, function: Callable[..., Any], *arguments: Any) -> Failed:
    try:
        function(*arguments)
    except BaseException as error:  # noqa: BLE001 - as the worker does
        claim = parse({**describe_failure(error, path), "ticket": ""})
        assert isinstance(claim, Failed)
        return claim
    raise AssertionError("nothing was raised")


def ours() -> None:
    """Raises within the harness's own worker package."""
    extensions._strings(3)


def test_it_begins_with_the_submission_and_leaves_our_own_frames_out(submission: Any) -> None:
    path, names = submission
    failed = described(path, names["f"], ours)
    assert failed.traceback.startswith(f'Traceback (most recent call last):\n  File "{path}", line 3, in f\n')
    assert extensions.__file__ not in failed.traceback
    assert failed.traceback.endswith("TypeError: 'int' object is not iterable\n")
    assert failed.evidence == {"line": 3}


def test_that_holds_for_what_it_came_from_as_well(submission: Any) -> None:
    path, names = submission
    failed = described(path, names["chained"], ours)
    assert failed.traceback.count(f'File "{path}"') == 3
    assert "direct cause" in failed.traceback
    assert extensions.__file__ not in failed.traceback
    assert failed.evidence == {"line": 9}


def test_without_a_submission_there_is_no_line() -> None:
    failed = described(None, ours)
    assert failed.evidence == {}
    assert failed.message == "'int' object is not iterable"


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


class Mean(BaseException):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


def test_an_error_whose_text_can_not_be_had_is_still_an_answer() -> None:
    failed = described(None, raising(Mean()))
    assert failed.message == "(Mean, whose text can't be had)"
    assert failed.category == "exception"


def test_names_and_texts_that_do_not_fit_are_made_to() -> None:
    failed = described(None, raising(type("E" * 10_000, (Exception,), {})("\ud800" + "m" * 100_000)))
    assert failed.error.startswith("EEE")
    assert failed.message.startswith("?mmm")
    assert "characters left out" in failed.message


def test_exceptions_that_hold_each_other_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    assert described(None, raising(first)).message == "first"


def test_the_parts_of_a_group_are_told(submission: Any) -> None:
    path, names = submission
    try:
        names["f"](ours)
    except TypeError as error:
        group = ExceptionGroup("both", [error, ValueError("other")])
    failed = described(path, raising(group))
    assert "ValueError: other" in failed.traceback
    assert extensions.__file__ not in failed.traceback
