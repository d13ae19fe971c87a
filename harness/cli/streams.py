"""Where things are printed: what was asked for on stdout, all else on stderr, JSON files whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.jsontext import writable

if TYPE_CHECKING:
    from rich.console import Console

    from harness.report import Report

MAX_WIDTH = 120
"""Wider lines than this nobody reads, however wide the terminal."""


class WrongUse(Exception):
    """The command line asks for what can't be done: one sentence on stderr, exit code 2."""


@contextlib.contextmanager
def claimed_stdout() -> Iterator[TextIO]:
    """The real stdout, while everything else that prints (a problem's reference, torch, a compiler) goes to stderr.

    Redirected at the level of the descriptor, because not everything that prints is Python, or in this process.
    """
    real = sys.stdout
    real.flush()
    try:
        is_ours = os.path.sameopenfile(real.fileno(), 1)
    except (OSError, io.UnsupportedOperation):
        is_ours = False
    if not is_ours:
        # Somebody who calls `main` has put an object in its place: that object is what was asked to be printed on.
        with contextlib.redirect_stdout(sys.stderr):
            yield real
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with (
            open(kept, "w", encoding=real.encoding, errors="replace", closefd=False) as ours,
            contextlib.redirect_stdout(sys.stderr),
        ):
            yield ours
    finally:
        real.flush()
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def console(stream: TextIO) -> Console:
    """Rich on a stream. Markup and emoji codes stay off: text that others wrote is shown as it is."""
    from rich.console import Console

    rich = Console(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=False)
    return Console(
        file=stream, markup=False, emoji=False, highlight=False, soft_wrap=False, width=min(rich.width, MAX_WIDTH)
    )


def document(report: Report) -> str:
    """The report as JSON that every parser takes."""
    return json.dumps(writable(report.model_dump(mode="json")), indent=2, ensure_ascii=False, allow_nan=False)


def check_json_target(target: str | None) -> None:
    """Find out that a JSON file can't be written before minutes are spent on what goes into it."""
    if target is None or target == "-":
        return
    path = Path(target)
    if path.is_dir():
        raise WrongUse(f"--json {target} is a folder; name a file in it, or - for stdout.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise WrongUse(f"--json {target} can't be written: there is no folder {folder}; make it first.")
    if not os.access(path if path.exists() and not path.is_file() else folder, os.W_OK):
        raise WrongUse(f"--json {target} can't be written: no permission in {folder}; name another file.")


def write_json(text: str, target: str) -> None:
    """Write a document beside its place and move it there: a reader sees the old one or the whole new one."""
    if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        # A pipe or /dev/stdout: nothing to keep whole, and replacing it would be wrong.
        Path(target).write_text(text + "\n", encoding="utf-8")
        return
    final = os.path.realpath(target)
    temporary = f"{final}.{secrets.token_hex(4)}.part"
    try:
        # Created by open and not by tempfile, so that the file gets the permissions that the umask gives.
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, final)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
