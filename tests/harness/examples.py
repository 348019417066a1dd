"""How many examples a property meets whose examples take long."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(count: int) -> settings:
    """So many in the gate, and ten times as many with `make test-all`."""
    return settings(max_examples=count * (10 if os.environ.get("HYPOTHESIS_PROFILE") == "all" else 1))
