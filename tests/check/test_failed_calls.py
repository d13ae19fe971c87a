"""What a submission's author sees of a call that failed in the grader's own part of it."""

from __future__ import annotations

import traceback
from pathlib import Path

import harness
from harness.wire.transfer import dtype_of
from harness.worker.failure import describe_failure


def test_a_failure_that_shows_only_when_an_output_is_taken_has_no_frames_of_the_graders(tmp_path: Path) -> None:
    """A launch that failed is told by the next call of CUDA, which is a copy of the grader's."""
    try:
        dtype_of("no such type")
    except ValueError as error:
        assert "transfer.py" in traceback.format_exc()
        told = describe_failure(error, tmp_path / "answer.py")
    assert str(Path(harness.__file__).parent) not in told["traceback"]
    assert 'File "' not in told["traceback"].replace(f'File "{__file__}"', "")
    assert told["traceback"].endswith("ValueError: 'no such type' is no dtype\n")
    assert told["evidence"] == {}
