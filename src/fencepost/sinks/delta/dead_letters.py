"""Dead letters in a Delta table of their own, beside the table.

Two tables are two commits. The letters are written first, and each place once: a record that is read again after a
crash between the two leaves no second letter. So a letter may be there before the position has passed its record.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from fencepost.errors import Unreachable
from fencepost.model import TopicPartition
from fencepost.rows.dead_letters import SCHEMA
from fencepost.sinks.delta.log import Log, translated, uri_of

TRIES = 50  # while others write letters there too
# a record of a topic that was created again may have the place of another, but hardly its time
SAME = (
    "t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset AND "
    "(t.timestamp = s.timestamp OR (t.timestamp IS NULL AND s.timestamp IS NULL))"
)

Letters = Mapping[TopicPartition, pa.RecordBatch]


def path_for(path: str) -> str:
    return f"{path.rstrip('/')}_dead"


def make(path: str, storage: Mapping[str, str]) -> None:
    """Where it is not there yet."""
    from deltalake import DeltaTable

    plain = pa.schema([pa.field(field.name, field.type) for field in SCHEMA])
    with translated(f"make a table at {path_for(path)}"):
        DeltaTable.create(uri_of(path_for(path)), plain, mode="ignore", storage_options=dict(storage) or None)


def add(path: str, storage: Mapping[str, str], letters: Letters) -> None:
    """Those that are not there yet; durable on return. Raises Unreachable."""
    if not any(batch.num_rows for batch in letters.values()):
        return
    from deltalake import CommitProperties
    from deltalake.exceptions import CommitFailedError

    plain = pa.schema([pa.field(field.name, field.type) for field in SCHEMA])
    rows = pa.Table.from_batches(letters.values(), SCHEMA).cast(plain)
    for _ in range(TRIES):
        make(path, storage)
        table = Log(path_for(path), storage).table()
        if table is None:
            continue
        with translated(f"write dead letters to {path_for(path)}"):
            try:
                table.merge(
                    rows, SAME, source_alias="s", target_alias="t", commit_properties=CommitProperties({}, 0)
                ).when_not_matched_insert_all().execute()
            except CommitFailedError:
                continue  # on another version than the one that was compared
            return
    raise Unreachable(f"{path_for(path)}: others commit to the table all the time")
