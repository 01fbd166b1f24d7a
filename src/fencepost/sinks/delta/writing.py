"""A batch's rows into the table, by Spark's own Delta writer: an append, or a MERGE by key.

What Spark raises is left as it is: whether the commit landed all the same is looked for in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

from fencepost.errors import Poison, Refused
from fencepost.model import Merge, Mode, TopicPartition
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.delta.note import Note, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from fencepost.sinks.delta.target import DeltaTarget

CONFLICTS = "io.delta.exceptions.DeltaConcurrentModificationException"
_one_at_a_time = Lock()  # what a MERGE is told is in its session, where another thread's write would find it
PLACE = ("_topic", "_partition", "_offset", "_n")


def write(rows: DataFrame, target: DeltaTarget, note: Note, transaction: bool) -> None:
    """One commit with the note in it; where Delta has the note's transaction already, nothing, in silence."""
    with _one_at_a_time:
        if target.merge is not None:
            _merge(rows, target, target.merge, note, transaction)
        else:
            _append(rows, target, note, transaction)


def _append(rows: DataFrame, target: DeltaTarget, note: Note, transaction: bool) -> None:
    writer = rows.write.format("delta").mode("append").option("userMetadata", to_json(note))
    if transaction:
        writer = writer.option("txnAppId", note.app_id).option("txnVersion", note.version)
    if target.evolves:
        writer = writer.option("mergeSchema", "true")
    writer.save(target.path)


def changes_nothing(rows: DataFrame, target: DeltaTarget) -> bool:
    """Is there nothing of these rows to be committed, so that Delta may have made no commit?"""
    if target.merge is None:
        return bool(rows.isEmpty())
    return bool(rows.join(_table(rows, target), list(target.merge.key), "left_anti").isEmpty())


def _table(rows: DataFrame, target: DeltaTarget) -> DataFrame:
    return rows.sparkSession.read.format("delta").load(target.path)


def conflicts(error: Exception) -> bool:
    """Did somebody else's commit come in between, so that the same rows may be tried again?"""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        kind = cause.getClass()
        while kind is not None:
            if kind.getName() == CONFLICTS:
                return True
            kind = kind.getSuperclass()
        cause = cause.getCause()
    return False


# -- upsert and dedupe


def _merge(rows: DataFrame, target: DeltaTarget, merge: Merge, note: Note, transaction: bool) -> None:
    placed = set(PROVENANCE.names) <= set(rows.columns)
    spark = rows.sparkSession
    view = f"fencepost_{uuid4().hex}"
    winners(rows, merge, placed).createOrReplaceTempView(view)
    try:
        with _told(spark, target, note, transaction):
            spark.sql(statement(target.path, view, merge, placed)).collect()
    finally:
        spark.catalog.dropTempView(view)


def winners(rows: DataFrame, merge: Merge, placed: bool) -> DataFrame:
    """One row of each key: the newest of the batch for upsert, the first one for dedupe. Fails for a key that is null.

    Within a partition the offsets tell; of several partitions the last one, or the first, in their order.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    number, names = f"_{uuid4().hex}", list(rows.columns)
    newest = merge.mode is Mode.UPSERT
    order = [f.desc(quoted(name)) if newest else f.asc(quoted(name)) for name in (PLACE if placed else merge.key)]
    keys = [f.col(quoted(name)) for name in merge.key]
    there = f.lit(True)
    for key in keys:
        there = there & key.isNotNull()
    first = f.row_number().over(Window.partitionBy(*keys).orderBy(*order))
    checked = rows.where(f.coalesce(f.assert_true(there, f.lit("a key is null")).cast("boolean"), f.lit(True)))
    return checked.withColumn(number, first).where(f.col(number) == 1).select(*(f.col(quoted(name)) for name in names))


def statement(path: str, view: str, merge: Merge, placed: bool) -> str:
    """A row that is there is replaced by one of its own partition only where that is not older."""
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in merge.key)
    text = f"MERGE INTO delta.{quoted(path)} AS t USING {view} AS s ON {same}"
    if merge.mode is Mode.UPSERT:
        newer = (
            " AND NOT (t._topic <=> s._topic AND t._partition <=> s._partition AND "
            "(t._offset > s._offset OR (t._offset = s._offset AND t._n > s._n)))"
            if placed
            else ""
        )
        text += f" WHEN MATCHED{newer} THEN UPDATE SET *"
    return f"{text} WHEN NOT MATCHED THEN INSERT *"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def _told(spark: SparkSession, target: DeltaTarget, note: Note, transaction: bool) -> Iterator[None]:
    """A MERGE has no options: Delta finds them in the batch's own session, and must not find them in the next."""
    settings = {"spark.databricks.delta.commitInfo.userMetadata": to_json(note)}
    if transaction:
        settings["spark.databricks.delta.write.txnAppId"] = note.app_id
        settings["spark.databricks.delta.write.txnVersion"] = str(note.version)
    if target.evolves:
        settings["spark.databricks.delta.schema.autoMerge.enabled"] = "true"
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def null_keys(rows: DataFrame, merge: Merge, most: int) -> Refused | None:
    """The records of one partition whose key is null, where that is why a MERGE failed."""
    from pyspark.sql import functions as f

    absent = f.lit(False)
    for name in merge.key:
        absent = absent | f.col(quoted(name)).isNull()
    named = ", ".join(merge.key)
    if not set(PROVENANCE.names) <= set(rows.columns):
        return Refused(f"a row's key ({named}) is null") if rows.where(absent).limit(1).count() else None
    found = rows.where(absent).select(*PLACE[:3]).distinct().limit(most).collect()
    if not found:
        return None
    places: dict[TopicPartition, list[int]] = {}
    for row in found:
        places.setdefault(TopicPartition(row._topic, row._partition), []).append(row._offset)
    at, offsets = min(places.items())
    return Poison(str(at), [(offset, f"its key ({named}) is null") for offset in sorted(offsets)])
