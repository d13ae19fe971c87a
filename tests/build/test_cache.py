"""The cache: whole or absent whatever happens to its writers, capped, one build for a key."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.build import BuildCache
from harness.build import cache as cache_module
from harness.build.cache import FAILURE_TTL_S

KEY = "ab" * 32


def keys(count: int) -> list[str]:
    return [f"{number:02x}" * 32 for number in range(count)]


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "cache")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "library.so"
    path.write_bytes(b"x" * 1000)
    return path


def test_what_is_published_is_found_and_read_only(cache: BuildCache, library: Path) -> None:
    assert cache.lookup(KEY) is None
    cache.publish(KEY, library, {"name": "ext", "log": "text"})
    entry = cache.lookup(KEY)
    assert entry is not None
    assert entry.library is not None
    assert entry.library.read_bytes() == library.read_bytes()
    assert entry.library.stat().st_mode & 0o222 == 0
    assert entry.meta["log"] == "text"


def test_failures_are_remembered_for_a_while(cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.publish(KEY, None, {"name": "ext"})
    entry = cache.lookup(KEY)
    assert entry is not None
    assert entry.library is None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + FAILURE_TTL_S + 1)
    assert cache.lookup(KEY) is None


@pytest.mark.parametrize("damage", ["library", "truncated meta", "no library"])
def test_damaged_entries_are_dropped(cache: BuildCache, library: Path, damage: str) -> None:
    entry = cache.publish(KEY, library, {"name": "ext"})
    assert entry.library is not None
    if damage == "library":
        entry.library.chmod(0o644)
        entry.library.write_bytes(b"y" * 1000)
    elif damage == "no library":
        entry.library.unlink()
    else:
        (entry.path / "entry.json").write_text('{"ok": tr')
    assert cache.lookup(KEY) is None
    assert cache.publish(KEY, library, {"name": "ext"}).library is not None
    assert cache.lookup(KEY) is not None


def test_a_library_of_another_size_is_not_even_read(
    cache: BuildCache, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = cache.publish(KEY, library, {"name": "ext"})
    assert entry.library is not None
    entry.library.chmod(0o644)
    os.truncate(entry.library, 1 << 40)
    monkeypatch.setattr(cache_module, "_digest", lambda _: pytest.fail("it was read"))
    assert cache.lookup(KEY) is None


def test_the_least_recently_used_go_first(cache: BuildCache, library: Path) -> None:
    for age, key in enumerate(keys(5)):
        entry = cache.publish(key, library, {"name": key[:2]})
        os.utime(entry.path, (time.time() - 1000 * (5 - age),) * 2)
    size = cache.items()[0].bytes
    assert cache.lookup(keys(5)[0]) is not None  # the oldest is used again
    gone = cache.prune(3 * size + 100, spared_s=0)
    assert [item.key for item in gone] == [keys(5)[2], keys(5)[1]]
    assert [item.key for item in cache.items()] == [keys(5)[0], keys(5)[4], keys(5)[3]]


def test_entries_in_use_are_spared(cache: BuildCache, library: Path) -> None:
    cache.publish(KEY, library, {"name": "ext"})
    assert cache.prune(0) == []
    assert [item.key for item in cache.prune(0, spared_s=0)] == [KEY]


WRITER = """
import sys
from pathlib import Path
from harness.build import BuildCache
cache = BuildCache(Path(sys.argv[1]))
number = 0
while True:
    for key in (f"{n:02x}" * 32 for n in range(4)):
        with cache.lock(key):
            cache.publish(key, Path(sys.argv[2]), {"name": "ext", "round": number})
    number += 1
    print(number, flush=True)
"""


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_writer_killed_at_any_moment_leaves_a_whole_cache(cache: BuildCache, library: Path, rounds: int) -> None:
    library.write_bytes(b"z" * 4_000_000)
    for moment in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(cache.root), str(library)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(rounds):
            writer.stdout.readline()
        time.sleep(0.003 * moment)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        for path in (cache.root / "entries").glob("*/*"):
            meta = json.loads((path / "entry.json").read_text())
            assert (path / "library.so").stat().st_size == 4_000_000, meta
        for key in keys(4):
            with cache.lock(key):  # nobody holds it any more
                entry = cache.lookup(key)
                assert entry is None or entry.library is not None
    cache.sweep()
    assert list((cache.root / "staging").iterdir()) == []


def _hold(root: str, held: list[float]) -> None:
    with BuildCache(Path(root)).lock(KEY):
        held.append(1)
        assert len(held) == 1
        time.sleep(0.02)
        held.pop()


def test_one_holder_of_a_key_at_a_time(cache: BuildCache) -> None:
    with multiprocessing.get_context("spawn").Manager() as manager:
        held = manager.list()
        askers = [
            multiprocessing.get_context("spawn").Process(target=_hold, args=(str(cache.root), held)) for _ in range(4)
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert [asker.exitcode for asker in askers] == [0] * 4
