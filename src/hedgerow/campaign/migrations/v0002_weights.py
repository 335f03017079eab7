"""The weights of picks."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Tasks of older batches have none."""
    op.add_column("task", sa.Column("weight", sa.Float))
