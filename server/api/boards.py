"""`/v1/problems`, `/v1/devices`, `/v1/leaderboard`: what there is to grade, on what, and who is fastest."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.orm import Session

from harness.load.problem import Problem
from server.api.auth import KEY_OPTIONAL, Reader, Serving
from server.api.models import when
from server.api.problems_json import KEYED, ApiError, responses
from server.keys import Caller
from server.ranked import Best, Entry
from server.results import BoardKey
from server.services import Services
from server.store import Agent, Attempt, Submission
from server.store.models import AttemptState

router = APIRouter(prefix="/v1")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class WorkloadView(_Model):
    """One set of sizes."""

    name: str
    sizes: dict[str, Any]
    device: str
    timed: bool
    note: str


class ProblemSummary(_Model):
    """A problem in a list."""

    id: str
    title: str
    summary: str
    version: str


class ProblemView(ProblemSummary):
    """A problem as a solver reads it."""

    statement: str | None
    """Markdown."""
    reference: str
    """The text of reference.py."""
    precision: str
    workloads: list[WorkloadView]
    default_workload: dict[str, str]
    """By kind of device."""
    ranking: list[str]
    """The workloads that rank together when a submission names none; empty where one alone does."""
    limits: dict[str, float | None]


class DeviceView(_Model):
    """An agent and its device."""

    agent: str
    device: str
    """As its machine calls it."""
    kind: str
    name: str
    version: str
    """Of the grader there."""
    sandbox: str
    state: str
    """idle, busy, away (not heard of), left (stopped as asked), refused (gets no work; `why`)."""
    why: str | None
    last_seen: datetime
    submission: str | None
    """What it is grading; told to admins only."""


class LeaderboardEntry(_Model):
    """Somebody's best."""

    rank: int
    """One more than the number of entries whose whole interval lies below this one's."""
    tied: bool
    user: str
    time_us: float
    ci95_us: tuple[float, float]
    speedup: float
    speedup_ci95: tuple[float, float]
    fraction_of_floor: float | None
    at: datetime
    warnings: list[str]
    """Codes of the report's warnings that bear on the time, such as `time.weakly_confirmed`. They change no rank."""
    submission: str | None
    """Told to its user and to admins only."""


class LeaderboardView(_Model):
    """The best of every user, of one version of the problem, one workload and one device."""

    problem: str
    problem_version: str
    workload: str | None
    device: str | None
    """null: nobody has an entry yet."""
    boards: dict[str, list[str]]
    """The devices that have entries, each with its workloads."""
    entries: list[LeaderboardEntry]


def find_problem(serving: Services, name: str) -> Problem:
    """Raises ApiError."""
    problem = serving.catalogue.get(name)
    if problem is None:
        raise ApiError(404, "no-such-problem", serving.catalogue.no_such(name))
    return problem


@router.get("/problems", tags=["problems"], responses=responses())
def problems(serving: Serving) -> list[ProblemSummary]:
    """The problems."""
    return [_summary(problem) for problem in serving.catalogue.values()]


def _summary(problem: Problem) -> ProblemSummary:
    spec = problem.spec
    return ProblemSummary(id=problem.id, title=spec.title or problem.id, summary=spec.summary, version=problem.version)


@router.get("/problems/{problem}", tags=["problems"], responses=responses(404))
def problem(problem: Annotated[str, Path(max_length=100)], serving: Serving) -> ProblemView:
    """One problem: statement, workloads, limits."""
    return problem_view(find_problem(serving, problem))


def problem_view(found: Problem) -> ProblemView:
    """What is shown of a problem."""
    spec, defaults = found.spec, found.reference.default_sizes()
    return ProblemView(
        **_summary(found).model_dump(),
        statement=found.statement,
        reference=found.reference_source,
        precision=spec.precision,
        workloads=[
            WorkloadView(
                name=name,
                sizes={**defaults, **load.args},
                device=load.device,
                timed=load.timed,
                note=load.note,
            )
            for name, load in spec.workloads.items()
        ],
        default_workload=spec.default_workload.model_dump(),
        ranking=list(spec.ranking.workloads),
        limits=spec.limits.model_dump(),
    )


@router.get("/devices", tags=["devices"], responses=responses(*KEYED), openapi_extra=KEY_OPTIONAL)
def devices(serving: Serving, caller: Reader) -> list[DeviceView]:
    """Every agent that was heard of, and how it is. Without a key too."""
    with serving.database.read() as session:
        return device_views(session, serving, admin=caller is not None and caller.admin)


