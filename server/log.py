"""A log that strangers can't fill: what they can have written any number of times is written now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_EVERY_S = 10.0
_KINDS = 100
"""More of them than the web server has messages below the level of an error."""


class NowAndThen(logging.Filter):
    """Lets each warning through once in ten seconds, with how many there were since. Errors always pass."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written."""
        if record.levelno >= logging.ERROR:
            return True
        kind, now = str(record.msg), self._clock()
        at, withheld = self._told.get(kind, (float("-inf"), 0))
        if now - at < _EVERY_S:
            self._told[kind] = (at, withheld + 1)
            return False
        if len(self._told) >= _KINDS:
            self._told.clear()
        self._told[kind] = (now, 0)
        if withheld:
            record.msg = f"{record.msg} (and {withheld} more times since the last such line)"
        return True
