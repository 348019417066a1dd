"""The version of the package, where everything may ask for it."""

from __future__ import annotations

__version__ = "0.1.0"
