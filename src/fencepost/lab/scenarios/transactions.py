"""Stories of restarts and transactions: what idempotence alone does not give, and what a reused producer risks."""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka import Producer as Driver

from fencepost.errors import Fenced, Unreachable
from fencepost.lab.proxy import Action, Api, Rule, RuleId
from fencepost.lab.scenarios.field import PATIENCE, Field
from fencepost.lab.scenarios.shown import Shown, shown
from fencepost.machine import process
from fencepost.model import Outcome
from fencepost.producing.producer import Producer
from fencepost.producing.sender import Handle

EVENTS = 100
LINES = 20_000


def values(first: int, count: int = EVENTS) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


def _outcomes(handles: dict[bytes, Handle]) -> dict[bytes, Outcome]:
    return {value: handle.outcome for value, handle in handles.items()}


def restarted_producer(field: Field) -> tuple[Shown, Shown]:
    def tell(setting: str, *arguments: str) -> Shown:
        topic = field.topic()
        with tempfile.TemporaryDirectory() as folder:
            source, journal = Path(folder) / "lines.txt", Path(folder) / "journal"
            source.write_bytes(b"\n".join(values(0, LINES)))
            command = ["--topic", topic, "--file", str(source), "--journal", str(journal), "--batch", "1000"]
            _kill_when(lambda: journal.exists() and journal.stat().st_size > 300, field, folder, command, *arguments)
            unsent = LINES - len(set(field.read(topic)))
            _run(field, folder, command, *arguments)
        return shown(setting, dict.fromkeys(values(0, LINES), Outcome.ACKED), field.read(topic)).hit(1, unsent)

    return (
        tell("idempotent, nothing remembered", "--rate", "10000"),
        tell("exactly-once, position in the transaction", "--guarantee", "exactly-once", "--rate", "10000"),
    )


def _spawn(field: Field, folder: str, arguments: list[str]) -> process.Identity:
    servers = ["--bootstrap-server", field.stack.direct_servers]
    argv = [sys.executable, "-m", "fencepost", "produce", *servers, *arguments]
    return process.spawn(process.Program(argv, folder=Path(folder), log=Path(folder) / "log", inherits=True))


def _kill_when(condition: object, field: Field, folder: str, command: list[str], *more: str) -> None:
    running = _spawn(field, folder, [*command, *more])
    field.await_true(condition, "the producer wrote no journal")  # type: ignore[arg-type]
    process.send(running, signal.SIGKILL)
    process.until(lambda: not process.alive(running), PATIENCE)


def _run(field: Field, folder: str, command: list[str], *more: str) -> None:
    running = _spawn(field, folder, [*command, *more])
    if not process.until(lambda: not process.alive(running), PATIENCE):
        process.send(running, signal.SIGKILL)
        raise Unreachable("the producer did not end", (Path(folder) / "log").read_text())


def aborted_transaction(field: Field) -> tuple[Shown, Shown]:
    topic = field.topic()
    handles: dict[bytes, Handle] = {}
    with Producer(topic, "exactly-once", field.kafka, transactional_id=topic) as producer:
        with suppress(_Change), producer.transaction():
            handles |= {value: producer.send(value) for value in values(0)}
            producer._ready().drain()
            raise _Change
        with producer.transaction():
            handles |= {value: producer.send(value) for value in values(EVENTS)}
    aborted = set(values(0))
    found = []
    for isolation in ("read_uncommitted", "read_committed"):
        log = field.read(topic, isolation)
        found.append(shown(isolation, _outcomes(handles), log, f"aborted and read {sum(v in aborted for v in log)}"))
    return found[0], found[1]


class _Change(Exception):
    """Somebody changed their mind in the middle of a transaction."""


