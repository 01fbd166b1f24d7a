"""The catalogue: files of rows, each of which stands for several scenarios. To add a scenario, add a row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from fencepost.errors import Usage
from fencepost.lab.scenario import Catalogue, Scenario

FOLDER = Path(__file__).parent


@cache
def catalogue() -> Catalogue:
    """All files as one. Raises pydantic's ValidationError for a row that makes no sense."""
    parts = [Catalogue.model_validate(yaml.safe_load(path.read_text())) for path in sorted(FOLDER.glob("*.yml"))]
    return Catalogue(
        faults={number: words for part in parts for number, words in part.faults.items()},
        rows=tuple(row for part in parts for row in part.rows),
        undone=tuple(one for part in parts for one in part.undone),
        compared=tuple(one for part in parts for one in part.compared),
    )


@cache
def scenarios() -> dict[str, Scenario]:
    """By name, in the order of the files."""
    return {scenario.name: scenario for row in catalogue().rows for scenario in row.scenarios()}


def chosen(names: Sequence[str], *, everything: bool = False, fault: int | None = None) -> list[Scenario]:
    """Those that are named, by their own name or by their row's; all of them; or those of one fault. Raises Usage."""
    known = scenarios().values()
    if fault is not None:
        if found := [one for one in known if one.fault == fault]:
            return found
        raise Usage(f"--fault {fault}: no scenario plays it", "see `fencepost lab list`")
    if everything:
        return list(known)
    for name in names:
        if not any(name in (one.name, one.row) for one in known):
            raise Usage(f"there is no scenario {name}", "see `fencepost lab list`")
    if not names:
        raise Usage("which scenario?", "give names, --all or --fault N; see `fencepost lab list`")
    return [one for one in known if {one.name, one.row} & set(names)]
