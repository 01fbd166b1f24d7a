"""A batch's rows before their commit: data files that no table has, or a MERGE on a branch that no reader looks at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError

from fencepost.errors import Unreachable
from fencepost.model import Merge, Span, TopicPartition
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.iceberg.library import Library, said
from fencepost.sinks.iceberg.options import STAGE
from fencepost.sinks.iceberg.schema import PARTITION
from fencepost.sinks.lake.folders import no_folders
from fencepost.sinks.lake.merging import MOST_NAMED, null_keys, statement, winners

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# what Iceberg says of a MERGE in its snapshot's summary; one that only inserts is an append, and has the last one alone
_REPLACED, _INSERTED = (f"spark.merge-into.num-target-rows-{what}" for what in ("updated", "inserted"))
_ADDED = "added-records"
MOST_FILES = 200  # of a batch, whose bounds are looked at one by one


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest value of a column in a data file, as its writer noted them."""

    topic: Any  # the table's columns, of Java's
    partition: Any
    conversions: Any

    @classmethod
    def of(cls, table: Any, jvm: Any) -> Bounds | None:
        """None for a table whose rows do not know where they came from."""
        topic, partition = (table.schema().findField(name) for name in ("_topic", PARTITION))
        return cls(topic, partition, jvm.org.apache.iceberg.types.Conversions) if topic and partition else None

    def place(self, file: Any, topics: Collection[str]) -> TopicPartition | None:
        """Where all of the file's rows came from; None where that cannot be told."""
        partition = self._only(file, self.partition)
        if partition is None:
            return None
        if len(topics) == 1:
            return TopicPartition(next(iter(topics)), int(partition))
        topic = self._only(file, self.topic)  # cut off after 16 characters, unless the table says otherwise
        return TopicPartition(str(topic), int(partition)) if topic in topics else None

    def _only(self, file: Any, column: Any) -> Any:
        low, high = (bounds.get(column.fieldId()) for bounds in (file.lowerBounds(), file.upperBounds()))
        if low is None or high is None:
            return None
        first, last = (self.conversions.fromByteBuffer(column.type(), one) for one in (low, high))
        return first if first == last else None


@dataclass(frozen=True)
class DataFiles:
    """Written by Spark's tasks, and part of no table yet."""

    files: Sequence[Any]
    bounds: Bounds | None = None
    branch: str | None = None

    @cached_property
    def sizes(self) -> Sequence[int]:
        """In rows, of each file: asked once, since each is a call to the JVM."""
        return [int(file.recordCount()) for file in self.files]

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    def counts(self, spans: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, int] | None:
        """By Iceberg's own bounds: where the plan keeps Kafka's partitions apart, a file holds rows of one of them."""
        if len(spans) == 1:
            return dict.fromkeys(spans, self.rows)
        if self.bounds is None or len(self.files) > MOST_FILES:
            return None
        counted: Counter[TopicPartition] = Counter()
        for file, size in zip(self.files, self.sizes, strict=True):
            place = self.bounds.place(file, {at.topic for at in spans})
            if place is None:
                return None
            counted[place] += size
        return counted

    def fits(self, _base: Any) -> bool:
        """An append goes onto whatever is there."""
        return True

    def again(self) -> None: ...


def staged(library: Library, table: Any, rows: DataFrame) -> DataFiles:
    """By the table's own writer, in Spark's tasks: files that nobody's table has yet."""
    key = uuid4().hex
    coordinator = library.jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    cache = library.table_cache()
    cache.add(key, table)
    try:
        with naming_bad_records(rows, table):
            in_table(rows).writeTo(f"{STAGE}.`{key}`").append()
        return DataFiles(list(coordinator.fetchNewFiles(table, key)), Bounds.of(table, library.jvm))
    finally:
        coordinator.clearRewrite(table, key)
        cache.remove(key)


def in_table(rows: DataFrame) -> DataFrame:
    return rows.withColumnRenamed("_partition", PARTITION)


class Merged:
    """One MERGE, on a branch of its own that began at the table's head; published by moving main to it.

    A branch whose name two attempts shared would let the one write into what the other publishes.
    """

    files: Sequence[Any] = ()

    def __init__(self, table: Callable[[], Any], name: str, prefix: str, rows: DataFrame, merge: Merge) -> None:
        """`table`: as it is now. `name`: in Spark's SQL. `prefix`: of the branch's name."""
        self._table, self._name, self._prefix = table, name, prefix
        self._frame, self._merge = rows, merge
        self.branch, self.rows, self._head = "", 0, 0
        self.again()

    def again(self) -> None:
        """On the table as it is now. Spark's failures pass as they are; Poison where a key is null."""
        self.branch = f"{self._prefix}{uuid4().hex}"
        self._head = self._begun()
        with naming_bad_records(self._frame, self._table(), self._merge):
            self._run()
        self.rows = _rows_of(self._table().snapshot(self.branch), self._head)

    def counts(self, spans: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, int] | None:
        return dict.fromkeys(spans, self.rows) if len(spans) == 1 or not self.rows else None

    def fits(self, base: Any) -> bool:
        """Is main where the branch began, and the branch there, with nothing on it but this MERGE?"""
        main, ref = base.currentSnapshot(), base.ref(self.branch)
        if main is None or ref is None or main.snapshotId() != self._head:
            return False
        tip = base.snapshot(ref.snapshotId())
        return bool(tip.snapshotId() == self._head or tip.parentId() == self._head)

    def _begun(self) -> int:
        """The snapshot at which the branch was made."""
        table = self._table()
        head = table.currentSnapshot()
        if head is None:
            raise Unreachable(f"table {self._name}: it was emptied while a batch was written")
        try:
            table.manageSnapshots().createBranch(self.branch, head.snapshotId()).commit()
        except (Py4JError, OSError) as error:
            raise Unreachable(f"table {self._name}: no branch can be made: {said(error)}") from error
        return int(head.snapshotId())

    def _run(self) -> None:
        placed = set(PROVENANCE.names) <= set(self._frame.columns)
        rows, view = in_table(winners(self._frame, self._merge, placed)), f"fencepost_{uuid4().hex}"
        rows.createOrReplaceTempView(view)
        spark = rows.sparkSession
        # a branch is part of the table's name: as an option of a writer it is ignored, and main is written
        branch = f"{self._name}.`branch_{self.branch}`"
        try:
            spark.sql(statement(branch, view, self._merge, placed, rows.columns, PARTITION)).collect()
        finally:
            spark.catalog.dropTempView(view)


@contextmanager
def naming_bad_records(rows: DataFrame, table: Any, merge: Merge | None = None) -> Iterator[None]:
    """Raises Poison where Spark failed because of a key that is null, or of a value that can be no folder's name."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        refusal = null_keys(rows, merge, MOST_NAMED) if merge else None
        if refusal is None and str(table.location()).startswith(("/", "file:")):  # an object store takes any name
            names = [str(one.name()) for one in table.spec().fields() if one.transform().isIdentity()]
            refusal = no_folders(rows, names, MOST_NAMED, url=True)
        if refusal is not None:
            raise refusal from error
        raise


def _rows_of(tip: Any, head: int) -> int:
    """That a MERGE wrote; those that Iceberg copied beside them are none of them."""
    if tip is None or tip.snapshotId() == head:
        return 0
    summary = tip.summary()
    if summary.get(_INSERTED) is None:
        return int(summary.get(_ADDED) or 0)
    return int(summary.get(_INSERTED)) + int(summary.get(_REPLACED) or 0)
