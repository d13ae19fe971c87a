"""`harness mcp`, driven by the SDK's own client: in this process, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_fakes import RIGHT, SCALE, FakeBench, report, text_of

from harness.cli.main import main
from harness.load.submission import MAX_BYTES
from harness.mcp import words
from harness.mcp.advice import next_steps
from harness.mcp.server import make_server
from harness.mcp.workspace import NotUsable, Workspace
from harness.report import Verdict

ROOT = Path(__file__).resolve().parents[2]
KEY = "sixteen or more characters"


class FakeServer:
    """A competition's server, as far as the tools ask."""

    async def submit(self, problem: str, source: str, **_: Any) -> dict[str, Any]:
        return {"id": "s1", "state": "queued", "queue_place": 3}

    async def wait(self, _: str) -> dict[str, Any]:
        return await self.submission("s1")

    async def submission(self, _: str) -> dict[str, Any]:
        graded = report().model_dump(mode="json")
        return {"id": "s1", "state": "done", "verdict": "accepted", "report": graded}

    async def leaderboard(self, problem: str, *_: Any) -> dict[str, Any]:
        entry = {"rank": 1, "tied": False, "time_us": 12.5, "ci95_us": [12, 13], "speedup": 3.0, "user": "ann\x1b[2J"}
        return {"problem": problem, "workload": "default", "device": "NVIDIA H200", "entries": [entry] * 100}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "good.py").write_text(RIGHT)
    (tmp_path / "secret.py").write_text("SECRET")
    return Workspace(tmp_path / "root", [SCALE])


def test_tools_say_what_they_did_and_what_to_try_next(workspace: Workspace) -> None:
    async def talk() -> None:
        bench = FakeBench()
        async with Client(make_server(workspace, bench, None)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"device_info", "problem", "compile", "check", "run", "profile", "sanitize"}
            assert all(tool.description for tool in tools.values())
            listed = await client.call_tool("problem", {})
            assert "- scale" in text_of(listed)
            shown = text_of(await client.call_tool("problem", {"name": "scale"}))
            assert "class Model" in shown
            assert "ModelNew" in shown
            assert "cores: " in text_of(await client.call_tool("device_info", {}))
            good = await client.call_tool("check", {"problem": "scale", "path": "good.py"})
            assert not good.is_error
            assert text_of(good).startswith("ACCEPTED (grade.correct): made up\nNEXT: It is right: call run")
            assert good.structured_content["verdict"] == "accepted"
            await client.call_tool("compile", {"problem": "scale", "source": "x"})
            assert bench.asked == [("scale", "check", RIGHT.encode()), ("scale", "compile", b"x")]

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"problem": "scales", "source": "x"}, "the nearest is 'scale'. Call the tool problem without a name"),
        ({"problem": str(SCALE), "source": "x"}, "none of the 1 problems"),
        ({"problem": "scale"}, "as source, the whole text, or as path"),
        ({"problem": "scale", "source": "x", "path": "good.py"}, "not both"),
        ({"problem": "scale", "path": "../secret.py"}, "not below"),
        ({"problem": "scale", "path": "/etc/passwd"}, "not below"),
        ({"problem": "scale", "path": "link.py"}, "not below"),
        ({"problem": "scale", "path": "."}, "is not a file"),
        ({"problem": "scale", "path": "pipe"}, "is not a file"),
        ({"problem": "scale", "path": "no.py"}, "No such file"),
        ({"problem": "scale", "path": "a\0b"}, "can't be read"),
        ({"problem": "scale", "source": "x" * (MAX_BYTES + 1)}, "larger than 1 MiB"),
        ({"problem": "scale", "path": "large.py"}, "larger than 1 MiB"),
        ({"problem": "x" * 300, "source": "x"}, "at most 200 characters"),
        ({"problem": 7, "source": "x"}, "valid string"),
    ],
)
def test_what_can_not_be_used_is_an_error_with_its_cure(
    workspace: Workspace, tmp_path: Path, arguments: dict[str, Any], says: str
) -> None:
    (workspace.root / "link.py").symlink_to(tmp_path / "secret.py")
    (workspace.root / "large.py").write_bytes(b"#" * (MAX_BYTES + 1))
    os.mkfifo(workspace.root / "pipe")

    async def talk() -> None:
        bench = FakeBench()
        async with Client(make_server(workspace, bench, None)) as client:
            answer = await client.call_tool("run", arguments)
            assert answer.is_error
            assert says in text_of(answer)
            assert "SECRET" not in text_of(answer)
            assert len(text_of(answer)) < 2_000
            assert bench.asked == []

    asyncio.run(talk())


def test_a_link_within_the_folder_is_fine(workspace: Workspace) -> None:
    (workspace.root / "alias.py").symlink_to("good.py")
    assert workspace.submission(None, "alias.py").content == RIGHT.encode()
    with pytest.raises(NotUsable):
        workspace.submission(None, "good.py/x")


def test_who_gives_up_ends_the_grading(workspace: Workspace) -> None:
    async def talk() -> None:
        bench = FakeBench()
        bench.answer = None
        async with Client(make_server(workspace, bench, None)) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.call_tool("run", {"problem": "scale", "source": "x"}), 0.5)
            await asyncio.wait_for(bench.ended.wait(), 30)

    asyncio.run(talk())


