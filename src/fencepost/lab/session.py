"""Scenarios played one after the other: guarded, then the control, then the verdict, each with a folder of its own.

Those of one session that have the same control share it: it is played once, and each verdict says in which run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fencepost.errors import FencepostError
from fencepost.lab.judge import Trial, Verdict, judge
from fencepost.lab.logs import kept_logs
from fencepost.lab.pipelines.scene import How, Scene
from fencepost.lab.pipelines.trial import trial_of
from fencepost.lab.record import History, Say, make_home
from fencepost.lab.scenario import Engine, Recipe, Scenario
from fencepost.lab.scenarios.field import Field, opened
from fencepost.local.interrupts import terminating

Controls = dict[str, Trial]


@dataclass(frozen=True)
class Played:
    """One scenario's end."""

    scenario: Scenario
    verdict: Verdict
    guarded: Trial
    control: Trial
    seconds: float
    how: How
    folder: Path

    @property
    def command(self) -> str:
        """Runs the very same again."""
        words = ["fencepost", "lab", "run", self.scenario.name, "--seed", str(self.how.seed)]
        return shlex.join([*words, *(self.how.theirs.words if self.how.theirs else ())])

    def as_json(self) -> dict[str, Any]:
        scenario = self.scenario
        return {
            "name": scenario.name,
            "verdict": self.verdict.judgement.value,
            "reason": self.verdict.reason,
            "fault": scenario.fault,
            "tells": scenario.tells,
            "guarantee": scenario.guarantee.value,
            "engine": scenario.engine.value,
            "sink": scenario.sink,
            "witness": {
                "fired": self.guarded.witnessed,
                "in_flight": self.guarded.in_flight,
                "what": self.guarded.witness,
            },
            "guarded": self.guarded.as_json(),
            "control": self.control.as_json(),
            "seconds": round(self.seconds, 1),
            "seed": self.how.seed,
            "command": self.command,
            **({"pipeline": self.how.theirs.spec.name} if self.how.theirs else {}),
            "run": self.folder.name,
        }


class Session:
    """The stacks of the scenarios that are played in it: one for all that go together, as a start takes 10 s.

    Spark's has the brokers' own timeouts, the other one short ones; only one of them is up at a time.
    """

    def __init__(self, home: Path, say: Say, how: How) -> None:
        self._home = home
        self._say = say
        self._how = how
        self._up: ExitStack | None = None
        self._field: Field | None = None
        self._quick: bool | None = None
        self._controls: Controls = {}

    def play(self, scenarios: Sequence[Scenario]) -> Generator[Played]:
        """One after the other, those that share a stack together; everything is gone at the end. Close it."""
        make_home(self._home)
        with terminating():
            try:
                for number, scenario in enumerate(sorted(scenarios, key=lambda one: one.engine is Engine.SPARK), 1):
                    self._say(f"{number} of {len(scenarios)}: {scenario.name}: {scenario.tells}")
                    yield self._play(scenario)
            finally:
                self._down()

    def _play(self, scenario: Scenario) -> Played:
        field = self._field_for(scenario)
        history = History.begin(self._home, scenario.name, self._say)
        with kept_logs(field, history.folder):
            guarded, control = trials(field, scenario, history, self._how, self._controls)
        verdict = judge(scenario.guarantee, guarded, control, scenario.must_stop)
        played = Played(scenario, verdict, guarded, control, history.seconds, self._how, history.folder)
        history.tell(f"{verdict.judgement.upper()}: {verdict.reason}", kind="verdict")
        history.end(played.as_json())
        return played

    def _field_for(self, scenario: Scenario) -> Field:
        """The stack that is up, if it fits and is whole."""
        quick = scenario.engine is not Engine.SPARK
        if self._field is not None and self._quick is quick and whole(self._field):
            return self._field
        self._down()
        self._say(f"a stack of its own: one controller, three brokers{', short timeouts' if quick else ''}, PostgreSQL")
        self._up = ExitStack()
        self._quick = quick
        self._field = self._up.enter_context(opened(quick=quick))
        return self._field

    def _down(self) -> None:
        up, self._up, self._field = self._up, None, None
        if up is not None:
            up.close()


def trials(
    field: Field, scenario: Scenario, history: History, how: How, controls: Controls | None = None
) -> tuple[Trial, Trial]:
    """Guarded and control; a control that was played already for another scenario is not played again."""
    if scenario.story:
        return _told(field, scenario, history)
    controls = {} if controls is None else controls
    guarded = _tried(field, scenario, history, "guarded", how)
    same = _control_of(scenario, how.seed)
    if same in controls:
        history.tell(f"the control is that of {controls[same].of}", run="control")
        return guarded, controls[same]
    control = replace(_tried(field, scenario, history, "control", how), of=history.folder.name)
    if not control.trouble:
        controls[same] = control
    return guarded, control


def _tried(field: Field, scenario: Scenario, history: History, run: str, how: How) -> Trial:
    weaker = scenario.control if run == "control" else scenario.instead
    try:
        return trial_of(Scene(field, scenario, history, run=run, weaker=weaker, how=how))
    except FencepostError as error:  # before anything was sent
        return Trial(str(scenario.guarantee), trouble=str(error))
    finally:
        field.proxy.clear()


def _told(field: Field, scenario: Scenario, history: History) -> tuple[Trial, Trial]:
    from fencepost.lab.telling import told

    try:
        return told(field, scenario, history)
    except FencepostError as error:
        history.tell(f"not brought to an end: {error}", kind="trouble")
        return Trial(str(scenario.guarantee), trouble=str(error)), Trial("")
    finally:
        field.proxy.clear()


def _control_of(scenario: Scenario, seed: int) -> str:
    """Everything on which a control depends."""
    control = scenario.control
    assert control is not None  # noqa: S101 (validated: what is no story has one)
    inject = control.inject or scenario.inject
    parts = (scenario.engine, scenario.sink, control.model_copy(update={"inject": inject}), scenario.dead_letters, seed)
    # what people use on Spark is played in one way only
    return repr(parts if control.recipe is not Recipe.NATIVE else (scenario.sink, Recipe.NATIVE, seed))


def whole(field: Field) -> bool:
    """Is every process of the stack alive, so that the next scenario may use it?"""
    nodes: Sequence[Any] = [*field.stack.brokers.values(), field.stack.postgres]
    alive: Callable[[Any], bool] = lambda node: bool(node.alive)  # noqa: E731
    return all(map(alive, nodes))
