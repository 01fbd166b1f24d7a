"""Delta tables that others made, changed, replaced or removed, and values that are hard to keep."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, Field

from contract.delta_subject import InDelta
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.errors import PositionLost, Usage
from fencepost.local import Stack
from fencepost.sinks.delta import writing
from fencepost.sinks.delta.kind import KIND
from fencepost.spec import load
from spark.lakes import LakeFlow

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]
UPSERT = {"mode": "upsert", "key": ["id"]}


@pytest.fixture
def lake(stack: Stack, tmp_path: Path) -> LakeFlow:
    return LakeFlow(stack, tmp_path)


def send(lake: LakeFlow, *values: Any) -> None:
    producer = Producer(lake.kafka)
    for value in values:
        producer.produce(lake.name, value if isinstance(value, bytes) else json.dumps(value).encode(), partition=0)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("mode", ["append", "upsert", "dedupe"])
def test_a_column_that_somebody_adds_to_the_table_of_a_live_run_stays_empty(lake: LakeFlow, mode: str) -> None:
    options = {} if mode == "append" else {"mode": mode, "key": ["id"]}
    lake.produce(range(4))
    with lake.running(options=options, batch={"every": "100ms"}) as running:
        running.wait_until(lambda: len(lake.landed()) == 4, "the first ones land")
        lake.table().alter.add_columns([Field("more", "string", True)])
        lake.produce(range(4, 8))
        running.wait_until(lambda: len(lake.landed()) == 8, "and the next ones")
    lake.assert_exact(8)
    assert set(lake.landed("more")) == {None}


def test_generated_columns_are_made_by_delta(lake: LakeFlow) -> None:
    columns = "id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2), _topic STRING, _partition INT, _offset BIGINT"
    with InDelta.session() as spark:
        spark.sql(f"CREATE TABLE delta.`{lake.path}` ({columns}, _n INT) USING delta").collect()
    lake.produce(range(4))
    lake.run()
    lake.produce(range(2, 6))
    assert lake.run(options=UPSERT).rows == 4
    assert sorted(lake.landed("twice")) == [0, 2, 4, 6, 8, 10]


def test_rows_that_were_restored_while_a_batch_was_written_are_missed(
    lake: LakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append lands whatever was committed since it began: the commit itself shows what came in between."""
    lake.produce(range(4))
    lake.run()
    lake.produce(range(4, 8))
    written = writing.write

    def restored_meanwhile(*arguments: Any, **more: Any) -> None:
        lake.table().restore(1)
        written(*arguments, **more)

    monkeypatch.setattr(writing, "write", restored_meanwhile)
    with pytest.raises(PositionLost, match="RESTORE"):
        lake.run()
    monkeypatch.undo()
    with pytest.raises(PositionLost, match="RESTORE"):
        lake.run()
    assert sorted(lake.landed()) == [4, 5, 6, 7]


def test_a_table_that_is_removed_under_a_live_run_ends_it_and_the_next_starts_from_scratch(lake: LakeFlow) -> None:
    lake.produce(range(4))
    with lake.running(batch={"every": "100ms"}) as running:
        running.wait_until(lambda: len(running.batches()) == 1, "the first ones land")
        shutil.rmtree(lake.path)
        running.wait_until(lambda: running.failure, "it ends")
    assert isinstance(running.failure, PositionLost), running.failure
    assert "was removed or replaced" in running.failure.message
    if Path(lake.path).exists():  # Spark may have left a sum of the last version there
        with pytest.raises(Usage, match="of a table that is gone"):
            lake.run()
        shutil.rmtree(lake.path)
    assert lake.run().rows == 4
    lake.assert_exact(4)


def test_two_pipelines_into_one_table_and_a_row_of_nobody_leave_each_audit_as_it_is(lake: LakeFlow) -> None:
    other = LakeFlow(lake.stack, lake.folder)
    lake.produce(range(4))
    other.produce(range(4, 10))
    lake.run()
    spec = load(other.declare(options={"path": lake.path}))
    with pytest.raises(PositionLost):
        other.run(options={"path": lake.path})
    KIND.ledger(spec.job).set_positions(other.name, {other.partition(0): 0, other.partition(1): 0}, {})
    assert other.run(options={"path": lake.path}).rows == 6
    found = [audit(load(lake.declare())), audit(spec)]
    assert [one.verdict for one in found] == [Verdict.HOLDS] * 2, found
    assert [one.hops[-1].facts["others"] for one in found] == [6, 4]
    with InDelta.session() as spark:
        spark.sql(f"INSERT INTO delta.`{lake.path}` (id) VALUES (-1)").collect()
    found = [audit(load(lake.declare())), audit(spec)]
    assert [one.verdict for one in found] == [Verdict.PARTLY] * 2, found


