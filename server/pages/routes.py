"""The pages: problems, leaderboards, submissions, a form to hand one in, signing in.

Whoever signs in has their key in a cookie that scripts can't read and other sites can't have sent. What changes
something is a form here, and is refused when the browser says that another site sent it.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, FastAPI, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from harness.client.marks import MARKS
from harness.report import Report, Verdict
from server import jobs
from server.api.auth import COOKIE, Serving, caller_of, count_stranger, own_submission
from server.api.boards import ProblemView, board_view, device_views, find_problem, problem_view, problems
from server.api.headers import POLICY
from server.api.intake import accept, order_of, read_request
from server.api.models import view, whole_view
from server.api.problems_json import ApiError
from server.keys import Caller, find
from server.pages.charts import histogram, intervals
from server.pages.source import annotated, more_lines
from server.pages.statement import as_html
from server.pages.words import FILTERS
from server.queue import listing
from server.results import has_ends
from server.services import Services
from server.store import Submission, User

_HERE = Path(__file__).parent
_PLOTTED = 30
"""Entries of a leaderboard that are drawn; the table has all."""
router = APIRouter(include_in_schema=False)
_templates = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=select_autoescape(default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(FILTERS)


def install(app: FastAPI) -> None:
    """Add the pages to an app."""
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")


def visitor(request: Request, serving: Serving) -> Caller | None:
    """Whose cookie came; a cookie that is no key any more is as none, and so is an agent's key: pages are people's."""
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        with serving.database.read() as session:
            known = find(session, cookie)
        if known is not None and known.role != "agent":
            return caller_of(serving, cookie, request)
    count_stranger(serving, request)
    return None


Visitor = Annotated[Caller | None, Depends(visitor)]


def same_site(request: Request) -> None:
    """Raises ApiError for a form that another site sent."""
    told, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if told not in (None, "same-origin", "none") or foreign:
        raise ApiError(403, "cross-site", "This form was sent from another site.")


def page(name: str, caller: Caller | None, status: int = 200, /, **values: Any) -> HTMLResponse:
    """A template, filled in."""
    return HTMLResponse(_templates.get_template(name).render(caller=caller, **values), status)


def error_page(status: int, detail: str) -> HTMLResponse:
    """An error for a browser; who looks at it is not asked for, which may be what went wrong."""
    shown = page("fault.html", None, status, error=detail, title=HTTPStatus(status).phrase)
    # A failure's answer is made outside of what adds these.
    shown.headers["Content-Security-Policy"] = POLICY
    return shown


@router.get("/")
def home(serving: Serving, caller: Visitor) -> Response:
    """The problems."""
    with serving.database.read() as session:
        devices = device_views(session, serving, admin=False)
    return page("problems.html", caller, problems=problems(serving), devices=devices)


@router.get("/favicon.ico")
def icon() -> Response:
    """What a browser asks for when an answer is no page of ours."""
    return RedirectResponse("/static/icon.svg", 301)


@router.get("/problems/{problem}")
def one_problem(problem: str, serving: Serving, caller: Visitor) -> Response:
    """One of them, and the form."""
    return _problem_page(problem_view(_found(serving, problem)), caller)


def _problem_page(problem: ProblemView, caller: Caller | None, status: int = 200, error: str | None = None) -> Response:
    statement = as_html(problem.statement) if problem.statement else None
    return page("problem.html", caller, status, problem=problem, statement=statement, error=error)


@router.get("/leaderboard/{problem}")
def leaderboard(
    problem: str,
    serving: Serving,
    caller: Visitor,
    device: Annotated[str | None, Query(max_length=200)] = None,
    workload: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Who is fastest."""
    title = _found(serving, problem).spec.title or problem
    try:
        board = board_view(serving, caller, problem, device or None, workload or None, 200)
    except ApiError as error:
        return page("sign_in.html", caller, error.status, error=error.detail)
    plotted = board.entries[:_PLOTTED]
    rows, ticks = intervals([(entry.ci95_us[0], entry.time_us, entry.ci95_us[1]) for entry in plotted])
    workloads = sorted({name for names in board.boards.values() for name in names})
    told = {code for entry in board.entries for code in entry.warnings}
    marks = [(code, mark) for code, mark in MARKS.items() if code in told]
    return page(
        "leaderboard.html", caller, title=title, board=board, workloads=workloads, rows=rows, ticks=ticks, marks=marks
    )


