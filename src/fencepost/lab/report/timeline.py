"""One run as a picture: a lane for each of those that take part, faults as bands, what was sent and landed as ticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from fencepost.audit.page import escape
from fencepost.errors import Usage
from fencepost.lab.record import LARGEST, Count, Moment, content, history_of, is_run

LANES = ("producer", "brokers", "driver", "sink")
_LEFT, _WIDTH, _HEIGHT, _TOP = 78, 900, 26, 18
_MARKS = ("fault", "heal", "ended", "trouble", "counted")


class _Batch(BaseModel):
    """What a carrier told of one batch; other news have no rows."""

    model_config = ConfigDict(allow_inf_nan=False)
    event: str
    time: Moment
    rows: Count = 0


def picture_of(folder: Path, verdict: Mapping[str, Any], run: str, most: int = LARGEST) -> str:
    """Of the guarded run, or of the control, which may have been played in another one; nothing where that is gone, or
    cannot be read."""
    played_in = str(verdict[run].get("run") or folder.name)
    if not is_run(played_in):
        return ""
    where = folder.with_name(played_in)
    try:
        lines = [line for line in history_of(where, most) if line["run"] == run and "time" in line]
        batches = [one for path in sorted((where / run).glob("news-*.jsonl")) for one in _batches(path, most)]
    except (OSError, Usage, ValidationError):
        return ""
    return picture(lines, batches)


def _batches(path: Path, most: int) -> Iterator[Mapping[str, Any]]:
    for line in content(path, most).splitlines(keepends=True):
        if line.endswith("\n") and (batch := _Batch.model_validate_json(line)).event == "batch":
            yield batch.model_dump()


def picture(lines: Sequence[Mapping[str, Any]], batches: Iterable[Mapping[str, Any]]) -> str:
    """An SVG of one run's lines of the history, and of the batches that its carriers told of."""
    if len(lines) < 2:  # a story's two ends
        return ""
    scale = _Scale(lines)
    parts = chain(_lanes(), _bands(lines, scale), _ticks(lines, scale), _landed(batches, scale), _lost(lines, scale))
    height = _TOP + _HEIGHT * len(LANES) + 22
    label = f"{len(lines)} steps in {scale.seconds:.1f} seconds"
    body = "".join(parts) + _axis(scale, height)
    return f'<svg viewBox="0 0 {_LEFT + _WIDTH + 20} {height}" role="img" aria-label="{label}">{body}</svg>'


class _Scale:
    """From moments to places."""

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self._start = float(lines[0]["time"])
        self.seconds = max(float(lines[-1]["time"]) - self._start, 0.1)

    def x(self, moment: Any) -> float:
        share = (float(moment) - self._start) / self.seconds
        return round(_LEFT + _WIDTH * min(max(share, 0.0), 1.0), 1)


def _y(lane: str) -> int:
    return _TOP + _HEIGHT * (LANES.index(lane) if lane in LANES else 2)


def _lanes() -> Iterator[str]:
    for lane in LANES:
        yield f'<text x="0" y="{_y(lane) + 4}">{lane}</text>'
        yield f'<line class="lane" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{_y(lane)}" y2="{_y(lane)}"/>'


def _bands(lines: Sequence[Mapping[str, Any]], scale: _Scale) -> Iterator[str]:
    """From the first fault to what healed it, or to the next thing that a driver did."""
    begin = next((line for line in lines if line["kind"] == "fault"), None)
    if begin is None:
        return
    later = [line for line in lines if line["time"] > begin["time"]]
    ends = [line for line in later if line["kind"] == "heal"] or [line for line in later if line["kind"] != "fault"]
    x, end = scale.x(begin["time"]), scale.x((ends or lines[-1:])[0]["time"])
    yield f'<rect class="band" x="{x}" y="4" width="{max(end - x, 3):.1f}" height="{_HEIGHT * len(LANES) + 6}">'
    yield f"<title>{escape(str(begin['text']))}</title></rect>"


def _ticks(lines: Sequence[Mapping[str, Any]], scale: _Scale) -> Iterator[str]:
    for line in lines:
        x, y, title = scale.x(line["time"]), _y(line["lane"]), f"<title>{escape(str(line['text']))}</title>"
        if line["kind"] == "sent":
            yield f'<line class="sent" stroke-width="3" x1="{x}" x2="{x}" y1="{y - 8}" y2="{y + 8}">{title}</line>'
        elif line["kind"] in _MARKS:
            look = line["kind"] if line["kind"] in ("fault", "heal") else "step"
            yield f'<circle class="{look}" cx="{x}" cy="{y}" r="4">{title}</circle>'


def _landed(batches: Iterable[Mapping[str, Any]], scale: _Scale) -> Iterator[str]:
    y = _y("sink")
    for batch in batches:
        x = scale.x(batch["time"])
        title = f"<title>a batch of {int(batch['rows'])} landed</title>"
        yield f'<line class="batch" stroke-width="2" x1="{x}" x2="{x}" y1="{y - 7}" y2="{y + 7}">{title}</line>'


def _lost(lines: Sequence[Mapping[str, Any]], scale: _Scale) -> Iterator[str]:
    """At the end of the sink's lane: what is not there, or there too often."""
    for line in lines:
        for number, what in enumerate(("lost", "doubled")):
            if ids := line.get(what):
                x, y = scale.x(line["time"]) - 8, _y("sink") - 10 + 24 * number
                told = f"{int(line.get(f'{what}_count', len(ids))):,} {what}"
                first = escape(", ".join(map(str, ids)))
                yield f'<text class="{what}" text-anchor="end" x="{x}" y="{y}">{told}<title>{first}</title></text>'


def _axis(scale: _Scale, height: int) -> str:
    return (
        f'<text x="{_LEFT}" y="{height - 4}">0 s</text>'
        f'<text text-anchor="end" x="{_LEFT + _WIDTH}" y="{height - 4}">{scale.seconds:.1f} s</text>'
    )
