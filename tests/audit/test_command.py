"""`fencepost audit` and `fencepost receipt` as a person runs them, on a pipeline's file and on bare topics."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import yaml

from audit.shop import Shop
from fencepost.audit.audit import audit
from fencepost.audit.kept import kept
from fencepost.audit.request import EngineChoice
from fencepost.audit.watch import Rounds
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.local import Stack
from fencepost.producing.producer import Producer
from fencepost.spec import load
from support.commands import Command, apart, argv, here

EVENTS = range(40)


@pytest.fixture
def shop(stack: Stack) -> Shop:
    shop = Shop(stack)
    shop.send(EVENTS)
    shop.carry()
    return shop


@pytest.fixture
def spec(shop: Shop, tmp_path: Path) -> Path:
    path = tmp_path / "fencepost.yml"
    options = {"table": shop.name, "dsn": shop.stack.dsn, "ledger_schema": f"{shop.name}_own"}
    declared = {
        "name": shop.name,
        "guarantee": "exactly-once",
        "kafka": shop.kafka,
        "source": {"topic": shop.name, "value": "string"},
        "sink": {"format": "postgres", "options": options},
        "spark": {"spark.master": "local[2]"},
    }
    path.write_text(yaml.safe_dump(declared))
    return path


def as_json(*words: str, how: Command = here) -> tuple[int, dict[str, Any]]:
    done = how(*words, "--format", "json")
    assert done.out, done.err
    found: dict[str, Any] = json.loads(done.out)
    return done.code, found


def test_a_pipeline_that_holds(spec: Path) -> None:
    code, found = as_json("audit", "--spec", str(spec), how=apart)
    assert (code, found["verdict"], found["expected"], found["landed"]) == (0, "holds", 40, 40)
    assert (found["lost"], found["duplicated"], found["phantom"], found["findings"]) == (0, 0, 0, [])
    assert [hop["hop"] for hop in found["hops"]] == ["sender to log", "log to sink"]
    assert [hop["verdict"] for hop in found["hops"]] == ["not-judged", "holds"]
    assert found["engine"] == "python"


def test_a_pipeline_that_is_broken_ends_with_1_and_its_page_shows_the_hole(
    shop: Shop, spec: Path, tmp_path: Path
) -> None:
    partition, offset = shop.offset_of(13)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:13'")
    code, found = as_json("audit", "--spec", str(spec), "--report", str(tmp_path / "page"))
    assert (code, found["verdict"], found["lost"]) == (1, "broken", 1)
    assert found["findings"] == [
        {
            "code": "L2",
            "id": "p:13",
            "topic": shop.name,
            "partition": partition,
            "offset": offset,
            "times": 0,
            "expected": 1,
        }
    ]
    page = (tmp_path / "page" / "index.html").read_text()
    assert "p:13" in page
    assert "broken" in page


def test_findings_are_cut_and_the_totals_are_not(shop: Shop, spec: Path) -> None:
    shop.sql(f"TRUNCATE {shop.name}")
    _, found = as_json("audit", "--spec", str(spec), "--most", "1")
    (first,) = found["findings"]
    assert (first["offset"], first["last_offset"], first["events"], found["lost"]) == (0, 19, 20, 40)
    text = here("audit", "--spec", str(spec), "--most", "1")
    assert f"  L2  {shop.name}/0 0 to 19 p:0 to p:38: 20 events, each 0 instead of 1 (forbidden)" in text.out
    assert "... 20 more of 40" in text.out
    assert "log to sink: broken\nexactly-once: broken" in text.out


def test_ids_that_were_sent_twice_are_the_senders_and_every_record_landed_once(shop: Shop, spec: Path) -> None:
    shop.send(EVENTS)
    shop.carry()
    text = here("audit", "--spec", str(spec))
    assert (text.code, text.out.splitlines()) == (
        0,
        [
            "read 80 = landed 80 + filtered 0 + dead 0",
            "rows 80: lost 0, doubled 0, phantom 0",
            "sender to log: 40 ids sent twice; not judged, there is no journal to say what was sent",
            "log to sink: holds",
            "exactly-once: holds",
        ],
    )
    _, found = as_json("audit", "--spec", str(spec))
    assert (found["hops"][0]["said"], found["anomalies"], len(found["remarks"])) == ({"D1": 40}, {}, 2)


@pytest.mark.proof
def test_a_condition_says_which_events_must_have_a_row(shop: Shop, spec: Path) -> None:
    shop.sql(f"DELETE FROM {shop.name} WHERE body = 'order 7' OR body = 'order 8'")
    words = ("audit", "--spec", str(spec), "--expect", "value <> 'order 7'")
    code, found = as_json(*words)
    assert (code, found["lost"], found["engine"]) == (1, 1, "spark")
    assert [(one["code"], one["offset"]) for one in found["findings"]] == [("L2", 4)]
    refused = here(*words, "--engine", "python")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_a_bare_topic_against_a_topic_and_a_journal(shop: Shop, stack: Stack, tmp_path: Path) -> None:
    copy = Shop(stack)
    copy.send(EVENTS[:39])
    journal = shop.journal(tmp_path, '{"sent": [0, 40]}', '{"acked": [0, 40]}')
    words = ["--bootstrap-server", stack.bootstrap_servers, "--topic", shop.name]
    code, found = as_json("audit", *words, "--sink", f"topic:{copy.name}", "--journal", str(journal))
    assert (code, found["verdict"]) == (1, "broken")
    assert {(one["code"], one["id"]) for one in found["findings"]} == {("L1", "p:40"), ("L2", "p:39")}
    code, found = as_json("audit", *words, "--sink", f"topic:{copy.name}", "--guarantee", "at-most-once")
    assert (code, found["lost"]) == (0, 1)


def test_a_producers_own_journal_is_held_against_the_log(stack: Stack, tmp_path: Path) -> None:
    shop, journal = Shop(stack), tmp_path / "journal.jsonl"
    with Producer(
        shop.name, "exactly-once", shop.kafka, transactional_id=shop.name, journal=journal, delivery_reports=False
    ) as producer:
        with producer.transaction():
            for number in range(20):
                producer.send(str(number).encode(), b"k")
        with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012 (the block is the point)
            producer.send(b"never", b"k")
            raise ZeroDivisionError
    words = ["--bootstrap-server", stack.bootstrap_servers, "--topic", shop.name, "--journal", str(journal)]
    code, found = as_json("audit", *words)
    assert (code, found["verdict"], found["hops"][0]["acked"], found["hops"][0]["aborted"]) == (0, "holds", 20, 1)
    journal.write_text(journal.read_text() + '{"sent": [90, 90]}\n{"acked": [90, 90]}\n')
    code, found = as_json("audit", *words)
    assert (code, [one["code"] for one in found["findings"]]) == (1, ["L1"])


def test_records_and_rows_that_have_no_id_leave_a_comparison_by_ids_open(shop: Shop, stack: Stack) -> None:
    other = Shop(stack)
    client = confluent_kafka.Producer(shop.kafka)
    client.produce(shop.name, b"of another tool", b"k")
    assert client.flush(30) == 0
    other.send(EVENTS)
    words = ["--bootstrap-server", stack.bootstrap_servers, "--topic", shop.name, "--sink", f"topic:{other.name}"]
    code, found = as_json("audit", *words)
    assert (code, found["verdict"], found["lost"]) == (5, "inconclusive", 0)
    assert "1 record of the log" in found["hops"][-1]["undecided"]


def test_what_cannot_be_read_is_undecided_and_wrong_options_are_refused(spec: Path, stack: Stack) -> None:
    declared = yaml.safe_load(spec.read_text())
    declared["sink"]["options"]["dsn"] = "host=127.0.0.1 port=1 connect_timeout=2"
    spec.write_text(yaml.safe_dump(declared))
    code, found = as_json("audit", "--spec", str(spec))
    assert (code, found["verdict"]) == (5, "inconclusive")
    for words in (["--sink", "somewhere"], [], ["--sink", "topic:x", "--from", "yesterday"]):
        refused = here("audit", "--bootstrap-server", stack.bootstrap_servers, "--topic", "orders", *words)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err


def test_receipts(shop: Shop, spec: Path) -> None:
    place = ["receipt", "--spec", str(spec), "--topic", shop.name, "--partition", "0", "--offset"]
    assert as_json(*place, "3") == (
        0,
        {"receipt": "processed", "topic": shop.name, "partition": 0, "offset": 3, "position": 21, "behind": 0},
    )
    assert as_json(*place, "3", "--check")[1]["receipt"] == "landed"
    code, found = as_json(*place, "20", "--check")
    assert (code, found["receipt"]) == (1, "gone")  # a marker
    shop.send([40])
    code, found = as_json("receipt", "--spec", str(spec), "--id", "p:40")
    assert (code, found["receipt"], found["behind"]) == (5, "waiting", 1)
    assert here("receipt", "--spec", str(spec)).code == 2


def test_a_running_audit_compares_only_what_is_new_and_adds_up(shop: Shop) -> None:
    rounds = Rounds(shop.request(engine=EngineChoice.PYTHON))
    first = rounds.next()
    assert (first.verdict.value, first.compared) == ("holds", 40)
    assert rounds.next().says_the_same_as(first)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:3'")  # what was compared is not read again
    shop.send(range(40, 60))
    assert rounds.next().waiting > 0
    shop.carry()
    shop.sql(f"INSERT INTO {shop.name} SELECT * FROM {shop.name} WHERE event = 'p:50'")
    last = rounds.next()
    assert (last.verdict.value, last.compared) == ("broken", 61)
    assert {code.value: count for code, count in last.totals.items()} == {"D2": 1}


@pytest.mark.parametrize("seen", [True, False], ids=["a round sees it", "between two rounds"])
def test_a_running_audit_begins_anew_where_a_position_went_back(shop: Shop, seen: bool) -> None:
    """What is read again is counted once, however many rounds there are."""
    request = shop.request(engine=EngineChoice.PYTHON, guarantee=Guarantee.AT_LEAST_ONCE)
    rounds = Rounds(request)
    assert rounds.next().verdict.value == "holds"
    shop.sql(f"UPDATE {shop.name}_own.positions SET position = position - 7 WHERE partition = 0")
    if seen:
        back = rounds.next()
        assert back.says_the_same_as(rounds.next())
        assert (back.compared, dict(back.totals)) == (34, {Anomaly.SPAN_OVERLAP: 1})  # one is a marker
    shop.carry()
    assert {code.value: count for code, count in rounds.next().totals.items()} == {"D2": 6, "K-overlap": 1}
    last = rounds.next()
    whole = audit(request)
    assert rounds.so_far is not None
    assert (rounds.so_far.totals, last.compared) == (whole.totals, sum(hop.landed for hop in whole.hops[-1:]))
    assert rounds.so_far.hops[-1].expected == whole.hops[-1].expected == 40


def test_a_running_audit_by_ids_compares_everything_each_time(shop: Shop) -> None:
    rounds = Rounds(shop.request(engine=EngineChoice.PYTHON, id_column="event"))
    assert (rounds.next().verdict.value, rounds.next().compared) == ("holds", 40)
    shop.send(range(40, 45))
    shop.carry()
    assert (rounds.next().verdict.value, rounds.next().compared) == ("holds", 45)


def test_a_running_audit_says_what_it_left_open_and_what_it_did_not_check(shop: Shop) -> None:
    shop.sql(f"INSERT INTO {shop.name} SELECT 'x', NULL, %s, 0, 999, 0", shop.name)  # beyond the position
    left = Rounds(shop.request(engine=EngineChoice.PYTHON, id_column="event")).next()
    assert (left.verdict.value, "without an id: 0 records of the log, 1 of the sink" in left.line()) == (
        "inconclusive",
        True,
    )
    part = Rounds(shop.request(engine=EngineChoice.PYTHON, since={0: 2})).next()
    assert (part.verdict.value, part.as_json()["not_checked"]) == (
        "holds-in-part",
        ["log to sink: records outside of --from and --to"],
    )
    shop.sql(f"ALTER TABLE {shop.name} DROP COLUMN _offset")  # only their number is left
    counted = Rounds(shop.request(engine=EngineChoice.PYTHON))
    shop.sql(f"DELETE FROM {shop.name} WHERE event IS NULL")
    assert [counted.next().verdict.value for _ in range(2)] == ["holds-in-part"] * 2
    shop.sql(f"DELETE FROM {shop.name}_own.positions")
    assert "no position is stored" in counted.next().line()


def test_a_running_audit_speaks_when_something_changes_and_ends_when_it_is_broken(shop: Shop, spec: Path) -> None:
    words = ("audit", "--spec", spec, "--every", "200ms", "--format", "json")
    with subprocess.Popen(argv(*words), stdout=subprocess.PIPE, text=True) as running:
        guard = threading.Timer(120, running.kill)
        guard.start()
        try:
            assert running.stdout is not None
            assert json.loads(running.stdout.readline())["verdict"] == "holds"
            shop.send([40], partition=0)
            shop.sql(f"INSERT INTO {shop.name} SELECT 'x', 'x', %s, 0, 21, 0", shop.name)  # the same event's
            shop.carry()
            told = [json.loads(line) for line in running.stdout]
        finally:
            guard.cancel()
            running.kill()
    assert (told[-1]["verdict"], told[-1]["anomalies"], running.returncode) == ("broken", {"D2": 1}, 1)
    page = kept(load(spec).name, shop.kafka["bootstrap.servers"])
    assert page is not None
    assert [(one.code.value, one.partition, one.offset) for one in page.findings] == [("D2", 0, 21)]
    assert (page.found["verdict"], page.found["landed"]) == ("broken", 42)
    assert {part["from"] for part in page.found["partitions"]} == {0}  # not where the last round began


def test_what_a_pipeline_into_a_topic_has_not_read_yet_is_not_lost(stack: Stack, tmp_path: Path) -> None:
    shop, copy, path = Shop(stack), Shop(stack), tmp_path / "fencepost.yml"
    declared = {
        "name": f"{shop.name}-relay",
        "engine": "python",
        "guarantee": "exactly-once",
        "kafka": shop.kafka,
        "source": {"topic": shop.name},
        "sink": {"format": "kafka", "options": {"topic": copy.name}},
    }
    path.write_text(yaml.safe_dump(declared))
    shop.send(EVENTS, partition=0)
    code, found = as_json("audit", "--spec", str(path))
    assert (code, found["lost"]) == (5, 0)  # it has never run
    assert here("run", "--once", "--spec", str(path)).code == 0
    shop.send([1001, 1002, 1003], partition=0)
    code, found = as_json("audit", "--spec", str(path))
    assert (code, found["verdict"], found["lost"], found["hops"][-1]["waiting"]) == (0, "holds", 0, 4), (
        found
    )  # with the marker
