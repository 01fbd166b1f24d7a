"""What people use instead, beside ours, as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import here


@pytest.mark.proof
def test_plain_loops_lose_or_double_where_ours_does_not(tmp_path: Path) -> None:
    told = here("lab", "compare", "--seed", "5", "--home", tmp_path, "--format", "json").json
    ours, *others = told["trials"]
    assert told["verdict"] == "holds"
    assert (ours["setting"], ours["lost"], ours["duplicated"]) == ("fencepost, exactly-once", 0, 0)
    assert [bool(one["lost"]) for one in others] == [True, False, True]  # auto-commit, after, before
    assert [bool(one["duplicated"]) for one in others] == [False, True, False]
    assert here("lab", "show", "last", "--home", tmp_path).code == 0
