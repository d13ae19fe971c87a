"""What whoever runs a server may set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Of one server."""

    problems: Path
    """The folder that holds the problem folders."""
    public_leaderboard: bool = True
    """Leaderboards are shown to whoever asks; False: only with a key."""
    lease_s: float = 60.0
    """An attempt whose agent has said nothing for so long is lost."""
    requests_per_minute: int = 600
    """Of a solver's key that has no limit of its own."""
    strangers_per_minute: int = 1200
    """Requests without a key, of one address."""
    sources_bytes_per_hour: int = 256 << 20
    """Of what a user hands in, cancelled or not: all of it is kept. More where their key may queue more than others."""
    max_queued: int = 50
    """Submissions of one user that may wait or be graded at a time, where the key has no limit of its own."""
    max_body_bytes: int = 4 << 20
    """Of a request. A source is 1 MiB at most, and in JSON a character may take six bytes."""
    max_report_bytes: int = 8 << 20
    """Of a request of an agent. A report has 4 MiB at most."""
    bodies_bytes: int = 256 << 20
    """Of large bodies that are in memory at a time; of one key a quarter."""
    body_s: float = 30.0
    """In which a request's body has to arrive."""
    connections: int = 2000
    """At once; fewer where the process may not have so many files open."""
    streams_per_key: int = 100
    """Event streams of one key at once: two for each submission that may wait."""
    streams: int = 1000
    """Event streams of all keys at once; fewer than the server takes connections."""
    stream_s: float = 600.0
    """After so long a stream ends, and its client takes it up again."""
    away_s: float = 90.0
    """An agent that was not heard for so long counts as away."""
