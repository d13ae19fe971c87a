"""What can go wrong between a client and a server, each kind with a class of its own."""

from __future__ import annotations


class ClientError(Exception):
    """The server can't be reached, or says no. The message is one plain sentence."""


class Unreachable(ClientError):
    """There was no answer."""


class Refused(ClientError):
    """The server's answer is an error (RFC 9457). The classes below say of which kind."""

    def __init__(self, status: int, code: str, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"the server says: {detail}" if detail else f"the server answers {status}")
        self.status = status
        """Of HTTP."""
        self.code = code
        """What the server calls it, such as `no-such-problem`; empty when it does not say."""
        self.detail = detail
        """The server's sentence."""
        self.retry_after_s = retry_after_s
        """Seconds after which the server wants to be asked again; None when it does not say."""


class NotAllowed(Refused):
    """401 or 403: no key, one that is not known, or one that may not do this."""


class NotFound(Refused):
    """404: it is not there, or not yours."""


class Conflict(Refused):
    """409: it is done already, or not yet."""


class TooMany(Refused):
    """429: more requests than the key may send, or as many submissions waiting as it may have."""


class ServerFailed(Refused):
    """5xx: not the request's fault."""


class Invalid(Refused):
    """Any other 4xx: the request is not what the server takes."""


def kind_of(status: int) -> type[Refused]:
    """The class for a status."""
    named = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: Conflict, 429: TooMany}
    return named.get(status, ServerFailed if status >= 500 else Invalid)
