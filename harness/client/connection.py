"""Where a client connects to."""

from __future__ import annotations

import re
from typing import Any

import httpx

from harness.client.errors import ClientError, Unreachable
from harness.settings import SettingsError, check_address, look_up

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
"""A stream says something every 15 s at least."""


def connection(server: str | None, key: str | None) -> tuple[str, dict[str, Any]]:
    """The address, and what httpx needs to know. Raises ClientError."""
    try:
        address, key = look_up("server", server).value, look_up("key", key).value
        assert address is not None
        address = check_address(address)
    except SettingsError as error:
        raise ClientError(str(error)) from None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ClientError("the key holds characters that no key has; copy it again.")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return address, {"base_url": address, "headers": headers, "timeout": _TIMEOUT}


def unreachable(server: str, error: Exception) -> Unreachable:
    """No answer came."""
    why = _ERRNO.sub("", str(error)) or type(error).__name__
    return Unreachable(f"the server at {server} can't be reached ({why}); check the address.")