@router.get("/submissions")
def mine(
    serving: Serving, caller: Visitor, cursor: Annotated[str | None, Query(pattern=r"^[0-9]{1,18}$")] = None
) -> Response:
    """The visitor's submissions."""
    if caller is None:
        return RedirectResponse("/sign-in", 303)
    with serving.database.read() as session:
        found, after = listing(
            session,
            user_id=None if caller.admin else caller.user_id,
            problem=None,
            state=None,
            verdict=None,
            before=None if cursor is None else int(cursor),
            limit=50,
        )
        items = [view(one, user) for one, user in found]
    return page("submissions.html", caller, items=items, after=after)


@router.get("/submissions/{submission_id}")
def submission(submission_id: str, serving: Serving, caller: Visitor) -> Response:
    """One of them, as it moves, and how it came out."""
    if caller is None:
        return RedirectResponse("/sign-in", 303)
    try:
        found = own_submission(serving, caller, submission_id, Submission.source, Submission.report)
    except ApiError as error:
        raise HTTPException(error.status, error.detail) from None
    with serving.database.read() as session:
        user = session.get_one(User, found.user_id)
        shown = whole_view(session, serving, found, user.name, admin=caller.admin)
    source = found.source.decode("utf-8", "replace")
    lines, elsewhere = annotated(source, shown.report)
    log = "" if shown.report is None else shown.report["log"]
    timing = None if shown.report is None else shown.report["timing"]
    return page(
        "submission.html",
        caller,
        submission=shown,
        lines=lines,
        more_lines=more_lines(source),
        elsewhere=elsewhere,
        log=log,
        report=shown.report,
        unranked=shown.report is not None and _unranked(Report.model_validate_json(found.report or "")),
        bars=[] if timing is None else histogram(timing["candidate"]["samples_us"]),
    )


@router.post("/submit", dependencies=[Depends(same_site)])
async def submit(request: Request, serving: Serving) -> Response:
    """The form of a problem's page."""
    caller = await run_in_threadpool(visitor, request, serving)
    if caller is None:
        return RedirectResponse("/sign-in", 303)
    problem = ""
    try:
        new = await read_request(request)
        problem = new.problem
        accepted = await accept(serving, caller, order_of(serving, caller, new), None)
    except ApiError as error:
        if problem in serving.catalogue:
            return _problem_page(problem_view(find_problem(serving, problem)), caller, error.status, error.detail)
        return page("error.html", caller, error.status, error=error.detail)
    return RedirectResponse(f"/submissions/{accepted.submission.id}", 303)


@router.post("/submissions/{submission_id}/cancel", dependencies=[Depends(same_site)])
def cancel(submission_id: str, serving: Serving, caller: Visitor) -> Response:
    """The button on a submission's page."""
    if caller is None:
        return RedirectResponse("/sign-in", 303)
    found = own_submission(serving, caller, submission_id)
    with serving.database.write() as session:
        jobs.cancel(session, found.number, serving.clock())
    serving.hub.notify(found.id)
    return RedirectResponse(f"/submissions/{found.id}", 303)


@router.get("/sign-in")
def sign_in_form(caller: Visitor) -> Response:
    """Where to put the key."""
    return page("sign_in.html", caller, error=None)


@router.post("/sign-in", dependencies=[Depends(same_site)])
def sign_in(request: Request, serving: Serving, key: Annotated[str, Form(max_length=200)]) -> Response:
    """Keep the key in a cookie."""
    try:
        caller = caller_of(serving, key.strip(), request)
    except ApiError as error:
        return page("sign_in.html", None, error.status, error=error.detail)
    if caller.role == "agent":
        return page("sign_in.html", None, 403, error="This key is an agent's, not a person's.")
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE, key.strip(), httponly=True, samesite="strict", secure=request.url.scheme == "https", max_age=30 * 86400
    )
    return response


@router.post("/sign-out", dependencies=[Depends(same_site)])
def sign_out() -> Response:
    """Forget the key."""
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE)
    return response


def _unranked(report: Report) -> bool:
    """Whether its time is accepted, and on no board all the same."""
    return report.verdict is Verdict.ACCEPTED and report.score is not None and not has_ends(report.score)


def _found(serving: Services, problem: str) -> Any:
    try:
        return find_problem(serving, problem)
    except ApiError as error:
        raise HTTPException(error.status, error.detail) from None
