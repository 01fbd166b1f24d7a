"""Stages of one run: made for each try of a batch, filled by its tasks, moved and dropped by the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.guarantee import Guarantee
from fencepost.model import Tenure, TopicPartition
from fencepost.sinks.postgres.connection import transaction
from fencepost.sinks.postgres.moving import Staged, move
from fencepost.sinks.postgres.stage import Attempt, Stage, drop_stages, name_for
from fencepost.sinks.postgres.store import PostgresSettings, PostgresStore

_numbers = count(1)  # of this process's stages


@dataclass(frozen=True)
class TaskStage:
    """A stage as tasks fill it, each through its own store, and as the driver reads their answers."""

    tables: Stage
    repeats: bool  # rows may be in the target already: at least once, after a crash

    @property
    def provenance(self) -> bool:
        return self.tables.provenance

    def fill(
        self,
        store: PostgresStore,
        task: int,
        attempt: int,
        rows: Iterable[pa.RecordBatch],
        in_order: Callable[[], bool],
    ) -> Attempt:
        filled = self.tables.fill(store.writer(), task, attempt, rows)
        return replace(filled, in_order=in_order())

    def rows(self, filled: Sequence[Mapping[str, Any]], letters: Mapping[TopicPartition, pa.RecordBatch]) -> Staged:
        return Staged(self.tables, tuple(map(_attempt, filled)), letters, self.repeats)


def _attempt(told: Mapping[str, Any]) -> Attempt:
    origins = tuple((topic, partition, size) for topic, partition, size in told["origins"])
    return Attempt(**{**told, "origins": origins})


@dataclass(frozen=True)
class Staging:
    """The driver's side."""

    settings: PostgresSettings
    tenure: Tenure
    provenance: bool
    store: PostgresStore

    @classmethod
    @contextmanager
    def opened(cls, settings: PostgresSettings, tenure: Tenure, provenance: bool) -> Iterator[Staging]:
        with closing(PostgresStore(replace(settings, merge=None), write=move)) as store:
            yield cls(settings, tenure, provenance, store)

    @contextmanager
    def stage(self) -> Iterator[TaskStage]:
        own = self.settings
        name = name_for(own.pipeline, self.tenure.token, next(_numbers))
        stage = Stage(own.schema, name, own.table, own.columns, self.provenance, own.merge, own.most_bad)
        stage.make(self.store.writer())
        try:
            yield TaskStage(stage, own.guarantee == Guarantee.AT_LEAST_ONCE)
        finally:
            with suppress(FencepostError):  # after the next batch, or whoever takes over next, it is tried again
                self._drop()

    def _drop(self) -> None:
        """Apart from the batch's own transaction, which must not wait for whoever looks at the stage."""
        with transaction(self.store.writer()) as connection:
            drop_stages(connection, self.settings.schema, self.tenure.pipeline, self.tenure.token, others=False)
