"""The first tables: users and keys, agents, submissions with their attempts and events, results."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "users",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("last_served", sa.Float(53), nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("user_id", NUMBER, sa.ForeignKey("users.id"), nullable=False, index=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("revoked_at", sa.Float(53)),
        sa.Column("requests_per_minute", sa.Integer()),
        sa.Column("max_queued", sa.Integer()),
    )
    op.create_table(
        "agents",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("key_id", sa.String(16), sa.ForeignKey("keys.id"), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("device", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("device_name", sa.String(200), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("problems", sa.Text(), nullable=False),
        sa.Column("sandbox", sa.String(32), nullable=False),
        sa.Column("first_seen", sa.Float(53), nullable=False),
        sa.Column("last_seen", sa.Float(53), nullable=False),
        sa.Column("refused", sa.Text()),
        sa.Column("left_at", sa.Float(53)),
        sa.UniqueConstraint("key_id", "name", "device"),
    )
    op.create_table(
        "submissions",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("user_id", NUMBER, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("problem_id", sa.String(100), nullable=False),
        sa.Column("problem_version", sa.String(64), nullable=False),
        sa.Column("workload", sa.String(64)),
        sa.Column("device_kind", sa.String(8)),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("label", sa.String(100), nullable=False),
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("source_sha256", sa.String(64), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("done_at", sa.Float(53)),
        sa.Column("verdict", sa.String(32)),
        sa.Column("reason_code", sa.String(64)),
        sa.Column("report", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(128)),
        sa.Column("request_digest", sa.String(64)),
        sa.UniqueConstraint("user_id", "idempotency_key"),
    )
    op.create_index("ix_submissions_state_priority", "submissions", ["state", "priority", "number"])
    op.create_index("ix_submissions_user_number", "submissions", ["user_id", "number"])
    op.create_table(
        "attempts",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("submission_number", NUMBER, sa.ForeignKey("submissions.number"), nullable=False, index=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("agent_id", NUMBER, sa.ForeignKey("agents.id"), nullable=False, index=True),
        sa.Column("token_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("claimed_at", sa.Float(53), nullable=False),
        sa.Column("lease_until", sa.Float(53), nullable=False),
        sa.Column("ended_at", sa.Float(53)),
        sa.Column("why", sa.Text()),
        sa.Column("events_taken", sa.Integer(), nullable=False),
        sa.Column("late_report", sa.Text()),
    )
    op.create_index("ix_attempts_state_lease", "attempts", ["state", "lease_until"])
    op.create_table(
        "events",
        sa.Column("submission_number", NUMBER, sa.ForeignKey("submissions.number"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
    )
    op.create_table(
        "results",
        sa.Column("submission_number", NUMBER, sa.ForeignKey("submissions.number"), primary_key=True),
        sa.Column("user_id", NUMBER, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("problem_id", sa.String(100), nullable=False),
        sa.Column("problem_version", sa.String(64), nullable=False),
        sa.Column("workload", sa.String(64), nullable=False),
        sa.Column("device_name", sa.String(200), nullable=False),
        sa.Column("median_us", sa.Float(53), nullable=False),
        sa.Column("low_us", sa.Float(53), nullable=False),
        sa.Column("high_us", sa.Float(53), nullable=False),
        sa.Column("speedup", sa.Float(53), nullable=False),
        sa.Column("speedup_low", sa.Float(53), nullable=False),
        sa.Column("speedup_high", sa.Float(53), nullable=False),
        sa.Column("fraction_of_floor", sa.Float(53)),
        sa.Column("at", sa.Float(53), nullable=False),
    )
    board = ["problem_id", "problem_version", "workload", "device_name", "user_id", "median_us"]
    op.create_index("ix_results_board", "results", board)
