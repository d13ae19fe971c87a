"""`/v1/agent`: how agents get work and hand in reports. Needs a key with the role agent.

hello -> claim -> renew, renew, ... -> report | give-up -> claim -> ... -> bye
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Header
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from harness.load.submission import FILE_NAME
from harness.report import Report
from harness.version import VERSION
from server import jobs
from server.api.auth import AgentKey, Serving
from server.api.models import Mode, Name, Printable
from server.api.problems_json import KEYED, WITH_BODY, ApiError, responses
from server.keys import Caller
from server.services import QUEUE, Services
from server.store import Agent, Attempt, Submission

router = APIRouter(prefix="/v1/agent", tags=["agents"])

T = TypeVar("T")
_LOOK_S = 2.0
_HEARD = 6
"""An agent that waits for work is noted so many times in the time after which it would count as away."""
Token = Annotated[str, Header(alias="X-Attempt-Token", max_length=100)]
AttemptId = Annotated[int, Field(ge=1, le=(1 << 53) - 1)]


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return responses(*KEYED, *WITH_BODY, *statuses)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Hello(_Model):
    """What an agent is."""

    name: Annotated[Printable, Field(min_length=1, max_length=100)]
    """Its machine, and whatever else tells it from others."""
    device: Annotated[str, Field(pattern=r"^(cpu|cuda:[0-9]{1,3})$")]
    kind: Literal["cpu", "cuda"]
    device_name: Annotated[Printable, Field(min_length=1, max_length=200)]
    version: Annotated[Printable, Field(max_length=32)]
    """Of the grader."""
    sandbox: Annotated[Printable, Field(max_length=32)]
    problems: Annotated[dict[Name, Annotated[str, Field(max_length=64)]], Field(max_length=10_000)]
    """The version of every problem that it has."""


class Welcome(_Model):
    """The server's answer."""

    agent_id: int
    lease_s: float
    refused: str | None
    """Why it gets no work."""
    other_problems: list[str]
    """Problems that the agent lacks, or has in another version: it gets no submissions to them."""


class Wanted(_Model):
    """An agent wants work."""

    agent_id: AttemptId
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0
    """How long to wait for some."""


class Work(_Model):
    """One submission to grade."""

    attempt_id: int
    token: str
    """To be shown with everything that is said about this attempt."""
    lease_s: float
    submission: str
    problem: str
    problem_version: str
    workload: str | None
    mode: Mode
    name: str
    """Of its file."""
    source: str


class Happened(_Model):
    """One event of a grading."""

    kind: Literal["stage_started", "stage_ended", "progress"]
    stage: Annotated[str, Field(max_length=32)]
    message: Annotated[str, Field(max_length=500)] = ""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class Renewal(_Model):
    """The agent is at it."""

    first: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """The number of the first of these events within the attempt: what was told before is not told again."""
    events: Annotated[list[Happened], Field(max_length=500)] = []


class StandingView(_Model):
    """Whether to go on."""

    standing: Literal["active", "cancelled", "over"]


class GiveUp(_Model):
    """The agent can't grade this."""

    why: Annotated[str, Field(max_length=2000)]


class Counted(_Model):
    """What became of a report."""

    counted: bool
    """False: the attempt was over; the report was kept and ignored."""


class Bye(_Model):
    """An agent that stops."""

    agent_id: AttemptId


@router.post("/hello", responses=_responses())
def hello(said: Hello, serving: Serving, caller: AgentKey) -> Welcome:
    """Be known, and learn what is not as it should be."""
    refused = None
    if said.version != VERSION:
        refused = f"its grader is version {said.version[:32]}, and the server's is {VERSION}: install that one there"
    elif said.sandbox == "none":
        refused = "it has no sandbox for what strangers hand in: install bubblewrap there"
    now = serving.clock()
    with serving.database.write() as session:
        known = (Agent.key_id == caller.key_id, Agent.name == said.name, Agent.device == said.device)
        agent = session.scalar(select(Agent).where(*known))
        if agent is None:
            agent = Agent(key_id=caller.key_id, name=said.name, device=said.device, first_seen=now)
            session.add(agent)
        agent.kind, agent.device_name, agent.version = said.kind, said.device_name, said.version
        agent.sandbox, agent.problems = said.sandbox, json.dumps(said.problems)
        agent.last_seen, agent.refused, agent.left_at = now, refused, None
        session.flush()
        agent_id = agent.id
    others = [name for name, version in serving.catalogue.versions.items() if said.problems.get(name) != version]
    return Welcome(agent_id=agent_id, lease_s=serving.settings.lease_s, refused=refused, other_problems=others)


