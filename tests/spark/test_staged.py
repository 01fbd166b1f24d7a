"""Plans that mix Kafka's partitions: rows go through a stage, and land with all positions of their batch or not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fencepost.admin.plan import plan_pipeline
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.request import of_pipeline
from fencepost.errors import Poison, Usage
from fencepost.lab.crash import Crash, CrashAction, CrashPoint, visits
from fencepost.model import Step
from fencepost.spec import load
from spark.flows import RETRIES, Flow

SORTED = {"sql": "SELECT id, _from FROM events ORDER BY id"}
IDS = range(100)


def event(id_: int, s: str) -> bytes:
    return json.dumps({"id": id_, "s": s}).encode()


def at(id_: int) -> tuple[int, int]:
    """The partition and the offset of an id, where ids are produced in order."""
    return id_ % 2, id_ // 2


# what is asked for, the node of the plan that decides, and the rows that must come of ids 0 to 99
LANDS: dict[str, tuple[str, str, list[tuple[Any, ...]]]] = {
    "aggregate": (
        "SELECT id % 10 AS id, count(*) AS n, max(_from) AS _from FROM events GROUP BY id % 10",
        "SortAggregate",
        [(id_, 10, *at(90 + id_)) for id_ in range(10)],
    ),
    "distinct": (
        "SELECT DISTINCT id % 7 AS id, 0 AS n, cast(null AS int) AS p FROM events",
        "HashAggregate",
        [(id_, 0, None) for id_ in range(7)],
    ),
    "sort": ("SELECT id, 0 AS n, _from FROM events ORDER BY id", "Sort", [(id_, 0, *at(id_)) for id_ in IDS]),
    "broadcast": (
        "SELECT events.id, 0 AS n, _from FROM events JOIN range(10) AS few ON events.id = few.id",
        "BroadcastHashJoin",
        [(id_, 0, *at(id_)) for id_ in range(10)],
    ),
    "merge": (
        "SELECT /*+ MERGE(few) */ events.id, 0 AS n, _from FROM events JOIN range(10) AS few ON events.id = few.id",
        "SortMergeJoin",
        [(id_, 0, *at(id_)) for id_ in range(10)],
    ),
    "outer": (
        "SELECT few.id, 0 AS n, _from FROM events RIGHT JOIN range(98, 102) AS few ON events.id = few.id",
        "SortMergeJoin",
        [(98, 0, *at(98)), (99, 0, *at(99)), (100, 0, None, None), (101, 0, None, None)],
    ),
    "union": (
        "SELECT id, 0 AS n, _from FROM events UNION ALL SELECT id, 1 AS n, _from FROM events",
        "Union",
        [(id_, n, *at(id_)) for id_ in IDS for n in range(2)],
    ),
    "window": (
        "SELECT id, row_number() OVER (PARTITION BY id % 3 ORDER BY id) AS n, _from FROM events",
        "Window",
        [(id_, id_ // 3 + 1, *at(id_)) for id_ in IDS],
    ),
}


@pytest.mark.parametrize(
    "names",
    [["union"], pytest.param(LANDS, marks=pytest.mark.proof)],
    ids=["one", "all"],
)
def test_operators_land_right_and_the_run_names_the_node(flow: Flow, names: Iterable[str]) -> None:
    flow.produce(IDS)
    for name in names:
        query, node, expected = LANDS[name]
        table = f"{flow.name}_{name}"
        run = flow.run(name=table, options={"table": table}, transform={"sql": query})
        assert [(batch.staged, batch.rows) for batch in run.batches()] == [(node, len(expected))], name
        columns = "id, n, _partition, _offset" if "_from" in query else "*"
        assert _sorted(flow.sql(f"SELECT {columns} FROM {table}")) == _sorted(expected), name
        if "_from" in query:  # the outputs of one event are told apart
            numbers = flow.sql(f"SELECT array_agg(_n ORDER BY _n) FROM {table} GROUP BY _partition, _offset")
            assert all(found == list(range(len(found))) for (found,) in numbers), name
        assert run.rows == len(expected), name
        assert flow.stages(table) == []


@pytest.mark.proof
def test_a_limit_takes_so_many_and_goes_past_the_rest(flow: Flow) -> None:
    flow.produce(IDS)
    run = flow.run(transform={"sql": "SELECT id, _from FROM events LIMIT 3"})
    assert [batch.staged for batch in run.batches()] == ["CollectLimit"]
    assert len(set(flow.landed())) == 3
    assert flow.positions() == {0: 50, 1: 50}


def test_batches_are_grouped_each_by_itself_and_the_audit_and_the_spans_add_up(flow: Flow) -> None:
    flow.produce(IDS)
    counted = {"sql": "SELECT id % 2 AS id, count(*) AS n FROM events GROUP BY 1"}
    table = f"{flow.name}_counted"
    run = flow.run(name=table, options={"table": table}, transform=counted, batch={"records": 40})
    assert len(run.batches()) > 1
    rows = flow.sql(f"SELECT id, n FROM {table}")
    assert len(rows) == run.rows == 2 * len(run.batches())
    assert [sum(n for id_, n in rows if id_ == part) for part in range(2)] == [50, 50]
    _audited(flow, Verdict.PARTLY, name=table, options={"table": table}, transform=counted)  # rows know no event

    few = {"sql": "SELECT events.id, _from FROM events JOIN range(0, 100, 4) AS few ON events.id = few.id"}
    flow.run(transform=few, batch={"records": 40})
    spans = flow.sql("SELECT partition, sum(rows)::int FROM fencepost.spans WHERE pipeline = %s GROUP BY 1", flow.name)
    assert sorted(spans) == [(0, 25), (1, 0)]
    _audited(flow, Verdict.HOLDS, transform=few)
    flow.sql(f"DELETE FROM {flow.name} WHERE id = 4")
    assert audit(of_pipeline(load(flow.declare(transform=few)))).verdict is Verdict.BROKEN


@pytest.mark.proof
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_the_other_guarantees_double_or_lose_a_whole_batch(flow: Flow, tmp_path: Path, guarantee: str) -> None:
    """The driver fails between its two steps; the next run finds the position where the first left it."""
    flow.produce(IDS)
    step = Step.WRITTEN if guarantee == "at-least-once" else Step.ADVANCED
    with pytest.raises(Crash):
        flow.run(
            see=CrashPoint(step, flow.partition(1), CrashAction.FAIL, tmp_path / "witness"),
            guarantee=guarantee,
            transform=SORTED,
        )
    flow.run(guarantee=guarantee, transform=SORTED)
    found = flow.comparison()
    assert (found.lost, found.duplicated) == ((0, 100) if guarantee == "at-least-once" else (100, 0))
    assert flow.positions() == {0: 50, 1: 50}
    flow.produce(range(100, 200))
    flow.run(guarantee=guarantee, transform=SORTED)
    assert Counter(flow.landed())[150] == 1
    assert flow.stages() == []


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["aggregate", "merge"])
def test_at_least_once_into_a_unique_index_goes_on_after_a_crash_between_the_two_steps(
    flow: Flow, tmp_path: Path, kind: str
) -> None:
    """What a group gives is not made anew without the records whose rows are there: it would be another row."""
    query, _, rows = LANDS[kind]
    parts: dict[str, Any] = {"transform": {"sql": query}, "guarantee": "at-least-once"}
    flow.sql(
        f"CREATE TABLE {flow.name} (id bigint UNIQUE, n bigint, _topic text, _partition integer, _offset bigint, "
        "_n integer)"
    )
    flow.produce(IDS)
    with pytest.raises(Crash):
        flow.run(see=CrashPoint(Step.WRITTEN, flow.partition(1), CrashAction.FAIL, tmp_path / "witness"), **parts)
    assert flow.positions() == {0: 0, 1: 0}
    (said,) = (one for one in plan_pipeline(load(flow.declare(**parts)), offline=False).warnings if "append" in one)
    assert said.endswith("equal in every column, are left out")
    flow.run(**parts)
    assert flow.positions() == {0: 50, 1: 50}
    assert sorted(flow.sql(f"SELECT id, n, _partition, _offset FROM {flow.name}")) == rows
    assert flow.stages() == []


def test_an_attempt_that_failed_after_it_was_done_does_not_count(flow: Flow, tmp_path: Path) -> None:
    flow.produce(IDS)
    witness = tmp_path / "witness"
    run = flow.run(
        see=CrashPoint(Step.STAGED, flow.partition(0), CrashAction.FAIL, witness, time=2),
        transform=SORTED,
        spark=RETRIES,
    )
    assert [visit.acted for visit in visits(witness)].count(True) == 1
    assert len(visits(witness)) == 5  # of four tasks
    assert run.rows == 100
    flow.assert_exact(100)


@pytest.mark.proof
def test_upsert_dedupe_and_deletes_go_through_the_same_stage(flow: Flow) -> None:
    key = "cast(cast(key AS string) AS long) AS id"
    text = {"sql": f"SELECT {key}, s, _from FROM events ORDER BY offset DESC"}
    flow.produce(IDS)
    flow.produce(IDS, {id_: event(id_, "newer") for id_ in range(0, 100, 3)})
    flow.remove([4, 6])
    table = f"{flow.name}_first"
    flow.run(name=table, transform=text, options={"table": table, "mode": "dedupe", "key": ["id"]})
    assert sorted(flow.sql(f"SELECT id, s, _offset FROM {table}")) == [(id_, str(id_), id_ // 2) for id_ in IDS]

    options = {"mode": "upsert", "key": ["id"], "tombstones": "delete"}
    flow.run(transform=text, options=options)
    expected = [(id_, "newer" if id_ % 3 == 0 else str(id_)) for id_ in IDS if id_ not in (4, 6)]
    assert sorted(flow.sql(f"SELECT id, s FROM {flow.name}")) == expected

    counted = {"sql": "SELECT id % 10 AS id, count(*) AS n FROM events WHERE id IS NOT NULL GROUP BY 1"}
    table = f"{flow.name}_counted"
    flow.run(name=table, transform=counted, options={"table": table, "mode": "upsert", "key": ["id"]})
    assert sorted(flow.sql(f"SELECT id, n FROM {table}")) == [(id_, 20) for id_ in range(10)]


@pytest.mark.proof
def test_bad_records_are_named_wherever_they_fail_or_put_aside_with_the_batch(flow: Flow) -> None:
    """One is no number, one does not fit the stage, one is refused by the table itself."""
    flow.sql(
        f"CREATE TABLE {flow.name} (id bigint CHECK (id <> 33), s varchar(5), _topic text, _partition integer, "
        "_offset bigint, _n integer)"
    )
    flow.produce(IDS, {7: event(7, "seven!"), 21: event(21, "x"), 33: event(33, "33")})
    bad = {"sql": "SELECT cast(if(s = 'x', s, string(id)) AS long) AS id, s, _from FROM events ORDER BY s"}
    with pytest.raises(Poison) as refused:
        flow.run(transform=bad)
    assert f"{flow.partition(1)} offset 10" in refused.value.message
    assert (flow.landed(), flow.positions()) == ([], {0: 0, 1: 0})

    run = flow.run(transform=bad, on_error="dead_letter")
    assert (run.rows, run.dead) == (97, 3)
    assert sorted(flow.landed()) == sorted(set(IDS) - {7, 21, 33})
    dead = flow.sql(f'SELECT partition, "offset" FROM {flow.name}_dead ORDER BY 2')
    assert dead == [(1, 3), (1, 10), (1, 16)]
    noted = flow.sql("SELECT partition, rows, dead FROM fencepost.spans WHERE pipeline = %s ORDER BY 1", flow.name)
    assert noted == [(0, 50, 0), (1, 47, 3)]
    assert flow.stages() == []


STATEFUL = {
    "events.withWatermark('timestamp', '1 minute').select('id', '_from')": "EventTimeWatermark",
    "events.groupBy(f.window('timestamp', '1 minute')).count().select('count')": "window",
    "events.withWatermark('timestamp', '1 minute').dropDuplicatesWithinWatermark(['id']).select('id')": "Deduplicate",
    "events.select('id', f.array('_from').alias('_from'))": "array<struct",
}


def test_what_means_a_whole_stream_is_refused_before_an_event_moves(flow: Flow, tmp_path: Path) -> None:
    flow.produce(IDS)
    for number, (made, complaint) in enumerate(STATEFUL.items()):
        (tmp_path / f"made{number}.py").write_text(
            f"from pyspark.sql import functions as f\ndef made(events): return {made}\n"
        )
        with pytest.raises(Usage) as refused:
            flow.run(transform={"spark": f"made{number}.py:made"})
        assert complaint in refused.value.message, made
        assert (flow.landed("*"), flow.positions()) == ([], {}), made


def test_the_plan_says_staged_and_why_and_what_a_batch_means(flow: Flow) -> None:
    def planned(query: str, **options: Any) -> Any:
        return plan_pipeline(load(flow.declare(transform={"sql": query}, options=options)), offline=True)

    grouped = planned("SELECT id, count(*) AS n FROM events GROUP BY id", mode="upsert", key=["id"])
    assert (grouped.path, grouped.path_why.split()[0]) == ("staged", "HashAggregate")
    assert any("Aggregate sees the records of one batch only" in warning for warning in grouped.warnings)
    assert any("any may win" in warning for warning in grouped.warnings)
    assert "all its positions in one transaction" in grouped.hops[1].why

    joined = planned("SELECT events.id, _from FROM events JOIN range(10) AS few ON events.id = few.id")
    assert (joined.path, joined.warnings) == ("staged", [])
    both = planned("SELECT a.id, a._from FROM events AS a JOIN events AS b ON a.id = b.id")
    assert any("Join sees the records of one batch only" in warning for warning in both.warnings)
    assert planned("SELECT id, _from FROM events").path == "direct"


def _audited(flow: Flow, verdict: Verdict, **parts: Any) -> None:
    assert audit(of_pipeline(load(flow.declare(**parts)))).verdict is verdict


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(value is not None, value or 0) for value in row])
