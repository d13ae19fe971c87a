"""The tool `sanitize`: what it hands to compute-sanitizer's runner, and what a model gets to read of the findings."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp_fakes import RIGHT, SCALE, FakeBench, text_of

from harness.load.problem import Problem
from harness.machine.device import open_device
from harness.mcp import advice, words
from harness.mcp.bench import Bench
from harness.mcp.server import make_server
from harness.mcp.workspace import Workspace
from harness.report import SubmissionInfo
from harness.sanitizing.findings import Finding, Kind, Place, Sanitizing, ToolRun
from harness.sanitizing.tool import TOOLS, Tool

RACY = Path(__file__).resolve().parents[1] / "sanitizing" / "planted" / "shared_memory_race.py"


def finding(kind: Kind, tool: Tool = "memcheck", kernel: str = "scan(float*)", line: int = 12) -> Finding:
    place = Place(function=kernel, file="cuda_sources", line=line, submission_line=line + 28, text="s[t] = x[i];")
    return Finding(tool=tool, kind=kind, kernel=kernel, message="as it says", place=place, count=3)


def found(*runs: ToolRun) -> Sanitizing:
    return Sanitizing(
        harness_version="0",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        problem="scale",
        workload="small",
        workload_why="named",
        submission=SubmissionInfo(path=None, name="mine.py", sha256="0" * 64),
        device=open_device("cpu").info,
        sanitizer="2026.0",
        runs=list(runs),
        seconds=1.0,
    )


def run(*findings: Finding, tool: Tool = "memcheck", **other: Any) -> ToolRun:
    return ToolRun(tool=tool, findings=list(findings), reported=len(findings), seconds=1.0, **other)


class SanitizingBench(FakeBench):
    """Has an answer."""

    def __init__(self, answer: Sanitizing) -> None:
        super().__init__()
        self.found = answer
        self.tools: tuple[Tool, ...] = ()

    async def sanitize(
        self, problem: Problem, text: Any, tools: tuple[Tool, ...], workload: str | None = None
    ) -> Sanitizing:
        self.tools = tools
        return self.found


def test_a_race_is_told_with_its_line_and_its_cure(tmp_path: Path) -> None:
    race = finding("shared_memory_race", "racecheck")

    async def talk() -> None:
        bench = SanitizingBench(found(run(), run(race, tool="racecheck")))
        async with Client(make_server(Workspace(tmp_path, [SCALE]), bench, None)) as client:
            answer = await client.call_tool("sanitize", {"problem": "scale", "source": RIGHT})
            lines = text_of(answer).splitlines()
            assert lines[0].startswith("FOUND  mine.py on scale (small: named)")
            assert lines[1].startswith("NEXT: Put a __syncthreads()")
            assert lines[2] == "NEXT: Then call sanitize again, with tool racecheck first."
            assert "line 40 (cuda_sources:12)  s[t] = x[i];" in text_of(answer)
            assert bench.tools == TOOLS
            figures = answer.structured_content
            assert figures["clean"] is False
            assert figures["tools"]["racecheck"] == {"findings": 1, "ended": True}
            assert figures["findings"][0]["submission_line"] == 40
            await client.call_tool("sanitize", {"problem": "scale", "source": RIGHT, "tool": "initcheck"})
            assert bench.tools == ("initcheck",)
            wrong = await client.call_tool("sanitize", {"problem": "scale", "source": RIGHT, "tool": "valgrind"})
            assert wrong.is_error
            assert "racecheck" in text_of(wrong)

    asyncio.run(talk())


def test_clean_and_not_to_the_end_say_what_that_means() -> None:
    clean = words.sanitizing_words(found(run(), run(tool="racecheck")))
    assert clean.startswith("CLEAN")
    assert "NEXT: Nothing was found in what this workload runs." in clean
    broken = words.sanitizing_words(found(run(ended=False, failure="RuntimeError: \x1b[2Jno")))
    assert broken.startswith("NOT RUN")
    assert "NEXT: The call did not come to its end" in broken
    assert "\x1b" not in broken


def test_very_many_findings_are_cut_and_counted() -> None:
    many = [finding("other", kernel="k\x1b[2J" * 1000, line=number) for number in range(1, 500)]
    answer = words.sanitizing_words(found(*(run(*many, tool=tool) for tool in TOOLS)))
    assert len(answer) <= words.MAX_ANSWER
    assert f"and {len(many) - words.MAX_FINDINGS} more of memcheck" in answer
    assert "\x1b" not in answer
    figures = words.sanitizing_figures(found(*(run(*many, tool=tool) for tool in TOOLS)))
    assert len(json.dumps(figures, allow_nan=False)) < words.MAX_ANSWER
    assert figures["tools"]["memcheck"]["findings"] == len(many)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_has_its_advice(kind: Kind) -> None:
    steps = advice.sanitizing_steps(found(run(finding(kind), finding("other"))))
    assert 2 <= len(steps) <= 3
    assert len(steps[0]) > 30


@pytest.mark.slow
def test_where_it_can_not_be_done_it_says_so(tmp_path: Path) -> None:
    async def talk() -> None:
        async with Client(make_server(Workspace(tmp_path, [SCALE]), Bench("cpu", None), None)) as client:
            answer = await client.call_tool("sanitize", {"problem": "scale", "source": RIGHT})
            assert answer.is_error
            assert "a CPU runs none" in text_of(answer)
            (tmp_path / "bytes.py").write_bytes(b"\xff")
            for other, says in (
                ({"source": "class X: pass"}, "ModelNew"),
                ({"source": "x = ("}, "syntax"),
                ({"path": "bytes.py"}, "UTF-8"),
            ):
                answer = await client.call_tool("sanitize", {"problem": "scale", **other})
                assert answer.is_error
                assert says in text_of(answer)

    asyncio.run(talk())


@pytest.mark.gpu
@pytest.mark.nvcc
@pytest.mark.slow
def test_on_a_device_a_planted_race_is_found_by_its_line(tmp_path: Path) -> None:
    """Needs a CUDA device, nvcc and compute-sanitizer."""
    problem = RACY.parents[1] / "problem"

    async def talk() -> None:
        async with Client(make_server(Workspace(tmp_path, [problem]), Bench("cuda", None), None)) as client:
            arguments = {"problem": "problem", "source": RACY.read_text(), "tool": "racecheck"}
            answer = await client.call_tool("sanitize", arguments, read_timeout_seconds=500)
            assert answer.structured_content["findings"][0]["kind"] == "shared_memory_race", text_of(answer)
            assert "NEXT: Put a __syncthreads()" in text_of(answer)

    asyncio.run(talk())
