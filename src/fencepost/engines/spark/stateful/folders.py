"""The folders of a pipeline's checkpoint: one for each term of an owner, made from the one before.

A driver that was replaced goes on writing state until somebody tells it. In a folder of its own it spoils nobody's.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fencepost.engines.spark.stateful.checkpoint import (
    Checkpoint,
    Planned,
    ends_of,
    lines_of,
    noted,
    sync,
    version_of,
    with_more,
)
from fencepost.model import StreamBatch, Tenure, TopicPartition

_NAME = re.compile(r"epoch-(\d+)-([0-9a-f]{8})(\.part)?")
_TEMPORARY = re.compile(r".*\.tmp(\..*)?|\.nfs.*")
_ENTRY = re.compile(r"\.?(\d+)(\.crc)?")


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and not name.endswith(".part")


def name_for(tenure: Tenure) -> str:
    return f"epoch-{tenure.epoch}-{tenure.token.hex[:8]}"


def checkpoints(root: Path) -> list[Checkpoint]:
    """All that are whole, the newest last."""
    found = [(int(match[1]), path) for path in _folders(root) if (match := _NAME.fullmatch(path.name)) and not match[3]]
    return [Checkpoint(path) for _, path in sorted(found)]


def clear(root: Path, tenure: Tenure, kept: Path | None) -> None:
    """Those of earlier terms, once this one has landed a batch. `kept`: what it was made from, for a rewound ledger.

    Never those of later ones: whoever does this may have been replaced meanwhile.
    """
    earlier = {token.hex[:8] for token in tenure.earlier}
    for path in _folders(root):
        match = _NAME.fullmatch(path.name)
        if match and path != kept and (int(match[1]) < tenure.epoch or match[2] in earlier):
            shutil.rmtree(path, ignore_errors=True)


def _folders(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []


def fork(old: Checkpoint, new: Path, last: StreamBatch, positions: Mapping[TopicPartition, int]) -> None:
    """`new` is `old` as the batch left it that landed last; what is beyond, a replaced owner may have made.

    Files are linked where the file system has that: none of them is ever written again. That the batch is done is
    noted where Spark did not come to it: run again it might choose other rows, and the state would not be that of the
    rows that landed. So is the batch without records that the watermark asks for, and where partitions begin that were
    added since (`positions`): Spark would read a topic from its first record, wherever it is to begin.
    """
    part = new.with_name(f"{new.name}.part")
    for at, _, names in os.walk(old.folder):
        here = Path(at).relative_to(old.folder)
        (part / here).mkdir(parents=True, exist_ok=True)
        for name in names:
            if _belongs(old, here, name, last.number):
                _take(Path(at) / name, part / here / name)
    commit = part / "commits" / str(last.number)
    if not commit.exists():
        _write(commit, noted({"nextBatchWatermarkMs": last.next_watermark}))
    taken = Checkpoint(part)  # its old owner may have planned on since
    planned, following = taken.planned(last.number), taken.planned(last.number + 1)
    if planned and not following and last.next_watermark > last.watermark:
        following = replace(planned, about={**planned.about, "batchWatermarkMs": last.next_watermark})
        _write(part / "offsets" / str(last.number + 1), _entry(following))
    if planned and positions.keys() - ends_of((following or planned).offsets).keys():
        for number, one in ((last.number, planned), (last.number + 1, following)):
            if one is not None:
                _write(part / "offsets" / str(number), _entry(replace(one, offsets=with_more(one.offsets, positions))))
    for folder in [path for path in part.rglob("*") if path.is_dir()]:
        sync(folder)
    part.rename(new)
    sync(new.parent)


def _belongs(old: Checkpoint, here: Path, name: str, number: int) -> bool:
    if _TEMPORARY.fullmatch(name):
        return False
    match here.parts[:1]:
        case ("offsets",):
            entry = _ENTRY.fullmatch(name)
            last = number + 1 if old.planned(number + 1) else number
            return entry is not None and int(entry[1]) <= last
        case ("commits",):
            entry = _ENTRY.fullmatch(name)
            last = number if old.committed(number) is not None else number - 1
            return entry is not None and int(entry[1]) <= last
        case ("state",):
            version = version_of(name)
            return version is None or version <= number + 1
    return True


def _take(source: Path, target: Path) -> None:
    with suppress(FileNotFoundError):  # its owner has cleared it away meanwhile: it is old
        try:
            os.link(source, target)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            shutil.copyfile(source, target)


def _entry(planned: Planned) -> str:
    return noted(planned.about, *lines_of(planned.offsets))


def _write(path: Path, text: str) -> None:
    """Beside what is linked there, and its checksum, which stay what they are for the folder that they come from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for linked in (path, path.with_name(f".{path.name}.crc")):
        linked.unlink(missing_ok=True)
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
