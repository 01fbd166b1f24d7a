"""What `fencepost audit` and `fencepost receipt` ask of a sink. The comparisons themselves are not its business."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fencepost.fence import Stored
from fencepost.model import Merge, Span, TopicPartition
from fencepost.sinks.kind import SinkJob

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SparkRead:
    """`spark.read.format(...).options(...).load()`."""

    format: str
    options: Mapping[str, str] = field(repr=False)  # may hold a password


@dataclass(frozen=True)
class Relation:
    """Rows that an engine of the audit reads: into this process, or by Spark, in as many parts as it likes.

    By a client that no writer uses, if there is one. Both raise Unreachable, and Usage for what cannot be read so.
    """

    arrow: Callable[[], pa.Table] = field(repr=False)
    spark: Callable[[], Sequence[SparkRead]] | None = field(default=None, repr=False)  # None: through this process


@dataclass(frozen=True)
class LandedRows:
    """A sink whose rows have no order: a table."""

    rows: Relation  # topic, part, pos, id, n, payload
    provenance: bool  # do they know where they came from?
    dead: Relation | None = None  # topic, part, pos, id


@dataclass(frozen=True)
class LandedRecords:
    """A sink of topics of the same cluster: records are compared by where they came from, where a header says it.

    Else by their ids. Their order is looked at, too.
    """

    topics: Sequence[str]
    dead: str | None = None  # the topic for dead letters
    origin: str = ""  # the header with topic/partition/offset/n of the record of which each was made; the first counts


@dataclass(frozen=True)
class Columns:
    """What else of the rows is compared."""

    id: str | None = None  # holds the event's id: then rows are compared by it, and not by where they came from
    payload: str | None = None  # holds the event's value as it was


@runtime_checkable
class CanBeAudited(Protocol):
    """Its side of the last hop."""

    def what_landed(self, job: SinkJob, columns: Columns) -> LandedRows | LandedRecords:
        """Reads no row yet. Raises Usage where the target, or one of the columns, is not there."""


@dataclass(frozen=True)
class KeyOrder:
    """How a sink compares keys, and the values by which the newest row is known."""

    reason: str = ""  # why that cannot be done elsewhere
    bytewise: bool = False  # are topics' names in the order of their bytes?


@runtime_checkable
class ComparesKeys(Protocol):
    """Merges rows of one key."""

    def key_order(self, job: SinkJob, merge: Merge) -> KeyOrder: ...


@dataclass(frozen=True)
class Commit:
    """What a commit says that it covered and wrote."""

    partition: TopicPartition
    span: Span
    rows: int | None  # None: not known, the position moved before the rows were written
    dead: int = 0


@runtime_checkable
class ListsCommits(Protocol):
    """Says how far a pipeline came, and by which commits. Nothing here writes."""

    def positions(self, job: SinkJob) -> Stored:
        """Every position of the pipeline, with its owner."""

    def commits(self, job: SinkJob) -> tuple[Stored, Sequence[Commit]]:
        """The same, and the commits in their order, at one moment.

        Those of topics that were deleted are kept as `topic@id`. Where there are very many, those that follow each
        other may come as one.
        """


@runtime_checkable
class ForgetsCommits(ListsCommits, Protocol):
    """Its commits are on record for a while only."""

    def forgets(self, job: SinkJob) -> bool:
        """Are the pipeline's first commits not on record any more? What they carried is then not compared."""


@dataclass(frozen=True)
class CommitsAt:
    """What is on record about one offset, at one moment."""

    stored: Stored
    over: Sequence[Commit]  # those that covered it
    earlier: Sequence[Commit]  # of topics of the same name that were deleted: those at, or around, these offsets
    forgotten: bool = False  # are the pipeline's first commits not on record any more?


@dataclass(frozen=True)
class RowsAt:
    """What is there of one record."""

    rows: int
    dead: str | None  # why it is among the dead letters, "" where that is not said; None: it is not
    firsts: int | None = None  # rows that are the first of their event; None: not known
    in_span: int | None = None  # rows of the whole span; None: not counted


@runtime_checkable
class AnswersReceipts(ListsCommits, Protocol):
    """`fencepost receipt`: what became of one event."""

    def commits_at(self, job: SinkJob, at: TopicPartition, offset: int) -> CommitsAt: ...

    def rows_at(self, job: SinkJob, at: TopicPartition, offset: int, firsts: bool, span: Span | None) -> RowsAt:
        """Look its row up. Raises Usage where rows do not know where they came from.

        `firsts`: count those that are the first of their event. `span`: count its rows, where nothing is found.
        """
