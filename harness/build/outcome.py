"""What the build service answers with, and the limits under which it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.build.diagnostics import Diagnostic, KernelResources

FailureCode = Literal[
    "build.failed",
    "build.flag_not_allowed",
    "build.bad_request",
    "build.needs_cuda",
    "build.too_many",
    "build.time_limit",
    "build.memory_limit",
    "build.output_limit",
    "build.disk_limit",
    "build.process_limit",
    "build.no_compiler",
]

Recipe = Literal["lean", "full", "mixed", "none"]
"""Headers that the objects of a library were compiled against: all lean, all full, some of each; none where nothing was
compiled."""


@dataclass(frozen=True)
class BuildLimits:
    """What one build may use."""

    step_s: float = 300.0
    """Seconds for one compiler run."""
    memory_bytes: int = 8 << 30
    """Resident memory of one compiler run and its children."""
    output_bytes: int = 4 << 20
    """Bytes that one compiler run may print."""
    disk_bytes: int = 2 << 30
    """Bytes that the build folder may hold, temporary files included."""
    library_bytes: int = 512 << 20
    """Bytes of the finished library."""
    processes: int = 128
    """Processes and threads of one compiler run."""


@dataclass(frozen=True)
class BuildFailure:
    """Why there is no library."""

    code: FailureCode
    message: str
    """One sentence: what happened and what to do about it."""
    evidence: Mapping[str, object] = field(default_factory=dict)
    """The same as values: the flag, the limit, what was used."""


@dataclass(frozen=True)
class BuildOutcome:
    """How a build ended; a submission's mistakes end here, never in an exception."""

    ok: bool
    library: Path | None
    """The shared object in the cache, read-only. Open it soon: the cache drops what was not used lately."""
    module_name: str
    """The name under which Python has to import it (`PyInit_<last part>`)."""
    key: str
    """Content key of the build, 64 hex digits; empty where it was refused before one could be made."""
    cached: bool
    seconds: float
    """Seconds from the request to this answer, waiting included."""
    recipe: Recipe
    diagnostics: list[Diagnostic]
    log: str
    """What the compilers printed, capped, for people."""
    kernels: list[KernelResources]
    failure: BuildFailure | None = None
    diagnostics_left_out: int = 0
    """Of those that were read, beyond the ones in `diagnostics`."""
    kernels_left_out: int = 0
    """Beyond those in `kernels`."""
    compiled_s: float = 0.0
    """Seconds in which its compilers ran: without what it waited for others, and 0 where nothing was compiled."""
