"""Of a stream that keeps state the last batch that landed: it moves with the positions, in their transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from fencepost.errors import CheckpointMismatch, Fenced
from fencepost.model import StreamBatch, StreamStep, Tenure, TopicPartition
from fencepost.sinks.postgres.connection import Connection, translated
from fencepost.sinks.postgres.reading import exists
from fencepost.sinks.postgres.statements import query


def read(connection: Connection, schema: str, pipeline: str) -> StreamBatch | None:
    """None where nothing has landed, and where the ledger is older than this table."""
    if not exists(connection, schema, "streams"):
        return None
    with translated("read the stream's last batch"):
        row = connection.execute(query("stream", schema), {"pipeline": pipeline}).fetchone()
    return StreamBatch(*row) if row else None


def hold(connection: Connection, schema: str, tenure: Tenure, expected: Mapping[TopicPartition, int]) -> None:
    """Inside the caller's transaction: no takeover comes between this and its end.

    Every position, of partitions without records too, because a batch without any emits rows. Fenced where one is not
    ours any more, or not where it is expected.
    """
    places = sorted(expected)
    values = {
        "pipeline": tenure.pipeline,
        "token": tenure.token,
        "topics": [at.topic for at in places],
        "partitions": [at.partition for at in places],
        "positions": [expected[at] for at in places],
    }
    with translated("hold the positions"):
        held = len(connection.execute(query("hold", schema), values).fetchall())
    if held != len(places):
        raise Fenced(f"{tenure.pipeline}: {len(places) - held} of {len(places)} positions are not ours, or have moved")


def begin(connection: Connection, schema: str, tenure: Tenure, first: StreamBatch) -> None:
    """Inside the caller's transaction: it begins at these positions, and nothing of it has landed."""
    hold(connection, schema, tenure, tenure.positions)
    with translated("begin the stream"):
        values = {"pipeline": tenure.pipeline, **asdict(first)}
        begun = connection.execute(query("begin_stream", schema), values).rowcount
    if begun != 1:
        raise CheckpointMismatch(f"{tenure.pipeline}: batches of a stream have landed already")


def forget(connection: Connection, schema: str, pipeline: str) -> None:
    """Inside the caller's transaction: the next run begins with an empty state, where the positions are."""
    with translated("forget the stream"):
        connection.execute(query("forget_stream", schema), {"pipeline": pipeline})


def move(connection: Connection, schema: str, pipeline: str, step: StreamStep) -> None:
    """Compare and set, with the positions held."""
    before = {f"from_{name}": getattr(step.before, name) for name in ("query", "number", "offsets")}
    with translated("move the stream's last batch"):
        values = {"pipeline": pipeline, **before, **asdict(step.after)}
        moved = connection.execute(query("move_stream", schema), values).rowcount
    if moved != 1:
        raise CheckpointMismatch(f"{pipeline}: batch {step.after.number} does not follow the last one that landed")
