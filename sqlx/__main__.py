"""``python -m sqlx`` is the command ``sqlx``."""

from __future__ import annotations

from sqlx.cli import main

if __name__ == "__main__":
    main()
