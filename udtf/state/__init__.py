"""State of operators: the versioned store (public) and the buffer of a join's grace period."""

from __future__ import annotations

from udtf.state.versioned import VersionedStore
from udtf.time import NOT_PUT, VALID_TO_LATEST

__all__ = ["NOT_PUT", "VALID_TO_LATEST", "VersionedStore"]
