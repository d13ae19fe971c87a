"""A client of a harness server: hand in, watch, look at leaderboards.

    from harness.client import Client
    with Client() as client:
        submission = client.submit("selective_scan", source, device="cuda")
        for event in client.watch(submission["id"]):
            print(event.kind, event.data)

`AsyncClient` has the same methods, to be awaited. Without an address or a key, both take what `harness config` shows.

What is sent and what comes back is worked out in functions that know no connection (`requests.py`, `answers.py`,
`patience.py`); the two clients carry it.
"""

from harness.client.answers import StreamEvent
from harness.client.asynchronous import AsyncClient
from harness.client.errors import (
    ClientError,
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    Refused,
    ServerFailed,
    TooMany,
    Unreachable,
)
from harness.client.patience import Patience
from harness.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Conflict",
    "Invalid",
    "NotAllowed",
    "NotFound",
    "Patience",
    "Refused",
    "ServerFailed",
    "StreamEvent",
    "TooMany",
    "Unreachable",
]
