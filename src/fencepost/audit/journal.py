"""A producer's journal, as JSON lines: what it meant to send and what it was told. VerifiableProducer's is read too.

Intents come before outcomes. An intent without an outcome is unknown; a transaction without an end is too. An event
that was sent several times was acknowledged if one of the attempts was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.model import Outcome

JOURNAL = pa.schema(
    [
        ("id", pa.string()),
        ("outcome", pa.string()),
        ("transaction", pa.string()),  # null outside of one
        ("least", pa.int64()),  # how often it must be in the log
        ("most", pa.int64()),  # and how often it may be
    ]
)
MOST_AT_ONCE = 10_000_000  # events in one line: what a producer hands over between two answers is far less
LARGEST = 2**63 - 1
_ENDS = {"commit": Outcome.ACKED, "abort": Outcome.ABORTED, "unclear": Outcome.UNKNOWN}
_TOLD = {"acked": Outcome.ACKED, "refused": Outcome.REFUSED, "unknown": Outcome.UNKNOWN}
_WORTH = {Outcome.REFUSED: 0, Outcome.ABORTED: 1, Outcome.UNKNOWN: 2, Outcome.ACKED: 3}  # of several attempts
_VERIFIABLE = {"producer_send_success": Outcome.ACKED, "producer_send_error": Outcome.UNKNOWN}
_ABOUT_ITSELF = {"startup_complete", "shutdown_complete", "tool_data"}  # VerifiableProducer's, without an event


@dataclass
class Journal:
    """Every event that was meant to be sent, by id, with what became of it."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    transactions: dict[str, str] = field(default_factory=dict)  # by id of the event
    ids_are_values: bool = False  # VerifiableProducer: the value is the only id that there is
    sends: Counter[str] = field(default_factory=Counter)  # its values that were acknowledged, each as often as it was
    doubtful: Counter[str] = field(default_factory=Counter)  # and those that may be there besides
    ignored: int = 0  # lines that say nothing about an event

    def table(self) -> pa.Table:
        ids = list(self.outcomes)
        return pa.table(
            [
                ids,
                [self.outcomes[id_].value for id_ in ids],
                [self.transactions.get(id_) for id_ in ids],
                [self._least(id_) for id_ in ids],
                [self._most(id_) for id_ in ids],
            ],
            schema=JOURNAL,
        )

    def _least(self, id_: str) -> int:
        return self.sends[id_] if self.ids_are_values else int(self.outcomes[id_] is Outcome.ACKED)

    def _most(self, id_: str) -> int:
        if self.ids_are_values:
            return self.sends[id_] + self.doubtful[id_]
        return int(self.outcomes[id_] in (Outcome.ACKED, Outcome.UNKNOWN))

    def settle(self, ids: Iterable[str], outcome: Outcome) -> None:
        """One attempt at each of these came to this. The best of an event's attempts is what became of it."""
        for id_ in ids:
            before = self.outcomes.get(id_)
            if before is None or _WORTH[before] < _WORTH[outcome]:
                self.outcomes[id_] = outcome


def read_journals(paths: Iterable[Path]) -> Journal:
    """All of them together; each counts once, however often it is named. Raises Usage for what is none."""
    journal = Journal()
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() not in seen:
            seen.add(path.resolve())
            _Reader(journal, path).read()
    if journal.ids_are_values and len(journal.sends | journal.doubtful) < len(journal.outcomes):
        raise Usage(
            "a producer's journal and VerifiableProducer's output name events in different ways",
            "audit them one after the other, with a topic each",
        )
    return journal


class NotOfAJournal(Exception):
    """A line that no journal has."""


