"""`engine: python`: the same file, sinks, positions and fence, in one process without Spark."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections import Counter
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

import fencepost
from consuming.relays import QUICK, Relay
from fencepost.admin.import_positions import find
from fencepost.admin.plan import plan_pipeline
from fencepost.admin.positions import carry_out, propose
from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.request import of_pipeline
from fencepost.engines.listener import Started
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.events import Event
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.errors import Poison, PositionLost, Refused, UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.groups import describe_group
from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.run.consume import run_handler
from fencepost.spec import load
from spark.drivers import pipeline_process, run_command, wait_for
from spark.flows import SCHEMA, Flow, Run

PYTHON: dict[str, Any] = {"engine": "python", "transform": None}
GUARANTEES = ["at-most-once", "at-least-once", "exactly-once"]


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Flow:
    flow = Flow(stack, tmp_path)
    flow.kafka |= QUICK
    return flow


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_topic_lands_once_and_the_next_run_goes_on_behind_it(flow: Flow, guarantee: str) -> None:
    flow.produce(range(500))
    assert flow.run(**PYTHON, guarantee=guarantee).rows == 500
    flow.produce(range(500, 600))
    assert flow.run(**PYTHON, guarantee=guarantee).rows == 100
    flow.assert_exact(600)
    assert flow.positions() == flow.ends()


def test_rows_know_where_they_came_from(flow: Flow) -> None:
    flow.produce(range(50))
    flow.run(**PYTHON)
    rows = flow.sql(f"SELECT id, s, _topic, _partition, _offset, _n FROM {flow.name} ORDER BY id")
    assert rows == [(id_, str(id_), flow.name, id_ % 2, id_ // 2, 0) for id_ in range(50)]


def test_markers_and_aborted_records_at_the_end_of_a_partition_are_skipped(flow: Flow) -> None:
    flow.produce_in_transaction(range(20), commit=True)
    flow.produce_in_transaction(range(20, 30), commit=False)
    flow.run(**PYTHON)
    flow.assert_exact(20)
    assert flow.positions() == flow.ends()  # and nobody sees a lag that nothing can end


def test_an_arrow_transform_has_the_events_with_their_headers(flow: Flow) -> None:
    (flow.folder / "shape.py").write_text(
        "import pyarrow.compute as pc\n"
        "def doubled(events):\n"
        "    kept = events.filter(pc.less(events.column('id'), 10))\n"
        "    headers = kept.column('headers')\n"
        "    chosen = kept.select(['id', '_from'])\n"
        "    return chosen.append_column('header', pc.list_element(headers, 0).field(1).cast('string'))\n"
    )
    flow.produce(range(40), header=b"h")
    run = flow.run(engine="python", transform={"arrow": "shape.py:doubled"})
    assert run.rows == 10
    assert flow.sql(f"SELECT id, header FROM {flow.name} ORDER BY id") == [(id_, "h") for id_ in range(10)]
    assert flow.positions() == flow.ends()  # of what was filtered too


FICKLE = """
import pyarrow as pa
def f(events):
    ids, place = events.column('id'), events.column('_from')
    swapped = len(ids) and ids[0].as_py() >= 20
    names = ['down', 'up', '_from'] if swapped else ['up', 'down', '_from']
    columns = {'up': ids, 'down': pa.array([-i for i in ids.to_pylist()], pa.int64()), '_from': place}
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)
def g(events):
    return f(events) if len(events) == 0 else f(events).select(['up', '_from'])
