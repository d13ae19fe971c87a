"""A submission may grade another one again."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Say which one; those that are there grade no other."""
    op.add_column("submissions", sa.Column("regrade_of", sa.String(32)))
