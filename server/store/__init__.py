"""What the server remembers: tables, connections, migrations."""

from server.store.database import Database
from server.store.models import Agent, Attempt, Base, Event, Key, Result, Standing, Submission, User

__all__ = ["Agent", "Attempt", "Base", "Database", "Event", "Key", "Result", "Standing", "Submission", "User"]
