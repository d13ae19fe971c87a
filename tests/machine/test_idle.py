"""The list of processes that hold a context and have nothing to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.machine.idle import Entry, idle


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of our own for them."""
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    return tmp_path / "locks"


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_it_is_listed_for_its_device_until_it_has_work(sleeper: int, locks: Path) -> None:
    entry = Entry("GPU-1", [sleeper, os.getpid()])
    assert idle("GPU-1") == {sleeper, os.getpid()}
    assert idle("GPU-2") == set()
    entry.close()
    entry.close()
    assert idle("GPU-1") == set()
    assert list(locks.iterdir()) == []


def test_a_number_that_another_process_has_by_now_is_not_it(sleeper: int, locks: Path) -> None:
    with Entry("GPU-1", [sleeper]).path.open("r+") as file:
        began = json.load(file)["tasks"][0][1]
        file.seek(0)
        json.dump({"tasks": [[sleeper, began - 1]]}, file)
    assert idle("GPU-1") == set()


def test_an_entry_goes_with_its_owner(sleeper: int, locks: Path) -> None:
    script = f"""if True:
        import os
        from harness.machine.idle import Entry
        kept = Entry('GPU-1', [{sleeper}])
        os.kill(os.getpid(), 9)
    """
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert len(list(locks.iterdir())) == 1
    assert idle("GPU-1") == set()
    assert list(locks.iterdir()) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tasks": 1}', '{"tasks": [["x", 1]]}', "\x00" * 10, "[" * 99999])
def test_an_entry_that_is_none_says_nothing(content: str, sleeper: int) -> None:
    entry = Entry("GPU-1", [sleeper])
    entry.path.write_text(content)
    assert idle("GPU-1") == set()
    entry.close()


def test_what_a_stranger_has_written_does_not_count(sleeper: int, locks: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can write as somebody else")
    entry = Entry("GPU-1", [sleeper])
    os.chown(entry.path, 12345, 12345)
    assert idle("GPU-1") == set()
    entry.close()


def test_a_link_is_not_followed(sleeper: int, locks: Path, tmp_path: Path) -> None:
    entry = Entry("GPU-2", [sleeper])
    (locks / "GPU-1.0-0.idle").symlink_to(entry.path)
    assert idle("GPU-1") == set()
    entry.close()
