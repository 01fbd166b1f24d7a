"""A batch's rows into the table, by Spark's own Delta writer: an append, or a MERGE by key.

What Spark raises is left as it is: whether the commit landed all the same is looked for in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

from fencepost.model import Merge
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.delta.note import Note, to_json
from fencepost.sinks.lake.folders import apart
from fencepost.sinks.lake.merging import quoted, statement, winners

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from fencepost.sinks.delta.target import DeltaTarget

CONFLICTS = "io.delta.exceptions.DeltaConcurrentModificationException"
_one_at_a_time = Lock()  # what a MERGE is told is in its session, where another thread's write would find it


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
    # an empty text in a column by which the table is partitioned is null there: no key that could be found again
    winners(apart(rows, target.partitioned), merge, placed).createOrReplaceTempView(view)
    try:
        with _told(spark, target, note, transaction):
            named = () if target.evolves else rows.columns  # with *, Delta adds columns, and else wants every one
            spark.sql(statement(f"delta.{quoted(target.path)}", view, merge, placed, named)).collect()
    finally:
        spark.catalog.dropTempView(view)


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
