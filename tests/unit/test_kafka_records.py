"""What a Kafka sink makes of times, dead letters and its brokers' limits, and what it shows of its settings."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.engines.spark.secrets import for_tasks
from fencepost.errors import Usage
from fencepost.kafka.limits import Limits
from fencepost.rows.dead_letters import RECORD_SCHEMA
from fencepost.sinks.kafka import KafkaSettings, from_arrow
from fencepost.sinks.kafka.kind import KafkaTarget
from fencepost.sinks.kafka.letters import LONGEST_REASON, REASON, apart, letter_records
from fencepost.sinks.kafka.outputs import ORIGIN, require_types
from fencepost.sinks.kafka.settings import LINGER_MS, MANY, RECONNECT_MS, TRANSACTION_TIMEOUT_MS
from fencepost.spec import PipelineSpec, spec_of

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}
TIME = pa.timestamp("us", tz="UTC")


def settings(**more: str) -> KafkaSettings:
    return KafkaSettings(KAFKA | {name.replace("_", "."): value for name, value in more.items()}, "p", ("out",))


@pytest.mark.parametrize(
    ("kind", "micros", "millis"),
    [
        (TIME, 1_700_000_000_123_456, 1_700_000_000_123),
        (pa.timestamp("us", tz="Europe/Berlin"), 1_700_000_000_123_456, 1_700_000_000_123),
        (TIME, None, None),
        (TIME, -1_000, None),  # Kafka's word for none
        (TIME, 0, 1),  # to the driver 0 means now
    ],
)
def test_a_time_is_kept_in_milliseconds(kind: pa.DataType, micros: int | None, millis: int | None) -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array(["v"]), "timestamp": pa.array([micros], kind)})
    assert [one.timestamp for one in from_arrow(iter([rows]))] == [millis]


@pytest.mark.parametrize(
    ("name", "kind", "fits"),
    [
        ("value", pa.large_binary(), True),
        ("value", pa.null(), True),
        ("value", pa.struct([("a", pa.int64())]), False),
        ("key", pa.int32(), False),
        ("topic", pa.binary(), False),
        ("partition", pa.int64(), True),
        ("partition", pa.float64(), False),
        ("timestamp", TIME, True),
        ("timestamp", pa.timestamp("ms"), False),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])), True),
        ("headers", pa.list_(pa.struct([("key", pa.string())])), False),
        ("headers", pa.map_(pa.string(), pa.string()), False),
    ],
)
def test_columns_are_refused_by_their_type_before_there_is_a_record(name: str, kind: pa.DataType, fits: bool) -> None:
    fields = {"value": pa.string(), name: kind}
    if fits:
        require_types(pa.schema(fields))
    else:
        with pytest.raises(Usage, match=f"column '{name}' is of type"):
            require_types(pa.schema(fields))


def letter(**parts: Any) -> pa.RecordBatch:
    whole = {
        "topic": "orders",
        "partition": 3,
        "offset": 12,
        "key": b"k",
        "value": b"\xff",
        "headers": [{"key": ORIGIN, "value": b"older/0/1/0"}, {"key": "h", "value": None}],
        "timestamp": datetime(2026, 1, 31, tzinfo=UTC),
        "_dead": "not JSON",
        **parts,
    }
    return pa.RecordBatch.from_pylist([whole], schema=RECORD_SCHEMA)


def test_a_letter_is_the_record_as_it_was_behind_two_headers_of_ours() -> None:
    (letters,) = letter_records(letter(), "dead")
    ((value, key, topic, headers, partition, time),) = zip(*letters, strict=True)
    assert (value, key, topic, partition, time) == (b"\xff", b"k", "dead", None, 1_769_817_600_000)
    assert headers == [(REASON, b"not JSON"), (ORIGIN, b"orders/3/12/0"), (ORIGIN, b"older/0/1/0"), ("h", None)]


def test_a_letter_of_nothing_with_a_long_story() -> None:
    nothing = letter(key=None, value=None, headers=None, timestamp=None, _dead="é" * 5_000)
    (letters,) = letter_records(nothing, "dead")
    ((value, key, _, headers, _, time),) = zip(*letters, strict=True)
    assert (value, key, time) == (None, None, 0)
    assert headers == [(REASON, ("é" * LONGEST_REASON).encode()), (ORIGIN, b"orders/3/12/0")]


def test_letters_come_first_and_are_told_from_rows() -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["v"]})
    for parts, dead in (([letter(), rows], 1), ([rows, rows], 0), ([], 0)):
        found, rest = apart(iter(parts))
        assert (found is not None, len(list(rest))) == (bool(dead), len(parts) - dead)
    messages = [object(), object()]
    assert apart(messages) == (None, messages)


def test_a_transaction_takes_no_longer_than_the_brokers_allow() -> None:
    assert settings().within(Limits(60_000, 1)).transaction_ms == 60_000
    assert settings().within(Limits(10**9, 1)).transaction_ms == TRANSACTION_TIMEOUT_MS
    assert settings().within(None).transaction_ms == TRANSACTION_TIMEOUT_MS
    short = settings(transaction_timeout_ms="5000").within(Limits(60_000, 1))
    assert short.producer("id")["transaction.timeout.ms"] == "5000"
    with pytest.raises(Usage, match="61000, but the brokers allow 60000"):
        settings(transaction_timeout_ms="61000").within(Limits(60_000, 1))


def test_what_tasks_get_holds_no_setting_of_the_cluster() -> None:
    secret = "hunter2"  # noqa: S105
    target = KafkaTarget(settings(sasl_username="me", sasl_password=secret))
    with for_tasks(target, here=True) as sent:
        assert secret.encode() not in pickle.dumps(sent)
        assert sent.file is not None
        assert sent.file.stat().st_mode & 0o777 == 0o600
        assert pickle.loads(pickle.dumps(sent)).whole() == target  # noqa: S301 (our own bytes)
    assert not sent.file.exists()
    with for_tasks(KafkaTarget(settings()), here=True) as sent:
        assert sent.file is None
    assert secret not in repr(target)


def pipeline(**parts: Any) -> PipelineSpec:
    declared = {
        "name": "p",
        "guarantee": "exactly-once",
        "kafka": KAFKA,
        "source": {"topic": "orders"},
        "sink": {"format": "kafka", "options": {"topic": "out", "topics": ["more"]}},
        "folder": str(Path.cwd()),
    }
    return spec_of({**declared, **parts})


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"dead_letters": {"topic": "dead"}}, "goes with on_error: dead_letter"),
        ({"on_error": "dead_letter", "dead_letters": {"topic": "orders"}}, "orders is read or written"),
        ({"on_error": "dead_letter", "dead_letters": {"topic": "more"}}, "more is read or written"),
        ({"on_error": "dead_letter", "dead_letters": {"topic": "a b"}}, "dead_letters.topic"),
        (
            {
                "on_error": "dead_letter",
                "dead_letters": {"topic": "dead"},
                "sink": {"format": "postgres", "options": {"table": "t"}},
            },
            "postgres keeps them beside its target",
        ),
    ],
)
def test_a_topic_for_dead_letters_is_of_its_own_and_a_kafka_sinks(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(Usage, match=said):
        pipeline(**parts)


def test_a_pipeline_names_the_topic_for_its_dead_letters() -> None:
    job = pipeline(on_error="dead_letter", dead_letters={"topic": "dead", "max_share": 1}).job
    assert (job.dead_letters, job.letter_topic) == (True, "dead")


def test_many_records_wait_for_each_other_unless_the_user_says_how_long() -> None:
    assert settings().batching(MANY) == {"linger.ms": LINGER_MS}
    assert settings().batching(MANY - 1) == {}
    assert settings(linger_ms="0").batching(MANY) == {}
    assert settings(queue_buffering_max_ms="0").batching(MANY) == {}


def test_how_soon_brokers_are_connected_is_up_to_the_user_too() -> None:
    assert settings().producer("id")["reconnect.backoff.ms"] == RECONNECT_MS
    assert "reconnect.backoff.ms" not in settings(reconnect_backoff_max_ms="10").producer("id")
