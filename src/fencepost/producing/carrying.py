"""Carrying a source into a topic, batch by batch. The order of sending and moving the place is the guarantee:

move, then send           at most once     a crash between loses the batch
send, then move           at least once    a crash between repeats it
both in one transaction   exactly once     and whoever carried before is fenced
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from fencepost.errors import Fenced, FencepostError, Refused, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Outcome
from fencepost.producing.batches import Batch, Limits, Reader
from fencepost.producing.bookmark import Bookmark
from fencepost.producing.events import Event
from fencepost.producing.producer import Producer
from fencepost.producing.sources.source import Place, Source
from fencepost.rows.bisect import bad_ones

_ATTEMPTS = 5  # of one transaction; each may have waited for more than a minute


Refusal = tuple[int, str]
"""An event's number in the source, and why."""


class _OnlyATry(Exception):
    """Nothing is wrong."""


def _give_up() -> None:
    raise _OnlyATry


@dataclass
class Carried:
    """What became of the source's events in this run; each counts once, however often it was tried."""

    sent: int = 0
    acked: int = 0
    refused: int = 0
    unknown: int = 0
    reason: str = ""  # why the first that was not acknowledged was not
    refusals: list[Refusal] = field(default_factory=list)


class Carrier:
    """One run over one source."""

    def __init__(
        self,
        producer: Producer,
        source: Source,
        bookmark: Bookmark | None = None,
        limits: Limits | None = None,
        *,
        skip_refused: bool = False,
        see: Callable[[], None] = lambda: None,
    ) -> None:
        """Without a bookmark nothing is remembered for the next run. `see` is called after each few events."""
        self._producer = producer
        self._source = source
        self._bookmark = bookmark
        self._limits = limits or Limits()
        self._skip_refused = skip_refused
        self._see = see
        self.carried = Carried()

    def carry(self, place: Place | None = None) -> Carried:
        """Everything behind the place; what stands before a broken line is carried before that is raised.

        Raises Fenced, Unknown, Unreachable, Refused (Broken for a line); `carried` says how far it got.
        """
        reader = Reader(self._source, place, self._limits)
        if self._source.fingerprint:
            self._producer.adopt(self._source.fingerprint)
        atomic = self._producer.guarantee is Guarantee.EXACTLY_ONCE and self._bookmark is not None
        while not reader.ended:
            batch = Batch(reader, place)
            if atomic:
                self._exactly_once(batch)
            elif self._producer.guarantee is Guarantee.AT_MOST_ONCE:
                self._at_most_once(batch)
            else:
                self._at_least_once(batch)
            place = batch.after
        if reader.broken is not None:
            raise reader.broken
        return self.carried

    # The three orders

    def _at_most_once(self, batch: Batch) -> None:
        chunks = list(batch.chunks())
        self._move(batch)
        for chunk in chunks:  # a crash before this loses the batch
            self._producer.send_all(chunk)
            self._see()
        self._settle(batch)

    def _at_least_once(self, batch: Batch) -> None:
        for chunk in batch.chunks():
            self._producer.send_all(chunk)
            self._see()
        self._settle(batch)
        self._move(batch)  # a crash before this repeats the batch

    def _exactly_once(self, batch: Batch) -> None:
        failures = 0
        while not self._landed(batch):
            failures += 1
            if failures == _ATTEMPTS:
                raise Unreachable(f"a transaction failed {_ATTEMPTS} times", "run again: nothing of it was committed")
        self.carried.sent += len(batch.events)
        self.carried.acked += len(batch.events)

    def _landed(self, batch: Batch) -> bool:
        """One attempt at it, without what was refused. False: nothing of it will be read, and it may be tried again."""
        while True:
            try:
                self._attempt(batch)
                return True
            except Refused as error:
                self._leave_out_refused(batch, error)
            except (Unknown, Unreachable) as error:
                return self._arrived(batch, error)
            except Fenced as error:
                self._count_lost_track(batch, error)
                raise

    def _attempt(self, batch: Batch) -> None:
        chunks = batch.chunks()
        first = next(chunks, None)
        if first is None and not batch.taken:
            return  # the end of the source
        with self._producer.transaction():
            for chunk in chain([first or []], chunks):
                self._producer.send_all(chunk)
                self._see()
            if self._bookmark is not None and batch.after is not None:
                self._bookmark.move_with(self._producer, batch.after)
        self._see()

    def _arrived(self, batch: Batch, trouble: FencepostError) -> bool:
        """Did the attempt land after all? First nobody else may be able to end it: then the stored place tells."""
        try:
            self._producer.take_over()
            stored = self._bookmark.read() if self._bookmark else None
        except Unreachable:
            self._count_lost_track(batch, trouble)
            raise trouble from None
        if stored is not None and stored == batch.after:
            return True
        if stored != batch.before:
            raise Fenced(
                f"the stored position is neither before nor behind the batch: {stored}",
                "another producer carries the same source: see which one should",
            )
        return False

    def _count_lost_track(self, batch: Batch, trouble: FencepostError) -> None:
        if self._producer.last_transaction is Outcome.UNKNOWN:
            self.carried.sent += len(batch.events)
            self.carried.unknown += len(batch.events)
            self.carried.reason = self.carried.reason or trouble.message

    # What the other two share

    def _move(self, batch: Batch) -> None:
        if self._bookmark is not None and batch.events and batch.after is not None:
            self._bookmark.move(batch.after)

    def _settle(self, batch: Batch) -> None:
        """Wait for the answers. Raises Unknown when one did not come though it was asked for."""
        before = self._producer.totals.outcomes.copy()
        totals = self._producer.flush()
        refused = self._refused_alone(batch, self._producer.take_refusals())
        more = totals.outcomes - before
        self.carried.sent += len(batch.events)
        self.carried.acked += more[Outcome.ACKED]
        self.carried.unknown += more[Outcome.UNKNOWN]
        self.carried.reason = totals.reason
        self._see()
        if refused:
            self._note_refused(refused)
        if more[Outcome.UNKNOWN] and self._producer.guarantee is not Guarantee.AT_MOST_ONCE:
            raise Unknown(f"{more[Outcome.UNKNOWN]} events may or may not have arrived: {totals.reason}")

    def _refused_alone(self, batch: Batch, refused: list[Refusal]) -> list[Refusal]:
        """Those that are refused by themselves too: a broker refuses all that came in one request for one of them."""
        if len(refused) < 2:
            return refused
        for event in _events(batch, refused):
            self._producer.send_all([event])
            self._producer.flush()
        return self._producer.take_refusals()

    def _leave_out_refused(self, batch: Batch, error: Refused) -> None:
        refused = self._producer.take_refusals()
        if not refused:
            raise error
        if len(refused) > 1:
            suspects = _events(batch, refused)
            found = bad_ones(0, len(suspects), lambda at, end: self._why_refused(suspects[at:end]), len(suspects))
            refused = [(suspects[at].number, why) for at, why in found]
        self.carried.sent += len(refused)
        self._note_refused(refused)
        numbers = {number for number, _ in refused}
        batch.events = [event for event in batch.events if event.number not in numbers]

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
        self.carried.refused += len(refused)
        self.carried.refusals += refused
        number, why = refused[0]
        self.carried.reason = self.carried.reason or why
        if not self._skip_refused:
            raise Refused(f"event {number} of the source was refused: {why}", "mend it, or give --errors skip")


def _events(batch: Batch, refused: list[Refusal]) -> list[Event]:
    numbers = {number for number, _ in refused}
    return [event for event in batch.events if event.number in numbers]
