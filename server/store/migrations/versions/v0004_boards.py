"""How often each board has changed; indexes with all that a claim and the limit of a user look at."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BOARD = "problem_id, problem_version, workload, device_name"


def upgrade() -> None:
    """Make the table, with a row for each board that has entries, and the indexes."""
    op.create_table(
        "boards",
        sa.Column("problem_id", sa.String(100), primary_key=True),
        sa.Column("problem_version", sa.String(64), primary_key=True),
        sa.Column("workload", sa.String(64), primary_key=True),
        sa.Column("device_name", sa.String(200), primary_key=True),
        sa.Column("changes", sa.Integer(), nullable=False),
    )
    op.execute(f"INSERT INTO boards ({BOARD}, changes) SELECT DISTINCT {BOARD}, 1 FROM standings")
    op.drop_index("ix_submissions_state_priority", "submissions")
    queue = ["state", "priority", "user_id", "number", "problem_id", "device_kind"]
    op.create_index("ix_submissions_queue", "submissions", queue)
    op.create_index("ix_submissions_user_state", "submissions", ["user_id", "state"])