@router.post("/claim", response_model=Work | None, responses=_responses(404, 409))
async def claim(wanted: Wanted, serving: Serving, caller: AgentKey) -> Work | None:
    """The next submission; null when none came within `wait_s`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wanted.wait_s
    with serving.hub.listening(QUEUE) as changed:
        while True:
            changed.clear()
            work = await run_in_threadpool(_claim, serving, caller, wanted.agent_id)
            left = deadline - loop.time()
            if work is not None or left <= 0 or serving.hub.closing:
                return work
            try:
                async with asyncio.timeout(min(left, _LOOK_S)):
                    await changed.wait()
            except TimeoutError:
                pass


def _claim(serving: Services, caller: Caller, agent_id: int) -> Work | None:
    now, settings = serving.clock(), serving.settings
    with serving.database.read() as session:
        # Most looks find nothing, and then nothing has to be written, but now and then that the agent is there.
        agent = _own_agent(session.get(Agent, agent_id), caller)
        heard = agent.refused is None and now - agent.last_seen < settings.away_s / _HEARD
        if heard and not jobs.is_work(session, agent, serving.catalogue.versions, now, away_s=settings.away_s):
            return None
    with serving.database.write() as session:
        agent = _own_agent(session.get(Agent, agent_id), caller)
        agent.last_seen = now
        if agent.refused is not None:
            raise ApiError(409, "agent-refused", f"This agent gets no work: {agent.refused}.")
        claimed = jobs.claim(
            session, agent, serving.catalogue.versions, now, lease_s=settings.lease_s, away_s=settings.away_s
        )
    if claimed is None:
        return None
    submission = claimed.submission
    serving.hub.notify(submission.id)
    return Work(
        attempt_id=claimed.attempt_id,
        token=claimed.token,
        lease_s=settings.lease_s,
        submission=submission.id,
        problem=submission.problem_id,
        problem_version=submission.problem_version,
        workload=submission.workload,
        mode=submission.mode,  # type: ignore[arg-type]  # checked when it came in
        name=submission.file_name or FILE_NAME,
        source=submission.source.decode(),
    )


def _own_agent(agent: Agent | None, caller: Caller) -> Agent:
    if agent is None or agent.key_id != caller.key_id:
        raise ApiError(404, "no-such-agent", "There is no such agent under this key; say hello first.")
    return agent


@router.post("/attempts/{attempt_id}/renew", responses=_responses(404))
def renew(attempt_id: AttemptId, said: Renewal, token: Token, serving: Serving, caller: AgentKey) -> StandingView:
    """Keep the lease and tell what happened."""
    events: list[tuple[str, dict[str, Any]]] = [
        (one.kind, one.model_dump(exclude={"kind"}, exclude_defaults=True)) for one in said.events
    ]
    with serving.database.write() as session:
        standing = _known(
            lambda: jobs.renew(
                session,
                attempt_id,
                token,
                serving.clock(),
                lease_s=serving.settings.lease_s,
                first=said.first,
                events=events,
            )
        )
        submission_id = _touch(session, attempt_id, serving.clock())
    serving.hub.notify(submission_id)
    return StandingView(standing=standing)


@router.post("/attempts/{attempt_id}/report", responses=_responses(404, 409))
def report(attempt_id: AttemptId, report: Report, token: Token, serving: Serving, caller: AgentKey) -> Counted:
    """The answer."""
    with serving.database.write() as session:
        try:
            counted = _known(lambda: jobs.finish(session, attempt_id, token, report, serving.clock()))
        except jobs.WrongReport as error:
            raise ApiError(409, "wrong-report", f"{str(error).capitalize()}.") from None
        submission_id = _touch(session, attempt_id, serving.clock())
    serving.hub.notify(submission_id)
    return Counted(counted=counted)


@router.post("/attempts/{attempt_id}/give-up", responses=_responses(404))
def give_up(attempt_id: AttemptId, said: GiveUp, token: Token, serving: Serving, caller: AgentKey) -> StandingView:
    """Hand the submission back, for another attempt."""
    why = said.why.replace("\x00", "\ufffd")
    with serving.database.write() as session:
        _known(lambda: jobs.give_up(session, attempt_id, token, why, serving.clock()))
        submission_id = _touch(session, attempt_id, serving.clock())
    serving.hub.notify(submission_id)
    serving.hub.notify(QUEUE)
    return StandingView(standing="over")


@router.post("/bye", responses=_responses(404))
def bye(said: Bye, serving: Serving, caller: AgentKey) -> StandingView:
    """The agent stops, as it was asked to."""
    now = serving.clock()
    with serving.database.write() as session:
        agent = _own_agent(session.get(Agent, said.agent_id), caller)
        agent.last_seen = agent.left_at = now
    return StandingView(standing="over")


def _known(change: Callable[[], T]) -> T:
    try:
        return change()
    except jobs.UnknownAttempt:
        raise ApiError(404, "no-such-attempt", "There is no such attempt, or this is not its token.") from None


def _touch(session: Session, attempt_id: int, now: float) -> str:
    """The agent was heard of; the id of what it grades."""
    attempt = session.get_one(Attempt, attempt_id)
    session.get_one(Agent, attempt.agent_id).last_seen = now
    return session.get_one(Submission, attempt.submission_number).id
