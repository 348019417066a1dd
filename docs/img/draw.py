"""Draws the pictures of docs/img, all but as_of_join.svg, in its manner: ``python docs/img/draw.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

YELLOW, BLUE, GREEN, GREY = (
    ("#fff3cd", "#b58900"),
    ("#cfe3f7", "#2f6fae"),
    ("#d5edd6", "#3b8745"),
    ("#f3f3f3", "#999999"),
)
INK, FAINT = "#222222", "#777777"


@dataclass
class Picture:
    """One picture, as SVG elements.

    Attributes:
        width, height: in pixels.
        title, description: what is read out in its place.
        parts: its elements.
    """

    width: int
    height: int
    title: str
    description: str
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, colour: str = INK, anchor: str = "middle", style: str = "") -> None:
        """Words; their base line is at y."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{anchor}" {style}>{escape(words)}</text>'
        )

    def lane(self, y: float, name: str, what: str) -> None:
        """The name of a lane, at its left."""
        self.text(20, y - 3, name, "#333333", "start", 'font-weight="bold"')
        self.text(20, y + 13, what, FAINT, "start")

    def box(
        self, x: float, y: float, width: float, height: float, paint: tuple[str, str], dashes: bool = False
    ) -> None:
        """A rectangle."""
        dashed = 'stroke-dasharray="5 4"' if dashes else ""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self.parts.append(f'<rect {place} fill="{paint[0]}" stroke="{paint[1]}" {dashed}/>')

    def row(self, x: float, y: float, label: str, paint: tuple[str, str] = YELLOW) -> None:
        """A row: a circle with its number."""
        dashed = 'stroke-dasharray="4 3"' if paint is GREY else ""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="13" fill="{paint[0]}" stroke="{paint[1]}" {dashed}/>')
        self.text(x, y + 5, label, FAINT if paint is GREY else INK)

    def line(self, path: str, colour: str = "#444444", style: str = "") -> None:
        """A line along a path."""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" {style}/>')

    def arrow(self, x: float, y: float, end: float, colour: str = "#444444") -> None:
        """An arrow down, or up."""
        tip = 8 if end > y else -8
        self.line(f"M{x:g} {y:g}V{end - tip:g}", colour)
        self.parts.append(f'<path d="M{x:g} {end:g}l-4 {-tip - tip // 8:g}h8z" fill="{colour}" stroke="none"/>')

    def axis(self, y: float, ticks: dict[str, float], name: str) -> None:
        """The line of time, with its ticks; its name is below the arrow."""
        end = self.width - 25
        self.line(f"M130 {y:g}H{end}", "#999999")
        self.parts.append(f'<path d="M{end} {y:g}l-8 -4v8z" fill="#999999" stroke="none"/>')
        for label, x in ticks.items():
            self.line(f"M{x:g} {y - 5:g}v10", "#999999")
            self.text(x, y + 22, label, "#555555")
        self.text(end, y + (40 if ticks else 20), name, "#555555", "end", 'font-style="italic"')

    def svg(self) -> str:
        """The file."""
        body = "\n  ".join(part.replace(" >", ">").replace(" />", "/>") for part in self.parts)
        return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" \
font-family="Helvetica, Arial, sans-serif" font-size="13" stroke-width="1.5" \
role="img" aria-labelledby="title description">
  <title id="title">{escape(self.title)}</title>
  <desc id="description">{escape(self.description)}</desc>
  <style>text {{ stroke: none }}</style>
  <rect width="{self.width}" height="{self.height}" fill="#ffffff" stroke="none"/>
  {body}
