"""Giving a folder to an id, whatever a stranger has put into it before."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sandbox import Command, Mount, identity

NAMES = st.binary(min_size=1, max_size=30).filter(lambda name: b"/" not in name and b"\0" not in name)
KINDS = st.sampled_from(("file", "closed folder", "folder", "link out", "link up", "broken link", "pipe"))
TREES = st.dictionaries(NAMES.filter(lambda name: name not in (b".", b"..")), KINDS, max_size=8)


def plant(folder: bytes, tree: dict[bytes, str], outside: Path) -> None:
    for name, kind in tree.items():
        path = os.path.join(folder, name)
        if kind == "file":
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0))
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind.endswith("folder"):
            os.mkdir(path)
            os.symlink(os.fsencode(outside), os.path.join(path, b"link"))
            os.chmod(path, 0 if kind == "closed folder" else 0o755)
        else:
            target = {"link out": os.fsencode(outside), "link up": b"..", "broken link": b"nowhere"}[kind]
            os.symlink(target, path)


def owners(folder: Path) -> set[int]:
    found = {folder.lstat().st_uid}
    for where, folders, files in os.walk(os.fsencode(folder)):
        found |= {os.lstat(os.path.join(where, name)).st_uid for name in (*folders, *files)}
    return found


@pytest.mark.skipif(identity.why_not() is not None, reason=f"{identity.why_not()}")
@settings(max_examples=60, deadline=None)
@given(TREES)
def test_all_of_a_folder_is_given_and_nothing_else(tree: dict[bytes, str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, outside, scratch = (Path(place) / name for name in ("folder", "outside", "scratch"))
        for each in (folder, outside, scratch):
            each.mkdir()
        (outside / "kept").touch()
        plant(os.fsencode(folder), tree, outside)
        command = Command(argv=("true",), mounts=(Mount(folder, writable=True), Mount(outside)))
        who = identity.take(command, scratch)
        assert owners(folder) == owners(scratch) == {who.uid}
        assert owners(outside) == {os.geteuid()} == owners(Path(place)) - {who.uid}
        assert identity.take(command, scratch) == who, "a second compiler in the folder is somebody else"
