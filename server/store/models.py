"""The tables.

    users --< keys
      |
      +--< submissions --< attempts >-- agents
                |  |
                |  +--< events     what a stream shows, numbered within the submission
                +---- results      an accepted time
                         +---- standings   the best of a user on a board >-- boards

Times are seconds since the epoch, as floats: SQLite and PostgreSQL then compare them alike. Texts that strangers write
and that may hold any character (sources) are bytes, because PostgreSQL's text takes no NUL.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, Float, ForeignKey, Index, Integer, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# SQLite numbers rows by itself only in a column of exactly the type INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """All tables."""


class State(StrEnum):
    """Where a submission is; how it came out is its verdict."""

    QUEUED = "queued"
    BUILDING = "building"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


ENDED = (State.DONE, State.CANCELLED)
AT_WORK = (State.BUILDING, State.RUNNING)
OPEN = (State.QUEUED, *AT_WORK)


class AttemptState(StrEnum):
    """What became of one claim."""

    ACTIVE = "active"
    REPORTED = "reported"
    LOST = "lost"
    """The lease ran out, or the agent said that it can't go on."""
    CANCELLED = "cancelled"


class User(Base):
    """Somebody with keys and submissions."""

    __tablename__ = "users"
    id: Mapped[int] = mapped_column(_Number, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[float] = mapped_column(Float(53))
    last_served: Mapped[float] = mapped_column(Float(53), default=0.0)
    """When an agent last took one of their submissions: whoever waited longest is served next."""


class Key(Base):
    """A key, of which only the digest is kept."""

    __tablename__ = "keys"
    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    role: Mapped[str] = mapped_column(String(16))
    """solver, admin or agent."""
    label: Mapped[str] = mapped_column(String(64), default="")
    digest: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[float] = mapped_column(Float(53))
    revoked_at: Mapped[float | None] = mapped_column(Float(53))
    requests_per_minute: Mapped[int | None] = mapped_column(Integer)
    """None: the server's setting."""
    max_queued: Mapped[int | None] = mapped_column(Integer)
    """None: the server's setting."""


class Agent(Base):
    """One process that grades on one device."""

    __tablename__ = "agents"
    __table_args__ = (UniqueConstraint("key_id", "name", "device"),)
    id: Mapped[int] = mapped_column(_Number, primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("keys.id"))
    name: Mapped[str] = mapped_column(String(100))
    device: Mapped[str] = mapped_column(String(32))
    """cpu, cuda:0, ...: as its machine calls it."""
    kind: Mapped[str] = mapped_column(String(8))
    device_name: Mapped[str] = mapped_column(String(200))
    version: Mapped[str] = mapped_column(String(32))
    problems: Mapped[str] = mapped_column(Text)
    """JSON: the version of every problem that it has."""
    sandbox: Mapped[str] = mapped_column(String(32))
    first_seen: Mapped[float] = mapped_column(Float(53))
    last_seen: Mapped[float] = mapped_column(Float(53))
    refused: Mapped[str | None] = mapped_column(Text)
    """Why it gets no work; None: it does."""
    left_at: Mapped[float | None] = mapped_column(Float(53))
    """When it said that it stops."""


class Submission(Base):
    """One text to be graded, and how that came out."""

    __tablename__ = "submissions"
    __table_args__ = (
        UniqueConstraint("user_id", "idempotency_key"),
        # With all that a claim looks at: agents that ask read nothing but this.
        Index("ix_submissions_queue", "state", "priority", "user_id", "number", "problem_id", "device_kind"),
        # With all that a list is filtered by: rows that are not shown are not read, and each is many pages long.
        Index("ix_submissions_user_list", "user_id", "number", "problem_id", "state", "verdict"),
        Index("ix_submissions_user_state_list", "user_id", "state", "number", "problem_id", "verdict"),
        Index("ix_submissions_verdict_list", "verdict", "number", "problem_id", "state", "user_id"),
    )
    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    """What the world calls it: not to be guessed from another one."""
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    problem_id: Mapped[str] = mapped_column(String(100))
    problem_version: Mapped[str] = mapped_column(String(64))
    """The version when it was handed in, and from its claim on the one that it is graded with."""
    workload: Mapped[str | None] = mapped_column(String(64))
    device_kind: Mapped[str | None] = mapped_column(String(8))
    """None: a GPU where there is one."""
    mode: Mapped[str] = mapped_column(String(16))
    label: Mapped[str] = mapped_column(String(100))
    file_name: Mapped[str | None] = mapped_column(String(100))
    """What its file was called; None where nobody said so."""
    source: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    """Up to a megabyte, so it is read only where it is asked for, as the report is."""
    source_sha256: Mapped[str] = mapped_column(String(64))
    priority: Mapped[int] = mapped_column(Integer, default=0)
    state: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[float] = mapped_column(Float(53))
    done_at: Mapped[float | None] = mapped_column(Float(53))
    verdict: Mapped[str | None] = mapped_column(String(32))
    reason_code: Mapped[str | None] = mapped_column(String(64))
    report: Mapped[str | None] = mapped_column(Text, deferred=True)
    """JSON, whole: what a solver sees of it is decided when it is shown."""
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    """How often it was claimed."""
    events: Mapped[int] = mapped_column(Integer, default=0)
    """The number of its last event."""
    idempotency_key: Mapped[str | None] = mapped_column(String(128))
    request_digest: Mapped[str | None] = mapped_column(String(64))
    regrade_of: Mapped[str | None] = mapped_column(String(32))
    """The submission that this one grades again."""


class Attempt(Base):
    """One claim of a submission by an agent, for as long as its lease is renewed."""

    __tablename__ = "attempts"
    __table_args__ = (Index("ix_attempts_state_lease", "state", "lease_until"),)
    id: Mapped[int] = mapped_column(_Number, primary_key=True)
    submission_number: Mapped[int] = mapped_column(ForeignKey("submissions.number"), index=True)
    number: Mapped[int] = mapped_column(Integer)
    """1, 2, 3 within the submission."""
    agent_id: Mapped[int] = mapped_column(ForeignKey("agents.id"), index=True)
    token_digest: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))
    claimed_at: Mapped[float] = mapped_column(Float(53))
    lease_until: Mapped[float] = mapped_column(Float(53))
    ended_at: Mapped[float | None] = mapped_column(Float(53))
    why: Mapped[str | None] = mapped_column(Text)
    events_taken: Mapped[int] = mapped_column(Integer, default=0)
    """How many of its agent's events are in the store: a repeated batch adds nothing."""
    late_report: Mapped[str | None] = mapped_column(Text)
    """What came after the attempt was over: kept for people, ignored by everything else."""


