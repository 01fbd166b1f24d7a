"""Streams that keep state, into tables of a lake: the flows of streams.py, looked at as those of a lake are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from fencepost.model import StreamBatch
from spark.iceberg_flow import IcebergFlow
from spark.lakes import LakeFlow
from spark.streams import FirstsFlow, StateFlow, UpdatedFlow, _plain


def noting(witness: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they are; each task that makes them leaves a line."""

    def noted(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with Path(witness).open("a") as lines:
            lines.write("made\n")
        yield from rows

    return noted


class InDelta(LakeFlow):
    """What of a flow of state is another one where the ledger is in the table."""

    columns: str

    def declare(self, **parts: Any) -> Path:
        return super(LakeFlow, self).declare(**parts)

    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"format": "delta", "options": {"path": self.path, **options}}

    def rows(self) -> list[Any]:
        return _told(super().rows() if self.landed(self.columns.split(",")[0]) else [], self.columns)

    def stream(self) -> StreamBatch | None:
        return self.store().stream(self.name)

    def last(self) -> tuple[int, str]:
        return _last(self.stream())

    def stored_batches(self) -> list[Any]:
        held = self.store().stored(self.name)
        return [self.stream(), *sorted((at.partition, one.position, str(one.owner)) for at, one in held.items())]

    def empty(self) -> None:
        self.table().delete()

    def take_over(self) -> None:
        """As another run."""
        self.store().take_over(self.name, uuid4(), {self.partition(at): to for at, to in self.positions().items()}, {})

    def go_back(self) -> None:
        """As an operator: to what it was before the last commit but two."""
        self.table().restore(self.table().version() - 3)


class InIceberg(IcebergFlow):
    """The same."""

    columns: str

    def declare(self, **parts: Any) -> Path:
        return super(IcebergFlow, self).declare(**parts)

    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"format": "iceberg", "options": {**self.options, **options}}

    def rows(self) -> list[Any]:
        return _told(super().rows(), self.columns)

    def stream(self) -> StreamBatch | None:
        with closing(self.store()) as store:
            return store.stream(self.name)

    def last(self) -> tuple[int, str]:
        return _last(self.stream())

    def stored_batches(self) -> list[Any]:
        with closing(self.store()) as store:
            held = store.stored(self.name)
        return [self.stream(), *sorted((at.partition, one.position, str(one.owner)) for at, one in held.items())]

    def empty(self) -> None:
        self.maintain("DELETE FROM {table}")

    def take_over(self) -> None:
        first = {self.partition(at): to for at, to in self.positions().items()}
        with closing(self.store()) as store:
            store.take_over(self.name, uuid4(), first, {})

    def go_back(self) -> None:
        table = self.table()
        assert table is not None
        before = table.history()[-4].snapshot_id
        self.maintain(f"CALL {{catalog}}.system.rollback_to_snapshot('{{name}}', {before})")


def _told(rows: list[dict[str, Any]], columns: str) -> list[tuple[Any, ...]]:
    names = [name.strip(' "') for name in columns.split(",")]
    found = (tuple(_plain(row[name]) for name in names) for row in rows)
    return sorted(found, key=lambda row: (row[0], row[1] or 0))


def _last(batch: StreamBatch | None) -> tuple[int, str]:
    assert batch is not None
    return batch.number, batch.checkpoint


class DeltaWindows(InDelta, StateFlow): ...


class DeltaUpdated(InDelta, UpdatedFlow): ...


class DeltaFirsts(InDelta, FirstsFlow): ...


class IcebergWindows(InIceberg, StateFlow): ...


class IcebergUpdated(InIceberg, UpdatedFlow): ...


class IcebergFirsts(InIceberg, FirstsFlow): ...
