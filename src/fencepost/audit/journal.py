"""A producer's journal, as JSON lines: what it meant to send and what it was told. VerifiableProducer's is read too.

Intents come before outcomes. An intent without an outcome is unknown; a transaction without an end is too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.outcome import Outcome

JOURNAL = pa.schema(
    [
        ("id", pa.string()),
        ("outcome", pa.string()),
        ("transaction", pa.string()),  # null outside of one
    ]
)
_ENDS = {"commit": Outcome.ACKED, "abort": Outcome.ABORTED, "unclear": Outcome.UNKNOWN}
_TOLD = {"acked": Outcome.ACKED, "refused": Outcome.REFUSED, "unknown": Outcome.UNKNOWN}


@dataclass
class Journal:
    """Every event that was meant to be sent, by id, with what became of it."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    transactions: dict[str, str] = field(default_factory=dict)  # by id of the event
    ids_are_values: bool = False  # VerifiableProducer: the value is the only id that there is

    def table(self) -> pa.Table:
        ids = list(self.outcomes)
        return pa.table(
            [ids, [self.outcomes[id_].value for id_ in ids], [self.transactions.get(id_) for id_ in ids]],
            schema=JOURNAL,
        )


def read_journals(paths: Iterable[Path]) -> Journal:
    journal = Journal()
    for path in paths:
        _Reader(journal, path).read()
    return journal


class _Reader:
    """One file: sessions of producers, one after the other."""

    def __init__(self, journal: Journal, path: Path) -> None:
        self._journal = journal
        self._path = path
        self._producer = ""
        self._given: dict[int, str] = {}  # ids that the caller chose, by sequence
        self._transaction: int | None = None
        self._inside: list[str] = []  # ids of the transaction that is open

    def read(self) -> None:
        try:
            with self._path.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith("\n"):  # a kill -9 may have left half of the last one
                        self._take(self._parsed(number, line))
        except OSError as error:
            raise Usage(f"the journal {self._path} cannot be read: {error.strerror}") from error

    def _parsed(self, number: int, line: str) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise Usage(f"{self._path}, line {number}: this is not a journal of a producer", "is it the right file?")
        return entry

    def _take(self, entry: dict[str, Any]) -> None:
        if "journal" in entry:
            self._producer, self._given, self._transaction, self._inside = entry["producer"], {}, None, []
        elif "sent" in entry:
            self._sent(entry["sent"], entry.get("id"))
        elif "begin" in entry:
            self._transaction, self._inside = entry["begin"], []
        elif str(entry.get("name", "")).startswith("producer_send_"):
            self._verifiable(entry)
        else:
            self._told(entry)

    def _told(self, entry: dict[str, Any]) -> None:
        for word, outcome in _ENDS.items():
            if word in entry:
                self._journal.outcomes.update(dict.fromkeys(self._inside, outcome))
                self._transaction, self._inside = None, []
        for word, outcome in _TOLD.items():
            if word in entry and self._transaction is None:  # inside, the transaction's end decides
                self._journal.outcomes.update(dict.fromkeys(self._ids(*entry[word]), outcome))

    def _sent(self, between: list[int], given: str | None) -> None:
        first, last = between
        if given is not None:
            self._given[first] = given
        for id_ in self._ids(first, last):
            self._journal.outcomes[id_] = Outcome.UNKNOWN
            if self._transaction is not None:
                self._journal.transactions[id_] = f"{self._producer}/{self._transaction}"
                self._inside.append(id_)

    def _ids(self, first: int, last: int) -> Iterator[str]:
        for number in range(first, last + 1):
            yield self._given.get(number, f"{self._producer}:{number}")

    def _verifiable(self, entry: dict[str, Any]) -> None:
        told = {"producer_send_success": Outcome.ACKED, "producer_send_error": Outcome.UNKNOWN}
        self._journal.ids_are_values = True
        if entry["name"] in told:
            self._journal.outcomes[str(entry["value"])] = told[entry["name"]]
