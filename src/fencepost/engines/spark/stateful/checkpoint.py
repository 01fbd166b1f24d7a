"""A checkpoint of Spark's as it is on disk: whose it is, and what its logs say of each batch.

Spark writes each file beside and renames it into its place: it is whole or not there. A copy of one may be torn.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.model import TopicPartition

_VERSION = re.compile(r"\.?(\d+)(?:_[0-9a-f-]+)?\.(?:delta|snapshot|zip|changelog)(?:\.crc)*")
_FORMAT = "v1"  # of both logs


@dataclass(frozen=True)
class Planned:
    """What Spark wrote down of a batch before it ran."""

    about: Mapping[str, Any]  # its watermark, and the settings that the state depends on
    offsets: str  # of each source, as JSON that equal ones share

    @property
    def watermark(self) -> int:
        return int(self.about["batchWatermarkMs"])


@dataclass(frozen=True)
class Checkpoint:
    """One folder."""

    folder: Path

    def query(self) -> str | None:
        """Spark's id of the stream; None where it cannot be told."""
        try:
            return str(json.loads((self.folder / "metadata").read_text())["id"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def planned(self, number: int) -> Planned | None:
        """None where it is not there, or torn."""
        try:
            format_, about, *sources = (self.folder / "offsets" / str(number)).read_text().split("\n")
            found = Planned(json.loads(about), _told([None if one == "-" else json.loads(one) for one in sources]))
            return found if format_ == _FORMAT and sources and found.watermark >= 0 else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def committed(self, number: int) -> int | None:
        """The watermark for the batch after it; None where Spark has not noted that the batch is done."""
        try:
            format_, about = (self.folder / "commits" / str(number)).read_text().split("\n")
            return int(json.loads(about)["nextBatchWatermarkMs"]) if format_ == _FORMAT else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def numbers(self, log: str) -> list[int]:
        """The batches in `offsets` or in `commits`, in order."""
        place = self.folder / log
        return sorted(int(path.name) for path in place.iterdir() if path.name.isdigit()) if place.is_dir() else []

    def lacks_state(self, version: int) -> str | None:
        """The first part of the state that has no such version; None where all of it is there."""
        parts = list(self._stores())
        if not parts:
            return "state"
        return next((str(one.relative_to(self.folder)) for one in parts if not _holds(one, version)), None)

    def sync(self, number: int, whole: bool) -> None:
        """What the batch left there outlives the machine's power, as its rows will. `whole`: everything, for once."""
        if whole:
            files = [path for path in self.folder.rglob("*") if path.is_file()]
        else:
            files = [one for store in self._stores() for one in store.iterdir() if version_of(one.name) == number + 1]
            files.append(self.folder / "offsets" / str(number))
        for path in [*files, *{file.parent for file in files}]:
            with suppress(FileNotFoundError):  # Spark clears old ones away
                sync(path)

    def _stores(self) -> Iterator[Path]:
        """Where each task keeps its part: of some operators in several stores."""
        for operator in sorted(self.folder.glob("state/*")):
            yield from _noted_stores(operator) or _found_stores(operator)


def sync(path: Path) -> None:
    """A file, or a folder with the names that are in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def version_of(name: str) -> int | None:
    """Which version of the state a file of that name holds; None where it is of all of them."""
    match = _VERSION.fullmatch(name)
    return int(match[1]) if match else None


def noted(about: Mapping[str, Any], *lines: str) -> str:
    """An entry of a log, as Spark writes it."""
    return "\n".join([_FORMAT, json.dumps(about, separators=(",", ":")), *lines])


def ends_of(offsets: str) -> dict[TopicPartition, int]:
    """Where the stream stands: of sources that read the same partition the one that is behind."""
    ends: dict[TopicPartition, int] = {}
    sources = json.loads(offsets)
    for source in sources if None not in sources else []:  # one that has read nothing yet holds all of them back
        for topic, each in source.items():
            for number, end in each.items():
                at = TopicPartition(topic, int(number))
                ends[at] = min(end, ends.get(at, end))
    return ends


def with_more(offsets: str, positions: Mapping[TopicPartition, int]) -> str:
    """The same, and where those of the partitions begin of which nothing was read yet."""
    sources = json.loads(offsets)
    for source in (one for one in sources if one is not None):
        for at, position in positions.items():
            source.setdefault(at.topic, {}).setdefault(str(at.partition), position)
    return _told(sources)


def beginning(positions: Mapping[TopicPartition, int]) -> str:
    """The same the other way, before there is a source."""
    topics: dict[str, dict[str, int]] = {}
    for at, position in positions.items():
        topics.setdefault(at.topic, {})[str(at.partition)] = position
    return _told([topics])


def lines_of(offsets: str) -> list[str]:
    """As they stand in Spark's log."""
    return ["-" if one is None else json.dumps(one, separators=(",", ":")) for one in json.loads(offsets)]


def _told(sources: list[Any]) -> str:
    return json.dumps(sources, sort_keys=True, separators=(",", ":"))


def _noted_stores(operator: Path) -> list[Path]:
    """As Spark noted them when it made the state; none where it did that in another way."""
    try:
        *_, last = (operator / "_metadata" / "metadata").read_text().splitlines()
        stores = [(str(one["storeName"]), int(one["numPartitions"])) for one in json.loads(last)["stateStoreInfo"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [
        operator / str(part) / ("" if name == "default" else name) for name, parts in stores for part in range(parts)
    ]


def _found_stores(operator: Path) -> Iterator[Path]:
    for part in sorted(path for path in operator.glob("*") if path.name.isdigit()):
        below = [one for one in sorted(part.iterdir()) if one.is_dir() and _is_store(one)]
        yield from below or [part]


def _is_store(folder: Path) -> bool:
    return not folder.name.startswith("_") and any(version_of(path.name) is not None for path in folder.iterdir())


def _holds(store: Path, version: int) -> bool:
    if not store.is_dir():
        return False
    return any(
        version_of(one.name) == version and not one.name.endswith(".crc") and one.stat().st_size
        for one in store.iterdir()
    )
