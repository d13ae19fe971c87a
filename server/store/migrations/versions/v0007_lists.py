"""Indexes with all that a list of submissions is filtered by."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make them in the place of those that only sort."""
    op.drop_index("ix_submissions_user_number", "submissions")
    op.drop_index("ix_submissions_user_state", "submissions")
    of_user = ["number", "problem_id", "state", "verdict"]
    op.create_index("ix_submissions_user_list", "submissions", ["user_id", *of_user])
    by_state = ["user_id", "state", "number", "problem_id", "verdict"]
    op.create_index("ix_submissions_user_state_list", "submissions", by_state)
    by_verdict = ["verdict", "number", "problem_id", "state", "user_id"]
    op.create_index("ix_submissions_verdict_list", "submissions", by_verdict)
