"""What became of each event, by its number: settled in ranges, with the exceptions one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Numbers
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.model import Outcome


class DeliveryReport(NamedTuple):
    """An outcome, and why."""

    outcome: Outcome
    why: str = ""


class Settled(NamedTuple):
    """A run of numbers with the same report, both ends included."""

    first: int
    last: int
    report: DeliveryReport


class Sequence(NamedTuple):
    """Numbers, both ends included."""

    first: int
    last: int


PENDING = DeliveryReport(Outcome.UNKNOWN, "no answer yet")


@dataclass
class Totals:
    """How many events ended how, and why the first that was not acknowledged was not."""

    sent: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reason: str = ""

    def add(self, report: DeliveryReport, events: int = 1) -> None:
        self.outcomes[report.outcome] += events
        if events and report.why and not self.reason:
            self.reason = report.why

    @property
    def all_acked(self) -> bool:
        return self.sent == self.outcomes[Outcome.ACKED]


class DeliveryReports:
    """Of one producer's events. Numbers rise; memory grows with what is open or failed, not with events."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._open: list[Sequence] = []  # sent and not settled
        self._acked: set[int] = set()  # of those, the ones whose answer came
        self._settled: list[Settled] = []
        self.failed: dict[int, DeliveryReport] = {}  # of the open ones

    def sent(self, first: int, last: int) -> None:
        self.totals.sent += last - first + 1
        if self._open and self._open[-1].last == first - 1:
            self._open[-1] = Sequence(self._open[-1].first, last)
        else:
            self._open.append(Sequence(first, last))

    def ack(self, number: int) -> None:
        """One of the open events is in the log."""
        self._acked.add(number)

    def fail(self, number: int, report: DeliveryReport) -> None:
        """One of the open events ended otherwise than the others will. Of a settled one nothing new is learnt."""
        if any(first <= number <= last for first, last in self._open):
            self.failed[number] = report

    def settle_answered(self) -> list[Settled]:
        """The events before the first that still waits for its answer are settled. Returns them in ranges."""
        done: list[Settled] = []
        while self._open:
            first, last = self._open[0]
            reached = first
            while reached <= last and (reached in self._acked or reached in self.failed):
                reached += 1
            if reached > first:
                done += self._close(first, reached - 1, DeliveryReport(Outcome.ACKED))
            if reached <= last:
                self._open[0] = Sequence(reached, last)
                break
            self._open.pop(0)
        return done

    def settle(self, report: DeliveryReport) -> list[Settled]:
        """Everything that is open has this report now, but for what failed. Returns it in ranges."""
        done = [part for first, last in self._open for part in self._close(first, last, report)]
        self._open.clear()
        return done

    def _close(self, first: int, last: int, report: DeliveryReport) -> list[Settled]:
        parts: list[Settled] = []
        start = first
        for number in sorted(number for number in self.failed if first <= number <= last):
            if start < number:
                parts.append(Settled(start, number - 1, report))
            parts.append(Settled(number, number, self.failed.pop(number)))
            start = number + 1
        if start <= last:
            parts.append(Settled(start, last, report))
        self._acked.difference_update(range(first, last + 1) if self._acked else ())
        for part in parts:
            self.totals.add(part.report, part.last - part.first + 1)
            self._note(part)
        return parts

    def _note(self, one: Settled) -> None:
        """A later report of the same number replaces an earlier one: an aborted event was sent again."""
        while self._settled and self._settled[-1].first >= one.first:
            self._settled.pop()
        before = self._settled[-1] if self._settled else None
        if before and before.last >= one.first - 1 and before.report == one.report:
            self._settled[-1] = Settled(before.first, one.last, one.report)
        else:
            self._settled.append(one)

    def report(self, number: int) -> DeliveryReport:
        """What is known of an event by now."""
        if number in self.failed:
            return self.failed[number]
        if number in self._acked:
            return DeliveryReport(Outcome.ACKED)
        if any(first <= number <= last for first, last in self._open):
            return PENDING
        at = bisect_right(self._settled, number, key=lambda one: one.first) - 1
        return self._settled[at].report if at >= 0 and self._settled[at].last >= number else PENDING


def runs(numbers: Numbers[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as ranges, both ends included."""
    if isinstance(numbers, range):
        if numbers:
            yield numbers[0], numbers[-1]
        return
    first = last = None
    for number in numbers:
        if first is None or last is None or number != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last
