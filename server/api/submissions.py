"""`/v1/submissions`: hand in, look, watch, cancel, grade again."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from harness.load.submission import FILE_NAME
from server import jobs
from server.api.auth import Serving, Solver, own_submission
from server.api.intake import accept, order_of, read_request
from server.api.models import SubmissionPage, SubmissionView, view, whole_view
from server.api.problems_json import KEYED, WITH_BODY, ApiError, responses
from server.api.stream import EventStream, stream
from server.arrivals import Accepted, Order
from server.keys import Caller
from server.queue import listing
from server.services import Services
from server.store import Submission, User
from server.store.models import State

router = APIRouter(prefix="/v1/submissions", tags=["submissions"])

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/NewSubmission"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["problem", "file"],
                    "properties": {
                        "problem": {"type": "string"},
                        "file": {"type": "string", "format": "binary"},
                        "device": {"enum": ["cpu", "cuda"]},
                        "workload": {"type": "string"},
                        "mode": {"enum": ["run", "check", "profile"]},
                        "label": {"type": "string"},
                        "file_name": {"type": "string", "description": "Default: the file's own."},
                    },
                }
            },
        },
    }
}
_PLAIN: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_EVENT = {
    "description": "One event of the stream. `data` is a JSON object in one line; of `done` and `cancelled` it is the "
    "submission.",
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {
            "enum": [
                "queued",
                "claimed",
                "stage_started",
                "progress",
                "stage_ended",
                "requeued",
                "done",
                "cancelled",
            ]
        },
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "examples": [{"id": "3", "event": "stage_started", "data": '{"at": 1795986413.6, "stage": "build"}'}],
}
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": _EVENT}}}}


def _whole(serving: Services, caller: Caller, submission_id: str) -> SubmissionView:
    submission = own_submission(serving, caller, submission_id, Submission.report)
    with serving.database.read() as session:
        user = session.get_one(User, submission.user_id)
        return whole_view(session, serving, submission, user.name, admin=caller.admin)


@router.post(
    "",
    status_code=202,
    response_model=SubmissionView,
    responses=responses(*KEYED, *WITH_BODY, 415),
    openapi_extra=_BODY,
)
async def hand_in(
    request: Request,
    serving: Serving,
    caller: Solver,
    idempotency_key: Annotated[str | None, Header(description="The same key again gives the same submission.")] = None,
) -> Response:
    """Hand in a source. It is on disk when this answers."""
    new = await read_request(request)
    accepted = await accept(serving, caller, order_of(serving, caller, new), idempotency_key)
    shown = await _told(serving, caller, caller.user, accepted)
    headers = {"Location": shown.links.self}
    if shown.report is not None:
        # Not pydantic's own JSON: it fails on half a surrogate pair, which an old report may hold.
        return JSONResponse(shown.model_dump(mode="json"), 202, headers)
    return Response(shown.model_dump_json(), 202, headers=headers, media_type="application/json")


@router.get("", responses=responses(*KEYED))
def list_(
    serving: Serving,
    caller: Solver,
    problem: Annotated[str | None, Query(max_length=100)] = None,
    state: Literal["queued", "building", "running", "done", "cancelled"] | None = None,
    verdict: Annotated[str | None, Query(max_length=32)] = None,
    cursor: Annotated[str | None, Query(pattern=r"^[0-9]{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> SubmissionPage:
    """Your submissions, newest first; an admin sees everybody's."""
    with serving.database.read() as session:
        page, after = listing(
            session,
            user_id=None if caller.admin else caller.user_id,
            problem=_storable(problem),
            state=state,
            verdict=_storable(verdict),
            before=None if cursor is None else int(cursor),
            limit=limit,
        )
        items = [view(one, user) for one, user in page]
    return SubmissionPage(items=items, next_cursor=None if after is None else str(after))


def _storable(text: str | None) -> str | None:
    """PostgreSQL refuses a NUL in a text, also in one that is only compared."""
    return None if text is None else text.replace("\x00", "\ufffd")


@router.get("/{submission_id}", responses=responses(*KEYED, 404))
def show(submission_id: str, serving: Serving, caller: Solver) -> SubmissionView:
    """One submission: its state, its place in the queue, its report when it is done."""
    return _whole(serving, caller, submission_id)


