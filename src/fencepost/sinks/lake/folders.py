"""Columns whose values are the names of folders: what can be none, and what would be the same one."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from fencepost.errors import Refused
from fencepost.sinks.lake.merging import bad_records, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the folder of what is null
LONGEST = 255  # bytes of a name, on any file system
_ESCAPED = r"""[\x01-\x1F\x7F"#%'*/:=?\\{\[\]^]"""  # a character of these becomes three, by Hive's rule


def apart(rows: DataFrame, partition_by: Collection[str]) -> DataFrame:
    """An empty text goes into the folder of null, as readers have it: Spark's writer fails where both are there."""
    from pyspark.sql import functions as f

    for name in _texts(rows, partition_by):
        column = f.col(quoted(name))
        rows = rows.withColumn(name, f.when(~column.isin("", NO_VALUE), column))
    return rows


def no_folders(rows: DataFrame, partition_by: Collection[str], most: int, url: bool = False) -> Refused | None:
    """The records of one partition with a value that can be no folder's name, where that is why a write failed.

    `url`: folders are named as in an URL, where a byte that is no plain character becomes three.
    """
    for name in _texts(rows, partition_by):
        why = f"{name} can be no folder's name: it has a NUL character, or is longer than {LONGEST} bytes"
        if url:
            why = f"{name} can be no folder's name: in an URL's encoding it is longer than {LONGEST} bytes"
        if refusal := bad_records(rows, _is_none(name, url), why, most):
            return refusal
    return None


def _is_none(name: str, url: bool) -> Column:
    from pyspark.sql import functions as f

    column = f.col(quoted(name))
    if url:
        return f.octet_length(f.url_encode(column)) > LONGEST - len(quote_plus(name)) - 1
    size = f.octet_length(f.regexp_replace(column, _ESCAPED, "xxx"))
    return column.contains("\0") | (size > LONGEST - len(name.encode()) - 1)


def _texts(rows: DataFrame, partition_by: Collection[str]) -> list[str]:
    wanted = {name.lower() for name in partition_by}
    return [name for name, kind in rows.dtypes if name.lower() in wanted and kind == "string"]
