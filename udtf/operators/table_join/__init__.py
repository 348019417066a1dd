"""Joins of two tables whose rows change: by the primary keys of both, or by a foreign key."""