@router.delete("/{submission_id}", responses=responses(*KEYED, 404, 408, 409, 413))
def cancel(submission_id: str, serving: Serving, caller: Solver) -> SubmissionView:
    """Cancel a submission that is not done. Doing so again changes nothing."""
    submission = own_submission(serving, caller, submission_id)
    with serving.database.write() as session:
        cancelled = jobs.cancel(session, submission.number, serving.clock())
    if not cancelled:
        raise ApiError(409, "already-done", "The submission is done and can't be cancelled any more.")
    serving.hub.notify(submission.id)
    return _whole(serving, caller, submission_id)


@router.get("/{submission_id}/source", response_class=PlainTextResponse, responses={**responses(*KEYED, 404), **_PLAIN})
def source(submission_id: str, serving: Serving, caller: Solver) -> Response:
    """The text as it was handed in."""
    found = own_submission(serving, caller, submission_id, Submission.source)
    # Such a name needs no escapes in a header.
    named = f'inline; filename="{found.file_name or FILE_NAME}"'
    return PlainTextResponse(found.source, headers={"Content-Disposition": named})


@router.get("/{submission_id}/log", response_class=PlainTextResponse, responses={**responses(*KEYED, 404), **_PLAIN})
def log(submission_id: str, serving: Serving, caller: Solver) -> Response:
    """What the submission printed; empty before it is done."""
    report = own_submission(serving, caller, submission_id, Submission.report).report
    text: str = "" if report is None else json.loads(report)["log"]
    return PlainTextResponse(text.encode("utf-8", "replace"))


@router.get(
    "/{submission_id}/events", response_class=StreamingResponse, responses={**responses(*KEYED, 404), **_STREAM}
)
def events(
    request: Request,
    submission_id: str,
    serving: Serving,
    caller: Solver,
    last_event_id: Annotated[str | None, Header(description="Go on after this event.")] = None,
) -> StreamingResponse:
    """What happens, as server-sent events: queued, claimed, stage_started, progress, stage_ended, requeued, done,
    cancelled. The stream ends with one of the last two; `done` carries the report. One that ends without them, because
    it has lasted long enough or the server stops, is taken up again with the number of its last event."""
    submission = own_submission(serving, caller, submission_id)
    after = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 10 else 0

    def ending() -> dict[str, Any]:
        return _whole(serving, caller, submission_id).model_dump(mode="json")

    return EventStream(serving, caller, request.app.state.streams, stream(serving, submission, after, ending))


@router.post("/{submission_id}/regrade", status_code=202, responses=responses(*KEYED, 404, 408, 409, 413))
async def regrade(
    submission_id: str,
    serving: Serving,
    caller: Solver,
    idempotency_key: Annotated[str | None, Header(description="The same key again gives the same submission.")] = None,
) -> SubmissionView:
    """Grade it again, as a new submission of the same user with the problem as it is now.

    When that is done, its answer takes the place of the earlier one on the leaderboard.
    """
    old, owner = await run_in_threadpool(_to_regrade, serving, caller, submission_id)
    if old.state != "done":
        raise ApiError(409, "not-done", "Only a submission that is done can be graded again.")
    problem = serving.catalogue.get(old.problem_id)
    if problem is None or (old.workload is not None and old.workload not in problem.spec.workloads):
        raise ApiError(409, "no-such-problem", "The problem, or this workload of it, is not here any more.")
    order = Order(
        problem_id=old.problem_id,
        problem_version=problem.version,
        source=old.source,
        mode=old.mode,
        label=old.label,
        file_name=old.file_name,
        device_kind=old.device_kind,
        workload=old.workload,
        regrade_of=old.regrade_of or old.id,
    )
    behalf = Caller(owner.id, owner.name, caller.key_id, caller.role, None, caller.max_queued)
    accepted = await accept(serving, behalf, order, idempotency_key)
    return await _told(serving, caller, owner.name, accepted)


def _to_regrade(serving: Services, caller: Caller, submission_id: str) -> tuple[Submission, User]:
    old = own_submission(serving, caller, submission_id, Submission.source)
    with serving.database.read() as session:
        return old, session.get_one(User, old.user_id)


async def _told(serving: Services, caller: Caller, user: str, accepted: Accepted) -> SubmissionView:
    if accepted.submission.state == State.DONE:
        # A request that came again, so late that there is a report to show.
        return await run_in_threadpool(_whole, serving, caller, accepted.submission.id)
    waits_for = serving.waits_for(accepted.submission, accepted.agents)
    return view(accepted.submission, user, place=accepted.place, waits_for=waits_for)
