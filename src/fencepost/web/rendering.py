"""Templates, and how values are shown in them: escaped, and what would steer or hide text is visible."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from fencepost.machine.counting import count
from fencepost.machine.printable import visible

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES = ("B", "kB", "MB", "GB", "TB")
NONE = "\N{EN DASH}"
LONGEST = 300  # characters of a name that are shown


@cache
def environment() -> Environment:
    folder = files("fencepost.web").joinpath("templates")
    sources = {one.name: one.read_text(encoding="utf-8") for one in folder.iterdir() if one.name.endswith(".html")}
    made = Environment(
        loader=DictLoader(sources), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"n": number, "ago": ago, "span": duration, "size": size, "text": text, "exact": exact}
    made.filters |= {"count_of": count}
    made.globals |= {"now": lambda: datetime.now(UTC)}
    return made


def page(template: str, context: Mapping[str, Any]) -> str:
    return environment().get_template(template).render({"base": "base.html", **context})


def live_part(template: str, context: Mapping[str, Any]) -> str:
    """The part of the page that changes."""
    return environment().get_template(template).render({"base": "part.html", **context})


def text(value: object) -> str:
    """On one line, with an escape in place of each character that has no shape or turns text around."""
    shown = visible(str(value).encode("utf-8", "backslashreplace").decode())
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.1f}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """In its largest unit, and the next one where that says something: 2 h 5 min, 40 s, 0.3 s."""
    if seconds is None:
        return NONE
    if abs(seconds) < 10:
        return f"{seconds:.1f} s" if abs(seconds) >= 0.05 else "0 s"
    whole = int(seconds)
    for (length, unit), (below, smaller) in pairwise(_UNITS):
        if abs(whole) >= length:
            many, rest = divmod(whole, length)
            return f"{many:,} {unit}" + (f" {rest // below} {smaller}" if rest // below and many < 10 else "")
    return f"{whole} s"


def exact(moment: datetime | None) -> str:
    return (
        moment.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC") if moment else NONE
    )


def ago(moment: datetime | None) -> Markup | str:
    """Relative, with the exact time on hover; the page keeps it up to date."""
    if moment is None:
        return NONE
    seconds = (datetime.now(UTC) - moment).total_seconds()
    said = f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), exact(moment), said)


def size(value: int | None) -> str:
    if value is None:
        return NONE
    left = float(value)
    for unit in _SIZES[:-1]:
        if left < 1000:
            return f"{left:.0f} {unit}" if unit == "B" or left >= 10 else f"{left:.1f} {unit}"
        left /= 1000
    return f"{left:.1f} {_SIZES[-1]}"
