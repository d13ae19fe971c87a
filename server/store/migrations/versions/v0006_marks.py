"""The warnings that a board shows beside a time; until now they were in the reports alone."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

CODES = (
    "time.weakly_confirmed",
    "time.offset_moved",
    "device.busy",
    "device.shared",
    "device.slow",
    "precision.below_spec",
    "audit.only_library_kernels",
    "audit.kernels_not_launched",
    "audit.trace_incomplete",
)
AT_ONCE = 1000


def upgrade() -> None:
    """Add the column, and take out of each report on a board what it says."""
    op.add_column("results", sa.Column("warnings", sa.Text(), nullable=False, server_default=""))
    store = op.get_bind()
    named = " OR ".join(f"s.report LIKE '%\"{code}\"%'" for code in CODES)
    page = sa.text(
        "SELECT r.submission_number, s.report FROM results r JOIN submissions s ON s.number = r.submission_number "
        f"WHERE r.submission_number > :after AND ({named}) ORDER BY r.submission_number LIMIT {AT_ONCE}"
    )
    change = sa.text("UPDATE results SET warnings = :warnings WHERE submission_number = :number")
    after = -1
    while rows := store.execute(page, {"after": after}).all():
        after = rows[-1][0]
        found = [{"number": number, "warnings": _of(report)} for number, report in rows]
        store.execute(change, found)


def _of(report: str) -> str:
    told = {warning.get("code") for warning in json.loads(report).get("warnings", ())}
    return " ".join(code for code in CODES if code in told)
