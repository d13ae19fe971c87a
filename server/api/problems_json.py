"""Errors as RFC 9457 has them: `application/problem+json`, one sentence that says what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("harness.server")


class ProblemDocument(BaseModel):
    """What went wrong with a request."""

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


def document(status: int, code: str, detail: str) -> dict[str, Any]:
    """The body of an error."""
    return ProblemDocument(
        type=f"urn:kernel-harness:{code}", title=HTTPStatus(status).phrase, status=status, detail=detail
    ).model_dump()


def answer(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error as a response."""
    return JSONResponse(document(status, code, detail), status, headers=headers, media_type=MEDIA_TYPE)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What an operation declares of its errors; those that every one may give are included."""
    schema = {"schema": ProblemDocument.model_json_schema()}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: schema}}
        for status in sorted({401, 403, 422, 429, *statuses})
    }


def install(app: FastAPI) -> None:
    """Answer every error of an app this way."""

    @app.exception_handler(ApiError)
    async def ours(_: Request, error: ApiError) -> JSONResponse:
        return answer(error.status, error.code, error.detail, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return answer(422, "invalid-request", explain(error.errors()))

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> JSONResponse:
        code = HTTPStatus(error.status_code).name.lower().replace("_", "-")
        return answer(error.status_code, code, str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer(500, "internal-error", "The server failed; whoever runs it finds the cause in its log.")


def explain(errors: Any) -> str:
    """The first mistake in one sentence. The value itself is not repeated: it may be a source."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"])
    return f"{place}: {message}." if place else f"{message}."
