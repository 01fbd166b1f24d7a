"""The auditor audited: every fault that is put in is named with its code and its event, on both engines.

Each shop's topic has aborted transactions and markers in it, and its clean twin finds nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.shop import Shop
from fencepost.audit.audit import Loader, audit, audit_with
from fencepost.audit.compare import Verdict
from fencepost.audit.engines.duckdb import open_duck
from fencepost.audit.engines.relations import PythonLoader
from fencepost.audit.engines.spark import SparkEngine, SparkLoader
from fencepost.audit.findings import Audit
from fencepost.audit.request import EngineChoice, sink_named
from fencepost.audit.scope import find_scope
from fencepost.engines.spark.session import open_session
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import wait_until
from fencepost.kafka.topic_reader import read_committed
from fencepost.local import Stack
from fencepost.model import Mode
from unit.ranges import each

EVENTS = range(40)


@pytest.fixture(scope="module")
def spark_engine() -> Iterator[SparkEngine]:
    with open_session("audits", {"spark.master": "local[2]"}) as spark:
        yield SparkEngine(spark)


@pytest.fixture(params=["python", pytest.param("spark", marks=pytest.mark.proof)])
def audited(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Callable[..., Audit]]:
    """Audit a shop on one of the engines."""
    if request.param == "python":
        with open_duck() as duck:
            yield lambda shop, **parts: _audited(shop, PythonLoader(duck, shop.kafka), parts)
    else:
        engine = request.getfixturevalue("spark_engine")
        yield lambda shop, **parts: _audited(shop, SparkLoader(engine, shop.kafka, headers=True), parts)
        engine.close()


def _audited(shop: Shop, loader: Loader, parts: dict[str, Any]) -> Audit:
    request = shop.request(**parts)
    return audit_with(request, find_scope(request), loader)


@pytest.fixture
def shop(stack: Stack) -> Shop:
    """Forty events in two partitions; between them a transaction that was aborted."""
    shop = Shop(stack)
    shop.send(EVENTS[:20])
    shop.send([1_000, 1_001], commit=False)
    shop.send(EVENTS[20:])
    shop.carry()
    return shop


def named(found: Audit) -> list[tuple[str, int | None, int | None, int]]:
    return [(one.code.value, one.partition, one.offset, one.times) for one in each(found.findings)]


def test_the_clean_twin_is_clean(shop: Shop, audited: Callable[..., Audit]) -> None:
    found = audited(shop, payload="body")
    assert (found.verdict, named(found)) == (Verdict.HOLDS, [])
    last = found.hops[-1]
    assert (last.expected, last.landed, last.facts["waiting"], last.facts["filtered"]) == (40, 40, 0, 0)


def test_a_dropped_row_is_named(shop: Shop, audited: Callable[..., Audit]) -> None:
    at = shop.offset_of(13)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:13'")
    found = audited(shop)
    assert named(found) == [("L2", *at, 0)]
    assert found.verdict is Verdict.BROKEN


def test_a_dropped_range_is_named_row_by_row(shop: Shop, audited: Callable[..., Audit]) -> None:
    shop.sql(f"DELETE FROM {shop.name} WHERE _partition = 0 AND _offset BETWEEN 5 AND 9")
    assert named(audited(shop)) == [("L2", 0, offset, 0) for offset in range(5, 10)]


def test_a_doubled_row_is_named_and_two_more_copies_do_not_hide_each_other(
    shop: Shop, audited: Callable[..., Audit]
) -> None:
    once, twice = shop.offset_of(4), shop.offset_of(7)
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE event IN ('p:4', 'p:7')")
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE event = 'p:7' LIMIT 1")
    found = audited(shop)
    assert named(found) == [("D2", *once, 2), ("D2", *twice, 3)]
    assert found.as_json(9)["duplicated"] == 3
    assert audited(shop, guarantee=Guarantee.AT_LEAST_ONCE).verdict is Verdict.HOLDS


def test_a_hole_and_a_copy_of_its_neighbour_are_both_named_though_the_count_is_right(
    shop: Shop, audited: Callable[..., Audit]
) -> None:
    hole, copy = shop.offset_of(10), shop.offset_of(12)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:10'")
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE event = 'p:12'")
    assert sorted(named(audited(shop))) == [("D2", *copy, 2), ("L2", *hole, 0)]


def test_two_payloads_that_were_swapped_are_both_corrupted(shop: Shop, audited: Callable[..., Audit]) -> None:
    one, other = shop.offset_of(6), shop.offset_of(8)
    shop.sql(
        f"UPDATE {shop.name} SET body = CASE event WHEN 'p:6' THEN 'order 8' ELSE 'order 6' END "
        "WHERE event IN ('p:6', 'p:8')"
    )
    assert named(audited(shop, payload="body")) == sorted([("X", *one, 1), ("X", *other, 1)])


def test_a_value_whose_bit_was_flipped_in_the_log_does_not_have_its_checksum(
    shop: Shop, audited: Callable[..., Audit], tmp_path: Path
) -> None:
    shop.send([40], value=b"order 41")
    shop.carry()
    journal = shop.journal(tmp_path, '{"sent": [0, 40]}', '{"acked": [0, 40]}')
    (found,) = audited(shop, journals=(journal,)).findings
    assert (found.code.value, found.id) == ("X", "p:40")


def test_a_phantom_and_a_leaked_aborted_record_are_told_apart(shop: Shop, audited: Callable[..., Audit]) -> None:
    aborted = 11  # ten events, a marker, and then the aborted one
    for offset in (aborted, 3_000):
        shop.sql(f"INSERT INTO {shop.name} SELECT 'x', 'x', %s, 0, %s, 0", shop.name, offset)
    shop.sql(f"INSERT INTO {shop.name} SELECT 'x', 'x', 'elsewhere', 0, 1, 0")  # another pipeline's, perhaps
    shop.sql(f"INSERT INTO {shop.name} SELECT 'x', 'x', %s, 9, 1, 0", shop.name)
    found = audited(shop)
    assert {(one.code.value, one.partition, one.offset) for one in found.findings} == {("G1a", 0, aborted), ("P", 9, 1)}
    assert found.hops[-1].facts["others"] == 1
    assert found.hops[-1].facts["ahead"] == 1  # beyond the position: a live pipeline's, perhaps


def test_a_position_ahead_of_the_data_is_a_gap_and_one_behind_it_an_overlap(
    shop: Shop, audited: Callable[..., Audit]
) -> None:
    shop.send(range(40, 60), partition=0)
    move = f"UPDATE {shop.name}_own.positions SET position = position + %s WHERE partition = 0"
    shop.sql(move, 10)
    found = audited(shop)
    assert {finding.code.value for finding in found.findings} == {"K-gap", "L2"}
    assert found.as_json(0)["lost"] == 10
    shop.sql(move, -14)
    found = audited(shop)
    assert [(one.code.value, one.times) for one in found.findings] == [("K-overlap", 4)]
    assert found.verdict is Verdict.BROKEN


def test_what_waits_is_not_lost(shop: Shop, audited: Callable[..., Audit]) -> None:
    shop.send(range(40, 50), partition=1)
    found = audited(shop)
    assert found.verdict is Verdict.HOLDS
    assert found.hops[-1].facts["waiting"] == 11  # ten events and a marker


def test_filtered_events_are_not_lost_and_one_of_the_others_is(stack: Stack, audited: Callable[..., Audit]) -> None:
    shop = Shop(stack)
    shop.send(EVENTS)
    shop.carry(keep=lambda sequence: sequence % 4 != 0)
    found = audited(shop)
    assert (found.verdict, found.hops[-1].facts["filtered"]) == (Verdict.HOLDS, 10)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:21'")
    found = audited(shop)
    assert found.as_json(0)["lost"] == 1
    assert found.verdict is Verdict.BROKEN


def test_at_least_once_says_in_its_spans_what_it_wrote(stack: Stack, audited: Callable[..., Audit]) -> None:
    shop = Shop(stack)
    shop.send(EVENTS)
    shop.carry(Guarantee.AT_LEAST_ONCE)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:3'")
    found = audited(shop, guarantee=Guarantee.AT_LEAST_ONCE)
    assert (found.as_json(0)["lost"], found.verdict) == (1, Verdict.BROKEN)


def test_without_a_pipeline_every_record_must_have_its_row(shop: Shop, audited: Callable[..., Audit]) -> None:
    parts: dict[str, Any] = {"pipeline": None}
    assert audited(shop, **parts).verdict is Verdict.HOLDS
    at = shop.offset_of(2)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:2'")
    assert named(audited(shop, **parts)) == [("L2", *at, 0)]


def test_by_the_ids_of_a_column(shop: Shop, audited: Callable[..., Audit]) -> None:
    parts: dict[str, Any] = {"id_column": "event"}
    assert audited(shop, **parts).verdict is Verdict.HOLDS
    shop.sql(f"UPDATE {shop.name} SET event = 'p:1000' WHERE event = 'p:2'")  # an aborted one
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE event = 'p:5'")
    shop.sql(f"INSERT INTO {shop.name} VALUES ('x', 'stranger')")
    found = audited(shop, **parts)
    assert {(one.code.value, one.id) for one in found.findings} == {
        ("L2", "p:2"),
        ("G1a", "p:1000"),
        ("D2", "p:5"),
        ("P", "stranger"),
    }


def test_a_topic_as_the_sink_is_compared_by_ids(shop: Shop, stack: Stack, audited: Callable[..., Audit]) -> None:
    copy = Shop(stack)
    parts: dict[str, Any] = {"pipeline": None, "sink": sink_named(f"topic:{copy.name}", str)}
    copy.send(EVENTS)
    assert audited(shop, **parts).verdict is Verdict.HOLDS
    copy.send([3, 99])
    assert {(one.code.value, one.id) for one in audited(shop, **parts).findings} == {("D2", "p:3"), ("P", "p:99")}


def test_a_topic_as_the_sink_keeps_the_order_within_a_key(
    shop: Shop, stack: Stack, audited: Callable[..., Audit]
) -> None:
    copy = Shop(stack)
    copy.send([*EVENTS[:10], 15, 10, *EVENTS[11:15], *EVENTS[16:]], partition=0)
    parts: dict[str, Any] = {"pipeline": None, "sink": sink_named(f"topic:{copy.name}", str)}
    assert [(one.code.value, one.id) for one in audited(shop, **parts).findings] == [("O2", "p:10")]


def test_upsert_keeps_the_newest_of_each_key_and_dedupe_the_first(stack: Stack, audited: Callable[..., Audit]) -> None:
    shop = Shop(stack)
    shop.send(EVENTS, partition=0)  # five keys, the newest of them are 35 to 39
    shop.carry()
    parts: dict[str, Any] = {"pipeline": None}
    shop.sql(f"CREATE TABLE {shop.name}_all AS SELECT * FROM {shop.name}")
    for mode, kept, superseded in ((Mode.UPSERT, range(35, 40), 34), (Mode.DEDUPE, range(5), 5)):
        ids = ", ".join(f"'p:{sequence}'" for sequence in kept)
        shop.sql(f"TRUNCATE {shop.name}")
        shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name}_all WHERE event IN ({ids})")
        assert audited(shop, mode=mode, **parts).verdict is Verdict.HOLDS
        shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name}_all WHERE event = 'p:{superseded}'")
        (found,) = audited(shop, mode=mode, **parts).findings
        assert (found.code.value, found.offset) == ("D2", superseded)


def test_the_hop_before_the_log_by_its_journal(shop: Shop, audited: Callable[..., Audit], tmp_path: Path) -> None:
    shop.send([40, 41], partition=0)
    shop.send([41], partition=0)  # sent again
    shop.carry()
    journal = shop.journal(
        tmp_path,
        '{"sent": [0, 39]}',
        '{"acked": [0, 39]}',
        '{"begin": 1}',
        '{"sent": [1000, 1001]}',
        '{"abort": 1}',
        '{"sent": [40, 42]}',
        '{"acked": [40, 42]}',
        '{"begin": 2}',
        '{"sent": [38, 39]}',
        '{"sent": [2000, 2000]}',
        '{"commit": 2}',
    )
    found = audited(shop, journals=(journal,))
    assert {(one.code.value, one.id) for one in found.hops[0].findings} == {
        ("D1", "p:41"),
        ("L1", "p:42"),
        ("G1b", "p/2"),
    }
    assert found.hops[-1].findings == []  # the last hop is not to blame


def test_what_was_sent_and_waits_for_the_pipeline_is_not_lost_before_the_log(
    shop: Shop, audited: Callable[..., Audit], tmp_path: Path
) -> None:
    shop.send(range(40, 50))
    journal = shop.journal(tmp_path, '{"sent": [0, 49]}', '{"acked": [0, 49]}')
    found = audited(shop, journals=(journal,))
    assert (named(found), found.verdict) == ([], Verdict.HOLDS)
    assert (found.hops[0].landed, found.hops[-1].landed) == (50, 40)


def test_a_key_whose_events_stand_in_another_order_than_they_were_sent(
    stack: Stack, audited: Callable[..., Audit], tmp_path: Path
) -> None:
    shop = Shop(stack)
    shop.send([0, 10, 5, 15], partition=0)  # one key: they differ by fives
    shop.carry()
    journal = shop.journal(tmp_path, '{"sent": [0, 0]}', '{"sent": [5, 5]}', '{"sent": [10, 10]}', '{"sent": [15, 15]}')
    (found,) = audited(shop, journals=(journal,)).findings
    assert (found.code.value, found.id) == ("O1", "p:5")


def test_a_part_of_the_log_can_be_audited(shop: Shop, audited: Callable[..., Audit]) -> None:
    shop.sql(f"DELETE FROM {shop.name} WHERE event IN ('p:1', 'p:39')")
    found = audited(shop, since={1: 2})
    assert [one.offset for one in found.findings] != []
    assert found.as_json(0)["lost"] == 1
    part = audited(shop, since={1: 2}, until={0: 5, 1: 5})
    assert (part.verdict, part.not_checked) == (
        Verdict.PARTLY,
        ["log to sink: records outside of --from and --to"],
    )


@pytest.mark.proof
def test_records_that_compaction_removed_are_not_expected(stack: Stack, audited: Callable[..., Audit]) -> None:
    quick = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    shop = Shop(stack, partitions=1, configs=quick)
    shop.send(EVENTS[:20])
    shop.carry()
    shop.send(EVENTS[20:])  # the same five keys
    shop.send([40])  # rolls the segment
    shop.carry()
    assert wait_until(lambda: len(list(read_committed(shop.kafka, shop.name))) < 41, 90), "the cleaner did not run"
    found = audited(shop)
    assert (named(found), found.verdict) == ([], Verdict.HOLDS)
    assert found.hops[-1].facts["compacted"] > 0
    shop.sql(f"INSERT INTO {shop.name} SELECT 'x', 'x', %s, 0, 20, 0", shop.name)  # where a marker is
    assert [one.code.value for one in audited(shop).findings] == ["P"]


@pytest.mark.proof
def test_both_engines_find_the_same_when_everything_is_wrong_at_once(
    shop: Shop, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    shop.send([40], value=b"flipped")
    shop.send([5])  # a second time
    shop.carry()
    shop.sql(f"DELETE FROM {shop.name} WHERE event IN ('p:13', 'p:30')")
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE event IN ('p:7', 'p:22')")
    shop.sql(f"INSERT INTO {shop.name} SELECT 'x', 'x', %s, 0, 11, 0", shop.name)  # aborted
    shop.sql(f"UPDATE {shop.name} SET body = 'other' WHERE event = 'p:9'")
    shop.sql(f"UPDATE {shop.name}_own.positions SET position = position - 1 WHERE partition = 1")
    journal = shop.journal(tmp_path, '{"sent": [0, 41]}', '{"acked": [0, 41]}')
    parts: dict[str, Any] = {"journals": (journal,), "payload": "body"}
    on_spark = _audited(shop, SparkLoader(spark_engine, shop.kafka, headers=True), parts)
    with open_duck() as duck:
        in_python = _audited(shop, PythonLoader(duck, shop.kafka), parts)
    spark_engine.close()
    assert {one.code.value for one in in_python.findings} == {"L1", "D1", "X", "L2", "D2", "G1a", "K-overlap"}
    assert on_spark.findings == in_python.findings
    assert {**on_spark.as_json(0), "engine": ""} == {**in_python.as_json(0), "engine": ""}


def test_a_checker_that_cannot_read_gives_no_verdict(shop: Shop) -> None:
    found = audit(shop.request(ledger_schema="nowhere", pipeline="nobody", engine=EngineChoice.PYTHON))
    assert found.verdict is Verdict.INCONCLUSIVE
    dead_end = audit(shop.request(dsn="host=127.0.0.1 port=1 connect_timeout=2"))
    assert (dead_end.verdict, dead_end.hops) == (Verdict.INCONCLUSIVE, [])


def test_while_a_pipeline_runs_what_has_landed_holds_and_the_rest_waits(stack: Stack) -> None:
    shop = Shop(stack)
    shop.send(range(600))
    carrier = threading.Thread(target=shop.carry)
    carrier.start()
    seen = []
    while carrier.is_alive():
        seen.append(audit(shop.request(engine=EngineChoice.PYTHON)))
    carrier.join()
    assert [one.undecided for one in seen if one.verdict is Verdict.BROKEN] == []
    assert any(one.hops and one.hops[-1].facts["waiting"] for one in seen), "no audit ran while it was carrying"
    last = audit(shop.request(engine=EngineChoice.PYTHON))
    assert (last.verdict, last.hops[-1].landed, last.hops[-1].facts["waiting"]) == (Verdict.HOLDS, 600, 0)


def test_a_pipeline_that_does_not_drain_in_time_leaves_the_verdict_open(shop: Shop) -> None:
    shop.send([40])
    found = audit(shop.request(engine=EngineChoice.PYTHON), timeout=0)
    assert (found.verdict, "drain" in found.undecided) == (Verdict.INCONCLUSIVE, True)
    shop.carry()
    assert audit(shop.request(engine=EngineChoice.PYTHON), timeout=10).verdict is Verdict.HOLDS


def test_rows_of_a_topic_that_was_created_again_are_not_taken_for_doubles(
    shop: Shop, audited: Callable[..., Audit]
) -> None:
    shop.sql(f"CREATE TABLE {shop.name}_once AS TABLE {shop.name}")
    shop.sql(f"INSERT INTO {shop.name} TABLE {shop.name}_once")
    assert audited(shop).verdict is Verdict.BROKEN
    shop.sql(
        f"INSERT INTO {shop.name}_own.spans (pipeline, topic, partition, start_offset, end_offset, owner, rows, dead) "
        f"SELECT pipeline, topic || '@old', partition, start_offset, end_offset, owner, rows, dead "
        f"FROM {shop.name}_own.spans"
    )
    found = audited(shop)
    assert (found.verdict, named(found)) == (Verdict.INCONCLUSIVE, [])
    assert "40 events with more rows than there should be" in found.hops[-1].undecided
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name}_once WHERE event = 'p:8'")
    assert named(audited(shop)) == [("D2", 0, 4, 3)]  # of each topic one row, and one more
    shop.sql(f"DELETE FROM {shop.name} WHERE _offset = 3")
    assert audited(shop).verdict is Verdict.BROKEN  # what is lost is lost


def test_a_double_at_an_offset_that_no_earlier_topic_had_is_one(shop: Shop, audited: Callable[..., Audit]) -> None:
    """The earlier one ended at offset 7, and had no rows from 2 to 4."""
    shop.sql(
        f"INSERT INTO {shop.name}_own.spans (pipeline, topic, partition, start_offset, end_offset, owner, rows, dead) "
        f"SELECT pipeline, topic || '@old', 0, start_, end_, owner, rows_, 0 FROM "
        f"(SELECT pipeline, topic, owner FROM {shop.name}_own.spans LIMIT 1) AS one, "
        f"(VALUES (0, 2, 2), (2, 4, 0), (4, 7, 3)) AS earlier (start_, end_, rows_)"
    )
    whole = audited(shop)
    assert whole.verdict is Verdict.PARTLY
    assert "an earlier one of that name had rows at the same offsets" in whole.not_checked[0]
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE _partition = 0 AND _offset IN (1, 3, 9)")
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE _partition = 1 AND _offset = 1")
    found = audited(shop)
    assert [(one.code.value, one.partition, one.offset) for one in found.findings] == [
        ("D2", 0, 3),
        ("D2", 0, 9),
        ("D2", 1, 1),
    ]
    assert (found.verdict, found.hops[-1].undecided[:8]) == (Verdict.BROKEN, "1 event ")
