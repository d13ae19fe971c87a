"""The lean headers on disk, and precompiled ones for the pybind side, made once per toolchain and kept in the cache.

    ROOT/headers/ID/lean/                          the shadowing headers (see lean.py)
    ROOT/headers/ID/pch-SIGNATURE/torch/extension.h.gch   the lean torch/extension.h, precompiled for one set of flags

Both appear by one rename and never change. ID is the toolchain's identity and the version of the lean headers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from harness.build.cache import BuildCache
from harness.build.jobs import Slots
from harness.build.lean import LEAN_VERSION, LeanHeaders
from harness.build.outcome import BuildLimits
from harness.build.runner import run_step
from harness.build.toolchain import Toolchain
from harness.sandbox.base import Mount, Sandbox

EXTENSION = "torch/extension.h"
# Flags under which a precompiled header is worth its seconds and its 400 MB; others go without.
_COMMON = re.compile(r"-fPIC|-O[0-3]?|-std=(?:c|gnu)\+\+\w+")
_TORCHS_OWN = ("-DTORCH_API_INCLUDE_EXTENSION_H", "-DAT_PER_OPERATOR_HEADERS", "-D_GLIBCXX", "-DPYBIND11")
# Flags that change nothing in a header's meaning, or which the compiler checks itself against the header's use of them.
_IRRELEVANT = re.compile(r"-[DUW].*|-w")
_STARTS_WITH_EXTENSION = re.compile(
    r"\A(?>\s+|//[^\n]*\n|/\*.*?\*/)*+#[ \t]*include[ \t]*[<\"]torch/extension\.h[>\"]", re.DOTALL
)


@dataclass(frozen=True)
class HeaderStore:
    """Lean and precompiled headers of one toolchain."""

    cache: BuildCache
    toolchain: Toolchain
    sandbox: Sandbox
    limits: BuildLimits
    slots: Slots

    @property
    def lean(self) -> LeanHeaders:
        return LeanHeaders(self.toolchain.torch_root / "include")

    @property
    def folder(self) -> Path:
        identity = hashlib.sha256(f"{self.toolchain.identity} {LEAN_VERSION}".encode()).hexdigest()[:24]
        return self.cache.root / "headers" / identity

    def mount(self) -> Mount:
        # For compilers that run under an id of their own; the folders around it stay closed.
        self.folder.chmod(0o755)
        return Mount(source=self.folder)

    def lean_folder(self) -> Path | None:
        """The folder of lean headers, written if need be; None where the installed torch has not the parts for them."""
        target = self.folder / "lean"
        if not target.is_dir():
            if not self.lean.supported:
                return None
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.cache.lock(f"{self.folder.name}-lean"), self.cache.staging() as staging:
                if not target.is_dir():
                    for name, text in self.lean.shadows().items():
                        path = staging / "lean" / name
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_text(text, "utf-8")
                    (staging / "lean").rename(target)
        return target

    def precompiled(self, flags: tuple[str, ...], text: str) -> Path | None:
        """A header to include first, precompiled for these compiler flags; None where the source is better off without.

        A source has to begin with `torch/extension.h`: only a first include can be precompiled, and what comes before
        it could change its meaning.
        """
        own = _flags_of_header(flags)
        if own is None or not _STARTS_WITH_EXTENSION.match(text):
            return None
        signature = hashlib.sha256("\0".join(own).encode()).hexdigest()[:16]
        target = self.folder / f"pch-{signature}"
        if not target.is_dir():
            with self.cache.lock(f"{self.folder.name}-{signature}"):
                if not target.is_dir() and not self._precompile(own, target):
                    return None
        return target / EXTENSION

    def _precompile(self, flags: list[str], target: Path) -> bool:
        with self.cache.staging() as staging:
            for name in ("src/torch", "tmp"):
                (staging / name).mkdir(parents=True)
            (staging / "src" / EXTENSION).write_text((self.folder / "lean" / EXTENSION).read_text("utf-8"), "utf-8")
            argv = [str(self.toolchain.cxx), *flags, "-x", "c++-header", EXTENSION, "-o", f"{EXTENSION}.gch"]
            with self.slots.take():
                done = run_step(
                    self.sandbox, self.toolchain, argv, staging, self.limits, what=EXTENSION, mounts=(self.mount(),)
                )
            if done.ok:
                (staging / "src").rename(target)
            return done.ok


def touch(folder: Path) -> None:
    """Note that a folder of headers was used."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(folder)


def _flags_of_header(flags: tuple[str, ...]) -> list[str] | None:
    """Flags to precompile a header with; None where these are not among the common ones."""
    kept: list[str] = []
    words = iter(flags)
    for word in words:
        if word == "-isystem":
            folder = next(words)
            if not folder.startswith("/"):
                return None
            kept += [word, folder]
        elif _COMMON.fullmatch(word) or word.startswith(_TORCHS_OWN):
            kept.append(word)
        elif not _IRRELEVANT.fullmatch(word):
            return None
    return kept
