"""What `sink.options` of a lake's table have in common: how rows of one key come together, and which columns it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from fencepost.model import Merge, Mode
from fencepost.sinks.options import SinkOptions


class LakeOptions(SinkOptions):
    """A table of a lake."""

    NOT_HERE: ClassVar[Mapping[str, str]] = {  # options of other sinks, and why they are none of this one
        "order_by": "of a key the highest offset of a partition has the row, and across partitions the later commit",
        "tombstones": "an event without a value is a row like any other; have the transform mark it",
    }
    CALLED: ClassVar[str] = "a table of a lake"

    mode: Mode = Mode.APPEND
    key: tuple[str, ...] = Field((), description="the columns that name a row; with mode upsert or dedupe")
    partition_by: tuple[str, ...] = Field((), description="columns by which a new table is partitioned")
    columns: Literal["strict", "evolve"] = Field(
        "strict", alias="schema", description="evolve: columns that the table lacks are added to it"
    )
    provenance: bool = Field(True, description="keep _topic, _partition, _offset and _n of each row")

    @model_validator(mode="before")
    @classmethod
    def _not_of_such_a_table(cls, given: Any) -> Any:
        for name, why in cls.NOT_HERE.items():
            if isinstance(given, Mapping) and name in given:
                raise PydanticCustomError("lake", f"{name} is no option of {cls.CALLED}: {why}")
        return given

    @model_validator(mode="after")
    def _keyed(self) -> LakeOptions:
        if self.mode is not Mode.APPEND and not self.key:
            raise PydanticCustomError("key", f"mode: {self.mode} needs a key; without one only mode: append can be had")
        if self.key and self.mode is Mode.APPEND:
            raise PydanticCustomError("key", "a key goes with mode: upsert or mode: dedupe")
        return self

    @property
    def merge(self) -> Merge | None:
        return None if self.mode is Mode.APPEND else Merge(self.mode, self.key)
