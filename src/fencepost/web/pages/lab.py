"""What the lab has broken on this machine, and what held: its runs, each with its timeline."""

from __future__ import annotations

from collections import Counter
from typing import Any

from markupsafe import Markup

from fencepost.kafka.errors import Missing
from fencepost.machine.plain_json import iso
from fencepost.web.lab_runs import LabRun
from fencepost.web.pages.page import Shown
from fencepost.web.state import State
from fencepost.web.tables import Asked, Columns, arranged

COLUMNS: Columns[LabRun] = {
    "scenario": lambda one: one.scenario,
    "verdict": lambda one: one.verdict.verdict if one.verdict else None,
    "fault": lambda one: one.verdict.fault if one.verdict else None,
    "guarantee": lambda one: one.verdict.guarantee if one.verdict else None,
    "engine": lambda one: one.verdict.engine if one.verdict else None,
    "sink": lambda one: one.verdict.sink if one.verdict else None,
    "began": lambda one: one.began.timestamp(),
    "seconds": lambda one: one.verdict.seconds if one.verdict else None,
}


def lab(state: State, asked: Asked) -> Shown:
    found = state.lab_runs()
    counts = Counter(one.verdict.verdict if one.verdict else "no verdict" for one in found)
    return Shown(
        "lab.html",
        {"table": arranged(found, COLUMNS, asked, "began", descending=True), "counts": sorted(counts.items())},
    )


def lab_run(state: State, asked: Asked) -> Shown:
    one = _run(state, asked.query.get("name", ""))
    pictures = [(run, Markup(one.picture(run))) for run in ("guarded", "control")]  # noqa: S704 (it escapes its texts)
    return Shown("lab_run.html", {"one": one, "lines": one.history(), "pictures": pictures})


def _run(state: State, name: str) -> LabRun:
    """Raises Missing. Only a name that is listed is looked up, so that no path can be one."""
    found = next((one for one in state.lab_runs() if one.name == name), None)
    if found is None:
        raise Missing(f"the lab has no run {name[:100]!r}", "see the lab's runs")
    return found


def lab_facts(state: State) -> dict[str, Any]:
    return {"runs": [_facts(one) for one in state.lab_runs()]}


def lab_run_facts(state: State, name: str) -> dict[str, Any]:
    one = _run(state, name)
    return {**_facts(one), "history": one.history()}


def _facts(one: LabRun) -> dict[str, Any]:
    told = one.verdict.model_dump() if one.verdict else None
    return {"run": one.name, "began": iso(one.began), "scenario": one.scenario, "verdict": told}
