"""Progress lines, on a terminal and in a log."""

from __future__ import annotations

import io
import re

from rich.console import Console

from harness.cli.progress import PLAIN_EVERY_S, LiveLine, PlainLines
from harness.events import Progress, StageEnded, StageStarted


class Clock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_hears_from_a_long_stage_now_and_then():
    stream, clock = io.StringIO(), Clock()
    sink = PlainLines(stream, clock)
    sink(StageStarted("time"))
    for step in range(1, 81):
        clock.now += PLAIN_EVERY_S / 40
        sink(Progress("time", f"block {step} of 80", step, 80))
    sink(StageEnded("time", 10.0))
    assert stream.getvalue().splitlines() == [
        "time   ...        block 40 of 80",
        "time   ...        block 80 of 80",
        "time        10 s  block 80 of 80",
    ]


def test_the_message_of_one_stage_does_not_stand_beside_the_next():
    stream = io.StringIO()
    sink = PlainLines(stream, Clock())
    sink(Progress("build", "compiling"))
    sink(StageEnded("build", 1.0))
    sink(StageStarted("check"))
    sink(StageEnded("check", 2.0))
    assert stream.getvalue().splitlines() == ["build        1 s  compiling", "check        2 s"]


def test_on_a_terminal_each_finished_stage_leaves_one_line():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=60, color_system=None, markup=False)
    with LiveLine(console) as sink:
        for stage in ("build", "check"):
            sink(StageStarted(stage))
            sink(Progress(stage, f"{stage}ing " + "x" * 200))
            sink(StageEnded(stage, 1.5))
    shown = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", stream.getvalue()).replace("\r", "\n")
    kept = [line for line in shown.split("\n") if "1.5 s" in line]
    assert [line.split()[0] for line in kept] == ["build", "check"]
    assert all(len(line) <= 60 for line in kept)
