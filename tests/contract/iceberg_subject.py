"""The Iceberg store as the suites drive it, every test with a table of its own. Library, catalog and commits are real;
the data files are PyArrow's, where a pipeline's are Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.errors import InputCut
from fencepost.local import Stack
from fencepost.sinks.iceberg import catalog, library
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.table import IcebergTable, IcebergTarget
from fencepost.sinks.iceberg.writing import DataFiles
from fencepost.sinks.lake.store import LakeStore

NUMBERS = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])


class Through:
    """Something of Java's, some of whose methods are replaced."""

    def __init__(self, real: Any, **replaced: Any) -> None:
        self._real = real
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def one_java() -> Iterator[None]:
    """One JVM for all stores: they start one each, and end it."""
    gateway = library._small_jvm(("iceberg-spark",))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(library, "_small_jvm", lambda _jars: Through(gateway, shutdown=lambda: None))
        yield
    gateway.shutdown()


def options_in(stack: Stack, folder: Path) -> IcebergOptions:
    wanted = {"catalog": f"lake_{uuid4().hex}", "table": "db.t", "warehouse": str(folder), "dsn": stack.dsn}
    return IcebergOptions.model_validate(wanted)


def made(options: IcebergOptions) -> None:
    """A table, by pyiceberg: as a run of Spark's would."""
    catalog.make(options)
    with closing(catalog._in_postgres(options)) as there:
        there.create_namespace("db")
        there.create_table(options.table, schema=pa.schema([("id", pa.int64())]))


class InIceberg:
    """One table of a catalog in PostgreSQL."""

    doubles = True

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._options, self._folder = options_in(stack, folder), folder
        made(self._options)

    def open(self) -> LakeStore:
        store = IcebergTarget(self._options, {}).open()
        table: Any = store.table
        table.prepare = lambda _pipeline, ids: self._files(table, list(ids))
        return store

    def _files(self, table: IcebergTable, ids: Sequence[int]) -> DataFiles:
        path = self._folder / f"{uuid4().hex}.parquet"
        pq.write_table(pa.table({"id": list(ids)}, schema=NUMBERS), path)
        there = table._library.table(self._options.table)
        file = table._library.jvm.org.apache.iceberg.DataFiles.builder(there.spec())
        file.withPath(f"file:{path}").withFileSizeInBytes(path.stat().st_size).withRecordCount(len(ids))
        return DataFiles([file.build()])

    def rows(self, ids: Sequence[int]) -> Iterable[int]:
        return iter(ids)

    def cut_rows(self, ids: Sequence[int]) -> Iterable[int]:
        yield from ids
        raise InputCut("the input broke off")

    def landed(self) -> list[int]:
        with closing(catalog._in_postgres(self._options)) as there:
            found = there.load_table(self._options.table).scan().to_arrow()
        return sorted(found.column("id").to_pylist())
