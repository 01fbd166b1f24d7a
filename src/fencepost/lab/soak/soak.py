"""A soak from its beginning to its verdict: break two things at a time for some minutes, then drain, and compare."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from fencepost.audit.compare import Comparison, compare_sink
from fencepost.errors import FencepostError, Unreachable, Usage
from fencepost.guarantee import Guarantee
from fencepost.lab.logs import kept_logs
from fencepost.lab.pipelines.flow import Flow
from fencepost.lab.record import History, Say, make_home
from fencepost.lab.scenario import Engine, Scenario
from fencepost.lab.scenarios.field import DATABASE, Field, door_name, opened
from fencepost.lab.soak.schedule import BROKERS, PRODUCERS, Blow, Round, Strike, rounds
from fencepost.lab.soak.tally import Tally, judged
from fencepost.lab.soak.workers import Worker, driver, producer
from fencepost.local.interrupts import terminating
from fencepost.local.stack import Node
from fencepost.machine import process

RECOVERY = 180.0  # seconds until something lands again
DRAINING = 600.0
SINKS = ("postgres", "kafka")
MOST = 20_000_000  # events, each of which is compared in memory


@dataclass(frozen=True)
class Asked:
    """What somebody wants soaked."""

    minutes: float
    seed: int
    sink: str
    engine: Engine
    rate: int

    @classmethod
    def of(cls, minutes: float, seed: int, sink: str | None, engine: Engine, rate: int) -> Asked:
        """Raises Usage for a sink that is not soaked, and for more events than the ids of which can be held."""
        if sink not in (None, *SINKS):
            raise Usage(f"--sink {sink}: it is not soaked", f"give {' or '.join(SINKS)}")
        if (events := PRODUCERS * minutes * 60 * rate) > MOST:
            raise Usage(f"{events:,.0f} events: at most {MOST:,} are compared", "give fewer minutes, or a lower --rate")
        return cls(minutes, seed, sink or SINKS[0], engine, rate)

    @property
    def command(self) -> str:
        words = ["fencepost", "lab", "soak", "--minutes", f"{self.minutes:g}", "--seed", str(self.seed)]
        return shlex.join([*words, "--sink", self.sink, "--engine", self.engine, "--rate", str(self.rate)])


def soak(asked: Asked, home: Path, say: Say) -> dict[str, Any]:
    """Raises Unreachable where the stack does not come up. Everything is gone at the end."""
    scenario = Scenario(
        name=f"soak-{asked.sink}-{asked.engine}",
        row="soak",
        fault=36,
        tells="two things are broken at a time, for minutes",
        engine=asked.engine,
        sink=asked.sink,
        guarantee=Guarantee.EXACTLY_ONCE,
        seconds=round(asked.minutes * 60),
    )
    make_home(home)
    say(f"{scenario.name}: {scenario.tells}")
    with terminating(), opened(quick=asked.engine is not Engine.SPARK) as where:
        history = History.begin(home, scenario.name, say)
        with kept_logs(where, history.folder):
            verdict = _Soak(asked, scenario, where, history).run()
    history.tell(f"{verdict['verdict'].upper()}: {verdict['reason']}", kind="verdict")
    history.end(verdict)
    return verdict


class _Soak:
    def __init__(self, asked: Asked, scenario: Scenario, where: Field, history: History) -> None:
        self._asked = asked
        self._scenario = scenario
        self._field = where
        self._history = history
        self._folder = history.folder.resolve()
        self._flow = Flow(where, self._folder, scenario, rows=asked.rate)
        self._spec = self._flow.declare(Guarantee.EXACTLY_ONCE)
        self._tally = Tally()
        lines = max(round(asked.minutes * 60 * asked.rate), asked.rate)
        made = [producer(number, lines, asked.rate, self._flow, self._folder) for number in range(PRODUCERS)]
        self._ids = [id_ for _, ids in made for id_ in ids]
        self._producers = [worker for worker, _ in made]
        self._workers = {worker.name: worker for worker in self._producers}
        self._workers["driver"] = driver(self._flow, self._spec, self._folder)

    def run(self) -> dict[str, Any]:
        trouble, result = "", Comparison(0, 0)
        try:
            try:
                self._break()
                self._let_producers_finish()
            finally:
                for worker in self._workers.values():
                    worker.kill()
            self._drain()
            result = compare_sink(self._ids, self._flow.landed())
        except FencepostError as error:
            trouble = str(error)
            self._history.tell(f"not brought to an end: {error}", kind="trouble")
        return self._verdict(result, trouble)

    def _break(self) -> None:
        self._attend()
        self._await_progress(0)
        end = monotonic() + self._asked.minutes * 60
        for number, each in enumerate(rounds(self._asked.seed), start=1):
            if monotonic() > end or all(worker.finished for worker in self._producers):
                return
            self._pause(each.pause)
            self._round(number, each)

    def _round(self, number: int, each: Round) -> None:
        began = monotonic()
        self._tally.hit += len(each.strikes) if self._waiting() else 0
        what = " and ".join(map(str, each.strikes))
        self._history.tell(f"round {number}: {what}", kind="fault", lane="brokers")
        try:
            for strike in each.strikes:
                self._strike(strike)
            for strike in sorted(each.strikes, key=lambda one: one.seconds):
                self._pause(max(began + strike.seconds - monotonic(), 0.0))
        finally:
            for strike in each.strikes:
                self._heal(strike)
        self._await_progress(self._position())
        self._tally.recoveries.append(monotonic() - began)
        self._history.tell(f"something landed again after {self._tally.recoveries[-1]:.1f} s", kind="heal")

    def _strike(self, strike: Strike) -> None:
        self._tally.blows[str(strike.blow)] += 1
        self._tally.kills += strike.blow is Blow.KILL
        if strike.blow is Blow.CUT:
            self._field.proxy.cut(DATABASE if strike.target == "postgres" else door_name(strike.target, "CLIENT"))
            return
        target = self._target(strike)
        target.kill() if strike.blow is Blow.KILL else target.stop()

    def _heal(self, strike: Strike) -> None:
        target = self._target(strike)
        if strike.blow is Blow.STOP:
            target.cont()
        elif strike.blow is Blow.KILL and isinstance(target, Node):
            target.restart()

    def _target(self, strike: Strike) -> Worker | Node:
        if strike.target in self._workers:
            return self._workers[strike.target]
        return self._field.stack.brokers[strike.target] if strike.target in BROKERS else self._field.stack.postgres

    def _attend(self) -> None:
        for worker in self._workers.values():
            if not (worker in self._producers and worker.finished):
                worker.attend()

    def _pause(self, seconds: float) -> None:
        """The schedule's, with everybody attended meanwhile."""
        end = monotonic() + seconds
        while monotonic() < end:
            self._attend()
            sleep(0.05)

    def _position(self) -> int:
        """How far the pipeline is; 0 while nobody can say."""
        with suppress(FencepostError):
            return sum(self._flow.positions().values())
        return 0

    def _waiting(self) -> bool:
        """Are there events between the producers and the sink?"""
        with suppress(FencepostError):
            return sum(self._flow.ends().values()) > self._position()
        return False

    def _await_progress(self, before: int) -> None:
        def moved() -> bool:
            self._attend()
            return self._position() > before or all(worker.finished for worker in self._producers)

        if not process.until(moved, RECOVERY, 0.1):
            raise Unreachable(f"nothing landed for {RECOVERY:.0f} s after everything was healed")

    def _let_producers_finish(self) -> None:
        self._history.tell("nothing is broken any more: the producers finish", lane="producer")

        def finished() -> bool:
            self._attend()
            return all(worker.finished for worker in self._producers)

        if not process.until(finished, self._asked.minutes * 60 + DRAINING, 0.2):
            raise Unreachable("the producers did not finish")

    def _drain(self) -> None:
        worker = driver(self._flow, self._spec, self._folder, once=True)
        try:
            worker.attend()
            if not process.until(lambda: worker.finished, DRAINING, 0.2):
                raise Unreachable("the pipeline did not drain its topic")
        finally:
            worker.kill()
        self._history.tell("the topic is drained", kind="ended", lane="driver")

    def _verdict(self, result: Comparison, trouble: str) -> dict[str, Any]:
        tally = self._tally
        judgement, reason = judged(result, tally.hit, trouble)
        return {
            "name": self._scenario.name,
            "verdict": judgement.value,
            "reason": reason,
            "seed": self._asked.seed,
            "minutes": self._asked.minutes,
            "sent": len(self._ids),
            "landed": result.landed,
            "lost": result.lost,
            "duplicated": result.duplicated,
            "phantom": result.phantom,
            "blows": dict(sorted(tally.blows.items())),
            "kills": tally.kills,
            "hit_in_flight": tally.hit,
            "bound": round(3 / tally.hit, 5) if tally.hit else None,  # of the chance that a strike harms, at 95 %
            "starts": starts(self._workers),
            "recovery_seconds": {"p50": tally.percentile(0.5), "p99": tally.percentile(0.99)},
            "seconds": round(self._history.seconds, 1),
            "command": self._asked.command,
        }


def starts(workers: Mapping[str, Worker]) -> dict[str, int]:
    """How often each was started."""
    return {name: worker.starts for name, worker in workers.items()}
