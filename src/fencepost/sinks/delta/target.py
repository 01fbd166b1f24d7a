"""A Delta table that is prepared, and opened on Spark's driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencepost.model import Merge

if TYPE_CHECKING:
    from fencepost.sinks.delta.store import DeltaStore


@dataclass(frozen=True)
class DeltaTarget:
    """What a writer must know of it."""

    path: str
    merge: Merge | None = None
    evolves: bool = False  # columns that the table lacks are added
    guarantee: str | None = None
    partitioned: tuple[str, ...] = ()  # by these columns
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # deltalake's own options

    def open(self) -> DeltaStore:
        from fencepost.sinks.delta.store import DeltaStore

        return DeltaStore(self)
