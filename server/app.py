"""The web application: its parts put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from harness.version import VERSION
from server import jobs
from server.api import agents, boards, document, metrics, problems_json, submissions
from server.api.headers import SafeHeaders
from server.api.limits import BodyLimits
from server.pages import routes
from server.services import QUEUE, Services

_log = logging.getLogger("harness.server")
_EXPIRE_S = 2.0


def make_app(serving: Services) -> FastAPI:
    """The application over a store that is migrated."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        serving.hub.open()
        expiring = asyncio.create_task(_expire(serving))
        try:
            yield
        finally:
            serving.hub.close()
            expiring.cancel()

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
    app.state.metrics = metrics.Metrics(serving)
    problems_json.install(app)
    for part in (submissions, boards, agents, metrics):
        app.include_router(part.router)
    routes.install(app)
    document.install(app)

    app.add_middleware(BodyLimits, settings=serving.settings)
    app.add_middleware(SafeHeaders)
    app.add_middleware(metrics.Measured, metrics=app.state.metrics, serving=serving)
    return app


async def _expire(serving: Services) -> None:
    """Take back what dead agents hold, for as long as the server runs."""
    while True:
        await asyncio.sleep(_EXPIRE_S)
        try:
            for submission_id in await run_in_threadpool(expire_now, serving):
                serving.hub.notify(submission_id)
                serving.hub.notify(QUEUE)
        except Exception:  # noqa: BLE001 - the store may be away for a while; the next round tries again
            _log.exception("leases could not be looked at")


def expire_now(serving: Services) -> list[str]:
    """One round of that."""
    with serving.database.write() as session:
        return jobs.expire(session, serving.clock())
