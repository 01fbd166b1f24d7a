"""`sink.options` of a folder of Parquet files."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from fencepost.sinks.options import Location, SinkOptions


class ParquetOptions(SinkOptions):
    """A folder of Parquet files."""

    path: Location = Field(description="of the folder: an absolute path, or a URI that Spark and pyarrow both know")
    partition_by: tuple[str, ...] = Field((), description="columns whose values are the names of folders, not rows")
    provenance: bool = Field(True, description="keep _topic, _partition, _offset and _n of each row")

    @field_validator("partition_by")
    @classmethod
    def _can_be_seen(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name.startswith(("_", ".")):
                raise PydanticCustomError("partition_by", f"{name!r}: readers skip folders that begin with _ or a dot")
        if len({name.lower() for name in names}) < len(names):
            raise PydanticCustomError("partition_by", "a column is named twice")
        return names

    @property
    def name(self) -> str:
        return self.path
