"""Draws what the command line prints: ``python docs/img/terminal.py`` runs a script by `sqlx run` and writes sql.svg.

The statements are executed; the picture holds what came out, in the colours of a terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

HERE = Path(__file__).parent
WIDTH = 92
DEFINITIONS = """
CREATE TEMPORARY VIEW orders AS SELECT * FROM VALUES
  (1, 'EUR', TIMESTAMP '2026-01-05 09:00:00', 20.0), (2, 'EUR', TIMESTAMP '2026-01-05 12:00:00', 10.0),
  (3, 'CHF', TIMESTAMP '2026-01-05 10:30:00', 50.0), (4, 'CHF', TIMESTAMP '2026-01-04 08:00:00', 5.0)
  AS t(id, currency, ordered_at, amount);
CREATE TEMPORARY VIEW rate_changes AS SELECT * FROM VALUES
  ('EUR', 1.05, TIMESTAMP '2026-01-05 00:00:00'), ('EUR', 1.07, TIMESTAMP '2026-01-05 11:00:00'),
  ('CHF', 0.93, TIMESTAMP '2026-01-05 00:00:00') AS t(currency, rate, changed_at);
CREATE TEMPORARY VERSIONED TABLE rates FROM rate_changes KEYS (currency) TIMESTAMP BY changed_at;
"""
QUERY = """SELECT o.id, o.currency, o.ordered_at, r.rate, r_reason
FROM orders o
LEFT JOIN rates r AS OF o.ordered_at ON o.currency = r.currency WITH REASON AS r_reason
ORDER BY o.id;"""
#: rich's own format without the fonts that it would load from elsewhere.
SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif }} {styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def printed(script: str) -> str:
    """What `sqlx run` prints for a script, colours included."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rates.sql"
        file.write_text(script, encoding="utf-8")
        environ = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
        command = [str(Path(sys.executable).with_name("sqlx")), "run", str(file)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip("\n")


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    console.print(Text("sqlx> ", "bold green"), end="")
    console.print(Syntax(QUERY, "sql", theme="ansi_dark", background_color="default"))
    console.print(Text.from_ansi(printed(DEFINITIONS + QUERY)))
    console.save_svg(str(HERE / "sql.svg"), title="sqlx sql", code_format=SVG, unique_id="sqlx")


if __name__ == "__main__":
    main()
