"""Rows that are read to their end before the first of them is used; where they are many, by way of a nameless file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import IO

import pyarrow as pa

IN_MEMORY = 32 << 20  # bytes that cost no file


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
    held, size = [], 0
    for part in rows:
        held.append(part)
        size += part.nbytes
        if size > IN_MEMORY:
            break
    else:
        return iter(held)
    parts = groupby(chain(held, rows), key=lambda part: part.schema)  # a file holds one schema
    files = [_written(schema, same) for schema, same in parts]
    return chain.from_iterable(map(pa.ipc.open_stream, files))


def _written(schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> IO[bytes]:
    kept = tempfile.TemporaryFile()  # noqa: SIM115 (it goes with whoever reads it)
    with pa.ipc.new_stream(kept, schema) as writer:
        for part in parts:
            writer.write_batch(part)
    kept.seek(0)
    return kept
