"""What a kind of sink brings: the one door through which everybody else meets it.

A kind is an object with the attributes and methods of `SinkKind`. What only some can do are protocols of their own:
they are asked for with `isinstance`, and what a sink cannot do is refused in one sentence (`require_able`). Those of
the audit and of receipts are in auditing.py, those of handlers in handlers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from fencepost.delivery import AtomicSink
from fencepost.errors import Usage
from fencepost.fence import Stored
from fencepost.guarantee import Guarantee
from fencepost.model import Landed, Span, StreamBatch, Tenure, TopicPartition
from fencepost.rules.sinks import Capabilities
from fencepost.sinks.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from fencepost.machine.ivy import Configuration

T = TypeVar("T")


@dataclass(frozen=True)
class SinkJob:
    """What a pipeline asks of its sink."""

    pipeline: str
    guarantee: Guarantee
    options: Any  # of the kind's own model
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)  # the source's cluster; may hold a password
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)  # the session's settings; the same
    dead_letters: bool = False  # bad records are kept beside the target
    letter_topic: str | None = None  # where, if that is a topic
    shared: bool = False  # several processes own parts of the pipeline at once, as a consumer group's members do
    streams: bool = False  # it keeps state: the last batch of its stream is kept beside the positions
    most_bad: int = 100  # records that are named at once: as many as may be dead letters


class Store(AtomicSink[Any], Protocol):
    """An open sink: where rows go, and where their positions are. One thread at a time."""

    def stored(self, pipeline: str) -> Stored:
        """Every position of the pipeline with its owner. Takes nothing over, and changes nothing."""

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        """Positions for partitions that have none; another member may have begun, and be at work on some."""

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        """Raises TopicRecreated where a stored topic id is another one: its offsets say nothing of these topics."""

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Put the positions of these topics elsewhere by hand; a run that is under way ends as fenced.

        `kept`: partitions that stay where they are, each with where to begin if nothing is stored of it.
        """

    def close(self) -> None: ...


class Target(Protocol):
    """A sink that is prepared. Crosses to workers, and is opened there."""

    def open(self) -> Store: ...


@runtime_checkable
class MayStay(Protocol):
    """A target whose stores can keep what they hold of a partition, where its next batch comes to the same one."""

    def staying(self) -> Target:
        """The same, for such stores."""


@dataclass(frozen=True)
class Fit:
    """How the rows of a pipeline go into the target that is there, or will be made."""

    columns: Mapping[str, str]  # with the types that they have there
    exists: bool
    warnings: Sequence[str] = ()


class SinkKind(Protocol):
    """Registered under `sink.format`: see registry.py."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def options(self) -> type[SinkOptions]: ...

    def settings(self, job: SinkJob) -> Mapping[str, str]:
        """What it sets that is not up to the user, for `plan`."""

    def columns(self, job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        """The types that a new target would have. Raises Usage for rows that cannot go there. Asks nobody."""

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        """The same against the target that is there. Raises Usage where it does not fit. Changes nothing."""

    def prepare(self, job: SinkJob, rows: pa.Schema) -> Target:
        """Make what is missing. Raises Usage where what is there does not fit."""

    def ledger(self, job: SinkJob) -> Store:
        """The same sink before anybody knows the rows: for its positions."""


# -- what only some can do


@runtime_checkable
class TakesRecords(Protocol):
    """Takes Kafka's records as they are, where no transform makes rows of them."""

    def prepare_records(self, job: SinkJob, rows: pa.Schema) -> Target:
        """As `prepare`, for a store that takes the client's messages, after a batch of dead letters where there are
        some. `rows`: what they would be as columns."""


class StagedRows(Protocol):
    """A batch's rows in their stage, as its store takes them: whole."""

    def shares(self, spans: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, Landed]:
        """How much of it came of each span."""


class Stage(Protocol):
    """A place of our own for one batch's rows. Crosses to the tasks, which fill it; the driver moves what is there."""

    @property
    def provenance(self) -> bool:
        """Do the rows know where they came from?"""

    def fill(self, store: Any, task: int, attempt: int, rows: Iterable[Any], in_order: Callable[[], bool]) -> Any:
        """In a task: all of its rows, and what the driver must know of them, as a dataclass of plain values.

        `in_order`: did the rows come by offset? Known when the last one was read.
        """

    def rows(self, filled: Sequence[Any], letters: Mapping[TopicPartition, Any]) -> StagedRows:
        """On the driver: what those attempts put there that count, told by what `fill` returned, through JSON."""


class Staging(Protocol):
    """The driver's side of it."""

    @property
    def store(self) -> Store:
        """It takes `StagedRows`."""

    def stage(self) -> AbstractContextManager[Stage]:
        """For one try of one batch; gone afterwards, or when the next one comes by."""


@runtime_checkable
class TakesTables(Protocol):
    """Takes batches whose plan mixes Kafka's partitions, by way of a stage."""

    def require_stage(self, job: SinkJob, node: str) -> None:
        """Raises Usage where its role may not make one. `node`: the part of the plan that needs it."""

    def staging(self, target: Any, tenure: Tenure, provenance: bool) -> AbstractContextManager[Staging]: ...


@runtime_checkable
class TakesFrames(Protocol):
    """Takes each batch whole, as a DataFrame on the driver, and writes it by Spark's own writer, in one commit."""

    def frames(self, target: Any, spark: Any) -> AbstractContextManager[Store]:
        """A store for batches of one term, whose rows are a DataFrame of this session, or None where they can be none.

        After any error it is closed, and the next batch gets another one.

        What Spark raises in a write passes through it as it is: then nothing of the batch is there.
        """


