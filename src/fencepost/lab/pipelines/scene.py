"""One trial of a pipeline: its flow, its carriers, what was seen of the fault."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import Unreachable
from fencepost.guarantee import Guarantee
from fencepost.kafka.names import group_of
from fencepost.lab.crash import CrashAction, Visit, visits
from fencepost.lab.keeper import TOKEN
from fencepost.lab.pipelines.cut_input import ROWS_AT_ONCE, CutOnce
from fencepost.lab.pipelines.executors import CLUSTER, HOME, spark_home
from fencepost.lab.pipelines.flow import LOCAL, Flow
from fencepost.lab.pipelines.news import read_news
from fencepost.lab.pipelines.plain import group_of_plain
from fencepost.lab.pipelines.theirs import TheirFlow, Theirs
from fencepost.lab.pipelines.work import ASKED_BACK, PARTITION, Gate, Work
from fencepost.lab.programs import Program, program
from fencepost.lab.record import History
from fencepost.lab.scenario import Control, Deed, Engine, Inject, Recipe, Scenario
from fencepost.lab.scenarios.field import Field

# Nothing lives long enough here for the slow compiler.
_SPARK = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_SUBMIT_ARGS": "--conf spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 pyspark-shell",
}

# The others stand still, the whole process.
_AT_THE_GATE = {
    Deed.FAIL: CrashAction.FAIL,
    Deed.CUT_INPUT: CrashAction.FAIL,
    Deed.JOIN: CrashAction.HOLD,
    Deed.OUTLAST: CrashAction.HOLD,
}


@dataclass(frozen=True)
class How:
    """What is the same in every trial of a session."""

    seed: int
    theirs: Theirs | None = None  # somebody's own pipeline


class Scene:
    """`weaker`: what is run in place of the declared guarantee; None: what is declared."""

    def __init__(
        self, field: Field, scenario: Scenario, history: History, *, run: str, weaker: Control | None, how: How
    ) -> None:
        self.field = field
        self.scenario = scenario
        self.weaker = weaker
        self.run = run
        self.folder = (history.folder / run).resolve()
        self.folder.mkdir()
        self._history = history
        self._started = 0
        draw = random.Random(how.seed)  # noqa: S311 (the same for both runs, and every time)
        self.events = 2 * draw.randrange(150, 200)
        self._batch = 1 if scenario.engine is Engine.SPARK else draw.randrange(1, 3)
        self.flow = (
            TheirFlow(field, self.folder, scenario, how.theirs) if how.theirs else Flow(field, self.folder, scenario)
        )
        self.declare()
        self.witnessed = 0
        self.in_flight = 0
        self.witness = ""
        self.before: list[int] = []  # ids that had to land before the fault, where the run has to stop at it
        self.stopped = ""

    # -- what is declared

    @property
    def guarantee(self) -> Guarantee:
        return (self.weaker and self.weaker.guarantee) or self.scenario.guarantee

    @property
    def setting(self) -> str:
        return self.weaker.setting if self.weaker else str(self.scenario.guarantee)

    @property
    def recipe(self) -> Recipe | None:
        return self.weaker.recipe if self.weaker else None

    @property
    def group(self) -> str:
        """Of consumers, whose member the run is."""
        return group_of_plain(self.flow.name) if self.recipe else group_of(self.flow.name)

    @property
    def inject(self) -> Inject:
        found = (self.weaker and self.weaker.inject) or self.scenario.inject
        assert found is not None  # noqa: S101 (a scenario without one is a story)
        return found

    def declare(self) -> None:
        strict = self.weaker is None or self.weaker.fail_on_data_loss
        if self.inject.do is Deed.CUT_INPUT:
            self.flow.spark = {**LOCAL, **ROWS_AT_ONCE}
            self.flow.cut = CutOnce(
                self.flow.columns, PARTITION, self._witness, self._delivered if self._naive else None
            )
        self.spec = self.flow.declare(self.guarantee, fail_on_data_loss=strict)

    @property
    def _naive(self) -> bool:
        return self.weaker is not None and self.weaker.takes_the_end

    @property
    def _witness(self) -> Path:
        return self.folder / "witness"

    @property
    def _delivered(self) -> Path:
        return self.folder / "delivered"

    # -- what is told

    def tell(self, text: str, kind: str = "step", lane: str = "lab", **facts: object) -> None:
        self._history.tell(text, kind=kind, lane=lane, run=self.run, **facts)

    def seen(self, what: str, in_flight: int) -> None:
        """The fault has fired, with so many events on their way."""
        self.witnessed, self.in_flight, self.witness = self.witnessed + 1, in_flight, what
        self.tell(f"{what}; {in_flight} events on their way", "fault", "driver")

    def produce(self, count: int, bad: int = 0) -> None:
        first = len(self.flow.sent)
        self.flow.produce(range(first, first + count), bad)
        more = f", and {bad} that cannot be read" if bad else ""
        self.tell(f"{count} events sent, every one acknowledged{more}", "sent", "producer", first=first, count=count)

    # -- carriers

    @property
    def gated(self) -> Gate:
        step = self.inject.step
        assert step is not None  # noqa: S101 (validated: faults at a step have one)
        action = _AT_THE_GATE.get(self.inject.do, CrashAction.STOP)
        return Gate(
            step=step,
            partition=ASKED_BACK if action is CrashAction.HOLD else PARTITION,
            time=self.inject.batch or self._batch,
            action=action,
            witness=self._witness,
        )

    @contextmanager
    def carrier(self, gate: Gate | None = None) -> Iterator[Program]:
        """A process that drains the topic; it does not outlive the block."""
        self._started += 1
        plain = self.weaker if self.recipe else None
        if plain and self._started == 1:  # as if it had been there before the first record
            plain = plain.model_copy(update={"start": "earliest"})
        cut, late = (self.inject.do is deed for deed in (Deed.CUT_INPUT, Deed.LATE))
        work = Work(
            spec=self.spec,
            news=self.news,
            once=not (late and gate),  # whoever ends has left its group, which takes no late word of it
            gate=None if cut else gate,
            plain=plain,
            naive=self._delivered if self._naive else None,
        )
        scratch = self.folder / f"scratch-{self._started}"
        environment = {TOKEN: self.field.token, "TMPDIR": str(scratch), **_SPARK}
        if self.inject.do is Deed.KILL_EXECUTOR:  # the next run needs none that die
            self.flow.spark = CLUSTER if gate else LOCAL
            self.declare()
            environment |= spark_home(self.folder) if gate else {}
        module = f"fencepost.lab.pipelines.{self.recipe or 'carrier'}"
        log = self.folder / f"driver-{self._started}.log"
        words = [work.model_dump_json()]
        if self.recipe is Recipe.NATIVE:
            words = [str(self.spec), f"file://{self.checkpoint}", str(self.events)]
        try:
            with program(module, words, log, environment) as running:
                yield running
        finally:
            shutil.rmtree(self.folder / HOME, ignore_errors=True)  # what executors have copied there

    @property
    def checkpoint(self) -> Path:
        """Of what people use on Spark; a pipeline's own is thrown away with its run."""
        return self.folder / "checkpoint"

    @property
    def news(self) -> Path:
        return self.folder / f"news-{self._started}.jsonl"

    def acted(self) -> Visit | None:
        """Who came to the gate, and stood still or failed there."""
        return next((visit for visit in visits(self._witness) if visit.acted), None)

    def drain(self, who: str) -> None:
        """A run from what is stored to the end. One that stops with an error is `stopped`."""
        with self.carrier() as running:
            code = running.ended()
        failed = read_news(self.news, "failed")
        self.stopped = failed[-1]["error"] if failed else ""
        if code and not failed:
            raise Unreachable(f"{who} ended with {code}", f"see {self.folder}")
        told = f"{who} stopped: {failed[-1]['message']}" if failed else f"{who} has drained the topic"
        self.tell(told, "ended", "driver", code=code, rows=self.rows_told())

    def rows_told(self) -> int:
        return sum(one["rows"] for one in read_news(self.news, "batch"))

    def dead(self) -> int:
        """Dead letters that the carriers told of."""
        return sum(one["dead"] for path in self.folder.glob("news-*.jsonl") for one in read_news(path, "batch"))
