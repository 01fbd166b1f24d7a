"""The store: rows go to the folder, positions to the pipeline's consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.errors import FencepostError, PositionLost
from fencepost.model import Batch, Landed
from fencepost.sinks.kafka.group_ledger import GroupLedger
from fencepost.sinks.parquet.folder import Folder
from fencepost.sinks.parquet.options import ParquetOptions
from fencepost.sinks.parquet.publishing import Stage


class ParquetStore(GroupLedger):
    """A batch's rows are a DataFrame, or None."""

    def __init__(self, target: ParquetTarget) -> None:
        super().__init__(target.kafka, target.pipeline, target.prefix)
        self._target = target

    def write(self, batch: Batch[Any]) -> Landed:
        if batch.rows is None:
            return Landed(0)
        stage = Stage(batch.rows.sparkSession, self._target.options, batch.tenure.pipeline, batch.tenure.epoch)
        rows = stage.fill(batch.rows)
        if rows:
            stage.publish()
        with suppress(FencepostError):  # the rows are there; the next batch clears what is left
            stage.discard()
        return Landed(rows)

    def _require_empty(self, pipeline: str) -> None:
        if Folder(self._target.options).holds_files():
            raise PositionLost(
                f"no position is stored for pipeline {pipeline!r}, but {self._target.options.path!r} holds files",
                "choose where to continue with `fencepost positions set`",
            )


@dataclass(frozen=True)
class ParquetTarget:
    """A folder, and whose positions are in which cluster."""

    options: ParquetOptions
    pipeline: str
    kafka: Mapping[str, str] = field(repr=False)
    prefix: str = ""  # of the group and of the transactional ids, where the cluster's ACLs go by prefix

    def open(self) -> ParquetStore:
        return ParquetStore(self)

    def without_secrets(self) -> tuple[ParquetTarget, Mapping[str, str]]:
        """Any setting may hold a password; an address alone does not."""
        if not self.kafka.keys() - {"bootstrap.servers"}:
            return self, {}
        return replace(self, kafka={}), self.kafka

    def with_secrets(self, secrets: Mapping[str, str]) -> ParquetTarget:
        return replace(self, kafka=secrets)
