"""What things cost, beside other ways to do the same; a time counts only when the answers are equal."""

from __future__ import annotations
