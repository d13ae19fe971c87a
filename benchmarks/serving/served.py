"""`harness serve` with its agent, as an operator starts it, for a benchmark that is a client of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
_STOP_S = 60.0


def environment() -> dict[str, str]:
    """With this working tree's packages first, wherever the installed ones are."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


@contextlib.contextmanager
def served(*options: str) -> Iterator[dict[str, Any]]:
    """What it says of itself: its `url`, and a `key`. It is stopped when this is left."""
    argv = [sys.executable, "-m", "harness", "serve", "--json", "--port", "0", *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment()) as serving:
        try:
            assert serving.stdout is not None
            said = serving.stdout.readline()
            if not said:
                sys.exit(f"harness serve ended with exit code {serving.wait()}")
            yield json.loads(said)
        finally:
            serving.send_signal(signal.SIGTERM)
            try:
                serving.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                serving.kill()
