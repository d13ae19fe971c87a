"""The client for asyncio: the same as `synchronous.py`, awaited."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from harness.client import answers, requests
from harness.client.answers import StreamEvent
from harness.client.connection import connection, unreachable
from harness.client.errors import ClientError
from harness.client.following import Following
from harness.client.patience import Patience
from harness.client.requests import Request


class AsyncClient:
    """`Client` for asyncio, with the same methods; close it with `async with` or `aclose`."""

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        patience: Patience | None = None,
        on_pause: Callable[[float, ClientError], None] = lambda seconds, error: None,
    ) -> None:
        self._server, options = connection(server, key)
        self._http = httpx.AsyncClient(**options)
        self._patience, self._on_pause = patience or Patience(), on_pause

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def submit(
        self,
        problem: str,
        source: str,
        *,
        device: str | None = None,
        workload: str | None = None,
        mode: str = "run",
        label: str = "",
        file_name: str = "",
        priority: int = 0,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Hand in a source. Repeated when the answer gets lost, which does not hand it in twice."""
        return await self._object(
            requests.submit(
                problem,
                source,
                device=device,
                workload=workload,
                mode=mode,
                label=label,
                file_name=file_name,
                priority=priority,
                idempotency_key=idempotency_key,
            )
        )

    async def submission(self, submission_id: str) -> dict[str, Any]:
        """One submission, with its report when it is done."""
        return await self._object(requests.submission(submission_id))

    async def submissions(
        self, *, problem: str | None = None, state: str | None = None, verdict: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Your own, newest first, without reports; asked for page by page."""
        cursor = None
        while True:
            filters = {"problem": problem, "state": state, "verdict": verdict}
            page = await self._object(requests.submissions(filters, cursor))
            for one in page["items"]:
                yield one
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def source(self, submission_id: str) -> str:
        """The text as it was handed in."""
        return await self._text(requests.submission(submission_id, "source"))

    async def log(self, submission_id: str) -> str:
        """What it printed."""
        return await self._text(requests.submission(submission_id, "log"))

    async def cancel(self, submission_id: str) -> dict[str, Any]:
        """Cancel it."""
        return await self._object(requests.cancel(submission_id))

    async def regrade(self, submission_id: str, *, idempotency_key: str | None = None) -> dict[str, Any]:
        """Have it graded again, as a new submission."""
        return await self._object(requests.regrade(submission_id, idempotency_key))

    async def watch(self, submission_id: str, *, last_event_id: str = "") -> AsyncIterator[StreamEvent]:
        """Its events, from the first or after `last_event_id` on, until it has ended; a connection that breaks off is
        taken up again."""
        following = Following(submission_id, self._patience, last_event_id)
        while True:
            error: ClientError | None = None
            try:
                async with self._http.stream(**following.request().options()) as answer:
                    if answer.status_code != 200:
                        await answer.aread()
                        answers.check(answer.status_code, answer.headers, answer.text)
                    async for line in answer.aiter_lines():
                        event = following.take(line)
                        if event is not None:
                            yield event
                        if following.ended:
                            return
            except httpx.RequestError as broken:
                error = unreachable(self._server, broken)
            except ClientError as refused:
                error = refused
            await self._pause(following.pause_s(error), error)

    async def wait(self, submission_id: str) -> dict[str, Any]:
        """The submission, once it is done or cancelled."""
        last = [event async for event in self.watch(submission_id)][-1]
        return last.data

    async def problems(self) -> list[dict[str, Any]]:
        """What there is to solve."""
        return await self._list(requests.problems())

    async def problem(self, problem: str) -> dict[str, Any]:
        """One problem: statement, reference, workloads, limits."""
        return await self._object(requests.problems(problem))

    async def devices(self) -> list[dict[str, Any]]:
        """What there is to grade on."""
        return await self._list(requests.devices())

    async def leaderboard(self, problem: str, device: str | None = None, workload: str | None = None) -> dict[str, Any]:
        """Who is fastest."""
        return await self._object(requests.leaderboard(problem, device, workload))

    async def _object(self, request: Request) -> dict[str, Any]:
        return answers.an_object(await self._json(request))

    async def _list(self, request: Request) -> list[dict[str, Any]]:
        return answers.a_list(await self._json(request))

    async def _json(self, request: Request) -> Any:
        return answers.read_json(await self._text(request))

    async def _text(self, request: Request) -> str:
        for tried in itertools.count(1):
            try:
                answer = await self._http.request(**request.options())
                answers.check(answer.status_code, answer.headers, answer.text)
                return answer.text
            except httpx.RequestError as broken:
                error: ClientError = unreachable(self._server, broken)
            except ClientError as refused:
                error = refused
            pause = self._patience.pause_s(request, error, tried)
            if pause is None:
                raise error
            await self._pause(pause, error)
        raise AssertionError("patience ends")

    async def _pause(self, seconds: float, error: ClientError | None) -> None:
        if error is not None:
            self._on_pause(seconds, error)
        await asyncio.sleep(seconds)
