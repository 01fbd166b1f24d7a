"""Bad records on Spark: at most once, into a table at fault, and by the thousand."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest

from fencepost.errors import Poison, Refused
from spark.flows import Flow
from spark.test_poison import CAST, KINDS, SQL

pytestmark = pytest.mark.proof

TEXT: dict[str, Any] = {"transform": {"sql": "SELECT id, s, _from FROM events"}, "on_error": "dead_letter"}
STAGED: dict[str, Any] = {**TEXT, "transform": {"sql": "SELECT id, s, _from FROM events ORDER BY id"}}


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_once_a_bad_record_costs_no_other(flow: Flow, kind: str) -> None:
    bad = KINDS[kind]
    flow.produce(range(200), {7: bad.value})
    with pytest.raises(Poison, match="offset 3"):
        flow.run(transform=bad.transform, guarantee="at-most-once")
    assert flow.positions()[1] == 0
    run = flow.run(transform=bad.transform, guarantee="at-most-once", on_error="dead_letter")
    assert run.dead == 1
    kept = [id_ for id_ in range(200) if id_ != 7 and (bad.transform != SQL or id_ % 10)]
    assert sorted(flow.landed()) == kept


@pytest.mark.parametrize("parts", [TEXT, STAGED], ids=["direct", "staged"])
def test_a_table_at_fault_stops_the_run_and_no_record_is_put_aside(flow: Flow, parts: dict[str, Any]) -> None:
    flow.produce(range(40))
    flow.run(**parts)
    before = flow.positions()
    flow.sql(f"ALTER TABLE {flow.name} ADD CHECK (id < 40) NOT VALID")
    flow.produce(range(40, 340))
    with pytest.raises(Refused, match="records of a batch are bad"):
        flow.run(**parts)
    flow.sql(f"CREATE FUNCTION {flow.name}_no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SELECT gone; END $$")
    flow.sql(f"ALTER TABLE {flow.name} DROP CONSTRAINT {flow.name}_id_check")
    flow.sql(f"CREATE TRIGGER no BEFORE INSERT ON {flow.name} FOR EACH ROW EXECUTE FUNCTION {flow.name}_no()")
    with pytest.raises(Refused, match="gone"):  # class 42, of no value
        flow.run(**parts)
    assert flow.positions() == before
    assert flow.sql(f"SELECT count(*) FROM {flow.name}_dead") == [(0,)]
    flow.sql(f"DROP TRIGGER no ON {flow.name}; DROP FUNCTION {flow.name}_no()")
    assert flow.run(**parts).rows == 300


MANY = 24_000
MANY_BAD = {
    "decode": (b'{"id": "x"}', {}),
    "store": (b'{"id": 1, "s": "a\\u0000b"}', {}),
    "arrow": (b'{"id": 7, "s": "7"}', {"transform": {"arrow": "spark.transforms:not_seven"}}),
}


@pytest.mark.parametrize("kind", MANY_BAD)
def test_half_of_the_records_are_bad(flow: Flow, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    value, more = MANY_BAD[kind]
    flow.produce(range(MANY), {id_: value for id_ in range(MANY) if id_ % 4 < 2 or (kind == "arrow" and id_ == 7)})
    seconds = {}
    for engine in ("python", "spark"):
        table = f"{flow.name}_{engine}"
        parts: dict[str, Any] = {**TEXT, "transform": None, **more, "engine": engine, "name": table}
        began = monotonic()
        run = flow.run(**parts, options={"table": table})
        seconds[engine] = round(monotonic() - began, 1)
        assert run.rows + run.dead == MANY
        assert run.dead >= MANY // 2
        (count,) = flow.sql(f"SELECT count(*)::int, (SELECT count(*)::int FROM {table}_dead) FROM {table}")
        assert count == (run.rows, run.dead)
    with capsys.disabled():
        print(f"\n{kind}: {MANY // 2:,} of {MANY:,} bad: {seconds}")  # noqa: T201 (the figures)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_half_of_the_records_fail_in_an_expression(
    flow: Flow, guarantee: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {id_ for id_ in range(MANY) if id_ % 4 < 2}
    flow.produce(range(MANY), {id_: b'{"id": %d, "s": "x%d"}' % (id_, id_) for id_ in bad})
    began = monotonic()
    run = flow.run(transform={"sql": CAST}, on_error="dead_letter", guarantee=guarantee)
    seconds = round(monotonic() - began, 1)
    assert (run.rows, run.dead) == (MANY // 2, MANY // 2)
    assert sorted(flow.landed()) == sorted(set(range(MANY)) - bad)
    assert flow.sql(f"SELECT count(DISTINCT value)::int, count(*)::int FROM {flow.name}_dead") == [(len(bad),) * 2]
    with capsys.disabled():
        print(f"\n{guarantee}: {len(bad):,} of {MANY:,} fail in an expression: {seconds} s")  # noqa: T201


def test_at_least_once_into_a_unique_index_goes_on_after_a_crash_between_the_two_steps(flow: Flow) -> None:
    flow.sql(
        f"CREATE TABLE {flow.name} (id bigint UNIQUE, s text, _topic text, _partition integer, _offset bigint, "
        "_n integer)"
    )
    flow.produce(range(40))
    parts = {**TEXT, "guarantee": "at-least-once"}
    flow.run(**parts)
    flow.sql("UPDATE fencepost.positions SET position = 0 WHERE pipeline = %s", flow.name)  # as a crash would leave it
    flow.produce(range(40, 60))
    run = flow.run(**parts)
    assert (run.rows, run.dead) == (20, 0)
    assert sorted(flow.landed()) == list(range(60))
