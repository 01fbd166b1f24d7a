"""What cuts a task's input is a transform in a file, and fails on one record, once."""

from __future__ import annotations

import runpy
from pathlib import Path

from fencepost.lab.pipelines.cut_input import CutOnce


def test_the_file_holds_the_transform(tmp_path: Path) -> None:
    cut = CutOnce(("id", "_from"), 1, tmp_path / "witness", tmp_path / "delivered")
    assert cut.in_file(tmp_path) == {"spark": "cut_input.py:cut"}
    assert runpy.run_path(str(tmp_path / "cut_input.py"))["cut"] == cut
