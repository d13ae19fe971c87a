"""Who may do what: a key in the header `Authorization: Bearer KEY`; for reading also in the cookie of the pages.

The cookie is not taken for anything that changes something, so no other site can have a browser do that.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, undefer
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from server.api.problems_json import ApiError
from server.keys import Caller, find
from server.services import Services
from server.store import Submission

COOKIE = "harness_key"
_ID = re.compile(r"[0-9a-f]{1,32}")
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
# For the OpenAPI document only: what it says about a key that is missing is not ours.
_BEARER = HTTPBearer(scheme_name="key", description="As harness keys create prints it.", auto_error=False)
KEY_OPTIONAL: dict[str, Any] = {"security": [{}, {"key": []}]}
"""For the document of an operation that a Reader may call."""


# Dependencies that wait for nothing are coroutines: FastAPI has others run in a thread, which takes longer than they.


async def services(request: Request) -> Services:
    """The server's own."""
    found: Services = request.app.state.services
    return found


Text = InstrumentedAttribute[Any]
"""`Submission.source` or `Submission.report`."""
Serving = Annotated[Services, Depends(services)]


def caller_of(serving: Services, text: str, request: Request) -> Caller:
    """Whose key that is, one request of it used up. Raises ApiError."""
    with serving.database.read() as session:
        caller = find(session, text)
    if caller is None:
        count_stranger(serving, request)
        raise ApiError(401, "unknown-key", "This key is not known here, or was revoked.", _CHALLENGE)
    # Agents report as often as they have to; a limit would lose attempts.
    if caller.role != "agent":
        limit = caller.requests_per_minute or serving.settings.requests_per_minute
        if wait_s := serving.rates.wait_s(caller.key_id, limit, 60.0, serving.clock()):
            raise _too_many(f"This key may send {limit} requests a minute", wait_s)
    return caller


def count_stranger(serving: Services, request: Request) -> None:
    """One request without a key that makes the server look into its store. Raises ApiError for too many of an
    address."""
    host, limit = "" if request.client is None else request.client.host, serving.settings.strangers_per_minute
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.version == 6:  # whoever has one has all of these
            host = str(ipaddress.ip_network((int(address), 64), strict=False))
    if wait_s := serving.rates.wait_s(f"from {host}", limit, 60.0, serving.clock()):
        raise _too_many(f"Without a key an address may send {limit} requests a minute", wait_s)


def _too_many(why: str, wait_s: float) -> ApiError:
    return ApiError(429, "too-many-requests", f"{why}; go on in {wait_s:.1f} s.", {"Retry-After": str(int(wait_s) + 1)})


def sender(serving: Services) -> Callable[[Scope], Awaitable[Caller | None]]:
    """Finds out whose key came with a request, of an API's client or of a page's form, before anything else is done
    with it."""

    def look(text: str) -> Caller | None:
        with serving.database.read() as session:
            return find(session, text)

    async def found(scope: Scope) -> Caller | None:
        request = Request(scope)
        header = request.headers.get("authorization")
        text = request.cookies.get(COOKIE) if header is None else header.partition(" ")[2].strip()
        return None if text is None else await run_in_threadpool(look, text)

    return found


async def optional_caller(
    request: Request, serving: Serving, _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None
) -> Caller | None:
    """Whose key came with the request; None when none came."""
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _space, text = header.partition(" ")
        if scheme.lower() != "bearer":
            raise ApiError(401, "no-key", "Send the key as Authorization: Bearer KEY.", _CHALLENGE)
        return await run_in_threadpool(caller_of, serving, text.strip(), request)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and request.method in ("GET", "HEAD"):
        return await run_in_threadpool(caller_of, serving, cookie, request)
    count_stranger(serving, request)
    return None


def allowed(*roles: str) -> Callable[[Caller | None], Awaitable[Caller]]:
    """A dependency: the caller, who has one of these roles."""

    async def check(caller: Annotated[Caller | None, Depends(optional_caller)]) -> Caller:
        if caller is None:
            raise ApiError(401, "no-key", "Send a key as Authorization: Bearer KEY.", _CHALLENGE)
        if caller.role not in roles:
            raise ApiError(403, "wrong-role", f"A key with the role {caller.role} may not do this.")
        return caller

    return check


Solver = Annotated[Caller, Depends(allowed("solver", "admin"))]
AgentKey = Annotated[Caller, Depends(allowed("agent", "admin"))]
Reader = Annotated[Caller | None, Depends(optional_caller)]


def own_submission(serving: Services, caller: Caller, submission_id: str, *texts: Text) -> Submission:
    """The submission, if it is the caller's or the caller is an admin: of others not even that it exists is told.

    `texts` are the columns beyond the small ones that the caller will look at.
    """
    found = None
    if _ID.fullmatch(submission_id):  # PostgreSQL refuses some characters even in a comparison
        wanted = select(Submission).where(Submission.id == submission_id).options(*map(undefer, texts))
        with serving.database.read() as session:
            found = session.scalar(wanted)
    if found is None or not (caller.admin or found.user_id == caller.user_id):
        raise ApiError(404, "no-such-submission", "There is no such submission, or it is not yours.")
    return found
