"""The run loop of a pipeline, and the only place that retries.

Trouble ends the engine's work; the next try starts from the ledger, on the same path as after a crash.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Protocol
from uuid import UUID, uuid4

from pydantic import ValidationError

from fencepost.delivery import Ledger, Observer, nobody
from fencepost.errors import FencepostError, Rewound, Unknown, Unreachable, Usage
from fencepost.model import Landed, Tenure, TopicPartition
from fencepost.news import BatchDone, Listener, PartitionsAdded, Started, Waiting, unheard
from fencepost.spec import PipelineSpec, load

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
ONCE_GIVES_UP_AFTER = 300.0  # seconds without a batch; a run that goes on for ever never gives up


class Engine(Protocol):
    """What carries batches. Opened for one run; everything that can be checked is checked when it opens."""

    @property
    def ledger(self) -> Ledger: ...

    def positions(self, stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Every partition of the topic with its stored position, or with the one to start at.

        Raises PositionLost where what is stored does not fit what the topic holds now.
        """

    def topic_ids(self) -> Mapping[str, str]: ...

    def carry(self, tenure: Tenure, once: bool, report: Callable[[BatchDone | Waiting], None]) -> None:
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
        spec: PipelineSpec | Mapping[str, Any] | Path | str,
        listen: Listener = unheard,
        see: Observer = nobody,
        engine: EngineMaker | None = None,
    ) -> None:
        self.spec = _spec(spec)
        self._listen = listen
        self._see = see
        self._engine = engine or _spark
        self._stop = Event()

    def stop(self) -> None:
        """Finish the batch that is under way, then return from `run`. Safe in a signal handler."""
        self._stop.set()

    def run(self, once: bool = False) -> Summary:
        """Carry what is there (once), or go on until stopped. Raises Fenced when another run takes over."""
        summary = Summary()
        with self._engine(self.spec, self._stop, self._see) as engine:
            tenure = self._take_over(engine)
            summary.positions.update(tenure.positions)
            patience = _Patience(ONCE_GIVES_UP_AFTER if once else None)

            def hear(news: BatchDone | Waiting) -> None:
                if isinstance(news, BatchDone):
                    patience.renew()
                    summary.add(news)
                self._listen(news)

            first, runs = dict(tenure.positions), [tenure.run]
            while not self._stop.is_set():
                try:
                    self._listen(Started(tenure.run, tenure.epoch, tenure.positions))
                    engine.carry(tenure, once, hear)
                    break
                except (Unreachable, Unknown, Rewound) as trouble:
                    self._wait(patience, trouble)
                except PartitionsAdded:
                    pass
                summary.restarts += 1
                tenure = self._resume(engine, tenure, patience)
                first, runs = {**tenure.positions, **first}, [*runs, tenure.run]
            summary.settle(engine.landed(runs, first))
        return summary

    def _take_over(self, engine: Engine) -> Tenure:
        first = engine.positions(engine.ledger.positions(self.spec.name))
        return engine.ledger.take_over(self.spec.name, uuid4(), first, engine.topic_ids())

    def _resume(self, engine: Engine, tenure: Tenure, patience: _Patience) -> Tenure:
        """The same run under a new token, as soon as the ledger answers; Fenced if another took over meanwhile."""
        token = uuid4()
        while True:
            try:
                return self._renewed(engine, tenure, token)
            except (Unreachable, Unknown) as trouble:
                if self._stop.is_set():
                    return tenure
                self._wait(patience, trouble)

    def _renewed(self, engine: Engine, tenure: Tenure, token: UUID) -> Tenure:
        renewed = engine.ledger.renew(tenure, token)
        every = engine.positions(renewed.positions)
        new = {partition: first for partition, first in every.items() if partition not in renewed.positions}
        if not new:
            return renewed
        added = engine.ledger.take_over(tenure.pipeline, token, new, engine.topic_ids())
        return Tenure(tenure.pipeline, token, added.epoch, {**renewed.positions, **added.positions})

    def _wait(self, patience: _Patience, trouble: FencepostError) -> None:
        seconds = patience.next_wait(trouble)
        self._listen(Waiting(str(trouble), seconds))
        self._stop.wait(seconds)


class _Patience:
    """How long to wait before the next try, and when to give up."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self.renew()

    def renew(self) -> None:
        """Something landed: whatever was wrong is over."""
        self._tries = 0
        self._since: float | None = None

    def next_wait(self, trouble: FencepostError) -> float:
        """Seconds, doubling up to a limit, a little by chance. Raises the trouble itself when time is up."""
        now = monotonic()
        self._since = now if self._since is None else self._since
        if self._limit is not None and now - self._since > self._limit:
            raise trouble
        self._tries += 1
        longest: float = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(self._tries, 10))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 (not a secret)


def _spec(given: PipelineSpec | Mapping[str, Any] | Path | str) -> PipelineSpec:
    if isinstance(given, PipelineSpec):
        return given
    if isinstance(given, Mapping):
        try:
            return PipelineSpec.model_validate(given)
        except ValidationError as error:
            raise Usage(f"the pipeline is not declared right: {error}") from error
    return load(Path(given))


def _spark(spec: PipelineSpec, stop: Event, see: Observer) -> AbstractContextManager[Engine]:
    from fencepost.spark.engine import open_engine

    return open_engine(spec, stop, see)
