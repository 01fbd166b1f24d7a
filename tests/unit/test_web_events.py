"""What a pipeline made of one record, told from its position and its commits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fencepost.audit.fates import Fate
from fencepost.model import Span, TopicPartition
from fencepost.sinks.auditing import Commit
from fencepost.sinks.knowing import CommitsOver, TimedCommit
from fencepost.web.pages.events import landing

AT, WHEN = TopicPartition("t", 0), datetime(2026, 1, 1, tzinfo=UTC)


def commit(start: int, end: int, rows: int | None = 5, dead: int = 0) -> TimedCommit:
    return TimedCommit(Commit(AT, Span(start, end), rows, dead), WHEN)


@pytest.mark.parametrize(
    ("offset", "commits", "fate", "look", "behind"),
    [
        (7, [commit(5, 10)], Fate.PROCESSED, "holds", 0),
        (12, [], Fate.WAITING, "waits", 3),
        (7, [], Fate.SKIPPED, "broken", 0),
        (7, [commit(0, 5), commit(8, 10)], Fate.SKIPPED, "broken", 0),
        (7, [commit(5, 10, None)], Fate.UNKNOWN, "weak", 0),
    ],
)
def test_fates(offset: int, commits: list[TimedCommit], fate: Fate, look: str, behind: int) -> None:
    found = landing("p", offset, CommitsOver(10, commits))
    assert (found.fate, found.look, found.behind) == (fate, look, behind)


def test_dead_letters_of_its_batch_are_told() -> None:
    assert "2 in the dead letters" in landing("p", 7, CommitsOver(10, [commit(5, 10, 3, 2)])).note


def test_a_partition_that_was_never_read_waits() -> None:
    assert landing("p", 3, CommitsOver(None, [])).fate is Fate.WAITING
