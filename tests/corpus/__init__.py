"""Plain Spark SQL that must stay as it is (README.md says where it is from)."""

from __future__ import annotations

import re
from pathlib import Path

#: Spark's parser takes all of these, and refuses all of refused.sql.
ACCEPTED = ("tpch", "tpcds", "queries", "statements", "oddities")
REFUSED = "refused"


def statements(name: str) -> list[str]:
    """The statements of a file: its paragraphs."""
    text = Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
    return re.split(r"\n{2,}", text.strip())
