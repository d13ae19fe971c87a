"""What a person sees on stderr while a batch runs: how far it is, how fast, and what came out so far."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from harness.cli import text

if TYPE_CHECKING:
    from harness.batch.run import Tally
    from harness.batch.store import Result

EVERY_S = 10.0
"""How often a log file hears of it."""
Told = Callable[["Result", "Tally"], None]


def status(tally: Tally, elapsed_s: float) -> str:
    """`12 of 40, 310 an hour, 5 min 20 s left; 8 accepted, 2 wrong_answer`."""
    left = tally.total - tally.done
    parts = [f"{tally.done} of {tally.total}"]
    if tally.graded and elapsed_s > 0:
        # By gradings done now: what was there already, and what is shared, took no time.
        parts.append(f"{3600 * tally.graded / elapsed_s:.0f} an hour")
        if left:
            parts.append(f"{text.seconds(left * elapsed_s / (tally.graded + tally.shared))} left")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in tally.verdicts.most_common())
    return ", ".join(parts) + (f"; {counts}" if counts else "")


@contextlib.contextmanager
def batch_progress(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[Told]:
    """To be told each result: a bar on a terminal, a line now and then elsewhere."""
    if stream.isatty():
        with _bar(stream, clock) as told:
            yield told
        return
    began = clock()
    said = began - EVERY_S

    def tell(_: Result, tally: Tally) -> None:
        nonlocal said
        now = clock()
        if now - said >= EVERY_S or tally.done == tally.total:
            said = now
            print(status(tally, now - began), file=stream, flush=True)

    yield tell


@contextlib.contextmanager
def _bar(stream: TextIO, clock: Callable[[], float]) -> Iterator[Told]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from harness.cli.streams import console

    # A bar, not Rich's own rate and time left: those count what was there already as if it had been graded now.
    bar = Progress(
        SpinnerColumn(),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console(stream),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    began = clock()
    last = ""
    with bar:
        task = bar.add_task("starting", total=None)

        def tell(_: Result, tally: Tally) -> None:
            nonlocal last
            last = status(tally, clock() - began)
            bar.update(task, completed=tally.done, total=tally.total, description=last)

        yield tell
    if last:
        print(last, file=stream, flush=True)
