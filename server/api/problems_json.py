"""Errors as RFC 9457 has them: `application/problem+json`, one sentence that says what to do. Browsers get a page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from server.store import StoreAway

MEDIA_TYPE = "application/problem+json"
RETRY_S = 5
"""After so long a request that found no store may come again."""
_FAILED = "The server failed; whoever runs it finds the cause in its log."
_log = logging.getLogger("harness.server")


class ProblemDocument(BaseModel):
    """What went wrong with a request."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str = "about:blank"
    """`urn:kernel-harness:CODE`, stable, for programs."""
    title: str
    """The kind of error, in a few words."""
    status: int
    """The status of the answer."""
    detail: str
    """What happened and what to do."""


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, dict(headers or {})


def no_store() -> ApiError:
    """What is said while the store is away."""
    detail = "The server can't reach its store; try again, with the same Idempotency-Key where you sent one."
    return ApiError(503, "no-store", detail, {"Retry-After": str(RETRY_S)})


def document(status: int, code: str, detail: str) -> dict[str, Any]:
    """The body of an error."""
    return ProblemDocument(
        type=f"urn:kernel-harness:{code}", title=HTTPStatus(status).phrase, status=status, detail=detail
    ).model_dump()


def answer(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error as a response."""
    return JSONResponse(document(status, code, detail), status, headers=headers, media_type=MEDIA_TYPE)


ANYWHERE = (422, 431, 503)
"""What every operation may answer: the request, or its headers, are not what they have to be; there is no store."""
KEYED = (401, 403, 429)
"""What one that looks at a key may answer besides."""
WITH_BODY = (400, 408, 413)
"""What one that reads a body may answer besides."""


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What an operation declares of its errors; those that every one may give are included."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    told: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*ANYWHERE, *statuses}):
        told[status] = {"description": HTTPStatus(status).phrase, "content": content}
        if status in (429, 503):
            told[status]["headers"] = {
                "Retry-After": {"description": "After so many seconds again.", "schema": {"type": "integer"}}
            }
    return told


def answer_to(scope: Scope, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The same for a request; a browser that is not at the API gets a page."""
    accepted = Headers(scope=scope).get("accept", "")
    if "text/html" not in accepted or f"{scope['path']}/".startswith("/v1/"):
        return answer(status, code, detail, headers)
    as_page: Callable[[int, str], Response] = scope["app"].state.error_page
    shown = as_page(status, detail)
    shown.headers.update(headers or {})
    return shown


def install(app: FastAPI, as_page: Callable[[int, str], Response]) -> None:
    """Answer every error of an app this way; `as_page` makes a page of status and detail."""
    app.state.error_page = as_page

    @app.exception_handler(ApiError)
    async def ours(request: Request, error: ApiError) -> Response:
        return answer_to(request.scope, error.status, error.code, error.detail, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer_to(request.scope, 422, "invalid-request", explain(error.errors()))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        code = HTTPStatus(error.status_code).name.lower().replace("_", "-")
        headers, detail = dict(error.headers or {}), str(error.detail)
        if detail == HTTPStatus(error.status_code).phrase and error.status_code == 404:
            detail = "There is nothing at this address."
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods(app, request))
            detail = f"There is no {request.method} here, only {headers['Allow']}."
        return answer_to(request.scope, error.status_code, code, detail, headers)

    @app.exception_handler(StoreAway)
    async def away(request: Request, error: StoreAway) -> Response:
        request.app.state.services.store_is_away(error)
        told = no_store()
        return answer_to(request.scope, told.status, told.code, told.detail, told.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer_to(request.scope, 500, "internal-error", _FAILED)


def _methods(app: FastAPI, request: Request) -> list[str]:
    """Of all operations at this path: the one that was asked for is only the first of them."""
    found: set[str] = set()
    for route in app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


def explain(errors: Any) -> str:
    """The first mistake in one sentence. The value itself is not repeated: it may be a source."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"])
    return f"{place}: {message}." if place else f"{message}."
