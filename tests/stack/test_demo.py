"""The demo as it is shown, on fewer events: what it says of us holds, and the usual recipe breaks."""

from __future__ import annotations

import pytest

from fencepost.demo.story import tell_story

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("sink", ["postgres", "kafka", "delta", "iceberg"])
def test_the_story_of_each_sink(sink: str) -> None:
    said: list[str] = []
    verdict = tell_story(said.append, events=40_000, sink=sink)
    assert verdict.holds, said
    assert verdict.control.duplicated > 0, said