def zombie(field: Field) -> tuple[Shown, Shown]:
    """A producer stalls with half of its work done; another takes the whole work over; the first wakes up."""

    def tell(setting: str, transactional: bool) -> Shown:
        topic = field.topic()
        id_ = topic if transactional else None
        notes = []
        with (
            Producer(topic, "exactly-once", field.kafka, transactional_id=id_) as old,
            Producer(topic, "exactly-once", field.kafka, transactional_id=id_) as new,
        ):
            try:
                _halves(old, transactional, lambda: _halves(new, transactional, lambda: None))
            except Fenced:
                notes.append("the zombie was fenced")
        outcomes = dict.fromkeys(values(0), Outcome.ACKED)
        fired = len(notes) if transactional else 1  # what it was told; nobody tells an idempotent one anything
        return shown(setting, outcomes, field.read(topic), *notes).hit(fired, EVENTS // 2)

    return tell("two idempotent producers", transactional=False), tell("one transactional.id", transactional=True)


def _halves(producer: Producer, transactional: bool, between: object) -> None:
    half = EVENTS // 2

    def work() -> None:
        for value in values(0, half):
            producer.send(value)
        between()  # type: ignore[operator]
        for value in values(half, half):
            producer.send(value)

    if transactional:
        with producer.transaction():
            work()
    else:
        work()
        producer.flush()


def late_end_of_transaction(field: Field) -> tuple[Shown, Shown]:
    """EndTxn of the first transaction is held and repeated by the client; it arrives while the second is open."""
    return _late_with_a_bare_driver(field), _late_with_ours(field)


def _hold_end(field: Field, client: str) -> RuleId:
    return field.proxy.add(Rule(action=Action.HOLD_DETACH, request=Api.END_TXN, client=client, count=1))


def _late_with_a_bare_driver(field: Field) -> Shown:
    topic, kafka = field.topic([1, 2, 3], [1, 2, 3]), field.kafka
    driver = Driver({**kafka, "transactional.id": topic, "log_level": 0})
    driver.init_transactions(PATIENCE)
    driver.begin_transaction()
    _produce(driver, topic, values(0))
    rule = _hold_end(field, kafka["client.id"])
    driver.commit_transaction(PATIENCE)
    field.await_read(topic, dict.fromkeys(values(0), 1))
    driver.begin_transaction()
    _produce(driver, topic, values(EVENTS))
    field.proxy.release(rule)
    done = field.proxy.wait_done(rule).done
    field.await_true(lambda: len(field.read(topic)) > EVENTS, "the late request did nothing")
    seen = len(field.read(topic)) - EVENTS
    with suppress(KafkaException):  # the broker may say that there is nothing to abort: it is too late
        driver.abort_transaction(PATIENCE)
    outcomes = dict.fromkeys(values(0), Outcome.ACKED) | dict.fromkeys(values(EVENTS), Outcome.ABORTED)
    log = field.read(topic)
    told = shown("a reused librdkafka producer", outcomes, log, f"read of the open transaction {seen}")
    return told.hit(done, EVENTS)


def _produce(driver: Driver, topic: str, values: list[bytes]) -> None:
    for value in values:
        driver.produce(topic, value, partition=int(value) % 2)
    driver.flush(PATIENCE)


def _late_with_ours(field: Field) -> Shown:
    topic, kafka = field.topic([1, 2, 3], [1, 2, 3]), field.kafka
    handles: dict[bytes, Handle] = {}
    with Producer(topic, "exactly-once", kafka, transactional_id=topic) as producer:
        with producer.transaction():
            handles |= {value: producer.send(value) for value in values(0)}
            rule = _hold_end(field, kafka["client.id"])
        field.await_read(topic, dict.fromkeys(values(0), 1))
        with suppress(_Change), producer.transaction():
            handles |= {value: producer.send(value) for value in values(EVENTS)}
            producer._ready().drain()
            field.proxy.release(rule)
            done = field.proxy.wait_done(rule).done
            seen = len(field.read(topic)) - EVENTS
            raise _Change
    told = shown("our producer", _outcomes(handles), field.read(topic), f"read of the open transaction {seen}")
    return told.hit(done, EVENTS)
