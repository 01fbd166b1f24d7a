"""Where to go on cannot be known, or the table or the plan does not fit: refused, and nothing is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.engines.spark.source import KafkaSource
from fencepost.errors import FencepostError, PositionLost, RecordsGone, TopicRecreated, Usage
from fencepost.kafka import offsets
from fencepost.kafka.topics import delete_topic
from fencepost.lab.crash import CrashAction, CrashPoint, visits
from fencepost.model import Step
from fencepost.sinks.postgres import ledger
from spark import wide_plans
from spark.drivers import go_on, spark_held
from spark.faults import Several
from spark.flows import Flow
from spark.wide_plans import WIDE


@pytest.mark.proof
def test_a_topic_created_again_between_two_runs_is_refused(flow: Flow) -> None:
    _landed(flow, range(100))
    delete_topic(flow.cluster, flow.name)
    flow.make_topic()
    flow.produce(range(1_000, 1_200))
    refusal = _refused(flow, TopicRecreated)
    assert refusal.exit_code == 1
    assert flow.name in refusal.message

    # Control: a ledger that forgot which topic it was goes on in the middle of the new one.
    flow.sql("UPDATE fencepost.positions SET topic_id = NULL WHERE pipeline = %s", flow.name)
    flow.run()
    assert flow.comparison().lost == 100


@pytest.mark.parametrize("records", [40, pytest.param(200, marks=pytest.mark.proof)], ids=["shorter", "longer"])
def test_a_topic_created_again_while_it_is_read_ends_the_run(flow: Flow, records: int) -> None:
    flow.produce(range(100))
    with flow.running() as running:
        running.wait_until(lambda: len(flow.landed()) == 100, "the first records land")
        with spark_held():  # or it may look just when there is no topic of that name
            delete_topic(flow.cluster, flow.name)
            flow.make_topic()
            flow.produce(range(1_000, 1_000 + records))
        running.wait_until(lambda: running.failure, "the run ends")
    assert isinstance(running.failure, TopicRecreated)
    assert sorted(flow.landed()) == list(range(100))
    assert flow.positions() == {0: 50, 1: 50}


@pytest.mark.proof
def test_records_deleted_before_they_were_read_are_named(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    _landed(flow, range(100))
    flow.produce(range(100, 200))
    flow.delete_before(1, 70)
    refusal = _refused(flow, RecordsGone)
    assert f"{flow.partition(1)}: the records from 50 to 69" in refusal.message

    # Control: nobody looks, and Spark is told not to mind.
    options = KafkaSource._options
    monkeypatch.setattr(offsets, "_require_readable", lambda *_: None)
    monkeypatch.setattr(KafkaSource, "_options", lambda source: options(source) | {"failOnDataLoss": "false"})
    flow.run()
    assert sorted(set(range(200)) - set(flow.landed())) == list(range(101, 141, 2))


def test_records_deleted_while_a_batch_is_read_are_named(flow: Flow, tmp_path: Path) -> None:
    """Of two tasks one after the other, the first stands still while the records of the second are deleted."""
    flow.produce(range(200))
    first = tmp_path / "first"
    stops = [CrashPoint(Step.STARTED, flow.partition(number), CrashAction.STOP, first) for number in (0, 1)]
    with flow.running(see=Several(tuple(stops)), spark={"spark.master": "local[1,2]"}) as running:
        running.wait_until(lambda: visits(first), "one task stands still")
        other = 0 if str(flow.partition(1)) in visits(first)[0].where else 1
        flow.delete_before(other, 70)
        go_on(visits(first)[0].pid)
        running.wait_until(lambda: running.failure, "the run ends")
    assert isinstance(running.failure, RecordsGone)
    assert f"{flow.partition(other)}: the records from 0 to 69" in running.failure.message
    assert flow.landed_in(other) == 0
    assert flow.positions() == {other: 0, 1 - other: 100}


@pytest.mark.proof
def test_a_topic_deleted_while_it_is_read_ends_the_run(flow: Flow) -> None:
    flow.produce(range(100))
    with flow.running() as running:
        running.wait_until(lambda: len(flow.landed()) == 100, "the records land")
        delete_topic(flow.cluster, flow.name)
        running.wait_until(lambda: running.failure, "the run ends")
    assert isinstance(running.failure, Usage)
    assert flow.name in running.failure.message


@pytest.mark.proof
def test_a_position_behind_the_end_of_the_topic_is_refused(flow: Flow) -> None:
    _landed(flow, range(100))
    flow.sql("UPDATE fencepost.positions SET position = 999 WHERE pipeline = %s AND partition = 1", flow.name)
    refusal = _refused(flow, PositionLost)
    assert f"{flow.partition(1)}: the stored position is 999, and the topic ends at 50" in refusal.message


@pytest.mark.proof
def test_no_stored_position_over_a_table_with_rows_is_refused(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    _landed(flow, range(100))
    flow.sql("DELETE FROM fencepost.positions WHERE pipeline = %s", flow.name)
    refusal = _refused(flow, PositionLost)
    assert flow.name in refusal.message

    # Control: starting over doubles everything.
    monkeypatch.setattr(ledger, "_refuse_rows", lambda *_: None)
    flow.run()
    assert flow.comparison().duplicated == 100


def test_a_table_that_does_not_fit_is_refused_before_an_event_moves(flow: Flow) -> None:
    flow.produce(range(100))
    flow.sql(
        f"CREATE TABLE {flow.name} (id integer, price numeric(5,2), day text, needed text NOT NULL, "
        "_topic text, _partition integer, _offset bigint, _n integer)"
    )
    query = "SELECT id, s, cast(id AS decimal(10,2)) AS price, date'2026-01-31' AS day, _from FROM events"
    with pytest.raises(Usage) as refused:
        flow.run(transform={"sql": query})
    problems = [
        "'id' is bigint here and integer there",
        "'s' is missing there",
        "'price' is numeric(10,2) here and numeric(5,2) there",
        "'day' is date here and text there",
        "'needed' is required there and not given",
    ]
    assert [problem for problem in problems if problem not in refused.value.message] == []
    assert (flow.landed(), flow.positions()) == ([], {})


# what is in the file, how it is called, and what is said of it
FAILING = {
    "def f(events): raise ValueError('boom')": ("spark", "ValueError: boom"),
    "def f(events): return 7": ("spark", "returned int"),
    "def f(rows): return rows.slice(rows.column('id')[0].as_py())": ("arrow", "IndexError"),
}
NOT_LOADED = {
    "def f(events": ("spark", "was never closed"),
    "import no_such_module": ("arrow", "no_such_module"),
}


@pytest.mark.parametrize("functions", [FAILING, pytest.param(NOT_LOADED, marks=pytest.mark.proof)])
def test_a_function_that_does_not_work_is_refused_before_an_event_moves(
    flow: Flow, tmp_path: Path, functions: dict[str, tuple[str, str]]
) -> None:
    flow.produce(range(100))
    for text, (kind, complaint) in functions.items():
        (tmp_path / "mine.py").write_text(text)
        with pytest.raises(Usage) as refused:
            flow.run(transform={kind: "mine.py:f"})
        assert "mine.py" in refused.value.message, text
        assert complaint in refused.value.message, text
        assert (flow.landed(), flow.positions()) == ([], {}), text


@pytest.mark.proof
def test_a_batch_is_looked_at_again_for_what_mixes_partitions(flow: Flow) -> None:
    flow.produce(range(100))
    wide_plans.seen.clear()
    flow.run(transform={"spark": "spark.wide_plans:look"})
    assert wide_plans.seen == WIDE
    flow.assert_exact(100)


def _landed(flow: Flow, ids: range) -> None:
    flow.produce(ids)
    flow.run()
    flow.assert_exact(len(ids))


def _refused(flow: Flow, kind: type[FencepostError]) -> FencepostError:
    """The refusal of a run that touched nothing."""
    before = flow.stored()
    with pytest.raises(kind) as refused:
        flow.run()
    assert flow.stored() == before
    return refused.value
