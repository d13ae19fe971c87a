"""What a person sees on stderr while a grading runs: one line a stage."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from harness.cli import text
from harness.events import Event, EventSink, Progress, StageEnded, StageStarted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

PLAIN_EVERY_S = 5.0
"""How often a log file hears from a stage that has something to say all the time."""


@contextlib.contextmanager
def progress(stream: TextIO) -> Iterator[EventSink]:
    """A sink for a grading's events: a live line on a terminal, plain lines elsewhere."""
    if not stream.isatty():
        yield PlainLines(stream)
        return
    from harness.cli.streams import console

    with LiveLine(console(stream)) as live:
        yield live


def _finished(event: StageEnded, last_message: str) -> str:
    return f"{event.stage:<6} {text.seconds(event.seconds):>9}  {last_message}".rstrip()


class PlainLines:
    """For logs: no control characters, and few lines."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._said_at = clock()
        self._message = ""

    def __call__(self, event: Event) -> None:
        """Print the end of each stage, and what a long one is at every few seconds."""
        if isinstance(event, StageStarted):
            self._message = ""
            self._said_at = self._clock()
        elif isinstance(event, Progress):
            self._message = text.one_line(event.message, 100)
            if self._clock() - self._said_at >= PLAIN_EVERY_S:
                self._print(f"{event.stage:<6} ...        {self._message}")
        else:
            self._print(_finished(event, self._message))

    def _print(self, line: str) -> None:
        self._said_at = self._clock()
        print(line, file=self._stream, flush=True)


class LiveLine:
    """For terminals: the line of the current stage moves, the lines of finished stages stay."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        self._console = console
        self._spinner = Spinner("dots" if not console.options.ascii_only else "line")
        self._stage = ""
        self._message = ""
        self._started = time.monotonic()
        self._live = Live(
            get_renderable=self._line,
            console=console,
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveLine:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def __call__(self, event: Event) -> None:
        """Move the line, or leave it and begin the next."""
        if isinstance(event, StageStarted):
            self._stage, self._message, self._started = event.stage, "", time.monotonic()
        elif isinstance(event, Progress):
            self._stage, self._message = event.stage, text.one_line(event.message, 100)
        else:
            self._console.print(self._as_line(_finished(event, self._message)))
            self._stage = self._message = ""

    def _line(self) -> RenderableType:
        from rich.text import Text

        if not self._stage:
            return Text("")
        now = time.monotonic()
        frame = self._spinner.render(now)
        spinning = frame if isinstance(frame, Text) else Text("")
        took = text.seconds(now - self._started)
        line = self._as_line(f"{self._stage:<6} {took:>9}  ")
        return line.append_text(spinning).append(f" {self._message}")

    @staticmethod
    def _as_line(words: str) -> Text:
        from rich.text import Text

        return Text(words, no_wrap=True, overflow="ellipsis")
