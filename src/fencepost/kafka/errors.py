"""What confluent-kafka's errors mean, by their code. Every table of codes is here."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, TopicPartition

from fencepost.errors import Fenced, FencepostError, Refused, Unknown, Unreachable, Usage
from fencepost.model import Outcome


class Missing(Usage):
    """There is no such topic or group."""


class Existing(Usage):
    """There is such a topic already."""


class Forbidden(Usage):
    """This user may not do or see that."""


class AuthenticationFailed(Unreachable):
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
_FENCED_PRODUCER = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_FENCED = _FENCED_PRODUCER | {KafkaError.FENCED_INSTANCE_ID}
_NOT_A_MEMBER = {  # a commit is refused: the group has given the partitions to somebody else
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._STATE,
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
_NOT_IN_THE_LOG = {  # a record that gets one of these answers is certainly not there; any other leaves it unknown
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
}
_NOT_IN_THE_LOG_IF_FIRST = {KafkaError.NOT_ENOUGH_REPLICAS}  # unless an earlier request for the same record got through
_NEWER = "it needs brokers, or a client, of a newer version"
_NO_ENTRY = "get a new token, or use another SASL mechanism"
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
    KafkaError.INVALID_GROUP_ID: "give a non-empty group name",
    KafkaError.INVALID_PARTITIONS: "give at least one partition",
    KafkaError.INVALID_REGULAR_EXPRESSION: "correct the expression",
    KafkaError.INVALID_REPLICA_ASSIGNMENT: "give each partition as many brokers as it has replicas",
    KafkaError.INVALID_REPLICATION_FACTOR: "give at most as many replicas as there are brokers",
    KafkaError.INVALID_SESSION_TIMEOUT: "session.timeout.ms is 6 s to 30 min, unless the brokers' own settings differ",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "the brokers' transaction.max.timeout.ms is the most",
    KafkaError.POLICY_VIOLATION: "ask the cluster's administrator for its policy",
    KafkaError.TOPIC_EXCEPTION: "take another name: up to 249 letters, digits, '.', '_' and '-'",
    KafkaError.TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
    KafkaError.UNSUPPORTED_ASSIGNOR: "correct group.remote.assignor",
    KafkaError.UNSUPPORTED_VERSION: _NEWER,
}


def is_missing(error: KafkaError) -> bool:
    return error.code() in _MISSING


def is_fenced_producer(error: KafkaError) -> bool:
    """Another producer has the transactional.id, or the transaction took too long."""
    return error.code() in _FENCED_PRODUCER


def is_refused_at_once(error: KafkaError) -> bool:
    """The driver did not take the record: it is not even queued."""
    return error.code() in _NOT_IN_THE_LOG | {KafkaError._INVALID_ARG}


def is_bad_record(error: KafkaError) -> bool:
    """It is up to this record alone: it has more bytes than the client takes, or a partition that its topic lacks."""
    return error.code() == KafkaError.MSG_SIZE_TOO_LARGE or is_unknown_partition(error)


def is_unknown_partition(error: KafkaError) -> bool:
    """By what the client knows of the topic, which may be of some minutes ago."""
    return error.code() == KafkaError._UNKNOWN_PARTITION


def is_not_valid(error: KafkaError) -> bool:
    """The topic takes no such record: its time is too far from now, or it has no key where the topic is compacted."""
    return error.code() in (KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD)


def is_fatal(error: KafkaError) -> bool:
    """The client gives up for good."""
    return error.fatal() or error.code() == KafkaError._FATAL


def is_failed_transaction(error: KafkaError) -> bool:
    """A producer's call that does not fit: its transaction has failed already."""
    return error.code() == KafkaError._STATE


def is_out_of_range(error: KafkaError) -> bool:
    """The partition does not hold the offset that was to be read."""
    return error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


def is_end_of_partition(error: KafkaError) -> bool:
    """No error: a reader has come to the end."""
    return error.code() == KafkaError._PARTITION_EOF


def may_pass(failed: FencepostError) -> bool:
    """Is it worth asking again? Not where one side does not trust the other."""
    return isinstance(failed, Unreachable) and not isinstance(failed, AuthenticationFailed)


def outcome_of(error: KafkaError, retried: bool) -> Outcome:
    """What a failed delivery says about the record."""
    certain = _NOT_IN_THE_LOG if retried else _NOT_IN_THE_LOG | _NOT_IN_THE_LOG_IF_FIRST
    return Outcome.REFUSED if error.code() in certain else Outcome.UNKNOWN


def first_error(error: KafkaError | None, answers: Iterable[TopicPartition]) -> KafkaError | None:
    """Why a request failed, as a whole or for one of its partitions; None when it did not."""
    return error or next((answer.error for answer in answers if answer.error is not None), None)


def commit_failure(error: KafkaError, doing: str) -> FencepostError:
    """Our error for a commit of offsets: Fenced, Unknown where no answer came, else Unreachable."""
    if error.code() in _NOT_A_MEMBER:
        return Fenced(f"{doing}: the partitions were reassigned to another member ({error.name()})")
    if error.code() in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT):
        return Unknown(f"{doing}: no answer came ({error.name()})")
    return Unreachable(f"{doing}: {error.str()}", "check the brokers")


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
        return Forbidden(f"{subject}: not authorized ({error.name()})", "ask for an ACL that allows it")
    if code in _BAD_INPUT:
        return Usage(f"{subject}: {error.str()}", _BAD_INPUT[code])
    return _unsettled(code, f"{subject}: {error.str()} ({error.name()})")


def _unsettled(code: int, said: str) -> FencepostError:
    if code in _FENCED:
        return Fenced(said, "check which other process uses the same name")
    if code in _ABOUT_DATA:
        return Refused(said, "see the brokers' logs")
    return Unreachable(said, "try again: the brokers are still settling; if it persists, see their logs")


def _disconnected(error: KafkaError, complaint: KafkaError | None, servers: str) -> FencepostError:
    cause = complaint or error
    if cause.code() in _NOT_LET_IN:
        checked = "ssl.*" if cause.code() == KafkaError._SSL else "sasl.mechanism, the user and the password"
        return AuthenticationFailed(
            f"Kafka at {servers} refused authentication ({_readable(cause)})", f"check security.protocol, {checked}"
        )
    return Unreachable(
        f"Kafka does not answer at {servers} ({_readable(cause)})",
        "check that the brokers are up, the address, and security.protocol",
    )


def _readable(cause: KafkaError) -> str:
    """Without how long the connection was in which state, which librdkafka appends: of no use to a person."""
    return cause.str().partition(" (after ")[0]


class Complaints:
    """What a client's connections last ran into: its error_cb.

    Apart from whoever holds the client, so that one that is dropped takes its threads along.
    """

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def hear(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # says that nobody answers, but not why
            self.last = error
