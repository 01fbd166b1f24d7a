"""What runs in a Spark task: one Kafka partition's rows, delivered through the sink's direct path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext

from fencepost.delivery import Observer, deliver, nobody
from fencepost.engines.spark.excluded import Letters
from fencepost.engines.spark.input_guard import GUARD
from fencepost.engines.spark.plan import TaskSpans
from fencepost.engines.spark.secrets import TaskTarget
from fencepost.errors import FencepostError, InputCut
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Tenure, TopicPartition
from fencepost.rows.shape import RowShape
from fencepost.rows.spool import read_ahead
from fencepost.sinks.kind import Store

RESULT_SCHEMA = "topic string, partition int, outcome string, bytes long"  # the outcome as JSON

_RESULT = pa.schema({"topic": pa.string(), "partition": pa.int32(), "outcome": pa.string(), "bytes": pa.int64()})
_stores: dict[UUID, Store] = {}  # by token


class InTask:
    """Called once per task attempt by mapInArrow, in a worker."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)  # also where it is empty: without a state nobody would call what follows

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        GUARD.install()  # before the task's first row is read

    @staticmethod
    def task() -> TaskContext:
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("this runs inside a Spark task")
        return context

    @staticmethod
    def tell(act: Callable[[], Any]) -> str:
        """What it came to, as JSON, errors too: raising would only cause retries."""
        try:
            return json.dumps(asdict(act()))
        except InputCut:
            raise  # Spark knows better what went wrong before us
        except FencepostError as error:
            return json.dumps(error.facts())


@dataclass(frozen=True)
class Delivery:
    """How one Kafka partition's rows go into the sink, wherever they are."""

    guarantee: Guarantee
    tenure: Tenure
    shape: RowShape
    see: Observer = nobody

    def carry(
        self,
        store: Store,
        place: tuple[TopicPartition, Span],
        batches: Iterator[pa.RecordBatch],
        aside: pa.RecordBatch | None,
    ) -> Landed:
        """`aside`: records of the span that were dead-lettered."""
        partition, span = place
        made = self.shape.rows(partition, batches)
        if self.guarantee is Guarantee.AT_MOST_ONCE:
            made = read_ahead(made)  # one that fails on the way costs nothing before a position moves
        batch = Batch({partition: span}, chain([aside] if aside else [], made), self.tenure)
        return deliver(self.guarantee, batch, store, store, self.see)


@dataclass
class PartitionWriter(InTask):
    """One Kafka partition's rows go into the sink."""

    delivery: Delivery
    target: TaskTarget
    spans: TaskSpans  # by task
    letters: Letters  # records that were dead-lettered, by partition

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = partition, _ = self.spans[self.task().partitionId()]
        seen = [0]  # bytes

        def carry() -> Landed:
            store = store_for(self.target, self.delivery.tenure)
            return self.delivery.carry(store, place, _counted(whole(batches), seen), self.letters.get(partition))

        told = {"topic": partition.topic, "partition": partition.partition, "outcome": self.tell(carry)}
        yield pa.RecordBatch.from_pylist([{**told, "bytes": seen[0]}], schema=_RESULT)


def _counted(batches: Iterator[pa.RecordBatch], seen: list[int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        seen[0] += batch.nbytes
        yield batch


def whole(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; raises InputCut where their end is not the end of the task's input."""
    yield from batches
    GUARD.require_complete()


def store_for(target: TaskTarget, tenure: Tenure) -> Store:
    """A worker keeps one connection, for the pipeline and run that it works for."""
    if tenure.token not in _stores:
        for store in _stores.values():
            store.close()
        _stores.clear()
        _stores[tenure.token] = target.whole().open()
    return _stores[tenure.token]
