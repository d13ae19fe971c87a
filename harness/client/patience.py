"""When to ask again, and how long to wait before."""

from __future__ import annotations

import random
from dataclasses import dataclass

from harness.client.errors import ClientError, Refused, Unreachable
from harness.client.requests import Request

_NOT_DONE = (429, 503)
"""The server did not do what was asked and may do it later."""
_LATER = (*_NOT_DONE, 502, 504)
"""The same, or a proxy before it does not know whether it did."""


@dataclass(frozen=True)
class Patience:
    """How often and how long."""

    retries: int = 5
    """After the first try. A stream of events begins anew with every event, and one that there is no room for has as
    many tries as it takes."""
    first_pause_s: float = 0.5
    """Doubled with each try, and shortened by chance so that not all come back at once."""
    longest_pause_s: float = 30.0
    """A server that asks for more than this is not waited for."""

    def pause_s(self, request: Request, error: ClientError, tried: int) -> float | None:
        """Seconds until the request is sent again after `tried` tries; None: the error stands."""
        if tried > self.retries:
            return None
        pause = min(self.longest_pause_s, self.first_pause_s * 2.0 ** (tried - 1))
        pause *= random.uniform(0.5, 1.0)
        if isinstance(error, Unreachable):
            return pause if request.repeatable else None
        if isinstance(error, Refused) and error.status in (_LATER if request.repeatable else _NOT_DONE):
            told = error.retry_after_s
            if told is None:
                return pause
            return None if told > self.longest_pause_s else max(told, pause)
        return None
