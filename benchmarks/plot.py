"""A small plot of lines over time as SVG, for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 130, 70, 28, 24
_LEGEND_STEP = 150


@dataclass(frozen=True)
class Panel:
    """One of the plots, above each other, over the same times.

    Attributes:
        title: what is shown, with its unit.
        lines: by name, a value for each time.
    """

    title: str
    lines: Mapping[str, Sequence[float]]

    @property
    def top(self) -> float:
        """The end of the scale: the next round number above all values."""
        greatest = max((value for line in self.lines.values() for value in line), default=0.0) or 1.0
        power = 10.0 ** (len(f"{greatest:.0f}") - 1) if greatest >= 1 else 0.1
        return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15) if step * power >= greatest)


def svg(title: str, minutes: Sequence[float], panels: Sequence[Panel]) -> str:
    """The plots as the text of an SVG file."""
    height = len(panels) * _HEIGHT + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" role="img" aria-labelledby="title">',
        f'  <title id="title">{escape(title)}</title>',
        f'  <rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        *(part for number, panel in enumerate(panels) for part in _panel(panel, minutes, number * _HEIGHT)),
        f'  <text x="{_LEFT}" y="{height - 22}" fill="#555555">0</text>',
        f'  <text x="{_WIDTH - 20}" y="{height - 22}" fill="#555555" text-anchor="end">'
        f"{max(minutes, default=0.0):.1f} minutes</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(panel: Panel, minutes: Sequence[float], down: int) -> list[str]:
    upper, lower = down + _TOP, down + _HEIGHT - _BOTTOM + 10
    last = max(minutes, default=0.0) or 1.0
    found = [
        f'  <text x="{_LEFT}" y="{upper - 10}" font-weight="bold" fill="#333333">{escape(panel.title)}</text>',
        f'  <path d="M{_LEFT} {upper}V{lower}H{_WIDTH - 20}" fill="none" stroke="#999999"/>',
        f'  <text x="{_LEFT - 6}" y="{upper + 4}" fill="#555555" text-anchor="end">{panel.top:g}</text>',
        f'  <text x="{_LEFT - 6}" y="{lower + 4}" fill="#555555" text-anchor="end">0</text>',
    ]
    for number, (name, values) in enumerate(panel.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        across = [_LEFT + (_WIDTH - 20 - _LEFT) * minute / last for minute in minutes]
        up = [lower - (lower - upper) * value / panel.top for value in values]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True))
        found.append(f'  <polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        at = _WIDTH - 20 - _LEGEND_STEP * (len(panel.lines) - 1 - number)
        found.append(f'  <text x="{at}" y="{upper - 10}" fill="{colour}" text-anchor="end">{escape(name)}</text>')
    return found
