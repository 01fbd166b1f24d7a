"""The page: a matrix of fault, sink and guarantee; behind each cell what happened, and how to see it again."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from pydantic import ValidationError

from fencepost.audit.page import escape
from fencepost.errors import Usage
from fencepost.lab.catalogue import catalogue, scenarios
from fencepost.lab.kept import KeptVerdict
from fencepost.lab.record import history_of, runs, verdict_of
from fencepost.lab.report.timeline import picture_of
from fencepost.lab.scenario import SHORT, Engine, Scenario
from fencepost.machine.counting import count

_OURS = '<meta name="generator" content="fencepost lab">'
_STYLE = (Path(__file__).parent / "page.css").read_text()
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>What was broken, and what held</title>
$ours
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-$hash'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>$style</style></head><body id="top">
<h1>What was broken, and what held</h1>
<p class="said">$whose$summary</p>
<div class="matrix"><div class="scroll"><table><thead><tr><th>fault</th>$heads</tr></thead><tbody>
$rows</tbody></table></div>
<p class="said">A cell is a scenario: at most once (amo), at least once (alo), exactly once (eo). It is green where the
fault was seen to fire, hit events on their way, left nothing behind that the guarantee forbids, and did so in the
control. Choose one to see what happened.</p>
<h2>What is not played</h2>
<div class="scroll"><table><tbody>$undone</tbody></table></div></div>
$runs
</body></html>
""")

Run = tuple[Path, Mapping[str, Any]]
_ORDER = list(Engine)


def write_report(home: Path, folder: Path, pipeline: str = "") -> tuple[Path, int]:
    """Write index.html about the last run of each scenario; where, and how many cells are green.

    `pipeline`: the name of somebody's own, with which they were played; empty: with the lab's. Raises Usage where
    another file is in its place.
    """
    path = folder / "index.html"
    last = last_runs(home, pipeline)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and (not path.is_file() or _OURS.encode() not in path.read_bytes()[:1_000]):
            raise Usage(f"{path} exists and is not a report of the lab: it was not changed", "give another folder")
        path.write_text(render(last, pipeline), encoding="utf-8")
    except OSError as error:
        raise Usage(f"the report cannot be written to {folder}: {error.strerror}") from error
    return path, len(green(last))


def last_runs(home: Path, pipeline: str = "") -> dict[str, Run]:
    """The newest run with a verdict, of each scenario that is in the catalogue; of one pipeline."""
    found: dict[str, Run] = {}
    for folder in runs(home):
        verdict = verdict_of(folder)
        if verdict is not None and verdict["name"] in scenarios() and _whose(verdict) == pipeline:
            found[verdict["name"]] = (folder, verdict)
    return found


def _whose(verdict: Mapping[str, Any]) -> str | None:
    """The pipeline of a run that can be shown."""
    try:
        return KeptVerdict.model_validate(verdict).pipeline
    except ValidationError:
        return None


def shown_of(last: Mapping[str, Run], pipeline: str) -> list[Scenario]:
    """The scenarios that belong on the page: with somebody's own pipeline, those of its kind."""
    kinds = {(one["engine"], one["sink"], one["guarantee"]) for _, one in last.values()}
    return [one for one in scenarios().values() if not pipeline or (one.engine, one.sink, one.guarantee) in kinds]


def green(last: Mapping[str, Run]) -> list[str]:
    return [name for name, (_, verdict) in last.items() if verdict["verdict"] == "holds"]


def render(last: Mapping[str, Run], pipeline: str = "") -> str:
    known, faults = shown_of(last, pipeline), catalogue().faults
    columns = sorted(dict.fromkeys((one.engine, one.sink) for one in known), key=lambda one: _ORDER.index(one[0]))
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    return _PAGE.substitute(
        ours=_OURS,
        hash=digest,
        style=_STYLE,
        whose=f"Pipeline <b>{escape(pipeline)}</b>: " if pipeline else "",
        summary=_summary(last, len(known)),
        heads="".join(f"<th>{engine}, {escape(sink)}</th>" for engine, sink in columns),
        rows="".join(_rows(known, columns, last)),
        runs="".join(_run(folder, verdict) for folder, verdict in last.values()),
        undone="".join(
            f"<tr><th><b>{one.fault}</b> {escape(one.part or faults[one.fault])}</th><td>{escape(one.why)}</td></tr>"
            for one in sorted(catalogue().undone, key=lambda one: one.fault)
        ),
    )


