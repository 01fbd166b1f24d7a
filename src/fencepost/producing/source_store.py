"""A topic as the sink of one source's events, with the source's position: what `deliver` writes to and advances.

Under exactly-once both go in one transaction, and the transactional.id is the fence: whoever takes it over ends what
its predecessor had open, and stores a token of its own. Brokers fence a producer whose transaction took too long, too:
by the token it knows that nobody has replaced it. The other two orders take two steps, and nobody is fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

from fencepost.errors import Fenced, FencepostError, Refused, Unknown
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Outcome, Tenure, TopicPartition
from fencepost.producing.batches import Chunks
from fencepost.producing.events import Event
from fencepost.producing.source_position import SourcePosition, StoredPlace
from fencepost.producing.source_producer import SourceProducer
from fencepost.producing.sources.source import Place
from fencepost.rows.bisect import bad_ones

Refusal = tuple[int, str]
"""An event's number in the source, and why."""


class _OnlyATry(Exception):
    """Nothing is wrong."""


def _give_up() -> None:
    raise _OnlyATry


@dataclass
class SourceTotals:
    """What became of the source's events in this run; each counts once, however often it was tried."""

    sent: int = 0
    acked: int = 0
    refused: int = 0
    unknown: int = 0
    reason: str = ""  # why the first that was not acknowledged was not
    refusals: list[Refusal] = field(default_factory=list)