class Event(Base):
    """One line of a submission's stream."""

    __tablename__ = "events"
    submission_number: Mapped[int] = mapped_column(ForeignKey("submissions.number"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[float] = mapped_column(Float(53))
    kind: Mapped[str] = mapped_column(String(32))
    data: Mapped[str] = mapped_column(Text)
    """JSON."""


class Result(Base):
    """An accepted and timed submission, as a leaderboard needs it."""

    __tablename__ = "results"
    __table_args__ = (
        Index("ix_results_board", "problem_id", "problem_version", "workload", "device_name", "user_id", "median_us"),
    )
    submission_number: Mapped[int] = mapped_column(ForeignKey("submissions.number"), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    problem_id: Mapped[str] = mapped_column(String(100))
    problem_version: Mapped[str] = mapped_column(String(64))
    workload: Mapped[str] = mapped_column(String(64))
    device_name: Mapped[str] = mapped_column(String(200))
    median_us: Mapped[float] = mapped_column(Float(53))
    low_us: Mapped[float] = mapped_column(Float(53))
    high_us: Mapped[float] = mapped_column(Float(53))
    speedup: Mapped[float] = mapped_column(Float(53))
    speedup_low: Mapped[float] = mapped_column(Float(53))
    speedup_high: Mapped[float] = mapped_column(Float(53))
    fraction_of_floor: Mapped[float | None] = mapped_column(Float(53))
    at: Mapped[float] = mapped_column(Float(53))
    warnings: Mapped[str] = mapped_column(Text, default="", server_default="")
    """The codes of the report's warnings that a board shows beside the time, with spaces between them."""


class Standing(Base):
    """Which of a user's results is their best on a board: a leaderboard reads a row a user, and not each result."""

    __tablename__ = "standings"
    problem_id: Mapped[str] = mapped_column(String(100), primary_key=True)
    problem_version: Mapped[str] = mapped_column(String(64), primary_key=True)
    workload: Mapped[str] = mapped_column(String(64), primary_key=True)
    device_name: Mapped[str] = mapped_column(String(200), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    submission_number: Mapped[int] = mapped_column(ForeignKey("results.submission_number"))


class Board(Base):
    """A leaderboard that has or had entries; what was made of it is good until it changes."""

    __tablename__ = "boards"
    problem_id: Mapped[str] = mapped_column(String(100), primary_key=True)
    problem_version: Mapped[str] = mapped_column(String(64), primary_key=True)
    workload: Mapped[str] = mapped_column(String(64), primary_key=True)
    device_name: Mapped[str] = mapped_column(String(200), primary_key=True)
    changes: Mapped[int] = mapped_column(Integer)
    """How many there were."""
