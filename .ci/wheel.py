"""What a wheel holds beside the packages: the examples of ``sqlx demo``. An editable install finds them in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Stories(BuildHookInterface):
    """Puts sql_examples into the package; the dbt project among them belongs to a checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to those that hatchling packs."""
        if version != "standard":
            return
        root = Path(self.root)
        for path in sorted(root.joinpath("sql_examples").rglob("*.sql")):
            name = path.relative_to(root).as_posix()
            if not name.startswith("sql_examples/dbt/"):
                build_data["force_include"][str(path)] = f"sqlx/{name}"