class SourceStore:
    """An atomic sink. Without a position nothing is remembered for the next run."""

    def __init__(
        self,
        producer: SourceProducer,
        position: SourcePosition | None,
        start: Callable[[], Place],
        totals: SourceTotals,
        *,
        skip_refused: bool = False,
        see: Callable[[], None] = lambda: None,
    ) -> None:
        """`start` gives the source's beginning where nothing is stored, or raises. `see` is called after each few
        events."""
        self._producer = producer
        self._position = position
        self._start = start
        self._skip_refused = skip_refused
        self._see = see
        self._owner = ""  # our token, from when it was stored
        self._known = False  # is it certain what is stored?
        self._stored: Place | None = None
        self.totals = totals

    @property
    def atomic(self) -> bool:
        return self._producer.guarantee is Guarantee.EXACTLY_ONCE and self._position is not None

    @property
    def place(self) -> Place | None:
        """Where the source stands, as far as we know."""
        return self._stored

    @property
    def certain(self) -> bool:
        """Is it known what became of the last transaction?"""
        return self._known

    # The sink

    def write(self, batch: Batch[Chunks]) -> Landed:
        """For the two guarantees that take two steps. Waits for every answer.

        Raises Unknown when one did not come though it was asked for, Refused where an event was and is not skipped.
        """
        self._send(batch)
        self._settle(batch.rows.events)
        return Landed(len(batch.rows.events))

    @contextmanager
    def transaction(self, batch: Batch[Chunks]) -> Iterator[SourceTransaction]:
        """Commits on a clean exit. After any error it is unknown until the position was read again."""
        self._known = False
        with self._producer.transaction():
            yield SourceTransaction(self)
        self._learn(batch.rows.after)
        self._see()

    def _send(self, batch: Batch[Chunks]) -> None:
        for chunk in batch.rows.chunks():
            self._producer.send_all(chunk)
            self._see()

    # The ledger

    def done(self, batch: Batch[Chunks]) -> bool:
        """From memory while that is certain. After trouble the transactional.id is taken again first, so that nobody
        can end what is open any more: then the stored position tells. Raises Fenced where we were replaced, and then
        nothing is certain."""
        if self._position is None:
            return False
        if not self._known:
            self._read(self._position)
        if batch.rows.after is not None and self._stored == batch.rows.after:
            return True
        if self._stored != batch.rows.before:
            self._known = False
            raise Fenced(
                f"the stored position is neither at the start nor at the end of the batch: {self._stored}",
                "another producer sends the same source: see which one should",
            )
        return False

    def advance(self, batch: Batch[Chunks]) -> None:
        """By itself, to where the batch ends, which is then read to its end."""
        if self._position is not None:
            after = batch.rows.read()
            self._known = False
            self._position.store(after)
            self._learn(after)

    def _advance_with(self, batch: Batch[Chunks]) -> None:
        if self._position is not None:
            self._position.store_with(self._producer, batch.rows.read(), self._owner)

    def retreat(self, _batch: Batch[Chunks]) -> None:
        """Never: some of the events may be in the log, and at most once none is sent again."""

    def positions(self, _pipeline: str) -> Mapping[TopicPartition, int]:
        """How many events of the source were sent, as stored."""
        stored = self._position.read() if self._position is not None else None
        return {} if stored is None else _number(stored.place)

    def take_over(
        self, pipeline: str, run: UUID, _first: Mapping[TopicPartition, int], _topic_ids: Mapping[str, str]
    ) -> Tenure:
        """Where nothing is stored, the source's start is, before anything is sent.

        Otherwise a first run that was killed would leave records, if only aborted ones, and no position.
        """
        if self._position is not None:
            self._read(self._position)
            if self._stored is None:
                self._store(self._position, self._start(), str(run))
        return Tenure(pipeline, run, 0, _number(self._stored or {}))

    def claim(self, tenure: Tenure) -> None:
        """Store whose the position is now, before the first batch is sent, where that is not stored yet."""
        if self.atomic and self._position is not None and not self._owner and self._stored is not None:
            self._store(self._position, self._stored, str(tenure.token))

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        if self.atomic:
            self._producer.take_over()
        return tenure.renewed(run, tenure.positions)

    def _read(self, position: SourcePosition) -> None:
        if self.atomic:
            self._own(position)  # first: nobody else can move the position from here on
        stored = position.read()
        if self._owner and stored is not None and stored.owner != self._owner:
            raise _replaced(stored)
        self._learn(stored.place if stored else None)

    def _own(self, position: SourcePosition) -> None:
        try:
            self._producer.take_over()
        except Fenced as fenced:
            stored = position.read()
            if not self._owner or stored is None:
                raise
            if stored.owner != self._owner:
                raise _replaced(stored) from fenced
            self._producer.take_back()

    def _store(self, position: SourcePosition, place: Place, owner: str) -> None:
        if self.atomic:
            with self._producer.transaction():
                position.store_with(self._producer, place, owner)
            self._owner = owner
        else:
            position.store(place)
        stored = position.read()
        self._learn(stored.place if stored else None)

    def _learn(self, stored: Place | None) -> None:
        self._stored, self._known = stored, True

    # What became of the events

    def count_landed(self, batch: Batch[Chunks]) -> None:
        """Its transaction was committed."""
        self.totals.sent += len(batch.rows.events)
        self.totals.acked += len(batch.rows.events)

    def count_lost_track(self, batch: Batch[Chunks], trouble: FencepostError) -> None:
        """Nobody can tell what became of its transaction, if so."""
        if self._producer.last_transaction is Outcome.UNKNOWN:
            self.totals.sent += len(batch.rows.events)
            self.totals.unknown += len(batch.rows.events)
            self.totals.reason = self.totals.reason or trouble.message

    def leave_out_refused(self, batch: Batch[Chunks], error: Refused) -> None:
        """So that the batch can be tried again without them. Raises Refused unless they are to be skipped."""
        refused = self._producer.take_refusals()
        if not refused:
            raise error
        if len(refused) > 1:
            suspects = _among(batch.rows.events, refused)
            found = bad_ones(0, len(suspects), lambda at, end: self._why_refused(suspects[at:end]), len(suspects))
            refused = [(suspects[at].number, why) for at, why in found]
        self.totals.sent += len(refused)
        self._note_refused(refused)
        batch.rows.leave_out({number for number, _ in refused})

    def _settle(self, events: list[Event]) -> None:
        before = self._producer.totals.outcomes.copy()
        totals = self._producer.flush()
        refused = self._refused_alone(events, self._producer.take_refusals())
        more = totals.outcomes - before
        self.totals.sent += len(events)
        self.totals.acked += more[Outcome.ACKED]
        self.totals.unknown += more[Outcome.UNKNOWN]
        self.totals.reason = totals.reason
        self._see()
        if refused:
            self._note_refused(refused)
        if more[Outcome.UNKNOWN] and self._producer.guarantee is not Guarantee.AT_MOST_ONCE:
            raise Unknown(f"{more[Outcome.UNKNOWN]} events may or may not have arrived: {totals.reason}")

    def _refused_alone(self, events: list[Event], refused: list[Refusal]) -> list[Refusal]:
        """Those that are refused by themselves too: a broker refuses all that came in one request for one of them."""
        if len(refused) < 2:
            return refused
        for event in _among(events, refused):
            self._producer.send_all([event])
            self._producer.flush()
        return self._producer.take_refusals()

    def _why_refused(self, events: list[Event]) -> str | None:
        """A try in a transaction that is aborted in any case."""
        try:
            with suppress(_OnlyATry), self._producer.transaction():
                self._producer.send_all(events)
                self._producer.await_delivery()
                _give_up()
        except Refused:
            return self._producer.take_refusals()[0][1]
        return None

    def _note_refused(self, refused: list[Refusal]) -> None:
        self.totals.refused += len(refused)
        self.totals.refusals += refused
        number, why = refused[0]
        self.totals.reason = self.totals.reason or why
        if not self._skip_refused:
            raise Refused(f"event {number} of the source was refused: {why}", "fix it, or give --errors skip")


class SourceTransaction:
    """Events and the source's position, read together or not at all."""

    def __init__(self, store: SourceStore) -> None:
        self._store = store

    def write(self, batch: Batch[Chunks]) -> Landed:
        self._store._send(batch)
        return Landed(len(batch.rows.events))

    def advance(self, batch: Batch[Chunks]) -> None:
        self._store._advance_with(batch)


def _replaced(stored: StoredPlace) -> Fenced:
    return Fenced(
        f"another run of this source took over (owner {stored.owner or 'unknown'})",
        "leave it to that one, or stop it and start this one again",
    )


def _among(events: list[Event], refused: list[Refusal]) -> list[Event]:
    numbers = {number for number, _ in refused}
    return [event for event in events if event.number in numbers]


def _number(place: Place) -> dict[TopicPartition, int]:
    """A place as the offset of a source's only partition."""
    return {TopicPartition("source", 0): int(place.get("number", 0))}
