"""The run loop of a pipeline, and the only place that retries.

Trouble ends the engine's work; the next try starts from the ledger, on the same path as after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Protocol
from uuid import UUID, uuid4

from fencepost.delivery import Ledger, Observer, nobody
from fencepost.engines.backoff import Backoff
from fencepost.engines.listener import (
    BatchDone,
    Left,
    Listener,
    News,
    PartitionsAdded,
    Skipped,
    Started,
    Waiting,
    unheard,
)
from fencepost.errors import FencepostError, RecordsGone, Rewound, Unknown, Unreachable
from fencepost.model import Landed, Tenure, TopicPartition
from fencepost.rules.findings import require
from fencepost.rules.reader import reader_findings
from fencepost.run.standby import stand_by
from fencepost.spec import Declared, EngineName, PipelineSpec, spec_of


class Engine(Protocol):
    """What carries batches. Opened for one run; everything that can be checked is checked when it opens."""

    @property
    def ledger(self) -> Ledger: ...

    def positions(self, stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Every partition of the topic with its stored position, or with the one to start at.

        Raises PositionLost where what is stored does not fit what the topic holds now, or is of another topic.
        """

    def topic_ids(self) -> Mapping[str, str]: ...

    def carry(self, tenure: Tenure, once: bool, report: Listener) -> None:
        """Carry batches until drained (once) or stopped. Raises what went wrong, PartitionsAdded between batches."""

    def landed(self, runs: Collection[UUID], first: Mapping[TopicPartition, int]) -> Landed | None:
        """What these tokens committed from there on, told by the ledger; None where it cannot tell."""


EngineMaker = Callable[[PipelineSpec, Event, Observer], AbstractContextManager[Engine]]


@dataclass
class Summary:
    """What a run did, from its start to its end."""

    batches: int = 0
    rows: int = 0
    dead: int = 0
    restarts: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    left: Left | None = None  # waits in partitions of other members, when the run was to carry what there is
    gaps: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)  # where each ends: one may be told twice

    @property
    def skipped(self) -> int:
        """Offsets that were gone before they were read."""
        return sum(end - start for (_, start), end in self.gaps.items())

    def add(self, done: BatchDone) -> None:
        self.batches += 1
        self.rows += done.rows
        self.dead += done.dead
        self.positions.update(done.positions)

    def settle(self, landed: Landed | None) -> None:
        """Count what was committed in attempts that failed afterwards too: no batch told of it."""
        if landed is not None:
            self.rows, self.dead = landed.rows, landed.dead


class Pipeline:
    """A declared pipeline, ready to run: `Pipeline("fencepost.yml").run(once=True)`."""

    def __init__(
        self,
        spec: Declared,
        listen: Listener = unheard,
        see: Observer = nobody,
        engine: EngineMaker | None = None,
        stop: Event | None = None,
    ) -> None:
        self.spec = spec_of(spec)
        self._listen = listen
        self._see = see
        self._engine = engine or _engine
        self._stop = stop or Event()

    def stop(self) -> None:
        """Finish the batch that is under way, then return from `run`. Safe in a signal handler."""
        self._stop.set()

    def run(self, once: bool = False, standby: bool = False) -> Summary:
        """Carry what is there (once), or go on until stopped. Raises Fenced when another run takes over.

        `standby`: begins when no other run of the pipeline is alive.
        """
        require(self.spec.guarantee, reader_findings(self.spec.reader_settings))
        if standby:
            stand_by(self.spec, self._stop, self._listen)
        summary = Summary()
        if self._stop.is_set():
            return summary
        with self._engine(self.spec, self._stop, self._see) as engine:
            tenure = self._take_over(engine)
            summary.positions.update(tenure.positions)
            backoff = Backoff(once)

            def hear(news: News) -> None:
                if isinstance(news, BatchDone):
                    backoff.renew()
                    summary.add(news)
                if isinstance(news, Skipped):
                    summary.gaps[news.partition, news.span.start] = news.span.end
                if isinstance(news, Left):
                    summary.left = news
                self._listen(news)

            first, runs, gap = dict(tenure.positions), [tenure.token], ""
            while not self._stop.is_set():
                try:
                    if tenure.positions:  # a member of a group tells by itself what it was given
                        self._listen(Started(tenure.token, tenure.epoch, tenure.positions))
                    engine.carry(tenure, once, hear)
                    break
                except (Unreachable, Unknown, Rewound) as trouble:
                    self._wait(backoff, trouble)
                except PartitionsAdded:
                    pass
                except RecordsGone as gone:
                    if self.spec.source.fail_on_data_loss:
                        raise
                    if gone.message == gap:  # it did not get over them: not again without a pause
                        self._wait(backoff, gone)
                    else:
                        self._listen(Waiting(gone.message, 0.0))  # the next try begins behind them
                    gap = gone.message
                summary.restarts += 1
                tenure = self._resume(engine, tenure, first, backoff)
                first = {at: min(position, first.get(at, position)) for at, position in tenure.positions.items()}
                runs.append(tenure.token)
            summary.settle(engine.landed(runs, first))
        return summary

    def _take_over(self, engine: Engine) -> Tenure:
        first = engine.positions(engine.ledger.positions(self.spec.name))
        return engine.ledger.take_over(self.spec.name, uuid4(), first, engine.topic_ids())

    def _resume(self, engine: Engine, tenure: Tenure, first: Mapping[TopicPartition, int], backoff: Backoff) -> Tenure:
        """The same run under a new token, as soon as the ledger answers; Fenced if another took over meanwhile.

        `first`: where the run began. What the ledger has forgotten is begun there again, not where it would begin now.
        """
        token = uuid4()
        while True:
            try:
                return self._renewed(engine, tenure, first, token)
            except (Unreachable, Unknown) as trouble:
                if self._stop.is_set():
                    return tenure
                self._wait(backoff, trouble)

    def _renewed(self, engine: Engine, tenure: Tenure, first: Mapping[TopicPartition, int], token: UUID) -> Tenure:
        renewed = engine.ledger.renew(tenure, token)
        every = engine.positions(renewed.positions)
        new = {at: first.get(at, position) for at, position in every.items() if at not in renewed.positions}
        if not new:
            return renewed
        added = engine.ledger.take_over(tenure.pipeline, token, new, engine.topic_ids())
        return replace(renewed, epoch=added.epoch, positions={**renewed.positions, **added.positions})

    def _wait(self, backoff: Backoff, trouble: FencepostError) -> None:
        seconds = backoff.next_wait(trouble)
        self._listen(Waiting(str(trouble), seconds))
        self._stop.wait(seconds)


def _engine(spec: PipelineSpec, stop: Event, see: Observer) -> AbstractContextManager[Engine]:
    match spec.engine:
        case EngineName.SPARK:
            from fencepost.engines.spark.engine import open_engine as open_spark

            return open_spark(spec, stop, see)
        case EngineName.PYTHON:
            from fencepost.engines.python.engine import open_engine as open_python

            return open_python(spec, stop, see)
