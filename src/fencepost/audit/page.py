"""An audit as one page that needs nothing else: the counts, a strip per partition, the worst findings."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import Any

from fencepost.audit.compare import Verdict
from fencepost.audit.findings import DOUBLED, LOST, Audit, Finding, Hop
from fencepost.errors import Usage
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.machine.printable import visible

CELLS = 200  # of a strip: each stands for a share of the partition's offsets
MOST = 500
_OURS = b'<meta name="generator" content="fencepost audit">'
_COLOURS = {"lost": "#c62828", "doubled": "#ef6c00", "other": "#6a1b9a"}

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Audit of $topic</title>
<meta name="generator" content="fencepost audit">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.verdict { display: inline-block; padding: .2rem .8rem; border-radius: .3rem; color: #fff; background: $colour }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .6rem }
th { border-bottom: 1px solid #999 } tr:nth-child(even) td { background: #f5f5f5 }
td.number { text-align: right; font-variant-numeric: tabular-nums } svg { width: 100%; height: 18px; display: block }
.legend span { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem }
</style></head><body>
<h1>Topic $topic, $guarantee: <span class="verdict">$verdict</span></h1>
$undecided
<h2>What was compared</h2>
<table><tr><th>hop</th><th>verdict</th><th>matched by</th><th>expected</th><th>landed</th><th>found</th></tr>
$hops</table>
$not_checked
<h2>Partitions</h2>
<p class="legend"><span style="background:#2e7d32"></span>as it should be
<span style="background:#c62828"></span>lost <span style="background:#ef6c00"></span>doubled
<span style="background:#6a1b9a"></span>anything else <span style="background:#ccc"></span>waits</p>
$strips
<h2>Findings</h2>
$findings
</body></html>
""")


def write_page(audit: Audit, topic: str, folder: Path) -> Path:
    """Write index.html into the folder, which is made. Raises Usage where there is one that is not of an audit."""
    path = folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and (not path.is_file() or _OURS not in path.read_bytes()[:1_000]):
            raise Usage(f"{path} exists and is not an audit report: it was not changed", "give another folder")
        path.write_text(render(audit, topic), encoding="utf-8")
    except OSError as error:
        raise Usage(f"the report cannot be written to {folder}: {error.strerror}") from error
    return path


def escape(text: str) -> str:
    """Of text from outside: no markup, and nothing that hides it or turns it around."""
    return html.escape(visible(text))


def render(audit: Audit, topic: str) -> str:
    colours = {
        Verdict.HOLDS: "#2e7d32",
        Verdict.PARTLY: "#827717",
        Verdict.BROKEN: "#c62828",
        Verdict.INCONCLUSIVE: "#616161",
    }
    return _PAGE.substitute(
        topic=escape(topic),
        guarantee=escape(audit.guarantee.value),
        verdict=escape(audit.verdict.value),
        colour=colours[audit.verdict],
        undecided=f"<p>{escape(audit.undecided)}</p>" if audit.undecided else "",
        hops="".join(_row(*_hop_cells(hop, audit.guarantee)) for hop in audit.hops),
        not_checked="".join(f"<p>Not checked: {escape(one)}.</p>" for one in audit.not_checked),
        strips="".join(_strips(audit)),
        findings=_findings(audit),
    )


def _hop_cells(hop: Hop, guarantee: Guarantee) -> list[Any]:
    judged = [f"{code} {count:,}" for code, count in sorted(hop.totals.items()) if count]
    said = [f"{code} {count:,} (not judged)" for code, count in sorted(hop.said.items())]
    found = ", ".join(judged + said) or "nothing"
    verdict = hop.verdict(guarantee).value + (f": {hop.undecided}" if hop.undecided else "")
    return [hop.name, verdict, hop.checked, hop.expected, hop.landed, found]


def _strips(audit: Audit) -> Iterable[str]:
    places: dict[tuple[str, int], list[Finding]] = defaultdict(list)
    for finding in audit.findings:
        if finding.topic is not None and finding.partition is not None and finding.offset is not None:
            places[finding.topic, finding.partition].append(finding)
    for part in audit.partitions:
        head = f"{part['topic']}/{part['partition']}: offsets {part['from']:,} to {part['to']:,}"
        waiting = f", {part['waiting']:,} wait" if part["waiting"] else ""
        yield f"<p>{escape(head + waiting)}</p>{strip(part, places[part['topic'], part['partition']])}"


def strip(part: dict[str, Any], findings: list[Finding]) -> str:
    """Green, with a cell for each share that has a finding, and grey for what waits."""
    first, until, end = part["from"], part["to"], max(part["end"] or 0, part["to"])
    width = max(end - first, 1)
    compared = CELLS * (until - first) / width
    cells: dict[int, str] = {}
    for one in findings:
        if one.offset is not None:
            ends = (one.offset, one.offset if one.last_offset is None else one.last_offset)
            begin, last = (max(min(int(CELLS * (at - first) / width), CELLS - 1), 0) for at in ends)
            cells |= dict.fromkeys(range(begin, last + 1), _kind(one))
    marks = "".join(
        f'<rect x="{cell}" width="1" height="1" fill="{_COLOURS[kind]}"/>' for cell, kind in sorted(cells.items())
    )
    return (
        f'<svg viewBox="0 0 {CELLS} 1" preserveAspectRatio="none"><rect width="{CELLS}" height="1" fill="#ccc"/>'
        f'<rect width="{compared:g}" height="1" fill="#2e7d32"/>{marks}</svg>'
    )


def _kind(finding: Finding) -> str:
    if finding.code in (*LOST, Anomaly.SPAN_GAP):
        return "lost"
    return "doubled" if finding.code in (*DOUBLED, Anomaly.SPAN_OVERLAP) else "other"


def _findings(audit: Audit) -> str:
    if not audit.findings:
        return "<p>None.</p>"
    head = "<tr><th>code</th><th>events</th><th>where</th><th>times</th><th>expected</th><th></th></tr>"
    shown = audit.findings[:MOST]
    rows = "".join(_row(one.code.value, one.events, one.where, one.times, one.expected, one.note) for one in shown)
    more = audit.totals.total() - sum(one.weight for one in shown)
    return f"<table>{head}{rows}</table>" + (f"<p>And {more:,} more.</p>" if more > 0 else "")


def _row(*cells: Any) -> str:
    return "<tr>" + "".join(_cell(cell) for cell in cells) + "</tr>"


def _cell(value: Any) -> str:
    return f'<td class="number">{value:,}</td>' if isinstance(value, int) else f"<td>{escape(str(value))}</td>"
