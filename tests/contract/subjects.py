"""Everything that claims to be a ledger or a sink, as the suites drive it. New ones only register here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from contract.delta_subject import InDelta
from contract.iceberg_subject import InIceberg
from contract.kafka_subject import InKafka
from contract.lake_subject import InLakeMemory
from contract.parquet_subject import InParquet
from contract.postgres_subject import InPostgres
from fencepost.delivery import AtomicSink, Ledger, Sink
from fencepost.errors import InputCut
from fencepost.model import Mode
from fencepost.sinks.memory.ledger import MemoryLedger, Positions
from fencepost.sinks.memory.store import Memory, MemorySink, MemoryStore
from sqlite_sink.fencepost_sqlite.subject import InSqlite


def _cut(ids: Sequence[int]) -> Iterator[int]:
    yield from ids
    raise InputCut("the input broke off")


class InMemoryLedger:
    def __init__(self) -> None:
        self.stored: Positions = {}

    def open(self) -> Ledger:
        return MemoryLedger(self.stored)


class InMemorySink:
    doubles = True

    def __init__(self) -> None:
        self.stored: list[int] = []

    def open(self) -> Sink[Any]:
        return MemorySink(self.stored)

    def rows(self, ids: Sequence[int]) -> Any:
        return iter(ids)

    def cut_rows(self, ids: Sequence[int]) -> Any:
        return _cut(ids)

    def landed(self) -> list[int]:
        return list(self.stored)


class InMemoryStore(InMemorySink):
    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory(rows=self.stored)

    def open(self) -> AtomicSink[Any]:
        return MemoryStore(self.memory)


def _delta(request: pytest.FixtureRequest, mode: Mode) -> InDelta:
    return InDelta(request.getfixturevalue("tmp_path"), request.getfixturevalue("delta_spark"), mode)


def _iceberg(request: pytest.FixtureRequest) -> InIceberg:
    request.getfixturevalue("iceberg_java")
    return InIceberg(request.getfixturevalue("stack"), request.getfixturevalue("tmp_path"))


def _parquet(request: pytest.FixtureRequest, spark: bool) -> InParquet:
    servers, folder = request.getfixturevalue("stack").bootstrap_servers, request.getfixturevalue("tmp_path")
    return InParquet(servers, folder, request, request.getfixturevalue("delta_spark") if spark else None)


Maker = Callable[[pytest.FixtureRequest], Any]

ATOMIC_SINKS: dict[str, Maker] = {
    "memory": lambda _: InMemoryStore(),
    "lake": lambda _: InLakeMemory(),
    "postgres": lambda request: InPostgres(request.getfixturevalue("stack").dsn, request),
    "postgres-upsert": lambda request: InPostgres(request.getfixturevalue("stack").dsn, request, Mode.UPSERT),
    "postgres-dedupe": lambda request: InPostgres(request.getfixturevalue("stack").dsn, request, Mode.DEDUPE),
    "sqlite": lambda request: InSqlite(request.getfixturevalue("tmp_path")),
    "delta": lambda request: _delta(request, Mode.APPEND),
    "delta-upsert": lambda request: _delta(request, Mode.UPSERT),
    "delta-dedupe": lambda request: _delta(request, Mode.DEDUPE),
    "iceberg": _iceberg,
    "kafka": lambda request: InKafka(request.getfixturevalue("stack").bootstrap_servers, request),
    "kafka-single-use": lambda request: InKafka(request.getfixturevalue("stack").bootstrap_servers, request, False),
}
SINKS: dict[str, Maker] = {
    "memory": lambda _: InMemorySink(),
    "parquet-by-spark": lambda request: _parquet(request, spark=True),
    **{f"{k}-store": v for k, v in ATOMIC_SINKS.items()},
}
# that a pipeline file can name; those that are not atomic keep their positions elsewhere
STORES: dict[str, Maker] = {
    **{name: maker for name, maker in ATOMIC_SINKS.items() if name != "memory"},
    "parquet": lambda request: _parquet(request, spark=False),
}
_SAME_LEDGER = {"delta-upsert", "delta-dedupe"}  # as "delta": how rows are written is no matter to it
LEDGERS: dict[str, Maker] = {
    "memory": lambda _: InMemoryLedger(),
    "parquet": STORES["parquet"],
    **{f"{k}-store": v for k, v in ATOMIC_SINKS.items() if k not in _SAME_LEDGER},
}

# by tasks of Spark, or with a new producer for every batch: what the gate has of these is in tests/spark
_SLOW = ("delta", "delta-upsert", "delta-dedupe", "kafka-single-use")
_PROOFS = {"parquet-by-spark", *_SLOW, *(f"{name}-store" for name in _SLOW)}


def params(subjects: Iterable[str]) -> list[Any]:
    """The names, for a fixture; those that take long are proofs."""
    return [pytest.param(name, marks=pytest.mark.proof if name in _PROOFS else ()) for name in subjects]
