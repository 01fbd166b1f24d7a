"""At least once into a table with a unique index: rows that an earlier attempt wrote, whose position did not move.

Such a row is known by where it came from, and only where every column is the same: then it has landed for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg
import pyarrow as pa
from psycopg import sql

from fencepost.errors import Refused, Repeated
from fencepost.model import TopicPartition
from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.connection import Connection, table_name, translated

AGAIN = "fencepost_again"  # a temporary table of the transaction's own
PLACE = ("_topic", "_partition", "_offset", "_n")

_MAKE = "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
_FIND = """
SELECT s._offset FROM {staged} AS s LEFT JOIN {table} AS t ON {same}
GROUP BY s._offset HAVING pg_catalog.bool_and(t._offset IS NOT NULL) ORDER BY s._offset
"""


def find_repeated(
    connection: Connection,
    table: str,
    columns: Sequence[Column],
    refused: Sequence[pa.RecordBatch],
    partition: TopicPartition,
    refusal: Refused,
) -> Repeated | None:
    """The records all of whose rows are in the table already, by where they came from; None where there are none.

    In the caller's transaction, which stands before the refused rows, and which the caller rolls back.
    """
    names = [column.name for column in columns]
    if not refused:
        return None
    staged, target = sql.Identifier("pg_temp", AGAIN), table_name(table)
    listed = sql.SQL(", ").join(map(sql.Identifier, names))
    with translated("look for rows that are there already"):
        connection.execute(sql.SQL(_MAKE).format(sql.Identifier(AGAIN), listed, target))
        copier = Copier(connection, f"pg_temp.{AGAIN}", columns)
        for part in refused:
            copier.send(part)
        copier.settle()
        found = connection.execute(sql.SQL(_FIND).format(staged=staged, table=target, same=_same(names))).fetchall()
    return Repeated(str(partition), [offset for (offset,) in found], refusal.message) if found else None


# By whole events, and without the number of each row: a stage gives that in no particular order.
_NOT_THERE = """
(SELECT * FROM {staged} WHERE _topic IS NULL OR _partition IS NULL OR _offset IS NULL OR EXISTS (
    SELECT FROM (
        SELECT {values} FROM {staged}
        EXCEPT ALL SELECT {values} FROM {table} AS t WHERE EXISTS (SELECT FROM {staged} WHERE {at_t})
    ) AS missing WHERE {at_missing}
)) AS staged
"""


def not_there(table: str, columns: Sequence[Column], staged: sql.Composable) -> sql.Composed:
    """The rows of `staged`, a subquery of that name, without those of events all of whose rows are in the table."""
    event = PLACE[:3]
    others = (sql.Identifier(column.name) for column in columns if column.name not in PLACE)
    values = [*map(sql.Identifier, event), *(sql.SQL('{}::pg_catalog.text COLLATE "C"').format(one) for one in others)]
    same = "{}.{} OPERATOR(pg_catalog.=) staged.{}"

    def at(side: str) -> sql.Composed:
        parts = ((sql.Identifier(side), sql.Identifier(name), sql.Identifier(name)) for name in event)
        return sql.SQL(" AND ").join(sql.SQL(same).format(*part) for part in parts)

    return sql.SQL(_NOT_THERE).format(
        staged=staged,
        table=table_name(table),
        values=sql.SQL(", ").join(values),
        at_t=at("t"),
        at_missing=at("missing"),
    )


def with_dedupe_remedy(refusal: Refused) -> Refused:
    """At least once, where the rows do not know where they came from: whether they are there already is not told."""
    refusal.remedy = (
        "at least once, an earlier attempt may have written these rows: set mode: dedupe, with the columns of that "
        "unique index as key"
    )
    return refusal


def knows_place(columns: Iterable[Column]) -> bool:
    return set(PLACE) <= {column.name for column in columns}


def is_unique(refusal: Refused) -> bool:
    """Because of another row: a unique index, or what is more general, an exclusion constraint."""
    return isinstance(refusal.__cause__, psycopg.errors.UniqueViolation | psycopg.errors.ExclusionViolation)


def _same(names: Sequence[str]) -> sql.Composed:
    """By where they came from, which no row is without, and then in everything else, as text: every type has one."""
    place = sql.SQL("s.{0} OPERATOR(pg_catalog.=) t.{0}")
    other = sql.SQL('(s.{0}::pg_catalog.text COLLATE "C") IS NOT DISTINCT FROM (t.{0}::pg_catalog.text COLLATE "C")')
    return sql.SQL(" AND ").join((place if name in PLACE else other).format(sql.Identifier(name)) for name in names)
