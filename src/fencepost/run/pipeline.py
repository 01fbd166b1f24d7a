"""A pipeline, ready to run: its engine, under one tenure after the other, in the run loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from threading import Event
from typing import Protocol
from uuid import UUID, uuid4

from fencepost.delivery import Ledger, Observer, nobody
from fencepost.engines.listener import Listener, Started, unheard
from fencepost.engines.renewal import renewed
from fencepost.model import Landed, Tenure, TopicPartition
from fencepost.rules.findings import require
from fencepost.rules.reader import reader_findings
from fencepost.run.loop import RunLoop, Summary
from fencepost.run.standby import stand_by
from fencepost.spec import Declared, EngineName, PipelineSpec, spec_of


class Engine(Protocol):
    """What delivers batches. Opened for one run; everything that can be checked is checked when it opens."""

    @property
    def ledger(self) -> Ledger: ...

    def positions(self, stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Every partition of the topic with its stored position, or with the one to start at.

        Raises PositionLost where what is stored does not fit what the topic holds now, or is of another topic.
        """

    def topic_ids(self) -> Mapping[str, str]: ...

    def carry(self, tenure: Tenure, once: bool, report: Listener) -> None:
        """Deliver batches until drained (once) or stopped. Raises what went wrong, PartitionsAdded between batches."""

    def landed(self, runs: Collection[UUID], first: Mapping[TopicPartition, int]) -> Landed | None:
        """What these tokens committed from there on, told by the ledger; None where it cannot tell."""


EngineMaker = Callable[[PipelineSpec, Event, Observer], AbstractContextManager[Engine]]


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
        """Drain and return (once), or run until stopped. Raises Fenced when another run takes over.

        `standby`: waits until no other run of the pipeline is alive.
        """
        require(self.spec.guarantee, reader_findings(self.spec.reader_settings))
        if standby:
            stand_by(self.spec, self._stop, self._listen)
        if self._stop.is_set():
            return Summary()
        loop = RunLoop(once, self._stop, self._listen, skip_gone=not self.spec.source.fail_on_data_loss)
        with self._engine(self.spec, self._stop, self._see) as engine:
            owner = _Owner(engine, self.spec.name)
            loop.summary.positions.update(owner.tenure.positions)
            return loop.run(owner)


class _Owner:
    """The engine's attempts: the first takes the pipeline over, each further one renews its token."""

    def __init__(self, engine: Engine, pipeline: str) -> None:
        self._engine = engine
        first = engine.positions(engine.ledger.positions(pipeline))
        self.tenure = engine.ledger.take_over(pipeline, uuid4(), first, engine.topic_ids())
        self._first = dict(self.tenure.positions)  # where the run began
        self._tokens = [self.tenure.token]
        self._token = uuid4()  # of the next attempt; known before it is asked for, so that asking can be repeated

    def carry(self, once: bool, report: Listener) -> None:
        if self.tenure.positions:  # a member of a group tells by itself what it was given
            report(Started(self.tenure.token, self.tenure.epoch, self.tenure.positions))
        self._engine.carry(self.tenure, once, report)

    def renew(self) -> None:
        self.tenure = self._renewed()
        self._first = {at: min(to, self._first.get(at, to)) for at, to in self.tenure.positions.items()}
        self._tokens.append(self.tenure.token)
        self._token = uuid4()

    def _renewed(self) -> Tenure:
        """The same run under a new token; Fenced if another took over meanwhile.

        What the ledger has forgotten is begun where the run began, not where it would begin now.
        """

        def every(stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            return {at: self._first.get(at, to) for at, to in self._engine.positions(stored).items()}

        return renewed(self._engine.ledger, self.tenure, self._token, every, self._engine.topic_ids())

    def landed(self) -> Landed | None:
        return self._engine.landed(self._tokens, self._first)


def _engine(spec: PipelineSpec, stop: Event, see: Observer) -> AbstractContextManager[Engine]:
    match spec.engine:
        case EngineName.SPARK:
            from fencepost.engines.spark.engine import open_engine as open_spark

            return open_spark(spec, stop, see)
        case EngineName.PYTHON:
            from fencepost.engines.python.engine import open_engine as open_python

            return open_python(spec, stop, see)
