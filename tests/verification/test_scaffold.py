"""`harness new`: what it writes passes as it is, and nothing is replaced unless asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import ScaffoldError, grade, new_problem, new_submission, verify
from harness.cli.main import main

SAMPLES = Path(__file__).resolve().parents[1] / "kernelbench"


def test_a_new_problem_passes_and_its_new_submission_is_accepted(tmp_path):
    assert {path.name for path in new_problem("row_norm", tmp_path)} == {"problem.toml", "reference.py", "README.md"}
    found = verify(tmp_path / "row_norm", device="cpu", examples=False)
    assert [finding for finding in found.findings if finding.severity != "note"] == []
    path = new_submission(tmp_path / "row_norm", tmp_path / "first.py", kind="cpu")
    report = grade(tmp_path / "row_norm", path, device="cpu", mode="check")
    assert report.accepted, report.reason
    assert report.correctness is not None
    assert report.correctness.weights == "transferred"
    assert [extension.name for extension in report.build.extensions] == ["first_cpu"]


@pytest.mark.nvcc
@pytest.mark.slow
def test_a_new_submission_in_cuda_builds(tmp_path):
    new_problem("row_norm", tmp_path)
    path = new_submission(tmp_path / "row_norm", tmp_path / "first.py", kind="cuda")
    report = grade(tmp_path / "row_norm", path, mode="compile", arch="9.0")
    assert report.accepted, report.reason


@pytest.mark.gpu
def test_a_new_submission_in_cuda_is_accepted(tmp_path):
    new_problem("row_norm", tmp_path)
    path = new_submission(tmp_path / "row_norm", tmp_path / "first.py", kind="cuda")
    assert grade(tmp_path / "row_norm", path, device="cuda", mode="check").accepted


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_submission_for_any_problem_has_its_model_and_not_its_inputs(tmp_path, kind):
    for sample in sorted(SAMPLES.glob("*.py")):
        if sample.stem.endswith("_wrong"):
            continue
        text = new_submission(sample, tmp_path / kind / sample.name, kind=kind).read_text()
        compile(text, sample.name, "exec")
        assert "class ModelNew(Model)" in text
        assert "def get_inputs" not in text
        assert "def get_init_inputs" not in text
        assert "@" not in text.replace("@torch", "").replace(" @ ", "").replace("@staticmethod", "")


def test_what_exists_is_left_alone_unless_forced(tmp_path):
    new_problem("p", tmp_path)
    mine = tmp_path / "p" / "README.md"
    mine.write_text("mine")
    (tmp_path / "p" / "problem.toml").unlink()
    with pytest.raises(ScaffoldError, match=r"README\.md"):
        new_problem("p", tmp_path)
    assert mine.read_text() == "mine"
    (tmp_path / "p" / "problem.toml").touch()
    with pytest.raises(ScaffoldError, match=r"exist already.* replace them"):
        new_problem("p", tmp_path)
    (tmp_path / "p" / "problem.toml").unlink()
    assert not (tmp_path / "p" / "problem.toml").exists()  # all or nothing
    new_problem("p", tmp_path, force=True)
    assert mine.read_text() != "mine"
    path = new_submission(tmp_path / "p", tmp_path / "a.py", kind="cpu")
    with pytest.raises(ScaffoldError, match=r"exists already.*--force to replace it"):
        new_submission(tmp_path / "p", path, kind="cpu")


@pytest.mark.parametrize("name", ["", "../up", "a b", ".hidden", "a/b"])
def test_a_name_that_can_not_be_a_folder_s(tmp_path, name):
    with pytest.raises(ScaffoldError, match="name"):
        new_problem(name, tmp_path)


def test_on_the_command_line(tmp_path, capfd):
    assert main(["new", "problem", "p", str(tmp_path)]) == 0
    assert main(["new", "submission", str(tmp_path / "p"), str(tmp_path / "a.py"), "--device", "cuda"]) == 0
    out = capfd.readouterr().out
    assert f"next: harness verify {tmp_path / 'p'}" in out
    assert f"next: harness check {tmp_path / 'p'} {tmp_path / 'a.py'} --device cuda" in out
    assert "cuda_sources" in (tmp_path / "a.py").read_text()
    assert main(["new", "problem", "p", str(tmp_path)]) == 2
    assert main(["new", "submission", str(tmp_path / "none"), str(tmp_path / "b.py"), "--device", "cpu"]) == 2
    assert main(["new", "submission", str(tmp_path / "p"), str(tmp_path / "b.txt"), "--device", "cpu"]) == 2
    err = capfd.readouterr().err
    assert err.count("\n") == 3
