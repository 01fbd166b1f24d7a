"""Everything that Fencepost raises on purpose, under one root.

    FencepostError                 exit code
    ├── Usage                      2   the input, a setting or the pipeline file is wrong
    │   └── UnsupportedGuarantee   2   this combination cannot hold the declared guarantee
    ├── Unreachable                3   Kafka, the sink, Java or a process of the local stack does not answer
    ├── Fenced                     4   somebody else owns the position now; do not restart
    │   └── Rewound                3   our own position is behind the batch: the store went back in time
    ├── Unknown                    5   it may have happened or not: read the position, never guess
    ├── Refused                    1   the sink said no; nothing of it was written
    │   ├── Poison                 1   records that cannot be decoded, cast or stored, by their offsets
    │   └── Repeated               1   records whose rows are there already, by their offsets
    ├── InputCut                   1   the rows ended before their span did; nothing may be committed
    └── PositionLost               1   where to go on cannot be known without a person
        ├── TopicRecreated         1   the topic of that name is another one now
        ├── RecordsGone            1   records that were not read yet do not exist any more
        └── CheckpointMismatch     1   Spark's checkpoint and the stored positions tell different things

`run --once` and `consume --once` end with 3 as well where offsets are left that other members hold and nobody was seen
to carry. The command line adds two of its own (cli/streams.py): OutputFailed 3, stdout cannot be written; ReaderGone
141, nobody reads it any more. Any other exception is unexpected: one line, exit code 6 (`audit`: 5), and
its traceback with --debug.

An error says what is wrong and where in its message, and what to do about it in `remedy`.
The exceptions of a driver never leave the module that calls it: they are translated there, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.guarantee import Guarantee


class FencepostError(Exception):
    """The root; `exit_code` is what the command ends with, `remedy` what a person can do."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}" if self.remedy else self.message

    def facts(self) -> dict[str, object]:
        """Everything that the error carries: what crosses from a Spark task to its driver."""
        return {"error": type(self).__name__, **self.__dict__}

    def __reduce__(self) -> tuple[object, ...]:
        return from_facts, (self.facts(),)


def from_facts(facts: Mapping[str, object]) -> FencepostError:
    """The error again, on the other side of a process boundary."""
    kinds = {kind.__name__: kind for kind in _tree(FencepostError)}
    kind = kinds[str(facts["error"])]
    error = kind.__new__(kind, facts["message"])
    error.__dict__.update({name: value for name, value in facts.items() if name != "error"})
    return error


def _tree(kind: type[FencepostError]) -> list[type[FencepostError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _tree(child))]


class Usage(FencepostError):
    """The input is wrong: names the field, the value, and what is allowed."""

    exit_code = 2


class UnsupportedGuarantee(Usage):
    """This combination cannot hold `asked`; `nearest` is the nearest guarantee that it can, if any."""

    def __init__(self, asked: Guarantee, reason: str, nearest: Guarantee | None, remedy: str = "") -> None:
        offer = f"{nearest} is possible here" if nearest else "no guarantee is possible here"
        super().__init__(f"{asked} cannot hold: {reason}", f"{offer}; {remedy}" if remedy else offer)
        self.asked = asked
        self.reason = reason
        self.nearest = nearest


class Unreachable(FencepostError):
    """Did not answer, and certainly did nothing: safe to try again after a wait."""

    exit_code = 3


class Fenced(FencepostError):
    """Another owner holds the position, or it is neither at the batch's start nor at its end."""

    exit_code = 4


class Rewound(Fenced):
    """Our own position lies before the batch: a failover lost it. Go on from the ledger."""

    exit_code = 3
    takeover_lost = False  # and with it that we took over


class Unknown(FencepostError):
    """The outcome is unknown: it may have landed. Only the stored position can tell."""

    exit_code = 5


class Refused(FencepostError):
    """The sink refused the rows; trying the same rows again changes nothing.

    `about_values`: of some of the rows, for what they hold. Else it is the table, the server or the transform itself,
    and no record is to blame.
    """

    def __init__(self, message: str, remedy: str = "", about_values: bool = False) -> None:
        super().__init__(message, remedy)
        self.about_values = about_values


class Poison(Refused):
    """Records of one partition that cannot be decoded, cast or stored; `records` holds (offset, reason)."""

    def __init__(self, partition: str, records: Sequence[tuple[int, str]]) -> None:
        (offset, reason), *more = records
        also = f" (and {len(more)} more)" if more else ""
        super().__init__(
            f"{partition} offset {offset}{also}: {reason}",
            "fix the transform or the table, or set on_error: dead_letter to write such records to the dead letters",
            about_values=True,
        )
        self.partition = partition
        self.records = list(records)


class Repeated(Refused):
    """The table takes the rows of these records only once, and has them: an attempt wrote them and did not advance."""

    def __init__(self, partition: str, offsets: Sequence[int], refusal: str) -> None:
        super().__init__(f"{partition} offset {offsets[0]}: its row exists already: {refusal}", about_values=True)
        self.partition = partition
        self.offsets = list(offsets)


class InputCut(FencepostError):
    """The rows ended before their span did: a commit now would lose the rest."""


class PositionLost(FencepostError):
    """No position is stored, and starting from scratch could lose or duplicate what is there already."""


class TopicRecreated(PositionLost):
    """The topic was deleted and created again: going on would skip or mix up records."""


class RecordsGone(PositionLost):
    """Unread records are gone, by retention or by deletion; names the partition and the range."""


class CheckpointMismatch(PositionLost):
    """A stream of one's own begins elsewhere than where its partitions stand; names both."""
