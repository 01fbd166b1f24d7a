"""What lands in a table of a lake, Delta or Iceberg, mode by mode, and what every report says of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fencepost.admin.plan import plan_pipeline
from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.fates import Fate
from fencepost.audit.receipt import receipt
from fencepost.errors import Poison, Refused, Usage
from fencepost.local import Stack
from fencepost.spec import load
from spark.iceberg_flow import IcebergFlow
from spark.lakes import LakeFlow

pytestmark = pytest.mark.timeout(900)
UPSERT = {"mode": "upsert", "key": ["id"]}
Lake = LakeFlow | IcebergFlow
# all of the one before all of the other: each needs a JVM with other jars
BOTH = pytest.mark.parametrize("make", [LakeFlow, IcebergFlow], ids=["delta", "iceberg"], scope="module")
# reports of both are made alike, and so are upsert and dedupe: those of one are enough for the gate
ONE = pytest.mark.parametrize(
    "make", [LakeFlow, pytest.param(IcebergFlow, marks=pytest.mark.proof)], ids=["delta", "iceberg"], scope="module"
)
OTHER = pytest.mark.parametrize(
    "make", [pytest.param(LakeFlow, marks=pytest.mark.proof), IcebergFlow], ids=["delta", "iceberg"], scope="module"
)
FIELDS = {"sql": "SELECT id, s, _from FROM events"}


@pytest.fixture
def lake(make: type[Lake], stack: Stack, tmp_path: Path) -> Lake:
    return make(stack, tmp_path)


@ONE
def test_dead_letters_and_filtered_records_in_every_report(lake: Lake) -> None:
    parts: dict[str, Any] = {
        "on_error": "dead_letter",
        "transform": {"sql": "SELECT id, _from FROM events WHERE id <> 4"},
        "batch": {"records": 10},  # the letter is the first one's
    }
    lake.produce(range(20), instead={5: b"bad"})
    run = lake.run(**parts)
    assert (run.rows, run.dead) == (18, 1)
    (letter,) = lake.letters()
    assert (letter["topic"], letter["partition"], letter["offset"], letter["value"]) == (lake.name, 1, 2, b"bad")
    assert "JSON" in letter["_dead"]

    spec = load(lake.declare(**parts))
    status = pipeline_status(spec)
    assert (status.rows, status.dead, status.lag, status.last_batch is not None) == (18, 1, 0, True)
    assert {id_: receipt(spec, id_ % 2, id_ // 2, check=True).fate for id_ in (3, 4, 5)} == {
        3: Fate.LANDED,
        4: Fate.FILTERED,
        5: Fate.DEAD,
    }
    found = audit(spec)
    assert found.verdict is Verdict.HOLDS, found
    kind: Any = spec.sink.kind
    names, rows = kind.last_rows(spec.job, 5)
    assert (names[0], len(rows)) == ("id", 5)
    plan = plan_pipeline(spec, offline=False)
    assert any("7,200 files an hour" in warning for warning in plan.warnings), plan.warnings
    assert f"written to {kind.dead_letters(spec.job)}" in next(hop.why for hop in plan.hops if hop.hop == "bad records")

    lake.delete("id = 7")
    assert audit(spec).verdict is Verdict.BROKEN


@OTHER
def test_upsert_keeps_the_highest_offset(lake: Lake) -> None:
    lake.produce([0, 1, 2, 0], instead={2: b'{"id": 2, "s": "old"}'})
    lake.produce([2], instead={2: b'{"id": 2, "s": "new"}'})
    lake.run(transform=FIELDS, options=UPSERT)
    lake.produce([1], instead={1: b'{"id": 1, "s": "later"}'})
    lake.run(transform=FIELDS, options=UPSERT)
    rows = {row["id"]: row["s"] for row in lake.rows()}
    assert (rows, len(lake.landed())) == ({0: "0", 1: "later", 2: "new"}, 3)
    assert audit(load(lake.declare(transform=FIELDS, options=UPSERT))).verdict is Verdict.HOLDS


@pytest.mark.proof
@BOTH
def test_dedupe_keeps_the_first(lake: Lake) -> None:
    lake.produce([1, 1])
    lake.produce([1], instead={1: b'{"id": 1, "s": "later"}'})
    dedupe = {"mode": "dedupe", "key": ["id"]}
    assert lake.run(transform=FIELDS, options=dedupe).rows == 1
    lake.produce([1], instead={1: b'{"id": 1, "s": "again"}'})
    assert lake.run(transform=FIELDS, options=dedupe).rows == 0
    assert [row["s"] for row in lake.rows()] == ["1"]
    assert lake.positions() == {0: 0, 1: 4}


@pytest.mark.proof
@BOTH
def test_a_key_that_is_null_is_a_bad_record(lake: Lake) -> None:
    lake.produce([0, 1, 2], instead={1: b'{"s": "no id"}'})
    with pytest.raises(Poison, match="is null") as bad:
        lake.run(options=UPSERT)
    assert [offset for offset, _ in bad.value.records] == [0]
    assert lake.run(options=UPSERT, on_error="dead_letter").dead == 1
    assert sorted(lake.landed()) == [0, 2]


@pytest.mark.proof
@BOTH
def test_rows_of_one_event_are_numbered_and_plans_that_mix_partitions_land_whole(lake: Lake) -> None:
    lake.produce(range(10))
    lake.run(transform={"sql": "SELECT id, explode(array(1, 2, 3)) AS part, _from FROM events"})
    rows = lake.rows()
    assert Counter((row["id"], row["part"] - row["_n"]) for row in rows) == {(id_, 1): 3 for id_ in range(10)}

    mixed = type(lake)(lake.stack, lake.folder, name=f"{lake.name}_mixed")
    mixed.produce(range(10))
    sql = "SELECT id % 2 AS odd, count(*) AS n, max(_from) AS _from FROM events GROUP BY id % 2"
    mixed.run(transform={"sql": sql})
    assert sorted((row["odd"], row["n"]) for row in mixed.rows()) == [(0, 5), (1, 5)]
    assert mixed.positions() == {0: 5, 1: 5}


@pytest.mark.proof
@BOTH
def test_a_batch_of_which_nothing_is_left_moves_the_positions(lake: Lake) -> None:
    lake.produce(range(10))
    assert lake.run(transform={"sql": "SELECT id, _from FROM events WHERE id < 0"}).rows == 0
    assert (lake.positions(), lake.landed()) == ({0: 5, 1: 5}, [])
    lake.produce(range(10, 20))
    assert lake.run(transform={"sql": "SELECT id, _from FROM events WHERE false"}).rows == 0
    assert lake.positions() == {0: 10, 1: 10}


@pytest.mark.proof
@BOTH
def test_columns_are_added_only_where_that_is_asked_for(lake: Lake) -> None:
    lake.produce(range(10))
    lake.run()
    more = {"sql": "SELECT id, s, _from FROM events"}
    lake.produce(range(10, 20))
    with pytest.raises(Usage, match="has no column 's'"):
        lake.run(transform=more)
    lake.run(transform=more, options={"schema": "evolve"})
    lake.assert_exact(20)
    assert [row["s"] for row in lake.rows() if row["id"] == 15] == ["15"]
    for mode in ("upsert", "dedupe"):
        lake.produce(range(20, 30))
        keyed = {"sql": f"SELECT id, s, s AS {mode}, _from FROM events"}
        lake.run(transform=keyed, options={"mode": mode, "key": ["id"], "schema": "evolve"})
    assert {"upsert", "dedupe"} < set(lake.rows()[0])


@pytest.mark.proof
@BOTH
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_the_other_guarantees_write_and_advance_in_their_order(lake: Lake, guarantee: str) -> None:
    lake.produce(range(20))
    assert lake.run(guarantee=guarantee).rows == 20
    lake.assert_exact(20)
    spec = load(lake.declare(guarantee=guarantee))
    assert pipeline_status(spec).rows == (20 if guarantee == "at-least-once" else 0)
    assert audit(spec).verdict is Verdict.HOLDS

    def fails(*_: object, **__: object) -> None:
        raise Refused("not now")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lake.WRITES, fails)
        lake.produce(range(20, 40))
        with pytest.raises(Refused):
            lake.run(guarantee=guarantee)
    assert lake.positions() == {0: 10, 1: 10}
    assert lake.run(guarantee=guarantee).rows == 20
    lake.assert_exact(40)


@pytest.mark.proof
@BOTH
def test_partitioned_tables_and_several_topics(lake: Lake) -> None:
    other = type(lake)(lake.stack, lake.folder)
    lake.produce(range(10))
    other.produce(range(10, 20))
    source = {"topics": [lake.name, other.name], "value": "json", "schema": "id long, s string"}
    sql = {"sql": "SELECT id, id % 3 AS third, _from FROM events"}
    assert lake.run(source=source, transform=sql, options={"partition_by": ["third"]}).rows == 20
    assert sorted(lake.landed()) == list(range(20))
    assert lake.partitioned_by() == ["third"]
    lake.produce(range(20, 30))
    assert lake.run(source=source, transform=sql, options={"partition_by": ["third"]}).rows == 10
    assert max(row["third"] for row in lake.rows()) == 2
