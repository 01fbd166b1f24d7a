"""Sources that go on where the last run got to, under each guarantee."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.audit.journal import read_journals
from fencepost.errors import UnsupportedGuarantee
from fencepost.guarantee import Guarantee
from fencepost.local.ports import choose
from fencepost.model import Outcome
from fencepost.producing.batches import Limits
from fencepost.producing.events import Event
from fencepost.producing.resume import ProduceJob, Run
from fencepost.producing.sources.source import Numbered, Stream, numbered_orders
from producing.commands import command as words_of
from producing.commands import produce, produce_apart
from producing.topics import Topics, header

EO = ("--guarantee", "exactly-once")


def write(path: Path, numbers: range) -> Path:
    path.write_text("".join(f'{{"id": {n}, "customer": "c{n % 5}"}}\n' for n in numbers))
    return path


def ids(topics: Topics, topic: str) -> Counter[int]:
    return Counter(json.loads(value)["id"] for value in topics.values(topic).elements())


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_second_run_sends_only_what_is_new_with_ids_that_go_on(
    topics: Topics, tmp_path: Path, guarantee: Guarantee
) -> None:
    topic, path = topics.make(), write(tmp_path / "orders.jsonl", range(30))
    command = ("--topic", topic, "--guarantee", guarantee, "--file", path, "--key", "customer")
    assert produce(topics.servers, *command).totals["sent"] == 30
    assert produce(topics.servers, *command).totals["sent"] == 0
    write(path, range(50))
    last = produce(topics.servers, *command)
    assert (last.code, last.totals["sent"]) == (0, 20)
    assert last.totals["resumed_at"]["line"] == 30
    messages = topics.await_read(topic, 50)
    assert ids(topics, topic) == Counter(range(50))
    fingerprint = last.totals["resumed_at"]["fingerprint"]
    assert {header(message): json.loads(message.value() or b"")["id"] for message in messages} == {
        f"{fingerprint}:{n + 1}": n for n in range(50)
    }


def test_a_folder_goes_on_with_its_new_files(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    write(tmp_path / "a.jsonl", range(10))
    write(tmp_path / "b.jsonl", range(10, 20))
    command = ("--topic", topic, *EO, "--file", tmp_path)
    assert produce(topics.servers, *command).totals["acked"] == 20
    write(tmp_path / "c.jsonl", range(20, 30))
    assert produce(topics.servers, *command).totals["acked"] == 10
    write(tmp_path / "aa.jsonl", range(30, 40))
    refused = produce(topics.servers, *command)
    assert (refused.code, refused.totals["sent"]) == (1, 0)
    assert "sort before c.jsonl" in refused.err
    assert ids(topics, topic) == Counter(range(30))


def test_a_file_that_changed_is_refused(topics: Topics, tmp_path: Path) -> None:
    topic, path = topics.make(), write(tmp_path / "orders.jsonl", range(10))
    assert produce(topics.servers, "--topic", topic, *EO, "--file", path).code == 0
    write(path, range(5, 20))
    refused = produce(topics.servers, "--topic", topic, *EO, "--file", path)
    assert refused.code == 1
    assert "are not those that were sent" in refused.err
    assert ids(topics, topic) == Counter(range(10))


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-most-once"])
def test_without_a_position_a_topic_that_is_not_empty_is_refused(
    topics: Topics, tmp_path: Path, guarantee: str
) -> None:
    topic, path = topics.make(), write(tmp_path / "orders.jsonl", range(10))
    assert produce_apart(topics.servers, "--topic", topic, stdin="somebody else's\n").code == 0
    command = ("--topic", topic, "--guarantee", guarantee, "--file", path)
    refused = produce(topics.servers, *command)
    assert refused.code == 1
    assert "is not empty" in refused.err
    assert "--from-start" in refused.err
    assert produce(topics.servers, *command, "--from-start").totals["sent"] == 10
    assert produce(topics.servers, *command, "--from-start").totals["sent"] == 0


def test_standard_input_cannot_be_exactly_once_across_a_restart(topics: Topics) -> None:
    topic = topics.make()
    refused = produce_apart(topics.servers, "--topic", topic, *EO, "--file", "-", stdin="one\n")
    assert refused.code == 2
    assert "cannot be read again" in refused.err
    words = ("--topic", topic, "--guarantee", "at-least-once", "--file", "-")
    taken = produce_apart(topics.servers, *words, stdin="one\n\ntwo")
    assert (taken.code, taken.totals["acked"]) == (0, 2)
    assert topics.values(topic) == Counter([b"one", b"two"])


def test_numbered_events_go_on_too_and_have_keys_sizes_and_a_rate(topics: Topics) -> None:
    topic = topics.make()
    command = ("--topic", topic, *EO, "--keys", 3, "--size", 300, "--rate", 500)
    assert produce(topics.servers, *command, "--count", 20).totals["acked"] == 20
    assert produce(topics.servers, *command, "--count", 50).totals["acked"] == 30
    messages = topics.read(topic)
    assert ids(topics, topic) == Counter(range(50))
    assert {message.key() for message in messages} == {b"c-0", b"c-1", b"c-2"}
    assert {len(message.value() or b"") for message in messages} == {300}
    producers = {header(message).split(":")[0] for message in messages}
    assert (len(producers), len({header(message) for message in messages})) == (1, 50)


def test_numbered_events_are_new_ones_each_time_where_no_position_is_kept(topics: Topics) -> None:
    topic = topics.make()
    for _ in range(2):
        assert produce(topics.servers, "--topic", topic, "--count", 20).totals["acked"] == 20
    assert produce(topics.servers, "--topic", topic, *EO, "--name", "more", "--from-start", "--count", 20).code == 0
    assert ids(topics, topic) == Counter([*range(20)] * 3)
    assert len({header(message) for message in topics.read(topic)}) == 60


class TestBadInput:
    def test_a_broken_line_stops_behind_the_good_ones_and_mended_it_goes_on(
        self, topics: Topics, tmp_path: Path
    ) -> None:
        topic, path = topics.make(), write(tmp_path / "orders.jsonl", range(10))
        good = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*good[:6], '{"id": \n', *good[7:]]))
        stopped = produce(topics.servers, "--topic", topic, *EO, "--file", path)
        assert (stopped.code, stopped.totals["acked"]) == (1, 6)
        assert "line 7: not JSON" in stopped.err
        path.write_text("".join(good))
        assert produce(topics.servers, "--topic", topic, *EO, "--file", path).totals["acked"] == 4
        assert ids(topics, topic) == Counter(range(10))

    @pytest.mark.parametrize("guarantee", list(Guarantee))
    def test_skipped_they_are_counted(self, topics: Topics, tmp_path: Path, guarantee: Guarantee) -> None:
        topic = topics.make(config={"max.message.bytes": "2000"})
        path = write(tmp_path / "orders.jsonl", range(5))
        large = json.dumps({"id": 99, "filler": "x" * 5000})
        path.write_text(f"nonsense\n{path.read_text()}{large}\n" + '{"id": 5}\n')
        command = ("--topic", topic, "--guarantee", guarantee, "--file", path, "--errors", "skip")
        done = produce(topics.servers, *command)
        assert done.code == 1
        assert (done.totals["sent"], done.totals["refused"], done.totals["skipped"]) == (7, 1, 1)
        assert "line 1: not JSON" in done.err
        assert "event 7:" in done.err
        topics.await_read(topic, 6)
        assert ids(topics, topic) == Counter(range(6))
        assert produce(topics.servers, *command).totals["sent"] == 0

    @pytest.mark.parametrize("guarantee", ["at-least-once", pytest.param("exactly-once", marks=pytest.mark.proof)])
    def test_the_broker_refuses_a_request_for_one_record_and_the_others_arrive(
        self, topics: Topics, tmp_path: Path, guarantee: str
    ) -> None:
        """Compressed, a record's size is the broker's to judge."""
        topic, path = topics.make(partitions=1, config={"max.message.bytes": "2000"}), tmp_path / "lines.txt"
        path.write_text("one\ntwo\n" + random.Random(1).randbytes(5000).hex() + "\nfour\nfive\n")
        command = ("--topic", topic, "--guarantee", guarantee, "--file", path, "-X", "compression.type=lz4")
        stopped = produce(topics.servers, *command)
        assert (stopped.code, stopped.totals["refused"]) == (1, 1)
        assert "event 3 of the source was refused" in stopped.err
        done = produce(topics.servers, *command, "--errors", "skip")
        assert (done.code, done.totals["acked"], done.totals["refused"]) == (1, 4, 1)
        assert topics.values(topic).keys() == {b"one", b"two", b"four", b"five"}
        if guarantee == "exactly-once":
            assert set(topics.values(topic).values()) == {1}

    @pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
    def test_a_record_too_large_stops(self, topics: Topics, tmp_path: Path, guarantee: str) -> None:
        topic, path = topics.make(), tmp_path / "large.txt"
        path.write_text("small\n" + "x" * 2_000_000 + "\n")
        stopped = produce(topics.servers, "--topic", topic, "--guarantee", guarantee, "--file", path)
        assert (stopped.code, stopped.totals["refused"]) == (1, 1)
        assert "event 2 of the source was refused" in stopped.err

    def test_a_topic_that_does_not_exist_is_refused(self, topics: Topics, tmp_path: Path) -> None:
        done = produce(topics.servers, "--topic", "nowhere", *EO, "--file", write(tmp_path / "a.jsonl", range(1)))
        assert done.code == 2
        assert "there is no topic nowhere" in done.err

    def test_an_unreachable_cluster_is_told(self, tmp_path: Path) -> None:
        servers = f"127.0.0.1:{choose(None, [])}"
        done = produce_apart(servers, "--topic", "orders", *EO, "--file", write(tmp_path / "a.jsonl", range(1)))
        assert done.code == 3
        assert servers in done.err

    def test_a_file_that_is_not_there_is_told(self, topics: Topics, tmp_path: Path) -> None:
        done = produce(topics.servers, "--topic", "orders", *EO, "--file", tmp_path / "none.jsonl")
        assert done.code == 2
        assert "No such file" in done.err


class TestIterator:
    """A Python iterator that can seek."""

    def run(self, topics: Topics, topic: str, read: Any) -> Run:
        job = ProduceJob(topic, Guarantee.EXACTLY_ONCE, "mine", limits=Limits(records=10, chunk=3))
        return Run(topics.kafka, job, Numbered(read, "my events"))

    def test_that_fails_on_the_way_goes_on_where_its_last_batch_ended(self, topics: Topics) -> None:
        topic = topics.make()

        def failing(after: int) -> Iterator[Event]:
            for n in range(after, 100):
                if n == 35:
                    raise ZeroDivisionError
                yield Event(b"%d" % n)

        with pytest.raises(ZeroDivisionError):
            self.run(topics, topic, failing).carry()
        assert topics.values(topic) == Counter(b"%d" % n for n in range(30))
        asked: list[int] = []

        def whole(after: int) -> Iterator[Event]:
            asked.append(after)
            return (Event(b"%d" % n) for n in range(after, 50))

        self.run(topics, topic, whole).carry()
        assert asked == [30]
        assert topics.values(topic) == Counter(b"%d" % n for n in range(50))

    def test_that_cannot_seek_is_refused(self, topics: Topics) -> None:
        with pytest.raises(UnsupportedGuarantee, match="cannot be read again"):
            Run(topics.kafka, ProduceJob(topics.make(), Guarantee.EXACTLY_ONCE, "mine"), Stream([Event(b"x")]))


class Killed(BaseException):
    """The process dies here."""


def die(*_: object) -> None:
    raise Killed


class TestOrder:
    """Where a run dies between sending and moving its place, the next one shows which came first."""

    def die_at(self, topics: Topics, topic: str, guarantee: Guarantee, step: str) -> None:
        """A run of 25 events in batches of 10 that dies at the second such step, a flush when all is delivered."""
        run = Run(topics.kafka, self.job(topic, guarantee), numbered_orders(25))
        real, calls = getattr(run.producer, step), []

        def step_or_death(*given: Any) -> Any:
            calls.append(1)
            if len(calls) == 2 and step == "flush":
                run.producer._ready().drain()
            return die() if len(calls) == 2 else real(*given)

        setattr(run.producer, step, step_or_death)
        with pytest.raises(Killed):
            run.carry()

    def job(self, topic: str, guarantee: Guarantee) -> ProduceJob:
        return ProduceJob(topic, guarantee, "order", limits=Limits(records=10, chunk=10))

    def again(self, topics: Topics, topic: str, guarantee: Guarantee) -> Counter[int]:
        Run(topics.kafka, self.job(topic, guarantee), numbered_orders(25)).carry()
        return ids(topics, topic)

    def test_at_most_once_the_place_moves_first_and_the_batch_is_lost(self, topics: Topics) -> None:
        topic = topics.make()
        self.die_at(topics, topic, Guarantee.AT_MOST_ONCE, "send_all")
        self.again(topics, topic, Guarantee.AT_MOST_ONCE)
        topics.await_read(topic, 15)
        assert ids(topics, topic) == Counter([*range(10), *range(20, 25)])

    def test_at_least_once_the_place_moves_last_and_the_batch_is_repeated(self, topics: Topics) -> None:
        topic = topics.make()
        self.die_at(topics, topic, Guarantee.AT_LEAST_ONCE, "flush")
        topics.await_read(topic, 20)
        assert self.again(topics, topic, Guarantee.AT_LEAST_ONCE) == Counter([*range(25), *range(10, 20)])

    @pytest.mark.parametrize("step", ["send_all", "add_offsets"])
    def test_exactly_once_both_or_neither(self, topics: Topics, step: str) -> None:
        topic = topics.make()
        self.die_at(topics, topic, Guarantee.EXACTLY_ONCE, step)
        assert self.again(topics, topic, Guarantee.EXACTLY_ONCE) == Counter(range(25))


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_the_journal_names_the_events_as_the_log_does(topics: Topics, tmp_path: Path, guarantee: Guarantee) -> None:
    topic, path = topics.make(), write(tmp_path / "orders.jsonl", range(30))
    journal = tmp_path / "journal"
    produce(topics.servers, "--topic", topic, "--guarantee", guarantee, "--file", path, "--journal", journal)
    write(path, range(50))
    produce(topics.servers, "--topic", topic, "--guarantee", guarantee, "--file", path, "--journal", journal)
    told = Outcome.UNKNOWN if guarantee is Guarantee.AT_MOST_ONCE else Outcome.ACKED
    assert read_journals([journal]).outcomes == {header(message): told for message in topics.await_read(topic, 50)}


def test_a_first_run_that_died_in_its_first_batch_is_not_taken_for_somebody_elses(topics: Topics) -> None:
    topic = topics.make()
    job = ProduceJob(topic, Guarantee.EXACTLY_ONCE, "first")
    run = Run(topics.kafka, job, numbered_orders(10))
    send_all = run.producer.send_all

    def send_and_die(events: list[Event]) -> None:
        send_all(events)
        run.producer._ready().drain()
        die()

    run.producer.send_all = send_and_die  # type: ignore[assignment,method-assign]
    with pytest.raises(Killed):
        run.carry()
    assert len(topics.values(topic, "read_uncommitted")) == 10
    Run(topics.kafka, job, numbered_orders(10)).carry()
    assert ids(topics, topic) == Counter(range(10))


@pytest.mark.parametrize("layout", ["jsonl", "csv"])
def test_standard_input_has_keys_and_columns_and_may_be_packed(topics: Topics, layout: str) -> None:
    topic = topics.make()
    rows = {"jsonl": '{"id": 1}\n{"id": 2}\n', "csv": "id\n1\n2\n"}[layout]
    command = words_of(topics.servers, "--topic", topic, "--input", layout, "--key", "id")
    done = subprocess.run(command, input=gzip.compress(rows.encode()), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(message.key() or b"" for message in topics.await_read(topic, 2)) == [b"1", b"2"]


def test_what_cannot_be_sent_is_refused_and_nothing_is_destroyed(topics: Topics, tmp_path: Path) -> None:
    topic, path = topics.make(), write(tmp_path / "orders.jsonl", range(5))
    content = path.read_bytes()
    (tmp_path / "notes").write_text("precious, and without a line end")
    os.mkfifo(tmp_path / "fifo")
    for more, why in (
        (["--file", path, "--journal", path], "is one of the files to send"),
        (["--file", path, "--journal", tmp_path / "notes"], "is not a journal: it was not changed"),
        (["--file", path, "--journal", tmp_path / "fifo"], "is not a file"),
        (["--file", tmp_path / "fifo"], "is a named pipe"),
    ):
        refused = produce(topics.servers, "--topic", topic, *more)
        assert (refused.code, refused.err.count("\n"), refused.out) == (2, 1, ""), refused.err
        assert why in refused.err
    assert path.read_bytes() == content
    assert (tmp_path / "notes").read_text() == "precious, and without a line end"
    assert topics.read(topic) == []
