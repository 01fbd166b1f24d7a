"""Kafka's wire as far as the proxy reads it: the head of a request, and whether it will be answered."""

from __future__ import annotations

import struct
from enum import IntEnum


class Api(IntEnum):
    """Kinds of request, by Kafka's own keys and names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79


NAMES = {int(api): api.name for api in Api}

REQUEST = struct.Struct(">ihhih")  # size, api key, api version, correlation id, length of the client id
RESPONSE = struct.Struct(">ii")  # size, correlation id
SIZE_FIELD = 4  # the size does not count itself
SMALLEST_REQUEST = REQUEST.size - SIZE_FIELD
SMALLEST_RESPONSE = RESPONSE.size - SIZE_FIELD

_FIRST_FLEXIBLE_PRODUCE = 9
_FIRST_TRANSACTIONAL_PRODUCE = 3


def client_id(head: bytes) -> str:
    """The client id of the request that begins with these bytes; empty when it has none."""
    length: int = REQUEST.unpack_from(head)[4]
    return head[REQUEST.size : REQUEST.size + max(length, 0)].decode(errors="replace")


def is_answered(head: bytes) -> bool:
    """Will a response come? Produce with acks=0 is the one request that brokers never answer."""
    _, key, version, _, client_length = REQUEST.unpack_from(head)
    if key != Api.PRODUCE:
        return True
    at = REQUEST.size + max(client_length, 0)
    if version >= _FIRST_FLEXIBLE_PRODUCE:
        at = _after_tags(head, at)
        length, at = _unsigned(head, at)  # of the transactional id, plus one; zero for none
        at += max(length - 1, 0)
    elif version >= _FIRST_TRANSACTIONAL_PRODUCE:
        at += 2 + max(int.from_bytes(head[at : at + 2], signed=True), 0)
    return head[at : at + 2] != b"\0\0"


def _after_tags(data: bytes, at: int) -> int:
    """The offset behind the tagged fields of a header."""
    count, at = _unsigned(data, at)
    for _ in range(count):
        _tag, at = _unsigned(data, at)
        length, at = _unsigned(data, at)
        at += length
    return at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the offset behind it."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
