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
from fencepost.model import Batch, Landed, Tenure
from fencepost.rows.shape import RowShape
from fencepost.rows.spool import read_ahead
from fencepost.sinks.kind import Store

RESULT_SCHEMA = "topic string, partition int, outcome string"  # the outcome as JSON

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


@dataclass
class PartitionWriter(InTask):
    """One Kafka partition's rows go into the sink."""

    guarantee: Guarantee
    tenure: Tenure
    target: TaskTarget
    spans: TaskSpans  # by task
    shape: RowShape
    letters: Letters  # records that were dead-lettered, by partition
    see: Observer = nobody

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, span = self.spans[self.task().partitionId()]
        aside = self.letters.get(partition)

        def carry() -> Landed:
            store = store_for(self.target, self.tenure)
            made = self.shape.rows(partition, whole(batches))
            if self.guarantee is Guarantee.AT_MOST_ONCE:
                made = read_ahead(made)  # one that fails on the way costs nothing before a position moves
            batch = Batch({partition: span}, chain([aside] if aside else [], made), self.tenure)
            return deliver(self.guarantee, batch, store, store, self.see)

        yield pa.RecordBatch.from_pylist(
            [{"topic": partition.topic, "partition": partition.partition, "outcome": self.tell(carry)}],
            schema=pa.schema({"topic": pa.string(), "partition": pa.int32(), "outcome": pa.string()}),
        )


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
