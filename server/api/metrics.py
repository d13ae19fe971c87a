"""`/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.auth import Serving, count_stranger
from server.api.boards import device_views
from server.api.problems_json import ApiError, responses
from server.api.stream import Streams
from server.queue import depth
from server.services import Services
from server.store import StoreAway, Submission
from server.store.models import State

_READY_S = 5.0

router = APIRouter(tags=["operations"])


class Metrics:
    """What is counted of one server."""

    def __init__(self, serving: Services, streams: Streams) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "harness_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "harness_http_seconds", "Time to the beginning of an answer.", ["method", "route"], registry=self.registry
        )
        open_now = Gauge("harness_streams_open", "Event streams that are open.", registry=self.registry)
        open_now.set_function(streams.total)
        self.registry.register(_OfTheStore(serving))


class _OfTheStore(Collector):
    """Read when somebody asks, so that it holds across restarts and processes."""

    def __init__(self, serving: Services) -> None:
        self._serving = serving

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Whether there is a store; if so, queue, answers, agents."""
        there = GaugeMetricFamily("harness_store_up", "Whether the store could be read just now.")
        try:
            with self._serving.database.read() as session:
                waiting = depth(session)
                oldest = session.scalar(select(func.min(Submission.created_at)).where(Submission.state == State.QUEUED))
                views = device_views(session, self._serving, admin=False)
        except StoreAway:
            there.add_metric([], 0.0)
            yield there
            return
        there.add_metric([], 1.0)
        yield there
        queue = GaugeMetricFamily("harness_submissions_open", "Submissions without an answer.", labels=["state"])
        for state, count in waiting.items():
            queue.add_metric([state], count)
        yield queue
        age = 0.0 if oldest is None else max(0.0, self._serving.clock() - oldest)
        yield GaugeMetricFamily("harness_queue_age_seconds", "How long the oldest submission waits.", value=age)
        agents = GaugeMetricFamily("harness_agents", "Agents by what they do.", labels=["state", "kind"])
        counts: dict[tuple[str, str], int] = {}
        for one in views:
            counts[one.state, one.kind] = counts.get((one.state, one.kind), 0) + 1
        for labels, count in counts.items():
            agents.add_metric(list(labels), count)
        yield agents

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing before somebody asks: registering must not read the store."""
        return []


class Measured:
    """Counts requests by their route, never by their path: paths are the client's to choose."""

    def __init__(self, app: ASGIApp, metrics: Metrics, serving: Services) -> None:
        self.app, self.metrics, self.serving = app, metrics, serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = self.serving.clock()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self.metrics.requests.labels(method, route, message["status"]).inc()
                self.metrics.seconds.labels(method, route).observe(max(0.0, self.serving.clock() - began))
            await send(message)

        await self.app(scope, receive, counted)


_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"})


@router.get("/healthz", response_class=PlainTextResponse, responses=responses())
async def healthz() -> str:
    """The process answers."""
    # A coroutine: threads may all be waiting for the store.
    return "ok\n"


@router.get("/readyz", response_class=PlainTextResponse, responses=responses(503))
async def readyz(serving: Serving) -> str:
    """The store can be read and the server is not about to stop."""
    if serving.hub.closing:
        raise ApiError(503, "stopping", "The server is about to stop.")
    try:
        async with asyncio.timeout(_READY_S):
            await run_in_threadpool(_look, serving)
    except TimeoutError:
        raise ApiError(503, "no-store", f"The store does not answer within {_READY_S:g} s.") from None
    return "ok\n"


def _look(serving: Services) -> None:
    with serving.database.read() as session:
        session.execute(select(Submission.number).limit(1))


@router.get("/metrics", response_class=PlainTextResponse, responses=responses(429))
def metrics(request: Request, serving: Serving) -> Response:
    """For Prometheus."""
    count_stranger(serving, request)
    found: Metrics = request.app.state.metrics
    return Response(generate_latest(found.registry), media_type=CONTENT_TYPE_LATEST)
