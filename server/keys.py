"""Keys: made, found again by their digest, revoked; and how many requests one may send.

    kh_<id>_<secret>     the id finds the row, SHA-256 of the secret is what the row holds

A plain hash will do: a secret of 256 random bits can't be guessed from its digest, which is what slow hashes are for.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from server.store import Key, User

Role = Literal["solver", "admin", "agent"]
ROLES: tuple[Role, ...] = ("solver", "admin", "agent")

_FORM = re.compile(r"kh_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_BUCKETS = 10_000
"""From so many on, those that are full are dropped."""


class KeyError_(Exception):
    """A key that can't be made or isn't there. The message is one plain sentence."""


@dataclass(frozen=True)
class Caller:
    """Who sent a request."""

    user_id: int
    user: str
    key_id: str
    role: str
    requests_per_minute: int | None
    max_queued: int | None

    @property
    def admin(self) -> bool:
        """Whether they may see and do everything."""
        return self.role == "admin"


def digest(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create(
    session: Session,
    name: str,
    role: str,
    now: float,
    *,
    label: str = "",
    requests_per_minute: int | None = None,
    max_queued: int | None = None,
) -> str:
    """A new key for a user, who is made if there is none of that name. Returned once, and nowhere kept."""
    if not _NAME.fullmatch(name):
        raise KeyError_(f"{name!r} is no usable name: letters, digits, '.', '_' and '-', 64 at most.")
    if role not in ROLES:
        raise KeyError_(f"there is no role {role!r}; there are {', '.join(ROLES)}.")
    user = session.scalar(select(User).where(User.name == name))
    if user is None:
        user = User(name=name, created_at=now)
        session.add(user)
        session.flush()
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    session.add(
        Key(
            id=key_id,
            user_id=user.id,
            role=role,
            label=label,
            digest=digest(secret),
            created_at=now,
            requests_per_minute=requests_per_minute,
            max_queued=max_queued,
        )
    )
    session.flush()  # rows that name the key may follow in this transaction
    return f"kh_{key_id}_{secret}"


def find(session: Session, text: str) -> Caller | None:
    """Whose key it is; None for one that never was or is revoked."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    wanted = select(
        Key.digest, Key.user_id, User.name, Key.id, Key.role, Key.requests_per_minute, Key.max_queued
    ).where(Key.id == match[1], Key.revoked_at.is_(None))
    row = session.execute(wanted.join(User, User.id == Key.user_id)).first()
    if row is None or not hmac.compare_digest(row.digest, digest(match[2])):
        return None
    return Caller(*row[1:])


def revoke(session: Session, key_id: str, now: float) -> None:
    """End a key."""
    key = session.get(Key, key_id)
    if key is None:
        raise KeyError_(f"there is no key {key_id}; harness keys list shows them.")
    key.revoked_at = key.revoked_at or now


def revoke_labelled(session: Session, label: str, now: float) -> None:
    """End the keys that an earlier start of the server made for itself."""
    session.execute(update(Key).where(Key.label == label, Key.revoked_at.is_(None)).values(revoked_at=now))


def any_usable(session: Session) -> bool:
    """Whether somebody has a key."""
    return session.scalar(select(Key.id).where(Key.revoked_at.is_(None)).limit(1)) is not None


class Rates:
    """How much each may still do: a bucket for each that fills evenly. Kept in this process: after a restart all are
    full."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float, float]] = {}
        """Level, when that was, and when it will be full."""

    def wait_s(self, whose: str, most: float, within_s: float, now: float, cost: float = 1.0) -> float:
        """Take so much out of a bucket that holds `most` and fills in `within_s` seconds; 0 when that was there, else
        the seconds after which it will be."""
        rate = most / within_s
        with self._lock:
            level, at, _ = self._buckets.get(whose, (most, now, now))
            level = min(most, level + (now - at) * rate)
            wait_s = max(0.0, (cost - level) / rate)
            if not wait_s:
                level -= cost
            if len(self._buckets) > _BUCKETS and whose not in self._buckets:
                # A full bucket is as none.
                self._buckets = {name: kept for name, kept in self._buckets.items() if kept[2] > now}
            self._buckets[whose] = (level, now, now + (most - level) / rate)
            return wait_s
