"""Upsert and dedupe, carried by the real engine and audited: right tables are right, and each wrong row is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consuming.relays import QUICK
from fencepost.admin.positions import carry_out, propose
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Audit
from fencepost.audit.request import EngineChoice, of_pipeline
from fencepost.audit.watch import Rounds
from fencepost.errors import Poison
from fencepost.guarantee import Anomaly
from fencepost.kafka.topics import delete_topic
from fencepost.local import Stack
from fencepost.sinks.postgres import PostgresStore
from fencepost.spec import load
from spark.flows import Flow

LOST, DOUBLED = Anomaly.LOST_BEFORE_SINK, Anomaly.DOUBLED_IN_SINK
TRANSFORM = '''
import pyarrow.compute as pc

def grown(batch):
    """Without the ids above 90; and with a key of its own."""
    kept = batch.filter(pc.less(batch.column("id"), 90))
    return kept.select(["id", "s", "_from"])
'''


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Flow:
    flow = Flow(stack, tmp_path)
    flow.kafka |= QUICK
    return flow


def parts(flow: Flow, engine: str = "python", **options: Any) -> dict[str, Any]:
    source = {"topic": flow.name, "value": "json", "schema": "id long, s string, v long"}
    transform = None if engine == "python" else {"sql": "SELECT id, s, v, _from FROM events"}
    return {"engine": engine, "transform": transform, "batch": {"records": 7}, "source": source, "options": options}


def versions(flow: Flow, *values: tuple[int, int | None]) -> None:
    """Events (id, v), each under a Kafka key of its own and in some partition: neither is the row's key."""
    instead = {number: json.dumps({"id": id_, "s": "x", "v": v}).encode() for number, (id_, v) in enumerate(values)}
    flow.produce(range(len(values)), instead)


def audited(flow: Flow, declared: dict[str, Any], engine: EngineChoice = EngineChoice.AUTO) -> Audit:
    return audit(replace(of_pipeline(load(flow.declare(**declared))), engine=engine))


def test_the_row_of_a_keys_highest_value_is_the_right_one_and_any_other_is_not(flow: Flow) -> None:
    declared = parts(flow, mode="upsert", key=["id"], order_by="v")
    versions(flow, *((number % 12, (number * 7) % 5 if number % 4 else None) for number in range(60)))
    flow.run(**declared)
    found = audited(flow, declared)
    assert (found.verdict, found.hops[-1].landed, found.engine) == (Verdict.HOLDS, 12, "python"), found.as_json(10)
    flow.sql(f"UPDATE {flow.name} SET v = NULL, _partition = 0, _offset = 0 WHERE id = 0")  # an older event's
    found = audited(flow, declared)
    assert (found.verdict, found.totals) == (Verdict.BROKEN, {LOST: 1, DOUBLED: 1})
    flow.sql(f"DELETE FROM {flow.name} WHERE id = 0")
    assert audited(flow, declared).totals == {LOST: 1}


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "dedupe"},
        pytest.param({"mode": "upsert", "order_by": "v"}, marks=pytest.mark.proof),
        pytest.param({"mode": "upsert"}, marks=pytest.mark.proof),
    ],
)
def test_a_running_audit_of_keys_that_come_back(flow: Flow, options: dict[str, Any]) -> None:
    declared = parts(flow, key=["id"], **options)
    versions(flow, *((number, 5) for number in range(6)))
    flow.run(**declared)
    rounds = Rounds(of_pipeline(load(flow.declare(**declared))))
    assert (rounds.next().verdict, rounds.next().compared) == (Verdict.HOLDS, 6)
    versions(flow, *((number, number) for number in range(8)))
    flow.run(**declared)
    assert (rounds.next().verdict, rounds.next().compared) == (Verdict.HOLDS, 8)
    flow.sql(f"DELETE FROM {flow.name} WHERE id = 1")  # a key of both
    last = rounds.next()
    assert (last.verdict, last.totals) == (Verdict.BROKEN, {LOST: 1})


@pytest.mark.parametrize("options", [{"mode": "upsert", "order_by": "v"}, {"mode": "dedupe"}])
def test_rows_that_a_deleted_topic_of_the_same_name_left_are_no_loss(flow: Flow, options: dict[str, Any]) -> None:
    """Dedupe keeps them, and so does order_by where their value is as high: the audit cannot tell, and says so."""
    declared = parts(flow, key=["id"], **options)
    versions(flow, *[(100, 5)] * 24, *((number % 12, 5) for number in range(60)))
    flow.run(**declared)
    delete_topic(flow.cluster, flow.name)
    flow.make_topic()
    versions(flow, *((11 - number % 12, 4) for number in range(24)))
    spec = load(flow.declare(**declared))
    carry_out(spec, propose(spec, "earliest"))
    flow.run(**declared)
    assert {v for (v,) in flow.sql(f"SELECT v FROM {flow.name}")} == {5}
    found = audited(flow, declared)
    assert found.verdict is Verdict.INCONCLUSIVE, found.as_json(10)
    assert not found.totals.keys() & {LOST, DOUBLED}


def test_a_bad_record_that_waits_leaves_nothing_open_about_the_others(flow: Flow) -> None:
    declared = parts(flow, mode="upsert", key=["id"])
    versions(flow, *((number % 5, number) for number in range(20)))
    flow.run(**declared)
    flow.produce(range(2), {0: b"not JSON", 1: b'{"id": 100, "s": "x", "v": 1}'})
    with pytest.raises(Poison, match="not JSON"):
        flow.run(**declared)
    found = audited(flow, declared)
    assert (found.verdict, found.hops[-1].facts["waiting"] > 0) == (Verdict.HOLDS, True), found.as_json(10)


