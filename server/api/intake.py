"""A new submission out of a request, JSON or a form with a file, and into the queue."""

from __future__ import annotations

import re
from typing import Any

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from harness.load.spec import RANKING
from harness.load.submission import MAX_BYTES, usable_name
from server.api.models import NewSubmission
from server.api.problems_json import ApiError, explain
from server.arrivals import Accepted, Arrival, KeyReused, Order, QueueFull
from server.keys import Caller
from server.services import QUEUE, Services

_KEY = re.compile(r"[\x21-\x7e]{1,128}")


async def read_request(request: Request) -> NewSubmission:
    """What the request asks for. Raises ApiError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            return NewSubmission.model_validate_json(await request.body(), strict=True)
        if kind in ("multipart/form-data", "application/x-www-form-urlencoded"):
            return NewSubmission.model_validate(await _form(request))
    except ValidationError as error:
        raise ApiError(422, "invalid-request", explain(error.errors(include_input=False))) from None
    raise ApiError(415, "media-type", "Send application/json, or multipart/form-data with the source as file.")


async def _form(request: Request) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    try:
        async with request.form(max_files=1, max_fields=10, max_part_size=MAX_BYTES * 2) as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    if value.size:
                        fields["source"] = _text(await value.read(MAX_BYTES + 1))
                        fields.setdefault("label", (value.filename or "")[:100])
                        fields.setdefault("file_name", (value.filename or "")[-255:])
                elif value or name == "source":
                    # A browser sends \r\n; an empty field of a form is one that was not filled in.
                    fields.setdefault(name, value.replace("\r\n", "\n") if name == "source" else value)
    except HTTPException as error:
        raise ApiError(422, "invalid-form", f"The form can't be read: {error.detail}") from None
    return fields


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise ApiError(413, "source-too-large", f"The source is larger than the limit of {MAX_BYTES} bytes.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(422, "not-utf8", f"The file is not UTF-8 (position {error.start}); save it as UTF-8.") from None


def order_of(serving: Services, caller: Caller, new: NewSubmission) -> Order:
    """The request, with every name in it looked up. Raises ApiError."""
    problem = serving.catalogue.get(new.problem)
    if problem is None:
        raise ApiError(422, "no-such-problem", serving.catalogue.no_such(new.problem))
    if new.workload not in (None, *problem.spec.workloads, *([RANKING] if problem.spec.ranking.workloads else [])):
        raise ApiError(422, "no-such-workload", f"The problem's workloads are {', '.join(problem.spec.workloads)}.")
    if new.priority > 0 and not caller.admin:
        raise ApiError(403, "wrong-role", "Only admins may ask for a priority above 0.")
    try:
        source = new.source.removeprefix("\ufeff").encode()
    except UnicodeEncodeError:
        raise ApiError(422, "not-utf8", "The source holds half a surrogate pair, which is no text.") from None
    if len(source) > MAX_BYTES:
        raise ApiError(413, "source-too-large", f"The source is larger than the limit of {MAX_BYTES} bytes.")
    return Order(
        problem_id=problem.id,
        problem_version=problem.version,
        source=source,
        mode=new.mode,
        label=new.label,
        file_name=usable_name(new.file_name) or usable_name(new.label),
        device_kind=new.device,
        workload=new.workload,
        priority=new.priority,
    )


async def accept(serving: Services, caller: Caller, order: Order, key: str | None) -> Accepted:
    """Queue it. Raises ApiError."""
    if key is not None and not _KEY.fullmatch(key):
        raise ApiError(422, "idempotency-key", "An Idempotency-Key has 1 to 128 printable characters without spaces.")
    settings = serving.settings
    limit = None if caller.admin else caller.max_queued or settings.max_queued
    if limit is not None:
        # What is cancelled or graded leaves the queue, and stays in the store.
        most = settings.sources_bytes_per_hour * max(1.0, limit / settings.max_queued)
        bucket, size = f"sources of {caller.user_id}", float(len(order.source))
        if wait_s := serving.rates.wait_s(bucket, most, 3600.0, serving.clock(), size):
            detail = f"A user may hand in {most / 2**20:.0f} MiB of sources an hour; go on in {wait_s:.0f} s."
            raise ApiError(429, "too-much-source", detail, {"Retry-After": str(int(wait_s) + 1)})
    try:
        accepted = await serving.arrivals.hand_in(Arrival(caller.user_id, order, serving.clock(), limit, key))
    except QueueFull:
        raise ApiError(
            429, "queue-full", f"{limit} submissions of yours are waiting or at work, which is the limit.", _LATER
        ) from None
    except KeyReused:
        raise ApiError(
            422, "idempotency-key-reused", "This Idempotency-Key came before with another request; use a new one."
        ) from None
    serving.hub.notify(QUEUE)
    return accepted


_LATER = {"Retry-After": "30"}
