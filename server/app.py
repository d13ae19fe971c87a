"""The web application: its parts put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from fastapi import FastAPI
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from harness.version import VERSION
from server import jobs
from server.api import agents, boards, document, metrics, problems_json, submissions
from server.api.auth import sender
from server.api.headers import SafeHeaders
from server.api.limits import BodyLimits
from server.api.stream import Streams
from server.pages import routes
from server.services import QUEUE, Services
from server.store import StoreAway, Submission

_log = logging.getLogger("harness.server")
_LOOK_S = 2.0
_AT_ONCE = 500


def make_app(serving: Services) -> FastAPI:
    """The application over a store that is migrated."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        serving.hub.open()
        always = [asyncio.create_task(_again_and_again(work, serving)) for work in (_take_back, _Watch())]
        try:
            yield
        finally:
            serving.hub.close()
            for task in always:
                task.cancel()

    app = FastAPI(
        title="kernel-harness",
        version=VERSION,
        description="Hand in GPU kernels, watch them being graded, compare them.",
        lifespan=lifespan,
        docs_url=None,  # those pages load their scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.services = serving
    app.state.streams = Streams()
    app.state.metrics = metrics.Metrics(serving, app.state.streams)
    problems_json.install(app, routes.error_page)
    for part in (submissions, boards, agents, metrics):
        app.include_router(part.router)
    routes.install(app)
    document.install(app)

    app.add_middleware(BodyLimits, settings=serving.settings, sender=sender(serving))
    app.add_middleware(SafeHeaders)
    app.add_middleware(metrics.Measured, metrics=app.state.metrics, serving=serving)
    return app


async def _again_and_again(work: Callable[[Services], list[str]], serving: Services) -> None:
    """Look into the store unasked, for as long as the server runs, and wake whoever waits for what has changed."""
    while True:
        await asyncio.sleep(_LOOK_S)
        try:
            changed = await run_in_threadpool(work, serving)
        except StoreAway as error:
            serving.store_is_away(error)
            continue
        except Exception:  # noqa: BLE001 - what fails once must not stop it for good
            _log.exception("the store could not be looked through")
            continue
        for topic in changed:
            serving.hub.notify(topic)


def expire_now(serving: Services) -> list[str]:
    """Take back what dead agents hold; the ids of the submissions that this changed."""
    with serving.database.write() as session:
        return jobs.expire(session, serving.clock())


def _take_back(serving: Services) -> list[str]:
    changed = expire_now(serving)
    return [*changed, QUEUE] if changed else []


class _Watch:
    """Sees what other processes on the same store have done to submissions that streams here are about."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def __call__(self, serving: Services) -> list[str]:
        """One look for all streams."""
        watched = [topic for topic in serving.hub.topics if topic != QUEUE]
        now: dict[str, int] = {}
        with serving.database.read() as session:
            for begin in range(0, len(watched), _AT_ONCE):
                wanted = Submission.id.in_(watched[begin : begin + _AT_ONCE])
                now |= session.execute(select(Submission.id, Submission.events).where(wanted)).all()
        changed = [name for name, events in now.items() if self._seen.get(name) != events]
        self._seen = now
        return changed
