"""What every sink's options in a pipeline file have in common, and the kinds of value that they are made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from fencepost.model import Merge

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(value: object) -> object:
    """`500ms`, `1s`, `2m` or a number of seconds."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return value
    try:
        return timedelta(seconds=float(match["number"]) * _UNITS[match["unit"] or "s"])
    except OverflowError:
        raise PydanticCustomError("duration", "a duration of more years than there are") from None


_AS_WRITTEN: dict[str, object] = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h)?\s*$|^P"}],
    "description": "500ms, 1s, 2m, 1h, or a number of seconds",
}
Seconds = Annotated[timedelta, BeforeValidator(_seconds), WithJsonSchema(_AS_WRITTEN)]
_URI = re.compile(r"[a-z][a-z0-9+.-]*://[^%]+", re.ASCII)


def _location(value: str) -> str:
    """An escape in a URI would mean one folder to Spark's clients and another one to the others."""
    if _URI.fullmatch(value) or (value.startswith("/") and len(value) > 1):
        return value
    why = "a URI without % escapes" if "://" in value else "an absolute path, or a URI such as s3://bucket/folder"
    raise PydanticCustomError("location", f"it must be {why}, not {value!r}")


Location = Annotated[
    str, AfterValidator(_location), WithJsonSchema({"type": "string", "pattern": "^(/|[a-z][a-z0-9+.-]*://)."})
]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class SinkOptions(BaseModel):
    """`sink.options`. A sink adds its own; what it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    provenance: bool = Field(True, description="keep where each row came from")

    @property
    def name(self) -> str:
        """Of the target, as people know it."""
        raise NotImplementedError

    @property
    def merge(self) -> Merge | None:
        """How rows of one key come together; None where every row is added."""
        return None

    @property
    def topics_written(self) -> tuple[str, ...]:
        """Topics of the pipeline's own cluster among its targets: it must not read them."""
        return ()

    def completed(self, _local_dsn: Callable[[], str]) -> Self:
        """With the local stack's address where the file gives none."""
        return self

    def require_pipeline(self, _name: str) -> None:
        """Raises PydanticCustomError for options that cannot go with a pipeline of this name."""