@runtime_checkable
class TakesFramesWithLetters(TakesFrames, Protocol):
    """Takes the dead letters of such a batch too."""

    def with_letters(self, store: Any, letters: Mapping[TopicPartition, pa.RecordBatch]) -> None:
        """The next batch that this store will be given comes with these, by partition; none: with no letters."""


@runtime_checkable
class KeepsStreams(Protocol):
    """Takes batches of a stream that keeps state: the number of the last one moves with the positions."""

    def last_batch(self, store: Any, pipeline: str) -> StreamBatch | None:
        """The last one that landed, in an open store of its own; None: none has."""

    def begin_stream(self, store: Any, tenure: Tenure, first: StreamBatch) -> None:
        """`first` is the last one from now on: it stands for none. May be repeated until one has landed."""

    def begin_anew(
        self,
        store: Any,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int],
    ) -> None:
        """As `set_positions`; the last batch is forgotten. Raises PositionLost where the target holds rows."""

    def require_no_rows(self, store: Any, pipeline: str) -> None:
        """Raises PositionLost where the target holds some: a state that begins empty would not know them."""


@dataclass(frozen=True)
class SparkNeeds:
    """What a Spark session must have for a sink."""

    jars: tuple[Configuration, ...]  # of machine/ivy.xml
    fixed: Mapping[str, str]  # settings that are not up to the user
    defaults: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class NeedsSpark(Protocol):
    """Spark itself writes to it, or reads it, and needs more than it has by itself."""

    def needs(self, job: SinkJob) -> SparkNeeds: ...


@runtime_checkable
class KeepsDeadLetters(Protocol):
    """Has a place beside the target for records that cannot be delivered."""

    def dead_letters(self, job: SinkJob) -> str:
        """Its name."""


@runtime_checkable
class CanBeLookedAt(Protocol):
    """`fencepost peek`."""

    def last_rows(self, job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Columns and rows, as they were written last."""


@runtime_checkable
class GoesByName(Protocol):
    """Its targets can be named on the command line, without a pipeline file."""

    @property
    def by_name(self) -> str:
        """As `audit --sink` takes it, such as topic:NAME."""

    def named(self, *names: str) -> SinkOptions:
        """Options for these targets; they may exist already, under a name that we would not give. Raises Usage."""


@dataclass(frozen=True)
class Prepared:
    """What was made for a pipeline, and what was there already."""

    pipeline: str
    made: list[str]
    there: list[str]
    role: str | None
    granted: list[dict[str, Any]]  # on, name, rights


@runtime_checkable
class CanBePrepared(Protocol):
    """`fencepost init --db`: made ready by its owner, so that the role which runs it needs no more than it uses."""

    def prepare_for(self, job: SinkJob, rows: pa.Schema, staged: bool, role: str | None) -> Prepared:
        """May be repeated, after a crash too."""


@runtime_checkable
class KnowsItsOwner(Protocol):
    """The owner sends heartbeats, so that another run can be a standby."""

    def last_seen(self, job: SinkJob) -> float | None:
        """Seconds since an owner was seen; None where there has been none."""

    def watch(self, target: Any, tenure: Tenure) -> AbstractContextManager[Callable[[], object]]:
        """A function that says so, on a connection of its own. It raises Fenced where another run took over."""


@runtime_checkable
class MakesFiles(Protocol):
    """Each batch leaves new files behind."""

    def files(self, job: SinkJob, an_hour: int) -> str:
        """What to say of so many, and what to do about it."""


@runtime_checkable
class ForgetsPositions(Protocol):
    """Its positions expire, unless they move or are stored again, which can only be done between two batches."""

    def expires_after(self, job: SinkJob) -> float:
        """Seconds."""


@dataclass(frozen=True)
class Activity:
    """What a pipeline did of late."""

    rows: int  # ever, as far as the spans go back
    dead: int
    rows_last_minute: int
    last_batch: datetime | None
    uncounted: int = 0  # offsets of which nobody knows how many rows came


@runtime_checkable
class RemembersBatches(Protocol):
    """Keeps what each commit covered."""

    def state(self, job: SinkJob) -> tuple[Stored, Activity, Guarantee | None]:
        """Its positions, what it did, and the guarantee under which it ran last, at one moment. Only reads."""

    def landed(self, store: Any, pipeline: str, runs: Collection[UUID], first: Mapping[TopicPartition, int]) -> Landed:
        """What these runs committed."""


@runtime_checkable
class HasSecrets(Protocol):
    """A target that need not carry its password to where it can be read there."""

    def without_secrets(self) -> tuple[Target, Mapping[str, str]]:
        """The target as everybody may see it, and what was taken out."""

    def with_secrets(self, secrets: Mapping[str, str]) -> Target:
        """Whole again."""


def require_able(kind: object, able: type[T], name: str, what: str) -> T:
    """The kind as one that can do it. Raises Usage."""
    if not isinstance(kind, able):
        raise Usage(f"sink {name!r} cannot {what}", "use another sink for that")
    return kind


def require_streams(kind: SinkKind) -> KeepsStreams:
    """The kind as one that takes streams with state. Raises Usage."""
    if isinstance(kind, KeepsStreams):
        return kind
    own = "moves the positions of a batch one by one" if kind.capabilities.group_ledger else "keeps positions alone"
    raise Usage(
        f"sink {kind.capabilities.name!r} {own}: of a stream with state (checkpoint) they move all at once, with the "
        "batch's number",
        "use another sink for that",
    )
