"""The tools, as a client sees them: their descriptions are all that a model knows of the grader."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field
from starlette.requests import Request

from harness.cli.text import one_line
from harness.mcp import words
from harness.mcp.bench import Bench
from harness.mcp.workspace import NotUsable, Workspace
from harness.sanitizing.tool import TOOLS
from harness.version import VERSION

if TYPE_CHECKING:
    from harness.client import AsyncClient
    from harness.grading.grader import Mode
    from harness.report import Report

T = TypeVar("T")

_BEAT_S = 5.0
"""Between two signs of life: clients give up on a call that is silent for long."""
_WAIT_S = 300.0
"""The longest that submit waits for a verdict."""
MAX_CALLS = 32
"""At once, of all clients together: each holds a text and a place in the queue until it is answered."""

ProblemName = Annotated[str, Field(max_length=200, description="The problem's name, as the tool problem lists it.")]
Source = Annotated[
    str | None, Field(max_length=2 << 20, description="The submission's whole text: Python with a class ModelNew.")
]
FilePath = Annotated[
    str | None, Field(max_length=1000, description="Instead of source: a file below the server's folder.")
]
Workload = Annotated[str | None, Field(max_length=100, description="A set of sizes by name; usually left out.")]
_LOOKING = ToolAnnotations(read_only_hint=True)

INSTRUCTIONS = """\
Grades GPU kernels. Call problem for what is asked, device_info for what it runs on, compile until it builds, check
until it is right, run for the time and profile for what to change; sanitize says which line races or leaves its memory.
Each answer says what to try next."""


def make_server(workspace: Workspace, bench: Bench, client: AsyncClient | None) -> MCPServer[None]:
    """With the tools for a grader's server too where there is a client of one. Closes the bench at its end."""

    @asynccontextmanager
    async def life(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await bench.close()

    server: MCPServer[None] = MCPServer(
        "kernel-harness", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING", lifespan=life
    )
    calls = _Calls(MAX_CALLS)
    _add_grading(server, calls, workspace, bench)
    if client is not None:
        _add_remote(server, calls, workspace, client)
    return server


class _Calls:
    """The calls that are being answered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """One of them; what a client can do something about reaches it as a sentence."""
        from harness.client import ClientError

        if self._now >= self._most:
            raise ToolError(f"{self._most} calls are being answered already: wait for answers, then call again.")
        self._now += 1
        try:
            yield
        except (NotUsable, ClientError) as error:
            raise ToolError(one_line(str(error), 2_000)) from None
        finally:
            self._now -= 1


def _add_grading(server: MCPServer[None], calls: _Calls, workspace: Workspace, bench: Bench) -> None:
    async def graded(
        context: Context[Any, Any],
        mode: Mode,
        problem: str,
        source: str | None,
        path: str | None,
        workload: str | None = None,
        budget_s: float | None = None,
    ) -> CallToolResult:
        with calls.one():
            named = workspace.problem(problem)
            submission = workspace.submission(source, path)
            work = bench.grade(named.problem, submission, mode, workload=workload, budget_s=budget_s)
            return _report(await _with_signs_of_life(context, work, mode))

    @server.tool(annotations=_LOOKING)
    async def device_info(context: Context[Any, Any]) -> CallToolResult:
        """What kernels are graded on: architecture, SMs, memory, shared memory and register limits, peaks, versions."""
        with calls.one():
            found = await _with_signs_of_life(context, bench.device(), "looking")
            return _answer(words.device_words(found), found.info.model_dump(mode="json", exclude_none=True))

    @server.tool(annotations=_LOOKING)
    async def problem(
        context: Context[Any, Any],
        name: Annotated[str | None, Field(max_length=200, description="Left out: the list of problems.")] = None,
    ) -> CallToolResult:
        """A problem: its statement, sizes, tolerance, least possible work, and the reference's source."""
        with calls.one():
            if name is None:
                return _answer(words.problem_list(workspace.problems), {"count": len(workspace.problems)})
            named = workspace.problem(name)
            kind = await _with_signs_of_life(context, bench.kind(), "looking")
            about = {"name": named.name, "workloads": list(named.problem.spec.workloads)[: words.MAX_LISTED]}
            return _answer(words.problem_words(named, kind), about)

    @server.tool(annotations=_LOOKING)
    async def compile(
        context: Context[Any, Any], problem: ProblemName, source: Source = None, path: FilePath = None
    ) -> CallToolResult:
        """Only build the submission's extensions: the compiler's errors, registers, shared memory and spills."""
        return await graded(context, "compile", problem, source, path)

    @server.tool(annotations=_LOOKING)
    async def check(
        context: Context[Any, Any],
        problem: ProblemName,
        source: Source = None,
        path: FilePath = None,
        workload: Workload = None,
    ) -> CallToolResult:
        """Build the submission and compare its outputs with the reference's, without timing it."""
        return await graded(context, "check", problem, source, path, workload)

    @server.tool(annotations=_LOOKING)
    async def run(
        context: Context[Any, Any],
        problem: ProblemName,
        source: Source = None,
        path: FilePath = None,
        workload: Workload = None,
        budget_s: Annotated[
            float | None, Field(ge=0.1, le=60, description="Seconds of timing at most; usually left out.")
        ] = None,
    ) -> CallToolResult:
        """Grade the submission whole: build, check, and time against the reference, with intervals."""
        return await graded(context, "run", problem, source, path, workload, budget_s)

    @server.tool(annotations=_LOOKING)
    async def profile(
        context: Context[Any, Any],
        problem: ProblemName,
        source: Source = None,
        path: FilePath = None,
        workload: Workload = None,
    ) -> CallToolResult:
        """Check the submission, then say where its time goes, what bounds it, and what is likely to help."""
        return await graded(context, "profile", problem, source, path, workload)

    @server.tool(annotations=_LOOKING)
    async def sanitize(
        context: Context[Any, Any],
        problem: ProblemName,
        source: Source = None,
        path: FilePath = None,
        tool: Annotated[
            Literal["memcheck", "racecheck", "initcheck", "synccheck", "all"],
            Field(description="One is quicker than all. Start with memcheck."),
        ] = "all",
        workload: Annotated[
            str | None, Field(max_length=100, description="A set of sizes by name; left out: a small one.")
        ] = None,
    ) -> CallToolResult:
        """Run one call under compute-sanitizer: lines that leave their memory, race, or read what nobody wrote."""
        with calls.one():
            named = workspace.problem(problem)
            submission = workspace.submission(source, path)
            tools = TOOLS if tool == "all" else (tool,)
            work = bench.sanitize(named.problem, submission, tools, workload)
            found = await _with_signs_of_life(context, work, "sanitizing")
            return _answer(words.sanitizing_words(found), words.sanitizing_figures(found))


def _add_remote(server: MCPServer[None], calls: _Calls, workspace: Workspace, client: AsyncClient) -> None:
    @server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=False))
    async def submit(
        context: Context[Any, Any],
        problem: ProblemName,
        source: Source = None,
        path: FilePath = None,
        label: Annotated[str, Field(max_length=100, description="A name for lists.")] = "",
        wait: Annotated[bool, Field(description="Wait for the verdict, up to five minutes.")] = True,
    ) -> CallToolResult:
        """Hand the submission in to the competition's server, where it counts for the leaderboard."""
        with calls.one():
            text = workspace.submission(source, path)
            content = text.content.decode("utf-8", "replace")
            found = await client.submit(problem, content, label=label or text.name)
            if wait:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_WAIT_S):
                        found = await _with_signs_of_life(context, client.wait(found["id"]), "waiting")
            return _submission(found)

    @server.tool(annotations=_LOOKING)
    async def submission(
        id: Annotated[str, Field(max_length=100, description="As submit gave it.")],
    ) -> CallToolResult:
        """How far a submission on the server is, or how it came out."""
        with calls.one():
            return _submission(await client.submission(id))

    @server.tool(annotations=_LOOKING)
    async def leaderboard(
        problem: ProblemName,
        device: Annotated[str | None, Field(max_length=200)] = None,
        workload: Workload = None,
    ) -> CallToolResult:
        """Who is fastest on the server, with intervals; = marks those that can't be told apart."""
        with calls.one():
            board = await client.leaderboard(problem, device, workload)
            entries = board["entries"][: words.MAX_LISTED]
            figures = [{key: entry.get(key) for key in ("rank", "user", "time_us", "speedup")} for entry in entries]
            return _answer(words.board_words(board), {"problem": board["problem"], "entries": figures})


