"""How the tables of a campaign changed: one module per change, in order, run by Alembic.

A released migration is never edited. It does not import `tables.py`, which shows the newest form only; a test holds
that all migrations together give what `tables.py` says.
"""
