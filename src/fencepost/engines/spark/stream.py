"""One streaming query that delivers batches until it is drained, stopped or in trouble."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from threading import Event
from time import monotonic

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from fencepost.engines.listener import BatchDone, RenewalDue, Waiting
from fencepost.engines.spark import plan, scratch
from fencepost.engines.spark.batches import BatchCarrier
from fencepost.engines.spark.failures import SparkFailure, translated
from fencepost.engines.spark.ownership import SILENCE, Guard, OwnershipWatch, unguarded
from fencepost.engines.spark.source import KafkaSource
from fencepost.errors import Unreachable


class Stopped(Exception):
    """The run was asked to stop; raised at the start of a batch, when nothing is under way."""


@dataclass
class BatchStream:
    """One term's work."""

    carrier: BatchCarrier
    source: KafkaSource
    report: Callable[[BatchDone], None]
    tell: Callable[[Waiting], None] = lambda _: None
    guard: Guard = unguarded  # raises Fenced when another run owns the positions
    stop: Event = field(default_factory=Event)
    renew_after: float = inf  # seconds after which a ledger must hear of every position again
    trouble: BaseException | None = None
    busy: bool = False  # with a batch
    _began: float = field(default_factory=monotonic)

    def carry(self, once: bool, every: str) -> None:
        """Run until drained (once) or stopped. Raises what a batch raised, or what Spark's own failure means."""
        with scratch.subfolder("checkpoint") as checkpoint, closing(self.carrier):
            self._wait(self._start(checkpoint, once, every))

    def _start(self, checkpoint: Path, once: bool, every: str) -> StreamingQuery:
        place = f"file://{checkpoint}"  # as it is: Spark would take an escaped one for another folder
        writer = self._writer().foreachBatch(self._batch).option("checkpointLocation", place)
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()

    def _writer(self) -> DataStreamWriter:
        return self.source.stream(self.carrier.spark, self.carrier.tenure.positions).writeStream

    def _carried(self, records: DataFrame, number: int) -> BatchDone:
        return self.carrier.carry(records, number, plan.spans_of(records))

    def _wait(self, query: StreamingQuery) -> None:
        try:
            with OwnershipWatch(self.guard) as watch:
                while not query.awaitTermination(0.2):  # type: ignore[arg-type]
                    if self.stop.is_set() and not query.status["isTriggerActive"]:
                        query.stop()
                    self._heed(watch, query)
        except PySparkException as error:
            if isinstance(self.trouble, Stopped):
                return
            if self.trouble is not None:
                raise self.trouble from None  # Spark buries it in text; this is the one that was raised
            failure = translated(error)
            if not isinstance(failure, Unreachable):
                self.carrier.require_readable({})
            raise failure from error

    def _heed(self, watch: OwnershipWatch, query: StreamingQuery) -> None:
        if watch.falls_silent():
            self.tell(Waiting(f"{self.carrier.kind.capabilities.name} has not answered for {SILENCE:.0f} s", None))
        idle = not self.busy and self.trouble is None  # a batch finds out by itself
        if idle and (watch.trouble is not None or self._due):
            query.stop()
            raise watch.trouble or RenewalDue

    def _batch(self, records: DataFrame, number: int) -> None:
        self.busy = True
        try:
            self._go_on()
            done = self._carried(records, number)
            if done.positions:  # Spark begins with a batch even where there is nothing to read
                self.report(done)
        except SparkFailure as error:
            self.trouble = translated(error)
            raise RuntimeError(f"batch {number}: {type(error).__name__}") from None
        except BaseException as error:  # noqa: BLE001 (kept whole on our side: what crosses to Spark is text)
            self.trouble = error
            raise RuntimeError(f"batch {number}: {type(error).__name__}") from None
        finally:
            self.busy = False

    @property
    def _due(self) -> bool:
        return monotonic() - self._began > self.renew_after

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise Stopped
        if self._due:
            raise RenewalDue
        self.carrier.begin()