def test_a_bad_record_in_a_batch_that_was_lost_at_most_once_is_none_that_was_processed(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(Exception):
        pass

    def dies(*_: object) -> None:
        raise Died

    declared = {**parts(flow, mode="dedupe", key=["id"]), "guarantee": "at-most-once", "on_error": "dead_letter"}
    flow.produce(range(4), {2: b"not JSON"})
    with monkeypatch.context() as patched:
        patched.setattr(PostgresStore, "write", dies)  # the position has moved by then
        with pytest.raises(Died):
            flow.run(**declared)
    found = audited(flow, declared)
    assert found.verdict is Verdict.HOLDS, found.as_json(10)
    flow.run(**declared)
    assert audited(flow, declared).verdict is Verdict.HOLDS


def test_keys_are_the_tables_columns_and_not_kafkas(flow: Flow) -> None:
    for mode in ("upsert", "dedupe"):
        other = Flow(flow.stack, flow.folder)
        other.kafka |= QUICK
        declared = parts(other, mode=mode, key=["id"])
        versions(other, *((number % 9, number) for number in range(40)))
        other.run(**declared)
        versions(other, (3, 100), (50, 100))
        other.run(**declared)
        assert audited(other, declared).verdict is Verdict.HOLDS
        other.sql(f"DELETE FROM {other.name} WHERE id = 50")
        assert audited(other, declared).totals == {LOST: 1}


def test_a_transform_that_filters_leaves_nothing_lost(flow: Flow) -> None:
    (flow.folder / "grown.py").write_text(TRANSFORM)
    declared = {**parts(flow, mode="upsert", key=["id"]), "transform": {"arrow": "grown.py:grown"}}
    versions(flow, *((number * 5 % 100, number) for number in range(40)))
    flow.run(**declared)
    assert audited(flow, declared).verdict is Verdict.HOLDS


CHANCE = """
import random
import pyarrow as pa

def drawn(batch):
    drawn = pa.array([random.getrandbits(62) for _ in range(batch.num_rows)], pa.int64())
    return pa.RecordBatch.from_pydict({"id": batch.column("id"), "v": drawn, "_from": batch.column("_from")})
"""


def test_a_transform_that_never_gives_the_same_twice_leaves_the_verdict_open(flow: Flow) -> None:
    (flow.folder / "drawn.py").write_text(CHANCE)
    options: dict[str, Any] = {"mode": "upsert", "key": ["id"], "order_by": "v"}
    declared = {**parts(flow, **options), "transform": {"arrow": "drawn.py:drawn"}}
    versions(flow, *((number % 12, 0) for number in range(60)))
    flow.run(**declared)
    found = audited(flow, declared)
    assert (found.verdict, "different results" in found.hops[-1].undecided) == (Verdict.INCONCLUSIVE, True), (
        found.totals
    )


@pytest.mark.proof
@pytest.mark.parametrize("chance", ["rand()", "unix_micros(now())"])
def test_nor_does_one_on_spark(flow: Flow, chance: str) -> None:
    declared = parts(flow, "spark", mode="upsert", key=["id"], order_by="v")
    declared["transform"] = {"sql": f"SELECT id, s, {chance} AS v, _from FROM events"}
    versions(flow, *((number % 12, 0) for number in range(60)))
    flow.run(**declared)
    found = audited(flow, declared)
    assert (found.verdict, "different results" in found.hops[-1].undecided) == (Verdict.INCONCLUSIVE, True), (
        found.totals
    )


def test_rows_that_do_not_know_where_they_came_from_leave_the_verdict_open(flow: Flow) -> None:
    declared = parts(flow, mode="upsert", key=["id"], provenance=False)
    versions(flow, (1, 1), (1, 2))
    flow.run(**declared)
    found = audited(flow, declared)
    assert (found.verdict, "says nothing" in found.hops[-1].undecided) == (Verdict.INCONCLUSIVE, True)
    other = Flow(flow.stack, flow.folder)
    plain = parts(other, provenance=False)
    versions(other, (1, 1), (1, 2))
    other.run(**plain)
    assert audited(other, plain).verdict is Verdict.PARTLY


def test_an_order_that_only_postgres_knows_leaves_the_verdict_open(flow: Flow) -> None:
    declared = parts(flow, mode="upsert", key=["id"], order_by="s")
    place = "_topic text, _partition int, _offset bigint, _n int"
    flow.sql(f"CREATE TABLE {flow.name} (id bigint PRIMARY KEY, s jsonb, v bigint, {place})")
    flow.produce([0, 1], {number: json.dumps({"id": 1, "s": str(number), "v": 1}).encode() for number in (0, 1)})
    flow.run(**declared)
    found = audited(flow, declared)
    assert (found.verdict, "jsonb" in found.hops[-1].undecided) == (Verdict.INCONCLUSIVE, True)


@pytest.mark.proof
@pytest.mark.parametrize("options", [{"mode": "upsert", "order_by": "v"}, {"mode": "upsert"}, {"mode": "dedupe"}])
def test_on_spark_too(flow: Flow, options: dict[str, Any]) -> None:
    declared = parts(flow, "spark", key=["id"], **options)
    versions(flow, *((number % 12, (number * 7) % 5 if number % 4 else None) for number in range(60)))
    flow.run(**declared)
    found = audited(flow, declared)
    assert (found.verdict, found.hops[-1].landed, found.engine) == (Verdict.HOLDS, 12, "spark"), found.as_json(10)
    flow.sql(f"DELETE FROM {flow.name} WHERE id = 3")
    assert audited(flow, declared).totals == {LOST: 1}
    assert audited(flow, declared, EngineChoice.PYTHON).verdict is Verdict.INCONCLUSIVE
