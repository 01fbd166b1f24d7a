"""A checkpoint that is forked while its old owner, who was replaced and does not know it, goes on writing there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from fencepost.engines.spark.stateful.checkpoint import Checkpoint, Planned, noted
from fencepost.engines.spark.stateful.folders import fork
from fencepost.model import StreamBatch, TopicPartition

POSITIONS = {TopicPartition("t", 0): 5}
OFFSETS = json.dumps([{"t": {"0": 5}}], separators=(",", ":"))
WATERMARK, NEXT = 1_000, 2_000
LAST = StreamBatch(str(uuid4()), 3, OFFSETS, WATERMARK, NEXT, "epoch-1-00000000")


def plan(folder: Path, number: int, watermark: int) -> None:
    path = folder / "offsets" / str(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(noted({"batchWatermarkMs": watermark}, json.dumps({"t": {"0": 5}})))


@dataclass(frozen=True)
class StillWritten(Checkpoint):
    """Its owner plans the next batch right after somebody has looked for it."""

    def planned(self, number: int) -> Planned | None:
        found = super().planned(number)
        plan(self.folder, LAST.number + 1, WATERMARK)
        return found


def made(folder: Path) -> Path:
    plan(folder, LAST.number, WATERMARK)
    (folder / "commits").mkdir()
    (folder / "commits" / str(LAST.number - 1)).write_text(noted({"nextBatchWatermarkMs": WATERMARK}))
    return folder


def test_a_batch_that_is_planned_meanwhile_does_not_hide_the_one_that_the_watermark_asks_for(tmp_path: Path) -> None:
    fork(StillWritten(made(tmp_path / "old")), tmp_path / "new", LAST, POSITIONS)
    new = Checkpoint(tmp_path / "new")
    assert new.numbers("offsets") == [LAST.number, LAST.number + 1]
    following = new.planned(LAST.number + 1)
    assert following is not None
    assert following.watermark == NEXT
    assert new.committed(LAST.number) == NEXT


def test_a_batch_that_was_planned_is_planned_still(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    plan(old, LAST.number + 1, NEXT + 1)
    fork(Checkpoint(old), tmp_path / "new", LAST, POSITIONS)
    following = Checkpoint(tmp_path / "new").planned(LAST.number + 1)
    assert following is not None
    assert following.watermark == NEXT + 1
