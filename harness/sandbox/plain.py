"""No isolation: the command runs as the user who grades, and sees what that user sees.

Limits hold and the process tree still ends with the grading, but nothing keeps a hostile submission from reading files,
from the network, or from the grader's memory. For one's own submissions on a machine without bubblewrap.
"""

from __future__ import annotations

from harness.sandbox.base import Command, Limits, Sandbox, Sandboxed
from harness.sandbox.process import start_local
from harness.sandbox.scratch import Scratch


class PlainSandbox(Sandbox):
    """A supervised process with limits and a scratch folder of its own, and nothing else."""

    name = "none"
    promises = frozenset({"environment", "descriptors", "passing", "limits", "orphans"})

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def start(self, command: Command, limits: Limits) -> Sandboxed:
        # Mounts are names for what is visible anyway, unless a target lies elsewhere.
        moved = [mount for mount in command.mounts if mount.target not in (None, mount.source)]
        if moved:
            raise ValueError(f"without a sandbox {moved[0].source} can't appear at {moved[0].target}")
        scratch = Scratch()
        order = {
            "argv": command.argv,
            "env": {"HOME": str(scratch.data), "TMPDIR": str(scratch.data), **command.env},
            "cwd": str(command.cwd or scratch.data),
        }
        return start_local(order, limits, scratch, command.pass_fds)
