"""A short soak, as a user types it: what it says of itself, and that nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import here


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sink", ["postgres", "kafka"])
def test_nothing_is_lost_or_doubled_while_two_things_at_a_time_are_broken(tmp_path: Path, sink: str) -> None:
    words = ["--minutes", "0.5", "--seed", "7", "--sink", sink, "--engine", "python", "--home", tmp_path]
    told = here("lab", "soak", *words, "--format", "json").json
    assert (told["verdict"], told["lost"], told["duplicated"], told["phantom"]) == ("holds", 0, 0, 0)
    assert told["sent"] == told["landed"] == 2 * 30 * 400
    assert sum(told["blows"].values()) >= told["hit_in_flight"] > 0
    assert told["recovery_seconds"]["p50"] > 0
    assert here("lab", "show", "last", "--home", tmp_path).code == 0


def test_a_sink_that_is_not_soaked_is_refused_before_anything_starts(tmp_path: Path) -> None:
    ended = here("lab", "soak", "--sink", "delta", "--home", tmp_path / "lab")
    assert ended.code == 2
    assert "postgres or kafka" in ended.complaint