def test_with_a_server_there_are_submit_and_a_leaderboard(workspace: Workspace) -> None:
    async def talk() -> None:
        server: Any = FakeServer()
        async with Client(make_server(workspace, FakeBench(), server)) as client:
            done = await client.call_tool("submit", {"problem": "scale", "path": "good.py"})
            assert "ACCEPTED" in text_of(done)
            assert done.structured_content["id"] == "s1"
            queued = await client.call_tool("submit", {"problem": "scale", "path": "good.py", "wait": False})
            assert "queued, place 3 in the queue: call submission with id s1" in text_of(queued)
            board = await client.call_tool("leaderboard", {"problem": "scale"})
            assert "1 12.5 us (12 us to 13 us), 3x, ann" in text_of(board)
            assert "\x1b" not in text_of(board)
            assert len(text_of(board).splitlines()) == words.MAX_LISTED + 1
            assert len(board.structured_content["entries"]) == words.MAX_LISTED

    asyncio.run(talk())


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_next_step_and_a_bounded_answer(verdict: Verdict) -> None:
    large = report(verdict, "made.up", message="y" * 50_000, log="\x1b[2Jprinted\n" * 20_000)
    answer = words.report_words(large)
    assert len(answer) <= words.MAX_ANSWER
    assert "\x1b" not in answer
    steps = next_steps(large)
    assert 1 <= len(steps) <= 3
    assert answer.splitlines()[1] == f"NEXT: {steps[0]}"


def test_a_long_answer_says_that_it_was_cut() -> None:
    cut = words.capped("a line\n" * 10_000)
    assert len(cut) <= words.MAX_ANSWER
    assert "cut here" in cut.splitlines()[-1]
    assert words.capped("short") == "short"


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
def test_over_stdio_a_submission_is_really_graded(workspace: Workspace, tmp_path: Path) -> None:
    arguments = ["-m", "harness", "mcp", "--root", str(workspace.root), "--problems", str(SCALE), "--device", "cpu"]
    environment = {**ENVIRONMENT, "HARNESS_LOCK_DIR": str(tmp_path / "locks")}
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment)

    async def talk() -> None:
        async with Client(parameters) as client:
            good = await client.call_tool("check", {"problem": "scale", "path": "good.py"})
            assert text_of(good).startswith("ACCEPTED (grade.correct)")
            source = RIGHT.replace("x + x", "x + 1")
            wrong = await client.call_tool("check", {"problem": "scale", "source": source})
            assert wrong.structured_content["code"] == "output.values"
            assert "NEXT: Read which leaf is wrong" in text_of(wrong)
            unknown = await client.call_tool("check", {"problem": "scale", "source": source, "workload": "vast"})
            assert unknown.is_error
            assert "no workload 'vast'" in text_of(unknown)

    asyncio.run(talk())


@pytest.fixture
def http(workspace: Workspace) -> Iterator[str]:
    """The address of a server that wants the key `KEY`."""
    command = [sys.executable, "-m", "harness", "mcp", "--root", str(workspace.root), "--problems", str(SCALE)]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--http", "127.0.0.1:0"],
        env={**ENVIRONMENT, "HARNESS_MCP_KEY": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "listening at http://127.0.0.1:" in line, line + process.stderr.read()
        yield line.split()[-1]
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=60)
        assert out == ""


@pytest.mark.slow
def test_over_http_tools_answer_those_who_have_the_key(http: str) -> None:
    import httpx2

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(http, data=b"{}"))
    assert refused.value.code == 401

    async def talk() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=100) as connection,
            Client(streamable_http_client(http, http_client=connection)) as client,
        ):
            assert "- scale" in text_of(await client.call_tool("problem", {}))
            bad = await client.call_tool("check", {"problem": "scale", "path": "/etc/passwd"})
            assert bad.is_error
            invalid = await client.call_tool("compile", {"problem": "scale", "source": "class X: pass"})
            assert invalid.structured_content["code"] == "submission.no_model_new"

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--root", "/nowhere"], "no folder /nowhere"),
        (["--problems", "/nowhere"], "no problem that can be used"),
        (["--http", "0.0.0.0:8900"], "set HARNESS_MCP_KEY"),
        (["--http", "8900x"], "write HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "write HOST:PORT"),
    ],
)
def test_wrong_use_is_told(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str], says: str
) -> None:
    monkeypatch.delenv("HARNESS_MCP_KEY", raising=False)
    assert main(["mcp", "--problems", str(SCALE), *argv] if "--problems" not in argv else ["mcp", *argv]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert says in err


@pytest.mark.parametrize("http", ["127.0.0.1:8900", "0.0.0.0:8900"])
def test_a_key_that_can_be_guessed_is_refused_everywhere(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, http: str
) -> None:
    monkeypatch.setenv("HARNESS_MCP_KEY", "short")
    assert main(["mcp", "--problems", str(SCALE), "--http", http]) == 2
    assert "HARNESS_MCP_KEY is 5 characters long" in capfd.readouterr().err


def test_without_the_sdk_it_says_how_to_get_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert importlib.util.find_spec("mcp") is not None
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp"]) == 2
    assert "pip install 'kernel-harness[mcp]'" in capfd.readouterr().err
