"""The ways Spark calls the operators."""

from __future__ import annotations
