"""For the tests of those who use sqlx: replay a script record by record, without Spark."""

from __future__ import annotations

from sqlx.replay.driver import Change, ReplayDriver

__all__ = ["Change", "ReplayDriver"]
