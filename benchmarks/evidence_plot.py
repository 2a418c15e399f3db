"""The plot of a device's speed-ups, as an SVG file that a browser and GitHub show."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from torchlint.verify.model import Interval
from torchlint.verify.report.plots import forest
from torchlint.verify.statistics import MARGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchlint.verify.report.plots import Bar, Forest

LABELS, WIDE, HIGH, FOOT = 300, 560, 18, 24  # pixels: names, plot, a row, the axis
COLORS = {"faster": "#1a7f37", "slower": "#cf222e"}
OTHER = "#6e7781"
SPACE = 'xmlns="http://www.w3.org/2000/svg"'
FONT = 'font-family="system-ui, sans-serif" font-size="11"'
BAND = 'fill="#eaeef2"'
WIDEST = 30.0  # an interval that goes beyond this many times is cut


def svg(bars: Mapping[str, tuple[tuple[float, float, float], str]], title: str) -> str:
    """Return the plot: a row a name, its ratio with its interval, coloured by its verdict."""
    wide = {name for name, ((low, _, high), _) in bars.items() if high / low > WIDEST}
    plot = forest(
        {name: (Interval(*ratio), name in wide) for name, (ratio, _) in bars.items()}, MARGIN - 1
    )
    assert plot is not None
    height = HIGH * len(bars) + FOOT
    parts = [
        f'<svg {SPACE} width="{LABELS + WIDE + 10}" height="{height}" {FONT} role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="{height}" fill="#fff"/>',
        *_axis(plot, height),
    ]
    for place, (name, (_, verdict)) in enumerate(bars.items()):
        parts += _row(name, plot.bars[name], COLORS.get(verdict, OTHER), HIGH * place + HIGH / 2)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(at: float) -> str:
    return f"{LABELS + at / 100 * WIDE:.1f}"


def _axis(plot: Forest, height: int) -> list[str]:
    """Return the lines of the axis; the band is where a change is called none."""
    bottom = height - FOOT
    low, high = plot.band
    parts = [
        f'<rect x="{_x(low)}" width="{(high - low) / 100 * WIDE:.1f}" height="{bottom}" {BAND}/>',
        f'<line x1="{_x(plot.one)}" x2="{_x(plot.one)}" y2="{bottom}" stroke="#6e7781"/>',
    ]
    for tick in plot.ticks:
        x = _x(tick.at)
        parts += [
            f'<line x1="{x}" x2="{x}" y2="{bottom}" stroke="#d0d7de" stroke-dasharray="2 2"/>',
            f'<text x="{x}" y="{bottom + 15}" text-anchor="middle">{tick.label}</text>',
        ]
    return parts


def _row(name: str, bar: Bar, color: str, y: float) -> list[str]:
    line = f'stroke="{color}" stroke-width="2"'
    return [
        f'<text x="{LABELS - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>',
        f'<line x1="{_x(bar.low)}" x2="{_x(bar.high)}" y1="{y}" y2="{y}" {line}/>',
        f'<circle cx="{_x(bar.middle)}" cy="{y}" r="4" fill="{color}"/>',
    ]
