"""What the server remembers: tables, connections, migrations."""

from server.store.database import Database, StoreAway
from server.store.models import Agent, Attempt, Base, Board, Event, Key, Result, Standing, Submission, User

__all__ = [
    "Agent",
    "Attempt",
    "Base",
    "Board",
    "Database",
    "Event",
    "Key",
    "Result",
    "Standing",
    "StoreAway",
    "Submission",
    "User",
]
