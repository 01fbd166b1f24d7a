"""`fencepost produce` killed with -9 at random moments, and run again until it is through."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.model import EVENT_ID
from producing.commands import produce, produce_until
from producing.topics import Topics, header

KILLS = 10
LINES = 120_000  # a run that is killed sends two batches or three
IN_THE_GATE = (4, 60_000)
BATCH = 4_000


def lines_file(path: Path, lines: int = LINES) -> Path:
    """Packed where its name says so."""
    content = "".join(f'{{"id": {n}, "customer": "c{n % 20}"}}\n' for n in range(1, lines + 1)).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".zst":
        content = pa.compress(content, codec="zstd", asbytes=True)
    path.write_bytes(content)
    return path


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def killed_again_and_again(
    topics: Topics, topic: str, guarantee: str, source: Path, seed: int, most: int = KILLS
) -> tuple[int, Path]:
    """How many runs were killed, each after its journal had grown by a few lines, and the journal of all runs."""
    chance = random.Random(seed)
    journal = source.with_name("journal")
    what = ("--topic", topic, "--guarantee", guarantee, "--file", source, "--key", "customer")
    command = (*what, "--batch", BATCH, "--journal", journal)
    kills = 0
    while kills < most:
        target = size(journal) + chance.randint(60, 220)  # a session's first line is 110 bytes, a batch's are 55
        if not produce_until(lambda target=target: size(journal) >= target, topics.servers, *command):  # type: ignore[misc]
            break
        kills += 1
    assert produce(topics.servers, *command).code == 0
    return kills, journal


@pytest.mark.parametrize(
    ("seed", "file", "most", "lines"),
    [
        (7, "big.jsonl.gz", *IN_THE_GATE),
        pytest.param(7, "big.jsonl.gz", KILLS, LINES, marks=pytest.mark.proof),
        *(pytest.param(seed, "big.jsonl", KILLS, LINES, marks=pytest.mark.proof) for seed in range(10, 15)),
        pytest.param(15, "big.jsonl.zst", KILLS, LINES, marks=pytest.mark.proof),
    ],
)
def test_exactly_once_every_line_is_there_once_and_in_order_per_key(
    topics: Topics, tmp_path: Path, seed: int, file: str, most: int, lines: int
) -> None:
    topic, source = topics.make(partitions=3), lines_file(tmp_path / file, lines)
    kills, journal = killed_again_and_again(topics, topic, "exactly-once", source, seed, most)
    assert kills == most, "it was through before"
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for message in topics.read(topic):
        by_key[message.key()].append(json.loads(message.value() or b"")["id"])
    assert Counter(n for numbers in by_key.values() for n in numbers) == Counter(range(1, lines + 1))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert_journal_is_true(journal, {header(message, EVENT_ID) for message in topics.read(topic)})


@pytest.mark.proof
def test_at_least_once_a_kill_loses_nothing_and_repeats_one_batch_at_most(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(partitions=3)
    kills, journal = killed_again_and_again(topics, topic, "at-least-once", lines_file(tmp_path / "big.jsonl"), seed=8)
    assert kills == KILLS, "it was through before"
    found = Counter(json.loads(value)["id"] for value in topics.values(topic).elements())
    assert found.keys() == set(range(1, LINES + 1))
    assert found.total() - LINES <= kills * BATCH
    assert_journal_is_true(journal, {header(message, EVENT_ID) for message in topics.read(topic)})


@pytest.mark.proof
def test_at_most_once_a_kill_doubles_nothing(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(partitions=3)
    kills, _journal = killed_again_and_again(topics, topic, "at-most-once", lines_file(tmp_path / "big.jsonl"), seed=9)
    assert kills == KILLS, "it was through before"
    found = Counter(json.loads(value)["id"] for value in topics.values(topic).elements())
    assert found
    assert set(found.values()) == {1}


@pytest.mark.proof
def test_idempotence_alone_doubles_when_the_producer_is_restarted(topics: Topics, tmp_path: Path) -> None:
    """The control: nothing is remembered, so the next run begins anew."""
    topic, source, journal = topics.make(), lines_file(tmp_path / "big.jsonl"), tmp_path / "journal"
    command = ("--topic", topic, "--file", source, "--journal", journal)
    assert produce_until(lambda: size(journal) > 300, topics.servers, *command)
    assert produce(topics.servers, *command).code == 0
    found = Counter(json.loads(value)["id"] for value in topics.values(topic).elements())
    assert found.total() > LINES
    assert found.keys() == set(range(1, LINES + 1))


def assert_journal_is_true(journal: Path, log: set[str]) -> None:
    """What it calls acked or committed is in the log, and what is in the log it meant to send."""
    sent: set[str] = set()
    acked: set[str] = set()
    for producer, lines in sessions(journal):
        opened: set[str] = set()
        for line in lines:
            if "begin" in line:
                opened = set()
            if "commit" in line:
                acked |= opened
            for word, known in (("sent", sent), ("sent", opened), ("acked", acked)):
                if word in line:
                    known.update(f"{producer}:{n}" for n in range(line[word][0], line[word][1] + 1))
    assert acked <= log <= sent


def sessions(journal: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    producer = ""
    lines: list[dict[str, Any]] = []
    for text in journal.read_text().splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue  # torn by a kill
        if "journal" in line:
            if producer:
                yield producer, lines
            producer, lines = line["producer"], []
        else:
            lines.append(line)
    yield producer, lines
