"""Upsert, dedupe and deletes from a topic into a table, through Spark; and a table that gets another column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.admin.plan import plan_pipeline
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.request import of_pipeline
from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.lab.crash import CrashAction, CrashPoint
from fencepost.model import Step
from fencepost.spec import load
from spark.flows import RETRIES, Flow

UPSERT = {"mode": "upsert", "key": ["id"]}
DEDUPE = {"mode": "dedupe", "key": ["id"]}
TEXT = {"sql": "SELECT id, s, _from FROM events"}


def event(id_: int, s: str) -> bytes:
    return json.dumps({"id": id_, "s": s}).encode()


def test_upsert_keeps_the_newest_and_goes_on_with_a_column_that_the_table_was_given(flow: Flow) -> None:
    flow.produce(range(100))
    flow.produce(range(100), {id_: event(id_, "newer") for id_ in range(0, 100, 3)})
    run = flow.run(transform=TEXT, options=UPSERT)
    assert run.rows == 200
    expected = [(id_, "newer" if id_ % 3 == 0 else str(id_)) for id_ in range(100)]
    assert flow.sql(f"SELECT id, s FROM {flow.name} ORDER BY id") == expected

    flow.produce([5])
    wider = {"sql": "SELECT id, s, id * 2 AS twice, _from FROM events"}
    with pytest.raises(Usage) as refused:
        flow.run(transform=wider, options=UPSERT)
    _, _, statement = refused.value.remedy.partition("or: ")
    assert flow.positions() == {0: 100, 1: 100}
    flow.sql(statement)
    flow.run(transform=wider, options=UPSERT)
    assert flow.sql(f"SELECT id, twice FROM {flow.name} WHERE id IN (5, 6) ORDER BY id") == [(5, 10), (6, None)]


@pytest.mark.proof
def test_dedupe_covers_what_the_producer_and_what_at_least_once_repeat(flow: Flow, tmp_path: Path) -> None:
    """Every event is sent twice, and a task dies after its write: Spark runs it again."""
    for _ in range(2):
        flow.produce(range(100))
    again = CrashPoint(Step.WRITTEN, flow.partition(1), CrashAction.FAIL, tmp_path / "witness")
    flow.run(again, guarantee="at-least-once", transform=TEXT, options=DEDUPE, spark=RETRIES)
    assert (tmp_path / "witness").read_text().count("\n") == 2
    assert sorted(flow.sql(f"SELECT id, _offset FROM {flow.name}")) == [(id_, id_ // 2) for id_ in range(100)]


KEYED = {"sql": "SELECT cast(cast(key AS string) AS long) AS id, s, _from FROM events"}
DELETES = {**UPSERT, "tombstones": "delete"}


def _deleted(flow: Flow) -> None:
    """The rows of two keys are gone, and one was written again."""
    flow.produce(range(10))
    flow.run(transform=KEYED, options=DELETES)
    assert sorted(flow.landed()) == list(range(10))
    flow.remove([0, 3, 4])
    flow.produce([4])
    assert flow.run(transform=KEYED, options=DELETES).rows == 4
    assert sorted(flow.landed()) == [1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.proof
def test_the_audit_knows_which_keys_were_deleted(flow: Flow) -> None:
    _deleted(flow)
    pipeline = of_pipeline(load(flow.declare(transform=KEYED, options=DELETES)))
    assert audit(pipeline).verdict is Verdict.HOLDS
    columns = "s, _topic, _partition, _offset, _n"
    flow.sql(f"INSERT INTO {flow.name} (id, {columns}) SELECT 0, {columns} FROM {flow.name} WHERE id = 1")
    assert audit(pipeline).verdict is Verdict.BROKEN  # a key that was deleted has a row


@pytest.mark.proof
def test_an_event_without_a_value_deletes_the_row_of_kafkas_key_and_bad_keys_go_aside(flow: Flow) -> None:
    _deleted(flow)
    flow.remove([1])
    run = flow.run(transform=TEXT, options=DELETES, on_error="dead_letter")  # a tombstone has no field `id`
    assert (run.rows, run.dead) == (0, 1)
    assert "take the key from Kafka's key" in flow.sql(f"SELECT _dead FROM {flow.name}_dead")[0][0]
    with pytest.raises(UnsupportedGuarantee, match="exactly-once is possible here"):
        flow.run(transform=KEYED, options=DELETES, guarantee="at-least-once")


def test_the_plan_says_which_duplicates_are_covered(flow: Flow) -> None:
    path = flow.declare(transform=TEXT, options=DEDUPE, guarantee="at-least-once")
    plan = plan_pipeline(load(path), offline=True)
    (rows,) = [hop for hop in plan.hops if hop.hop == "rows of one key"]
    assert "the first event of a (id) to land keeps the row" in rows.why
    assert "what the pipeline itself repeats" in rows.why