def test_times_of_any_year_are_shown_and_compared(lake: LakeFlow) -> None:
    parts: dict[str, Any] = {
        "source": {"topic": lake.name, "value": "json", "schema": "id long, at timestamp, d decimal(38,10)"},
        "transform": {"sql": "SELECT id, at, d, _from FROM events"},
    }
    times = ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z", None]
    send(lake, *({"id": number, "at": at} for number, at in enumerate(times)))
    send(lake, b'{"id": 4, "d": 9999999999999999999999999999.9999999999}')
    lake.run(**parts)
    spec = load(lake.declare(**parts))
    names, rows = KIND.last_rows(spec.job, 10)
    shown = sorted((row[0], str(row[1]), str(row[2])) for row in rows)
    assert [at for _, at, _ in shown[:3]] == [
        "0001-01-01 00:00:00+00:00",
        "1969-12-31 23:59:59.999999+00:00",
        "9999-12-31 23:59:59.999999+00:00",
    ], names
    assert shown[4][2] == "9999999999999999999999999999.9999999999"
    assert audit(spec).verdict is Verdict.HOLDS


def test_values_that_can_be_no_folders_are_bad_records_and_all_others_keep_their_key(lake: LakeFlow) -> None:
    parts: dict[str, Any] = {
        "source": {"topic": lake.name, "value": "json", "schema": "id long, r string"},
        "transform": {"sql": "SELECT id, r, _from FROM events"},
        "options": {"mode": "upsert", "key": ["id"], "partition_by": ["r"]},
        "on_error": "dead_letter",
    }
    good = [None, "", "../x", "a/b", "x=y", "..", "ü" * 100, "a b%2F", "\n"]
    for bad in ("a\0b", "x" * 300, "/" * 100):
        send(lake, *({"id": number, "r": value} for number, value in enumerate(good)), {"id": 99, "r": bad})
        run = lake.run(**parts)
        assert (run.dead, len(lake.landed())) == (1, len(good)), bad
    values = {row["id"]: row["r"] for row in lake.table().to_pyarrow_table().to_pylist()}
    assert values == {number: value or None for number, value in enumerate(good)}
    assert audit(load(lake.declare(**parts))).verdict is Verdict.HOLDS


def test_a_key_that_is_a_partition_of_the_table_is_found_again(lake: LakeFlow) -> None:
    parts: dict[str, Any] = {
        "source": {"topic": lake.name, "value": "json", "schema": "id long, r string, v int"},
        "transform": {"sql": "SELECT id, r, v, _from FROM events"},
        "options": {"mode": "upsert", "key": ["id", "r"], "partition_by": ["r"]},
        "on_error": "dead_letter",
    }
    for version in (1, 2):
        send(lake, *({"id": 1, "r": r, "v": version} for r in ("", "a", "../b", "__HIVE_DEFAULT_PARTITION__")))
        assert lake.run(**parts).dead == 2  # these are null in such a column, and were a new row each time
    rows = sorted((row["r"], row["v"]) for row in lake.table().to_pyarrow_table().to_pylist())
    assert rows == [("../b", 2), ("a", 2)]
    assert audit(load(lake.declare(**parts))).verdict is Verdict.HOLDS


def test_what_deltalake_reads_wrongly_is_refused(lake: LakeFlow) -> None:
    columns = "id BIGINT, _topic STRING, _partition INT, _offset BIGINT, _n INT"
    with InDelta.session() as spark:
        mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        spark.sql(f"CREATE TABLE delta.`{lake.path}` ({columns}) USING delta {mapped}").collect()
    lake.produce(range(4))
    assert lake.run().rows == 4
    spec = load(lake.declare())
    for read in (lambda: audit(spec), lambda: KIND.last_rows(spec.job, 5)):
        with pytest.raises(Usage, match="columnMapping"):
            read()


def test_a_table_for_appends_only_is_refused_where_rows_are_merged(lake: LakeFlow) -> None:
    DeltaTable.create(lake.path, InDelta.ROWS, configuration={"delta.appendOnly": "true"})
    lake.produce(range(4))
    with pytest.raises(Usage, match="appends only") as refused:
        lake.run(options=UPSERT)
    with InDelta.session() as spark:
        spark.sql(refused.value.remedy).collect()
    assert lake.run(options=UPSERT).rows == 4
