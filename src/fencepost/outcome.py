"""What a sender knows about one event."""

from enum import StrEnum


class Outcome(StrEnum):
    ACKED = "acked"  # it is in the log
    UNKNOWN = "unknown"  # it may be in the log, once or not at all
    REFUSED = "refused"  # it is not in the log
    ABORTED = "aborted"  # its transaction was aborted: in the log perhaps, but never to be read
