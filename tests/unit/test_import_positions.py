"""Spark's checkpoints, as far as a pipeline goes on from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.admin.import_positions import of_checkpoint
from fencepost.errors import Usage


def checkpoint(folder: Path, commits: list[int], offsets: dict[int, list[str]], version: str = "v1") -> Path:
    for name in ("commits", "offsets"):
        (folder / name).mkdir()
    for number in commits:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for number, lines in offsets.items():
        (folder / "offsets" / str(number)).write_text("\n".join([version, '{"batchTimestampMs":1}', *lines]))
    return folder


def test_the_last_committed_batch_counts_and_one_that_was_begun_is_told(tmp_path: Path) -> None:
    offsets = {0: ['{"orders":{"0":5}}'], 1: ['{"orders":{"0":9,"1":4}}'], 2: ['{"orders":{"0":12,"1":6}}']}
    found = of_checkpoint(checkpoint(tmp_path, [0, 1], offsets), ["orders"])
    assert found.positions == {"orders": {0: 9, 1: 4}}
    assert "batch 2 was started but not committed" in found.warning


def test_of_several_sources_the_one_with_the_topic_counts(tmp_path: Path) -> None:
    lines = ['{"logOffset":3}', "-", '{"orders":{"0":7},"returns":{"0":1}}']
    found = of_checkpoint(checkpoint(tmp_path, [4], {4: lines}), ["orders"])
    assert (found.positions, found.warning) == ({"orders": {0: 7}}, "")


@pytest.mark.parametrize(
    ("commits", "offsets", "version", "reason"),
    [
        ([], {0: ['{"orders":{"0":5}}']}, "v1", "no committed batch"),
        ([1], {0: ['{"orders":{"0":5}}']}, "v1", "its offsets are missing"),
        ([0], {0: ['{"returns":{"0":5}}']}, "v1", "does not read orders"),
        ([0], {0: ['{"orders":{"0":5}}']}, "v9", "format 'v9'"),
        ([0], {0: ["junk"]}, "v1", "not a Spark offset file"),
    ],
)
def test_what_is_no_use_is_refused(
    tmp_path: Path, commits: list[int], offsets: dict[int, list[str]], version: str, reason: str
) -> None:
    with pytest.raises(Usage, match=reason):
        of_checkpoint(checkpoint(tmp_path, commits, offsets, version), ["orders"])
