"""Small batches: their rows come to the driver, which delivers them itself, each partition's as a task would.

Tasks in Python cost more than such a batch does. What crosses is a `collect` of Spark's: all rows, or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from fencepost.engines.spark.excluded import Letters
from fencepost.engines.spark.failures import SparkFailure
from fencepost.engines.spark.plan import TaskSpans
from fencepost.engines.spark.writer import Delivery
from fencepost.errors import FencepostError
from fencepost.model import Landed, Span, TopicPartition
from fencepost.sinks.kind import MayStay, Store, Target

LANES = 4  # partitions that are delivered at the same time
PARTITIONS = 16  # more than these at once are for tasks
BYTES = 8 << 20  # of rows, by what those before them had
UNSEEN = 1_000  # records of which nobody knows yet how large they are
_TASK = "_fencepost_task"

Outcome = Landed | FencepostError


class DriverWriter:
    """For one term. What it holds of a partition it must let go before tasks deliver (`close`)."""

    _broken = False  # Spark's process went while it collected: for the rest of this one everything is for tasks

    def __init__(self, delivery: Delivery, target: Target, most: int) -> None:
        """`most`: records of a small batch."""
        self._delivery = delivery
        self._target = target.staying() if isinstance(target, MayStay) else target
        self._most = most
        self._lane = {at: number % LANES for number, at in enumerate(delivery.tenure.positions)}
        self._each: float | None = None  # bytes of a record's rows, in the last batch
        self._task = f.spark_partition_id()
        self._open = ExitStack()
        self._stores: list[Store] = []

    def takes(self, spans: TaskSpans) -> bool:
        """Is a batch of these spans small, as far as anybody can tell?"""
        records = _records(spans)
        if self._broken or self._delivery.shape.arrow or len(spans) > PARTITIONS:
            return False
        return records <= (min(self._most, UNSEEN) if self._each is None else min(self._most, BYTES / self._each))

    def saw(self, spans: TaskSpans, size: int) -> None:
        """So many bytes came of these spans."""
        self._each = max(size, 1) / max(_records(spans), 1)

    def carry(
        self, rows: DataFrame, spans: TaskSpans, letters: Letters, before: Callable[[], object]
    ) -> dict[TopicPartition, Outcome]:
        """What became of each span. Raises what Spark raises, or `before`, before anything is delivered."""
        parts = self._collected(rows, len(spans))
        before()
        self.saw(spans, sum(part.nbytes for own in parts for part in own))
        lanes: dict[int, list[tuple[tuple[TopicPartition, Span], list[pa.RecordBatch]]]] = {}
        for place, own in zip(spans, parts, strict=True):
            lanes.setdefault(self._lane[place[0]], []).append((place, own))
        stores = self._opened()

        def deliver(lane: int) -> dict[TopicPartition, Outcome]:
            return {place[0]: one(stores[lane], place, iter(own)) for place, own in lanes[lane]}

        def one(store: Store, place: tuple[TopicPartition, Span], own: Iterator[pa.RecordBatch]) -> Outcome:
            try:
                return self._delivery.carry(store, place, own, letters.get(place[0]))
            except FencepostError as error:
                return error

        return {at: outcome for found in self._each_of(lanes, deliver) for at, outcome in found.items()}

    def close(self) -> None:
        """Let go of what it holds. It may be used again."""
        self._stores.clear()
        self._open.close()

    def _each_of(
        self, lanes: Iterable[int], deliver: Callable[[int], dict[TopicPartition, Outcome]]
    ) -> list[dict[TopicPartition, Outcome]]:
        first, *others = lanes
        pending = [self._pool.submit(deliver, lane) for lane in others]
        try:
            return [deliver(first), *(one.result() for one in pending)]
        finally:
            wait(pending)

    def _collected(self, rows: DataFrame, tasks: int) -> list[list[pa.RecordBatch]]:
        """The rows of each task, in order."""
        try:
            batches = rows.withColumn(_TASK, self._task)._collect_as_arrow()  # type: ignore[operator]
        except SparkFailure:
            raise
        except BaseException:
            DriverWriter._broken = True
            raise
        found: list[list[pa.RecordBatch]] = [[] for _ in range(tasks)]
        for part in batches:  # of one task each, in order
            if part.num_rows:
                found[part.column(_TASK)[0].as_py()].append(part.drop_columns([_TASK]))
        return found

    def _opened(self) -> list[Store]:
        if not self._stores:
            self._stores = [self._open.enter_context(closing(self._target.open())) for _ in range(LANES)]
            self._pool = self._open.enter_context(ThreadPoolExecutor(LANES - 1, "fencepost-lane"))
        return self._stores


def _records(spans: TaskSpans) -> int:
    return sum(span.end - span.start for _, span in spans)