"""


@pytest.mark.parametrize("options", [{}, {"mode": "upsert", "key": ["up"]}], ids=["append", "upsert"])
def test_an_arrow_transforms_columns_go_by_their_names(flow: Flow, options: dict[str, Any]) -> None:
    (flow.folder / "fickle.py").write_text(FICKLE)
    flow.produce(range(20))
    flow.run(engine="python", transform={"arrow": "fickle.py:f"}, options=options)
    flow.produce(range(20, 40))
    flow.run(engine="python", transform={"arrow": "fickle.py:f"}, options=options)
    assert flow.sql(f"SELECT up, down FROM {flow.name} ORDER BY up") == [(id_, -id_) for id_ in range(40)]
    before = flow.positions()
    flow.produce(range(40, 42))
    with pytest.raises(Refused, match="no column 'down'"):
        flow.run(engine="python", transform={"arrow": "fickle.py:g"}, options=options)
    assert flow.positions() == before


def test_sql_is_sparks_and_is_refused_before_anything_moves(flow: Flow) -> None:
    flow.produce(range(5))
    with pytest.raises(Usage, match="needs Spark"):
        flow.run(engine="python")
    assert not flow.positions()


def test_a_record_that_is_not_of_the_schema_stops_the_run_and_is_named(flow: Flow) -> None:
    flow.produce(range(10), instead={4: b'{"id": "four"}'})
    with pytest.raises(Poison, match=f"{flow.name}/0 offset 2: not JSON of the schema: id is 'four', not int64"):
        flow.run(**PYTHON)
    assert not [id_ for id_ in flow.landed() if id_ % 2 == 0]


def test_bad_records_go_to_the_dead_letters_in_the_same_commit(flow: Flow) -> None:
    flow.produce(range(20), instead={4: b"not json", 7: b'{"id": 1}{"id": 2}'})
    run = flow.run(**PYTHON, on_error="dead_letter")
    assert (run.rows, run.dead) == (18, 2)
    dead = flow.sql(f'SELECT partition, "offset", value, key FROM {flow.name}_dead ORDER BY partition')
    assert dead == [(0, 2, b"not json", b"4"), (1, 3, b'{"id": 1}{"id": 2}', b"7")]
    assert flow.positions() == flow.ends()


def test_a_table_with_rows_and_no_position_is_refused(flow: Flow) -> None:
    flow.produce(range(10))
    flow.run(**PYTHON)
    flow.sql("DELETE FROM fencepost.positions WHERE pipeline = %s", flow.name)
    with pytest.raises(PositionLost, match="holds rows"):
        flow.run(**PYTHON)
    assert len(flow.landed()) == 10


def test_two_runs_share_the_partitions_out_and_each_owns_its_own(flow: Flow) -> None:
    flow.produce(range(200))
    with flow.running(**PYTHON) as first:
        first.wait_until(lambda: len(flow.landed()) == 200, "the first carries everything")
        with flow.running(**PYTHON) as second:
            wait_for(lambda: _owned(second) and len(_owned(second)) == 1, "the second was given a partition")
            flow.produce(range(200, 400))
            wait_for(lambda: len(flow.landed()) == 400, "both carry on")
            owners = flow.sql("SELECT count(DISTINCT owner) FROM fencepost.positions WHERE pipeline = %s", flow.name)
            assert owners == [(2,)]
        flow.produce(range(400, 500))
        first.wait_until(lambda: len(flow.landed()) == 500, "the first has all partitions again")
    assert (first.failure, second.failure) == (None, None)
    flow.assert_exact(500)


def _owned(run: Run) -> set[str]:
    started = [news for news in run.news if isinstance(news, Started)]
    return {str(partition) for news in started for partition in news.positions}


def test_a_new_partition_is_read_from_its_first_record(flow: Flow) -> None:
    flow.produce(range(10))
    source = {"topic": flow.name, "value": "json", "schema": SCHEMA, "start": "latest"}
    flow.run(**PYTHON, source=source)
    assert flow.landed() == []
    flow.add_partitions(3)
    flow.produce(range(10, 40))
    flow.run(**PYTHON, source=source)
    assert sorted(flow.landed()) == list(range(10, 40))


def test_the_audit_misses_nothing_that_lies_before_the_start(flow: Flow) -> None:
    flow.produce(range(10))
    parts: dict[str, Any] = {**PYTHON, "source": {"topic": flow.name, "value": "json", "schema": SCHEMA}}
    parts["source"]["start"] = "latest"
    flow.run(**parts)
    assert audit(of_pipeline(load(flow.declare(**parts)))).verdict is Verdict.HOLDS  # no commit moved the position
    flow.produce(range(10, 14))
    flow.run(**parts)
    flow.sql(f"DELETE FROM {flow.name} WHERE id = 12")
    found = audit(of_pipeline(load(flow.declare(**parts))))
    assert (found.verdict, found.hops[-1].missing) == (Verdict.BROKEN, 1)


def test_plan_says_what_a_run_would_do(flow: Flow) -> None:
    flow.produce(range(30))
    plan = plan_pipeline(load(flow.declare(**PYTHON)), offline=False)
    assert (plan.engine, plan.target, plan.target_exists, plan.waiting) == ("python", flow.name, False, 30)
    assert plan.columns == {
        "id": "bigint",
        "s": "text",
        "_topic": "text",
        "_partition": "integer",
        "_offset": "bigint",
        "_n": "integer",
    }
    flow.run(**PYTHON)
    again = plan_pipeline(load(flow.declare(**PYTHON)), offline=False)
    assert (again.waiting, again.resume) == (0, {f"{flow.name}/0": 15, f"{flow.name}/1": 15})


def test_plan_says_what_append_into_a_unique_index_means(flow: Flow) -> None:
    flow.sql(f"CREATE TABLE {flow.name} (id bigint, s text, _topic text, _partition int, _offset bigint, _n int)")

    def warnings(guarantee: str, **options: Any) -> list[str]:
        path = flow.declare(**PYTHON, guarantee=guarantee, options=options)
        found = plan_pipeline(load(path), offline=False).warnings
        return [warning for warning in found if "unique index" in warning]

    assert warnings("exactly-once") == []
    flow.sql(f"CREATE UNIQUE INDEX ON {flow.name} (id)")
    for guarantee, means in [
        ("exactly-once", "nothing else is repeated under exactly-once"),
        ("at-most-once", "nothing else is repeated under at-most-once"),
        ("at-least-once", "equal in every column, are left out"),
    ]:
        (said,) = warnings(guarantee)
        assert said.startswith(f"mode: append into a table with a unique index ({flow.name}_id_idx)")
        assert said.endswith(means)


@pytest.mark.parametrize("sink", ["postgres", "kafka"])
def test_status_and_positions_know_the_pipeline_whatever_its_sink(stack: Stack, tmp_path: Path, sink: str) -> None:
    relay = Relay(stack, tmp_path, sink=sink)
    relay.produce(range(40))
    relay.run()
    spec = load(relay.declare())
    status = pipeline_status(spec)
    assert [(at.position, at.lag) for at in status.partitions] == [(20, 0), (20, 0)]
    carry_out(spec, propose(spec, {0: 15, 1: 18}))
    assert pipeline_status(spec).lag == 7
    assert plan_pipeline(spec, offline=False).waiting == 7
    relay.run()
    assert (relay.lost(40), relay.doubled()) == (0, 7)  # as the proposal said


def test_into_a_topic_headers_are_kept_and_each_record_says_where_it_came_from(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, sink="kafka")
    relay.produce(range(10), header=b"h")
    relay.run()
    read = {json.loads(record.value() or b"")["id"]: record for record in read_committed(relay.kafka, relay.target)}
    assert sorted(read) == list(range(10))
    headers: Any = read[7].headers()
    assert dict(headers) == {"fencepost.from": f"{relay.name}/1/3/0".encode(), "n": b"h"}
    assert read[7].key() == b"7"


def test_a_handler_makes_none_one_or_many_outputs_for_several_topics(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, sink="kafka")
    create_topic(relay.cluster, TopicRequest(f"{relay.target}-odd", 1))
    relay.produce(range(30))

    def split(events: list[Event]) -> list[fencepost.Output]:
        ids = [json.loads(event.value or b"")["id"] for event in events]
        odd = [fencepost.Output(str(id_).encode(), topic=f"{relay.target}-odd") for id_ in ids if id_ % 2 and id_ > 10]
        return [*(fencepost.Output(str(id_).encode()) for id_ in ids if id_ % 2 == 0 for _ in range(3)), *odd]

    done = fencepost.consume(
        split,
        topic=relay.name,
        group=relay.name,
        guarantee="exactly-once",
        kafka=relay.kafka,
        to_topics=[relay.target, f"{relay.target}-odd"],
        once=True,
    )
    assert done.positions == {relay.partition(0): 15, relay.partition(1): 15}
    even = Counter(int(record.value() or b"") for record in read_committed(relay.kafka, relay.target))
    odd = Counter(int(record.value() or b"") for record in read_committed(relay.kafka, f"{relay.target}-odd"))
    assert even == dict.fromkeys(range(0, 30, 2), 3)
    assert odd == dict.fromkeys(range(11, 30, 2), 1)


def test_upsert_and_deletes_as_under_spark(flow: Flow) -> None:
    (flow.folder / "shape.py").write_text(
        "import pyarrow.compute as pc\n"
        "def keyed(events):\n"
        "    id = pc.cast(pc.cast(events.column('key'), 'string'), 'int64')\n"
        "    return events.select(['s', '_from']).append_column('id', id)\n"
    )
    upsert = {"mode": "upsert", "key": ["id"], "tombstones": "delete"}
    parts: dict[str, Any] = {"engine": "python", "transform": {"arrow": "shape.py:keyed"}, "options": upsert}
    flow.produce(range(10))
    flow.produce([6], {6: b'{"s": "newer"}'})
    flow.remove([0, 3])
    assert flow.run(**parts).rows == 13
    assert sorted(flow.landed()) == [1, 2, 4, 5, 6, 7, 8, 9]
    assert flow.sql(f"SELECT s FROM {flow.name} WHERE id = 6") == [("newer",)]


@pytest.mark.proof
def test_dedupe_covers_what_the_producer_and_what_at_least_once_repeat(flow: Flow, tmp_path: Path) -> None:
    for _ in range(2):
        flow.produce(range(100))
    parts: dict[str, Any] = {**PYTHON, "guarantee": "at-least-once", "options": {"mode": "dedupe", "key": ["id"]}}
    crash = ["--crash", "written", "1", "kill", str(tmp_path / "witness")]
    with pipeline_process(flow.declare(**parts), "--once", *crash) as driver:
        assert driver.ended() == -9, driver.told()
    assert flow.positions()[1] == 0  # its rows are there, and will be written again
    flow.run(**parts)
    assert sorted(flow.landed()) == list(range(100))


def test_what_cannot_hold_is_refused_as_under_spark(flow: Flow) -> None:
    flow.produce(range(5))
    with pytest.raises(Usage, match="nokey"):
        flow.run(**PYTHON, options={"mode": "upsert", "key": ["nokey"]})
    with pytest.raises(UnsupportedGuarantee):
        flow.run(**PYTHON, guarantee="at-least-once", options={"mode": "upsert", "key": ["id"], "tombstones": "delete"})
    assert not flow.positions()


def test_a_run_tells_prometheus_what_it_does(flow: Flow) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    flow.produce(range(30))

    def served(text: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return text in answer.read().decode()
        except OSError:
            return False

    with run_command(flow.declare(**PYTHON), "--metrics", f":{port}") as driver:
        driver.wait_until(lambda: served(f'fencepost_rows_total{{pipeline="{flow.name}"}} 30.0'), "the rows are told")
        assert served(f'fencepost_position{{partition="1",pipeline="{flow.name}",topic="{flow.name}"}} 15.0')


def test_a_pipeline_goes_on_where_a_group_ended_and_not_while_its_members_work(flow: Flow) -> None:
    flow.produce(range(40))
    seen: list[Event] = []
    settings = ConsumerSettings(flow.kafka, flow.name, f"{flow.name}-old", Guarantee.AT_LEAST_ONCE)
    run_handler(Consumption(settings, seen.extend), once=True)
    flow.produce(range(40, 60))
    spec = load(flow.declare(**PYTHON))
    stop = Flag()
    member = Thread(target=run_handler, args=(Consumption(settings, seen.extend, stop=stop),), daemon=True)
    member.start()
    try:
        wait_for(lambda: describe_group(flow.cluster, settings.group).members, "a member has joined")
        with pytest.raises(Usage, match="stop them first"):
            find(spec, f"group:{settings.group}")
        wait_for(lambda: len(seen) == 60, "it has read the rest")
    finally:
        stop.set()
        member.join(60)
    flow.produce(range(60, 70))
    found = find(spec, f"group:{settings.group}")
    assert found.positions == {flow.name: {0: 30, 1: 30}}
    carry_out(spec, propose(spec, found.positions))
    assert flow.run(**PYTHON).rows == 10
    with pytest.raises(Usage, match="neither a group nor a checkpoint"):
        find(spec, "somewhere")


def test_another_guarantee_keeps_the_position_and_the_plan_says_what_that_means(flow: Flow) -> None:
    flow.produce(range(20))
    flow.run(**PYTHON, guarantee="at-least-once")
    flow.produce(range(20, 30))
    plan = plan_pipeline(load(flow.declare(**PYTHON)), offline=False)
    assert plan.waiting == 10
    (warning,) = plan.warnings
    assert "ran under at-least-once until now: the position is kept" in warning
    assert "may hold records twice" in warning
    assert flow.run(**PYTHON).rows == 10
    assert plan_pipeline(load(flow.declare(**PYTHON)), offline=False).warnings == []
    flow.assert_exact(30)


def test_what_went_into_a_topic_is_audited_by_the_events_ids(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, sink="kafka")
    with fencepost.Producer(relay.name, "exactly-once", relay.kafka) as producer:
        for number in range(30):
            producer.send(json.dumps({"id": number}).encode(), key=b"%d" % number)
    relay.run()
    request = of_pipeline(load(relay.declare()))
    assert audit(request).verdict is Verdict.HOLDS
    carry_out(load(relay.declare()), propose(load(relay.declare()), "earliest"))
    relay.run()
    assert audit(request).verdict is Verdict.BROKEN  # every event twice


def test_a_transform_that_calls_sys_exit_is_bad_for_that_record_and_ends_nothing(flow: Flow, tmp_path: Path) -> None:
    code = "import sys\ndef f(batch):\n    return sys.exit(0) if 7 in batch.column('id').to_pylist() else batch\n"
    (tmp_path / "ending.py").write_text(code)
    flow.produce(range(20))
    ending = PYTHON | {"transform": {"arrow": "ending.py:f"}}
    with pytest.raises(Poison, match=rf"{flow.name}/1 offset 3: .*sys.exit\(0\) \({tmp_path}/ending.py line 3\)"):
        flow.run(**ending)
    assert 7 not in flow.landed()
    assert flow.run(**ending, on_error="dead_letter").dead == 1
    assert sorted(flow.landed()) == [id_ for id_ in range(20) if id_ != 7]
