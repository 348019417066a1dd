"""The operators: per file stem a frozen Config and an engine-free Logic."""

from __future__ import annotations
