"""`sink.options` of a Delta table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from fencepost.sinks.lake.options import LakeOptions
from fencepost.sinks.options import Location


class DeltaOptions(LakeOptions):
    """A Delta table."""

    NOT_HERE: ClassVar[Mapping[str, str]] = {
        "table": "positions and status read its log without Spark, which alone knows its catalog; give its path",
        **LakeOptions.NOT_HERE,
    }
    CALLED: ClassVar[str] = "a Delta table"

    path: Location = Field(description="of the table: an absolute path, or a URI that Spark and deltalake both know")

    @property
    def name(self) -> str:
        return self.path
