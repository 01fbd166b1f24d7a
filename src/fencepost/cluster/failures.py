"""What confluent-kafka's errors mean, by their code."""

from __future__ import annotations

from confluent_kafka import KafkaError

from fencepost.errors import FencepostError, Refused, Unreachable, Usage


class Missing(Usage):
    """There is no such topic or group; whoever knows the others' names says which is the nearest."""


class Existing(Usage):
    """There is such a topic already."""


class Forbidden(Usage):
    """This user may not do or see that."""


class NotLetIn(Unreachable):
    """The server is there, and one side does not trust the other: a person must see to that."""


_NO_ANSWER = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
}
_NOT_LET_IN = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
}
_NOT_ALLOWED = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_MISSING = {
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
_BAD_INPUT = {
    KafkaError._INVALID_ARG: "correct the setting",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "give every member the same group.protocol and assignment strategy",
    KafkaError.INVALID_CONFIG: "correct the --config of that name",
    KafkaError.INVALID_GROUP_ID: "a group's name is not empty",
    KafkaError.INVALID_PARTITIONS: "give at least one partition",
    KafkaError.INVALID_REPLICATION_FACTOR: "give at most as many replicas as there are brokers",
    KafkaError.INVALID_SESSION_TIMEOUT: "session.timeout.ms is 6 s to 30 min, unless the brokers' own settings differ",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "the brokers' transaction.max.timeout.ms is the most",
    KafkaError.POLICY_VIOLATION: "ask whoever runs the cluster for its rules",
    KafkaError.TOPIC_EXCEPTION: "take another name: up to 249 letters, digits, '.', '_' and '-'",
    KafkaError.TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
}


def is_missing(error: KafkaError) -> bool:
    return error.code() in _MISSING


def failure(error: KafkaError, subject: str, servers: str, complaint: KafkaError | None = None) -> FencepostError:
    """Our error for theirs, about `subject`; `complaint` is what the connections last ran into."""
    code = error.code()
    if code in _NO_ANSWER | _NOT_LET_IN:
        return _disconnected(error, complaint, servers)
    if code in _NOT_ALLOWED:
        return Forbidden(f"{subject}: not allowed to this user ({error.name()})", "ask for an ACL that allows it")
    if code in _MISSING:
        return Missing(f"{subject} does not exist")
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return Existing(f"{subject} exists already", "take another name, or give --if-not-exists")
    if code in _BAD_INPUT:
        return Usage(f"{subject}: {error.str()}", _BAD_INPUT[code])
    return Refused(f"{subject}: {error.str()} ({error.name()})", "the brokers' logs say more")


def _disconnected(error: KafkaError, complaint: KafkaError | None, servers: str) -> FencepostError:
    cause = complaint or error
    if cause.code() in _NOT_LET_IN:
        checked = "ssl.*" if cause.code() == KafkaError._SSL else "sasl.mechanism, the user and the password"
        return NotLetIn(
            f"Kafka at {servers} does not let us in ({_readable(cause)})", f"check security.protocol, {checked}"
        )
    return Unreachable(
        f"Kafka does not answer at {servers} ({_readable(cause)})",
        "check that the brokers are up, the address, and security.protocol",
    )


def _readable(cause: KafkaError) -> str:
    """Without how long the connection was in which state, which librdkafka appends: of no use to a person."""
    return cause.str().partition(" (after ")[0]
