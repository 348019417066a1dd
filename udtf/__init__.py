"""The worker side: operators without engine, their state, and the ways Spark calls them. Imports nothing of `sqlx`."""

from __future__ import annotations
