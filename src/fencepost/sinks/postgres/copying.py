"""Arrow record batches through PostgreSQL's binary COPY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pgpq
import pgpq.encoders
import pgpq.schema
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import pq

from fencepost.errors import Refused
from fencepost.sinks.postgres.columns import Column, arrow_type, longest_text
from fencepost.sinks.postgres.session import Connection, copy_statement, translated

# The microseconds and days since 1970 between which PostgreSQL keeps timestamps and dates: from 4714 BC on.
# Its last timestamp lies beyond Arrow's.
TIMESTAMPS = (-210_866_803_200_000_000, 2**63 - 1)
DATES = (-2_440_588, 2_145_042_905)


class Copier:
    """Writes record batches of one schema into one table, a COPY for each."""

    def __init__(self, connection: Connection, table: str, columns: Sequence[Column]) -> None:
        self._connection = connection
        self._table = table
        self._columns = columns
        self._statement = copy_statement(table, [column.name for column in columns]).as_bytes(connection)

    def copy(self, rows: pa.RecordBatch) -> None:
        """Nothing of the batch is there when this raises: Refused for a value that the table does not take."""
        payload = encode(self._cast(rows), self._columns)
        with translated(f"take rows into {self._table!r}"):
            _copy_in(self._connection.pgconn, self._statement, payload)

    def _cast(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if rows.num_columns != len(self._columns):
            raise Refused(f"{rows.num_columns} columns came for the {len(self._columns)} of {self._table!r}")
        arrays = [
            _in_range(column, array.cast(arrow_type(column, array.type)))
            for column, array in zip(self._columns, rows.columns, strict=True)
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
        raise Refused(f"column {column.name!r} holds a value outside the range of {column.type}")
    return array


def encode(rows: pa.RecordBatch, columns: Sequence[Column]) -> bytes:
    """One whole COPY: header, rows, trailer."""
    encoder = pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(
        rows.schema,
        {column.name: _builder(field, column) for field, column in zip(rows.schema, columns, strict=True)},
    )
    return b"".join((encoder.write_header(), encoder.write_batch(rows), encoder.finish()))


def _builder(field: pa.Field, column: Column) -> Any:
    if column.type == "jsonb":
        return pgpq.encoders.StringEncoderBuilder.new_with_output(field, pgpq.schema.Jsonb())
    return pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field)


def _copy_in(pgconn: pq.abc.PGconn, statement: bytes, payload: bytes) -> None:
    _expect(pgconn.exec_(statement), pq.ExecStatus.COPY_IN)
    pgconn.put_copy_data(payload)
    pgconn.put_copy_end()
    result = pgconn.get_result()
    while (more := pgconn.get_result()) is not None:
        result = more
    if result is None:
        raise psycopg.OperationalError("the connection was lost in the middle of COPY")
    _expect(result, pq.ExecStatus.COMMAND_OK)


def _expect(result: pq.abc.PGresult, status: pq.ExecStatus) -> None:
    if result.status != status:
        raise psycopg.errors.error_from_result(result, encoding="utf-8")
