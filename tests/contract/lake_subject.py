"""The lake's store over a table in memory: the same compare-and-set, without a lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.errors import InputCut
from fencepost.model import Span, TopicPartition
from fencepost.sinks.lake.document import Document
from fencepost.sinks.lake.store import LakeStore, Letters, Outrun


@dataclass
class Kept:
    """What outlives a handle."""

    rows: list[int] = field(default_factory=list)
    documents: dict[str, str] = field(default_factory=dict)


class Once:
    """Rows that are read once, before the commit."""

    def __init__(self, ids: Iterator[int]) -> None:
        self._ids = ids

    def read(self) -> list[int]:
        return list(self._ids)


@dataclass(frozen=True)
class Read:
    ids: list[int]

    @property
    def rows(self) -> int:
        return len(self.ids)

    def counts(self, spans: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, int] | None:
        return dict.fromkeys(spans, self.rows) if len(spans) == 1 else None


class TableInMemory:
    name = "numbers"

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def document(self, pipeline: str) -> Document | None:
        text = self._kept.documents.get(pipeline)
        return Document.from_json(text) if text else None

    def holds_rows(self) -> bool:
        return bool(self._kept.rows)

    def bury(self, _letters: Letters) -> None: ...

    def prepare(self, _pipeline: str, rows: Once) -> Read:
        return Read(rows.read())

    def commit(self, pipeline: str, before: Document | None, after: Document, rows: Read | None) -> None:
        newest = self.document(pipeline)
        if (newest.commit if newest else None) != (before.commit if before else None):
            raise Outrun
        self._kept.rows += rows.ids if rows else []
        self._kept.documents[pipeline] = after.to_json()

    def close(self) -> None: ...


class InLakeMemory:
    doubles = True

    def __init__(self) -> None:
        self._kept = Kept()

    def open(self) -> LakeStore:
        return LakeStore(TableInMemory(self._kept))

    def rows(self, ids: Sequence[int]) -> Once:
        return Once(iter(ids))

    def cut_rows(self, ids: Sequence[int]) -> Once:
        def cut() -> Iterator[int]:
            yield from ids
            raise InputCut("the input broke off")

        return Once(cut())

    def landed(self) -> list[int]:
        return list(self._kept.rows)
