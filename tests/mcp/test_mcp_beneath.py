"""Paths from a hostile model: the answer depends on nothing outside of the folder, and nothing there is read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.mcp.beneath import Outside, Unreadable, read_beneath

LIMIT = 1000


class World:
    """A folder with links of all kinds, and beside it another one that can be taken away and brought back."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root, self.outside, self.hidden = base / "root", base / "outside", base / "hidden"
        (self.root / "sub" / "deep").mkdir(parents=True)
        (self.root / "good.py").write_text("GOOD")
        (self.root / "sub" / "inner.py").write_text("INNER")
        self.outside.mkdir()
        (self.outside / "secret.py").write_text("SECRET")
        (self.outside / "back").symlink_to(self.root)
        (self.outside / "folder").mkdir()
        os.mkfifo(self.outside / "pipe")
        os.mkfifo(self.root / "pipe")
        links = {
            "out": self.outside,
            "secret": self.outside / "secret.py",
            "relative": "../outside/secret.py",
            "around": "../root/good.py",
            "nowhere": self.outside / "no",
            "null": "/dev/null",
            "fd": "/proc/self/fd/0",
            "here": ".",
            "inside": self.root / "sub",
            "alias": "good.py",
            "loop": "loop",
            "sub/up": "../good.py",
            "sub/deep/down": "../..",
            "chain": "sub/deep/down/out/secret.py",
        }
        for name, target in links.items():
            (self.root / name).symlink_to(target)

    def answer(self, path: str) -> str:
        """What a client gets to see."""
        try:
            return "read " + read_beneath(self.root, path.replace("{base}", str(self.base)), LIMIT).decode()
        except Outside:
            return "outside"
        except Unreadable as error:
            return f"unreadable: {error}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world").resolve())


LINKS = ["out", "secret", "relative", "around", "nowhere", "null", "fd", "here", "inside", "alias", "loop", "chain"]
FILES = ["good.py", "inner.py", "secret.py", "no.py", "pipe", "sub", "deep", "sub/up", "sub/deep/down", "folder"]
STEPS = ["..", "..", "..", ".", "outside", "back", "root"]
NAMES = st.sampled_from([*LINKS, *FILES, *STEPS])
ODD = st.one_of(st.just("x" * 300), st.just("a\0b"), st.just("\udcff"), st.just("\ud800"), st.text(max_size=8))
STARTS = st.sampled_from(["", "", "", "/", "//", "{base}/root/", "{base}/outside/", "{base}/", "/etc/", "/proc/self/"])
PATHS = st.builds(lambda start, parts: start + "/".join(parts), STARTS, st.lists(st.one_of(NAMES, NAMES, ODD)))


@given(path=PATHS)
@example(path="../outside/secret.py")
@example(path="out/pipe")
@example(path="chain")
@example(path="sub/deep/down/relative")
@example(path="{base}/outside/back/good.py")
@example(path="../root/good.py")
@example(path="out/" + "x" * 300)
@example(path="../" + "x" * 300)
@example(path="../a\0b")
def test_nothing_outside_changes_the_answer(world: World, path: str) -> None:
    with_it = world.answer(path)
    world.outside.rename(world.hidden)
    try:
        assert world.answer(path) == with_it
    finally:
        world.hidden.rename(world.outside)
    assert "SECRET" not in with_it
    if with_it.startswith("read "):
        real = Path(os.path.realpath(world.root / path.replace("{base}", str(world.base)), strict=True))
        assert real.is_relative_to(world.root)
        assert real.read_text() == with_it.removeprefix("read ")


@pytest.mark.parametrize(
    "path", ["good.py", "./sub//up", "alias", "inside/inner.py", "sub/deep/down/here/good.py", "sub/../good.py"]
)
def test_what_is_below_is_read_through_links_too(world: World, path: str) -> None:
    assert world.answer(path).startswith("read ")
    assert world.answer(f"{{base}}/root/{path}").startswith("read ")


def test_another_spelling_of_the_folder_will_do(world: World, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(world.root)
    path = str(tmp_path / "other" / "good.py")
    assert read_beneath(world.root, path, LIMIT, [tmp_path / "other"]) == b"GOOD"
    with pytest.raises(Outside):
        read_beneath(world.root, path, LIMIT)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("loop", "Too many links"),
        ("good.py/x", "Not a directory"),
        ("sub", "not a file"),
        ("pipe", "not a file"),
        ("", "not a file"),
        ("no.py", "No such file"),
        ("x" * 300, "name too long"),
        ("/".join(["here"] * 41), "Too many links"),
        ("a\0b", "no such name"),
    ],
)
def test_below_the_folder_it_says_what_is_the_matter(world: World, path: str, says: str) -> None:
    assert says in world.answer(path)


def test_a_path_through_many_folders_ends(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 80)
    (tmp_path / deep).mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Unreadable, match="folders deep"):
        read_beneath(tmp_path, f"{deep}/x.py", LIMIT)
    assert len(os.listdir("/proc/self/fd")) == before
    shutil.rmtree(tmp_path / "d")


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 5000)
    assert len(read_beneath(tmp_path, "large", LIMIT)) == LIMIT


def test_a_folder_that_became_a_link_leads_nowhere(world: World, tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to(world.outside)
    with pytest.raises(Unreadable):
        read_beneath(tmp_path / "root", "secret.py", LIMIT)