class _Reader:
    """One file: sessions of producers, one after the other."""

    def __init__(self, journal: Journal, path: Path) -> None:
        self._journal = journal
        self._path = path
        self._producer: str | None = None  # whose session it is
        self._sessions: Counter[str] = Counter()
        self._given: dict[int, str] = {}  # ids that the caller chose, by sequence
        self._open: set[str] = set()  # ids that were sent and have no outcome yet
        self._transaction: int | None = None
        self._inside: list[str] = []  # ids of the transaction that is open
        self._known = 0  # lines of a journal

    def read(self) -> None:
        number = ignored = 0
        try:
            with self._path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith(b"\n"):  # a kill -9 may have left half of the last one
                        ignored += not self._take(number, line)
        except OSError as error:
            raise Usage(f"the journal {self._path} cannot be read: {error.strerror}") from error
        self._end_session()
        if ignored and not self._known:
            raise Usage(f"{self._path}: it has no line of a producer's journal", "is it the right file?")
        self._journal.ignored += ignored

    def _take(self, number: int, line: bytes) -> bool:
        """False for JSON that says nothing about a producer's events."""
        try:
            known = self._entry(_parsed(line))
        except NotOfAJournal as reason:
            raise Usage(
                f"{self._path}, line {number}: not a line of a producer's journal: {reason}", "is it the right file?"
            ) from None
        self._known += known
        return known

    def _entry(self, entry: dict[str, Any]) -> bool:
        if isinstance(entry.get("name"), str):
            return self._verifiable(entry["name"], entry)
        if "journal" in entry:
            self._begin_session(_text(entry.get("producer"), "producer"))
        elif "sent" in entry:
            self._sent(entry["sent"], entry.get("id"))
        elif "begin" in entry:
            self._require_session()
            self._transaction, self._inside = _number(entry["begin"]), []
        else:
            return self._told(entry)
        return True

    def _begin_session(self, producer: str) -> None:
        self._end_session()
        self._producer = producer
        self._sessions[producer] += 1

    def _end_session(self) -> None:
        """What is open stays unknown."""
        self._journal.settle(self._open, Outcome.UNKNOWN)
        self._given, self._open, self._transaction, self._inside = {}, set(), None, []

    def _require_session(self) -> str:
        if self._producer is None:
            raise NotOfAJournal("no line before it says whose it is")
        return self._producer

    def _told(self, entry: dict[str, Any]) -> bool:
        words = [word for word in (*_ENDS, *_TOLD) if word in entry]
        if not words:
            return False
        self._require_session()
        for word in words:
            if word in _ENDS:
                _number(entry[word])
                self._settle(self._inside, _ENDS[word])
                self._transaction, self._inside = None, []
            elif self._transaction is None:  # inside, the transaction's end decides
                self._settle(list(self._ids(*_range(entry[word]))), _TOLD[word])
        return True

    def _settle(self, ids: list[str], outcome: Outcome) -> None:
        self._open.difference_update(ids)
        self._journal.settle(ids, outcome)

    def _sent(self, between: object, given: object) -> None:
        producer = self._require_session()
        first, last = _range(between)
        if given is not None:
            self._given[first] = _text(given, "id")
        turn = self._sessions[producer]
        session = f" (session {turn})" if turn > 1 else ""  # each counts its transactions from 1
        for id_ in self._ids(first, last):
            self._open.add(id_)
            if self._transaction is not None:
                self._journal.transactions[id_] = f"{producer}/{self._transaction}{session}"
                self._inside.append(id_)

    def _ids(self, first: int, last: int) -> Iterator[str]:
        for number in range(first, last + 1):
            yield self._given.get(number, f"{self._producer}:{number}")

    def _verifiable(self, name: str, entry: dict[str, Any]) -> bool:
        if name in _VERIFIABLE:
            value = _text(entry.get("value"), "value")
            outcome = _VERIFIABLE[name]
            self._journal.ids_are_values = True
            (self._journal.sends if outcome is Outcome.ACKED else self._journal.doubtful)[value] += 1
            self._journal.settle([value], outcome)
        return name in _VERIFIABLE or name in _ABOUT_ITSELF


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise NotOfAJournal("it is not JSON") from None
    if not isinstance(entry, dict):
        raise NotOfAJournal("it is not JSON object")
    return entry


def _number(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= LARGEST:
        raise NotOfAJournal(f"{_short(given)} is no number of an event or of a transaction")
    return given


def _range(given: object) -> tuple[int, int]:
    if not isinstance(given, list) or len(given) != 2:
        raise NotOfAJournal(f"{_short(given)} is no range of numbers")
    first, last = map(_number, given)
    if not 0 <= last - first < MOST_AT_ONCE:
        raise NotOfAJournal(f"{_short(given)} is no range of numbers that a producer sends at once")
    return first, last


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise NotOfAJournal(f"{what} is {_short(given)}, not a text")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise NotOfAJournal(f"{what} has half a character in it") from None
    return given


def _short(given: object) -> str:
    try:
        text = json.dumps(given)
    except ValueError:  # an integer of more digits than Python prints
        text = "a number"
    return text if len(text) <= 40 else f"{text[:40]}..."
