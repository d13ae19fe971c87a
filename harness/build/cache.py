"""The content-addressed cache of finished builds.

    ROOT/entries/ab/abcd.../   one build: `entry.json` and, where it succeeded, `library.so`; never changed once there
    ROOT/staging/RANDOM/       a build in the making; its `.lock` beside it is held by the process that makes it
    ROOT/headers/ID/           lean and precompiled headers of one toolchain (headers.py)
    ROOT/locks/KEY.lock        held while KEY is being built, so that one process builds and the others wait
    ROOT/slots/N.lock          held while a compiler runs, so that all graders together keep to this machine's cores
    ROOT/slots/line-N.lock     held by who is the next to get one of N

An entry appears by one rename of a finished folder, so a reader sees all of it or none, whenever a writer is killed.
Locks are `flock`s: the kernel drops them with the process. Only the grader's own process writes here; a worker gets a
sealed copy of a library (handout.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.caches import cache_folder

LIBRARY = "library.so"
META = "entry.json"
FAILURE_TTL_S = 3600.0
"""Seconds for which a failed build is remembered: what was missing on the machine may be there later."""
HEADERS_KEPT_S = 7 * 86400.0
"""Header folders that no build has used for so many seconds are dropped: another torch or compiler has come."""
SPARED_S = 600.0
"""Entries used within this many seconds are not evicted: a grader may be about to open one."""


@dataclass(frozen=True)
class CacheEntry:
    """One finished build."""

    key: str
    path: Path
    meta: dict[str, Any]
    """What the service put beside the library: diagnostics, kernels, log, recipe."""

    @property
    def library(self) -> Path | None:
        return self.path / LIBRARY if self.meta.get("ok") else None


@dataclass(frozen=True)
class CacheItem:
    """One line of `harness cache list`."""

    key: str
    name: str
    ok: bool
    bytes: int
    used: float
    """Unix time of the last use."""


class BuildCache:
    """A cache folder; any number of processes may use it at once."""

    def __init__(self, root: Path | None = None, *, max_bytes: int = 20 << 30) -> None:
        self.root = (root or cache_folder() / "build").absolute()
        self.max_bytes = max_bytes
        for folder in ("entries", "staging", "locks", "slots", "headers"):
            (self.root / folder).mkdir(mode=0o700, parents=True, exist_ok=True)

    def lookup(self, key: str) -> CacheEntry | None:
        """The finished build of that key, marked as used now; None where there is none that is whole."""
        path = self._entry(key)
        try:
            meta = json.loads((path / META).read_text("utf-8"))
            if meta["ok"]:
                # The size first: a file that has grown without end would be hashed without end.
                size = (path / LIBRARY).stat().st_size
                if size != meta["library_bytes"] or _digest(path / LIBRARY) != meta["sha256"]:
                    raise ValueError("damaged library")
            elif time.time() - meta["built_at"] > FAILURE_TTL_S:
                raise ValueError("an old failure")
            os.utime(path)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, OSError):
            self._remove(path)
            return None
        return CacheEntry(key, path, meta)

    def publish(self, key: str, library: Path | None, meta: dict[str, Any]) -> CacheEntry:
        """Make a finished build visible, all of it at once. `library` is copied; the caller holds `lock(key)`."""
        with self.staging() as folder:
            ready = folder / "entry"
            ready.mkdir()
            full = dict(meta, key=key, ok=library is not None, built_at=time.time())
            if library is not None:
                copied = ready / LIBRARY
                shutil.copyfile(library, copied)
                copied.chmod(0o444)
                _sync(copied)
                full["library_bytes"] = copied.stat().st_size
                full["sha256"] = _digest(copied)
            (ready / META).write_text(json.dumps(full), "utf-8")
            _sync(ready / META)
            target = self._entry(key)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            if target.exists():
                self._remove(target)
            ready.rename(target)
        return CacheEntry(key, target, full)

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Hold a key: whoever else asks for it waits, in this process or another."""
        with _held(self.root / "locks" / f"{key}.lock"):
            yield

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A private folder that is gone afterwards, whatever happens (after a kill -9: with the next `sweep`)."""
        name = secrets.token_hex(8)
        folder = self.root / "staging" / name
        with _held(folder.with_suffix(".lock"), remove=True):
            folder.mkdir(mode=0o700)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what killed processes left in staging."""
        for folder in {path.with_suffix("") for path in (self.root / "staging").iterdir()}:
            with contextlib.suppress(BlockingIOError), _held(folder.with_suffix(".lock"), remove=True, wait=False):
                shutil.rmtree(folder, ignore_errors=True)

    def items(self) -> list[CacheItem]:
        """All entries, most recently used first."""
        items = []
        for path in (self.root / "entries").glob("*/*"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                meta = json.loads((path / META).read_text("utf-8"))
                size = sum(file.stat().st_size for file in path.iterdir())
                items.append(
                    CacheItem(path.name, str(meta.get("name", "?")), bool(meta["ok"]), size, path.stat().st_mtime)
                )
        return sorted(items, key=lambda item: -item.used)

    def prune(self, max_bytes: int | None = None, *, spared_s: float = SPARED_S) -> list[CacheItem]:
        """Drop least recently used entries until the rest fits; returns what went."""
        self.sweep()
        self.drop_headers(unused_s=HEADERS_KEPT_S)
        limit = self.max_bytes if max_bytes is None else max_bytes
        kept, gone = 0, []
        for item in self.items():
            kept += item.bytes
            if kept > limit and time.time() - item.used >= spared_s:
                self._remove(self._entry(item.key))
                kept -= item.bytes
                gone.append(item)
        return gone

    def header_bytes(self) -> int:
        """Bytes that lean and precompiled headers take."""
        files = (path for path in (self.root / "headers").rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files)

    def drop_headers(self, *, unused_s: float = 0.0) -> int:
        """Drop header folders that no build has used for so many seconds; returns the bytes freed."""
        freed = 0
        for folder in (self.root / "headers").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - folder.stat().st_mtime >= unused_s:
                    freed += sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                    self._remove(folder)
        return freed

    def _entry(self, key: str) -> Path:
        return self.root / "entries" / key[:2] / key

    def _remove(self, path: Path) -> None:
        # Moved aside first, so that nobody sees half an entry.
        aside = self.root / "staging" / secrets.token_hex(8)
        with contextlib.suppress(FileNotFoundError):
            path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _held(path: Path, *, remove: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive flock on a file; raises BlockingIOError where it is taken and `wait` is false."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # The file may have been removed while we waited: a lock on a removed file locks nobody out.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        if remove:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
