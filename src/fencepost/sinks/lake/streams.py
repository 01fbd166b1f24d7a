"""A stream that keeps state, in what a commit says of its pipeline: the last batch that landed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from fencepost.errors import PositionLost
from fencepost.model import StreamBatch

STREAM = "stream"


def told(stream: StreamBatch | None) -> dict[str, Any]:
    """Nothing where there is none."""
    return {} if stream is None else {STREAM: astuple(stream)}


def read(document: Mapping[str, Any]) -> StreamBatch | None:
    if document.get(STREAM) is None:
        return None
    query, number, offsets, watermark, next_watermark, checkpoint = document[STREAM]
    return StreamBatch(str(query), int(number), str(offsets), int(watermark), int(next_watermark), str(checkpoint))


def rows_are_there(table: str) -> PositionLost:
    """A state that begins empty would not know them."""
    return PositionLost(
        f"table {table!r} holds rows: those of records that are read again would come twice",
        "empty it (DELETE FROM), or leave it and give the pipeline another name, table and checkpoint",
    )
