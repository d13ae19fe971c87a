"""What a worker gets to see: each folder once, and whatever a link leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.sandbox import SANDBOXES, Command, Limits, Mount
from harness.sandbox.mounts import _outermost, interpreter_mounts


def test_what_lies_in_another_folder_is_not_named_again(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert _outermost([inner, tmp_path / "a", inner]) == [tmp_path / "a"]


def test_a_link_brings_what_it_leads_to(tmp_path: Path) -> None:
    real = tmp_path / "versions" / "13.0"
    (real / "bin").mkdir(parents=True)
    link = tmp_path / "current"
    link.symlink_to(real)
    assert sorted(_outermost([link / "bin", link])) == sorted([link, real])
    assert sorted(_outermost([link, tmp_path / "versions"])) == sorted([link, tmp_path / "versions"])


def test_a_folder_behind_a_link_can_be_read_in_the_sandbox(tmp_path: Path) -> None:
    if why := SANDBOXES["bubblewrap"].unavailable():
        pytest.skip(why)
    tmp_path.chmod(0o755)
    real = tmp_path / "real"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "words").write_text("found\n")
    link = tmp_path / "link"
    link.symlink_to(real)
    mounts = tuple(Mount(path) for path in _outermost([link, link / "bin"]))
    command = Command(argv=("/bin/cat", str(link / "bin" / "words")), mounts=(*interpreter_mounts(), *mounts))
    with SANDBOXES["bubblewrap"]().start(command, Limits(wall_s=20)) as running:
        assert running.wait(30).code == 0, running.output()
        assert running.output() == "found\n"
