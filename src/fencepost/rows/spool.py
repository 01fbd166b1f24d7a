"""Rows that are read to their end before the first of them is used, by way of a file that has no name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from typing import IO

import pyarrow as pa


class Spooled(Iterator[pa.RecordBatch]):
    """Rows of which nothing is left that could fail or take long."""

    def __init__(self, rows: Iterator[pa.RecordBatch]) -> None:
        self._rows = rows

    def __next__(self) -> pa.RecordBatch:
        return next(self._rows)


def read_ahead(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, when the last one is there. Raises what reading them raises."""
    return rows if isinstance(rows, Spooled) else Spooled(_spooled(rows))


def _spooled(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = list(islice(rows, 2))
    if len(first) < 2:  # a small batch costs no file
        return iter(first)
    parts = groupby(chain(first, rows), key=lambda part: part.schema)  # a file holds one schema
    files = [_written(schema, same) for schema, same in parts]
    return chain.from_iterable(map(pa.ipc.open_stream, files))


def _written(schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> IO[bytes]:
    kept = tempfile.TemporaryFile()  # noqa: SIM115 (it goes with whoever reads it)
    with pa.ipc.new_stream(kept, schema) as writer:
        for part in parts:
            writer.write_batch(part)
    kept.seek(0)
    return kept
