"""`harness mcp` and clients that mean ill, or go away: over HTTP, many at once, and in the middle of a call."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
import psutil
import uvicorn
from mcp import Client
from mcp_fakes import RIGHT, SCALE, FakeBench, report, text_of

from harness.mcp import server as server_module
from harness.mcp import words
from harness.mcp.bench import Bench
from harness.mcp.server import MAX_CALLS, make_server
from harness.mcp.transport import PATH, http_app, is_local
from harness.mcp.workspace import Workspace
from harness.report import Measurement, Timing

KEY = {"Authorization": "Bearer a-secret-of-some-length"}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}
CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "run", "arguments": {"problem": "scale", "source": "x"}},
}


@contextlib.asynccontextmanager
async def listening(bench: Bench, root: Path, key: str | None = None) -> AsyncIterator[str]:
    """The address of a server in this process."""
    app = http_app(make_server(Workspace(root, [SCALE]), bench, None), "127.0.0.1", key)
    serving = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on", ws="none"))
    task = asyncio.create_task(serving.serve())
    while not serving.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{serving.servers[0].sockets[0].getsockname()[1]}"
    finally:
        serving.should_exit = serving.force_exit = True
        await task


async def session(client: httpx2.AsyncClient) -> dict[str, str]:
    """The headers of a new one."""
    answer = await client.post(PATH, json=HELLO, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return {**HEADERS, "Mcp-Session-Id": answer.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:9"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_without_a_key_no_page_of_a_browser_gets_in(
    tmp_path: Path, headers: dict[str, str], status: int, version: str
) -> None:
    async def talk() -> None:
        async with listening(FakeBench(), tmp_path) as url, httpx2.AsyncClient(base_url=url) as client:
            answer = await client.post(
                PATH, json=HELLO, headers={**HEADERS, "Mcp-Protocol-Version": version, **headers}
            )
            if version == "2025-06-18" or status != 200:
                assert answer.status_code == status
            preflight = await client.options(PATH, headers={"Origin": "https://evil.example", **headers})
            assert preflight.status_code >= 400
            assert not [name for name in preflight.headers if name.startswith("access-control")]

    asyncio.run(talk())


def test_with_a_key_nothing_is_answered_without_it(tmp_path: Path) -> None:
    async def talk() -> None:
        key = KEY["Authorization"]
        async with (
            listening(FakeBench(), tmp_path, key.removeprefix("Bearer ")) as url,
            httpx2.AsyncClient(base_url=url) as client,
        ):
            for method, path in itertools.product(("GET", "POST", "DELETE", "OPTIONS"), (PATH, "/", "/mcp/", "//mcp")):
                for given in ({}, {"Authorization": "Bearer"}, {"Authorization": key[:-1]}):
                    answer = await client.request(method, path, headers={**HEADERS, **given})
                    assert answer.status_code == 401
            # Who has it may come through a proxy with a name of its own.
            shown = await client.post(PATH, json=HELLO, headers={**HEADERS, **KEY, "Host": "grader.example"})
            assert shown.status_code == 200

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("127.evil.example", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "")],
)
def test_only_an_address_is_trusted_to_be_this_machine_s(host: str, local: bool) -> None:
    assert is_local(host) is local


def test_what_is_no_request_does_no_harm(tmp_path: Path) -> None:
    async def talk() -> None:
        async with listening(FakeBench(), tmp_path) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
            headers = await session(client)
            bodies = ["", "{", "[" * 200_000, '{"a":' * 100_000, "null", "[]", '"\\ud800"', "\0", "9" * 50_000]
            bodies.append(json.dumps(CALL).replace('"x"', '"\\ud800"'))
            bodies.append(json.dumps({**CALL, "params": {"name": "run", "arguments": {"problem": ["scale"] * 9}}}))
            for body in bodies:
                answer = await client.post(PATH, content=body.encode(), headers=headers)
                assert answer.status_code < 500 or "Parse error" in answer.text, (body[:20], answer.text[:300])
            large = await client.post(PATH, content=b" " * (5 << 20), headers=headers)
            assert large.status_code == 413
            assert "sanitize" in (await client.post(PATH, json=LIST, headers=headers)).text

    asyncio.run(talk())


def test_a_client_that_goes_away_leaves_no_grading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_BEAT_S", 0.05)

    async def begin(client: httpx2.AsyncClient, bench: FakeBench, headers: dict[str, str]) -> asyncio.Task[Any]:
        bench.ended.clear()
        bench.asked.clear()
        call = asyncio.create_task(client.post(PATH, json=CALL, headers=headers))
        while not bench.asked:
            await asyncio.sleep(0.01)
        assert not bench.ended.is_set()
        return call

    async def talk() -> None:
        bench = FakeBench()
        bench.answer = None
        async with listening(bench, tmp_path) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
            headers = await session(client)
            # The connection is cut,
            call = await begin(client, bench, headers)
            call.cancel()
            await asyncio.wait_for(bench.ended.wait(), 30)
            # the call is cancelled as the protocol has it,
            call = await begin(client, bench, headers)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            await client.post(PATH, json=cancel, headers=headers)
            await asyncio.wait_for(bench.ended.wait(), 30)
            await asyncio.wait([call])
            # or the session ends.
            call = await begin(client, bench, headers)
            await client.delete(PATH, headers=headers)
            await asyncio.wait_for(bench.ended.wait(), 30)
            call.cancel()

    asyncio.run(talk())


def test_of_very_many_calls_at_once_some_are_refused_and_all_are_answered(tmp_path: Path) -> None:
    async def talk() -> None:
        bench = FakeBench()
        bench.answer = None
        async with Client(make_server(Workspace(tmp_path, [SCALE]), bench, None)) as client:
            arguments = {"problem": "scale", "source": "x"}
            waiting = [asyncio.create_task(client.call_tool("run", arguments)) for _ in range(MAX_CALLS)]
            while len(bench.asked) < MAX_CALLS:
                await asyncio.sleep(0.01)
            more = await client.call_tool("problem", {})
            assert more.is_error
            assert f"{MAX_CALLS} calls are being answered already" in text_of(more)
            for call in waiting:
                call.cancel()
            await asyncio.wait(waiting)
            while (await client.call_tool("problem", {})).is_error:
                await asyncio.sleep(0.01)

    asyncio.run(talk())


@pytest.mark.slow
def test_a_call_that_is_given_up_leaves_no_process_and_the_next_one_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    endless = RIGHT.replace("return x + x", "\n        while True:\n            pass")

    def processes() -> set[int]:
        return {each.pid for each in psutil.Process().children(recursive=True) if each.is_running()}

    async def talk() -> None:
        bench = Bench("cpu", None)
        async with Client(make_server(Workspace(tmp_path, [SCALE]), bench, None)) as client:
            before = processes()
            call = asyncio.create_task(client.call_tool("check", {"problem": "scale", "source": endless}))
            while len(processes() - before) < 2:  # the lane and a worker's supervisor
                await asyncio.sleep(0.05)
            begun = processes() - before
            call.cancel()
            await asyncio.wait([call])
            while begun & processes():
                await asyncio.sleep(0.05)
            next_one = await client.call_tool("check", {"problem": "scale", "source": "class X: pass"})
            assert next_one.structured_content["code"] == "submission.no_model_new"

    asyncio.run(asyncio.wait_for(talk(), 200))


def test_figures_are_json_whatever_was_measured() -> None:
    side = Measurement(
        median_us=1.0, ci95_us=(0.0, math.inf), mean_us=1.0, min_us=1.0, samples_us=[1.0], method="made up"
    )
    timing = Timing.model_construct(
        candidate=side, reference=side, speedup=math.nan, speedup_ci95=(0.0, math.inf), fraction_of_floor=None
    )
    figures = words.report_figures(report().model_copy(update={"timing": timing}))
    written = json.dumps(figures, allow_nan=False)
    assert json.loads(written)["speedup_ci95"] == [0.0, "Infinity"]
