"""What a stage says of itself: its name, and which rows came of which span."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.engines.spark.staging import Numbering
from fencepost.model import Landed, Span, TopicPartition
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.moving import Staged
from fencepost.sinks.postgres.stage import Attempt, Stage, name_for

ONE, TWO, GONE = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders", 9)
SPANS = {TWO: Span(0, 10), ONE: Span(5, 9)}
COLUMNS = tuple(Column(name, "bigint") for name in ("id", "_topic", "_partition", "_offset", "_n"))
STAGE = Stage("fencepost", "stage_x", "orders", COLUMNS, provenance=True)
Origin = tuple[str | None, int | None, int]
PLACES = st.sampled_from([ONE, TWO, GONE, (None, None)])
ORIGINS = st.lists(st.builds(lambda at, rows: (*at, rows), PLACES, st.integers(0, 50)), max_size=5)


@given(st.lists(ORIGINS, max_size=4))
def test_every_row_is_noted_with_one_span_and_with_its_own_where_it_knows(tasks: list[list[Origin]]) -> None:
    attempts = [
        Attempt(task, task, sum(rows for *_, rows in origins), tuple(origins)) for task, origins in enumerate(tasks)
    ]
    shares = Staged(STAGE, tuple(attempts), {}).shares(SPANS)
    known = sum(rows for origins in tasks for *at, rows in origins if tuple(at) == TWO)
    assert shares[TWO] == Landed(known)
    assert sum(share.rows for share in shares.values()) == sum(attempt.rows for attempt in attempts)


def test_records_that_were_put_aside_are_noted_with_their_span() -> None:
    letters = {TWO: pa.RecordBatch.from_pydict({"_dead": ["no number", "too long"]})}
    assert Staged(STAGE, (), letters).shares(SPANS) == {ONE: Landed(0), TWO: Landed(0, dead=2)}


def test_names_are_short_enough_tell_pipelines_and_runs_apart_and_are_not_used_twice() -> None:
    run = uuid4()
    names = [name_for(*words) for words in (("a" * 200, run, 10**9), ("b", run, 1), ("b", run, 2), ("b", uuid4(), 1))]
    assert len(set(names)) == 4
    assert max(map(len, names)) + len("_done") < 63


@pytest.mark.parametrize(
    ("tasks", "right"),
    [
        ([[ONE], [TWO]], True),
        ([[ONE], []], True),
        ([[ONE], [ONE]], False),  # one partition came to two tasks
        ([[ONE, TWO]], False),  # perhaps mixed
    ],
)
def test_the_tasks_numbers_count_where_each_partition_came_to_one_task(
    tasks: list[list[TopicPartition]], right: bool
) -> None:
    attempts = [
        Attempt(task, task, len(places), tuple((*place, 1) for place in places), in_order=True)
        for task, places in enumerate(tasks)
    ]
    assert Staged(STAGE, tuple(attempts), {}).numbered is right
    assert not Staged(STAGE, (*attempts, Attempt(7, 7, 1, ((*GONE, 1),), in_order=False)), {}).numbered


def test_rows_are_numbered_as_long_as_they_come_by_offset() -> None:
    def numbers(*parts: Sequence[int | None]) -> tuple[list[int], bool]:
        numbering = Numbering()
        rows = [pa.RecordBatch.from_pydict({"_offset": pa.array(part, pa.int64()), "x": part}) for part in parts]
        made = [numbering.of(part) for part in rows]
        assert all(part.schema.names == ["_offset", "_n", "x"] for part in made)
        return [number for part in made for number in part.column("_n").to_pylist()], numbering.in_order

    assert numbers([3, 3, 4], [], [4, 9]) == ([0, 1, 0, 1, 0], True)
    assert not numbers([3, 4, 3])[1]
    assert not numbers([3, 4], [3])[1]
    assert not numbers([3, None])[1]
