"""Which rows of a span have keys that are new to the table: those need no merge, and COPY takes them fastest.

What is found here may be wrong a moment later; the table's unique index tells.
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
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.copying import Copier
from fencepost.sinks.postgres.merge_statement import same
from fencepost.sinks.postgres.session import Connection, table_name, transaction, translated

KEYS = "fencepost_keys"  # a temporary table of the session's own
NUMBER, NUMBER_TYPE = Column("_fencepost_row", "integer"), pa.int32()
SAMPLE = 256  # keys that are looked up first
MANY = 0.4  # where more are known than this, looking up all of them costs more than it saves

# A key at a time through the index: other joins would read the whole table.
BY_INDEX = """
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)
"""


@dataclass(frozen=True)
class Sifted:
    """The rows of a span, in the order of their keys, and of the same key as they came."""

    fresh: pa.RecordBatch  # each with a key of its own, which the table did not have
    others: pa.RecordBatch


class Sieve:
    """Of one session. It learns from each span what to expect of the next."""

    def __init__(self, table: str, columns: Sequence[Column], merge: Merge) -> None:
        self._table = table
        self._merge = merge
        self._columns = [column for name in merge.key for column in columns if column.name == name]
        self._trusting = True  # a sample without a known key speaks for the span

    def distrust(self) -> None:
        """Rows that were called fresh were not."""
        self._trusting = False

    def sift(self, connection: Connection, rows: pa.RecordBatch) -> Sifted:
        """Outside of any transaction. Dedupe has no use for known keys: those rows are in neither part."""
        rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in self._merge.key]))
        keys, single = rows.select(list(self._merge.key)), _single(rows, self._merge.key)
        try:
            known = self._known(connection, keys)
        except Refused:  # whoever takes these rows in will find out which
            return Sifted(rows.slice(0, 0), rows)
        if known is None:
            return Sifted(rows.slice(0, 0), rows)
        fresh = pc.and_not(single, known)
        keep = pc.invert(known) if self._merge.mode is Mode.DEDUPE else pa.repeat(True, rows.num_rows)
        return Sifted(rows.filter(fresh), rows.filter(pc.and_not(keep, fresh)))

    def _known(self, connection: Connection, keys: pa.RecordBatch) -> pa.Array | None:
        """Of each key whether the table has it; None where it has so many that all rows had better be merged."""
        step = keys.num_rows // SAMPLE + 1
        numbers = pa.array(range(0, keys.num_rows, step), NUMBER_TYPE)
        found = self._look_up(connection, keys.take(numbers), numbers)
        if step > 1:
            if not found and self._trusting:
                return pa.repeat(False, keys.num_rows)
            if self._merge.mode is Mode.UPSERT and len(found) > MANY * len(numbers):
                return None
            numbers = pa.array(range(keys.num_rows), NUMBER_TYPE)
            found = self._look_up(connection, keys, numbers)
            self._trusting = not found
        return pc.is_in(pa.array(range(keys.num_rows), NUMBER_TYPE), pa.array(found, NUMBER_TYPE))

    def _look_up(self, connection: Connection, keys: pa.RecordBatch, numbers: pa.Array) -> list[int]:
        """The numbers of those that the table has."""
        make = sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} AS SELECT {}, 0 AS {} FROM {} WITH NO DATA").format(
            sql.Identifier(KEYS),
            sql.SQL(", ").join(sql.Identifier(column.name) for column in self._columns),
            sql.Identifier(NUMBER.name),
            table_name(self._table),
        )
        ask = sql.SQL("SELECT coalesce(json_agg({}), '[]') FROM {} AS s JOIN {} AS t ON {}").format(
            sql.Identifier(NUMBER.name), sql.Identifier(KEYS), table_name(self._table), same(self._merge.key)
        )
        with translated("make a temporary table"):
            connection.execute(make)
        with transaction(connection), translated(f"look for keys in {self._table!r}"):
            connection.execute("SET LOCAL synchronous_commit TO off")  # nothing here outlives the session
            connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(KEYS)))
            Copier(connection, KEYS, [*self._columns, NUMBER]).copy(keys.append_column(NUMBER.name, numbers))
            connection.execute(BY_INDEX)
            (found,) = connection.execute(ask).fetchone() or ([],)
        return list(found)


def _single(rows: pa.RecordBatch, key: Sequence[str]) -> pa.Array:
    """Of each row, in the order of the keys, whether no other has its key."""
    columns = [rows.column(name) for name in key]
    differs = reduce(pc.or_, (pc.not_equal(column[1:], column[:-1]) for column in columns))
    edge = pa.array([True])
    return pc.and_(pa.concat_arrays([edge, differs]), pa.concat_arrays([differs, edge]))
