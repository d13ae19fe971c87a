"""Submissions as text: what is one, what is none and why, and that nothing of it runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.load.submission import MAX_BYTES, Submission, SubmissionError

ROOT = Path(__file__).resolve().parents[2]


def refused(text: str) -> SubmissionError:
    with pytest.raises(SubmissionError) as caught:
        Submission.from_source(text, "mine.py")
    assert "mine.py" in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def test_the_examples_are_submissions() -> None:
    paths = sorted((ROOT / "submissions").glob("*.py"))
    assert len(paths) >= 9
    for path in paths:
        submission = Submission.load(path)
        assert submission.path == path
        assert submission.name == path.name
        assert submission.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_nothing_of_a_submission_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    path = tmp_path / "s.py"
    path.write_text(f"open({str(marker)!r}, 'w')\nclass ModelNew: pass\n")
    Submission.load(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        "class ModelNew: pass",
        "ModelNew = object",
        "from elsewhere import Fast as ModelNew",
        "from elsewhere import *",
        "if True:\n    class ModelNew: pass",
        "try:\n    import x\nexcept ImportError:\n    pass\nelse:\n    class ModelNew: pass",
        "\ufeffclass ModelNew: pass",
        "s = '\\d'\nclass ModelNew: pass",
    ],
)
def test_every_way_to_bind_the_name_counts(text: str) -> None:
    assert Submission.from_source(text, "s").sha256


def test_text_and_file_have_one_hash(tmp_path: Path) -> None:
    text = "class ModelNew:\r\n    pass\r\n# ü\n"
    path = tmp_path / "s.py"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert Submission.load(path).sha256 == Submission.from_source(text, "s.py").sha256
    assert Submission.load(path).source == text


def test_a_path_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.py", tmp_path, Path("nul\0byte.py")):
        with pytest.raises(SubmissionError) as caught:
            Submission.load(path)
        assert caught.value.code == "submission.not_found"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(SubmissionError, match="is not a file"):
        Submission.load(tmp_path / "pipe.py")


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "s.py"
    path.write_bytes(b"class ModelNew: pass # \xff")
    with pytest.raises(SubmissionError) as caught:
        Submission.load(path)
    assert caught.value.code == "submission.not_utf8"
    assert caught.value.evidence == {"position": 23}
    assert refused("\ud800").code == "submission.not_utf8"


@pytest.mark.parametrize("text", ["", " \n\t\n", "\ufeff"])
def test_empty(text: str) -> None:
    with pytest.raises(SubmissionError) as caught:
        Submission.from_source(text, "s")
    assert caught.value.code == "submission.empty"


def test_too_large() -> None:
    line = "class ModelNew: pass\n"
    assert Submission.from_source(line + "#" * (MAX_BYTES - len(line)), "s")
    error = refused(line + "#" * (MAX_BYTES - len(line) + 1))
    assert error.code == "submission.too_large"
    assert error.evidence == {"limit_bytes": MAX_BYTES}


def test_a_syntax_error_is_named_with_line_and_column() -> None:
    error = refused("class ModelNew:\n    def forward(self, x:\n        return x\n")
    assert error.code == "submission.syntax_error"
    assert error.evidence["line"] == 2
    assert error.evidence["column"] == 16
    assert error.evidence["text"] == "    def forward(self, x:"
    assert "line 2" in error.message


@pytest.mark.parametrize(
    "text", ["x = '\0'", "(" * 500, "-" * 200_000 + "1", "+".join("1" * 100_000), "[" * 90 + "]" * 89]
)
def test_what_breaks_python_s_own_parser_is_a_syntax_error_or_lacks_the_class(text: str) -> None:
    assert refused(text).code in ("submission.syntax_error", "submission.no_model_new")


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("class Model: pass", "Model"),
        ("class Helper: pass\nclass ModelNw: pass", "ModelNw"),
        ("class Helper: pass", None),
        ("def f():\n    class ModelNew: pass", None),
        ("# class ModelNew", None),
        ("x = [ModelNew for ModelNew in ()]", None),
    ],
)
def test_no_model_new_names_the_class_that_was_meant(text: str, nearest: str | None) -> None:
    error = refused(text)
    assert error.code == "submission.no_model_new"
    assert error.evidence["nearest"] == nearest
    if nearest:
        assert f"rename the class {nearest}" in error.message


PIECES = st.sampled_from(
    ["class ", "ModelNew", "Model", ":", "pass", "\n", " ", "(", ")", "def f", "'", '"""', "\0", "\\", "é"]
)


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=300), st.lists(PIECES, max_size=30).map(lambda parts: "".join(parts).encode())))
def test_any_bytes_are_a_submission_or_a_submission_error(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.py"
        path.write_bytes(data)
        code = None
        try:
            submission = Submission.load(path)
            assert "ModelNew" in submission.source or "*" in submission.source
        except SubmissionError as error:
            code = error.code
        assert code != "submission.not_found"


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_a_submission_or_a_submission_error(text: str) -> None:
    with contextlib.suppress(SubmissionError):
        assert Submission.from_source(text, "s").source
