"""`sink.options` of a PostgreSQL sink."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from fencepost.model import Merge, Mode
from fencepost.sinks.options import Seconds, SinkOptions

LONGEST_NAME = 63  # bytes, in PostgreSQL


class PostgresOptions(SinkOptions):
    """A table in PostgreSQL."""

    dsn: str | None = Field(None, description="libpq's connection string; absent: the local stack", repr=False)
    table: Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)?$")]
    mode: Mode = Mode.APPEND
    key: tuple[str, ...] = Field((), description="the columns that name a row; with mode upsert or dedupe")
    order_by: str | None = Field(None, description="upsert: the row with the highest value in this column wins")
    tombstones: Literal["keep", "delete"] = Field("keep", description="upsert: what an event without a value does")
    provenance: bool = Field(True, description="keep _topic, _partition, _offset and _n of each row")
    ledger_schema: str = Field("fencepost", description="where Fencepost's own tables are")
    ledger_retention: Seconds = Field(
        timedelta(days=7), ge=timedelta(hours=1), description="how long each commit has a row of its own there"
    )

    @model_validator(mode="after")
    def _short(self) -> PostgresOptions:
        """PostgreSQL cuts a name off behind 63 bytes, and then means another table."""
        for name in (*self.table.split("."), self.ledger_schema):
            if len(name.encode(errors="replace")) > LONGEST_NAME:
                raise PydanticCustomError(
                    "name",
                    f"{name!r} has {len(name.encode(errors='replace'))} bytes; PostgreSQL's names have 63 at most",
                )
        return self

    @model_validator(mode="after")
    def _keyed(self) -> PostgresOptions:
        if self.mode is not Mode.APPEND and not self.key:
            raise PydanticCustomError("key", f"mode: {self.mode} needs a key; without one only mode: append can be had")
        if self.key and self.mode is Mode.APPEND:
            raise PydanticCustomError("key", "a key goes with mode: upsert or mode: dedupe")
        if self.mode is not Mode.UPSERT and (self.order_by or self.tombstones != "keep"):
            raise PydanticCustomError("upsert", "order_by and tombstones go with mode: upsert")
        if self.order_by and self.tombstones == "delete":
            raise PydanticCustomError(
                "upsert", "order_by cannot hold with tombstones: delete; a deleted row leaves nothing to compare with"
            )
        return self

    @property
    def name(self) -> str:
        return self.table

    @property
    def merge(self) -> Merge | None:
        """How rows of one key come together; None where every row is added."""
        if self.mode is Mode.APPEND:
            return None
        return Merge(self.mode, self.key, self.order_by, self.tombstones == "delete")

    def completed(self, local_dsn: Callable[[], str]) -> Self:
        return self if self.dsn is not None else self.model_copy(update={"dsn": local_dsn()})
