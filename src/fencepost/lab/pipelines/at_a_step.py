"""Faults at a step of a batch: the run stands still there, the fault is done to it, and undone whatever happens."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Mapping
from typing import Protocol

from fencepost.lab.crash import CrashAction, standing
from fencepost.lab.pipelines.executors import executor_of
from fencepost.lab.pipelines.joining import Join, Outlast
from fencepost.lab.pipelines.late import Late
from fencepost.lab.pipelines.scene import Scene
from fencepost.lab.programs import PATIENCE, Program
from fencepost.lab.proxy import Rule, RuleId
from fencepost.lab.scenario import Deed
from fencepost.lab.scenarios.field import DATABASE
from fencepost.machine import process
from fencepost.machine.counting import count

MORE = 50  # events that are sent after the fault
SLOW = 8.0  # seconds


class Fault(Protocol):
    """What is done to a run that stands still at its gate."""

    def inject(self, scene: Scene, running: Program) -> None: ...

    def heal(self, scene: Scene, running: Program) -> None:
        """Called whatever happened; may be called when nothing was injected."""


class Kill:
    """Its whole tree, with -9."""

    def inject(self, scene: Scene, running: Program) -> None:
        killed = count(running.kill_tree(), "process", "processes")
        scene.tell(f"killed with -9 ({killed})", "fault", "driver")

    def heal(self, scene: Scene, running: Program) -> None:
        pass  # it is gone


class LoseCheckpoint(Kill):
    """The same, and Spark's checkpoint of that run is removed."""

    def inject(self, scene: Scene, running: Program) -> None:
        there = [*scene.folder.glob("scratch-*/fencepost-*/checkpoint-*/offsets/[0-9]*")]
        super().inject(scene, running)
        scene.witnessed = min(1, len(there))
        for scratch in scene.folder.glob("scratch-*"):
            shutil.rmtree(scratch)
        planned = count(len(there), "batch", "batches")
        scene.tell(f"its checkpoint removed, with {planned} planned in it", "fault", "driver")


class Stall:
    """It stands still while another run takes over and finishes; then it goes on as if nothing had been."""

    def inject(self, scene: Scene, running: Program) -> None:
        running.stop_tree()
        scene.tell("stands still, every process of it", "fault", "driver")
        scene.drain("its successor")

    def heal(self, scene: Scene, running: Program) -> None:
        running.go_on()
        scene.tell(f"it went on, and ended with {running.ended()}", "heal", "driver")


class Fail:
    """The attempt has failed at the gate; the process lives on and tries again."""

    def inject(self, scene: Scene, running: Program) -> None:
        pass

    def heal(self, scene: Scene, running: Program) -> None:
        scene.tell(f"it tried again, and ended with {running.ended()}", "heal", "driver")


class KillExecutor:
    """With -9, while its worker stands in a task; Spark gives that to another one. Then the worker goes on."""

    def __init__(self) -> None:
        self._worker: process.Identity | None = None

    def inject(self, scene: Scene, running: Program) -> None:  # noqa: ARG002
        visit = scene.acted()
        scene.witnessed = 0
        if visit is not None:
            self._worker, executor = process.identify(visit.pid), executor_of(visit.pid)
            process.send(executor, signal.SIGKILL)
            scene.witnessed = int(process.until(lambda: not process.alive(executor), PATIENCE))
            scene.tell("the executor killed with -9", "fault", "driver")

    def heal(self, scene: Scene, running: Program) -> None:
        scene.tell(f"the run ended with {running.ended()}", "heal", "driver")
        if (worker := self._worker) is not None:
            process.send(worker, signal.SIGCONT)
            process.until(lambda: not process.alive(worker), PATIENCE)
            scene.tell("what was left of the task went on, and ended", "heal", "driver")


