"""The driver's errors, by code: which of ours each becomes, and what it tells a person."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from fencepost.errors import FencepostError, Refused, Unreachable, Usage
from fencepost.kafka.errors import AuthenticationFailed, Existing, Forbidden, Missing, failure

EVERY_CODE = {
    name: code for name in dir(KafkaError) if name.isupper() and isinstance(code := getattr(KafkaError, name), int)
}
ABOUT_DATA = {
    "INVALID_COMMIT_OFFSET_SIZE",
    "INVALID_MSG",
    "INVALID_MSG_SIZE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
    "MSG_SIZE_TOO_LARGE",
    "OFFSET_METADATA_TOO_LARGE",
    "OFFSET_OUT_OF_RANGE",
    "RECORD_LIST_TOO_LARGE",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "_BAD_COMPRESSION",
    "_BAD_MSG",
    "_INVALID_DIFFERENT_RECORD",
    "_KEY_DESERIALIZATION",
    "_KEY_SERIALIZATION",
    "_VALUE_DESERIALIZATION",
    "_VALUE_SERIALIZATION",
}
PASSES = [  # Kafka's own list of what a client may simply ask again
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INCONSISTENT_TOPIC_ID",
    "INVALID_FETCH_SESSION_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "LISTENER_NOT_FOUND",
    "NETWORK_EXCEPTION",
    "NOT_CONTROLLER",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "REASSIGNMENT_IN_PROGRESS",
    "REBALANCE_IN_PROGRESS",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "STALE_BROKER_EPOCH",
    "THROTTLING_QUOTA_EXCEEDED",
    "UNKNOWN_LEADER_EPOCH",
    "UNSTABLE_OFFSET_COMMIT",
    "_RETRY",
    "_TIMED_OUT",
    "_WAIT_CACHE",
    "_WAIT_COORD",
]
REFUSED = KafkaError(KafkaError._TRANSPORT, "h:1/bootstrap: Connect failed: Connection refused (after 0ms in state X)")
WRONG_PASSWORD = KafkaError(KafkaError._AUTHENTICATION, "h:1/bootstrap: SASL authentication error (after 3ms in Y)")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, Unreachable),
        (KafkaError._TIMED_OUT, Unreachable),
        (KafkaError.REQUEST_TIMED_OUT, Unreachable),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, Unreachable),
        (KafkaError._AUTHENTICATION, AuthenticationFailed),
        (KafkaError._SSL, AuthenticationFailed),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Forbidden),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Forbidden),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Missing),
        (KafkaError.GROUP_ID_NOT_FOUND, Missing),
        (KafkaError.TOPIC_ALREADY_EXISTS, Existing),
        (KafkaError.TOPIC_EXCEPTION, Usage),
        (KafkaError.INVALID_CONFIG, Usage),
        (KafkaError.KAFKA_STORAGE_ERROR, Unreachable),
        (KafkaError.MSG_SIZE_TOO_LARGE, Refused),
    ],
)
def test_each_code_has_its_error(code: int, kind: type[FencepostError]) -> None:
    assert type(failure(KafkaError(code), "topic orders", "h:1")) is kind


def test_only_codes_about_the_data_are_refusals() -> None:
    refused = {
        name for name, code in EVERY_CODE.items() if type(failure(KafkaError(code), "topic orders", "h:1")) is Refused
    }
    assert refused == ABOUT_DATA


@pytest.mark.parametrize("name", PASSES)
def test_what_passes_is_asked_again(name: str) -> None:
    assert type(failure(KafkaError(EVERY_CODE[name]), "topic orders", "h:1")) is Unreachable


def test_a_code_that_nobody_knows_yet_is_no_word_on_the_data() -> None:
    assert type(failure(KafkaError(9999), "topic orders", "h:1")) is Unreachable


def test_silence_is_told_with_the_server_and_what_the_connection_ran_into() -> None:
    error = failure(KafkaError(KafkaError._TIMED_OUT), "topic orders", "h:1", REFUSED)
    assert error.message == "Kafka does not answer at h:1 (h:1/bootstrap: Connect failed: Connection refused)"
    assert "brokers are up" in error.remedy


def test_silence_after_wrong_credentials_is_about_the_credentials() -> None:
    error = failure(KafkaError(KafkaError._TIMED_OUT), "topic orders", "h:1", WRONG_PASSWORD)
    assert type(error) is AuthenticationFailed
    assert "refused authentication" in error.message
    assert "sasl" in error.remedy


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.INVALID_PARTITIONS])
def test_an_error_names_its_subject_and_a_remedy(code: int) -> None:
    error = failure(KafkaError(code), "topic orders", "h:1")
    assert error.message.startswith("topic orders: ")
    assert error.remedy
