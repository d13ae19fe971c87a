"""What a submission's file was called, for messages about it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Those that are there have no name."""
    op.add_column("submissions", sa.Column("file_name", sa.String(100)))