</svg>
"""


def clock(minutes: int) -> str:
    """Minutes since midnight, as on a clock."""
    return f"{minutes // 60:02}:{minutes % 60:02}"


def deduplicate() -> Picture:
    """The payments of deduplicate.md."""
    picture = Picture(
        760, 300, "Deduplication within ten minutes",
        "Payment 2 lies within ten minutes of payment 1, which was kept, and is dropped. Payment 3 does not. "
        "Payment 4 has another reference, payments 5 and 6 have none: they are kept.",
    )  # fmt: skip

    def at(minute: int) -> float:
        return 140 + 16 * (minute - 530)

    picture.lane(84, "reference A", "")
    picture.lane(164, "reference B", "")
    picture.lane(218, "no reference", "")
    for kept, y, paint in ((540, 62, BLUE), (551, 86, GREEN)):
        picture.box(at(kept - 10), y, 320, 16, paint)
        x, anchor, number = (at(kept - 10) + 8, "start", 1) if kept == 540 else (at(kept + 10) - 8, "end", 3)
        picture.text(x, y + 12, f"within 10 minutes of {number}", paint[1], anchor, 'font-size="11"')
    picture.row(at(540), 82, "1")
    picture.row(at(548), 82, "2", GREY)
    picture.row(at(551), 82, "3")
    picture.row(at(551), 160, "4")
    picture.row(at(552), 214, "5")
    picture.row(at(552) + 30, 214, "6")
    picture.text(at(540), 44, "kept")
    picture.text(at(548) - 8, 44, "dropped", FAINT)
    picture.text(at(551) + 8, 44, "kept")
    picture.text(at(551) + 20, 165, "kept", anchor="start")
    picture.text(at(552) + 50, 219, "kept: NULL has no duplicates", anchor="start")
    picture.axis(250, {clock(minute): at(minute) for minute in range(530, 566, 5)}, "event time")
    return picture


def windows() -> Picture:
    """The readings of window_aggregate.md."""
    picture = Picture(
        760, 360, "Windows of an hour, 15 minutes of grace, EMIT FINAL",
        "Readings arrive from top to bottom. Reading 4 is out of order, but the window of nine o'clock "
        "is open until stream time is 10:15. "
        "Reading 5 moves stream time to 11:20: the windows of nine and ten o'clock are final.",
    )  # fmt: skip

    def at(minute: int) -> float:
        return 140 + 3.4 * (minute - 540)

    for start, paint in ((540, BLUE), (600, GREEN), (660, GREY)):
        picture.box(at(start), 58, 60 * 3.4, 236, (paint[0], "none"))
        picture.text(at(start) + 102, 30, f"window of {clock(start)}", paint[1] if paint is not GREY else FAINT)
    for end, paint in ((600, BLUE), (660, GREEN)):
        picture.line(f"M{at(end):g} 44H{at(end + 15):g}M{at(end + 15):g} 38V294", paint[1], 'stroke-dasharray="4 3"')
        picture.text(at(end) + 26, 54, "grace", paint[1], style='font-size="11"')
    readings = ((1, "A", 550, 20), (2, "B", 590, 31), (3, "A", 604, 24), (4, "A", 598, 22), (5, "B", 680, 30))
    steps = [f"M{at(550):g} 58"]
    now = 550
    for number, sensor, minute, degrees in readings:
        y = 36 + 44 * number
        now = max(now, minute)
        steps.append(f"V{y}H{at(now):g}")
        picture.text(20, y + 5, f"{number}: {sensor} {clock(minute)}, {degrees}°", "#333333", "start")
    picture.line("".join(steps) + "V294", "#c0392b", 'stroke-width="2"')
    for number, _, minute, _ in readings:
        picture.row(at(minute), 36 + 44 * number, str(number))
    picture.text(at(598) - 20, 217, "out of order, counts", anchor="end")
    picture.text(at(680) + 8, 290, "stream time", "#c0392b", "start", 'font-size="11"')
    picture.text(at(540) + 8, 286, "final: A 2 rows, most 22; B 1, 31", BLUE[1], "start", 'font-size="12"')
    picture.text(at(615) + 6, 286, "final: A 1, 24", GREEN[1], "start", 'font-size="12"')
    picture.axis(312, {clock(minute): at(minute) for minute in range(540, 720, 30)}, "event time")
    return picture


def emit() -> Picture:
    """The five clicks of emit.md."""
    picture = Picture(
        760, 330, "What is sent, and when",
        "EMIT CHANGES sends each update at once, EMIT EVERY ten minutes at most one of each key in ten minutes, "
        "EMIT FINAL one for each window when it has closed.",
    )  # fmt: skip
    columns = [190 + 115 * number for number in range(5)]
    arrivals = ("/a 09:01", "/a 09:02", "/b 09:11", "/a 09:13", "/b 10:00")
    lanes: tuple[tuple[str, str, tuple[str, str], tuple[str, ...]], ...] = (
        ("CHANGES", "each update", BLUE, ("/a 1", "/a 2", "/b 1", "/a 3", "/b 1, 10:00")),
        ("EVERY 10 MIN", "of each key", GREEN, ("", "", "/a 2", "", "/b 1|/a 3")),
        ("FINAL", "each window once", YELLOW, ("", "", "", "", "/a 3|/b 1")),
    )
    picture.lane(60, "arrives", "page, event time")
    for x, arrival in zip(columns, arrivals, strict=True):
        picture.box(x - 42, 42, 84, 26, ("#ffffff", "#444444"))
        picture.text(x, 60, arrival)
    for lane, (name, what, paint, sent) in enumerate(lanes):
        y = 110 + 62 * lane
        picture.lane(y + 16, name, what)
        picture.line(f"M130 {y + 42}H740", "#e0e0e0")
        for x, words in zip(columns, sent, strict=True):
            for place, word in enumerate(filter(None, words.split("|"))):
                shift = (place - words.count("|") / 2) * 50
                picture.box(x + shift - (38 if "," in word else 22), y, 76 if "," in word else 44, 26, paint)
                picture.text(x + shift, y + 18, word)
    picture.text(columns[3] + 58, 93, "the window of 09:00 ends", FAINT, style='font-size="11"')
    picture.line(f"M{columns[3] + 58} 98V285", "#c0392b", 'stroke-dasharray="4 4"')
    picture.axis(290, {}, "order of arrival")
    return picture


def table_lookup() -> Picture:
    """The clicks and users of table_lookup.md."""
    picture = Picture(
        760, 270, "The lookup in an upsert table, in the order of arrival",
        "Each click finds the row that the table shows when the click arrives. "
        "Nothing, then Ada, then Ada L., though that has an older time.",
    )  # fmt: skip

    def at(arrival: int) -> float:
        return 190 + 115 * (arrival - 1)

    picture.lane(70, "clicks", "the stream")
    picture.lane(170, "user 1", "the upsert table")
    states = ((140, at(2), "nothing", GREY), (at(2), at(4), "Ada", BLUE), (at(4), 720, "Ada L.", GREEN))
    for start, end, name, paint in states:
        picture.box(start, 152, end - start, 36, paint, paint is GREY)
        picture.text((start + end) / 2, 175, name, FAINT if paint is GREY else INK)
    for arrival, page, answer in ((1, "/a", "/a, NULL"), (3, "/b", "/b, Ada"), (5, "/c", "/c, Ada L.")):
        picture.row(at(arrival), 66, page)
        picture.arrow(at(arrival), 80, 150)
        picture.text(at(arrival), 36, answer)
    for arrival, words in ((2, "Ada arrives"), (4, "Ada L. arrives, with an older time")):
        picture.arrow(at(arrival), 212, 190)
        picture.text(at(arrival), 226, words, "#555555", style='font-size="11"')
    picture.axis(238, {}, "order of arrival")
    return picture


def flow() -> Picture:
    """How a text becomes rows: architecture.md."""
    picture = Picture(
        760, 400, "How a text becomes rows",
        "Text comes from sessions, files, servers, dbt and notebooks. "
        "It is read, bound, planned and checked once, and lowered for one of "
        "three executors: batch on Spark, live on Spark, replay in process. All run the same operators.",
    )  # fmt: skip

    def station(x: float, y: float, width: float, name: str, what: str, paint: tuple[str, str]) -> None:
        picture.box(x, y, width, 46, paint)
        picture.text(x + width / 2, y + 20, name, style='font-weight="bold"')
        picture.text(x + width / 2, y + 37, what, FAINT, style='font-size="11"')

    for number, (name, what) in enumerate((
        ("session", "spark.sql"), ("files", "sqlx run, sqlx test"), ("servers", "JDBC, ODBC, Connect"),
        ("dbt", "sqlx dbt, dbt"), ("notebooks", "%%sqlx"),
    )):  # fmt: skip
        station(20 + 146 * number, 16, 136, name, what, ("#ffffff", "#444444"))
        picture.arrow(88 + 146 * number, 62, 84)
    station(20, 86, 720, "hook", "a statement that cannot be ours goes to Spark as it is, byte for byte", YELLOW)
    for number, (name, what) in enumerate((
        ("parse", "spans of the text"), ("bind", "names, types by asking"), ("plan", "fragments, operators"),
        ("check", "what may follow what"), ("lower", "once for each executor"),
    )):  # fmt: skip
        station(20 + 146 * number, 160, 136, name, what, BLUE)
        if number:
            x = 10 + 146 * number + 10
            picture.parts.append(f'<path d="M{x - 10} 183h10m-5 -4l5 4l-5 4" fill="none" stroke="#444444"/>')
    picture.arrow(88, 132, 158)
    for number, (name, what) in enumerate((
        ("batch on Spark", "whole tasks as Arrow columns"), ("live on Spark", "transformWithState, exactly once"),
        ("replay in process", "record by record, DuckDB"),
    )):  # fmt: skip
        x = 20 + 245 * number
        station(x, 242, 230, name, what, GREEN)
        picture.line(f"M672 206V224H{x + 115}", "#444444")
        picture.arrow(x + 115, 224, 240)
        picture.arrow(x + 115, 288, 312)
    station(
        20, 314, 720, "udtf: the operators and their state", "rows in, an emission out; they know no engine", YELLOW
    )
    picture.text(
        380, 386, "The answers of the three agree; tests compare them.", "#555555", style='font-style="italic"'
    )
    return picture


def pictures() -> Iterator[tuple[str, Callable[[], Picture]]]:
    """The name of each file, and what draws it."""
    yield "deduplicate", deduplicate
    yield "window_aggregate", windows
    yield "emit", emit
    yield "table_lookup", table_lookup
    yield "architecture", flow


def main() -> None:
    """Write all pictures."""
    for name, draw in pictures():
        Path(__file__).with_name(f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
