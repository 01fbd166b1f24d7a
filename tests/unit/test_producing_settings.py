"""A producer's settings follow from its word, and one that would break it is refused."""

from __future__ import annotations

import pytest

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.config.producer import Declaration
from fencepost.rules.producer import Acks

KAFKA = {"bootstrap.servers": "broker:9092"}


def declared(guarantee: str | None, acks: str | None = None, transactional_id: str | None = None) -> Declaration:
    return Declaration.of(guarantee, acks, transactional_id, delivery_reports=True)


@pytest.mark.parametrize(
    ("guarantee", "acks", "expected"),
    [
        ("at-most-once", None, {"acks": "0", "retries": "0", "enable.idempotence": "false"}),
        ("at-least-once", None, {"acks": "all"}),
        ("at-least-once", "quorum", {"acks": "all"}),
        ("at-least-once", "leader", {"acks": "1", "enable.idempotence": "false"}),
        ("exactly-once", None, {"acks": "all", "enable.idempotence": "true"}),
        (None, None, {"acks": "all", "enable.idempotence": "true"}),
    ],
)
def test_the_word_decides(guarantee: str | None, acks: str | None, expected: dict[str, str]) -> None:
    settings = declared(guarantee, acks).settings(KAFKA)
    assert {name: settings.get(name) for name in expected} == expected
    assert settings["partitioner"] == "murmur2_random"


def test_settings_of_kafka_pass_through_under_their_own_names() -> None:
    settings = declared("exactly-once").settings(KAFKA | {"linger.ms": "50", "compression.type": "lz4"})
    assert settings["linger.ms"] == "50"
    assert settings["compression.type"] == "lz4"


@pytest.mark.parametrize(
    ("guarantee", "acks", "setting", "value"),
    [
        ("at-most-once", None, "retries", "3"),
        ("at-most-once", None, "message.send.max.retries", "3"),
        ("at-most-once", None, "acks", "all"),
        ("at-most-once", None, "enable.idempotence", "true"),
        ("at-least-once", None, "acks", "1"),
        ("at-least-once", None, "request.required.acks", "0"),
        ("at-least-once", "leader", "enable.idempotence", "True"),
        ("exactly-once", None, "enable.idempotence", "false"),
        ("exactly-once", None, "acks", "1"),
        ("exactly-once", None, "max.in.flight", "6"),
        ("exactly-once", None, "max.in.flight.requests.per.connection", "10"),
        ("exactly-once", None, "partitioner", "random"),
        ("exactly-once", None, "queuing.strategy", "lifo"),
        ("exactly-once", None, "statistics.interval.ms", "1000"),
        ("exactly-once", None, "transactional.id", "mine"),
        ("at-least-once", None, "delivery.report.only.error", "true"),
    ],
)
def test_a_setting_that_would_break_the_word_is_refused_with_the_reason(
    guarantee: str, acks: str | None, setting: str, value: str
) -> None:
    with pytest.raises(Usage, match=f"{setting}={value} would break the guarantee") as refused:
        declared(guarantee, acks).settings(KAFKA | {setting: value})
    assert refused.value.remedy.startswith("remove it")


@pytest.mark.parametrize(
    ("guarantee", "setting", "value"),
    [
        ("at-least-once", "acks", "-1"),
        ("exactly-once", "acks", "ALL"),
        ("exactly-once", "enable.idempotence", "True"),
        ("exactly-once", "max.in.flight", "1"),
        ("exactly-once", "partitioner", "murmur2"),
        ("at-least-once", "retries", "0"),
        ("at-least-once", "partitioner", "random"),
    ],
)
def test_a_setting_that_keeps_the_word_is_taken(guarantee: str, setting: str, value: str) -> None:
    assert declared(guarantee).settings(KAFKA | {setting: value})[setting] == value


@pytest.mark.parametrize(
    ("guarantee", "acks", "transactional_id"),
    [
        ("at-most-once", "quorum", None),
        ("exactly-once", "leader", None),
        ("at-least-once", "nobody", None),
        ("at-least-once", None, "id"),
        ("twice", None, None),
        ("at-least-once", "two", None),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    guarantee: str, acks: str | None, transactional_id: str | None
) -> None:
    with pytest.raises(Usage):
        declared(guarantee, acks, transactional_id)


def test_a_transactional_producer_counts_its_requests() -> None:
    settings = declared("exactly-once", transactional_id="shop").settings(KAFKA)
    assert settings["transactional.id"] == "shop"
    assert settings["statistics.interval.ms"] > 0


@pytest.mark.parametrize(
    ("declaration", "kafka", "repeats"),
    [
        (Declaration(Guarantee.AT_LEAST_ONCE, Acks.QUORUM), {}, True),
        (Declaration(Guarantee.AT_LEAST_ONCE, Acks.QUORUM), {"retries": "0"}, False),
        (Declaration(Guarantee.AT_LEAST_ONCE, Acks.QUORUM), {"message.send.max.retries": "0"}, False),
        (Declaration(Guarantee.AT_MOST_ONCE, Acks.NOBODY), {}, False),
    ],
)
def test_only_without_retries_the_last_answer_tells_all(
    declaration: Declaration, kafka: dict[str, str], repeats: bool
) -> None:
    assert declaration.retries(kafka) is repeats
