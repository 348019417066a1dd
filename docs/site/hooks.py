"""What MkDocs does with our pages: README.md is the home, CHANGELOG.md a page, SQL blocks say whose text they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
# Pages from above docs/, by their name in the site.
FROM_ABOVE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
# The words after ```sql, and the title that a block gets for them.
TITLES = {"ksqldb": "ksqlDB", "flink": "Flink SQL", "snowflake": "Snowflake", "replay": "sqlx, record by record"}
_FENCE = re.compile(r"^( *```)(sql|text) +(\w+)$", re.MULTILINE)
_ABOVE = re.compile(r"\]\(\.\./((?:\.\./)*)(README|CHANGELOG)\.md")
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(?:sql_examples|tests|benchmarks/|sqlx/|udtf|catalog|LICENSE)[^)]*\)")


def on_config(config: Any) -> Any:
    """List the design notes after the pages on how it is built, newest first."""
    notes = sorted(ROOT.glob("docs/design/2*.md"), reverse=True)
    house = config["nav"][-1]["How it is built"]
    house.append({"Why things are as they are": [{_subject(note): f"design/{note.name}"} for note in notes]})
    return config


def _subject(note: Path) -> str:
    return note.stem.partition("_")[2].replace("_", " ").capitalize()


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from above docs/."""
    for name, source in FROM_ABOVE.items():
        text = ROOT.joinpath(source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Give blocks their titles; what is in the repository only is named, not linked."""
    linked = _OUTSIDE.sub(
        r"\1", re.sub(r"\[([^\]]+)\]\((?:sql_examples|tests|benchmarks|LICENSE)[^)]*\)", r"\1", markdown)
    )
    return _FENCE.sub(_titled, linked)


def _titled(fence: re.Match[str]) -> str:
    title = "result" if fence[2] == "text" else TITLES.get(fence[3], "")
    return f'{fence[1]} {fence[2]} title="{title}"' if title else f"{fence[1]} {fence[2]}"
