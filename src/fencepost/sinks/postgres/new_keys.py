"""Which rows of a span have keys that are new to the table: those need no merge, and COPY takes them fastest.

What is found here may be wrong a moment later; the table's unique index tells. It tells nothing of a delete, so a
tombstone is never new. And rows of one key must not go two ways: where Arrow may tell keys apart that the table takes
for the same, nothing is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from fencepost.errors import Refused
from fencepost.model import Merge, Mode
from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.columns import TOMBSTONE, Column
from fencepost.sinks.postgres.connection import Connection, table_name, transaction, translated
from fencepost.sinks.postgres.merge_statement import same

KEYS = "pg_temp.fencepost_keys"  # a temporary table of the session's own
NUMBER, NUMBER_TYPE = Column("_fencepost_row", "integer"), pa.int32()
SAMPLE = 256  # keys that are looked up first
MANY = 0.4  # where more are known than this, looking up all of them costs more than it saves
LONGEST_PAUSE = 15  # spans: updates need no look, yet what comes may change

# Types whose values are the same for PostgreSQL exactly where they are for Arrow: NaN and JSON, for example, are not.
ALIKE = """
SELECT pg_catalog.bool_and(typname::pg_catalog.text = ANY (%s::pg_catalog.text[])
                           AND (attcollation = 0::pg_catalog.oid OR collisdeterministic))
FROM pg_catalog.pg_attribute
JOIN pg_catalog.pg_type AS t
  ON t.oid = atttypid AND typnamespace = 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
LEFT JOIN pg_catalog.pg_collation AS c ON c.oid = attcollation
WHERE attrelid = pg_catalog.to_regclass(%s)::pg_catalog.oid AND attname::pg_catalog.text = ANY (%s::pg_catalog.text[])
HAVING pg_catalog.count(*) = %s::bigint
"""
ALIKE_TYPES = [
    "bool",
    "int2",
    "int4",
    "int8",
    "numeric",
    "bytea",
    "date",
    "timestamp",
    "timestamptz",
    "text",
    "varchar",
]

# A key at a time through the index: other joins would read the whole table.
BY_INDEX = """
SELECT pg_catalog.set_config('enable_hashjoin', 'off', true), pg_catalog.set_config('enable_mergejoin', 'off', true),
       pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('jit', 'off', true)
"""


@dataclass(frozen=True)
class Split:
    fresh: pa.RecordBatch | None  # in the order of the keys: each has one of its own, which the table did not have
    others: Sequence[pa.RecordBatch]  # those of the same key as they came


class NewKeys:
    """Of one session. It learns from each span what to expect of the next."""

    def __init__(self, table: str, columns: Sequence[Column], merge: Merge) -> None:
        self._table = table
        self._merge = merge
        self._columns = [column for name in merge.key for column in columns if column.name == name]
        self._trusting = True  # a sample without a known key speaks for the span
        self._alike: bool | None = None  # does Arrow take the same keys for equal as the table? Asked once
        self._pause = self._rest = 0  # spans that are merged without a look, and how many of them are left

    def distrust(self) -> None:
        """Rows that were called fresh were not."""
        self._trusting = False

    def sift(self, connection: Connection, parts: Sequence[pa.RecordBatch]) -> Split:
        """Outside of any transaction. Dedupe has no use for known keys: those rows are in neither part."""
        if self._rest or not self._tells_alike(connection):
            self._rest = max(self._rest - 1, 0)
            return Split(None, parts)
        rows = pa.concat_batches(parts)
        keys = rows.select(list(self._merge.key))
        order = pc.sort_indices(keys, [(name, "ascending") for name in self._merge.key])
        keys = keys.take(order)
        try:
            known = self._known(connection, keys)
        except Refused:  # whoever takes the rows in finds out which ones
            return Split(None, parts)
        if known is None:
            self._pause = self._rest = min(2 * self._pause + 1, LONGEST_PAUSE)
            return Split(None, parts)
        self._pause = 0
        fresh = pc.and_not(_single(keys), known)
        if self._merge.deletes:
            fresh = pc.and_not(fresh, pc.fill_null(rows.column(TOMBSTONE.name).take(order), False))
        others = pc.invert(pc.or_(fresh, known) if self._merge.mode is Mode.DEDUPE else fresh)
        straight, staged = (rows.take(order.filter(chosen)) for chosen in (fresh, others))
        return Split(straight if straight.num_rows else None, [staged] if staged.num_rows else [])

    def _tells_alike(self, connection: Connection) -> bool:
        if self._alike is None:
            with translated(f"look at the key of {self._table!r}"):
                place = table_name(self._table).as_string(connection)
                key = list(self._merge.key)
                found = connection.execute(ALIKE, (ALIKE_TYPES, place, key, len(key))).fetchone()
                self._alike = bool(found and found[0])
        return self._alike

    def _known(self, connection: Connection, keys: pa.RecordBatch) -> pa.Array | None:
        """Of each key whether the table has it; None where it has so many that all rows had better be merged."""
        count = keys.num_rows
        step = count // SAMPLE + 1
        numbers = pa.array(range(0, count, step), NUMBER_TYPE)
        found = self._look_up(connection, keys.take(numbers), numbers)
        if self._merge.mode is Mode.UPSERT and len(found) > MANY * len(numbers):
            return None
        if step > 1 and (found or not self._trusting):
            found = self._look_up(connection, keys, pa.array(range(count), NUMBER_TYPE))
            self._trusting = not found
        return pc.is_in(pa.array(range(count), NUMBER_TYPE), pa.array(found, NUMBER_TYPE))

    def _look_up(self, connection: Connection, keys: pa.RecordBatch, numbers: pa.Array) -> Sequence[int]:
        """The numbers of those that the table has."""
        names = sql.SQL(", ").join(sql.Identifier(name) for name in self._merge.key)
        number, staged, table = sql.Identifier(NUMBER.name), table_name(KEYS), table_name(self._table)
        make = sql.SQL(
            "CREATE TEMPORARY TABLE IF NOT EXISTS {} ON COMMIT DELETE ROWS AS SELECT {}, 0 AS {} FROM {} WITH NO DATA"
        ).format(staged, names, number, table)
        ask = sql.SQL("SELECT pg_catalog.array_agg({}) FROM {} AS s JOIN {} AS t ON {}").format(
            number, staged, table, same(self._merge.key)
        )
        with translated("make a temporary table"):
            connection.execute(make)
        with transaction(connection), translated(f"look for keys in {self._table!r}"):
            connection.execute("SET LOCAL synchronous_commit TO off")  # nothing here outlives the session
            Copier(connection, KEYS, [*self._columns, NUMBER]).copy(keys.append_column(NUMBER.name, numbers))
            connection.execute(BY_INDEX)
            (found,) = connection.execute(ask, binary=True).fetchone() or (None,)
        return found or ()


def _single(keys: pa.RecordBatch) -> pa.Array:
    """Of each of these sorted keys whether it is there once."""
    differs = reduce(pc.or_, (pc.not_equal(column[1:], column[:-1]) for column in keys.columns))
    edge = pa.array([True])
    return pc.and_(pa.concat_arrays([edge, differs]), pa.concat_arrays([differs, edge]))
