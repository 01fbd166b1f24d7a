"""What confluent-kafka's errors mean, by their code."""

from __future__ import annotations

from confluent_kafka import KafkaError

from fencepost.errors import Fenced, FencepostError, Refused, Unreachable, Usage


class Missing(Usage):
    """There is no such topic or group; whoever knows the others' names says which is the nearest."""


class Existing(Usage):
    """There is such a topic already."""


class Forbidden(Usage):
    """This user may not do or see that."""


class NotLetIn(Unreachable):
    """The server is there, and one side does not trust the other: a person must see to that."""


NO_ANSWER = {
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
_FENCED = {
    KafkaError._FENCED,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
}
_MISSING = {
    KafkaError._UNKNOWN_GROUP,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.RESOURCE_NOT_FOUND,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
_ABOUT_DATA = {  # the same records again would be refused again; every other code is no word on them
    KafkaError._BAD_COMPRESSION,
    KafkaError._BAD_MSG,
    KafkaError._INVALID_DIFFERENT_RECORD,
    KafkaError._KEY_DESERIALIZATION,
    KafkaError._KEY_SERIALIZATION,
    KafkaError._VALUE_DESERIALIZATION,
    KafkaError._VALUE_SERIALIZATION,
    KafkaError.INVALID_COMMIT_OFFSET_SIZE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}
_NEWER = "it needs brokers, or a client, of a newer version"
_NO_ENTRY = "get a new token, or another way in"
_BAD_INPUT = {
    KafkaError._INVALID_ARG: "correct the setting",
    KafkaError._NOT_CONFIGURED: "correct the setting",
    KafkaError._NOT_IMPLEMENTED: _NEWER,
    KafkaError._UNKNOWN_PROTOCOL: "correct the setting",
    KafkaError._UNSUPPORTED_FEATURE: _NEWER,
    KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED: _NO_ENTRY,
    KafkaError.DELEGATION_TOKEN_AUTH_DISABLED: _NO_ENTRY,
    KafkaError.DELEGATION_TOKEN_EXPIRED: _NO_ENTRY,
    KafkaError.DELEGATION_TOKEN_NOT_FOUND: _NO_ENTRY,
    KafkaError.DELEGATION_TOKEN_OWNER_MISMATCH: _NO_ENTRY,
    KafkaError.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: _NO_ENTRY,
    KafkaError.GROUP_MAX_SIZE_REACHED: "the brokers' group.max.size is the most members",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "give every member the same group.protocol and assignment strategy",
    KafkaError.INVALID_CONFIG: "correct the --config of that name",
    KafkaError.INVALID_GROUP_ID: "a group's name is not empty",
    KafkaError.INVALID_PARTITIONS: "give at least one partition",
    KafkaError.INVALID_REGULAR_EXPRESSION: "correct the expression",
    KafkaError.INVALID_REPLICA_ASSIGNMENT: "give each partition as many brokers as it has replicas",
    KafkaError.INVALID_REPLICATION_FACTOR: "give at most as many replicas as there are brokers",
    KafkaError.INVALID_SESSION_TIMEOUT: "session.timeout.ms is 6 s to 30 min, unless the brokers' own settings differ",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "the brokers' transaction.max.timeout.ms is the most",
    KafkaError.POLICY_VIOLATION: "ask whoever runs the cluster for its rules",
    KafkaError.TOPIC_EXCEPTION: "take another name: up to 249 letters, digits, '.', '_' and '-'",
    KafkaError.TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
    KafkaError.UNSUPPORTED_ASSIGNOR: "correct group.remote.assignor",
    KafkaError.UNSUPPORTED_VERSION: _NEWER,
}


def is_missing(error: KafkaError) -> bool:
    return error.code() in _MISSING


def failure(error: KafkaError, subject: str, servers: str, complaint: KafkaError | None = None) -> FencepostError:
    """Our error for theirs, about `subject`; `complaint` is what the connections last ran into.

    What is neither about the data nor for a person to correct is the brokers' own trouble, and passes: Unreachable.
    """
    code = error.code()
    if code in NO_ANSWER | _NOT_LET_IN:
        return _disconnected(error, complaint, servers)
    if code in _MISSING:
        return Missing(f"{subject} does not exist")
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return Existing(f"{subject} exists already", "take another name, or give --if-not-exists")
    if code in _NOT_ALLOWED:
        return Forbidden(f"{subject}: not allowed to this user ({error.name()})", "ask for an ACL that allows it")
    if code in _BAD_INPUT:
        return Usage(f"{subject}: {error.str()}", _BAD_INPUT[code])
    return _unsettled(code, f"{subject}: {error.str()} ({error.name()})")


def _unsettled(code: int, said: str) -> FencepostError:
    if code in _FENCED:
        return Fenced(said, "see which other process has the same name")
    if code in _ABOUT_DATA:
        return Refused(said, "the brokers' logs say more")
    return Unreachable(said, "try again: the brokers have not settled; if it stays, their logs say more")


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
