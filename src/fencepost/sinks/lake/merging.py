"""Rows of one key, in Spark: which one of a batch wins, the MERGE that brings it into the table, keys that are null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from fencepost.errors import Poison, Refused
from fencepost.model import Merge, Mode, TopicPartition
from fencepost.rows.shape import PROVENANCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE = ("_topic", "_partition", "_offset", "_n")
MOST_NAMED = 100  # records with the same fault


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


def statement(
    table: str, view: str, merge: Merge, placed: bool, columns: Sequence[str] = (), partition: str = "_partition"
) -> str:
    """A row that is there is replaced by one of its own partition only where that is not older.

    `columns`: those of the rows, where the table may have more; `partition`: the name that one of them has there.
    """
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in merge.key)
    text = f"MERGE INTO {table} AS t USING {view} AS s ON {same}"
    if merge.mode is Mode.UPSERT:
        newer = (
            f" AND NOT (t._topic <=> s._topic AND t.{partition} <=> s.{partition} AND "
            "(t._offset > s._offset OR (t._offset = s._offset AND t._n > s._n)))"
            if placed
            else ""
        )
        text += f" WHEN MATCHED{newer} THEN UPDATE SET {_each(columns, 't.{0} = s.{0}') or '*'}"
    named = f"({_each(columns, '{0}')}) VALUES ({_each(columns, 's.{0}')})" if columns else "*"
    return f"{text} WHEN NOT MATCHED THEN INSERT {named}"


def _each(columns: Sequence[str], form: str) -> str:
    return ", ".join(form.format(quoted(name)) for name in columns)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def null_keys(rows: DataFrame, merge: Merge, most: int) -> Refused | None:
    """The records of one partition whose key is null, where that is why a MERGE failed."""
    from pyspark.sql import functions as f

    absent = f.lit(False)
    for name in merge.key:
        absent = absent | f.col(quoted(name)).isNull()
    return bad_records(rows, absent, f"key ({', '.join(merge.key)}) is null", most)


def bad_records(rows: DataFrame, bad: Column, why: str, most: int) -> Refused | None:
    """The records of one partition of which something is bad: so many are named, where rows know their records."""
    if not set(PROVENANCE.names) <= set(rows.columns):
        return Refused(f"a row's {why}") if rows.where(bad).limit(1).count() else None
    found = rows.where(bad).select(*PLACE[:3]).distinct().limit(most).collect()
    if not found:
        return None
    places: dict[TopicPartition, list[int]] = {}
    for row in found:
        places.setdefault(TopicPartition(row._topic, row._partition), []).append(row._offset)
    at, offsets = min(places.items())
    return Poison(str(at), [(offset, f"its {why}") for offset in sorted(offsets)])
