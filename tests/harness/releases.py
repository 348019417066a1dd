"""What a test needs that not every PySpark has: docs/installing.md has the same as a table."""

from __future__ import annotations

import pyspark
import pytest

from udtf.engine.release import release_of

#: The PySpark that the tests run on.
RELEASE = release_of(pyspark.__version__)


def since(release: tuple[int, int], what: str) -> pytest.MarkDecorator:
    """A test of what came with a release: skipped before it, by name."""
    return pytest.mark.skipif(release > RELEASE, reason=f"PySpark {release[0]}.{release[1]} has {what}")
