"""Records that cannot be delivered, and tables that cannot take any: what stops a run, and what is dead-lettered."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from consuming.relays import QUICK
from fencepost.admin.status import pipeline_status
from fencepost.errors import FencepostError, Poison, Refused
from fencepost.local import Stack
from fencepost.model import Batch, Step
from fencepost.spec import load
from spark.flows import Flow
from support.gate_cases import in_the_gate

PYTHON: dict[str, Any] = {"engine": "python", "transform": None}
GUARANTEES = ["at-most-once", "at-least-once", "exactly-once"]
MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "key": ["id"]},
    "dedupe": {"mode": "dedupe", "key": ["id"]},
}


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Flow:
    flow = Flow(stack, tmp_path, partitions=1)
    flow.kafka |= QUICK
    return flow


class Change:
    """Something happens to the table when the second batch begins."""

    def __init__(self, flow: Flow, *statements: str) -> None:
        self.flow, self.statements, self.done = flow, statements, False

    def __call__(self, step: Step, batch: Batch[Any]) -> None:
        _, span = batch.only_span()
        if step is Step.STARTED and span.start > 0 and not self.done:
            self.done = True
            for statement in self.statements:
                self.flow.sql(statement.format(table=self.flow.name))


BROKEN = {
    "renamed": ["ALTER TABLE {table} RENAME s TO text"],
    "dropped": ["ALTER TABLE {table} DROP s"],
    "generated": ["ALTER TABLE {table} DROP s, ADD s text GENERATED ALWAYS AS ('x') STORED"],
    "narrowed": ["ALTER TABLE {table} ALTER s TYPE integer USING 1"],
    "gone": ["DROP TABLE {table}"],
    "required": [
        "ALTER TABLE {table} ADD must text NOT NULL DEFAULT 'x'",
        "ALTER TABLE {table} ALTER must DROP DEFAULT",
    ],
    "checked": ["ALTER TABLE {table} ADD CHECK (id < 0) NOT VALID"],
}


@pytest.mark.parametrize("broken", in_the_gate(BROKEN, "renamed", "narrowed", "gone"))
def test_a_table_at_fault_stops_the_run_and_no_record_is_put_aside(flow: Flow, broken: str) -> None:
    flow.produce(range(20))
    flow.run(**PYTHON, on_error="dead_letter")
    flow.produce(range(20, 320))
    change = Change(flow, *BROKEN[broken])
    with pytest.raises(Refused):
        flow.run(change, **PYTHON, on_error="dead_letter")
    assert change.done
    assert flow.positions() == {0: 20}
    assert flow.sql(f"SELECT count(*) FROM {flow.name}_dead") == [(0,)]


@pytest.mark.parametrize(("mode", "guarantee"), in_the_gate(product(MODES, GUARANTEES), ("upsert", "at-least-once")))
def test_a_column_that_went_stops_the_run_in_every_mode(flow: Flow, guarantee: str, mode: str) -> None:
    parts: dict[str, Any] = {**PYTHON, "guarantee": guarantee, "options": MODES[mode], "on_error": "dead_letter"}
    flow.produce(range(20))
    flow.run(**parts)
    flow.produce(range(20, 60))
    with pytest.raises(Refused):
        flow.run(Change(flow, "ALTER TABLE {table} RENAME s TO text"), **parts)
    assert flow.positions() == {0: 20}
    flow.sql(f"ALTER TABLE {flow.name} RENAME text TO s")  # mended: it goes on
    assert flow.run(**parts).rows == 40
    assert sorted(flow.landed()) == list(range(60))
    assert flow.sql(f"SELECT count(*) FROM {flow.name}_dead") == [(0,)]


@pytest.mark.parametrize("bad", [b'{"id": "four"}', b'{"id": 4, "s": "a\\u0000b"}'], ids=["decode", "store"])
def test_at_most_once_a_bad_record_costs_no_other(flow: Flow, bad: bytes) -> None:
    flow.produce(range(20), {4: bad})
    run = flow.run(**PYTHON, guarantee="at-most-once", on_error="dead_letter")
    assert (run.rows, run.dead) == (19, 1)
    assert sorted(flow.landed()) == [id_ for id_ in range(20) if id_ != 4]
    assert flow.positions() == flow.ends()


@pytest.mark.parametrize("bad", [b'{"id": "four"}', b'{"id": 4, "s": "a\\u0000b"}'], ids=["decode", "store"])
def test_at_most_once_a_bad_record_stops_the_run_and_the_position_stays(flow: Flow, bad: bytes) -> None:
    flow.produce(range(20), {4: bad})
    with pytest.raises(Poison, match="offset 4"):
        flow.run(**PYTHON, guarantee="at-most-once")
    assert flow.positions() == {0: 0}
    assert flow.run(**PYTHON, guarantee="at-most-once", on_error="dead_letter").rows == 19  # as the remedy says
    assert len(flow.sql("SELECT 1 FROM fencepost.spans WHERE pipeline = %s", flow.name)) == 1


def _unique(flow: Flow, how: str = "UNIQUE (id)") -> None:
    flow.sql(
        f"CREATE TABLE {flow.name} (id bigint, s text, _topic text, _partition integer, _offset bigint, "
        f"_n integer, {how})"
    )


def test_of_two_rows_that_a_unique_index_keeps_apart_the_first_lands(flow: Flow) -> None:
    _unique(flow)
    flow.produce(range(20), {7: b'{"id": 3, "s": "again"}', 12: b'{"id": 3, "s": "and again"}'})
    run = flow.run(**PYTHON, on_error="dead_letter")
    assert (run.rows, run.dead) == (18, 2)
    assert flow.sql(f"SELECT s FROM {flow.name} WHERE id = 3") == [("3",)]
    assert [at for (at,) in flow.sql(f'SELECT "offset" FROM {flow.name}_dead ORDER BY 1')] == [7, 12]


@pytest.mark.parametrize("engine", ["python", pytest.param("spark", marks=pytest.mark.proof)])
def test_a_row_that_the_table_refuses_only_at_commit_is_put_aside(flow: Flow, engine: str) -> None:
    _unique(flow, "UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
    flow.produce(range(20), {7: b'{"id": 3, "s": "again"}'})
    query = {"sql": "SELECT id, s, _from FROM events"} if engine == "spark" else None
    parts: dict[str, Any] = {"engine": engine, "transform": query}
    run = flow.run(**parts, on_error="dead_letter")
    assert (run.rows, run.dead) == (19, 1)
    assert flow.sql(f"SELECT s FROM {flow.name} WHERE id = 3") == [("3",)]
    assert flow.sql(f'SELECT "offset" FROM {flow.name}_dead') == [(7,)]
    assert flow.positions() == flow.ends()


class Crash(FencepostError):
    """The process is gone."""


@pytest.mark.parametrize("how", in_the_gate(["UNIQUE (id)", "EXCLUDE USING btree (id WITH =)"], "UNIQUE (id)"))
def test_at_least_once_into_a_unique_index_goes_on_after_a_crash_between_the_two_steps(flow: Flow, how: str) -> None:
    _unique(flow, how)
    flow.produce(range(20))

    def crash(step: Step, _batch: Batch[Any]) -> None:
        if step is Step.WRITTEN:
            raise Crash("killed")

    with pytest.raises(Crash):
        flow.run(crash, **PYTHON, guarantee="at-least-once")
    assert (len(flow.landed()), flow.positions()) == (20, {0: 0})
    flow.produce(range(20, 30))
    assert flow.run(**PYTHON, guarantee="at-least-once").rows == 10
    assert sorted(flow.landed()) == list(range(30))
    assert flow.positions() == flow.ends()


def test_at_most_once_status_says_what_it_has_not_counted(flow: Flow) -> None:
    flow.produce(range(20), {7: b"{broken"})
    run = flow.run(**PYTHON, guarantee="at-most-once", on_error="dead_letter")
    assert (run.rows, run.dead) == (19, 1)
    told = pipeline_status(load(flow.declare(**PYTHON, guarantee="at-most-once")))
    assert (told.rows, told.dead, told.uncounted) == (0, 0, 20)
