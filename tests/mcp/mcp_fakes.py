"""What the tests of `harness mcp` share: a bench without a grader, and a right submission."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.load.problem import Problem
from harness.machine.device import open_device
from harness.mcp.bench import Bench, DeviceFound
from harness.report import Reason, Report, SubmissionInfo, Verdict

SCALE = Path(__file__).resolve().parents[1] / "attacks" / "corpus" / "problems" / "scale"
RIGHT = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"


def report(verdict: Verdict = Verdict.ACCEPTED, code: str = "grade.correct", **other: Any) -> Report:
    return Report(
        harness_version="0",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        verdict=verdict,
        reason=Reason(code=code, message=other.pop("message", "made up")),
        submission=SubmissionInfo(path=None, name="x.py", sha256="ab" * 32),
        **other,
    )


class FakeBench(Bench):
    """Answers at once, or, asked to, never."""

    def __init__(self) -> None:
        super().__init__("cpu", None)
        self.asked: list[tuple[str, str, bytes]] = []
        self.ended = asyncio.Event()
        self.answer: Report | None = report()

    async def device(self) -> DeviceFound:
        return DeviceFound(open_device("cpu").info, None)

    async def grade(self, problem: Problem, text: Any, mode: Any, **_: Any) -> Report:
        self.asked.append((problem.id, mode, text.content))
        try:
            if self.answer is None:
                await asyncio.sleep(1000)
        finally:
            self.ended.set()
        assert self.answer is not None
        return self.answer


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)