async def _with_signs_of_life(context: Context[Any, Any], work: Awaitable[T], what: str) -> T:
    task = asyncio.ensure_future(work)
    try:
        waited = 0.0
        while True:
            done, _ = await asyncio.wait([task], timeout=_BEAT_S)
            if done:
                return task.result()
            if await _gone(context):
                raise NotUsable("nobody waits for this any more")
            waited += _BEAT_S
            await context.report_progress(waited, None, f"{what}, {waited:.0f} s")
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _gone(context: Context[Any, Any]) -> bool:
    """Whether the HTTP request has lost its client. Its answer could be fetched by nobody: none is kept."""
    request = context.request_context.request
    return isinstance(request, Request) and await request.is_disconnected()


def _answer(text: str, figures: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=figures)


def _report(report: Report) -> CallToolResult:
    return _answer(words.report_words(report), words.report_figures(report))


def _submission(found: dict[str, Any]) -> CallToolResult:
    from pydantic import ValidationError

    from harness.report import Report

    about = {"id": found["id"], "state": found["state"]}
    if found.get("report") is None:
        place = f", place {found['queue_place']} in the queue" if found.get("queue_place") else ""
        return _answer(f"{found['state']}{place}: call submission with id {found['id']} later.", about)
    try:
        report = Report.model_validate(found["report"])
    except ValidationError:
        # A server of another version.
        reason = found["report"].get("reason", {})
        return _answer(words.capped(f"{found['verdict']}: {reason.get('message', '')}"), about)
    return _answer(words.report_words(report), {**about, **words.report_figures(report)})
