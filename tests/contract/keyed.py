"""A table whose rows have keys, and stores that write events into it in one of the modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from psycopg import sql

from fencepost.delivery import deliver
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Merge, Mode, Span, Tenure, TopicPartition
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import TOMBSTONE, columns_for
from fencepost.sinks.postgres.connection import Connection
from fencepost.sinks.postgres.table import make_table

PARTITIONS = [TopicPartition("orders", number) for number in range(2)]
ROWS = pa.schema([("id", pa.int64()), ("v", pa.string()), ("at", pa.int64())])
PROVENANCE = pa.schema(
    [("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()), ("_n", pa.int32())]
)

UPSERT = Merge(Mode.UPSERT, ("id",))
DEDUPE = Merge(Mode.DEDUPE, ("id",))
BY_TIME = Merge(Mode.UPSERT, ("id",), order_by="at")
DELETING = Merge(Mode.UPSERT, ("id",), deletes=True)

Event = tuple[int | None, str | float | None]  # the key and the value; the latter None: a tombstone where those delete


@dataclass
class Keyed:
    """Use it in a `with` block: it drops what it made."""

    connection: Connection
    dsn: str
    merge: Merge | None
    provenance: bool = True
    values: pa.DataType = field(default_factory=pa.string)
    name: str = field(default_factory=lambda: f"keyed_{uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        rows = ROWS.set(ROWS.get_field_index("v"), pa.field("v", self.values))
        self.schema = pa.schema([*rows, *PROVENANCE]) if self.provenance else rows
        self.settings = PostgresSettings(
            self.dsn, self.name, self.name, columns_for(self.schema), f"{self.name}_own", members=True, merge=self.merge
        )

    def __enter__(self) -> Keyed:
        self._open = ExitStack()
        make_table(self.connection, self.name, self.settings.columns, self.merge.key if self.merge else ())
        self.store = self.another_store()
        self.tenure = self.store.take_over(self.name, uuid4(), dict.fromkeys(PARTITIONS, 0), {})
        return self

    def __exit__(self, *_failure: object) -> None:
        self._open.close()
        self.sql("DROP TABLE {}")
        self.connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(f"{self.name}_own")))

    def another_store(self, merge: Merge | None = None) -> PostgresStore:
        """As another process has it."""
        settings = replace(self.settings, merge=merge or self.merge)
        return self._open.enter_context(closing(PostgresStore(settings)))

    # -- events

    def rows(
        self, partition: int, start: int, events: Sequence[Event], at: Sequence[int | None] = ()
    ) -> pa.RecordBatch:
        """One row per event, from this offset on; `at` is what they are ordered by."""
        size = len(events)
        columns: dict[str, Any] = {
            "id": [key for key, _ in events],
            "v": [value for _, value in events],
            "at": at or [0] * size,
            "_topic": ["orders"] * size,
            "_partition": [partition] * size,
            "_offset": range(start, start + size),
            "_n": [0] * size,
        }
        made = pa.RecordBatch.from_arrays(
            [pa.array(columns[name.name], name.type) for name in self.schema], schema=self.schema
        )
        if self.merge and self.merge.deletes:
            return made.append_column(TOMBSTONE.name, pa.array([value is None for _, value in events]))
        return made

    def batch(self, partition: int, start: int, *parts: pa.RecordBatch) -> Batch[Any]:
        end = start + sum(part.num_rows for part in parts)
        return Batch({PARTITIONS[partition]: Span(start, end)}, iter(parts), self.tenure)

    def write(self, start: int, events: Sequence[Event], partition: int = 0, at: Sequence[int | None] = ()) -> Landed:
        """Without a fence before it: what a repeat, or a writer that was replaced, does under the weaker words."""
        return self.store.write(self.batch(partition, start, self.rows(partition, start, events, at)))

    def deliver(self, start: int, events: Sequence[Event], guarantee: Guarantee, partition: int = 0) -> Landed:
        carried = self.batch(partition, start, self.rows(partition, start, events))
        return deliver(guarantee, carried, self.store, self.store)

    def successor(self) -> Tenure:
        self.tenure = self.store.take_over(self.name, uuid4(), dict.fromkeys(PARTITIONS, 0), {})
        return self.tenure

    # -- what is there

    def table(self) -> dict[int, str]:
        """The value of each key."""
        found = self.sql("SELECT id, v FROM {} ORDER BY id")
        assert len(dict(found)) == len(found) or self.merge is None
        return dict(found)

    def count(self) -> int:
        return len(self.sql("SELECT 1 FROM {}"))

    def sql(self, text: str) -> list[Any]:
        cursor = self.connection.execute(sql.SQL(text).format(sql.Identifier(self.name)))
        return cursor.fetchall() if cursor.description else []


Maker = Callable[..., Keyed]  # of a Keyed that is dropped after the test
