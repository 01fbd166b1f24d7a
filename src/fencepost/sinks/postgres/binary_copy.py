"""Arrow record batches through PostgreSQL's binary COPY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pgpq
import pgpq.encoders
import pgpq.schema
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import generators, pq, sql

from fencepost.errors import Refused
from fencepost.sinks.postgres.columns import Column, arrow_type, longest_text
from fencepost.sinks.postgres.connection import Connection, copy_statement, translated
from fencepost.sinks.postgres.constraints import check_deferred
from fencepost.sinks.postgres.table import read_columns

# The microseconds and days since 1970 between which PostgreSQL keeps timestamps and dates: from 4714 BC on.
# Its last timestamp lies beyond Arrow's.
TIMESTAMPS = (-210_866_803_200_000_000, 2**63 - 1)
DATES = (-2_440_588, 2_145_042_905)

BEFORE_COPY = "fencepost_copy"  # a savepoint

ANSWER_EVERY = 16 << 20  # bytes: rows are kept until PostgreSQL has taken them, so that a bad one can be found


class Copier:
    """Writes record batches of one schema into one table, several to a COPY.

    PostgreSQL takes rows in while the next are read and encoded; it answers when a COPY ends.
    """

    def __init__(self, connection: Connection, table: str, columns: Sequence[Column], marked: bool = False) -> None:
        """`marked`: behind a savepoint, so that what was taken before a COPY outlives its refusal."""
        self._connection = connection
        self._table = table
        self._columns = columns
        mark = sql.SQL("SAVEPOINT {};").format(sql.Identifier(BEFORE_COPY)) if marked else sql.SQL("")
        statement = sql.SQL("{}{}").format(mark, copy_statement(table, [column.name for column in columns]))
        self._statement = statement.as_bytes(connection)
        self._encoder: pgpq.ArrowToPostgresBinaryEncoder | None = None  # of the COPY that is open
        self._unanswered: list[pa.RecordBatch] = []
        self._bytes = 0
        self.late = False  # when Refused was raised: by what the table checks at COMMIT
        self.refused: list[pa.RecordBatch] = []  # when Refused was raised: the rows among which the reason is

    def copy(self, rows: pa.RecordBatch) -> None:
        """Nothing of the batch is there when this raises: Refused for a value that the table does not take."""
        self.send(rows)
        self.settle()

    def send(self, rows: pa.RecordBatch) -> None:
        """Raises for these rows or for others that were sent since the last answer."""
        try:
            with self._taking([rows]):
                cast = self._cast(rows)
        except Refused:
            self.settle()
            raise
        with self._taking([*self._unanswered, rows]):
            if self._encoder is None:
                self._begin()
                self._encoder = encoder_for(cast.schema, self._columns)
                self._put(self._encoder.write_header())
            self._put(self._encoder.write_batch(cast))
        self._unanswered.append(rows)
        if self._bytes >= ANSWER_EVERY:
            self.settle()

    def settle(self) -> None:
        """Wait until all rows that were sent are taken in. Raises as `copy` does."""
        if self._encoder is None:
            return
        last, self._encoder = self._encoder.finish(), None
        rows, self._unanswered, self._bytes = self._unanswered, [], 0
        with self._taking(rows):
            self._put(last)
            self._connection.wait(generators.copy_end(self._connection.pgconn, None))
            self.late = True
            check_deferred(self._connection)
            self.late = False
        self.require_types()

    # Through the driver's own waits: libpq's would keep all other threads from running for as long.

    def _begin(self) -> None:
        pgconn = self._connection.pgconn
        pgconn.send_query(self._statement)
        *_, answer = self._connection.wait(generators.execute(pgconn))
        if answer.status != pq.ExecStatus.COPY_IN:
            raise psycopg.errors.error_from_result(answer, encoding="utf-8")

    def _put(self, data: bytes) -> None:
        self._connection.wait(generators.copy_to(self._connection.pgconn, data))
        self._bytes += len(data)

    @contextmanager
    def _taking(self, rows: list[pa.RecordBatch]) -> Iterator[None]:
        try:
            with translated(f"take rows into {self._table!r}"):
                yield
        except Refused:
            self.refused = rows
            raise

    def _by_name(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The table's columns, in whatever order they came: each once, and no others."""
        given, wanted = rows.schema.names, [column.name for column in self._columns]
        if sorted(given) != sorted(wanted):
            raise Refused(f"the columns {', '.join(given)} came for {', '.join(wanted)} of {self._table!r}")
        return [rows.column(name) for name in wanted]

    def require_types(self) -> None:
        """Refused where a column of the table is of another type than when it was compared: binary rows would be
        taken for something else. After a COPY, whose lock keeps the types as they are until the transaction ends."""
        there = {column.name: column.type for column in read_columns(self._connection, self._table)}
        for column in self._columns:
            if (now := there.get(column.name)) not in (None, column.type):
                raise Refused(
                    f"column {column.name!r} of {self._table!r} is {now} now, and was {column.type} when the run began",
                    "run again: the table is compared again",
                )

    def _cast(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            _in_range(column, array.cast(arrow_type(column, array.type)))
            for column, array in zip(self._columns, self._by_name(rows), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._columns])


def _in_range(column: Column, array: pa.Array) -> pa.Array:
    """PostgreSQL's binary form wraps around silently outside its range; so that is refused here."""
    if pa.types.is_timestamp(array.type):
        limits, numbers = TIMESTAMPS, array.cast(pa.int64())
    elif pa.types.is_date32(array.type):
        limits, numbers = DATES, array.cast(pa.int32())
    elif (longest := longest_text(column)) is not None:  # PostgreSQL would cut spaces at the end off
        limits, numbers = (0, longest), pc.utf8_length(array)
    else:
        return array
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is not None and not limits[0] <= bounds["min"] <= bounds["max"] <= limits[1]:
        raise Refused(f"column {column.name!r} holds a value outside the range of {column.type}", about_values=True)
    return array


def encoder_for(schema: pa.Schema, columns: Sequence[Column]) -> pgpq.ArrowToPostgresBinaryEncoder:
    builders = {column.name: _builder(field, column) for field, column in zip(schema, columns, strict=True)}
    return pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(schema, builders)


def _builder(field: pa.Field, column: Column) -> Any:
    if column.type == "jsonb":
        return pgpq.encoders.StringEncoderBuilder.new_with_output(field, pgpq.schema.Jsonb())
    return pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field)
