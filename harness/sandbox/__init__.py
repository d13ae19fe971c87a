"""Sandboxes: where untrusted commands run. One interface (base.py), several ways to keep it."""

from __future__ import annotations

from harness.sandbox.base import Command, Exit, Limit, Limits, Mount, Sandbox, Sandboxed, SandboxError
from harness.sandbox.bubblewrap import BubblewrapSandbox
from harness.sandbox.containers import DockerSandbox
from harness.sandbox.plain import PlainSandbox

SANDBOXES: dict[str, type[Sandbox]] = {kind.name: kind for kind in (BubblewrapSandbox, DockerSandbox, PlainSandbox)}
"""The better ones first."""


def by_name(name: str) -> Sandbox:
    """The sandbox of that name. Raises SandboxError when there is none, or when it can't be used here."""
    if name not in SANDBOXES:
        raise SandboxError(f"there is no sandbox {name!r}: choose one of {', '.join(SANDBOXES)}")
    if why := SANDBOXES[name].unavailable():
        raise SandboxError(f"the sandbox {name!r} can't be used here: {why}")
    return SANDBOXES[name]()


def chosen(given: str | Sandbox | None) -> Sandbox:
    """The sandbox that a caller means: one of its own, one by name, or None for the best that works here."""
    if isinstance(given, Sandbox):
        return given
    return by_name(given) if given else default()


def default() -> Sandbox:
    """The best sandbox that works here; PlainSandbox, which isolates nothing, when no other does."""
    return next(kind() for kind in SANDBOXES.values() if kind.unavailable() is None)


__all__ = [
    "SANDBOXES",
    "BubblewrapSandbox",
    "Command",
    "DockerSandbox",
    "Exit",
    "Limit",
    "Limits",
    "Mount",
    "PlainSandbox",
    "Sandbox",
    "SandboxError",
    "Sandboxed",
    "by_name",
    "chosen",
    "default",
]
