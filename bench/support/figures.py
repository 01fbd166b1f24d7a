"""A small table and a plot of the same figures, for a page of the docs; the plot is dark where its reader is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 40, 50
COLOURS = (("#1f6feb", "#58a6ff"), ("#bf5b04", "#f0883e"), ("#1a7f37", "#3fb950"), ("#8250df", "#bc8cff"))
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 14px; font-weight: 600 }
line { stroke: #d1d9e0 } polyline { fill: none; stroke-width: 2 } .paper { fill: #ffffff }
"""
DARK = "text { fill: #f0f6fc } line { stroke: #3d444d } .paper { fill: #0d1117 }"


@dataclass(frozen=True)
class Figure:
    """One question: how does something grow with something else? Both axes are logarithmic."""

    name: str  # of the plot's file, and of its place in the page
    title: str
    across: str  # what grows
    up: str  # what is measured, with its unit
    curves: Mapping[str, Mapping[float, float]]  # name -> at -> value
    header: Sequence[str]  # of the table
    rows: Sequence[Sequence[str]]

    def table(self) -> str:
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def svg(self) -> str:
        points = [point for curve in self.curves.values() for point in curve.items()]
        across, up = _Scale([at for at, _ in points]), _Scale([value for _, value in points])
        classes = "".join(f".c{n} {{ stroke: {light} }} .t{n} {{ fill: {light} }}" for n, (light, _) in _numbered())
        dark = "".join(f".c{n} {{ stroke: {colour} }} .t{n} {{ fill: {colour} }}" for n, (_, colour) in _numbered())
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}{classes}@media (prefers-color-scheme: dark) {{ {DARK}{dark} }}</style>",
                f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
                f'<text class="title" x="{LEFT}" y="22">{escape(self.title)}</text>',
                *_grid(across, up),
                f'<text text-anchor="middle" x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 10}">{self.across}</text>',
                f'<text text-anchor="middle" transform="translate(16 {HEIGHT // 2}) rotate(-90)">{self.up}</text>',
                *(line for number, name in enumerate(self.curves) for line in self._curve(number, name, across, up)),
                "</svg>\n",
            ]
        )

    def _curve(self, number: int, name: str, across: _Scale, up: _Scale) -> list[str]:
        places = [(_x(across.share(at)), _y(up.share(value))) for at, value in sorted(self.curves[name].items())]
        dots = [f'<circle class="t{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
        x, y = places[-1]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        label = f'<text class="t{number}" x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(name)}</text>'
        return [f'<polyline class="c{number}" points="{drawn}"/>', *dots, label]


class _Scale:
    """Powers of ten around what there is."""

    def __init__(self, values: Sequence[float]) -> None:
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values))), self.low + 1)

    def share(self, value: float) -> float:
        return (math.log10(value) - self.low) / (self.high - self.low)

    def marks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _numbered() -> list[tuple[int, tuple[str, str]]]:
    return list(enumerate(COLOURS))


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _grid(across: _Scale, up: _Scale) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    found = []
    for mark in across.marks():
        x = _x(across.share(mark))
        found.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        found.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{mark:,g}</text>')
    for mark in up.marks():
        y = _y(up.share(mark))
        found.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        found.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:,g}</text>')
    return found


def write(page: Path, figures: Sequence[Figure]) -> None:
    """Each figure's plot beside the page, and its table where the page has `<!-- NAME -->` and `<!-- /NAME -->`."""
    text = page.read_text()
    for figure in figures:
        plot = page.parent / "plots" / f"{figure.name}.svg"
        plot.parent.mkdir(exist_ok=True)
        plot.write_text(figure.svg())
        begin, end = f"<!-- {figure.name} -->", f"<!-- /{figure.name} -->"
        shown = f"{begin}\n{figure.table()}\n\n![{figure.title}](plots/{plot.name})\n{end}"
        text, found = re.subn(rf"{re.escape(begin)}.*?{re.escape(end)}", lambda _: shown, text, flags=re.DOTALL)  # noqa: B023
        assert found == 1, f"{page.name} has no place for {figure.name}"
    page.write_text(text)