def device_views(session: Session, serving: Services, *, admin: bool) -> list[DeviceView]:
    """Who grades here; the last heard first."""
    busy: dict[int, str] = {}
    active = (
        select(Attempt.agent_id, Submission.id)
        .join(Submission, Submission.number == Attempt.submission_number)
        .where(Attempt.state == AttemptState.ACTIVE)
    )
    for agent_id, submission_id in session.execute(active):
        busy[agent_id] = submission_id
    now = serving.clock()
    found = []
    for agent in session.scalars(select(Agent).order_by(Agent.last_seen.desc()).limit(200)):
        if agent.refused is not None:
            state = "refused"
        elif agent.left_at is not None:
            state = "left"
        elif now - agent.last_seen > serving.settings.away_s:
            state = "away"
        else:
            state = "busy" if agent.id in busy else "idle"
        found.append(
            DeviceView(
                agent=agent.name,
                device=agent.device,
                kind=agent.kind,
                name=agent.device_name,
                version=agent.version,
                sandbox=agent.sandbox,
                state=state,
                why=agent.refused,
                last_seen=when(agent.last_seen),
                submission=busy.get(agent.id) if admin else None,
            )
        )
    return found


@router.get(
    "/leaderboard/{problem}",
    tags=["leaderboard"],
    response_model=LeaderboardView,
    responses=responses(*KEYED, 404),
    openapi_extra=KEY_OPTIONAL,
)
def board(
    problem: Annotated[str, Path(max_length=100)],
    serving: Serving,
    caller: Reader,
    device: Annotated[str | None, Query(max_length=200, description="A device's name, as /v1/devices has it.")] = None,
    workload: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Who is fastest. Without a device or workload, the board that has the most entries."""
    # Not for FastAPI to look through once more: a board may have a thousand entries.
    found = find_board(serving, caller, problem, device, workload, limit)
    head = _view(found, []).model_dump_json()
    entries = ",".join(_entry_json(entry, _may_see(entry, caller)) for entry in found.entries)
    return Response(f"{head.removesuffix(_NO_ENTRIES)}[{entries}]}}", media_type="application/json")


_NO_ENTRIES = "[]}"
"""How a board without entries ends: they are its last field."""


class FoundBoard(NamedTuple):
    """A board, and the others of its problem."""

    problem: Problem
    device: str | None
    workload: str | None
    boards: dict[str, list[str]]
    entries: list[Entry]


def find_board(
    serving: Services, caller: Caller | None, name: str, device: str | None, workload: str | None, limit: int
) -> FoundBoard:
    """A leaderboard for whoever may see it. Raises ApiError."""
    if caller is None and not serving.settings.public_leaderboard:
        raise ApiError(401, "no-key", "Leaderboards are shown only to those who have a key here.")
    problem = find_problem(serving, name)
    with serving.database.read() as session:
        there = serving.leaderboards.boards(session, problem.id, problem.version)
        shown = there.by_device
        if device is None:
            device = next((name for name, loads in shown.items() if workload in (None, *loads)), None)
        if workload is None:
            workload = shown[device][0] if device in shown else None
        entries: list[Entry] = []
        # Only what is among the boards is asked for: a name from a request goes no further than this look-up.
        if device is not None and workload is not None and workload in shown.get(device, ()):
            key = BoardKey(problem.id, problem.version, workload, device)
            entries = serving.leaderboards.entries(session, key, there.changes[key])[:limit]
    return FoundBoard(problem, device, workload, shown, entries)


def board_view(
    serving: Services, caller: Caller | None, name: str, device: str | None, workload: str | None, limit: int
) -> LeaderboardView:
    """The same as the document that it is."""
    found = find_board(serving, caller, name, device, workload, limit)
    return _view(found, [_entry(entry, _may_see(entry, caller)) for entry in found.entries])


def _view(found: FoundBoard, entries: list[LeaderboardEntry]) -> LeaderboardView:
    return LeaderboardView(
        problem=found.problem.id,
        problem_version=found.problem.version,
        workload=found.workload,
        device=found.device,
        boards=found.boards,
        entries=entries,
    )


def _may_see(entry: Entry, caller: Caller | None) -> bool:
    return caller is not None and (caller.admin or caller.user_id == entry.best.user_id)


def _entry(entry: Entry, may_see: bool) -> LeaderboardEntry:
    best = entry.best
    return LeaderboardEntry(
        rank=entry.rank,
        tied=entry.tied,
        user=best.user,
        time_us=best.median_us,
        ci95_us=(best.low_us, best.high_us),
        speedup=best.speedup,
        speedup_ci95=(best.speedup_low, best.speedup_high),
        fraction_of_floor=best.fraction_of_floor,
        at=when(best.at),
        warnings=best.warnings.split(),
        submission=best.submission_id if may_see else None,
    )


def _entry_json(entry: Entry, may_see: bool) -> str:
    """The same as JSON: rank and tie change with others' answers, and the rest is written once."""
    tied = "true" if entry.tied else "false"
    submission = f'"{entry.best.submission_id}"' if may_see else "null"
    return f'{{"rank":{entry.rank},"tied":{tied},{_rest_json(entry.best)},"submission":{submission}}}'


@lru_cache(maxsize=20_000)
def _rest_json(best: Best) -> str:
    whole = _entry(Entry(0, False, best), False).model_dump_json()
    return whole.removeprefix('{"rank":0,"tied":false,').removesuffix(',"submission":null}')
