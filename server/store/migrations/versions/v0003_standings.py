"""The best of each user on each board, which until now was searched for whenever a leaderboard was shown."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
BOARD = "problem_id, problem_version, workload, device_name, user_id"


def upgrade() -> None:
    """Make the table and find the best that there are."""
    op.create_table(
        "standings",
        sa.Column("problem_id", sa.String(100), primary_key=True),
        sa.Column("problem_version", sa.String(64), primary_key=True),
        sa.Column("workload", sa.String(64), primary_key=True),
        sa.Column("device_name", sa.String(200), primary_key=True),
        sa.Column("user_id", NUMBER, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("submission_number", NUMBER, sa.ForeignKey("results.submission_number"), nullable=False),
    )
    op.execute(
        f"INSERT INTO standings ({BOARD}, submission_number) SELECT {BOARD}, submission_number FROM (SELECT {BOARD}, "
        f"submission_number, row_number() OVER (PARTITION BY {BOARD} ORDER BY median_us, submission_number) AS place "
        "FROM results) AS placed WHERE place = 1"
    )
