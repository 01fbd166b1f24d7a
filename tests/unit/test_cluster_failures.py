"""The driver's errors, by code: which of ours each becomes, and what it tells a person."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from fencepost.cluster.failures import Existing, Forbidden, Missing, NotLetIn, failure
from fencepost.errors import FencepostError, Refused, Unreachable, Usage

REFUSED = KafkaError(KafkaError._TRANSPORT, "h:1/bootstrap: Connect failed: Connection refused (after 0ms in state X)")
WRONG_PASSWORD = KafkaError(KafkaError._AUTHENTICATION, "h:1/bootstrap: SASL authentication error (after 3ms in Y)")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, Unreachable),
        (KafkaError._TIMED_OUT, Unreachable),
        (KafkaError.REQUEST_TIMED_OUT, Unreachable),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, Unreachable),
        (KafkaError._AUTHENTICATION, NotLetIn),
        (KafkaError._SSL, NotLetIn),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Forbidden),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Forbidden),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Missing),
        (KafkaError.GROUP_ID_NOT_FOUND, Missing),
        (KafkaError.TOPIC_ALREADY_EXISTS, Existing),
        (KafkaError.TOPIC_EXCEPTION, Usage),
        (KafkaError.INVALID_CONFIG, Usage),
        (KafkaError.KAFKA_STORAGE_ERROR, Refused),
    ],
)
def test_each_code_has_its_error(code: int, kind: type[FencepostError]) -> None:
    assert type(failure(KafkaError(code), "topic orders", "h:1")) is kind


def test_silence_is_told_with_the_server_and_what_the_connection_ran_into() -> None:
    error = failure(KafkaError(KafkaError._TIMED_OUT), "topic orders", "h:1", REFUSED)
    assert error.message == "Kafka does not answer at h:1 (h:1/bootstrap: Connect failed: Connection refused)"
    assert "brokers are up" in error.remedy


def test_silence_after_wrong_credentials_is_about_the_credentials() -> None:
    error = failure(KafkaError(KafkaError._TIMED_OUT), "topic orders", "h:1", WRONG_PASSWORD)
    assert type(error) is NotLetIn
    assert "does not let us in" in error.message
    assert "sasl" in error.remedy


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.INVALID_PARTITIONS])
def test_an_error_names_its_subject_and_a_remedy(code: int) -> None:
    error = failure(KafkaError(code), "topic orders", "h:1")
    assert error.message.startswith("topic orders: ")
    assert error.remedy
