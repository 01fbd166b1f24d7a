"""What people use instead, beside ours: the same fault, one after the other, on one stack."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fencepost.errors import FencepostError, Usage
from fencepost.guarantee import Guarantee, Ruling
from fencepost.lab.catalogue import catalogue
from fencepost.lab.judge import Judgement, Trial
from fencepost.lab.logs import kept_logs
from fencepost.lab.pipelines.scene import How, Scene
from fencepost.lab.pipelines.trial import trial_of
from fencepost.lab.record import History, Say, make_home
from fencepost.lab.scenario import Beside, Control, Engine, Scenario
from fencepost.lab.scenarios.field import Field, opened
from fencepost.local.interrupts import terminating

_OURS = "fencepost, exactly-once"


def beside(engine: Engine, sink: str) -> Beside:
    """Raises Usage where nothing is compared."""
    known = catalogue().compared
    for one in known:
        if one.engine is engine and sink in one.sink:
            return one
    there = "; ".join(f"engine {one.engine}: {', '.join(one.sink)}" for one in known)
    raise Usage(f"engine {engine}, sink {sink}: nothing is compared there", there)


def compare(engine: Engine, sink: str, how: How, home: Path, say: Say) -> dict[str, Any]:
    """Ours first, then the others. Raises Unreachable where the stack does not come up."""
    what = beside(engine, sink)
    scenario = Scenario(
        name=f"compare-{sink}-{engine}",
        row="compare",
        fault=7,
        tells=what.tells,
        engine=engine,
        sink=sink,
        guarantee=Guarantee.EXACTLY_ONCE,
        seconds=60,
        inject=what.ours,
    )
    make_home(home)
    say(f"{scenario.name}: {scenario.tells}")
    with terminating(), opened(quick=engine is not Engine.SPARK) as field:
        history = History.begin(home, scenario.name, say)
        with kept_logs(field, history.folder):
            trials = list(_trials(field, scenario, history, what.others, how))
    told = _told(scenario, trials, how, history)
    history.tell(f"{told['verdict'].upper()}: {told['reason']}", kind="verdict")
    history.end(told)
    return told


def _trials(field: Field, scenario: Scenario, history: History, others: Sequence[Control], how: How) -> Iterator[Trial]:
    for number, other in enumerate((None, *others)):
        run = f"other-{number}" if other else "fencepost"
        try:
            trial = trial_of(Scene(field, scenario, history, run=run, weaker=other, how=how))
            yield trial if other else replace(trial, setting=_OURS)
        except FencepostError as error:  # before anything was sent
            yield Trial(other.setting if other else _OURS, trouble=str(error))
        finally:
            field.proxy.clear()


def _told(scenario: Scenario, trials: Sequence[Trial], how: How, history: History) -> dict[str, Any]:
    judgement, reason = concluded(trials)
    words = ["fencepost", "lab", "compare", "--engine", scenario.engine.value, "--sink", scenario.sink]
    return {
        "name": scenario.name,
        "verdict": judgement.value,
        "reason": reason,
        "tells": scenario.tells,
        "trials": [trial.as_json() for trial in trials],
        "seed": how.seed,
        "seconds": round(history.seconds, 1),
        "command": shlex.join([*words, "--seed", str(how.seed)]),
    }


def concluded(trials: Sequence[Trial]) -> tuple[Judgement, str]:
    """Of ours; the others are only told, but each of them has to have been hit."""
    ours = trials[0]
    if found := ours.found(Guarantee.EXACTLY_ONCE, Ruling.FORBIDDEN):
        return Judgement.BROKEN, f"ours: {', '.join(f'{code} {count:,}' for code, count in found.items())}"
    if why := next((why for trial in trials if (why := trial.unfinished())), ""):
        return Judgement.INCONCLUSIVE, why
    if unseen := next((trial.setting for trial in trials if not (trial.witnessed and trial.in_flight)), ""):
        return Judgement.VACUOUS, f"{unseen}: the fault was not seen to hit anything"
    return Judgement.HOLDS, "ours lost nothing and doubled nothing"
