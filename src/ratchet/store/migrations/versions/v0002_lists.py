"""Lists and counts over many rollouts: one index for each question that people ask."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the indexes that lists by status, purpose and candidate read."""
    op.create_index("ix_rollouts_status", "rollouts", ["status", "seq"])
    op.create_index("ix_rollouts_purpose", "rollouts", ["purpose", "status"])
    op.create_index("ix_rollouts_candidate", "rollouts", ["candidate_id", "seq"])
