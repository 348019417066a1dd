"""The command ``sqlx``."""

from __future__ import annotations

from sqlx.cli.app import main

__all__ = ["main"]