def _summary(last: Mapping[str, Run], known: int) -> str:
    held = len(green(last))
    others, unplayed = len(last) - held, known - len(last)
    said = [f"{held} of {count(known, 'scenario')} hold"]
    said += [f"{others} {'does' if others == 1 else 'do'} not"] if others else []
    said += [f"{unplayed} {'was' if unplayed == 1 else 'were'} not played"] if unplayed else []
    return f"{', '.join(said)}."


def _rows(known: Sequence[Scenario], columns: Sequence[Any], last: Mapping[str, Run]) -> Iterator[str]:
    for fault in sorted({one.fault for one in known}):
        of_fault = [one for one in known if one.fault == fault]
        told = catalogue().faults[fault]
        cells = (
            "".join(_cell(one, last) for one in of_fault if (one.engine, one.sink) == column) for column in columns
        )
        yield f"<tr><th><b>{fault}</b> {escape(told)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _cell(scenario: Scenario, last: Mapping[str, Run]) -> str:
    short = SHORT[scenario.guarantee]
    if scenario.name not in last:
        return f'<span class="cell unplayed" title="{escape(scenario.name)}: not played">{short}</span>'
    _, verdict = last[scenario.name]
    title = escape(f"{scenario.name}: {scenario.tells}: {verdict['verdict']}")
    look = verdict["verdict"] if verdict["verdict"] in ("holds", "broken", "vacuous") else "inconclusive"
    return f'<a class="cell {look}" href="#{escape(scenario.name)}" title="{title}">{short}</a>'


def _run(folder: Path, verdict: Mapping[str, Any]) -> str:
    name, judgement = escape(verdict["name"]), escape(verdict["verdict"])
    pictures = "".join(
        f"<h3>{run}: {escape(verdict[run]['setting'])}</h3>{picture_of(folder, verdict, run)}"
        for run in ("guarded", "control")
    )
    return (
        f'<section class="run" id="{name}"><a class="close" href="#top">back to the matrix</a>'
        f'<h2>{name} <span class="cell {judgement}">{judgement}</span></h2>'
        f"<p>{escape(verdict['tells'])}. {escape(verdict['guarantee'])}: {escape(verdict['reason'])}.</p>"
        f'{_counts(verdict)}{pictures}<h3>What happened</h3><ol class="story">{_story(folder)}</ol>'
        f"<p>Again: <code>{escape(verdict['command'])}</code></p></section>\n"
    )


def _counts(verdict: Mapping[str, Any]) -> str:
    columns = ("sent", "landed", "lost", "duplicated")
    rows = ""
    for run in ("guarded", "control"):
        trial = verdict[run]
        found = ", ".join(f"{code} {times:,}" for code, times in trial["anomalies"].items()) or "nothing"
        numbers = "".join(f'<td class="number">{trial[column]:,}</td>' for column in columns)
        hit = f"{count(trial['witness']['fired'], 'time')}, {trial['witness']['in_flight']:,} on their way"
        rows += f"<tr><th>{run}: {escape(trial['setting'])}</th>{numbers}<td>{escape(found)}</td><td>{hit}</td></tr>"
    heads = "".join(f"<th>{column}</th>" for column in ("", *columns, "anomalies", "the fault fired"))
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _story(folder: Path) -> str:
    try:
        return "".join(map(_line, history_of(folder)))
    except Usage as error:
        return f"<li>{escape(str(error))}</li>"


def _line(line: Mapping[str, Any]) -> str:
    whose = f"{line['run']}: " if line["run"] else ""
    look = escape(line["kind"])
    return f'<li class="{look}"><time>{line["at"]:.1f} s</time> {escape(whose + line["text"])}</li>'
