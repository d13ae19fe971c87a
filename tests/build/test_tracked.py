"""What a build has started ends with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.build.tracked import TrackedSandbox
from harness.sandbox import Command, Limits, Mount, PlainSandbox, SandboxError

SLEEP = Command(argv=("/bin/sleep", "100"), mounts=(Mount(Path("/bin")),))


def test_ending_kills_what_runs_and_refuses_more() -> None:
    sandbox = TrackedSandbox(PlainSandbox())
    running = [sandbox.start(SLEEP, Limits()) for _ in range(3)]
    sandbox.end()
    assert all(each.poll() is not None for each in running)
    with pytest.raises(SandboxError):
        sandbox.start(SLEEP, Limits())
