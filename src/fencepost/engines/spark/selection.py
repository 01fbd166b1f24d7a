"""A select whose columns cross to the JVM once a run: each is several calls, and a small batch feels them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame


class Selection:
    """Of frames in one JVM that have these columns."""

    def __init__(self, columns: Sequence[Column | str]) -> None:
        self._columns = columns
        self._there: Any = None  # the same, as the JVM has them

    def of(self, frame: DataFrame) -> DataFrame:
        if self._there is None:
            self._there = frame._jcols(*self._columns)  # type: ignore[operator]
        return wrapped(frame._jdf.select(self._there), frame)


def wrapped(there: Any, like: DataFrame) -> DataFrame:
    """What is in the JVM, in the session of that frame."""
    return type(like)(there, like.sparkSession)


def queried(sql: str, frame: DataFrame) -> DataFrame:
    """In the frame's session: one call, where pyspark makes one for each part of an empty list of arguments."""
    return wrapped(frame.sparkSession._jsparkSession.sql(sql), frame)