class Cut:
    """The next request of a kind, or its answer: the connection is reset there."""

    def __init__(self) -> None:
        self._rule: RuleId | None = None

    def inject(self, scene: Scene, running: Program) -> None:
        self._rule = scene.field.proxy.add(rule_of(scene))
        scene.tell(
            f"{scene.inject.request}: {'its answer' if scene.inject.answer else 'it'} will be cut", lane="brokers"
        )
        running.go_on()
        proxy = scene.field.proxy
        fired = running.wait_for(lambda: self._rule is not None and proxy.witness(self._rule).hits > 0)
        scene.witnessed = int(fired or proxy.witness(self._rule).hits > 0)
        if scene.witnessed:
            scene.tell(f"{scene.inject.request} was cut", "fault", "sink")

    def heal(self, scene: Scene, running: Program) -> None:
        if self._rule is not None:
            scene.field.proxy.release(self._rule)
        running.go_on()
        scene.tell(f"the line is whole; the run ended with {running.ended()}", "heal", "sink")


class KillDatabase:
    """PostgreSQL is killed with -9 under the run, and started again."""

    def inject(self, scene: Scene, running: Program) -> None:  # noqa: ARG002
        scene.field.stack.postgres.kill()
        scene.tell("PostgreSQL killed with -9", "fault", "sink")

    def heal(self, scene: Scene, running: Program) -> None:
        scene.field.stack.postgres.restart()
        running.go_on()
        scene.tell(f"PostgreSQL is back; the run ended with {running.ended()}", "heal", "sink")


class StopDatabase:
    """PostgreSQL stands still under the run for a while, and goes on."""

    def inject(self, scene: Scene, running: Program) -> None:
        scene.field.stack.postgres.stop()
        running.go_on()
        scene.tell(f"PostgreSQL stands still for {SLOW:.0f} s", "fault", "sink")
        process.until(lambda: running.code is not None, SLOW)  # the length of the fault, not a wait for anything

    def heal(self, scene: Scene, running: Program) -> None:
        scene.field.stack.postgres.cont()
        running.go_on()
        scene.tell(f"PostgreSQL goes on; the run ended with {running.ended()}", "heal", "sink")


FAULTS: Mapping[Deed, Callable[[], Fault]] = {
    Deed.KILL: Kill,
    Deed.LOSE_CHECKPOINT: LoseCheckpoint,
    Deed.STALL: Stall,
    Deed.FAIL: Fail,
    Deed.CUT_INPUT: Fail,
    Deed.LATE: Late,
    Deed.KILL_EXECUTOR: KillExecutor,
    Deed.JOIN: Join,
    Deed.OUTLAST: Outlast,
    Deed.CUT: Cut,
    Deed.KILL_DATABASE: KillDatabase,
    Deed.STOP_DATABASE: StopDatabase,
}


def rule_of(scene: Scene) -> Rule:
    """In the lab's proxy: only this pipeline's clients use it now, and Kafka's have its name."""
    inject = scene.inject
    request = inject.request or ""
    kafka = request.startswith("api:")
    given = {
        "action": "reset",
        "direction": "response" if inject.answer else "request",
        "request": request,
        "count": 1,
        "skip": inject.skip,
        "client": scene.flow.name if kafka else None,
        "listener": None if kafka else DATABASE,
        "after_bytes": inject.after_bytes,
    }
    return Rule.from_json({name: value for name, value in given.items() if value is not None})


def play_at_a_step(scene: Scene) -> None:
    """Send, run up to the gate, break, heal, send more, and drain."""
    scene.produce(scene.events)
    fault, gate = FAULTS[scene.inject.do](), scene.gated
    with scene.carrier(gate) as running:
        stops = gate.action is CrashAction.STOP
        there = running.wait_for(lambda: standing(gate.witness) if stops else scene.acted() is not None)
        visit = scene.acted()
        if there and visit is not None:
            scene.seen(visit.where, visit.offsets)
            try:
                fault.inject(scene, running)
            finally:
                fault.heal(scene, running)
        else:
            scene.tell(f"it ended with {running.ended()} before it came to its gate", "ended", "driver")
    scene.produce(MORE)
    scene.drain("the next run")
